//! The rows of data files, with the line of every row and of every problem. Rows of columns and of
//! folders count as lines.

mod columns;
mod conll;
mod contents;
mod folder;
mod json;
mod label_values;
mod problem;
mod quotes;

use std::path::Path;

pub use contents::contents;
pub use folder::{DataFiles, Split, folder_of, pattern_of, split_of};
pub use json::rows_inside;
pub use label_values::{MultiHot, are_multi_hot, is_ignored, multi_hot_labels, name_multi_hot};
pub use problem::{DataProblem, DataProblemBuilder};
use quotes::wrong_quote;
pub use quotes::{CLOSE_IT, NEVER_CLOSED, QuotedInput};

use crate::arguments::DataArguments;
use crate::arguments::data_format::{DataFormat, KNOWN_ENDINGS, format_of};
use crate::study::suggestion::nearest;

/// One row of a data file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataRow {
    /// The cell of the text column.
    pub text: String,
    /// The cell of the column of second texts; empty if none is read.
    pub text_pair: String,
    /// Empty if no label column is read.
    pub label: String,
    /// The line on which it begins, counted from 1.
    pub line: u64,
}

/// The columns that are read.
#[derive(Debug, Clone, Copy)]
pub struct Columns<'a> {
    /// The text column.
    pub text: &'a str,
    /// The column of second texts.
    pub text_pair: Option<&'a str>,
    /// The label column.
    pub label: Option<&'a str>,
    /// Whether a text may be a list of words, in JSON.
    pub words: Words,
    /// What to do if one is missing and no similar name exists.
    pub help: &'a str,
}

impl<'a> Columns<'a> {
    /// Those that are not there.
    fn without(&self, is_there: impl Fn(&str) -> bool) -> Vec<&'a str> {
        let read = [Some(self.text), self.text_pair, self.label];
        read.into_iter().flatten().filter(|name| !is_there(name)).collect()
    }
}

/// Whether a text may be a list of words, in JSON.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Words {
    /// It may not; several labels become a cell that [`list_of`] takes apart again.
    #[default]
    Refused,
    /// They are joined by spaces.
    Joined,
    /// Words and their labels become cells that [`list_of`] takes apart again.
    Kept,
    /// It may not, and a label that is no text becomes a cell of JSON.
    Answers,
}

impl Words {
    fn may_be_lists(self) -> bool {
        matches!(self, Self::Joined | Self::Kept)
    }
}

/// Begins a cell that was a list, and separates its elements: control characters of ASCII for it.
const LIST: char = '\u{1e}';
const ELEMENT: &str = "\u{1f}";

/// The elements of a cell that was a list; `None`: it was none.
#[must_use]
pub fn list_of(cell: &str) -> Option<Vec<&str>> {
    cell.strip_prefix(LIST).map(|elements| elements.split(ELEMENT).collect())
}

/// How the cells of a csv or tsv file are laid out.
#[derive(Debug, Clone, Copy, Default)]
pub struct Layout<'a> {
    /// The cell separator; `None`: by the file's extension.
    pub separator: Option<u8>,
    /// The source of the column names.
    pub header: Header<'a>,
}

/// The source of column names.
#[derive(Debug, Clone, Copy, Default)]
pub enum Header<'a> {
    /// The first line holds them.
    #[default]
    FirstLine,
    /// There is no header, and these are the names.
    Names(&'a [String]),
    /// There is no header, and the columns are called `column1`, `column2` and so on.
    Numbered,
}

impl<'a> Layout<'a> {
    /// The layout that `[data]` describes.
    #[must_use]
    pub fn of(data: &'a DataArguments) -> Self {
        Layout {
            separator: data.separator_byte(),
            header: data.column_names.as_deref().map_or(Header::FirstLine, Header::Names),
        }
    }
}

/// The name of a column without a header, counted from 1.
#[must_use]
pub fn numbered(column: usize) -> String {
    format!("column{column}")
}

/// Whether a file is a table of lines and cells.
#[must_use]
pub fn is_delimited(path: &Path) -> bool {
    format_of(path).is_some_and(|(format, _)| format.is_delimited())
}

/// A tsv has no quoting (IANA text/tab-separated-values): quote marks in it are text.
#[must_use]
pub fn is_quoted(path: &Path) -> bool {
    !is_tsv(path)
}

/// The default separator of a file.
#[must_use]
pub fn usual_separator(path: &Path) -> u8 {
    if is_tsv(path) { b'\t' } else { b',' }
}

