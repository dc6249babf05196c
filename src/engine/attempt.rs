//! A running attempt: its start, its last heartbeat, and why it was asked to leave.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::Effect;
use super::superseding::Superseding;
use crate::study::budget::Budget;
use crate::study::event::AttemptEnd;
use crate::study::metric::Metrics;
use crate::study::remark::{RemarkKind, Reports};
use crate::study::spec::FailureCause;
use crate::study::time::Timestamp;
use crate::study::trial::{AttemptNumber, TrialNumber};

/// Why a running attempt was asked to leave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Leaving {
    Pausing(String),
    Stopping(String),
    /// The user paused it; whether that was the answer to a report.
    Holding {
        told: bool,
    },
    /// The agent that it runs on leaves.
    AgentLeft,
    /// It continued past its end and has reached the requested step, or it no longer improves.
    Arrived,
    Draining,
    Killed,
    TimedOut(String),
}

impl Leaving {
    /// The recorded end of an attempt that was asked to leave for this reason, and its message: the
    /// process's own end does not matter.
    pub fn settle(&self, end: AttemptEnd, message: Option<String>) -> (AttemptEnd, Option<String>) {
        use AttemptEnd::{Completed, Failed, Interrupted, Paused, Refused, Stopped};
        // An attempt that is leaving anyway needs no more resources.
        let end = if end == Refused { Interrupted } else { end };
        match (self, end) {
            (Leaving::TimedOut(why), Failed(_) | Interrupted) => {
                (Failed(FailureCause::Timeout), Some(why.clone()))
            }
            (Leaving::Pausing(why), Paused | Completed | Failed(_) | Interrupted) => {
                (Paused, Some(why.clone()))
            }
            (Leaving::Stopping(why), Stopped | Completed | Failed(_) | Interrupted) => {
                (Stopped, Some(why.clone()))
            }
            (Leaving::Arrived, Paused | Stopped | Failed(_) | Interrupted) => (Completed, None),
            (Leaving::Holding { told: true }, Completed) => (Paused, None),
            (Leaving::Holding { .. } | Leaving::AgentLeft, Stopped | Failed(_) | Interrupted) => {
                (Paused, None)
            }
            (Leaving::Draining, Failed(_)) => (Interrupted, None),
            (_, end) => (end, message),
        }
    }
}

/// An attempt on a slot.
#[derive(Clone, Debug)]
pub(super) struct RunningAttempt {
    pub trial: TrialNumber,
    pub attempt: AttemptNumber,
    pub since: Timestamp,
    /// When it last reported or saved a checkpoint, or continued after a suspension.
    pub heard: Timestamp,
    /// The time that counts towards none of its limits.
    excused: Duration,
    /// Since when its agent does not answer: meanwhile it has no deadline.
    unreachable_since: Option<Timestamp>,
    /// Why it was asked to leave, and when it will be killed.
    pub leaving: Option<(Leaving, Timestamp)>,
    /// Set if the user paused it: answered at its next report, asked to leave at this time at the
    /// latest.
    pub pause_by: Option<Timestamp>,
    pub kill_sent: bool,
    /// The highest memory measured, in bytes.
    pub peak: u64,
    /// The upper memory estimate when it started.
    pub expected: Option<u64>,
    pub reports: Reports,
    pub superseding: Superseding,
    /// The last step at which it reported each metric.
    pub last_steps: BTreeMap<String, u64>,
    /// The last step that an earlier runner, which started it, had stored of it.
    pub known_to: Option<u64>,
    /// Whether an earlier runner started it.
    pub is_adopted: bool,
    /// Remarks by kind: how many, and the last text.
    pub remarks: BTreeMap<RemarkKind, (u64, String)>,
}

impl RunningAttempt {
    pub fn new(
        trial: TrialNumber,
        attempt: AttemptNumber,
        now: Timestamp,
        expected: Option<u64>,
    ) -> Self {
        RunningAttempt {
            trial,
            attempt,
            since: now,
            heard: now,
            excused: Duration::ZERO,
            unreachable_since: None,
            leaving: None,
            pause_by: None,
            kill_sent: false,
            peak: 0,
            expected,
            reports: Reports::default(),
            superseding: Superseding::default(),
            last_steps: BTreeMap::new(),
            known_to: None,
            is_adopted: false,
            remarks: BTreeMap::new(),
        }
    }

