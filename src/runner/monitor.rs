//! Measures this machine: CPU, memory, GPUs, and the trials' process trees.

pub mod gpu;
#[cfg_attr(not(feature = "nvml"), path = "monitor/no_nvml.rs")]
mod nvml;
pub mod visible;

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use sysinfo::{
    CpuRefreshKind, MemoryRefreshKind, Pid, ProcessRefreshKind, ProcessesToUpdate, RefreshKind,
    System,
};

pub use gpu::{Gpu, NoGpus};
use nvml::Gpus;

/// Memory in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// Bytes in use.
    pub used: u64,
    /// Bytes in total.
    pub total: u64,
}

/// The CPU and the machine's memory.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cpu {
    /// Its model; empty if unknown.
    pub name: String,
    /// Cores that this process may use.
    pub cores: usize,
    /// Utilisation since the last sample, from 0 to 1; `None` in the first one.
    pub utilisation: Option<f64>,
    /// The machine's memory.
    pub memory: Memory,
}

/// The load of a process tree.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TreeLoad {
    /// Cores in use, such as 1.5. `None` in the first sample.
    pub cores: Option<f64>,
    /// Resident memory in bytes; shared memory counts for each process.
    pub memory: u64,
    /// Number of processes.
    pub processes: usize,
}

/// A sample of the machine.
#[derive(Clone, Debug, PartialEq)]
pub struct MachineSample {
    /// The CPU.
    pub cpu: Cpu,
    /// Its NVIDIA GPUs in the driver's order, or why there are none to list.
    pub gpus: Result<Vec<Gpu>, NoGpus>,
    /// The requested process trees by root; those whose root is gone are missing.
    pub trees: BTreeMap<u32, TreeLoad>,
}

/// Minimum age of a sample: earlier calls return the last one.
const REST: Duration = Duration::from_secs(1);

/// Samples the machine on demand, at most once a second.
pub struct Monitor {
    system: Option<System>,
    gpus: Result<Gpus, NoGpus>,
    last: Option<(Instant, MachineSample)>,
}

impl Monitor {
    /// `visible_devices` is the value of CUDA_VISIBLE_DEVICES.
    pub fn new(visible_devices: Option<&str>) -> Self {
        Monitor { system: System::new().ok(), gpus: Gpus::find(visible_devices), last: None }
    }

    /// Samples the machine and the process trees of `roots`; within a second returns the last
    /// sample.
    pub fn sample(&mut self, roots: &[u32]) -> MachineSample {
        if let Some((_, machine)) = self.last.as_ref().filter(|(at, _)| at.elapsed() < REST) {
            return machine.clone();
        }
        let first = self.last.is_none();
        let machine = MachineSample {
            cpu: self.system.as_mut().map(|own| cpu(own, first)).unwrap_or_default(),
            gpus: self.gpus.as_ref().map(Gpus::sample).map_err(Clone::clone),
            trees: self.system.as_mut().map(|system| trees(system, roots)).unwrap_or_default(),
        };
        self.last = Some((Instant::now(), machine.clone()));
        machine
    }

    /// The memory limit of this process's control group, if it is below the machine's memory.
    pub fn memory_of_group(&self) -> Option<Memory> {
        let system = self.system.as_ref()?;
        let limits = system.cgroup_limits()?;
        let (total, free) = (limits.total_memory, limits.free_memory);
        let is_limited = total > 0 && total < system.total_memory();
        is_limited.then_some(Memory { used: total.saturating_sub(free), total })
    }
}

/// The NVIDIA GPUs, or why there are none to list.
pub fn gpus(visible_devices: Option<&str>) -> Result<Vec<Gpu>, NoGpus> {
    Gpus::find(visible_devices).map(|gpus| gpus.sample())
}

/// A sample without process trees and utilisation.
pub fn glance(visible_devices: Option<&str>) -> MachineSample {
    Monitor::new(visible_devices).sample(&[])
}

fn cpu(system: &mut System, first: bool) -> Cpu {
    system.refresh_specifics(
        RefreshKind::nothing()
            .with_cpu(CpuRefreshKind::nothing().with_usage())
            .with_memory(MemoryRefreshKind::nothing().with_ram()),
    );
    Cpu {
        name: system.cpus().first().map_or_else(String::new, |cpu| cpu.brand().trim().to_owned()),
        cores: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
        utilisation: (!first).then(|| f64::from(system.global_cpu_usage()) / 100.0),
        memory: Memory { used: system.used_memory(), total: system.total_memory() },
    }
}

