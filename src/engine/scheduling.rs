//! Assigns free slots: a queued trial, a promoted one, a replicate, or a new one.

use super::attempt::RunningAttempt;
use super::batch_halving::BatchHalving;
use super::decision_window::DecisionWindow;
use super::goal::is_asked_for;
use super::superseding::Superseding;
use super::{Assignment, Effect, Engine, Phase, RunOutcome};
use crate::config;
use crate::pruners::{Gathered, Restart};
use crate::study::decision::Decision;
use crate::study::device::Device;
use crate::study::event::{AttemptEvent, DecisionEvent, Event, StudyEvent};
use crate::study::program::Program;
use crate::study::remark::{Remark, RemarkKind};
use crate::study::seed::SeedTree;
use crate::study::spec::{SeedRule, StudySpec};
use crate::study::trial::{AttemptNumber, DecisionAtStep, Origin, Trial, TrialNumber};

/// A trial's seed: its own, or in a race that of its round.
pub fn seed_of(spec: &StudySpec, trial: &Trial) -> u64 {
    match trial.origin {
        Origin::Race { race, round, .. } => seed_called(spec, &format!("race/{race}/{round}")),
        _ => seed_of_number(spec, trial.number),
    }
}

/// The seed of a trial of the search by its number.
pub fn seed_of_number(spec: &StudySpec, trial: TrialNumber) -> u64 {
    seed_called(spec, &format!("trial/{trial}"))
}

fn seed_called(spec: &StudySpec, name: &str) -> u64 {
    let of_53_bits = SeedTree::new(spec.seed).number(name);
    match spec.seed_rule {
        SeedRule::Wide => of_53_bits,
        SeedRule::Narrow => of_53_bits >> 21,
    }
}

impl Engine {
    /// Fills every free slot, and ends the study when nothing is left to run.
    pub(super) fn fill_slots(&mut self) {
        // Devices without memory for the next trial.
        let mut short: Vec<Device> = Vec::new();
        while self.phase.starts_trials()
            && self.state.paused.is_none()
            && !self.refusals.wait(self.now)
        {
            let free = |index: &usize| {
                let slot = &self.slots[*index];
                slot.running.is_none() && self.is_open(*index) && !short.contains(slot.device())
            };
            let mut free = (0..self.slots.len()).filter(free).peekable();
            if free.peek().is_none() {
                break;
            }
            // Of a thousand agents, this is not looked for in vain.
            let saturated = self.saturated_slots();
            let Some(slot) = free.find(|index| !saturated.contains(index)) else { break };
            match self.next_trial() {
                Ok(Some(trial)) if self.waits_for_memory(slot, trial) => {
                    short.push(self.slots[slot].device().clone())
                }
                Ok(Some(trial)) => self.start(slot, trial),
                Ok(None) if self.learn() => {}
                Ok(None) => {
                    let phase = self.phase.clone();
                    self.end_if_idle();
                    if self.phase == phase {
                        return;
                    }
                }
                Err(why) => self.drain(RunOutcome::Broken(why)),
            }
        }
        // Without an open slot the end is not detected above; a race waits for one.
        if matches!(self.phase, Phase::Draining(_))
            || self.phase == Phase::Searching && self.has_no_open_slot()
        {
            self.end_if_idle();
            if matches!(self.phase, Phase::Racing(_)) {
                self.fill_slots();
            }
        }
    }

    /// Makes the results of one more trial known to decisions, if that is required to start
    /// something and they are available.
    fn learn(&mut self) -> bool {
        let next = self.decision_window.as_ref().and_then(DecisionWindow::next_known);
        let Some(trial) = next else { return false };
        self.emit(Event::of(trial, DecisionEvent::ResultsKnown));
        self.check_limits();
        true
    }

