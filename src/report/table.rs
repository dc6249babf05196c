//! Text tables: aligned columns that fit the terminal, with numbers aligned at the decimal point.

use std::io::{self, Write};

use super::wording::{shorten, width};
use crate::study::metric::ColumnDigits;

/// The alignment of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// Text.
    Left,
    /// Integers.
    Right,
    /// Numbers, aligned at the decimal point.
    Point,
}

/// A column of a table: a title over cells.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    title: String,
    align: Align,
    cells: Vec<String>,
    is_optional: bool,
}

impl Column {
    /// A column of these cells, top to bottom.
    pub fn new(title: impl Into<String>, align: Align, cells: Vec<String>) -> Self {
        let cells = if align == Align::Point { aligned_at_point(cells) } else { cells };
        Column { title: title.into(), align, cells, is_optional: false }
    }

    /// Makes the column optional: it is dropped if the table does not fit even with truncated
    /// texts; those with the same cell in all rows first, and of several the rightmost.
    #[must_use]
    pub fn optional(mut self) -> Self {
        self.is_optional = true;
        self
    }

    /// Whether all rows have the same cell.
    fn is_constant(&self) -> bool {
        self.cells.windows(2).all(|cells| cells[0] == cells[1])
    }

    /// Width of the widest cell, title included.
    pub fn width(&self) -> usize {
        self.cells_width().max(width(&self.title))
    }

    /// Width of the widest cell, without the title.
    pub fn cells_width(&self) -> usize {
        self.cells.iter().map(|cell| width(cell)).max().unwrap_or(0)
    }

    /// The title, truncated or padded to exactly `columns` columns.
    pub fn title(&self, columns: usize, cut: &str) -> String {
        self.pad(&self.title, columns, cut)
    }

    /// The cell of row `row`, truncated or padded to exactly `columns` columns.
    pub fn cell(&self, row: usize, columns: usize, cut: &str) -> String {
        self.pad(self.cells.get(row).map_or("", String::as_str), columns, cut)
    }

    fn pad(&self, text: &str, columns: usize, cut: &str) -> String {
        // Alignment spaces do not count as text.
        let text = if width(text) > columns {
            shorten(text.trim_end(), columns, cut)
        } else {
            text.to_owned()
        };
        let space = " ".repeat(columns.saturating_sub(width(&text)));
        if self.align == Align::Left { text + &space } else { space + &text }
    }
}

/// A builder of columns over some rows.
pub struct Columns<'a, T> {
    rows: &'a [T],
    columns: Vec<Column>,
}

impl<'a, T> Columns<'a, T> {
    /// Without columns.
    pub fn of(rows: &'a [T]) -> Self {
        Columns { rows, columns: Vec::new() }
    }

    /// Adds a text column.
    pub fn left<S: Into<String>>(self, title: impl Into<String>, cell: impl Fn(&T) -> S) -> Self {
        self.aligned(Align::Left, title, cell)
    }

    /// Adds an integer column.
    pub fn right<S: Into<String>>(self, title: impl Into<String>, cell: impl Fn(&T) -> S) -> Self {
        self.aligned(Align::Right, title, cell)
    }

    /// Adds a column of decimal numbers.
    pub fn point<S: Into<String>>(self, title: impl Into<String>, cell: impl Fn(&T) -> S) -> Self {
        self.aligned(Align::Point, title, cell)
    }

    /// Adds a column of values of a metric.
    pub fn metric(self, title: impl Into<String>, value: impl Fn(&T) -> Option<f64>) -> Self {
        let digits = ColumnDigits::of(self.rows.iter().filter_map(&value));
        self.point(title, |row| value(row).map_or_else(String::new, |value| digits.text(value)))
    }

    /// Adds a column.
    pub fn aligned<S: Into<String>>(
        mut self,
        align: Align,
        title: impl Into<String>,
        cell: impl Fn(&T) -> S,
    ) -> Self {
        let cells = self.rows.iter().map(|row| cell(row).into()).collect();
        self.columns.push(Column::new(title, align, cells));
        self
    }

    /// Makes the last one [optional](Column::optional).
    pub fn optional(mut self) -> Self {
        let last = self.columns.pop().map(Column::optional);
        self.columns.extend(last);
        self
    }

    /// The columns.
    pub fn end(self) -> Vec<Column> {
        self.columns
    }
}

/// Pads numbers to the same width after the decimal point; `NaN` and the like stay right-aligned.
fn aligned_at_point(cells: Vec<String>) -> Vec<String> {
    // Without a point it would precede the exponent.
    let behind = |cell: &str| cell.find(['.', 'e']).map_or(0, |point| width(&cell[point..]));
    let most = cells.iter().map(|cell| behind(cell)).max().unwrap_or(0);
    let missing = |cell: &str| {
        if cell.contains(|char: char| char.is_ascii_digit()) { most - behind(cell) } else { 0 }
    };
    cells.iter().map(|cell| format!("{cell}{}", " ".repeat(missing(cell)))).collect()
}

/// The available width.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AvailableWidth {
    /// A terminal of this width: the widest text columns are truncated until the table fits.
    Columns(usize),
    /// A pipe or a file: nothing is truncated.
    Unlimited,
}

