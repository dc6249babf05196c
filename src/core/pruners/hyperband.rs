//! Hyperband: brackets of successive halving side by side, from many short trials to few full ones.

use super::PrunerEntry;
use super::asha::{
    Asha, MAX_RESOURCE, MIN_RESOURCE, MODE, PRICED_SINCE, RANK_BY, REDUCTION_FACTOR,
};

/// Hyperband (Li et al., *Hyperband: A Novel Bandit-Based Approach to Hyperparameter Optimization*,
/// JMLR 2018) on the ladders of [`Asha`], without its barriers: `floor(log_eta(R / r)) + 1`
/// brackets; all trials of bracket s begin at the rung `r eta^s`. If R is a step of the ladder, the
/// last bracket has no rung below a full trial: its trials are never stopped, which insures against
/// a metric that is uninformative early. All brackets share the sampler's history.
///
/// Trials are assigned to brackets by number, evenly, in the paper's proportions (Algorithm 1, line
/// 3: `n` of each s). R has to be known: Optuna's `"auto"` waits for the first trial to end.
pub(super) const ENTRY: PrunerEntry = PrunerEntry {
    name: "hyperband",
    aliases: &[],
    summary: "successive halving in several brackets at once, from many short trials to few full \
        ones",
    // 2 to 7: as `asha`.
    version: PRICED_SINCE,
    oldest: 2,
    options: &[MIN_RESOURCE, MAX_RESOURCE, REDUCTION_FACTOR, RANK_BY, MODE],
    several: true,
    build: |spec, budget| Ok(Box::new(Asha::with_every_bracket(spec, budget)?)),
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pruners::{Pruner as _, conformance};
    use crate::study::trial::TrialNumber;

    /// Where each trial first pauses.
    fn first_rungs(budget: u64, trials: u64) -> Vec<Option<u64>> {
        let spec = ENTRY.defaults().with("mode", "promote");
        let hyperband = Asha::with_every_bracket(&spec, Some(budget)).unwrap();
        (0..trials).map(|number| hyperband.first_rung(TrialNumber(number))).collect()
    }

    /// The numbers of Optuna's `_calculate_trial_allocation_budget` for 4 brackets of eta 3: 27,
    /// 12, 6, 4 of 49.
    #[test]
    fn brackets_get_the_shares_of_hyperbands_budgets_and_the_last_runs_to_the_end() {
        let first = first_rungs(27, 4900);
        let rungs = [Some(1), Some(3), Some(9), None];
        let counts = rungs.map(|rung| first.iter().filter(|first| **first == rung).count());
        for (count, expected) in counts.into_iter().zip([2700, 1200, 600, 400_usize]) {
            assert!(count.abs_diff(expected) <= 5, "{counts:?}");
        }
    }

    #[test]
    fn an_end_between_two_rungs_leaves_each_bracket_a_rung() {
        let mut rungs = first_rungs(30, 200);
        rungs.sort_unstable();
        rungs.dedup();
        assert_eq!(rungs, [Some(1), Some(3), Some(9), Some(27)]);
    }

    #[test]
    fn both_modes_hold_the_contract_and_the_end_must_be_known() {
        for spec in [
            ENTRY.defaults().with("mode", "promote"),
            ENTRY.defaults().with("reduction_factor", 2).with("max_resource", 20),
        ] {
            assert_eq!(conformance::check(&ENTRY, &spec), Ok(()));
        }
        assert!((ENTRY.build)(&ENTRY.defaults(), None).is_err());
    }
}
