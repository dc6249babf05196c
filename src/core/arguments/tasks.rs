//! The tasks of the built-in trainer.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::model::{DECODER_TYPES, ENCODER_TYPES, SEQ2SEQ_TYPES, TokenizerKind};
use crate::study::metric::Direction;
use crate::study::spec::Objective;
use crate::study::usual_direction::usual_direction;

/// A task, serialised as its name in [`TRAINER_TASKS`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum TaskKind {
    /// One label per text.
    #[default]
    #[serde(rename = "text-classification")]
    TextClassification,
    /// Any number of labels per text.
    #[serde(rename = "multi-label-classification")]
    MultiLabelClassification,
    /// A number per text.
    #[serde(rename = "text-regression")]
    TextRegression,
    /// A label for each word of a text.
    #[serde(rename = "token-classification")]
    TokenClassification,
    /// The part of a text that answers a question.
    #[serde(rename = "question-answering")]
    QuestionAnswering,
    /// How alike two texts are, by a vector of each.
    #[serde(rename = "sentence-similarity")]
    SentenceSimilarity,
    /// Hidden tokens of a text.
    #[serde(rename = "masked-language-modeling")]
    MaskedLanguageModeling,
    /// The next token of a text.
    #[serde(rename = "language-modeling")]
    LanguageModeling,
    /// A text in another language.
    #[serde(rename = "translation")]
    Translation,
    /// A summary of a text.
    #[serde(rename = "summarization")]
    Summarization,
    /// A text from a text.
    #[serde(rename = "text-to-text")]
    TextToText,
}

impl TaskKind {
    /// The metrics that a study may search for.
    #[must_use]
    pub fn objectives(self) -> Vec<&'static str> {
        self.line().metrics.iter().copied().chain(COMMON_OBJECTIVES).collect()
    }

    /// Those of data with similarities of pairs, or without: sentence similarity has others.
    #[must_use]
    pub fn objectives_of(self, has_scores: bool) -> Vec<&'static str> {
        let of_the_other: &[&str] = match (self, has_scores) {
            (Self::SentenceSimilarity, true) => &["eval_accuracy", "eval_mrr"],
            (Self::SentenceSimilarity, false) => &["eval_pearson", "eval_spearmanr"],
            _ => &[],
        };
        let mut known = self.objectives();
        known.retain(|metric| !of_the_other.contains(metric));
        known
    }

    /// Those of texts that are written.
    #[must_use]
    pub fn metrics_of_texts(self) -> &'static [&'static str] {
        if self.is_sequence_to_sequence() { &METRICS_OF_TEXTS[1..] } else { &[] }
    }

    /// The metrics of its reports.
    #[must_use]
    pub fn reported(self) -> Vec<&'static str> {
        self.line().metrics.iter().copied().chain(COMMON_METRICS).collect()
    }

    /// The named task; the default if none is named, or an unknown one (which is reported
    /// elsewhere).
    #[must_use]
    pub fn of(values: &BTreeMap<String, Value>) -> Self {
        values.get("task").map(Self::named).unwrap_or_default()
    }

    /// The task with this name, else the default.
    pub(super) fn named(name: &Value) -> Self {
        Self::deserialize(name).unwrap_or_default()
    }

    /// The architectures that can be trained from scratch for it, the default first.
    pub(super) fn model_types(self) -> &'static [&'static str] {
        match self {
            _ if self.is_of_encoders() => &ENCODER_TYPES,
            _ if self.is_sequence_to_sequence() => &SEQ2SEQ_TYPES,
            _ => &DECODER_TYPES,
        }
    }

    /// Whether its models are encoders with a classification or regression head.
    #[must_use]
    pub fn is_of_encoders(self) -> bool {
        self != Self::LanguageModeling && !self.is_sequence_to_sequence()
    }

    /// Whether its models write a text for each text.
    #[must_use]
    pub fn is_sequence_to_sequence(self) -> bool {
        matches!(self, Self::Translation | Self::Summarization | Self::TextToText)
    }

    /// Whether its labels or numbers are of whole texts.
    #[must_use]
    pub fn is_of_texts(self) -> bool {
        matches!(
            self,
            Self::TextClassification | Self::MultiLabelClassification | Self::TextRegression
        )
    }

    /// Its entry of [`TRAINER_TASKS`].
    #[must_use]
    pub fn line(self) -> &'static TrainerTask {
        TRAINER_TASKS
            .iter()
            .find(|task| task.kind == self)
            .expect("a test holds the kinds and the table together")
    }
}

