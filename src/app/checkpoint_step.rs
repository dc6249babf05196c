//! Determines the step that a checkpoint holds, from the store and the file.

use std::path::Path;
use std::time::{Duration, SystemTime};

use crate::export::Holds;
use crate::runner::checkpoint_digest::checkpoint_digest;
use crate::runner::disk;
use crate::storage::paths::is_copy;
use crate::storage::{StorageError, StorageReader, StudyId};
use crate::study::checkpoint::Checkpoint;
use crate::study::event::{CheckpointEvent, Event, Seq, TrialEvent};
use crate::study::program::Program;
use crate::study::spec::StudySpec;
use crate::study::time::Timestamp;
use crate::study::trial::Trial;

/// Tolerance for writes after the registration, since the store and the file system have different
/// clocks.
const SLACK: Duration = Duration::from_secs(1);

/// Events read per page, from the newest on.
const PAGE: u64 = 10_000;

/// The step that `checkpoint` holds, for a trial whose value is that of `step`.
///
/// # Errors
/// The store failed.
pub fn holds(
    reader: &dyn StorageReader,
    study: StudyId,
    spec: &StudySpec,
    trial: &Trial,
    checkpoint: &Checkpoint,
    step: Option<u64>,
) -> Result<Holds, StorageError> {
    let was_written_to = match &checkpoint.digest {
        Some(digest) => checkpoint_digest(&checkpoint.path).is_some_and(|found| found != *digest),
        None => was_written_to(reader, study, spec, trial, checkpoint)?,
    };
    if was_written_to {
        return Ok(Holds::Unknown { registered: checkpoint.step });
    }
    if step == Some(checkpoint.step) {
        return Ok(Holds::Value);
    }
    let value = trial.curve.iter().find(|(at, _)| *at == checkpoint.step).map(|(_, value)| *value);
    Ok(Holds::Another { step: checkpoint.step, value })
}

/// Whether a command wrote to its checkpoint after it had registered it. The built-in trainer's
/// have digests, and copies belong to hpsearch alone. Changes after the end of the trial are the
/// user's (copying a project also changes times).
fn was_written_to(
    reader: &dyn StorageReader,
    study: StudyId,
    spec: &StudySpec,
    trial: &Trial,
    checkpoint: &Checkpoint,
) -> Result<bool, StorageError> {
    if !matches!(spec.program, Program::Command { .. }) || is_copy(&checkpoint.path) {
        return Ok(false);
    }
    let Some(registered) = registered_at(reader, study, trial, &checkpoint.path)? else {
        return Ok(false);
    };
    let since = registered.by_the_system(registered.at) + SLACK;
    let written = disk::last_written(&checkpoint.path, since).filter(|written| *written > since);
    Ok(written.is_some_and(|written| {
        trial.finished.is_none_or(|finished| written <= registered.by_the_system(finished))
    }))
}

/// The registration time of a checkpoint by the study's clock and by the system's, which may have
/// been set in between.
struct Registered {
    at: Timestamp,
    system: Timestamp,
}

impl Registered {
    /// The system's time at a time of the study's clock.
    fn by_the_system(&self, moment: Timestamp) -> SystemTime {
        let micros = self.system.0.saturating_add(moment.0.saturating_sub(self.at.0));
        SystemTime::UNIX_EPOCH + Duration::from_micros(u64::try_from(micros).unwrap_or(0))
    }
}

/// Whether a trial saved a checkpoint of a step to a path where nothing is any more.
///
/// # Errors
/// The store failed.
pub fn was_removed(
    reader: &dyn StorageReader,
    study: StudyId,
    trial: &Trial,
    step: u64,
) -> Result<bool, StorageError> {
    Ok(last_saved(reader, study, trial, |of, path| of == step && !path.exists())?.is_some())
}

/// The last registration time of a checkpoint.
fn registered_at(
    reader: &dyn StorageReader,
    study: StudyId,
    trial: &Trial,
    path: &Path,
) -> Result<Option<Registered>, StorageError> {
    last_saved(reader, study, trial, |_, saved| saved == path)
}

/// The last registration of a checkpoint of a trial, by its step and its path.
fn last_saved(
    reader: &dyn StorageReader,
    study: StudyId,
    trial: &Trial,
    is_it: impl Fn(u64, &Path) -> bool,
) -> Result<Option<Registered>, StorageError> {
    let mut before = Seq(i64::MAX);
    loop {
        let page = reader.events_before(study, before, PAGE)?;
        let registered = page.iter().rev().find_map(|(_, at, event)| match event {
            Event::Trial(
                of,
                TrialEvent::Checkpoint(CheckpointEvent::Saved { step, path, system, .. }),
            ) if *of == trial.number && is_it(*step, path) => {
                Some(Registered { at: *at, system: system.unwrap_or(*at) })
            }
            _ => None,
        });
        if registered.is_some() {
            return Ok(registered);
        }
        match page.first() {
            Some((first, ..)) => before = *first,
            None => return Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_files_are_compared_by_the_clock_that_wrote_them() {
        let seconds = |seconds: i64| Timestamp(seconds * 1_000_000);
        // The system clock was set back by seven hours before this run; the study's clock
        // continued.
        let registered = Registered { at: seconds(30_000), system: seconds(30_000 - 25_200) };
        let after = |seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        assert_eq!(registered.by_the_system(seconds(30_010)), after(4_810));
        assert_eq!(
            registered.by_the_system(seconds(20_000)),
            SystemTime::UNIX_EPOCH,
            "before all times"
        );
    }
}
