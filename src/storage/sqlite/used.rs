//! Reads what a study used: time of devices, and checkpoints.

use std::path::PathBuf;
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension as _, Row, params};

use super::column::{from_integer, number_of, trial_ids};
use super::fault::Fault;
use super::read::require;
use crate::storage::StudyId;
use crate::study::checkpoint::Checkpoint;
use crate::study::device::Slot;
use crate::study::time::Timestamp;
use crate::study::trial::{TrialNumber, TrialState};
use crate::study::usage::{RECENT, Tried, Used, devices_of};

/// What the study used so far.
pub(super) fn used(connection: &Connection, study: StudyId) -> Result<Used, Fault> {
    require(connection, study)?;
    let (first, last) = trial_ids(study);
    let busy: i64 = connection
        .prepare_cached("SELECT busy_micros FROM study WHERE id = ?1")?
        .query_row([study.0], |row| row.get(0))?;
    // A device's time is told at each start and end there: the ends of the newest trials are looked
    // at.
    let mut statement = connection.prepare_cached(
        "SELECT max(max(r.started_at),
           coalesce((SELECT max(f.finished_at) FROM trial f WHERE f.id BETWEEN max(?2, ?3 - ?4 + \
           1) AND ?3 AND f.device = r.device), 0))
         FROM trial r WHERE r.study_id = ?1 AND r.state = 'running' AND r.started_at IS NOT NULL \
         AND r.device IS NOT NULL
         GROUP BY r.device ORDER BY r.device",
    )?;
    let newest: Option<i64> = connection
        .prepare_cached("SELECT max(id) FROM trial WHERE id BETWEEN ?1 AND ?2")?
        .query_row([first, last], |row| row.get(0))?;
    let looked_at = i64::try_from(RECENT).unwrap_or(i64::MAX);
    let told = statement
        .query_map([study.0, first, newest.unwrap_or(first), looked_at], |row| {
            row.get(0).map(Timestamp)
        })?;
    let mut running: Vec<Timestamp> = told.collect::<Result<_, _>>()?;
    running.sort_unstable();
    let slots: Option<String> = connection
        .prepare_cached("SELECT slots FROM runner WHERE study_id = ?1 ORDER BY seq DESC LIMIT 1")?
        .query_row([study.0], |row| row.get(0))
        .optional()?;
    let slots: Vec<Slot> = slots
        .map(|slots| serde_json::from_str(&slots))
        .transpose()
        .map_err(|error| {
            Fault::corrupt(
                format!("table `runner`, study {}, column `slots`", study.0),
                error.to_string(),
            )
        })?
        .unwrap_or_default();
    let (measured, bytes, all) = connection
        .prepare_cached(
            "SELECT count(bytes), coalesce(sum(bytes), 0), count(*) FROM checkpoint \
            WHERE trial_id BETWEEN ?1 AND ?2",
        )?
        .query_row([first, last], |row| {
            Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?, row.get::<_, i64>(2)?))
        })?;
    let place = || format!("what study {} used", study.0);
    Ok(Used {
        busy: micros(busy),
        running,
        recent: recent(connection, first, last)?,
        slots: slots.len(),
        devices: devices_of(&slots),
        measured: (from_integer(measured, place)?, from_integer(bytes, place)?),
        unmeasured: from_integer(all - measured, place)?,
    })
}

fn micros(micros: i64) -> Duration {
    Duration::from_micros(u64::try_from(micros).unwrap_or(0))
}

fn recent(connection: &Connection, first: i64, last: i64) -> Result<Vec<Tried>, Fault> {
    let mut statement = connection.prepare_cached(
        "SELECT id, state, busy_micros, started_at, last_step FROM trial WHERE id \
            BETWEEN ?1 AND ?2 ORDER BY id DESC LIMIT ?3",
    )?;
    let most = i64::try_from(RECENT).unwrap_or(i64::MAX);
    let mut rows = statement.query(params![first, last, most])?;
    let mut recent = Vec::new();
    while let Some(row) = rows.next()? {
        recent.push(tried(row)?);
    }
    recent.reverse();
    Ok(recent)
}

fn tried(row: &Row<'_>) -> Result<Tried, Fault> {
    let id: i64 = row.get(0)?;
    let place = |column: &str| format!("table `trial`, id {id}, column `{column}`");
    let word = row.get_ref(1)?.as_str().map_err(rusqlite::Error::from)?;
    let state = TrialState::from_word(word)
        .ok_or_else(|| Fault::corrupt(place("state"), format!("`{word}` is not a state")))?;
    let since =
        row.get::<_, Option<i64>>(3)?.map(Timestamp).filter(|_| state == TrialState::Running);
    let last_step = row
        .get::<_, Option<i64>>(4)?
        .map(|step| from_integer(step, || place("last_step")))
        .transpose()?;
    Ok(Tried { state, busy: micros(row.get(2)?), since, last_step })
}

/// The checkpoints that are there, by trial and step.
pub(super) fn checkpoints(
    connection: &Connection,
    study: StudyId,
) -> Result<Vec<(TrialNumber, Checkpoint)>, Fault> {
    require(connection, study)?;
    let (first, last) = trial_ids(study);
    let mut statement = connection.prepare_cached(
        "SELECT trial_id, step, path, bytes FROM checkpoint WHERE trial_id \
            BETWEEN ?1 AND ?2 ORDER BY trial_id, step, seq",
    )?;
    let mut rows = statement.query([first, last])?;
    let mut checkpoints = Vec::new();
    while let Some(row) = rows.next()? {
        let place = || format!("table `checkpoint`, study {}", study.0);
        let bytes =
            row.get::<_, Option<i64>>(3)?.map(|bytes| from_integer(bytes, place)).transpose()?;
        let checkpoint = Checkpoint {
            step: from_integer(row.get(1)?, place)?,
            path: PathBuf::from(row.get::<_, String>(2)?),
            bytes,
        };
        checkpoints.push((number_of(row.get(0)?), checkpoint));
    }
    Ok(checkpoints)
}
