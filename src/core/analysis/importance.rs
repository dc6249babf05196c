//! Parameter importance: how much of a study's results each parameter explains.
//!
//! Both evaluators follow Optuna's rules, so that values are comparable: PED-ANOVA measures what
//! separates the best tenth from the rest, parameter by parameter; fANOVA fits a random forest and
//! attributes its variance to the parameters.

mod fanova;
mod forest;
mod ped_anova;

use std::borrow::Cow;
use std::cmp::Reverse;

use crate::study::metric::{Direction, Score};
use crate::study::outcome::TrialSummary;
use crate::study::params::Params;
use crate::study::space::{Dimension, Space};
use crate::study::trial::TrialState;

/// How importance is measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Evaluator {
    /// What separates the best tenth of the trials from all (Watanabe et al., IJCAI 2023;
    /// conditional parameters as in *Conditional PED-ANOVA*, 2026). Fast and deterministic.
    #[default]
    PedAnova,
    /// Shares of the variance of a random forest (Hutter et al., ICML 2014).
    Fanova,
}

impl Evaluator {
    /// Both methods, the default first.
    pub const ALL: [Evaluator; 2] = [Evaluator::PedAnova, Evaluator::Fanova];

    /// Its name on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            Evaluator::PedAnova => "ped-anova",
            Evaluator::Fanova => "fanova",
        }
    }
}

/// A completed trial.
#[derive(Clone, Copy, Debug)]
pub struct EvaluatedParams<'a> {
    /// Its active parameters.
    pub params: &'a Params,
    /// Its value.
    pub value: f64,
}

/// Minimum number of trials: with fewer, chance decides which parameters seem to matter.
pub const ENOUGH: usize = 10;

/// Why importance cannot be computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ImportanceError {
    /// Fewer than [`ENOUGH`] finite values.
    #[error(
        "importances need {ENOUGH} trials, and {found} count: with fewer, chance \
         decides which parameters seem to matter"
    )]
    TooFew {
        /// How many there are.
        found: usize,
    },
    /// There is no parameter to compare.
    #[error("no parameter differs between the {found} trials")]
    NoParameter {
        /// How many there are.
        found: usize,
    },
    /// All values are the same.
    #[error("all {found} trials have the same value: no parameter made a difference")]
    AllEqual {
        /// How many there are.
        found: usize,
    },
}

/// The importance of every parameter that was active in a row, most important first; they sum to 1.
/// Rows whose value is NaN or infinite are left out. `seed` seeds the forest.
///
/// # Errors
/// There are too few rows, no parameter was active in one, or all values are equal.
pub fn importances(
    evaluator: Evaluator,
    space: &Space,
    rows: &[EvaluatedParams<'_>],
    direction: Direction,
    seed: u64,
) -> Result<Vec<(String, f64)>, ImportanceError> {
    let finite: Vec<EvaluatedParams<'_>> =
        rows.iter().copied().filter(|row| row.value.is_finite()).collect();
    let found = finite.len();
    if found < ENOUGH {
        return Err(ImportanceError::TooFew { found });
    }
    if finite.iter().all(|row| row.value == finite[0].value) {
        return Err(ImportanceError::AllEqual { found });
    }
    let active =
        |dimension: &&Dimension| finite.iter().any(|row| value_of(dimension, row).is_some());
    let dimensions: Vec<&Dimension> = space.dimensions().iter().filter(active).collect();
    if dimensions.is_empty() {
        return Err(ImportanceError::NoParameter { found });
    }
    let raw = match evaluator {
        Evaluator::PedAnova => ped_anova::evaluate(&dimensions, &finite, direction),
        Evaluator::Fanova => fanova::evaluate(&dimensions, &finite, seed),
    };
    let total: f64 = raw.iter().sum();
    let equal = 1.0 / dimensions.len() as f64;
    let share = |importance: f64| if total > 0.0 { importance / total } else { equal };
    let mut named: Vec<(String, f64)> = dimensions
        .iter()
        .zip(raw)
        .map(|(dimension, raw)| (dimension.name.clone(), share(raw)))
        .collect();
    named.sort_by(|a, b| b.1.total_cmp(&a.1));
    Ok(named)
}

/// The outcomes of a study as those of one of its objectives alone. With several, pruned trials are
/// left out: they were stopped for all objectives together, and may be the best by one.
pub fn of_objective<'a>(
    outcomes: &'a [TrialSummary],
    objectives: usize,
    index: usize,
) -> Cow<'a, [TrialSummary]> {
    if objectives < 2 {
        return Cow::Borrowed(outcomes);
    }
    let alone =
        |outcome: &TrialSummary| TrialSummary { last_value: None, ..outcome.by_objective(index) };
    outcomes.iter().map(alone).collect()
}

