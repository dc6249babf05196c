//! What follows a product, in one pass: bias and activation, or bias, dropout and residual; dropout
//! alone; and AdamW's step.
#![expect(unstable_name_collisions, reason = "`erf` of a kernel is CubeCL's")]

use burn::cubecl;
use burn::cubecl::prelude::*;
use burn::tensor::DType;
use burn_backend::cubecl::dtype_to_storage_type;
use burn_cubecl::tensor::CubeTensor;

use super::super::fused::{ActivationFn, AdamWScalars, DropoutMask};
use super::operation::{DeviceOperation, empty, mix, row_major, unit_per_element};
use super::products::column_sums;

/// `x [rows, width]` plus `bias [1, width]`, in the dtype of `x`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AddBias;

impl DeviceOperation<2> for AddBias {
    type Saved = ();

    fn forward(&self, [x, bias]: [CubeTensor; 2]) -> (CubeTensor, ()) {
        (bias_activation(x, bias, None), ())
    }

    fn backward(&self, (): (), gradient: CubeTensor, needs: [bool; 2]) -> [Option<CubeTensor>; 2] {
        let of_bias = needs[1].then(|| column_sums(gradient.clone()));
        [Some(gradient), of_bias]
    }
}

/// `activation(x + bias)` of `[rows, width]` and `[1, width]`, in the dtype of `x`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BiasActivation(pub(crate) ActivationFn);

impl DeviceOperation<2> for BiasActivation {
    type Saved = [CubeTensor; 2];

    fn forward(&self, [x, bias]: [CubeTensor; 2]) -> (CubeTensor, Self::Saved) {
        (bias_activation(x.clone(), bias.clone(), Some(self.0)), [x, bias])
    }

    fn backward(
        &self,
        [x, bias]: Self::Saved,
        gradient: CubeTensor,
        needs: [bool; 2],
    ) -> [Option<CubeTensor>; 2] {
        let of_x = bias_activation_backward(x, bias, gradient, self.0);
        let of_bias = needs[1].then(|| column_sums(of_x.clone()));
        [Some(of_x), of_bias]
    }
}

/// `residual + dropout(x + bias)` of `[rows, width]`, `[rows, width]` and `[1, width]`, in f32.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AddToResidual(pub(crate) Option<DropoutMask>);

impl DeviceOperation<3> for AddToResidual {
    /// The dtype of `x`.
    type Saved = DType;

    fn forward(&self, [residual, x, bias]: [CubeTensor; 3]) -> (CubeTensor, DType) {
        let dtype = x.dtype;
        (add_to_residual(residual, x, bias, self.0), dtype)
    }

    fn backward(
        &self,
        dtype: DType,
        gradient: CubeTensor,
        needs: [bool; 3],
    ) -> [Option<CubeTensor>; 3] {
        let of_x = masked(gradient.clone(), self.0, dtype);
        let of_bias = needs[2].then(|| column_sums(of_x.clone()));
        [Some(gradient), Some(of_x), of_bias]
    }
}

/// Dropout of `[rows, width]`, in f32.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Dropout(pub(crate) DropoutMask);

impl DeviceOperation<1> for Dropout {
    /// The input's dtype.
    type Saved = DType;

    fn forward(&self, [x]: [CubeTensor; 1]) -> (CubeTensor, DType) {
        let dtype = x.dtype;
        (masked(x, Some(self.0), DType::F32), dtype)
    }

    fn backward(
        &self,
        dtype: DType,
        gradient: CubeTensor,
        _: [bool; 1],
    ) -> [Option<CubeTensor>; 1] {
        [Some(masked(gradient, Some(self.0), dtype))]
    }
}

/// No element is dropped.
fn all_kept() -> DropoutMask {
    DropoutMask::new(0, 0.0)
}

pub(super) fn bias_activation(
    x: CubeTensor,
    bias: CubeTensor,
    activation: Option<ActivationFn>,
) -> CubeTensor {
    let (x, bias) = (row_major(x), row_major(bias));
    let (client, [rows, width]) = (x.client.clone(), x.meta.shape().dims::<2>());
    let out = empty(&x, [rows, width], x.dtype);
    let (count, dim) = unit_per_element(rows * width);
    let dtype = dtype_to_storage_type(x.dtype);
    activation_kernel::launch(
        &client,
        count,
        dim,
        x.into_buffer_arg(),
        bias.into_buffer_arg(),
        out.clone().into_buffer_arg(),
        rows * width,
        width,
        activation,
        dtype,
    );
    out
}

