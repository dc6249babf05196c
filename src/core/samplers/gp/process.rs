//! A Gaussian process conditioned on data: mean, deviation, and acquisition functions.

use super::kernel::{Hyperparameters, Kernels, square};
use super::widening::widening;
use crate::analysis::linalg::{Matrix, dot, largest_quotient};
use crate::samplers::cube::{AxisKind, Cube};
use crate::samplers::normal::{LN_ROOT_TWO_PI, log_cdf, log_expected_improvement};
use crate::simd::{simd_level, vectorised};

/// Data points before which nothing is known well enough for a prediction to say anything.
const FEW: usize = 5;

/// The conditioned process.
#[derive(Debug)]
pub(super) struct GaussianProcess<'a> {
    hyperparameters: &'a Hyperparameters,
    columns: Columns,
    /// Inverse of the Cholesky factor of the covariance.
    inverse_factor: Matrix,
    /// By how many standard deviations each target differs from what those before predict of it.
    innovations: Vec<f64>,
    /// `covariance^-1 targets`.
    weights: Vec<f64>,
    /// Additional noise variance of each data point.
    noise_variances: Vec<f64>,
    /// Prior variance of each, noise included.
    variances: Vec<f64>,
}

/// The process at one point.
#[derive(Debug)]
pub(super) struct Prediction {
    /// The mean.
    pub mean: f64,
    /// The variance, without noise.
    pub variance: f64,
    /// The kernel at the distances to the data.
    kernels: Kernels,
    /// `covariance^-1` times the covariances with the data.
    solved: Vec<f64>,
}

/// An acquisition function of the predicted mean and variance.
#[derive(Clone, Copy, Debug)]
pub(super) enum Acquisition {
    /// Logarithm of the expected improvement on this value.
    Improvement(f64),
    /// Logarithm of the probability of at most this value.
    AtMost(f64),
}

impl<'a> GaussianProcess<'a> {
    /// Conditions on warped losses `targets` at `points`, with additional noise variances
    /// `noise_variances`; `None` if the covariance is not positive definite.
    pub fn new(
        cube: &Cube,
        hyperparameters: &'a Hyperparameters,
        points: &[&[f64]],
        targets: &[f64],
        noise_variances: &[f64],
    ) -> Option<Self> {
        let columns = Columns::new(cube, &hyperparameters.inverse_squares, points);
        let mut covariance = Matrix::new(points.len());
        let (mut distances, mut variances) = (Vec::new(), Vec::with_capacity(points.len()));
        for (row, point) in points.iter().enumerate() {
            columns.distances(point, row, &mut distances);
            hyperparameters.exponential.correlate(&mut distances);
            let cells = covariance.row_mut(row);
            for (cell, correlation) in cells.iter_mut().zip(&distances) {
                *cell = hyperparameters.variance * correlation;
            }
            cells[row] = own_variance(hyperparameters) + noise_variances[row];
            variances.push(cells[row]);
        }
        let inverse_factor = covariance.factor()?.inverse_of_factor();
        let innovations = inverse_factor.times(targets);
        let weights = inverse_factor.transposed_times(&innovations);
        Some(GaussianProcess {
            hyperparameters,
            columns,
            inverse_factor,
            innovations,
            weights,
            noise_variances: noise_variances.to_vec(),
            variances,
        })
    }

    /// The variance of the noise of each data point.
    pub fn noise(&self) -> f64 {
        self.hyperparameters.noise
    }

    /// By how much intervals are widened so that nine in ten of the measured targets lie in theirs,
    /// each predicted from those before it as a proposal is. `is_measured`: of the first data
    /// points.
    pub fn widening(&self, is_measured: &[bool]) -> f64 {
        let known = self.innovations.iter().zip(is_measured).skip(FEW);
        widening(known.filter(|(_, is_measured)| **is_measured).map(|(innovation, _)| *innovation))
    }

    /// Mean at `point`.
    pub fn mean(&self, point: &[f64]) -> f64 {
        dot(&self.covariances(point), &self.weights)
    }

    /// Squared scaled distances to the data.
    fn distances(&self, point: &[f64]) -> Vec<f64> {
        let mut distances = Vec::new();
        self.columns.distances(point, self.weights.len(), &mut distances);
        distances
    }

