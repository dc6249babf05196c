//! Removes tracked runs, and moves them to other studies: a plan, then the rows in one transaction,
//! then the files.
//!
//! After a crash a run either exists completely, or is gone and `gc` finds its files. The store
//! records the pending move of a run's files, which the next verb that moves or removes something,
//! `gc` or `track` completes.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use super::AppError;
use crate::config;
use crate::runner::disk::{entries, size};
use crate::runner::garbage_collection;
use crate::runner::moving::move_path;
use crate::runner::{self, Liveness, ownership};
use crate::storage::address::absolute;
use crate::storage::any::AnyStore;
use crate::storage::paths::StudyFiles;
use crate::storage::tracked::{Move, RemovedRun};
use crate::storage::{Storage as _, StorageError, StorageReader, StudySummary};
use crate::study::event::{Event, RecordEvent, Seq, TrialEvent};
use crate::study::spec::StudySpec;
use crate::study::trial::{Trial, TrialNumber};
use crate::tracking::{Goal, adopt_spools, life_of, open_study, settle_dead};

/// A run to remove or move.
#[derive(Clone, Debug)]
pub struct Planned {
    /// The run as it is stored.
    pub run: Trial,
    /// Disk usage of its files.
    pub bytes: u64,
    /// Its child runs.
    pub parts: Vec<TrialNumber>,
}

/// A run that was moved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moved {
    /// Its former number.
    pub from: TrialNumber,
    /// Its new number.
    pub to: TrialNumber,
    /// Its new name, perhaps with a numeric suffix.
    pub name: Option<String>,
}

/// Plans to remove or move runs of a study.
///
/// # Errors
/// One is being tracked, or a trial needs a checkpoint of it; the store failed.
pub fn plan(
    reader: &dyn StorageReader,
    store: &Path,
    study: &StudySummary,
    runs: &[Trial],
) -> Result<Vec<Planned>, AppError> {
    let name = || study.spec.name.clone();
    for run in runs {
        let tracked = life_of(reader, study.id, run.number)?;
        if tracked.is_some_and(|tracked| tracked.liveness != Liveness::Dead) {
            return Err(StorageError::RunTracked { study: name(), run: run.number }.into());
        }
    }
    let homes = homes(reader, store, study)?;
    let numbers: Vec<TrialNumber> = runs.iter().map(|run| run.number).collect();
    if let Some((run, by, trial)) = needed(reader, study, &numbers, &homes)? {
        return Err(AppError::RunNeeded { study: name(), run, by, trial });
    }
    let state = reader.study_state(study.id)?;
    let parts = |run: &Trial| {
        let is_part = |other: &&Trial| {
            let parent = other.origin.tracked().and_then(|tracked| tracked.parent);
            parent == Some(run.number) && !numbers.contains(&other.number)
        };
        state.trials.iter().filter(is_part).map(|other| other.number).collect()
    };
    let bytes = |run: &Trial| homes.iter().map(|home| size(&home.trial(run.number))).sum();
    let planned = |run: &Trial| Planned { bytes: bytes(run), parts: parts(run), run: run.clone() };
    Ok(runs.iter().map(planned).collect())
}

/// The directories of its trials' files that belong to this store; absolute.
fn homes(
    reader: &dyn StorageReader,
    store: &Path,
    study: &StudySummary,
) -> Result<Vec<StudyFiles>, AppError> {
    Ok(ownership::own_homes(reader, &study.clone().stored(), &absolute(store)?)?)
}

