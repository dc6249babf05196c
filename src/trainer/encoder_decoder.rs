//! The encoder with a decoder, of any family.
//!
//! In training, hidden states are those of the encoder's tokens and then those of the decoder's,
//! `[source tokens + target tokens, width]`: a layer changes its part, and those of the decoder
//! attend to the other.

mod config;
mod relative_bias;

use std::sync::Arc;

use burn::tensor::{Device, Tensor};

use super::batch::{Batch, SequenceLayout};
use super::families::decoders::LM_HEAD;
use super::families::seq2seq::{LOGITS_BIAS, RELATIVE_BIAS, Seq2SeqStyle};
use super::floats::{as_f32, real};
use super::layers::{
    AttendsTo, Attention, AttentionMask, CrossKeys, DecodedKeys, Embedding, FeedForward,
    ForwardContext, HiddenStates, Linear, Memory, Norm, NormOrder, Projections, QkvProjection,
    biased_logits, cross_entropy, embed, linear_cross_entropy, logits, row_numbers,
};
use super::parameters::{Depth, ModelPart, ParameterId, Parameters, Role, tensor};

pub(super) use config::Seq2SeqConfig;
use config::StackShape;
use relative_bias::RelativeBias;

/// The model laid out over a parameter list.
pub(super) struct EncoderDecoder {
    token_embedding: Embedding,
    encoder: Stack,
    decoder: Stack,
    /// The output embedding, unless it is the token embedding.
    lm_head: Option<ParameterId>,
    logits_bias: Option<ParameterId>,
    style: Seq2SeqStyle,
    /// The token whose embedding learns nothing from being read, as PyTorch's `padding_idx`.
    padding: Option<u32>,
    width: usize,
    /// The factor of embeddings.
    embedding_scale: f64,
    /// The factor of what the output embedding multiplies.
    output_scale: f64,
    dropout: f64,
}

/// The encoder or the decoder.
struct Stack {
    /// Of learnt positions.
    positions: Option<Embedding>,
    embedding_norm: Option<Norm>,
    relative_bias: Option<RelativeBias>,
    layers: Vec<Layer>,
    final_norm: Option<Norm>,
}

/// A layer: self-attention, in a decoder attention to the encoder's output, and a feed-forward
/// network.
struct Layer {
    order: NormOrder,
    attention: Attention,
    attention_norm: Norm,
    cross: Option<(Attention, Norm)>,
    feed_forward: FeedForward,
    feed_forward_norm: Norm,
    dropout: f64,
}

/// Positions before a text's first in Bart's tables.
const BART_OFFSET: usize = 2;

/// What has been decoded of several rows, and what they attend to.
pub(super) struct Decoding {
    decoded: Vec<DecodedKeys>,
    cross: Vec<CrossKeys>,
    /// Added to the scores of attention to the encoder's output, `[rows, 1, 1, length]`.
    mask: Option<Tensor<4>>,
    /// Tokens of each row so far.
    length: usize,
}

impl EncoderDecoder {
    /// The model and the list of its parameters.
    pub(super) fn new(config: &Seq2SeqConfig) -> (Self, Parameters) {
        let (shape, family) = (&config.shape, config.family);
        // T5's linear layers have deviations of their own, its embeddings one of 1.
        let deviation = if family.style == Seq2SeqStyle::T5 { 1.0 } else { 0.02 };
        let mut parameters = Parameters::new(Some(deviation));
        let list = &mut parameters;
        let name = format!("{}shared", family.prefix);
        let token_embedding = Embedding::new(list, &name, shape.vocabulary, shape.width);
        let parts = [("encoder", shape.encoder), ("decoder", shape.decoder)];
        let embeddings = parts.map(|(part, of)| Stack::embeddings(list, config, part, of));
        let mut embeddings = embeddings.into_iter();
        let mut first = 0;
        let mut stack = |list: &mut Parameters, (part, of): (&str, StackShape)| {
            let stack = embeddings.next().expect("one for each part");
            let layers = (0..of.layers).map(|number| {
                list.set_depth(Depth::Layer(first + number));
                layer(list, config, part, of, number)
            });
            let layers = layers.collect();
            first += of.layers;
            let name = format!("{}{part}.final_layer_norm", family.prefix);
            let final_norm = (family.style == Seq2SeqStyle::T5)
                .then(|| Norm::rms(list, &name, shape.width, shape.epsilon));
            Stack { layers, final_norm, ..stack }
        };
        let [encoder, decoder] = parts.map(|part| stack(list, part));
        list.set_depth(Depth::Top);
        let lm_head = (!shape.tied).then(|| {
            list.add(LM_HEAD.to_owned(), [shape.vocabulary, shape.width], Role::Embedding)
        });
        list.set_part(ModelPart::Head);
        let logits_bias = (family.style != Seq2SeqStyle::T5)
            .then(|| list.add(LOGITS_BIAS.to_owned(), [1, shape.vocabulary], Role::Buffer));
        let root = real(shape.width).sqrt();
        let model = Self {
            token_embedding,
            encoder,
            decoder,
            lm_head,
            logits_bias,
            style: family.style,
            padding: (family.style != Seq2SeqStyle::T5).then_some(shape.special.pad),
            width: shape.width,
            embedding_scale: if shape.scales_embeddings { root } else { 1.0 },
            output_scale: if family.style == Seq2SeqStyle::T5 && shape.tied {
                1.0 / root
            } else {
                1.0
            },
            dropout: shape.dropout,
        };
        (model, parameters)
    }

