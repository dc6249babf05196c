//! Examines a data file: its columns, and which of them are texts and labels.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use crate::arguments::data_file::{self, DataProblem, numbered};
use crate::arguments::data_format::{DataFormat, KNOWN_ENDINGS, format_of};
use crate::cli::exit::Failure;
use crate::config;

/// Maximum number of rows read.
const LOOKED_AT: usize = 100_000;

/// Maximum number of bytes read of a file.
const BYTES: u64 = 256 << 20;

/// Bytes at the beginning from which the separator is detected.
const BEGIN: usize = 1 << 16;

/// Maximum number of distinct values of a label column.
const MOST_VALUES: usize = 1_000;

/// A column, as far as it was read.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// Its name in the header.
    pub name: String,
    /// Rows by value; `None` if there are too many values for a label.
    pub values: Option<BTreeMap<String, u64>>,
    /// Words of each text, ascending.
    words: Vec<u32>,
    characters: u64,
    /// Number of numeric values.
    numbers: usize,
    /// The length of each list, of a column of lists in JSON; its values are their elements.
    lists: Vec<u32>,
}

impl Column {
    fn new(name: &str) -> Self {
        Column {
            name: name.trim().to_owned(),
            values: Some(BTreeMap::new()),
            words: Vec::new(),
            characters: 0,
            numbers: 0,
            lists: Vec::new(),
        }
    }

    /// Whether both are lists, of equal lengths in each row.
    pub fn lists_as(&self, other: &Self) -> bool {
        self.is_of_lists() && other.is_of_lists() && self.lists == other.lists
    }

    /// Whether each value is a list.
    fn is_of_lists(&self) -> bool {
        !self.lists.is_empty() && self.lists.len() == self.words.len()
    }

    fn add(&mut self, text: &str) {
        self.numbers += usize::from(text.trim().parse::<f64>().is_ok());
        self.characters += text.chars().count() as u64;
        self.words.push(u32::try_from(text.split_whitespace().count()).unwrap_or(u32::MAX));
        self.count(text);
    }

    /// Adds a row with a list of texts.
    fn add_list(&mut self, all: &[String]) {
        let length = u32::try_from(all.len()).unwrap_or(u32::MAX);
        self.characters += all.iter().map(|one| one.chars().count() as u64).sum::<u64>();
        self.words.push(length);
        self.lists.push(length);
        all.iter().for_each(|one| self.count(one));
    }

    fn count(&mut self, value: &str) {
        if let Some(values) = &mut self.values {
            *values.entry(value.to_owned()).or_default() += 1;
            if values.len() > MOST_VALUES {
                self.values = None;
            }
        }
    }

    /// The number of words at this quantile of text lengths.
    pub fn words_at(&self, share: f64) -> u32 {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "an index of at most 100,000 rows"
        )]
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
        let largest =
            self.values.as_ref().and_then(|values| values.values().max()).copied().unwrap_or(0);
        largest as f64 / self.words.len().max(1) as f64
    }
}

/// The columns and rows of a file.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// Its columns, in order.
    pub columns: Vec<Column>,
    /// Number of rows read.
    pub rows: usize,
    /// Whether there are more.
    pub is_cut: bool,
    /// The cell separator of a csv or tsv file.
    pub separator: Option<u8>,
    /// The cells of its first line, if treated as names.
    header: Vec<String>,
}

/// A sign that the first line of a file is a row, not a header.
#[derive(Clone, Debug, PartialEq)]
pub struct Doubt {
    /// The cell of the first line.
    pub cell: String,
    /// Its column, counted from 1.
    pub column: usize,
    /// Rows of that column that hold the same; 0 if the cell is a number like all others.
    pub same: u64,
}

impl Table {
    fn new(columns: Vec<Column>) -> Self {
        Table { columns, rows: 0, is_cut: false, separator: None, header: Vec::new() }
    }

    /// The column called `name`.
    pub fn column(&self, name: &str) -> Option<&Column> {
        self.columns.iter().find(|column| column.name == name)
    }

    /// Whether a column has so few values that each may be a label.
    fn is_label(&self, column: &Column) -> bool {
        column
            .values
            .as_ref()
            .is_some_and(|values| values.len() >= 2 && values.len() * 4 <= self.rows.max(8))
    }

