//! Self-attention: of texts seen whole or from left to right, and of one text that grows.

use std::sync::Arc;

use burn::tensor::{Device, Tensor, activation};

use super::super::batch::Layout;
use super::super::fused::{self, Mask, Sight};
use super::super::parameters::{Parameters, tensor};
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
    /// `names` are those of query, key, value and output.
    pub(in super::super) fn new(parameters: &mut Parameters, names: &[String; 4], width: usize, heads: usize, dropout: f64) -> Self {
        let [query, key, value, output] = names.each_ref().map(|name| Linear::new(parameters, name, width, width));
        Self { query, key, value, output, heads, dropout }
    }

    /// `residual` plus, with dropout of `rate`, what the tokens `x [tokens, width]` say to each other; a token sees those of its own text.
    pub(in super::super) fn residual(&self, pass: &Pass, residual: Rows, x: &Rows, layout: &Layout, rate: f64) -> Rows {
        let all = side_by_side(pass, [&self.query, &self.key, &self.value], x);
        let mixed = mix(pass, all, layout, self.heads, self.heads, Sight::Whole, self.dropout);
        self.output.residual(pass, residual, mixed, rate)
    }
}

/// Cosines and sines of the angles by which heads are turned at each token, `size / 2` of each: `[tokens, size]`.
pub(in super::super) type Angles = Arc<[f32]>;

/// Self-attention of several heads in which a token sees itself and those before it (Radford et al. 2018).
pub(in super::super) struct CausalAttention {
    pub(in super::super) inputs: Inputs,
    pub(in super::super) output: Linear,
    /// Heads of queries.
    pub(in super::super) heads: usize,
    /// Heads of keys and values, each for as many of queries (Ainslie et al. 2023).
    pub(in super::super) groups: usize,
    /// Width of a head.
    pub(in super::super) size: usize,
    pub(in super::super) dropout: f64,
}

/// Where queries, keys and values come from.
pub(in super::super) enum Inputs {
    /// One map makes all three.
    Joint(Linear),
    /// Each has its own.
    Apart([Linear; 3]),
}

/// Added to scores of tokens that are not to be seen: its exponential is exactly 0.
const HIDDEN: f32 = -1e9;

impl CausalAttention {
    /// `residual` plus, with dropout of `rate`, what the tokens `x [tokens, width]` learn from those before them in their texts.
    pub(in super::super) fn residual(&self, pass: &Pass, residual: Rows, x: &Rows, layout: &Layout, angles: Option<&Angles>, rate: f64) -> Rows {
        let all = self.all(pass, x, angles);
        let mixed = mix(pass, all, layout, self.heads, self.groups, Sight::Back, self.dropout);
        self.output.residual(pass, residual, mixed, rate)
    }

    /// `residual` plus what more tokens of one text, `x [new, width]`, learn from those before them; `cache` remembers the earlier ones, and
    /// these from now on, under `layer`.
    pub(in super::super) fn extend(&self, pass: &Pass, residual: Rows, x: &Rows, angles: Option<&Angles>, cache: &mut Cache, layer: usize) -> Rows {
        let Self { heads, groups, size, .. } = *self;
        let all = self.all(pass, x, angles);
        let new = all.dims()[0];
        let part = |first: usize, count: usize| split(all.clone().narrow(1, first * size, count * size), 1, count);
        let (key, value) = cache.add(layer, part(heads, groups), part(heads + groups, groups));
        let seen = key.dims()[2];
        let scores = scores(part(0, heads), shared(key, heads));
        let scores = if new > 1 { scores + hidden(new, seen, pass.device) } else { scores };
        let mixed = activation::softmax(scores, 3).matmul(shared(value, heads)).swap_dims(1, 2).reshape([new, heads * size]);
        self.output.residual(pass, residual, mixed, 0.0)
    }

    /// Each token's queries, keys and values side by side, `[tokens, (heads + 2 groups) size]`, the first two turned by its place.
    fn all(&self, pass: &Pass, x: &Rows, angles: Option<&Angles>) -> Rows {
        let all = match &self.inputs {
            Inputs::Joint(map) => map.forward(pass, x.clone()),
            Inputs::Apart([query, key, value]) => side_by_side(pass, [query, key, value], x),
        };
        match angles {
            Some(angles) => self.turned(pass, all, angles),
            None => all,
        }
    }

    /// Heads of queries and keys turned; number `i` of a head's first half and number `i` of its second are one point (Su et al. 2021).
    fn turned(&self, pass: &Pass, all: Rows, angles: &Angles) -> Rows {
        let ([tokens, columns], heads, size) = (all.dims(), self.heads + self.groups, self.size);
        let operation = fused::Rotary { heads, size, columns, angles: Arc::clone(angles) };
        fused::apply(operation, [&all], [tokens, columns]).unwrap_or_else(|| {
            let half = size / 2;
            let angles: Tensor<4> = tensor(angles.to_vec(), [tokens, 1, 2, half], pass.device);
            let (cosines, sines) = (angles.clone().narrow(2, 0, 1), angles.narrow(2, 1, 1));
            let points: Tensor<4> = all.clone().narrow(1, 0, heads * size).reshape([tokens, heads, 2, half]);
            let (first, second) = (points.clone().narrow(2, 0, 1), points.narrow(2, 1, 1));
            let turned = Tensor::cat(vec![first.clone() * cosines.clone() - second.clone() * sines.clone(), second * cosines + first * sines], 2);
            Tensor::cat(vec![turned.reshape([tokens, heads * size]), all.narrow(1, heads * size, columns - heads * size)], 1)
        })
    }
}

/// Heads of keys or values, `[texts, groups, length, size]`, each as often as heads of queries share it: `[texts, heads, length, size]`.
fn shared(x: Tensor<4>, heads: usize) -> Tensor<4> {
    let [texts, groups, length, size] = x.dims();
    if groups == heads {
        return x;
    }
    x.reshape([texts, groups, 1, length, size]).repeat_dim(2, heads / groups).reshape([texts, heads, length, size])
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
    let (query, key, value) = (part(0, heads), shared(part(heads, groups), heads), shared(part(heads + groups, groups), heads));
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

/// Keys and values of the tokens that a text has so far, layer by layer: `[1, groups, seen, size]` each.
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
