//! Crash recovery: the usage of a killed runner, and the fate of its open attempts.

use std::collections::{BTreeMap, BTreeSet};

use super::Engine;
use super::attempt::Leaving;
use super::device_time::DeviceMeter;
use super::superseding::Superseding;
use crate::storage::{StorageError, StorageReader, StudyId};
use crate::study::device::DeviceGroup;
use crate::study::event::{
    AttemptEnd, AttemptEvent, CheckpointEvent, Event, ProposalEvent, RunnerEvent, Seq, StateEvent,
    StudyEvent, TrialEvent,
};
use crate::study::spec::Objective;
use crate::study::state::{StudyState, TrialResult};
use crate::study::time::Timestamp;
use crate::study::trial::{AttemptNumber, Trial, TrialNumber, TrialState};

/// How many events are read at once.
const EVENTS_AT_ONCE: u64 = 1000;

/// The end event of a killed runner, written in its place: its last heartbeat, and its running
/// time, excluding idle periods.
///
/// `events`: all events since the runner started, including its start; `None` if that is missing.
/// `paused`: whether the study is paused at their end.
pub fn end_of_killed_runner<'a>(
    paused: bool,
    events: impl IntoIterator<Item = (Timestamp, &'a Event)>,
) -> Option<Event> {
    // Notes and tags can be written at any time by any process.
    let mut events = events.into_iter().filter(|(_, event)| !event.is_entry()).peekable();
    let (begun, Event::Runner(RunnerEvent::Started { .. })) = *events.peek()? else { return None };
    let mut heard = begun;
    let mut running: BTreeMap<(TrialNumber, AttemptNumber), DeviceGroup> = BTreeMap::new();
    let mut meter = DeviceMeter::default();
    let mut changes = Vec::new();
    for (at, event) in events {
        // Clocks may be set back.
        heard = heard.max(at);
        match event {
            Event::Study(StudyEvent::Paused { .. }) => changes.push((at, Change::Paused(true))),
            Event::Study(StudyEvent::Resumed { .. }) => changes.push((at, Change::Paused(false))),
            _ => {}
        }
        let Some((trial, event)) = event.attempt_event() else { continue };
        match event {
            AttemptEvent::Started { attempt, slot, .. } => {
                meter.start(&slot.devices, at);
                running.insert((trial, *attempt), slot.devices.clone());
                changes.push((at, Change::Idle(running.is_empty())));
            }
            AttemptEvent::Ended { attempt, .. } => {
                if let Some(devices) = running.remove(&(trial, *attempt)) {
                    meter.end(&devices, at);
                }
                changes.push((at, Change::Idle(running.is_empty())));
            }
            AttemptEvent::Launched { .. }
            | AttemptEvent::Reported { .. }
            | AttemptEvent::Remarked { .. } => {}
        }
    }
    let idle = idle_micros(begun, heard, paused, changes);
    Some(Event::Runner(RunnerEvent::Stopped {
        reason: "it was killed, or lost its store".to_owned(),
        ran_micros: heard.0.saturating_sub(begun.0).saturating_sub(idle).max(0),
        heard: Some(heard),
        device_micros: i64::try_from(meter.unaccounted(heard).as_micros()).unwrap_or(i64::MAX),
        runner: None,
    }))
}

/// A change of whether time counts.
#[derive(Clone, Copy)]
enum Change {
    Paused(bool),
    /// Whether nothing runs.
    Idle(bool),
}

/// Idle microseconds between two times. `paused`: the state at the end.
fn idle_micros(
    begun: Timestamp,
    end: Timestamp,
    paused: bool,
    mut changes: Vec<(Timestamp, Change)>,
) -> i64 {
    let first = changes.iter().find_map(|(_, change)| match change {
        Change::Paused(is_paused) => Some(!is_paused),
        Change::Idle(_) => None,
    });
    let (mut is_paused, mut is_idle) = (first.unwrap_or(paused), true);
    let (mut since, mut idle) = (begun, 0);
    changes.push((end, Change::Idle(true)));
    changes.sort_by_key(|(at, _)| *at);
    for (at, change) in changes {
        if is_paused && is_idle {
            idle += at.0.saturating_sub(since.0).max(0);
        }
        match change {
            Change::Paused(now) => is_paused = now,
            Change::Idle(now) => is_idle = now,
        }
        since = since.max(at);
    }
    idle
}

