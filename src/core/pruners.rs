//! Pruners decide which trials continue; each is one file and one line of [`PRUNERS`].

mod asha;
pub mod conformance;
mod curve;
mod hyperband;
mod interval;
mod median;
mod none;
mod patient;
mod pbt;
mod percentile;
mod several;
mod threshold;
mod wilcoxon;

use std::collections::BTreeMap;

pub use asha::{BRACKETS, MAX_RESOURCE, MIN_RESOURCE, RANK_BY, REDUCTION_FACTOR, RUNG_FACTOR};
pub use pbt::{ASYNCHRONOUS, INTERVAL, MODEL, POPULATION};

use crate::study::budget::Count;
use crate::study::constraint::Constraint;
use crate::study::decision::{Decision, Reason};
use crate::study::field::Field;
use crate::study::history::History;
use crate::study::params::Params;
use crate::study::program::Program;
use crate::study::registry::{OptionProblem, Registry, RegistryEntry, RegistryError, UnknownName};
use crate::study::seed::SeedTree;
use crate::study::space::Space;
use crate::study::spec::{AlgorithmSpec, Milestones, StudySpec};
use crate::study::trial::{Trial, TrialNumber};

/// The input of [`Pruner::judge`].
#[derive(Clone, Copy, Debug)]
pub struct Case<'a> {
    /// The search space.
    pub space: &'a Space,
    /// All trials, this one and its report included.
    pub history: History<'a>,
    /// The trial that reported.
    pub trial: &'a Trial,
    /// Step of the report.
    pub step: u64,
    /// What it takes to start the trial again after a pause.
    pub restart: Restart,
}

/// What it takes to start a paused trial again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Restart {
    /// Not known, and taken to be nothing.
    #[default]
    Unknown,
    /// The time to start a process and to load a checkpoint.
    Takes {
        /// Microseconds until it trains.
        restart: i64,
        /// Microseconds of one of its steps.
        step: i64,
    },
    /// All of its training: its program saves no checkpoints.
    StartsOver,
}

/// A paused trial that continues before anything new is sampled.
#[derive(Clone, Debug, PartialEq)]
pub struct Promotion {
    /// Number of the trial.
    pub trial: TrialNumber,
    /// Step at which it pauses again; `None`: it runs to its end.
    pub until: Option<u64>,
    /// Why it continues.
    pub reason: Reason,
}

/// Which members of a population must have arrived for a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gathered {
    /// All that have not ended.
    All,
    /// Those that wait: nothing else can continue.
    Waiting,
}

/// The input of [`Pruner::exploit`].
#[derive(Clone, Copy, Debug)]
pub struct Generation<'a> {
    /// The search space.
    pub space: &'a Space,
    /// Constraints on parameters.
    pub constraints: &'a [Constraint],
    /// All trials.
    pub history: History<'a>,
    /// Seeds for draws.
    pub seeds: SeedTree,
    /// Who must have arrived.
    pub gathered: Gathered,
}

/// What becomes of a waiting member of a population.
#[derive(Clone, Debug, PartialEq)]
pub enum MemberDecision {
    /// It continues from its own checkpoint.
    Continue {
        /// Number of the trial.
        trial: TrialNumber,
        /// Step at which it pauses again; `None`: it runs to its end.
        until: Option<u64>,
        /// The reason why it keeps its own state.
        reason: Reason,
    },
    /// It continues from another member's checkpoint.
    Clone {
        /// Number of the trial.
        trial: TrialNumber,
        /// The other member.
        from: TrialNumber,
        /// Step of the checkpoint.
        step: u64,
        /// Its new parameters.
        params: Params,
        /// Step at which it pauses again; `None`: it runs to its end.
        until: Option<u64>,
        /// The reason why it takes over another member's state.
        reason: Reason,
    },
    /// It is pruned.
    Stop {
        /// Number of the trial.
        trial: TrialNumber,
        /// The reason why it is given up.
        reason: Reason,
    },
}

impl MemberDecision {
    /// The member.
    pub fn trial(&self) -> TrialNumber {
        match self {
            MemberDecision::Continue { trial, .. }
            | MemberDecision::Clone { trial, .. }
            | MemberDecision::Stop { trial, .. } => *trial,
        }
    }
}

