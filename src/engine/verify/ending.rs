//! Repeats what the end of a search was decided on: the goal, and the front of several objectives.

use super::{Contradiction, Verified};
use crate::study::front::{Front, points};
use crate::study::goal::Goal;
use crate::study::metric::Number;
use crate::study::state::StudyState;
use crate::study::trial::TrialNumber;

/// The first fact of a study's end that its trials do not repeat. `reached`: the goals that the
/// search has reached since it last began, in order. Older stores have no facts to repeat.
pub(super) fn difference(
    state: &StudyState,
    reached: &[Goal],
    goal: Option<&Goal>,
    front: Option<&Front>,
    verified: &mut Verified,
) -> Option<Contradiction> {
    verified.ends += u64::from(goal.is_some() || front.is_some());
    // Trials that ended after it, while others saved and left, may have changed it.
    if let Some(goal) = goal
        && !reached.iter().any(|reached| is_same(goal, reached))
    {
        let now = reached.last().map_or("no goal was reached".to_owned(), goal_in_words);
        return Some(("goal", goal_in_words(goal), now));
    }
    let stored = front?;
    // The stored reference point: that of a version with another rule would differ.
    let reference = Some(stored.reference.as_slice()).filter(|reference| !reference.is_empty());
    let now = Front::up_to(state.objectives(), &points(&state.trials), reference);
    let is_same = (&stored.trials, stored.knee) == (&now.trials, now.knee)
        && is_close(stored.hypervolume, now.hypervolume);
    (!is_same).then(|| ("front", in_words(stored), in_words(&now)))
}

/// Whether two goals are equal but for rounding.
fn is_same(a: &Goal, b: &Goal) -> bool {
    let close = |a: f64, b: f64| is_close(Some(a), Some(b));
    match (a, b) {
        (
            Goal::Target { trial, value, target },
            Goal::Target { trial: other, value: other_value, target: other_target },
        ) => trial == other && close(*value, *other_value) && close(*target, *other_target),
        (
            Goal::Hypervolume { front, hypervolume, reference, target },
            Goal::Hypervolume {
                front: other,
                hypervolume: other_volume,
                reference: other_reference,
                target: other_target,
            },
        ) => {
            front == other
                && close(*hypervolume, *other_volume)
                && reference.len() == other_reference.len()
                && reference.iter().zip(other_reference).all(|(a, b)| close(*a, *b))
                && close(*target, *other_target)
        }
        (a, b) => a == b,
    }
}

/// The goal with all of its numbers.
fn goal_in_words(goal: &Goal) -> String {
    let Goal::Hypervolume { front, reference, .. } = goal else { return goal.to_string() };
    format!("{goal}; trials {}, reference point ({})", listed(front), numbers(reference))
}

/// Whether two numbers are equal but for rounding: another version may add in another order.
fn is_close(a: Option<f64>, b: Option<f64>) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => {
            let is_finite = a.is_finite() && b.is_finite();
            a == b || is_finite && (a - b).abs() <= 1e-9 * a.abs().max(b.abs())
        }
        (a, b) => a.is_none() == b.is_none(),
    }
}

fn in_words(front: &Front) -> String {
    let volume = front.hypervolume.map_or("none".to_owned(), |volume| Number(volume).to_string());
    format!(
        "trials {}, compromise {}, hypervolume {volume}, reference point ({})",
        listed(&front.trials),
        front.knee.map_or("none".to_owned(), |knee| knee.to_string()),
        numbers(&front.reference)
    )
}

fn listed(trials: &[TrialNumber]) -> String {
    trials.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

fn numbers(numbers: &[f64]) -> String {
    numbers.iter().map(|one| Number(*one).to_string()).collect::<Vec<_>>().join(", ")
}
