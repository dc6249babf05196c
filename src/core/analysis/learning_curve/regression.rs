//! Bayesian linear regression with shrinkage and noise by maximum evidence.

use crate::analysis::linalg::{Matrix, dot};

use super::{MOST_LEVERAGE, mean};

/// Fixed-point iterations; it converges in about ten.
const ROUNDS: usize = 20;
/// Prior scale of weights and noise, relative to the targets' variance; its weight in rows.
const SHARE: f64 = 0.25;
const PRIOR_WEIGHT_OF_WEIGHTS: f64 = 2.0;
const PRIOR_WEIGHT_OF_NOISE: f64 = 3.0;

/// `y = intercept + w x + noise` with one precision for all weights (the evidence procedure:
/// MacKay, *Bayesian Interpolation*, 1992, equations 4.4 to 4.6, with a weak gamma prior on both
/// precisions).
#[derive(Clone, Debug)]
pub(super) struct Regression {
    centre: Vec<f64>,
    intercept: f64,
    weights: Vec<f64>,
    /// Inverse Cholesky factor of the weights' precision matrix.
    root: Matrix,
    noise: f64,
    /// Leave-one-out residuals.
    pub left_out: Vec<f64>,
}

impl Regression {
    /// Fits rows of equal length; `None` if the system is singular. The first weight is at least
    /// -1: the first feature is the value whose change is the target, and differences do not
    /// reverse.
    #[expect(clippy::cast_precision_loss, reason = "numbers of rows and columns")]
    pub fn learned(rows: &[&[f64]], targets: &[f64]) -> Option<Self> {
        let (count, width) = (rows.len() as f64, rows.first()?.len());
        let centre: Vec<f64> = (0..width)
            .map(|column| mean(&rows.iter().map(|row| row[column]).collect::<Vec<f64>>()))
            .collect();
        let centred: Vec<Vec<f64>> = rows
            .iter()
            .map(|row| row.iter().zip(&centre).map(|(cell, centre)| cell - centre).collect())
            .collect();
        let intercept = mean(targets);
        let targets: Vec<f64> = targets.iter().map(|target| target - intercept).collect();
        let variance = (dot(&targets, &targets) / count).max(1e-12);
        let (gram, product) = sums(&centred, &targets, width);
        let columns = width as f64;
        let (mut shrinkage, mut precision) = (columns / variance, 1.0 / variance);
        let mut solved = Solved::new(&gram, &product, shrinkage, precision)?;
        for _ in 0..ROUNDS {
            // Effective number of parameters.
            let decided = columns - shrinkage * solved.trace;
            let missed: f64 = centred
                .iter()
                .zip(&targets)
                .map(|(row, target)| (target - dot(row, &solved.weights)).powi(2))
                .sum();
            shrinkage = (decided + PRIOR_WEIGHT_OF_WEIGHTS)
                / (dot(&solved.weights, &solved.weights)
                    + PRIOR_WEIGHT_OF_WEIGHTS * SHARE * variance / columns);
            precision = ((count - decided - 1.0).max(0.0) + PRIOR_WEIGHT_OF_NOISE)
                / (missed + PRIOR_WEIGHT_OF_NOISE * SHARE * variance);
            solved = Solved::new(&gram, &product, shrinkage, precision)?;
        }
        let left_out = centred.iter().zip(&targets).map(|(row, target)| {
            let leverage = precision * solved.root.square_of_product(row) + 1.0 / count;
            (target - dot(row, &solved.weights)) / (1.0 - leverage.min(MOST_LEVERAGE))
        });
        let left_out = left_out.collect();
        let Solved { mut weights, root, .. } = solved;
        weights[0] = weights[0].max(-1.0);
        Some(Regression { centre, intercept, weights, root, noise: 1.0 / precision, left_out })
    }

    /// Mean and variance of the target of a row.
    pub fn expect(&self, row: &[f64]) -> (f64, f64) {
        let centred: Vec<f64> =
            row.iter().zip(&self.centre).map(|(cell, centre)| cell - centre).collect();
        (
            self.intercept + dot(&centred, &self.weights),
            self.root.square_of_product(&centred) + self.noise,
        )
    }
}

/// Weights for a given shrinkage and precision.
struct Solved {
    weights: Vec<f64>,
    /// Inverse Cholesky factor of the weights' precision matrix.
    root: Matrix,
    /// The trace of their covariance.
    trace: f64,
}

