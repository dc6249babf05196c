//! What follows a product, in one pass: bias and activation, or bias, dropout and residual; dropout
//! alone; and AdamW's step.
#![expect(unstable_name_collisions, reason = "`erf` of a kernel is CubeCL's")]

use burn::backend::fusion::custom::TensorSpec;
use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, Cube, backend_extension};
use burn::cubecl;
use burn::cubecl::prelude::*;
use burn::tensor::DType;
use burn_backend::cubecl::dtype_to_storage_type;
use burn_cubecl::CubeBackend;

use super::super::fused::{ActivationFn, AdamWScalars, DropoutMask};
use super::operation::{DeviceOperation, GpuTensor, empty, mix, row_major, unit_per_element};
use super::products::ProductKernels;

/// `activation(x + bias)` of `[rows, width]` and `[1, width]`, in the dtype of `x`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BiasActivation(pub(crate) ActivationFn);

impl DeviceOperation<2> for BiasActivation {
    type Saved = [GpuTensor; 2];

    fn forward(&self, [x, bias]: [GpuTensor; 2]) -> (GpuTensor, Self::Saved) {
        (Cube::bias_activation(x.clone(), bias.clone(), self.0), [x, bias])
    }

    fn backward(
        &self,
        [x, bias]: Self::Saved,
        gradient: GpuTensor,
        needs: [bool; 2],
    ) -> [Option<GpuTensor>; 2] {
        let of_x = Cube::bias_activation_backward(x, bias, gradient, self.0);
        let of_bias = needs[1].then(|| Cube::column_sums(of_x.clone()));
        [Some(of_x), of_bias]
    }
}

/// `residual + dropout(x + bias)` of `[rows, width]`, `[rows, width]` and `[1, width]`, in f32.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AddToResidual(pub(crate) Option<DropoutMask>);

impl DeviceOperation<3> for AddToResidual {
    /// The dtype of `x`.
    type Saved = DType;

    fn forward(&self, [residual, x, bias]: [GpuTensor; 3]) -> (GpuTensor, DType) {
        let dtype = x.dtype;
        (Cube::add_to_residual(residual, x, bias, self.0), dtype)
    }

    fn backward(
        &self,
        dtype: DType,
        gradient: GpuTensor,
        needs: [bool; 3],
    ) -> [Option<GpuTensor>; 3] {
        let of_x = Cube::masked(gradient.clone(), self.0, dtype);
        let of_bias = needs[2].then(|| Cube::column_sums(of_x.clone()));
        [Some(gradient), Some(of_x), of_bias]
    }
}

/// Dropout of `[rows, width]`, in f32.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Dropout(pub(crate) DropoutMask);

impl DeviceOperation<1> for Dropout {
    /// The input's dtype.
    type Saved = DType;

    fn forward(&self, [x]: [GpuTensor; 1]) -> (GpuTensor, DType) {
        let dtype = x.dtype;
        (Cube::masked(x, Some(self.0), DType::F32), dtype)
    }

    fn backward(&self, dtype: DType, gradient: GpuTensor, _: [bool; 1]) -> [Option<GpuTensor>; 1] {
        [Some(Cube::masked(gradient, Some(self.0), dtype))]
    }
}

/// The kernels, on raw tensors and deferred.
#[backend_extension(Cube, Fusion)]
pub(crate) trait ElementwiseKernels: Backend {
    #[fusion(dtype = x, shape = x)]
    fn bias_activation(
        x: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        activation: ActivationFn,
    ) -> FloatTensor<Self>;

    #[fusion(dtype = x, shape = x)]
    fn bias_activation_backward(
        x: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        gradient: FloatTensor<Self>,
        activation: ActivationFn,
    ) -> FloatTensor<Self>;

    #[fusion(dtype = residual, shape = residual)]
    fn add_to_residual(
        residual: FloatTensor<Self>,
        x: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        mask: Option<DropoutMask>,
    ) -> FloatTensor<Self>;

