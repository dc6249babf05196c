//! The design of a study's first trials: a Latin hypercube that needs no memory.

use std::convert::Infallible;

use rand::seq::SliceRandom as _;
use rand::{RngExt as _, SeedableRng as _};

use super::Ask;
use crate::params::Params;
use crate::seed::StreamRng;
use crate::space::{Dimension, Space};
use crate::trial::TrialNumber;

/// The point of a start-up trial, by a design of `startup` trials.
pub(super) fn point(ask: &Ask<'_>, startup: u64, rng: &mut StreamRng) -> Params {
    let stratified = is_wide(ask.space);
    let drawn = ask.space.assemble(ask.fixed, |dimension, _| {
        let unit = if stratified { unit(dimension, ask, startup, rng) } else { rng.random() };
        Ok::<_, Infallible>(dimension.distribution.from_unit(unit))
    });
    match drawn {
        Ok(params) => params,
        Err(impossible) => match impossible {},
    }
}

/// Whether free draws hardly ever repeat a point. Where they do, whoever asks again for a point that was not tried yet
/// must not be sent to the same part of every axis each time.
pub(super) fn is_wide(space: &Space) -> bool {
    space.dimensions().iter().any(|dimension| dimension.distribution.cardinality().is_none_or(|count| count > 1000))
}

/// A start-up draw in `[0, 1)`: the trials 0 to `startup - 1` fall into different ones of `startup` equal parts of each
/// axis (a Latin hypercube), later ones anywhere.
///
/// Which trial gets which part must be known to all of them without being stored. Trial 0 is drawn freely; its values,
/// which differ from seed to seed, are the key of the permutation that deals the remaining parts out.
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

#[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a part's index, clamped")]
fn part(dimension: &Dimension, first: &Params, number: u64, startup: u64) -> u64 {
    let key = blake3::hash(format!("start-up of {}: {}", dimension.name, first.fingerprint()).as_bytes());
    let mut parts: Vec<u64> = (0..startup).collect();
    parts.shuffle(&mut StreamRng::from_seed(*key.as_bytes()));
    if let Some(unit) = first.get(&dimension.name).and_then(|value| dimension.distribution.to_unit(value)) {
        let taken = ((unit * startup as f64) as u64).min(startup - 1);
        parts.retain(|part| *part != taken);
        return parts[number as usize - 1];
    }
    parts[number as usize]
}