    /// The layers of the encoder and then those of the decoder.
    pub(super) fn layers(&self) -> usize {
        self.encoder.layers.len() + self.decoder.layers.len()
    }

    /// The first layer's input for source and target tokens.
    pub(super) fn begin(
        &self,
        context: &ForwardContext,
        source: &Batch,
        target: &Batch,
    ) -> HiddenStates {
        context.enter(Depth::Embeddings);
        // One look-up of all, since gradients of a table are kept by table.
        let ids: Arc<[u32]> = [source.ids(), target.ids()].concat().into();
        let x = self.embedded(context, ids);
        let tokens = source.ids().len();
        let part = |stack: &Stack, first: usize, batch: &Batch| {
            let x = x.clone().narrow(0, first, batch.ids().len());
            self.placed(context, stack, x, &positions(batch))
        };
        Tensor::cat(vec![part(&self.encoder, 0, source), part(&self.decoder, tokens, target)], 0)
    }

    /// Token embeddings with their factor.
    fn embedded(&self, context: &ForwardContext, ids: Arc<[u32]>) -> HiddenStates {
        let padding = self.padding.filter(|padding| ids.contains(padding));
        let x = embed(context, [(&self.token_embedding, Arc::clone(&ids))]);
        let x = match padding {
            Some(padding) => {
                let learns = ids.iter().map(|id| if *id == padding { 0.0 } else { 1.0 }).collect();
                let learns: Tensor<2> = tensor(learns, [ids.len(), 1], context.device);
                x.clone() * learns.clone() + x.detach() * (1.0 - learns)
            }
            None => x,
        };
        if self.embedding_scale == 1.0 { x } else { x * self.embedding_scale }
    }

    /// Token embeddings with positions, norm and dropout.
    fn placed(
        &self,
        context: &ForwardContext,
        stack: &Stack,
        x: HiddenStates,
        positions: &[usize],
    ) -> HiddenStates {
        let x = match (&stack.positions, self.style) {
            (Some(table), _) => {
                let places = positions.iter().map(|place| place + BART_OFFSET);
                let places = places.filter_map(|place| u32::try_from(place).ok()).collect();
                x + embed(context, [(table, places)])
            }
            (None, Seq2SeqStyle::Marian) => x + sinusoids(positions, self.width, context.device),
            (None, _) => x,
        };
        let x = match &stack.embedding_norm {
            Some(norm) => norm.forward(context, x),
            None => x,
        };
        context.dropout(x, self.dropout)
    }

    /// The output of layer `number` for `x`, which has the tokens of both texts.
    pub(super) fn layer(
        &self,
        context: &ForwardContext,
        number: usize,
        x: HiddenStates,
        source: &SequenceLayout,
        target: &SequenceLayout,
    ) -> HiddenStates {
        context.enter(Depth::Layer(number));
        let ends = [source, target].map(|layout| layout.lengths.iter().sum::<usize>());
        let encoded = x.clone().narrow(0, 0, ends[0]);
        let decoded = x.narrow(0, ends[0], ends[1]);
        let encoders = self.encoder.layers.len();
        let both = if number < encoders {
            vec![self.encoder_layer(context, number, encoded, source), decoded]
        } else {
            let bias = self.decoder.bias(context, target.length, target.length);
            let memory = Memory { x: &encoded, layout: source };
            let layer = &self.decoder.layers[number - encoders];
            let decoded = layer.forward(context, decoded, target, bias, Some(memory));
            vec![encoded, decoded]
        };
        Tensor::cat(both, 0)
    }