    /// Covariances with the data.
    pub fn covariances(&self, point: &[f64]) -> Vec<f64> {
        let mut distances = self.distances(point);
        self.hyperparameters.exponential.correlate(&mut distances);
        self.scaled(distances)
    }

    /// Covariances from correlations.
    fn scaled(&self, mut correlations: Vec<f64>) -> Vec<f64> {
        for correlation in &mut correlations {
            *correlation *= self.hyperparameters.variance;
        }
        correlations
    }

    /// An upper bound of the log expected improvement at a point with these covariances, at a tenth
    /// of the cost: the variance is conditioned on the most correlated data point only.
    pub fn most_improvement(&self, covariances: &[f64], incumbent: f64) -> f64 {
        let explained = largest_quotient(covariances, &self.variances);
        let mean = dot(covariances, &self.weights);
        Acquisition::Improvement(incumbent).of(mean, self.variance(explained)).0
    }

    /// Mean and variance at `point`.
    pub fn moments(&self, point: &[f64]) -> (f64, f64) {
        let covariances = self.covariances(point);
        let explained = self.inverse_factor.square_of_product(&covariances);
        (dot(&covariances, &self.weights), self.variance(explained))
    }

    /// The acquisition values at several points.
    pub fn values(&self, points: &[&[f64]], acquisition: Acquisition) -> Vec<f64> {
        let covariances: Vec<_> = points.iter().map(|point| self.covariances(point)).collect();
        self.values_with(&covariances, acquisition)
    }

    /// The same at points with these covariances.
    pub fn values_with(&self, covariances: &[Vec<f64>], acquisition: Acquisition) -> Vec<f64> {
        let whitened = self.inverse_factor.times_each(covariances);
        let value = |(covariances, whitened): (&Vec<f64>, Vec<f64>)| {
            let explained = whitened.iter().map(|part| part * part).sum();
            acquisition.of(dot(covariances, &self.weights), self.variance(explained)).0
        };
        covariances.iter().zip(whitened).map(value).collect()
    }

    /// The same, with their gradients along numeric axes (0 along others).
    pub fn values_and_gradients(
        &self,
        points: &[&[f64]],
        acquisition: Acquisition,
    ) -> Vec<(f64, Vec<f64>)> {
        let value_and_gradient = |(point, prediction): (&&[f64], Prediction)| {
            let (value, by_mean, by_variance) =
                acquisition.of(prediction.mean, prediction.variance);
            (value, self.gradient(point, &prediction, by_mean, by_variance))
        };
        points.iter().zip(self.predict_each(points)).map(value_and_gradient).collect()
    }

    /// Mean and variance at each of several points, and what their gradients need.
    pub fn predict_each(&self, points: &[&[f64]]) -> Vec<Prediction> {
        let kernels = |point| self.hyperparameters.exponential.kernels(self.distances(point));
        let kernels: Vec<Kernels> = points.iter().map(|point| kernels(*point)).collect();
        let covariances: Vec<Vec<f64>> =
            kernels.iter().map(|kernels| self.scaled(kernels.correlations.clone())).collect();
        let whitened = self.inverse_factor.times_each(&covariances);
        let solved = self.inverse_factor.transposed_times_each(&whitened);
        let parts = kernels.into_iter().zip(covariances).zip(whitened).zip(solved);
        parts
            .map(|(((kernels, covariances), whitened), solved)| Prediction {
                mean: dot(&covariances, &self.weights),
                variance: self.variance(dot(&whitened, &whitened)),
                kernels,
                solved,
            })
            .collect()
    }

    /// The gradient along numeric axes of a function with these derivatives by mean and variance.
    pub fn gradient(
        &self,
        point: &[f64],
        prediction: &Prediction,
        by_mean: f64,
        by_variance: f64,
    ) -> Vec<f64> {
        // The covariance's derivative along an axis is the negative pull times the scaled
        // difference of positions.
        let pulls: Vec<f64> = prediction
            .kernels
            .derivatives
            .iter()
            .zip(self.weights.iter().zip(&prediction.solved))
            .map(|(derivative, (weight, solved))| {
                -self.hyperparameters.variance
                    * derivative
                    * (by_mean * weight - 2.0 * by_variance * solved)
            })
            .collect();
        self.columns.gradient(point, &pulls, &self.hyperparameters.inverse_squares)
    }

