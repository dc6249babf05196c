//! The directories of a study's files, and in which of them its store may remove any.

use std::collections::HashSet;
use std::fs;
use std::path::Path;

use super::mark::{
    Owner, copy_of_directory, is_another, is_marked_by_another, is_same_file, owner,
};
use crate::runner::disk::{entries, name_of, numbered};
use crate::storage::address::{directory_beside, is_on_server};
use crate::storage::paths::{DATA_CACHE, StudyFiles};
use crate::storage::{StorageError, StorageReader, StoredStudy, StudyId};

/// The directories of a study's trials, latest first: the present one, and earlier ones from before
/// `[checkpoints] dir` changed or another directory was taken.
///
/// # Errors
/// Those of the store.
pub fn homes(
    storage: &dyn StorageReader,
    study: &StoredStudy,
    store: &Path,
) -> Result<Vec<StudyFiles>, StorageError> {
    let mut homes = vec![study.files(store)];
    // A study without a directory of its own yet may have the same name as another's, or that of
    // tokenised data.
    if study.directory.is_none()
        && (is_data_only(&homes[0])
            || taken_by_others(storage, study.id)?.contains(homes[0].name()))
    {
        homes.clear();
    }
    let names = storage.directories(study.id)?;
    let revisions = storage.revisions(study.id)?;
    for name in &names {
        for (_, spec) in revisions.iter().rev() {
            let home = StudyFiles::of(spec, Some(name), store);
            if !homes.contains(&home) {
                homes.push(home);
            }
        }
    }
    Ok(homes)
}

/// Whether it is the directory of tokenised data, without trials of an earlier version.
pub(super) fn is_data_only(files: &StudyFiles) -> bool {
    files.name() == DATA_CACHE && trials_in(&files.directory()).next().is_none()
}

/// The numbers of the trials with a directory there.
pub(in crate::runner) fn trials_in(directory: &Path) -> impl Iterator<Item = u64> {
    entries(directory).filter_map(|entry| numbered(&entry, "trial-"))
}

/// The directories of a study's trials, by whether this store may remove files there.
#[derive(Clone, Debug, Default)]
pub struct HomesByOwner {
    /// Those in which it may, where they are now.
    pub own: Vec<StudyFiles>,
    /// Of these, those that were moved with the store, after their places before.
    pub moved: Vec<(StudyFiles, StudyFiles)>,
    /// The others, some of which may not exist.
    pub others: Vec<StudyFiles>,
}

/// The directories of a study's trials, by whether this store may remove files there.
///
/// # Errors
/// Those of the store.
pub fn homes_by_owner(
    storage: &dyn StorageReader,
    study: &StoredStudy,
    store: &Path,
) -> Result<HomesByOwner, StorageError> {
    let mut by_owner = HomesByOwner::default();
    for home in homes(storage, study, store)? {
        if is_ours(storage, &home, store)? {
            by_owner.own.push(home);
            continue;
        }
        if let Some(there) = moved_home(storage, &home, store)? {
            if is_marked_by_another(&there.directory(), store) {
                by_owner.others.push(there);
            } else {
                by_owner.own.push(there.clone());
                by_owner.moved.push((home.clone(), there));
            }
        }
        by_owner.others.push(home);
    }
    Ok(by_owner)
}

/// Those in which this store may remove files, where they are now.
///
/// # Errors
/// Those of the store.
pub fn own_homes(
    storage: &dyn StorageReader,
    study: &StoredStudy,
    store: &Path,
) -> Result<Vec<StudyFiles>, StorageError> {
    Ok(homes_by_owner(storage, study, store)?.own)
}

/// Whether a study's files belong to this store, which may then remove them: the mark says so, and
/// no other store with this id is at the path of the last run. A store without files of its own
/// owns all.
///
/// # Errors
/// Those of the store.
pub fn is_ours(
    storage: &dyn StorageReader,
    files: &StudyFiles,
    store: &Path,
) -> Result<bool, StorageError> {
    let Some(mine) = storage.identity()? else { return Ok(true) };
    Ok(may_remove(&files.directory(), &mine, store))
}

/// Whether the store with the id `mine` at `store` may remove files in a directory: it has the mark
/// of that store, which is still where it was, or has come along with it. Otherwise this store may
/// be a copy whose original is away for the moment.
pub fn may_remove(directory: &Path, mine: &str, store: &Path) -> bool {
    let Owner::Store { id, path } = owner(directory) else { return false };
    let beside = directory_beside(store);
    let is_where_it_was = is_same_file(&path, store) || directory_beside(&path) == beside;
    id == mine
        && copy_of_directory(directory).is_none()
        && !is_another(&path, store, mine)
        && (is_where_it_was || is_below(directory, &beside))
}

/// Whether a directory is below another one, not only by links.
fn is_below(directory: &Path, other: &Path) -> bool {
    match (fs::canonicalize(directory), fs::canonicalize(other)) {
        (Ok(directory), Ok(other)) => directory.starts_with(other),
        _ => false,
    }
}

/// Where files are now whose project was moved with its store, or copied, since the study was last
/// run: a directory with the mark of this store that lies to it as `home` lay to the store of the
/// mark. The specification still has the earlier path.
///
/// # Errors
/// Those of the store.
fn moved_home(
    storage: &dyn StorageReader,
    home: &StudyFiles,
    store: &Path,
) -> Result<Option<StudyFiles>, StorageError> {
    let Some(mine) = storage.identity()?.filter(|_| !is_on_server(store)) else { return Ok(None) };
    let beside = directory_beside(store);
    for to in beside.ancestors() {
        for from in home.root().ancestors().filter(|from| *from != to) {
            let (Ok(below), Ok(of_store)) =
                (home.root().strip_prefix(from), beside.strip_prefix(to))
            else {
                continue;
            };
            let there = StudyFiles::below(&to.join(below), home.name());
            if let Owner::Store { id, path } = owner(&there.directory())
                && id == mine
                && path.parent() == Some(&from.join(of_store))
            {
                return Ok(Some(there));
            }
        }
    }
    Ok(None)
}

/// The names of the directories of the store's other studies, including removed ones whose files
/// still exist.
pub(super) fn taken_by_others(
    storage: &dyn StorageReader,
    study: StudyId,
) -> Result<HashSet<String>, StorageError> {
    let mut taken = HashSet::new();
    for (other, _) in storage.names()?.into_iter().filter(|(other, _)| *other != study) {
        taken.extend(storage.directories(other)?);
    }
    for removed in storage.removed_studies()? {
        taken
            .extend(removed.directories.iter().filter_map(|path| name_of(path)).map(str::to_owned));
    }
    Ok(taken)
}
