//! Which report of a trial is its value, and which is shown.

use crate::study::constraint::{self, Constraint};
use crate::study::metric::{Direction, Score};
use crate::study::params::Params;
use crate::study::spec::{StudySpec, ValueRule};
use crate::study::statistics;
use crate::study::trial::{Trial, TrialState};

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
    value_of(rule, direction, trial).filter(|value| !value.is_nan())
}

/// A trial's value under a rule, if it ended now; `None` without a report.
pub fn value_of(rule: ValueRule, direction: Direction, trial: &Trial) -> Option<f64> {
    let values = || trial.curve.iter().map(|(_, value)| *value);
    match rule {
        ValueRule::Last => trial.last().map(|(_, value)| value),
        ValueRule::Best => values().min_by_key(|value| Score::new(direction, *value)),
        ValueRule::Mean => statistics::mean(values()),
    }
}

/// The step of the report that determines a trial's value under a rule, of a mean the last; `None`
/// without a report.
pub fn value_step(rule: ValueRule, direction: Direction, trial: &Trial) -> Option<u64> {
    match rule {
        ValueRule::Last | ValueRule::Mean => trial.last_step(),
        ValueRule::Best => trial
            .curve
            .iter()
            .min_by_key(|(_, value)| Score::new(direction, *value))
            .map(|(step, _)| *step),
    }
}

/// The step at which `value`, a trial's, was reported; `None` if no report had it, as where a
/// program told it at the end.
pub fn reported_step(
    rule: ValueRule,
    direction: Direction,
    trial: &Trial,
    value: Option<f64>,
) -> Option<u64> {
    let step = value_step(rule, direction, trial)?;
    let reported = trial.curve.iter().find(|(at, _)| *at == step).map(|(_, value)| *value);
    let is_another = value.zip(reported).is_some_and(|(value, reported)| {
        Score::new(direction, value) != Score::new(direction, reported)
    });
    (!is_another).then_some(step)
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
