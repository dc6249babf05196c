//! Pausing and resuming a study, a trial or a device on request.

use super::attempt::Leaving;
use super::requests::{Refusal, Served, over, refused};
use super::{Engine, Phase};
use crate::study::control::TrialControl;
use crate::study::decision::{Decision, Reason};
use crate::study::device::Device;
use crate::study::event::{DeviceEvent, Event, StateEvent, StudyEvent};
use crate::study::program::Program;
use crate::study::spec::MOST_SLOTS;
use crate::study::trial::{AttemptNumber, Hold, Trial, TrialNumber, TrialState};

/// The reason of a pause requested by the user.
const BY_YOU: &str = "paused by you";

impl Engine {
    pub(super) fn pause_study(&mut self) -> Served {
        if self.state.paused.is_some() {
            return Ok("it was paused already".to_owned());
        }
        if self.state.finished.is_some() && self.queue.is_empty() {
            return Err(refused(
                "the study is over",
                "there is nothing to pause; `hpsearch extend` gives it more budget",
            ));
        }
        self.emit(Event::Study(StudyEvent::Paused { reason: BY_YOU.to_owned() }));
        let asked = self.ask_all_to_pause(0..self.slots.len());
        Ok(match asked {
            0 => "nothing is started until it is resumed".to_owned(),
            1 => "its one running trial saves and leaves; nothing is started until it is resumed"
                .to_owned(),
            trials => format!(
                "its {trials} running trials save and leave; nothing is started until it is resumed"
            ),
        })
    }

    pub(super) fn resume_study(&mut self) -> Served {
        if self.state.paused.is_none() {
            return Err(refused(
                "the study is not paused",
                "if nobody runs it, `hpsearch run STUDY.toml` does",
            ));
        }
        self.emit(Event::Study(StudyEvent::Resumed { reason: "resumed by you".to_owned() }));
        let is_held =
            |trial: &Trial| trial.state == TrialState::Paused && trial.hold == Some(Hold::Study);
        for number in self.trials_that(is_held) {
            self.release_hold(number);
        }
        for index in 0..self.slots.len() {
            if self.is_open(index) {
                self.withdraw_pause(index);
            }
        }
        let is_run = self.phase != Phase::Waiting;
        Ok(if is_run { "it continues" } else { "it continues when it is run" }.to_owned())
    }

    pub(super) fn pause_trial(&mut self, number: TrialNumber) -> Served {
        let trial = self.known(number)?;
        let (state, hold) = (trial.state, Some(Hold::Trial));
        if !TrialControl::Pause.applies_to(state) {
            return Err(over(number, state));
        }
        if trial.hold == hold {
            return Ok(format!("trial {number} was paused already"));
        }
        if state != TrialState::Running {
            self.emit(Event::of(number, StateEvent::Paused { reason: BY_YOU.to_owned(), hold }));
            return Ok(format!("trial {number} waits until it is resumed"));
        }
        self.emit(Event::of(number, StateEvent::Held { hold }));
        let Some(index) = self.slots.of_trial(number) else {
            return Ok(format!("trial {number} is paused"));
        };
        self.ask_to_pause(index);
        Ok(format!("trial {number} saves and leaves, and waits until it is resumed"))
    }

    pub(super) fn resume_trial(&mut self, number: TrialNumber) -> Served {
        let trial = self.known(number)?;
        let state = trial.state;
        if !TrialControl::Resume.applies_to(state) {
            let instead = match state {
                TrialState::Failed => "`hpsearch retry` starts it again",
                TrialState::Queued
                | TrialState::Running
                | TrialState::Paused
                | TrialState::Complete
                | TrialState::Pruned => "`hpsearch continue` takes it further",
            };
            return Err(refused(format!("trial {number} is {}", state.as_str()), instead));
        }
        match (state, trial.hold) {
            (TrialState::Running, Some(_)) => {
                self.emit(Event::of(number, StateEvent::Held { hold: None }));
                let slot = self.slots.of_trial(number).filter(|index| self.is_open(*index));
                slot.into_iter().for_each(|index| self.withdraw_pause(index));
                Ok(format!("trial {number} continues"))
            }
            (TrialState::Paused, Some(_)) => {
                self.release_hold(number);
                Ok(match self.state.trial(number).map(|trial| trial.state) {
                    Some(TrialState::Paused) => {
                        format!("trial {number} waits for its pruner again, as before")
                    }
                    _ => self.when(format!("trial {number} is queued")),
                })
            }
            (TrialState::Paused, None) => {
                let last = trial.last().map_or(0, |(step, _)| step);
                let until = self.milestones.at.iter().copied().find(|milestone| *milestone > last);
                let reason = "resumed by you, ahead of its pruner".to_owned();
                self.emit(Event::of(number, StateEvent::Queued { until, reason }));
                Ok(self.when(format!("trial {number} is queued")))
            }
            (_, _) => Ok(format!("trial {number} was not paused")),
        }
    }

