//! A decoder's configuration: its `config.json`, and the sizes that it gives under its family's
//! keys.

use serde_json::{Map, Value, json};

use super::super::families::decoders::{DECODERS, DecoderFamily, DecoderStyle};
use super::super::families::{self, ConfigReader, OtherFamilies};
use super::super::quantization;
use super::super::rotary::Rope;
use hpsearch_core::arguments::{Activation, DECODER_TYPES, ENCODER_TYPES, ModelArguments};

/// A language model's `config.json`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct DecoderConfig {
    pub(crate) family: &'static DecoderFamily,
    /// All keys, including those without a meaning here.
    pub(crate) config: Map<String, Value>,
    pub(crate) shape: DecoderShape,
}

/// The sizes and dropout rates of a decoder.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct DecoderShape {
    pub(crate) width: usize,
    pub(crate) layers: usize,
    /// Heads of queries.
    pub(crate) heads: usize,
    /// Heads of keys and values; each serves `heads / kv_heads` heads of queries.
    pub(crate) kv_heads: usize,
    /// Width of a head.
    pub(crate) head_dim: usize,
    pub(crate) inner: usize,
    pub(crate) activation: Activation,
    pub(crate) embedding_dropout: f64,
    pub(crate) dropout: f64,
    pub(crate) attention_dropout: f64,
    pub(crate) vocabulary: usize,
    /// Maximum number of tokens of a text.
    pub(crate) positions: usize,
    /// Tokens of a text in training and evaluation.
    pub(crate) window: usize,
    /// What norms add to a variance before its root is taken.
    pub(crate) epsilon: f64,
    pub(crate) rope: Rope,
    pub(crate) biases: DecoderBiases,
    /// Whether the output embedding is the token embedding.
    pub(crate) tied: bool,
    /// Standard deviation of initial weights; `None`: GPT-2's, adapted to the width.
    pub(crate) initializer_range: Option<f64>,
    pub(crate) bos_token: u32,
    pub(crate) eos_token: u32,
}

/// Which linear layers have biases.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct DecoderBiases {
    pub(crate) qkv: bool,
    pub(crate) attention_output: bool,
    pub(crate) feed_forward: bool,
}

/// The key for `window`, which transformers does not have.
const WINDOW_KEY: &str = "training_window";

impl DecoderConfig {
    /// The configuration of a model trained from scratch, for a vocabulary, the window of the data
    /// and the tokens around texts.
    pub(crate) fn new(
        arguments: &ModelArguments,
        vocab_size: usize,
        max_length: usize,
        bos_token: u32,
        eos_token: u32,
    ) -> Result<Self, String> {
        let name = arguments.model_type.as_deref().unwrap_or(DECODER_TYPES[0]);
        let family = family(name)?;
        let (keys, shape) = (&family.keys, arguments.from_scratch());
        let mut config = Map::new();
        let mut put = |key: &str, value: Value| config.insert(key.to_owned(), value);
        put("architectures", json!([family.class]));
        put("model_type", family.model_type.into());
        put("vocab_size", vocab_size.into());
        put(keys.positions, arguments.max_length.unwrap_or(max_length).into());
        put(keys.width, shape.hidden_size.into());
        put(keys.layers, shape.num_layers.into());
        put(keys.heads, shape.num_heads.into());
        put(keys.inner, shape.intermediate_size.into());
        put(keys.activation, json!(shape.activation));
        for key in keys.residual_dropouts.into_iter().flatten() {
            put(key, arguments.dropout().into());
        }
        put(keys.attention_dropout, arguments.attention_dropout().into());
        put(keys.epsilon, 1e-5.into());
        put("tie_word_embeddings", arguments.tie_word_embeddings.unwrap_or(true).into());
        if family.style.is_rotary() {
            put("num_key_value_heads", shape.num_kv_heads.into());
            if keys.head_dim.is_some() {
                put("head_dim", (shape.hidden_size / shape.num_heads.max(1)).into());
            }
            if let Some(key) = keys.sliding_window {
                // transformers' default is that of Mistral 7B.
                put(key, Value::Null);
            }
            if family.model_type == "phi3" {
                // The default is an id of a vocabulary of 32,064.
                put("pad_token_id", Value::Null);
            }
            if let Some(factor) = keys.partial_rotary_factor {
                put("partial_rotary_factor", factor.into());
            }
            put("rope_theta", 10_000.0.into());
            put("initializer_range", 0.02.into());
        }
        put("bos_token_id", bos_token.into());
        put("eos_token_id", eos_token.into());
        Self::read(config)
    }

    /// Reads a `config.json`; an error is the end of a sentence about it.
    pub(crate) fn read(config: Map<String, Value>) -> Result<Self, String> {
        let config = quantization::without_quantization(config)?;
        let keys = ConfigReader(&config);
        let family = family(keys.model_type())?;
        for key in [
            "add_cross_attention",
            "scale_attn_by_inverse_layer_idx",
            "use_sliding_window",
            "use_bidirectional_attention",
            "qk_layernorm",
        ] {
            keys.only(key, &[false.into()])?;
        }
        keys.only("scale_attn_weights", &[true.into()])?;
        if family.keys.residual_dropouts.is_none() {
            keys.only("resid_pdrop", &[0.into(), 0.0.into()])?;
        }
        if let Some(kinds) = keys.get("layer_types").and_then(Value::as_array)
            && let Some(other) = kinds.iter().find(|kind| *kind != "full_attention")
        {
            return Err(format!("has layers of the type {other}, which is not supported"));
        }
        let shape = DecoderShape::read(family, keys)?;
        Ok(Self { family, shape, config })
    }

