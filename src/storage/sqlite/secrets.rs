//! Erases the values of `[command] env` that older versions stored, and removed runs: from the
//! rows, then from the file's free pages.

use std::time::Duration;

use rusqlite::{Connection, params};

use crate::storage::BUSY_TIMEOUT;
use crate::storage::sql::column::to_json;
use crate::storage::sql::column::{json, rows, value};
use crate::storage::sql::connection::FromCell;
use crate::storage::sql::fault::Fault;
use crate::study::provenance::{Masked, masked_command};

/// Timeout of waiting for readers; the next process to open the store tries again.
const PATIENCE: Duration = Duration::from_secs(1);

/// Erases the values from all rows, inside the migration's transaction, and marks the file to be
/// vacuumed.
pub(super) fn erase(connection: &Connection) -> Result<(), Fault> {
    let values = values(connection)?;
    if values.is_empty() {
        return Ok(());
    }
    for table in ["study", "study_revision"] {
        connection.execute(
            &format!(
                "UPDATE {table} SET spec = json_set(spec, '$.program.command.env',
                   json((SELECT json_group_object(key, NULL) FROM json_each({table}.spec, \
                   '$.program.command.env'))))
                 WHERE json_type(spec, '$.program.command.env') = 'object'"
            ),
            [],
        )?;
    }
    let masked = Masked::new(values.iter().map(|(name, value)| (name.as_str(), value.as_str())));
    rewrite::<String>(
        connection,
        "SELECT digest, body FROM document",
        "UPDATE document SET body = ?2 WHERE digest = ?1",
        |text| Ok(masked.text(text)),
    )?;
    let command = |text: &str| {
        let words: Vec<String> = json(text, || "the command line of a runner".to_owned())?;
        to_json(&masked_command(&words))
    };
    rewrite::<i64>(
        connection,
        "SELECT seq, lineage -> '$.command' FROM runner WHERE lineage IS NOT NULL",
        "UPDATE runner SET lineage = json_set(lineage, '$.command', json(?2)) WHERE seq = ?1",
        command,
    )?;
    rewrite::<i64>(
        connection,
        "SELECT seq, body -> '$.lineage.command' FROM event WHERE type = 'runner_described'",
        "UPDATE event SET body = json_set(body, '$.lineage.command', json(?2)) WHERE seq = ?1",
        command,
    )?;
    connection.execute("UPDATE store SET values_left = 1", [])?;
    Ok(())
}

/// Every value in any specification, with its name; a name may have had several.
fn values(connection: &Connection) -> Result<Vec<(String, String)>, Fault> {
    let sql = "SELECT DISTINCT e.key, e.value FROM (SELECT spec FROM study UNION ALL SELECT spec \
        FROM study_revision) s
        JOIN json_each(s.spec, '$.program.command.env') e WHERE e.type = 'text'";
    rows(connection, sql, (), |row| Ok((row.get(0)?, row.get(1)?)))
}

/// Rewrites the changed texts of a column, by key.
fn rewrite<K: FromCell + rusqlite::ToSql>(
    connection: &Connection,
    select: &str,
    update: &str,
    change: impl Fn(&str) -> Result<String, Fault>,
) -> Result<(), Fault> {
    let found: Vec<(K, String)> =
        rows(connection, select, (), |row| Ok((row.get(0)?, row.get(1)?)))?;
    for (key, text) in found {
        let changed = change(&text)?;
        if changed != text {
            connection.execute(update, params![key, changed])?;
        }
    }
    Ok(())
}

/// Whether the file may still contain erased data.
pub(super) fn are_left(connection: &Connection) -> bool {
    connection.query_row("SELECT values_left FROM store", [], |row| row.get(0)).unwrap_or(false)
}

/// A larger file is vacuumed only while nothing runs: writers wait for it, at most
/// [`BUSY_TIMEOUT`].
const LARGE: i64 = 256 << 20;

/// Vacuums the file if it may still contain erased data. If this process dies before it is done,
/// the next one repeats it.
pub(super) fn finish(connection: &Connection) -> Result<(), Fault> {
    finish_unless(connection, LARGE)
}

/// The same, unless something runs and the file is larger than `large` bytes.
pub(super) fn finish_unless(connection: &Connection, large: i64) -> Result<(), Fault> {
    if !are_left(connection) {
        return Ok(());
    }
    let pages: i64 = value(connection, "PRAGMA page_count", ())?;
    let page: i64 = value(connection, "PRAGMA page_size", ())?;
    let runs = "SELECT EXISTS (SELECT 1 FROM lease WHERE pid IS NOT NULL) OR EXISTS (SELECT 1 FROM \
        trial WHERE state = 'running')";
    if pages.saturating_mul(page) > large && value(connection, runs, ())? {
        return Ok(());
    }
    connection.busy_timeout(PATIENCE)?;
    let is_clean = || {
        connection.execute_batch("PRAGMA secure_delete = ON; VACUUM")?;
        // The log contained the old pages.
        let is_busy: bool =
            connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0))?;
        if !is_busy {
            connection.execute("UPDATE store SET values_left = 0", [])?;
        }
        connection.execute_batch("PRAGMA secure_delete = OFF")
    };
    // The store is usable without it.
    let _done_by_the_next = is_clean();
    connection.busy_timeout(BUSY_TIMEOUT)?;
    Ok(())
}
