//! The architectures whose files are read and written, as tables: keys of `config.json` and names of tensors. The layers are the trainer's own.

pub(super) mod decoders;
pub(super) mod encoders;

use serde_json::{Map, Value};

use crate::arguments::Activation;

/// Most layers that a `config.json` may ask for: beyond it is a damaged or hostile file, and each layer costs memory before a weight is read.
const MOST_LAYERS: usize = 1_024;

/// What is said of a `model_type` that nobody knows, with those of a kind that are known.
pub(super) fn unknown(name: &str, kind: &str, known: impl Iterator<Item = &'static str>) -> String {
    let known: Vec<String> = known.map(|name| format!("`{name}`")).collect();
    let has = if name.is_empty() { "has no `model_type`".to_owned() } else { format!("has `model_type` = \"{name}\"") };
    format!("{has}; {kind} known here are {}", known.join(", "))
}

/// Reads the keys of a `config.json`; everything that is wrong is said with the key's name.
#[derive(Clone, Copy)]
pub(super) struct Keys<'a>(pub(super) &'a Map<String, Value>);

impl Keys<'_> {
    /// What a key says; null counts as absent.
    pub(super) fn get(&self, key: &str) -> Option<&Value> {
        self.0.get(key).filter(|value| !value.is_null())
    }

    /// A whole number from 1 that must be there.
    pub(super) fn size(&self, key: &str) -> Result<usize, String> {
        let value = self.get(key).ok_or_else(|| format!("has no `{key}`"))?;
        let size = value.as_u64().and_then(|size| u32::try_from(size).ok()).filter(|size| *size > 0);
        size.map(|size| size as usize).ok_or_else(|| format!("has `{key}` = {value}, which is no size"))
    }

    /// The same, or a default.
    pub(super) fn size_or(&self, key: &str, default: usize) -> Result<usize, String> {
        if self.get(key).is_none() { Ok(default) } else { self.size(key) }
    }

    /// A number of layers.
    pub(super) fn layers(&self, key: &str) -> Result<usize, String> {
        match self.size(key)? {
            layers @ 0..=MOST_LAYERS => Ok(layers),
            layers => Err(format!("has `{key}` = {layers}; at most {MOST_LAYERS} can be trained")),
        }
    }

    /// A number, or a default.
    pub(super) fn number_or(&self, key: &str, default: f64) -> Result<f64, String> {
        let Some(value) = self.get(key) else { return Ok(default) };
        value.as_f64().filter(|number| number.is_finite()).ok_or_else(|| format!("has `{key}` = {value}, which is no number"))
    }

    /// A number above 0, or a default.
    pub(super) fn positive_or(&self, key: &str, default: f64) -> Result<f64, String> {
        let number = self.number_or(key, default)?;
        if number > 0.0 { Ok(number) } else { Err(format!("has `{key}` = {number}, which is not above 0")) }
    }

    /// What is added to variances, or a default.
    pub(super) fn epsilon_or(&self, key: &str, default: f64) -> Result<f64, String> {
        let epsilon = self.number_or(key, default)?;
        if (0.0..1.0).contains(&epsilon) { Ok(epsilon) } else { Err(format!("has `{key}` = {epsilon}, which is no small number from 0")) }
    }

    /// A share in [0, 1), or a default.
    pub(super) fn share_or(&self, key: &str, default: f64) -> Result<f64, String> {
        let share = self.number_or(key, default)?;
        if (0.0..1.0).contains(&share) { Ok(share) } else { Err(format!("has `{key}` = {share}, which is no share below 1")) }
    }

    /// A truth value, or a default.
    pub(super) fn flag_or(&self, key: &str, default: bool) -> Result<bool, String> {
        let Some(value) = self.get(key) else { return Ok(default) };
        value.as_bool().ok_or_else(|| format!("has `{key}` = {value}, which is neither true nor false"))
    }

    /// The number of a token; the first where several are listed.
    pub(super) fn token(&self, key: &str) -> Result<Option<u32>, String> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let one = value.as_array().map_or(value, |all| all.first().unwrap_or(&Value::Null));
        let token = one.as_u64().and_then(|token| u32::try_from(token).ok());
        token.map(Some).ok_or_else(|| format!("has `{key}` = {value}, which is no token"))
    }

    /// A nonlinearity under one of the names that transformers has for it.
    pub(super) fn activation_or(&self, key: &str, default: Activation) -> Result<Activation, String> {
        let Some(value) = self.get(key) else { return Ok(default) };
        match value.as_str() {
            Some("gelu" | "gelu_python") => Ok(Activation::Gelu),
            Some("gelu_new" | "gelu_pytorch_tanh" | "gelu_fast") => Ok(Activation::GeluNew),
            Some("relu") => Ok(Activation::Relu),
            Some("silu" | "swish") => Ok(Activation::Silu),
            _ => Err(format!("has `{key}` = {value}; known are gelu, gelu_new, gelu_pytorch_tanh, relu and silu")),
        }
    }

    /// Refuses a key with any value but those that mean what the trainer does.
    pub(super) fn only(&self, key: &str, meant: &[Value]) -> Result<(), String> {
        match self.get(key) {
            Some(value) if !meant.contains(value) => Err(format!("has `{key}` = {value}, which the trainer does not have")),
            _ => Ok(()),
        }
    }
}