    /// Records the step of a report; returns the metrics that it has reported at a later one.
    pub fn late(&mut self, step: u64, metrics: &Metrics) -> BTreeSet<String> {
        let mut is_late = |(name, _): &(&str, f64)| match self.last_steps.get_mut(*name) {
            Some(last) if *last > step => true,
            Some(last) => {
                *last = step;
                false
            }
            None => {
                self.last_steps.insert((*name).to_owned(), step);
                false
            }
        };
        metrics.iter().filter(|metric| is_late(metric)).map(|(name, _)| name.to_owned()).collect()
    }

    /// Asks it to save and exit before `deadline`.
    pub fn leave(&mut self, why: Leaving, deadline: Timestamp) -> Effect {
        self.leaving = Some((why, deadline));
        Effect::Leave { trial: self.trial, attempt: self.attempt }
    }

    /// Asks it to pause: a command at its next report, since it may lose its work since the last
    /// checkpoint otherwise; others at once.
    pub fn ask_to_pause(
        &mut self,
        waits_for_report: bool,
        now: Timestamp,
        grace: Duration,
    ) -> Option<Effect> {
        if self.leaving.is_none() && waits_for_report {
            self.pause_by.get_or_insert(now.after(grace));
        } else if self.leaving.is_none() {
            self.pause_by = Some(now);
        }
        self.enforce_pause(now, grace)
    }

    /// Asks it to leave if it has not reported since it was to pause.
    pub fn enforce_pause(&mut self, now: Timestamp, grace: Duration) -> Option<Effect> {
        let is_overdue = self.pause_by.is_some_and(|moment| moment <= now);
        (self.leaving.is_none() && is_overdue)
            .then(|| self.leave(Leaving::Holding { told: false }, now.after(grace)))
    }

    /// Continues after a suspension of this length: its silence begins anew, and its other limits
    /// are moved.
    pub fn excuse(&mut self, now: Timestamp, suspended: Duration) {
        self.heard = now;
        self.excused += suspended;
        let deadline = self.leaving.as_mut().map(|(_, deadline)| deadline);
        for moment in deadline.into_iter().chain(&mut self.pause_by) {
            *moment = moment.after(suspended);
        }
    }

    /// Notes whether its agent answers: what could not arrive is not judged.
    pub fn note_reachable(&mut self, is_reachable: bool, now: Timestamp) {
        if !is_reachable {
            self.unreachable_since.get_or_insert(now);
        } else if let Some(since) = self.unreachable_since.take() {
            self.excuse(now, now.since(since));
        }
    }

    pub fn kill(&mut self) -> Effect {
        self.kill_sent = true;
        Effect::Kill { trial: self.trial, attempt: self.attempt }
    }

    pub fn is_leaving(&self) -> bool {
        self.leaving.is_some() || self.pause_by.is_some()
    }

    /// When it will be asked to leave, or killed.
    pub fn deadline(&self, budget: &Budget) -> Option<Timestamp> {
        match &self.leaving {
            _ if self.kill_sent || self.unreachable_since.is_some() => None,
            Some((_, deadline)) => Some(*deadline),
            None => {
                let longest = budget.trial_time.map(|limit| self.longest(limit));
                let silent = budget.stall_time.map(|limit| self.heard.after(limit));
                longest.into_iter().chain(silent).chain(self.pause_by).min()
            }
        }
    }

    /// When it has run for `trial_time`.
    fn longest(&self, limit: Duration) -> Timestamp {
        self.since.after(limit.saturating_add(self.excused))
    }

