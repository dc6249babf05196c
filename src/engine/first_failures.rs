//! Ends a study whose first trials all fail alike: the program is broken, and no configuration will
//! help.

use std::collections::BTreeMap;

use crate::study::event::{AttemptEnd, AttemptEvent, Event, StateEvent, StudyEvent, TrialEvent};
use crate::study::spec::FailureCause;
use crate::study::trial::{Trial, TrialNumber, TrialState};

/// This many similar failures of different configurations, before any trial completes, end a study.
const ALIKE: usize = 3;

/// How a trial failed, if that indicates a fault of its program: memory, devices and timeouts do
/// not.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Failure {
    /// The program exited normally without reporting a value.
    NoValue,
    /// The program failed: the cause (including a command's exit status) and its last message
    /// without numbers, which may belong to its configuration.
    Program(FailureCause, String),
}

impl Failure {
    fn of(end: &AttemptEnd, reason: Option<&str>) -> Option<Failure> {
        match end {
            AttemptEnd::Completed => Some(Failure::NoValue),
            AttemptEnd::Failed(cause @ (FailureCause::Program | FailureCause::Exit(_))) => {
                Some(Failure::Program(*cause, without_numbers(reason.unwrap_or_default())))
            }
            AttemptEnd::Failed(
                FailureCause::Oom
                | FailureCause::DeviceLost
                | FailureCause::WorkerLost
                | FailureCause::Timeout,
            )
            | AttemptEnd::Paused
            | AttemptEnd::Stopped
            | AttemptEnd::Interrupted
            | AttemptEnd::Lost
            | AttemptEnd::Refused
            | AttemptEnd::Diverged => None,
        }
    }
}

/// A sentence without digits and the characters between the digits of one number.
fn without_numbers(words: &str) -> String {
    let mut kept = String::with_capacity(words.len());
    let mut rest = words.chars().peekable();
    let mut before = ' ';
    while let Some(letter) = rest.next() {
        let is_exponent = matches!(letter, 'e' | 'E')
            && (before.is_ascii_digit() || before == '.')
            && rest.peek().is_some_and(|next| next.is_ascii_digit() || matches!(next, '+' | '-'));
        if !(is_exponent || letter.is_ascii_digit() || matches!(letter, '.' | '+' | '-')) {
            kept.push(letter);
        }
        before = letter;
    }
    kept
}

/// The trials that failed since the study last finished, in order: a function of the journal. Empty
/// once a trial has completed or was pruned.
#[derive(Clone, Debug, Default)]
pub(super) struct FirstFailures {
    /// How the last attempt of each unfinished trial ended.
    ended: BTreeMap<TrialNumber, Failure>,
    failed: Vec<(TrialNumber, Failure)>,
    works: bool,
    /// Whether the study finished before, so that earlier trials exist.
    is_again: bool,
}

impl FirstFailures {
    pub fn apply(&mut self, event: &Event) {
        if self.works {
            return;
        }
        match event {
            Event::Trial(trial, TrialEvent::Attempt(AttemptEvent::Ended { end, reason, .. })) => {
                self.ended.remove(trial);
                let failure = Failure::of(end, reason.as_deref());
                self.ended.extend(failure.map(|failure| (*trial, failure)));
            }
            Event::Trial(trial, TrialEvent::State(event)) => self.apply_to_state(*trial, event),
            // The user may have fixed the program before running the study again.
            Event::Study(StudyEvent::Finished { .. }) => {
                self.failed.clear();
                self.is_again = true;
            }
            _ => {}
        }
    }

    fn apply_to_state(&mut self, trial: TrialNumber, event: &StateEvent) {
        match event {
            StateEvent::Finished { state: TrialState::Failed, .. } => {
                self.failed.extend(self.ended.remove(&trial).map(|failure| (trial, failure)));
            }
            StateEvent::Finished { .. } => {
                *self = FirstFailures { works: true, ..FirstFailures::default() }
            }
            // Retried by the user.
            StateEvent::Queued { .. } => self.failed.retain(|(failed, _)| *failed != trial),
            StateEvent::Cloned { .. }
            | StateEvent::Paused { .. }
            | StateEvent::Held { .. }
            | StateEvent::Continued { .. }
            | StateEvent::Hidden
            | StateEvent::Restored
            | StateEvent::Removed { .. } => {}
        }
    }

    /// Why the first failures indicate a broken program, if they do.
    pub fn alike(&self, trials: &[Trial]) -> Option<String> {
        let mut first: Vec<(&Trial, &Failure)> = Vec::new();
        for (number, failure) in &self.failed {
            let trial = trials.get(number.index())?;
            if first.len() < ALIKE && first.iter().all(|(other, _)| other.params != trial.params) {
                first.push((trial, failure));
            }
        }
        let [.., (last, failure)] = first[..] else { return None };
        let step = |trial: &Trial| trial.last().map(|(step, _)| step);
        let reached = first.iter().filter_map(|(trial, _)| step(trial)).max();
        // A trial that got further than all of them may still complete.
        let gets_further = |trial: &Trial| !trial.state.is_finished() && step(trial) > reached;
        if first.len() < ALIKE
            || first.iter().any(|(_, other)| *other != failure)
            || trials.iter().any(gets_further)
        {
            return None;
        }
        let reason = last.reason.as_deref().unwrap_or_default();
        let which = if self.is_again {
            format!("{ALIKE} trials since the study was run again")
        } else {
            format!("the first {ALIKE} trials")
        };
        Some(format!(
            "{which}, of different configurations, failed in the same way; the last: {reason}"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_configurations_do_not_tell_failures_apart() {
        let same = [
            ("ValueError: lr 0.00123 is too small", "ValueError: lr 1.5e-07 is too small"),
            ("x = -3 at line 12", "x = 4.25 at line 12"),
            ("KeyError: 'layer_3'", "KeyError: 'layer_11'"),
        ];
        for (one, another) in same {
            assert_eq!(without_numbers(one), without_numbers(another));
        }
        assert_ne!(without_numbers("ValueError: lr 1"), without_numbers("KeyError: lr 1"));
        assert_eq!(without_numbers("Fehler e5"), "Fehler e", "a letter of a word stays");
    }

    #[test]
    fn an_exit_status_counts_and_is_no_number_of_the_configuration() {
        let of = |cause, reason| Failure::of(&AttemptEnd::Failed(cause), Some(reason));
        let [one, two] = [1, 2].map(FailureCause::Exit);
        assert_eq!(of(one, "exit status 1: bad x 0.5"), of(one, "exit status 1: bad x 1e-3"));
        assert_ne!(of(one, "exit status 1: bad x 0.5"), of(two, "exit status 2: bad x 0.5"));
        assert_ne!(of(one, "exit status 1"), of(two, "exit status 2"));
        assert_eq!(of(FailureCause::Oom, "exit status 1"), None);
    }
}
