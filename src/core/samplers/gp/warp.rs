//! Transforms losses to be approximately normal: Yeo-Johnson, fitted to them, or a logarithm.

/// Offsets of the logarithm below the best loss, relative to the distance from the median to the
/// best.
const FLOORS: [f64; 2] = [0.03, 0.3];
/// Minimum gain in log likelihood per loss for taking the logarithm. Tails over many orders of
/// magnitude give 0.6 to 2, all else less than 0.4; valleys (Rosenbrock's, 0.1) are optimised worse
/// on a logarithm than on a power.
const CLEARLY: f64 = 0.5;

/// Maps a loss to the scale that the process models: mean 0 and deviation 1 over the fitted losses.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Warp {
    centre: f64,
    scale: f64,
    shape: Shape,
    mean: f64,
    deviation: f64,
}

/// The transformation of a centred and scaled loss.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Shape {
    /// Yeo and Johnson's, with this power.
    Power(f64),
    /// The logarithm of the distance to this floor.
    LogAbove(f64),
}

impl Warp {
    /// Fits the transformation to finite losses: centred and scaled by median and quartiles, then
    /// the power of maximum likelihood, unless a logarithm is clearly more likely.
    pub fn fit(losses: &[f64]) -> Warp {
        let mut sorted = losses.to_vec();
        sorted.sort_by(f64::total_cmp);
        let at = |share: usize| {
            sorted.get((sorted.len().max(1) - 1) * share / 4).copied().unwrap_or(0.0)
        };
        let centre = at(2);
        let span = at(3) - at(1);
        let span = if span > 0.0 { span } else { at(4) - at(0) };
        let scale = if span.is_finite() && span > 0.0 { span / 1.349 } else { 1.0 };
        let start = Warp { centre, scale, shape: Shape::Power(1.0), mean: 0.0, deviation: 1.0 };
        // Powers beyond these would follow single values.
        let powers = (0..=24).map(|step| -1.0 + 0.125 * f64::from(step));
        let best = (at(0) - centre) / scale;
        let mut logarithms =
            FLOORS.iter().filter(|_| best < 0.0).map(|below| Shape::LogAbove(best + below * best));
        let most_likely = |shapes: &mut dyn Iterator<Item = Shape>| {
            shapes.map(|shape| start.with(shape, losses)).max_by(|a, b| a.1.total_cmp(&b.1))
        };
        let Some((power, likelihood)) = most_likely(&mut powers.map(Shape::Power)) else {
            return start;
        };
        #[expect(clippy::cast_precision_loss, reason = "a number of trials")]
        let clearly = likelihood + CLEARLY * losses.len() as f64;
        most_likely(&mut logarithms)
            .filter(|(_, likelihood)| *likelihood > clearly)
            .map_or(power, |(logarithm, _)| logarithm)
    }

    /// The transformation with this shape, and its log likelihood.
    #[expect(clippy::cast_precision_loss, reason = "a number of trials")]
    fn with(self, shape: Shape, losses: &[f64]) -> (Warp, f64) {
        let raw = Warp { shape, ..self };
        let count = losses.len().max(1) as f64;
        let warped: Vec<f64> = losses.iter().map(|loss| raw.of(*loss)).collect();
        let mean = warped.iter().sum::<f64>() / count;
        let variance =
            (warped.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / count).max(1e-20);
        let jacobian: f64 = losses
            .iter()
            .map(|loss| {
                let x = (loss - self.centre) / self.scale;
                match shape {
                    Shape::Power(power) => (power - 1.0) * x.signum() * x.abs().ln_1p(),
                    Shape::LogAbove(floor) => -above(x, floor).ln(),
                }
            })
            .sum();
        let likelihood = -0.5 * count * variance.ln() + jacobian;
        let likelihood = if likelihood.is_finite() { likelihood } else { f64::NEG_INFINITY };
        (Warp { mean, deviation: variance.sqrt().max(1e-10), ..raw }, likelihood)
    }

    /// A loss, transformed.
    pub fn of(&self, loss: f64) -> f64 {
        let x = (loss - self.centre) / self.scale;
        let warped = match self.shape {
            Shape::LogAbove(floor) => above(x, floor).ln(),
            Shape::Power(power) if x >= 0.0 => raised(x, power),
            Shape::Power(power) => -raised(-x, 2.0 - power),
        };
        (warped - self.mean) / self.deviation
    }
}

