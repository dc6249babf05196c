//! The parts of the page as plain data, read from the store: of the live page and of reports.

mod answer;
mod facts;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use serde::Serialize;
use serde_json::Value as Json;

use super::AppError;
use super::best;
use super::compared;
use super::control::{StudyControl, offered_to_study, offered_to_trial};
use super::curves::{By, Detail, points, shown_axis};
use super::figures::FigureOptions;
use super::find::{self, Archived, is_archived};
use super::log_tail::{self, LogTail};
use super::populations::family;
use super::study_state::{elapsed, state_in, times_spent, unmeasured, with_open_attempts};
pub use answer::{AnswerPart, BestPart, FrontAnswer, answer, params_as_toml};
pub use facts::{
    Fact, ParamPart, StoppedGroup, StoppedPart, params_of_runs, rules, space, stopped, used,
};

use crate::analysis::forecast::counted;
use crate::engine::seed_of;
use crate::pruners::counted_trials;
use crate::report::document::privacy::Privacy;
use crate::report::figure::{Mark, Series, SeriesRole};
use crate::report::wording::{attempt_end, one_line, proposed, run_name};
use crate::storage::{Attempt, StorageError, StorageReader, StudySummary};
use crate::study::artifact::{Artifact, ArtifactKind, StoredArtifact};
use crate::study::control::TrialControl;
use crate::study::front::Front;
use crate::study::metric::{Direction, Metrics, Number};
use crate::study::params::Params;
use crate::study::query::TrialQuery;
use crate::study::series::{SeriesAxis, SeriesSummary, step_json};
use crate::study::spec::StudySpec;
use crate::study::state::{Counts, shown_params};
use crate::study::time::Timestamp;
use crate::study::trial::{AttemptNumber, Note, Trial, TrialNumber, TrialState};

/// All studies of the store.
#[derive(Debug, Serialize)]
pub struct StudiesPart {
    studies: Vec<ListedStudy>,
    /// Those that cannot be read here.
    skipped: Vec<SkippedStudy>,
}

#[derive(Debug, Serialize)]
struct SkippedStudy {
    name: String,
    error: String,
}

/// A study in the list.
#[derive(Debug, Serialize)]
pub struct ListedStudy {
    name: String,
    state: &'static str,
    /// Why it is over, or paused.
    reason: Option<String>,
    trials: Counts,
    hidden: u64,
    best: Option<BestOf>,
    metric: String,
    direction: Direction,
    /// All objectives, if there are several.
    #[serde(skip_serializing_if = "Option::is_none")]
    objectives: Option<Vec<ObjectivePart>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    front: Option<FrontPart>,
    tags: Vec<String>,
    is_archived: bool,
    is_tracked: bool,
    created: Timestamp,
    /// What it is offered.
    controls: Vec<StudyControl>,
}

/// One of several objectives.
#[derive(Debug, Serialize)]
pub struct ObjectivePart {
    metric: String,
    direction: Direction,
}

/// The objectives of a study that has several.
pub fn objectives(spec: &StudySpec) -> Option<Vec<ObjectivePart>> {
    let all = spec.objectives.iter();
    let all = all.map(|one| ObjectivePart { metric: one.metric.clone(), direction: one.direction });
    spec.has_several_objectives().then(|| all.collect())
}

/// The front of several objectives.
#[derive(Debug, Serialize)]
pub struct FrontPart {
    /// Its trials, by number.
    pub trials: Vec<TrialNumber>,
    /// The compromise among them.
    pub knee: Option<TrialNumber>,
    /// The volume that it dominates.
    pub hypervolume: Option<Number>,
    /// The reference point of the hypervolume.
    pub reference: Vec<Number>,
}

impl From<Front> for FrontPart {
    fn from(front: Front) -> Self {
        FrontPart {
            trials: front.trials,
            knee: front.knee,
            hypervolume: front.hypervolume.map(Number),
            reference: front.reference.into_iter().map(Number).collect(),
        }
    }
}