    /// Adapts a pretrained model's configuration to this window and to the dropout rates that the
    /// arguments give.
    pub(crate) fn adapt(&mut self, arguments: &ModelArguments, window: usize) {
        let keys = &self.family.keys;
        let config = &mut self.config;
        let window = arguments.max_length.unwrap_or(window).min(self.shape.positions);
        config.insert("architectures".to_owned(), json!([self.family.class]));
        config.insert(WINDOW_KEY.to_owned(), window.into());
        families::declare_f32(config);
        self.shape.window = window;
        if let Some(rate) = arguments.dropout
            && let Some(names) = keys.residual_dropouts
        {
            (self.shape.embedding_dropout, self.shape.dropout) = (rate, rate);
            for key in names {
                config.insert(key.to_owned(), rate.into());
            }
        }
        if let Some(rate) = arguments.attention_dropout {
            self.shape.attention_dropout = rate;
            config.insert(keys.attention_dropout.to_owned(), rate.into());
        }
    }
}

impl DecoderShape {
    fn read(family: &DecoderFamily, config: ConfigReader) -> Result<Self, String> {
        let keys = &family.keys;
        let (width, heads) = (config.size(keys.width)?, config.size(keys.heads)?);
        let (gated, rotary) = (family.style.is_gated(), family.style.is_rotary());
        let kv_heads = if rotary { config.size_or("num_key_value_heads", heads)? } else { heads };
        let head_dim = match (config.get("head_dim").filter(|_| rotary), keys.head_dim) {
            (Some(_), _) => config.size("head_dim")?,
            (None, Some(head_dim)) => head_dim,
            (None, None) => config.head_dim(keys.width, keys.heads)?,
        };
        if !heads.is_multiple_of(kv_heads) {
            return Err(format!(
                "has {heads} attention heads, not a multiple of its {kv_heads} key-value heads"
            ));
        }
        let rope = Rope::read(config, keys.partial_rotary_factor)?;
        if rotary {
            rope.check(head_dim)?;
        }
        let residual_dropout = |index: usize| {
            let default = if rotary { 0.0 } else { 0.1 };
            keys.residual_dropouts
                .map_or(Ok(0.0), |names| config.fraction_or(names[index], default))
        };
        let biases = match family.style {
            DecoderStyle::Gpt | DecoderStyle::Phi => {
                DecoderBiases { qkv: true, attention_output: true, feed_forward: true }
            }
            DecoderStyle::Llama { qkv_bias: true } => {
                DecoderBiases { qkv: true, attention_output: false, feed_forward: false }
            }
            DecoderStyle::Llama { qkv_bias: false } => {
                let attention = config.bool_or("attention_bias", false)?;
                DecoderBiases {
                    qkv: attention,
                    attention_output: attention,
                    feed_forward: config.bool_or("mlp_bias", false)?,
                }
            }
        };
        let positions = config.size(keys.positions)?;
        let positions = keys
            .sliding_window
            .map_or(Ok(positions), |key| config.size_or(key, positions))?
            .min(positions);
        let vocabulary = config.size("vocab_size")?;
        let eos_token = config.token_id("eos_token_id")?.unwrap_or(0);
        let bos_token = config.token_id("bos_token_id")?.unwrap_or(eos_token);
        if bos_token.max(eos_token) as usize >= vocabulary {
            return Err(format!(
                "has `bos_token_id` or `eos_token_id` beyond its `vocab_size` = {vocabulary}"
            ));
        }
        Ok(Self {
            layers: config.layers(keys.layers)?,
            inner: if rotary {
                config.size(keys.inner)?
            } else {
                config.size_or(keys.inner, 4 * width)?
            },
            activation: match config.activation_or(
                keys.activation,
                if gated && !keys.is_gemma { Activation::Silu } else { Activation::GeluNew },
            )? {
                Activation::Gelu if keys.is_gemma => Activation::GeluNew,
                activation => activation,
            },
            embedding_dropout: residual_dropout(0)?,
            dropout: residual_dropout(1)?,
            attention_dropout: config
                .fraction_or(keys.attention_dropout, if rotary { 0.0 } else { 0.1 })?,
            window: config.size_or(WINDOW_KEY, positions)?.min(positions),
            epsilon: config.fraction_or(keys.epsilon, if gated { 1e-6 } else { 1e-5 })?,
            rope,
            tied: config.bool_or("tie_word_embeddings", keys.tied)?,
            initializer_range: rotary
                .then(|| config.number_or("initializer_range", 0.02))
                .transpose()?,
            vocabulary,
            positions,
            biases,
            bos_token,
            eos_token,
            width,
            heads,
            kv_heads,
            head_dim,
        })
    }
}

fn family(name: &str) -> Result<&'static DecoderFamily, String> {
    families::find(DECODERS, "a decoder", &ENCODER_FAMILIES, name)
}

const ENCODER_FAMILIES: OtherFamilies = OtherFamilies {
    model_types: &ENCODER_TYPES,
    kind: "an encoder",
    task: "\"masked-language-modeling\" (or one with labels)",
};
