//! How a run ends: budgets, deadlines, requests, interrupts.

use std::time::Duration;

use super::{Busy, Effect, Engine, Leaving, Outcome, Phase};
use crate::study::event::Event;
use crate::study::metric::{Number, Score};
use crate::study::spec::{Count, DeviceLimit};
use crate::study::time::Timestamp;
use crate::study::trial::{Origin, Trial, TrialNumber, TrialState};

/// Whether a trial is still to be run because its user said so: it runs although the study's goal is reached.
pub(super) fn is_asked_for(trial: &Trial) -> bool {
    let runs_on = matches!(trial.state, TrialState::Queued | TrialState::Running);
    runs_on && (trial.origin == Origin::Asked || trial.continued.is_some())
}

/// An amount with as many decimals as tell it from its limit: 2.01 of 2, 0.0021 of 0.002.
fn with_digits(amount: f64, limit: f64) -> String {
    let decimals = (0..9).find(|decimals| limit * 10f64.powi(*decimals) >= 100.0).unwrap_or(9);
    format!("{amount:.*}", usize::try_from(decimals).unwrap_or(0).max(2))
}

/// A run whose first trials all fail, or so many in a row later, ends without `budget.failures` to say otherwise: failed trials
/// do not count towards `budget.trials`, so a broken program would be started for ever.
const FRUITLESS: u64 = 10;

impl Engine {
    /// No new trials; running ones are asked to checkpoint and leave. The first reason given stays.
    pub(super) fn drain(&mut self, outcome: Outcome) {
        if !matches!(self.phase, Phase::Searching | Phase::Racing(_)) {
            return;
        }
        self.phase = Phase::Draining(outcome);
        let deadline = self.now.after(self.grace);
        for busy in self.busy.iter_mut().flatten().filter(|busy| busy.leaving.is_none()) {
            busy.leaving = Some((Leaving::Draining, deadline));
            self.effects.push(Effect::Leave { trial: busy.trial, attempt: busy.attempt });
        }
    }

    /// Everything is killed; trials run again next time.
    pub(super) fn kill_all(&mut self) {
        self.drain(Outcome::Interrupted("interrupted".to_owned()));
        for busy in self.busy.iter_mut().flatten().filter(|busy| !busy.kill_sent) {
            busy.kill_sent = true;
            busy.leaving.get_or_insert((Leaving::Draining, self.now));
            self.effects.push(Effect::Kill { trial: busy.trial, attempt: busy.attempt });
        }
    }

    /// Asks to leave what ran longer than `trial_time` or said nothing for `stall_time`, kills what outstayed its grace, and ends the
    /// run when the study's time is over.
    pub(super) fn mind_deadlines(&mut self) {
        if matches!(self.phase, Phase::Waiting | Phase::Over) {
            return;
        }
        for index in 0..self.busy.len() {
            self.press_pause(index);
            let Some(busy) = &self.busy[index] else { continue };
            if busy.kill_sent
                || self.attempt_deadline(busy).is_none_or(|deadline| deadline > self.now)
            {
                continue;
            }
            let Some(busy) = &mut self.busy[index] else { continue };
            if busy.leaving.is_none() {
                let budget = &self.spec.budget;
                let why = match (budget.trial_time, budget.stall_time) {
                    (Some(limit), _) if busy.since.after(limit) <= self.now => {
                        format!("ran longer than trial_time ({} s)", limit.as_secs_f64())
                    }
                    (_, limit) => format!(
                        "did not report for stall_time ({} s)",
                        limit.unwrap_or_default().as_secs_f64()
                    ),
                };
                busy.leaving = Some((Leaving::TimedOut(why), self.now.after(self.grace)));
                let (trial, attempt) = (busy.trial, busy.attempt);
                self.effects
                    .extend([Effect::Examine { trial, attempt }, Effect::Leave { trial, attempt }]);
                continue;
            }
            busy.kill_sent = true;
            self.effects.push(Effect::Kill { trial: busy.trial, attempt: busy.attempt });
        }
        if self.phase != Phase::Searching {
            return;
        }
        if self.time_deadline().is_some_and(|deadline| deadline <= self.now) {
            let reason = "the time budget is used up".to_owned();
            self.drain(Outcome::Finished(reason));
        } else if let Some(limit) =
            self.spec.budget.device_limit().filter(|limit| limit.time() <= self.device_time())
        {
            self.drain(Outcome::Finished(self.used_up(limit)));
            self.spent = Some(limit);
        }
    }

