//! Removes a study: a plan, then its rows in one transaction, then its files.
//!
//! The rows are deleted first, and the directories are recorded: after a crash the study either
//! exists completely, or is gone and the next removal or `gc` deletes its remaining files.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::AppError;
use super::collect_garbage::stores;
use super::left_files::{Left, LeftFile, kept_by, left_by, needed_by};
use super::remove_runs::move_files;
use super::warm_start;
use crate::runner::disk::size;
use crate::runner::drafts::{moved_from, moved_to};
use crate::runner::garbage_collection::{Others, files_of_removed, remove, settle_removed};
use crate::runner::own_files::{Kept, StudyDirectory, removable};
use crate::runner::{self, ownership, take_lease_of_any};
use crate::storage::address::absolute;
use crate::storage::any::AnyStore;
use crate::storage::paths::StudyFiles;
use crate::storage::{Storage as _, StorageReader, StudySummary};
use crate::study::trial::TrialNumber;
use crate::tracking::{forget, settle_dead};

/// The data removed with a study.
#[derive(Clone, Debug)]
pub struct Removal {
    /// The study.
    pub study: StudySummary,
    /// Its number of checkpoints.
    pub checkpoints: u64,
    /// The directories of its files that belong to this store.
    pub directories: Vec<PathBuf>,
    /// Other directories of its files, and what is in those but not hpsearch's: both stay.
    pub left: Vec<LeftFile>,
    /// Their disk usage.
    pub bytes: u64,
    /// Studies that were warm-started from it; they keep its trials.
    pub heirs: Vec<String>,
}

/// Plans to remove a study.
///
/// # Errors
/// The store failed.
pub fn plan(
    reader: &dyn StorageReader,
    store: &Path,
    study: StudySummary,
) -> Result<Removal, AppError> {
    let OfStudy { own: directories, shared, mut left } = directories(reader, store, &study)?;
    left.extend(shared);
    let contents: Vec<StudyDirectory> =
        directories.iter().map(|directory| StudyDirectory::read(directory)).collect();
    let kept = contents.iter().flat_map(|content| content.kept.clone());
    left.extend(kept.map(|(path, why)| LeftFile { path, why: Left::Kept(why) }));
    let checkpoints = reader.checkpoints(study.id)?.len() as u64;
    let name = &study.spec.name;
    let mut heirs = Vec::new();
    for (id, other) in reader.names()?.into_iter().filter(|(id, _)| *id != study.id) {
        // Unreadable studies are ignored.
        let takes = |entry: &String| warm_start::names_study(entry, name);
        if reader.summary(id).is_ok_and(|other| other.spec.warm_start.iter().any(takes)) {
            heirs.push(other);
        }
    }
    let bytes = contents.iter().map(|content| content.bytes).sum();
    Ok(Removal { study, checkpoints, directories, left, bytes, heirs })
}

/// The directories of a study's files.
#[derive(Default)]
struct OfStudy {
    /// Those that are this store's to remove.
    own: Vec<PathBuf>,
    /// Those that are its own, and that something needs, or may. They are recorded like those to
    /// remove: the next `gc` looks again.
    shared: Vec<LeftFile>,
    /// Those that are not its own.
    left: Vec<LeftFile>,
}

fn directories(
    reader: &dyn StorageReader,
    store: &Path,
    study: &StudySummary,
) -> Result<OfStudy, AppError> {
    let store = absolute(store)?;
    let OfStudy { mut own, mut shared, mut left } = OfStudy::default();
    let homes = ownership::homes_by_owner(reader, &study.clone().stored(), &store)?;
    let others = Others::beside(&store);
    for home in &homes.own {
        let directory = home.directory();
        let before = homes.moved.iter().find(|(_, now)| now == home).map(|(before, _)| before);
        let needed = before.map(|before| needed_by(reader, Some(study.id), &before.directory()));
        match needed.transpose()?.flatten() {
            Some(study) => left.push(LeftFile { path: directory, why: Left::NeededBy(study) }),
            None if directory.is_symlink() => {
                left.push(LeftFile { path: directory, why: Left::Kept(Kept::Link) });
            }
            None if directory.exists() => {
                match kept_by(reader, &others, (&directory, &directory), Some(study.id))? {
                    Some(why) => shared.push(LeftFile { path: directory, why }),
                    None => own.push(directory),
                }
            }
            None => {}
        }
    }
    for path in homes.others.iter().map(StudyFiles::directory) {
        left.extend(left_by(reader, &path)?.map(|why| LeftFile { path, why }));
    }
    // A study of closures has no files, and neither has one that never ran.
    let first = homes.own.first().or_else(|| homes.others.first());
    let has_none = own.is_empty() && shared.is_empty() && left.is_empty();
    if let (true, Some(home)) = (has_none, first)
        && study.directory.is_some()
        && study.counts.total() > 0
    {
        left.push(LeftFile { path: home.directory(), why: Left::NotThere });
    }
    own.dedup();
    shared.dedup();
    left.dedup();
    Ok(OfStudy { own, shared, left })
}

