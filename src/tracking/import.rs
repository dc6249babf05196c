//! Imports runs recorded by other tools into a study of tracked runs.
//!
//! Each run is imported in one transaction. It records its source ([`TrackedRun::source`]), by
//! which the next import recognises it.

mod csv_table;
#[cfg(feature = "mlflow")]
mod mlflow;
mod tensorboard;
mod wandb;

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::run::{RunEnd, ending};
use super::{Credentials, TrackingError};
use crate::runner::{self, identified_process};
use crate::storage::tracked::{BeginRun, TrackerProcess};
use crate::storage::{Holder, Storage, StorageReader, StoredStudy};
use crate::study::device::{Device, Slot};
use crate::study::event::{Event, TrialEvent};
use crate::study::metric::Direction;
use crate::study::params::{Params, Value};
use crate::study::query::{SortKey, TrialQuery};
use crate::study::series::{LoggedPoint, LoggedSeries, Point, SeriesAxis};
use crate::study::spec::FailureCause;
use crate::study::tag::is_tag;
use crate::study::time::Timestamp;
use crate::study::tracked::{TrackedRun, Tracker, is_run_name};
use crate::study::trial::{AttemptNumber, Trial, TrialNumber, TrialState};

pub use csv_table::Mapping;
use csv_table::RowSources;
#[cfg(feature = "mlflow")]
pub use mlflow::Experiments;

/// How deep directories are searched.
const DEPTH: usize = 8;

/// A format to import.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Offline or synchronised runs of Weights & Biases.
    Wandb,
    /// Directories of event files.
    TensorBoard,
    /// A table with a row for each run, or for each step of a run.
    Csv,
    /// A tracking server of MLflow.
    MlFlow,
}

impl Format {
    /// The formats that are files.
    pub const OF_FILES: [Format; 3] = [Format::Wandb, Format::TensorBoard, Format::Csv];

    /// Its prefix before a path.
    pub fn as_str(self) -> &'static str {
        match self {
            Format::Wandb => "wandb",
            Format::TensorBoard => "tensorboard",
            Format::Csv => "csv",
            Format::MlFlow => "mlflow",
        }
    }
}

/// Why runs cannot be imported.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// A file or directory cannot be read.
    #[error("{}: {error}", path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// The operating system's error; part of the message, since a remark has no causes.
        error: io::Error,
    },
    /// A malformed file.
    #[error("{}: {what}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// There is nothing to import.
    #[error(
        "{} holds no runs of W&B, no event files of TensorBoard and no CSV table",
        path.display()
    )]
    Nothing {
        /// The path.
        path: PathBuf,
    },
    /// A server cannot be queried.
    #[error("{address}: {what}")]
    Server {
        /// Its address.
        address: String,
        /// What is wrong.
        what: String,
    },
    /// This program was built without MLflow.
    #[error("this hpsearch was built without MLflow")]
    NotBuilt,
    /// A table lacks a column that was named.
    #[error("{} has no column `{column}`; it has {known}", path.display())]
    NoColumn {
        /// The table.
        path: PathBuf,
        /// The column.
        column: String,
        /// Its columns.
        known: String,
    },
    /// A table of runs lacks the metric's column, and none was named.
    #[error(
        "{} has no column `{column}`, and no other was named as the metric; it has {known}",
        path.display()
    )]
    NoMetric {
        /// The table.
        path: PathBuf,
        /// The metric of its study.
        column: String,
        /// Its columns.
        known: String,
    },
}

impl ImportError {
    fn io(path: &Path) -> impl FnOnce(io::Error) -> ImportError + use<> {
        let path = path.to_owned();
        move |error| ImportError::Io { path, error }
    }

    fn malformed(path: &Path, what: impl Into<String>) -> ImportError {
        ImportError::Malformed { path: path.to_owned(), what: what.into() }
    }

