//! Self-attention on queries, keys and values as linear maps leave them: texts of any lengths one after another, no copies of heads, no
//! padding, no mask.

use std::mem::MaybeUninit;
use std::ops::Range;
use std::sync::Arc;

use super::dropout::Mask;
use super::lanes::{exp, greatest, sum, vectorised};
use super::products::{Landing, Place, product, product_in_room};
use super::{Operation, Purpose, Slope};

/// Of `[tokens, (heads + 2 groups) size]`, each row a token's queries, keys and values, the values mixed: `[tokens, heads size]`.
#[derive(Debug, Clone)]
pub(in crate::trainer) struct Attention {
    /// Tokens of each text; the texts lie one after another.
    pub(in crate::trainer) lengths: Arc<[usize]>,
    /// Tokens of the longest text, or more: rows of a head in the mask.
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
    #[cfg(test)]
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
    /// Whether no other head of queries before it has the same keys and values.
    leads: bool,
    /// Its probabilities within those of all heads.
    square: Range<usize>,
    /// The row of its first query in the mask.
    first: usize,
}

/// Rows that are looked at together: the sums of one do not wait for those of another.
const ROWS: usize = 4;

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
    /// The row of its first query in the mask.
    first: usize,
}

impl Block {
    /// What its query of that number sees.
    #[inline(always)]
    fn range(&self, row: usize) -> Range<usize> {
        self.sight.range(self.start + row, self.seen)
    }
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
                let (group, leads) = (head / (self.heads / self.groups), head % (self.heads / self.groups) == 0);
                let part = |column: usize| Place::new(token * columns + column * size, columns);
                Head {
                    length,
                    query: part(head),
                    key: part(self.heads + group),
                    value: part(self.heads + self.groups + group),
                    output: Place::new(token * width + head * size, width),
                    leads,
                    square: share + head * length * length..share + (head + 1) * length * length,
                    first: (text * self.heads + head) * longest,
                }
            })
        })
    }

    fn blocks(&self, head: &Head) -> impl DoubleEndedIterator<Item = Block> + use<> {
        let (length, sight, first) = (head.length, self.sight, head.first);
        let step = if sight == Sight::Back { BLOCK } else { length.max(1) };
        (0..length).step_by(step).map(move |start| {
            let rows = step.min(length - start);
            let seen = if sight == Sight::Back { start + rows } else { length };
            Block { start, rows, seen, length, sight, first: first + start }
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
    /// The probabilities before dropout, those that are dropped with their signs turned.
    type Kept = Vec<f32>;

    #[expect(unsafe_code, reason = "room is not filled with zeros first, which would be one more pass over memory")]
    fn forward(&self, [input]: [&[f32]; 1], purpose: Purpose) -> (Vec<f32>, Vec<f32>) {
        let (size, scale, square) = (self.size, self.scale(), self.longest.pow(2));
        let count = input.len() / self.columns() * self.heads * size;
        let mut output = Vec::with_capacity(count);
        let output_room = &mut output.spare_capacity_mut()[..count];
        let kept = if purpose == Purpose::Gradient { self.shares() } else { 0 };
        let (mut kept, mut scores, mut room) = (self.share_room(kept), self.share_room(square), vec![0.0; square]);
        for head in self.each() {
            let length = head.length;
            let shares = kept.get_mut(head.square.clone()).unwrap_or(&mut scores);
            for block in self.blocks(&head) {
                let Block { start, rows, seen, .. } = block;
                let place = Place::new(start * length, length);
                let (query, key) = (head.query.below(start), head.key.transposed());
                let values = (input, head.value);
                // SAFETY: nothing is added to. Scores are written wherever a block sees all keys; elsewhere the room was filled.
                unsafe {
                    product_in_room([rows, size, seen], (shares, place), (input, query), (input, key), scale, Landing::Replace);
                    let shares = shares[start * length..(start + rows) * length].assume_init_mut();
                    let mixed = match self.dropout {
                        Some(mask) => {
                            dropped_softmax(shares, &mut room, &block, mask);
                            &room
                        }
                        None => {
                            softmax(shares, &block);
                            &*shares
                        }
                    };
                    let mixed = (mixed, Place::dense(length));
                    product_in_room([rows, seen, size], (output_room, head.output.below(start)), mixed, values, 1.0, Landing::Replace);
                }
            }
        }
        // SAFETY: every head's columns of every token have been written, and every head's probabilities, or the room was filled.
        unsafe {
            output.set_len(count);
            (output, initialised(kept))
        }
    }

    #[expect(unsafe_code, reason = "room is not filled with zeros first, which would be one more pass over memory")]
    fn backward(&self, [input]: [&[f32]; 1], kept: Vec<f32>, gradient: &[f32], _: [bool; 1]) -> [Slope; 1] {
        let (size, scale, square) = (self.size, self.scale(), self.longest.pow(2));
        let mut dinput = Vec::with_capacity(input.len());
        let to = &mut dinput.spare_capacity_mut()[..input.len()];
        let (mut dshares, mut room) = (vec![0.0; square], vec![0.0; square]);
        for head in self.each() {
            let shares = &kept[head.square.clone()];
            let whole = Place::dense(head.length);
            // The last block sees all keys: it comes first, and the others add to what it wrote.
            for block in self.blocks(&head).rev() {
                let Block { start, rows, seen, length, .. } = block;
                let shares = &shares[start * length..(start + rows) * length];
                let landing = if head.leads && start + rows == length { Landing::Replace } else { Landing::Add };
                let mixed: &[f32] = match self.dropout {
                    Some(mask) => {
                        drop_again(shares, &mut room, &block, mask);
                        &room
                    }
                    None => shares,
                };
                let (douter, query) = ((gradient, head.output.below(start)), (input, head.query.below(start)));
                product([rows, size, seen], (&mut dshares, whole), douter, (input, head.value.transposed()), 1.0, Landing::Replace);
                // SAFETY: what is added to has been written by the first block of the group's first head.
                unsafe {
                    product_in_room([seen, rows, size], (to, head.value), (mixed, whole.transposed()), douter, 1.0, landing);
                    match self.dropout {
                        Some(mask) => dropped_softmax_gradient(shares, &mut dshares, &block, mask),
                        None => softmax_gradient(shares, &mut dshares, &block),
                    }
                    let key = (input, head.key);
                    product_in_room([rows, seen, size], (to, head.query.below(start)), (&dshares, whole), key, scale, Landing::Replace);
                    product_in_room([seen, rows, size], (to, head.key), (&dshares, whole.transposed()), query, scale, landing);
                }
            }
        }
        // SAFETY: the columns of every head, and of every group by its first head, have been written for every token.
        unsafe { dinput.set_len(input.len()) };
        [Slope::New(dinput)]
    }
}

impl Attention {
    /// Room for `count` probabilities, filled where blocks do not see all keys.
    #[expect(unsafe_code, reason = "as room it may stay as it is")]
    fn share_room(&self, count: usize) -> Vec<MaybeUninit<f32>> {
        if self.sight == Sight::Back {
            return vec![MaybeUninit::new(0.0); count];
        }
        let mut room = Vec::with_capacity(count);
        // SAFETY: such numbers need not be initialised.
        unsafe { room.set_len(count) };
        room
    }
}

/// # Safety
/// All numbers have been written.
#[expect(unsafe_code, reason = "the compiler cannot see what has been written")]
unsafe fn initialised(numbers: Vec<MaybeUninit<f32>>) -> Vec<f32> {
    let mut numbers = std::mem::ManuallyDrop::new(numbers);
    // SAFETY: a number that may not be initialised lies in memory as one that is.
    unsafe { Vec::from_raw_parts(numbers.as_mut_ptr().cast(), numbers.len(), numbers.capacity()) }
}

/// What queries of a block see of their scores becomes exponentials, the rest of what the block sees 0; with what divides the former by their sums.
#[inline(always)]
fn exponentials(rows: &mut [f32], block: &Block, first: usize) -> [f32; ROWS] {
    let mut found = [0.0; ROWS];
    for (row, (scores, top)) in rows.chunks_exact_mut(block.length).zip(&mut found).enumerate() {
        let range = block.range(first + row);
        scores[..range.start].fill(0.0);
        scores[range.end..block.seen].fill(0.0);
        *top = greatest(&scores[range]);
    }
    for (row, (scores, found)) in rows.chunks_exact_mut(block.length).zip(&mut found).enumerate() {
        let (seen, top) = (&mut scores[block.range(first + row)], *found);
        for score in seen.iter_mut() {
            *score = exp(*score - top);
        }
        *found = 1.0 / sum(seen, seen, |number, _| number);
    }
    found
}

vectorised! {
    /// Each row becomes the softmax of what its query sees; the rest of what the block sees becomes 0.
    fn softmax(scores: &mut [f32], block: &Block) {
        for (group, rows) in scores.chunks_mut(ROWS * block.length).enumerate() {
            let inverses = exponentials(rows, block, group * ROWS);
            for (row, (scores, inverse)) in rows.chunks_exact_mut(block.length).zip(inverses).enumerate() {
                for score in &mut scores[block.range(group * ROWS + row)] {
                    *score *= inverse;
                }
            }
        }
    }
}

vectorised! {
    /// The same, with what dropout leaves of it in `room`; in place the probabilities that are dropped have their signs turned.
    fn dropped_softmax(scores: &mut [f32], room: &mut [f32], block: &Block, mask: Mask) {
        for (group, (rows, room)) in scores.chunks_mut(ROWS * block.length).zip(room.chunks_mut(ROWS * block.length)).enumerate() {
            let inverses = exponentials(rows, block, group * ROWS);
            let rows = rows.chunks_exact_mut(block.length).zip(room.chunks_exact_mut(block.length));
            for (row, ((scores, room), inverse)) in rows.zip(inverses).enumerate() {
                let row = group * ROWS + row;
                let (mask, range) = (mask.row(block.first + row), block.range(row));
                room[..range.start].fill(0.0);
                room[range.end..block.seen].fill(0.0);
                let first = range.start;
                for (column, (score, room)) in scores[range.clone()].iter_mut().zip(&mut room[range]).enumerate() {
                    let (share, factor) = (*score * inverse, mask.factor(first + column));
                    *room = share * factor;
                    *score = if factor > 0.0 { share } else { -share };
                }
            }
        }
    }
}

vectorised! {
    /// What dropout has left of probabilities, in `room`.
    fn drop_again(shares: &[f32], room: &mut [f32], block: &Block, mask: Mask) {
        for (shares, room) in shares.chunks_exact(block.length).zip(room.chunks_exact_mut(block.length)) {
            for (room, share) in room[..block.seen].iter_mut().zip(shares) {
                *room = share * left(*share, mask);
            }
        }
    }
}

/// What a kept probability was multiplied with: its sign tells.
#[inline(always)]
fn left(share: f32, mask: Mask) -> f32 {
    if share < 0.0 { 0.0 } else { mask.kept }
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
        for (shares, gradients) in shares.chunks_exact(block.length).zip(gradients.chunks_exact_mut(block.length)) {
            let (shares, gradients) = (&shares[..block.seen], &mut gradients[..block.seen]);
            let along = sum(shares, gradients, |share, gradient| share.abs() * (gradient * left(share, mask)));
            for (gradient, share) in gradients.iter_mut().zip(shares) {
                *gradient = share.abs() * (*gradient * left(*share, mask) - along);
            }
        }
    }
}
