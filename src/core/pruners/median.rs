//! The median rule: a trial whose best report is worse than the median of the completed trials at
//! that step stops.

use super::PrunerEntry;
use super::interval::{INTERVAL_STEPS, N_WARMUP_STEPS};
use super::percentile::{ALL_KNOWN_SINCE, N_MIN_TRIALS, N_STARTUP_TRIALS, PercentileRule};

pub(super) const ENTRY: PrunerEntry = PrunerEntry {
    name: "median",
    aliases: &[],
    summary: "stops a trial whose best report is worse than the median of the completed trials at \
        that step",
    // As `percentile`.
    version: ALL_KNOWN_SINCE,
    oldest: 1,
    options: &[N_STARTUP_TRIALS, N_WARMUP_STEPS, INTERVAL_STEPS, N_MIN_TRIALS],
    several: true,
    build: |spec, _| Ok(Box::new(PercentileRule::median(spec))),
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pruners::conformance::{self, trial};
    use crate::pruners::{Case, Pruner as _, Restart};
    use crate::study::decision::Decision;
    use crate::study::history::History;
    use crate::study::metric::Direction::{self, Maximize, Minimize};
    use crate::study::space::Space;
    use crate::study::spec::AlgorithmSpec;
    use crate::study::trial::{Trial, TrialState};

    type Curve<'a> = &'a [(u64, f64)];

    fn judge(
        (key, value): (&str, u64),
        others: &[Curve<'_>],
        curve: Curve<'_>,
        direction: Direction,
    ) -> Decision {
        let spec = ENTRY.defaults().with("n_startup_trials", 1).with(key, value);
        let completed =
            |(number, curve): (u64, &Curve<'_>)| trial(number, TrialState::Complete, curve);
        let others: Vec<Trial> = (0..).zip(others).map(completed).collect();
        let step = curve.last().unwrap().0;
        conformance::judge(&PercentileRule::median(&spec), &others, curve, step, direction)
    }

    #[test]
    fn the_best_report_so_far_is_compared_with_the_median_of_the_others_at_this_step() {
        let three: [Curve<'_>; 3] =
            [&[(1, 0.9), (2, 0.5)], &[(1, 0.2), (2, 0.4)], &[(1, 0.9), (2, 0.1)]];
        let two: [Curve<'_>; 2] = [&[(1, 1.0)], &[(1, 2.0)]];
        let one: [Curve<'_>; 1] = [&[(1, 0.0), (2, 0.0), (3, 0.0), (4, 0.0), (5, 0.0)]];
        let nan: Curve<'_> = &[(1, f64::NAN)];
        let any = ("n_min_trials", 1);
        let cases: [(_, &[Curve<'_>], Curve<'_>, _, &str); 14] = [
            (any, &three, &[(1, 0.4), (2, 9.0)], Minimize, "continue: "),
            (
                any,
                &three,
                &[(1, 0.45), (2, 9.0)],
                Minimize,
                "stop: best value 0.45 is worse than the median 0.4 of 3 completed trials at step \
                 2",
            ),
            (any, &three, &[(1, 0.45), (2, 0.3)], Maximize, "continue: "),
            // The median of an even number lies between the middle two.
            (any, &two, &[(1, 1.5)], Minimize, "continue: "),
            (any, &two, &[(1, 1.6)], Minimize, "stop: "),
            (("n_min_trials", 3), &two, &[(1, 1.6)], Minimize, "continue"),
            // Start-up, warm-up and interval are respected.
            (("n_startup_trials", 5), &one, &[(1, 9.0)], Minimize, "continue"),
            (("n_warmup_steps", 2), &one, &[(1, 9.0)], Minimize, "continue"),
            (("n_warmup_steps", 2), &one, &[(1, 9.0), (2, 9.0)], Minimize, "stop: "),
            (("interval_steps", 3), &one, &[(3, 9.0), (4, 9.0)], Minimize, "continue"),
            (("interval_steps", 3), &one, &[(2, 9.0), (4, 9.0)], Minimize, "stop: "),
            // NaN stops once there are enough trials; a NaN median stops nothing.
            (any, &[&[(1, 5.0)]], nan, Minimize, "stop: "),
            (any, &[], nan, Minimize, "continue"),
            (any, &[nan, nan, &[(1, 0.0)]], &[(1, 5.0)], Maximize, "continue: "),
        ];
        for (option, others, curve, direction, words) in cases {
            let decision = judge(option, others, curve, direction).in_words();
            let is_expected =
                if words.ends_with(": ") { decision.starts_with(words) } else { decision == words };
            assert!(is_expected, "{option:?}, {curve:?}: {decision}, not {words}");
        }
    }

    #[test]
    fn with_several_objectives_a_trial_is_judged_once_all_are_known() {
        let of = |(number, losses): (u64, &[f64; 2])| Trial {
            vectors: vec![(0, vec![Some(losses[0]), None]), (1, vec![None, Some(losses[1])])],
            ..trial(number, TrialState::Complete, &[(0, losses[0])])
        };
        let losses = [[0.1, 0.9], [0.2, 0.2], [0.9, 0.1], [0.95, 0.95]];
        let mut trials: Vec<Trial> = (0..).zip(&losses).map(of).collect();
        trials[3].state = TrialState::Running;
        let decide = |version: u32, step: u64| {
            let spec = ENTRY.defaults().with("n_startup_trials", 1);
            let median = PercentileRule::median(&AlgorithmSpec { version, ..spec });
            let directions = [Minimize; 2];
            let history = History::of_several(&trials, &directions);
            let case = Case {
                space: &Space::default(),
                history,
                trial: &trials[3],
                step,
                restart: Restart::Unknown,
            };
            median.judge(&case).in_words()
        };
        assert_eq!(decide(2, 0), "continue");
        assert_eq!(decide(2, 1), "stop: rank 4 of 4 at step 1; 2 continue");
        assert!(decide(1, 0).starts_with("stop"), "stored studies keep their rule");
    }
}
