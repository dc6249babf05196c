//! PED-ANOVA: the Pearson divergence of the best tenth of the trials from all, one parameter at a
//! time.
//!
//! Watanabe, Bansal and Hutter, *PED-ANOVA: Efficiently Quantifying Hyperparameter Importance in
//! Arbitrary Subspaces* (IJCAI 2023), with gamma' = 0.1 and gamma = 1. Densities are Parzen
//! estimates on a grid with the rules of Optuna 5; so is the weight of a conditional parameter: its
//! divergence among the trials where it is active, times the squared share of the best trials that
//! have it, over the share of all that have it.

use super::{EvaluatedParams, value_of};
use crate::study::metric::Direction;
use crate::study::space::{Dimension, Distribution, Scale};

/// gamma': the share of trials that count as good.
const TARGET_QUANTILE: f64 = 0.1;
/// Maximum number of cells of a grid.
const CELLS: usize = 50;
/// Weight of the prior, in trials.
const PRIOR: f64 = 1.0;
/// Minimum number of trials in which a parameter is active.
const FEWEST: usize = 2;
/// Keeps divisions by empty cells finite.
const FLOOR: f64 = 1e-12;

/// Comparable importances.
pub(super) fn evaluate(
    dimensions: &[&Dimension],
    rows: &[EvaluatedParams<'_>],
    direction: Direction,
) -> Vec<f64> {
    let losses: Vec<f64> = rows.iter().map(|row| direction.loss(row.value)).collect();
    let is_good = good(&losses);
    let goods = is_good.iter().filter(|good| **good).count();
    dimensions.iter().map(|dimension| importance(dimension, rows, &is_good, goods)).collect()
}

/// Which rows are among the best tenth, ties with the last of them included.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "a share of a number of rows"
)]
fn good(losses: &[f64]) -> Vec<bool> {
    let mut sorted = losses.to_vec();
    sorted.sort_by(f64::total_cmp);
    let last = (TARGET_QUANTILE * losses.len() as f64).ceil() as usize;
    let cutoff = sorted[last.saturating_sub(1)];
    losses.iter().map(|loss| *loss <= cutoff).collect()
}

#[expect(clippy::cast_precision_loss, reason = "numbers of rows")]
fn importance(
    dimension: &Dimension,
    rows: &[EvaluatedParams<'_>],
    is_good: &[bool],
    goods: usize,
) -> f64 {
    let mut all = Vec::new();
    let mut best = Vec::new();
    for (row, good) in rows.iter().zip(is_good) {
        if let Some(value) = value_of(dimension, row) {
            all.push(value);
            best.extend(good.then_some(value));
        }
    }
    if dimension.distribution.cardinality() == Some(1) || all.len() < FEWEST || best.is_empty() {
        return 0.0;
    }
    let (among_best, among_all) =
        (best.len() as f64 / goods as f64, all.len() as f64 / rows.len() as f64);
    among_best * among_best / among_all
        * divergence(
            &density(&dimension.distribution, &best),
            &density(&dimension.distribution, &all),
        )
}

/// The Pearson divergence of `best` from `all`.
fn divergence(best: &[f64], all: &[f64]) -> f64 {
    best.iter()
        .zip(all)
        .map(|(best, all)| (all + FLOOR) * ((best + FLOOR) / (all + FLOOR) - 1.0).powi(2))
        .sum()
}

/// The Parzen estimate on the parameter's grid.
fn density(distribution: &Distribution, values: &[f64]) -> Vec<f64> {
    match distribution {
        Distribution::Choice { choices } => {
            density_of_choices(&counts_of_choices(choices.len(), values))
        }
        _ => density_of_numbers(&counts_on_grid(distribution, values)),
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "indices of a list")]
fn counts_of_choices(choices: usize, values: &[f64]) -> Vec<f64> {
    let mut counts = vec![0.0; choices];
    values.iter().for_each(|value| counts[*value as usize] += 1.0);
    counts
}

/// One kernel per observed choice, weighted by its count, and the prior.
#[expect(clippy::cast_precision_loss, reason = "numbers of choices")]
fn density_of_choices(counts: &[f64]) -> Vec<f64> {
    let seen = counts.iter().filter(|count| **count > 0.0).count();
    let (choices, spread) = (counts.len() as f64, PRIOR / (seen as f64 + 1.0));
    let (total, trials) = (1.0 + spread * choices, counts.iter().sum::<f64>());
    let one = |count: &f64| {
        (trials * spread / total + count / total + PRIOR / choices) / (trials + PRIOR)
    };
    counts.iter().map(one).collect()
}

/// Counts the values nearest to each grid cell; ties go to the lower cell.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "clamped to the grid"
)]
fn counts_on_grid(distribution: &Distribution, values: &[f64]) -> Vec<f64> {
    let (low, high, scale, cells) = match distribution {
        Distribution::Float { low, high, scale, step: None, .. } => (*low, *high, *scale, CELLS),
        Distribution::Float { low, step: Some(step), .. } => {
            let steps = distribution.cardinality().unwrap_or(1).saturating_sub(1) as f64;
            (*low, low + steps * step, Scale::Linear, CELLS.min(steps as usize + 1))
        }
        Distribution::Int { low, high, scale: Scale::Log, .. } => {
            // Small integers are far apart on a logarithmic axis: a cell per power of two.
            let cells = (((high - low + 1) as f64).ln() / 2f64.ln()).ceil() as usize + 1;
            (*low as f64, *high as f64, Scale::Log, CELLS.min(cells))
        }
        Distribution::Int { low, high, step, .. } => {
            let steps = (high - low) / step;
            (
                *low as f64,
                (low + steps * step) as f64,
                Scale::Linear,
                CELLS.min(usize::try_from(steps).unwrap_or(CELLS) + 1),
            )
        }
        Distribution::Choice { choices } => {
            (0.0, choices.len() as f64, Scale::Linear, choices.len())
        }
    };
    let axis = |value: f64| if scale == Scale::Log { value.ln() } else { value };
    let (bottom, top) = (axis(low), axis(high));
    let width = (top - bottom) / (cells - 1).max(1) as f64;
    let mut counts = vec![0.0; cells];
    for value in values {
        let cell = ((axis(*value) - bottom) / width - 0.5).ceil().clamp(0.0, (cells - 1) as f64);
        counts[cell as usize] += 1.0;
    }
    counts
}