    /// Evidence that the first line is a row: at least half of the columns with few values are
    /// named like one of their values, or a numeric column is named like a number.
    pub fn doubt(&self) -> Option<Doubt> {
        let cells = || self.header.iter().zip(&self.columns).zip(1..);
        let few: Vec<_> = cells().filter(|((_, column), _)| self.is_label(column)).collect();
        let same = |cell: &String, column: &Column| {
            column.values.as_ref().and_then(|values| values.get(cell)).copied()
        };
        let named: Vec<Doubt> = few
            .iter()
            .filter_map(|((cell, column), index)| {
                Some(Doubt { cell: (*cell).clone(), column: *index, same: same(cell, column)? })
            })
            .collect();
        if named.len() * 2 >= few.len() && !named.is_empty() {
            return named.into_iter().next();
        }
        let is_number = |cell: &str| cell.trim().parse::<f64>().is_ok();
        let (((cell, _), index), _) =
            cells().zip(&self.columns).find(|(((cell, _), _), column)| {
                is_number(cell) && column.numbers == column.words.len()
            })?;
        Some(Doubt { cell: cell.clone(), column: index, same: 0 })
    }

    /// Treats the first line as a row; columns are then named by number.
    pub fn without_header(&mut self) {
        for ((column, cell), number) in
            self.columns.iter_mut().zip(std::mem::take(&mut self.header)).zip(1..)
        {
            column.name = numbered(number);
            column.add(&cell);
            column.words.sort_unstable();
        }
        self.rows += 1;
    }
}

/// Names that columns of texts and labels often have, the likeliest first.
const TEXTS: &str = "\
    text sentence content message review body comment document utterance question tweet title";
const LABELS: &str = "\
    label labels class category target sentiment intent topic department rating stars y";

/// Names that the columns of pairs of texts have, most of them in GLUE.
const PAIRS: [[&str; 2]; 6] = [
    ["sentence1", "sentence2"],
    ["premise", "hypothesis"],
    ["question1", "question2"],
    ["question", "sentence"],
    ["text", "text_pair"],
    ["text_a", "text_b"],
];

/// The columns of pairs of texts, if both are there under names that are usual for them.
pub fn guess_pair(table: &Table) -> Option<[&Column; 2]> {
    let named = |name: &str| table.columns.iter().find(|column| column.name == name);
    PAIRS.iter().find_map(|[first, second]| Some([named(first)?, named(second)?]))
}

/// Names that the columns of questions, contexts and answers have in SQuAD and its like.
const QUESTIONS: [&[&str]; 3] = [&["question"], &["context"], &["answers", "answer"]];

/// The columns of questions, contexts and answers, if all are there under their usual names.
pub fn guess_questions(table: &Table) -> Option<[&Column; 3]> {
    let named =
        |name: &&str| table.columns.iter().find(|column| column.name.eq_ignore_ascii_case(name));
    let [question, context, answers] = QUESTIONS.map(|names| names.iter().find_map(named));
    Some([question?, context?, answers?])
}

/// Whether it is a file as SQuAD publishes it, with its rows inside of lists.
pub fn is_nested_squad(table: &Table) -> bool {
    table.rows == 1 && table.column("data").is_some() && table.column("version").is_some()
}

/// Names that columns of texts and of the texts to write for them have.
const TARGETS: [[&str; 2]; 9] = [
    ["article", "highlights"],
    ["article", "summary"],
    ["document", "summary"],
    ["dialogue", "summary"],
    ["text", "summary"],
    ["source", "target"],
    ["source_text", "target_text"],
    ["input_text", "target_text"],
    ["request", "command"],
];

/// The columns of texts and of texts to write, if both are there under names that are usual for them
/// and the second one has no labels.
pub fn guess_target(table: &Table) -> Option<[&Column; 2]> {
    let pair = |[text, target]: &[&str; 2]| Some([table.column(text)?, table.column(target)?]);
    TARGETS.iter().filter_map(pair).find(|[_, target]| !table.is_label(target))
}

/// Names of columns of lists of words, and of lists with a label for each.
const WORDS: &str = "tokens words";
const TAGS: &str = "ner_tags tags pos_tags labels";

