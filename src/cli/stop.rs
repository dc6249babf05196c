//! `hpsearch stop`: asks the runner of a study to stop it.

use clap::Args;

use super::{Console, Exit, Failure};
use crate::app::request;
use crate::report::wording::one_line;
use crate::study::event::Request;

/// Arguments of `hpsearch stop`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Examples:\n  hpsearch stop digits")]
pub struct StopArguments {
    /// The study's name or file
    pub study: Option<String>,
}

/// Writes the request.
pub fn stop(arguments: &StopArguments, console: &mut Console) -> Result<Exit, Failure> {
    let (_, study) = console.study(arguments.study.as_deref())?;
    request::ask_runner(&mut console.writer()?, &study, &Request::Stop)?;
    console.say(&format!(
        "asked `{}` to stop: running trials save a checkpoint and leave",
        one_line(&study.spec.name)
    ));
    Ok(Exit::Done)
}
