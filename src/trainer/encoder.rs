//! The text classifier: a transformer encoder of any family, a text's vector, and a head.

mod architecture;

use burn::tensor::{Tensor, activation};

use super::batch::{Batch, Layout};
use super::families::encoders::{Bend, Order};
use super::layers::{Attention, Embedding, LayerNorm, Linear, Pass, Rows, embed, feed_forward, tanh};
use super::parameters::{Depth, Parameters, Part};
use crate::arguments::{Activation, Pooling};

pub(super) use architecture::Architecture;

/// The classifier laid out over a parameter list.
pub(super) struct Encoder {
    words: Embedding,
    positions: Embedding,
    types: Option<Embedding>,
    /// Of embeddings, where norms follow their parts.
    embedding_norm: Option<LayerNorm>,
    layers: Vec<Layer>,
    /// After the layers, where norms precede their parts.
    norm: Option<LayerNorm>,
    head: Head,
    dropout: f64,
    first_position: usize,
    pooling: Pooling,
}

struct Layer {
    order: Order,
    attention_norm: LayerNorm,
    attention: Attention,
    feed_forward_norm: LayerNorm,
    inner: Linear,
    outer: Linear,
    activation: Activation,
    dropout: f64,
    attended_dropout: f64,
}

/// From a text's vector to its logits.
struct Head {
    dense: Option<(Linear, Bend, f64)>,
    out: Linear,
    dropout: f64,
}

impl Encoder {
    /// The model and the list of its parameters.
    pub(super) fn new(architecture: &Architecture) -> (Self, Parameters) {
        let (shape, names, prefix) = (&architecture.shape, &architecture.family.names, architecture.family.prefix);
        let mut parameters = Parameters::new(shape.deviation);
        let list = &mut parameters;
        let name = |name: &str| format!("{prefix}{name}");
        let post = architecture.family.order == Order::Post;
        let encoder = Self {
            words: Embedding::new(list, &name(names.words), shape.vocabulary, shape.width),
            positions: Embedding::new(list, &name(names.positions), shape.positions, shape.width),
            types: (shape.types > 0).then(|| Embedding::new(list, &name(names.types), shape.types, shape.width)),
            embedding_norm: post.then(|| LayerNorm::new(list, &name(names.embedding_norm), shape.width, shape.epsilon)),
            layers: (0..shape.layers)
                .map(|number| {
                    list.stand(Depth::Layer(number));
                    Layer::new(list, &format!("{prefix}{}.{number}", names.layer), architecture)
                })
                .collect(),
            norm: {
                list.stand(Depth::Top);
                (!post).then(|| LayerNorm::new(list, &name(names.last_norm), shape.width, shape.epsilon))
            },
            head: Head::new(list, architecture),
            dropout: shape.dropout,
            first_position: shape.first_position,
            pooling: shape.pooling,
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
        self.layers[number].forward(pass, x, layout)
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

    /// Token, position and segment vectors summed, `[tokens, width]`.
    fn embed(&self, pass: &Pass, batch: &Batch) -> Rows {
        let (ids, places) = (batch.ids(), batch.places(self.first_position));
        let sum = match &self.types {
            // Every text is of the first segment.
            Some(types) => embed(pass, [(&self.words, ids.clone()), (&self.positions, places), (types, vec![0; ids.len()].into())]),
            None => embed(pass, [(&self.words, ids), (&self.positions, places)]),
        };
        match &self.embedding_norm {
            Some(norm) => norm.forward(pass, sum),
            None => sum,
        }
    }

    /// One vector per text, `[texts, width]`.
    fn pool(&self, pass: &Pass, batch: &Batch, x: Rows) -> Rows {
        match self.pooling {
            Pooling::Cls => x.select(0, batch.firsts(pass.device)),
            Pooling::Mean => batch.shares(pass.device).matmul(x),
        }
    }
}

impl Layer {
    fn new(list: &mut Parameters, name: &str, architecture: &Architecture) -> Self {
        let (shape, names, order) = (&architecture.shape, &architecture.family.names, architecture.family.order);
        let name = |part: &str| format!("{name}.{part}");
        let norm = |list: &mut Parameters, part: &str| LayerNorm::new(list, &name(part), shape.width, shape.epsilon);
        let parts = [names.query, names.key, names.value, names.output].map(name);
        Self {
            order,
            attention_norm: norm(list, names.attention_norm),
            attention: Attention::new(list, &parts, shape.width, shape.heads, shape.attention_dropout),
            feed_forward_norm: norm(list, names.outer_norm),
            inner: Linear::new(list, &name(names.inner), shape.width, shape.inner),
            outer: Linear::new(list, &name(names.outer), shape.inner, shape.width),
            activation: shape.activation,
            dropout: shape.dropout,
            attended_dropout: if architecture.family.keys.attended_dropout { shape.dropout } else { 0.0 },
        }
    }

    /// Each part adds to what it reads. With norms first, training from nothing needs no long warm-up.
    fn forward(&self, pass: &Pass, x: Rows, layout: &Layout) -> Rows {
        match self.order {
            Order::Pre => {
                let read = self.attention_norm.forward(pass, x.clone());
                let x = self.attention.residual(pass, x, &read, layout, self.attended_dropout);
                let read = self.feed_forward_norm.forward(pass, x.clone());
                self.feed(pass, x, read)
            }
            Order::Post => {
                let attended = self.attention.residual(pass, x.clone(), &x, layout, self.attended_dropout);
                let x = self.attention_norm.forward(pass, attended);
                self.feed_forward_norm.forward(pass, self.feed(pass, x.clone(), x))
            }
        }
    }

    /// `x` plus what the feed-forward part makes of `read`.
    fn feed(&self, pass: &Pass, x: Rows, read: Rows) -> Rows {
        feed_forward(pass, [&self.inner, &self.outer], x, read, self.activation, self.dropout)
    }
}

impl Head {
    fn new(list: &mut Parameters, architecture: &Architecture) -> Self {
        let (shape, head) = (&architecture.shape, &architecture.family.head);
        list.begin(Part::Head);
        let dense = head.dense.map(|dense| {
            let dropout = if dense.dropped { shape.head_dropout } else { 0.0 };
            (Linear::new(list, dense.name, shape.width, shape.width), dense.bend, dropout)
        });
        list.begin(Part::Labels);
        Self { dense, out: Linear::new(list, head.out, shape.width, shape.labels.len()), dropout: shape.head_dropout }
    }

    fn forward(&self, pass: &Pass, x: Rows) -> Rows {
        let x = match &self.dense {
            None => x,
            Some((dense, bend, dropout)) => {
                let x = dense.forward(pass, pass.dropout(x, *dropout));
                match bend {
                    Bend::Tanh => tanh(x),
                    Bend::Relu => activation::relu(x),
                }
            }
        };
        self.out.forward(pass, pass.dropout(x, self.dropout))
    }
}
