//! Labels texts, finds entities in them, tells their hidden tokens, or writes texts for them, with
//! an exported model.

mod answers;
mod entities;
mod masks;
mod texts;
mod vectors;

use std::any::Any;
use std::path::Path;

use burn::tensor::Device;
use serde::{Deserialize, Serialize};
use tokenizers::{PostProcessor as _, Tokenizer, TruncationParams};

use super::batch::Batch;
use super::checkpoint::{SavedModel, unusable_tokenizer};
use super::encoder_model::EncoderModel;
use super::layers::ForwardContext;
use super::masked_language_modeling::MaskedLanguageModeling;
use super::metrics::log_softmax;
use super::parameters::{Values, host};
use super::progress::{Progress, ProgressCallback};
use super::question_answering::QuestionAnswering;
use super::sentence_similarity::SentenceSimilarity;
use super::sequence_classification::SequenceClassification;
use super::sequence_to_sequence::SequenceToSequenceModel;
use super::token_classification::TokenClassification;
use super::tokenizer_file::{SpecialTokens, encode_pairs, encode_portions};
use super::{TrainerError, device, model_directory};
use hpsearch_core::arguments::{TaskKind, WritingOptions};

/// What a model says about one text.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Prediction {
    /// Every label with its probability, the most likely first; of a regression model its only
    /// label.
    Labels(Vec<ScoredLabel>),
    /// The entities in the order of the text, of a model for token classification.
    Entities(Vec<Entity>),
    /// For each mask token of the text, if it has any, the likeliest tokens, the first one first,
    /// of a masked language model.
    Masks(Vec<Vec<ScoredLabel>>),
    /// The vector of a text, of length 1, of a model for sentence similarity.
    Vector(Vec<f32>),
    /// The part of its context that answers a question, of a model for question answering.
    Answer(ExtractedAnswer),
    /// The text that a model with an encoder and a decoder writes: a translation, a summary.
    Text(String),
}

impl Prediction {
    /// The labels of a text; none of other predictions.
    #[must_use]
    pub fn labels(&self) -> &[ScoredLabel] {
        if let Self::Labels(labels) = self { labels } else { &[] }
    }
}

/// A label and its probability.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ScoredLabel {
    /// The label as in the data, or a token.
    pub label: String,
    /// Its probability, in [0, 1]; of a regression model, the predicted number.
    pub score: f64,
}

/// Words with a label, under the keys of transformers' pipeline.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Entity {
    /// The label without `B-` or `I-`.
    pub entity_group: String,
    /// The mean of its words' probabilities, in [0, 1].
    pub score: f64,
    /// Its part of the text.
    pub word: String,
    /// The character of the text at which it begins, counted from 0.
    pub start: usize,
    /// The character after its last one.
    pub end: usize,
}

/// An answer, under the keys of transformers' pipeline.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ExtractedAnswer {
    /// The part of the context; empty where it has no answer.
    pub answer: String,
    /// The probability of its start times that of its end, in [0, 1].
    pub score: f64,
    /// The character of the context at which it begins, counted from 0.
    pub start: usize,
    /// The character after its last one.
    pub end: usize,
}

/// What is predicted for: texts, or pairs of them.
#[derive(Debug, Clone, Copy)]
pub struct PredictionInputs<'a> {
    /// The texts.
    pub texts: &'a [String],
    /// The second text of each, of pairs.
    pub pairs: Option<&'a [String]>,
    /// How texts are written, by models that write them.
    pub writing: WritingOptions,
}

/// What was predicted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Predictions {
    /// For each text, in their order.
    pub predictions: Vec<Prediction>,
    /// Texts, or pairs, that have more tokens than were looked at.
    pub truncated: usize,
    /// Tokens that are looked at: those of the training's texts, or what the model reads.
    pub max_length: usize,
}

/// What a model predicts with.
struct Tools<'a> {
    values: &'a Values,
    device: &'a Device,
    tokenizer: &'a Tokenizer,
    /// That of the texts to write, where they have one of their own.
    target_tokenizer: Option<Tokenizer>,
    directory: &'a Path,
}

