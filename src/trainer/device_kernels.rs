//! Kernels of our own for GPUs, with their own gradients: each is one pass over memory where tensor
//! operations are many.
//!
//! They are written once in CubeCL, which compiles them for CUDA, Vulkan and Metal. Every function
//! here returns `None` where there is no such kernel: on the CPU, in builds without a GPU backend,
//! and on GPUs whose planes (warps) are not all of one size. Callers then use tensor operations.
//! Reductions run in a fixed order, without atomics: the same inputs give the same bits.

#[cfg(feature = "gpu")]
mod attention;
#[cfg(feature = "gpu")]
mod columns;
#[cfg(feature = "gpu")]
mod cross_entropy;
#[cfg(feature = "gpu")]
mod elementwise;
#[cfg(feature = "gpu")]
mod embedding;
#[cfg(feature = "gpu")]
mod heads;
#[cfg(feature = "gpu")]
mod norm;
#[cfg(feature = "gpu")]
mod operation;
#[cfg(feature = "gpu")]
mod products;
#[cfg(all(test, feature = "gpu"))]
mod tests;

use std::sync::Arc;

use burn::tensor::{Device, FloatDType, Tensor};

use super::fused::{ActivationFn, AdamWScalars, AttentionMask, DropoutMask};

/// Where texts lie among packed tokens and among padded ones, on a GPU.
#[cfg(feature = "gpu")]
pub(super) use attention::DeviceLayout;

/// The same where there is no GPU.
#[cfg(not(feature = "gpu"))]
#[derive(Debug)]
pub(super) enum DeviceLayout {}

#[cfg(not(feature = "gpu"))]
impl DeviceLayout {
    /// No layout.
    pub(super) fn new(_: &[usize], _: usize, _: &Device) -> Option<Self> {
        None
    }
}

/// Attention over `[tokens, (heads + 2 kv_heads) head_dim]`.
#[cfg_attr(not(feature = "gpu"), expect(dead_code, reason = "only kernels read it"))]
pub(super) struct AttentionConfig {
    pub(super) heads: usize,
    /// Heads of keys and values; each serves `heads / kv_heads` heads of queries.
    pub(super) kv_heads: usize,
    pub(super) head_dim: usize,
    pub(super) mask: AttentionMask,
    /// Dropout of attention probabilities `[texts, heads, length, length]`.
    pub(super) dropout: Option<DropoutMask>,
    /// The dtype of products.
    pub(super) dtype: FloatDType,
}

#[cfg(feature = "gpu")]
mod with_gpu {
    use burn::backend::Cube;
    use burn::tensor::{Int, TensorData};
    use burn_cubecl::tensor::CubeTensor;

    use super::attention::Attention;
    use super::columns::Concatenation;
    use super::cross_entropy::CrossEntropy;
    use super::elementwise::{
        AdamWInput, AddBias, AddToResidual, BiasActivation, Dropout, adamw_step,
    };
    use super::embedding::Embedding;
    use super::norm::Norm;
    use super::operation::{apply, ready};
    use super::products::{Product, add_squares};
    use super::{
        ActivationFn, AdamWScalars, Arc, AttentionConfig, Device, DeviceLayout, DropoutMask,
    };
    use super::{FloatDType, Tensor};

    /// The rows of `x [rows, width]`, normalised, times `scale [1, width]`; with a `bias
    /// [1, width]`, the mean is subtracted before and the bias added (layer normalisation), without
    /// one neither (RMS).
    pub(in super::super) fn norm(
        x: &Tensor<2>,
        scale: &Tensor<2>,
        bias: Option<&Tensor<2>>,
        epsilon: f32,
    ) -> Option<Tensor<2>> {
        if x.dtype() != FloatDType::F32.into() {
            return None;
        }
        // Without a bias the kernel is given the scale in its place, and does not read it.
        let operation = Norm { centred: bias.is_some(), epsilon };
        apply(operation, [x, scale, bias.unwrap_or(scale)])
    }

    /// Self-attention, `[tokens, heads head_dim]` in the dtype of products.
    pub(in super::super) fn attention(
        packed: &Tensor<2>,
        config: &AttentionConfig,
        layout: Option<&DeviceLayout>,
    ) -> Option<Tensor<2>> {
        apply(Attention::new(config, layout?), [packed])
    }

