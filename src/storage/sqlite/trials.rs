//! Rebuilds trials from the tables: one trial, a page of them, or all of a study.

use std::collections::BTreeMap;
use std::path::PathBuf;

use rusqlite::{Connection, OptionalExtension as _, Row, params};

use super::column::{from_integer, from_real, json, number_of, trial_id, trial_ids};
use super::fault::Fault;
use crate::storage::StudyId;
use crate::study::checkpoint::Checkpoint;
use crate::study::decision::Decision;
use crate::study::metric::Direction;
use crate::study::params::{Params, Value};
use crate::study::time::Timestamp;
use crate::study::trial::{DecisionAtStep, Hold, Note, Trial, TrialNumber, TrialState};

/// All trials by number.
pub(super) fn all(connection: &Connection, study: StudyId) -> Result<Vec<Trial>, Fault> {
    let (first, last) = trial_ids(study);
    let trials = Loader::new(connection, study)?.range(first, last)?;
    match (0..).zip(&trials).find(|(number, trial)| trial.number != TrialNumber(*number)) {
        Some((number, _)) => Err(Fault::corrupt(
            format!("table `trial`, study {}", study.0),
            format!("trial {number} is missing"),
        )),
        None => Ok(trials),
    }
}

/// One trial.
pub(super) fn one(
    connection: &Connection,
    study: StudyId,
    number: TrialNumber,
) -> Result<Option<Trial>, Fault> {
    let Ok(id) = trial_id(study, number) else { return Ok(None) };
    Ok(Loader::new(connection, study)?.range(id, id)?.pop())
}

/// The trials with these ids, in this order.
pub(super) fn listed(
    connection: &Connection,
    study: StudyId,
    ids: &[i64],
) -> Result<Vec<Trial>, Fault> {
    let loader = Loader::new(connection, study)?;
    let mut trials = Vec::with_capacity(ids.len());
    for id in ids {
        trials.append(&mut loader.range(*id, *id)?);
    }
    Ok(trials)
}

/// The trials with ids from `first` to `last`, by number.
pub(super) fn range(
    connection: &Connection,
    study: StudyId,
    first: i64,
    last: i64,
) -> Result<Vec<Trial>, Fault> {
    Loader::new(connection, study)?.range(first, last)
}

/// The direction of the study's first objective.
pub(super) fn direction(connection: &Connection, study: StudyId) -> Result<Direction, Fault> {
    let mut statement = connection
        .prepare_cached("SELECT direction FROM objective WHERE study_id = ?1 AND idx = 0")?;
    let word: String = statement.query_row([study.0], |row| row.get(0))?;
    Ok(if word == Direction::Maximize.as_str() { Direction::Maximize } else { Direction::Minimize })
}

/// What all trials of a study share.
struct Loader<'a> {
    connection: &'a Connection,
    study: StudyId,
    dimensions: BTreeMap<i64, String>,
    metric: Option<i64>,
}

impl<'a> Loader<'a> {
    fn new(connection: &'a Connection, study: StudyId) -> Result<Self, Fault> {
        let mut statement =
            connection.prepare_cached("SELECT idx, name FROM dimension WHERE study_id = ?1")?;
        let dimensions = statement
            .query_map([study.0], |row| Ok((row.get(0)?, row.get(1)?)))?
            .collect::<Result<_, _>>()?;
        let mut statement = connection.prepare_cached(
            "SELECT m.id FROM objective o JOIN metric m ON m.name = \
                o.metric WHERE o.study_id = ?1 AND o.idx = 0",
        )?;
        let metric = statement.query_row([study.0], |row| row.get(0)).optional()?;
        Ok(Loader { connection, study, dimensions, metric })
    }

    /// The trials with ids from `first` to `last`, by number.
    fn range(&self, first: i64, last: i64) -> Result<Vec<Trial>, Fault> {
        let mut trials = self.rows(first, last)?;
        self.add_params(&mut trials, first, last)?;
        self.add_curves(&mut trials, first, last)?;
        self.add_decisions(&mut trials, first, last)?;
        self.add_checkpoints(&mut trials, first, last)?;
        self.add_notes(&mut trials, first, last)?;
        self.add_tags(&mut trials, first, last)?;
        Ok(trials)
    }

