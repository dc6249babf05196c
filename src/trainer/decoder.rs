//! The language model: a causal pre-norm transformer of any family.

mod architecture;

use burn::tensor::Tensor;

use super::batch::Layout;
use super::families::decoders::{Build, HEAD};
use super::layers::{
    Angles, Attention, Cache, Embedding, GatedFeed, Inputs, LayerNorm, Linear, Pass, RmsNorm, Rows, Sight, angles, embed, feed_forward,
    table_cross_entropy,
};
use super::parameters::{Depth, Parameters, Part, Role, Slot};
use crate::arguments::Activation;

pub(super) use architecture::Architecture;

/// The decoder laid out over a parameter list.
pub(super) struct Decoder {
    words: Embedding,
    /// Where positions are learnt.
    positions: Option<Embedding>,
    layers: Vec<Layer>,
    norm: Norm,
    /// The output's own table, where it does not share the words'.
    head: Option<Slot>,
    dropout: f64,
    /// How fast each pair of a head turns, where positions are rotated.
    speeds: Option<Vec<f64>>,
}

struct Layer {
    attention_norm: Norm,
    attention: Attention,
    feed_forward_norm: Norm,
    feed: Feed,
    dropout: f64,
}

enum Norm {
    Layer(LayerNorm),
    Rms(RmsNorm),
}

/// The feed-forward part.
enum Feed {
    Plain { inner: Linear, outer: Linear, activation: Activation },
    Gated(GatedFeed),
}

impl Decoder {
    /// The model and the list of its parameters.
    pub(super) fn new(architecture: &Architecture) -> (Self, Parameters) {
        let (shape, family) = (&architecture.shape, architecture.family);
        let mut parameters = Parameters::new(shape.deviation);
        let list = &mut parameters;
        let name = |name: &str| format!("{}{name}", family.prefix);
        let learnt = family.build == Build::Gpt;
        let decoder = Self {
            words: Embedding::new(list, &name(family.names.words), shape.vocabulary, shape.width),
            positions: learnt.then(|| Embedding::new(list, &name(family.names.positions), shape.positions, shape.width)),
            layers: (0..shape.layers)
                .map(|number| {
                    list.stand(Depth::Layer(number));
                    Layer::new(list, &name(&format!("{}.{number}", family.names.layer)), architecture)
                })
                .collect(),
            norm: {
                list.stand(Depth::Top);
                Norm::new(list, &name(family.names.last_norm), architecture)
            },
            head: (!shape.tied).then(|| {
                list.begin(Part::Labels);
                list.add(HEAD.to_owned(), [shape.vocabulary, shape.width], Role::Table)
            }),
            dropout: shape.embedding_dropout,
            speeds: (!learnt).then(|| shape.rope.speeds(shape.size / 2)),
        };
        (decoder, parameters)
    }

    /// The logits of the token after each of `tokens`, which are texts of `length` tokens one after another: `[tokens, vocabulary]`.
    pub(super) fn forward(&self, pass: &Pass, tokens: &[u32], length: usize) -> Tensor<2> {
        self.read(pass, tokens, length).matmul(self.table(pass).transpose())
    }

    /// The cross-entropy of the tokens `told` after each of `tokens`, summed and times `share`: `[1]`.
    #[cfg(test)]
    pub(super) fn loss(&self, pass: &Pass, tokens: &[u32], told: Vec<u32>, length: usize, smoothing: f64, share: f64) -> Tensor<1> {
        table_cross_entropy(pass, self.read(pass, tokens, length), self.table(pass), told.into(), smoothing, share)
    }

    /// The same from what the last layer made.
    pub(super) fn finish(&self, pass: &Pass, x: Rows, told: Vec<u32>, smoothing: f64, share: f64) -> Tensor<1> {
        pass.enter(Depth::Top);
        table_cross_entropy(pass, self.norm.forward(pass, x), self.table(pass), told.into(), smoothing, share)
    }

    /// What the tokens say of those after them, `[tokens, width]`.
    fn read(&self, pass: &Pass, tokens: &[u32], length: usize) -> Rows {
        let (layout, angles) = self.places(tokens.len(), length);
        let mut x = self.begin(pass, tokens, length);
        for number in 0..self.layers.len() {
            x = self.layer(pass, number, x, &layout, angles.as_ref());
        }
        pass.enter(Depth::Top);
        self.norm.forward(pass, x)
    }

    /// How texts of `length` tokens lie, and how far heads are turned at each token.
    pub(super) fn places(&self, tokens: usize, length: usize) -> (Layout, Option<Angles>) {
        let places: Vec<usize> = (0..tokens).map(|token| token % length).collect();
        (Layout::even(tokens / length, length), self.angles(&places))
    }

    /// What the layers read, `[tokens, width]`.
    pub(super) fn begin(&self, pass: &Pass, tokens: &[u32], length: usize) -> Rows {
        pass.enter(Depth::Embeddings);
        let places: Vec<usize> = (0..tokens.len()).map(|token| token % length).collect();
        pass.dropout(self.embed(pass, tokens, &places), self.dropout)
    }

    /// What a layer makes of it.
    pub(super) fn layer(&self, pass: &Pass, number: usize, x: Rows, layout: &Layout, angles: Option<&Angles>) -> Rows {
        pass.enter(Depth::Layer(number));
        let layer = &self.layers[number];
        let read = layer.attention_norm.forward(pass, x.clone());
        let attended = layer.attention.residual(pass, x, &read, layout, angles, layer.dropout);
        layer.finish(pass, attended)
    }

