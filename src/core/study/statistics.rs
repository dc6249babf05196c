//! Statistics of several runs of one configuration: mean, standard deviation and confidence
//! interval.

use serde::{Deserialize, Serialize};

use crate::study::metric::lossless;

/// The mean, which is finite if all values are; `None` if there are none.
#[expect(clippy::cast_precision_loss, reason = "a number of reports or runs")]
pub fn mean(values: impl Iterator<Item = f64> + Clone) -> Option<f64> {
    let count = Some(values.clone().count()).filter(|count| *count > 0)? as f64;
    let plain = values.clone().sum::<f64>() / count;
    let has_overflowed = !plain.is_finite() && values.clone().all(f64::is_finite);
    if !has_overflowed {
        return Some(plain);
    }
    let (low, high) = values
        .clone()
        .fold((f64::MAX, f64::MIN), |(low, high), value| (low.min(value), high.max(value)));
    // Rounded parts of the largest number may still add to more.
    Some(values.map(|value| value / count).sum::<f64>().clamp(low, high))
}

/// Mean and standard deviation of runs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Statistics {
    /// Number of runs.
    pub runs: u64,
    /// Their mean; NaN if one of them is.
    #[serde(with = "lossless")]
    pub mean: f64,
    /// The standard deviation, estimated with `runs - 1`; 0 for a single run.
    #[serde(with = "lossless")]
    pub deviation: f64,
}

impl Statistics {
    /// Of these values; `None` if there are none.
    #[expect(clippy::cast_precision_loss, reason = "runs of one configuration are few")]
    pub fn of(values: &[f64]) -> Option<Statistics> {
        let runs = values.len() as f64;
        // The mean of equal values is that value, to the last bit.
        let first = *values.first()?;
        let centred = first + values.iter().map(|value| value - first).sum::<f64>() / runs;
        let mean = if centred.is_finite() { centred } else { mean(values.iter().copied())? };
        let deviation = |scale: f64| {
            let squares = values.iter().map(|value| (value / scale - mean / scale).powi(2));
            (squares.sum::<f64>() / (runs - 1.0)).sqrt() * scale
        };
        let deviation = match deviation(1.0) {
            _ if values.len() == 1 => 0.0,
            // The squares of finite values overflow.
            overflowed if overflowed.is_infinite() && values.iter().all(|one| one.is_finite()) => {
                let largest = values.iter().fold(0.0_f64, |largest, one| largest.max(one.abs()));
                deviation(largest).min(f64::MAX)
            }
            deviation => deviation,
        };
        Some(Statistics { runs: values.len() as u64, mean, deviation })
    }

    /// Half the width of the confidence interval of the mean at `level`, by Student's t; `None` for
    /// fewer than two runs.
    #[expect(clippy::cast_precision_loss, reason = "runs of one configuration are few")]
    pub fn half_width(&self, level: f64) -> Option<f64> {
        (self.runs > 1).then(|| {
            student_quantile(level, self.runs - 1) * self.deviation / (self.runs as f64).sqrt()
        })
    }
}

/// P(|T| <= t) for Student's t with `freedom` degrees of freedom: the finite sums 26.7.3 and 26.7.4
/// of Abramowitz and Stegun.
#[expect(clippy::cast_precision_loss, reason = "runs of one configuration are few")]
pub fn student(t: f64, freedom: u64) -> f64 {
    let t = t.abs();
    if freedom == 0 || t.is_nan() {
        return 0.0;
    }
    if t.is_infinite() {
        return 1.0;
    }
    let nu = freedom as f64;
    let cosine = 1.0 / (1.0 + t * t / nu).sqrt();
    let sine = t / nu.sqrt() * cosine;
    let is_odd = freedom % 2 == 1;
    // Odd: 1 + 2/3 cos^2 + (2*4)/(3*5) cos^4 + ..; even: 1 + 1/2 cos^2 + (1*3)/(2*4) cos^4 + ..
    let (mut term, mut sum) = (1.0, if freedom > 1 { 1.0 } else { 0.0 });
    let mut above = if is_odd { 2.0 } else { 1.0 };
    while above <= nu - 3.0 {
        term *= above / (above + 1.0) * cosine * cosine;
        sum += term;
        above += 2.0;
    }
    if is_odd {
        std::f64::consts::FRAC_2_PI * (libm::atan(t / nu.sqrt()) + sine * cosine * sum)
    } else {
        sine * sum
    }
}

/// The quantile: the t with P(|T| <= t) = `level`.
pub fn student_quantile(level: f64, freedom: u64) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    while student(high, freedom) < level && high < 1e12 {
        high *= 2.0;
    }
    for _ in 0..200 {
        let middle = f64::midpoint(low, high);
        if student(middle, freedom) < level { low = middle } else { high = middle }
    }
    high
}

