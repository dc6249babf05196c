//! `hpsearch stop`: asks the runner of a study to stop it.

use clap::Args;

use super::console::{Console, life};
use super::exit::{Exit, Failure};
use super::named_study;
use super::progress::state;
use crate::report::wording::{HolderLife, StudyState, one_line};
use crate::runner;
use crate::storage::{Storage, StudySummary};
use crate::study::event::Request;

/// What `hpsearch stop` is told.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Examples:\n  hpsearch stop digits")]
pub struct StopArguments {
    /// The study's name or file
    pub study: Option<String>,
}

/// Writes the request.
pub fn stop(arguments: &StopArguments, console: &mut Console) -> Result<Exit, Failure> {
    let study = named_study::find(&console.reader()?, arguments.study.as_deref())?;
    must_run(&study, console)?;
    console.writer()?.request(study.id, runner::now(), &Request::Stop)?;
    console.say(&format!(
        "asked `{}` to stop: running trials save a checkpoint and leave",
        one_line(&study.spec.name)
    ));
    Ok(Exit::Done)
}

/// Nobody would serve a request now, and the next run would be surprised by it.
pub fn must_run(study: &StudySummary, console: &Console) -> Result<(), Failure> {
    match state(study) {
        StudyState::Running => Ok(()),
        StudyState::Paused
            if study.held.as_ref().is_some_and(|held| life(held) == HolderLife::Alive) =>
        {
            Ok(())
        }
        other => Err(Failure::usage(format!(
            "`{}` is not running (it is {})",
            one_line(&study.spec.name),
            other.as_str()
        ))
        .help(format!("{} shows which studies run", console.next("ls")))),
    }
}
