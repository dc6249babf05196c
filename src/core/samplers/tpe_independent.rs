//! Independent tree-structured Parzen estimators, one per parameter, by the `tpe` crate.

use rand::RngExt as _;

use super::cube::{evenly, value_at};
use super::ranking::Ranking;
use super::start::{Startup, WaitsFor};
use super::tpe::{EI_CANDIDATES, GAMMA, GAMMA_CAP, STARTUP_TRIALS, good_trials, weights_by_age};
use super::{Ask, Proposal, Sampler, SamplerEntry, SamplerError, start};
use crate::study::params::Value;
use crate::study::seed::StreamRng;
use crate::study::space::{Dimension, Distribution};
use crate::study::spec::AlgorithmSpec;
use crate::study::trial::TrialNumber;

pub(super) const ENTRY: SamplerEntry = SamplerEntry {
    name: "tpe-independent",
    aliases: &[],
    summary: "learns where good values of each parameter lie, one parameter at a time (TPE)",
    // 2: paused trials count with their last report.
    version: CHOICES_SINCE,
    oldest: 2,
    options: &[STARTUP_TRIALS, EI_CANDIDATES, GAMMA, GAMMA_CAP],
    several: true,
    build: |spec, _| Ok(Box::new(TpeIndependent::new(spec))),
};

/// The first version whose densities of choices are Optuna's. The crate's histogram gives what good
/// trials lack less, and old bad trials as much as new ones: a search could stay with the worse of
/// two choices.
const CHOICES_SINCE: u32 = 3;

/// Draws each parameter where good trials are dense and bad ones are not, regardless of the other
/// parameters.
///
/// The rules around the `tpe` crate are those of Optuna's independent TPE: the split
/// `min(ceil(gamma n), gamma_cap)`, the order of pruned trials, unfinished trials counted as bad
/// (the constant liar). The crate itself sees only ranks, and positions on `[0, 1)`: NaN,
/// infinities, logarithms, steps and huge ranges do not reach it. Unlike in Optuna, each
/// parameter's trials are split among those where it is active, and the start-up is a Latin
/// hypercube. Choices have densities of Optuna's here.
#[derive(Clone, Copy, Debug)]
pub struct TpeIndependent {
    startup_trials: u64,
    candidates: usize,
    good_share: f64,
    good_most: usize,
    /// Whether choices are drawn by the crate's histogram, as before version 3.
    has_histogram: bool,
}

impl TpeIndependent {
    /// From checked options.
    pub fn new(spec: &AlgorithmSpec) -> Self {
        TpeIndependent {
            startup_trials: STARTUP_TRIALS.of(spec),
            candidates: EI_CANDIDATES.of(spec),
            good_share: GAMMA.of(spec),
            good_most: GAMMA_CAP.of(spec),
            has_histogram: spec.version < CHOICES_SINCE,
        }
    }

    fn learned(
        &self,
        dimension: &Dimension,
        ranking: &Ranking<'_>,
        rng: &mut StreamRng,
    ) -> Result<Value, SamplerError> {
        let (observed, good) = self.observed(dimension, ranking);
        let distribution = &dimension.distribution;
        let position = match distribution {
            Distribution::Choice { choices } if !self.has_histogram => {
                let (good, bad) = observed.split_at(good);
                chosen(choices.len(), [good, bad], self.candidates, rng)
            }
            _ => self.optimizer(distribution, &observed, good)?.ask(rng).map_err(internal)?,
        };
        Ok(value_at(distribution, position))
    }

    /// The positions in the trials in which the dimension was active, by rank, and how many of them
    /// are good.
    fn observed(
        &self,
        Dimension { name, distribution, .. }: &Dimension,
        ranking: &Ranking<'_>,
    ) -> (Vec<(TrialNumber, f64)>, usize) {
        let mut values = Vec::with_capacity(ranking.trials.len());
        let (mut informed, mut answered) = (0, 0);
        for (rank, trial) in (0u64..).zip(&ranking.trials) {
            // A value outside the range (the space has changed since) is skipped.
            if let Some(value) = trial.params.get(name).filter(|value| distribution.contains(value))
            {
                values.push((trial.number, value));
                informed += usize::from(rank < ranking.informed);
                answered += usize::from(rank < ranking.answered);
            }
        }
        let good = good_trials(informed, self.good_share, self.good_most);
        thin(&mut values, good..answered);
        let position = |(trial, value)| Some((trial, position(distribution, value)?));
        (values.into_iter().filter_map(position).collect(), good)
    }

