//! The ends of attempts and their consequences: trials finish, pause, are requeued, retried, or
//! fail.

use std::path::PathBuf;

use super::Engine;
use super::attempt::{Leaving, RunningAttempt};
use super::superseding::{Superseded, Superseding};
use crate::config;
use crate::pruners::is_population;
use crate::study::constraint;
use crate::study::decision::{Decision, Reason};
use crate::study::event::{AttemptEnd, AttemptEvent, DecisionEvent, Event, StateEvent};
use crate::study::program::{MetricSources, Program};
use crate::study::remark::without_metric;
use crate::study::spec::{FailureCause, Objective};
use crate::study::state::TrialResult;
use crate::study::suggestion::quoted;
use crate::study::trial::{AttemptNumber, EndedTrial, Trial, TrialNumber, TrialState};

impl Engine {
    pub(super) fn ended(
        &mut self,
        number: TrialNumber,
        attempt: AttemptNumber,
        end: AttemptEnd,
        message: Option<String>,
    ) {
        let Some(slot) = self.slots.of_attempt(number, attempt) else { return };
        let is_to_pause =
            |running: &RunningAttempt| matches!(running.leaving, Some((Leaving::Pausing(_), _)));
        if self.slots[slot].running.as_ref().is_some_and(is_to_pause) {
            self.remark_on_passed_pause(number, attempt);
        }
        let leaves_too_early = end == AttemptEnd::Completed && self.leaves_too_early(number);
        let Some(running) = self.slots[slot].running.take() else { return };
        let devices = self.slots[slot].devices().clone();
        if self.slots[slot].closed {
            // What is left of its agents can form another group.
            self.group_agents();
        }
        let leaving = running.leaving.map(|(leaving, _)| match leaving {
            // A report arrived after it was asked to leave: its pruner's decision holds.
            Leaving::TimedOut(_)
            | Leaving::Draining
            | Leaving::Holding { .. }
            | Leaving::AgentLeft => self.final_decision(number).unwrap_or(leaving),
            leaving => leaving,
        });
        let (end, message) = match &leaving {
            Some(Leaving::Pausing(_))
                if end == AttemptEnd::Completed && self.is_past_its_rungs(number) =>
            {
                (end, message)
            }
            Some(leaving) => leaving.settle(end, message),
            None => (end, message),
        };
        for (kind, (count, text)) in running.remarks {
            if count > 1 {
                self.emit(Event::of(number, AttemptEvent::Remarked { attempt, kind, text, count }));
            }
        }
        let message = self.with_rows(number, &end, message);
        let superseded = self.superseded_by(&running.superseding, number, Some(&end));
        let device_micros = Some(self.budgets.meter.end(&devices, self.now));
        self.emit(Event::of(
            number,
            AttemptEvent::Ended {
                attempt,
                end: end.clone(),
                reason: message.clone(),
                device_micros,
                memory: self.sharing.memory_used(devices.first(), running.peak),
                superseded: superseded.reports,
            },
        ));
        self.drop_all(superseded.checkpoints);
        self.forget_gone_of(number);
        let evicted = self.note_end(slot, number, &end);
        if !matches!(end, AttemptEnd::Refused | AttemptEnd::Interrupted) {
            self.refusals.forget();
        }
        let is_back = self.is_open(slot) && leaving != Some(Leaving::AgentLeft);
        let left = match evicted {
            Some(why) => why,
            None if !is_back => format!("left {devices}"),
            None => "resumed by you".to_owned(),
        };
        if leaves_too_early && end == AttemptEnd::Completed && leaving.is_none() {
            self.requeue(number, "left where it was to pause, and was told to continue");
        } else {
            self.follow_end(number, end, leaving, message, &left);
        }
        self.release_held(number);
        self.answer_kill_requests(number);
    }

