//! A look at a data file: its columns, and which of them are texts and labels.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use crate::cli::exit::Failure;
use crate::config;

/// Rows that are looked at; more would tell little else.
const LOOKED_AT: usize = 100_000;

/// Bytes of a file that are looked at.
const BYTES: u64 = 256 << 20;

/// Different values of a column that are kept; one with more is no label.
const MOST_VALUES: usize = 1_000;

/// A column, as far as it was looked at.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// Its name in the header.
    pub name: String,
    /// Rows by value; `None` where there are too many values for a label.
    pub values: Option<BTreeMap<String, u64>>,
    /// Words of each text, ascending.
    words: Vec<u32>,
    characters: u64,
    empty: u64,
}

impl Column {
    fn new(name: &str) -> Self {
        Column { name: name.trim().to_owned(), values: Some(BTreeMap::new()), words: Vec::new(), characters: 0, empty: 0 }
    }

    fn add(&mut self, text: &str) {
        self.empty += u64::from(text.trim().is_empty());
        self.characters += text.chars().count() as u64;
        self.words.push(u32::try_from(text.split_whitespace().count()).unwrap_or(u32::MAX));
        if let Some(values) = &mut self.values {
            *values.entry(text.to_owned()).or_default() += 1;
            if values.len() > MOST_VALUES {
                self.values = None;
            }
        }
    }

    /// Words of the text that is longer than this share of all.
    pub fn words_at(&self, share: f64) -> u32 {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss, reason = "an index of at most 100,000 rows")]
        let index = (share * self.words.len().saturating_sub(1) as f64) as usize;
        self.words.get(index).copied().unwrap_or(0)
    }

    #[expect(clippy::cast_precision_loss, reason = "a mean for a guess")]
    fn mean_characters(&self) -> f64 {
        self.characters as f64 / self.words.len().max(1) as f64
    }

    /// The share of the most frequent value.
    #[expect(clippy::cast_precision_loss, reason = "a share for a guess")]
    pub fn largest_share(&self) -> f64 {
        let largest = self.values.as_ref().and_then(|values| values.values().max()).copied().unwrap_or(0);
        largest as f64 / self.words.len().max(1) as f64
    }
}

/// What was found in a file.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// Its columns, in order.
    pub columns: Vec<Column>,
    /// Rows that were looked at.
    pub rows: usize,
    /// Whether there are more.
    pub is_cut: bool,
}

impl Table {
    /// The column called `name`.
    pub fn column(&self, name: &str) -> Option<&Column> {
        self.columns.iter().find(|column| column.name == name)
    }
}

/// Names that columns of texts and labels often have, the likeliest first.
const TEXTS: &[&str] =
    &["text", "sentence", "content", "message", "review", "body", "comment", "document", "utterance", "question", "tweet", "title"];
const LABELS: &[&str] = &["label", "labels", "class", "category", "target", "sentiment", "intent", "topic", "department", "rating", "stars", "y"];

/// The columns of texts and labels, by their names and by what is in them; each `None` where nothing fits.
pub fn guess(table: &Table) -> (Option<&Column>, Option<&Column>) {
    let named = |names: &[&str]| names.iter().find_map(|name| table.columns.iter().find(|column| column.name.eq_ignore_ascii_case(name)));
    let is_label = |column: &&Column| column.values.as_ref().is_some_and(|values| values.len() >= 2 && values.len() * 4 <= table.rows.max(8));
    let label = named(LABELS).filter(is_label).or_else(|| {
        let likely = table.columns.iter().filter(is_label);
        likely.min_by_key(|column| column.values.as_ref().map_or(usize::MAX, BTreeMap::len))
    });
    let others = || table.columns.iter().filter(|column| label.is_none_or(|label| label.name != column.name));
    let longest = others().max_by(|one, other| one.mean_characters().total_cmp(&other.mean_characters()));
    let text = named(TEXTS).filter(|text| label.is_none_or(|label| label.name != text.name)).or(longest);
    (text, label)
}

/// Reads a csv, tsv or jsonl file.
pub fn read(path: &Path) -> Result<Table, Failure> {
    let broken = |why: String| Failure::usage(format!("`{}` cannot be read as data: {why}", path.display()));
    let file = config::file::open(path).map_err(|error| broken(error.to_string()).help("give the path of a csv, tsv, jsonl or txt file"))?;
    let size = file.metadata().map_or(0, |metadata| metadata.len());
    let input = BufReader::new(file.take(BYTES));
    let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
    let mut input = input;
    if extension == "csv"
        && let Some(mark) = other_delimiter(input.fill_buf().map_err(|error| broken(error.to_string()).help("see that it may be read"))?)
    {
        return Err(broken(format!("its fields are separated by {}, not by commas", named(mark))).help(conversion(path, mark)));
    }
    let mut table = match extension {
        "csv" => delimited(input, b','),
        "tsv" => delimited(input, b'\t'),
        "jsonl" => json_lines(input),
        _ => return Err(broken(format!("`.{extension}` is not known")).help("csv, tsv, jsonl and txt files are known, by their endings")),
    }
    .map_err(|why| broken(why).help("the first line of a csv or tsv names the columns; each line of a jsonl is one object"))?;
    table.is_cut |= size > BYTES;
    if table.rows == 0 {
        return Err(broken("there are no rows".to_owned()).help("the first line names the columns, the others are rows"));
    }
    for column in &mut table.columns {
        column.words.sort_unstable();
    }
    Ok(table)
}

/// What separates the fields of a file whose first line has no comma, if anything does.
fn other_delimiter(begin: &[u8]) -> Option<u8> {
    let line = begin.split(|byte| *byte == b'\n').next()?;
    if line.contains(&b',') {
        return None;
    }
    let count = |mark: u8| line.iter().filter(|byte| **byte == mark).count();
    [b';', b'\t', b'|'].into_iter().filter(|mark| count(*mark) > 0).max_by_key(|mark| count(*mark))
}

