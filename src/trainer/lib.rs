//! The built-in trainer: prepares text data, fine-tunes encoders and decoders or trains them from
//! scratch with Burn, evaluates, predicts and generates.
//!
//! It runs in a worker process, one job at a time, and does not depend on studies, samplers or the
//! store: [`Host`] is its interface to the process. All random numbers are keyed by (seed, name,
//! counters), so a run that is interrupted at any optimiser step and resumed equals an
//! uninterrupted one, bit for bit on the CPU.

#![cfg(feature = "train")]
#![expect(
    clippy::disallowed_methods,
    reason = "runs in a process of its own, and measures its pace"
)]

mod adapters;
mod allocator;
mod atomic_directory;
mod averaging;
mod backward_pass;
mod batch;
mod checkpoint;
mod corpus;
mod decoder;
mod device;
mod device_kernels;
mod encoder;
mod encoder_decoder;
mod encoder_model;
mod error;
mod evaluation;
mod families;
mod findings;
mod fine_tuning;
mod floats;
mod frozen_features;
mod fused;
mod generation;
mod gradients;
#[cfg(feature = "hub")]
mod hub;
mod label_names;
mod labelled;
mod language_modeling;
mod latency;
mod layers;
mod learning_rate_schedule;
mod lm_tokenizer;
mod mapped_file;
mod masked_language_modeling;
mod masked_texts;
mod metrics;
mod model_checks;
mod model_directory;
mod optimiser;
mod parallel_texts;
mod parameters;
mod precision;
mod prediction;
mod preparation;
mod prepared;
mod pretrained_weights;
mod probe;
mod profile;
mod profile_steps;
mod progress;
mod quantization;
mod quantized_export;
mod question_answering;
mod questions;
mod rng;
mod rotary;
mod sentence_pairs;
mod sentence_similarity;
mod sequence_classification;
mod sequence_to_sequence;
mod sources;
mod splits;
mod table_file;
mod tagged_words;
mod targets;
mod task;
mod tasks;
mod tensor_file;
#[cfg(test)]
mod tests;
mod text_generation;
mod token_classification;
mod tokenizer_file;
mod trainer_state;
mod training;
mod training_plan;
mod vocabulary;
mod vocabulary_files;
mod weights;
mod writing;

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use hpsearch_core::arguments::{RowsAtOnce, TrainerArguments};

pub use allocator::{AlignedAllocator, release_free_memory, tune_allocator};
pub use device::{available_devices, check_device, gpu_devices, set_kernel_cache, try_device};
pub use error::TrainerError;
pub use evaluation::{Evaluation, evaluate};
pub use findings::{Finding, Severity};
pub use generation::{GenerationConfig, GenerationSummary, generate};
pub use hpsearch_core::arguments::data_file::DataProblem;
pub use model_checks::{UndefinedMetrics, check_training, undefined_metrics};
pub use model_directory::{find_local, locate};
pub use prediction::{
    Entity, ExtractedAnswer, Prediction, PredictionInputs, Predictions, ScoredLabel, predict,
};
pub use preparation::prepare;
pub use prepared::{PreparedData, Split};
pub use probe::probe;
pub use profile::Profile;
pub use profile_steps::profile;
pub use progress::ProgressCallback;
pub use quantized_export::quantize;
pub use sources::normalized;
pub use tokenizer_file::panics_are_caught;
pub use training::train;

/// The interface of a training run to its process.
pub trait Host {
    /// Reports metrics at a study step, and waits for the decision. Names: those of the task
    /// (`eval_loss` and others, see `TRAINER_TASKS`) and those of `COMMON_METRICS`.
    ///
    /// # Errors
    /// The runner is gone; training ends.
    fn report(
        &mut self,
        step: u64,
        metrics: &BTreeMap<String, f64>,
    ) -> Result<HostVerdict, HostError>;

    /// Announces a complete, fsynced checkpoint directory with the state at study step `step`,
    /// before the report of the same step.
    ///
    /// # Errors
    /// The runner is gone; training ends.
    fn checkpoint(&mut self, step: u64, directory: &Path) -> Result<(), HostError>;

