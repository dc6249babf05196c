//! Starts agents, and starts them again.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use std::os::unix::process::CommandExt as _;

use super::frames::over_pipe;
use super::hub::{Hub, Medium};
use crate::runner::threads;
use crate::study::cluster::AgentStart;

/// First and longest pause before a process that ended is started again.
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

/// A process that lived this long has worked.
const WORKED: Duration = Duration::from_secs(60);

/// Starts agents.
pub struct Starter {
    start: AgentStart,
    processes: BTreeMap<usize, Process>,
}

#[derive(Default)]
struct Process {
    child: Option<Child>,
    began: Option<Instant>,
    not_before: Option<Instant>,
    pause: Duration,
}

impl Starter {
    /// A starter that has not begun.
    pub fn new(start: AgentStart) -> Self {
        Starter { start, processes: BTreeMap::new() }
    }

    /// Starts what is to run and does not. `file`: where agents find the runner.
    pub fn look_after(&mut self, hub: &Hub, file: &Path) {
        let wanted: Vec<Vec<String>> = match &self.start {
            AgentStart::Command { run, max_jobs } => {
                let words = run.iter().map(|word| word.replace("{file}", &file.to_string_lossy()));
                let words: Vec<String> = words.collect();
                (0..*max_jobs).map(|_| words.clone()).collect()
            }
            AgentStart::Manual | AgentStart::Ssh { .. } | AgentStart::Slurm(_) => Vec::new(),
        };
        for (index, words) in wanted.into_iter().enumerate() {
            self.processes.entry(index).or_default().keep_up(&words, hub);
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
    }
}

impl Process {
    fn keep_up(&mut self, words: &[String], hub: &Hub) {
        let now = Instant::now();
        if let Some(child) = &mut self.child {
            match child.try_wait() {
                Ok(None) => return,
                Ok(Some(_)) | Err(_) => {
                    self.child = None;
                    let (first, longest) = PAUSES;
                    let worked = self.began.is_some_and(|began| began.elapsed() > WORKED);
                    self.pause =
                        if worked { first } else { (self.pause * 2).clamp(first, longest) };
                    self.not_before = Some(now + self.pause);
                }
            }
        }
        if self.not_before.is_some_and(|moment| moment > now) {
            return;
        }
        self.began = Some(now);
        match start(words, hub) {
            Ok(child) => self.child = Some(child),
            Err(_) => {
                let (first, longest) = PAUSES;
                self.pause = (self.pause * 2).clamp(first, longest);
                self.not_before = Some(now + self.pause);
            }
        }
    }
}

/// Starts a process whose streams may be an agent's.
fn start(words: &[String], hub: &Hub) -> std::io::Result<Child> {
    let (program, arguments) = words.split_first().ok_or(std::io::ErrorKind::InvalidInput)?;
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.process_group(0).spawn()?;
    if let (Some(stdout), Some(stdin)) = (child.stdout.take(), child.stdin.take()) {
        let hub = hub.clone();
        threads::spawn("agent pipe", move || {
            let (reader, writer) = over_pipe(stdout, stdin);
            // Something else that was printed, or a pipe that breaks: its process is started again.
            let _ended = hub.serve(reader, writer, Medium::Pipe);
        })?;
    }
    Ok(child)
}
