//! The configuration of an encoder with a decoder: its `config.json`, and the sizes that it gives
//! under its family's keys.

use serde_json::{Map, Value, json};

use super::super::families::seq2seq::{SEQ2SEQ, Seq2SeqFamily, Seq2SeqStyle};
use super::super::families::{self, ConfigReader};
use super::super::prepared::TextEnds;
use super::super::quantization;
use super::super::writing::TextGeneration;
use hpsearch_core::arguments::{
    Activation, MOST_BEAMS, MOST_NEW_TOKENS, ModelArguments, SEQ2SEQ_TYPES,
};

/// Its `config.json`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Seq2SeqConfig {
    pub(crate) family: &'static Seq2SeqFamily,
    /// All keys, including those without a meaning here.
    pub(crate) config: Map<String, Value>,
    pub(crate) shape: Seq2SeqShape,
    /// How it writes texts unless told otherwise.
    pub(crate) writing: TextGeneration,
    /// Tokens that it never writes.
    pub(crate) suppressed: Vec<u32>,
}

/// The sizes and dropout rates of an encoder with a decoder.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Seq2SeqShape {
    pub(crate) width: usize,
    pub(crate) encoder: StackShape,
    pub(crate) decoder: StackShape,
    pub(crate) activation: Activation,
    /// Whether the feed-forward network has a gate.
    pub(crate) gated: bool,
    pub(crate) dropout: f64,
    pub(crate) attention_dropout: f64,
    /// Dropout within the feed-forward network.
    pub(crate) activation_dropout: f64,
    pub(crate) vocabulary: usize,
    /// Maximum number of tokens of a text; `None`: there is none, positions being relative.
    pub(crate) positions: Option<usize>,
    pub(crate) relative: RelativePositions,
    /// What norms add to a variance before its root is taken.
    pub(crate) epsilon: f64,
    /// Whether embeddings are multiplied by the root of the width.
    pub(crate) scales_embeddings: bool,
    /// Whether the output embedding is the token embedding.
    pub(crate) tied: bool,
    pub(crate) special: Seq2SeqTokens,
}

/// The sizes of the encoder or the decoder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StackShape {
    pub(crate) layers: usize,
    pub(crate) heads: usize,
    pub(crate) head_dim: usize,
    pub(crate) inner: usize,
}

/// T5's buckets of relative positions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RelativePositions {
    pub(crate) buckets: usize,
    /// From this distance on all share a bucket.
    pub(crate) max_distance: usize,
}

/// Tokens that are not text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Seq2SeqTokens {
    pub(crate) pad: u32,
    /// Ends a text.
    pub(crate) eos: u32,
    /// Before a text's first token, in the decoder.
    pub(crate) decoder_start: u32,
    /// The first and the last token of every text that is written.
    pub(crate) forced_bos: Option<u32>,
    pub(crate) forced_eos: Option<u32>,
}

/// What transformers' pipelines put before a text.
const PREFIX: &str = "prefix";

/// transformers' longest text where nothing says otherwise, its start included.
const DEFAULT_MAX_LENGTH: usize = 20;

/// The key for the longest source and target, which transformers does not have in every family.
const POSITIONS: &str = "max_position_embeddings";

