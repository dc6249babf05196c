//! The courses of the learning rate and the settings each of them takes.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::table::ArgumentProblem;
use super::training::{EvalStrategy, TrainerArguments};

/// The course of the learning rate, after transformers' `SchedulerType`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Schedule {
    /// Down to 0 in a straight line.
    Linear,
    /// Down to 0 along half a cosine wave, or `num_cycles` waves.
    Cosine,
    /// Cosine waves that begin at the peak again and again.
    CosineWithRestarts,
    /// Down to `min_lr` along half a cosine wave.
    CosineWithMinLr,
    /// Down to `lr_end` along a power of the steps left.
    Polynomial,
    /// Always the same, without warm-up.
    Constant,
    /// Always the same after warm-up.
    ConstantWithWarmup,
    /// Down as the inverse square root of the step.
    InverseSqrt,
    /// Up, level, down.
    WarmupStableDecay,
    /// Down by a factor whenever `eval_loss` stops getting better, without warm-up.
    ReduceLrOnPlateau,
}

/// The words for `lr_scheduler_type`.
pub(super) const SCHEDULE_NAMES: &[&str] = &[
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

/// How `warmup_stable_decay` rises or falls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ramp {
    /// In a straight line.
    #[serde(rename = "linear")]
    Linear,
    /// Along half a cosine wave.
    #[serde(rename = "cosine")]
    Cosine,
    /// As one minus the square root.
    #[serde(rename = "1-sqrt")]
    OneMinusSqrt,
}

/// Settings of the courses, `lr_scheduler_kwargs` in transformers; `None` is that course's default.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ScheduleArguments {
    /// Waves of cosines, restarts of `cosine_with_restarts`.
    pub num_cycles: Option<f64>,
    /// Where `cosine_with_min_lr` ends; the least of `reduce_lr_on_plateau`.
    pub min_lr: Option<f64>,
    /// Where `cosine_with_min_lr` ends, as a share of the peak learning rate.
    pub min_lr_rate: Option<f64>,
    /// Where `polynomial` ends.
    pub lr_end: Option<f64>,
    /// The power of `polynomial`.
    pub power: Option<f64>,
    /// The time scale of `inverse_sqrt`, in steps.
    pub timescale: Option<u64>,
    /// Steps at the peak of `warmup_stable_decay`.
    pub num_stable_steps: Option<u64>,
    /// Steps over which `warmup_stable_decay` falls, or their share of all steps when below 1.
    pub num_decay_steps: Option<f64>,
    /// Where `warmup_stable_decay` begins and ends, as a share of the peak learning rate.
    pub min_lr_ratio: Option<f64>,
    /// How `warmup_stable_decay` rises.
    pub warmup_type: Option<Ramp>,
    /// How `warmup_stable_decay` falls.
    pub decay_type: Option<Ramp>,
    /// What `reduce_lr_on_plateau` multiplies with.
    pub factor: Option<f64>,
    /// Evaluations that `reduce_lr_on_plateau` waits for an improvement.
    pub patience: Option<u64>,
    /// The relative improvement that `reduce_lr_on_plateau` counts.
    pub threshold: Option<f64>,
    /// Evaluations that `reduce_lr_on_plateau` rests after a cut.
    pub cooldown: Option<u64>,
}

impl Schedule {
    /// The settings it takes.
    fn takes(self) -> &'static [&'static str] {
        match self {
            Self::Linear | Self::Constant | Self::ConstantWithWarmup => &[],
            Self::Cosine | Self::CosineWithRestarts => &["num_cycles"],
            Self::CosineWithMinLr => &["min_lr", "min_lr_rate", "num_cycles"],
            Self::Polynomial => &["lr_end", "power"],
            Self::InverseSqrt => &["timescale"],
            Self::WarmupStableDecay => &["num_decay_steps", "num_stable_steps", "min_lr_ratio", "warmup_type", "decay_type", "num_cycles"],
            Self::ReduceLrOnPlateau => &["factor", "patience", "threshold", "cooldown", "min_lr"],
        }
    }

    /// Its word.
    fn word(self) -> String {
        word(&serde_json::to_value(self).unwrap_or_default())
    }
}

/// What is wrong with the course of the learning rate as a whole.
pub(super) fn schedule_problems(arguments: &TrainerArguments) -> Vec<ArgumentProblem> {
    let (schedule, settings) = (arguments.lr_scheduler_type, arguments.lr_scheduler_kwargs);
    let name = schedule.word();
    let mut problems = Vec::new();
    let mut problem = |key: &str, message: String, help: &str| problems.push(ArgumentProblem::new(key, message).with_help(help));
    let given = serde_json::to_value(settings).unwrap_or_default();
    for key in given.as_object().into_iter().flatten().filter(|(_, value)| !value.is_null()).map(|(key, _)| key.as_str()) {
        if !schedule.takes().contains(&key) {
            let help = match schedule.takes() {
                [] => format!("leave it out; `{name}` takes no settings"),
                taken => format!("leave it out; `{name}` takes {}", taken.join(", ")),
            };
            problem(&format!("lr_scheduler_kwargs.{key}"), format!("`lr_scheduler_kwargs.{key}` means nothing to `{name}`"), &help);
        }
    }
    match schedule {
        Schedule::CosineWithMinLr if settings.min_lr.is_none() && settings.min_lr_rate.is_none() => problem(
            "lr_scheduler_type",
            format!("`{name}` needs to know where it ends"),
            "give `lr_scheduler_kwargs.min_lr` or `lr_scheduler_kwargs.min_lr_rate`",
        ),
        Schedule::CosineWithMinLr if settings.min_lr.is_some() && settings.min_lr_rate.is_some() => problem(
            "lr_scheduler_kwargs.min_lr_rate",
            "`lr_scheduler_kwargs.min_lr` and `lr_scheduler_kwargs.min_lr_rate` both say where the learning rate ends".to_owned(),
            "give one of them",
        ),
        Schedule::Polynomial if settings.lr_end.unwrap_or(LR_END) >= arguments.learning_rate => problem(
            "lr_scheduler_kwargs.lr_end",
            format!("`{name}` ends at {}, which is not below `learning_rate` = {}", settings.lr_end.unwrap_or(LR_END), arguments.learning_rate),
            "give a smaller `lr_scheduler_kwargs.lr_end`",
        ),
        Schedule::WarmupStableDecay if settings.num_decay_steps.is_none_or(|steps| steps == 0.0) => problem(
            "lr_scheduler_type",
            format!("`{name}` needs to know when it falls"),
            "give `lr_scheduler_kwargs.num_decay_steps`, for example 0.2 for the last fifth",
        ),
        Schedule::ReduceLrOnPlateau if arguments.eval_strategy == EvalStrategy::No => problem(
            "eval_strategy",
            format!("`{name}` looks at evaluations, and `eval_strategy` asks for none"),
            "set `eval_strategy = \"epoch\"`, or \"steps\" with `eval_steps`",
        ),
        _ => {}
    }
    problems
}

/// Where `polynomial` ends unless it is said.
pub(crate) const LR_END: f64 = 1e-7;

fn word(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
