//! One figure: frame, ticks, cells, series and legend.

mod elements;
mod labels;

use super::Size;
use super::colours::{Colours, of_value};
use crate::report::figure::axis::{Range, Tick};
use crate::report::figure::{Figure, HeatMap, Mark, Series, Unseen, is_inside};
use crate::report::wording::{number, shorten, width};
use elements::{Style, area, dots, line, rule, short_number, star, text};
use labels::{CHARACTER, characters, overlap, pixels, short, steps, stride};

/// Most characters of a legend's entry.
const LONGEST_NAME: usize = 40;
/// More entries of a legend are counted instead.
const MOST_NAMED: usize = 12;
/// Pixels around the frame in which marks are still drawn: those at the ends of an axis are whole.
const MARGIN: f64 = 5.0;
const LEGEND_ROW: f64 = 18.0;
/// Average advance of a bold character at the size of titles.
const TITLE_CHARACTER: f64 = 9.0;
/// Number of shades of values, less one.
const SHADES: f64 = 47.0;
/// The base line of titles.
const TITLE_LINE: f64 = 22.0;
/// Distances from label to label below which they would touch: of slanted ones, and of those at
/// the left.
const SLANTED_ROW: f64 = 14.0;
/// How far a slanted label goes to the left, as a part of its length: the cosine of 32 degrees.
const SLANT_ACROSS: f64 = 0.85;
const LEFT_ROW: f64 = 13.0;

/// Where the parts of a panel are, in pixels.
struct Frame {
    left: f64,
    top: f64,
    width: f64,
    height: f64,
}

struct Drawing<'a> {
    figure: &'a Figure<'a>,
    colours: &'a Colours,
    frame: Frame,
    x: Range,
    y: Range,
    out: &'a mut String,
}

/// Appends the figure.
pub fn draw(figure: &Figure<'_>, colours: &Colours, size: Size, out: &mut String) {
    let (all_width, all_height) = (f64::from(size.width), f64::from(size.height));
    let Some((x, y)) = figure.ranges() else {
        title(figure, colours, all_width, None, out);
        let style = Style { anchor: "middle", ..Style::label(colours) };
        text(out, all_width / 2.0, all_height / 2.0, figure.empty, style);
        return;
    };
    let legend = legend_rows(figure, all_width - 24.0);
    let top = 36.0 + LEGEND_ROW * f64::from(u32::try_from(legend.len()).unwrap_or(0));
    // Labels at the left decide how much room the plot has, whose height decides the labels.
    let rough = all_height - top - 46.0;
    let left_ticks = figure.y.ticks(&y, steps(rough, 44.0));
    let widest = left_ticks.iter().map(|tick| width(&short(&tick.label))).max().unwrap_or(0);
    let has_label = !figure.y.label.is_empty();
    let left = 14.0 + pixels(widest) + if has_label { 20.0 } else { 0.0 };
    let right = figure.cells.as_ref().map_or(18.0, colour_bar_width);
    let plot_width = (all_width - left - right).max(20.0);
    let below = figure.x.ticks(&x, steps(plot_width, 78.0));
    let is_slanted = overlap(&below, plot_width);
    let longest = below.iter().map(|tick| width(&short(&tick.label))).max().unwrap_or(0);
    let labels = if is_slanted { 14.0 + pixels(longest) * 0.6 } else { 20.0 };
    let bottom = labels + if figure.x.label.is_empty() { 8.0 } else { 24.0 };
    let frame =
        Frame { left, top, width: plot_width, height: (all_height - top - bottom).max(20.0) };
    let mut drawing = Drawing { figure, colours, frame, x, y, out };
    drawing.legend(&legend);
    drawing.axes(&below, &left_ticks, is_slanted, (all_width, all_height));
    let unseen = drawing.content();
    if let Some(cells) = &figure.cells {
        drawing.colour_bar(cells);
    }
    let note = unseen.said(" · ");
    let ends = legend
        .last()
        .and_then(|row| row.last())
        .map_or(0.0, |(_, name, left)| 12.0 + left + 22.0 + pixels(width(name)));
    let note_line = match (&note, legend.len()) {
        (note, _) if note.is_empty() => None,
        // Beside the title, or where that would be cut short, beside the legend.
        (note, rows)
            if rows > 0
                && title_width(&figure.title) + pixels(width(note)) > all_width - 46.0
                && ends + pixels(width(note)) < all_width - 30.0 =>
        {
            Some((note.as_str(), top - 14.0))
        }
        (note, _) => Some((note.as_str(), TITLE_LINE)),
    };
    title(figure, colours, all_width, note_line, out);
}