    /// The remedy.
    pub fn remedy(&self) -> &'static str {
        match self {
            ImportError::Io { .. } => "name a file or directory that can be read",
            ImportError::Malformed { .. } => {
                "say what it is, as in `wandb:PATH`, `tensorboard:PATH` or `csv:PATH`, or name \
                 another one"
            }
            ImportError::Nothing { .. } => {
                "name the directory that holds `run-*.wandb` or `events.out.tfevents.*` files, or \
                 a `.csv` file"
            }
            ImportError::NoColumn { .. } => "name one of its columns",
            ImportError::NoMetric { .. } => {
                "name the column of the metric with `--metric`, or that of the step with `--step`"
            }
            ImportError::Server { .. } => {
                "see that the server runs, that it is MLflow's, and that MLFLOW_TRACKING_USERNAME \
                 and MLFLOW_TRACKING_PASSWORD or MLFLOW_TRACKING_TOKEN are set if it asks for \
                 them; what was imported stays, and the next import adds the rest"
            }
            ImportError::NotBuilt => "build it with `cargo build --release --features mlflow`",
        }
    }
}

/// A run recorded by another tool.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RecordedRun {
    /// Its unique source: the tool, and the run's identifier or path.
    pub source: String,
    /// Its project in the other tool.
    pub project: Option<String>,
    /// Its name.
    pub name: Option<String>,
    /// Its group.
    pub group: Option<String>,
    /// The source of its parent run.
    pub parent: Option<String>,
    /// Its tags.
    pub tags: Vec<String>,
    /// Its note.
    pub note: Option<String>,
    /// Its parameters.
    pub params: Params,
    /// Its summary, besides its series.
    pub summary: BTreeMap<String, serde_json::Value>,
    /// Its start; `None`: its first point.
    pub began: Option<Timestamp>,
    /// Its end; `None`: its last point.
    pub ended: Option<Timestamp>,
    /// How it ended; `None`: it may still run.
    pub end: Option<RecordedEnd>,
    /// Its series, by metric and axis.
    pub series: BTreeMap<(String, SeriesAxis), Vec<RecordedPoint>>,
    /// Whether its source may be edited by hand, not only continued: it is then compared value by
    /// value.
    pub may_be_edited: bool,
    /// What was skipped, and why, in sentences.
    pub remarks: Vec<String>,
}

/// How a recorded run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordedEnd {
    /// Its program completed.
    Complete,
    /// It exited with this status, if known.
    Failed(Option<i32>),
}

/// A value at a step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RecordedPoint {
    /// The step on its axis.
    pub step: f64,
    /// The value.
    pub value: f64,
    /// When it was logged.
    pub at: Timestamp,
}

impl RecordedRun {
    /// Its state after the import.
    fn state(&self) -> TrialState {
        match self.end {
            None => TrialState::Paused,
            Some(RecordedEnd::Complete) => TrialState::Complete,
            Some(RecordedEnd::Failed(_)) => TrialState::Failed,
        }
    }

    /// Its number of points.
    pub fn points(&self) -> u64 {
        self.series.values().map(|points| points.len() as u64).sum()
    }

    fn log(&mut self, metric: &str, axis: SeriesAxis, point: RecordedPoint) {
        match self.series.get_mut(&(metric.to_owned(), axis)) {
            Some(points) => points.push(point),
            None => drop(self.series.insert((metric.to_owned(), axis), vec![point])),
        }
    }

