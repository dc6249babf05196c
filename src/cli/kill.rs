//! `hpsearch kill`: asks the runner of a study to kill one trial.

use clap::Args;

use super::request::ask_all;
use super::trial_words;
use super::{Console, Exit, Failure};
use crate::app::{AppError, find, request};
use crate::study::event::Request;
use crate::study::trial::TrialNumber;

/// Arguments of `hpsearch kill`.
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
    let (reader, study) = console.study(arguments.study.as_deref())?;
    let number = TrialNumber(arguments.trial);
    let trial = find::trial(&reader, &study, number)?;
    if trial.state.is_finished() {
        return Err(Failure::usage(format!("trial {number} is {} already", trial.state.as_str()))
            .help(format!(
                "{} says how it ended",
                console.next(&format!("explain {} {number}", study.spec.name))
            )));
    }
    let kill = Request::Kill { trial: number };
    match request::ask_runner(&mut console.writer()?, &study, &kill) {
        // Nobody has a process of it: it is done here.
        Err(AppError::NotRunning { .. }) => ask_all(&study, &[kill], console),
        Err(error) => Err(error.into()),
        Ok(()) => {
            console.say(&format!("asked for trial {number} to be killed: it will count as failed"));
            Ok(Exit::Done)
        }
    }
}
