//! Every argument of `[trainer]`: its names, kind, default and what it is, in one line of a table.

use std::ops::Bound::{Excluded, Included, Unbounded};

use super::model::{DECODER_TYPES, ENCODER_TYPES};
use super::schedule::SCHEDULE_NAMES;
use super::table::ArgumentDefault::{Absent, Flag, Float, Int, Text};
use super::table::ArgumentKind::Choice;
use super::table::{Argument, ArgumentDefault, ArgumentKind};
use super::tasks::{TASK_NAMES, TaskKind};

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
    line(
        "bf16",
        ArgumentKind::Flag,
        Flag(false),
        "products of bfloat16 numbers in training, for GPUs; values, norms, softmax, losses, evaluations and checkpoints are single floats",
    ),
    line("fp16", ArgumentKind::Flag, Flag(false), "the same with half floats, and the loss scaled so that gradients do not vanish"),
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
