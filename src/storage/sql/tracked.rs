//! Writes tracked runs, each call inside the transaction it is given: without the study's lease,
//! fenced by the run's newest attempt.

use std::path::Path;

use super::connection::Connection;

use super::append::{Append, Cache};
use super::column::{first, trial_id, values};
use super::fault::Fault;
use super::read::study_row;
use super::write::{lock, trials_of};
use crate::storage::tracked::{BeginRun, RunFence, TrackerProcess};
use crate::storage::{StorageError, StudyId};
use crate::study::event::{AttemptEvent, Event, RecordEvent, RunnerEvent, Seq, TrialEvent};
use crate::study::series::LoggedSeries;
use crate::study::time::Timestamp;
use crate::study::tracked::free_name;
use crate::study::trial::{AttemptNumber, Origin, TrialNumber};

/// Begins an attempt of a run; a new run gets its number here.
pub(in crate::storage) fn begin_run(
    connection: &dyn Connection,
    cache: &mut Cache,
    store: &Path,
    study: StudyId,
    now: Timestamp,
    (begin, process): (&BeginRun, &TrackerProcess),
) -> Result<RunFence, Fault> {
    lock(connection, study)?;
    let row = study_row(connection, study)?;
    if !row.spec.is_tracked() {
        return Err(StorageError::Searched { study: row.spec.name }.into());
    }
    let trials = trials_of(connection, study)?;
    let mut append = Append::new(connection, cache, store, study, row.revision, now, trials)?;
    let runner = append.write(&Event::Runner(RunnerEvent::Started {
        pid: process.pid,
        host: process.host.clone(),
        slots: vec![process.slot.clone()],
        tracker: Some(process.tracker.clone()),
    }))?;
    if let Some(provenance) = &process.provenance {
        append.write(&Event::Runner(RunnerEvent::Described { provenance: provenance.clone() }))?;
    }
    // What the run itself does has the times of its program.
    append.at(process.since.unwrap_or(now));
    let (trial, attempt, resume) = match begin {
        BeginRun::New { params, run, tags, note } => {
            let trial = TrialNumber(trials);
            let mut run = run.clone();
            if let Some(name) = &run.name {
                let taken = names(connection, study)?;
                run.name = Some(free_name(name, |name| taken.iter().any(|other| other == name)));
            }
            let origin = Origin::Tracked(Box::new(run));
            let params = params.clone();
            append.write(&Event::Trial(trial, TrialEvent::created(params, origin)))?;
            for tag in tags {
                append.write(&Event::tagged(Some(trial), tag.clone(), true))?;
            }
            if let Some(text) = note {
                append.write(&Event::noted(Some(trial), text.clone()))?;
            }
            (trial, AttemptNumber(0), None)
        }
        BeginRun::Resumed { trial, attempts, resume } => {
            let newest = newest_attempt(connection, study, *trial)?;
            let known = attempts.checked_sub(1);
            match newest {
                Some((newest, true)) if known == Some(newest.0) => {}
                // It was removed meanwhile.
                None => return Err(StorageError::NoTrial { trial: *trial }.into()),
                _ => return Err(StorageError::RunFenced { trial: *trial }.into()),
            }
            (*trial, AttemptNumber(*attempts), resume.clone())
        }
    };
    append.write(&Event::of(
        trial,
        AttemptEvent::Started {
            attempt,
            slot: process.slot.clone(),
            resume,
            until: None,
            rows_at_once: None,
            device_micros: 0,
        },
    ))?;
    append.at(now);
    if let Some((spool, offset)) = process.spool.clone() {
        append.write(&Event::of(trial, RecordEvent::SpoolRead { spool, offset }))?;
    }
    Ok(RunFence { study, trial, attempt, runner: Seq(runner) })
}

/// Writes events of a run, each with its time.
pub(in crate::storage) fn append_run(
    connection: &dyn Connection,
    cache: &mut Cache,
    store: &Path,
    fence: &RunFence,
    events: &[(Timestamp, Event)],
    logged: &[LoggedSeries],
) -> Result<(), Fault> {
    lock(connection, fence.study)?;
    match newest_attempt(connection, fence.study, fence.trial)? {
        Some((newest, false)) if newest == fence.attempt => {}
        _ => return Err(StorageError::RunFenced { trial: fence.trial }.into()),
    }
    let sql = "SELECT revision, json_extract(spec, '$.sampler.name') FROM study WHERE id = ?1";
    let row = first(connection, sql, [fence.study.0], |row| {
        Ok((row.get::<i64>(0)?, row.get::<Option<String>>(1)?))
    })?;
    let Some((revision, sampler)) = row else {
        return Err(StorageError::NoStudy { study: fence.study, name: None }.into());
    };
    if sampler.as_deref() != Some(crate::study::tracked::NO_SAMPLER) {
        let study = study_row(connection, fence.study)?.spec.name;
        return Err(StorageError::Searched { study }.into());
    }
    let trials = trials_of(connection, fence.study)?;
    let now = events.first().map(|(at, _)| *at).unwrap_or_default();
    let mut append = Append::new(connection, cache, store, fence.study, revision, now, trials)?;
    for (at, event) in events {
        append.at(*at);
        append.write(event)?;
    }
    append.log(logged)
}

/// A run's newest attempt, and whether it has ended.
fn newest_attempt(
    connection: &dyn Connection,
    study: StudyId,
    trial: TrialNumber,
) -> Result<Option<(AttemptNumber, bool)>, Fault> {
    let sql = "SELECT attempt, ended_at IS NOT NULL FROM attempt WHERE trial_id = ?1 \
        ORDER BY attempt DESC LIMIT 1";
    first(connection, sql, [trial_id(study, trial)?], |row| {
        Ok((AttemptNumber(row.get(0)?), row.get(1)?))
    })
}

/// The names of a study's runs.
pub(in crate::storage) fn names(
    connection: &dyn Connection,
    study: StudyId,
) -> Result<Vec<String>, Fault> {
    let sql = "SELECT json_extract(origin, '$.tracked.name') FROM trial WHERE study_id = ?1 AND \
        json_extract(origin, '$.tracked.name') IS NOT NULL";
    values(connection, sql, [study.0])
}
