//! The language model: a causal pre-norm transformer of any family.

mod config;

use burn::tensor::Tensor;

use super::batch::SequenceLayout;
use super::families::decoders::{DecoderStyle, LM_HEAD, LM_HEAD_BIAS};
use super::floats::real;
use super::layers::{
    Attention, AttentionMask, Embedding, FeedForward, ForwardContext, HiddenStates, KvCache,
    Linear, Norm, NormOrder, Projections, QkvProjection, TransformerBlock, biased_logits,
    cross_entropy, embed, linear_cross_entropy, logits,
};
use super::parameters::{Depth, ModelPart, ParameterId, Parameters, Role};
use super::rotary::{RotaryAngles, rotary_angles};

pub(super) use config::DecoderConfig;

/// The decoder laid out over a parameter list.
pub(super) struct Decoder {
    token_embedding: Embedding,
    /// With learnt positions.
    position_embedding: Option<Embedding>,
    layers: Vec<TransformerBlock>,
    final_norm: Norm,
    /// The output embedding, unless tied to the token embedding.
    lm_head: Option<ParameterId>,
    /// The output's bias, `[1, vocabulary]` (Phi).
    lm_head_bias: Option<ParameterId>,
    embedding_dropout: f64,
    /// The factor of embeddings, where there is one.
    embedding_scale: Option<f64>,
    /// With rotary positions.
    inverse_frequencies: Option<Vec<f64>>,
}

impl Decoder {
    /// The model and the list of its parameters.
    pub(super) fn new(config: &DecoderConfig) -> (Self, Parameters) {
        let (shape, family) = (&config.shape, config.family);
        let mut parameters = Parameters::new(shape.initializer_range);
        let list = &mut parameters;
        let name = |name: &str| format!("{}{name}", family.prefix);
        let rotary = family.style.is_rotary();
        let decoder = Self {
            token_embedding: Embedding::new(
                list,
                &name(family.names.token_embedding),
                shape.vocabulary,
                shape.width,
            ),
            position_embedding: (!rotary).then(|| {
                Embedding::new(
                    list,
                    &name(family.names.position_embedding),
                    shape.positions,
                    shape.width,
                )
            }),
            layers: (0..shape.layers)
                .map(|number| {
                    list.set_depth(Depth::Layer(number));
                    block(list, &name(&format!("{}.{number}", family.names.layer)), config)
                })
                .collect(),
            final_norm: {
                list.set_depth(Depth::Top);
                norm(list, &name(family.names.final_norm), config)
            },
            lm_head: (!shape.tied).then(|| {
                list.set_part(ModelPart::Labels);
                list.add(LM_HEAD.to_owned(), [shape.vocabulary, shape.width], Role::Embedding)
            }),
            lm_head_bias: (family.style == DecoderStyle::Phi).then(|| {
                list.set_part(ModelPart::Labels);
                list.add(LM_HEAD_BIAS.to_owned(), [1, shape.vocabulary], Role::Bias)
            }),
            embedding_dropout: shape.embedding_dropout,
            embedding_scale: family.keys.is_gemma.then(|| real(shape.width).sqrt()),
            inverse_frequencies: rotary
                .then(|| shape.rope.inverse_frequencies(shape.rope.rotated(shape.head_dim) / 2)),
        };
        (decoder, parameters)
    }

    /// The logits of the token after each of `tokens`, which are texts of `length` tokens one after
    /// another: `[tokens, vocabulary]`.
    pub(super) fn forward(
        &self,
        context: &ForwardContext,
        tokens: &[u32],
        length: usize,
    ) -> Tensor<2> {
        self.logits(context, self.hidden_states(context, tokens, length))
    }

    /// The cross-entropy of `targets`, the tokens after each of `tokens`, summed and times `scale`:
    /// `[1]`.
    #[cfg(test)]
    pub(super) fn loss(
        &self,
        context: &ForwardContext,
        tokens: &[u32],
        targets: Vec<u32>,
        length: usize,
        smoothing: f64,
        scale: f64,
    ) -> Tensor<1> {
        let x = self.hidden_states(context, tokens, length);
        self.cross_entropy(context, x, targets, smoothing, scale)
    }

