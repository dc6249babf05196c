//! Numbers of trials and attempts.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A trial's number in its study, from 0.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct TrialNumber(pub u64);

impl TrialNumber {
    /// As an index into a study's trials.
    pub fn index(self) -> usize {
        usize::try_from(self.0).expect("trial numbers are indices of a vector in memory")
    }
}

impl fmt::Display for TrialNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The index of an attempt, from 0: each start of a trial's process is one.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct AttemptNumber(pub u32);

impl fmt::Display for AttemptNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
