//! Effects: the actions that the engine requests, once the events of the turn are durable.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::arguments::RowsAtOnce;
use crate::study::checkpoint::Checkpoint;
use crate::study::decision::Decision;
use crate::study::device::Slot;
use crate::study::event::Event;
use crate::study::params::Params;
use crate::study::spec::Milestones;
use crate::study::trial::{AttemptNumber, TrialNumber};

/// An attempt to start on a slot.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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
    /// The trial that saved it, if it is another one.
    #[serde(default)]
    pub cloned_from: Option<TrialNumber>,
    /// Step at which it pauses, or ends if it continues past its end.
    pub until: Option<u64>,
    /// Whether it continues past its end, up to `until`.
    pub past_its_end: bool,
    /// The steps at which it must report.
    pub milestones: Milestones,
    /// The last step it reported.
    pub reported: Option<u64>,
    /// Batch sizes, if halved after running out of memory.
    pub rows_at_once: Option<RowsAtOnce>,
    /// The node that starts it, if its slot is on several.
    #[serde(default)]
    pub node: Option<GroupNode>,
}

/// One of the agents that run an attempt together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupNode {
    /// Its rank among the nodes: the first has the process that speaks to the runner.
    pub rank: usize,
    /// Number of nodes.
    pub nodes: usize,
    /// Number of devices of all nodes.
    pub world_size: usize,
    /// Number of devices of the nodes before this one.
    pub first_rank: usize,
    /// An address of the first node that the others reach.
    pub address: String,
    /// A port of the first node.
    pub port: u16,
}

impl GroupNode {
    /// Whether it is the first.
    pub fn leads(&self) -> bool {
        self.rank == 0
    }
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunOutcome {
    /// The study is finished and has a best trial.
    Finished(String),
    /// The budget is exhausted, and no trial can be the best.
    NoValue(String),
    /// Too many trials failed.
    TooManyFailures(String),
    /// The run was interrupted; the study can continue.
    Interrupted(String),
    /// The machine repeatedly refused what trials need; the study can continue.
    Refused(String),
    /// The search cannot continue.
    Broken(String),
}

impl RunOutcome {
    /// The reason, one sentence.
    pub fn reason(&self) -> &str {
        match self {
            RunOutcome::Finished(reason)
            | RunOutcome::NoValue(reason)
            | RunOutcome::TooManyFailures(reason)
            | RunOutcome::Interrupted(reason)
            | RunOutcome::Refused(reason)
            | RunOutcome::Broken(reason) => reason,
        }
    }
}

/// An action for the driver, after the turn's events are durable.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Write this event to the journal.
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
    /// Ask an attempt to save a checkpoint and exit.
    Leave {
        /// Number of the trial.
        trial: TrialNumber,
        /// Number of the trial's attempt, from 0.
        attempt: AttemptNumber,
    },
    /// Write the activity of an attempt's processes into its log: it has timed out and is asked to
    /// leave.
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
    /// End the idle worker of a slot that is no longer used, to free its memory.
    Vacate {
        /// The slot's index.
        slot: usize,
    },
    /// The run is over; the last effect.
    Finish(RunOutcome),
}

impl Effect {
    /// The event to write, if this is one.
    pub fn event(&self) -> Option<&Event> {
        match self {
            Effect::Append(event) => Some(event),
            _ => None,
        }
    }
}
