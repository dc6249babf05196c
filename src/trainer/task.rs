//! What is learnt: the seam between tasks and the loop that trains them. A task is one file and one line of [`TASKS`].

use std::any::Any;
use std::collections::BTreeMap;

use burn::tensor::{Device, Tensor};
use serde_json::{Map, Value};

use super::batch::{Batch, Layout};
use super::classification::Classification;
use super::durable::Draft;
use super::language_modeling::LanguageModeling;
use super::layers::{Angles, Pass, Rows};
use super::parameters::{Parameters, Values};
use super::preparation::Sources;
use super::prepared::Description;
use super::pretrained::Naming;
use super::{PreparedData, Split, TrainerError, quantization};
use crate::arguments::{ModelArguments, TaskKind};

/// A kind of thing to learn.
pub(super) trait Task: Sync {
    /// The kind that arguments name.
    fn kind(&self) -> TaskKind;

    /// Its data, made of files and written to `draft`.
    fn prepare(&self, sources: &Sources<'_>, draft: &Draft) -> Result<Description, TrainerError>;

    /// The model that arguments ask for, for prepared data.
    fn model(&self, arguments: &ModelArguments, data: &PreparedData) -> Result<Box<dyn Model>, TrainerError>;

    /// What `model_type` may be in its models' `config.json`.
    fn model_types(&self) -> Vec<&'static str>;

    /// The model that a `config.json` of such a type describes, or the end of a sentence about what is wrong with it.
    fn read(&self, config: Map<String, Value>) -> Result<Box<dyn Model>, String>;
}

/// All tasks.
static TASKS: &[&dyn Task] = &[
    &Classification(TaskKind::TextClassification),
    &Classification(TaskKind::MultiLabelClassification),
    &Classification(TaskKind::TextRegression),
    &LanguageModeling,
];

/// The task of a kind.
pub(super) fn task(kind: TaskKind) -> &'static dyn Task {
    *TASKS.iter().find(|task| task.kind() == kind).expect("every kind has a task: a test goes through them")
}

/// The model that a `config.json` describes, or the end of a sentence about what is wrong with it.
pub(super) fn read_model(config: Map<String, Value>) -> Result<Box<dyn Model>, String> {
    let config = quantization::plain(config)?;
    let model_type = config.get("model_type").and_then(Value::as_str).unwrap_or_default();
    match TASKS.iter().find(|task| task.model_types().contains(&model_type)) {
        Some(task) => task.read(config),
        None => {
            let mut known: Vec<String> = TASKS.iter().flat_map(|task| task.model_types()).map(|name| format!("`{name}`")).collect();
            known.sort();
            known.dedup();
            Err(format!("has `model_type` = \"{model_type}\"; known are {}", known.join(", ")))
        }
    }
}

/// A model laid out over a parameter list, and what a task does with it. Values come from outside.
pub(super) trait Model: Any {
    /// Its shape as `config.json` says it.
    fn config(&self) -> Value;

    /// The list of its parameters.
    fn parameters(&self) -> &Parameters;

    /// The same list, to mark what is trained and how.
    fn parameters_mut(&mut self) -> &mut Parameters;

    /// Examples of an epoch over a split.
    fn examples(&self, data: &PreparedData, split: Split) -> usize;

    /// Tokens of an example of the training rows.
    fn length(&self, data: &PreparedData, example: usize) -> usize;

    /// Whether an example is the same tokens in every epoch.
    fn repeats(&self) -> bool;

