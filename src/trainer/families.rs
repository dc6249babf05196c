//! The model families that are read and written, as tables: keys of `config.json` and names of
//! tensors.

pub(super) mod decoders;
pub(super) mod encoders;
pub(super) mod seq2seq;

use serde_json::{Map, Value};

use super::fused::ActivationFn;
use hpsearch_core::arguments::Activation;

/// Most layers of a `config.json`: more come from a damaged or hostile file, and each layer costs
/// memory before a weight is read.
const MAX_LAYERS: usize = 1_024;

/// A family of models: its keys of `config.json`, its names of tensors, and how its layers are
/// built.
#[derive(Debug, PartialEq)]
pub(super) struct Family<Style: 'static, Keys: 'static> {
    /// `model_type` in `config.json`.
    pub(super) model_type: &'static str,
    /// The class of transformers for causal language modelling; of an encoder the beginning of its
    /// classes, before `ForSequenceClassification` and others.
    pub(super) class: &'static str,
    /// The prefix of all tensor names but the head's; files of headless models leave it out.
    pub(super) prefix: &'static str,
    pub(super) style: Style,
    pub(super) keys: Keys,
    pub(super) names: TensorNames,
}

/// Tensor names without `.weight` and `.bias`; those of a layer follow `layer`, its number and a
/// dot.
#[derive(Debug, PartialEq)]
pub(super) struct TensorNames {
    pub(super) token_embedding: &'static str,
    pub(super) position_embedding: &'static str,
    pub(super) segment_embedding: &'static str,
    pub(super) embedding_norm: &'static str,
    /// From the width of embeddings to that of layers.
    pub(super) embedding_projection: &'static str,
    pub(super) layer: &'static str,
    /// Query, key and value; one name where they are packed.
    pub(super) qkv: &'static [&'static str],
    pub(super) attention_output: &'static str,
    pub(super) attention_norm: &'static str,
    /// Norms of each head of queries and of keys.
    pub(super) qk_norms: Option<[&'static str; 2]>,
    /// The first linear layer of the feed-forward network; gate and up where these are two.
    pub(super) up: &'static [&'static str],
    pub(super) down: &'static str,
    pub(super) feed_forward_norm: &'static str,
    pub(super) final_norm: &'static str,
    /// The head of an encoder.
    pub(super) head: HeadNames,
    /// That of an encoder that tells hidden tokens.
    pub(super) masked: MaskedNames,
}

impl TensorNames {
    /// For the tensors that a family does not have.
    const NONE: Self = Self {
        token_embedding: "",
        position_embedding: "",
        segment_embedding: "",
        embedding_norm: "",
        embedding_projection: "",
        layer: "",
        qkv: &[],
        attention_output: "",
        attention_norm: "",
        qk_norms: None,
        up: &[],
        down: "",
        feed_forward_norm: "",
        final_norm: "",
        head: HeadNames { dense: None, out: "" },
        masked: MaskedNames { dense: "", norm: "", bias: "", activation: None },
    };
}

/// Tensor names of a classification head, without prefix.
#[derive(Debug, PartialEq)]
pub(super) struct HeadNames {
    pub(super) dense: Option<HeadDense>,
    /// The output layer.
    pub(super) out: &'static str,
}

/// Tensor names of the head that tells hidden tokens, without prefix: a hidden layer, its norm, and
/// the bias of the output, whose weights are those of the token embedding.
#[derive(Debug, PartialEq)]
pub(super) struct MaskedNames {
    pub(super) dense: &'static str,
    pub(super) norm: &'static str,
    pub(super) bias: &'static str,
    /// The activation of the hidden layer; `None`: that of the layers.
    pub(super) activation: Option<ActivationFn>,
}

/// A hidden layer of a classification head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct HeadDense {
    pub(super) name: &'static str,
    pub(super) activation: ActivationFn,
    /// A norm after it.
    pub(super) norm: Option<&'static str>,
    /// Whether there is dropout before it, too.
    pub(super) has_dropout: bool,
    /// Whether heads over tokens have it, too.
    pub(super) of_tokens: bool,
}

/// Declares in a `config.json` that weights are f32, as they are written whatever dtype was read.
pub(super) fn declare_f32(config: &mut Map<String, Value>) {
    for key in ["torch_dtype", "dtype"] {
        if config.contains_key(key) {
            config.insert(key.to_owned(), "float32".into());
        }
    }
}

/// Families of another kind: which `model_type`s they have, what they are, and the task that trains
/// them, as TOML.
pub(super) struct OtherFamilies {
    pub(super) model_types: &'static [&'static str],
    pub(super) kind: &'static str,
    pub(super) task: &'static str,
}

/// The family with the `model_type` of a `config.json`; an error is the end of a sentence about it.
/// `kind` is that of `families`.
pub(super) fn find<S, K>(
    families: &'static [Family<S, K>],
    kind: &str,
    others: &OtherFamilies,
    name: &str,
) -> Result<&'static Family<S, K>, String> {
    let found = families.iter().find(|family| family.model_type == name);
    found.ok_or_else(|| {
        let OtherFamilies { model_types, kind: other, task } = others;
        let has = format!("has `model_type` = \"{name}\"");
        if model_types.contains(&name) {
            return format!("{has}, {other}: `task = {task}` trains it, and this task {kind}");
        }
        let has = if name.is_empty() { "has no `model_type`".to_owned() } else { has };
        let known: Vec<String> =
            families.iter().map(|family| format!("`{}`", family.model_type)).collect();
        let kinds = kind.split(' ').next_back().unwrap_or_default();
        format!("{has}; supported {kinds}s are {}", known.join(", "))
    })
}

