//! The normal distribution for samplers: log masses without cancellation, and draws.

use std::f64::consts::{PI, SQRT_2};

use rand::RngExt as _;

use crate::study::seed::StreamRng;

/// `ln(sqrt(2 pi))`.
pub(super) const LN_ROOT_TWO_PI: f64 = 0.918_938_533_204_672_8;
/// Half the width of a central interval of 90 % of a normal distribution, in deviations.
pub(super) const NINETY: f64 = 1.644_853_626_951_472_2;

/// `ln(Phi(high) - Phi(low))` for `low < high`: the standard normal mass between them.
///
/// Relative error below 1e-9 unless the mass is far below 1e-15: narrow intervals by the midpoint
/// rule with its first correction (error `h^4 / 1920`), others by `erf` on the side without
/// cancellation.
pub(super) fn log_mass(low: f64, high: f64) -> f64 {
    let width = high - low;
    if width < 0.01 {
        let middle = 0.5 * (low + high);
        let square = middle * middle;
        let correction = (square - 1.0) * width * width / 24.0;
        return width.ln() - 0.5 * square - LN_ROOT_TWO_PI + correction.ln_1p();
    }
    // By symmetry, an interval in the left half or across zero.
    let (low, high) = if low > 0.0 { (-high, -low) } else { (low, high) };
    if high < -30.0 {
        let top = log_cdf_far(high);
        return top + (-(log_cdf_far(low.max(-1e150)) - top).exp()).ln_1p();
    }
    let mass = if high <= 0.0 {
        0.5 * (libm::erfc(-high / SQRT_2) - libm::erfc(-low / SQRT_2))
    } else {
        0.5 * (libm::erf(high / SQRT_2) - libm::erf(low / SQRT_2))
    };
    mass.ln()
}

/// `ln Phi(z)` in the far left tail, by the asymptotic series.
fn log_cdf_far(z: f64) -> f64 {
    let inverse = 1.0 / (z * z);
    -0.5 * z * z - LN_ROOT_TWO_PI - (-z).ln()
        + (-inverse * (1.0 - 3.0 * inverse * (1.0 - 5.0 * inverse))).ln_1p()
}

/// `ln Phi(z)`.
pub(super) fn log_cdf(z: f64) -> f64 {
    if z < -30.0 { log_cdf_far(z) } else { cdf(z).ln() }
}

/// `Phi(z)`.
fn cdf(z: f64) -> f64 {
    0.5 * libm::erfc(-z / SQRT_2)
}

/// `ln(phi(z) + z Phi(z))`: the logarithm of expected improvement per unit of deviation, without
/// underflow (Ament et al. 2023, "Unexpected improvements to expected improvement", equation 9).
pub(super) fn log_expected_improvement(z: f64) -> f64 {
    if z > -1.0 {
        return ((-0.5 * z * z - LN_ROOT_TWO_PI).exp() + z * cdf(z)).ln();
    }
    // phi(z) (1 + z Phi(z) / phi(z)); the ratio is -(Mills' ratio), close to -1 / z for large |z|.
    let scaled = if z > -25.0 {
        let mills = (0.5 * z * z + LN_ROOT_TWO_PI).exp() * cdf(z);
        (1.0 + z * mills).max(f64::MIN_POSITIVE).ln()
    } else {
        let inverse = 1.0 / (z * z);
        inverse.ln() + (-3.0 * inverse * (1.0 - 5.0 * inverse)).ln_1p()
    };
    -0.5 * z * z - LN_ROOT_TWO_PI + scaled
}

/// A draw from the standard normal distribution (Box and Muller).
pub(super) fn draw(rng: &mut StreamRng) -> f64 {
    let radius = (-2.0 * (1.0 - rng.random::<f64>()).ln()).sqrt();
    radius * (2.0 * PI * rng.random::<f64>()).cos()
}

