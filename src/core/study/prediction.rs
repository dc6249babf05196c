//! The value that a sampler's model predicted of a configuration when it proposed it.

use serde::{Deserialize, Serialize};

/// A predictive distribution of a trial's value, in the study's metric; all numbers are finite.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Prediction {
    /// The mean.
    pub mean: f64,
    /// The standard deviation, of which the noise of a measurement is a part.
    pub std: f64,
    /// The lower end of the central interval of 90 %.
    pub low: f64,
    /// Its upper end.
    pub high: f64,
}

impl Prediction {
    /// By how many standard deviations a value differs from the mean; `None` if that is no number.
    pub fn standardized(&self, value: f64) -> Option<f64> {
        let standardized = (value - self.mean) / self.std;
        standardized.is_finite().then_some(standardized)
    }
}
