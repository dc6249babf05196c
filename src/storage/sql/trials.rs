//! Rebuilds trials from the tables: one trial, a page of them, or all of a study.

use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;

use super::connection::{Connection, Row};

use super::column::{Cells, from_real, number_of, point, rows, trial_id, trial_ids, value, values};
use super::fault::Fault;
use crate::storage::StudyId;
use crate::study::checkpoint::Checkpoint;
use crate::study::decision::Decision;
use crate::study::front::Point;
use crate::study::metric::Direction;
use crate::study::params::{Params, Value};
use crate::study::segment::Segment;
use crate::study::spec::Objective;
use crate::study::time::Timestamp;
use crate::study::trial::{DecisionAtStep, Hold, Note, Trial, TrialNumber, TrialState};

/// All trials by number.
pub(in crate::storage) fn all(
    connection: &dyn Connection,
    study: StudyId,
) -> Result<Vec<Trial>, Fault> {
    let (first, last) = trial_ids(study);
    let trials = Loader::new(connection, study)?.range(first, last)?;
    let sql = "SELECT trial_id FROM removed_run WHERE trial_id BETWEEN ?1 AND ?2";
    let removed: HashSet<i64> = values(connection, sql, [first, last])?.into_iter().collect();
    let mut ids = (first..=last).filter(|id| !removed.contains(id)).map(number_of);
    let missing = trials.iter().find_map(|trial| ids.next().filter(|id| *id != trial.number));
    match missing {
        Some(number) => Err(Fault::corrupt(
            format!("table `trial`, study {}", study.0),
            format!("trial {number} is missing"),
        )),
        None => Ok(trials),
    }
}

/// One trial.
pub(in crate::storage) fn one(
    connection: &dyn Connection,
    study: StudyId,
    number: TrialNumber,
) -> Result<Option<Trial>, Fault> {
    let Ok(id) = trial_id(study, number) else { return Ok(None) };
    Ok(Loader::new(connection, study)?.range(id, id)?.pop())
}

