//! Self-attention: bidirectional, causal or in sliding windows over a batch of texts, and
//! incremental over one text with a cache.

use std::sync::Arc;

use burn::tensor::{Device, Int, Tensor, activation};

use super::super::batch::{MASKED_SCORE, SequenceLayout};
use super::super::device_kernels::{self, AttentionConfig};
use super::super::floats::real;
use super::super::fused::{self, AttentionMask, DropoutMask};
use super::super::parameters::tensor;
use super::super::rotary::RotaryAngles;
use super::relative;
use super::{
    ForwardContext, HiddenStates, Linear, Norm, RelativePositions, project_separately, to_f32,
};

/// Multi-head self-attention (Vaswani et al. 2017).
pub(in super::super) struct Attention {
    pub(in super::super) qkv: QkvProjection,
    pub(in super::super) output: Linear,
    pub(in super::super) heads: usize,
    /// Heads of keys and values; each serves `heads / kv_heads` heads of queries (Ainslie et al.
    /// 2023).
    pub(in super::super) kv_heads: usize,
    pub(in super::super) head_dim: usize,
    pub(in super::super) attention_mask: AttentionMask,
    /// Norms of each head of queries and of keys, before the rotation (Qwen3).
    pub(in super::super) qk_norms: Option<[Norm; 2]>,
    /// What tokens see of each other's positions besides their contents (DeBERTa).
    pub(in super::super) relative: Option<Arc<RelativePositions>>,
    /// Whether scores are divided by the root of `head_dim`: T5's are not.
    pub(in super::super) scaled: bool,
    pub(in super::super) dropout: f64,
}

/// The linear layers of queries, keys and values.
pub(in super::super) enum QkvProjection {
    /// One for all three.
    Packed(Linear),
    /// One for each.
    Separate([Linear; 3]),
}

impl Attention {
    /// `residual` plus, with dropout of `rate`, the attention output for `x [tokens, width]`.
    pub(in super::super) fn residual(
        &self,
        context: &ForwardContext,
        residual: HiddenStates,
        x: &HiddenStates,
        layout: &SequenceLayout,
        angles: Option<&RotaryAngles>,
        rate: f64,
    ) -> HiddenStates {
        let qkv = self.project_qkv(context, x, angles);
        self.output.residual(context, residual, self.attend(context, qkv, layout), rate)
    }

    /// `residual` plus the attention output for further tokens of one text, `x [new, width]`.
    /// `cache` holds the keys and values of earlier tokens under `layer`, and then those of these,
    /// too.
    pub(in super::super) fn extend(
        &self,
        context: &ForwardContext,
        residual: HiddenStates,
        x: &HiddenStates,
        angles: Option<&RotaryAngles>,
        cache: &mut KvCache,
        layer: usize,
    ) -> HiddenStates {
        let Self { heads, kv_heads, head_dim, .. } = *self;
        let qkv = self.project_qkv(context, x, angles);
        let new = qkv.dims()[0];
        let slice = |first: usize, count: usize| {
            split_heads(qkv.clone().narrow(1, first * head_dim, count * head_dim), 1, count)
        };
        let (key, value) =
            cache.append(layer, slice(heads, kv_heads), slice(heads + kv_heads, kv_heads));
        let keys = key.dims()[2];
        let scores = scores(slice(0, heads), repeat_kv(key, heads));
        let attention_mask = if new > 1 { AttentionMask::Causal } else { AttentionMask::Full };
        let scores = match mask_bias(attention_mask, new, keys, context.device) {
            Some(mask_bias) => scores + mask_bias,
            None => scores,
        };
        let attended = activation::softmax(scores, 3)
            .matmul(repeat_kv(value, heads))
            .swap_dims(1, 2)
            .reshape([new, heads * head_dim]);
        self.output.residual(context, residual, attended, 0.0)
    }

    /// Queries, keys and values side by side, `[tokens, (heads + 2 kv_heads) head_dim]`; queries
    /// and keys are normalised and rotated.
    pub(super) fn project_qkv(
        &self,
        context: &ForwardContext,
        x: &HiddenStates,
        angles: Option<&RotaryAngles>,
    ) -> HiddenStates {
        let qkv = match &self.qkv {
            QkvProjection::Packed(linear) => linear.project(context, x.clone(), None),
            QkvProjection::Separate([query, key, value]) => {
                project_separately(context, [query, key, value], x)
            }
        };
        let qkv = match &self.qk_norms {
            Some(qk_norms) => self.normalise_heads(context, to_f32(qkv), qk_norms),
            None => qkv,
        };
        match angles {
            Some(angles) => self.apply_rotary(context, to_f32(qkv), angles),
            None => qkv,
        }
    }

