//! Turns errors of SQLite into errors that say what happened, where, and what to do.

use std::path::Path;

use rusqlite::ErrorCode;

use crate::storage::{SqliteFailure, StorageError};

/// A failure inside the store, before its file and operation are attached.
#[derive(Debug)]
pub(super) enum Fault {
    /// An error of SQLite.
    Sql(rusqlite::Error),
    /// A complete error of the store.
    Store(StorageError),
}

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Self {
        Fault::Sql(error)
    }
}

impl From<StorageError> for Fault {
    fn from(error: StorageError) -> Self {
        Fault::Store(error)
    }
}

impl Fault {
    /// Something stored cannot be read back.
    pub(super) fn corrupt(place: String, why: impl ToString) -> Self {
        Fault::Store(StorageError::Corrupt { place, why: why.to_string() })
    }

    /// A value that the store cannot represent.
    pub(super) fn unstorable(why: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Fault::Sql(rusqlite::Error::ToSqlConversionFailure(why.into()))
    }

    /// The error with the path and the operation.
    pub(super) fn at(self, path: &Path, doing: &'static str) -> StorageError {
        let source = match self {
            Fault::Store(error) => return error,
            Fault::Sql(source) => source,
        };
        let path = path.display().to_string();
        let failure = match source.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => SqliteFailure::DiskFull,
            Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied | ErrorCode::CannotOpen) => {
                SqliteFailure::NotUsable
            }
            Some(ErrorCode::DatabaseCorrupt) => SqliteFailure::Damaged,
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => SqliteFailure::Locked,
            Some(ErrorCode::SystemIoFailure) if is_refused_write(&source) => {
                SqliteFailure::WriteFailed
            }
            Some(ErrorCode::NotADatabase) => {
                let why = "it is not an SQLite database".to_owned();
                return StorageError::NotAStore { path, why };
            }
            _ => SqliteFailure::Other,
        };
        StorageError::Sqlite { path, doing, failure, source }
    }
}

/// Whether the system rejected a write for another reason than a full disk, which SQLite
/// distinguishes.
fn is_refused_write(error: &rusqlite::Error) -> bool {
    use rusqlite::ffi;
    const WRITES: [i32; 6] = [
        ffi::SQLITE_IOERR_WRITE,
        ffi::SQLITE_IOERR_FSYNC,
        ffi::SQLITE_IOERR_DIR_FSYNC,
        ffi::SQLITE_IOERR_TRUNCATE,
        ffi::SQLITE_IOERR_SHMSIZE,
        ffi::SQLITE_IOERR_DELETE,
    ];
    error.sqlite_error().is_some_and(|error| WRITES.contains(&error.extended_code))
}
