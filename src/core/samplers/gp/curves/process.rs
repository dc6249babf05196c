//! The process over curves, conditioned on observations: losses at any step, of new configurations
//! and of trials.

use super::{CurveData, CurveHyperparameters, FULL, Matrix};
use crate::analysis::linalg::{dot, largest_quotient};
use crate::samplers::cube::{Cube, slices};
use crate::samplers::gp::kernel::{Exponential, Kernels};
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
    whitening: Whitening,
    /// `covariance^-1 targets`.
    weights: Vec<f64>,
    /// Prior variance of each observation, noise included.
    variances: Vec<f64>,
    /// The factors of the correlations with a new configuration's end, by term.
    at_end: Vec<Vec<f64>>,
}

/// What makes covariances with the observations independent.
#[derive(Debug)]
enum Whitening {
    /// Cholesky factor of the covariance, whose equations are solved.
    Factor(Matrix),
    /// Its inverse, which is multiplied with.
    Inverse(Matrix),
}

impl Whitening {
    /// `factor^-1 v`.
    fn times(&self, vector: &[f64]) -> Vec<f64> {
        match self {
            Whitening::Factor(factor) => factor.solve(vector),
            Whitening::Inverse(inverse) => inverse.times(vector),
        }
    }

    /// The same of several vectors.
    fn times_each(&self, vectors: &[Vec<f64>]) -> Vec<Vec<f64>> {
        match self {
            Whitening::Factor(factor) => vectors.iter().map(|one| factor.solve(one)).collect(),
            Whitening::Inverse(inverse) => inverse.times_each(vectors),
        }
    }

    /// The same of several vectors.
    fn transposed_times_each(&self, vectors: &[Vec<f64>]) -> Vec<Vec<f64>> {
        match self {
            Whitening::Factor(factor) => {
                vectors.iter().map(|one| factor.transposed_solve(one)).collect()
            }
            Whitening::Inverse(inverse) => inverse.transposed_times_each(vectors),
        }
    }

    /// `factor^-T v`.
    fn transposed_times(&self, vector: &[f64]) -> Vec<f64> {
        match self {
            Whitening::Factor(factor) => factor.transposed_solve(vector),
            Whitening::Inverse(inverse) => inverse.transposed_times(vector),
        }
    }
}

