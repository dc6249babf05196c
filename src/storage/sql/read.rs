//! Reads everything but trials: studies, attempts, reports, the journal.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use super::connection::{Cell, Connection, Row, params};

use super::column::{
    Cells, first, number_of, point, rows, to_limit, trial_id, trial_ids, value, values,
};
use super::fault::Fault;
use super::pages::{self, Reverse, Which};
use super::trials;
use crate::storage::{
    Attempt, Curve, HeldLease, Holder, Remarked, StorageError, StoredAgent, StoredRequest,
    StoredRunner, StoredStudy, StudyId, StudySummary,
};
use crate::study::budget::Extension;
use crate::study::configuration::{self, Run};
use crate::study::device::{Device, DeviceGroup, Slot};
use crate::study::event::{Event, ProposalEvent, Seq, StudyEvent, TrialEvent};
use crate::study::finalists::Race;
use crate::study::front::Front;
use crate::study::metric::Score;
use crate::study::prediction::Prediction;
use crate::study::request::{Request, RequestAnswer};
use crate::study::spec::StudySpec;
use crate::study::state::{Counts, StudyState, value_so_far};
use crate::study::time::Timestamp;
use crate::study::trial::{AttemptNumber, Note, TrialNumber};

/// All studies by name.
pub(in crate::storage) fn studies(connection: &dyn Connection) -> Result<Vec<StudySummary>, Fault> {
    let ids: Vec<StudyId> = values(connection, "SELECT id FROM study ORDER BY name", ())?;
    ids.into_iter().map(|id| summary(connection, id)).collect()
}

/// The names of all studies, in their order.
pub(in crate::storage) fn names(
    connection: &dyn Connection,
) -> Result<Vec<(StudyId, String)>, Fault> {
    let sql = "SELECT id, name FROM study ORDER BY name";
    rows(connection, sql, (), |row| Ok((row.get(0)?, row.get(1)?)))
}

