//! A run's monotonic clock: read from the system once and then counted on, so that adjusting the
//! system clock has no effect.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::study::time::Timestamp;

/// A study's clock: it advances steadily during a run, and never goes back between runs. Budgets,
/// stalls and the order of events use it, whatever happens to the system clock. It stops while the
/// machine sleeps.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    began: Timestamp,
    since: Instant,
}

impl Clock {
    /// Starts at the system's time, or at the study's `last` event if the system clock was set back
    /// behind it.
    pub fn start(system: Timestamp, last: Option<Timestamp>) -> Self {
        Clock { began: system.max(last.unwrap_or_default()), since: Instant::now() }
    }

    /// The present time.
    pub fn now(&self) -> Timestamp {
        self.after(self.since.elapsed())
    }

    /// The time of an `Instant`.
    pub fn of(&self, noted: Instant) -> Timestamp {
        match noted.checked_duration_since(self.since) {
            Some(passed) => self.after(passed),
            None => self.began,
        }
    }

    fn after(&self, passed: Duration) -> Timestamp {
        self.began.after(passed)
    }
}

/// The system clock, right or wrong.
pub fn system_time() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    #[test]
    fn a_studys_time_never_goes_back() {
        let (noon, one) = (Timestamp(0).after(12 * HOUR), Timestamp(0).after(13 * HOUR));
        assert_eq!(Clock::start(noon, None).began, noon);
        assert_eq!(Clock::start(one, Some(noon)).began, one);
        assert_eq!(Clock::start(noon, Some(one)).began, one, "the system's clock was set back");
        let clock = Clock::start(noon, Some(one));
        assert_eq!(clock.after(HOUR), one.after(HOUR));
        assert!(clock.now() >= one);
        assert_eq!(clock.of(clock.since + HOUR), one.after(HOUR));
    }
}
