//! Inputs of the engine.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::load::Load;
use crate::study::device::DeviceGroup;
use crate::study::event::{AttemptEnd, TrialEvent};
use crate::study::metric::Metrics;
use crate::study::provenance::AgentProvenance;
use crate::study::remark::Remark;
use crate::study::request::Request;
use crate::study::time::Timestamp;
use crate::study::trial::{AttemptNumber, TrialNumber};

/// An input from the driver.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Input {
    /// The runner is ready; the first input.
    Begin {
        /// Its process id.
        pid: u32,
        /// Its host.
        host: String,
        /// Requests made while nothing ran the study: served before anything starts.
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
        /// The metrics.
        metrics: Metrics,
    },
    /// A trial logged something that needs no decision: it has not stalled.
    Heard {
        /// Number of the trial.
        trial: TrialNumber,
        /// Number of the trial's attempt, from 0.
        attempt: AttemptNumber,
    },
    /// A trial printed something that was rejected or is odd.
    Remark {
        /// Number of the trial.
        trial: TrialNumber,
        /// Number of the trial's attempt, from 0.
        attempt: AttemptNumber,
        /// The remark.
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
        /// Its absolute path.
        path: PathBuf,
        /// Its size on disk in bytes, if measured.
        bytes: Option<u64>,
        /// The system's clock when a command registered it.
        system: Option<Timestamp>,
        /// The digest of its content, if it was computed.
        #[serde(default)]
        digest: Option<String>,
    },
    /// A trial recorded something on which no decision depends.
    Recorded {
        /// Number of the trial.
        trial: TrialNumber,
        /// Number of the trial's attempt, from 0.
        attempt: AttemptNumber,
        /// The event.
        event: TrialEvent,
    },
    /// An attempt's process has exited, or its job is done.
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
    /// A request through the store.
    Request {
        /// The request's key.
        id: i64,
        /// The request.
        request: Request,
    },
    /// A trial's command, whose end comes next, did not read that it is to pause.
    Unheard {
        /// Number of the trial.
        trial: TrialNumber,
        /// Number of the trial's attempt, from 0.
        attempt: AttemptNumber,
    },
    /// A trial's process reports its peak memory.
    Peak {
        /// Number of the trial.
        trial: TrialNumber,
        /// Number of the trial's attempt, from 0.
        attempt: AttemptNumber,
        /// The peak memory in bytes.
        bytes: u64,
    },
    /// An agent came, and has these slots, with the devices of each.
    AgentJoined {
        /// The agent's name.
        agent: String,
        /// The devices, as this machine names them.
        devices: Vec<DeviceGroup>,
        /// Its machine.
        provenance: Box<AgentProvenance>,
    },
    /// An agent leaves, was lost, or cannot be used: its slots take no more trials, and its trials
    /// save and run elsewhere.
    AgentLeft {
        /// The agent's name.
        agent: String,
        /// The reason, for users.
        reason: String,
    },
    /// An agent does not answer, or answers again: nothing new is started there meanwhile.
    AgentSilent {
        /// The agent's name.
        agent: String,
        /// Whether it does not answer.
        is_silent: bool,
    },
    /// No agent comes from somewhere.
    AgentAbsent {
        /// From where.
        agent: String,
        /// The reason, for users.
        reason: String,
    },
    /// Everything that a sender sent before this was handled in this turn or before: no input of
    /// the engine, but of its driver.
    Mark {
        /// The sender.
        sender: u64,
        /// The number of its last message.
        number: u64,
    },
    /// Load of devices and their trials, about once a second with automatic concurrency.
    Load(Vec<Load>),
    /// The first signal: save a checkpoint and exit.
    Interrupt,
    /// The second signal: kill.
    KillAll,
    /// Time passed.
    Tick,
}

impl Input {
    /// Whether it shows that an attempt has not stalled.
    pub fn is_heartbeat(&self) -> bool {
        matches!(self, Input::Report { .. } | Input::Heard { .. } | Input::Checkpoint { .. })
    }

    /// The attempt that it is about.
    pub fn attempt(&self) -> Option<(TrialNumber, AttemptNumber)> {
        match self {
            Input::Launched { trial, attempt, .. }
            | Input::Report { trial, attempt, .. }
            | Input::Heard { trial, attempt }
            | Input::Unheard { trial, attempt }
            | Input::Remark { trial, attempt, .. }
            | Input::Checkpoint { trial, attempt, .. }
            | Input::Recorded { trial, attempt, .. }
            | Input::Ended { trial, attempt, .. }
            | Input::Peak { trial, attempt, .. } => Some((*trial, *attempt)),
            _ => None,
        }
    }
}
