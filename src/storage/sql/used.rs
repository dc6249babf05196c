//! Reads the resources used by a study: device time and checkpoints.

use std::time::Duration;

use super::connection::Connection;

use super::column::{Cells, first, number_of, rows, trial_ids, value};
use super::fault::Fault;
use super::trials::checkpoint;
use crate::storage::StudyId;
use crate::study::checkpoint::Checkpoint;
use crate::study::device::{DeviceGroup, Slot};
use crate::study::time::Timestamp;
use crate::study::trial::{TrialNumber, TrialState};
use crate::study::usage::{RECENT, Tried, Used, devices_of};

/// The resources used so far.
pub(in crate::storage) fn used(connection: &dyn Connection, study: StudyId) -> Result<Used, Fault> {
    let (least, most) = trial_ids(study);
    let busy = value(connection, "SELECT busy_micros FROM study WHERE id = ?1", [study.0])?;
    let newest = "SELECT max(id) FROM trial WHERE id BETWEEN ?1 AND ?2";
    let newest: Option<i64> = value(connection, newest, [least, most])?;
    let looked_at = i64::try_from(RECENT).unwrap_or(i64::MAX);
    // Device time is recorded at each start and end on the device; only the newest trials' ends are
    // read.
    let told = "SELECT r.device, max(r.started_at), \
        coalesce((SELECT max(f.finished_at) FROM trial f WHERE \
        f.id BETWEEN ?2 AND ?3 AND f.device = r.device), 0)
         FROM trial r WHERE r.study_id = ?1 AND r.state = 'running' AND r.started_at IS NOT NULL \
        AND r.device IS NOT NULL
         GROUP BY r.device ORDER BY r.device";
    let newest = newest.unwrap_or(least);
    let oldest = least.max(newest - looked_at + 1);
    let told = rows(connection, told, [study.0, oldest, newest], |row| {
        let cells = Cells::of(row, || format!("table `trial`, study {}", study.0));
        let devices: DeviceGroup = cells.given(0, cells.optional(0, str::parse)?)?;
        let (started, finished): (i64, i64) = (cells.get(1)?, cells.get(2)?);
        Ok((devices, Timestamp(started.max(finished))))
    })?;
    let of_each = |(devices, since): &(DeviceGroup, _)| vec![*since; devices.distinct().len()];
    let mut running: Vec<Timestamp> = told.iter().flat_map(of_each).collect();
    running.sort_unstable();
    let slots = "SELECT slots FROM runner WHERE study_id = ?1 ORDER BY seq DESC LIMIT 1";
    let slots: Vec<Slot> = first(connection, slots, [study.0], |row| {
        Cells::of(row, || format!("table `runner`, study {}", study.0)).json(0)
    })?
    .unwrap_or_default();
    let sizes = "SELECT count(bytes), coalesce(CAST(sum(bytes) AS BIGINT), 0), \
        count(*) - count(bytes) FROM checkpoint WHERE trial_id BETWEEN ?1 AND ?2";
    let sizes = first(connection, sizes, [least, most], |row| {
        let cells = Cells::of(row, || format!("table `checkpoint`, study {}", study.0));
        Ok(((cells.integer(0)?, cells.integer(1)?), cells.integer(2)?))
    })?;
    let (measured, unmeasured) = sizes.unwrap_or_default();
    Ok(Used {
        busy: micros(busy),
        running,
        recent: recent(connection, study)?,
        slots: slots.len(),
        devices: devices_of(&slots),
        measured,
        unmeasured,
    })
}

fn micros(micros: i64) -> Duration {
    Duration::from_micros(u64::try_from(micros).unwrap_or(0))
}

fn recent(connection: &dyn Connection, study: StudyId) -> Result<Vec<Tried>, Fault> {
    let sql = format!(
        "SELECT id, state, busy_micros, started_at, last_step, \
         (SELECT count(*) FROM checkpoint WHERE trial_id = trial.id AND step <= trial.last_step) \
         FROM trial WHERE id BETWEEN ?1 AND ?2 ORDER BY id DESC LIMIT {RECENT}"
    );
    let mut recent = rows(connection, &sql, trial_ids(study), |row| {
        let id: i64 = row.get(0)?;
        let cells = Cells::of(row, || format!("table `trial`, id {id}"));
        let state = cells.state(1)?;
        let started = cells.get::<Option<i64>>(3)?.map(Timestamp);
        Ok(Tried {
            state,
            busy: micros(cells.get(2)?),
            since: started.filter(|_| state == TrialState::Running),
            last_step: cells.optional_integer(4)?,
            saved: cells.integer(5)?,
        })
    })?;
    recent.reverse();
    Ok(recent)
}

/// The existing checkpoints, by trial and step.
pub(in crate::storage) fn checkpoints(
    connection: &dyn Connection,
    study: StudyId,
) -> Result<Vec<(TrialNumber, Checkpoint)>, Fault> {
    let sql = "SELECT trial_id, step, path, bytes, digest FROM checkpoint WHERE trial_id \
        BETWEEN ?1 AND ?2 ORDER BY trial_id, step, seq";
    rows(connection, sql, trial_ids(study), |row| Ok((number_of(row.get(0)?), checkpoint(row)?)))
}
