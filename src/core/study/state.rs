//! The state of a study: the fold of its journal.

mod changes;

pub use changes::{Changes, Mark};

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::study::budget::Extension;
use crate::study::checkpoint::Checkpoint;
use crate::study::configuration::{self, Run};
use crate::study::constraint::{self, Constraint};
use crate::study::device::Device;
use crate::study::event::{AttemptEnd, DeviceEvent, Event, RunnerEvent, StudyEvent, TrialEvent};
use crate::study::finalists::Race;
use crate::study::front::{self, Front};
use crate::study::metric::{Direction, Metrics, Score};
use crate::study::params::Params;
use crate::study::segment::Segment;
use crate::study::spec::{Objective, StudySpec, ValueRule};
use crate::study::statistics::Statistics;
use crate::study::step::StepUnit;
use crate::study::time::Timestamp;
use crate::study::trial::{DecisionAtStep, Note, Trial, TrialNumber, TrialState};

/// Number of trials by state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Queued.
    pub queued: u64,
    /// Running.
    pub running: u64,
    /// Paused.
    pub paused: u64,
    /// Complete.
    pub complete: u64,
    /// Pruned.
    pub pruned: u64,
    /// Failed.
    pub failed: u64,
}

impl Counts {
    /// The count of `state`, mutable.
    pub fn of(&mut self, state: TrialState) -> &mut u64 {
        match state {
            TrialState::Queued => &mut self.queued,
            TrialState::Running => &mut self.running,
            TrialState::Paused => &mut self.paused,
            TrialState::Complete => &mut self.complete,
            TrialState::Pruned => &mut self.pruned,
            TrialState::Failed => &mut self.failed,
        }
    }

    /// The difference; `others` must be a subset.
    #[must_use]
    pub fn without(self, others: Counts) -> Counts {
        Counts {
            queued: self.queued - others.queued,
            running: self.running - others.running,
            paused: self.paused - others.paused,
            complete: self.complete - others.complete,
            pruned: self.pruned - others.pruned,
            failed: self.failed - others.failed,
        }
    }

    /// Whether trials failed and none was complete or pruned.
    pub fn only_fail(&self) -> bool {
        self.failed > 0 && self.complete + self.pruned + self.paused == 0
    }

    /// All trials.
    pub fn total(&self) -> u64 {
        self.queued + self.running + self.paused + self.complete + self.pruned + self.failed
    }
}

/// The result of a trial: its value, or its values if the study has several objectives.
pub type TrialResult = (Option<f64>, Vec<f64>);

/// The folded state of a study.
#[derive(Clone, Debug, PartialEq)]
pub struct StudyState {
    objectives: Vec<Objective>,
    clock: StepUnit,
    directions: Vec<Direction>,
    rule: ValueRule,
    constraints: Vec<Constraint>,
    replicates: u32,
    /// By number; without gaps, unless tracked runs were removed.
    pub trials: Vec<Trial>,
    /// Number of trials by state.
    pub counts: Counts,
    /// Why the study is over, if it is.
    pub finished: Option<String>,
    /// Why nothing starts, if its user paused it.
    pub paused: Option<String>,
    /// The last race of its finalists.
    pub race: Option<Race>,
    /// How many of the trials belong to races.
    pub race_counts: Counts,
    /// How many of the trials are further runs of a configuration: replicates, repeats, and those
    /// of races.
    pub further_runs: u64,
    /// Devices that its user paused.
    pub paused_devices: BTreeSet<Device>,
    /// What was added to the study file's budget.
    pub extension: Extension,
    /// Its user's notes on the study, in order.
    pub notes: Vec<Note>,
    /// Its user's tags of the study, sorted; excludes the study file's.
    pub tags: Vec<String>,
    /// Microseconds of all runners so far, excluding the present one.
    pub ran_micros: i64,
    /// Microseconds of device time accounted for at the starts and ends of attempts.
    pub busy_micros: i64,
    /// The last sign of life of the last runner, if it was killed: its attempts ended then.
    pub killed_at: Option<Timestamp>,
    changes: Changes,
    paths: CheckpointPaths,
}

