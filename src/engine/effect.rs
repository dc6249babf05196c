//! What the engine has the world do, once the events of the turn are durable.

use std::path::PathBuf;

use crate::arguments::RowsAtOnce;
use crate::study::checkpoint::Checkpoint;
use crate::study::decision::Decision;
use crate::study::device::Slot;
use crate::study::event::Event;
use crate::study::params::Params;
use crate::study::spec::Milestones;
use crate::study::trial::{AttemptNumber, TrialNumber};

/// A trial for a slot.
#[derive(Clone, Debug, PartialEq)]
pub struct Assignment {
    /// The trial.
    pub trial: TrialNumber,
    /// The attempt.
    pub attempt: AttemptNumber,
    /// The slot of the attempt.
    pub slot: Slot,
    /// Its parameters.
    pub params: Params,
    /// The trial's seed.
    pub seed: u64,
    /// The checkpoint to continue from.
    pub resume: Option<Checkpoint>,
    /// Step where it is to pause, or end if it continues past its end.
    pub until: Option<u64>,
    /// Whether it has ended before, and continues past that end up to `until`.
    pub past_its_end: bool,
    /// Where it must report.
    pub milestones: Milestones,
    /// The last step it reported.
    pub reported: Option<u64>,
    /// Rows in memory at once, where they were halved because the trial ran out of it.
    pub rows_at_once: Option<RowsAtOnce>,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The study is over, and has a best trial.
    Finished(String),
    /// The budget ended without a trial that can be the best.
    NoValue(String),
    /// Too many trials failed.
    TooManyFailures(String),
    /// The run was left; the study can continue.
    Interrupted(String),
    /// The machine refused what trials need, again and again; the study can continue.
    Refused(String),
    /// The search cannot continue.
    Broken(String),
}

impl Outcome {
    /// Why, one sentence.
    pub fn reason(&self) -> &str {
        match self {
            Outcome::Finished(reason)
            | Outcome::NoValue(reason)
            | Outcome::TooManyFailures(reason)
            | Outcome::Interrupted(reason)
            | Outcome::Refused(reason)
            | Outcome::Broken(reason) => reason,
        }
    }
}

/// Something for the world to do, after the turn's events are durable.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Write this to the journal.
    Append(Event),
    /// Start an attempt.
    Launch(Assignment),
    /// Answer a report.
    Answer {
        /// Number of the trial.
        trial: TrialNumber,
        /// Number of the trial's attempt, from 0.
        attempt: AttemptNumber,
        /// The answer.
        verdict: Decision,
    },
    /// Ask an attempt to checkpoint and leave.
    Leave {
        /// Number of the trial.
        trial: TrialNumber,
        /// Number of the trial's attempt, from 0.
        attempt: AttemptNumber,
    },
    /// Look at what an attempt's processes are doing and write it into its log: it takes too long,
    /// or says nothing, and is asked to leave.
    Examine {
        /// Number of the trial.
        trial: TrialNumber,
        /// Number of the trial's attempt, from 0.
        attempt: AttemptNumber,
    },
    /// Kill an attempt's processes.
    Kill {
        /// Number of the trial.
        trial: TrialNumber,
        /// Number of the trial's attempt, from 0.
        attempt: AttemptNumber,
    },
    /// Remove a dropped checkpoint's files.
    Remove {
        /// Number of the trial.
        trial: TrialNumber,
        /// The checkpoint.
        path: PathBuf,
    },
    /// End the worker of a slot that nothing is started on any more: it holds memory for nobody.
    Vacate {
        /// The slot's position.
        slot: usize,
    },
    /// The run is over: nothing follows.
    Finish(Outcome),
}

impl Effect {
    /// The event to write, if it is one.
    pub fn event(&self) -> Option<&Event> {
        match self {
            Effect::Append(event) => Some(event),
            _ => None,
        }
    }
}