    /// The limit it has exceeded, once its deadline has passed.
    pub fn timeout(&self, budget: &Budget, now: Timestamp) -> String {
        match (budget.trial_time, budget.stall_time) {
            (Some(limit), _) if self.longest(limit) <= now => {
                format!("ran longer than trial_time ({} s)", limit.as_secs_f64())
            }
            (_, limit) => {
                let limit = limit.unwrap_or_default().as_secs_f64();
                format!("did not report for stall_time ({limit} s)")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attempt_that_leaves_ends_as_it_was_asked_to() {
        use AttemptEnd::{Completed, Failed, Interrupted, Paused, Refused, Stopped};
        let killed = || Failed(FailureCause::WorkerLost);
        let why = "rank 3 of 4";
        let (pausing, stopping) = (Leaving::Pausing(why.into()), Leaving::Stopping(why.into()));
        let [told, untold] = [true, false].map(|told| Leaving::Holding { told });
        let word = Some("killed by signal 15");
        for (leaving, end, settled, said) in [
            (&pausing, killed(), Paused, Some(why)),
            (&pausing, Refused, Paused, Some(why)),
            (&pausing, Stopped, Stopped, word),
            (&stopping, killed(), Stopped, Some(why)),
            (&Leaving::Draining, killed(), Interrupted, None),
            (&Leaving::Arrived, killed(), Completed, None),
            (&told, Completed, Paused, None),
            (&untold, Completed, Completed, word),
            (&Leaving::AgentLeft, killed(), Paused, None),
            (&Leaving::AgentLeft, Completed, Completed, word),
        ] {
            let found = leaving.settle(end.clone(), word.map(str::to_owned));
            assert_eq!(found, (settled, said.map(str::to_owned)), "{leaving:?} {end:?}");
        }
    }

    #[test]
    fn the_first_limit_that_is_exceeded_is_the_deadline() {
        let seconds = |seconds| Some(Duration::from_secs(seconds));
        let budget =
            Budget { trial_time: seconds(60), stall_time: seconds(10), ..Budget::default() };
        let mut attempt = RunningAttempt::new(TrialNumber(0), AttemptNumber(0), Timestamp(0), None);
        attempt.heard = Timestamp(5_000_000);
        assert_eq!(attempt.deadline(&budget), Some(Timestamp(15_000_000)));
        assert!(attempt.timeout(&budget, Timestamp(15_000_000)).contains("stall_time (10 s)"));
        attempt.heard = Timestamp(55_000_000);
        assert_eq!(attempt.deadline(&budget), Some(Timestamp(60_000_000)));
        assert!(attempt.timeout(&budget, Timestamp(60_000_000)).contains("trial_time (60 s)"));
        attempt.leave(Leaving::Draining, Timestamp(7));
        assert_eq!(attempt.deadline(&budget), Some(Timestamp(7)));
        attempt.kill();
        assert_eq!(attempt.deadline(&budget), None);
    }

    #[test]
    fn no_limit_counts_a_suspension() {
        let seconds = Duration::from_secs;
        let at = |second| Timestamp(0).after(seconds(second));
        let (longest, silence) = (Some(seconds(60)), Some(seconds(10)));
        let budget = Budget { trial_time: longest, stall_time: silence, ..Budget::default() };
        let mut attempt = RunningAttempt::new(TrialNumber(0), AttemptNumber(0), at(0), None);
        attempt.excuse(at(49), seconds(40));
        assert_eq!(attempt.deadline(&budget), Some(at(59)));
        attempt.heard = at(95);
        assert_eq!(attempt.deadline(&budget), Some(at(100)));
        assert!(attempt.timeout(&budget, at(100)).contains("trial_time (60 s)"));
        // Its agent does not answer for 20 s.
        attempt.note_reachable(false, at(97));
        attempt.note_reachable(false, at(98));
        assert_eq!(attempt.deadline(&budget), None);
        attempt.note_reachable(true, at(117));
        attempt.note_reachable(true, at(118));
        assert_eq!(attempt.deadline(&budget), Some(at(120)));
        attempt.leave(Leaving::Draining, at(121));
        attempt.excuse(at(125), seconds(5));
        assert_eq!(attempt.deadline(&budget), Some(at(126)));
    }
}
