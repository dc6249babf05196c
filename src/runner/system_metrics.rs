//! Resource usage of trials' processes as series, sampled on a thread so that the runner never
//! waits.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, unbounded};

use super::monitor::{Gpu, MachineSample, Monitor, TreeLoad};
use super::point_queue::PointQueue;
use super::threads;
use crate::study::device::{Device, DeviceGroup};
use crate::study::event::{AttemptEvent, Event};
use crate::study::metric::Metrics;
use crate::study::trial::{AttemptNumber, TrialNumber};

/// The handle of the thread, which ends when this is dropped.
#[derive(Debug)]
pub struct SystemMetrics {
    changes: Sender<Change>,
}

/// A change in running attempts.
#[derive(Debug)]
enum Change {
    /// `None`: all devices that its process sees.
    Started {
        trial: TrialNumber,
        attempt: AttemptNumber,
        devices: Option<DeviceGroup>,
    },
    Launched {
        trial: TrialNumber,
        pid: u32,
    },
    Ended {
        trial: TrialNumber,
    },
}

impl SystemMetrics {
    /// Starts the thread, which adds points to `points` every `period`.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub fn start(period: Duration, points: Arc<PointQueue>) -> io::Result<Self> {
        let (changes, there) = unbounded();
        let measuring = Measuring { period, points, trials: BTreeMap::new() };
        threads::spawn("system metrics", move || measuring.run(&there))?;
        Ok(SystemMetrics { changes })
    }

    /// Follows the process of a tracked run, which has no assigned device: all GPUs that it sees
    /// are measured.
    pub fn follow_run(&self, trial: TrialNumber, attempt: AttemptNumber, pid: u32) {
        self.change(Change::Started { trial, attempt, devices: None });
        self.launched(trial, pid);
    }

    /// Follows the attempts of a study on this machine.
    pub fn hear(&self, event: &Event) {
        let Some((trial, event)) = event.attempt_event() else { return };
        match event {
            // Measured by its agent.
            AttemptEvent::Started { slot, .. } if slot.devices.agent().is_some() => {}
            AttemptEvent::Started { attempt, slot, .. } => {
                self.started(trial, *attempt, &slot.devices);
            }
            AttemptEvent::Launched { pid, .. } => self.launched(trial, *pid),
            AttemptEvent::Ended { .. } => self.ended(trial),
            AttemptEvent::Reported { .. } | AttemptEvent::Remarked { .. } => {}
        }
    }

    /// An attempt starts on devices.
    pub fn started(&self, trial: TrialNumber, attempt: AttemptNumber, devices: &DeviceGroup) {
        self.change(Change::Started { trial, attempt, devices: Some(devices.clone()) });
    }

    /// The process of a trial is known.
    pub fn launched(&self, trial: TrialNumber, pid: u32) {
        self.change(Change::Launched { trial, pid });
    }

    /// The attempt of a trial has ended.
    pub fn ended(&self, trial: TrialNumber) {
        self.change(Change::Ended { trial });
    }

    fn change(&self, change: Change) {
        // If the thread is gone, nothing is measured: the study continues.
        let _gone = self.changes.send(change);
    }
}

/// The thread.
struct Measuring {
    period: Duration,
    points: Arc<PointQueue>,
    trials: BTreeMap<TrialNumber, Running>,
}

struct Running {
    attempt: AttemptNumber,
    devices: Option<DeviceGroup>,
    pid: Option<u32>,
}

impl Measuring {
    fn run(mut self, changes: &Receiver<Change>) {
        let visible = std::env::var("CUDA_VISIBLE_DEVICES").ok();
        // Created on the first measurement: querying drivers is slow.
        let mut monitor = None;
        let mut next = Instant::now() + self.period;
        loop {
            match changes.recv_timeout(next.saturating_duration_since(Instant::now())) {
                Ok(change) => self.follow(change),
                Err(RecvTimeoutError::Disconnected) => return,
                Err(RecvTimeoutError::Timeout) => {
                    next = Instant::now() + self.period;
                    let roots: Vec<u32> =
                        self.trials.values().filter_map(|running| running.pid).collect();
                    if !roots.is_empty() {
                        let monitor =
                            monitor.get_or_insert_with(|| Monitor::new(visible.as_deref()));
                        self.log(&monitor.sample(&roots));
                    }
                }
            }
        }
    }

    fn follow(&mut self, change: Change) {
        match change {
            Change::Started { trial, attempt, devices } => {
                self.trials.insert(trial, Running { attempt, devices, pid: None });
            }
            Change::Launched { trial, pid } => {
                if let Some(running) = self.trials.get_mut(&trial) {
                    running.pid = Some(pid);
                }
            }
            Change::Ended { trial } => drop(self.trials.remove(&trial)),
        }
    }

