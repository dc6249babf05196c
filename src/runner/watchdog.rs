//! The watchdog: a process that survives if the runner is killed together with its supervisors, and
//! ends what they leave.

use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::runner::processes::{self, ControlGroup};
use crate::runner::protocol::RUN_IS_OVER;

/// Time for it to exit when the run is over.
const PATIENCE: Duration = Duration::from_secs(1);

/// The watchdog of this run.
pub(super) struct Watchdog {
    process: Child,
    group: Option<ControlGroup>,
}

impl Watchdog {
    /// Starts it for this run. If this process is stopped for longer than `patience`, it ends the
    /// run's processes as well. `None` if the machine refuses: a run continues without it, since it
    /// is needed only if runner and supervisor are killed at the same time.
    pub fn start(program: &Path, run: &str, patience: Option<Duration>) -> Option<Self> {
        let group = ControlGroup::make(run);
        let mut command = Command::new(program);
        let patience = patience.map_or(0.0, |patience| patience.as_secs_f64()).to_string();
        command
            .arg0("hpsearch")
            .args(["worker", "--watch", run, &patience])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        // It must not look like a process of a trial, if this run is nested in one.
        for variable in ["HPSEARCH_STORE", "HPSEARCH_STUDY"] {
            command.env_remove(variable);
        }
        command.args(group.as_ref().map(ControlGroup::directory));
        match command.spawn() {
            Ok(process) => Some(Watchdog { process, group }),
            Err(_) => {
                group.inspect(ControlGroup::end);
                None
            }
        }
    }

    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// The control group of this run, if one could be created: commands join it.
    pub fn group(&self) -> Option<&Path> {
        self.group.as_ref().map(ControlGroup::directory)
    }

    /// Tells it that the run is over, and waits for it to exit.
    pub fn end(mut self) {
        if let Some(mut stdin) = self.process.stdin.take() {
            let _killed_before = stdin.write_all(RUN_IS_OVER.as_bytes());
        }
        let until = Instant::now() + PATIENCE;
        while matches!(self.process.try_wait(), Ok(None)) {
            if Instant::now() >= until {
                processes::kill(self.pid());
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        self.group.inspect(ControlGroup::end);
    }
}
