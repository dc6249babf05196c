//! A transformer encoder of any family, and the heads of its tasks.

mod config;
mod heads;

use std::sync::Arc;

use burn::tensor::FloatDType;

use super::batch::{Batch, SequenceLayout};
use super::device_kernels;
use super::families::encoders::{EncoderStyle, RELATIVE_POSITIONS};
use super::fused;
use super::layers::{
    Attention, AttentionMask, Embedding, FeedForward, ForwardContext, HiddenStates, Linear, Norm,
    NormOrder, Projections, QkvProjection, RelativePositions, TransformerBlock, embed,
};
use super::parameters::{Depth, Parameters, Role};
use super::rotary::Rope;
use hpsearch_core::arguments::Pooling;

pub(super) use config::{EncoderConfig, TrainedHead, named_labels};
pub(super) use heads::{MaskedHead, SequenceHead, TokenHead};

/// The encoder laid out over a parameter list.
pub(super) struct Encoder {
    token_embedding: Embedding,
    /// With learnt positions.
    position_embedding: Option<Embedding>,
    segment_embedding: Option<Embedding>,
    embedding_norm: Option<Norm>,
    /// From the width of embeddings to that of layers.
    embedding_projection: Option<Linear>,
    /// One for each group of layers that share their weights.
    groups: Vec<TransformerBlock>,
    layers: usize,
    /// After pre-norm layers.
    final_norm: Option<Norm>,
    embedding_dropout: f64,
    first_position: usize,
    pooling: Pooling,
    /// With rotary positions: the inverse frequencies of layers with full attention, and of those
    /// with a sliding window.
    inverse_frequencies: Option<[Vec<f64>; 2]>,
}

impl Encoder {
    /// The encoder and the list of its parameters.
    pub(super) fn new(config: &EncoderConfig) -> (Self, Parameters) {
        let (shape, names, style) = (&config.shape, &config.family.names, config.family.style);
        let mut parameters = Parameters::new(shape.initializer_range);
        let list = &mut parameters;
        let name = |name: &str| format!("{}{name}", config.family.prefix);
        let embedding = |list: &mut Parameters, part: &str, entries: usize| {
            Embedding::new(list, &name(part), entries, shape.embedding_width)
        };
        let has_positions = style != EncoderStyle::ModernBert && shape.relative.is_none();
        let encoder = Self {
            token_embedding: embedding(list, names.token_embedding, shape.vocabulary),
            position_embedding: has_positions
                .then(|| embedding(list, names.position_embedding, shape.positions)),
            segment_embedding: (shape.segments > 0)
                .then(|| embedding(list, names.segment_embedding, shape.segments)),
            embedding_norm: (style != EncoderStyle::PreNorm)
                .then(|| norm(list, &name(names.embedding_norm), shape.embedding_width, config)),
            embedding_projection: config.family.keys.embedding_width.and_then(|embedding| {
                let sizes = [shape.embedding_width, shape.width];
                (embedding.is_always_projected || sizes[0] != sizes[1]).then(|| {
                    Linear::new(list, &name(names.embedding_projection), sizes, Role::Linear, true)
                })
            }),
            groups: {
                let relative = shape.relative.map(|relative| {
                    let [table, norm] = RELATIVE_POSITIONS.map(name);
                    let (width, epsilon, dropout) = (shape.width, shape.epsilon, shape.dropout);
                    let names = [&*table, &*norm];
                    RelativePositions::new(list, names, relative, width, epsilon, dropout)
                });
                let relative = relative.map(Arc::new);
                let layer = |number| {
                    list.set_depth(Depth::Layer(number));
                    let name = name(&format!("{}.{number}", names.layer));
                    block(list, &name, number, relative.clone(), config)
                };
                (0..shape.groups).map(layer).collect()
            },
            layers: shape.layers,
            final_norm: {
                list.set_depth(Depth::Top);
                (style != EncoderStyle::PostNorm)
                    .then(|| norm(list, &name(names.final_norm), shape.width, config))
            },
            embedding_dropout: shape.embedding_dropout,
            first_position: shape.first_position,
            pooling: shape.pooling,
            inverse_frequencies: shape.modern.as_ref().map(|modern| {
                modern
                    .thetas
                    .map(|theta| Rope::of(theta).inverse_frequencies(shape.width / shape.heads / 2))
            }),
        };
        (encoder, parameters)
    }

    /// The hidden states of all tokens of a batch, `[tokens, width]`.
    pub(super) fn forward(&self, context: &ForwardContext, batch: &Batch) -> HiddenStates {
        let (layout, mut x) = (batch.layout(), self.begin(context, batch));
        for number in 0..self.layers {
            x = self.layer(context, number, x, &layout);
        }
        self.finish(context, x)
    }

    /// The first layer's input, `[tokens, width]`.
    pub(super) fn begin(&self, context: &ForwardContext, batch: &Batch) -> HiddenStates {
        context.enter(Depth::Embeddings);
        let x = context.dropout(self.embed(context, batch), self.embedding_dropout);
        match &self.embedding_projection {
            Some(projection) => projection.forward(context, x),
            None => x,
        }
    }

    /// The output of layer `number` for the input `x`.
    pub(super) fn layer(
        &self,
        context: &ForwardContext,
        number: usize,
        x: HiddenStates,
        layout: &SequenceLayout,
    ) -> HiddenStates {
        context.enter(Depth::Layer(number));
        let layer = &self.groups[number * self.groups.len() / self.layers];
        let angles =
            self.inverse_frequencies.as_ref().map(|frequencies| layout.angles(frequencies));
        let angles = angles.map(|[full, window]| {
            if layer.attention.attention_mask == AttentionMask::Full { full } else { window }
        });
        layer.forward(context, x, layout, angles)
    }

