//! The median rule: a trial whose best report is worse than the median of the completed trials at
//! that step stops.

use super::PrunerEntry;
use super::interval::{INTERVAL_STEPS, N_WARMUP_STEPS};
use super::percentile::{N_MIN_TRIALS, N_STARTUP_TRIALS, PercentileRule};

pub(super) const ENTRY: PrunerEntry = PrunerEntry {
    name: "median",
    aliases: &[],
    summary: "stops a trial whose best report is worse than the median of the completed trials at \
        that step",
    version: 1,
    options: &[N_STARTUP_TRIALS, N_WARMUP_STEPS, INTERVAL_STEPS, N_MIN_TRIALS],
    build: |spec, _| Ok(Box::new(PercentileRule::median(spec))),
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pruners::conformance::{self, trial};
    use crate::study::decision::Decision;
    use crate::study::metric::Direction;
    use crate::study::trial::{Trial, TrialState};

    fn completed(curves: &[&[(u64, f64)]]) -> Vec<Trial> {
        (0..)
            .zip(curves)
            .map(|(number, curve)| trial(number, TrialState::Complete, curve))
            .collect()
    }

    fn judge(
        rule: &PercentileRule,
        others: Vec<Trial>,
        curve: &[(u64, f64)],
        direction: Direction,
    ) -> Decision {
        conformance::judge(rule, &others, curve, curve.last().unwrap().0, direction)
    }

    fn with(key: &str, value: u64) -> PercentileRule {
        PercentileRule::median(&ENTRY.defaults().with("n_startup_trials", 1).with(key, value))
    }

    #[test]
    fn the_best_report_so_far_is_compared_with_the_others_at_this_step() {
        let others =
            || completed(&[&[(1, 0.9), (2, 0.5)], &[(1, 0.2), (2, 0.4)], &[(1, 0.9), (2, 0.1)]]);
        let rule = with("n_min_trials", 1);
        assert_eq!(
            judge(&rule, others(), &[(1, 0.4), (2, 9.0)], Direction::Minimize).word(),
            "continue"
        );
        let stopped = judge(&rule, others(), &[(1, 0.45), (2, 9.0)], Direction::Minimize);
        assert_eq!(
            stopped.in_words(),
            "stop: best value 0.45 is worse than the median 0.4 of 3 completed trials at step 2"
        );
        assert_eq!(
            judge(&rule, others(), &[(1, 0.45), (2, 0.3)], Direction::Maximize).word(),
            "continue"
        );
    }

    #[test]
    fn of_an_even_number_the_median_lies_between_the_two_in_the_middle() {
        let others = || completed(&[&[(1, 1.0)], &[(1, 2.0)]]);
        assert_eq!(
            judge(&with("n_min_trials", 1), others(), &[(1, 1.5)], Direction::Minimize).word(),
            "continue"
        );
        assert_eq!(
            judge(&with("n_min_trials", 1), others(), &[(1, 1.6)], Direction::Minimize).word(),
            "stop"
        );
        assert_eq!(
            judge(&with("n_min_trials", 3), others(), &[(1, 1.6)], Direction::Minimize),
            Decision::CONTINUE
        );
    }

    #[test]
    fn start_up_warm_up_and_interval_are_waited_for() {
        let others = || completed(&[&[(1, 0.0), (2, 0.0), (3, 0.0), (4, 0.0), (5, 0.0)]]);
        assert_eq!(
            judge(
                &PercentileRule::median(&ENTRY.defaults()),
                others(),
                &[(1, 9.0)],
                Direction::Minimize
            ),
            Decision::CONTINUE
        );
        assert_eq!(
            judge(&with("n_warmup_steps", 2), others(), &[(1, 9.0)], Direction::Minimize),
            Decision::CONTINUE
        );
        assert_eq!(
            judge(&with("n_warmup_steps", 2), others(), &[(1, 9.0), (2, 9.0)], Direction::Minimize)
                .word(),
            "stop"
        );
        let rule = with("interval_steps", 3);
        assert_eq!(
            judge(&rule, others(), &[(3, 9.0), (4, 9.0)], Direction::Minimize),
            Decision::CONTINUE
        );
        assert_eq!(
            judge(&rule, others(), &[(2, 9.0), (4, 9.0)], Direction::Minimize).word(),
            "stop"
        );
    }

    #[test]
    fn nan_stops_once_enough_trials_are_there_and_as_a_median_stops_nobody() {
        let nan = [(1, f64::NAN)];
        assert_eq!(
            judge(&with("n_min_trials", 1), completed(&[&[(1, 5.0)]]), &nan, Direction::Minimize)
                .word(),
            "stop"
        );
        assert_eq!(
            judge(&with("n_min_trials", 1), Vec::new(), &nan, Direction::Minimize),
            Decision::CONTINUE
        );
        assert_eq!(
            judge(
                &with("n_min_trials", 1),
                completed(&[&nan, &nan, &[(1, 0.0)]]),
                &[(1, 5.0)],
                Direction::Maximize
            )
            .word(),
            "continue"
        );
    }
}
