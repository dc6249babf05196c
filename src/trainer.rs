//! The shared trainer: prepares text data, fine-tunes encoders and decoders or trains them from nothing with Burn, evaluates, predicts and generates.
//!
//! It runs inside a worker process, one job at a time, and knows nothing of studies, samplers or the store: whatever it needs from outside
//! comes through [`Host`]. Everything random is keyed by (seed, name, counters), so a run that is interrupted at any optimiser step and
//! resumed equals one that never was, bit for bit on the CPU.

mod adapters;
mod batch;
mod checkpoint;
mod classification;
mod corpus;
mod course;
mod decoder;
mod descent;
mod device;
mod dice;
mod durable;
mod encoder;
mod error;
mod evaluation;
mod families;
mod features;
mod findings;
mod fused;
mod generation;
mod gradients;
mod heap;
#[cfg(feature = "hub")]
mod hub;
mod labelled;
mod language_modeling;
mod layers;
mod metrics;
mod optimiser;
mod pace;
mod parameters;
mod precision;
mod prediction;
mod preparation;
mod prepared;
mod pretrained;
mod probe;
mod profile;
mod quantization;
mod schedule;
mod scores;
mod spelling;
mod splits;
mod table_file;
mod targets;
mod task;
mod tensor_file;
#[cfg(test)]
mod tests;
mod tokenizer_file;
mod training;
mod tuning;
mod vocabulary;
mod weights;

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::arguments::{RowsAtOnce, TrainerArguments};

pub use device::{available_devices, check_device, further_devices, keep_kernels, try_device};
pub use error::{DataProblem, TrainerError};
pub use evaluation::evaluate;
pub use findings::{Finding, Severity};
pub use generation::{Generated, Sampling, generate};
pub use heap::{AlignedHeap, give_memory_back, tune_allocator};
pub use pace::Ticker;
pub use prediction::{Prediction, ScoredLabel, predict};
pub use preparation::prepare;
pub use prepared::{PreparedData, Split};
pub use pretrained::{at_hand, locate};
pub use probe::probe;
pub use profile::{Profile, profile};
pub use quantization::quantize;
pub use tokenizer_file::panics_are_errors;
pub use training::train;
pub use tuning::fits;

/// What a training run needs from the process it runs in.
pub trait Host {
    /// Metrics at a clock value; waits for the verdict. Names: those of the task (`eval_loss` and others, see `TRAINER_TASKS`), `train_loss`,
    /// `learning_rate`, `epoch`, `steps_per_second`, `grad_norm` of the last step, `weight_norm` after it.
    ///
    /// # Errors
    /// The runner is gone; training ends.
    fn report(&mut self, step: u64, metrics: &BTreeMap<String, f64>) -> Result<HostVerdict, HostError>;

    /// A complete, fsynced checkpoint directory with the state at clock value `step`; called before the report of the same step.
    ///
    /// # Errors
    /// The runner is gone; training ends.
    fn checkpoint(&mut self, step: u64, directory: &Path) -> Result<(), HostError>;

    /// A line for the trial's log.
    fn log(&mut self, line: &str);

    /// So many optimiser steps of so many are done.
    fn at(&mut self, _done: u64, _of: u64) {}

    /// Whether the runner asked this trial to leave: it writes a checkpoint before the next optimiser step and returns [`RunEnd::Interrupted`].
    fn stop_requested(&self) -> bool;
}

/// What the runner says to a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HostVerdict {
    /// Go on.
    Continue,
    /// Leave; the trial may be resumed from the checkpoint just written.
    Pause,
    /// Leave for good.
    Stop,
}

/// The runner cannot be reached any more.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the runner is gone: {message}")]
pub struct HostError {
    /// What happened on the way to it.
    pub message: String,
}

/// How a training run ended, when it ended without an error.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunEnd {
    /// All steps are done.
    Finished,
    /// A report was answered with pause, or `until` was reached.
    Paused,
    /// A report was answered with stop.
    Stopped,
    /// The runner asked the trial to leave.
    Interrupted,
    /// The loss or the gradient norm is not a finite number any more.
    Diverged {
        /// The optimiser step that could not be made, counted from 1.
        step: u64,
        /// Which number, with its value: "the loss is NaN".
        what: String,
    },
}

/// The metric that the run is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Objective {
    /// Its name in reports.
    pub metric: String,
    /// Whether greater is better.
    pub maximize: bool,
}

/// The unit of `step` in reports and milestones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Clock {
    /// Passes over the training rows: 1, 2, ...
    Epoch,
    /// Optimiser steps.
    Step,
    /// Training rows seen; a milestone counts as reached at the first optimiser step that reaches it.
    Samples,
}

/// Clock values where an evaluation and its report must happen, besides the last.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Milestones {
    /// All multiples of this; 0 means none.
    pub every: Option<u64>,
    /// These.
    pub at: Vec<u64>,
}

/// Where a training run begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start<'a> {
    /// With fresh parameters.
    Fresh,
    /// From a checkpoint of the same run: arguments (but for the number of epochs or steps), seed and data must agree.
    Resume(&'a Path),
    /// From another trial's checkpoint with this job's arguments, as population-based training does: only the model's shape and the data must agree.
    Clone(&'a Path),
}

/// One training run, or the part of one up to a pause.
#[derive(Debug, Clone)]
pub struct Job<'a> {
    /// What to train and how.
    pub arguments: &'a TrainerArguments,
    /// What to train on.
    pub data: &'a PreparedData,
    /// The device's name: `cpu`, `ndarray`, `cuda:0`, `wgpu:0`.
    pub device: &'a str,
    /// Seed of initial parameters, order of rows and dropout.
    pub seed: u64,
    /// What the study searches for; early stopping watches it.
    pub objective: Objective,
    /// The unit of reports.
    pub clock: Clock,
    /// Where reports are due.
    pub milestones: Milestones,
    /// Checkpoints go to `directory/checkpoint-<optimiser step>/`.
    pub directory: &'a Path,
    /// Most rows in memory at once, where it has no room for the batches that the arguments ask for: more micro-batches make the same step.
    pub rows_at_once: Option<RowsAtOnce>,
    /// Where to begin.
    pub start: Start<'a>,
    /// Pause after reporting this clock value.
    pub until: Option<u64>,
    /// The last clock value whose report the runner already has: a resumed run does not give it again.
    pub reported: Option<u64>,
}