    /// Sorts series by step, keeping the last value of each step, and clamps implausible times.
    pub fn settled(mut self, now: Timestamp) -> Self {
        let possible = |at: Timestamp| Timestamp(at.0.clamp(0, now.0));
        for points in self.series.values_mut() {
            points.retain(|point| point.step.is_finite());
            points.iter_mut().for_each(|point| point.at = possible(point.at));
            // Most are sorted already, which a stable sort detects in one pass.
            points.sort_by(|one, other| one.step.total_cmp(&other.step));
            points.reverse();
            points.dedup_by(|one, other| one.step == other.step);
            points.reverse();
        }
        self.series.retain(|(metric, _), points| !metric.is_empty() && !points.is_empty());
        let moments = || self.series.values().flatten().map(|point| point.at);
        let began = self.began.map(possible).or(moments().min()).unwrap_or(now);
        let last = moments().max().unwrap_or(began).max(began);
        self.ended = Some(self.ended.map_or(last, possible).max(last));
        self.began = Some(began.min(moments().min().unwrap_or(began)));
        self.tags.retain(|tag| is_tag(tag));
        self.tags.sort();
        self.tags.dedup();
        self.name = match self.name.take() {
            Some(name) if !is_run_name(&name) => self.other_name(name),
            name => name,
        };
        self
    }

    /// Instead of a name that no run can have, such as a number.
    fn other_name(&mut self, name: String) -> Option<String> {
        let other = Some(format!("run-{name}")).filter(|other| is_run_name(other));
        let instead = match &other {
            Some(other) => format!("it is `{other}`"),
            None => "it has only a number".to_owned(),
        };
        self.remarks.push(format!("no run can be called `{name}` here: {instead}"));
        other
    }

    /// The best value of a metric.
    fn best(&self, metric: &str, direction: Direction) -> Option<f64> {
        let of_metric = self.series.iter().find(|((name, _), _)| name == metric);
        let values = of_metric?.1.iter().map(|point| point.value).filter(|value| !value.is_nan());
        values.reduce(|best, value| match direction {
            Direction::Minimize => best.min(value),
            Direction::Maximize => best.max(value),
        })
    }
}

/// A server with runs.
#[derive(Clone, Debug)]
pub struct ServerPlace {
    /// Its address.
    pub address: String,
    /// The experiment; `None`: all.
    pub experiment: Option<String>,
    /// The credentials.
    pub credentials: Credentials,
}

/// A stub in builds without MLflow.
#[cfg(not(feature = "mlflow"))]
pub struct Experiments;

#[cfg(not(feature = "mlflow"))]
impl Experiments {
    /// # Errors
    /// Always.
    pub fn of(_place: &ServerPlace) -> Result<Experiments, ImportError> {
        Err(ImportError::NotBuilt)
    }

    /// # Errors
    /// Never.
    pub fn each<E: From<ImportError>>(
        &self,
        _take: impl FnMut(RecordedRun) -> Result<(), E>,
    ) -> Result<(), E> {
        Ok(())
    }
}

/// A file or directory with one or several runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// What it is.
    pub format: Format,
    /// The path of the file or directory.
    pub path: PathBuf,
}

/// Finds the sources below a path; `format`: only these.
///
/// # Errors
/// The path cannot be read, or has no runs.
pub fn find(path: &Path, format: Option<Format>) -> Result<Vec<Source>, ImportError> {
    let metadata = fs::metadata(path).map_err(ImportError::io(path))?;
    let path = fs::canonicalize(path).map_err(ImportError::io(path))?;
    let mut found = Vec::new();
    if metadata.is_dir() {
        look(&path, DEPTH, &mut found);
    } else {
        let known = format.or_else(|| of_file(&path));
        found.extend(known.map(|format| match format {
            Format::TensorBoard => {
                let directory = path.parent().unwrap_or(&path).to_owned();
                Source { format, path: directory }
            }
            _ => Source { format, path: path.clone() },
        }));
    }
    // Tables in a directory are imported only if named themselves.
    found.retain(|source| match format {
        Some(format) => source.format == format,
        None => !metadata.is_dir() || source.format != Format::Csv,
    });
    if found.is_empty() {
        return Err(ImportError::Nothing { path });
    }
    // Runs get their numbers in the order in which they began.
    found.sort_by_cached_key(|source| match source.format {
        Format::Wandb => wandb::began(&source.path),
        Format::TensorBoard => tensorboard::began(&source.path),
        Format::Csv | Format::MlFlow => None,
    });
    Ok(found)
}

