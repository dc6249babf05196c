//! Writes texts with an encoder and a decoder: greedily, or by beam search, as transformers'
//! `generate` does.

use burn::tensor::Device;

use super::TrainerError;
use super::batch::Batch;
use super::encoder_decoder::{Decoding, EncoderDecoder, Seq2SeqConfig};
use super::floats::{as_f32, real};
use super::layers::ForwardContext;
use super::metrics::{argmax, log_softmax};
use super::parameters::host;
use super::writing::TextGeneration;

/// The score of what is not written.
const NEVER: f32 = -1e9;

/// Texts written for texts, as token ids without the start, the end included where there is one.
pub(super) fn write(
    model: &EncoderDecoder,
    of_model: &Seq2SeqConfig,
    context: &ForwardContext,
    source: &Batch,
    config: &TextGeneration,
) -> Result<Vec<Vec<u32>>, TrainerError> {
    // Texts have as many positions.
    let most = config.max_new_tokens.min(of_model.max_tokens());
    let config = &TextGeneration { max_new_tokens: most, ..*config };
    let writer = Writer { model, of_model, context, config };
    if config.num_beams <= 1 { writer.greedy(source) } else { writer.beam_search(source) }
}

struct Writer<'a> {
    model: &'a EncoderDecoder,
    of_model: &'a Seq2SeqConfig,
    context: &'a ForwardContext<'a>,
    config: &'a TextGeneration,
}

impl Writer<'_> {
    fn device(&self) -> &Device {
        self.context.device
    }

    /// The scores of the next token of each row: what is `-inf` is not written.
    fn step(
        &self,
        decoding: &mut Decoding,
        rows: &[Vec<u32>],
        as_probabilities: bool,
    ) -> Result<Vec<Vec<f32>>, TrainerError> {
        let latest = |row: &Vec<u32>| {
            row.last().copied().unwrap_or(self.of_model.shape.special.decoder_start)
        };
        let tokens: Vec<u32> = rows.iter().map(latest).collect();
        let logits = host(self.model.step(self.context, &tokens, decoding))?;
        let vocabulary = logits.len() / rows.len().max(1);
        let scores = logits.chunks(vocabulary).zip(rows).map(|(logits, row)| {
            let mut scores = match as_probabilities {
                true => log_softmax(logits).into_iter().map(as_f32).collect(),
                false => logits.to_vec(),
            };
            self.restrict(&mut scores, row);
            scores
        });
        Ok(scores.collect())
    }

    /// Takes from the scores of the token after `row` what must not be written there.
    fn restrict(&self, scores: &mut [f32], row: &[u32]) {
        let only = |scores: &mut [f32], token: u32| {
            for (other, score) in (0..).zip(scores) {
                *score = if other == token { 0.0 } else { f32::NEG_INFINITY };
            }
        };
        // NaN is greater than all numbers to `argmax`.
        scores.iter_mut().filter(|score| score.is_nan()).for_each(|nan| *nan = f32::NEG_INFINITY);
        if self.config.no_repeat_ngram_size > 0 {
            self.ban_repeats(scores, row);
        }
        for token in &self.of_model.suppressed {
            if let Some(score) = scores.get_mut(*token as usize) {
                *score = f32::NEG_INFINITY;
            }
        }
        if row.len() < self.config.min_new_tokens
            && let Some(score) = scores.get_mut(self.of_model.shape.special.eos as usize)
        {
            *score = f32::NEG_INFINITY;
        }
        if let Some(token) = self.of_model.shape.special.forced_bos.filter(|_| row.is_empty()) {
            only(scores, token);
        }
        if let Some(token) = self.of_model.shape.special.forced_eos
            && row.len() + 1 == self.config.max_new_tokens
        {
            only(scores, token);
        }
    }

    /// Takes from the scores of the token after `row` those that would end a sequence of
    /// `no_repeat_ngram_size` tokens that is there already; the start counts as a token.
    fn ban_repeats(&self, scores: &mut [f32], row: &[u32]) {
        let size = self.config.no_repeat_ngram_size;
        let start = std::iter::once(self.of_model.shape.special.decoder_start);
        let all: Vec<u32> = start.chain(row.iter().copied()).collect();
        let Some(first) = (all.len() + 1).checked_sub(size) else { return };
        for sequence in all.windows(size) {
            if let Some((next, before)) = sequence.split_last()
                && before == &all[first..]
                && let Some(score) = scores.get_mut(*next as usize)
            {
                *score = f32::NEG_INFINITY;
            }
        }
    }

    /// The likeliest token each time.
    fn greedy(&self, source: &Batch) -> Result<Vec<Vec<u32>>, TrainerError> {
        let texts = source.lengths().len();
        let mut written = vec![Vec::new(); texts];
        let mut decoding = self.model.begin_decoding(self.context, source, 1);
        let mut open: Vec<usize> = (0..texts).collect();
        for _ in 0..self.config.max_new_tokens {
            let rows: Vec<Vec<u32>> = open.iter().map(|text| written[*text].clone()).collect();
            let scores = self.step(&mut decoding, &rows, false)?;
            for (text, scores) in open.iter().zip(&scores) {
                written[*text].push(u32::try_from(argmax(scores)).expect("a vocabulary"));
            }
            let is_open =
                |text: &usize| written[*text].last() != Some(&self.of_model.shape.special.eos);
            let kept: Vec<usize> = (0..open.len()).filter(|place| is_open(&open[*place])).collect();
            if kept.is_empty() {
                break;
            }
            if kept.len() < open.len() {
                decoding.select(&kept, self.device());
                open = kept.iter().map(|place| open[*place]).collect();
            }
        }
        Ok(written)
    }

    /// Beam search (`_beam_search` in transformers' `generation/utils.py`).
    fn beam_search(&self, source: &Batch) -> Result<Vec<Vec<u32>>, TrainerError> {
        let (texts, beams) = (source.lengths().len(), self.config.num_beams);
        let mut decoding = self.model.begin_decoding(self.context, source, beams);
        let mut searches = vec![Beams::new(beams); texts];
        for _ in 0..self.config.max_new_tokens {
            let rows: Vec<Vec<u32>> = searches
                .iter()
                .flat_map(|beams| beams.running.iter().map(|one| one.0.clone()))
                .collect();
            let scores = self.step(&mut decoding, &rows, true)?;
            let mut order = Vec::with_capacity(rows.len());
            for (text, (search, scores)) in
                searches.iter_mut().zip(scores.chunks(beams)).enumerate()
            {
                let from = search.advance(scores, self.of_model.shape.special.eos, self.config);
                order.extend(from.into_iter().map(|beam| text * beams + beam));
            }
            if searches.iter().all(|search| search.is_over) {
                break;
            }
            decoding.reorder(&order, self.device());
        }
        Ok(searches.into_iter().map(Beams::best).collect())
    }
}

