//! Liveness of the process that tracks a run, and the end of runs whose process died.

use std::time::{Duration, Instant};

use super::TrackingError;
use super::spool::is_of_spool;
use crate::runner::{self, Liveness, process_liveness};
use crate::storage::tracked::RunFence;
use crate::storage::{Holder, Storage, StorageError, StorageReader, StudyId};
use crate::study::event::{AttemptEnd, AttemptEvent, Event, RunnerEvent, Seq, StateEvent};
use crate::study::query::{Filter, SortKey, TrialQuery};
use crate::study::series::SeriesSummary;
use crate::study::spec::StudySpec;
use crate::study::time::Timestamp;
use crate::study::trial::{Trial, TrialNumber, TrialState};

/// The open attempt of a run, and the process that tracks it.
#[derive(Clone, Debug)]
pub struct Tracked {
    /// The right to write to it.
    pub fence: RunFence,
    /// The process.
    pub process: Holder,
    /// Whether it is alive.
    pub liveness: Liveness,
    /// When the attempt began.
    pub since: Timestamp,
}

/// The process that tracks a run; `None` if no attempt of it is open.
///
/// # Errors
/// The store failed.
pub fn life_of(
    reader: &dyn StorageReader,
    study: StudyId,
    trial: TrialNumber,
) -> Result<Option<Tracked>, StorageError> {
    let Some(open) = reader.attempts(study, Some(trial))?.pop().filter(|last| last.end.is_none())
    else {
        return Ok(None);
    };
    let Some(runner) = open.runner else { return Ok(None) };
    let began = reader.events_after(study, Seq(runner.0 - 1), 1)?.pop();
    let Some((seq, _, Event::Runner(RunnerEvent::Started { pid, host, tracker, .. }))) = began
    else {
        return Ok(None);
    };
    let Some(tracker) = tracker.filter(|_| seq == runner) else { return Ok(None) };
    let began_by = (pid, tracker.pid_started);
    // A writer that replaced a dead one; a command's process is its supervisor.
    let run = reader.trial(study, trial)?;
    let is_logged = run.as_ref().and_then(|run| run.origin.tracked()).is_some_and(is_of_spool);
    let (pid, pid_started) = open.process.filter(|_| is_logged).unwrap_or(began_by);
    let process = Holder { pid, pid_started, host, boot_id: tracker.boot_id };
    let fence = RunFence { study, trial, attempt: open.attempt, runner };
    Ok(Some(Tracked { liveness: process_liveness(&process), process, fence, since: open.started }))
}

/// Ends runs whose process was killed: they are interrupted, and can be resumed.
///
/// # Errors
/// The store failed.
pub fn settle_dead(
    storage: &mut dyn Storage,
    study: StudyId,
    spec: &StudySpec,
) -> Result<Vec<TrialNumber>, TrackingError> {
    let running = Filter::parse("state:running", spec).unwrap_or_else(|_| Filter::all());
    let query = TrialQuery::all(SortKey::Number).filtered(running);
    let mut settled = Vec::new();
    for Trial { number, state, .. } in storage.trials(study, &query)? {
        let tracked = life_of(storage, study, number)?;
        let dead = tracked.filter(|tracked| tracked.liveness == Liveness::Dead);
        if let Some(dead) = dead.filter(|_| state == TrialState::Running)
            && settle(storage, &dead, "its process was killed")?
        {
            settled.push(number);
        }
    }
    Ok(settled)
}

/// Timeout of waiting for the process that tracks a run to exit.
const ENDS_WITHIN: Duration = Duration::from_secs(3);

/// Waits up to this timeout for the process that tracks a run to exit, if there is one.
///
/// # Errors
/// The store failed.
#[expect(clippy::disallowed_methods, reason = "for another process there is only time to wait")]
pub(super) fn wait_for_end(
    reader: &dyn StorageReader,
    study: StudyId,
    trial: TrialNumber,
) -> Result<(), StorageError> {
    let until = Instant::now() + ENDS_WITHIN;
    let is_alive = |tracked: Tracked| tracked.liveness == Liveness::Alive;
    while life_of(reader, study, trial)?.is_some_and(is_alive) && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}

/// Writes the end of a dead process's attempt; `false` if another process did.
pub(super) fn settle(
    storage: &mut dyn Storage,
    tracked: &Tracked,
    why: &str,
) -> Result<bool, TrackingError> {
    let Tracked { fence, since, .. } = tracked;
    let heard = last_sign(storage, tracked)?;
    let reason = format!("interrupted: {why}");
    let events = [
        Event::Runner(RunnerEvent::Stopped {
            reason: reason.clone(),
            ran_micros: heard.0.saturating_sub(since.0).max(0),
            heard: Some(heard),
            device_micros: 0,
            runner: Some(fence.runner),
        }),
        Event::of(
            fence.trial,
            AttemptEvent::Ended {
                attempt: fence.attempt,
                end: AttemptEnd::Lost,
                reason: Some(why.to_owned()),
                device_micros: None,
                memory: None,
                superseded: Default::default(),
            },
        ),
        Event::of(fence.trial, StateEvent::Paused { reason, hold: None }),
    ];
    let at = runner::clock_of(storage, fence.study)?.now();
    match storage.append_run(fence, &events.map(|event| (at, event)), &[]) {
        Ok(()) => Ok(true),
        Err(StorageError::RunFenced { .. }) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// When the process of a run's open attempt last wrote an event or a point.
///
/// # Errors
/// The store failed.
pub fn last_sign(reader: &dyn StorageReader, tracked: &Tracked) -> Result<Timestamp, StorageError> {
    let Tracked { fence, since, .. } = tracked;
    let mut last = last_heard(reader, fence)?.unwrap_or(*since).max(*since);
    // The time of a point is that of its program's clock, which may be ahead.
    let now = runner::now();
    for series in reader.series(fence.study, &[fence.trial])? {
        let SeriesSummary { metric, axis, last: step, .. } = series;
        let points = reader.series_points(fence.study, fence.trial, &metric, axis, step..=step)?;
        let moments = points.iter().map(|point| point.at).filter(|at| *at <= now);
        last = moments.fold(last, Timestamp::max);
    }
    Ok(last)
}

/// When a run's process last wrote an event.
fn last_heard(
    reader: &dyn StorageReader,
    fence: &RunFence,
) -> Result<Option<Timestamp>, StorageError> {
    let mut before = Seq(i64::MAX);
    loop {
        let page = reader.events_before(fence.study, before, 1000)?;
        let Some((first, ..)) = page.first() else { return Ok(None) };
        before = *first;
        let is_its = |event: &Event| event.trial() == Some(fence.trial) && !event.is_entry();
        if let Some((_, at, _)) = page.iter().rev().find(|(_, _, event)| is_its(event)) {
            return Ok(Some(*at));
        }
        if before <= fence.runner {
            return Ok(None);
        }
    }
}
