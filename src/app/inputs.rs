//! What trials read, and whether it is still what they were trained on.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::arguments::data_format::is_on_hub;
use crate::config::{Change, ChangeClass};
use crate::export::ExportError;
use crate::runner::inputs::{data_digest, data_of, described};
use crate::storage::{StorageError, StorageReader, StudyId};
use crate::study::provenance::{SourceFile, short};
use crate::study::spec::StudySpec;
use crate::study::trial::TrialNumber;

/// The data and models that changed since a study was last run, by the digests that were recorded
/// then. Before the first trial is complete, no result becomes incomparable.
///
/// # Errors
/// The store failed.
pub fn changes(
    reader: &dyn StorageReader,
    study: StudyId,
    now: &[SourceFile],
) -> Result<Vec<Change>, StorageError> {
    if now.is_empty() {
        return Ok(Vec::new());
    }
    let class = match reader.summary(study)?.counts.complete {
        0 => ChangeClass::NeedsAccept,
        _ => ChangeClass::NeedsFork,
    };
    let runners = reader.runners(study)?;
    let last = runners.iter().rev().find_map(|runner| runner.provenance.as_ref());
    let before = last.map_or(&[][..], |provenance| &provenance.files);
    let mut changes = Vec::new();
    for role in SourceFile::DATA.into_iter().chain([SourceFile::MODEL]) {
        let key = match role {
            SourceFile::MODEL => format!("trainer.{role}"),
            split => format!("data.{split}"),
        };
        let digests = |files: &[SourceFile]| {
            let of_role = files.iter().filter(|file| file.role == role);
            of_role.map(|file| file.digest.clone()).collect::<Vec<_>>()
        };
        let [before, now] = [before, now].map(digests);
        // Other numbers of them are a change of the specification.
        for (old, new) in before.into_iter().zip(now) {
            if let (Some(old), Some(new)) = (old, new)
                && old != new
            {
                changes.push(Change::of_contents(&key, short(&old), short(&new), class));
            }
        }
    }
    Ok(changes)
}

/// The files that the last attempt of a trial read, as its runner recorded them.
///
/// # Errors
/// The store failed.
pub fn recorded(
    reader: &dyn StorageReader,
    study: StudyId,
    trial: TrialNumber,
) -> Result<Vec<SourceFile>, StorageError> {
    let attempts = reader.attempts(study, Some(trial))?;
    let Some(runner) = attempts.last().and_then(|attempt| attempt.runner) else {
        return Ok(Vec::new());
    };
    let runners = reader.runners(study)?.into_iter();
    let runner = runners.into_iter().find(|found| found.seq == runner);
    Ok(runner.and_then(|runner| runner.provenance).map_or_else(Vec::new, |found| found.files))
}

/// The data of a study that is not what was recorded, or is gone.
pub fn changed_data(spec: &StudySpec, recorded: &[SourceFile]) -> Vec<PathBuf> {
    let is_changed = |(split, path): &(&str, &Path)| {
        let before = recorded_digest(recorded, split);
        before.is_some() && described(split, path).digest.as_deref() != before
    };
    data_of(spec).filter(is_changed).map(|(_, path)| path.to_owned()).collect()
}

/// The digests of a study's data by path: as recorded, or of the files as they are.
///
/// # Errors
/// A file that is not recorded cannot be read.
pub fn data_digests(
    spec: &StudySpec,
    recorded: &[SourceFile],
) -> Result<BTreeMap<String, String>, ExportError> {
    let files = data_of(spec).filter(|(_, path)| !is_on_hub(path));
    let of = |(split, path): (&str, &Path)| {
        let digest = match recorded_digest(recorded, split) {
            Some(digest) => digest.to_owned(),
            None => data_digest(path).map_err(ExportError::io("read", path))?,
        };
        Ok((path.display().to_string(), digest))
    };
    files.map(of).collect()
}

fn recorded_digest<'a>(recorded: &'a [SourceFile], split: &str) -> Option<&'a str> {
    recorded.iter().find(|file| file.role == split)?.digest.as_deref()
}