    pub(super) fn pause_device(&mut self, device: &Device) -> Served {
        self.has_slots_on(device, || format!("its slots are on {}", self.slots.device_names()))?;
        if self.state.paused_devices.contains(device) {
            return Ok(format!("{device} was paused already"));
        }
        self.emit(Event::Device(DeviceEvent::Paused { device: device.clone() }));
        Ok(match self.ask_all_to_pause(self.slots.of_device(device)) {
            0 => format!("nothing is started on {device} until it is resumed"),
            1 => format!(
                "the trial on {device} saves, leaves and waits for another slot; nothing is \
                 started there until it is resumed"
            ),
            trials => format!(
                "the {trials} trials on {device} save, leave and wait for other slots; nothing is \
                 started there until it is resumed"
            ),
        })
    }

    pub(super) fn resume_device(&mut self, device: &Device, slots: Option<u32>) -> Served {
        let was_paused = self.state.paused_devices.contains(device);
        match slots {
            Some(0) => {
                return Err(refused(
                    "a device without slots runs nothing",
                    format!("`hpsearch pause --device {device}` pauses it"),
                ));
            }
            Some(slots) if slots > MOST_SLOTS => {
                return Err(refused(
                    format!("a device has at most {MOST_SLOTS} slots"),
                    "say fewer with --slots",
                ));
            }
            Some(_) if self.phase == Phase::Waiting => {
                return Err(refused(
                    "the study is not running",
                    "`[devices]` of its file says how many slots the next run has",
                ));
            }
            Some(_) if self.spec.devices.spans_nodes() => {
                return Err(refused(
                    "a trial of this run has devices of several agents: how many run there follows \
                     from what each offers",
                    "set `trials_per_device` in [devices], and run the study again",
                ));
            }
            Some(_) if self.slots.are_groups() && self.slots.group_of(device).is_none() => {
                return Err(refused(
                    format!("the trials of this run have groups of devices without {device}"),
                    "add it to `use` in [devices], and run the study again",
                ));
            }
            Some(_) => {}
            None => self.has_slots_on(device, || {
                "say how many slots it is to have there with --slots".to_owned()
            })?,
        }
        if was_paused {
            self.emit(Event::Device(DeviceEvent::Resumed { device: device.clone() }));
        }
        if let Some(slots) = slots {
            self.sharing.release(device);
            let slots = usize::try_from(slots).unwrap_or(usize::MAX);
            self.note_slots_set(device, slots);
            self.set_slots(device, slots);
        }
        let there = self.slots.of_device(device);
        there.iter().for_each(|index| self.withdraw_pause(*index));
        Ok(match (was_paused, slots, there.len()) {
            (false, None, _) => format!("{device} was not paused"),
            (_, _, 0) => format!("{device} is used again when the study is run"),
            (_, _, 1) => format!("{device} is used, for one trial at a time"),
            (_, _, slots) => format!("{device} is used, for {slots} trials at a time"),
        })
    }

    /// Rejects a request about a device on which the run has no slots.
    fn has_slots_on(
        &self,
        device: &Device,
        instead: impl FnOnce() -> String,
    ) -> Result<(), Refusal> {
        if self.phase == Phase::Waiting || !self.slots.of_device(device).is_empty() {
            return Ok(());
        }
        Err(refused(format!("the study does not run on {device}"), instead()))
    }

    fn set_slots(&mut self, device: &Device, wanted: usize) {
        if self.slots.of_device(device).len() != wanted {
            for index in self.slots.resize(device, wanted) {
                self.ask_to_pause(index);
            }
            self.emit_slots();
        }
    }

    /// Asks the attempt on a slot to save and exit.
    pub(super) fn ask_to_pause(&mut self, index: usize) {
        let waits_for_report = matches!(self.spec.program, Program::Command { .. });
        if let Some(running) = &mut self.slots[index].running {
            self.effects.extend(running.ask_to_pause(waits_for_report, self.now, self.grace));
        }
    }

