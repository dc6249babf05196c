//! How the first trials of a search got their parameters, before a model proposed any.

use super::start::{Given, Startup, WaitsFor, given_to};
use super::{SAMPLERS, SamplerEntry, find};
use crate::study::params::Params;
use crate::study::spec::StudySpec;
use crate::study::state::Counts;

/// Where a trial's parameters came from, if not from a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beginning {
    /// They were given.
    Given(Given),
    /// They were drawn at random, during this start-up.
    Random(Startup),
}

/// A proposal of the past.
#[derive(Clone, Copy, Debug)]
pub struct PastProposal<'a> {
    /// The parameters.
    pub params: &'a Params,
    /// The place of its trial among those to which something is given.
    pub place: u64,
    /// The other trials at that time.
    pub others: Counts,
    /// Whether the sampler predicted something of it.
    pub is_predicted: bool,
}

/// Where the parameters of a proposal came from, if not from the model of `sampler`, which is the
/// study's or one that it delegated to. `None`: from its model, or that is not known.
pub fn beginning(spec: &StudySpec, sampler: &str, proposal: PastProposal<'_>) -> Option<Beginning> {
    let entry = find(sampler).ok()?;
    let defaults = entry.defaults();
    let options = if sampler == spec.sampler.name { &spec.sampler } else { &defaults };
    let built = (entry.build)(options, &spec.space).ok()?;
    if built.starts_as_given()
        && let Some((source, given)) = given_to(&spec.space, &spec.earlier, proposal.place)
        && proposal.params.iter().all(|(name, value)| given.get(name).is_none_or(|it| it == value))
    {
        return Some(Beginning::Given(source));
    }
    let startup = built.startup()?;
    let Counts { complete, pruned, paused, .. } = proposal.others;
    // Earlier versions predicted nothing where they had learned from stopped or paused trials.
    let is_current = |entry: &SamplerEntry| {
        entry.name == spec.sampler.name && entry.version == spec.sampler.version
    };
    let is_unknown = startup.waits_for == WaitsFor::Complete
        && pruned + paused > 0
        && !SAMPLERS.iter().any(is_current);
    // Earlier studies shorten the start.
    let is_short = spec.earlier.len() as u64 >= startup.trials;
    let known = match startup.waits_for {
        WaitsFor::Complete => complete,
        WaitsFor::CompleteOrStopped => complete + pruned,
    };
    let is_random = !proposal.is_predicted && !is_unknown && !is_short && known < startup.trials;
    is_random.then_some(Beginning::Random(startup))
}
