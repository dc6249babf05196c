//! Queued trials.

use std::collections::BTreeSet;

use crate::study::state::StudyState;
use crate::study::trial::{TrialNumber, TrialState};

/// Queued trials by number.
#[derive(Clone, Debug, Default)]
pub(super) struct Queue {
    waiting: BTreeSet<TrialNumber>,
    /// Those that were running when the last runner died: they start first.
    recovered: BTreeSet<TrialNumber>,
}

impl Queue {
    pub fn of(state: &StudyState) -> Self {
        let queued = state.trials.iter().filter(|trial| trial.state == TrialState::Queued);
        Queue { waiting: queued.map(|trial| trial.number).collect(), recovered: BTreeSet::new() }
    }

    /// Follows the state, after an event about a trial was applied to it.
    pub fn follow(&mut self, state: &StudyState, number: TrialNumber) {
        if state.trial(number).is_some_and(|trial| trial.state == TrialState::Queued) {
            self.waiting.insert(number);
        } else {
            self.waiting.remove(&number);
            self.recovered.remove(&number);
        }
    }

    /// Marks a queued trial as running when the last runner died.
    pub fn recover(&mut self, trial: TrialNumber) {
        self.recovered.insert(trial);
    }

    pub fn first(&self) -> Option<TrialNumber> {
        self.recovered.first().or_else(|| self.waiting.first()).copied()
    }

    /// The first by a key, after those that were running when the last runner died.
    pub fn first_by<K: Ord>(&self, key: impl Fn(TrialNumber) -> K) -> Option<TrialNumber> {
        let waiting = || self.waiting.iter().copied().min_by_key(|number| key(*number));
        self.recovered.first().copied().or_else(waiting)
    }

    pub fn find(&self, is_wanted: impl Fn(TrialNumber) -> bool) -> Option<TrialNumber> {
        self.waiting.iter().copied().find(|number| is_wanted(*number))
    }

    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::conformance::small_study;
    use crate::study::event::{Event, StateEvent, TrialEvent};
    use crate::study::metric::Direction;
    use crate::study::params::Params;
    use crate::study::time::Timestamp;
    use crate::study::trial::Origin;

    #[test]
    fn recovered_trials_come_before_earlier_ones() {
        let mut state = StudyState::new(&small_study("s", Direction::Minimize));
        let mut queue = Queue::default();
        let mut apply = |queue: &mut Queue, trial: u64, event| {
            let trial = TrialNumber(trial);
            state.apply(Timestamp(0), &Event::Trial(trial, event));
            queue.follow(&state, trial);
        };
        for trial in 0..4 {
            let origin = Origin::Sampled("random".to_owned());
            apply(&mut queue, trial, TrialEvent::created(Params::new(), origin));
        }
        assert_eq!(queue.first(), Some(TrialNumber(0)));
        queue.recover(TrialNumber(3));
        assert_eq!(queue.first(), Some(TrialNumber(3)));
        apply(
            &mut queue,
            3,
            TrialEvent::State(StateEvent::Paused { reason: String::new(), hold: None }),
        );
        assert_eq!(queue.first(), Some(TrialNumber(0)));
        assert_eq!(queue.find(|number| number.0 > 2), None);
        apply(
            &mut queue,
            3,
            TrialEvent::State(StateEvent::Queued { until: None, reason: String::new() }),
        );
        assert_eq!(queue.find(|number| number.0 > 2), Some(TrialNumber(3)));
        assert_eq!(queue.first(), Some(TrialNumber(0)), "it was recovered once");
    }
}
