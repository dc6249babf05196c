//! What a killed runner left: its running time, processes, missing checkpoints, and the attempts of
//! agents, which continue.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::point_queue::PointQueue;
use super::removal::is_missing;
use super::{RunnerError, clock_of, processes, protocol};
use crate::engine::{SlottedAttempt, end_of_killed_runner};
use crate::storage::{Attempt, Lease, Storage, StorageError, StoredStudy, StudyId};
use crate::study::event::{CheckpointEvent, Event, RunnerEvent, Seq};
use crate::study::series::SeriesSummary;
use crate::study::trial::TrialNumber;

/// A killed runner could not record its running time: it is taken up to its last write, or a study
/// that is killed repeatedly would never exhaust its budget.
pub(super) fn record_end(storage: &mut dyn Storage, lease: &Lease) -> Result<(), StorageError> {
    if storage.running_since(lease.study)?.1.is_none() {
        return Ok(());
    }
    let mut pages = Vec::new();
    let mut before = Seq(i64::MAX);
    loop {
        let mut page = storage.events_before(lease.study, before, 1000)?;
        let Some((first, ..)) = page.first() else { break };
        before = *first;
        let begun = page
            .iter()
            .rposition(|(_, _, event)| matches!(event, Event::Runner(RunnerEvent::Started { .. })));
        pages.push(page.split_off(begun.unwrap_or(0)));
        if begun.is_some() {
            break;
        }
    }
    let paused = storage.summary(lease.study)?.paused.is_some();
    let events = pages.iter().rev().flatten().map(|(_, at, event)| (*at, event));
    if let Some(end) = end_of_killed_runner(paused, events) {
        let at = clock_of(storage, lease.study)?.now();
        storage.append(lease, at, &[end])?;
    }
    Ok(())
}

/// The open attempts of agents, which outlive their runner.
pub(super) fn surviving(
    storage: &dyn Storage,
    study: &StoredStudy,
) -> Result<Vec<SlottedAttempt>, StorageError> {
    if study.spec.cluster.is_none() {
        return Ok(Vec::new());
    }
    let attempts = storage.attempts(study.id, None)?.into_iter();
    let is_surviving =
        |attempt: &Attempt| attempt.end.is_none() && attempt.slot.devices.agent().is_some();
    let surviving = attempts.filter(is_surviving);
    Ok(surviving
        .map(|Attempt { trial, attempt, slot, .. }| SlottedAttempt { trial, attempt, slot })
        .collect())
}

/// Agents send again what the earlier runner could not acknowledge: points are recognised by when
/// they were logged.
pub(super) fn note_stored_points(
    storage: &dyn Storage,
    study: StudyId,
    surviving: &[SlottedAttempt],
    points: &PointQueue,
) -> Result<(), StorageError> {
    let trials: Vec<TrialNumber> = surviving.iter().map(|attempt| attempt.trial).collect();
    for SeriesSummary { trial, metric, axis, .. } in storage.series(study, &trials)? {
        let all = f64::MIN..=f64::MAX;
        let stored = storage.series_points(study, trial, &metric, axis, all)?;
        if let Some(last) = stored.iter().map(|point| point.at).max() {
            points.drop_until(trial, axis, &metric, last);
        }
    }
    Ok(())
}

/// Drops missing checkpoints, so that no trial is to continue from one: after a power loss the
/// store may have forgotten that it dropped them, and users delete files. A study whose checkpoints
/// are unreachable (an unmounted disk) does not run at all, see [`super::ownership::claim()`].
pub(super) fn forget_lost_checkpoints(
    storage: &mut dyn Storage,
    lease: &Lease,
) -> Result<(), StorageError> {
    let trials = storage.study_state(lease.study)?.trials;
    let checkpoints = trials.iter().flat_map(|trial| {
        trial.checkpoints.iter().map(|checkpoint| (trial.number, checkpoint.path.clone()))
    });
    let lost: Vec<Event> = checkpoints
        .filter(|(_, path)| is_missing(path))
        .map(|(trial, path)| Event::of(trial, CheckpointEvent::Dropped { path }))
        .collect();
    if !lost.is_empty() {
        let at = clock_of(storage, lease.study)?.now();
        storage.append(lease, at, &lost)?;
    }
    Ok(())
}

/// Kills what a dead runner of this study left: recorded processes that are still the same, and all
/// with this study's name and store in their environment.
pub(super) fn kill_orphans(
    storage: &dyn Storage,
    study: &StoredStudy,
    store: &Path,
) -> Result<(), RunnerError> {
    // In a store on a server, runners on other machines have recorded their processes, too; agents
    // always.
    let is_on_server = storage.lease_time().is_some();
    let runners = if is_on_server { storage.runners(study.id)? } else { Vec::new() };
    let elsewhere: BTreeSet<Seq> = runners
        .into_iter()
        .filter(|runner| runner.host != processes::host())
        .map(|runner| runner.seq)
        .collect();
    let open = storage.attempts(study.id, None)?.into_iter().filter(|attempt| {
        attempt.end.is_none()
            && attempt.slot.devices.agent().is_none()
            && attempt.runner.is_none_or(|runner| !elsewhere.contains(&runner))
    });
    for (pid, started) in open.filter_map(|attempt| attempt.process) {
        if processes::is_alive(pid, started) && !belongs_elsewhere(pid, store) {
            processes::descendants(pid).into_iter().for_each(processes::kill);
            processes::kill(pid);
        }
    }
    let mine = processes::descendants(std::process::id());
    let marks = [
        format!("HPSEARCH_STORE={}", store.display()),
        format!("HPSEARCH_STUDY={}", study.spec.name),
    ];
    processes::with_environment(&marks)
        .into_iter()
        .filter(|pid| !mine.contains(pid))
        .filter(|pid| study.spec.cluster.is_none() || !is_of_an_agent(*pid))
        .for_each(processes::kill);
    Ok(())
}

/// Whether a process belongs to an agent on this machine: what started it is alive.
fn is_of_an_agent(pid: u32) -> bool {
    let run = processes::variable(pid, protocol::RUN);
    let run = run.as_deref().and_then(std::ffi::OsStr::to_str).and_then(|run| run.split_once('.'));
    run.and_then(|(pid, started)| Some((pid.parse().ok()?, started.parse().ok()?)))
        .is_some_and(|(pid, started)| processes::is_alive(pid, started))
}

/// Whether a process belongs to another existing store, of which this one may be a copy with the
/// same recorded processes.
fn belongs_elsewhere(pid: u32, store: &Path) -> bool {
    let said = processes::variable(pid, "HPSEARCH_STORE").map(PathBuf::from);
    said.is_some_and(|said| said != store && said.exists() && !is_same_file(&said, store))
}

fn is_same_file(one: &Path, other: &Path) -> bool {
    let real = |path: &Path| std::fs::canonicalize(path).ok();
    real(one).is_some_and(|one| Some(one) == real(other))
}
