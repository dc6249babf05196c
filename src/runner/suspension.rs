//! Notices that this process was suspended: by SIGSTOP or Ctrl-Z, by a scheduler, in a container
//! that was paused, or with the machine.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use super::threads;

/// How often the thread looks.
const INTERVAL: Duration = Duration::from_millis(250);

/// The delay of a thread that is taken for a suspension: a busy machine delays one less.
const SHORTEST: Duration = Duration::from_secs(2);

/// The time for which this process was suspended, while this value exists. A thread measures it: a
/// loop that is busy or waits for the disk is not suspended.
pub struct Suspension(Arc<Mutex<Noticed>>);

struct Noticed {
    last: Instant,
    suspended: Duration,
}

impl Suspension {
    /// Starts the thread, which ends once the value is dropped.
    ///
    /// # Errors
    /// The system refuses it.
    pub fn start() -> io::Result<Self> {
        let noticed = Noticed { last: Instant::now(), suspended: Duration::ZERO };
        // A mutex: whichever of the two threads continues first notices it.
        let noticed = Arc::new(Mutex::new(noticed));
        let watched: Weak<Mutex<Noticed>> = Arc::downgrade(&noticed);
        threads::spawn_small("suspension", move || {
            while let Some(noticed) = watched.upgrade() {
                lock(&noticed).look(Instant::now());
                drop(noticed);
                threads::sleep(INTERVAL);
            }
        })?;
        Ok(Suspension(noticed))
    }

    /// How long this process was suspended since the last call, if it was.
    pub fn take(&self) -> Option<Duration> {
        let mut noticed = lock(&self.0);
        noticed.look(Instant::now());
        let suspended = std::mem::take(&mut noticed.suspended);
        (!suspended.is_zero()).then_some(suspended)
    }
}

impl Noticed {
    fn look(&mut self, now: Instant) {
        let passed = now.saturating_duration_since(self.last);
        self.last = self.last.max(now);
        if passed >= SHORTEST {
            self.suspended += passed;
        }
    }
}

fn lock(noticed: &Mutex<Noticed>) -> MutexGuard<'_, Noticed> {
    noticed.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_long_delay_is_a_suspension_and_each_is_told_once() {
        let began = Instant::now();
        let mut noticed = Noticed { last: began, suspended: Duration::ZERO };
        let mut after = |millis| {
            noticed.look(began + Duration::from_millis(millis));
            noticed.suspended
        };
        assert_eq!(after(250), Duration::ZERO);
        assert_eq!(after(2200), Duration::ZERO);
        assert_eq!(after(17_200), Duration::from_secs(15));
        assert_eq!(after(17_000), Duration::from_secs(15));
        assert_eq!(after(17_400), Duration::from_secs(15));
        assert_eq!(after(20_400), Duration::from_secs(18));
        let suspension = Suspension::start().unwrap();
        lock(&suspension.0).suspended = Duration::from_secs(3);
        assert_eq!(suspension.take(), Some(Duration::from_secs(3)));
        assert_eq!(suspension.take(), None);
    }
}
