//! Shared by verbs that make requests: the named trials, and the printing of answers.

use super::{Console, Exit, Failure};
use crate::app::enqueue::Repeat;
use crate::app::{AppError, control, find};
use crate::report::wording::one_line;
use crate::storage::StudySummary;
use crate::study::request::{Request, RequestAnswer};
use crate::study::trial::{Trial, TrialNumber};

/// The study and trials named by `words`.
pub fn named(words: &[String], console: &Console) -> Result<(StudySummary, Vec<Trial>), Failure> {
    let reader = console.reader()?;
    let (study, numbers) = find::study_and_trials(&reader, words)?;
    let trials = find::trials(&reader, &study, &numbers)?;
    Ok((study, trials))
}

/// The same; `meant` suggests a remedy for a word that names no trial.
pub fn named_or(
    words: &[String],
    console: &Console,
    meant: impl Fn(&str) -> String,
) -> Result<(StudySummary, Vec<Trial>), Failure> {
    match find::study_and_trials(&console.reader()?, words) {
        Err(AppError::NoTrialWord { word, has_names: false, .. }) => {
            let word = one_line(&word);
            Err(Failure::usage(format!("`{word}` is not a trial number")).help(meant(&word)))
        }
        Err(error @ AppError::NoTrialWord { .. }) => {
            let AppError::NoTrialWord { word, near, .. } = &error else { return Err(error.into()) };
            let near = near.as_ref().map(|near| format!("did you mean `{}`? ", one_line(near)));
            let meant = meant(&one_line(word));
            Err(Failure::usage(error.to_string()).help(near.unwrap_or_default() + &meant))
        }
        _ => named(words, console),
    }
}

/// The subjects of a note or tag: these trials, or the study if none is named.
pub fn subjects(trials: &[Trial]) -> Vec<Option<TrialNumber>> {
    match trials {
        [] => vec![None],
        trials => trials.iter().map(|trial| Some(trial.number)).collect(),
    }
}

/// The most lines about single trials that a change of many prints.
pub const MOST_LINES: usize = 20;

/// Makes each request, and prints the answers, of many the first ones; an error if one was refused,
/// after all were made.
pub fn ask_all(
    study: &StudySummary,
    requests: Vec<Request>,
    console: &mut Console,
) -> Result<Exit, Failure> {
    ask_with(study, requests, Repeat::Refused, console)
}

/// The same; `repeat` says whether a configuration may be run that was tried before.
pub fn ask_with(
    study: &StudySummary,
    requests: Vec<Request>,
    repeat: Repeat,
    console: &mut Console,
) -> Result<Exit, Failure> {
    let mut store = console.writer()?;
    let mut refused = None;
    let mut done = 0;
    let mut hear = |answer| match answer {
        Some(RequestAnswer::Done(text)) if text.is_empty() => {}
        Some(RequestAnswer::Done(text)) => {
            done += 1;
            if done <= MOST_LINES {
                console.say(&format!("{}: {text}", one_line(&study.spec.name)));
            }
        }
        Some(RequestAnswer::Refused(why)) => {
            if let Some(before) = refused.replace(Failure::usage(why)) {
                console.say(before.to_string().trim_end());
            }
        }
        None => console.say(
            "requested; the study's runner has not answered yet, and will serve it as soon as \
                it can",
        ),
    };
    control::ask(&mut store, &console.store, study, requests, repeat, &mut hear)?;
    if let Some(more @ 1..) = done.checked_sub(MOST_LINES) {
        console.say(&format!("{}: the same for {more} more", one_line(&study.spec.name)));
    }
    refused.map_or(Ok(Exit::Done), Err)
}
