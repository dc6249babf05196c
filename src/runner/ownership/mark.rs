//! The mark in a directory of files: the store that owns them.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};

use crate::config::file;
use crate::runner::disk::{self, name_of};
use crate::runner::drafts::{is_of_dead_process, moved_from};
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
    /// The directory's name, by which a copy of it beside it is known; `None` in marks of earlier
    /// versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    directory: Option<String>,
    /// Other stores with copies of the directory's study.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    copies: Vec<StoreWithCopy>,
}

/// Another store to which the study of a directory was copied.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct StoreWithCopy {
    /// Its id.
    pub store: String,
    /// Its path when the study was copied, without a password.
    pub path: PathBuf,
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
    /// Unknown: the mark is none that this version can read.
    Unreadable,
    /// Unknown: the system refuses to read the mark, with this error number.
    Refused(i32),
}

/// The owner of a study's directory.
pub fn owner(directory: &Path) -> Owner {
    match read(directory) {
        Ok(None) => Owner::Nobody,
        Ok(Some(mark)) => Owner::Store { id: mark.store, path: mark.path },
        Err(error) => error.raw_os_error().map_or(Owner::Unreadable, Owner::Refused),
    }
}

/// The system's words for [`Owner::Refused`].
pub fn words_of(error: i32) -> String {
    io::Error::from_raw_os_error(error).to_string()
}

/// The mark in a directory, if there is one.
fn read(directory: &Path) -> io::Result<Option<Mark>> {
    match file::read_to_string(&directory.join(MARK)) {
        Ok(text) => Ok(Some(serde_json::from_str(&text)?)),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// The stores to which the study of a directory was copied, by its mark.
pub(super) fn copies(directory: &Path) -> Vec<StoreWithCopy> {
    read(directory).ok().flatten().map_or_else(Vec::new, |mark| mark.copies)
}

/// The name of the directory that one with another name is a copy of, or was, by its mark: somebody
/// made a backup of it, or renamed it.
pub fn copy_of_directory(directory: &Path) -> Option<String> {
    let marked = read(directory).ok()??.directory?;
    let own = moved_from(directory).unwrap_or_else(|| directory.to_owned());
    (name_of(&own) != Some(marked.as_str())).then_some(marked)
}

/// Whether the mark of a directory has a directory's name, which those of earlier versions lack.
pub(super) fn names_directory(directory: &Path) -> bool {
    read(directory).is_ok_and(|mark| mark.is_some_and(|mark| mark.directory.is_some()))
}

/// The nearest directory above a path that has a mark.
pub(super) fn marked_above(path: &Path) -> Option<PathBuf> {
    let is_marked = |directory: &&Path| directory.join(MARK).exists();
    path.ancestors().skip(1).find(is_marked).map(Path::to_owned)
}

/// Adds a store to those that the mark of a directory names as having a copy of its study; does
/// nothing where there is no mark.
///
/// # Errors
/// The mark cannot be read or replaced.
pub(super) fn add_copy(directory: &Path, store: &str, path: &Path) -> io::Result<()> {
    let Some(mut mark) = read(directory)? else { return Ok(()) };
    let copy = StoreWithCopy { store: store.to_owned(), path: path.to_owned() };
    if mark.copies.contains(&copy) {
        return Ok(());
    }
    mark.copies.push(copy);
    fs::rename(draft_of_mark(directory, &mark)?, directory.join(MARK))
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

/// The mark of the store with this id in a directory.
fn mark_of(directory: &Path, id: &str, store: &Path) -> Mark {
    let (store, path) = (id.to_owned(), store.to_owned());
    let directory = name_of(directory).map(str::to_owned);
    Mark { version: 1, store, path, directory, copies: Vec::new() }
}

/// Writes a mark into an open file.
fn write_mark(mut file: File, mark: &Mark) -> io::Result<()> {
    let text = serde_json::to_string(mark).map_err(io::Error::other)?;
    file.write_all(format!("{text}\n").as_bytes())?;
    file.sync_all()
}

/// Places a mark where there is none. It is whole from its first moment: who claims the directory
/// at the same time must not take it for an unreadable one.
pub(super) fn place_mark(directory: &Path, id: &str, store: &Path) -> io::Result<()> {
    let content = mark_of(directory, id, store);
    let (draft, mark) = (draft_of_mark(directory, &content)?, directory.join(MARK));
    let placed = fs::hard_link(&draft, &mark);
    let _found_by_gc = fs::remove_file(&draft);
    match placed {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => {
            // A file system without hard links.
            write_mark(OpenOptions::new().write(true).create_new(true).open(mark)?, &content)
        }
        placed => placed,
    }
}

/// Replaces the mark of a directory; copies of its study stay known.
pub(super) fn replace_mark(directory: &Path, id: &str, store: &Path) -> io::Result<()> {
    let copies = copies(directory);
    let mark = Mark { copies, ..mark_of(directory, id, store) };
    fs::rename(draft_of_mark(directory, &mark)?, directory.join(MARK))
}

/// Removes drafts of the mark whose processes are dead.
pub(super) fn clear_drafts_of_mark(directory: &Path) {
    let begin = format!(".{MARK}.");
    let is_of_mark = |path: &PathBuf| name_of(path).is_some_and(|name| name.starts_with(&begin));
    let drafts = disk::entries(directory).filter(is_of_mark);
    for draft in drafts.filter(|draft| is_of_dead_process(draft)) {
        let _found_by_gc = fs::remove_file(&draft);
    }
}

/// Writes a mark under a name of its own: a process that writes its program's spool adopts others
/// meanwhile, and both threads claim the directory.
fn draft_of_mark(directory: &Path, mark: &Mark) -> io::Result<PathBuf> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let (pid, count) = (std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
    let draft = directory.join(format!(".{MARK}.{pid}-{count}.tmp"));
    write_mark(File::create(&draft)?, mark)?;
    Ok(draft)
}
