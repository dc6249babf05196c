//! One run, as written by the process that tracks it: its start, reports, checkpoints and end.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::TrackingError;
use super::life::{Tracked, last_sign, life_of, settle};
use crate::report::wording::param;
use crate::runner::clock::Clock;
use crate::runner::{self, Liveness, identified_process};
use crate::storage::tracked::{BeginRun, RunFence, TrackerProcess};
use crate::storage::{Holder, Storage, StorageError, StoredStudy};
use crate::study::checkpoint::Checkpoint;
use crate::study::device::{Device, Slot};
use crate::study::event::{
    AttemptEnd, AttemptEvent, Event, RecordEvent, RunnerEvent, StateEvent, TrialEvent,
};
use crate::study::metric::{Metrics, Score};
use crate::study::params::{Params, Value};
use crate::study::provenance::Provenance;
use crate::study::series::LoggedSeries;
use crate::study::spec::{FailureCause, Objective};
use crate::study::state::StudyState;
use crate::study::tag::is_tag;
use crate::study::time::Timestamp;
use crate::study::tracked::{TrackedRun, Tracker, is_run_name};
use crate::study::trial::{AttemptNumber, TrialNumber, TrialState};

/// The initial data of a run.
#[derive(Clone, Debug, Default)]
pub struct NewRun {
    /// Its parameters.
    pub params: Params,
    /// Its name and program; a name that another run has gets a numeric suffix.
    pub run: TrackedRun,
    /// Its tags.
    pub tags: Vec<String>,
    /// A first note.
    pub note: Option<String>,
    /// What its results depend on, if determined.
    pub provenance: Option<Box<Provenance>>,
    /// The spool that its program logs to, and the offset read so far.
    pub spool: Option<(String, u64)>,
    /// When its program began to log there, by the program's clock.
    pub since: Option<Timestamp>,
}

/// Treatment of a process that already tracks the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rival {
    /// A live one keeps the run.
    #[default]
    Respected,
    /// It cannot write to the run any more.
    Fenced,
}

/// The data of a resumed run.
#[derive(Clone, Debug, Default)]
pub struct ResumedRun {
    /// What its results depend on from here on, if determined.
    pub provenance: Option<Box<Provenance>>,
    /// The spool that its program logs to, and the offset read so far.
    pub spool: Option<(String, u64)>,
    /// When its program began to log there, by the program's clock.
    pub since: Option<Timestamp>,
    /// Whether another process may be tracking it.
    pub rival: Rival,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunEnd {
    /// Its program ran to its end.
    Completed,
    /// It failed.
    Failed {
        /// The kind of failure.
        cause: FailureCause,
        /// One sentence.
        reason: String,
    },
    /// It was asked to exit early, and can be resumed.
    Interrupted {
        /// The cause, such as `by SIGINT`.
        by: String,
    },
}

/// A run that this process tracks. Every call is one transaction; after
/// [`StorageError::RunFenced`], another process has resumed the run, and nothing more can be
/// written here.
#[derive(Debug)]
pub struct Run {
    study: StoredStudy,
    fence: RunFence,
    name: Option<String>,
    checkpoint: Option<Checkpoint>,
    clock: Clock,
    began: Timestamp,
    /// When an earlier process of this attempt last wrote; otherwise when it began.
    heard: Timestamp,
    /// Microseconds by which the run's time is ahead of its program's clock.
    ahead: i64,
}

impl Run {
    /// Begins a new run of a study returned by [`super::open_study`].
    ///
    /// # Errors
    /// The name of the run or a tag is invalid, or the store failed.
    pub fn create(
        storage: &mut dyn Storage,
        study: &StoredStudy,
        new: NewRun,
    ) -> Result<Run, TrackingError> {
        let NewRun { params, run, tags, note, provenance, spool, since } = new;
        check_new(run.name.as_deref(), &tags)?;
        let begin = BeginRun::New { params, run, tags, note };
        let since = since.map(|since| (since, since));
        Run::begin(storage, study, &begin, (provenance, spool, since), None)
    }

