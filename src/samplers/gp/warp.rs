//! Losses on a scale where they look normal: the Yeo-Johnson transformation, fitted to them.

/// Takes a loss to where the process models it, with mean 0 and deviation 1 over the losses that it was fitted to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Warp {
    centre: f64,
    scale: f64,
    power: f64,
    mean: f64,
    deviation: f64,
}

impl Warp {
    /// The warp of some finite losses: median and quartiles bring them near 0, then the power is the most likely one.
    pub fn fit(losses: &[f64]) -> Warp {
        let mut sorted = losses.to_vec();
        sorted.sort_by(f64::total_cmp);
        let at = |share: usize| sorted.get((sorted.len().max(1) - 1) * share / 4).copied().unwrap_or(0.0);
        let centre = at(2);
        let span = at(3) - at(1);
        let span = if span > 0.0 { span } else { at(4) - at(0) };
        let scale = if span.is_finite() && span > 0.0 { span / 1.349 } else { 1.0 };
        let start = Warp { centre, scale, power: 1.0, mean: 0.0, deviation: 1.0 };
        // Powers beyond these ends would follow single values.
        let powers = (0..=24).map(|step| -1.0 + 0.125 * f64::from(step));
        let fitted = powers.map(|power| start.with(power, losses)).max_by(|a, b| a.1.total_cmp(&b.1));
        fitted.map_or(start, |(warp, _)| warp)
    }

    /// The warp of this power, and its log likelihood.
    #[expect(clippy::cast_precision_loss, reason = "a number of trials")]
    fn with(self, power: f64, losses: &[f64]) -> (Warp, f64) {
        let raw = Warp { power, ..self };
        let count = losses.len().max(1) as f64;
        let warped: Vec<f64> = losses.iter().map(|loss| raw.of(*loss)).collect();
        let mean = warped.iter().sum::<f64>() / count;
        let variance = (warped.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / count).max(1e-20);
        let jacobian: f64 = losses
            .iter()
            .map(|loss| {
                let x = (loss - self.centre) / self.scale;
                x.signum() * x.abs().ln_1p()
            })
            .sum();
        let likelihood = -0.5 * count * variance.ln() + (power - 1.0) * jacobian;
        let likelihood = if likelihood.is_finite() { likelihood } else { f64::NEG_INFINITY };
        (Warp { mean, deviation: variance.sqrt().max(1e-10), ..raw }, likelihood)
    }

    /// A loss, warped.
    pub fn of(&self, loss: f64) -> f64 {
        let x = (loss - self.centre) / self.scale;
        let warped = if x >= 0.0 {
            if self.power.abs() < 1e-9 { x.ln_1p() } else { (x.ln_1p() * self.power).exp_m1() / self.power }
        } else {
            let other = 2.0 - self.power;
            if other.abs() < 1e-9 { -(-x).ln_1p() } else { -((-x).ln_1p() * other).exp_m1() / other }
        };
        (warped - self.mean) / self.deviation
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_over_many_orders_of_magnitude_become_even() {
        let losses: Vec<f64> = (0..60).map(|index| 10f64.powf(f64::from(index) / 10.0 - 3.0)).collect();
        let warp = Warp::fit(&losses);
        let warped: Vec<f64> = losses.iter().map(|loss| warp.of(*loss)).collect();
        assert!(warped.windows(2).all(|pair| pair[0] < pair[1]));
        let largest = warped.iter().copied().fold(0.0, |most: f64, value| most.max(value.abs()));
        assert!(largest < 2.6, "{largest}");
    }

    #[test]
    fn normal_losses_stay_as_they_are_and_equal_ones_do_no_harm() {
        let losses: Vec<f64> = (0..50).map(|index| (f64::from(index) - 24.5) / 10.0).collect();
        let warp = Warp::fit(&losses);
        assert!((warp.power - 1.0).abs() < 1e-9, "{warp:?}");
        assert!(Warp::fit(&[3.0; 9]).of(3.0).is_finite());
        assert!(Warp::fit(&[1e300, -1e300, 0.0]).of(1e300).is_finite());
        assert!(Warp::fit(&[]).of(1.0).is_finite());
    }
}
