//! Process information and signals: start times, descendants, and killing process trees (Linux
//! `/proc`).

mod control_group;
mod limit;

pub use control_group::ControlGroup;
pub use limit::process_limits;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

/// The executable of this process itself, even if it was replaced or removed since (a study runs
/// for days, and users upgrade meanwhile).
pub fn own_program() -> PathBuf {
    PathBuf::from("/proc/self/exe")
}

/// A process's start time in clock ticks since boot; `None` if it does not exist or is a zombie.
pub fn start_time(pid: u32) -> Option<u64> {
    let stat = stat(pid)?;
    if stat.state == b'Z' { None } else { Some(stat.started) }
}

/// Resident memory of a process, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResidentMemory {
    /// At present.
    pub now: u64,
    /// Peak since the process executed its program.
    pub peak: u64,
}

/// The resident memory of a process; `None` if it does not exist or has ended.
pub fn resident_memory(pid: u32) -> Option<ResidentMemory> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
    };
    Some(ResidentMemory { now: field("VmRSS:")?, peak: field("VmHWM:")? })
}

/// Whether the process with this id is the one with this start time.
pub fn is_alive(pid: u32, started: u64) -> bool {
    start_time(pid) == Some(started)
}

/// Whether the process exists, zombies included.
pub fn exists(pid: u32) -> bool {
    stat(pid).is_some()
}

/// Whether the process is stopped: by SIGSTOP, by Ctrl-Z, or by a debugger.
pub fn is_stopped(pid: u32) -> bool {
    stat(pid).is_some_and(|stat| matches!(stat.state, b'T' | b't'))
}

/// The activity of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Doing {
    /// The process.
    pub pid: u32,
    /// Its program.
    pub name: String,
    /// `running`, `sleeping`, ...
    pub state: &'static str,
    /// The kernel function in which it waits.
    pub waits_in: Option<String>,
    /// Its kernel stack, innermost first; usually readable by the superuser only.
    pub stack: Vec<String>,
}

/// The activity of a process; `None` if it does not exist or has ended.
pub fn doing(pid: u32) -> Option<Doing> {
    let state = match stat(pid)?.state {
        b'R' => "running",
        b'S' => "sleeping",
        b'D' => "waiting for a device (it cannot be interrupted)",
        b'T' | b't' => "stopped",
        b'Z' | b'X' => return None,
        _ => "idle",
    };
    let read = |file: &str| fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap_or_default();
    let function = read("wchan");
    let waits_in =
        Some(function.trim().to_owned()).filter(|function| !function.is_empty() && function != "0");
    let stack = read("stack")
        .lines()
        .map(|line| line.trim().to_owned())
        .filter(|line| !line.is_empty())
        .collect();
    Some(Doing { pid, name: read("comm").trim().to_owned(), state, waits_in, stack })
}

struct Stat {
    state: u8,
    parent: u32,
    started: u64,
}

/// Parses `/proc/PID/stat`; the command name in parentheses may contain anything, so fields are
/// counted from the last `)`.
fn stat(pid: u32) -> Option<Stat> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = text.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    Some(Stat {
        state: *fields.first()?.as_bytes().first()?,
        parent: fields.get(1)?.parse().ok()?,
        started: fields.get(19)?.parse().ok()?,
    })
}

fn all() -> Vec<u32> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect()
}

/// All descendants of `root`, zombies included.
pub fn descendants(root: u32) -> BTreeSet<u32> {
    below(root, &BTreeSet::new())
}

/// All descendants of `root` that are neither in `keep` nor below one of those, level by level.
///
/// Processes that change their parents meanwhile, as those of a process or thread that ends do, may
/// be missed once.
fn below(root: u32, keep: &BTreeSet<u32>) -> BTreeSet<u32> {
    let children_of = children_of();
    let (mut found, mut parents) = (BTreeSet::new(), vec![root]);
    while let Some(parent) = parents.pop() {
        for child in children_of(parent) {
            if child != root && !keep.contains(&child) && found.insert(child) {
                parents.push(child);
            }
        }
    }
    found
}

/// Direct children of `parent`.
pub fn children(parent: u32) -> Vec<u32> {
    children_of()(parent)
}

/// The children of a process: as its threads list them (proc_pid_children(5)), which takes no look
/// at other processes; where the kernel has no such lists, of a snapshot of all processes.
fn children_of() -> Box<dyn Fn(u32) -> Vec<u32>> {
    static ARE_LISTED: LazyLock<bool> =
        LazyLock::new(|| Path::new("/proc/thread-self/children").exists());
    if *ARE_LISTED {
        return Box::new(listed_children);
    }
    snapshot()
}

fn snapshot() -> Box<dyn Fn(u32) -> Vec<u32>> {
    let parents: Vec<(u32, u32)> =
        all().into_iter().filter_map(|pid| Some((stat(pid)?.parent, pid))).collect();
    Box::new(move |parent| {
        let is_its = |(of, child): &(u32, u32)| (*of == parent).then_some(*child);
        parents.iter().filter_map(is_its).collect()
    })
}

fn listed_children(parent: u32) -> Vec<u32> {
    let Ok(threads) = fs::read_dir(format!("/proc/{parent}/task")) else { return Vec::new() };
    let lists =
        threads.filter_map(|thread| fs::read_to_string(thread.ok()?.path().join("children")).ok());
    lists.flat_map(|list| numbers(&list)).collect()
}

fn numbers(list: &str) -> Vec<u32> {
    list.split_ascii_whitespace().filter_map(|number| number.parse().ok()).collect()
}

/// Continues a stopped process.
pub fn resume(pid: u32) {
    signal(pid, Signal::CONT);
}

