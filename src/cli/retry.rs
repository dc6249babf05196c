//! `hpsearch retry`: starts failed trials again.

use clap::Args;

use super::request::{ask_all, named};
use super::{Console, Exit, Failure};
use crate::study::request::{Request, Retried};

const EXAMPLES: &str = "\
Examples:
  hpsearch retry digits 7        one trial
  hpsearch retry digits --failed all that failed, including killed ones

They start from scratch, unless `[checkpoints] keep = \"all\"` has kept their
checkpoints. If the study is not running, they start when it is run.";

/// Arguments of `hpsearch retry`.
#[derive(Clone, Debug, Args)]
#[command(after_help = EXAMPLES, override_usage = "hpsearch retry [OPTIONS] [STUDY] <TRIALS | \
    --failed>")]
pub struct RetryArguments {
    /// The study's name or file, and trials of it
    #[arg(value_name = "STUDY, TRIALS")]
    pub words: Vec<String>,
    /// All trials that failed
    #[arg(long)]
    pub failed: bool,
}

/// Asks for it.
pub fn retry(arguments: &RetryArguments, console: &mut Console) -> Result<Exit, Failure> {
    let (study, trials) = named(&arguments.words, console)?;
    let requests: Vec<Request> = match (arguments.failed, &trials[..]) {
        (true, []) => vec![Request::Retry { trials: Retried::AllFailed }],
        (false, [_, ..]) => trials
            .iter()
            .map(|trial| Request::Retry { trials: Retried::One(trial.number) })
            .collect(),
        (true, _) => {
            return Err(Failure::usage("both trials and --failed are given")
                .help("--failed means all that failed: leave the trials out"));
        }
        (false, []) => {
            return Err(Failure::usage("name the trials to retry")
                .help("a trial's number, or --failed for all that failed"));
        }
    };
    ask_all(&study, requests, console)
}
