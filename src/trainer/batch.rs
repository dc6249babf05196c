//! Batches of token ids without padding, and the layout that pads them for attention by tensor
//! operations.

use std::cell::OnceCell;
use std::sync::Arc;

use burn::tensor::{Device, Int, Tensor, TensorData};

use super::device_kernels::DeviceLayout;
use super::parameters::tensor;
use super::prepared::NO_LABEL;
use super::rotary::{RotaryAngles, rotary_angles};

/// Padded texts have a multiple of this length, so that a GPU meets few different shapes.
const LENGTH_MULTIPLE: usize = 4;

/// Added to masked attention scores: its exponential is exactly 0.
pub(super) const MASKED_SCORE: f32 = -1e9;

/// Texts as token ids, one after another: only attention by tensor operations needs padding, and
/// short texts would be mostly padding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Batch {
    ids: Vec<u32>,
    /// The token type of each, the segment of a pair of texts; `None`: all are of the first.
    token_types: Option<Vec<u32>>,
    /// Tokens of each text, at least one.
    lengths: Vec<usize>,
    /// Tokens per text when padded.
    length: usize,
}

/// How tokens one after another (`[tokens, width]`) and padded texts (`[texts * length, width]`)
/// correspond.
#[derive(Debug)]
pub(super) struct SequenceLayout {
    /// Tokens of each text.
    pub(super) lengths: Arc<[usize]>,
    /// Tokens per text when padded.
    pub(super) length: usize,
    /// Computed on first use: the fused attention does not need it.
    padding: OnceCell<Option<Padding>>,
    /// Computed on first use, for kernels on a GPU.
    on_device: OnceCell<Option<DeviceLayout>>,
    /// Computed on first use, and shared by all layers.
    angles: OnceCell<[RotaryAngles; 2]>,
}

/// Index tensors between both layouts, and the mask of the padding.
#[derive(Debug, Clone)]
pub(super) struct Padding {
    /// The token at each padded position, `[texts * length]`; the first token at padding.
    pub(super) to_padded: Tensor<1, Int>,
    /// The padded position of each token, `[tokens]`.
    pub(super) from_padded: Tensor<1, Int>,
    /// Added to attention scores, `[texts, 1, 1, length]`: 0 at tokens, [`MASKED_SCORE`] at
    /// padding.
    pub(super) mask: Tensor<4>,
}

impl Batch {
    /// From texts that are truncated to `max_length` tokens, their last ones kept.
    pub(super) fn truncated(texts: impl Iterator<Item = Vec<u32>>, max_length: usize) -> Self {
        Self::new(texts.map(|text| truncate(text, max_length)).collect())
    }

    /// From texts of at least one token each.
    pub(super) fn new(texts: Vec<Vec<u32>>) -> Self {
        let lengths: Vec<usize> = texts.iter().map(Vec::len).collect();
        let longest = lengths.iter().copied().max().unwrap_or(1);
        let uniform = lengths.iter().all(|length| *length == longest);
        let length = if uniform { longest } else { longest.next_multiple_of(LENGTH_MULTIPLE) };
        Self { ids: texts.concat(), token_types: None, lengths, length }
    }

    /// The same with the token types of texts, truncated as they are.
    pub(super) fn with_token_types(
        self,
        of_texts: impl Iterator<Item = Vec<u32>>,
        max_length: usize,
    ) -> Self {
        let types = of_texts.flat_map(|types| truncate(types, max_length)).collect();
        Self { token_types: Some(types), ..self }
    }

    pub(super) fn ids(&self) -> Arc<[u32]> {
        self.ids.clone().into()
    }

    /// The token type of each token, 0 for a model that has no other.
    pub(super) fn token_types(&self, known: usize) -> Arc<[u32]> {
        match &self.token_types {
            Some(types) if known > 1 => types.clone().into(),
            _ => vec![0; self.ids.len()].into(),
        }
    }

    /// Tokens of each text.
    pub(super) fn lengths(&self) -> Arc<[usize]> {
        self.lengths.clone().into()
    }

    /// Position ids, starting with `first` in each text.
    pub(super) fn position_ids(&self, first: usize) -> Arc<[u32]> {
        self.lengths
            .iter()
            .flat_map(|length| (first..first + *length).map(|index| to_i32(index).cast_unsigned()))
            .collect()
    }

    /// The index of each text's first token, `[texts]`.
    pub(super) fn first_token_indices(&self, device: &Device) -> Tensor<1, Int> {
        int_tensor(self.starts().map(to_i32).collect(), [self.lengths.len()], device)
    }

    /// Indices of some tokens, as a tensor.
    pub(super) fn token_indices(indices: &[usize], device: &Device) -> Tensor<1, Int> {
        int_tensor(indices.iter().map(|index| to_i32(*index)).collect(), [indices.len()], device)
    }

