//! The end of a run: deadlines, limits and interrupts drain it; it is over once nothing runs.

use std::time::Duration;

use super::attempt::Leaving;
use super::goal::{self, Order, is_asked_for};
use super::{Effect, Engine, Phase, RunOutcome};
use crate::study::constraint;
use crate::study::counted::count;
use crate::study::decision::{Decision, Reason};
use crate::study::event::{Event, RunnerEvent, StudyEvent, TrialEvent};
use crate::study::goal::Goal;
use crate::study::time::Timestamp;
use crate::study::trial::{Origin, Trial, TrialState};

impl Engine {
    /// Starts nothing new and asks running trials to save and exit. The first outcome given is
    /// kept.
    pub(super) fn drain(&mut self, outcome: RunOutcome) {
        if !self.phase.starts_trials() {
            return;
        }
        self.phase = Phase::Draining(outcome);
        self.budgets.is_cut_off = true;
        let deadline = self.now.after(self.grace);
        let staying = self.slots.running_mut().filter(|running| running.leaving.is_none());
        self.effects.extend(staying.map(|running| running.leave(Leaving::Draining, deadline)));
    }

    /// Kills all attempts; their trials run again in the next run.
    pub(super) fn kill_all(&mut self) {
        self.drain(RunOutcome::Interrupted("interrupted".to_owned()));
        for running in self.slots.running_mut().filter(|running| !running.kill_sent) {
            running.leaving.get_or_insert((Leaving::Draining, self.now));
            self.effects.push(running.kill());
        }
    }

    /// The driver was suspended for this long: no deadline of a trial counts that time, in which
    /// its reports were not taken in, and in which it may have been suspended itself.
    pub fn excuse(&mut self, now: Timestamp, suspended: Duration) {
        self.now = now;
        self.slots.running_mut().for_each(|running| running.excuse(now, suspended));
    }

    /// Asks trials that exceeded `trial_time` or `stall_time` to leave, kills those whose grace has
    /// expired, and ends the run when the study's time is over.
    pub(super) fn enforce_deadlines(&mut self) {
        if matches!(self.phase, Phase::Waiting | Phase::Over) {
            return;
        }
        let (now, budget) = (self.now, &self.spec.budget);
        for index in 0..self.slots.len() {
            let Some(running) = &mut self.slots[index].running else { continue };
            self.effects.extend(running.enforce_pause(now, self.grace));
            if running.deadline(budget).is_none_or(|deadline| deadline > now) {
                continue;
            }
            if running.leaving.is_some() {
                self.effects.push(running.kill());
            } else {
                let (trial, attempt) = (running.trial, running.attempt);
                let why = Leaving::TimedOut(running.timeout(budget, now));
                let leave = running.leave(why, now.after(self.grace));
                self.effects.extend([Effect::Examine { trial, attempt }, leave]);
            }
        }
        if self.phase != Phase::Searching {
            return;
        }
        let device_time = self.budgets.device_time(&self.state, now);
        let time_deadline = self.budgets.time_deadline(budget, self.state.ran_micros);
        if time_deadline.is_some_and(|deadline| deadline <= now) {
            self.drain(RunOutcome::Finished("the time budget is used up".to_owned()));
        } else if let Some(limit) =
            budget.device_limit().filter(|limit| limit.time() <= device_time)
        {
            self.drain(RunOutcome::Finished(self.budgets.used_up(limit, &self.state, now)));
            self.budgets.spent = Some(limit);
        }
    }

    /// Ends the run if nothing runs and the machine has refused resources for too long.
    pub(super) fn check_refusals(&mut self) {
        self.refusals.tick(self.now);
        if let Some(why) = self.refusals.give_up(self.now).filter(|_| self.slots.are_idle()) {
            self.drain(RunOutcome::Refused(why));
        }
    }

    /// Records the beginnings and ends of idle periods, in which the study or all its devices are
    /// paused.
    pub(super) fn track_idleness(&mut self) {
        let is_paused = self.state.paused.is_some() || self.has_no_open_slot();
        self.budgets.note_idle(is_paused && self.slots.are_idle(), self.now);
    }

    /// Ends the run when a limit other than the number of trials is reached.
    pub(super) fn check_limits(&mut self) {
        if let Some(reason) = self.too_many_failures() {
            self.drain(RunOutcome::TooManyFailures(reason));
        }
        let goal = self.goal();
        self.budgets.goal_reached = goal.is_some();
        let waits = || self.state.trials.iter().any(is_asked_for);
        // Where decisions must not depend on timing, started trials run to their end.
        if let Some(goal) = goal.filter(|_| {
            self.phase == Phase::Searching && self.decision_window.is_none() && !waits()
        }) {
            self.drain(RunOutcome::Finished(goal.to_string()));
            self.budgets.ended_by = Some(goal);
        }
    }

