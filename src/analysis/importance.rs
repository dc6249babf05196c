//! Which parameters matter: how much of what happened in a study each of them explains.
//!
//! Two evaluators, both with Optuna's rules, so that the figures can be compared: PED-ANOVA asks
//! what separates the best tenth from the rest, parameter by parameter; fANOVA fits a random forest
//! to the values and asks how much of its variance each parameter makes.

mod fanova;
mod forest;
mod ped_anova;

use crate::storage::Outcome;
use crate::study::metric::{Direction, Score};
use crate::study::params::Params;
use crate::study::space::{Dimension, Space};
use crate::study::trial::TrialState;

/// How importance is measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Evaluator {
    /// What separates the best tenth of the trials from all (Watanabe et al., IJCAI 2023;
    /// conditional parameters as in *Conditional PED-ANOVA*, 2026). Fast, and free of chance.
    #[default]
    PedAnova,
    /// Shares of the variance of a random forest (Hutter et al., ICML 2014).
    Fanova,
}

impl Evaluator {
    /// Both.
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
pub struct Row<'a> {
    /// Its active parameters.
    pub params: &'a Params,
    /// Its value.
    pub value: f64,
}

/// A trial that was stopped before its end.
#[derive(Clone, Copy, Debug)]
pub struct Stopped<'a> {
    /// Its active parameters.
    pub params: &'a Params,
    /// The step of its last report.
    pub step: u64,
    /// That report.
    pub value: f64,
}

/// Importances are told from so many trials on: of fewer, chance decides which parameters seem to
/// matter.
pub const ENOUGH: usize = 10;

/// Why nothing can be said about importance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ImportanceError {
    /// Less than [`ENOUGH`] finite values.
    #[error(
        "importances need at least {ENOUGH} trials to tell from, and there are {found}: with \
         fewer, chance decides which parameters seem to matter"
    )]
    TooFew {
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
/// Rows whose value is NaN or infinite are left out. `seed` is for forests.
///
/// # Errors
/// There are too few rows, or nothing to explain.
pub fn importances(
    evaluator: Evaluator,
    space: &Space,
    rows: &[Row<'_>],
    direction: Direction,
    seed: u64,
) -> Result<Vec<(String, f64)>, ImportanceError> {
    let finite: Vec<Row<'_>> = rows.iter().copied().filter(|row| row.value.is_finite()).collect();
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
    let raw = match evaluator {
        Evaluator::PedAnova => ped_anova::evaluate(&dimensions, &finite, direction),
        Evaluator::Fanova => fanova::evaluate(&dimensions, &finite, seed),
    };
    let total: f64 = raw.iter().sum();
    let equal = 1.0 / dimensions.len().max(1) as f64;
    let share = |importance: f64| if total > 0.0 { importance / total } else { equal };
    let mut named: Vec<(String, f64)> = dimensions
        .iter()
        .zip(raw)
        .map(|(dimension, raw)| (dimension.name.clone(), share(raw)))
        .collect();
    named.sort_by(|a, b| b.1.total_cmp(&a.1));
    Ok(named)
}

/// The rows of a study for an evaluator, and how many of its pruned trials are among them.
pub fn rows<'a>(
    outcomes: &'a [Outcome],
    evaluator: Evaluator,
    direction: Direction,
) -> (Vec<Row<'a>>, usize) {
    let rows = outcomes
        .iter()
        .filter_map(|outcome| Some(Row { params: &outcome.params, value: outcome.value? }))
        .collect();
    with_stopped(evaluator, rows, &stopped(outcomes), direction)
}

/// The trials of a study that a pruner stopped, as far as they reported anything.
pub fn stopped(outcomes: &[Outcome]) -> Vec<Stopped<'_>> {
    let pruned = outcomes.iter().filter(|outcome| outcome.state == TrialState::Pruned);
    pruned
        .filter_map(|outcome| {
            Some(Stopped {
                params: &outcome.params,
                step: outcome.last_step?,
                value: outcome.last_value?,
            })
        })
        .collect()
}

/// The rows of a study in which trials were stopped, as far as `evaluator` can count those, and how
/// many it does. To PED-ANOVA only the order of trials matters: those that were stopped come after
/// all that completed, who came further before the others, then who was better there. Shares of a
/// variance need values, and a stopped trial has none.
fn with_stopped<'a>(
    evaluator: Evaluator,
    rows: Vec<Row<'a>>,
    stopped: &[Stopped<'a>],
    direction: Direction,
) -> (Vec<Row<'a>>, usize) {
    if evaluator == Evaluator::Fanova || stopped.is_empty() {
        return (rows, 0);
    }
    let mut finite: Vec<Row<'a>> = rows.into_iter().filter(|row| row.value.is_finite()).collect();
    finite.sort_by_key(|row| Score::new(direction, row.value));
    let mut behind = stopped.to_vec();
    behind.sort_by_key(|trial| (std::cmp::Reverse(trial.step), Score::new(direction, trial.value)));
    let is_tied = |one: &Stopped<'_>, other: &Stopped<'_>| {
        one.step == other.step
            && Score::new(direction, one.value) == Score::new(direction, other.value)
    };
    let mut ranked: Vec<Row<'a>> = Vec::with_capacity(finite.len() + behind.len());
    for (place, row) in finite.iter().enumerate() {
        let tied = place.checked_sub(1).filter(|before| finite[*before].value == row.value);
        ranked.push(Row {
            params: row.params,
            value: tied.map_or_else(|| rank(place, direction), |before| ranked[before].value),
        });
    }
    for (place, trial) in behind.iter().enumerate() {
        let at = finite.len() + place;
        let tied = place.checked_sub(1).filter(|before| is_tied(&behind[*before], trial));
        ranked.push(Row {
            params: trial.params,
            value: tied.map_or_else(|| rank(at, direction), |_| ranked[at - 1].value),
        });
    }
    (ranked, behind.len())
}

/// A place, from 0, as a value: the first is the best.
#[expect(clippy::cast_precision_loss, reason = "a number of trials")]
fn rank(place: usize, direction: Direction) -> f64 {
    match direction {
        Direction::Minimize => place as f64,
        Direction::Maximize => -(place as f64),
    }
}

/// The parameter's value in a row as a number (a choice by its index); `None` where it is not
/// active, or where the value is none of the space as it is now.
fn value_of(dimension: &Dimension, row: &Row<'_>) -> Option<f64> {
    let value = dimension.distribution.normalize(row.params.get(&dimension.name)?)?;
    dimension.distribution.to_internal(&value)
}

#[cfg(test)]
mod tests;
