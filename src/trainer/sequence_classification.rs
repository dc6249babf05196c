//! The tasks of encoders: single-label and multi-label classification, and regression
//! (transformers' `AutoModelForSequenceClassification`).

use burn::tensor::{Device, Tensor, activation};
use serde_json::{Map, Value};

use super::atomic_directory::AtomicDirectory;
use super::batch::Batch;
use super::encoder::{Encoder, EncoderConfig};
use super::families::encoders::ENCODERS;
use super::floats::real;
use super::labelled;
use super::layers::{ForwardContext, HiddenStates, cross_entropy, weighted_cross_entropy};
use super::metrics::{ClassificationMetrics, Metrics, MultiLabelMetrics, RegressionMetrics};
use super::parameters::{Parameters, Values, host, tensor};
use super::prepared::{Description, TokenRows};
use super::sources::Sources;
use super::task::{EvaluationSet, MicroBatch, Model, ModelInput, Task, TensorNames};
use super::{PreparedData, Split, TrainerError};
use hpsearch_core::arguments::{ModelArguments, TaskKind};

/// One of these tasks.
pub(super) struct SequenceClassification(pub(super) TaskKind);

impl Task for SequenceClassification {
    fn kind(&self) -> TaskKind {
        self.0
    }

    fn prepare(
        &self,
        sources: &Sources<'_>,
        staged: &AtomicDirectory,
    ) -> Result<Description, TrainerError> {
        labelled::prepare(sources, self.0, staged)
    }

    fn new_model(
        &self,
        arguments: &ModelArguments,
        data: &PreparedData,
    ) -> Result<Box<dyn Model>, String> {
        let architecture = EncoderConfig::new(
            arguments,
            self.0,
            data.labels(),
            data.vocab_size(),
            data.max_length(),
        )?;
        Ok(Box::new(SequenceClassifier::new(architecture)))
    }

    fn pretrained_model(
        &self,
        config: Map<String, Value>,
        arguments: &ModelArguments,
        data: &PreparedData,
    ) -> Result<Box<dyn Model>, String> {
        let mut architecture = EncoderConfig::read(config)?;
        let trained_for = architecture.trained_for();
        architecture.adapt(arguments, self.0, data.labels());
        Ok(Box::new(SequenceClassifier { trained_for, ..SequenceClassifier::new(architecture) }))
    }

    fn model_types(&self) -> Vec<&'static str> {
        ENCODERS.iter().map(|family| family.model_type).collect()
    }

    fn read_model(&self, config: Map<String, Value>) -> Result<Box<dyn Model>, String> {
        Ok(Box::new(SequenceClassifier::new(EncoderConfig::read(config)?)))
    }
}

/// An encoder with a classification or regression head.
pub(super) struct SequenceClassifier {
    pub(super) architecture: EncoderConfig,
    pub(super) encoder: Encoder,
    parameters: Parameters,
    /// Task and labels of the pretrained model, if it has a head.
    trained_for: Option<(TaskKind, Vec<String>)>,
}

impl SequenceClassifier {
    fn new(architecture: EncoderConfig) -> Self {
        let (encoder, parameters) = Encoder::new(&architecture);
        Self { architecture, encoder, parameters, trained_for: None }
    }

    /// The target of a row: one number for each label.
    fn target(&self, data: &PreparedData, rows: &TokenRows, row: usize) -> Vec<f32> {
        match self.architecture.shape.task {
            TaskKind::TextRegression => vec![rows.number_of(row)],
            _ => data.label_set(rows.label(row)),
        }
    }
}

