//! How a model with an encoder and a decoder writes texts.

/// How texts are written.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct TextGeneration {
    /// Most tokens of a text, its end included.
    pub(super) max_new_tokens: usize,
    /// Fewest, the end not included.
    pub(super) min_new_tokens: usize,
    /// Beams; 1: the likeliest token each time.
    pub(super) num_beams: usize,
    /// The exponent of the length that the scores of beams are divided by.
    pub(super) length_penalty: f64,
    /// The length of sequences of tokens that are written once at most; 0: none are.
    pub(super) no_repeat_ngram_size: usize,
    /// Whether a text is done as soon as it has as many finished beams as beams.
    pub(super) early_stopping: bool,
}
