//! Charts for terminals: lines, steps and points over axes with round ticks, in braille or in
//! ASCII.

mod canvas;
mod frame;
#[cfg(test)]
mod tests;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};

use super::theme::{Palette, Theme};
use crate::report::figure::axis::Range;
use crate::report::figure::{Figure, HeatMap, Mark, Series, SeriesRole, Unseen};
use crate::report::sparkline::Charset;
use crate::report::wording::width;
use canvas::{Canvas, Pattern, Pen};
use frame::PlotFrame;

/// More points than this are drawn as single dots.
const CROWD: usize = 400;

impl Figure<'_> {
    /// Draws it into `area` of `buffer`.
    pub fn draw(&self, buffer: &mut Buffer, area: Rect, theme: Theme) {
        let area = area.intersection(buffer.area);
        if area.is_empty() {
            return;
        }
        let Some((x, y)) = self.ranges() else {
            return self.draw_empty(buffer, area, theme);
        };
        let frame = PlotFrame::new(self, &x, &y, area, theme.charset);
        let mut canvas = Canvas::new(frame.plot.width, frame.plot.height, theme.charset);
        for series in &self.series {
            let Series { tone, .. } = *series;
            let pattern = self.pattern_of(tone, theme);
            let pen = canvas.pen(style_of(tone, theme), sign_of(tone), pattern);
            draw_series(&mut canvas, series, (pen, symbol_of(series, theme)), (&x, &y));
        }
        frame.draw(buffer, theme);
        if let Some(cells) = &self.cells {
            draw_cells(buffer, frame.plot, cells, (&x, &y), theme);
        }
        canvas.render(buffer, frame.plot);
        self.draw_title(buffer, frame.title, self.unseen(Some((&x, &y))), theme);
        self.draw_legend(buffer, frame.legend, theme);
    }

    fn draw_empty(&self, buffer: &mut Buffer, area: Rect, theme: Theme) {
        let title = Rect { height: area.height.min(1), ..area };
        self.draw_title(buffer, title, self.unseen(None), theme);
        let text = theme.shorten(self.empty, usize::from(area.width));
        let x = area.x + (area.width - columns(&text).min(area.width)) / 2;
        if area.height > 1 {
            let y = area.y + area.height / 2;
            buffer.set_stringn(x, y, &text, usize::from(area.width), theme.dim());
        }
    }

    /// How the lines and bars of a series are drawn.
    fn pattern_of(&self, tone: SeriesRole, theme: Theme) -> Pattern {
        let is_best = |series: &Series<'_>| {
            series.tone == SeriesRole::Best && !matches!(series.mark, Mark::Dots | Mark::Star)
        };
        match (tone, theme.palette) {
            (_, Palette::Colours) | (SeriesRole::Best, _) => Pattern::Solid,
            (SeriesRole::Compared(index), Palette::Monochrome) => {
                let first = usize::from(self.series.iter().any(is_best));
                PATTERNS[(index + first) % PATTERNS.len()]
            }
            (SeriesRole::Behind, Palette::Monochrome) => Pattern::Sparse,
        }
    }

    fn draw_title(&self, buffer: &mut Buffer, area: Rect, unseen: Unseen, theme: Theme) {
        if area.is_empty() {
            return;
        }
        let room = usize::from(area.width);
        let note = unseen.said(theme.either(" · ", ", "));
        let taken = if note.is_empty() { 0 } else { width(&note) + 2 };
        let title = theme.shorten(&self.title, room.saturating_sub(taken));
        buffer.set_stringn(area.x, area.y, &title, room, theme.strong());
        if width(&title) + width(&note) < room {
            buffer.set_stringn(area.right() - columns(&note), area.y, &note, room, theme.dim());
        }
    }

    fn draw_legend(&self, buffer: &mut Buffer, area: Rect, theme: Theme) {
        if area.is_empty() {
            return;
        }
        let mut column = area.x;
        let named = self.legend();
        for (index, series) in named.iter().enumerate() {
            let pattern = self.pattern_of(series.tone, theme);
            let text = format!("{} {}", sample(series, pattern, theme), series.name);
            let left = named.len() - index;
            let more = format!("+{left}");
            let all = usize::from(area.right().saturating_sub(column));
            // Room for the number of those that do not fit, unless this is the last.
            let room = all.saturating_sub(if left > 1 { width(&more) + 1 } else { 0 });
            if width(&text) > room && index > 0 {
                buffer.set_stringn(column, area.y, &more, all, theme.dim());
                return;
            }
            let text = theme.shorten(&text, room);
            buffer.set_stringn(column, area.y, &text, room, style_of(series.tone, theme));
            column = column.saturating_add(columns(&text) + 2);
        }
    }
}

