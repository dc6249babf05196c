//! Hidden tokens of texts, told by a masked language model: as transformers' fill-mask pipeline.

use super::super::TrainerError;
use super::super::batch::Batch;
use super::super::encoder_model::EncoderModel;
use super::super::masked_language_modeling::MaskedLanguageModeling;
use super::super::metrics::log_softmax;
use super::super::model_directory::mask_token;
use super::super::parameters::host;
use super::super::tokenizer_file::{SpecialTokens, catch_panics, encode_portions};
use super::{Prediction, PredictionInputs, Predictor, ScoredLabel, Tools};

/// Tokens told for each mask.
const TOLD: usize = 50;

impl Predictor for EncoderModel<MaskedLanguageModeling> {
    fn most_tokens(&self) -> Option<usize> {
        Some(self.architecture.max_tokens())
    }

    fn predict(
        &self,
        tools: &Tools<'_>,
        inputs: PredictionInputs<'_>,
    ) -> Result<Vec<Prediction>, TrainerError> {
        inputs.check_single(tools)?;
        let id = mask_token(tools.directory, tools.tokenizer)?;
        let texts = inputs.texts();
        let ids = encode_portions(tools.tokenizer, &texts, SpecialTokens::Add, &mut |_| {})
            .map_err(|error| tools.unusable(error))?;
        let batch = Batch::truncated(ids.into_iter(), self.architecture.max_tokens());
        let masks: Vec<usize> = (0..)
            .zip(&*batch.ids())
            .filter(|(_, token)| **token == id)
            .map(|(index, _)| index)
            .collect();
        let (mut counts, mut begin) = (Vec::new(), 0);
        for length in &*batch.lengths() {
            let end = begin + length;
            counts.push(masks.iter().filter(|index| (begin..end).contains(*index)).count());
            begin = end;
        }
        if masks.is_empty() {
            return Ok(counts.into_iter().map(|_| Prediction::Masks(Vec::new())).collect());
        }
        let logits = host(self.logits(&tools.context(), &batch, &masks))?;
        let mut told = logits
            .chunks(self.architecture.shape.vocabulary)
            .map(|logits| likeliest(tools, logits))
            .collect::<Result<Vec<_>, TrainerError>>()?
            .into_iter();
        Ok(counts
            .into_iter()
            .map(|count| Prediction::Masks(told.by_ref().take(count).collect()))
            .collect())
    }
}

/// The likeliest tokens, the first one first.
fn likeliest(tools: &Tools<'_>, logits: &[f32]) -> Result<Vec<ScoredLabel>, TrainerError> {
    let scores = log_softmax(logits);
    let mut order: Vec<usize> = (0..scores.len()).collect();
    order.sort_by(|a, b| scores[*b].total_cmp(&scores[*a]));
    order
        .into_iter()
        .take(TOLD)
        .map(|token| {
            let id = u32::try_from(token).unwrap_or(u32::MAX);
            let label = catch_panics(|| tools.tokenizer.decode(&[id], false))
                .map_err(|error| tools.unusable(TrainerError::tokenizer(error)))?;
            Ok(ScoredLabel { label: label.trim().to_owned(), score: scores[token].exp() })
        })
        .collect()
}