/// The end of a new configuration.
#[derive(Debug)]
pub(crate) struct End {
    pub mean: f64,
    pub variance: f64,
    /// The kernel at the distances to the trials, by term.
    kernels: Vec<Kernels>,
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
                    hyperparameters.exponential.correlate(distances);
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
        let whitening = match hyperparameters.exponential {
            Exponential::System => Whitening::Factor(factor),
            Exponential::Own => Whitening::Inverse(factor.inverse_of_factor()),
        };
        let weights = whitening.transposed_times(&whitening.times(&targets));
        let at_end = (0..columns.len())
            .map(|term| {
                rows.iter().map(|row| hyperparameters.factor(term, FULL, row.step)).collect()
            })
            .collect();
        let data = data.clone();
        Some(CurveProcess { hyperparameters, data, columns, whitening, weights, variances, at_end })
    }

    /// Squared scaled distances of a configuration to those of the trials, by term.
    fn distances(&self, point: &[f64]) -> impl Iterator<Item = Vec<f64>> {
        self.columns.iter().map(|columns| {
            let mut distances = Vec::new();
            columns.distances(point, self.data.points.len(), &mut distances);
            distances
        })
    }

    /// Correlations of a configuration with those of the trials, by term.
    fn correlations(&self, point: &[f64]) -> Vec<Vec<f64>> {
        let correlated = |mut distances: Vec<f64>| {
            self.hyperparameters.exponential.correlate(&mut distances);
            distances
        };
        self.distances(point).map(correlated).collect()
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
    fn covariances<'c>(&self, correlations: impl Iterator<Item = &'c Vec<f64>>) -> Vec<f64> {
        let mut sums = vec![0.0; self.data.observations.len()];
        for (correlations, factors) in correlations.zip(&self.at_end) {
            for ((sum, row), factor) in sums.iter_mut().zip(&self.data.observations).zip(factors) {
                *sum += correlations[row.trial] * factor;
            }
        }
        sums
    }

    /// The same of a new configuration.
    pub fn covariances_of(&self, point: &[f64]) -> Vec<f64> {
        self.covariances(self.correlations(point).iter())
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
        dot(&self.covariances_of(point), &self.weights)
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
        let whitened = self.whitening.times(&covariances);
        (mean, self.variance(step, dot(&whitened, &whitened)))
    }

    /// Mean and variance at the end of a new configuration.
    pub fn moments_at_end(&self, point: &[f64]) -> (f64, f64) {
        let covariances = self.covariances(self.correlations(point).iter());
        let whitened = self.whitening.times(&covariances);
        (dot(&covariances, &self.weights), self.variance(FULL, dot(&whitened, &whitened)))
    }

    /// Mean and variance of a new configuration's loss at a scaled step.
    pub fn moments_of_new(&self, point: &[f64], step: f64) -> (f64, f64) {
        let correlations = self.correlations(point);
        let covariances = self.covariances_at(&correlations, step);
        let whitened = self.whitening.times(&covariances);
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
        let whitened = |at: &usize| self.whitening.times(&unit(self.weights.len(), *at));
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

    /// The log expected improvement at the end of several new configurations.
    pub fn values(&self, points: &[&[f64]], incumbent: f64) -> Vec<f64> {
        let covariances: Vec<_> = points.iter().map(|point| self.covariances_of(point)).collect();
        self.values_with(&covariances, incumbent)
    }

    /// The same of configurations with these covariances.
    pub fn values_with(&self, covariances: &[Vec<f64>], incumbent: f64) -> Vec<f64> {
        let whitened = self.whitening.times_each(covariances);
        let value = |(covariances, whitened): (&Vec<f64>, Vec<f64>)| {
            let variance = self.variance(FULL, dot(&whitened, &whitened));
            Acquisition::Improvement(incumbent).of(dot(covariances, &self.weights), variance).0
        };
        covariances.iter().zip(whitened).map(value).collect()
    }

    /// An upper bound of it at a fraction of the cost: the variance is conditioned on the most
    /// informative observation only.
    pub fn most_improvement(&self, covariances: &[f64], incumbent: f64) -> f64 {
        let explained = largest_quotient(covariances, &self.variances);
        let mean = dot(covariances, &self.weights);
        Acquisition::Improvement(incumbent).of(mean, self.variance(FULL, explained)).0
    }

    /// The log expected improvements, with their gradients along numeric axes (0 along others).
    pub fn values_and_gradients(&self, points: &[&[f64]], incumbent: f64) -> Vec<(f64, Vec<f64>)> {
        let value_and_gradient = |(point, end): (&&[f64], End)| {
            let (value, by_mean, by_variance) =
                Acquisition::Improvement(incumbent).of(end.mean, end.variance);
            (value, self.gradient(point, &end, by_mean, by_variance))
        };
        points.iter().zip(self.predict_ends(points)).map(value_and_gradient).collect()
    }

    /// Mean and variance at the end of several new configurations, and what their gradients need.
    pub fn predict_ends(&self, points: &[&[f64]]) -> Vec<End> {
        let kernels = |point: &&[f64]| -> Vec<Kernels> {
            let exponential = self.hyperparameters.exponential;
            self.distances(point).map(|distances| exponential.kernels(distances)).collect()
        };
        let kernels: Vec<Vec<Kernels>> = points.iter().map(kernels).collect();
        let covariances: Vec<Vec<f64>> = kernels
            .iter()
            .map(|terms| self.covariances(terms.iter().map(|term| &term.correlations)))
            .collect();
        let whitened = self.whitening.times_each(&covariances);
        let solved = self.whitening.transposed_times_each(&whitened);
        let parts = kernels.into_iter().zip(covariances).zip(whitened).zip(solved);
        parts
            .map(|(((kernels, covariances), whitened), solved)| End {
                mean: dot(&covariances, &self.weights),
                variance: self.variance(FULL, dot(&whitened, &whitened)),
                kernels,
                solved,
            })
            .collect()
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
            for (pull, derivative) in pulls.iter_mut().zip(&kernels.derivatives) {
                *pull *= -derivative;
            }
            let own = columns.gradient(point, &pulls, inverse_squares);
            gradient.iter_mut().zip(own).for_each(|(all, own)| *all += own);
        }
        gradient
    }
}
