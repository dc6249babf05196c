//! Reads what became of trials, all of them at first and then those that the journal speaks of.

use std::collections::BTreeMap;

use rusqlite::{Connection, Row, params};

use super::column::{from_integer, from_real, number_of, trial_id, trial_ids};
use super::fault::Fault;
use super::read::study_row;
use super::trials::param_value;
use crate::storage::{Outcome, OutcomeCursor, StudyId};
use crate::study::event::Seq;
use crate::study::params::Params;
use crate::study::time::Timestamp;
use crate::study::trial::{TrialNumber, TrialState};

/// So many changed trials are looked up one by one; of more, the whole range is read.
const LOOKED_UP: usize = 2000;

/// The outcomes of trials that were created or changed since the cursor.
pub(super) fn outcomes(
    connection: &Connection,
    study: StudyId,
    after: OutcomeCursor,
) -> Result<(Vec<Outcome>, OutcomeCursor), Fault> {
    let revision = study_row(connection, study)?.revision;
    let newest = "SELECT coalesce(max(seq), 0) FROM event WHERE study_id = ?1";
    let seq = Seq(connection.prepare_cached(newest)?.query_row([study.0], |row| row.get(0))?);
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
fn changed(connection: &Connection, study: StudyId, seq: Seq) -> Result<Vec<i64>, Fault> {
    let mut statement = connection.prepare_cached(
        "SELECT DISTINCT body ->> '$.trial' AS number FROM event WHERE study_id = ?1 AND seq > ?2 \
         AND number IS NOT NULL ORDER BY number",
    )?;
    let mut rows = statement.query(params![study.0, seq.0])?;
    let mut ids = Vec::new();
    while let Some(row) = rows.next()? {
        let number = from_integer(row.get(0)?, || format!("table `event`, study {}", study.0))?;
        // Events about trials that cannot exist change nothing.
        ids.extend(trial_id(study, TrialNumber(number)));
    }
    Ok(ids)
}

fn range(
    connection: &Connection,
    study: StudyId,
    first: i64,
    last: i64,
) -> Result<Vec<Outcome>, Fault> {
    let mut statement = connection.prepare_cached(
        "SELECT t.id, t.state, v.trial_id, v.value, t.last_step, t.last_value, t.busy_micros, \
         t.created_at, t.finished_at
         FROM trial t LEFT JOIN trial_value v ON v.trial_id = t.id AND v.idx = 0 WHERE t.id \
         BETWEEN ?1 AND ?2 ORDER BY t.id",
    )?;
    let mut rows = statement.query([first, last])?;
    let mut outcomes = Vec::new();
    while let Some(row) = rows.next()? {
        outcomes.push(outcome(row)?);
    }
    add_params(connection, study, first, last, &mut outcomes)?;
    Ok(outcomes)
}

#[expect(clippy::cast_precision_loss, reason = "microseconds of a study stay far below 2^53")]
fn outcome(row: &Row<'_>) -> Result<Outcome, Fault> {
    let id: i64 = row.get(0)?;
    let place = |column: &str| format!("table `trial`, id {id}, column `{column}`");
    let word = row.get_ref(1)?.as_str().map_err(rusqlite::Error::from)?;
    let last_step = row
        .get::<_, Option<i64>>(4)?
        .map(|step| from_integer(step, || place("last_step")))
        .transpose()?;
    let last_value = from_real(row.get(5)?);
    Ok(Outcome {
        number: number_of(id),
        state: TrialState::from_word(word)
            .ok_or_else(|| Fault::corrupt(place("state"), format!("`{word}` is not a state")))?,
        value: if row.get::<_, Option<i64>>(2)?.is_some() {
            Some(from_real(row.get(3)?))
        } else {
            None
        },
        last_step,
        last_value: last_step.map(|_| last_value),
        params: Params::new(),
        seconds: row.get::<_, i64>(6)? as f64 / 1e6,
        created: Timestamp(row.get(7)?),
        finished: row.get::<_, Option<i64>>(8)?.map(Timestamp),
    })
}

fn add_params(
    connection: &Connection,
    study: StudyId,
    first: i64,
    last: i64,
    outcomes: &mut [Outcome],
) -> Result<(), Fault> {
    let mut statement =
        connection.prepare_cached("SELECT idx, name FROM dimension WHERE study_id = ?1")?;
    let names: BTreeMap<i64, String> = statement
        .query_map([study.0], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<Result<_, _>>()?;
    let mut statement = connection.prepare_cached(
        "SELECT trial_id, dimension, value FROM param WHERE trial_id \
            BETWEEN ?1 AND ?2 ORDER BY trial_id",
    )?;
    let mut rows = statement.query([first, last])?;
    let mut waiting = outcomes.iter_mut();
    let mut current = waiting.next();
    while let Some(row) = rows.next()? {
        let number = number_of(row.get(0)?);
        while current.as_ref().is_some_and(|outcome| outcome.number < number) {
            current = waiting.next();
        }
        if let Some(outcome) = current.as_mut().filter(|outcome| outcome.number == number) {
            let dimension: i64 = row.get(1)?;
            let place = || {
                format!("table `param`, study {}, trial {number}, dimension {dimension}", study.0)
            };
            let name = names
                .get(&dimension)
                .ok_or_else(|| Fault::corrupt(place(), "there is no such dimension"))?;
            outcome.params.insert(
                name.as_str(),
                param_value(row.get_ref(2)?.as_str().map_err(rusqlite::Error::from)?, place)?,
            );
        }
    }
    Ok(())
}
