//! Rows of artifacts, and their stored texts.

use super::connection::{Connection, params};

use super::column::{Cells, first, number_of, rows, to_json, trial_id, trial_ids, values};
use super::fault::Fault;
use crate::storage::StudyId;
use crate::study::artifact::{Artifact, StoredArtifact};
use crate::study::time::Timestamp;
use crate::study::trial::TrialNumber;

/// Writes an artifact as the next version of its name, unless the present one has the same content.
pub(in crate::storage) fn save(
    connection: &dyn Connection,
    (trial, seq, now): (i64, i64, Timestamp),
    artifact: &Artifact,
    content: Option<&str>,
) -> Result<(), Fault> {
    let sql = "SELECT version, body FROM artifact WHERE trial_id = ?1 AND name = ?2 \
        ORDER BY version DESC LIMIT 1";
    let newest = first(connection, sql, params![trial, artifact.name], |row| {
        let cells = Cells::of(row, || format!("table `artifact`, trial {trial}"));
        Ok((cells.get::<i64>(0)?, cells.json::<Artifact>(1)?))
    })?;
    if newest.as_ref().is_some_and(|(_, newest)| newest.is_repeated_by(artifact)) {
        return Ok(());
    }
    let version = newest.map_or(1, |(version, _)| version + 1);
    let sql = "INSERT INTO artifact (trial_id, name, version, seq, at, digest, body) VALUES (?1, \
        ?2, ?3, ?4, ?5, ?6, ?7)";
    let (name, digest, body) = (&artifact.name, &artifact.digest, to_json(artifact)?);
    connection.execute(sql, params![trial, name, version, seq, now.0, digest, body])?;
    if let Some(content) = content {
        connection.execute(
            "INSERT INTO document (digest, body) VALUES (?1, ?2) ON CONFLICT DO NOTHING",
            params![artifact.digest, content],
        )?;
    }
    Ok(())
}

/// The artifacts of one trial, or of all, in the order in which they were logged.
pub(in crate::storage) fn artifacts(
    connection: &dyn Connection,
    study: StudyId,
    trial: Option<TrialNumber>,
) -> Result<Vec<StoredArtifact>, Fault> {
    let (least, most) = match trial {
        Some(trial) => {
            let id = trial_id(study, trial)?;
            (id, id)
        }
        None => trial_ids(study),
    };
    let sql = "SELECT trial_id, version, at, body, name, digest FROM artifact \
        WHERE trial_id BETWEEN ?1 AND ?2 ORDER BY seq";
    rows(connection, sql, [least, most], |row| {
        let trial = number_of(row.get(0)?);
        let cells = Cells::of(row, || format!("table `artifact`, trial {trial}"));
        Ok(StoredArtifact {
            trial,
            version: cells.get(1)?,
            at: Timestamp(cells.get(2)?),
            // The columns that rows are found by hold, should the rest differ.
            artifact: Artifact {
                name: cells.get(4)?,
                digest: cells.get(5)?,
                ..cells.json::<Artifact>(3)?
            },
        })
    })
}

/// Removes the texts that only artifacts of these trials refer to.
pub(in crate::storage) fn remove_documents(
    connection: &dyn Connection,
    (least, most): (i64, i64),
) -> Result<(), Fault> {
    connection.execute(
        "DELETE FROM document WHERE digest IN (SELECT digest FROM artifact WHERE trial_id BETWEEN \
         ?1 AND ?2) AND NOT EXISTS (SELECT 1 FROM artifact a WHERE a.digest = document.digest AND \
         a.trial_id NOT BETWEEN ?1 AND ?2)",
        [least, most],
    )?;
    Ok(())
}

/// A text stored by its digest.
pub(in crate::storage) fn document(
    connection: &dyn Connection,
    digest: &str,
) -> Result<Option<String>, Fault> {
    Ok(values(connection, "SELECT body FROM document WHERE digest = ?1", [digest])?.pop())
}
