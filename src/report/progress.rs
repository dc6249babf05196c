//! The progress of a study: trials that count, elapsed time, and the used fraction of its limits.

use std::time::Duration;

use crate::analysis::forecast::counted;
use crate::study::counted::count;
use crate::study::spec::StudySpec;
use crate::study::state::Counts;

/// The progress of a study.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Progress {
    /// Trials that count towards the budget.
    pub done: u64,
    /// The budget's number of trials, if limited.
    pub of: Option<u64>,
    /// Running time of all runners.
    pub elapsed: Duration,
    /// Used fraction of the tightest limit, from 0 to 1; `None` without a limit.
    pub fraction: Option<f64>,
}

impl Progress {
    /// The progress of a study with these trials after `elapsed` of running time and `device_time`
    /// on devices.
    pub fn new(spec: &StudySpec, counts: Counts, elapsed: Duration, device_time: Duration) -> Self {
        let done = counted(counts, spec.budget.count);
        let used_trials = spec.budget.trials.map(|of| share(done, of));
        let used_time = spec.budget.time.map(|time| part(elapsed, time));
        let used_devices = spec.budget.device_limit().map(|limit| part(device_time, limit.time()));
        Progress {
            done,
            of: spec.budget.trials,
            elapsed,
            fraction: [used_trials, used_time, used_devices].into_iter().flatten().reduce(f64::max),
        }
    }

    /// `12/24 trials`, or `12 trials` without a limit.
    pub fn trials(&self) -> String {
        match self.of {
            Some(of) => format!("{}/{} trials", self.done, of),
            None => count(self.done, "trial"),
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "a share of trials for a bar and an estimate")]
fn share(done: u64, of: u64) -> f64 {
    if of == 0 { 1.0 } else { (done as f64 / of as f64).min(1.0) }
}

fn part(used: Duration, limit: Duration) -> f64 {
    if limit.is_zero() { 1.0 } else { (used.as_secs_f64() / limit.as_secs_f64()).min(1.0) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::metric::Direction;
    use crate::study::program::Program;
    use crate::study::space::Space;

    fn spec() -> StudySpec {
        StudySpec::new("study", "loss", Direction::Minimize, Space::default(), Program::Inline)
    }

    fn counts() -> Counts {
        Counts { complete: 4, pruned: 2, failed: 1, running: 2, ..Counts::default() }
    }

    #[test]
    fn the_tightest_limit_says_how_far_a_study_is() {
        let mut spec = spec();
        spec.budget.trials = Some(24);
        let of = |spec: &StudySpec| {
            Progress::new(spec, counts(), Duration::from_secs(30), Duration::from_secs(54))
        };
        assert_eq!(
            (of(&spec).done, of(&spec).fraction, of(&spec).trials().as_str()),
            (6, Some(0.25), "6/24 trials")
        );
        spec.budget.time = Some(Duration::from_secs(40));
        assert_eq!(of(&spec).fraction, Some(0.75));
        spec.budget.device_hours = Some(1.0 / 60.0);
        assert_eq!(of(&spec).fraction, Some(0.9));
    }

    #[test]
    fn without_a_limit_a_study_is_nowhere_on_its_way() {
        let unlimited = Progress::new(&spec(), counts(), Duration::from_secs(5), Duration::ZERO);
        assert_eq!((unlimited.fraction, unlimited.trials()), (None, "6 trials".to_owned()));
    }
}
