//! The Pareto front of a study of several objectives: the complete trials that no other one
//! dominates.

use serde::{Deserialize, Serialize};

use crate::study::metric::Direction;
use crate::study::outcome::TrialSummary;
use crate::study::pareto::{self, Work};
use crate::study::serialized::{numbers, optional_number};
use crate::study::spec::Objective;
use crate::study::trial::{Trial, TrialNumber, TrialState};

/// A trial's values, in the order of the objectives.
pub type Point = (TrialNumber, Vec<f64>);

/// The best trials of a study of several objectives.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Front {
    /// Its trials, by number.
    pub trials: Vec<TrialNumber>,
    /// The compromise among them: of those within the reference point the knee ([`pareto::knee`]),
    /// or the one that alone dominates most.
    pub knee: Option<TrialNumber>,
    /// The volume that it dominates, up to the reference point; `None` without a finite one, if it
    /// is infinite, or if it takes too long ([`pareto::hypervolume_within`]).
    #[serde(with = "optional_number")]
    pub hypervolume: Option<f64>,
    /// The reference point of the hypervolume, as values: the thresholds of the objectives, and
    /// where one has none, [`pareto::reference_point`] of all points.
    #[serde(with = "numbers")]
    pub reference: Vec<f64>,
}

impl Front {
    /// The front of some points.
    pub fn of(objectives: &[Objective], points: &[Point]) -> Front {
        Front::up_to(objectives, points, None)
    }

    /// The front of some points, with a reference point that is known, as values.
    pub fn up_to(objectives: &[Objective], points: &[Point], reference: Option<&[f64]>) -> Front {
        let members = Members::of(objectives, points, reference);
        let reference = members.reference.as_deref();
        let mut work = Work::default();
        let volume =
            reference.and_then(|at| pareto::hypervolume_within(&members.losses, at, &mut work));
        let directions = directions(objectives);
        Front {
            knee: members.knee(),
            hypervolume: volume.filter(|volume| volume.is_finite()),
            reference: reference.map(|at| pareto::losses(&directions, at)).unwrap_or_default(),
            trials: members.trials,
        }
    }

    /// Whether a trial is on it.
    pub fn contains(&self, trial: TrialNumber) -> bool {
        self.trials.binary_search(&trial).is_ok()
    }
}

/// The points on a front.
struct Members {
    trials: Vec<TrialNumber>,
    losses: Vec<Vec<f64>>,
    /// As losses.
    reference: Option<Vec<f64>>,
}

impl Members {
    fn of(objectives: &[Objective], points: &[Point], reference: Option<&[f64]>) -> Members {
        let directions = directions(objectives);
        let losses: Vec<Vec<f64>> =
            points.iter().map(|(_, values)| pareto::losses(&directions, values)).collect();
        let of_objective = |derived: &Option<Vec<f64>>, index: usize, objective: &Objective| {
            let derived = derived.as_ref().and_then(|derived| derived.get(index).copied());
            objective.threshold.map(|threshold| objective.direction.loss(threshold)).or(derived)
        };
        let reference = match reference {
            _ if losses.is_empty() => None,
            Some(known) => Some(pareto::losses(&directions, known)),
            None => {
                let derived = pareto::reference_point(&losses);
                let objectives = objectives.iter().enumerate();
                objectives.map(|(index, one)| of_objective(&derived, index, one)).collect()
            }
        };
        let front = pareto::front(&losses);
        Members {
            trials: front.iter().filter_map(|index| Some(points.get(*index)?.0)).collect(),
            losses: front.iter().filter_map(|index| losses.get(*index).cloned()).collect(),
            reference,
        }
    }

    fn knee(&self) -> Option<TrialNumber> {
        let place = compromise(&self.losses, self.reference.as_deref())?;
        self.trials.get(place).copied()
    }
}

/// The trials on the front of some points, without its hypervolume, which takes longer.
pub fn members(objectives: &[Objective], points: &[Point]) -> Vec<TrialNumber> {
    Members::of(objectives, points, None).trials
}

/// The compromise on the front of some points ([`Front::knee`]).
pub fn knee(objectives: &[Objective], points: &[Point]) -> Option<TrialNumber> {
    Members::of(objectives, points, None).knee()
}

/// The compromise on a front: its knee among the points that are better than the reference in all
/// objectives, or else the one of them that alone dominates most.
fn compromise(members: &[Vec<f64>], reference: Option<&[f64]>) -> Option<usize> {
    let is_inside = |losses: &Vec<f64>| {
        reference.is_some_and(|at| losses.iter().zip(at).all(|(loss, at)| loss < at))
    };
    let inside: Vec<usize> =
        (0..members.len()).filter(|index| is_inside(&members[*index])).collect();
    let Some(reference) = reference.filter(|_| !inside.is_empty()) else {
        return pareto::order(members).first().copied();
    };
    let points: Vec<Vec<f64>> = inside.iter().map(|index| members[*index].clone()).collect();
    let volume = |index: &usize| pareto::hypervolume(&points[*index..=*index], reference);
    let most = || {
        let first = |a: &usize, b: &usize| volume(a).total_cmp(&volume(b)).then(b.cmp(a));
        (0..points.len()).max_by(first)
    };
    inside.get(pareto::knee(&points).or_else(most)?).copied()
}

