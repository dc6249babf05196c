//! The settings in which variants of tree-structured Parzen estimators differ: kernel widths and
//! trial weights.

/// A set of rules.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Rules {
    /// The minimum width of a kernel.
    pub least: LeastWidth,
    /// How good trials are weighted.
    pub good: GoodWeights,
}

/// The minimum width among `n` kernels (the "magic clip").
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum LeastWidth {
    /// Optuna's: `1 / min(100, n + 2)`.
    Inverse,
    /// Watanabe's (2023, arXiv 2304.11127): `max(floor, (n + 2)^-exponent)`.
    Power {
        /// Lower bound.
        floor: f64,
        /// Rate of decay.
        exponent: f64,
    },
}

/// The weights of good trials in their mixture.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum GoodWeights {
    /// All alike.
    Uniform,
    /// By their improvement on the best bad trial (Watanabe 2023; expected improvement), scaled to
    /// mean 1.
    Improvement,
}

impl Rules {
    /// Our own: kernels as narrow as 3 % of an axis, and good trials weighted by improvement.
    /// Chosen on the 17 problems described in benches/search/README.md, which also has figures on
    /// problems that were not used for the choice.
    pub const OWN: Rules = Rules {
        least: LeastWidth::Power { floor: 0.03, exponent: 2.0 },
        good: GoodWeights::Improvement,
    };

    /// Optuna 5's.
    pub const OPTUNA: Rules = Rules { least: LeastWidth::Inverse, good: GoodWeights::Uniform };

    /// Our own, and every fourth time Optuna's, whose wider kernels are better where good points
    /// are many and losses noisy: cross-validated scores of real models (benches/search/README.md).
    pub const MIXED: [Rules; 4] = [Rules::OWN, Rules::OWN, Rules::OWN, Rules::OPTUNA];
}

#[expect(clippy::cast_precision_loss, reason = "numbers of trials")]
impl LeastWidth {
    fn of(self, kernels: usize) -> f64 {
        let kernels = kernels as f64;
        match self {
            LeastWidth::Inverse => 1.0 / (kernels + 2.0).min(100.0),
            LeastWidth::Power { floor, exponent } => (kernels + 2.0).powf(-exponent).max(floor),
        }
    }
}

/// Widths of `kernels` kernels, of which those in `order` (ascending means, each with its kernel)
/// are active: the distance to the farther neighbour (hyperopt's rule, without the ends of the
/// axis), clipped; 0 for inactive ones.
pub(super) fn deviations(order: &[(f64, usize)], kernels: usize, rules: &Rules) -> Vec<f64> {
    let least = rules.least.of(order.len());
    let mut deviations = vec![0.0; kernels];
    for (place, (middle, kernel)) in order.iter().enumerate() {
        let left = if place == 0 { None } else { Some(middle - order[place - 1].0) };
        let right = order.get(place + 1).map(|(next, _)| next - middle);
        let width = match (left, right) {
            (None, None) => middle.max(1.0 - middle),
            (left, right) => left.unwrap_or(0.0).max(right.unwrap_or(0.0)),
        };
        deviations[*kernel] = width.clamp(least, 1.0);
    }
    deviations
}

/// Optuna's weights by age, oldest first: full weight for the newest 25, decreasing to `1 / n`.
#[expect(clippy::cast_precision_loss, reason = "numbers of trials")]
pub(in super::super) fn weights_by_age(count: usize) -> Vec<f64> {
    let Some(old) = count.checked_sub(25).filter(|old| *old > 0) else { return vec![1.0; count] };
    let first = 1.0 / count as f64;
    let step = if old > 1 { (1.0 - first) / (old - 1) as f64 } else { 0.0 };
    (0..count).map(|place| if place < old { first + step * place as f64 } else { 1.0 }).collect()
}
