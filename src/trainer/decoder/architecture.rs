//! A decoder's shape, and the `config.json` that says it under its family's keys.

use serde_json::{Map, Value, json};

use super::super::families::decoders::{Build, DECODERS, DecoderFamily, find};
use super::super::families::{self, Keys};
use super::super::quantization;
use crate::arguments::{Activation, DECODER_TYPES, ENCODER_TYPES, ModelArguments};

/// A language model's `config.json` and what it says.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::trainer) struct Architecture {
    pub(in crate::trainer) family: &'static DecoderFamily,
    /// Every key, those included that mean nothing here.
    pub(in crate::trainer) config: Map<String, Value>,
    pub(in crate::trainer) shape: Shape,
}

/// The sizes and shares of a decoder.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::trainer) struct Shape {
    pub(in crate::trainer) width: usize,
    pub(in crate::trainer) layers: usize,
    /// Heads of queries.
    pub(in crate::trainer) heads: usize,
    /// Heads of keys and values, each for as many of queries.
    pub(in crate::trainer) groups: usize,
    /// Width of a head.
    pub(in crate::trainer) size: usize,
    pub(in crate::trainer) inner: usize,
    pub(in crate::trainer) activation: Activation,
    pub(in crate::trainer) embedding_dropout: f64,
    pub(in crate::trainer) dropout: f64,
    pub(in crate::trainer) attention_dropout: f64,
    pub(in crate::trainer) vocabulary: usize,
    /// Most tokens of a text.
    pub(in crate::trainer) positions: usize,
    /// Tokens of a window in training and evaluation.
    pub(in crate::trainer) window: usize,
    /// Added to variances or mean squares.
    pub(in crate::trainer) epsilon: f64,
    pub(in crate::trainer) rope: Rope,
    /// Whether query, key and value have biases; the output of attention; the feed-forward part.
    pub(in crate::trainer) biases: [bool; 3],
    /// Whether the output shares the table of words.
    pub(in crate::trainer) tied: bool,
    /// The deviation that fresh tables and maps have; `None`: as in GPT-2, kept at that size whatever the width.
    pub(in crate::trainer) deviation: Option<f64>,
    /// What stands before a text's first token.
    pub(in crate::trainer) start: u32,
    /// What ends a text.
    pub(in crate::trainer) end: u32,
}

/// How fast the pairs of a head turn with the position (Su et al. 2021).
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::trainer) struct Rope {
    /// The base of the speeds.
    pub(in crate::trainer) theta: f64,
    /// Llama 3.1's stretching to longer texts.
    pub(in crate::trainer) stretch: Option<Stretch>,
}

/// Slow pairs are slowed further, so that longer texts than those of pretraining can be read.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::trainer) struct Stretch {
    pub(in crate::trainer) factor: f64,
    pub(in crate::trainer) low: f64,
    pub(in crate::trainer) high: f64,
    pub(in crate::trainer) original: f64,
}

/// The key for the tokens of a window, beside those that transformers knows.
const WINDOW: &str = "training_window";

impl Architecture {
    /// The shape that the arguments ask for from nothing, for a tokenizer, the data's length of windows and the tokens around texts.
    pub(in crate::trainer) fn new(arguments: &ModelArguments, vocab_size: usize, max_length: usize, start: u32, end: u32) -> Result<Self, String> {
        let name = arguments.model_type.as_deref().unwrap_or(DECODER_TYPES[0]);
        let family = find(name).ok_or_else(|| unknown(name))?;
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
        for key in keys.dropouts.into_iter().flatten() {
            put(key, arguments.dropout().into());
        }
        put(keys.attention_dropout, arguments.attention_dropout().into());
        put(keys.epsilon, 1e-5.into());
        put("tie_word_embeddings", arguments.tie_word_embeddings.unwrap_or(true).into());
        if let Build::Llama { .. } = family.build {
            put("num_key_value_heads", shape.num_kv_heads.into());
            if keys.head.is_some() {
                put("head_dim", (shape.hidden_size / shape.num_heads.max(1)).into());
            }
            if let Some(key) = keys.sliding {
                // transformers' default is Mistral 7B's.
                put(key, Value::Null);
            }
            put("rope_theta", 10_000.0.into());
            put("initializer_range", 0.02.into());
        }
        put("bos_token_id", start.into());
        put("eos_token_id", end.into());
        Self::read(config)
    }

