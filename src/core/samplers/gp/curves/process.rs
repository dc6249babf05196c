//! The process over curves, conditioned on observations: losses at any step, of new configurations
//! and of trials.

use super::{CurveData, CurveHyperparameters, FULL, Matrix};
use crate::analysis::linalg::dot;
use crate::samplers::cube::{Cube, slices};
use crate::samplers::gp::kernel::Matern;
use crate::samplers::gp::process::{Acquisition, Columns};

/// Jitter that keeps the covariance positive definite.
pub(super) const JITTER: f64 = 1e-6;

/// The conditioned process.
#[derive(Debug)]
pub(crate) struct CurveProcess<'a> {
    hyperparameters: &'a CurveHyperparameters,
    data: CurveData,
    /// By term of the shared part.
    columns: Vec<Columns>,
    /// Cholesky factor of the covariance.
    factor: Matrix,
    /// `covariance^-1 targets`.
    weights: Vec<f64>,
    /// Prior variance of each observation, noise included.
    variances: Vec<f64>,
    /// The factors of the correlations with a new configuration's end, by term.
    at_end: Vec<Vec<f64>>,
}

/// The end of a new configuration.
#[derive(Debug)]
pub(crate) struct End {
    pub mean: f64,
    pub variance: f64,
    /// The kernel at the distances to the trials, by term.
    kernels: Vec<Vec<Matern>>,
    /// `covariance^-1` times the covariances with the observations.
    solved: Vec<f64>,
}

impl<'a> CurveProcess<'a> {
    /// Conditions on the observations of `data`; `None` if the covariance is not positive definite.
    pub fn new(
        cube: &Cube,
        hyperparameters: &'a CurveHyperparameters,
        data: &CurveData,
    ) -> Option<Self> {
        let points = slices(&data.points);
        let columns: Vec<Columns> = hyperparameters
            .inverse_squares
            .iter()
            .map(|inverse_squares| Columns::new(cube, inverse_squares, &points))
            .collect();
        let rows = &data.observations;
        let mut covariance = Matrix::new(rows.len());
        let mut variances = Vec::with_capacity(rows.len());
        let (mut correlations, mut trial) = (vec![Vec::new(); columns.len()], usize::MAX);
        for (row, own) in rows.iter().enumerate() {
            if own.trial != trial {
                trial = own.trial;
                for (columns, distances) in columns.iter().zip(&mut correlations) {
                    columns.distances(points[trial], trial + 1, distances);
                    for distance in distances {
                        *distance = Matern::at(*distance).correlation();
                    }
                }
            }
            let cells = covariance.row_mut(row);
            for (cell, other) in cells.iter_mut().zip(&rows[..row]) {
                for (term, correlations) in correlations.iter().enumerate() {
                    *cell += correlations[other.trial]
                        * hyperparameters.factor(term, own.step, other.step);
                }
                if other.trial == trial {
                    *cell += hyperparameters.own(own.step, other.step);
                }
            }
            let variance = hyperparameters.variance(own.step);
            let variance = variance + JITTER + hyperparameters.noise + own.noise;
            cells[row] = variance;
            variances.push(variance);
        }
        let factor = covariance.factor()?;
        let targets: Vec<f64> = rows.iter().map(|row| row.target).collect();
        let weights = factor.transposed_solve(&factor.solve(&targets));
        let at_end = (0..columns.len())
            .map(|term| {
                rows.iter().map(|row| hyperparameters.factor(term, FULL, row.step)).collect()
            })
            .collect();
        let data = data.clone();
        Some(CurveProcess { hyperparameters, data, columns, factor, weights, variances, at_end })
    }

    /// The kernel at a configuration's distances to those of the trials, by term.
    fn kernels(&self, point: &[f64]) -> Vec<Vec<Matern>> {
        let of_term = |columns: &Columns| {
            let mut distances = Vec::new();
            columns.distances(point, self.data.points.len(), &mut distances);
            distances.into_iter().map(Matern::at).collect()
        };
        self.columns.iter().map(of_term).collect()
    }

