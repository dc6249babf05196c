//! Turns errors of databases into errors that say what happened, where, and what to do.

use std::path::Path;

use rusqlite::ErrorCode;

#[cfg(feature = "postgres")]
use crate::storage::PostgresFailure;
use crate::storage::disk::{forbidden, is_full};
use crate::storage::{SqliteFailure, StorageError};

/// A failure inside the store, before its file and operation are attached.
#[derive(Debug)]
pub(in crate::storage) enum Fault {
    /// An error of SQLite.
    Sql(rusqlite::Error),
    /// An error of PostgreSQL, or of the connection to it.
    #[cfg(feature = "postgres")]
    Postgres(postgres::Error),
    /// A complete error of the store.
    Store(StorageError),
}

#[cfg(feature = "postgres")]
impl From<postgres::Error> for Fault {
    fn from(error: postgres::Error) -> Self {
        Fault::Postgres(error)
    }
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
    pub(in crate::storage) fn corrupt(place: String, why: impl ToString) -> Self {
        Fault::Store(StorageError::Corrupt { place, why: why.to_string() })
    }

    /// A value that the store cannot represent.
    pub(in crate::storage) fn unstorable(
        why: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        Fault::Sql(rusqlite::Error::ToSqlConversionFailure(why.into()))
    }

    /// Whether a database of SQLite may be damaged: SQLite says so, or finds something unreadable
    /// where it is not, such as malformed JSON (which has no code of its own).
    pub(in crate::storage) fn is_damage(&self) -> bool {
        use rusqlite::Error;
        match self {
            Fault::Sql(
                Error::FromSqlConversionFailure(..)
                | Error::IntegralValueOutOfRange(..)
                | Error::InvalidColumnType(..),
            ) => true,
            Fault::Sql(error) => matches!(
                error.sqlite_error_code(),
                Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase | ErrorCode::Unknown)
            ),
            Fault::Store(error) => matches!(error, StorageError::Corrupt { .. }),
            #[cfg(feature = "postgres")]
            Fault::Postgres(_) => false,
        }
    }

    /// The error with the path and the operation.
    pub(in crate::storage) fn at(self, path: &Path, doing: &'static str) -> StorageError {
        let source = match self {
            Fault::Store(error) => return error,
            #[cfg(feature = "postgres")]
            Fault::Postgres(source) => {
                return StorageError::Postgres {
                    address: path.display().to_string(),
                    doing,
                    failure: failure_of(&source),
                    source: Box::new(source),
                };
            }
            Fault::Sql(source) => source,
        };
        let file = path;
        let path = path.display().to_string();
        let failure = match source.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => SqliteFailure::DiskFull,
            Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied | ErrorCode::CannotOpen) => {
                match forbidden(file) {
                    Some(culprit) => {
                        let file = culprit.display().to_string();
                        let source = Box::new(source);
                        return StorageError::Forbidden { path, file, doing, source };
                    }
                    None if is_full(file) => SqliteFailure::DiskFull,
                    None => SqliteFailure::NotUsable,
                }
            }
            Some(ErrorCode::DatabaseCorrupt) => SqliteFailure::Damaged,
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => SqliteFailure::Locked,
            // SQLite has no code for an index that finds no space.
            Some(ErrorCode::SystemIoFailure) if is_refused_write(&source) => match is_full(file) {
                true => SqliteFailure::DiskFull,
                false => SqliteFailure::WriteFailed,
            },
            Some(ErrorCode::NotADatabase) => {
                let why = "it is not an SQLite database".to_owned();
                return StorageError::NotAStore { path, why };
            }
            _ => SqliteFailure::Other,
        };
        StorageError::Sqlite { path, doing, failure, source }
    }
}

/// Whether the system rejected a write.
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

/// Whether an error without a code is about the connection, which is lost or could not be made.
#[cfg(feature = "postgres")]
pub(in crate::storage) fn is_of_connection(error: &postgres::Error) -> bool {
    use std::error::Error as _;
    error.is_closed() || error.source().is_some_and(|source| source.is::<std::io::Error>())
}

/// Whether the server demanded a password that the client was not given.
#[cfg(feature = "postgres")]
fn is_missing_password(error: &postgres::Error) -> bool {
    use std::error::Error as _;
    error.source().is_some_and(|source| source.to_string() == "password missing")
}

#[cfg(feature = "postgres")]
fn failure_of(error: &postgres::Error) -> PostgresFailure {
    use postgres::error::SqlState;
    let Some(code) = error.code() else {
        return match is_of_connection(error) {
            true => PostgresFailure::Unreachable,
            false if is_missing_password(error) => PostgresFailure::NoPassword,
            false => PostgresFailure::Other,
        };
    };
    // In the server's language: what is not recognised gets the general remedy.
    let message = error.as_db_error().map_or("", postgres::error::DbError::message);
    match code.code() {
        // Before version 14 `SSL off`.
        "28000" if message.contains("no encryption") || message.contains("SSL off") => {
            PostgresFailure::NotEncrypted
        }
        code if code.starts_with("28") => PostgresFailure::Refused,
        code if code.starts_with("08") || code.starts_with("57P") => PostgresFailure::Unreachable,
        code if code == SqlState::INVALID_CATALOG_NAME.code() => PostgresFailure::NoDatabase,
        code if code == SqlState::INSUFFICIENT_PRIVILEGE.code() => {
            if message.starts_with("must be owner") {
                PostgresFailure::NotOwner
            } else if ["table", "sequence", "view"].iter().any(|kind| message.contains(kind)) {
                PostgresFailure::NotGranted
            } else {
                PostgresFailure::Forbidden
            }
        }
        code if code == SqlState::DISK_FULL.code() => PostgresFailure::DiskFull,
        code if code == SqlState::LOCK_NOT_AVAILABLE.code() => PostgresFailure::Locked,
        code if code == SqlState::TOO_MANY_CONNECTIONS.code() => PostgresFailure::Busy,
        _ => PostgresFailure::Other,
    }
}