/// A trial and its value.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct BestOf {
    /// The trial.
    pub number: TrialNumber,
    /// Its value.
    pub value: Number,
}

/// A study.
#[derive(Debug, Serialize)]
pub struct StudyPart {
    #[serde(flatten)]
    row: ListedStudy,
    description: Option<String>,
    notes: Vec<NoteLine>,
    /// What steps count.
    #[serde(rename = "clock")]
    step_unit: &'static str,
    /// Seconds that it ran.
    seconds: f64,
    budget: Option<u64>,
    /// Trials that count towards the budget.
    counted: u64,
    /// Why a goal of several objectives is not in force.
    #[serde(skip_serializing_if = "Option::is_none")]
    unmeasured: Option<String>,
    params: Vec<ParamPart>,
    /// Names of metrics and series, for filters and curves.
    metrics: Vec<String>,
    series: Vec<String>,
}

#[derive(Debug, Serialize)]
struct NoteLine {
    at: Timestamp,
    text: String,
}

/// A page of a study's trials.
#[derive(Debug, Serialize)]
pub struct TrialsPart {
    /// How many trials pass the filter.
    matching: u64,
    offset: u64,
    trials: Vec<TrialRow>,
}

/// A trial in the table.
#[derive(Debug, Serialize)]
pub struct TrialRow {
    number: TrialNumber,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    state: TrialState,
    value: Option<Number>,
    /// Its values of several objectives, in their order; of a trial that is not complete those
    /// reported last.
    #[serde(skip_serializing_if = "Option::is_none")]
    values: Option<Vec<Option<Number>>>,
    /// Whether these are only reported so far.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    values_are_last: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    violation: Option<Number>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    hidden: bool,
    last_value: Option<Number>,
    last_step: Option<u64>,
    seconds: f64,
    params: Params,
    device: Option<String>,
    attempts: u32,
    reason: Option<String>,
    tags: Vec<String>,
    notes: usize,
    /// What it is offered.
    controls: Vec<TrialControl>,
}

/// A trial.
#[derive(Debug, Serialize)]
pub struct TrialPart {
    #[serde(flatten)]
    row: TrialRow,
    origin: String,
    /// Of its random streams; none of tracked runs.
    seed: Option<u64>,
    /// Its parameters as TOML.
    toml: String,
    /// Of a population: the stages that led to its state, in words.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    schedule: Vec<String>,
    /// The family tree of its population.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    family: Vec<String>,
    metrics: Metrics,
    /// Values about the whole trial.
    summary: BTreeMap<String, Json>,
    /// What its last attempt depends on.
    provenance: Vec<Fact>,
    all_notes: Vec<NoteLine>,
    created: Timestamp,
    started: Option<Timestamp>,
    finished: Option<Timestamp>,
    decisions: Vec<DecisionLine>,
    attempts_made: Vec<AttemptLine>,
    checkpoints: Vec<u64>,
    series: Vec<SeriesLine>,
    /// Files, images, texts and tables that it kept.
    artifacts: Vec<ArtifactLine>,
}

#[derive(Debug, Serialize)]
struct DecisionLine {
    step: u64,
    decision: &'static str,
    text: String,
}

#[derive(Debug, Serialize)]
struct AttemptLine {
    attempt: u32,
    device: String,
    started: Timestamp,
    ended: Option<Timestamp>,
    end: &'static str,
    reason: Option<String>,
}

#[derive(Debug, Serialize)]
struct ArtifactLine {
    /// The name with its version, by which it is written to a file.
    name: String,
    kind: &'static str,
    bytes: u64,
    step: Option<u64>,
    /// Of an image, by which its content is served.
    #[serde(skip_serializing_if = "Option::is_none")]
    digest: Option<String>,
}

impl From<StoredArtifact> for ArtifactLine {
    fn from(stored: StoredArtifact) -> Self {
        let name = one_line(&stored.label());
        let Artifact { kind, bytes, step, digest, .. } = stored.artifact;
        let digest = (kind == ArtifactKind::Image).then_some(digest);
        ArtifactLine { name, kind: kind.as_str(), bytes, step, digest }
    }
}

