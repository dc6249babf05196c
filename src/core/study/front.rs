//! The Pareto front of a study of several objectives: the complete trials that no other one
//! dominates.

use crate::study::metric::Direction;
use crate::study::outcome::Outcome;
use crate::study::pareto;
use crate::study::spec::Objective;
use crate::study::trial::{Trial, TrialNumber, TrialState};

/// A trial's values, in the order of the objectives.
pub type Point = (TrialNumber, Vec<f64>);

/// The best trials of a study of several objectives.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Front {
    /// Its trials, by number.
    pub trials: Vec<TrialNumber>,
    /// The compromise among them: see [`pareto::knee`]; without a knee, the one that alone dominates
    /// most, by [`pareto::order`].
    pub knee: Option<TrialNumber>,
    /// The volume that it dominates, up to the reference point; `None` without a finite one.
    pub hypervolume: Option<f64>,
    /// The reference point of the hypervolume, as values: the thresholds of the objectives, and
    /// where one has none, [`pareto::reference_point`] of all points.
    pub reference: Vec<f64>,
}

impl Front {
    /// The front of some points.
    pub fn of(objectives: &[Objective], points: &[Point]) -> Front {
        let directions = directions(objectives);
        let losses: Vec<Vec<f64>> =
            points.iter().map(|(_, values)| pareto::losses(&directions, values)).collect();
        if losses.is_empty() {
            return Front::default();
        }
        let front = pareto::front(&losses);
        let number = |index: usize| points.get(index).map(|(number, _)| *number);
        let members: Vec<Vec<f64>> = front.iter().map(|index| losses[*index].clone()).collect();
        let knee = pareto::knee(&members).or_else(|| pareto::order(&members).first().copied());
        let knee = knee.and_then(|place| number(*front.get(place)?));
        let derived = pareto::reference_point(&losses);
        let of_objective = |(index, objective): (usize, &Objective)| {
            let derived = derived.as_ref().and_then(|derived| derived.get(index).copied());
            objective.threshold.map(|threshold| objective.direction.loss(threshold)).or(derived)
        };
        let reference: Option<Vec<f64>> = objectives.iter().enumerate().map(of_objective).collect();
        Front {
            trials: front.into_iter().filter_map(number).collect(),
            knee,
            hypervolume: reference.as_ref().map(|at| pareto::hypervolume(&members, at)),
            reference: reference.map(|at| pareto::losses(&directions, &at)).unwrap_or_default(),
        }
    }

    /// Whether a trial is on it.
    pub fn contains(&self, trial: TrialNumber) -> bool {
        self.trials.binary_search(&trial).is_ok()
    }
}

/// The front of a growing set of points.
#[derive(Clone, Debug, Default)]
pub struct Growing(Vec<Vec<f64>>);

impl Growing {
    /// Adds a point, as losses; whether it is on the front.
    pub fn add(&mut self, losses: Vec<f64>) -> bool {
        if self.0.iter().any(|known| pareto::dominates(known, &losses)) {
            return false;
        }
        self.0.retain(|known| !pareto::dominates(&losses, known));
        self.0.push(losses);
        true
    }

    /// How many points are on it.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether nothing is on it.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The hypervolume up to a reference point, as losses.
    pub fn hypervolume(&self, reference: &[f64]) -> f64 {
        pareto::hypervolume(&self.0, reference)
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
    let can_be = |trial: &&Trial| {
        trial.state == TrialState::Complete && trial.violation.is_none() && !trial.hidden
    };
    let of = |trial: &Trial| point(trial.number, &trial.values);
    trials.into_iter().filter(can_be).filter_map(of).collect()
}

/// The same of outcomes.
pub fn points_of<'a>(outcomes: impl IntoIterator<Item = &'a Outcome>) -> Vec<Point> {
    let can_be = |one: &&Outcome| {
        one.state == TrialState::Complete && one.violation.is_none() && !one.hidden
    };
    let of = |one: &Outcome| point(one.number, &one.values);
    outcomes.into_iter().filter(can_be).filter_map(of).collect()
}

fn point(number: TrialNumber, values: &[f64]) -> Option<Point> {
    let is_sound = !values.is_empty() && values.iter().all(|value| !value.is_nan());
    is_sound.then(|| (number, values.to_vec()))
}
