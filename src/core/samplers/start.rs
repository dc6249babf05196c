//! The initial design: a stateless Latin hypercube for a study's first trials.

use rand::seq::SliceRandom as _;
use rand::{RngExt as _, SeedableRng as _};

use super::{Ask, prior};
use crate::study::params::Params;
use crate::study::seed::StreamRng;
use crate::study::space::{Dimension, Space};
use crate::study::spec::{Earlier, PriorRule};
use crate::study::trial::{Origin, Trial, TrialNumber};

/// The configuration of a start-up trial in a design of `startup` trials.
pub(super) fn point(ask: &Ask<'_>, startup: u64, rng: &mut StreamRng) -> Params {
    let stratified = is_wide(ask.space);
    ask.assemble(&given(ask), |dimension| {
        let unit = if stratified { unit(dimension, ask, startup, rng) } else { rng.random() };
        dimension.distribution.from_unit(unit)
    })
}

/// Length of the start-up: shorter with a warm start.
pub(super) fn trials(ask: &Ask<'_>, startup: u64) -> u64 {
    // After enqueued configurations, which may be enough for a model.
    if ask.place < ask.number.0 && ask.fixed.is_empty() && !given(ask).is_empty() {
        return u64::MAX;
    }
    let from_earlier = FROM_EARLIER as u64
        + u64::from(ask.space.dimensions().iter().any(|dimension| dimension.prior.is_some()));
    if (ask.earlier.len() as u64) < startup { startup } else { startup.min(from_earlier) }
}

/// The start-up of a sampler with a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Startup {
    /// How many trials the model needs, unless there are earlier studies.
    pub trials: u64,
    /// Those that count.
    pub waits_for: WaitsFor,
}

/// The trials that the start-up waits for when trials are stopped early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitsFor {
    /// Complete ones: forecasts from few complete trials are often wrong.
    Complete,
    /// Stopped ones too.
    CompleteOrStopped,
}

/// How many of the earlier studies' best configurations are tried first.
const FROM_EARLIER: usize = 3;

/// The source of the parameters that a start-up trial takes without drawing them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Given {
    /// The priors of the space.
    Prior,
    /// One of the best configurations of earlier studies.
    Earlier,
}

/// The parameters that are not drawn: the first trial takes the user's prior, the next ones the
/// best configurations of earlier studies.
fn given(ask: &Ask<'_>) -> Params {
    if !ask.fixed.is_empty() {
        return ask.fixed.clone();
    }
    given_to(ask.space, ask.earlier, ask.place).map(|(_, params)| params).unwrap_or_default()
}

/// The place of a trial among those to which something is given, from 0, after the trials `before`.
pub fn place_of(rule: PriorRule, number: TrialNumber, before: &[Trial]) -> u64 {
    let is_sampled =
        |trial: &&Trial| matches!(trial.origin, Origin::Sampled(_) | Origin::Repeat(_));
    match rule {
        PriorRule::FirstTrials => number.0,
        PriorRule::FirstSampled => before.iter().filter(is_sampled).count() as u64,
    }
}

/// What is given to the start-up trial at a place, by a sampler with this design, if it is not
/// enqueued.
pub(super) fn given_to(space: &Space, earlier: &[Earlier], place: u64) -> Option<(Given, Params)> {
    let prior = Some(prior::params(space)).filter(|prior| !prior.is_empty());
    let best = earlier_best(earlier).into_iter().map(|params| (Given::Earlier, params));
    let place = usize::try_from(place).unwrap_or(usize::MAX);
    prior.map(|params| (Given::Prior, params)).into_iter().chain(best).nth(place)
}

fn earlier_best(earlier: &[Earlier]) -> Vec<Params> {
    let mut ranked: Vec<&Earlier> = earlier.iter().collect();
    ranked.sort_by(|a, b| a.rank.total_cmp(&b.rank));
    let mut best: Vec<Params> = Vec::new();
    for earlier in ranked {
        if best.len() < FROM_EARLIER && !best.contains(&earlier.params) {
            best.push(earlier.params.clone());
        }
    }
    best
}

/// Whether independent draws rarely repeat a point. Where they repeat, redraws must not be confined
/// to the same cell of every axis.
pub(super) fn is_wide(space: &Space) -> bool {
    space
        .dimensions()
        .iter()
        .any(|dimension| dimension.distribution.cardinality().is_none_or(|count| count > 1000))
}

/// A start-up draw in `[0, 1)`: trials 0 to `startup - 1` fall into distinct cells of `startup`
/// equal parts of each axis (a Latin hypercube), later ones anywhere.
///
/// The assignment of cells is recomputed, not stored. Trial 0 is drawn freely; its values, which
/// depend on the seed, are the key of the permutation that assigns the other cells.
#[expect(clippy::cast_precision_loss, reason = "numbers of start-up trials")]
pub(super) fn unit(dimension: &Dimension, ask: &Ask<'_>, startup: u64, rng: &mut StreamRng) -> f64 {
    let within: f64 = rng.random();
    let first = ask.history.trials().first().filter(|trial| trial.number == TrialNumber(0));
    match first {
        Some(first) if (1..startup).contains(&ask.number.0) => {
            let part = part(dimension, &first.params, ask.number.0, startup);
            (part as f64 + within) / startup as f64
        }
        _ => within,
    }
}

#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a part's index, clamped"
)]
fn part(dimension: &Dimension, first: &Params, number: u64, startup: u64) -> u64 {
    let key =
        blake3::hash(format!("start-up of {}: {}", dimension.name, first.fingerprint()).as_bytes());
    let mut parts: Vec<u64> = (0..startup).collect();
    parts.shuffle(&mut StreamRng::from_seed(*key.as_bytes()));
    if let Some(unit) =
        first.get(&dimension.name).and_then(|value| dimension.distribution.to_unit(value))
    {
        let taken = ((unit * startup as f64) as u64).min(startup - 1);
        parts.retain(|part| *part != taken);
        return parts[number as usize - 1];
    }
    parts[number as usize]
}