impl Model for SequenceClassifier {
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
        data.rows(split)
    }

    fn length(&self, data: &PreparedData, example: usize) -> usize {
        data.split(Split::Train).length(example).min(self.architecture.max_tokens())
    }

    fn examples_are_fixed(&self) -> bool {
        true
    }

    fn input(&self, micro_batch: &MicroBatch<'_>) -> ModelInput {
        let rows = micro_batch.data.split(Split::Train);
        let batch = Batch::truncated(
            micro_batch.chosen.iter().map(|row| rows.ids(*row).collect()),
            self.architecture.max_tokens(),
        );
        ModelInput { layout: batch.layout(), batch, angles: None }
    }

    fn embed(&self, context: &ForwardContext, input: &ModelInput) -> HiddenStates {
        self.encoder.begin(context, &input.batch)
    }

    fn layers(&self) -> usize {
        self.encoder.layers()
    }

    fn layer(
        &self,
        context: &ForwardContext,
        number: usize,
        x: HiddenStates,
        input: &ModelInput,
    ) -> HiddenStates {
        self.encoder.layer(context, number, x, &input.layout)
    }

    fn loss(
        &self,
        context: &ForwardContext,
        x: HiddenStates,
        input: &ModelInput,
        micro_batch: &MicroBatch<'_>,
    ) -> Tensor<1> {
        let train = micro_batch.data.split(Split::Train);
        let share = 1.0 / real(micro_batch.step_examples);
        let logits = self.encoder.finish(context, x, &input.batch);
        if self.architecture.shape.task == TaskKind::TextClassification {
            let targets: Vec<u32> = micro_batch
                .chosen
                .iter()
                .filter_map(|row| u32::try_from(train.label(*row)).ok())
                .collect();
            return match micro_batch.weights {
                Some((weights, all)) => weighted_cross_entropy(
                    logits,
                    &targets,
                    weights,
                    micro_batch.smoothing,
                    1.0 / all,
                ),
                None => cross_entropy(logits, targets.into(), micro_batch.smoothing, share),
            };
        }
        let targets: Vec<f32> = micro_batch
            .chosen
            .iter()
            .flat_map(|row| self.target(micro_batch.data, train, *row))
            .collect();
        let targets = tensor(targets, logits.dims(), context.device);
        let share = share / real(logits.dims()[1]);
        match self.architecture.shape.task {
            TaskKind::TextRegression => squared_error(logits, targets) * share,
            _ => binary_cross_entropy(logits, targets) * share,
        }
    }

    fn measure(
        &self,
        values: &Values,
        device: &Device,
        data: &PreparedData,
        set: &EvaluationSet,
        on_progress: &dyn Fn(usize, usize),
    ) -> Result<Metrics, TrainerError> {
        let (rows, labels) = (data.split(set.split), self.architecture.shape.labels.len());
        // Rows are sorted by length, so that little is padding.
        let mut order = set.chosen(rows.len());
        order.sort_by_key(|row| rows.length(*row));
        let (task, mut done) = (self.architecture.shape.task, 0);
        let (mut single_label, mut multi_label) =
            (ClassificationMetrics::new(labels), MultiLabelMetrics::new(labels));
        let mut regression = RegressionMetrics::default();
        for chosen in order.chunks(set.batch) {
            let batch = Batch::truncated(
                chosen.iter().map(|row| rows.ids(*row).collect()),
                self.architecture.max_tokens(),
            );
            let logits =
                host(self.encoder.forward(&ForwardContext::evaluation(values, device), &batch))?;
            for (row, logits) in chosen.iter().zip(logits.chunks(labels)) {
                match task {
                    TaskKind::TextRegression => regression.add(logits[0], rows.number_of(*row)),
                    TaskKind::MultiLabelClassification => {
                        multi_label.add(logits, &self.target(data, rows, *row))
                    }
                    _ => single_label.add(logits, rows.label(*row)),
                }
            }
            done += chosen.len();
            on_progress(done, order.len());
        }
        Ok(match task {
            TaskKind::TextRegression => regression.compute(),
            TaskKind::MultiLabelClassification => multi_label.compute(),
            _ => single_label.compute(),
        })
    }

    fn is_compatible(&self, data: &PreparedData) -> bool {
        self.architecture.shape.labels == data.labels()
            || self.architecture.shape.task == TaskKind::TextRegression
    }

    fn limits(&self) -> (usize, usize) {
        (self.architecture.shape.vocabulary, self.architecture.max_tokens())
    }

    fn tensor_names(&self) -> TensorNames {
        let shape = &self.architecture.shape;
        // Unnamed labels are taken for those of the data, as transformers does.
        let same = |(task, labels): &(TaskKind, Vec<String>)| {
            *task == shape.task
                && labels.len() == shape.labels.len()
                && (*labels == shape.labels || are_unnamed(labels))
        };
        TensorNames {
            prefix: self.architecture.family.prefix,
            layers: self.architecture.family.names.layer,
            keeps_labels: self.trained_for.as_ref().is_none_or(same),
            labels: self.trained_for.as_ref().map_or_else(Vec::new, |(_, labels)| labels.clone()),
        }
    }
}

/// Whether labels have transformers' default names.
fn are_unnamed(labels: &[String]) -> bool {
    labels.iter().enumerate().all(|(id, label)| *label == format!("LABEL_{id}"))
}

/// The sum of the squared differences, `[1]`.
pub(super) fn squared_error(logits: Tensor<2>, targets: Tensor<2>) -> Tensor<1> {
    (logits - targets).square().sum()
}

/// The sum of the binary cross-entropies of logits with targets of 0 or 1, `[1]`:
/// `max(x, 0) - x y + log(1 + exp(-|x|))`, as PyTorch's `binary_cross_entropy_with_logits`.
pub(super) fn binary_cross_entropy(logits: Tensor<2>, targets: Tensor<2>) -> Tensor<1> {
    let tail = (logits.clone().abs().neg().exp() + 1.0).log();
    (activation::relu(logits.clone()) - logits * targets + tail).sum()
}
