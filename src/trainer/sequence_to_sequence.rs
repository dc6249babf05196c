//! The tasks translation, summarization and text-to-text: writing a text for each text.

use burn::tensor::{Device, Tensor};
use serde_json::{Map, Value};
use tokenizers::Tokenizer;

use super::atomic_directory::AtomicDirectory;
use super::batch::{Batch, truncate};
use super::encoder_decoder::{EncoderDecoder, Seq2SeqConfig};
use super::families::seq2seq::SEQ2SEQ;
use super::floats::real;
use super::layers::{ForwardContext, HiddenStates, cross_entropy};
use super::metrics::{Metrics, TextMetrics};
use super::parallel_texts;
use super::parameters::{Parameters, Values, host};
use super::prepared::{Description, Extra};
use super::sources::Sources;
use super::task::{Draw, EvaluationSet, MicroBatch, Model, ModelInput, Task, TensorNames};
use super::text_generation;
use super::tokenizer_file::catch_panics;
use super::writing::TextGeneration;
use super::{PreparedData, Split, TrainerError};
use hpsearch_core::arguments::{ModelArguments, TaskKind};

/// One of the tasks.
pub(super) struct SequenceToSequence(pub(super) TaskKind);

impl Task for SequenceToSequence {
    fn kind(&self) -> TaskKind {
        self.0
    }

    fn prepare(
        &self,
        sources: &Sources<'_>,
        staged: &AtomicDirectory,
    ) -> Result<Description, TrainerError> {
        parallel_texts::prepare(sources, staged)
    }

    fn new_model(
        &self,
        arguments: &ModelArguments,
        data: &PreparedData,
    ) -> Result<Box<dyn Model>, String> {
        let longest = data.max_length().max(data.max_target_length());
        let special = data.text_ends().map_or([0, 0], |ends| [ends.pad, ends.end]);
        let mut config = Seq2SeqConfig::new(arguments, data.vocab_size(), longest, special)?;
        config.write_as(data.text_ends());
        Ok(Box::new(SequenceToSequenceModel::new(config)))
    }

    fn pretrained_model(
        &self,
        config: Map<String, Value>,
        arguments: &ModelArguments,
        data: &PreparedData,
    ) -> Result<Box<dyn Model>, String> {
        let mut config = Seq2SeqConfig::read(config)?;
        config.adapt(arguments)?;
        config.write_as(data.text_ends());
        Ok(Box::new(SequenceToSequenceModel::new(config)))
    }

    fn model_types(&self) -> Vec<&'static str> {
        SEQ2SEQ.iter().map(|family| family.model_type).collect()
    }

    /// Whatever such a model was trained for, it writes texts.
    fn has_class(&self, _: &str) -> bool {
        true
    }

    fn read_model(&self, config: Map<String, Value>) -> Result<Box<dyn Model>, String> {
        Ok(Box::new(SequenceToSequenceModel::new(Seq2SeqConfig::read(config)?)))
    }
}

/// An encoder with a decoder that predicts the next token of a text to write.
pub(super) struct SequenceToSequenceModel {
    pub(super) config: Seq2SeqConfig,
    pub(super) model: EncoderDecoder,
    parameters: Parameters,
}

impl SequenceToSequenceModel {
    pub(super) fn new(config: Seq2SeqConfig) -> Self {
        let (model, parameters) = EncoderDecoder::new(&config);
        Self { config, model, parameters }
    }

    /// The source texts of rows.
    fn source(&self, data: &PreparedData, split: Split, chosen: &[usize]) -> Batch {
        let rows = data.split(split);
        let texts = chosen.iter().map(|row| rows.ids(*row).collect());
        Batch::truncated(texts, self.config.max_tokens())
    }

    /// The texts to write of rows, each with its end.
    fn targets_of(&self, data: &PreparedData, split: Split, chosen: &[usize]) -> Vec<Vec<u32>> {
        let Some(rows) = data.extras(Extra::SecondTexts, split) else { return Vec::new() };
        let longest = self.config.max_tokens();
        let text = |row: &usize| truncate(rows.ids(*row).collect(), longest);
        chosen.iter().map(text).collect()
    }

    /// What the decoder reads to predict `targets`: the start, and all tokens but the last.
    pub(super) fn shifted(&self, targets: &[Vec<u32>]) -> Batch {
        let start = self.config.shape.special.decoder_start;
        let shift = |target: &Vec<u32>| {
            let before = target.split_last().map_or(&[][..], |(_, before)| before);
            std::iter::once(start).chain(before.iter().copied()).collect()
        };
        Batch::new(targets.iter().map(shift).collect())
    }

    /// The texts of token ids, without special tokens.
    fn decoded(tokenizer: &Tokenizer, texts: &[Vec<u32>]) -> Result<Vec<String>, TrainerError> {
        let decode = |ids: &Vec<u32>| {
            catch_panics(|| tokenizer.decode(ids, true)).map_err(TrainerError::tokenizer)
        };
        texts.iter().map(decode).collect()
    }
}

impl Model for SequenceToSequenceModel {
    fn config(&self) -> Value {
        self.config.config.clone().into()
    }

    fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    fn parameters_mut(&mut self) -> &mut Parameters {
        &mut self.parameters
    }

