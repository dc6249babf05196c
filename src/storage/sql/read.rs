//! Reads studies: their rows, their summaries, their states.

use std::collections::BTreeSet;
use std::time::Duration;

use super::column::{Cells, first, number_of, rows, trial_ids, value, values};
use super::connection::Connection;
use super::continued;
use super::fault::Fault;
use super::journal::ended_by_failures;
use super::pages::{self, Reverse, Which};
use super::trials;
use crate::storage::{HeldLease, Holder, StorageError, StoredStudy, StudyId, StudySummary};
use crate::study::budget::Extension;
use crate::study::configuration::{self, ConfigurationRun};
use crate::study::device::Device;
use crate::study::event::Seq;
use crate::study::finalists::Race;
use crate::study::front::Front;
use crate::study::metric::Score;
use crate::study::spec::StudySpec;
use crate::study::state::{Counts, StudyState, value_so_far};
use crate::study::time::Timestamp;
use crate::study::trial::{Note, TrialNumber};

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
    let has_lapsed = held.is_none() && connection.dialect().lease.is_some() && {
        let sql = "SELECT count(*) FROM lease WHERE study_id = ?1 AND pid IS NOT NULL";
        value::<i64>(connection, sql, [id.0])? > 0
    };
    let directory = directory(connection, id)?;
    let too_many_failures =
        finished.is_some() && counts.failed > 0 && ended_by_failures(connection, id)?;
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
        too_many_failures,
        paused,
        paused_devices,
        extension,
        notes,
        tags,
        held,
        has_lapsed,
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
fn runs(connection: &dyn Connection, study: StudyId) -> Result<Vec<ConfigurationRun>, Fault> {
    let sql = "SELECT t.id, t.origin, t.state, v.trial_id, v.value, \
        t.violation IS NOT NULL OR t.hidden = 1 \
        FROM trial t LEFT JOIN trial_value v ON v.trial_id = t.id AND v.idx = 0
        WHERE t.id BETWEEN ?1 AND ?2 ORDER BY t.id";
    rows(connection, sql, trial_ids(study), |row| {
        let number = number_of(row.get(0)?);
        let cells = Cells::of(row, || format!("table `trial`, study {}, trial {number}", study.0));
        Ok(ConfigurationRun {
            number,
            origin: cells.json(1)?,
            state: cells.state(2)?,
            value: cells.value(3)?,
            violates: cells.get(5)?,
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
    for trial in state.trials.iter_mut().filter(|trial| trial.continued.is_some()) {
        trial.before = continued::before(connection, study, &row.spec, trial.number)?;
    }
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
