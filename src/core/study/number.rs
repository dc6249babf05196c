//! Numbers of trials and of their attempts.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A trial's number in its study, from 0.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct TrialNumber(pub u64);

impl TrialNumber {
    /// As an index into the trials of a study.
    pub fn index(self) -> usize {
        usize::try_from(self.0).expect("trial numbers are indices of a vector in memory")
    }
}

impl fmt::Display for TrialNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The how-manieth start of a trial, from 0.
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
