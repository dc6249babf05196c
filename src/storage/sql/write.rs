//! Writes studies, leases and requests, each call inside the transaction it is given.

use std::path::Path;

use super::connection::{Connection, params};

use super::append::{Append, Cache, add_dimension, present_dimensions};
use super::column::to_json;
use super::column::{first, number_of, to_integer, trial_id, trial_ids, value, values};
use super::fault::Fault;
use super::journal::last_event;
use super::optuna::distribution_json;
use super::read::{directories, held, require, study_row};
use crate::storage::{HeldLease, Holder, Lease, StorageError, StudyId, Takeover, check_creations};
use crate::study::event::{Event, Seq};
use crate::study::request::{Request, RequestAnswer};
use crate::study::series::LoggedSeries;
use crate::study::spec::StudySpec;
use crate::study::time::Timestamp;
use crate::study::tracked::NO_SAMPLER;
use crate::study::trial::TrialNumber;

/// A new study.
pub(in crate::storage) fn create_study(
    connection: &dyn Connection,
    now: Timestamp,
    spec: &StudySpec,
) -> Result<StudyId, Fault> {
    if let Some(sql) = connection.dialect().lock_studies {
        connection.exists(sql, ())?;
    }
    if connection.exists("SELECT 1 FROM study WHERE name = ?1", [&spec.name])? {
        return Err(StorageError::Exists { name: spec.name.clone() }.into());
    }
    // Greater than the id of any earlier study: ids are never reused.
    let sql = "INSERT INTO study (id, name, spec, created_at, updated_at) VALUES ((SELECT 1 + \
        coalesce(max(id), 0) FROM (SELECT id FROM study UNION ALL SELECT id FROM removed_study) AS \
        every), ?1, ?2, ?3, ?3) RETURNING id";
    let study: StudyId = value(connection, sql, params![spec.name, to_json(spec)?, now.0])?;
    connection.execute("INSERT INTO lease (study_id) VALUES (?1)", [study.0])?;
    write_objectives(connection, study, spec)?;
    write_dimensions(connection, study, spec)?;
    write_revision(connection, study, now)?;
    Ok(study)
}

/// Stores the present specification as a revision.
fn write_revision(
    connection: &dyn Connection,
    study: StudyId,
    now: Timestamp,
) -> Result<(), Fault> {
    connection.execute(
        "INSERT INTO study_revision (study_id, revision, seq, at, spec)
         SELECT id, revision, (SELECT coalesce(max(seq), 0) FROM event WHERE study_id = ?1), ?2, \
         spec FROM study WHERE id = ?1",
        params![study.0, now.0],
    )?;
    Ok(())
}

fn write_objectives(
    connection: &dyn Connection,
    study: StudyId,
    spec: &StudySpec,
) -> Result<(), Fault> {
    connection.execute("DELETE FROM objective WHERE study_id = ?1", [study.0])?;
    for (idx, objective) in (0_i64..).zip(&spec.objectives) {
        let sql =
            "INSERT INTO objective (study_id, idx, metric, direction) VALUES (?1, ?2, ?3, ?4)";
        connection
            .execute(sql, params![study.0, idx, objective.metric, objective.direction.as_str()])?;
    }
    Ok(())
}

/// Adds a version of each new or changed parameter.
fn write_dimensions(
    connection: &dyn Connection,
    study: StudyId,
    spec: &StudySpec,
) -> Result<(), Fault> {
    let present = present_dimensions(connection, study)?;
    for dimension in spec.space.dimensions() {
        let json = distribution_json(&dimension.distribution).to_string();
        let sql = "SELECT optuna_json FROM dimension WHERE study_id = ?1 AND idx = ?2";
        let stored: Option<String> = match present.get(&dimension.name) {
            None => None,
            Some(idx) => value(connection, sql, [study.0, *idx])?,
        };
        if stored.as_deref() != Some(&json) {
            add_dimension(connection, study, &dimension.name, Some(&json))?;
        }
    }
    Ok(())
}

/// Replaces the stored specification.
pub(in crate::storage) fn update_spec(
    connection: &dyn Connection,
    lease: &Lease,
    now: Timestamp,
    spec: &StudySpec,
) -> Result<(), Fault> {
    check_fence(connection, lease)?;
    let study = lease.study;
    if connection
        .exists("SELECT 1 FROM study WHERE name = ?1 AND id <> ?2", params![spec.name, study.0])?
    {
        return Err(StorageError::Exists { name: spec.name.clone() }.into());
    }
    let before = study_row(connection, study)?.spec;
    let sql = "UPDATE study SET name = ?2, spec = ?3, revision = revision + 1, updated_at = ?4 \
        WHERE id = ?1";
    connection.execute(sql, params![study.0, spec.name, to_json(spec)?, now.0])?;
    write_objectives(connection, study, spec)?;
    write_dimensions(connection, study, spec)?;
    write_revision(connection, study, now)?;
    if before.objective().metric != spec.objective().metric {
        rewrite_last_reports(connection, study, &spec.objective().metric)?;
    }
    Ok(())
}

