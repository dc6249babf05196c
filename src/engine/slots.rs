//! The slots of a run and their attempts; slots can be added and closed while the study runs.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Deref, DerefMut};

use super::attempt::RunningAttempt;
use crate::study::device::{Device, DeviceGroup, Slot};
use crate::study::trial::{AttemptNumber, TrialNumber};

/// A slot in the engine.
#[derive(Clone, Debug)]
pub(super) struct EngineSlot {
    pub slot: Slot,
    pub running: Option<RunningAttempt>,
    /// Closed by its user.
    pub closed: bool,
    /// It was used, and its worker may still hold memory.
    pub warm: bool,
}

impl EngineSlot {
    fn new(slot: Slot) -> Self {
        EngineSlot { slot, running: None, closed: false, warm: false }
    }

    pub fn devices(&self) -> &DeviceGroup {
        &self.slot.devices
    }

    /// Its only device where concurrency is automatic, which excludes groups.
    pub fn device(&self) -> &Device {
        self.slot.devices.first()
    }

    pub fn is_on(&self, device: &Device) -> bool {
        self.slot.devices.contains(device)
    }
}

/// All slots by index, including closed ones.
#[derive(Clone, Debug)]
pub(super) struct Slots(Vec<EngineSlot>);

impl Deref for Slots {
    type Target = [EngineSlot];

    fn deref(&self) -> &[EngineSlot] {
        &self.0
    }
}

impl DerefMut for Slots {
    fn deref_mut(&mut self) -> &mut [EngineSlot] {
        &mut self.0
    }
}

impl Slots {
    pub fn new(slots: Vec<Slot>) -> Self {
        Slots(slots.into_iter().map(EngineSlot::new).collect())
    }

    /// Adds a slot; returns its index.
    pub fn add(&mut self, devices: impl Into<DeviceGroup>) -> usize {
        let index = self.len();
        self.0.push(EngineSlot::new(Slot::on(index, devices)));
        index
    }

    /// A closed slot for an attempt that has it already: at the same index, by which its agent
    /// knows it, unless another attempt is there.
    pub fn reserve(&mut self, slot: &Slot) -> usize {
        while self.len() <= slot.index {
            // Made for its index only, until it is needed.
            let index = self.add(slot.devices.clone());
            self[index].closed = true;
        }
        let there = &mut self[slot.index];
        if there.closed && !there.warm && there.running.is_none() {
            there.slot.devices = slot.devices.clone();
            return slot.index;
        }
        let index = self.add(slot.devices.clone());
        self[index].closed = true;
        index
    }

    pub fn running(&self) -> impl Iterator<Item = &RunningAttempt> {
        self.iter().filter_map(|slot| slot.running.as_ref())
    }

    pub fn running_mut(&mut self) -> impl Iterator<Item = &mut RunningAttempt> {
        self.iter_mut().filter_map(|slot| slot.running.as_mut())
    }

    pub fn running_on(&self, device: &Device) -> impl Iterator<Item = &RunningAttempt> {
        let there = self.iter().filter(move |slot| slot.is_on(device));
        there.filter_map(|slot| slot.running.as_ref())
    }

    /// Whether nothing runs.
    pub fn are_idle(&self) -> bool {
        self.running().next().is_none()
    }

    /// The slot of a running trial.
    pub fn of_trial(&self, trial: TrialNumber) -> Option<usize> {
        let on_it = |running: &RunningAttempt| running.trial == trial;
        self.iter().position(|slot| slot.running.as_ref().is_some_and(on_it))
    }

    /// The slot of a running attempt.
    pub fn of_attempt(&self, trial: TrialNumber, attempt: AttemptNumber) -> Option<usize> {
        let on_it = |running: &RunningAttempt| (running.trial, running.attempt) == (trial, attempt);
        self.iter().position(|slot| slot.running.as_ref().is_some_and(on_it))
    }

    pub fn attempt_mut(&mut self, trial: TrialNumber) -> Option<&mut RunningAttempt> {
        self.running_mut().find(|running| running.trial == trial)
    }

    /// The group that a device belongs to, if trials run on groups.
    pub fn group_of(&self, device: &Device) -> Option<&DeviceGroup> {
        let mut groups = self.iter().map(EngineSlot::devices).filter(|group| !group.is_single());
        groups.find(|group| group.contains(device))
    }

    /// Whether trials run on groups.
    pub fn are_groups(&self) -> bool {
        self.iter().any(|slot| !slot.devices().is_single())
    }