    /// How many layers there are.
    pub(super) fn layers(&self) -> usize {
        self.layers
    }

    /// The hidden states from the last layer's output.
    pub(super) fn finish(&self, context: &ForwardContext, x: HiddenStates) -> HiddenStates {
        context.enter(Depth::Top);
        normalised(self.final_norm.as_ref(), context, x)
    }

    /// The sum of token, position and segment embeddings, as far as there are any,
    /// `[tokens, embedding width]`.
    fn embed(&self, context: &ForwardContext, batch: &Batch) -> HiddenStates {
        let (tokens, ids, positions) =
            (&self.token_embedding, batch.ids(), || batch.position_ids(self.first_position));
        let sum = match (&self.position_embedding, &self.segment_embedding) {
            (Some(position), Some(segment)) => embed(
                context,
                [
                    (tokens, ids),
                    (position, positions()),
                    (segment, batch.token_types(segment.entries())),
                ],
            ),
            (Some(position), None) => embed(context, [(tokens, ids), (position, positions())]),
            (None, _) => embed(context, [(tokens, ids)]),
        };
        normalised(self.embedding_norm.as_ref(), context, sum)
    }

    /// How the vectors of tokens become one of a text, for classifiers.
    pub(super) fn pooling(&self) -> Pooling {
        self.pooling
    }

    /// One vector per text, `[texts, width]`.
    pub(super) fn pool(
        &self,
        context: &ForwardContext,
        batch: &Batch,
        x: HiddenStates,
        pooling: Pooling,
    ) -> HiddenStates {
        let ([_, width], lengths) = (x.dims(), batch.lengths());
        let shape = [lengths.len(), width];
        fused::apply(fused::Pool { lengths, width, pooling }, [&x], shape).unwrap_or_else(|| {
            match pooling {
                Pooling::Cls => x.select(0, batch.first_token_indices(context.device)),
                Pooling::Mean => {
                    let weights = batch.mean_pooling_weights(context.device);
                    device_kernels::product(&weights, &x, FloatDType::F32)
                        .unwrap_or_else(|| weights.matmul(x))
                }
            }
        })
    }
}

fn normalised(norm: Option<&Norm>, context: &ForwardContext, x: HiddenStates) -> HiddenStates {
    match norm {
        Some(norm) => norm.forward(context, x),
        None => x,
    }
}

fn norm(list: &mut Parameters, name: &str, width: usize, config: &EncoderConfig) -> Norm {
    let shape = &config.shape;
    Norm::layer(
        list,
        name,
        width,
        shape.epsilon,
        shape.modern.as_ref().is_none_or(|modern| modern.biases.norm),
    )
}

/// The layer `number`, whose parameters' names begin with `name`.
fn block(
    list: &mut Parameters,
    name: &str,
    number: usize,
    relative: Option<Arc<RelativePositions>>,
    config: &EncoderConfig,
) -> TransformerBlock {
    let (shape, names, style) = (&config.shape, &config.family.names, config.family.style);
    let name = |part: &str| format!("{name}.{part}");
    let (width, inner, modern) = (shape.width, shape.inner, shape.modern.as_ref());
    let reads_normalised = style == EncoderStyle::ModernBert && number == 0;
    let attention_norm =
        (!reads_normalised).then(|| norm(list, &name(names.attention_norm), shape.width, config));
    let [attention_bias, feed_forward_bias] =
        modern.map_or([true; 2], |modern| [modern.biases.attention, modern.biases.feed_forward]);
    let mut linear = |part: &str, sizes: [usize; 2], has_bias: bool| {
        Linear::new(list, &name(part), sizes, Role::Linear, has_bias)
    };
    let qkv = match names.qkv {
        [query, key, value] => QkvProjection::Separate(
            [query, key, value].map(|part| linear(part, [width; 2], attention_bias)),
        ),
        packed => QkvProjection::Packed(linear(packed[0], [width, 3 * width], attention_bias)),
    };
    let attention = Attention {
        qkv,
        output: linear(names.attention_output, [width; 2], attention_bias),
        heads: shape.heads,
        kv_heads: shape.heads,
        head_dim: width / shape.heads,
        attention_mask: modern
            .filter(|modern| modern.sliding[number])
            .map_or(AttentionMask::Full, |modern| AttentionMask::SlidingWindow(modern.window)),
        qk_norms: None,
        relative,
        scaled: true,
        dropout: shape.attention_dropout,
    };
    let feed_forward_norm = norm(list, &name(names.feed_forward_norm), shape.width, config);
    let mut linear = |part: &str, sizes: [usize; 2]| {
        Linear::new(list, &name(part), sizes, Role::Linear, feed_forward_bias)
    };
    let projections = match style {
        EncoderStyle::ModernBert => Projections::PackedGated {
            gate_up: linear(names.up[0], [width, 2 * inner]),
            down: linear(names.down, [inner, width]),
        },
        EncoderStyle::PreNorm | EncoderStyle::PostNorm => Projections::Plain {
            up: linear(names.up[0], [width, inner]),
            down: linear(names.down, [inner, width]),
        },
    };
    TransformerBlock {
        norm_order: if style == EncoderStyle::PostNorm { NormOrder::Post } else { NormOrder::Pre },
        attention_norm,
        attention,
        attention_output_dropout: match style {
            EncoderStyle::ModernBert => shape.attention_dropout,
            _ if config.family.keys.attention_output_dropout => shape.dropout,
            _ => 0.0,
        },
        feed_forward_norm: Some(feed_forward_norm),
        feed_forward: FeedForward {
            projections,
            activation: shape.activation,
            inner_dropout: 0.0,
            dropout: if config.family.keys.feed_forward_dropout { shape.dropout } else { 0.0 },
        },
    }
}
