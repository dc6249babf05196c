//! `hpsearch agent`: runs trials for a runner on another machine.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use clap::Args;
use rustix::fs::FlockOperation;
use signal_hook::consts::{SIGHUP, SIGTERM};

use super::{Console, Exit, Failure};
use crate::app;
use crate::cluster::agent::{Agent, AgentEnd, AgentNews, RunnerAddress};
use crate::cluster::kubernetes::JobOptions;
use crate::cluster::relay::relay;
use crate::cluster::rendezvous::Rendezvous;
use crate::config;
use crate::report::journal::{attempt_ended, attempt_started};
use crate::report::wording::one_line;
use crate::runner::processes::own_program;
use crate::runner::signals::{HangUp, SignalWatch};

const EXAMPLES: &str = "\
Examples:
  hpsearch agent runs/files/digits/agents.json

  hpsearch agent agents.json --kubernetes me/hpsearch:1 --agents 8 \\
      --resource cpu=4 --resource nvidia.com/gpu=1 | kubectl apply -f -

The runner of a study with [cluster] writes the file, and starts agents by
`type`. Without a type they are started by hand, one on each machine.";

/// Seconds that pods have for their trials to save, and to send what they have.
const POD_GRACE: u64 = 120;

/// Arguments of `hpsearch agent`.
#[derive(Clone, Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct AgentArguments {
    /// The file with the address and the token of the runner
    #[arg(value_name = "FILE", required_unless_present_any = ["stdio", "socket"])]
    pub file: Option<PathBuf>,
    /// Speak to the runner over standard input and output
    #[arg(long, conflicts_with = "file")]
    pub stdio: bool,
    /// With --stdio, the name of an agent that continues when the streams end
    #[arg(long, value_name = "KEY", requires = "stdio")]
    pub keep: Option<String>,
    /// Wait at this socket for what connects the runner
    #[arg(long, value_name = "PATH", hide = true, conflicts_with_all = ["file", "stdio"])]
    pub socket: Option<PathBuf>,
    /// Send files over the link even if the runner's directory is seen here
    #[arg(long, conflicts_with = "keep")]
    pub carry: bool,
    /// Print the manifests of a Job of agents with this container image, and run nothing
    #[arg(
        long,
        value_name = "IMAGE",
        requires = "file",
        conflicts_with_all = ["carry", "stdio", "socket"]
    )]
    pub kubernetes: Option<String>,
    /// With --kubernetes, the number of agents
    #[arg(
        long,
        value_name = "N",
        default_value_t = 1,
        requires = "kubernetes",
        value_parser = clap::value_parser!(u32).range(1..)
    )]
    pub agents: u32,
    /// With --kubernetes, a resource of each agent, such as `nvidia.com/gpu=1`
    #[arg(
        long = "resource",
        value_name = "NAME=AMOUNT",
        value_parser = resource,
        requires = "kubernetes"
    )]
    pub resources: Vec<(String, String)>,
    /// Devices instead of those of the study file
    #[arg(long, value_name = "DEVICE", value_delimiter = ',')]
    pub devices: Vec<String>,
}