    /// The sum over rows of the cross-entropy of `logits [rows, classes]`, of any dtype, with the
    /// target classes, times `scale`: `[1, 1]` in f32.
    pub(in super::super) fn cross_entropy(
        logits: &Tensor<2>,
        targets: &[u32],
        smoothing: f32,
        scale: f32,
    ) -> Option<Tensor<2>> {
        apply(CrossEntropy::new(targets, smoothing, scale, &logits.device())?, [logits])
    }

    /// The rows `ids` of `table [entries, width]`: `[ids, width]`.
    pub(in super::super) fn embedding(table: &Tensor<2>, ids: &Arc<[u32]>) -> Option<Tensor<2>> {
        apply(Embedding::new(ids, table.dims(), &table.device())?, [table])
    }

    /// `x [rows, input]` times `weight [input, output]`, in `dtype`.
    pub(in super::super) fn product(
        x: &Tensor<2>,
        weight: &Tensor<2>,
        dtype: FloatDType,
    ) -> Option<Tensor<2>> {
        apply(Product { dtype, transposed: false }, [x, weight])
    }

    /// `x [rows, input]` times the transpose of `table [output, input]`, in `dtype`.
    pub(in super::super) fn product_transposed(
        x: &Tensor<2>,
        table: &Tensor<2>,
        dtype: FloatDType,
    ) -> Option<Tensor<2>> {
        apply(Product { dtype, transposed: true }, [x, table])
    }

    /// Three matrices `[rows, width]` of one dtype side by side.
    pub(in super::super) fn concatenation(inputs: [&Tensor<2>; 3]) -> Option<Tensor<2>> {
        apply(Concatenation { widths: inputs.map(|input| input.dims()[1]) }, inputs)
    }

    /// `x [rows, width]` plus `bias [1, width]`, in the dtype of `x`.
    pub(in super::super) fn add_bias(x: &Tensor<2>, bias: &Tensor<2>) -> Option<Tensor<2>> {
        apply(AddBias, [x, bias])
    }

    /// `activation(x + bias)`, in the dtype of `x`.
    pub(in super::super) fn bias_activation(
        x: &Tensor<2>,
        bias: &Tensor<2>,
        activation: ActivationFn,
    ) -> Option<Tensor<2>> {
        apply(BiasActivation(activation), [x, bias])
    }

    /// `residual + dropout(x + bias)`, in f32.
    pub(in super::super) fn add_to_residual(
        residual: &Tensor<2>,
        x: &Tensor<2>,
        bias: &Tensor<2>,
        mask: Option<DropoutMask>,
    ) -> Option<Tensor<2>> {
        apply(AddToResidual(mask), [residual, x, bias])
    }

    /// Dropout of `x [rows, width]`, in f32.
    pub(in super::super) fn dropout(x: &Tensor<2>, mask: DropoutMask) -> Option<Tensor<2>> {
        apply(Dropout(mask), [x])
    }

    /// AdamW's step of several parameters, each its value, gradient and moments with its scalars:
    /// the new values and moments. Gradients are multiplied by `clip [1, 1]` in place of the
    /// scalars' factor; the decay rates and epsilon are those of the first parameter.
    pub(in super::super) fn adamw(
        parameters: &[([&Tensor<2>; 4], AdamWScalars)],
        clip: &Tensor<2>,
    ) -> Option<Vec<[Tensor<2>; 3]>> {
        let clip = ready(clip)?;
        let input =
            |([value, gradient, mean, square], scalars): &([&Tensor<2>; 4], AdamWScalars)| {
                let [value, gradient, mean, square] =
                    [ready(value)?, ready(gradient)?, ready(mean)?, ready(square)?];
                Some(AdamWInput { value, gradient, mean, square, scalars: *scalars })
            };
        let inputs: Vec<AdamWInput> = parameters.iter().map(input).collect::<Option<_>>()?;
        let results = adamw_step(&inputs, &clip);
        Some(results.into_iter().map(|result| result.map(Tensor::from_primitive::<Cube>)).collect())
    }

