//! `hpsearch export-data`: the trials of a study, or their reports, as a table for other programs.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use serde::Serialize;

use super::console::Console;
use super::exit::{Exit, Failure};
use super::output_file::{refuse_inputs, whole_file};
use super::show::instant;
use super::trial_json::seconds;
use super::{named_study, selection};
use crate::config::shown;
use crate::device::Device;
use crate::metric::{Metrics, Number};
use crate::params::Params;
use crate::query::{Filter, SortKey, TrialQuery};
use crate::reporters::wording::count;
use crate::storage::sqlite::SqliteReader;
use crate::storage::{StorageError, StorageReader, StudySummary};
use crate::trial::{Origin, Trial, TrialNumber, TrialState};

/// What `hpsearch export-data` is told.
#[derive(Clone, Debug, Args)]
#[command(after_help = selection::with_filters("\
Examples:
  hpsearch export-data digits > trials.csv
  hpsearch export-data digits -o trials.jsonl
  hpsearch export-data digits --where state:complete -o complete.csv
  hpsearch export-data digits --reports -o curves.csv

In CSV, a cell is empty where a trial has nothing, and NaN where it has NaN."))]
pub struct ExportDataArguments {
    /// The study's name or file
    pub study: Option<String>,
    /// The file to write; standard output by default
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// The form; by default what the file's name says, else csv
    #[arg(long)]
    pub format: Option<Format>,
    /// One row for each reported number instead of one for each trial
    #[arg(long)]
    pub reports: bool,
    /// Only trials for which this holds (see below)
    #[arg(long = "where", value_name = "FILTER", allow_hyphen_values = true)]
    pub filter: Option<String>,
}

/// A form of tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Comma-separated values, with a line of names first
    Csv,
    /// One JSON object a line: exact, with the kinds of values
    Jsonl,
}

/// How many trials are in memory at a time.
const PAGE: u64 = 1_000;

/// One trial, with everything that the store knows of it besides its curves.
#[derive(Serialize)]
struct TrialLine<'a> {
    number: u64,
    state: TrialState,
    value: Option<Number>,
    last_value: Option<Number>,
    last_step: Option<u64>,
    params: &'a Params,
    metrics: &'a Metrics,
    device: Option<&'a Device>,
    seconds: f64,
    attempts: u32,
    failures: u32,
    origin: &'a Origin,
    created: String,
    started: Option<String>,
    finished: Option<String>,
    tags: &'a [String],
    notes: Vec<&'a str>,
    reason: Option<&'a str>,
}

impl<'a> From<&'a Trial> for TrialLine<'a> {
    fn from(trial: &'a Trial) -> Self {
        TrialLine {
            number: trial.number.0,
            state: trial.state,
            value: trial.value.map(Number),
            last_value: trial.last().map(|(_, value)| Number(value)),
            last_step: trial.last().map(|(step, _)| step),
            params: &trial.params,
            metrics: &trial.last_metrics,
            device: trial.device.as_ref(),
            seconds: seconds(trial.busy_micros),
            attempts: trial.attempts,
            failures: trial.failures,
            origin: &trial.origin,
            created: instant(trial.created),
            started: trial.started.map(instant),
            finished: trial.finished.map(instant),
            tags: &trial.tags,
            notes: trial.notes.iter().map(|note| note.text.as_str()).collect(),
            reason: trial.reason.as_deref(),
        }
    }
}

/// One reported number.
#[derive(Serialize)]
struct ReportLine<'a> {
    trial: u64,
    metric: &'a str,
    step: u64,
    value: Number,
}

/// Writes the table.
pub fn export_data(arguments: &ExportDataArguments, console: &mut Console) -> Result<Exit, Failure> {
    let reader = console.reader()?;
    let study = named_study::find(&reader, arguments.study.as_deref())?;
    let filter = selection::filter(&reader, &study, arguments.filter.as_deref())?;
    let form = arguments.format.or_else(|| arguments.output.as_deref().and_then(form_of)).unwrap_or(Format::Csv);
    let table = Table { reader: &reader, study: &study, filter, form };
    let Some(path) = &arguments.output else {
        table.write(arguments.reports, &mut console.out)?;
        return Ok(Exit::Done);
    };
    refuse_inputs(path, console.store_files().into_iter().chain(arguments.study.as_ref().map(PathBuf::from)))?;
    let rows = whole_file(path, |out| table.write(arguments.reports, out))?;
    console.say(&format!("{} written to {}", count(rows, "row"), path.display()));
    Ok(Exit::Done)
}

/// The form that a file's name says.
fn form_of(path: &Path) -> Option<Format> {
    match path.extension()?.to_str()?.to_ascii_lowercase().as_str() {
        "csv" => Some(Format::Csv),
        "jsonl" | "ndjson" | "json" => Some(Format::Jsonl),
        _ => None,
    }
}

/// What is written.
struct Table<'a> {
    reader: &'a SqliteReader,
    study: &'a StudySummary,
    filter: Filter,
    form: Format,
}

