//! The text classifier: a transformer encoder of any family, a text's vector, and a head.

mod architecture;

use burn::tensor::{Tensor, activation};

use super::batch::{Batch, Layout};
use super::families::encoders::{Bend, Build};
use super::fused;
use super::layers::{Angles, Attention, Embedding, Inputs, JointFeed, LayerNorm, Linear, Pass, Rows, Sight, embed, feed_forward, gelu, tanh};
use super::parameters::{Depth, Parameters, Part, Role};
use crate::arguments::{Activation, Pooling};

pub(super) use architecture::Architecture;

/// The classifier laid out over a parameter list.
pub(super) struct Encoder {
    words: Embedding,
    /// Where positions are learnt.
    positions: Option<Embedding>,
    types: Option<Embedding>,
    /// Of embeddings, where they are normalised.
    embedding_norm: Option<LayerNorm>,
    layers: Vec<Layer>,
    /// After the layers, where norms precede their parts.
    norm: Option<LayerNorm>,
    head: Head,
    dropout: f64,
    first_position: usize,
    pooling: Pooling,
    /// Where positions are rotated: how fast each pair of a head turns in layers that see whole texts, and in those that see what is near.
    speeds: Option<[Vec<f64>; 2]>,
}

struct Layer {
    build: Build,
    /// Absent in a first layer that reads embeddings as they are.
    attention_norm: Option<LayerNorm>,
    attention: Attention,
    feed_forward_norm: LayerNorm,
    feed: Feed,
    attended_dropout: f64,
}

/// The feed-forward part.
enum Feed {
    Plain { inner: Linear, outer: Linear, activation: Activation, dropout: f64 },
    Gated(JointFeed),
}

/// From a text's vector to its logits.
struct Head {
    dense: Option<Dense>,
    out: Linear,
    dropout: f64,
}

/// What stands between a text's vector and the last map.
struct Dense {
    map: Linear,
    bend: Bend,
    norm: Option<LayerNorm>,
    dropout: f64,
}

impl Encoder {
    /// The model and the list of its parameters.
    pub(super) fn new(architecture: &Architecture) -> (Self, Parameters) {
        let (shape, names, prefix, build) = (&architecture.shape, &architecture.family.names, architecture.family.prefix, architecture.family.build);
        let mut parameters = Parameters::new(shape.deviation);
        let list = &mut parameters;
        let name = |name: &str| format!("{prefix}{name}");
        let encoder = Self {
            words: Embedding::new(list, &name(names.words), shape.vocabulary, shape.width),
            positions: (build != Build::Modern).then(|| Embedding::new(list, &name(names.positions), shape.positions, shape.width)),
            types: (shape.types > 0).then(|| Embedding::new(list, &name(names.types), shape.types, shape.width)),
            embedding_norm: (build != Build::Pre).then(|| norm(list, &name(names.embedding_norm), architecture)),
            layers: (0..shape.layers)
                .map(|number| {
                    list.stand(Depth::Layer(number));
                    Layer::new(list, &name(names.layer), number, architecture)
                })
                .collect(),
            norm: {
                list.stand(Depth::Top);
                (build != Build::Post).then(|| norm(list, &name(names.last_norm), architecture))
            },
            head: Head::new(list, architecture),
            dropout: shape.embedding_dropout,
            first_position: shape.first_position,
            pooling: shape.pooling,
            speeds: shape.modern.as_ref().map(|modern| modern.thetas.map(|theta| speeds(theta, shape.width / shape.heads / 2))),
        };
        (encoder, parameters)
    }

    /// The logits of a batch, `[batch, labels]`.
    pub(super) fn forward(&self, pass: &Pass, batch: &Batch) -> Tensor<2> {
        let (layout, mut x) = (batch.layout(), self.begin(pass, batch));
        for number in 0..self.layers.len() {
            x = self.layer(pass, number, x, &layout);
        }
        self.finish(pass, x, batch)
    }

    /// What the layers read, `[tokens, width]`.
    pub(super) fn begin(&self, pass: &Pass, batch: &Batch) -> Rows {
        pass.enter(Depth::Embeddings);
        pass.dropout(self.embed(pass, batch), self.dropout)
    }