impl Engine {
    /// Adds what the open attempts of an earlier runner had reported and saved.
    ///
    /// # Errors
    /// The store failed.
    pub fn with_open_attempts(
        mut self,
        reader: &dyn StorageReader,
        study: StudyId,
    ) -> Result<Self, StorageError> {
        let running = self.state.trials.iter().filter(|trial| trial.state == TrialState::Running);
        let (first, open): (Vec<&Trial>, Vec<&Trial>) =
            running.partition(|trial| trial.attempts == 1);
        let open: BTreeSet<TrialNumber> = open.iter().map(|trial| trial.number).collect();
        self.open_attempts =
            first.iter().map(|trial| (trial.number, Superseding::of_first(trial))).collect();
        let (mut pages, mut before) = (Vec::new(), Seq(i64::MAX));
        let mut uncreated = open.clone();
        while !uncreated.is_empty() {
            let mut page = reader.events_before(study, before, EVENTS_AT_ONCE)?;
            let Some((first, ..)) = page.first() else { break };
            before = *first;
            page.retain(|(_, _, event)| event.trial().is_some_and(|trial| open.contains(&trial)));
            for (_, _, event) in &page {
                if let Event::Trial(
                    trial,
                    TrialEvent::Proposal(ProposalEvent::TrialCreated { .. }),
                ) = event
                {
                    uncreated.remove(trial);
                }
            }
            pages.push(page);
        }
        let events = pages.iter().rev().flatten().map(|(_, at, event)| (*at, event));
        Ok(self.with_events_of_open_attempts(events))
    }

    /// The same, from all events of their trials, or of more.
    #[must_use]
    pub fn with_events_of_open_attempts<'a>(
        mut self,
        events: impl IntoIterator<Item = (Timestamp, &'a Event)>,
    ) -> Self {
        let mut state = StudyState::new(&self.spec);
        for (at, event) in events {
            state.apply(at, event);
            if let Event::Trial(number, event) = event
                && let Some(trial) = state.trial(*number)
            {
                note_of_open(&mut self.open_attempts, &self.spec.objectives, trial, event);
            }
        }
        self
    }

    /// Notes an event of a journal that is replayed, which has been applied.
    pub(super) fn note_of_replayed(&mut self, event: &Event) {
        if let Event::Trial(number, event) = event
            && let Some(trial) = self.state.trial(*number)
        {
            note_of_open(&mut self.open_attempts, &self.spec.objectives, trial, event);
        }
    }

    /// Ends the attempts that a dead runner left open.
    pub(super) fn recover(&mut self) {
        for number in self.trials_that(|trial| trial.state == TrialState::Running) {
            let trial = self.state.trial(number);
            let Some(attempt) = trial.and_then(Trial::last_attempt) else { continue };
            if let Some(slot) = self.surviving(number, attempt) {
                self.adopt(number, attempt, &slot);
                continue;
            }
            let superseding = self.open_attempts.remove(&number).unwrap_or_default();
            let superseded = self.superseded_by(&superseding, number, Some(&AttemptEnd::Lost));
            // Its device time is accounted for with the end of that runner.
            self.emit(Event::of(
                number,
                AttemptEvent::Ended {
                    attempt,
                    end: AttemptEnd::Lost,
                    reason: Some("the runner died".to_owned()),
                    device_micros: Some(0),
                    memory: None,
                    superseded: superseded.reports,
                },
            ));
            self.drop_all(superseded.checkpoints);
            match (self.final_decision(number), self.hold_of(number)) {
                _ if self.has_arrived(number) => self.complete(number, None),
                (Some(Leaving::Arrived), _) => self.complete(number, None),
                (Some(Leaving::Stopping(reason)), _) => self.finish_trial(
                    number,
                    TrialState::Pruned,
                    TrialResult::default(),
                    Some(reason),
                ),
                (Some(Leaving::Pausing(reason)), hold) => {
                    self.emit(Event::of(number, StateEvent::Paused { reason, hold }));
                }
                (_, Some(hold)) => self.hold(number, hold),
                _ => {
                    self.queue_again(number, "its runner died");
                    self.queue.recover(number);
                }
            }
        }
    }
}

