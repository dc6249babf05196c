//! Joint tree-structured Parzen estimators: all parameters at once, conditional ones in their branch.

mod parzen;
mod rules;

use self::parzen::Mixture;
use self::rules::{GoodWeights, Rules, weights_by_age};
use super::cube::{Cube, Point};
use super::guess::Guess;
use super::ranking::Ranking;
use super::{Ask, Capabilities, Sampler, SamplerEntry, SamplerError, start};
use crate::params::Params;
use crate::policy::{OptionKind, OptionSpec};
use crate::seed::StreamRng;
use crate::study::PolicySpec;
use crate::trial::Trial;

pub(super) const ENTRY: SamplerEntry = SamplerEntry {
    name: "tpe",
    aliases: &[],
    summary: "learns where good points lie, all parameters together and conditional ones in their branch (joint TPE)",
    // 2: trials that a pruner paused count with what they reported.
    version: 2,
    options: &[
        OptionSpec {
            name: "n_startup_trials",
            kind: OptionKind::Int { min: 0, max: 10_000 },
            default: "10",
            summary: "trials drawn at random (one in each of so many equal parts of every axis) before the estimators take over",
        },
        OptionSpec {
            name: "n_ei_candidates",
            kind: OptionKind::Int { min: 1, max: 10_000 },
            default: "24",
            summary: "draws from the good trials' density of which the most promising is taken",
        },
        OptionSpec { name: "gamma", kind: OptionKind::Float { min: 0.0, max: 1.0 }, default: "0.1", summary: "share of trials that count as good" },
        OptionSpec { name: "gamma_cap", kind: OptionKind::Int { min: 1, max: 1_000_000 }, default: "25", summary: "most trials that count as good" },
        OptionSpec {
            name: "rules",
            kind: OptionKind::Word(&["own", "optuna"]),
            default: "\"own\"",
            summary: "widths of kernels and weights of trials: this program's, or those of Optuna 5",
        },
    ],
    build: |spec, _| Ok(Box::new(Tpe::new(spec))),
};

/// Most trials of the bad density; of more, the newest and an even selection of the others. Cost is linear in them.
const MOST_BAD: usize = 800;
/// Draws for one candidate that keeps the study's constraints.
const DRAWS: usize = 50;
/// How many of the newest stay in that selection.
const NEWEST: usize = 200;

/// Draws points where good trials are dense and bad ones are not.
#[derive(Clone, Debug)]
pub struct Tpe {
    startup_trials: u64,
    candidates: usize,
    good_share: f64,
    good_most: usize,
    rules: Rules,
}

impl Tpe {
    /// From checked options.
    pub fn new(spec: &PolicySpec) -> Self {
        let count = |key, default| usize::try_from(spec.count(key, default)).unwrap_or(usize::MAX);
        Tpe {
            startup_trials: spec.count("n_startup_trials", 10),
            candidates: count("n_ei_candidates", 24),
            good_share: spec.float("gamma", 0.1),
            good_most: count("gamma_cap", 25),
            rules: if spec.word("rules", "own") == "optuna" { Rules::OPTUNA } else { Rules::OWN },
        }
    }

    /// Trials for the two densities, in order of their numbers.
    fn split<'a>(&self, ask: &Ask<'a>) -> Split<'a> {
        let ranking = Ranking::new(ask.history);
        let informed = usize::try_from(ranking.informed).unwrap_or(usize::MAX);
        let good = self.good(informed);
        let mut trials = ranking.trials;
        let threshold = trials.get(good).and_then(|trial| ask.history.final_score(trial)).map(crate::metric::Score::loss);
        let mut bad = trials.split_off(good);
        trials.sort_by_key(|trial| trial.number);
        bad.sort_by_key(|trial| trial.number);
        Split { good: trials, bad: thinned(bad), threshold }
    }

    /// How many of `informed` trials count as good.
    #[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share of a number of trials")]
    fn good(&self, informed: usize) -> usize {
        ((informed as f64 * self.good_share).ceil() as usize).min(self.good_most).min(informed)
    }

    fn good_weights(&self, split: &Split<'_>, ask: &Ask<'_>) -> Vec<f64> {
        let by_age = weights_by_age(split.good.len());
        if self.rules.good == GoodWeights::Uniform {
            return by_age;
        }
        let losses: Vec<f64> = split.good.iter().map(|trial| ask.history.final_score(trial).map_or(f64::NAN, |score| score.loss())).collect();
        improvements(&losses, split.threshold).unwrap_or(by_age)
    }

    fn learned(&self, ask: &Ask<'_>, rng: &mut StreamRng) -> Params {
        let cube = Cube::new(ask.space);
        let split = self.split(ask);
        let extras = Extras::new(&cube, ask, self.good_share, split.good.len() + split.bad.len());
        let densities = Densities::new(&cube, &split, &self.good_weights(&split, ask), &self.rules, &extras);
        let fixed = cube.fixed(ask.fixed);
        let mut terms = Vec::new();
        let mut best: Option<(f64, Point)> = None;
        let (mut left, mut draws) = (self.candidates, 0);
        while left > 0 && draws < DRAWS * self.candidates {
            let point = densities.good.draw(&fixed, rng);
            draws += 1;
            if ask.is_restricted() && !ask.allows(&cube.decode(&point, ask)) {
                continue;
            }
            left -= 1;
            let promise = densities.promise(&point, &mut terms);
            if best.as_ref().is_none_or(|(most, _)| promise > *most) {
                best = Some((promise, point));
            }
        }
        let point = best.map_or_else(|| densities.good.draw(&fixed, rng), |(_, point)| point);
        cube.decode(&point, ask)
    }
}

