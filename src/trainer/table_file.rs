//! Reads the text and label columns of a csv, tsv or jsonl file, or all of a text file, with the line of every row and of every problem.

use std::fs;
use std::path::Path;

use serde_json::Value;

use super::{DataProblem, TrainerError};
use crate::arguments::nearest;

/// One row of a data file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) text: String,
    /// Empty where no label was asked for.
    pub(super) label: String,
    /// The line it begins at, counted from 1.
    pub(super) line: u64,
}

/// A file's contents as read, before they are parsed.
pub(super) struct RawFile {
    pub(super) bytes: Vec<u8>,
}

impl RawFile {
    pub(super) fn read(path: &Path) -> Result<Self, TrainerError> {
        match fs::read(path) {
            Ok(bytes) => Ok(Self { bytes }),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                Err(DataProblem::new(path, None, "the file does not exist").with_help("paths are relative to the study file").into())
            }
            Err(error) => Err(TrainerError::io("read", path)(error)),
        }
    }

    /// The whole text of the file at `path`.
    pub(super) fn text(&self, path: &Path) -> Result<&str, DataProblem> {
        let text = utf8(path, &self.bytes)?;
        if text.trim().is_empty() {
            return Err(DataProblem::new(path, None, "the file is empty").with_help("was it written to its end? `[data]` names another one"));
        }
        Ok(text)
    }

    /// The rows of the file at `path`, in order, from the columns called `text` and `label`, which may be empty.
    pub(super) fn rows(&self, path: &Path, text: &str, label: Option<&str>) -> Result<Vec<Row>, DataProblem> {
        let columns = Columns { text, label };
        let text = self.text(path)?;
        let rows = match path.extension().and_then(|extension| extension.to_str()) {
            Some("jsonl") => json_lines(path, text, columns)?,
            Some("tsv") => delimited(path, text, columns, b'\t')?,
            Some("csv") => delimited(path, text, columns, b',')?,
            _ => {
                return Err(
                    DataProblem::new(path, None, "not a .csv, .tsv or .jsonl file").with_help("the ending says the format: rename or convert it")
                );
            }
        };
        if rows.is_empty() {
            return Err(
                DataProblem::new(path, None, "the file has a header but no rows").with_help("was it written to its end? `[data]` names another one")
            );
        }
        Ok(rows)
    }

    /// The same with labels, which may be empty only where a text may have none.
    pub(super) fn labelled_rows(&self, path: &Path, text: &str, label: &str, may_be_empty: bool) -> Result<Vec<Row>, DataProblem> {
        let rows = self.rows(path, text, Some(label))?;
        if may_be_empty {
            return Ok(rows);
        }
        match rows.iter().find(|row| row.label.is_empty()) {
            Some(row) => Err(DataProblem::new(path, Some(row.line), format!("the label in column `{label}` is empty"))
                .with_help("give it a label, or take the row out")),
            None => Ok(rows),
        }
    }
}

/// The columns that are read.
#[derive(Debug, Clone, Copy)]
struct Columns<'a> {
    text: &'a str,
    label: Option<&'a str>,
}

fn utf8<'a>(path: &Path, bytes: &'a [u8]) -> Result<&'a str, DataProblem> {
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let offset = error.valid_up_to();
        let line = 1 + bytes[..offset].iter().filter(|&&byte| byte == b'\n').count() as u64;
        DataProblem::new(path, Some(line), format!("not UTF-8: byte 0x{:02x} at byte offset {offset}", bytes[offset])).with_help(match bytes {
            [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => "it is UTF-16: convert it with `iconv -f utf-16 -t utf-8`",
            _ => "convert it, for example with `iconv -f latin1 -t utf-8`",
        })
    })?;
    Ok(text.strip_prefix('\u{feff}').unwrap_or(text))
}

fn delimited(path: &Path, text: &str, columns: Columns, delimiter: u8) -> Result<Vec<Row>, DataProblem> {
    // A tsv has no quoting (IANA text/tab-separated-values): quote marks in it are text.
    let quoting = delimiter == b',';
    if quoting {
        check_quotes(path, text)?;
    }
    let mut reader = csv::ReaderBuilder::new().delimiter(delimiter).quoting(quoting).from_reader(text.as_bytes());
    let broken = |error: csv::Error| match error.kind() {
        csv::ErrorKind::UnequalLengths { pos, expected_len, len } => {
            let line = pos.as_ref().map(csv::Position::line);
            DataProblem::new(path, line, format!("{len} fields where the header has {expected_len}"))
                .with_help("a text that holds the delimiter or a line break must be quoted")
        }
        _ => DataProblem::new(path, error.position().map(csv::Position::line), error.to_string())
            .with_help("rows are lines, fields are separated by commas (in a .tsv by tabs)"),
    };
    let header = reader.headers().map_err(broken)?.clone();
    let column = |name: &str| {
        let mut found = header.iter().enumerate().filter(|(_, column)| column.trim() == name).map(|(index, _)| index);
        match (found.next(), found.next()) {
            (Some(index), None) => Ok(index),
            (Some(_), Some(_)) => {
                Err(DataProblem::new(path, Some(1), format!("column `{name}` occurs twice")).with_help("rename one of them in the first line"))
            }
            (None, _) => Err(missing_column(path, Some(1), name, &header.iter().collect::<Vec<_>>())),
        }
    };
    let (text_column, label_column) = (column(columns.text)?, columns.label.map(column).transpose()?);
    let mut rows = Vec::new();
    for record in reader.records() {
        let record = record.map_err(broken)?;
        let line = record.position().map_or(0, csv::Position::line);
        let label = label_column.map_or_else(String::new, |column| record[column].to_owned());
        rows.push(Row { text: record[text_column].to_owned(), label, line });
    }
    Ok(rows)
}

