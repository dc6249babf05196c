//! Pruners decide which trials continue; each is one file and one line of [`PRUNERS`].

mod asha;
pub mod conformance;
mod curve;
mod hyperband;
mod interval;
mod median;
mod none;
mod patient;
mod percentile;
mod threshold;
mod wilcoxon;

use std::collections::BTreeMap;

pub use asha::{BRACKETS, MAX_RESOURCE, MIN_RESOURCE, REDUCTION_FACTOR, RUNG_FACTOR};

use crate::study::decision::{Decision, Reason};
use crate::study::history::History;
use crate::study::registry::{Entry, OptionProblem, RegistryError, Table, UnknownName};
use crate::study::space::Space;
use crate::study::spec::{AlgorithmSpec, Milestones};
use crate::study::trial::{Trial, TrialNumber};

/// A report to be judged.
#[derive(Clone, Copy, Debug)]
pub struct Case<'a> {
    /// Where the trials are points of.
    pub space: &'a Space,
    /// All trials, this one with the report included.
    pub history: History<'a>,
    /// The trial that reported.
    pub trial: &'a Trial,
    /// Step of the report.
    pub step: u64,
}

/// A paused trial that continues before anything new is sampled.
#[derive(Clone, Debug, PartialEq)]
pub struct Promotion {
    /// Number of the trial.
    pub trial: TrialNumber,
    /// Step of its next rung; `None`: to its end.
    pub until: Option<u64>,
    /// Why it continues.
    pub reason: Reason,
}

/// Decides which trials continue.
pub trait Pruner: Send {
    /// The answer to a report that is in `case.history` already. A function of its argument.
    fn judge(&self, case: &Case<'_>) -> Decision;

    /// Called before anything new is sampled: the trial that continues instead.
    fn promote(&self, _history: History<'_>) -> Option<Promotion> {
        None
    }

    /// Called when nothing new will be sampled, nothing runs and nothing is promoted: what to run
    /// so that the study ends with a complete trial. Pruners that pause need it: fewer trials than
    /// a ladder has room for leave all of them paused.
    fn conclude(&self, _history: History<'_>) -> Option<Promotion> {
        None
    }

    /// Where a trial of `budget` steps (if that is known) must report.
    fn milestones(&self, budget: Option<u64>) -> Milestones;

    /// Step up to which a new trial runs before it pauses; `None`: to its end.
    fn first_rung(&self, _trial: TrialNumber) -> Option<u64> {
        None
    }
}

/// Builds a pruner from checked options. The second argument: steps of a full trial, if
/// known.
pub type BuildPruner = fn(&AlgorithmSpec, Option<u64>) -> Result<Box<dyn Pruner>, RegistryError>;

/// A line of the table of pruners.
pub type PrunerEntry = Entry<BuildPruner>;

/// All pruners.
pub static PRUNERS: &[PrunerEntry] = &[
    asha::ENTRY,
    curve::ENTRY,
    hyperband::ENTRY,
    median::ENTRY,
    none::ENTRY,
    patient::ENTRY,
    percentile::ENTRY,
    threshold::ENTRY,
    wilcoxon::ENTRY,
];

/// Names of the study file whose pruners are not built yet.
pub static NOT_YET: &[&str] = &["pbt"];

static TABLE: Table<BuildPruner> = Table { kind: "pruner", entries: PRUNERS, not_yet: NOT_YET };

/// The line of the pruner called `name`.
pub fn find(name: &str) -> Result<&'static PrunerEntry, UnknownName> {
    TABLE.find(name)
}

/// A written pruner as it is stored, its options checked; all problems at once.
pub fn resolve(
    name: &str,
    options: BTreeMap<String, serde_json::Value>,
) -> Result<AlgorithmSpec, Vec<OptionProblem>> {
    TABLE.resolve(name, options)
}

#[cfg(test)]
mod tests;
