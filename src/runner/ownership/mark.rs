//! The mark in a directory of files: the store that owns them.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};

use crate::config::file;
use crate::storage::address::is_on_server;
use crate::storage::sqlite::{StoreAt, store_at};

/// The file in a study's directory that names its owner.
pub const MARK: &str = ".hpsearch-store";

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

/// Whether the store that marked a directory is, or may be, still at its place, and is not the one
/// at `store`.
pub(in crate::runner) fn is_marked_by_another(directory: &Path, store: &Path) -> bool {
    matches!(owner(directory), Owner::Store { id, path } if is_another(&path, store, &id))
}

/// Whether another file than `store` at `path` is, or may be, a store with the same id.
pub(super) fn is_another(path: &Path, store: &Path, id: &str) -> bool {
    if is_same_file(path, store) {
        return false;
    }
    match store_at(path) {
        StoreAt::Store(found) => found == id,
        StoreAt::Unreadable => true,
        StoreAt::Nothing => false,
    }
}

/// Whether two paths lead to the same file.
pub(super) fn is_same_file(one: &Path, other: &Path) -> bool {
    let place = |path: &Path| fs::metadata(path).ok().map(|file| (file.dev(), file.ino()));
    one == other || place(one).is_some_and(|there| Some(there) == place(other))
}

/// Writes the mark of the store with this id into an open file.
fn write_mark(mut file: File, id: &str, store: &Path) -> io::Result<()> {
    let mark = Mark { version: 1, store: id.to_owned(), path: store.to_owned() };
    let text = serde_json::to_string(&mark).map_err(io::Error::other)?;
    file.write_all(format!("{text}\n").as_bytes())?;
    file.sync_all()
}

/// Places a mark where there is none. It is whole from its first moment: who claims the directory
/// at the same time must not take it for an unreadable one.
pub(super) fn place_mark(directory: &Path, id: &str, store: &Path) -> io::Result<()> {
    let (draft, mark) = (draft_of_mark(directory, id, store)?, directory.join(MARK));
    let placed = fs::hard_link(&draft, &mark);
    let _found_by_gc = fs::remove_file(&draft);
    match placed {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => {
            // A file system without hard links.
            write_mark(OpenOptions::new().write(true).create_new(true).open(mark)?, id, store)
        }
        placed => placed,
    }
}

/// Replaces the mark of a directory.
pub(super) fn replace_mark(directory: &Path, id: &str, store: &Path) -> io::Result<()> {
    fs::rename(draft_of_mark(directory, id, store)?, directory.join(MARK))
}

/// Writes a mark under a name of its own: a process that writes its program's spool adopts others
/// meanwhile, and both threads claim the directory.
fn draft_of_mark(directory: &Path, id: &str, store: &Path) -> io::Result<PathBuf> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let (pid, count) = (std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
    let draft = directory.join(format!(".{MARK}.{pid}-{count}.tmp"));
    write_mark(File::create(&draft)?, id, store)?;
    Ok(draft)
}