impl StudyState {
    /// A study without trials.
    pub fn new(spec: &StudySpec) -> Self {
        StudyState {
            objectives: spec.objectives.clone(),
            clock: spec.step,
            directions: spec.objectives.iter().map(|objective| objective.direction).collect(),
            rule: spec.value,
            constraints: spec.constraints.clone(),
            replicates: spec.replicates,
            trials: Vec::new(),
            counts: Counts::default(),
            finished: None,
            paused: None,
            race: None,
            race_counts: Counts::default(),
            further_runs: 0,
            paused_devices: BTreeSet::new(),
            extension: Extension::default(),
            notes: Vec::new(),
            tags: Vec::new(),
            ran_micros: 0,
            busy_micros: 0,
            killed_at: None,
            changes: Changes::default(),
            paths: CheckpointPaths::default(),
        }
    }

    /// Which trials changed recently.
    pub fn changes(&self) -> &Changes {
        &self.changes
    }

    /// The study's clock.
    pub fn clock(&self) -> StepUnit {
        self.clock
    }

    /// The direction of the study's first objective.
    pub fn direction(&self) -> Direction {
        self.directions.first().copied().unwrap_or(Direction::Minimize)
    }

    /// The study's objectives.
    pub fn objectives(&self) -> &[Objective] {
        &self.objectives
    }

    /// The directions of the study's objectives.
    pub fn directions(&self) -> &[Direction] {
        &self.directions
    }

    /// Whether the study has several objectives.
    pub fn has_several_objectives(&self) -> bool {
        self.directions.len() > 1
    }

    /// The trial with this number.
    pub fn trial(&self, number: TrialNumber) -> Option<&Trial> {
        self.trials.get(place_of(&self.trials, number)?)
    }

    /// For a trial that took over another's checkpoint and has none of its own since: the other
    /// trial, and that checkpoint. The digest tells it from a later one of the same step.
    pub fn donor_checkpoint(&self, trial: &Trial) -> Option<(TrialNumber, &Checkpoint)> {
        let segment = trial.pending_segment()?;
        let donor = self.trial(segment.from)?;
        let is_it = |saved: &&Checkpoint| {
            saved.step == segment.start
                && (segment.digest.is_none() || saved.digest == segment.digest)
        };
        Some((donor.number, donor.checkpoints.iter().rfind(is_it)?))
    }

    /// The checkpoints from which other trials continue: of each the trial, and the path.
    pub fn donated(&self) -> BTreeSet<(TrialNumber, &Path)> {
        let is_open = |trial: &&Trial| !trial.state.is_finished();
        let donated = self.trials.iter().filter(is_open).filter_map(|trial| {
            let (donor, saved) = self.donor_checkpoint(trial)?;
            Some((donor, saved.path.as_path()))
        });
        donated.collect()
    }

    /// The winner of the race, or else the best complete trial that is feasible and visible; ties
    /// go to the first. NaN is never best. Configurations with several runs count by their mean,
    /// once all their runs have ended. With several objectives, the knee of the front.
    pub fn best(&self) -> Option<&Trial> {
        if self.has_several_objectives() {
            return self.trial(front::knee(&self.objectives, &front::points(&self.trials))?);
        }
        if let Some(winner) = self.race.as_ref().and_then(Race::winner) {
            return self.trial(winner.trial);
        }
        if self.has_several_runs() {
            let (number, _) = self.ranked_configurations().into_iter().next()?;
            return self.trial(number);
        }
        let is_sound = |trial: &&Trial| {
            trial.violation.is_none()
                && !trial.hidden
                && trial.value.is_some_and(|value| !value.is_nan())
        };
        let complete =
            self.trials.iter().filter(|trial| trial.state == TrialState::Complete).filter(is_sound);
        complete.min_by_key(|trial| Score::new(self.direction(), trial.value.unwrap_or(f64::NAN)))
    }

    /// The best trial for display, with its value: a complete one that continues past its end keeps
    /// its rank, with its value so far. `None` with several objectives, which have a front.
    pub fn leader(&self) -> Option<(TrialNumber, f64)> {
        if self.has_several_objectives() {
            return None;
        }
        let best = self.best().and_then(|best| Some((best.number, self.best_value()?)));
        if self.race.as_ref().is_some_and(|race| race.winner().is_some()) || self.has_several_runs()
        {
            return best;
        }
        let further =
            self.trials.iter().filter_map(|trial| Some((trial.number, self.value_so_far(trial)?)));
        best.into_iter()
            .chain(further)
            .min_by_key(|(number, value)| (Score::new(self.direction(), *value), *number))
    }