    /// What a layer makes of it.
    pub(super) fn layer(&self, pass: &Pass, number: usize, x: Rows, layout: &Layout) -> Rows {
        pass.enter(Depth::Layer(number));
        let layer = &self.layers[number];
        let angles = self.speeds.as_ref().map(|speeds| layout.angles(speeds));
        let angles = angles.map(|[whole, near]| if layer.attention.sight == Sight::Whole { whole } else { near });
        layer.forward(pass, x, layout, angles)
    }

    /// How many layers there are.
    pub(super) fn layers(&self) -> usize {
        self.layers.len()
    }

    /// The logits from what the last layer made.
    pub(super) fn finish(&self, pass: &Pass, x: Rows, batch: &Batch) -> Tensor<2> {
        pass.enter(Depth::Top);
        let x = match &self.norm {
            Some(norm) => norm.forward(pass, x),
            None => x,
        };
        self.head.forward(pass, self.pool(pass, batch, x))
    }

    /// Token, position and segment vectors summed, as far as there are any, `[tokens, width]`.
    fn embed(&self, pass: &Pass, batch: &Batch) -> Rows {
        let (ids, places) = (batch.ids(), || batch.places(self.first_position));
        let sum = match (&self.positions, &self.types) {
            // Every text is of the first segment.
            (Some(positions), Some(types)) => embed(pass, [(&self.words, ids.clone()), (positions, places()), (types, vec![0; ids.len()].into())]),
            (Some(positions), None) => embed(pass, [(&self.words, ids), (positions, places())]),
            (None, _) => embed(pass, [(&self.words, ids)]),
        };
        match &self.embedding_norm {
            Some(norm) => norm.forward(pass, sum),
            None => sum,
        }
    }

    /// One vector per text, `[texts, width]`.
    fn pool(&self, pass: &Pass, batch: &Batch, x: Rows) -> Rows {
        let ([_, width], lengths) = (x.dims(), batch.lengths());
        let shape = [lengths.len(), width];
        fused::apply(fused::Pool { lengths, width, pooling: self.pooling }, [&x], shape).unwrap_or_else(|| match self.pooling {
            Pooling::Cls => x.select(0, batch.firsts(pass.device)),
            Pooling::Mean => batch.shares(pass.device).matmul(x),
        })
    }
}

/// How far each of the `count` pairs of a head turns from one position to the next (Su et al. 2021).
fn speeds(theta: f64, count: usize) -> Vec<f64> {
    #[expect(clippy::cast_precision_loss, reason = "a width")]
    (0..count).map(|pair| theta.powf(-(pair as f64) / count as f64)).collect()
}

fn norm(list: &mut Parameters, name: &str, architecture: &Architecture) -> LayerNorm {
    let shape = &architecture.shape;
    LayerNorm::biased(list, name, shape.width, shape.epsilon, shape.modern.as_ref().is_none_or(|modern| modern.biases[0]))
}