/// The columns of words and of their labels, lists of equal lengths.
pub fn guess_words(table: &Table) -> Option<[&Column; 2]> {
    let named = |names: &str| -> Vec<&Column> {
        let find = |name: &str| table.columns.iter().find(|column| column.name == name);
        names.split(' ').filter_map(find).collect()
    };
    let words = *named(WORDS).first()?;
    named(TAGS).into_iter().find(|tags| tags.lists_as(words)).map(|tags| [words, tags])
}

/// A candidate column.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Guess<'a> {
    /// The column.
    pub column: &'a Column,
    /// Why it was chosen.
    pub why: Why,
}

/// The basis of a guess.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// Its name is usual for it.
    Name,
    /// It has the longest values.
    Longest,
    /// It has the fewest different values.
    Fewest,
}

impl Why {
    /// As the end of a sentence about the column.
    pub fn as_str(self) -> &'static str {
        match self {
            Why::Name => "guessed by its name",
            Why::Longest => "guessed: it has the longest values",
            Why::Fewest => "guessed: it has the fewest different values",
        }
    }
}

/// Guesses the columns of texts and labels by names and contents; `None` if nothing fits.
pub fn guess(table: &Table) -> (Option<Guess<'_>>, Option<Guess<'_>>) {
    let named = |names: &str| {
        names.split(' ').find_map(|name| {
            table.columns.iter().find(|column| column.name.eq_ignore_ascii_case(name))
        })
    };
    let of = |why: Why| move |column| Guess { column, why };
    let label =
        named(LABELS).filter(|column| table.is_label(column)).map(of(Why::Name)).or_else(|| {
            let likely = table.columns.iter().filter(|column| table.is_label(column));
            likely
                .min_by_key(|column| column.values.as_ref().map_or(usize::MAX, BTreeMap::len))
                .map(of(Why::Fewest))
        });
    let is_free = |column: &&Column| label.is_none_or(|label| label.column.name != column.name);
    let longest = table
        .columns
        .iter()
        .filter(is_free)
        .max_by(|one, other| one.mean_characters().total_cmp(&other.mean_characters()));
    let text = named(TEXTS).filter(is_free).map(of(Why::Name)).or(longest.map(of(Why::Longest)));
    (text, label)
}

/// Reads the beginning of a file with rows.
pub fn read(path: &Path) -> Result<Table, Failure> {
    let broken = |error: io::Error| {
        let failure =
            Failure::usage(format!("`{}` cannot be read as data: {error}", path.display()));
        failure.help(format!("give the path of a data file that you may read: {KNOWN_ENDINGS}"))
    };
    let known = format_of(path);
    let is_plain = matches!(
        known,
        None | Some((DataFormat::Csv | DataFormat::Tsv | DataFormat::JsonLines, None))
    );
    let (file, size): (Box<dyn Read>, u64) = if is_plain {
        let file = config::file::open(path).map_err(broken)?;
        let size = file.metadata().map_or(0, |metadata| metadata.len());
        (Box::new(file), size)
    } else {
        let bytes = config::file::read(path).map_err(broken)?;
        let contents = data_file::contents(path, &bytes)?.into_owned();
        let size = contents.len() as u64;
        (Box::new(io::Cursor::new(contents)), size)
    };
    let mut input = BufReader::with_capacity(BEGIN, file.take(BYTES));
    let begin = input.fill_buf().map_err(broken)?;
    if let [0xff, 0xfe, ..] | [0xfe, 0xff, ..] = begin {
        return Err(DataProblem::new(path, None, "not UTF-8")
            .with_help(data_file::encoding_help(begin))
            .into());
    }
    let mark = "\u{feff}".as_bytes();
    let marked = if begin.starts_with(mark) { mark.len() } else { 0 };
    input.consume(marked);
    let begin = input.buffer();
    let found = data_file::find_separator(begin, begin.len() + marked >= BEGIN);
    let is_list = begin.trim_ascii_start().starts_with(b"[");
    let mut table = match known.map(|(format, _)| format) {
        Some(DataFormat::Csv) => delimited(path, input, found.unwrap_or(b','))?,
        Some(DataFormat::Tsv) => delimited(path, input, b'\t')?,
        Some(DataFormat::Json) if is_list => json_list(path, input)?,
        Some(
            DataFormat::JsonLines | DataFormat::Json | DataFormat::Parquet | DataFormat::Arrow,
        ) => json_lines(path, input)?,
        Some(DataFormat::Text) | None => {
            let ending = path.extension().and_then(|extension| extension.to_str());
            return Err(unknown(path, ending.unwrap_or_default(), found));
        }
    };
    table.is_cut |= size > BYTES;
    if table.rows == 0 {
        let problem = DataProblem::new(path, None, "there are no rows");
        return Err(problem
            .with_help("the first line of a csv or tsv names the columns, the others are rows")
            .into());
    }
    for column in &mut table.columns {
        column.words.sort_unstable();
    }
    Ok(table)
}

