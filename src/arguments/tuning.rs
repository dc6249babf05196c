//! What of a model is trained and how strongly: frozen parts, rates by layer, low-rank adapters, weights of labels.

use std::collections::BTreeMap;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

use super::lines::{ARGUMENTS, MOST_ROWS};
use super::table::{ArgumentProblem, given};
use super::tasks::TaskKind;
use super::training::{SamplingStrategy, TrainerArguments};

/// How much each label's rows count; stored as the word `balanced` or as a list.
#[derive(Debug, Clone, PartialEq)]
pub enum ClassWeights {
    /// Rows of each label count as much together as those of any other: scikit-learn's `compute_class_weight("balanced")`.
    Balanced,
    /// These, in the order of the labels' ids.
    Given(Vec<f64>),
}

impl Serialize for ClassWeights {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Balanced => serializer.serialize_str("balanced"),
            Self::Given(weights) => weights.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for ClassWeights {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        if value.as_str() == Some("balanced") {
            return Ok(Self::Balanced);
        }
        let weights = value.as_array().and_then(|list| list.iter().map(Value::as_f64).collect());
        weights.map(Self::Given).ok_or_else(|| D::Error::custom(format!("class weights cannot be `{value}`")))
    }
}

/// Names as a list, whether they were listed or written in one text with commas; `None` where it is neither.
pub(super) fn names(value: &Value) -> Option<Value> {
    let listed = |text: &str| -> Vec<Value> { text.split(',').map(str::trim).filter(|name| !name.is_empty()).map(Value::from).collect() };
    match value {
        Value::String(text) => Some(listed(text).into()),
        Value::Array(list) => Some(list.iter().map(|name| name.as_str().map(listed)).collect::<Option<Vec<_>>>()?.concat().into()),
        _ => None,
    }
}

/// Weights as [`ClassWeights`] are stored, whether they were listed or written in one text with commas; null for `none`.
pub(super) fn weights(value: &Value) -> Option<Value> {
    let sound = |weights: Vec<f64>| {
        let sound = !weights.is_empty() && weights.iter().all(|weight| weight.is_finite() && *weight > 0.0);
        sound.then(|| Value::from(weights))
    };
    match value {
        Value::String(text) if text == "none" => Some(Value::Null),
        Value::String(text) if text == "balanced" => Some(value.clone()),
        Value::String(text) => sound(text.split(',').map(|weight| weight.trim().parse().ok()).collect::<Option<_>>()?),
        Value::Array(list) => sound(list.iter().map(Value::as_f64).collect::<Option<_>>()?),
        _ => None,
    }
}

/// What is absent and means something here: no names, and no limit to rows where there is one to tokens.
pub(super) fn fill_in(merged: &mut Map<String, Value>, values: &BTreeMap<String, Value>) {
    for name in ["freeze", "lora_target_modules"] {
        if merged[name].is_null() {
            merged[name] = Value::Array(Vec::new());
        }
    }
    let rows = "per_device_train_batch_size";
    // A row has at least one token.
    if let Some(tokens) = merged["max_tokens_per_batch"].as_i64().filter(|_| !given(ARGUMENTS, values).iter().any(|(name, _)| *name == rows)) {
        merged[rows] = tokens.min(MOST_ROWS).into();
    }
}

/// What does not go together in how a model is tuned and its batches are made.
pub(super) fn contradictions(arguments: &TrainerArguments, values: &BTreeMap<String, Value>) -> Vec<ArgumentProblem> {
    let given = given(ARGUMENTS, values);
    let key_of = |name: &str| given.iter().find(|(known, _)| *known == name).map(|(_, key)| key.as_str());
    let mut problems = Vec::new();
    let mut problem = |key: &str, message: String, help: &str| problems.push(ArgumentProblem::new(key, message).with_help(help));
    // Of language models the table of arguments says it.
    if arguments.class_weights.is_some() && matches!(arguments.task, TaskKind::MultiLabelClassification | TaskKind::TextRegression) {
        let message = format!("`class_weights` means nothing to `{}`", arguments.task.line().name);
        problem("class_weights", message, "leave it out; it weighs the rows of tasks with one label each");
    }
    if key_of("lora_r").is_none() {
        for name in ["lora_alpha", "lora_dropout", "lora_target_modules", "use_rslora"] {
            if let Some(key) = key_of(name) {
                problem(key, format!("`{key}` says how adapters are made, and `lora_r` asks for none"), "give `lora_r`, for example 8");
            }
        }
    }
    if arguments.max_tokens_per_batch.is_some() && arguments.dataloader_drop_last {
        problem("dataloader_drop_last", "`max_tokens_per_batch` leaves no incomplete micro-batch to drop".to_owned(), "leave one of them out");
    }
    if arguments.max_tokens_per_batch.is_some() && arguments.train_sampling_strategy == SamplingStrategy::Sequential {
        let message = "`max_tokens_per_batch` puts rows of like lengths together, and \"sequential\" leaves them in their order".to_owned();
        problem("train_sampling_strategy", message, "leave one of them out");
    }
    problems
}
