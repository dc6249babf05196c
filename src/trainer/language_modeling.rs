//! The task language-modeling: the next token of a text.

use std::collections::BTreeMap;
use std::ops::Range;

use burn::tensor::{Device, Tensor};
use serde_json::Value;

use super::corpus;
use super::decoder::{Architecture, Decoder, MODEL_TYPE};
use super::dice::{Dice, key};
use super::durable::Draft;
use super::fused::row_losses;
use super::layers::Pass;
use super::parameters::{Parameters, Values, host};
use super::preparation::Sources;
use super::prepared::{Description, TokenRows};
use super::task::{Extent, Model, Part, Task};
use super::{PreparedData, Split, TrainerError};
use crate::arguments::{ModelArguments, TaskKind};

/// The task.
pub(super) struct LanguageModeling;

impl Task for LanguageModeling {
    fn kind(&self) -> TaskKind {
        TaskKind::LanguageModeling
    }

    fn prepare(&self, sources: &Sources<'_>, draft: &Draft) -> Result<Description, TrainerError> {
        corpus::prepare(sources, draft)
    }

    fn model(&self, arguments: &ModelArguments, data: &PreparedData) -> Box<dyn Model> {
        let (start, end) = data.stream().map_or((0, 0), |stream| (stream.start, stream.end));
        Box::new(LanguageModel::new(Architecture::new(arguments, data.vocab_size(), data.max_length(), start, end)))
    }

    fn model_type(&self) -> &'static str {
        MODEL_TYPE
    }

    fn read(&self, config: Value) -> Result<Box<dyn Model>, String> {
        let architecture: Architecture = serde_json::from_value(config).map_err(|error| error.to_string())?;
        match architecture.problem() {
            Some(problem) => Err(problem),
            None => Ok(Box::new(LanguageModel::new(architecture))),
        }
    }
}

/// A decoder with its shape and its parameter list.
pub(super) struct LanguageModel {
    pub(super) architecture: Architecture,
    pub(super) decoder: Decoder,
    parameters: Parameters,
}

impl LanguageModel {
    pub(super) fn new(architecture: Architecture) -> Self {
        let (decoder, parameters) = Decoder::new(&architecture);
        Self { architecture, decoder, parameters }
    }

    /// The windows that an epoch's examples are: they lie end to end, from a place that is drawn anew for every epoch, so that over the
    /// epochs each token is seen at each position.
    fn windows(&self, rows: &TokenRows, seed: u64, epoch: u64) -> Windows {
        let layout = Windows::training(rows.tokens(), self.architecture.n_positions);
        let first = Dice::new(key(seed, "window", &[epoch])).below(layout.slack + 1);
        Windows { first, ..layout }
    }
}

/// Windows of one length over a stream of tokens: each sees `length` tokens and tells the one after each of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Windows {
    /// Where the first begins.
    first: usize,
    /// Tokens that the last leaves over: `first` may be as large.
    slack: usize,
    count: usize,
    length: usize,
}

impl Windows {
    /// Of `tokens` (at least two), in windows of at most `length`; one window less than would fit leaves room for another beginning.
    fn training(tokens: usize, length: usize) -> Self {
        let length = length.min(tokens - 1);
        let count = ((tokens - 1) / length).saturating_sub(1).max(1);
        Self { first: 0, slack: (tokens - 1 - count * length).min(length - 1), count, length }
    }

    fn tokens(&self, number: usize) -> Range<usize> {
        let start = self.first + number * self.length;
        start..start + self.length + 1
    }
}

/// Windows side by side: what is seen and what is to be told, text after text.
fn batch(rows: &TokenRows, windows: impl Iterator<Item = Range<usize>>) -> (Vec<u32>, Vec<u32>) {
    let (mut seen, mut told) = (Vec::new(), Vec::new());
    for window in windows {
        let ids: Vec<u32> = rows.window(window).collect();
        seen.extend(&ids[..ids.len() - 1]);
        told.extend(&ids[1..]);
    }
    (seen, told)
}

impl Model for LanguageModel {
    fn config(&self) -> Value {
        serde_json::to_value(&self.architecture).expect("a shape is plain data with string keys")
    }

    fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    fn examples(&self, data: &PreparedData, split: Split) -> usize {
        Windows::training(data.tokens(split), self.architecture.n_positions).count
    }

    fn loss(&self, pass: &Pass, part: &Part<'_>) -> Tensor<1> {
        let rows = part.data.split(Split::Train);
        let windows = self.windows(rows, part.seed, part.epoch);
        let (seen, told) = batch(rows, part.chosen.iter().map(|number| windows.tokens(*number)));
        #[expect(clippy::cast_precision_loss, reason = "tokens of a step")]
        let share = 1.0 / (part.step_examples * windows.length) as f64;
        self.decoder.loss(pass, &seen, told, windows.length, part.smoothing, share)
    }

    /// The mean over every token of the split but the first, each told from those before it in its window; windows lie end to end.
    fn measure(
        &self,
        values: &Values,
        device: &Device,
        data: &PreparedData,
        extent: &Extent,
        told: &dyn Fn(usize, usize),
    ) -> Result<BTreeMap<&'static str, f64>, TrainerError> {
        let rows = data.split(extent.split);
        let (targets, length) = (rows.tokens().saturating_sub(1), self.architecture.n_positions);
        let window = |number: usize| number * length..((number + 1) * length).min(targets) + 1;
        let pass = Pass::inference(values, device);
        let (mut sum, mut count, mut done) = (0.0, 0, 0);
        let chosen = extent.chosen(targets.div_ceil(length));
        let all = chosen.len();
        // The last window may be shorter than the others: those of one length go together.
        let (whole, rest): (Vec<usize>, Vec<usize>) = chosen.into_iter().partition(|number| window(*number).len() == length + 1);
        for chosen in whole.chunks(extent.batch).chain(rest.chunks(extent.batch)) {
            let (seen, targets) = batch(rows, chosen.iter().map(|number| window(*number)));
            let logits = host(self.decoder.forward(&pass, &seen, seen.len() / chosen.len()))?;
            sum += row_losses(&logits, &targets);
            count += targets.len();
            done += chosen.len();
            told(done, all);
        }
        #[expect(clippy::cast_precision_loss, reason = "counts of tokens and bytes")]
        let (loss, tokens_per_byte) = {
            let bytes = data.stream().map_or(0, |stream| stream.bytes[extent.split as usize]);
            (sum / f64::from(u32::try_from(count).unwrap_or(u32::MAX)), rows.tokens() as f64 / bytes as f64)
        };
        Ok([("loss", loss), ("perplexity", loss.exp()), ("bits_per_byte", loss / std::f64::consts::LN_2 * tokens_per_byte)].into())
    }

    fn suits(&self, data: &PreparedData) -> bool {
        data.stream().is_some() && self.architecture.vocab_size == data.vocab_size()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_lie_end_to_end_and_leave_room_for_another_beginning() {
        for tokens in 2..200 {
            for length in 3..20 {
                let windows = Windows::training(tokens, length);
                let last = Windows { first: windows.slack, ..windows }.tokens(windows.count - 1);
                assert!(last.end <= tokens, "{tokens} {length} {windows:?}");
                assert_eq!(windows.tokens(0).end - 1, windows.tokens(1).start);
                if tokens > 2 * length {
                    assert_eq!((windows.slack, windows.length), (length - 1, length));
                    assert!(windows.count >= tokens / length - 2);
                }
            }
        }
    }
}
