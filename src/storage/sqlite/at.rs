//! Identifies the store at a path.

use std::io::ErrorKind;
use std::path::Path;

use rusqlite::{Connection, ErrorCode};

use super::migrate::APPLICATION_ID;
use super::without_index::look_at;
use crate::storage::StorageError;
use crate::storage::paths::component;
use crate::storage::sql::column::{json, rows};
use crate::storage::sql::fault::Fault;

/// The store at a path, if any.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreAt {
    /// No store.
    Nothing,
    /// A store with this id, which is empty for earlier versions.
    Store(String),
    /// A possible store that cannot be read.
    Unreadable,
}

/// Identifies the store at a path. The file is opened through SQLite only: closing any descriptor
/// of a store's file releases all locks of this process on it.
pub fn store_at(path: &Path) -> StoreAt {
    match std::fs::metadata(path) {
        Ok(file) if !file.is_file() || file.len() == 0 => return StoreAt::Nothing,
        Ok(_) => {}
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return StoreAt::Nothing;
        }
        Err(_) => return StoreAt::Unreadable,
    }
    let look = |connection: &Connection| {
        let application: i64 =
            connection.pragma_query_value(None, "application_id", |row| row.get(0))?;
        if application != APPLICATION_ID {
            return Ok(StoreAt::Nothing);
        }
        let version: i64 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
        if version < 4 {
            return Ok(StoreAt::Store(String::new()));
        }
        Ok(StoreAt::Store(connection.query_row("SELECT id FROM store", [], |row| row.get(0))?))
    };
    look_at(path, look).unwrap_or_else(|fault| match fault {
        Fault::Sql(error) if error.sqlite_error_code() == Some(ErrorCode::NotADatabase) => {
            StoreAt::Nothing
        }
        _ => StoreAt::Unreadable,
    })
}

/// The id of the store at a path, and the names of its studies' directories; `None` if there is no
/// store.
///
/// # Errors
/// There may be a store that cannot be read.
pub fn studies_at(path: &Path) -> Result<Option<(String, Vec<String>)>, StorageError> {
    let id = match store_at(path) {
        StoreAt::Nothing => return Ok(None),
        StoreAt::Store(id) => id,
        StoreAt::Unreadable => {
            return Err(StorageError::Missing { path: path.display().to_string() });
        }
    };
    let read = |connection: &Connection| {
        let files = if id.is_empty() { "NULL" } else { "files" };
        let sql = format!("SELECT name, {files} FROM study");
        rows(connection, &sql, (), |row| Ok((row.get::<String>(0)?, row.get::<Option<String>>(1)?)))
    };
    let named = look_at(path, read).map_err(|fault| fault.at(path, "reading its studies"))?;
    let mut directories = Vec::new();
    for (name, taken) in named {
        let taken: Option<Vec<String>> = taken
            .map(|taken| json(&taken, || format!("table `study` of `{}`", path.display())))
            .transpose()
            .map_err(|fault| fault.at(path, "reading its studies"))?;
        directories.extend(taken.unwrap_or_else(|| vec![component(&name)]));
    }
    Ok(Some((id, directories)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::StorageReader as _;
    use crate::storage::sqlite::SqliteStore;

    #[test]
    fn a_store_is_told_from_other_files_whatever_its_name() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        let id = SqliteStore::open(&path("experiments")).unwrap().identity().unwrap().unwrap();
        assert_eq!(store_at(&path("experiments")), StoreAt::Store(id));
        std::fs::write(path("notes.db"), "to do").unwrap();
        Connection::open(path("other.db")).unwrap().execute_batch("CREATE TABLE a (x)").unwrap();
        for name in ["notes.db", "other.db", "missing.db", "."] {
            assert_eq!(store_at(&path(name)), StoreAt::Nothing, "{name}");
        }
    }
}
