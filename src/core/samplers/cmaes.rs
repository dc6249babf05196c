//! Covariance matrix adaptation (CMA-ES), for many trials in numeric spaces.

mod eigen;
mod evolution;
#[cfg(test)]
mod tests;

use std::cell::RefCell;

use rand::RngExt as _;

use self::evolution::Evolution;
use super::cube::{AxisKind, Cube};
use super::normal::draw;
use super::prior;
use super::ranking::Ranking;
use super::tpe::Tpe;
use super::{Ask, OfEarlier, Proposal, Sampler, SamplerEntry, SamplerError};
use crate::study::field::{Field, FieldDefault, FieldKind, between, field};
use crate::study::registry::RegistryError;
use crate::study::seed::StreamRng;
use crate::study::space::Space;
use crate::study::spec::AlgorithmSpec;
use crate::study::trial::Trial;

const POPULATION: Field = field(
    "population",
    FieldKind::Integer { min: 4, max: 10_000 },
    FieldDefault::Derived("4 + 3 ln(parameters)"),
    "trials of the first generation; each restart doubles it",
);

const SIGMA: Field = field(
    "sigma",
    between(1e-6, 1.0),
    FieldDefault::Float(0.2),
    "deviation of the first generation, as a share of each axis",
);

pub(super) const ENTRY: SamplerEntry = SamplerEntry {
    name: "cmaes",
    aliases: &["cma-es"],
    summary: "adapts a normal distribution to where losses fall, for hundreds of trials of numeric \
        parameters (CMA-ES with margin and restarts)",
    // 2: paused trials count with their last report.
    version: 2,
    oldest: 2,
    options: &[POPULATION, SIGMA],
    several: false,
    build: |spec, space| Ok(Box::new(CmaEs::new(spec, space)?)),
};

/// Redraws of a position outside the cube before it is clipped to the border.
const DRAWS: usize = 20;
/// A distribution narrower than this on every axis has converged.
const NARROW: f64 = 1e-6;

/// CMA-ES (N. Hansen, "The CMA evolution strategy: a tutorial", 2016) on the numeric parameters
/// that are always active.
///
/// - A generation consists of the next trials to end, in that order and from any source: enqueued,
///   lost, late and parallel trials all count. Points far from the distribution are pulled closer
///   (injection, Hansen 2011).
/// - Integers and steps keep a minimum probability of leaving the cell of the mean (the margin of
///   Hamano et al. 2022).
/// - On convergence or a flat loss it restarts elsewhere with twice the population.
/// - Choices and conditional parameters are drawn by `tpe`, given the numbers.
#[derive(Debug)]
pub struct CmaEs {
    population: Option<usize>,
    sigma: f64,
    /// Indices of the dimensions that are searched.
    numbers: Vec<usize>,
    tpe: Tpe,
    /// The last replay, cached.
    replayed: RefCell<Option<Replay>>,
}

/// The state after a number of ended trials.
#[derive(Clone, Debug)]
struct Replay {
    evolution: Evolution,
    /// Number and value of each trial replayed.
    seen: Vec<(u64, u64)>,
    restarts: u32,
    /// The best rank of each generation since the restart.
    best_losses: Vec<f64>,
}

impl CmaEs {
    /// From checked options.
    ///
    /// # Errors
    /// The space has no number that is always active.
    pub fn new(spec: &AlgorithmSpec, space: &Space) -> Result<Self, RegistryError> {
        let cube = Cube::new(space);
        let is_searched = |index: &usize| {
            let axis = &cube.axes[*index];
            axis.is_always_active() && !matches!(axis.kind, AxisKind::Single | AxisKind::Choice(_))
        };
        let numbers: Vec<usize> = (0..cube.axes.len()).filter(is_searched).collect();
        if numbers.is_empty() {
            return Err(RegistryError::Unsuitable {
                algorithm: ENTRY.name.to_owned(),
                why: "it has no number that is always active",
                advice: "take `tpe`, which searches choices and conditional parameters",
            });
        }
        let population = POPULATION.of::<Option<usize>>(spec).filter(|population| *population > 0);
        let tpe = Tpe::new(&AlgorithmSpec::named("tpe"));
        Ok(CmaEs { population, sigma: SIGMA.of(spec), numbers, tpe, replayed: RefCell::new(None) })
    }

    /// Replays all ended trials.
    fn replay(&self, cube: &Cube, ask: &Ask<'_>) -> Replay {
        let ranking = Ranking::new(ask.history);
        let answered = usize::try_from(ranking.answered).unwrap_or(usize::MAX);
        // In the order in which they ended, so that earlier generations never change.
        let mut ended: Vec<(usize, &Trial)> = ranking
            .trials
            .iter()
            .take(answered)
            .copied()
            .enumerate()
            .filter(|(_, trial)| trial.state.is_finished())
            .collect();
        ended.sort_by_key(|(_, trial)| (trial.finished, trial.number));
        let key = |trial: &Trial| (trial.number.0, trial.value.unwrap_or(f64::NAN).to_bits());
        let known = self.replayed.borrow_mut().take().filter(|replay| {
            replay.seen.len() <= ended.len()
                && replay.seen.iter().zip(&ended).all(|(seen, (_, trial))| *seen == key(trial))
        });
        let mut replay = known.unwrap_or_else(|| self.begin(cube, ask));
        while let Some(generation) =
            ended.get(replay.seen.len()..replay.seen.len() + replay.evolution.population())
        {
            let mut generation = generation.to_vec();
            replay.seen.extend(generation.iter().map(|(_, trial)| key(trial)));
            generation.sort_by_key(|(rank, _)| *rank);
            let points = generation.iter().map(|(_, trial)| {
                let point = cube.encode(&trial.params);
                // A value outside the current space is replaced by the mean.
                self.numbers
                    .iter()
                    .zip(replay.evolution.mean())
                    .map(|(index, mean)| if point[*index].is_nan() { *mean } else { point[*index] })
                    .collect()
            });
            let points: Vec<Vec<f64>> = points.collect();
            replay.evolution.tell(&points);
            let best = generation
                .first()
                .and_then(|(_, trial)| ask.history.final_score(trial))
                .map_or(f64::INFINITY, |score| score.loss());
            replay.best_losses.push(best);
            self.restart_if_converged(&mut replay, ask);
        }
        *self.replayed.borrow_mut() = Some(replay.clone());
        replay
    }

