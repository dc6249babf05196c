//! Reads everything but trials: studies, attempts, reports, the journal.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension as _, Row, params};

use super::column::{from_integer, from_real, json, number_of, trial_id, trial_ids};
use super::fault::Fault;
use super::pages::{self, Reverse, Which};
use super::trials;
use crate::storage::{
    Attempt, Curve, HeldLease, Holder, StorageError, StoredRequest, StoredRunner, StoredStudy,
    StudyId, StudySummary,
};
use crate::study::configuration::{self, Run};
use crate::study::device::{Device, Slot};
use crate::study::event::{Answer, Event, Request, Seq};
use crate::study::finalists::Race;
use crate::study::metric::Score;
use crate::study::provenance::Provenance;
use crate::study::spec::{Extension, StudySpec};
use crate::study::state::{Counts, StudyState, value_so_far};
use crate::study::time::Timestamp;
use crate::study::trial::{AttemptNumber, Note, TrialNumber, TrialState};

/// All studies by name.
pub(super) fn studies(connection: &Connection) -> Result<Vec<StudySummary>, Fault> {
    let mut statement = connection.prepare_cached("SELECT id FROM study ORDER BY name")?;
    let ids =
        statement.query_map([], |row| row.get(0).map(StudyId))?.collect::<Result<Vec<_>, _>>()?;
    ids.into_iter().map(|id| summary(connection, id)).collect()
}

/// The study called `name`.
pub(super) fn study(connection: &Connection, name: &str) -> Result<Option<StoredStudy>, Fault> {
    let mut statement = connection.prepare_cached("SELECT id FROM study WHERE name = ?1")?;
    let Some(id) = statement.query_row([name], |row| row.get(0).map(StudyId)).optional()? else {
        return Ok(None);
    };
    let row = study_row(connection, id)?;
    let directory = directory(connection, id)?;
    Ok(Some(StoredStudy {
        id,
        spec: row.spec,
        extension: row.extension,
        created: row.created,
        directory,
    }))
}

/// One study's line of `ls`.
pub(super) fn summary(connection: &Connection, id: StudyId) -> Result<StudySummary, Fault> {
    let StudyRow { spec, created, finished, paused, extension, .. } = study_row(connection, id)?;
    let mut counts = Counts::default();
    let mut statement = connection
        .prepare_cached("SELECT state, count(*) FROM trial WHERE study_id = ?1 GROUP BY state")?;
    let mut rows = statement.query([id.0])?;
    while let Some(row) = rows.next()? {
        let word: String = row.get(0)?;
        let place = || format!("table `trial`, study {}", id.0);
        let state = TrialState::from_word(&word)
            .ok_or_else(|| Fault::corrupt(place(), format!("`{word}` is not a state")))?;
        *counts.of(state) = from_integer(row.get(1)?, place)?;
    }
    let race = race(connection, id)?;
    let best = match race.as_ref().and_then(Race::winner) {
        Some(winner) => Some((winner.trial, winner.sample.mean)),
        None => best(connection, id, &spec, counts)?,
    };
    let mut race_counts = Counts::default();
    if connection
        .prepare_cached("SELECT 1 FROM trial WHERE study_id = ?1 AND configuration IS NOT NULL")?
        .exists([id.0])?
    {
        let runs = runs(connection, id)?;
        runs.iter()
            .filter(|run| run.origin.is_race())
            .for_each(|run| *race_counts.of(run.state) += 1);
    }
    let (notes, tags) = (notes(connection, id)?, tags(connection, id)?);
    let paused_devices = paused_devices(connection, id)?;
    let held = held(connection, id)?;
    let directory = directory(connection, id)?;
    Ok(StudySummary {
        id,
        spec,
        counts,
        best,
        race,
        race_counts,
        finished,
        paused,
        paused_devices,
        extension,
        notes,
        tags,
        held,
        created,
        directory,
    })
}

