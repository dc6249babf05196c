//! Fits the hyperparameters of the process over curves: the posterior mode (MAP), by Rprop.

use super::process::JITTER;
use super::{CurveHyperparameters, Lengths, Observation};
use crate::analysis::linalg::{Matrix, dot, dots, weighted_sum};
use crate::samplers::cube::{Cube, Point};
use crate::samplers::gp::fit::{Climb, climb};
use crate::samplers::gp::kernel::{Exponential, Kernels, square};

/// Optimisation steps.
const STEPS: usize = 30;
/// Number of hyperparameters besides the length scales.
const OTHERS: usize = 6;
/// Means and deviations of normal priors on the logarithms of a, b, c, d, h and the noise, and
/// bounds.
const PRIORS: [(f64, f64); OTHERS] =
    [(0.0, 1.5), (-1.0, 1.5), (-2.0, 1.5), (-1.0, 1.5), (1.0986, 1.0), (-6.9078, 2.0)];
const BOUNDS: [(f64, f64); OTHERS] =
    [(-8.0, 5.0), (-8.0, 5.0), (-8.0, 5.0), (-8.0, 5.0), (-2.0, 5.0), (-12.0, 2.0)];
const LENGTH: (f64, f64) = (-4.0, 5.0);

/// The posterior of the hyperparameters.
pub(super) struct Posterior<'a> {
    observations: &'a [Observation],
    targets: Vec<f64>,
    /// Per axis: squared distances of all pairs of trials (row above column), row by row.
    squares: Vec<Vec<f64>>,
    trials: usize,
    /// Terms of the shared part.
    terms: usize,
    length_centre: f64,
    exponential: Exponential,
}

impl<'a> Posterior<'a> {
    #[expect(clippy::cast_precision_loss, reason = "a number of axes")]
    pub fn new(
        cube: &Cube,
        points: &[Point],
        observations: &'a [Observation],
        lengths: Lengths,
        exponential: Exponential,
    ) -> Self {
        let pairs = |axis: usize| {
            let kind = cube.axes[axis].kind;
            (0..points.len())
                .flat_map(move |row| {
                    (0..row)
                        .map(move |column| square(kind, points[row][axis], points[column][axis]))
                })
                .collect()
        };
        let axes = cube.axes.len();
        Posterior {
            observations,
            targets: observations.iter().map(|one| one.target).collect(),
            squares: (0..axes).map(pairs).collect(),
            trials: points.len(),
            terms: if lengths == Lengths::Shared { 1 } else { 2 },
            // Distances grow with the square root of the number of axes.
            length_centre: (0.3 * (axes.max(1) as f64).sqrt()).ln(),
            exponential,
        }
    }

    /// The mode, from the prior's centre.
    pub fn mode(&self) -> CurveHyperparameters {
        let mut start = vec![self.length_centre; self.lengths()];
        start.extend(PRIORS.map(|(centre, _)| centre));
        let lengths = self.lengths();
        let bounds = |index: usize| match index.checked_sub(lengths) {
            Some(other) => BOUNDS[other],
            None => LENGTH,
        };
        let found = climb(Climb::from(start), STEPS, bounds, |at| self.value_and_gradient(at));
        self.hyperparameters(&found.best.1)
    }

    /// Number of length scales.
    fn lengths(&self) -> usize {
        self.terms * self.squares.len()
    }

    fn hyperparameters(&self, logarithms: &[f64]) -> CurveHyperparameters {
        let (lengths, others) = logarithms.split_at(self.lengths());
        let axes = self.squares.len();
        let term = |term: usize| -> Vec<f64> {
            let own = &lengths[term * axes..(term + 1) * axes];
            own.iter().map(|length| (-2.0 * length).exp()).collect()
        };
        CurveHyperparameters {
            inverse_squares: (0..self.terms).map(term).collect(),
            level: others[0].exp(),
            approach: others[1].exp(),
            own_level: others[2].exp(),
            own_approach: others[3].exp(),
            half_life: others[4].exp(),
            noise: others[5].exp(),
            exponential: self.exponential,
        }
    }

    /// The kernel at the distances of all pairs of trials.
    fn kernels(&self, inverse_squares: &[f64]) -> Kernels {
        let pairs = self.trials * self.trials.saturating_sub(1) / 2;
        self.exponential.kernels(weighted_sum(&self.squares, inverse_squares, pairs))
    }

