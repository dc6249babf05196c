//! Samplers propose configurations; each is one file and one line of [`SAMPLERS`].

mod auto;
mod beginning;
mod candidates;
mod cmaes;
pub mod conformance;
mod cube;
mod earlier;
mod finite_space;
mod genetic;
mod gp;
mod grid;
mod normal;
mod nsga2;
mod nsga3;
mod prior;
mod qmc;
mod random;
mod ranking;
mod start;
mod tpe;
mod tpe_independent;
mod untried;

use std::cell::Cell;
use std::collections::BTreeMap;

pub use beginning::{Beginning, PastProposal, beginning};
pub use earlier::{Taken, earlier};
pub use gp::{CurvePredictor, Predicted, PredictedTrial};
pub use start::{Given, Startup, WaitsFor, place_of};
pub use untried::untried;

use crate::analysis::memory_model::{MemoryModel, smallest_sizes};
use crate::study::constraint::{self, Constraint};
use crate::study::history::History;
use crate::study::params::{Params, Value};
use crate::study::prediction::Prediction;
use crate::study::registry::{OptionProblem, Registry, RegistryEntry, RegistryError, UnknownName};
use crate::study::seed::{SeedTree, StreamRng};
use crate::study::space::{Dimension, Space};
use crate::study::spec::{AlgorithmSpec, Earlier, StudySpec};
use crate::study::trial::{TrialNumber, TrialState};

/// The input of [`Sampler::suggest`].
#[derive(Clone, Copy, Debug)]
pub struct Ask<'a> {
    /// The space to draw from.
    pub space: &'a Space,
    /// All trials so far, including running ones.
    pub history: History<'a>,
    /// The number of the trial that will be created.
    pub number: TrialNumber,
    /// Its place among the trials that take the priors, and then the best configurations of earlier
    /// studies, from 0.
    pub place: u64,
    /// Fixed values (an enqueued configuration); the sampler draws the others.
    pub fixed: &'a Params,
    /// Maximum number of trials, if the study has one.
    pub budget: Option<u64>,
    /// Constraints on parameters: see [`Ask::allows`].
    pub constraints: &'a [Constraint],
    /// Results of earlier studies in similar spaces (warm start).
    pub earlier: &'a [Earlier],
    /// Steps of a full trial, if known.
    pub max_resource: Option<u64>,
    /// The memory available to a trial, if it is limited.
    pub room: Option<AvailableMemory<'a>>,
    /// Seeds for draws that all trials of the study share. Draws of this trial alone come from the
    /// `rng` argument.
    pub seeds: SeedTree,
}

/// The memory available to one trial, and the model that estimates what trials need.
#[derive(Clone, Copy, Debug)]
pub struct AvailableMemory<'a> {
    /// The study.
    pub spec: &'a StudySpec,
    /// Its memory model.
    pub memory_model: &'a MemoryModel,
    /// Available bytes.
    pub bytes: u64,
    /// Trials with this estimate or more probably ran out of memory.
    pub too_much: u64,
    /// Counts proposals that did not fit.
    pub skipped: &'a Cell<u64>,
}

impl AvailableMemory<'_> {
    /// Whether the configuration is expected to fit in memory at its smallest batch size.
    fn takes(&self, params: &Params) -> bool {
        let expected = self.memory_model.expect(&smallest_sizes(self.spec, params));
        let fits = expected.least <= self.bytes && expected.likely < self.too_much;
        self.skipped.set(self.skipped.get().saturating_add(u64::from(!fits)));
        fits
    }
}

/// The state of a study on which the choice of a sampler depends.
#[derive(Clone, Copy, Debug)]
pub struct Situation<'a> {
    /// The space to draw from.
    pub space: &'a Space,
    /// The number of the trial that will be created.
    pub number: TrialNumber,
    /// Trials that are finished or paused by a pruner.
    pub finished: u64,
    /// Those of them that were pruned or are paused.
    pub stopped: u64,
    /// Those of them that are paused.
    pub paused: u64,
    /// Those of them that are complete.
    pub complete: u64,
    /// Queued and running trials.
    pub unfinished: u64,
    /// Maximum number of trials, if the study has one.
    pub budget: Option<u64>,
    /// Number of objectives.
    pub objectives: usize,
}