/// The front of a growing set of points.
#[derive(Clone, Debug, Default)]
pub struct Growing {
    points: Vec<Vec<f64>>,
    /// For all hypervolumes together.
    work: Work,
}

impl Growing {
    /// Adds a point, as losses; whether it is on the front.
    pub fn add(&mut self, losses: Vec<f64>) -> bool {
        if self.points.iter().any(|known| pareto::dominates(known, &losses)) {
            return false;
        }
        self.points.retain(|known| !pareto::dominates(&losses, known));
        self.points.push(losses);
        true
    }

    /// How many points are on it.
    pub fn len(&self) -> usize {
        self.points.len()
    }

    /// Whether nothing is on it.
    pub fn is_empty(&self) -> bool {
        self.points.is_empty()
    }

    /// The hypervolume up to a reference point, as losses, unless it takes too long.
    pub fn hypervolume(&mut self, reference: &[f64]) -> Option<f64> {
        pareto::hypervolume_within(&self.points, reference, &mut self.work)
    }
}

/// The directions of objectives.
pub fn directions(objectives: &[Objective]) -> Vec<Direction> {
    objectives.iter().map(|objective| objective.direction).collect()
}

/// Points from the best to the worst, by [`pareto::order`].
pub fn ranked(objectives: &[Objective], points: &[Point]) -> Vec<TrialNumber> {
    let directions = directions(objectives);
    let losses: Vec<Vec<f64>> =
        points.iter().map(|(_, values)| pareto::losses(&directions, values)).collect();
    pareto::order(&losses).into_iter().filter_map(|index| Some(points.get(index)?.0)).collect()
}

/// The points of trials that can be on the front: complete, feasible, visible, and without NaN.
pub fn points<'a>(trials: impl IntoIterator<Item = &'a Trial>) -> Vec<Point> {
    trials.into_iter().filter_map(point_of).collect()
}

/// The point of a trial, if it can be on the front.
pub fn point_of(trial: &Trial) -> Option<Point> {
    let can_be = trial.state == TrialState::Complete && trial.violation.is_none() && !trial.hidden;
    point(trial.number, &trial.values).filter(|_| can_be)
}

/// The same of outcomes.
pub fn points_of<'a>(outcomes: impl IntoIterator<Item = &'a TrialSummary>) -> Vec<Point> {
    let can_be = |one: &&TrialSummary| {
        one.state == TrialState::Complete && one.violation.is_none() && !one.hidden
    };
    let of = |one: &TrialSummary| point(one.number, &one.values);
    outcomes.into_iter().filter(can_be).filter_map(of).collect()
}

fn point(number: TrialNumber, values: &[f64]) -> Option<Point> {
    let is_sound = !values.is_empty() && values.iter().all(|value| !value.is_nan());
    is_sound.then(|| (number, values.to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn front(thresholds: [Option<f64>; 2], values: &[[f64; 2]]) -> Front {
        let objective =
            |threshold| Objective { threshold, ..Objective::new("loss", Direction::Minimize) };
        let objectives = thresholds.map(objective);
        let points: Vec<Point> =
            (0..).map(TrialNumber).zip(values.iter().map(|own| own.to_vec())).collect();
        Front::of(&objectives, &points)
    }

    #[test]
    fn the_compromise_is_within_the_thresholds_and_dominates_most() {
        let both = [Some(10.0), Some(10.0)];
        let found = front(both, &[[f64::INFINITY, 1.0], [0.5, 2.0], [1000.0, 1.5]]);
        assert_eq!(found.trials.len(), 3);
        assert_eq!(found.knee, Some(TrialNumber(1)));
        assert_eq!(found.hypervolume, Some(9.5 * 8.0));
        assert_eq!(found.reference, [10.0, 10.0]);
        let found = front(both, &[[1.0, 9.0], [4.0, 4.5], [9.5, 4.0]]);
        assert_eq!(found.knee, Some(TrialNumber(1)));
        // None is within: the front has a compromise all the same.
        assert_eq!(front(both, &[[20.0, 1.0]]).knee, Some(TrialNumber(0)));
        assert_eq!(front([None, None], &[]), Front::default());
    }

    #[test]
    fn an_infinite_hypervolume_is_none() {
        let both = [Some(1.0), Some(1.0)];
        assert_eq!(front(both, &[[f64::NEG_INFINITY, 0.5]]).hypervolume, None);
    }

    #[test]
    fn a_growing_front_is_that_of_all_points() {
        let mut growing = Growing::default();
        let added = [[3.0, 3.0], [1.0, 4.0], [2.0, 2.0], [2.0, 5.0]];
        let joined: Vec<bool> = added.iter().map(|one| growing.add(one.to_vec())).collect();
        assert_eq!((joined, growing.len()), (vec![true, true, true, false], 2));
        assert_eq!(growing.hypervolume(&[5.0, 5.0]), Some(10.0));
    }
}
