//! The table of all `[trainer]` arguments.

use std::ops::Bound::{Excluded, Included};

use super::model::{DECODER_TYPES, ENCODER_TYPES, SEQ2SEQ_TYPES};
use super::scheduler::SCHEDULER_NAMES;
use super::tasks::TASK_NAMES;
use super::writing::{MOST_BEAMS, MOST_NEW_TOKENS};
use crate::study::field::FieldDefault::{Absent, Derived, Flag, Float, Int, Text};
use crate::study::field::FieldKind::Choice;
use crate::study::field::{
    COUNT, FRACTION, Field, FieldKind, NATURAL, NOT_NEGATIVE, OPEN_UNIT, POSITIVE, UNIT, key,
};

/// The values of `[trainer] model.model_type`.
const MODEL_TYPES: [&str; DECODERS_END + SEQ2SEQ_TYPES.len()] = {
    let mut words = [""; DECODERS_END + SEQ2SEQ_TYPES.len()];
    let mut word = 0;
    while word < words.len() {
        words[word] = if word < ENCODER_TYPES.len() {
            ENCODER_TYPES[word]
        } else if word < DECODERS_END {
            DECODER_TYPES[word - ENCODER_TYPES.len()]
        } else {
            SEQ2SEQ_TYPES[word - DECODERS_END]
        };
        word += 1;
    }
    words
};

/// The number of encoders and decoders.
const DECODERS_END: usize = ENCODER_TYPES.len() + DECODER_TYPES.len();

const RAMP: FieldKind = Choice(&["linear", "cosine", "1-sqrt"]);
const OPTIMISERS: FieldKind = Choice(&[
    "adamw",
    "adamw_torch",
    "adamw_torch_fused",
    "adamw_hf",
    "sgd",
    "adafactor",
    "lion_32bit",
    "lion",
    "rmsprop",
    "schedule_free_adamw",
    "adamw_8bit",
    "adamw_bnb_8bit",
]);

const fn up_to(max: i64) -> FieldKind {
    FieldKind::Integer { min: 1, max }
}

/// Largest batch size.
pub(super) const MAX_ROWS: i64 = 65_536;

