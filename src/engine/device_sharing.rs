//! Applies the decisions of [`Concurrency`] on devices with `trials_per_device = "auto"`: as
//! events, slots and pauses.

use std::collections::{BTreeMap, BTreeSet};

use super::attempt::RunningAttempt;
use super::concurrency::{Advice, Concurrency, Load, RunningTrial, Waiting};
use super::{Engine, Phase};
use crate::study::device::{Device, Slot};
use crate::study::event::{
    AttemptEnd, ConcurrencyChange, DeviceEvent, Event, MemoryUse, StateEvent,
};
use crate::study::metric::Score;
use crate::study::program::Program;
use crate::study::spec::{FailureCause, StudySpec};
use crate::study::time::Timestamp;
use crate::study::trial::{AttemptNumber, TrialNumber};

/// The devices with automatic concurrency: those of this machine, and those of agents once they
/// have come.
#[derive(Clone, Debug, Default)]
pub(super) struct DeviceSharing {
    devices: BTreeMap<Device, Concurrency>,
    /// What all of them have in common; `None`: the number of trials is fixed.
    rule: Option<Rule>,
    /// Devices of agents that were measured, or whose trials changed, since the last decision.
    changed: BTreeSet<Device>,
    /// Trials recorded as waiting for memory.
    waiting: BTreeSet<TrialNumber>,
    /// Trials asked to make room, and why.
    evicted: BTreeMap<TrialNumber, String>,
}

/// What trials need and may use.
#[derive(Clone, Copy, Debug)]
struct Rule {
    /// The memory limit of all trials on a device together.
    memory: Option<u64>,
    /// Threads on which each trial computes constantly on a CPU; `None` if trials may idle.
    threads: Option<u32>,
}

impl Rule {
    fn concurrency(self, device: &Device, since: Timestamp) -> Concurrency {
        let is_cpu = matches!(device.local(), Device::Cpu | Device::Ndarray);
        Concurrency::new(since).of_trials(self.memory, self.threads.filter(|_| is_cpu))
    }
}

impl DeviceSharing {
    pub fn new(spec: &StudySpec, slots: &[Slot]) -> Self {
        let trains = matches!(spec.program, Program::Trainer { .. });
        let threads = trains.then_some(spec.devices.cpu_threads);
        let rule = spec
            .devices
            .automatic_concurrency
            .then_some(Rule { memory: spec.devices.memory, threads });
        let mut sharing = DeviceSharing { rule, ..DeviceSharing::default() };
        slots.iter().for_each(|slot| sharing.share(slot.devices.first(), Timestamp::default()));
        sharing
    }

    /// Whether concurrency is automatic.
    pub fn is_automatic(&self) -> bool {
        self.rule.is_some()
    }

    fn share(&mut self, device: &Device, since: Timestamp) {
        if let Some(rule) = self.rule {
            let new = || rule.concurrency(device, since);
            self.devices.entry(device.clone()).or_insert_with(new);
        }
    }

    /// An agent offers this device: with the number of trials that was found there before.
    pub fn join(&mut self, device: &Device, now: Timestamp) {
        self.share(device, now);
        self.devices.entry(device.clone()).and_modify(|device| device.begin(now));
    }

    /// Applies an earlier decision from the journal.
    pub fn apply(&mut self, at: Timestamp, event: &Event) {
        let Event::Device(DeviceEvent::ConcurrencyChanged {
            device, slots, change, largest, ..
        }) = event
        else {
            return;
        };
        if device.agent().is_some() {
            self.share(device, at);
        }
        if let Some(concurrency) = self.devices.get_mut(device) {
            concurrency.apply(at, *slots, *change, *largest);
        }
    }

    /// Something on the device is to be decided about.
    fn touch(&mut self, device: &Device) {
        if device.agent().is_some() && !self.changed.contains(device) {
            self.changed.insert(device.clone());
        }
    }

    /// The devices to decide about: an agent's if it has changed, since there may be thousands.
    fn take_changed(&mut self) -> Vec<Device> {
        let here = self.devices.keys().filter(|device| device.agent().is_none()).cloned();
        here.chain(std::mem::take(&mut self.changed)).collect()
    }

    /// Number of concurrent trials on a device, if automatic.
    pub fn slots(&self, device: &Device) -> Option<usize> {
        let slots = self.devices.get(device)?.slots();
        Some(usize::try_from(slots).unwrap_or(usize::MAX))
    }

    /// The user now sets the number for this device.
    pub fn release(&mut self, device: &Device) {
        self.devices.remove(device);
    }

    /// The device memory of an attempt, if measured.
    pub fn memory_used(&self, device: &Device, peak: u64) -> Option<MemoryUse> {
        let room = self.devices.get(device)?.room()?;
        (peak > 0).then_some(MemoryUse { peak, room })
    }

    /// Why a trial was asked to make room, if it was.
    pub fn why_evicted(&self, trial: TrialNumber) -> Option<&String> {
        self.evicted.get(&trial)
    }
}