    /// An optimiser fed with these positions.
    #[expect(clippy::cast_precision_loss, reason = "ranks of trials")]
    fn optimizer(
        &self,
        distribution: &Distribution,
        positions: &[(TrialNumber, f64)],
        good: usize,
    ) -> Result<tpe::TpeOptimizer, SamplerError> {
        // The crate takes the best ceil(gamma n); subtracting half a trial makes that exact despite
        // rounding.
        let gamma = if good == 0 { 0.0 } else { (good as f64 - 0.5) / positions.len() as f64 };
        let (estimator, range) = match distribution {
            Distribution::Choice { choices } => {
                (tpe::histogram_estimator(), tpe::categorical_range(choices.len()))
            }
            _ => (tpe::parzen_estimator(), tpe::range(0.0, 1.0)),
        };
        let mut builder = tpe::TpeOptimizerBuilder::new();
        let mut optimizer = builder
            .gamma(gamma)
            .candidates(self.candidates)
            .build(estimator, range.map_err(internal)?)
            .map_err(internal)?;
        for (rank, (_, position)) in positions.iter().enumerate() {
            optimizer.tell(*position, rank as f64).map_err(internal)?;
        }
        Ok(optimizer)
    }
}

impl Sampler for TpeIndependent {
    fn startup(&self) -> Option<Startup> {
        Some(Startup { trials: self.startup_trials, waits_for: WaitsFor::CompleteOrStopped })
    }

    fn suggest(
        &self,
        ask: &Ask<'_>,
        rng: &mut StreamRng,
    ) -> Result<Option<Proposal>, SamplerError> {
        let ranking = Ranking::new(ask.history);
        let starting = ranking.informed < self.startup_trials.max(1);
        let stratified = start::is_wide(ask.space);
        let point = ask.space.assemble(ask.fixed, |dimension, _| {
            if let Some(only) = only_value(&dimension.distribution) {
                return Ok(only);
            }
            if starting {
                let unit = if stratified {
                    start::unit(dimension, ask, self.startup_trials, rng)
                } else {
                    rng.random()
                };
                return Ok(dimension.distribution.from_unit(unit));
            }
            self.learned(dimension, &ranking, rng)
        })?;
        Ok(Some(point.into()))
    }
}

/// Of so many draws from the density of good trials the choice whose density there exceeds that of
/// bad trials most.
#[expect(clippy::cast_precision_loss, reason = "an index of a list")]
fn chosen(
    choices: usize,
    groups: [&[(TrialNumber, f64)]; 2],
    candidates: usize,
    rng: &mut StreamRng,
) -> f64 {
    let [good, bad] = groups.map(|group| density(choices, group));
    let draw = |_| {
        let mut left = rng.random::<f64>();
        let found = good.iter().position(|share| {
            left -= share;
            left < 0.0
        });
        found.unwrap_or(choices - 1)
    };
    let ratio = |index: &usize| good[*index] / bad[*index];
    let best = (0..candidates)
        .map(draw)
        .reduce(|best, other| if ratio(&other) > ratio(&best) { other } else { best });
    best.unwrap_or(0) as f64
}

