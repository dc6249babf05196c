//! Verification of a stored study: decisions against their replay, tables against the journal,
//! artifacts against their digests.

use std::collections::BTreeMap;
use std::path::Path;

use super::worker_job::{OnProgress, Progress};
use super::{AppError, artifacts};
use crate::engine::EngineError;
use crate::engine::verify::{
    Difference, StoredEvent, Verified, hold_tables, verify as decide_again,
};
use crate::storage::any::AnyReader;
use crate::storage::{StorageError, StorageReader, StudyId, StudySummary};
use crate::study::artifact::{Artifact, StoredArtifact};
use crate::study::counted::count;
use crate::study::event::{Event, RecordEvent, Seq, TrialEvent};
use crate::study::spec::StudySpec;
use crate::study::state::StudyState;
use crate::study::trial::TrialNumber;

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
    let Moment { revisions, journal, tables, artifacts, difference } = moment_of(reader, study.id)?;
    let difference = difference
        .or_else(|| missing_revision(&revisions))
        .or_else(|| artifact_rows(&journal, &artifacts));
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

/// A study has a revision from its creation on.
fn missing_revision(revisions: &[(Seq, StudySpec)]) -> Option<Difference> {
    revisions.is_empty().then(|| Difference {
        seq: Seq(0),
        trial: None,
        what: "revision",
        table: Some("study_revision"),
        row: "the first".to_owned(),
        field: "spec".to_owned(),
        stored: "none".to_owned(),
        now: "one since the study was created".to_owned(),
    })
}

/// An artifact by its trial, name and version, with what is compared of it.
type ByVersion = BTreeMap<(TrialNumber, String, u32), String>;

/// The first artifact that the journal has and the table has not, or differs from, or the other way
/// round.
fn artifact_rows(journal: &[StoredEvent], stored: &[StoredArtifact]) -> Option<Difference> {
    let in_words = |artifact: &Artifact| {
        let Artifact { kind, digest, bytes, step, copied, .. } = artifact;
        let step = step.map_or_else(String::new, |step| format!(", step {step}"));
        let copied = if *copied { ", copied" } else { "" };
        format!("{} {digest}, {bytes} bytes{step}{copied}", kind.as_str())
    };
    let mut newest: BTreeMap<(TrialNumber, &str), (u32, &Artifact)> = BTreeMap::new();
    let mut told = ByVersion::new();
    for (_, _, event) in journal {
        let Event::Trial(trial, TrialEvent::Record(RecordEvent::ArtifactSaved { artifact, .. })) =
            event
        else {
            continue;
        };
        let known = newest.get(&(*trial, artifact.name.as_str()));
        if known.is_some_and(|(_, known)| known.is_repeated_by(artifact)) {
            continue;
        }
        let version = known.map_or(1, |(version, _)| version + 1);
        newest.insert((*trial, &artifact.name), (version, artifact));
        told.insert((*trial, artifact.name.clone(), version), in_words(artifact));
    }
    let of_row = |row: &StoredArtifact| {
        ((row.trial, row.artifact.name.clone(), row.version), in_words(&row.artifact))
    };
    let stored: ByVersion = stored.iter().map(of_row).collect();
    let differs = |key: &&(TrialNumber, String, u32)| told.get(*key) != stored.get(*key);
    let key = told.keys().chain(stored.keys()).filter(differs).min()?;
    let side = |side: &ByVersion| side.get(key).cloned().unwrap_or_else(|| "none".to_owned());
    Some(Difference {
        seq: Seq(0),
        trial: Some(key.0),
        what: "artifact",
        table: Some("artifact"),
        row: format!("{}:v{}", key.1, key.2),
        field: "content".to_owned(),
        stored: side(&stored),
        now: side(&told),
    })
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
    artifacts: Vec<StoredArtifact>,
    /// The difference between the journal and tables that the state does not include.
    difference: Option<Difference>,
}

/// Reads a consistent snapshot while other processes may be writing.
fn moment_of(reader: &AnyReader, study: StudyId) -> Result<Moment, StorageError> {
    loop {
        let revisions = reader.revisions(study)?;
        let journal = reader.events_after(study, Seq(0), u64::MAX)?;
        let tables = reader.study_state(study)?;
        let artifacts = reader.artifacts(study, None)?;
        let difference =
            hold_tables(reader, study, &reader.objectives(study)?, &revisions, &journal)?;
        let last = journal.last().map_or(Seq(0), |(seq, ..)| *seq);
        if reader.events_after(study, last, 1)?.is_empty()
            && reader.revisions(study)?.len() == revisions.len()
        {
            return Ok(Moment { revisions, journal, tables, artifacts, difference });
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
