//! Garbage collection: orphaned files below the runs directory, half-written by a crash or unknown
//! to the store.

mod store_contents;

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde::Serialize;

use self::store_contents::StoreContents;
use super::disk::{self, entries, is_directory, name_of, numbered};
use super::drafts::{half_written_by, is_of_dead_process, moved_from, take_away};
use super::own_files::{
    Kept, StudyDirectory, is_digest, is_draft, is_prepared_data, removable, removable_trial,
};
use super::ownership::{
    Owner, copy_of_directory, homes, is_gone, may_remove, own_homes, owner, trials_in, words_of,
};
use crate::runner::protocol::CHECKPOINTS;
use crate::storage::address::directory_beside;
use crate::storage::paths::{COPIES, DATA_CACHE};
use crate::storage::sqlite::{is_open_here, studies_at};
use crate::storage::{HeldLease, RemovedStudy, Storage, StorageError, StorageReader};
use crate::study::trial::TrialNumber;

/// While a study runs, files touched within this time are kept: they may be incomplete.
const YOUNG: Duration = Duration::from_secs(60);

/// The directory of tokenised data in a directory of files.
const DATA: &str = DATA_CACHE;

/// The reason why a file is orphaned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Being written when its process died.
    HalfWritten,
    /// An unlisted checkpoint of a finished trial.
    Checkpoint,
    /// The files of a trial that the store does not know.
    Trial,
    /// The files of a hidden trial.
    HiddenTrial,
    /// The files of a tracked run that was removed.
    RemovedRun,
    /// The files of a study that the store does not have, in a directory with its mark.
    Study,
    /// The files of a study that was removed from the store.
    RemovedStudy,
    /// Tokenised data that no existing study has used.
    Data,
}

/// A file or directory that can be removed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OrphanedFile {
    /// Path of the file or directory.
    pub path: PathBuf,
    /// Why it is orphaned.
    pub kind: Kind,
    /// Its size on disk.
    pub bytes: u64,
    /// The study it belongs or belonged to; empty if none.
    pub study: String,
    #[serde(skip)]
    modified: Option<SystemTime>,
    #[serde(skip)]
    place: PlaceOf,
    /// The directory of files that it is in.
    #[serde(skip)]
    root: PathBuf,
}

/// Removes drafts of dead processes from a directory of tokenised data, and from the data's own
/// directories (cached features of frozen layers). A file that any living process writes stays.
pub fn clear_drafts(data: &Path) {
    let beside = entries(data)
        .filter(|path| is_directory(path))
        .flat_map(|path| entries(&path).collect::<Vec<_>>());
    for draft in entries(data).chain(beside).filter(|path| is_of_dead_process(path)) {
        // `gc` finds what cannot be removed now.
        let _found_later = disk::remove(&draft);
    }
}

/// Removes drafts below a trial's directory; their writers are dead.
pub(super) fn clear_trial_drafts(directory: &Path) {
    for draft in entries(directory).filter(|path| name_of(path).and_then(half_written_by).is_some())
    {
        let _found_later = disk::remove(&draft);
    }
}

/// The other stores in a store's directory: their studies may have files in the same place.
#[derive(Debug, Default)]
pub struct Others {
    /// The names of their studies' directories.
    pub directories: BTreeSet<String>,
    /// Their random ids.
    pub ids: BTreeSet<String>,
    /// A file that may be a store and cannot be read: any directory may belong to it.
    pub unreadable: Option<PathBuf>,
}

impl Others {
    /// Examines every other file in the directory of the open store, whatever its name.
    pub fn beside(store: &Path) -> Others {
        let beside = directory_beside(store);
        let directory = if beside.as_os_str().is_empty() { Path::new(".") } else { &beside };
        let mut others = Others::default();
        for path in entries(directory).filter(|path| path != store && !is_open_here(path)) {
            match studies_at(&path) {
                Ok(None) => {}
                Ok(Some((id, directories))) => {
                    others.ids.insert(id);
                    others.directories.extend(directories);
                }
                Err(_) => others.unreadable = Some(path),
            }
        }
        others
    }
}

/// Whether there is a copy of a store beside it: it may know of files that this one does not.
///
/// # Errors
/// Those of the store.
pub fn has_copy(reader: &dyn StorageReader, store: &Path) -> Result<bool, StorageError> {
    let Some(own) = reader.identity()? else { return Ok(false) };
    Ok(Others::beside(store).ids.contains(&own))
}