/// A text so far, and the sum of its tokens' log probabilities.
type Candidate = (Vec<u32>, f32);

/// The beams of one text.
#[derive(Debug, Clone)]
struct Beams {
    /// Those without an end so far, the best first.
    running: Vec<Candidate>,
    /// Those that ended, with their scores divided by a power of their lengths, the best first.
    finished: Vec<Candidate>,
    /// Whether no running beam may still become better than those that ended.
    is_decided: bool,
    /// Whether the search has ended.
    is_over: bool,
    beams: usize,
}

impl Beams {
    fn new(beams: usize) -> Self {
        // All but the first would write the same.
        let score = |beam: usize| if beam == 0 { 0.0 } else { NEVER };
        Self {
            running: (0..beams).map(|beam| (Vec::new(), score(beam))).collect(),
            finished: Vec::new(),
            is_decided: false,
            is_over: false,
            beams,
        }
    }

    /// Takes one more token, with the scores of each beam's next; returns which beam each of
    /// the next ones continues.
    fn advance(&mut self, scores: &[Vec<f32>], eos: u32, config: &TextGeneration) -> Vec<usize> {
        let mut best: Vec<(f32, usize, u32)> = Vec::new();
        let kept = 2 * self.beams;
        for (beam, scores) in scores.iter().enumerate() {
            let before = self.running[beam].1;
            for (token, score) in (0..).zip(scores) {
                let sum = before + score;
                if best.len() < kept || best.last().is_some_and(|last| sum > last.0) {
                    let place = best.partition_point(|one| one.0 >= sum);
                    best.insert(place, (sum, beam, token));
                    best.truncate(kept);
                }
            }
        }
        let length = self.running[0].0.len() + 1;
        let is_last = length == config.max_new_tokens;
        let ends = |token: u32| token == eos || is_last;
        let with = |beam: usize, token: u32| {
            let mut tokens = self.running[beam].0.clone();
            tokens.push(token);
            tokens
        };
        let is_full = config.early_stopping && self.finished.len() == self.beams;
        if !self.is_decided && !is_full {
            let divisor = as_f32(real(length).powf(config.length_penalty));
            let ended = best.iter().take(self.beams).filter(|one| ends(one.2));
            let ended: Vec<Candidate> =
                ended.map(|(sum, beam, token)| (with(*beam, *token), sum / divisor)).collect();
            for one in ended {
                let place = self.finished.partition_point(|other| other.1 >= one.1);
                self.finished.insert(place, one);
            }
            self.finished.truncate(self.beams);
        }
        self.is_over |= best.iter().all(|one| ends(one.2));
        let mut next: Vec<(f32, usize, u32)> = best
            .iter()
            .map(|(sum, beam, token)| {
                (if ends(*token) { sum + NEVER } else { *sum }, *beam, *token)
            })
            .collect();
        next.sort_by(|one, other| other.0.total_cmp(&one.0));
        next.truncate(self.beams);
        let running: Vec<Candidate> =
            next.iter().map(|(sum, beam, token)| (with(*beam, *token), *sum)).collect();
        self.running = running;
        // The next check divides by the length of what is written by then.
        let possible = self.running[0].1 / as_f32(real(length).powf(config.length_penalty));
        let worst = if self.finished.len() == self.beams {
            self.finished.last().map_or(NEVER, |one| one.1)
        } else {
            NEVER
        };
        self.is_decided |= possible <= worst;
        let is_full = config.early_stopping && self.finished.len() == self.beams;
        self.is_over |= self.is_decided || is_full;
        next.iter().map(|(_, beam, _)| *beam).collect()
    }

    /// The best text, finished if any is.
    fn best(self) -> Vec<u32> {
        self.finished.into_iter().chain(self.running).next().map_or_else(Vec::new, |one| one.0)
    }
}