    /// How many layers there are.
    pub(super) fn layers(&self) -> usize {
        self.layers.len()
    }

    /// The logits of the token after the last of `tokens`, which follow those that `cache` remembers in one text: `[1, vocabulary]`.
    pub(super) fn extend(&self, pass: &Pass, tokens: &[u32], cache: &mut Cache) -> Tensor<2> {
        let seen = cache.seen();
        let places: Vec<usize> = (seen..seen + tokens.len()).collect();
        let angles = self.angles(&places);
        let mut x = self.embed(pass, tokens, &places);
        for (number, layer) in self.layers.iter().enumerate() {
            let read = layer.attention_norm.forward(pass, x.clone());
            x = layer.finish(pass, layer.attention.extend(pass, x, &read, angles.as_ref(), cache, number));
        }
        let last = x.dims()[0] - 1;
        self.norm.forward(pass, x.narrow(0, last, 1)).matmul(self.table(pass).transpose())
    }

    /// Token vectors, with those of positions where they are learnt, `[tokens, width]`.
    fn embed(&self, pass: &Pass, tokens: &[u32], places: &[usize]) -> Rows {
        match &self.positions {
            Some(positions) => {
                let places: Vec<u32> = places.iter().filter_map(|place| u32::try_from(*place).ok()).collect();
                embed(pass, [(&self.words, tokens.into()), (positions, places.into())])
            }
            None => embed(pass, [(&self.words, tokens.into())]),
        }
    }

    /// How far heads at these places are turned, where they are.
    fn angles(&self, places: &[usize]) -> Option<Angles> {
        self.speeds.as_ref().map(|speeds| angles(speeds, places.iter().copied()))
    }

    /// The vectors that tokens are told by, `[vocabulary, width]`.
    fn table(&self, pass: &Pass) -> Tensor<2> {
        self.head.map_or_else(|| self.words.table(pass), |head| pass.values.get(head))
    }
}

impl Norm {
    fn new(list: &mut Parameters, name: &str, architecture: &Architecture) -> Self {
        let shape = &architecture.shape;
        match architecture.family.build {
            Build::Gpt => Self::Layer(LayerNorm::new(list, name, shape.width, shape.epsilon)),
            Build::Llama { .. } => Self::Rms(RmsNorm::new(list, name, shape.width, shape.epsilon)),
        }
    }

    fn forward(&self, pass: &Pass, x: Rows) -> Rows {
        match self {
            Self::Layer(norm) => norm.forward(pass, x),
            Self::Rms(norm) => norm.forward(pass, x),
        }
    }
}

impl Layer {
    fn new(list: &mut Parameters, name: &str, architecture: &Architecture) -> Self {
        let (shape, names, build) = (&architecture.shape, &architecture.family.names, architecture.family.build);
        let name = |part: &str| format!("{name}.{part}");
        // GPT-2: what is added to the residual stream starts smaller by the root of how often that happens.
        let (inward, outward) = match build {
            Build::Gpt => (Role::Kernel { additions: 1 }, Role::Kernel { additions: 2 * shape.layers }),
            Build::Llama { .. } => (Role::Weight, Role::Weight),
        };
        let [input_bias, output_bias, feed_bias] = shape.biases;
        let (queries, keys) = (shape.heads * shape.size, shape.groups * shape.size);
        let mut input = |part: &str, width: usize| Linear::biased(list, &name(part), [shape.width, width], inward, input_bias);
        let inputs = match names.inputs {
            [query, key, value] => Inputs::Apart([input(query, queries), input(key, keys), input(value, keys)]),
            joint => Inputs::Joint(input(joint[0], queries + 2 * keys)),
        };
        let norms = names.head_norms.map(|norms| norms.map(|norm| RmsNorm::new(list, &name(norm), shape.size, shape.epsilon)));
        Self {
            attention_norm: Norm::new(list, &name(names.attention_norm), architecture),
            attention: Attention {
                inputs,
                output: Linear::biased(list, &name(names.output), [queries, shape.width], outward, output_bias),
                heads: shape.heads,
                groups: shape.groups,
                size: shape.size,
                sight: Sight::Back,
                norms,
                dropout: shape.attention_dropout,
            },
            feed_forward_norm: Norm::new(list, &name(names.feed_forward_norm), architecture),
            feed: match names.inner {
                [gate, beside] => Feed::Gated(GatedFeed {
                    gate: Linear::biased(list, &name(gate), [shape.width, shape.inner], inward, feed_bias),
                    beside: Linear::biased(list, &name(beside), [shape.width, shape.inner], inward, feed_bias),
                    outer: Linear::biased(list, &name(names.outer), [shape.inner, shape.width], outward, feed_bias),
                    activation: shape.activation,
                }),
                inner => Feed::Plain {
                    inner: Linear::biased(list, &name(inner[0]), [shape.width, shape.inner], inward, feed_bias),
                    outer: Linear::biased(list, &name(names.outer), [shape.inner, shape.width], outward, feed_bias),
                    activation: shape.activation,
                },
            },
            dropout: shape.dropout,
        }
    }

    /// The second part of a layer; each part adds to what it reads after a norm.
    fn finish(&self, pass: &Pass, x: Rows) -> Rows {
        let read = self.feed_forward_norm.forward(pass, x.clone());
        match &self.feed {
            Feed::Plain { inner, outer, activation } => feed_forward(pass, [inner, outer], x, read, *activation, self.dropout),
            Feed::Gated(feed) => feed.residual(pass, x, read, self.dropout),
        }
    }
}
