//! `hpsearch agent`: runs trials for a runner on another machine.

use std::path::PathBuf;

use clap::Args;
use signal_hook::consts::{SIGHUP, SIGTERM};

use super::{Console, Exit, Failure};
use crate::cluster::agent::{Agent, AgentEnd, Way};
use crate::runner::process::own_program;
use crate::runner::signals::{HangUp, SignalWatch};

const EXAMPLES: &str = "\
Examples:
  hpsearch agent runs/files/digits/agents.json

The runner of a study with [cluster] writes the file, and starts agents by
`type`. Without a type they are started by hand, one on each machine.";

/// Arguments of `hpsearch agent`.
#[derive(Clone, Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct AgentArguments {
    /// The file with the address and the token of the runner
    #[arg(value_name = "FILE", required_unless_present = "stdio")]
    pub file: Option<PathBuf>,
    /// Speak to the runner over standard input and output
    #[arg(long, conflicts_with = "file")]
    pub stdio: bool,
    /// Devices instead of those of the study file
    #[arg(long, value_name = "DEVICE", value_delimiter = ',')]
    pub devices: Vec<String>,
}

/// Runs trials until the runner needs no more, or is lost.
pub fn agent(arguments: &AgentArguments, console: &mut Console) -> Result<Exit, Failure> {
    let way = match &arguments.file {
        Some(file) => Way::File(file.clone()),
        None => Way::StandardStreams,
    };
    // Adopts orphans of killed supervisors, so that they can be killed.
    let _refused_by_old_kernels =
        rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
    let (agent, inputs) = Agent::new(own_program(), arguments.devices.clone());
    let signals = SignalWatch::start(inputs, HangUp::Leaves, None)?;
    let end = agent.run(way);
    match end {
        AgentEnd::Dismissed => Ok(Exit::Done),
        AgentEnd::Interrupted => {
            console.mention("interrupted: its trials have saved, and run elsewhere");
            Ok(match signals.received() {
                Some(SIGTERM) => Exit::Terminated,
                Some(SIGHUP) => Exit::HungUp,
                _ => Exit::Interrupted,
            })
        }
        AgentEnd::Unusable(why) => {
            let where_to = arguments.file.as_ref().map(|file| file.display().to_string());
            Err(Failure::new(Exit::Store, format!("this agent ends: {why}")).help(match where_to {
                Some(file) => format!(
                    "run the study; its runner writes `{file}`, and agents that are started then \
                     find it"
                ),
                None => "the runner starts it again".to_owned(),
            }))
        }
    }
}