fn is_tsv(path: &Path) -> bool {
    format_of(path).is_some_and(|(format, _)| format == DataFormat::Tsv)
}

/// A separator in a message.
#[must_use]
pub fn shown_separator(separator: u8) -> String {
    match separator {
        b'\t' => "tabs".to_owned(),
        b',' => "commas".to_owned(),
        other => format!("`{}`", char::from(other)),
    }
}

/// The separator of a table whose header names parameters and metrics, by its first line: commas,
/// or else semicolons or tabs.
#[must_use]
pub fn separator_of_header(path: &Path, first_line: &[u8]) -> u8 {
    let usual = usual_separator(path);
    let candidates = [usual, b';', b'\t'];
    candidates.into_iter().find(|separator| first_line.contains(separator)).unwrap_or(usual)
}

/// Candidate separators, the most likely first.
const SEPARATORS: [u8; 4] = [b',', b';', b'\t', b'|'];

/// Detects the separator of a csv file from its first bytes: the first candidate that gives all
/// rows the same number of cells, at least two. `is_cut`: whether the file continues.
#[must_use]
pub fn find_separator(begin: &[u8], is_cut: bool) -> Option<u8> {
    const ROWS: usize = 50;
    let is_regular = |separator: &u8| {
        let mut reader = csv::ReaderBuilder::new()
            .delimiter(*separator)
            .has_headers(false)
            .flexible(true)
            .from_reader(begin);
        let mut cells: Vec<usize> = reader
            .byte_records()
            .take(ROWS)
            .map_while(Result::ok)
            .map(|record| record.len())
            .collect();
        if is_cut && (2..ROWS).contains(&cells.len()) {
            cells.pop();
        }
        cells.first().is_some_and(|first| *first > 1 && cells.iter().all(|count| count == first))
    };
    SEPARATORS.into_iter().find(is_regular)
}

/// The text of a file's bytes, without its byte-order mark.
///
/// # Errors
/// The line of the first invalid UTF-8.
pub fn text<'a>(path: &Path, bytes: &'a [u8]) -> Result<&'a str, DataProblem> {
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let offset = error.valid_up_to();
        let line = 1 + bytes[..offset].iter().filter(|&&byte| byte == b'\n').count() as u64;
        DataProblem::new(
            path,
            Some(line),
            format!("not UTF-8: byte 0x{:02x} at byte offset {offset}", bytes[offset]),
        )
        .with_help(encoding_help(bytes))
    })?;
    Ok(text.strip_prefix('\u{feff}').unwrap_or(text))
}

/// How to convert to UTF-8 a file that begins with these bytes.
#[must_use]
pub fn encoding_help(bytes: &[u8]) -> &'static str {
    match bytes {
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => {
            "it is UTF-16: convert it with `iconv -f utf-16 -t utf-8`"
        }
        _ => "convert it, for example with `iconv -f latin1 -t utf-8`",
    }
}

/// The rows of a file, in order.
///
/// # Errors
/// The first problem that prevents reading, with its line.
pub fn rows(
    path: &Path,
    content: &str,
    columns: Columns,
    layout: Layout,
) -> Result<Vec<DataRow>, DataProblem> {
    if content.trim().is_empty() {
        return Err(DataProblem::new(path, None, "the file is empty")
            .with_help("was it written completely?"));
    }
    let rows = match format_of(path).map(|(format, _)| format) {
        Some(DataFormat::Csv | DataFormat::Tsv) => delimited(path, content, columns, layout)?,
        Some(DataFormat::Json) if content.trim_start().starts_with('[') => {
            json::list(path, content, columns)?
        }
        Some(DataFormat::Json) if let Some(problem) = rows_inside(path, content) => {
            return Err(problem);
        }
        Some(
            DataFormat::JsonLines
            | DataFormat::Json
            | DataFormat::Parquet
            | DataFormat::Arrow
            | DataFormat::Conll,
        ) => json::lines(path, content, columns)?,
        Some(DataFormat::Text) | None => {
            return Err(DataProblem::new(path, None, "not a file with rows")
                .with_help(format!("the extension determines the format: {KNOWN_ENDINGS}")));
        }
    };
    if rows.is_empty() {
        return Err(DataProblem::new(path, None, "the file has a header but no rows")
            .with_help("was it written completely?"));
    }
    Ok(rows)
}

