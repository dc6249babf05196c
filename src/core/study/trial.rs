//! One evaluation of a configuration: its parameters, state, curve, attempts and end.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::study::checkpoint::Checkpoint;
use crate::study::decision::{Decision, Reason};
use crate::study::device::DeviceGroup;
use crate::study::metric::Metrics;
pub use crate::study::number::{AttemptNumber, TrialNumber};
use crate::study::params::Params;
use crate::study::program::Program;
use crate::study::segment::Segment;
use crate::study::time::Timestamp;
use crate::study::tracked::TrackedRun;

/// The largest accepted step of reports, checkpoints and ends: the largest integer in a store.
pub const LARGEST_STEP: u64 = i64::MAX.unsigned_abs();

/// Parses a step, up to [`LARGEST_STEP`].
pub fn step_of(text: &str) -> Option<u64> {
    text.parse().ok().filter(|step| *step <= LARGEST_STEP)
}

/// The state of a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TrialState {
    /// Waits for a slot (new, or lost and requeued).
    Queued,
    /// Has a slot.
    Running,
    /// Left its slot with a checkpoint; may be resumed.
    Paused,
    /// Ended with a value.
    Complete,
    /// Stopped before its end; never resumed by the search.
    Pruned,
    /// Ended without a value.
    Failed,
}

impl TrialState {
    /// All states, in the order of a trial's life cycle.
    pub const ALL: [TrialState; 6] = [
        TrialState::Queued,
        TrialState::Running,
        TrialState::Paused,
        TrialState::Complete,
        TrialState::Pruned,
        TrialState::Failed,
    ];

    /// The word of the store and of `--json`.
    pub fn as_str(self) -> &'static str {
        match self {
            TrialState::Queued => "queued",
            TrialState::Running => "running",
            TrialState::Paused => "paused",
            TrialState::Complete => "complete",
            TrialState::Pruned => "pruned",
            TrialState::Failed => "failed",
        }
    }

    /// The state with this name.
    pub fn from_word(word: &str) -> Option<TrialState> {
        TrialState::ALL.into_iter().find(|state| state.as_str() == word)
    }

    /// Complete, pruned or failed.
    pub fn is_finished(self) -> bool {
        matches!(self, TrialState::Complete | TrialState::Pruned | TrialState::Failed)
    }
}

/// The origin of a trial's parameters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    /// Drawn by the sampler of this name.
    Sampled(String),
    /// The study's `[[enqueue]]` entry of this index.
    Enqueued(u64),
    /// The user, in an existing study: `hpsearch enqueue`.
    Asked,
    /// A replicate: another run of that completed trial's configuration, on another seed
    /// (`replicates`). Pruners do not judge it.
    Replicate(TrialNumber),
    /// The sampler proposed the configuration of that trial again (`duplicates = "replicate"`).
    Repeat(TrialNumber),
    /// A finalist's configuration in the race at the end. Pruners do not judge it.
    Race {
        /// The trial of the search with that configuration.
        of: TrialNumber,
        /// Index of the race.
        race: u32,
        /// The round: all its runs have the same seed.
        round: u32,
    },
    /// Imported from another tool's search: the tool, its study and the trial's number there.
    Imported(String),
    /// A run without a search (`hpsearch track`).
    Tracked(Box<TrackedRun>),
}

impl Origin {
    /// The trial whose configuration this one runs again.
    pub fn configuration(&self) -> Option<TrialNumber> {
        match self {
            Origin::Replicate(of) | Origin::Repeat(of) | Origin::Race { of, .. } => Some(*of),
            Origin::Sampled(_)
            | Origin::Enqueued(_)
            | Origin::Asked
            | Origin::Imported(_)
            | Origin::Tracked(_) => None,
        }
    }

    /// The identity of a tracked run.
    pub fn tracked(&self) -> Option<&TrackedRun> {
        match self {
            Origin::Tracked(run) => Some(run),
            _ => None,
        }
    }

    /// Whether it belongs to a race.
    pub fn is_race(&self) -> bool {
        matches!(self, Origin::Race { .. })
    }

    /// Whether pruners judge it and use its reports: runs that only measure a configuration run to
    /// their end.
    pub fn is_judged(&self) -> bool {
        !matches!(self, Origin::Replicate(_) | Origin::Race { .. })
    }
}

/// Who paused a trial, if not the pruner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Hold {
    /// Its user paused it, and alone can resume it.
    Trial,
    /// Its user paused the study: it resumes with the study.
    Study,
}

