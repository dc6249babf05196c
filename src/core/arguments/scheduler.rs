//! The learning-rate schedules, and the settings that each of them takes.

use serde::{Deserialize, Serialize};
use serde_json::json;

/// The learning-rate schedule: transformers' `SchedulerType`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SchedulerType {
    /// Linear decay to 0.
    Linear,
    /// Cosine decay to 0 over half a wave, or `num_cycles` waves.
    Cosine,
    /// Cosine decay with hard restarts.
    CosineWithRestarts,
    /// Cosine decay to `min_lr`.
    CosineWithMinLr,
    /// Polynomial decay to `lr_end`.
    Polynomial,
    /// Constant, without warm-up.
    Constant,
    /// Constant after warm-up.
    ConstantWithWarmup,
    /// Decay with the inverse square root of the step.
    InverseSqrt,
    /// Warm-up, a constant phase, decay.
    WarmupStableDecay,
    /// Reduced by a factor whenever `eval_loss` stops improving, without warm-up.
    ReduceLrOnPlateau,
}

/// The values of `lr_scheduler_type`.
pub(super) const SCHEDULER_NAMES: &[&str] = &[
    "linear",
    "cosine",
    "cosine_with_restarts",
    "cosine_with_min_lr",
    "polynomial",
    "constant",
    "constant_with_warmup",
    "inverse_sqrt",
    "warmup_stable_decay",
    "reduce_lr_on_plateau",
];

/// The shape of the warm-up or decay of `warmup_stable_decay`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ramp {
    /// Linear.
    #[serde(rename = "linear")]
    Linear,
    /// Along half a cosine wave.
    #[serde(rename = "cosine")]
    Cosine,
    /// One minus the square root.
    #[serde(rename = "1-sqrt")]
    OneMinusSqrt,
}

/// `lr_scheduler_kwargs`; `None` is the schedule's default.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SchedulerSettings {
    /// Waves of the cosine schedules, restarts of `cosine_with_restarts`.
    pub num_cycles: Option<f64>,
    /// The final learning rate of `cosine_with_min_lr`; the minimum of `reduce_lr_on_plateau`.
    pub min_lr: Option<f64>,
    /// The final learning rate of `cosine_with_min_lr`, as a fraction of the peak.
    pub min_lr_rate: Option<f64>,
    /// The final learning rate of `polynomial`.
    pub lr_end: Option<f64>,
    /// The exponent of `polynomial`.
    pub power: Option<f64>,
    /// The time scale of `inverse_sqrt`, in steps.
    pub timescale: Option<u64>,
    /// Steps of the constant phase of `warmup_stable_decay`.
    pub num_stable_steps: Option<u64>,
    /// Decay steps of `warmup_stable_decay`, or their fraction of all steps when below 1.
    pub num_decay_steps: Option<f64>,
    /// The initial and final learning rate of `warmup_stable_decay`, as a fraction of the peak.
    pub min_lr_ratio: Option<f64>,
    /// The shape of the warm-up of `warmup_stable_decay`.
    pub warmup_type: Option<Ramp>,
    /// The shape of the decay of `warmup_stable_decay`.
    pub decay_type: Option<Ramp>,
    /// The factor of `reduce_lr_on_plateau`.
    pub factor: Option<f64>,
    /// Evaluations without improvement that `reduce_lr_on_plateau` tolerates.
    pub patience: Option<u64>,
    /// The least relative improvement that counts for `reduce_lr_on_plateau`.
    pub threshold: Option<f64>,
    /// Evaluations that `reduce_lr_on_plateau` ignores after a reduction.
    pub cooldown: Option<u64>,
}

impl SchedulerType {
    /// The settings that it takes.
    pub(super) fn settings(self) -> &'static [&'static str] {
        match self {
            Self::Linear | Self::Constant | Self::ConstantWithWarmup => &[],
            Self::Cosine | Self::CosineWithRestarts => &["num_cycles"],
            Self::CosineWithMinLr => &["min_lr", "min_lr_rate", "num_cycles"],
            Self::Polynomial => &["lr_end", "power"],
            Self::InverseSqrt => &["timescale"],
            Self::WarmupStableDecay => &[
                "num_decay_steps",
                "num_stable_steps",
                "min_lr_ratio",
                "warmup_type",
                "decay_type",
                "num_cycles",
            ],
            Self::ReduceLrOnPlateau => &["factor", "patience", "threshold", "cooldown", "min_lr"],
        }
    }

    /// Whether it begins with a warm-up.
    pub fn warms_up(self) -> bool {
        !matches!(self, Self::Constant | Self::ReduceLrOnPlateau)
    }

    /// The values of `lr_scheduler_type` that begin with a warm-up.
    pub fn names_with_warmup() -> impl Iterator<Item = &'static str> {
        SCHEDULER_NAMES
            .iter()
            .copied()
            .filter(|name| serde_json::from_value(json!(name)).is_ok_and(SchedulerType::warms_up))
    }

    /// Its name in `lr_scheduler_type`.
    pub(super) fn word(self) -> String {
        serde_json::to_value(self)
            .ok()
            .and_then(|word| Some(word.as_str()?.to_owned()))
            .unwrap_or_default()
    }
}

/// The default final learning rate of `polynomial`.
pub const LR_END: f64 = 1e-7;
