//! The view that samplers and pruners have of a study: its trials, with values converted to losses,
//! and its step unit.

use crate::study::metric::{Direction, Number, Score};
use crate::study::pareto;
use crate::study::spec::{HiddenRule, ParamsRule};
use crate::study::state::{Changes, StudyState};
use crate::study::step::StepUnit;
use crate::study::trial::{Trial, TrialState};

/// A read-only view of the trials so far.
#[derive(Clone, Copy, Debug)]
pub struct History<'a> {
    trials: &'a [Trial],
    directions: &'a [Direction],
    changes: Option<&'a Changes>,
    step_unit: StepUnit,
    hidden_rule: HiddenRule,
    params_rule: ParamsRule,
}

impl<'a> History<'a> {
    /// The history of a study.
    pub fn new(state: &'a StudyState) -> Self {
        History {
            trials: &state.trials,
            directions: state.directions(),
            changes: Some(state.changes()),
            step_unit: state.step_unit(),
            hidden_rule: state.hidden_rule(),
            params_rule: state.params_rule(),
        }
    }

    /// A history of trials outside a study.
    pub fn of(trials: &'a [Trial], direction: Direction) -> Self {
        Self::of_several(trials, direction.alone())
    }

    /// A history of trials outside a study, with the directions of its objectives.
    pub fn of_several(trials: &'a [Trial], directions: &'a [Direction]) -> Self {
        History {
            trials,
            directions,
            changes: None,
            step_unit: StepUnit::Step,
            hidden_rule: HiddenRule::Unseen,
            params_rule: ParamsRule::Present,
        }
    }

    /// The same with another step unit.
    #[must_use]
    pub fn with_step_unit(self, step_unit: StepUnit) -> Self {
        History { step_unit, ..self }
    }

    /// The unit of steps.
    pub fn step_unit(&self) -> StepUnit {
        self.step_unit
    }

    /// The value behind a score.
    pub fn value(&self, score: Score) -> Number {
        Number(self.direction().loss(score.loss()))
    }

    /// All trials by number, in every state.
    pub fn trials(&self) -> &'a [Trial] {
        self.trials
    }

    /// The trials with which pruners compare others.
    pub fn compared(&self) -> impl DoubleEndedIterator<Item = &'a Trial> + use<'a> {
        let rule = self.hidden_rule;
        self.trials.iter().filter(move |trial| is_compared(rule, trial))
    }

    /// Whether pruners compare others with this trial.
    pub fn compares(&self, trial: &Trial) -> bool {
        is_compared(self.hidden_rule, trial)
    }

    /// Whether forecasts of pruners learn from this trial.
    pub fn learns_from(&self, trial: &Trial) -> bool {
        self.hidden_rule != HiddenRule::Unseen || !trial.hidden
    }

    /// Whether estimators see the present parameters of trials whose parameters change.
    pub fn has_present_params(&self) -> bool {
        self.params_rule == ParamsRule::Present
    }

    /// Whether a trial is complete, as far as pruners know.
    pub fn has_complete_trial(&self) -> bool {
        let is_complete = |trial: &Trial| trial.state == TrialState::Complete;
        self.trials.iter().any(|trial| is_complete(trial) && self.learns_from(trial))
    }

    /// Which trials changed recently, if the study records it: lets caches update without reading
    /// all trials. Answers must not depend on it.
    pub fn changes(&self) -> Option<&'a Changes> {
        self.changes
    }

    /// Whether smaller or larger is better, by the first objective.
    pub fn direction(&self) -> Direction {
        self.directions.first().copied().unwrap_or(Direction::Minimize)
    }

    /// The directions of all objectives.
    pub fn directions(&self) -> &'a [Direction] {
        self.directions
    }

    /// Whether there are several objectives.
    pub fn has_several_objectives(&self) -> bool {
        self.directions.len() > 1
    }

    /// Values of several objectives as losses: see [`pareto::losses`].
    pub fn losses(&self, values: &[f64]) -> Vec<f64> {
        pareto::losses(self.directions, values)
    }

    /// The losses of a trial of several objectives, if it is complete and feasible.
    pub fn final_losses(&self, trial: &Trial) -> Option<Vec<f64>> {
        let counts = trial.state == TrialState::Complete
            && trial.violation.is_none()
            && trial.values.len() == self.directions.len();
        counts.then(|| self.losses(&trial.values))
    }

    /// The losses of a trial of several objectives at exactly `step`; infinite where an objective
    /// was not reported yet.
    pub fn losses_at(&self, trial: &Trial, step: u64) -> Option<Vec<f64>> {
        trial.vectors.binary_search_by_key(&step, |(at, _)| *at).ok()?;
        let known = trial.values_at(step);
        let values: Vec<f64> = known.into_iter().map(|value| value.unwrap_or(f64::NAN)).collect();
        Some(self.losses(&values))
    }

    /// The same; `None`, too, if an objective was not reported yet.
    pub fn losses_known_at(&self, trial: &Trial, step: u64) -> Option<Vec<f64>> {
        trial.vectors.binary_search_by_key(&step, |(at, _)| *at).ok()?;
        let known: Option<Vec<f64>> = trial.values_at(step).into_iter().collect();
        Some(self.losses(&known?))
    }

    /// The same at the first step from `step` on at which all objectives are known, with that step.
    pub fn losses_known_from(&self, trial: &Trial, step: u64) -> Option<(u64, Vec<f64>)> {
        let begin = trial.vectors.partition_point(|(at, _)| *at < step);
        let mut reports = trial.vectors.iter().skip(begin);
        reports.find_map(|(at, _)| Some((*at, self.losses_known_at(trial, *at)?)))
    }

    /// A reported value as a score: smaller is better, NaN is worst.
    pub fn score(&self, value: f64) -> Score {
        Score::new(self.direction(), value)
    }

    /// The trial's score if it is complete and feasible.
    pub fn final_score(&self, trial: &Trial) -> Option<Score> {
        trial
            .value
            .filter(|_| trial.state == TrialState::Complete && trial.violation.is_none())
            .map(|value| self.score(value))
    }

    /// The trial's best score among its reports up to and including `step`.
    pub fn best_until(&self, trial: &Trial, step: u64) -> Option<Score> {
        trial
            .curve
            .iter()
            .take_while(|(at, _)| *at <= step)
            .map(|(_, value)| self.score(*value))
            .min()
    }

    /// The trial's score at exactly `step`.
    pub fn score_at(&self, trial: &Trial, step: u64) -> Option<Score> {
        let index = trial.curve.binary_search_by_key(&step, |(at, _)| *at).ok()?;
        trial.curve.get(index).map(|(_, value)| self.score(*value))
    }
}

fn is_compared(rule: HiddenRule, trial: &Trial) -> bool {
    rule == HiddenRule::Compared || !trial.hidden
}