pub(super) fn bias_activation_backward(
    x: CubeTensor,
    bias: CubeTensor,
    gradient: CubeTensor,
    activation: ActivationFn,
) -> CubeTensor {
    let (x, bias, gradient) = (row_major(x), row_major(bias), row_major(gradient));
    let (client, [rows, width]) = (x.client.clone(), x.meta.shape().dims::<2>());
    let out = empty(&x, [rows, width], x.dtype);
    let (count, dim) = unit_per_element(rows * width);
    let dtypes = [x.dtype, gradient.dtype].map(dtype_to_storage_type);
    activation_backward_kernel::launch(
        &client,
        count,
        dim,
        x.into_buffer_arg(),
        bias.into_buffer_arg(),
        gradient.into_buffer_arg(),
        out.clone().into_buffer_arg(),
        rows * width,
        width,
        activation,
        dtypes,
    );
    out
}

pub(super) fn add_to_residual(
    residual: CubeTensor,
    x: CubeTensor,
    bias: CubeTensor,
    mask: Option<DropoutMask>,
) -> CubeTensor {
    let (residual, x, bias) = (row_major(residual), row_major(x), row_major(bias));
    let (client, [rows, width]) = (x.client.clone(), x.meta.shape().dims::<2>());
    let out = empty(&x, [rows, width], DType::F32);
    let (count, dim) = unit_per_element(rows * width);
    let dropout = mask.unwrap_or(all_kept());
    let (low, high, threshold) = dropout.words();
    let dtype = dtype_to_storage_type(x.dtype);
    residual_kernel::launch(
        &client,
        count,
        dim,
        residual.into_buffer_arg(),
        x.into_buffer_arg(),
        bias.into_buffer_arg(),
        out.clone().into_buffer_arg(),
        rows * width,
        width,
        low,
        high,
        threshold,
        dropout.scale,
        mask.is_some(),
        dtype,
    );
    out
}

/// `x` with dropped elements 0 and the others scaled, in `dtype`.
pub(super) fn masked(x: CubeTensor, mask: Option<DropoutMask>, dtype: DType) -> CubeTensor {
    let x = row_major(x);
    if mask.is_none() && x.dtype == dtype {
        return x;
    }
    let (client, [rows, width]) = (x.client.clone(), x.meta.shape().dims::<2>());
    let out = empty(&x, [rows, width], dtype);
    let (count, dim) = unit_per_element(rows * width);
    let dropout = mask.unwrap_or(all_kept());
    let (low, high, threshold) = dropout.words();
    let dtypes = [x.dtype, dtype].map(dtype_to_storage_type);
    masked_kernel::launch(
        &client,
        count,
        dim,
        x.into_buffer_arg(),
        out.clone().into_buffer_arg(),
        rows * width,
        width,
        low,
        high,
        threshold,
        dropout.scale,
        mask.is_some(),
        dtypes,
    );
    out
}

/// The tensors of a parameter in a step of AdamW, and its scalars.
#[derive(Clone)]
pub(super) struct AdamWInput {
    pub(super) value: CubeTensor,
    pub(super) gradient: CubeTensor,
    pub(super) mean: CubeTensor,
    pub(super) square: CubeTensor,
    pub(super) scalars: AdamWScalars,
}

/// Units of a cube, and cubes of a parameter at most: a unit may have several elements.
const ADAMW_UNITS: u32 = 256;
const MOST_CUBES: u32 = 4096;

/// Parameters of one launch. Each binds seven buffers, of which Metal has 31.
const PARAMETERS: usize = 4;

