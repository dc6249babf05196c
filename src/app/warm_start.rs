//! What a new study takes from earlier ones: their trials, read where they are kept and written into its specification.

use std::path::Path;

use crate::samplers::{Taken, earlier};
use crate::storage::sqlite::SqliteReader;
use crate::storage::{StorageError, StorageReader, StudySummary};
use crate::study::history::History;
use crate::study::spec::StudySpec;

/// Why an earlier study cannot be learnt from.
#[derive(Debug, thiserror::Error)]
pub enum WarmStartError {
    /// Its store cannot be read.
    #[error("the warm start \"{entry}\" cannot be read")]
    Store {
        /// As it was written.
        entry: String,
        /// Why.
        #[source]
        source: Box<StorageError>,
    },
    /// Its store has no study of this name.
    #[error(
        "the warm start \"{entry}\" names no study of its store, which {holds}: write the name of a study, `store.db`, or `store.db:study`"
    )]
    Unknown {
        /// As it was written.
        entry: String,
        /// What the store has.
        holds: String,
    },
    /// None of its trials has a parameter of the new study.
    #[error(
        "the warm start \"{entry}\" holds no trial that fits the space: take it out, or name a study with complete trials and parameters of the same names"
    )]
    Nothing {
        /// As it was written.
        entry: String,
    },
}

/// One earlier study, and what it gave.
#[derive(Debug)]
pub struct Found {
    /// Which.
    pub study: StudySummary,
    /// What was taken, and what was left out.
    pub taken: Taken,
}

/// Fills in the trials of the studies that `spec` names: those that were kept with `known`, the study as it is stored, if the
/// names are the same; else those of the stores as they are now. `find` tells which study of a store a name means.
///
/// # Errors
/// A store cannot be read, a study is not there, or none of its trials fits; `find`'s own.
pub fn take<E: From<WarmStartError>>(
    spec: &mut StudySpec,
    known: Option<&StudySpec>,
    store: &dyn StorageReader,
    find: impl Fn(&dyn StorageReader, &str) -> Result<StudySummary, E>,
) -> Result<Vec<Found>, E> {
    if let Some(known) = known.filter(|known| known.warm_start == spec.warm_start) {
        spec.earlier.clone_from(&known.earlier);
        return Ok(Vec::new());
    }
    let mut every = Vec::new();
    for entry in spec.warm_start.clone() {
        let unreadable =
            |source| WarmStartError::Store { entry: entry.clone(), source: Box::new(source) };
        let (path, name) = parts(&entry);
        let opened =
            path.map(|path| SqliteReader::open(Path::new(path)).map_err(unreadable)).transpose()?;
        let reader: &dyn StorageReader = opened.as_ref().map_or(store, |reader| reader);
        let studies = match name {
            Some(name) => vec![find(reader, name)?],
            None => reader.studies().map_err(unreadable)?,
        };
        let before = spec.earlier.len();
        for study in
            studies.into_iter().filter(|study| path.is_some() || study.spec.name != spec.name)
        {
            let view = reader.view(study.id).map_err(unreadable)?;
            let taken = earlier(&spec.space, History::new(&view));
            spec.earlier.extend(taken.trials.iter().cloned());
            every.push(Found { study, taken });
        }
        if spec.earlier.len() == before {
            return Err(WarmStartError::Nothing { entry }.into());
        }
    }
    spec.earlier.sort_by(|a, b| a.rank.total_cmp(&b.rank));
    Ok(every)
}

/// The study called `name`.
///
/// # Errors
/// The store cannot be read, or holds no such study.
pub fn named(reader: &dyn StorageReader, name: &str) -> Result<StudySummary, WarmStartError> {
    let unreadable =
        |source| WarmStartError::Store { entry: name.to_owned(), source: Box::new(source) };
    if let Some(study) = reader.study(name).map_err(unreadable)? {
        return reader.summary(study.id).map_err(unreadable);
    }
    let names: Vec<String> = reader
        .studies()
        .map_err(unreadable)?
        .iter()
        .map(|study| format!("`{}`", study.spec.name))
        .collect();
    let holds = if names.is_empty() {
        "holds no study yet".to_owned()
    } else {
        format!("holds {}", names.join(", "))
    };
    Err(WarmStartError::Unknown { entry: name.to_owned(), holds })
}

/// `path/to/store.db:study`, `path/to/store.db` or `study`.
fn parts(entry: &str) -> (Option<&str>, Option<&str>) {
    let is_store = |path: &str| {
        path.ends_with(".db") || path.ends_with(".sqlite") || path.ends_with(".sqlite3")
    };
    match entry.rsplit_once(':') {
        Some((path, study)) if is_store(path) => (Some(path), Some(study)),
        _ if is_store(entry) => (Some(entry), None),
        _ => (None, Some(entry)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_a_store_a_study_of_a_store_or_a_study() {
        assert_eq!(parts("runs/old.db"), (Some("runs/old.db"), None));
        assert_eq!(parts("runs/old.db:digits"), (Some("runs/old.db"), Some("digits")));
        assert_eq!(parts("digits"), (None, Some("digits")));
        assert_eq!(parts("a:b"), (None, Some("a:b")));
    }
}
