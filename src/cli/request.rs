//! Asks something of a study: of whoever runs it, or, where nobody does, done here and now.

use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::console::{Console, life};
use super::exit::{Exit, Failure};
use super::trial_words::{self, Named};
use super::{logs::unknown_trial, named_study};
use crate::report::wording::{HolderLife, one_line};
use crate::runner::{self, RunnerError, desk};
use crate::storage::sqlite::SqliteStore;
use crate::storage::{Storage, StorageError, StorageReader, StudyId, StudySummary};
use crate::study::event::{Answer, Request};
use crate::study::trial::{Trial, TrialNumber};

/// A runner looks for requests ten times a second; a busy machine gets more.
const PATIENCE: Duration = Duration::from_secs(5);

/// How often the answer is looked for.
const TURN: Duration = Duration::from_millis(10);

/// The study and the trials that words name.
pub fn named(words: &[String], console: &Console) -> Result<(StudySummary, Vec<Trial>), Failure> {
    let Named { study, trials } = trial_words::read(words)?;
    let reader = console.reader()?;
    let study = named_study::find(&reader, study.as_deref())?;
    let find = |number: TrialNumber| {
        reader.trial(study.id, number)?.ok_or_else(|| unknown_trial(&study, number))
    };
    let trials = trials.into_iter().map(find).collect::<Result<Vec<_>, Failure>>()?;
    Ok((study, trials))
}

/// Asks each, and says what came of it; an error if one was refused, once all were asked.
pub fn ask_all(
    study: &StudySummary,
    requests: &[Request],
    console: &mut Console,
) -> Result<Exit, Failure> {
    let mut store = console.writer()?;
    let ids = requests
        .iter()
        .map(|request| store.request(study.id, runner::now(), request))
        .collect::<Result<Vec<_>, _>>()?;
    let mut refused = None;
    for id in ids {
        match answer(&mut store, study, id, console)? {
            Some(Answer::Done(done)) if done.is_empty() => {}
            Some(Answer::Done(done)) => {
                console.say(&format!("{}: {done}", one_line(&study.spec.name)))
            }
            Some(Answer::Refused(why)) => {
                if let Some(before) = refused.replace(Failure::usage(why)) {
                    console.say(before.to_string().trim_end());
                }
            }
            None => console.say(
                "asked; whoever runs the study has not answered yet, and does it as soon as it can",
            ),
        }
    }
    refused.map_or(Ok(Exit::Done), Err)
}

/// Asks, for a screen, which looks for the answer itself; the request's key. Where nobody runs the study it is done here.
pub fn post(path: &Path, study: StudyId, request: &Request) -> Result<i64, StorageError> {
    let mut store = SqliteStore::open(path)?;
    let id = store.request(study, runner::now(), request)?;
    let now = store.summary(study)?;
    let runs = now.held.as_ref().is_some_and(|held| life(held) == HolderLife::Alive);
    if runs || request.entry().is_some() {
        return Ok(id);
    }
    let stored = now.stored();
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    match desk::serve_at_rest(&mut store, &stored, &path) {
        Err(RunnerError::Storage(error))
            if !matches!(
                error,
                StorageError::Busy { .. }
                    | StorageError::HeldElsewhere { .. }
                    | StorageError::Fenced { .. }
            ) =>
        {
            Err(error)
        }
        // Taken up by someone else, or kept until the study can be run.
        _ => Ok(id),
    }
}

/// What came of a request; `None` if a runner has it and does not answer.
fn answer(
    store: &mut dyn Storage,
    study: &StudySummary,
    id: i64,
    console: &Console,
) -> Result<Option<Answer>, Failure> {
    let until = Instant::now() + PATIENCE;
    loop {
        if let Some(answer) = store.answer(study.id, id)? {
            return Ok(Some(answer));
        }
        if Instant::now() >= until {
            return Ok(None);
        }
        let now = store.summary(study.id)?;
        let runs = now.held.as_ref().is_some_and(|held| life(held) == HolderLife::Alive);
        if !runs {
            let stored = now.stored();
            match desk::serve_at_rest(store, &stored, &std::path::absolute(&console.store)?) {
                Ok(()) => continue,
                // Someone runs it meanwhile: it is theirs.
                Err(RunnerError::Storage(
                    StorageError::Busy { .. }
                    | StorageError::HeldElsewhere { .. }
                    | StorageError::Fenced { .. },
                )) => {}
                Err(error) => {
                    return Err(Failure::from(error)
                        .help("what was asked is kept, and done when the study is run"));
                }
            }
        }
        sleep(TURN);
    }
}
