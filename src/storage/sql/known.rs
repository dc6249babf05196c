//! What a reader keeps of what it has read: the names of studies, since who removes a study removes
//! its name, and the summaries of trials, which only the whole journal has.

use std::cell::RefCell;
use std::collections::BTreeMap;

use super::connection::Connection;
use super::fault::Fault;
use super::{journal, scan};
use crate::storage::{StorageError, StudyId, Summaries};
use crate::study::event::Seq;
use crate::study::trial::TrialNumber;

/// What a reader keeps.
#[derive(Debug, Default)]
pub(in crate::storage) struct Known {
    names: RefCell<BTreeMap<StudyId, String>>,
    summaries: RefCell<BTreeMap<StudyId, KnownSummaries>>,
}

/// The summaries of a study's trials.
#[derive(Debug, Default)]
struct KnownSummaries {
    /// The last event that they are from.
    read: Seq,
    of: Summaries,
}

impl Known {
    /// Adds the names of studies that were read.
    pub(super) fn learn<'a>(&self, studies: impl IntoIterator<Item = (StudyId, &'a str)>) {
        let mut known = self.names.borrow_mut();
        known.extend(studies.into_iter().map(|(id, name)| (id, name.to_owned())));
    }

    /// The error with the name of its study.
    pub(in crate::storage) fn named(&self, error: StorageError) -> StorageError {
        match error {
            StorageError::NoStudy { study, name: None } => {
                StorageError::NoStudy { study, name: self.names.borrow().get(&study).cloned() }
            }
            error => error,
        }
    }

    /// The summary of a trial. The first one reads the study's journal, others what is new of it.
    pub(super) fn summary(
        &self,
        connection: &dyn Connection,
        study: StudyId,
        trial: TrialNumber,
    ) -> Result<BTreeMap<String, serde_json::Value>, Fault> {
        let mut all = self.summaries.borrow_mut();
        let known = all.entry(study).or_default();
        let last = journal::last_event(connection, study)?;
        if last < known.read {
            // An older copy of the store.
            *known = KnownSummaries::default();
        }
        if last > known.read {
            for (trial, summary) in scan::summaries(connection, study, known.read)? {
                known.of.entry(trial).or_default().extend(summary);
            }
            known.read = last;
        }
        Ok(known.of.get(&trial).cloned().unwrap_or_default())
    }
}