    /// The goal that stops the search early, if it is reached.
    pub(super) fn goal(&mut self) -> Option<Goal> {
        let (known, order) = match &self.decision_window {
            None => (&self.state, Order::Time),
            Some(window) => (window.known(), Order::Number),
        };
        goal::reached(&self.spec.budget, known, &mut self.front, order)
    }

    /// Ends the run once nothing runs and nothing can start.
    pub(super) fn end_if_idle(&mut self) {
        if !self.slots.are_idle() {
            return;
        }
        let outcome = match &self.phase {
            Phase::Waiting | Phase::Over => return,
            // Waits to be resumed.
            Phase::Searching
                if self.state.paused.is_some()
                    || self.has_no_open_slot() && self.waits_for_a_slot() =>
            {
                return;
            }
            // Includes the usage of its trials until they exited.
            Phase::Draining(RunOutcome::Finished(_)) if let Some(limit) = self.budgets.spent => {
                self.judge_end(self.budgets.used_up(limit, &self.state, self.now))
            }
            // Trials in progress may have completed meanwhile.
            Phase::Draining(RunOutcome::Finished(reason)) => self.judge_end(reason.clone()),
            Phase::Draining(outcome) | Phase::Racing(outcome) => outcome.clone(),
            Phase::Searching => {
                self.budgets.ended_by = self.goal().filter(|_| self.budgets.goal_reached);
                self.judge_end(self.why_done())
            }
        };
        if self.continues_with_race(&outcome) {
            return;
        }
        let outcome = self.with_its_race(outcome);
        if let RunOutcome::Finished(reason)
        | RunOutcome::NoValue(reason)
        | RunOutcome::TooManyFailures(reason) = &outcome
        {
            self.close_study(reason, matches!(outcome, RunOutcome::TooManyFailures(_)));
        }
        let ran = self.budgets.ran(self.now).as_micros();
        self.emit(Event::Runner(RunnerEvent::Stopped {
            reason: outcome.reason().to_owned(),
            ran_micros: i64::try_from(ran).unwrap_or(i64::MAX),
            heard: None,
            device_micros: 0,
            runner: None,
        }));
        self.phase = Phase::Over;
        self.effects.push(Effect::Finish(outcome));
    }

    /// The outcome with the usage of the race beyond the budget, if that limits time or devices.
    fn with_its_race(&self, outcome: RunOutcome) -> RunOutcome {
        let budget = &self.spec.budget;
        let is_limited = budget.time.is_some() || budget.device_limit().is_some();
        match (outcome, self.state.race.as_ref().filter(|race| is_limited && !race.void)) {
            (RunOutcome::Finished(reason), Some(race)) if self.state.finished.is_none() => {
                let of_this_one = |trial: &&Trial| {
                    matches!(
                        trial.origin,
                        Origin::Race { race: number, .. } if number == race.number
                    )
                };
                let runs = self.state.trials.iter().filter(of_this_one);
                let micros: i64 = runs.clone().map(|trial| trial.busy_micros).sum();
                let time = Duration::from_micros(u64::try_from(micros).unwrap_or(0));
                let hours = time.as_secs_f64() / 3600.0;
                let runs = count(runs.count() as u64, "run");
                RunOutcome::Finished(format!(
                    "{reason}; then a race in addition, {runs} in {hours:.4} hours of slots"
                ))
            }
            (outcome, _) => outcome,
        }
    }

    fn why_done(&self) -> String {
        let trials = &self.state.trials;
        let is_held = |trial: &&Trial| trial.state == TrialState::Paused && trial.hold.is_some();
        let waits = match trials.iter().filter(is_held).count() {
            0 => String::new(),
            1 => "; one trial stays paused by you, `hpsearch resume` lets it continue".to_owned(),
            held => {
                format!("; {held} trials stay paused by you, `hpsearch resume` lets them continue")
            }
        };
        let done = match (self.proposals.exhausted, self.spec.budget.trials) {
            _ if let Some(goal) = &self.budgets.ended_by => goal.to_string(),
            (true, _) => {
                let tried = count(trials.len() as u64, "trial");
                format!("every configuration of the space was tried ({tried})")
            }
            (false, Some(limit)) => format!("the budget of {} is used up", count(limit, "trial")),
            (false, None) => "there is nothing left to do".to_owned(),
        };
        format!("{done}{waits}")
    }

    fn judge_end(&self, reason: String) -> RunOutcome {
        match self.why_none_is_best() {
            None => RunOutcome::Finished(reason),
            Some(why) => RunOutcome::NoValue(format!("{reason}, and {why}")),
        }
    }

