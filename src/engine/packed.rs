//! The places of devices that share themselves out: what [`Packing`] advises becomes events, and whoever makes room leaves.

use std::collections::{BTreeMap, BTreeSet};

use super::paces::Guest;
use super::packing::{Advice, Load, Packing, Waiting};
use super::{Engine, Phase};
use crate::study::device::{Device, Slot};
use crate::study::event::{AttemptEnd, Event, MemoryUse, PackingChange};
use crate::study::metric::Score;
use crate::study::spec::{FailureCause, Program, StudySpec};
use crate::study::time::Timestamp;
use crate::study::trial::{AttemptNumber, TrialNumber};

/// What the engine knows of devices that share themselves out.
#[derive(Clone, Debug, Default)]
pub(super) struct Packed {
    /// Those whose user did not say how many trials share them.
    devices: BTreeMap<Device, Packing>,
    /// Trials that were told to wait for memory.
    waiting: BTreeSet<TrialNumber>,
    /// Who is asked to make room, and why.
    evicted: BTreeMap<TrialNumber, String>,
}

impl Packed {
    /// Of a study whose devices share themselves out, or of none.
    pub fn new(spec: &StudySpec, slots: &[Slot]) -> Self {
        let trains = matches!(spec.program, Program::Trainer { .. });
        let packing = |device: &Device| {
            let packing = Packing::new(Timestamp::default()).within(spec.devices.memory);
            match device {
                Device::Cpu | Device::Ndarray if trains => {
                    packing.of_busy_trials(spec.devices.cpu_threads)
                }
                _ => packing,
            }
        };
        let packed = slots.iter().filter(|_| spec.devices.packed);
        let devices = packed.map(|slot| (slot.device.clone(), packing(&slot.device))).collect();
        Packed { devices, waiting: BTreeSet::new(), evicted: BTreeMap::new() }
    }

    /// Takes in what the journal says was decided.
    pub fn recall(&mut self, at: Timestamp, event: &Event) {
        if let Some((device, slots, change, largest)) = event.packing()
            && let Some(packing) = self.devices.get_mut(device)
        {
            packing.recall(at, slots, change, largest);
        }
    }

    /// Trials at a time on a device that shares itself out.
    pub fn slots(&self, device: &Device) -> Option<usize> {
        self.devices
            .get(device)
            .map(|packing| usize::try_from(packing.slots()).unwrap_or(usize::MAX))
    }

    /// From here on its user says how many trials share the device.
    pub fn release(&mut self, device: &Device) {
        self.devices.remove(device);
    }

    /// What an attempt took of the memory of a device that shares itself out, where it was seen.
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
    /// Whether a device that shares itself out takes no further trial.
    pub(super) fn is_full(&self, device: &Device) -> bool {
        self.packed.slots(device).is_some_and(|slots| self.busy_on(device) >= slots)
    }

    fn busy_on(&self, device: &Device) -> usize {
        (0..self.slots.len())
            .filter(|index| self.busy[*index].is_some() && self.slots[*index].device == *device)
            .count()
    }

    fn running_on(&self, device: &Device) -> u32 {
        u32::try_from(self.busy_on(device)).unwrap_or(u32::MAX)
    }

    /// A run begins with as many places as the last one found to be good.
    pub(super) fn begin_packing(&mut self) {
        let now = self.now;
        self.packed.devices.values_mut().for_each(|packing| packing.begin(now));
        let devices: Vec<Device> = self.packed.devices.keys().cloned().collect();
        let before = self.slots.len();
        devices.iter().for_each(|device| self.make_places(device));
        if self.slots.len() > before {
            self.tell_slots();
        }
    }

    /// As many places as are wanted at a time.
    fn make_places(&mut self, device: &Device) {
        let wanted = self.packed.slots(device).unwrap_or(0);
        for _ in self.of_device(device).len()..wanted {
            self.add_place(device);
        }
    }

    pub(super) fn note_load(&mut self, loads: &[Load]) {
        for load in loads {
            let (running, now) = (self.running_on(&load.device), self.now);
            let Some(packing) = self.packed.devices.get_mut(&load.device) else { continue };
            for (trial, bytes) in packing.loaded(load, running, now) {
                if let Some(busy) = self.busy.iter_mut().flatten().find(|busy| busy.trial == trial)
                {
                    busy.peak = busy.peak.max(bytes);
                }
            }
        }
    }

    /// A process knows its own memory better than who looks once a second; of a GPU's it knows nothing.
    pub(super) fn note_peak(&mut self, trial: TrialNumber, attempt: AttemptNumber, bytes: u64) {
        let Some(index) = self.slot_of(trial, attempt) else { return };
        let device = &self.slots[index].device;
        if let (false, Some(packing)) = (
            matches!(device, Device::Cuda(_) | Device::Wgpu(_)),
            self.packed.devices.get_mut(device),
        ) {
            packing.took(bytes);
            if let Some(busy) = &mut self.busy[index] {
                busy.peak = busy.peak.max(bytes);
            }
        }
    }

