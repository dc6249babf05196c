//! Ownership of a study's files: a mark in their directory names the store, so that no store
//! touches another's.

use std::collections::HashSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::RunnerError;
use super::disk::{entries, name_of, numbered};
use crate::config::file;
use crate::storage::address::{directory_beside, is_on_server};
use crate::storage::paths::{DATA_CACHE, StudyFiles, component};
use crate::storage::sqlite::{StoreAt, store_at};
use crate::storage::{Storage, StorageError, StorageReader, StoredStudy, StudyId};
use crate::study::program::Program;
use crate::study::query::{Filter, SortKey, TrialQuery};
use crate::study::trial::Trial;

/// The file in a study's directory that names its owner.
pub const MARK: &str = ".hpsearch-store";

/// The log in a study's directory of a run detached from its terminal.
pub const RUN_LOG: &str = "run.log";

/// The file in a study's directory by which agents of other machines find the runner.
pub const AGENTS: &str = "agents.json";

/// The prefix of the file in a study's directory by which agents know that they see the directory.
pub const AGENTS_MARKER: &str = ".agents-";

/// Files in a study's directory besides its trials' directories.
pub const OWN_FILES: [&str; 3] = [MARK, RUN_LOG, AGENTS];

/// Most names tried for a study's directory if others are taken.
const NAMES: usize = 64;

/// The content of the mark.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Mark {
    version: u32,
    /// The store's random id.
    store: String,
    /// The store's path at its last run.
    path: PathBuf,
}

/// The owner of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Owner {
    /// None: it does not exist, or has no mark.
    Nobody,
    /// The store with this id; last seen at this path.
    Store {
        /// Its id.
        id: String,
        /// Its path at its last run.
        path: PathBuf,
    },
    /// Unknown: the mark cannot be read.
    Unreadable,
}

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
    /// Its mark cannot be read.
    Unreadable,
    /// It has files and no mark: they may be anybody's.
    Unmarked,
    /// It is that of the tokenised data of all studies.
    ByData,
}

/// What to do about unreachable checkpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreachable {
    /// Refuse to run: a disk may be unmounted.
    Refuse,
    /// Forget them: the user says that they are gone.
    Forget,
}