    /// The time of devices that was used up to now: what was told, and what has passed since.
    pub(super) fn device_time(&self) -> Duration {
        let told = Duration::from_micros(u64::try_from(self.view.busy_micros).unwrap_or(0));
        told.saturating_add(self.meter.untold(self.now))
    }

    /// When the time of devices is used up, if no further trial starts or ends until then.
    pub(super) fn device_deadline(&self) -> Option<Timestamp> {
        let busy = u32::try_from(self.meter.devices()).ok().filter(|busy| *busy > 0)?;
        if self.phase != Phase::Searching {
            return None;
        }
        let left = self.spec.budget.device_limit()?.time().saturating_sub(self.device_time());
        // Rounded up, for a tick that comes a moment too early would find a moment left, again and again.
        Some(self.now.after(left / busy + Duration::from_micros(1)))
    }

    fn used_up(&self, limit: DeviceLimit) -> String {
        let used = self.device_time();
        let hours = used.as_secs_f64() / 3600.0;
        match limit {
            DeviceLimit::Hours(limit) => {
                format!("the budget of {limit} device-hours is used: {}", with_digits(hours, limit))
            }
            DeviceLimit::Cost { cost, price } => {
                let spent = with_digits(hours * price, cost);
                format!(
                    "the budget's cost of {cost} is spent: {spent}, {} device-hours at {price}",
                    with_digits(hours, cost / price)
                )
            }
        }
    }

    /// When an attempt is asked to leave, or killed.
    pub(super) fn attempt_deadline(&self, busy: &Busy) -> Option<Timestamp> {
        if let Some((_, deadline)) = &busy.leaving {
            return Some(*deadline);
        }
        let budget = &self.spec.budget;
        let longest = budget.trial_time.map(|limit| busy.since.after(limit));
        let silent = budget.stall_time.map(|limit| busy.heard.after(limit));
        longest.into_iter().chain(silent).chain(busy.pause_by).min()
    }

    pub(super) fn time_deadline(&self) -> Option<Timestamp> {
        // While the study is paused and nothing runs, its time stands still.
        if self.phase != Phase::Searching || self.idle_since.is_some() {
            return None;
        }
        let limit = i64::try_from(self.spec.budget.time?.as_micros()).unwrap_or(i64::MAX);
        let begun = self.begun.after(self.idle);
        Some(Timestamp(begun.0.saturating_add(limit.saturating_sub(self.view.ran_micros).max(0))))
    }

    /// Notes when a paused study, or one whose devices are all paused, begins and ends to have nothing on its slots.
    pub(super) fn mind_idleness(&mut self) {
        let is_idle = (self.view.paused.is_some() || self.is_without_place())
            && self.busy.iter().all(Option::is_none);
        match (is_idle, self.idle_since) {
            (true, None) => self.idle_since = Some(self.now),
            (false, Some(since)) => {
                self.idle += self.now.since(since);
                self.idle_since = None;
            }
            _ => {}
        }
    }

    /// Ends the run when a limit other than the number of trials is reached.
    pub(super) fn mind_limits(&mut self) {
        let counts = self.view.counts.without(self.view.race_counts);
        let failed = counts.failed;
        if let Some(reason) = self.fails_in_one_way() {
            self.drain(Outcome::TooManyFailures(reason));
        }
        let is_endless = self.spec.budget.failures.is_none()
            && (self.spec.budget.count != Count::All || self.spec.budget.trials.is_none());
        let is_fruitless =
            counts.complete + counts.pruned == 0 && failed >= self.failed_before + FRUITLESS;
        if is_endless && !is_fruitless && self.failed_in_a_row >= FRUITLESS {
            let reason = self.last_failure();
            self.drain(Outcome::TooManyFailures(format!(
                "{FRUITLESS} trials in a row failed; the last: {reason}"
            )));
        }
        if is_endless && is_fruitless {
            let reason = self.last_failure();
            self.drain(Outcome::TooManyFailures(format!(
                "the first {FRUITLESS} trials all failed; the last: {reason}"
            )));
        }
        if self.spec.budget.failures.is_some_and(|limit| failed >= limit) {
            let last = self.last_failure();
            self.drain(Outcome::TooManyFailures(format!(
                "{failed} trials failed, as many as budget.failures allows; the last: {last}"
            )));
        }
        let goal = self.goal();
        self.goal_reached = goal.is_some();
        let waits = || self.view.trials.iter().any(is_asked_for);
        // Where decisions must not depend on who is faster, what has begun goes to its end.
        if let Some(reason) =
            goal.filter(|_| self.phase == Phase::Searching && self.window.is_none() && !waits())
        {
            self.drain(Outcome::Finished(reason));
        }
    }