    /// Queries and keys normalised head by head.
    fn normalise_heads(
        &self,
        context: &ForwardContext,
        qkv: HiddenStates,
        [queries, keys]: &[Norm; 2],
    ) -> HiddenStates {
        let (tokens, head_dim) = (qkv.dims()[0], self.head_dim);
        let slice =
            |first: usize, count: usize| qkv.clone().narrow(1, first * head_dim, count * head_dim);
        let heads = |norm: &Norm, first: usize, count: usize| {
            norm.forward(context, slice(first, count).reshape([tokens * count, head_dim]))
                .reshape([tokens, count * head_dim])
        };
        let (queries, keys) =
            (heads(queries, 0, self.heads), heads(keys, self.heads, self.kv_heads));
        Tensor::cat(vec![queries, keys, slice(self.heads + self.kv_heads, self.kv_heads)], 1)
    }

    /// Queries and keys rotated, as many elements of each head as a token has angles; elements `i`
    /// and `i + rotated / 2` of a head are one pair (Su et al. 2021).
    fn apply_rotary(
        &self,
        context: &ForwardContext,
        qkv: HiddenStates,
        angles: &RotaryAngles,
    ) -> HiddenStates {
        let ([tokens, columns], heads, head_dim) =
            (qkv.dims(), self.heads + self.kv_heads, self.head_dim);
        let rotated = angles.len() / tokens.max(1);
        let operation = fused::RotaryEmbedding {
            heads,
            head_dim,
            rotated,
            columns,
            angles: Arc::clone(angles),
        };
        fused::apply(operation, [&qkv], [tokens, columns]).unwrap_or_else(|| {
            let half = rotated / 2;
            let angles: Tensor<4> = tensor(angles.to_vec(), [tokens, 1, 2, half], context.device);
            let (cosines, sines) = (angles.clone().narrow(2, 0, 1), angles.narrow(2, 1, 1));
            let of_heads: Tensor<3> =
                qkv.clone().narrow(1, 0, heads * head_dim).reshape([tokens, heads, head_dim]);
            let pairs: Tensor<4> =
                of_heads.clone().narrow(2, 0, rotated).reshape([tokens, heads, 2, half]);
            let (first, second) = (pairs.clone().narrow(2, 0, 1), pairs.narrow(2, 1, 1));
            let pairs = Tensor::cat(
                vec![
                    first.clone() * cosines.clone() - second.clone() * sines.clone(),
                    second * cosines + first * sines,
                ],
                2,
            );
            let mut turned = pairs.reshape([tokens, heads, rotated]);
            if rotated < head_dim {
                let passed = of_heads.narrow(2, rotated, head_dim - rotated);
                turned = Tensor::cat(vec![turned, passed], 2);
            }
            Tensor::cat(
                vec![
                    turned.reshape([tokens, heads * head_dim]),
                    qkv.narrow(1, heads * head_dim, columns - heads * head_dim),
                ],
                1,
            )
        })
    }

    /// Attention over packed queries, keys and values `[tokens, (heads + 2 kv_heads) head_dim]`:
    /// `[tokens, heads head_dim]`.
    pub(super) fn attend(
        &self,
        context: &ForwardContext,
        qkv: HiddenStates,
        layout: &SequenceLayout,
    ) -> HiddenStates {
        let Self { heads, kv_heads, head_dim, attention_mask, .. } = *self;
        let SequenceLayout { lengths, length, .. } = layout;
        if self.relative.is_some() {
            let dropout = context.next_mask(self.dropout);
            return self.attend_padded(context, &qkv, layout, dropout);
        }
        let (lengths, shape, dropout) = (
            Arc::clone(lengths),
            [qkv.dims()[0], heads * head_dim],
            context.next_mask(self.dropout),
        );
        let operation = fused::Attention {
            lengths,
            longest: *length,
            heads,
            kv_heads,
            head_dim,
            attention_mask,
            dropout,
        };
        context
            .fused(operation, [&qkv], shape)
            .or_else(|| {
                let dtype = context.compute_dtype();
                let config = AttentionConfig {
                    heads,
                    kv_heads,
                    head_dim,
                    mask: attention_mask,
                    dropout,
                    dtype,
                };
                device_kernels::attention(&qkv, &config, layout.on_device(context.device))
            })
            .unwrap_or_else(|| self.attend_padded(context, &qkv, layout, dropout))
    }

