//! The steps at which a rule judges: after a warm-up, once in every interval.

use crate::study::registry::{OptionKind, OptionSpec};
use crate::study::spec::{Milestones, PolicySpec};
use crate::study::trial::Trial;

pub(super) const N_WARMUP_STEPS: OptionSpec = OptionSpec {
    name: "n_warmup_steps",
    kind: OptionKind::Int { min: 0, max: i64::MAX },
    default: "0",
    summary: "clock values of each trial in which it is not judged",
};

pub(super) const INTERVAL_STEPS: OptionSpec = OptionSpec {
    name: "interval_steps",
    kind: OptionKind::Int { min: 1, max: i64::MAX },
    default: "1",
    summary: "clock values between judgements, counted from the end of the warm-up",
};

/// Optuna's `n_warmup_steps` and `interval_steps`.
#[derive(Clone, Copy, Debug)]
pub struct Interval {
    warmup_steps: u64,
    interval_steps: u64,
}

impl Interval {
    /// From checked options.
    pub fn new(spec: &PolicySpec) -> Self {
        Interval {
            warmup_steps: spec.count("n_warmup_steps", 0),
            interval_steps: spec.count("interval_steps", 1).max(1),
        }
    }

    /// Whether `step` is the trial's first report of its interval: reports need not fall on the interval's start.
    pub fn is_due(&self, trial: &Trial, step: u64) -> bool {
        let Some(past_warmup) = step.checked_sub(self.warmup_steps) else { return false };
        let interval_start = step - past_warmup % self.interval_steps;
        let before = trial.curve.iter().rev().map(|(at, _)| *at).find(|at| *at < step);
        before.is_none_or(|before| before < interval_start)
    }

    /// Where a trial must report.
    pub fn milestones(&self) -> Milestones {
        Milestones { every: Some(self.interval_steps), at: Vec::new() }
    }
}
