//! Reads a CSV table: each row is a run, or one step of a run.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;

use super::{Format, ImportError, RecordedEnd, RecordedPoint, RecordedRun};
use crate::arguments::data_file::{QuotedInput, separator_of_header};
use crate::runner;
use crate::study::params::{Params, Value};
use crate::study::series::SeriesAxis;
use crate::study::time::Timestamp;

/// The meaning of a table's columns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mapping {
    /// The metric that runs are compared by.
    pub metric: Option<String>,
    /// Without it, and without a step and metrics, the metric if it is a column.
    pub usual_metric: String,
    /// Metrics; empty: with a step all other columns, else that metric alone.
    pub metrics: Vec<String>,
    /// Parameters; empty: without a step all other columns, else none.
    pub params: Vec<String>,
    /// The step; none: each row is a run.
    pub step: Option<String>,
    /// The run's name; with a step, rows of one name are one run.
    pub run: Option<String>,
}

/// The meaning of a column.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Column {
    Param,
    Metric,
    Step,
    Run,
    Other,
}

/// The runs of a table.
pub(super) fn read(path: &Path, mapping: &Mapping) -> Result<Vec<RecordedRun>, ImportError> {
    let broken = |error: csv::Error| ImportError::malformed(path, error.to_string());
    let separator = separator(path).map_err(|error| broken(error.into()))?;
    let file = File::open(path).map_err(|error| broken(error.into()))?;
    let mut table = csv::ReaderBuilder::new()
        .delimiter(separator)
        .trim(csv::Trim::All)
        .from_reader(QuotedInput::new(file, separator));
    let header = table.headers().map_err(broken)?.clone();
    let columns = columns(path, &header, mapping)?;
    let taken = header.iter().zip(&columns).filter(|(_, column)| **column != Column::Other);
    let mut names = BTreeSet::new();
    if let Some((name, _)) = taken.into_iter().find(|(name, _)| !names.insert(*name)) {
        let why = format!("it has two columns named `{name}`: rename one of them");
        return Err(ImportError::malformed(path, why));
    }
    let at = |kind| columns.iter().position(|column| *column == kind);
    let (step, name) = (at(Column::Step), at(Column::Run));
    let modified = path.metadata().and_then(|metadata| metadata.modified());
    let written = modified.ok().and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok());
    let moment = written.and_then(|since| i64::try_from(since.as_micros()).ok());
    let moment = moment.map_or_else(runner::now, Timestamp);
    let place = format!("{}:{}", Format::Csv.as_str(), path.display());
    let mut runs: Vec<RecordedRun> = Vec::new();
    let mut by_name: BTreeMap<String, usize> = BTreeMap::new();
    let mut rows = RowSources::default();
    for (row, record) in table.records().enumerate() {
        let record = match record {
            Ok(record) => record,
            Err(error) if runs.is_empty() => return Err(broken(error)),
            Err(error) => {
                // Remarked on one run for all.
                let remark = format!("the rest of the table is skipped: {error}");
                runs.iter_mut().take(1).for_each(|run| run.remarks.push(remark.clone()));
                break;
            }
        };
        let name = name.and_then(|index| record.get(index)).filter(|name| !name.is_empty());
        let key = name.unwrap_or_default();
        let known = by_name.get(key).copied();
        // Without a step, rows of one name are several runs.
        let index = known.filter(|_| step.is_some()).unwrap_or(runs.len());
        if index == runs.len() {
            runs.push(RecordedRun {
                source: format!("{place}#{key}"),
                name: name.map(str::to_owned),
                end: Some(RecordedEnd::Complete),
                began: Some(moment),
                may_be_edited: true,
                ..RecordedRun::default()
            });
            by_name.insert(key.to_owned(), index);
        }
        let run = &mut runs[index];
        let at_step = match step.map(|index| record.get(index).map(str::parse::<f64>)) {
            None => 0.0,
            Some(Some(Ok(step))) if step.is_finite() => step,
            Some(_) => {
                let line = row + 2;
                run.remarks.push(format!("line {line} is skipped: its step is not a number"));
                continue;
            }
        };
        for ((column, name), cell) in columns.iter().zip(&header).zip(&record) {
            if cell.is_empty() {
                continue;
            }
            match (column, value(cell)) {
                (Column::Param, value) => run.params.insert(name.to_owned(), value),
                (Column::Metric, _) => match cell.parse::<f64>() {
                    Ok(value) if value.is_infinite() && cell.contains(char::is_numeric) => {
                        let line = row + 2;
                        run.remarks.push(format!("line {line}: `{name}` = {cell} is too large"));
                    }
                    Ok(value) => {
                        let point = RecordedPoint { step: at_step, value, at: moment };
                        run.log(name, SeriesAxis::Step, point);
                    }
                    Err(_) => {
                        let line = row + 2;
                        run.remarks.push(format!("line {line}: `{name}` is not a number"));
                    }
                },
                _ => {}
            }
        }
        if step.is_none() && (name.is_none() || known.is_some()) {
            let before = name.map_or_else(|| place.clone(), |name| format!("{place}#{name}"));
            run.source = rows.next(&before, &run.params);
        }
    }
    match table.get_ref().open_quote() {
        Some(line) => Err(ImportError::OpenQuote { path: path.to_owned(), line }),
        None => Ok(runs),
    }
}

