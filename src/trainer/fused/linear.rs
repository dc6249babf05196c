//! Linear layers with their surroundings: bias, activation, or dropout and the residual sum.

use super::activation::{ActivationFn, activate_in_place, activate_with_derivative, multiply};
use super::dropout::{DropoutMask, DropoutMaskRow, apply_dropout};
use super::matmul::{
    Beta, Epilogue, Strides, gemm, matmul, matmul_and_column_sums, matmul_concat, matmul_with_bias,
    matmul_with_epilogue, matmul_with_side_output,
};
use super::simd::{simd_level, vectorised};
use super::{BackwardInput, GradMode, InputGradient, Operation};

/// `activation(x W + b)`: inputs `x [rows, in]`, `W [in, width]`, `b [1, width]`, output
/// `[rows, width]`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Linear {
    pub(crate) width: usize,
    pub(crate) activation: Option<ActivationFn>,
}

impl Operation<3> for Linear {
    const SAVES_INPUT: [bool; 3] = [true, true, false];
    /// The derivatives of the activation, if there is one.
    type Saved = Vec<f32>;

    fn forward(&self, [x, weight, bias]: [&[f32]; 3], grad_mode: GradMode) -> (Vec<f32>, Vec<f32>) {
        self.forward_saving(x, weight, bias, grad_mode)
    }

    fn backward(&self, pass: BackwardInput<3, Vec<f32>>) -> [InputGradient; 3] {
        let BackwardInput { inputs: [x, weight, _], saved, gradient, needs_grad } = pass;
        self.gradients(x, weight, &saved, gradient, needs_grad)
    }
}

/// The same without bias: inputs `x`, `W`.
impl Operation<2> for Linear {
    type Saved = Vec<f32>;

    fn forward(&self, [x, weight]: [&[f32]; 2], grad_mode: GradMode) -> (Vec<f32>, Vec<f32>) {
        self.forward_saving(x, weight, &[], grad_mode)
    }

    fn backward(&self, pass: BackwardInput<2, Vec<f32>>) -> [InputGradient; 2] {
        let BackwardInput { inputs: [x, weight], saved, gradient, needs_grad: [dx, dw] } = pass;
        let [dx, dweight, _] = self.gradients(x, weight, &saved, gradient, [dx, dw, false]);
        [dx, dweight]
    }
}

impl Linear {
    /// The gradients of `x`, weight and bias; `derivatives` are those of the activation.
    fn gradients(
        &self,
        x: &[f32],
        weight: &[f32],
        derivatives: &[f32],
        gradient: &[f32],
        needs_grad: [bool; 3],
    ) -> [InputGradient; 3] {
        let kernel = LinearKernel::new(x, weight, self.width);
        match self.activation {
            Some(_) => kernel.backward(x, weight, &multiply(gradient, derivatives), needs_grad),
            None => kernel.backward(x, weight, gradient, needs_grad),
        }
    }

    /// The output and the derivatives of the activation; the bias may be empty.
    fn forward_saving(
        &self,
        x: &[f32],
        weight: &[f32],
        bias: &[f32],
        grad_mode: GradMode,
    ) -> (Vec<f32>, Vec<f32>) {
        let kernel = LinearKernel::new(x, weight, self.width);
        match (self.activation, grad_mode) {
            (None, _) => (kernel.forward(x, weight, bias), Vec::new()),
            (Some(activation), GradMode::Disabled) => (
                kernel.forward_with_epilogue(x, weight, bias, &[], &|_, _, values, _| {
                    activate_in_place(activation, values)
                }),
                Vec::new(),
            ),
            (Some(activation), GradMode::Enabled) => kernel.activated(activation, x, weight, bias),
        }
    }
}

/// `r + dropout(x W + b)`: inputs `r [rows, width]`, `x [rows, in]`, `W [in, width]`,
/// `b [1, width]`, output as `r`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ResidualLinear {
    pub(crate) width: usize,
    pub(crate) dropout: Option<DropoutMask>,
}

impl Operation<4> for ResidualLinear {
    const SAVES_INPUT: [bool; 4] = [false, true, true, false];
    type Saved = ();

    fn forward(&self, [residual, x, weight, bias]: [&[f32]; 4], _: GradMode) -> (Vec<f32>, ()) {
        let kernel = LinearKernel::new(x, weight, self.width);
        let epilogue = residual_epilogue(residual, self.width, self.dropout);
        (kernel.forward_with_epilogue(x, weight, bias, residual, &epilogue), ())
    }