fn title_width(title: &str) -> f64 {
    pixels(width(title)) * TITLE_CHARACTER / CHARACTER
}

/// The title, and at the right end of a line what is not to be seen.
fn title(
    figure: &Figure<'_>,
    colours: &Colours,
    all_width: f64,
    note: Option<(&str, f64)>,
    out: &mut String,
) {
    let beside = note.filter(|(_, line)| *line == TITLE_LINE);
    let taken = beside.map_or(0.0, |(note, _)| pixels(width(note)) + 20.0);
    // Letters of titles are larger, and bold.
    let room = characters((all_width - 24.0 - taken) * CHARACTER / TITLE_CHARACTER);
    text(out, 12.0, TITLE_LINE, &shorten(&figure.title, room, "…"), Style::title(colours));
    if let Some((note, line)) = note {
        let style = Style { anchor: "end", ..Style::label(colours) };
        text(out, all_width - 14.0, line, note, style);
    }
}

/// The room that the scale of colours takes at the right.
fn colour_bar_width(cells: &HeatMap) -> f64 {
    let widest = colour_bar_labels(cells).iter().map(|label| width(label)).max().unwrap_or(0);
    12.0 + 14.0 + pixels(widest) + 10.0
}

/// What stands at the lower and the upper end of the scale of colours.
fn colour_bar_labels(cells: &HeatMap) -> [String; 2] {
    let Some(ends) = cells.ends() else { return Default::default() };
    let (below, above) = cells.is_cut(ends);
    let sign = |is_cut: bool, sign: &'static str| if is_cut { sign } else { "" };
    [
        format!("{}{}", sign(below, "≤ "), number(ends.0)),
        format!("{}{}", sign(above, "≥ "), number(ends.1)),
    ]
}

