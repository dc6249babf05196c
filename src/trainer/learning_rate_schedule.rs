//! The learning-rate schedule over the optimiser steps, with transformers' and PyTorch's formulas.

use serde::{Deserialize, Serialize};

use super::Finding;
use super::floats::real;
use hpsearch_core::arguments::{
    LR_END, Optim, Ramp, SchedulerSettings, SchedulerType, TrainerArguments,
};

/// The schedule of a run: a factor on the peak learning rate for each optimiser step.
#[derive(Debug, Clone, Copy)]
pub(super) struct LearningRateSchedule {
    scheduler: SchedulerType,
    settings: SchedulerSettings,
    peak: f64,
    warmup_steps: u64,
    total_steps: u64,
    /// Whether the optimiser has no schedule but a warm-up of its own.
    is_schedule_free: bool,
}

/// What `reduce_lr_on_plateau` watches in an evaluation.
#[derive(Debug, Clone, Copy)]
pub(super) struct Watched {
    pub(super) value: f64,
    pub(super) maximize: bool,
    /// Whether it is `metric_for_best_model`, not `eval_loss`.
    pub(super) is_of_metric: bool,
}

/// The state of `reduce_lr_on_plateau`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PlateauState {
    /// The factor on the peak learning rate.
    factor: f64,
    /// The best value of the watched metric that counted as an improvement.
    best: Option<f64>,
    #[serde(rename = "bad")]
    evaluations_since_best: u64,
    /// Evaluations left of the cool-down.
    #[serde(rename = "resting")]
    cooldown: u64,
    /// Whether that is of `metric_for_best_model`, not of `eval_loss`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    is_of_metric: bool,
}

impl Default for PlateauState {
    fn default() -> Self {
        Self {
            factor: 1.0,
            best: None,
            evaluations_since_best: 0,
            cooldown: 0,
            is_of_metric: false,
        }
    }
}

impl LearningRateSchedule {
    /// The schedule that `arguments` ask for in a run of `total_steps` optimiser steps.
    pub(super) fn new(arguments: &TrainerArguments, total_steps: u64) -> Self {
        Self {
            scheduler: arguments.lr_scheduler_type,
            settings: arguments.lr_scheduler_kwargs,
            peak: arguments.learning_rate,
            warmup_steps: warmup_steps(arguments, total_steps),
            total_steps,
            is_schedule_free: arguments.optim == Optim::ScheduleFreeAdamW,
        }
    }

    /// What is odd about it: a warm-up that does not end, a last rate above the peak.
    pub(super) fn findings(&self) -> Vec<Finding> {
        let Self { scheduler, settings, peak, warmup_steps: warmup, total_steps: total, .. } =
            *self;
        let mut findings = Vec::new();
        if warmup > total && (scheduler.warms_up() || self.is_schedule_free) {
            let reached = 100.0 * real(total) / real(warmup);
            findings.push(Finding::warning(
                "warmup",
                format!(
                    "warm-up takes {warmup} optimiser steps and the training has {total}: the \
                     learning rate reaches {reached:.0} % of `learning_rate`"
                ),
            ));
        }
        let least = settings.min_lr.filter(|_| scheduler == SchedulerType::CosineWithMinLr);
        if let Some(least) = least.filter(|least| *least > peak) {
            findings.push(Finding::warning(
                "rising_rate",
                format!(
                    "`lr_scheduler_kwargs.min_lr` = {least} is above `learning_rate` = {peak}: the \
                     learning rate rises to it"
                ),
            ));
        }
        findings
    }

    /// The learning rate of optimiser step `step`, counted from 0.
    pub(super) fn learning_rate(&self, step: u64, plateau: &PlateauState) -> f64 {
        self.peak * if self.is_on_plateau() { plateau.factor } else { self.factor(step) }
    }

