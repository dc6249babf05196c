//! Pareto fronts of several objectives, as losses: vectors of equal length, smaller is better.

use crate::study::metric::Direction;

/// Values as losses: smaller is better, NaN becomes infinity, so that it never dominates.
pub fn losses(directions: &[Direction], values: &[f64]) -> Vec<f64> {
    let loss = |(direction, value): (&Direction, &f64)| {
        let loss = direction.loss(*value);
        if loss.is_nan() { f64::INFINITY } else { loss }
    };
    directions.iter().zip(values).map(loss).collect()
}

/// Whether `a` is nowhere worse than `b`, and better somewhere.
pub fn dominates(a: &[f64], b: &[f64]) -> bool {
    let mut is_better = false;
    for (a, b) in a.iter().zip(b) {
        if a > b {
            return false;
        }
        is_better |= a < b;
    }
    is_better
}
