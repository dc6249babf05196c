//! The resolved arguments of a training run and the table they are parsed by.

use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Included, Unbounded};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::model::{DECODER_TYPES, ENCODER_TYPES, ModelArguments, TokenizerArguments, TokenizerKind, TokenizerSource};
use super::schedule::{SCHEDULE_NAMES, Schedule, ScheduleArguments, schedule_problems};
use super::shape;
use super::table::{Argument, ArgumentDefault, ArgumentKind, ArgumentProblem, merge, of_other_tasks};
use super::tuning::{self, ClassWeights};

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
    /// Settings of some courses.
    #[serde(default)]
    pub lr_scheduler_kwargs: ScheduleArguments,
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
    /// Epochs, or optimiser steps with `eval_strategy = "steps"`, before the first evaluation that `eval_strategy` asks for.
    #[serde(default)]
    pub eval_delay: f64,
    /// Whether to evaluate before the first step; logged, not reported.
    #[serde(default)]
    pub eval_on_start: bool,
    /// Whether a trial that runs out of memory goes on with half the rows at once ([`RowsAtOnce`](super::RowsAtOnce)).
    #[serde(default = "yes")]
    pub auto_find_batch_size: bool,
    /// Evaluations in a row without a better study metric after which training ends; `None`: it does not.
    #[serde(default)]
    pub early_stopping_patience: Option<u64>,
    /// How much better the study's metric must be to count.
    #[serde(default)]
    pub early_stopping_threshold: f64,
    /// Most examples that an evaluation looks at, spread evenly; `None`: all.
    #[serde(default)]
    pub max_eval_samples: Option<usize>,
    /// When to write log lines.
    #[serde(default)]
    pub logging_strategy: LoggingStrategy,
    /// Optimiser steps between log lines with `logging_strategy = "steps"`.
    pub logging_steps: u64,
    /// Whether the first step gets a log line, too.
    #[serde(default)]
    pub logging_first_step: bool,
    /// Whether an incomplete last micro-batch of an epoch is left out.
    pub dataloader_drop_last: bool,
    /// In which order rows are seen.
    #[serde(default)]
    pub train_sampling_strategy: SamplingStrategy,
    /// Most tokens per micro-batch, rows times the longest of them.
    #[serde(default)]
    pub max_tokens_per_batch: Option<usize>,
    /// What each label's rows weigh in the training loss.
    #[serde(default)]
    pub class_weights: Option<ClassWeights>,
    /// Parts that are not trained, by their names.
    #[serde(default)]
    pub freeze: Vec<String>,
    /// How many of the first layers are not trained, the embeddings with them; 0: all are.
    #[serde(default)]
    pub freeze_layers: usize,
    /// Whether what frozen first layers make of rows is computed once.
    #[serde(default = "yes")]
    pub cache_frozen_features: bool,
    /// What the learning rate is multiplied with from each layer to the one below it.
    #[serde(default = "one")]
    pub layerwise_lr_decay: f64,
    /// The rank of low-rank adapters; 0: there are none.
    #[serde(default)]
    pub lora_r: usize,
    /// What adapters' parts are multiplied with, times their rank.
    #[serde(default = "lora_alpha")]
    pub lora_alpha: f64,
    /// Share of adapters' inputs dropped, in [0, 1).
    #[serde(default)]
    pub lora_dropout: f64,
    /// Which linear maps have adapters, by the ends of their names; none: those of queries and values.
    #[serde(default)]
    pub lora_target_modules: Vec<String>,
    /// Whether adapters' parts are divided by the root of their rank instead of the rank.
    #[serde(default)]
    pub use_rslora: bool,
    /// Whether activations within layers are computed again for the gradient instead of being kept.
    #[serde(default)]
    pub gradient_checkpointing: bool,
    /// The model's shape.
    pub model: ModelArguments,
}

fn yes() -> bool {
    true
}

fn one() -> f64 {
    1.0
}

/// peft's.
fn lora_alpha() -> f64 {
    8.0
}

/// What a training run learns to do; its words are the names in [`TRAINER_TASKS`].
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
    /// The next token of a text.
    #[serde(rename = "language-modeling")]
    LanguageModeling,
}

impl TaskKind {
    /// The task that arguments name; the default where they name none, or none there is (which is reported elsewhere).
    #[must_use]
    pub fn of(values: &BTreeMap<String, Value>) -> Self {
        values.get("task").and_then(|task| serde_json::from_value(task.clone()).ok()).unwrap_or_default()
    }

