//! The vectors of texts, or the similarities of pairs, by a model for sentence similarity.

use super::super::TrainerError;
use super::super::batch::Batch;
use super::super::encoder_model::EncoderModel;
use super::super::parameters::host;
use super::super::sentence_similarity::{SentenceSimilarity, cosine};
use super::super::tokenizer_file::{SpecialTokens, encode_portions};
use super::{Prediction, PredictionInputs, Predictor, ScoredLabel, Tools};

/// The name of the cosine of a pair.
const SIMILARITY: &str = "similarity";

impl Predictor for EncoderModel<SentenceSimilarity> {
    fn most_tokens(&self) -> Option<usize> {
        Some(self.architecture.max_tokens())
    }

    fn predict(
        &self,
        tools: &Tools<'_>,
        inputs: PredictionInputs<'_>,
    ) -> Result<Vec<Prediction>, TrainerError> {
        let first = self.of(tools, &inputs.texts())?;
        let Some(pairs) = inputs.pairs else {
            return Ok(first.into_iter().map(Prediction::Vector).collect());
        };
        let pairs: Vec<&str> = pairs.iter().map(String::as_str).collect();
        let second = self.of(tools, &pairs)?;
        let scored = |(one, other): (Vec<f32>, Vec<f32>)| {
            let score = f64::from(cosine(&one, &other));
            Prediction::Labels(vec![ScoredLabel { label: SIMILARITY.to_owned(), score }])
        };
        Ok(first.into_iter().zip(second).map(scored).collect())
    }
}

impl EncoderModel<SentenceSimilarity> {
    /// The vector of each text.
    fn of(&self, tools: &Tools<'_>, texts: &[&str]) -> Result<Vec<Vec<f32>>, TrainerError> {
        let ids = encode_portions(tools.tokenizer, texts, SpecialTokens::Add, &mut |_| {})
            .map_err(|error| tools.unusable(error))?;
        let batch = Batch::truncated(ids.into_iter(), self.architecture.max_tokens());
        let numbers = host(self.vectors(&tools.context(), &batch))?;
        let width = numbers.len() / texts.len().max(1);
        Ok(numbers.chunks(width.max(1)).map(<[f32]>::to_vec).collect())
    }
}
