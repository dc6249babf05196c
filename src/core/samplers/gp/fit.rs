//! Fits length scales, variance and noise to the data: the posterior mode (MAP), by Rprop.

use super::kernel::{Exponential, Hyperparameters, square};
use crate::analysis::linalg::{Matrix, dot, dots, weighted_sum};
use crate::samplers::cube::Cube;

/// Optimisation steps. It converges in 20 to 40.
const STEPS: usize = 40;
/// From this many trials on, only the higher of two modes is optimised to the end.
const MANY: usize = 40;
const FIRST_STEPS: usize = 10;
/// Bounds of the logarithms: length scales, variance, noise.
const LENGTH: (f64, f64) = (-4.0, 4.0);
const VARIANCE: (f64, f64) = (-4.0, 4.0);
const NOISE: (f64, f64) = (-13.8, 0.7);

/// The posterior mode for warped losses `targets` at `points`, with additional `noise_variances`.
pub(super) fn fit(
    cube: &Cube,
    points: &[&[f64]],
    targets: &[f64],
    noise_variances: &[f64],
    exponential: Exponential,
) -> Hyperparameters {
    let posterior = Posterior::new(cube, points, targets, noise_variances, exponential);
    let dimensions = cube.axes.len();
    // From the prior's centre with low and with high noise: the two modes of small histories. With
    // many trials a few steps show which is higher, and only that one is optimised further.
    let starts = [-7.0, -1.5].map(|noise| {
        let mut start = vec![posterior.length_centre; dimensions];
        start.extend([0.0, noise]);
        Climb::from(start)
    });
    let first_steps = if points.len() < MANY { STEPS } else { FIRST_STEPS };
    let mut climbs = starts.map(|climb| posterior.climb(climb, first_steps));
    climbs.sort_by(|a, b| b.best.0.total_cmp(&a.best.0));
    let [higher, _] = climbs;
    let higher =
        if first_steps < STEPS { posterior.climb(higher, STEPS - first_steps) } else { higher };
    posterior.hyperparameters(&higher.best.1)
}

/// State of an ascent.
pub(super) struct Climb {
    at: Vec<f64>,
    steps: Vec<f64>,
    /// The previous gradient.
    last: Vec<f64>,
    /// The best value so far, and its position.
    pub best: (f64, Vec<f64>),
}

/// Rprop: each coordinate's step grows while its gradient keeps its sign, and halves when it flips.
pub(super) fn climb(
    from: Climb,
    count: usize,
    bounds: impl Fn(usize) -> (f64, f64),
    value_and_gradient: impl Fn(&[f64]) -> Option<(f64, Vec<f64>)>,
) -> Climb {
    let Climb { mut at, mut steps, mut last, mut best } = from;
    for _ in 0..count {
        let Some((value, gradient)) = value_and_gradient(&at) else { break };
        if value > best.0 {
            best = (value, at.clone());
        }
        for (index, derivative) in gradient.iter().enumerate() {
            let turned = last[index] * derivative;
            if turned > 0.0 {
                steps[index] = f64::min(steps[index] * 1.25, 1.0);
            } else if turned < 0.0 {
                steps[index] *= 0.5;
            }
            last[index] = *derivative;
            if *derivative != 0.0 {
                let (low, high) = bounds(index);
                at[index] = (at[index] + derivative.signum() * steps[index]).clamp(low, high);
            }
        }
        if steps.iter().all(|step| *step < 0.01) {
            break;
        }
    }
    Climb { at, steps, last, best }
}

impl Climb {
    pub fn from(start: Vec<f64>) -> Self {
        Climb {
            steps: vec![0.3; start.len()],
            last: vec![0.0; start.len()],
            best: (f64::NEG_INFINITY, start.clone()),
            at: start,
        }
    }
}

struct Posterior<'a> {
    targets: &'a [f64],
    noise_variances: &'a [f64],
    /// Per axis: squared distances of all pairs (row above column), row by row.
    squares: Vec<Vec<f64>>,
    length_centre: f64,
    exponential: Exponential,
}

impl<'a> Posterior<'a> {
    #[expect(clippy::cast_precision_loss, reason = "a number of axes")]
    fn new(
        cube: &Cube,
        points: &[&[f64]],
        targets: &'a [f64],
        noise_variances: &'a [f64],
        exponential: Exponential,
    ) -> Self {
        let pairs = |index: usize| {
            let kind = cube.axes[index].kind;
            (0..points.len())
                .flat_map(move |row| {
                    (0..row)
                        .map(move |column| square(kind, points[row][index], points[column][index]))
                })
                .collect()
        };
        let squares = (0..cube.axes.len()).map(pairs).collect();
        // Distances grow with the square root of the number of axes; the prior's centre grows with
        // them.
        let length_centre = (0.35 * (cube.axes.len().max(1) as f64).sqrt()).ln();
        Posterior { targets, noise_variances, squares, length_centre, exponential }
    }

    fn hyperparameters(&self, logarithms: &[f64]) -> Hyperparameters {
        let (axes, rest) = logarithms.split_at(logarithms.len() - 2);
        Hyperparameters {
            inverse_squares: axes.iter().map(|length| (-2.0 * length).exp()).collect(),
            variance: rest[0].exp(),
            noise: rest[1].exp(),
            exponential: self.exponential,
        }
    }

