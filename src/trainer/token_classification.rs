//! The task token-classification: a label for each word, by its first token (transformers'
//! `AutoModelForTokenClassification`).

use burn::tensor::Tensor;

use super::atomic_directory::AtomicDirectory;
use super::batch::{Batch, labelled_tokens};
use super::encoder::{EncoderConfig, TokenHead};
use super::encoder_model::{EncoderHead, EncoderModel};
use super::floats::real;
use super::layers::{ForwardContext, HiddenStates, cross_entropy};
use super::metrics::{EntityMetrics, Metrics};
use super::parameters::{Parameters, host};
use super::prepared::{Description, Extra};
use super::sources::Sources;
use super::tagged_words;
use super::task::{Draw, EvaluationSet, MicroBatch, ModelInput};
use super::{PreparedData, Split, TrainerError};
use hpsearch_core::arguments::TaskKind;
use hpsearch_core::study::class_report::ClassReport;

/// A head with the logits of tokens.
pub(super) struct TokenClassification(TokenHead);

impl EncoderModel<TokenClassification> {
    /// The logits of some tokens of a batch, `[tokens, labels]`.
    pub(super) fn logits(
        &self,
        context: &ForwardContext,
        batch: &Batch,
        tokens: &[usize],
    ) -> Tensor<2> {
        self.logits_of(context, self.encoder.forward(context, batch), tokens)
    }

    /// The same from the encoder's final hidden states.
    fn logits_of(&self, context: &ForwardContext, x: HiddenStates, tokens: &[usize]) -> Tensor<2> {
        self.head.0.forward(context, x.select(0, Batch::token_indices(tokens, context.device)))
    }

    /// The labelled tokens of rows of a split, by their index in the batch, with their labels.
    fn labelled(
        &self,
        data: &PreparedData,
        split: Split,
        rows: &[usize],
    ) -> (Vec<usize>, Vec<u32>) {
        let of_rows = rows.iter().map(|row| labels_of(data, split, *row).collect());
        labelled_tokens(of_rows, self.architecture.max_tokens())
    }
}

/// The labels of the tokens of a row.
fn labels_of(data: &PreparedData, split: Split, row: usize) -> impl Iterator<Item = u32> {
    data.extras(Extra::Labels, split).into_iter().flat_map(move |labels| labels.ids(row))
}

impl EncoderHead for TokenClassification {
    fn prepare(
        _: TaskKind,
        sources: &Sources<'_>,
        staged: &AtomicDirectory,
    ) -> Result<Description, TrainerError> {
        tagged_words::prepare(sources, staged)
    }

    fn new(list: &mut Parameters, config: &EncoderConfig) -> Self {
        Self(TokenHead::new(list, config))
    }

    /// Its labelled tokens.
    fn targets(model: &EncoderModel<Self>, data: &PreparedData, row: usize, _: Draw) -> usize {
        model.labelled(data, Split::Train, &[row]).1.len()
    }

    fn loss(
        model: &EncoderModel<Self>,
        context: &ForwardContext,
        x: HiddenStates,
        _: &ModelInput,
        micro_batch: &MicroBatch<'_>,
    ) -> Tensor<1> {
        let (tokens, labels) = model.labelled(micro_batch.data, Split::Train, micro_batch.chosen);
        let share = 1.0 / real(micro_batch.step_targets);
        let logits = model.logits_of(context, x, &tokens);
        cross_entropy(logits, labels.into(), micro_batch.smoothing, share)
    }

    fn measure(
        model: &EncoderModel<Self>,
        context: &ForwardContext,
        data: &PreparedData,
        set: &EvaluationSet,
        on_progress: &dyn Fn(usize, usize),
    ) -> Result<Metrics, TrainerError> {
        Self::measure_by_class(model, context, data, set, on_progress).map(|(metrics, _)| metrics)
    }

    fn measure_by_class(
        model: &EncoderModel<Self>,
        context: &ForwardContext,
        data: &PreparedData,
        set: &EvaluationSet,
        on_progress: &dyn Fn(usize, usize),
    ) -> Result<(Metrics, Option<ClassReport>), TrainerError> {
        let names = &model.architecture.shape.labels;
        let mut metrics = EntityMetrics::new(names);
        model.for_each_batch(data, set, on_progress, |rows, batch| {
            let (tokens, labels) = model.labelled(data, set.split, rows);
            let logits = host(model.logits(context, &batch, &tokens))?;
            let mut tokens = tokens.iter().zip(logits.chunks(names.len()).zip(labels)).peekable();
            let mut end = 0;
            for (row, length) in rows.iter().zip(&*batch.lengths()) {
                end += length;
                let mut of_row = Vec::new();
                while let Some((_, (logits, label))) = tokens.next_if(|(index, _)| **index < end) {
                    of_row.push((logits, label as usize));
                }
                metrics.add(*row, &of_row);
            }
            Ok(())
        })?;
        Ok((metrics.compute(), Some(metrics.by_class())))
    }
}