/// New values and moments of all parameters; gradients are multiplied by `clip [1, 1]`. The decay
/// rates and epsilon are those of the first.
pub(super) fn adamw_step(inputs: &[AdamWInput], clip: &CubeTensor) -> Vec<[CubeTensor; 3]> {
    let step = |inputs: &[AdamWInput]| {
        let first = &inputs[0];
        let outputs: Vec<[CubeTensor; 3]> = inputs
            .iter()
            .map(|input| [0; 3].map(|_| empty(clip, input.value.meta.shape().clone(), DType::F32)))
            .collect();
        let elements =
            |index: usize| inputs.get(index).map_or(0, |input| input.value.meta.num_elements());
        let buffers = |index: usize| {
            // Those beyond the last parameter have no elements.
            let (input, output) = (inputs.get(index).unwrap_or(first), outputs.get(index));
            let [new_value, new_mean, new_square] = output
                .cloned()
                .unwrap_or_else(|| [0; 3].map(|_| empty(clip, [1, 1], DType::F32)))
                .map(|tensor| tensor.into_buffer_arg());
            let [value, gradient, mean, square] =
                [&input.value, &input.gradient, &input.mean, &input.square]
                    .map(|tensor| row_major(tensor.clone()).into_buffer_arg());
            AdamWBuffersLaunch::new(
                value,
                gradient,
                mean,
                square,
                new_value,
                new_mean,
                new_square,
                elements(index),
                input.scalars.shrink,
                input.scalars.rate,
            )
        };
        let most = (0..PARAMETERS).map(elements).max().unwrap_or(0);
        let cubes = u32::try_from(most.div_ceil(ADAMW_UNITS as usize)).unwrap_or(u32::MAX);
        let (cubes, scalars) = (cubes.clamp(1, MOST_CUBES), first.scalars);
        adamw_kernel::launch(
            &first.value.client,
            CubeCount::Static(cubes, 4, 1),
            CubeDim::new_1d(ADAMW_UNITS),
            buffers(0),
            buffers(1),
            buffers(2),
            buffers(3),
            clip.clone().into_buffer_arg(),
            scalars.mean[0],
            scalars.square[0],
            scalars.epsilon,
            scalars.scale,
        );
        outputs
    };
    inputs.chunks(PARAMETERS).flat_map(step).collect()
}

/// The root of 1/2, of 2/pi, and of 1/(2 pi).
const ROOT_HALF: f32 = std::f32::consts::FRAC_1_SQRT_2;
const ROOT_TWO_OVER_PI: f32 = 0.797_884_6;
const ROOT_INVERSE_TWO_PI: f32 = 0.398_942_3;
/// The coefficient of the cube in GELU's approximation.
const CUBIC: f32 = 0.044_715;

#[cube]
fn activate(x: f32, #[comptime] activation: ActivationFn) -> f32 {
    if comptime!(activation == ActivationFn::Gelu) {
        0.5f32 * x * (1.0f32 + (x * ROOT_HALF).erf())
    } else if comptime!(activation == ActivationFn::GeluTanh) {
        0.5f32 * x * (1.0f32 + (ROOT_TWO_OVER_PI * (x + CUBIC * x * x * x)).tanh())
    } else if comptime!(activation == ActivationFn::Relu) {
        max(x, 0.0f32)
    } else if comptime!(activation == ActivationFn::Silu) {
        x / (1.0f32 + (-x).exp())
    } else {
        x.tanh()
    }
}

#[cube]
fn derivative(x: f32, #[comptime] activation: ActivationFn) -> f32 {
    if comptime!(activation == ActivationFn::Gelu) {
        let below = 0.5f32 * (1.0f32 + (x * ROOT_HALF).erf());
        below + x * ROOT_INVERSE_TWO_PI * (-0.5f32 * x * x).exp()
    } else if comptime!(activation == ActivationFn::GeluTanh) {
        let inner = (ROOT_TWO_OVER_PI * (x + CUBIC * x * x * x)).tanh();
        let slope = ROOT_TWO_OVER_PI * (1.0f32 + 3.0f32 * CUBIC * x * x);
        0.5f32 * (1.0f32 + inner) + 0.5f32 * x * (1.0f32 - inner * inner) * slope
    } else if comptime!(activation == ActivationFn::Relu) {
        let mut slope = 0.0f32;
        if x > 0.0f32 {
            slope = 1.0f32;
        }
        slope
    } else if comptime!(activation == ActivationFn::Silu) {
        let sigmoid = 1.0f32 / (1.0f32 + (-x).exp());
        sigmoid * (1.0f32 + x * (1.0f32 - sigmoid))
    } else {
        let value = x.tanh();
        1.0f32 - value * value
    }
}

/// The factor of an element under dropout.
#[cube]
fn kept(row: usize, column: usize, low: u32, high: u32, threshold: u32, scale: f32) -> f32 {
    let key = mix(mix(u32::cast_from(row) ^ low) + high);
    let mut factor = scale;
    if mix(u32::cast_from(column) ^ key) < threshold {
        factor = 0.0f32;
    }
    factor
}

#[cube(launch)]
fn activation_kernel<F: Float>(
    x: &[F],
    bias: &[f32],
    out: &mut [F],
    elements: usize,
    #[comptime] width: usize,
    #[comptime] activation: Option<ActivationFn>,
    #[define(F)] _dtype: ElemType,
) {
    if ABSOLUTE_POS >= elements {
        terminate!();
    }
    let mut value = f32::cast_from(x[ABSOLUTE_POS]) + bias[ABSOLUTE_POS % width];
    if comptime!(activation.is_some()) {
        value = activate(value, comptime!(activation.unwrap_or(ActivationFn::Relu)));
    }
    out[ABSOLUTE_POS] = F::cast_from(value);
}

