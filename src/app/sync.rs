//! Writes a study in the form of another tool.

use super::AppError;
use crate::storage::{StorageReader, StudySummary};
use crate::study::destination::Destination;
use crate::tracking::{Mirror, Written};

/// Brings a destination up to date with a study.
///
/// # Errors
/// The store or the destination failed; what was written stays, and the next call adds the rest.
pub fn sync(
    reader: &dyn StorageReader,
    study: &StudySummary,
    destination: &Destination,
) -> Result<Written, AppError> {
    Ok(Mirror::open(reader, study, destination)?.update(reader, &mut |_, _| {})?)
}