    /// Some examples of the training rows, as layers read them.
    fn reading(&self, part: &Part<'_>) -> Reading;

    /// What the first layer reads, `[tokens, width]`.
    fn begin(&self, pass: &Pass, reading: &Reading) -> Rows;

    /// How many layers there are.
    fn layers(&self) -> usize;

    /// What a layer makes of what it reads.
    fn layer(&self, pass: &Pass, number: usize, x: Rows, reading: &Reading) -> Rows;

    /// The part of an optimiser step's loss, `[1]`, that these examples contribute, from what the last layer made.
    fn finish(&self, pass: &Pass, x: Rows, reading: &Reading, part: &Part<'_>) -> Tensor<1>;

    /// The part of an optimiser step's loss, `[1]`, that some of its examples contribute.
    #[cfg(test)]
    fn loss(&self, pass: &Pass, part: &Part<'_>) -> Tensor<1> {
        let reading = self.reading(part);
        let x = self.begin(pass, &reading);
        let x = (0..self.layers()).fold(x, |x, number| self.layer(pass, number, x, &reading));
        self.finish(pass, x, &reading, part)
    }

    /// Measures `values` on a split: metrics by their names without prefix, `loss` among them.
    /// `told` hears how many examples of how many are done.
    fn measure(
        &self,
        values: &Values,
        device: &Device,
        data: &PreparedData,
        extent: &Extent,
        told: &dyn Fn(usize, usize),
    ) -> Result<BTreeMap<&'static str, f64>, TrainerError>;

    /// Whether it speaks of the same labels or tokens as the data.
    fn suits(&self, data: &PreparedData) -> bool;

    /// How many tokens it knows, and how many it reads at most.
    fn limits(&self) -> (usize, usize);

    /// How its tensors may be called in the files of a pretrained model.
    fn naming(&self) -> Naming;
}

/// Examples as layers read them.
pub(super) struct Reading {
    pub(super) batch: Batch,
    pub(super) layout: Layout,
    /// How far heads are turned at each token, where positions are rotated.
    pub(super) angles: Option<Angles>,
}

/// Some examples of an optimiser step.
#[derive(Debug, Clone, Copy)]
pub(super) struct Part<'a> {
    pub(super) data: &'a PreparedData,
    /// Their numbers within the epoch.
    pub(super) chosen: &'a [usize],
    /// Examples of the whole step, of which each weighs the same.
    pub(super) step_examples: usize,
    /// What rows of each label weigh, and the examples of the whole step together, where they do not weigh the same.
    pub(super) weights: Option<(&'a [f32], f64)>,
    /// The run's seed.
    pub(super) seed: u64,
    /// The epoch, counted from 0.
    pub(super) epoch: u64,
    /// Share of the target probability that is spread over all classes.
    pub(super) smoothing: f64,
}

/// What an evaluation looks at.
#[derive(Debug, Clone, Copy)]
pub(super) struct Extent {
    pub(super) split: Split,
    /// Examples per batch.
    pub(super) batch: usize,
    /// Most examples; `None`: all.
    pub(super) limit: Option<usize>,
}

impl Extent {
    /// The examples of `all` that are looked at: spread evenly.
    pub(super) fn chosen(&self, all: usize) -> Vec<usize> {
        let count = self.limit.unwrap_or(all).min(all);
        (0..count).map(|number| number * all / count).collect()
    }
}

/// Keys of `config.json` that are no part of the parameters' shapes.
const NO_SHAPE: [&str; 11] = [
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

/// Whether two models' parameters can be exchanged.
pub(super) fn same_shape(one: &dyn Model, other: &dyn Model) -> bool {
    let shape = |model: &dyn Model| {
        let mut config = model.config();
        if let Some(config) = config.as_object_mut() {
            config.retain(|key, _| !NO_SHAPE.contains(&key.as_str()));
        }
        config
    };
    shape(one) == shape(other)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::{DECODER_TYPES, ENCODER_TYPES, TRAINER_TASKS};

    #[test]
    fn every_task_that_is_listed_can_be_trained_and_reads_its_own_models() {
        for line in TRAINER_TASKS {
            assert_eq!(task(line.kind).kind(), line.kind);
            assert_eq!(line.kind.line().name, line.name);
            assert_eq!(serde_json::to_value(line.kind).unwrap(), line.name);
        }
        assert_eq!(TASKS.len(), TRAINER_TASKS.len());
        assert_eq!(task(TaskKind::TextClassification).model_types(), ENCODER_TYPES);
        assert_eq!(task(TaskKind::LanguageModeling).model_types(), DECODER_TYPES);
    }

    #[test]
    fn a_model_of_an_unknown_type_is_refused_with_those_known() {
        let config = serde_json::json!({"model_type": "t5"});
        let problem = read_model(config.as_object().unwrap().clone()).err().unwrap();
        assert_eq!(
            problem,
            "has `model_type` = \"t5\"; known are `bert`, `distilbert`, `gpt2`, `hpsearch-encoder`, `llama`, `mistral`, `modernbert`, `qwen2`, `qwen3`, `roberta`"
        );
    }

    #[test]
    fn a_limited_evaluation_spreads_over_the_whole_split() {
        let extent = |limit| Extent { split: Split::Validation, batch: 8, limit };
        assert_eq!(extent(Some(3)).chosen(10), [0, 3, 6]);
        assert_eq!(extent(Some(30)).chosen(3), [0, 1, 2]);
        assert_eq!(extent(None).chosen(2), [0, 1]);
        assert!(extent(None).chosen(0).is_empty());
    }
}