#[derive(Debug, Serialize)]
struct SeriesLine {
    metric: String,
    #[serde(rename = "clock")]
    axis: SeriesAxis,
    points: u64,
    last_step: Json,
    last_value: Number,
}

/// Curves of some trials, thinned to the pixels of a chart.
#[derive(Debug, Serialize)]
pub struct CurvesPart {
    metric: String,
    /// What the first number of a point counts.
    unit: &'static str,
    curves: Vec<CurveLine>,
}

impl CurvesPart {
    /// Whether there is nothing to draw.
    pub fn is_empty(&self) -> bool {
        self.curves.iter().all(|curve| curve.points.is_empty())
    }
}

#[derive(Debug, Serialize)]
struct CurveLine {
    trial: TrialNumber,
    points: Vec<(Number, Number)>,
}

/// All studies.
///
/// # Errors
/// The store failed.
pub fn studies(reader: &dyn StorageReader) -> Result<StudiesPart, AppError> {
    let found = find::all(reader, Archived::Listed)?;
    let rows = found.studies.into_iter().map(|study| study_row(reader, study));
    let skipped = found.skipped.into_iter();
    let skipped =
        skipped.map(|(name, error)| SkippedStudy { name, error: error.with_remedy() }).collect();
    Ok(StudiesPart { studies: rows.collect::<Result<_, StorageError>>()?, skipped })
}

fn study_row(reader: &dyn StorageReader, study: StudySummary) -> Result<ListedStudy, StorageError> {
    let state = state_in(reader, &study)?;
    let objective = study.spec.objective();
    let is_archived = is_archived(&study);
    let tags = study.all_tags();
    Ok(ListedStudy {
        controls: offered_to_study(&study, state),
        state: state.as_str(),
        trials: study.counts,
        hidden: study.hidden,
        best: study.best.map(|(number, value)| BestOf { number, value: Number(value) }),
        metric: objective.metric.clone(),
        direction: objective.direction,
        objectives: objectives(&study.spec),
        front: study.front.map(FrontPart::from),
        is_archived,
        is_tracked: study.spec.is_tracked(),
        created: study.created,
        tags,
        reason: study.finished.or(study.paused),
        name: study.spec.name,
    })
}

/// One study.
///
/// # Errors
/// The store failed.
pub fn study(reader: &dyn StorageReader, study: StudySummary) -> Result<StudyPart, AppError> {
    let names = reader.trial_names(study.id)?;
    let params = match study.spec.is_tracked() {
        false => space(&study),
        true => {
            let compared = compared::read(reader, &study)?;
            params_of_runs(&compared, names.params)
        }
    };
    Ok(StudyPart {
        description: study.spec.description.clone(),
        notes: note_lines(&study.notes),
        step_unit: study.spec.step.as_str(),
        seconds: elapsed(reader, &study)?.as_secs_f64(),
        budget: study.spec.budget.trials,
        counted: counted(study.counts, counted_trials(&study.spec)),
        unmeasured: unmeasured(reader, &study)?.map(|why| why.to_string()),
        params,
        metrics: names.metrics,
        series: names.series,
        row: study_row(reader, study)?,
    })
}

fn note_lines(notes: &[Note]) -> Vec<NoteLine> {
    notes.iter().map(|note| NoteLine { at: note.at, text: note.text.clone() }).collect()
}

/// A page of trials.
///
/// # Errors
/// The store failed.
pub fn trials(
    reader: &dyn StorageReader,
    study: &StudySummary,
    query: TrialQuery,
) -> Result<TrialsPart, AppError> {
    let query = &with_open_attempts(reader, study, query)?;
    let matching = match query.filter.is_all() {
        true => study.counts.total(),
        false => reader.count(study.id, &query.filter)?,
    };
    let trials = reader.trials(study.id, query)?;
    let times = times_spent(reader, study, &trials)?;
    let row = |trial: &Trial| TrialRow {
        seconds: times.get(&trial.number).map_or(0.0, Duration::as_secs_f64),
        ..trial_row(study, trial)
    };
    let trials = trials.iter().map(row).collect();
    Ok(TrialsPart { matching, offset: query.offset, trials })
}

