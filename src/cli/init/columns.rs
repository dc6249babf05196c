//! Examines a data file: its columns, and what is in them.

mod json;

use std::collections::{BTreeMap, BTreeSet, HashMap};
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

/// Maximum number of distinct values that are counted of a column.
const MOST_COUNTED: usize = 20_000;

/// Maximum number of distinct values of a label column.
const MOST_LABELS: usize = 1_000;

/// Maximum number of characters of one of several labels in a cell.
const LONGEST_LABEL: usize = 40;

/// A column, as far as it was read.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// Its name in the header; of an object in JSON, as in `translation.en`.
    pub name: String,
    /// Rows by value; of lists in JSON, rows by element; `None` if there are too many.
    pub values: Option<BTreeMap<String, u64>>,
    /// Words of each text, by row.
    words: Vec<u32>,
    characters: u64,
    /// Number of numeric values.
    numbers: usize,
    /// How many of these are no integers.
    fractions: usize,
    /// The smallest and the largest of these.
    pub range: [f64; 2],
    /// Number of lists, in JSON.
    lists: usize,
    /// Number of texts between brackets, as Python writes lists.
    bracketed: usize,
}

impl Column {
    fn new(name: &str) -> Self {
        Column {
            name: name.to_owned(),
            values: Some(BTreeMap::new()),
            words: Vec::new(),
            characters: 0,
            numbers: 0,
            fractions: 0,
            range: [f64::INFINITY, f64::NEG_INFINITY],
            lists: 0,
            bracketed: 0,
        }
    }

    /// Whether each row has as many words, or elements of a list, as in `other`; at least one row
    /// has several.
    pub fn has_words_as(&self, other: &Self) -> bool {
        self.is_of_lists() == other.is_of_lists()
            && self.words == other.words
            && self.words.iter().any(|words| *words > 1)
    }

    /// Whether each value is a list.
    pub fn is_of_lists(&self) -> bool {
        self.lists > 0 && self.lists == self.words.len()
    }

    /// The first row, counted from 1, that has not as many words or elements as in `other`.
    pub fn first_unequal(&self, other: &Self) -> Option<usize> {
        let mut pairs = self.words.iter().zip(&other.words);
        pairs.position(|(words, others)| words != others).map(|row| row + 1)
    }

    /// Whether no row has a value.
    pub fn is_empty(&self) -> bool {
        self.characters == 0
    }

    /// Whether its texts are lists as Python writes them.
    pub fn is_of_written_lists(&self) -> bool {
        self.bracketed > 0 && self.bracketed == self.words.len()
    }

    /// Whether it has labels of entities for words, such as `B-PER` and `O`, in lists or between
    /// spaces.
    pub fn has_entities(&self) -> bool {
        let is_tag = |label: &String| {
            label == "O"
                || label.split_once('-').is_some_and(|(place, kind)| {
                    place.len() == 1 && "BIOESLU".contains(place) && !kind.is_empty()
                })
        };
        let labels = self.by_label(Some(' ').filter(|_| self.lists == 0));
        labels.is_some_and(|labels| labels.len() > 1 && labels.keys().all(is_tag))
    }

    /// Whether its cells have several words each, which are few and short over all rows: labels of
    /// words.
    pub fn has_few_words(&self) -> bool {
        const MOST: usize = 60;
        const LONGEST: usize = 12;
        let words = self.by_label(Some(' ').filter(|_| self.lists == 0));
        let is_varied = self.words.iter().any(|words| *words != self.words[0]);
        self.lists == 0
            && is_varied
            && self.words_at(0.5) > 1
            && words.is_some_and(|words| {
                (2..=MOST.min(self.words.len() / 2)).contains(&words.len())
                    && words.keys().all(|word| word.chars().count() <= LONGEST)
            })
    }

    /// Whether nine in ten rows have as many words as in `other`, and not all.
    pub fn has_nearly_words_as(&self, other: &Self) -> bool {
        let pairs = || self.words.iter().zip(&other.words);
        let same = pairs().filter(|(words, others)| words == others).count();
        self.is_of_lists() == other.is_of_lists()
            && self.words_at(0.5) > 1
            && same < self.words.len()
            && same * 10 >= self.words.len() * 9
    }

    /// Adds the rows of the same column of another part of a set.
    fn extend(&mut self, other: Column) {
        self.words.extend(other.words);
        self.characters += other.characters;
        self.numbers += other.numbers;
        self.fractions += other.fractions;
        self.range = [self.range[0].min(other.range[0]), self.range[1].max(other.range[1])];
        self.lists += other.lists;
        self.bracketed += other.bracketed;
        self.values = self.values.take().zip(other.values).map(|(mut values, others)| {
            for (value, rows) in others {
                *values.entry(value).or_default() += rows;
            }
            values
        });
        self.values.take_if(|values| values.len() > MOST_COUNTED);
    }

