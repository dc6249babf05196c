//! How a study stands: its state, and the time that was spent on it.

use std::time::Duration;

use super::console::life;
use super::exit::Failure;
use crate::report::wording::{HolderLife, StudyState, micros};
use crate::runner;
use crate::storage::{StorageReader, StudySummary};

/// A study's state, the life of its runner looked up.
pub fn state(study: &StudySummary) -> StudyState {
    StudyState::new(study, study.held.as_ref().map_or(HolderLife::Dead, life))
}

/// The time that runners spent on a study up to now.
pub fn elapsed(reader: &dyn StorageReader, study: &StudySummary) -> Result<Duration, Failure> {
    let (ran, since) = reader.running_since(study.id)?;
    // A runner that died left its beginning behind; the clock stopped when it did.
    let since = since.filter(|_| state(study) == StudyState::Running);
    Ok(micros(ran) + since.map_or(Duration::ZERO, |since| runner::now().since(since)))
}
