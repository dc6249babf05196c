//! Random search: every parameter uniform on its axis, parents before children.

use rand::RngExt as _;

use super::{Ask, Chosen, Proposal, Sampler, SamplerEntry, SamplerError, candidates};
use crate::study::params::Params;
use crate::study::seed::StreamRng;

pub(super) const ENTRY: SamplerEntry = SamplerEntry {
    name: "random",
    aliases: &[],
    summary: "draws every parameter uniformly on its axis (logarithmic ones in the logarithm)",
    version: 1,
    oldest: 1,
    options: &[],
    several: true,
    build: |_, _| Ok(Box::new(Random)),
};

/// Independent uniform draws; the history is ignored.
#[derive(Clone, Copy, Debug)]
pub struct Random;

impl Sampler for Random {
    fn suggest(
        &self,
        ask: &Ask<'_>,
        rng: &mut StreamRng,
    ) -> Result<Option<Proposal>, SamplerError> {
        Ok(Some(point(ask, rng).into()))
    }

    fn choose(
        &self,
        _: &Ask<'_>,
        candidates: &[&Params],
        rng: &mut StreamRng,
    ) -> Result<Chosen, SamplerError> {
        Ok(candidates::uniform(candidates, rng).into())
    }
}

/// A uniformly random configuration that contains the fixed values.
pub(super) fn point(ask: &Ask<'_>, rng: &mut StreamRng) -> Params {
    ask.assemble(ask.fixed, |dimension| dimension.distribution.from_unit(rng.random()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samplers::conformance::{choice, every, float, log_float, log_int, space, stepped};
    use crate::samplers::fixtures::{answer, ask, number};
    use crate::study::space::Dimension;
    use crate::study::trial::TrialNumber;

    const DRAWS: u64 = 4000;

    fn draws(axis: Dimension) -> Vec<f64> {
        let (name, space) = (axis.name.clone(), space([axis]));
        let draw = |trial| {
            let ask = Ask { number: TrialNumber(trial), ..ask(&space, &[], 7) };
            number(&answer(&Random, &ask).unwrap(), &name)
        };
        (0..DRAWS).map(draw).collect()
    }

    #[test]
    fn every_tenth_of_an_axis_integer_step_and_choice_is_equally_likely() {
        type Axis = (Dimension, fn(f64) -> f64);
        let axes: [Axis; 5] = [
            (float("linear", -3.0, 7.0), |value| value + 3.0),
            (log_float("uniform in the logarithm", 1e-8, 1e2), |value| value.log10() + 8.0),
            (every("integers", 5, 32, 3), |value| (value - 5.0) / 3.0),
            (stepped("steps", 0.0, 0.95, 0.1), |value| (value * 10.0).round()),
            (choice("choices", 0..10i64), |value| value),
        ];
        for (axis, bin_of) in axes {
            let name = axis.name.clone();
            let mut counts = [0.0; 10];
            for value in draws(axis) {
                counts[(bin_of(value) as usize).min(9)] += 1.0;
            }
            let expected = DRAWS as f64 / 10.0;
            let chi_squared: f64 =
                counts.iter().map(|count: &f64| (count - expected).powi(2) / expected).sum();
            // The 99.9 % quantile of chi-squared with 9 degrees of freedom.
            assert!(chi_squared < 27.88, "{name}: {counts:?}");
        }
    }

    #[test]
    fn integers_on_a_log_axis_are_as_likely_as_their_share_of_the_logarithm() {
        let (bottom, top) = (0.5f64.ln(), 1023.5f64.ln());
        let ones =
            draws(log_int("x", 1, 1023)).iter().filter(|value| **value == 1.0).count() as f64;
        let share = (1.5f64.ln() - bottom) / (top - bottom);
        let deviation = (share * (1.0 - share) * DRAWS as f64).sqrt();
        assert!((ones - share * DRAWS as f64).abs() < 3.5 * deviation, "{ones}");
    }
}
