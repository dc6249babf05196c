//! The child processes of a slot: a worker of the built-in trainer, or the supervisor of a command.

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::Arc;

use crossbeam_channel::Sender;

use super::stdin::ChildStdin;
use super::{LaunchMode, ProcessLauncher};
use crate::engine::{GroupNode, Input};
use crate::runner::launcher::LaunchError;
use crate::runner::listener::{Listener, Listening};
use crate::runner::slot_environment::{RANKS, driver_cache, group_environment, slot_environment};
use crate::runner::watchdog::Watchdog;
use crate::runner::{processes, protocol};
use crate::study::device::{DeviceGroup, Slot};

/// A worker of the built-in trainer is replaced after this many trials.
const TRIALS_PER_WORKER: u32 = 200;

/// A child process.
pub(super) struct Worker {
    pub pid: u32,
    pub stdin: Arc<ChildStdin>,
    pub listening: Listening,
    /// The number that it was given.
    pub trials: u32,
    /// The devices that it sees: an agent's next runner may number slots in another way.
    devices: DeviceGroup,
}

impl Worker {
    /// Whether another trial may run in it, on these devices.
    fn is_reusable(&self, devices: &DeviceGroup) -> bool {
        self.trials < TRIALS_PER_WORKER && self.devices == *devices && self.listening.is_reusable()
    }
}

impl ProcessLauncher {
    /// Gives the slot a worker for its next trial, unless the one that it has can run another.
    pub(super) fn ready_worker(
        &mut self,
        slot: &Slot,
        node: Option<&GroupNode>,
        inputs: &Sender<Input>,
    ) -> Result<(), LaunchError> {
        let old = self.workers.get(&slot.index);
        if !self.is_supervised() && old.is_some_and(|worker| worker.is_reusable(&slot.devices)) {
            return Ok(());
        }
        if let Some(old) = self.workers.remove(&slot.index) {
            old.stdin.close();
        }
        let worker = self.start_worker(slot, node, inputs)?;
        self.workers.insert(slot.index, worker);
        Ok(())
    }

    fn start_worker(
        &mut self,
        slot: &Slot,
        node: Option<&GroupNode>,
        inputs: &Sender<Input>,
    ) -> Result<Worker, LaunchError> {
        let mut command = Command::new(&self.program);
        if self.watchdog.is_none() {
            self.watchdog = Watchdog::start(&self.program, &self.run, self.patience_with_agent);
            self.pids.extend(self.watchdog.as_ref().map(Watchdog::pid));
        }
        // A socket instead of a pipe: a supervisor reports its command's end on it, out of the
        // command's reach.
        let (stream, its_stdin) =
            UnixStream::pair().map_err(LaunchError::refused("make a socket"))?;
        let aside = stream.try_clone().map_err(LaunchError::refused("make a socket"))?;
        command
            .arg0("hpsearch")
            .arg("worker")
            .stdin(Stdio::from(OwnedFd::from(its_stdin)))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .env("HPSEARCH_STORE", &self.store)
            .env("HPSEARCH_STUDY", &self.spec.name)
            .env(protocol::RUN, &self.run);
        match self.launch_mode {
            LaunchMode::Slots => {
                command.envs(slot_environment(slot, self.spec.devices.cpu_threads))
            }
            LaunchMode::Foreground => command.env("PYTHONUNBUFFERED", "1"),
        };
        if !self.is_supervised() {
            command.envs(driver_cache());
        }
        if let Some(node) = node {
            command.envs(group_environment(&slot.devices, node));
            for rank in RANKS {
                command.env_remove(rank);
            }
        }
        match self.patience_with_agent.is_some() {
            true => command.env(protocol::OF_AGENT, "1"),
            false => command.env_remove(protocol::OF_AGENT),
        };
        match self.watchdog.as_ref().and_then(Watchdog::group) {
            Some(group) => command.env(protocol::RUN_GROUP, group),
            None => command.env_remove(protocol::RUN_GROUP),
        };
        let program = self.program.display();
        let child = command
            .spawn()
            .map_err(LaunchError::refused(&format!("start the worker `{program}`")))?;
        let pid = child.id();
        drop(command);
        let listener = Listener {
            single: self.is_supervised(),
            is_shown: self.launch_mode == LaunchMode::Foreground,
            inputs: inputs.clone(),
            registrar: Arc::clone(&self.registrar),
            points: Arc::clone(&self.points),
        };
        let listening =
            listener.listen(child, aside).map_err(LaunchError::refused("listen to a worker"))?;
        self.pids.insert(pid);
        let stdin = ChildStdin::start(stream, pid)
            .inspect_err(|_| processes::kill(pid))
            .map_err(LaunchError::refused("start a thread for a worker"))?;
        let devices = slot.devices.clone();
        Ok(Worker { pid, stdin: Arc::new(stdin), listening, trials: 0, devices })
    }
}
