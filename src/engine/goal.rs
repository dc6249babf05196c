//! Early stopping of the search by `budget.target` or `budget.patience`.

use crate::study::budget::Budget;
use crate::study::followed_front::FollowedFront;
use crate::study::goal::Goal;
use crate::study::metric::Score;
use crate::study::state::StudyState;
use crate::study::time::Timestamp;
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

/// The goal that the known state has reached, if it has.
pub(super) fn reached(
    budget: &Budget,
    known: &StudyState,
    front: &mut FollowedFront,
    order: Order,
) -> Option<Goal> {
    if known.has_several_objectives() {
        return reached_by_front(budget, known, front, order);
    }
    let stalled = budget.patience.and_then(|patience| stalled(known, patience, order));
    if let Some((trial, trials)) = stalled {
        return Some(Goal::Patience { trial, trials });
    }
    let (target, direction) = (budget.target?, known.direction());
    let (trial, value) = (known.best()?.number, known.best_value()?);
    let is_reached = Score::new(direction, value) <= Score::new(direction, target);
    is_reached.then_some(Goal::Target { trial, value, target })
}

/// The same for several objectives: the target is the front's hypervolume, and what is better joins
/// the front.
fn reached_by_front(
    budget: &Budget,
    known: &StudyState,
    front: &mut FollowedFront,
    order: Order,
) -> Option<Goal> {
    if budget.patience.is_none() && budget.target.is_none() {
        return None;
    }
    let members = front.members(known).iter().filter_map(|(number, _)| known.trial(*number));
    let newest = members.max_by_key(|trial| place(trial, order));
    if let Some((patience, newest)) = budget.patience.zip(newest) {
        let trials = finished_since(known, newest, order);
        if trials >= patience {
            return Some(Goal::FrontPatience { trial: newest.number, trials });
        }
    }
    let target = budget.target?;
    let (front, _) = front.front(known);
    let hypervolume = front.hypervolume?;
    (hypervolume >= target).then(|| Goal::Hypervolume {
        front: front.trials.clone(),
        hypervolume,
        reference: front.reference.clone(),
        target,
    })
}

/// The position of a finished trial in an order.
fn place(trial: &Trial, order: Order) -> (Option<Timestamp>, TrialNumber) {
    (trial.finished.filter(|_| order == Order::Time), trial.number)
}

/// The number of complete and pruned trials after one.
fn finished_since(known: &StudyState, since: &Trial, order: Order) -> u64 {
    let counts = |trial: &&Trial| matches!(trial.state, TrialState::Complete | TrialState::Pruned);
    let later =
        |trial: &&Trial| place(trial, order) > place(since, order) && !trial.origin.is_race();
    known.trials.iter().filter(counts).filter(later).count() as u64
}

/// The best trial and the number of complete and pruned ones since, if at least `patience`.
fn stalled(known: &StudyState, patience: u64, order: Order) -> Option<(TrialNumber, u64)> {
    let best = known.best()?;
    let without = finished_since(known, best, order);
    (without >= patience).then_some((best.number, without))
}
