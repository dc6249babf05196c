//! Fixtures of the samplers' tests: asks, and searches.

use super::conformance::{float, space, trial_of};
use super::{Ask, Sampler};
use crate::study::history::History;
use crate::study::metric::Direction;
use crate::study::params::{Params, Value};
use crate::study::seed::{SeedTree, StreamRng};
use crate::study::space::Space;
use crate::study::trial::{Trial, TrialNumber, TrialState};

/// The space of `x0`, `x1`, ... on `[0, 1]`.
pub(super) fn unit_cube(axes: usize) -> Space {
    space((0..axes).map(|axis| float(&format!("x{axis}"), 0.0, 1.0)))
}

pub(super) fn params<const N: usize>(pairs: [(&str, Value); N]) -> Params {
    pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// The value of a numeric parameter.
pub(super) fn number(params: &Params, name: &str) -> f64 {
    params.get(name).and_then(Value::as_number).unwrap()
}

/// The ask after `trials`, whose losses are minimised.
pub(super) fn ask<'a>(space: &'a Space, trials: &'a [Trial], seed: u64) -> Ask<'a> {
    let history = History::of(trials, Direction::Minimize);
    Ask::new(space, history, TrialNumber(trials.len() as u64), SeedTree::new(seed))
}

/// The random stream of the trial asked for.
pub(super) fn stream(ask: &Ask<'_>) -> StreamRng {
    ask.seeds.stream(&format!("sampler/{}", ask.number))
}

/// The sampler's answer.
pub(super) fn answer(sampler: &dyn Sampler, ask: &Ask<'_>) -> Option<Params> {
    sampler.suggest(ask, &mut stream(ask)).unwrap().map(|proposal| proposal.params)
}

/// The next point after `trials`.
pub(super) fn suggest(sampler: &dyn Sampler, space: &Space, trials: &[Trial], seed: u64) -> Params {
    answer(sampler, &ask(space, trials, seed)).unwrap()
}

pub(super) fn complete(number: u64, params: Params, value: f64) -> Trial {
    trial_of(number, params, TrialState::Complete, Some(value))
}

/// Suggests the next trial and adds it, complete; failed where its loss is NaN.
pub(super) fn run_trial(
    sampler: &dyn Sampler,
    space: &Space,
    trials: &mut Vec<Trial>,
    seed: u64,
    loss: impl Fn(&Params) -> f64,
) -> f64 {
    let point = suggest(sampler, space, trials, seed);
    let loss = loss(&point);
    let mut trial = complete(trials.len() as u64, point, loss);
    if loss.is_nan() {
        (trial.state, trial.value) = (TrialState::Failed, None);
    }
    trials.push(trial);
    loss
}

/// Runs `count` trials, one after the other.
pub(super) fn search(
    sampler: &dyn Sampler,
    space: &Space,
    budget: u64,
    seed: u64,
    loss: impl Fn(&Params) -> f64,
) -> Vec<Trial> {
    let mut trials = Vec::new();
    for _ in 0..budget {
        run_trial(sampler, space, &mut trials, seed, &loss);
    }
    trials
}

/// Adds `count` running trials; returns their parameter `name`.
pub(super) fn pending(
    sampler: &dyn Sampler,
    space: &Space,
    mut trials: Vec<Trial>,
    count: usize,
    seed: u64,
    name: &str,
) -> Vec<f64> {
    for _ in 0..count {
        let point = suggest(sampler, space, &trials, seed);
        trials.push(trial_of(trials.len() as u64, point, TrialState::Running, None));
    }
    let (_, pending) = trials.split_at(trials.len() - count);
    pending.iter().map(|trial| number(&trial.params, name)).collect()
}

/// The best loss of feasible trials.
pub(super) fn best(trials: &[Trial]) -> f64 {
    let kept = trials.iter().filter(|trial| trial.violation.is_none());
    kept.filter_map(|trial| trial.value).fold(f64::INFINITY, f64::min)
}

/// The median of an odd number of values.
pub(super) fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