/// The density of Optuna's Parzen estimator over choices: a kernel for each trial, weighted by its
/// age, and the prior.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "numbers of trials, and indices as positions"
)]
fn density(choices: usize, observed: &[(TrialNumber, f64)]) -> Vec<f64> {
    let mut by_age = observed.to_vec();
    by_age.sort_unstable_by_key(|(trial, _)| *trial);
    let weights = weights_by_age(by_age.len());
    let total = weights.iter().sum::<f64>() + 1.0;
    let spread = 1.0 / (by_age.len() + 1) as f64;
    let kernel = 1.0 + choices as f64 * spread;
    let any = (total - 1.0) * spread / kernel + 1.0 / choices as f64;
    let mut shares = vec![any / total; choices];
    for ((_, position), weight) in by_age.iter().zip(weights) {
        shares[*position as usize] += weight / kernel / total;
    }
    shares
}

fn internal(error: impl std::fmt::Display) -> SamplerError {
    SamplerError::Internal { sampler: ENTRY.name, why: error.to_string() }
}

fn only_value(distribution: &Distribution) -> Option<Value> {
    (distribution.cardinality() == Some(1)).then(|| distribution.nth(0)).flatten()
}

/// The position of a value for the `tpe` crate, whose ranges exclude their upper bound: the index
/// of a choice, or a position on `[0, 1)`: of the logarithm on log axes, of the middle of `[v -
/// step/2, v + step/2)` on stepped ones.
fn position(distribution: &Distribution, value: &Value) -> Option<f64> {
    match distribution {
        Distribution::Choice { .. } => distribution.to_internal(value),
        _ => distribution.to_unit(value).map(|unit| unit.clamp(0.0, 1.0f64.next_down())),
    }
}

/// Maximum number of bad trials given to an estimator. Its cost is linear in them (5 to 7 ms a
/// suggestion at 1,000 trials of 10 parameters with all of them), and a density of more than 100
/// kernels has the minimum width anyway.
const MOST_BAD: usize = 400;