    /// What becomes of a trial whose attempt has ended; `left`: why it is queued again if it had to
    /// leave its slot.
    fn follow_end(
        &mut self,
        number: TrialNumber,
        end: AttemptEnd,
        leaving: Option<Leaving>,
        message: Option<String>,
        left: &str,
    ) {
        match (end, leaving) {
            // However the process ended: the user was told that it is killed.
            (_, Some(Leaving::Killed)) => self.fail(number, "killed on request".to_owned()),
            (AttemptEnd::Completed, _) => self.complete(number, message),
            (AttemptEnd::Paused, _) if self.has_arrived(number) => self.complete(number, None),
            (AttemptEnd::Paused, Some(Leaving::Holding { .. } | Leaving::AgentLeft)) => {
                self.requeue(number, left);
            }
            (AttemptEnd::Paused, _) => {
                let reason = message.unwrap_or_else(|| "paused".to_owned());
                self.emit(Event::of(
                    number,
                    StateEvent::Paused { reason, hold: self.hold_of(number) },
                ));
            }
            (AttemptEnd::Stopped, _) => {
                self.finish_trial(number, TrialState::Pruned, TrialResult::default(), message);
            }
            (AttemptEnd::Diverged, _) if self.is_replaceable(number) => {
                let detail = message.map_or_else(String::new, |message| format!(": {message}"));
                let reason = format!("diverged{detail}; waits to be replaced");
                let hold = self.hold_of(number);
                self.emit(Event::of(number, StateEvent::Paused { reason, hold }));
            }
            (AttemptEnd::Diverged, _) => {
                let detail = message.map_or_else(String::new, |message| format!(": {message}"));
                self.end_without_value(number, TrialState::Pruned, format!("diverged{detail}"));
            }
            (AttemptEnd::Refused, _) => {
                let why = message.unwrap_or_else(|| "no reason was given".to_owned());
                self.refusals.note(&why, self.now);
                self.requeue(number, &format!("the machine refused what it needs: {why}"));
            }
            (AttemptEnd::Interrupted | AttemptEnd::Lost, _) => self.requeue(number, "interrupted"),
            (AttemptEnd::Failed(cause), _) => {
                let message = message.unwrap_or_else(|| "failed without a message".to_owned());
                self.retry_or_fail(number, cause, message);
            }
        }
    }

    /// What an attempt supersedes if it ends like this; `None`: as far as it has come. A trial that
    /// fails to continue past its end has what it had before again, and a member of a population
    /// keeps the reports of all its segments, and its checkpoints.
    pub(super) fn superseded_by(
        &self,
        superseding: &Superseding,
        number: TrialNumber,
        end: Option<&AttemptEnd>,
    ) -> Superseded {
        let is_completed = end.is_none_or(|end| *end == AttemptEnd::Completed);
        let counts = |trial: &&Trial| {
            (trial.continued.is_none() || is_completed) && trial.segments.is_empty()
        };
        let Some(trial) = self.state.trial(number).filter(counts) else {
            return Superseded::default();
        };
        let checkpoints = superseding.checkpoints(trial, end);
        let is_member = is_population(&self.spec.pruner);
        Superseded {
            reports: superseding.reports(&self.spec.objectives, end),
            checkpoints: checkpoints
                .filter(|_| !is_member)
                .map(|saved| (number, saved.path.clone()))
                .collect(),
        }
    }

    /// The pruner's decision on a trial's last report, if it ends the trial's turn. Such a trial
    /// must not continue from its checkpoint: it would not report the step again, and would miss
    /// the decision.
    pub(super) fn final_decision(&self, number: TrialNumber) -> Option<Leaving> {
        let trial = self.state.trial(number).filter(|trial| trial.continued.is_none())?;
        let step = trial.last_step()?;
        match &trial.decision_at(step)?.verdict {
            verdict if verdict.completes() => Some(Leaving::Arrived),
            Decision::Stop(reason) => Some(Leaving::Stopping(reason.to_string())),
            // Otherwise it is the pause from which this attempt was resumed.
            Decision::Pause(reason) if trial.until.is_some_and(|until| until <= step) => {
                Some(Leaving::Pausing(reason.to_string()))
            }
            Decision::Pause(_) | Decision::Continue(_) => None,
        }
    }