/// The study called `name`.
pub(in crate::storage) fn study(
    connection: &dyn Connection,
    name: &str,
) -> Result<Option<StoredStudy>, Fault> {
    let id = values(connection, "SELECT id FROM study WHERE name = ?1", [name])?.pop();
    let Some(id) = id else { return Ok(None) };
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
pub(in crate::storage) fn summary(
    connection: &dyn Connection,
    id: StudyId,
) -> Result<StudySummary, Fault> {
    let StudyRow { spec, created, finished, paused, extension, .. } = study_row(connection, id)?;
    let mut counts = Counts::default();
    let by_state = "SELECT state, count(*) FROM trial WHERE study_id = ?1 GROUP BY state";
    for (state, trials) in rows(connection, by_state, [id.0], |row| {
        let cells = Cells::of(row, || format!("table `trial`, study {}", id.0));
        Ok((cells.state(0)?, cells.integer(1)?))
    })? {
        *counts.of(state) = trials;
    }
    // Uses its index: few trials are hidden.
    let hidden = "SELECT count(*) FROM trial WHERE study_id = ?1 AND hidden = 1";
    let hidden: i64 = value(connection, hidden, [id.0])?;
    let hidden = u64::try_from(hidden).unwrap_or(0);
    let race = race(connection, id)?;
    let best = match race.as_ref().and_then(Race::winner) {
        Some(winner) => Some((winner.trial, winner.statistics.mean)),
        None if spec.has_several_objectives() => None,
        None => best(connection, id, &spec, counts)?,
    };
    let front = match spec.has_several_objectives() {
        true => Some(Front::of(&spec.objectives, &trials::points(connection, id)?)),
        false => None,
    };
    let mut race_counts = Counts::default();
    if repeats(connection, id)? {
        for run in runs(connection, id)?.iter().filter(|run| run.origin.is_race()) {
            *race_counts.of(run.state) += 1;
        }
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
        front,
        hidden,
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

/// The names of the directories claimed for its files, the present one first.
pub(in crate::storage) fn directories(
    connection: &dyn Connection,
    study: StudyId,
) -> Result<Vec<String>, Fault> {
    let names = first(connection, "SELECT files FROM study WHERE id = ?1", [study.0], |row| {
        Cells::of(row, || format!("table `study`, id {}", study.0)).optional_json(0)
    })?;
    Ok(names.flatten().unwrap_or_default())
}

/// The name of the directory of its files, once it is claimed.
fn directory(connection: &dyn Connection, study: StudyId) -> Result<Option<String>, Fault> {
    Ok(directories(connection, study)?.into_iter().next())
}

fn paused_devices(connection: &dyn Connection, study: StudyId) -> Result<BTreeSet<Device>, Fault> {
    let sql = "SELECT device FROM paused_device WHERE study_id = ?1";
    let devices = rows(connection, sql, [study.0], |row| {
        let cells = Cells::of(row, || format!("table `paused_device`, study {}", study.0));
        cells.optional(0, str::parse)
    })?;
    Ok(devices.into_iter().flatten().collect())
}

/// The race of a study.
pub(in crate::storage) fn race(
    connection: &dyn Connection,
    study: StudyId,
) -> Result<Option<Race>, Fault> {
    let race = first(connection, "SELECT race FROM study WHERE id = ?1", [study.0], |row| {
        Cells::of(row, || format!("table `study`, id {}", study.0)).optional_json(0)
    })?;
    Ok(race.flatten())
}

/// Whether some trials repeat the configuration of others.
fn repeats(connection: &dyn Connection, study: StudyId) -> Result<bool, Fault> {
    let sql = "SELECT 1 FROM trial WHERE study_id = ?1 AND configuration IS NOT NULL";
    connection.exists(sql, [study.0])
}

/// [`StudyState::leader`], except for the winner of a race.
fn best(
    connection: &dyn Connection,
    study: StudyId,
    spec: &StudySpec,
    counts: Counts,
) -> Result<Option<(TrialNumber, f64)>, Fault> {
    if spec.objectives.len() > 1 {
        return Ok(None);
    }
    let direction = trials::direction(connection, study)?;
    if spec.replicates > 1 || repeats(connection, study)? {
        let ranked = configuration::ranked(runs(connection, study)?, direction, spec.replicates);
        return Ok(ranked.first().map(|(number, statistics)| (*number, statistics.mean)));
    }
    let sql = format!(
        "SELECT v.trial_id, v.value {} LIMIT 1",
        pages::ranked(direction, Reverse::No, Which::Visible)
    );
    let complete =
        first(connection, &sql, [study.0], |row| Ok((number_of(row.get(0)?), row.get(1)?)))?;
    let mut candidates: Vec<(TrialNumber, f64)> = complete.into_iter().collect();
    if counts.queued + counts.running + counts.paused > 0 {
        let sql = "SELECT id FROM trial WHERE study_id = ?1 AND state IN ('queued', 'running', \
            'paused') AND continued = 'complete'";
        for number in values(connection, sql, [study.0])?.into_iter().map(number_of) {
            let value = trials::one(connection, study, number)?
                .and_then(|trial| value_so_far(spec.value, direction, &spec.constraints, &trial));
            candidates.extend(value.map(|value| (number, value)));
        }
    }
    Ok(candidates
        .into_iter()
        .min_by_key(|(number, value)| (Score::new(direction, *value), *number)))
}

/// The trials of a study, with the columns for ranking its configurations.
fn runs(connection: &dyn Connection, study: StudyId) -> Result<Vec<Run>, Fault> {
    let sql = "SELECT t.id, t.origin, t.state, v.trial_id, v.value, \
        t.violation IS NOT NULL OR t.hidden = 1 \
        FROM trial t LEFT JOIN trial_value v ON v.trial_id = t.id AND v.idx = 0
        WHERE t.id BETWEEN ?1 AND ?2 ORDER BY t.id";
    rows(connection, sql, trial_ids(study), |row| {
        let number = number_of(row.get(0)?);
        let cells = Cells::of(row, || format!("table `trial`, study {}, trial {number}", study.0));
        Ok(Run {
            number,
            origin: cells.json(1)?,
            state: cells.state(2)?,
            value: cells.value(3)?,
            violates: cells.get(5)?,
        })
    })
}

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

/// Every version of a study's specification, with the last event before it.
pub(in crate::storage) fn revisions(
    connection: &dyn Connection,
    study: StudyId,
) -> Result<Vec<(Seq, StudySpec)>, Fault> {
    let sql = "SELECT seq, spec FROM study_revision WHERE study_id = ?1 ORDER BY revision";
    rows(connection, sql, [study.0], |row| {
        let cells = Cells::of(row, || format!("table `study_revision`, study {}", study.0));
        Ok((Seq(cells.get(0)?), cells.json(1)?))
    })
}

/// A text stored by its digest.
pub(in crate::storage) fn document(
    connection: &dyn Connection,
    digest: &str,
) -> Result<Option<String>, Fault> {
    Ok(values(connection, "SELECT body FROM document WHERE digest = ?1", [digest])?.pop())
}

/// The holder of a study.
pub(in crate::storage) fn held(
    connection: &dyn Connection,
    study: StudyId,
) -> Result<Option<HeldLease>, Fault> {
    let sql = format!(
        "SELECT epoch, pid, pid_started, host, acquired_at, boot_id FROM lease WHERE study_id = ?1 \
         AND pid IS NOT NULL AND {}",
        connection.dialect().is_live()
    );
    first(connection, &sql, [study.0], |row| {
        let cells = Cells::of(row, || format!("table `lease`, study {}", study.0));
        let holder = Holder {
            pid: cells.integer(1)?,
            pid_started: cells.integer(2)?,
            host: cells.get(3)?,
            boot_id: cells.get(5)?,
        };
        let (epoch, acquired) = (cells.get(0)?, Timestamp(cells.get(4)?));
        let lease_time = connection.dialect().lease;
        Ok(HeldLease { epoch, holder, acquired, lock_file: None, lease_time })
    })
}

/// The row of table `study`.
pub(in crate::storage) struct StudyRow {
    pub(in crate::storage) spec: StudySpec,
    pub(in crate::storage) revision: i64,
    pub(in crate::storage) created: Timestamp,
    pub(in crate::storage) finished: Option<String>,
    pub(in crate::storage) ran_micros: i64,
    pub(in crate::storage) paused: Option<String>,
    pub(in crate::storage) extension: Extension,
    pub(in crate::storage) killed_at: Option<Timestamp>,
    pub(in crate::storage) busy_micros: i64,
}

/// The row of table `study`; an error if there is none.
pub(in crate::storage) fn study_row(
    connection: &dyn Connection,
    study: StudyId,
) -> Result<StudyRow, Fault> {
    let sql = "SELECT spec, revision, created_at, finished_reason, ran_micros, paused_reason, \
        extra_trials, extra_micros, extra_device_hours, extra_cost, killed_at, busy_micros \
        FROM study WHERE id = ?1";
    let row = first(connection, sql, [study.0], |row| {
        let cells = Cells::of(row, || format!("table `study`, id {}", study.0));
        Ok(StudyRow {
            spec: cells.json(0)?,
            revision: cells.get(1)?,
            created: Timestamp(cells.get(2)?),
            finished: cells.get(3)?,
            ran_micros: cells.get(4)?,
            paused: cells.get(5)?,
            extension: Extension {
                trials: cells.integer(6)?,
                time: Duration::from_micros(cells.integer(7)?),
                device_hours: cells.get(8)?,
                cost: cells.get(9)?,
            },
            killed_at: cells.get::<Option<i64>>(10)?.map(Timestamp),
            busy_micros: cells.get(11)?,
        })
    })?;
    row.ok_or_else(|| StorageError::NoStudy { study, name: None }.into())
}

/// Checks that the study exists.
pub(in crate::storage) fn require(
    connection: &dyn Connection,
    study: StudyId,
) -> Result<(), Fault> {
    let is_there = connection.exists("SELECT 1 FROM study WHERE id = ?1", [study.0])?;
    if is_there { Ok(()) } else { Err(StorageError::NoStudy { study, name: None }.into()) }
}

/// The whole state of a study.
pub(in crate::storage) fn study_state(
    connection: &dyn Connection,
    study: StudyId,
) -> Result<StudyState, Fault> {
    let row = study_row(connection, study)?;
    let mut state = StudyState::new(&row.spec);
    state.trials = trials::all(connection, study)?;
    for trial in &state.trials {
        *state.counts.of(trial.state) += 1;
        *state.race_counts.of(trial.state) += u64::from(trial.origin.is_race());
        state.further_runs += u64::from(trial.origin.configuration().is_some());
    }
    state.busy_micros = row.busy_micros;
    state.killed_at = row.killed_at;
    state.finished = row.finished;
    state.paused = row.paused;
    state.race = race(connection, study)?;
    state.paused_devices = paused_devices(connection, study)?;
    state.extension = row.extension;
    state.notes = notes(connection, study)?;
    state.tags = tags(connection, study)?;
    state.ran_micros = row.ran_micros;
    Ok(state)
}

/// The notes of a study.
fn notes(connection: &dyn Connection, study: StudyId) -> Result<Vec<Note>, Fault> {
    let sql = "SELECT at, text FROM study_note WHERE study_id = ?1 ORDER BY seq";
    rows(connection, sql, [study.0], |row| {
        Ok(Note { at: Timestamp(row.get(0)?), text: row.get(1)? })
    })
}

/// The tags of a study.
fn tags(connection: &dyn Connection, study: StudyId) -> Result<Vec<String>, Fault> {
    values(connection, "SELECT tag FROM study_tag WHERE study_id = ?1 ORDER BY tag", [study.0])
}

/// The answer to a request.
pub(in crate::storage) fn answer(
    connection: &dyn Connection,
    study: StudyId,
    id: i64,
) -> Result<Option<RequestAnswer>, Fault> {
    let sql =
        "SELECT answer FROM request WHERE study_id = ?1 AND id = ?2 AND served_at IS NOT NULL";
    let served = first(connection, sql, [study.0, id], |row| {
        Cells::of(row, || format!("table `request`, id {id}")).optional_json(0)
    })?;
    // Requests served by older versions have no answer.
    Ok(served.map(|answer| answer.unwrap_or_else(|| RequestAnswer::Done(String::new()))))
}

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

/// All reports of one trial: metric, step and value, in that order.
pub(in crate::storage) fn reports(
    connection: &dyn Connection,
    study: StudyId,
    trial: TrialNumber,
) -> Result<Vec<(String, u64, f64)>, Fault> {
    let Ok(id) = trial_id(study, trial) else { return Ok(Vec::new()) };
    let sql = "SELECT m.name, r.step, r.value FROM report r JOIN metric m ON m.id = r.metric_id \
        WHERE r.trial_id = ?1 ORDER BY m.name, r.step";
    rows(connection, sql, [id], |row| {
        let (step, value) = point(row, 1, study, trial)?;
        Ok((row.get(0)?, step, value))
    })
}

/// A metric's reports by some trials.
pub(in crate::storage) fn curves(
    connection: &dyn Connection,
    study: StudyId,
    metric: &str,
    trials: &[TrialNumber],
) -> Result<Vec<Curve>, Fault> {
    let ids = "SELECT id FROM metric WHERE name = ?1";
    let metric: Option<i64> = values(connection, ids, [metric])?.pop();
    let sql = "SELECT step, value FROM report WHERE trial_id = ?1 AND metric_id = ?2 ORDER BY step";
    let curve = |number: &TrialNumber| {
        let points = match (metric, trial_id(study, *number)) {
            (Some(metric), Ok(id)) => {
                rows(connection, sql, [id, metric], |row| point(row, 0, study, *number))?
            }
            _ => Vec::new(),
        };
        Ok((*number, points))
    };
    trials.iter().map(curve).collect()
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

/// The names of the metrics that a study's trials reported.
pub(in crate::storage) fn metrics(
    connection: &dyn Connection,
    study: StudyId,
) -> Result<Vec<String>, Fault> {
    let sql = "SELECT name FROM metric m WHERE EXISTS (SELECT 1 FROM trial t CROSS JOIN report r \
        ON r.trial_id = t.id WHERE t.id BETWEEN ?1 AND ?2 AND r.metric_id = m.id) ORDER BY name";
    values(connection, sql, trial_ids(study))
}

/// The names of the metrics that a study's trials logged.
pub(in crate::storage) fn series_names(
    connection: &dyn Connection,
    study: StudyId,
) -> Result<Vec<String>, Fault> {
    let sql = "SELECT name FROM metric WHERE id IN (SELECT DISTINCT metric_id FROM series WHERE \
        trial_id BETWEEN ?1 AND ?2) ORDER BY name";
    values(connection, sql, trial_ids(study))
}

/// The journal after `seq`.
pub(in crate::storage) fn events_after(
    connection: &dyn Connection,
    study: StudyId,
    seq: Seq,
    limit: u64,
) -> Result<Vec<(Seq, Timestamp, Event)>, Fault> {
    let sql =
        "SELECT seq, at, body FROM event WHERE study_id = ?1 AND seq > ?2 ORDER BY seq LIMIT ?3";
    rows(connection, sql, (study.0, seq.0, to_limit(limit)), entry)
}

/// The end of the journal before `seq`.
pub(in crate::storage) fn events_before(
    connection: &dyn Connection,
    study: StudyId,
    seq: Seq,
    limit: u64,
) -> Result<Vec<(Seq, Timestamp, Event)>, Fault> {
    let newest_first = "SELECT seq, at, body FROM event WHERE study_id = ?1 AND seq < ?2 ORDER BY \
        seq DESC LIMIT ?3";
    let mut events = rows(connection, newest_first, (study.0, seq.0, to_limit(limit)), entry)?;
    events.reverse();
    Ok(events)
}

/// A row of table `event`.
pub(in crate::storage) fn entry(row: &dyn Row) -> Result<(Seq, Timestamp, Event), Fault> {
    let seq = Seq(row.get(0)?);
    let cells = Cells::of(row, || format!("table `event`, seq {}", seq.0));
    Ok((seq, Timestamp(cells.get(1)?), cells.json(2)?))
}

/// The remarks on a trial's lines after `seq`, and the journal's last position. They are found by
/// the prefix of their JSON, so that a long journal is not parsed.
pub(in crate::storage) fn remarks(
    connection: &dyn Connection,
    study: StudyId,
    trial: TrialNumber,
    seq: Seq,
) -> Result<(Vec<Remarked>, Seq), Fault> {
    let last = last_event(connection, study)?;
    let begin = format!("{{\"type\":\"remarked\",\"trial\":{trial},");
    let sql = "SELECT seq, at, body FROM event WHERE study_id = ?1 AND seq > ?2 AND seq <= ?3 AND \
        substr(body, 1, length(?4)) = ?4 ORDER BY seq";
    let entries = rows(connection, sql, (study.0, seq.0, last.0, begin), entry)?;
    Ok((entries.into_iter().filter_map(|(_, _, event)| Remarked::of(event)).collect(), last))
}

/// What was predicted of a trial when it was created; found like [`remarks`].
pub(in crate::storage) fn predicted(
    connection: &dyn Connection,
    study: StudyId,
    trial: TrialNumber,
) -> Result<Vec<Prediction>, Fault> {
    let begin = format!("{{\"type\":\"trial_created\",\"trial\":{trial},");
    let sql = "SELECT seq, at, body FROM event WHERE study_id = ?1 AND \
        substr(body, 1, length(?2)) = ?2 ORDER BY seq LIMIT 1";
    let created = rows(connection, sql, (study.0, begin), entry)?.pop();
    Ok(match created {
        Some((
            _,
            _,
            Event::Trial(_, TrialEvent::Proposal(ProposalEvent::TrialCreated { predicted, .. })),
        )) => predicted,
        _ => Vec::new(),
    })
}

/// The agents that came, in order; found like [`remarks`].
pub(in crate::storage) fn agents(
    connection: &dyn Connection,
    study: StudyId,
) -> Result<Vec<StoredAgent>, Fault> {
    let begin = "{\"type\":\"agent_changed\",";
    let sql = "SELECT seq, at, body FROM event WHERE study_id = ?1 AND \
        substr(body, 1, length(?2)) = ?2 ORDER BY seq";
    let entries = rows(connection, sql, (study.0, begin), entry)?;
    Ok(entries.into_iter().filter_map(|(_, at, event)| StoredAgent::of(at, event)).collect())
}

/// The journal's last position; 0 before the first event.
pub(in crate::storage) fn last_event(
    connection: &dyn Connection,
    study: StudyId,
) -> Result<Seq, Fault> {
    let sql = "SELECT coalesce(max(seq), 0) FROM event WHERE study_id = ?1";
    value(connection, sql, [study.0]).map(Seq)
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

const RAN: &str = "SELECT ran_micros FROM study WHERE id = ?1";

/// From when to when a study was paused in its present run, which began at `since`; found like
/// [`remarks`].
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

/// Requests not yet served, oldest first.
pub(in crate::storage) fn pending_requests(
    connection: &dyn Connection,
    study: StudyId,
) -> Result<Vec<StoredRequest>, Fault> {
    let sql = "SELECT id, body FROM request WHERE study_id = ?1 AND served_at IS NULL ORDER BY id";
    rows(connection, sql, [study.0], |row| {
        // An unreadable request must not prevent running the study: it is refused when it is
        // served.
        let read = match row.cell(1) {
            Ok(Cell::Text(text)) => serde_json::from_str(text).map_err(|error| error.to_string()),
            _ => Err("it is not text in UTF-8".to_owned()),
        };
        let request = read.unwrap_or_else(|why| Request::Unreadable { why });
        Ok(StoredRequest { id: row.get(0)?, request })
    })
}
