//! How an attempt of a trial ended.

use serde::{Deserialize, Serialize};

use crate::study::spec::FailureCause;
use crate::study::time::Timestamp;

/// How an attempt ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AttemptEnd {
    /// The program completed.
    Completed,
    /// The program exited because it was paused.
    Paused,
    /// The program exited because its trial was pruned.
    Stopped,
    /// The program exited at the runner's request; the trial runs again.
    Interrupted,
    /// The runner died, and the program with it; the trial runs again.
    Lost,
    /// The machine refused resources (memory, files, processes); the trial runs again. Versions
    /// that do not know this refuse to open stores whose schema has it.
    Refused,
    /// The program stopped early by itself: NaN or infinite loss.
    Diverged,
    /// It failed.
    Failed(FailureCause),
}

impl AttemptEnd {
    /// Whether its supervisor may have been killed, and left processes.
    pub fn may_leave_processes(&self) -> bool {
        match self {
            AttemptEnd::Failed(_) | AttemptEnd::Interrupted | AttemptEnd::Refused => true,
            AttemptEnd::Completed
            | AttemptEnd::Paused
            | AttemptEnd::Stopped
            | AttemptEnd::Lost
            | AttemptEnd::Diverged => false,
        }
    }

    /// When an attempt ended whose end was recorded at `recorded`: one that was lost with its
    /// runner at the runner's last sign of life (`killed_at`), which recovery records much later.
    /// `None`: it was lost, and when is not known.
    pub fn moment(
        &self,
        started: Timestamp,
        recorded: Timestamp,
        killed_at: Option<Timestamp>,
    ) -> Option<Timestamp> {
        match self {
            // An earlier runner's death says nothing about it.
            AttemptEnd::Lost => {
                killed_at.filter(|heard| *heard >= started).map(|heard| heard.min(recorded))
            }
            AttemptEnd::Completed
            | AttemptEnd::Paused
            | AttemptEnd::Stopped
            | AttemptEnd::Interrupted
            | AttemptEnd::Refused
            | AttemptEnd::Diverged
            | AttemptEnd::Failed(_) => Some(recorded),
        }
    }
}
