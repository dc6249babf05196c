//! Removes a study: what would go, then its rows in one transaction, then its files.
//!
//! The rows go first, together with a note of the directories: whatever is killed in between, the
//! study is whole, or it is gone and the next removal or `gc` deletes what is left of its files.

use std::fs;
use std::path::{Path, PathBuf, absolute};

use super::AppError;
use super::remove_runs::move_files;
use super::study_state::life;
use super::warm_start;
use crate::report::wording::HolderLife;
use crate::runner::disk::size;
use crate::runner::garbage_collection::{Others, Stores, files_of_removed, remove, settle_removed};
use crate::runner::{self, ownership, take_lease_of_any};
use crate::storage::sqlite::SqliteStore;
use crate::storage::{Storage as _, StorageReader, StudySummary};
use crate::study::trial::TrialNumber;
use crate::tracking::{forget, settle_dead};

/// What goes with a study.
#[derive(Clone, Debug)]
pub struct Removal {
    /// The study.
    pub study: StudySummary,
    /// How many checkpoints it has.
    pub checkpoints: u64,
    /// The directories of its files, as far as they are this store's.
    pub directories: Vec<PathBuf>,
    /// What they take on the disk.
    pub bytes: u64,
    /// Studies that took trials from it when they began; they keep them.
    pub heirs: Vec<String>,
}

/// What is left of the files of removed studies and runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Leftovers {
    /// Directories that could not be removed, or hold what another study needs.
    pub directories: Vec<PathBuf>,
}

/// What removing a study would remove.
///
/// # Errors
/// The store failed.
pub fn plan(
    reader: &dyn StorageReader,
    store: &Path,
    study: StudySummary,
) -> Result<Removal, AppError> {
    let directories = directories(reader, store, &study)?;
    let checkpoints = reader.checkpoints(study.id)?.len() as u64;
    let name = &study.spec.name;
    let mut heirs = Vec::new();
    for (id, other) in reader.names()?.into_iter().filter(|(id, _)| *id != study.id) {
        // One that cannot be read here has nothing to say.
        let takes = |entry: &String| warm_start::names_study(entry, name);
        if reader.summary(id).is_ok_and(|other| other.spec.warm_start.iter().any(takes)) {
            heirs.push(other);
        }
    }
    let bytes = directories.iter().map(|directory| size(directory)).sum();
    Ok(Removal { study, checkpoints, directories, bytes, heirs })
}

fn directories(
    reader: &dyn StorageReader,
    store: &Path,
    study: &StudySummary,
) -> Result<Vec<PathBuf>, AppError> {
    let store = absolute(store)?;
    let homes = ownership::own_homes(reader, &study.clone().stored(), &store)?;
    let directories = homes.iter().map(|home| home.directory());
    Ok(directories.filter(|directory| directory.exists()).collect())
}

/// Removes a study and its files. What could not be removed of the files stays noted.
///
/// # Errors
/// Somebody runs the study, or the store failed.
pub fn remove_study(
    store: &mut SqliteStore,
    path: &Path,
    study: &StudySummary,
) -> Result<(), AppError> {
    if study.spec.is_tracked() {
        // Files of runs that were moved elsewhere may still be in its directory.
        move_files(store, path)?;
        settle_dead(store, study.id, &study.spec)?;
    }
    let lease = take_lease_of_any(store, &study.clone().stored())?;
    // Under the lease nobody takes another directory for it.
    let removed = directories(store, path, study)
        .and_then(|found| Ok(store.remove_study(&lease, runner::now(), &found)?));
    if let Err(error) = removed {
        store.release(&lease)?;
        return Err(error);
    }
    if let Some(lock) = store.lock_file(study.id) {
        // Nobody asks for the lock of a study that is gone: its id is not given again.
        forget(&lock);
        let _empty_file = fs::remove_file(lock);
    }
    Ok(())
}

/// What the files of a trial take on the disk: logs, checkpoints and whatever its program left in
/// its directory.
///
/// # Errors
/// The store failed.
pub fn size_of_trial(
    reader: &dyn StorageReader,
    store: &Path,
    study: &StudySummary,
    trial: TrialNumber,
) -> Result<u64, AppError> {
    let store = absolute(store)?;
    let homes = ownership::own_homes(reader, &study.clone().stored(), &store)?;
    Ok(homes.iter().map(|home| size(&home.trial(trial))).sum())
}

/// Removes what is left of the files of removed studies and runs and of hidden trials: of those that
/// were just removed, and of those whose removal was broken off.
///
/// # Errors
/// The store failed.
pub fn remove_files(store: &mut SqliteStore, path: &Path) -> Result<Leftovers, AppError> {
    let path = absolute(path)?;
    let stores = Stores {
        path: &path,
        reader: &*store,
        others: Others::beside(&path),
        is_alive: |held| life(held) == HolderLife::Alive,
    };
    let found = files_of_removed(&stores)?;
    remove(&stores, &found, |_| ())?;
    drop(stores);
    let left = settle_removed(store)?;
    let mut directories: Vec<PathBuf> =
        left.into_iter().flat_map(|study| study.directories).collect();
    for removed in store.removed_runs()?.into_iter().filter(|removed| removed.moved.is_none()) {
        let study = store.summary(removed.study)?.stored();
        let homes = ownership::own_homes(store, &study, &path)?;
        let of_run = homes.iter().map(|home| home.trial(removed.run));
        directories.extend(of_run.filter(|directory| directory.exists()));
    }
    Ok(Leftovers { directories })
}
