//! Which study and which trial are meant: a name, a study file, or the only study there is.

use std::path::Path;

use super::AppError;
use crate::config;
use crate::storage::sqlite;
use crate::storage::{StorageReader, StudySummary};
use crate::study::spec::StudySpec;
use crate::study::suggestion::nearest;
use crate::study::trial::{Trial, TrialNumber};

/// The study that `named` means in the store behind `reader`; `None`: the only one.
///
/// # Errors
/// There is no such study, or several; the study file is wrong.
pub fn study(reader: &dyn StorageReader, named: Option<&str>) -> Result<StudySummary, AppError> {
    let Some(named) = named else { return only(reader) };
    let file = Path::new(named);
    let is_file = file.extension().is_some_and(|extension| extension == "toml");
    // A study may be called like a file that is not there.
    if is_file && (file.exists() || reader.study(named)?.is_none()) {
        if sqlite::is_open_here(file) {
            return Err(AppError::StoreAsFile { path: named.to_owned() });
        }
        return of_file(reader, file, &config::load(file, &[])?);
    }
    match reader.study(named)? {
        Some(study) => Ok(reader.summary(study.id)?),
        None => {
            let names = names(reader)?;
            let near = nearest(named, names.iter().map(String::as_str)).map(str::to_owned);
            Err(AppError::UnknownStudy { name: named.to_owned(), near, names })
        }
    }
}

/// The stored study of a study file.
///
/// # Errors
/// It was never run.
pub fn of_file(
    reader: &dyn StorageReader,
    file: &Path,
    spec: &StudySpec,
) -> Result<StudySummary, AppError> {
    match reader.study(&spec.name)? {
        Some(study) => Ok(reader.summary(study.id)?),
        None => Err(AppError::NeverRun {
            name: spec.name.clone(),
            file: file.to_owned(),
            names: names(reader)?,
        }),
    }
}

/// A trial of a study.
///
/// # Errors
/// The study has no such trial.
pub fn trial(
    reader: &dyn StorageReader,
    study: &StudySummary,
    number: TrialNumber,
) -> Result<Trial, AppError> {
    let trials = study.counts.total();
    let unknown =
        || AppError::UnknownTrial { study: study.spec.name.clone(), trial: number, trials };
    reader.trial(study.id, number)?.ok_or_else(unknown)
}

fn only(reader: &dyn StorageReader) -> Result<StudySummary, AppError> {
    let mut studies = reader.studies()?;
    match (studies.pop(), studies.is_empty()) {
        (Some(study), true) => Ok(study),
        (None, _) => Err(AppError::EmptyStore),
        (Some(_), false) => Err(AppError::SeveralStudies { names: names(reader)? }),
    }
}

fn names(reader: &dyn StorageReader) -> Result<Vec<String>, AppError> {
    Ok(reader.studies()?.into_iter().map(|study| study.spec.name).collect())
}