    fn begin(&self, cube: &Cube, ask: &Ask<'_>) -> Replay {
        let mut start = prior::params(ask.space);
        if start.is_empty() {
            let best = ask.earlier.iter().min_by(|a, b| a.rank.total_cmp(&b.rank));
            start = best.map(|best| best.params.clone()).unwrap_or_default();
        }
        let place = cube.encode(&start);
        let mean = self
            .numbers
            .iter()
            .map(|index| if place[*index].is_nan() { 0.5 } else { place[*index] })
            .collect();
        Replay {
            evolution: Evolution::new(mean, self.sigma, self.population),
            seen: Vec::new(),
            restarts: 0,
            best_losses: Vec::new(),
        }
    }

    /// Restarts if the distribution has converged.
    fn restart_if_converged(&self, replay: &mut Replay, ask: &Ask<'_>) {
        let evolution = &replay.evolution;
        let patience = 10 + (30 * self.numbers.len()).div_ceil(evolution.population());
        let recent = replay
            .best_losses
            .len()
            .checked_sub(patience)
            .map(|first| &replay.best_losses[first..]);
        let is_flat = recent.is_some_and(|recent| recent.iter().all(|loss| *loss == recent[0]));
        if !(is_flat || evolution.widest() < NARROW || evolution.is_degenerate()) {
            return;
        }
        replay.restarts += 1;
        let mut rng = ask.seeds.stream(&format!("cmaes/restart/{}", replay.restarts));
        let mean = self.numbers.iter().map(|_| rng.random()).collect();
        let population = evolution.population().saturating_mul(2).min(10_000);
        replay.evolution = Evolution::new(mean, self.sigma, Some(population));
        replay.best_losses.clear();
    }

    /// A draw inside the cube.
    fn positions(&self, evolution: &Evolution, cube: &Cube, rng: &mut StreamRng) -> Vec<f64> {
        let margins: Vec<Option<f64>> = self
            .numbers
            .iter()
            .zip(evolution.mean())
            .map(|(index, mean)| to_next_cell(cube, *index, *mean))
            .collect();
        let mut drawn = Vec::new();
        for _ in 0..DRAWS {
            let noise: Vec<f64> = self.numbers.iter().map(|_| draw(rng)).collect();
            drawn = evolution.sample(&noise, &margins);
            if drawn.iter().all(|position| (0.0..=1.0).contains(position)) {
                break;
            }
        }
        drawn.into_iter().map(|position| position.clamp(0.0, 1.0)).collect()
    }
}

/// Distance from the mean to the next cell of a discrete axis.
fn to_next_cell(cube: &Cube, index: usize, mean: f64) -> Option<f64> {
    let axis = &cube.axes[index];
    let (low, high) = axis.cell(axis.snap(mean))?;
    let (down, up) = (
        if low > 1e-9 { mean - low } else { f64::INFINITY },
        if high < 1.0 - 1e-9 { high - mean } else { f64::INFINITY },
    );
    Some(down.min(up).max(0.0)).filter(|distance| distance.is_finite())
}

impl Sampler for CmaEs {
    fn takes_of_earlier(&self, _space: &Space, _objectives: usize) -> OfEarlier {
        OfEarlier::Results
    }

    fn suggest(
        &self,
        ask: &Ask<'_>,
        rng: &mut StreamRng,
    ) -> Result<Option<Proposal>, SamplerError> {
        let cube = Cube::new(ask.space);
        let replay = self.replay(&cube, ask);
        let positions = self.positions(&replay.evolution, &cube, rng);
        let mut given = ask.fixed.clone();
        for (index, position) in self.numbers.iter().zip(positions) {
            let dimension = &ask.space.dimensions()[*index];
            if given.get(&dimension.name).is_none() {
                given.insert(dimension.name.clone(), dimension.distribution.from_unit(position));
            }
        }
        let whole = ask.space.assemble(&given, |_, _| Err(()));
        if let Ok(params) = whole {
            return Ok(Some(params.into()));
        }
        if ask.place == 0 && ask.fixed.is_empty() {
            // The user's prior on the other parameters applies too.
            let prior = prior::params(ask.space);
            prior.iter().for_each(|(name, value)| given.insert(name, value.clone()));
        }
        self.tpe.suggest(&Ask { fixed: &given, ..*ask }, rng)
    }
}