    /// The output of the encoder's layer `number`; of the last one normalised.
    fn encoder_layer(
        &self,
        context: &ForwardContext,
        number: usize,
        x: HiddenStates,
        layout: &SequenceLayout,
    ) -> HiddenStates {
        let bias = self.encoder.bias(context, layout.length, layout.length);
        let x = self.encoder.layers[number].forward(context, x, layout, bias, None);
        if number + 1 < self.encoder.layers.len() {
            x
        } else {
            self.finished(context, &self.encoder, x)
        }
    }

    /// The output of the last layer with the norm and the dropout after it, where there are such.
    fn finished(&self, context: &ForwardContext, stack: &Stack, x: HiddenStates) -> HiddenStates {
        match &stack.final_norm {
            Some(norm) => context.dropout(norm.forward(context, x), self.dropout),
            None => x,
        }
    }

    /// What the output embedding multiplies, from the decoder's last layer.
    fn output(&self, context: &ForwardContext, x: HiddenStates) -> HiddenStates {
        let x = self.finished(context, &self.decoder, x);
        if self.output_scale == 1.0 { x } else { x * self.output_scale }
    }

    /// The cross-entropy of `targets`, the tokens after each of the decoder's, summed and times
    /// `scale`, from the last layer's output: `[1]`.
    pub(super) fn finish(
        &self,
        context: &ForwardContext,
        x: HiddenStates,
        source: &SequenceLayout,
        targets: Vec<u32>,
        smoothing: f64,
        scale: f64,
    ) -> Tensor<1> {
        context.enter(Depth::Top);
        let x = self.output(context, self.decoded(x, source, targets.len()));
        let (table, targets) = (self.output_embedding(context), targets.into());
        match self.logits_bias {
            None => linear_cross_entropy(context, x, table, targets, smoothing, scale),
            Some(bias) => {
                let logits = biased_logits(context, x, table, context.values.get(bias));
                cross_entropy(logits, targets, smoothing, scale)
            }
        }
    }

    /// The decoder's part of the hidden states.
    fn decoded(&self, x: HiddenStates, source: &SequenceLayout, tokens: usize) -> HiddenStates {
        x.narrow(0, source.lengths.iter().sum(), tokens)
    }

    /// The logits of the token after each of the decoder's, `[target tokens, vocabulary]`.
    pub(super) fn forward(
        &self,
        context: &ForwardContext,
        source: &Batch,
        target: &Batch,
    ) -> Tensor<2> {
        let [of_source, of_target] = [source, target].map(Batch::layout);
        let x = self.begin(context, source, target);
        let x = (0..self.layers())
            .fold(x, |x, number| self.layer(context, number, x, &of_source, &of_target));
        context.enter(Depth::Top);
        let x = self.output(context, self.decoded(x, &of_source, target.ids().len()));
        self.logits(context, x)
    }

    fn logits(&self, context: &ForwardContext, x: HiddenStates) -> Tensor<2> {
        let table = self.output_embedding(context);
        match self.logits_bias {
            None => logits(context, x, table),
            Some(bias) => biased_logits(context, x, table, context.values.get(bias)),
        }
    }

    /// `[vocabulary, width]`.
    fn output_embedding(&self, context: &ForwardContext) -> Tensor<2> {
        self.lm_head
            .map_or_else(|| self.token_embedding.table(context), |head| context.values.get(head))
    }

    /// Encodes texts, and begins to decode `beams` rows for each.
    pub(super) fn begin_decoding(
        &self,
        context: &ForwardContext,
        source: &Batch,
        beams: usize,
    ) -> Decoding {
        let layout = source.layout();
        let x = self.embedded(context, source.ids());
        let x = self.placed(context, &self.encoder, x, &positions(source));
        let x = (0..self.encoder.layers.len())
            .fold(x, |x, number| self.encoder_layer(context, number, x, &layout));
        let rows: Vec<usize> =
            (0..source.lengths().len()).flat_map(|text| std::iter::repeat_n(text, beams)).collect();
        let rows = row_numbers(&rows, context.device);
        let memory = Memory { x: &x, layout: &layout };
        let cross = self.decoder.layers.iter().filter_map(|layer| layer.cross.as_ref());
        Decoding {
            decoded: vec![DecodedKeys::default(); self.decoder.layers.len()],
            cross: cross.map(|(cross, _)| cross.cross_keys(context, memory, &rows)).collect(),
            mask: layout
                .padding(context.device)
                .map(|padding| padding.mask.clone().select(0, rows.clone())),
            length: 0,
        }
    }