fn trees(system: &mut System, roots: &[u32]) -> BTreeMap<u32, TreeLoad> {
    if roots.is_empty() {
        return BTreeMap::new();
    }
    let known: BTreeSet<Pid> = system.processes().keys().copied().collect();
    system.refresh_processes_specifics(
        ProcessesToUpdate::All,
        true,
        ProcessRefreshKind::nothing().with_cpu().with_memory().without_tasks(),
    );
    // The id of a dead parent may have been reused: a parent is at least as old as its child.
    let parent_of = |process: &sysinfo::Process| {
        let parent = process.parent()?;
        let is_older = system.process(parent)?.start_time() <= process.start_time();
        is_older.then_some(parent.as_u32())
    };
    let parents: BTreeMap<u32, u32> = system
        .processes()
        .iter()
        .filter_map(|(pid, process)| Some((pid.as_u32(), parent_of(process)?)))
        .collect();
    let load = |root: u32| {
        let processes =
            tree(root, &parents).into_iter().filter_map(|pid| system.process(Pid::from_u32(pid)));
        processes.fold(TreeLoad::default(), |load, process| TreeLoad {
            // The first sample of a process has no CPU utilisation yet.
            cores: if known.contains(&process.pid()) {
                Some(load.cores.unwrap_or(0.0) + f64::from(process.cpu_usage()) / 100.0)
            } else {
                load.cores
            },
            memory: load.memory + process.memory(),
            processes: load.processes + 1,
        })
    };
    roots
        .iter()
        .filter(|root| system.process(Pid::from_u32(**root)).is_some())
        .map(|root| (*root, load(*root)))
        .collect()
}

/// `root` and its descendants, except this process, which may be below the program whose run it
/// writes.
fn tree(root: u32, parents: &BTreeMap<u32, u32>) -> Vec<u32> {
    let own = std::process::id();
    let is_below = |pid: u32| {
        // The process list may change while it is read: apparent cycles end here.
        std::iter::successors(Some(pid), |pid| parents.get(pid).copied())
            .take(parents.len() + 1)
            .any(|pid| pid == root)
    };
    std::iter::once(root)
        .chain(parents.keys().copied().filter(|pid| *pid != root && *pid != own && is_below(*pid)))
        .collect()
}

/// A number of bytes in GiB with one decimal.
#[expect(clippy::cast_precision_loss, reason = "shown with one decimal")]
pub fn gibibytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 30)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runner::processes;
    use std::process::Command;

    #[test]
    fn a_tree_is_its_root_and_everything_below() {
        let parents = BTreeMap::from([(2, 1), (3, 2), (4, 3), (5, 1), (6, 7), (7, 6)]);
        assert_eq!(tree(2, &parents), [2, 3, 4]);
        assert_eq!(tree(9, &parents), [9]);
        assert_eq!(tree(6, &parents), [6, 7]);
    }

    #[test]
    fn the_tree_of_a_trial_holds_what_its_command_starts() {
        let mut child = Command::new("sh").args(["-c", "sleep 60 & wait"]).spawn().unwrap();
        let mut monitor = Monitor::new(None);
        let patience = Instant::now() + Duration::from_secs(30);
        let load = loop {
            let machine = monitor.sample(&[child.id(), u32::MAX]);
            assert!(!machine.trees.contains_key(&u32::MAX), "there is no such process");
            match machine.trees.get(&child.id()) {
                Some(load) if load.processes == 2 => break *load,
                _ => assert!(Instant::now() < patience, "{machine:?}"),
            }
            monitor.last = None;
        };
        assert!(load.memory > 100_000, "two processes take some memory: {load:?}");
        processes::descendants(child.id()).into_iter().for_each(processes::kill);
        processes::kill(child.id());
        child.wait().unwrap();
    }

    #[test]
    fn the_machine_has_cores_and_memory_and_is_looked_at_once_a_second() {
        let mut monitor = Monitor::new(None);
        let first = monitor.sample(&[]);
        let Cpu { cores, utilisation, memory, .. } = first.cpu;
        assert!(cores > 0 && memory.total > memory.used);
        assert_eq!((utilisation, first.trees.len()), (None, 0));
        // Within a second nothing is sampled: the tree of this process would be there otherwise.
        assert_eq!(monitor.sample(&[std::process::id()]), first);
        monitor.last.as_mut().unwrap().0 -= REST;
        let second = monitor.sample(&[std::process::id()]);
        assert!(second.cpu.utilisation.is_some_and(|share| (0.0..=1.0).contains(&share)));
        assert!(second.trees.contains_key(&std::process::id()));
    }
}