    fn backward(&self, pass: BackwardInput<4, ()>) -> [InputGradient; 4] {
        let BackwardInput { inputs: [_, x, weight, _], gradient, needs_grad, .. } = pass;
        let kernel = LinearKernel::new(x, weight, self.width);
        let [_, needs_grad @ ..] = needs_grad;
        let [dx, dweight, dbias] = match self.dropout.filter(|_| needs_grad.contains(&true)) {
            Some(mask) => {
                kernel.backward(x, weight, &apply_dropout(gradient, self.width, mask), needs_grad)
            }
            None => kernel.backward(x, weight, gradient, needs_grad),
        };
        [InputGradient::SameAsOutput, dx, dweight, dbias]
    }
}

/// Queries, keys and values side by side: `[x W₁ + b₁, x W₂ + b₂, x W₃ + b₃]`. Inputs `x`, the
/// weights, the biases.
#[derive(Debug, Clone, Copy)]
pub(crate) struct QkvLinear {
    /// Columns of queries, of keys and of values.
    pub(crate) widths: [usize; 3],
}

impl QkvLinear {
    /// Each linear layer with the strides of its columns in the output.
    fn kernels(&self, x: &[f32], weights: [&[f32]; 3]) -> [(LinearKernel, Strides); 3] {
        let (mut first, width) = (0, self.widths.iter().sum());
        [0, 1, 2].map(|part| {
            let strides = Strides::new(first, width);
            first += self.widths[part];
            (LinearKernel::new(x, weights[part], self.widths[part]), strides)
        })
    }
}

impl Operation<7> for QkvLinear {
    const SAVES_INPUT: [bool; 7] = [true, true, true, true, false, false, false];
    type Saved = ();

    fn forward(&self, [x, w1, w2, w3, b1, b2, b3]: [&[f32]; 7], _: GradMode) -> (Vec<f32>, ()) {
        let weights = [w1, w2, w3];
        let kernels = self.kernels(x, weights).map(|(kernel, _)| kernel);
        let rights =
            [0, 1, 2].map(|part| (weights[part], kernels[part].outputs(), self.widths[part]));
        let (sizes, left) = ([kernels[0].rows, kernels[0].input], (x, kernels[0].inputs()));
        (matmul_concat(sizes, left, rights, &[b1, b2, b3].concat()), ())
    }

    fn backward(&self, pass: BackwardInput<7, ()>) -> [InputGradient; 7] {
        let BackwardInput { inputs: [x, w1, w2, w3, ..], gradient, needs_grad, .. } = pass;
        let [needs_dx, needs_dweights @ .., db1, db2, db3] = needs_grad;
        let (weights, needs_dbiases) = ([w1, w2, w3], [db1, db2, db3]);
        let kernels = self.kernels(x, weights);
        let mut dx = Vec::new();
        let [[dw1, db1], [dw2, db2], [dw3, db3]] = [0, 1, 2].map(|part| {
            let (kernel, strides) = kernels[part];
            let (doutput, transposed) =
                ((gradient, strides), (weights[part], kernel.outputs().transposed()));
            if needs_dx {
                let sizes = [kernel.rows, kernel.width, kernel.input];
                if part == 0 {
                    dx = matmul(sizes, doutput, transposed);
                } else {
                    let dx = (&mut dx[..], kernel.inputs());
                    gemm(sizes, dx, doutput, transposed, 1.0, Beta::One);
                }
            }
            kernel.parameter_gradients(x, doutput, [needs_dweights[part], needs_dbiases[part]])
        });
        [InputGradient::if_needed(needs_dx, || dx), dw1, dw2, dw3, db1, db2, db3]
    }
}

/// The sizes of a linear layer, `[rows, input]` to `[rows, width]`.
#[derive(Debug, Clone, Copy)]
pub(super) struct LinearKernel {
    rows: usize,
    input: usize,
    width: usize,
}

impl LinearKernel {
    pub(super) fn new(x: &[f32], weight: &[f32], width: usize) -> Self {
        let input = weight.len() / width;
        Self { rows: x.len() / input, input, width }
    }

    fn inputs(self) -> Strides {
        Strides::dense(self.input)
    }

    fn outputs(self) -> Strides {
        Strides::dense(self.width)
    }

