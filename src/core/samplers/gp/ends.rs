//! The steps at which the final losses of stopped trials are forecast.

use crate::analysis::learning_curve::{End, forecast_curves};
use crate::study::history::History;
use crate::study::metric::Middle;
use crate::study::space::Space;
use crate::study::trial::Trial;

/// Minimum ratio between such steps (3 to 2): pruners that stop at arbitrary steps are reduced to
/// about as many levels as a ladder has rungs.
const RATIO: (u64, u64) = (3, 2);

/// The final loss of each trial, by index; `None` if unknown.
pub(super) fn ends(history: &History<'_>, space: &Space, middle: Middle) -> Vec<Option<End>> {
    forecast_curves(history, |_| true, space, &levels(history), middle).ends
}

/// Where a pruned trial was stopped, and its loss there.
pub(super) fn stopped_at(history: &History<'_>, trial: &Trial) -> Option<(u64, f64)> {
    let (step, value) = trial.last().filter(|_| trial.rests())?;
    let loss = history.score(value).loss();
    loss.is_finite().then_some((step, loss))
}

fn levels(history: &History<'_>) -> Vec<u64> {
    let mut steps: Vec<u64> =
        history.trials().iter().filter_map(|trial| Some(stopped_at(history, trial)?.0)).collect();
    steps.sort_unstable();
    let mut levels: Vec<u64> = Vec::new();
    for step in steps {
        if levels
            .last()
            .is_none_or(|last| step.saturating_mul(RATIO.1) >= last.saturating_mul(RATIO.0))
        {
            levels.push(step);
        }
    }
    levels
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samplers::conformance::trial_of;
    use crate::study::metric::Direction;
    use crate::study::params::Params;
    use crate::study::trial::TrialState;

    #[test]
    fn stops_at_arbitrary_steps_leave_few_levels() {
        let pruned = |step| Trial {
            curve: vec![(step, 1.0)],
            ..trial_of(step, Params::new(), TrialState::Pruned, None)
        };
        let trials: Vec<Trial> = (1..500).map(pruned).collect();
        let levels = levels(&History::of(&trials, Direction::Minimize));
        assert!((10..20).contains(&levels.len()), "{levels:?}");
    }
}