    /// Whether its models are encoders that read a text and say one thing about it.
    #[must_use]
    pub fn is_of_encoders(self) -> bool {
        self != Self::LanguageModeling
    }

    /// Its line of [`TRAINER_TASKS`].
    #[must_use]
    pub fn line(self) -> &'static TrainerTask {
        TRAINER_TASKS.iter().find(|task| task.kind == self).expect("a test holds the kinds and the table together")
    }
}

/// One line of `hpsearch list tasks`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TrainerTask {
    /// What the resolved arguments say.
    pub kind: TaskKind,
    /// The word in `[trainer] task`.
    pub name: &'static str,
    /// What it is, in one sentence.
    pub doc: &'static str,
    /// The metrics it reports besides `train_loss`, `learning_rate`, `epoch`, `steps_per_second`, `grad_norm` and `weight_norm`.
    pub metrics: &'static [&'static str],
    /// The tokenizers it takes, the default first.
    pub tokenizers: &'static [TokenizerKind],
    /// Whether texts are lowercased when nothing says it.
    pub lowercase: bool,
}

const ENCODER_TOKENIZERS: &[TokenizerKind] = &[TokenizerKind::WordPiece, TokenizerKind::Bpe, TokenizerKind::Word];

/// The words for `[trainer] model.model_type`.
const MODEL_TYPES: [&str; ENCODER_TYPES.len() + DECODER_TYPES.len()] = {
    let mut words = [""; ENCODER_TYPES.len() + DECODER_TYPES.len()];
    let mut word = 0;
    while word < words.len() {
        words[word] = if word < ENCODER_TYPES.len() { ENCODER_TYPES[word] } else { DECODER_TYPES[word - ENCODER_TYPES.len()] };
        word += 1;
    }
    words
};

/// The tasks the shared trainer knows.
pub const TRAINER_TASKS: &[TrainerTask] = &[
    TrainerTask {
        kind: TaskKind::TextClassification,
        name: "text-classification",
        doc: "one label per text, by a transformer encoder: a pretrained one, or one trained from scratch with its own tokenizer",
        metrics: &["eval_loss", "eval_accuracy", "eval_macro_f1"],
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
        doc: "a number per text: its label column holds numbers, and the loss is their mean squared error",
        metrics: &["eval_loss", "eval_rmse", "eval_mae", "eval_r2", "eval_pearson"],
        tokenizers: ENCODER_TOKENIZERS,
        lowercase: true,
    },
    TrainerTask {
        kind: TaskKind::LanguageModeling,
        name: "language-modeling",
        doc: "the next token of a text, by a transformer decoder: a pretrained one, or one trained from scratch on characters, bytes or BPE",
        metrics: &["eval_loss", "eval_perplexity", "eval_bits_per_byte"],
        tokenizers: &[TokenizerKind::Bpe, TokenizerKind::Chars, TokenizerKind::Bytes],
        lowercase: false,
    },
];

/// The words for `[trainer] task`.
const TASK_NAMES: [&str; TRAINER_TASKS.len()] = {
    let mut names = [""; TRAINER_TASKS.len()];
    let mut task = 0;
    while task < names.len() {
        names[task] = TRAINER_TASKS[task].name;
        task += 1;
    }
    names
};

/// An optimiser.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Optim {
    /// Adam with decoupled weight decay, PyTorch's.
    #[serde(alias = "adamw_torch", alias = "adamw_torch_fused", alias = "adamw_hf")]
    AdamW,
    /// Stochastic gradient descent with momentum, PyTorch's.
    Sgd,
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

/// When to write log lines.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LoggingStrategy {
    /// Never.
    No,
    /// After every epoch.
    Epoch,
    /// Every `logging_steps` optimiser steps.
    #[default]
    Steps,
}

/// In which order a training run sees rows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SamplingStrategy {
    /// At random, anew in every epoch.
    #[default]
    Random,
    /// Rows of like lengths together, and otherwise at random.
    GroupByLength,
    /// As they stand in the data.
    Sequential,
}

const SHARE: ArgumentKind = ArgumentKind::Float { low: Included(0.0), high: Excluded(1.0) };
const NOT_NEGATIVE: ArgumentKind = ArgumentKind::Float { low: Included(0.0), high: Unbounded };
const UNIT: ArgumentKind = ArgumentKind::Float { low: Included(0.0), high: Included(1.0) };
const POSITIVE: ArgumentKind = ArgumentKind::Float { low: Excluded(0.0), high: Unbounded };

const fn count(high: i64) -> ArgumentKind {
    ArgumentKind::Int { low: 1, high }
}

