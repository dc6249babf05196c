//! The arguments of a model and its tokenizer: a pretrained one, or the shape of one trained from
//! scratch.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The model and its tokenizer: pretrained, or trained from scratch in this shape.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelArguments {
    /// The pretrained model to start from; it defines the shape and the tokenizer, and the fields
    /// for them here are `None`.
    #[serde(default)]
    pub pretrained: Option<String>,
    /// The architecture of a model trained from scratch, one of [`ENCODER_TYPES`],
    /// [`DECODER_TYPES`] or [`SEQ2SEQ_TYPES`]; `None`: the task's default.
    #[serde(default)]
    pub model_type: Option<String>,
    /// Width of the model; a multiple of `num_heads`.
    pub hidden_size: Option<usize>,
    /// Number of layers.
    pub num_layers: Option<usize>,
    /// Attention heads per layer.
    pub num_heads: Option<usize>,
    /// Key-value heads, each shared by an equal number of query heads; `None`: `num_heads`.
    #[serde(default)]
    pub num_kv_heads: Option<usize>,
    /// Width of the feed-forward part; `None`: twice `hidden_size` in a ModernBERT, four times in
    /// others.
    pub intermediate_size: Option<usize>,
    /// Dropout after embeddings, attention and feed-forward, in [0, 1); `None`: that of the
    /// pretrained model.
    pub dropout: Option<f64>,
    /// Dropout of attention probabilities, in [0, 1); `None`: that of the pretrained model.
    pub attention_dropout: Option<f64>,
    /// Dropout before the classifier, in [0, 1); `None`: that of the pretrained model, or
    /// `dropout`.
    #[serde(default)]
    pub classifier_dropout: Option<f64>,
    /// The activation of the feed-forward part.
    pub activation: Option<Activation>,
    /// How token vectors become one text vector; only for ModernBERT and the trainer's own
    /// architecture.
    pub pooling: Option<Pooling>,
    /// Whether the output reuses the token embeddings; only for language models.
    #[serde(default)]
    pub tie_word_embeddings: Option<bool>,
    /// The kind of tokenizer trained on the training texts.
    pub tokenizer: Option<TokenizerKind>,
    /// Largest vocabulary, special tokens included.
    pub vocab_size: Option<usize>,
    /// Whether texts are lowercased first.
    pub lowercase: Option<bool>,
    /// Longest row in tokens, special ones included; `None`: the data's `max_length`.
    pub max_length: Option<usize>,
}

/// The shape of a model trained from scratch, with every default filled in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FromScratch {
    /// Width of the model.
    pub hidden_size: usize,
    /// Number of layers.
    pub num_layers: usize,
    /// Attention heads per layer.
    pub num_heads: usize,
    /// Key-value heads.
    pub num_kv_heads: usize,
    /// Width of the feed-forward part.
    pub intermediate_size: usize,
    /// The activation of the feed-forward part.
    pub activation: Activation,
    /// How token vectors become one text vector.
    pub pooling: Pooling,
}

/// Architectures of encoders that can be trained, the default first. As the default, ModernBERT
/// (with the mean of a text's tokens, and no dropout in attention) finds .73, .81, .81, .79 and .80
/// in the quickstart with seeds 0 to 4, where the trainer's own finds .78, .80, .81, .82 and .81.
pub const ENCODER_TYPES: [&str; 9] = [
    "hpsearch-encoder",
    MODERN_BERT,
    "bert",
    "roberta",
    "xlm-roberta",
    "distilbert",
    "electra",
    "albert",
    "deberta-v2",
];

/// The encoder with rotary embeddings and a gated feed-forward part.
pub(super) const MODERN_BERT: &str = "modernbert";

/// Architectures of decoders that can be trained, the default first.
pub const DECODER_TYPES: [&str; 8] =
    ["gpt2", "llama", "qwen2", "mistral", "qwen3", GEMMA, PHI, "phi3"];

/// Architectures of encoders with decoders that can be trained, the default first: its norms come
/// before its sublayers, so that it learns without a long warm-up.
pub const SEQ2SEQ_TYPES: [&str; 4] = ["t5", "mt5", "bart", "marian"];

/// The files that a pretrained model may have in place of `tokenizer.json`: what its architecture
/// had before it. None where only that file is read.
#[must_use]
pub fn vocabulary_files(model_type: &str) -> &'static [&'static str] {
    match model_type {
        "t5" | "mt5" | "albert" => &["spiece.model"],
        "xlm-roberta" => &["sentencepiece.bpe.model"],
        "deberta-v2" => &["spm.model"],
        "marian" => &["source.spm", "target.spm", "vocab.json"],
        "bert" | "distilbert" | "electra" => &["vocab.txt"],
        "gpt2" | "roberta" | "bart" => &["vocab.json", "merges.txt"],
        _ => &[],
    }
}