impl Engine {
    /// Indices of the slots on devices with automatic concurrency that accept no further trial.
    pub(super) fn saturated_slots(&self) -> BTreeSet<usize> {
        if !self.sharing.is_automatic() {
            return BTreeSet::new();
        }
        let mut running: BTreeMap<&Device, usize> = BTreeMap::new();
        for slot in self.slots.iter().filter(|slot| slot.running.is_some()) {
            *running.entry(slot.device()).or_default() += 1;
        }
        let is_saturated = |index: &usize| {
            let device = self.slots[*index].device();
            let running = running.get(device).copied().unwrap_or(0);
            self.sharing.slots(device).is_some_and(|slots| running >= slots)
        };
        (0..self.slots.len()).filter(is_saturated).collect()
    }

    fn count_on(&self, device: &Device) -> u32 {
        u32::try_from(self.slots.running_on(device).count()).unwrap_or(u32::MAX)
    }

    /// A run begins with the number of slots that the last one found.
    pub(super) fn begin_sharing(&mut self) {
        let before = self.slots.len();
        // Those of agents follow when their agents come.
        let here = self.sharing.devices.keys().filter(|device| device.agent().is_none());
        for device in here.cloned().collect::<Vec<_>>() {
            let now = self.now;
            self.sharing.devices.entry(device.clone()).and_modify(|device| device.begin(now));
            self.make_slots(&device);
        }
        if self.slots.len() > before {
            self.emit_slots();
        }
    }

    /// Adds slots up to the concurrency.
    fn make_slots(&mut self, device: &Device) {
        let wanted = self.sharing.slots(device).unwrap_or(0);
        for _ in self.slots.of_device(device).len()..wanted {
            self.slots.add(device.clone());
        }
    }

    pub(super) fn note_load(&mut self, loads: &[Load]) {
        for load in loads {
            let running = self.count_on(&load.device);
            self.sharing.touch(&load.device);
            let Some(concurrency) = self.sharing.devices.get_mut(&load.device) else { continue };
            for (trial, bytes) in concurrency.loaded(load, running, self.now) {
                if let Some(running) = self.slots.attempt_mut(trial) {
                    running.peak = running.peak.max(bytes);
                }
            }
        }
    }

    /// A CPU process knows its own peak better than measurements once a second; it does not know
    /// that of a GPU.
    pub(super) fn note_peak(&mut self, trial: TrialNumber, attempt: AttemptNumber, bytes: u64) {
        let Some(index) = self.slots.of_attempt(trial, attempt) else { return };
        let slot = &mut self.slots[index];
        let on_gpu = matches!(slot.device().local(), Device::Cuda(_) | Device::Wgpu(_));
        let shared = self.sharing.devices.get_mut(slot.device()).filter(|_| !on_gpu);
        if let Some((concurrency, running)) = shared.zip(slot.running.as_mut()) {
            concurrency.took(bytes);
            running.peak = running.peak.max(bytes);
        }
    }

    /// Whether a trial has to wait for memory on the device of a slot; recorded once.
    pub(super) fn waits_for_memory(&mut self, index: usize, number: TrialNumber) -> bool {
        let device = self.slots[index].device();
        let shared = self.sharing.devices.get(device).filter(|_| self.phase == Phase::Searching);
        let Some((concurrency, trial)) = shared.zip(self.state.trial(number)) else { return false };
        let Some(reason) = self.memory_estimate(trial).and_then(|memory| {
            let trials = self.trials_on(device);
            if trials.is_empty() {
                // Alone it may try, unless another device has room.
                return concurrency.excess(memory).filter(|_| self.has_room_elsewhere(memory));
            }
            concurrency.lack_of_memory(&trials, memory)
        }) else {
            self.sharing.waiting.remove(&number);
            return false;
        };
        let (until, reason) = (trial.until, format!("waits for memory of {device}: {reason}"));
        if self.sharing.waiting.insert(number) {
            self.emit(Event::of(number, StateEvent::Queued { until, reason }));
        }
        true
    }

    /// Whether a device in use has room for a trial with this memory estimate, at least alone.
    fn has_room_elsewhere(&self, memory: u64) -> bool {
        let open = (0..self.slots.len()).filter(|index| self.is_open(*index));
        open.filter_map(|index| self.sharing.devices.get(self.slots[index].device()))
            .any(|device| device.room().is_some() && device.excess(memory).is_none())
    }

    pub(super) fn note_report(&mut self, index: usize, trial: TrialNumber, step: u64) {
        let device = self.slots[index].device();
        let running = self.count_on(device);
        if let Some(concurrency) = self.sharing.devices.get_mut(device) {
            concurrency.reported(trial, step, running, self.now);
            self.sharing.touch(device);
        }
    }

    /// An attempt has left its slot: returns why it was asked to make room, if it was.
    pub(super) fn note_end(
        &mut self,
        index: usize,
        trial: TrialNumber,
        end: &AttemptEnd,
    ) -> Option<String> {
        let device = self.slots[index].device().clone();
        let (running, now) = (self.count_on(&device).saturating_add(1), self.now);
        self.sharing.touch(&device);
        if let Some(concurrency) = self.sharing.devices.get_mut(&device) {
            concurrency.ended(trial, running, now);
            if *end == AttemptEnd::Failed(FailureCause::Oom)
                && let Some(advice) = concurrency.out_of_memory(running, now)
            {
                self.follow(&device, advice);
            }
        }
        self.sharing.evicted.remove(&trial)
    }