const fn line(name: &'static str, kind: ArgumentKind, default: ArgumentDefault, doc: &'static str) -> Argument {
    Argument { name, aliases: &[], kind, default, doc, only: None }
}

impl Argument {
    const fn or(mut self, aliases: &'static [&'static str]) -> Self {
        self.aliases = aliases;
        self
    }

    const fn only(mut self, task: TaskKind) -> Self {
        self.only = Some(task);
        self
    }
}

/// Most rows per micro-batch.
pub(super) const MOST_ROWS: i64 = 65_536;

use ArgumentDefault::{Absent, Flag, Float, Int, Text};
use ArgumentKind::Choice;

/// Every argument of `[trainer]`: drives parsing, checks, suggestions, the schema and `hpsearch list tasks`.
pub static ARGUMENTS: &[Argument] = &[
    line("task", Choice(&TASK_NAMES), Text("text-classification"), "what is learnt"),
    // 5e-5 in transformers is meant for pretrained models; from scratch it hardly moves.
    line("learning_rate", POSITIVE, Float(1e-3), "peak learning rate (transformers' 5e-5 is meant for pretrained models)").or(&["lr"]),
    line("per_device_train_batch_size", count(MOST_ROWS), Int(8), "training rows per micro-batch, at most those of max_tokens_per_batch").or(&[
        "train_batch_size",
        "batch_size",
        "per_gpu_train_batch_size",
    ]),
    // 8 in transformers: larger batches evaluate faster and change nothing that is learnt.
    line("per_device_eval_batch_size", count(65_536), Int(64), "evaluation rows per batch").or(&["per_gpu_eval_batch_size"]),
    line("num_train_epochs", POSITIVE, Float(3.0), "passes over the training rows, may be fractional").or(&["epochs"]),
    line("max_steps", ArgumentKind::Int { low: -1, high: i64::MAX }, Int(-1), "optimiser steps in all, overriding num_train_epochs; -1: not set"),
    line("weight_decay", NOT_NEGATIVE, Float(0.0), "decoupled weight decay; biases and norms are spared"),
    line("adam_beta1", SHARE, Float(0.9), "AdamW's decay of the gradient mean"),
    line("adam_beta2", SHARE, Float(0.999), "AdamW's decay of the squared gradient mean"),
    line("adam_epsilon", POSITIVE, Float(1e-8), "AdamW's term against division by zero"),
    line("max_grad_norm", NOT_NEGATIVE, Float(1.0), "greatest global gradient norm; 0: no clipping"),
    line("optim", Choice(&["adamw", "adamw_torch", "adamw_torch_fused", "adamw_hf", "sgd"]), Text("adamw"), "the optimiser"),
    // 0 in PyTorch: without momentum SGD hardly trains a transformer.
    line("momentum", SHARE, Float(0.9), "SGD's momentum"),
    line("lr_scheduler_type", Choice(SCHEDULE_NAMES), Text("linear"), "course of the learning rate after warm-up"),
    line(
        "lr_scheduler_kwargs.num_cycles",
        POSITIVE,
        Absent,
        "waves of cosines (half a wave is 0.5, their default), restarts of cosine_with_restarts (1)",
    ),
    line("lr_scheduler_kwargs.min_lr", NOT_NEGATIVE, Absent, "where cosine_with_min_lr ends, and below which reduce_lr_on_plateau does not go (0)"),
    line("lr_scheduler_kwargs.min_lr_rate", UNIT, Absent, "where cosine_with_min_lr ends, as a share of learning_rate"),
    line("lr_scheduler_kwargs.lr_end", NOT_NEGATIVE, Absent, "where polynomial ends (1e-7)"),
    line("lr_scheduler_kwargs.power", POSITIVE, Absent, "power of polynomial (1, a straight line)"),
    line(
        "lr_scheduler_kwargs.timescale",
        count(i64::MAX),
        Absent,
        "time scale of inverse_sqrt in steps; warm-up's length, or 10,000 without one, when not given",
    ),
    line(
        "lr_scheduler_kwargs.num_stable_steps",
        ArgumentKind::Int { low: 0, high: i64::MAX },
        Absent,
        "steps at the peak of warmup_stable_decay; what warm-up and decay leave when not given",
    ),
    line(
        "lr_scheduler_kwargs.num_decay_steps",
        ArgumentKind::StepsOrShare,
        Absent,
        "last steps, over which warmup_stable_decay falls, or their share of all steps when below 1",
    ),
    line("lr_scheduler_kwargs.min_lr_ratio", UNIT, Absent, "where warmup_stable_decay begins and ends, as a share of learning_rate (0)"),
    line("lr_scheduler_kwargs.warmup_type", Choice(&["linear", "cosine", "1-sqrt"]), Absent, "how warmup_stable_decay rises (linear)"),
    line("lr_scheduler_kwargs.decay_type", Choice(&["linear", "cosine", "1-sqrt"]), Absent, "how warmup_stable_decay falls (cosine)"),
    line(
        "lr_scheduler_kwargs.factor",
        ArgumentKind::Float { low: Excluded(0.0), high: Excluded(1.0) },
        Absent,
        "what reduce_lr_on_plateau multiplies the learning rate with (0.1)",
    ),
    line(
        "lr_scheduler_kwargs.patience",
        ArgumentKind::Int { low: 0, high: i64::MAX },
        Absent,
        "evaluations without a better eval_loss that reduce_lr_on_plateau bears (10)",
    ),
    line("lr_scheduler_kwargs.threshold", SHARE, Absent, "relative improvement of eval_loss that reduce_lr_on_plateau counts (1e-4)"),
    line(
        "lr_scheduler_kwargs.cooldown",
        ArgumentKind::Int { low: 0, high: i64::MAX },
        Absent,
        "evaluations that reduce_lr_on_plateau rests after a cut (0)",
    ),
    line("warmup_steps", ArgumentKind::StepsOrShare, Int(0), "steps of linear warm-up, or their share of all steps when below 1"),
    line("warmup_ratio", UNIT, Float(0.0), "share of all steps that is warm-up, used when warmup_steps is 0"),
    line("label_smoothing_factor", SHARE, Float(0.0), "share of the target probability spread over all labels"),
    line("gradient_accumulation_steps", count(65_536), Int(1), "micro-batches per optimiser step"),
    // Off in transformers, where every halving changes the batch that is learnt from; here optimiser steps stay what they are.
    line(
        "auto_find_batch_size",
        ArgumentKind::Flag,
        Flag(true),
        "after running out of memory, go on with half the rows at once and the same optimiser steps; false: what [retry] says",
    ),
    line("eval_strategy", Choice(&["no", "epoch", "steps"]), Text("no"), "when to evaluate, besides where the pruner asks for it and at the end")
        .or(&["evaluation_strategy"]),
    line("eval_steps", count(i64::MAX), Absent, "optimiser steps between evaluations with eval_strategy = \"steps\"; logging_steps when not given"),
    line(
        "eval_delay",
        NOT_NEGATIVE,
        Float(0.0),
        "epochs, or steps with eval_strategy = \"steps\", before the first evaluation that eval_strategy asks for",
    ),
    line("eval_on_start", ArgumentKind::Flag, Flag(false), "evaluate before the first step, too; logged, not reported"),
    line(
        "early_stopping_patience",
        count(i64::MAX),
        Absent,
        "evaluations in a row without a better study metric after which training ends; never when not given",
    ),
    line("early_stopping_threshold", NOT_NEGATIVE, Float(0.0), "how much better the study's metric must be to count for early_stopping_patience"),
    line("max_eval_samples", count(i64::MAX), Absent, "most examples an evaluation looks at, spread evenly; all when not given"),
    line("logging_strategy", Choice(&["no", "epoch", "steps"]), Text("steps"), "when to write log lines"),
    line("logging_steps", count(i64::MAX), Int(500), "optimiser steps between log lines with logging_strategy = \"steps\""),
    line("logging_first_step", ArgumentKind::Flag, Flag(false), "a log line for the first step, too"),
    line("dataloader_drop_last", ArgumentKind::Flag, Flag(false), "leave out an incomplete last micro-batch of an epoch"),
    // Padding costs time on GPUs; on the CPU there is none.
    line(
        "train_sampling_strategy",
        Choice(&["random", "group_by_length", "sequential"]),
        Text("random"),
        "the order of rows: at random, like lengths together, or as they stand in the data",
    ),
    line(
        "max_tokens_per_batch",
        count(i64::MAX),
        Absent,
        "most tokens per micro-batch (rows times the longest) instead of 8 rows; rows of like lengths go together, in batches of random order",
    )
    .or(&["max_tokens"]),
    line(
        "class_weights",
        ArgumentKind::Weights,
        Absent,
        "what each label's rows weigh in the training loss: \"balanced\" (as scikit-learn), or a list in the order of the labels",
    )
    .or(&["class_weight"])
    .only(TaskKind::TextClassification),
    line(
        "freeze",
        ArgumentKind::Names,
        Absent,
        "parts that are not trained: embeddings, layers.0, layers.0-3, body, head, or names of tensors with * for any letters",
    ),
    line(
        "freeze_layers",
        ArgumentKind::Int { low: 0, high: 1_024 },
        Int(0),
        "how many of the first layers are not trained, and the embeddings with them; they run without dropout",
    ),
    line(
        "cache_frozen_features",
        ArgumentKind::Flag,
        Flag(true),
        "compute what frozen first layers make of each text once, where it takes at most 1 GiB, instead of in every step",
    ),
    line(
        "layerwise_lr_decay",
        ArgumentKind::Float { low: Excluded(0.0), high: Included(1.0) },
        Float(1.0),
        "what the learning rate is multiplied with from each layer to the one below; the head's is learning_rate",
    )
    .or(&["layer_decay", "llrd"]),
    line("lora_r", ArgumentKind::Int { low: 0, high: 4_096 }, Int(0), "rank of LoRA adapters, beside which only the head is trained; 0: none"),
    line("lora_alpha", POSITIVE, Float(8.0), "LoRA's scale: what adapters add is multiplied with lora_alpha / lora_r"),
    line("lora_dropout", SHARE, Float(0.0), "share of LoRA adapters' inputs dropped"),
    line(
        "lora_target_modules",
        ArgumentKind::Names,
        Absent,
        "linear maps with LoRA adapters, by the ends of their names, or all-linear; when not given those of queries and values",
    ),
    line("use_rslora", ArgumentKind::Flag, Flag(false), "multiply what LoRA adapters add with lora_alpha / sqrt(lora_r)"),
    line(
        "gradient_checkpointing",
        ArgumentKind::Flag,
        Flag(false),
        "compute what happens within layers again for the gradient instead of keeping it: the same result, less memory, more time",
    )
    .or(&["activation_checkpointing"]),
    line("model.pretrained", ArgumentKind::Text, Absent, "directory of a pretrained model, in Hugging Face's layout, to start from")
        .or(&["model", "model_name_or_path"]),
    line(
        "model.model_type",
        Choice(&MODEL_TYPES),
        Absent,
        "architecture made from nothing; when not given hpsearch-encoder to classify, gpt2 to model language",
    ),
    line("model.hidden_size", count(16_384), Int(128), "width of the model, a multiple of model.num_heads").or(&["model.d_model", "model.n_embd"]),
    line("model.num_layers", count(256), Int(2), "number of layers").or(&["num_hidden_layers", "model.num_hidden_layers", "model.n_layer"]),
    line("model.num_heads", count(256), Int(4), "attention heads per layer").or(&[
        "num_attention_heads",
        "model.num_attention_heads",
        "model.n_head",
    ]),
    line("model.num_kv_heads", count(256), Absent, "heads of keys and values, of llama and qwen2; model.num_heads when not given")
        .or(&["num_key_value_heads", "model.num_key_value_heads"])
        .only(TaskKind::LanguageModeling),
    line(
        "model.intermediate_size",
        count(65_536),
        Absent,
        "width of the feed-forward part; when not given twice model.hidden_size of modernbert, else four times",
    )
    .or(&["model.n_inner"]),
    line("model.dropout", SHARE, Absent, "share of activations dropped; when not given 0.1, or what a pretrained model says")
        .or(&["hidden_dropout_prob", "model.hidden_dropout_prob"]),
    line("model.attention_dropout", SHARE, Absent, "share of attention probabilities dropped; when not given 0.1, or what a pretrained model says")
        .or(&["attention_probs_dropout_prob", "model.attention_probs_dropout_prob"]),
    line(
        "model.classifier_dropout",
        SHARE,
        Absent,
        "share of a text's vector dropped before its labels; model.dropout, or what a pretrained model says",
    )
    .or(&["classifier_dropout"])
    .only(TaskKind::TextClassification),
    line(
        "model.activation",
        Choice(&["gelu", "gelu_new", "relu", "silu"]),
        Absent,
        "nonlinearity of the feed-forward part; when not given silu of llama, qwen2, mistral and qwen3, else gelu",
    )
    .or(&["hidden_act", "model.hidden_act"]),
    line(
        "model.pooling",
        Choice(&["cls", "mean"]),
        Absent,
        "how token vectors become one text vector, of modernbert and hpsearch-encoder; mean when not given",
    )
    .only(TaskKind::TextClassification),
    line("model.tie_word_embeddings", ArgumentKind::Flag, Absent, "whether the output reuses the token embeddings; true when not given")
        .or(&["tie_word_embeddings"])
        .only(TaskKind::LanguageModeling),
    line(
        "model.tokenizer",
        Choice(&["wordpiece", "bpe", "word", "chars", "bytes"]),
        Absent,
        "kind of tokenizer trained on the training texts; when not given wordpiece to classify, bpe to model language",
    ),
    line("model.vocab_size", ArgumentKind::Int { low: 5, high: 1_000_000 }, Int(8_000), "most entries the tokenizer may have"),
    line(
        "model.lowercase",
        ArgumentKind::Flag,
        Absent,
        "whether texts are lowercased first; when not given true to classify, false to model language",
    ),
    line("model.max_length", ArgumentKind::Int { low: 3, high: 8_192 }, Absent, "longest row in tokens; [data] max_length when not given").or(&[
        "max_position_embeddings",
        "model.max_position_embeddings",
        "block_size",
        "model.n_positions",
    ]),
];