#[cube(launch)]
fn activation_backward_kernel<F: Float, G: Float>(
    x: &[F],
    bias: &[f32],
    gradient: &[G],
    out: &mut [F],
    elements: usize,
    #[comptime] width: usize,
    #[comptime] activation: ActivationFn,
    #[define(F, G)] _dtypes: [ElemType; 2],
) {
    if ABSOLUTE_POS >= elements {
        terminate!();
    }
    let value = f32::cast_from(x[ABSOLUTE_POS]) + bias[ABSOLUTE_POS % width];
    let slope = derivative(value, activation);
    out[ABSOLUTE_POS] = F::cast_from(f32::cast_from(gradient[ABSOLUTE_POS]) * slope);
}

#[cube(launch)]
fn residual_kernel<F: Float>(
    residual: &[f32],
    x: &[F],
    bias: &[f32],
    out: &mut [f32],
    elements: usize,
    #[comptime] width: usize,
    low: u32,
    high: u32,
    threshold: u32,
    scale: f32,
    #[comptime] drops: bool,
    #[define(F)] _dtype: ElemType,
) {
    if ABSOLUTE_POS >= elements {
        terminate!();
    }
    let column = ABSOLUTE_POS % width;
    let mut value = f32::cast_from(x[ABSOLUTE_POS]) + bias[column];
    if drops {
        value *= kept(ABSOLUTE_POS / width, column, low, high, threshold, scale);
    }
    out[ABSOLUTE_POS] = residual[ABSOLUTE_POS] + value;
}

#[cube(launch)]
fn masked_kernel<F: Float, O: Float>(
    x: &[F],
    out: &mut [O],
    elements: usize,
    #[comptime] width: usize,
    low: u32,
    high: u32,
    threshold: u32,
    scale: f32,
    #[comptime] drops: bool,
    #[define(F, O)] _dtypes: [ElemType; 2],
) {
    if ABSOLUTE_POS >= elements {
        terminate!();
    }
    let mut value = f32::cast_from(x[ABSOLUTE_POS]);
    if drops {
        let row = ABSOLUTE_POS / width;
        value *= kept(row, ABSOLUTE_POS % width, low, high, threshold, scale);
    }
    out[ABSOLUTE_POS] = O::cast_from(value);
}

/// The buffers of a parameter in a step of AdamW, how many elements it has, and its scalars.
#[derive(CubeType, CubeLaunch)]
struct AdamWBuffers {
    value: Box<[f32]>,
    gradient: Box<[f32]>,
    mean: Box<[f32]>,
    square: Box<[f32]>,
    new_value: Box<[f32]>,
    new_mean: Box<[f32]>,
    new_square: Box<[f32]>,
    elements: usize,
    shrink: f32,
    rate: f32,
}

/// Each row of cubes has a parameter.
#[cube(launch)]
fn adamw_kernel(
    mut a: AdamWBuffers,
    mut b: AdamWBuffers,
    mut c: AdamWBuffers,
    mut d: AdamWBuffers,
    clip: &[f32],
    beta1: f32,
    beta2: f32,
    epsilon: f32,
    root: f32,
) {
    if CUBE_POS_Y == 0 {
        adamw(&mut a, clip[0], beta1, beta2, epsilon, root);
    } else if CUBE_POS_Y == 1 {
        adamw(&mut b, clip[0], beta1, beta2, epsilon, root);
    } else if CUBE_POS_Y == 2 {
        adamw(&mut c, clip[0], beta1, beta2, epsilon, root);
    } else {
        adamw(&mut d, clip[0], beta1, beta2, epsilon, root);
    }
}

#[cube]
fn adamw(parameter: &mut AdamWBuffers, clip: f32, beta1: f32, beta2: f32, epsilon: f32, root: f32) {
    let mut at = (CUBE_POS_X * CUBE_DIM_X + UNIT_POS_X) as usize;
    let stride = (CUBE_COUNT_X * CUBE_DIM_X) as usize;
    while at < parameter.elements {
        let own = parameter.gradient[at] * clip;
        let first = parameter.mean[at] * beta1 + own * (1.0f32 - beta1);
        let second = parameter.square[at] * beta2 + own * own * (1.0f32 - beta2);
        let change = first / (second.sqrt() * root + epsilon) * parameter.rate;
        parameter.new_value[at] = parameter.value[at] * parameter.shrink - change;
        parameter.new_mean[at] = first;
        parameter.new_square[at] = second;
        at += stride;
    }
}
