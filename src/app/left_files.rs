//! Left files: what is not removed with a study or a trial, and why.

use std::path::{Path, PathBuf};

use super::AppError;
use crate::runner::disk::size;
use crate::runner::drafts::moved_to;
use crate::runner::garbage_collection::{Others, has_copy};
use crate::runner::own_files::{Kept, removable};
use crate::runner::ownership::{self, Copies, Owner};
use crate::storage::address::absolute;
use crate::storage::{StorageReader, StudyId, StudySummary};
use crate::study::trial::TrialNumber;

/// A file or directory of a study that is not removed with it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LeftFile {
    /// The file or directory.
    pub path: PathBuf,
    /// Why it stays.
    pub why: Left,
}

impl LeftFile {
    /// What is left of something that the system refuses to remove: it may have been moved aside.
    pub(super) fn not_removed(path: &Path, error: String) -> Self {
        let path = moved_to(path);
        LeftFile { why: Left::NotRemoved(error, size(&path)), path }
    }
}

/// Why files of a study are not removed with it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Left {
    /// They are not there, nor where a move of the project would have taken them.
    NotThere,
    /// The directory has no mark of a store.
    Unmarked,
    /// Its mark cannot be read.
    Unreadable,
    /// The system refuses to read its mark, for this reason.
    Refused(String),
    /// It has the mark of the store at this path, of which this one may be a copy.
    OtherStore(PathBuf),
    /// It has the mark of this store when it was at this path, and has not moved with it: this one
    /// may be a copy.
    NotMoved(PathBuf),
    /// This study lists a checkpoint in it.
    NeededBy(String),
    /// A copy of the store lies beside it, and may list what is there.
    Copied,
    /// A copy of the study in the store at this path needs it, or may.
    NeededByCopy(PathBuf),
    /// This file beside the store may be another one, and may list what is there.
    MayBeStore(PathBuf),
    /// It is in a directory of this store, and is or has something of others.
    Kept(Kept),
    /// The system refuses its removal, for this reason; the disk usage of what is left.
    NotRemoved(String, u64),
    /// It had changed when it was to be removed.
    Changed,
}

/// Why a directory that is not this store's is left; `None` if it is not there.
pub(super) fn left_by(
    reader: &dyn StorageReader,
    directory: &Path,
) -> Result<Option<Left>, AppError> {
    Ok(match ownership::owner(directory) {
        Owner::Store { id, path }
            if reader.identity()?.as_ref() == Some(&id) && ownership::is_gone(&path, &id) =>
        {
            Some(Left::NotMoved(path))
        }
        Owner::Store { path, .. } => Some(Left::OtherStore(path)),
        Owner::Unreadable => Some(Left::Unreadable),
        Owner::Refused(error) => Some(Left::Refused(ownership::words_of(error))),
        Owner::Nobody => directory.exists().then_some(Left::Unmarked),
    })
}

/// What keeps the files of a removed study or trial that are this store's; `None` if nothing does.
pub(super) fn kept_by(
    reader: &dyn StorageReader,
    others: &Others,
    (directory, path): (&Path, &Path),
    own: Option<StudyId>,
) -> Result<Option<Left>, AppError> {
    if reader.identity()?.is_some_and(|id| others.ids.contains(&id)) {
        return Ok(Some(Left::Copied));
    }
    // What hides a trial is in this store alone.
    if let (Some(file), true) = (&others.unreadable, directory == path) {
        return Ok(Some(Left::MayBeStore(file.clone())));
    }
    if let Some(store) = Copies::of(directory).need(path) {
        return Ok(Some(Left::NeededByCopy(store.to_owned())));
    }
    Ok(needed_by(reader, own, path)?.map(Left::NeededBy))
}

/// A study other than `own` with a checkpoint at or below a path that the store has.
pub(super) fn needed_by(
    reader: &dyn StorageReader,
    own: Option<StudyId>,
    path: &Path,
) -> Result<Option<String>, AppError> {
    for (study, name) in reader.names()?.into_iter().filter(|(study, _)| Some(*study) != own) {
        let checkpoints = reader.checkpoints(study)?;
        if checkpoints.iter().any(|(_, checkpoint)| checkpoint.path.starts_with(path)) {
            return Ok(Some(name));
        }
    }
    Ok(None)
}

/// Disk usage of what stays of a trial in directories of this store.
pub fn bytes_left(left: &[LeftFile], trial: TrialNumber) -> u64 {
    let name = format!("trial-{trial}");
    let is_own =
        |file: &&LeftFile| matches!(file.why, Left::Copied | Left::NeededByCopy(_) | Left::Kept(_));
    let of_trial = left.iter().filter(is_own).filter(|file| file.path.ends_with(&name));
    of_trial.map(|file| size(&file.path)).sum()
}

/// The directories of some trials that stay when the trials are removed.
///
/// # Errors
/// The store failed.
pub fn left_of_trials(
    reader: &dyn StorageReader,
    store: &Path,
    study: &StudySummary,
    trials: &[TrialNumber],
) -> Result<Vec<LeftFile>, AppError> {
    let store = absolute(store)?;
    let homes = ownership::homes_by_owner(reader, &study.clone().stored(), &store)?;
    let is_there = |path: &Path| path.symlink_metadata().is_ok();
    let mut left = Vec::new();
    for home in &homes.others {
        let why = left_by(reader, &home.directory())?;
        let of_trials = trials.iter().map(|trial| home.trial(*trial)).filter(|path| is_there(path));
        let of_trial = |path| Some(LeftFile { path, why: why.clone()? });
        left.extend(of_trials.filter_map(of_trial));
    }
    let is_copied = has_copy(reader, &store)?;
    for home in &homes.own {
        let directory = home.directory();
        let copies = Copies::of(&directory);
        for path in trials.iter().map(|trial| home.trial(*trial)).filter(|path| is_there(path)) {
            let needed = copies.need(&path).map(Path::to_owned);
            let why = match (path.is_symlink() || directory.is_symlink(), needed) {
                (true, _) => Some(Left::Kept(Kept::Link)),
                (false, _) if is_copied => Some(Left::Copied),
                (false, Some(store)) => Some(Left::NeededByCopy(store)),
                (false, None) => removable(&path).err().map(Left::Kept),
            };
            left.extend(why.map(|why| LeftFile { path, why }));
        }
    }
    Ok(left)
}