fn json_lines(path: &Path, text: &str, columns: Columns) -> Result<Vec<Row>, DataProblem> {
    let mut rows = Vec::new();
    for (line, content) in (1..).zip(text.lines()) {
        if content.trim().is_empty() {
            continue;
        }
        let value: Value = serde_json::from_str(content).map_err(|error| {
            DataProblem::new(path, Some(line), format!("not JSON: {error}")).with_help("a .jsonl file has one JSON object on each line")
        })?;
        let Value::Object(object) = value else {
            return Err(DataProblem::new(path, Some(line), "not a JSON object").with_help("write it as `{\"text\": \"..\", \"label\": \"..\"}`"));
        };
        let column =
            |name: &str| match object.get(name) {
                Some(Value::String(text)) => Ok(text.clone()),
                Some(value @ (Value::Number(_) | Value::Bool(_))) => Ok(value.to_string()),
                // Several labels of a text.
                Some(Value::Array(all)) if columns.label == Some(name) && all.iter().all(|one| one.is_string() || one.is_number()) => {
                    Ok(all.iter().map(|one| one.as_str().map_or_else(|| one.to_string(), str::to_owned)).collect::<Vec<_>>().join("\n"))
                }
                Some(value) => Err(DataProblem::new(path, Some(line), format!("`{name}` is `{value}`, not text"))
                    .with_help("write it as a string, or take the row out")),
                None => Err(missing_column(path, Some(line), name, &object.keys().map(String::as_str).collect::<Vec<_>>())),
            };
        rows.push(Row { text: column(columns.text)?, label: columns.label.map_or_else(|| Ok(String::new()), column)?, line });
    }
    Ok(rows)
}

fn missing_column(path: &Path, line: Option<u64>, name: &str, there: &[&str]) -> DataProblem {
    // A file without a header has its first row here: texts, which are long.
    let short = |column: &&str| format!("`{}{}`", column.chars().take(40).collect::<String>(), if column.chars().count() > 40 { "..." } else { "" });
    let mut listed = there.iter().take(20).map(short).collect::<Vec<_>>().join(", ");
    if there.len() > 20 {
        listed += &format!(" and {} more", there.len() - 20);
    }
    let problem = DataProblem::new(path, line, format!("there is no column `{name}`; columns are {listed}"));
    // Of a file with another delimiter the whole first line is one column.
    if let ([only], Some(delimiter)) = (there, there.first().and_then(|only| [';', '\t', '|'].into_iter().find(|mark| only.contains(*mark))))
        && only.split(delimiter).count() > 1
    {
        return problem.with_help(match delimiter {
            '\t' => "its fields are separated by tabs: rename it to .tsv".to_owned(),
            other => format!("its fields are separated by `{other}`: save it with commas; `hpsearch init` on it tells how"),
        });
    }
    match nearest(name, there.iter().copied()) {
        Some(near) => problem.with_help(format!("did you mean `{near}`?")),
        None => problem.with_help("set `[data] text` and `[data] label`; the first line must be a header"),
    }
}

/// Finds quoting that the csv crate would silently take for text: a quote that never closes, or text after a closing quote.
fn check_quotes(path: &Path, text: &str) -> Result<(), DataProblem> {
    #[derive(PartialEq)]
    enum Place {
        FieldStart,
        Plain,
        Quoted,
        AfterQuote,
    }
    let (mut place, mut line, mut opened) = (Place::FieldStart, 1, 1);
    for byte in text.bytes() {
        place = match (place, byte) {
            (Place::Quoted, b'"') => Place::AfterQuote,
            (Place::Quoted, _) => Place::Quoted,
            (Place::AfterQuote, b'"') => Place::Quoted,
            (_, b',' | b'\n' | b'\r') => Place::FieldStart,
            (Place::FieldStart, b'"') => {
                opened = line;
                Place::Quoted
            }
            (Place::AfterQuote, _) => {
                return Err(
                    DataProblem::new(path, Some(line), "text after a closing quote").with_help("a quote inside a quoted field is written twice")
                );
            }
            (Place::FieldStart | Place::Plain, _) => Place::Plain,
        };
        line += u64::from(byte == b'\n');
    }
    if place == Place::Quoted {
        return Err(DataProblem::new(path, Some(opened), "a quote is opened here and never closed")
            .with_help("close it; a quote inside a quoted field is written twice"));
    }
    Ok(())
}
