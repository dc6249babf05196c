//! A Gaussian process conditioned on data: mean, deviation, and acquisition functions.

use super::kernel::{Lengths, correlation, slope, square};
use crate::analysis::linalg::{Matrix, dot};
use crate::samplers::cube::{AxisKind, Cube};
use crate::samplers::normal::{LN_ROOT_TWO_PI, log_cdf, log_expected_improvement};

/// The conditioned process.
#[derive(Debug)]
pub(super) struct Process<'a> {
    lengths: &'a Lengths,
    columns: Columns,
    /// Inverse of the Cholesky factor of the covariance.
    half: Matrix,
    /// `covariance^-1 targets`.
    weights: Vec<f64>,
    /// Additional noise variance of each data point.
    doubts: Vec<f64>,
}

/// An acquisition function of mean and variance.
#[derive(Clone, Copy, Debug)]
pub(super) enum Worth {
    /// Logarithm of the expected improvement on this value.
    Improvement(f64),
    /// Logarithm of the probability of at most this value.
    AtMost(f64),
}

impl<'a> Process<'a> {
    /// Conditions on warped losses `targets` at `points`, with additional noise variances `doubts`;
    /// `None` if the covariance is not positive definite.
    pub fn new(
        cube: &Cube,
        lengths: &'a Lengths,
        points: &[&[f64]],
        targets: &[f64],
        doubts: &[f64],
    ) -> Option<Self> {
        let columns = Columns::new(cube, lengths, points);
        let mut covariance = Matrix::new(points.len());
        let mut distances = Vec::new();
        for (row, point) in points.iter().enumerate() {
            columns.distances(point, row, &mut distances);
            let cells = covariance.row_mut(row);
            for (cell, distance) in cells.iter_mut().zip(&distances) {
                *cell = lengths.variance * correlation(*distance);
            }
            cells[row] = own_variance(lengths) + doubts[row];
        }
        let half = covariance.factor()?.inverse_of_factor();
        let weights = half.transposed_times(&half.times(targets));
        Some(Process { lengths, columns, half, weights, doubts: doubts.to_vec() })
    }

    /// Mean at `point`.
    pub fn mean(&self, point: &[f64]) -> f64 {
        dot(&self.covariances(point).0, &self.weights)
    }

    /// Covariances with the data, and squared distances to it.
    fn covariances(&self, point: &[f64]) -> (Vec<f64>, Vec<f64>) {
        let mut distances = Vec::new();
        self.columns.distances(point, self.weights.len(), &mut distances);
        (
            distances
                .iter()
                .map(|distance| self.lengths.variance * correlation(*distance))
                .collect(),
            distances,
        )
    }

    /// An upper bound of the log expected improvement at `point`, at a tenth of the cost: from the
    /// mean there, and the variance given only the closest data point.
    pub fn most_improvement(&self, point: &[f64], incumbent: f64) -> f64 {
        let (covariances, _) = self.covariances(point);
        let own = own_variance(self.lengths);
        let explained = covariances
            .iter()
            .zip(&self.doubts)
            .map(|(covariance, doubt)| covariance * covariance / (own + doubt))
            .fold(0.0, f64::max);
        let mean = dot(&covariances, &self.weights);
        Worth::Improvement(incumbent).of(mean, self.variance(explained)).0
    }

    /// The acquisition value at `point`.
    pub fn value(&self, point: &[f64], worth: Worth) -> f64 {
        let (covariances, _) = self.covariances(point);
        let explained = self.half.square_of_product(&covariances);
        worth.of(dot(&covariances, &self.weights), self.variance(explained)).0
    }

    /// The same, with its gradient along numeric axes (0 along others).
    pub fn value_and_slopes(&self, point: &[f64], worth: Worth) -> (f64, Vec<f64>) {
        let (covariances, distances) = self.covariances(point);
        let whitened = self.half.times(&covariances);
        let solved = self.half.transposed_times(&whitened);
        let (value, by_mean, by_variance) =
            worth.of(dot(&covariances, &self.weights), self.variance(dot(&whitened, &whitened)));
        // The covariance's derivative along an axis is the negative pull times the scaled
        // difference of positions.
        let pulls: Vec<f64> = distances
            .iter()
            .zip(self.weights.iter().zip(&solved))
            .map(|(distance, (weight, solved))| {
                -self.lengths.variance
                    * slope(*distance)
                    * (by_mean * weight - 2.0 * by_variance * solved)
            })
            .collect();
        (value, self.columns.slopes(point, &pulls, &self.lengths.inverse_squares))
    }

    fn variance(&self, explained: f64) -> f64 {
        (self.lengths.variance - explained).max(1e-12 * self.lengths.variance.max(1.0))
    }

    /// The noise-free mean at each of the first data points, given `targets`.
    pub fn means_of_data(&self, targets: &[f64]) -> impl Iterator<Item = f64> {
        let noise = self.lengths.noise + 1e-8 * self.lengths.variance;
        targets
            .iter()
            .zip(&self.weights)
            .zip(&self.doubts)
            .map(move |((target, weight), doubt)| target - (noise + doubt) * weight)
    }
}

/// The prior variance of a data point, noise included; a small jitter keeps the covariance positive
/// definite.
fn own_variance(lengths: &Lengths) -> f64 {
    lengths.variance * (1.0 + 1e-8) + lengths.noise
}