impl Hold {
    /// The word of the store.
    pub fn as_str(self) -> &'static str {
        match self {
            Hold::Trial => "trial",
            Hold::Study => "study",
        }
    }

    /// The hold with this name.
    pub fn from_word(word: &str) -> Option<Hold> {
        [Hold::Trial, Hold::Study].into_iter().find(|hold| hold.as_str() == word)
    }
}

/// A note on a trial or a study.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// When it was written.
    pub at: Timestamp,
    /// The text as written.
    pub text: String,
}

/// A trial as it was when it continued past its end.
#[derive(Clone, Debug, PartialEq)]
pub struct EndedTrial {
    /// Its state.
    pub state: TrialState,
    /// Its value.
    pub value: Option<f64>,
    /// Its values in a study of several objectives.
    pub values: Vec<f64>,
    /// Its reports of the first objective.
    pub curve: Vec<(u64, f64)>,
    /// Its reports of several objectives.
    pub vectors: Vec<(u64, Vec<Option<f64>>)>,
    /// The last values of its metrics.
    pub last_metrics: Metrics,
    /// The paths of its checkpoints, as far as they exist and were not written again.
    pub checkpoints: Vec<PathBuf>,
}

/// A decision with its step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DecisionAtStep {
    /// Step of the report.
    pub step: u64,
    /// The decision and its reason.
    pub verdict: Decision,
}

/// The state of one trial.
#[derive(Clone, Debug, PartialEq)]
pub struct Trial {
    /// Its number.
    pub number: TrialNumber,
    /// Its active parameters.
    pub params: Params,
    /// Where it continued from another trial's checkpoint, ascending: in populations.
    pub segments: Vec<Segment>,
    /// The origin of its first parameters.
    pub origin: Origin,
    /// Its state.
    pub state: TrialState,
    /// Its value: set exactly if complete in a study of one objective. NaN is a value.
    pub value: Option<f64>,
    /// Its values in a study of several objectives, in their order: set exactly if complete.
    pub values: Vec<f64>,
    /// By how much it violates the study's limits; `None` if feasible. An infeasible trial is never
    /// the best.
    pub violation: Option<f64>,
    /// The metric of the study's first objective by step, ascending; a rerun's report replaces that
    /// of the same step.
    pub curve: Vec<(u64, f64)>,
    /// In a study of several objectives: what was reported of each by step, ascending; `None`: not
    /// at that step. See [`Trial::values_at`].
    pub vectors: Vec<(u64, Vec<Option<f64>>)>,
    /// The last values of its metrics, by the rule of its study
    /// ([`LastMetrics`](crate::study::metric::LastMetrics)).
    pub last_metrics: Metrics,
    /// Decisions by step (a plain `continue` is not recorded).
    pub decisions: Vec<DecisionAtStep>,
    /// Existing checkpoints, by step.
    pub checkpoints: Vec<Checkpoint>,
    /// Number of attempts.
    pub attempts: u32,
    /// Number of failed attempts.
    pub failures: u32,
    /// Devices of the last attempt.
    pub devices: Option<DeviceGroup>,
    /// Step at which it pauses, if it was resumed up to a rung.
    pub until: Option<u64>,
    /// Who paused it, if not the pruner. Set on a running trial that is about to pause.
    pub hold: Option<Hold>,
    /// Its state before it continued past its end; `None` once it has ended again.
    pub continued: Option<TrialState>,
    /// What it was then, which it is again if it fails.
    pub before: Option<Box<EndedTrial>>,
    /// Whether its user hid it, which excludes it from the best.
    pub hidden: bool,
    /// Its user's notes, in order.
    pub notes: Vec<Note>,
    /// Its user's tags, sorted.
    pub tags: Vec<String>,
    /// The reason for its state, one sentence.
    pub reason: Option<String>,
    /// When it was created.
    pub created: Timestamp,
    /// When its current or last attempt began.
    pub started: Option<Timestamp>,
    /// When it finished.
    pub finished: Option<Timestamp>,
    /// Microseconds spent in ended attempts.
    pub busy_micros: i64,
}

impl Trial {
    /// A new, queued trial.
    pub fn new(number: TrialNumber, params: Params, origin: Origin, created: Timestamp) -> Self {
        Trial {
            number,
            params,
            segments: Vec::new(),
            origin,
            state: TrialState::Queued,
            value: None,
            values: Vec::new(),
            violation: None,
            curve: Vec::new(),
            vectors: Vec::new(),
            last_metrics: Default::default(),
            decisions: Vec::new(),
            checkpoints: Vec::new(),
            attempts: 0,
            failures: 0,
            devices: None,
            until: None,
            hold: None,
            continued: None,
            before: None,
            hidden: false,
            notes: Vec::new(),
            tags: Vec::new(),
            reason: None,
            created,
            started: None,
            finished: None,
            busy_micros: 0,
        }
    }