    /// The same by tensor operations, on texts padded to one length.
    fn attend_padded(
        &self,
        context: &ForwardContext,
        qkv: &HiddenStates,
        layout: &SequenceLayout,
        dropout: Option<DropoutMask>,
    ) -> HiddenStates {
        let Self { heads, kv_heads, head_dim, attention_mask, .. } = *self;
        let (texts, length, padding) =
            (layout.lengths.len(), layout.length, layout.padding(context.device));
        let qkv = context.to_compute_dtype(qkv.clone());
        let slice = |first: usize, count: usize| {
            let x = qkv.clone().narrow(1, first * head_dim, count * head_dim);
            let x = match padding {
                Some(padding) => x.select(0, padding.to_padded.clone()),
                None => x,
            };
            split_heads(x, texts, count)
        };
        let (query, key, value) = (
            slice(0, heads),
            repeat_kv(slice(heads, kv_heads), heads),
            repeat_kv(slice(heads + kv_heads, kv_heads), heads),
        );
        let scores = match (&self.relative, &self.qkv) {
            (Some(relative), QkvProjection::Separate([of_queries, of_keys, _])) => {
                let projections = [of_queries, of_keys];
                let vectors = relative.vectors(context, projections, length, heads);
                relative::scores(query, key, vectors)
            }
            _ => to_f32(scores(query, key)),
        };
        let scores = match padding {
            Some(padding) => scores + padding.mask.clone(),
            None => scores,
        };
        let scores = match mask_bias(attention_mask, length, length, context.device) {
            Some(mask_bias) => scores + mask_bias,
            None => scores,
        };
        let probabilities = activation::softmax(scores, 3);
        let probabilities = match dropout {
            Some(mask) => context.apply_mask(probabilities, mask),
            None => probabilities,
        };
        let attended = context
            .to_compute_dtype(probabilities)
            .matmul(value)
            .swap_dims(1, 2)
            .reshape([texts * length, heads * head_dim]);
        match padding {
            Some(padding) => attended.select(0, padding.from_padded.clone()),
            None => attended,
        }
    }
}

/// Repeats `[texts, kv_heads, length, head_dim]` to `[texts, heads, length, head_dim]`.
fn repeat_kv(x: Tensor<4>, heads: usize) -> Tensor<4> {
    let [texts, kv_heads, length, head_dim] = x.dims();
    if kv_heads == heads {
        return x;
    }
    x.reshape([texts, kv_heads, 1, length, head_dim])
        .repeat_dim(2, heads / kv_heads)
        .reshape([texts, heads, length, head_dim])
}

/// `[texts * length, width]` to `[texts, heads, length, width / heads]`.
pub(super) fn split_heads(x: HiddenStates, texts: usize, heads: usize) -> Tensor<4> {
    let [tokens, width] = x.dims();
    x.reshape([texts, tokens / texts, heads, width / heads]).swap_dims(1, 2)
}

/// Scaled dot products, `[texts, heads, queries, keys]`.
pub(super) fn scores(query: Tensor<4>, key: Tensor<4>) -> Tensor<4> {
    let root = real(query.dims()[3]).powf(0.25);
    // Half of the scale on each side, as in PyTorch, so that neither sums nor gradients overflow in
    // 16 bits.
    (query / root).matmul((key / root).swap_dims(2, 3))
}

/// Added to the scores of the last `new` of `keys` tokens to mask what they do not attend to,
/// `[1, 1, new, keys]`, computed on the device; `None` where nothing is masked.
pub(super) fn mask_bias(
    attention_mask: AttentionMask,
    new: usize,
    keys: usize,
    device: &Device,
) -> Option<Tensor<4>> {
    if attention_mask == AttentionMask::Full {
        return None;
    }
    let positions = |range: std::ops::Range<usize>| {
        Tensor::<1, Int>::arange(signed(range.start)..signed(range.end), device)
    };
    // The distance from each key to the query.
    let distance = positions(keys - new..keys).reshape([1, 1, new, 1])
        - positions(0..keys).reshape([1, 1, 1, keys]);
    let masked = match attention_mask {
        AttentionMask::Full => return None,
        AttentionMask::Causal => distance.lower_elem(0),
        AttentionMask::SlidingWindow(reach) => distance.abs().greater_elem(signed(reach)),
    };
    Some(masked.float() * MASKED_SCORE)
}

fn signed(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// The keys and values of a text so far, layer by layer: `[1, kv_heads, tokens, head_dim]` each.
#[derive(Default)]
pub(in super::super) struct KvCache(Vec<(Tensor<4>, Tensor<4>)>);

impl KvCache {
    /// Tokens in the cache.
    pub(in super::super) fn tokens(&self) -> usize {
        self.0.first().map_or(0, |(key, _)| key.dims()[2])
    }

    /// Appends tokens of a layer, and returns all of that layer.
    fn append(&mut self, layer: usize, key: Tensor<4>, value: Tensor<4>) -> (Tensor<4>, Tensor<4>) {
        let extended = match self.0.get(layer) {
            Some((keys, values)) => (
                Tensor::cat(vec![keys.clone(), key], 2),
                Tensor::cat(vec![values.clone(), value], 2),
            ),
            None => (key, value),
        };
        match self.0.get_mut(layer) {
            Some(entry) => *entry = extended.clone(),
            None => self.0.push(extended.clone()),
        }
        extended
    }
}
