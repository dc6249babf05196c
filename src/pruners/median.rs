//! The median rule: a trial whose best report is worse than the median of the completed trials at that step stops.

use super::{Case, Pruner, PrunerEntry};
use crate::history::History;
use crate::metric::Score;
use crate::policy::{OptionKind, OptionSpec};
use crate::study::{Milestones, PolicySpec};
use crate::trial::{Trial, TrialState};
use crate::verdict::{Reason, Verdict};

pub(super) const ENTRY: PrunerEntry = PrunerEntry {
    name: "median",
    aliases: &[],
    summary: "stops a trial whose best report is worse than the median of the completed trials at that step",
    version: 1,
    options: &[
        OptionSpec {
            name: "n_startup_trials",
            kind: OptionKind::Int { min: 0, max: i64::MAX },
            default: "5",
            summary: "completed trials before any trial is stopped",
        },
        OptionSpec {
            name: "n_warmup_steps",
            kind: OptionKind::Int { min: 0, max: i64::MAX },
            default: "0",
            summary: "clock values of each trial in which it is not judged",
        },
        OptionSpec {
            name: "interval_steps",
            kind: OptionKind::Int { min: 1, max: i64::MAX },
            default: "1",
            summary: "clock values between judgements, counted from the end of the warm-up",
        },
        OptionSpec {
            name: "n_min_trials",
            kind: OptionKind::Int { min: 1, max: i64::MAX },
            default: "1",
            summary: "completed trials with a report at the step that a judgement needs",
        },
    ],
    build: |spec, _| Ok(Box::new(MedianRule::new(spec))),
};

/// Optuna's `MedianPruner` (`PercentilePruner` at 50): the trial's *best* report so far against the median of what
/// *completed* trials reported at exactly this step. Trials that were stopped give no information.
///
/// Two things differ. A NaN among the others' reports counts as worst (Optuna leaves it out): a trial should not be
/// stopped for being worse than the few that did not diverge. And a median between `inf` and `-inf` is the worse of
/// the two instead of NaN.
#[derive(Clone, Copy, Debug)]
pub struct MedianRule {
    startup_trials: u64,
    warmup_steps: u64,
    interval_steps: u64,
    min_trials: u64,
}

impl MedianRule {
    /// From checked options.
    pub fn new(spec: &PolicySpec) -> Self {
        MedianRule {
            startup_trials: spec.count("n_startup_trials", 5),
            warmup_steps: spec.count("n_warmup_steps", 0),
            interval_steps: spec.count("interval_steps", 1).max(1),
            min_trials: spec.count("n_min_trials", 1),
        }
    }

    /// Whether `step` is the trial's first report of its interval: reports need not fall on the interval's start.
    fn is_due(&self, trial: &Trial, step: u64) -> bool {
        let Some(past_warmup) = step.checked_sub(self.warmup_steps) else { return false };
        let interval_start = step - past_warmup % self.interval_steps;
        let before = trial.curve.iter().rev().map(|(at, _)| *at).find(|at| *at < step);
        before.is_none_or(|before| before < interval_start)
    }
}

impl Pruner for MedianRule {
    fn judge(&self, case: &Case<'_>) -> Verdict {
        let Case { history, trial, step } = *case;
        let completed = || history.trials().iter().filter(|other| other.state == TrialState::Complete && other.number != trial.number);
        // Optuna judges nothing before the first completed trial, even with `n_startup_trials` at 0.
        if (completed().count() as u64) < self.startup_trials.max(1) || !self.is_due(trial, step) {
            return Verdict::GO_ON;
        }
        let Some(best) = history.best_until(trial, step) else { return Verdict::GO_ON };
        let mut others: Vec<Score> = completed().filter_map(|other| history.score_at(other, step)).collect();
        if best.loss().is_nan() {
            return Verdict::Stop(Reason(format!("every value up to step {step} is NaN")));
        }
        if (others.len() as u64) < self.min_trials.max(1) {
            return Verdict::GO_ON;
        }
        let median = median(&mut others, &history);
        let value = |score: Score| history.direction().loss(score.loss());
        let numbers = format!("the median {} of {} completed trials at step {step}", value(median), others.len());
        if best > median {
            Verdict::Stop(Reason(format!("best value {} is worse than {numbers}", value(best))))
        } else {
            Verdict::Continue(Some(Reason(format!("best value {} is not worse than {numbers}", value(best)))))
        }
    }

    fn milestones(&self, _budget: Option<u64>) -> Milestones {
        Milestones { every: Some(self.interval_steps), at: Vec::new() }
    }
}

