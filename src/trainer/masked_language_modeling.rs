//! The task masked-language-modeling: telling hidden tokens of a text (Devlin et al. 2019;
//! transformers' `AutoModelForMaskedLM` and `DataCollatorForLanguageModeling`).

use std::iter;

use burn::tensor::Tensor;

use super::atomic_directory::AtomicDirectory;
use super::batch::{Batch, truncate};
use super::encoder::{EncoderConfig, MaskedHead};
use super::encoder_model::{EncoderHead, EncoderModel};
use super::floats::real;
use super::fused::cross_entropy_sum;
use super::layers::{ForwardContext, HiddenStates, cross_entropy};
use super::masked_texts;
use super::metrics::{Metrics, argmax};
use super::parameters::{Parameters, host};
use super::prepared::{Description, Extra, NO_LABEL};
use super::rng::{Rng, key};
use super::sources::Sources;
use super::task::{Draw, EvaluationSet, Masking, MicroBatch, ModelInput};
use super::{PreparedData, Split, TrainerError};
use hpsearch_core::arguments::TaskKind;

/// A head with the logits of the vocabulary.
pub(super) struct MaskedLanguageModeling(MaskedHead);

/// Of hidden tokens the share that the mask token replaces; half of the others become random
/// tokens, and the rest stays.
const REPLACED: f64 = 0.8;

/// A row with hidden tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
struct MaskedRow {
    ids: Vec<u32>,
    /// The hidden tokens: their index in the row, and what they were.
    hidden: Vec<(usize, u32)>,
}

/// Hides tokens of a row: each with the probability of `masking`, or each word; at least one.
/// Tokens without a word, the special ones, are never hidden.
fn hide(
    mut ids: Vec<u32>,
    words: &[u32],
    masking: Masking,
    mask: u32,
    vocabulary: usize,
    mut rng: Rng,
) -> MaskedRow {
    let candidates: Vec<usize> = (0..ids.len())
        .filter(|index| words.get(*index).is_some_and(|word| *word != NO_LABEL))
        .collect();
    let mut chosen = Vec::new();
    for word in candidates.chunk_by(|a, b| masking.whole_words && words[*a] == words[*b]) {
        if rng.uniform() <= masking.probability {
            chosen.extend_from_slice(word);
        }
    }
    if chosen.is_empty() && !candidates.is_empty() {
        let one = candidates[rng.below(candidates.len())];
        let with_it = |index: &usize| masking.whole_words && words[*index] == words[one];
        chosen =
            candidates.iter().copied().filter(|index| *index == one || with_it(index)).collect();
    }
    let hidden = chosen.iter().map(|index| (*index, ids[*index])).collect();
    for index in chosen {
        let kind = rng.uniform();
        if kind <= REPLACED {
            ids[index] = mask;
        } else if kind <= f64::midpoint(REPLACED, 1.0) {
            ids[index] = u32::try_from(rng.below(vocabulary)).unwrap_or(mask);
        }
    }
    MaskedRow { ids, hidden }
}

impl EncoderModel<MaskedLanguageModeling> {
    /// The logits of some tokens of a batch, `[tokens, vocabulary]`.
    pub(super) fn logits(
        &self,
        context: &ForwardContext,
        batch: &Batch,
        tokens: &[usize],
    ) -> Tensor<2> {
        self.logits_of(context, self.encoder.forward(context, batch), tokens)
    }

    /// The same from the encoder's final hidden states.
    pub(super) fn logits_of(
        &self,
        context: &ForwardContext,
        x: HiddenStates,
        tokens: &[usize],
    ) -> Tensor<2> {
        let x = x.select(0, Batch::token_indices(tokens, context.device));
        self.head.0.forward(context, &self.encoder, x)
    }

    /// A row with hidden tokens, always the same for the same draw.
    fn row(&self, data: &PreparedData, split: Split, row: usize, draw: Draw) -> MaskedRow {
        let longest = self.architecture.max_tokens();
        let words = data.extras(Extra::Words, split);
        let words = words.map_or_else(Vec::new, |words| words.ids(row).collect());
        let ids = truncate(data.split(split).ids(row).collect(), longest);
        let name = if split == Split::Train { "mask" } else { "mask of an evaluation" };
        hide(
            ids,
            &truncate(words, longest),
            draw.masking,
            data.mask().unwrap_or(0),
            data.vocab_size(),
            Rng::new(key(draw.seed, name, &[draw.epoch, row as u64])),
        )
    }

    /// Rows with hidden tokens: as a batch, with the index of each hidden token in it, and what
    /// they were.
    fn rows(
        &self,
        data: &PreparedData,
        split: Split,
        rows: &[usize],
        draw: Draw,
    ) -> (Batch, Vec<usize>, Vec<u32>) {
        let rows: Vec<MaskedRow> =
            rows.iter().map(|row| self.row(data, split, *row, draw)).collect();
        let mut begin = 0;
        let (mut tokens, mut targets) = (Vec::new(), Vec::new());
        for row in &rows {
            tokens.extend(row.hidden.iter().map(|(index, _)| begin + index));
            targets.extend(row.hidden.iter().map(|(_, was)| *was));
            begin += row.ids.len();
        }
        (Batch::new(rows.into_iter().map(|row| row.ids).collect()), tokens, targets)
    }
}

impl EncoderHead for MaskedLanguageModeling {
    /// Other tokens are hidden in every epoch.
    const EXAMPLES_ARE_FIXED: bool = false;