    /// A line for the trial's log.
    fn log(&mut self, line: &str);

    /// Metrics of training at an optimiser step, which get no decision: `loss`, `learning_rate`,
    /// `grad_norm`, `weight_norm`, `epoch`, `loss_scale`.
    fn points(&mut self, _step: u64, _metrics: &BTreeMap<String, f64>) {}

    /// Announces progress: `done` of `of` optimiser steps.
    fn at(&mut self, _done: u64, _of: u64) {}

    /// The peak resident memory of this job so far in bytes, reported as `peak_memory`.
    fn peak_memory(&self) -> Option<u64> {
        None
    }

    /// Whether the runner asked this trial to stop: it writes a checkpoint before the next
    /// optimiser step and returns [`TrainingEnd::Interrupted`].
    fn stop_requested(&self) -> bool;
}

/// The runner's answer to a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HostVerdict {
    /// Continue training.
    Continue,
    /// Stop; the trial may be resumed from the checkpoint just written.
    Pause,
    /// Stop for good.
    Stop,
}

/// The connection to the runner is lost.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the runner disconnected: {message}")]
pub struct HostError {
    /// The cause.
    pub message: String,
}

/// How a training run ended, when it ended without an error.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TrainingEnd {
    /// All steps are done.
    Finished,
    /// A report was answered with pause, or `until` was reached.
    Paused,
    /// A report was answered with stop.
    Stopped,
    /// The runner asked the trial to stop.
    Interrupted,
    /// The loss or the gradient norm is not finite.
    Diverged {
        /// The optimiser step that failed, counted from 1.
        step: u64,
        /// What is not finite: "the loss is NaN".
        what: String,
    },
}

/// The objective of the study.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrainingObjective {
    /// Its name in reports.
    pub metric: String,
    /// Whether greater is better.
    pub maximize: bool,
}

/// The unit of study steps: of `step` in reports and milestones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StepUnit {
    /// Epochs: 1, 2, ...
    Epoch,
    /// Optimiser steps.
    Step,
    /// Training rows seen; a milestone is reached at the first optimiser step at or past it.
    Samples,
}

/// Study steps with an evaluation and a report, besides the last.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Milestones {
    /// All multiples of this; 0: none.
    pub every: Option<u64>,
    /// Individual study steps.
    pub at: Vec<u64>,
}

/// The start of a training run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start<'a> {
    /// From scratch, or from a pretrained model.
    Fresh,
    /// From a checkpoint of the same run: arguments (except for the number of epochs or steps),
    /// seed and data must match.
    Resume(&'a Path),
    /// From another trial's checkpoint with this job's arguments, as in population-based training:
    /// only the model's shape and the data must match.
    Clone(&'a Path),
}

/// A training run, or the part of one up to a pause.
#[derive(Debug, Clone)]
pub struct TrainingJob<'a> {
    /// The arguments.
    pub arguments: &'a TrainerArguments,
    /// The data.
    pub data: &'a PreparedData,
    /// The device's name: `cpu`, `ndarray`, `cuda:0`, `wgpu:0`.
    pub device: &'a str,
    /// Seed of initialisation, order of rows and dropout.
    pub seed: u64,
    /// The objective, which early stopping watches unless `metric_for_best_model` names another
    /// metric.
    pub objective: TrainingObjective,
    /// The unit of study steps.
    pub step_unit: StepUnit,
    /// When reports are due.
    pub milestones: Milestones,
    /// Checkpoints go to `directory/checkpoint-<optimiser step>/`.
    pub directory: &'a Path,
    /// Most rows at once, if the batches of the arguments do not fit in memory: more micro-batches
    /// make the same step.
    pub rows_at_once: Option<RowsAtOnce>,
    /// Where to start from.
    pub start: Start<'a>,
    /// Pause after reporting this study step.
    pub until: Option<u64>,
    /// The last study step that the runner has a report of: a resumed run does not repeat it.
    pub reported: Option<u64>,
}