fn rewrite_last_reports(
    connection: &dyn Connection,
    study: StudyId,
    metric: &str,
) -> Result<(), Fault> {
    let (first, last) = trial_ids(study);
    connection.execute(
        "UPDATE trial SET (last_step, last_value) =
           (SELECT r.step, r.value FROM report r JOIN metric m ON m.id = r.metric_id
            WHERE r.trial_id = trial.id AND m.name = ?3 ORDER BY r.step DESC LIMIT 1)
         WHERE id BETWEEN ?1 AND ?2",
        params![first, last, metric],
    )?;
    Ok(())
}

/// Keeps other writers of a study out until the transaction ends, where a database has several, and
/// counts the write.
pub(in crate::storage) fn lock(connection: &dyn Connection, study: StudyId) -> Result<(), Fault> {
    match connection.dialect().lock_study {
        Some(sql) => connection.exists(sql, [study.0]).map(drop),
        None => Ok(()),
    }
}

/// Checks the lease; returns the revision of the specification.
pub(in crate::storage) fn check_fence(
    connection: &dyn Connection,
    lease: &Lease,
) -> Result<i64, Fault> {
    lock(connection, lease.study)?;
    let sql = format!(
        "SELECT l.epoch, l.pid IS NOT NULL AND {}, s.revision, s.name FROM lease l JOIN study s \
         ON s.id = l.study_id WHERE l.study_id = ?1",
        connection.dialect().is_live()
    );
    let row = first(connection, &sql, [lease.study.0], |row| {
        Ok((row.get::<i64>(0)?, row.get::<bool>(1)?, row.get::<i64>(2)?, row.get::<String>(3)?))
    })?;
    match row {
        None => Err(StorageError::NoStudy { study: lease.study, name: None }.into()),
        Some((epoch, true, revision, _)) if epoch == lease.epoch => Ok(revision),
        Some((.., name)) => Err(StorageError::Fenced { study: lease.study, name }.into()),
    }
}

/// Acquires the lease.
pub(in crate::storage) fn acquire(
    connection: &dyn Connection,
    study: StudyId,
    holder: &Holder,
    now: Timestamp,
    takeover: Takeover,
) -> Result<Lease, Fault> {
    lock(connection, study)?;
    let sql = "SELECT json_extract(spec, '$.sampler.name'), name FROM study WHERE id = ?1";
    let row = first(connection, sql, [study.0], |row| {
        Ok((row.get::<Option<String>>(0)?, row.get::<String>(1)?))
    })?;
    match row {
        None => return Err(StorageError::NoStudy { study, name: None }.into()),
        // Its runs have no lease: it is acquired only to rename or remove the study, while no run
        // is tracked.
        Some((Some(sampler), name)) if sampler == NO_SAMPLER => {
            let open = "SELECT trial_id FROM attempt WHERE trial_id BETWEEN ?1 AND ?2 \
                AND ended_at IS NULL LIMIT 1";
            if let Some(id) = values::<i64>(connection, open, trial_ids(study))?.pop() {
                let run = number_of(id);
                return Err(StorageError::RunTracked { study: name, run }.into());
            }
        }
        Some(_) => {}
    }
    if let Some(held) = held(connection, study)?
        && takeover != Takeover::From(held.epoch)
    {
        let name = value(connection, "SELECT name FROM study WHERE id = ?1", [study.0])?;
        let HeldLease { holder, acquired: since, .. } = held;
        return Err(StorageError::Busy { study: name, holder, since }.into());
    }
    let sql = format!(
        "UPDATE lease SET epoch = epoch + 1, pid = ?2, pid_started = ?3, host = ?4, acquired_at = \
         ?5, boot_id = ?6{} WHERE study_id = ?1 RETURNING epoch",
        connection.dialect().renewed()
    );
    let started = to_integer(holder.pid_started)?;
    let holder = params![study.0, holder.pid, started, holder.host, now.0, holder.boot_id];
    let epoch = value(connection, &sql, holder)?;
    Ok(Lease { study, epoch })
}

/// Updates the holder, and begins the time of the lease anew. One that has ended is renewed if
/// nobody took it since: its epoch tells.
pub(in crate::storage) fn renew(
    connection: &dyn Connection,
    lease: &Lease,
    holder: &Holder,
) -> Result<(), Fault> {
    require(connection, lease.study)?;
    let sql = format!(
        "UPDATE lease SET pid = ?2, pid_started = ?3, host = ?4, boot_id = ?5{} WHERE study_id = \
         ?1 AND epoch = ?6 AND pid IS NOT NULL",
        connection.dialect().renewed()
    );
    let (study, started) = (lease.study, to_integer(holder.pid_started)?);
    let Holder { pid, host, boot_id, .. } = holder;
    match connection.execute(&sql, params![study.0, pid, started, host, boot_id, lease.epoch])? {
        0 => {
            let name = value(connection, "SELECT name FROM study WHERE id = ?1", [study.0])?;
            Err(StorageError::Fenced { study, name }.into())
        }
        _ => Ok(()),
    }
}