/// The names of the directories that were taken for its files, the present one first.
pub(super) fn directories(connection: &Connection, study: StudyId) -> Result<Vec<String>, Fault> {
    let mut statement = connection.prepare_cached("SELECT files FROM study WHERE id = ?1")?;
    let names: Option<String> = statement.query_row([study.0], |row| row.get(0))?;
    names.map_or(Ok(Vec::new()), |text| {
        json(&text, || format!("table `study`, id {}, column `files`", study.0))
    })
}

/// The name of the directory of its files, once it was taken.
fn directory(connection: &Connection, study: StudyId) -> Result<Option<String>, Fault> {
    Ok(directories(connection, study)?.into_iter().next())
}

fn paused_devices(connection: &Connection, study: StudyId) -> Result<BTreeSet<Device>, Fault> {
    let mut statement =
        connection.prepare_cached("SELECT device FROM paused_device WHERE study_id = ?1")?;
    let names = statement
        .query_map([study.0], |row| row.get::<_, String>(0))?
        .collect::<Result<Vec<_>, _>>()?;
    let place = || format!("table `paused_device`, study {}", study.0);
    names
        .iter()
        .map(|name| name.parse().map_err(|unknown| Fault::corrupt(place(), unknown)))
        .collect()
}

/// The race of a study.
pub(super) fn race(connection: &Connection, study: StudyId) -> Result<Option<Race>, Fault> {
    let mut statement = connection.prepare_cached("SELECT race FROM study WHERE id = ?1")?;
    let stored: Option<String> =
        statement.query_row([study.0], |row| row.get(0)).optional()?.flatten();
    stored
        .map(|text| json(&text, || format!("table `study`, id {}, column `race`", study.0)))
        .transpose()
}

/// [`StudyState::leader`], without its winner of a race.
fn best(
    connection: &Connection,
    study: StudyId,
    spec: &StudySpec,
    counts: Counts,
) -> Result<Option<(TrialNumber, f64)>, Fault> {
    let mut grouped = connection
        .prepare_cached("SELECT 1 FROM trial WHERE study_id = ?1 AND configuration IS NOT NULL")?;
    let direction = trials::direction(connection, study)?;
    if spec.replicates > 1 || grouped.exists([study.0])? {
        let ranked = configuration::ranked(runs(connection, study)?, direction, spec.replicates);
        return Ok(ranked.first().map(|(number, sample)| (*number, sample.mean)));
    }
    let sql = format!(
        "SELECT v.trial_id, v.value {} LIMIT 1",
        pages::ranked(direction, Reverse::No, Which::Feasible)
    );
    let mut statement = connection.prepare_cached(&sql)?;
    let complete: Option<(TrialNumber, f64)> = statement
        .query_row([study.0], |row| Ok((number_of(row.get(0)?), row.get(1)?)))
        .optional()?;
    let mut candidates: Vec<(TrialNumber, f64)> = complete.into_iter().collect();
    if counts.queued + counts.running + counts.paused > 0 {
        let sql = "SELECT id FROM trial WHERE study_id = ?1 AND state IN ('queued', 'running', \
            'paused') AND continued = 'complete'";
        let mut statement = connection.prepare_cached(sql)?;
        let ids =
            statement.query_map([study.0], |row| row.get(0))?.collect::<Result<Vec<i64>, _>>()?;
        for number in ids.into_iter().map(number_of) {
            let value = trials::one(connection, study, number)?
                .and_then(|trial| value_so_far(spec.value, direction, &spec.constraints, &trial));
            candidates.extend(value.map(|value| (number, value)));
        }
    }
    Ok(candidates
        .into_iter()
        .min_by_key(|(number, value)| (Score::new(direction, *value), *number)))
}