/// Normal kernels of one width (Scott's rule) on the non-empty cells, truncated to the grid, and a
/// wide prior.
#[expect(clippy::cast_precision_loss, reason = "cells of a grid")]
fn density_of_numbers(counts: &[f64]) -> Vec<f64> {
    let last = counts.len() as f64 - 1.0;
    let cells: Vec<(f64, f64)> = counts
        .iter()
        .enumerate()
        .filter(|(_, count)| **count > 0.0)
        .map(|(cell, count)| (cell as f64, *count))
        .collect();
    let trials: f64 = counts.iter().sum();
    let deviation = scott(&cells, trials);
    let kernels = cells.iter().map(|(cell, count)| (*cell, deviation, count / (trials + PRIOR)));
    let kernels: Vec<(f64, f64, f64)> =
        kernels.chain([(last / 2.0, last + 1.0, PRIOR / (trials + PRIOR))]).collect();
    let at = |cell: f64| {
        let of = |(middle, deviation, weight): &(f64, f64, f64)| {
            let mass = |low: f64, high: f64| {
                normal_mass((low - middle) / deviation, (high - middle) / deviation)
            };
            weight * mass(cell - 0.5, cell + 0.5) / mass(-0.5, last + 0.5)
        };
        kernels.iter().map(of).sum()
    };
    (0..counts.len()).map(|cell| at(cell as f64)).collect()
}

/// Scott's rule with the interquartile range, on counted cells; at least wide enough to cover a
/// cell.
fn scott(cells: &[(f64, f64)], trials: f64) -> f64 {
    let mean = cells.iter().map(|(cell, count)| cell * count).sum::<f64>() / trials;
    let squares: f64 = cells.iter().map(|(cell, count)| (cell - mean).powi(2) * count).sum();
    let deviation = (squares / (trials - 1.0).max(1.0)).sqrt();
    let cumulated: Vec<f64> = cells
        .iter()
        .scan(0.0, |sum, (_, count)| {
            *sum += count;
            Some(*sum)
        })
        .collect();
    let first = cumulated.partition_point(|sum| *sum < (trials / 4.0).floor());
    let third =
        cumulated.partition_point(|sum| *sum <= (trials * 3.0 / 4.0).floor()).min(cells.len() - 1);
    let range = cells[third].0 - cells[first].0;
    (1.059 * (range / 1.34).min(deviation) * trials.powf(-0.2)).max(0.5 / 1.64)
}

/// The standard normal mass between two points, on the side without cancellation.
fn normal_mass(low: f64, high: f64) -> f64 {
    let (low, high) = if low > 0.0 { (-high, -low) } else { (low, high) };
    let below = |point: f64| 0.5 * libm::erfc(-point / std::f64::consts::SQRT_2);
    below(high) - below(low)
}
