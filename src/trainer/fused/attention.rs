//! Self-attention on packed queries, keys and values: texts of any lengths one after another,
//! without copies of heads, padding or masks.
#![expect(unsafe_code, reason = "zeroing the buffers first would be one more pass over memory")]

use std::mem::MaybeUninit;
use std::ops::Range;
use std::sync::Arc;

use super::dropout::DropoutMask;
use super::matmul::{Beta, Strides, gemm, gemm_uninit};
use super::simd::{exp, maximum, simd_level, sum, vectorised};
use super::{BackwardInput, GradMode, InputGradient, Operation};

/// Attention over `[tokens, (heads + 2 kv_heads) head_dim]`, each row a token's queries, keys and
/// values: `[tokens, heads head_dim]`.
#[derive(Debug, Clone)]
pub(crate) struct Attention {
    /// Tokens of each text; the texts lie one after another.
    pub(crate) lengths: Arc<[usize]>,
    /// Tokens of the longest text, or more: rows per head of the dropout mask.
    pub(crate) longest: usize,
    pub(crate) heads: usize,
    /// Heads of keys and values; each serves `heads / kv_heads` heads of queries (Ainslie et al.
    /// 2023).
    pub(crate) kv_heads: usize,
    pub(crate) head_dim: usize,
    pub(crate) attention_mask: AttentionMask,
    /// Dropout of attention probabilities `[texts, heads, longest, longest]`.
    pub(crate) dropout: Option<DropoutMask>,
}

/// Which tokens of its text a token attends to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AttentionMask {
    Full,
    /// Itself and those before it.
    Causal,
    /// Those at most this far away on either side.
    SlidingWindow(usize),
}

impl AttentionMask {
    /// Whether the token at position `query` attends to the one at `key`.
    #[cfg(test)]
    pub(crate) fn allows(self, query: usize, key: usize) -> bool {
        self.visible(query, usize::MAX).contains(&key)
    }

    /// The positions that the one at `query` attends to in a text of `length` tokens.
    fn visible(self, query: usize, length: usize) -> Range<usize> {
        match self {
            Self::Full => 0..length,
            Self::Causal => 0..query + 1,
            Self::SlidingWindow(window) => {
                query.saturating_sub(window)
                    ..length.min(query.saturating_add(window).saturating_add(1))
            }
        }
    }
}

/// Queries of a block under a causal mask: keys after the block's last query are not computed.
const CAUSAL_BLOCK: usize = 64;

/// The position of one head of one text in the buffers.
struct HeadView {
    length: usize,
    query: Strides,
    key: Strides,
    value: Strides,
    output: Strides,
    /// Whether it is the first head of queries with its keys and values.
    first_of_group: bool,
    /// Its probabilities within those of all heads.
    probabilities: Range<usize>,
    /// The row of its first query in the dropout mask.
    first_mask_row: usize,
}

/// Rows that are processed together, so that the reductions of one do not wait for those of
/// another.
const INTERLEAVED_ROWS: usize = 4;

/// Some queries of a head, and the keys that any of them attends to.
struct QueryBlock {
    /// The first query.
    start: usize,
    rows: usize,
    /// Counted from the text's first.
    keys: usize,
    /// Tokens of the text.
    length: usize,
    attention_mask: AttentionMask,
    /// The row of its first query in the dropout mask.
    first_mask_row: usize,
}

impl QueryBlock {
    /// The keys that its query number `row` attends to.
    #[inline(always)]
    fn visible(&self, row: usize) -> Range<usize> {
        self.attention_mask.visible(self.start + row, self.keys)
    }
}

impl Attention {
    fn columns(&self) -> usize {
        (self.heads + 2 * self.kv_heads) * self.head_dim
    }

    fn head_views(&self) -> impl Iterator<Item = HeadView> {
        let (head_dim, columns, width, longest) =
            (self.head_dim, self.columns(), self.heads * self.head_dim, self.longest);
        let starts = self.lengths.iter().scan((0, 0), |(token, probability), length| {
            let start = (*token, *probability);
            (*token, *probability) = (*token + length, *probability + self.heads * length * length);
            Some((start, *length))
        });
        starts.enumerate().flat_map(move |(text, ((token, probability), length))| {
            (0..self.heads).map(move |head| {
                let (group, first_of_group) =
                    (head / (self.heads / self.kv_heads), head % (self.heads / self.kv_heads) == 0);
                let part =
                    |column: usize| Strides::new(token * columns + column * head_dim, columns);
                HeadView {
                    length,
                    query: part(head),
                    key: part(self.heads + group),
                    value: part(self.heads + self.kv_heads + group),
                    output: Strides::new(token * width + head * head_dim, width),
                    first_of_group,
                    probabilities: probability + head * length * length
                        ..probability + (head + 1) * length * length,
                    first_mask_row: (text * self.heads + head) * longest,
                }
            })
        })
    }

