//! By how much intervals are widened so that nine in ten known values lie in theirs.

use crate::samplers::normal::NINETY;

/// The factor of half the width of intervals of 90 %, at least 1: the quantile of split conformal
/// prediction (Lei et al., "Distribution-free predictive inference for regression", 2018, algorithm
/// 2) of the standardized `residuals` of known values, each predicted without itself.
pub(super) fn widening(residuals: impl Iterator<Item = f64>) -> f64 {
    let mut sizes: Vec<f64> = residuals.map(f64::abs).filter(|size| size.is_finite()).collect();
    sizes.sort_by(f64::total_cmp);
    let rank = ((sizes.len() + 1) * 9).div_ceil(10).min(sizes.len());
    rank.checked_sub(1).map_or(1.0, |at| (sizes[at] / NINETY).max(1.0))
}

/// The further factor while few values are known. Hyperparameters that are fitted to them, and the
/// choice of the point that promises most, make predictions too certain: the widths that nine in
/// ten values need, in the measurement of `a_few_values_widen_intervals`.
pub(super) fn for_few(is_measured: &[bool]) -> f64 {
    let known = is_measured.iter().filter(|is_measured| **is_measured).count().max(1);
    #[expect(clippy::cast_precision_loss, reason = "a number of trials")]
    let share = 16.0 / known as f64;
    1.0 + share * share
}