/// Trials for the two densities.
struct Split<'a> {
    good: Vec<&'a Trial>,
    bad: Vec<&'a Trial>,
    /// Loss of the best trial that is not good, where it has one.
    threshold: Option<f64>,
}

/// Kernels that no trial of the study gave.
#[derive(Default)]
struct Extras {
    /// Good and bad trials of earlier studies.
    good: Vec<Point>,
    bad: Vec<Point>,
    /// The weight of each of them.
    weight: f64,
    /// What the user expects: one good kernel.
    guess: Option<Guess>,
}

impl Extras {
    #[expect(clippy::cast_precision_loss, reason = "a number of trials")]
    fn new(cube: &Cube, ask: &Ask<'_>, good_share: f64, trials: usize) -> Self {
        let encode = |is_good: bool| {
            ask.earlier.iter().filter(|earlier| (earlier.rank < good_share) == is_good).map(|earlier| cube.encode(&earlier.params)).collect()
        };
        // Worth as much as the study's own at first, and a third of it after forty.
        Extras { good: encode(true), bad: encode(false), weight: 20.0 / (20.0 + trials as f64), guess: Guess::new(cube, ask.space) }
    }
}

/// Where good and bad trials lie.
struct Densities<'a> {
    good: Mixture<'a>,
    bad: Mixture<'a>,
}

impl<'a> Densities<'a> {
    fn new(cube: &'a Cube, split: &Split<'_>, good_weights: &[f64], rules: &Rules, extras: &Extras) -> Self {
        let mixture = |trials: &[&Trial], weights: &[f64], earlier: &[Point], guess: Option<&Guess>| {
            let points: Vec<Point> = trials.iter().map(|trial| cube.encode(&trial.params)).chain(earlier.iter().cloned()).collect();
            let weights = [weights, &vec![extras.weight; earlier.len()]].concat();
            Mixture::new(cube, &slices(&points), &weights, rules, guess)
        };
        Densities {
            good: mixture(&split.good, good_weights, &extras.good, extras.guess.as_ref()),
            bad: mixture(&split.bad, &weights_by_age(split.bad.len()), &extras.bad, None),
        }
    }

    /// Logarithm of the ratio of the two densities.
    fn promise(&self, point: &[f64], terms: &mut Vec<f64>) -> f64 {
        self.good.log_density(point, terms) - self.bad.log_density(point, terms)
    }
}

fn slices(points: &[Point]) -> Vec<&[f64]> {
    points.iter().map(Vec::as_slice).collect()
}

/// How far each loss lies below the threshold, 1 in the mean; nothing if that says nothing.
#[expect(clippy::cast_precision_loss, reason = "numbers of trials")]
fn improvements(losses: &[f64], threshold: Option<f64>) -> Option<Vec<f64>> {
    let worst = losses.iter().copied().filter(|loss| loss.is_finite()).fold(f64::NEG_INFINITY, f64::max);
    let threshold = threshold.filter(|threshold| threshold.is_finite()).unwrap_or(worst);
    let gains: Vec<f64> = losses.iter().map(|loss| if loss.is_finite() { (threshold - loss).max(0.0) } else { 0.0 }).collect();
    let total: f64 = gains.iter().sum();
    (total.is_finite() && total > 0.0).then(|| gains.iter().map(|gain| gain * gains.len() as f64 / total).collect())
}

/// The newest of `trials` (oldest first), and an even selection of the others.
fn thinned<T: Copy>(trials: Vec<T>) -> Vec<T> {
    if trials.len() <= MOST_BAD {
        return trials;
    }
    let (old, new) = trials.split_at(trials.len() - NEWEST);
    let kept = MOST_BAD - NEWEST;
    (0..kept).map(|place| old[place * old.len() / kept]).chain(new.iter().copied()).collect()
}

impl Sampler for Tpe {
    fn capabilities(&self) -> Capabilities {
        Capabilities { conditional: true, continuous: true, exhausts: false }
    }

    fn suggest(&self, ask: &Ask<'_>, rng: &mut StreamRng) -> Result<Option<Params>, SamplerError> {
        let informed = ask.history.trials().iter().filter(|trial| is_informed(trial)).count() as u64;
        if informed >= start::trials(ask, self.startup_trials).max(1) {
            return Ok(Some(self.learned(ask, rng)));
        }
        Ok(Some(start::point(ask, self.startup_trials, rng)))
    }
}

fn is_informed(trial: &Trial) -> bool {
    trial.state == crate::trial::TrialState::Complete || trial.rests()
}

#[cfg(test)]
mod tests;
