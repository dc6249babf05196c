//! The control group of a run (cgroup v2): all descendants of its commands stay in it, and are
//! killed with it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::is_alive;

/// Time for a group to become empty after all its processes were killed.
const PATIENCE: Duration = Duration::from_secs(2);

/// Prefix of groups' names, followed by the runner's process id, a dot and its start time.
const PREFIX: &str = "hpsearch-";

/// The control group of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControlGroup(PathBuf);

impl ControlGroup {
    /// Creates one for the run `PID.START`, below the group of this process. `None` if that is
    /// impossible: no cgroup v2, a group not delegated to this user, or a kernel before 5.14, which
    /// cannot kill a group.
    pub fn make(run: &str) -> Option<Self> {
        let own = own_directory()?;
        sweep(&own);
        let group = ControlGroup(own.join(format!("{PREFIX}{run}")));
        fs::create_dir(&group.0).ok()?;
        // An empty write checks the permission without moving a process.
        let is_ours = group.0.join("cgroup.kill").exists()
            && fs::OpenOptions::new().write(true).open(group.0.join("cgroup.procs")).is_ok();
        if is_ours {
            return Some(group);
        }
        let _found_empty_by_the_next = fs::remove_dir(&group.0);
        None
    }

    /// An existing one, by its directory.
    pub fn at(directory: &Path) -> Self {
        ControlGroup(directory.to_owned())
    }

    /// Its directory.
    pub fn directory(&self) -> &Path {
        &self.0
    }

    /// Moves this process into it, and all processes that it starts from now on.
    ///
    /// # Errors
    /// The system's: the group is gone, or not writable.
    pub fn join(&self) -> io::Result<()> {
        fs::write(self.0.join("cgroup.procs"), "0")
    }

    /// Kills all its processes.
    pub fn kill(&self) {
        let _gone_already = fs::write(self.0.join("cgroup.kill"), "1");
    }

    /// Kills all its processes, and removes it.
    pub fn end(&self) {
        self.kill();
        let until = Instant::now() + PATIENCE;
        while fs::remove_dir(&self.0).is_err() && self.0.exists() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Removes groups of runs whose runner and watchdog were both killed. A non-empty one stays: its
/// processes may belong to a runner that is invisible from here.
fn sweep(own: &Path) {
    for entry in fs::read_dir(own).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let is_over = || {
            let (pid, started) = name.to_str()?.strip_prefix(PREFIX)?.split_once('.')?;
            Some(!is_alive(pid.parse().ok()?, started.parse().ok()?))
        };
        if is_over() == Some(true) {
            let _not_empty = fs::remove_dir(entry.path());
        }
    }
}

/// The directory of this process's own group.
pub(super) fn own_directory() -> Option<PathBuf> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let path = groups.lines().find_map(|line| line.strip_prefix("0::"))?;
    let mounts = fs::read_to_string("/proc/self/mounts").ok()?;
    directory_in(&mounts, path).filter(|directory| directory.join("cgroup.procs").exists())
}

/// The directory of the group `path`, by the text of `/proc/self/mounts`.
fn directory_in(mounts: &str, path: &str) -> Option<PathBuf> {
    let mut mounted = mounts.lines().filter_map(|line| {
        let mut fields = line.split(' ');
        let (point, kind) = (fields.nth(1)?, fields.next()?);
        (kind == "cgroup2").then(|| point.replace("\\040", " "))
    });
    Some(Path::new(&mounted.next()?).join(path.trim_start_matches('/')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_directory_of_a_group_is_found_in_either_hierarchy() {
        let unified = "cgroup2 /sys/fs/cgroup cgroup2 rw,nosuid 0 0\n";
        let found = directory_in(unified, "/user.slice/a").unwrap();
        assert_eq!(found, Path::new("/sys/fs/cgroup/user.slice/a"));
        let hybrid = "cgroup /sys/fs/cgroup/cpu cgroup rw,cpu 0 0\ncgroup2 /sys/fs/cgroup/unified \
            cgroup2 rw 0 0\n";
        assert_eq!(directory_in(hybrid, "/").unwrap(), Path::new("/sys/fs/cgroup/unified/"));
        assert_eq!(directory_in("proc /proc proc rw 0 0\n", "/"), None);
    }
}
