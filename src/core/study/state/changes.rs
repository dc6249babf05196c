//! Which trials changed lately, for memos that follow a study without looking at all of it again.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use crate::study::trial::TrialNumber;

/// Changes that are remembered. A memo that is further behind looks at all trials once, which is
/// cheap that rarely.
const REMEMBERED: usize = 4096;

/// The trials of one view that changed, in the order of changes. It says nothing about the study
/// itself: any two are equal, and a clone begins anew, since it may go another way.
#[derive(Default)]
pub struct Changes {
    /// Tells this view from all others: there is one address for each.
    identity: Arc<()>,
    /// Changes so far.
    count: u64,
    latest: VecDeque<TrialNumber>,
}

/// A moment of one view.
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

    /// Now.
    pub fn mark(&self) -> Mark {
        Mark { identity: Arc::clone(&self.identity), count: self.count }
    }

    /// The trials that changed since `mark`, some of them several times; `None` if that is another
    /// view's, or too long ago.
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
    /// As little as it says about the study: views are compared as text too.
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
