//! Reads a store whose index in shared memory (`-shm`) cannot be created, in a read-only directory
//! or on a full disk, or must not be, since another user writes the store.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, ErrorCode, OpenFlags, ffi};

use super::connect_to_read;
use crate::storage::disk::may_write;
use crate::storage::sql::fault::Fault;

/// A store's file when it was opened as immutable, which takes no locks.
///
/// Its log was empty, so that the file has everything. A writer needs the index, too; one that
/// starts later, once there is space or permission, writes to the log before it writes to the file,
/// and removes the log after that. So what was read is one committed state if afterwards the log is
/// still empty and the file the same ([`ReadAlone::is_unchanged`]); otherwise it does not count.
///
/// SQLite's alternative, a private index (`locking_mode = EXCLUSIVE`), keeps every other process
/// out as long as a screen is open, and needs permission to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ReadAlone {
    file: PathBuf,
    /// Device and inode, length, times of the last changes of content and inode.
    state: [i128; 7],
}

impl ReadAlone {
    /// The file at `path`; `None` if it is not there, or its log is not empty.
    pub(super) fn of(path: &Path) -> Option<Self> {
        let file = fs::canonicalize(path).ok()?;
        let mut log = file.as_os_str().to_owned();
        log.push("-wal");
        // A writer that was refused for lack of space leaves an empty one.
        if fs::metadata(&log).is_ok_and(|log| log.len() > 0) {
            return None;
        }
        let found = fs::metadata(&file).ok()?;
        let state = [
            found.dev().into(),
            found.ino().into(),
            found.size().into(),
            found.mtime().into(),
            found.mtime_nsec().into(),
            found.ctime().into(),
            found.ctime_nsec().into(),
        ];
        Some(ReadAlone { file, state })
    }

    /// The same of a store that others write, and that has no index: theirs must not be a file of
    /// this user, which they may neither write nor, perhaps, remove.
    pub(super) fn of_others(path: &Path) -> Option<Self> {
        let alone = ReadAlone::of(path)?;
        let mut index = alone.file.as_os_str().to_owned();
        index.push("-shm");
        (!may_write(&alone.file) && !fs::exists(index).unwrap_or(true)).then_some(alone)
    }

    /// Whether no process has written to the store since.
    pub(super) fn is_unchanged(&self) -> bool {
        ReadAlone::of(&self.file).as_ref() == Some(self)
    }
}

/// Whether the index may be what an error of opening is about.
pub(super) fn is_of_index(error: &rusqlite::Error) -> bool {
    const INDEX: [i32; 3] =
        [ffi::SQLITE_IOERR_SHMSIZE, ffi::SQLITE_IOERR_SHMOPEN, ffi::SQLITE_IOERR_SHMMAP];
    match error.sqlite_error_code() {
        Some(ErrorCode::CannotOpen | ErrorCode::ReadOnly) => true,
        _ => error.sqlite_error().is_some_and(|error| INDEX.contains(&error.extended_code)),
    }
}

/// A connection that reads the file as immutable.
pub(super) fn connect_alone(file: &Path) -> Result<Connection, Fault> {
    let text = file
        .to_str()
        .ok_or_else(|| Fault::unstorable(format!("the path `{}` is not UTF-8", file.display())))?;
    let uri = format!(
        "file:{}?immutable=1",
        text.replace('%', "%25").replace('?', "%3f").replace('#', "%23")
    );
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_URI;
    Ok(Connection::open_with_flags(uri, flags)?)
}

/// The answer of `look` about the file, with the index or without.
pub(super) fn look_at<T>(
    file: &Path,
    look: impl Fn(&Connection) -> Result<T, Fault>,
) -> Result<T, Fault> {
    if let Some(alone) = ReadAlone::of_others(file)
        && let Ok(found) = connect_alone(file).and_then(|connection| look(&connection))
        && alone.is_unchanged()
    {
        return Ok(found);
    }
    match connect_to_read(file).map_err(Fault::from).and_then(|connection| look(&connection)) {
        Err(Fault::Sql(error)) if is_of_index(&error) => {
            let Some(alone) = ReadAlone::of(file) else { return Err(error.into()) };
            match connect_alone(file).and_then(|connection| look(&connection)) {
                Ok(found) if alone.is_unchanged() => Ok(found),
                _ => Err(error.into()),
            }
        }
        looked => looked,
    }
}
