//! Migrates a file to the present schema, and rejects files of other programs.

use std::path::Path;

use rusqlite::{Connection, TransactionBehavior};

use crate::storage::StorageError;
use crate::storage::sql::fault::Fault;

/// "hpsr" in SQLite's `application_id`.
pub(super) const APPLICATION_ID: i64 = 0x6870_7372;

/// The migrations from an empty file to the present schema, never edited once released: entry `n`
/// leads to version `n + 1`.
pub(super) const MIGRATIONS: &[&str] = &[
    concat!(include_str!("v1.sql"), include_str!("v1_optuna.sql")),
    include_str!("v2.sql"),
    include_str!("v3.sql"),
    include_str!("v4.sql"),
    include_str!("v5.sql"),
    include_str!("v6.sql"),
    include_str!("v7.sql"),
    include_str!("v8.sql"),
    include_str!("v9.sql"),
    include_str!("v10.sql"),
    include_str!("v11.sql"),
];

/// What they make of an empty file, in one step and a fifth of the time (an `ALTER TABLE` reads the
/// whole schema again): written by a test of the migrations.
pub(super) const SCHEMA: &str = include_str!("schema.sql");

/// The version that `migrations` lead to.
pub(super) fn newest(migrations: &[&str]) -> i64 {
    i64::try_from(migrations.len()).expect("a list in the source is short")
}

/// The version of the store behind `connection`, 0 for an empty file; an error for files of other
/// programs and of a newer hpsearch.
pub(super) fn version(
    connection: &Connection,
    path: &Path,
    migrations: &[&str],
) -> Result<i64, Fault> {
    // One snapshot for all queries: between two of them another process may create the store.
    let _moment =
        connection.is_autocommit().then(|| connection.unchecked_transaction()).transpose()?;
    let integer = |sql: &str| connection.query_row(sql, [], |row| row.get::<_, i64>(0));
    let not_a_store =
        |why: String| Err(StorageError::NotAStore { path: path.display().to_string(), why }.into());
    let application = integer("PRAGMA application_id")?;
    let found = integer("PRAGMA user_version")?;
    if application == APPLICATION_ID {
        let known = newest(migrations);
        return match found {
            ..0 => not_a_store(format!("its schema version is {found}")),
            _ if found > known => {
                Err(StorageError::Newer { path: path.display().to_string(), found, known }.into())
            }
            _ => Ok(found),
        };
    }
    if application != 0 {
        return not_a_store(format!(
            "it is an SQLite database of another program (application_id {application})"
        ));
    }
    if integer("SELECT count(*) FROM sqlite_schema WHERE name = 'alembic_version'")? > 0 {
        return Err(StorageError::Optuna { path: path.display().to_string() }.into());
    }
    let tables = integer("SELECT count(*) FROM sqlite_schema")?;
    if tables > 0 || found != 0 {
        not_a_store("it is an SQLite database of another program".to_owned())
    } else {
        Ok(0)
    }
}

/// Runs the pending migrations in one transaction; an empty file gets their result, `whole`. For a
/// non-empty file, `keep_copy` is called before with its version, and `erase` after, in the same
/// transaction.
pub(super) fn migrate(
    connection: &mut Connection,
    path: &Path,
    migrations: &[&str],
    whole: &str,
    keep_copy: impl FnOnce(i64) -> Result<(), Fault>,
    erase: impl FnOnce(&Connection) -> Result<(), Fault>,
) -> Result<(), Fault> {
    if version(connection, path, migrations)? == newest(migrations) {
        return Ok(());
    }
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    // Read again under the lock: another process may have migrated it.
    let found = version(&transaction, path, migrations)?;
    if (1..newest(migrations)).contains(&found) {
        keep_copy(found)?;
    }
    if found == 0 {
        transaction.execute_batch(whole)?;
    } else {
        let done = usize::try_from(found).unwrap_or_default();
        for sql in migrations.iter().skip(done) {
            transaction.execute_batch(sql)?;
        }
        erase(&transaction)?;
    }
    transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    transaction.pragma_update(None, "user_version", newest(migrations))?;
    transaction.commit()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::sql::column::value;

    const STEPS: &[&str] = &[
        "CREATE TABLE a (x INTEGER) STRICT;",
        "ALTER TABLE a ADD COLUMN y TEXT;",
        "CREATE TABLE b (z REAL) STRICT;",
    ];

    fn run(connection: &mut Connection, steps: &[&str]) -> Result<(), Fault> {
        migrate(connection, Path::new("x"), steps, &steps.concat(), |_| Ok(()), |_| Ok(()))
    }

    fn columns(connection: &Connection) -> String {
        let sql = "SELECT group_concat(name) FROM pragma_table_info('a')";
        value(connection, sql, ()).ok().unwrap()
    }

    #[test]
    fn only_missing_steps_run() {
        let mut connection = Connection::open_in_memory().unwrap();
        run(&mut connection, &STEPS[..1]).ok().unwrap();
        connection.execute_batch("INSERT INTO a VALUES (7)").unwrap();
        run(&mut connection, STEPS).ok().unwrap();
        run(&mut connection, STEPS).ok().unwrap();
        assert_eq!(columns(&connection), "x,y");
        assert_eq!(value::<i64>(&connection, "SELECT x FROM a", ()).ok(), Some(7));
    }

    #[test]
    fn a_copy_is_kept_of_what_is_changed_and_only_of_that() {
        let mut connection = Connection::open_in_memory().unwrap();
        let mut copied = Vec::new();
        for steps in [&STEPS[..1], &STEPS[..1], STEPS, STEPS] {
            let copy = |found| {
                copied.push(found);
                Ok(())
            };
            let path = Path::new("x");
            migrate(&mut connection, path, steps, &steps.concat(), copy, |_| Ok(())).ok().unwrap();
        }
        assert_eq!(copied, [1]);
        let refused =
            || Err(StorageError::NoTrial { trial: crate::study::trial::TrialNumber(0) }.into());
        let more = [STEPS[0], STEPS[1], STEPS[2], "CREATE TABLE c (x REAL) STRICT;"];
        assert!(
            migrate(&mut connection, Path::new("x"), &more, "", |_| refused(), |_| Ok(())).is_err()
        );
        assert_eq!(
            version(&connection, Path::new("x"), &more).ok().unwrap(),
            3,
            "without a copy nothing is changed"
        );
    }

    #[test]
    fn a_step_that_fails_leaves_the_old_version() {
        let mut connection = Connection::open_in_memory().unwrap();
        run(&mut connection, &STEPS[..1]).ok().unwrap();
        let broken = [STEPS[0], STEPS[1], "CREATE TABLE"];
        assert!(run(&mut connection, &broken).is_err());
        assert_eq!(columns(&connection), "x");
        assert_eq!(version(&connection, Path::new("x"), STEPS).ok().unwrap(), 1);
    }

    #[test]
    fn a_newer_version_is_refused() {
        let mut connection = Connection::open_in_memory().unwrap();
        run(&mut connection, STEPS).ok().unwrap();
        let refused = run(&mut connection, &STEPS[..2]);
        assert!(matches!(
            refused,
            Err(Fault::Store(StorageError::Newer { found: 3, known: 2, .. }))
        ));
    }
}
