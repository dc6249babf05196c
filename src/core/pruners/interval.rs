//! The steps at which a rule judges: after a warm-up, once per interval.

use crate::study::field::{COUNT, Field, FieldDefault, NATURAL, field};
use crate::study::spec::{AlgorithmSpec, Milestones};
use crate::study::trial::Trial;

pub(super) const N_WARMUP_STEPS: Field = field(
    "n_warmup_steps",
    NATURAL,
    FieldDefault::Int(0),
    "steps of each trial before it is first judged",
);

pub(super) const INTERVAL_STEPS: Field = field(
    "interval_steps",
    COUNT,
    FieldDefault::Int(1),
    "steps between judgements, counted from the end of the warm-up",
);

/// Both options.
pub(super) const OPTIONS: [Field; 2] = [N_WARMUP_STEPS, INTERVAL_STEPS];

/// Optuna's `n_warmup_steps` and `interval_steps`.
#[derive(Clone, Copy, Debug)]
pub struct Interval {
    warmup_steps: u64,
    interval_steps: u64,
}

impl Interval {
    /// From checked options.
    pub fn new(spec: &AlgorithmSpec) -> Self {
        Interval {
            warmup_steps: N_WARMUP_STEPS.of(spec),
            interval_steps: INTERVAL_STEPS.of::<u64>(spec).max(1),
        }
    }

    /// Whether `step` is the trial's first report of its interval: reports need not fall on the
    /// interval's start.
    pub fn is_due(&self, trial: &Trial, step: u64) -> bool {
        let Some(past_warmup) = step.checked_sub(self.warmup_steps) else { return false };
        let interval_start = step - past_warmup % self.interval_steps;
        trial.last_step_before(step).is_none_or(|before| before < interval_start)
    }

    /// Where a trial must report.
    pub fn milestones(&self) -> Milestones {
        Milestones { every: Some(self.interval_steps), at: Vec::new() }
    }
}
