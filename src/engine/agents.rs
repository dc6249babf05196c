//! Slots of other machines, which come and go while the study runs, and attempts there that outlive
//! a runner.

use std::collections::BTreeMap;
use std::time::Duration;

use super::attempt::{Leaving, RunningAttempt};
use super::slots::EngineSlot;
use super::{Engine, Phase};
use crate::study::device::{Device, DeviceGroup, Slot};
use crate::study::event::{AgentChange, DeviceEvent, Event};
use crate::study::metric::Metrics;
use crate::study::provenance::AgentProvenance;
use crate::study::time::Timestamp;
use crate::study::trial::{AttemptNumber, TrialNumber};

/// Shortest interval between records of slots.
const INTERVAL: Duration = Duration::from_secs(1);

/// The slots of agents against the record of them.
#[derive(Clone, Debug, Default)]
pub(super) struct AgentSlots {
    /// Whether they have changed since.
    changed: bool,
    recorded: Option<Timestamp>,
    /// Where trials run on several agents: what each agent that is here offers.
    offered: BTreeMap<String, Vec<DeviceGroup>>,
    /// Numbers of slots that the user has set since the run began.
    set_by_user: BTreeMap<DeviceGroup, usize>,
}

impl AgentSlots {
    /// When they are to be recorded, if they have changed.
    pub fn deadline(&self) -> Option<Timestamp> {
        let recorded = self.recorded.filter(|_| self.changed);
        recorded.map(|recorded| recorded.after(INTERVAL))
    }
}

/// An attempt and its slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlottedAttempt {
    /// Number of the trial.
    pub trial: TrialNumber,
    /// Number of the trial's attempt, from 0.
    pub attempt: AttemptNumber,
    /// The slot.
    pub slot: Slot,
}

impl Engine {
    /// Opens the slots of an agent.
    pub(super) fn agent_joined(
        &mut self,
        agent: String,
        devices: &[DeviceGroup],
        provenance: Box<AgentProvenance>,
    ) {
        let (slots, provenance) = (devices.len() as u64, Some(provenance));
        let change = AgentChange::Joined { slots, provenance };
        self.set_slots_of(&agent, devices);
        self.silent_agents.remove(&agent);
        self.note_reachable_attempts();
        self.emit(Event::Device(DeviceEvent::AgentChanged { agent, change }));
    }

    /// Closes the slots of an agent. Its trials save, and run elsewhere.
    pub(super) fn agent_left(&mut self, agent: String, reason: String) {
        self.silent_agents.remove(&agent);
        self.note_reachable_attempts();
        // It asks them itself, and waits for them.
        let deadline = self.now.after(self.grace.saturating_mul(2));
        let there = self.slots.iter_mut().filter(|slot| slot.devices().is_on(&agent));
        for running in there.filter_map(|slot| slot.running.as_mut()) {
            running.leaving.get_or_insert((Leaving::AgentLeft, deadline));
        }
        self.set_slots_of(&agent, &[]);
        let change = AgentChange::Left { reason };
        self.emit(Event::Device(DeviceEvent::AgentChanged { agent, change }));
    }

    /// Starts nothing new on the slots of an agent while it does not answer.
    pub(super) fn agent_silent(&mut self, agent: String, is_silent: bool) {
        let change = match is_silent {
            true => AgentChange::Silent,
            false => AgentChange::Back,
        };
        match is_silent {
            true => self.silent_agents.insert(agent.clone()),
            false => self.silent_agents.remove(&agent),
        };
        self.note_reachable_attempts();
        self.emit(Event::Device(DeviceEvent::AgentChanged { agent, change }));
    }

    fn note_reachable_attempts(&mut self) {
        let (now, silent) = (self.now, &self.silent_agents);
        for slot in self.slots.iter_mut() {
            let is_reachable = !silent.iter().any(|agent| slot.devices().is_on(agent));
            if let Some(running) = &mut slot.running {
                running.note_reachable(is_reachable, now);
            }
        }
    }

    /// Records why no agent comes from somewhere.
    pub(super) fn agent_absent(&mut self, agent: String, reason: String) {
        let change = AgentChange::Absent { reason };
        self.emit(Event::Device(DeviceEvent::AgentChanged { agent, change }));
    }

    /// How many more trials could start now, if there were slots for them.
    pub fn demand(&self) -> u64 {
        if !self.phase.starts_trials() || self.state.paused.is_some() || !self.waits_for_a_slot() {
            return 0;
        }
        let saturated = self.saturated_slots();
        let free = (0..self.slots.len()).filter(|index| {
            self.is_open(*index)
                && self.slots[*index].running.is_none()
                && !saturated.contains(index)
        });
        let running = self.slots.running().count() as u64;
        let wanted = match self.spec.budget.trials {
            Some(trials) => {
                trials.saturating_sub(self.state.counts.complete + self.state.counts.pruned).max(1)
            }
            None => u64::MAX,
        };
        wanted.saturating_sub(running).saturating_sub(free.count() as u64)
    }

    fn set_slots_of(&mut self, agent: &str, devices: &[DeviceGroup]) {
        if self.spec.devices.spans_nodes() {
            self.agent_slots.offered.insert(agent.to_owned(), devices.to_vec());
            for index in self.slots.close_excess_of(agent, devices) {
                self.ask_to_pause(index);
            }
            self.agent_slots.changed = true;
            return self.group_agents();
        }
        let mut wanted: BTreeMap<DeviceGroup, usize> = BTreeMap::new();
        let open = self.slots.iter().filter(|slot| !slot.closed).map(|slot| slot.devices());
        for group in open.filter(|group| group.agent() == Some(agent)) {
            wanted.insert(group.clone(), 0);
        }
        devices.iter().for_each(|group| *wanted.entry(group.clone()).or_default() += 1);
        for (group, count) in wanted {
            let count = if count > 0 { self.slots_wanted(&group, count) } else { 0 };
            for index in self.slots.resize_group(&group, count) {
                self.ask_to_pause(index);
            }
        }
        self.agent_slots.changed = true;
    }

