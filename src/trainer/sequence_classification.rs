//! The tasks of whole texts: single-label and multi-label classification, and regression
//! (transformers' `AutoModelForSequenceClassification`).

use burn::tensor::{Tensor, activation};

use super::atomic_directory::AtomicDirectory;
use super::batch::Batch;
use super::encoder::{EncoderConfig, SequenceHead};
use super::encoder_model::{EncoderHead, EncoderModel};
use super::floats::real;
use super::labelled;
use super::layers::{ForwardContext, HiddenStates, cross_entropy, weighted_cross_entropy};
use super::metrics::{ClassificationMetrics, Metrics, MultiLabelMetrics, RegressionMetrics};
use super::parameters::{Parameters, host, tensor};
use super::prepared::{Description, TokenRows};
use super::sources::Sources;
use super::task::{EvaluationSet, MicroBatch, ModelInput};
use super::{PreparedData, Split, TrainerError};
use hpsearch_core::arguments::TaskKind;
use hpsearch_core::study::class_report::ClassReport;

/// A classification or regression head.
pub(super) struct SequenceClassification(SequenceHead);

impl EncoderModel<SequenceClassification> {
    /// The logits of a batch, `[texts, labels]`.
    pub(super) fn logits(&self, context: &ForwardContext, batch: &Batch) -> Tensor<2> {
        let x = self.encoder.forward(context, batch);
        let pooled = self.encoder.pool(context, batch, x, self.encoder.pooling());
        self.head.0.forward(context, pooled)
    }

    /// The target of a row: one number for each label.
    fn target(&self, data: &PreparedData, rows: &TokenRows, row: usize) -> Vec<f32> {
        match self.architecture.shape.task {
            TaskKind::TextRegression => vec![rows.number_of(row)],
            _ => data.label_set(rows.label(row)),
        }
    }
}

impl EncoderHead for SequenceClassification {
    fn prepare(
        kind: TaskKind,
        sources: &Sources<'_>,
        staged: &AtomicDirectory,
    ) -> Result<Description, TrainerError> {
        labelled::prepare(sources, kind, staged)
    }

    fn new(list: &mut Parameters, config: &EncoderConfig) -> Self {
        Self(SequenceHead::new(list, config))
    }

    fn loss(
        model: &EncoderModel<Self>,
        context: &ForwardContext,
        x: HiddenStates,
        input: &ModelInput,
        micro_batch: &MicroBatch<'_>,
    ) -> Tensor<1> {
        let train = micro_batch.data.split(Split::Train);
        let share = 1.0 / real(micro_batch.step_targets);
        let pooled = model.encoder.pool(context, &input.batch, x, model.encoder.pooling());
        let logits = model.head.0.forward(context, pooled);
        let task = model.architecture.shape.task;
        if task == TaskKind::TextClassification {
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
            .flat_map(|row| model.target(micro_batch.data, train, *row))
            .collect();
        let targets = tensor(targets, logits.dims(), context.device);
        let share = share / real(logits.dims()[1]);
        match task {
            TaskKind::TextRegression => squared_error(logits, targets) * share,
            _ => binary_cross_entropy(logits, targets) * share,
        }
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
        let shape = &model.architecture.shape;
        let (rows, labels) = (data.split(set.split), shape.labels.len());
        let (mut single_label, mut multi_label) =
            (ClassificationMetrics::new(labels), MultiLabelMetrics::new(labels));
        let mut regression = RegressionMetrics::default();
        model.for_each_batch(data, set, on_progress, |chosen, batch| {
            let logits = host(model.logits(context, &batch))?;
            for (row, logits) in chosen.iter().zip(logits.chunks(labels)) {
                match shape.task {
                    TaskKind::TextRegression => regression.add(logits[0], rows.number_of(*row)),
                    TaskKind::MultiLabelClassification => {
                        multi_label.add(logits, &model.target(data, rows, *row))
                    }
                    _ => single_label.add(logits, rows.label(*row)),
                }
            }
            Ok(())
        })?;
        Ok(match shape.task {
            TaskKind::TextRegression => (regression.compute(), None),
            TaskKind::MultiLabelClassification => {
                (multi_label.compute(), Some(multi_label.by_label(&shape.labels)))
            }
            _ => (single_label.compute(), Some(single_label.by_class(&shape.labels))),
        })
    }

    fn is_compatible(config: &EncoderConfig, data: &PreparedData) -> bool {
        config.shape.labels == data.labels() || config.shape.task == TaskKind::TextRegression
    }
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
