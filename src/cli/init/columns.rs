//! Examines a data file: its columns, and what is in them.

mod column;
mod json;

use std::collections::HashMap;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use crate::arguments::data_file::{self, DataProblem, NEVER_CLOSED, QuotedInput, numbered};
use crate::arguments::data_format::{DataFormat, KNOWN_ENDINGS, format_of};
use crate::cli::exit::Failure;
use crate::config;
pub use column::Column;

/// Maximum number of rows read.
const LOOKED_AT: usize = 100_000;

/// Maximum number of bytes read of a file.
const BYTES: u64 = 256 << 20;

/// Bytes at the beginning from which the separator is detected.
const BEGIN: usize = 1 << 16;

/// The columns and rows of a file.
#[derive(Clone, Debug, PartialEq)]
pub struct DataTable {
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
    /// The columns of JSON by name.
    places: HashMap<String, usize>,
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

impl DataTable {
    fn new(columns: Vec<Column>) -> Self {
        DataTable {
            columns,
            rows: 0,
            is_cut: false,
            separator: None,
            header: Vec::new(),
            places: HashMap::new(),
        }
    }

    /// Adds the rows of another part of a set, as far as its columns are known; whether more would
    /// be read.
    pub fn extend(&mut self, other: DataTable) -> bool {
        for (index, column) in other.columns.into_iter().enumerate() {
            // Parts without headers are named alike by number.
            let known = self.columns.iter().position(|known| known.name == column.name);
            let known = known.or(self.separator.is_some().then_some(index));
            if let Some(known) = known.and_then(|known| self.columns.get_mut(known)) {
                known.extend(column);
            }
        }
        self.rows += other.rows;
        self.is_cut |= other.is_cut;
        self.rows < LOOKED_AT
    }

    /// The column called `name`.
    pub fn column(&self, name: &str) -> Option<&Column> {
        self.columns.iter().find(|column| column.name == name)
    }

    /// Whether a column has so few values that each may be a label.
    pub fn is_label(&self, column: &Column) -> bool {
        column.labels().is_some_and(|values| values.len() * 4 <= self.rows.max(8))
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
        let (((cell, _), index), _) = cells()
            .zip(&self.columns)
            .find(|(((cell, _), _), column)| is_number(cell) && column.is_of_numbers())?;
        Some(Doubt { cell: cell.clone(), column: index, same: 0 })
    }

    /// Treats the first line as a row; columns are then named by number.
    pub fn without_header(&mut self) {
        for ((column, cell), number) in
            self.columns.iter_mut().zip(std::mem::take(&mut self.header)).zip(1..)
        {
            column.name = numbered(number);
            column.add(&cell);
        }
        self.rows += 1;
    }
}

/// Reads the beginning of a file with rows.
pub fn read(path: &Path) -> Result<DataTable, Failure> {
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
        if let (Some((DataFormat::Json, _)), Ok(text)) = (known, str::from_utf8(&contents))
            && let Some(problem) = data_file::rows_inside(path, text)
        {
            return Err(problem.into());
        }
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
        Some(DataFormat::Json) if is_list => json::list(path, input)?,
        Some(
            DataFormat::JsonLines
            | DataFormat::Json
            | DataFormat::Parquet
            | DataFormat::Arrow
            | DataFormat::Conll,
        ) => json::lines(path, input)?,
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
            "the extension before it must name the format, as in data.csv.gz".to_owned()
        }
        ("xz" | "bz2" | "zip", _) => "unpack it first".to_owned(),
        (_, Some(b'\t')) => format!(
            "its rows look separated by tabs: rename it to {}",
            path.with_extension("tsv").display()
        ),
        (_, Some(separator)) => {
            format!(
                "its rows look separated by {}: rename it to {}",
                data_file::shown_separator(separator),
                path.with_extension("csv").display()
            )
        }
        (_, None) => format!("supported extensions are {KNOWN_ENDINGS}"),
    };
    let what = if ending.is_empty() {
        "its name has no extension".to_owned()
    } else {
        format!("`.{ending}` files are not supported")
    };
    Failure::usage(format!("`{file}` cannot be read as data: {what}")).help(help)
}

fn delimited(path: &Path, input: impl Read, separator: u8) -> Result<DataTable, DataProblem> {
    let broken = |error: csv::Error| {
        let is_compressed = format_of(path).is_some_and(|(_, compression)| compression.is_some());
        let content =
            if is_compressed { Vec::new() } else { config::file::read(path).unwrap_or_default() };
        data_file::unreadable(path, &error, &content)
    };
    let mut reader = csv::ReaderBuilder::new()
        .delimiter(separator)
        .quoting(data_file::is_quoted(path))
        .from_reader(QuotedInput::new(input, separator));
    let header: Vec<String> = reader.headers().map_err(broken)?.iter().map(str::to_owned).collect();
    let mut table = DataTable {
        separator: Some(separator),
        ..DataTable::new(header.iter().map(|name| Column::new(name.trim())).collect())
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
    let input = reader.get_ref();
    let open =
        input.open_quote().filter(|_| data_file::is_quoted(path) && input.bytes_read() < BYTES);
    match open.filter(|_| !table.is_cut) {
        Some(line) => {
            Err(DataProblem::new(path, Some(line), NEVER_CLOSED).with_help(data_file::CLOSE_IT))
        }
        None => Ok(table),
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    pub fn rows(row: impl Fn(usize) -> String) -> String {
        (0..40).map(|index| row(index) + "\n").collect()
    }

    pub fn table(name: &str, content: &[u8]) -> Result<DataTable, String> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(name);
        std::fs::write(&path, content).unwrap();
        read(&path).map_err(|failure| {
            failure.to_string().replace(&format!("{}/", directory.path().display()), "")
        })
    }

    fn names(table: &DataTable) -> Vec<&str> {
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
                "a.csv",
                b"text,label\nx,\"1\ny,2\n",
                "error: a.csv:2: a quote is opened here and never closed\nhelp: close it",
            ),
            (
                "SMSSpamCollection",
                b"ham\tGo on\nspam\tWin\n",
                "its rows look separated by tabs: rename it to SMSSpamCollection.tsv",
            ),
            ("a.data", b"x;1\ny;2\n", "separated by `;`: rename it to a.csv"),
            ("a.json", b"[\n{\"a\": 1},\n{\"a\"}]", "a.json:3: not a list of JSON objects: "),
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
