//! The path of a checkpoint in an event: stores keep it relative to their files, and copies change
//! it.

use std::path::{Path, PathBuf};

use super::TrialEvent;

/// Matches the events of trials that have no path of a checkpoint; a new event has to be added here
/// or where paths are read and replaced.
macro_rules! without_path {
    () => {
        TrialEvent::Created { .. }
            | TrialEvent::AttemptStarted { resume: None, .. }
            | TrialEvent::AttemptLaunched { .. }
            | TrialEvent::Reported { .. }
            | TrialEvent::Remarked { .. }
            | TrialEvent::Decided { .. }
            | TrialEvent::AttemptEnded { .. }
            | TrialEvent::Queued { .. }
            | TrialEvent::Cloned { .. }
            | TrialEvent::Paused { .. }
            | TrialEvent::Held { .. }
            | TrialEvent::Continued { .. }
            | TrialEvent::LimitsBroken { .. }
            | TrialEvent::ResultsKnown
            | TrialEvent::Finished { .. }
            | TrialEvent::Hidden
            | TrialEvent::Removed { .. }
            | TrialEvent::CandidatesOffered { .. }
            | TrialEvent::ConfigurationsSkipped { .. }
            | TrialEvent::ParamsRecorded { .. }
            | TrialEvent::ParamsDropped { .. }
            | TrialEvent::SummaryRecorded { .. }
            | TrialEvent::ArtifactSaved { .. }
            | TrialEvent::SpoolRead { .. }
            | TrialEvent::Noted { .. }
            | TrialEvent::Tagged { .. }
    };
}

impl TrialEvent {
    /// The checkpoint's path in it, if it has one.
    pub fn checkpoint_path(&self) -> Option<&Path> {
        match self {
            TrialEvent::CheckpointSaved { path, .. }
            | TrialEvent::CheckpointDropped { path }
            | TrialEvent::AttemptStarted { resume: Some((_, path)), .. } => Some(path),
            without_path!() => None,
        }
    }

    /// The same, to be replaced.
    pub fn checkpoint_path_mut(&mut self) -> Option<&mut PathBuf> {
        match self {
            TrialEvent::CheckpointSaved { path, .. }
            | TrialEvent::CheckpointDropped { path }
            | TrialEvent::AttemptStarted { resume: Some((_, path)), .. } => Some(path),
            without_path!() => None,
        }
    }
}