    /// Why nothing better is looked for, if that is so.
    fn goal(&self) -> Option<String> {
        if let Some((number, without)) =
            self.spec.budget.patience.and_then(|patience| self.fruitless_since(patience))
        {
            return Some(format!(
                "{without} trials since trial {number} were not better (budget.patience)"
            ));
        }
        let (target, direction) = (self.spec.budget.target?, self.view.direction());
        let known = self.known_view();
        let (number, value) = (known.best()?.number, known.best_value()?);
        let is_reached = Score::new(direction, value) <= Score::new(direction, target);
        is_reached.then(|| {
            format!(
                "trial {number} reached the target: {} against {}",
                Number(value),
                Number(target)
            )
        })
    }

    /// The best trial and how many complete and pruned ones ended after it, if those are as many as `patience`.
    fn fruitless_since(&self, patience: u64) -> Option<(TrialNumber, u64)> {
        let best = self.known_view().best()?;
        let counts =
            |trial: &&Trial| matches!(trial.state, TrialState::Complete | TrialState::Pruned);
        let is_timed = self.window.is_none();
        let place = |trial: &Trial| (trial.finished.filter(|_| is_timed), trial.number);
        let later = |trial: &&Trial| place(trial) > place(best) && !trial.origin.is_race();
        let without = self.known_view().trials.iter().filter(counts).filter(later).count() as u64;
        (without >= patience).then_some((best.number, without))
    }

    fn last_failure(&self) -> String {
        let failures = self.view.trials.iter().filter(|trial| trial.state == TrialState::Failed);
        failures
            .max_by_key(|trial| trial.finished)
            .and_then(|trial| trial.reason.clone())
            .unwrap_or_default()
    }

    /// Ends the run once nothing runs and nothing can be started.
    pub(super) fn end_if_idle(&mut self) {
        if self.busy.iter().any(Option::is_some) {
            return;
        }
        let outcome = match &self.phase {
            Phase::Waiting | Phase::Over => return,
            // It waits to be resumed.
            Phase::Searching
                if self.view.paused.is_some()
                    || self.is_without_place() && self.waits_for_a_place() =>
            {
                return;
            }
            // What its trials used until they had left belongs to it.
            Phase::Draining(Outcome::Finished(_)) if let Some(limit) = self.spent => {
                self.judge_end(self.used_up(limit))
            }
            // What it had begun may have completed meanwhile.
            Phase::Draining(Outcome::Finished(reason)) => self.judge_end(reason.clone()),
            Phase::Draining(outcome) => outcome.clone(),
            Phase::Racing(outcome) => outcome.clone(),
            Phase::Searching => self.judge_end(self.why_done()),
        };
        if self.goes_on_racing(&outcome) {
            return;
        }
        let outcome = self.with_its_race(outcome);
        let reason = match &outcome {
            Outcome::Finished(reason)
            | Outcome::NoValue(reason)
            | Outcome::TooManyFailures(reason) => {
                self.close_study(reason.clone());
                reason.clone()
            }
            Outcome::Interrupted(reason) | Outcome::Refused(reason) | Outcome::Broken(reason) => {
                reason.clone()
            }
        };
        let idle =
            self.idle + self.idle_since.map_or(Duration::ZERO, |since| self.now.since(since));
        let ran = self.now.since(self.begun).saturating_sub(idle).as_micros();
        self.emit(Event::RunnerStopped {
            reason,
            ran_micros: i64::try_from(ran).unwrap_or(i64::MAX),
            heard: None,
            device_micros: 0,
        });
        self.phase = Phase::Over;
        self.effects.push(Effect::Finish(outcome));
    }

