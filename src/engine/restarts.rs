//! How long trials take to start again after a pause, as their study measures it.
//!
//! All of it depends on the journal only: on the times of starts and reports, and on which attempts
//! left a checkpoint. The same journal gives the same decisions.

use std::collections::BTreeMap;

use super::Engine;
use crate::config;
use crate::pruners::{self, Restart};
use crate::study::event::{
    AttemptEnd, AttemptEvent, CheckpointEvent, DecisionEvent, Event, TrialEvent,
};
use crate::study::program::Program;
use crate::study::spec::StudySpec;
use crate::study::time::Timestamp;
use crate::study::trial::TrialNumber;

/// Starts to measure before any is taken into account.
const ENOUGH: usize = 3;

/// The starts of attempts so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Restarts {
    /// The step of a full trial, if known.
    full: Option<u64>,
    /// Trials with an attempt that has not ended.
    open: BTreeMap<TrialNumber, OpenAttempt>,
    /// Microseconds that attempts with a checkpoint took to start.
    resumed: Sample,
    /// Those of attempts without one.
    first: Sample,
    /// Microseconds of a step, one of each attempt that reported twice.
    steps: Sample,
    /// Whether any trial has saved a checkpoint.
    saves: bool,
    /// Whether a trial has been paused without one.
    starts_over: bool,
    /// Whether a program ended where it was to pause when it started, though it was told to
    /// continue: it does not read the answers.
    leaves: bool,
}

/// An attempt that has not ended.
#[derive(Clone, Debug)]
struct OpenAttempt {
    started: Timestamp,
    /// The step of the checkpoint that it continues from.
    from: Option<u64>,
    until: Option<u64>,
    first: Option<(u64, Timestamp)>,
    last: Option<(u64, Timestamp)>,
    /// Whether its last report was answered with another step to pause at.
    passes: bool,
}

impl OpenAttempt {
    /// Microseconds of one of its steps.
    fn step(&self) -> Option<i64> {
        let ((first, begin), (last, end)) = (self.first?, self.last?);
        let steps = i64::try_from(last.checked_sub(first)?).ok()?;
        Some(end.0.saturating_sub(begin.0)).filter(|micros| *micros > 0)?.checked_div(steps)
    }

    /// Microseconds until it began to train, if a step takes that long.
    fn start(&self, step: i64) -> Option<i64> {
        let (first, at) = self.first?;
        let steps = i64::try_from(first.checked_sub(self.from.unwrap_or(0))?).ok()?;
        let training = steps.checked_mul(step)?;
        Some(at.0.saturating_sub(self.started.0).saturating_sub(training).max(0))
    }

    /// Whether its last report is of the step at which it was to pause when it started, before the
    /// end of a full trial, and was answered with another.
    fn passes_its_pause(&self, full: Option<u64>) -> bool {
        self.passes
            && self.until.zip(self.last).is_some_and(|(until, (last, _))| {
                until <= last && full.is_none_or(|full| last < full)
            })
    }
}

/// Numbers, ascending.
#[derive(Clone, Debug, Default)]
struct Sample(Vec<i64>);

impl Sample {
    fn add(&mut self, value: i64) {
        let place = self.0.partition_point(|other| *other < value);
        self.0.insert(place, value);
    }

    /// The lower of the middle two.
    fn median(&self) -> Option<i64> {
        self.0.get(self.0.len().checked_sub(1)? / 2).copied()
    }
}

impl Restarts {
    /// Those of a study whose pauses are priced. Where decisions must not depend on time, nothing
    /// is measured, nor of closures and of programs that ask for trials: they start no process.
    pub fn of_study(spec: &StudySpec) -> Option<Self> {
        let are_priced = pruners::prices_pauses(&spec.pruner)
            && !spec.deterministic
            && spec.program != Program::Inline;
        are_priced.then(|| Restarts { full: config::max_resource(spec), ..Restarts::default() })
    }

    /// Applies an event of the journal.
    pub fn apply(&mut self, at: Timestamp, event: &Event) {
        let Event::Trial(number, event) = event else { return };
        match event {
            TrialEvent::Attempt(event) => self.apply_to_attempt(at, *number, event),
            TrialEvent::Decision(DecisionEvent::Decided { verdict, .. }) => {
                if let Some(attempt) = self.open.get_mut(number) {
                    attempt.passes = verdict.moved_pause().is_some();
                }
            }
            TrialEvent::Checkpoint(CheckpointEvent::Saved { .. }) => self.saves = true,
            _ => {}
        }
    }

    fn apply_to_attempt(&mut self, at: Timestamp, number: TrialNumber, event: &AttemptEvent) {
        match event {
            AttemptEvent::Started { resume, until, .. } => {
                let (from, until) = (resume.as_ref().map(|(step, _)| *step), *until);
                let (first, last, passes) = (None, None, false);
                let attempt = OpenAttempt { started: at, from, until, first, last, passes };
                self.open.insert(number, attempt);
            }
            AttemptEvent::Reported { step, .. } => {
                if let Some(attempt) = self.open.get_mut(&number)
                    && attempt.last.is_none_or(|(last, _)| last < *step)
                {
                    attempt.first.get_or_insert((*step, at));
                    attempt.last = Some((*step, at));
                    attempt.passes = false;
                }
            }
            AttemptEvent::Ended { end, .. } => {
                let Some(attempt) = self.open.remove(&number) else { return };
                self.measure(&attempt);
                self.starts_over |= *end == AttemptEnd::Paused && !self.saves;
                self.leaves |= *end == AttemptEnd::Completed && attempt.passes_its_pause(self.full);
            }
            AttemptEvent::Launched { .. } | AttemptEvent::Remarked { .. } => {}
        }
    }

