//! Joint tree-structured Parzen estimators over all parameters, including conditional ones.

mod kernels;
mod parzen;
mod past;
mod rules;
mod several;

use std::cell::RefCell;

use self::parzen::Mixture;
use self::past::Past;
pub(super) use self::rules::weights_by_age;
use self::rules::{GoodWeights, Rules};
use super::cube::{Cube, Point, evenly, slices};
use super::prior::Prior;
use super::start::{Startup, WaitsFor};
use super::{
    Ask, Chosen, OfEarlier, Proposal, Sampler, SamplerEntry, SamplerError, candidates, start,
};
use crate::study::field::{Field, FieldDefault, FieldKind, UNIT, field};
use crate::study::params::Params;
use crate::study::seed::StreamRng;
use crate::study::space::Space;
use crate::study::spec::AlgorithmSpec;
use crate::study::trial::TrialNumber;

pub(super) const STARTUP_TRIALS: Field = field(
    "n_startup_trials",
    FieldKind::Integer { min: 0, max: 10_000 },
    FieldDefault::Int(10),
    "random trials (a Latin hypercube) before the density estimators take over",
);

pub(super) const EI_CANDIDATES: Field = field(
    "n_ei_candidates",
    FieldKind::Integer { min: 1, max: 10_000 },
    FieldDefault::Int(24),
    "candidates drawn from the density of good trials, of which the best is taken",
);

pub(super) const GAMMA: Field =
    field("gamma", UNIT, FieldDefault::Float(0.1), "share of trials that count as good");

pub(super) const GAMMA_CAP: Field = field(
    "gamma_cap",
    FieldKind::Integer { min: 1, max: 1_000_000 },
    FieldDefault::Int(25),
    "maximum number of trials that count as good",
);

const RULES: Field = field(
    "rules",
    FieldKind::Choice(&["mixed", "own", "optuna"]),
    FieldDefault::Text("mixed"),
    "kernel widths and trial weights: hpsearch's own, Optuna 5's, or mixed (every fourth trial by \
     the latter)",
);

pub(super) const ENTRY: SamplerEntry = SamplerEntry {
    name: "tpe",
    aliases: &[],
    summary: "learns where good points lie, all parameters together and conditional ones in their \
        branch (joint TPE)",
    // 3: every fourth trial is drawn by Optuna's rules unless a set of rules is chosen.
    version: 3,
    oldest: 3,
    options: &[STARTUP_TRIALS, EI_CANDIDATES, GAMMA, GAMMA_CAP, RULES],
    several: true,
    build: |spec, _| Ok(Box::new(Tpe::new(spec))),
};

/// How many of `informed` trials count as good: a fraction, rounded up and capped.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a share of a number of trials"
)]
pub(super) fn good_trials(informed: usize, share: f64, most: usize) -> usize {
    ((informed as f64 * share).ceil() as usize).min(most)
}

/// Maximum number of trials in the bad density: the newest and an even selection of the others. The
/// cost is linear in it.
const MOST_BAD: usize = 800;
/// Draws for one candidate that satisfies the constraints.
const DRAWS: usize = 50;
/// How many of the newest trials that selection keeps.
const NEWEST: usize = 200;

/// Draws points where good trials are dense and bad ones are not.
#[derive(Debug)]
pub struct Tpe {
    startup_trials: u64,
    candidates: usize,
    good_share: f64,
    good_most: usize,
    /// The rules that successive trials cycle through.
    rules: &'static [Rules],
    /// The trials of the last call, cached.
    past: RefCell<Option<Past>>,
}

impl Tpe {
    /// From checked options.
    pub fn new(spec: &AlgorithmSpec) -> Self {
        Tpe {
            startup_trials: STARTUP_TRIALS.of(spec),
            candidates: EI_CANDIDATES.of(spec),
            good_share: GAMMA.of(spec),
            good_most: GAMMA_CAP.of(spec),
            rules: match RULES.of::<String>(spec).as_str() {
                "own" => &[Rules::OWN],
                "optuna" => &[Rules::OPTUNA],
                _ => &Rules::MIXED,
            },
            past: RefCell::new(None),
        }
    }