impl<'a> Ask<'a> {
    /// An ask without fixed values, constraints, or earlier studies.
    pub fn new(
        space: &'a Space,
        history: History<'a>,
        number: TrialNumber,
        seeds: SeedTree,
    ) -> Self {
        static NOTHING: Params = Params::new();
        Ask {
            space,
            history,
            number,
            place: number.0,
            fixed: &NOTHING,
            budget: None,
            constraints: &[],
            earlier: &[],
            max_resource: None,
            room: None,
            seeds,
        }
    }

    /// Assembles a configuration: `fixed` values first, then `value` for each other active
    /// parameter, parents first.
    fn assemble(&self, fixed: &Params, mut value: impl FnMut(&Dimension) -> Value) -> Params {
        let Ok(point) = self
            .space
            .assemble(fixed, |dimension, _| Ok::<_, std::convert::Infallible>(value(dimension)));
        point
    }

    /// Whether a configuration satisfies the constraints on parameters. Samplers that rank
    /// candidates rank only those; for the others, [`propose`] draws again.
    pub fn allows(&self, params: &Params) -> bool {
        constraint::broken(self.constraints, params).is_none()
            && self.room.is_none_or(|room| room.takes(params))
    }

    /// Whether [`Ask::allows`] can reject anything.
    pub fn is_restricted(&self) -> bool {
        self.room.is_some()
            || self.constraints.iter().any(|one| matches!(one, Constraint::Require(_)))
    }

    /// The study's [`Situation`].
    pub fn situation(&self) -> Situation<'a> {
        let trials = self.history.trials();
        let count = |is_counted: fn(TrialState) -> bool| {
            trials.iter().filter(|trial| is_counted(trial.state)).count() as u64
        };
        let finished = count(|state| state.is_finished() || state == TrialState::Paused);
        let Ask { space, number, budget, .. } = *self;
        Situation {
            space,
            number,
            finished,
            stopped: count(|state| matches!(state, TrialState::Pruned | TrialState::Paused)),
            paused: count(|state| state == TrialState::Paused),
            complete: count(|state| state == TrialState::Complete),
            unfinished: trials.len() as u64 - finished,
            budget,
            objectives: self.history.directions().len(),
        }
    }
}

/// The sampler that another sampler delegates to, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// Its name in the table.
    pub sampler: &'static str,
    /// One sentence.
    pub reason: String,
}

/// Why a sampler cannot propose.
#[derive(Debug, thiserror::Error)]
pub enum SamplerError {
    /// The sampler does not support the space.
    #[error("sampler `{sampler}` cannot search this space: {why}")]
    Space {
        /// Its name.
        sampler: &'static str,
        /// What is wrong, and what to do.
        why: String,
    },
    /// No drawn configuration satisfies the constraints.
    #[error(
        "none of {draws} random points satisfies the constraints: {rejected}; loosen a \
         `[[constraint]]`, or narrow `[space]` to where they hold"
    )]
    Constraints {
        /// Number of draws.
        draws: u32,
        /// How many draws each constraint rejects.
        rejected: String,
    },
    /// A numerical failure.
    #[error(
        "sampler `{sampler}` failed: {why}; another `type` in `[sampler]` continues with the same \
         trials"
    )]
    Internal {
        /// Its name.
        sampler: &'static str,
        /// What happened.
        why: String,
    },
}

/// A proposed configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct Proposal {
    /// The configuration.
    pub params: Params,
    /// The value that the sampler's model predicts of it, by objective; empty if no model chose it,
    /// or one that predicts none.
    pub predicted: Vec<Prediction>,
}

impl From<Params> for Proposal {
    fn from(params: Params) -> Self {
        Proposal { params, predicted: Vec::new() }
    }
}

/// A configuration chosen from candidates.
#[derive(Clone, Debug, PartialEq)]
pub struct Chosen {
    /// Its index among them.
    pub index: usize,
    /// As in [`Proposal::predicted`].
    pub predicted: Vec<Prediction>,
}

impl From<usize> for Chosen {
    fn from(index: usize) -> Self {
        Chosen { index, predicted: Vec::new() }
    }
}

/// What a sampler takes of earlier studies (`warm_start`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum OfEarlier {
    /// Nothing.
    Nothing,
    /// Their best configurations, as its own first ones.
    Best,
    /// It learns from them.
    Results,
}

