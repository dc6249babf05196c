//! The value that a sampler's model predicted of a configuration when it proposed it.

use serde::{Deserialize, Serialize};

/// What was predicted of a trial's value, in the study's metric; all numbers are finite.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Prediction {
    /// The median.
    pub median: f64,
    /// The lower end of the interval in which nine in ten such values should lie.
    pub low: f64,
    /// Its upper end.
    pub high: f64,
}
