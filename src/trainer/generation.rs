//! Lets a language model go on with a text, token by token.

use std::any::Any;
use std::path::Path;

use super::checkpoint::ModelFiles;
use super::dice::{Dice, key};
use super::language_modeling::LanguageModel;
use super::layers::{Cache, Pass};
use super::parameters::{Values, host};
use super::pretrained::check_tokens;
use super::spelling;
use super::tokenizer_file::guarded;
use super::{TrainerError, device, tokenizer_file};
use burn::tensor::Device;

/// How tokens are drawn.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sampling {
    /// Most tokens to add.
    pub max_new_tokens: usize,
    /// What logits are divided by; 0: always the likeliest token.
    pub temperature: f64,
    /// Only so many of the likeliest tokens are drawn from; 0: all.
    pub top_k: usize,
    /// Only the likeliest tokens that together reach this probability are drawn from (Holtzman et al. 2020); 1: all.
    pub top_p: f64,
    /// Seed of the draws.
    pub seed: u64,
}

/// What was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Generated {
    /// Tokens that were added.
    pub tokens: usize,
    /// Characters of the prompt that the model does not know.
    pub unknown: usize,
}

/// Goes on with `prompt` and gives what is added piece by piece to `hear`, until the text ends or there are enough tokens.
/// An exported directory suffices: `model.safetensors`, `config.json` and `tokenizer.json`.
///
/// # Errors
/// A missing or damaged file, a model that writes no text, an unusable device.
pub fn generate(directory: &Path, prompt: &str, sampling: &Sampling, device: &str, hear: &mut dyn FnMut(&str)) -> Result<Generated, TrainerError> {
    let device = device::open(device)?;
    let files = ModelFiles::load(directory, &device)?;
    let model: Box<dyn Any> = files.model;
    let Ok(model) = model.downcast::<LanguageModel>() else {
        return Err(TrainerError::checkpoint(directory, "it is a classifier and writes no text: `hpsearch predict` uses it"));
    };
    let unusable = |error: tokenizers::Error| TrainerError::checkpoint(directory, format!("`tokenizer.json` cannot be used: {error}"));
    let mut tokenizer = tokenizer_file::read(&files.tokenizer).map_err(unusable)?;
    check_tokens(directory, &tokenizer, model.architecture.shape.vocabulary)?;
    // A pretrained model's may cut and fill what it reads.
    tokenizer.with_padding(None);
    tokenizer.with_truncation(None).map_err(unusable)?;
    let prompt = guarded(|| Ok(tokenizer.encode_fast(prompt, true)?.get_ids().to_vec())).map_err(unusable)?;
    let never = spelling::unknown(&tokenizer);
    let mut generated = Generated { tokens: 0, unknown: prompt.iter().filter(|token| Some(**token) == never).count() };
    let mut writer = Writer::new(&model, &files.values, &device, prompt);
    let mut pieces = tokenizer.decode_stream(true);
    for number in 0..sampling.max_new_tokens {
        let mut logits = writer.logits()?;
        // What stands for unknown characters is no text.
        if let Some(logit) = never.and_then(|never| logits.get_mut(never as usize)) {
            *logit = f32::NEG_INFINITY;
        }
        let token = draw(&logits, sampling, number as u64);
        if token == model.architecture.shape.end {
            break;
        }
        generated.tokens += 1;
        writer.push(token);
        // Nothing yet where a character's bytes are still incomplete.
        if let Some(piece) = guarded(|| pieces.step(token)).map_err(unusable)? {
            hear(&piece);
        }
    }
    Ok(generated)
}

/// A text in progress: the window that the model sees, and what it remembers of it.
pub(super) struct Writer<'a> {
    model: &'a LanguageModel,
    values: &'a Values,
    device: &'a Device,
    /// The newest tokens, at most a window of them.
    window: Vec<u32>,
    /// Keys and values of the window's first tokens.
    cache: Cache,
}

impl<'a> Writer<'a> {
    /// Begins with `tokens`; where there are none, with the token that stands before texts.
    pub(super) fn new(model: &'a LanguageModel, values: &'a Values, device: &'a Device, tokens: Vec<u32>) -> Self {
        let mut tokens = tokens;
        if tokens.is_empty() {
            tokens.push(model.architecture.shape.start);
        }
        let window = tokens.split_off(tokens.len().saturating_sub(model.architecture.shape.positions));
        Self { model, values, device, window, cache: Cache::default() }
    }

