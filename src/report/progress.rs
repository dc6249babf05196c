//! The progress of a study: trials that count, elapsed time, and the used fraction of its limits.

use std::time::Duration;

use crate::analysis::forecast::counted;
use crate::pruners::counted_trials;
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
    /// Paused trials, which count once they end.
    pub paused: u64,
    /// Running time of all runners.
    pub elapsed: Duration,
    /// Used fraction of the tightest limit, from 0 to 1; `None` without a limit.
    pub fraction: Option<f64>,
}

impl Progress {
    /// The progress of a study with these trials after `elapsed` of running time and `device_time`
    /// on devices.
    pub fn new(spec: &StudySpec, counts: Counts, elapsed: Duration, device_time: Duration) -> Self {
        let done = counted(counts, counted_trials(spec));
        let used_trials = spec.budget.trials.map(|of| share(done, of));
        let used_time = spec.budget.time.map(|time| part(elapsed, time));
        let used_devices = spec.budget.device_limit().map(|limit| part(device_time, limit.time()));
        Progress {
            done,
            of: spec.budget.trials,
            paused: counts.paused,
            elapsed,
            fraction: [used_trials, used_time, used_devices].into_iter().flatten().reduce(f64::max),
        }
    }

    /// `12/24 trials`, or `12 trials` without a limit; `24 trials of a budget of 12` if that was
    /// lowered.
    pub fn trials(&self) -> String {
        match self.of {
            Some(of) if self.done > of => {
                format!("{} of a budget of {of}", count(self.done, "trial"))
            }
            Some(of) => format!("{}/{} trials", self.done, of),
            None => count(self.done, "trial"),
        }
    }
}

impl Progress {
    /// What is open of the budget: `, 3 paused, 9 left`; nothing without a limit.
    pub fn trials_left(&self) -> String {
        let paused = Some(self.paused).filter(|paused| *paused > 0);
        let paused = paused.map(|paused| format!(", {paused} paused")).unwrap_or_default();
        let left = self.of.map(|of| of.saturating_sub(self.done + self.paused));
        let left = left.filter(|left| *left > 0).map(|left| format!(", {left} left"));
        match self.of {
            Some(of) if of > self.done => paused + &left.unwrap_or_default(),
            _ => String::new(),
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
    use crate::study::budget::Budget;
    use crate::study::metric::Direction;
    use crate::study::program::Program;
    use crate::study::space::Space;
    use crate::study::spec::AlgorithmSpec;

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
    fn paused_trials_are_not_said_to_be_left() {
        let spec = StudySpec { budget: Budget { trials: Some(40), ..Budget::default() }, ..spec() };
        let of = |counts| Progress::new(&spec, counts, Duration::ZERO, Duration::ZERO);
        assert_eq!(of(counts()).trials_left(), ", 34 left");
        let paused = Counts { complete: 2, paused: 23, ..Counts::default() };
        assert_eq!(
            of(paused).trials() + &of(paused).trials_left(),
            "2/40 trials, 23 paused, 15 left"
        );
        let lowered = Counts { complete: 55, ..Counts::default() };
        assert_eq!(of(lowered).trials(), "55 trials of a budget of 40");
    }

    #[test]
    fn failed_members_of_a_population_count() {
        let pruner = AlgorithmSpec::named("pbt");
        let spec = StudySpec { pruner, ..spec() };
        assert_eq!(Progress::new(&spec, counts(), Duration::ZERO, Duration::ZERO).done, 7);
    }

    #[test]
    fn without_a_limit_a_study_is_nowhere_on_its_way() {
        let unlimited = Progress::new(&spec(), counts(), Duration::from_secs(5), Duration::ZERO);
        assert_eq!((unlimited.fraction, unlimited.trials()), (None, "6 trials".to_owned()));
    }
}
