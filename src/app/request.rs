//! Sends requests to a study's runner, or serves them here if it is not running.

use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::AppError;
use super::study_state::{has_runner, state};
use crate::runner::{self, Liveness, RunnerError, offline_requests};
use crate::storage::address::absolute;
use crate::storage::any::AnyStore;
use crate::storage::{Storage, StorageError, StorageReader as _, StudyId, StudySummary};
use crate::study::event::Event;
use crate::study::request::{Request, RequestAnswer};
use crate::tracking::life_of;

/// A runner reads requests ten times a second; allows for a busy machine.
const PATIENCE: Duration = Duration::from_secs(5);

/// Polling interval for the answer.
const TURN: Duration = Duration::from_millis(10);

/// Posts a request for a screen, which polls the answer itself; returns the request's key.
///
/// # Errors
/// The store failed.
pub fn post(
    store: &mut AnyStore,
    path: &Path,
    study: StudyId,
    request: &Request,
) -> Result<i64, StorageError> {
    let whose = whose(store, study, std::slice::from_ref(request))?;
    let id = store.request(study, runner::now(), request)?;
    if Event::requested(request).is_some() || whose == Whose::Trackers {
        return Ok(id);
    }
    let path = absolute(path).unwrap_or_else(|_| path.to_owned());
    match serve_at_rest(store, study, &path) {
        Err(RunnerError::Storage(error)) => Err(error),
        // Pending until the study can be run.
        _ => Ok(id),
    }
}

/// Posts a request to the present runner, without waiting for the answer. It requires a runner,
/// since the next run must not be affected.
///
/// # Errors
/// The study is not running, or the store failed.
pub fn ask_runner(
    store: &mut AnyStore,
    study: &StudySummary,
    request: &Request,
) -> Result<(), AppError> {
    if !has_runner(study) {
        let (study, state) = (study.spec.name.clone(), state(study));
        return Err(AppError::NotRunning { study, state });
    }
    store.request(study.id, runner::now(), request)?;
    Ok(())
}

/// Posts each request, and passes the answers to `hear`: `None` if a runner has it and does not
/// answer.
///
/// # Errors
/// The store failed, or a request must be served here and cannot be.
pub fn ask(
    store: &mut AnyStore,
    path: &Path,
    study: StudyId,
    requests: &[Request],
    hear: &mut dyn FnMut(Option<RequestAnswer>),
) -> Result<(), AppError> {
    let whose = whose(store, study, requests)?;
    let path = absolute(path)?;
    let mut ids = Vec::new();
    for request in requests {
        if whose == Whose::Trackers
            && let Some(why) = why_not_running(store, study, request)?
        {
            hear(Some(RequestAnswer::Refused(why)));
            continue;
        }
        ids.push(store.request(study, runner::now(), request)?);
    }
    for id in ids {
        let until = Instant::now() + PATIENCE;
        let answer = loop {
            let answer = store.answer(study, id)?;
            if answer.is_some() || Instant::now() >= until {
                break answer;
            }
            let served = match whose {
                Whose::Trackers => Served::Elsewhere,
                Whose::Runners => {
                    serve_at_rest(store, study, &path).map_err(AppError::NotServed)?
                }
            };
            if served == Served::Elsewhere {
                sleep(TURN);
            }
        };
        hear(answer);
    }
    Ok(())
}

/// The recipient of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Whose {
    /// The runner of a search, or this process.
    Runners,
    /// The process that tracks the run.
    Trackers,
}

/// The recipient of these requests. Tracked runs cannot be resumed or extended: only notes, tags
/// and requests to stop apply to them.
fn whose(store: &AnyStore, study: StudyId, requests: &[Request]) -> Result<Whose, StorageError> {
    if requests.iter().all(|request| Event::requested(request).is_some()) {
        return Ok(Whose::Runners);
    }
    let spec = store.summary(study)?.spec;
    let is_of_run =
        |request: &Request| matches!(request, Request::PauseTrial { .. } | Request::Kill { .. });
    match spec.is_tracked() {
        false => Ok(Whose::Runners),
        true if requests.iter().all(is_of_run) => Ok(Whose::Trackers),
        true => Err(StorageError::NotSearched { study: spec.name }),
    }
}

/// Why a run cannot be asked to stop, if its process is dead.
fn why_not_running(
    store: &AnyStore,
    study: StudyId,
    request: &Request,
) -> Result<Option<String>, StorageError> {
    let (Request::PauseTrial { trial } | Request::Kill { trial }) = request else {
        return Ok(None);
    };
    Ok(match life_of(store, study, *trial)?.map(|tracked| tracked.liveness) {
        None => Some(format!("run {trial} is not running")),
        Some(Liveness::Dead) => Some(format!("run {trial} has ended: its process was killed")),
        Some(Liveness::Alive | Liveness::Unknown) => None,
    })
}

/// How requests were served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Served {
    /// It was done.
    Here,
    /// By the study's runner.
    Elsewhere,
}

fn serve_at_rest(store: &mut AnyStore, study: StudyId, path: &Path) -> Result<Served, RunnerError> {
    let now = store.summary(study)?;
    if has_runner(&now) {
        return Ok(Served::Elsewhere);
    }
    match offline_requests::serve_at_rest(store, &now.stored(), path) {
        Ok(()) => Ok(Served::Here),
        // It is running in the meantime: its runner serves them.
        Err(RunnerError::Storage(
            StorageError::Busy { .. }
            | StorageError::HeldElsewhere { .. }
            | StorageError::Fenced { .. },
        )) => Ok(Served::Elsewhere),
        Err(error) => Err(error),
    }
}
