//! Ranks at a rung by forecast final losses.

use super::super::Case;
use crate::analysis::learning_curve::{End, forecast_curves};
use crate::study::metric::Middle;
use crate::study::trial::{Trial, TrialNumber};

/// A trial among those at its rung.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct RankAtRung {
    /// Number of trials compared.
    pub population: usize,
    /// One plus the number of better trials.
    pub rank: u64,
    /// Number of continued trials behind the forecasts, if ranked by these.
    pub forecast_from: Option<u64>,
    /// The trial's own forecast, as a loss, if ranked by forecasts.
    pub end: Option<End>,
    /// The forecast losses that are compared, ascending.
    pub ends: Vec<f64>,
}

impl RankAtRung {
    /// A rank by values.
    pub fn by_value(population: usize, rank: u64) -> Self {
        RankAtRung { population, rank, forecast_from: None, end: None, ends: Vec::new() }
    }
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
    let steps = rungs.get(rung..)?;
    let learns_from = |trial: &Trial| case.history.learns_from(trial);
    let forecast_curves = forecast_curves(&case.history, learns_from, case.space, steps, middle);
    let here = forecast_curves.at.first().filter(|here| here.is_learned)?;
    let of_bracket = || {
        here.trials
            .iter()
            .zip(&here.ends)
            .filter(|(index, _)| case.history.compares(&trials[**index]))
            .map(|(index, end)| (trials[*index].number, end))
            .filter(|(number, _)| is_of_bracket(*number))
    };
    let (_, own) = of_bracket().find(|(number, _)| *number == case.trial.number)?;
    let mut ends: Vec<f64> = of_bracket().map(|(_, end)| end.loss).collect();
    ends.sort_by(f64::total_cmp);
    Some(RankAtRung {
        population: ends.len(),
        rank: ends.iter().filter(|end| **end < own.loss).count() as u64 + 1,
        forecast_from: Some(here.continued as u64),
        end: Some(*own),
        ends,
    })
}
