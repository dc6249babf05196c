//! Exports a study to another tool.

use super::AppError;
use crate::storage::{StorageReader, StudySummary};
use crate::study::destination::Destination;
use crate::tracking::{Credentials, Mirror, Written, write_lag};

/// Brings a destination up to date with a study.
///
/// # Errors
/// The store or the destination failed; what was written stays, and the next call adds the rest.
pub fn sync(
    reader: &dyn StorageReader,
    study: &StudySummary,
    destination: &Destination,
    credentials: &Credentials,
) -> Result<Written, AppError> {
    let mut mirror = Mirror::open(reader, study, destination, credentials)?;
    let written = mirror.update(reader, &mut |_, _| {})?;
    write_lag(reader, study.id, destination, None);
    Ok(written)
}