/// The trials of a study, as far as ranking its configurations needs them.
fn runs(connection: &Connection, study: StudyId) -> Result<Vec<Run>, Fault> {
    let (first, last) = trial_ids(study);
    let mut statement = connection.prepare_cached(
        "SELECT t.id, t.origin, t.state, v.idx, v.value, t.violation IS NOT NULL FROM trial t \
         LEFT JOIN trial_value v ON v.trial_id = t.id AND v.idx = 0
         WHERE t.id BETWEEN ?1 AND ?2 ORDER BY t.id",
    )?;
    let mut rows = statement.query([first, last])?;
    let mut runs = Vec::new();
    while let Some(row) = rows.next()? {
        let number = number_of(row.get(0)?);
        let place = || format!("table `trial`, study {}, trial {number}", study.0);
        let word: String = row.get(2)?;
        let value = row.get::<_, Option<i64>>(3)?.map(|_| row.get(4).map(from_real)).transpose()?;
        let state = TrialState::from_word(&word)
            .ok_or_else(|| Fault::corrupt(place(), format!("`{word}` is not a state")))?;
        let origin = json(row.get_ref(1)?.as_str().map_err(rusqlite::Error::from)?, place)?;
        runs.push(Run { number, origin, state, value, violates: row.get(5)? });
    }
    Ok(runs)
}

/// Who ran a study, in order.
pub(super) fn runners(connection: &Connection, study: StudyId) -> Result<Vec<StoredRunner>, Fault> {
    require(connection, study)?;
    let sql = "SELECT seq, pid, host, started_at, stopped_at, lineage, slots, ran_micros, reason \
        FROM runner WHERE study_id = ?1 ORDER BY seq";
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query([study.0])?;
    let mut runners = Vec::new();
    while let Some(row) = rows.next()? {
        let seq: i64 = row.get(0)?;
        let place = || format!("table `runner`, seq {seq}");
        let lineage: Option<Provenance> =
            row.get::<_, Option<String>>(5)?.map(|text| json(&text, place)).transpose()?;
        runners.push(StoredRunner {
            seq: Seq(seq),
            pid: from_integer(row.get(1)?, place)?,
            host: row.get(2)?,
            slots: json(row.get_ref(6)?.as_str().map_err(rusqlite::Error::from)?, place)?,
            started: Timestamp(row.get(3)?),
            stopped: row.get::<_, Option<i64>>(4)?.map(Timestamp),
            ran_micros: row.get(7)?,
            reason: row.get(8)?,
            lineage,
        });
    }
    Ok(runners)
}

/// Every version of a study's specification, with the last event before it.
pub(super) fn revisions(
    connection: &Connection,
    study: StudyId,
) -> Result<Vec<(Seq, StudySpec)>, Fault> {
    require(connection, study)?;
    let mut statement = connection.prepare_cached(
        "SELECT seq, spec FROM study_revision WHERE study_id = ?1 ORDER BY revision",
    )?;
    let mut rows = statement.query([study.0])?;
    let mut revisions = Vec::new();
    while let Some(row) = rows.next()? {
        let place = || format!("table `study_revision`, study {}", study.0);
        revisions.push((
            Seq(row.get(0)?),
            json(row.get_ref(1)?.as_str().map_err(rusqlite::Error::from)?, place)?,
        ));
    }
    Ok(revisions)
}

/// A text that is kept by its digest.
pub(super) fn document(connection: &Connection, digest: &str) -> Result<Option<String>, Fault> {
    Ok(connection
        .prepare_cached("SELECT body FROM document WHERE digest = ?1")?
        .query_row([digest], |row| row.get(0))
        .optional()?)
}

/// Who holds a study.
pub(super) fn held(connection: &Connection, study: StudyId) -> Result<Option<HeldLease>, Fault> {
    let mut statement = connection.prepare_cached(
        "SELECT epoch, pid, pid_started, host, acquired_at, boot_id \
            FROM lease WHERE study_id = ?1 AND pid IS NOT NULL",
    )?;
    let mut rows = statement.query([study.0])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    let place = || format!("table `lease`, study {}", study.0);
    let holder = Holder {
        pid: from_integer(row.get(1)?, place)?,
        pid_started: from_integer(row.get(2)?, place)?,
        host: row.get(3)?,
        boot_id: row.get(5)?,
    };
    Ok(Some(HeldLease {
        epoch: row.get(0)?,
        holder,
        acquired: Timestamp(row.get(4)?),
        lock_file: None,
    }))
}