    /// The rules for a trial.
    fn rules(&self, number: TrialNumber) -> &'static Rules {
        let turns = self.rules.len() as u64;
        &self.rules[usize::try_from(number.0 % turns).unwrap_or(0)]
    }

    /// The trials of the two densities, by number.
    fn split(&self, past: &Past, ask: &Ask<'_>) -> Split {
        let informed = past.informed();
        let good = good_trials(informed, self.good_share, self.good_most).min(informed);
        let mut ranked = past.ranked();
        let trials = ranked.len();
        let mut good: Vec<usize> = ranked.by_ref().take(good).collect();
        let threshold = ranked
            .next()
            .and_then(|best| ask.history.final_score(&ask.history.trials()[best]))
            .map(crate::study::metric::Score::loss);
        good.sort_unstable();
        let mut left = good.iter().copied().peekable();
        let bad = (0..trials).filter(|trial| left.next_if_eq(trial).is_none()).collect();
        Split { good, bad: thinned(bad), threshold }
    }

    fn good_weights(rules: &Rules, split: &Split, ask: &Ask<'_>) -> Vec<f64> {
        if ask.history.has_several_objectives() {
            return several::good_weights(&split.good, &ask.history);
        }
        let by_age = weights_by_age(split.good.len());
        if rules.good == GoodWeights::Uniform {
            return by_age;
        }
        let loss = |trial: &usize| {
            ask.history
                .final_score(&ask.history.trials()[*trial])
                .map_or(f64::NAN, |score| score.loss())
        };
        let losses: Vec<f64> = split.good.iter().map(loss).collect();
        improvements(&losses, split.threshold).unwrap_or(by_age)
    }

    fn densities<'a>(&self, past: &'a mut Past, ask: &Ask<'_>) -> (&'a Cube, Densities<'a>) {
        let split = self.split(past, ask);
        let rules = self.rules(ask.number);
        let extras =
            Extras::new(&past.cube, ask, self.good_share, split.good.len() + split.bad.len());
        let slots = split.slots(past, ask);
        let past = &*past;
        let good_weights = Self::good_weights(rules, &split, ask);
        (&past.cube, Densities::new(past, &slots, good_weights, rules, &extras))
    }

    fn learned(&self, past: &mut Past, ask: &Ask<'_>, rng: &mut StreamRng) -> Params {
        let (cube, densities) = self.densities(past, ask);
        let fixed = cube.encode(ask.fixed);
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
            let score = densities.log_ratio(&point, &mut terms);
            if best.as_ref().is_none_or(|(most, _)| score > *most) {
                best = Some((score, point));
            }
        }
        let point = best.map_or_else(|| densities.good.draw(&fixed, rng), |(_, point)| point);
        cube.decode(&point, ask)
    }
}

/// The trials of the two densities, by index in the history.
struct Split {
    good: Vec<usize>,
    bad: Vec<usize>,
    /// Loss of the best bad trial, if it has one.
    threshold: Option<f64>,
}

impl Split {
    fn slots(&self, past: &mut Past, ask: &Ask<'_>) -> Slots {
        Slots {
            good: past.locate(&self.good, ask.history),
            bad: past.locate(&self.bad, ask.history),
        }
    }
}

/// The same trials, by slot of the past.
struct Slots {
    good: Vec<usize>,
    bad: Vec<usize>,
}

/// Kernels that do not stem from the study's own trials.
#[derive(Default)]
struct Extras {
    /// Good and bad trials of earlier studies.
    good: Vec<Point>,
    bad: Vec<Point>,
    /// The weight of each.
    weight: f64,
    /// The user's prior: one good kernel.
    prior: Option<Prior>,
}

impl Extras {
    #[expect(clippy::cast_precision_loss, reason = "a number of trials")]
    fn new(cube: &Cube, ask: &Ask<'_>, good_share: f64, trials: usize) -> Self {
        let encode = |is_good: bool| {
            ask.earlier
                .iter()
                .filter(|earlier| (earlier.rank < good_share) == is_good)
                .map(|earlier| cube.encode(&earlier.params))
                .collect()
        };
        // Together they weigh as much as the study's own at first, and a third of it after forty.
        Extras {
            good: encode(true),
            bad: encode(false),
            weight: 20.0 / (20.0 + trials as f64),
            prior: Prior::new(cube, ask.space),
        }
    }
}

/// The densities of good and bad trials.
struct Densities<'a> {
    good: Mixture<'a>,
    bad: Mixture<'a>,
}

