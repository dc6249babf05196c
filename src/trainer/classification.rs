//! The tasks of encoders: one label per text, any number of labels per text, or a number per text.

use std::collections::BTreeMap;
use std::path::Path;

use burn::tensor::{Device, Tensor, activation};
use serde_json::{Map, Value};

use super::batch::Batch;
use super::durable::Draft;
use super::encoder::{Architecture, Encoder};
use super::families::encoders::ENCODERS;
use super::labelled;
use super::layers::{Pass, Rows, cross_entropy, weighted_cross_entropy};
use super::metrics::Tally;
use super::parameters::{Parameters, Values, host, tensor};
use super::preparation::Sources;
use super::prepared::{Description, TokenRows};
use super::pretrained::Naming;
use super::scores::{LabelSets, Numbers};
use super::task::{Extent, Model, Part, Reading, Task};
use super::{PreparedData, Split, TrainerError};
use crate::arguments::{ModelArguments, TaskKind};

/// One of the tasks.
pub(super) struct Classification(pub(super) TaskKind);

impl Task for Classification {
    fn kind(&self) -> TaskKind {
        self.0
    }

    fn prepare(&self, sources: &Sources<'_>, draft: &Draft) -> Result<Description, TrainerError> {
        labelled::prepare(sources, self.0, draft)
    }

    fn model(&self, arguments: &ModelArguments, data: &PreparedData) -> Result<Box<dyn Model>, TrainerError> {
        let Some(directory) = &arguments.pretrained else {
            let architecture = Architecture::new(arguments, self.0, data.labels(), data.vocab_size(), data.max_length());
            let architecture =
                architecture.map_err(|message| TrainerError::Arguments { message: format!("the model that the arguments ask for {message}") })?;
            return Ok(Box::new(Classifier::new(architecture)));
        };
        let wrong = |message: String| TrainerError::model(Path::new(directory), format!("`config.json` {message}"));
        let mut architecture = Architecture::read(data.pretrained_config()?).map_err(wrong)?;
        let trained_for = architecture.trained_for();
        architecture.adapt(arguments, self.0, data.labels());
        Ok(Box::new(Classifier { trained_for, ..Classifier::new(architecture) }))
    }

    fn model_types(&self) -> Vec<&'static str> {
        ENCODERS.iter().map(|family| family.model_type).collect()
    }

    fn read(&self, config: Map<String, Value>) -> Result<Box<dyn Model>, String> {
        Ok(Box::new(Classifier::new(Architecture::read(config)?)))
    }
}

/// An encoder with its shape and its parameter list.
pub(super) struct Classifier {
    pub(super) architecture: Architecture,
    pub(super) encoder: Encoder,
    parameters: Parameters,
    /// The labels of the model that this one starts from, if it had a head.
    trained_for: Option<(TaskKind, Vec<String>)>,
}

impl Classifier {
    fn new(architecture: Architecture) -> Self {
        let (encoder, parameters) = Encoder::new(&architecture);
        Self { architecture, encoder, parameters, trained_for: None }
    }

    /// The true labels of a row as numbers, one for each label.
    fn truth(&self, data: &PreparedData, rows: &TokenRows, row: usize) -> Vec<f32> {
        match self.architecture.shape.task {
            TaskKind::TextRegression => vec![rows.number_of(row)],
            _ => data.label_set(rows.label(row)),
        }
    }
}

