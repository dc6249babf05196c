//! What trials read, and whether it is still what they were trained on.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::arguments::data_file::DataFiles;
use crate::arguments::data_format::is_on_hub;
use crate::config::shown::one_line;
use crate::config::{Change, ChangeClass};
use crate::runner::inputs::{data_digest, data_files, data_of, described};
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
    let models = now.iter().filter(|file| file.role == SourceFile::MODEL).count();
    let mut changes = Vec::new();
    for file in now.iter().filter(|file| file.is_data_or_model()) {
        // Of several models each is known by its path; a moved project has one under another.
        let is_same = |other: &&SourceFile| {
            other.role == file.role && (models < 2 || other.path == file.path)
        };
        let earlier = before.iter().find(is_same).and_then(|file| file.digest.as_ref());
        if let (Some(old), Some(new)) = (earlier, &file.digest)
            && old != new
        {
            let key = match &*file.role {
                SourceFile::MODEL => format!("trainer.model ({})", one_line(&file.path)),
                split => format!("data.{split}"),
            };
            // No trial reads the test split.
            let class = if file.role == SourceFile::TEST { ChangeClass::Free } else { class };
            changes.push(Change::of_contents(&key, short(old), short(new), class));
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
    let mut runners = reader.runners(study)?.into_iter();
    let runner = runners.find(|found| found.seq == runner);
    Ok(runner.and_then(|runner| runner.provenance).map_or_else(Vec::new, |found| found.files))
}

/// The data of a study that is not what was recorded, or is gone.
pub fn changed_data(spec: &StudySpec, recorded: &[SourceFile]) -> Vec<PathBuf> {
    // The test split may be another one: trials do not read it.
    let before =
        |split: &str| recorded_digest(recorded, split).filter(|_| split != SourceFile::TEST);
    let is_changed = |(split, path): &(&str, &Path)| match before(split) {
        Some(before) => described(split, path).digest.as_deref() != Some(before),
        None => {
            let are_there = |files: DataFiles| files.paths.iter().all(|path| path.is_file());
            !is_on_hub(path) && !data_files(path).is_ok_and(are_there)
        }
    };
    data_of(spec).filter(is_changed).map(|(_, path)| path.to_owned()).collect()
}

/// The digests of a study's data, and of the pretrained `model` of a trial, by path: as recorded,
/// or of the files as they are, if they can be read.
pub fn digests(
    spec: &StudySpec,
    model: Option<&Path>,
    recorded: &[SourceFile],
) -> BTreeMap<String, String> {
    let of_data = |(split, path): (&str, &Path)| {
        let digest = recorded_digest(recorded, split).map(str::to_owned);
        Some((path.display().to_string(), digest.or_else(|| data_digest(path).ok())?))
    };
    let of_model = model.and_then(|path| {
        let path = path.display().to_string();
        let is_it = |file: &&SourceFile| file.role == SourceFile::MODEL && file.path == path;
        let found = recorded.iter().find(is_it).cloned();
        let found = found.unwrap_or_else(|| described(SourceFile::MODEL, Path::new(&path)));
        Some((path, found.digest?))
    });
    data_of(spec).filter_map(of_data).chain(of_model).collect()
}

fn recorded_digest<'a>(recorded: &'a [SourceFile], split: &str) -> Option<&'a str> {
    recorded.iter().find(|file| file.role == split)?.digest.as_deref()
}
