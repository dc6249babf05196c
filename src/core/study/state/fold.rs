//! Applies the events of a journal to the state of a study.

use std::collections::BTreeMap;
use std::path::Path;

use super::{StudyState, place_of};
use crate::study::checkpoint::Checkpoint;
use crate::study::event::{
    AttemptEnd, AttemptEvent, CheckpointEvent, DecisionEvent, DeviceEvent, EntryEvent, Event,
    ProposalEvent, RecordEvent, RunnerEvent, StateEvent, StudyEvent, TrialEvent,
};
use crate::study::finalists::Race;
use crate::study::metric::Metrics;
use crate::study::params::Params;
use crate::study::segment::Segment;
use crate::study::spec::Objective;
use crate::study::step::StepUnit;
use crate::study::time::Timestamp;
use crate::study::trial::{
    DecisionAtStep, EndedTrial, Note, Origin, Trial, TrialNumber, TrialState,
};

impl StudyState {
    /// Adds placeholders for the trials before `number`: for a partial fold that does not need
    /// them.
    pub fn stand_in_before(&mut self, number: TrialNumber, at: Timestamp) {
        for earlier in self.trials.len() as u64..number.0 {
            self.create(at, TrialNumber(earlier), Params::new(), Origin::Asked);
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
            Event::Trial(
                trial,
                TrialEvent::Proposal(ProposalEvent::TrialCreated { params, origin, .. }),
            ) => self.create(at, *trial, params.clone(), origin.clone()),
            Event::Trial(trial, event) => self.apply_to_trial(at, *trial, event),
        }
    }