    /// The factor of optimiser step `step`, counted from 0.
    ///
    /// Source: `transformers/optimization.py`, `_get_linear_schedule_with_warmup_lr_lambda` and its
    /// neighbours.
    fn factor(&self, step: u64) -> f64 {
        let Self { scheduler, settings, peak, warmup_steps: warmup, total_steps: total, .. } =
            *self;
        if self.is_schedule_free {
            return (real(step + 1) / real(warmup.max(1))).min(1.0);
        }
        match scheduler {
            SchedulerType::Constant | SchedulerType::ReduceLrOnPlateau => return 1.0,
            SchedulerType::WarmupStableDecay => return self.warmup_stable_decay(step),
            _ if step < warmup => return real(step) / real(warmup.max(1)),
            _ => {}
        }
        let after = real(total.saturating_sub(warmup).max(1));
        let progress = real(step - warmup) / after;
        let cycles = |default| settings.num_cycles.unwrap_or(default);
        match scheduler {
            SchedulerType::Linear => real(total.saturating_sub(step)) / after,
            SchedulerType::Cosine => half_cosine(cycles(0.5) * 2.0 * progress).max(0.0),
            SchedulerType::CosineWithMinLr => {
                let least =
                    settings.min_lr_rate.or(settings.min_lr.map(|rate| rate / peak)).unwrap_or(0.0);
                (half_cosine(cycles(0.5) * 2.0 * progress) * (1.0 - least) + least).max(0.0)
            }
            SchedulerType::CosineWithRestarts if progress >= 1.0 => 0.0,
            SchedulerType::CosineWithRestarts => {
                half_cosine((cycles(1.0) * progress).fract()).max(0.0)
            }
            SchedulerType::Polynomial => {
                let end = settings.lr_end.unwrap_or(LR_END);
                let left = if step > total { 0.0 } else { 1.0 - progress };
                ((peak - end) * left.powf(settings.power.unwrap_or(1.0)) + end) / peak
            }
            SchedulerType::InverseSqrt => {
                let scale = settings.timescale.unwrap_or(if warmup > 0 { warmup } else { 10_000 });
                1.0 / ((real(step) + real(scale) - real(warmup)) / real(scale)).sqrt()
            }
            SchedulerType::Constant
            | SchedulerType::ConstantWithWarmup
            | SchedulerType::WarmupStableDecay
            | SchedulerType::ReduceLrOnPlateau => 1.0,
        }
    }

    /// transformers' `_get_wsd_scheduler_lambda`.
    fn warmup_stable_decay(&self, step: u64) -> f64 {
        let Self { settings, warmup_steps: warmup, total_steps: total, .. } = *self;
        let decay = steps_of(settings.num_decay_steps.unwrap_or(0.0), total);
        let stable =
            settings.num_stable_steps.unwrap_or(total.saturating_sub(warmup).saturating_sub(decay));
        let least = settings.min_lr_ratio.unwrap_or(0.0);
        let above = |factor: f64| (factor * (1.0 - least) + least).max(0.0);
        if step < warmup {
            let progress = real(step) / real(warmup.max(1));
            return above(match settings.warmup_type.unwrap_or(Ramp::Linear) {
                Ramp::Linear => progress,
                Ramp::Cosine => 1.0 - half_cosine(progress),
                Ramp::OneMinusSqrt => 1.0 - (1.0 - progress).sqrt(),
            });
        }
        if step < warmup + stable {
            return 1.0;
        }
        if step >= warmup + stable + decay {
            return least;
        }
        let progress = real(step - warmup - stable) / real(decay.max(1));
        above(match settings.decay_type.unwrap_or(Ramp::Cosine) {
            Ramp::Linear => 1.0 - progress,
            Ramp::Cosine => half_cosine(settings.num_cycles.unwrap_or(0.5) * 2.0 * progress),
            Ramp::OneMinusSqrt => 1.0 - progress.sqrt(),
        })
    }

    /// Whether evaluations change the learning rate.
    pub(super) fn is_on_plateau(&self) -> bool {
        self.scheduler == SchedulerType::ReduceLrOnPlateau
    }

    /// Updates the state of `reduce_lr_on_plateau` with the value of the watched metric after an
    /// evaluation that `eval_strategy` asked for.
    ///
    /// Source: `torch/optim/lr_scheduler.py`, `ReduceLROnPlateau.step` with
    /// `threshold_mode="rel"`, and `mode="max"` to maximize.
    pub(super) fn observe(&self, watched: Watched, plateau: &mut PlateauState) {
        let Self { settings, peak, .. } = *self;
        let Watched { value, maximize, is_of_metric } = watched;
        if plateau.is_of_metric != is_of_metric {
            // A checkpoint of a version that always watched `eval_loss`.
            (plateau.best, plateau.is_of_metric) = (None, is_of_metric);
        }
        let threshold = settings.threshold.unwrap_or(1e-4);
        let is_better = plateau.best.is_none_or(|best| {
            if maximize {
                value > best * (1.0 + threshold)
            } else {
                value < best * (1.0 - threshold)
            }
        });
        if is_better && !value.is_nan() {
            (plateau.best, plateau.evaluations_since_best) = (Some(value), 0);
        } else {
            plateau.evaluations_since_best += 1;
        }
        if plateau.cooldown > 0 {
            (plateau.cooldown, plateau.evaluations_since_best) = (plateau.cooldown - 1, 0);
        }
        if plateau.evaluations_since_best > settings.patience.unwrap_or(10) {
            let (old, least) = (plateau.factor * peak, settings.min_lr.unwrap_or(0.0));
            let new = (old * settings.factor.unwrap_or(0.1)).max(least);
            // PyTorch's `eps`: smaller changes are ignored.
            if old - new > 1e-8 {
                plateau.factor = new / peak;
            }
            (plateau.cooldown, plateau.evaluations_since_best) =
                (settings.cooldown.unwrap_or(0), 0);
        }
    }
}