    fn variance(&self, explained: f64) -> f64 {
        (self.hyperparameters.variance - explained)
            .max(1e-12 * self.hyperparameters.variance.max(1.0))
    }

    /// The noise-free mean at each of the first data points, given `targets`.
    pub fn means_of_data(&self, targets: &[f64]) -> impl Iterator<Item = f64> {
        let noise = self.hyperparameters.noise + 1e-8 * self.hyperparameters.variance;
        targets.iter().zip(&self.weights).zip(&self.noise_variances).map(
            move |((target, weight), noise_variance)| target - (noise + noise_variance) * weight,
        )
    }
}

/// The prior variance of a data point, noise included; a small jitter keeps the covariance positive
/// definite.
fn own_variance(hyperparameters: &Hyperparameters) -> f64 {
    hyperparameters.variance * (1.0 + 1e-8) + hyperparameters.noise
}

impl Acquisition {
    /// The value, and its derivatives with respect to mean and variance.
    pub fn of(self, mean: f64, variance: f64) -> (f64, f64, f64) {
        let deviation = variance.sqrt();
        let (Acquisition::Improvement(border) | Acquisition::AtMost(border)) = self;
        let z = (border - mean) / deviation;
        match self {
            Acquisition::Improvement(_) => {
                let height = log_expected_improvement(z);
                let rate = (log_cdf(z) - height).exp();
                (deviation.ln() + height, -rate / deviation, (1.0 - rate * z) / (2.0 * variance))
            }
            Acquisition::AtMost(_) => {
                let height = log_cdf(z);
                let rate = (-0.5 * z * z - LN_ROOT_TWO_PI - height).exp();
                (height, -rate / deviation, -rate * z / (2.0 * variance))
            }
        }
    }
}

/// The data's positions by axis, so that distances are sums over contiguous columns.
#[derive(Debug)]
pub(super) struct Columns {
    columns: Vec<Column>,
}

#[derive(Debug)]
struct Column {
    kind: AxisKind,
    /// Whether the axis is inactive in some data point.
    has_gaps: bool,
    inverse_square: f64,
    positions: Vec<f64>,
}

impl Columns {
    pub fn new(cube: &Cube, inverse_squares: &[f64], points: &[&[f64]]) -> Self {
        let column = |index: usize| {
            let positions: Vec<f64> = points.iter().map(|point| point[index]).collect();
            let has_gaps = positions.iter().any(|position| position.is_nan());
            Column {
                kind: cube.axes[index].kind,
                has_gaps,
                inverse_square: inverse_squares[index],
                positions,
            }
        };
        Columns { columns: (0..cube.axes.len()).map(column).collect() }
    }

    /// Squared scaled distances from `point` to the first `count` data points.
    pub fn distances(&self, point: &[f64], count: usize, distances: &mut Vec<f64>) {
        distances.clear();
        distances.resize(count, 0.0);
        for (column, own) in self.columns.iter().zip(point) {
            let scale = column.inverse_square;
            match column.kind {
                _ if column.has_gaps || own.is_nan() => {
                    for (distance, other) in distances.iter_mut().zip(&column.positions) {
                        *distance += scale * square(column.kind, *own, *other);
                    }
                }
                AxisKind::Single => {}
                AxisKind::Choice(_) => add_differences(distances, scale, *own, &column.positions),
                _ => add_squares(distances, scale, *own, &column.positions),
            }
        }
    }

    /// Sums over the data of pulls times scaled differences, per numeric axis.
    pub fn gradient(&self, point: &[f64], pulls: &[f64], inverse_squares: &[f64]) -> Vec<f64> {
        let derivative = |((column, own), scale): ((&Column, &f64), &f64)| match column.kind {
            AxisKind::Choice(_) | AxisKind::Single => 0.0,
            _ if own.is_nan() => 0.0,
            _ => {
                let pairs = column.positions.iter().zip(pulls);
                scale
                    * pairs
                        .map(
                            |(other, pull)| if other.is_nan() { 0.0 } else { pull * (own - other) },
                        )
                        .sum::<f64>()
            }
        };
        self.columns.iter().zip(point).zip(inverse_squares).map(derivative).collect()
    }
}

