//! Why a search stopped early: `budget.target` or `budget.patience`.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::study::counted::count;
use crate::study::metric::{Number, lossless};
use crate::study::serialized::numbers;
use crate::study::trial::TrialNumber;

/// The goal that a study has reached, with its numbers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Goal {
    /// A trial is as good as the target.
    Target {
        /// The trial.
        trial: TrialNumber,
        /// Its value.
        #[serde(with = "lossless")]
        value: f64,
        /// The target.
        #[serde(with = "lossless")]
        target: f64,
    },
    /// Nothing was better than the best trial for long.
    Patience {
        /// The best trial.
        trial: TrialNumber,
        /// The number of trials that ended since.
        trials: u64,
    },
    /// The hypervolume of the front of several objectives is as large as the target.
    Hypervolume {
        /// The trials of the front.
        front: Vec<TrialNumber>,
        /// Their hypervolume.
        #[serde(with = "lossless")]
        hypervolume: f64,
        /// Up to this point, as values.
        #[serde(with = "numbers")]
        reference: Vec<f64>,
        /// The target.
        #[serde(with = "lossless")]
        target: f64,
    },
    /// Nothing joined the front of several objectives for long.
    FrontPatience {
        /// The newest trial of the front.
        trial: TrialNumber,
        /// The number of trials that ended since.
        trials: u64,
    },
}

impl fmt::Display for Goal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Goal::Target { trial, value, target } => {
                let (value, target) = (Number(*value), Number(*target));
                write!(f, "trial {trial} reached the target: {value} against {target}")
            }
            Goal::Patience { trial, trials } => {
                let were = if *trials == 1 { "was" } else { "were" };
                let ended = count(*trials, "trial");
                write!(f, "{ended} since trial {trial} {were} not better (budget.patience)")
            }
            Goal::Hypervolume { hypervolume, target, .. } => {
                let (volume, target) = (Number(*hypervolume), Number(*target));
                write!(f, "the front's hypervolume reached the target: {volume} against {target}")
            }
            Goal::FrontPatience { trial, trials } => {
                let ended = count(*trials, "trial");
                write!(f, "{ended} since trial {trial} did not join the front (budget.patience)")
            }
        }
    }
}