/// Reads the keys of a `config.json`; an error is the end of a sentence about it.
#[derive(Clone, Copy)]
pub(super) struct ConfigReader<'a>(pub(super) &'a Map<String, Value>);

impl ConfigReader<'_> {
    /// The value of a key; null counts as absent.
    pub(super) fn get(&self, key: &str) -> Option<&Value> {
        self.0.get(key).filter(|value| !value.is_null())
    }

    /// `model_type`, empty where it is absent.
    pub(super) fn model_type(&self) -> &str {
        self.get("model_type").and_then(Value::as_str).unwrap_or_default()
    }

    /// A required positive integer.
    pub(super) fn size(&self, key: &str) -> Result<usize, String> {
        let value = self.get(key).ok_or_else(|| format!("has no `{key}`"))?;
        let size =
            value.as_u64().and_then(|size| u32::try_from(size).ok()).filter(|size| *size > 0);
        size.map(|size| size as usize)
            .ok_or_else(|| format!("has `{key}` = {value}, which is not a positive integer"))
    }

    /// The same, or a default.
    pub(super) fn size_or(&self, key: &str, default: usize) -> Result<usize, String> {
        if self.get(key).is_none() { Ok(default) } else { self.size(key) }
    }

    /// A required number of layers.
    pub(super) fn layers(&self, key: &str) -> Result<usize, String> {
        match self.size(key)? {
            layers @ 0..=MAX_LAYERS => Ok(layers),
            layers => Err(format!("has `{key}` = {layers}; at most {MAX_LAYERS} are supported")),
        }
    }

    /// A number, or a default.
    pub(super) fn number_or(&self, key: &str, default: f64) -> Result<f64, String> {
        let Some(value) = self.get(key) else { return Ok(default) };
        value
            .as_f64()
            .filter(|number| number.is_finite())
            .ok_or_else(|| format!("has `{key}` = {value}, which is not a finite number"))
    }

    /// A number above 0, or a default.
    pub(super) fn positive_or(&self, key: &str, default: f64) -> Result<f64, String> {
        let number = self.number_or(key, default)?;
        if number > 0.0 {
            Ok(number)
        } else {
            Err(format!("has `{key}` = {number}, which is not above 0"))
        }
    }

    /// A number in [0, 1), such as a probability or the epsilon of a norm, or a default.
    pub(super) fn fraction_or(&self, key: &str, default: f64) -> Result<f64, String> {
        let fraction = self.number_or(key, default)?;
        if (0.0..1.0).contains(&fraction) {
            Ok(fraction)
        } else {
            Err(format!("has `{key}` = {fraction}, which is not in [0, 1)"))
        }
    }

    /// The width of a head, where heads share the width evenly.
    pub(super) fn head_dim(&self, width_key: &str, heads_key: &str) -> Result<usize, String> {
        let (width, heads) = (self.size(width_key)?, self.size(heads_key)?);
        if width.is_multiple_of(heads) {
            return Ok(width / heads);
        }
        Err(format!("has `{width_key}` = {width}, which `{heads_key}` = {heads} does not divide"))
    }

    /// A Boolean, or a default.
    pub(super) fn bool_or(&self, key: &str, default: bool) -> Result<bool, String> {
        let Some(value) = self.get(key) else { return Ok(default) };
        value.as_bool().ok_or_else(|| format!("has `{key}` = {value}, which is not a Boolean"))
    }

    /// A token id; the first where several are listed.
    pub(super) fn token_id(&self, key: &str) -> Result<Option<u32>, String> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let one = value.as_array().map_or(value, |all| all.first().unwrap_or(&Value::Null));
        let token = one.as_u64().and_then(|token| u32::try_from(token).ok());
        token.map(Some).ok_or_else(|| format!("has `{key}` = {value}, which is not a token id"))
    }

    /// An activation function under any of transformers' names.
    pub(super) fn activation_or(
        &self,
        key: &str,
        default: Activation,
    ) -> Result<Activation, String> {
        let Some(value) = self.get(key) else { return Ok(default) };
        match value.as_str() {
            Some("gelu" | "gelu_python") => Ok(Activation::Gelu),
            Some("gelu_new" | "gelu_pytorch_tanh" | "gelu_fast") => Ok(Activation::GeluNew),
            Some("relu") => Ok(Activation::Relu),
            Some("silu" | "swish") => Ok(Activation::Silu),
            _ => Err(format!(
                "has `{key}` = {value}; known are gelu, gelu_new, gelu_pytorch_tanh, relu and silu"
            )),
        }
    }

    /// Refuses every value of a key but those whose meaning is supported.
    pub(super) fn only(&self, key: &str, meant: &[Value]) -> Result<(), String> {
        match self.get(key) {
            Some(value) if !meant.contains(value) => {
                Err(format!("has `{key}` = {value}, which is not supported"))
            }
            _ => Ok(()),
        }
    }
}
