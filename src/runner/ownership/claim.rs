//! Claims a directory for a study's files before it runs.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use super::homes::{is_data_only, taken_by_others, trials_in};
use super::mark::{
    MARK, Owner, clear_drafts_of_mark, copy_of_directory, is_another, is_gone, names_directory,
    owner, place_mark, replace_mark,
};
use crate::runner::RunnerError;
use crate::runner::disk::{entries, name_of};
use crate::runner::drafts::half_written_by;
use crate::storage::paths::{DATA_CACHE, StudyFiles, component};
use crate::storage::{Storage, StorageError, StoredStudy};
use crate::study::program::Program;
use crate::study::query::{Filter, SortKey, TrialQuery};
use crate::study::trial::Trial;

/// Most names tried for a study's directory if others are taken.
const NAMES: usize = 64;

/// What to do about unreachable checkpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreachable {
    /// Refuse to run: a disk may be unmounted.
    Refuse,
    /// Forget them: the user says that they are gone.
    Forget,
}

/// Claims a directory for the files of a study before it runs, and records it in the store. Keeps
/// the present one if it is still its own, also after it was moved together with its store. If it
/// belongs to another store (two stores in one directory, a copy of a store, files of an earlier
/// store), it is left alone, and another one is taken beside it.
///
/// # Errors
/// Those of the store; unreachable checkpoints, unless they may be forgotten; a directory that
/// cannot be created.
pub fn claim(
    storage: &mut dyn Storage,
    study: StoredStudy,
    store: &Path,
    unreachable: Unreachable,
) -> Result<StoredStudy, RunnerError> {
    // Trials of closures have no files.
    let identity =
        if matches!(study.spec.program, Program::Inline) { None } else { storage.identity()? };
    let Some(id) = identity else { return Ok(study) };
    if unreachable == Unreachable::Refuse {
        refuse_unreachable(storage, &study, store, &id)?;
    }
    let taken = taken_by_others(storage, study.id)?;
    let present = study.files(store);
    // Studies of the same store use different directories, and a backup that somebody made of
    // another one says nothing of this store.
    let is_other =
        taken.contains(present.name()) || copy_of_directory(&present.directory()).is_some();
    let marked_by = if is_other { Owner::Nobody } else { owner(&present.directory()) };
    let id = match marked_by {
        // A copy of a store, or an older backup that was restored: the files may belong to the
        // other.
        Owner::Store { id: marked, path }
            if marked == id
                && (is_another(&path, store, &id) || is_older(storage, &study, store)?) =>
        {
            storage.renew_identity()?.unwrap_or(id)
        }
        _ => id,
    };
    let known = storage.next_number(study.id)?.0;
    let short = id.get(..8).unwrap_or(&id);
    let own = component(&study.spec.name);
    let others = (1..NAMES).map(|count| format!("{own}~{short}-{count}"));
    let first = [own.clone(), format!("{own}~{short}")];
    let names = study.directory.clone().into_iter().chain(first).chain(others);
    for name in names.filter(|name| !taken.contains(name)) {
        let files = StudyFiles::of(&study.spec, Some(&name), store);
        // Earlier versions gave that of tokenised data to a study of its name.
        let is_kept = study.directory.as_ref() == Some(&name) || known > 0 && !is_data_only(&files);
        if name == DATA_CACHE && !is_kept {
            continue;
        }
        let directory = files.directory();
        if take(&directory, &id, store, known, study.directory.is_none())
            .map_err(|source| refused(&directory, source))?
        {
            if study.directory.as_ref() != Some(&name) {
                storage.take_directory(study.id, &name)?;
            }
            return Ok(StoredStudy { directory: Some(name), ..study });
        }
    }
    let directory = study.files(store).directory();
    Err(refused(&directory, io::Error::other("every name beside it is taken by other stores")))
}

/// Claims a directory if it is free; `false` if it belongs to another. `known`: number of the
/// study's trials, whose files may lie there without a mark if this store never marked it
/// (`is_first`), as earlier versions did not.
fn take(directory: &Path, id: &str, store: &Path, known: u64, is_first: bool) -> io::Result<bool> {
    match owner(directory) {
        Owner::Unreadable => Ok(false),
        // Another user's, or one that is there and cannot be read now.
        Owner::Refused(error) => match io::Error::from_raw_os_error(error) {
            error if error.kind() == ErrorKind::PermissionDenied => Ok(false),
            error => Err(error),
        },
        // A backup of another directory.
        Owner::Store { .. } if copy_of_directory(directory).is_some() => Ok(false),
        Owner::Store { id: marked, path } if marked == id => {
            if path != store || !names_directory(directory) {
                replace_mark(directory, id, store)?;
            }
            clear_drafts_of_mark(directory);
            Ok(true)
        }
        Owner::Store { id: other, path } => {
            let is_left = is_gone(&path, &other) && holds_nothing(directory);
            if is_left && owner(directory) == (Owner::Store { id: other, path }) {
                replace_mark(directory, id, store)?;
            }
            Ok(is_left)
        }
        Owner::Nobody => {
            let is_free = holds_nothing(directory)
                || is_first && known > 0 && holds_trials_below(directory, known);
            if !is_free {
                return Ok(false);
            }
            fs::create_dir_all(directory)?;
            clear_drafts_of_mark(directory);
            match place_mark(directory, id, store) {
                Ok(()) => Ok(true),
                // Another store was faster, or another process of this one.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                    Ok(matches!(owner(directory), Owner::Store { id: marked, .. } if marked == id))
                }
                Err(error) => Err(error),
            }
        }
    }
}

