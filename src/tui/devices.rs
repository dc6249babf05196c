//! The devices that a study runs on: how busy they are, which trials are on their slots, and how
//! fast they get on.

mod drawing;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::time::Duration;

use crate::report::journal::concurrency;
use crate::runner::monitor::{Gpu, MachineSample, Monitor, TreeLoad};
use crate::storage::{StorageError, StorageReader, StudyId, StudySummary};
use crate::study::device::{Device, DeviceGroup};
use crate::study::event::{AgentChange, DeviceEvent, Event, RunnerEvent, Seq};
use crate::study::query::{Filter, SortKey, TrialQuery};
use crate::study::step::StepUnit;
use crate::study::time::Timestamp;
use crate::study::trial::{Trial, TrialNumber, TrialState};
pub use drawing::draw;

/// A trial on a slot.
#[derive(Clone, Debug, PartialEq)]
pub struct OccupiedSlot {
    /// The slot's position among all of the run.
    pub slot: usize,
    /// Number of the trial.
    pub trial: TrialNumber,
    /// Its last report's step.
    pub step: Option<u64>,
    /// Since when its attempt runs.
    pub running: Duration,
    /// What its processes take.
    pub tree: Option<TreeLoad>,
    /// The devices of the slot, several if the trial has a group.
    pub devices: DeviceGroup,
}

/// What a study has done on a device lately.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Throughput {
    /// Finished trials an hour.
    pub trials_per_hour: f64,
    /// Steps a second.
    pub steps_per_second: f64,
}

/// One device and what the study does on it.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceLoad {
    /// Its name: `cpu`, `cuda:0`.
    pub device: Device,
    /// Its running trials, by slot.
    pub occupied: Vec<OccupiedSlot>,
    /// How fast trials get on there; `None` before the first report.
    pub throughput: Option<Throughput>,
    /// How busy it was, from 0 to 1, oldest first.
    pub busy: Vec<f64>,
    /// Whether its user paused it: nothing is started there.
    pub paused: bool,
    /// How many trials share it, and why, where that was measured.
    pub shared: Option<String>,
}

/// Another machine that runs trials of the study, or did in this run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentSeen {
    /// What the journal says last of it.
    pub change: AgentChange,
    /// The time of that journal entry.
    pub at: Timestamp,
}

/// What the journal says of devices.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct JournalOfDevices {
    /// How many trials share a device, and why.
    shared: BTreeMap<Device, String>,
    /// Agents, by their names.
    pub agents: BTreeMap<String, AgentSeen>,
    /// Up to where it was read.
    heard: Seq,
}

/// All devices at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct DevicesData {
    /// What the machine says.
    pub machine: MachineSample,
    /// The processor, the GPUs, and whatever else the study runs on.
    pub devices: Vec<DeviceLoad>,
    /// The unit of steps.
    pub step_unit: StepUnit,
    /// What the journal says of devices.
    pub journal: JournalOfDevices,
    /// When this was looked at.
    pub now: Timestamp,
}

/// So many of the trials that began last tell the throughput.
const LATEST: u64 = 200;
/// No older trial tells it.
const WINDOW: Duration = Duration::from_secs(3_600);
/// So many samples of how busy a device was are kept.
const SAMPLES: usize = 120;

impl DevicesData {
    /// Looks at the machine and at the study's latest trials; `before` is the last look, whose
    /// samples are carried on.
    pub fn load(
        reader: &dyn StorageReader,
        study: &StudySummary,
        monitor: &mut Monitor,
        now: Timestamp,
        before: Option<&DevicesData>,
    ) -> Result<DevicesData, StorageError> {
        let StudySummary { id: study, spec, paused_devices, .. } = study;
        let study = *study;
        let running = Filter::parse("state:running", spec).unwrap_or_default();
        let running = reader.trials(study, &TrialQuery::all(SortKey::Number).filtered(running))?;
        let latest = TrialQuery::all(SortKey::Started).reversed(true).page(0, LATEST);
        let latest = reader.trials(study, &latest)?;
        let mut occupied = Vec::new();
        let mut roots = Vec::new();
        for trial in &running {
            let attempts = reader.attempts(study, Some(trial.number))?;
            let Some(attempt) = attempts.last() else { continue };
            // Numbers of processes on other machines mean nothing here.
            let is_here = attempt.slot.devices.agent().is_none();
            let pid = attempt.process.filter(|_| is_here).map(|(pid, _)| pid);
            roots.extend(pid);
            occupied.push((attempt.slot.clone(), trial, pid));
        }
        let machine = monitor.sample(&roots);
        let mut devices: BTreeMap<Device, Vec<OccupiedSlot>> =
            known(&machine).into_iter().map(|device| (device, Vec::new())).collect();
        for (slot, trial, pid) in occupied {
            let tree = pid.and_then(|pid| machine.trees.get(&pid)).copied();
            let running = trial.started.map_or(Duration::ZERO, |started| now.since(started));
            let occupied = OccupiedSlot {
                slot: slot.index,
                trial: trial.number,
                step: trial.last().map(|(step, _)| step),
                running,
                tree,
                devices: slot.devices.clone(),
            };
            for device in slot.devices.distinct() {
                devices.entry(device.clone()).or_default().push(occupied.clone());
            }
        }
        let used = latest.iter().filter_map(|trial| trial.devices.as_ref());
        for device in used.flat_map(DeviceGroup::members).chain(paused_devices) {
            devices.entry(device.clone()).or_default();
        }
        let mut journal = before.map(|before| before.journal.clone()).unwrap_or_default();
        if spec.devices.automatic_concurrency || spec.cluster.is_some() {
            journal.read(reader, study)?;
        }
        let devices = devices.into_iter().map(|(device, mut occupied)| {
            occupied.sort_by_key(|slot| slot.slot);
            let known = before.iter().flat_map(|before| &before.devices);
            let known = known.into_iter().find(|load| load.device == device);
            let mut busy = known.map_or_else(Vec::new, |load| load.busy.clone());
            // The same sample twice, looked at twice within a second, is one sample.
            let same = before.is_some_and(|before| before.machine == machine);
            busy.extend(utilisation(&device, &machine).filter(|_| !same));
            busy.drain(..busy.len().saturating_sub(SAMPLES));
            DeviceLoad {
                throughput: throughput(&latest, &device, now),
                paused: paused_devices.contains(&device),
                shared: journal.shared.get(&device).cloned(),
                device,
                occupied,
                busy,
            }
        });
        let devices = devices.collect();
        Ok(DevicesData { devices, machine, step_unit: spec.step, journal, now })
    }

