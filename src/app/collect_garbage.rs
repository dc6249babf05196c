//! Garbage collection: what no study needs below a store's directories, and its removal.

use std::path::{Path, PathBuf};

use super::AppError;
use super::left_files::LeftFile;
use super::remove_runs::move_files;
use super::study_state::life;
use crate::report::wording::HolderLife;
use crate::runner::garbage_collection::{
    self, ForeignDirectory, OrphanedFile, Others, Stores, foreign, orphaned_files, settle_removed,
};
use crate::storage::any::AnyStore;
use crate::storage::{StorageError, StorageReader};

/// What no study needs, and what is left alone although no study of this store needs it.
#[derive(Debug)]
pub struct Garbage {
    /// Orphaned files, by path.
    pub files: Vec<OrphanedFile>,
    /// Directories that are not this store's: only the user, or their own store, may remove them.
    pub foreign: Vec<ForeignDirectory>,
    /// A file that may be a store and cannot be read: what may belong to its studies is left alone.
    pub unreadable: Option<PathBuf>,
    /// Whether a copy of the store lies beside it: what only one of the two knows is left alone.
    pub has_copy: bool,
}

/// A store and the others beside it, as they are now. `store`: its absolute path.
pub(super) fn stores<'a>(reader: &'a dyn StorageReader, store: &'a Path) -> Stores<'a> {
    Stores {
        path: store,
        reader,
        others: Others::beside(store),
        is_alive: |held| life(held) == HolderLife::Alive,
    }
}

/// The number of runs whose files still wait to be moved to another study.
///
/// # Errors
/// The store failed.
pub fn unfinished_moves(reader: &dyn StorageReader) -> Result<usize, StorageError> {
    Ok(reader.removed_runs()?.iter().filter(|removed| removed.moved.is_some()).count())
}

/// Moves the files of runs that wait for it.
///
/// # Errors
/// Files cannot be moved; what is left can be collected all the same.
pub fn finish_moves(store: &mut AnyStore, path: &Path) -> Result<(), AppError> {
    move_files(store, path).map(drop)
}

/// Finds what no study needs. `store`: the store's absolute path.
///
/// # Errors
/// The store failed.
pub fn find(reader: &dyn StorageReader, store: &Path) -> Result<Garbage, AppError> {
    let mut stores = stores(reader, store);
    let own = reader.identity()?;
    let (files, left) = orphaned_files(&stores)?;
    let mut foreign = foreign(&stores)?;
    foreign.extend(left);
    foreign.sort_by(|one, other| one.directory.cmp(&other.directory));
    Ok(Garbage {
        files,
        foreign,
        has_copy: own.is_some_and(|id| stores.others.ids.contains(&id)),
        unreadable: stores.others.unreadable.take(),
    })
}

/// Removes orphaned files, each after another look: what is used by now stays. Returns those that
/// are gone, and what cannot be removed.
///
/// # Errors
/// The store failed.
pub fn remove(
    reader: &dyn StorageReader,
    store: &Path,
    files: &[OrphanedFile],
) -> Result<(Vec<OrphanedFile>, Vec<LeftFile>), AppError> {
    let (mut removed, mut left) = (Vec::new(), Vec::new());
    garbage_collection::remove(&stores(reader, store), files, |file, done| match done {
        Ok(()) => removed.push(file.clone()),
        Err(error) => {
            left.push(LeftFile::not_removed(&file.path, error.to_string()));
        }
    })?;
    Ok((removed, left))
}

/// Whether the removal of a study waits to be finished: it may have been killed after its last
/// file.
///
/// # Errors
/// The store failed.
pub fn has_unfinished_removals(reader: &dyn StorageReader) -> Result<bool, StorageError> {
    Ok(!reader.removed_studies()?.is_empty())
}

/// Forgets removed studies whose files are gone, so that their directories' names are free.
///
/// # Errors
/// The store failed.
pub fn finish_removals(store: &mut AnyStore) -> Result<(), StorageError> {
    settle_removed(store).map(drop)
}
