//! Samplers propose the next point of the search space; each is one file and one line of
//! [`SAMPLERS`].

mod auto;
mod cmaes;
pub mod conformance;
mod cube;
mod earlier;
mod gp;
mod grid;
mod guess;
mod lattice;
mod normal;
mod qmc;
mod random;
mod ranking;
mod start;
mod tpe;
mod tpe_independent;
mod untried;

use std::cell::Cell;
use std::collections::BTreeMap;

pub use earlier::{Taken, earlier};
pub use untried::untried;

use crate::analysis::memory_model::{MemoryModel, smallest_sizes};
use crate::study::constraint::{self, Constraint};
use crate::study::history::History;
use crate::study::params::{Params, Value};
use crate::study::registry::{Entry, OptionProblem, RegistryError, Table, UnknownName};
use crate::study::seed::{SeedTree, StreamRng};
use crate::study::space::{Dimension, Space};
use crate::study::spec::{AlgorithmSpec, Earlier, StudySpec};
use crate::study::trial::{TrialNumber, TrialState};

/// What a sampler is asked.
#[derive(Clone, Copy, Debug)]
pub struct Ask<'a> {
    /// The space to draw from.
    pub space: &'a Space,
    /// All trials so far, running ones too.
    pub history: History<'a>,
    /// The number of the trial that will be created.
    pub number: TrialNumber,
    /// Values that are already decided (an enqueued configuration); the sampler draws the rest.
    pub fixed: &'a Params,
    /// Trials the study may have, where that is limited.
    pub budget: Option<u64>,
    /// Conditions that a point must keep: see [`Ask::allows`].
    pub constraints: &'a [Constraint],
    /// What earlier studies found in spaces like this one.
    pub earlier: &'a [Earlier],
    /// The memory that a trial may take, where that is scarce.
    pub room: Option<Room<'a>>,
    /// The study's seeds, for what all its trials share. A draw of this trial alone comes from the
    /// stream beside the ask.
    pub seeds: SeedTree,
}

/// The memory that devices have for one trial, and what trials were learned to take of it.
#[derive(Clone, Copy, Debug)]
pub struct Room<'a> {
    /// Whose trials.
    pub spec: &'a StudySpec,
    /// What they take.
    pub memory_model: &'a MemoryModel,
    /// Bytes that there are.
    pub bytes: u64,
    /// Trials of which so much was likely ran out of memory.
    pub too_much: u64,
    /// Points that were looked at and do not fit.
    pub skipped: &'a Cell<u64>,
}

impl Room<'_> {
    /// Whether a trial of this point is expected to fit, with as few rows at once as it may have.
    fn takes(&self, params: &Params) -> bool {
        let expected = self.memory_model.expect(&smallest_sizes(self.spec, params));
        let fits = expected.least <= self.bytes && expected.likely < self.too_much;
        self.skipped.set(self.skipped.get().saturating_add(u64::from(!fits)));
        fits
    }
}

/// How a study stands before a trial: all that a choice of sampler depends on.
#[derive(Clone, Copy, Debug)]
pub struct Situation<'a> {
    /// The space to draw from.
    pub space: &'a Space,
    /// The number of the trial that will be created.
    pub number: TrialNumber,
    /// Trials that are finished, or rest where a pruner paused them.
    pub finished: u64,
    /// Those of them that were pruned or are paused.
    pub stopped: u64,
    /// Trials that wait or run.
    pub unfinished: u64,
    /// Trials the study may have, where that is limited.
    pub budget: Option<u64>,
}

impl<'a> Ask<'a> {
    /// A question without fixed values, limits or earlier studies.
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
            fixed: &NOTHING,
            budget: None,
            constraints: &[],
            earlier: &[],
            room: None,
            seeds,
        }
    }

    /// A point with the `fixed` values; the others that are active are asked for, parents first.
    fn assemble(&self, fixed: &Params, mut value: impl FnMut(&Dimension) -> Value) -> Params {
        let Ok(point) = self
            .space
            .assemble(fixed, |dimension, _| Ok::<_, std::convert::Infallible>(value(dimension)));
        point
    }

    /// Whether a point keeps what the study requires of parameters. Samplers that choose among
    /// candidates choose among those; [`propose`] draws again for the others.
    pub fn allows(&self, params: &Params) -> bool {
        constraint::broken(self.constraints, params).is_none()
            && self.room.is_none_or(|room| room.takes(params))
    }

    /// Whether there are points that [`Ask::allows`] may refuse.
    pub fn is_restricted(&self) -> bool {
        self.room.is_some()
            || self.constraints.iter().any(|one| matches!(one, Constraint::Require(_)))
    }

    /// How the study stands.
    pub fn situation(&self) -> Situation<'a> {
        let trials = self.history.trials();
        let count = |is_counted: fn(TrialState) -> bool| {
            trials.iter().filter(|trial| is_counted(trial.state)).count() as u64
        };
        let finished = count(|state| state.is_finished() || state == TrialState::Paused);
        let stopped = count(|state| matches!(state, TrialState::Pruned | TrialState::Paused));
        let unfinished = trials.len() as u64 - finished;
        let Ask { space, number, budget, .. } = *self;
        Situation { space, number, finished, stopped, unfinished, budget }
    }
}

