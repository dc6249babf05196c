//! Reads the attempts of trials.

use std::path::PathBuf;

use super::column::{Cells, number_of, rows, trial_id, trial_ids};
use super::connection::Connection;
use super::fault::Fault;
use crate::storage::{Attempt, StudyId};
use crate::study::device::{DeviceGroup, Slot};
use crate::study::event::Seq;
use crate::study::time::Timestamp;
use crate::study::trial::{AttemptNumber, TrialNumber};

/// Attempts of one trial, or of all.
pub(in crate::storage) fn attempts(
    connection: &dyn Connection,
    study: StudyId,
    trial: Option<TrialNumber>,
) -> Result<Vec<Attempt>, Fault> {
    let range = match trial.map(|number| trial_id(study, number)) {
        None => trial_ids(study),
        Some(Ok(id)) => (id, id),
        Some(Err(_)) => return Ok(Vec::new()),
    };
    let sql = "SELECT trial_id, attempt, slot, device, pid, pid_started, started_at, ended_at, \
        outcome, reason, runner, resume_step, resume_path, until
        FROM attempt WHERE trial_id BETWEEN ?1 AND ?2 ORDER BY trial_id, attempt";
    rows(connection, sql, range, |row| {
        let trial = number_of(row.get(0)?);
        let cells = Cells::of(row, || format!("table `attempt`, study {}, trial {trial}", study.0));
        let devices: DeviceGroup = cells.given(3, cells.optional(3, str::parse)?)?;
        let resume_path = cells.get::<Option<String>>(12)?.map(PathBuf::from);
        Ok(Attempt {
            trial,
            attempt: AttemptNumber(cells.integer(1)?),
            slot: Slot::on(cells.integer(2)?, devices),
            process: cells.optional_integer(4)?.zip(cells.optional_integer(5)?),
            started: Timestamp(cells.get(6)?),
            ended: cells.get::<Option<i64>>(7)?.map(Timestamp),
            end: cells.optional_json(8)?,
            reason: cells.get(9)?,
            runner: cells.get::<Option<i64>>(10)?.map(Seq),
            resume: cells.optional_integer(11)?.zip(resume_path),
            until: cells.optional_integer(13)?,
        })
    })
}
