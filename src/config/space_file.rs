//! `[space] file`: the configurations that are searched, as the rows of a CSV or TSV file.

use std::collections::BTreeSet;
use std::path::Path;

use super::diagnostic::Diagnostic;
use super::file;
use super::syntax::TomlEntry;
use crate::arguments::data_file::{CLOSE_IT, NEVER_CLOSED, QuotedInput, separator_of_header};
use crate::study::params::{Params, Value};
use crate::study::space::{Dimension, Distribution, NAME_RULE, Scale, Space, is_plain_name};
use crate::study::suggestion::{nearest, quoted};

/// A row of the file: its line, and its cells.
type NumberedRow = (u64, Vec<String>);

/// The key in `[space]`. A parameter of this name is a table or a list.
pub(super) const KEY: &str = "file";
/// Maximum number of rows: each proposal looks at all that are left.
const MOST_ROWS: usize = 20_000;
/// Ratio of the largest to the smallest number of a column from which its axis is logarithmic.
const WIDE: f64 = 100.0;
/// Number of rows whose problems are reported.
const MOST_PROBLEMS: usize = 3;

/// The rows of the file.
pub(super) struct Rows<'a> {
    entry: &'a TomlEntry,
    columns: Vec<String>,
    /// Line numbers and cells.
    rows: Vec<(u64, Vec<String>)>,
}

impl<'a> Rows<'a> {
    /// Reads the file that the entry names; `None` with a problem if it cannot be used.
    pub fn read(entry: &'a TomlEntry, base: &Path, problems: &mut Vec<Diagnostic>) -> Option<Self> {
        let name = entry.value.text()?;
        let refuse = |message: String| Diagnostic::error(entry.value.place, message);
        let bytes = match file::read(&base.join(name)) {
            Ok(bytes) => bytes,
            Err(error) => {
                let problem = refuse(format!("`{name}` cannot be read: {error}"));
                problems.push(problem.help("paths are relative to the study file"));
                return None;
            }
        };
        let first_line = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let delimiter = separator_of_header(Path::new(name), first_line);
        let mut reader = csv::ReaderBuilder::new()
            .delimiter(delimiter)
            .trim(csv::Trim::All)
            .from_reader(QuotedInput::new(bytes.as_slice(), delimiter));
        let mut table = || -> Result<(Vec<String>, Vec<NumberedRow>), csv::Error> {
            let columns = reader.headers()?.iter().map(str::to_owned).collect();
            let row = |record: csv::StringRecord| {
                let line = record.position().map_or(0, csv::Position::line);
                (line, record.iter().map(str::to_owned).collect())
            };
            let rows = reader.records().map(|record| record.map(row));
            Ok((columns, rows.collect::<Result<_, csv::Error>>()?))
        };
        let (columns, rows) = match table() {
            Ok(table) => table,
            Err(error) => {
                let problem = refuse(format!("`{name}`: {error}"));
                problems.push(problem.help("each row has a cell for each column"));
                return None;
            }
        };
        if let Some(line) = reader.get_ref().open_quote() {
            let problem = refuse(format!("`{name}`: line {line}: {NEVER_CLOSED}"));
            problems.push(problem.help(CLOSE_IT));
            return None;
        }
        let mut seen = BTreeSet::new();
        let twice = columns.iter().find(|column| column.is_empty() || !seen.insert(*column));
        let wrong = match twice {
            Some(column) if column.is_empty() => {
                Some(format!("`{name}` has a column without name"))
            }
            Some(column) => Some(format!("`{name}` has the column `{column}` twice")),
            None if rows.is_empty() => Some(format!("`{name}` has no rows: nothing to search")),
            None if rows.len() > MOST_ROWS => {
                Some(format!("`{name}` has {} rows; {MOST_ROWS} are the limit", rows.len()))
            }
            None => None,
        };
        if let Some(wrong) = wrong {
            let help =
                "its first line names the parameters, and each further line is a configuration";
            problems.push(refuse(wrong).help(help));
            return None;
        }
        if let Some(column) = columns.iter().find(|column| !is_plain_name(column)) {
            let problem = refuse(format!(
                "`{name}`: the column `{}` cannot be the name of a parameter",
                column.escape_debug()
            ));
            problems.push(problem.help(NAME_RULE));
            return None;
        }
        Some(Rows { entry, columns, rows })
    }

    /// The parameters of columns that `[space]` does not define, by their cells: integers, numbers
    /// (logarithmic if they are positive and span a factor of 100), or choices.
    pub fn inferred(&self, is_defined: impl Fn(&str) -> bool) -> Vec<Dimension> {
        let columns = self.columns.iter().enumerate().filter(|(_, name)| !is_defined(name));
        columns.map(|(index, name)| Dimension::new(name, self.distribution(index))).collect()
    }