    /// What a `config.json` describes, or what is wrong with it.
    pub(in crate::trainer) fn read(config: Map<String, Value>) -> Result<Self, String> {
        let config = quantization::plain(config)?;
        let keys = Keys(&config);
        let name = keys.get("model_type").and_then(Value::as_str).unwrap_or_default();
        let family = find(name).ok_or_else(|| unknown(name))?;
        for key in ["add_cross_attention", "scale_attn_by_inverse_layer_idx", "use_sliding_window"] {
            keys.only(key, &[false.into()])?;
        }
        keys.only("scale_attn_weights", &[true.into()])?;
        if let Some(kinds) = keys.get("layer_types").and_then(Value::as_array)
            && let Some(other) = kinds.iter().find(|kind| *kind != "full_attention")
        {
            return Err(format!("has layers of the type {other}, which the trainer does not have"));
        }
        let shape = Shape::read(family, keys)?;
        Ok(Self { family, shape, config })
    }

    /// Makes a model that was read from elsewhere one to train on windows of this length, with the dropout that arguments ask for.
    pub(in crate::trainer) fn adapt(&mut self, arguments: &ModelArguments, window: usize) {
        let keys = &self.family.keys;
        let config = &mut self.config;
        let window = arguments.max_length.unwrap_or(window).min(self.shape.positions);
        config.insert("architectures".to_owned(), json!([self.family.class]));
        config.insert(WINDOW.to_owned(), window.into());
        // What is written is single floats, whatever was read.
        for key in ["torch_dtype", "dtype"] {
            if config.contains_key(key) {
                config.insert(key.to_owned(), "float32".into());
            }
        }
        self.shape.window = window;
        if let Some(share) = arguments.dropout
            && let Some(names) = keys.dropouts
        {
            (self.shape.embedding_dropout, self.shape.dropout) = (share, share);
            for key in names {
                config.insert(key.to_owned(), share.into());
            }
        }
        if let Some(share) = arguments.attention_dropout {
            self.shape.attention_dropout = share;
            config.insert(keys.attention_dropout.to_owned(), share.into());
        }
    }
}