/// Runs trials until the runner needs no more, or is lost.
pub fn agent(arguments: &AgentArguments, console: &mut Console) -> Result<Exit, Failure> {
    if let Some(key) = &arguments.keep {
        if !config::is_study_name(key) {
            return Err(Failure::usage(format!("`{}` is not a valid key", one_line(key)))
                .help(config::STUDY_NAME_RULE));
        }
        return match relay(key, &arguments.devices) {
            Ok(()) => Ok(Exit::Done),
            Err(error) => {
                Err(Failure::new(Exit::Store, format!("no agent can be started: {error}")))
            }
        };
    }
    if let (Some(image), Some(file)) = (&arguments.kubernetes, &arguments.file) {
        return print_job(image, file, arguments, console);
    }
    if let Some(file) = &arguments.file {
        match Rendezvous::read(file) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => console.say(&format!(
                "`{}` does not exist yet; waiting for the runner that writes it",
                file.display()
            )),
            Err(error) => console.say(&format!(
                "`{}` cannot be used now: {error}; waiting for the runner that writes it",
                file.display()
            )),
        }
    }
    let mut locked = None;
    let address = match (&arguments.file, &arguments.socket) {
        (Some(file), _) => RunnerAddress::File(file.clone()),
        (None, Some(socket)) => {
            // Another relay may have started one at the same moment.
            let lock = File::create(socket.with_extension("lock"))?;
            let taken = rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive);
            if taken.is_err() {
                return Ok(Exit::Done);
            }
            locked = Some(lock);
            // It outlives the session that started it.
            let _is_the_first = rustix::process::setsid();
            RunnerAddress::Socket(socket.clone())
        }
        (None, None) => RunnerAddress::StandardStreams,
    };
    // Adopts orphans of killed supervisors, so that they can be killed.
    let _refused_by_old_kernels =
        rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
    let (agent, inputs) = Agent::new(own_program(), arguments.devices.clone());
    let agent = if arguments.carry { agent.carrying() } else { agent };
    let signals = SignalWatch::start(inputs, HangUp::Leaves, None)?;
    signals.take_notice()?;
    // Where its runner reads what it prints, as with a pipe, that has all of this already.
    let prints = matches!(address, RunnerAddress::File(_));
    let end = agent.run(address, &mut |news| {
        if prints {
            console.mention(&one_line(&in_words(&news)));
        }
    });
    if let Some(socket) = &arguments.socket {
        let _removed_already = std::fs::remove_file(socket);
    }
    drop(locked);
    match end {
        AgentEnd::Dismissed => Ok(Exit::Done),
        AgentEnd::Interrupted => {
            console.mention("interrupted: its trials saved checkpoints and continue elsewhere");
            Ok(match signals.received() {
                Some(SIGTERM) => Exit::Terminated,
                Some(SIGHUP) => Exit::HungUp,
                _ => Exit::Interrupted,
            })
        }
        AgentEnd::Lost(why) | AgentEnd::Unusable(why) => {
            let where_to = arguments.file.as_ref().map(|file| file.display().to_string());
            Err(Failure::new(Exit::Store, format!("this agent ends: {why}")).help(match where_to {
                Some(file) => format!(
                    "run the study: its runner writes `{file}`, from which new agents find it"
                ),
                None => "the runner starts it again".to_owned(),
            }))
        }
    }
}

fn in_words(news: &AgentNews) -> String {
    match news {
        AgentNews::Unreachable { why, left } => {
            format!("cannot reach its runner: {why}; retrying for another {} s", left.as_secs())
        }
        AgentNews::TakenOn { study, name } => format!("works for study {study} as {name}"),
        AgentNews::Started { assignment, step_unit } => {
            let step = assignment.resume.as_ref().map(|checkpoint| checkpoint.step);
            let started = attempt_started(assignment.attempt, step, *step_unit);
            format!("trial {} {started} on {}", assignment.trial, assignment.slot.devices)
        }
        AgentNews::Ended { trial, attempt, end, message } => {
            format!("trial {trial} {}", attempt_ended(*attempt, end, message.as_deref()))
        }
    }
}

fn resource(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, amount)) if !name.is_empty() && !amount.is_empty() => {
            Ok((name.to_owned(), amount.to_owned()))
        }
        _ => Err("it has the form NAME=AMOUNT, such as cpu=4".to_owned()),
    }
}

fn print_job(
    image: &str,
    file: &Path,
    arguments: &AgentArguments,
    console: &mut Console,
) -> Result<Exit, Failure> {
    let options = JobOptions {
        image,
        agents: arguments.agents,
        resources: &arguments.resources,
        devices: &arguments.devices,
        grace: POD_GRACE,
    };
    let manifests = app::cluster::job_manifests(file, &options).map_err(|error| {
        let what = format!("`{}` cannot be used: {error}", file.display());
        Failure::new(Exit::Store, what)
            .help("a runner of a study with [cluster] writes it; run the study first")
    })?;
    writeln!(console.out, "{}", serde_json::to_string_pretty(&manifests)?)?;
    if let Some(shared) = Rendezvous::read(file).ok().and_then(|found| found.shared_dir) {
        console.say(&format!(
            "warning: the pods do not mount `{}`, the `shared_dir` of the study: add the volume to \
             the Job, mounted at this path, or leave `shared_dir` out of [cluster], so that files \
             travel over the link",
            shared.display()
        ));
    }
    Ok(Exit::Done)
}
