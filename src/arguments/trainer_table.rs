//! The table of all `[trainer]` arguments.

use std::ops::Bound::{Excluded, Included};

use super::model::{DECODER_TYPES, ENCODER_TYPES};
use super::scheduler::SCHEDULER_NAMES;
use super::tasks::TASK_NAMES;
use crate::study::field::FieldDefault::{Absent, Derived, Flag, Float, Int, Text};
use crate::study::field::FieldKind::Choice;
use crate::study::field::{COUNT, Field, FieldKind, NATURAL, NOT_NEGATIVE, POSITIVE, UNIT, field};

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

const FRACTION: FieldKind = FieldKind::Float { low: Included(0.0), high: Excluded(1.0) };

const fn up_to(max: i64) -> FieldKind {
    FieldKind::Integer { min: 1, max }
}

/// Largest batch size.
pub(super) const MAX_ROWS: i64 = 65_536;

/// Every argument of `[trainer]`: drives parsing, checks, suggestions, the schema and
/// `hpsearch list tasks`.
pub static ARGUMENTS: &[Field] = &[
    field("task", Choice(&TASK_NAMES), Text("text-classification"), "the task"),
    // transformers' 5e-5 is meant for pretrained models; from scratch it is far too low.
    field(
        "learning_rate",
        POSITIVE,
        Float(1e-3),
        "peak learning rate (transformers' 5e-5 is \
        meant for pretrained models)",
    )
    .or(&["lr"]),
    field(
        "per_device_train_batch_size",
        up_to(MAX_ROWS),
        Int(8),
        "training rows per micro-batch, \
        at most those of max_tokens_per_batch",
    )
    .or(&["train_batch_size", "batch_size", "per_gpu_train_batch_size"]),
    // 8 in transformers: larger batches evaluate faster, with the same result.
    field(
        "per_device_eval_batch_size",
        up_to(MAX_ROWS),
        Int(64),
        "evaluation rows per \
        batch",
    )
    .or(&["per_gpu_eval_batch_size"]),
    field(
        "num_train_epochs",
        POSITIVE,
        Float(3.0),
        "passes over the training rows, may be \
        fractional",
    )
    .or(&["epochs"]),
    field(
        "max_steps",
        FieldKind::Integer { min: -1, max: i64::MAX },
        Int(-1),
        "total number of optimiser steps, overriding num_train_epochs; -1: not set",
    ),
    field(
        "weight_decay",
        NOT_NEGATIVE,
        Float(0.0),
        "decoupled weight decay; biases and norms are \
        exempt",
    ),
    field("adam_beta1", FRACTION, Float(0.9), "AdamW's decay rate of the first moment"),
    field("adam_beta2", FRACTION, Float(0.999), "AdamW's decay rate of the second moment"),
    field("adam_epsilon", POSITIVE, Float(1e-8), "AdamW's term for numerical stability"),
    field(
        "max_grad_norm",
        NOT_NEGATIVE,
        Float(1.0),
        "maximum global gradient norm; 0: no \
        clipping",
    ),
    field(
        "optim",
        Choice(&["adamw", "adamw_torch", "adamw_torch_fused", "adamw_hf", "sgd"]),
        Text("adamw"),
        "the optimiser",
    ),
    // 0 in PyTorch: without momentum SGD hardly trains a transformer.
    field("momentum", FRACTION, Float(0.9), "SGD's momentum"),
    field(
        "lr_scheduler_type",
        Choice(SCHEDULER_NAMES),
        Text("linear"),
        "learning-rate schedule \
        after warm-up",
    ),
    field(
        "lr_scheduler_kwargs.num_cycles",
        POSITIVE,
        Absent,
        "waves of the cosine schedules (0.5, half a wave), restarts of cosine_with_restarts (1)",
    ),
    field(
        "lr_scheduler_kwargs.min_lr",
        NOT_NEGATIVE,
        Absent,
        "final learning rate of \
        cosine_with_min_lr, minimum of reduce_lr_on_plateau (0)",
    ),
    field(
        "lr_scheduler_kwargs.min_lr_rate",
        UNIT,
        Absent,
        "final learning rate of \
        cosine_with_min_lr, as a fraction of learning_rate",
    ),
    field(
        "lr_scheduler_kwargs.lr_end",
        NOT_NEGATIVE,
        Derived("1e-7"),
        "final learning rate of \
        polynomial",
    ),
    field("lr_scheduler_kwargs.power", POSITIVE, Derived("1, linear"), "exponent of polynomial"),
    field(
        "lr_scheduler_kwargs.timescale",
        COUNT,
        Derived("the warm-up steps, or 10,000 without warm-up"),
        "time scale of inverse_sqrt in steps",
    ),
    field(
        "lr_scheduler_kwargs.num_stable_steps",
        NATURAL,
        Derived("all that are not warm-up or decay"),
        "steps of the constant phase of warmup_stable_decay",
    ),
    field(
        "lr_scheduler_kwargs.num_decay_steps",
        FieldKind::StepsOrFraction,
        Absent,
        "decay steps of warmup_stable_decay, or their fraction of all steps when below 1",
    ),
    field(
        "lr_scheduler_kwargs.min_lr_ratio",
        UNIT,
        Derived("0"),
        "initial and final learning rate of warmup_stable_decay, as a fraction of learning_rate",
    ),
    field(
        "lr_scheduler_kwargs.warmup_type",
        Choice(&["linear", "cosine", "1-sqrt"]),
        Derived("linear"),
        "shape of the warm-up of warmup_stable_decay",
    ),
    field(
        "lr_scheduler_kwargs.decay_type",
        Choice(&["linear", "cosine", "1-sqrt"]),
        Derived("cosine"),
        "shape of the decay of warmup_stable_decay",
    ),
    field(
        "lr_scheduler_kwargs.factor",
        FieldKind::Float { low: Excluded(0.0), high: Excluded(1.0) },
        Derived("0.1"),
        "factor by which reduce_lr_on_plateau reduces the learning rate",
    ),
    field(
        "lr_scheduler_kwargs.patience",
        NATURAL,
        Derived("10"),
        "evaluations without improvement of eval_loss that reduce_lr_on_plateau tolerates",
    ),
    field(
        "lr_scheduler_kwargs.threshold",
        FRACTION,
        Derived("1e-4"),
        "relative improvement of \
        eval_loss that counts for reduce_lr_on_plateau",
    ),
    field(
        "lr_scheduler_kwargs.cooldown",
        NATURAL,
        Derived("0"),
        "evaluations that reduce_lr_on_plateau ignores after a reduction",
    ),
    field(
        "warmup_steps",
        FieldKind::StepsOrFraction,
        Int(0),
        "steps of linear warm-up, or their \
        fraction of all steps when below 1",
    ),
    field(
        "warmup_ratio",
        UNIT,
        Float(0.0),
        "warm-up as a fraction of all steps, used when \
        warmup_steps is 0",
    ),
    field(
        "label_smoothing_factor",
        FRACTION,
        Float(0.0),
        "probability mass spread evenly over \
        all labels",
    ),
    field("gradient_accumulation_steps", up_to(65_536), Int(1), "micro-batches per optimiser step"),
    // Off in transformers, where every halving changes the effective batch size; here it stays the
    // same.
    field(
        "auto_find_batch_size",
        FieldKind::Flag,
        Flag(true),
        "after running out of memory, continue with half the rows at once and the same optimiser \
         steps; false: retry as [retry] says",
    ),
    field(
        "eval_strategy",
        Choice(&["no", "epoch", "steps"]),
        Text("no"),
        "when to evaluate, in \
        addition to the pruner's rungs and the end",
    )
    .or(&["evaluation_strategy"]),
    field(
        "eval_steps",
        COUNT,
        Derived("logging_steps"),
        "optimiser steps between evaluations \
        with eval_strategy = \"steps\"",
    ),
    field(
        "eval_delay",
        NOT_NEGATIVE,
        Float(0.0),
        "epochs, or steps with eval_strategy = \"steps\", before the first evaluation of \
         eval_strategy",
    ),
    field(
        "eval_on_start",
        FieldKind::Flag,
        Flag(false),
        "evaluate before the first step, too; \
        logged, not reported",
    ),
    field(
        "early_stopping_patience",
        COUNT,
        Derived("never"),
        "consecutive evaluations without improvement of the study metric after which training ends",
    ),
    field(
        "early_stopping_threshold",
        NOT_NEGATIVE,
        Float(0.0),
        "how much the study metric must \
        improve to count for early_stopping_patience",
    ),
    field("max_eval_samples", COUNT, Derived("all"), "most examples per evaluation, spread evenly"),
    field(
        "logging_strategy",
        Choice(&["no", "epoch", "steps"]),
        Text("steps"),
        "when to write \
        log lines",
    ),
    field(
        "logging_steps",
        COUNT,
        Int(500),
        "optimiser steps between log lines with \
        logging_strategy = \"steps\"",
    ),
    field("logging_first_step", FieldKind::Flag, Flag(false), "log the first step, too"),
    field(
        "dataloader_drop_last",
        FieldKind::Flag,
        Flag(false),
        "drop an incomplete last \
        micro-batch of an epoch",
    ),
    // Padding costs time on GPUs; the CPU kernels do without.
    field(
        "train_sampling_strategy",
        Choice(&["random", "group_by_length", "sequential"]),
        Text("random"),
        "the order of rows: random, grouped by length, or as in the data",
    ),
    field(
        "max_tokens_per_batch",
        COUNT,
        Absent,
        "most tokens per micro-batch (rows times the longest) instead of 8 rows; rows are grouped \
         by length, and batches come in random order",
    )
    .or(&["max_tokens"]),
    field(
        "class_weights",
        FieldKind::Weights,
        Absent,
        "weights of the labels in the training loss: \"balanced\" (as scikit-learn), or a list in \
         the order of the labels",
    )
    .or(&["class_weight"]),
    field(
        "freeze",
        FieldKind::Names,
        Absent,
        "frozen parameters: embeddings, layers.0, layers.0-3, body, head, or names of tensors \
         with * as a wildcard",
    ),
    field(
        "freeze_layers",
        FieldKind::Integer { min: 0, max: 1_024 },
        Int(0),
        "number of first layers that are frozen, together with the embeddings; they run without \
         dropout",
    ),
    field(
        "cache_frozen_features",
        FieldKind::Flag,
        Flag(true),
        "compute the outputs of frozen first layers once instead of in every step, where they \
         take at most 1 GiB",
    ),
    field(
        "layerwise_lr_decay",
        FieldKind::Float { low: Excluded(0.0), high: Included(1.0) },
        Float(1.0),
        "factor on the learning rate from each layer to the one below; the head's is learning_rate",
    )
    .or(&["layer_decay", "llrd"]),
    field(
        "lora_r",
        FieldKind::Integer { min: 0, max: 4_096 },
        Int(0),
        "rank of LoRA adapters; \
        besides them only the head is trained; 0: none",
    ),
    field(
        "lora_alpha",
        POSITIVE,
        Float(8.0),
        "LoRA's scaling: the output of adapters is \
        multiplied by lora_alpha / lora_r",
    ),
    field("lora_dropout", FRACTION, Float(0.0), "dropout of the inputs of LoRA adapters"),
    field(
        "lora_target_modules",
        FieldKind::Names,
        Derived("those of queries and values"),
        "linear layers with LoRA adapters, by the ends of their names, or all-linear",
    ),
    field(
        "use_rslora",
        FieldKind::Flag,
        Flag(false),
        "multiply the output of LoRA adapters by \
        lora_alpha / sqrt(lora_r)",
    ),
    field(
        "gradient_checkpointing",
        FieldKind::Flag,
        Flag(false),
        "recompute activations in the backward pass instead of keeping them: the same result, \
         less memory, more time",
    )
    .or(&["activation_checkpointing"]),
    field(
        "bf16",
        FieldKind::Flag,
        Flag(false),
        "matrix products in bf16 in training, for GPUs; parameters, norms, softmax, losses, \
         evaluations and checkpoints stay f32",
    ),
    field("fp16", FieldKind::Flag, Flag(false), "the same in fp16, with dynamic loss scaling"),
    field(
        "model.pretrained",
        FieldKind::AnyText,
        Absent,
        "pretrained model to start from: a \
        directory in Hugging Face's layout",
    )
    .or(&["model", "model_name_or_path"]),
    field(
        "model.model_type",
        Choice(&MODEL_TYPES),
        Derived("hpsearch-encoder for classification, gpt2 for language modeling"),
        "architecture to train from scratch",
    ),
    field(
        "model.hidden_size",
        up_to(16_384),
        Int(128),
        "hidden size, a multiple of \
        model.num_heads",
    )
    .or(&["model.d_model", "model.n_embd"]),
    field(
        "model.num_layers",
        up_to(256),
        Int(2),
        "number of \
        layers",
    )
    .or(&["num_hidden_layers", "model.num_hidden_layers", "model.n_layer"]),
    field("model.num_heads", up_to(256), Int(4), "attention heads per layer").or(&[
        "num_attention_heads",
        "model.num_attention_heads",
        "model.n_head",
    ]),
    field(
        "model.num_kv_heads",
        up_to(256),
        Derived("model.num_heads"),
        "key-value heads, for \
        llama, qwen2, mistral and qwen3",
    )
    .or(&["num_key_value_heads", "model.num_key_value_heads"]),
    field(
        "model.intermediate_size",
        up_to(65_536),
        Derived("twice model.hidden_size for modernbert, else four times"),
        "width of the feed-forward part",
    )
    .or(&["model.n_inner"]),
    field("model.dropout", FRACTION, Derived("0.1, or that of the pretrained model"), "dropout")
        .or(&["hidden_dropout_prob", "model.hidden_dropout_prob"]),
    field(
        "model.attention_dropout",
        FRACTION,
        Derived(
            "0.1, or that of the pretrained \
        model",
        ),
        "dropout of attention probabilities",
    )
    .or(&["attention_probs_dropout_prob", "model.attention_probs_dropout_prob"]),
    field(
        "model.classifier_dropout",
        FRACTION,
        Derived("model.dropout, or that of the pretrained model"),
        "dropout before the classifier",
    )
    .or(&["classifier_dropout"]),
    field(
        "model.activation",
        Choice(&["gelu", "gelu_new", "relu", "silu"]),
        Derived("silu for llama, qwen2, mistral and qwen3, else gelu"),
        "activation of the feed-forward part",
    )
    .or(&["hidden_act", "model.hidden_act"]),
    field(
        "model.pooling",
        Choice(&["cls", "mean"]),
        Derived("mean"),
        "pooling of token vectors into one text vector, for modernbert and hpsearch-encoder",
    ),
    field(
        "model.tie_word_embeddings",
        FieldKind::Flag,
        Derived("true"),
        "whether the output \
        layer shares the token embeddings",
    )
    .or(&["tie_word_embeddings"]),
    field(
        "model.tokenizer",
        Choice(&["wordpiece", "bpe", "word", "chars", "bytes"]),
        Derived("wordpiece for classification, bpe for language modeling"),
        "kind of tokenizer trained on the training texts",
    ),
    field(
        "model.vocab_size",
        FieldKind::Integer { min: 5, max: 1_000_000 },
        Int(8_000),
        "largest \
        vocabulary of the tokenizer",
    ),
    field(
        "model.lowercase",
        FieldKind::Flag,
        Derived("true for classification, false for language modeling"),
        "whether texts are lowercased first",
    ),
    field(
        "model.max_length",
        FieldKind::Integer { min: 3, max: 8_192 },
        Derived(
            "[data] \
        max_length",
        ),
        "longest row in tokens",
    )
    .or(&[
        "max_position_embeddings",
        "model.max_position_embeddings",
        "block_size",
        "model.n_positions",
    ]),
];
