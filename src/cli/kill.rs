//! `hpsearch kill`: asks the runner of a study to kill one trial.

use clap::Args;

use super::{Console, Exit, Failure};
use crate::app::control::{Carried, carry_out};
use crate::app::enqueue::Repeat;
use crate::app::find;
use crate::report::wording::one_line;
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
    let kill = Request::Kill { trial: number };
    let (mut store, path) = (console.writer()?, console.store.clone());
    match carry_out(&mut store, &path, &study, kill, Repeat::Refused)? {
        Carried::Asked => {
            console.say(&format!("requested to kill trial {number}: it will count as failed"));
        }
        Carried::Done(text) => console.say(&format!("{}: {text}", one_line(&study.spec.name))),
        Carried::Refused(why) => return Err(Failure::usage(why)),
    }
    Ok(Exit::Done)
}
