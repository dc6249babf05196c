//! The process that outlives a runner which is killed with its supervisors, and ends what they
//! leave.

use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::runner::processes::{self, ControlGroup};
use crate::runner::protocol::RUN_IS_OVER;

/// How long it may take to end when the run is over.
const PATIENCE: Duration = Duration::from_secs(1);

/// The watchdog of this run.
pub(super) struct Watchdog {
    process: Child,
    group: Option<ControlGroup>,
}

impl Watchdog {
    /// Starts it for the run of this name. `None` where the machine refuses it: a run continues
    /// without, for it is needed only where runner and supervisor are killed at once.
    pub fn start(program: &Path, run: &str) -> Option<Self> {
        let group = ControlGroup::make(run);
        let mut command = Command::new(program);
        command
            .arg0("hpsearch")
            .args(["worker", "--watch", run])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        // It is no process of a trial, should this run be one of a trial's.
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

    /// The control group of this run, where one could be made: commands join it.
    pub fn group(&self) -> Option<&Path> {
        self.group.as_ref().map(ControlGroup::directory)
    }

    /// Tells it that the run is over, and waits for it.
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