impl<'a> Densities<'a> {
    fn new(
        past: &'a Past,
        slots: &Slots,
        good_weights: Vec<f64>,
        rules: &Rules,
        extras: &Extras,
    ) -> Self {
        let kernel_of = past.kernel_of(&slots.bad);
        let bad_weights =
            [weights_by_age(slots.bad.len()), vec![extras.weight; extras.bad.len()]].concat();
        let bad = slices(&extras.bad);
        let bad = Mixture::new(
            &past.cube,
            |axis| past.many_kernels(axis, &slots.bad, &kernel_of, &bad),
            bad_weights,
            rules,
            false,
        );

        let mut good_weights = [good_weights, vec![extras.weight; extras.good.len()]].concat();
        let mut good = slices(&extras.good);
        good.extend(extras.prior.as_ref().map(|prior| prior.place.as_slice()));
        good_weights.extend(extras.prior.as_ref().map(|_| 1.0));
        let good = Mixture::new(
            &past.cube,
            |axis| past.kernels(axis, &slots.good, &good),
            good_weights,
            rules,
            extras.prior.is_some(),
        );
        Densities { good, bad }
    }

    /// Log ratio of the two densities: the acquisition function.
    fn log_ratio(&self, point: &[f64], terms: &mut Vec<f64>) -> f64 {
        self.good.log_density(point, terms) - self.bad.log_density(point, terms)
    }
}

/// Improvement of each loss on the threshold, scaled to mean 1; `None` if undefined.
#[expect(clippy::cast_precision_loss, reason = "numbers of trials")]
fn improvements(losses: &[f64], threshold: Option<f64>) -> Option<Vec<f64>> {
    let worst =
        losses.iter().copied().filter(|loss| loss.is_finite()).fold(f64::NEG_INFINITY, f64::max);
    let threshold = threshold.filter(|threshold| threshold.is_finite()).unwrap_or(worst);
    let gains: Vec<f64> = losses
        .iter()
        .map(|loss| if loss.is_finite() { (threshold - loss).max(0.0) } else { 0.0 })
        .collect();
    let total: f64 = gains.iter().sum();
    (total.is_finite() && total > 0.0)
        .then(|| gains.iter().map(|gain| gain * gains.len() as f64 / total).collect())
}

/// The newest of `trials` (oldest first), and an even selection of the others.
fn thinned<T: Copy>(trials: Vec<T>) -> Vec<T> {
    if trials.len() <= MOST_BAD {
        return trials;
    }
    let (old, new) = trials.split_at(trials.len() - NEWEST);
    let kept = MOST_BAD - NEWEST;
    evenly(old, kept).chain(new.iter().copied()).collect()
}

impl Tpe {
    /// The trials so far, and whether they are enough for density estimators.
    fn past(&self, ask: &Ask<'_>) -> (Past, bool) {
        let past = Past::after(self.past.take(), ask.space, ask.history);
        let needed = start::trials(ask, self.startup_trials).max(1);
        let is_informed = past.informed() as u64 >= needed;
        (past, is_informed)
    }
}

impl Sampler for Tpe {
    fn starts_as_given(&self) -> bool {
        true
    }

    fn startup(&self) -> Option<Startup> {
        Some(Startup { trials: self.startup_trials, waits_for: WaitsFor::CompleteOrStopped })
    }

    fn takes_of_earlier(&self, _space: &Space, _objectives: usize) -> OfEarlier {
        OfEarlier::Results
    }

    fn suggest(
        &self,
        ask: &Ask<'_>,
        rng: &mut StreamRng,
    ) -> Result<Option<Proposal>, SamplerError> {
        let (mut past, is_informed) = self.past(ask);
        let point = if is_informed {
            self.learned(&mut past, ask, rng)
        } else {
            start::point(ask, self.startup_trials, rng)
        };
        self.past.replace(Some(past));
        Ok(Some(point.into()))
    }

    fn choose(
        &self,
        ask: &Ask<'_>,
        candidates: &[&Params],
        rng: &mut StreamRng,
    ) -> Result<Chosen, SamplerError> {
        let (mut past, is_informed) = self.past(ask);
        let index = if is_informed {
            let (cube, densities) = self.densities(&mut past, ask);
            let points = candidates::points(cube, candidates, rng);
            let mut terms = Vec::new();
            let ratios = points.iter().map(|(_, point)| densities.log_ratio(point, &mut terms));
            points[candidates::best(ratios)].0
        } else {
            candidates::uniform(candidates, rng)
        };
        self.past.replace(Some(past));
        Ok(index.into())
    }
}

#[cfg(test)]
mod past_tests;
#[cfg(test)]
mod tests;