/// Every argument of `[trainer]`: drives parsing, checks, suggestions, the schema and
/// `hpsearch list tasks`.
pub static ARGUMENTS: &[Field] = &[
    key("task", Choice(&TASK_NAMES), Text("text-classification")).doc("the task"),
    // transformers' 5e-5 is meant for pretrained models; from scratch it is far too low.
    key("learning_rate", POSITIVE, Float(1e-3))
        .or(&["lr"])
        .doc("peak learning rate (transformers' 5e-5 is meant for pretrained models)"),
    key("per_device_train_batch_size", up_to(MAX_ROWS), Int(8))
        .or(&["train_batch_size", "batch_size", "per_gpu_train_batch_size"])
        .doc("training rows per micro-batch, at most those of max_tokens_per_batch"),
    // 8 in transformers: larger batches evaluate faster, with the same result.
    key("per_device_eval_batch_size", up_to(MAX_ROWS), Int(64))
        .or(&["per_gpu_eval_batch_size"])
        .doc("evaluation rows per batch"),
    key("num_train_epochs", POSITIVE, Float(3.0))
        .or(&["epochs"])
        .doc("passes over the training rows, may be fractional"),
    key("max_steps", FieldKind::Integer { min: -1, max: i64::MAX }, Int(-1))
        .doc("total number of optimiser steps, overriding num_train_epochs; -1: not set"),
    key("weight_decay", NOT_NEGATIVE, Float(0.0)).doc(
        "decoupled weight decay, of sgd and rmsprop an L2 penalty; biases and norms are exempt",
    ),
    key("adam_beta1", FRACTION, Float(0.9))
        .doc("decay rate of the first moment of adamw; lion's weight of momentum in a step"),
    key("adam_beta2", FRACTION, Float(0.999))
        .doc("decay rate of the second moment of adamw; lion's decay rate of momentum"),
    key("adam_epsilon", POSITIVE, Float(1e-8)).doc("AdamW's term for numerical stability"),
    key("max_grad_norm", NOT_NEGATIVE, Float(1.0))
        .doc("maximum global gradient norm; 0: no clipping"),
    key("optim", OPTIMISERS, Text("adamw")).doc("the optimiser"),
    key("ema_decay", OPEN_UNIT, Absent).or(&["model_ema_decay"]).doc(
        "decay of an exponential moving average of the weights, which is evaluated and exported \
             instead of them",
    ),
    // 0 in PyTorch: without momentum SGD hardly trains a transformer.
    key("momentum", FRACTION, Float(0.9)).doc("SGD's momentum"),
    key("lr_scheduler_type", Choice(SCHEDULER_NAMES), Text("linear"))
        .doc("learning-rate schedule after warm-up; of schedule_free_adamw, constant"),
    key("lr_scheduler_kwargs.num_cycles", POSITIVE, Absent).doc(
        "waves of the cosine schedules (0.5, half a wave), restarts of cosine_with_restarts \
             (1)",
    ),
    key("lr_scheduler_kwargs.min_lr", NOT_NEGATIVE, Absent)
        .doc("final learning rate of cosine_with_min_lr, minimum of reduce_lr_on_plateau (0)"),
    key("lr_scheduler_kwargs.min_lr_rate", UNIT, Absent)
        .doc("final learning rate of cosine_with_min_lr, as a fraction of learning_rate"),
    key("lr_scheduler_kwargs.lr_end", NOT_NEGATIVE, Derived("1e-7"))
        .doc("final learning rate of polynomial"),
    key("lr_scheduler_kwargs.power", POSITIVE, Derived("1, linear")).doc("exponent of polynomial"),
    key(
        "lr_scheduler_kwargs.timescale",
        COUNT,
        Derived("the warm-up steps, or 10,000 without warm-up"),
    )
    .doc("time scale of inverse_sqrt in steps"),
    key(
        "lr_scheduler_kwargs.num_stable_steps",
        NATURAL,
        Derived("all that are not warm-up or decay"),
    )
    .doc("steps of the constant phase of warmup_stable_decay"),
    key("lr_scheduler_kwargs.num_decay_steps", FieldKind::StepsOrFraction, Absent)
        .doc("decay steps of warmup_stable_decay, or their fraction of all steps when below 1"),
    key("lr_scheduler_kwargs.min_lr_ratio", UNIT, Derived("0")).doc(
        "initial and final learning rate of warmup_stable_decay, as a fraction of \
             learning_rate",
    ),
    key("lr_scheduler_kwargs.warmup_type", RAMP, Derived("linear"))
        .doc("shape of the warm-up of warmup_stable_decay"),
    key("lr_scheduler_kwargs.decay_type", RAMP, Derived("cosine"))
        .doc("shape of the decay of warmup_stable_decay"),
    key("lr_scheduler_kwargs.factor", OPEN_UNIT, Derived("0.1"))
        .doc("factor by which reduce_lr_on_plateau reduces the learning rate"),
    key("lr_scheduler_kwargs.patience", NATURAL, Derived("10")).doc(
        "evaluations without improvement of eval_loss, or of metric_for_best_model, that \
             reduce_lr_on_plateau tolerates",
    ),
    key("lr_scheduler_kwargs.threshold", FRACTION, Derived("1e-4"))
        .doc("relative improvement that counts for reduce_lr_on_plateau"),
    key("lr_scheduler_kwargs.cooldown", NATURAL, Derived("0"))
        .doc("evaluations that reduce_lr_on_plateau ignores after a reduction"),
    key("warmup_steps", FieldKind::StepsOrFraction, Int(0))
        .doc("steps of linear warm-up, or their fraction of all steps when below 1"),
    key("warmup_ratio", UNIT, Float(0.0))
        .doc("warm-up as a fraction of all steps, used when warmup_steps is 0"),
    key("label_smoothing_factor", FRACTION, Float(0.0)).doc(
        "probability mass spread evenly over all labels in training; unlike Trainer's, \
              `eval_loss` is without it",
    ),
    key("mlm_probability", OPEN_UNIT, Derived("0.15"))
        .doc("share of tokens that a masked language model has to predict, in training"),
    key("whole_word_mask", FieldKind::Flag, Derived("false"))
        .doc("mask all tokens of a word together"),
    key("predict_with_generate", FieldKind::Flag, Derived("true")).doc(
        "write texts in evaluations, for eval_bleu, eval_rougeL and the like, in addition to \
         eval_loss",
    ),
    key(
        "generation_max_length",
        up_to(MOST_NEW_TOKENS as i64),
        Derived("[data] max_target_length"),
    )
    .doc("maximum number of tokens of a text that an evaluation writes"),
    key(
        "generation_num_beams",
        up_to(MOST_BEAMS as i64),
        Derived("1, or the pretrained model's value"),
    )
    .or(&["num_beams"])
    .doc("number of beams for the texts that evaluations write; 1: greedy search"),
    key("gradient_accumulation_steps", up_to(65_536), Int(1))
        .doc("micro-batches per optimiser step"),
    // Off in transformers, where every halving changes the effective batch size; here it stays the
    // same.
    key("auto_find_batch_size", FieldKind::Flag, Flag(true)).doc(
        "after running out of memory, continue with half the batch size and the same optimiser \
             steps; false: retried according to [retry]",
    ),
    key("eval_strategy", Choice(&["no", "epoch", "steps"]), Text("no"))
        .or(&["evaluation_strategy"])
        .doc("when to evaluate, in addition to the pruner's rungs and the end"),
    key("eval_steps", FieldKind::StepInterval, Derived("logging_steps")).doc(
        "optimiser steps between evaluations with eval_strategy = \"steps\"; below 1, a fraction \
         of all steps",
    ),
    key("eval_delay", NOT_NEGATIVE, Float(0.0)).doc(
        "epochs, or steps with eval_strategy = \"steps\", before the first evaluation of \
             eval_strategy",
    ),
    key("eval_on_start", FieldKind::Flag, Flag(false))
        .doc("evaluate before the first step, too; logged, not reported"),
    key("early_stopping_patience", COUNT, Derived("never")).doc(
        "consecutive evaluations without improvement of the watched metric after which training \
             ends",
    ),
    key("early_stopping_threshold", NOT_NEGATIVE, Float(0.0))
        .doc("how much the watched metric must improve to count for early_stopping_patience"),
    // In transformers, also what decides which checkpoint is the best.
    key("metric_for_best_model", FieldKind::Text, Derived("the study metric")).doc(
        "the metric that early stopping and reduce_lr_on_plateau watch, with or without eval_",
    ),
    key("greater_is_better", FieldKind::Flag, Derived("as usual for the metric"))
        .doc("whether greater values of metric_for_best_model are better"),
    key("max_eval_samples", COUNT, Derived("all"))
        .doc("maximum number of examples per evaluation, spread evenly"),
    key("logging_strategy", Choice(&["no", "epoch", "steps"]), Text("steps"))
        .doc("when to write log lines"),
    key("logging_steps", FieldKind::StepInterval, Int(500)).doc(
        "optimiser steps between log lines with logging_strategy = \"steps\"; below 1, a fraction \
         of all steps",
    ),
    key("logging_first_step", FieldKind::Flag, Flag(false)).doc("log the first step, too"),
    key("dataloader_drop_last", FieldKind::Flag, Flag(false))
        .doc("drop an incomplete last micro-batch of an epoch"),
    // Padding costs time on GPUs; the CPU kernels need none.
    key(
        "train_sampling_strategy",
        Choice(&["random", "group_by_length", "sequential"]),
        Text("random"),
    )
    .doc("the order of rows: random, grouped by length, or as in the data"),
    key("max_tokens_per_batch", COUNT, Absent).or(&["max_tokens"]).doc(
        "maximum number of tokens per micro-batch (rows times the longest) instead of 8 rows; rows \
         are grouped by length, and batches come in random order",
    ),
    key("class_weights", FieldKind::Weights, Absent).or(&["class_weight"]).doc(
        "weights of the labels in the training loss: \"balanced\" (as scikit-learn), or a \
             list in the order of the labels",
    ),
    key("freeze", FieldKind::Names, Absent).doc(
        "frozen parameters: embeddings, layers.0, layers.0-3, body, head, or tensor names \
             with * as a wildcard",
    ),
    key("freeze_layers", FieldKind::Integer { min: 0, max: 1_024 }, Int(0)).doc(
        "number of first layers that are frozen, together with the embeddings; they run \
             without dropout",
    ),
    key("cache_frozen_features", FieldKind::Flag, Flag(true)).doc(
        "compute the outputs of frozen first layers once instead of in every step, where they \
             take at most 1 GiB",
    ),
    key(
        "layerwise_lr_decay",
        FieldKind::Float { low: Excluded(0.0), high: Included(1.0) },
        Float(1.0),
    )
    .or(&["layer_decay", "llrd"])
    .doc(
        "factor on the learning rate from each layer to the one below; the head's is \
             learning_rate",
    ),
    key("lora_r", FieldKind::Integer { min: 0, max: 4_096 }, Int(0))
        .doc("rank of LoRA adapters; besides them only the head is trained; 0: none"),
    key("lora_alpha", POSITIVE, Float(8.0))
        .doc("LoRA's scaling: the output of adapters is multiplied by lora_alpha / lora_r"),
    key("lora_dropout", FRACTION, Float(0.0)).doc("dropout of the inputs of LoRA adapters"),
    key("lora_target_modules", FieldKind::Names, Derived("those of queries and values"))
        .doc("linear layers with LoRA adapters, by the ends of their names, or all-linear"),
    key("use_rslora", FieldKind::Flag, Flag(false))
        .doc("multiply the output of LoRA adapters by lora_alpha / sqrt(lora_r)"),
    key("gradient_checkpointing", FieldKind::Flag, Flag(false))
        .or(&["activation_checkpointing"])
        .doc(
            "recompute activations in the backward pass instead of keeping them: the same result, \
             less memory, more time",
        ),
    key("bf16", FieldKind::Flag, Flag(false)).doc(
        "matrix products in bf16 in training, for GPUs; parameters, norms, softmax, losses, \
             evaluations and checkpoints stay f32",
    ),
    key("fp16", FieldKind::Flag, Flag(false))
        .doc("mixed precision in fp16, with dynamic loss scaling"),
    key("model.pretrained", FieldKind::AnyText, Absent)
        .or(&["model", "model_name_or_path"])
        .doc("pretrained model to start from: a directory in Hugging Face's layout"),
    key(
        "model.model_type",
        Choice(&MODEL_TYPES),
        Derived(
            "hpsearch-encoder for classification, gpt2 for language modeling, t5 for texts from \
             texts",
        ),
    )
    .doc("architecture to train from scratch"),
    key("model.hidden_size", up_to(16_384), Int(128))
        .or(&["model.d_model", "model.n_embd"])
        .doc("hidden size, a multiple of model.num_heads"),
    key("model.num_layers", up_to(256), Int(2))
        .or(&["num_hidden_layers", "model.num_hidden_layers", "model.n_layer"])
        .doc("number of layers"),
    key("model.num_heads", up_to(256), Int(4))
        .or(&["num_attention_heads", "model.num_attention_heads", "model.n_head"])
        .doc("attention heads per layer"),
    key("model.num_kv_heads", up_to(256), Derived("model.num_heads"))
        .or(&["num_key_value_heads", "model.num_key_value_heads"])
        .doc("key-value heads, for llama, qwen2, mistral and qwen3"),
    key(
        "model.intermediate_size",
        up_to(65_536),
        Derived("twice model.hidden_size for modernbert, else four times"),
    )
    .or(&["model.n_inner"])
    .doc("width of the feed-forward part"),
    key("model.dropout", FRACTION, Derived("0.1, or the pretrained model's value"))
        .or(&["hidden_dropout_prob", "model.hidden_dropout_prob"])
        .doc("dropout"),
    key(
        "model.attention_dropout",
        FRACTION,
        Derived(
            "model.dropout for t5 and mt5, 0 for modernbert, else 0.1, or the pretrained model's \
             value",
        ),
    )
    .or(&["attention_probs_dropout_prob", "model.attention_probs_dropout_prob"])
    .doc("dropout of attention probabilities"),
    key(
        "model.classifier_dropout",
        FRACTION,
        Derived("model.dropout, or the pretrained model's value"),
    )
    .or(&["classifier_dropout"])
    .doc("dropout before the classifier"),
    key(
        "model.activation",
        Choice(&["gelu", "gelu_new", "relu", "silu"]),
        Derived("silu for llama, qwen2, mistral, qwen3 and marian, relu for t5, else gelu"),
    )
    .or(&["hidden_act", "model.hidden_act"])
    .doc("activation of the feed-forward part"),
    key("model.pooling", Choice(&["cls", "mean"]), Derived("mean"))
        .doc("pooling of token vectors into one text vector, for modernbert and hpsearch-encoder"),
    key("model.tie_word_embeddings", FieldKind::Flag, Derived("true"))
        .or(&["tie_word_embeddings"])
        .doc("whether the output layer shares the token embeddings"),
    key(
        "model.tokenizer",
        Choice(&["wordpiece", "bpe", "word", "chars", "bytes"]),
        Derived("wordpiece for classification, else bpe"),
    )
    .doc("kind of tokenizer trained on the training texts"),
    key("model.vocab_size", FieldKind::Integer { min: 5, max: 1_000_000 }, Int(8_000))
        .doc("maximum vocabulary size of the tokenizer"),
    key("model.lowercase", FieldKind::Flag, Derived("true for classification, else false"))
        .doc("whether texts are lowercased first"),
    key(
        "model.max_length",
        FieldKind::Integer { min: 3, max: 8_192 },
        Derived("[data] max_length"),
    )
    .or(&[
        "max_position_embeddings",
        "model.max_position_embeddings",
        "block_size",
        "model.n_positions",
    ])
    .doc("longest row in tokens"),
];
