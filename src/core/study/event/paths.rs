//! The path of a checkpoint in an event: stores keep it relative to their files, and copies change
//! it.

use std::path::{Path, PathBuf};

use super::{AttemptEvent, CheckpointEvent, TrialEvent};

/// Matches the events of trials that have no path of a checkpoint; a new event has to be added here
/// or where paths are read and replaced.
macro_rules! without_path {
    () => {
        TrialEvent::Attempt(
            AttemptEvent::Started { resume: None, .. }
                | AttemptEvent::Launched { .. }
                | AttemptEvent::Reported { .. }
                | AttemptEvent::Remarked { .. }
                | AttemptEvent::Ended { .. },
        ) | TrialEvent::Proposal(_)
            | TrialEvent::Decision(_)
            | TrialEvent::State(_)
            | TrialEvent::Record(_)
            | TrialEvent::Entry(_)
    };
}

impl TrialEvent {
    /// The checkpoint's path in it, if it has one.
    pub fn checkpoint_path(&self) -> Option<&Path> {
        match self {
            TrialEvent::Checkpoint(
                CheckpointEvent::Saved { path, .. } | CheckpointEvent::Dropped { path },
            )
            | TrialEvent::Attempt(AttemptEvent::Started { resume: Some((_, path)), .. }) => {
                Some(path)
            }
            without_path!() => None,
        }
    }

    /// The same, to be replaced.
    pub fn checkpoint_path_mut(&mut self) -> Option<&mut PathBuf> {
        match self {
            TrialEvent::Checkpoint(
                CheckpointEvent::Saved { path, .. } | CheckpointEvent::Dropped { path },
            )
            | TrialEvent::Attempt(AttemptEvent::Started { resume: Some((_, path)), .. }) => {
                Some(path)
            }
            without_path!() => None,
        }
    }
}
