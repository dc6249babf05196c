//! The log of recently changed trials, for caches that follow a study incrementally.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use crate::study::trial::TrialNumber;

/// Length of the log. A cache further behind reads all trials once, which is cheap that rarely.
const REMEMBERED: usize = 4096;

/// The trials of one state that changed, in order. Not part of the state: any two are equal, and a
/// clone starts anew, since it may diverge.
#[derive(Default)]
pub struct Changes {
    /// Identifies this state: addresses are unique.
    identity: Arc<()>,
    /// Changes so far.
    count: u64,
    latest: VecDeque<TrialNumber>,
}

/// A position in one state's log.
#[derive(Clone, Debug)]
pub struct Mark {
    identity: Arc<()>,
    count: u64,
}

impl Changes {
    pub(super) fn note(&mut self, trial: TrialNumber) {
        if self.latest.len() == REMEMBERED {
            self.latest.pop_front();
        }
        self.latest.push_back(trial);
        self.count += 1;
    }

    /// The current position.
    pub fn mark(&self) -> Mark {
        Mark { identity: Arc::clone(&self.identity), count: self.count }
    }

    /// The trials changed since `mark`, possibly repeated; `None` if it belongs to another state or
    /// is too old.
    pub fn since(&self, mark: &Mark) -> Option<impl Iterator<Item = TrialNumber> + '_> {
        let missed =
            self.count.checked_sub(mark.count).and_then(|missed| usize::try_from(missed).ok())?;
        let first = self
            .latest
            .len()
            .checked_sub(missed)
            .filter(|_| Arc::ptr_eq(&self.identity, &mark.identity))?;
        Some(self.latest.range(first..).copied())
    }
}

impl Clone for Changes {
    fn clone(&self) -> Self {
        Changes::default()
    }
}

impl fmt::Debug for Changes {
    /// Empty: states are also compared as text.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Changes")
    }
}

impl PartialEq for Changes {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn since(changes: &Changes, mark: &Mark) -> Option<Vec<u64>> {
        changes.since(mark).map(|trials| trials.map(|trial| trial.0).collect())
    }

    #[test]
    fn a_mark_knows_its_own_view_and_how_far_back_it_lies() {
        let mut changes = Changes::default();
        let begin = changes.mark();
        changes.note(TrialNumber(3));
        let middle = changes.mark();
        changes.note(TrialNumber(5));
        assert_eq!(since(&changes, &begin), Some(vec![3, 5]));
        assert_eq!(since(&changes, &middle), Some(vec![5]));
        assert_eq!(since(&changes, &changes.mark()), Some(vec![]));
        let clone = changes.clone();
        assert_eq!((since(&clone, &begin), since(&changes, &clone.mark())), (None, None));
        (0..REMEMBERED as u64 - 1).for_each(|number| changes.note(TrialNumber(number)));
        assert_eq!(since(&changes, &begin), None);
        assert_eq!(since(&changes, &middle).map(|trials| trials.len()), Some(REMEMBERED));
    }
}