/// The error about an unsupported file extension, with a way to convert the file.
fn unknown(path: &Path, ending: &str, separator: Option<u8>) -> Failure {
    let file = path.display();
    let help = match (ending, separator) {
        ("xlsx" | "xls", _) => {
            format!(
                "pandas writes a csv of it: `pandas.read_excel(\"{file}\").to_csv(\"{}\", \
                 index=False)`",
                path.with_extension("csv").display()
            )
        }
        ("gz" | "zst", _) => {
            "the ending before it has to say what is in it, as in data.csv.gz".to_owned()
        }
        ("xz" | "bz2" | "zip", _) => "unpack it first".to_owned(),
        (_, Some(b'\t')) => format!(
            "its rows look separated by tabs: call it {}",
            path.with_extension("tsv").display()
        ),
        (_, Some(separator)) => {
            format!(
                "its rows look separated by {}: call it {}",
                data_file::shown_separator(separator),
                path.with_extension("csv").display()
            )
        }
        (_, None) => format!("known are, by their endings, {KNOWN_ENDINGS}"),
    };
    let what = if ending.is_empty() {
        "its name has no ending".to_owned()
    } else {
        format!("`.{ending}` files are not known")
    };
    Failure::usage(format!("`{file}` cannot be read as data: {what}")).help(help)
}

fn delimited(path: &Path, input: impl Read, separator: u8) -> Result<Table, DataProblem> {
    let broken = |error: csv::Error| {
        let is_packed = format_of(path).is_some_and(|(_, packed)| packed.is_some());
        let content = if is_packed { Vec::new() } else { fs::read(path).unwrap_or_default() };
        data_file::unreadable(path, &error, &content)
    };
    let mut reader = csv::ReaderBuilder::new()
        .delimiter(separator)
        .quoting(data_file::is_quoted(path))
        .from_reader(input);
    let header: Vec<String> = reader.headers().map_err(broken)?.iter().map(str::to_owned).collect();
    let mut table = Table {
        separator: Some(separator),
        ..Table::new(header.iter().map(|name| Column::new(name)).collect())
    };
    table.header = header;
    for record in reader.records() {
        if table.rows == LOOKED_AT {
            table.is_cut = true;
            break;
        }
        let record = record.map_err(broken)?;
        table.columns.iter_mut().zip(record.iter()).for_each(|(column, text)| column.add(text));
        table.rows += 1;
    }
    Ok(table)
}

fn json_lines(path: &Path, input: impl BufRead) -> Result<Table, DataProblem> {
    let mut table = Table::new(Vec::new());
    for (line, text) in (1..).zip(input.lines()) {
        let problem = |what: String| DataProblem::new(path, Some(line), what);
        let text = text.map_err(|error| match error.kind() {
            io::ErrorKind::InvalidData => {
                problem("not UTF-8".to_owned()).with_help(data_file::encoding_help(&[]))
            }
            _ => problem(format!("cannot be read: {error}"))
                .with_help("see that the file may be read"),
        })?;
        if text.trim().is_empty() {
            continue;
        }
        if table.rows == LOOKED_AT {
            table.is_cut = true;
            break;
        }
        let row: JsonRow = serde_json::from_str(&text).map_err(|error| {
            problem(format!("no JSON object: {error}"))
                .with_help("a .jsonl file has one JSON object on each line")
        })?;
        table.add(row);
    }
    Ok(table)
}

