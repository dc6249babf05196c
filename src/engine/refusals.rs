//! What a machine refuses is no trial's fault: when it is tried again, and when a run gives up.

use std::time::Duration;

use super::{Engine, Outcome, Phase};
use crate::study::time::Timestamp;

/// After a first refusal nothing is started for this time; after each further one twice as long.
pub const FIRST_WAIT: Duration = Duration::from_secs(1);

/// The longest wait, in first waits.
const LONGEST: u32 = 30;

/// So many refusals in a row, with nothing running, end a run.
const MOST: u32 = 10;

/// So does a row that is as long as this, in first waits.
const LONGEST_ROW: u32 = 120;

/// The refusals since the last attempt that came to something.
#[derive(Debug)]
pub(super) struct Refusals {
    first_wait: Duration,
    /// How many times something was tried in vain; what is refused at once on several slots is one time.
    row: u32,
    since: Timestamp,
    /// Nothing is started before.
    until: Option<Timestamp>,
    why: String,
}

impl Default for Refusals {
    fn default() -> Self {
        Refusals {
            first_wait: FIRST_WAIT,
            row: 0,
            since: Timestamp::default(),
            until: None,
            why: String::new(),
        }
    }
}

impl Refusals {
    pub(super) fn with_first_wait(first_wait: Duration) -> Self {
        Refusals { first_wait, ..Refusals::default() }
    }
}

impl Engine {
    /// Takes in that the machine refused what an attempt needs: nothing is started for a while.
    pub(super) fn note_refusal(&mut self, why: &str) {
        let (now, refusals) = (self.now, &mut self.refusals);
        why.clone_into(&mut refusals.why);
        if refusals.until.is_some_and(|until| now < until) {
            return;
        }
        if refusals.row == 0 {
            refusals.since = now;
        }
        let doubled = 1_u32.checked_shl(refusals.row).unwrap_or(LONGEST).clamp(1, LONGEST);
        refusals.row += 1;
        refusals.until = Some(now.after(refusals.first_wait * doubled));
    }

    /// The machine gives again what an attempt needs.
    pub(super) fn forget_refusals(&mut self) {
        (self.refusals.row, self.refusals.until) = (0, None);
    }

    /// Whether nothing is started now, because the machine refused it a moment ago.
    pub(super) fn waits_for_the_machine(&self) -> bool {
        self.refusals.until.is_some_and(|until| self.now < until)
    }

    /// When something is tried again.
    pub(super) fn refusal_deadline(&self) -> Option<Timestamp> {
        self.refusals.until.filter(|_| matches!(self.phase, Phase::Searching | Phase::Racing(_)))
    }

    /// Ends the run where nothing runs, and nothing could be started often and long enough.
    pub(super) fn mind_refusals(&mut self) {
        if self.refusals.until.is_some_and(|until| until <= self.now) {
            self.refusals.until = None;
        }
        let Refusals { row, since, first_wait, .. } = &self.refusals;
        if *row == 0 || self.busy.iter().any(Option::is_some) {
            return;
        }
        if *row >= MOST || self.now.since(*since) >= *first_wait * LONGEST_ROW {
            let why = format!(
                "the machine refused what trials need, {row} times in a row; the last: {}",
                self.refusals.why
            );
            self.drain(Outcome::Refused(why));
        }
    }
}
