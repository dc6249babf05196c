//! The interface between tasks and training: [`Task`] makes data and models, [`Model`] computes
//! losses and metrics.

use std::any::Any;

use burn::tensor::{Device, Tensor};
use serde_json::{Map, Value};

use super::atomic_directory::AtomicDirectory;
use super::batch::{Batch, SequenceLayout};
use super::layers::{ForwardContext, HiddenStates};
use super::metrics::Metrics;
use super::parameters::{Parameters, Values};
use super::prepared::Description;
use super::rotary::RotaryAngles;
use super::sources::Sources;
use super::writing::TextGeneration;
use super::{PreparedData, Split, TrainerError};
use hpsearch_core::arguments::{MLM_PROBABILITY, ModelArguments, TaskKind};
use hpsearch_core::study::class_report::ClassReport;

/// A task such as text classification.
pub(super) trait Task: Sync {
    /// Its kind in the arguments.
    fn kind(&self) -> TaskKind;

    /// Prepares its data from files, and writes them to `staged`.
    fn prepare(
        &self,
        sources: &Sources<'_>,
        staged: &AtomicDirectory,
    ) -> Result<Description, TrainerError>;

    /// A model of the shape that arguments ask for, for prepared data, or the end of a sentence
    /// about what is wrong with it.
    fn new_model(
        &self,
        arguments: &ModelArguments,
        data: &PreparedData,
    ) -> Result<Box<dyn Model>, String>;

    /// The pretrained model that a `config.json` describes, adapted to arguments and data, or the
    /// end of a sentence about what is wrong with it.
    fn pretrained_model(
        &self,
        config: Map<String, Value>,
        arguments: &ModelArguments,
        data: &PreparedData,
    ) -> Result<Box<dyn Model>, String>;

    /// The `model_type`s of its models.
    fn model_types(&self) -> Vec<&'static str>;

    /// Whether transformers' class `name`, of a model with one of these types, is for this task.
    fn has_class(&self, name: &str) -> bool;

    /// The model that a `config.json` describes, or the end of a sentence about what is wrong with
    /// it.
    fn read_model(&self, config: Map<String, Value>) -> Result<Box<dyn Model>, String>;
}

/// A model over a list of parameters, whose values are passed in.
pub(super) trait Model: Any {
    /// Its `config.json`.
    fn config(&self) -> Value;

    /// Its parameters.
    fn parameters(&self) -> &Parameters;

    /// Its parameters, to mark what is trained and how.
    fn parameters_mut(&mut self) -> &mut Parameters;

    /// Examples of an epoch over a split.
    fn examples(&self, data: &PreparedData, split: Split) -> usize;

    /// Tokens of a training example.
    fn length(&self, data: &PreparedData, example: usize) -> usize;

    /// Whether an example has the same tokens in every epoch.
    fn examples_are_fixed(&self) -> bool;

    /// Whether the hidden states of a micro-batch are those of one example after the other.
    fn examples_are_apart(&self) -> bool {
        true
    }

    /// The predictions that an example contributes to the loss of a step: its labels, or its
    /// tokens.
    fn targets(&self, data: &PreparedData, example: usize, draw: Draw) -> usize;

    /// The input of the model for a micro-batch.
    fn input(&self, micro_batch: &MicroBatch<'_>) -> ModelInput;

    /// The embeddings, `[tokens, width]`.
    fn embed(&self, context: &ForwardContext, input: &ModelInput) -> HiddenStates;

    /// Number of layers.
    fn layers(&self) -> usize;

    /// The output of layer `number` for the hidden states `x`.
    fn layer(
        &self,
        context: &ForwardContext,
        number: usize,
        x: HiddenStates,
        input: &ModelInput,
    ) -> HiddenStates;

    /// The micro-batch's contribution to the loss of an optimiser step, `[1]`, from the last
    /// layer's output.
    fn loss(
        &self,
        context: &ForwardContext,
        x: HiddenStates,
        input: &ModelInput,
        micro_batch: &MicroBatch<'_>,
    ) -> Tensor<1>;

    /// The same from the start.
    #[cfg(test)]
    fn forward_loss(&self, context: &ForwardContext, micro_batch: &MicroBatch<'_>) -> Tensor<1> {
        let input = self.input(micro_batch);
        let x = self.embed(context, &input);
        let x = (0..self.layers()).fold(x, |x, number| self.layer(context, number, x, &input));
        self.loss(context, x, &input, micro_batch)
    }

    /// Evaluates `values` on a split: metrics by their names without prefix, `loss` among them.
    /// `on_progress` is called with the number of examples done, and of all.
    fn measure(
        &self,
        values: &Values,
        device: &Device,
        data: &PreparedData,
        set: &EvaluationSet,
        on_progress: &dyn Fn(usize, usize),
    ) -> Result<Metrics, TrainerError>;

    /// The same, with the results of each class of a classifier.
    fn measure_by_class(
        &self,
        values: &Values,
        device: &Device,
        data: &PreparedData,
        set: &EvaluationSet,
        on_progress: &dyn Fn(usize, usize),
    ) -> Result<(Metrics, Option<ClassReport>), TrainerError> {
        self.measure(values, device, data, set, on_progress).map(|metrics| (metrics, None))
    }

    /// How it writes texts, if it does.
    fn writing(&self) -> Option<TextGeneration> {
        None
    }

    /// Whether it has the labels or tokens of the data.
    fn is_compatible(&self, data: &PreparedData) -> bool;

    /// The size of its vocabulary, and the longest input in tokens.
    fn limits(&self) -> (usize, usize);

    /// Whether it tells the texts of a pair apart by the types of their tokens.
    fn reads_token_types(&self) -> bool {
        false
    }

    /// The names of its tensors in the files of a pretrained model.
    fn tensor_names(&self) -> TensorNames;
}

/// The input of a model.
pub(super) struct ModelInput {
    pub(super) batch: Batch,
    pub(super) layout: SequenceLayout,
    /// The rotary angles of each token, with rotary embeddings.
    pub(super) angles: Option<RotaryAngles>,
    /// The tokens that the decoder reads, of models with an encoder and a decoder.
    pub(super) decoder: Option<(Batch, SequenceLayout)>,
}

impl ModelInput {
    /// The tokens that the decoder reads.
    pub(super) fn of_decoder(&self) -> &(Batch, SequenceLayout) {
        self.decoder.as_ref().expect("the input of a model with an encoder and a decoder")
    }
}

/// How the names of tensors in files relate to those of parameters, and which of them a model can
/// use.
pub(super) struct TensorNames {
    /// The prefix of names, which files of models without a head omit.
    pub(super) prefix: &'static str,
    /// The prefix of layers' names, after `prefix`: an unused tensor with it belongs to a layer
    /// that `config.json` does not describe.
    pub(super) layers: &'static str,
    /// Whether the weights were trained for the labels of the data.
    pub(super) keeps_labels: bool,
    /// The labels that the weights were trained for.
    pub(super) labels: Vec<String>,
}

/// Examples of an optimiser step that are processed at once.
#[derive(Debug, Clone, Copy)]
pub(super) struct MicroBatch<'a> {
    pub(super) data: &'a PreparedData,
    /// Their numbers within the epoch.
    pub(super) chosen: &'a [usize],
    /// Targets of the whole step, by [`Model::targets`].
    pub(super) step_targets: usize,
    /// Class weights, and the total weight of the whole step's examples, if examples are weighted.
    pub(super) weights: Option<(&'a [f32], f64)>,
    pub(super) draw: Draw,
    /// Label smoothing.
    pub(super) smoothing: f64,
}

/// What random choices within an example depend on, besides the example.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Draw {
    /// The run's seed.
    pub(super) seed: u64,
    /// The epoch, counted from 0.
    pub(super) epoch: u64,
    pub(super) masking: Masking,
}

