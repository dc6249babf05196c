//! Text generation: continues a prompt token by token.

use std::path::Path;

use super::checkpoint::{SavedModel, unusable_tokenizer};
use super::language_modeling::LanguageModel;
use super::layers::{ForwardContext, KvCache};
use super::lm_tokenizer;
use super::parameters::{Values, host};
use super::rng::{Rng, key};
use super::tokenizer_file::catch_panics;
use super::{TrainerError, device};
use burn::tensor::Device;

/// How tokens are sampled.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GenerationConfig {
    /// Maximum number of tokens to generate.
    pub max_new_tokens: usize,
    /// Divisor of logits; 0: greedy decoding.
    pub temperature: f64,
    /// Sample from this many most likely tokens only; 0: from all.
    pub top_k: usize,
    /// Nucleus sampling: sample from the most likely tokens that together have this probability
    /// only (Holtzman et al. 2020); 1: from all.
    pub top_p: f64,
    /// Seed of the samples.
    pub seed: u64,
}

/// Counts of a generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GenerationSummary {
    /// Generated tokens.
    pub tokens: usize,
    /// Unknown tokens of the prompt.
    pub unknown: usize,
}

/// Continues `prompt` and passes the text to `on_text` as it is generated, until the model ends it
/// or there are enough tokens. `directory` is a checkpoint or an export: `model.safetensors`,
/// `config.json` and `tokenizer.json`.
///
/// # Errors
/// A missing or damaged file, a model that does not generate text, an unusable device.
pub fn generate(
    directory: &Path,
    prompt: &str,
    config: &GenerationConfig,
    device: &str,
    on_text: &mut dyn FnMut(&str),
) -> Result<GenerationSummary, TrainerError> {
    let device = device::open(device)?;
    let otherwise = "it is not a language model and cannot continue a text: use `hpsearch predict`";
    let (model, values, mut tokenizer) =
        SavedModel::load_as::<LanguageModel>(directory, &device, otherwise)?;
    let unusable = unusable_tokenizer(directory);
    tokenizer.with_truncation(None).map_err(unusable)?;
    let prompt = catch_panics(|| Ok(tokenizer.encode_fast(prompt, true)?.get_ids().to_vec()))
        .map_err(unusable)?;
    let unknown = lm_tokenizer::unknown_token_id(&tokenizer);
    let mut summary = GenerationSummary {
        tokens: 0,
        unknown: prompt.iter().filter(|token| Some(**token) == unknown).count(),
    };
    let mut generator = TokenGenerator::new(&model, &values, &device, prompt);
    let mut pieces = tokenizer.decode_stream(true);
    for number in 0..config.max_new_tokens {
        let mut logits = generator.logits()?;
        // The unknown token is never generated.
        if let Some(logit) = unknown.and_then(|unknown| logits.get_mut(unknown as usize)) {
            *logit = f32::NEG_INFINITY;
        }
        let token = sample_token(&logits, config, number as u64);
        if token == model.architecture.shape.eos_token {
            break;
        }
        summary.tokens += 1;
        generator.push(token);
        // `None` while a character's bytes are incomplete.
        if let Some(piece) = catch_panics(|| pieces.step(token)).map_err(unusable)? {
            on_text(&piece);
        }
    }
    Ok(summary)
}

/// A generation in progress: the context window and its KV cache.
pub(super) struct TokenGenerator<'a> {
    model: &'a LanguageModel,
    values: &'a Values,
    device: &'a Device,
    /// The latest tokens, up to the context length.
    window: Vec<u32>,
    /// The keys and values of the first tokens of the window.
    cache: KvCache,
}

impl<'a> TokenGenerator<'a> {
    /// Starts with `tokens`, or with the start token if there are none.
    pub(super) fn new(
        model: &'a LanguageModel,
        values: &'a Values,
        device: &'a Device,
        tokens: Vec<u32>,
    ) -> Self {
        let (shape, mut tokens) = (&model.architecture.shape, tokens);
        if tokens.is_empty() {
            tokens.push(shape.bos_token);
        }
        let window = tokens.split_off(tokens.len().saturating_sub(shape.positions));
        Self { model, values, device, window, cache: KvCache::default() }
    }

    /// The logits of the next token.
    pub(super) fn logits(&mut self) -> Result<Vec<f32>, TrainerError> {
        let context = ForwardContext::evaluation(self.values, self.device);
        let new = &self.window[self.cache.tokens()..];
        host(self.model.decoder.extend(&context, new, &mut self.cache))
    }

