//! Nonlinearities number by number, and their slopes, with exponentials that the compiler turns into vector instructions.

use std::mem::MaybeUninit;

use super::lanes::{exp, made, vectorised};
use super::{Operation, Purpose, Slope};

/// A function of one number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::trainer) enum Curve {
    /// `x Φ(x)` (Hendrycks and Gimpel 2016), within 3e-7 times the larger of 1 and |x|.
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

/// `x Φ(x)` and its slope `Φ(x) + x φ(x)`, with the normal distribution's function and density: within 3e-7 times the larger of 1 and |x|, and 4e-7.
///
/// Φ and the slope are a half and something odd, which is `x` times a quotient of polynomials in `x²`: two of them over one, those with the least
/// greatest error up to [`FAR`] (`benches/operations/gelu.py`). No exponential is needed.
#[inline(always)]
fn gelu(x: f32) -> [f32; 2] {
    // No `clamp`: it would turn a NaN into a number.
    let near = if x > FAR { FAR } else { x };
    let near = if near < -FAR { -FAR } else { near };
    let square = near * near;
    let over = near / series(square, [1.0, 0.269_703_4, 0.033_530_343, 0.002_479_264_7, 1.166_750_6e-4, 2.991_471_3e-6, 2.074_050_8e-8]);
    let share = series(square, [0.398_941_8, 0.041_107_453, 0.005_415_364_6, 2.635_433_6e-4, 1.084_755_7e-5, 1.513_162_9e-7, 3.480_157_6e-10])
        .mul_add(over, 0.5);
    let slope = series(
        square,
        [0.797_884_64, -0.050_769_02, 0.014_862_296, -2.967_262_7e-4, 3.145_888_7e-5, -3.167_614_3e-7, 6.392_975_5e-9, -3.407_555e-11],
    )
    .mul_add(over, 0.5);
    if x < -FAR { [0.0; 2] } else { [x * share, slope] }
}

/// Where a normal distribution has less than 2e-8 beyond.
const FAR: f32 = 5.6;

/// The polynomial with these coefficients, that of power 0 first.
#[inline(always)]
fn series<const N: usize>(x: f32, factors: [f32; N]) -> f32 {
    let mut sum = factors[N - 1];
    for factor in factors[..N - 1].iter().rev() {
        sum = x.mul_add(sum, *factor);
    }
    sum
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