/// A store and the others beside it.
pub struct Stores<'a> {
    /// The store whose files are examined.
    pub path: &'a Path,
    /// Its reader.
    pub reader: &'a dyn StorageReader,
    /// Other stores in the same directory.
    pub others: Others,
    /// Whether the holder of a study is alive, as far as can be determined.
    pub is_alive: fn(&HeldLease) -> bool,
}

/// All orphaned files, by path, and what stays of them or among them.
///
/// # Errors
/// Those of the store.
pub fn orphaned_files(
    stores: &Stores<'_>,
) -> Result<(Vec<OrphanedFile>, Vec<ForeignDirectory>), StorageError> {
    find(stores, |_| true)
}

/// The files of removed studies and hidden trials only, which is fast: the directories of other
/// trials are not read.
///
/// # Errors
/// Those of the store.
pub fn files_of_removed(stores: &Stores<'_>) -> Result<Vec<OrphanedFile>, StorageError> {
    let is_meant = |place: &PlaceOf| matches!(place, PlaceOf::Study { .. } | PlaceOf::Trial { .. });
    let (mut found, _) = find(stores, is_meant)?;
    let is_removed =
        |kind| matches!(kind, Kind::RemovedStudy | Kind::RemovedRun | Kind::HiddenTrial);
    found.retain(|file| is_removed(file.kind));
    Ok(found)
}

fn find(
    stores: &Stores<'_>,
    is_meant: impl Fn(&PlaceOf) -> bool,
) -> Result<(Vec<OrphanedFile>, Vec<ForeignDirectory>), StorageError> {
    let mut roots = roots(stores)?;
    let removed = directories_of_removed(stores.reader)?;
    roots.extend(removed.keys().filter_map(|path| path.parent().map(Path::to_owned)));
    // Files before the store: new files are recorded in the store before they are on disk.
    let seen: Vec<Seen> = roots.iter().flat_map(|root| look(root, &removed)).collect();
    let contents = StoreContents::read(stores)?;
    let mut judged = Vec::new();
    for one in seen.into_iter().filter(|seen| is_meant(&seen.place)) {
        judged.extend(contents.judge(stores, one)?);
    }
    judged.sort_by(|one, other| one.path.cmp(&other.path));
    let (mut orphaned_files, mut left) = (Vec::<OrphanedFile>::new(), Vec::new());
    for file in judged {
        // What lies in a directory that is listed as a whole goes with it.
        if orphaned_files.last().is_none_or(|last| !file.path.starts_with(&last.path)) {
            orphaned_files.extend(own_part(file, &mut left).map(|(file, _)| file));
        }
    }
    Ok((orphaned_files, left))
}

/// The directories in which studies of a store have or had their directories.
fn roots(stores: &Stores<'_>) -> Result<BTreeSet<PathBuf>, StorageError> {
    let mut roots = BTreeSet::from([default_root(stores.path)]);
    for study in stores.reader.studies()? {
        let study = study.stored();
        let homes = homes(stores.reader, &study, stores.path)?.into_iter();
        let own = own_homes(stores.reader, &study, stores.path)?;
        roots.extend(homes.chain(own).map(|home| home.root().to_owned()));
    }
    Ok(roots)
}

/// An orphaned file with its size, and the directory of a study. What stays of it is added to
/// `left`; `None` if all of it stays.
fn own_part(
    file: OrphanedFile,
    left: &mut Vec<ForeignDirectory>,
) -> Option<(OrphanedFile, Option<StudyDirectory>)> {
    let mut leave = |directory: PathBuf, why| {
        left.push(ForeignDirectory { directory, why: Foreign::Kept(why) });
    };
    let bytes = match file.kind {
        Kind::Study | Kind::RemovedStudy => {
            let directory = StudyDirectory::read(&file.path);
            directory.kept.iter().for_each(|(path, why)| leave(path.clone(), why.clone()));
            let has_own = directory.kept.is_empty() || !directory.own.is_empty();
            let bytes = directory.bytes;
            return has_own.then_some((OrphanedFile { bytes, ..file }, Some(directory)));
        }
        Kind::Trial => removable_trial(&file.path),
        _ => removable(&file.path),
    };
    match bytes {
        Ok(bytes) => Some((OrphanedFile { bytes, ..file }, None)),
        Err(why) => {
            leave(file.path, why);
            None
        }
    }
}

/// A directory with files of trials that no study of this store has, and that is left alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForeignDirectory {
    /// The directory.
    pub directory: PathBuf,
    /// Whose it is, or what makes that unknown.
    pub why: Foreign,
}

