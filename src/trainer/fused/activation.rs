//! Activation functions and their derivatives, with an exponential that the compiler vectorises.

use std::mem::MaybeUninit;

use super::simd::{exp, simd_level, vectorised, zip_map};
use super::{BackwardInput, GradMode, InputGradient, Operation};

/// An element-wise activation function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum ActivationFn {
    /// `x Φ(x)` (Hendrycks and Gimpel 2016), with an error below 3e-7 max(1, |x|).
    Gelu,
    /// GPT-2's approximation: `x σ(2u)` with `u = √(2/π) (x + 0.044715 x³)`.
    GeluTanh,
    Relu,
    /// `x σ(x)`, also called swish.
    Silu,
    Tanh,
}

impl Operation<1> for ActivationFn {
    type Saved = ();

    fn forward(&self, [x]: [&[f32]; 1], _: GradMode) -> (Vec<f32>, ()) {
        (activate(*self, x), ())
    }

    fn backward(&self, pass: BackwardInput<1, ()>) -> [InputGradient; 1] {
        let BackwardInput { inputs: [x], gradient, .. } = pass;
        [InputGradient::Values(activation_backward(*self, x, gradient))]
    }
}

/// Runs the body with the function from an element to its activation and derivative, one instance
/// of the loop per activation.
macro_rules! with_activation {
    ($activation:expr, $function:ident => $body:expr) => {
        match $activation {
            ActivationFn::Gelu => with_activation!(gelu as $function => $body),
            ActivationFn::GeluTanh => with_activation!(gelu_tanh as $function => $body),
            ActivationFn::Relu => with_activation!(relu as $function => $body),
            ActivationFn::Silu => with_activation!(silu as $function => $body),
            ActivationFn::Tanh => with_activation!(tanh as $function => $body),
        }
    };
    ($instance:ident as $function:ident => $body:expr) => {{
        let $function = $instance;
        $body
    }};
}

vectorised! {
    pub(super) fn activate(activation: ActivationFn, x: &[f32]) -> Vec<f32> {
        with_activation!(activation, function => zip_map(x, x, |_, x, _| function(x)[0]))
    }
}

vectorised! {
    pub(super) fn activate_in_place(activation: ActivationFn, values: &mut [f32]) {
        with_activation!(activation, function => for x in values {
            *x = function(*x)[0];
        });
    }
}

vectorised! {
    /// `gradient` times the derivatives at `x`.
    pub(super) fn activation_backward(
        activation: ActivationFn,
        x: &[f32],
        gradient: &[f32],
    ) -> Vec<f32> {
        with_activation!(activation, function => {
            zip_map(x, gradient, |_, x, gradient| gradient * function(x)[1])
        })
    }
}

vectorised! {
    /// Replaces the values by their activations, and writes the derivatives to `derivatives`.
    pub(super) fn activate_with_derivative(
        activation: ActivationFn,
        values: &mut [f32],
        derivatives: &mut [MaybeUninit<f32>],
    ) {
        assert!(values.len() == derivatives.len(), "as many derivatives as values");
        with_activation!(activation, function => {
            for (x, output) in values.iter_mut().zip(derivatives) {
                let [value, derivative] = function(*x);
                *x = value;
                output.write(derivative);
            }
        });
    }
}

vectorised! {
    pub(super) fn multiply(a: &[f32], b: &[f32]) -> Vec<f32> {
        zip_map(a, b, |_, a, b| a * b)
    }
}

vectorised! {
    pub(super) fn multiply_in_place(values: &mut [f32], factors: &[f32]) {
        for (x, factor) in values.iter_mut().zip(factors) {
            *x *= factor;
        }
    }
}

/// `x Φ(x)` and its derivative `Φ(x) + x φ(x)`, with errors below 3e-7 max(1, |x|) and 4e-7.
///
/// Both Φ and the derivative are ½ plus an odd function, which is `x` times a rational function of
/// `x²`: two numerators over one denominator, the minimax ones up to [`TAIL`]
/// (`benches/operations/gelu.py`). No exponential is needed.
#[inline(always)]
fn gelu(x: f32) -> [f32; 2] {
    // Not `clamp`, which would turn NaN into a number.
    let clamped = if x > TAIL { TAIL } else { x };
    let clamped = if clamped < -TAIL { -TAIL } else { clamped };
    let squared = clamped * clamped;
    let quotient = clamped
        / polynomial(
            squared,
            [
                1.0,
                0.269_703_4,
                0.033_530_343,
                0.002_479_264_7,
                1.166_750_6e-4,
                2.991_471_3e-6,
                2.074_050_8e-8,
            ],
        );
    let cdf = polynomial(
        squared,
        [
            0.398_941_8,
            0.041_107_453,
            0.005_415_364_6,
            2.635_433_6e-4,
            1.084_755_7e-5,
            1.513_162_9e-7,
            3.480_157_6e-10,
        ],
    )
    .mul_add(quotient, 0.5);
    let derivative = polynomial(
        squared,
        [
            0.797_884_64,
            -0.050_769_02,
            0.014_862_296,
            -2.967_262_7e-4,
            3.145_888_7e-5,
            -3.167_614_3e-7,
            6.392_975_5e-9,
            -3.407_555e-11,
        ],
    )
    .mul_add(quotient, 0.5);
    if x < -TAIL { [0.0; 2] } else { [x * cdf, derivative] }
}

/// The normal distribution has less than 2e-8 beyond.
const TAIL: f32 = 5.6;

/// Horner's scheme; the constant coefficient is the first.
#[inline(always)]
fn polynomial<const N: usize>(x: f32, coefficients: [f32; N]) -> f32 {
    let mut sum = coefficients[N - 1];
    for coefficient in coefficients[..N - 1].iter().rev() {
        sum = x.mul_add(sum, *coefficient);
    }
    sum
}

#[inline(always)]
pub(super) fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + exp(-x))
}

#[inline(always)]
fn gelu_tanh(x: f32) -> [f32; 2] {
    const TWO_SQRT_2_OVER_PI: f32 = 1.595_769;
    const CUBIC: f32 = 0.044_715;
    // Twice the argument of the tangent, and its derivative.
    let (u, derivative) = (
        TWO_SQRT_2_OVER_PI * (x + CUBIC * x * x * x),
        TWO_SQRT_2_OVER_PI * (1.0 + 3.0 * CUBIC * x * x),
    );
    let sigmoid = sigmoid(u);
    [x * sigmoid, sigmoid + x * sigmoid * (1.0 - sigmoid) * derivative]
}

/// NaN stays NaN.
#[inline(always)]
fn relu(x: f32) -> [f32; 2] {
    [if x < 0.0 { 0.0 } else { x }, if x > 0.0 { 1.0 } else { 0.0 }]
}

#[inline(always)]
fn silu(x: f32) -> [f32; 2] {
    let sigmoid = sigmoid(x);
    [x * sigmoid, sigmoid + x * sigmoid * (1.0 - sigmoid)]
}

#[inline(always)]
fn tanh(x: f32) -> [f32; 2] {
    let sigmoid = sigmoid(2.0 * x);
    [2.0 * sigmoid - 1.0, 4.0 * sigmoid * (1.0 - sigmoid)]
}
