//! Refused resources, which are not a trial's failure: when to retry, and when a run gives up.

use std::time::Duration;

use crate::study::time::Timestamp;

/// Wait after a first refusal; doubled after each further one.
pub const FIRST_WAIT: Duration = Duration::from_secs(1);

/// The longest wait, in first waits.
const LONGEST: u32 = 30;

/// Consecutive refusals, with nothing running, that end a run.
const MOST: u32 = 10;

/// Minimum duration of such a series, in first waits.
const LONGEST_ROW: u32 = 120;

/// The refusals since the last successful attempt.
#[derive(Debug)]
pub(super) struct Refusals {
    first_wait: Duration,
    /// Number of failed rounds; simultaneous refusals on several slots count once.
    row: u32,
    since: Timestamp,
    /// Nothing starts before this time.
    until: Option<Timestamp>,
    why: String,
}

impl Refusals {
    pub fn new(first_wait: Duration) -> Self {
        let (since, why) = (Timestamp::default(), String::new());
        Refusals { first_wait, row: 0, since, until: None, why }
    }

    /// Records a refusal: nothing starts for a while.
    pub fn note(&mut self, why: &str, now: Timestamp) {
        why.clone_into(&mut self.why);
        if self.wait(now) {
            return;
        }
        if self.row == 0 {
            self.since = now;
        }
        let doubled = 1_u32.checked_shl(self.row).unwrap_or(LONGEST).clamp(1, LONGEST);
        self.row += 1;
        self.until = Some(now.after(self.first_wait * doubled));
    }

    /// The machine provides resources again.
    pub fn forget(&mut self) {
        (self.row, self.until) = (0, None);
    }

    /// Whether nothing may start now.
    pub fn wait(&self, now: Timestamp) -> bool {
        self.until.is_some_and(|until| now < until)
    }

    /// When the next try is due.
    pub fn deadline(&self) -> Option<Timestamp> {
        self.until
    }

    /// Ends an expired wait.
    pub fn tick(&mut self, now: Timestamp) {
        self.until = self.until.filter(|until| now < *until);
    }

    /// Why an idle run gives up, if refusals were frequent and long enough.
    pub fn give_up(&self, now: Timestamp) -> Option<String> {
        let Refusals { first_wait, row, since, why, .. } = self;
        let is_long = *row >= MOST || now.since(*since) >= *first_wait * LONGEST_ROW;
        (*row > 0 && is_long).then(|| {
            format!("the machine refused what trials need, {row} times in a row; the last: {why}")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_and_a_long_row_gives_up() {
        let mut refusals = Refusals::new(FIRST_WAIT);
        let mut now = Timestamp(0);
        for wait in [1, 2, 4, 8, 16, 30, 30] {
            refusals.note("no memory", now);
            refusals.note("at once on another slot", now);
            assert_eq!(refusals.deadline(), Some(now.after(FIRST_WAIT * wait)));
            assert_eq!(refusals.give_up(now), None);
            now = now.after(FIRST_WAIT * wait);
            refusals.tick(now);
            assert!(!refusals.wait(now));
        }
        now = now.after(FIRST_WAIT * 30);
        assert!(refusals.give_up(now).is_some_and(|why| why.contains("7 times in a row")));
        refusals.forget();
        assert_eq!(refusals.give_up(now), None);
    }
}