impl Drawing<'_> {
    fn legend(&mut self, rows: &[Vec<(&Series<'_>, String, f64)>]) {
        let mut top = 40.0;
        for row in rows {
            for (series, name, left) in row {
                let (colour, middle) = (self.colours.of(series.tone), top - 4.0);
                let x = 12.0 + left;
                match series.mark {
                    Mark::Line | Mark::Steps => self.out.push_str(&format!(
                        "<path d=\"M{x} {middle}h16\" stroke=\"{colour}\" \
                         stroke-width=\"2.5\"{}/>\n",
                        dashes(self.colours, series)
                    )),
                    Mark::Bars | Mark::Band => self.out.push_str(&format!(
                        "<rect x=\"{x}\" y=\"{}\" width=\"16\" height=\"9\" fill=\"{colour}\"/>\n",
                        middle - 4.5
                    )),
                    Mark::Dots => self.out.push_str(&format!(
                        "<circle cx=\"{}\" cy=\"{middle}\" r=\"3.5\" fill=\"{colour}\"/>\n",
                        x + 8.0
                    )),
                    Mark::Star => {
                        let at = star(x + 8.0, middle);
                        self.out.push_str(&format!("<path d=\"{at}\" fill=\"{colour}\"/>\n"));
                    }
                }
                text(self.out, x + 22.0, top, name, Style::label(self.colours));
            }
            top += LEGEND_ROW;
        }
    }

    fn axes(
        &mut self,
        below: &[Tick],
        left: &[Tick],
        is_slanted: bool,
        (all_width, all_height): (f64, f64),
    ) {
        let (colours, frame) = (self.colours, &self.frame);
        let (bottom, right) = (frame.top + frame.height, frame.left + frame.width);
        let every = if is_slanted { stride(below, frame.width, SLANTED_ROW) } else { 1 };
        for tick in below.iter().filter(|tick| is_inside(tick.at)).step_by(every) {
            let x = frame.left + tick.at * frame.width;
            rule(self.out, (x, frame.top), (x, bottom), colours.grid);
            let label = short(&tick.label);
            if is_slanted {
                // It ends here, and begins within the figure.
                let label = shorten(&label, characters((x - 4.0) / SLANT_ACROSS), "…");
                let style = Style {
                    anchor: "end",
                    slant: Some((x, bottom + 14.0)),
                    ..Style::label(colours)
                };
                text(self.out, x, bottom + 14.0, &label, style);
            } else {
                // The first and the last label stay within the figure.
                let half = pixels(width(&label)) / 2.0;
                let (anchor, x) = match x {
                    x if x < half + 3.0 => ("start", 3.0),
                    x if x > all_width - half - 3.0 => ("end", all_width - 3.0),
                    x => ("middle", x),
                };
                text(self.out, x, bottom + 17.0, &label, Style { anchor, ..Style::label(colours) });
            }
        }
        let every = stride(left, frame.height, LEFT_ROW);
        for tick in left.iter().filter(|tick| is_inside(tick.at)).step_by(every) {
            let y = bottom - tick.at * frame.height;
            rule(self.out, (frame.left, y), (right, y), colours.grid);
            let style = Style { anchor: "end", ..Style::label(colours) };
            text(self.out, frame.left - 7.0, y + 4.0, &short(&tick.label), style);
        }
        rule(self.out, (frame.left, frame.top), (frame.left, bottom), colours.dim);
        rule(self.out, (frame.left, bottom), (right, bottom), colours.dim);
        let style = Style { anchor: "middle", ..Style::text(colours) };
        if !self.figure.x.label.is_empty() {
            let label = shorten(&self.figure.x.label, characters(frame.width), "…");
            text(self.out, frame.left + frame.width / 2.0, all_height - 10.0, &label, style);
        }
        if !self.figure.y.label.is_empty() {
            let label = shorten(&self.figure.y.label, characters(frame.height), "…");
            let (x, y) = (16.0, frame.top + frame.height / 2.0);
            let style = Style { turn: Some((x, y)), ..style };
            text(self.out, x, y, &label, style);
        }
    }

    /// Cells and series, clipped at the frame.
    fn content(&mut self) -> Unseen {
        let Frame { left, top, width, height } = self.frame;
        // A nested document clips without an id, of which a page may have only one each.
        self.out.push_str(&format!(
            "<svg x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\">\n\
             <g transform=\"translate({MARGIN} {MARGIN})\">\n",
            short_number(left - MARGIN),
            short_number(top - MARGIN),
            short_number(width + 2.0 * MARGIN),
            short_number(height + 2.0 * MARGIN)
        ));
        if let Some(cells) = &self.figure.cells {
            self.cells(cells);
        }
        for series in &self.figure.series {
            self.series(series);
        }
        self.out.push_str("</g>\n</svg>\n");
        self.figure.unseen(Some((&self.x, &self.y)))
    }

    /// The place of a point in the plot, if the axes have one.
    fn place(&self, (x, y): (f64, f64)) -> Option<(f64, f64)> {
        let (across, up) = self.x.place(x).zip(self.y.place(y))?;
        // Far outside, coordinates of renderers overflow.
        let within = |place: f64| place.clamp(-10.0, 11.0);
        Some((within(across) * self.frame.width, (1.0 - within(up)) * self.frame.height))
    }

    fn series(&mut self, series: &Series<'_>) {
        let places: Vec<Option<(f64, f64)>> =
            series.points.iter().map(|point| self.place(*point)).collect();
        let colour = self.colours.of(series.tone);
        let is_behind = series.tone == crate::report::figure::SeriesRole::Behind;
        match series.mark {
            Mark::Line | Mark::Steps => {
                let path = line(&places, series.mark);
                let stroke = if is_behind { 1.0 } else { 2.0 };
                let opacity = if is_behind { " stroke-opacity=\"0.55\"" } else { "" };
                self.out.push_str(&format!(
                    "<path d=\"{path}\" fill=\"none\" stroke=\"{colour}\" \
                     stroke-width=\"{stroke}\" stroke-linejoin=\"round\" \
                     stroke-linecap=\"round\"{opacity}{}/>\n",
                    dashes(self.colours, series)
                ));
            }
            Mark::Dots => {
                let path = dots(&places);
                let stroke = if series.points.len() > 2000 { 4.0 } else { 6.5 };
                let opacity = if is_behind { 0.6 } else { 0.8 };
                let is_on_bars = |one: &Series<'_>| one.mark == Mark::Bars;
                if self.figure.cells.is_some() || self.figure.series.iter().any(is_on_bars) {
                    // No colour is seen on all colours of values, or on all bars.
                    self.out.push_str(&format!(
                        "<path d=\"{path}\" fill=\"none\" stroke=\"#ffffff\" \
                         stroke-width=\"{}\" stroke-linecap=\"round\"/>\n",
                        stroke + 2.5
                    ));
                }
                self.out.push_str(&format!(
                    "<path d=\"{path}\" fill=\"none\" stroke=\"{colour}\" \
                     stroke-width=\"{stroke}\" stroke-linecap=\"round\" \
                     stroke-opacity=\"{opacity}\"/>\n"
                ));
            }
            Mark::Star => {
                let path: String = places.iter().flatten().map(|(x, y)| star(*x, *y)).collect();
                let edge =
                    if self.figure.cells.is_some() { "#ffffff" } else { self.colours.background };
                self.out.push_str(&format!(
                    "<path d=\"{path}\" fill=\"{colour}\" stroke=\"{edge}\"/>\n"
                ));
            }
            Mark::Bars => self.bars(&places, colour, is_behind),
            Mark::Band => {
                let path = area(&places);
                self.out.push_str(&format!(
                    "<path d=\"{path}\" fill=\"{colour}\" fill-opacity=\"0.18\"/>\n"
                ));
            }
        }
    }

    fn bars(&mut self, places: &[Option<(f64, f64)>], colour: &str, is_behind: bool) {
        let named = |axis: &crate::report::figure::Axis| axis.names.len().max(1);
        let Frame { width, height, .. } = self.frame;
        let mut path = String::new();
        let (mut is_upright, mut gap) = (false, (0.0, 0.0));
        for pair in places.chunks_exact(2) {
            let [Some((x, y)), Some((to_x, to_y))] = pair else { continue };
            is_upright = x == to_x && y != to_y;
            // A bar shorter than a pixel would not be seen.
            let far = match to_x - x {
                length if !is_upright && length.abs() < 1.0 => x + 1.0,
                // Bars that follow on each other do not touch.
                length if !is_upright && length > 4.0 => to_x - 0.8,
                _ => *to_x,
            };
            path.push_str(&format!(
                "M{} {}L{} {}",
                short_number(*x),
                short_number(*y),
                short_number(far),
                short_number(*to_y)
            ));
            gap = (width, height);
        }
        let count = if is_upright { named(&self.figure.x) } else { named(&self.figure.y) };
        let room =
            if is_upright { gap.0 } else { gap.1 } / f64::from(u32::try_from(count).unwrap_or(1));
        let thick = (room * 0.6).clamp(1.0, 44.0);
        let opacity = if is_behind { 0.5 } else { 1.0 };
        self.out.push_str(&format!(
            "<path d=\"{path}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"{}\" \
             stroke-opacity=\"{opacity}\"/>\n",
            short_number(thick)
        ));
    }

    fn cells(&mut self, cells: &HeatMap) {
        let Some(ends) = cells.ends() else { return };
        let edges = |centres: &[f64], range: &Range, length: f64| -> Vec<f64> {
            let places: Vec<f64> =
                centres.iter().filter_map(|centre| range.place(*centre)).collect();
            let mut edges = Vec::with_capacity(places.len() + 1);
            let half = places.windows(2).next().map_or(1.0, |pair| (pair[1] - pair[0]) / 2.0);
            edges.extend(places.first().map(|first| first - half));
            edges.extend(places.windows(2).map(|pair| (pair[0] + pair[1]) / 2.0));
            edges.extend(places.last().map(|last| last + half));
            edges.into_iter().map(|edge| edge * length).collect()
        };
        let across = edges(&cells.x, &self.x, self.frame.width);
        let up = edges(&cells.y, &self.y, self.frame.height);
        self.out.push_str("<g shape-rendering=\"crispEdges\">\n");
        for (row, bottom) in up.windows(2).enumerate() {
            let mut run: Option<(String, f64, f64)> = None;
            for (column, side) in across.windows(2).enumerate() {
                let value = cells.values.get(row * cells.x.len() + column).copied().flatten();
                let colour = value
                    .filter(|value| value.is_finite())
                    .map(|value| of_value((HeatMap::share(value, ends) * SHADES).round() / SHADES));
                run = match (run.take(), colour) {
                    // Neighbours of one colour are one rectangle.
                    (Some((before, from, _)), Some(colour)) if before == colour => {
                        Some((before, from, side[1]))
                    }
                    (before, colour) => {
                        self.cell(before, bottom);
                        colour.map(|colour| (colour, side[0], side[1]))
                    }
                };
            }
            self.cell(run, bottom);
        }
        self.out.push_str("</g>\n");
    }

    /// A rectangle of a row: its colour, and where it begins and ends.
    fn cell(&mut self, run: Option<(String, f64, f64)>, bottom: &[f64]) {
        let Some((colour, from, to)) = run else { return };
        self.out.push_str(&format!(
            "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"{colour}\"/>\n",
            short_number(from),
            short_number(self.frame.height - bottom[1]),
            // Rounded, neighbours would leave gaps.
            short_number(to - from + 0.3),
            short_number(bottom[1] - bottom[0] + 0.3),
        ));
    }

    fn colour_bar(&mut self, cells: &HeatMap) {
        let x = self.frame.left + self.frame.width + 12.0;
        let parts = 32_u32;
        let height = self.frame.height / f64::from(parts);
        self.out.push_str("<g shape-rendering=\"crispEdges\">\n");
        for part in 0..parts {
            let y = self.frame.top + self.frame.height - height * f64::from(part + 1);
            self.out.push_str(&format!(
                "<rect x=\"{}\" y=\"{}\" width=\"10\" height=\"{}\" fill=\"{}\"/>\n",
                short_number(x),
                short_number(y),
                short_number(height + 0.5),
                of_value((f64::from(part) + 0.5) / f64::from(parts))
            ));
        }
        self.out.push_str("</g>\n");
        let style = Style::label(self.colours);
        let bottom = self.frame.top + self.frame.height;
        let [low, high] = colour_bar_labels(cells);
        text(self.out, x + 14.0, self.frame.top + 10.0, &high, style);
        text(self.out, x + 14.0, bottom, &low, style);
    }
}

/// The rows of the legend: series, name, and distance from the left. More than [`MOST_NAMED`] end
/// with their number.
fn legend_rows<'a>(figure: &'a Figure<'_>, room: f64) -> Vec<Vec<(&'a Series<'a>, String, f64)>> {
    let named = figure.legend();
    let mut rows: Vec<Vec<(&Series<'_>, String, f64)>> = Vec::new();
    let mut left = 0.0;
    for (index, series) in named.iter().take(MOST_NAMED).enumerate() {
        let mut name = shorten(&series.name, LONGEST_NAME, "…");
        if index + 1 == MOST_NAMED && named.len() > MOST_NAMED {
            name.push_str(&format!(", and {} more", named.len() - MOST_NAMED));
        }
        let takes = 22.0 + pixels(width(&name)) + 16.0;
        if rows.is_empty() || left + takes > room && left > 0.0 {
            rows.push(Vec::new());
            left = 0.0;
        }
        if let Some(row) = rows.last_mut() {
            row.push((series, name, left));
        }
        left += takes;
    }
    rows
}

fn dashes(colours: &Colours, series: &Series<'_>) -> String {
    colours
        .dashes(series.tone)
        .map(|dashes| format!(" stroke-dasharray=\"{dashes}\""))
        .unwrap_or_default()
}