fn delimited(
    path: &Path,
    content: &str,
    columns: Columns,
    layout: Layout,
) -> Result<Vec<DataRow>, DataProblem> {
    let separator = layout.separator.unwrap_or_else(|| usual_separator(path));
    let quoting = is_quoted(path);
    if quoting {
        check_quotes(path, content, separator)?;
    }
    let has_header = matches!(layout.header, Header::FirstLine);
    let mut reader = csv::ReaderBuilder::new()
        .delimiter(separator)
        .quoting(quoting)
        .has_headers(has_header)
        .from_reader(content.as_bytes());
    let broken = |error: csv::Error| unreadable(path, &error, content.as_bytes());
    let header: Vec<String> = match layout.header {
        Header::FirstLine => reader.headers().map_err(broken)?.iter().map(str::to_owned).collect(),
        Header::Names(names) => {
            let first = first_row(content, separator, quoting);
            check_names(path, names, &first)?;
            names.to_vec()
        }
        Header::Numbered => {
            (1..=first_row(content, separator, quoting).len()).map(numbered).collect()
        }
    };
    let there: Vec<&str> = header.iter().map(String::as_str).collect();
    let has = |name: &str| there.iter().any(|column| column.trim() == name);
    let lacking = |names: &[&str]| missing_columns(path, Some(1), names, &there, columns.help);
    let missing = columns.without(has);
    if !missing.is_empty() {
        return Err(lacking(&missing));
    }
    let column = |name: &str| {
        let mut found = (0..header.len()).filter(|index| header[*index].trim() == name);
        match (found.next(), found.next()) {
            (Some(index), None) => Ok(index),
            (Some(_), Some(_)) => {
                Err(DataProblem::new(path, Some(1), format!("column `{name}` occurs twice"))
                    .with_help("rename one of them in the first line"))
            }
            (None, _) => Err(lacking(&[name])),
        }
    };
    let text_column = column(columns.text)?;
    let pair_column = columns.text_pair.map(column).transpose()?;
    let label_column = columns.label.map(column).transpose()?;
    let mut rows = Vec::new();
    for record in reader.records() {
        let record = record.map_err(broken)?;
        let line = record.position().map_or(0, |at| line_of(at, content.as_bytes()));
        let cell = |column: Option<usize>| column.map_or("", |column| &record[column]).to_owned();
        let (text, text_pair) = (cell(Some(text_column)), cell(pair_column));
        rows.push(DataRow { text, text_pair, label: cell(label_column), line });
    }
    Ok(rows)
}

/// The line of `content` on which a record begins. The csv crate says where the one before it
/// ended: there may be the rest of a line break, and empty lines.
fn line_of(position: &csv::Position, content: &[u8]) -> u64 {
    let begin = usize::try_from(position.byte()).unwrap_or(usize::MAX);
    let rest = content.get(begin..).unwrap_or_default();
    let breaks = rest.iter().take_while(|byte| matches!(byte, b'\r' | b'\n'));
    position.line() + breaks.filter(|byte| **byte == b'\n').count() as u64
}

/// An error of the csv crate about this content as a [`DataProblem`].
pub fn unreadable(path: &Path, error: &csv::Error, content: &[u8]) -> DataProblem {
    let line = |position: Option<&csv::Position>| position.map(|at| line_of(at, content));
    match error.kind() {
        csv::ErrorKind::UnequalLengths { pos, expected_len, len } => {
            let line = line(pos.as_ref());
            DataProblem::new(
                path,
                line,
                format!("{len} fields where the first line has {expected_len}"),
            )
            .with_help(if is_quoted(path) {
                "a text that holds the separator or a line break must be quoted"
            } else {
                "a .tsv has no quoting: no text in it can hold a tab or a line break"
            })
        }
        csv::ErrorKind::Utf8 { pos, .. } => {
            DataProblem::new(path, line(pos.as_ref()), "not UTF-8").with_help(encoding_help(&[]))
        }
        _ => DataProblem::new(path, line(error.position()), error.to_string())
            .with_help("rows are lines, fields are separated by commas (in a .tsv by tabs)"),
    }
}

/// The cells of the first row of a file that has no header.
fn first_row(content: &str, separator: u8, quoting: bool) -> Vec<String> {
    let mut reader = csv::ReaderBuilder::new()
        .delimiter(separator)
        .quoting(quoting)
        .has_headers(false)
        .from_reader(content.as_bytes());
    let first = reader.records().next().and_then(Result::ok);
    first.map(|record| record.iter().map(str::to_owned).collect()).unwrap_or_default()
}