/// Keeps an even selection of at most [`MOST_BAD`] of the values in `bad` (ordered by rank).
fn thin<T: Copy>(values: &mut Vec<T>, bad: std::ops::Range<usize>) {
    if bad.len() <= MOST_BAD {
        return;
    }
    let selection: Vec<T> = evenly(&values[bad.clone()], MOST_BAD).collect();
    values.splice(bad, selection);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samplers::conformance::{choice, float, int, log_float, space};
    use crate::samplers::fixtures::{best, number, pending, search, suggest};
    use crate::samplers::random::Random;
    use crate::study::params::Params;
    use crate::study::space::Space;

    fn defaults() -> TpeIndependent {
        TpeIndependent::new(&ENTRY.defaults())
    }

    fn axes() -> Vec<Dimension> {
        vec![
            log_float("rate", 1e-6, 1.0),
            float("x", -5.0, 5.0),
            int("layers", 1, 12),
            choice("optim", ["sgd", "adamw", "lion", "adagrad"]),
        ]
    }

    fn problem() -> Space {
        space(axes())
    }

    fn loss(params: &Params) -> f64 {
        let optim = if params.get("optim") == Some(&"lion".into()) { 0.0 } else { 1.0 };
        (number(params, "rate").log10() + 3.3).powi(2)
            + (number(params, "x") - 1.7).powi(2)
            + ((number(params, "layers") - 4.0) / 2.0).powi(2)
            + optim
    }

    #[test]
    fn beats_random_search_within_sixty_trials_on_nearly_every_seed() {
        let best_of =
            |sampler: &dyn Sampler, seed| best(&search(sampler, &problem(), 60, seed, loss));
        let results: Vec<(f64, f64)> =
            (0..10).map(|seed| (best_of(&defaults(), seed), best_of(&Random, seed))).collect();
        let wins = results.iter().filter(|(tpe, random)| tpe < random).count();
        assert!(wins >= 8, "{wins} of 10: {results:?}");
    }

    #[test]
    fn eight_pending_trials_spread_out() {
        let trials = search(&defaults(), &problem(), 30, 3, loss);
        let mut pending = pending(&defaults(), &problem(), trials, 8, 3, "x");
        pending.sort_by(f64::total_cmp);
        pending.dedup_by(|a, b| (*a - *b).abs() < 1e-3);
        assert!(pending.len() >= 7, "{pending:?}");
        assert!(pending.last().unwrap() - pending.first().unwrap() > 0.2, "{pending:?}");
    }

    #[test]
    fn start_up_trials_fall_into_different_parts_of_every_axis_and_differ_between_seeds() {
        let design = |seed| pending(&defaults(), &problem(), Vec::new(), 10, seed, "x");
        for seed in 0..5 {
            let mut parts: Vec<u64> = design(seed).iter().map(|x| (x + 5.0) as u64).collect();
            parts.sort_unstable();
            assert_eq!(parts, (0..10).collect::<Vec<_>>());
        }
        let rounded = |seed| design(seed).into_iter().map(f64::round).collect::<Vec<_>>();
        assert_ne!(rounded(0), rounded(1));
    }

    #[test]
    fn thinning_keeps_the_good_and_the_unanswered_and_takes_evenly_of_the_bad() {
        let mut positions: Vec<f64> = (0..1025).map(f64::from).collect();
        thin(&mut positions, 20..1020);
        assert_eq!(positions.len(), 20 + MOST_BAD + 5);
        assert_eq!(positions[..21], (0..21).map(f64::from).collect::<Vec<_>>());
        assert_eq!(positions[20 + MOST_BAD..], [1020.0, 1021.0, 1022.0, 1023.0, 1024.0]);
        assert!(positions.windows(2).all(|pair| (1.0..=6.0).contains(&(pair[1] - pair[0]))));
    }

    #[test]
    fn densities_of_choices_are_those_of_optuna() {
        // `_ParzenEstimator` of Optuna 5.0, prior weight 1 and its default weights.
        let observed = |count: u64| -> Vec<(TrialNumber, f64)> {
            (0..count).rev().map(|n| (TrialNumber(n), (n * n % 3) as f64)).collect()
        };
        for (count, expected) in [
            (0, [0.3333333333333333, 0.3333333333333333, 0.3333333333333333]),
            (1, [0.4666666666666666, 0.2666666666666667, 0.2666666666666667]),
            (4, [0.41666666666666663, 0.4166666666666668, 0.16666666666666674]),
            (40, [0.34214193351484623, 0.6259105767454559, 0.031947489739697514]),
        ] {
            let found = density(3, &observed(count));
            for (found, expected) in found.iter().zip(expected) {
                assert!((found - expected).abs() < 1e-12, "{count}: {found} {expected}");
            }
        }
    }

    #[test]
    fn a_search_leaves_the_worse_of_two_choices() {
        let space = space([float("x", -5.0, 5.0), float("y", -5.0, 5.0), choice("z", ["a", "b"])]);
        let loss = |params: &Params| {
            let z = if params.get("z") == Some(&"a".into()) { 1.0 } else { 0.0 };
            number(params, "x").powi(2) + number(params, "y").powi(2) + z
        };
        let stuck = |version| {
            let sampler = TpeIndependent::new(&AlgorithmSpec { version, ..ENTRY.defaults() });
            let is_stuck = |seed: &u64| best(&search(&sampler, &space, 100, *seed, loss)) >= 1.0;
            (0..20).filter(is_stuck).count()
        };
        assert_eq!(stuck(CHOICES_SINCE), 0);
        assert!(stuck(2) > 0, "studies of earlier versions keep their proposals");
    }

    #[test]
    fn the_good_are_a_tenth_and_at_most_twenty_five() {
        let TpeIndependent { good_share, good_most, .. } = defaults();
        let good = [0, 1, 10, 11, 100, 250, 251, 1000]
            .map(|informed| good_trials(informed, good_share, good_most));
        assert_eq!(good, [0, 1, 1, 2, 10, 25, 25, 25]);
    }

    #[test]
    fn a_parameter_with_one_value_takes_no_draw() {
        let with_constant = space(std::iter::once(int("constant", 3, 3)).chain(axes()));
        let mut point = suggest(&defaults(), &with_constant, &[], 0);
        assert_eq!(point.remove("constant"), Some(Value::Int(3)));
        assert_eq!(point, suggest(&defaults(), &problem(), &[], 0));
    }
}
