//! Defaults that depend on other arguments: on the task, on the architecture, and on whether the
//! model is pretrained.

use serde_json::{Map, Value};

use super::model::{
    BESIDE_PRETRAINED, DROPOUT, GATED_TYPES, GEMMA, MEAN_POOLING_TYPES, MODERN_BERT, PHI, is_t5,
};
use super::problem::ArgumentProblem;
use super::tasks::TaskKind;
use super::trainer_table::{ARGUMENTS, MAX_ROWS};
use crate::study::suggestion::quoted;

/// The default peak learning rate of a pretrained model, from transformers.
const PRETRAINED_LEARNING_RATE: f64 = 5e-5;

/// The share of hidden tokens, BERT's.
pub const MLM_PROBABILITY: f64 = 0.15;

fn is_given(given: &[(&str, String)], name: &str) -> bool {
    given.iter().any(|(known, _)| *known == name)
}

/// Removes the defaults of everything that a pretrained model defines, and rejects given values for
/// it.
pub(super) fn start_from_pretrained(
    merged: &mut Map<String, Value>,
    given: &[(&str, String)],
) -> Vec<ArgumentProblem> {
    let mut problems = Vec::new();
    for (name, key) in given {
        if name.starts_with("model.") && !BESIDE_PRETRAINED.contains(name) {
            let message = format!("`{key}` is defined by the pretrained `model`");
            let help = format!(
                "leave it out, or leave `model` out to train from scratch; beside it go {}",
                quoted(BESIDE_PRETRAINED[1..].iter().copied())
            );
            problems.push(ArgumentProblem::new(key, message).with_help(help));
        }
    }
    for argument in ARGUMENTS.iter().filter(|argument| !is_given(given, argument.name)) {
        if let Some(name) = argument.name.strip_prefix("model.") {
            merged["model"][name] = Value::Null;
        }
    }
    if !is_given(given, "learning_rate") {
        merged["learning_rate"] = PRETRAINED_LEARNING_RATE.into();
    }
    problems
}

/// Fills in what is still absent.
pub(super) fn fill_in(merged: &mut Map<String, Value>, given: &[(&str, String)], task: TaskKind) {
    for name in ["freeze", "lora_target_modules"] {
        if merged[name].is_null() {
            merged[name] = Value::Array(Vec::new());
        }
    }
    if task == TaskKind::MaskedLanguageModeling {
        for (name, value) in
            [("mlm_probability", MLM_PROBABILITY.into()), ("whole_word_mask", false.into())]
        {
            if merged[name].is_null() {
                merged[name] = value;
            }
        }
    }
    if task.is_sequence_to_sequence() && merged["predict_with_generate"].is_null() {
        merged["predict_with_generate"] = true.into();
    }
    if merged["optim"] == "schedule_free_adamw" && !is_given(given, "lr_scheduler_type") {
        merged["lr_scheduler_type"] = "constant".into();
    }
    let rows = "per_device_train_batch_size";
    // With a limit on tokens there is none on rows; a row has at least one token.
    if let Some(tokens) = merged["max_tokens_per_batch"].as_i64().filter(|_| !is_given(given, rows))
    {
        merged[rows] = tokens.min(MAX_ROWS).into();
    }
    if merged["model"]["pretrained"].is_null() {
        fill_in_model(&mut merged["model"], task);
    }
}

/// The model trained from scratch.
fn fill_in_model(model: &mut Value, task: TaskKind) {
    let line = task.line();
    if model["model_type"].is_null() {
        model["model_type"] = task.model_types()[0].into();
    }
    let model_type = model["model_type"].as_str().unwrap_or_default().to_owned();
    let mut default = |name: &str, value: Value| -> Value {
        if model[name].is_null() {
            model[name] = value;
        }
        model[name].clone()
    };
    default("tokenizer", line.tokenizers[0].word().into());
    default("lowercase", line.lowercase.into());
    let gated = GATED_TYPES.contains(&model_type.as_str());
    let activation = match model_type.as_str() {
        GEMMA | PHI => "gelu_new",
        "t5" => "relu",
        "mt5" => "gelu_new",
        "marian" => "silu",
        _ if gated => "silu",
        _ => "gelu",
    };
    default("activation", activation.into());
    // Llama's config.json has a key for attention dropout only.
    let dropout = default("dropout", if gated { 0.0 } else { DROPOUT }.into());
    let attention_dropout = match model_type.as_str() {
        t5 if is_t5(t5) => dropout,
        // It also drops this share of the attention output; small models seem to learn less with it
        // (the quickstart's best, seeds 0 to 4, a run each: .73 to .79 with .1, .73 to .81 with 0).
        MODERN_BERT => 0.0.into(),
        _ => DROPOUT.into(),
    };
    default("attention_dropout", attention_dropout);
    if MEAN_POOLING_TYPES.contains(&model_type.as_str()) && task.is_of_texts() {
        default("pooling", "mean".into());
    } else if !task.is_of_encoders() {
        default("tie_word_embeddings", (model_type != "mt5").into());
    }
}
