//! Exports a study to another tool.

use std::collections::BTreeMap;

use super::AppError;
use crate::storage::{StorageError, StorageReader, StudySummary};
use crate::study::artifact::ArtifactKind;
use crate::study::counted::count;
use crate::study::destination::{Destination, Tool};
use crate::tracking::{Credentials, Mirror, SyncResult, write_lag};

/// Brings a destination up to date with a study.
///
/// # Errors
/// The store or the destination failed; what was written stays, and the next call adds the rest.
pub fn sync(
    reader: &dyn StorageReader,
    study: &StudySummary,
    destination: &Destination,
    credentials: &Credentials,
) -> Result<SyncResult, AppError> {
    let mut mirror = Mirror::open(reader, study, destination, credentials)?;
    let written = mirror.update(reader, &mut |_, _| {})?;
    write_lag(reader, study.id, destination, None);
    Ok(written)
}

/// What a study has and a tool is not given, as texts: `3 images`.
///
/// # Errors
/// The store failed.
pub fn not_written(
    reader: &dyn StorageReader,
    study: &StudySummary,
    tool: Tool,
) -> Result<Vec<String>, StorageError> {
    let mut kinds = BTreeMap::<&str, u64>::new();
    for stored in reader.artifacts(study.id, None)? {
        // The plural of the other kinds is regular.
        let kind = match stored.artifact.kind {
            ArtifactKind::Directory => "file",
            kind => kind.as_str(),
        };
        *kinds.entry(kind).or_default() += 1;
    }
    let summaries = match tool {
        Tool::Wandb => 0,
        Tool::TensorBoard | Tool::MlFlow => reader.trial_summaries(study.id)?.len() as u64,
    };
    let artifacts = kinds.into_iter().map(|(kind, number)| count(number, kind));
    let summaries = (summaries > 0).then(|| match summaries {
        1 => "the summary of 1 run".to_owned(),
        _ => format!("the summaries of {summaries} runs"),
    });
    Ok(artifacts.chain(summaries).collect())
}