    /// The end of a study with what its race took on top of the budget, where that is one of time or devices.
    fn with_its_race(&self, outcome: Outcome) -> Outcome {
        let budget = &self.spec.budget;
        let is_limited = budget.time.is_some() || budget.device_limit().is_some();
        match (outcome, self.view.race.as_ref().filter(|race| is_limited && !race.void)) {
            (Outcome::Finished(reason), Some(race)) if self.view.finished.is_none() => {
                let of_this_one = |trial: &&Trial| matches!(trial.origin, Origin::Race { race: number, .. } if number == race.number);
                let (runs, micros) = self
                    .view
                    .trials
                    .iter()
                    .filter(of_this_one)
                    .fold((0, 0), |(runs, sum), trial| (runs + 1, sum + trial.busy_micros));
                let hours = Duration::from_micros(u64::try_from(micros).unwrap_or(0)).as_secs_f64()
                    / 3600.0;
                Outcome::Finished(format!(
                    "{reason}; then a race on top, {runs} runs in {hours:.4} hours of slots"
                ))
            }
            (outcome, _) => outcome,
        }
    }

    fn why_done(&self) -> String {
        let held = self
            .view
            .trials
            .iter()
            .filter(|trial| trial.state == TrialState::Paused && trial.hold.is_some())
            .count();
        let waits = match held {
            0 => String::new(),
            1 => "; one trial stays paused by you, `hpsearch resume` lets it go on".to_owned(),
            held => {
                format!("; {held} trials stay paused by you, `hpsearch resume` lets them go on")
            }
        };
        if let Some(goal) = self.goal().filter(|_| self.goal_reached) {
            return format!("{goal}{waits}");
        }
        let done = match (self.exhausted, self.spec.budget.trials) {
            (true, _) => {
                format!("every point of the space was tried ({} trials)", self.view.trials.len())
            }
            (false, Some(limit)) => format!("the budget of {limit} trials is used up"),
            (false, None) => "there is nothing left to do".to_owned(),
        };
        format!("{done}{waits}")
    }

    fn judge_end(&self, reason: String) -> Outcome {
        match self.why_none_is_best() {
            None => Outcome::Finished(reason),
            Some(why) => Outcome::NoValue(format!("{reason}, and {why}")),
        }
    }

    /// Why no trial is the best, if none is.
    fn why_none_is_best(&self) -> Option<String> {
        if self.view.leader().is_some() {
            return None;
        }
        let complete =
            || self.view.trials.iter().filter(|trial| trial.state == TrialState::Complete);
        let all = complete().count();
        let nan = complete().filter(|trial| trial.value.is_none_or(f64::is_nan)).count();
        let breaking = complete().filter(|trial| trial.violation.is_some()).count();
        Some(match (all, nan, breaking) {
            (0, ..) => "no trial completed".to_owned(),
            _ if nan == all => {
                format!("none of {all} complete trials has a value: what they reported is NaN")
            }
            _ if breaking == all => format!("each of {all} complete trials breaks a limit"),
            _ if nan + breaking > 0 => {
                format!(
                    "none of {all} complete trials can be the best: {nan} without a value (NaN), {breaking} beyond a limit"
                )
            }
            _ => "no configuration has completed all of its runs".to_owned(),
        })
    }

    /// Paused trials that were never promoted count as pruned; then the study is over. Those that their user paused stay.
    fn close_study(&mut self, reason: String) {
        let paused: Vec<TrialNumber> = self
            .view
            .trials
            .iter()
            .filter(|trial| trial.waits_for_its_pruner())
            .map(|trial| trial.number)
            .collect();
        for number in paused {
            let why =
                self.view.trial(number).and_then(|trial| trial.reason.clone()).unwrap_or_default();
            self.emit(Event::TrialFinished {
                trial: number,
                state: TrialState::Pruned,
                value: None,
                reason: Some(format!("never promoted: {why}")),
            });
        }
        self.tidy();
        if self.view.finished.is_none() {
            self.emit(Event::StudyFinished { reason });
        }
    }
}
