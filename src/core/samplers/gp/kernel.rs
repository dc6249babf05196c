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

/// Matern 5/2 at one distance: what the correlation and its derivative have in common.
#[derive(Clone, Copy, Debug)]
pub(super) struct Matern {
    square: f64,
    scaled: f64,
    decay: f64,
}

impl Matern {
    /// At a squared scaled distance.
    pub fn at(square: f64) -> Self {
        let scaled = ROOT_FIVE * square.sqrt();
        Matern { square, scaled, decay: (-scaled).exp() }
    }

    /// The correlation.
    pub fn correlation(self) -> f64 {
        (1.0 + self.scaled + 5.0 / 3.0 * self.square) * self.decay
    }

    /// `-2` times the derivative of the correlation by the squared distance.
    pub fn derivative(self) -> f64 {
        5.0 / 3.0 * (1.0 + self.scaled) * self.decay
    }
}
