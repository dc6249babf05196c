//! Which parameters matter: how much of what happened in a study each of them explains.
//!
//! Two evaluators, both with Optuna's rules, so that the figures can be compared: PED-ANOVA asks what separates the best
//! tenth from the rest, parameter by parameter; fANOVA fits a random forest to the values and asks how much of its variance
//! each parameter makes.

mod fanova;
mod forest;
mod ped_anova;

use crate::metric::Direction;
use crate::params::Params;
use crate::space::{Dimension, Space};

/// How importance is measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Evaluator {
    /// What separates the best tenth of the trials from all (Watanabe et al., IJCAI 2023; conditional parameters as in
    /// *Conditional PED-ANOVA*, 2026). Fast, and free of chance.
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

/// Why nothing can be said about importance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ImportanceError {
    /// Less than two finite values.
    #[error("importances need at least 2 completed trials with a finite value, and there are {found}")]
    TooFew {
        /// How many there are.
        found: usize,
    },
    /// All values are the same.
    #[error("all {found} completed trials have the same value: no parameter made a difference")]
    AllEqual {
        /// How many there are.
        found: usize,
    },
}

/// The importance of every parameter that was active in a row, most important first; they sum to 1. Rows whose value is NaN
/// or infinite are left out. `seed` is for forests.
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
    if found < 2 {
        return Err(ImportanceError::TooFew { found });
    }
    if finite.iter().all(|row| row.value == finite[0].value) {
        return Err(ImportanceError::AllEqual { found });
    }
    let active = |dimension: &&Dimension| finite.iter().any(|row| value_of(dimension, row).is_some());
    let dimensions: Vec<&Dimension> = space.dimensions().iter().filter(active).collect();
    let raw = match evaluator {
        Evaluator::PedAnova => ped_anova::evaluate(&dimensions, &finite, direction),
        Evaluator::Fanova => fanova::evaluate(&dimensions, &finite, seed),
    };
    let total: f64 = raw.iter().sum();
    let equal = 1.0 / dimensions.len().max(1) as f64;
    let share = |importance: f64| if total > 0.0 { importance / total } else { equal };
    let mut named: Vec<(String, f64)> = dimensions.iter().zip(raw).map(|(dimension, raw)| (dimension.name.clone(), share(raw))).collect();
    named.sort_by(|a, b| b.1.total_cmp(&a.1));
    Ok(named)
}

/// The parameter's value in a row as a number (a choice by its index); `None` where it is not active, or where the value is
/// none of the space as it is now.
fn value_of(dimension: &Dimension, row: &Row<'_>) -> Option<f64> {
    let value = dimension.distribution.normalize(row.params.get(&dimension.name)?)?;
    dimension.distribution.to_internal(&value)
}

#[cfg(test)]
mod tests;