#[expect(clippy::cast_precision_loss, reason = "exact up to 285 years")]
fn trial_row(study: &StudySummary, trial: &Trial) -> TrialRow {
    let spec = &study.spec;
    let last = trial.last();
    let mut values = spec.has_several_objectives().then(|| trial.known_values());
    if let Some(values) = &mut values {
        values.resize(spec.objectives.len(), None);
    }
    TrialRow {
        number: trial.number,
        name: run_name(trial).map(str::to_owned),
        state: trial.state,
        value: trial.value.map(Number),
        values_are_last: values.is_some() && trial.values.is_empty(),
        values: values.map(|all| all.into_iter().map(|value| value.map(Number)).collect()),
        violation: trial.violation.map(Number),
        hidden: trial.hidden,
        last_value: last.map(|(_, value)| Number(value)),
        last_step: trial.last_step(),
        seconds: trial.busy_micros as f64 / 1e6,
        params: shown_params(spec, trial).clone(),
        device: trial.devices.as_ref().map(ToString::to_string),
        attempts: trial.attempts,
        reason: trial.reason.as_deref().map(one_line),
        tags: trial.tags.clone(),
        notes: trial.notes.len(),
        controls: offered_to_trial(study, trial),
    }
}

/// One trial.
///
/// # Errors
/// The store failed.
pub fn trial(
    reader: &dyn StorageReader,
    study: &StudySummary,
    trial: &Trial,
    privacy: &Privacy,
) -> Result<TrialPart, AppError> {
    let attempt = |attempt: Attempt| AttemptLine {
        attempt: attempt.attempt.0,
        device: attempt.slot.devices.to_string(),
        started: attempt.started,
        ended: attempt.ended,
        end: attempt_end(attempt.end.as_ref()),
        reason: attempt.reason.as_deref().map(one_line),
    };
    let series = |series: SeriesSummary| SeriesLine {
        metric: series.metric,
        axis: series.axis,
        points: series.count,
        last_step: step_json(series.last),
        last_value: Number(series.last_value),
    };
    let decisions = trial.decisions.iter().map(|decision| DecisionLine {
        step: decision.step,
        decision: decision.verdict.word(),
        text: decision.verdict.reason().map(ToString::to_string).unwrap_or_default(),
    });
    let attempts = reader.attempts(study.id, Some(trial.number))?;
    let last = attempts.last().and_then(|attempt| attempt.runner);
    let runners = if last.is_some() { reader.runners(study.id)? } else { Vec::new() };
    let runner = runners.iter().find(|runner| Some(runner.seq) == last);
    let provenance = runner.and_then(|runner| runner.provenance.as_ref());
    let step = best::value_step(&study.spec, trial);
    let is_tracked = study.spec.is_tracked();
    let all_series = reader.series(study.id, &[trial.number])?;
    let artifacts = reader.artifacts(study.id, Some(trial.number))?;
    let family = family(reader, study, trial)?;
    let (schedule, tree) = family.map(|family| (family.stage_lines, family.tree)).unzip();
    Ok(TrialPart {
        schedule: schedule.unwrap_or_default(),
        family: tree.unwrap_or_default(),
        row: trial_row(study, trial),
        origin: proposed(&trial.origin),
        seed: (!is_tracked).then(|| seed_of(&study.spec, trial)),
        toml: params_as_toml(shown_params(&study.spec, trial)),
        metrics: best::metrics_at(reader, study.id, trial.number, step)?,
        summary: reader.trial_summary(study.id, trial.number)?,
        provenance: provenance.map(|provenance| privacy.facts(provenance)).unwrap_or_default(),
        all_notes: note_lines(&trial.notes),
        created: trial.created,
        started: trial.started,
        finished: trial.finished,
        decisions: decisions.collect(),
        attempts_made: attempts.into_iter().map(attempt).collect(),
        checkpoints: trial.checkpoints.iter().map(|checkpoint| checkpoint.step).collect(),
        series: all_series.into_iter().map(series).collect(),
        artifacts: artifacts.into_iter().map(ArtifactLine::from).collect(),
    })
}