    /// The sum of the squares of all elements, `[1]` in f32.
    pub(in super::super) fn sum_of_squares(tensors: &[Tensor<2>]) -> Option<Tensor<1>> {
        let mut plain: Vec<_> = tensors.iter().map(ready).collect::<Option<_>>()?;
        let zero = Tensor::<1>::zeros([1], &tensors.first()?.device());
        let zero = zero.try_into_primitive::<Cube>().ok()?;
        plain.resize(plain.len().next_multiple_of(8), zero.clone());
        let (eights, _) = plain.as_chunks::<8>();
        let sum = eights
            .iter()
            .cloned()
            .fold(zero, |sum, [a, b, c, d, e, f, g, h]| add_squares(sum, a, b, c, d, e, f, g, h));
        Some(Tensor::from_primitive::<Cube>(sum))
    }

    /// Whole numbers on a GPU, `[numbers]`.
    pub(super) fn ints(numbers: &[u32], device: &Device) -> Option<CubeTensor> {
        let numbers: Vec<i32> = numbers.iter().map(|number| number.cast_signed()).collect();
        let length = numbers.len();
        let data = TensorData::new(numbers, [length]);
        let tensor = Tensor::<1, Int>::from_data(data, &device.clone().without_autodiff());
        tensor.try_into_primitive::<Cube>().ok()
    }
}

#[cfg(not(feature = "gpu"))]
mod without_gpu {
    use super::{ActivationFn, AdamWScalars, Arc, AttentionConfig, DeviceLayout, DropoutMask};
    use super::{FloatDType, Tensor};

    pub(in super::super) fn norm(
        _: &Tensor<2>,
        _: &Tensor<2>,
        _: Option<&Tensor<2>>,
        _: f32,
    ) -> Option<Tensor<2>> {
        None
    }

    pub(in super::super) fn attention(
        _: &Tensor<2>,
        _: &AttentionConfig,
        _: Option<&DeviceLayout>,
    ) -> Option<Tensor<2>> {
        None
    }

    pub(in super::super) fn cross_entropy(
        _: &Tensor<2>,
        _: &[u32],
        _: f32,
        _: f32,
    ) -> Option<Tensor<2>> {
        None
    }

    pub(in super::super) fn embedding(_: &Tensor<2>, _: &Arc<[u32]>) -> Option<Tensor<2>> {
        None
    }

    pub(in super::super) fn product(
        _: &Tensor<2>,
        _: &Tensor<2>,
        _: FloatDType,
    ) -> Option<Tensor<2>> {
        None
    }

    pub(in super::super) fn product_transposed(
        _: &Tensor<2>,
        _: &Tensor<2>,
        _: FloatDType,
    ) -> Option<Tensor<2>> {
        None
    }

    pub(in super::super) fn concatenation(_: [&Tensor<2>; 3]) -> Option<Tensor<2>> {
        None
    }

    pub(in super::super) fn add_bias(_: &Tensor<2>, _: &Tensor<2>) -> Option<Tensor<2>> {
        None
    }

    pub(in super::super) fn sum_of_squares(_: &[Tensor<2>]) -> Option<Tensor<1>> {
        None
    }

    pub(in super::super) fn bias_activation(
        _: &Tensor<2>,
        _: &Tensor<2>,
        _: ActivationFn,
    ) -> Option<Tensor<2>> {
        None
    }

    pub(in super::super) fn add_to_residual(
        _: &Tensor<2>,
        _: &Tensor<2>,
        _: &Tensor<2>,
        _: Option<DropoutMask>,
    ) -> Option<Tensor<2>> {
        None
    }

    pub(in super::super) fn dropout(_: &Tensor<2>, _: DropoutMask) -> Option<Tensor<2>> {
        None
    }

    pub(in super::super) fn adamw(
        _: &[([&Tensor<2>; 4], AdamWScalars)],
        _: &Tensor<2>,
    ) -> Option<Vec<[Tensor<2>; 3]>> {
        None
    }
}

#[cfg(feature = "gpu")]
use with_gpu::ints;
#[cfg(feature = "gpu")]
pub(super) use with_gpu::{
    adamw, add_bias, add_to_residual, attention, bias_activation, concatenation, cross_entropy,
    dropout, embedding, norm, product, product_transposed, sum_of_squares,
};
#[cfg(not(feature = "gpu"))]
pub(super) use without_gpu::{
    adamw, add_bias, add_to_residual, attention, bias_activation, concatenation, cross_entropy,
    dropout, embedding, norm, product, product_transposed, sum_of_squares,
};
