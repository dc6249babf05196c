//! The state of a study: liveness of its runner, status, and elapsed time.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::report::wording::{HolderLife, StudyStatus, micros};
use crate::runner::{self, Liveness, liveness};
use crate::samplers::Situation;
use crate::storage::{
    HeldLease, OutcomeCursor, StorageError, StorageReader, StudyId, StudySummary,
};
use crate::study::event::Seq;
use crate::study::front;
use crate::study::query::{Filter, SortKey, TrialQuery};
use crate::study::spec::StudySpec;
use crate::study::state::Counts;
use crate::study::time::Timestamp;
use crate::study::trial::{Trial, TrialNumber, TrialState};
use crate::study::unmeasured::Unmeasured;
use crate::tracking::{last_sign, life_of};

/// Whether a study's runner is alive; on another machine, where that is unknown, it counts as
/// alive.
pub fn life(held: &HeldLease) -> HolderLife {
    match liveness(held) {
        Liveness::Alive | Liveness::Unknown => HolderLife::Alive,
        Liveness::Dead => HolderLife::Dead,
    }
}

/// Why a goal of a study of several objectives is not in force.
///
/// # Errors
/// The store failed.
pub fn unmeasured(
    reader: &dyn StorageReader,
    study: &StudySummary,
) -> Result<Option<Unmeasured>, StorageError> {
    let Some(front) = &study.front else { return Ok(None) };
    // Reading all trials takes time.
    let has_reason = front.hypervolume.is_none() && !front.trials.is_empty();
    let points = match has_reason && study.spec.budget.target.is_some() {
        true => front::points_of(&reader.outcomes(study.id, OutcomeCursor::default())?.0),
        false => Vec::new(),
    };
    let StudySpec { budget, objectives, .. } = &study.spec;
    Ok(Unmeasured::of(budget, objectives, study.counts, front, &points))
}

/// Whether a live process runs a study, or waits for it to be resumed.
pub fn has_runner(study: &StudySummary) -> bool {
    study.held.as_ref().is_some_and(|held| life(held) == HolderLife::Alive)
}

/// A study's state.
pub fn state(study: &StudySummary) -> StudyStatus {
    StudyStatus::new(study, study.held.as_ref().map_or(HolderLife::Dead, life))
}

/// A study's state, including the processes of its tracked runs: it is interrupted if all of them
/// are dead.
///
/// # Errors
/// The store failed.
pub fn state_in(
    reader: &dyn StorageReader,
    study: &StudySummary,
) -> Result<StudyStatus, StorageError> {
    let state = state(study);
    if state != StudyStatus::Running || !study.spec.is_tracked() {
        return Ok(state);
    }
    let running = Filter::parse("state:running", &study.spec).unwrap_or_else(|_| Filter::all());
    let query = TrialQuery::all(SortKey::Number).filtered(running);
    for number in reader.numbers(study.id, &query)? {
        if !is_dead(reader, study.id, number)? {
            return Ok(state);
        }
    }
    Ok(StudyStatus::Interrupted)
}

/// Whether the process of a running tracked run has died without its end being recorded.
///
/// # Errors
/// The store failed.
pub fn is_dead(
    reader: &dyn StorageReader,
    study: StudyId,
    trial: TrialNumber,
) -> Result<bool, StorageError> {
    let tracked = life_of(reader, study, trial)?;
    Ok(tracked.is_some_and(|tracked| tracked.liveness == Liveness::Dead))
}

/// Those of these trials that are stored as running although their runner or process died.
///
/// # Errors
/// The store failed.
pub fn interrupted(
    reader: &dyn StorageReader,
    study: &StudySummary,
    trials: &[Trial],
) -> Result<BTreeSet<TrialNumber>, StorageError> {
    let mut interrupted = BTreeSet::new();
    let is_study = !study.spec.is_tracked() && state(study) == StudyStatus::Interrupted;
    for trial in trials.iter().filter(|trial| trial.state == TrialState::Running) {
        if is_study || study.spec.is_tracked() && is_dead(reader, study.id, trial.number)? {
            interrupted.insert(trial.number);
        }
    }
    Ok(interrupted)
}

