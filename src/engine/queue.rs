//! Queued trials.

use std::collections::BTreeSet;

use crate::study::event::{Event, TrialEvent};
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
    pub fn of(view: &StudyState) -> Self {
        let queued = view.trials.iter().filter(|trial| trial.state == TrialState::Queued);
        Queue { waiting: queued.map(|trial| trial.number).collect(), recovered: BTreeSet::new() }
    }

    pub fn apply(&mut self, event: &Event) {
        match event {
            Event::Trial(
                trial,
                TrialEvent::Queued { .. }
                | TrialEvent::Cloned { .. }
                | TrialEvent::Continued { .. }
                | TrialEvent::Created { .. },
            ) => drop(self.waiting.insert(*trial)),
            Event::Trial(
                trial,
                TrialEvent::AttemptStarted { .. }
                | TrialEvent::Finished { .. }
                | TrialEvent::Paused { .. },
            ) => {
                self.waiting.remove(trial);
                self.recovered.remove(trial);
            }
            _ => {}
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

    fn queued(trial: u64) -> Event {
        Event::Trial(TrialNumber(trial), TrialEvent::Queued { until: None, reason: String::new() })
    }

    #[test]
    fn recovered_trials_come_before_earlier_ones() {
        let mut queue = Queue::default();
        [3, 1, 2].into_iter().for_each(|trial| queue.apply(&queued(trial)));
        assert_eq!(queue.first(), Some(TrialNumber(1)));
        queue.recover(TrialNumber(3));
        assert_eq!(queue.first(), Some(TrialNumber(3)));
        let trial = TrialNumber(3);
        queue.apply(&Event::Trial(trial, TrialEvent::Paused { reason: String::new(), hold: None }));
        assert_eq!(queue.first(), Some(TrialNumber(1)));
        assert_eq!(queue.find(|number| number.0 > 2), None);
    }
}
