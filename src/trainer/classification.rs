//! The task text-classification: one label per text.

use std::collections::BTreeMap;

use burn::tensor::{Device, Tensor};
use serde_json::Value;

use super::batch::Batch;
use super::durable::Draft;
use super::encoder::{Architecture, Encoder, MODEL_TYPE};
use super::labelled;
use super::layers::{Pass, cross_entropy};
use super::metrics::Tally;
use super::parameters::{Parameters, Values, host};
use super::preparation::Sources;
use super::prepared::Description;
use super::task::{Extent, Model, Part, Task};
use super::{PreparedData, Split, TrainerError};
use crate::arguments::{ModelArguments, TaskKind};

/// The task.
pub(super) struct Classification;

impl Task for Classification {
    fn kind(&self) -> TaskKind {
        TaskKind::TextClassification
    }

    fn prepare(&self, sources: &Sources<'_>, draft: &Draft) -> Result<Description, TrainerError> {
        labelled::prepare(sources, draft)
    }

    fn model(&self, arguments: &ModelArguments, data: &PreparedData) -> Box<dyn Model> {
        Box::new(Classifier::new(Architecture::new(arguments, data.labels(), data.vocab_size(), data.max_length())))
    }

    fn model_type(&self) -> &'static str {
        MODEL_TYPE
    }

    fn read(&self, config: Value) -> Result<Box<dyn Model>, String> {
        let architecture: Architecture = serde_json::from_value(config).map_err(|error| error.to_string())?;
        match architecture.problem() {
            Some(problem) => Err(problem),
            None => Ok(Box::new(Classifier::new(architecture))),
        }
    }
}

/// An encoder with its shape and its parameter list.
pub(super) struct Classifier {
    pub(super) architecture: Architecture,
    pub(super) encoder: Encoder,
    parameters: Parameters,
}

impl Classifier {
    fn new(architecture: Architecture) -> Self {
        let (encoder, parameters) = Encoder::new(&architecture);
        Self { architecture, encoder, parameters }
    }
}

impl Model for Classifier {
    fn config(&self) -> Value {
        serde_json::to_value(&self.architecture).expect("a shape is plain data with string keys")
    }

    fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    fn examples(&self, data: &PreparedData, split: Split) -> usize {
        data.rows(split)
    }

    fn loss(&self, pass: &Pass, part: &Part<'_>) -> Tensor<1> {
        let train = part.data.split(Split::Train);
        let batch = Batch::of(train, part.chosen, self.architecture.max_position_embeddings);
        let targets = part.chosen.iter().filter_map(|row| u32::try_from(train.label(*row)).ok()).collect();
        #[expect(clippy::cast_precision_loss, reason = "rows of a step")]
        let share = 1.0 / part.step_examples as f64;
        cross_entropy(self.encoder.forward(pass, &batch), targets, part.smoothing, share)
    }

    fn measure(
        &self,
        values: &Values,
        device: &Device,
        data: &PreparedData,
        extent: &Extent,
        told: &dyn Fn(usize, usize),
    ) -> Result<BTreeMap<&'static str, f64>, TrainerError> {
        let (rows, labels) = (data.split(extent.split), data.labels().len());
        // Rows of one length share a batch, so that little is padding.
        let mut order = extent.chosen(rows.len());
        order.sort_by_key(|row| rows.length(*row));
        let (mut tally, mut done) = (Tally::new(labels), 0);
        for chosen in order.chunks(extent.batch) {
            let batch = Batch::of(rows, chosen, self.architecture.max_position_embeddings);
            let logits = host(self.encoder.forward(&Pass::inference(values, device), &batch))?;
            for (row, logits) in chosen.iter().zip(logits.chunks(labels)) {
                tally.add(logits, rows.label(*row));
            }
            done += chosen.len();
            told(done, order.len());
        }
        let metrics = tally.metrics();
        Ok([("loss", metrics.loss), ("accuracy", metrics.accuracy), ("macro_f1", metrics.macro_f1)].into())
    }

    fn suits(&self, data: &PreparedData) -> bool {
        self.architecture.labels() == data.labels()
    }
}
