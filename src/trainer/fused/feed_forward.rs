//! The plain feed-forward network as one operation, which saves the activations and derivatives
//! between its linear layers.

use super::activation::{ActivationFn, activate_in_place, multiply_in_place};
use super::dropout::{DropoutMask, apply_dropout};
use super::linear::{LinearKernel, residual_epilogue};
use super::matmul::{Epilogue, Strides, matmul_with_epilogue};
use super::{BackwardInput, GradMode, InputGradient, Operation};

/// `r + dropout(activation(x W₁ + b₁) W₂ + b₂)`: inputs `r [rows, width]`, `x [rows, in]`,
/// `W₁ [in, inner]`, `b₁ [1, inner]`, `W₂ [inner, width]`, `b₂ [1, width]`, output as `r`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FeedForward {
    pub(crate) inner: usize,
    pub(crate) width: usize,
    pub(crate) activation: ActivationFn,
    pub(crate) dropout: Option<DropoutMask>,
}

impl Operation<6> for FeedForward {
    const SAVES_INPUT: [bool; 6] = [false, true, true, false, true, false];
    /// The input of the second linear layer, and the derivatives of the activation.
    type Saved = [Vec<f32>; 2];

    fn forward(
        &self,
        [residual, x, w1, b1, w2, b2]: [&[f32]; 6],
        grad_mode: GradMode,
    ) -> (Vec<f32>, Self::Saved) {
        let (activation, kernel) = (self.activation, LinearKernel::new(x, w1, self.inner));
        let (activated, derivatives) = match grad_mode {
            GradMode::Enabled => kernel.activated(activation, x, w1, b1),
            GradMode::Disabled => (
                kernel.forward_with_epilogue(x, w1, b1, &[], &|_, _, values, _| {
                    activate_in_place(activation, values)
                }),
                Vec::new(),
            ),
        };
        let kernel = LinearKernel::new(&activated, w2, self.width);
        let epilogue = residual_epilogue(residual, self.width, self.dropout);
        let output = kernel.forward_with_epilogue(&activated, w2, b2, residual, &epilogue);
        (output, [activated, derivatives])
    }

    fn backward(&self, pass: BackwardInput<6, Self::Saved>) -> [InputGradient; 6] {
        let BackwardInput { inputs, saved, gradient, needs_grad } = pass;
        let ([_, x, w1, _, w2, _], [activated, derivatives]) = (inputs, saved);
        let [_, dx, dw1, db1, dw2, db2] = needs_grad;
        if needs_grad[1..] == [false; 5] {
            return std::array::from_fn(|input| {
                if input == 0 { InputGradient::SameAsOutput } else { InputGradient::NotNeeded }
            });
        }
        let dropped = self.dropout.map(|mask| apply_dropout(gradient, self.width, mask));
        let doutput = dropped.as_deref().unwrap_or(gradient);
        let inner = self.between(&derivatives, w2, doutput);
        drop(derivatives);
        let kernel = LinearKernel::new(&activated, w2, self.width);
        let [_, dw2, db2] = kernel.backward(&activated, w2, doutput, [false, dw2, db2]);
        drop(activated);
        let kernel = LinearKernel::new(x, w1, self.inner);
        let [dx, dw1, db1] = kernel.backward(x, w1, &inner, [dx, dw1, db1]);
        [InputGradient::SameAsOutput, dx, dw1, db1, dw2, db2]
    }
}

impl FeedForward {
    /// The gradient of the first linear layer's output.
    fn between(&self, derivatives: &[f32], w2: &[f32], doutput: &[f32]) -> Vec<f32> {
        let columns = self.inner;
        let sizes = [doutput.len() / self.width, self.width, columns];
        let (left, right) =
            ((doutput, Strides::dense(self.width)), (w2, Strides::dense(self.width).transposed()));
        let epilogue: &Epilogue<'_> = &|row, column, values, _| {
            multiply_in_place(values, &derivatives[row * columns + column..])
        };
        matmul_with_epilogue(sizes, left, right, &[], derivatives, epilogue)
    }
}
