//! Some texts' token ids one after another, and where each lies when attention sets them side by side.

use std::cell::OnceCell;
use std::sync::Arc;

use burn::tensor::{Device, Int, Tensor, TensorData};

use super::layers::{Angles, angles};
use super::parameters::tensor;
use super::prepared::TokenRows;

/// Texts side by side are padded to a multiple of this, so that a GPU meets few different shapes.
const LENGTH_STEP: usize = 4;

/// Added to attention scores at padding: its exponential is exactly 0.
const MASKED: f32 = -1e9;

/// Texts as token ids without padding: only attention needs texts side by side, and short texts would be mostly padding elsewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Batch {
    ids: Vec<u32>,
    /// Tokens of each text, at least one.
    lengths: Vec<usize>,
    /// Tokens per text side by side.
    length: usize,
}

/// How tokens one after another (`[tokens, width]`) become texts side by side (`[texts * length, width]`) and back.
#[derive(Debug)]
pub(super) struct Layout {
    /// Tokens of each text.
    pub(super) lengths: Arc<[usize]>,
    /// Tokens per text side by side, padding included.
    pub(super) length: usize,
    /// Made when a device first asks for it: where texts lie one after another, nobody does.
    padding: OnceCell<Option<Padding>>,
    /// Made when a layer first asks for it: layers of one kind turn heads alike.
    angles: OnceCell<[Angles; 2]>,
}

/// Where tokens go and what is masked.
#[derive(Debug, Clone)]
pub(super) struct Padding {
    /// The token at each place side by side, `[texts * length]`; the first token at padding.
    pub(super) spread: Tensor<1, Int>,
    /// The place of each token, `[tokens]`.
    pub(super) gather: Tensor<1, Int>,
    /// Added to attention scores, `[texts, 1, 1, length]`: 0 at tokens, very negative at padding.
    pub(super) mask: Tensor<4>,
}

impl Batch {
    /// The rows numbered `chosen`, each cut to `max_length` tokens, its last one kept.
    pub(super) fn of(rows: &TokenRows, chosen: &[usize], max_length: usize) -> Self {
        Self::new(chosen.iter().map(|row| cut(rows.ids(*row).collect(), max_length)).collect())
    }

    /// `texts` of at least one token each.
    pub(super) fn new(texts: Vec<Vec<u32>>) -> Self {
        let lengths: Vec<usize> = texts.iter().map(Vec::len).collect();
        let longest = lengths.iter().copied().max().unwrap_or(1);
        let even = lengths.iter().all(|length| *length == longest);
        let length = if even { longest } else { longest.next_multiple_of(LENGTH_STEP) };
        Self { ids: texts.concat(), lengths, length }
    }

    /// The token ids.
    pub(super) fn ids(&self) -> Arc<[u32]> {
        self.ids.clone().into()
    }

    /// Tokens of each text.
    pub(super) fn lengths(&self) -> Arc<[usize]> {
        self.lengths.clone().into()
    }

    /// Each token's place in its text, counted from `first`.
    pub(super) fn places(&self, first: usize) -> Arc<[u32]> {
        self.lengths.iter().flat_map(|length| (first..first + *length).map(|place| small(place).cast_unsigned())).collect()
    }

    /// Each text's first token, `[texts]`.
    pub(super) fn firsts(&self, device: &Device) -> Tensor<1, Int> {
        integers(self.starts().map(small).collect(), [self.lengths.len()], device)
    }

    /// What tokens are weighted with for each text's mean, `[texts, tokens]`.
    pub(super) fn shares(&self, device: &Device) -> Tensor<2> {
        let (texts, tokens) = (self.lengths.len(), self.ids.len());
        let mut shares = vec![0.0; texts * tokens];
        for ((text, start), length) in self.starts().enumerate().zip(&self.lengths) {
            #[expect(clippy::cast_precision_loss, reason = "a row's length")]
            shares[text * tokens + start..][..*length].fill(1.0 / *length as f32);
        }
        tensor(shares, [texts, tokens], device)
    }

    /// How the texts lie side by side.
    pub(super) fn layout(&self) -> Layout {
        Layout { lengths: self.lengths.clone().into(), length: self.length, padding: OnceCell::new(), angles: OnceCell::new() }
    }

    /// The number of the first token of each text.
    fn starts(&self) -> impl Iterator<Item = usize> {
        self.lengths.iter().scan(0, |end, length| {
            *end += length;
            Some(*end - length)
        })
    }
}

impl Layout {
    /// Of texts of one length.
    pub(super) fn even(texts: usize, length: usize) -> Self {
        Self { lengths: vec![length; texts].into(), length, padding: OnceCell::new(), angles: OnceCell::new() }
    }

    /// How far heads are turned at each token by two rules of how fast their pairs turn; always the same two.
    pub(super) fn angles(&self, speeds: &[Vec<f64>; 2]) -> &[Angles; 2] {
        self.angles.get_or_init(|| speeds.each_ref().map(|speeds| angles(speeds, self.lengths.iter().flat_map(|length| 0..*length))))
    }

    /// What differs from one after another; `None` when all texts are equally long.
    pub(super) fn padding(&self, device: &Device) -> Option<&Padding> {
        self.padding.get_or_init(|| self.make_padding(device)).as_ref()
    }

    fn make_padding(&self, device: &Device) -> Option<Padding> {
        let (texts, length, tokens) = (self.lengths.len(), self.length, self.lengths.iter().sum::<usize>());
        let places = || self.lengths.iter().flat_map(|tokens| (0..length).map(move |place| place < *tokens));
        (tokens < texts * length).then(|| {
            let mut next = 0..;
            let spread = places().map(|token| if token { next.next().unwrap_or(0) } else { 0 }).collect();
            let gather = (0..).zip(places()).filter(|(_, token)| *token).map(|(place, _)| place).collect();
            let mask = places().map(|token| if token { 0.0 } else { MASKED }).collect();
            Padding {
                spread: integers(spread, [texts * length], device),
                gather: integers(gather, [tokens], device),
                mask: tensor(mask, [texts, 1, 1, length], device),
            }
        })
    }
}

/// `ids` cut to `max_length`, the last one (`[SEP]`) kept.
pub(super) fn cut(mut ids: Vec<u32>, max_length: usize) -> Vec<u32> {
    if ids.len() > max_length && max_length > 0 {
        let last = ids[ids.len() - 1];
        ids.truncate(max_length);
        ids[max_length - 1] = last;
    }
    ids
}

fn integers<const D: usize>(numbers: Vec<i32>, shape: [usize; D], device: &Device) -> Tensor<D, Int> {
    Tensor::from_data(TensorData::new(numbers, shape), device)
}

fn small(number: usize) -> i32 {
    i32::try_from(number).expect("a batch has fewer than 2^31 tokens")
}