    /// The front of a study of several objectives.
    pub fn front(&self) -> Front {
        Front::of(&self.objectives, &front::points(&self.trials))
    }

    /// The values of a trial of several objectives, if it ended now: the last known ones. `None` if
    /// one of them was never reported.
    pub fn values_of(&self, trial: &Trial) -> Option<Vec<f64>> {
        let (step, _) = trial.vectors.last()?;
        trial.values_at(*step).into_iter().collect()
    }

    /// The value or values of a trial if it ended now; none if it lacks one.
    pub fn result_of(&self, trial: &Trial) -> TrialResult {
        match self.has_several_objectives() {
            true => (None, self.values_of(trial).unwrap_or_default()),
            false => (self.value_of(trial), Vec::new()),
        }
    }

    /// The value so far of a complete trial that continues past its end, if it can be the best.
    fn value_so_far(&self, trial: &Trial) -> Option<f64> {
        value_so_far(self.rule, self.direction(), &self.constraints, trial)
    }

    /// Whether configurations are compared by the means of several runs.
    pub fn has_several_runs(&self) -> bool {
        self.replicates > 1
            || self.trials.iter().any(|trial| trial.origin.configuration().is_some())
    }

    /// The fully measured configurations, best first: the first complete trial of each, and the
    /// statistics of its runs in the search.
    pub fn ranked_configurations(&self) -> Vec<(TrialNumber, Statistics)> {
        configuration::ranked(self.trials.iter().map(Run::from), self.direction(), self.replicates)
    }

    /// The value of [`StudyState::best`]: the mean of several runs.
    pub fn best_value(&self) -> Option<f64> {
        if let Some(winner) = self.race.as_ref().and_then(Race::winner) {
            return Some(winner.statistics.mean);
        }
        if self.has_several_runs() {
            return self.ranked_configurations().first().map(|(_, statistics)| statistics.mean);
        }
        self.best().and_then(|best| best.value)
    }

    /// A trial's value (if it ended now) by the study's rule; `None` without a report.
    pub fn value_of(&self, trial: &Trial) -> Option<f64> {
        match self.rule {
            ValueRule::Last => trial.last().map(|(_, value)| value),
            ValueRule::Best => trial
                .curve
                .iter()
                .map(|(_, value)| *value)
                .min_by_key(|value| Score::new(self.direction(), *value)),
        }
    }

    /// The step of the report that determines the trial's value.
    pub fn value_step(&self, trial: &Trial) -> Option<u64> {
        value_step(self.rule, self.direction(), trial)
    }

    /// Adds placeholders for the trials before `number`: for a partial fold that does not need
    /// them.
    pub fn stand_in_before(&mut self, number: TrialNumber, at: Timestamp) {
        for earlier in self.trials.len() as u64..number.0 {
            self.create(
                at,
                TrialNumber(earlier),
                crate::study::params::Params::new(),
                crate::study::trial::Origin::Asked,
            );
        }
    }

    /// Applies an event. Events about unknown trials are ignored, so that a part of a journal can
    /// be folded.
    pub fn apply(&mut self, at: Timestamp, event: &Event) {
        match event {
            Event::Runner(RunnerEvent::Started { .. } | RunnerEvent::Described { .. }) => {}
            Event::Runner(RunnerEvent::Stopped { ran_micros, heard, device_micros, .. }) => {
                self.ran_micros += ran_micros;
                self.busy_micros += device_micros;
                self.killed_at = *heard;
            }
            Event::Study(event) => match event {
                StudyEvent::Finished { reason, .. } => self.finished = Some(reason.clone()),
                StudyEvent::Reopened { .. } => self.finished = None,
                StudyEvent::Paused { reason } => self.paused = Some(reason.clone()),
                StudyEvent::Resumed { .. } => self.paused = None,
                StudyEvent::BudgetExtended { by } => self.extension = self.extension.and(*by),
                StudyEvent::Noted { text } => self.notes.push(Note { at, text: text.clone() }),
                StudyEvent::Tagged { tag, present } => set_tag(&mut self.tags, tag, *present),
                StudyEvent::RequestServed { .. } | StudyEvent::DiskExceeded { .. } => {}
            },
            Event::Finalists(event) => Race::apply(&mut self.race, event),
            Event::Device(event) => match event {
                DeviceEvent::Paused { device } => {
                    self.paused_devices.insert(device.clone());
                }
                DeviceEvent::Resumed { device } => {
                    self.paused_devices.remove(device);
                }
                DeviceEvent::SlotsChanged { .. }
                | DeviceEvent::AgentChanged { .. }
                | DeviceEvent::ConcurrencyChanged { .. } => {}
            },
            Event::Trial(trial, TrialEvent::Created { params, origin, .. }) => {
                self.create(at, *trial, params.clone(), origin.clone())
            }
            Event::Trial(trial, event) => self.apply_to_trial(at, *trial, event),
        }
    }

