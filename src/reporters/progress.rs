//! How far a study is: trials that count towards its budget, time spent, and an estimate of the time left.

use std::time::Duration;

use crate::study::{Count, StudySpec};
use crate::view::Counts;

/// How far a study is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Progress {
    /// Trials that count towards the budget.
    pub done: u64,
    /// The budget's number of trials, if it limits them.
    pub of: Option<u64>,
    /// Time that runners spent on the study.
    pub elapsed: Duration,
    /// Estimated time to the end; `None` where nothing can be said yet.
    pub left: Option<Duration>,
    /// How much of the tightest limit is used, from 0 to 1; `None` without a limit.
    pub fraction: Option<f64>,
}

impl Progress {
    /// The progress of a study with these trials after `elapsed` of running time.
    ///
    /// The estimate is the plain one: what is left takes as long per trial as what is done took, and never longer than
    /// the budget's time.
    pub fn new(spec: &StudySpec, counts: Counts, elapsed: Duration) -> Self {
        let done = match spec.budget.count {
            Count::Finished => counts.complete + counts.pruned,
            Count::Completed => counts.complete,
            Count::All => counts.complete + counts.pruned + counts.failed,
        };
        let by_trials = spec.budget.trials.and_then(|of| time_of_the_rest(done, of, elapsed));
        let by_time = spec.budget.time.map(|time| time.saturating_sub(elapsed));
        let used_trials = spec.budget.trials.map(|of| share(done, of));
        let used_time = spec.budget.time.map(|time| if time.is_zero() { 1.0 } else { (elapsed.as_secs_f64() / time.as_secs_f64()).min(1.0) });
        Progress {
            done,
            of: spec.budget.trials,
            elapsed,
            left: [by_trials, by_time].into_iter().flatten().min(),
            fraction: [used_trials, used_time].into_iter().flatten().reduce(f64::max),
        }
    }

    /// `12/24 trials`, or `12 trials` without a limit.
    pub fn trials(&self) -> String {
        match self.of {
            Some(of) => format!("{}/{} trials", self.done, of),
            None => super::wording::count(self.done, "trial"),
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "a share of trials for a bar and an estimate")]
fn share(done: u64, of: u64) -> f64 {
    if of == 0 { 1.0 } else { (done as f64 / of as f64).min(1.0) }
}

fn time_of_the_rest(done: u64, of: u64, elapsed: Duration) -> Option<Duration> {
    if done >= of {
        return Some(Duration::ZERO);
    }
    let done_share = share(done, of);
    // No estimate before the first trial, and none that a Duration cannot hold.
    (done > 0).then(|| Duration::try_from_secs_f64(elapsed.as_secs_f64() * (1.0 - done_share) / done_share).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metric::Direction;
    use crate::space::Space;
    use crate::study::Program;

    fn spec() -> StudySpec {
        StudySpec::new("study", "loss", Direction::Minimize, Space::default(), Program::Inline)
    }

    fn counts() -> Counts {
        Counts { complete: 4, pruned: 2, failed: 1, running: 2, ..Counts::default() }
    }

    #[test]
    fn the_rest_takes_as_long_per_trial_as_what_is_done() {
        let mut spec = spec();
        spec.budget.trials = Some(24);
        let progress = Progress::new(&spec, counts(), Duration::from_secs(30));
        assert_eq!((progress.done, progress.left), (6, Some(Duration::from_secs(90))));
        assert_eq!(progress.trials(), "6/24 trials");
    }

    #[test]
    fn the_budget_of_time_bounds_the_estimate() {
        let mut spec = spec();
        spec.budget.trials = Some(24);
        spec.budget.time = Some(Duration::from_secs(40));
        let progress = Progress::new(&spec, counts(), Duration::from_secs(30));
        assert_eq!((progress.left, progress.fraction), (Some(Duration::from_secs(10)), Some(0.75)));
    }

    #[test]
    fn nothing_is_said_before_the_first_trial_or_without_a_limit() {
        let mut limited = spec();
        limited.budget.trials = Some(24);
        assert_eq!(Progress::new(&limited, Counts::default(), Duration::from_secs(5)).left, None);
        let unlimited = Progress::new(&spec(), counts(), Duration::from_secs(5));
        assert_eq!((unlimited.left, unlimited.fraction, unlimited.trials()), (None, None, "6 trials".to_owned()));
    }
}
