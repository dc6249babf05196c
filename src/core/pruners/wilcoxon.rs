//! The Wilcoxon rule: a trial that a signed-rank test finds worse than the best trial, step by
//! step, stops.

use super::{Case, Pruner, PrunerEntry};
use crate::study::decision::{Comparison, Decision, Means, Reason};
use crate::study::field::{Field, FieldDefault, NATURAL, UNIT, field};
use crate::study::history::History;
use crate::study::metric::Number;
use crate::study::spec::{AlgorithmSpec, Milestones};
use crate::study::trial::Trial;

const P_THRESHOLD: Field = field(
    "p_threshold",
    UNIT,
    FieldDefault::Float(0.1),
    "a trial stops when the test's p-value is below this; larger values stop earlier",
);

const N_STARTUP_STEPS: Field = field(
    "n_startup_steps",
    NATURAL,
    FieldDefault::Int(2),
    "minimum number of steps in common with the best trial, at least 2",
);

pub(super) const ENTRY: PrunerEntry = PrunerEntry {
    name: "wilcoxon",
    aliases: &[],
    summary: "stops a trial that a signed-rank test finds worse than the best trial at the same \
        steps (folds, problems)",
    version: ALL_STEPS_SINCE,
    oldest: 1,
    options: &[P_THRESHOLD, N_STARTUP_STEPS],
    several: false,
    build: |spec, _| Ok(Box::new(WilcoxonRule::new(spec))),
};

/// The first version that compares all reported steps, in whatever order they came; the one before
/// left out those above the step of the newest report.
const ALL_STEPS_SINCE: u32 = 2;

/// Optuna's `WilcoxonPruner`: the trial's reports against those of the best completed trial at the
/// same steps, by the one-sided Wilcoxon signed-rank test with split zeros (`scipy.stats.wilcoxon`,
/// `zero_method="zsplit"`). For exchangeable steps, such as folds or problems in random order. A
/// trial whose mean report is as good as the best trial's always continues.
///
/// Unlike in Optuna, which raises, NaN and infinities take the largest ranks; NaN is worst.
#[derive(Clone, Copy, Debug)]
pub struct WilcoxonRule {
    p_threshold: f64,
    startup_steps: u64,
    takes_all_steps: bool,
}

impl WilcoxonRule {
    /// From checked options.
    pub fn new(spec: &AlgorithmSpec) -> Self {
        WilcoxonRule {
            p_threshold: P_THRESHOLD.of(spec),
            startup_steps: N_STARTUP_STEPS.of(spec),
            takes_all_steps: spec.version >= ALL_STEPS_SINCE,
        }
    }
}

impl Pruner for WilcoxonRule {
    fn judge(&self, case: &Case<'_>) -> Decision {
        let Case { history, trial, step, .. } = *case;
        let others = history.compared().filter(|other| other.number != trial.number);
        let best = others
            .filter_map(|other| history.final_score(other).map(|score| (score, other)))
            .min_by_key(|(score, other)| (*score, other.number));
        let Some((_, best)) = best else { return Decision::CONTINUE };
        let own = match self.takes_all_steps {
            true => &trial.curve[..],
            false => &trial.curve[..trial.curve.partition_point(|(at, _)| *at <= step)],
        };
        let excess: Vec<f64> =
            own.iter().filter_map(|report| excess(&history, *report, best)).collect();
        if (excess.len() as u64) < self.startup_steps.max(2) {
            return Decision::CONTINUE;
        }
        let p = p_worse(&excess);
        let (mean, best_mean) = (mean(own), mean(&best.curve));
        let comparison = Comparison::of(history.score(mean), history.score(best_mean));
        let means = Means { own: Number(mean), best: Number(best_mean), comparison };
        let is_below = p < self.p_threshold;
        let reason = Reason::Wilcoxon {
            p: Number(p),
            threshold: Number(self.p_threshold),
            steps: excess.len() as u64,
            at: history.step_unit().at(step),
            best: best.number.0,
            means: is_below.then_some(means),
        };
        if is_below && comparison == Comparison::Worse {
            Decision::Stop(reason)
        } else {
            Decision::continues(reason)
        }
    }

    fn milestones(&self, _budget: Option<u64>) -> Milestones {
        Milestones { every: Some(1), at: Vec::new() }
    }
}

/// How much worse a report is than that of `best` at the same step; infinite where either is not
/// finite.
fn excess(history: &History<'_>, (step, value): (u64, f64), best: &Trial) -> Option<f64> {
    let (own, theirs) = (history.score(value), history.score_at(best, step)?);
    Some(match own.cmp(&theirs) {
        std::cmp::Ordering::Equal => 0.0,
        _ if own.loss().is_finite() && theirs.loss().is_finite() => own.loss() - theirs.loss(),
        std::cmp::Ordering::Greater => f64::INFINITY,
        std::cmp::Ordering::Less => f64::NEG_INFINITY,
    })
}

#[expect(clippy::cast_precision_loss, reason = "the number of reports")]
fn mean(reports: &[(u64, f64)]) -> f64 {
    reports.iter().map(|(_, value)| value).sum::<f64>() / reports.len() as f64
}