    fn climb(&self, from: Climb, count: usize) -> Climb {
        let bounds = |index| limits(index, self.squares.len() + 2);
        climb(from, count, bounds, |at| self.value_and_gradient(at))
    }

    /// Logarithm of the posterior (up to a constant), and its gradient.
    fn value_and_gradient(&self, at: &[f64]) -> Option<(f64, Vec<f64>)> {
        let Hyperparameters { inverse_squares, variance, noise, .. } = self.hyperparameters(at);
        let size = self.targets.len();
        let pairs = size * size.saturating_sub(1) / 2;
        let distances = weighted_sum(&self.squares, &inverse_squares, pairs);
        let kernels = self.exponential.kernels(distances);
        let mut covariance = Matrix::new(size);
        let mut pair = 0;
        for row in 0..size {
            let cells = covariance.row_mut(row);
            for cell in &mut cells[..row] {
                *cell = variance * kernels.correlations[pair];
                pair += 1;
            }
            cells[row] = variance * (1.0 + 1e-8) + noise + self.noise_variances[row];
        }
        let factor = covariance.factor()?;
        let log_determinant: f64 = (0..size).map(|row| factor.row(row)[row].ln()).sum();
        let inverse_factor = factor.inverse_of_factor();
        let whitened = inverse_factor.times(self.targets);
        let weights = inverse_factor.transposed_times(&whitened);
        let mut value = -0.5 * dot(&whitened, &whitened) - log_determinant;
        let inverse = inverse_factor.gram();
        // Half the trace of (weights weights^T - inverse) times the derivative of the covariance:
        // pairs count twice.
        let mut by_variance = 0.0;
        let mut by_noise = 0.0;
        let mut pulls = vec![0.0; pairs];
        let mut pair = 0;
        for row in 0..size {
            let own = inverse.row(row);
            for column in 0..row {
                let pull = weights[row] * weights[column] - own[column];
                by_variance += pull * (variance * kernels.correlations[pair]);
                pulls[pair] = pull * variance * kernels.derivatives[pair];
                pair += 1;
            }
            let pull = 0.5 * (weights[row] * weights[row] - own[row]);
            by_variance += pull * variance;
            by_noise += pull * noise;
        }
        let by_axis = dots(&self.squares, &pulls);
        let mut gradient: Vec<f64> =
            by_axis.iter().zip(&inverse_squares).map(|(pull, scale)| scale * pull).collect();
        gradient.extend([by_variance, by_noise]);
        for (index, logarithm) in at.iter().enumerate() {
            let (centre, deviation) = self.prior(index, at.len());
            let off = (logarithm - centre) / deviation;
            value -= 0.5 * off * off;
            gradient[index] -= off / deviation;
        }
        value.is_finite().then_some((value, gradient))
    }

    /// Normal priors on the logarithms.
    fn prior(&self, index: usize, count: usize) -> (f64, f64) {
        match count - index {
            1 => (0.01f64.ln(), 2.0),
            2 => (0.0, 1.0),
            _ => (self.length_centre, 1.0),
        }
    }
}

fn limits(index: usize, count: usize) -> (f64, f64) {
    match count - index {
        1 => NOISE,
        2 => VARIANCE,
        _ => LENGTH,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samplers::cube::slices;
    use crate::samplers::fixtures::unit_cube;

    fn points(count: u32) -> Vec<Vec<f64>> {
        let part = |index: u32, by: f64| (f64::from(index) * by).fract();
        (0..count).map(|index| vec![part(index, 0.618_034), part(index, 0.754_878)]).collect()
    }

    #[test]
    fn gradients_match_finite_differences() {
        let (cube, points) = (Cube::new(&unit_cube(2)), points(12));
        let targets: Vec<f64> =
            points.iter().map(|point| (5.0 * point[0]).sin() + point[1]).collect();
        let noise_variances: Vec<f64> = (0..12).map(|index| f64::from(index % 3) / 10.0).collect();
        let posterior =
            Posterior::new(&cube, &slices(&points), &targets, &noise_variances, Exponential::Own);
        let at = [-0.4, 0.3, 0.2, -3.0];
        let (_, gradient) = posterior.value_and_gradient(&at).unwrap();
        for index in 0..at.len() {
            let value = |by: f64| {
                let mut moved = at;
                moved[index] += by;
                posterior.value_and_gradient(&moved).unwrap().0
            };
            let numeric = (value(1e-5) - value(-1e-5)) / 2e-5;
            assert!(
                (gradient[index] - numeric).abs() < 1e-4 * numeric.abs().max(1.0),
                "{index}: {} {numeric}",
                gradient[index]
            );
        }
    }

    #[test]
    fn an_axis_that_does_not_matter_gets_a_long_length() {
        let (cube, points) = (Cube::new(&unit_cube(2)), points(40));
        let targets: Vec<f64> = points.iter().map(|point| (6.0 * point[0]).sin()).collect();
        let found = fit(&cube, &slices(&points), &targets, &[0.0; 40], Exponential::Own);
        assert!(found.inverse_squares[0] > 10.0 * found.inverse_squares[1], "{found:?}");
        assert!(found.noise < 1e-3, "{found:?}");
    }
}
