//! Reads who ran a study, and for how long.

use super::column::{Cells, rows, trial_ids, value, values};
use super::connection::{Connection, params};
use super::fault::Fault;
use super::journal::entry;
use crate::storage::{StoredRunner, StudyId};
use crate::study::event::{Event, Seq, StudyEvent};
use crate::study::time::Timestamp;

const RAN: &str = "SELECT ran_micros FROM study WHERE id = ?1";

/// The runners of a study, in order.
pub(in crate::storage) fn runners(
    connection: &dyn Connection,
    study: StudyId,
) -> Result<Vec<StoredRunner>, Fault> {
    let sql = "SELECT seq, pid, host, started_at, stopped_at, lineage, slots, ran_micros, reason \
        FROM runner WHERE study_id = ?1 ORDER BY seq";
    rows(connection, sql, [study.0], |row| {
        let seq = Seq(row.get(0)?);
        let cells = Cells::of(row, || format!("table `runner`, seq {}", seq.0));
        Ok(StoredRunner {
            seq,
            pid: cells.integer(1)?,
            host: cells.get(2)?,
            slots: cells.json(6)?,
            started: Timestamp(cells.get(3)?),
            stopped: cells.get::<Option<i64>>(4)?.map(Timestamp),
            ran_micros: cells.get(7)?,
            reason: cells.get(8)?,
            provenance: cells.optional_json(5)?,
        })
    })
}

/// Microseconds of running time and, if a runner runs, when it started.
pub(in crate::storage) fn running_since(
    connection: &dyn Connection,
    study: StudyId,
) -> Result<(i64, Option<Timestamp>), Fault> {
    let ran = value(connection, RAN, [study.0])?;
    let newest = "SELECT CASE WHEN stopped_at IS NULL THEN started_at END FROM runner \
        WHERE study_id = ?1 ORDER BY seq DESC LIMIT 1";
    let since: Option<Option<i64>> = values(connection, newest, [study.0])?.pop();
    Ok((ran, since.flatten().map(Timestamp)))
}

/// The same without the time in which the study was paused and nothing ran: of a run that is idle
/// now there is no beginning; of another, the beginning is later by its idle time.
pub(in crate::storage) fn active_time(
    connection: &dyn Connection,
    study: StudyId,
) -> Result<(i64, Option<Timestamp>), Fault> {
    let (ran, Some(since)) = running_since(connection, study)? else {
        return Ok((value(connection, RAN, [study.0])?, None));
    };
    let mut idle = 0;
    for (from, to) in pauses(connection, study, since)? {
        // Trials that were running saved first. Those of an earlier run have ended before.
        let (first, last) = trial_ids(study);
        let busy = "SELECT MAX(COALESCE(ended_at, ?4)) FROM attempt WHERE trial_id BETWEEN ?1 AND \
            ?2 AND started_at < ?3";
        let end = to.map_or(i64::MAX, |to| to.0);
        let params = params![first, last, end, i64::MAX];
        let busy: Option<i64> = value(connection, busy, params)?;
        let began = busy.map_or(from.0, |busy| busy.max(from.0));
        match to {
            Some(to) => idle += to.0.saturating_sub(began).max(0),
            None if began < i64::MAX => return Ok((ran + (began - since.0 - idle).max(0), None)),
            None => {}
        }
    }
    Ok((ran, Some(Timestamp(since.0 + idle))))
}

/// From when to when a study was paused in its present run, which began at `since`.
fn pauses(
    connection: &dyn Connection,
    study: StudyId,
    since: Timestamp,
) -> Result<Vec<(Timestamp, Option<Timestamp>)>, Fault> {
    // Most studies were never paused: their journals are not searched.
    let is_paused = connection
        .exists("SELECT 1 FROM study WHERE id = ?1 AND paused_reason IS NOT NULL", [study.0])?;
    let asked = "SELECT 1 FROM request WHERE study_id = ?1 AND served_at >= ?2";
    if !is_paused && !connection.exists(asked, (study.0, since.0))? {
        return Ok(Vec::new());
    }
    let begin: i64 =
        value(connection, "SELECT MAX(seq) FROM runner WHERE study_id = ?1", [study.0])?;
    let sql = "SELECT seq, at, body FROM event WHERE study_id = ?1 AND seq > ?2 AND \
        (substr(body, 1, length(?3)) = ?3 OR substr(body, 1, length(?4)) = ?4) ORDER BY seq";
    let [pause, resume] =
        ["study_paused", "study_resumed"].map(|kind| format!("{{\"type\":\"{kind}\""));
    let changes = rows(connection, sql, params![study.0, begin, pause, resume], entry)?;
    let (mut found, mut open) = (Vec::new(), None);
    for (_, at, event) in changes {
        match event {
            Event::Study(StudyEvent::Paused { .. }) => open = Some(at),
            // It was paused before this run.
            _ => found.push((open.take().unwrap_or(since), Some(at))),
        }
    }
    if is_paused {
        found.push((open.unwrap_or(since), None));
    }
    Ok(found)
}
