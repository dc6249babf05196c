//! How targets of a process become losses again.

use super::warp::Warp;

/// Standard normal positions at which the moments of a warped distribution are summed: `LIMIT` on
/// both sides of the mean in steps of `1 / PER_UNIT`.
const LIMIT: i32 = 6;
const PER_UNIT: i32 = 10;

/// The scale of a process's targets.
#[derive(Clone, Copy, Debug)]
pub(crate) enum LossScale {
    /// Centred and scaled.
    Linear {
        /// The loss of target 0.
        mean: f64,
        /// The difference of losses whose targets differ by 1.
        deviation: f64,
    },
    /// Warped. A normal distribution has a heavy tail once it is warped back (that of a logarithm),
    /// or no moments at all (some powers are bounded): losses are clipped at one range of the known
    /// ones beyond them.
    Warped {
        /// The transformation.
        warp: Warp,
        /// The smallest and the largest known loss.
        range: (f64, f64),
    },
}

impl LossScale {
    /// The scale of warped losses.
    pub fn warped(warp: Warp, losses: &[f64]) -> Self {
        let low = losses.iter().copied().fold(f64::INFINITY, f64::min);
        let high = losses.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        LossScale::Warped { warp, range: (low, high) }
    }

    /// The loss of a target.
    pub fn loss(&self, target: f64) -> f64 {
        match self {
            LossScale::Linear { mean, deviation } => mean + deviation * target,
            LossScale::Warped { warp, range: (low, high) } => {
                let width = high - low;
                warp.inverse(target).max(low - width).min(high + width)
            }
        }
    }

    /// Mean and standard deviation of the loss whose target is normal.
    pub fn moments(&self, mean: f64, deviation: f64) -> (f64, f64) {
        if let LossScale::Linear { deviation: scale, .. } = self {
            return (self.loss(mean), scale * deviation);
        }
        let positions = || {
            (-LIMIT * PER_UNIT..=LIMIT * PER_UNIT).map(|step| {
                let z = f64::from(step) / f64::from(PER_UNIT);
                ((-0.5 * z * z).exp(), self.loss(mean + deviation * z))
            })
        };
        let total: f64 = positions().map(|(weight, _)| weight).sum();
        let centre = positions().map(|(weight, loss)| weight * loss).sum::<f64>() / total;
        let square = |(weight, loss): (f64, f64)| weight * (loss - centre) * (loss - centre);
        (centre, (positions().map(square).sum::<f64>() / total).sqrt())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_warped_normal_distribution_has_the_moments_of_its_quantiles() {
        let losses: Vec<f64> = (0..40).map(|index| (f64::from(index) / 8.0).exp()).collect();
        let warp = Warp::fit(&losses);
        let scale = LossScale::warped(warp, &losses);
        for loss in losses {
            assert!((scale.loss(warp.of(loss)) - loss).abs() < 1e-9 * loss.abs().max(1.0));
        }
        // Midpoints of equally likely parts, by bisection of the distribution function.
        let quantile = |share: f64| {
            let (mut low, mut high) = (-8.0, 8.0);
            for _ in 0..60 {
                let middle = 0.5 * (low + high);
                let is_below = crate::samplers::normal::log_cdf(middle).exp() < share;
                *(if is_below { &mut low } else { &mut high }) = middle;
            }
            low
        };
        let draws: Vec<f64> = (0..4000)
            .map(|index| scale.loss(-0.3 + 0.4 * quantile((f64::from(index) + 0.5) / 4000.0)))
            .collect();
        let centre = draws.iter().sum::<f64>() / 4000.0;
        let square = draws.iter().map(|draw| (draw - centre).powi(2)).sum::<f64>() / 4000.0;
        let (mean, deviation) = scale.moments(-0.3, 0.4);
        assert!((mean - centre).abs() < 1e-3 * centre, "{mean} {centre}");
        assert!((deviation - square.sqrt()).abs() < 1e-2 * deviation, "{deviation} {square}");
    }

    #[test]
    fn losses_are_clipped_at_one_range_beyond_the_known_ones() {
        let losses: Vec<f64> = (0..20).map(|index| 3.0 + f64::from(index)).collect();
        let scale = LossScale::warped(Warp::fit(&losses), &losses);
        assert_eq!((scale.loss(-1e9), scale.loss(1e9)), (3.0 - 19.0, 22.0 + 19.0));
        let (mean, deviation) = scale.moments(0.0, 1e-9);
        assert!((12.0..13.0).contains(&mean) && deviation < 1e-6, "{mean} {deviation}");
    }
}