    /// The logits of the token after `tokens`, the latest of each row: `[rows, vocabulary]`.
    pub(super) fn step(
        &self,
        context: &ForwardContext,
        tokens: &[u32],
        decoding: &mut Decoding,
    ) -> Tensor<2> {
        let place = decoding.length;
        decoding.length += 1;
        let x = self.embedded(context, tokens.into());
        let mut x = self.placed(context, &self.decoder, x, &vec![place; tokens.len()]);
        let bias = self.decoder.bias(context, 1, place + 1);
        for (number, layer) in self.decoder.layers.iter().enumerate() {
            x = layer.step(context, x, decoding, number, bias.clone());
        }
        let x = self.output(context, x);
        self.logits(context, x)
    }
}

impl Decoding {
    /// Continues with other rows, of the same texts or fewer.
    pub(super) fn select(&mut self, rows: &[usize], device: &Device) {
        self.reorder(rows, device);
        let rows = row_numbers(rows, device);
        self.cross = self.cross.iter().map(|keys| keys.select(&rows)).collect();
        self.mask = self.mask.take().map(|mask| mask.select(0, rows.clone()));
    }

    /// Continues with other rows of the same text each.
    pub(super) fn reorder(&mut self, rows: &[usize], device: &Device) {
        let rows = row_numbers(rows, device);
        self.decoded = self.decoded.iter().map(|keys| keys.select(&rows)).collect();
    }
}

impl Stack {
    /// What comes before the layers.
    fn embeddings(
        list: &mut Parameters,
        config: &Seq2SeqConfig,
        part: &str,
        of: StackShape,
    ) -> Self {
        let (shape, family) = (&config.shape, config.family);
        let name = |name: &str| format!("{}{part}.{name}", family.prefix);
        let (mut positions, mut embedding_norm, mut relative_bias) = (None, None, None);
        match family.style {
            Seq2SeqStyle::T5 => {
                let is_decoder = part == "decoder";
                relative_bias = Some(RelativeBias::new(
                    list,
                    &name(RELATIVE_BIAS),
                    shape.relative,
                    of.heads,
                    is_decoder,
                ));
            }
            Seq2SeqStyle::Bart => {
                let entries = shape.positions.unwrap_or(0) + BART_OFFSET;
                positions =
                    Some(Embedding::new(list, &name("embed_positions"), entries, shape.width));
                let name = name("layernorm_embedding");
                embedding_norm = Some(Norm::layer(list, &name, shape.width, shape.epsilon, true));
            }
            Seq2SeqStyle::Marian => {}
        }
        Self { positions, embedding_norm, relative_bias, layers: Vec::new(), final_norm: None }
    }

    /// The biases of the scores of the last `queries` of `keys` tokens,
    /// `[1, heads, queries, keys]`, with relative positions.
    fn bias(&self, context: &ForwardContext, queries: usize, keys: usize) -> Option<Tensor<4>> {
        self.relative_bias.as_ref().map(|bias| bias.of(context, queries, keys))
    }
}

impl Layer {
    /// The layer's output for `x [tokens, width]`.
    fn forward(
        &self,
        context: &ForwardContext,
        x: HiddenStates,
        layout: &SequenceLayout,
        bias: Option<Tensor<4>>,
        memory: Option<Memory<'_>>,
    ) -> HiddenStates {
        let (rate, attention) = (self.dropout, &self.attention);
        let x = self.sublayer(context, &self.attention_norm, x, |x, input| {
            attention.residual_to(
                context,
                x,
                &input,
                layout,
                AttendsTo::Itself(bias.as_ref()),
                rate,
            )
        });
        let x = match (&self.cross, memory) {
            (Some((cross, norm)), Some(memory)) => self.sublayer(context, norm, x, |x, input| {
                cross.residual_to(context, x, &input, layout, AttendsTo::Other(memory), rate)
            }),
            _ => x,
        };
        self.sublayer(context, &self.feed_forward_norm, x, |x, input| {
            self.feed_forward.residual(context, x, input)
        })
    }

    /// The layer's output for the next token of each row, `x [rows, width]`.
    fn step(
        &self,
        context: &ForwardContext,
        x: HiddenStates,
        decoding: &mut Decoding,
        number: usize,
        bias: Option<Tensor<4>>,
    ) -> HiddenStates {
        let decoded = &mut decoding.decoded[number];
        let x = self.sublayer(context, &self.attention_norm, x, |x, input| {
            self.attention.step(context, x, &input, decoded, bias)
        });
        let (keys, mask) = (&decoding.cross[number], &decoding.mask);
        let x = match &self.cross {
            Some((cross, norm)) => self.sublayer(context, norm, x, |x, input| {
                cross.step_to(context, x, &input, keys, mask.clone())
            }),
            None => x,
        };
        self.sublayer(context, &self.feed_forward_norm, x, |x, input| {
            self.feed_forward.residual(context, x, input)
        })
    }