    fn create(&mut self, at: Timestamp, number: TrialNumber, params: Params, origin: Origin) {
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
            TrialEvent::Proposal(_) => {}
            TrialEvent::Attempt(event) => self.apply_to_attempt(at, place, event),
            TrialEvent::Checkpoint(event) => self.apply_to_checkpoint(place, event),
            TrialEvent::Decision(event) => {
                decide(trial, event);
                // Its winner may violate the limits now.
                if let (DecisionEvent::LimitsJudged { .. }, Some(race)) = (event, &mut self.race) {
                    race.void = true;
                }
            }
            TrialEvent::State(StateEvent::Removed { .. }) => {
                self.paths.forget(number);
                *self.counts.of(before) -= 1;
                self.trials.remove(place);
                return;
            }
            TrialEvent::State(event) => change_state(trial, at, self.step_unit, event),
            TrialEvent::Record(event) => record(trial, event),
            TrialEvent::Entry(EntryEvent::Noted { text }) => {
                trial.notes.push(Note { at, text: text.clone() })
            }
            TrialEvent::Entry(EntryEvent::Tagged { tag, present }) => {
                set_tag(&mut trial.tags, tag, *present)
            }
        }
        let trial = &self.trials[place];
        let after = trial.state;
        if trial.origin.is_race() {
            *self.race_counts.of(before) -= 1;
            *self.race_counts.of(after) += 1;
        }
        *self.counts.of(before) -= 1;
        *self.counts.of(after) += 1;
    }

    fn apply_to_attempt(&mut self, at: Timestamp, place: usize, event: &AttemptEvent) {
        let trial = &mut self.trials[place];
        match event {
            AttemptEvent::Started { attempt, slot, until, device_micros, .. } => {
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
            AttemptEvent::Reported { step, metrics, late, .. } => {
                let first = self.objectives.first();
                if let Some(value) = first.and_then(|objective| metrics.get(&objective.metric)) {
                    insert_report(&mut trial.curve, *step, value);
                }
                if self.objectives.len() > 1 {
                    insert_vector(&mut trial.vectors, *step, &self.objectives, metrics);
                }
                self.last_metrics.report(&mut trial.last_metrics, metrics, late);
            }
            AttemptEvent::Ended { end, device_micros, superseded, .. } => {
                supersede(trial, &self.objectives, superseded);
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
            AttemptEvent::Launched { .. } | AttemptEvent::Remarked { .. } => {}
        }
    }

    fn apply_to_checkpoint(&mut self, place: usize, event: &CheckpointEvent) {
        let trial = &mut self.trials[place];
        match event {
            CheckpointEvent::Saved { step, path, bytes, digest, .. } => {
                self.paths.take_out(trial, path);
                forget_before(trial, path);
                let (path, digest) = (path.clone(), digest.clone());
                self.paths.put_in(trial, Checkpoint { step: *step, path, bytes: *bytes, digest });
            }
            CheckpointEvent::Dropped { path, .. } => {
                self.paths.take_out(trial, path);
                forget_before(trial, path);
            }
        }
    }
}

fn decide(trial: &mut Trial, event: &DecisionEvent) {
    match event {
        DecisionEvent::Decided { step, verdict, .. } => {
            trial.decisions.retain(|decision| decision.step != *step);
            if let Some(until) = verdict.moved_pause() {
                trial.until = until;
            }
            let position = trial.decisions.partition_point(|decision| decision.step < *step);
            trial
                .decisions
                .insert(position, DecisionAtStep { step: *step, verdict: verdict.clone() });
        }
        DecisionEvent::LimitsBroken { violation, .. } => trial.violation = Some(*violation),
        DecisionEvent::LimitsJudged { violation, reason } => {
            trial.violation = *violation;
            trial.reason.clone_from(reason);
        }
        DecisionEvent::ResultsKnown => {}
    }
}

fn change_state(trial: &mut Trial, at: Timestamp, step_unit: StepUnit, event: &StateEvent) {
    match event {
        StateEvent::Queued { until, reason, .. } => {
            trial.state = TrialState::Queued;
            trial.until = *until;
            trial.hold = None;
            trial.reason = Some(reason.clone());
            unfinish(trial);
        }
        StateEvent::Cloned { from, step, digest, params, replaced, until, reason } => {
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
        StateEvent::Paused { reason, hold, .. } => {
            trial.state = TrialState::Paused;
            trial.hold = *hold;
            trial.reason = Some(reason.clone());
            unfinish(trial);
        }
        StateEvent::Held { hold, .. } => trial.hold = *hold,
        StateEvent::Hidden => trial.hidden = true,
        StateEvent::Continued { until, from, .. } => {
            trial.state = TrialState::Queued;
            trial.until = Some(*until);
            trial.hold = None;
            trial.continued = Some(*from);
            trial.before = Some(Box::new(as_it_ended(trial, *from)));
            trial.reason = Some(continues(step_unit, *until));
            unfinish(trial);
        }
        StateEvent::Restored => {
            if let Some(before) = trial.before.take() {
                trial.curve = before.curve;
                trial.vectors = before.vectors;
                trial.last_metrics = before.last_metrics;
            }
        }
        StateEvent::Finished { state, value, values, reason } => {
            trial.state = *state;
            trial.value = *value;
            trial.values.clone_from(values);
            trial.hold = None;
            trial.continued = None;
            trial.before = None;
            trial.reason.clone_from(reason);
            trial.finished = Some(at);
        }
        // Its row is removed, by `apply_to_trial`.
        StateEvent::Removed { .. } => {}
    }
}

fn record(trial: &mut Trial, event: &RecordEvent) {
    match event {
        RecordEvent::ParamsRecorded { params } => {
            for (name, value) in params.iter() {
                trial.params.insert(name, value.clone());
            }
        }
        RecordEvent::ParamsDropped { names } => {
            for name in names {
                trial.params.remove(name);
            }
        }
        RecordEvent::SummaryRecorded { .. }
        | RecordEvent::ArtifactSaved { .. }
        | RecordEvent::SpoolRead { .. } => {}
    }
}

/// What a trial is that continues past its end.
fn as_it_ended(trial: &Trial, state: TrialState) -> EndedTrial {
    EndedTrial {
        state,
        value: trial.value,
        values: trial.values.clone(),
        curve: trial.curve.clone(),
        vectors: trial.vectors.clone(),
        last_metrics: trial.last_metrics.clone(),
        checkpoints: trial.checkpoints.iter().map(|saved| saved.path.clone()).collect(),
    }
}

/// A checkpoint from before a trial continued is gone, or was written again.
fn forget_before(trial: &mut Trial, path: &Path) {
    if let Some(before) = &mut trial.before {
        before.checkpoints.retain(|known| known != path);
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
pub fn continues(step_unit: StepUnit, until: u64) -> String {
    format!("continues to {} {until}", step_unit.as_str())
}

fn set_tag(tags: &mut Vec<String>, tag: &str, present: bool) {
    match (tags.binary_search_by(|known| known.as_str().cmp(tag)), present) {
        (Err(place), true) => tags.insert(place, tag.to_owned()),
        (Ok(place), false) => drop(tags.remove(place)),
        _ => {}
    }
}

fn insert_report(curve: &mut Vec<(u64, f64)>, step: u64, value: f64) {
    match curve.binary_search_by_key(&step, |(at, _)| *at) {
        Ok(index) => curve[index].1 = value,
        Err(index) => curve.insert(index, (step, value)),
    }
}

/// Removes what no longer counts of a trial's earlier attempts, as
/// [`AttemptEvent::Ended`] has it.
pub fn supersede(
    trial: &mut Trial,
    objectives: &[Objective],
    superseded: &BTreeMap<String, Vec<u64>>,
) {
    for (metric, steps) in superseded {
        if steps.is_empty() {
            trial.last_metrics.0.remove(metric);
        } else {
            drop_reports(trial, objectives, metric, steps);
        }
    }
}

/// Removes what a trial reported of an objective at these steps, which ascend.
fn drop_reports(trial: &mut Trial, objectives: &[Objective], metric: &str, steps: &[u64]) {
    let Some(index) = objectives.iter().position(|one| one.metric == metric) else { return };
    let is_dropped = |step: &u64| steps.binary_search(step).is_ok();
    if index == 0 {
        trial.curve.retain(|(step, _)| !is_dropped(step));
    }
    for (_, values) in trial.vectors.iter_mut().filter(|(step, _)| is_dropped(step)) {
        values[index] = None;
    }
    trial.vectors.retain(|(_, values)| values.iter().any(Option::is_some));
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