impl Worth {
    /// The value, and its derivatives with respect to mean and variance.
    fn of(self, mean: f64, variance: f64) -> (f64, f64, f64) {
        let deviation = variance.sqrt();
        let (Worth::Improvement(border) | Worth::AtMost(border)) = self;
        let z = (border - mean) / deviation;
        match self {
            Worth::Improvement(_) => {
                let height = log_expected_improvement(z);
                let rate = (log_cdf(z) - height).exp();
                (deviation.ln() + height, -rate / deviation, (1.0 - rate * z) / (2.0 * variance))
            }
            Worth::AtMost(_) => {
                let height = log_cdf(z);
                let rate = (-0.5 * z * z - LN_ROOT_TWO_PI - height).exp();
                (height, -rate / deviation, -rate * z / (2.0 * variance))
            }
        }
    }
}

/// The data's positions by axis, so that distances are sums over contiguous columns.
#[derive(Debug)]
struct Columns {
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
    fn new(cube: &Cube, lengths: &Lengths, points: &[&[f64]]) -> Self {
        let column = |index: usize| {
            let positions: Vec<f64> = points.iter().map(|point| point[index]).collect();
            let has_gaps = positions.iter().any(|position| position.is_nan());
            Column {
                kind: cube.axes[index].kind,
                has_gaps,
                inverse_square: lengths.inverse_squares[index],
                positions,
            }
        };
        Columns { columns: (0..cube.axes.len()).map(column).collect() }
    }

    /// Squared scaled distances from `point` to the first `count` data points.
    fn distances(&self, point: &[f64], count: usize, distances: &mut Vec<f64>) {
        distances.clear();
        distances.resize(count, 0.0);
        for (column, own) in self.columns.iter().zip(point) {
            let scale = column.inverse_square;
            let pairs = distances.iter_mut().zip(&column.positions);
            match column.kind {
                _ if column.has_gaps || own.is_nan() => pairs.for_each(|(distance, other)| {
                    *distance += scale * square(column.kind, *own, *other)
                }),
                AxisKind::Single => {}
                AxisKind::Choice(_) => pairs.for_each(|(distance, other)| {
                    *distance += if own == other { 0.0 } else { scale }
                }),
                _ => pairs.for_each(|(distance, other)| {
                    *distance += scale * (own - other) * (own - other)
                }),
            }
        }
    }

    /// Sums over the data of pulls times scaled differences, per numeric axis.
    fn slopes(&self, point: &[f64], pulls: &[f64], inverse_squares: &[f64]) -> Vec<f64> {
        let slope = |((column, own), scale): ((&Column, &f64), &f64)| match column.kind {
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
        self.columns.iter().zip(point).zip(inverse_squares).map(slope).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samplers::conformance::{choice, float, space};
    use crate::samplers::cube::slices;

    fn cube() -> Cube {
        Cube::new(&space([float("x", 0.0, 1.0), float("y", 0.0, 1.0), choice("c", ["a", "b"])]))
    }

    #[test]
    fn the_mean_passes_through_data_without_noise_and_slopes_are_those_of_the_promise() {
        let part = |index: u32, by: f64| (f64::from(index) * by).fract();
        let points: Vec<Vec<f64>> = (0..15)
            .map(|index| vec![part(index, 0.618), part(index, 0.755), f64::from(index % 2)])
            .collect();
        let targets: Vec<f64> = points
            .iter()
            .map(|point| (4.0 * point[0]).sin() + point[1] * point[1] + 0.3 * point[2])
            .collect();
        let lengths = Lengths { inverse_squares: vec![4.0, 2.0, 1.0], variance: 1.3, noise: 1e-6 };
        let process =
            Process::new(&cube(), &lengths, &slices(&points), &targets, &[0.0; 15]).unwrap();
        for (point, target) in points.iter().zip(&targets) {
            assert!((process.mean(point) - target).abs() < 1e-3);
        }
        let own: Vec<f64> = process.means_of_data(&targets).collect();
        assert!((own[3] - process.mean(&points[3])).abs() < 1e-6);
        for at in [[0.3, 0.6, 1.0], [0.91, 0.05, 0.0]] {
            for worth in [Worth::Improvement(-0.5), Worth::AtMost(0.4)] {
                let (value, slopes) = process.value_and_slopes(&at, worth);
                assert!((value - process.value(&at, worth)).abs() < 1e-12);
                for axis in 0..2 {
                    let value = |by: f64| {
                        let mut moved = at;
                        moved[axis] += by;
                        process.value(&moved, worth)
                    };
                    let numeric = (value(1e-6) - value(-1e-6)) / 2e-6;
                    assert!(
                        (slopes[axis] - numeric).abs() < 1e-4 * numeric.abs().max(1.0),
                        "{worth:?}, {axis}: {} {numeric}",
                        slopes[axis]
                    );
                }
                assert_eq!(slopes[2], 0.0);
            }
            let improvement = process.value(&at, Worth::Improvement(-0.5));
            assert!(process.most_improvement(&at, -0.5) >= improvement);
        }
    }

    #[test]
    fn what_is_doubted_pulls_less() {
        let points = [vec![0.2, 0.5, 0.0], vec![0.8, 0.5, 0.0]];
        let lengths = Lengths { inverse_squares: vec![9.0, 2.0, 1.0], variance: 1.0, noise: 1e-4 };
        let mean = |doubt: f64| {
            Process::new(&cube(), &lengths, &slices(&points), &[0.0, 1.0], &[0.0, doubt])
                .unwrap()
                .mean(&points[1])
        };
        assert!(mean(0.0) > 0.99 && (0.4..0.6).contains(&mean(1.0)) && mean(100.0) < 0.02);
    }
}