    /// Resumes a run in a new attempt, however its last one ended. An attempt whose process died is
    /// closed first.
    ///
    /// # Errors
    /// Its process is alive, there is no such run, or the store failed.
    pub fn resume(
        storage: &mut dyn Storage,
        study: &StoredStudy,
        trial: TrialNumber,
        resumed: ResumedRun,
    ) -> Result<Run, TrackingError> {
        if let Some(tracked) = life_of(storage, study.id, trial)? {
            let Holder { pid, host, .. } = tracked.process.clone();
            let why = match tracked.liveness {
                Liveness::Alive if resumed.rival == Rival::Respected => {
                    return Err(TrackingError::Running { run: trial, pid, host });
                }
                Liveness::Alive => "another process continued it".to_owned(),
                Liveness::Dead => "its process was killed".to_owned(),
                // The fence prevents it from writing if it is alive after all.
                Liveness::Unknown => format!("it was resumed on another host than `{host}`"),
            };
            settle(storage, &tracked, &why)?;
        }
        let trial = storage.trial(study.id, trial)?.ok_or(StorageError::NoTrial { trial })?;
        let is_there = |checkpoint: &&Checkpoint| checkpoint.path.exists();
        let checkpoint = trial.checkpoints.iter().rev().find(is_there).cloned();
        let begin = BeginRun::Resumed {
            trial: trial.number,
            attempts: trial.attempts,
            resume: checkpoint.as_ref().map(|saved| (saved.step, saved.path.clone())),
        };
        let ResumedRun { provenance, spool, since, .. } = resumed;
        let before = storage.attempts(study.id, Some(trial.number))?.pop();
        let before = before.map(|before| before.ended.unwrap_or(before.started));
        // A clock may have been set back since the attempt before.
        let since = since.map(|since| (since, before.unwrap_or(since).max(since)));
        Run::begin(storage, study, &begin, (provenance, spool, since), checkpoint)
    }

    /// Continues the open attempt of a dead process on this machine that wrote the same spool;
    /// `None` if there is none. The caller holds the spool's lock.
    ///
    /// # Errors
    /// The store failed, or another process resumed the run.
    pub fn take_up(
        storage: &mut dyn Storage,
        study: &StoredStudy,
        trial: TrialNumber,
    ) -> Result<Option<Run>, TrackingError> {
        let own = identified_process();
        let open = life_of(storage, study.id, trial)?;
        let is_here =
            |open: &Tracked| open.process.host == own.host && open.process.boot_id == own.boot_id;
        let Some(open) = open.filter(is_here) else { return Ok(None) };
        let heard = last_sign(storage, &open)?;
        let Tracked { fence, since, .. } = open;
        let known = storage.trial(study.id, trial)?;
        let name = known.as_ref().and_then(|trial| trial.origin.tracked()?.name.clone());
        let clock = runner::clock_of(storage, study.id)?;
        let (study, checkpoint) = (study.clone(), None);
        let run = Run { study, fence, name, checkpoint, clock, began: since, heard, ahead: 0 };
        run.launched(storage, own.pid, own.pid_started)?;
        Ok(Some(run))
    }

    fn begin(
        storage: &mut dyn Storage,
        study: &StoredStudy,
        begin: &BeginRun,
        (provenance, spool, since): Origins,
        checkpoint: Option<Checkpoint>,
    ) -> Result<Run, TrackingError> {
        let Holder { pid, pid_started, host, boot_id } = identified_process();
        let slot = Slot::on(0, Device::Cpu);
        let tracker = Tracker { pid_started, boot_id };
        let clock = runner::clock_of(storage, study.id)?;
        let now = clock.now();
        let began = since.map_or(now, |(_, since)| since.min(now));
        let ahead = since.map_or(0, |(own, _)| began.0.saturating_sub(own.0).max(0));
        let since = Some(began);
        let process = TrackerProcess { pid, host, tracker, slot, provenance, spool, since };
        let fence = storage.begin_run(study.id, now, begin, &process)?;
        let trial = storage.trial(study.id, fence.trial)?;
        let tracked = trial.as_ref().and_then(|trial| trial.origin.tracked());
        let name = tracked.and_then(|tracked| tracked.name.clone());
        let study = study.clone();
        Ok(Run { study, fence, name, checkpoint, clock, began, heard: began, ahead })
    }

    /// Its study.
    pub fn study(&self) -> &StoredStudy {
        &self.study
    }

    /// Its number.
    pub fn number(&self) -> TrialNumber {
        self.fence.trial
    }

    /// The attempt that this process tracks.
    pub fn attempt(&self) -> AttemptNumber {
        self.fence.attempt
    }

    /// Its name, perhaps with a numeric suffix.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Its name, or else its number.
    pub fn label(&self) -> String {
        self.name.clone().unwrap_or_else(|| self.number().to_string())
    }

    /// The newest existing checkpoint, from which a resumed run continues.
    pub fn checkpoint(&self) -> Option<&Checkpoint> {
        self.checkpoint.as_ref()
    }

    /// The directory of its files, with the store at `store`.
    pub fn directory(&self, store: &Path) -> PathBuf {
        self.study.files(store).trial(self.number())
    }

