//! Starts agents, and starts them again.

mod slurm;
mod ssh;

use std::collections::BTreeMap;
use std::io::{self, BufRead as _, BufReader, Read};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use self::slurm::Slurm;
use super::frames::over_pipe;
use super::hub::Hub;
use crate::runner::threads;
use crate::study::cluster::{AgentStart, ClusterSpec};

/// First and longest pause before a process that ended is started again.
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

/// A process that lived this long has worked.
const WORKED: Duration = Duration::from_secs(60);

/// Longest line kept of what a process complains of.
const LONGEST_COMPLAINT: usize = 500;

/// Starts agents.
pub struct Starter {
    commands: Vec<AgentCommand>,
    processes: BTreeMap<usize, Process>,
    slurm: Option<Slurm>,
}

/// A process to be kept running.
#[derive(Clone, Debug, PartialEq, Eq)]
struct AgentCommand {
    /// For users: a host, or the program.
    name: String,
    words: Vec<String>,
    /// What has to be run before, if the process ends with [`ssh::MISSING`].
    install: Option<Vec<String>>,
}

#[derive(Default)]
struct Process {
    child: Option<Child>,
    complaint: Arc<Mutex<String>>,
    began: Option<Instant>,
    not_before: Option<Instant>,
    pause: Duration,
}

/// The command lines by which agents of a study are started, for users. `file`: where agents find
/// the runner.
pub fn command_lines(cluster: &ClusterSpec, study: &str, file: &Path) -> Vec<Vec<String>> {
    let own = || std::env::current_exe().unwrap_or_else(|_| "hpsearch".into());
    match &cluster.start {
        AgentStart::Slurm(slurm) => {
            vec![slurm::submission(slurm, study, &own(), file, slurm.max_jobs)]
        }
        start => agent_commands(start, file).into_iter().map(|command| command.words).collect(),
    }
}

fn agent_commands(start: &AgentStart, file: &Path) -> Vec<AgentCommand> {
    match start {
        AgentStart::Command { run, max_jobs } => {
            let words = run.iter().map(|word| word.replace("{file}", &file.to_string_lossy()));
            let words: Vec<String> = words.collect();
            let name = words.first().cloned().unwrap_or_default();
            (0..*max_jobs)
                .map(|_| AgentCommand { name: name.clone(), words: words.clone(), install: None })
                .collect()
        }
        AgentStart::Ssh { hosts } => {
            hosts.iter().map(|host| ssh::agent_command(host, file)).collect()
        }
        AgentStart::Manual | AgentStart::Slurm(_) => Vec::new(),
    }
}

impl Starter {
    /// A starter that has not begun. `file`: where agents find the runner.
    pub fn new(start: &AgentStart, study: &str, file: &Path) -> Self {
        let slurm = match start {
            AgentStart::Slurm(spec) => Some(Slurm::new(spec.clone(), study, file)),
            _ => None,
        };
        Starter { commands: agent_commands(start, file), processes: BTreeMap::new(), slurm }
    }

    /// Starts what is to run and does not. `demand`: how many more trials could run now.
    pub fn look_after(&mut self, hub: &Hub, demand: u64) {
        for (index, command) in self.commands.iter().enumerate() {
            self.processes.entry(index).or_default().keep_up(command, hub);
        }
        if let Some(slurm) = &mut self.slurm {
            slurm.look_after(hub, demand);
        }
    }

    /// Ends what was started.
    pub fn shut_down(&mut self) {
        for process in self.processes.values_mut() {
            if let Some(mut child) = process.child.take() {
                // Its agent was told to end.
                let until = Instant::now() + Duration::from_secs(2);
                while matches!(child.try_wait(), Ok(None)) && Instant::now() < until {
                    threads::sleep(Duration::from_millis(10));
                }
                let _ended_already = child.kill();
                let _reaped = child.wait();
            }
        }
        if let Some(slurm) = &mut self.slurm {
            slurm.shut_down();
        }
    }
}

impl Process {
    fn keep_up(&mut self, command: &AgentCommand, hub: &Hub) {
        let now = Instant::now();
        let mut next = &command.words;
        if let Some(child) = &mut self.child {
            let status = match child.try_wait() {
                Ok(None) => return,
                Ok(Some(status)) => Some(status),
                Err(_) => None,
            };
            self.child = None;
            match &command.install {
                Some(install) if status.and_then(|status| status.code()) == Some(ssh::MISSING) => {
                    next = install;
                    self.not_before = None;
                }
                _ => {
                    let is_fine = status.is_some_and(|status| status.success());
                    if !is_fine {
                        let said = self.complaint.lock().unwrap_or_else(PoisonError::into_inner);
                        let how = status.map_or_else(|| "lost".to_owned(), |how| how.to_string());
                        let said =
                            if said.is_empty() { how } else { format!("{how}: {}", said.trim()) };
                        hub.tell_trouble(&command.name, &said);
                    }
                    let worked = self.began.is_some_and(|began| began.elapsed() > WORKED);
                    self.wait(worked || is_fine, now);
                }
            }
        }
        if self.not_before.is_some_and(|moment| moment > now) {
            return;
        }
        self.began = Some(now);
        let installs = next != &command.words;
        match start(next, installs, &self.complaint, hub) {
            Ok(child) => self.child = Some(child),
            Err(error) => {
                hub.tell_trouble(&command.name, &format!("`{}`: {error}", next[0]));
                self.wait(false, now);
            }
        }
    }

    fn wait(&mut self, worked: bool, now: Instant) {
        let (first, longest) = PAUSES;
        self.pause = if worked { first } else { (self.pause * 2).clamp(first, longest) };
        self.not_before = Some(now + self.pause);
    }
}

/// Starts a process whose streams may be an agent's; one that installs gets this program on its
/// standard input instead.
fn start(
    words: &[String],
    installs: bool,
    complaint: &Arc<Mutex<String>>,
    hub: &Hub,
) -> io::Result<Child> {
    let (program, arguments) = words.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.process_group(0).spawn()?;
    complaint.lock().unwrap_or_else(PoisonError::into_inner).clear();
    if let Some(stderr) = child.stderr.take() {
        let complaint = Arc::clone(complaint);
        threads::spawn("agent errors", move || keep_last(stderr, &complaint))?;
    }
    let (Some(stdout), Some(mut stdin)) = (child.stdout.take(), child.stdin.take()) else {
        return Ok(child);
    };
    if installs {
        threads::spawn("agent copy", move || {
            let own = std::fs::File::open(crate::runner::processes::own_program());
            // Its exit status tells whether all of it arrived.
            let _copied = own.and_then(|mut own| io::copy(&mut own, &mut stdin));
        })?;
        return Ok(child);
    }
    let hub = hub.clone();
    threads::spawn("agent pipe", move || {
        let (reader, writer) = over_pipe(stdout, stdin);
        // Something else that was printed, or a pipe that breaks: its process is started again.
        let _ended = hub.serve(reader, writer);
    })?;
    Ok(child)
}

/// Keeps the last line of a stream that is not empty.
fn keep_last(stream: impl Read, last: &Mutex<String>) {
    let mut lines = BufReader::new(stream);
    let mut line = Vec::new();
    while let Ok(1..) = lines.by_ref().take(1 << 16).read_until(b'\n', &mut line) {
        let text = String::from_utf8_lossy(&line);
        let text: String = text.trim().chars().take(LONGEST_COMPLAINT).collect();
        if !text.is_empty() {
            *last.lock().unwrap_or_else(PoisonError::into_inner) = text;
        }
        line.clear();
    }
}