/// The row of table `study`.
pub(super) struct StudyRow {
    pub(super) spec: StudySpec,
    pub(super) revision: i64,
    pub(super) created: Timestamp,
    pub(super) finished: Option<String>,
    pub(super) ran_micros: i64,
    pub(super) paused: Option<String>,
    pub(super) extension: Extension,
    pub(super) killed_at: Option<Timestamp>,
    pub(super) busy_micros: i64,
}

/// The row of table `study`; an error if there is none.
pub(super) fn study_row(connection: &Connection, study: StudyId) -> Result<StudyRow, Fault> {
    let sql = "SELECT spec, revision, created_at, finished_reason, ran_micros, paused_reason, \
        extra_trials, extra_micros, extra_device_hours,
                      extra_cost, killed_at, busy_micros FROM study WHERE id = ?1";
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query([study.0])?;
    let Some(row) = rows.next()? else { return Err(StorageError::NoStudy { study }.into()) };
    let place = || format!("table `study`, id {}", study.0);
    Ok(StudyRow {
        spec: json(row.get_ref(0)?.as_str().map_err(rusqlite::Error::from)?, || {
            format!("table `study`, id {}, column `spec`", study.0)
        })?,
        revision: row.get(1)?,
        created: Timestamp(row.get(2)?),
        finished: row.get(3)?,
        ran_micros: row.get(4)?,
        paused: row.get(5)?,
        extension: Extension {
            trials: from_integer(row.get(6)?, place)?,
            time: Duration::from_micros(from_integer(row.get(7)?, place)?),
            device_hours: row.get(8)?,
            cost: row.get(9)?,
        },
        killed_at: row.get::<_, Option<i64>>(10)?.map(Timestamp),
        busy_micros: row.get(11)?,
    })
}

/// Checks that the study is there.
pub(super) fn require(connection: &Connection, study: StudyId) -> Result<(), Fault> {
    let mut statement = connection.prepare_cached("SELECT 1 FROM study WHERE id = ?1")?;
    if statement.exists([study.0])? { Ok(()) } else { Err(StorageError::NoStudy { study }.into()) }
}

/// The whole state of a study.
pub(super) fn view(connection: &Connection, study: StudyId) -> Result<StudyState, Fault> {
    let row = study_row(connection, study)?;
    let mut view = StudyState::new(&row.spec);
    view.trials = trials::all(connection, study)?;
    for trial in &view.trials {
        *view.counts.of(trial.state) += 1;
        *view.race_counts.of(trial.state) += u64::from(trial.origin.is_race());
    }
    view.busy_micros = row.busy_micros;
    view.killed_at = row.killed_at;
    view.finished = row.finished;
    view.paused = row.paused;
    view.race = race(connection, study)?;
    view.paused_devices = paused_devices(connection, study)?;
    view.extension = row.extension;
    view.notes = notes(connection, study)?;
    view.tags = tags(connection, study)?;
    view.ran_micros = row.ran_micros;
    Ok(view)
}

/// What was written about a study.
fn notes(connection: &Connection, study: StudyId) -> Result<Vec<Note>, Fault> {
    let mut statement = connection
        .prepare_cached("SELECT at, text FROM study_note WHERE study_id = ?1 ORDER BY seq")?;
    let notes = statement
        .query_map([study.0], |row| Ok(Note { at: Timestamp(row.get(0)?), text: row.get(1)? }))?;
    Ok(notes.collect::<Result<_, _>>()?)
}

/// The tags of a study.
fn tags(connection: &Connection, study: StudyId) -> Result<Vec<String>, Fault> {
    let mut statement =
        connection.prepare_cached("SELECT tag FROM study_tag WHERE study_id = ?1 ORDER BY tag")?;
    Ok(statement.query_map([study.0], |row| row.get(0))?.collect::<Result<_, _>>()?)
}

