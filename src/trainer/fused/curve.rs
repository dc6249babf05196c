//! Nonlinearities number by number, and their slopes, with exponentials that the compiler turns into vector instructions.

use super::lanes::{exp, made, vectorised};
use super::{Operation, Purpose, Slope};

/// A function of one number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::trainer) enum Curve {
    /// `x Φ(x)` (Hendrycks and Gimpel 2016), within 5e-7.
    Gelu,
    /// Its approximation by a hyperbolic tangent, GPT-2's: `x σ(2u)` with `u = √(2/π) (x + 0.044715 x³)`.
    GeluTanh,
    /// The positive part.
    Relu,
    /// `x σ(x)`, also called swish.
    Silu,
    /// The hyperbolic tangent, BERT's pooler's.
    Tanh,
}

impl Operation<1> for Curve {
    type Kept = ();

    fn forward(&self, [x]: [&[f32]; 1], _: Purpose) -> (Vec<f32>, ()) {
        (curved(*self, x), ())
    }

    fn backward(&self, [x]: [&[f32]; 1], (): (), gradient: &[f32], _: [bool; 1]) -> [Slope; 1] {
        [Slope::New(sloped(*self, x, gradient))]
    }
}

/// The curve at every number.
pub(super) fn curved(curve: Curve, x: &[f32]) -> Vec<f32> {
    match curve {
        Curve::Gelu => gelu(x),
        Curve::GeluTanh => gelu_tanh(x),
        Curve::Relu => x.iter().map(|x| relu(*x)).collect(),
        Curve::Silu => silu(x),
        Curve::Tanh => tanh(x),
    }
}

/// `gradient` times the curve's slopes at `x`.
pub(super) fn sloped(curve: Curve, x: &[f32], gradient: &[f32]) -> Vec<f32> {
    match curve {
        Curve::Gelu => gelu_slope(x, gradient),
        Curve::GeluTanh => gelu_tanh_slope(x, gradient),
        Curve::Relu => x.iter().zip(gradient).map(|(x, gradient)| if *x > 0.0 { *gradient } else { 0.0 }).collect(),
        Curve::Silu => silu_slope(x, gradient),
        Curve::Tanh => tanh_slope(x, gradient),
    }
}

/// What is not a number stays so.
#[inline(always)]
fn relu(x: f32) -> f32 {
    if x < 0.0 { 0.0 } else { x }
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
    fn gelu(x: &[f32]) -> Vec<f32> {
        made(x, x, |_, x, _| x * normal(x).0)
    }
}

vectorised! {
    fn gelu_slope(x: &[f32], gradient: &[f32]) -> Vec<f32> {
        // The density of the normal distribution at 0.
        const DENSITY: f32 = 0.398_942_3;
        made(x, gradient, |_, x, gradient| {
            let (share, bell) = normal(x);
            gradient * (share + x * bell * DENSITY)
        })
    }
}

/// `1 / (1 + e^-x)`.
#[inline(always)]
pub(super) fn logistic(x: f32) -> f32 {
    1.0 / (1.0 + exp(-x))
}

/// Twice the argument of the tangent, and its slope.
#[inline(always)]
fn bent(x: f32) -> (f32, f32) {
    const TWICE: f32 = 1.595_769;
    const CUBIC: f32 = 0.044_715;
    (TWICE * (x + CUBIC * x * x * x), TWICE * (1.0 + 3.0 * CUBIC * x * x))
}

vectorised! {
    fn gelu_tanh(x: &[f32]) -> Vec<f32> {
        made(x, x, |_, x, _| x * logistic(bent(x).0))
    }
}

vectorised! {
    fn gelu_tanh_slope(x: &[f32], gradient: &[f32]) -> Vec<f32> {
        made(x, gradient, |_, x, gradient| {
            let (u, slope) = bent(x);
            let share = logistic(u);
            gradient * (share + x * share * (1.0 - share) * slope)
        })
    }
}

vectorised! {
    fn silu(x: &[f32]) -> Vec<f32> {
        made(x, x, |_, x, _| x * logistic(x))
    }
}

vectorised! {
    fn silu_slope(x: &[f32], gradient: &[f32]) -> Vec<f32> {
        made(x, gradient, |_, x, gradient| {
            let share = logistic(x);
            gradient * (share + x * share * (1.0 - share))
        })
    }
}

vectorised! {
    fn tanh(x: &[f32]) -> Vec<f32> {
        made(x, x, |_, x, _| 2.0 * logistic(2.0 * x) - 1.0)
    }
}

vectorised! {
    fn tanh_slope(x: &[f32], gradient: &[f32]) -> Vec<f32> {
        made(x, gradient, |_, x, gradient| {
            let share = logistic(2.0 * x);
            gradient * 4.0 * share * (1.0 - share)
        })
    }
}