/// Most tokens of a text for models without a limit.
const MOST_TOKENS: usize = 8_192;

/// A model that predicts for texts.
trait Predictor {
    /// Most tokens that the model reads; `None` where longer texts are read in parts.
    fn most_tokens(&self) -> Option<usize>;

    /// How many of these texts, or pairs, have more tokens than are looked at.
    fn truncated(
        &self,
        tools: &Tools<'_>,
        max_length: usize,
        inputs: PredictionInputs<'_>,
    ) -> Result<usize, TrainerError> {
        match self.most_tokens() {
            Some(_) => tools.longer_than(max_length, self.prefix(), inputs),
            None => Ok(0),
        }
    }

    /// What every text begins with.
    fn prefix(&self) -> &str {
        ""
    }

    /// The predictions for a batch of texts, or of pairs.
    fn predict(
        &self,
        tools: &Tools<'_>,
        inputs: PredictionInputs<'_>,
    ) -> Result<Vec<Prediction>, TrainerError>;
}

/// Predicts for `inputs`, in their order and `batch` of them at once, with the model in
/// `directory`: `model.safetensors`, `config.json` and `tokenizer.json` suffice.
///
/// # Errors
/// A missing or damaged file, an unusable device.
pub fn predict(
    directory: &Path,
    inputs: PredictionInputs<'_>,
    batch: usize,
    device: &str,
    on_progress: ProgressCallback<'_>,
) -> Result<Predictions, TrainerError> {
    let device = device::open(device)?;
    let (model, values, mut tokenizer) = SavedModel::load_with_tokenizer(directory, &device)?;
    // Of a pair the longer text is cut, not the end of both.
    let own = tokenizer.get_truncation().cloned().unwrap_or_else(|| TruncationParams {
        max_length: model.limits().1.min(MOST_TOKENS),
        ..TruncationParams::default()
    });
    let direction = model_directory::truncation_direction(directory)?;
    tokenizer
        .with_truncation(Some(TruncationParams { direction, ..own }))
        .map_err(|error| unusable_tokenizer(directory)(error))?;
    let model: &dyn Any = &*model;
    let predictor = predictor(model).ok_or_else(|| {
        let otherwise = "it is a language model and predicts no labels: use `hpsearch generate`";
        TrainerError::checkpoint(directory, otherwise)
    })?;
    let tools = Tools {
        values: &values,
        device: &device,
        tokenizer: &tokenizer,
        target_tokenizer: model_directory::target_tokenizer(directory)?,
        directory,
    };
    let (rows, all) = (batch.max(1), inputs.texts.len());
    let progress = Progress::new(on_progress, all as u64);
    progress.begin_stage("labelling texts", all as u64);
    let most = predictor.most_tokens().unwrap_or(usize::MAX);
    let of_tokenizer = tokenizer.get_truncation().map_or(usize::MAX, |cut| cut.max_length);
    let max_length = most.min(of_tokenizer);
    let mut predictions = Vec::with_capacity(all);
    let mut truncated = 0;
    for texts in inputs.texts.chunks(rows) {
        let pairs = inputs.pairs.map(|pairs| &pairs[predictions.len()..][..texts.len()]);
        let inputs = PredictionInputs { texts, pairs, ..inputs };
        predictions.extend(predictor.predict(&tools, inputs)?);
        truncated += predictor.truncated(&tools, max_length, inputs)?;
        progress.update(predictions.len(), all);
    }
    Ok(Predictions { predictions, truncated, max_length })
}

fn predictor(model: &dyn Any) -> Option<&dyn Predictor> {
    if let Some(model) = model.downcast_ref::<EncoderModel<SequenceClassification>>() {
        return Some(model);
    }
    if let Some(model) = model.downcast_ref::<EncoderModel<TokenClassification>>() {
        return Some(model);
    }
    if let Some(model) = model.downcast_ref::<EncoderModel<QuestionAnswering>>() {
        return Some(model);
    }
    if let Some(model) = model.downcast_ref::<EncoderModel<SentenceSimilarity>>() {
        return Some(model);
    }
    if let Some(model) = model.downcast_ref::<SequenceToSequenceModel>() {
        return Some(model);
    }
    model.downcast_ref::<EncoderModel<MaskedLanguageModeling>>().map(|model| model as _)
}

