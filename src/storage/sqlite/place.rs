//! The path of a store: its checks, and the files beside it.

use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use super::files::with_ending;
use super::filesystem;
use crate::storage::address::target;
use crate::storage::{StorageError, StudyId};

/// SQLite appends `-journal`: its paths end at 512 bytes, names on Linux at 255.
const LONGEST_PATH: usize = 504;
const LONGEST_NAME: usize = 247;

/// The path as an absolute one, so that SQLite does not interpret it (`:memory:`, `file:..`), and
/// it stays valid in another directory.
pub(super) fn as_file(path: &Path) -> Result<PathBuf, StorageError> {
    let wrong =
        |why: &str| io_error(path, std::io::Error::new(std::io::ErrorKind::InvalidInput, why));
    if path.as_os_str().is_empty() {
        return Err(wrong("it names no file"));
    }
    if path.as_os_str().as_bytes().contains(&0) {
        return Err(wrong("there is a NUL byte in it"));
    }
    if path.as_os_str().as_bytes().ends_with(b"/") {
        return Err(not_a_file(path, "a directory"));
    }
    let file = std::path::absolute(path).map_err(|source| io_error(path, source))?;
    if file.as_os_str().len() > LONGEST_PATH
        || file.file_name().is_some_and(|name| name.len() > LONGEST_NAME)
    {
        return Err(wrong(&format!(
            "SQLite opens paths of up to {LONGEST_PATH} bytes, with names of up to {LONGEST_NAME}"
        )));
    }
    Ok(file)
}

/// An error that names what is there, if it is not a regular file.
pub(super) fn refuse_what_is_no_file(path: &Path, file: &Path) -> Result<(), StorageError> {
    let Ok(kind) = std::fs::metadata(file).map(|metadata| metadata.file_type()) else {
        return Ok(());
    };
    let what = match kind {
        kind if kind.is_file() => return Ok(()),
        kind if kind.is_dir() => "a directory",
        kind if kind.is_fifo() => "a named pipe",
        kind if kind.is_socket() => "a socket",
        kind if kind.is_block_device() || kind.is_char_device() => "a device",
        _ => "something else",
    };
    Err(not_a_file(path, what))
}

/// An error if no store is there.
pub(super) fn refuse_missing(path: &Path, file: &Path) -> Result<(), StorageError> {
    match fs::metadata(file) {
        Ok(metadata) if metadata.len() == 0 => Err(missing(path)),
        Ok(_) => Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Err(missing(path)),
        Err(source) => Err(io_error(path, source)),
    }
}

pub(super) fn missing(path: &Path) -> StorageError {
    StorageError::Missing { path: path.display().to_string() }
}

/// An error if a store that is created at `path` would destroy the log of another: SQLite deletes
/// what lies at the paths of a new database's log.
pub(super) fn refuse_orphaned_log(path: &Path, file: &Path) -> Result<(), StorageError> {
    let refused = |log: PathBuf| {
        let (path, log) = (path.display().to_string(), log.display().to_string());
        Err(StorageError::OrphanedLog { path, log })
    };
    orphaned_log(file).map_or(Ok(()), refused)
}

/// The log, not empty, of a store whose file is not at `path`, or empty: it was moved away, or is
/// lost.
pub fn orphaned_log(path: &Path) -> Option<PathBuf> {
    let real = target(path);
    let [wal, journal] = ["-wal", "-journal"].map(|ending| {
        let log = with_ending(&real, ending);
        let is_log = |metadata: fs::Metadata| metadata.is_file() && metadata.len() > 0;
        fs::metadata(&log).is_ok_and(is_log).then_some(log)
    });
    // After the logs, which another process that creates the store writes after the file.
    match fs::metadata(&real) {
        Ok(metadata) if metadata.len() > 0 => None,
        // Of an empty file a journal may be there because it is being created, or was when its
        // process was killed.
        Ok(_) => wal,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => wal.or(journal),
        Err(_) => None,
    }
}

/// How the file of a store has another name. A process that opens it by that name uses another log
/// and another lock, and the two write over each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OtherName {
    /// A hard link.
    HardLink,
    /// The file is mounted by itself, without its directory, as a container may get it.
    Mount,
}

/// The other name of the store at `path`, if it has one.
pub fn other_name(path: &Path) -> Option<OtherName> {
    let file = fs::canonicalize(path).ok()?;
    if fs::metadata(&file).ok()?.nlink() > 1 {
        return Some(OtherName::HardLink);
    }
    let [own, directory] = [&*file, file.parent()?].map(filesystem::mount);
    let (own, directory) = (own?, directory?);
    (own != directory).then_some(OtherName::Mount)
}

fn not_a_file(path: &Path, what: &'static str) -> StorageError {
    StorageError::NotAFile { path: path.display().to_string(), what }
}

/// `hpsearch.db.run-1`, beside the file itself: links to it lead to one lock. It is empty and never
/// removed: a process that has it open would otherwise hold the lock of an unlinked file.
pub(super) fn lock_file(path: &Path, study: StudyId) -> PathBuf {
    let mut name = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned()).into_os_string();
    name.push(format!(".run-{}", study.0));
    PathBuf::from(name)
}

/// The directory of the file, links resolved if it exists.
pub(super) fn directory_of(path: &Path) -> PathBuf {
    let real = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    match real.parent() {
        Some(parent) if parent != Path::new("") => parent.to_owned(),
        _ => PathBuf::from("."),
    }
}

pub(super) fn refuse_network(path: &Path, directory: &Path) -> Result<(), StorageError> {
    let existing =
        directory.ancestors().find(|ancestor| ancestor.exists()).unwrap_or(Path::new("."));
    match filesystem::network_file_system(existing) {
        Some(kind) => Err(StorageError::NetworkFileSystem {
            path: path.display().to_string(),
            kind: kind.to_owned(),
        }),
        None => Ok(()),
    }
}

pub(super) fn io_error(path: &Path, source: std::io::Error) -> StorageError {
    StorageError::Io { path: path.display().to_string(), source }
}
