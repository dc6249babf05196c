//! What tells a stored study from a later one of the same name.

use std::fmt;

use super::Refusal;
use crate::storage::{StorageError, StorageReader, StudyId};

/// A study of a store, neither of which gets the id of another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    /// The store's id.
    pub store: Option<String>,
    study: StudyId,
}

impl Identity {
    /// That of a study of this store.
    pub fn of(store: &dyn StorageReader, study: StudyId) -> Result<Self, StorageError> {
        Ok(Identity { store: store.identity()?, study })
    }

    /// Refuses a study of this name that is not the one with which the program began.
    pub fn expect(&self, expected: &str, name: &str) -> Result<(), Refusal> {
        if self.to_string() == expected {
            return Ok(());
        }
        refuse!(
            "study `{name}` was removed or renamed since this program began it, and the store has \
             another study of that name now: begin that one anew to run trials of it"
        )
    }
}

/// As `study_id` in `init` and in its answer.
impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.store.as_deref().unwrap_or_default(), self.study.0)
    }
}