/// The p-value of the one-sided paired t test that the mean difference is above 0. 1 for fewer than
/// two differences; 0 if all are equal and above 0.
#[expect(clippy::cast_precision_loss, reason = "runs of one configuration are few")]
pub fn chance_of_above_zero(differences: &[f64]) -> f64 {
    let Some(Statistics { runs, mean, deviation }) =
        Statistics::of(differences).filter(|statistics| statistics.runs > 1)
    else {
        return 1.0;
    };
    if mean.is_nan() || deviation.is_nan() {
        return 1.0;
    }
    if deviation == 0.0 {
        return if mean > 0.0 { 0.0 } else { 1.0 };
    }
    let within = student(mean / deviation * (runs as f64).sqrt(), runs - 1);
    if mean > 0.0 { (1.0 - within) / 2.0 } else { f64::midpoint(1.0, within) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_and_the_deviation_of_finite_values_are_finite() {
        let of = |values: &[f64]| mean(values.iter().copied());
        assert_eq!(
            (of(&[]), of(&[1.0, 2.0]), of(&[f64::MAX; 3])),
            (None, Some(1.5), Some(f64::MAX))
        );
        assert_eq!(of(&[1e308, 1e308, 5e-324, -0.0]), Some(5e307));
        assert_eq!(
            (of(&[1.0, f64::INFINITY]), of(&[-f64::MAX; 7])),
            (Some(f64::INFINITY), Some(f64::MIN))
        );
        assert!(of(&[f64::INFINITY, f64::NEG_INFINITY]).is_some_and(f64::is_nan));
        let runs = Statistics::of(&[1e308, 1e308, -1e308]).unwrap();
        assert!((runs.mean / 1e308 - 1.0 / 3.0).abs() < 1e-15, "{runs:?}");
        assert!((runs.deviation / 1e308 - (4.0_f64 / 3.0).sqrt()).abs() < 1e-15, "{runs:?}");
        let small = Statistics::of(&[-1e200, 1e200]).unwrap();
        assert!((small.deviation / 1e200 - 2.0_f64.sqrt()).abs() < 1e-15, "{small:?}");
        let widest = Statistics::of(&[f64::MAX, f64::MIN]).unwrap();
        assert_eq!((widest.mean, widest.deviation), (0.0, f64::MAX));
        // As before.
        let infinite = Statistics::of(&[1.0, f64::INFINITY]).unwrap();
        assert_eq!((infinite.mean, infinite.deviation.is_nan()), (f64::INFINITY, true));
    }

    #[test]
    fn quantiles_are_those_of_the_tables() {
        // Two-sided 95 % and 99 %, from Abramowitz and Stegun, table 26.10.
        let table = [
            (1, 12.706, 63.657),
            (2, 4.303, 9.925),
            (3, 3.182, 5.841),
            (4, 2.776, 4.604),
            (9, 2.262, 3.250),
            (30, 2.042, 2.750),
        ];
        for (freedom, wide, wider) in table {
            for (level, expected) in [(0.95, wide), (0.99, wider)] {
                let found = student_quantile(level, freedom);
                assert!((found - expected).abs() < 6e-4, "{level} {freedom}: {found}");
            }
        }
    }

    #[test]
    fn a_sample_has_the_mean_and_deviation_of_its_values() {
        let statistics = Statistics::of(&[2.0, 4.0, 4.0, 6.0]).unwrap();
        assert_eq!((statistics.runs, statistics.mean), (4, 4.0));
        assert!((statistics.deviation - (8.0f64 / 3.0).sqrt()).abs() < 1e-15);
        // 3.182 * 1.633 / 2
        assert!((statistics.half_width(0.95).unwrap() - 2.598).abs() < 1e-3);
        let same = Statistics::of(&[0.1; 7]).unwrap();
        assert_eq!((same.mean, same.deviation), (0.1, 0.0));
        assert!(Statistics::of(&[]).is_none());
        assert_eq!(Statistics::of(&[1.0]).unwrap().half_width(0.95), None);
        assert!(Statistics::of(&[1.0, f64::NAN]).unwrap().mean.is_nan());
        assert_eq!(Statistics::of(&[f64::INFINITY, 1.0]).unwrap().mean, f64::INFINITY);
    }

    #[test]
    fn a_difference_is_as_likely_as_the_t_test_says() {
        // R: t.test(c(0.1, 0.2, 0.15), alternative = "greater")$p.value
        let above = chance_of_above_zero(&[0.1, 0.2, 0.15]);
        assert!((above - 0.017_547).abs() < 1e-4, "{above}");
        let symmetric = chance_of_above_zero(&[-0.1, -0.2, -0.15]) + above;
        assert!((symmetric - 1.0).abs() < 1e-12);
        assert_eq!(chance_of_above_zero(&[0.2, 0.2, 0.2]), 0.0);
        for uncertain in [&[0.0, 0.0][..], &[0.4], &[f64::NAN, 0.4]] {
            assert_eq!(chance_of_above_zero(uncertain), 1.0, "{uncertain:?}");
        }
    }
}