/// Notes what an event of this trial, which contains it, says of what its open attempt supersedes.
fn note_of_open(
    attempts: &mut BTreeMap<TrialNumber, Superseding>,
    objectives: &[Objective],
    trial: &Trial,
    event: &TrialEvent,
) {
    match (event, attempts.get_mut(&trial.number)) {
        (TrialEvent::Attempt(AttemptEvent::Started { resume, .. }), _) => {
            attempts.insert(trial.number, Superseding::of(trial, resume.clone()));
        }
        (TrialEvent::Attempt(AttemptEvent::Ended { .. }), _) => {
            attempts.remove(&trial.number);
        }
        (TrialEvent::Attempt(AttemptEvent::Reported { step, metrics, .. }), Some(open)) => {
            open.note_report(*step, metrics, objectives);
        }
        (TrialEvent::Checkpoint(CheckpointEvent::Saved { step, path, .. }), Some(open)) => {
            open.note_checkpoint(*step, path);
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runner::fixtures::{ended, started};

    const SECOND: i64 = 1_000_000;

    fn ran(paused: bool, events: &[(i64, Event)]) -> Option<(i64, i64)> {
        let begun = Event::Runner(RunnerEvent::Started {
            pid: 1,
            host: "h".to_owned(),
            slots: Vec::new(),
            tracker: None,
        });
        let all: Vec<(Timestamp, &Event)> = [(Timestamp(0), &begun)]
            .into_iter()
            .chain(events.iter().map(|(at, event)| (Timestamp(at * SECOND), event)))
            .collect();
        match end_of_killed_runner(paused, all)? {
            Event::Runner(RunnerEvent::Stopped { ran_micros, heard: Some(heard), .. }) => {
                Some((ran_micros / SECOND, heard.0 / SECOND))
            }
            other => panic!("{other:?}"),
        }
    }

    fn pause() -> Event {
        Event::Study(StudyEvent::Paused { reason: "paused by you".to_owned() })
    }

    fn resume() -> Event {
        Event::Study(StudyEvent::Resumed { reason: "resumed by you".to_owned() })
    }

    #[test]
    fn a_killed_runner_ran_until_it_was_last_heard_and_notes_are_not_its_own() {
        let note = Event::Study(StudyEvent::Noted { text: "by hand".to_owned() });
        assert_eq!(ran(false, &[(3, started()), (70, note)]), Some((3, 3)));
        // Its start is missing.
        assert_eq!(end_of_killed_runner(false, [(Timestamp(1), &started())]), None);
    }

    #[test]
    fn time_stands_still_while_the_study_is_paused_and_nothing_runs() {
        // Paused at 10, its trial leaves at 12, resumed at 100, last heartbeat at 105.
        let left = [(1, started()), (10, pause()), (12, ended(AttemptEnd::Interrupted))];
        let resumed = [
            &left[..],
            &[(100, resume()), (100, started()), (105, ended(AttemptEnd::Interrupted))],
        ]
        .concat();
        assert_eq!(ran(false, &resumed), Some((17, 105)));
        // Killed while paused, whatever it wrote last.
        let paused = [&left[..], &[(50, pause())]].concat();
        assert_eq!(ran(true, &paused), Some((12, 50)));
        // Paused from the start.
        let left = (45, ended(AttemptEnd::Interrupted));
        assert_eq!(ran(false, &[(40, resume()), (40, started()), left]), Some((5, 45)));
        assert_eq!(ran(true, &[]), Some((0, 0)));
    }
}