/// The rows of a study for an evaluator, and how many of its pruned trials are among them.
pub fn rows<'a>(
    outcomes: &'a [TrialSummary],
    evaluator: Evaluator,
    direction: Direction,
) -> (Vec<EvaluatedParams<'a>>, usize) {
    let rows = outcomes
        .iter()
        .filter_map(|outcome| {
            Some(EvaluatedParams { params: &outcome.params, value: outcome.value? })
        })
        .collect();
    with_stopped(evaluator, rows, &stopped(outcomes), direction)
}

/// The pruned trials with at least one report: the step of the last one, and its value.
pub fn stopped(outcomes: &[TrialSummary]) -> Vec<(u64, EvaluatedParams<'_>)> {
    let pruned = outcomes.iter().filter(|outcome| outcome.state == TrialState::Pruned);
    let last = pruned.filter_map(|outcome| {
        let row = EvaluatedParams { params: &outcome.params, value: outcome.last_value? };
        Some((outcome.last_step?, row))
    });
    last.collect()
}

/// The rows of a study with pruned trials, as far as `evaluator` can use those, and how many it
/// does. PED-ANOVA needs only the order of trials: pruned ones rank after all completed ones, by
/// last step and then by value. A variance needs final values, which pruned trials lack.
fn with_stopped<'a>(
    evaluator: Evaluator,
    rows: Vec<EvaluatedParams<'a>>,
    stopped: &[(u64, EvaluatedParams<'a>)],
    direction: Direction,
) -> (Vec<EvaluatedParams<'a>>, usize) {
    if evaluator == Evaluator::Fanova || stopped.is_empty() {
        return (rows, 0);
    }
    let score = |row: &EvaluatedParams<'_>| Score::new(direction, row.value);
    let finite = rows.iter().filter(|row| row.value.is_finite());
    let complete = finite.map(|row| ((false, Reverse(0), score(row)), row.params));
    let behind = stopped.iter().map(|(step, row)| ((true, Reverse(*step), score(row)), row.params));
    let mut ranked: Vec<_> = complete.chain(behind).collect();
    ranked.sort_by_key(|(place, _)| *place);
    let mut counted: Vec<EvaluatedParams<'a>> = Vec::with_capacity(ranked.len());
    for (place, (key, params)) in ranked.iter().enumerate() {
        let value = match place.checked_sub(1) {
            Some(before) if ranked[before].0 == *key => counted[before].value,
            _ => rank(place, direction),
        };
        counted.push(EvaluatedParams { params, value });
    }
    (counted, stopped.len())
}

/// A rank from 0 as a value: the first is the best.
#[expect(clippy::cast_precision_loss, reason = "a number of trials")]
fn rank(place: usize, direction: Direction) -> f64 {
    match direction {
        Direction::Minimize => place as f64,
        Direction::Maximize => -(place as f64),
    }
}

/// The parameter's value in a row as a number (a choice by its index); `None` if it is inactive or
/// outside the current space.
fn value_of(dimension: &Dimension, row: &EvaluatedParams<'_>) -> Option<f64> {
    let value = dimension.distribution.normalize(row.params.get(&dimension.name)?)?;
    dimension.distribution.to_internal(&value)
}

#[cfg(test)]
mod tests;
