//! What a trial tells: reports and their verdicts, checkpoints, and how its attempts end.

use std::borrow::Cow;

use super::{Effect, Engine, Leaving};
use crate::pruners::Case;
use crate::study::checkpoint::Checkpoint;
use crate::study::configuration::for_pruners;
use crate::study::constraint;
use crate::study::decision::{Reason, Verdict};
use crate::study::event::{AttemptEnd, Event};
use crate::study::history::History;
use crate::study::metric::Metrics;
use crate::study::remark::Remark;
use crate::study::spec::{FailureCause, Program};
use crate::study::time::Timestamp;
use crate::study::trial::{AttemptNumber, TrialNumber, TrialState};

impl Engine {
    pub(super) fn report(
        &mut self,
        number: TrialNumber,
        attempt: AttemptNumber,
        step: u64,
        metrics: Metrics,
    ) {
        let Some(slot) = self.slot_of(number, attempt) else { return };
        self.hear(slot);
        let Some(trial) = self.view.trial(number) else { return };
        let judged = trial.curve.binary_search_by_key(&step, |(at, _)| *at).is_ok();
        let earlier = trial.decision_at(step).map(|decision| decision.verdict.clone());
        let (trial_goes_past, ends_at) = (trial.continued.and(trial.until), trial.until);
        let is_judged = trial.origin.is_judged();
        let counts = metrics.get(&self.spec.objective().metric).is_some();
        let taken =
            self.busy[slot].as_mut().map(|busy| busy.reports.take(self.spec.step, step, metrics));
        let Some((metrics, remark)) = taken else { return };
        if let Some(remark) = remark {
            self.remark(number, attempt, &remark);
        }
        self.emit(Event::Reported { trial: number, attempt, step, metrics });
        self.note_report(slot, number, step);
        if !counts {
            return;
        }
        // A decision once given at a step is never asked for again: a rerun hears what was said before.
        let verdict = match trial_goes_past {
            // It ended before, and its user wants to see more of it: no pruner has a say.
            Some(until) if step < until => Verdict::GO_ON,
            Some(until) => Verdict::Pause(Reason::Reached(self.spec.step.at(until))),
            None if !is_judged => Verdict::GO_ON,
            // A pause that its pruner has lifted since is not one: a trial without a checkpoint comes by there again.
            None if judged => earlier
                .filter(|verdict| {
                    !matches!(verdict, Verdict::Pause(_)) || ends_at.is_some_and(|end| end <= step)
                })
                .unwrap_or(Verdict::GO_ON),
            None => self.judge(number, step),
        };
        if let (false, None, Some(_)) = (judged, trial_goes_past, verdict.reason()) {
            self.emit(Event::Decided { trial: number, step, verdict: verdict.clone() });
        }
        self.drop_superseded(number);
        let leaving = match &verdict {
            Verdict::Continue(_) => None,
            Verdict::Pause(_) if trial_goes_past.is_some() => Some(Leaving::Arrived),
            Verdict::Pause(reason) => Some(Leaving::Pausing(reason.to_string())),
            Verdict::Stop(reason) => Some(Leaving::Stopping(reason.to_string())),
        };
        if let (Some(leaving), Some(busy)) = (leaving, self.busy[slot].as_mut()) {
            // A trial that is leaving for another reason keeps it: only its first word counts.
            busy.leaving.get_or_insert((leaving, self.now.after(self.grace)));
        }
        // What its user says is no decision to be repeated to a rerun.
        let verdict = self.pause_at_report(slot).unwrap_or(verdict);
        self.effects.push(Effect::Answer { trial: number, attempt, verdict });
    }

    /// Notes what is odd about a trial's words. The first of its kind is told at once, the others are counted.
    pub(super) fn remark(&mut self, number: TrialNumber, attempt: AttemptNumber, remark: &Remark) {
        let Some(busy) = self.slot_of(number, attempt).and_then(|slot| self.busy[slot].as_mut())
        else {
            return;
        };
        let (count, text) = busy.remarks.entry(remark.kind).or_default();
        *count += 1;
        *text = remark.text();
        let (count, text) = (*count, text.clone());
        if count == 1 && self.remarked.insert((number, remark.kind)) {
            self.emit(Event::Remarked { trial: number, attempt, kind: remark.kind, text, count });
        }
    }

    /// A trial that says something has not stalled.
    fn hear(&mut self, slot: usize) {
        if let Some(busy) = self.busy[slot].as_mut() {
            busy.heard = self.now;
        }
    }

