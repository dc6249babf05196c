//! What pages and screens ask of a study: checked, carried out, and answered in a sentence.

use std::path::Path;

use super::enqueue::{self, Repeat};
use super::{AppError, find, request};
use crate::report::requests::entered;
use crate::storage::any::AnyStore;
use crate::storage::{StorageError, StorageReader, StudySummary};
use crate::study::query::{Filter, SortKey, TrialQuery};
use crate::study::request::{Request, RequestAnswer};
use crate::study::tag::is_tag;
use crate::study::trial::{Trial, TrialNumber};

/// A longer text is a file, not a note.
const LONGEST_NOTE: usize = 4_000;

/// What came of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Carried {
    /// It is done, in a sentence.
    Done(String),
    /// It was refused, with what to do instead.
    Refused(String),
    /// The study's runner has it, and has not answered yet.
    Asked,
}

/// The text of a note.
///
/// # Errors
/// It is empty or too long.
pub fn note_text(text: &str) -> Result<String, AppError> {
    match text.trim() {
        "" => Err(AppError::UnfitNote { most: None }),
        text if text.len() > LONGEST_NOTE => Err(AppError::UnfitNote { most: Some(LONGEST_NOTE) }),
        text => Ok(text.to_owned()),
    }
}

/// Refuses to kill a trial that has ended.
///
/// # Errors
/// It has.
pub fn check_kill(study: &StudySummary, trial: &Trial) -> Result<(), AppError> {
    let (study, number, state) = (study.spec.name.clone(), trial.number, trial.state);
    match state.is_finished() {
        true => Err(AppError::EndedAlready { study, trial: number, state }),
        false => Ok(()),
    }
}

/// The requests that stop tracked runs: these, or all that run.
///
/// # Errors
/// None runs, or the store failed.
pub fn stop_runs(
    reader: &dyn StorageReader,
    study: &StudySummary,
    mut runs: Vec<TrialNumber>,
) -> Result<Vec<Request>, AppError> {
    if runs.is_empty() {
        let running = Filter::parse("state:running", &study.spec).unwrap_or_else(|_| Filter::all());
        let query = TrialQuery::all(SortKey::Number).filtered(running);
        runs = reader.numbers(study.id, &query)?;
    }
    if runs.is_empty() {
        return Err(AppError::NoRunRuns { study: study.spec.name.clone() });
    }
    Ok(runs.into_iter().map(|trial| Request::PauseTrial { trial }).collect())
}

/// Checks a request, and has it carried out: by the study's runner, by the process of a tracked
/// run, or here.
///
/// # Errors
/// It cannot be carried out, or the store failed; nothing was changed.
pub fn carry_out(
    store: &mut AnyStore,
    path: &Path,
    study: &StudySummary,
    asked: Request,
    repeat: Repeat,
) -> Result<Carried, AppError> {
    let requests = checked(store, study, asked, repeat)?;
    if let [asked @ (Request::Stop | Request::Kill { .. })] = requests.as_slice()
        && !study.spec.is_tracked()
    {
        match request::ask_runner(store, study, asked) {
            Ok(()) => return Ok(Carried::Asked),
            // A trial without a process is killed here.
            Err(AppError::NotRunning { .. }) if *asked != Request::Stop => {}
            Err(error) => return Err(error),
        }
    }
    let (mut done, mut refused, mut is_asked) = (Vec::new(), Vec::new(), false);
    let mut hear = |answer| match answer {
        Some(RequestAnswer::Done(text)) => done.push(text),
        Some(RequestAnswer::Refused(why)) => refused.push(why),
        None => is_asked = true,
    };
    request::ask(store, path, study.id, &requests, &mut hear)?;
    if !refused.is_empty() {
        return Ok(Carried::Refused(refused.join("; ")));
    }
    if is_asked {
        return Ok(Carried::Asked);
    }
    done.extend(requests.iter().filter_map(entered));
    done.retain(|text| !text.is_empty());
    Ok(Carried::Done(done.join("; ")))
}

/// The requests that are made for one that was asked, once it is found to be right.
fn checked(
    reader: &dyn StorageReader,
    study: &StudySummary,
    asked: Request,
    repeat: Repeat,
) -> Result<Vec<Request>, AppError> {
    if let Some(trial) = trial_of(&asked) {
        let trial = find::trial(reader, study, trial)?;
        if let Request::Kill { .. } = asked {
            check_kill(study, &trial)?;
        }
    }
    let request = match asked {
        Request::Stop if study.spec.is_tracked() => return stop_runs(reader, study, Vec::new()),
        Request::Note { trial, text } => Request::Note { trial, text: note_text(&text)? },
        // One that is there may be taken off, whatever it looks like.
        Request::Tag { tag, present: true, .. } if !is_tag(&tag) => {
            return Err(AppError::NoTag { word: tag });
        }
        Request::Enqueue { params } => {
            if study.spec.is_tracked() {
                return Err(StorageError::Tracked { study: study.spec.name.clone() }.into());
            }
            enqueue::check(reader, study, &params, repeat)?;
            Request::Enqueue { params }
        }
        asked => asked,
    };
    Ok(vec![request])
}

/// The trial that a request is about.
fn trial_of(request: &Request) -> Option<TrialNumber> {
    match request {
        Request::Kill { trial }
        | Request::PauseTrial { trial }
        | Request::ResumeTrial { trial }
        | Request::Continue { trial, .. }
        | Request::Hide { trial } => Some(*trial),
        Request::Note { trial, .. } | Request::Tag { trial, .. } => *trial,
        _ => None,
    }
}