    /// Appends a token. A full window slides by an eighth: position embeddings are learnt, so the
    /// cache has to be recomputed, and sliding further than necessary makes that rare.
    pub(super) fn push(&mut self, token: u32) {
        let context_length = self.model.architecture.shape.positions;
        if self.window.len() >= context_length {
            self.window.drain(..context_length.div_ceil(8));
            self.cache = KvCache::default();
        }
        self.window.push(token);
    }

    /// The context window.
    #[cfg(test)]
    pub(super) fn window(&self) -> &[u32] {
        &self.window
    }
}

/// Samples token `number`: a function of logits, configuration and seed.
fn sample_token(logits: &[f32], config: &GenerationConfig, number: u64) -> u32 {
    let mut tokens: Vec<(f64, u32)> =
        logits.iter().map(|logit| f64::from(*logit)).zip(0..).collect();
    // By descending logit, then ascending id.
    tokens.sort_by(|(one, _), (other, _)| other.total_cmp(one));
    let (top, first) = tokens[0];
    if config.temperature == 0.0 {
        return first;
    }
    if config.top_k > 0 {
        tokens.truncate(config.top_k);
    }
    let mut total = 0.0;
    for (weight, _) in &mut tokens {
        *weight = ((*weight - top) / config.temperature).exp();
        total += *weight;
    }
    if config.top_p < 1.0 {
        let mut reached = 0.0;
        let needed = tokens.iter().take_while(|(weight, _)| {
            let more = reached < config.top_p * total;
            reached += weight;
            more
        });
        let needed = needed.count().max(1);
        tokens.truncate(needed);
        total = tokens.iter().map(|(weight, _)| weight).sum();
    }
    let mut left = Rng::new(key(config.seed, "generate", &[number])).uniform() * total;
    for (weight, token) in &tokens {
        left -= weight;
        if left <= 0.0 {
            return *token;
        }
    }
    // Rounding may leave a remainder.
    tokens.iter().rev().find(|(weight, _)| *weight > 0.0).map_or(first, |(_, token)| *token)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOGITS: [f32; 5] = [1.0, 3.0, 2.0, f32::NEG_INFINITY, 0.0];

    fn counts_of(config: GenerationConfig) -> Vec<usize> {
        let mut counts = vec![0; LOGITS.len()];
        (0..4_000).for_each(|number| counts[sample_token(&LOGITS, &config, number) as usize] += 1);
        counts
    }

    const PLAIN: GenerationConfig =
        GenerationConfig { max_new_tokens: 0, temperature: 1.0, top_k: 0, top_p: 1.0, seed: 3 };

    #[test]
    fn tokens_are_sampled_by_their_probabilities() {
        let total: f64 = LOGITS.iter().map(|logit| f64::from(*logit).exp()).sum();
        for (count, logit) in counts_of(PLAIN).into_iter().zip(LOGITS) {
            let expected = f64::from(logit).exp() / total;
            assert!((count as f64 / 4_000.0 - expected).abs() < 0.03, "{count} {expected}");
        }
        assert_eq!(counts_of(PLAIN), counts_of(PLAIN));
        assert_ne!(counts_of(PLAIN), counts_of(GenerationConfig { seed: 4, ..PLAIN }));
    }

    #[test]
    fn temperature_0_is_greedy() {
        assert_eq!(counts_of(GenerationConfig { temperature: 0.0, ..PLAIN }), [0, 4_000, 0, 0, 0]);
        let cold = counts_of(GenerationConfig { temperature: 0.1, ..PLAIN });
        assert!(cold[1] > 3_990, "{cold:?}");
    }

    #[test]
    fn top_k_and_top_p_exclude_unlikely_tokens() {
        let kept =
            |config| counts_of(config).into_iter().map(|count| count > 0).collect::<Vec<_>>();
        assert_eq!(kept(GenerationConfig { top_k: 2, ..PLAIN }), [false, true, true, false, false]);
        // Probabilities: .644 .237 .087 .032.
        for (top_k, top_p, expected) in [
            (0, 0.6, [false, true, false, false, false]),
            (0, 0.7, [false, true, true, false, false]),
            (0, 0.95, [true, true, true, false, false]),
            (1, 0.95, [false, true, false, false, false]),
        ] {
            assert_eq!(kept(GenerationConfig { top_k, top_p, ..PLAIN }), expected);
        }
    }
}
