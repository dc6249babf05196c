//! Some rows of token ids padded to one length, and what the model needs to know of the padding.

use burn::tensor::{Device, Int, Tensor, TensorData};

use super::layers::Layout;
use super::parameters::tensor;
use super::prepared::TokenRows;
use super::vocabulary::PADDING;

/// Lengths are rounded up to a multiple of this, so that a GPU meets few different shapes.
const LENGTH_STEP: usize = 4;

/// Added to attention scores at padding: its exponential is exactly 0.
const MASKED: f32 = -1e9;

/// Rows of token ids, `[batch, length]`, padded at their ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Batch {
    ids: Vec<u32>,
    lengths: Vec<usize>,
    length: usize,
}

impl Batch {
    /// The rows numbered `chosen`, each cut to `max_length` tokens, its last one kept.
    pub(super) fn of(rows: &TokenRows, chosen: &[usize], max_length: usize) -> Self {
        let texts = chosen.iter().map(|row| cut(rows.ids(*row).collect(), max_length)).collect();
        Self::new(texts, max_length)
    }

    /// `texts` of at most `max_length` ids each.
    pub(super) fn new(texts: Vec<Vec<u32>>, max_length: usize) -> Self {
        let longest = texts.iter().map(Vec::len).max().unwrap_or(1).max(1);
        let length = longest.next_multiple_of(LENGTH_STEP).min(max_length.max(longest));
        let lengths = texts.iter().map(Vec::len).collect();
        let ids = texts.into_iter().flat_map(|text| padded(text, length)).collect();
        Self { ids, lengths, length }
    }

    pub(super) fn layout(&self) -> Layout {
        Layout { batch: self.lengths.len(), length: self.length }
    }

    /// The ids, `[1, batch * length]`.
    pub(super) fn ids(&self, device: &Device) -> Tensor<2, Int> {
        let ids: Vec<i32> = self.ids.iter().map(|id| id.cast_signed()).collect();
        Tensor::from_data(TensorData::new(ids, [1, self.ids.len()]), device)
    }

    /// What is added to attention scores, `[batch, 1, 1, length]`; `None` where there is no padding.
    pub(super) fn padding(&self, device: &Device) -> Option<Tensor<4>> {
        if self.lengths.iter().all(|length| *length == self.length) {
            return None;
        }
        let mask = self.per_token(|_| 0.0, MASKED);
        Some(tensor(mask, [self.lengths.len(), 1, 1, self.length], device))
    }

    /// Each token's share of its text, 0 at padding: the weights of a mean, `batch * length` of them.
    pub(super) fn shares(&self) -> Vec<f32> {
        #[expect(clippy::cast_precision_loss, reason = "a row's length")]
        let share = |length: usize| 1.0 / length as f32;
        self.per_token(share, 0.0)
    }

    fn per_token(&self, token: impl Fn(usize) -> f32, padding: f32) -> Vec<f32> {
        let row = |length: &usize| (0..self.length).map(|position| if position < *length { token(*length) } else { padding }).collect::<Vec<_>>();
        self.lengths.iter().flat_map(row).collect()
    }
}

/// `ids` cut to `max_length`, the last one ([SEP]) kept.
pub(super) fn cut(mut ids: Vec<u32>, max_length: usize) -> Vec<u32> {
    if ids.len() > max_length && max_length > 0 {
        let last = ids[ids.len() - 1];
        ids.truncate(max_length);
        ids[max_length - 1] = last;
    }
    ids
}

fn padded(mut text: Vec<u32>, length: usize) -> Vec<u32> {
    text.resize(length, PADDING);
    text
}
