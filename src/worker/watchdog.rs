//! The watchdog of a run: what its supervisors cannot end, because they were killed with their runner, it ends.

use std::ffi::OsStr;
use std::io::{self, Read as _};
use std::path::Path;
use std::time::{Duration, Instant};

use crate::processes::{self, ControlGroup};
use crate::wire::{RUN, RUN_IS_OVER};

/// Supervisors and workers end what is theirs themselves when their runner is gone, and know more of it.
const PATIENCE: Duration = Duration::from_secs(3);

/// How long what is left is killed, again and again.
const KILLING: Duration = Duration::from_secs(10);

const TURN: Duration = Duration::from_millis(50);

/// Waits until the runner says on stdin that the run is over, or is gone; the exit code. Then everything that carries the
/// run's name in its environment is killed: not those of the study's next run.
/// What is in the run's control group, `group`, is killed at once: nothing else can be in it.
pub fn watch(run: &OsStr, group: Option<&OsStr>) -> i32 {
    let _only_a_name = std::fs::write("/proc/self/comm", "hps-watchdog");
    // Whoever ends the runner's terminal, or its group, does not end this process; nor does it keep a directory busy.
    let _belongs_to_a_group = (rustix::process::setsid(), std::env::set_current_dir("/"));
    let mut said = Vec::new();
    let _gone_like_an_end = io::stdin().lock().read_to_end(&mut said);
    if said == RUN_IS_OVER.as_bytes() {
        return 0;
    }
    if let Some(group) = group {
        ControlGroup::at(Path::new(group)).end();
    }
    let mark = [format!("{RUN}={}", run.to_string_lossy())];
    let (asked, began) = (Instant::now() + PATIENCE, Instant::now());
    // None at two looks: a process has no environment in the moment in which it becomes another program.
    let mut looks_without = 0;
    while looks_without < 2 && began.elapsed() < PATIENCE + KILLING {
        let left = processes::with_environment(&mark);
        looks_without = if left.is_empty() { looks_without + 1 } else { 0 };
        if Instant::now() >= asked {
            left.into_iter().for_each(processes::kill);
        }
        std::thread::sleep(TURN);
    }
    0
}