/// The mean loss of training since the report before.
pub const TRAIN_LOSS: &str = "train_loss";

/// The metrics that every task reports: the training's, then what it costs to keep the model and to
/// use it.
///
/// `n_params` counts the weights that a checkpoint holds, adapters merged; `model_bytes` are their
/// bytes there, in f32; `peak_memory` is the most resident memory of the trial's process, in bytes;
/// `predict_ms` is the median latency of one validation row by itself, in milliseconds.
pub const COMMON_METRICS: [&str; 10] = [
    TRAIN_LOSS,
    "learning_rate",
    "epoch",
    "steps_per_second",
    "grad_norm",
    "weight_norm",
    "n_params",
    "model_bytes",
    "peak_memory",
    "predict_ms",
];

/// Those of [`COMMON_METRICS`] that a study may search for: less is better.
pub const COMMON_OBJECTIVES: [&str; 5] =
    [TRAIN_LOSS, "n_params", "model_bytes", "peak_memory", "predict_ms"];

/// Whether smaller values of a metric of the trainer are better.
#[must_use]
pub fn is_smaller_better(metric: &str) -> bool {
    metric.ends_with("bits_per_byte")
        || COMMON_OBJECTIVES.contains(&metric)
        || usual_direction(metric) == Some(Direction::Minimize)
}

/// The objective that a training watches, for early stopping: the first of a study that is not a
/// cost of the model, which training does not change.
#[must_use]
pub fn monitored(objectives: &[Objective]) -> Option<&Objective> {
    let changes =
        |one: &&Objective| one.metric == TRAIN_LOSS || !COMMON_OBJECTIVES.contains(&&*one.metric);
    objectives.iter().find(changes).or(objectives.first())
}

/// One line of `hpsearch list tasks`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TrainerTask {
    /// Its kind in the resolved arguments.
    pub kind: TaskKind,
    /// Its name in `[trainer] task`.
    pub name: &'static str,
    /// A one-sentence description.
    pub doc: &'static str,
    /// The metrics it reports besides [`COMMON_METRICS`].
    pub metrics: &'static [&'static str],
    /// The tokenizers that it accepts, the default first.
    pub tokenizers: &'static [TokenizerKind],
    /// Whether texts are lowercased by default.
    pub lowercase: bool,
}

const ENCODER_TOKENIZERS: &[TokenizerKind] =
    &[TokenizerKind::WordPiece, TokenizerKind::Bpe, TokenizerKind::Word];

/// Those of tasks that write texts.
const METRICS_OF_TEXTS: &[&str] = &[
    "eval_loss",
    "eval_bleu",
    "eval_chrf",
    "eval_rouge1",
    "eval_rouge2",
    "eval_rougeL",
    "eval_rougeLsum",
    "eval_exact_match",
    "eval_gen_len",
];

/// Those that give back the text of their tokens.
const REVERSIBLE_TOKENIZERS: &[TokenizerKind] =
    &[TokenizerKind::Bpe, TokenizerKind::Chars, TokenizerKind::Bytes];