/// Whether a study's own directory has files of trials or attempts that the store does not know:
/// the store is older than they are.
fn is_older(
    storage: &dyn Storage,
    study: &StoredStudy,
    store: &Path,
) -> Result<bool, StorageError> {
    let files = study.files(store);
    // Files before the store: a runner records what it starts before it creates a directory.
    let highest = trials_in(&files.directory()).max();
    if highest
        .is_some_and(|highest| storage.next_number(study.id).map_or(true, |next| highest >= next.0))
    {
        return Ok(true);
    }
    Ok(unfinished(storage, study)?.iter().any(|trial| {
        let attempt = |entry: PathBuf| {
            name_of(&entry)?.strip_prefix("attempt-")?.strip_suffix(".log")?.parse::<u32>().ok()
        };
        let newest = entries(&files.trial(trial.number)).filter_map(attempt).max();
        newest.is_some_and(|newest| newest >= trial.attempts)
    }))
}

/// The unfinished trials of a study.
pub(in crate::runner) fn unfinished(
    storage: &dyn Storage,
    study: &StoredStudy,
) -> Result<Vec<Trial>, StorageError> {
    let filter =
        Filter::parse("state:running,queued,paused", &study.spec).unwrap_or_else(|_| Filter::all());
    storage.trials(study.id, &TrialQuery::all(SortKey::Number).filtered(filter))
}

/// Whether it contains nothing but a mark, or a draft of one that another process writes.
fn holds_nothing(directory: &Path) -> bool {
    let is_draft = |name: &str| {
        let of = name.strip_prefix('.').filter(|_| half_written_by(name).is_some());
        of.is_some_and(|of| of.starts_with(MARK))
    };
    entries(directory)
        .all(|entry| name_of(&entry).is_some_and(|name| name == MARK || is_draft(name)))
}

/// Whether all trials with files there are among the first `known`.
fn holds_trials_below(directory: &Path, known: u64) -> bool {
    trials_in(directory).all(|number| number < known)
}

fn refused(directory: &Path, source: io::Error) -> RunnerError {
    RunnerError::Files { directory: directory.to_owned(), source }
}

/// An error if all checkpoints and the directories that held them are missing. Those in the study's
/// own directory and those elsewhere are checked separately: they may be on different disks.
fn refuse_unreachable(
    storage: &dyn Storage,
    study: &StoredStudy,
    store: &Path,
    id: &str,
) -> Result<(), RunnerError> {
    let own = study.files(store).directory();
    let is_marked = matches!(owner(&own), Owner::Store { id: marked, .. } if marked == id);
    let (inside, outside): (Vec<PathBuf>, Vec<PathBuf>) = storage
        .checkpoints(study.id)?
        .into_iter()
        .map(|(_, checkpoint)| checkpoint.path)
        .partition(|path| path.starts_with(&own));
    let ours = if is_marked { Vec::new() } else { inside };
    let lost = [unreachable_of(&ours), unreachable_of(&outside)].concat();
    let Some(path) = lost.first().cloned() else { return Ok(()) };
    let (study, count) = (study.spec.name.clone(), lost.len());
    Err(RunnerError::Unreachable { study, count, path })
}

/// Those whose directory is missing, if all are missing: if one exists, the disk is mounted, and
/// the others were removed.
fn unreachable_of(paths: &[PathBuf]) -> Vec<PathBuf> {
    if !paths.iter().all(|path| matches!(path.try_exists(), Ok(false))) {
        return Vec::new();
    }
    let is_lost = |path: &&PathBuf| path.parent().is_none_or(|parent| !parent.exists());
    paths.iter().filter(is_lost).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_who_claim_a_directory_for_a_store_at_the_same_time_get_it() {
        let directory = tempfile::tempdir().unwrap();
        let [own, link] = ["a.db", "link.db"].map(|name| directory.path().join(name));
        for round in 0..50 {
            let files = directory.path().join(format!("files-{round}"));
            std::thread::scope(|scope| {
                for store in [&own, &link, &own, &link] {
                    // At first there is no mark, later one with another name of the store.
                    let claim = || (0..4).all(|_| take(&files, "id", store, 0, true).unwrap());
                    scope.spawn(move || assert!(claim()));
                }
            });
            assert_eq!(entries(&files).count(), 1);
        }
    }

    #[test]
    fn marks_that_a_killed_process_was_writing_are_removed_and_those_of_living_ones_stay() {
        let directory = tempfile::tempdir().unwrap();
        let (files, store) = (directory.path().join("files"), directory.path().join("a.db"));
        let mut child = std::process::Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        let draft = |pid: u32| files.join(format!(".{MARK}.{pid}-0.tmp"));
        let (dead, living) = (draft(child.id()), draft(1));
        fs::create_dir(&files).unwrap();
        for has_mark in [false, true] {
            fs::write(&dead, "{").unwrap();
            fs::write(&living, "{").unwrap();
            assert_eq!(files.join(MARK).exists(), has_mark);
            assert!(take(&files, "id", &store, 0, true).unwrap());
            assert_eq!((dead.exists(), living.exists()), (false, true));
        }
    }
}