impl Tools<'_> {
    fn context(&self) -> ForwardContext<'_> {
        ForwardContext::evaluation(self.values, self.device)
    }

    /// How many texts, or pairs, have more tokens.
    fn longer_than(
        &self,
        max_length: usize,
        prefix: &str,
        inputs: PredictionInputs<'_>,
    ) -> Result<usize, TrainerError> {
        let mut whole = self.tokenizer.clone();
        whole.with_truncation(None).map_err(unusable_tokenizer(self.directory))?;
        let counts = |texts: &[String], prefix: &str| -> Result<Vec<usize>, TrainerError> {
            let texts: Vec<String> = texts.iter().map(|text| format!("{prefix}{text}")).collect();
            let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
            let ids = encode_portions(&whole, &texts, SpecialTokens::None, &mut |_| {})
                .map_err(|error| self.unusable(error))?;
            Ok(ids.iter().map(Vec::len).collect())
        };
        let mut tokens = counts(inputs.texts, prefix)?;
        if let Some(pairs) = inputs.pairs {
            tokens.iter_mut().zip(counts(pairs, "")?).for_each(|(all, second)| *all += second);
        }
        let post_processor = whole.get_post_processor();
        let special = post_processor.map_or(0, |one| one.added_tokens(inputs.pairs.is_some()));
        Ok(tokens.iter().filter(|tokens| *tokens + special > max_length).count())
    }

    /// What the tokenizers library does not manage is the tokenizer's fault.
    fn unusable(&self, error: TrainerError) -> TrainerError {
        unusable_tokenizer(self.directory)(error.into())
    }
}

impl PredictionInputs<'_> {
    fn texts(&self) -> Vec<&str> {
        self.texts.iter().map(String::as_str).collect()
    }

    /// Refuses pairs, for models of single texts.
    fn check_single(&self, tools: &Tools<'_>) -> Result<(), TrainerError> {
        match self.pairs {
            Some(_) => {
                Err(TrainerError::checkpoint(tools.directory, "it reads single texts, not pairs"))
            }
            None => Ok(()),
        }
    }
}

impl Predictor for EncoderModel<SequenceClassification> {
    fn most_tokens(&self) -> Option<usize> {
        Some(self.architecture.max_tokens())
    }

    fn predict(
        &self,
        tools: &Tools<'_>,
        inputs: PredictionInputs<'_>,
    ) -> Result<Vec<Prediction>, TrainerError> {
        let max_length = self.architecture.max_tokens();
        let (labels, task) = (&self.architecture.shape.labels, self.architecture.shape.task);
        let texts = inputs.texts();
        let batch = match inputs.pairs {
            Some(pairs) => {
                let pairs: Vec<_> =
                    texts.into_iter().zip(pairs.iter().map(String::as_str)).collect();
                let [ids, types] = encode_pairs(tools.tokenizer, &pairs, &mut |_| {})
                    .map_err(|error| tools.unusable(error))?;
                Batch::truncated(ids.into_iter(), max_length)
                    .with_token_types(types.into_iter(), max_length)
            }
            None => {
                let ids = encode_portions(tools.tokenizer, &texts, SpecialTokens::Add, &mut |_| {})
                    .map_err(|error| tools.unusable(error))?;
                Batch::truncated(ids.into_iter(), max_length)
            }
        };
        let logits = host(self.logits(&tools.context(), &batch))?;
        Ok(logits.chunks(labels.len()).map(|logits| scored(task, labels, logits)).collect())
    }
}

fn scored(task: TaskKind, labels: &[String], logits: &[f32]) -> Prediction {
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
    Prediction::Labels(labels)
}