    /// Open slots of a device.
    pub fn of_device(&self, device: &Device) -> Vec<usize> {
        let is_there = |index: &usize| !self[*index].closed && self[*index].is_on(device);
        (0..self.len()).filter(is_there).collect()
    }

    /// The devices with slots, by name.
    pub fn device_names(&self) -> String {
        let open = self.iter().filter(|slot| !slot.closed);
        let devices = open.flat_map(|slot| slot.devices().members());
        let names: BTreeSet<String> = devices.map(ToString::to_string).collect();
        names.into_iter().collect::<Vec<_>>().join(", ")
    }

    /// Changes the number of slots of a device, or of its group; returns those closed. Idle ones
    /// are closed first, so that few trials move.
    pub fn resize(&mut self, device: &Device, wanted: usize) -> Vec<usize> {
        let devices = self.group_of(device).cloned().unwrap_or_else(|| device.clone().into());
        self.resize_group(&devices, wanted)
    }

    /// The same for the slots of exactly these devices.
    pub fn resize_group(&mut self, devices: &DeviceGroup, wanted: usize) -> Vec<usize> {
        let is_there = |index: &usize| !self[*index].closed && self[*index].devices() == devices;
        let mut there: Vec<usize> = (0..self.len()).filter(is_there).collect();
        there.sort_by_key(|index| (self[*index].running.is_none(), *index));
        let closed = there.split_off(wanted.min(there.len()));
        closed.iter().for_each(|index| self[*index].closed = true);
        let mut missing = wanted - there.len();
        // Those with an attempt, which may have survived its runner, take up the device already.
        for is_busy in [true, false] {
            let taken_away = |slot: &&mut EngineSlot| {
                slot.closed && slot.devices() == devices && slot.running.is_some() == is_busy
            };
            for slot in self.0.iter_mut().filter(taken_away).take(missing) {
                slot.closed = false;
                missing -= 1;
            }
        }
        for _ in 0..missing {
            self.add(devices.clone());
        }
        closed
    }

    /// Closes open slots with parts on an agent that it does not offer, or not so often; returns
    /// them.
    pub fn close_excess_of(&mut self, agent: &str, offered: &[DeviceGroup]) -> Vec<usize> {
        let mut offered = offered.to_vec();
        let mut there: Vec<usize> = (0..self.len())
            .filter(|index| !self[*index].closed && self[*index].devices().is_on(agent))
            .collect();
        there.sort_by_key(|index| (self[*index].running.is_none(), *index));
        let mut closed = Vec::new();
        for index in there {
            let part = self[index].devices().part_of(agent);
            match offered.iter().position(|group| Some(group) == part.as_ref()) {
                Some(kept) => drop(offered.remove(kept)),
                None => closed.push(index),
            }
        }
        closed.iter().for_each(|index| self[*index].closed = true);
        closed
    }

    /// Takes what slots use off what agents offer. A closed slot whose attempt has survived its
    /// runner opens again once all of its agents are back; returns whether one did.
    pub fn take_parts(&mut self, offered: &mut BTreeMap<String, Vec<DeviceGroup>>) -> bool {
        let mut has_opened = false;
        for is_closed in [false, true] {
            let used = self
                .0
                .iter_mut()
                .filter(|slot| slot.closed == is_closed && (!is_closed || slot.running.is_some()));
            for slot in used.collect::<Vec<_>>() {
                let agents: Vec<String> =
                    slot.devices().agents().into_iter().map(str::to_owned).collect();
                let mut is_whole = true;
                for agent in &agents {
                    let part = slot.devices().part_of(agent);
                    let there = offered.get_mut(agent).and_then(|there| {
                        let index = there.iter().position(|group| Some(group) == part.as_ref())?;
                        Some(there.remove(index))
                    });
                    is_whole &= there.is_some();
                }
                if is_closed && is_whole {
                    slot.closed = false;
                    has_opened = true;
                }
            }
        }
        has_opened
    }