    fn sizes(self) -> [usize; 3] {
        [self.rows, self.input, self.width]
    }

    /// `x W + b`; the bias may be empty.
    fn forward(self, x: &[f32], weight: &[f32], bias: &[f32]) -> Vec<f32> {
        matmul_with_bias(self.sizes(), (x, self.inputs()), (weight, self.outputs()), bias)
    }

    /// The same with an epilogue, which reads one value of `reads` for each of the output, or none.
    pub(super) fn forward_with_epilogue(
        self,
        x: &[f32],
        weight: &[f32],
        bias: &[f32],
        reads: &[f32],
        epilogue: &Epilogue<'_>,
    ) -> Vec<f32> {
        let (left, right) = ((x, self.inputs()), (weight, self.outputs()));
        matmul_with_epilogue(self.sizes(), left, right, bias, reads, epilogue)
    }

    /// `activation(x W + b)` and the derivatives of the activation; the bias may be empty.
    #[expect(
        unsafe_code,
        reason = "zeroing the second matrix first would be one more pass over memory"
    )]
    pub(super) fn activated(
        self,
        activation: ActivationFn,
        x: &[f32],
        weight: &[f32],
        bias: &[f32],
    ) -> (Vec<f32>, Vec<f32>) {
        let epilogue: &Epilogue<'_> =
            &|_, _, values, derivatives| activate_with_derivative(activation, values, derivatives);
        let (left, right) = ((x, self.inputs()), (weight, self.outputs()));
        // SAFETY: `activate_with_derivative` writes all of its output.
        unsafe { matmul_with_side_output(self.sizes(), left, right, bias, epilogue) }
    }

    /// The gradients of `x`, weight and bias.
    pub(super) fn backward(
        self,
        x: &[f32],
        weight: &[f32],
        gradient: &[f32],
        [dx, dweight, dbias]: [bool; 3],
    ) -> [InputGradient; 3] {
        let (doutput, inner) = ((gradient, self.outputs()), (weight, self.outputs().transposed()));
        let dx = InputGradient::if_needed(dx, || {
            matmul([self.rows, self.width, self.input], doutput, inner)
        });
        let [dweight, dbias] = self.parameter_gradients(x, doutput, [dweight, dbias]);
        [dx, dweight, dbias]
    }

    /// The gradients of weight and bias.
    fn parameter_gradients(
        self,
        x: &[f32],
        doutput: (&[f32], Strides),
        [dweight, dbias]: [bool; 2],
    ) -> [InputGradient; 2] {
        let (sizes, x) = ([self.input, self.rows, self.width], (x, self.inputs().transposed()));
        if dweight && dbias {
            let (dweight, dbias) = matmul_and_column_sums(sizes, x, doutput);
            return [InputGradient::Values(dweight), InputGradient::Values(dbias)];
        }
        [
            InputGradient::if_needed(dweight, || matmul(sizes, x, doutput)),
            InputGradient::if_needed(dbias, || column_sums([self.rows, self.width], doutput)),
        ]
    }
}

/// The epilogue `residual + dropout(output)` for rows of `width` columns.
pub(super) fn residual_epilogue(
    residual: &[f32],
    width: usize,
    dropout: Option<DropoutMask>,
) -> impl Fn(usize, usize, &mut [f32], &mut [std::mem::MaybeUninit<f32>]) + Sync {
    move |row, column, values, _| {
        let residual = &residual[row * width + column..];
        match dropout {
            Some(mask) => add_dropped(values, residual, mask.row(row), column),
            None => add(values, residual),
        }
    }
}

vectorised! {
    fn add(values: &mut [f32], more: &[f32]) {
        for (value, more) in values.iter_mut().zip(more) {
            *value += more;
        }
    }
}

vectorised! {
    /// `residual + dropout(values)` in place, for values from column `first` on.
    fn add_dropped(values: &mut [f32], residual: &[f32], mask: DropoutMaskRow, first: usize) {
        for (index, (value, residual)) in values.iter_mut().zip(residual).enumerate() {
            *value = residual + *value * mask.factor(first + index);
        }
    }
}

/// The sum of all rows, in their order.
fn column_sums([rows, columns]: [usize; 2], (values, strides): (&[f32], Strides)) -> Vec<f32> {
    let mut sums = vec![0.0; columns];
    for row in 0..rows {
        add(&mut sums, &values[strides.offset + row * strides.row..]);
    }
    sums
}