/// The trials with these ids, in this order.
pub(in crate::storage) fn listed(
    connection: &dyn Connection,
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
pub(in crate::storage) fn range(
    connection: &dyn Connection,
    study: StudyId,
    first: i64,
    last: i64,
) -> Result<Vec<Trial>, Fault> {
    Loader::new(connection, study)?.range(first, last)
}

/// The direction of the study's first objective.
pub(in crate::storage) fn direction(
    connection: &dyn Connection,
    study: StudyId,
) -> Result<Direction, Fault> {
    let sql = "SELECT direction FROM objective WHERE study_id = ?1 AND idx = 0";
    let word: String = value(connection, sql, [study.0])?;
    Ok(if word == Direction::Maximize.as_str() { Direction::Maximize } else { Direction::Minimize })
}

/// The study's objectives, without their thresholds.
pub(in crate::storage) fn objectives(
    connection: &dyn Connection,
    study: StudyId,
) -> Result<Vec<Objective>, Fault> {
    let sql = "SELECT metric, direction FROM objective WHERE study_id = ?1 ORDER BY idx";
    rows(connection, sql, [study.0], |row| {
        let word: String = row.get(1)?;
        let is_maximized = word == Direction::Maximize.as_str();
        let direction = if is_maximized { Direction::Maximize } else { Direction::Minimize };
        Ok(Objective::new(&row.get::<String>(0)?, direction))
    })
}

/// Calls `add` with the values of several objectives of each complete trial in a range of ids, in
/// their order.
pub(in crate::storage) fn add_values(
    connection: &dyn Connection,
    range: [i64; 2],
    mut add: impl FnMut(TrialNumber, f64),
) -> Result<(), Fault> {
    let sql = "SELECT trial_id, value FROM trial_value WHERE trial_id BETWEEN ?1 AND ?2 ORDER BY \
        trial_id, idx";
    for (id, value) in
        rows(connection, sql, range, |row| Ok((row.get::<i64>(0)?, from_real(row.get(1)?))))?
    {
        add(number_of(id), value);
    }
    Ok(())
}

/// The values of a study of several objectives: the points of its complete trials that can be on
/// the front.
pub(in crate::storage) fn points(
    connection: &dyn Connection,
    study: StudyId,
) -> Result<Vec<Point>, Fault> {
    let sql = "SELECT v.trial_id, v.value FROM trial_value v \
        CROSS JOIN trial t ON t.id = v.trial_id \
        WHERE v.trial_id BETWEEN ?1 AND ?2 AND t.state = 'complete' AND t.violation IS NULL \
        AND t.hidden = 0 ORDER BY v.trial_id, v.idx";
    let mut points: Vec<Point> = Vec::new();
    for (id, value) in rows(connection, sql, trial_ids(study), |row| {
        Ok((row.get::<i64>(0)?, from_real(row.get(1)?)))
    })? {
        match points.last_mut().filter(|(number, _)| *number == number_of(id)) {
            Some((_, values)) => values.push(value),
            None => points.push((number_of(id), vec![value])),
        }
    }
    points.retain(|(_, values)| values.iter().all(|value| !value.is_nan()));
    Ok(points)
}

/// The names of a study's parameters, all versions of each, by index.
pub(in crate::storage) type Dimensions = BTreeMap<i64, Arc<str>>;

/// The names of a study's parameters.
pub(in crate::storage) fn dimensions(
    connection: &dyn Connection,
    study: StudyId,
) -> Result<Dimensions, Fault> {
    let sql = "SELECT idx, name FROM dimension WHERE study_id = ?1";
    let names =
        rows(connection, sql, [study.0], |row| Ok((row.get(0)?, row.get::<String>(1)?.into())))?;
    Ok(names.into_iter().collect())
}

/// A row of table `param` (trial, dimension, value).
pub(in crate::storage) fn param<'a>(
    row: &dyn Row,
    dimensions: &'a Dimensions,
) -> Result<(TrialNumber, &'a Arc<str>, Value), Fault> {
    let (id, dimension): (i64, i64) = (row.get(0)?, row.get(1)?);
    let cells = Cells::of(row, || format!("table `param`, trial {id}, dimension {dimension}"));
    let name = dimensions.get(&dimension);
    let name = name.ok_or_else(|| cells.corrupt(1, "there is no such dimension"))?;
    Ok((number_of(id), name, cells.given(2, cells.optional(2, param_value)?)?))
}

/// Loads trials of one study.
struct Loader<'a> {
    connection: &'a dyn Connection,
    study: StudyId,
    dimensions: Dimensions,
    /// The ids of the objectives' metrics, once anything was reported of them.
    metrics: Vec<Option<i64>>,
}

impl<'a> Loader<'a> {
    fn new(connection: &'a dyn Connection, study: StudyId) -> Result<Self, Fault> {
        let metrics = "SELECT m.id FROM objective o LEFT JOIN metric m ON m.name = o.metric \
            WHERE o.study_id = ?1 ORDER BY o.idx";
        Ok(Loader {
            connection,
            study,
            dimensions: dimensions(connection, study)?,
            metrics: values(connection, metrics, [study.0])?,
        })
    }