/// A list of objects; as a whole, since lists are small.
fn json_list(path: &Path, input: impl Read) -> Result<Table, DataProblem> {
    let rows: Vec<JsonRow> = serde_json::from_reader(input).map_err(|error| {
        let line = u64::try_from(error.line()).ok().filter(|line| *line > 0);
        DataProblem::new(path, line, format!("no list of JSON objects: {error}"))
            .with_help("a .json file has a list of objects, or one object on each line")
    })?;
    let mut table = Table::new(Vec::new());
    table.is_cut = rows.len() > LOOKED_AT;
    rows.into_iter().take(LOOKED_AT).for_each(|row| table.add(row));
    Ok(table)
}

/// An object of a row.
type JsonRow = BTreeMap<String, serde_json::Value>;

impl Table {
    /// Adds a row, whose names may be new.
    fn add(&mut self, row: JsonRow) {
        for (name, value) in row {
            let list = value.as_array().and_then(|all| {
                let scalar = |one: &serde_json::Value| match one {
                    serde_json::Value::String(text) => Some(text.clone()),
                    serde_json::Value::Number(number) => Some(number.to_string()),
                    _ => None,
                };
                all.iter().map(scalar).collect::<Option<Vec<String>>>()
            });
            let text = match value {
                serde_json::Value::String(text) => text,
                serde_json::Value::Null => String::new(),
                other => other.to_string(),
            };
            let at = self.columns.iter().position(|column| column.name == name);
            let at = at.unwrap_or_else(|| {
                self.columns.push(Column::new(&name));
                self.columns.len() - 1
            });
            match list {
                Some(list) => self.columns[at].add_list(&list),
                None => self.columns[at].add(&text),
            }
        }
        self.rows += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(row: impl Fn(usize) -> String) -> String {
        (0..40).map(|index| row(index) + "\n").collect()
    }

    #[test]
    fn columns_are_guessed_by_their_names_else_by_their_contents() {
        let reviews = rows(|index| {
            format!("{index},\"a text, number {index}\",{},web", ["good", "bad"][index % 2])
        });
        let messages =
            rows(|index| format!("{index}\tthis is \"message\" number {index}\t{}", index % 3));
        let json = rows(|index| {
            format!("{{\"review\": \"number {index} of them\", \"stars\": {}}}", index % 5)
        });
        let json_list = format!("[{}]", json.trim_end().replace('\n', ",\n"));
        let plain = rows(|index| format!("only text {index}"));
        for (name, content, text, label) in [
            ("reviews.csv", format!("id,Text,Label,source\n{reviews}"), "Text", Some("Label")),
            ("messages.tsv", format!("a\tb\tc\n{messages}"), "b", Some("c")),
            ("reviews.jsonl", json, "review", Some("stars")),
            ("reviews.json", json_list, "review", Some("stars")),
            ("plain.csv", format!("text\n{plain}"), "text", None),
        ] {
            let table = table(name, content.as_bytes()).unwrap();
            let guessed = guess(&table);
            assert_eq!(guessed.0.map(|guess| guess.column.name.as_str()), Some(text), "{name}");
            assert_eq!(guessed.1.map(|guess| guess.column.name.as_str()), label, "{name}");
        }
    }

    #[test]
    fn words_with_their_labels_and_pairs_are_known_by_their_columns() {
        let words = rows(|index| {
            let tags = if index == 7 { "[\"O\"]" } else { "[\"B-X\", 3]" };
            format!("{{\"tokens\": [\"a\", \"b\"], \"ner_tags\": [1, 2], \"tags\": {tags}}}")
        });
        let found = table("a.jsonl", words.as_bytes()).unwrap();
        let [of_words, of_tags] = guess_words(&found).unwrap();
        assert_eq!((of_words.name.as_str(), of_tags.name.as_str()), ("tokens", "ner_tags"));
        assert_eq!((of_words.words_at(0.5), of_tags.values.as_ref().unwrap().len()), (2, 2));
        let tags = found.column("tags").unwrap();
        assert!(!tags.lists_as(of_words), "one row has another length");
        assert!(guess_pair(&found).is_none());
        let pairs = rows(|index| format!("first {index},second {index},{}", index % 2));
        let found =
            table("a.csv", format!("premise,hypothesis,label\n{pairs}").as_bytes()).unwrap();
        assert_eq!(
            guess_pair(&found).unwrap().map(|column| column.name.as_str()),
            ["premise", "hypothesis"]
        );
        assert!(guess_words(&found).is_none());
    }

    fn table(name: &str, content: &[u8]) -> Result<Table, String> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(name);
        std::fs::write(&path, content).unwrap();
        read(&path).map_err(|failure| {
            failure.to_string().replace(&format!("{}/", directory.path().display()), "")
        })
    }

