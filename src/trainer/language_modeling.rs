//! The task language-modeling: predicting the next token of a text.

use std::ops::Range;

use burn::tensor::{Device, Tensor};
use serde_json::{Map, Value};

use super::atomic_directory::AtomicDirectory;
use super::batch::Batch;
use super::corpus;
use super::decoder::{Decoder, DecoderConfig};
use super::families::decoders::DECODERS;
use super::floats::real;
use super::fused::cross_entropy_sum;
use super::layers::{ForwardContext, HiddenStates};
use super::metrics::Metrics;
use super::parameters::{Parameters, Values, host};
use super::prepared::{Description, TokenRows};
use super::rng::{Rng, key};
use super::sources::Sources;
use super::task::{Draw, EvaluationSet, MicroBatch, Model, ModelInput, Task, TensorNames};
use super::{PreparedData, Split, TrainerError};
use hpsearch_core::arguments::{ModelArguments, TaskKind};

/// The task.
pub(super) struct LanguageModeling;

impl Task for LanguageModeling {
    fn kind(&self) -> TaskKind {
        TaskKind::LanguageModeling
    }

    fn prepare(
        &self,
        sources: &Sources<'_>,
        staged: &AtomicDirectory,
    ) -> Result<Description, TrainerError> {
        corpus::prepare(sources, staged)
    }

    fn new_model(
        &self,
        arguments: &ModelArguments,
        data: &PreparedData,
    ) -> Result<Box<dyn Model>, String> {
        let (start, end) = data.stream().map_or((0, 0), |stream| (stream.start, stream.end));
        let architecture =
            DecoderConfig::new(arguments, data.vocab_size(), data.max_length(), start, end)?;
        Ok(Box::new(LanguageModel::new(architecture)))
    }

    fn pretrained_model(
        &self,
        config: Map<String, Value>,
        arguments: &ModelArguments,
        data: &PreparedData,
    ) -> Result<Box<dyn Model>, String> {
        let mut architecture = DecoderConfig::read(config)?;
        architecture.adapt(arguments, data.max_length());
        Ok(Box::new(LanguageModel::new(architecture)))
    }

    fn model_types(&self) -> Vec<&'static str> {
        DECODERS.iter().map(|family| family.model_type).collect()
    }

    /// Whatever a decoder was trained for, it models language here.
    fn has_class(&self, _: &str) -> bool {
        true
    }

    fn read_model(&self, config: Map<String, Value>) -> Result<Box<dyn Model>, String> {
        Ok(Box::new(LanguageModel::new(DecoderConfig::read(config)?)))
    }
}

/// A decoder with a language-modeling head.
pub(super) struct LanguageModel {
    pub(super) architecture: DecoderConfig,
    pub(super) decoder: Decoder,
    parameters: Parameters,
}

impl LanguageModel {
    pub(super) fn new(architecture: DecoderConfig) -> Self {
        let (decoder, parameters) = Decoder::new(&architecture);
        Self { architecture, decoder, parameters }
    }

    /// The windows that are an epoch's examples: consecutive, from an offset that is drawn for
    /// every epoch, so that over the epochs each token is seen at each position.
    fn windows(&self, rows: &TokenRows, Draw { seed, epoch, .. }: Draw) -> Windows {
        let layout = Windows::training(rows.tokens(), self.architecture.shape.window);
        let first = Rng::new(key(seed, "window", &[epoch])).below(layout.slack + 1);
        Windows { first, ..layout }
    }

    /// Inputs and targets of a micro-batch, and the length of each window.
    fn inputs_and_targets(&self, micro_batch: &MicroBatch<'_>) -> (Vec<u32>, Vec<u32>, usize) {
        let rows = micro_batch.data.split(Split::Train);
        let windows = self.windows(rows, micro_batch.draw);
        let (inputs, targets) =
            batch(rows, micro_batch.chosen.iter().map(|number| windows.tokens(*number)));
        (inputs, targets, windows.length)
    }
}

/// Windows of one length over a stream of tokens: the input of each is `length` tokens, and its
/// targets are the next token of each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Windows {
    /// Offset of the first.
    first: usize,
    /// Tokens after the last: the largest `first`.
    slack: usize,
    count: usize,
    length: usize,
}

impl Windows {
    /// Windows of at most `length` over `tokens` (at least two); one window less than would fit
    /// leaves room for a random offset.
    fn training(tokens: usize, length: usize) -> Self {
        let length = length.min(tokens - 1);
        let count = ((tokens - 1) / length).saturating_sub(1).max(1);
        Self { first: 0, slack: (tokens - 1 - count * length).min(length - 1), count, length }
    }

    fn tokens(&self, number: usize) -> Range<usize> {
        let start = self.first + number * self.length;
        start..start + self.length + 1
    }
}

/// Inputs and targets of windows, one after another.
fn batch(rows: &TokenRows, windows: impl Iterator<Item = Range<usize>>) -> (Vec<u32>, Vec<u32>) {
    let (mut inputs, mut targets) = (Vec::new(), Vec::new());
    for window in windows {
        let ids: Vec<u32> = rows.window(window).collect();
        inputs.extend(&ids[..ids.len() - 1]);
        targets.extend(&ids[1..]);
    }
    (inputs, targets)
}