/// Why a directory is left alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Foreign {
    /// It has the mark of a store that is not at this path any more: moved, renamed or deleted.
    StoreGone(PathBuf),
    /// It has the mark of the store at this path.
    OtherStore(PathBuf),
    /// It has no mark.
    Unmarked,
    /// It is a copy of this store's directory of that name, or was renamed.
    CopyOf(String),
    /// Its mark cannot be read.
    Unreadable,
    /// The system refuses to read its mark, for this reason.
    Refused(String),
    /// It is among files of this store, and is or has something of others.
    Kept(Kept),
}

/// Directories with files of trials, beside those of the store's studies, that are not this
/// store's by their marks. Only the user may remove them: a moved store may return, and what has no
/// mark may be anybody's.
///
/// # Errors
/// Those of the store.
pub fn foreign(stores: &Stores<'_>) -> Result<Vec<ForeignDirectory>, StorageError> {
    let own = stores.reader.identity()?;
    let roots = roots(stores)?;
    let why = |directory: &Path| match owner(directory) {
        Owner::Store { id, .. }
            if Some(&id) == own.as_ref() && copy_of_directory(directory).is_some() =>
        {
            copy_of_directory(directory).map(Foreign::CopyOf)
        }
        Owner::Store { id, path } if Some(&id) == own.as_ref() => {
            let has_come_along = may_remove(directory, &id, stores.path);
            (!has_come_along && is_gone(&path, &id)).then_some(Foreign::StoreGone(path))
        }
        Owner::Store { id, path } if !stores.others.ids.contains(&id) && is_gone(&path, &id) => {
            Some(Foreign::StoreGone(path))
        }
        Owner::Store { path, .. } => Some(Foreign::OtherStore(path)),
        Owner::Nobody if !trials_in(directory).any(|_| true) || moved_from(directory).is_some() => {
            None
        }
        Owner::Nobody => Some(Foreign::Unmarked),
        Owner::Unreadable => Some(Foreign::Unreadable),
        Owner::Refused(error) => Some(Foreign::Refused(words_of(error))),
    };
    let of = |directory: PathBuf| Some(ForeignDirectory { why: why(&directory)?, directory });
    let directories = roots.iter().flat_map(|root| entries(root)).filter(|path| is_directory(path));
    let mut found: Vec<ForeignDirectory> = directories.filter_map(of).collect();
    found.sort_by(|one, other| one.directory.cmp(&other.directory));
    Ok(found)
}

/// Removes some of them, each after another check: what has changed stays. `tell` gets the others,
/// each with the system's refusal, if there was one.
///
/// # Errors
/// Those of the store; what cannot be removed is not in the result.
pub fn remove(
    stores: &Stores<'_>,
    found: &[OrphanedFile],
    mut tell: impl FnMut(&OrphanedFile, io::Result<()>),
) -> Result<(), StorageError> {
    let mut contents = StoreContents::read(stores)?;
    let mut looked = SystemTime::now();
    for orphaned_file in found {
        if looked.elapsed().unwrap_or_default() > Duration::from_millis(200) {
            (contents, looked) = (StoreContents::read(stores)?, SystemTime::now());
        }
        let Some(again) = look_again(orphaned_file, &contents.removed) else { continue };
        let is_unchanged = |now: &OrphanedFile| {
            now.kind == orphaned_file.kind && now.modified == orphaned_file.modified
        };
        let now = contents.judge(stores, again)?.filter(is_unchanged);
        let Some((now, directory)) = now.and_then(|now| own_part(now, &mut Vec::new())) else {
            continue;
        };
        let removed = match directory {
            Some(directory) => directory.remove(&now.path),
            None => take_away(&now.path),
        };
        tell(orphaned_file, removed);
    }
    Ok(())
}

/// Directories of removed studies, by path, with the studies' names.
type Removed = HashMap<PathBuf, String>;

fn directories_of_removed(reader: &dyn StorageReader) -> Result<Removed, StorageError> {
    let of = |study: RemovedStudy| {
        let RemovedStudy { name, directories, .. } = study;
        directories.into_iter().map(move |directory| (directory, name.clone()))
    };
    Ok(reader.removed_studies()?.into_iter().flat_map(of).collect())
}

/// Forgets the directories of removed studies that are gone, or whose marks are, which go last;
/// returns the others.
///
/// # Errors
/// Those of the store.
pub fn settle_removed(storage: &mut dyn Storage) -> Result<Vec<RemovedStudy>, StorageError> {
    let mut left = Vec::new();
    for mut study in storage.removed_studies()? {
        study.directories.retain(|directory| {
            let beside = directory.parent().into_iter().flat_map(entries);
            owner(directory) != Owner::Nobody
                || beside.filter_map(|path| moved_from(&path)).any(|from| from == *directory)
        });
        if study.directories.is_empty() {
            storage.files_removed(study.id)?;
        } else {
            left.push(study);
        }
    }
    Ok(left)
}

