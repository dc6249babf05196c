//! How a model with an encoder and a decoder writes texts when it is used.

use serde::{Deserialize, Serialize};

/// Beams of a text at most: memory grows with them.
pub const MOST_BEAMS: u32 = 64;
/// Tokens of a text at most.
pub const MOST_NEW_TOKENS: u32 = 8_192;

/// Under the names of transformers' `generate`; `None`: as the model's configuration says.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct WritingOptions {
    /// Most tokens of a text, its end included.
    pub max_new_tokens: Option<usize>,
    /// Beams; 1: the likeliest token each time.
    pub num_beams: Option<usize>,
    /// The exponent of the length that the scores of beams are divided by: above 0, longer texts
    /// are preferred.
    pub length_penalty: Option<f64>,
    /// The length of sequences of tokens that are written once at most; 0: none are.
    pub no_repeat_ngram_size: Option<usize>,
}