    /// Whether it is pruned or paused by a pruner, so that its reports are all that is known of it.
    pub fn rests(&self) -> bool {
        self.state == TrialState::Pruned
            || self.state == TrialState::Paused
                && !(self.curve.is_empty() && self.vectors.is_empty())
    }

    /// The time spent on it, a running attempt included; `None` before it began.
    pub fn time_spent(&self, now: Timestamp) -> Option<Duration> {
        let running = self.started.filter(|_| self.state == TrialState::Running);
        let running = running.map_or(Duration::ZERO, |started| now.since(started));
        let ended = Duration::from_micros(u64::try_from(self.busy_micros).unwrap_or(0));
        (self.attempts > 0).then(|| ended + running)
    }

    /// The last report of the study's metric.
    pub fn last(&self) -> Option<(u64, f64)> {
        self.curve.last().copied()
    }

    /// The step of the last report of any objective before `step`.
    pub fn last_step_before(&self, step: u64) -> Option<u64> {
        let curve = self.curve.partition_point(|(at, _)| *at < step).checked_sub(1);
        let vectors = self.vectors.partition_point(|(at, _)| *at < step).checked_sub(1);
        curve.map(|index| self.curve[index].0).max(vectors.map(|index| self.vectors[index].0))
    }

    /// The step of the last report of an objective.
    pub fn last_step(&self) -> Option<u64> {
        let of_vectors = self.vectors.last().map(|(step, _)| *step);
        self.curve.last().map(|(step, _)| *step).max(of_vectors)
    }

    /// Whether it reported an objective at exactly this step.
    pub fn has_reported(&self, step: u64) -> bool {
        self.curve.binary_search_by_key(&step, |(at, _)| *at).is_ok()
            || self.vectors.binary_search_by_key(&step, |(at, _)| *at).is_ok()
    }

    /// What it reported of the objectives, by step and place.
    pub fn reports_of_objectives(&self) -> BTreeMap<(u64, usize), f64> {
        let of_several = self.vectors.iter().flat_map(|(step, values)| {
            let known = values.iter().enumerate();
            known.filter_map(|(index, value)| Some(((*step, index), (*value)?)))
        });
        let of_first = self.curve.iter().map(|(step, value)| ((*step, 0), *value));
        of_first.chain(of_several).collect()
    }

    /// In a study of several objectives, its values, or those known so far of one that is not
    /// complete. Empty before the first report.
    pub fn known_values(&self) -> Vec<Option<f64>> {
        if !self.values.is_empty() {
            return self.values.iter().copied().map(Some).collect();
        }
        self.vectors.last().map(|(step, _)| self.values_at(*step)).unwrap_or_default()
    }

    /// In a study of several objectives, the values known at a step: the last reported ones up to
    /// it. Empty before the first report.
    pub fn values_at(&self, step: u64) -> Vec<Option<f64>> {
        let end = self.vectors.partition_point(|(at, _)| *at <= step);
        let reported = self.vectors.get(..end).unwrap_or_default();
        let objectives = reported.last().map_or(0, |(_, values)| values.len());
        let newest = |objective: usize| {
            reported.iter().rev().find_map(|(_, values)| values.get(objective).copied().flatten())
        };
        (0..objectives).map(newest).collect()
    }

    /// The parameters in force at a step: until it took over another trial's checkpoint, at that
    /// step or later, those of the segment before.
    pub fn params_at(&self, step: u64) -> &Params {
        self.replaced_after(step).unwrap_or(&self.params)
    }

    /// The same, if it has had others since.
    pub fn replaced_after(&self, step: u64) -> Option<&Params> {
        let count = self.segments.partition_point(|segment| segment.start < step);
        self.segments.get(count).map(|after| &after.replaced)
    }

    /// The checkpoint to continue from: the newest whose step was reported. A checkpoint saved just
    /// before a report that was lost with the runner would leave that report missing for good.
    pub fn resumable_checkpoint(&self) -> Option<&Checkpoint> {
        self.checkpoints.get(self.resumable_index()?)
    }

