//! Labels texts with an exported model.

use std::any::Any;
use std::path::Path;

use super::batch::{Batch, truncate};
use super::checkpoint::SavedModel;
use super::layers::ForwardContext;
use super::metrics::log_softmax;
use super::model_directory::check_tokens;
use super::parameters::host;
use super::progress::{Progress, ProgressCallback};
use super::sequence_classification::SequenceClassifier;
use super::vocabulary::encode;
use super::{TrainerError, device, tokenizer_file};
use crate::arguments::TaskKind;
use serde::{Deserialize, Serialize};

/// The labels of one text.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Prediction {
    /// Every label with its probability, the most likely first; of a model that tells a number the one label that it has.
    pub labels: Vec<ScoredLabel>,
}

/// A label and its probability.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ScoredLabel {
    /// The label as it stands in the data.
    pub label: String,
    /// Its probability, in [0, 1]; where the model tells a number, that number.
    pub score: f64,
}

/// Labels `texts`, in their order and `batch` of them at once, with the model in `directory`: `model.safetensors`, `config.json` and
/// `tokenizer.json` suffice. `on_progress` is told how far it is.
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
    let files = SavedModel::load(directory, &device)?;
    let model: Box<dyn Any> = files.model;
    let Ok(model) = model.downcast::<SequenceClassifier>() else {
        return Err(TrainerError::checkpoint(
            directory,
            "it is no classifier: `hpsearch generate` lets it write",
        ));
    };
    let unusable = |error: tokenizers::Error| {
        TrainerError::checkpoint(directory, format!("`tokenizer.json` cannot be used: {error}"))
    };
    let mut tokenizer = tokenizer_file::read(&files.tokenizer).map_err(unusable)?;
    check_tokens(directory, &tokenizer, model.architecture.shape.vocabulary)?;
    // Padding would be read as text.
    tokenizer.with_padding(None);
    let (labels, task) = (&model.architecture.shape.labels, model.architecture.shape.task);
    let max_length = model.architecture.max_tokens();
    let progress = Progress::new(on_progress, texts.len() as u64);
    progress.begin_stage("labelling texts", texts.len() as u64);
    let (mut predictions, all) = (Vec::with_capacity(texts.len()), texts.len());
    for texts in texts.chunks(batch.max(1)) {
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let ids = encode(&tokenizer, &texts)
            .map_err(|error| unusable(error.into()))?
            .into_iter()
            .map(|ids| truncate(ids, max_length))
            .collect();
        let batch = Batch::new(ids);
        let logits = host(
            model.encoder.forward(&ForwardContext::evaluation(&files.values, &device), &batch),
        )?;
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
    let mut labels: Vec<ScoredLabel> = labels
        .iter()
        .cloned()
        .zip(scores)
        .map(|(label, score)| ScoredLabel { label, score })
        .collect();
    labels.sort_by(|a, b| b.score.total_cmp(&a.score));
    Prediction { labels }
}
