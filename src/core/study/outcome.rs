//! What became of a trial.

use super::params::Params;
use super::time::Timestamp;
use super::trial::{TrialNumber, TrialState};

/// What became of a trial, without its curve and its words: small enough to keep all of a study in
/// memory.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// Its number.
    pub number: TrialNumber,
    /// Where it stands.
    pub state: TrialState,
    /// Its value: present exactly when complete. NaN is a value.
    pub value: Option<f64>,
    /// Step of the last report of the study's metric.
    pub last_step: Option<u64>,
    /// That report.
    pub last_value: Option<f64>,
    /// Its active parameters.
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