    /// The number of slots on devices of which an agent offers `offered`: as its user has set it
    /// since, or as it was found.
    fn slots_wanted(&mut self, devices: &DeviceGroup, offered: usize) -> usize {
        if let Some(count) = self.agent_slots.set_by_user.get(devices) {
            return *count;
        }
        if self.sharing.is_automatic() {
            self.sharing.join(devices.first(), self.now);
        }
        self.sharing.slots(devices.first()).unwrap_or(offered)
    }

    /// The user sets the number of slots on a device of an agent, for as long as the study runs.
    pub(super) fn note_slots_set(&mut self, device: &Device, slots: usize) {
        if device.agent().is_some() {
            let devices = self.slots.group_of(device).cloned();
            let devices = devices.unwrap_or_else(|| device.clone().into());
            self.agent_slots.set_by_user.insert(devices, slots);
        }
    }

    /// Makes groups of what agents offer, each of `nodes_per_trial` different agents. Called when
    /// agents come, go, or are free again.
    pub(super) fn group_agents(&mut self) {
        if !self.spec.devices.spans_nodes() {
            return;
        }
        let nodes = usize::try_from(self.spec.devices.nodes_per_trial).unwrap_or(usize::MAX);
        let mut free = self.agent_slots.offered.clone();
        self.agent_slots.changed |= self.slots.take_parts(&mut free);
        let mut groups: BTreeMap<DeviceGroup, usize> = BTreeMap::new();
        // Those with the most free slots first, which leaves as few unused as possible.
        loop {
            let mut agents: Vec<&String> =
                free.iter().filter(|(_, free)| !free.is_empty()).map(|(agent, _)| agent).collect();
            agents.sort_by_key(|agent| std::cmp::Reverse(free[*agent].len()));
            agents.truncate(nodes);
            if agents.len() < nodes {
                break;
            }
            let mut agents: Vec<String> = agents.into_iter().cloned().collect();
            agents.sort();
            let parts = agents.iter().filter_map(|agent| Some(free.get_mut(agent)?.remove(0)));
            let members = parts.collect::<Vec<_>>();
            let members = members.iter().flat_map(DeviceGroup::members).cloned();
            if let Some(group) = DeviceGroup::of(members) {
                *groups.entry(group).or_default() += 1;
            }
        }
        for (group, more) in groups {
            let open = |slot: &&EngineSlot| !slot.closed && *slot.devices() == group;
            let there = self.slots.iter().filter(open).count();
            let _none_closed = self.slots.resize_group(&group, there + more);
            self.agent_slots.changed = true;
        }
    }

    /// Records the slots, if they have changed: at most once a second, since a thousand agents come
    /// at once.
    pub(super) fn record_slots_of_agents(&mut self) {
        let is_due = self.agent_slots.recorded.is_none_or(|at| at.after(INTERVAL) <= self.now);
        if self.agent_slots.changed && is_due && self.phase != Phase::Over {
            self.agent_slots.changed = false;
            self.agent_slots.recorded = Some(self.now);
            self.emit_slots();
        }
    }

    /// Puts an attempt that may have survived its runner on the slot that it had. The slot takes no
    /// others until its agent has come back.
    pub(super) fn adopt(&mut self, trial: TrialNumber, attempt: AttemptNumber, slot: &Slot) {
        let index = self.slots.reserve(slot);
        // The device time up to the end of the earlier runner is accounted for with that.
        let _accounted = self.budgets.meter.start(&slot.devices, self.now);
        let mut running = RunningAttempt::new(trial, attempt, self.now, None);
        running.superseding = self.open_attempts.remove(&trial).unwrap_or_default();
        (running.known_to, running.is_adopted) = (running.superseding.last_step(), true);
        let decided = self.final_decision(trial);
        running.leaving = decided.map(|leaving| (leaving, self.now.after(self.grace)));
        let slot = &mut self.slots[index];
        slot.warm = true;
        slot.running = Some(running);
        if self.hold_of(trial).is_some() {
            self.ask_to_pause(index);
        }
    }

    /// The slot of an open attempt that may have survived its runner.
    pub(super) fn surviving(&self, trial: TrialNumber, attempt: AttemptNumber) -> Option<Slot> {
        let is_it = |found: &&SlottedAttempt| (found.trial, found.attempt) == (trial, attempt);
        self.surviving.iter().find(is_it).map(|found| found.slot.clone())
    }

    /// Whether a report was stored by an earlier runner, which could not acknowledge it any more:
    /// its agent sends it again.
    pub(super) fn is_stored(&self, slot: usize, step: u64, metrics: &Metrics) -> bool {
        let Some(running) = &self.slots[slot].running else { return false };
        let Some(last) = running.known_to else { return false };
        let Some(trial) = self.state.trial(running.trial) else { return false };
        let is_there = |(name, value): (&str, f64)| {
            trial.last_metrics.get(name).is_some_and(|known| known.total_cmp(&value).is_eq())
        };
        step < last || step == last && metrics.iter().all(is_there)
    }
}