    /// The same from the last layer's output.
    pub(super) fn finish(
        &self,
        context: &ForwardContext,
        x: HiddenStates,
        targets: Vec<u32>,
        smoothing: f64,
        scale: f64,
    ) -> Tensor<1> {
        context.enter(Depth::Top);
        let x = self.final_norm.forward(context, x);
        self.cross_entropy(context, x, targets, smoothing, scale)
    }

    /// The cross-entropy of `targets` from the final hidden states.
    fn cross_entropy(
        &self,
        context: &ForwardContext,
        x: HiddenStates,
        targets: Vec<u32>,
        smoothing: f64,
        scale: f64,
    ) -> Tensor<1> {
        let (targets, table) = (targets.into(), self.output_embedding(context));
        match self.lm_head_bias {
            Some(bias) => {
                let logits = biased_logits(context, x, table, context.values.get(bias));
                cross_entropy(logits, targets, smoothing, scale)
            }
            None => linear_cross_entropy(context, x, table, targets, smoothing, scale),
        }
    }

    /// From the final hidden states, `[tokens, vocabulary]`.
    fn logits(&self, context: &ForwardContext, x: HiddenStates) -> Tensor<2> {
        let table = self.output_embedding(context);
        match self.lm_head_bias {
            Some(bias) => biased_logits(context, x, table, context.values.get(bias)),
            None => logits(context, x, table),
        }
    }

    /// The final hidden states, `[tokens, width]`.
    fn hidden_states(
        &self,
        context: &ForwardContext,
        tokens: &[u32],
        length: usize,
    ) -> HiddenStates {
        let (layout, angles) = self.places(tokens.len(), length);
        let mut x = self.begin(context, tokens, length);
        for number in 0..self.layers.len() {
            x = self.layer(context, number, x, &layout, angles.as_ref());
        }
        context.enter(Depth::Top);
        self.final_norm.forward(context, x)
    }

    /// The layout of `tokens` tokens in texts of `length`, and their rotary angles.
    pub(super) fn places(
        &self,
        tokens: usize,
        length: usize,
    ) -> (SequenceLayout, Option<RotaryAngles>) {
        let positions: Vec<usize> = (0..tokens).map(|token| token % length).collect();
        (SequenceLayout::uniform(tokens / length, length), self.angles(&positions))
    }

    /// The first layer's input, `[tokens, width]`.
    pub(super) fn begin(
        &self,
        context: &ForwardContext,
        tokens: &[u32],
        length: usize,
    ) -> HiddenStates {
        context.enter(Depth::Embeddings);
        let positions: Vec<usize> = (0..tokens.len()).map(|token| token % length).collect();
        context.dropout(self.embed(context, tokens, &positions), self.embedding_dropout)
    }

    /// The output of layer `number` for the input `x`.
    pub(super) fn layer(
        &self,
        context: &ForwardContext,
        number: usize,
        x: HiddenStates,
        layout: &SequenceLayout,
        angles: Option<&RotaryAngles>,
    ) -> HiddenStates {
        context.enter(Depth::Layer(number));
        self.layers[number].forward(context, x, layout, angles)
    }

    /// How many layers there are.
    pub(super) fn layers(&self) -> usize {
        self.layers.len()
    }

    /// The logits of the token after the last of `tokens`, which continue the text in `cache`:
    /// `[1, vocabulary]`.
    pub(super) fn extend(
        &self,
        context: &ForwardContext,
        tokens: &[u32],
        cache: &mut KvCache,
    ) -> Tensor<2> {
        let cached = cache.tokens();
        let positions: Vec<usize> = (cached..cached + tokens.len()).collect();
        let angles = self.angles(&positions);
        let mut x = self.embed(context, tokens, &positions);
        for (number, layer) in self.layers.iter().enumerate() {
            x = layer.extend(context, x, angles.as_ref(), cache, number);
        }
        let last = x.dims()[0] - 1;
        let x = self.final_norm.forward(context, x.narrow(0, last, 1));
        self.logits(context, x)
    }

    /// Token embeddings, plus position embeddings where positions are learnt, `[tokens, width]`.
    fn embed(&self, context: &ForwardContext, tokens: &[u32], positions: &[usize]) -> HiddenStates {
        let embedded = match &self.position_embedding {
            Some(embedding) => {
                let positions: Vec<u32> =
                    positions.iter().filter_map(|position| u32::try_from(*position).ok()).collect();
                embed(
                    context,
                    [(&self.token_embedding, tokens.into()), (embedding, positions.into())],
                )
            }
            None => embed(context, [(&self.token_embedding, tokens.into())]),
        };
        match self.embedding_scale {
            Some(scale) => embedded * scale,
            None => embedded,
        }
    }

