//! A Gaussian process given its data: mean and deviation anywhere, and the promise of a point.

use super::kernel::{Lengths, correlation, slope};
use super::matrix::{Matrix, dot};
use crate::samplers::cube::{AxisKind, Cube};
use crate::samplers::normal::{log_cdf, log_expected_improvement};

/// The process after its data.
#[derive(Debug)]
pub(super) struct Process<'a> {
    cube: &'a Cube,
    lengths: &'a Lengths,
    points: Vec<&'a [f64]>,
    /// Inverse of the factor of the covariance.
    half: Matrix,
    /// `covariance^-1 targets`.
    weights: Vec<f64>,
}

impl<'a> Process<'a> {
    /// The process of warped losses `targets` at `points`; nothing if the covariance has no factor.
    pub fn new(cube: &'a Cube, lengths: &'a Lengths, points: Vec<&'a [f64]>, targets: &[f64]) -> Option<Self> {
        let mut covariance = Matrix::new(points.len());
        for row in 0..points.len() {
            for column in 0..row {
                covariance.row_mut(row)[column] = lengths.variance * correlation(lengths.distance(cube, points[row], points[column]));
            }
            covariance.row_mut(row)[row] = lengths.variance * (1.0 + 1e-8) + lengths.noise;
        }
        let half = covariance.factor()?.inverse_of_factor();
        let weights = half.transposed_times(&half.times(targets));
        Some(Process { cube, lengths, points, half, weights })
    }

    /// Mean at `point`.
    pub fn mean(&self, point: &[f64]) -> f64 {
        dot(&self.covariances(point).0, &self.weights)
    }

    /// Covariances with the data, and squared distances to it.
    fn covariances(&self, point: &[f64]) -> (Vec<f64>, Vec<f64>) {
        let distances: Vec<f64> = self.points.iter().map(|other| self.lengths.distance(self.cube, point, other)).collect();
        (distances.iter().map(|distance| self.lengths.variance * correlation(*distance)).collect(), distances)
    }

    /// Logarithm of the expected improvement on `incumbent` at `point`.
    pub fn promise(&self, point: &[f64], incumbent: f64) -> f64 {
        let (covariances, _) = self.covariances(point);
        let whitened = self.half.times(&covariances);
        self.improvement(dot(&covariances, &self.weights), dot(&whitened, &whitened), incumbent).0
    }

    /// The promise, and its slopes along the axes of numbers (0 along others).
    pub fn promise_and_slopes(&self, point: &[f64], incumbent: f64) -> (f64, Vec<f64>) {
        let (covariances, distances) = self.covariances(point);
        let whitened = self.half.times(&covariances);
        let solved = self.half.transposed_times(&whitened);
        let (promise, by_mean, by_variance) = self.improvement(dot(&covariances, &self.weights), dot(&whitened, &whitened), incumbent);
        let mut slopes = vec![0.0; point.len()];
        for (index, other) in self.points.iter().enumerate() {
            // The covariance's slope along an axis is `pull` times the scaled difference of the positions.
            let pull = -self.lengths.variance * slope(distances[index]);
            let weight = pull * (by_mean * self.weights[index] - 2.0 * by_variance * solved[index]);
            for (axis, slope) in slopes.iter_mut().enumerate() {
                let difference = point[axis] - other[axis];
                if !difference.is_nan() {
                    *slope += weight * difference * self.lengths.inverse_squares[axis];
                }
            }
        }
        for (slope, axis) in slopes.iter_mut().zip(&self.cube.axes) {
            if matches!(axis.kind, AxisKind::Choice(_) | AxisKind::Single) {
                *slope = 0.0;
            }
        }
        (promise, slopes)
    }

    /// The promise, and its derivatives by mean and by variance.
    fn improvement(&self, mean: f64, explained: f64, incumbent: f64) -> (f64, f64, f64) {
        let variance = (self.lengths.variance - explained).max(1e-12 * self.lengths.variance.max(1.0));
        let deviation = variance.sqrt();
        let z = (incumbent - mean) / deviation;
        let height = log_expected_improvement(z);
        let rate = (log_cdf(z) - height).exp();
        (deviation.ln() + height, -rate / deviation, (1.0 - rate * z) / (2.0 * variance))
    }

    /// The mean without noise at each of the data's first `count` points, `targets` being theirs.
    pub fn means_of_data(&self, targets: &[f64]) -> impl Iterator<Item = f64> {
        targets.iter().zip(&self.weights).map(|(target, weight)| target - (self.lengths.noise + 1e-8 * self.lengths.variance) * weight)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samplers::conformance::dimension;
    use crate::space::{Distribution, Scale, Space};

    fn cube() -> Cube {
        let axis = || Distribution::float(0.0, 1.0, Scale::Linear, None).unwrap();
        let choice = Distribution::choice(vec!["a".into(), "b".into()]).unwrap();
        Cube::new(&Space::new(vec![dimension("x", axis(), &[]), dimension("y", axis(), &[]), dimension("c", choice, &[])]).unwrap())
    }

    #[test]
    fn the_mean_passes_through_data_without_noise_and_slopes_are_those_of_the_promise() {
        let cube = cube();
        let points: Vec<Vec<f64>> =
            (0..15).map(|index| vec![(f64::from(index) * 0.618).fract(), (f64::from(index) * 0.755).fract(), f64::from(index % 2)]).collect();
        let targets: Vec<f64> = points.iter().map(|point| (4.0 * point[0]).sin() + point[1] * point[1] + 0.3 * point[2]).collect();
        let lengths = Lengths { inverse_squares: vec![4.0, 2.0, 1.0], variance: 1.3, noise: 1e-6 };
        let process = Process::new(&cube, &lengths, points.iter().map(Vec::as_slice).collect(), &targets).unwrap();
        for (point, target) in points.iter().zip(&targets) {
            assert!((process.mean(point) - target).abs() < 1e-3);
        }
        let own: Vec<f64> = process.means_of_data(&targets).collect();
        assert!((own[3] - process.mean(&points[3])).abs() < 1e-6);
        for at in [[0.3, 0.6, 1.0], [0.91, 0.05, 0.0]] {
            let (promise, slopes) = process.promise_and_slopes(&at, -0.5);
            assert!((promise - process.promise(&at, -0.5)).abs() < 1e-12);
            for axis in 0..2 {
                let value = |by: f64| {
                    let mut moved = at;
                    moved[axis] += by;
                    process.promise(&moved, -0.5)
                };
                let numeric = (value(1e-6) - value(-1e-6)) / 2e-6;
                assert!((slopes[axis] - numeric).abs() < 1e-4 * numeric.abs().max(1.0), "{axis}: {} {numeric}", slopes[axis]);
            }
            assert_eq!(slopes[2], 0.0);
        }
    }
}
