//! The learning rate's course over the optimiser steps, after transformers' formulas.

use crate::arguments::{Schedule, TrainerArguments};

/// The factor on the peak learning rate for optimiser step `step` (counted from 0) of `total`, after `warmup` steps of linear warm-up; `least` is
/// where cosines end.
///
/// Source: `transformers/optimization.py`, `_get_linear_schedule_with_warmup_lr_lambda` and its neighbours.
pub(super) fn factor(schedule: Schedule, step: u64, warmup: u64, total: u64, least: f64) -> f64 {
    if schedule == Schedule::Constant {
        return 1.0;
    }
    if step < warmup {
        return real(step) / real(warmup.max(1));
    }
    let after = real(total.saturating_sub(warmup).max(1));
    match schedule {
        Schedule::Linear => real(total.saturating_sub(step)) / after,
        Schedule::Cosine | Schedule::CosineWithMinLr => {
            let progress = real(step - warmup) / after;
            let cosine = 0.5 * (1.0 + (std::f64::consts::PI * progress).cos());
            (cosine * (1.0 - least) + least).max(0.0)
        }
        Schedule::Constant | Schedule::ConstantWithWarmup => 1.0,
    }
}

/// The factor that cosines end at.
pub(super) fn least(arguments: &TrainerArguments) -> f64 {
    let ends = arguments.lr_scheduler_kwargs;
    match arguments.lr_scheduler_type {
        Schedule::CosineWithMinLr => ends.min_lr_rate.or(ends.min_lr.map(|rate| rate / arguments.learning_rate)).unwrap_or(0.0),
        _ => 0.0,
    }
}

/// Steps of warm-up in a run of `total` optimiser steps.
pub(super) fn warmup_steps(arguments: &TrainerArguments, total: u64) -> u64 {
    let steps = if arguments.warmup_steps >= 1.0 {
        arguments.warmup_steps
    } else if arguments.warmup_steps > 0.0 {
        (real(total) * arguments.warmup_steps).ceil()
    } else {
        (real(total) * arguments.warmup_ratio).ceil()
    };
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "not negative and far below 2^53")]
    let steps = steps as u64;
    steps
}

fn real(count: u64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "step counts are far below 2^53")]
    let count = count as f64;
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    fn course(schedule: Schedule) -> Vec<f64> {
        (0..10).map(|step| factor(schedule, step, 2, 10, 0.0)).collect()
    }

    fn close(actual: &[f64], expected: &[f64]) {
        assert!(actual.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-6), "{actual:?}");
    }

    #[test]
    fn linear_is_transformers_get_linear_schedule_with_warmup() {
        // num_warmup_steps 2, num_training_steps 10, as in transformers' own test with peak 10.
        close(&course(Schedule::Linear), &[0.0, 0.5, 1.0, 0.875, 0.75, 0.625, 0.5, 0.375, 0.25, 0.125]);
    }

    #[test]
    fn cosine_is_transformers_get_cosine_schedule_with_warmup() {
        let expected = [0.0, 0.5, 1.0, 0.961_939_8, 0.853_553_4, 0.691_341_7, 0.5, 0.308_658_3, 0.146_446_6, 0.038_060_2];
        close(&course(Schedule::Cosine), &expected);
    }

    #[test]
    fn cosine_with_min_lr_ends_there_whichever_way_it_is_said() {
        let resolve = |ends: serde_json::Value| {
            let values = serde_json::json!({"lr_scheduler_type": "cosine_with_min_lr", "learning_rate": 1e-3, "lr_scheduler_kwargs": ends});
            least(&TrainerArguments::resolve(&serde_json::from_value(values).unwrap()).unwrap())
        };
        let (rate, share) = (resolve(serde_json::json!({"min_lr": 1e-4})), resolve(serde_json::json!({"min_lr_rate": 0.1})));
        assert!((rate - 0.1).abs() < 1e-12 && (share - 0.1).abs() < 1e-12);
        // get_cosine_with_min_lr_schedule_with_warmup(2, 10, min_lr_rate=0.1) half way: 0.55.
        assert!((factor(Schedule::CosineWithMinLr, 6, 2, 10, 0.1) - 0.55).abs() < 1e-12);
        assert!((factor(Schedule::CosineWithMinLr, 10, 2, 10, 0.1) - 0.1).abs() < 1e-12);
    }

    #[test]
    fn constant_with_warmup_rises_and_stays_and_constant_has_no_warm_up() {
        close(&course(Schedule::ConstantWithWarmup), &[0.0, 0.5, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]);
        close(&course(Schedule::Constant), &[1.0; 10]);
    }

    #[test]
    fn a_run_shorter_than_its_warm_up_only_rises() {
        assert_eq!(factor(Schedule::Linear, 4, 100, 10, 0.0), 0.04);
        assert_eq!(factor(Schedule::Linear, 12, 2, 10, 0.0), 0.0);
    }

    #[test]
    fn warm_up_may_be_a_share_of_all_steps() {
        let resolve = |key: &str, value: serde_json::Value| TrainerArguments::resolve(&[(key.to_owned(), value)].into()).unwrap();
        assert_eq!(warmup_steps(&resolve("warmup_steps", 0.1.into()), 25), 3);
        assert_eq!(warmup_steps(&resolve("warmup_steps", 7.into()), 25), 7);
        assert_eq!(warmup_steps(&resolve("warmup_ratio", 0.1.into()), 25), 3);
    }
}
