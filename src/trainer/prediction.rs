//! Labels texts with an exported model.

use std::any::Any;
use std::path::Path;

use serde::{Deserialize, Serialize};
use tokenizers::Tokenizer;

use super::batch::{Batch, cut};
use super::checkpoint::ModelFiles;
use super::classification::Classifier;
use super::evaluation::BATCH;
use super::layers::Pass;
use super::metrics::log_softmax;
use super::pace::{Pace, Ticker};
use super::parameters::host;
use super::vocabulary::encode;
use super::{TrainerError, device};

/// The labels of one text.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Prediction {
    /// Every label with its probability, the most likely first.
    pub labels: Vec<ScoredLabel>,
}

/// A label and its probability.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ScoredLabel {
    /// The label as it stands in the data.
    pub label: String,
    /// Its probability, in [0, 1].
    pub score: f64,
}

/// Labels `texts`, in their order, with the model in `directory`: `model.safetensors`, `config.json` and `tokenizer.json` suffice. `ticker` is told
/// how far it is.
///
/// # Errors
/// A missing or damaged file, an unusable device.
pub fn predict(directory: &Path, texts: &[String], device: &str, ticker: Ticker<'_>) -> Result<Vec<Prediction>, TrainerError> {
    let device = device::open(device)?;
    let files = ModelFiles::load(directory, &device)?;
    let model: Box<dyn Any> = files.model;
    let Ok(model) = model.downcast::<Classifier>() else {
        return Err(TrainerError::checkpoint(directory, "it is no classifier: `hpsearch generate` lets it write"));
    };
    let tokenizer = Tokenizer::from_bytes(&files.tokenizer).map_err(TrainerError::tokenizer)?;
    let labels = model.architecture.labels();
    let max_length = model.architecture.max_position_embeddings;
    let pace = Pace::new(ticker, texts.len() as u64);
    pace.stage("labelling texts", texts.len() as u64);
    let (mut predictions, all) = (Vec::with_capacity(texts.len()), texts.len());
    for texts in texts.chunks(BATCH) {
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let ids = encode(&tokenizer, &texts)?.into_iter().map(|ids| cut(ids, max_length)).collect();
        let batch = Batch::new(ids);
        let logits = host(model.encoder.forward(&Pass::inference(&files.values, &device), &batch))?;
        predictions.extend(logits.chunks(labels.len()).map(|logits| prediction(&labels, logits)));
        pace.at(predictions.len(), all);
    }
    Ok(predictions)
}

fn prediction(labels: &[String], logits: &[f32]) -> Prediction {
    let scores = log_softmax(logits).into_iter().map(f64::exp);
    let mut labels: Vec<ScoredLabel> = labels.iter().cloned().zip(scores).map(|(label, score)| ScoredLabel { label, score }).collect();
    labels.sort_by(|a, b| b.score.total_cmp(&a.score));
    Prediction { labels }
}
