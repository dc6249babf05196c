//! An interval of optimiser steps, such as `eval_steps`.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Number;

/// A number of optimiser steps, or a share of all steps of the training.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum StepInterval {
    /// This many, at least one.
    Steps(u64),
    /// A share between 0 and 1.
    Share(f64),
}

impl StepInterval {
    /// The interval in a training of `total` steps: shares are rounded up, as in transformers'
    /// `TrainerState.compute_steps`.
    #[must_use]
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "positive and far below 2^53"
    )]
    pub fn of(self, total: u64) -> u64 {
        match self {
            Self::Steps(steps) => steps,
            Self::Share(share) => ((total as f64 * share).ceil() as u64).max(1),
        }
    }
}

impl Serialize for StepInterval {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Steps(steps) => serializer.serialize_u64(*steps),
            Self::Share(share) => serializer.serialize_f64(*share),
        }
    }
}

impl<'de> Deserialize<'de> for StepInterval {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let number = Number::deserialize(deserializer)?;
        let steps = number.as_u64().filter(|steps| *steps > 0).map(Self::Steps);
        let share = || number.as_f64().filter(|share| *share > 0.0 && *share < 1.0);
        let interval = steps.or_else(|| share().map(Self::Share));
        interval.ok_or_else(|| D::Error::custom(format!("{number} is no interval of steps")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_of_all_steps_is_rounded_up_as_transformers_rounds_it() {
        // TrainerState().compute_steps(TrainingArguments(eval_steps=share, ..), total).eval_steps
        // of transformers 5.24.
        let cases = [
            (0.1, 30, 3),
            (0.1, 31, 4),
            (0.07, 100, 8),
            (0.3, 10, 3),
            (0.29, 100, 29),
            (0.5, 7, 4),
            (0.001, 24, 1),
            (0.99, 3, 3),
        ];
        for (share, total, steps) in cases {
            assert_eq!(StepInterval::Share(share).of(total), steps, "{share} of {total}");
        }
        assert_eq!(StepInterval::Steps(7).of(3), 7);
    }

    #[test]
    fn numbers_of_steps_are_stored_as_integers() {
        for text in ["500", "0.25"] {
            let interval: StepInterval = serde_json::from_str(text).unwrap();
            assert_eq!(serde_json::to_string(&interval).unwrap(), text);
        }
        for text in ["0", "1.5", "-1", "0.0"] {
            assert!(serde_json::from_str::<StepInterval>(text).is_err(), "{text}");
        }
    }
}
