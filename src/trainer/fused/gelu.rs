//! The exact Gaussian error linear unit, with an error function that the compiler can turn into vector instructions.

use super::lanes::{exp, vectorised};
use super::{Operation, Purpose};

/// `x Φ(x)` of every number (Hendrycks and Gimpel 2016).
#[derive(Debug, Clone, Copy)]
pub(in crate::trainer) struct Gelu;

impl Operation<1> for Gelu {
    type Kept = ();

    fn forward(&self, [x]: [&[f32]; 1], _: Purpose) -> (Vec<f32>, ()) {
        (forward(x), ())
    }

    fn backward(&self, [x]: [&[f32]; 1], (): (), gradient: &[f32], _: [bool; 1]) -> [Option<Vec<f32>>; 1] {
        [Some(backward(x, gradient))]
    }
}

/// Φ(x), the normal distribution function, and e^(-x²/2); the former within 3e-7 (Abramowitz and Stegun 7.1.26, whose exponential is the latter).
#[inline(always)]
fn normal(x: f32) -> (f32, f32) {
    let z = x.abs() * std::f32::consts::FRAC_1_SQRT_2;
    let t = 1.0 / (1.0 + 0.327_591_1 * z);
    let bell = exp(-z * z);
    let mut series = 1.061_405_4;
    for factor in [-1.453_152, 1.421_413_7, -0.284_496_74, 0.254_829_6] {
        series = series * t + factor;
    }
    let tail = 0.5 * series * t * bell;
    (if x < 0.0 { tail } else { 1.0 - tail }, bell)
}

vectorised! {
    fn forward(x: &[f32]) -> Vec<f32> {
        x.iter().map(|x| x * normal(*x).0).collect()
    }
}

vectorised! {
    fn backward(x: &[f32], gradient: &[f32]) -> Vec<f32> {
        // The density of the normal distribution at 0.
        const DENSITY: f32 = 0.398_942_3;
        let slope = |(x, gradient): (&f32, &f32)| {
            let (share, bell) = normal(*x);
            gradient * (share + x * bell * DENSITY)
        };
        x.iter().zip(gradient).map(slope).collect()
    }
}
