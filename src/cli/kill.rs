//! `hpsearch kill`: asks the runner of a study to kill one trial.

use clap::Args;

use super::request::ask_all;
use super::{Console, Exit, Failure};
use crate::app::control::check_kill;
use crate::app::{AppError, find, request};
use crate::study::request::Request;

/// Arguments of `hpsearch kill`.
#[derive(Clone, Debug, Args)]
#[command(allow_missing_positional = true, after_help = "Examples:\n  hpsearch kill digits 7")]
pub struct KillArguments {
    /// The study's name or file
    pub study: Option<String>,
    /// The trial's number, or a tracked run's name
    pub trial: String,
}

/// Writes the request.
pub fn kill(arguments: &KillArguments, console: &mut Console) -> Result<Exit, Failure> {
    let reader = console.reader()?;
    let (study, trial) =
        find::study_and_trial(&reader, arguments.study.as_deref(), &arguments.trial)?;
    let number = trial.number;
    check_kill(&study, &trial)?;
    let kill = Request::Kill { trial: number };
    match request::ask_runner(&mut console.writer()?, &study, &kill) {
        // It has no process: the request is served here.
        Err(AppError::NotRunning { .. }) => ask_all(&study, &[kill], console),
        Err(error) => Err(error.into()),
        Ok(()) => {
            console.say(&format!("requested to kill trial {number}: it will count as failed"));
            Ok(Exit::Done)
        }
    }
}
