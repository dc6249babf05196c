//! Self-attention: of texts seen whole or from left to right, and of one text that grows.

use std::sync::Arc;

use burn::tensor::{Device, Int, Tensor, activation};

use super::super::batch::Layout;
use super::super::fused::{self, Mask, Sight};
use super::super::parameters::tensor;
use super::{Linear, Pass, RmsNorm, Rows, side_by_side, wide};

/// Cosines and sines of the angles by which heads are turned at each token, `size / 2` of each: `[tokens, size]`.
pub(in super::super) type Angles = Arc<[f32]>;

/// Self-attention of several heads (Vaswani et al. 2017).
pub(in super::super) struct Attention {
    pub(in super::super) inputs: Inputs,
    pub(in super::super) output: Linear,
    /// Heads of queries.
    pub(in super::super) heads: usize,
    /// Heads of keys and values, each for as many of queries (Ainslie et al. 2023).
    pub(in super::super) groups: usize,
    /// Width of a head.
    pub(in super::super) size: usize,
    /// Which tokens of its text a token sees.
    pub(in super::super) sight: Sight,
    /// Of each head of queries and of keys, before they are turned (Qwen3).
    pub(in super::super) norms: Option<[RmsNorm; 2]>,
    pub(in super::super) dropout: f64,
}

/// Where queries, keys and values come from.
pub(in super::super) enum Inputs {
    /// One map makes all three.
    Joint(Linear),
    /// Each has its own.
    Apart([Linear; 3]),
}

/// How far heads at these places are turned, by the speeds of their pairs: `size / 2` cosines, then as many sines, for each place.
pub(in super::super) fn angles(speeds: &[f64], places: impl Iterator<Item = usize>) -> Angles {
    let places: Vec<usize> = places.collect();
    let farthest = places.iter().max().map_or(0, |place| place + 1);
    #[expect(clippy::cast_precision_loss, reason = "a place in a text")]
    let turn = |place: usize| speeds.iter().map(move |speed| place as f64 * speed);
    #[expect(clippy::cast_possible_truncation, reason = "rounding to f32 is meant")]
    let row = |place: usize| -> Vec<f32> { turn(place).map(|a| a.cos() as f32).chain(turn(place).map(|a| a.sin() as f32)).collect() };
    // Many tokens stand at the same place of their texts.
    let mut rows: Vec<Option<Vec<f32>>> = vec![None; farthest];
    let mut angles = Vec::with_capacity(places.len() * 2 * speeds.len());
    for place in places {
        angles.extend_from_slice(rows[place].get_or_insert_with(|| row(place)));
    }
    angles.into()
}

/// Added to scores of tokens that are not to be seen: its exponential is exactly 0.
const HIDDEN: f32 = -1e9;

impl Attention {
    /// `residual` plus, with dropout of `rate`, what the tokens `x [tokens, width]` learn from those of their texts that they see.
    pub(in super::super) fn residual(&self, pass: &Pass, residual: Rows, x: &Rows, layout: &Layout, angles: Option<&Angles>, rate: f64) -> Rows {
        let all = self.all(pass, x, angles);
        let mixed = mix(pass, all, layout, self.heads, self.groups, self.sight, self.dropout);
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
        let sight = if new > 1 { Sight::Back } else { Sight::Whole };
        let scores = match hidden(sight, new, seen, pass.device) {
            Some(hidden) => scores + hidden,
            None => scores,
        };
        let mixed = activation::softmax(scores, 3).matmul(shared(value, heads)).swap_dims(1, 2).reshape([new, heads * size]);
        self.output.residual(pass, residual, mixed, 0.0)
    }

    /// Each token's queries, keys and values side by side, `[tokens, (heads + 2 groups) size]`, the first two normalised and turned by its place.
    fn all(&self, pass: &Pass, x: &Rows, angles: Option<&Angles>) -> Rows {
        let all = match &self.inputs {
            Inputs::Joint(map) => map.map(pass, x.clone(), None),
            Inputs::Apart([query, key, value]) => side_by_side(pass, [query, key, value], x),
        };
        let all = match &self.norms {
            Some(norms) => self.normalised(pass, wide(all), norms),
            None => all,
        };
        match angles {
            Some(angles) => self.turned(pass, wide(all), angles),
            None => all,
        }
    }

    /// Each head of queries and of keys normalised by itself.
    fn normalised(&self, pass: &Pass, all: Rows, [queries, keys]: &[RmsNorm; 2]) -> Rows {
        let (tokens, size) = (all.dims()[0], self.size);
        let part = |first: usize, count: usize| all.clone().narrow(1, first * size, count * size);
        let heads = |norm: &RmsNorm, first: usize, count: usize| {
            norm.forward(pass, part(first, count).reshape([tokens * count, size])).reshape([tokens, count * size])
        };
        let (queries, keys) = (heads(queries, 0, self.heads), heads(keys, self.heads, self.groups));
        Tensor::cat(vec![queries, keys, part(self.heads + self.groups, self.groups)], 1)
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
    pass.fused(operation, [&all], [tokens, heads * size]).unwrap_or_else(|| mix_padded(pass, &all, layout, [heads, groups, size], sight, mask))
}

/// The same by tensor operations, on texts padded to one length.
fn mix_padded(pass: &Pass, all: &Rows, layout: &Layout, [heads, groups, size]: [usize; 3], sight: Sight, dropout: Option<Mask>) -> Rows {
    let (texts, length, padding) = (layout.lengths.len(), layout.length, layout.padding(pass.device));
    let all = pass.narrow(all.clone());
    let part = |first: usize, count: usize| {
        let x = all.clone().narrow(1, first * size, count * size);
        let x = match padding {
            Some(padding) => x.select(0, padding.spread.clone()),
            None => x,
        };
        split(x, texts, count)
    };
    let (query, key, value) = (part(0, heads), shared(part(heads, groups), heads), shared(part(heads + groups, groups), heads));
    let scores = wide(scores(query, key));
    let scores = match padding {
        Some(padding) => scores + padding.mask.clone(),
        None => scores,
    };
    let scores = match hidden(sight, length, length, pass.device) {
        Some(hidden) => scores + hidden,
        None => scores,
    };
    let shares = activation::softmax(scores, 3);
    let shares = match dropout {
        Some(mask) => pass.masked(shares, mask),
        None => shares,
    };
    let mixed = pass.narrow(shares).matmul(value).swap_dims(1, 2).reshape([texts * length, heads * size]);
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
    let share = (query.dims()[3] as f64).powf(0.25);
    // Half of the scale on each side, as in PyTorch: of half floats neither the sums nor the gradients get too large.
    (query / share).matmul((key / share).swap_dims(2, 3))
}

/// What is added to the scores of the last `new` of `seen` tokens, so that each sees only what it shall: `[1, 1, new, seen]`, made by the
/// device. `None` where all see all.
fn hidden(sight: Sight, new: usize, seen: usize, device: &Device) -> Option<Tensor<4>> {
    if sight == Sight::Whole {
        return None;
    }
    let places = |range: std::ops::Range<usize>| Tensor::<1, Int>::arange(signed(range.start)..signed(range.end), device);
    // How far behind the one that looks each token is.
    let behind = places(seen - new..seen).reshape([1, 1, new, 1]) - places(0..seen).reshape([1, 1, 1, seen]);
    let far = match sight {
        Sight::Whole => return None,
        Sight::Back => behind.lower_elem(0),
        Sight::Near(reach) => behind.abs().greater_elem(signed(reach)),
    };
    Some(far.float() * HIDDEN)
}

fn signed(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
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