    /// The logits of the next token.
    pub(super) fn logits(&mut self) -> Result<Vec<f32>, TrainerError> {
        let pass = Pass::inference(self.values, self.device);
        let new = &self.window[self.cache.seen()..];
        host(self.model.decoder.extend(&pass, new, &mut self.cache))
    }

    /// Adds a token. A full window slides by an eighth: positions are learnt, so whatever stays is read again at its new place, and by
    /// sliding further than needed that happens rarely.
    pub(super) fn push(&mut self, token: u32) {
        let longest = self.model.architecture.shape.positions;
        if self.window.len() >= longest {
            self.window.drain(..longest.div_ceil(8));
            self.cache = Cache::default();
        }
        self.window.push(token);
    }

    /// What the model sees.
    #[cfg(test)]
    pub(super) fn window(&self) -> &[u32] {
        &self.window
    }
}

/// The `number`th token, a function of the logits, the settings and their seed.
fn draw(logits: &[f32], sampling: &Sampling, number: u64) -> u32 {
    let mut tokens: Vec<(f64, u32)> = logits.iter().map(|logit| f64::from(*logit)).zip(0..).collect();
    // The likeliest first; of equal ones the first.
    tokens.sort_by(|(one, _), (other, _)| other.total_cmp(one));
    let (top, first) = tokens[0];
    if sampling.temperature == 0.0 {
        return first;
    }
    if sampling.top_k > 0 {
        tokens.truncate(sampling.top_k);
    }
    let mut total = 0.0;
    for (weight, _) in &mut tokens {
        *weight = ((*weight - top) / sampling.temperature).exp();
        total += *weight;
    }
    if sampling.top_p < 1.0 {
        let mut reached = 0.0;
        let needed = tokens.iter().take_while(|(weight, _)| {
            let more = reached < sampling.top_p * total;
            reached += weight;
            more
        });
        let needed = needed.count().max(1);
        tokens.truncate(needed);
        total = tokens.iter().map(|(weight, _)| weight).sum();
    }
    let mut left = Dice::new(key(sampling.seed, "generate", &[number])).uniform() * total;
    for (weight, token) in &tokens {
        left -= weight;
        if left <= 0.0 {
            return *token;
        }
    }
    // Rounding may leave a crumb.
    tokens.iter().rev().find(|(weight, _)| *weight > 0.0).map_or(first, |(_, token)| *token)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOGITS: [f32; 5] = [1.0, 3.0, 2.0, f32::NEG_INFINITY, 0.0];

    fn drawn(sampling: Sampling) -> Vec<usize> {
        let mut counts = vec![0; LOGITS.len()];
        (0..4_000).for_each(|number| counts[draw(&LOGITS, &sampling, number) as usize] += 1);
        counts
    }

    const PLAIN: Sampling = Sampling { max_new_tokens: 0, temperature: 1.0, top_k: 0, top_p: 1.0, seed: 3 };

    #[test]
    fn tokens_are_drawn_by_their_probabilities() {
        let total: f64 = LOGITS.iter().map(|logit| f64::from(*logit).exp()).sum();
        for (count, logit) in drawn(PLAIN).into_iter().zip(LOGITS) {
            let expected = f64::from(logit).exp() / total;
            assert!((count as f64 / 4_000.0 - expected).abs() < 0.03, "{count} {expected}");
        }
        assert_eq!(drawn(PLAIN), drawn(PLAIN));
        assert_ne!(drawn(PLAIN), drawn(Sampling { seed: 4, ..PLAIN }));
    }

    #[test]
    fn no_temperature_takes_the_likeliest() {
        assert_eq!(drawn(Sampling { temperature: 0.0, ..PLAIN }), [0, 4_000, 0, 0, 0]);
        let cold = drawn(Sampling { temperature: 0.1, ..PLAIN });
        assert!(cold[1] > 3_990, "{cold:?}");
    }

    #[test]
    fn top_k_and_top_p_leave_the_unlikely_out() {
        let kept = |sampling| drawn(sampling).into_iter().map(|count| count > 0).collect::<Vec<_>>();
        assert_eq!(kept(Sampling { top_k: 2, ..PLAIN }), [false, true, true, false, false]);
        // Probabilities: .644 .237 .087 .032.
        assert_eq!(kept(Sampling { top_p: 0.6, ..PLAIN }), [false, true, false, false, false]);
        assert_eq!(kept(Sampling { top_p: 0.7, ..PLAIN }), [false, true, true, false, false]);
        assert_eq!(kept(Sampling { top_p: 0.95, ..PLAIN }), [true, true, true, false, false]);
        assert_eq!(kept(Sampling { top_k: 1, top_p: 0.95, ..PLAIN }), [false, true, false, false, false]);
    }
}