    /// `add` adds what a sublayer makes of its second argument to the first.
    fn sublayer(
        &self,
        context: &ForwardContext,
        norm: &Norm,
        x: HiddenStates,
        add: impl FnOnce(HiddenStates, HiddenStates) -> HiddenStates,
    ) -> HiddenStates {
        match self.order {
            NormOrder::Pre => {
                let input = norm.forward(context, x.clone());
                add(x, input)
            }
            NormOrder::Post => norm.forward(context, add(x.clone(), x)),
        }
    }
}

/// A layer of the encoder or the decoder.
fn layer(
    list: &mut Parameters,
    config: &Seq2SeqConfig,
    part: &str,
    of: StackShape,
    number: usize,
) -> Layer {
    let (shape, family) = (&config.shape, config.family);
    let names = &family.names;
    let is_t5 = family.style == Seq2SeqStyle::T5;
    let name = |end: &str| format!("{}{part}.{}.{number}.{end}", family.prefix, names.layer);
    let linear = |list: &mut Parameters, end: &str, sizes: [usize; 2], divisor: usize| {
        let role = if is_t5 { Role::ScaledLinear { divisor } } else { Role::Linear };
        Linear::new(list, &name(end), sizes, role, !is_t5)
    };
    let norm = |list: &mut Parameters, end: &str| {
        if is_t5 {
            Norm::rms(list, &name(end), shape.width, shape.epsilon)
        } else {
            Norm::layer(list, &name(end), shape.width, shape.epsilon, true)
        }
    };
    let all_heads = of.heads * of.head_dim;
    let attention = |list: &mut Parameters, names: &[&str; 5], attention_mask: AttentionMask| {
        let [query, key, value, output, own_norm] = names;
        let inward = [shape.width, all_heads];
        let attention = Attention {
            qkv: QkvProjection::Separate([
                linear(list, query, inward, of.head_dim),
                linear(list, key, inward, 1),
                linear(list, value, inward, 1),
            ]),
            output: linear(list, output, [all_heads, shape.width], 1),
            heads: of.heads,
            kv_heads: of.heads,
            head_dim: of.head_dim,
            attention_mask,
            qk_norms: None,
            relative: None,
            scaled: !is_t5,
            dropout: shape.attention_dropout,
        };
        (attention, norm(list, own_norm))
    };
    let is_decoder = part == "decoder";
    let mask = if is_decoder { AttentionMask::Causal } else { AttentionMask::Full };
    let (own, attention_norm) = attention(list, &names.self_attention, mask);
    let cross = is_decoder.then(|| attention(list, &names.cross_attention, AttentionMask::Full));
    let [up, gate, beside, down, feed_forward_norm] =
        if is_decoder { names.decoder_feed_forward } else { names.encoder_feed_forward };
    let inward = [shape.width, of.inner];
    let outward = [of.inner, shape.width];
    let projections = if shape.gated {
        Projections::Gated {
            gate: linear(list, gate, inward, 1),
            up: linear(list, beside, inward, 1),
            down: linear(list, down, outward, 1),
        }
    } else {
        Projections::Plain { up: linear(list, up, inward, 1), down: linear(list, down, outward, 1) }
    };
    Layer {
        order: if is_t5 { NormOrder::Pre } else { NormOrder::Post },
        attention: own,
        attention_norm,
        cross,
        feed_forward: FeedForward {
            projections,
            activation: shape.activation,
            inner_dropout: shape.activation_dropout,
            dropout: shape.dropout,
        },
        feed_forward_norm: norm(list, feed_forward_norm),
        dropout: shape.dropout,
    }
}

/// The position of each token in its text.
fn positions(batch: &Batch) -> Vec<usize> {
    batch.lengths().iter().flat_map(|length| 0..*length).collect()
}

/// Sinusoidal positions `[positions, width]` (Vaswani et al. 2017), in Marian's order: sines first.
fn sinusoids(positions: &[usize], width: usize, device: &Device) -> Tensor<2> {
    let half = width.div_ceil(2);
    let of = |place: usize| {
        let angle =
            move |index: usize| real(place) / 10_000_f64.powf(2.0 * real(index) / real(width));
        let sines = (0..half).map(move |index| angle(index).sin());
        sines.chain((0..width - half).map(move |index| angle(index).cos()))
    };
    let numbers = positions.iter().flat_map(|place| of(*place)).map(as_f32).collect();
    tensor(numbers, [positions.len(), width], device)
}
