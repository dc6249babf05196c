//! Why a study's files are not in the directory that has its name.

use std::path::{Path, PathBuf};

use super::mark::{Owner, copy_of_directory, owner};
use crate::runner::disk::name_of;
use crate::storage::paths::{DATA_CACHE, StudyFiles};
use crate::storage::{StorageError, StorageReader, StoredStudy};

/// Why a study's files are not in the directory that has its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Taken {
    /// The files of a study of this store are still there that was removed.
    ByRemoved {
        /// The study's name.
        study: String,
    },
    /// Another study of this store has its files there, from before one of the two was renamed.
    ByStudy {
        /// The study's name.
        study: String,
    },
    /// It has the mark of another store.
    ByStore {
        /// The store's path at its last run.
        path: PathBuf,
    },
    /// It is a copy of the directory of this name that somebody made, or was renamed.
    ByCopyOf {
        /// The directory's name.
        name: String,
    },
    /// Its mark cannot be read.
    Unreadable,
    /// It has files and no mark: they may be anybody's.
    Unmarked,
    /// It is that of the tokenised data of all studies.
    ByData,
}

/// Who has the directory with the study's own name.
///
/// # Errors
/// Those of the store.
pub fn taken(
    storage: &dyn StorageReader,
    study: &StoredStudy,
    store: &Path,
) -> Result<Taken, StorageError> {
    let usual = StudyFiles::of(&study.spec, None, store);
    if usual.name() == DATA_CACHE {
        return Ok(Taken::ByData);
    }
    for removed in storage.removed_studies()? {
        let mut names = removed.directories.iter().filter_map(|path| name_of(path));
        if names.any(|name| name == usual.name()) {
            return Ok(Taken::ByRemoved { study: removed.name });
        }
    }
    for (other, name) in storage.names()?.into_iter().filter(|(other, _)| *other != study.id) {
        if storage.directories(other)?.iter().any(|own| own == usual.name()) {
            return Ok(Taken::ByStudy { study: name });
        }
    }
    if let Some(name) = copy_of_directory(&usual.directory()) {
        return Ok(Taken::ByCopyOf { name });
    }
    Ok(match owner(&usual.directory()) {
        Owner::Store { path, .. } => Taken::ByStore { path },
        Owner::Unreadable | Owner::Refused(_) => Taken::Unreadable,
        Owner::Nobody => Taken::Unmarked,
    })
}
