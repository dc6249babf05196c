//! The state of a study: the fold of its journal.

mod changes;
mod checkpoint_paths;
mod fold;
mod limits;
mod value;

use std::collections::BTreeSet;
use std::path::Path;

pub use changes::{Changes, Mark};
use checkpoint_paths::CheckpointPaths;
pub use fold::{continues, supersede};
pub use limits::judged;
use serde::Serialize;
pub use value::{
    replaced_params, reported_step, shown_params, shown_step, value_of, value_so_far, value_step,
};

use crate::study::budget::Extension;
use crate::study::checkpoint::Checkpoint;
use crate::study::configuration::{self, ConfigurationRun};
use crate::study::constraint::Constraint;
use crate::study::device::Device;
use crate::study::finalists::Race;
use crate::study::front::{self, Front};
use crate::study::metric::{Direction, LastMetrics, Score};
use crate::study::spec::{HiddenRule, Objective, ParamsRule, StudySpec, ValueRule};
use crate::study::statistics::Statistics;
use crate::study::step::StepUnit;
use crate::study::time::Timestamp;
use crate::study::trial::{Note, Trial, TrialNumber, TrialState};

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
    step_unit: StepUnit,
    directions: Vec<Direction>,
    rule: ValueRule,
    last_metrics: LastMetrics,
    constraints: Vec<Constraint>,
    hidden_rule: HiddenRule,
    params_rule: ParamsRule,
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
            step_unit: spec.step,
            directions: spec.objectives.iter().map(|objective| objective.direction).collect(),
            rule: spec.value,
            last_metrics: spec.last_metrics,
            constraints: spec.constraints.clone(),
            hidden_rule: spec.hidden_rule,
            params_rule: spec.params_rule,
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

    /// The study's step unit.
    pub fn step_unit(&self) -> StepUnit {
        self.step_unit
    }

    /// Whether pruners compare trials with hidden ones.
    pub fn hidden_rule(&self) -> HiddenRule {
        self.hidden_rule
    }

    /// Which parameters estimators see of trials whose parameters change.
    pub fn params_rule(&self) -> ParamsRule {
        self.params_rule
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
        configuration::ranked(
            self.trials.iter().map(ConfigurationRun::from),
            self.direction(),
            self.replicates,
        )
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
        value_of(self.rule, self.direction(), trial)
    }

    /// The step at which `value`, the trial's, was reported, if it was.
    pub fn reported_step(&self, trial: &Trial, value: Option<f64>) -> Option<u64> {
        reported_step(self.rule, self.direction(), trial, value)
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