    /// Those that the study runs on or was paused on, the busy ones first.
    pub fn of_the_study(&self) -> Vec<Device> {
        let is_used = |load: &&DeviceLoad| {
            !load.occupied.is_empty() || load.paused || load.throughput.is_some()
        };
        let mut used: Vec<&DeviceLoad> = self.devices.iter().filter(is_used).collect();
        used.sort_by_key(|load| load.occupied.is_empty());
        used.into_iter().map(|load| load.device.clone()).collect()
    }
}

impl JournalOfDevices {
    /// Reads on.
    fn read(&mut self, reader: &dyn StorageReader, study: StudyId) -> Result<(), StorageError> {
        loop {
            let page = reader.events_after(study, self.heard, 10_000)?;
            let Some((last, ..)) = page.last() else { return Ok(()) };
            self.heard = *last;
            for (_, at, event) in page {
                match event {
                    Event::Device(DeviceEvent::ConcurrencyChanged {
                        device,
                        slots,
                        reason,
                        ..
                    }) => {
                        let shared = concurrency(slots, None, &reason);
                        self.shared.insert(device, shared);
                    }
                    Event::Device(DeviceEvent::AgentChanged { agent, change }) => {
                        self.agents.insert(agent, AgentSeen { change, at });
                    }
                    // They come again, or are gone.
                    Event::Runner(RunnerEvent::Started { .. }) => self.agents.clear(),
                    _ => {}
                }
            }
        }
    }
}

/// The devices that the machine has for a study.
fn known(machine: &MachineSample) -> Vec<Device> {
    let gpus = machine.gpus.iter().flatten().filter_map(|gpu| gpu.cuda);
    std::iter::once(Device::Cpu).chain(gpus.map(Device::Cuda)).collect()
}

fn gpu<'a>(device: &Device, machine: &'a MachineSample) -> Option<&'a Gpu> {
    let Device::Cuda(index) = device else { return None };
    machine.gpus.iter().flatten().find(|gpu| gpu.cuda == Some(*index))
}

fn utilisation(device: &Device, machine: &MachineSample) -> Option<f64> {
    match device {
        Device::Cpu | Device::Ndarray => machine.cpu.utilisation,
        Device::Cuda(_) => gpu(device, machine)?.utilisation,
        Device::Wgpu(_) | Device::Sim(_) | Device::Remote(_) => None,
    }
}

/// What the trials that began last have reported and finished on a device, over the time since the
/// first of them began.
#[expect(clippy::cast_precision_loss, reason = "steps and counts")]
fn throughput(latest: &[Trial], device: &Device, now: Timestamp) -> Option<Throughput> {
    let recent = |at: Timestamp| now.since(at) <= WINDOW;
    // A resumed trial's steps were not all taken now.
    let is_taken = |trial: &&Trial| {
        trial.devices.as_ref().is_some_and(|devices| devices.contains(device))
            && trial.attempts == 1
            && trial.started.is_some_and(recent)
    };
    let taken: Vec<&Trial> = latest.iter().filter(is_taken).collect();
    let begin = taken.iter().filter_map(|trial| trial.started).min()?;
    // The throughput of a study that has ended is what it was, not what it sinks to.
    let end = if taken.iter().any(|trial| trial.state == TrialState::Running) {
        now
    } else {
        taken.iter().filter_map(|trial| trial.finished).max()?
    };
    let seconds = end.since(begin).as_secs_f64();
    let steps = taken.iter().filter_map(|trial| trial.last()).map(|(step, _)| step);
    let steps = steps.fold(0_u64, u64::saturating_add);
    let finished = taken.iter().filter(|trial| trial.finished.is_some()).count();
    (seconds > 0.0 && steps > 0).then(|| Throughput {
        trials_per_hour: finished as f64 * 3_600.0 / seconds,
        steps_per_second: steps as f64 / seconds,
    })
}