    /// The pruner's verdict about a report that is in the state already.
    pub(super) fn judge(&mut self, number: TrialNumber, step: u64) -> Verdict {
        let Some(trial) = self.view.trial(number) else { return Verdict::GO_ON };
        let direction = self.view.direction();
        match &mut self.window {
            Some(window) => {
                let Some(known) = window.known_of(trial) else { return Verdict::GO_ON };
                self.pruner.judge(&Case {
                    space: &self.spec.space,
                    history: History::of(&known.trials, direction).with_clock(self.spec.step),
                    trial,
                    step,
                })
            }
            None => {
                let trials = for_pruners(&self.view.trials);
                // Only the state itself tells what changed lately, which spares pruners a look at all of it.
                let history = match &trials {
                    Cow::Borrowed(_) => History::new(&self.view),
                    Cow::Owned(trials) => History::of(trials, direction),
                };
                let history = history.with_clock(self.spec.step);
                self.pruner.judge(&Case { space: &self.spec.space, history, trial, step })
            }
        }
    }

    pub(super) fn checkpoint(
        &mut self,
        number: TrialNumber,
        attempt: AttemptNumber,
        checkpoint: Checkpoint,
        system: Option<Timestamp>,
    ) {
        let Some(slot) = self.slot_of(number, attempt) else { return };
        self.hear(slot);
        let Checkpoint { step, path, bytes } = checkpoint;
        self.forget_refusals();
        self.emit(Event::CheckpointSaved {
            trial: number,
            step,
            path: path.clone(),
            bytes,
            system,
        });
        self.forget_original(number, &path);
        self.take_in_checkpoint(number, slot, &path);
    }

    pub(super) fn ended(
        &mut self,
        number: TrialNumber,
        attempt: AttemptNumber,
        end: AttemptEnd,
        message: Option<String>,
    ) {
        let Some(slot) = self.slot_of(number, attempt) else { return };
        let Some(busy) = self.busy[slot].take() else { return };
        let leaving = match busy.leaving.map(|(leaving, _)| leaving) {
            // A report was on its way when it was asked to leave: what its pruner said to that stays said.
            Some(
                leaving @ (Leaving::TimedOut(_) | Leaving::Draining | Leaving::Holding { .. }),
            ) => Some(self.last_word(number).unwrap_or(leaving)),
            leaving => leaving,
        };
        // Who is leaving anyway needs nothing more.
        let end = if leaving.is_some() && end == AttemptEnd::Refused {
            AttemptEnd::Interrupted
        } else {
            end
        };
        let end = match (&leaving, end) {
            (Some(Leaving::TimedOut(_)), AttemptEnd::Failed(_) | AttemptEnd::Interrupted) => {
                AttemptEnd::Failed(FailureCause::Timeout)
            }
            (
                Some(Leaving::Pausing(_)),
                AttemptEnd::Completed | AttemptEnd::Failed(_) | AttemptEnd::Interrupted,
            ) => AttemptEnd::Paused,
            (
                Some(Leaving::Stopping(_)),
                AttemptEnd::Completed | AttemptEnd::Failed(_) | AttemptEnd::Interrupted,
            ) => AttemptEnd::Stopped,
            (
                Some(Leaving::Arrived),
                AttemptEnd::Paused
                | AttemptEnd::Stopped
                | AttemptEnd::Failed(_)
                | AttemptEnd::Interrupted,
            ) => AttemptEnd::Completed,
            (Some(Leaving::Holding { told: true }), AttemptEnd::Completed) => AttemptEnd::Paused,
            (
                Some(Leaving::Holding { .. }),
                AttemptEnd::Stopped | AttemptEnd::Failed(_) | AttemptEnd::Interrupted,
            ) => AttemptEnd::Paused,
            (Some(Leaving::Draining), AttemptEnd::Failed(_)) => AttemptEnd::Interrupted,
            (_, end) => end,
        };
        for (kind, (count, text)) in busy.remarks {
            if count > 1 {
                self.emit(Event::Remarked { trial: number, attempt, kind, text, count });
            }
        }
        let message = self.words_of_starved(number, &end, message);
        let device_micros = Some(self.meter.end(&self.slots[slot].device, self.now));
        let memory = self.packed.memory_used(&self.slots[slot].device, busy.peak);
        self.emit(Event::AttemptEnded {
            trial: number,
            attempt,
            end: end.clone(),
            reason: message.clone(),
            device_micros,
            memory,
        });
        let evicted = self.note_end(slot, number, &end);
        if !matches!(end, AttemptEnd::Refused | AttemptEnd::Interrupted) {
            self.forget_refusals();
        }
        match (end, leaving) {
            // Whatever its process made of it in its last moment: its user was told that it is killed.
            (_, Some(Leaving::Killed)) => self.fail(number, "killed on request".to_owned()),
            (AttemptEnd::Completed, _) => self.complete_with(number, message),
            (AttemptEnd::Paused, _) if self.has_arrived(number) => self.complete(number),
            (AttemptEnd::Paused, Some(Leaving::Holding { .. })) if evicted.is_some() => {
                self.requeue(number, &evicted.unwrap_or_default())
            }
            (AttemptEnd::Paused, Some(Leaving::Holding { .. })) if !self.is_open(slot) => {
                let why = format!("left {}", self.slots[slot].device);
                self.requeue(number, &why);
            }
            (AttemptEnd::Paused, Some(Leaving::Holding { .. })) => {
                self.requeue(number, "resumed by you")
            }
            (AttemptEnd::Paused, leaving) => {
                let reason = match leaving {
                    Some(Leaving::Pausing(reason)) => reason,
                    _ => message.unwrap_or_else(|| "paused".to_owned()),
                };
                self.emit(Event::TrialPaused { trial: number, reason, hold: self.hold_of(number) });
            }
            (AttemptEnd::Stopped, leaving) => {
                let reason = match leaving {
                    Some(Leaving::Stopping(reason)) => Some(reason),
                    _ => message,
                };
                self.finish_trial(number, TrialState::Pruned, None, reason);
            }
            (AttemptEnd::Diverged, _) => {
                let detail = message.map_or_else(String::new, |message| format!(": {message}"));
                self.end_without_value(number, TrialState::Pruned, format!("diverged{detail}"));
            }
            (AttemptEnd::Refused, _) => {
                let why = message.unwrap_or_else(|| "it did not say what".to_owned());
                self.note_refusal(&why);
                self.requeue(number, &format!("the machine refused what it needs: {why}"));
            }
            (AttemptEnd::Interrupted | AttemptEnd::Lost, _) => self.requeue(number, "interrupted"),
            (AttemptEnd::Failed(cause), leaving) => {
                let message = match leaving {
                    Some(Leaving::TimedOut(why)) => why,
                    _ => message.unwrap_or_else(|| "failed without a word".to_owned()),
                };
                self.retry_or_fail(number, cause, message);
            }
        }
        self.answer_killers(number);
    }