impl Shape {
    fn read(family: &DecoderFamily, config: Keys) -> Result<Self, String> {
        let keys = &family.keys;
        let (width, heads) = (config.size(keys.width)?, config.size(keys.heads)?);
        let gated = family.build != Build::Gpt;
        let groups = if gated { config.size_or("num_key_value_heads", heads)? } else { heads };
        let size = match (config.get("head_dim").filter(|_| gated), keys.head) {
            (Some(_), _) => config.size("head_dim")?,
            (None, Some(size)) => size,
            (None, None) if width.is_multiple_of(heads) => width / heads,
            (None, None) => return Err(format!("has `{}` = {width}, which `{}` = {heads} does not divide", keys.width, keys.heads)),
        };
        if !heads.is_multiple_of(groups) {
            return Err(format!("has {heads} heads of queries, which its {groups} of keys do not divide"));
        }
        if gated && !size.is_multiple_of(2) {
            return Err(format!("has heads of {size} numbers, which cannot be rotated in pairs"));
        }
        let dropped = |place: usize| keys.dropouts.map_or(Ok(0.0), |names| config.share_or(names[place], 0.1));
        let biases = match family.build {
            Build::Gpt => [true; 3],
            Build::Llama { biased: true } => [true, false, false],
            Build::Llama { biased: false } => {
                let attention = config.flag_or("attention_bias", false)?;
                [attention, attention, config.flag_or("mlp_bias", false)?]
            }
        };
        let positions = config.size(keys.positions)?;
        let positions = keys.sliding.map_or(Ok(positions), |key| config.size_or(key, positions))?.min(positions);
        let vocabulary = config.size("vocab_size")?;
        let end = config.token("eos_token_id")?.unwrap_or(0);
        let start = config.token("bos_token_id")?.unwrap_or(end);
        if start.max(end) as usize >= vocabulary {
            return Err(format!("has `bos_token_id` or `eos_token_id` beyond its `vocab_size` = {vocabulary}"));
        }
        Ok(Self {
            layers: config.layers(keys.layers)?,
            inner: if gated { config.size(keys.inner)? } else { config.size_or(keys.inner, 4 * width)? },
            activation: config.activation_or(keys.activation, if gated { Activation::Silu } else { Activation::GeluNew })?,
            embedding_dropout: dropped(0)?,
            dropout: dropped(1)?,
            attention_dropout: config.share_or(keys.attention_dropout, if gated { 0.0 } else { 0.1 })?,
            window: config.size_or(WINDOW, positions)?.min(positions),
            epsilon: config.epsilon_or(keys.epsilon, if gated { 1e-6 } else { 1e-5 })?,
            rope: Rope::read(config)?,
            tied: config.flag_or("tie_word_embeddings", keys.tied)?,
            deviation: if gated { Some(config.number_or("initializer_range", 0.02)?) } else { None },
            vocabulary,
            positions,
            biases,
            start,
            end,
            width,
            heads,
            groups,
            size,
        })
    }
}

impl Rope {
    /// From `rope_parameters` (transformers 5), or from `rope_theta` and `rope_scaling`.
    fn read(config: Keys) -> Result<Self, String> {
        let nested = config.get("rope_parameters").or_else(|| config.get("rope_scaling")).and_then(Value::as_object);
        let empty = Map::new();
        let nested = Keys(nested.unwrap_or(&empty));
        let theta = nested.number_or("rope_theta", config.number_or("rope_theta", 10_000.0)?)?;
        let kind = nested.get("rope_type").or_else(|| nested.get("type")).and_then(Value::as_str).unwrap_or("default");
        let stretch = match kind {
            "default" => None,
            "llama3" => Some(Stretch {
                factor: nested.positive_or("factor", 8.0)?,
                low: nested.positive_or("low_freq_factor", 1.0)?,
                high: nested.positive_or("high_freq_factor", 4.0)?,
                original: nested.positive_or("original_max_position_embeddings", 8_192.0)?,
            }),
            other => return Err(format!("turns positions by the rule `{other}`; known are default and llama3")),
        };
        if theta <= 0.0 {
            return Err(format!("has `rope_theta` = {theta}, which is not above 0"));
        }
        Ok(Self { theta, stretch })
    }

    /// How far each of the `count` pairs of a head turns from one position to the next, in radians.
    pub(in crate::trainer) fn speeds(&self, count: usize) -> Vec<f64> {
        #[expect(clippy::cast_precision_loss, reason = "a width")]
        let plain = (0..count).map(|pair| self.theta.powf(-(pair as f64) / count as f64));
        plain.map(|speed| self.stretch.map_or(speed, |stretch| stretch.of(speed))).collect()
    }
}

impl Stretch {
    /// As transformers' `_compute_llama3_parameters`.
    fn of(&self, speed: f64) -> f64 {
        let length = 2.0 * std::f64::consts::PI / speed;
        if length > self.original / self.low {
            speed / self.factor
        } else if length < self.original / self.high {
            speed
        } else {
            let smooth = (self.original / length - self.low) / (self.high - self.low);
            (1.0 - smooth) * speed / self.factor + smooth * speed
        }
    }
}

fn unknown(name: &str) -> String {
    if ENCODER_TYPES.contains(&name) {
        return format!("has `model_type` = \"{name}\", an encoder: `task = \"text-classification\"` trains it, and this task a decoder");
    }
    families::unknown(name, "decoders", DECODERS.iter().map(|family| family.model_type))
}