/// The cosine from 1 at 0 to 0 at 1, and on.
fn half_cosine(halves: f64) -> f64 {
    0.5 * (1.0 + (std::f64::consts::PI * halves).cos())
}

/// Steps of warm-up in a run of `total` optimiser steps.
fn warmup_steps(arguments: &TrainerArguments, total: u64) -> u64 {
    steps_of(
        if arguments.warmup_steps > 0.0 {
            arguments.warmup_steps
        } else {
            (real(total) * arguments.warmup_ratio).ceil()
        },
        total,
    )
}

/// A number of steps, or their fraction of `total` when below 1.
fn steps_of(number: f64, total: u64) -> u64 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "not negative and far below 2^53"
    )]
    let steps = if number >= 1.0 { number } else { (real(total) * number).ceil() } as u64;
    steps
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::tests::{merged, resolve};
    use super::*;

    /// Factors of the first `steps` steps of a run of 10 with 2 steps of warm-up.
    fn factors(values: Value, steps: u64) -> Vec<f64> {
        let base = json!({"learning_rate": 1e-3, "warmup_steps": 2, "eval_strategy": "epoch"});
        let schedule = LearningRateSchedule::new(&resolve(merged(base, values)), 10);
        let plateau = PlateauState::default();
        (0..steps).map(|step| schedule.learning_rate(step, &plateau) / 1e-3).collect()
    }

    /// Scheduler, its settings, and the factors of the first 12 steps of a run of 10, 2 of them
    /// warm-up: made by `tests/peers/schedules_golden.py`.
    const GOLDEN: &str = r#"