    /// Correlations of a configuration with those of the trials, by term.
    fn correlations(&self, point: &[f64]) -> Vec<Vec<f64>> {
        correlations(&self.kernels(point))
    }

    /// Covariances of a new configuration's loss at a scaled step with the observations.
    fn covariances_at(&self, correlations: &[Vec<f64>], step: f64) -> Vec<f64> {
        let covariance = |row: &super::Observation| {
            let terms = correlations.iter().enumerate();
            terms
                .map(|(term, correlations)| {
                    correlations[row.trial] * self.hyperparameters.factor(term, step, row.step)
                })
                .sum()
        };
        self.data.observations.iter().map(covariance).collect()
    }

    /// [`CurveProcess::covariances_at`] the end of a full trial, with cached factors.
    fn covariances(&self, correlations: &[Vec<f64>]) -> Vec<f64> {
        let mut sums = vec![0.0; self.data.observations.len()];
        for (correlations, factors) in correlations.iter().zip(&self.at_end) {
            for ((sum, row), factor) in sums.iter_mut().zip(&self.data.observations).zip(factors) {
                *sum += correlations[row.trial] * factor;
            }
        }
        sums
    }

    fn variance(&self, step: f64, explained: f64) -> f64 {
        (self.hyperparameters.variance(step) - explained).max(1e-9)
    }

    /// The variance of the noise of a report.
    pub fn noise(&self) -> f64 {
        self.hyperparameters.noise
    }

    /// The mean at the end of a new configuration.
    pub fn mean_of_new(&self, point: &[f64]) -> f64 {
        dot(&self.covariances(&self.correlations(point)), &self.weights)
    }

    /// The mean at the end of a trial, by its index in the history, else of a new configuration.
    pub fn end_of(&self, trial: usize, point: &[f64]) -> f64 {
        match self.data.trials.iter().position(|known| *known == Some(trial)) {
            Some(index) => self.of_trial(index, FULL).0,
            None => self.mean_of_new(point),
        }
    }

    /// The mean at the end of each trial.
    pub fn ends(&self) -> Vec<f64> {
        (0..self.data.points.len()).map(|trial| self.of_trial(trial, FULL).0).collect()
    }

    /// Covariances of a trial's loss at a scaled step with the observations.
    fn of_trial(&self, trial: usize, step: f64) -> (f64, Vec<f64>) {
        let correlations = self.correlations(&self.data.points[trial]);
        let mut covariances = self.covariances_at(&correlations, step);
        for (covariance, row) in covariances.iter_mut().zip(&self.data.observations) {
            if row.trial == trial {
                *covariance += self.hyperparameters.own(step, row.step);
            }
        }
        (dot(&covariances, &self.weights), covariances)
    }

    /// Mean and variance of a trial's loss at a scaled step.
    pub fn moments_of_trial(&self, trial: usize, step: f64) -> (f64, f64) {
        let (mean, covariances) = self.of_trial(trial, step);
        let whitened = self.factor.solve(&covariances);
        (mean, self.variance(step, dot(&whitened, &whitened)))
    }

    /// Mean and variance at the end of a new configuration.
    pub fn moments_at_end(&self, point: &[f64]) -> (f64, f64) {
        let covariances = self.covariances(&self.correlations(point));
        let whitened = self.factor.solve(&covariances);
        (dot(&covariances, &self.weights), self.variance(FULL, dot(&whitened, &whitened)))
    }

    /// Mean and variance of a new configuration's loss at a scaled step.
    pub fn moments_of_new(&self, point: &[f64], step: f64) -> (f64, f64) {
        let correlations = self.correlations(point);
        let covariances = self.covariances_at(&correlations, step);
        let whitened = self.factor.solve(&covariances);
        let mean = dot(&covariances, &self.weights);
        (mean, self.variance(step, dot(&whitened, &whitened)))
    }

