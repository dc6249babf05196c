//! `hpsearch kill`: asks the runner of a study to kill one trial.

use clap::Args;

use super::console::Console;
use super::exit::{Exit, Failure};
use super::logs::unknown_trial;
use super::named_study;
use super::request::ask_all;
use super::stop::must_run;
use super::trial_words;
use crate::runner;
use crate::storage::{Storage, StorageReader};
use crate::study::event::Request;
use crate::study::trial::TrialNumber;

/// What `hpsearch kill` is told.
#[derive(Clone, Debug, Args)]
#[command(allow_missing_positional = true, after_help = "Examples:\n  hpsearch kill digits 7")]
pub struct KillArguments {
    /// The study's name or file
    pub study: Option<String>,
    /// The trial's number
    #[arg(value_parser = trial_words::number)]
    pub trial: u64,
}

/// Writes the request.
pub fn kill(arguments: &KillArguments, console: &mut Console) -> Result<Exit, Failure> {
    let reader = console.reader()?;
    let study = named_study::find(&reader, arguments.study.as_deref())?;
    let number = TrialNumber(arguments.trial);
    let trial = reader.trial(study.id, number)?.ok_or_else(|| unknown_trial(&study, number))?;
    if trial.state.is_finished() {
        return Err(Failure::usage(format!("trial {number} is {} already", trial.state.as_str()))
            .help(format!(
                "{} says how it ended",
                console.next(&format!("explain {} {number}", study.spec.name))
            )));
    }
    if must_run(&study, console).is_err() {
        // Nobody has a process of it: it is done here.
        return ask_all(&study, &[Request::Kill { trial: number }], console);
    }
    console.writer()?.request(study.id, runner::now(), &Request::Kill { trial: number })?;
    console.say(&format!("asked for trial {number} to be killed: it will count as failed"));
    Ok(Exit::Done)
}
