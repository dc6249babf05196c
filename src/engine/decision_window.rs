//! The decision window: the results that decisions may use with `deterministic = true`, where they
//! must not depend on timing.
//!
//! A *turn* is a trial's way from its start to its end or its pruner's pause, over any number of
//! attempts; turns are numbered in the order in which they begin. With `w` slots, results become
//! known in that order, one at a time: the decision that begins turn `n` knows all results up to
//! turn `n - w` (of more, if nothing could start before) and no later ones, and so do the decisions
//! during turn `n`. None of this depends on timing; the journal contains all of it.

use std::borrow::Cow;
use std::collections::VecDeque;

use crate::study::configuration::for_pruners;
use crate::study::event::{
    AttemptEvent, DecisionEvent, Event, FinalistsEvent, RunnerEvent, StateEvent, TrialEvent,
};
use crate::study::spec::StudySpec;
use crate::study::state::StudyState;
use crate::study::time::Timestamp;
use crate::study::trial::{Hold, Trial, TrialNumber};

/// The results that decisions may use, and the turns whose results are not known yet.
pub(super) struct DecisionWindow {
    /// Number of slots of the study's first runner; 0 before it started.
    width: usize,
    known: StudyState,
    turns: VecDeque<Turn>,
}

struct Turn {
    trial: TrialNumber,
    events: Vec<(Timestamp, Event)>,
    ended: bool,
    /// The state known when it began, as pruners see it; its own trial is kept current.
    then: StudyState,
}

impl Turn {
    /// Whether its trial has ended, after an event.
    fn note(&mut self, event: &Event) {
        if event.devices().is_some() {
            self.ended = false;
        }
        let Some((_, event)) = event.state_event() else { return };
        match event {
            StateEvent::Finished { .. } => self.ended = true,
            // A paused study starts nothing, and continues as if it had not been paused.
            StateEvent::Paused { hold, .. } => self.ended = *hold != Some(Hold::Study),
            StateEvent::Queued { .. }
            | StateEvent::Cloned { .. }
            | StateEvent::Held { .. }
            | StateEvent::Continued { .. }
            | StateEvent::Hidden
            | StateEvent::Restored
            | StateEvent::Removed { .. } => {}
        }
    }
}

impl DecisionWindow {
    /// The window before the first event of a journal.
    pub fn new(spec: &StudySpec) -> Self {
        DecisionWindow { width: 0, known: StudyState::new(spec), turns: VecDeque::new() }
    }

    /// Applies an event of the journal.
    pub fn apply(&mut self, at: Timestamp, event: &Event) {
        match event {
            Event::Runner(RunnerEvent::Started { slots, .. }) if self.width == 0 => {
                self.width = slots.len().max(1)
            }
            Event::Trial(trial, TrialEvent::Decision(DecisionEvent::ResultsKnown)) => {
                if let Some(place) = self.turns.iter().position(|turn| turn.trial == *trial)
                    && let Some(turn) = self.turns.remove(place)
                {
                    turn.events.iter().for_each(|(at, event)| self.known.apply(*at, event));
                }
                return;
            }
            Event::Finalists(
                FinalistsEvent::Dropped { .. }
                | FinalistsEvent::Won { .. }
                | FinalistsEvent::Tested { .. },
            ) => {}
            Event::Runner(_)
            | Event::Study(_)
            | Event::Trial(..)
            | Event::Finalists(FinalistsEvent::Chosen { .. })
            | Event::Device(_) => {
                let trial = event.trial();
                if let Some(turn) = self.turns.iter_mut().find(|turn| Some(turn.trial) == trial) {
                    turn.note(event);
                    turn.events.push((at, event.clone()));
                    return;
                }
            }
        }
        self.known.apply(at, event);
        if let Event::Trial(trial, TrialEvent::Attempt(AttemptEvent::Started { .. })) = event {
            let mut then = self.known.clone();
            if let Cow::Owned(trials) = for_pruners(&self.known.trials) {
                then.trials = trials;
            }
            self.turns.push_back(Turn { trial: *trial, events: Vec::new(), ended: false, then });
        }
    }

    /// The state that decisions may use.
    pub fn known(&self) -> &StudyState {
        &self.known
    }

    /// Whether a result must become known before anything starts.
    pub fn is_full(&self) -> bool {
        self.turns.len() >= self.width.max(1)
    }

    /// Whether all results are known.
    pub fn is_empty(&self) -> bool {
        self.turns.is_empty()
    }