/// The end of the log of a trial's attempt.
#[derive(Debug, Serialize)]
pub struct LogPart {
    /// The attempt; `None`: none has started yet.
    attempt: Option<AttemptNumber>,
    /// How long the log is.
    bytes: u64,
    /// Whether there are lines before these.
    cut: bool,
    /// The lines without what drives a terminal; `None`: those that the page has already.
    lines: Option<Vec<String>>,
}

/// The end of a trial's log, `most` bytes of it; `known`: the attempt and the length that the page
/// has already.
///
/// # Errors
/// The store failed, there is no such attempt, or its log cannot be read.
pub fn log(
    reader: &dyn StorageReader,
    study: &StudySummary,
    store: &Path,
    (trial, attempt): (&Trial, Option<AttemptNumber>),
    (known, most): (Option<(AttemptNumber, u64)>, u64),
) -> Result<LogPart, AppError> {
    let Some(attempt) = attempt.or(trial.last_attempt()) else {
        return Ok(LogPart { attempt: None, bytes: 0, cut: false, lines: Some(Vec::new()) });
    };
    let path = log_tail::place(reader, study, store, (trial.number, attempt))?;
    if let Some((own, bytes)) = known
        && own == attempt
        && bytes == LogTail::length(&path)
    {
        return Ok(LogPart { attempt: Some(attempt), bytes, cut: false, lines: None });
    }
    let tail = LogTail::read(&path, attempt, most)?;
    let (bytes, cut) = (tail.bytes, tail.cut);
    Ok(LogPart { attempt: Some(attempt), bytes, cut, lines: Some(tail.lines) })
}

/// Curves of some trials.
///
/// # Errors
/// The store failed.
pub fn curves(
    reader: &dyn StorageReader,
    study: &StudySummary,
    trials: &[TrialNumber],
    (metric, axis): (&str, Option<SeriesAxis>),
    (by, columns): (By, u16),
) -> Result<CurvesPart, AppError> {
    let all = reader.series(study.id, trials)?;
    let own = all.iter().filter(|series| series.metric == metric);
    let axis = axis.unwrap_or_else(|| shown_axis(study, own));
    let curve = |trial: &TrialNumber| {
        // A character of the terminal has two columns.
        let detail = Detail::Columns(columns.div_ceil(2));
        let points = points(reader, study, *trial, (metric, axis), by, detail)?;
        let points = points.into_iter().map(|(x, y)| (Number(x), Number(y))).collect();
        Ok(CurveLine { trial: *trial, points })
    };
    let curves = trials.iter().map(curve).collect::<Result<_, StorageError>>()?;
    Ok(CurvesPart { metric: metric.to_owned(), unit: by.unit(axis), curves })
}

/// The curve of a trial, the one with this index among those compared, to be drawn in front of
/// others.
///
/// # Errors
/// The store failed.
pub fn curve_in_front(
    reader: &dyn StorageReader,
    study: &StudySummary,
    (index, trial): (usize, TrialNumber),
    options: &FigureOptions,
) -> Result<Series<'static>, AppError> {
    let metric = options.metric.as_deref().unwrap_or(&study.spec.objective().metric);
    let all = reader.series(study.id, &[trial])?;
    let own = all.iter().filter(|series| series.metric == metric);
    let axis = options.axis.unwrap_or_else(|| shown_axis(study, own));
    let points = points(reader, study, trial, (metric, axis), options.by, options.detail)?;
    let series =
        Series::new(format!("trial {trial}"), Mark::Line, SeriesRole::Compared(index), points);
    Ok(series.of_trial(trial))
}
