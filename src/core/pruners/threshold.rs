//! The threshold rule: a trial whose report is NaN or outside fixed bounds stops.

use super::interval::{INTERVAL_STEPS, Interval, N_WARMUP_STEPS};
use super::{Case, Pruner, PrunerEntry};
use crate::study::decision::{Bound, Decision, Reason};
use crate::study::field::{Field, FieldDefault, NUMBER, field};
use crate::study::metric::Number;
use crate::study::registry::{Consequence, RegistryError};
use crate::study::spec::{AlgorithmSpec, Milestones};

const LOWER: Field = field(
    "lower",
    NUMBER,
    FieldDefault::Derived("none"),
    "a trial that reports less stops, whichever direction is better",
);

const UPPER: Field = field(
    "upper",
    NUMBER,
    FieldDefault::Derived("none"),
    "a trial that reports more stops, whichever direction is better",
);

pub(super) const ENTRY: PrunerEntry = PrunerEntry {
    name: "threshold",
    aliases: &[],
    summary: "stops a trial whose report is NaN, below `lower` or above `upper`",
    version: 1,
    oldest: 1,
    options: &[LOWER, UPPER, N_WARMUP_STEPS, INTERVAL_STEPS],
    several: false,
    build: |spec, _| Ok(Box::new(ThresholdRule::new(spec)?)),
};

/// Optuna's `ThresholdPruner`: only the report itself is judged; the bounds are inclusive. Without
/// bounds, which Optuna rejects, only NaN stops a trial.
#[derive(Clone, Copy, Debug)]
pub struct ThresholdRule {
    lower: f64,
    upper: f64,
    interval: Interval,
}

impl ThresholdRule {
    /// From checked options. An error where no value lies between the bounds.
    pub fn new(spec: &AlgorithmSpec) -> Result<Self, RegistryError> {
        let lower = LOWER.of::<Option<f64>>(spec).unwrap_or(f64::NEG_INFINITY);
        let upper = UPPER.of::<Option<f64>>(spec).unwrap_or(f64::INFINITY);
        if lower > upper {
            return Err(RegistryError::Option {
                algorithm: ENTRY.name.to_owned(),
                option: "lower".to_owned(),
                why: format!("`{lower}` is above `upper`, which is `{upper}`"),
                consequence: Some(Consequence::EveryTrialStops),
            });
        }
        Ok(ThresholdRule { lower, upper, interval: Interval::new(spec) })
    }
}

impl Pruner for ThresholdRule {
    fn judge(&self, case: &Case<'_>) -> Decision {
        let Case { history, trial, step, .. } = *case;
        let at = history.step_unit().at(step);
        let report = trial.curve.iter().rev().find(|(at, _)| *at == step);
        let Some((_, value)) = report.filter(|_| self.interval.is_due(trial, step)) else {
            return Decision::CONTINUE;
        };
        let stop = |bound, threshold| {
            let (value, threshold) = (Number(*value), Number(threshold));
            Decision::Stop(Reason::Threshold { value, bound, threshold, at })
        };
        if value.is_nan() {
            Decision::Stop(Reason::Nan { at })
        } else if *value < self.lower {
            stop(Bound::Lower, self.lower)
        } else if *value > self.upper {
            stop(Bound::Upper, self.upper)
        } else {
            Decision::CONTINUE
        }
    }

    fn milestones(&self, _budget: Option<u64>) -> Milestones {
        self.interval.milestones()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pruners::conformance;
    use crate::study::metric::Direction;

    fn judge(options: &[(&str, f64)], curve: &[(u64, f64)], direction: Direction) -> Decision {
        let spec = ENTRY.defaults().with("n_warmup_steps", 2);
        let spec = options.iter().fold(spec, |spec, (key, value)| spec.with(key, *value));
        let (rule, step) = (ThresholdRule::new(&spec).unwrap(), curve.last().unwrap().0);
        conformance::judge(&rule, &[], curve, step, direction)
    }

    #[test]
    fn bounds_are_values_and_not_losses_and_lie_within_themselves() {
        for direction in [Direction::Minimize, Direction::Maximize] {
            let word =
                |value| judge(&[("lower", -1.0), ("upper", 2.0)], &[(2, value)], direction).word();
            assert_eq!([-1.0, 2.0].map(word), ["continue"; 2]);
            let outside = [f64::NEG_INFINITY, -1.1, 2.1, f64::INFINITY, f64::NAN];
            assert_eq!(outside.map(word), ["stop"; 5]);
        }
        let stopped = judge(&[("upper", 2.0)], &[(2, 2.5)], Direction::Minimize);
        assert_eq!(stopped.in_words(), "stop: value 2.5 at step 2 is above the threshold 2");
    }

    #[test]
    fn only_the_latest_report_counts_after_the_warm_up_and_without_bounds_nan_alone_stops() {
        let judge = |options: &[_], curve: &[_]| judge(options, curve, Direction::Minimize);
        let upper = [("upper", 2.0)];
        assert_eq!(judge(&upper, &[(1, 9.0)]), Decision::CONTINUE);
        assert_eq!(judge(&upper, &[(1, 9.0), (2, 1.0)]), Decision::CONTINUE);
        assert_eq!(judge(&[], &[(2, f64::INFINITY)]), Decision::CONTINUE);
        assert_eq!(judge(&[], &[(2, f64::NAN)]).word(), "stop");
    }

    #[test]
    fn crossed_bounds_are_refused() {
        let crossed = ENTRY.defaults().with("lower", 3).with("upper", 2);
        let error = ThresholdRule::new(&crossed).unwrap_err().to_string();
        assert!(error.contains("`3` is above `upper`"), "{error}");
    }
}
