//! What users ask of a study: what is offered, and requests, each checked before it is made.

use std::path::Path;

use serde::Serialize;

use super::enqueue::{self, Repeat};
use super::{AppError, find, request};
use crate::report::requests::entered;
use crate::report::wording::StudyStatus;
use crate::storage::any::AnyStore;
use crate::storage::{StorageError, StorageReader, StudyId, StudySummary};
use crate::study::control::TrialControl;
use crate::study::query::{Filter, SortKey, TrialQuery};
use crate::study::request::{Request, RequestAnswer, Retried};
use crate::study::tag::is_tag;
use crate::study::trial::{Trial, TrialNumber, TrialState};

/// A longer text is a file, not a note.
const LONGEST_NOTE: usize = 4_000;

/// Something that a study can be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StudyControl {
    /// To continue after a pause.
    Resume,
    /// To start nothing, and let running trials save and leave.
    Pause,
    /// To end this run.
    Stop,
    /// To run a configuration next.
    Enqueue,
    /// To start its failed trials again.
    RetryFailed,
}

impl StudyControl {
    /// All of them, in the order in which they are offered.
    pub const ALL: [Self; 5] =
        [Self::Resume, Self::Pause, Self::Stop, Self::Enqueue, Self::RetryFailed];
}

/// Why a control is not offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotOffered {
    /// The study has tracked runs, and no search.
    Tracked,
    /// The trial is in this state.
    State(TrialState),
    /// The study or trial is paused already, or was asked to pause.
    Paused,
    /// The study or trial is not paused.
    NotPaused,
    /// The study is over.
    Over,
    /// The study is not running.
    NotRunning,
    /// No trial has failed.
    NoneFailed,
}

/// Whether a study that stands at `status` is offered a control.
///
/// # Errors
/// Why it is not.
pub fn study_control(
    study: &StudySummary,
    status: StudyStatus,
    control: StudyControl,
) -> Result<(), NotOffered> {
    let is_paused = study.paused.is_some();
    let not = |is: bool, why| if is { Err(why) } else { Ok(()) };
    match control {
        StudyControl::Stop => match status {
            StudyStatus::Running => Ok(()),
            // Its runner waits.
            StudyStatus::Paused => not(study.held.is_none(), NotOffered::NotRunning),
            StudyStatus::Finished | StudyStatus::Failed | StudyStatus::Stopped => {
                Err(NotOffered::Over)
            }
            StudyStatus::New | StudyStatus::Interrupted | StudyStatus::Idle => {
                Err(NotOffered::NotRunning)
            }
        },
        _ if study.spec.is_tracked() => Err(NotOffered::Tracked),
        StudyControl::Resume => not(!is_paused, NotOffered::NotPaused),
        StudyControl::Pause if is_paused => Err(NotOffered::Paused),
        StudyControl::Pause => not(study.finished.is_some(), NotOffered::Over),
        StudyControl::RetryFailed => not(study.counts.failed == 0, NotOffered::NoneFailed),
        StudyControl::Enqueue => Ok(()),
    }
}

/// Whether a trial is offered a control.
///
/// # Errors
/// Why it is not.
pub fn trial_control(
    study: &StudySummary,
    trial: &Trial,
    control: TrialControl,
) -> Result<(), NotOffered> {
    let state = trial.state;
    if study.spec.is_tracked() {
        return match control {
            TrialControl::Pause | TrialControl::Kill if state == TrialState::Running => Ok(()),
            TrialControl::Pause | TrialControl::Kill => Err(NotOffered::State(state)),
            TrialControl::Resume | TrialControl::Retry | TrialControl::Continue => {
                Err(NotOffered::Tracked)
            }
        };
    }
    if !control.applies_to(state) {
        return Err(NotOffered::State(state));
    }
    let is_leaving = state == TrialState::Running && trial.hold.is_some();
    match (control, is_leaving || state == TrialState::Paused) {
        (TrialControl::Pause, true) => Err(NotOffered::Paused),
        (TrialControl::Resume, false) => Err(NotOffered::NotPaused),
        _ => Ok(()),
    }
}

/// What a study that stands at `status` is offered.
pub fn offered_to_study(study: &StudySummary, status: StudyStatus) -> Vec<StudyControl> {
    let is_offered = |control: &StudyControl| study_control(study, status, *control).is_ok();
    StudyControl::ALL.into_iter().filter(is_offered).collect()
}

