//! The table of all `[trainer]` arguments.

use std::ops::Bound::{Excluded, Included, Unbounded};

use super::argument::ArgumentDefault::{Absent, Flag, Float, Int, Text};
use super::argument::ArgumentKind::Choice;
use super::argument::{Argument, ArgumentDefault, ArgumentKind};
use super::model::{DECODER_TYPES, ENCODER_TYPES};
use super::scheduler::SCHEDULER_NAMES;
use super::tasks::{TASK_NAMES, TaskKind};

/// The values of `[trainer] model.model_type`.
const MODEL_TYPES: [&str; ENCODER_TYPES.len() + DECODER_TYPES.len()] = {
    let mut words = [""; ENCODER_TYPES.len() + DECODER_TYPES.len()];
    let mut word = 0;
    while word < words.len() {
        words[word] = if word < ENCODER_TYPES.len() {
            ENCODER_TYPES[word]
        } else {
            DECODER_TYPES[word - ENCODER_TYPES.len()]
        };
        word += 1;
    }
    words
};

const FRACTION: ArgumentKind = ArgumentKind::Float { low: Included(0.0), high: Excluded(1.0) };
const NOT_NEGATIVE: ArgumentKind = ArgumentKind::Float { low: Included(0.0), high: Unbounded };
const UNIT: ArgumentKind = ArgumentKind::Float { low: Included(0.0), high: Included(1.0) };
const POSITIVE: ArgumentKind = ArgumentKind::Float { low: Excluded(0.0), high: Unbounded };

const fn count(high: i64) -> ArgumentKind {
    ArgumentKind::Int { low: 1, high }
}

