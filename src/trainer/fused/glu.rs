//! Gated linear units (Shazeer 2020): SwiGLU of two inputs, and any activation where one linear
//! layer computes both halves.

use super::activation::{ActivationFn, activate, activation_backward, multiply, sigmoid};
use super::simd::{simd_level, vectorised, zip_map};
use super::{BackwardInput, GradMode, InputGradient, Operation};

/// `silu(gate) * x`: inputs in this order.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SwiGlu;

impl Operation<2> for SwiGlu {
    type Saved = ();

    fn forward(&self, [gate, x]: [&[f32]; 2], _: GradMode) -> (Vec<f32>, ()) {
        (gated(gate, x), ())
    }

    fn backward(&self, pass: BackwardInput<2, ()>) -> [InputGradient; 2] {
        let BackwardInput { inputs: [gate, x], gradient, .. } = pass;
        let (mut dgate, mut dx) = (gradient.to_vec(), gradient.to_vec());
        gated_backward(gate, x, &mut dgate, &mut dx);
        [InputGradient::Values(dgate), InputGradient::Values(dx)]
    }
}

vectorised! {
    fn gated(gate: &[f32], x: &[f32]) -> Vec<f32> {
        zip_map(gate, x, |_, gate, x| gate * sigmoid(gate) * x)
    }
}

vectorised! {
    fn gated_backward(gate: &[f32], x: &[f32], dgate: &mut [f32], dx: &mut [f32]) {
        for (((gate, x), dgate), dx) in gate.iter().zip(x).zip(dgate).zip(dx) {
            let sigmoid = sigmoid(*gate);
            *dgate *= x * (sigmoid + gate * sigmoid * (1.0 - sigmoid));
            *dx *= gate * sigmoid;
        }
    }
}

/// `activation(a) * b` of rows `[a, b]`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PackedGlu {
    pub(crate) activation: ActivationFn,
    /// Columns of the input, an even number.
    pub(crate) columns: usize,
}

impl Operation<1> for PackedGlu {
    type Saved = ();

    fn forward(&self, [x]: [&[f32]; 1], _: GradMode) -> (Vec<f32>, ()) {
        let [first, second] = self.halves(x);
        (multiply(&activate(self.activation, &first), &second), ())
    }

    fn backward(&self, pass: BackwardInput<1, ()>) -> [InputGradient; 1] {
        let BackwardInput { inputs: [x], gradient, .. } = pass;
        let [first, second] = self.halves(x);
        let dfirst = activation_backward(self.activation, &first, &multiply(gradient, &second));
        let dsecond = multiply(gradient, &activate(self.activation, &first));
        let half = self.columns / 2;
        let mut gradients = Vec::with_capacity(x.len());
        for (first, second) in dfirst.chunks_exact(half).zip(dsecond.chunks_exact(half)) {
            gradients.extend_from_slice(first);
            gradients.extend_from_slice(second);
        }
        [InputGradient::Values(gradients)]
    }
}

impl PackedGlu {
    /// The first halves of all rows, and the second.
    fn halves(&self, x: &[f32]) -> [Vec<f32>; 2] {
        let half = self.columns / 2;
        let mut halves = [Vec::with_capacity(x.len() / 2), Vec::with_capacity(x.len() / 2)];
        for row in x.chunks_exact(self.columns) {
            halves[0].extend_from_slice(&row[..half]);
            halves[1].extend_from_slice(&row[half..]);
        }
        halves
    }
}
