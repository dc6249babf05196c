//! The slots of a run: devices are paused and resumed, and slots come and go, while the study runs.

use std::collections::BTreeMap;

use super::control::{Served, refused};
use super::{Effect, Engine, Phase};
use crate::study::device::{Device, Slot};
use crate::study::event::Event;
use crate::study::spec::MOST_SLOTS;

/// What the engine knows of one slot besides what is on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Place {
    /// Its user took it away.
    pub closed: bool,
    /// Something ran on it, and its worker may still hold memory.
    pub warm: bool,
}

impl Engine {
    /// Whether something may be started on a slot.
    pub(super) fn is_open(&self, index: usize) -> bool {
        !self.places[index].closed && !self.view.paused_devices.contains(&self.slots[index].device)
    }

    /// Whether all slots are paused or taken away.
    pub(super) fn is_without_place(&self) -> bool {
        (0..self.slots.len()).all(|index| !self.is_open(index))
    }

    /// Whether something waits for a slot, or would be started on one.
    pub(super) fn waits_for_a_place(&self) -> bool {
        !self.queue.is_empty()
            || !self.goal_reached
                && (self.view.counts.paused > 0 || self.may_create() && !self.exhausted)
    }

    pub(super) fn pause_device(&mut self, device: &Device) -> Served {
        if self.phase != Phase::Waiting && self.of_device(device).is_empty() {
            return Err(refused(
                format!("the study does not run on {device}"),
                format!("its slots are on {}", self.devices()),
            ));
        }
        if self.view.paused_devices.contains(device) {
            return Ok(format!("{device} was paused already"));
        }
        self.emit(Event::DevicePaused { device: device.clone() });
        let busy: Vec<usize> = self
            .of_device(device)
            .into_iter()
            .filter(|index| self.busy[*index].is_some())
            .collect();
        busy.iter().for_each(|index| self.ask_to_pause(*index));
        Ok(match busy.len() {
            0 => format!("nothing is started on {device} until it is resumed"),
            1 => format!(
                "the trial on {device} saves, leaves and waits for another slot; nothing is started there until it is resumed"
            ),
            trials => format!(
                "the {trials} trials on {device} save, leave and wait for other slots; nothing is started there until it is resumed"
            ),
        })
    }

    pub(super) fn resume_device(&mut self, device: &Device, slots: Option<u32>) -> Served {
        let was_paused = self.view.paused_devices.contains(device);
        if slots == Some(0) {
            return Err(refused(
                "no slot is no place to run",
                format!("`hpsearch pause --device {device}` pauses it"),
            ));
        }
        if slots.is_some_and(|slots| slots > MOST_SLOTS) {
            return Err(refused(
                format!("a device has at most {MOST_SLOTS} slots"),
                "say fewer with --slots",
            ));
        }
        if self.phase == Phase::Waiting && slots.is_some() {
            return Err(refused(
                "nobody runs the study",
                "`[devices]` of its file says how many slots the next run has",
            ));
        }
        if self.phase != Phase::Waiting && slots.is_none() && self.of_device(device).is_empty() {
            return Err(refused(
                format!("the study does not run on {device}"),
                "say how many slots it shall have there with --slots",
            ));
        }
        if was_paused {
            self.emit(Event::DeviceResumed { device: device.clone() });
        }
        if let Some(slots) = slots {
            self.packed.release(device);
            self.set_slots(device, usize::try_from(slots).unwrap_or(usize::MAX));
        }
        for index in self.of_device(device) {
            if self.busy[index].as_ref().is_some_and(|busy| self.hold_of(busy.trial).is_none()) {
                self.withdraw(index);
            }
        }
        let places = self.of_device(device).len();
        Ok(match (was_paused, slots, places) {
            (false, None, _) => format!("{device} was not paused"),
            (_, _, 0) => format!("{device} is used again when the study is run"),
            (_, _, 1) => format!("{device} is used, for one trial at a time"),
            (_, _, places) => format!("{device} is used, for {places} trials at a time"),
        })
    }

    /// Slots of the device that were not taken away.
    pub(super) fn of_device(&self, device: &Device) -> Vec<usize> {
        (0..self.slots.len())
            .filter(|index| !self.places[*index].closed && self.slots[*index].device == *device)
            .collect()
    }

    fn devices(&self) -> String {
        let mut names: Vec<String> = (0..self.slots.len())
            .filter(|index| !self.places[*index].closed)
            .map(|index| self.slots[index].device.to_string())
            .collect();
        names.sort();
        names.dedup();
        names.join(", ")
    }

    fn set_slots(&mut self, device: &Device, wanted: usize) {
        let mut there = self.of_device(device);
        if there.len() == wanted {
            return;
        }
        // What is idle goes first, so that as few trials as possible move.
        there.sort_by_key(|index| (self.busy[*index].is_none(), *index));
        for index in there.drain(wanted.min(there.len())..).collect::<Vec<_>>() {
            self.places[index].closed = true;
            self.ask_to_pause(index);
        }
        let mut missing = wanted - there.len();
        for index in 0..self.slots.len() {
            if missing > 0 && self.places[index].closed && self.slots[index].device == *device {
                self.places[index].closed = false;
                missing -= 1;
            }
        }
        (0..missing).for_each(|_| self.add_place(device));
        self.tell_slots();
    }

    pub(super) fn add_place(&mut self, device: &Device) {
        self.slots.push(Slot { index: self.slots.len(), device: device.clone() });
        self.busy.push(None);
        self.places.push(Place::default());
    }

    /// Says which slots there are: of a device that shares itself out, as many as are used at a time.
    pub(super) fn tell_slots(&mut self) {
        let (mut told, mut slots): (BTreeMap<&Device, usize>, Vec<Slot>) =
            (BTreeMap::new(), Vec::new());
        for slot in self.slots.iter().filter(|slot| !self.places[slot.index].closed) {
            let so_far = told.entry(&slot.device).or_default();
            if self.packed.slots(&slot.device).is_none_or(|most| *so_far < most) {
                *so_far += 1;
                slots.push(slot.clone());
            }
        }
        self.emit(Event::SlotsChanged { slots });
    }

    /// Gives back what the workers of empty slots hold on which nothing is started any more.
    pub(super) fn vacate_places(&mut self) {
        for index in 0..self.slots.len() {
            let is_idle = self.places[index].warm && self.busy[index].is_none();
            if is_idle && (!self.is_open(index) || self.is_full(&self.slots[index].device)) {
                self.places[index].warm = false;
                self.effects.push(Effect::Vacate { slot: index });
            }
        }
    }
}