fn named(mark: u8) -> String {
    if mark == b'\t' { "tabs".to_owned() } else { format!("`{}`", char::from(mark)) }
}

/// How such a file becomes one that can be read.
fn conversion(path: &Path, mark: u8) -> String {
    let file = path.display();
    if mark == b'\t' {
        return format!("rename it: `mv {file} {}`", path.with_extension("tsv").display());
    }
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let mark = char::from(mark);
    format!(
        "this writes one with commas:\n  python3 -c 'import csv, sys\n  csv.writer(sys.stdout).writerows(csv.reader(sys.stdin, delimiter=\"{mark}\"))' \\\n    < {file} > {}",
        path.with_file_name(format!("{stem}-commas.csv")).display()
    )
}

fn delimited(input: impl Read, delimiter: u8) -> Result<Table, String> {
    // As the trainer reads them: a tsv has no quotes.
    let mut reader = csv::ReaderBuilder::new().delimiter(delimiter).quoting(delimiter == b',').from_reader(input);
    let header = reader.headers().map_err(|error| error.to_string())?.clone();
    let mut columns: Vec<Column> = header.iter().map(|name| Column::new(name.trim_start_matches('\u{feff}'))).collect();
    let mut rows = 0;
    for record in reader.records() {
        if rows == LOOKED_AT {
            return Ok(Table { columns, rows, is_cut: true });
        }
        let record = record.map_err(|error| error.to_string())?;
        columns.iter_mut().zip(record.iter()).for_each(|(column, text)| column.add(text));
        rows += 1;
    }
    Ok(Table { columns, rows, is_cut: false })
}

fn json_lines(input: impl BufRead) -> Result<Table, String> {
    let mut columns: Vec<Column> = Vec::new();
    let mut rows = 0;
    for (line, text) in (1..).zip(input.lines()) {
        let text = text.map_err(|error| error.to_string())?;
        if text.trim().is_empty() {
            continue;
        }
        if rows == LOOKED_AT {
            return Ok(Table { columns, rows, is_cut: true });
        }
        let row: BTreeMap<String, serde_json::Value> =
            serde_json::from_str(&text).map_err(|error| format!("line {line} is no JSON object: {error}"))?;
        for (name, value) in row {
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            match columns.iter_mut().find(|column| column.name == name) {
                Some(column) => column.add(&text),
                None => {
                    let mut column = Column::new(&name);
                    column.add(&text);
                    columns.push(column);
                }
            }
        }
        rows += 1;
    }
    Ok(Table { columns, rows, is_cut: false })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guessed(name: &str, content: &str) -> (Option<String>, Option<String>) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(name);
        std::fs::write(&path, content).unwrap();
        let table = read(&path).unwrap();
        let (text, label) = guess(&table);
        (text.map(|column| column.name.clone()), label.map(|column| column.name.clone()))
    }

    fn rows(row: impl Fn(usize) -> String) -> String {
        (0..40).map(|index| row(index) + "\n").collect()
    }

    #[test]
    fn columns_are_known_by_their_names() {
        let content =
            format!("id,Text,Label,source\n{}", rows(|index| format!("{index},\"a text, number {index}\",{},web", ["good", "bad"][index % 2])));
        assert_eq!(guessed("reviews.csv", &content), (Some("Text".into()), Some("Label".into())));
    }

    #[test]
    fn columns_without_telling_names_are_known_by_their_contents() {
        let content = format!("a\tb\tc\n{}", rows(|index| format!("{index}\tthis is \"message\" number {index}\t{}", index % 3)));
        assert_eq!(guessed("messages.tsv", &content), (Some("b".into()), Some("c".into())));
    }

    #[test]
    fn json_lines_have_columns_too_and_numbers_may_be_labels() {
        let content = rows(|index| format!("{{\"review\": \"number {index} of them\", \"stars\": {}}}", index % 5));
        assert_eq!(guessed("reviews.jsonl", &content), (Some("review".into()), Some("stars".into())));
    }

    #[test]
    fn a_file_without_labels_has_texts_only() {
        let content = format!("text\n{}", rows(|index| format!("only text {index}")));
        assert_eq!(guessed("plain.csv", &content), (Some("text".into()), None));
    }

    #[test]
    fn a_csv_without_commas_is_said_to_have_another_delimiter_and_how_it_is_converted() {
        let directory = tempfile::tempdir().unwrap();
        let said = |content: &str| {
            let path = directory.path().join("reviews.csv");
            std::fs::write(&path, content).unwrap();
            read(&path).map(|table| table.columns.len()).map_err(|failure| failure.to_string())
        };
        let semicolons = said("text;label\na film, and a good one;pos\n").unwrap_err();
        assert!(semicolons.contains("separated by `;`, not by commas") && semicolons.contains("reviews-commas.csv"), "{semicolons}");
        let tabs = said("text\tlabel\na film\tpos\n").unwrap_err();
        assert!(tabs.contains("separated by tabs") && tabs.contains("reviews.tsv"), "{tabs}");
        assert_eq!(said("text;more,label\na,pos\n"), Ok(2));
        assert_eq!(said("text\nonly one column; of texts\n"), Ok(1));
    }

    #[test]
    fn what_cannot_be_read_is_said_with_what_can() {
        let failure = read(Path::new("/nowhere/data.csv")).unwrap_err().to_string();
        assert!(failure.contains("/nowhere/data.csv") && failure.contains("help: give the path"), "{failure}");
        assert!(read(Path::new("/etc/hostname")).unwrap_err().to_string().contains("csv, tsv, jsonl and txt"), "unknown ending");
    }
}