impl Model for LanguageModel {
    fn config(&self) -> Value {
        self.architecture.config.clone().into()
    }

    fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    fn parameters_mut(&mut self) -> &mut Parameters {
        &mut self.parameters
    }

    fn examples(&self, data: &PreparedData, split: Split) -> usize {
        Windows::training(data.tokens(split), self.architecture.shape.window).count
    }

    fn length(&self, _: &PreparedData, _: usize) -> usize {
        self.architecture.shape.window
    }

    /// Windows begin elsewhere in every epoch.
    fn examples_are_fixed(&self) -> bool {
        false
    }

    fn targets(&self, data: &PreparedData, _: usize, _: Draw) -> usize {
        Windows::training(data.tokens(Split::Train), self.architecture.shape.window).length
    }

    fn input(&self, micro_batch: &MicroBatch<'_>) -> ModelInput {
        let (inputs, _, length) = self.inputs_and_targets(micro_batch);
        let (layout, angles) = self.decoder.places(inputs.len(), length);
        ModelInput {
            batch: Batch::new(inputs.chunks(length).map(<[u32]>::to_vec).collect()),
            layout,
            angles,
            decoder: None,
        }
    }

    fn embed(&self, context: &ForwardContext, input: &ModelInput) -> HiddenStates {
        self.decoder.begin(context, &input.batch.ids(), input.layout.length)
    }

    fn layers(&self) -> usize {
        self.decoder.layers()
    }

    fn layer(
        &self,
        context: &ForwardContext,
        number: usize,
        x: HiddenStates,
        input: &ModelInput,
    ) -> HiddenStates {
        self.decoder.layer(context, number, x, &input.layout, input.angles.as_ref())
    }

    fn loss(
        &self,
        context: &ForwardContext,
        x: HiddenStates,
        _: &ModelInput,
        micro_batch: &MicroBatch<'_>,
    ) -> Tensor<1> {
        let (_, targets, _) = self.inputs_and_targets(micro_batch);
        let share = 1.0 / real(micro_batch.step_targets);
        self.decoder.finish(context, x, targets, micro_batch.smoothing, share)
    }

    /// The mean over every token of the split but the first, each predicted from those before it in
    /// its window; windows are consecutive.
    fn measure(
        &self,
        values: &Values,
        device: &Device,
        data: &PreparedData,
        set: &EvaluationSet,
        on_progress: &dyn Fn(usize, usize),
    ) -> Result<Metrics, TrainerError> {
        let rows = data.split(set.split);
        let (targets, length) = (rows.tokens().saturating_sub(1), self.architecture.shape.window);
        let window = |number: usize| number * length..((number + 1) * length).min(targets) + 1;
        let context = ForwardContext::evaluation(values, device);
        let (mut sum, mut count, mut done) = (0.0, 0, 0);
        let chosen = set.chosen(targets.div_ceil(length));
        let all = chosen.len();
        // The last window may be shorter than the others: batches have windows of one length.
        let (whole, rest): (Vec<usize>, Vec<usize>) =
            chosen.into_iter().partition(|number| window(*number).len() == length + 1);
        for chosen in whole.chunks(set.batch).chain(rest.chunks(set.batch)) {
            let (inputs, targets) = batch(rows, chosen.iter().map(|number| window(*number)));
            let logits =
                host(self.decoder.forward(&context, &inputs, inputs.len() / chosen.len()))?;
            sum += cross_entropy_sum(&logits, &targets);
            count += targets.len();
            done += chosen.len();
            on_progress(done, all);
        }
        let bytes = data.stream().map_or(0, |stream| stream.bytes[set.split as usize]);
        let (loss, tokens_per_byte) = (
            sum / f64::from(u32::try_from(count).unwrap_or(u32::MAX)),
            real(rows.tokens()) / real(bytes),
        );
        Ok([
            ("loss", loss),
            ("perplexity", loss.exp()),
            ("bits_per_byte", loss / std::f64::consts::LN_2 * tokens_per_byte),
        ]
        .into())
    }

    fn is_compatible(&self, data: &PreparedData) -> bool {
        data.stream().is_some() && self.architecture.shape.vocabulary >= data.vocab_size()
    }

    fn limits(&self) -> (usize, usize) {
        (self.architecture.shape.vocabulary, self.architecture.shape.positions)
    }

    fn tensor_names(&self) -> TensorNames {
        let family = self.architecture.family;
        TensorNames {
            prefix: family.prefix,
            layers: family.names.layer,
            keeps_labels: true,
            labels: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_consecutive_and_leave_room_for_a_random_offset() {
        for tokens in 2..200 {
            for length in 3..20 {
                let windows = Windows::training(tokens, length);
                let last = Windows { first: windows.slack, ..windows }.tokens(windows.count - 1);
                assert!(last.end <= tokens, "{tokens} {length} {windows:?}");
                assert_eq!(windows.tokens(0).end - 1, windows.tokens(1).start);
                if tokens > 2 * length {
                    assert_eq!((windows.slack, windows.length), (length - 1, length));
                    assert!(windows.count >= tokens / length - 2);
                }
            }
        }
    }
}
