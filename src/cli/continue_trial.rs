//! `hpsearch continue`: lets a trial that has ended continue from its checkpoint.

use clap::Args;

use super::request::{ask_all, named};
use super::{Console, Exit, Failure};
use crate::study::request::Request;
use crate::study::trial::{LARGEST_STEP, step_of};

const EXAMPLES: &str = "\
Examples:
  hpsearch continue digits 7 --until 20

The trial continues from its checkpoint to step 20 in the study's unit (epochs,
steps or samples), where it ends; its pruner does not judge it. If it fails
there, it keeps its earlier state. A built-in trial's learning rate follows the
schedule of the longer trial; a command finds the step in HPSEARCH_UNTIL, and is
asked to pause when it reports it.
`[checkpoints] keep` decides which trials keep a checkpoint.";

/// Arguments of `hpsearch continue`.
#[derive(Clone, Debug, Args)]
#[command(after_help = EXAMPLES, override_usage = "hpsearch continue [OPTIONS] [STUDY] <TRIALS> \
    --until <STEP>")]
pub struct ContinueArguments {
    /// The study's name or file, and trials of it
    #[arg(value_name = "STUDY, TRIALS", required = true)]
    pub words: Vec<String>,
    /// The step at which it ends this time
    #[arg(long, value_name = "STEP", value_parser = step)]
    pub until: u64,
}

fn step(text: &str) -> Result<u64, String> {
    step_of(text).ok_or_else(|| format!("a step is an integer, and at most {LARGEST_STEP}"))
}

/// Asks for it.
pub fn continue_trial(
    arguments: &ContinueArguments,
    console: &mut Console,
) -> Result<Exit, Failure> {
    let (study, trials) = named(&arguments.words, console)?;
    if trials.is_empty() {
        return Err(Failure::usage("name the trial to continue")
            .help("for example `hpsearch continue 7 --until 20`"));
    }
    let until = arguments.until;
    let requests: Vec<Request> =
        trials.iter().map(|trial| Request::Continue { trial: trial.number, until }).collect();
    ask_all(&study, requests, console)
}
