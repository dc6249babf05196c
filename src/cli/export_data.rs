//! `hpsearch export-data`: the trials of studies, or their reports, as a table for other programs.

#[cfg(feature = "parquet")]
mod columns;
#[cfg(feature = "parquet")]
mod parquet;
#[cfg(feature = "parquet")]
mod typed_rows;

use std::collections::BTreeSet;
use std::io::{IsTerminal as _, Write};
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use serde::Serialize;

use super::moments::instant;
use super::output_file::{refuse_existing, refuse_inputs, whole_file};
use super::selection::{self, SeveralArguments};
use super::trial_json::{origin_kind, seconds};
use super::{Console, Exit, Failure};
use crate::app::exact_points::exact_points;
use crate::app::find;
use crate::config::shown;
use crate::storage::any::AnyReader;
use crate::storage::paths::store_files;
use crate::storage::{StorageError, StorageReader, StudySummary};
use crate::study::counted::count;
use crate::study::device::DeviceGroup;
use crate::study::metric::{Metrics, Number};
use crate::study::params::Params;
use crate::study::query::{Filter, SortKey, TrialQuery};
use crate::study::series::{SeriesAxis, SeriesSummary};
use crate::study::spec::StudySpec;
use crate::study::state::shown_params;
use crate::study::trial::{Origin, Trial, TrialNumber, TrialState};

/// Arguments of `hpsearch export-data`.
#[derive(Clone, Debug, Args)]
#[command(after_help = selection::with_filters("\
Examples:
  hpsearch export-data digits > trials.csv
  hpsearch export-data digits -o trials.json
  hpsearch export-data digits --format tsv
  hpsearch export-data digits --where state:complete -o complete.csv
  hpsearch export-data digits --reports -o curves.csv
  hpsearch export-data digits --series -o series.csv
  hpsearch export-data --all -o trials.csv     every study, named in a column
  hpsearch export-data digits --series -o points.parquet

In CSV and TSV, absent values are empty cells, and NaN is NaN; cells with
separators or line breaks are quoted."))]
pub struct ExportDataArguments {
    /// The study's name or file
    pub study: Option<String>,
    /// Several studies instead.
    #[command(flatten)]
    pub several: SeveralArguments,
    /// The file to write; standard output by default, and for `-`
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Replace the file if it exists
    #[arg(long, requires = "output")]
    pub overwrite: bool,
    /// The format; by default that of the file's extension, csv without one
    #[arg(long)]
    pub format: Option<Format>,
    /// One row for each reported number instead of each trial
    #[arg(long)]
    pub reports: bool,
    /// One row for each point of each series, reported or logged, with its axis and seconds since
    /// its trial began
    #[arg(long, conflicts_with = "reports")]
    pub series: bool,
    /// Write hidden trials, too
    #[arg(long)]
    pub hidden: bool,
    /// Only trials that match the filter (see below)
    #[arg(long = "where", value_name = "FILTER", allow_hyphen_values = true)]
    pub filter: Option<String>,
}

/// A format of tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Comma-separated values, with a line of names first
    Csv,
    /// The same, separated by tabs
    Tsv,
    /// One JSON array of objects: exact values with their types
    Json,
    /// One JSON object per line: exact values with their types
    Jsonl,
    /// Columns with types; in builds with `--features parquet`
    Parquet,
}

/// The columns of trials, before parameters and metrics.
const CELLS: &str = "number state value last_value last_step seconds attempts failures device \
    origin created started finished tags notes reason";

/// Trials held in memory at a time.
const PAGE: u64 = 1_000;

/// A trial with all its data except curves.
#[derive(Serialize)]
struct TrialLine<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    study: Option<&'a str>,
    number: u64,
    state: TrialState,
    value: Option<Number>,
    #[serde(skip_serializing_if = "Option::is_none")]
    values: Option<Vec<Number>>,
    last_value: Option<Number>,
    last_step: Option<u64>,
    params: &'a Params,
    metrics: &'a Metrics,
    device: Option<&'a DeviceGroup>,
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

