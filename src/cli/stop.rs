//! `hpsearch stop`: asks a study's runner, or tracked runs, to save and exit.

use clap::Args;

use super::request::{ask_all, named};
use super::{Console, Exit, Failure};
use crate::app::control::stop_runs;
use crate::app::request;
use crate::report::wording::one_line;
use crate::study::request::Request;
use crate::study::trial::TrialNumber;

const EXAMPLES: &str = "\
Examples:
  hpsearch stop digits           the search: its trials save a checkpoint, exit
  hpsearch stop runs 3           run 3 of `hpsearch track`, or of Python, saves
                                 and exits
  hpsearch stop runs             all runs of the study that are tracked now

A run of `hpsearch track` gets SIGTERM, like a paused trial; it is interrupted,
and `track --resume` continues it. In Python, `run.should_stop` is
true within two seconds. A single trial of a search is paused or killed.";

/// Arguments of `hpsearch stop`.
#[derive(Clone, Debug, Args)]
#[command(after_help = EXAMPLES, override_usage = "hpsearch stop [OPTIONS] [STUDY] [RUNS]")]
pub struct StopArguments {
    /// The study's name or file, and tracked runs of it
    #[arg(value_name = "STUDY, RUNS")]
    pub words: Vec<String>,
}

/// Writes the request.
pub fn stop(arguments: &StopArguments, console: &mut Console) -> Result<Exit, Failure> {
    let (study, trials) = named(&arguments.words, console)?;
    if study.spec.is_tracked() {
        let runs: Vec<TrialNumber> = trials.iter().map(|trial| trial.number).collect();
        let requests = stop_runs(&console.reader()?, &study, runs)?;
        return ask_all(&study, requests, console);
    }
    if let Some(trial) = trials.first() {
        let (name, number) = (&study.spec.name, trial.number);
        return Err(Failure::usage("a single trial of a search is paused or killed, not stopped")
            .help(format!(
                "{} lets it save and exit",
                console.next(&format!("pause {name} {number}"))
            )));
    }
    request::ask_runner(&mut console.writer()?, &study, &Request::Stop)?;
    console.say(&format!(
        "asked `{}` to stop: running trials save a checkpoint and exit",
        one_line(&study.spec.name)
    ));
    Ok(Exit::Done)
}