    /// Whether a trial has to wait until others on the device of a slot have left, for want of memory; said once.
    pub(super) fn waits_for_memory(&mut self, index: usize, number: TrialNumber) -> bool {
        let device = &self.slots[index].device;
        let Some(packing) =
            self.packed.devices.get(device).filter(|_| self.phase == Phase::Searching)
        else {
            return false;
        };
        let Some(trial) = self.view.trial(number) else { return false };
        let Some(reason) = self
            .needs_of(trial)
            .and_then(|needs| packing.lack_of_memory(&self.guests(device), needs))
        else {
            self.packed.waiting.remove(&number);
            return false;
        };
        let (until, reason) = (trial.until, format!("waits for memory of {device}: {reason}"));
        if self.packed.waiting.insert(number) {
            self.emit(Event::TrialQueued { trial: number, until, reason });
        }
        true
    }

    pub(super) fn note_report(&mut self, index: usize, trial: TrialNumber, step: u64) {
        let device = self.slots[index].device.clone();
        let (running, now) = (self.running_on(&device), self.now);
        if let Some(packing) = self.packed.devices.get_mut(&device) {
            packing.reported(trial, step, running, now);
        }
    }

    /// An attempt has left its place, which is empty already: why it was asked to make room, if it was.
    pub(super) fn note_end(
        &mut self,
        index: usize,
        trial: TrialNumber,
        end: &AttemptEnd,
    ) -> Option<String> {
        let device = self.slots[index].device.clone();
        let (running, now) = (self.running_on(&device).saturating_add(1), self.now);
        let advice = self.packed.devices.get_mut(&device).and_then(|packing| {
            packing.ended(trial, running, now);
            if *end == AttemptEnd::Failed(FailureCause::Oom) {
                packing.starved(running, now)
            } else {
                None
            }
        });
        if let Some(advice) = advice {
            self.repack(&device, advice);
        }
        self.packed.evicted.remove(&trial)
    }

    /// Changes how many trials share devices, where that is advised.
    pub(super) fn pack(&mut self) {
        if self.phase != Phase::Searching
            || self.view.paused.is_some()
            || self.packed.devices.is_empty()
        {
            return;
        }
        let waiting = if self.waits_for_a_place() {
            Waiting::Somebody(self.needs_of_next())
        } else {
            Waiting::Nobody
        };
        for device in self.packed.devices.keys().cloned().collect::<Vec<_>>() {
            if self.view.paused_devices.contains(&device) {
                continue;
            }
            let (guests, now) = (self.guests(&device), self.now);
            let advice = self
                .packed
                .devices
                .get_mut(&device)
                .and_then(|packing| packing.advise(&guests, waiting, now));
            if let Some(advice) = advice {
                self.repack(&device, advice);
            }
        }
    }

    /// Who is on a device; the best of those that run there, or of the study, is never asked to leave.
    fn guests(&self, device: &Device) -> Vec<Guest> {
        let on_it = |index: &usize| self.slots[*index].device == *device;
        let busy =
            || (0..self.slots.len()).filter(on_it).filter_map(|index| self.busy[index].as_ref());
        let value = |number: TrialNumber| {
            self.view
                .trial(number)
                .and_then(|trial| self.view.value_of(trial))
                .filter(|value| !value.is_nan())
        };
        let direction = self.view.direction();
        let best = busy()
            .filter_map(|busy| Some((Score::new(direction, value(busy.trial)?), busy.trial)))
            .min()
            .map(|(_, trial)| trial);
        busy()
            .map(|busy| Guest {
                trial: busy.trial,
                since: busy.since,
                is_best: best == Some(busy.trial),
                leaves: busy.leaving.is_some() || busy.pause_by.is_some(),
                needs: busy.expected.map(|expected| expected.max(busy.peak)),
            })
            .collect()
    }

    fn repack(&mut self, device: &Device, advice: Advice) {
        let Advice { slots, change, leaves, reason } = advice;
        let largest = self.packed.devices.get(device).map_or(0, Packing::largest);
        self.emit(Event::Packed {
            device: device.clone(),
            slots,
            change,
            trial: leaves,
            reason: reason.clone(),
            largest,
        });
        if change != PackingChange::Full {
            self.make_places(device);
            self.tell_slots();
        }
        if let Some(trial) = leaves
            && let Some(index) = self.index_of(trial)
        {
            self.packed.evicted.insert(trial, reason);
            self.ask_to_pause(index);
        }
    }
}
