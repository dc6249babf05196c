//! The task question-answering: the part of a context that answers a question, by the logits of its
//! start and its end (Devlin et al. 2019; transformers' `AutoModelForQuestionAnswering`).

use std::collections::BTreeMap;

use burn::tensor::Tensor;
use serde_json::{Value, json};

use super::atomic_directory::AtomicDirectory;
use super::batch::{Batch, SequenceLayout};
use super::encoder::{EncoderConfig, TokenHead};
use super::encoder_model::{EncoderHead, EncoderModel};
use super::floats::real;
use super::layers::{ForwardContext, HiddenStates, cross_entropy, to_f32};
use super::metrics::{AnswerMetrics, FoundAnswers, Metrics, log_softmax};
use super::parameters::{Parameters, host};
use super::prepared::{Description, Extra, NO_LABEL};
use super::questions;
use super::sources::Sources;
use super::task::{EvaluationSet, MicroBatch, ModelInput};
use super::{PreparedData, Split, TrainerError};
use hpsearch_core::arguments::TaskKind;

/// A head with the logits of starts and ends.
pub(super) struct QuestionAnswering(TokenHead);

/// The key of transformers' `config.json` for what a task's use depends on.
const TASK_PARAMETERS: &str = "task_specific_params";
/// Whether an answer may be none, by the name of transformers' pipeline.
const MAY_BE_NONE: &str = "handle_impossible_answer";
/// Most tokens of an answer, by its name there.
const LONGEST: &str = "max_answer_len";

impl EncoderModel<QuestionAnswering> {
    /// The logits of an answer's start and end at each token, `[tokens, 2]`.
    pub(super) fn logits(&self, context: &ForwardContext, batch: &Batch) -> Tensor<2> {
        self.head.0.forward(context, self.encoder.forward(context, batch))
    }

    /// The same of each text of a batch: the logits of starts, and those of ends.
    pub(super) fn starts_and_ends(
        &self,
        context: &ForwardContext,
        batch: &Batch,
    ) -> Result<Vec<[Vec<f32>; 2]>, TrainerError> {
        let logits = host(self.logits(context, batch))?;
        let mut pairs = logits.chunks_exact(2);
        let of_text = |length: &usize| {
            let (starts, ends) =
                pairs.by_ref().take(*length).map(|pair| (pair[0], pair[1])).unzip();
            [starts, ends]
        };
        Ok(batch.lengths().iter().map(of_text).collect())
    }

    /// Most tokens of an answer, and whether there may be none: of an export.
    pub(super) fn answers(&self) -> (usize, bool) {
        let own = |key: &str| {
            let parameters = self.architecture.config.get(TASK_PARAMETERS)?;
            parameters.get(TaskKind::QuestionAnswering.line().name)?.get(key)
        };
        let longest =
            own(LONGEST).and_then(Value::as_u64).and_then(|most| usize::try_from(most).ok());
        (longest.unwrap_or(30), own(MAY_BE_NONE).and_then(Value::as_bool).unwrap_or(false))
    }
}

/// The number of the question of a row, and the first and last token of its answer.
fn answer_of(data: &PreparedData, split: Split, row: usize) -> [u32; 3] {
    let mut numbers = data.extras(Extra::Answers, split).into_iter().flat_map(|all| all.ids(row));
    [(); 3].map(|()| numbers.next().unwrap_or_default())
}

/// The characters of the context that each token of a row stands for.
fn places_of(data: &PreparedData, split: Split, row: usize) -> Vec<Option<[usize; 2]>> {
    let numbers = |what| data.extras(what, split).into_iter().flat_map(move |all| all.ids(row));
    let pairs = numbers(Extra::ContextBegins).zip(numbers(Extra::ContextEnds));
    let place =
        |(begin, end): (u32, u32)| (begin != NO_LABEL).then_some([begin as usize, end as usize]);
    pairs.map(place).collect()
}