    fn examples(&self, data: &PreparedData, split: Split) -> usize {
        data.rows(split)
    }

    /// Tokens of both texts.
    fn length(&self, data: &PreparedData, example: usize) -> usize {
        let longest = self.config.max_tokens();
        let target = data.extras(Extra::SecondTexts, Split::Train);
        data.split(Split::Train).length(example).min(longest)
            + target.map_or(0, |target| target.length(example).min(longest))
    }

    fn examples_are_fixed(&self) -> bool {
        true
    }

    /// All sources come before all targets.
    fn examples_are_apart(&self) -> bool {
        false
    }

    /// The tokens to write.
    fn targets(&self, data: &PreparedData, example: usize, _: Draw) -> usize {
        let target = data.extras(Extra::SecondTexts, Split::Train);
        target.map_or(0, |target| target.length(example).min(self.config.max_tokens()))
    }

    fn input(&self, micro_batch: &MicroBatch<'_>) -> ModelInput {
        let MicroBatch { data, chosen, .. } = *micro_batch;
        let batch = self.source(data, Split::Train, chosen);
        let decoder = self.shifted(&self.targets_of(data, Split::Train, chosen));
        ModelInput {
            layout: batch.layout(),
            batch,
            angles: None,
            decoder: Some((decoder.clone(), decoder.layout())),
        }
    }

    fn embed(&self, context: &ForwardContext, input: &ModelInput) -> HiddenStates {
        self.model.begin(context, &input.batch, &input.of_decoder().0)
    }

    fn layers(&self) -> usize {
        self.model.layers()
    }

    fn layer(
        &self,
        context: &ForwardContext,
        number: usize,
        x: HiddenStates,
        input: &ModelInput,
    ) -> HiddenStates {
        self.model.layer(context, number, x, &input.layout, &input.of_decoder().1)
    }

    fn loss(
        &self,
        context: &ForwardContext,
        x: HiddenStates,
        input: &ModelInput,
        micro_batch: &MicroBatch<'_>,
    ) -> Tensor<1> {
        let MicroBatch { data, chosen, step_targets, smoothing, .. } = *micro_batch;
        let targets = self.targets_of(data, Split::Train, chosen).concat();
        let share = 1.0 / real(step_targets);
        self.model.finish(context, x, &input.layout, targets, smoothing, share)
    }

    /// The mean over all tokens to write, each predicted from those before it; where texts are
    /// written, their metrics, too.
    fn measure(
        &self,
        values: &Values,
        device: &Device,
        data: &PreparedData,
        set: &EvaluationSet,
        on_progress: &dyn Fn(usize, usize),
    ) -> Result<Metrics, TrainerError> {
        let context = ForwardContext::evaluation(values, device);
        let rows = data.split(set.split);
        // Rows are sorted by length, so that little is padding.
        let mut order = set.chosen(rows.len());
        order.sort_by_key(|row| rows.length(*row));
        let mut texts = set.writing.map(|_| TextMetrics::default());
        let tokenizer = match &set.writing {
            Some(_) => Some(data.target_tokenizer()?),
            None => None,
        };
        let (mut sum, mut count, mut done) = (0.0, 0, 0);
        for chosen in order.chunks(set.batch) {
            let source = self.source(data, set.split, chosen);
            let targets = self.targets_of(data, set.split, chosen);
            let logits = self.model.forward(&context, &source, &self.shifted(&targets));
            let all = targets.concat();
            count += all.len();
            sum += f64::from(host(cross_entropy(logits, all.into(), 0.0, 1.0))?[0]);
            if let (Some(writing), Some(metrics), Some(tokenizer)) =
                (&set.writing, &mut texts, &tokenizer)
            {
                let written = self.write(&context, &source, writing)?;
                let texts = Self::decoded(tokenizer, &written)?;
                let truths = Self::decoded(tokenizer, &targets)?;
                for ((text, truth), ids) in texts.iter().zip(&truths).zip(&written) {
                    metrics.add(text, truth, ids.len());
                }
            }
            done += chosen.len();
            on_progress(done, order.len());
        }
        let mut metrics = texts.map_or_else(Metrics::new, |texts| texts.compute());
        metrics.insert("loss", sum / real(count));
        Ok(metrics)
    }

    fn writing(&self) -> Option<TextGeneration> {
        Some(self.config.writing)
    }

    fn is_compatible(&self, data: &PreparedData) -> bool {
        data.text_ends().is_some() && self.config.shape.vocabulary >= data.vocab_size()
    }

    fn limits(&self) -> (usize, usize) {
        (self.config.shape.vocabulary, self.config.max_tokens())
    }

    fn tensor_names(&self) -> TensorNames {
        TensorNames {
            prefix: self.config.family.prefix,
            layers: if self.config.family.names.layer == "block" {
                "encoder.block"
            } else {
                "encoder.layers"
            },
            keeps_labels: true,
            labels: Vec::new(),
        }
    }
}

impl SequenceToSequenceModel {
    /// Texts written for texts, as token ids: without the start, with the end if there is one.
    pub(super) fn write(
        &self,
        context: &ForwardContext,
        source: &Batch,
        config: &TextGeneration,
    ) -> Result<Vec<Vec<u32>>, TrainerError> {
        text_generation::write(&self.model, &self.config, context, source, config)
    }
}