    /// The same for several slots; returns the number of trials.
    fn ask_all_to_pause(&mut self, slots: impl IntoIterator<Item = usize>) -> usize {
        let is_busy = |index: &usize| self.slots[*index].running.is_some();
        let busy: Vec<usize> = slots.into_iter().filter(is_busy).collect();
        busy.iter().for_each(|index| self.ask_to_pause(*index));
        busy.len()
    }

    /// The answer to a report of a trial that the user paused; `None` if it is not paused.
    pub(super) fn pause_at_report(&mut self, index: usize) -> Option<Decision> {
        let deadline = self.now.after(self.grace);
        let running = self.slots[index].running.as_mut()?;
        if running.leaving.is_some() || running.pause_by.is_none() {
            return None;
        }
        running.leaving = Some((Leaving::Holding { told: true }, deadline));
        let why = self.sharing.why_evicted(running.trial).map_or(BY_YOU, String::as_str);
        Some(Decision::Pause(Reason::Held(why.to_owned())))
    }

    /// Notes that an attempt which ends now did not hear of its pause: if it completes, it is
    /// complete.
    pub(super) fn forget_telling(&mut self, trial: TrialNumber, attempt: AttemptNumber) {
        let Some(index) = self.slots.of_attempt(trial, attempt) else { return };
        if let Some(running) = &mut self.slots[index].running
            && let Some((Leaving::Holding { told }, _)) = &mut running.leaving
        {
            *told = false;
        }
    }

    /// Withdraws a pause unless a hold remains; if the attempt already knows, its trial is requeued
    /// when it exits.
    fn withdraw_pause(&mut self, index: usize) {
        let Some(trial) = self.slots[index].running.as_ref().map(|running| running.trial) else {
            return;
        };
        if self.hold_of(trial).is_none()
            && let Some(running) = &mut self.slots[index].running
        {
            running.pause_by = None;
        }
    }

    /// Releases the hold on a trial.
    fn release_hold(&mut self, number: TrialNumber) {
        let Some(trial) = self.state.trial(number) else { return };
        let last = trial.last().map(|(step, _)| step);
        let decision = last.and_then(|step| trial.decision_at(step));
        let reached = trial.until.is_none_or(|until| last.is_some_and(|last| last >= until));
        match decision.map(|decision| &decision.verdict) {
            Some(Decision::Pause(reason)) if reached && trial.continued.is_none() => {
                let reason = reason.to_string();
                self.emit(Event::of(number, StateEvent::Paused { reason, hold: None }));
            }
            Some(Decision::Continue(_) | Decision::Pause(_) | Decision::Stop(_)) | None => {
                self.queue_again(number, "resumed by you")
            }
        }
    }

    /// The hold on a trial, its own or its study's.
    pub(super) fn hold_of(&self, number: TrialNumber) -> Option<Hold> {
        let own = self.state.trial(number).and_then(|trial| trial.hold);
        own.or_else(|| self.state.paused.as_ref().map(|_| Hold::Study))
    }

    /// Pauses a held trial that left its slot.
    pub(super) fn hold(&mut self, number: TrialNumber, hold: Hold) {
        let whose = match hold {
            Hold::Trial => BY_YOU,
            Hold::Study => "paused with its study",
        };
        let reason = format!("{whose}; continues {}", self.resume_point(number));
        self.emit(Event::of(number, StateEvent::Paused { reason, hold: Some(hold) }));
    }

    /// Requeues a trial that left before its end, or pauses it if it is held.
    pub(super) fn requeue(&mut self, number: TrialNumber, why: &str) {
        match self.hold_of(number) {
            Some(hold) => self.hold(number, hold),
            None => self.queue_again(number, why),
        }
    }

    /// Queues a trial, with its `until` unchanged.
    pub(super) fn queue_again(&mut self, trial: TrialNumber, why: &str) {
        let until = self.state.trial(trial).and_then(|trial| trial.until);
        let reason = format!("{why}; continues {}", self.resume_point(trial));
        self.emit(Event::of(trial, StateEvent::Queued { until, reason }));
    }

    /// Where a trial would continue, in words.
    pub(super) fn resume_point(&self, number: TrialNumber) -> String {
        let checkpoint = self.state.trial(number).and_then(Trial::resumable_checkpoint);
        let step = checkpoint.map(|checkpoint| checkpoint.step);
        format!("from {}", self.spec.step.resume_point(step))
    }
}