/// All tasks.
pub const TRAINER_TASKS: &[TrainerTask] = &[
    TrainerTask {
        kind: TaskKind::TextClassification,
        name: "text-classification",
        doc: "one label per text, by a transformer encoder: a pretrained one, or one trained from \
            scratch with its own tokenizer",
        metrics: &[
            "eval_loss",
            "eval_accuracy",
            "eval_f1",
            "eval_macro_f1",
            "eval_matthews_correlation",
        ],
        tokenizers: ENCODER_TOKENIZERS,
        lowercase: true,
    },
    TrainerTask {
        kind: TaskKind::MultiLabelClassification,
        name: "multi-label-classification",
        doc: "any number of labels per text, separated in their column by `[data] label_separator`",
        metrics: &["eval_loss", "eval_micro_f1", "eval_macro_f1", "eval_exact_match"],
        tokenizers: ENCODER_TOKENIZERS,
        lowercase: true,
    },
    TrainerTask {
        kind: TaskKind::TextRegression,
        name: "text-regression",
        doc: "a number per text: its label column holds numbers, and the loss is their mean \
            squared error",
        metrics: &[
            "eval_loss",
            "eval_rmse",
            "eval_mae",
            "eval_r2",
            "eval_pearson",
            "eval_spearmanr",
        ],
        tokenizers: ENCODER_TOKENIZERS,
        lowercase: true,
    },
    TrainerTask {
        kind: TaskKind::TokenClassification,
        name: "token-classification",
        doc: "a label per word, of the person or place that it names or of its part of speech: \
            lists of words and of labels, or words and labels between spaces",
        metrics: &["eval_loss", "eval_precision", "eval_recall", "eval_f1", "eval_accuracy"],
        tokenizers: ENCODER_TOKENIZERS,
        lowercase: false,
    },
    TrainerTask {
        kind: TaskKind::QuestionAnswering,
        name: "question-answering",
        doc: "the part of a context that answers a question, as in SQuAD: questions, contexts and \
            answers, none where the context has none; long contexts in windows that overlap",
        metrics: &["eval_loss", "eval_exact_match", "eval_f1"],
        tokenizers: ENCODER_TOKENIZERS,
        lowercase: true,
    },
    TrainerTask {
        kind: TaskKind::SentenceSimilarity,
        name: "sentence-similarity",
        doc: "a vector for each text, close to the vectors of texts with the same meaning: pairs \
            of texts, with or without their similarity",
        metrics: &["eval_loss", "eval_accuracy", "eval_mrr", "eval_pearson", "eval_spearmanr"],
        tokenizers: ENCODER_TOKENIZERS,
        lowercase: true,
    },
    TrainerTask {
        kind: TaskKind::MaskedLanguageModeling,
        name: "masked-language-modeling",
        doc: "hidden tokens of a text, by a transformer encoder: to pretrain one, or to adapt a \
            pretrained one to texts of a kind",
        metrics: &["eval_loss", "eval_perplexity", "eval_accuracy"],
        tokenizers: ENCODER_TOKENIZERS,
        lowercase: true,
    },
    TrainerTask {
        kind: TaskKind::LanguageModeling,
        name: "language-modeling",
        doc: "the next token of a text, by a transformer decoder: a pretrained one, or one \
            trained from scratch on characters, bytes or BPE",
        metrics: &["eval_loss", "eval_perplexity", "eval_bits_per_byte"],
        tokenizers: REVERSIBLE_TOKENIZERS,
        lowercase: false,
    },
    TrainerTask {
        kind: TaskKind::Translation,
        name: "translation",
        doc: "a text in another language, by an encoder and a decoder: a pretrained model, or one \
            trained from scratch",
        metrics: METRICS_OF_TEXTS,
        tokenizers: REVERSIBLE_TOKENIZERS,
        lowercase: false,
    },
    TrainerTask {
        kind: TaskKind::Summarization,
        name: "summarization",
        doc: "a summary of a text, by an encoder and a decoder",
        metrics: METRICS_OF_TEXTS,
        tokenizers: REVERSIBLE_TOKENIZERS,
        lowercase: false,
    },
    TrainerTask {
        kind: TaskKind::TextToText,
        name: "text-to-text",
        doc: "any text from any text, by an encoder and a decoder: a command from a sentence, an \
            answer from a question",
        metrics: METRICS_OF_TEXTS,
        tokenizers: REVERSIBLE_TOKENIZERS,
        lowercase: false,
    },
];

/// The values of `[trainer] task`.
pub(super) const TASK_NAMES: [&str; TRAINER_TASKS.len()] = {
    let mut names = [""; TRAINER_TASKS.len()];
    let mut task = 0;
    while task < names.len() {
        names[task] = TRAINER_TASKS[task].name;
        task += 1;
    }
    names
};