/// The logits of starts, then of ends, each text a row: `[2 texts, length]`, padding masked.
fn by_text(logits: Tensor<2>, layout: &SequenceLayout, context: &ForwardContext) -> Tensor<2> {
    let (texts, length) = (layout.lengths.len(), layout.length);
    let (logits, padding) = (to_f32(logits), layout.padding(context.device));
    let logits = match padding {
        Some(padding) => logits.select(0, padding.to_padded.clone()),
        None => logits,
    };
    let logits: Tensor<3> = logits.reshape([texts, length, 2]).permute([2, 0, 1]);
    let logits = match padding {
        Some(padding) => logits + padding.mask.clone().reshape([1, texts, length]),
        None => logits,
    };
    logits.reshape([2 * texts, length])
}

impl EncoderHead for QuestionAnswering {
    fn prepare(
        _: TaskKind,
        sources: &Sources<'_>,
        staged: &AtomicDirectory,
    ) -> Result<Description, TrainerError> {
        questions::prepare(sources, staged)
    }

    fn new(list: &mut Parameters, config: &EncoderConfig) -> Self {
        Self(TokenHead::of_answers(list, config))
    }

    /// The mean of the cross-entropies of starts and ends; a window without the answer has both at
    /// its first token.
    fn loss(
        model: &EncoderModel<Self>,
        context: &ForwardContext,
        x: HiddenStates,
        input: &ModelInput,
        micro_batch: &MicroBatch<'_>,
    ) -> Tensor<1> {
        let MicroBatch { data, chosen, step_targets, .. } = *micro_batch;
        let answers: Vec<_> =
            chosen.iter().map(|row| answer_of(data, Split::Train, *row)).collect();
        let targets = [1, 2].into_iter().flat_map(|side| answers.iter().map(move |one| one[side]));
        let logits = by_text(model.head.0.forward(context, x), &input.layout, context);
        cross_entropy(logits, targets.collect(), 0.0, 0.5 / real(step_targets))
    }

    fn measure(
        model: &EncoderModel<Self>,
        context: &ForwardContext,
        data: &PreparedData,
        set: &EvaluationSet,
        on_progress: &dyn Fn(usize, usize),
    ) -> Result<Metrics, TrainerError> {
        let references = questions::references(data, set.split)?;
        let longest = data.questions().map_or(usize::MAX, |questions| questions.longest_answer);
        let may_be_none = data.questions().is_some_and(|questions| questions.may_be_unanswerable);
        // All windows of some questions, not some windows of all.
        let mut found: BTreeMap<usize, FoundAnswers> = set
            .chosen(references.len())
            .into_iter()
            .map(|question| (question, FoundAnswers::default()))
            .collect();
        let question = |row: usize| answer_of(data, set.split, row)[0] as usize;
        let rows: Vec<usize> =
            (0..data.rows(set.split)).filter(|row| found.contains_key(&question(*row))).collect();
        let (mut loss, windows) = (0.0, rows.len());
        model.for_each_batch_of(rows, data, set, on_progress, |rows, batch| {
            let logits = model.starts_and_ends(context, &batch)?;
            for (row, [starts, ends]) in rows.iter().zip(&logits) {
                let [number, first, last] =
                    answer_of(data, set.split, *row).map(|one| one as usize);
                loss -= (log_softmax(starts)[first] + log_softmax(ends)[last]) / 2.0;
                let places = places_of(data, set.split, *row);
                if let Some(found) = found.get_mut(&number) {
                    found.add(*row, [starts, ends], &places, longest);
                }
            }
            Ok(())
        })?;
        let mut metrics = AnswerMetrics::default();
        for (number, found) in &found {
            let reference = &references[*number];
            let answer = found.best(may_be_none).map_or(String::new(), |span| {
                reference.context.chars().skip(span.begin).take(span.end - span.begin).collect()
            });
            metrics.add(&answer, &reference.answers);
        }
        Ok([("loss", loss / real(windows))].into_iter().chain(metrics.compute()).collect())
    }

    fn describe(config: &mut EncoderConfig, data: &PreparedData) {
        if let Some(questions) = data.questions() {
            let own = json!({
                LONGEST: questions.longest_answer, MAY_BE_NONE: questions.may_be_unanswerable,
            });
            let all = json!({TaskKind::QuestionAnswering.line().name: own});
            config.config.insert(TASK_PARAMETERS.to_owned(), all);
        }
    }

    /// Its outputs are no labels.
    fn is_compatible(_: &EncoderConfig, data: &PreparedData) -> bool {
        data.questions().is_some()
    }
}
