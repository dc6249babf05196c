//! The resolved arguments of a training run and the table they are parsed by.

use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Included, Unbounded};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::model::{ModelArguments, TokenizerArguments};
use super::table::{Argument, ArgumentDefault, ArgumentKind, ArgumentProblem, merge};

/// Everything a training run is told, complete: defaults are filled in, so that it can be stored and compared.
///
/// Defaults are those of `transformers.TrainingArguments` except where [`ARGUMENTS`] says otherwise.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrainerArguments {
    /// What is learnt.
    pub task: TaskKind,
    /// Peak learning rate.
    pub learning_rate: f64,
    /// Rows per micro-batch in training.
    pub per_device_train_batch_size: usize,
    /// Rows per batch in evaluation; does not change what is learnt.
    pub per_device_eval_batch_size: usize,
    /// Passes over the training rows; may be fractional.
    pub num_train_epochs: f64,
    /// Optimiser steps in all, overriding `num_train_epochs`; -1: not set.
    pub max_steps: i64,
    /// Decoupled weight decay (AdamW) or L2 penalty (SGD); biases and norms are spared.
    pub weight_decay: f64,
    /// AdamW's β₁.
    pub adam_beta1: f64,
    /// AdamW's β₂.
    pub adam_beta2: f64,
    /// AdamW's ε.
    pub adam_epsilon: f64,
    /// Greatest global gradient norm; 0: no clipping.
    pub max_grad_norm: f64,
    /// The optimiser.
    pub optim: Optim,
    /// SGD's momentum.
    pub momentum: f64,
    /// The course of the learning rate after warm-up.
    pub lr_scheduler_type: Schedule,
    /// Steps of linear warm-up, or their share of all steps when below 1.
    pub warmup_steps: f64,
    /// Share of all steps that is warm-up, used when `warmup_steps` is 0.
    pub warmup_ratio: f64,
    /// Share of the target probability spread over all labels, in [0, 1).
    pub label_smoothing_factor: f64,
    /// Micro-batches per optimiser step.
    pub gradient_accumulation_steps: usize,
    /// When to evaluate, besides where the pruner asks for it.
    pub eval_strategy: EvalStrategy,
    /// Optimiser steps between evaluations with `eval_strategy = "steps"`; `None`: `logging_steps`.
    pub eval_steps: Option<u64>,
    /// Optimiser steps between log lines.
    pub logging_steps: u64,
    /// Whether an incomplete last micro-batch of an epoch is left out.
    pub dataloader_drop_last: bool,
    /// The model's shape.
    pub model: ModelArguments,
}

/// What a training run learns to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum TaskKind {
    /// One label per text.
    #[serde(rename = "text-classification")]
    TextClassification,
}

/// One line of `hpsearch list tasks`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TrainerTask {
    /// The word in `[trainer] task`.
    pub name: &'static str,
    /// What it is, in one sentence.
    pub doc: &'static str,
    /// The metrics it reports besides `train_loss`, `learning_rate`, `epoch` and `steps_per_second`.
    pub metrics: &'static [&'static str],
}

/// The tasks the shared trainer knows.
pub const TRAINER_TASKS: &[TrainerTask] = &[TrainerTask {
    name: "text-classification",
    doc: "one label per text, by a transformer encoder trained from scratch with its own tokenizer",
    metrics: &["eval_loss", "eval_accuracy", "eval_macro_f1"],
}];

/// An optimiser.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Optim {
    /// Adam with decoupled weight decay, PyTorch's.
    #[serde(alias = "adamw_torch")]
    AdamW,
    /// Stochastic gradient descent with momentum, PyTorch's.
    Sgd,
}

/// The course of the learning rate, after transformers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Schedule {
    /// Down to 0 in a straight line.
    Linear,
    /// Down to 0 along half a cosine wave.
    Cosine,
    /// Always the same, without warm-up.
    Constant,
    /// Always the same after warm-up.
    ConstantWithWarmup,
}

/// When to evaluate, besides where the pruner asks for it and at the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EvalStrategy {
    /// Nowhere else.
    No,
    /// After every epoch.
    Epoch,
    /// Every `eval_steps` optimiser steps.
    Steps,
}