    /// Records the process that runs it, if that is not this one.
    ///
    /// # Errors
    /// The store failed, or another process resumed the run.
    pub fn launched(
        &self,
        storage: &mut dyn Storage,
        pid: u32,
        pid_started: u64,
    ) -> Result<(), TrackingError> {
        let attempt = self.attempt();
        self.write(
            storage,
            &[TrialEvent::Attempt(AttemptEvent::Launched { attempt, pid, pid_started })],
        )
    }

    /// Records a report.
    ///
    /// # Errors
    /// The store failed, or another process resumed the run.
    pub fn report(
        &self,
        storage: &mut dyn Storage,
        step: u64,
        metrics: Metrics,
    ) -> Result<(), TrackingError> {
        let attempt = self.attempt();
        self.write(storage, &[TrialEvent::Attempt(AttemptEvent::reported(attempt, step, metrics))])
    }

    /// Records parameters.
    ///
    /// # Errors
    /// The store failed, or another process resumed the run.
    pub fn record_params(
        &self,
        storage: &mut dyn Storage,
        params: Params,
    ) -> Result<(), TrackingError> {
        self.write(storage, &[TrialEvent::Record(RecordEvent::ParamsRecorded { params })])
    }

    /// Records the parameters of a resumed run; returns a sentence on those that have other values
    /// than before.
    ///
    /// # Errors
    /// The store failed, or another process resumed the run.
    pub fn change_params(
        &self,
        storage: &mut dyn Storage,
        params: Params,
    ) -> Result<Option<String>, TrackingError> {
        let before = storage.trial(self.study.id, self.number())?.map(|run| run.params);
        let before = before.unwrap_or_default();
        let is_other = |(name, value): &(&str, &Value)| before.get(name) != Some(*value);
        let changed: Vec<_> = params.iter().filter(is_other).collect();
        if changed.is_empty() {
            return Ok(None);
        }
        let replaced = changed.iter().filter_map(|(name, value)| {
            let before = before.get(name)?;
            Some(format!("`{name}` is {}, and was {}", param(value), param(before)))
        });
        let replaced: Vec<String> = replaced.collect();
        let said = (!replaced.is_empty()).then(|| {
            let (label, attempt) = (self.label(), self.attempt());
            format!(
                "run `{label}` is resumed with other parameters from attempt {attempt} on: {}; to \
                 keep both apart, begin a run of another name",
                replaced.join("; ")
            )
        });
        self.record_params(storage, params)?;
        Ok(said)
    }

    /// Records several of these in one transaction.
    ///
    /// # Errors
    /// The store failed, or another process resumed the run.
    pub fn write(
        &self,
        storage: &mut dyn Storage,
        events: &[TrialEvent],
    ) -> Result<(), TrackingError> {
        self.write_logged(storage, events, &[])
    }

    /// The same with logged points.
    ///
    /// # Errors
    /// The store failed, or another process resumed the run.
    pub fn write_logged(
        &self,
        storage: &mut dyn Storage,
        events: &[TrialEvent],
        logged: &[LoggedSeries],
    ) -> Result<(), TrackingError> {
        let now = self.clock.now();
        let events = events.iter().map(|event| (now, event.clone())).collect();
        self.write_timed(storage, events, logged)
    }

    /// The same with the time of each event.
    pub(super) fn write_timed(
        &self,
        storage: &mut dyn Storage,
        events: Vec<(Timestamp, TrialEvent)>,
        logged: &[LoggedSeries],
    ) -> Result<(), TrackingError> {
        let of_run = |(at, event)| (at, Event::Trial(self.number(), event));
        let events: Vec<(Timestamp, Event)> = events.into_iter().map(of_run).collect();
        Ok(storage.append_run(&self.fence, &events, logged)?)
    }

    /// Writes events of any kind in one transaction.
    pub(super) fn append(
        &self,
        storage: &mut dyn Storage,
        events: &[Event],
    ) -> Result<(), TrackingError> {
        let now = self.clock.now();
        let events: Vec<_> = events.iter().map(|event| (now, event.clone())).collect();
        Ok(storage.append_run(&self.fence, &events, &[])?)
    }

    /// When an earlier process of this attempt last wrote to it; otherwise when it began.
    pub(super) fn heard(&self) -> Timestamp {
        self.heard
    }

    /// A moment by its program's clock, at the latest the present.
    pub(super) fn of_program(&self, time: Timestamp) -> Timestamp {
        Timestamp(time.0.saturating_add(self.ahead)).min(self.clock.now())
    }