    fn blocks(&self, head: &HeadView) -> impl DoubleEndedIterator<Item = QueryBlock> + use<> {
        let (length, attention_mask, first_mask_row) =
            (head.length, self.attention_mask, head.first_mask_row);
        let step =
            if attention_mask == AttentionMask::Causal { CAUSAL_BLOCK } else { length.max(1) };
        (0..length).step_by(step).map(move |start| {
            let rows = step.min(length - start);
            let keys = if attention_mask == AttentionMask::Causal { start + rows } else { length };
            QueryBlock {
                start,
                rows,
                keys,
                length,
                attention_mask,
                first_mask_row: first_mask_row + start,
            }
        })
    }

    fn probability_count(&self) -> usize {
        self.lengths.iter().map(|length| self.heads * length * length).sum()
    }

    /// The factor of scores: the inverse square root of the head dimension.
    fn scale(&self) -> f32 {
        #[expect(clippy::cast_precision_loss, reason = "a width")]
        let head_dim = self.head_dim as f32;
        1.0 / head_dim.sqrt()
    }
}

impl Operation<1> for Attention {
    /// The probabilities before dropout; those dropped have negative signs.
    type Saved = Vec<f32>;

    fn forward(&self, [input]: [&[f32]; 1], grad_mode: GradMode) -> (Vec<f32>, Vec<f32>) {
        let (head_dim, scale, square) = (self.head_dim, self.scale(), self.longest.pow(2));
        let count = input.len() / self.columns() * self.heads * head_dim;
        let mut output = Vec::with_capacity(count);
        let output_values = &mut output.spare_capacity_mut()[..count];
        let saved = if grad_mode == GradMode::Enabled { self.probability_count() } else { 0 };
        let (mut saved, mut scores, mut scratch) =
            (self.probability_buffer(saved), self.probability_buffer(square), vec![0.0; square]);
        for head in self.head_views() {
            let length = head.length;
            let probabilities = saved.get_mut(head.probabilities.clone()).unwrap_or(&mut scores);
            for block in self.blocks(&head) {
                let QueryBlock { start, rows, keys, .. } = block;
                let strides = Strides::new(start * length, length);
                let (query, key) =
                    ((input, head.query.skip_rows(start)), (input, head.key.transposed()));
                let (sizes, value) = ([rows, head_dim, keys], (input, head.value));
                // SAFETY: beta is 0. Scores are written wherever a block computes all keys;
                // elsewhere the buffer is zeroed.
                unsafe {
                    let scores = (&mut *probabilities, strides);
                    gemm_uninit(sizes, scores, query, key, scale, Beta::Zero);
                    let probabilities =
                        probabilities[start * length..(start + rows) * length].assume_init_mut();
                    let dropped = match self.dropout {
                        Some(mask) => {
                            dropped_softmax(probabilities, &mut scratch, &block, mask);
                            &scratch
                        }
                        None => {
                            softmax(probabilities, &block);
                            &*probabilities
                        }
                    };
                    let (sizes, dropped) =
                        ([rows, keys, head_dim], (dropped, Strides::dense(length)));
                    let output = (&mut *output_values, head.output.skip_rows(start));
                    gemm_uninit(sizes, output, dropped, value, 1.0, Beta::Zero);
                }
            }
        }
        // SAFETY: every head's columns of every token have been written, and every head's
        // probabilities, or the buffer was zeroed.
        unsafe {
            output.set_len(count);
            (output, assume_init_vec(saved))
        }
    }