fn of_file(path: &Path) -> Option<Format> {
    let name = path.file_name()?.to_str()?;
    if name.starts_with(tensorboard::NAME) {
        return Some(Format::TensorBoard);
    }
    match Path::new(name).extension()?.to_str()? {
        "wandb" => Some(Format::Wandb),
        "csv" | "tsv" => Some(Format::Csv),
        _ => None,
    }
}

fn look(directory: &Path, depth: usize, found: &mut Vec<Source>) {
    // Unreadable directories are skipped.
    let Ok(entries) = fs::read_dir(directory) else { return };
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    let is_file = |path: &&PathBuf| path.is_file();
    let formats =
        |format| paths.iter().filter(is_file).filter(move |path| of_file(path) == Some(format));
    if formats(Format::TensorBoard).next().is_some() {
        let path = directory.to_owned();
        found.push(Source { format: Format::TensorBoard, path });
    }
    let files = formats(Format::Wandb);
    found.extend(files.map(|path| Source { format: Format::Wandb, path: path.clone() }));
    if depth == 0 {
        return;
    }
    // Symbolic links may form a cycle.
    let is_run = formats(Format::TensorBoard).next().is_some();
    let is_part = |path: &Path| is_run && tensorboard::is_part(path);
    for below in paths.iter().filter(|path| path.is_dir() && !path.is_symlink() && !is_part(path)) {
        look(below, depth - 1, found);
    }
}

/// The runs of a source; `root` is the given path, `mapping` maps the columns of a table.
///
/// # Errors
/// It cannot be read, or has another format. A damaged or truncated source yields what precedes the
/// damage, and a remark.
pub fn read(
    source: &Source,
    root: &Path,
    mapping: &Mapping,
) -> Result<Vec<RecordedRun>, ImportError> {
    let now = runner::now();
    let runs = match source.format {
        Format::Wandb => vec![wandb::read(&source.path)?],
        Format::TensorBoard => tensorboard::read(&source.path, root)?.into_iter().collect(),
        Format::Csv => csv_table::read(&source.path, mapping)?,
        Format::MlFlow => Vec::new(),
    };
    Ok(runs.into_iter().map(|run| run.settled(now)).collect())
}

/// A parameter or value of an imported run that its source has changed since.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// The parameter, or the metric.
    pub name: String,
    /// The step, of a metric with several.
    pub step: Option<f64>,
    /// What is stored.
    pub before: Option<Value>,
    /// What the source has now.
    pub now: Value,
}

/// The result of importing a run.
#[derive(Clone, Debug, PartialEq)]
pub enum Taken {
    /// It is new.
    New,
    /// It was imported before, and its source has more now.
    Continued,
    /// It was imported before, and its source has as much now, with these changes.
    Changed(Vec<Change>),
    /// It was imported completely before.
    Known,
    /// It was imported before, and its source has less now: it is left as it is.
    Fewer,
}

/// An imported run, with what the next import needs.
#[derive(Clone, Debug)]
struct KnownRun {
    number: TrialNumber,
    attempts: u32,
    state: TrialState,
    params: Params,
}

/// The imported runs of a study, by source.
#[derive(Debug, Default)]
pub struct KnownRuns(BTreeMap<String, KnownRun>);

impl KnownRuns {
    /// Those of a study.
    ///
    /// # Errors
    /// The store failed.
    pub fn of(reader: &dyn StorageReader, study: &StoredStudy) -> Result<KnownRuns, TrackingError> {
        let trials = reader.trials(study.id, &TrialQuery::all(SortKey::Number))?;
        let (mut known, mut rows) = (BTreeMap::new(), RowSources::default());
        for Trial { number, attempts, state, params, origin, .. } in trials {
            let Some(run) = origin.tracked() else { continue };
            let Some(source) = &run.source else { continue };
            let source = match of_position(source, run.name.as_deref(), &known) {
                Some(before) => rows.next(before, &params),
                None => source.clone(),
            };
            known.insert(source, KnownRun { number, attempts, state, params });
        }
        Ok(KnownRuns(known))
    }

