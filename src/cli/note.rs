//! `hpsearch note`: writes something down about a study or a trial, or shows what was written.

use std::io::Write;

use clap::Args;
use serde::Serialize;

use super::console::Console;
use super::exit::{Exit, Failure};
use super::moments::{instant, moment};
use super::request::{ask_all, named};
use super::trial_json::VERSION;
use super::trial_words::numbers;
use crate::report::wording::one_line;
use crate::storage::StudySummary;
use crate::study::event::Request;
use crate::study::trial::{Note, Trial};

const EXAMPLES: &str = "\
Examples:
  hpsearch note digits 7 -m \"best so far, but slow\"
  hpsearch note digits -m \"second round, smaller space\"
  hpsearch note digits 7           what was noted

Notes are written at once, whether or not the study runs; `hpsearch trials` and
the leaderboard find them.";

/// A longer text is a file, not a note.
const LONGEST: usize = 4_000;

/// What `hpsearch note` is told.
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
    /// Print JSON: the notes, with those that were just written
    #[arg(long)]
    pub json: bool,
}

#[derive(Serialize)]
struct Answer<'a> {
    version: u32,
    study: &'a str,
    notes: Vec<Line>,
}

#[derive(Serialize)]
struct Line {
    /// Null for a note on the study.
    trial: Option<u64>,
    at: String,
    text: String,
}

/// Writes or shows.
pub fn note(arguments: &NoteArguments, console: &mut Console) -> Result<Exit, Failure> {
    if let Some(word) = arguments.words.iter().skip(1).find(|word| numbers(word).is_none()) {
        return Err(Failure::usage(format!("`{}` is no trial number", one_line(word))).help(
            "the text of a note comes after -m: `hpsearch note digits 7 -m \"best so far\"`",
        ));
    }
    let (study, trials) = named(&arguments.words, console)?;
    let Some(message) = &arguments.message else {
        if arguments.json {
            return print_json(&study, &trials, console);
        }
        if trials.iter().all(|trial| trial.notes.is_empty())
            && (!trials.is_empty() || study.notes.is_empty())
        {
            console.say("no notes");
        }
        for note in study.notes.iter().filter(|_| trials.is_empty()) {
            writeln!(console.out, "{}  {}", moment(note.at), one_line(&note.text))?;
        }
        for trial in &trials {
            for note in &trial.notes {
                writeln!(
                    console.out,
                    "{}  trial {}: {}",
                    moment(note.at),
                    trial.number,
                    one_line(&note.text)
                )?;
            }
        }
        return Ok(Exit::Done);
    };
    let text = message.trim().to_owned();
    if text.is_empty() || text.len() > LONGEST {
        let why = if text.is_empty() {
            "the note is empty".to_owned()
        } else {
            format!("the note is longer than {LONGEST} bytes")
        };
        return Err(Failure::usage(why)
            .help("write for example `hpsearch note digits 7 -m \"best so far\"`"));
    }
    let mut requests: Vec<Request> = trials
        .iter()
        .map(|trial| Request::Note { trial: Some(trial.number), text: text.clone() })
        .collect();
    if requests.is_empty() {
        requests.push(Request::Note { trial: None, text });
    }
    let exit = ask_all(&study, &requests, console)?;
    console.say("noted");
    if arguments.json {
        let (study, trials) = named(&arguments.words, console)?;
        print_json(&study, &trials, console)?;
    }
    Ok(exit)
}

/// The notes of these trials; of the study, where none is named.
fn print_json(
    study: &StudySummary,
    trials: &[Trial],
    console: &mut Console,
) -> Result<Exit, Failure> {
    let line = |trial: Option<u64>, note: &Note| Line {
        trial,
        at: instant(note.at),
        text: note.text.clone(),
    };
    let mut notes: Vec<Line> =
        study.notes.iter().filter(|_| trials.is_empty()).map(|note| line(None, note)).collect();
    notes.extend(
        trials
            .iter()
            .flat_map(|trial| trial.notes.iter().map(move |note| line(Some(trial.number.0), note))),
    );
    console.json(&Answer { version: VERSION, study: &study.spec.name, notes })?;
    Ok(Exit::Done)
}