/// What came of a request.
pub(super) fn answer(
    connection: &Connection,
    study: StudyId,
    id: i64,
) -> Result<Option<Answer>, Fault> {
    require(connection, study)?;
    let mut statement = connection.prepare_cached(
        "SELECT answer FROM request WHERE study_id = ?1 AND id = ?2 AND served_at IS NOT NULL",
    )?;
    match statement.query_row([study.0, id], |row| row.get::<_, Option<String>>(0)).optional()? {
        None => Ok(None),
        // Served by an older hpsearch, which said nothing.
        Some(None) => Ok(Some(Answer::Done(String::new()))),
        Some(Some(text)) => {
            json(&text, || format!("table `request`, id {id}, column `answer`")).map(Some)
        }
    }
}

/// Attempts of one trial, or of all.
pub(super) fn attempts(
    connection: &Connection,
    study: StudyId,
    trial: Option<TrialNumber>,
) -> Result<Vec<Attempt>, Fault> {
    require(connection, study)?;
    let (first, last) = match trial {
        None => trial_ids(study),
        Some(number) => match trial_id(study, number) {
            Ok(id) => (id, id),
            Err(_) => return Ok(Vec::new()),
        },
    };
    let mut statement = connection.prepare_cached(
        "SELECT trial_id, attempt, slot, device, pid, pid_started, started_at, ended_at, outcome, \
         reason, runner, resume_step, resume_path, until
         FROM attempt WHERE trial_id BETWEEN ?1 AND ?2 ORDER BY trial_id, attempt",
    )?;
    let mut rows = statement.query([first, last])?;
    let mut attempts = Vec::new();
    while let Some(row) = rows.next()? {
        attempts.push(attempt(study, row)?);
    }
    Ok(attempts)
}

fn attempt(study: StudyId, row: &Row<'_>) -> Result<Attempt, Fault> {
    let trial = number_of(row.get(0)?);
    let place = || format!("table `attempt`, study {}, trial {trial}", study.0);
    let device =
        row.get::<_, String>(3)?.parse().map_err(|unknown| Fault::corrupt(place(), unknown))?;
    let process = match (row.get::<_, Option<i64>>(4)?, row.get::<_, Option<i64>>(5)?) {
        (Some(pid), Some(started)) => {
            Some((from_integer(pid, place)?, from_integer(started, place)?))
        }
        _ => None,
    };
    let resume = match (row.get::<_, Option<i64>>(11)?, row.get::<_, Option<String>>(12)?) {
        (Some(step), Some(path)) => Some((from_integer(step, place)?, PathBuf::from(path))),
        _ => None,
    };
    Ok(Attempt {
        trial,
        resume,
        until: row
            .get::<_, Option<i64>>(13)?
            .map(|until| from_integer(until, place))
            .transpose()?,
        attempt: AttemptNumber(from_integer(row.get(1)?, place)?),
        slot: Slot { index: from_integer(row.get(2)?, place)?, device },
        process,
        started: Timestamp(row.get(6)?),
        ended: row.get::<_, Option<i64>>(7)?.map(Timestamp),
        end: row.get::<_, Option<String>>(8)?.map(|text| json(&text, place)).transpose()?,
        reason: row.get(9)?,
        runner: row.get::<_, Option<i64>>(10)?.map(Seq),
    })
}

/// All reports of one trial: metric, step and value, in that order.
pub(super) fn reports(
    connection: &Connection,
    study: StudyId,
    trial: TrialNumber,
) -> Result<Vec<(String, u64, f64)>, Fault> {
    require(connection, study)?;
    let Ok(id) = trial_id(study, trial) else { return Ok(Vec::new()) };
    let mut statement = connection.prepare_cached(
        "SELECT m.name, r.step, r.value FROM report r JOIN metric m ON m.id = r.metric_id WHERE \
         r.trial_id = ?1 ORDER BY m.name, r.step",
    )?;
    let mut rows = statement.query([id])?;
    let mut reports = Vec::new();
    while let Some(row) = rows.next()? {
        let step = from_integer(row.get(1)?, || {
            format!("table `report`, study {}, trial {trial}", study.0)
        })?;
        reports.push((row.get(0)?, step, from_real(row.get(2)?)));
    }
    Ok(reports)
}