    /// What its pruner said to a trial's last report, if its turn ends with that. Such a trial must not go on from its checkpoint:
    /// the step would not be reported again, and nobody would hear of it.
    fn last_word(&self, number: TrialNumber) -> Option<Leaving> {
        let trial = self.view.trial(number).filter(|trial| trial.continued.is_none())?;
        let (step, _) = trial.last()?;
        match &trial.decision_at(step)?.verdict {
            Verdict::Stop(reason) => Some(Leaving::Stopping(reason.to_string())),
            // Otherwise it is the pause that this attempt was resumed from.
            Verdict::Pause(reason) if trial.until.is_some_and(|until| until <= step) => {
                Some(Leaving::Pausing(reason.to_string()))
            }
            Verdict::Pause(_) | Verdict::Continue(_) => None,
        }
    }

    /// Whether a trial that went on past its end is where it was to go.
    fn has_arrived(&self, number: TrialNumber) -> bool {
        let Some(trial) = self.view.trial(number).filter(|trial| trial.continued.is_some()) else {
            return false;
        };
        trial.until.zip(trial.last()).is_some_and(|(until, (step, _))| step >= until)
    }

    /// What there is to say of a trial that was to go on past its end, and ended before it was there.
    fn short_of_asked(&self, number: TrialNumber) -> Option<String> {
        let trial = self.view.trial(number).filter(|trial| trial.continued.is_some())?;
        let (until, (step, _)) =
            trial.until.zip(trial.last()).filter(|(until, (step, _))| step < until)?;
        let clock = self.spec.step.as_str();
        let where_to_look = if matches!(self.spec.program, Program::Command { .. }) {
            ": a command finds the step in HPSEARCH_UNTIL"
        } else {
            ""
        };
        Some(format!("ended at {clock} {step}, before {until}{where_to_look}"))
    }

    pub(super) fn complete(&mut self, number: TrialNumber) {
        self.complete_with(number, None);
    }

