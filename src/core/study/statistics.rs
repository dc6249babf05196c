//! Statistics of several runs of one configuration: mean, standard deviation and confidence
//! interval.

use serde::{Deserialize, Serialize};

use crate::study::metric::lossless;

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
        let mean = first + values.iter().map(|value| value - first).sum::<f64>() / runs;
        let mean = if mean.is_nan() { values.iter().sum::<f64>() / runs } else { mean };
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        let deviation = if values.len() > 1 { (squares / (runs - 1.0)).sqrt() } else { 0.0 };
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
