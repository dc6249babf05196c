//! Removes single runs of studies without a search, and moves them to others, each call inside the
//! transaction it is given.
//!
//! Of a removed run only its number and one event remain: its rows are deleted, and so are the
//! journal's entries about it and the processes that tracked it. A moved run is first replayed in
//! the other study from those entries.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::connection::{Connection, params};

use super::append::{Append, Cache};
use super::column::{Cells, number_of, rows, study_of, to_integer, to_json, trial_id, values};
use super::fault::Fault;
use super::journal::entry;
use super::located::{Roots, mapped};
use super::read::study_row;
use super::remove::{remove_documents, remove_rows};
use super::tracked::names;
use super::write::{is_there, lock, trials_of};
use crate::storage::paths::StudyFiles;
use crate::storage::tracked::{Move, RemovedRun};
use crate::storage::{StorageError, StudyId};
use crate::study::event::{
    Event, ProposalEvent, RecordEvent, RunnerEvent, Seq, StateEvent, StudyEvent, TrialEvent,
};
use crate::study::state::StudyState;
use crate::study::time::Timestamp;
use crate::study::tracked::{MovedRun, free_name};
use crate::study::trial::{Origin, TrialNumber};

/// The table of numbers that are not reused: it outlives the runs.
const REMOVED: &str = "removed_run";

/// Removes runs, and records that free pages of the file may still contain them.
pub(in crate::storage) fn remove_runs(
    connection: &dyn Connection,
    cache: &mut Cache,
    store: &Path,
    study: StudyId,
    now: Timestamp,
    runs: &[TrialNumber],
) -> Result<(), Fault> {
    lock(connection, study)?;
    runs.iter().try_for_each(|run| check(connection, study, *run))?;
    for (run, entries) in journals(connection, store, study, runs)? {
        remove(connection, cache, store, (study, run, &entries), now, None)?;
    }
    connection.execute("UPDATE store SET values_left = 1", ())?;
    Ok(())
}

/// Moves runs; returns their numbers in the other study.
pub(in crate::storage) fn move_runs(
    connection: &dyn Connection,
    cache: &mut Cache,
    store: &Path,
    now: Timestamp,
    moving: &Move<'_>,
) -> Result<Vec<TrialNumber>, Fault> {
    let mut moved: BTreeMap<TrialNumber, TrialNumber> = BTreeMap::new();
    lock(connection, moving.from.min(moving.to))?;
    lock(connection, moving.from.max(moving.to))?;
    moving.runs.iter().try_for_each(|run| check(connection, moving.from, *run))?;
    for (run, entries) in journals(connection, store, moving.from, moving.runs)? {
        let number = write_again(connection, cache, store, moving, (run, &entries, &moved))?;
        moved.insert(run, number);
        let study = study_row(connection, moving.to)?.spec.name;
        let target = (trial_id(moving.to, number)?, MovedRun { study, run: number });
        remove(connection, cache, store, (moving.from, run, &entries), now, Some(target))?;
    }
    Ok(moving.runs.iter().filter_map(|run| moved.get(run).copied()).collect())
}

/// The removed runs.
pub(in crate::storage) fn removed_runs(
    connection: &dyn Connection,
) -> Result<Vec<RemovedRun>, Fault> {
    let sql = "SELECT trial_id, moved_to FROM removed_run ORDER BY trial_id";
    rows(connection, sql, (), |row| {
        let (id, moved): (i64, Option<i64>) = (row.get(0)?, row.get(1)?);
        let place = |id: i64| (study_of(id), number_of(id));
        let (study, run) = place(id);
        Ok(RemovedRun { study, run, moved: moved.map(place) })
    })
}

/// Records that the files of a moved run are moved, too.
pub(in crate::storage) fn files_moved(
    connection: &dyn Connection,
    study: StudyId,
    run: TrialNumber,
) -> Result<(), Fault> {
    let sql = "UPDATE removed_run SET moved_to = NULL WHERE trial_id = ?1";
    connection.execute(sql, [trial_id(study, run)?])?;
    Ok(())
}

/// An error if there is no such run, or it is being tracked.
fn check(connection: &dyn Connection, study: StudyId, run: TrialNumber) -> Result<(), Fault> {
    let spec = study_row(connection, study)?.spec;
    if !spec.is_tracked() {
        return Err(StorageError::Searched { study: spec.name }.into());
    }
    if !is_there(connection, study, run)? {
        return Err(StorageError::NoTrial { trial: run }.into());
    }
    let open = "SELECT 1 FROM attempt WHERE trial_id = ?1 AND ended_at IS NULL";
    if connection.exists(open, [trial_id(study, run)?])? {
        return Err(StorageError::RunTracked { study: spec.name, run }.into());
    }
    Ok(())
}