/// The owner of a study's directory.
pub fn owner(directory: &Path) -> Owner {
    let text = match file::read_to_string(&directory.join(MARK)) {
        Ok(text) => text,
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Owner::Nobody;
        }
        Err(_) => return Owner::Unreadable,
    };
    serde_json::from_str(&text)
        .map_or(Owner::Unreadable, |mark: Mark| Owner::Store { id: mark.store, path: mark.path })
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
fn is_data_only(files: &StudyFiles) -> bool {
    files.name() == DATA_CACHE && trials_in(&files.directory()).next().is_none()
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

/// Whether the store that marked a directory is, or may be, still at its place, and is not the one
/// at `store`.
pub(super) fn is_marked_by_another(directory: &Path, store: &Path) -> bool {
    matches!(owner(directory), Owner::Store { id, path } if is_another(&path, store, &id))
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
    // Studies of the same store use different directories.
    let marked_by =
        if taken.contains(present.name()) { Owner::Nobody } else { owner(&present.directory()) };
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

/// The names of the directories of the store's other studies, including removed ones whose files
/// still exist.
fn taken_by_others(
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
pub(super) fn unfinished(
    storage: &dyn Storage,
    study: &StoredStudy,
) -> Result<Vec<Trial>, StorageError> {
    let filter =
        Filter::parse("state:running,queued,paused", &study.spec).unwrap_or_else(|_| Filter::all());
    storage.trials(study.id, &TrialQuery::all(SortKey::Number).filtered(filter))
}

/// The numbers of the trials with a directory there.
pub(super) fn trials_in(directory: &Path) -> impl Iterator<Item = u64> {
    entries(directory).filter_map(|entry| numbered(&entry, "trial-"))
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
    Ok(match owner(&usual.directory()) {
        Owner::Store { path, .. } => Taken::ByStore { path },
        Owner::Unreadable => Taken::Unreadable,
        Owner::Nobody => Taken::Unmarked,
    })
}

fn refused(directory: &Path, source: io::Error) -> RunnerError {
    RunnerError::Files { directory: directory.to_owned(), source }
}

/// Claims a directory if it is free; `false` if it belongs to another. `known`: number of the
/// study's trials, whose files may lie there without a mark if this store never marked it
/// (`is_first`), as earlier versions did not.
fn take(directory: &Path, id: &str, store: &Path, known: u64, is_first: bool) -> io::Result<bool> {
    match owner(directory) {
        Owner::Unreadable => Ok(false),
        Owner::Store { id: marked, path } if marked == id => {
            if path != store {
                replace_mark(directory, id, store)?;
            }
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
            match OpenOptions::new().write(true).create_new(true).open(directory.join(MARK)) {
                Ok(file) => write_mark(file, id, store).map(|()| true),
                // Another store was faster.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                    Ok(matches!(owner(directory), Owner::Store { id: marked, .. } if marked == id))
                }
                Err(error) => Err(error),
            }
        }
    }
}

/// Whether the store with that id is no longer at `path`.
pub fn is_gone(path: &Path, id: &str) -> bool {
    // A server that is not asked may have it.
    if is_on_server(path) {
        return false;
    }
    match store_at(path) {
        // A file there that is not a store may be a damaged one.
        StoreAt::Nothing => {
            fs::metadata(path).map_or(true, |file| !file.is_file() || file.len() == 0)
        }
        StoreAt::Store(found) => found != id,
        StoreAt::Unreadable => false,
    }
}

/// Whether it contains nothing but a mark.
fn holds_nothing(directory: &Path) -> bool {
    entries(directory).all(|entry| entry.file_name().is_some_and(|name| name == MARK))
}

/// Whether all trials with files there are among the first `known`.
fn holds_trials_below(directory: &Path, known: u64) -> bool {
    trials_in(directory).all(|number| number < known)
}

fn write_mark(mut file: File, id: &str, store: &Path) -> io::Result<()> {
    let mark = Mark { version: 1, store: id.to_owned(), path: store.to_owned() };
    let text = serde_json::to_string(&mark).map_err(io::Error::other)?;
    file.write_all(format!("{text}\n").as_bytes())?;
    file.sync_all()
}

fn replace_mark(directory: &Path, id: &str, store: &Path) -> io::Result<()> {
    let draft = directory.join(format!("{MARK}.{}.tmp", std::process::id()));
    write_mark(File::create(&draft)?, id, store)?;
    fs::rename(&draft, directory.join(MARK))
}

/// Whether two paths lead to the same file.
fn is_same_file(one: &Path, other: &Path) -> bool {
    let place = |path: &Path| fs::metadata(path).ok().map(|file| (file.dev(), file.ino()));
    one == other || place(one).is_some_and(|there| Some(there) == place(other))
}

/// Whether another file than `store` at `path` is, or may be, a store with the same id.
fn is_another(path: &Path, store: &Path, id: &str) -> bool {
    if is_same_file(path, store) {
        return false;
    }
    match store_at(path) {
        StoreAt::Store(found) => found == id,
        StoreAt::Unreadable => true,
        StoreAt::Nothing => false,
    }
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
    use crate::runner::fixtures;
    use crate::storage::any::AnyStore;
    use crate::study::time::Timestamp;

    /// A store at a path with a study `s`, as its runner claims it.
    fn claimed(path: &Path) -> (AnyStore, StoredStudy) {
        let mut store = AnyStore::open(path).unwrap();
        if store.study("s").unwrap().is_none() {
            let spec = fixtures::spec(fixtures::command());
            store.create_study(Timestamp(0), &spec).unwrap();
        }
        let study = store.study("s").unwrap().unwrap();
        let study = claim(&mut store, study, path, Unreachable::Refuse).unwrap();
        (store, study)
    }

    fn name(study: &StoredStudy) -> &str {
        study.directory.as_deref().unwrap()
    }

    #[test]
    fn two_stores_in_one_directory_have_two_directories_of_files() {
        let directory = tempfile::tempdir().unwrap();
        let (one, other) = (directory.path().join("a.db"), directory.path().join("b.db"));
        let (_, first) = claimed(&one);
        let (store, second) = claimed(&other);
        assert_eq!(name(&first), "s");
        let id = store.identity().unwrap().unwrap();
        assert_eq!(name(&second), format!("s~{}", &id[..8]));
        // Each keeps its own.
        assert_eq!(claimed(&one).1, first);
        assert_eq!(claimed(&other).1, second);
        assert!(is_ours(&store, &second.files(&other), &other).unwrap());
        assert!(!is_ours(&store, &first.files(&one), &other).unwrap());
    }

    #[test]
    fn a_store_that_was_moved_takes_its_files_with_it() {
        let directory = tempfile::tempdir().unwrap();
        let (before, after) = (directory.path().join("before"), directory.path().join("after"));
        let (store, study) = claimed(&before.join("a.db"));
        let id = store.identity().unwrap();
        drop(store);
        fs::rename(&before, &after).unwrap();
        let (store, moved) = claimed(&after.join("a.db"));
        assert_eq!((name(&moved), store.identity().unwrap()), (name(&study), id.clone()));
        let marked = owner(&after.join("files/s"));
        assert_eq!(marked, Owner::Store { id: id.unwrap(), path: after.join("a.db") });
    }

    #[test]
    fn a_copy_of_a_store_gets_a_name_and_a_directory_of_its_own() {
        let directory = tempfile::tempdir().unwrap();
        let (original, copy) = (directory.path().join("a.db"), directory.path().join("copy.db"));
        let (store, study) = claimed(&original);
        let id = store.identity().unwrap();
        drop(store);
        fs::copy(&original, &copy).unwrap();
        // Before its first run it may remove nothing.
        let reader = AnyStore::open(&copy).unwrap();
        assert!(!is_ours(&reader, &study.files(&copy), &copy).unwrap());
        drop(reader);
        let (store, copied) = claimed(&copy);
        assert_ne!(store.identity().unwrap(), id);
        assert!(name(&copied).starts_with("s~"), "{copied:?}");
        assert_eq!(claimed(&original).1, study);
        assert_eq!(claimed(&copy).1, copied);
    }

    #[test]
    fn a_new_store_beside_old_files_leaves_them_alone_and_takes_over_what_is_empty() {
        let directory = tempfile::tempdir().unwrap();
        let old = directory.path().join("files/s/trial-0");
        fs::create_dir_all(&old).unwrap();
        let path = directory.path().join("a.db");
        assert!(name(&claimed(&path).1).starts_with("s~"));
        fs::remove_dir_all(directory.path().join("files")).unwrap();
        fs::remove_file(&path).unwrap();
        assert_eq!(name(&claimed(&path).1), "s");
        fs::remove_file(&path).unwrap();
        let anew = claimed(&path).1;
        assert_eq!(name(&anew), "s", "nothing was ever saved for the store that is gone");
    }

    #[test]
    fn a_mark_that_cannot_be_read_belongs_to_somebody() {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir_all(directory.path().join("files/s")).unwrap();
        fs::write(directory.path().join("files/s").join(MARK), "torn").unwrap();
        assert!(name(&claimed(&directory.path().join("a.db")).1).starts_with("s~"));
    }
}
