//! The layers that models are built from: linear layers, embeddings, norms, attention, feed-forward
//! networks, transformer blocks, losses.
//!
//! Layers hold indices into the parameter list, not values. A later leading dimension of several
//! trials of equal shapes would go into [`ForwardContext`] and [`HiddenStates`]; models and the
//! training loop do not name it.

mod attention;
mod block;
mod context;
mod cross_attention;
mod feed_forward;
mod loss;
mod norm;
mod relative;

use std::sync::Arc;

use burn::tensor::{Device, Int, Tensor, TensorData, activation as burn_activation, module};

use super::device_kernels;
use super::fused::{self, ActivationFn};
use super::parameters::{ParameterId, Parameters, Role};
use hpsearch_core::arguments::Activation;

pub(super) use super::fused::AttentionMask;
pub(super) use attention::{Attention, KvCache, QkvProjection};
pub(super) use block::{NormOrder, TransformerBlock};
pub(super) use context::{DropoutKey, ForwardContext, IndexRanges, to_f32};
pub(super) use cross_attention::{AttendsTo, CrossKeys, DecodedKeys, Memory, row_numbers};
pub(super) use feed_forward::{FeedForward, Projections};
pub(super) use loss::{
    biased_logits, cross_entropy, linear_cross_entropy, logits, weighted_cross_entropy,
};
pub(super) use norm::Norm;
pub(super) use relative::{RelativePositions, RelativeShape};

/// Activations of all tokens of a batch, text after text without padding, `[tokens, width]`: a
/// linear layer is one large product.
pub(super) type HiddenStates = Tensor<2>;

/// `y = x W + b`, or `x W`, with a low-rank adapter where one is attached.
pub(super) struct Linear {
    weight: ParameterId,
    bias: Option<ParameterId>,
    width: usize,
}

impl Linear {
    /// `[input, output]`, with or without bias; the weight is initialised and stored as `role`
    /// says.
    pub(super) fn new(
        parameters: &mut Parameters,
        name: &str,
        [input, output]: [usize; 2],
        role: Role,
        has_bias: bool,
    ) -> Self {
        Self {
            weight: parameters.add(format!("{name}.weight"), [input, output], role),
            bias: has_bias.then(|| parameters.add(format!("{name}.bias"), [1, output], Role::Bias)),
            width: output,
        }
    }

    /// `[rows, input]` to `[rows, output]`, in f32.
    pub(super) fn forward(&self, context: &ForwardContext, x: HiddenStates) -> HiddenStates {
        to_f32(self.project(context, x, None))
    }

    /// `residual` plus, with dropout, the projection of `x`: the end of a sublayer.
    fn residual(
        &self,
        context: &ForwardContext,
        residual: HiddenStates,
        x: HiddenStates,
        rate: f64,
    ) -> HiddenStates {
        if context.adapter(self).is_some() {
            return residual + to_f32(context.dropout(self.project(context, x, None), rate));
        }
        let (weight, bias, mask) = (
            context.values.get(self.weight),
            context.bias(self.bias, self.width),
            context.next_mask(rate),
        );
        let operation = fused::ResidualLinear { width: self.width, dropout: mask };
        context.fused(operation, [&residual, &x, &weight, &bias], residual.dims()).unwrap_or_else(
            || {
                let dtype = context.compute_dtype();
                if let Some(product) = device_kernels::product(&x, &weight, dtype)
                    && let Some(sum) =
                        device_kernels::add_to_residual(&residual, &product, &bias, mask)
                {
                    return sum;
                }
                let projected = unfused_linear(context, x, weight, bias);
                residual
                    + to_f32(match mask {
                        Some(mask) => context.apply_mask(projected, mask),
                        None => projected,
                    })
            },
        )
    }

    /// The projection with an optional activation, in the compute dtype.
    fn project(
        &self,
        context: &ForwardContext,
        x: HiddenStates,
        activation: Option<ActivationFn>,
    ) -> HiddenStates {
        let Some(adapter) = context.adapter(self) else {
            return self.project_frozen(context, x, activation);
        };
        let projected = adapter.add_to(context, self.project_frozen(context, x.clone(), None), x);
        match activation {
            Some(activation) => activate(activation, projected),
            None => projected,
        }
    }