    /// The clock of its events.
    pub(super) fn clock(&self) -> Clock {
        self.clock
    }

    /// Ends the attempt: the run is complete, failed or interrupted.
    ///
    /// # Errors
    /// The store failed, or another process resumed the run.
    pub fn finish(&self, storage: &mut dyn Storage, end: RunEnd) -> Result<(), TrackingError> {
        self.finish_at(storage, end, self.clock.now())
    }

    /// The same for one that ended at this time.
    pub(super) fn finish_at(
        &self,
        storage: &mut dyn Storage,
        end: RunEnd,
        ended: Timestamp,
    ) -> Result<(), TrackingError> {
        let superseded = match end {
            RunEnd::Completed => self.superseded(storage)?,
            RunEnd::Failed { .. } | RunEnd::Interrupted { .. } => Superseded::default(),
        };
        let own = superseded.reports.get(&self.study.spec.objective().metric);
        let reported = storage.trial(self.study.id, self.number())?.and_then(|mut trial| {
            let counts = |step: &u64| own.is_none_or(|steps| steps.binary_search(step).is_err());
            trial.curve.retain(|(step, _)| counts(step));
            StudyState::new(&self.study.spec).value_of(&trial)
        });
        let value = match reported {
            Some(value) => Some(value),
            None => self.best_logged(storage)?,
        };
        let ran = ended.0.saturating_sub(self.began.0).max(0);
        let mut events = ending(&self.fence, &end, value, ran);
        if let Some(Event::Trial(
            _,
            TrialEvent::Attempt(AttemptEvent::Ended { superseded: of, .. }),
        )) = events.first_mut()
        {
            *of = superseded.reports;
        }
        let attempt = self.attempt();
        let repeat = |(step, metrics)| {
            Event::of(self.number(), AttemptEvent::reported(attempt, step, metrics))
        };
        let now = self.clock.now();
        let timed = |event: Event| match event {
            // The process that writes ends now.
            Event::Runner(_) => (now, event),
            _ => (ended, event),
        };
        let events: Vec<_> =
            superseded.last.into_iter().map(repeat).chain(events).map(timed).collect();
        Ok(storage.append_run(&self.fence, &events, &[])?)
    }

    /// What incomplete attempts reported before a later one started over, or continued from an
    /// earlier step, and did not get there again.
    fn superseded(&self, storage: &dyn Storage) -> Result<Superseded, StorageError> {
        let (study, run) = (self.study.id, self.number());
        let attempts = storage.attempts(study, Some(run))?;
        if attempts.iter().any(|attempt| attempt.end == Some(AttemptEnd::Completed)) {
            // A program that adds to a complete run.
            return Ok(Superseded::default());
        }
        let left_behind = left_behind(&storage.reporters(study, run)?);
        if left_behind.is_empty() {
            return Ok(Superseded::default());
        }
        let mut last: BTreeMap<u64, Metrics> = BTreeMap::new();
        for (metric, step, value) in storage.reports(study, run)? {
            let is_last = |of: &LeftBehind| of.last == Some(step);
            if left_behind.get(&metric).is_some_and(is_last) {
                last.entry(step).or_default().0.insert(metric, value);
            }
        }
        let reports = left_behind.into_iter().map(|(metric, of)| (metric, of.steps)).collect();
        Ok(Superseded { reports, last })
    }