    /// `x` with dropped elements 0 and the others scaled, in `dtype`.
    #[fusion(meta = |x: &TensorSpec, _, dtype: &DType| TensorSpec::new(x.shape.clone(), *dtype))]
    fn masked(x: FloatTensor<Self>, mask: Option<DropoutMask>, dtype: DType) -> FloatTensor<Self>;

    /// New values and moments; gradients are multiplied by `clip [1, 1]`.
    #[fusion(meta = |value: &TensorSpec, _, _, _, _, _| (value.clone(), value.clone(), value.clone()))]
    fn adamw_step(
        value: FloatTensor<Self>,
        gradient: FloatTensor<Self>,
        mean: FloatTensor<Self>,
        square: FloatTensor<Self>,
        clip: FloatTensor<Self>,
        scalars: AdamWScalars,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>);
}

/// No element is dropped.
fn all_kept() -> DropoutMask {
    DropoutMask::new(0, 0.0)
}

impl ElementwiseKernels for CubeBackend {
    fn bias_activation(
        x: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        activation: ActivationFn,
    ) -> FloatTensor<Self> {
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

    fn bias_activation_backward(
        x: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        gradient: FloatTensor<Self>,
        activation: ActivationFn,
    ) -> FloatTensor<Self> {
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

    fn add_to_residual(
        residual: FloatTensor<Self>,
        x: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        mask: Option<DropoutMask>,
    ) -> FloatTensor<Self> {
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

    fn masked(x: FloatTensor<Self>, mask: Option<DropoutMask>, dtype: DType) -> FloatTensor<Self> {
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

    fn adamw_step(
        value: FloatTensor<Self>,
        gradient: FloatTensor<Self>,
        mean: FloatTensor<Self>,
        square: FloatTensor<Self>,
        clip: FloatTensor<Self>,
        scalars: AdamWScalars,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>) {
        let [value, gradient, mean, square] = [value, gradient, mean, square].map(row_major);
        let (client, shape) = (value.client.clone(), value.meta.shape().dims::<2>());
        let elements = shape[0] * shape[1];
        let (new_value, new_mean, new_square) = (
            empty(&value, shape, DType::F32),
            empty(&value, shape, DType::F32),
            empty(&value, shape, DType::F32),
        );
        let (count, dim) = unit_per_element(elements);
        adamw_kernel::launch(
            &client,
            count,
            dim,
            value.into_buffer_arg(),
            gradient.into_buffer_arg(),
            mean.into_buffer_arg(),
            square.into_buffer_arg(),
            clip.into_buffer_arg(),
            new_value.clone().into_buffer_arg(),
            new_mean.clone().into_buffer_arg(),
            new_square.clone().into_buffer_arg(),
            elements,
            scalars.mean[0],
            scalars.square[0],
            scalars.epsilon,
            scalars.shrink,
            scalars.rate,
            scalars.scale,
        );
        (new_value, new_mean, new_square)
    }
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
    #[comptime] activation: ActivationFn,
    #[define(F)] _dtype: ElemType,
) {
    if ABSOLUTE_POS >= elements {
        terminate!();
    }
    let value = f32::cast_from(x[ABSOLUTE_POS]) + bias[ABSOLUTE_POS % width];
    out[ABSOLUTE_POS] = F::cast_from(activate(value, activation));
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

#[cube(launch)]
fn adamw_kernel(
    value: &[f32],
    gradient: &[f32],
    mean: &[f32],
    square: &[f32],
    clip: &[f32],
    new_value: &mut [f32],
    new_mean: &mut [f32],
    new_square: &mut [f32],
    elements: usize,
    beta1: f32,
    beta2: f32,
    epsilon: f32,
    shrink: f32,
    rate: f32,
    root: f32,
) {
    let at = ABSOLUTE_POS;
    if at >= elements {
        terminate!();
    }
    let own = gradient[at] * clip[0];
    let first = mean[at] * beta1 + own * (1.0f32 - beta1);
    let second = square[at] * beta2 + own * own * (1.0f32 - beta2);
    new_value[at] = value[at] * shrink - first / (second.sqrt() * root + epsilon) * rate;
    new_mean[at] = first;
    new_square[at] = second;
}
