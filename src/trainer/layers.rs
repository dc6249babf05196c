//! The vocabulary models are written in: linear maps, embeddings, norms, attention, dropout.
//!
//! Layers hold places in the parameter list, not values. A later leading dimension of several trials with equal shapes goes into [`Pass`]
//! and [`Rows`]; models and the training loop do not name it.

use std::cell::Cell;

use burn::tensor::{Device, Int, Tensor, activation, module};

use super::batch::Layout;
use super::dice::{dropout_mask, key};
use super::parameters::{Parameters, Role, Slot, Values, tensor};
use crate::arguments::Activation;

/// Activations of all tokens of a batch one after another: `[tokens, width]`. Products on flat rows are one large product each.
pub(super) type Rows = Tensor<2>;

/// One forward pass: the values it uses and, in training, its dropout.
pub(super) struct Pass<'a> {
    pub(super) values: &'a Values,
    pub(super) device: &'a Device,
    dropout: Option<DropoutKey>,
    /// Dropout sites met so far: the same model meets the same sites in the same order.
    sites: Cell<u64>,
}

/// What the masks of one forward pass are functions of, besides their site.
#[derive(Debug, Clone, Copy)]
pub(super) struct DropoutKey {
    pub(super) seed: u64,
    pub(super) step: u64,
    pub(super) micro_batch: u64,
}

impl<'a> Pass<'a> {
    /// A pass without dropout.
    pub(super) fn inference(values: &'a Values, device: &'a Device) -> Self {
        Self { values, device, dropout: None, sites: Cell::new(0) }
    }

    /// A pass with dropout; `device` is the one with autodiff.
    pub(super) fn training(values: &'a Values, device: &'a Device, dropout: DropoutKey) -> Self {
        Self { values, device, dropout: Some(dropout), sites: Cell::new(0) }
    }

    /// `x` with a share of `rate` of its elements set to 0 and the others scaled up.
    pub(super) fn dropout<const D: usize>(&self, x: Tensor<D>, rate: f64) -> Tensor<D> {
        let Some(dropout) = self.dropout.filter(|_| rate > 0.0) else { return x };
        let site = self.sites.replace(self.sites.get() + 1);
        let shape = x.dims();
        let mask = dropout_mask(key(dropout.seed, "dropout", &[dropout.step, dropout.micro_batch, site]), shape.iter().product(), rate);
        x * tensor(mask, shape, self.device)
    }
}

/// `y = x W + b`.
pub(super) struct Linear {
    weight: Slot,
    bias: Slot,
}

impl Linear {
    pub(super) fn new(parameters: &mut Parameters, name: &str, input: usize, output: usize) -> Self {
        Self {
            weight: parameters.add(format!("{name}.weight"), [input, output], Role::Weight),
            bias: parameters.add(format!("{name}.bias"), [1, output], Role::Bias),
        }
    }

    /// `[rows, input]` to `[rows, output]`.
    pub(super) fn forward(&self, pass: &Pass, x: Rows) -> Rows {
        module::linear(x, pass.values.get(self.weight), Some(flat(pass.values.get(self.bias))))
    }
}

/// A vector for each of a number of entries.
pub(super) struct Embedding {
    table: Slot,
    width: usize,
}

impl Embedding {
    pub(super) fn new(parameters: &mut Parameters, name: &str, entries: usize, width: usize) -> Self {
        Self { table: parameters.add(format!("{name}.weight"), [entries, width], Role::Table), width }
    }

    /// Ids `[1, rows]` to vectors `[rows, width]`.
    pub(super) fn forward(&self, pass: &Pass, ids: Tensor<2, Int>) -> Rows {
        let [_, rows] = ids.dims();
        module::embedding(pass.values.get(self.table), ids).reshape([rows, self.width])
    }
}

/// Normalises each row to mean 0 and variance 1, then scales and shifts it (Ba, Kiros, Hinton 2016).
pub(super) struct LayerNorm {
    scale: Slot,
    shift: Slot,
}

/// Added to the variance, as in BERT.
pub(super) const LAYER_NORM_EPSILON: f64 = 1e-12;

impl LayerNorm {
    pub(super) fn new(parameters: &mut Parameters, name: &str, width: usize) -> Self {
        Self {
            scale: parameters.add(format!("{name}.weight"), [1, width], Role::Scale),
            shift: parameters.add(format!("{name}.bias"), [1, width], Role::Bias),
        }
    }

    /// `[rows, width]` to the same.
    pub(super) fn forward(&self, pass: &Pass, x: Rows) -> Rows {
        module::layer_norm(x, flat(pass.values.get(self.scale)), Some(flat(pass.values.get(self.shift))), LAYER_NORM_EPSILON)
    }
}

/// Self-attention of several heads (Vaswani et al. 2017).
pub(super) struct Attention {
    query: Linear,
    key: Linear,
    value: Linear,
    output: Linear,
    heads: usize,
    dropout: f64,
}

impl Attention {
    pub(super) fn new(parameters: &mut Parameters, name: &str, width: usize, heads: usize, dropout: f64) -> Self {
        let mut linear = |part: &str| Linear::new(parameters, &format!("{name}.{part}"), width, width);
        Self { query: linear("query"), key: linear("key"), value: linear("value"), output: linear("output"), heads, dropout }
    }

    /// `[tokens, width]` to the same; a token sees those of its own text.
    pub(super) fn forward(&self, pass: &Pass, x: Rows, layout: &Layout) -> Rows {
        let Layout { texts, length, padding } = layout;
        let [_, width] = x.dims();
        let head = width / self.heads;
        let split = |x: Rows| {
            let x = match padding {
                Some(padding) => x.select(0, padding.spread.clone()),
                None => x,
            };
            x.reshape([*texts, *length, self.heads, head]).swap_dims(1, 2)
        };
        let query = split(self.query.forward(pass, x.clone()));
        let key = split(self.key.forward(pass, x.clone()));
        let value = split(self.value.forward(pass, x));
        #[expect(clippy::cast_precision_loss, reason = "a width")]
        let scores = query.matmul(key.swap_dims(2, 3)) / (head as f64).sqrt();
        let scores = match padding {
            Some(padding) => scores + padding.mask.clone(),
            None => scores,
        };
        let shares = pass.dropout(activation::softmax(scores, 3), self.dropout);
        let mixed = shares.matmul(value).swap_dims(1, 2).reshape([texts * length, width]);
        let mixed = match padding {
            Some(padding) => mixed.select(0, padding.gather.clone()),
            None => mixed,
        };
        self.output.forward(pass, mixed)
    }
}

/// A nonlinearity, element by element.
pub(super) fn activate(kind: Activation, x: Rows) -> Rows {
    match kind {
        Activation::Gelu => activation::gelu(x),
        Activation::Relu => activation::relu(x),
    }
}

fn flat(row: Tensor<2>) -> Tensor<1> {
    let [_, width] = row.dims();
    row.reshape([width])
}