/// Which sampler draws, where one sampler leaves that to others, and why.
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
    /// The space is not one this sampler can draw from.
    #[error("sampler `{sampler}` cannot search this space: {why}")]
    Space {
        /// Its name.
        sampler: &'static str,
        /// What is wrong, and what to do.
        why: String,
    },
    /// No point that was drawn keeps the constraints.
    #[error(
        "none of {draws} random points keeps the constraints: {rejected}; loosen a \
         `[[constraint]]`, or narrow `[space]` to where they hold"
    )]
    Constraints {
        /// How many were drawn.
        draws: u32,
        /// Which constraints reject how many.
        rejected: String,
    },
    /// Its arithmetic failed.
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

/// Proposes points.
pub trait Sampler: Send {
    /// Whether it may say that there is nothing left to propose.
    fn exhausts(&self) -> bool {
        false
    }

    /// A point of `ask.space` that keeps `ask.fixed`. A function of its arguments: the same space,
    /// history, number and stream give the same point. `None`: every point was proposed.
    fn suggest(&self, ask: &Ask<'_>, rng: &mut StreamRng) -> Result<Option<Params>, SamplerError>;

    /// Who draws the next point, if it is not this sampler itself.
    fn choice(&self, _situation: &Situation<'_>) -> Option<Choice> {
        None
    }
}

/// Draws of the sampler before chance takes over.
const DRAWS: usize = 25;
/// Draws by chance after which nothing seems to fit into memory.
const DRAWS_FOR_MEMORY: u32 = 500;
/// Draws by chance after which constraints are taken to reject everything.
const DRAWS_BY_CHANCE: u32 = 10_000;

/// A point that keeps the study's constraints, and fits into memory where one is found that does:
/// of the sampler where one of its first draws does, else of chance. `None`: every point was
/// proposed.
///
/// # Errors
/// Those of the sampler; or of 10,000 random points none keeps the constraints, and which of them
/// reject how many.
pub fn propose(
    sampler: &dyn Sampler,
    ask: &Ask<'_>,
    rng: &mut StreamRng,
) -> Result<Option<Params>, SamplerError> {
    if !ask.is_restricted() {
        return sampler.suggest(ask, rng);
    }
    for _ in 0..DRAWS {
        match sampler.suggest(ask, rng)? {
            Some(point) if !ask.allows(&point) => {}
            answer => return Ok(answer),
        }
    }
    if ask.room.is_some() {
        if let Some(point) =
            (0..DRAWS_FOR_MEMORY).map(|_| random::point(ask, rng)).find(|point| ask.allows(point))
        {
            return Ok(Some(point));
        }
        // What was learned may be wrong, and somebody has to find out.
        return propose(sampler, &Ask { room: None, ..*ask }, rng);
    }
    by_chance(ask, rng).map(Some)
}

/// A random point that keeps the constraints.
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

/// A line of the table of samplers.
pub type SamplerEntry = Entry<BuildSampler>;

/// All samplers.
pub static SAMPLERS: &[SamplerEntry] = &[
    auto::ENTRY,
    cmaes::ENTRY,
    gp::ENTRY,
    grid::ENTRY,
    qmc::ENTRY,
    random::ENTRY,
    self::tpe::ENTRY,
    tpe_independent::ENTRY,
];

/// Names of the study file whose samplers are not built yet.
pub static NOT_YET: &[&str] = &["nsga2"];

static TABLE: Table<BuildSampler> = Table { kind: "sampler", entries: SAMPLERS, not_yet: NOT_YET };

/// The line of the sampler called `name` (or an alias).
pub fn find(name: &str) -> Result<&'static SamplerEntry, UnknownName> {
    TABLE.find(name)
}

/// Which sampler `sampler` chooses in a situation, and why; `None` if it draws itself.
pub fn choice(sampler: &AlgorithmSpec, situation: &Situation<'_>) -> Option<Choice> {
    (find(&sampler.name).ok()?.build)(sampler, situation.space).ok()?.choice(situation)
}

/// A written sampler as it is stored, its options checked; all problems at once.
pub fn resolve(
    name: &str,
    options: BTreeMap<String, serde_json::Value>,
) -> Result<AlgorithmSpec, Vec<OptionProblem>> {
    TABLE.resolve(name, options)
}

#[cfg(test)]
mod bad_input_tests;
#[cfg(test)]
mod constrained_tests;
#[cfg(test)]
mod fixtures;