/// Checks the given names against the first row.
fn check_names(path: &Path, names: &[String], first: &[String]) -> Result<(), DataProblem> {
    if first.len() != names.len() {
        let message =
            format!("{} fields where `[data] column_names` names {}", first.len(), names.len());
        return Err(DataProblem::new(path, Some(1), message).with_help(
            "name every column, in the order of the file; `[data] separator` says what \
                separates them",
        ));
    }
    if first.iter().zip(names).all(|(cell, name)| cell.trim() == name) {
        let message =
            "the first line holds the names in `[data] column_names`: it is a header, not a row";
        return Err(DataProblem::new(path, Some(1), message)
            .with_help("remove `column_names`: it is for files without a header"));
    }
    Ok(())
}

/// The beginning of a text, if it is long.
fn shortened(text: &str) -> String {
    let begin: String = text.chars().take(40).collect();
    if begin.len() < text.len() { format!("{begin}...") } else { begin }
}

fn missing_columns(
    path: &Path,
    line: Option<u64>,
    names: &[&str],
    there: &[&str],
    help: &str,
) -> DataProblem {
    // Without a header the first row is data: long texts.
    let short = |column: &&str| format!("`{}`", shortened(column));
    let mut listed = there.iter().take(20).map(short).collect::<Vec<_>>().join(", ");
    if there.len() > 20 {
        listed += &format!(" and {} more", there.len() - 20);
    }
    let quoted = |names: &[&str]| {
        let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
        names.join(", ")
    };
    let no = if names.len() == 1 { "there is no column" } else { "there are no columns" };
    let message = format!("{no} {}; columns are {listed}", quoted(names));
    let problem = DataProblem::new(path, line, message);
    // Of a file with another separator the whole first line is one column.
    if let [only] = there
        && let Some(separator) = [';', '\t', '|', ','].into_iter().find(|mark| only.contains(*mark))
    {
        let written = if separator == '\t' { "\\t".to_owned() } else { separator.to_string() };
        let shown = shown_separator(u8::try_from(separator).unwrap_or(b','));
        return problem.with_help(format!(
            "are its fields separated by {shown}? `[data] separator = \"{written}\"` says so"
        ));
    }
    let near: Vec<&str> =
        names.iter().filter_map(|name| nearest(name, there.iter().copied())).collect();
    match near.len() {
        0 => problem.with_help(help),
        count if count == names.len() => {
            problem.with_help(format!("did you mean {}?", quoted(&near)))
        }
        _ => problem.with_help(format!("did you mean {}? If not, {help}", quoted(&near))),
    }
}

