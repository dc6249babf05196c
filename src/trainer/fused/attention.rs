//! Self-attention on queries, keys and values as linear maps leave them: texts of any lengths one after another, no copies of heads, no
//! padding, no mask.

use std::ops::Range;
use std::sync::Arc;

use super::dropout::{Mask, counter};
use super::lanes::{exp, greatest, sum, vectorised};
use super::products::{Landing, Place, product};
use super::{Operation, Purpose, Slope};

/// Of `[tokens, (heads + 2 groups) size]`, each row a token's queries, keys and values, the values mixed: `[tokens, heads size]`.
#[derive(Debug, Clone)]
pub(in crate::trainer) struct Attention {
    /// Tokens of each text; the texts lie one after another.
    pub(in crate::trainer) lengths: Arc<[usize]>,
    /// Tokens of the longest text, or more: how far apart rows lie in the mask.
    pub(in crate::trainer) longest: usize,
    /// Heads of queries.
    pub(in crate::trainer) heads: usize,
    /// Heads of keys and values, each for as many of queries: `heads` is a multiple (Ainslie et al. 2023).
    pub(in crate::trainer) groups: usize,
    /// Width of a head.
    pub(in crate::trainer) size: usize,
    /// Which tokens of its text a token sees.
    pub(in crate::trainer) sight: Sight,
    /// What is dropped of attention probabilities `[texts, heads, longest, longest]`.
    pub(in crate::trainer) dropout: Option<Mask>,
}

/// Which tokens of its text a token sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::trainer) enum Sight {
    /// All of them.
    Whole,
    /// Itself and those before it.
    Back,
    /// Those at most so far away, on either side.
    Near(usize),
}

impl Sight {
    /// Whether the token at place `from` of a text sees the one at `to`.
    pub(in crate::trainer) fn reaches(self, from: usize, to: usize) -> bool {
        self.range(from, usize::MAX).contains(&to)
    }

    /// The places that the one at `from` sees in a text of `length` tokens.
    fn range(self, from: usize, length: usize) -> Range<usize> {
        match self {
            Self::Whole => 0..length,
            Self::Back => 0..from + 1,
            Self::Near(reach) => from.saturating_sub(reach)..length.min(from.saturating_add(reach).saturating_add(1)),
        }
    }
}

/// Queries that are looked at together where tokens look back: what lies behind the last of them is not computed.
const BLOCK: usize = 64;

/// Where one head of one text lies.
struct Head {
    length: usize,
    query: Place,
    key: Place,
    value: Place,
    output: Place,
    /// Its probabilities within those of all heads.
    square: Range<usize>,
    /// The place of its first probability in the mask.
    first: usize,
}

/// Some queries of a head and the keys they look at.
struct Block {
    /// The first query.
    start: usize,
    rows: usize,
    /// Keys from the text's first on.
    seen: usize,
    /// Tokens of the text.
    length: usize,
    sight: Sight,
    /// The place of its first probability in the mask, and how far those of its queries lie apart.
    mask: (usize, usize),
}

impl Attention {
    /// Columns of the input.
    fn columns(&self) -> usize {
        (self.heads + 2 * self.groups) * self.size
    }

    fn each(&self) -> impl Iterator<Item = Head> {
        let (size, columns, width, longest) = (self.size, self.columns(), self.heads * self.size, self.longest);
        let starts = self.lengths.iter().scan((0, 0), |(token, share), length| {
            let start = (*token, *share);
            (*token, *share) = (*token + length, *share + self.heads * length * length);
            Some((start, *length))
        });
        starts.enumerate().flat_map(move |(text, ((token, share), length))| {
            (0..self.heads).map(move |head| {
                let group = head / (self.heads / self.groups);
                let part = |column: usize| Place::new(token * columns + column * size, columns);
                Head {
                    length,
                    query: part(head),
                    key: part(self.heads + group),
                    value: part(self.heads + self.groups + group),
                    output: Place::new(token * width + head * size, width),
                    square: share + head * length * length..share + (head + 1) * length * length,
                    first: (text * self.heads + head) * longest * longest,
                }
            })
        })
    }

    fn blocks(&self, head: &Head) -> impl Iterator<Item = Block> + use<> {
        let (length, sight, first, longest) = (head.length, self.sight, head.first, self.longest);
        let step = if sight == Sight::Back { BLOCK } else { length.max(1) };
        (0..length).step_by(step).map(move |start| {
            let rows = step.min(length - start);
            let seen = if sight == Sight::Back { start + rows } else { length };
            Block { start, rows, seen, length, sight, mask: (first + start * longest, longest) }
        })
    }

    /// Probabilities of all heads.
    fn shares(&self) -> usize {
        self.lengths.iter().map(|length| self.heads * length * length).sum()
    }

    /// What scores are multiplied with: the inverse root of a head's size.
    fn scale(&self) -> f32 {
        #[expect(clippy::cast_precision_loss, reason = "a width")]
        let size = self.size as f32;
        1.0 / size.sqrt()
    }
}

impl Operation<1> for Attention {
    /// The probabilities before dropout.
    type Kept = Vec<f32>;