impl TrainerArguments {
    /// Complete arguments from what was given, keys dotted (`model.hidden_size`) or nested.
    ///
    /// # Errors
    /// All problems at once, sorted by key: unknown keys, wrong types, values out of range, contradictions.
    pub fn resolve(values: &BTreeMap<String, Value>) -> Result<Self, Vec<ArgumentProblem>> {
        let (mut merged, mut problems) = merge(ARGUMENTS, values);
        let task = TaskKind::of(&merged.iter().map(|(name, value)| (name.clone(), value.clone())).collect());
        problems.extend(of_other_tasks(ARGUMENTS, values, task));
        if merged["model"]["pretrained"].is_null() {
            shape::fill_in(&mut merged["model"], task);
        } else {
            problems.extend(shape::start_from_pretrained(&mut merged, values));
        }
        tuning::fill_in(&mut merged, values);
        // Values that were refused are null or at their default here, so what follows looks at sound ones only.
        match serde_json::from_value::<Self>(Value::Object(merged)) {
            Ok(arguments) => {
                problems.extend(arguments.contradictions(&problems));
                problems.extend(tuning::contradictions(&arguments, values));
                if problems.is_empty() {
                    return Ok(arguments);
                }
            }
            Err(error) => problems.push(ArgumentProblem::new("task", format!("the argument table and the arguments disagree: {error}"))),
        }
        Err(problems)
    }