    fn rows(&self, first: i64, last: i64) -> Result<Vec<Trial>, Fault> {
        let mut statement = self.connection.prepare_cached(
            "SELECT t.id, t.state, t.origin, v.trial_id, v.value, t.last_metrics, t.attempts, \
             t.device, t.until, t.reason, t.created_at,
                    t.started_at, t.finished_at, t.busy_micros, t.failures, t.hold, t.continued, \
                    t.violation
             FROM trial t LEFT JOIN trial_value v ON v.trial_id = t.id AND v.idx = 0 WHERE t.id \
             BETWEEN ?1 AND ?2 ORDER BY t.id",
        )?;
        let mut rows = statement.query(params![first, last])?;
        let mut trials = Vec::new();
        while let Some(row) = rows.next()? {
            trials.push(trial(row)?);
        }
        Ok(trials)
    }

    fn add_params(&self, trials: &mut [Trial], first: i64, last: i64) -> Result<(), Fault> {
        self.add(
            trials,
            "SELECT trial_id, dimension, value FROM param WHERE trial_id BETWEEN ?1 AND ?2",
            params![first, last],
            |trial, row| {
                let dimension: i64 = row.get(1)?;
                let place = || {
                    format!(
                        "table `param`, study {}, trial {}, dimension {dimension}",
                        self.study.0, trial.number
                    )
                };
                let name = self
                    .dimensions
                    .get(&dimension)
                    .ok_or_else(|| Fault::corrupt(place(), "there is no such dimension"))?;
                let value =
                    param_value(row.get_ref(2)?.as_str().map_err(rusqlite::Error::from)?, place)?;
                trial.params.insert(name.clone(), value);
                Ok(())
            },
        )
    }

    fn add_curves(&self, trials: &mut [Trial], first: i64, last: i64) -> Result<(), Fault> {
        let Some(metric) = self.metric else { return Ok(()) };
        let sql = "SELECT trial_id, step, value FROM report WHERE metric_id = ?3 AND trial_id \
            BETWEEN ?1 AND ?2 ORDER BY trial_id, step";
        self.add(trials, sql, params![first, last, metric], |trial, row| {
            let step = from_integer(row.get(1)?, || {
                format!("table `report`, study {}, trial {}", self.study.0, trial.number)
            })?;
            trial.curve.push((step, from_real(row.get(2)?)));
            Ok(())
        })
    }

    fn add_decisions(&self, trials: &mut [Trial], first: i64, last: i64) -> Result<(), Fault> {
        let sql = "SELECT trial_id, step, verdict, reason FROM decision WHERE trial_id BETWEEN ?1 \
            AND ?2 ORDER BY trial_id, step";
        self.add(trials, sql, params![first, last], |trial, row| {
            let place =
                || format!("table `decision`, study {}, trial {}", self.study.0, trial.number);
            let step = from_integer(row.get(1)?, place)?;
            let word: String = row.get(2)?;
            let reason = row.get::<_, Option<String>>(3)?;
            let reason = reason.map(|text| json(&text, place)).transpose()?;
            let verdict = match (word.as_str(), reason) {
                ("continue", reason) => Decision::Continue(reason),
                ("pause", Some(reason)) => Decision::Pause(reason),
                ("stop", Some(reason)) => Decision::Stop(reason),
                _ => {
                    return Err(Fault::corrupt(
                        place(),
                        format!("`{word}` is not a verdict, or lacks its reason"),
                    ));
                }
            };
            trial.decisions.push(DecisionAtStep { step, verdict });
            Ok(())
        })
    }

    fn add_checkpoints(&self, trials: &mut [Trial], first: i64, last: i64) -> Result<(), Fault> {
        let sql = "SELECT trial_id, step, path, bytes FROM checkpoint WHERE trial_id BETWEEN ?1 \
            AND ?2 ORDER BY trial_id, step, seq";
        self.add(trials, sql, params![first, last], |trial, row| {
            let step = from_integer(row.get(1)?, || {
                format!("table `checkpoint`, study {}, trial {}", self.study.0, trial.number)
            })?;
            let place =
                || format!("table `checkpoint`, study {}, trial {}", self.study.0, trial.number);
            let bytes = row
                .get::<_, Option<i64>>(3)?
                .map(|bytes| from_integer(bytes, place))
                .transpose()?;
            trial.checkpoints.push(Checkpoint {
                step,
                path: PathBuf::from(row.get::<_, String>(2)?),
                bytes,
            });
            Ok(())
        })
    }

    fn add_notes(&self, trials: &mut [Trial], first: i64, last: i64) -> Result<(), Fault> {
        let sql = "SELECT trial_id, at, text FROM trial_note WHERE trial_id BETWEEN ?1 AND ?2 \
            ORDER BY trial_id, seq";
        self.add(trials, sql, params![first, last], |trial, row| {
            trial.notes.push(Note { at: Timestamp(row.get(1)?), text: row.get(2)? });
            Ok(())
        })
    }