    pub(super) fn next_trial(&mut self) -> Result<Option<TrialNumber>, String> {
        if matches!(self.phase, Phase::Racing(_)) {
            return Ok(self.next_race_run());
        }
        if let Some(window) = &self.decision_window {
            let begun = self.queue.find(|number| window.is_open(number));
            if begun.is_some() || window.is_full() {
                return Ok(begun);
            }
        }
        if self.budgets.goal_reached {
            let is_asked = |number| self.state.trial(number).is_some_and(is_asked_for);
            return Ok(self.queue.find(is_asked));
        }
        self.exploit(Gathered::All);
        let found = self
            .next_queued()
            .or_else(|| self.resume_paused(|pruner, history| pruner.promote(history)))
            .or_else(|| self.create_replicate());
        if found.is_some() {
            return Ok(found);
        }
        if self.may_create()
            && !self.proposals.exhausted
            && let Some(created) = self.create_population()?
        {
            return Ok(Some(created));
        }
        if !self.slots.are_idle()
            || self.decision_window.as_ref().is_some_and(|window| !window.is_empty())
        {
            return Ok(None);
        }
        self.exploit(Gathered::Waiting);
        Ok(self
            .next_queued()
            .or_else(|| self.resume_paused(|pruner, history| pruner.conclude(history))))
    }

    /// Whether a slot accepts attempts.
    pub(super) fn is_open(&self, index: usize) -> bool {
        let slot = &self.slots[index];
        let is_paused = |device| self.state.paused_devices.contains(device);
        let is_silent = |agent: &str| self.silent_agents.contains(agent);
        !slot.closed
            && !slot.devices().members().any(is_paused)
            && !slot.devices().agents().into_iter().any(is_silent)
    }

    /// Whether all slots are paused or closed.
    pub(super) fn has_no_open_slot(&self) -> bool {
        (0..self.slots.len()).all(|index| !self.is_open(index))
    }

    /// Whether something waits for a slot.
    pub(super) fn waits_for_a_slot(&self) -> bool {
        let may_create = || self.may_create() && !self.proposals.exhausted;
        !self.queue.is_empty()
            || !self.budgets.goal_reached && (self.state.counts.paused > 0 || may_create())
    }

    /// Releases the workers of empty slots that are no longer used.
    pub(super) fn vacate_slots(&mut self) {
        let is_idle =
            |index: &usize| self.slots[*index].warm && self.slots[*index].running.is_none();
        let idle: Vec<usize> = (0..self.slots.len()).filter(is_idle).collect();
        if idle.is_empty() {
            return;
        }
        let saturated = self.saturated_slots();
        for index in idle {
            if !self.is_open(index) || saturated.contains(&index) {
                self.slots[index].warm = false;
                self.effects.push(Effect::Vacate { slot: index });
            }
        }
    }

    pub(super) fn start(&mut self, index: usize, number: TrialNumber) {
        let trial = self.state.trial(number).expect("a trial in the queue is in the state");
        let attempt = AttemptNumber(trial.attempts);
        let is_first = trial.attempts == 0 && trial.origin.is_judged();
        // A trial that would start over does not pause.
        let pauses = is_first && self.restart_of(number) != Restart::StartsOver;
        let rung = || pauses.then(|| self.pruner.first_rung(number)).flatten();
        let donor = self.state.donor_checkpoint(trial);
        let assignment = Assignment {
            trial: number,
            attempt,
            slot: self.slots[index].slot.clone(),
            params: trial.params.clone(),
            seed: seed_of(&self.spec, trial),
            resume: trial.resumable_checkpoint().or(donor.map(|(_, saved)| saved)).cloned(),
            cloned_from: donor.map(|(from, _)| from),
            until: trial.until.or_else(rung),
            past_its_end: trial.continued.is_some(),
            milestones: self.milestones.clone(),
            // What the other reported up to the checkpoint is not this trial's to report.
            reported: trial.last().map(|(step, _)| step).max(donor.map(|(_, saved)| saved.step)),
            rows_at_once: self.halving_of(trial).map(BatchHalving::rows),
            node: None,
        };
        let shares = self.spec.devices.automatic_concurrency;
        let expected = shares.then(|| self.memory_estimate(trial)).flatten();
        if self.state.finished.is_some() {
            let reason = "its budget leaves room for more".to_owned();
            self.emit(Event::Study(StudyEvent::Reopened { reason }));
        }
        let resume = assignment.resume.as_ref();
        let resume = resume.map(|checkpoint| (checkpoint.step, checkpoint.path.clone()));
        let device_micros = self.budgets.meter.start(&assignment.slot.devices, self.now);
        self.emit(Event::of(
            number,
            AttemptEvent::Started {
                attempt,
                slot: assignment.slot.clone(),
                resume: resume.clone(),
                until: assignment.until,
                rows_at_once: assignment.rows_at_once.map(|rows| rows.train as u64),
                device_micros,
            },
        ));
        let mut running = RunningAttempt::new(number, attempt, self.now, expected);
        if let Some(trial) = self.state.trial(number).filter(|_| attempt.0 > 0) {
            running.superseding = Superseding::of(trial, resume);
        }
        let slot = &mut self.slots[index];
        slot.warm = true;
        slot.running = Some(running);
        let is_resumed = assignment.resume.is_some();
        self.effects.push(Effect::Launch(assignment));
        if !is_resumed {
            self.remark_on_lost_steps(number, attempt);
        }
    }

