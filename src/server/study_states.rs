//! The states of all studies, some of which change without a word in the store: a process that is
//! killed writes nothing.

use std::collections::{BTreeMap, BTreeSet};

use crate::app::study_state;
use crate::report::wording::StudyStatus;
use crate::storage::{StorageError, StorageReader, StudyId};

/// The states of all studies, as they were when last looked up.
#[derive(Debug, Default)]
pub struct StudyStates {
    states: BTreeMap<StudyId, StudyStatus>,
    /// Those that depend on a process.
    live: BTreeSet<StudyId>,
    /// Whether the store has changed since all were looked up.
    is_stale: bool,
}

impl StudyStates {
    /// The states now.
    ///
    /// # Errors
    /// The store failed.
    pub fn new(reader: &dyn StorageReader) -> Result<Self, StorageError> {
        let mut states = StudyStates::default();
        for (study, _) in reader.names()? {
            states.look_up(reader, study)?;
        }
        Ok(states)
    }

    /// Looks whether states have changed. While the store changes nothing is looked up: its readers
    /// hear of that anyway.
    ///
    /// # Errors
    /// The store failed.
    pub fn have_changed(
        &mut self,
        reader: &dyn StorageReader,
        has_store_changed: bool,
    ) -> Result<bool, StorageError> {
        if has_store_changed {
            self.is_stale = true;
            return Ok(false);
        }
        if self.is_stale {
            let now = StudyStates::new(reader)?;
            let before = std::mem::replace(self, now);
            return Ok(before.states != self.states);
        }
        let mut is_other = false;
        for study in self.live.clone() {
            is_other |= self.look_up(reader, study)?;
        }
        Ok(is_other)
    }

    /// Looks one up; whether it is another one than before.
    fn look_up(
        &mut self,
        reader: &dyn StorageReader,
        study: StudyId,
    ) -> Result<bool, StorageError> {
        let summary = match reader.summary(study) {
            Ok(summary) => summary,
            // Removed since its name was read; or of a form that this version does not know.
            Err(StorageError::NoStudy { .. } | StorageError::Corrupt { .. }) => {
                self.live.remove(&study);
                return Ok(self.states.remove(&study).is_some());
            }
            Err(error) => return Err(error),
        };
        let state = study_state::state_in(reader, &summary)?;
        match summary.held.is_some() || state == StudyStatus::Running {
            true => self.live.insert(study),
            false => self.live.remove(&study),
        };
        Ok(self.states.insert(study, state) != Some(state))
    }
}