    fn backward(&self, pass: BackwardInput<1, Vec<f32>>) -> [InputGradient; 1] {
        let BackwardInput { inputs: [input], saved, gradient, .. } = pass;
        let (head_dim, scale, square) = (self.head_dim, self.scale(), self.longest.pow(2));
        let mut dinput = Vec::with_capacity(input.len());
        let dx = &mut dinput.spare_capacity_mut()[..input.len()];
        let (mut dscores, mut scratch) = (vec![0.0; square], vec![0.0; square]);
        for head in self.head_views() {
            let probabilities = &saved[head.probabilities.clone()];
            let strides = Strides::dense(head.length);
            // The last block computes all keys: it comes first, and the others accumulate.
            for block in self.blocks(&head).rev() {
                let QueryBlock { start, rows, keys, length, .. } = block;
                let probabilities = &probabilities[start * length..(start + rows) * length];
                let beta = if head.first_of_group && start + rows == length {
                    Beta::Zero
                } else {
                    Beta::One
                };
                let dropped: &[f32] = match self.dropout {
                    Some(mask) => {
                        reapply_dropout(probabilities, &mut scratch, &block, mask);
                        &scratch
                    }
                    None => probabilities,
                };
                let [by_query, by_key] = [[rows, keys, head_dim], [keys, rows, head_dim]];
                let (doutput, query_strides) =
                    ((gradient, head.output.skip_rows(start)), head.query.skip_rows(start));
                let value = (input, head.value.transposed());
                let sizes = [rows, head_dim, keys];
                gemm(sizes, (&mut dscores, strides), doutput, value, 1.0, Beta::Zero);
                // SAFETY: where beta is 1, the first block of the group's first head has written
                // the output.
                unsafe {
                    let dropped = (dropped, strides.transposed());
                    gemm_uninit(by_key, (&mut *dx, head.value), dropped, doutput, 1.0, beta);
                    match self.dropout {
                        Some(mask) => {
                            dropped_softmax_gradient(probabilities, &mut dscores, &block, mask)
                        }
                        None => softmax_gradient(probabilities, &mut dscores, &block),
                    }
                    let (key, dquery) = ((input, head.key), (&mut *dx, query_strides));
                    gemm_uninit(by_query, dquery, (&dscores, strides), key, scale, Beta::Zero);
                    let query = (input, query_strides);
                    let dscores = (&dscores[..], strides.transposed());
                    gemm_uninit(by_key, (&mut *dx, head.key), dscores, query, scale, beta);
                }
            }
        }
        // SAFETY: the columns of every head, and of every group by its first head, have been
        // written for every token.
        unsafe { dinput.set_len(input.len()) };
        [InputGradient::Values(dinput)]
    }
}

impl Attention {
    /// A buffer for `count` probabilities, zeroed where blocks do not compute all keys.
    fn probability_buffer(&self, count: usize) -> Vec<MaybeUninit<f32>> {
        if self.attention_mask == AttentionMask::Causal {
            return vec![MaybeUninit::new(0.0); count];
        }
        let mut buffer = Vec::with_capacity(count);
        // SAFETY: `MaybeUninit` values need no initialisation.
        unsafe { buffer.set_len(count) };
        buffer
    }
}

/// # Safety
/// All values have been written.
unsafe fn assume_init_vec(values: Vec<MaybeUninit<f32>>) -> Vec<f32> {
    let mut values = std::mem::ManuallyDrop::new(values);
    // SAFETY: `MaybeUninit<f32>` has the layout of `f32`.
    unsafe { Vec::from_raw_parts(values.as_mut_ptr().cast(), values.len(), values.capacity()) }
}

/// Replaces scores of visible keys by exponentials and the others by 0; returns the inverses of the
/// rows' sums.
#[inline(always)]
fn exponentials(rows: &mut [f32], block: &QueryBlock, first_row: usize) -> [f32; INTERLEAVED_ROWS] {
    let mut inverses = [0.0; INTERLEAVED_ROWS];
    for (row, (scores, max)) in rows.chunks_exact_mut(block.length).zip(&mut inverses).enumerate() {
        let visible = block.visible(first_row + row);
        scores[..visible.start].fill(0.0);
        scores[visible.end..block.keys].fill(0.0);
        *max = maximum(&scores[visible]);
    }
    for (row, (scores, inverse)) in
        rows.chunks_exact_mut(block.length).zip(&mut inverses).enumerate()
    {
        let (visible, max) = (&mut scores[block.visible(first_row + row)], *inverse);
        for score in visible.iter_mut() {
            *score = exp(*score - max);
        }
        *inverse = 1.0 / sum(visible, visible, |exponential, _| exponential);
    }
    inverses
}

