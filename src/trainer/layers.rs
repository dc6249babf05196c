//! The vocabulary models are written in: linear maps, embeddings, norms, attention, dropout.
//!
//! Layers hold places in the parameter list, not values. A later leading dimension of several trials with equal shapes goes into [`Pass`]
//! and [`Rows`]; models and the training loop do not name it.

use std::cell::Cell;
use std::sync::Arc;

use burn::tensor::{Device, Int, Tensor, TensorData, activation, module};

use super::batch::Layout;
use super::dice::{dropout_mask, key};
use super::fused;
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
        let shape = x.dims();
        match self.mask(shape.iter().product(), rate) {
            Some(mask) => x * tensor(mask, shape, self.device),
            None => x,
        }
    }

    /// What `len` elements are multiplied with at the next site of dropout, if there is any.
    fn mask(&self, len: usize, rate: f64) -> Option<Vec<f32>> {
        let dropout = self.dropout.filter(|_| rate > 0.0)?;
        let site = self.sites.replace(self.sites.get() + 1);
        Some(dropout_mask(key(dropout.seed, "dropout", &[dropout.step, dropout.micro_batch, site]), len, rate))
    }
}

/// `y = x W + b`.
pub(super) struct Linear {
    weight: Slot,
    bias: Slot,
}

impl Linear {
    pub(super) fn new(parameters: &mut Parameters, name: &str, input: usize, output: usize) -> Self {
        Self::with_role(parameters, name, input, output, Role::Weight)
    }