/// Proposes configurations.
pub trait Sampler: Send {
    /// Whether `suggest` may return `None`.
    fn exhausts(&self) -> bool {
        false
    }

    /// Whether its first trials take the user's priors and the best of earlier studies.
    fn starts_as_given(&self) -> bool {
        false
    }

    /// Its start-up, if it has a model that needs some trials.
    fn startup(&self) -> Option<Startup> {
        None
    }

    /// What it takes of earlier studies in a study of so many objectives.
    fn takes_of_earlier(&self, _space: &Space, _objectives: usize) -> OfEarlier {
        OfEarlier::Nothing
    }

    /// A configuration of `ask.space` that contains `ask.fixed`. A pure function of its arguments.
    /// `None`: the space is exhausted.
    fn suggest(&self, ask: &Ask<'_>, rng: &mut StreamRng)
    -> Result<Option<Proposal>, SamplerError>;

    /// The best of `candidates`, which are not empty, are complete configurations of `ask.space`,
    /// and satisfy its constraints: by default the nearest to a proposal. A pure function of its
    /// arguments.
    fn choose(
        &self,
        ask: &Ask<'_>,
        candidates: &[&Params],
        rng: &mut StreamRng,
    ) -> Result<Chosen, SamplerError> {
        let proposed = self.suggest(ask, rng)?.map(|proposal| proposal.params);
        let point = proposed.unwrap_or_else(|| random::point(ask, rng));
        Ok(candidates::nearest(ask.space, candidates, &point).into())
    }

    /// The sampler that proposes the next configuration, if this one delegates.
    fn choice(&self, _situation: &Situation<'_>) -> Option<Choice> {
        None
    }
}

/// Proposals of the sampler before random draws take over.
const DRAWS: usize = 25;
/// Random draws after which it is assumed that no configuration fits in memory.
const DRAWS_FOR_MEMORY: u32 = 500;
/// Random draws after which the constraints are assumed to reject everything.
const DRAWS_BY_CHANCE: u32 = 10_000;

/// A configuration that satisfies the constraints and, if one is found, fits in memory: the
/// sampler's, if one of its first draws does, else a random one. `None`: the space is exhausted.
///
/// # Errors
/// The sampler's, or a report of what each constraint rejects if none of 10,000 random
/// configurations satisfies them.
pub fn propose(
    sampler: &dyn Sampler,
    ask: &Ask<'_>,
    rng: &mut StreamRng,
) -> Result<Option<Proposal>, SamplerError> {
    if !ask.is_restricted() {
        return sampler.suggest(ask, rng);
    }
    for _ in 0..DRAWS {
        match sampler.suggest(ask, rng)? {
            Some(proposal) if !ask.allows(&proposal.params) => {}
            answer => return Ok(answer),
        }
    }
    if ask.room.is_some() {
        if let Some(point) =
            (0..DRAWS_FOR_MEMORY).map(|_| random::point(ask, rng)).find(|point| ask.allows(point))
        {
            return Ok(Some(point.into()));
        }
        // The memory model may be wrong; only running a trial shows.
        return propose(sampler, &Ask { room: None, ..*ask }, rng);
    }
    by_chance(ask, rng).map(|point| Some(point.into()))
}

/// The one of `candidates` that the sampler chooses; those that violate the
/// constraints or do not contain `ask.fixed` are left out, and, as long as others remain, so are
/// those that are not expected to fit in memory. `None`: none is left.
///
/// # Errors
/// The sampler's.
pub fn choose(
    sampler: &dyn Sampler,
    ask: &Ask<'_>,
    candidates: &[&Params],
    rng: &mut StreamRng,
) -> Result<Option<Chosen>, SamplerError> {
    let keeps = |ask: &Ask<'_>| -> Vec<usize> {
        let is_kept = |index: &usize| {
            candidates[*index].contains(ask.fixed)
                && (!ask.is_restricted() || ask.allows(candidates[*index]))
        };
        (0..candidates.len()).filter(is_kept).collect()
    };
    let mut kept = keeps(ask);
    if kept.is_empty() && ask.room.is_some() {
        // The memory model may be wrong; only running a trial shows.
        kept = keeps(&Ask { room: None, ..*ask });
    }
    if kept.len() < 2 {
        return Ok(kept.first().copied().map(Chosen::from));
    }
    let left: Vec<&Params> = kept.iter().map(|index| candidates[*index]).collect();
    let ask = Ask { room: None, constraints: &[], ..*ask };
    let Chosen { index, predicted } = sampler.choose(&ask, &left, rng)?;
    Ok(kept.get(index).map(|index| Chosen { index: *index, predicted }))
}