    fn forward(&self, [input]: [&[f32]; 1], purpose: Purpose) -> (Vec<f32>, Vec<f32>) {
        let (size, scale, square) = (self.size, self.scale(), self.longest.pow(2));
        let mut output = vec![0.0; input.len() / self.columns() * self.heads * size];
        let mut kept = vec![0.0; if purpose == Purpose::Gradient { self.shares() } else { 0 }];
        let (mut scores, mut room) = (vec![0.0; square], vec![0.0; square]);
        for head in self.each() {
            let length = head.length;
            let shares = kept.get_mut(head.square.clone()).unwrap_or(&mut scores);
            for block in self.blocks(&head) {
                let Block { start, rows, seen, .. } = block;
                let place = Place::new(start * length, length);
                let (query, key) = (head.query.below(start), head.key.transposed());
                product([rows, size, seen], (shares, place), (input, query), (input, key), scale, Landing::Replace);
                let shares = &mut shares[start * length..(start + rows) * length];
                softmax(shares, &block);
                let mixed: &[f32] = match self.dropout {
                    Some(mask) => {
                        drop_some(shares, &mut room, &block, mask);
                        &room
                    }
                    None => &*shares,
                };
                let values = (input, head.value);
                product([rows, seen, size], (&mut output, head.output.below(start)), (mixed, Place::dense(length)), values, 1.0, Landing::Replace);
            }
        }
        (output, kept)
    }

    fn backward(&self, [input]: [&[f32]; 1], kept: Vec<f32>, gradient: &[f32], _: [bool; 1]) -> [Slope; 1] {
        let (size, scale, square) = (self.size, self.scale(), self.longest.pow(2));
        let mut dinput = vec![0.0; input.len()];
        let (mut dshares, mut room) = (vec![0.0; square], vec![0.0; square]);
        for head in self.each() {
            let shares = &kept[head.square.clone()];
            let whole = Place::dense(head.length);
            for block in self.blocks(&head) {
                let Block { start, rows, seen, length, .. } = block;
                let shares = &shares[start * length..(start + rows) * length];
                let mixed: &[f32] = match self.dropout {
                    Some(mask) => {
                        drop_some(shares, &mut room, &block, mask);
                        &room
                    }
                    None => shares,
                };
                let (douter, query) = (head.output.below(start), head.query.below(start));
                product([seen, rows, size], (&mut dinput, head.value), (mixed, whole.transposed()), (gradient, douter), 1.0, Landing::Add);
                product([rows, size, seen], (&mut dshares, whole), (gradient, douter), (input, head.value.transposed()), 1.0, Landing::Replace);
                match self.dropout {
                    Some(mask) => dropped_softmax_gradient(shares, &mut dshares, &block, mask),
                    None => softmax_gradient(shares, &mut dshares, &block),
                }
                product([rows, seen, size], (&mut dinput, query), (&dshares, whole), (input, head.key), scale, Landing::Replace);
                product([seen, rows, size], (&mut dinput, head.key), (&dshares, whole.transposed()), (input, query), scale, Landing::Add);
            }
        }
        [Slope::New(dinput)]
    }
}

vectorised! {
    /// Each row becomes the softmax of what its query sees; the rest of what the block sees becomes 0.
    fn softmax(scores: &mut [f32], block: &Block) {
        for (row, scores) in scores.chunks_exact_mut(block.length).enumerate() {
            let range = block.sight.range(block.start + row, block.seen);
            let (before, rest) = scores[..block.seen].split_at_mut(range.start);
            let (seen, after) = rest.split_at_mut(range.len());
            let top = greatest(seen);
            for score in seen.iter_mut() {
                *score = exp(*score - top);
            }
            let inverse = 1.0 / sum(seen, seen, |number, _| number);
            for score in seen.iter_mut() {
                *score *= inverse;
            }
            before.fill(0.0);
            after.fill(0.0);
        }
    }
}

vectorised! {
    /// Probabilities with dropout, in `room`.
    fn drop_some(shares: &[f32], room: &mut [f32], block: &Block, mask: Mask) {
        let (first, apart) = block.mask;
        for (row, (shares, room)) in shares.chunks_exact(block.length).zip(room.chunks_exact_mut(block.length)).enumerate() {
            let first = counter(first + row * apart);
            for (column, (room, share)) in room[..block.seen].iter_mut().zip(shares).enumerate() {
                *room = share * mask.factor(first.wrapping_add(counter(column)));
            }
        }
    }
}

vectorised! {
    /// Gradients of probabilities become those of their scores.
    fn softmax_gradient(shares: &[f32], gradients: &mut [f32], block: &Block) {
        for (shares, gradients) in shares.chunks_exact(block.length).zip(gradients.chunks_exact_mut(block.length)) {
            let (shares, gradients) = (&shares[..block.seen], &mut gradients[..block.seen]);
            let along = sum(shares, gradients, |share, gradient| share * gradient);
            for (gradient, share) in gradients.iter_mut().zip(shares) {
                *gradient = share * (*gradient - along);
            }
        }
    }
}

vectorised! {
    /// The same, from gradients of what is left of probabilities after dropout.
    fn dropped_softmax_gradient(shares: &[f32], gradients: &mut [f32], block: &Block, mask: Mask) {
        let (first, apart) = block.mask;
        for (row, (shares, gradients)) in shares.chunks_exact(block.length).zip(gradients.chunks_exact_mut(block.length)).enumerate() {
            let (shares, gradients) = (&shares[..block.seen], &mut gradients[..block.seen]);
            let first = counter(first + row * apart);
            for (column, gradient) in gradients.iter_mut().enumerate() {
                *gradient *= mask.factor(first.wrapping_add(counter(column)));
            }
            let along = sum(shares, gradients, |share, gradient| share * gradient);
            for (gradient, share) in gradients.iter_mut().zip(shares) {
                *gradient = share * (*gradient - along);
            }
        }
    }
}