    /// The first value that is no number, if others are.
    pub fn first_that_is_no_number(&self) -> Option<&str> {
        let is_number = |value: &&String| value.trim().parse::<f64>().is_ok_and(f64::is_finite);
        let values = self.values.as_ref().filter(|_| self.lists == 0)?;
        values.keys().find(|value| !is_number(value)).map(String::as_str)
    }

    /// Whether each value is a number.
    pub fn is_of_numbers(&self) -> bool {
        self.numbers > 0 && self.numbers == self.words.len()
    }

    /// Whether each value is a number, and some are no integers.
    pub fn is_of_fractions(&self) -> bool {
        self.is_of_numbers() && self.fractions > 0
    }

    /// Whether each value is a number from -1 to 1.
    pub fn is_of_similarities(&self) -> bool {
        self.is_of_numbers() && self.range[0] >= -1.0 && self.range[1] <= 1.0
    }

    /// Whether its rows are texts of several words that hardly repeat.
    pub fn is_of_texts(&self) -> bool {
        let is_varied = |values: &BTreeMap<_, _>| values.len() * 2 >= self.words.len();
        !self.is_of_lists()
            && !self.is_of_numbers()
            && self.words_at(0.5) > 1
            && self.values.as_ref().is_none_or(is_varied)
    }

    fn add(&mut self, text: &str) {
        let number = text.trim().parse::<f64>().ok().filter(|number| number.is_finite());
        if let Some(number) = number {
            self.numbers += 1;
            self.fractions += usize::from(number.fract() != 0.0);
            self.range = [self.range[0].min(number), self.range[1].max(number)];
        }
        self.bracketed += usize::from(text.starts_with('[') && text.ends_with(']'));
        self.characters += text.chars().count() as u64;
        self.words.push(u32::try_from(text.split_whitespace().count()).unwrap_or(u32::MAX));
        self.count(text);
    }

    /// Adds a row with a list of texts.
    fn add_list(&mut self, all: &[String]) {
        self.characters += all.iter().map(|one| one.chars().count() as u64).sum::<u64>();
        self.words.push(u32::try_from(all.len()).unwrap_or(u32::MAX));
        self.lists += 1;
        all.iter().for_each(|one| self.count(one));
    }

    fn count(&mut self, value: &str) {
        if let Some(values) = &mut self.values {
            *values.entry(value.to_owned()).or_default() += 1;
            if values.len() > MOST_COUNTED {
                self.values = None;
            }
        }
    }

    /// Its values, if there are few enough for labels.
    pub fn labels(&self) -> Option<&BTreeMap<String, u64>> {
        self.values.as_ref().filter(|values| (2..=MOST_LABELS).contains(&values.len()))
    }

    /// Rows by label, of several in each list or, between `separator`, in each cell.
    pub fn by_label(&self, separator: Option<char>) -> Option<BTreeMap<String, u64>> {
        let Some(separator) = separator else { return self.labels().cloned() };
        let mut rows_of = BTreeMap::new();
        for (cell, rows) in self.values.as_ref()? {
            for label in cell.split(separator).map(str::trim).filter(|label| !label.is_empty()) {
                *rows_of.entry(label.to_owned()).or_default() += rows;
            }
        }
        Some(rows_of)
    }

    /// What separates several labels in a cell: some cells have several, which also occur in other
    /// combinations or alone.
    pub fn separator_of_labels(&self) -> Option<char> {
        let values = self.values.as_ref().filter(|_| self.lists == 0)?;
        let is_separator = |mark: &char| {
            let (mut labels, mut several) = (BTreeSet::new(), 0);
            for (cell, rows) in values {
                let of_cell: Vec<&str> = cell.split(*mark).map(str::trim).collect();
                several += if of_cell.len() > 1 { *rows } else { 0 };
                labels.extend(of_cell);
            }
            labels.iter().all(|label| label.chars().count() <= LONGEST_LABEL)
                && several * 20 >= self.words.len() as u64
                && (2..values.len()).contains(&labels.len())
                && labels.len() * 4 <= self.words.len()
        };
        [',', ';', '|'].into_iter().find(is_separator)
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
        let mut words = self.words.clone();
        words.sort_unstable();
        words.get(index).copied().unwrap_or(0)
    }

    #[expect(clippy::cast_precision_loss, reason = "a mean for a guess")]
    pub fn mean_characters(&self) -> f64 {
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

fn delimited(path: &Path, input: impl Read, separator: u8) -> Result<DataTable, DataProblem> {
    let broken = |error: csv::Error| {
        let is_compressed = format_of(path).is_some_and(|(_, compression)| compression.is_some());
        let content = if is_compressed { Vec::new() } else { fs::read(path).unwrap_or_default() };
        data_file::unreadable(path, &error, &content)
    };
    let mut reader = csv::ReaderBuilder::new()
        .delimiter(separator)
        .quoting(data_file::is_quoted(path))
        .from_reader(input);
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
    Ok(table)
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
