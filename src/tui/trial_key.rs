//! Which trial is meant, on screens that may show those of several studies.

use crate::storage::StudyId;
use crate::study::trial::TrialNumber;

/// A trial of a study of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrialKey {
    /// The study.
    pub study: StudyId,
    /// The trial's number in it.
    pub number: TrialNumber,
}
