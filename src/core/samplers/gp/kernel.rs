//! The kernel: Matern 5/2 with a length scale per axis; choices are equal or not, inactive axes at
//! a fixed distance.

use crate::samplers::cube::AxisKind;

/// Squared distance between an active and an inactive position.
const HALF_INACTIVE: f64 = 0.25;

const ROOT_FIVE: f64 = 2.236_067_977_499_79;

/// The fitted hyperparameters.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Hyperparameters {
    /// `1 / length^2` per axis.
    pub inverse_squares: Vec<f64>,
    /// Variance of the process.
    pub variance: f64,
    /// Variance of the noise.
    pub noise: f64,
}

/// Squared distance of two positions on an axis.
pub(super) fn square(kind: AxisKind, a: f64, b: f64) -> f64 {
    match (a.is_nan(), b.is_nan()) {
        (true, true) => 0.0,
        (true, false) | (false, true) => HALF_INACTIVE,
        (false, false) => match kind {
            AxisKind::Choice(_) => f64::from(a != b),
            _ => (a - b) * (a - b),
        },
    }
}

/// The Matern 5/2 correlation at the squared scaled distance.
pub(super) fn correlation(square: f64) -> f64 {
    let scaled = ROOT_FIVE * square.sqrt();
    (1.0 + scaled + 5.0 / 3.0 * square) * (-scaled).exp()
}

/// `-2` times the derivative of the correlation by the squared distance.
pub(super) fn derivative(square: f64) -> f64 {
    let scaled = ROOT_FIVE * square.sqrt();
    5.0 / 3.0 * (1.0 + scaled) * (-scaled).exp()
}
