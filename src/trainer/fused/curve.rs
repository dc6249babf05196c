//! Nonlinearities number by number, and their slopes, with exponentials that the compiler turns into vector instructions.

use std::mem::MaybeUninit;

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

/// Goes on with the value and the slope of a curve at a number, as a function that is compiled into its loop.
macro_rules! with_curve {
    ($curve:expr, $point:ident => $body:expr) => {
        match $curve {
            Curve::Gelu => {
                let $point = gelu;
                $body
            }
            Curve::GeluTanh => {
                let $point = gelu_tanh;
                $body
            }
            Curve::Relu => {
                let $point = relu;
                $body
            }
            Curve::Silu => {
                let $point = silu;
                $body
            }
            Curve::Tanh => {
                let $point = tanh;
                $body
            }
        }
    };
}

vectorised! {
    /// The curve at every number.
    pub(super) fn curved(curve: Curve, x: &[f32]) -> Vec<f32> {
        with_curve!(curve, point => made(x, x, |_, x, _| point(x)[0]))
    }
}

vectorised! {
    /// Every number becomes the curve there.
    pub(super) fn bend(curve: Curve, numbers: &mut [f32]) {
        with_curve!(curve, point => for number in numbers {
            *number = point(*number)[0];
        });
    }
}

vectorised! {
    /// `gradient` times the curve's slopes at `x`.
    pub(super) fn sloped(curve: Curve, x: &[f32], gradient: &[f32]) -> Vec<f32> {
        with_curve!(curve, point => made(x, gradient, |_, x, gradient| gradient * point(x)[1]))
    }
}

vectorised! {
    /// Every number becomes the curve there, and the slopes there are written to `room` for as many.
    pub(super) fn bend_and_slope(curve: Curve, numbers: &mut [f32], room: &mut [MaybeUninit<f32>]) {
        assert!(numbers.len() == room.len(), "a slope for each number");
        with_curve!(curve, point => for (number, room) in numbers.iter_mut().zip(room) {
            let [value, slope] = point(*number);
            *number = value;
            room.write(slope);
        });
    }
}

vectorised! {
    /// Numbers multiplied with as many more.
    pub(super) fn times(a: &[f32], b: &[f32]) -> Vec<f32> {
        made(a, b, |_, a, b| a * b)
    }
}

vectorised! {
    /// Every number is multiplied with one of as many more.
    pub(super) fn multiply(numbers: &mut [f32], more: &[f32]) {
        for (number, more) in numbers.iter_mut().zip(more) {
            *number *= more;
        }
    }
}

/// Φ(x), the normal distribution function, and e^(-x²/2); the former within 3e-7 (Abramowitz and Stegun 7.1.26, whose exponential is the latter).
#[inline(always)]
fn normal(x: f32) -> (f32, f32) {
    let z = x.abs() * std::f32::consts::FRAC_1_SQRT_2;
    let t = 1.0 / z.mul_add(0.327_591_1, 1.0);
    let bell = exp(-z * z);
    let mut series = 1.061_405_4;
    for factor in [-1.453_152, 1.421_413_7, -0.284_496_74, 0.254_829_6] {
        series = t.mul_add(series, factor);
    }
    let tail = 0.5 * series * t * bell;
    (if x < 0.0 { tail } else { 1.0 - tail }, bell)
}

#[inline(always)]
fn gelu(x: f32) -> [f32; 2] {
    // The density of the normal distribution at 0.
    const DENSITY: f32 = 0.398_942_3;
    let (share, bell) = normal(x);
    [x * share, (x * DENSITY).mul_add(bell, share)]
}

/// `1 / (1 + e^-x)`.
#[inline(always)]
pub(super) fn logistic(x: f32) -> f32 {
    1.0 / (1.0 + exp(-x))
}

#[inline(always)]
fn gelu_tanh(x: f32) -> [f32; 2] {
    const TWICE: f32 = 1.595_769;
    const CUBIC: f32 = 0.044_715;
    // Twice the argument of the tangent, and its slope.
    let (u, slope) = (TWICE * (x + CUBIC * x * x * x), TWICE * (1.0 + 3.0 * CUBIC * x * x));
    let share = logistic(u);
    [x * share, share + x * share * (1.0 - share) * slope]
}

/// What is not a number stays so.
#[inline(always)]
fn relu(x: f32) -> [f32; 2] {
    [if x < 0.0 { 0.0 } else { x }, if x > 0.0 { 1.0 } else { 0.0 }]
}

#[inline(always)]
fn silu(x: f32) -> [f32; 2] {
    let share = logistic(x);
    [x * share, share + x * share * (1.0 - share)]
}

#[inline(always)]
fn tanh(x: f32) -> [f32; 2] {
    let share = logistic(2.0 * x);
    [2.0 * share - 1.0, 4.0 * share * (1.0 - share)]
}