const SHARE: ArgumentKind = ArgumentKind::Float { low: Included(0.0), high: Excluded(1.0) };
const NOT_NEGATIVE: ArgumentKind = ArgumentKind::Float { low: Included(0.0), high: Unbounded };
const POSITIVE: ArgumentKind = ArgumentKind::Float { low: Excluded(0.0), high: Unbounded };

const fn count(high: i64) -> ArgumentKind {
    ArgumentKind::Int { low: 1, high }
}

const fn line(name: &'static str, kind: ArgumentKind, default: ArgumentDefault, doc: &'static str) -> Argument {
    Argument { name, aliases: &[], kind, default, doc }
}

impl Argument {
    const fn or(mut self, aliases: &'static [&'static str]) -> Self {
        self.aliases = aliases;
        self
    }
}

use ArgumentDefault::{Absent, Flag, Float, Int, Text};
use ArgumentKind::Choice;

/// Every argument of `[trainer]`: drives parsing, checks, suggestions, the schema and `hpsearch list tasks`.
pub static ARGUMENTS: &[Argument] = &[
    line("task", Choice(&["text-classification"]), Text("text-classification"), "what is learnt"),
    // 5e-5 in transformers is meant for pretrained models; from scratch it hardly moves.
    line("learning_rate", POSITIVE, Float(1e-3), "peak learning rate (transformers' 5e-5 is meant for pretrained models)").or(&["lr"]),
    line("per_device_train_batch_size", count(65_536), Int(8), "training rows per micro-batch").or(&["train_batch_size", "batch_size"]),
    // 8 in transformers: larger batches evaluate faster and change nothing that is learnt.
    line("per_device_eval_batch_size", count(65_536), Int(64), "evaluation rows per batch"),
    line("num_train_epochs", POSITIVE, Float(3.0), "passes over the training rows, may be fractional").or(&["epochs"]),
    line("max_steps", ArgumentKind::Int { low: -1, high: i64::MAX }, Int(-1), "optimiser steps in all, overriding num_train_epochs; -1: not set"),
    line("weight_decay", NOT_NEGATIVE, Float(0.0), "decoupled weight decay; biases and norms are spared"),
    line("adam_beta1", SHARE, Float(0.9), "AdamW's decay of the gradient mean"),
    line("adam_beta2", SHARE, Float(0.999), "AdamW's decay of the squared gradient mean"),
    line("adam_epsilon", POSITIVE, Float(1e-8), "AdamW's term against division by zero"),
    line("max_grad_norm", NOT_NEGATIVE, Float(1.0), "greatest global gradient norm; 0: no clipping"),
    line("optim", Choice(&["adamw", "adamw_torch", "sgd"]), Text("adamw"), "the optimiser"),
    // 0 in PyTorch: without momentum SGD hardly trains a transformer.
    line("momentum", SHARE, Float(0.9), "SGD's momentum"),
    line(
        "lr_scheduler_type",
        Choice(&["linear", "cosine", "constant", "constant_with_warmup"]),
        Text("linear"),
        "course of the learning rate after warm-up",
    ),
    line("warmup_steps", ArgumentKind::StepsOrShare, Int(0), "steps of linear warm-up, or their share of all steps when below 1"),
    line(
        "warmup_ratio",
        ArgumentKind::Float { low: Included(0.0), high: Included(1.0) },
        Float(0.0),
        "share of all steps that is warm-up, used when warmup_steps is 0",
    ),
    line("label_smoothing_factor", SHARE, Float(0.0), "share of the target probability spread over all labels"),
    line("gradient_accumulation_steps", count(65_536), Int(1), "micro-batches per optimiser step"),
    line("eval_strategy", Choice(&["no", "epoch", "steps"]), Text("no"), "when to evaluate, besides where the pruner asks for it and at the end")
        .or(&["evaluation_strategy"]),
    line("eval_steps", count(i64::MAX), Absent, "optimiser steps between evaluations with eval_strategy = \"steps\"; logging_steps when not given"),
    line("logging_steps", count(i64::MAX), Int(500), "optimiser steps between log lines"),
    line("dataloader_drop_last", ArgumentKind::Flag, Flag(false), "leave out an incomplete last micro-batch of an epoch"),
    line("model.hidden_size", count(16_384), Int(128), "width of the encoder, a multiple of model.num_heads").or(&["model.d_model"]),
    line("model.num_layers", count(256), Int(2), "number of encoder layers").or(&["num_hidden_layers", "model.num_hidden_layers"]),
    line("model.num_heads", count(256), Int(4), "attention heads per layer").or(&["num_attention_heads", "model.num_attention_heads"]),
    line("model.intermediate_size", count(65_536), Absent, "width of the feed-forward part; four times model.hidden_size when not given"),
    line("model.dropout", SHARE, Float(0.1), "share of activations dropped").or(&["hidden_dropout_prob", "model.hidden_dropout_prob"]),
    line("model.attention_dropout", SHARE, Float(0.1), "share of attention probabilities dropped")
        .or(&["attention_probs_dropout_prob", "model.attention_probs_dropout_prob"]),
    line("model.activation", Choice(&["gelu", "relu"]), Text("gelu"), "nonlinearity of the feed-forward part")
        .or(&["hidden_act", "model.hidden_act"]),
    line("model.pooling", Choice(&["cls", "mean"]), Text("mean"), "how token vectors become one text vector"),
    line("model.tokenizer", Choice(&["wordpiece", "bpe", "word"]), Text("wordpiece"), "kind of tokenizer trained on the training texts"),
    line("model.vocab_size", ArgumentKind::Int { low: 5, high: 1_000_000 }, Int(8_000), "most entries the tokenizer may have"),
    line("model.lowercase", ArgumentKind::Flag, Flag(true), "whether texts are lowercased first"),
    line("model.max_length", ArgumentKind::Int { low: 3, high: 8_192 }, Absent, "longest row in tokens; [data] max_length when not given")
        .or(&["max_position_embeddings", "model.max_position_embeddings"]),
];

