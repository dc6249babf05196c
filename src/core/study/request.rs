//! Requests to a study and their answers, as stored for the runner that serves them.

use serde::{Deserialize, Serialize};

use crate::study::budget::Extension;
use crate::study::device::Device;
use crate::study::params::Params;
use crate::study::trial::TrialNumber;

/// A request to a study through the store, served by its present or next runner.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Request {
    /// No new trials; running ones save a checkpoint and exit.
    Stop,
    /// Stop one trial at once; it fails with the reason `killed`.
    Kill {
        /// Number of the trial.
        trial: TrialNumber,
    },
    /// Start nothing and let running trials save and exit, until the study is resumed.
    PauseStudy,
    /// Let a paused study continue.
    ResumeStudy,
    /// Have one trial save and leave its slot; only [`Request::ResumeTrial`] resumes it.
    PauseTrial {
        /// Number of the trial.
        trial: TrialNumber,
    },
    /// Resume a paused trial, whether the user, the runner or the pruner paused it.
    ResumeTrial {
        /// Number of the trial.
        trial: TrialNumber,
    },
    /// Have trials on a device save and continue elsewhere; start nothing there until it is
    /// resumed.
    PauseDevice {
        /// The device.
        device: Device,
    },
    /// Resume a paused device, or change the number of its slots.
    ResumeDevice {
        /// The device.
        device: Device,
        /// Trials at a time for the rest of this run; `None`: unchanged.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        slots: Option<u32>,
    },
    /// Run this configuration next.
    Enqueue {
        /// Values of some parameters; the others are sampled.
        params: Params,
    },
    /// Start failed trials again.
    Retry {
        /// The failed trials to start again.
        trials: Retried,
    },
    /// Raise the budget.
    Extend {
        /// The trials and the time to add.
        by: Extension,
    },
    /// Continue an ended trial from its checkpoint.
    Continue {
        /// Number of the trial.
        trial: TrialNumber,
        /// Step at which it ends now.
        until: u64,
    },
    /// Hide an ended trial, and drop its checkpoints.
    Hide {
        /// Number of the trial.
        trial: TrialNumber,
    },
    /// Add a note; the store does so at once, without the runner.
    Note {
        /// The trial; `None`: the study.
        trial: Option<TrialNumber>,
        /// The text as written.
        text: String,
    },
    /// Add or remove a tag; the store does so at once, without the runner.
    Tag {
        /// The trial; `None`: the study.
        trial: Option<TrialNumber>,
        /// The tag.
        tag: String,
        /// Whether to add it.
        present: bool,
    },
    /// A stored request that cannot be read: from another version, or with a number out of range.
    /// Never written; refused when it is served.
    #[serde(skip)]
    Unreadable {
        /// What is wrong with it.
        why: String,
    },
}

/// Which failed trials to start again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Retried {
    /// The trial of this number.
    One(TrialNumber),
    /// All that failed.
    AllFailed,
}

/// The answer to a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RequestAnswer {
    /// Done; one sentence about it.
    Done(String),
    /// Refused; why, and what to do instead.
    Refused(String),
}
