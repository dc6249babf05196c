//! Texts written for texts.

use super::super::TrainerError;
use super::super::batch::Batch;
use super::super::checkpoint::unusable_tokenizer;
use super::super::sequence_to_sequence::SequenceToSequenceModel;
use super::super::tokenizer_file::{SpecialTokens, catch_panics, encode_portions};
use super::super::writing::TextGeneration;
use super::{Prediction, PredictionInputs, Predictor, Tools};
use hpsearch_core::arguments::WritingOptions;

/// As the options say, and else as the model's configuration does.
fn writing(options: WritingOptions, of_model: TextGeneration) -> TextGeneration {
    let repeats = options.no_repeat_ngram_size;
    TextGeneration {
        max_new_tokens: options.max_new_tokens.unwrap_or(of_model.max_new_tokens),
        num_beams: options.num_beams.unwrap_or(of_model.num_beams),
        length_penalty: options.length_penalty.unwrap_or(of_model.length_penalty),
        no_repeat_ngram_size: repeats.unwrap_or(of_model.no_repeat_ngram_size),
        ..of_model
    }
}

impl Predictor for SequenceToSequenceModel {
    fn most_tokens(&self) -> Option<usize> {
        Some(self.config.max_tokens())
    }

    fn prefix(&self) -> &str {
        self.config.prefix()
    }

    fn predict(
        &self,
        tools: &Tools<'_>,
        inputs: PredictionInputs<'_>,
    ) -> Result<Vec<Prediction>, TrainerError> {
        inputs.check_single(tools)?;
        let prefix = self.config.prefix();
        let sources: Vec<String> =
            inputs.texts.iter().map(|text| format!("{prefix}{text}")).collect();
        let sources: Vec<&str> = sources.iter().map(String::as_str).collect();
        let ids = encode_portions(tools.tokenizer, &sources, SpecialTokens::Add, &mut |_| {})
            .map_err(|error| tools.unusable(error))?;
        let source = Batch::truncated(ids.into_iter(), self.config.max_tokens());
        let writing = writing(inputs.writing, self.config.writing);
        let written = self.write(&tools.context(), &source, &writing)?;
        let tokenizer = tools.target_tokenizer.as_ref().unwrap_or(tools.tokenizer);
        let text = |ids: &Vec<u32>| {
            catch_panics(|| tokenizer.decode(ids, true))
                .map(Prediction::Text)
                .map_err(unusable_tokenizer(tools.directory))
        };
        written.iter().map(text).collect()
    }
}
