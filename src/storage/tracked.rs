//! Tracked runs in the store: studies without a search, to which several processes write at the
//! same time, each its own run.

use std::path::PathBuf;

use super::StudyId;
use super::paths::StudyFiles;
use crate::study::device::Slot;
use crate::study::event::{Event, Seq};
use crate::study::params::Params;
use crate::study::provenance::Provenance;
use crate::study::series::LoggedSeries;
use crate::study::time::Timestamp;
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
    /// The start event of the process that tracks it.
    pub runner: Seq,
}

/// Events of a run, and its logged points.
pub type Recorded = (Vec<Event>, Vec<LoggedSeries>);

/// The run of a new attempt.
#[derive(Clone, Debug, PartialEq)]
pub enum BeginRun {
    /// A new one.
    New {
        /// Its parameters.
        params: Params,
        /// Its name, which gets a numeric suffix if another run has it, and its program.
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
        /// Its number of attempts: rejected if another process resumed it meanwhile.
        attempts: u32,
        /// Step and path of the checkpoint that it continues from.
        resume: Option<(u64, PathBuf)>,
    },
}

/// A removed tracked run: its number is not reused.
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
    /// The locations of their files.
    pub homes: &'a [StudyFiles],
    /// The target study.
    pub to: StudyId,
    /// The locations of its runs' files.
    pub files: &'a StudyFiles,
}

/// The process that tracks a run.
#[derive(Clone, Debug, PartialEq)]
pub struct TrackerProcess {
    /// Its process id.
    pub pid: u32,
    /// Its host.
    pub host: String,
    /// Its identity.
    pub tracker: Tracker,
    /// Where the program runs.
    pub slot: Slot,
    /// What the run's results depend on.
    pub provenance: Option<Box<Provenance>>,
    /// The spool that it reads, if a program logs, and the offset read so far.
    pub spool: Option<(String, u64)>,
    /// When the attempt began, if that is earlier than this process: its program logs to a spool.
    pub since: Option<Timestamp>,
}