/// Columns of a text, as the screen counts.
fn columns(text: &str) -> u16 {
    u16::try_from(width(text)).unwrap_or(u16::MAX)
}

fn draw_series(
    canvas: &mut Canvas,
    series: &Series<'_>,
    (pen, symbol): (Pen, Option<char>),
    (x, y): (&Range, &Range),
) {
    let few = series.points.len() <= CROWD;
    let mut before: Option<(f64, f64)> = None;
    for (index, (at, value)) in series.points.iter().enumerate() {
        let is_finite = at.is_finite() && value.is_finite();
        let place = x.place(*at).zip(y.place(*value)).filter(|_| is_finite);
        let Some((across, up)) = place else {
            before = None;
            continue;
        };
        let spot = canvas.at(across, up);
        match (series.mark, before, symbol) {
            (Mark::Dots | Mark::Star, _, Some(symbol)) => canvas.symbol(spot, symbol, pen),
            (Mark::Line, Some(before), _) => canvas.line(before, spot, pen),
            (Mark::Steps, Some(before), _) => {
                canvas.line(before, (spot.0, before.1), pen);
                canvas.line((spot.0, before.1), spot, pen);
            }
            (Mark::Dots | Mark::Star, _, None) if few => canvas.blot(spot, pen),
            (Mark::Bars, Some(before), _) if index % 2 == 1 => draw_bar(canvas, before, spot, pen),
            (_, _, _) => canvas.dot(spot, pen),
        }
        before = Some(spot);
    }
    if let ([_], Mark::Line | Mark::Steps, Some(spot)) = (&*series.points, series.mark, before) {
        // One report is no line yet, and a single dot is easily missed.
        canvas.blot(spot, pen);
    }
}

/// A bar two dots thick: one would look like a line.
fn draw_bar(canvas: &mut Canvas, from: (f64, f64), to: (f64, f64), pen: Pen) {
    let beside = if from.0 == to.0 { (1.0, 0.0) } else { (0.0, 1.0) };
    canvas.line(from, to, pen);
    canvas.line((from.0 + beside.0, from.1 + beside.1), (to.0 + beside.0, to.1 + beside.1), pen);
}

/// Shades for values from low to high.
const SHADES: [char; 4] = ['░', '▒', '▓', '█'];
const ASCII_SHADES: [char; 4] = ['.', ':', '+', '%'];

