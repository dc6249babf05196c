//! The arguments of a model trained from scratch, and of the tokenizer trained with it.

use serde::{Deserialize, Serialize};

/// The shape of the model and its tokenizer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelArguments {
    /// Width of the model; a multiple of `num_heads`.
    pub hidden_size: usize,
    /// Number of layers.
    pub num_layers: usize,
    /// Attention heads per layer.
    pub num_heads: usize,
    /// Width of the feed-forward part; `None`: four times `hidden_size`.
    pub intermediate_size: Option<usize>,
    /// Share of activations dropped after embeddings, attention and feed-forward, in [0, 1).
    pub dropout: f64,
    /// Share of attention probabilities dropped, in [0, 1).
    pub attention_dropout: f64,
    /// The feed-forward part's nonlinearity.
    pub activation: Activation,
    /// How token vectors become one text vector; only of classifiers.
    pub pooling: Option<Pooling>,
    /// Whether the output reuses the token embeddings; only of language models.
    #[serde(default)]
    pub tie_word_embeddings: Option<bool>,
    /// The kind of tokenizer trained on the training texts.
    pub tokenizer: TokenizerKind,
    /// Most entries the tokenizer may have, special tokens included.
    pub vocab_size: usize,
    /// Whether texts are lowercased first.
    pub lowercase: bool,
    /// Longest row in tokens, `[CLS]` and `[SEP]` included; `None`: the data's `max_length`.
    pub max_length: Option<usize>,
}

impl ModelArguments {
    /// Width of the feed-forward part, the default filled in.
    #[must_use]
    pub fn intermediate_size(&self) -> usize {
        self.intermediate_size.unwrap_or(4 * self.hidden_size)
    }
}

/// A nonlinearity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Activation {
    /// The exact Gaussian error linear unit.
    Gelu,
    /// The rectified linear unit.
    Relu,
}

/// How the vectors of a text's tokens become one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Pooling {
    /// The vector of the first token, `[CLS]`.
    Cls,
    /// The mean over the tokens that are not padding.
    Mean,
}

/// How texts are cut into tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TokenizerKind {
    /// BERT's subwords.
    WordPiece,
    /// Byte-pair encoding: of letters within words to classify, of bytes as in GPT-2 to model language.
    Bpe,
    /// Whole words and punctuation marks.
    Word,
    /// Single characters.
    Chars,
    /// Single bytes of UTF-8.
    Bytes,
}

impl TokenizerKind {
    /// The word in `model.tokenizer`.
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

/// Entries of a tokenizer that knows every byte and the end of a text.
pub(super) const BYTE_ENTRIES: usize = 257;

/// What the tokenizer depends on, and with it the prepared data: trials that agree here share one cache entry.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokenizerArguments {
    /// How texts are cut.
    pub kind: TokenizerKind,
    /// Most entries, special tokens included.
    pub vocab_size: usize,
    /// Whether texts are lowercased first.
    pub lowercase: bool,
}