    fn create(
        &mut self,
        at: Timestamp,
        number: TrialNumber,
        params: crate::study::params::Params,
        origin: crate::study::trial::Origin,
    ) {
        let last = self.trials.last().map(|last| last.number);
        debug_assert!(last < Some(number), "trials are created in order");
        self.counts.queued += 1;
        self.changes.note(number);
        self.race_counts.queued += u64::from(origin.is_race());
        self.further_runs += u64::from(origin.configuration().is_some());
        self.trials.push(Trial::new(number, params, origin, at));
    }

    fn apply_to_trial(&mut self, at: Timestamp, number: TrialNumber, event: &TrialEvent) {
        let Some(place) = place_of(&self.trials, number) else { return };
        let trial = &mut self.trials[place];
        let before = trial.state;
        self.changes.note(trial.number);
        match event {
            TrialEvent::AttemptStarted { attempt, slot, until, device_micros, .. } => {
                self.busy_micros += device_micros;
                trial.state = TrialState::Running;
                trial.attempts = attempt.0.saturating_add(1);
                trial.devices = Some(slot.devices.clone());
                trial.until = *until;
                trial.started = Some(at);
                trial.hold = None;
                trial.reason = None;
                unfinish(trial);
                if let Some(race) = self.race.as_mut().filter(|_| !trial.origin.is_race()) {
                    race.void = true;
                }
            }
            TrialEvent::Reported { step, metrics, .. } => {
                let first = self.objectives.first();
                if let Some(value) = first.and_then(|objective| metrics.get(&objective.metric)) {
                    insert_report(&mut trial.curve, *step, value);
                }
                if self.objectives.len() > 1 {
                    insert_vector(&mut trial.vectors, *step, &self.objectives, metrics);
                }
                trial.last_metrics = metrics.clone();
            }
            TrialEvent::Decided { step, verdict, .. } => {
                trial.decisions.retain(|decision| decision.step != *step);
                let position = trial.decisions.partition_point(|decision| decision.step < *step);
                trial
                    .decisions
                    .insert(position, DecisionAtStep { step: *step, verdict: verdict.clone() });
            }
            TrialEvent::CheckpointSaved { step, path, bytes, digest, .. } => {
                self.paths.take_out(trial, path);
                let (path, digest) = (path.clone(), digest.clone());
                self.paths.put_in(trial, Checkpoint { step: *step, path, bytes: *bytes, digest });
            }
            TrialEvent::CheckpointDropped { path, .. } => self.paths.take_out(trial, path),
            TrialEvent::AttemptEnded { end, device_micros, .. } => {
                if matches!(end, AttemptEnd::Failed(_)) {
                    trial.failures += 1;
                }
                let spent = trial.started.map_or(0, |started| {
                    let ended = end.moment(started, at, self.killed_at);
                    ended.map_or(0, |ended| ended.0.saturating_sub(started.0).max(0))
                });
                trial.busy_micros += spent;
                self.busy_micros += device_micros.unwrap_or(spent);
            }
            TrialEvent::Queued { until, reason, .. } => {
                trial.state = TrialState::Queued;
                trial.until = *until;
                trial.hold = None;
                trial.reason = Some(reason.clone());
                unfinish(trial);
            }
            TrialEvent::Cloned { from, step, digest, params, replaced, until, reason } => {
                trial.state = TrialState::Queued;
                trial.until = *until;
                trial.hold = None;
                trial.reason = Some(reason.to_string());
                trial.params = params.clone();
                trial.segments.push(Segment {
                    start: *step,
                    from: *from,
                    digest: digest.clone(),
                    replaced: replaced.clone(),
                    reason: reason.clone(),
                });
                unfinish(trial);
            }
            TrialEvent::Paused { reason, hold, .. } => {
                trial.state = TrialState::Paused;
                trial.hold = *hold;
                trial.reason = Some(reason.clone());
                unfinish(trial);
            }
            TrialEvent::Held { hold, .. } => trial.hold = *hold,
            TrialEvent::Hidden => trial.hidden = true,
            TrialEvent::LimitsBroken { violation, .. } => trial.violation = Some(*violation),
            TrialEvent::Continued { until, from, .. } => {
                trial.state = TrialState::Queued;
                trial.until = Some(*until);
                trial.hold = None;
                trial.continued = Some(*from);
                trial.reason = Some(continues(self.clock, *until));
                unfinish(trial);
            }
            TrialEvent::Noted { text } => trial.notes.push(Note { at, text: text.clone() }),
            TrialEvent::Tagged { tag, present } => set_tag(&mut trial.tags, tag, *present),
            TrialEvent::Finished { state, value, values, reason } => {
                trial.state = *state;
                trial.value = *value;
                trial.values.clone_from(values);
                trial.hold = None;
                trial.continued = None;
                trial.reason.clone_from(reason);
                trial.finished = Some(at);
            }
            TrialEvent::ParamsRecorded { params } => {
                for (name, value) in params.iter() {
                    trial.params.insert(name, value.clone());
                }
            }
            TrialEvent::ParamsDropped { names } => {
                for name in names {
                    trial.params.remove(name);
                }
            }
            TrialEvent::Removed { .. } => {
                self.paths.0.remove(&number);
                *self.counts.of(before) -= 1;
                self.trials.remove(place);
                return;
            }
            TrialEvent::Created { .. }
            | TrialEvent::SummaryRecorded { .. }
            | TrialEvent::ArtifactSaved { .. }
            | TrialEvent::SpoolRead { .. }
            | TrialEvent::AttemptLaunched { .. }
            | TrialEvent::Remarked { .. }
            | TrialEvent::ResultsKnown
            | TrialEvent::CandidatesOffered { .. }
            | TrialEvent::ConfigurationsSkipped { .. } => return,
        }
        let after = trial.state;
        if trial.origin.is_race() {
            *self.race_counts.of(before) -= 1;
            *self.race_counts.of(after) += 1;
        }
        *self.counts.of(before) -= 1;
        *self.counts.of(after) += 1;
    }
}