linear {}: 0 0.5 1 0.875 0.75 0.625 0.5 0.375 0.25 0.125 0 0
cosine {}: 0 0.5 1 0.961939766 0.853553391 0.691341716 0.5 0.308658284 0.146446609 0.038060234 0 0.038060234
cosine {"num_cycles": 1.5}: 0 0.5 1 0.691341716 0.146446609 0.038060234 0.5 0.961939766 0.853553391 0.308658284 0 0.308658284
cosine_with_restarts {"num_cycles": 3}: 0 0.5 1 0.691341716 0.146446609 0.961939766 0.5 0.038060234 0.853553391 0.308658284 0 0
cosine_with_min_lr {"min_lr": 0.0001}: 0 0.5 1 0.96574579 0.868198052 0.722207545 0.55 0.377792455 0.231801948 0.13425421 0.1 0.13425421
cosine_with_min_lr {"min_lr_rate": 0.1}: 0 0.5 1 0.96574579 0.868198052 0.722207545 0.55 0.377792455 0.231801948 0.13425421 0.1 0.13425421
polynomial {}: 0 0.5 1 0.8750125 0.750025 0.6250375 0.50005 0.3750625 0.250075 0.1250875 0.0001 0.0001
polynomial {"lr_end": 0.0001, "power": 2.0}: 0 0.5 1 0.7890625 0.60625 0.4515625 0.325 0.2265625 0.15625 0.1140625 0.1 0.1
constant {}: 1 1 1 1 1 1 1 1 1 1 1 1
constant_with_warmup {}: 0 0.5 1 1 1 1 1 1 1 1 1 1
inverse_sqrt {}: 0 0.5 1 0.816496581 0.707106781 0.632455532 0.577350269 0.534522484 0.5 0.471404521 0.447213595 0.426401433
inverse_sqrt {"timescale": 5}: 0 0.5 1 0.912870929 0.845154255 0.790569415 0.745355992 0.707106781 0.674199862 0.645497224 0.620173673 0.597614305
warmup_stable_decay {"num_decay_steps": 4}: 0 0.5 1 1 1 1 1 0.853553391 0.5 0.146446609 0 0
warmup_stable_decay {"num_decay_steps": 3, "num_stable_steps": 2, "min_lr_ratio": 0.1, "warmup_type": "cosine", "decay_type": "1-sqrt"}: 0.1 0.55 1 1 1 0.480384758 0.265153077 0.1 0.1 0.1 0.1 0.1
warmup_stable_decay {"num_decay_steps": 3, "warmup_type": "1-sqrt", "decay_type": "linear"}: 0 0.292893219 1 1 1 1 1 1 0.666666667 0.333333333 0 0
"#;

    #[test]
    fn every_schedule_is_transformers() {
        for line in GOLDEN.trim().lines() {
            let (name, rest) = line.split_once(' ').unwrap();
            let (settings, expected) = rest.rsplit_once(": ").unwrap();
            let settings: Value = serde_json::from_str(settings).unwrap();
            let actual =
                factors(json!({"lr_scheduler_type": name, "lr_scheduler_kwargs": settings}), 12);
            let expected: Vec<f64> =
                expected.split(' ').map(|factor| factor.parse().unwrap()).collect();
            assert_eq!(expected.len(), 12);
            let is_close = actual.iter().zip(&expected).all(|(a, b)| (a - b).abs() < 1e-8);
            assert!(is_close, "{name} {settings}: {actual:?}, not {expected:?}");
        }
    }

    #[test]
    fn a_run_shorter_than_its_warm_up_only_rises() {
        let arguments = resolve(json!({"warmup_steps": 100}));
        assert_eq!(LearningRateSchedule::new(&arguments, 10).factor(4), 0.04);
        assert_eq!(factors(json!({"lr_scheduler_type": "linear"}), 13)[12], 0.0);
    }

    #[test]
    fn warm_up_and_decay_may_be_fractions_of_all_steps() {
        for (values, steps) in [
            (json!({"warmup_steps": 0.1}), 3),
            (json!({"warmup_steps": 7}), 7),
            (json!({"warmup_ratio": 0.1}), 3),
        ] {
            assert_eq!(warmup_steps(&resolve(values), 25), steps);
        }
        let decay = |steps: f64| {
            let settings = json!({"num_decay_steps": steps});
            factors(
                json!({
                    "lr_scheduler_type": "warmup_stable_decay", "lr_scheduler_kwargs": settings,
                }),
                10,
            )
        };
        assert_eq!(decay(0.4), decay(4.0));
    }

    #[test]
    fn reduce_lr_on_plateau_is_pytorchs() {
        let settings =
            json!({"factor": 0.5, "patience": 1, "cooldown": 1, "min_lr": 1e-4, "threshold": 0.01});
        let arguments = resolve(json!({
            "learning_rate": 1e-3, "eval_strategy": "epoch",
            "lr_scheduler_type": "reduce_lr_on_plateau", "lr_scheduler_kwargs": settings,
        }));
        let (schedule, mut plateau) =
            (LearningRateSchedule::new(&arguments, 100), PlateauState::default());
        let losses = [1.0, 0.9, 0.895, f64::NAN, 0.95, 0.94, 0.93, 0.93, 0.5];
        let rates: Vec<f64> = losses
            .into_iter()
            .chain([0.6; 8])
            .map(|loss| {
                let watched = Watched { value: loss, maximize: false, is_of_metric: false };
                schedule.observe(watched, &mut plateau);
                schedule.learning_rate(0, &plateau)
            })
            .collect();
        let expected = [
            0.001, 0.001, 0.001, 0.0005, 0.0005, 0.0005, 0.00025, 0.00025, 0.00025, 0.00025,
            0.000125, 0.000125, 0.000125, 0.0001, 0.0001, 0.0001, 0.0001,
        ];
        assert!(rates.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-12), "{rates:?}");
        // `mode="max"`: two accuracies that are not 1 % better than .5 halve the rate.
        let mut plateau = PlateauState::default();
        let rates: Vec<f64> = [0.4, 0.5, 0.504, 0.3, 0.6]
            .into_iter()
            .map(|accuracy| {
                let watched = Watched { value: accuracy, maximize: true, is_of_metric: true };
                schedule.observe(watched, &mut plateau);
                schedule.learning_rate(0, &plateau)
            })
            .collect();
        assert_eq!(rates, [0.001, 0.001, 0.001, 0.0005, 0.0005]);
    }
}