/// A metric's reports by some trials.
pub(super) fn curves(
    connection: &Connection,
    study: StudyId,
    metric: &str,
    trials: &[TrialNumber],
) -> Result<Vec<Curve>, Fault> {
    require(connection, study)?;
    let metric: Option<i64> = connection
        .prepare_cached("SELECT id FROM metric WHERE name = ?1")?
        .query_row([metric], |row| row.get(0))
        .optional()?;
    let mut statement = connection.prepare_cached(
        "SELECT step, value FROM report WHERE trial_id = ?1 AND metric_id = ?2 ORDER BY step",
    )?;
    let mut curve = |number: TrialNumber| {
        let mut points = Vec::new();
        if let (Some(metric), Ok(id)) = (metric, trial_id(study, number)) {
            let mut rows = statement.query([id, metric])?;
            while let Some(row) = rows.next()? {
                let step = from_integer(row.get(0)?, || {
                    format!("table `report`, study {}, trial {number}", study.0)
                })?;
                points.push((step, from_real(row.get(1)?)));
            }
        }
        Ok((number, points))
    };
    trials.iter().map(|number| curve(*number)).collect()
}

/// The names of the parameters that a study's trials have.
pub(super) fn params(connection: &Connection, study: StudyId) -> Result<Vec<String>, Fault> {
    require(connection, study)?;
    let (first, last) = trial_ids(study);
    let mut statement = connection.prepare_cached(
        "SELECT DISTINCT name FROM dimension d WHERE study_id = ?3 AND EXISTS (SELECT 1 FROM \
         trial t CROSS JOIN param p
           WHERE t.id BETWEEN ?1 AND ?2 AND p.trial_id = t.id AND p.dimension = d.idx) ORDER BY \
           name",
    )?;
    Ok(statement.query_map([first, last, study.0], |row| row.get(0))?.collect::<Result<_, _>>()?)
}

/// The names of the metrics that a study's trials reported.
pub(super) fn metrics(connection: &Connection, study: StudyId) -> Result<Vec<String>, Fault> {
    require(connection, study)?;
    let (first, last) = trial_ids(study);
    let mut statement = connection.prepare_cached(
        "SELECT name FROM metric m WHERE EXISTS (SELECT 1 FROM trial t CROSS JOIN report r
           WHERE t.id BETWEEN ?1 AND ?2 AND r.trial_id = t.id AND r.metric_id = m.id) ORDER BY \
           name",
    )?;
    Ok(statement.query_map([first, last], |row| row.get(0))?.collect::<Result<_, _>>()?)
}

/// The journal after `seq`.
pub(super) fn events_after(
    connection: &Connection,
    study: StudyId,
    seq: Seq,
    limit: u64,
) -> Result<Vec<(Seq, Timestamp, Event)>, Fault> {
    journal_page(
        connection,
        "SELECT seq, at, body FROM event WHERE study_id = ?1 AND seq > ?2 ORDER BY seq LIMIT ?3",
        study,
        seq,
        limit,
    )
}

pub(super) fn events_before(
    connection: &Connection,
    study: StudyId,
    seq: Seq,
    limit: u64,
) -> Result<Vec<(Seq, Timestamp, Event)>, Fault> {
    let newest_first = "SELECT seq, at, body FROM event WHERE study_id = ?1 AND seq < ?2 ORDER BY \
        seq DESC LIMIT ?3";
    let mut events = journal_page(connection, newest_first, study, seq, limit)?;
    events.reverse();
    Ok(events)
}