/// The start events of the processes that tracked this run.
fn runners(connection: &dyn Connection, id: i64) -> Result<Vec<i64>, Fault> {
    let sql = "SELECT runner FROM attempt a WHERE trial_id = ?1 AND runner IS NOT NULL AND NOT \
        EXISTS (SELECT 1 FROM attempt o WHERE o.runner = a.runner AND o.trial_id <> ?1)";
    values(connection, sql, [id])
}

/// Entries of the journal.
type Entries = Vec<(Seq, Timestamp, Event)>;

/// The journal's entries about each of these runs, the processes that tracked it and its requests,
/// in one pass.
fn journals(
    connection: &dyn Connection,
    store: &Path,
    study: StudyId,
    runs: &[TrialNumber],
) -> Result<BTreeMap<TrialNumber, Entries>, Fault> {
    let mut of_runner: BTreeMap<i64, TrialNumber> = BTreeMap::new();
    for run in runs {
        let runners = runners(connection, trial_id(study, *run)?)?;
        of_runner.extend(runners.into_iter().map(|runner| (runner, *run)));
    }
    let numbers = to_json(&runs)?;
    let asked = "SELECT id, CAST(json_extract(body, '$.trial') AS BIGINT) FROM request WHERE \
        study_id = ?1 AND CAST(json_extract(body, '$.trial') AS BIGINT) IN (SELECT CAST(value AS \
        BIGINT) FROM json_each(?2))";
    let of_request = rows(connection, asked, params![study.0, numbers], |row| {
        let cells = Cells::of(row, || format!("table `request`, study {}", study.0));
        Ok((cells.get(0)?, TrialNumber(cells.integer(1)?)))
    })?;
    let of_request: BTreeMap<i64, TrialNumber> = of_request.into_iter().collect();
    let keys = |map: &BTreeMap<i64, TrialNumber>| to_json(&map.keys().collect::<Vec<_>>());
    let sql = "SELECT seq, at, body FROM event WHERE study_id = ?1 AND \
        (CAST(json_extract(body, '$.trial') AS BIGINT) IN (SELECT CAST(value AS BIGINT) FROM \
        json_each(?2)) OR seq IN (SELECT CAST(value AS BIGINT) FROM json_each(?3)) \
        OR type = 'runner_described' AND seq - 1 IN (SELECT CAST(value AS BIGINT) FROM \
        json_each(?3)) OR type = 'runner_stopped' AND CAST(json_extract(body, '$.runner') AS \
        BIGINT) IN (SELECT CAST(value AS BIGINT) FROM json_each(?3)) OR type = 'request_served' \
        AND CAST(json_extract(body, '$.id') AS BIGINT) IN (SELECT CAST(value AS BIGINT) FROM \
        json_each(?4))) ORDER BY seq";
    let (runners, requests) = (keys(&of_runner)?, keys(&of_request)?);
    let entries = rows(connection, sql, params![study.0, numbers, runners, requests], entry)?;
    let roots = Roots::of(connection, study, store)?;
    let mut of_run: BTreeMap<TrialNumber, Entries> =
        runs.iter().map(|run| (*run, Entries::new())).collect();
    for (seq, at, event) in entries {
        let run = match &event {
            Event::Runner(RunnerEvent::Started { .. }) => of_runner.get(&seq.0).copied(),
            // It directly follows the start of its process.
            Event::Runner(RunnerEvent::Described { .. }) => of_runner.get(&(seq.0 - 1)).copied(),
            Event::Runner(RunnerEvent::Stopped { runner, .. }) => {
                runner.and_then(|runner| of_runner.get(&runner.0).copied())
            }
            Event::Study(StudyEvent::RequestServed { id, .. }) => of_request.get(id).copied(),
            event => event.trial(),
        };
        if let Some(run) = run {
            let located = roots.found_event(&event).unwrap_or(event);
            of_run.entry(run).or_default().push((seq, at, located));
        }
    }
    Ok(of_run)
}

