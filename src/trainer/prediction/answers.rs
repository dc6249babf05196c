//! Answers to questions, as evaluations find them.

use tokenizers::PostProcessor;

use super::super::TrainerError;
use super::super::batch::Batch;
use super::super::encoder_model::EncoderModel;
use super::super::metrics::FoundAnswers;
use super::super::question_answering::QuestionAnswering;
use super::super::questions::{NoWindow, Window, windows};
use super::{ExtractedAnswer, Prediction, PredictionInputs, Predictor, Tools};

/// Windows that are read at once.
const WINDOWS_AT_ONCE: usize = 32;

impl Predictor for EncoderModel<QuestionAnswering> {
    fn most_tokens(&self) -> Option<usize> {
        None
    }

    /// Questions that leave no room for a context.
    fn truncated(
        &self,
        tools: &Tools<'_>,
        _: usize,
        inputs: PredictionInputs<'_>,
    ) -> Result<usize, TrainerError> {
        Ok(shortened(tools, inputs.texts)?.into_iter().flatten().count())
    }

    /// Of each question in the context beside it; a question that leaves no room for one is cut, as
    /// in transformers' pipeline (`max_question_len`).
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
        let cut = shortened(tools, inputs.texts)?;
        let questions = inputs.texts().into_iter().zip(&cut);
        let questions = questions.map(|(whole, cut)| cut.as_deref().unwrap_or(whole));
        let pairs: Vec<(&str, &str)> = questions.zip(contexts.iter().map(String::as_str)).collect();
        let (longest, may_be_none) = self.answers();
        let of_question = |(windows, (_, context)): (Result<_, NoWindow>, &(&str, &str))| {
            let windows: Vec<Window> = match windows {
                Ok(encodings) => Vec::from_iter(encodings).iter().map(Window::of).collect(),
                // Of an empty context.
                Err(NoWindow::NoTokens) => Vec::new(),
                Err(NoWindow::NoRoom) => {
                    let none = "it reads too few tokens for a question and its context";
                    return Err(TrainerError::checkpoint(tools.directory, none));
                }
            };
            let found = self.found(tools, &windows, longest)?;
            let characters = context.chars();
            Ok(Prediction::Answer(match found.best(may_be_none) {
                Some(span) => ExtractedAnswer {
                    answer: characters.skip(span.begin).take(span.end - span.begin).collect(),
                    score: span.probability,
                    start: span.begin,
                    end: span.end,
                },
                None => ExtractedAnswer {
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

/// Of each question that leaves no room for a context, what makes the first half of the tokens that
/// the model reads.
fn shortened(tools: &Tools<'_>, questions: &[String]) -> Result<Vec<Option<String>>, TrainerError> {
    let mut whole = tools.tokenizer.clone();
    whole.with_truncation(None).map_err(TrainerError::tokenizer)?;
    let special = whole.get_post_processor().map_or(0, |one| one.added_tokens(true));
    let longest = tools.tokenizer.get_truncation().map_or(usize::MAX, |cut| cut.max_length);
    let room = longest.saturating_sub(special);
    let cut = |question: &String| {
        let question = question.trim_start();
        let encoding = whole.encode(question, false).map_err(TrainerError::tokenizer)?;
        let kept = encoding.get_offsets().get((room / 2).saturating_sub(1));
        // A character may become many tokens, more than there is room for.
        let end = kept.map_or(question.len(), |(begin, end)| {
            if encoding.get_offsets().get(room / 2).is_some_and(|next| next.0 < *end) {
                *begin
            } else {
                *end
            }
        });
        let part = question.get(..end).unwrap_or_default();
        Ok((encoding.len() >= room).then(|| part.to_owned()))
    };
    questions.iter().map(cut).collect()
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