    fn log(&self, machine: &MachineSample) {
        for (trial, Running { attempt, devices, pid }) in &self.trials {
            let Some(load) = pid.and_then(|pid| machine.trees.get(&pid)) else { continue };
            let gpus: Vec<&Gpu> = machine.gpus.iter().flatten().collect();
            let gpus = match devices {
                Some(devices) => gpus_of(devices, &gpus),
                None => gpus.into_iter().filter_map(|gpu| Some((gpu.cuda?, gpu))).collect(),
            };
            self.points.measure(*trial, *attempt, measured(load, &gpus));
        }
    }
}

/// The GPUs of a trial with the indices that they have in its processes: from 0.
fn gpus_of<'a>(devices: &DeviceGroup, gpus: &[&'a Gpu]) -> Vec<(u32, &'a Gpu)> {
    let found = (0..).zip(devices.members()).filter_map(|(inside, device)| {
        let Device::Cuda(index) = device else { return None };
        let gpu = gpus.iter().find(|gpu| gpu.cuda == Some(*index))?;
        Some((inside, *gpu))
    });
    found.collect()
}

/// The usage of a trial and its GPUs, with the indices of its process.
#[expect(clippy::cast_precision_loss, reason = "bytes, exact up to 2^53")]
fn measured(load: &TreeLoad, gpus: &[(u32, &Gpu)]) -> Metrics {
    let own = [
        ("cpu".to_owned(), load.cores.map(|cores| cores * 100.0)),
        ("memory".to_owned(), Some(load.memory as f64)),
    ];
    let of_gpus = gpus.iter().flat_map(|(index, gpu)| {
        [
            ("load", gpu.utilisation.map(|share| share * 100.0)),
            ("memory", gpu.memory.map(|memory| memory.used as f64)),
            ("power", gpu.power),
            ("temperature", gpu.temperature.map(f64::from)),
        ]
        .map(|(name, value)| (format!("gpu{index}/{name}"), value))
    });
    let all = own.into_iter().chain(of_gpus);
    all.filter_map(|(name, value)| Some((format!("system/{name}"), value?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runner::clock::Clock;
    use crate::runner::fixtures::{self, ATTEMPT, TRIAL};
    use crate::runner::monitor::Memory;
    use crate::study::event::AttemptEnd;
    use crate::study::time::Timestamp;

    #[test]
    fn what_is_known_of_a_trial_is_measured_and_nothing_else() {
        let names = |metrics: &Metrics| metrics.0.keys().cloned().collect::<Vec<_>>().join(" ");
        let first = measured(&TreeLoad { cores: None, memory: 5, processes: 1 }, &[]);
        assert_eq!(names(&first), "system/memory", "no share of the processor in the first sample");
        let gpu = Gpu {
            utilisation: Some(0.5),
            memory: Some(Memory { used: 7, total: 9 }),
            power: Some(70.0),
            temperature: Some(60),
            ..Gpu::default()
        };
        let load = TreeLoad { cores: Some(1.5), memory: 5, processes: 2 };
        let all = measured(&load, &[(1, &gpu)]);
        assert_eq!((all.get("system/cpu"), all.get("system/gpu1/load")), (Some(150.0), Some(50.0)));
        assert_eq!(names(&all).split(' ').count(), 6);
    }

    #[test]
    fn the_gpus_of_a_group_are_measured_under_their_names_in_its_processes() {
        let gpus = [0, 1, 3].map(|index| Gpu { cuda: Some(index), ..Gpu::default() });
        let gpus: Vec<&Gpu> = gpus.iter().collect();
        let of = |text: &str| gpus_of(&text.parse().unwrap(), &gpus);
        assert_eq!(of("cuda:1+cuda:3"), [(0, gpus[1]), (1, gpus[2])]);
        assert_eq!(of("cuda:2+cuda:0"), [(1, gpus[0])], "unless the driver does not see it");
        assert_eq!(of("cpu+cpu"), []);
    }

    #[test]
    fn a_trial_is_measured_from_its_launch_to_its_end() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let points = Arc::new(PointQueue::default());
        let metrics = SystemMetrics::start(Duration::from_millis(20), Arc::clone(&points)).unwrap();
        metrics.hear(&fixtures::started());
        let launched = AttemptEvent::Launched { attempt: ATTEMPT, pid: child.id(), pid_started: 0 };
        metrics.hear(&Event::of(TRIAL, launched));
        let clock = Clock::start(Timestamp(0), None);
        let patience = Instant::now() + Duration::from_secs(30);
        let logged = loop {
            let logged = points.take(clock, |_| Ok::<_, ()>(Some(Timestamp(0)))).unwrap();
            if !logged.is_empty() {
                break logged;
            }
            assert!(Instant::now() < patience, "nothing is measured");
            std::thread::yield_now();
        };
        let memory = logged.iter().find(|series| series.metric == "system/memory").unwrap();
        assert!(memory.points[0].value > 10_000.0 && memory.points[0].step.is_some());
        metrics.hear(&fixtures::ended(AttemptEnd::Completed));
        crate::runner::processes::kill(child.id());
        child.wait().unwrap();
    }
}