    /// Why there is no best trial, if there is none.
    fn why_none_is_best(&self) -> Option<String> {
        let is_several = self.state.has_several_objectives();
        if self.state.leader().is_some() || is_several && self.state.best().is_some() {
            return None;
        }
        let is_complete = |trial: &&Trial| trial.state == TrialState::Complete;
        let (hidden, complete): (Vec<&Trial>, Vec<&Trial>) =
            self.state.trials.iter().filter(is_complete).partition(|trial| trial.hidden);
        let those =
            |which: fn(&Trial) -> bool| complete.iter().filter(|trial| which(trial)).count();
        let all = complete.len();
        let is_nan = |trial: &Trial| match trial.values.is_empty() {
            true => trial.value.is_none_or(f64::is_nan),
            false => trial.values.iter().any(|value| value.is_nan()),
        };
        let nan = those(is_nan);
        let breaking = those(|trial| trial.violation.is_some());
        let metrics = complete.iter().map(|trial| &trial.last_metrics);
        let misspelt = constraint::never_reported(&self.spec.constraints, metrics)
            .filter(|_| breaking > 0)
            .map_or_else(String::new, |why| format!(": {why}"));
        Some(match all {
            0 if hidden.is_empty() => "no trial completed".to_owned(),
            0 => format!(
                "no trial completed, apart from {}",
                count(hidden.len() as u64, "hidden one")
            ),
            1 if nan == all => "the one complete trial has no value: it reported NaN".to_owned(),
            1 if breaking == all => format!("the one complete trial violates a limit{misspelt}"),
            _ if nan == all => {
                format!("none of {all} complete trials has a value: what they reported is NaN")
            }
            _ if breaking == all => {
                format!("each of {all} complete trials violates a limit{misspelt}")
            }
            _ if nan + breaking > 0 => {
                format!(
                    "none of {all} complete trials can be the best: {nan} without a value (NaN), \
                     {breaking} beyond a limit{misspelt}"
                )
            }
            _ => "no configuration has completed all of its runs".to_owned(),
        })
    }

    /// Prunes paused trials that were never promoted, except those paused by the user; then
    /// finishes the study. Where it has no more time, they stay paused: with more they may be
    /// promoted.
    fn close_study(&mut self, reason: &str, too_many_failures: bool) {
        let waiting = match self.budgets.stopped_short() {
            true => Vec::new(),
            false => self.trials_that(Trial::waits_for_its_pruner),
        };
        for trial in waiting {
            let reason = self.state.trial(trial).map(|trial| never_promoted(trial, reason));
            self.emit(Event::Trial(trial, TrialEvent::finished(TrialState::Pruned, None, reason)));
        }
        self.tidy();
        if self.state.finished.is_none() {
            let is_several = self.state.has_several_objectives();
            self.emit(Event::Study(StudyEvent::Finished {
                reason: reason.to_owned(),
                goal: self.budgets.ended_by.clone().map(Box::new),
                front: is_several.then(|| Box::new(self.state.front())),
                too_many_failures,
            }));
        }
    }
}

/// Why a paused trial was not promoted in a study that ends for `reason`: its rank, if it was not
/// among the best; else the end.
fn never_promoted(trial: &Trial, reason: &str) -> String {
    let pause = trial.decisions.last().map(|last| &last.verdict);
    match pause {
        Some(Decision::Pause(Reason::Rung { rung, rank, of, first })) if rank <= first => {
            format!("never promoted: {reason}, at rank {rank} of {of} at rung {rung}")
        }
        _ => format!("never promoted: {}", trial.reason.as_deref().unwrap_or_default()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::params::Params;
    use crate::study::trial::{DecisionAtStep, TrialNumber};

    #[test]
    fn one_of_the_best_was_not_promoted_because_the_study_ended() {
        let said = |rank: u64| {
            let reason = Reason::Rung { rung: 2, rank, of: 22, first: 7 };
            let mut trial =
                Trial::new(TrialNumber(3), Params::new(), Origin::Asked, Timestamp::default());
            trial.reason = Some(reason.to_string());
            trial.decisions.push(DecisionAtStep { step: 2, verdict: Decision::Pause(reason) });
            never_promoted(&trial, "the budget of 40 trials is used up")
        };
        let used_up =
            "never promoted: the budget of 40 trials is used up, at rank 1 of 22 at rung 2";
        assert_eq!(said(1), used_up);
        let rank = "never promoted: rung 2 reached with rank 8 of 22; the best 7 continue";
        assert_eq!(said(8), rank);
    }
}