/// Removes a study and its files. Files that cannot be removed stay recorded.
///
/// # Errors
/// Another process runs the study, or the store failed.
pub fn remove_study(
    store: &mut AnyStore,
    path: &Path,
    study: &StudySummary,
) -> Result<(), AppError> {
    if study.spec.is_tracked() {
        // Files of runs that were moved elsewhere may still be in its directory.
        move_files(store, path)?;
        settle_dead(store, study.id, &study.spec)?;
    }
    let lease = take_lease_of_any(store, &study.clone().stored())?;
    // No other process can claim another directory for it while the lease is held.
    let removed =
        directories(store, path, study).and_then(|OfStudy { mut own, shared, .. }| {
            own.extend(shared.into_iter().map(|file| file.path));
            Ok(store.remove_study(&lease, runner::now(), &own)?)
        });
    if let Err(error) = removed {
        store.release(&lease)?;
        return Err(error);
    }
    forget(store, study.id);
    if let Some(lock) = store.lock_file(study.id) {
        // The lock of a removed study is never used again: ids are not reused.
        let _empty_file = fs::remove_file(lock);
    }
    Ok(())
}

/// Disk usage of a trial's directory: logs, checkpoints and its program's files.
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

/// Deletes the remaining files of removed studies and runs and of hidden trials, including those of
/// interrupted removals. Returns those of removed studies and runs, and of `trials`, that are left.
///
/// # Errors
/// The store failed.
pub fn remove_files(
    store: &mut AnyStore,
    path: &Path,
    trials: &[(StudySummary, Vec<TrialNumber>)],
) -> Result<Vec<LeftFile>, AppError> {
    let path = absolute(path)?;
    let stores = stores(&*store, &path);
    let found = files_of_removed(&stores)?;
    let mut refused: BTreeMap<PathBuf, String> = BTreeMap::new();
    remove(&stores, &found, |file, removed| {
        if let Err(error) = removed {
            let was = moved_from(&file.path).unwrap_or_else(|| file.path.clone());
            refused.insert(was, error.to_string());
        }
    })?;
    let others = stores.others;
    // Each with the directory of its study.
    let mut left: Vec<(PathBuf, PathBuf)> = Vec::new();
    for directory in settle_removed(store)?.into_iter().flat_map(|study| study.directories) {
        left.push((directory.clone(), directory));
    }
    let mut runs: Vec<(StudySummary, Vec<TrialNumber>)> = trials.to_vec();
    for removed in store.removed_runs()?.into_iter().filter(|removed| removed.moved.is_none()) {
        runs.push((store.summary(removed.study)?, vec![removed.run]));
    }
    for (study, numbers) in runs {
        for home in ownership::own_homes(store, &study.stored(), &path)? {
            let of_trials = numbers.iter().map(|number| home.trial(*number));
            // What is refused may have been moved aside.
            let is_there =
                |path: &PathBuf| path.symlink_metadata().is_ok() || refused.contains_key(path);
            let there = of_trials.filter(is_there);
            left.extend(there.map(|path| (home.directory(), path)));
        }
    }
    left.sort();
    left.dedup();
    let why = |(directory, path): (PathBuf, PathBuf)| {
        if let Some(error) = refused.get(&path) {
            return Ok(LeftFile::not_removed(&path, error.clone()));
        }
        let why = why_still_there(store, &others, (&directory, &path))?;
        Ok(LeftFile { path: moved_to(&path), why })
    };
    left.into_iter().map(why).collect()
}

fn why_still_there(
    reader: &dyn StorageReader,
    others: &Others,
    (directory, path): (&Path, &Path),
) -> Result<Left, AppError> {
    // The path, the study's directory, or that of all studies.
    if path.ancestors().take(3).any(Path::is_symlink) {
        return Ok(Left::Kept(Kept::Link));
    }
    if let Some(why) = kept_by(reader, others, (directory, path), None)? {
        return Ok(why);
    }
    Ok(match removable(path) {
        Err(why) if directory != path => Left::Kept(why),
        _ => Left::Changed,
    })
}