fn default_root(store: &Path) -> PathBuf {
    directory_beside(store).join("files")
}

/// A candidate below a directory of files.
struct Seen {
    path: PathBuf,
    place: PlaceOf,
    root: PathBuf,
}

/// Its location: all names are single components.
#[derive(Clone, Debug, PartialEq, Eq)]
enum PlaceOf {
    /// In the directory `of`; in a trial's, if `is_in_trial`.
    HalfWritten {
        pid: u32,
        of: String,
        is_in_trial: bool,
    },
    Study {
        study: String,
    },
    Trial {
        study: String,
        trial: TrialNumber,
    },
    InTrial {
        study: String,
        trial: TrialNumber,
    },
    Data,
}

/// A candidate as it is now; `None` if it is gone. Nothing but it is read.
fn look_again(file: &OrphanedFile, removed: &Removed) -> Option<Seen> {
    let OrphanedFile { path, place, root, .. } = file;
    let metadata = path.symlink_metadata().ok()?;
    let is_candidate = match place {
        PlaceOf::HalfWritten { .. } | PlaceOf::InTrial { .. } => true,
        PlaceOf::Trial { .. } | PlaceOf::Data => !metadata.is_symlink(),
        PlaceOf::Study { .. } => metadata.is_dir() && is_of_a_study(path, removed),
    };
    let (path, place, root) = (path.clone(), place.clone(), root.clone());
    is_candidate.then_some(Seen { path, place, root })
}

/// Whether a directory is, or was, that of a study.
fn is_of_a_study(directory: &Path, removed: &Removed) -> bool {
    let is_of_a_trial = |entry: PathBuf| {
        let is_draft = name_of(&entry).is_some_and(is_draft);
        is_draft || numbered(&entry, "trial-").is_some() && !entry.is_symlink()
    };
    removed.contains_key(directory)
        || moved_from(directory).is_some()
        || entries(directory).any(is_of_a_trial)
}

fn look(root: &Path, removed: &Removed) -> Vec<Seen> {
    let mut seen = Vec::new();
    let mut see = |path: PathBuf, place: PlaceOf| {
        seen.push(Seen { path, place, root: root.to_owned() });
    };
    for directory in entries(root).filter(|path| is_directory(path)) {
        let Some(study) = name_of(&directory).map(str::to_owned) else { continue };
        let mut has_trials = false;
        for entry in entries(&directory) {
            let Some(name) = name_of(&entry) else { continue };
            if let Some(pid) = half_written_by(name) {
                has_trials |= is_draft(name);
                let place = PlaceOf::HalfWritten { pid, of: study.clone(), is_in_trial: false };
                if is_draft(name) || study == DATA && is_prepared_data(name) {
                    see(entry, place);
                }
            } else if entry.is_symlink() {
                // What is behind it is elsewhere.
            } else if let Some(trial) = numbered(&entry, "trial-").map(TrialNumber) {
                has_trials = true;
                look_into_trial(&entry, &study, trial, &mut see);
                see(entry, PlaceOf::Trial { study: study.clone(), trial });
            } else if study == DATA && is_digest(name) {
                see(entry, PlaceOf::Data);
            }
        }
        let is_removed = removed.contains_key(&directory) || moved_from(&directory).is_some();
        if has_trials || is_removed {
            see(directory, PlaceOf::Study { study });
        }
    }
    seen
}

fn look_into_trial(
    directory: &Path,
    study: &str,
    trial: TrialNumber,
    see: &mut impl FnMut(PathBuf, PlaceOf),
) {
    let of_a_command = [CHECKPOINTS, COPIES].map(|name| directory.join(name));
    let inside = of_a_command.iter().flat_map(|path| entries(path)).chain(entries(directory));
    for entry in inside.filter(|path| !of_a_command.contains(path)) {
        let Some(name) = name_of(&entry) else { continue };
        let place = match half_written_by(name) {
            Some(pid) => PlaceOf::HalfWritten { pid, of: study.to_owned(), is_in_trial: true },
            None => PlaceOf::InTrial { study: study.to_owned(), trial },
        };
        see(entry, place);
    }
}

/// Whether it is in hpsearch's directory of copies of a command's checkpoints.
fn is_among_copies(path: &Path) -> bool {
    path.parent().is_some_and(|directory| directory.file_name().is_some_and(|name| name == COPIES))
}