    fn prepare(
        _: TaskKind,
        sources: &Sources<'_>,
        staged: &AtomicDirectory,
    ) -> Result<Description, TrainerError> {
        masked_texts::prepare(sources, staged)
    }

    fn new(list: &mut Parameters, config: &EncoderConfig) -> Self {
        Self(MaskedHead::new(list, config))
    }

    /// Its hidden tokens.
    fn targets(model: &EncoderModel<Self>, data: &PreparedData, row: usize, draw: Draw) -> usize {
        model.row(data, Split::Train, row, draw).hidden.len()
    }

    fn batch(model: &EncoderModel<Self>, micro_batch: &MicroBatch<'_>) -> Batch {
        let MicroBatch { data, chosen, draw, .. } = *micro_batch;
        model.rows(data, Split::Train, chosen, draw).0
    }

    fn loss(
        model: &EncoderModel<Self>,
        context: &ForwardContext,
        x: HiddenStates,
        _: &ModelInput,
        micro_batch: &MicroBatch<'_>,
    ) -> Tensor<1> {
        let MicroBatch { data, chosen, draw, smoothing, step_targets, .. } = *micro_batch;
        let (_, tokens, targets) = model.rows(data, Split::Train, chosen, draw);
        let logits = model.logits_of(context, x, &tokens);
        cross_entropy(logits, targets.into(), smoothing, 1.0 / real(step_targets))
    }

    /// The same tokens are hidden in every evaluation, whatever the run's arguments.
    fn measure(
        model: &EncoderModel<Self>,
        context: &ForwardContext,
        data: &PreparedData,
        set: &EvaluationSet,
        on_progress: &dyn Fn(usize, usize),
    ) -> Result<Metrics, TrainerError> {
        let (mut loss, mut right, mut all) = (0.0, 0, 0);
        model.for_each_batch(data, set, on_progress, |rows, _| {
            let (batch, tokens, targets) = model.rows(data, set.split, rows, Draw::default());
            let logits = host(model.logits(context, &batch, &tokens))?;
            loss += cross_entropy_sum(&logits, &targets);
            all += targets.len();
            let vocabulary = model.architecture.shape.vocabulary;
            let told = iter::zip(logits.chunks(vocabulary), &targets);
            right += told.filter(|(logits, was)| argmax(logits) == **was as usize).count();
            Ok(())
        })?;
        let loss = loss / real(all);
        Ok([("loss", loss), ("perplexity", loss.exp()), ("accuracy", real(right) / real(all))]
            .into())
    }

    fn is_compatible(config: &EncoderConfig, data: &PreparedData) -> bool {
        data.mask().is_some() && config.shape.vocabulary >= data.vocab_size()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hidden(words: &[u32], masking: Masking, row: u64) -> MaskedRow {
        let ids = (0..words.len()).map(|index| 100 + u32::try_from(index).unwrap()).collect();
        hide(ids, words, masking, 4, 1_000, Rng::new(key(5, "test", &[row])))
    }

    #[test]
    fn fifteen_of_a_hundred_tokens_are_hidden_and_eight_of_ten_of_them_masked() {
        let words: Vec<u32> = iter::once(NO_LABEL).chain(0..98).chain([NO_LABEL]).collect();
        let (mut masked, mut random, mut kept, mut all) = (0, 0, 0, 0);
        for row in 0..400 {
            let MaskedRow { ids, hidden } = hidden(&words, Masking::default(), row);
            assert_eq!((ids[0], ids[99]), (100, 199), "special tokens stay");
            for (index, was) in &hidden {
                assert_eq!(*was, 100 + u32::try_from(*index).unwrap());
                match ids[*index] {
                    4 => masked += 1,
                    id if id == *was => kept += 1,
                    _ => random += 1,
                }
            }
            let changed = (0..100).filter(|index| ids[*index] as usize != 100 + index).count();
            assert!(changed <= hidden.len());
            all += hidden.len();
        }
        // Of 39,200 tokens; four standard deviations.
        assert!((f64::from(u32::try_from(all).unwrap()) / 39_200.0 - 0.15).abs() < 0.0075, "{all}");
        let share = |count: i32| f64::from(count) / real(all);
        assert!((share(masked) - 0.8).abs() < 0.022, "{masked} of {all}");
        assert!((share(random) - 0.1).abs() < 0.017 && (share(kept) - 0.1).abs() < 0.017);
    }

    #[test]
    fn words_are_hidden_whole_and_no_row_is_without_a_hidden_token() {
        let words = [NO_LABEL, 0, 1, 1, 1, 2, 2, NO_LABEL];
        let whole = Masking { probability: 0.3, whole_words: true };
        for row in 0..200 {
            let found: Vec<usize> =
                hidden(&words, whole, row).hidden.into_iter().map(|(index, _)| index).collect();
            for word in [&[1][..], &[2, 3, 4], &[5, 6]] {
                let count = word.iter().filter(|index| found.contains(index)).count();
                assert!(count == 0 || count == word.len(), "{found:?}");
            }
            let never = Masking { probability: 1e-12, whole_words: row % 2 == 0 };
            let hidden = hidden(&words, never, row).hidden;
            assert!(!hidden.is_empty() && hidden.len() <= 3);
        }
        assert!(hidden(&[NO_LABEL, NO_LABEL], whole, 0).hidden.is_empty());
    }
}
