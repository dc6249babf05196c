//! What is asked of a study by several verbs: the trials that are named, and what is said of the
//! answers.

use super::{Console, Exit, Failure};
use crate::app::{AppError, find, request};
use crate::report::wording::one_line;
use crate::storage::StudySummary;
use crate::study::event::{Answer, Request};
use crate::study::trial::{Trial, TrialNumber};

/// The study and the trials that words name.
pub fn named(words: &[String], console: &Console) -> Result<(StudySummary, Vec<Trial>), Failure> {
    let reader = console.reader()?;
    let (study, numbers) = find::study_and_trials(&reader, words)?;
    let trials = numbers.into_iter().map(|number| find::trial(&reader, &study, number));
    let trials = trials.collect::<Result<Vec<_>, _>>()?;
    Ok((study, trials))
}

/// The same; of a word that is no trial of a search `meant` says what it may be.
pub fn named_or(
    words: &[String],
    console: &Console,
    meant: impl Fn(&str) -> String,
) -> Result<(StudySummary, Vec<Trial>), Failure> {
    match find::study_and_trials(&console.reader()?, words) {
        Err(AppError::NoTrialWord { word, has_names: false, .. }) => {
            let word = one_line(&word);
            Err(Failure::usage(format!("`{word}` is no trial number")).help(meant(&word)))
        }
        _ => named(words, console),
    }
}

/// What a note or a tag is about: these trials, or the study where none is named.
pub fn subjects(trials: &[Trial]) -> Vec<Option<TrialNumber>> {
    match trials {
        [] => vec![None],
        trials => trials.iter().map(|trial| Some(trial.number)).collect(),
    }
}

/// Asks each, and says what came of it; an error if one was refused, once all were asked.
pub fn ask_all(
    study: &StudySummary,
    requests: &[Request],
    console: &mut Console,
) -> Result<Exit, Failure> {
    let mut store = console.writer()?;
    let mut refused = None;
    let mut hear = |answer| match answer {
        Some(Answer::Done(done)) if done.is_empty() => {}
        Some(Answer::Done(done)) => console.say(&format!("{}: {done}", one_line(&study.spec.name))),
        Some(Answer::Refused(why)) => {
            if let Some(before) = refused.replace(Failure::usage(why)) {
                console.say(before.to_string().trim_end());
            }
        }
        None => console
            .say("asked; the study's runner has not answered yet, and does it as soon as it can"),
    };
    request::ask(&mut store, &console.store, study.id, requests, &mut hear)?;
    refused.map_or(Ok(Exit::Done), Err)
}