    /// For a trial that continued past its end: the requested step, and the reached one.
    fn past_its_end(&self, number: TrialNumber) -> Option<(u64, u64)> {
        let trial = self.state.trial(number).filter(|trial| trial.continued.is_some())?;
        Some((trial.until?, trial.last()?.0))
    }

    /// Whether a trial that was to pause at a rung has reported the last step of a full trial: it
    /// ran past the pause, and nothing is left to continue.
    fn is_past_its_rungs(&self, number: TrialNumber) -> bool {
        let Some(full) = config::max_resource(&self.spec) else { return false };
        let Some(trial) = self.state.trial(number) else { return false };
        let last = trial.decisions.last().map(|last| &last.verdict);
        matches!(last, Some(Decision::Pause(Reason::Rung { .. })))
            && trial.last_step().is_some_and(|step| step >= full)
    }

    pub(super) fn has_arrived(&self, number: TrialNumber) -> bool {
        self.past_its_end(number).is_some_and(|(until, step)| step >= until)
    }

    /// The message about a trial that continued past its end and stopped short of the requested
    /// step.
    fn short_of_asked(&self, number: TrialNumber) -> Option<String> {
        let (until, step) = self.past_its_end(number).filter(|(until, step)| step < until)?;
        let step_unit = self.spec.step.as_str();
        let where_to_look = match self.spec.program {
            Program::Command { .. } => ": a command finds the step in HPSEARCH_UNTIL",
            _ => "",
        };
        Some(format!("ended at {step_unit} {step}, before {until}{where_to_look}"))
    }

    /// Completes a trial; `remark`: the message if it has no value.
    pub(super) fn complete(&mut self, number: TrialNumber, remark: Option<String>) {
        let Some(trial) = self.state.trial(number) else { return };
        let result = self.state.result_of(trial);
        if result.0.is_some() || !result.1.is_empty() {
            let last = trial.decisions.last().map(|last| &last.verdict);
            let plateau = last.filter(|last| last.completes() && trial.continued.is_none());
            let plateau = plateau.and_then(Decision::reason).map(ToString::to_string);
            let reason = self.short_of_asked(number).or(plateau);
            return self.finish_trial(number, TrialState::Complete, result, reason);
        }
        let missing = missing_objectives(&self.spec.objectives, trial);
        if let [first, ..] = missing[..]
            && !trial.vectors.is_empty()
        {
            let advice = match self.spec.program {
                Program::Trainer { .. } => String::new(),
                _ => format!(
                    ": print one at any step, as `@hpsearch {{\"step\": .., \"{first}\": ..}}`"
                ),
            };
            let missing = quoted(missing.iter().copied());
            let reason = format!("reported no value of {missing}{advice}");
            self.failures.in_a_row += 1;
            return self.fail(number, reason);
        }
        let metric = &self.spec.objective().metric;
        let others: Vec<&str> = trial.last_metrics.iter().map(|(name, _)| name).collect();
        let sources = self.spec.program.metric_sources();
        let files = sources.into_iter().flat_map(MetricSources::files);
        let files: Vec<_> = files.map(|(key, text)| format!("{key} = \"{text}\"")).collect();
        let why = remark.unwrap_or_else(|| match (&others[..], sources.is_some()) {
            ([], true) if !files.is_empty() => format!(
                "`{metric}` was not found in what [command.metrics] names ({}); `hpsearch show` \
                 of the trial says what was",
                files.join(", ")
            ),
            ([], true) => format!(
                "no pattern of [command.metrics] finds `{metric}` in what it printed; `hpsearch \
                 check STUDY.toml --try 'a line'` shows what they find"
            ),
            ([], false) if matches!(self.spec.program, Program::Trainer { .. }) => {
                config::step_unit::without_report(&self.spec).to_owned()
            }
            ([], false) => format!(
                "it ended without a line `@hpsearch {{\"step\": .., \"{metric}\": ..}}`; what it \
                 prints in its own words is found by `pattern` under [command.metrics]"
            ),
            (others, _) => without_metric(others, metric),
        });
        self.failures.in_a_row += 1;
        self.fail(number, format!("reported no value: {why}"));
    }

