//! Early stopping of the search by `budget.target` or `budget.patience`.

use crate::study::budget::Budget;
use crate::study::metric::{Number, Score};
use crate::study::state::StudyState;
use crate::study::trial::{Origin, Trial, TrialNumber, TrialState};

/// Whether the user requested this trial, which therefore runs even after the goal is reached.
pub(super) fn is_asked_for(trial: &Trial) -> bool {
    let runs_on = matches!(trial.state, TrialState::Queued | TrialState::Running);
    runs_on && (trial.origin == Origin::Asked || trial.continued.is_some())
}

/// The order of trials for `budget.patience`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    Time,
    /// By number: decisions must not depend on timing.
    Number,
}

/// Why the goal is reached in the known state, if it is.
pub(super) fn reached(budget: &Budget, known: &StudyState, order: Order) -> Option<String> {
    let stalled = budget.patience.and_then(|patience| stalled(known, patience, order));
    if let Some((number, without)) = stalled {
        return Some(format!(
            "{without} trials since trial {number} were not better (budget.patience)"
        ));
    }
    let (target, direction) = (budget.target?, known.direction());
    let (number, value) = (known.best()?.number, known.best_value()?);
    let is_reached = Score::new(direction, value) <= Score::new(direction, target);
    is_reached.then(|| {
        let (value, target) = (Number(value), Number(target));
        format!("trial {number} reached the target: {value} against {target}")
    })
}

/// The best trial and the number of complete and pruned ones since, if at least `patience`.
fn stalled(known: &StudyState, patience: u64, order: Order) -> Option<(TrialNumber, u64)> {
    let best = known.best()?;
    let counts = |trial: &&Trial| matches!(trial.state, TrialState::Complete | TrialState::Pruned);
    let place = |trial: &Trial| (trial.finished.filter(|_| order == Order::Time), trial.number);
    let later = |trial: &&Trial| place(trial) > place(best) && !trial.origin.is_race();
    let without = known.trials.iter().filter(counts).filter(later).count() as u64;
    (without >= patience).then_some((best.number, without))
}