impl Seq2SeqConfig {
    /// The configuration of a model trained from scratch, for a vocabulary, the longest text, and
    /// the tokens of padding and of the end.
    pub(crate) fn new(
        arguments: &ModelArguments,
        vocab_size: usize,
        longest: usize,
        [pad, end]: [u32; 2],
    ) -> Result<Self, String> {
        let name = arguments.model_type.as_deref().unwrap_or(SEQ2SEQ_TYPES[0]);
        let (family, shape) = (family(name)?, arguments.from_scratch());
        let (dropout, attention_dropout) = (arguments.dropout(), arguments.attention_dropout());
        let is_mt5 = family.model_type == "mt5";
        let tied = arguments.tie_word_embeddings.unwrap_or(!is_mt5);
        if tied && is_mt5 {
            return Err("cannot tie its output embedding, as no mT5 does: leave \
                        `model.tie_word_embeddings` out"
                .to_owned());
        }
        if let Some(most) = arguments.max_length.filter(|most| *most < longest)
            && family.style != Seq2SeqStyle::T5
        {
            return Err(format!(
                "has `model.max_length` = {most} positions, and `[data]` has texts of up to \
                 {longest} tokens (`max_length`, `max_target_length`)"
            ));
        }
        let heads = shape.num_heads.max(1);
        let own: Vec<(&str, Value)> = match family.style {
            Seq2SeqStyle::T5 => vec![
                ("d_model", json!(shape.hidden_size)),
                ("d_kv", json!(shape.hidden_size / heads)),
                ("d_ff", json!(shape.intermediate_size)),
                ("num_layers", json!(shape.num_layers)),
                ("num_decoder_layers", json!(shape.num_layers)),
                ("num_heads", json!(heads)),
                ("relative_attention_num_buckets", json!(32)),
                ("relative_attention_max_distance", json!(128)),
                ("dropout_rate", json!(dropout)),
                ("layer_norm_epsilon", json!(1e-6)),
                ("initializer_factor", json!(1.0)),
                (
                    "feed_forward_proj",
                    json!(match shape.activation {
                        Activation::Relu => "relu",
                        Activation::Gelu => "gelu",
                        Activation::GeluNew => "gated-gelu",
                        Activation::Silu => "gated-silu",
                    }),
                ),
                ("bos_token_id", json!(Value::Null)),
                ("decoder_start_token_id", json!(pad)),
            ],
            Seq2SeqStyle::Bart | Seq2SeqStyle::Marian => vec![
                ("d_model", json!(shape.hidden_size)),
                (POSITIONS, json!(arguments.max_length.unwrap_or(longest))),
                ("encoder_layers", json!(shape.num_layers)),
                ("encoder_attention_heads", json!(heads)),
                ("encoder_ffn_dim", json!(shape.intermediate_size)),
                ("decoder_layers", json!(shape.num_layers)),
                ("decoder_attention_heads", json!(heads)),
                ("decoder_ffn_dim", json!(shape.intermediate_size)),
                ("dropout", json!(dropout)),
                ("attention_dropout", json!(attention_dropout)),
                ("activation_dropout", json!(0.0)),
                ("activation_function", json!(shape.activation)),
                ("init_std", json!(0.02)),
                ("scale_embedding", json!(family.style == Seq2SeqStyle::Marian)),
                ("bos_token_id", json!(end)),
                (
                    "decoder_start_token_id",
                    json!(if family.style == Seq2SeqStyle::Bart { end } else { pad }),
                ),
                ("forced_eos_token_id", json!(end)),
                ("static_position_embeddings", json!(family.style == Seq2SeqStyle::Marian)),
            ],
        };
        let common = [
            ("architectures", json!([family.class])),
            ("model_type", family.model_type.into()),
            ("is_encoder_decoder", true.into()),
            ("vocab_size", vocab_size.into()),
            ("pad_token_id", pad.into()),
            ("eos_token_id", end.into()),
            ("tie_word_embeddings", tied.into()),
        ];
        let all = own.into_iter().chain(common);
        let config = all.map(|(key, value)| (key.to_owned(), value)).collect();
        Self::read(config)
    }

    /// Reads a `config.json`; an error is the end of a sentence about it.
    pub(crate) fn read(config: Map<String, Value>) -> Result<Self, String> {
        let config = quantization::without_quantization(config)?;
        let keys = ConfigReader(&config);
        let family = family(keys.model_type())?;
        let shape = Seq2SeqShape::read(family, keys)?;
        let longest = match keys.get("max_new_tokens") {
            Some(_) => keys.size("max_new_tokens")?,
            // The start counts there.
            None => keys.size_or("max_length", DEFAULT_MAX_LENGTH)?.max(2) - 1,
        };
        let num_beams = keys.size_or("num_beams", 1)?;
        if num_beams > MOST_BEAMS as usize {
            return Err(format!(
                "has `num_beams` = {num_beams}; at most {MOST_BEAMS} are supported"
            ));
        }
        let writing = TextGeneration {
            max_new_tokens: longest.min(MOST_NEW_TOKENS as usize),
            min_new_tokens: keys
                .get("min_length")
                .and_then(Value::as_u64)
                .and_then(|length| usize::try_from(length).ok())
                .map_or(0, |length| length.saturating_sub(1)),
            num_beams,
            length_penalty: keys.number_or("length_penalty", 1.0)?,
            no_repeat_ngram_size: keys
                .get("no_repeat_ngram_size")
                .and_then(Value::as_u64)
                .and_then(|size| usize::try_from(size).ok())
                .unwrap_or(0),
            early_stopping: keys.get("early_stopping") == Some(&Value::Bool(true)),
        };
        let suppressed = keys.get("bad_words_ids").and_then(Value::as_array).into_iter().flatten();
        let all = keys.get("suppress_tokens").and_then(Value::as_array).into_iter().flatten();
        let all = all.filter_map(|token| u32::try_from(token.as_u64()?).ok());
        let suppressed = suppressed
            .filter_map(|words| match words.as_array().map(Vec::as_slice) {
                Some([only]) => only.as_u64().and_then(|token| u32::try_from(token).ok()),
                _ => None,
            })
            .chain(all)
            .collect();
        Ok(Self { family, shape, writing, suppressed, config })
    }

