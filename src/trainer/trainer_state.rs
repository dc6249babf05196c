//! The state and the definition of a training run as checkpoints store them: `trainer_state.json`
//! and `training_args.json`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::learning_rate_schedule::PlateauState;
use super::optimiser::ScheduleFree;
use super::precision::GradScaler;
use hpsearch_core::arguments::TrainerArguments;

/// The version of both files.
pub(super) const VERSION: u32 = 1;

/// `trainer_state.json`, with Hugging Face's keys where they exist.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TrainerState {
    pub(super) version: u32,
    /// Optimiser steps made.
    pub(super) global_step: u64,
    /// Epochs of training.
    pub(super) epoch: f64,
    /// The lowest `eval_loss` so far.
    pub(super) best_metric: Option<f64>,
    pub(super) best_global_step: Option<u64>,
    /// The optimiser step of the last evaluation.
    pub(super) evaluated_step: u64,
    /// The last report, which the runner may not have received.
    pub(super) last_report: Option<EvaluationReport>,
    /// Training loss since the last report.
    pub(super) since_report: RunningMean,
    /// Training loss since the last log line.
    pub(super) since_log: RunningMean,
    /// The state of `reduce_lr_on_plateau`.
    #[serde(default)]
    pub(super) plateau: PlateauState,
    #[serde(default, rename = "patience")]
    pub(super) early_stopping: EarlyStopping,
    /// Loss scaling with `fp16`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) scaling: Option<GradScaler>,
    /// The running sums of a schedule-free optimiser.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) schedule_free: Option<ScheduleFree>,
    pub(super) log_history: Vec<BTreeMap<String, Value>>,
}

/// The state of early stopping: the best study metric in evaluations that `eval_strategy` asked
/// for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct EarlyStopping {
    best: Option<f64>,
    /// Evaluations since then without improvement.
    #[serde(rename = "worse")]
    pub(super) evaluations_since_best: u64,
}

impl EarlyStopping {
    /// Observes an evaluation, as transformers' `EarlyStoppingCallback` does; NaN never improves.
    pub(super) fn observe(&mut self, value: f64, maximize: bool, threshold: f64) {
        let gain = |best: f64| if maximize { value - best } else { best - value };
        if !value.is_nan() && self.best.is_none_or(|best| gain(best) > threshold) {
            *self = Self { best: Some(value), evaluations_since_best: 0 };
        } else {
            self.evaluations_since_best += 1;
        }
    }
}

/// The metrics of an evaluation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct EvaluationReport {
    #[serde(rename = "clock")]
    pub(super) study_step: u64,
    /// Null stands for NaN.
    pub(super) metrics: BTreeMap<String, Option<f64>>,
}

/// A running mean of losses.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RunningMean {
    sum: f64,
    count: u32,
}

impl RunningMean {
    pub(super) fn add(&mut self, value: f64) {
        self.sum += value;
        self.count += 1;
    }

    /// The mean since the last call, NaN if nothing was added.
    pub(super) fn take(&mut self) -> f64 {
        let Self { sum, count } = std::mem::take(self);
        sum / f64::from(count)
    }
}

impl TrainerState {
    /// The state before the first step.
    pub(super) fn new() -> Self {
        Self { version: VERSION, ..Self::default() }
    }
}

/// `training_args.json`: the definition of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RunArguments {
    pub(super) version: u32,
    pub(super) arguments: TrainerArguments,
    pub(super) seed: u64,
    /// The prepared data's digest.
    pub(super) data: String,
}