/// Decides which trials continue.
pub trait Pruner: Send {
    /// Judges a report, which `case.history` contains. A pure function of its argument.
    fn judge(&self, case: &Case<'_>) -> Decision;

    /// Whether a report that lacks an objective which is not known yet is not judged, but the one
    /// that completes it.
    fn waits_for_all_objectives(&self) -> bool {
        false
    }

    /// Called before a new trial is sampled: returns a paused trial to continue instead.
    fn promote(&self, _history: History<'_>) -> Option<Promotion> {
        None
    }

    /// Called when no trial is running, sampled or promoted any more: returns the trial to continue
    /// so that the study ends with a complete one. Pruners that pause need it: a study smaller than
    /// the ladder leaves all trials paused.
    fn conclude(&self, _history: History<'_>) -> Option<Promotion> {
        None
    }

    /// Number of trials of a population, which are created together and decided about together;
    /// `None`: trials are on their own.
    fn population(&self) -> Option<u64> {
        None
    }

    /// Whether members of a population are decided about as each arrives, by the latest results of
    /// the others: those that wait for a slot then take turns, and what they offer is kept.
    fn is_asynchronous(&self) -> bool {
        false
    }

    /// Decisions about all members of populations that have gathered, all at once, so that no
    /// checkpoint is superseded between them. A pure function of its argument.
    fn exploit(&self, _generation: &Generation<'_>) -> Vec<MemberDecision> {
        Vec::new()
    }

    /// The steps at which a trial of `budget` steps (if known) must report.
    fn milestones(&self, budget: Option<u64>) -> Milestones;

    /// Step at which a new trial first pauses; `None`: it runs to its end.
    fn first_rung(&self, _trial: TrialNumber) -> Option<u64> {
        None
    }
}

/// Builds a pruner from checked options and, if known, the steps of a full trial.
pub type BuildPruner = fn(&AlgorithmSpec, Option<u64>) -> Result<Box<dyn Pruner>, RegistryError>;

/// An entry of the registry of pruners.
pub type PrunerEntry = RegistryEntry<BuildPruner>;

/// All pruners.
pub static PRUNERS: &[PrunerEntry] = &[
    asha::ENTRY,
    curve::ENTRY,
    hyperband::ENTRY,
    median::ENTRY,
    none::ENTRY,
    patient::ENTRY,
    pbt::ENTRY,
    percentile::ENTRY,
    threshold::ENTRY,
    wilcoxon::ENTRY,
];

/// Reserved names of pruners that are not implemented yet.
pub static NOT_YET: &[&str] = &[];

/// All of them, and what to take for several objectives.
pub(crate) static REGISTRY: Registry<BuildPruner> = Registry {
    kind: "pruner",
    entries: PRUNERS,
    not_yet: NOT_YET,
    for_several: "use `asha`, `hyperband`, `median`, `percentile` or `none`",
};

/// The entry of the pruner called `name`.
pub fn find(name: &str) -> Result<&'static PrunerEntry, UnknownName> {
    REGISTRY.find(name)
}

/// Whether a pruner depends on the unit of a study's steps: it has rungs or intervals, or options
/// that count steps are set.
pub fn counts_steps(pruner: &AlgorithmSpec) -> bool {
    let is_set = |option: &Field| pruner.options.contains_key(option.name);
    let has_rungs = |entry: &PrunerEntry| {
        entry.options.iter().any(|option| [MIN_RESOURCE.name, INTERVAL.name].contains(&option.name))
    };
    interval::OPTIONS.iter().any(is_set) || find(&pruner.name).is_ok_and(has_rungs)
}

/// Whether trials continue from each other's checkpoints, which then have digests.
pub fn is_population(pruner: &AlgorithmSpec) -> bool {
    pruner.name == pbt::ENTRY.name
}

/// Whether a pruner weighs what it takes to start a paused trial again, so that a trial may pass
/// the step at which it was to pause.
pub fn prices_pauses(pruner: &AlgorithmSpec) -> bool {
    let pauses = [asha::ENTRY.name, hyperband::ENTRY.name].contains(&pruner.name.as_str());
    pauses && asha::prices_pauses(pruner)
}

/// Which trials of a study count towards `budget.trials`: of a population also those that failed,
/// since another member alone would not replace them.
pub fn counted_trials(spec: &StudySpec) -> Count {
    if is_population(&spec.pruner) { Count::All } else { spec.budget.count }
}

/// Whether members of its populations continue from checkpoints of others that go on.
pub fn is_asynchronous(pruner: &AlgorithmSpec) -> bool {
    is_population(pruner) && ASYNCHRONOUS.of(pruner)
}

/// Whether a pruner serves a study of that program; the error says what to take instead.
pub fn check_program(pruner: &AlgorithmSpec, program: &Program) -> Result<(), RegistryError> {
    if is_population(pruner) && *program == Program::Inline {
        return Err(RegistryError::Unsuitable {
            algorithm: pruner.name.clone(),
            why: "members continue from each other's checkpoints, and closures and programs that \
                  ask and tell save none",
            advice: "search a [command] or a [trainer] with it, or use `asha`",
        });
    }
    Ok(())
}

/// Whether a pruner serves a study of that many objectives; the error says what to take instead.
pub fn check_objectives(pruner: &AlgorithmSpec, objectives: usize) -> Result<(), RegistryError> {
    REGISTRY.check_objectives(&pruner.name, objectives)?;
    let ranks = find(&pruner.name)
        .is_ok_and(|entry| entry.options.iter().any(|option| option.name == asha::RANK_BY.name));
    if objectives > 1 && ranks && asha::RANK_BY.of::<String>(pruner) != "value" {
        let why = "forecasts are of one objective, and the study has several: remove it";
        return Err(asha::problem(pruner, asha::RANK_BY.name, why));
    }
    Ok(())
}

/// Whether this program has the rules of the version that a stored pruner names.
pub fn has_rules_of(pruner: &AlgorithmSpec) -> bool {
    REGISTRY.has_rules_of(pruner)
}

/// Gives `new` the version of the stored pruner if its table is unchanged and its rules are here.
pub fn keep_version(stored: &AlgorithmSpec, new: &mut AlgorithmSpec) {
    REGISTRY.keep_version(stored, new);
}

/// The stored form of a pruner's table, with its options checked; all problems at once.
pub fn resolve(
    name: &str,
    options: BTreeMap<String, serde_json::Value>,
) -> Result<AlgorithmSpec, Vec<OptionProblem>> {
    REGISTRY.resolve(name, options)
}

#[cfg(test)]
mod tests;