    /// Whether another run's arguments train the same parameters.
    #[must_use]
    pub fn trains_what(&self, other: &Self) -> bool {
        let about = |one: &Self| (one.freeze.clone(), one.freeze_layers, one.lora_r, one.lora_target_modules.clone());
        about(self) == about(other)
    }

    /// Where the tokenizer comes from; the prepared data depends on it.
    #[must_use]
    pub fn tokenizer(&self) -> TokenizerSource {
        let (model, task) = (&self.model, self.task.line());
        match &model.pretrained {
            Some(directory) => TokenizerSource::Pretrained(directory.into()),
            None => TokenizerSource::Trained(TokenizerArguments {
                kind: model.tokenizer.unwrap_or(task.tokenizers[0]),
                vocab_size: model.vocab_size.unwrap_or(8_000),
                lowercase: model.lowercase.unwrap_or(task.lowercase),
            }),
        }
    }

    /// What single values cannot show.
    fn contradictions(&self, known: &[ArgumentProblem]) -> Vec<ArgumentProblem> {
        let mut problems = Vec::new();
        let sound = |key: &str| known.iter().all(|problem| problem.key != key);
        if self.model.pretrained.is_none() {
            problems.extend(shape::contradictions(self.task, &self.model).into_iter().filter(|problem| sound(&problem.key)));
        }
        if self.label_smoothing_factor > 0.0 && !matches!(self.task, TaskKind::TextClassification | TaskKind::LanguageModeling) {
            let message = format!("`label_smoothing_factor` means nothing to `{}`", self.task.line().name);
            problems.push(ArgumentProblem::new("label_smoothing_factor", message).with_help("leave it out"));
        }
        problems.extend(schedule_problems(self));
        if self.early_stopping_patience.is_some() && self.eval_strategy == EvalStrategy::No {
            problems.push(
                ArgumentProblem::new("early_stopping_patience", "`early_stopping_patience` counts evaluations, and `eval_strategy` asks for none")
                    .with_help("set `eval_strategy = \"epoch\"`, or \"steps\" with `eval_steps`"),
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
