//! The model's arguments together: defaults that depend on the task, what a pretrained model says itself, and what does not go together.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::lines::ARGUMENTS;
use super::model::{BESIDE_PRETRAINED, BYTE_ENTRIES, DECODER_TYPES, DROPOUT, ENCODER_TYPES, MODERN_BERT, ModelArguments, Pooling, TokenizerKind};
use super::table::{ArgumentProblem, given};
use super::tasks::TaskKind;

/// What does not go together in the shape of a model made from nothing.
pub(super) fn contradictions(kind: TaskKind, model: &ModelArguments) -> Vec<ArgumentProblem> {
    let mut problems = Vec::new();
    let (shape, task) = (model.from_scratch(), kind.line());
    if !shape.hidden_size.is_multiple_of(shape.num_heads) {
        let message = format!("`model.hidden_size` = {} is not divisible by `model.num_heads` = {}", shape.hidden_size, shape.num_heads);
        problems.push(ArgumentProblem::new("model.hidden_size", message).with_help("each head takes an equal share of the width"));
    }
    let model_type = model.model_type.as_deref().unwrap_or_default();
    let types: &[&str] = if kind.is_of_encoders() { &ENCODER_TYPES } else { &DECODER_TYPES };
    if !types.contains(&model_type) {
        let taken: Vec<String> = types.iter().map(|name| format!("\"{name}\"")).collect();
        problems.push(
            ArgumentProblem::new("model.model_type", format!("`{}` is not done by a model of type `{model_type}`", task.name))
                .with_help(format!("it takes {}", taken.join(", "))),
        );
    }
    let gated = GATED.contains(&model_type);
    if !shape.num_heads.is_multiple_of(shape.num_kv_heads) {
        let message = format!("`model.num_heads` = {} is not divisible by `model.num_kv_heads` = {}", shape.num_heads, shape.num_kv_heads);
        problems.push(ArgumentProblem::new("model.num_kv_heads", message).with_help("each serves as many heads of queries"));
    }
    if shape.num_kv_heads != shape.num_heads && !gated {
        let message = format!("models of type `{model_type}` have as many heads of keys and values as of queries");
        problems.push(ArgumentProblem::new("model.num_kv_heads", message).with_help("leave it out, or set `model.model_type = \"llama\"`"));
    }
    if (gated || model_type == MODERN_BERT) && !(shape.hidden_size / shape.num_heads).is_multiple_of(2) {
        let message = format!("heads of {} numbers cannot be rotated in pairs", shape.hidden_size / shape.num_heads);
        problems.push(ArgumentProblem::new("model.num_heads", message).with_help("let `model.hidden_size` / `model.num_heads` be even"));
    }
    if gated && model.dropout.is_some_and(|dropout| dropout > 0.0) {
        let message = format!("models of type `{model_type}` have dropout in attention only");
        problems.push(ArgumentProblem::new("model.dropout", message).with_help("give `model.attention_dropout`, or leave `model.model_type` out"));
    }
    if model.pooling == Some(Pooling::Mean) && kind.is_of_encoders() && !POOLING.contains(&model_type) {
        let message = format!("models of type `{model_type}` classify by their first token");
        problems.push(ArgumentProblem::new("model.pooling", message).with_help("leave it out, or leave `model.model_type` out"));
    }
    if let Some(kind) = model.tokenizer.filter(|kind| !task.tokenizers.contains(kind)) {
        let taken: Vec<String> = task.tokenizers.iter().map(|kind| format!("\"{}\"", kind.word())).collect();
        problems.push(
            ArgumentProblem::new("model.tokenizer", format!("`{}` takes no tokenizer `{}`", task.name, kind.word()))
                .with_help(format!("it takes {}", taken.join(", "))),
        );
    }
    if let Some(vocab_size) = model.vocab_size.filter(|size| *size < BYTE_ENTRIES)
        && kind == TaskKind::LanguageModeling
        && matches!(model.tokenizer, Some(TokenizerKind::Bytes | TokenizerKind::Bpe))
    {
        problems.push(
            ArgumentProblem::new("model.vocab_size", format!("`model.vocab_size` = {vocab_size} has no room for all bytes"))
                .with_help(format!("give at least {BYTE_ENTRIES}, or `model.tokenizer = \"chars\"`")),
        );
    }
    problems
}

/// Leaves to a pretrained model what it says itself, and refuses what contradicts it.
pub(super) fn start_from_pretrained(merged: &mut Map<String, Value>, values: &BTreeMap<String, Value>) -> Vec<ArgumentProblem> {
    let given = given(ARGUMENTS, values);
    let is_given = |name: &str| given.iter().any(|(known, _)| *known == name);
    let mut problems = Vec::new();
    for (name, key) in &given {
        if name.starts_with("model.") && !BESIDE_PRETRAINED.contains(name) {
            let problem = ArgumentProblem::new(key, format!("`{key}` is what a pretrained `model` says itself"));
            problems.push(problem.with_help(format!("leave it out, or leave `model` out to train from nothing; beside it go {}", beside())));
        }
    }
    for argument in ARGUMENTS.iter().filter(|argument| !is_given(argument.name)) {
        if let Some(name) = argument.name.strip_prefix("model.") {
            merged["model"][name] = Value::Null;
        }
    }
    if !is_given("learning_rate") {
        merged["learning_rate"] = PRETRAINED_LEARNING_RATE.into();
    }
    problems
}

/// The peak learning rate of a pretrained model where none is given: transformers'.
const PRETRAINED_LEARNING_RATE: f64 = 5e-5;

fn beside() -> String {
    BESIDE_PRETRAINED[1..].iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

/// The default values that depend on the task.
pub(super) fn fill_in(model: &mut Value, task: TaskKind) {
    let line = task.line();
    let mut default = |name: &str, value: Value| {
        if model[name].is_null() {
            model[name] = value;
        }
    };
    default("tokenizer", Value::from(line.tokenizers[0].word()));
    default("lowercase", Value::from(line.lowercase));
    let types: &[&str] = if task.is_of_encoders() { &ENCODER_TYPES } else { &DECODER_TYPES };
    default("model_type", Value::from(types[0]));
    let model_type = model["model_type"].as_str().unwrap_or_default().to_owned();
    let mut default = |name: &str, value: Value| {
        if model[name].is_null() {
            model[name] = value;
        }
    };
    let gated = GATED.contains(&model_type.as_str());
    default("activation", Value::from(if gated { "silu" } else { "gelu" }));
    // Llama's files have no word for dropout elsewhere than in attention.
    default("dropout", Value::from(if gated { 0.0 } else { DROPOUT }));
    // In a ModernBERT the same share is dropped of what attention adds; small ones seem to learn less with it (the quickstart's best, seeds 0
    // to 4, one run each: .73 to .79 with .1, .73 to .81 with 0).
    default("attention_dropout", Value::from(if model_type == MODERN_BERT { 0.0 } else { DROPOUT }));
    if POOLING.contains(&model_type.as_str()) {
        default("pooling", Value::from("mean"));
    } else if !task.is_of_encoders() {
        default("tie_word_embeddings", Value::from(true));
    }
}

/// Architectures whose feed-forward part has a gate, and whose keys and values may have fewer heads.
const GATED: [&str; 4] = ["llama", "qwen2", "mistral", "qwen3"];

/// Architectures that can classify by the mean of a text's tokens.
const POOLING: [&str; 2] = [ENCODER_TYPES[0], MODERN_BERT];
