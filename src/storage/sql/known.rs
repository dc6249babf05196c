//! The names of the studies that a store was asked for: who removes a study removes its name.

use std::cell::RefCell;
use std::collections::BTreeMap;

use crate::storage::{StorageError, StudyId};

/// The names of the studies that a store was asked for.
#[derive(Debug, Default)]
pub(in crate::storage) struct StudyNames(RefCell<BTreeMap<StudyId, String>>);

impl StudyNames {
    /// Adds those that were read.
    pub(super) fn learn<'a>(&self, studies: impl IntoIterator<Item = (StudyId, &'a str)>) {
        let mut known = self.0.borrow_mut();
        known.extend(studies.into_iter().map(|(id, name)| (id, name.to_owned())));
    }

    /// The error with the name of its study.
    pub(in crate::storage) fn named(&self, error: StorageError) -> StorageError {
        match error {
            StorageError::NoStudy { study, name: None } => {
                StorageError::NoStudy { study, name: self.0.borrow().get(&study).cloned() }
            }
            error => error,
        }
    }
}
