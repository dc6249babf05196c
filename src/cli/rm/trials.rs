//! Hides trials of a search and removes their files.

use std::io::Write as _;

use serde::Serialize;

use super::{RmArguments, agrees, say_left};
use crate::app::remove_study::{remove_files, size_of_trial};
use crate::cli::request::{ask_all, named};
use crate::cli::{Console, Exit, Failure};
use crate::report::wording::{bytes, count, one_line};
use crate::study::event::Request;
use crate::study::trial::{Trial, TrialState};

#[derive(Serialize)]
struct Answer {
    /// Whether they were hidden.
    removed: bool,
    trials: Vec<TrialJson>,
}

#[derive(Serialize)]
struct TrialJson {
    number: u64,
    state: TrialState,
    checkpoints: u64,
    /// What its files take on the disk.
    bytes: u64,
}

/// Hides them, once the person agrees.
pub fn hide(arguments: &RmArguments, console: &mut Console) -> Result<Exit, Failure> {
    let (study, mut trials) = named(&arguments.words, console)?;
    let name = one_line(&study.spec.name);
    if let Some(trial) = trials.iter().find(|trial| !trial.state.is_finished()) {
        let (number, state) = (trial.number, trial.state.as_str());
        let kill = console.next(&format!("kill {name} {number}"));
        return Err(Failure::usage(format!("trial {number} is {state}, and needs its files"))
            .help(format!("{kill} ends it first")));
    }
    trials.retain(|trial| !trial.hidden);
    if trials.is_empty() && !arguments.json {
        console.say("these trials are hidden already");
        return Ok(Exit::Done);
    }
    let reader = console.reader()?;
    let line = |trial: &Trial| -> Result<TrialJson, Failure> {
        Ok(TrialJson {
            number: trial.number.0,
            state: trial.state,
            checkpoints: trial.checkpoints.len() as u64,
            bytes: size_of_trial(&reader, &console.store, &study, trial.number)?,
        })
    };
    let lines: Vec<TrialJson> = trials.iter().map(line).collect::<Result<_, _>>()?;
    drop(reader);
    let wants = if arguments.json {
        arguments.yes
    } else {
        for line in &lines {
            let state = line.state.as_str();
            let checkpoints = count(line.checkpoints, "checkpoint");
            let size = bytes(line.bytes);
            writeln!(console.out, "trial {}: {state}, {checkpoints}, {size}", line.number)?;
        }
        console.out.flush()?;
        let all = bytes(lines.iter().map(|line| line.bytes).sum());
        let what = format!(
            "{} of study {name} from its tables, with {all} of files",
            count(lines.len() as u64, "trial")
        );
        !arguments.dry_run && (arguments.yes || agrees(&what)?)
    };
    if wants {
        let hide = |trial: &Trial| Request::Hide { trial: trial.number };
        let requests: Vec<Request> = trials.iter().map(hide).collect();
        ask_all(&study, &requests, console)?;
        let path = console.store.clone();
        let leftovers = remove_files(&mut console.writer()?, &path)?;
        say_left(&leftovers, console);
    }
    if arguments.json {
        let answer = Answer { removed: wants, trials: lines };
        return console.json(Some(&study.spec.name), &answer);
    }
    Ok(Exit::Done)
}