/// The middle score, or the mean of the two middle ones (which is what `numpy.percentile` gives at 50).
fn median(scores: &mut [Score], history: &History<'_>) -> Score {
    scores.sort_unstable();
    let upper = scores[scores.len() / 2];
    let lower = scores[(scores.len() - 1) / 2];
    let mean = lower.loss() / 2.0 + upper.loss() / 2.0;
    if mean.is_nan() || lower == upper { upper } else { history.score(history.direction().loss(mean)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metric::Direction;
    use crate::params::Params;
    use crate::samplers::conformance::trial_of;

    fn completed(curves: &[&[(u64, f64)]]) -> Vec<Trial> {
        let trial = |(number, curve): (u64, &&[(u64, f64)])| Trial {
            curve: curve.to_vec(),
            ..trial_of(number, Params::new(), TrialState::Complete, curve.last().map(|(_, value)| *value))
        };
        (0..).zip(curves).map(trial).collect()
    }

    fn judge(rule: &MedianRule, mut trials: Vec<Trial>, curve: &[(u64, f64)], direction: Direction) -> Verdict {
        let number = trials.len() as u64;
        trials.push(Trial { curve: curve.to_vec(), ..trial_of(number, Params::new(), TrialState::Running, None) });
        let trial = trials.last().unwrap();
        rule.judge(&Case { history: History::of(&trials, direction), trial, step: curve.last().unwrap().0 })
    }

    fn with(key: &str, value: u64) -> MedianRule {
        MedianRule::new(&ENTRY.defaults().with("n_startup_trials", 1).with(key, value))
    }

    #[test]
    fn the_best_report_so_far_is_compared_with_the_others_at_this_step() {
        let others = || completed(&[&[(1, 0.9), (2, 0.5)], &[(1, 0.2), (2, 0.4)], &[(1, 0.9), (2, 0.1)]]);
        let rule = with("n_min_trials", 1);
        assert_eq!(judge(&rule, others(), &[(1, 0.4), (2, 9.0)], Direction::Minimize).word(), "continue");
        let stopped = judge(&rule, others(), &[(1, 0.45), (2, 9.0)], Direction::Minimize);
        assert_eq!(stopped, Verdict::Stop(Reason("best value 0.45 is worse than the median 0.4 of 3 completed trials at step 2".to_owned())));
        assert_eq!(judge(&rule, others(), &[(1, 0.45), (2, 0.3)], Direction::Maximize).word(), "continue");
    }

    #[test]
    fn of_an_even_number_the_median_lies_between_the_two_in_the_middle() {
        let others = || completed(&[&[(1, 1.0)], &[(1, 2.0)]]);
        assert_eq!(judge(&with("n_min_trials", 1), others(), &[(1, 1.5)], Direction::Minimize).word(), "continue");
        assert_eq!(judge(&with("n_min_trials", 1), others(), &[(1, 1.6)], Direction::Minimize).word(), "stop");
        assert_eq!(judge(&with("n_min_trials", 3), others(), &[(1, 1.6)], Direction::Minimize), Verdict::GO_ON);
    }

    #[test]
    fn start_up_warm_up_and_interval_are_waited_for() {
        let others = || completed(&[&[(1, 0.0), (2, 0.0), (3, 0.0), (4, 0.0), (5, 0.0)]]);
        assert_eq!(judge(&MedianRule::new(&ENTRY.defaults()), others(), &[(1, 9.0)], Direction::Minimize), Verdict::GO_ON);
        assert_eq!(judge(&with("n_warmup_steps", 2), others(), &[(1, 9.0)], Direction::Minimize), Verdict::GO_ON);
        assert_eq!(judge(&with("n_warmup_steps", 2), others(), &[(1, 9.0), (2, 9.0)], Direction::Minimize).word(), "stop");
        let rule = with("interval_steps", 3);
        assert_eq!(judge(&rule, others(), &[(3, 9.0), (4, 9.0)], Direction::Minimize), Verdict::GO_ON);
        assert_eq!(judge(&rule, others(), &[(2, 9.0), (4, 9.0)], Direction::Minimize).word(), "stop");
    }

    #[test]
    fn nan_stops_once_enough_trials_are_there_and_as_a_median_stops_nobody() {
        let nan = [(1, f64::NAN)];
        assert_eq!(judge(&with("n_min_trials", 1), completed(&[&[(1, 5.0)]]), &nan, Direction::Minimize).word(), "stop");
        assert_eq!(judge(&with("n_min_trials", 1), Vec::new(), &nan, Direction::Minimize), Verdict::GO_ON);
        assert_eq!(judge(&with("n_min_trials", 1), completed(&[&nan, &nan, &[(1, 0.0)]]), &[(1, 5.0)], Direction::Maximize).word(), "continue");
    }
}