    /// A map whose weight starts and is stored as `role` says.
    pub(super) fn with_role(parameters: &mut Parameters, name: &str, input: usize, output: usize, role: Role) -> Self {
        Self {
            weight: parameters.add(format!("{name}.weight"), [input, output], role),
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

    /// The vectors themselves, `[entries, width]`.
    pub(super) fn table(&self, pass: &Pass) -> Tensor<2> {
        pass.values.get(self.table)
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
    epsilon: f64,
}

impl LayerNorm {
    /// `epsilon` is added to the variance.
    pub(super) fn new(parameters: &mut Parameters, name: &str, width: usize, epsilon: f64) -> Self {
        Self {
            epsilon,
            scale: parameters.add(format!("{name}.weight"), [1, width], Role::Scale),
            shift: parameters.add(format!("{name}.bias"), [1, width], Role::Bias),
        }
    }

    /// `[rows, width]` to the same.
    pub(super) fn forward(&self, pass: &Pass, x: Rows) -> Rows {
        let (scale, shift, shape) = (pass.values.get(self.scale), pass.values.get(self.shift), x.dims());
        #[expect(clippy::cast_possible_truncation, reason = "rounding to f32 is meant")]
        let operation = fused::LayerNorm { epsilon: self.epsilon as f32 };
        fused::apply(operation, [&x, &scale, &shift], shape).unwrap_or_else(|| module::layer_norm(x, flat(scale), Some(flat(shift)), self.epsilon))
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

/// Self-attention of several heads in which a token sees itself and those before it (Radford et al. 2018): query, key and value in one map.
pub(super) struct CausalAttention {
    all: Linear,
    output: Linear,
    heads: usize,
    dropout: f64,
}

/// Added to scores of tokens that are not to be seen: its exponential is exactly 0.
const HIDDEN: f32 = -1e9;

impl CausalAttention {
    pub(super) fn new(list: &mut Parameters, name: &str, width: usize, heads: usize, dropout: f64, inward: Role, outward: Role) -> Self {
        Self {
            all: Linear::with_role(list, &format!("{name}.c_attn"), width, 3 * width, inward),
            output: Linear::with_role(list, &format!("{name}.c_proj"), width, width, outward),
            heads,
            dropout,
        }
    }

    /// Texts of `length` tokens side by side, `[tokens, width]`, to the same.
    pub(super) fn forward(&self, pass: &Pass, x: Rows, length: usize) -> Rows {
        let [tokens, width] = x.dims();
        let texts = tokens / length;
        let all = self.all.forward(pass, x);
        let dropout = pass.mask(texts * self.heads * length * length, self.dropout);
        let operation = fused::CausalAttention { texts, length, heads: self.heads, dropout: dropout.clone().map(Arc::from) };
        let mixed = fused::apply(operation, [&all], [tokens, width]).unwrap_or_else(|| {
            let [query, key, value] = [0, 1, 2].map(|part| split(all.clone().narrow(1, part * width, width), texts, self.heads));
            let shares = activation::softmax(scores(query, key) + hidden(length, length, pass.device), 3);
            let shares = match dropout {
                Some(dropout) => shares * tensor(dropout, [texts, self.heads, length, length], pass.device),
                None => shares,
            };
            shares.matmul(value).swap_dims(1, 2).reshape([tokens, width])
        });
        self.output.forward(pass, mixed)
    }

    /// More tokens of one text, `[new, width]`, to the same; `cache` remembers the earlier ones, and these from now on, under `layer`.
    pub(super) fn extend(&self, pass: &Pass, x: Rows, cache: &mut Cache, layer: usize) -> Rows {
        let [new, width] = x.dims();
        let all = self.all.forward(pass, x);
        let [query, key, value] = [0, 1, 2].map(|part| split(all.clone().narrow(1, part * width, width), 1, self.heads));
        let (key, value) = cache.add(layer, key, value);
        let seen = key.dims()[2];
        let scores = scores(query, key);
        let scores = if new > 1 { scores + hidden(new, seen, pass.device) } else { scores };
        let mixed = activation::softmax(scores, 3).matmul(value).swap_dims(1, 2).reshape([new, width]);
        self.output.forward(pass, mixed)
    }
}

/// `[texts * length, width]` to `[texts, heads, length, width / heads]`.
fn split(x: Rows, texts: usize, heads: usize) -> Tensor<4> {
    let [tokens, width] = x.dims();
    x.reshape([texts, tokens / texts, heads, width / heads]).swap_dims(1, 2)
}

/// How much each query asks for each key, `[texts, heads, queries, keys]`.
fn scores(query: Tensor<4>, key: Tensor<4>) -> Tensor<4> {
    #[expect(clippy::cast_precision_loss, reason = "a width")]
    let root = (query.dims()[3] as f64).sqrt();
    query.matmul(key.swap_dims(2, 3)) / root
}

/// What is added to the scores of the last `new` of `seen` tokens, so that none sees those after it: `[1, 1, new, seen]`.
fn hidden(new: usize, seen: usize, device: &Device) -> Tensor<4> {
    let row = |query: usize| (0..seen).map(move |key| if key > seen - new + query { HIDDEN } else { 0.0 });
    tensor((0..new).flat_map(row).collect(), [1, 1, new, seen], device)
}

/// Keys and values of the tokens that a text has so far, layer by layer: `[1, heads, seen, width / heads]` each.
#[derive(Default)]
pub(super) struct Cache(Vec<(Tensor<4>, Tensor<4>)>);

impl Cache {
    /// Tokens that are remembered.
    pub(super) fn seen(&self) -> usize {
        self.0.first().map_or(0, |(key, _)| key.dims()[2])
    }

    /// Remembers more tokens of a layer, and gives all of them.
    fn add(&mut self, layer: usize, key: Tensor<4>, value: Tensor<4>) -> (Tensor<4>, Tensor<4>) {
        let all = match self.0.get(layer) {
            Some((keys, values)) => (Tensor::cat(vec![keys.clone(), key], 2), Tensor::cat(vec![values.clone(), value], 2)),
            None => (key, value),
        };
        match self.0.get_mut(layer) {
            Some(place) => *place = all.clone(),
            None => self.0.push(all.clone()),
        }
        all
    }
}

/// The sum over rows of the cross-entropy of `logits [rows, classes]` with the rows' true classes, times `share`: `[1]`.
pub(super) fn cross_entropy(logits: Tensor<2>, targets: Arc<[u32]>, smoothing: f64, share: f64) -> Tensor<1> {
    #[expect(clippy::cast_possible_truncation, reason = "rounding to f32 is meant")]
    let operation = fused::CrossEntropy { targets: targets.clone(), smoothing: smoothing as f32, share: share as f32 };
    if let Some(loss) = fused::apply(operation, [&logits], [1, 1]) {
        return loss.reshape([1]);
    }
    let (device, [rows, classes]) = (logits.device(), logits.dims());
    let logs = activation::log_softmax(logits, 1);
    let true_ones: Tensor<2> = logs.clone().gather(1, ids(&targets, &device).reshape([rows, 1]));
    #[expect(clippy::cast_precision_loss, reason = "a number of classes")]
    let spread = smoothing / classes as f64;
    (true_ones.sum() * (1.0 - smoothing) + logs.sum() * spread) * -share
}

/// Numbers of tokens or places as a tensor `[1, n]`.
pub(super) fn ids(numbers: &[u32], device: &Device) -> Tensor<2, Int> {
    Tensor::from_data(TensorData::new(numbers.iter().map(|number| number.cast_signed()).collect::<Vec<i32>>(), [1, numbers.len()]), device)
}

/// A nonlinearity, element by element.
pub(super) fn activate(kind: Activation, x: Rows) -> Rows {
    match kind {
        Activation::Gelu => fused::apply(fused::Gelu, [&x], x.dims()).unwrap_or_else(|| activation::gelu(x)),
        Activation::Relu => activation::relu(x),
    }
}

fn flat(row: Tensor<2>) -> Tensor<1> {
    let [_, width] = row.dims();
    row.reshape([width])
}
