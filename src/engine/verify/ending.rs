//! Repeats what the end of a search was decided on: the goal, and the front of several objectives.

use super::{Contradiction, Verified};
use crate::study::budget::Budget;
use crate::study::front::{Front, points};
use crate::study::goal::Goal;
use crate::study::metric::{Number, Score};
use crate::study::state::StudyState;
use crate::study::trial::{Trial, TrialNumber, TrialState};

/// The first fact of a study's end that its trials do not repeat. Older stores have none to repeat.
pub(super) fn difference(
    budget: &Budget,
    view: &StudyState,
    goal: Option<&Goal>,
    front: Option<&Front>,
    verified: &mut Verified,
) -> Option<Contradiction> {
    verified.ends += u64::from(goal.is_some() || front.is_some());
    if let Some(goal) = goal
        && let Err(now) = repeated(budget, view, goal)
    {
        return Some(("goal", goal.to_string(), now));
    }
    let stored = front?;
    // The stored reference point: that of a version with another rule would differ.
    let reference = Some(stored.reference.as_slice()).filter(|reference| !reference.is_empty());
    let now = Front::up_to(view.objectives(), &points(&view.trials), reference);
    let is_same = (&stored.trials, stored.knee) == (&now.trials, now.knee)
        && is_close(stored.hypervolume, now.hypervolume);
    (!is_same).then(|| ("front", in_words(stored), in_words(&now)))
}

/// Whether the trials have reached the goal, with the same numbers; otherwise what they have.
///
/// Trials that ended after the goal was reached, while others saved and left, may have changed the
/// front and the number of trials since the best one.
fn repeated(budget: &Budget, view: &StudyState, goal: &Goal) -> Result<(), String> {
    match goal {
        Goal::Target { trial, value, target } => {
            // The mean of several runs may have changed with those that ended since.
            let now = match view.has_several_runs() || view.race.is_some() {
                true => Some(*value),
                false => view.trial(*trial).and_then(|trial| trial.value),
            };
            let Some(now) = now else { return Err(format!("trial {trial} has no value")) };
            let score = |value| Score::new(view.direction(), value);
            let is_reached = score(now) <= score(*target);
            let is_same = is_close(Some(*value), Some(now)) && Some(*target) == budget.target;
            let now = || format!("trial {trial} has {}, {}", Number(now), target_in_words(budget));
            if is_reached && is_same { Ok(()) } else { Err(now()) }
        }
        Goal::Hypervolume { front, hypervolume, reference, target } => {
            let found = points(front.iter().filter_map(|number| view.trial(*number)));
            let now = Front::up_to(view.objectives(), &found, Some(reference)).hypervolume;
            let is_reached = *hypervolume >= *target;
            let is_same = is_close(Some(*hypervolume), now) && Some(*target) == budget.target;
            let now = || {
                let volume = now.map_or("no hypervolume".to_owned(), |now| Number(now).to_string());
                format!("the front has {volume}, {}", target_in_words(budget))
            };
            if is_reached && is_same { Ok(()) } else { Err(now()) }
        }
        Goal::Patience { trial, trials } | Goal::FrontPatience { trial, trials } => {
            let ended = ended_besides(view, *trial);
            let patience = budget.patience.unwrap_or(u64::MAX);
            let is_complete =
                view.trial(*trial).is_some_and(|trial| trial.state == TrialState::Complete);
            let is_repeated = is_complete && (patience..=ended).contains(trials);
            let now = || format!("{ended} other trials ended, budget.patience = {patience}");
            if is_repeated { Ok(()) } else { Err(now()) }
        }
    }
}

/// The complete and pruned trials of the search besides one.
fn ended_besides(view: &StudyState, one: TrialNumber) -> u64 {
    let counts = |trial: &&Trial| {
        matches!(trial.state, TrialState::Complete | TrialState::Pruned)
            && trial.number != one
            && !trial.origin.is_race()
    };
    view.trials.iter().filter(counts).count() as u64
}

fn target_in_words(budget: &Budget) -> String {
    let target = budget.target.map_or("no target".to_owned(), |target| Number(target).to_string());
    format!("budget.target = {target}")
}

/// Whether two numbers are equal but for rounding: another version may add in another order.
fn is_close(a: Option<f64>, b: Option<f64>) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => a == b || (a - b).abs() <= 1e-9 * a.abs().max(b.abs()),
        (a, b) => a.is_none() == b.is_none(),
    }
}

fn in_words(front: &Front) -> String {
    let numbers = |numbers: &[f64]| {
        numbers.iter().map(|one| Number(*one).to_string()).collect::<Vec<_>>().join(", ")
    };
    let trials: Vec<String> = front.trials.iter().map(ToString::to_string).collect();
    let volume = front.hypervolume.map_or("none".to_owned(), |volume| Number(volume).to_string());
    format!(
        "trials {}, compromise {}, hypervolume {volume} up to ({})",
        trials.join(", "),
        front.knee.map_or("none".to_owned(), |knee| knee.to_string()),
        numbers(&front.reference)
    )
}