/// How long the open attempt of a run ran whose process died: until its last sign of life. `None`
/// for a trial of a search.
///
/// # Errors
/// The store failed.
pub fn ran_until_death(
    reader: &dyn StorageReader,
    study: &StudySummary,
    trial: TrialNumber,
) -> Result<Option<Duration>, StorageError> {
    if !study.spec.is_tracked() {
        return Ok(None);
    }
    let Some(tracked) = life_of(reader, study.id, trial)? else { return Ok(None) };
    Ok(Some(last_sign(reader, &tracked)?.since(tracked.since)))
}

/// The time spent on each of these trials, open attempts included. The open attempt of a dead
/// runner counts until the last sign of life that is known.
///
/// # Errors
/// The store failed.
pub fn times_spent(
    reader: &dyn StorageReader,
    study: &StudySummary,
    trials: &[Trial],
) -> Result<BTreeMap<TrialNumber, Duration>, StorageError> {
    let (interrupted, now) = (interrupted(reader, study, trials)?, runner::now());
    let is_held = study.held.as_ref().is_some_and(|held| life(held) == HolderLife::Alive);
    let mut times = BTreeMap::new();
    for trial in trials {
        let ended = micros(trial.busy_micros);
        let spent = if interrupted.contains(&trial.number) {
            ended + ran_until_death(reader, study, trial.number)?.unwrap_or_default()
        } else if is_held || study.spec.is_tracked() {
            // Imported trials have no attempts.
            trial.time_spent(now).unwrap_or(ended)
        } else {
            ended
        };
        times.insert(trial.number, spent);
    }
    Ok(times)
}

/// The query, whose filter and order count open attempts as [`times_spent`] does: until now.
///
/// # Errors
/// The store failed.
pub fn with_open_attempts(
    reader: &dyn StorageReader,
    study: &StudySummary,
    query: TrialQuery,
) -> Result<TrialQuery, StorageError> {
    if study.counts.running == 0 || !query.is_about_time() {
        return Ok(query);
    }
    let running = Filter::parse("state:running", &study.spec).unwrap_or_else(|_| Filter::all());
    let running = reader.trials(study.id, &TrialQuery::all(SortKey::Number).filtered(running))?;
    let spent = times_spent(reader, study, &running)?;
    Ok(TrialQuery { filter: query.filter.with_time_spent(spent), ..query })
}

/// The situation in which a study's sampler proposes trial `number`, with trials by state in
/// `counts`.
pub fn situation(spec: &StudySpec, counts: Counts, number: TrialNumber) -> Situation<'_> {
    Situation {
        space: &spec.space,
        number,
        finished: counts.complete + counts.pruned + counts.failed + counts.paused,
        stopped: counts.pruned + counts.paused,
        paused: counts.paused,
        complete: counts.complete,
        unfinished: counts.queued + counts.running,
        budget: spec.budget.trials,
        objectives: spec.objectives.len(),
    }
}

/// Running time of a study's runners up to now.
///
/// # Errors
/// The store failed.
pub fn elapsed(reader: &dyn StorageReader, study: &StudySummary) -> Result<Duration, StorageError> {
    let (ran, since) = active_time(reader, study, state(study))?;
    Ok(ran + since.map_or(Duration::ZERO, |since| runner::now().since(since)))
}

/// When a study's last event was recorded; without one, when it was created.
///
/// # Errors
/// The store failed.
pub fn last_event(
    reader: &dyn StorageReader,
    study: &StudySummary,
) -> Result<Timestamp, StorageError> {
    let last = reader.events_before(study.id, Seq(i64::MAX), 1)?;
    Ok(last.last().map_or(study.created, |last| last.1))
}

/// The same, without the time since the present runner began, which is the second.
///
/// # Errors
/// The store failed.
pub fn active_time(
    reader: &dyn StorageReader,
    study: &StudySummary,
    state: StudyStatus,
) -> Result<(Duration, Option<Timestamp>), StorageError> {
    let (ran, since) = reader.active_time(study.id)?;
    let ran = micros(ran);
    // Of parallel runs, the total recorded so far.
    let Some(since) = since.filter(|_| !study.spec.is_tracked()) else { return Ok((ran, None)) };
    if state == StudyStatus::Running {
        return Ok((ran, Some(since)));
    }
    // A dead runner left an open interval; it ends with its last write.
    Ok((ran + last_event(reader, study)?.since(since), None))
}
