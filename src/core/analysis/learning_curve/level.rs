//! How ends depend on the value at one step.

use super::{End, MOST_LEVERAGE, mean};

/// How many trials it is worth, before any continued, that differences stay as they are to the end.
const WORTH: f64 = 4.0;
/// The deviation of what is left to gain, of that of the values, while no trial has shown it; worth
/// three trials.
const DOUBT: f64 = 0.5;

/// A line through values and ends.
#[derive(Clone, Debug)]
pub(super) struct Level {
    /// Values are around here, and ends so far from them.
    centre: f64,
    gain: f64,
    /// What a difference of values leaves of itself to the end.
    slope: f64,
    /// The worst value of a trial that continued: beyond it differences stay as they are.
    edge: f64,
    variance: f64,
    /// By how much each end is missed by the line through the others.
    pub left_out: Vec<f64>,
}

impl Level {
    /// From the values and ends of those that continued; `doubt`: the variance of the ends
    /// themselves.
    #[expect(clippy::cast_precision_loss, reason = "a number of trials")]
    pub fn learned(values: &[f64], ends: &[f64], doubt: f64) -> Self {
        let count = values.len() as f64;
        let (centre, middle) = (mean(values), mean(ends));
        let spread = values.iter().map(|value| (value - centre).powi(2)).sum::<f64>();
        let product = values
            .iter()
            .zip(ends)
            .map(|(value, end)| (value - centre) * (end - middle - (value - centre)))
            .sum::<f64>();
        // Ridge towards a slope of 1, worth `WORTH` trials of mean spread.
        let shrunk = spread * (1.0 + WORTH / count.max(1.0));
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
        let unknown = DOUBT * DOUBT * spread / count.max(1.0);
        let squares = missed.iter().map(|missed| missed * missed).sum::<f64>();
        let variance = (squares + 3.0 * unknown) / ((count - 2.0).max(0.0) + 3.0) + doubt;
        let edge = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        Level { centre, gain: middle - centre, slope, edge, variance, left_out }
    }

    /// The end of a trial with this value.
    pub fn end(&self, value: f64) -> End {
        // Nobody continued: what there is stays.
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