    /// Logarithm of the posterior (up to a constant), and its gradient.
    pub fn value_and_gradient(&self, at: &[f64]) -> Option<(f64, Vec<f64>)> {
        let own = self.hyperparameters(at);
        let (correlations, derivatives): (Vec<_>, Vec<_>) = own
            .inverse_squares
            .iter()
            .map(|term| self.kernels(term))
            .map(|kernels| (kernels.correlations, kernels.derivatives))
            .unzip();
        let pair = |a: usize, b: usize| {
            let (low, high) = if a < b { (a, b) } else { (b, a) };
            high * high.saturating_sub(1) / 2 + low
        };
        let rows = self.observations;
        let mut covariance = Matrix::new(rows.len());
        for (index, row) in rows.iter().enumerate() {
            let cells = covariance.row_mut(index);
            for (cell, other) in cells.iter_mut().zip(&rows[..index]) {
                *cell = if row.trial == other.trial {
                    own.shared(row.step, other.step) + own.own(row.step, other.step)
                } else {
                    let pair = pair(row.trial, other.trial);
                    let term = |(term, correlations): (usize, &Vec<f64>)| {
                        correlations[pair] * own.factor(term, row.step, other.step)
                    };
                    correlations.iter().enumerate().map(term).sum()
                };
            }
            cells[index] = own.variance(row.step) + JITTER + own.noise + row.noise;
        }
        let factor = covariance.factor()?;
        let log_determinant: f64 = (0..rows.len()).map(|row| factor.row(row)[row].ln()).sum();
        let inverse_factor = factor.inverse_of_factor();
        let whitened = inverse_factor.times(&self.targets);
        let weights = inverse_factor.transposed_times(&whitened);
        let mut value = -0.5 * dot(&whitened, &whitened) - log_determinant;
        let inverse = inverse_factor.gram();
        // Half the trace of (weights weights^T - inverse) times the derivative of the covariance:
        // pairs count twice.
        let mut pulls: Vec<Vec<f64>> =
            derivatives.iter().map(|derivatives| vec![0.0; derivatives.len()]).collect();
        let mut others = [0.0; OTHERS];
        for (index, row) in rows.iter().enumerate() {
            let cells = inverse.row(index);
            for (column, other) in rows[..=index].iter().enumerate() {
                let half = if column == index { 0.5 } else { 1.0 };
                let pull = half * (weights[index] * weights[column] - cells[column]);
                let decay = own.decay(row.step, other.step);
                let same = row.trial == other.trial;
                // The correlations in the level and in the approach.
                let (of_level, of_approach) = if same {
                    (1.0, 1.0)
                } else {
                    let pair = pair(row.trial, other.trial);
                    for (term, pulls) in pulls.iter_mut().enumerate() {
                        pulls[pair] += pull * own.factor(term, row.step, other.step);
                    }
                    (correlations[0][pair], correlations[self.terms - 1][pair])
                };
                let steps = row.step + other.step;
                // The derivative of the decay by the logarithm of the half-life.
                let by_half_life = decay * steps / (steps + own.half_life);
                others[0] += pull * of_level * own.level;
                others[1] += pull * of_approach * own.approach * decay;
                let mut approach = own.approach * of_approach;
                if same {
                    others[2] += pull * own.own_level;
                    others[3] += pull * own.own_approach * decay;
                    approach += own.own_approach;
                }
                others[4] += pull * approach * by_half_life;
                if column == index {
                    others[5] += pull * own.noise;
                }
            }
        }
        let mut gradient: Vec<f64> = Vec::with_capacity(at.len());
        for ((pulls, derivatives), term) in
            pulls.iter_mut().zip(&derivatives).zip(&own.inverse_squares)
        {
            for (pull, derivative) in pulls.iter_mut().zip(derivatives) {
                *pull *= derivative;
            }
            let by_axis = dots(&self.squares, pulls);
            gradient.extend(by_axis.iter().zip(term).map(|(pull, scale)| scale * pull));
        }
        gradient.extend(others);
        let lengths = self.lengths();
        for (index, logarithm) in at.iter().enumerate() {
            let (centre, deviation) = match index.checked_sub(lengths) {
                Some(other) => PRIORS[other],
                None => (self.length_centre, 1.0),
            };
            let off = (logarithm - centre) / deviation;
            value -= 0.5 * off * off;
            gradient[index] -= off / deviation;
        }
        value.is_finite().then_some((value, gradient))
    }
}
