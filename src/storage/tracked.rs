//! What is written of tracked runs: studies without a search, to which several processes write at
//! the same time, each its own run.

use std::path::PathBuf;

use super::StudyId;
use super::paths::StudyFiles;
use crate::study::device::Slot;
use crate::study::event::{Event, Seq};
use crate::study::params::Params;
use crate::study::provenance::Provenance;
use crate::study::series::LoggedSeries;
use crate::study::tracked::{TrackedRun, Tracker};
use crate::study::trial::{AttemptNumber, TrialNumber};

/// The right to write to a run: that of its newest attempt, until the attempt ends or another one
/// begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunFence {
    /// The study.
    pub study: StudyId,
    /// The run.
    pub trial: TrialNumber,
    /// The attempt that writes.
    pub attempt: AttemptNumber,
    /// The event with which the process that tracks it began.
    pub runner: Seq,
}

/// Events of a run, and what it logged.
pub type Recorded = (Vec<Event>, Vec<LoggedSeries>);

/// Which run begins an attempt.
#[derive(Clone, Debug, PartialEq)]
pub enum BeginRun {
    /// A new one.
    New {
        /// Its parameters.
        params: Params,
        /// Its name, which gets a number where another run has it, and what it runs.
        run: TrackedRun,
        /// Its tags.
        tags: Vec<String>,
        /// A first note.
        note: Option<String>,
    },
    /// One that was interrupted.
    Resumed {
        /// Its number.
        trial: TrialNumber,
        /// How many attempts it has had: refused if another process resumed it meanwhile.
        attempts: u32,
        /// Step and path of the checkpoint that it continues from.
        resume: Option<(u64, PathBuf)>,
    },
}

/// A tracked run that was removed: its number is not given again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemovedRun {
    /// The study that it was in.
    pub study: StudyId,
    /// Its number there.
    pub run: TrialNumber,
    /// The study and number to which it was moved, until its files are there too.
    pub moved: Option<(StudyId, TrialNumber)>,
}

/// Runs that are moved to another study without a search.
#[derive(Clone, Copy, Debug)]
pub struct Move<'a> {
    /// The study that they are in.
    pub from: StudyId,
    /// Their numbers there, ascending.
    pub runs: &'a [TrialNumber],
    /// Where their files lie.
    pub homes: &'a [StudyFiles],
    /// The study that they come to.
    pub to: StudyId,
    /// Where the files of its runs lie.
    pub files: &'a StudyFiles,
}

/// The process that tracks a run.
#[derive(Clone, Debug, PartialEq)]
pub struct TrackerProcess {
    /// Its process id.
    pub pid: u32,
    /// Its host.
    pub host: String,
    /// What tells it apart.
    pub tracker: Tracker,
    /// Where the program runs.
    pub slot: Slot,
    /// What the run's results depend on.
    pub provenance: Option<Box<Provenance>>,
    /// The spool that it writes from, where a program logs, and up to where that was read.
    pub spool: Option<(String, u64)>,
}
