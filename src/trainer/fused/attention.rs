//! Causal self-attention on queries, keys and values as one linear map leaves them: no copies of heads, no mask.

use std::sync::Arc;

use super::lanes::{Place, exp, greatest, product, sum, vectorised};
use super::{Operation, Purpose};

/// Of `[texts * length, 3 * width]`, each row a token's query, key and value, the values mixed: `[texts * length, width]`. A token sees
/// itself and those before it in its text.
#[derive(Debug, Clone)]
pub(in crate::trainer) struct CausalAttention {
    /// Texts side by side.
    pub(in crate::trainer) texts: usize,
    /// Tokens of each.
    pub(in crate::trainer) length: usize,
    /// Attention heads.
    pub(in crate::trainer) heads: usize,
    /// What attention probabilities `[texts, heads, length, length]` are multiplied with, if there is dropout.
    pub(in crate::trainer) dropout: Option<Arc<[f32]>>,
}

/// Where one head of one text lies.
struct Head {
    query: Place,
    key: Place,
    value: Place,
    output: Place,
    /// Its probabilities within those of all heads.
    square: std::ops::Range<usize>,
}

impl CausalAttention {
    fn width(&self, input: &[f32]) -> usize {
        input.len() / (3 * self.texts * self.length).max(1)
    }

    fn heads(&self, width: usize) -> impl Iterator<Item = Head> {
        let (size, length, heads) = (width / self.heads, self.length, self.heads);
        (0..self.texts * heads).map(move |number| {
            let (text, head) = (number / heads, number % heads);
            let part = |part: usize| Place::new(text * length * 3 * width + part * width + head * size, 3 * width);
            Head {
                query: part(0),
                key: part(1),
                value: part(2),
                output: Place::new(text * length * width + head * size, width),
                square: number * length * length..(number + 1) * length * length,
            }
        })
    }

    /// What scores are multiplied with: the inverse root of a head's size.
    fn scale(&self, width: usize) -> f32 {
        #[expect(clippy::cast_precision_loss, reason = "a width")]
        let size = (width / self.heads) as f32;
        1.0 / size.sqrt()
    }

    /// Probabilities with dropout applied, in `room` where there is some.
    fn dropped<'a>(&self, shares: &'a [f32], square: &std::ops::Range<usize>, room: &'a mut [f32]) -> &'a [f32] {
        let Some(dropout) = &self.dropout else { return shares };
        for ((room, share), factor) in room.iter_mut().zip(shares).zip(&dropout[square.clone()]) {
            *room = share * factor;
        }
        room
    }
}

impl Operation<1> for CausalAttention {
    /// The probabilities before dropout.
    type Kept = Vec<f32>;

    fn forward(&self, [input]: [&[f32]; 1], purpose: Purpose) -> (Vec<f32>, Vec<f32>) {
        let (width, length) = (self.width(input), self.length);
        let (size, scale, whole) = (width / self.heads, self.scale(width), Place::new(0, length));
        let mut output = vec![0.0; input.len() / 3];
        let mut kept = vec![0.0; if purpose == Purpose::Gradient { self.texts * self.heads * length * length } else { 0 }];
        let (mut scores, mut room) = (vec![0.0; length * length], vec![0.0; length * length]);
        for head in self.heads(width) {
            let shares = kept.get_mut(head.square.clone()).unwrap_or(&mut scores);
            product([length, size, length], (shares, whole), (input, head.query), (input, head.key.transposed()), scale);
            causal_softmax(shares, length);
            let mixed = self.dropped(shares, &head.square, &mut room);
            product([length, length, size], (&mut output, head.output), (mixed, whole), (input, head.value), 1.0);
        }
        (output, kept)
    }

    fn backward(&self, [input]: [&[f32]; 1], kept: Vec<f32>, gradient: &[f32], _: [bool; 1]) -> [Option<Vec<f32>>; 1] {
        let (width, length) = (self.width(input), self.length);
        let (size, scale, whole) = (width / self.heads, self.scale(width), Place::new(0, length));
        let mut dinput = vec![0.0; input.len()];
        let (mut dshares, mut room) = (vec![0.0; length * length], vec![0.0; length * length]);
        for head in self.heads(width) {
            let shares = &kept[head.square.clone()];
            let mixed = self.dropped(shares, &head.square, &mut room);
            product([length, length, size], (&mut dinput, head.value), (mixed, whole.transposed()), (gradient, head.output), 1.0);
            product([length, size, length], (&mut dshares, whole), (gradient, head.output), (input, head.value.transposed()), 1.0);
            if let Some(dropout) = &self.dropout {
                dshares.iter_mut().zip(&dropout[head.square.clone()]).for_each(|(number, factor)| *number *= factor);
            }
            softmax_gradient(shares, &mut dshares, length);
            product([length, length, size], (&mut dinput, head.query), (&dshares, whole), (input, head.key), scale);
            product([length, length, size], (&mut dinput, head.key), (&dshares, whole.transposed()), (input, head.query), scale);
        }
        [Some(dinput)]
    }
}

vectorised! {
    /// Row `i` becomes the softmax of its first `i + 1` scores; the others become 0.
    fn causal_softmax(scores: &mut [f32], length: usize) {
        for (row, scores) in scores.chunks_exact_mut(length.max(1)).enumerate() {
            let (seen, hidden) = scores.split_at_mut(row + 1);
            let top = greatest(seen);
            for score in seen.iter_mut() {
                *score = exp(*score - top);
            }
            let inverse = 1.0 / sum(seen, seen, |number, _| number);
            for score in seen.iter_mut() {
                *score *= inverse;
            }
            hidden.fill(0.0);
        }
    }
}

vectorised! {
    /// Gradients of probabilities become those of their scores.
    fn softmax_gradient(shares: &[f32], gradients: &mut [f32], length: usize) {
        for (shares, gradients) in shares.chunks_exact(length.max(1)).zip(gradients.chunks_exact_mut(length.max(1))) {
            let along = sum(shares, gradients, |share, gradient| share * gradient);
            for (gradient, share) in gradients.iter_mut().zip(shares) {
                *gradient = share * (*gradient - along);
            }
        }
    }
}