    fn names(table: &Table) -> Vec<&str> {
        table.columns.iter().map(|column| column.name.as_str()).collect()
    }

    #[test]
    fn a_csv_may_be_separated_by_anything_that_gives_all_rows_the_same_cells() {
        for (separator, content, columns) in [
            (';', "text;label\na film, and a good one;pos\n", &["text", "label"][..]),
            ('\t', "text\tlabel\na film; so, so\tpos\n", &["text", "label"]),
            (',', "text,label\na,b\n", &["text", "label"]),
            (',', "text\nonly one column; of texts\n", &["text"]),
            (',', "\u{feff}\"text\",label\r\na,b\r\n", &["text", "label"]),
        ] {
            let table = table("reviews.csv", content.as_bytes()).unwrap();
            assert_eq!(names(&table), columns, "{content}");
            assert_eq!(table.separator.map(char::from), Some(separator), "{content}");
        }
    }

    #[test]
    fn a_first_line_that_holds_a_label_is_taken_for_a_row() {
        let content =
            rows(|index| format!("{}\tmessage number {index}", ["ham", "spam"][index % 2]));
        let mut found = table("sms.tsv", content.as_bytes()).unwrap();
        assert_eq!(found.doubt(), Some(Doubt { cell: "ham".into(), column: 1, same: 19 }));
        found.without_header();
        assert_eq!(
            (names(&found), found.rows, found.doubt()),
            (vec!["column1", "column2"], 40, None)
        );
        assert_eq!(found.columns[0].values.as_ref().unwrap()["ham"], 20);
        let (text, label) = guess(&found);
        assert_eq!(text.unwrap().column.name, "column2");
        assert_eq!(label.unwrap().column.name, "column1");
        let numbers = rows(|index| format!("{index},message number {index}"));
        for (content, doubt) in [
            (numbers.as_str(), Some(Doubt { cell: "0".into(), column: 1, same: 0 })),
            ("id,text,label\n1,a,pos\n2,b,neg\n", None),
            ("text,urgent,topic,state\nx,urgent,a,open\ny,no,b,closed\nz,no,a,open\n", None),
        ] {
            assert_eq!(table("a.csv", content.as_bytes()).unwrap().doubt(), doubt, "{content}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_said_with_its_line_and_the_way_out() {
        for (name, content, said) in [
            (
                "a.csv",
                &b"text,label\nx,1\ncaf\xe9,2\n"[..],
                "error: a.csv:3: not UTF-8\nhelp: convert",
            ),
            (
                "a.jsonl",
                b"{\"a\": 1}\n\n{\"a\": \"caf\xe9\"}\n",
                "a.jsonl:3: not UTF-8\nhelp: convert",
            ),
            ("a.csv", b"\xff\xfet\0e\0", "it is UTF-16"),
            (
                "a.csv",
                b"text,label\nx,1\ny,2,3\n",
                "error: a.csv:3: 3 fields where the first line has 2\nhelp: a text",
            ),
            (
                "SMSSpamCollection",
                b"ham\tGo on\nspam\tWin\n",
                "its rows look separated by tabs: call it SMSSpamCollection.tsv",
            ),
            ("a.data", b"x;1\ny;2\n", "separated by `;`: call it a.csv"),
            ("a.json", b"[\n{\"a\": 1},\n{\"a\"}]", "a.json:3: no list of JSON objects: "),
            ("a.xlsx", b"PK", "read_excel"),
            ("a.csv.gz", b"text,label\n", "a.csv.gz: cannot be unpacked: "),
            ("a.gz", b"text,label\n", "as in data.csv.gz"),
            ("a.parquet", b"PAR1", "a.parquet: "),
        ] {
            let failure = table(name, content).unwrap_err();
            assert!(failure.contains(said), "{name}: {failure}");
        }
        let failure = read(Path::new("/nowhere/data.csv")).unwrap_err().to_string();
        assert!(
            failure.contains("/nowhere/data.csv") && failure.contains("help: give the path"),
            "{failure}"
        );
    }
}