/// Whether an architecture has T5's relative positions, and one rate of dropout for all of it.
pub(super) fn is_t5(model_type: &str) -> bool {
    matches!(model_type, "t5" | "mt5")
}

/// The decoder with GELU's approximation in its gated feed-forward part.
pub(super) const GEMMA: &str = "gemma";

/// The decoder whose positions rotate half of each head, without a gate.
pub(super) const PHI: &str = "phi";

/// Architectures whose feed-forward part has a gate, and whose keys and values may have fewer
/// heads.
pub(super) const GATED_TYPES: [&str; 6] = ["llama", "qwen2", "mistral", "qwen3", GEMMA, "phi3"];

/// Architectures that can classify by the mean of a text's tokens.
pub(super) const MEAN_POOLING_TYPES: [&str; 2] = [ENCODER_TYPES[0], MODERN_BERT];

/// The argument that names a pretrained model.
pub const PRETRAINED: &str = "model.pretrained";

/// Arguments of the model that apply to a pretrained one, too.
pub(super) const BESIDE_PRETRAINED: [&str; 5] = [
    PRETRAINED,
    "model.dropout",
    "model.attention_dropout",
    "model.classifier_dropout",
    "model.max_length",
];

/// Dropout of a model trained from scratch.
pub(super) const DROPOUT: f64 = 0.1;

impl ModelArguments {
    /// The shape of a model trained from scratch.
    #[must_use]
    pub fn from_scratch(&self) -> FromScratch {
        let hidden_size = self.hidden_size.unwrap_or(128);
        let num_heads = self.num_heads.unwrap_or(4);
        FromScratch {
            hidden_size,
            num_heads,
            num_layers: self.num_layers.unwrap_or(2),
            num_kv_heads: self.num_kv_heads.unwrap_or(num_heads),
            // A gate is a third projection: at half the width, the three cost less than the two
            // without a gate.
            intermediate_size: self.intermediate_size.unwrap_or(
                if self.model_type.as_deref() == Some(MODERN_BERT) { 2 } else { 4 } * hidden_size,
            ),
            activation: self.activation.unwrap_or(Activation::Gelu),
            pooling: self.pooling.unwrap_or(Pooling::Mean),
        }
    }

    /// Dropout of a model trained from scratch.
    #[must_use]
    pub fn dropout(&self) -> f64 {
        self.dropout.unwrap_or(DROPOUT)
    }

    /// Attention dropout of a model trained from scratch.
    #[must_use]
    pub fn attention_dropout(&self) -> f64 {
        self.attention_dropout.unwrap_or(DROPOUT)
    }
}

/// An activation function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Activation {
    /// The exact Gaussian error linear unit.
    Gelu,
    /// Its approximation by a hyperbolic tangent, as in GPT-2.
    GeluNew,
    /// The rectified linear unit.
    Relu,
    /// The sigmoid linear unit, as in Llama.
    Silu,
}

/// How the vectors of a text's tokens are pooled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Pooling {
    /// The vector of the first token, `[CLS]`.
    Cls,
    /// The mean over the tokens that are not padding.
    Mean,
}

/// How texts are tokenised.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TokenizerKind {
    /// BERT's subwords.
    WordPiece,
    /// Byte-pair encoding: of characters within words to classify, of bytes as in GPT-2 to model
    /// language.
    Bpe,
    /// Whole words and punctuation marks.
    Word,
    /// Single characters.
    Chars,
    /// Single bytes of UTF-8.
    Bytes,
}

impl TokenizerKind {
    /// Its name in `model.tokenizer`.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::WordPiece => "wordpiece",
            Self::Bpe => "bpe",
            Self::Word => "word",
            Self::Chars => "chars",
            Self::Bytes => "bytes",
        }
    }
}

/// Vocabulary of all bytes and the end-of-text token.
pub(super) const BYTE_ENTRIES: usize = 257;

/// Where the tokenizer comes from. Prepared data depends on it: trials with the same source share a
/// cache entry.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TokenizerSource {
    /// It is trained on the training texts.
    Trained(TokenizerArguments),
    /// It comes with a pretrained model.
    Pretrained(PathBuf),
}

/// The tokenizer to train on the training texts.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokenizerArguments {
    /// The kind of tokenizer.
    pub kind: TokenizerKind,
    /// Largest vocabulary, special tokens included.
    pub vocab_size: usize,
    /// Whether texts are lowercased first.
    pub lowercase: bool,
}