/// The remarks on a trial's lines after `seq`, and the journal's last place. They are found by how
/// their JSON begins, so that not all of a long journal is parsed.
pub(super) fn remarks(
    connection: &Connection,
    study: StudyId,
    trial: TrialNumber,
    seq: Seq,
) -> Result<(Vec<Event>, Seq), Fault> {
    require(connection, study)?;
    let last = connection
        .prepare_cached("SELECT coalesce(max(seq), 0) FROM event WHERE study_id = ?1")?
        .query_row([study.0], |row| row.get(0))?;
    let begin = format!("{{\"type\":\"remarked\",\"trial\":{trial},");
    let mut statement = connection.prepare_cached(
        "SELECT seq, body FROM event WHERE study_id = ?1 AND seq > ?2 AND seq <= ?3 AND \
         substr(body, 1, length(?4)) = ?4 ORDER BY seq",
    )?;
    let mut rows = statement.query(params![study.0, seq.0, last, begin])?;
    let mut events = Vec::new();
    while let Some(row) = rows.next()? {
        let seq: i64 = row.get(0)?;
        events.push(json(row.get_ref(1)?.as_str().map_err(rusqlite::Error::from)?, || {
            format!("table `event`, seq {seq}, column `body`")
        })?);
    }
    Ok((events, Seq(last)))
}

fn journal_page(
    connection: &Connection,
    query: &str,
    study: StudyId,
    seq: Seq,
    limit: u64,
) -> Result<Vec<(Seq, Timestamp, Event)>, Fault> {
    require(connection, study)?;
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let mut statement = connection.prepare_cached(query)?;
    let mut rows = statement.query(params![study.0, seq.0, limit])?;
    let mut events = Vec::new();
    while let Some(row) = rows.next()? {
        let seq: i64 = row.get(0)?;
        let event = json(row.get_ref(2)?.as_str().map_err(rusqlite::Error::from)?, || {
            format!("table `event`, seq {seq}, column `body`")
        })?;
        events.push((Seq(seq), Timestamp(row.get(1)?), event));
    }
    Ok(events)
}

/// Microseconds that runners spent on the study and, if one runs, when it began.
pub(super) fn running_since(
    connection: &Connection,
    study: StudyId,
) -> Result<(i64, Option<Timestamp>), Fault> {
    let mut statement = connection.prepare_cached("SELECT ran_micros FROM study WHERE id = ?1")?;
    let ran = statement
        .query_row([study.0], |row| row.get(0))
        .optional()?
        .ok_or(StorageError::NoStudy { study })?;
    let mut statement = connection.prepare_cached(
        "SELECT iif(stopped_at IS NULL, started_at, NULL) FROM runner \
            WHERE study_id = ?1 ORDER BY seq DESC LIMIT 1",
    )?;
    let since: Option<Option<i64>> = statement.query_row([study.0], |row| row.get(0)).optional()?;
    Ok((ran, since.flatten().map(Timestamp)))
}

/// Requests not yet served, oldest first.
pub(super) fn pending_requests(
    connection: &Connection,
    study: StudyId,
) -> Result<Vec<StoredRequest>, Fault> {
    require(connection, study)?;
    let mut statement = connection.prepare_cached(
        "SELECT id, body FROM request WHERE study_id = ?1 AND served_at IS NULL ORDER BY id",
    )?;
    let mut rows = statement.query([study.0])?;
    let mut requests = Vec::new();
    while let Some(row) = rows.next()? {
        let id: i64 = row.get(0)?;
        // One that cannot be read must not keep the study from being run: it is refused like any
        // that cannot be done.
        let read = row.get_ref(1)?.as_str().map_err(|error| error.to_string());
        let read =
            read.and_then(|text| serde_json::from_str(text).map_err(|error| error.to_string()));
        requests.push(StoredRequest {
            id,
            request: read.unwrap_or_else(|why| Request::Unreadable { why }),
        });
    }
    Ok(requests)
}
