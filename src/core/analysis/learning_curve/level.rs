//! Regression of final losses on the value at one step.

use super::{End, MOST_LEVERAGE, mean};

/// Weight, in trials, of the prior that differences persist to the end.
const PRIOR_WEIGHT: f64 = 4.0;
/// Prior deviation of the remaining gain, relative to that of the values; weighs three trials.
const PRIOR_DEVIATION: f64 = 0.5;

/// A line through values and ends.
#[derive(Clone, Debug)]
pub(super) struct Level {
    /// Centre of the values, and offset of the final losses.
    centre: f64,
    gain: f64,
    /// The share of a difference in value that persists to the end.
    slope: f64,
    /// The worst value of a trial that continued: beyond it differences persist in full.
    edge: f64,
    variance: f64,
    /// Leave-one-out residuals.
    pub left_out: Vec<f64>,
}

impl Level {
    /// Fits the values and final losses of trials that continued; `noise_variance`: the variance of
    /// the final losses themselves.
    #[expect(clippy::cast_precision_loss, reason = "a number of trials")]
    pub fn learned(values: &[f64], ends: &[f64], noise_variance: f64) -> Self {
        let count = values.len() as f64;
        let (centre, middle) = (mean(values), mean(ends));
        let spread = values.iter().map(|value| (value - centre).powi(2)).sum::<f64>();
        let product = values
            .iter()
            .zip(ends)
            .map(|(value, end)| (value - centre) * (end - middle - (value - centre)))
            .sum::<f64>();
        // Ridge towards a slope of 1, worth `PRIOR_WEIGHT` trials of mean spread.
        let shrunk = spread * (1.0 + PRIOR_WEIGHT / count.max(1.0));
        let slope = (1.0 + if spread > 0.0 { product / shrunk } else { 0.0 }).clamp(0.0, 1.5);
        let missed: Vec<f64> = values
            .iter()
            .zip(ends)
            .map(|(value, end)| end - middle - slope * (value - centre))
            .collect();
        let leverage = |value: &f64| {
            1.0 / count + if spread > 0.0 { (value - centre).powi(2) / shrunk } else { 0.0 }
        };
        let left_out = values
            .iter()
            .zip(&missed)
            .map(|(value, missed)| missed / (1.0 - leverage(value).min(MOST_LEVERAGE)))
            .collect();
        let unknown = PRIOR_DEVIATION * PRIOR_DEVIATION * spread / count.max(1.0);
        let squares = missed.iter().map(|missed| missed * missed).sum::<f64>();
        let variance = (squares + 3.0 * unknown) / ((count - 2.0).max(0.0) + 3.0) + noise_variance;
        let edge = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        Level { centre, gain: middle - centre, slope, edge, variance, left_out }
    }

    /// Forecasts the final loss of a trial with this value.
    pub fn end(&self, value: f64) -> End {
        // No trial continued: values persist.
        if self.edge == f64::NEG_INFINITY {
            return End { loss: value, variance: 0.0 };
        }
        let within = value.min(self.edge);
        End {
            loss: self.centre + self.gain + self.slope * (within - self.centre) + (value - within),
            variance: self.variance,
        }
    }
}