    /// The result that writing a run would have.
    ///
    /// # Errors
    /// The store failed.
    pub fn taken(
        &self,
        reader: &dyn StorageReader,
        study: &StoredStudy,
        run: &RecordedRun,
    ) -> Result<Taken, TrackingError> {
        let Some(known) = self.0.get(&run.source) else { return Ok(Taken::New) };
        let series = reader.series(study.id, &[known.number])?;
        let points: u64 = series.iter().map(|series| series.count).sum();
        match run.points().cmp(&points) {
            Ordering::Less => return Ok(Taken::Fewer),
            Ordering::Equal if known.state == run.state() => {}
            _ => return Ok(Taken::Continued),
        }
        if !run.may_be_edited {
            return Ok(Taken::Known);
        }
        let mut changes = known.changed_params(run);
        for ((metric, axis), points) in &run.series {
            let all = f64::MIN..=f64::MAX;
            let stored = reader.series_points(study.id, known.number, metric, *axis, all)?;
            changes.extend(changed_points(metric, &stored, points));
        }
        Ok(if changes.is_empty() { Taken::Known } else { Taken::Changed(changes) })
    }

    /// Writes a run; one that was imported before and has more now, or other values, gets a new
    /// attempt with all of it.
    ///
    /// # Errors
    /// The store failed.
    pub fn write(
        &mut self,
        storage: &mut dyn Storage,
        study: &StoredStudy,
        run: &RecordedRun,
    ) -> Result<Taken, TrackingError> {
        let taken = self.taken(storage, study, run)?;
        if matches!(taken, Taken::Known | Taken::Fewer) {
            return Ok(taken);
        }
        let objective = study.spec.objective();
        let value = run.best(&objective.metric, objective.direction);
        let began = run.began.unwrap_or_default();
        let ended = run.ended.unwrap_or(began);
        let mut is_changed = false;
        let (begin, attempt) = match self.0.get(&run.source) {
            None => {
                let parent = run.parent.as_ref().and_then(|parent| self.0.get(parent));
                (new(run, parent.map(|parent| parent.number)), AttemptNumber(0))
            }
            Some(known) => {
                is_changed = !known.changed_params(run).is_empty();
                let (trial, attempts) = (known.number, known.attempts);
                (BeginRun::Resumed { trial, attempts, resume: None }, AttemptNumber(attempts))
            }
        };
        let end = match run.end {
            None => RunEnd::Interrupted { by: "when it was imported: it had not ended".to_owned() },
            Some(RecordedEnd::Complete) => RunEnd::Completed,
            Some(RecordedEnd::Failed(status)) => RunEnd::Failed {
                cause: status.map_or(FailureCause::Program, FailureCause::Exit),
                reason: match status {
                    Some(status) => format!("it exited with status {status}"),
                    None => "it failed, by its record".to_owned(),
                },
            },
        };
        let ran = ended.0.saturating_sub(began.0).max(0);
        let mut written = None;
        storage.record_run(study.id, (began, ended), (&begin, &process()), &mut |fence| {
            let trial = fence.trial;
            written = Some(trial);
            let mut events = Vec::new();
            if is_changed {
                let params = run.params.clone();
                events.push(Event::Trial(trial, TrialEvent::ParamsRecorded { params }));
            }
            if !run.summary.is_empty() {
                let summary = run.summary.clone();
                events.push(Event::Trial(trial, TrialEvent::SummaryRecorded { summary }));
            }
            events.extend(ending(fence, &end, value, ran));
            (events, logged(run, trial, attempt))
        })?;
        if let Some(number) = written {
            let (attempts, params) = (attempt.0 + 1, run.params.clone());
            let known = KnownRun { number, attempts, state: run.state(), params };
            self.0.insert(run.source.clone(), known);
        }
        Ok(taken)
    }
}

