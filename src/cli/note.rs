//! `hpsearch note`: adds notes to a study or a trial, or shows them.

use std::collections::BTreeMap;
use std::io::Write;

use clap::Args;
use serde::Serialize;

use super::moments::moment;
use super::request::{ask_all, named, named_or, subjects};
use super::trial_json::as_instant;
use super::{Console, Exit, Failure};
use crate::report::wording::one_line;
use crate::storage::StudySummary;
use crate::study::request::Request;
use crate::study::time::Timestamp;
use crate::study::trial::{Note, Trial, TrialNumber};

const EXAMPLES: &str = "\
Examples:
  hpsearch note digits 7 -m \"best so far, but slow\"
  hpsearch note digits -m \"second round, smaller space\"
  hpsearch note digits 7           what was noted

Notes are written at once, whether or not the study runs; `hpsearch trials` and
the leaderboard find them.";

/// Arguments of `hpsearch note`.
#[derive(Clone, Debug, Args)]
#[command(after_help = EXAMPLES, override_usage = "hpsearch note [OPTIONS] [STUDY] [TRIALS] [-m \
    <TEXT>]")]
pub struct NoteArguments {
    /// The study's name or file, and trials of it
    #[arg(value_name = "STUDY, TRIALS")]
    pub words: Vec<String>,
    /// The text
    #[arg(short, long, value_name = "TEXT")]
    pub message: Option<String>,
    /// Print JSON: all notes, including new ones
    #[arg(long)]
    pub json: bool,
}

#[derive(Serialize)]
struct ListedNoteJson<'a> {
    /// Null for a note on the study.
    trial: Option<TrialNumber>,
    #[serde(serialize_with = "as_instant")]
    at: Timestamp,
    text: &'a str,
}

/// Writes or shows.
pub fn note(arguments: &NoteArguments, console: &mut Console) -> Result<Exit, Failure> {
    let (study, trials) = named_or(&arguments.words, console, |_| {
        "the text of a note comes after -m: `hpsearch note digits 7 -m \"best so far\"`".to_owned()
    })?;
    let Some(message) = &arguments.message else {
        if arguments.json {
            return print_json(&study, &trials, console);
        }
        let notes = notes(&study, &trials);
        if notes.is_empty() {
            console.say("no notes");
        }
        for ListedNoteJson { trial, at, text } in notes {
            let about = trial.map(|trial| format!("trial {trial}: ")).unwrap_or_default();
            writeln!(console.out, "{}  {about}{}", moment(at), one_line(text))?;
        }
        return Ok(Exit::Done);
    };
    let requests: Vec<Request> = subjects(&trials)
        .into_iter()
        .map(|trial| Request::Note { trial, text: message.clone() })
        .collect();
    let exit = ask_all(&study, requests, console)?;
    console.say("noted");
    if arguments.json {
        let (study, trials) = named(&arguments.words, console)?;
        return print_json(&study, &trials, console);
    }
    Ok(exit)
}

/// The notes of these trials; of the study, where none is named.
fn notes<'a>(study: &'a StudySummary, trials: &'a [Trial]) -> Vec<ListedNoteJson<'a>> {
    let line = |trial, note: &'a Note| ListedNoteJson { trial, at: note.at, text: &note.text };
    if trials.is_empty() {
        return study.notes.iter().map(|note| line(None, note)).collect();
    }
    let of = |trial: &'a Trial| trial.notes.iter().map(|note| line(Some(trial.number), note));
    trials.iter().flat_map(of).collect()
}

fn print_json(
    study: &StudySummary,
    trials: &[Trial],
    console: &mut Console,
) -> Result<Exit, Failure> {
    let answer = BTreeMap::from([("notes", notes(study, trials))]);
    console.json(Some(&study.spec.name), &answer)
}