/// A run with a checkpoint that another trial has or continues from, with that trial and its study.
fn needed(
    reader: &dyn StorageReader,
    study: &StudySummary,
    runs: &[TrialNumber],
    homes: &[StudyFiles],
) -> Result<Option<(TrialNumber, String, TrialNumber)>, StorageError> {
    // As written, and with links resolved: a program may have named its checkpoint either way.
    let mut directories: Vec<(TrialNumber, PathBuf)> = Vec::new();
    for run in runs {
        for directory in homes.iter().map(|home| home.trial(*run)) {
            directories.extend(directory.canonicalize().ok().map(|resolved| (*run, resolved)));
            directories.push((*run, directory));
        }
    }
    for (id, name) in reader.names()? {
        let listed = reader.checkpoints(id)?.into_iter().map(|(trial, saved)| (trial, saved.path));
        // An unreadable study cannot have running trials here.
        let runs_some = reader.summary(id).is_ok_and(|other| other.counts.running > 0);
        let attempts = if runs_some { reader.attempts(id, None)? } else { Vec::new() };
        let open = attempts.into_iter().filter(|attempt| attempt.ended.is_none());
        let resumed = open.filter_map(|open| Some((open.trial, open.resume?.1)));
        for (trial, path) in listed.chain(resumed) {
            if id == study.id && runs.contains(&trial) {
                continue;
            }
            let places = [path.canonicalize().ok(), Some(path)];
            let lies_in = |(_, directory): &&(TrialNumber, PathBuf)| {
                places.iter().flatten().any(|place| place.starts_with(directory))
            };
            if let Some((run, _)) = directories.iter().find(lies_in) {
                return Ok(Some((*run, name, trial)));
            }
        }
    }
    Ok(None)
}

/// Removes runs from the store; their files are left to [`super::remove_study::remove_files`].
///
/// # Errors
/// One is being tracked, or the store failed.
pub fn remove_runs(
    store: &mut AnyStore,
    path: &Path,
    study: &StudySummary,
    runs: &[TrialNumber],
) -> Result<(), AppError> {
    settle(store, &absolute(path)?, study, runs)?;
    // Files that wait to be moved would stay behind; where they cannot be moved, `gc` finds them.
    let _found_by_gc = move_files(store, path);
    let now = runner::clock_of(store, study.id)?.now();
    Ok(store.remove_runs(study.id, now, runs)?)
}

/// Ends runs whose processes died. Their spools are written into the store first: a remaining spool
/// would recreate the run.
fn settle(
    store: &mut AnyStore,
    path: &Path,
    study: &StudySummary,
    runs: &[TrialNumber],
) -> Result<(), AppError> {
    let spools = path.with_file_name("spool");
    adopt_spools(&spools, Path::new(""), store, path, &mut |_| ())?;
    settle_dead(store, study.id, &study.spec)?;
    let stem = |path: PathBuf| Some(path.file_stem()?.to_str()?.to_owned());
    let left: HashSet<String> = entries(&spools).filter_map(stem).collect();
    if left.is_empty() {
        return Ok(());
    }
    for (_, _, event) in store.events_after(study.id, Seq(0), u64::MAX)? {
        if let Event::Trial(run, TrialEvent::Record(RecordEvent::SpoolRead { spool, .. })) = event
            && runs.contains(&run)
            && left.contains(&spool)
        {
            // Its program is alive, and will have another writer.
            let study = study.spec.name.clone();
            return Err(StorageError::RunTracked { study, run }.into());
        }
    }
    Ok(())
}

/// Checks that runs of a study can be moved to the one called `to`, if it exists.
///
/// # Errors
/// It is the same study, a search, or has another metric.
pub fn check_target(
    reader: &dyn StorageReader,
    study: &StudySummary,
    to: &str,
) -> Result<(), AppError> {
    if !study.spec.is_tracked() {
        return Err(AppError::SearchNotMoved { study: study.spec.name.clone() });
    }
    if !config::is_study_name(to) {
        return Err(AppError::NoStudyName { name: to.to_owned() });
    }
    let Some(other) = reader.study(to)? else { return Ok(()) };
    if other.id == study.id {
        return Err(AppError::MovedToItself { study: to.to_owned() });
    }
    if !other.spec.is_tracked() {
        return Err(StorageError::Searched { study: to.to_owned() }.into());
    }
    if (goal(&other.spec), other.spec.step) != (goal(&study.spec), study.spec.step) {
        let in_words = |spec: &StudySpec| {
            format!("{} ({})", spec.objective().metric, spec.direction().as_str())
        };
        let (theirs, own) = (in_words(&other.spec), in_words(&study.spec));
        return Err(AppError::OtherGoal { to: to.to_owned(), theirs, own });
    }
    Ok(())
}