/// Sends SIGKILL; ignores processes that are gone.
pub fn kill(pid: u32) {
    signal(pid, Signal::KILL);
}

/// Kills a process group; ignores groups that are gone.
pub fn kill_group(leader: u32) {
    if let Some(leader) = i32::try_from(leader).ok().and_then(Pid::from_raw) {
        let _gone_already = rustix::process::kill_process_group(leader, Signal::KILL);
    }
}

/// Sends a signal; ignores processes that are gone.
pub fn signal(pid: u32, signal: Signal) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        let _gone_already = kill_process(pid, signal);
    }
}

/// Kills `root`'s descendants repeatedly until none is left or `patience` is over; `root` is this
/// process or one whose orphans this process inherits. Returns how many were left.
pub fn kill_descendants(root: u32, keep: &BTreeSet<u32>, patience: Duration) -> usize {
    let until = Instant::now() + patience;
    loop {
        reap(keep);
        let mut left = below(root, keep);
        if left.is_empty() {
            // One may have been missed: see there.
            left = below(root, keep);
        }
        if left.is_empty() || Instant::now() >= until {
            return left.len();
        }
        left.iter().for_each(|pid| kill(*pid));
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Reaps dead children that nothing else waits for.
fn reap(keep: &BTreeSet<u32>) {
    for pid in children(std::process::id()) {
        if keep.contains(&pid) {
            continue;
        }
        if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
            let _not_dead_yet = waitpid(Some(pid), WaitOptions::NOHANG);
        }
    }
}

/// Processes whose environment contains all of these `NAME=value` entries, except this process.
pub fn with_environment(entries: &[String]) -> Vec<u32> {
    let mine = std::process::id();
    let holds = |pid: &u32| {
        let Ok(environment) = fs::read(format!("/proc/{pid}/environ")) else { return false };
        entries.iter().all(|entry| {
            environment.split(|byte| *byte == 0).any(|found| found == entry.as_bytes())
        })
    };
    all().into_iter().filter(|pid| *pid != mine).filter(holds).collect()
}

/// The value of a variable in a process's initial environment; `None` if it is unset or unreadable.
pub fn variable(pid: u32, name: &str) -> Option<std::ffi::OsString> {
    use std::os::unix::ffi::OsStringExt as _;
    let environment = fs::read(format!("/proc/{pid}/environ")).ok()?;
    let value =
        |entry: &[u8]| Some(entry.strip_prefix(name.as_bytes())?.strip_prefix(b"=")?.to_vec());
    environment.split(|byte| *byte == 0).find_map(value).map(std::ffi::OsString::from_vec)
}

/// Whether this process ignores a signal, as `nohup` does for SIGHUP.
pub fn is_ignored(signal: i32) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = |line: &str| u64::from_str_radix(line.strip_prefix("SigIgn:")?.trim(), 16).ok();
    let ignored = status.lines().find_map(mask).unwrap_or(0);
    u32::try_from(signal - 1).is_ok_and(|bit| ignored.checked_shr(bit).unwrap_or(0) & 1 == 1)
}

/// Identifies the boot of the machine; the same in every container.
pub fn boot_id() -> Option<String> {
    let id = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(id.trim().to_owned()).filter(|id| !id.is_empty())
}

/// The PID namespace of this process, in which process ids are unique.
pub fn pid_namespace() -> Option<u64> {
    use std::os::unix::fs::MetadataExt as _;
    Some(fs::metadata("/proc/self/ns/pid").ok()?.ino())
}

/// The kernel's count of out-of-memory kills: in this process's control group if available, else on
/// the whole machine.
pub fn memory_kills() -> Option<u64> {
    let count = |text: &str| {
        text.lines().find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse().ok())
    };
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let unified = groups.lines().find_map(|line| line.strip_prefix("0::"));
    let unified = unified.map(|group| format!("/sys/fs/cgroup{group}/memory.events"));
    let first = groups.lines().find_map(|line| line.split_once(":memory:"));
    let first = first.map(|(_, group)| format!("/sys/fs/cgroup/memory{group}/memory.oom_control"));
    let mut files = unified.into_iter().chain(first).chain(["/proc/vmstat".to_owned()]);
    files.find_map(|file| count(&fs::read_to_string(file).ok()?))
}

/// Whether this signal is sent to end a process, rather than caused by the program itself.
pub fn is_sent_to_end(signal: i32) -> bool {
    [Signal::KILL, Signal::TERM].iter().any(|sent| sent.as_raw() == signal)
}

/// Whether a process that a signal ended was probably killed for lack of memory; `before` is
/// [`memory_kills`] when it began.
pub fn was_killed_for_memory(signal: i32, before: Option<u64>) -> bool {
    signal == Signal::KILL.as_raw()
        && before.zip(memory_kills()).is_some_and(|(before, now)| now > before)
}

/// This machine's name.
pub fn host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_alive_and_its_children_are_found() {
        let mine = std::process::id();
        let started = start_time(mine).unwrap();
        assert!(is_alive(mine, started));
        assert!(!is_alive(mine, started + 1));
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .env("HPSEARCH_TEST_MARK", "processes")
            .spawn()
            .unwrap();
        assert!(descendants(mine).contains(&child.id()));
        assert!(listed_children(mine).contains(&child.id()));
        assert!(snapshot()(mine).contains(&child.id()));
        // While a process executes a new program, it has no environment. It lives for a minute.
        let until = std::time::Instant::now() + std::time::Duration::from_secs(50);
        while !with_environment(&["HPSEARCH_TEST_MARK=processes".to_owned()]).contains(&child.id())
        {
            assert!(std::time::Instant::now() < until, "its environment is not found");
        }
        kill(child.id());
        child.wait().unwrap();
        assert!(start_time(child.id()).is_none());
    }
}