    /// Open slots; on each device, at most as many as `most` allows.
    pub fn in_use(&self, most: impl Fn(&Device) -> Option<usize>) -> Vec<Slot> {
        let mut counted: BTreeMap<&Device, usize> = BTreeMap::new();
        let open = self.iter().filter(|slot| !slot.closed);
        let within = open.filter(|slot| {
            let before = counted.entry(slot.device()).or_default();
            let is_used = most(slot.device()).is_none_or(|most| *before < most);
            *before += usize::from(is_used);
            is_used
        });
        within.map(|slot| slot.slot.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::time::Timestamp;

    fn indices(slots: &[Slot]) -> Vec<usize> {
        slots.iter().map(|slot| slot.index).collect()
    }

    #[test]
    fn a_reserved_slot_keeps_its_index_and_stays_closed_until_it_is_wanted() {
        let device = Device::Sim(0).on("node");
        let mut slots = Slots::new(Vec::new());
        let run = |slots: &mut Slots, index: usize, trial| {
            let reserved = slots.reserve(&Slot::on(index, device.clone()));
            let (trial, attempt) = (TrialNumber(trial), AttemptNumber(0));
            let running = RunningAttempt::new(trial, attempt, Timestamp(0), None);
            slots[reserved].running = Some(running);
            reserved
        };
        assert_eq!(
            (run(&mut slots, 2, 7), run(&mut slots, 0, 8), run(&mut slots, 2, 9)),
            (2, 0, 3)
        );
        assert!(slots.of_device(&device).is_empty());
        assert_eq!(slots.resize(&device, 4), Vec::<usize>::new());
        assert_eq!(slots.of_device(&device), [0, 1, 2, 3]);
    }

    #[test]
    fn attempts_of_several_agents_keep_the_indices_by_which_these_know_them() {
        let [one, two] = ["a", "b"].map(|agent| Device::Sim(0).on(agent));
        let mut slots = Slots::new(Vec::new());
        let surviving = [(3, &one), (1, &two), (4, &two), (0, &one), (2, &two)];
        for (trial, (index, device)) in (0..).zip(surviving) {
            let reserved = slots.reserve(&Slot::on(index, device.clone()));
            assert_eq!((reserved, slots[index].device()), (index, device));
            let (trial, attempt) = (TrialNumber(trial), AttemptNumber(0));
            let running = RunningAttempt::new(trial, attempt, Timestamp(0), None);
            slots[reserved].running = Some(running);
        }
        assert_eq!(slots.len(), 5);
    }

    #[test]
    fn idle_slots_are_taken_away_first_and_come_back_before_new_ones() {
        let device = Device::Sim(0);
        let mut slots = Slots::new(vec![Slot::on(0, device.clone())]);
        assert_eq!(slots.resize(&device, 3), Vec::<usize>::new());
        let (trial, attempt) = (TrialNumber(7), AttemptNumber(1));
        slots[2].running = Some(RunningAttempt::new(trial, attempt, Timestamp(0), None));
        assert_eq!((slots.of_trial(trial), slots.of_attempt(trial, attempt)), (Some(2), Some(2)));
        assert_eq!(slots.of_attempt(trial, AttemptNumber(0)), None);
        assert_eq!(slots.resize(&device, 1), [0, 1]);
        assert_eq!(slots.of_device(&device), [2]);
        assert_eq!(slots.resize(&device, 4), Vec::<usize>::new());
        assert_eq!(indices(&slots.in_use(|_| None)), [0, 1, 2, 3]);
        assert_eq!(indices(&slots.in_use(|_| Some(2))), [0, 1]);
        assert_eq!(slots.running_on(&device).count(), 1);
        assert!(!slots.are_idle());
    }

    #[test]
    fn a_group_of_agents_closes_with_one_and_opens_again_with_all() {
        let group = |text: &str| text.parse::<DeviceGroup>().unwrap();
        let (pair, own) = (group("a/sim:0+b/sim:0"), |agent: &str| group("sim:0").on(agent));
        let mut slots = Slots::new(vec![Slot::on(0, pair.clone()), Slot::on(1, pair)]);
        let (trial, attempt) = (TrialNumber(7), AttemptNumber(1));
        slots[1].running = Some(RunningAttempt::new(trial, attempt, Timestamp(0), None));
        assert_eq!(slots.close_excess_of("b", &[own("b")]), [0], "an idle one first");
        assert_eq!(slots.close_excess_of("b", &[]), [1]);
        let offer = |agents: &[&str]| {
            let offered = agents.iter().map(|agent| ((*agent).to_owned(), vec![own(agent); 2]));
            offered.collect::<BTreeMap<_, _>>()
        };
        let mut offered = offer(&["a"]);
        assert!(!slots.take_parts(&mut offered), "`b` is missing");
        assert_eq!(offered["a"].len(), 1, "the attempt still runs there");
        let mut offered = offer(&["a", "b"]);
        assert!(slots.take_parts(&mut offered) && !slots[1].closed && slots[0].closed);
        assert_eq!((offered["a"].len(), offered["b"].len()), (1, 1));
    }
}