impl Warp {
    /// The loss that is transformed to `warped`; infinite beyond the bound of a power.
    pub fn inverse(&self, warped: f64) -> f64 {
        let raw = warped * self.deviation + self.mean;
        let x = match self.shape {
            Shape::LogAbove(floor) => floor + raw.exp(),
            Shape::Power(power) if raw >= 0.0 => lowered(raw, power),
            Shape::Power(power) => -lowered(-raw, 2.0 - power),
        };
        self.centre + self.scale * x
    }
}

/// Only forecasts lie below the floor.
fn above(x: f64, floor: f64) -> f64 {
    (x - floor).max(1e-12)
}

/// `((1 + x)^power - 1) / power`, and its limit.
fn raised(x: f64, power: f64) -> f64 {
    if power.abs() < 1e-9 { x.ln_1p() } else { (x.ln_1p() * power).exp_m1() / power }
}

/// The inverse of [`raised`].
fn lowered(y: f64, power: f64) -> f64 {
    match power.abs() < 1e-9 {
        true => y.exp_m1(),
        false if y * power <= -1.0 => f64::INFINITY,
        false => ((y * power).ln_1p() / power).exp_m1(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_over_many_orders_of_magnitude_become_even() {
        let losses: Vec<f64> =
            (0..60).map(|index| 10f64.powf(f64::from(index) / 10.0 - 3.0)).collect();
        let warp = Warp::fit(&losses);
        let warped: Vec<f64> = losses.iter().map(|loss| warp.of(*loss)).collect();
        assert!(warped.windows(2).all(|pair| pair[0] < pair[1]));
        let largest = warped.iter().copied().fold(0.0, |most: f64, value| most.max(value.abs()));
        assert!(largest < 2.6, "{largest}");
    }

    #[test]
    fn what_is_warped_is_warped_back() {
        let shapes = (0..=24).map(|step| Shape::Power(-1.0 + 0.125 * f64::from(step)));
        for shape in shapes.chain([Shape::LogAbove(-1.7)]) {
            let warp = Warp { centre: 0.4, scale: 2.0, shape, mean: 0.3, deviation: 1.2 };
            for loss in [-2.5, 0.0, 0.4, 1.0, 7.0] {
                let back = warp.inverse(warp.of(loss));
                assert!((back - loss).abs() < 1e-9, "{shape:?} {loss} {back}");
            }
        }
        let shape = Shape::Power(-1.0);
        let bounded = Warp { centre: 0.0, scale: 1.0, shape, mean: 0.0, deviation: 1.0 };
        assert_eq!(bounded.inverse(2.0), f64::INFINITY);
    }

    #[test]
    fn normal_losses_stay_as_they_are_and_equal_ones_do_no_harm() {
        let losses: Vec<f64> = (0..50).map(|index| (f64::from(index) - 24.5) / 10.0).collect();
        let warp = Warp::fit(&losses);
        assert!(
            matches!(warp.shape, Shape::Power(power) if (power - 1.0).abs() < 1e-9),
            "{warp:?}"
        );
        assert!(Warp::fit(&[3.0; 9]).of(3.0).is_finite());
        assert!(Warp::fit(&[1e300, -1e300, 0.0]).of(1e300).is_finite());
        assert!(Warp::fit(&[]).of(1.0).is_finite());
    }

    #[test]
    fn tails_over_many_orders_of_magnitude_are_seen_on_a_logarithm_and_others_are_not() {
        // The best losses must remain distinguishable.
        let heavy: Vec<f64> =
            (0..40).map(|index| (f64::from(index) / 39.0 * 14.0).exp() - 0.9).collect();
        let warp = Warp::fit(&heavy);
        assert!(matches!(warp.shape, Shape::LogAbove(_)), "{warp:?}");
        assert!(warp.of(heavy[12]) - warp.of(heavy[0]) > 0.2);
        assert!(warp.of(f64::MIN).is_finite());
        let valley: Vec<f64> =
            (0..40).map(|index| f64::from(index) / 39.0).map(|x| 100.0 * x * x * x + x).collect();
        assert!(matches!(Warp::fit(&valley).shape, Shape::Power(_)));
    }
}
