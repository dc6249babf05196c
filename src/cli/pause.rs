//! `hpsearch pause`: pauses a study, trials or devices until they are resumed.

use clap::Args;

use super::request::{ask_all, named};
use super::{Console, Exit, Failure};
use crate::study::device::Device;
use crate::study::request::Request;

const EXAMPLES: &str = "\
Examples:
  hpsearch pause digits          the whole study: its trials save and exit
  hpsearch pause digits 7        one trial; its slot goes to another one
  hpsearch pause 3-5             some trials of the only study
  hpsearch pause --device cuda:0 its trials save and continue elsewhere, and its
                                 worker ends: the memory is free

A trial saves and exits: a built-in one at its next step, a command at its next
report (it reads \"pause\", and gets SIGTERM 3 s later; after 30 s without a
report, SIGTERM at once). It still counts towards the budget, and only
`hpsearch resume` continues it.

A paused study stays paused even when it is run again: its runner waits,
holding no memory, until `hpsearch resume`, or `hpsearch run --resume`.
`hpsearch stop` ends a waiting runner. While nothing runs, the time budget does
not advance.";

/// Arguments of `hpsearch pause`.
#[derive(Clone, Debug, Args)]
#[command(after_help = EXAMPLES, override_usage = "hpsearch pause [OPTIONS] [STUDY] [TRIALS]")]
pub struct PauseArguments {
    /// The study's name or file, and trials of it
    #[arg(value_name = "STUDY, TRIALS")]
    pub words: Vec<String>,
    /// Pause a device of the study instead: cuda:0, cpu
    #[arg(long, value_name = "DEVICE")]
    pub device: Vec<Device>,
}

/// Asks the runner to pause the trials or devices, or else the study.
pub fn pause(arguments: &PauseArguments, console: &mut Console) -> Result<Exit, Failure> {
    let (study, trials) = named(&arguments.words, console)?;
    let mut requests: Vec<Request> =
        trials.iter().map(|trial| Request::PauseTrial { trial: trial.number }).collect();
    if !(arguments.device.is_empty() || trials.is_empty()) {
        return Err(Failure::usage("trials and devices are paused one after the other")
            .help("leave out the trials, or --device"));
    }
    requests.extend(
        arguments.device.iter().map(|device| Request::PauseDevice { device: device.clone() }),
    );
    if requests.is_empty() {
        requests.push(Request::PauseStudy);
    }
    ask_all(&study, requests, console)
}