impl<'a> TrialLine<'a> {
    fn new(spec: &StudySpec, trial: &'a Trial) -> Self {
        TrialLine {
            study: None,
            number: trial.number.0,
            state: trial.state,
            value: trial.value.map(Number),
            values: (!trial.values.is_empty())
                .then(|| trial.values.iter().copied().map(Number).collect()),
            last_value: trial.last().map(|(_, value)| Number(value)),
            last_step: trial.last_step(),
            params: shown_params(spec, trial),
            metrics: &trial.last_metrics,
            device: trial.devices.as_ref(),
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
    #[serde(skip_serializing_if = "Option::is_none")]
    study: Option<&'a str>,
    trial: u64,
    metric: &'a str,
    step: u64,
    value: Number,
}

/// One point of a series.
#[derive(Serialize)]
struct PointLine<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    study: Option<&'a str>,
    trial: u64,
    metric: &'a str,
    #[serde(rename = "clock")]
    axis: SeriesAxis,
    step: serde_json::Value,
    value: Number,
    seconds: f64,
}

/// The kind of rows.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RowOf {
    Trial,
    Report,
    Point,
}

/// Writes the table.
pub fn export_data(
    arguments: &ExportDataArguments,
    console: &mut Console,
) -> Result<Exit, Failure> {
    if let Some(path) = &arguments.output {
        refuse_inputs(
            path,
            store_files(&console.store)
                .into_iter()
                .chain(arguments.study.as_ref().map(PathBuf::from)),
        )?;
        if !arguments.overwrite {
            refuse_existing(path)?;
        }
    }
    let form = match (arguments.format, &arguments.output) {
        (Some(form), _) => form,
        (None, Some(path)) => form_of(path)?,
        (None, None) => Format::Csv,
    };
    let of = match (arguments.reports, arguments.series) {
        (true, _) => RowOf::Report,
        (_, true) => RowOf::Point,
        _ => RowOf::Trial,
    };
    check_parquet(form, arguments.output.is_none())?;
    let reader = console.reader()?;
    let named = arguments.study.as_deref();
    let is_named = arguments.several.is_given();
    let studies = if is_named {
        let studies = arguments.several.studies(&reader, named, console)?;
        selection::of_each(studies, console, |study| match &arguments.filter {
            Some(text) => selection::filter_of(&reader, study, text),
            None => Ok(Filter::all()),
        })?
    } else {
        let study = find::study(&reader, named)?;
        let filter = selection::filter(&reader, &study, arguments.filter.as_deref(), console)?;
        vec![(study, filter)]
    };
    let visible = |(study, filter): (StudySummary, Filter)| {
        let filter = if arguments.hidden { filter } else { study.visible(filter) };
        (study, filter)
    };
    let studies = studies.into_iter().map(visible).collect();
    let table = TrialTable { reader: &reader, studies, is_named, form };
    let Some(path) = &arguments.output else {
        table.write(of, &mut console.out)?;
        return Ok(Exit::Done);
    };
    let rows = whole_file(path, |out| table.write(of, out))?;
    if path != Path::new("-") {
        console.say(&format!("{} written to {}", count(rows, "row"), path.display()));
    }
    Ok(Exit::Done)
}

/// The format of a file's extension; CSV without one.
fn form_of(path: &Path) -> Result<Format, Failure> {
    let Some(ending) = path.extension() else { return Ok(Format::Csv) };
    match ending.to_string_lossy().to_ascii_lowercase().as_str() {
        "csv" => Ok(Format::Csv),
        "tsv" | "tab" => Ok(Format::Tsv),
        "json" => Ok(Format::Json),
        "jsonl" | "ndjson" => Ok(Format::Jsonl),
        "parquet" | "pq" => Ok(Format::Parquet),
        other => {
            let help = format!(
                "end the name in .csv, .tsv, .json, .jsonl or .parquet: `-o {}`; or say with \
                 `--format` what to write into it",
                path.with_extension("csv").display()
            );
            Err(Failure::usage(format!(
                "`{}`: `.{other}` is not a supported format",
                path.display()
            ))
            .help(help))
        }
    }
}