/// What a trial is offered.
pub fn offered_to_trial(study: &StudySummary, trial: &Trial) -> Vec<TrialControl> {
    let is_offered = |control: &TrialControl| trial_control(study, trial, *control).is_ok();
    TrialControl::ALL.into_iter().filter(is_offered).collect()
}

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
fn note_text(text: &str) -> Result<String, AppError> {
    match text.trim() {
        "" => Err(AppError::UnfitNote { most: None }),
        text if text.len() > LONGEST_NOTE => Err(AppError::UnfitNote { most: Some(LONGEST_NOTE) }),
        text => Ok(text.to_owned()),
    }
}

/// Whether a tag can be added or removed: one that is there can be removed, whatever it looks like.
///
/// # Errors
/// The word to add is not a tag.
pub fn check_tag(tag: &str, present: bool) -> Result<(), AppError> {
    match present && !is_tag(tag) {
        true => Err(AppError::NoTag { word: tag.to_owned() }),
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
    let requests = checked(store, study, vec![asked], repeat)?;
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

/// Checks requests, has each made, and passes the answers to `hear`, as [`request::ask`] does.
///
/// # Errors
/// One of them cannot be carried out, and none was made; or the store failed.
pub fn ask(
    store: &mut AnyStore,
    path: &Path,
    study: &StudySummary,
    asked: Vec<Request>,
    repeat: Repeat,
    hear: &mut dyn FnMut(Option<RequestAnswer>),
) -> Result<(), AppError> {
    let requests = checked(store, study, asked, repeat)?;
    request::ask(store, path, study.id, &requests, hear)
}

/// Checks and posts a request of a screen, which polls the answers itself; returns the keys of the
/// stored requests.
///
/// # Errors
/// It cannot be carried out, or the store failed; nothing was changed.
pub fn post(
    path: &Path,
    study: StudyId,
    asked: Request,
    repeat: Repeat,
) -> Result<Vec<i64>, AppError> {
    let mut store = AnyStore::open_existing(path)?;
    let study = store.summary(study)?;
    let requests = checked(&store, &study, vec![asked], repeat)?;
    let posted = requests.iter().map(|request| request::post(&mut store, path, study.id, request));
    Ok(posted.collect::<Result<_, _>>()?)
}

/// The requests that are made for those that were asked, once they are found to be right.
fn checked(
    reader: &dyn StorageReader,
    study: &StudySummary,
    asked: Vec<Request>,
    repeat: Repeat,
) -> Result<Vec<Request>, AppError> {
    let mut requests = Vec::with_capacity(asked.len());
    for asked in asked {
        check_trial(reader, study, &asked)?;
        requests.push(match asked {
            Request::Stop if study.spec.is_tracked() => {
                requests.extend(stop_runs(reader, study, Vec::new())?);
                continue;
            }
            Request::Note { trial, text } => Request::Note { trial, text: note_text(&text)? },
            Request::Tag { trial, tag, present } => {
                check_tag(&tag, present)?;
                Request::Tag { trial, tag, present }
            }
            Request::Enqueue { params } => {
                if study.spec.is_tracked() {
                    return Err(StorageError::NotSearched { study: study.spec.name.clone() }.into());
                }
                enqueue::check(reader, study, &params, repeat)?;
                Request::Enqueue { params }
            }
            asked => asked,
        });
    }
    Ok(requests)
}

/// Whether a request is about a trial that exists, and can still be killed if that is asked: known
/// before a question is asked.
///
/// # Errors
/// There is no such trial, it has ended, or the store failed.
pub fn check_trial(
    reader: &dyn StorageReader,
    study: &StudySummary,
    asked: &Request,
) -> Result<(), AppError> {
    let Some(number) = trial_of(asked) else { return Ok(()) };
    let Trial { number, state, .. } = find::trial(reader, study, number)?;
    if matches!(asked, Request::Kill { .. }) && !TrialControl::Kill.applies_to(state) {
        let study = study.spec.name.clone();
        return Err(AppError::EndedAlready { study, trial: number, state });
    }
    Ok(())
}

/// The trial that a request is about.
fn trial_of(request: &Request) -> Option<TrialNumber> {
    match request {
        Request::Kill { trial }
        | Request::PauseTrial { trial }
        | Request::ResumeTrial { trial }
        | Request::Retry { trials: Retried::One(trial) }
        | Request::Continue { trial, .. }
        | Request::Hide { trial } => Some(*trial),
        Request::Note { trial, .. } | Request::Tag { trial, .. } => *trial,
        Request::Stop
        | Request::PauseStudy
        | Request::ResumeStudy
        | Request::PauseDevice { .. }
        | Request::ResumeDevice { .. }
        | Request::Enqueue { .. }
        | Request::Retry { trials: Retried::AllFailed }
        | Request::Extend { .. }
        | Request::Unreadable { .. } => None,
    }
}