impl Solved {
    fn new(gram: &Matrix, product: &[f64], shrinkage: f64, precision: f64) -> Option<Self> {
        let width = product.len();
        let mut matrix = Matrix::new(width);
        for row in 0..width {
            let cells = matrix.row_mut(row);
            cells[..=row]
                .iter_mut()
                .zip(gram.row(row))
                .for_each(|(cell, sum)| *cell = precision * sum);
            cells[row] += shrinkage;
        }
        let root = matrix.factor()?.inverse_of_factor();
        let weights = root
            .transposed_times(&root.times(product))
            .into_iter()
            .map(|weight| precision * weight)
            .collect();
        let trace = (0..width).map(|row| dot(&root.row(row)[..=row], &root.row(row)[..=row])).sum();
        Some(Solved { weights, root, trace })
    }
}

/// `X^T X`, the lower part, and `X^T y`.
fn sums(rows: &[Vec<f64>], targets: &[f64], width: usize) -> (Matrix, Vec<f64>) {
    let (mut gram, mut product) = (Matrix::new(width), vec![0.0; width]);
    for (cells, target) in rows.iter().zip(targets) {
        for (row, cell) in cells.iter().enumerate() {
            gram.row_mut(row)[..=row]
                .iter_mut()
                .zip(cells)
                .for_each(|(sum, other)| *sum += cell * other);
            product[row] += cell * target;
        }
    }
    (gram, product)
}

/// The mean square; infinite for an empty slice.
#[expect(clippy::cast_precision_loss, reason = "a number of rows")]
pub(super) fn mean_square(of: &[f64]) -> f64 {
    if of.is_empty() { f64::INFINITY } else { dot(of, of) / of.len() as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(index: usize, by: f64) -> f64 {
        (index as f64 * by).fract() - 0.5
    }

    /// Random rows with one column per factor.
    fn rows(count: usize, factors: &[f64]) -> Vec<Vec<f64>> {
        let row = |row| factors.iter().map(|by| number(row, *by)).collect();
        (1..=count).map(row).collect()
    }

    fn learned(rows: &[Vec<f64>], targets: &[f64]) -> Regression {
        let rows: Vec<&[f64]> = rows.iter().map(Vec::as_slice).collect();
        Regression::learned(&rows, targets).unwrap()
    }

    #[test]
    fn weights_of_a_line_are_found_and_idle_columns_shrink() {
        let rows = rows(60, &[0.618, 0.755, 0.569, 0.347]);
        let target = |(index, row): (usize, &Vec<f64>)| {
            3.0 + 2.0 * row[0] - row[1] + 0.02 * number(index, 0.414)
        };
        let targets: Vec<f64> = (1..).zip(&rows).map(target).collect();
        let regression = learned(&rows, &targets);
        for (weight, expected) in regression.weights.iter().zip([2.0, -1.0, 0.0, 0.0]) {
            assert!((weight - expected).abs() < 0.02, "{:?}", regression.weights);
        }
        let (value, variance) = regression.expect(&[0.25, 0.25, 0.0, 0.0]);
        assert!((value - 3.25).abs() < 0.02 && variance < 0.01, "{value} {variance}");
    }

    /// Each row actually left out, at the same shrinkage and noise.
    #[test]
    fn what_is_missed_without_a_row_is_what_a_regression_without_it_misses() {
        let rows = rows(30, &[0.618, 0.755]);
        let targets: Vec<f64> =
            (1..=30).map(|row| number(row, 0.618) + number(row, 0.414)).collect();
        let all = learned(&rows, &targets);
        for left in [0, 7, 29] {
            let (mut others, mut kept) = (rows.clone(), targets.clone());
            let (row, target) = (others.remove(left), kept.remove(left));
            let missed = target - learned(&others, &kept).expect(&row).0;
            assert!((missed - all.left_out[left]).abs() < 0.02, "{missed} {}", all.left_out[left]);
        }
    }

    #[test]
    fn noise_and_equal_rows_leave_the_mean() {
        let noise: Vec<Vec<f64>> = (0..40)
            .map(|row| (1..20).map(|column| number(row * 20 + column, 0.618)).collect())
            .collect();
        let targets: Vec<f64> = (0..40).map(|row| number(row + 3, 0.414)).collect();
        let regression = learned(&noise, &targets);
        assert!(mean_square(&regression.left_out) < 1.5 * mean_square(&targets));
        let same = learned(&vec![vec![1.0, 2.0]; 9], &[4.0; 9]);
        assert!((same.expect(&[1.0, 2.0]).0 - 4.0).abs() < 1e-9);
        assert!(Regression::learned(&[], &[]).is_none());
    }
}
