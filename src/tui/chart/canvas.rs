//! A rectangle of small dots: eight to a character in braille, one where there is only ASCII.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

use crate::report::sparkline::Charset;

/// How a line is drawn, so that lines can be told apart without colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// Without gaps.
    Solid,
    /// Long marks.
    Dashed,
    /// Single dots.
    Dotted,
    /// Long marks and single dots in turn.
    DashDotted,
    /// Short marks far from each other.
    Sparse,
}

impl Pattern {
    fn inks(self, dot: usize) -> bool {
        match self {
            Pattern::Solid => true,
            Pattern::Dashed => dot % 8 < 5,
            Pattern::Dotted => dot % 4 < 1,
            Pattern::DashDotted => dot % 10 < 5 || dot % 10 == 7,
            Pattern::Sparse => dot % 8 < 2,
        }
    }
}

/// Dots of a character, across and down.
pub fn dots_per_cell(charset: Charset) -> (usize, usize) {
    match charset {
        Charset::Unicode => (2, 4),
        Charset::Ascii => (1, 1),
    }
}

/// What is drawn with: of two pens in one character the later one wins it whole, since a character
/// has one colour.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pen {
    /// Rank and index among the pens of the canvas, from 1; 0 is nothing.
    pub layer: u16,
    /// The colour.
    pub style: Style,
    /// The character where there is only ASCII.
    pub ascii: char,
    /// How lines are drawn.
    pub pattern: Pattern,
}

#[derive(Clone, Copy, Debug, Default)]
struct Cell {
    layer: u16,
    dots: u8,
    symbol: Option<char>,
}

/// The dots of a plot; the first row of dots is the top one.
#[derive(Clone, Debug)]
pub struct Canvas {
    charset: Charset,
    columns: usize,
    rows: usize,
    cells: Vec<Cell>,
    pens: Vec<Pen>,
}

impl Canvas {
    /// An empty canvas of so many characters.
    pub fn new(columns: u16, rows: u16, charset: Charset) -> Self {
        let (columns, rows) = (usize::from(columns), usize::from(rows));
        let cells = vec![Cell::default(); columns * rows];
        Canvas { charset, columns, rows, cells, pens: Vec::new() }
    }

    /// Another pen, above those before it; one like the last is the last, so that what looks alike
    /// does not hide each other.
    pub fn pen(&mut self, style: Style, ascii: char, pattern: Pattern) -> Pen {
        let is_alike = |pen: &&Pen| (pen.style, pen.ascii, pen.pattern) == (style, ascii, pattern);
        if let Some(last) = self.pens.last().filter(is_alike) {
            return *last;
        }
        let layer = u16::try_from(self.pens.len() + 1).unwrap_or(u16::MAX);
        let pen = Pen { layer, style, ascii, pattern };
        self.pens.push(pen);
        pen
    }

    /// Columns and rows of dots.
    pub fn size(&self) -> (usize, usize) {
        let (across, down) = dots_per_cell(self.charset);
        (self.columns * across, self.rows * down)
    }

    /// The place of a point of the unit square (0, 0 at the bottom left) in dots; outside the
    /// square it is outside the canvas.
    #[expect(clippy::cast_precision_loss, reason = "a size of a terminal")]
    pub fn at(&self, x: f64, y: f64) -> (f64, f64) {
        let (width, height) = self.size();
        (x * (width.saturating_sub(1)) as f64, (1.0 - y) * (height.saturating_sub(1)) as f64)
    }

    /// One dot; outside the canvas nothing happens.
    pub fn dot(&mut self, (x, y): (f64, f64), pen: Pen) {
        if let Some((x, y)) = self.whole((x, y)) {
            self.ink(x, y, pen);
        }
    }

    /// A dot four times as large, for charts with few of them.
    pub fn blot(&mut self, (x, y): (f64, f64), pen: Pen) {
        let Some((x, y)) = self.whole((x, y)) else { return };
        self.ink(x, y, pen);
        if self.charset == Charset::Unicode {
            // Towards the inside of the same character, so that a blot has one colour.
            let (beside, below) = (x ^ 1, if y % 4 == 3 { y - 1 } else { y + 1 });
            for (x, y) in [(beside, y), (x, below), (beside, below)] {
                self.ink(x, y, pen);
            }
        }
    }

    /// A character of its own at a point.
    pub fn symbol(&mut self, (x, y): (f64, f64), symbol: char, pen: Pen) {
        let Some((x, y)) = self.whole((x, y)) else { return };
        let (across, down) = dots_per_cell(self.charset);
        self.cells[y / down * self.columns + x / across] =
            Cell { layer: pen.layer, dots: 0, symbol: Some(symbol) };
    }