    /// Whether this trial's turn is open.
    pub fn is_open(&self, trial: TrialNumber) -> bool {
        self.turns.iter().any(|turn| turn.trial == trial && !turn.ended)
    }

    /// The trial whose results become known next, if they are available.
    pub fn next_known(&self) -> Option<TrialNumber> {
        self.turns.front().filter(|turn| turn.ended).map(|turn| turn.trial)
    }

    /// The state that decisions on a trial may use: its own reports, and what was known when its
    /// turn began.
    pub fn known_of(&mut self, trial: &Trial) -> Option<&StudyState> {
        let turn = self.turns.iter_mut().find(|turn| turn.trial == trial.number)?;
        trial.clone_into(turn.then.trials.get_mut(trial.number.index())?);
        Some(&turn.then)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::conformance::small_study;
    use crate::study::device::{Device, Slot};
    use crate::study::metric::Direction;
    use crate::study::params::Params;
    use crate::study::trial::{AttemptNumber, Origin, TrialState};

    fn trial(number: u64, event: TrialEvent) -> Event {
        Event::Trial(TrialNumber(number), event)
    }

    fn created(number: u64) -> Event {
        let origin = Origin::Sampled("random".to_owned());
        trial(number, TrialEvent::created(Params::new(), origin))
    }

    fn started(number: u64, attempt: u32) -> Event {
        trial(
            number,
            TrialEvent::Attempt(AttemptEvent::Started {
                attempt: AttemptNumber(attempt),
                slot: Slot::on(0, Device::Cpu),
                resume: None,
                until: None,
                rows_at_once: None,
                device_micros: 0,
            }),
        )
    }

    fn complete(number: u64) -> Event {
        trial(number, TrialEvent::finished(TrialState::Complete, Some(1.0), None))
    }

    fn paused(number: u64, hold: Option<Hold>) -> Event {
        trial(number, TrialEvent::State(StateEvent::Paused { reason: String::new(), hold }))
    }

    /// A window of two slots after these events.
    fn after(events: &[Event]) -> DecisionWindow {
        let mut window = DecisionWindow::new(&small_study("s", Direction::Minimize));
        let slots = (0..2).map(|index| Slot::on(index, Device::Cpu)).collect();
        let (pid, host) = (1, String::new());
        let runner = Event::Runner(RunnerEvent::Started { pid, host, slots, tracker: None });
        [&runner].into_iter().chain(events).for_each(|event| window.apply(Timestamp(0), event));
        window
    }

    fn completed(window: &DecisionWindow) -> u64 {
        window.known().counts.complete
    }

    #[test]
    fn results_become_known_in_the_order_in_which_turns_began() {
        let begun = [created(0), started(0, 0), created(1), started(1, 0)];
        let mut window = after(&begun);
        assert!(window.is_full() && window.is_open(TrialNumber(1)));
        window.apply(Timestamp(1), &complete(1));
        assert_eq!((window.next_known(), completed(&window)), (None, 0), "trial 0 is before it");
        window.apply(Timestamp(2), &complete(0));
        for number in [0, 1] {
            assert_eq!(window.next_known(), Some(TrialNumber(number)));
            window.apply(
                Timestamp(3),
                &trial(number, TrialEvent::Decision(DecisionEvent::ResultsKnown)),
            );
            assert_eq!(completed(&window), number + 1);
        }
        assert!(window.is_empty() && !window.is_full());
    }

    #[test]
    fn a_pause_of_the_study_ends_no_turn_and_one_of_the_pruner_does() {
        let pauses = [(Some(Hold::Study), None), (None, Some(TrialNumber(0)))];
        for (hold, known) in pauses {
            let window = after(&[created(0), started(0, 0), paused(0, hold)]);
            assert_eq!(window.next_known(), known, "{hold:?}");
        }
        // It continues in the same turn.
        let again = [created(0), started(0, 0), paused(0, None), started(0, 1)];
        assert!(after(&again).is_open(TrialNumber(0)));
    }

    #[test]
    fn a_decision_knows_its_own_trial_and_what_was_known_when_its_turn_began() {
        let mut events = vec![created(0), started(0, 0), created(1), started(1, 0), complete(0)];
        events.push(trial(0, TrialEvent::Decision(DecisionEvent::ResultsKnown)));
        let mut window = after(&events);
        assert_eq!(completed(&window), 1);
        let mut own = window.known().trials[1].clone();
        own.tags = vec!["own".to_owned()];
        let then = window.known_of(&own).unwrap();
        assert_eq!(then.counts.complete, 0);
        assert_eq!(then.trials[1].tags, ["own"]);
    }
}