/// The p-value of the signed-rank test against "not larger than zero", for at least one difference,
/// none of them NaN. As in scipy 1.16: exact for up to 13 differences, and for up to 50 without
/// ties and zeros; else by the normal approximation, corrected for ties.
#[expect(clippy::cast_precision_loss, reason = "counts of differences")]
fn p_worse(differences: &[f64]) -> f64 {
    let mut sorted = differences.to_vec();
    sorted.sort_unstable_by(|a, b| a.abs().total_cmp(&b.abs()));
    // Twice the ranks are integers: ties take their mean rank.
    let mut doubled_ranks: Vec<(f64, usize)> = Vec::with_capacity(sorted.len());
    let (mut ties, mut place) = (0.0, 0);
    for equals in sorted.chunk_by(|a, b| a.abs().total_cmp(&b.abs()).is_eq()) {
        let count = equals.len() as f64;
        ties += count.powi(3) - count;
        doubled_ranks
            .extend(equals.iter().map(|difference| (*difference, 2 * place + 1 + equals.len())));
        place += equals.len();
    }
    let (zeros, others): (Vec<_>, Vec<_>) =
        doubled_ranks.into_iter().partition(|(difference, _)| *difference == 0.0);
    let positive: usize =
        others.iter().filter(|(difference, _)| *difference > 0.0).map(|(_, rank)| rank).sum();
    let count = sorted.len();
    if count <= 13 || (count <= 50 && ties == 0.0 && zeros.is_empty()) {
        // Half of the zeros' ranks go to each side.
        let ranks: Vec<usize> = others.iter().map(|(_, rank)| *rank).collect();
        return share_of_sums_from(&ranks, positive);
    }
    let split = zeros.iter().map(|(_, rank)| *rank).sum::<usize>() as f64 / 2.0;
    let (statistic, count) = ((positive as f64 + split) / 2.0, count as f64);
    let mean = count * (count + 1.0) / 4.0;
    let deviation = ((count * (count + 1.0) * (2.0 * count + 1.0) - ties / 2.0) / 24.0).sqrt();
    0.5 * libm::erfc((statistic - mean) / deviation / std::f64::consts::SQRT_2)
}

/// The share of all subsets of `ranks` whose sum is at least `least`.
fn share_of_sums_from(ranks: &[usize], least: usize) -> f64 {
    let mut shares = vec![0.0; ranks.iter().sum::<usize>() + 1];
    shares[0] = 1.0;
    for rank in ranks {
        for sum in (0..shares.len()).rev() {
            let with: f64 = if sum >= *rank { shares[sum - rank] } else { 0.0 };
            shares[sum] = (shares[sum] + with) / 2.0;
        }
    }
    shares[least.min(shares.len() - 1)..].iter().sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pruners::conformance::{self, trial};
    use crate::study::metric::Direction::{self, Maximize, Minimize};
    use crate::study::trial::TrialState;

    fn judge(best: &[f64], own: &[f64], direction: Direction) -> Decision {
        let curve = |values: &[f64]| (1..).zip(values.iter().copied()).collect::<Vec<_>>();
        let others = [trial(0, TrialState::Complete, &curve(best))];
        let (rule, step) = (WilcoxonRule::new(&ENTRY.defaults()), own.len() as u64);
        conformance::judge(&rule, &others, &curve(own), step, direction)
    }

    /// `scipy.stats.wilcoxon(d, alternative="greater", zero_method="zsplit").pvalue`.
    #[test]
    fn p_values_are_those_of_tables() {
        let cases: [(&[f64], f64); 5] = [
            (&[1.0, 2.0, 3.0, 4.0], 1.0 / 16.0),
            (&[-1.0, 2.0, 3.0, 4.0], 2.0 / 16.0),
            (&[0.0, 0.0], 1.0),
            (&[1.0, 1.0, -1.0], 0.5),
            (&[-1.0, -2.0], 1.0),
        ];
        for (differences, expected) in cases {
            let p = p_worse(differences);
            assert!((p - expected).abs() < 1e-12, "{differences:?}: {p}");
        }
    }

    /// Folds in random order: the newest report is of fold 1, those of 2, 3 and 9 came before.
    #[test]
    fn steps_count_in_whatever_order_they_came() {
        let best: Vec<(u64, f64)> = (0..10).map(|fold| (fold, 0.5)).collect();
        let others = [trial(0, TrialState::Complete, &best)];
        let own: Vec<(u64, f64)> =
            [(1, 0.1), (2, 0.2), (3, 0.3), (9, 0.4)].map(|(fold, by)| (fold, 0.5 + by)).into();
        for (version, words) in [(1, "continue"), (2, "stop: p = 0.0625 at 4 steps")] {
            let rule = WilcoxonRule::new(&AlgorithmSpec { version, ..ENTRY.defaults() });
            let decision = conformance::judge(&rule, &others, &own, 1, Minimize).in_words();
            assert!(decision.starts_with(words), "version {version}: {decision}");
        }
    }

    #[test]
    fn four_worse_steps_stop_a_trial_unless_its_mean_is_as_good_and_nan_ranks_as_the_worst() {
        let (best, own, nan) = ([1.0, 2.0, 3.0, 4.0, 5.0], [1.5, 3.0, 9.0, 10.5], [f64::NAN; 4]);
        let test = "p = 0.0625 at 4 steps in common with the best trial 0";
        let cases: [(&[f64], &[f64], _, &str); 8] = [
            (&best, &[1.1, 2.2, 9.0], Minimize, "continue: p = 0.1250 at 3 steps"),
            (&best, &own, Minimize, "stop: TEST is below 0.1, and the mean 6 is worse than its 3"),
            (&best, &own, Maximize, "continue: "),
            (
                &[1.0, 2.0, 3.0, 4.0, 50.0],
                &own,
                Minimize,
                "continue: TEST is below 0.1, but the mean 6 is not worse than its 12",
            ),
            (&[1.0; 4], &nan, Maximize, "stop: "),
            (&nan, &[1.0; 4], Minimize, "continue: "),
            (&nan, &nan, Minimize, "continue: "),
            (&[1.0; 4], &[f64::INFINITY; 4], Minimize, "stop: "),
        ];
        for (best, own, direction, words) in cases {
            let decision = judge(best, own, direction).in_words();
            assert!(decision.starts_with(&words.replace("TEST", test)), "{decision}, not {words}");
        }
    }
}
