//! Failure limits that end a run: `budget.failures`, too many in a row, or first trials that all
//! fail alike.

use super::Engine;
use super::first_failures::FirstFailures;
use crate::study::budget::Count;
use crate::study::counted::count;
use crate::study::program::Program;
use crate::study::spec::StudySpec;
use crate::study::state::StudyState;
use crate::study::trial::TrialState;

/// Consecutive failures that end a run without `budget.failures`: failed trials do not count
/// towards `budget.trials`, so a broken program would be restarted forever.
const FRUITLESS: u64 = 10;

/// The failures of a run.
#[derive(Clone, Debug, Default)]
pub(super) struct Failures {
    /// Failed trials of earlier runs.
    pub before: u64,
    /// Consecutive failures.
    pub in_a_row: u64,
    pub first: FirstFailures,
}

impl Failures {
    pub fn of(state: &StudyState) -> Self {
        let before = state.counts.failed - state.race_counts.failed;
        Failures { before, ..Failures::default() }
    }

    /// Why the failures end the run, if they do.
    fn too_many(&self, spec: &StudySpec, state: &StudyState) -> Option<String> {
        let counts = state.counts.without(state.race_counts);
        let failed = counts.failed;
        let which = match spec.budget.failures {
            Some(limit) if failed >= limit => {
                format!("{} failed, as many as budget.failures allows", count(failed, "trial"))
            }
            Some(_) => return None,
            None if spec.budget.count == Count::All && spec.budget.trials.is_some() => return None,
            None if counts.complete + counts.pruned == 0 && failed >= self.before + FRUITLESS => {
                format!("the first {FRUITLESS} trials all failed")
            }
            None if self.in_a_row >= FRUITLESS => format!("{FRUITLESS} trials in a row failed"),
            None => return None,
        };
        let failures = state.trials.iter().filter(|trial| trial.state == TrialState::Failed);
        let last = failures.max_by_key(|trial| trial.finished);
        let reason = last.and_then(|trial| trial.reason.clone()).unwrap_or_default();
        Some(format!("{which}; the last: {reason}"))
    }
}

impl Engine {
    /// Why the failures end the run, if they do.
    pub(super) fn too_many_failures(&self) -> Option<String> {
        let budget = &self.spec.budget;
        // The program that asks decides how many trials there are, as with Optuna's `catch`.
        if self.runs_on_demand() && budget.trials.is_none() && budget.failures.is_none() {
            return None;
        }
        let counts = self.state.counts;
        let may_be_at_fault = !self.runs_on_demand()
            && self.spec.program != Program::Inline
            && self.spec.budget.failures.is_none()
            && counts.complete + counts.pruned == 0;
        let alike =
            may_be_at_fault.then(|| self.failures.first.alike(&self.state.trials)).flatten();
        alike.or_else(|| self.failures.too_many(&self.spec, &self.state))
    }
}