/// Shades the cells of a grid behind the series.
fn draw_cells(
    buffer: &mut Buffer,
    area: Rect,
    cells: &HeatMap,
    (x, y): (&Range, &Range),
    theme: Theme,
) {
    let Some(ends) = cells.ends() else { return };
    let shades = match theme.charset {
        Charset::Unicode => SHADES,
        Charset::Ascii => ASCII_SHADES,
    };
    let nearest = |centres: &[f64], range: &Range, place: f64| {
        let distance =
            |centre: &f64| range.place(*centre).map_or(f64::INFINITY, |at| (at - place).abs());
        (0..centres.len())
            .min_by(|one, other| distance(&centres[*one]).total_cmp(&distance(&centres[*other])))
    };
    let middle = |index: u16, length: u16| (f64::from(index) + 0.5) / f64::from(length);
    for row in 0..area.height {
        let Some(up) = nearest(&cells.y, y, 1.0 - middle(row, area.height)) else { return };
        for column in 0..area.width {
            let Some(across) = nearest(&cells.x, x, middle(column, area.width)) else { return };
            let value = cells.values.get(up * cells.x.len() + across).copied().flatten();
            let Some(value) = value.filter(|value| value.is_finite()) else { continue };
            let part = HeatMap::share(value, ends);
            let shade = shades.iter().zip([0.25, 0.5, 0.75, f64::INFINITY]);
            let shade = shade.into_iter().find(|(_, most)| part < *most).map(|(shade, _)| *shade);
            if let (Some(shade), Some(cell)) =
                (shade, buffer.cell_mut((area.x + column, area.y + row)))
            {
                cell.set_char(shade).set_style(theme.dim());
            }
        }
    }
}

/// Colours of compared series, in turn.
const COLOURS: [Color; 6] =
    [Color::Cyan, Color::Yellow, Color::Magenta, Color::Green, Color::Blue, Color::Red];
/// Their characters where there is only ASCII.
const SIGNS: [char; 6] = ['*', '+', 'x', 'o', '#', '@'];
/// Their lines where there are no colours.
const PATTERNS: [Pattern; 5] =
    [Pattern::Solid, Pattern::Dashed, Pattern::Dotted, Pattern::DashDotted, Pattern::Sparse];

/// The style of a tone: also of a compared trial's name wherever it stands beside the chart.
pub fn style_of(tone: SeriesRole, theme: Theme) -> Style {
    match (tone, theme.palette) {
        (SeriesRole::Behind, _) => theme.dim(),
        (SeriesRole::Compared(index), Palette::Colours) => {
            Style::new().fg(COLOURS[index % COLOURS.len()])
        }
        (SeriesRole::Compared(_), Palette::Monochrome) => Style::new(),
        (SeriesRole::Best, _) => theme.good().add_modifier(Modifier::BOLD),
    }
}

/// The character that stands for each point of a series, where dots would not do: what is to be
/// found easily, and, where there are no colours, what lies behind other points.
fn symbol_of(series: &Series<'_>, theme: Theme) -> Option<char> {
    match (series.mark, series.tone, theme.charset, theme.palette) {
        (Mark::Star, _, Charset::Unicode, _) => Some('◆'),
        (Mark::Star, _, Charset::Ascii, _) => Some('#'),
        (Mark::Dots, SeriesRole::Behind, Charset::Unicode, Palette::Monochrome) => Some('×'),
        _ => None,
    }
}

/// The character of a series where there is only ASCII.
fn sign_of(tone: SeriesRole) -> char {
    match tone {
        SeriesRole::Behind => '.',
        SeriesRole::Compared(index) => SIGNS[index % SIGNS.len()],
        SeriesRole::Best => '=',
    }
}

/// What a series looks like, for the legend.
fn sample(series: &Series<'_>, pattern: Pattern, theme: Theme) -> String {
    let sign = sign_of(series.tone);
    if let Some(symbol) = symbol_of(series, theme) {
        return symbol.to_string();
    }
    match (series.mark, theme.charset) {
        (Mark::Dots | Mark::Star, Charset::Unicode) => "•".to_owned(),
        (_, Charset::Ascii) => format!("{sign}{sign}"),
        (mark, Charset::Unicode) => match (pattern, mark) {
            (Pattern::Solid, Mark::Bars) => "▬▬".to_owned(),
            (Pattern::Solid, _) => "━━".to_owned(),
            (Pattern::Dashed, _) => "╍╍".to_owned(),
            (Pattern::Dotted, _) => "┈┈".to_owned(),
            (Pattern::DashDotted, _) => "╍┈".to_owned(),
            (Pattern::Sparse, _) => "┈ ".to_owned(),
        },
    }
}