    /// The projection without its adapter.
    fn project_frozen(
        &self,
        context: &ForwardContext,
        x: HiddenStates,
        activation: Option<ActivationFn>,
    ) -> HiddenStates {
        let (weight, bias) = (context.values.get(self.weight), context.bias(self.bias, self.width));
        let shape = [x.dims()[0], self.width];
        context
            .fused(fused::Linear { width: self.width, activation }, [&x, &weight, &bias], shape)
            .unwrap_or_else(|| {
                if let Some(activation) = activation
                    && let Some(product) =
                        device_kernels::product(&x, &weight, context.compute_dtype())
                    && let Some(activated) =
                        device_kernels::bias_activation(&product, &bias, activation)
                {
                    return activated;
                }
                let projected = unfused_linear(context, x, weight, bias);
                match activation {
                    Some(activation) => activate(activation, projected),
                    None => projected,
                }
            })
    }
}

fn unfused_linear(
    context: &ForwardContext,
    x: HiddenStates,
    weight: Tensor<2>,
    bias: Tensor<2>,
) -> HiddenStates {
    let dtype = context.compute_dtype();
    if let Some(product) = device_kernels::product(&x, &weight, dtype)
        && let Some(sum) = device_kernels::add_bias(&product, &bias)
    {
        return sum;
    }
    module::linear(
        context.to_compute_dtype(x),
        context.to_compute_dtype(weight),
        Some(to_1d(context.to_compute_dtype(bias))),
    )
}

/// Queries, keys and values of the same rows side by side, `[rows, sum of widths]`.
fn project_separately(
    context: &ForwardContext,
    linears: [&Linear; 3],
    x: &HiddenStates,
) -> HiddenStates {
    let [w1, w2, w3] = linears.map(|linear| context.values.get(linear.weight));
    let [b1, b2, b3] = linears.map(|linear| context.bias(linear.bias, linear.width));
    let widths = linears.map(|linear| linear.width);
    let shape = [x.dims()[0], widths.iter().sum()];
    let all = context
        .fused(fused::QkvLinear { widths }, [x, &w1, &w2, &w3, &b1, &b2, &b3], shape)
        .unwrap_or_else(|| {
            // Weights are smaller than what is computed from them.
            let side_by_side = |parts: [Tensor<2>; 3]| {
                device_kernels::concatenation(parts.each_ref())
                    .unwrap_or_else(|| Tensor::cat(parts.into(), 1))
            };
            let (weight, bias) = (side_by_side([w1, w2, w3]), side_by_side([b1, b2, b3]));
            unfused_linear(context, x.clone(), weight, bias)
        });
    if linears.iter().all(|linear| context.adapter(linear).is_none()) {
        return all;
    }
    let mut first = 0;
    let parts = linears.into_iter().map(|linear| {
        let part = all.clone().narrow(1, first, linear.width);
        first += linear.width;
        match context.adapter(linear) {
            Some(adapter) => adapter.add_to(context, part, x.clone()),
            None => part,
        }
    });
    Tensor::cat(parts.collect(), 1)
}

/// The adapter of one linear layer in one forward pass.
struct LoraAdapter {
    a: ParameterId,
    b: ParameterId,
    scale: f64,
    dropout: f64,
}

impl LoraAdapter {
    /// `projected + scale dropout(x) A B`.
    fn add_to(
        &self,
        context: &ForwardContext,
        projected: HiddenStates,
        x: HiddenStates,
    ) -> HiddenStates {
        let (a, b, x) = (
            context.values.get(self.a),
            context.values.get(self.b),
            context.dropout(x, self.dropout),
        );
        let ([rows, _], [_, rank], shape) = (x.dims(), a.dims(), projected.dims());
        let low_rank = context
            .fused(fused::Linear { width: rank, activation: None }, [&x, &a], [rows, rank])
            .or_else(|| device_kernels::product(&x, &a, context.compute_dtype()))
            .unwrap_or_else(|| context.to_compute_dtype(x).matmul(context.to_compute_dtype(a)));
        let (low_rank, no_bias) = (low_rank * self.scale, context.bias(None, shape[1]));
        let operation = fused::ResidualLinear { width: shape[1], dropout: None };
        context.fused(operation, [&projected, &low_rank, &b, &no_bias], shape).unwrap_or_else(
            || {
                let dtype = context.compute_dtype();
                let added = device_kernels::product(&low_rank, &b, dtype)
                    .unwrap_or_else(|| low_rank.matmul(context.to_compute_dtype(b)));
                projected + added
            },
        )
    }
}