/// Removes a run with these journal entries; `moved` is its id and number in the other study.
fn remove(
    connection: &dyn Connection,
    cache: &mut Cache,
    store: &Path,
    (study, run, entries): (StudyId, TrialNumber, &Entries),
    now: Timestamp,
    moved: Option<(i64, MovedRun)>,
) -> Result<(), Fault> {
    let (id, row) = (trial_id(study, run)?, study_row(connection, study)?);
    let runners = to_json(&runners(connection, id)?)?;
    let mut own = StudyState::new(&row.spec);
    entries.iter().for_each(|(_, at, event)| own.apply(*at, event));
    remove_documents(connection, &runners)?;
    remove_rows(connection, (id, id), &[REMOVED])?;
    connection.execute("DELETE FROM trial WHERE id = ?1", [id])?;
    for (seq, _, _) in entries {
        connection.execute("DELETE FROM event WHERE seq = ?1", [seq.0])?;
    }
    let sql = "DELETE FROM runner WHERE seq IN (SELECT CAST(value AS BIGINT) FROM json_each(?1))";
    connection.execute(sql, [runners])?;
    let sql = "DELETE FROM request WHERE study_id = ?1 AND CAST(json_extract(body, '$.trial') AS \
        BIGINT) = ?2";
    connection.execute(sql, [study.0, to_integer(run.0)?])?;
    // The study's sums must equal those of the remaining journal.
    let killed = "SELECT CAST(json_extract(body, '$.heard') AS BIGINT) FROM event \
        WHERE study_id = ?1 AND type = 'runner_stopped' ORDER BY seq DESC LIMIT 1";
    let killed: Option<i64> = values(connection, killed, [study.0])?.pop().flatten();
    connection.execute(
        "UPDATE study SET ran_micros = ran_micros - ?2, busy_micros = busy_micros - ?3, killed_at \
         = ?4 WHERE id = ?1",
        params![study.0, own.ran_micros, own.busy_micros, killed],
    )?;
    let (moved_to, moved) = moved.unzip();
    connection.execute(
        "INSERT INTO removed_run (trial_id, at, moved_to) VALUES (?1, ?2, ?3)",
        params![id, now.0, moved_to],
    )?;
    *cache = Cache::default();
    let trials = trials_of(connection, study)?;
    let mut append = Append::new(connection, cache, store, study, row.revision, now, trials)?;
    append.write(&Event::of(run, StateEvent::Removed { moved }))?;
    Ok(())
}

/// Replays a run in the other study from its journal entries, with their times; `moved` are the
/// numbers that other runs got there.
fn write_again(
    connection: &dyn Connection,
    cache: &mut Cache,
    store: &Path,
    moving: &Move<'_>,
    (run, entries, moved): (TrialNumber, &Entries, &BTreeMap<TrialNumber, TrialNumber>),
) -> Result<TrialNumber, Fault> {
    let row = study_row(connection, moving.to)?;
    if !row.spec.is_tracked() {
        return Err(StorageError::Searched { study: row.spec.name }.into());
    }
    let taken = names(connection, moving.to)?;
    let trials = trials_of(connection, moving.to)?;
    let number = TrialNumber(trials);
    let place = |path: &Path| moved_path(moving, (run, number), path);
    let mut runners: BTreeMap<Seq, Seq> = BTreeMap::new();
    let moment = Timestamp::default();
    let mut append =
        Append::new(connection, cache, store, moving.to, row.revision, moment, trials)?;
    for (seq, at, event) in entries {
        let event = mapped(event, |_, path| place(path)).unwrap_or_else(|| event.clone());
        let event = match event {
            Event::Runner(RunnerEvent::Stopped {
                reason,
                ran_micros,
                heard,
                device_micros,
                runner,
            }) => {
                let runner = runner.and_then(|runner| runners.get(&runner).copied());
                Event::Runner(RunnerEvent::Stopped {
                    reason,
                    ran_micros,
                    heard,
                    device_micros,
                    runner,
                })
            }
            Event::Trial(
                _,
                TrialEvent::Proposal(ProposalEvent::TrialCreated {
                    params,
                    origin: Origin::Tracked(mut run),
                    ..
                }),
            ) => {
                run.name = run
                    .name
                    .map(|name| free_name(&name, |name| taken.iter().any(|other| other == name)));
                run.parent = run.parent.and_then(|parent| moved.get(&parent).copied());
                let origin = Origin::Tracked(run);
                Event::Trial(number, TrialEvent::created(params, origin))
            }
            Event::Trial(
                _,
                TrialEvent::Record(RecordEvent::ArtifactSaved { mut artifact, content }),
            ) => {
                artifact.path = artifact.path.map(|path| place(&path));
                Event::of(number, RecordEvent::ArtifactSaved { artifact, content })
            }
            Event::Trial(_, event) => Event::Trial(number, event),
            // Its requests are answered.
            Event::Study(_) => continue,
            event => event,
        };
        append.at(*at);
        let written = append.write(&event)?;
        if matches!(event, Event::Runner(RunnerEvent::Started { .. })) {
            runners.insert(*seq, Seq(written));
        }
    }
    let sql = "UPDATE series SET trial_id = ?2 WHERE trial_id = ?1";
    let ids = [trial_id(moving.from, run)?, trial_id(moving.to, number)?];
    connection.execute(sql, ids)?;
    Ok(number)
}

/// The new path of a file of the run.
fn moved_path(
    moving: &Move<'_>,
    (run, number): (TrialNumber, TrialNumber),
    path: &Path,
) -> PathBuf {
    let inside = |home: &StudyFiles| path.strip_prefix(home.trial(run)).ok().map(Path::to_owned);
    match moving.homes.iter().find_map(inside) {
        Some(inside) => moving.files.trial(number).join(inside),
        None => path.to_owned(),
    }
}