/// The index of a trial: its number, unless earlier ones were removed.
fn place_of(trials: &[Trial], number: TrialNumber) -> Option<usize> {
    let place = usize::try_from(number.0).ok()?;
    match trials.get(place) {
        Some(trial) if trial.number == number => Some(place),
        _ => trials.binary_search_by_key(&number, |trial| trial.number).ok(),
    }
}

/// Trials with fewer checkpoints are searched linearly.
const MANY_CHECKPOINTS: usize = 32;

/// For trials with many checkpoints, the step of each by path. An index only: states that differ in
/// it are equal.
#[derive(Clone, Default)]
struct CheckpointPaths(HashMap<TrialNumber, HashMap<PathBuf, u64>>);

impl PartialEq for CheckpointPaths {
    fn eq(&self, _other: &Self) -> bool {
        true
    }
}

impl fmt::Debug for CheckpointPaths {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CheckpointPaths")
    }
}

impl CheckpointPaths {
    /// Removes the checkpoint at `path` from a trial, if present.
    fn take_out(&mut self, trial: &mut Trial, path: &Path) {
        if trial.checkpoints.len() < MANY_CHECKPOINTS {
            self.0.remove(&trial.number);
            return trial.checkpoints.retain(|checkpoint| checkpoint.path != path);
        }
        let Some(step) = self.of(trial).remove(path) else { return };
        let first = trial.checkpoints.partition_point(|checkpoint| checkpoint.step < step);
        if let Some(index) =
            trial.checkpoints[first..].iter().position(|checkpoint| checkpoint.path == path)
        {
            trial.checkpoints.remove(first + index);
        }
    }

