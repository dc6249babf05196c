//! The outcome of a trial.

use super::params::Params;
use super::time::Timestamp;
use super::trial::{TrialNumber, TrialState};

/// A trial without its curve and texts: small enough to keep a whole study in memory.
#[derive(Clone, Debug, PartialEq)]
pub struct TrialSummary {
    /// Its number.
    pub number: TrialNumber,
    /// Its state.
    pub state: TrialState,
    /// Its value: set exactly if complete in a study of one objective. NaN is a value.
    pub value: Option<f64>,
    /// Its values in a study of several objectives: set exactly if complete.
    pub values: Vec<f64>,
    /// By how much it violates the study's limits; `None` if feasible.
    pub violation: Option<f64>,
    /// Step of the last report of the study's metric.
    pub last_step: Option<u64>,
    /// Value of that report.
    pub last_value: Option<f64>,
    /// Its active parameters; of a member of a population those that its value, or else its last
    /// value, was measured with.
    pub params: Params,
    /// Seconds spent in attempts that have ended.
    pub seconds: f64,
    /// When it was created.
    pub created: Timestamp,
    /// When it finished.
    pub finished: Option<Timestamp>,
    /// Whether it is hidden.
    pub hidden: bool,
}

impl TrialSummary {
    /// As of a study of one of its several objectives alone.
    #[must_use]
    pub fn by_objective(&self, index: usize) -> TrialSummary {
        TrialSummary {
            value: self.values.get(index).copied(),
            values: Vec::new(),
            // The last report is that of the first objective.
            last_value: self.last_value.filter(|_| index == 0),
            ..self.clone()
        }
    }
}
