//! Studies with the space in which analyses compare their trials.

use std::borrow::Cow;

use crate::analysis::runs_space::runs_space;
use crate::storage::{OutcomeCursor, StorageError, StorageReader, StudySummary};
use crate::study::outcome::TrialSummary;

/// The study, if it is of tracked runs with the space that the parameters of these span.
pub fn compared<'a>(study: &'a StudySummary, outcomes: &[TrialSummary]) -> Cow<'a, StudySummary> {
    match spans_own_space(study) {
        true => {
            let mut compared = study.clone();
            compared.spec.space = runs_space(outcomes);
            Cow::Owned(compared)
        }
        false => Cow::Borrowed(study),
    }
}

/// The same, with the outcomes of the store.
///
/// # Errors
/// The store failed.
pub fn read<'a>(
    reader: &dyn StorageReader,
    study: &'a StudySummary,
) -> Result<Cow<'a, StudySummary>, StorageError> {
    if !spans_own_space(study) {
        return Ok(Cow::Borrowed(study));
    }
    Ok(compared(study, &reader.outcomes(study.id, OutcomeCursor::default())?.0))
}

/// Whether the parameters of its trials are its space: imported studies may have their own.
fn spans_own_space(study: &StudySummary) -> bool {
    study.spec.is_tracked() && study.spec.space.dimensions().is_empty()
}
