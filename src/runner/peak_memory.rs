//! The peak memory of a process tree: its series, and its measurement.

use std::time::{Duration, Instant};

use super::processes::{self, ResidentMemory};
use crate::study::metric::Metrics;

/// Time of the first sample; intervals double.
const FIRST: Duration = Duration::from_millis(25);

/// Longest interval: a later peak of a process in its last second is missed.
const LONGEST: Duration = Duration::from_secs(1);

/// The largest of the tree's total at each sample, and of each process's own peak according to the
/// system.
#[derive(Debug)]
pub struct PeakMemory {
    bytes: u64,
    pause: Duration,
    next: Instant,
}

impl PeakMemory {
    /// Starts without samples.
    #[must_use]
    pub fn start() -> Self {
        PeakMemory { bytes: 0, pause: FIRST, next: Instant::now() + FIRST }
    }

    /// Time until the next sample.
    pub fn wait(&self) -> Duration {
        self.next.saturating_duration_since(Instant::now())
    }

    /// Samples these processes, if due.
    pub fn look(&mut self, processes: impl FnOnce() -> Vec<u32>) {
        if self.wait().is_zero() {
            self.look_now(processes());
            self.pause = (self.pause * 2).min(LONGEST);
            self.next = Instant::now() + self.pause;
        }
    }

    /// Samples these processes.
    pub fn look_now(&mut self, processes: Vec<u32>) {
        self.take(processes.into_iter().filter_map(processes::resident_memory));
    }

    fn take(&mut self, processes: impl Iterator<Item = ResidentMemory>) {
        let mut now = 0_u64;
        for memory in processes {
            now = now.saturating_add(memory.now);
            self.bytes = self.bytes.max(memory.peak);
        }
        self.bytes = self.bytes.max(now);
    }

    /// The peak in bytes; `None` without samples.
    pub fn bytes(&self) -> Option<u64> {
        (self.bytes > 0).then_some(self.bytes)
    }
}

/// The peak of an attempt as a point of a series.
#[expect(clippy::cast_precision_loss, reason = "bytes, exact up to 2^53")]
pub fn measured(bytes: u64) -> Metrics {
    [("system/peak_memory".to_owned(), bytes as f64)].into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peak_is_that_of_all_together_or_of_the_largest_at_any_time() {
        let mut peak = PeakMemory::start();
        assert_eq!(peak.bytes(), None);
        let held = |now, peak| ResidentMemory { now, peak };
        peak.take([held(5, 6), held(3, 4)].into_iter());
        assert_eq!(peak.bytes(), Some(8));
        peak.take([held(1, 20), held(3, 4)].into_iter());
        peak.take([held(1, 2)].into_iter());
        assert_eq!(peak.bytes(), Some(20));
    }

    #[test]
    fn a_process_is_looked_at_when_it_is_time() {
        let mut peak = PeakMemory::start();
        peak.look(|| unreachable!("not yet"));
        peak.next = Instant::now();
        peak.look(|| vec![std::process::id(), u32::MAX]);
        assert!(peak.bytes().is_some_and(|bytes| bytes > 1 << 20), "{peak:?}");
        assert!(peak.wait() > FIRST);
    }
}
