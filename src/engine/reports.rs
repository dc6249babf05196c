//! Messages of running trials: reports, which are answered with decisions, remarks and checkpoints.

use super::attempt::Leaving;
use super::{Effect, Engine};
use crate::study::checkpoint::Checkpoint;
use crate::study::decision::{Decision, Reason};
use crate::study::event::{AttemptEvent, CheckpointEvent, DecisionEvent, Event};
use crate::study::metric::Metrics;
use crate::study::remark::Remark;
use crate::study::time::Timestamp;
use crate::study::trial::{AttemptNumber, Trial, TrialNumber};

/// Whether the pruner is skipped for a report.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Judged {
    /// The step was reported before: a rerun gets the recorded decision again.
    Before(Decision),
    /// The trial is a replicate or belongs to a race.
    Never,
    /// It continues past its end, up to this step.
    PastItsEnd(u64),
    Now,
}

impl Judged {
    /// `waits`: whether the pruner judges the message that completes the objectives of a step.
    pub fn of(trial: &Trial, step: u64, waits: bool) -> Self {
        if let Some(until) = trial.continued.and(trial.until) {
            return Judged::PastItsEnd(until);
        }
        if !trial.origin.is_judged() {
            return Judged::Never;
        }
        let decision = trial.decision_at(step).map(|decision| decision.verdict.clone());
        // The report of a decision may be superseded.
        if !trial.has_reported(step) && decision.is_none() {
            return Judged::Now;
        }
        if waits && decision.is_none() && trial.values_at(step).iter().any(Option::is_none) {
            return Judged::Now;
        }
        // A pause that the pruner has since lifted does not count: a trial without a checkpoint
        // reaches the step again.
        let stands = |verdict: &Decision| {
            !matches!(verdict, Decision::Pause(_)) || trial.until.is_some_and(|end| end <= step)
        };
        Judged::Before(decision.filter(stands).unwrap_or(Decision::CONTINUE))
    }
}

impl Engine {
    pub(super) fn report(
        &mut self,
        number: TrialNumber,
        attempt: AttemptNumber,
        step: u64,
        metrics: Metrics,
    ) {
        let Some(slot) = self.hear(number, attempt) else { return };
        let Some(trial) = self.state.trial(number) else { return };
        // The state that it took over is another trial's, and was reported by that.
        let left = trial.segments.last().map(|segment| segment.start);
        if left.is_some_and(|left| step <= left) && !trial.has_reported(step) {
            let verdict = Decision::CONTINUE;
            return self.effects.push(Effect::Answer { trial: number, attempt, verdict });
        }
        let judged = Judged::of(trial, step, self.pruner.waits_for_all_objectives());
        let counts = self.spec.counts(&metrics);
        if self.is_stored(slot, step, &metrics) {
            if counts && let Judged::Before(verdict) = judged {
                self.effects.push(Effect::Answer { trial: number, attempt, verdict });
            }
            return;
        }
        let Some(running) = &mut self.slots[slot].running else { return };
        running.superseding.note_report(step, &metrics, &self.spec.objectives);
        let (metrics, remark) = running.reports.take(self.spec.step, step, metrics);
        let late = running.late(step, &metrics);
        if let Some(remark) = remark {
            self.remark(number, attempt, &remark);
        }
        self.emit(Event::of(number, AttemptEvent::Reported { attempt, step, metrics, late }));
        self.note_report(slot, number, step);
        if !counts {
            return;
        }
        let verdict = match &judged {
            Judged::PastItsEnd(until) if step >= *until => {
                Decision::Pause(Reason::Reached(self.spec.step.at(*until)))
            }
            Judged::PastItsEnd(_) | Judged::Never => Decision::CONTINUE,
            Judged::Before(verdict) => verdict.clone(),
            Judged::Now => self.judge(number, step),
        };
        if judged == Judged::Now && verdict.reason().is_some() {
            self.emit(Event::of(number, DecisionEvent::Decided { step, verdict: verdict.clone() }));
        }
        self.drop_superseded(number);
        let leaving = match &verdict {
            Decision::Continue(_) => None,
            Decision::Pause(_) if matches!(judged, Judged::PastItsEnd(_)) => Some(Leaving::Arrived),
            Decision::Pause(reason) => Some(Leaving::Pausing(reason.to_string())),
            Decision::Stop(_) if verdict.completes() => Some(Leaving::Arrived),
            Decision::Stop(reason) => Some(Leaving::Stopping(reason.to_string())),
        };
        if let (Some(leaving), Some(running)) = (leaving, &mut self.slots[slot].running) {
            // The first reason to leave is kept.
            running.leaving.get_or_insert((leaving, self.now.after(self.grace)));
        }
        // A user's pause is not a decision, and is not repeated to a rerun.
        let verdict = self.pause_at_report(slot).unwrap_or(verdict);
        self.effects.push(Effect::Answer { trial: number, attempt, verdict });
    }

    /// Records a remark about a trial's lines: the first of its kind at once, others are counted.
    pub(super) fn remark(&mut self, trial: TrialNumber, attempt: AttemptNumber, remark: &Remark) {
        let Some(slot) = self.slots.of_attempt(trial, attempt) else { return };
        let Some(running) = &mut self.slots[slot].running else { return };
        let (kind, text) = (remark.kind, remark.text());
        let (count, last) = running.remarks.entry(kind).or_default();
        *count += 1;
        last.clone_from(&text);
        if *count == 1 && self.remarked.insert((trial, kind)) {
            self.emit(Event::of(trial, AttemptEvent::Remarked { attempt, kind, text, count: 1 }));
        }
    }

    /// Records heartbeats of attempts, without judging the deadlines of others: a driver that took
    /// in nothing for a while does so before it steps the inputs that have arrived meanwhile.
    pub fn note_heartbeats(
        &mut self,
        now: Timestamp,
        attempts: impl IntoIterator<Item = (TrialNumber, AttemptNumber)>,
    ) {
        self.now = now;
        attempts.into_iter().for_each(|(trial, attempt)| self.note_heard(trial, attempt));
    }

    /// Records a heartbeat of an attempt.
    pub(super) fn note_heard(&mut self, trial: TrialNumber, attempt: AttemptNumber) {
        // It may have left its slot already.
        let _slot = self.hear(trial, attempt);
    }

    /// Records a heartbeat, and returns the attempt's slot.
    fn hear(&mut self, trial: TrialNumber, attempt: AttemptNumber) -> Option<usize> {
        let slot = self.slots.of_attempt(trial, attempt)?;
        self.slots[slot].running.as_mut()?.heard = self.now;
        Some(slot)
    }

    pub(super) fn checkpoint(
        &mut self,
        trial: TrialNumber,
        attempt: AttemptNumber,
        checkpoint: Checkpoint,
        system: Option<Timestamp>,
    ) {
        let Some(slot) = self.hear(trial, attempt) else { return };
        let Checkpoint { step, path, bytes, digest } = checkpoint;
        self.refusals.forget();
        let is_resent = self.slots[slot].running.as_ref().is_some_and(|on| on.is_adopted)
            && self.state.trial(trial).is_some_and(|trial| {
                trial.checkpoints.iter().any(|known| (known.step, &known.path) == (step, &path))
            });
        if is_resent {
            return;
        }
        if let Some(running) = &mut self.slots[slot].running {
            running.superseding.note_checkpoint(step, &path);
        }
        self.emit(Event::of(
            trial,
            CheckpointEvent::Saved { step, path: path.clone(), bytes, system, digest },
        ));
        self.forget_original(trial, &path);
        self.record_checkpoint(trial, slot, &path);
    }
}
