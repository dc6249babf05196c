//! Removes a study with all its rows, and records the directories of its files until they are
//! deleted.

use std::path::PathBuf;

use super::connection::{Connection, params};

use super::artifacts;
use super::column::to_json;
use super::column::{Cells, rows, trial_ids, value, values};
use super::fault::Fault;
use super::write::check_fence;
use crate::storage::{Lease, RemovedStudy, StudyId};
use crate::study::time::Timestamp;
use crate::study::tracked::NO_SAMPLER;

/// Removes the study of the lease. Its directories are recorded in the same transaction, so that a
/// crash leaves no unknown files.
pub(in crate::storage) fn remove_study(
    connection: &dyn Connection,
    lease: &Lease,
    now: Timestamp,
    directories: &[PathBuf],
) -> Result<(), Fault> {
    check_fence(connection, lease)?;
    let study = lease.study;
    let name: String = value(connection, "SELECT name FROM study WHERE id = ?1", [study.0])?;
    // As with single runs, their data must not remain in free pages.
    let of_runs = "UPDATE store SET values_left = 1 WHERE EXISTS \
        (SELECT 1 FROM study WHERE id = ?1 AND json_extract(spec, '$.sampler.name') = ?2)";
    connection.execute(of_runs, params![study.0, NO_SAMPLER])?;
    let runners = "SELECT seq FROM runner WHERE study_id = ?1";
    let runners: Vec<i64> = values(connection, runners, [study.0])?;
    remove_documents(connection, &to_json(&runners)?)?;
    remove_rows(connection, trial_ids(study), &[])?;
    for table in tables_with(connection, "study_id")? {
        let sql = format!("DELETE FROM \"{table}\" WHERE study_id = ?1");
        connection.execute(&sql, [study.0])?;
    }
    connection.execute("DELETE FROM study WHERE id = ?1", [study.0])?;
    let files = if directories.is_empty() { None } else { Some(to_json(&directories)?) };
    connection.execute(
        "INSERT INTO removed_study (id, name, at, files) VALUES (?1, ?2, ?3, ?4)",
        params![study.0, name, now.0, files],
    )?;
    Ok(())
}

/// Removes the rows of these trials from all tables but `trial` and `kept`.
pub(in crate::storage) fn remove_rows(
    connection: &dyn Connection,
    ids: (i64, i64),
    kept: &[&str],
) -> Result<(), Fault> {
    artifacts::remove_documents(connection, ids)?;
    let series = "SELECT id FROM series WHERE trial_id BETWEEN ?1 AND ?2";
    for sql in [
        format!(
            "DELETE FROM series_block WHERE id IN (SELECT block FROM series_chunk \
             WHERE series_id IN ({series}))"
        ),
        format!("DELETE FROM series_chunk WHERE series_id IN ({series})"),
    ] {
        connection.execute(&sql, ids)?;
    }
    for table in tables_with(connection, "trial_id")? {
        if !kept.contains(&table.as_str()) {
            let sql = format!("DELETE FROM \"{table}\" WHERE trial_id BETWEEN ?1 AND ?2");
            connection.execute(&sql, ids)?;
        }
    }
    Ok(())
}

/// The tables that have a column of this name, including those of later schema versions.
fn tables_with(connection: &dyn Connection, column: &str) -> Result<Vec<String>, Fault> {
    values(connection, connection.dialect().tables_with, [column])
}

/// Removes the texts that only these runners refer to; `runners` is a JSON array of their start
/// events.
pub(in crate::storage) fn remove_documents(
    connection: &dyn Connection,
    runners: &str,
) -> Result<(), Fault> {
    let of = |which: &str| {
        format!(
            "EXISTS (SELECT 1 FROM runner r WHERE r.seq {which} \
             (SELECT CAST(value AS BIGINT) FROM json_each(?1)) \
             AND instr(r.lineage, document.digest) > 0)"
        )
    };
    let sql = format!("DELETE FROM document WHERE {} AND NOT {}", of("IN"), of("NOT IN"));
    connection.execute(&sql, [runners])?;
    Ok(())
}

/// The removed studies whose files may not all be deleted yet.
pub(in crate::storage) fn removed_studies(
    connection: &dyn Connection,
) -> Result<Vec<RemovedStudy>, Fault> {
    let sql = "SELECT id, name, files FROM removed_study WHERE files IS NOT NULL ORDER BY id";
    rows(connection, sql, (), |row| {
        let id: StudyId = row.get(0)?;
        let cells = Cells::of(row, || format!("table `removed_study`, id {}", id.0));
        Ok(RemovedStudy { id, name: cells.get(1)?, directories: cells.json(2)? })
    })
}

/// Records that all files of a removed study are deleted.
pub(in crate::storage) fn files_removed(
    connection: &dyn Connection,
    study: StudyId,
) -> Result<(), Fault> {
    connection.execute("UPDATE removed_study SET files = NULL WHERE id = ?1", [study.0])?;
    Ok(())
}
