//! The watchdog of a run: ends the processes whose supervisors were killed together with the
//! runner.

use std::ffi::OsStr;
use std::io::{self, Read as _};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::getppid;

use crate::runner::processes::{self, ControlGroup};
use crate::runner::protocol::{RUN, RUN_IS_OVER};
use crate::runner::threads;

/// Time for supervisors and workers to end their own processes when the runner is gone.
const GRACE_PERIOD: Duration = Duration::from_secs(3);

/// Time for which remaining processes are killed repeatedly.
const KILL_TIMEOUT: Duration = Duration::from_secs(10);

const INTERVAL: Duration = Duration::from_millis(50);

/// Time between looks whether an agent is stopped.
const LOOK: Duration = Duration::from_millis(500);

/// Waits until the runner reports on stdin that the run is over, or is gone; returns the exit code.
/// If it is gone, kills every process with the run's id in its environment (the study's next run
/// has another id). The run's control group, `group`, is killed at once: nothing else can be in it.
/// With `patience` the runner is an agent, whose processes it kills as well when it has been
/// stopped for so long.
pub fn watch(run: &OsStr, patience: Option<Duration>, group: Option<&OsStr>) -> i32 {
    let mark = [format!("{RUN}={}", run.to_string_lossy())];
    let _only_a_name = std::fs::write("/proc/self/comm", "hps-watchdog");
    // A separate session survives the runner's terminal and process group; `/` keeps no directory
    // busy.
    let _belongs_to_a_group = (rustix::process::setsid(), std::env::set_current_dir("/"));
    if let Some(patience) = patience {
        let agent = getppid().map_or(0, |agent| agent.as_raw_nonzero().get().unsigned_abs());
        let (mark, group) = (mark.clone(), group.map(OsStr::to_owned));
        let _only_an_end_is_noticed = threads::spawn("agent", move || {
            end_if_stopped(agent, patience, &mark, group.as_deref());
        });
    }
    let mut said = Vec::new();
    let _gone_like_an_end = io::stdin().lock().read_to_end(&mut said);
    if said == RUN_IS_OVER.as_bytes() {
        return 0;
    }
    if let Some(group) = group {
        ControlGroup::at(Path::new(group)).end();
    }
    let (asked, began) = (Instant::now() + GRACE_PERIOD, Instant::now());
    // None in two scans: during exec a process has no environment.
    let mut looks_without = 0;
    while looks_without < 2 && began.elapsed() < GRACE_PERIOD + KILL_TIMEOUT {
        let left = processes::with_environment(&mark);
        looks_without = if left.is_empty() { looks_without + 1 } else { 0 };
        if Instant::now() >= asked {
            left.into_iter().for_each(processes::kill);
        }
        std::thread::sleep(INTERVAL);
    }
    0
}

/// Ends the processes of an agent each time it has been stopped for so long: its runner has given
/// it up, and runs its trials elsewhere.
fn end_if_stopped(agent: u32, patience: Duration, mark: &[String], group: Option<&OsStr>) {
    let (mut stopped, mut looked) = (Duration::ZERO, Instant::now());
    loop {
        threads::sleep(LOOK);
        // This process may have been stopped together with the agent.
        let passed = looked.elapsed().min(LOOK * 2);
        looked = Instant::now();
        stopped = if processes::is_stopped(agent) { stopped + passed } else { Duration::ZERO };
        if stopped > patience {
            if let Some(group) = group {
                ControlGroup::at(Path::new(group)).kill();
            }
            processes::with_environment(mark).into_iter().for_each(processes::kill);
        }
    }
}
