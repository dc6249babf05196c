//! A running attempt in a process: how it is answered, asked and killed.

use std::sync::Arc;
use std::time::Duration;

use super::stdin::ChildStdin;
use crate::runner::launcher::Job;
use crate::runner::protocol::{self, MessageToTrial};
use crate::runner::{processes, threads};
use crate::study::decision::Decision;

/// A running attempt in a process.
pub(super) struct ProcessJob {
    pub pid: u32,
    pub pid_started: u64,
    pub stdin: Arc<ChildStdin>,
    /// Whether the process is the supervisor of a command.
    pub supervised: bool,
}

impl Job for ProcessJob {
    fn answer(&mut self, verdict: &Decision) {
        self.stdin.line(&protocol::verdict_line(verdict));
    }

    fn leave(&mut self) {
        self.stdin.send(&MessageToTrial::Leave);
    }

    fn signal(&mut self, number: i32) {
        self.stdin.send(&MessageToTrial::Signal { number });
    }

    /// A stopped child would not read this, nor a request to exit.
    fn examine(&mut self) {
        if processes::is_stopped(self.pid) {
            processes::resume(self.pid);
        }
        self.stdin.send(&MessageToTrial::Examine);
    }

    fn kill(&mut self) {
        if !self.supervised {
            processes::kill(self.pid);
            return;
        }
        self.stdin.send(&MessageToTrial::Kill);
        // A supervisor that does not answer (stopped, swapped out) is killed itself; its orphans
        // are swept.
        let (pid, started) = (self.pid, self.pid_started);
        let waiting = threads::spawn("kill", move || {
            std::thread::sleep(Duration::from_secs(2));
            if processes::is_alive(pid, started) {
                processes::kill(pid);
            }
        });
        if waiting.is_err() {
            processes::kill(pid);
        }
    }

    /// The trainer waits for the answer, and its last checkpoint is older than the report; a
    /// command need not wait.
    fn give_up(&mut self) {
        if !self.supervised {
            processes::kill(self.pid);
        }
    }
}