/// A learnt vector for each index.
pub(super) struct Embedding {
    table: ParameterId,
    entries: usize,
    width: usize,
}

impl Embedding {
    pub(super) fn new(
        parameters: &mut Parameters,
        name: &str,
        entries: usize,
        width: usize,
    ) -> Self {
        Self {
            table: parameters.add(format!("{name}.weight"), [entries, width], Role::Embedding),
            entries,
            width,
        }
    }

    /// Number of vectors.
    pub(super) fn entries(&self) -> usize {
        self.entries
    }

    /// The vectors themselves, `[entries, width]`.
    pub(super) fn table(&self, context: &ForwardContext) -> Tensor<2> {
        context.values.get(self.table)
    }
}

/// The sum of one vector of each table, row by row, `[rows, width]`: of token and position
/// embeddings, for example.
pub(super) fn embed<const N: usize>(
    context: &ForwardContext,
    tables: [(&Embedding, Arc<[u32]>); N],
) -> HiddenStates {
    let values = tables.each_ref().map(|(embedding, _)| embedding.table(context));
    let (rows, width) =
        tables.first().map_or((0, 0), |(embedding, indices)| (indices.len(), embedding.width));
    let sparse_gradients = context
        .sparse_gradients
        .clone()
        .map(|sink| (sink, tables.each_ref().map(|(embedding, _)| embedding.table.index())));
    let indices = tables.map(|(embedding, indices)| (embedding.entries, indices));
    let operation = fused::EmbeddingSum { width, indices: indices.clone(), sparse_gradients };
    fused::apply(operation, values.each_ref(), [rows, width]).unwrap_or_else(|| {
        let look_up = |(table, (_, indices)): (Tensor<2>, &(usize, Arc<[u32]>))| -> HiddenStates {
            if let Some(rows) = device_kernels::embedding(&table, indices) {
                return rows;
            }
            module::embedding(table, ids(indices, context.device)).reshape([rows, width])
        };
        values
            .into_iter()
            .zip(&indices)
            .map(look_up)
            .reduce(|sum, more| sum + more)
            .expect("at least one table")
    })
}

/// Token or position ids as a tensor `[1, n]`.
pub(super) fn ids(numbers: &[u32], device: &Device) -> Tensor<2, Int> {
    Tensor::from_data(
        TensorData::new(
            numbers.iter().map(|number| number.cast_signed()).collect::<Vec<i32>>(),
            [1, numbers.len()],
        ),
        device,
    )
}

/// An activation function, element by element.
pub(super) fn activate(activation: ActivationFn, x: HiddenStates) -> HiddenStates {
    fused::apply(activation, [&x], x.dims()).unwrap_or_else(|| match activation {
        ActivationFn::Gelu => burn_activation::gelu(x),
        ActivationFn::GeluTanh => burn_activation::gelu_approximate(x),
        ActivationFn::Relu => burn_activation::relu(x),
        ActivationFn::Silu => burn_activation::silu(x),
        ActivationFn::Tanh => burn_activation::tanh(x),
    })
}

impl From<Activation> for ActivationFn {
    fn from(argument: Activation) -> Self {
        match argument {
            Activation::Gelu => Self::Gelu,
            Activation::GeluNew => Self::GeluTanh,
            Activation::Relu => Self::Relu,
            Activation::Silu => Self::Silu,
        }
    }
}

/// `[1, width]` to `[width]`.
fn to_1d(row: Tensor<2>) -> Tensor<1> {
    let [_, width] = row.dims();
    row.reshape([width])
}