/// A draw from the normal distribution around `middle` (within `[0, 1]`), truncated to `[0, 1]` by
/// rejection: with `deviation <= 1` at least a third of the draws are accepted.
pub(super) fn draw_in_unit(middle: f64, deviation: f64, rng: &mut StreamRng) -> f64 {
    for _ in 0..200 {
        let position = middle + deviation * draw(rng);
        if (0.0..=1.0).contains(&position) {
            return position;
        }
    }
    middle.clamp(0.0, 1.0)
}

/// `ln(sum(exp(terms)))` without overflow; minus infinity for an empty slice.
pub(super) fn log_sum_exp(terms: &[f64]) -> f64 {
    let largest = terms.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if largest == f64::NEG_INFINITY {
        return largest;
    }
    // Terms below e^-40 of the largest do not affect sums of 1,000 terms, and `exp` dominates the
    // cost of the estimator.
    let sum: f64 = terms
        .iter()
        .map(|term| if *term > largest - 40.0 { (term - largest).exp() } else { 0.0 })
        .sum();
    largest + sum.ln()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::seed::SeedTree;

    #[test]
    fn masses_agree_with_known_values_on_every_branch() {
        // From scipy and from Optuna's own `_log_gauss_mass`.
        let known = [
            (-1.0, 1.0, -0.381_715_146_302_126_16),
            (0.0, 0.005, -6.217_260_066_412_447_6),
            (2.0, 3.0, -3.844_353_426_334_204_7),
            (-3.0, -2.0, -3.844_353_426_334_204_7),
            (8.0, 9.0, -35.013_618_593_437_144),
            (-0.3, 0.7, -0.978_305_054_906_297_6),
            (-40.0, -35.0, -616.975_101_261_922_5),
        ];
        for (low, high, value) in known {
            assert!(
                (log_mass(low, high) - value).abs() < 1e-11 * f64::abs(value),
                "{low} {high}: {}",
                log_mass(low, high)
            );
        }
        assert!((log_mass(-40.0, -35.0) - (log_cdf_far(-35.0))).abs() < 1e-12);
        assert!((log_cdf_far(-30.0) - cdf(-30.0).ln()).abs() < 1e-9);
        assert!((log_mass(-0.3, 0.7) - log_mass(-0.7, 0.3)).abs() < 1e-14);
    }

    #[test]
    fn narrow_and_wide_intervals_meet() {
        for middle in [-4.0, -0.5, 0.0, 1.3, 3.0] {
            let narrow = log_mass(middle - 0.004_999, middle + 0.004_999);
            let wide = log_mass(middle - 0.005_001, middle + 0.005_001);
            assert!((wide - narrow - (0.005_001f64 / 0.004_999).ln()).abs() < 1e-7, "{middle}");
        }
    }

    #[test]
    fn improvement_is_smooth_from_one_branch_to_the_next() {
        for edge in [-1.0, -25.0] {
            let (left, right) =
                (log_expected_improvement(edge - 1e-9), log_expected_improvement(edge + 1e-9));
            assert!((left - right).abs() < 1e-5, "{edge}: {left} {right}");
        }
        assert!((log_expected_improvement(0.0) - (1.0 / (2.0 * PI).sqrt()).ln()).abs() < 1e-12);
        assert!((log_expected_improvement(10.0) - 10f64.ln()).abs() < 1e-9);
    }

    #[test]
    fn draws_in_the_unit_interval_have_the_mean_of_the_cut_distribution() {
        let mut rng = SeedTree::new(3).stream("normal");
        let mean = (0..20_000).map(|_| draw_in_unit(0.0, 0.5, &mut rng)).sum::<f64>() / 20_000.0;
        // sigma (phi(0) - phi(2)) / (Phi(2) - Phi(0)).
        assert!((mean - 0.5 * (0.398_942 - 0.053_991) / 0.477_25).abs() < 0.006, "{mean}");
        assert!((log_sum_exp(&[1000.0, 1000.0]) - (1000.0 + std::f64::consts::LN_2)).abs() < 1e-12);
    }
}