    /// Applies changes of concurrency.
    pub(super) fn adjust_concurrency(&mut self) {
        if self.phase != Phase::Searching
            || self.state.paused.is_some()
            || !self.sharing.is_automatic()
        {
            return;
        }
        let devices = self.sharing.take_changed();
        if devices.is_empty() {
            return;
        }
        let waiting = match self.waits_for_a_slot() {
            true => Waiting::Trial(self.memory_estimate_of_next()),
            false => Waiting::Nothing,
        };
        for device in devices {
            if self.state.paused_devices.contains(&device) {
                continue;
            }
            let (trials, now) = (self.trials_on(&device), self.now);
            let concurrency = self.sharing.devices.get_mut(&device);
            if let Some(advice) = concurrency.and_then(|own| own.advise(&trials, waiting, now)) {
                self.follow(&device, advice);
            }
        }
    }

    /// The trials on a device; the best of them is never asked to leave.
    fn trials_on(&self, device: &Device) -> Vec<RunningTrial> {
        let scored = |running: &RunningAttempt| {
            let value = self.state.value_of(self.state.trial(running.trial)?)?;
            let score = Score::new(self.state.direction(), value);
            (!value.is_nan()).then_some((score, running.trial))
        };
        let best = self.slots.running_on(device).filter_map(scored).min().map(|(_, trial)| trial);
        let trial = |running: &RunningAttempt| RunningTrial {
            trial: running.trial,
            since: running.since,
            is_best: best == Some(running.trial),
            leaves: running.is_leaving(),
            memory: running.expected.map(|expected| expected.max(running.peak)),
        };
        self.slots.running_on(device).map(trial).collect()
    }

    fn follow(&mut self, device: &Device, advice: Advice) {
        let Advice { slots, change, leaves, reason } = advice;
        self.emit(Event::Device(DeviceEvent::ConcurrencyChanged {
            device: device.clone(),
            slots,
            change,
            trial: leaves,
            reason: reason.clone(),
            largest: self.sharing.devices.get(device).map_or(0, Concurrency::largest),
        }));
        if change != ConcurrencyChange::Saturated {
            self.make_slots(device);
            self.emit_slots();
        }
        if let Some(trial) = leaves
            && let Some(index) = self.slots.of_trial(trial)
        {
            self.sharing.evicted.insert(trial, reason);
            self.ask_to_pause(index);
        }
    }

    /// Records the slots: on devices with automatic concurrency, as many as are in use.
    pub(super) fn emit_slots(&mut self) {
        let slots = self.slots.in_use(|device| self.sharing.slots(device));
        self.emit(Event::Device(DeviceEvent::SlotsChanged { slots }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::conformance::small_study;
    use crate::study::metric::Direction;

    fn sharing(is_automatic: bool) -> DeviceSharing {
        let mut spec = small_study("s", Direction::Minimize);
        spec.devices.automatic_concurrency = is_automatic;
        DeviceSharing::new(&spec, &[Slot::on(0, Device::Cuda(0))])
    }

    fn changed(device: &Device, slots: u32) -> Event {
        Event::Device(DeviceEvent::ConcurrencyChanged {
            device: device.clone(),
            slots,
            change: ConcurrencyChange::Admitted,
            trial: None,
            reason: String::new(),
            largest: u64::from(slots),
        })
    }

    #[test]
    fn a_fixed_number_of_trials_is_nobodys_decision() {
        let mut sharing = sharing(false);
        assert!(!sharing.is_automatic());
        sharing.apply(Timestamp(0), &changed(&Device::Cuda(0), 3));
        assert_eq!(sharing.slots(&Device::Cuda(0)), None);
    }

    #[test]
    fn earlier_decisions_are_repeated_from_the_journal_until_the_user_decides() {
        let (mut sharing, device) = (sharing(true), Device::Cuda(0));
        assert_eq!(sharing.slots(&device), Some(1));
        sharing.apply(Timestamp(0), &changed(&device, 3));
        assert_eq!(sharing.slots(&device), Some(3));
        sharing.apply(Timestamp(0), &changed(&Device::Cuda(7), 3));
        assert_eq!(sharing.slots(&Device::Cuda(7)), None, "this machine has no such device");
        sharing.release(&device);
        assert_eq!(sharing.slots(&device), None);
    }

    #[test]
    fn only_devices_of_agents_that_changed_are_decided_about() {
        let mut sharing = sharing(true);
        let [here, there, other] =
            ["cuda:0", "a/cuda:0", "b/cuda:0"].map(|name| name.parse::<Device>().unwrap());
        [&there, &other].into_iter().for_each(|device| sharing.join(device, Timestamp(0)));
        sharing.touch(&there);
        sharing.touch(&there);
        assert_eq!(sharing.take_changed(), [here.clone(), there]);
        assert_eq!(sharing.take_changed(), [here]);
    }
}