const fn line(
    name: &'static str,
    kind: ArgumentKind,
    default: ArgumentDefault,
    doc: &'static str,
) -> Argument {
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

/// Largest batch size.
pub(super) const MAX_ROWS: i64 = 65_536;

/// Every argument of `[trainer]`: drives parsing, checks, suggestions, the schema and `hpsearch list tasks`.
pub static ARGUMENTS: &[Argument] = &[
    line("task", Choice(&TASK_NAMES), Text("text-classification"), "the task"),
    // transformers' 5e-5 is meant for pretrained models; from scratch it is far too low.
    line("learning_rate", POSITIVE, Float(1e-3), "peak learning rate (transformers' 5e-5 is meant for pretrained models)").or(&["lr"]),
    line("per_device_train_batch_size", count(MAX_ROWS), Int(8), "training rows per micro-batch, at most those of max_tokens_per_batch").or(&[
        "train_batch_size",
        "batch_size",
        "per_gpu_train_batch_size",
    ]),
    // 8 in transformers: larger batches evaluate faster, with the same result.
    line("per_device_eval_batch_size", count(MAX_ROWS), Int(64), "evaluation rows per batch").or(&["per_gpu_eval_batch_size"]),
    line("num_train_epochs", POSITIVE, Float(3.0), "passes over the training rows, may be fractional").or(&["epochs"]),
    line(
        "max_steps",
        ArgumentKind::Int { low: -1, high: i64::MAX },
        Int(-1),
        "total number of optimiser steps, overriding num_train_epochs; -1: not set",
    ),
    line("weight_decay", NOT_NEGATIVE, Float(0.0), "decoupled weight decay; biases and norms are exempt"),
    line("adam_beta1", FRACTION, Float(0.9), "AdamW's decay rate of the first moment"),
    line("adam_beta2", FRACTION, Float(0.999), "AdamW's decay rate of the second moment"),
    line("adam_epsilon", POSITIVE, Float(1e-8), "AdamW's term for numerical stability"),
    line("max_grad_norm", NOT_NEGATIVE, Float(1.0), "maximum global gradient norm; 0: no clipping"),
    line("optim", Choice(&["adamw", "adamw_torch", "adamw_torch_fused", "adamw_hf", "sgd"]), Text("adamw"), "the optimiser"),
    // 0 in PyTorch: without momentum SGD hardly trains a transformer.
    line("momentum", FRACTION, Float(0.9), "SGD's momentum"),
    line("lr_scheduler_type", Choice(SCHEDULER_NAMES), Text("linear"), "learning-rate schedule after warm-up"),
    line(
        "lr_scheduler_kwargs.num_cycles",
        POSITIVE,
        Absent,
        "waves of the cosine schedules (0.5, half a wave), restarts of cosine_with_restarts (1)",
    ),
    line("lr_scheduler_kwargs.min_lr", NOT_NEGATIVE, Absent, "final learning rate of cosine_with_min_lr, minimum of reduce_lr_on_plateau (0)"),
    line("lr_scheduler_kwargs.min_lr_rate", UNIT, Absent, "final learning rate of cosine_with_min_lr, as a fraction of learning_rate"),
    line("lr_scheduler_kwargs.lr_end", NOT_NEGATIVE, Absent, "final learning rate of polynomial (1e-7)"),
    line("lr_scheduler_kwargs.power", POSITIVE, Absent, "exponent of polynomial (1, linear)"),
    line(
        "lr_scheduler_kwargs.timescale",
        count(i64::MAX),
        Absent,
        "time scale of inverse_sqrt in steps; the warm-up steps, or 10,000 without warm-up, when not given",
    ),
    line(
        "lr_scheduler_kwargs.num_stable_steps",
        ArgumentKind::Int { low: 0, high: i64::MAX },
        Absent,
        "steps of the constant phase of warmup_stable_decay; all that are not warm-up or decay when not given",
    ),
    line(
        "lr_scheduler_kwargs.num_decay_steps",
        ArgumentKind::StepsOrShare,
        Absent,
        "decay steps of warmup_stable_decay, or their fraction of all steps when below 1",
    ),
    line(
        "lr_scheduler_kwargs.min_lr_ratio",
        UNIT,
        Absent,
        "initial and final learning rate of warmup_stable_decay, as a fraction of learning_rate (0)",
    ),
    line("lr_scheduler_kwargs.warmup_type", Choice(&["linear", "cosine", "1-sqrt"]), Absent, "shape of the warm-up of warmup_stable_decay (linear)"),
    line("lr_scheduler_kwargs.decay_type", Choice(&["linear", "cosine", "1-sqrt"]), Absent, "shape of the decay of warmup_stable_decay (cosine)"),
    line(
        "lr_scheduler_kwargs.factor",
        ArgumentKind::Float { low: Excluded(0.0), high: Excluded(1.0) },
        Absent,
        "factor by which reduce_lr_on_plateau reduces the learning rate (0.1)",
    ),
    line(
        "lr_scheduler_kwargs.patience",
        ArgumentKind::Int { low: 0, high: i64::MAX },
        Absent,
        "evaluations without improvement of eval_loss that reduce_lr_on_plateau tolerates (10)",
    ),
    line("lr_scheduler_kwargs.threshold", FRACTION, Absent, "relative improvement of eval_loss that counts for reduce_lr_on_plateau (1e-4)"),
    line(
        "lr_scheduler_kwargs.cooldown",
        ArgumentKind::Int { low: 0, high: i64::MAX },
        Absent,
        "evaluations that reduce_lr_on_plateau ignores after a reduction (0)",
    ),
    line("warmup_steps", ArgumentKind::StepsOrShare, Int(0), "steps of linear warm-up, or their fraction of all steps when below 1"),
    line("warmup_ratio", UNIT, Float(0.0), "warm-up as a fraction of all steps, used when warmup_steps is 0"),
    line("label_smoothing_factor", FRACTION, Float(0.0), "probability mass spread evenly over all labels"),
    line("gradient_accumulation_steps", count(65_536), Int(1), "micro-batches per optimiser step"),
    // Off in transformers, where every halving changes the effective batch size; here it stays the same.
    line(
        "auto_find_batch_size",
        ArgumentKind::Flag,
        Flag(true),
        "after running out of memory, continue with half the rows at once and the same optimiser steps; false: retry as [retry] says",
    ),
    line("eval_strategy", Choice(&["no", "epoch", "steps"]), Text("no"), "when to evaluate, in addition to the pruner's rungs and the end")
        .or(&["evaluation_strategy"]),
    line("eval_steps", count(i64::MAX), Absent, "optimiser steps between evaluations with eval_strategy = \"steps\"; logging_steps when not given"),
    line("eval_delay", NOT_NEGATIVE, Float(0.0), "epochs, or steps with eval_strategy = \"steps\", before the first evaluation of eval_strategy"),
    line("eval_on_start", ArgumentKind::Flag, Flag(false), "evaluate before the first step, too; logged, not reported"),
    line(
        "early_stopping_patience",
        count(i64::MAX),
        Absent,
        "consecutive evaluations without improvement of the study metric after which training ends; never when not given",
    ),
    line("early_stopping_threshold", NOT_NEGATIVE, Float(0.0), "how much the study metric must improve to count for early_stopping_patience"),
    line("max_eval_samples", count(i64::MAX), Absent, "most examples per evaluation, spread evenly; all when not given"),
    line("logging_strategy", Choice(&["no", "epoch", "steps"]), Text("steps"), "when to write log lines"),
    line("logging_steps", count(i64::MAX), Int(500), "optimiser steps between log lines with logging_strategy = \"steps\""),
    line("logging_first_step", ArgumentKind::Flag, Flag(false), "log the first step, too"),
    line("dataloader_drop_last", ArgumentKind::Flag, Flag(false), "drop an incomplete last micro-batch of an epoch"),
    // Padding costs time on GPUs; the CPU kernels do without.
    line(
        "train_sampling_strategy",
        Choice(&["random", "group_by_length", "sequential"]),
        Text("random"),
        "the order of rows: random, grouped by length, or as in the data",
    ),
    line(
        "max_tokens_per_batch",
        count(i64::MAX),
        Absent,
        "most tokens per micro-batch (rows times the longest) instead of 8 rows; rows are grouped by length, and batches come in random order",
    )
    .or(&["max_tokens"]),
    line(
        "class_weights",
        ArgumentKind::Weights,
        Absent,
        "weights of the labels in the training loss: \"balanced\" (as scikit-learn), or a list in the order of the labels",
    )
    .or(&["class_weight"])
    .only(TaskKind::TextClassification),
    line(
        "freeze",
        ArgumentKind::Names,
        Absent,
        "frozen parameters: embeddings, layers.0, layers.0-3, body, head, or names of tensors with * as a wildcard",
    ),
    line(
        "freeze_layers",
        ArgumentKind::Int { low: 0, high: 1_024 },
        Int(0),
        "number of first layers that are frozen, together with the embeddings; they run without dropout",
    ),
    line(
        "cache_frozen_features",
        ArgumentKind::Flag,
        Flag(true),
        "compute the outputs of frozen first layers once instead of in every step, where they take at most 1 GiB",
    ),
    line(
        "layerwise_lr_decay",
        ArgumentKind::Float { low: Excluded(0.0), high: Included(1.0) },
        Float(1.0),
        "factor on the learning rate from each layer to the one below; the head's is learning_rate",
    )
    .or(&["layer_decay", "llrd"]),
    line("lora_r", ArgumentKind::Int { low: 0, high: 4_096 }, Int(0), "rank of LoRA adapters; besides them only the head is trained; 0: none"),
    line("lora_alpha", POSITIVE, Float(8.0), "LoRA's scaling: the output of adapters is multiplied by lora_alpha / lora_r"),
    line("lora_dropout", FRACTION, Float(0.0), "dropout of the inputs of LoRA adapters"),
    line(
        "lora_target_modules",
        ArgumentKind::Names,
        Absent,
        "linear layers with LoRA adapters, by the ends of their names, or all-linear; when not given those of queries and values",
    ),
    line("use_rslora", ArgumentKind::Flag, Flag(false), "multiply the output of LoRA adapters by lora_alpha / sqrt(lora_r)"),
    line(
        "gradient_checkpointing",
        ArgumentKind::Flag,
        Flag(false),
        "recompute activations in the backward pass instead of keeping them: the same result, less memory, more time",
    )
    .or(&["activation_checkpointing"]),
    line(
        "bf16",
        ArgumentKind::Flag,
        Flag(false),
        "matrix products in bf16 in training, for GPUs; parameters, norms, softmax, losses, evaluations and checkpoints stay f32",
    ),
    line("fp16", ArgumentKind::Flag, Flag(false), "the same in fp16, with dynamic loss scaling"),
    line("model.pretrained", ArgumentKind::Text, Absent, "pretrained model to start from: a directory in Hugging Face's layout")
        .or(&["model", "model_name_or_path"]),
    line(
        "model.model_type",
        Choice(&MODEL_TYPES),
        Absent,
        "architecture to train from scratch; when not given hpsearch-encoder for classification, gpt2 for language modeling",
    ),
    line("model.hidden_size", count(16_384), Int(128), "hidden size, a multiple of model.num_heads").or(&["model.d_model", "model.n_embd"]),
    line("model.num_layers", count(256), Int(2), "number of layers").or(&["num_hidden_layers", "model.num_hidden_layers", "model.n_layer"]),
    line("model.num_heads", count(256), Int(4), "attention heads per layer").or(&[
        "num_attention_heads",
        "model.num_attention_heads",
        "model.n_head",
    ]),
    line("model.num_kv_heads", count(256), Absent, "key-value heads, for llama, qwen2, mistral and qwen3; model.num_heads when not given")
        .or(&["num_key_value_heads", "model.num_key_value_heads"])
        .only(TaskKind::LanguageModeling),
    line(
        "model.intermediate_size",
        count(65_536),
        Absent,
        "width of the feed-forward part; when not given twice model.hidden_size for modernbert, else four times",
    )
    .or(&["model.n_inner"]),
    line("model.dropout", FRACTION, Absent, "dropout; when not given 0.1, or that of the pretrained model")
        .or(&["hidden_dropout_prob", "model.hidden_dropout_prob"]),
    line("model.attention_dropout", FRACTION, Absent, "dropout of attention probabilities; when not given 0.1, or that of the pretrained model")
        .or(&["attention_probs_dropout_prob", "model.attention_probs_dropout_prob"]),
    line(
        "model.classifier_dropout",
        FRACTION,
        Absent,
        "dropout before the classifier; when not given model.dropout, or that of the pretrained model",
    )
    .or(&["classifier_dropout"])
    .only(TaskKind::TextClassification),
    line(
        "model.activation",
        Choice(&["gelu", "gelu_new", "relu", "silu"]),
        Absent,
        "activation of the feed-forward part; when not given silu for llama, qwen2, mistral and qwen3, else gelu",
    )
    .or(&["hidden_act", "model.hidden_act"]),
    line(
        "model.pooling",
        Choice(&["cls", "mean"]),
        Absent,
        "pooling of token vectors into one text vector, for modernbert and hpsearch-encoder; mean when not given",
    )
    .only(TaskKind::TextClassification),
    line("model.tie_word_embeddings", ArgumentKind::Flag, Absent, "whether the output layer shares the token embeddings; true when not given")
        .or(&["tie_word_embeddings"])
        .only(TaskKind::LanguageModeling),
    line(
        "model.tokenizer",
        Choice(&["wordpiece", "bpe", "word", "chars", "bytes"]),
        Absent,
        "kind of tokenizer trained on the training texts; when not given wordpiece for classification, bpe for language modeling",
    ),
    line("model.vocab_size", ArgumentKind::Int { low: 5, high: 1_000_000 }, Int(8_000), "largest vocabulary of the tokenizer"),
    line(
        "model.lowercase",
        ArgumentKind::Flag,
        Absent,
        "whether texts are lowercased first; when not given true for classification, false for language modeling",
    ),
    line("model.max_length", ArgumentKind::Int { low: 3, high: 8_192 }, Absent, "longest row in tokens; [data] max_length when not given").or(&[
        "max_position_embeddings",
        "model.max_position_embeddings",
        "block_size",
        "model.n_positions",
    ]),
];
