//! Self-attention: of texts seen whole or from left to right, and of one text that grows.

use std::sync::Arc;

use burn::tensor::{Device, Tensor, activation};

use super::super::batch::Layout;
use super::super::fused::{self, Mask, Sight};
use super::super::parameters::{Parameters, Role, tensor};
use super::{Linear, Pass, Rows, side_by_side};

/// Self-attention of several heads (Vaswani et al. 2017).
pub(in super::super) struct Attention {
    query: Linear,
    key: Linear,
    value: Linear,
    output: Linear,
    heads: usize,
    dropout: f64,
}

impl Attention {
    pub(in super::super) fn new(parameters: &mut Parameters, name: &str, width: usize, heads: usize, dropout: f64) -> Self {
        let mut linear = |part: &str| Linear::new(parameters, &format!("{name}.{part}"), width, width);
        Self { query: linear("query"), key: linear("key"), value: linear("value"), output: linear("output"), heads, dropout }
    }

    /// `residual` plus, with dropout of `rate`, what the tokens `x [tokens, width]` say to each other; a token sees those of its own text.
    pub(in super::super) fn residual(&self, pass: &Pass, residual: Rows, x: &Rows, layout: &Layout, rate: f64) -> Rows {
        let all = side_by_side(pass, [&self.query, &self.key, &self.value], x);
        let mixed = mix(pass, all, layout, self.heads, self.heads, Sight::Whole, self.dropout);
        self.output.residual(pass, residual, mixed, rate)
    }
}

/// Self-attention of several heads in which a token sees itself and those before it (Radford et al. 2018): query, key and value in one map.
pub(in super::super) struct CausalAttention {
    all: Linear,
    output: Linear,
    heads: usize,
    dropout: f64,
}

/// Added to scores of tokens that are not to be seen: its exponential is exactly 0.
const HIDDEN: f32 = -1e9;

impl CausalAttention {
    pub(in super::super) fn new(list: &mut Parameters, name: &str, width: usize, heads: usize, dropout: f64, inward: Role, outward: Role) -> Self {
        Self {
            all: Linear::with_role(list, &format!("{name}.c_attn"), width, 3 * width, inward),
            output: Linear::with_role(list, &format!("{name}.c_proj"), width, width, outward),
            heads,
            dropout,
        }
    }

    /// `residual` plus, with dropout of `rate`, what the tokens `x [tokens, width]` learn from those before them in their texts.
    pub(in super::super) fn residual(&self, pass: &Pass, residual: Rows, x: Rows, layout: &Layout, rate: f64) -> Rows {
        let all = self.all.forward(pass, x);
        let mixed = mix(pass, all, layout, self.heads, self.heads, Sight::Back, self.dropout);
        self.output.residual(pass, residual, mixed, rate)
    }

    /// `residual` plus what more tokens of one text, `x [new, width]`, learn from those before them; `cache` remembers the earlier ones, and
    /// these from now on, under `layer`.
    pub(in super::super) fn extend(&self, pass: &Pass, residual: Rows, x: Rows, cache: &mut Cache, layer: usize) -> Rows {
        let [new, width] = x.dims();
        let all = self.all.forward(pass, x);
        let [query, key, value] = [0, 1, 2].map(|part| split(all.clone().narrow(1, part * width, width), 1, self.heads));
        let (key, value) = cache.add(layer, key, value);
        let seen = key.dims()[2];
        let scores = scores(query, key);
        let scores = if new > 1 { scores + hidden(new, seen, pass.device) } else { scores };
        let mixed = activation::softmax(scores, 3).matmul(value).swap_dims(1, 2).reshape([new, width]);
        self.output.residual(pass, residual, mixed, 0.0)
    }
}

/// Of each token's queries, keys and values side by side, `[tokens, (heads + 2 groups) size]`, the values mixed: `[tokens, heads size]`.
fn mix(pass: &Pass, all: Rows, layout: &Layout, heads: usize, groups: usize, sight: Sight, dropout: f64) -> Rows {
    let ([tokens, columns], mask) = (all.dims(), pass.mask(dropout));
    let size = columns / (heads + 2 * groups);
    let Layout { lengths, length, .. } = layout;
    let operation = fused::Attention { lengths: Arc::clone(lengths), longest: *length, heads, groups, size, sight, dropout: mask };
    fused::apply(operation, [&all], [tokens, heads * size]).unwrap_or_else(|| mix_padded(pass, &all, layout, [heads, groups, size], sight, mask))
}

/// The same by tensor operations, on texts padded to one length.
fn mix_padded(pass: &Pass, all: &Rows, layout: &Layout, [heads, groups, size]: [usize; 3], sight: Sight, dropout: Option<Mask>) -> Rows {
    let (texts, length, padding) = (layout.lengths.len(), layout.length, layout.padding(pass.device));
    let part = |first: usize, count: usize| {
        let x = all.clone().narrow(1, first * size, count * size);
        let x = match padding {
            Some(padding) => x.select(0, padding.spread.clone()),
            None => x,
        };
        split(x, texts, count)
    };
    let shared = |x: Tensor<4>| {
        if groups == heads {
            return x;
        }
        let [texts, groups, length, size] = x.dims();
        x.reshape([texts, groups, 1, length, size]).repeat_dim(2, heads / groups).reshape([texts, heads, length, size])
    };
    let (query, key, value) = (part(0, heads), shared(part(heads, groups)), shared(part(heads + groups, groups)));
    let scores = scores(query, key);
    let scores = match padding {
        Some(padding) => scores + padding.mask.clone(),
        None => scores,
    };
    let scores = if sight == Sight::Back { scores + hidden(length, length, pass.device) } else { scores };
    let shares = activation::softmax(scores, 3);
    let shares = match dropout {
        Some(mask) => pass.masked(shares, mask),
        None => shares,
    };
    let mixed = shares.matmul(value).swap_dims(1, 2).reshape([texts * length, heads * size]);
    match padding {
        Some(padding) => mixed.select(0, padding.gather.clone()),
        None => mixed,
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
pub(in super::super) struct Cache(Vec<(Tensor<4>, Tensor<4>)>);

impl Cache {
    /// Tokens that are remembered.
    pub(in super::super) fn seen(&self) -> usize {
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