    /// Writes texts as those of the data: of the same length, after the same beginning of sources.
    pub(crate) fn write_as(&mut self, ends: Option<&TextEnds>) {
        let Some(ends) = ends else { return };
        self.writing.max_new_tokens = ends.longest;
        self.config.insert("max_length".to_owned(), (ends.longest + 1).into());
        if let Some(prefix) = &ends.prefix {
            self.config.insert(PREFIX.to_owned(), prefix.as_str().into());
        }
    }

    /// What is put before sources.
    pub(crate) fn prefix(&self) -> &str {
        self.config.get(PREFIX).and_then(Value::as_str).unwrap_or_default()
    }

    /// Adapts a pretrained model's configuration to the dropout rates that the arguments give, or
    /// the end of a sentence about one that it does not have.
    pub(crate) fn adapt(&mut self, arguments: &ModelArguments) -> Result<(), String> {
        self.config.insert("architectures".to_owned(), json!([self.family.class]));
        families::declare_f32(&mut self.config);
        if let Some(rate) = arguments.dropout {
            self.shape.dropout = rate;
            let key =
                if self.family.style == Seq2SeqStyle::T5 { "dropout_rate" } else { "dropout" };
            if self.family.style == Seq2SeqStyle::T5 {
                (self.shape.attention_dropout, self.shape.activation_dropout) = (rate, rate);
            }
            self.config.insert(key.to_owned(), rate.into());
        }
        if let Some(rate) = arguments.attention_dropout {
            if self.family.style != Seq2SeqStyle::T5 {
                self.shape.attention_dropout = rate;
                self.config.insert("attention_dropout".to_owned(), rate.into());
            } else if rate != self.shape.dropout {
                return Err(format!(
                    "is of `{}`, which has one rate of dropout for all its parts, {}: leave out \
                     `model.attention_dropout` = {rate}, or give both",
                    self.family.model_type, self.shape.dropout
                ));
            }
        }
        Ok(())
    }

    /// Maximum number of tokens of a text.
    pub(crate) fn max_tokens(&self) -> usize {
        self.shape.positions.unwrap_or(usize::MAX)
    }
}

impl Seq2SeqShape {
    fn read(family: &Seq2SeqFamily, config: ConfigReader) -> Result<Self, String> {
        let width = config.size("d_model")?;
        let vocabulary = config.size("vocab_size")?;
        let pad = config.token_id("pad_token_id")?.unwrap_or(0);
        let eos = config.token_id("eos_token_id")?.unwrap_or(1);
        let special = Seq2SeqTokens {
            pad,
            eos,
            decoder_start: config
                .token_id("decoder_start_token_id")?
                .unwrap_or(if family.style == Seq2SeqStyle::Bart { eos } else { pad }),
            forced_bos: config.token_id("forced_bos_token_id")?,
            forced_eos: config.token_id("forced_eos_token_id")?,
        };
        let known = [special.pad, special.eos, special.decoder_start];
        let forced = [special.forced_bos, special.forced_eos].into_iter().flatten();
        if known.into_iter().chain(forced).any(|token| token as usize >= vocabulary) {
            return Err(format!("has special tokens beyond its `vocab_size` = {vocabulary}"));
        }
        let tied = config.bool_or("tie_word_embeddings", true)?;
        match family.style {
            // Since transformers 5 a key says whether the output is scaled, which tied ones are;
            // the other key then always says that it is tied. mT5 never ties it.
            Seq2SeqStyle::T5 => {
                let tied =
                    config.bool_or("scale_decoder_outputs", tied)? && config.model_type() != "mt5";
                Self::t5(config, width, vocabulary, tied, special)
            }
            style => Self::bart(config, style, width, vocabulary, tied, special),
        }
    }