    /// The matrix whose product with token vectors gives each text's mean, `[texts, tokens]`.
    pub(super) fn mean_pooling_weights(&self, device: &Device) -> Tensor<2> {
        let (texts, tokens) = (self.lengths.len(), self.ids.len());
        let mut weights = vec![0.0; texts * tokens];
        for ((text, start), length) in self.starts().enumerate().zip(&self.lengths) {
            #[expect(clippy::cast_precision_loss, reason = "a row's length")]
            weights[text * tokens + start..][..*length].fill(1.0 / *length as f32);
        }
        tensor(weights, [texts, tokens], device)
    }

    pub(super) fn layout(&self) -> SequenceLayout {
        SequenceLayout {
            lengths: self.lengths.clone().into(),
            length: self.length,
            padding: OnceCell::new(),
            on_device: OnceCell::new(),
            angles: OnceCell::new(),
        }
    }

    /// The index of each text's first token.
    fn starts(&self) -> impl Iterator<Item = usize> {
        self.lengths.iter().scan(0, |end, length| {
            *end += length;
            Some(*end - length)
        })
    }
}

impl SequenceLayout {
    /// Of `texts` texts of one length.
    pub(super) fn uniform(texts: usize, length: usize) -> Self {
        Self {
            lengths: vec![length; texts].into(),
            length,
            padding: OnceCell::new(),
            on_device: OnceCell::new(),
            angles: OnceCell::new(),
        }
    }

    /// The rotary angles of all tokens for two sets of inverse frequencies, always the same two.
    pub(super) fn angles(&self, inverse_frequencies: &[Vec<f64>; 2]) -> &[RotaryAngles; 2] {
        self.angles.get_or_init(|| {
            inverse_frequencies.each_ref().map(|inverse_frequencies| {
                rotary_angles(
                    inverse_frequencies,
                    self.lengths.iter().flat_map(|length| 0..*length),
                )
            })
        })
    }

    /// For kernels; `None` where `device` is no GPU.
    pub(super) fn on_device(&self, device: &Device) -> Option<&DeviceLayout> {
        self.on_device
            .get_or_init(|| DeviceLayout::new(&self.lengths, self.length, device))
            .as_ref()
    }

    /// `None` where all texts have one length.
    pub(super) fn padding(&self, device: &Device) -> Option<&Padding> {
        self.padding.get_or_init(|| self.make_padding(device)).as_ref()
    }

    fn make_padding(&self, device: &Device) -> Option<Padding> {
        let (texts, length, tokens) =
            (self.lengths.len(), self.length, self.lengths.iter().sum::<usize>());
        let is_token =
            || self.lengths.iter().flat_map(|tokens| (0..length).map(move |index| index < *tokens));
        (tokens < texts * length).then(|| {
            let mut next = 0..;
            let to_padded =
                is_token().map(|token| if token { next.next().unwrap_or(0) } else { 0 }).collect();
            let from_padded =
                (0..).zip(is_token()).filter(|(_, token)| *token).map(|(index, _)| index).collect();
            let mask = is_token().map(|token| if token { 0.0 } else { MASKED_SCORE }).collect();
            Padding {
                to_padded: int_tensor(to_padded, [texts * length], device),
                from_padded: int_tensor(from_padded, [tokens], device),
                mask: tensor(mask, [texts, 1, 1, length], device),
            }
        })
    }
}

/// The index in the batch of each labelled token, with its label: of `of_texts`, truncated as the
/// texts are.
pub(super) fn labelled_tokens(
    of_texts: impl Iterator<Item = Vec<u32>>,
    max_length: usize,
) -> (Vec<usize>, Vec<u32>) {
    let labels = of_texts.flat_map(|labels| truncate(labels, max_length)).enumerate();
    labels.filter(|(_, label)| *label != NO_LABEL).unzip()
}

/// `ids` truncated to `max_length`, the last one (`[SEP]`) kept.
pub(super) fn truncate<T: Copy>(mut ids: Vec<T>, max_length: usize) -> Vec<T> {
    if ids.len() > max_length && max_length > 0 {
        let last = ids[ids.len() - 1];
        ids.truncate(max_length);
        ids[max_length - 1] = last;
    }
    ids
}

fn int_tensor<const D: usize>(
    numbers: Vec<i32>,
    shape: [usize; D],
    device: &Device,
) -> Tensor<D, Int> {
    Tensor::from_data(TensorData::new(numbers, shape), device)
}

fn to_i32(number: usize) -> i32 {
    i32::try_from(number).expect("a batch has fewer than 2^31 tokens")
}
