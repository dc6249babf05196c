//! The kernel: Matern 5/2 with a length scale per axis; choices are equal or not, inactive axes at
//! a fixed distance.

use crate::samplers::cube::AxisKind;
use crate::simd::{simd_level, vectorised};

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
    /// How the kernel is computed.
    pub exponential: Exponential,
}

/// What computes the exponentials of kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exponential {
    /// The system's library, whose last digit differs between systems.
    System,
    /// [`decay`], several at a time.
    Own,
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

/// Matern 5/2 at several distances.
#[derive(Debug)]
pub(super) struct Kernels {
    /// The correlations.
    pub correlations: Vec<f64>,
    /// `-2` times their derivatives by the squared distance.
    pub derivatives: Vec<f64>,
}

impl Exponential {
    /// Turns squared scaled distances into correlations.
    pub fn correlate(self, distances: &mut [f64]) {
        match self {
            Exponential::System => {
                for distance in distances {
                    let scaled = ROOT_FIVE * distance.sqrt();
                    *distance = correlation(*distance, scaled, (-scaled).exp());
                }
            }
            Exponential::Own => correlate(distances),
        }
    }

    /// Correlations and derivatives at squared scaled distances.
    pub fn kernels(self, mut distances: Vec<f64>) -> Kernels {
        let mut derivatives = vec![0.0; distances.len()];
        match self {
            Exponential::System => {
                for (distance, slope) in distances.iter_mut().zip(&mut derivatives) {
                    let scaled = ROOT_FIVE * distance.sqrt();
                    let decay = (-scaled).exp();
                    *distance = correlation(*distance, scaled, decay);
                    *slope = derivative(scaled, decay);
                }
            }
            Exponential::Own => differentiate(&mut distances, &mut derivatives),
        }
        Kernels { correlations: distances, derivatives }
    }
}

vectorised! {
    fn correlate(distances: &mut [f64]) {
        for distance in distances {
            let scaled = ROOT_FIVE * distance.sqrt();
            *distance = correlation(*distance, scaled, decay(scaled));
        }
    }
}

vectorised! {
    fn differentiate(distances: &mut [f64], derivatives: &mut [f64]) {
        for (distance, slope) in distances.iter_mut().zip(derivatives) {
            let scaled = ROOT_FIVE * distance.sqrt();
            let decay = decay(scaled);
            *distance = correlation(*distance, scaled, decay);
            *slope = derivative(scaled, decay);
        }
    }
}

#[inline(always)]
fn correlation(square: f64, scaled: f64, decay: f64) -> f64 {
    (1.0 + scaled + 5.0 / 3.0 * square) * decay
}

#[inline(always)]
fn derivative(scaled: f64, decay: f64) -> f64 {
    5.0 / 3.0 * (1.0 + scaled) * decay
}

/// `exp(-x)` for `x >= 0`, with an error of at most two units in the last place, and `exp(-708)`
/// beyond 708: without branches, calls and fused operations, so that loops of it are compiled to
/// vector instructions and all machines have the same result.
#[inline(always)]
#[expect(clippy::excessive_precision, reason = "both parts of a logarithm")]
fn decay(x: f64) -> f64 {
    /// Added to a number below 2^51, it leaves the nearest integer in the lowest bits.
    const ROUND: f64 = 6_755_399_441_055_744.0;
    /// `ln 2`: 32 bits of it, and the rest.
    const LN_2: (f64, f64) = (6.931_471_803_691_238_16e-1, 1.908_214_929_270_587_70e-10);
    /// `1 / k!`, from the 13th power down.
    const TERMS: [f64; 14] = {
        let (mut terms, mut factorial, mut power) = ([1.0; 14], 1.0, 1);
        while power < 14 {
            factorial *= power as f64;
            terms[13 - power] = 1.0 / factorial;
            power += 1;
        }
        terms
    };
    let x = -(x.min(708.0));
    let shifted = x * std::f64::consts::LOG2_E + ROUND;
    let halvings = shifted - ROUND;
    let rest = (x - halvings * LN_2.0) - halvings * LN_2.1;
    let mut sum = TERMS[0];
    for term in &TERMS[1..] {
        sum = sum * rest + term;
    }
    // Two to that power, by its exponent.
    sum * f64::from_bits(shifted.to_bits().wrapping_add(1023) << 52)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decays_are_those_of_the_system_but_for_two_units_in_the_last_place() {
        for index in 0..200_000 {
            let x = f64::from(index) * 0.003_541;
            let expected = (-x.min(708.0)).exp();
            let units = decay(x).to_bits().abs_diff(expected.to_bits());
            assert!(units <= 2, "exp(-{x}): {units} units off");
        }
        assert_eq!(decay(0.0), 1.0);
        assert!(decay(f64::INFINITY) > 0.0 && decay(f64::INFINITY) < 1e-307);
    }

    #[test]
    fn both_exponentials_have_the_same_kernels_approximately() {
        let distances: Vec<f64> = (0..1_000).map(|index| f64::from(index) / 40.0).collect();
        let [system, own] = [Exponential::System, Exponential::Own].map(|exponential| {
            let kernels = exponential.kernels(distances.clone());
            let mut correlations = distances.clone();
            exponential.correlate(&mut correlations);
            assert_eq!(kernels.correlations, correlations);
            kernels
        });
        let is_near = |(a, b): (&f64, &f64)| (a - b).abs() <= 1e-15 * a.abs();
        assert!(system.correlations.iter().zip(&own.correlations).all(is_near));
        assert!(system.derivatives.iter().zip(&own.derivatives).all(is_near));
        assert_eq!(own.correlations[0], 1.0);
    }
}