    /// A straight line, as far as it is on the canvas.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "both ends are on the canvas"
    )]
    pub fn line(&mut self, from: (f64, f64), to: (f64, f64), pen: Pen) {
        let Some((from, to)) = self.clipped(from, to) else { return };
        let (dx, dy) = (to.0 - from.0, to.1 - from.1);
        let count = dx.abs().max(dy.abs()).ceil().max(1.0);
        for step in 0..=count as usize {
            let share = step as f64 / count;
            let at = |from: f64, distance: f64| (from + distance * share).round().max(0.0) as usize;
            let (x, y) = (at(from.0, dx), at(from.1, dy));
            // The pattern belongs to places, not to lines: short pieces of a curve continue where
            // the one before ended.
            let along = if dx.abs() >= dy.abs() { x } else { y };
            if self.charset == Charset::Ascii || pen.pattern.inks(along) {
                self.ink(x, y, pen);
            }
        }
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "checked to be on the canvas"
    )]
    fn whole(&self, (x, y): (f64, f64)) -> Option<(usize, usize)> {
        let (x, y) = (x.round(), y.round());
        let (width, height) = self.size();
        let inside = x >= 0.0 && y >= 0.0 && (x as usize) < width && (y as usize) < height;
        inside.then_some((x as usize, y as usize))
    }

    fn ink(&mut self, x: usize, y: usize, pen: Pen) {
        /// The bits of braille's dots, by row and column.
        const BITS: [[u8; 2]; 4] = [[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]];
        let (across, down) = dots_per_cell(self.charset);
        let Some(cell) = self.cells.get_mut(y / down * self.columns + x / across) else { return };
        if cell.layer > pen.layer {
            return;
        }
        if cell.layer < pen.layer {
            *cell = Cell { layer: pen.layer, ..Cell::default() };
        }
        cell.dots |= BITS[y % 4][x % 2];
    }

    /// The part of a line inside the canvas (Liang and Barsky, *A new concept and method for line
    /// clipping*, 1984).
    #[expect(clippy::cast_precision_loss, reason = "a size of a terminal")]
    fn clipped(&self, from: (f64, f64), to: (f64, f64)) -> Option<((f64, f64), (f64, f64))> {
        let (width, height) = self.size();
        let (right, bottom) = (width.checked_sub(1)? as f64, height.checked_sub(1)? as f64);
        let (dx, dy) = (to.0 - from.0, to.1 - from.1);
        let (mut begin, mut end) = (0.0_f64, 1.0_f64);
        for (direction, distance) in
            [(-dx, from.0), (dx, right - from.0), (-dy, from.1), (dy, bottom - from.1)]
        {
            match direction {
                0.0 if distance < 0.0 => return None,
                0.0 => {}
                ..0.0 => begin = begin.max(distance / direction),
                _ => end = end.min(distance / direction),
            }
        }
        let at = |share: f64| {
            ((from.0 + dx * share).clamp(0.0, right), (from.1 + dy * share).clamp(0.0, bottom))
        };
        (begin <= end).then(|| (at(begin), at(end)))
    }

    /// Puts what was drawn at the top left of `area`; characters without a dot stay as they are.
    pub fn render(&self, buffer: &mut Buffer, area: Rect) {
        let rows = self.cells.chunks(self.columns.max(1));
        for (row, cells) in (area.top()..area.bottom()).zip(rows) {
            for (column, cell) in (area.left()..area.right()).zip(cells) {
                let pen = usize::from(cell.layer).checked_sub(1).and_then(|pen| self.pens.get(pen));
                let Some(pen) = pen else { continue };
                let char = match (cell.symbol, self.charset) {
                    (Some(symbol), _) => symbol,
                    (None, Charset::Ascii) => pen.ascii,
                    (None, Charset::Unicode) => {
                        char::from_u32(0x2800 + u32::from(cell.dots)).unwrap_or(' ')
                    }
                };
                if let Some(target) = buffer.cell_mut((column, row)) {
                    target.set_char(char).set_style(pen.style);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(charset: Charset, draw: impl Fn(&mut Canvas)) -> String {
        let area = Rect::new(0, 0, 4, 2);
        let mut canvas = Canvas::new(area.width, area.height, charset);
        draw(&mut canvas);
        let mut buffer = Buffer::empty(area);
        canvas.render(&mut buffer, area);
        let row = |y: u16| (0..4).map(|x| buffer[(x, y)].symbol()).collect::<String>();
        format!("{}|{}", row(0), row(1))
    }

    #[test]
    fn a_diagonal_is_drawn_in_dots_or_in_characters() {
        let line = |canvas: &mut Canvas| {
            let pen = canvas.pen(Style::new(), '*', Pattern::Solid);
            canvas.line(canvas.at(0.0, 0.0), canvas.at(1.0, 1.0), pen);
        };
        assert_eq!(drawn(Charset::Unicode, line), "  ⡠⠊|⡠⠊  ");
        assert_eq!(drawn(Charset::Ascii, line), "  **|**  ");
    }

    #[test]
    fn a_line_from_outside_runs_into_the_frame() {
        let line = |canvas: &mut Canvas| {
            let pen = canvas.pen(Style::new(), '*', Pattern::Solid);
            canvas.line(canvas.at(0.0, 0.0), canvas.at(1.0, 1e12), pen);
            canvas.line(canvas.at(0.9, -7.0), canvas.at(0.9, -8.0), pen);
        };
        assert_eq!(drawn(Charset::Unicode, line), "⡇   |⡇   ");
    }

    #[test]
    fn the_later_pen_wins_the_character() {
        let lines = |canvas: &mut Canvas| {
            let behind = canvas.pen(Style::new(), '.', Pattern::Solid);
            let before = canvas.pen(Style::new(), '#', Pattern::Solid);
            canvas.dot(canvas.at(0.0, 0.0), before);
            canvas.line(canvas.at(0.0, 0.0), canvas.at(1.0, 0.0), behind);
            canvas.symbol(canvas.at(1.0, 1.0), 'o', before);
        };
        assert_eq!(drawn(Charset::Ascii, lines), "   o|#...");
        assert_eq!(drawn(Charset::Unicode, lines), "   o|⡀⣀⣀⣀");
    }

    #[test]
    fn blots_stay_in_their_character() {
        let blots = |canvas: &mut Canvas| {
            let pen = canvas.pen(Style::new(), 'o', Pattern::Solid);
            canvas.blot(canvas.at(0.0, 0.0), pen);
            canvas.blot(canvas.at(1.0, 1.0), pen);
            canvas.blot(canvas.at(f64::NAN, 2.0), pen);
        };
        assert_eq!(drawn(Charset::Unicode, blots), "   ⠛|⣤   ");
    }
}