    fn add_tags(&self, trials: &mut [Trial], first: i64, last: i64) -> Result<(), Fault> {
        let sql = "SELECT trial_id, tag FROM trial_tag WHERE trial_id BETWEEN ?1 AND ?2 ORDER BY \
            trial_id, tag";
        self.add(trials, sql, params![first, last], |trial, row| {
            trial.tags.push(row.get(1)?);
            Ok(())
        })
    }

    /// Hands each row of a query (its first column a trial's id) to the trial it is about.
    fn add(
        &self,
        trials: &mut [Trial],
        sql: &str,
        params: &[&dyn rusqlite::ToSql],
        mut take: impl FnMut(&mut Trial, &Row<'_>) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        let mut statement = self.connection.prepare_cached(sql)?;
        let mut rows = statement.query(params)?;
        while let Some(row) = rows.next()? {
            let number = number_of(row.get(0)?);
            // Trials have the numbers from that of the first one on, without gaps.
            let index = trials
                .first()
                .and_then(|first| number.0.checked_sub(first.number.0))
                .and_then(|index| usize::try_from(index).ok());
            let trial = index
                .and_then(|index| trials.get_mut(index))
                .filter(|trial| trial.number == number);
            let missing = || {
                Fault::corrupt(
                    format!("table `trial`, study {}", self.study.0),
                    format!("trial {number} is missing"),
                )
            };
            take(trial.ok_or_else(missing)?, row)?;
        }
        Ok(())
    }
}

/// A column that holds a word of a few, or nothing.
fn word_of<T>(
    row: &Row<'_>,
    column: usize,
    parse: fn(&str) -> Option<T>,
    place: impl FnOnce() -> String,
) -> Result<Option<T>, Fault> {
    let Some(word) = row.get::<_, Option<String>>(column)? else { return Ok(None) };
    parse(&word)
        .map(Some)
        .ok_or_else(|| Fault::corrupt(place(), format!("`{word}` means nothing here")))
}

fn trial(row: &Row<'_>) -> Result<Trial, Fault> {
    let id: i64 = row.get(0)?;
    let place = |column: &str| format!("table `trial`, id {id}, column `{column}`");
    let word: String = row.get(1)?;
    let device = row.get::<_, Option<String>>(7)?.map(|name| name.parse()).transpose();
    let has_value = row.get::<_, Option<i64>>(3)?.is_some();
    Ok(Trial {
        number: number_of(id),
        params: Params::new(),
        origin: json(row.get_ref(2)?.as_str().map_err(rusqlite::Error::from)?, || place("origin"))?,
        state: TrialState::from_word(&word)
            .ok_or_else(|| Fault::corrupt(place("state"), format!("`{word}` is not a state")))?,
        value: if has_value { Some(from_real(row.get(4)?)) } else { None },
        violation: row.get(17)?,
        curve: Vec::new(),
        last_metrics: json(row.get_ref(5)?.as_str().map_err(rusqlite::Error::from)?, || {
            place("last_metrics")
        })?,
        decisions: Vec::new(),
        checkpoints: Vec::new(),
        attempts: from_integer(row.get(6)?, || place("attempts"))?,
        failures: from_integer(row.get(14)?, || place("failures"))?,
        device: device.map_err(|unknown| Fault::corrupt(place("device"), unknown))?,
        until: row
            .get::<_, Option<i64>>(8)?
            .map(|until| from_integer(until, || place("until")))
            .transpose()?,
        hold: word_of(row, 15, Hold::from_word, || place("hold"))?,
        continued: word_of(row, 16, TrialState::from_word, || place("continued"))?,
        notes: Vec::new(),
        tags: Vec::new(),
        reason: row.get(9)?,
        created: Timestamp(row.get(10)?),
        started: row.get::<_, Option<i64>>(11)?.map(Timestamp),
        finished: row.get::<_, Option<i64>>(12)?.map(Timestamp),
        busy_micros: row.get(13)?,
    })
}

/// The content of `param.value`. Most are numbers, which are read without a detour over JSON: half
/// of the time of reading many.
pub(super) fn param_value(text: &str, place: impl FnOnce() -> String) -> Result<Value, Fault> {
    if text.starts_with(|first: char| first == '-' || first.is_ascii_digit()) {
        if let Ok(int) = text.parse() {
            return Ok(Value::Int(int));
        }
        if let Ok(float) = text.parse::<f64>()
            && float.is_finite()
        {
            return Ok(Value::Float(float));
        }
    }
    json(text, place)
}
