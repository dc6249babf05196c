//! Asks something of a study: of whoever runs it, or, where nobody does, done here and now.

use std::path::{Path, absolute};
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::AppError;
use super::study_state::{has_runner, state};
use crate::runner::{self, RunnerError, offline_requests};
use crate::storage::sqlite::SqliteStore;
use crate::storage::{Storage, StorageError, StorageReader as _, StudyId, StudySummary};
use crate::study::event::{Answer, Request};

/// A runner looks for requests ten times a second; a busy machine gets more.
const PATIENCE: Duration = Duration::from_secs(5);

/// How often the answer is looked for.
const TURN: Duration = Duration::from_millis(10);

/// Asks, for a screen, which looks for the answer itself; the request's key.
///
/// # Errors
/// The store failed.
pub fn post(path: &Path, study: StudyId, request: &Request) -> Result<i64, StorageError> {
    let mut store = SqliteStore::open(path)?;
    refuse_of_tracked(&store, study, std::slice::from_ref(request))?;
    let id = store.request(study, runner::now(), request)?;
    if request.entry().is_some() {
        return Ok(id);
    }
    let path = absolute(path).unwrap_or_else(|_| path.to_owned());
    match serve_at_rest(&mut store, study, &path) {
        Err(RunnerError::Storage(error)) => Err(error),
        // Kept until the study can be run.
        _ => Ok(id),
    }
}

/// Asks whoever runs the study, and waits for no answer. The next run would be surprised by it:
/// somebody has to run it now.
///
/// # Errors
/// Nobody runs it, or the store failed.
pub fn ask_runner(
    store: &mut SqliteStore,
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

/// Asks each, and tells `hear` what came of it: `None`, if a runner has it and does not answer.
///
/// # Errors
/// The store failed, or what was asked is to be done here and cannot be.
pub fn ask(
    store: &mut SqliteStore,
    path: &Path,
    study: StudyId,
    requests: &[Request],
    hear: &mut dyn FnMut(Option<Answer>),
) -> Result<(), AppError> {
    refuse_of_tracked(store, study, requests)?;
    let path = absolute(path)?;
    let ids = requests
        .iter()
        .map(|request| store.request(study, runner::now(), request))
        .collect::<Result<Vec<_>, _>>()?;
    for id in ids {
        let until = Instant::now() + PATIENCE;
        let answer = loop {
            let answer = store.answer(study, id)?;
            if answer.is_some() || Instant::now() >= until {
                break answer;
            }
            if serve_at_rest(store, study, &path).map_err(AppError::NotServed)? == Served::Elsewhere
            {
                sleep(TURN);
            }
        };
        hear(answer);
    }
    Ok(())
}

/// Tracked runs are nobody's to pause or to extend: only notes and tags are written about them.
fn refuse_of_tracked(
    store: &SqliteStore,
    study: StudyId,
    requests: &[Request],
) -> Result<(), StorageError> {
    if requests.iter().all(|request| request.entry().is_some()) {
        return Ok(());
    }
    let spec = store.summary(study)?.spec;
    if spec.is_tracked() { Err(StorageError::Tracked { study: spec.name }) } else { Ok(()) }
}

/// Who serves what is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Served {
    /// It was done.
    Here,
    /// Whoever runs the study.
    Elsewhere,
}

fn serve_at_rest(
    store: &mut SqliteStore,
    study: StudyId,
    path: &Path,
) -> Result<Served, RunnerError> {
    let now = store.summary(study)?;
    if has_runner(&now) {
        return Ok(Served::Elsewhere);
    }
    match offline_requests::serve_at_rest(store, &now.stored(), path) {
        Ok(()) => Ok(Served::Here),
        // Someone runs it meanwhile: it is theirs.
        Err(RunnerError::Storage(
            StorageError::Busy { .. }
            | StorageError::HeldElsewhere { .. }
            | StorageError::Fenced { .. },
        )) => Ok(Served::Elsewhere),
        Err(error) => Err(error),
    }
}
