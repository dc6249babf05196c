//! Ranks at a rung by forecast final losses.

use super::super::Case;
use crate::analysis::learning_curve::forecast_curves;
use crate::study::metric::Middle;
use crate::study::trial::TrialNumber;

/// A trial among those at its rung.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RankAtRung {
    /// Number of trials compared.
    pub population: usize,
    /// One plus the number of better trials.
    pub rank: u64,
    /// Number of continued trials behind the forecasts, if ranked by these.
    pub forecast_from: Option<u64>,
}

/// The trial's rank at one of the `rungs`, among those of its bracket; `None` if values predict as
/// well.
pub(super) fn place(
    case: &Case<'_>,
    rungs: &[u64],
    rung: usize,
    middle: Middle,
    is_of_bracket: impl Fn(TrialNumber) -> bool,
) -> Option<RankAtRung> {
    let trials = case.history.trials();
    // Earlier steps add no information.
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
        forecast_from: Some(here.continued as u64),
    })
}