    pub(super) fn retry_or_fail(
        &mut self,
        number: TrialNumber,
        cause: FailureCause,
        message: String,
    ) {
        let message = match self.requeue_with_halved_batch(number, cause, message) {
            Ok(()) => return,
            Err(message) => message,
        };
        // Halvings do not count as retries.
        let failures = self.state.trial(number).map_or(0, |trial| {
            let halved = self.halving_of(trial).map_or(0, |halving| halving.halved);
            trial.failures.saturating_sub(halved)
        });
        let retry = &self.spec.retry;
        if retry.includes(cause) && failures <= retry.max {
            let why = format!("{message} (retry {failures} of {})", retry.max);
            return self.requeue(number, &why);
        }
        // A configuration that is too large or too slow does not indicate a broken program.
        if !matches!(cause, FailureCause::Oom | FailureCause::Timeout) {
            self.failures.in_a_row += 1;
        }
        self.fail(number, message);
    }

    pub(super) fn fail(&mut self, number: TrialNumber, reason: String) {
        self.end_without_value(number, TrialState::Failed, reason);
    }

    /// A trial that continued past its end is again what it was: what it reported and saved since
    /// counts for nothing.
    fn end_without_value(&mut self, number: TrialNumber, state: TrialState, reason: String) {
        let trial = self.state.trial(number);
        let Some((trial, before)) = trial.and_then(|trial| Some((trial, trial.before.as_deref()?)))
        else {
            return self.finish_trial(number, state, TrialResult::default(), Some(reason));
        };
        let EndedTrial { state, value, values, checkpoints, .. } = before.clone();
        let is_since = |path: &PathBuf| !checkpoints.contains(path);
        let since = trial.checkpoints.iter().map(|saved| saved.path.clone()).filter(is_since);
        let since = since.map(|path| (number, path)).collect();
        self.emit(Event::of(number, StateEvent::Restored));
        self.drop_all(since);
        let reason = format!("continued past its end and failed, so it is as before: {reason}");
        self.finish_trial(number, state, (value, values), Some(reason));
    }

    /// Records by how much a trial's last metrics violate the study's limits, if they do.
    fn broken_limits(&mut self, number: TrialNumber) -> Option<String> {
        let metrics = &self.state.trial(number)?.last_metrics;
        let rule = self.spec.last_metrics;
        let (violation, reason) = constraint::broken_limits(&self.spec.constraints, metrics, rule)?;
        self.emit(Event::of(
            number,
            DecisionEvent::LimitsBroken { violation, reason: reason.clone() },
        ));
        Some(reason)
    }

    pub(super) fn finish_trial(
        &mut self,
        trial: TrialNumber,
        state: TrialState,
        (value, values): TrialResult,
        reason: Option<String>,
    ) {
        let is_complete = state == TrialState::Complete;
        let broken = is_complete.then(|| self.broken_limits(trial)).flatten();
        let is_nan = is_complete && value.iter().chain(&values).any(|value| value.is_nan());
        let no_number = || is_nan.then(|| "its value is NaN: it cannot be the best".to_owned());
        let last = self.state.trial(trial).and_then(Trial::last).filter(|_| is_complete);
        let ends_in_nan = || {
            let (step, _) = last.filter(|(_, value)| value.is_nan())?;
            Some(format!("its last report, at {}, is NaN", self.spec.step.at(step)))
        };
        let reason = broken.or(reason).or_else(no_number).or_else(ends_in_nan);
        if state != TrialState::Failed {
            self.failures.in_a_row = 0;
        }
        self.emit(Event::of(trial, StateEvent::Finished { state, value, values, reason }));
        self.tidy();
        self.check_limits();
    }
}

/// The objectives that a trial has not reported.
fn missing_objectives<'a>(objectives: &'a [Objective], trial: &Trial) -> Vec<&'a str> {
    let known = trial.known_values();
    let is_missing = |index: &usize| known.get(*index).is_none_or(Option::is_none);
    let missing = (0..objectives.len()).filter(is_missing);
    missing.filter_map(|index| Some(objectives.get(index)?.metric.as_str())).collect()
}
