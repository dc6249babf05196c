//! What copies of studies in other stores (`hpsearch copy`) still need of a study's files.

use std::io;
use std::path::{Path, PathBuf};

use super::homes::homes;
use super::mark::{self, StoreWithCopy};
use crate::runner::disk::real_place;
use crate::storage::address::is_on_server;
use crate::storage::any::AnyReader;
use crate::storage::sqlite::{StoreAt, store_at};
use crate::storage::{StorageError, StorageReader, StoredStudy};

/// What copies of studies in other stores need of a study's directory.
#[derive(Debug, Default)]
pub struct Copies {
    /// The directory, links resolved.
    directory: PathBuf,
    /// Checkpoints that they list, links resolved, with their stores.
    listed: Vec<(PathBuf, PathBuf)>,
    /// A store beside this one whose study has its logs and artifacts there, too.
    at_home: Option<PathBuf>,
    /// Stores that are not where the copy was made, or cannot be read: they may need all of it.
    unknown: Vec<PathBuf>,
}

impl Copies {
    /// Those that the mark of a directory names.
    pub fn of(directory: &Path) -> Copies {
        let mut copies = Copies { directory: real(directory), ..Copies::default() };
        for StoreWithCopy { store, path } in mark::copies(directory) {
            match needed(&path, &store) {
                Some((listed, homes)) => {
                    copies.listed.extend(listed.iter().map(|saved| (real(saved), path.clone())));
                    if homes.iter().any(|home| real(home) == copies.directory) {
                        copies.at_home = Some(path);
                    }
                }
                None => copies.unknown.push(path),
            }
        }
        copies
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.listed.is_empty() && self.at_home.is_none() && self.unknown.is_empty()
    }

    /// A store with a copy that needs, or may need, something at or below a path in the directory.
    pub fn need(&self, path: &Path) -> Option<&Path> {
        if self.is_empty() {
            return None;
        }
        let path = real(path);
        let of_all = self.at_home.as_ref().or(self.unknown.first());
        let of_all = of_all.filter(|_| path.starts_with(&self.directory));
        of_all.map(PathBuf::as_path).or_else(|| self.list(&path))
    }

    /// A readable store with a copy that lists a checkpoint at or below a path, links resolved.
    pub fn list(&self, path: &Path) -> Option<&Path> {
        let is_it = |(listed, _): &&(PathBuf, PathBuf)| listed.starts_with(path);
        self.listed.iter().find(is_it).map(|(_, store)| store.as_path())
    }

    /// Whether they need no more than the checkpoints that they list.
    pub fn need_checkpoints_only(&self) -> bool {
        self.at_home.is_none() && self.unknown.is_empty()
    }
}

/// Notes in the marks of the directories with a study's files that the store with that id, at that
/// path, is about to have a copy of it; returns those that cannot be marked.
///
/// # Errors
/// Those of the original's store.
pub fn note_copy(
    storage: &dyn StorageReader,
    study: &StoredStudy,
    store: &Path,
    (id, path): (&str, &Path),
) -> Result<Vec<(PathBuf, io::Error)>, StorageError> {
    let saved = storage.checkpoints(study.id)?.into_iter().map(|(_, checkpoint)| checkpoint.path);
    let of_saved = saved.filter_map(|path| mark::marked_above(&path));
    let own = homes(storage, study, store)?.into_iter().map(|home| home.directory());
    let mut directories: Vec<PathBuf> = own.chain(of_saved).collect();
    directories.sort();
    directories.dedup();
    let mut failed = Vec::new();
    for directory in directories {
        if let Err(error) = mark::add_copy(&directory, id, path) {
            failed.push((directory, error));
        }
    }
    Ok(failed)
}

/// The checkpoints that the store with that id at a path lists, and the directories of its studies;
/// `None` if it cannot be read, or is not there.
fn needed(path: &Path, id: &str) -> Option<(Vec<PathBuf>, Vec<PathBuf>)> {
    // A server is not asked: it may be out of reach, and wants a password.
    if is_on_server(path) || store_at(path) != StoreAt::Store(id.to_owned()) {
        return None;
    }
    let reader = AnyReader::open(path).ok()?;
    let (mut listed, mut directories) = (Vec::new(), Vec::new());
    for (study, _) in reader.names().ok()? {
        listed.extend(reader.checkpoints(study).ok()?.into_iter().map(|(_, saved)| saved.path));
        let study = reader.summary(study).ok()?.stored();
        directories.extend(homes(&reader, &study, path).ok()?.iter().map(|home| home.directory()));
    }
    Some((listed, directories))
}

/// A path with links resolved, as far as it exists.
fn real(path: &Path) -> PathBuf {
    real_place(path).unwrap_or_else(|| path.to_owned())
}
