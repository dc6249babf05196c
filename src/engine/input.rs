//! What the world tells the engine.

use std::path::PathBuf;

use super::load::Load;
use crate::study::event::{AttemptEnd, Request, TrialEvent};
use crate::study::metric::Metrics;
use crate::study::remark::Remark;
use crate::study::time::Timestamp;
use crate::study::trial::{AttemptNumber, TrialNumber};

/// Something the world tells the engine.
#[derive(Clone, Debug, PartialEq)]
pub enum Input {
    /// The runner is ready; the first input.
    Begin {
        /// Its process id.
        pid: u32,
        /// Its host.
        host: String,
        /// What was asked while nobody ran the study: served before anything starts.
        requests: Vec<(i64, Request)>,
    },
    /// An attempt's process exists.
    Launched {
        /// Number of the trial.
        trial: TrialNumber,
        /// Number of the trial's attempt, from 0.
        attempt: AttemptNumber,
        /// Process id.
        pid: u32,
        /// Start time of that process.
        pid_started: u64,
    },
    /// A trial reported.
    Report {
        /// Number of the trial.
        trial: TrialNumber,
        /// Number of the trial's attempt, from 0.
        attempt: AttemptNumber,
        /// Step.
        step: u64,
        /// What was measured.
        metrics: Metrics,
    },
    /// A trial logged something that asks for no decision: it has not stalled.
    Heard {
        /// Number of the trial.
        trial: TrialNumber,
        /// Number of the trial's attempt, from 0.
        attempt: AttemptNumber,
    },
    /// A trial said something that was not taken.
    Remark {
        /// Number of the trial.
        trial: TrialNumber,
        /// Number of the trial's attempt, from 0.
        attempt: AttemptNumber,
        /// What was not taken, and why.
        remark: Remark,
    },
    /// A trial saved a checkpoint.
    Checkpoint {
        /// Number of the trial.
        trial: TrialNumber,
        /// Number of the trial's attempt, from 0.
        attempt: AttemptNumber,
        /// Step of the state.
        step: u64,
        /// Where; absolute.
        path: PathBuf,
        /// What it takes on the disk, in bytes, where that was measured.
        bytes: Option<u64>,
        /// The system's clock when a command registered it.
        system: Option<Timestamp>,
    },
    /// A trial said something of itself on which no decision depends.
    Recorded {
        /// Number of the trial.
        trial: TrialNumber,
        /// Number of the trial's attempt, from 0.
        attempt: AttemptNumber,
        /// What it said.
        event: TrialEvent,
    },
    /// An attempt's process is gone, or its job done.
    Ended {
        /// Number of the trial.
        trial: TrialNumber,
        /// Number of the trial's attempt, from 0.
        attempt: AttemptNumber,
        /// How the attempt ended.
        end: AttemptEnd,
        /// One sentence from the process or about its exit.
        message: Option<String>,
    },
    /// Someone asks something through the store.
    Request {
        /// The request's key.
        id: i64,
        /// What is asked for.
        request: Request,
    },
    /// A trial's process says how much memory it took at most.
    Peak {
        /// Number of the trial.
        trial: TrialNumber,
        /// Number of the trial's attempt, from 0.
        attempt: AttemptNumber,
        /// Bytes.
        bytes: u64,
    },
    /// What devices and the trials on them take now; told about once a second where devices share
    /// themselves out.
    Load(Vec<Load>),
    /// The first signal: checkpoint and leave.
    Interrupt,
    /// The second signal: kill.
    KillAll,
    /// Time passed.
    Tick,
}