    /// The trials with ids from `first` to `last`, by number.
    fn range(&self, first: i64, last: i64) -> Result<Vec<Trial>, Fault> {
        let sql = "SELECT t.id, t.state, t.origin, v.trial_id, v.value, t.last_metrics, \
            t.attempts, t.device, t.until, t.reason, t.created_at, t.started_at, t.finished_at, \
            t.busy_micros, t.failures, t.hold, t.continued, t.violation, t.hidden \
            FROM trial t LEFT JOIN trial_value v ON v.trial_id = t.id AND v.idx = 0 \
            WHERE t.id BETWEEN ?1 AND ?2 ORDER BY t.id";
        let mut trials = rows(self.connection, sql, [first, last], trial)?;
        let mut add = |sql: &str, take: &dyn Fn(&mut Trial, &dyn Row) -> Result<(), Fault>| {
            self.add(&mut trials, sql, [first, last], take)
        };
        add(
            "SELECT trial_id, dimension, value FROM param WHERE trial_id BETWEEN ?1 AND ?2",
            &|trial, row| {
                let (_, name, value) = param(row, &self.dimensions)?;
                trial.params.insert(Arc::clone(name), value);
                Ok(())
            },
        )?;
        for (index, metric) in self.metrics.iter().enumerate() {
            let Some(metric) = metric else { continue };
            let sql = format!(
                "SELECT trial_id, step, value FROM report WHERE metric_id = {metric} AND \
                 trial_id BETWEEN ?1 AND ?2 ORDER BY trial_id, step"
            );
            add(&sql, &|trial, row| {
                let (step, value) = point(row, 1, self.study, trial.number)?;
                if index == 0 {
                    trial.curve.push((step, value));
                }
                if self.metrics.len() > 1 {
                    self.add_to_vectors(trial, step, index, value);
                }
                Ok(())
            })?;
        }
        if self.metrics.len() > 1 {
            for trial in &mut trials {
                trial.value = None;
            }
            add_values(self.connection, [first, last], |number, value| {
                let place = trials.binary_search_by_key(&number, |trial| trial.number);
                if let Some(trial) = place.ok().and_then(|place| trials.get_mut(place)) {
                    trial.values.push(value);
                }
            })?;
        }
        let mut add = |sql: &str, take: &dyn Fn(&mut Trial, &dyn Row) -> Result<(), Fault>| {
            self.add(&mut trials, sql, [first, last], take)
        };
        add(
            "SELECT trial_id, step, verdict, reason FROM decision \
             WHERE trial_id BETWEEN ?1 AND ?2 ORDER BY trial_id, step",
            &|trial, row| {
                trial.decisions.push(decision(row)?);
                Ok(())
            },
        )?;
        add(
            "SELECT trial_id, step, path, bytes, digest FROM checkpoint \
             WHERE trial_id BETWEEN ?1 AND ?2 ORDER BY trial_id, step, seq",
            &|trial, row| {
                trial.checkpoints.push(checkpoint(row)?);
                Ok(())
            },
        )?;
        add(
            "SELECT trial_id, step, from_number, digest, replaced, reason FROM segment \
             WHERE trial_id BETWEEN ?1 AND ?2 ORDER BY trial_id, seq",
            &|trial, row| {
                trial.segments.push(segment(row)?);
                Ok(())
            },
        )?;
        add(
            "SELECT trial_id, at, text FROM trial_note WHERE trial_id BETWEEN ?1 AND ?2 \
             ORDER BY trial_id, seq",
            &|trial, row| {
                trial.notes.push(Note { at: Timestamp(row.get(1)?), text: row.get(2)? });
                Ok(())
            },
        )?;
        add(
            "SELECT trial_id, tag FROM trial_tag WHERE trial_id BETWEEN ?1 AND ?2 \
             ORDER BY trial_id, tag",
            &|trial, row| {
                trial.tags.push(row.get(1)?);
                Ok(())
            },
        )?;
        Ok(trials)
    }

    /// Adds a report of one of several objectives.
    fn add_to_vectors(&self, trial: &mut Trial, step: u64, index: usize, value: f64) {
        let place = match trial.vectors.binary_search_by_key(&step, |(at, _)| *at) {
            Ok(place) => place,
            Err(place) => {
                trial.vectors.insert(place, (step, vec![None; self.metrics.len()]));
                place
            }
        };
        if let Some(known) = trial.vectors[place].1.get_mut(index) {
            *known = Some(value);
        }
    }

    /// Adds each row of a query, whose first column is a trial's id, to that trial.
    fn add(
        &self,
        trials: &mut [Trial],
        sql: &str,
        range: [i64; 2],
        take: &dyn Fn(&mut Trial, &dyn Row) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        self.connection.for_each(sql, range, |row| {
            let number = number_of(row.get(0)?);
            let place = trials.binary_search_by_key(&number, |trial| trial.number);
            let trial = place.ok().and_then(|place| trials.get_mut(place));
            let missing = || {
                Fault::corrupt(
                    format!("table `trial`, study {}", self.study.0),
                    format!("trial {number} is missing"),
                )
            };
            take(trial.ok_or_else(missing)?, row)
        })
    }
}

