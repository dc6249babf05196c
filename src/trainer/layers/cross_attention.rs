//! Attention to another text, with biases of scores, and token by token for several texts at once.

use burn::tensor::{Device, Int, Tensor, activation};

use super::super::batch::SequenceLayout;
use super::attention::{mask_bias, scores, split_heads};
use super::{Attention, ForwardContext, HiddenStates, Linear, QkvProjection, to_f32};

/// Texts that others attend to: `[tokens, width]`, and where each lies.
#[derive(Clone, Copy)]
pub(in super::super) struct Memory<'a> {
    pub(in super::super) x: &'a HiddenStates,
    pub(in super::super) layout: &'a SequenceLayout,
}

/// What the tokens of texts attend to.
pub(in super::super) enum AttendsTo<'a> {
    /// Their own text, with biases added to the scores, `[1, heads, length, length]`.
    Itself(Option<&'a Tensor<4>>),
    /// Another text.
    Other(Memory<'a>),
}

/// The keys and values that the rows of a decoder attend to, of a text each:
/// `[rows, heads, length, head_dim]`.
#[derive(Clone)]
pub(in super::super) struct CrossKeys {
    key: Tensor<4>,
    value: Tensor<4>,
}

/// Those of the tokens that rows have so far.
#[derive(Clone, Default)]
pub(in super::super) struct DecodedKeys(Option<CrossKeys>);

impl CrossKeys {
    /// Those of other rows.
    pub(in super::super) fn select(&self, rows: &Tensor<1, Int>) -> Self {
        let [key, value] = [&self.key, &self.value].map(|x| x.clone().select(0, rows.clone()));
        Self { key, value }
    }
}

impl DecodedKeys {
    /// Those of other rows.
    pub(in super::super) fn select(&self, rows: &Tensor<1, Int>) -> Self {
        Self(self.0.as_ref().map(|keys| keys.select(rows)))
    }
}

impl Attention {
    /// `residual` plus, with dropout of `rate`, what attention makes of `x [tokens, width]`.
    pub(in super::super) fn residual_to(
        &self,
        context: &ForwardContext,
        residual: HiddenStates,
        x: &HiddenStates,
        layout: &SequenceLayout,
        to: AttendsTo<'_>,
        rate: f64,
    ) -> HiddenStates {
        let attended = match to {
            AttendsTo::Itself(None) if self.scaled => {
                self.attend(context, self.project_qkv(context, x, None), layout)
            }
            AttendsTo::Itself(bias) => {
                self.attend_to(context, x, layout, Memory { x, layout }, bias.cloned())
            }
            AttendsTo::Other(memory) => self.attend_to(context, x, layout, memory, None),
        };
        self.output.residual(context, residual, attended, rate)
    }

    /// `[tokens, heads head_dim]`, by tensor operations on padded texts.
    fn attend_to(
        &self,
        context: &ForwardContext,
        x: &HiddenStates,
        layout: &SequenceLayout,
        memory: Memory<'_>,
        bias: Option<Tensor<4>>,
    ) -> HiddenStates {
        let [query, key, value] = self.separate();
        let padded = |linear: &Linear, x: &HiddenStates, layout: &SequenceLayout| {
            let x = context.to_compute_dtype(linear.project(context, x.clone(), None));
            let x = match layout.padding(context.device) {
                Some(padding) => x.select(0, padding.to_padded.clone()),
                None => x,
            };
            split_heads(x, layout.lengths.len(), self.heads)
        };
        let queries = padded(query, x, layout);
        let [keys, values] = [key, value].map(|linear| padded(linear, memory.x, memory.layout));
        let mut scores = self.scores(queries, keys);
        if let Some(bias) = bias {
            scores = scores + bias;
        }
        if let Some(padding) = memory.layout.padding(context.device) {
            scores = scores + padding.mask.clone();
        }
        let [length, others] = [layout.length, memory.layout.length];
        if let Some(mask) = mask_bias(self.attention_mask, length, others, context.device) {
            scores = scores + mask;
        }
        let mut probabilities = activation::softmax(scores, 3);
        if let Some(mask) = context.next_mask(self.dropout) {
            probabilities = context.apply_mask(probabilities, mask);
        }
        let attended = context
            .to_compute_dtype(probabilities)
            .matmul(values)
            .swap_dims(1, 2)
            .reshape([layout.lengths.len() * length, self.heads * self.head_dim]);
        match layout.padding(context.device) {
            Some(padding) => attended.select(0, padding.from_padded.clone()),
            None => attended,
        }
    }

    /// The keys and values of `memory` for each of `rows`, which are numbers of texts.
    pub(in super::super) fn cross_keys(
        &self,
        context: &ForwardContext,
        memory: Memory<'_>,
        rows: &Tensor<1, Int>,
    ) -> CrossKeys {
        let [_, key, value] = self.separate();
        let [key, value] = [key, value].map(|linear| {
            let x = linear.forward(context, memory.x.clone());
            let x = match memory.layout.padding(context.device) {
                Some(padding) => x.select(0, padding.to_padded.clone()),
                None => x,
            };
            split_heads(x, memory.layout.lengths.len(), self.heads)
        });
        CrossKeys { key, value }.select(rows)
    }

    /// `residual` plus the output of attention of the next token of each row, `x [rows, width]`, to
    /// `keys`, with `bias` added to the scores, `[rows or 1, heads or 1, 1, length]`.
    pub(in super::super) fn step_to(
        &self,
        context: &ForwardContext,
        residual: HiddenStates,
        x: &HiddenStates,
        keys: &CrossKeys,
        bias: Option<Tensor<4>>,
    ) -> HiddenStates {
        let [query, ..] = self.separate();
        let rows = x.dims()[0];
        let queries = split_heads(query.forward(context, x.clone()), rows, self.heads);
        let scores = self.scores(queries, keys.key.clone());
        let scores = match bias {
            Some(bias) => scores + bias,
            None => scores,
        };
        let attended = activation::softmax(scores, 3)
            .matmul(keys.value.clone())
            .reshape([rows, self.heads * self.head_dim]);
        self.output.residual(context, residual, attended, 0.0)
    }

    /// The same with the tokens before and this one, whose keys are added to `decoded`.
    pub(in super::super) fn step(
        &self,
        context: &ForwardContext,
        residual: HiddenStates,
        x: &HiddenStates,
        decoded: &mut DecodedKeys,
        bias: Option<Tensor<4>>,
    ) -> HiddenStates {
        let [_, key, value] = self.separate();
        let rows = x.dims()[0];
        let [key, value] = [key, value]
            .map(|linear| split_heads(linear.forward(context, x.clone()), rows, self.heads));
        let keys = match decoded.0.take() {
            Some(before) => CrossKeys {
                key: Tensor::cat(vec![before.key, key], 2),
                value: Tensor::cat(vec![before.value, value], 2),
            },
            None => CrossKeys { key, value },
        };
        let x = self.step_to(context, residual, x, &keys, bias);
        decoded.0 = Some(keys);
        x
    }

    /// Scores in f32, `[texts, heads, queries, keys]`.
    fn scores(&self, queries: Tensor<4>, keys: Tensor<4>) -> Tensor<4> {
        to_f32(if self.scaled {
            scores(queries, keys)
        } else {
            queries.matmul(keys.swap_dims(2, 3))
        })
    }

    /// The linear layers of queries, keys and values.
    fn separate(&self) -> &[Linear; 3] {
        match &self.qkv {
            QkvProjection::Separate(linears) => linears,
            QkvProjection::Packed(_) => unreachable!("encoders with decoders have three layers"),
        }
    }
}

/// Row numbers as a tensor.
pub(in super::super) fn row_numbers(rows: &[usize], device: &Device) -> Tensor<1, Int> {
    super::super::batch::Batch::token_indices(rows, device)
}