/// What separates the columns, by the first line.
fn separator(path: &Path) -> std::io::Result<u8> {
    let mut first = Vec::new();
    let file = File::open(path)?.take(LONGEST_HEADER);
    BufReader::new(file).read_until(b'\n', &mut first)?;
    Ok(separator_of_header(path, &first))
}

/// The bytes of the first line that are searched for what separates columns.
const LONGEST_HEADER: u64 = 1 << 20;

/// The sources of rows that no name identifies: their parameters do, and the order among rows with
/// the same ones. Their position does not, since rows are inserted and removed.
#[derive(Default)]
pub(super) struct RowSources(BTreeMap<String, u64>);

impl RowSources {
    /// That of the next row with these parameters, `before` being the table's source, or that of
    /// the first row of its name.
    pub(super) fn next(&mut self, before: &str, params: &Params) -> String {
        // Spreadsheets write 1 as 1.0, or the reverse.
        let written = |(name, value): (&str, &Value)| {
            let number = value.as_number().map(Value::Float);
            (name.to_owned(), number.unwrap_or_else(|| value.clone()))
        };
        let same = params.iter().map(written);
        let params = same.collect::<Params>().fingerprint();
        let count = self.0.entry(format!("{before}#{params}")).or_insert(0);
        *count += 1;
        match *count {
            1 => format!("{before}#{params}"),
            count => format!("{before}#{count}{params}"),
        }
    }
}

fn columns(
    path: &Path,
    header: &csv::StringRecord,
    mapping: &Mapping,
) -> Result<Vec<Column>, ImportError> {
    let known = || {
        let known = header.iter().take(20).map(|name| format!("`{name}`"));
        known.collect::<Vec<_>>().join(", ")
    };
    let named = [&mapping.metric, &mapping.step, &mapping.run].into_iter().flatten();
    for column in named.chain(&mapping.metrics).chain(&mapping.params) {
        if !header.iter().any(|name| name == column) {
            let (path, column) = (path.to_owned(), column.clone());
            return Err(ImportError::NoColumn { path, column, known: known() });
        }
    }
    let is = |named: &Option<String>, name: &str| named.as_deref() == Some(name);
    let by_step = mapping.step.is_some();
    let is_said = mapping.metric.is_some() || !mapping.metrics.is_empty() || by_step;
    let usual =
        Some(&mapping.usual_metric).filter(|usual| !is_said && !mapping.params.contains(usual));
    if let Some(usual) = usual.filter(|usual| !header.iter().any(|name| name == *usual)) {
        let (path, column) = (path.to_owned(), usual.clone());
        return Err(ImportError::NoMetric { path, column, known: known() });
    }
    let metric = mapping.metric.as_ref().or(usual).cloned();
    Ok(header
        .iter()
        .map(|name| {
            if is(&mapping.step, name) {
                Column::Step
            } else if is(&mapping.run, name) {
                Column::Run
            } else if is(&metric, name) || mapping.metrics.iter().any(|it| it == name) {
                Column::Metric
            } else if mapping.params.iter().any(|it| it == name) {
                Column::Param
            } else if by_step && mapping.metrics.is_empty() {
                Column::Metric
            } else if !by_step && mapping.params.is_empty() {
                Column::Param
            } else {
                Column::Other
            }
        })
        .collect())
}

/// A cell as a parameter's value.
fn value(cell: &str) -> Value {
    if let Ok(int) = cell.parse() {
        return Value::Int(int);
    }
    match (cell.parse::<f64>(), cell) {
        (Ok(float), _) if float.is_finite() => Value::Float(float),
        (_, "true" | "True" | "TRUE") => Value::Bool(true),
        (_, "false" | "False" | "FALSE") => Value::Bool(false),
        _ => Value::Text(cell.to_owned()),
    }
}
