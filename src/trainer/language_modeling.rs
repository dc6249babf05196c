//! The task language-modeling: the next token of a text.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

use burn::tensor::{Device, Tensor};
use serde_json::{Map, Value};

use super::batch::Batch;
use super::corpus;
use super::decoder::{Architecture, Decoder};
use super::dice::{Dice, key};
use super::durable::Draft;
use super::families::decoders::DECODERS;
use super::fused::row_losses;
use super::layers::{Pass, Rows};
use super::parameters::{Parameters, Values, host};
use super::preparation::Sources;
use super::prepared::{Description, TokenRows};
use super::pretrained::Naming;
use super::task::{Extent, Model, Part, Reading, Task};
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

    fn model(&self, arguments: &ModelArguments, data: &PreparedData) -> Result<Box<dyn Model>, TrainerError> {
        if let Some(directory) = &arguments.pretrained {
            let wrong = |message: String| TrainerError::model(Path::new(directory), format!("`config.json` {message}"));
            let mut architecture = Architecture::read(data.pretrained_config()?).map_err(wrong)?;
            architecture.adapt(arguments, data.max_length());
            return Ok(Box::new(LanguageModel::new(architecture)));
        }
        let (start, end) = data.stream().map_or((0, 0), |stream| (stream.start, stream.end));
        let architecture = Architecture::new(arguments, data.vocab_size(), data.max_length(), start, end);
        let wrong = |message: String| TrainerError::Arguments { message: format!("the model that the arguments ask for {message}") };
        Ok(Box::new(LanguageModel::new(architecture.map_err(wrong)?)))
    }

    fn model_types(&self) -> Vec<&'static str> {
        DECODERS.iter().map(|family| family.model_type).collect()
    }

    fn read(&self, config: Map<String, Value>) -> Result<Box<dyn Model>, String> {
        Ok(Box::new(LanguageModel::new(Architecture::read(config)?)))
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
        let layout = Windows::training(rows.tokens(), self.architecture.shape.window);
        let first = Dice::new(key(seed, "window", &[epoch])).below(layout.slack + 1);
        Windows { first, ..layout }
    }

    /// What examples of a step see, what they are to tell, and how long each is.
    fn seen_and_told(&self, part: &Part<'_>) -> (Vec<u32>, Vec<u32>, usize) {
        let rows = part.data.split(Split::Train);
        let windows = self.windows(rows, part.seed, part.epoch);
        let (seen, told) = batch(rows, part.chosen.iter().map(|number| windows.tokens(*number)));
        (seen, told, windows.length)
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
        self.architecture.config.clone().into()
    }

    fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    fn parameters_mut(&mut self) -> &mut Parameters {
        &mut self.parameters
    }

    fn examples(&self, data: &PreparedData, split: Split) -> usize {
        Windows::training(data.tokens(split), self.architecture.shape.window).count
    }

    fn length(&self, _: &PreparedData, _: usize) -> usize {
        self.architecture.shape.window
    }

    /// Windows begin elsewhere in every epoch.
    fn repeats(&self) -> bool {
        false
    }

    fn reading(&self, part: &Part<'_>) -> Reading {
        let (seen, _, length) = self.seen_and_told(part);
        let (layout, angles) = self.decoder.places(seen.len(), length);
        Reading { batch: Batch::new(seen.chunks(length).map(<[u32]>::to_vec).collect()), layout, angles }
    }

    fn begin(&self, pass: &Pass, reading: &Reading) -> Rows {
        self.decoder.begin(pass, &reading.batch.ids(), reading.layout.length)
    }

    fn layers(&self) -> usize {
        self.decoder.layers()
    }

    fn layer(&self, pass: &Pass, number: usize, x: Rows, reading: &Reading) -> Rows {
        self.decoder.layer(pass, number, x, &reading.layout, reading.angles.as_ref())
    }

    fn finish(&self, pass: &Pass, x: Rows, _: &Reading, part: &Part<'_>) -> Tensor<1> {
        let (_, told, length) = self.seen_and_told(part);
        #[expect(clippy::cast_precision_loss, reason = "tokens of a step")]
        let share = 1.0 / (part.step_examples * length) as f64;
        self.decoder.finish(pass, x, told, part.smoothing, share)
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
        let (targets, length) = (rows.tokens().saturating_sub(1), self.architecture.shape.window);
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
        data.stream().is_some() && self.architecture.shape.vocabulary >= data.vocab_size()
    }

    fn limits(&self) -> (usize, usize) {
        (self.architecture.shape.vocabulary, self.architecture.shape.positions)
    }

    fn naming(&self) -> Naming {
        let family = self.architecture.family;
        Naming { prefix: family.prefix, layers: family.names.layer, keeps_labels: true, labels: Vec::new() }
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
