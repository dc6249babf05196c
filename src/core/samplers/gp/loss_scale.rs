//! How targets of a process become losses again.

use super::warp::Warp;

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
    /// Warped. A target may lie beyond the bound of a power, or where a logarithm is a loss of any
    /// size: losses are clipped at one range of the known ones beyond them.
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

    /// Whether all known losses are equal, so that clipped ones are, too.
    pub fn is_flat(&self) -> bool {
        matches!(self, LossScale::Warped { range: (low, high), .. } if low == high)
    }

    /// How many targets of another scale one of this is as wide as: 1 where they are warped, which
    /// gives all about the same width.
    pub fn width_in(&self, other: &LossScale) -> f64 {
        match (self, other) {
            (LossScale::Linear { deviation, .. }, LossScale::Linear { deviation: others, .. }) => {
                deviation / others
            }
            _ => 1.0,
        }
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warped_losses_are_warped_back() {
        let losses: Vec<f64> = (0..40).map(|index| (f64::from(index) / 8.0).exp()).collect();
        let warp = Warp::fit(&losses);
        let scale = LossScale::warped(warp, &losses);
        for loss in losses {
            assert!((scale.loss(warp.of(loss)) - loss).abs() < 1e-9 * loss.abs().max(1.0));
        }
    }

    #[test]
    fn losses_are_clipped_at_one_range_beyond_the_known_ones() {
        let losses: Vec<f64> = (0..20).map(|index| 3.0 + f64::from(index)).collect();
        let scale = LossScale::warped(Warp::fit(&losses), &losses);
        assert_eq!((scale.loss(-1e9), scale.loss(1e9)), (3.0 - 19.0, 22.0 + 19.0));
    }
}