/// A random configuration that satisfies the constraints.
fn by_chance(ask: &Ask<'_>, rng: &mut StreamRng) -> Result<Params, SamplerError> {
    let mut rejected: Vec<(&Constraint, u32)> =
        ask.constraints.iter().map(|constraint| (constraint, 0)).collect();
    for _ in 0..DRAWS_BY_CHANCE {
        let point = random::point(ask, rng);
        if ask.allows(&point) {
            return Ok(point);
        }
        for (constraint, count) in &mut rejected {
            *count +=
                u32::from(constraint::broken(std::slice::from_ref(*constraint), &point).is_some());
        }
    }
    rejected.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let said: Vec<String> = rejected
        .into_iter()
        .filter(|(_, count)| *count > 0)
        .map(|(constraint, count)| {
            let share =
                if count == DRAWS_BY_CHANCE { "every one".to_owned() } else { count.to_string() };
            format!("`{}` rejects {share}", constraint.expression().text())
        })
        .collect();
    Err(SamplerError::Constraints { draws: DRAWS_BY_CHANCE, rejected: said.join(", ") })
}

/// Builds a sampler for a space from checked options.
pub type BuildSampler = fn(&AlgorithmSpec, &Space) -> Result<Box<dyn Sampler>, RegistryError>;

/// An entry of the registry of samplers.
pub type SamplerEntry = RegistryEntry<BuildSampler>;

/// All samplers.
pub static SAMPLERS: &[SamplerEntry] = &[
    auto::ENTRY,
    cmaes::ENTRY,
    gp::ENTRY,
    grid::ENTRY,
    nsga2::ENTRY,
    nsga3::ENTRY,
    qmc::ENTRY,
    random::ENTRY,
    self::tpe::ENTRY,
    tpe_independent::ENTRY,
];

/// Reserved names of samplers that are not implemented yet.
pub static NOT_YET: &[&str] = &[];

/// All of them, and what to take for several objectives.
pub(crate) static REGISTRY: Registry<BuildSampler> = Registry {
    kind: "sampler",
    entries: SAMPLERS,
    not_yet: NOT_YET,
    for_several: "use `auto`, `tpe`, `gp`, `nsga2` or `nsga3`",
};

/// The entry of the sampler called `name` (or an alias).
pub fn find(name: &str) -> Result<&'static SamplerEntry, UnknownName> {
    REGISTRY.find(name)
}

/// The sampler that `sampler` delegates to, and why; `None` if it proposes itself.
pub fn choice(sampler: &AlgorithmSpec, situation: &Situation<'_>) -> Option<Choice> {
    (find(&sampler.name).ok()?.build)(sampler, situation.space).ok()?.choice(situation)
}

/// Whether a sampler serves a study of that many objectives; the error says what to take instead.
pub fn check_objectives(sampler: &AlgorithmSpec, objectives: usize) -> Result<(), RegistryError> {
    REGISTRY.check_objectives(&sampler.name, objectives)
}

/// Whether this program has the rules of the version that a stored sampler names.
pub fn has_rules_of(sampler: &AlgorithmSpec) -> bool {
    REGISTRY.has_rules_of(sampler)
}

/// Gives `new` the version of the stored sampler if its table is unchanged and its rules are here.
pub fn keep_version(stored: &AlgorithmSpec, new: &mut AlgorithmSpec) {
    REGISTRY.keep_version(stored, new);
}

/// The stored form of a sampler's table, with its options checked; all problems at once.
pub fn resolve(
    name: &str,
    options: BTreeMap<String, serde_json::Value>,
) -> Result<AlgorithmSpec, Vec<OptionProblem>> {
    REGISTRY.resolve(name, options)
}

#[cfg(test)]
mod bad_input_tests;
#[cfg(test)]
mod constrained_tests;
#[cfg(test)]
mod earlier_tests;
#[cfg(test)]
mod fixtures;
