//! Verification of a stored study: decisions against their replay, tables against the journal,
//! artifacts against their digests.

use std::path::Path;

use super::worker_job::{OnProgress, Progress};
use super::{AppError, artifacts};
use crate::engine::EngineError;
use crate::engine::verify::{
    Difference, StoredEvent, Verified, hold_tables, verify as decide_again,
};
use crate::storage::any::AnyReader;
use crate::storage::{StorageError, StorageReader, StudyId, StudySummary};
use crate::study::counted::count;
use crate::study::event::Seq;
use crate::study::spec::StudySpec;
use crate::study::state::StudyState;

/// Why a study cannot be verified.
#[derive(Debug, thiserror::Error)]
pub enum VerifyError {
    /// Its rows cannot be read.
    #[error(transparent)]
    App(#[from] AppError),
    /// This version of hpsearch cannot replay its decisions.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

impl From<StorageError> for VerifyError {
    fn from(error: StorageError) -> Self {
        VerifyError::App(error.into())
    }
}

/// Replays a study with its store at `store`, and reports the first difference.
///
/// # Errors
/// It cannot be read, or was decided by rules that this version does not have.
pub fn verify(
    reader: &AnyReader,
    study: &StudySummary,
    store: &Path,
    on_progress: &mut OnProgress<'_>,
) -> Result<Verified, VerifyError> {
    let name = &study.spec.name;
    on_progress(Progress::Began(&format!("reading the journal of {name}")));
    let Moment { revisions, journal, tables, difference } = moment_of(reader, study.id)?;
    let fault = artifact_fault(reader, study, store)?;
    let what = format!("replaying {name} (entries of its journal)");
    on_progress(Progress::Began(&what));
    let mut thousandths = None;
    let mut verified = decide_again(&revisions, &journal, &tables, &mut |done, of| {
        // Most entries take no time.
        if thousandths.replace(done * 1000 / of) != Some(done * 1000 / of) {
            on_progress(Progress::At { what: &what, done, of });
        }
    })?;
    // Differences of decisions come first, then those of tables.
    if verified.difference.as_ref().is_none_or(|difference| difference.table.is_some()) {
        verified.difference = difference.or(verified.difference);
    }
    // No decision depends on artifacts.
    verified.difference = verified.difference.or(fault);
    Ok(verified)
}

/// The first artifact whose content in the store or in the trial's files differs from what was
/// logged.
fn artifact_fault(
    reader: &AnyReader,
    study: &StudySummary,
    store: &Path,
) -> Result<Option<Difference>, StorageError> {
    let files = study.files(store);
    for stored in reader.artifacts(study.id, None)? {
        // The files of a hidden trial are gone.
        let is_hidden = || {
            Ok::<_, StorageError>(reader.trial(study.id, stored.trial)?.is_some_and(|of| of.hidden))
        };
        let Some(why) = artifacts::fault(reader, &files, &stored)? else { continue };
        if is_hidden()? {
            continue;
        }
        return Ok(Some(Difference {
            seq: Seq(0),
            trial: Some(stored.trial),
            what: "artifact",
            table: Some("artifact"),
            row: stored.label(),
            field: "digest".to_owned(),
            stored: stored.artifact.digest,
            now: why,
        }));
    }
    Ok(None)
}

/// A consistent snapshot of a study.
struct Moment {
    revisions: Vec<(Seq, StudySpec)>,
    journal: Vec<StoredEvent>,
    tables: StudyState,
    /// The difference between the journal and tables that the state does not include.
    difference: Option<Difference>,
}

/// Reads a consistent snapshot while other processes may be writing.
fn moment_of(reader: &AnyReader, study: StudyId) -> Result<Moment, StorageError> {
    loop {
        let revisions = reader.revisions(study)?;
        let journal = reader.events_after(study, Seq(0), u64::MAX)?;
        let tables = reader.study_state(study)?;
        let difference =
            hold_tables(reader, study, &reader.objectives(study)?, &revisions, &journal)?;
        let last = journal.last().map_or(Seq(0), |(seq, ..)| *seq);
        if reader.events_after(study, last, 1)?.is_empty()
            && reader.revisions(study)?.len() == revisions.len()
        {
            return Ok(Moment { revisions, journal, tables, difference });
        }
    }
}

/// `50 proposals, 132 decisions and 38 values`
pub fn what_was_decided(verified: &Verified) -> String {
    let more = [
        (verified.promotions, "promotion"),
        (verified.race_steps, "race step"),
        (verified.values, "value"),
        (verified.ends, "end"),
    ];
    let mut parts =
        vec![count(verified.proposals, "proposal"), count(verified.verdicts, "decision")];
    let more = more.into_iter().filter(|(number, _)| *number > 0);
    parts.extend(more.map(|(number, what)| count(number, what)));
    let last = parts.pop().unwrap_or_default();
    format!("{} and {last}", parts.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_decided_is_counted_in_words() {
        let mut verified = Verified { proposals: 1, verdicts: 12, ..Verified::default() };
        assert_eq!(what_was_decided(&verified), "1 proposal and 12 decisions");
        verified.race_steps = 4;
        verified.values = 2;
        assert_eq!(
            what_was_decided(&verified),
            "1 proposal, 12 decisions, 4 race steps and 2 values"
        );
    }
}