/// Whether there is a copy of the store beside it, which would lose the files of moved runs.
///
/// # Errors
/// The store failed.
pub fn has_copy(reader: &dyn StorageReader, store: &Path) -> Result<bool, AppError> {
    Ok(garbage_collection::has_copy(reader, &absolute(store)?)?)
}

/// The metric and direction of a study.
fn goal(spec: &StudySpec) -> Goal {
    let metric = spec.objective().metric.clone();
    Goal { metric: Some(metric), direction: Some(spec.direction()) }
}

/// Moves runs, which are given in ascending order, to the study called `to`, which is created if it
/// does not exist.
///
/// # Errors
/// [`check_target`] rejects it; a run is being tracked; a directory cannot be moved; the store
/// failed.
pub fn move_runs(
    store: &mut AnyStore,
    path: &Path,
    study: &StudySummary,
    runs: &[TrialNumber],
    to: &str,
) -> Result<Vec<Moved>, AppError> {
    let path = absolute(path)?;
    check_target(store, study, to)?;
    move_files(store, &path)?;
    settle(store, &path, study, runs)?;
    refuse_foreign(store, &path, study, runs)?;
    let target = open_study(store, &path, to, &goal(&study.spec), runner::now())?;
    // The store may be a copy, or an old backup, and not own its files.
    refuse_foreign(store, &path, study, runs)?;
    let (homes, files) = (homes(store, &path, study)?, target.files(&path));
    let now = runner::clock_of(store, study.id)?.now();
    let moving = Move { from: study.id, runs, homes: &homes, to: target.id, files: &files };
    let numbers = store.move_runs(now, &moving)?;
    move_files(store, &path)?;
    let mut moved = Vec::new();
    for (from, to) in runs.iter().zip(numbers) {
        let run = store.trial(target.id, to)?;
        let name = run.and_then(|run| run.origin.tracked()?.name.clone());
        moved.push(Moved { from: *from, to, name });
    }
    Ok(moved)
}

/// An error if a run has files that this store does not own: they would be left behind.
fn refuse_foreign(
    reader: &dyn StorageReader,
    store: &Path,
    study: &StudySummary,
    runs: &[TrialNumber],
) -> Result<(), AppError> {
    let own = homes(reader, store, study)?;
    for home in ownership::homes(reader, &study.clone().stored(), store)? {
        let of_run =
            |run: &TrialNumber| Some((*run, home.trial(*run))).filter(|(_, at)| at.exists());
        if let (false, Some((run, directory))) = (own.contains(&home), runs.iter().find_map(of_run))
        {
            return Err(AppError::ForeignFiles { run, directory });
        }
    }
    Ok(())
}

/// Moves the files of moved runs, including those of interrupted moves.
///
/// # Errors
/// A directory cannot be moved, or the store failed.
pub fn move_files(store: &mut AnyStore, path: &Path) -> Result<(), AppError> {
    let path = absolute(path)?;
    for RemovedRun { study, run, moved } in store.removed_runs()? {
        let Some((to, number)) = moved else { continue };
        let target = match store.trial(to, number) {
            Ok(found) => found.map(|_| store.summary(to)).transpose()?,
            // It was removed in the meantime: its files are orphaned.
            Err(StorageError::NoStudy { .. }) => None,
            Err(error) => return Err(error.into()),
        };
        if let Some(target) = target {
            let to = target.files(&path).trial(number);
            for home in homes(store, &path, &store.summary(study)?)? {
                let from = home.trial(run);
                move_path(&from, &to).map_err(|source| AppError::NotMoved {
                    from: from.clone(),
                    to: to.clone(),
                    source,
                })?;
            }
        }
        store.files_moved(study, run)?;
    }
    Ok(())
}