vectorised! {
    /// Adds the squared differences of numbers.
    fn add_squares(distances: &mut [f64], scale: f64, own: f64, positions: &[f64]) {
        for (distance, other) in distances.iter_mut().zip(positions) {
            *distance += scale * (own - other) * (own - other);
        }
    }
}

vectorised! {
    /// Adds the differences of choices, which are equal or not.
    fn add_differences(distances: &mut [f64], scale: f64, own: f64, positions: &[f64]) {
        for (distance, other) in distances.iter_mut().zip(positions) {
            *distance += if own == *other { 0.0 } else { scale };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samplers::conformance::{choice, float, space};
    use crate::samplers::cube::slices;
    use crate::samplers::gp::kernel::Exponential;

    fn cube() -> Cube {
        Cube::new(&space([float("x", 0.0, 1.0), float("y", 0.0, 1.0), choice("c", ["a", "b"])]))
    }

    fn hyperparameters(inverse_squares: Vec<f64>, variance: f64, noise: f64) -> Hyperparameters {
        Hyperparameters { inverse_squares, variance, noise, exponential: Exponential::Own }
    }

    #[test]
    fn the_mean_interpolates_noise_free_data_and_gradients_match_finite_differences() {
        let part = |index: u32, by: f64| (f64::from(index) * by).fract();
        let points: Vec<Vec<f64>> = (0..15)
            .map(|index| vec![part(index, 0.618), part(index, 0.755), f64::from(index % 2)])
            .collect();
        let targets: Vec<f64> = points
            .iter()
            .map(|point| (4.0 * point[0]).sin() + point[1] * point[1] + 0.3 * point[2])
            .collect();
        let hyperparameters = hyperparameters(vec![4.0, 2.0, 1.0], 1.3, 1e-6);
        let process =
            GaussianProcess::new(&cube(), &hyperparameters, &slices(&points), &targets, &[0.0; 15])
                .unwrap();
        for (point, target) in points.iter().zip(&targets) {
            assert!((process.mean(point) - target).abs() < 1e-3);
        }
        let own: Vec<f64> = process.means_of_data(&targets).collect();
        assert!((own[3] - process.mean(&points[3])).abs() < 1e-6);
        for at in [[0.3, 0.6, 1.0], [0.91, 0.05, 0.0]] {
            for acquisition in [Acquisition::Improvement(-0.5), Acquisition::AtMost(0.4)] {
                let (value, gradient) =
                    process.values_and_gradients(&[&at], acquisition).swap_remove(0);
                assert!((value - process.values(&[&at], acquisition)[0]).abs() < 1e-12);
                for axis in 0..2 {
                    let value = |by: f64| {
                        let mut moved = at;
                        moved[axis] += by;
                        process.values(&[&moved], acquisition)[0]
                    };
                    let numeric = (value(1e-6) - value(-1e-6)) / 2e-6;
                    assert!(
                        (gradient[axis] - numeric).abs() < 1e-4 * numeric.abs().max(1.0),
                        "{acquisition:?}, {axis}: {} {numeric}",
                        gradient[axis]
                    );
                }
                assert_eq!(gradient[2], 0.0);
            }
            let improvement = process.values(&[&at], Acquisition::Improvement(-0.5))[0];
            assert!(process.most_improvement(&process.covariances(&at), -0.5) >= improvement);
        }
    }

    #[test]
    fn noisier_points_pull_less() {
        let points = [vec![0.2, 0.5, 0.0], vec![0.8, 0.5, 0.0]];
        let hyperparameters = hyperparameters(vec![9.0, 2.0, 1.0], 1.0, 1e-4);
        let mean = |noise_variance: f64| {
            GaussianProcess::new(
                &cube(),
                &hyperparameters,
                &slices(&points),
                &[0.0, 1.0],
                &[0.0, noise_variance],
            )
            .unwrap()
            .mean(&points[1])
        };
        assert!(mean(0.0) > 0.99 && (0.4..0.6).contains(&mean(1.0)) && mean(100.0) < 0.02);
    }
}