impl Layer {
    fn new(list: &mut Parameters, layers: &str, number: usize, architecture: &Architecture) -> Self {
        let (shape, names, build) = (&architecture.shape, &architecture.family.names, architecture.family.build);
        let name = |part: &str| format!("{layers}.{number}.{part}");
        let (width, modern) = (shape.width, shape.modern.as_ref());
        let mut attention_norm = None;
        if build != Build::Modern || number > 0 {
            attention_norm = Some(norm(list, &name(names.attention_norm), architecture));
        }
        let [attention_bias, feed_bias] = modern.map_or([true; 2], |modern| [modern.biases[1], modern.biases[2]]);
        let mut map = |part: &str, sizes: [usize; 2], has_bias: bool| Linear::biased(list, &name(part), sizes, Role::Weight, has_bias);
        let inputs = match names.inputs {
            [query, key, value] => Inputs::Apart([query, key, value].map(|part| map(part, [width; 2], attention_bias))),
            joint => Inputs::Joint(map(joint[0], [width, 3 * width], attention_bias)),
        };
        let attention = Attention {
            inputs,
            output: map(names.output, [width; 2], attention_bias),
            heads: shape.heads,
            groups: shape.heads,
            size: width / shape.heads,
            sight: modern.filter(|modern| modern.near[number]).map_or(Sight::Whole, |modern| Sight::Near(modern.reach)),
            norms: None,
            dropout: shape.attention_dropout,
        };
        let feed_forward_norm = norm(list, &name(names.outer_norm), architecture);
        let mut map = |part: &str, sizes: [usize; 2]| Linear::biased(list, &name(part), sizes, Role::Weight, feed_bias);
        let (activation, dropout) = (shape.activation, shape.dropout);
        let feed = match build {
            Build::Modern => Feed::Gated(JointFeed {
                both: map(names.inner, [width, 2 * shape.inner]),
                outer: map(names.outer, [shape.inner, width]),
                activation,
                dropout,
            }),
            Build::Pre | Build::Post => {
                Feed::Plain { inner: map(names.inner, [width, shape.inner]), outer: map(names.outer, [shape.inner, width]), activation, dropout }
            }
        };
        let attended_dropout = match build {
            Build::Modern => shape.attention_dropout,
            _ if architecture.family.keys.attended_dropout => shape.dropout,
            _ => 0.0,
        };
        Self { build, attention_norm, attention, feed_forward_norm, feed, attended_dropout }
    }

    /// Each part adds to what it reads. With norms first, training from nothing needs no long warm-up.
    fn forward(&self, pass: &Pass, x: Rows, layout: &Layout, angles: Option<&Angles>) -> Rows {
        let normalised = |x: Rows| match &self.attention_norm {
            Some(norm) => norm.forward(pass, x),
            None => x,
        };
        match self.build {
            Build::Pre | Build::Modern => {
                let read = normalised(x.clone());
                let x = self.attention.residual(pass, x, &read, layout, angles, self.attended_dropout);
                let read = self.feed_forward_norm.forward(pass, x.clone());
                self.feed(pass, x, read)
            }
            Build::Post => {
                let attended = self.attention.residual(pass, x.clone(), &x, layout, angles, self.attended_dropout);
                let x = normalised(attended);
                self.feed_forward_norm.forward(pass, self.feed(pass, x.clone(), x))
            }
        }
    }

    /// `x` plus what the feed-forward part makes of `read`.
    fn feed(&self, pass: &Pass, x: Rows, read: Rows) -> Rows {
        match &self.feed {
            Feed::Plain { inner, outer, activation, dropout } => feed_forward(pass, [inner, outer], x, read, *activation, *dropout),
            Feed::Gated(feed) => feed.residual(pass, x, read),
        }
    }
}

impl Head {
    fn new(list: &mut Parameters, architecture: &Architecture) -> Self {
        let (shape, head) = (&architecture.shape, &architecture.family.head);
        list.begin(Part::Head);
        let dense = head.dense.map(|dense| Dense {
            map: Linear::biased(list, dense.name, [shape.width; 2], Role::Weight, shape.modern.as_ref().is_none_or(|modern| modern.biases[3])),
            bend: dense.bend,
            norm: dense.norm.map(|name| norm(list, name, architecture)),
            dropout: if dense.dropped { shape.head_dropout } else { 0.0 },
        });
        list.begin(Part::Labels);
        Self { dense, out: Linear::new(list, head.out, shape.width, shape.labels.len()), dropout: shape.head_dropout }
    }

    fn forward(&self, pass: &Pass, x: Rows) -> Rows {
        let x = match &self.dense {
            None => x,
            Some(dense) => dense.forward(pass, x),
        };
        self.out.forward(pass, pass.dropout(x, self.dropout))
    }
}

impl Dense {
    fn forward(&self, pass: &Pass, x: Rows) -> Rows {
        let x = self.map.forward(pass, pass.dropout(x, self.dropout));
        let x = match self.bend {
            Bend::Tanh => tanh(x),
            Bend::Relu => activation::relu(x),
            Bend::Gelu => gelu(x),
        };
        match &self.norm {
            Some(norm) => norm.forward(pass, x),
            None => x,
        }
    }
}
