//! Creates and migrates the tables, and rejects databases of other programs.

use std::path::Path;

use postgres::error::SqlState;

use super::session::Session;
use crate::storage::StorageError;
use crate::storage::sql::column::value;
use crate::storage::sql::connection::Connection;
use crate::storage::sql::fault::Fault;

/// The migrations from an empty database to the present schema, never edited once released: entry
/// `n` leads to version `n + 1`.
const MIGRATIONS: &[&str] = &[
    concat!(include_str!("v1.sql"), include_str!("v1_optuna.sql")),
    include_str!("v2.sql"),
    include_str!("v3.sql"),
];

/// The version that the migrations lead to.
pub(super) fn newest() -> i64 {
    i64::try_from(MIGRATIONS.len()).expect("a list in the source is short")
}

/// The version of the store behind a connection, 0 for a database without tables of ours; an error
/// for databases of other programs and of a newer hpsearch.
pub(super) fn version(connection: &dyn Connection, address: &Path) -> Result<i64, Fault> {
    let is_table = |name: &str| -> Result<bool, Fault> {
        value(connection, "SELECT to_regclass(?1) IS NOT NULL", [name])
    };
    if is_table("hpsearch_version")? {
        let found: i64 = value(connection, "SELECT max(version) FROM hpsearch_version", ())?;
        return match found > newest() {
            true => Err(StorageError::Newer {
                path: address.display().to_string(),
                found,
                known: newest(),
            }
            .into()),
            false => Ok(found),
        };
    }
    for (table, why) in [
        ("alembic_version", "it looks like a database of Optuna"),
        ("study", "its table `study` is that of another program"),
        ("trial", "its table `trial` is that of another program"),
        ("event", "its table `event` is that of another program"),
    ] {
        if is_table(table)? {
            return Err(foreign(address, why));
        }
    }
    Ok(0)
}

/// The error for a database of another program.
fn foreign(address: &Path, why: &str) -> Fault {
    let path = address.display().to_string();
    let why =
        format!("{why}: name another database, or a schema by `?options=-csearch_path%3DNAME`");
    StorageError::NotAStore { path, why }.into()
}

/// The same, if a name that a migration creates is there already.
fn of_other_program(fault: Fault, address: &Path) -> Fault {
    let Fault::Postgres(error) = &fault else { return fault };
    let is_there =
        [SqlState::DUPLICATE_TABLE, SqlState::DUPLICATE_OBJECT, SqlState::DUPLICATE_FUNCTION];
    match error.as_db_error().filter(|error| is_there.contains(error.code())) {
        Some(error) => {
            foreign(address, &format!("it has tables of another program ({})", error.message()))
        }
        None => fault,
    }
}

/// Runs the pending migrations in one transaction.
pub(super) fn migrate(session: &Session, address: &Path) -> Result<(), Fault> {
    if version(session, address)? == newest() {
        return Ok(());
    }
    session.write(|session| {
        // Another process may be doing it: read again under a lock.
        session.batch("SELECT pg_advisory_xact_lock(1752199026)")?;
        let found = version(session, address)?;
        for (step, sql) in (0..).zip(MIGRATIONS) {
            if step >= found {
                session.batch(sql).map_err(|fault| of_other_program(fault, address))?;
            }
        }
        session.batch(&format!(
            "DELETE FROM hpsearch_version; INSERT INTO hpsearch_version VALUES ({})",
            newest()
        ))
    })
}
