//! Answers to questions, as evaluations find them.

use super::super::TrainerError;
use super::super::batch::Batch;
use super::super::encoder_model::EncoderModel;
use super::super::metrics::FoundAnswers;
use super::super::question_answering::QuestionAnswering;
use super::super::questions::{NoWindow, Window, windows};
use super::{Answer, Prediction, PredictionInputs, Predictor, Tools};

/// Windows that are read at once.
const WINDOWS_AT_ONCE: usize = 32;

impl Predictor for EncoderModel<QuestionAnswering> {
    fn most_tokens(&self) -> Option<usize> {
        None
    }

    /// Of each question in the context beside it.
    fn predict(
        &self,
        tools: &Tools<'_>,
        inputs: PredictionInputs<'_>,
    ) -> Result<Vec<Prediction>, TrainerError> {
        let Some(contexts) = inputs.pairs else {
            let missing = "it finds answers in contexts: give each question its context, with \
                           `--text-pair` or as a column of a `--file`";
            return Err(TrainerError::checkpoint(tools.directory, missing));
        };
        let pairs: Vec<(&str, &str)> =
            inputs.texts().into_iter().zip(contexts.iter().map(String::as_str)).collect();
        let (longest, may_be_none) = self.answers();
        let of_question = |(windows, (question, context)): (Result<_, NoWindow>, &(&str, &str))| {
            let windows: Vec<Window> = match windows {
                Ok(encodings) => Vec::from_iter(encodings).iter().map(Window::of).collect(),
                // Of an empty context.
                Err(NoWindow::NoTokens) => Vec::new(),
                Err(NoWindow::NoRoom) => {
                    let begin: String = question.chars().take(60).collect();
                    let long =
                        format!("it has no room for a context beside the question `{begin}..`");
                    return Err(TrainerError::checkpoint(tools.directory, long));
                }
            };
            let found = self.found(tools, &windows, longest)?;
            let characters = context.chars();
            Ok(Prediction::Answer(match found.best(may_be_none) {
                Some(span) => Answer {
                    answer: characters.skip(span.begin).take(span.end - span.begin).collect(),
                    score: span.probability,
                    start: span.begin,
                    end: span.end,
                },
                None => Answer {
                    answer: String::new(),
                    score: found.probability_of_none(),
                    start: 0,
                    end: 0,
                },
            }))
        };
        windows(tools.tokenizer, &pairs, &mut |_| {})
            .map_err(|error| tools.unusable(error))?
            .into_iter()
            .zip(&pairs)
            .map(of_question)
            .collect()
    }
}

impl EncoderModel<QuestionAnswering> {
    fn found(
        &self,
        tools: &Tools<'_>,
        windows: &[Window],
        longest: usize,
    ) -> Result<FoundAnswers, TrainerError> {
        let (most, mut found) = (self.architecture.max_tokens(), FoundAnswers::default());
        for (first, some) in windows.chunks(WINDOWS_AT_ONCE).enumerate() {
            let batch = Batch::truncated(some.iter().map(|window| window.ids.clone()), most)
                .with_token_types(some.iter().map(|window| window.types.clone()), most);
            let logits = self.starts_and_ends(&tools.context(), &batch)?;
            let numbered = (first * WINDOWS_AT_ONCE..).zip(some);
            for ((number, window), [starts, ends]) in numbered.zip(&logits) {
                found.add(number, [starts, ends], &window.places, longest);
            }
        }
        Ok(found)
    }
}