impl Model for Classifier {
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
        data.split(Split::Train).length(example).min(self.architecture.longest())
    }

    fn repeats(&self) -> bool {
        true
    }

    fn reading(&self, part: &Part<'_>) -> Reading {
        let batch = Batch::of(part.data.split(Split::Train), part.chosen, self.architecture.longest());
        Reading { layout: batch.layout(), batch, angles: None }
    }

    fn begin(&self, pass: &Pass, reading: &Reading) -> Rows {
        self.encoder.begin(pass, &reading.batch)
    }

    fn layers(&self) -> usize {
        self.encoder.layers()
    }

    fn layer(&self, pass: &Pass, number: usize, x: Rows, reading: &Reading) -> Rows {
        self.encoder.layer(pass, number, x, &reading.layout)
    }

    fn finish(&self, pass: &Pass, x: Rows, reading: &Reading, part: &Part<'_>) -> Tensor<1> {
        let train = part.data.split(Split::Train);
        #[expect(clippy::cast_precision_loss, reason = "rows of a step")]
        let share = 1.0 / part.step_examples as f64;
        let logits = self.encoder.finish(pass, x, &reading.batch);
        if self.architecture.shape.task == TaskKind::TextClassification {
            let targets: Vec<u32> = part.chosen.iter().filter_map(|row| u32::try_from(train.label(*row)).ok()).collect();
            return match part.weights {
                Some((weights, all)) => weighted_cross_entropy(logits, &targets, weights, part.smoothing, 1.0 / all),
                None => cross_entropy(logits, targets.into(), part.smoothing, share),
            };
        }
        let truth: Vec<f32> = part.chosen.iter().flat_map(|row| self.truth(part.data, train, *row)).collect();
        let truth = tensor(truth, logits.dims(), pass.device);
        #[expect(clippy::cast_precision_loss, reason = "a number of labels")]
        let share = share / logits.dims()[1] as f64;
        match self.architecture.shape.task {
            TaskKind::TextRegression => squared_error(logits, truth) * share,
            _ => binary_cross_entropy(logits, truth) * share,
        }
    }

    fn measure(
        &self,
        values: &Values,
        device: &Device,
        data: &PreparedData,
        extent: &Extent,
        told: &dyn Fn(usize, usize),
    ) -> Result<BTreeMap<&'static str, f64>, TrainerError> {
        let (rows, labels) = (data.split(extent.split), self.architecture.shape.labels.len());
        // Rows of one length share a batch, so that little is padding.
        let mut order = extent.chosen(rows.len());
        order.sort_by_key(|row| rows.length(*row));
        let (task, mut done) = (self.architecture.shape.task, 0);
        let (mut tally, mut sets, mut numbers) = (Tally::new(labels), LabelSets::new(labels), Numbers::default());
        for chosen in order.chunks(extent.batch) {
            let batch = Batch::of(rows, chosen, self.architecture.longest());
            let logits = host(self.encoder.forward(&Pass::inference(values, device), &batch))?;
            for (row, logits) in chosen.iter().zip(logits.chunks(labels)) {
                match task {
                    TaskKind::TextRegression => numbers.add(logits[0], rows.number_of(*row)),
                    TaskKind::MultiLabelClassification => sets.add(logits, &self.truth(data, rows, *row)),
                    _ => tally.add(logits, rows.label(*row)),
                }
            }
            done += chosen.len();
            told(done, order.len());
        }
        Ok(match task {
            TaskKind::TextRegression => numbers.metrics(),
            TaskKind::MultiLabelClassification => sets.metrics(),
            _ => {
                let metrics = tally.metrics();
                [("loss", metrics.loss), ("accuracy", metrics.accuracy), ("macro_f1", metrics.macro_f1)].into()
            }
        })
    }

    fn suits(&self, data: &PreparedData) -> bool {
        self.architecture.shape.labels == data.labels() || self.architecture.shape.task == TaskKind::TextRegression
    }

    fn limits(&self) -> (usize, usize) {
        (self.architecture.shape.vocabulary, self.architecture.longest())
    }

    fn naming(&self) -> Naming {
        let shape = &self.architecture.shape;
        // Labels without names are taken for those of the data, as transformers does.
        let same = |(task, labels): &(TaskKind, Vec<String>)| {
            *task == shape.task && labels.len() == shape.labels.len() && (*labels == shape.labels || nameless(labels))
        };
        Naming {
            prefix: self.architecture.family.prefix,
            layers: self.architecture.family.names.layer,
            keeps_labels: self.trained_for.as_ref().is_none_or(same),
            labels: self.trained_for.as_ref().map_or_else(Vec::new, |(_, labels)| labels.clone()),
        }
    }
}

/// Whether labels are called as transformers calls those that nobody named.
fn nameless(labels: &[String]) -> bool {
    labels.iter().enumerate().all(|(id, label)| *label == format!("LABEL_{id}"))
}

/// The sum of the squared differences, `[1]`.
pub(super) fn squared_error(logits: Tensor<2>, truth: Tensor<2>) -> Tensor<1> {
    (logits - truth).square().sum()
}

/// The sum of the binary cross-entropies of logits with truths of 0 or 1, `[1]`: `max(x, 0) - x y + log(1 + exp(-|x|))`, as PyTorch's
/// `binary_cross_entropy_with_logits`.
pub(super) fn binary_cross_entropy(logits: Tensor<2>, truth: Tensor<2>) -> Tensor<1> {
    let tail = (logits.clone().abs().neg().exp() + 1.0).log();
    (activation::relu(logits.clone()) - logits * truth + tail).sum()
}