/// A row of table `checkpoint` (trial, step, path, bytes, digest).
pub(in crate::storage) fn checkpoint(row: &dyn Row) -> Result<Checkpoint, Fault> {
    let id: i64 = row.get(0)?;
    let cells = Cells::of(row, || format!("table `checkpoint`, trial {id}"));
    Ok(Checkpoint {
        step: cells.integer(1)?,
        path: PathBuf::from(cells.get::<String>(2)?),
        bytes: cells.optional_integer(3)?,
        digest: cells.get(4)?,
    })
}

/// A row of table `segment` (trial, step, from, digest, replaced, reason).
pub(super) fn segment(row: &dyn Row) -> Result<Segment, Fault> {
    let id: i64 = row.get(0)?;
    let cells = Cells::of(row, || format!("table `segment`, trial {id}"));
    Ok(Segment {
        start: cells.integer(1)?,
        from: TrialNumber(cells.integer(2)?),
        digest: cells.get(3)?,
        replaced: cells.given(4, cells.optional_json(4)?)?,
        reason: cells.given(5, cells.optional_json(5)?)?,
    })
}

fn decision(row: &dyn Row) -> Result<DecisionAtStep, Fault> {
    let id: i64 = row.get(0)?;
    let cells = Cells::of(row, || format!("table `decision`, trial {id}"));
    let word: String = cells.get(2)?;
    let verdict = match (word.as_str(), cells.optional_json(3)?) {
        ("continue", reason) => Decision::Continue(reason),
        ("pause", Some(reason)) => Decision::Pause(reason),
        ("stop", Some(reason)) => Decision::Stop(reason),
        _ => {
            let why = format!("`{word}` is not a verdict, or lacks its reason");
            return Err(cells.corrupt(2, why));
        }
    };
    Ok(DecisionAtStep { step: cells.integer(1)?, verdict })
}

fn trial(row: &dyn Row) -> Result<Trial, Fault> {
    let id: i64 = row.get(0)?;
    let cells = Cells::of(row, || format!("table `trial`, id {id}"));
    Ok(Trial {
        state: cells.state(1)?,
        value: cells.value(3)?,
        violation: cells.get(17)?,
        hidden: cells.get(18)?,
        last_metrics: cells.json(5)?,
        attempts: cells.integer(6)?,
        failures: cells.integer(14)?,
        devices: cells.optional(7, str::parse)?,
        until: cells.optional_integer(8)?,
        hold: cells.word(15, Hold::from_word)?,
        continued: cells.word(16, TrialState::from_word)?,
        reason: cells.get(9)?,
        started: cells.get::<Option<i64>>(11)?.map(Timestamp),
        finished: cells.get::<Option<i64>>(12)?.map(Timestamp),
        busy_micros: cells.get(13)?,
        ..Trial::new(number_of(id), Params::new(), cells.json(2)?, Timestamp(cells.get(10)?))
    })
}

/// A value of table `param`. Numbers, the most common, are parsed without the JSON parser, which
/// halves the time of reading many.
pub(in crate::storage) fn param_value(text: &str) -> serde_json::Result<Value> {
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
    serde_json::from_str(text)
}

/// The names of the parameters of a study's trials.
pub(in crate::storage) fn params(
    connection: &dyn Connection,
    study: StudyId,
) -> Result<Vec<String>, Fault> {
    let (first, last) = trial_ids(study);
    let sql = "SELECT DISTINCT name FROM dimension d WHERE study_id = ?3 AND EXISTS (SELECT 1 FROM \
        trial t CROSS JOIN param p ON p.trial_id = t.id WHERE t.id BETWEEN ?1 AND ?2 \
        AND p.dimension = d.idx) ORDER BY name";
    values(connection, sql, (first, last, study.0))
}