impl Table<'_> {
    /// Writes all rows; how many there are.
    fn write(&self, reports: bool, out: &mut dyn Write) -> Result<u64, Failure> {
        match (self.form, reports) {
            (Format::Csv, false) => self.trials_as_csv(out),
            (Format::Csv, true) => self.reports_as_csv(out),
            (Format::Jsonl, false) => self.each_trial(|trial| line(out, &TrialLine::from(trial)).map(|()| 1)),
            (Format::Jsonl, true) => {
                self.each_report(|trial, metric, step, value| line(out, &ReportLine { trial: trial.0, metric, step, value: Number(value) }))
            }
        }
    }

    /// The trials by number, a page in memory at a time; adds up what `take` gives.
    fn each_trial(&self, mut take: impl FnMut(&Trial) -> Result<u64, Failure>) -> Result<u64, Failure> {
        let mut rows = 0;
        if self.filter.is_all() {
            for page in 0.. {
                let trials = self.reader.trials(self.study.id, &TrialQuery::all(SortKey::Number).page(page * PAGE, PAGE))?;
                for trial in &trials {
                    rows += take(trial)?;
                }
                if (trials.len() as u64) < PAGE {
                    break;
                }
            }
            return Ok(rows);
        }
        for number in self.numbers()? {
            if let Some(trial) = self.reader.trial(self.study.id, number)? {
                rows += take(&trial)?;
            }
        }
        Ok(rows)
    }

    fn numbers(&self) -> Result<Vec<TrialNumber>, StorageError> {
        self.reader.numbers(self.study.id, &TrialQuery::all(SortKey::Number).filtered(self.filter.clone()))
    }

    fn each_report(&self, mut take: impl FnMut(TrialNumber, &str, u64, f64) -> Result<(), Failure>) -> Result<u64, Failure> {
        let mut rows = 0;
        for number in self.numbers()? {
            for (metric, step, value) in self.reader.reports(self.study.id, number)? {
                take(number, &metric, step, value)?;
                rows += 1;
            }
        }
        Ok(rows)
    }

    fn trials_as_csv(&self, out: &mut dyn Write) -> Result<u64, Failure> {
        let params = self.params()?;
        let metrics = self.reader.metrics(self.study.id)?;
        let mut csv = csv::Writer::from_writer(out);
        let fixed = ["number", "state", "value", "last_value", "last_step", "seconds", "attempts", "failures", "device", "origin"];
        let words = ["created", "started", "finished", "tags", "notes", "reason"];
        let names = fixed.iter().chain(&words).map(|name| (*name).to_owned());
        let params_named = params.iter().map(|name| format!("params.{name}"));
        let metrics_named = metrics.iter().map(|name| format!("metrics.{name}"));
        csv.write_record(names.chain(params_named).chain(metrics_named)).map_err(csv_failure)?;
        let rows = self.each_trial(|trial| {
            let told = TrialLine::from(trial);
            let mut cells = vec![
                told.number.to_string(),
                told.state.as_str().to_owned(),
                cell(trial.value),
                cell(trial.last().map(|(_, value)| value)),
                told.last_step.map_or_else(String::new, |step| step.to_string()),
                told.seconds.to_string(),
                told.attempts.to_string(),
                told.failures.to_string(),
                told.device.map_or_else(String::new, Device::to_string),
                origin(told.origin),
                told.created,
                told.started.unwrap_or_default(),
                told.finished.unwrap_or_default(),
                told.tags.join(" "),
                told.notes.join("\n"),
                told.reason.unwrap_or_default().to_owned(),
            ];
            cells.extend(params.iter().map(|name| trial.params.get(name).map_or_else(String::new, ToString::to_string)));
            cells.extend(metrics.iter().map(|name| cell(trial.last_metrics.get(name))));
            csv.write_record(&cells).map_err(csv_failure)?;
            Ok(1)
        })?;
        csv.flush()?;
        Ok(rows)
    }

    fn reports_as_csv(&self, out: &mut dyn Write) -> Result<u64, Failure> {
        let mut csv = csv::Writer::from_writer(out);
        csv.write_record(["trial", "metric", "step", "value"]).map_err(csv_failure)?;
        let rows = self.each_report(|trial, metric, step, value| {
            csv.write_record([&trial.to_string(), metric, &step.to_string(), &cell(Some(value))]).map_err(csv_failure)
        })?;
        csv.flush()?;
        Ok(rows)
    }

    /// The parameters of the space, then those of its earlier versions.
    fn params(&self) -> Result<Vec<String>, StorageError> {
        let mut names: Vec<String> = self.study.spec.space.dimensions().iter().map(|dimension| dimension.name.clone()).collect();
        let stored = self.reader.params(self.study.id)?;
        names.extend(stored.into_iter().filter(|name| !names.contains(name)).collect::<Vec<_>>());
        Ok(names)
    }
}

/// A number that may be NaN or infinite, shortest form that reads back; nothing where there is none.
fn cell(value: Option<f64>) -> String {
    value.map_or_else(String::new, |value| format!("{value:?}"))
}

fn origin(origin: &Origin) -> String {
    match origin {
        Origin::Sampled(sampler) => sampler.clone(),
        Origin::Enqueued(_) => "enqueued".to_owned(),
        Origin::Asked => "asked".to_owned(),
        Origin::Replicate(_) => "replicate".to_owned(),
        Origin::Repeat(_) => "repeat".to_owned(),
        Origin::Race { .. } => "race".to_owned(),
    }
}

fn line(out: &mut dyn Write, line: &impl Serialize) -> Result<(), Failure> {
    let text = shown::json(&serde_json::to_string(line)?);
    Ok(writeln!(out, "{text}")?)
}

fn csv_failure(error: csv::Error) -> Failure {
    match error.into_kind() {
        csv::ErrorKind::Io(error) => Failure::from(error),
        other => Failure::new(Exit::Internal, format!("a row cannot be written: {other:?}")).help("`-o FILE.jsonl` takes any row; please report it"),
    }
}