    /// The best value of the study's metric on another axis than the study's, such as `epoch`: the
    /// first that the metric is on.
    fn best_logged(&self, storage: &dyn Storage) -> Result<Option<f64>, StorageError> {
        let (study, run) = (self.study.id, self.number());
        let Objective { metric, direction, .. } = self.study.spec.objective();
        let series = storage.series(study, &[run])?.into_iter();
        let axis = series.filter(|one| one.metric == *metric).map(|one| one.axis).min();
        let Some(axis) = axis else { return Ok(None) };
        let points = storage.series_points(study, run, metric, axis, f64::MIN..=f64::MAX)?;
        let values = points.into_iter().map(|point| point.value);
        Ok(values.min_by_key(|value| Score::new(*direction, *value)))
    }
}

/// What an attempt's results depend on, the spool that it is read from, and when its program began:
/// by the program's clock, and by the run's.
type Origins = (Option<Box<Provenance>>, Option<(String, u64)>, Option<(Timestamp, Timestamp)>);

/// What a complete run does not count of its incomplete attempts.
#[derive(Debug, Default)]
struct Superseded {
    /// As in [`AttemptEvent::Ended`].
    reports: BTreeMap<String, Vec<u64>>,
    /// Reports of metrics whose last values are superseded: they become the last ones.
    last: BTreeMap<u64, Metrics>,
}

/// The reports of a metric that do not count.
#[derive(Debug, PartialEq, Eq)]
struct LeftBehind {
    /// Their steps, ascending; empty: all.
    steps: Vec<u64>,
    /// The step of the last report that counts, if the last one that was made does not.
    last: Option<u64>,
}

/// By metric, the reports of these (metric, step and attempt) that follow one of a later attempt.
/// If that is the first of all, the attempt started over, and those of its step do not count
/// either.
fn left_behind(reporters: &[(String, u64, AttemptNumber)]) -> BTreeMap<String, LeftBehind> {
    let mut latest: BTreeMap<u64, AttemptNumber> = BTreeMap::new();
    for (_, step, attempt) in reporters {
        let at_step = latest.entry(*step).or_insert(*attempt);
        *at_step = (*at_step).max(*attempt);
    }
    let first = latest.first_key_value().map(|(step, _)| *step);
    let mut before = AttemptNumber(0);
    // The latest attempt whose reports are before each step.
    for (step, at_step) in &mut latest {
        let own = before.max(*at_step);
        if Some(*step) != first {
            *at_step = before;
        }
        before = own;
    }
    let mut metrics: BTreeMap<&String, Vec<(u64, AttemptNumber)>> = BTreeMap::new();
    for (metric, step, attempt) in reporters {
        metrics.entry(metric).or_default().push((*step, *attempt));
    }
    let of_metric = |(metric, reports): (&String, Vec<(u64, AttemptNumber)>)| {
        let is_left = |(step, attempt): &&(u64, AttemptNumber)| *attempt < latest[step];
        let mut steps: Vec<u64> = reports.iter().filter(is_left).map(|(step, _)| *step).collect();
        if steps.is_empty() {
            return None;
        }
        let kept = reports.iter().filter(|report| !is_left(report)).max_by_key(|(step, _)| *step);
        let made = reports.iter().max_by_key(|(step, attempt)| (*attempt, *step));
        let last = kept.filter(|_| made.is_some_and(|made| is_left(&made)));
        if kept.is_none() {
            steps.clear();
        }
        Some((metric.clone(), LeftBehind { steps, last: last.map(|(step, _)| *step) }))
    };
    metrics.into_iter().filter_map(of_metric).collect()
}

/// An error if a new run cannot have this name or one of these tags.
///
/// # Errors
/// The first of them.
pub fn check_new(name: Option<&str>, tags: &[String]) -> Result<(), TrackingError> {
    if let Some(name) = name.filter(|name| !is_run_name(name)) {
        return Err(TrackingError::RunName { name: name.to_owned() });
    }
    match tags.iter().find(|tag| !is_tag(tag)) {
        Some(tag) => Err(TrackingError::Tag { tag: tag.clone() }),
        None => Ok(()),
    }
}

/// The events of a run's end, `ran` microseconds after its attempt began, with its value.
pub(super) fn ending(fence: &RunFence, end: &RunEnd, value: Option<f64>, ran: i64) -> Vec<Event> {
    let (end, why, last) = match end {
        RunEnd::Completed => {
            let reason = value
                .is_some_and(f64::is_nan)
                .then(|| "its value is NaN: it cannot be the best".to_owned());
            let state = TrialState::Complete;
            (AttemptEnd::Completed, None, TrialEvent::finished(state, value, reason))
        }
        RunEnd::Failed { cause, reason } => {
            let finished = TrialEvent::finished(TrialState::Failed, None, Some(reason.clone()));
            (AttemptEnd::Failed(*cause), Some(reason.clone()), finished)
        }
        RunEnd::Interrupted { by } => {
            let reason = format!("interrupted {by}");
            let paused =
                TrialEvent::State(StateEvent::Paused { reason: reason.clone(), hold: None });
            (AttemptEnd::Interrupted, Some(reason), paused)
        }
    };
    let reason = why.clone().unwrap_or_else(|| "its run is complete".to_owned());
    let ended = TrialEvent::Attempt(AttemptEvent::Ended {
        attempt: fence.attempt,
        end,
        reason: why,
        device_micros: Some(ran),
        memory: None,
        superseded: Default::default(),
    });
    vec![
        Event::Trial(fence.trial, ended),
        Event::Trial(fence.trial, last),
        Event::Runner(RunnerEvent::Stopped {
            reason,
            ran_micros: ran,
            heard: None,
            device_micros: 0,
            runner: Some(fence.runner),
        }),
    ]
}

#[cfg(test)]
mod tests;