/// Minimum width of a truncated text column.
const NARROWEST: usize = 8;

/// Writes titles and rows, with two spaces between columns; returns how many columns were dropped.
pub fn write_table(
    out: &mut dyn Write,
    columns: &[Column],
    room: AvailableWidth,
    cut: &str,
) -> io::Result<usize> {
    let mut shown: Vec<(&Column, usize)> =
        columns.iter().map(|column| (column, column.width())).collect();
    if let AvailableWidth::Columns(room) = room {
        fit(&mut shown, room);
    }
    let (shown, widths): (Vec<&Column>, Vec<usize>) = shown.into_iter().unzip();
    let rows = shown.iter().map(|column| column.cells.len()).max().unwrap_or(0);
    let line = |text: &dyn Fn(&Column, usize) -> String| {
        let cells: Vec<String> =
            shown.iter().zip(&widths).map(|(column, width)| text(column, *width)).collect();
        cells.join("  ")
    };
    writeln!(out, "{}", line(&|column, width| column.title(width, cut)).trim_end())?;
    for row in 0..rows {
        writeln!(out, "{}", line(&|column, width| column.cell(row, width, cut)).trim_end())?;
    }
    Ok(columns.len() - shown.len())
}

/// Removes optional columns that do not fit even with truncated texts, and narrows texts.
fn fit(shown: &mut Vec<(&Column, usize)>, room: usize) {
    let is_text = |column: &Column| column.align == Align::Left;
    let narrowest = |(column, width): &(&Column, usize)| {
        2 + if is_text(column) { NARROWEST.min(*width) } else { *width }
    };
    // No spaces precede the first.
    let room = room + 2;
    let mut least: usize = shown.iter().map(narrowest).sum();
    // What is the same in all rows says least.
    for may_differ in [false, true] {
        for index in (0..shown.len()).rev() {
            let column = shown[index].0;
            if least > room && column.is_optional && (may_differ || column.is_constant()) {
                least -= narrowest(&shown.remove(index));
            }
        }
    }
    let mut total: usize = shown.iter().map(|(_, width)| width + 2).sum();
    while total > room {
        let texts = shown.iter_mut().filter(|(column, _)| is_text(column));
        match texts.map(|(_, width)| width).filter(|width| **width > NARROWEST).max() {
            Some(widest) => *widest -= 1,
            None => return,
        }
        total -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(room: AvailableWidth) -> String {
        let columns = [
            Column::new("trial", Align::Right, vec!["7".into(), "12".into()]),
            Column::new("loss", Align::Point, vec!["0.184".into(), "NaN".into()]),
            Column::new("name", Align::Left, vec!["学習率の探索を行う試行".into(), "plain".into()]),
        ];
        let mut out = Vec::new();
        write_table(&mut out, &columns, room, "…").unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn numbers_stand_at_their_point_and_text_is_cut_to_fit() {
        assert_eq!(
            written(AvailableWidth::Columns(24)),
            "trial   loss  name\n    7  0.184  学習率の…\n   12    NaN  plain\n"
        );
    }

    #[test]
    fn optional_columns_are_left_out_from_the_right_once_cutting_is_not_enough() {
        let number = |title: &str| Column::new(title, Align::Right, vec!["1234567".into()]);
        let columns = [
            number("a"),
            number("b").optional(),
            number("c").optional(),
            Column::new("why", Align::Left, vec!["a long sentence".into()]),
        ];
        let written = |room| {
            let mut out = Vec::new();
            let left_out =
                write_table(&mut out, &columns, AvailableWidth::Columns(room), "…").unwrap();
            (String::from_utf8(out).unwrap(), left_out)
        };
        assert_eq!(
            written(36),
            (
                "      a        b        c  why\n1234567  1234567  1234567  a long s…\n".to_owned(),
                0
            )
        );
        assert_eq!(
            written(30),
            ("      a        b  why\n1234567  1234567  a long sent…\n".to_owned(), 1)
        );
        assert_eq!(written(10), ("      a  why\n1234567  a long …\n".to_owned(), 2));
    }

    #[test]
    fn optional_columns_that_are_the_same_in_all_rows_are_left_out_first() {
        let column = |title: &str, cells: [&str; 2]| {
            Column::new(title, Align::Right, cells.map(str::to_owned).to_vec()).optional()
        };
        let columns = [
            column("same", ["1234567", "1234567"]),
            column("x", ["1234567", "2345678"]),
            column("equal", ["1234567", "1234567"]),
            column("y", ["1234567", "2345678"]),
        ];
        let titles = |room| {
            let mut out = Vec::new();
            write_table(&mut out, &columns, AvailableWidth::Columns(room), "…").unwrap();
            let text = String::from_utf8(out).unwrap();
            text.lines().next().unwrap().split_whitespace().collect::<Vec<_>>().join(" ")
        };
        assert_eq!([30, 20, 10].map(titles), ["same x y", "x y", "x"]);
    }

    #[test]
    fn a_pipe_gets_everything() {
        assert!(written(AvailableWidth::Unlimited).contains("学習率の探索を行う試行"));
    }
}