    /// Adds a checkpoint with a new path to a trial.
    fn put_in(&mut self, trial: &mut Trial, checkpoint: Checkpoint) {
        if trial.checkpoints.len() >= MANY_CHECKPOINTS {
            self.of(trial).insert(checkpoint.path.clone(), checkpoint.step);
        }
        let position = trial.checkpoints.partition_point(|earlier| earlier.step <= checkpoint.step);
        trial.checkpoints.insert(position, checkpoint);
    }

    fn of(&mut self, trial: &Trial) -> &mut HashMap<PathBuf, u64> {
        let steps = self.0.entry(trial.number).or_default();
        if steps.len() != trial.checkpoints.len() {
            *steps = trial
                .checkpoints
                .iter()
                .map(|checkpoint| (checkpoint.path.clone(), checkpoint.step))
                .collect();
        }
        steps
    }
}

/// A trial that continues has neither a value nor an end.
fn unfinish(trial: &mut Trial) {
    trial.value = None;
    trial.values.clear();
    trial.violation = None;
    trial.finished = None;
    trial.hidden = false;
}

/// Why an ended trial is queued again.
pub fn continues(clock: StepUnit, until: u64) -> String {
    format!("continues to {} {until}", clock.as_str())
}

fn set_tag(tags: &mut Vec<String>, tag: &str, present: bool) {
    match (tags.binary_search_by(|known| known.as_str().cmp(tag)), present) {
        (Err(place), true) => tags.insert(place, tag.to_owned()),
        (Ok(place), false) => drop(tags.remove(place)),
        _ => {}
    }
}

/// The value so far of a complete trial that continues past its end; `None` for other trials, and
/// if it cannot be the best.
pub fn value_so_far(
    rule: ValueRule,
    direction: Direction,
    constraints: &[Constraint],
    trial: &Trial,
) -> Option<f64> {
    if trial.continued != Some(TrialState::Complete)
        || constraint::violation(constraints, &trial.last_metrics).is_some_and(|by| by > 0.0)
    {
        return None;
    }
    let step = value_step(rule, direction, trial)?;
    trial.curve.iter().find(|(at, value)| *at == step && !value.is_nan()).map(|(_, value)| *value)
}

/// The step of the report that determines a trial's value under a rule; `None` without a report.
pub fn value_step(rule: ValueRule, direction: Direction, trial: &Trial) -> Option<u64> {
    match rule {
        ValueRule::Last => trial.last_step(),
        ValueRule::Best => trial
            .curve
            .iter()
            .min_by_key(|(_, value)| Score::new(direction, *value))
            .map(|(step, _)| *step),
    }
}

/// The step of the value that is shown of a trial: that of its value, or of its last report if it
/// has none.
pub fn shown_step(spec: &StudySpec, trial: &Trial) -> Option<u64> {
    let has_value = trial.value.is_some() || !trial.values.is_empty();
    match has_value || trial.continued.is_some() {
        true => value_step(spec.value, spec.direction(), trial),
        false => trial.last_step(),
    }
}

/// The parameters with which the value that is shown of a trial was measured. A member of a
/// population that took over another's checkpoint later has others now.
pub fn shown_params<'a>(spec: &StudySpec, trial: &'a Trial) -> &'a Params {
    replaced_params(spec, trial).unwrap_or(&trial.params)
}

/// The same, if the trial has had others since.
pub fn replaced_params<'a>(spec: &StudySpec, trial: &'a Trial) -> Option<&'a Params> {
    trial.replaced_after(shown_step(spec, trial)?)
}

fn insert_report(curve: &mut Vec<(u64, f64)>, step: u64, value: f64) {
    match curve.binary_search_by_key(&step, |(at, _)| *at) {
        Ok(index) => curve[index].1 = value,
        Err(index) => curve.insert(index, (step, value)),
    }
}

/// Adds what a report says of the objectives.
fn insert_vector(
    vectors: &mut Vec<(u64, Vec<Option<f64>>)>,
    step: u64,
    objectives: &[Objective],
    metrics: &Metrics,
) {
    let reported: Vec<Option<f64>> =
        objectives.iter().map(|objective| metrics.get(&objective.metric)).collect();
    if reported.iter().all(Option::is_none) {
        return;
    }
    match vectors.binary_search_by_key(&step, |(at, _)| *at) {
        Ok(index) => {
            for (known, value) in vectors[index].1.iter_mut().zip(reported) {
                *known = value.or(*known);
            }
        }
        Err(index) => vectors.insert(index, (step, reported)),
    }
}