/// Refuses quoting that the csv crate silently treats as text: an unclosed quote, or text after a
/// closing quote.
fn check_quotes(path: &Path, content: &str, separator: u8) -> Result<(), DataProblem> {
    let Some((line, message)) = wrong_quote(content, separator) else { return Ok(()) };
    let problem = DataProblem::new(path, Some(line), message);
    Err(problem.with_help(match (message, separator) {
        (NEVER_CLOSED, b'\t') => "close it; or rename the file to .tsv, where quote marks are text",
        (NEVER_CLOSED, _) => CLOSE_IT,
        _ => "a quote inside a quoted field is written twice",
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) const COLUMNS: Columns = Columns {
        text: "text",
        text_pair: None,
        label: Some("label"),
        words: Words::Refused,
        help: "name them",
    };

    pub(super) fn read(name: &str, content: &str, layout: Layout) -> Result<Vec<DataRow>, String> {
        rows(Path::new(name), content, COLUMNS, layout).map_err(|problem| problem.to_string())
    }

    pub(super) fn row(text: &str, label: &str, line: u64) -> DataRow {
        let [text, label] = [text, label].map(str::to_owned);
        DataRow { text, text_pair: String::new(), label, line }
    }

    pub(super) fn assert_begins(text: &str, begin: &str) {
        assert!(text.starts_with(begin), "{text}");
    }

    #[test]
    fn cells_are_separated_by_what_is_said_and_quoted_all_the_same() {
        let layout = |separator| Layout { separator: Some(separator), ..Layout::default() };
        let content = "text;label\n\"good; \"\"very\"\" good\nindeed\";pos\na, b;neg\n";
        assert_eq!(
            read("a.csv", content, layout(b';')).unwrap(),
            [row("good; \"very\" good\nindeed", "pos", 2), row("a, b", "neg", 4)]
        );
        assert_eq!(read("a.csv", "text|label\nx|1\n", layout(b'|')).unwrap(), [row("x", "1", 2)]);
        assert_eq!(
            read("a.tsv", "text;label\nsay \"hi;1\n", layout(b';')).unwrap(),
            [row("say \"hi", "1", 2)]
        );
        let unclosed = read("a.csv", "text;label\n\"x;1\n", layout(b';')).unwrap_err();
        assert_begins(&unclosed, "a.csv:2: a quote is opened here and never closed");
    }

    #[test]
    fn a_file_without_a_header_is_read_by_the_names_that_are_given() {
        let names = ["label".to_owned(), "text".to_owned()];
        let layout = Layout { separator: None, header: Header::Names(&names) };
        assert_eq!(
            read("a.tsv", "ham\tGo on\nspam\tWin\n", layout).unwrap(),
            [row("Go on", "ham", 1), row("Win", "spam", 2)]
        );
        let wide = read("a.tsv", "ham\tGo on\tx\n", layout).unwrap_err();
        assert_begins(&wide, "a.tsv:1: 3 fields where `[data] column_names` names 2 (");
        let header = read("a.tsv", "label\ttext\nham\tGo on\n", layout).unwrap_err();
        let expected = "a.tsv:1: the first line holds the names in `[data] column_names`";
        assert_begins(&header, expected);
        let torn = read("a.tsv", "ham\tGo on\nspam\n", layout).unwrap_err();
        assert_eq!(
            torn,
            "a.tsv:2: 1 fields where the first line has 2 (a .tsv has no quoting: no text in it \
             can hold a tab or a line break)"
        );
    }

    #[test]
    fn lines_are_those_of_an_editor_whatever_ends_them() {
        for end in ["\n", "\r\n"] {
            let text = ["text,label", "a,1", "", "\"b", "c\",2", "d,3", ""].join(end);
            let rows = read("a.csv", &text, Layout::default()).unwrap();
            let lines: Vec<u64> = rows.iter().map(|row| row.line).collect();
            assert_eq!(lines, [2, 4, 6], "{end:?}");
            let torn = read("a.csv", &format!("{text}e{end}"), Layout::default()).unwrap_err();
            assert_begins(&torn, "a.csv:7: 1 fields where the first line has 2");
        }
    }

    #[test]
    fn columns_without_names_are_numbered_from_one() {
        let layout = Layout { separator: None, header: Header::Numbered };
        let columns = Columns { text: "column2", label: Some("column1"), ..COLUMNS };
        let rows = rows(Path::new("a.csv"), "ham,Continue\n", columns, layout).unwrap();
        assert_eq!((rows[0].text.as_str(), rows[0].label.as_str()), ("Continue", "ham"));
    }

    #[test]
    fn the_separator_is_what_gives_all_rows_the_same_number_of_cells() {
        let found =
            |content: &str| find_separator(content.as_bytes(), false).map_or(' ', char::from);
        assert_eq!(found("text,label\na; b,pos\n"), ',');
        assert_eq!(found("text;label\na film, and a good one;pos\n"), ';');
        assert_eq!(found("text\tlabel\na film, and; a good one\tpos\n"), '\t');
        assert_eq!(found("a|b|c\n1,5|2|3\n"), '|');
        assert_eq!(found("text\nonly one column; of texts\n"), ' ');
        assert_eq!(found("text;label\n\"two\nlines; or more\";pos\n"), ';');
        assert_eq!(found(""), ' ');
        // The last row of the sample may be incomplete.
        assert_eq!(find_separator(b"a;b\n1;2\n3", true), Some(b';'));
        assert_eq!(find_separator(b"a;b\n1;2\n3", false), None);
    }

    #[test]
    fn another_separator_is_told_with_the_key_that_says_it() {
        for (content, shown, written) in
            [("text;label\nx;1\n", "`;`", ";"), ("text\tlabel\nx\t1\n", "tabs", "\\t")]
        {
            let said = read("a.csv", content, Layout::default()).unwrap_err();
            let asked =
                format!("separated by {shown}? `[data] separator = \"{written}\"` says so)");
            assert!(said.ends_with(&asked), "{said}");
        }
    }

    #[test]
    fn bytes_that_are_not_utf_8_are_located_with_the_way_out() {
        let said = |bytes: &[u8]| text(Path::new("a.csv"), bytes).unwrap_err().to_string();
        assert!(
            said(b"text,label\nx,1\ncaf\xe9,2\n")
                .starts_with("a.csv:3: not UTF-8: byte 0xe9 at byte offset 18 (convert it")
        );
        assert!(said(b"\xff\xfet\0e\0").contains("iconv -f utf-16"));
        assert_eq!(text(Path::new("a.csv"), "\u{feff}text".as_bytes()).unwrap(), "text");
    }
}