impl TrainerArguments {
    /// Complete arguments from what was given, keys dotted (`model.hidden_size`) or nested.
    ///
    /// # Errors
    /// All problems at once, sorted by key: unknown keys, wrong types, values out of range, contradictions.
    pub fn resolve(values: &BTreeMap<String, Value>) -> Result<Self, Vec<ArgumentProblem>> {
        let (merged, mut problems) = merge(ARGUMENTS, values);
        // Values that were refused are null or at their default here, so what follows looks at sound ones only.
        match serde_json::from_value::<Self>(Value::Object(merged)) {
            Ok(arguments) => {
                problems.extend(arguments.contradictions(&problems));
                if problems.is_empty() {
                    return Ok(arguments);
                }
            }
            Err(error) => problems.push(ArgumentProblem::new("task", format!("the argument table and the arguments disagree: {error}"))),
        }
        Err(problems)
    }

    /// What the tokenizer, and with it the prepared data, depends on.
    #[must_use]
    pub fn tokenizer(&self) -> TokenizerArguments {
        TokenizerArguments { kind: self.model.tokenizer, vocab_size: self.model.vocab_size, lowercase: self.model.lowercase }
    }

    /// What single values cannot show.
    fn contradictions(&self, known: &[ArgumentProblem]) -> Vec<ArgumentProblem> {
        let mut problems = Vec::new();
        let model = &self.model;
        let sound = |key: &str| known.iter().all(|problem| problem.key != key);
        if !model.hidden_size.is_multiple_of(model.num_heads) && sound("model.hidden_size") && sound("model.num_heads") {
            problems.push(
                ArgumentProblem::new(
                    "model.hidden_size",
                    format!("`model.hidden_size` = {} is not divisible by `model.num_heads` = {}", model.hidden_size, model.num_heads),
                )
                .with_help("each head takes an equal share of the width"),
            );
        }
        if self.max_steps == 0 {
            problems.push(
                ArgumentProblem::new("max_steps", "`max_steps` = 0 trains nothing")
                    .with_help("leave it out, or give -1, to train for num_train_epochs"),
            );
        }
        if self.warmup_ratio > 0.0 && self.warmup_steps > 0.0 {
            problems.push(ArgumentProblem::new("warmup_ratio", "`warmup_ratio` and `warmup_steps` both say how long warm-up is: give one of them"));
        }
        problems
    }
}
