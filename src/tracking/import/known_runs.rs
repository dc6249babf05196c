//! Writes recorded runs into a study of tracked runs: new ones, and what is new of others.
//!
//! Each run is imported in one transaction. It records its source ([`TrackedRun::source`]), by
//! which the next import recognises it.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use super::csv_table::RowSources;
use super::{Format, RecordedEnd, RecordedPoint, RecordedRun};
use crate::runner::identified_process;
use crate::storage::tracked::{BeginRun, TrackerProcess};
use crate::storage::{Holder, Storage, StorageReader, StoredStudy};
use crate::study::device::{Device, Slot};
use crate::study::event::{Event, RecordEvent};
use crate::study::params::{Params, Value};
use crate::study::query::{SortKey, TrialQuery};
use crate::study::series::{LoggedPoint, LoggedSeries, Point};
use crate::study::spec::FailureCause;
use crate::study::tracked::{TrackedRun, Tracker};
use crate::study::trial::{AttemptNumber, Trial, TrialNumber, TrialState};
use crate::tracking::TrackingError;
use crate::tracking::run::{RunEnd, ending};

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

    /// The numbers of the runs from a source; of a table's, `csv:PATH#`, those of all its rows.
    pub fn from<'a>(&'a self, source: &'a str) -> impl Iterator<Item = TrialNumber> + 'a {
        let is_table = source.ends_with('#');
        let after = self.0.range(source.to_owned()..);
        after
            .take_while(move |(known, _)| *known == source || is_table && known.starts_with(source))
            .map(|(_, known)| known.number)
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
                events.push(Event::of(trial, RecordEvent::ParamsRecorded { params }));
            }
            if !run.summary.is_empty() {
                let summary = run.summary.clone();
                events.push(Event::of(trial, RecordEvent::SummaryRecorded { summary }));
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
    TrackerProcess { pid, host, tracker, slot, provenance: None, spool: None, since: None }
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
