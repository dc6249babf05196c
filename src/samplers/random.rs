//! Random search: every parameter uniform on its axis, parents before children.

use std::convert::Infallible;

use rand::RngExt as _;

use super::{Ask, Capabilities, Sampler, SamplerEntry, SamplerError};
use crate::study::params::Params;
use crate::study::seed::StreamRng;

pub(super) const ENTRY: SamplerEntry = SamplerEntry {
    name: "random",
    aliases: &[],
    summary: "draws every parameter uniformly on its axis (logarithmic ones in the logarithm)",
    version: 1,
    options: &[],
    build: |_, _| Ok(Box::new(Random)),
};

/// Uniform draws from the stream it is given; the history plays no part.
#[derive(Clone, Copy, Debug)]
pub struct Random;

impl Sampler for Random {
    fn capabilities(&self) -> Capabilities {
        Capabilities { conditional: true, continuous: true, exhausts: false }
    }

    fn suggest(&self, ask: &Ask<'_>, rng: &mut StreamRng) -> Result<Option<Params>, SamplerError> {
        Ok(Some(point(ask, rng)))
    }
}

/// A point anywhere, with what is fixed.
pub(super) fn point(ask: &Ask<'_>, rng: &mut StreamRng) -> Params {
    let drawn = ask.space.assemble(ask.fixed, |dimension, _| {
        Ok::<_, Infallible>(dimension.distribution.from_unit(rng.random()))
    });
    match drawn {
        Ok(params) => params,
        Err(impossible) => match impossible {},
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samplers::conformance::dimension;
    use crate::study::history::History;
    use crate::study::metric::Direction;
    use crate::study::params::Value;
    use crate::study::seed::SeedTree;
    use crate::study::space::{Distribution, Scale, Space};
    use crate::study::trial::TrialNumber;

    const DRAWS: u64 = 4000;

    fn draws(distribution: Distribution) -> Vec<Value> {
        let space = Space::new(vec![dimension("x", distribution, &[])]).unwrap();
        let tree = SeedTree::new(7);
        let draw = |number| {
            let ask = Ask {
                room: None,
                constraints: &[],
                earlier: &[],
                space: &space,
                history: History::of(&[], Direction::Minimize),
                number: TrialNumber(number),
                fixed: &Params::new(),
                budget: None,
                seeds: tree,
            };
            Random
                .suggest(&ask, &mut tree.stream(&format!("sampler/{number}")))
                .unwrap()
                .unwrap()
                .remove("x")
                .unwrap()
        };
        (0..DRAWS).map(draw).collect()
    }

    /// Chi-squared of the counts in equally likely bins.
    fn chi_squared(values: &[Value], bins: usize, bin_of: impl Fn(&Value) -> usize) -> f64 {
        let mut counts = vec![0.0; bins];
        for value in values {
            counts[bin_of(value)] += 1.0;
        }
        let expected = values.len() as f64 / bins as f64;
        counts.iter().map(|count: &f64| (count - expected).powi(2) / expected).sum()
    }

    /// 99.9 % of chi-squared with 9 degrees of freedom.
    const LIMIT_OF_TEN_BINS: f64 = 27.88;

    fn bin(unit: f64) -> usize {
        ((unit * 10.0) as usize).min(9)
    }

    #[test]
    fn is_uniform_on_a_linear_axis() {
        let values = draws(Distribution::float(-3.0, 7.0, Scale::Linear, None).unwrap());
        assert!(
            chi_squared(&values, 10, |value| bin((value.as_number().unwrap() + 3.0) / 10.0))
                < LIMIT_OF_TEN_BINS
        );
    }

    #[test]
    fn is_uniform_in_the_logarithm_on_a_log_axis() {
        let values = draws(Distribution::float(1e-8, 1e2, Scale::Log, None).unwrap());
        assert!(
            chi_squared(
                &values,
                10,
                |value| bin((value.as_number().unwrap().log10() + 8.0) / 10.0)
            ) < LIMIT_OF_TEN_BINS
        );
    }

    #[test]
    fn every_integer_step_and_choice_is_equally_likely() {
        let integers = draws(Distribution::int(5, 32, Scale::Linear, 3).unwrap());
        assert!(
            chi_squared(&integers, 10, |value| (value.as_number().unwrap() as usize - 5) / 3)
                < LIMIT_OF_TEN_BINS
        );
        let steps = draws(Distribution::float(0.0, 0.95, Scale::Linear, Some(0.1)).unwrap());
        assert!(
            chi_squared(&steps, 10, |value| (value.as_number().unwrap() * 10.0).round() as usize)
                < LIMIT_OF_TEN_BINS
        );
        let choices = draws(Distribution::choice((0..10i64).map(Value::Int).collect()).unwrap());
        assert!(
            chi_squared(&choices, 10, |value| value.as_number().unwrap() as usize)
                < LIMIT_OF_TEN_BINS
        );
    }

    #[test]
    fn integers_on_a_log_axis_are_as_likely_as_their_share_of_the_logarithm() {
        let values = draws(Distribution::int(1, 1023, Scale::Log, 1).unwrap());
        let (bottom, top) = (0.5f64.ln(), 1023.5f64.ln());
        let ones = values.iter().filter(|value| value.as_number() == Some(1.0)).count() as f64;
        let share = (1.5f64.ln() - bottom) / (top - bottom);
        let deviation = (share * (1.0 - share) * DRAWS as f64).sqrt();
        assert!((ones - share * DRAWS as f64).abs() < 3.5 * deviation, "{ones}");
    }
}