    fn measure(&mut self, attempt: &OpenAttempt) {
        let own = attempt.step();
        own.into_iter().for_each(|step| self.steps.add(step));
        let start = own.or_else(|| self.steps.median()).and_then(|step| attempt.start(step));
        let sample = if attempt.from.is_some() { &mut self.resumed } else { &mut self.first };
        start.into_iter().for_each(|start| sample.add(start));
    }

    /// What it takes to start a trial of `program` again.
    fn of(&self, program: &Program, number: TrialNumber) -> Restart {
        let is_command = matches!(program, Program::Command { .. });
        if is_command && self.starts_over && !self.saves {
            return Restart::StartsOver;
        }
        let own = self.open.get(&number).and_then(OpenAttempt::step);
        let enough = |sample: &&Sample| sample.0.len() >= ENOUGH;
        let starts = Some(&self.resumed).filter(enough).or(Some(&self.first).filter(enough));
        match (starts.and_then(Sample::median), own.or_else(|| self.steps.median())) {
            (Some(restart), Some(step)) if !(is_command && self.leaves) => {
                Restart::Takes { restart, step }
            }
            _ => Restart::Unknown,
        }
    }
}

impl Engine {
    /// What it takes to start a trial again after a pause.
    pub(super) fn restart_of(&self, number: TrialNumber) -> Restart {
        self.restarts
            .as_ref()
            .map_or(Restart::Unknown, |restarts| restarts.of(&self.spec.program, number))
    }

    /// Whether an attempt's program ends where it was to pause when it started, after it was told
    /// to continue.
    pub(super) fn leaves_too_early(&self, number: TrialNumber) -> bool {
        self.restarts.as_ref().is_some_and(|restarts| {
            let attempt = restarts.open.get(&number);
            attempt.is_some_and(|attempt| attempt.passes_its_pause(restarts.full))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::device::{Device, Slot};
    use crate::study::metric::Metrics;
    use crate::study::trial::AttemptNumber;

    const TRIAL: TrialNumber = TrialNumber(0);
    const PROGRAM: Program = Program::Trainer { arguments: BTreeMap::new(), data: BTreeMap::new() };

    /// An attempt from a checkpoint of that step, with reports at these steps and seconds.
    fn attempt(restarts: &mut Restarts, from: Option<u64>, reports: &[(u64, i64)]) {
        let (attempt, second) = (AttemptNumber(0), 1_000_000);
        let mut apply = |at: i64, event: AttemptEvent| {
            restarts.apply(Timestamp(at * second), &Event::of(TRIAL, event));
        };
        apply(
            100,
            AttemptEvent::Started {
                attempt,
                slot: Slot::on(0, Device::Cpu),
                resume: from.map(|step| (step, "checkpoint".into())),
                until: None,
                rows_at_once: None,
                device_micros: 0,
            },
        );
        for (step, at) in reports {
            let metrics = Metrics::default();
            apply(100 + at, AttemptEvent::reported(attempt, *step, metrics));
        }
        let end = AttemptEnd::Interrupted;
        let (reason, device_micros, memory) = (None, None, None);
        apply(
            200,
            AttemptEvent::Ended {
                attempt,
                end,
                reason,
                device_micros,
                memory,
                superseded: Default::default(),
            },
        );
    }

    fn found(restarts: &Restarts) -> Option<(i64, i64)> {
        match restarts.of(&PROGRAM, TRIAL) {
            Restart::Takes { restart, step } => Some((restart / 1_000_000, step / 1_000_000)),
            Restart::Unknown | Restart::StartsOver => None,
        }
    }

    #[test]
    fn the_steps_before_the_first_report_are_not_part_of_the_start() {
        let mut restarts = Restarts::default();
        attempt(&mut restarts, None, &[(2, 34), (4, 38), (5, 40)]);
        attempt(&mut restarts, None, &[(1, 33)]);
        assert_eq!(found(&restarts), None, "two starts are not enough");
        attempt(&mut restarts, None, &[(3, 90)]);
        assert_eq!(found(&restarts), Some((31, 2)), "30, 31 and 84 s");
    }

    #[test]
    fn resumed_attempts_count_once_there_are_enough_of_them() {
        let mut restarts = Restarts::default();
        (0..9).for_each(|_| attempt(&mut restarts, None, &[(1, 2), (2, 3)]));
        (0..2).for_each(|_| attempt(&mut restarts, Some(2), &[(3, 9), (4, 10)]));
        assert_eq!(found(&restarts), Some((1, 1)));
        attempt(&mut restarts, Some(2), &[(3, 9), (4, 10)]);
        assert_eq!(found(&restarts), Some((8, 1)));
    }

    #[test]
    fn a_clock_that_went_back_measures_no_negative_times() {
        let mut restarts = Restarts::default();
        (0..3).for_each(|_| attempt(&mut restarts, None, &[(1, 5), (2, 4)]));
        assert_eq!(found(&restarts), None);
        (0..3).for_each(|_| attempt(&mut restarts, None, &[(1, -5), (2, 4)]));
        assert_eq!(found(&restarts), Some((0, 9)));
    }
}
