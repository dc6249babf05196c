//! Opens connections to the file of a store, to read it or to prepare it for writing.

use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, ErrorCode};

use super::migrate::{self, MIGRATIONS, SCHEMA};
use super::without_index::{ReadAlone, connect_alone, is_of_index};
use super::{Migrated, backup, connect_to_read, secrets};
use crate::storage::sql::fault::Fault;
use crate::storage::{BUSY_TIMEOUT, StorageError};

/// A connection for reading and the schema's version, also from a read-only directory and a full
/// disk; without the index, too, for a user who would create it for those who write.
pub(super) fn open_anywhere(
    path: &Path,
    file: &Path,
) -> Result<(Connection, i64, Option<ReadAlone>), StorageError> {
    if let Some(alone) = ReadAlone::of_others(file)
        && let Ok((connection, version)) = open_alone(path, file)
        && alone.is_unchanged()
    {
        return Ok((connection, version, Some(alone)));
    }
    let opened = match open_to_read(path, file) {
        Err(Fault::Sql(error)) if is_of_index(&error) => match ReadAlone::of(file) {
            Some(alone) => open_alone(path, file)
                .map(|(connection, version)| (connection, version, Some(alone))),
            None => Err(error.into()),
        },
        opened => opened.map(|(connection, version)| (connection, version, None)),
    };
    opened.map_err(|fault| fault.at(path, "opening it"))
}

/// A connection and the schema's version.
fn open_to_read(path: &Path, file: &Path) -> Result<(Connection, i64), Fault> {
    let connection = connect_to_read(file)?;
    let version = migrate::version(&connection, path, MIGRATIONS)?;
    Ok((connection, version))
}

/// The same without the index.
pub(super) fn open_alone(path: &Path, file: &Path) -> Result<(Connection, i64), Fault> {
    let connection = connect_alone(file)?;
    let version = migrate::version(&connection, path, MIGRATIONS)?;
    Ok((connection, version))
}

/// Readers and the writer do not block each other in this mode. SQLite does not call its busy
/// handler here, so processes that create a store at the same time are waited for in a loop.
pub(super) fn enable_wal(connection: &Connection) -> Result<(), Fault> {
    const PAUSE: Duration = Duration::from_millis(5);
    let mut patience = BUSY_TIMEOUT.as_millis() / PAUSE.as_millis();
    loop {
        match connection.query_row("PRAGMA journal_mode = WAL", [], |row| row.get::<_, String>(0)) {
            Err(error)
                if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) && patience > 0 =>
            {
                patience -= 1;
                std::thread::sleep(PAUSE);
            }
            other => return Ok(other.map(drop)?),
        }
    }
}

/// Prepares a connection for writing: checks whose file it is, migrates an older schema or creates
/// it, and returns the migration of an older one.
pub(super) fn prepare(
    connection: &mut Connection,
    path: &Path,
    file: &Path,
) -> Result<Option<Migrated>, Fault> {
    connection.busy_timeout(BUSY_TIMEOUT)?;
    // Before anything is changed: the file may belong to someone else.
    migrate::version(connection, path, MIGRATIONS)?;
    enable_wal(connection)?;
    configure(connection)?;
    let mut copied = None;
    let keep_copy = |found| {
        copied = Some(found);
        backup::keep_copy(file, found)
    };
    let is_new = migrate::version(connection, path, MIGRATIONS)? == 0;
    migrate::migrate(connection, path, MIGRATIONS, SCHEMA, keep_copy, secrets::erase)?;
    if is_new {
        // So that the file alone is a valid store.
        connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()))?;
    }
    let held_values = secrets::are_left(connection);
    secrets::finish(connection)?;
    Ok(copied.map(|from| Migrated { from, copy: backup::place(path, from), held_values }))
}

pub(super) fn configure(connection: &Connection) -> Result<(), Fault> {
    // NORMAL syncs at checkpoints only: a power loss loses the last transactions but leaves the
    // file consistent; killed processes lose nothing.
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    connection.pragma_update(None, "foreign_keys", true)?;
    // The log is verified before each checkpoint: see `Checkpoints`.
    connection.pragma_update(None, "wal_autocheckpoint", 0)?;
    // The columns' CHECKs protect against other writers. For this program they are enabled with
    // debug assertions only: they take a quarter of a small trial's time (JSON is parsed, and lists
    // of states are materialised at every update).
    connection.pragma_update(None, "ignore_check_constraints", !cfg!(debug_assertions))?;
    Ok(())
}