impl KnownRun {
    /// Parameters that the source has changed or added.
    fn changed_params(&self, run: &RecordedRun) -> Vec<Change> {
        let changed = |(name, now): (&str, &Value)| {
            let before = self.params.get(name);
            let is_same = before.is_some_and(|before| before.same(now));
            (!is_same).then(|| Change {
                name: name.to_owned(),
                step: None,
                before: before.cloned(),
                now: now.clone(),
            })
        };
        run.params.iter().filter_map(changed).collect()
    }
}

/// Points of a series that are stored otherwise, or not at all.
fn changed_points(metric: &str, stored: &[Point], points: &[RecordedPoint]) -> Vec<Change> {
    let is_same = |one: f64, other: f64| one == other || one.is_nan() && other.is_nan();
    let changed = |point: &RecordedPoint| {
        let place = stored.binary_search_by(|known| known.step.total_cmp(&point.step));
        let before = place.ok().map(|place| stored[place].value);
        let is_known = before.is_some_and(|before| is_same(before, point.value));
        (!is_known).then(|| Change {
            name: metric.to_owned(),
            step: (points.len() > 1).then_some(point.step),
            before: before.map(Value::Float),
            now: Value::Float(point.value),
        })
    };
    points.iter().filter_map(changed).collect()
}

/// What precedes the position in the source of a row of a table that an earlier version identified
/// by its position: `csv:PATH#7`, or `csv:PATH#NAME#7` for a name that other rows have, too.
fn of_position<'a>(
    source: &'a str,
    name: Option<&str>,
    known: &BTreeMap<String, KnownRun>,
) -> Option<&'a str> {
    let (before, row) = source.rsplit_once('#')?;
    let is_row = !row.is_empty() && row.bytes().all(|byte| byte.is_ascii_digit());
    let is_table = before.strip_prefix(Format::Csv.as_str())?.starts_with(':');
    let is_again = match name {
        None => true,
        Some(name) => known.contains_key(before) && !source.ends_with(&format!("#{name}")),
    };
    (is_row && is_table && is_again).then_some(before)
}

fn new(run: &RecordedRun, parent: Option<TrialNumber>) -> BeginRun {
    let tracked = TrackedRun {
        name: run.name.clone(),
        group: run.group.clone(),
        source: Some(run.source.clone()),
        parent,
        ..TrackedRun::default()
    };
    let (params, tags) = (run.params.clone(), run.tags.clone());
    BeginRun::New { params, run: tracked, tags, note: run.note.clone() }
}

fn process() -> TrackerProcess {
    let Holder { pid, pid_started, host, boot_id } = identified_process();
    let slot = Slot::on(0, Device::Cpu);
    let tracker = Tracker { pid_started, boot_id };
    TrackerProcess { pid, host, tracker, slot, provenance: None, spool: None }
}

fn logged(run: &RecordedRun, trial: TrialNumber, attempt: AttemptNumber) -> Vec<LoggedSeries> {
    let point = |point: &RecordedPoint| LoggedPoint {
        step: Some(point.step),
        value: point.value,
        at: point.at,
    };
    run.series
        .iter()
        .map(|((metric, axis), points)| LoggedSeries {
            trial,
            attempt,
            metric: metric.clone(),
            axis: *axis,
            points: points.iter().map(point).collect(),
        })
        .collect()
}

/// A time in seconds since 1970; `None` if it is out of range.
fn moment(seconds: f64) -> Option<Timestamp> {
    #[expect(clippy::cast_possible_truncation, reason = "seconds below 1e11 as microseconds")]
    (seconds.is_finite() && seconds.abs() < 1e11).then(|| Timestamp((seconds * 1e6).round() as i64))
}