    fn angles(&self, positions: &[usize]) -> Option<RotaryAngles> {
        self.inverse_frequencies
            .as_ref()
            .map(|frequencies| rotary_angles(frequencies, positions.iter().copied()))
    }

    /// `[vocabulary, width]`.
    fn output_embedding(&self, context: &ForwardContext) -> Tensor<2> {
        self.lm_head
            .map_or_else(|| self.token_embedding.table(context), |head| context.values.get(head))
    }
}

fn norm(list: &mut Parameters, name: &str, config: &DecoderConfig) -> Norm {
    let shape = &config.shape;
    match config.family.style {
        DecoderStyle::Gpt | DecoderStyle::Phi => {
            Norm::layer(list, name, shape.width, shape.epsilon, true)
        }
        DecoderStyle::Llama { .. } if config.family.keys.is_gemma => {
            Norm::rms_from_one(list, name, shape.width, shape.epsilon)
        }
        DecoderStyle::Llama { .. } => Norm::rms(list, name, shape.width, shape.epsilon),
    }
}

/// A layer whose parameters' names begin with `name`.
fn block(list: &mut Parameters, name: &str, config: &DecoderConfig) -> TransformerBlock {
    let (shape, family) = (&config.shape, config.family);
    let names = &family.names;
    let name = |part: &str| format!("{name}.{part}");
    // GPT-2: weights that write to the residual stream start smaller by the square root of how many
    // of them there are.
    let (inward, outward) = match family.style {
        DecoderStyle::Gpt => {
            (Role::Conv1d { additions: 1 }, Role::Conv1d { additions: 2 * shape.layers })
        }
        DecoderStyle::Llama { .. } | DecoderStyle::Phi => (Role::Linear, Role::Linear),
    };
    let biases = &shape.biases;
    let (queries, keys) = (shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim);
    let mut input = |part: &str, width: usize| {
        Linear::new(list, &name(part), [shape.width, width], inward, biases.qkv)
    };
    let qkv = match names.qkv {
        [query, key, value] => {
            QkvProjection::Separate([input(query, queries), input(key, keys), input(value, keys)])
        }
        packed => QkvProjection::Packed(input(packed[0], queries + 2 * keys)),
    };
    let qk_norms = names
        .qk_norms
        .map(|norms| norms.map(|norm| Norm::rms(list, &name(norm), shape.head_dim, shape.epsilon)));
    let attention_norm = Some(norm(list, &name(names.attention_norm), config));
    let attention = Attention {
        qkv,
        output: Linear::new(
            list,
            &name(names.attention_output),
            [queries, shape.width],
            outward,
            biases.attention_output,
        ),
        heads: shape.heads,
        kv_heads: shape.kv_heads,
        head_dim: shape.head_dim,
        attention_mask: AttentionMask::Causal,
        qk_norms,
        relative: None,
        scaled: true,
        dropout: shape.attention_dropout,
    };
    let feed_forward_norm = (family.style != DecoderStyle::Phi)
        .then(|| norm(list, &name(names.feed_forward_norm), config));
    let mut linear = |part: &str, inner: usize| {
        Linear::new(list, &name(part), [shape.width, inner], inward, biases.feed_forward)
    };
    let is_gated = family.style.is_gated();
    let ups = match names.up {
        [gate, up] => (Some(linear(gate, shape.inner)), linear(up, shape.inner)),
        packed if is_gated => (None, linear(packed[0], 2 * shape.inner)),
        plain => (None, linear(plain[0], shape.inner)),
    };
    let down = Linear::new(
        list,
        &name(names.down),
        [shape.inner, shape.width],
        outward,
        biases.feed_forward,
    );
    let projections = match ups {
        (Some(gate), up) => Projections::Gated { gate, up, down },
        (None, gate_up) if is_gated => Projections::PackedGated { gate_up, down },
        (None, up) => Projections::Plain { up, down },
    };
    TransformerBlock {
        norm_order: NormOrder::Pre,
        attention_norm,
        attention,
        attention_output_dropout: shape.dropout,
        feed_forward_norm,
        feed_forward: FeedForward {
            projections,
            activation: shape.activation,
            inner_dropout: 0.0,
            dropout: shape.dropout,
        },
    }
}