/// How tokens are hidden for masked language modeling.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Masking {
    /// The share of tokens, or of words.
    pub(super) probability: f64,
    /// Whether all tokens of a word are hidden together.
    pub(super) whole_words: bool,
}

impl Default for Masking {
    /// BERT's (Devlin et al. 2019), and that of every evaluation, so that runs compare.
    fn default() -> Self {
        Self { probability: MLM_PROBABILITY, whole_words: false }
    }
}

impl<'a> MicroBatch<'a> {
    /// A step of these examples in the first epoch, without seed, class weights and label
    /// smoothing.
    pub(super) fn whole_step(
        model: &dyn Model,
        data: &'a PreparedData,
        chosen: &'a [usize],
    ) -> Self {
        let draw = Draw::default();
        let step_targets = step_targets(model, data, chosen.iter().copied(), draw);
        Self { data, chosen, step_targets, weights: None, draw, smoothing: 0.0 }
    }
}

/// The targets of a step with these examples.
pub(super) fn step_targets(
    model: &dyn Model,
    data: &PreparedData,
    examples: impl Iterator<Item = usize>,
    draw: Draw,
) -> usize {
    examples.map(|example| model.targets(data, example, draw)).sum()
}

/// The examples of an evaluation.
#[derive(Debug, Clone, Copy)]
pub(super) struct EvaluationSet {
    pub(super) split: Split,
    /// Examples per batch.
    pub(super) batch: usize,
    /// Maximum number of examples; `None`: all.
    pub(super) limit: Option<usize>,
    /// How texts are written, for metrics of texts, by models that write them.
    pub(super) writing: Option<TextGeneration>,
}

impl EvaluationSet {
    /// The selected examples of `all`, spread evenly.
    pub(super) fn chosen(&self, all: usize) -> Vec<usize> {
        let count = self.limit.unwrap_or(all).min(all);
        (0..count).map(|number| number * all / count).collect()
    }
}

/// Keys of `config.json` that do not affect the shapes of parameters.
const SHAPELESS: [&str; 11] = [
    "hidden_dropout_prob",
    "attention_probs_dropout_prob",
    "classifier_dropout",
    "dropout",
    "attention_dropout",
    "seq_classif_dropout",
    "resid_pdrop",
    "embd_pdrop",
    "attn_pdrop",
    "mlp_dropout",
    "embedding_dropout",
];

/// Whether two models have parameters of the same shapes.
pub(super) fn same_shape(one: &dyn Model, other: &dyn Model) -> bool {
    let shape = |model: &dyn Model| {
        let mut config = model.config();
        if let Some(config) = config.as_object_mut() {
            config.retain(|key, _| !SHAPELESS.contains(&key.as_str()));
        }
        config
    };
    shape(one) == shape(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limited_evaluation_spreads_over_the_whole_split() {
        let set =
            |limit| EvaluationSet { split: Split::Validation, batch: 8, limit, writing: None };
        assert_eq!(set(Some(3)).chosen(10), [0, 3, 6]);
        assert_eq!(set(Some(30)).chosen(3), [0, 1, 2]);
        assert_eq!(set(None).chosen(2), [0, 1]);
        assert!(set(None).chosen(0).is_empty());
    }
}