    fn distribution(&self, column: usize) -> Distribution {
        let cells = || self.rows.iter().map(|(_, cells)| cells[column].as_str());
        let filled = || cells().filter(|cell| !cell.is_empty());
        let scale = |low: f64, high: f64| {
            if low > 0.0 && high / low >= WIDE { Scale::Log } else { Scale::Linear }
        };
        let whole: Option<Vec<i64>> = filled().map(|cell| cell.parse().ok()).collect();
        if let Some((low, high)) = whole.as_deref().and_then(bounds)
            && let (Some(from), Some(to)) =
                (Value::Int(low).as_number(), Value::Int(high).as_number())
            && let Ok(distribution) = Distribution::int(low, high, scale(from, to), 1)
        {
            return distribution;
        }
        let number = |cell: &str| cell.parse::<f64>().ok().filter(|number| number.is_finite());
        let numbers: Option<Vec<f64>> = filled().map(number).collect();
        if let Some((low, high)) = numbers.as_deref().and_then(bounds)
            && let Ok(distribution) = Distribution::float(low, high, scale(low, high), None)
        {
            return distribution;
        }
        let mut choices: Vec<Value> = Vec::new();
        let is_text = filled().any(|cell| matches!(scalar(cell), Value::Text(_)));
        for value in filled().map(|cell| if is_text { as_written(cell) } else { scalar(cell) }) {
            if !choices.iter().any(|choice| choice.same(&value)) {
                choices.push(value);
            }
        }
        Distribution::choice(choices).unwrap_or(Distribution::Choice { choices: vec![Value::Null] })
    }

    /// The configurations of the rows; problems of the first rows that are none. Rows that repeat
    /// earlier ones are left out.
    pub fn candidates(&self, space: &Space, problems: &mut Vec<Diagnostic>) -> Vec<Params> {
        let name = self.entry.value.text().unwrap_or_default();
        let refuse = |message: String| Diagnostic::error(self.entry.value.place, message);
        for dimension in space.dimensions() {
            if !self.columns.contains(&dimension.name) {
                let message = format!("`{name}` has no column `{}`", dimension.name);
                let columns = || self.columns.iter().map(String::as_str);
                problems.push(match nearest(&dimension.name, columns()) {
                    Some(near) => refuse(message).help(format!("did you mean `{near}`?")),
                    None => refuse(message).help(format!("its columns are {}", quoted(columns()))),
                });
            }
        }
        let (mut found, mut seen) = (Vec::new(), BTreeSet::new());
        let mut wrong = 0;
        for (line, cells) in &self.rows {
            let params = self.params(space, cells);
            match space.check(&params) {
                Ok(()) if seen.insert(params.fingerprint()) => found.push(params),
                Ok(()) => {}
                Err(error) if wrong < MOST_PROBLEMS => {
                    wrong += 1;
                    let problem = refuse(format!("line {line} of `{name}`: {error}"));
                    problems.push(problem.help("correct the row, or the parameter in [space]"));
                }
                Err(_) => {}
            }
        }
        found
    }

    fn params(&self, space: &Space, cells: &[String]) -> Params {
        let mut params = Params::new();
        for (column, cell) in self.columns.iter().zip(cells).filter(|(_, cell)| !cell.is_empty()) {
            let value = scalar(cell);
            let normal = space.dimension(column).and_then(|dimension| {
                let distribution = &dimension.distribution;
                let written = distribution.normalize(&as_written(cell));
                let as_text = || distribution.normalize(&Value::Text(cell.clone()));
                written.or_else(|| distribution.normalize(&value)).or_else(as_text)
            });
            params.insert(column.clone(), normal.unwrap_or(value));
        }
        params
    }
}

/// The smallest and the largest value, if they differ.
fn bounds<T: Copy + PartialOrd>(values: &[T]) -> Option<(T, T)> {
    let first = *values.first()?;
    let (low, high) = values.iter().fold((first, first), |(low, high), value| {
        (if *value < low { *value } else { low }, if *value > high { *value } else { high })
    });
    (low < high).then_some((low, high))
}

/// A cell beside texts: a scalar only if it is written as commands get it, unlike `1e5` and `007`.
fn as_written(cell: &str) -> Value {
    let value = scalar(cell);
    if value.to_string() == cell { value } else { Value::Text(cell.to_owned()) }
}

/// A cell as the scalar that it looks like.
fn scalar(cell: &str) -> Value {
    let number = || cell.parse::<f64>().ok().filter(|number| number.is_finite());
    match cell {
        "true" | "True" => Value::Bool(true),
        "false" | "False" => Value::Bool(false),
        _ => match (cell.parse(), number()) {
            (Ok(whole), _) => Value::Int(whole),
            (_, Some(number)) => Value::Float(number),
            _ => Value::Text(cell.to_owned()),
        },
    }
}