    /// The difference of an observation from what all observations but `left_out` predict of it, of
    /// which it is the last, in deviations of that prediction (leave-one-out of several: Rasmussen
    /// and Williams 2006, section 5.4.2).
    pub fn standard_residual(&self, left_out: &[usize]) -> Option<f64> {
        let unit = |size: usize, at: usize| {
            let mut unit = vec![0.0; size];
            unit[at] = 1.0;
            unit
        };
        let whitened = |at: &usize| self.factor.solve(&unit(self.weights.len(), *at));
        let whitened: Vec<Vec<f64>> = left_out.iter().map(whitened).collect();
        let mut precision = Matrix::new(left_out.len());
        for (row, own) in whitened.iter().enumerate() {
            for (cell, other) in precision.row_mut(row).iter_mut().zip(&whitened[..=row]) {
                *cell = dot(own, other);
            }
        }
        let factor = precision.factor()?;
        let weights: Vec<f64> = left_out.iter().map(|at| self.weights[*at]).collect();
        let residual = *factor.transposed_solve(&factor.solve(&weights)).last()?;
        let last = factor.solve(&unit(left_out.len(), left_out.len() - 1));
        let variance = dot(&last, &last);
        Some(residual / variance.sqrt()).filter(|residual| residual.is_finite())
    }

    /// The log expected improvement at the end of a new configuration.
    pub fn value(&self, point: &[f64], incumbent: f64) -> f64 {
        let (mean, variance) = self.moments_at_end(point);
        Acquisition::Improvement(incumbent).of(mean, variance).0
    }

    /// An upper bound of it at a fraction of the cost: the variance is conditioned on the most
    /// informative observation only.
    pub fn most_improvement(&self, point: &[f64], incumbent: f64) -> f64 {
        let covariances = self.covariances(&self.correlations(point));
        let explained = covariances
            .iter()
            .zip(&self.variances)
            .map(|(covariance, variance)| covariance * covariance / variance)
            .fold(0.0, f64::max);
        let mean = dot(&covariances, &self.weights);
        Acquisition::Improvement(incumbent).of(mean, self.variance(FULL, explained)).0
    }

    /// The log expected improvement, with its gradient along numeric axes (0 along others).
    pub fn value_and_gradient(&self, point: &[f64], incumbent: f64) -> (f64, Vec<f64>) {
        let end = self.predict_end(point);
        let (value, by_mean, by_variance) =
            Acquisition::Improvement(incumbent).of(end.mean, end.variance);
        (value, self.gradient(point, &end, by_mean, by_variance))
    }

    /// Mean and variance at the end of a new configuration, and what their gradients need.
    pub fn predict_end(&self, point: &[f64]) -> End {
        let kernels = self.kernels(point);
        let covariances = self.covariances(&correlations(&kernels));
        let whitened = self.factor.solve(&covariances);
        let variance = self.variance(FULL, dot(&whitened, &whitened));
        let solved = self.factor.transposed_solve(&whitened);
        End { mean: dot(&covariances, &self.weights), variance, kernels, solved }
    }

    /// The gradient along numeric axes of a function with these derivatives by mean and variance.
    pub fn gradient(&self, point: &[f64], end: &End, by_mean: f64, by_variance: f64) -> Vec<f64> {
        let mut gradient = vec![0.0; point.len()];
        let terms = self.columns.iter().zip(&end.kernels).zip(&self.at_end);
        for (((columns, kernels), factors), inverse_squares) in
            terms.zip(&self.hyperparameters.inverse_squares)
        {
            let mut pulls = vec![0.0; self.data.points.len()];
            for (index, row) in self.data.observations.iter().enumerate() {
                pulls[row.trial] += factors[index]
                    * (by_mean * self.weights[index] - 2.0 * by_variance * end.solved[index]);
            }
            for (pull, kernel) in pulls.iter_mut().zip(kernels) {
                *pull *= -kernel.derivative();
            }
            let own = columns.gradient(point, &pulls, inverse_squares);
            gradient.iter_mut().zip(own).for_each(|(all, own)| *all += own);
        }
        gradient
    }
}

/// Correlations, by term.
fn correlations(kernels: &[Vec<Matern>]) -> Vec<Vec<f64>> {
    kernels.iter().map(|term| term.iter().map(|kernel| kernel.correlation()).collect()).collect()
}