vectorised! {
    /// Replaces the scores of each row by their softmax over the visible keys; the others become 0.
    fn softmax(scores: &mut [f32], block: &QueryBlock) {
        for (group, rows) in scores.chunks_mut(INTERLEAVED_ROWS * block.length).enumerate() {
            let inverses = exponentials(rows, block, group * INTERLEAVED_ROWS);
            for (row, (scores, inverse)) in
                rows.chunks_exact_mut(block.length).zip(inverses).enumerate()
            {
                for score in &mut scores[block.visible(group * INTERLEAVED_ROWS + row)] {
                    *score *= inverse;
                }
            }
        }
    }
}

vectorised! {
    /// The same, with the result of dropout in `scratch`; in place, dropped probabilities become
    /// negative.
    fn dropped_softmax(
        scores: &mut [f32],
        scratch: &mut [f32],
        block: &QueryBlock,
        mask: DropoutMask,
    ) {
        for (group, (rows, scratch)) in scores
            .chunks_mut(INTERLEAVED_ROWS * block.length)
            .zip(scratch.chunks_mut(INTERLEAVED_ROWS * block.length))
            .enumerate()
        {
            let inverses = exponentials(rows, block, group * INTERLEAVED_ROWS);
            let rows =
                rows.chunks_exact_mut(block.length).zip(scratch.chunks_exact_mut(block.length));
            for (row, ((scores, scratch), inverse)) in rows.zip(inverses).enumerate() {
                let row = group * INTERLEAVED_ROWS + row;
                let (mask, visible) = (mask.row(block.first_mask_row + row), block.visible(row));
                scratch[..visible.start].fill(0.0);
                scratch[visible.end..block.keys].fill(0.0);
                let first_column = visible.start;
                for (column, (score, scratch)) in
                    scores[visible.clone()].iter_mut().zip(&mut scratch[visible]).enumerate()
                {
                    let (probability, factor) =
                        (*score * inverse, mask.factor(first_column + column));
                    *scratch = probability * factor;
                    *score = if factor > 0.0 { probability } else { -probability };
                }
            }
        }
    }
}

vectorised! {
    /// The probabilities after dropout, in `scratch`.
    fn reapply_dropout(
        probabilities: &[f32],
        scratch: &mut [f32],
        block: &QueryBlock,
        mask: DropoutMask,
    ) {
        for (probabilities, scratch) in
            probabilities.chunks_exact(block.length).zip(scratch.chunks_exact_mut(block.length))
        {
            for (scratch, probability) in scratch[..block.keys].iter_mut().zip(probabilities) {
                *scratch = probability * dropout_factor(*probability, mask);
            }
        }
    }
}

/// The dropout factor of a probability, by its sign.
#[inline(always)]
fn dropout_factor(probability: f32, mask: DropoutMask) -> f32 {
    if probability < 0.0 { 0.0 } else { mask.scale }
}

vectorised! {
    /// Gradients of probabilities become gradients of scores.
    fn softmax_gradient(probabilities: &[f32], gradients: &mut [f32], block: &QueryBlock) {
        for (probabilities, gradients) in
            probabilities.chunks_exact(block.length).zip(gradients.chunks_exact_mut(block.length))
        {
            let (probabilities, gradients) =
                (&probabilities[..block.keys], &mut gradients[..block.keys]);
            let dot = sum(probabilities, gradients, |probability, gradient| probability * gradient);
            for (gradient, probability) in gradients.iter_mut().zip(probabilities) {
                *gradient = probability * (*gradient - dot);
            }
        }
    }
}

vectorised! {
    /// The same, from gradients of the probabilities after dropout.
    fn dropped_softmax_gradient(
        probabilities: &[f32],
        gradients: &mut [f32],
        block: &QueryBlock,
        mask: DropoutMask,
    ) {
        for (probabilities, gradients) in
            probabilities.chunks_exact(block.length).zip(gradients.chunks_exact_mut(block.length))
        {
            let (probabilities, gradients) =
                (&probabilities[..block.keys], &mut gradients[..block.keys]);
            let dot = sum(probabilities, gradients, |probability, gradient| {
                probability.abs() * (gradient * dropout_factor(probability, mask))
            });
            for (gradient, probability) in gradients.iter_mut().zip(probabilities) {
                *gradient =
                    probability.abs() * (*gradient * dropout_factor(*probability, mask) - dot);
            }
        }
    }
}