/// Releases the lease, if it was not taken over.
pub(in crate::storage) fn release(connection: &dyn Connection, lease: &Lease) -> Result<(), Fault> {
    require(connection, lease.study)?;
    lock(connection, lease.study)?;
    let sql = "UPDATE lease SET pid = NULL, pid_started = NULL, host = NULL, acquired_at = NULL, \
        boot_id = NULL WHERE study_id = ?1 AND epoch = ?2";
    connection.execute(sql, params![lease.study.0, lease.epoch])?;
    Ok(())
}

/// Writes events to the journal and the tables.
pub(in crate::storage) fn append(
    connection: &dyn Connection,
    cache: &mut Cache,
    store: &Path,
    lease: &Lease,
    now: Timestamp,
    events: &[Event],
    logged: &[LoggedSeries],
) -> Result<Seq, Fault> {
    let revision = check_fence(connection, lease)?;
    let trials = trials_of(connection, lease.study)?;
    check_creations(trials, events)?;
    let mut append = Append::new(connection, cache, store, lease.study, revision, now, trials)?;
    let mut seq = None;
    for event in events {
        seq = Some(append.write(event)?);
    }
    append.log(logged)?;
    match seq {
        Some(seq) => Ok(Seq(seq)),
        None => last_event(connection, lease.study),
    }
}

/// The next trial's number. Numbers of removed runs are not reused.
pub(in crate::storage) fn trials_of(
    connection: &dyn Connection,
    study: StudyId,
) -> Result<u64, Fault> {
    let newest = "SELECT max(id) FROM (SELECT max(id) AS id FROM trial WHERE id BETWEEN ?1 AND ?2 \
        UNION ALL SELECT max(trial_id) FROM removed_run WHERE trial_id BETWEEN ?1 AND ?2) AS \
        newest";
    let newest: Option<i64> = value(connection, newest, trial_ids(study))?;
    Ok(newest.map_or(0, |id| number_of(id).0 + 1))
}

/// Stores a request for the runner, or executes it here if it is a note or tag.
pub(in crate::storage) fn request(
    connection: &dyn Connection,
    cache: &mut Cache,
    store: &Path,
    study: StudyId,
    now: Timestamp,
    request: &Request,
) -> Result<i64, Fault> {
    require(connection, study)?;
    lock(connection, study)?;
    let sql = "INSERT INTO request (study_id, body, at) VALUES (?1, ?2, ?3)";
    let id = connection.insert(sql, "id", params![study.0, to_json(request)?, now.0])?;
    if let Some(entry) = Event::requested(request) {
        if let Some(trial) = entry.trial()
            && !is_there(connection, study, trial)?
        {
            return Err(StorageError::NoTrial { trial }.into());
        }
        let trials = trials_of(connection, study)?;
        let revision = value(connection, "SELECT revision FROM study WHERE id = ?1", [study.0])?;
        Append::new(connection, cache, store, study, revision, now, trials)?.write(&entry)?;
        let sql = "UPDATE request SET served_at = ?2, answer = ?3 WHERE id = ?1";
        connection
            .execute(sql, params![id, now.0, to_json(&RequestAnswer::Done(String::new()))?])?;
    }
    Ok(id)
}

/// Whether the study has this trial.
pub(in crate::storage) fn is_there(
    connection: &dyn Connection,
    study: StudyId,
    trial: TrialNumber,
) -> Result<bool, Fault> {
    let Ok(id) = trial_id(study, trial) else { return Ok(false) };
    connection.exists("SELECT 1 FROM trial WHERE id = ?1", [id])
}

/// Stores a text by its digest.
pub(in crate::storage) fn keep_document(
    connection: &dyn Connection,
    digest: &str,
    body: &str,
) -> Result<(), Fault> {
    connection.execute(
        "INSERT INTO document (digest, body) VALUES (?1, ?2) ON CONFLICT DO NOTHING",
        params![digest, body],
    )?;
    Ok(())
}

/// Claims a directory of that name for the files of a study's trials.
pub(in crate::storage) fn take_directory(
    connection: &dyn Connection,
    study: StudyId,
    name: &str,
) -> Result<(), Fault> {
    require(connection, study)?;
    lock(connection, study)?;
    let mut names = directories(connection, study)?;
    names.retain(|known| known != name);
    names.insert(0, name.to_owned());
    connection
        .execute("UPDATE study SET files = ?2 WHERE id = ?1", params![study.0, to_json(&names)?])?;
    Ok(())
}

/// Gives the store a new identifier.
pub(in crate::storage) fn renew_identity(connection: &dyn Connection) -> Result<(), Fault> {
    let sql = format!("UPDATE store SET id = {}", connection.dialect().random_hex);
    connection.execute(&sql, ())?;
    Ok(())
}
