//! `hpsearch resume`: lets a paused study or paused trials go on.

use clap::Args;

use super::console::Console;
use super::exit::{Exit, Failure};
use super::request::{ask_all, named};
use crate::event::Request;

const EXAMPLES: &str = "\
Examples:
  hpsearch resume digits         the whole study goes on
  hpsearch resume digits 7       one trial goes on, from where it saved

A trial that waits at a rung of its pruner runs to the next one, whatever the
pruner thinks of it. A study that nobody runs goes on with `hpsearch run`.";

/// What `hpsearch resume` is told.
#[derive(Clone, Debug, Args)]
#[command(after_help = EXAMPLES, override_usage = "hpsearch resume [OPTIONS] [STUDY] [TRIALS]")]
pub struct ResumeArguments {
    /// The study's name or file, and trials of it
    #[arg(value_name = "STUDY, TRIALS")]
    pub words: Vec<String>,
}

/// Resumes.
pub fn resume(arguments: &ResumeArguments, console: &mut Console) -> Result<Exit, Failure> {
    let (study, trials) = named(&arguments.words, console)?;
    let mut requests: Vec<Request> = trials.iter().map(|trial| Request::ResumeTrial { trial: trial.number }).collect();
    if requests.is_empty() {
        requests.push(Request::ResumeStudy);
    }
    ask_all(&study, &requests, console)
}