/// Checks that this build supports Parquet, and that the output is not a terminal.
fn check_parquet(form: Format, to_output: bool) -> Result<(), Failure> {
    if form != Format::Parquet {
        return Ok(());
    }
    if cfg!(not(feature = "parquet")) {
        let failure = Failure::usage("this build does not write Parquet");
        return Err(failure.help(
            "write `.csv` or `.jsonl`, which pandas and polars read, too; or build hpsearch with \
             `--features parquet`",
        ));
    }
    if to_output && std::io::stdout().is_terminal() {
        let failure = Failure::usage("Parquet is not for terminals");
        return Err(failure.help("name a file: `-o trials.parquet`"));
    }
    Ok(())
}

/// The CSV writer.
type Csv<'a> = csv::Writer<&'a mut dyn Write>;

/// The table to write.
struct TrialTable<'a> {
    reader: &'a AnyReader,
    studies: Vec<(StudySummary, Filter)>,
    /// Whether each row names its study.
    is_named: bool,
    form: Format,
}

impl TrialTable<'_> {
    /// Writes all rows; returns their number.
    fn write(&self, of: RowOf, out: &mut dyn Write) -> Result<u64, Failure> {
        let separator = match self.form {
            Format::Csv => b',',
            Format::Tsv => b'\t',
            Format::Json => {
                write!(out, "[")?;
                let rows = self.objects(of, out, ["\n", ",\n"], "")?;
                writeln!(out, "{}]", if rows == 0 { "" } else { "\n" })?;
                return Ok(rows);
            }
            Format::Jsonl => return self.objects(of, out, ["", ""], "\n"),
            Format::Parquet => return self.parquet(of, out),
        };
        let mut csv = csv::WriterBuilder::new().delimiter(separator).from_writer(out);
        let rows = match of {
            RowOf::Trial => self.trials_as_cells(&mut csv),
            RowOf::Report => self.reports_as_cells(&mut csv),
            RowOf::Point => self.points_as_cells(&mut csv),
        }?;
        csv.flush()?;
        Ok(rows)
    }

    #[cfg(not(feature = "parquet"))]
    fn parquet(&self, _of: RowOf, _out: &mut dyn Write) -> Result<u64, Failure> {
        check_parquet(Format::Parquet, false).map(|()| 0)
    }

    /// Writes each row as a JSON object, with separators before the first and the other ones, and a
    /// terminator after each.
    fn objects(
        &self,
        of: RowOf,
        out: &mut dyn Write,
        [first, next]: [&str; 2],
        end: &str,
    ) -> Result<u64, Failure> {
        let mut before = first;
        if of == RowOf::Point {
            return self
                .each_point(|row| object(out, std::mem::replace(&mut before, next), row, end));
        }
        if of == RowOf::Report {
            return self.each_report(|study, trial, metric, step, value| {
                let value = Number(value);
                let row = ReportLine { study, trial: trial.0, metric, step, value };
                object(out, std::mem::replace(&mut before, next), &row, end)
            });
        }
        self.each_trial(|study, trial| {
            let row = TrialLine { study: self.name(study), ..TrialLine::new(&study.spec, trial) };
            object(out, std::mem::replace(&mut before, next), &row, end).map(|()| 1)
        })
    }

    /// Calls `take` for each trial by number, a page in memory at a time; returns the sum of its
    /// results.
    fn each_trial(
        &self,
        mut take: impl FnMut(&StudySummary, &Trial) -> Result<u64, Failure>,
    ) -> Result<u64, Failure> {
        let mut rows = 0;
        for (study, filter) in &self.studies {
            if !filter.is_all() {
                for number in self.numbers(study, filter)? {
                    if let Some(trial) = self.reader.trial(study.id, number)? {
                        rows += take(study, &trial)?;
                    }
                }
                continue;
            }
            for page in 0.. {
                let query = TrialQuery::all(SortKey::Number).page(page * PAGE, PAGE);
                let trials = self.reader.trials(study.id, &query)?;
                for trial in &trials {
                    rows += take(study, trial)?;
                }
                if (trials.len() as u64) < PAGE {
                    break;
                }
            }
        }
        Ok(rows)
    }

    fn name<'b>(&self, study: &'b StudySummary) -> Option<&'b str> {
        self.is_named.then_some(study.spec.name.as_str())
    }

    fn numbers(
        &self,
        study: &StudySummary,
        filter: &Filter,
    ) -> Result<Vec<TrialNumber>, StorageError> {
        let query = TrialQuery::all(SortKey::Number).filtered(filter.clone());
        self.reader.numbers(study.id, &query)
    }

    fn each_report(
        &self,
        mut take: impl FnMut(Option<&str>, TrialNumber, &str, u64, f64) -> Result<(), Failure>,
    ) -> Result<u64, Failure> {
        let mut rows = 0;
        for (study, filter) in &self.studies {
            for number in self.numbers(study, filter)? {
                for (metric, step, value) in self.reader.reports(study.id, number)? {
                    take(self.name(study), number, &metric, step, value)?;
                    rows += 1;
                }
            }
        }
        Ok(rows)
    }

    /// Calls `take` for each point, one series in memory at a time.
    fn each_point(
        &self,
        mut take: impl FnMut(&PointLine<'_>) -> Result<(), Failure>,
    ) -> Result<u64, Failure> {
        let (mut rows, reader) = (0, self.reader);
        for (study, filter) in &self.studies {
            for trial in self.numbers(study, filter)? {
                let began = reader.began(study.id, trial)?;
                for SeriesSummary { metric, axis, .. } in &reader.series(study.id, &[trial])? {
                    for (step, point) in exact_points(reader, study, trial, metric, *axis)? {
                        take(&PointLine {
                            study: self.name(study),
                            trial: trial.0,
                            metric,
                            axis: *axis,
                            step: step.to_json(),
                            value: Number(point.value),
                            seconds: point.at.since(began.unwrap_or(point.at)).as_secs_f64(),
                        })?;
                        rows += 1;
                    }
                }
            }
        }
        Ok(rows)
    }

    fn points_as_cells(&self, csv: &mut Csv<'_>) -> Result<u64, Failure> {
        let names = ["trial", "metric", "clock", "step", "value", "seconds"];
        csv.write_record(self.titles(names.map(str::to_owned))).map_err(csv_failure)?;
        self.each_point(|row| {
            let mut cells: Vec<String> = row.study.map(str::to_owned).into_iter().collect();
            cells.extend([
                row.trial.to_string(),
                row.metric.to_owned(),
                row.axis.as_str().to_owned(),
                row.step.to_string(),
                cell(Some(row.value.0)),
                row.seconds.to_string(),
            ]);
            csv.write_record(cells).map_err(csv_failure)
        })
    }

    /// The titles of columns, preceded by one for the study if rows name it.
    fn titles(&self, names: impl IntoIterator<Item = String>) -> Vec<String> {
        self.is_named.then(|| "study".to_owned()).into_iter().chain(names).collect()
    }

    fn trials_as_cells(&self, csv: &mut Csv<'_>) -> Result<u64, Failure> {
        let params = self.params()?;
        let metrics = self.metrics()?;
        let is_tracked = self.studies.iter().any(|(study, _)| study.spec.is_tracked());
        let own = if is_tracked { " name group" } else { "" };
        let cells = format!("{CELLS}{own}");
        let objectives = self.objectives();
        let names = cells.split(' ').map(str::to_owned);
        let names = names.chain(objectives.iter().map(|name| format!("values.{name}")));
        let params_named = params.iter().map(|name| format!("params.{name}"));
        let metrics_named = metrics.iter().map(|name| format!("metrics.{name}"));
        let titles = self.titles(names.chain(params_named).chain(metrics_named));
        csv.write_record(titles).map_err(csv_failure)?;
        self.each_trial(|study, trial| {
            let told = TrialLine::new(&study.spec, trial);
            let mut cells: Vec<String> = self.name(study).map(str::to_owned).into_iter().collect();
            cells.extend([
                told.number.to_string(),
                told.state.as_str().to_owned(),
                cell(trial.value),
                cell(trial.last().map(|(_, value)| value)),
                told.last_step.map_or_else(String::new, |step| step.to_string()),
                told.seconds.to_string(),
                told.attempts.to_string(),
                told.failures.to_string(),
                told.device.map_or_else(String::new, DeviceGroup::to_string),
                origin(told.origin),
                told.created,
                told.started.unwrap_or_default(),
                told.finished.unwrap_or_default(),
                told.tags.join(" "),
                told.notes.join("\n"),
                told.reason.unwrap_or_default().to_owned(),
            ]);
            if is_tracked {
                let run = trial.origin.tracked();
                let of =
                    |text: Option<&Option<String>>| text.cloned().flatten().unwrap_or_default();
                cells.extend([of(run.map(|run| &run.name)), of(run.map(|run| &run.group))]);
            }
            cells.extend(objectives.iter().map(|name| cell(value_of(study, trial, name))));
            cells.extend(
                params.iter().map(|name| {
                    told.params.get(name).map_or_else(String::new, ToString::to_string)
                }),
            );
            cells.extend(metrics.iter().map(|name| cell(trial.last_metrics.get(name))));
            csv.write_record(&cells).map_err(csv_failure)?;
            Ok(1)
        })
    }

    fn reports_as_cells(&self, csv: &mut Csv<'_>) -> Result<u64, Failure> {
        let titles = self.titles(["trial", "metric", "step", "value"].map(str::to_owned));
        csv.write_record(titles).map_err(csv_failure)?;
        self.each_report(|study, trial, metric, step, value| {
            let (trial, step, value) = (trial.to_string(), step.to_string(), cell(Some(value)));
            let cells = study.into_iter().chain([trial.as_str(), metric, &step, &value]);
            csv.write_record(cells).map_err(csv_failure)
        })
    }

    /// The parameters of each space, followed by those of its earlier versions.
    fn params(&self) -> Result<Vec<String>, StorageError> {
        let mut names: Vec<String> = Vec::new();
        for (study, _) in &self.studies {
            let dimensions = study.spec.space.dimensions().iter();
            let present = dimensions.map(|dimension| dimension.name.clone());
            for name in present.chain(self.reader.params(study.id)?) {
                if !names.contains(&name) {
                    names.push(name);
                }
            }
        }
        Ok(names)
    }

    /// The metrics of the objectives of studies with several.
    fn objectives(&self) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        let several = self.studies.iter().filter(|(study, _)| study.spec.has_several_objectives());
        for name in several.flat_map(|(study, _)| study.spec.objective_names()) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }

    fn metrics(&self) -> Result<Vec<String>, StorageError> {
        let mut names = BTreeSet::new();
        for (study, _) in &self.studies {
            names.extend(self.reader.metrics(study.id)?);
        }
        Ok(names.into_iter().collect())
    }
}

/// The value of the objective with this name, in a study of several.
fn value_of(study: &StudySummary, trial: &Trial, objective: &str) -> Option<f64> {
    let index = study.spec.objectives.iter().position(|one| one.metric == objective)?;
    trial.values.get(index).copied()
}

/// A number in its shortest exact form, NaN and infinities included; empty if absent.
fn cell(value: Option<f64>) -> String {
    value.map_or_else(String::new, |value| format!("{value:?}"))
}

fn origin(origin: &Origin) -> String {
    match origin {
        Origin::Sampled(sampler) => sampler.clone(),
        other => origin_kind(other).to_owned(),
    }
}

fn object(
    out: &mut dyn Write,
    before: &str,
    row: &impl Serialize,
    end: &str,
) -> Result<(), Failure> {
    let text = shown::json(&serde_json::to_string(row)?);
    Ok(write!(out, "{before}{text}{end}")?)
}

fn csv_failure(error: csv::Error) -> Failure {
    match error.into_kind() {
        csv::ErrorKind::Io(error) => Failure::from(error),
        other => Failure::new(Exit::Internal, format!("a row cannot be written: {other:?}"))
            .help("`-o FILE.jsonl` takes any row; please report it"),
    }
}
