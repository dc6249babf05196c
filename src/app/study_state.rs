//! How a study stands: whether its runner lives, its state, and the time that was spent on it.

use std::time::Duration;

use crate::report::wording::{HolderLife, StudyStatus, micros};
use crate::runner::{self, Liveness, liveness};
use crate::storage::{HeldLease, StorageError, StorageReader, StudySummary};

/// Whether a study's runner lives; on another machine nobody can tell, and it is taken to.
pub fn life(held: &HeldLease) -> HolderLife {
    match liveness(held) {
        Liveness::Alive | Liveness::Unknown => HolderLife::Alive,
        Liveness::Dead => HolderLife::Dead,
    }
}

/// Whether a living process runs a study, or waits for it to be resumed.
pub fn has_runner(study: &StudySummary) -> bool {
    study.held.as_ref().is_some_and(|held| life(held) == HolderLife::Alive)
}

/// A study's state.
pub fn state(study: &StudySummary) -> StudyStatus {
    StudyStatus::new(study, study.held.as_ref().map_or(HolderLife::Dead, life))
}

/// The time that runners spent on a study up to now.
///
/// # Errors
/// The store failed.
pub fn elapsed(reader: &dyn StorageReader, study: &StudySummary) -> Result<Duration, StorageError> {
    let (ran, since) = reader.running_since(study.id)?;
    // A runner that died left its beginning behind; the clock stopped when it did.
    let since = since.filter(|_| state(study) == StudyStatus::Running);
    Ok(micros(ran) + since.map_or(Duration::ZERO, |since| runner::now().since(since)))
}