    /// Its index. Checkpoints before the last segment are of a path that the trial has left.
    pub fn resumable_index(&self) -> Option<usize> {
        let reported = self.last_step().unwrap_or(0);
        let left = self.segments.last().map(|segment| segment.start);
        self.checkpoints.iter().rposition(|checkpoint| {
            checkpoint.step <= reported && left.is_none_or(|left| checkpoint.step > left)
        })
    }

    /// The step at which it was last ready to be decided about as a member of a population, if that
    /// state is of its present path.
    pub fn last_ready(&self) -> Option<u64> {
        let is_ready = |decision: &&DecisionAtStep| {
            matches!(decision.verdict, Decision::Pause(Reason::Ready { .. }))
        };
        let ready = self.decisions.iter().rfind(is_ready)?.step;
        let left = self.segments.last().map(|segment| segment.start);
        left.is_none_or(|left| ready > left).then_some(ready)
    }

    /// Index of the checkpoint of that step, which other members of its population may take over.
    /// The first one: one saved between this step and the next, when it was interrupted, has the
    /// same step and a later state.
    pub fn offered_index(&self) -> Option<usize> {
        let ready = self.last_ready()?;
        self.checkpoints.iter().position(|checkpoint| checkpoint.step == ready)
    }

    /// The last segment, if the trial has no checkpoint of it yet, and continues from another's.
    pub fn pending_segment(&self) -> Option<&Segment> {
        self.segments.last().filter(|_| self.resumable_index().is_none())
    }

    /// The checkpoint of `step`, else the newest of all.
    pub fn checkpoint_of(&self, step: Option<u64>, program: &Program) -> Option<&Checkpoint> {
        self.checkpoints.get(self.checkpoint_index(step, program)?)
    }

    /// Its index. Of several checkpoints of one step, the newest counts for a command. With the
    /// built-in trainer it is the one after the fewest optimiser steps, which was saved with the
    /// report: one that was saved at an interruption, between this step and the next, has a later
    /// state.
    pub fn checkpoint_index(&self, step: Option<u64>, program: &Program) -> Option<usize> {
        let of_step = |index: &usize| Some(self.checkpoints[*index].step) == step;
        let all = 0..self.checkpoints.len();
        let found = match program {
            Program::Trainer { .. } => {
                let optimiser_step = |index: &usize| {
                    let name = self.checkpoints[*index].path.file_name()?.to_str()?;
                    name.rsplit('-').next()?.parse::<u64>().ok()
                };
                all.clone().filter(of_step).min_by_key(optimiser_step)
            }
            Program::Command { .. } | Program::Inline => all.clone().rfind(of_step),
        };
        found.or_else(|| all.last())
    }

    /// Whether it is paused and its pruner may resume it: not if its user paused it.
    pub fn waits_for_its_pruner(&self) -> bool {
        self.state == TrialState::Paused && self.hold.is_none()
    }

    /// The decision given at `step`, if one was.
    pub fn decision_at(&self, step: u64) -> Option<&DecisionAtStep> {
        self.decisions.iter().find(|decision| decision.step == step)
    }

    /// The attempt that is running, or the last one.
    pub fn last_attempt(&self) -> Option<AttemptNumber> {
        self.attempts.checked_sub(1).map(AttemptNumber)
    }
}

#[cfg(test)]
mod tests {

    use super::*;

    #[test]
    fn the_checkpoint_of_a_value_is_the_one_that_was_saved_with_its_report() {
        let saved = |step: u64, name: &str| Checkpoint {
            step,
            path: PathBuf::from("/trial-0").join(name),
            bytes: None,
            digest: None,
        };
        let mut trial = Trial::new(TrialNumber(0), Params::new(), Origin::Asked, Timestamp(0));
        let (arguments, data) = (BTreeMap::new(), BTreeMap::new());
        let trainer = Program::Trainer { arguments, data };
        let names = ["checkpoint-38", "checkpoint-59", "checkpoint-100"];
        for order in [[0, 1, 2], [1, 0, 2]] {
            trial.checkpoints = order.map(|index| saved([1, 1, 2][index], names[index])).to_vec();
            let name = |step: u64, program: &Program| {
                let found = trial.checkpoint_of(Some(step), program).unwrap();
                found.path.file_name().unwrap().to_str().unwrap().to_owned()
            };
            assert_eq!(name(1, &trainer), "checkpoint-38");
            assert_eq!(name(1, &Program::Inline), names[order[1]], "a program's newest");
            assert_eq!([2, 7].map(|step| name(step, &trainer)), ["checkpoint-100"; 2]);
        }
    }
}
