//! Reads the outcomes of trials: all of them at first, then those with new events.

use std::sync::Arc;

use super::connection::{Connection, Row};

use super::column::{Cells, from_real, number_of, rows, trial_id, trial_ids};
use super::fault::Fault;
use super::journal::last_event;
use super::read::study_row;
use super::shown_params;
use super::trials::{add_values, dimensions, objectives, param};
use crate::storage::{OutcomeCursor, StudyId};
use crate::study::event::Seq;
use crate::study::outcome::TrialSummary;
use crate::study::params::Params;
use crate::study::time::Timestamp;
use crate::study::trial::TrialNumber;

/// Maximum number of changed trials that are looked up individually; beyond it the whole range is
/// read.
const LOOKED_UP: usize = 2000;

/// The outcomes of trials that were created or changed since the cursor.
pub(in crate::storage) fn outcomes(
    connection: &dyn Connection,
    study: StudyId,
    after: OutcomeCursor,
) -> Result<(Vec<TrialSummary>, OutcomeCursor), Fault> {
    let revision = study_row(connection, study)?.revision;
    let seq = last_event(connection, study)?;
    let cursor = OutcomeCursor { seq, revision };
    let (first, last) = trial_ids(study);
    if after.seq == Seq(0) || after.revision != revision {
        return Ok((range(connection, study, first, last)?, cursor));
    }
    if after.seq == seq {
        return Ok((Vec::new(), cursor));
    }
    let changed = changed(connection, study, after.seq)?;
    let mut outcomes = Vec::new();
    if let (true, Some(from), Some(to)) =
        (changed.len() > LOOKED_UP, changed.first(), changed.last())
    {
        outcomes = range(connection, study, *from, *to)?;
        outcomes.retain(|outcome| {
            trial_id(study, outcome.number).is_ok_and(|id| changed.binary_search(&id).is_ok())
        });
    } else {
        for id in changed {
            outcomes.append(&mut range(connection, study, id, id)?);
        }
    }
    Ok((outcomes, cursor))
}

/// The ids of trials that events after `seq` are about, ascending.
fn changed(connection: &dyn Connection, study: StudyId, seq: Seq) -> Result<Vec<i64>, Fault> {
    let sql = "SELECT DISTINCT CAST(json_extract(body, '$.trial') AS BIGINT) AS number FROM event \
        WHERE study_id = ?1 AND seq > ?2 AND json_extract(body, '$.trial') IS NOT NULL ORDER BY \
        number";
    let numbers = rows(connection, sql, (study.0, seq.0), |row| {
        Cells::of(row, || format!("table `event`, study {}", study.0)).integer(0)
    })?;
    // Events about trials that cannot exist change nothing.
    Ok(numbers.into_iter().flat_map(|number| trial_id(study, TrialNumber(number))).collect())
}

fn range(
    connection: &dyn Connection,
    study: StudyId,
    first: i64,
    last: i64,
) -> Result<Vec<TrialSummary>, Fault> {
    let sql = "SELECT t.id, t.state, v.trial_id, v.value, t.last_step, t.last_value, \
        t.busy_micros, t.created_at, t.finished_at, t.hidden, t.violation
        FROM trial t LEFT JOIN trial_value v ON v.trial_id = t.id AND v.idx = 0 \
        WHERE t.id BETWEEN ?1 AND ?2 ORDER BY t.id";
    let mut outcomes = rows(connection, sql, [first, last], outcome)?;
    if objectives(connection, study)?.len() > 1 {
        for outcome in &mut outcomes {
            outcome.value = None;
        }
        add_values(connection, [first, last], |number, value| {
            let place = outcomes.binary_search_by_key(&number, |outcome| outcome.number);
            if let Some(outcome) = place.ok().and_then(|place| outcomes.get_mut(place)) {
                outcome.values.push(value);
            }
        })?;
    }
    let names = dimensions(connection, study)?;
    let sql = "SELECT trial_id, dimension, value FROM param WHERE trial_id BETWEEN ?1 AND ?2 ORDER \
        BY trial_id";
    let mut waiting = outcomes.iter_mut().peekable();
    connection.for_each(sql, [first, last], |row| {
        let (number, name, value) = param(row, &names)?;
        while waiting.next_if(|outcome| outcome.number < number).is_some() {}
        if let Some(outcome) = waiting.peek_mut().filter(|outcome| outcome.number == number) {
            outcome.params.insert(Arc::clone(name), value);
        }
        Ok(())
    })?;
    drop(waiting);
    for (number, params) in shown_params::replaced(connection, study, [first, last])? {
        let place = outcomes.binary_search_by_key(&number, |outcome| outcome.number);
        if let Some(outcome) = place.ok().and_then(|place| outcomes.get_mut(place)) {
            outcome.params = params;
        }
    }
    Ok(outcomes)
}

#[expect(clippy::cast_precision_loss, reason = "microseconds of a study stay far below 2^53")]
fn outcome(row: &dyn Row) -> Result<TrialSummary, Fault> {
    let id: i64 = row.get(0)?;
    let cells = Cells::of(row, || format!("table `trial`, id {id}"));
    let (last_step, last_value) = (cells.optional_integer(4)?, from_real(cells.get(5)?));
    Ok(TrialSummary {
        number: number_of(id),
        state: cells.state(1)?,
        value: cells.value(2)?,
        last_step,
        last_value: last_step.map(|_| last_value),
        params: Params::new(),
        seconds: cells.get::<i64>(6)? as f64 / 1e6,
        created: Timestamp(cells.get(7)?),
        finished: cells.get::<Option<i64>>(8)?.map(Timestamp),
        hidden: cells.get(9)?,
        values: Vec::new(),
        violation: cells.get(10)?,
    })
}