    /// Tells once in a run that pauses of a command without checkpoints cost what it did before.
    fn remark_on_lost_steps(&mut self, number: TrialNumber, attempt: AttemptNumber) {
        let last = self.state.trial(number).and_then(|trial| trial.decisions.last());
        let was_paused = last.is_some_and(|last| matches!(last.verdict, Decision::Pause(_)));
        let is_known = || self.remarked.iter().any(|(_, kind)| *kind == RemarkKind::StartedOver);
        let is_command = matches!(self.spec.program, Program::Command { .. });
        if is_command && was_paused && !is_known() {
            let why = format!(
                "it had saved no checkpoint when it was paused ({})",
                self.where_pauses_are_described()
            );
            self.remark(number, attempt, &Remark::new(RemarkKind::StartedOver, why));
        }
    }

    /// Tells once in a run that a command continued after it was asked to pause, and for as long as
    /// it had run up to the pause: one that reads the answer a step later has paused.
    pub(super) fn remark_on_passed_pause(&mut self, number: TrialNumber, attempt: AttemptNumber) {
        let is_known = || self.remarked.iter().any(|(_, kind)| *kind == RemarkKind::RanOn);
        if !matches!(self.spec.program, Program::Command { .. }) || is_known() {
            return;
        }
        let Some(trial) = self.state.trial(number) else { return };
        let is_pause = |at: &&DecisionAtStep| {
            matches!(at.verdict, Decision::Pause(_))
                && trial.until.is_some_and(|until| until <= at.step)
        };
        let pause = trial.decisions.iter().find(is_pause);
        let pause = pause.map(|pause| pause.step);
        let earlier = trial.decisions.iter().filter(|at| matches!(at.verdict, Decision::Pause(_)));
        let before = earlier.map(|at| at.step).filter(|step| Some(*step) < pause).max();
        let is_past = |step: &u64| {
            let most = step.saturating_add(step - before.unwrap_or(0));
            trial.last_step().is_some_and(|last| {
                last >= most || config::max_resource(&self.spec).is_some_and(|full| last >= full)
            })
        };
        let pause = pause.filter(|step| trial.last_step() > Some(*step)).filter(is_past);
        if let (Some(pause), Some(last)) = (pause, trial.last_step()) {
            let why = format!(
                "it was asked to pause at {} and continued to {last}; read the answer to each \
                 report on stdin, or the step to pause at in HPSEARCH_UNTIL ({})",
                self.spec.step.at(pause),
                self.where_pauses_are_described()
            );
            self.remark(number, attempt, &Remark::new(RemarkKind::RanOn, why));
        }
    }

    fn where_pauses_are_described(&self) -> &'static str {
        match self.pruner.population() {
            Some(_) => "docs/commands.md shows how",
            None => {
                "docs/commands.md shows how; with `mode = \"stop\"` in [pruner] no trial is paused"
            }
        }
    }
}
