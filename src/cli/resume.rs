//! `hpsearch resume`: resumes a paused study, trials or devices.

use clap::Args;

use super::request::{ask_all, named};
use super::{Console, Exit, Failure};
use crate::runner::slots::{MachineDevices, slots};
use crate::study::device::Device;
use crate::study::request::Request;
use crate::study::spec::DevicesSpec;

const EXAMPLES: &str = "\
Examples:
  hpsearch resume digits         the whole study continues
  hpsearch resume digits 7       one trial continues, from where it saved
  hpsearch resume --device cuda:0         a paused device is used again
  hpsearch resume --device cpu --slots 3  three trials at a time there, until
                                          the present run ends

A trial that is paused at a rung runs to the next one, whatever its pruner would
decide. A study that is not running continues with `hpsearch run`.";

/// Arguments of `hpsearch resume`.
#[derive(Clone, Debug, Args)]
#[command(after_help = EXAMPLES, override_usage = "hpsearch resume [OPTIONS] [STUDY] [TRIALS]")]
pub struct ResumeArguments {
    /// The study's name or file, and trials of it
    #[arg(value_name = "STUDY, TRIALS")]
    pub words: Vec<String>,
    /// Resume a device of the study instead: cuda:0, cpu
    #[arg(long, value_name = "DEVICE")]
    pub device: Vec<Device>,
    /// Run N trials at a time on that device, even if the study did not use it
    #[arg(
        long,
        value_name = "N",
        requires = "device",
        value_parser = clap::value_parser!(u32).range(1..=1024)
    )]
    pub slots: Option<u32>,
}

/// Asks the runner to resume the trials or devices, or else the study.
pub fn resume(arguments: &ResumeArguments, console: &mut Console) -> Result<Exit, Failure> {
    let (study, trials) = named(&arguments.words, console)?;
    let mut requests: Vec<Request> =
        trials.iter().map(|trial| Request::ResumeTrial { trial: trial.number }).collect();
    if !(arguments.device.is_empty() || trials.is_empty()) {
        return Err(Failure::usage("trials and devices are resumed one after the other")
            .help("leave out the trials, or --device"));
    }
    if arguments.slots.is_some() {
        // The runner is on this machine: only its devices are valid.
        let select: Vec<String> = arguments.device.iter().map(ToString::to_string).collect();
        let machine = MachineDevices::detect(&select);
        slots(
            &DevicesSpec { select, per_trial: None, ..study.spec.devices.clone() },
            &study.spec.program,
            &machine,
        )?;
    }
    let resumed = arguments
        .device
        .iter()
        .map(|device| Request::ResumeDevice { device: device.clone(), slots: arguments.slots });
    requests.extend(resumed);
    if requests.is_empty() {
        requests.push(Request::ResumeStudy);
    }
    ask_all(&study, requests, console)
}