    /// The same with what there is to say if it has no value.
    fn complete_with(&mut self, number: TrialNumber, remark: Option<String>) {
        let value = self.view.trial(number).and_then(|trial| self.view.value_of(trial));
        match value {
            Some(value) => self.finish_trial(
                number,
                TrialState::Complete,
                Some(value),
                self.short_of_asked(number),
            ),
            None => {
                let metric = &self.spec.objective().metric;
                let others: Vec<String> = self.view.trial(number).map_or_else(Vec::new, |trial| {
                    trial.last_metrics.iter().map(|(name, _)| format!("`{name}`")).collect()
                });
                let line = format!(
                    "it ended without a line `@hpsearch {{\"step\": .., \"{metric}\": ..}}`"
                );
                let why = match (remark, others.is_empty()) {
                    (Some(remark), _) => format!("reported no value: {remark}"),
                    (None, true) => format!("reported no value: {line}"),
                    (None, false) => {
                        let others = others.join(", ");
                        format!(
                            "reported no value: it reported {others} but never `{metric}`, the study's metric; let the program print that too, or name another in [study]"
                        )
                    }
                };
                self.failed_in_a_row += 1;
                self.fail(number, why);
            }
        }
    }

    /// A trial that left before its end waits for a slot, or for its user if that is who wants it to.
    pub(super) fn requeue(&mut self, number: TrialNumber, why: &str) {
        if let Some(hold) = self.hold_of(number) {
            return self.hold(number, hold);
        }
        let until = self.view.trial(number).and_then(|trial| trial.until);
        self.emit(Event::TrialQueued {
            trial: number,
            until,
            reason: format!("{why}; goes on {}", self.place_of(number)),
        });
    }

    pub(super) fn retry_or_fail(
        &mut self,
        number: TrialNumber,
        cause: FailureCause,
        message: String,
    ) {
        let message = match cause {
            FailureCause::Oom => match self.go_on_with_fewer_rows(number, message) {
                Ok(()) => return,
                Err(message) => message,
            },
            _ => message,
        };
        let failures = self
            .view
            .trial(number)
            .map_or(0, |trial| trial.failures.saturating_sub(self.halvings_of(number)));
        if self.spec.retry.on.contains(&cause) && failures <= self.spec.retry.max {
            self.requeue(
                number,
                &format!("{message} (retry {failures} of {})", self.spec.retry.max),
            );
        } else {
            // A configuration that is too large, or too slow, says nothing about the program.
            if !matches!(cause, FailureCause::Oom | FailureCause::Timeout) {
                self.failed_in_a_row += 1;
            }
            self.fail(number, message);
        }
    }

    pub(super) fn fail(&mut self, number: TrialNumber, reason: String) {
        self.end_without_value(number, TrialState::Failed, reason);
    }

    /// What went on past its end, and came to nothing there, is what it was.
    fn end_without_value(&mut self, number: TrialNumber, state: TrialState, reason: String) {
        let before = self
            .view
            .trial(number)
            .and_then(|trial| Some((trial.continued?, self.view.value_of(trial))));
        let (state, value, reason) = match before {
            None => (state, None, reason),
            Some((TrialState::Complete, value)) => {
                (TrialState::Complete, value, format!("went on past its end, and then: {reason}"))
            }
            Some((before, _)) => {
                (before, None, format!("went on past its end, and then: {reason}"))
            }
        };
        self.finish_trial(number, state, value, Some(reason));
    }

    /// Says by how much what a trial measured last breaks the study's limits, if it does.
    fn broken_limits(&mut self, number: TrialNumber) -> Option<String> {
        let metrics = &self.view.trial(number)?.last_metrics;
        let violation = constraint::violation(&self.spec.constraints, metrics)
            .filter(|violation| *violation > 0.0)?;
        let reason = constraint::exceeded(&self.spec.constraints, metrics);
        self.emit(Event::LimitsBroken { trial: number, violation, reason: reason.clone() });
        Some(reason)
    }

    pub(super) fn finish_trial(
        &mut self,
        number: TrialNumber,
        state: TrialState,
        value: Option<f64>,
        reason: Option<String>,
    ) {
        let broken = if state == TrialState::Complete { self.broken_limits(number) } else { None };
        let is_nan = state == TrialState::Complete && value.is_some_and(f64::is_nan);
        let reason = broken
            .or(reason)
            .or_else(|| is_nan.then(|| "its value is NaN: it cannot be the best".to_owned()));
        if state != TrialState::Failed {
            self.failed_in_a_row = 0;
        }
        self.emit(Event::TrialFinished { trial: number, state, value, reason });
        self.tidy();
        self.mind_limits();
    }
}