    fn t5(
        config: ConfigReader,
        width: usize,
        vocabulary: usize,
        tied: bool,
        special: Seq2SeqTokens,
    ) -> Result<Self, String> {
        let projection =
            config.get("feed_forward_proj").and_then(Value::as_str).unwrap_or("relu").to_owned();
        let (activation, gated) = match projection.as_str() {
            "relu" => (Activation::Relu, false),
            "gelu" => (Activation::Gelu, false),
            "gelu_new" => (Activation::GeluNew, false),
            "silu" => (Activation::Silu, false),
            "gated-gelu" => (Activation::GeluNew, true),
            "gated-silu" => (Activation::Silu, true),
            "gated-relu" => (Activation::Relu, true),
            other => {
                return Err(format!(
                    "has `feed_forward_proj` = \"{other}\"; known are relu, gelu, gelu_new, silu, \
                     gated-gelu, gated-silu and gated-relu"
                ));
            }
        };
        let layers = config.layers("num_layers")?;
        let stack = StackShape {
            layers,
            heads: config.size("num_heads")?,
            head_dim: config.size("d_kv")?,
            inner: config.size("d_ff")?,
        };
        let decoder_layers = if config.get("num_decoder_layers").is_some() {
            config.layers("num_decoder_layers")?
        } else {
            layers
        };
        let dropout = config.fraction_or("dropout_rate", 0.1)?;
        let buckets = config.size_or("relative_attention_num_buckets", 32)?;
        if buckets < 4 || !buckets.is_multiple_of(2) {
            return Err(format!(
                "has `relative_attention_num_buckets` = {buckets}, which must be an even number \
                 from 4 on"
            ));
        }
        let max_distance = config.size_or("relative_attention_max_distance", 128)?;
        if max_distance <= buckets / 2 {
            return Err(format!(
                "has `relative_attention_max_distance` = {max_distance}, which is not above half \
                 its {buckets} buckets"
            ));
        }
        Ok(Self {
            width,
            encoder: stack,
            decoder: StackShape { layers: decoder_layers, ..stack },
            activation,
            gated,
            dropout,
            attention_dropout: dropout,
            activation_dropout: dropout,
            vocabulary,
            positions: None,
            relative: RelativePositions { buckets, max_distance },
            epsilon: config.fraction_or("layer_norm_epsilon", 1e-6)?,
            scales_embeddings: false,
            tied,
            special,
        })
    }

    fn bart(
        config: ConfigReader,
        style: Seq2SeqStyle,
        width: usize,
        vocabulary: usize,
        tied: bool,
        special: Seq2SeqTokens,
    ) -> Result<Self, String> {
        for key in ["normalize_before", "add_final_layer_norm", "normalize_embedding"] {
            let usual = key == "normalize_embedding" && style == Seq2SeqStyle::Bart;
            config.only(key, &[usual.into()])?;
        }
        config.only("share_encoder_decoder_embeddings", &[true.into()])?;
        if !tied {
            return Err(
                "has an output embedding that is not tied, which is not supported".to_owned()
            );
        }
        let stack = |part: &str| -> Result<StackShape, String> {
            let heads_key = format!("{part}_attention_heads");
            Ok(StackShape {
                layers: config.layers(&format!("{part}_layers"))?,
                heads: config.size(&heads_key)?,
                head_dim: config.head_dim("d_model", &heads_key)?,
                inner: config.size(&format!("{part}_ffn_dim"))?,
            })
        };
        Ok(Self {
            width,
            encoder: stack("encoder")?,
            decoder: stack("decoder")?,
            activation: config.activation_or(
                "activation_function",
                if style == Seq2SeqStyle::Marian { Activation::Silu } else { Activation::Gelu },
            )?,
            gated: false,
            dropout: config.fraction_or("dropout", 0.1)?,
            attention_dropout: config.fraction_or("attention_dropout", 0.0)?,
            activation_dropout: config.fraction_or("activation_dropout", 0.0)?,
            vocabulary,
            positions: Some(config.size(POSITIONS)?),
            relative: RelativePositions { buckets: 32, max_distance: 128 },
            epsilon: 1e-5,
            scales_embeddings: config.bool_or("scale_embedding", false)?,
            tied,
            special,
        })
    }
}

fn family(name: &str) -> Result<&'static Seq2SeqFamily, String> {
    SEQ2SEQ.iter().find(|family| family.model_type == name).ok_or_else(|| {
        let known: Vec<String> =
            SEQ2SEQ.iter().map(|family| format!("`{}`", family.model_type)).collect();
        let has = if name.is_empty() {
            "has no `model_type`".to_owned()
        } else {
            format!("has `model_type` = \"{name}\"")
        };
        format!("{has}; models that write a text for a text are {}", known.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_written_with_few_beams_and_end() {
        let read = |key: &str, value: u32| {
            let mut config = json!({
                "model_type": "t5", "vocab_size": 9, "d_model": 4, "d_kv": 2, "d_ff": 8,
                "num_layers": 1, "num_heads": 2, "pad_token_id": 0, "eos_token_id": 1,
                "decoder_start_token_id": 0,
            });
            config[key] = value.into();
            let Value::Object(config) = config else { unreachable!() };
            Seq2SeqConfig::read(config).map(|config| config.writing)
        };
        assert_eq!(read("num_beams", MOST_BEAMS).unwrap().num_beams, MOST_BEAMS as usize);
        let refused = read("num_beams", 10_000_000).unwrap_err();
        assert_eq!(refused, "has `num_beams` = 10000000; at most 64 are supported");
        let writing = read("max_length", u32::MAX).unwrap();
        assert_eq!(writing.max_new_tokens, MOST_NEW_TOKENS as usize);
    }
}
