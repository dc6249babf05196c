//! Labels texts with an exported model.

use std::path::Path;

use super::batch::Batch;
use super::checkpoint::{SavedModel, unusable_tokenizer};
use super::layers::ForwardContext;
use super::metrics::log_softmax;
use super::parameters::host;
use super::progress::{Progress, ProgressCallback};
use super::encoder_model::EncoderModel;
use super::sequence_classification::SequenceClassification;
use super::tokenizer_file::{SpecialTokens, encode_portions};
use super::{TrainerError, device};
use hpsearch_core::arguments::TaskKind;
use serde::{Deserialize, Serialize};

/// The labels of one text.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Prediction {
    /// Every label with its probability, the most likely first; of a regression model its only
    /// label.
    pub labels: Vec<ScoredLabel>,
}

/// A label and its probability.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ScoredLabel {
    /// The label as in the data.
    pub label: String,
    /// Its probability, in [0, 1]; of a regression model, the predicted number.
    pub score: f64,
}

/// Labels `texts`, in their order and `batch` of them at once, with the model in `directory`:
/// `model.safetensors`, `config.json` and `tokenizer.json` suffice.
///
/// # Errors
/// A missing or damaged file, an unusable device.
pub fn predict(
    directory: &Path,
    texts: &[String],
    batch: usize,
    device: &str,
    on_progress: ProgressCallback<'_>,
) -> Result<Vec<Prediction>, TrainerError> {
    let device = device::open(device)?;
    let otherwise = "it is a language model and predicts no labels: use `hpsearch generate`";
    let (model, values, tokenizer) =
        SavedModel::load_as::<EncoderModel<SequenceClassification>>(directory, &device, otherwise)?;
    let context = ForwardContext::evaluation(&values, &device);
    let (labels, task) = (&model.architecture.shape.labels, model.architecture.shape.task);
    let max_length = model.architecture.max_tokens();
    let progress = Progress::new(on_progress, texts.len() as u64);
    progress.begin_stage("labelling texts", texts.len() as u64);
    let (mut predictions, all) = (Vec::with_capacity(texts.len()), texts.len());
    for texts in texts.chunks(batch.max(1)) {
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let ids = encode_portions(&tokenizer, &texts, SpecialTokens::Add, &mut |_| {})
            .map_err(|error| unusable_tokenizer(directory)(error.into()))?;
        let batch = Batch::truncated(ids.into_iter(), max_length);
        let logits = host(model.logits(&context, &batch))?;
        predictions
            .extend(logits.chunks(labels.len()).map(|logits| prediction(task, labels, logits)));
        progress.update(predictions.len(), all);
    }
    Ok(predictions)
}

fn prediction(task: TaskKind, labels: &[String], logits: &[f32]) -> Prediction {
    let scores: Vec<f64> = match task {
        TaskKind::TextRegression => logits.iter().map(|number| f64::from(*number)).collect(),
        TaskKind::MultiLabelClassification => {
            logits.iter().map(|logit| 1.0 / (1.0 + (-f64::from(*logit)).exp())).collect()
        }
        _ => log_softmax(logits).into_iter().map(f64::exp).collect(),
    };
    let scored = labels.iter().cloned().zip(scores);
    let mut labels: Vec<_> = scored.map(|(label, score)| ScoredLabel { label, score }).collect();
    labels.sort_by(|a, b| b.score.total_cmp(&a.score));
    Prediction { labels }
}
