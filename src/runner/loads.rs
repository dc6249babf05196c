//! Measures the load of devices and trials about once a second, for automatic concurrency.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use crate::engine::concurrency::{Load, TrialLoad};
use crate::runner::monitor::{Gpu, MachineSample, Memory, Monitor};
use crate::runner::processes;
use crate::study::device::Device;
use crate::study::event::{AttemptEvent, Event};
use crate::study::trial::TrialNumber;

/// Interval between measurements.
const PERIOD: Duration = Duration::from_millis(1000);

/// Measures devices.
pub struct Loads {
    monitor: Monitor,
    /// The device of each trial, and its process once known.
    trials: BTreeMap<TrialNumber, (Device, Option<u32>)>,
    looked: Instant,
}

impl Default for Loads {
    fn default() -> Self {
        let visible = std::env::var("CUDA_VISIBLE_DEVICES").ok();
        Loads {
            monitor: Monitor::new(visible.as_deref()),
            trials: BTreeMap::new(),
            looked: Instant::now(),
        }
    }
}

impl Loads {
    /// Tracks which trial runs on which device of this machine.
    pub(super) fn hear(&mut self, event: &Event) {
        let Some((trial, event)) = event.attempt_event() else { return };
        match event {
            AttemptEvent::Started { slot, .. } => self.started(trial, slot.devices.first()),
            AttemptEvent::Launched { pid, .. } => self.launched(trial, *pid),
            AttemptEvent::Ended { .. } => self.ended(trial),
            AttemptEvent::Reported { .. } | AttemptEvent::Remarked { .. } => {}
        }
    }

    /// A trial starts on a device. Agents measure theirs themselves.
    pub fn started(&mut self, trial: TrialNumber, device: &Device) {
        if device.agent().is_none() {
            self.trials.insert(trial, (device.clone(), None));
        }
    }

    /// Its process is known.
    pub fn launched(&mut self, trial: TrialNumber, pid: u32) {
        if let Some((_, process)) = self.trials.get_mut(&trial) {
            *process = Some(pid);
        }
    }

    /// It has left its device.
    pub fn ended(&mut self, trial: TrialNumber) {
        self.trials.remove(&trial);
    }

    /// The loads, if a measurement is due and something runs.
    pub fn look(&mut self) -> Option<Vec<Load>> {
        if self.looked.elapsed() < PERIOD || self.trials.is_empty() {
            return None;
        }
        self.looked = Instant::now();
        let roots: Vec<u32> = self.trials.values().filter_map(|(_, pid)| *pid).collect();
        let machine = self.monitor.sample(&roots);
        let mut loads: BTreeMap<&Device, Vec<TrialLoad>> = BTreeMap::new();
        for (trial, (device, pid)) in &self.trials {
            let tree = pid.and_then(|pid| machine.trees.get(&pid));
            let memory = match (gpu_of(device, &machine), pid) {
                (Some(gpu), Some(pid)) => {
                    held_for(gpu, &processes::descendants(*pid).into_iter().chain([*pid]).collect())
                }
                _ => tree
                    .filter(|_| !matches!(device, Device::Cuda(_) | Device::Wgpu(_)))
                    .map_or(0, |tree| tree.memory),
            };
            let (trial, cores) = (*trial, tree.and_then(|tree| tree.cores));
            loads.entry(device).or_default().push(TrialLoad { trial, memory, cores });
        }
        let group = self.monitor.memory_of_group();
        let measured = |(device, trials): (&Device, Vec<TrialLoad>)| {
            let Memory { used, total } = memory_of(device, &machine, group)?;
            let cores = match device {
                Device::Cpu | Device::Ndarray => {
                    u32::try_from(machine.cpu.cores).ok().filter(|cores| *cores > 0)
                }
                Device::Cuda(_) | Device::Wgpu(_) | Device::Sim(_) | Device::Remote(_) => None,
            };
            let exclusive = gpu_of(device, &machine).is_some_and(|gpu| gpu.exclusive);
            Some(Load { device: device.clone(), total, used, cores, exclusive, trials })
        };
        Some(loads.into_iter().filter_map(measured).collect())
    }
}

fn gpu_of<'a>(device: &Device, machine: &'a MachineSample) -> Option<&'a Gpu> {
    let Device::Cuda(index) = device else { return None };
    machine.gpus.iter().flatten().find(|gpu| gpu.cuda == Some(*index))
}

/// Memory of these processes on a GPU according to the driver, in bytes; 0 if unknown, or if the
/// driver's process ids differ, as in containers.
fn held_for(gpu: &Gpu, processes: &BTreeSet<u32>) -> u64 {
    gpu.processes
        .iter()
        .filter(|process| processes.contains(&process.pid))
        .filter_map(|process| process.memory)
        .sum()
}

/// The memory of a device; simulated ones are on the CPU.
fn memory_of(device: &Device, machine: &MachineSample, group: Option<Memory>) -> Option<Memory> {
    match device {
        Device::Cuda(_) => gpu_of(device, machine)?.memory,
        // Unknown here.
        Device::Wgpu(_) | Device::Remote(_) => None,
        Device::Cpu | Device::Ndarray | Device::Sim(_) => {
            Some(group.unwrap_or(machine.cpu.memory)).filter(|memory| memory.total > 0)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runner::fixtures;
    use crate::study::event::AttemptEnd;

    #[test]
    fn a_gpus_memory_is_a_trials_where_the_driver_names_its_processes() {
        use crate::runner::monitor::gpu::GpuProcess;
        let process = |pid: u32, memory: Option<u64>| GpuProcess { pid, memory };
        let seen = [(10, Some(5)), (11, Some(7)), (12, None), (99, Some(1000))];
        let processes = seen.map(|(pid, memory)| process(pid, memory)).to_vec();
        let gpu = Gpu { processes, ..Gpu::default() };
        assert_eq!(held_for(&gpu, &BTreeSet::from([10, 11, 12])), 12);
        let otherwise = held_for(&gpu, &BTreeSet::from([4, 5]));
        assert_eq!(otherwise, 0, "a container counts its processes otherwise");
    }

    #[test]
    fn a_trials_processes_are_found_from_its_start_to_its_end() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let mut loads = Loads::default();
        loads.hear(&fixtures::started());
        let (trial, attempt) = (fixtures::TRIAL, fixtures::ATTEMPT);
        loads.hear(&Event::of(
            trial,
            AttemptEvent::Launched { attempt, pid: child.id(), pid_started: 0 },
        ));
        assert_eq!(loads.look(), None, "it is not time yet");
        // A child that has just started has almost none.
        let patience = Instant::now() + Duration::from_secs(30);
        loop {
            loads.looked -= PERIOD;
            let seen = loads.look().unwrap();
            match &seen[..] {
                [Load { device: Device::Cpu, total, used, trials, .. }]
                    if used < total && trials[0].memory > 50_000 =>
                {
                    break;
                }
                _ => assert!(Instant::now() < patience, "{seen:?}"),
            }
            std::thread::sleep(PERIOD);
        }
        crate::runner::processes::kill(child.id());
        child.wait().unwrap();
        loads.hear(&fixtures::ended(AttemptEnd::Completed));
        loads.looked -= PERIOD;
        assert_eq!(loads.look(), None, "nothing runs");
    }
}
