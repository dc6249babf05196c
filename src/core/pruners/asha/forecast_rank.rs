//! Ranks at a rung by the ends that are forecast there.

use super::super::Case;
use crate::analysis::learning_curve::forecast_curves;
use crate::study::metric::Middle;
use crate::study::trial::TrialNumber;

/// A trial among those at its rung.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RankAtRung {
    /// How many are compared.
    pub population: usize,
    /// One, and one more for each that is better.
    pub rank: u64,
    /// How many of them continued and tell of the others' ends, if it is by these.
    pub forecast_from: Option<u64>,
}

/// The trial's place at one of the `rungs`, among those of its bracket; nothing where values tell
/// as much as all that is known.
pub(super) fn place(
    case: &Case<'_>,
    rungs: &[u64],
    rung: usize,
    middle: Middle,
    is_of_bracket: impl Fn(TrialNumber) -> bool,
) -> Option<RankAtRung> {
    let trials = case.history.trials();
    // What was known below this rung tells nothing more.
    let forecast_curves = forecast_curves(&case.history, case.space, rungs.get(rung..)?, middle);
    let here = forecast_curves.at.first().filter(|here| here.is_learned)?;
    let of_bracket = || {
        here.trials
            .iter()
            .zip(&here.ends)
            .map(|(index, end)| (trials[*index].number, end.loss))
            .filter(|(number, _)| is_of_bracket(*number))
    };
    let (_, own) = of_bracket().find(|(number, _)| *number == case.trial.number)?;
    let better = of_bracket().filter(|(_, end)| *end < own).count();
    Some(RankAtRung {
        population: of_bracket().count(),
        rank: better as u64 + 1,
        forecast_from: Some(here.went_on as u64),
    })
}
