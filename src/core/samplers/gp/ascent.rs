//! Local ascents of the acquisition function along numeric axes: each asks for the value and the
//! gradient at one point at a time, so that several are made together.

use crate::analysis::linalg::dot;
use crate::samplers::cube::Point;

/// An ascent within the unit cube, which moves what has a finite derivative and is free.
pub(super) trait Ascent {
    fn from(start: Point) -> Self;

    /// The point to judge next; `None` at the end.
    fn next(&self) -> Option<&[f64]>;

    /// Takes the value there, and its gradient.
    fn step(&mut self, value: f64, gradient: &[f64], fixed: &[f64]);

    /// The best point so far.
    fn best(self) -> Point;
}

/// Rprop: each coordinate's step grows while its gradient keeps its sign, and shrinks when it
/// flips.
pub(super) struct SignSteps {
    at: Point,
    steps: Vec<f64>,
    /// The previous gradient.
    last: Vec<f64>,
    /// The best value so far, and its point.
    best: (f64, Point),
}

impl Ascent for SignSteps {
    fn from(start: Point) -> Self {
        SignSteps {
            steps: vec![0.05; start.len()],
            last: vec![0.0; start.len()],
            best: (f64::NEG_INFINITY, start.clone()),
            at: start,
        }
    }

    fn next(&self) -> Option<&[f64]> {
        self.steps.iter().any(|step| *step >= 1e-4).then_some(&self.at)
    }

    fn step(&mut self, value: f64, gradient: &[f64], fixed: &[f64]) {
        let SignSteps { at, steps, last, best } = self;
        if value > best.0 {
            *best = (value, at.clone());
        }
        for (index, derivative) in gradient.iter().enumerate() {
            if *derivative == 0.0
                || !derivative.is_finite()
                || at[index].is_nan()
                || !fixed[index].is_nan()
            {
                continue;
            }
            let turned: f64 = last[index] * derivative;
            if turned > 0.0 {
                steps[index] = f64::min(steps[index] * 1.3, 0.2);
            } else if turned < 0.0 {
                steps[index] *= 0.4;
            }
            last[index] = *derivative;
            at[index] = (at[index] + derivative.signum() * steps[index]).clamp(0.0, 1.0);
        }
    }

    fn best(self) -> Point {
        self.best.1
    }
}

/// Length of a first step along the axis of the largest derivative, and of the longest one.
const FIRST: f64 = 0.05;
const LONGEST: f64 = 0.2;
/// Moves that are remembered.
const MEMORY: usize = 10;
/// The share of the gain that the gradient promises that a step must have.
const ENOUGH: f64 = 1e-4;
/// The gain that the estimated curvature promises, and the distance along all axes, at which an
/// ascent ends.
const LEAST_GAIN: f64 = 1e-5;
const LEAST_STEP: f64 = 1e-6;

/// Limited-memory BFGS with bounds (Nocedal and Wright, algorithm 7.4): axes at a bound that their
/// gradient points beyond stay there, and steps end at bounds; a step that gains too little is
/// shortened to the top of the parabola through both ends.
pub(super) struct QuasiNewton {
    at: Option<Point>,
    /// The best value so far, and its point.
    best: (f64, Point),
    /// The gradient there.
    gradient: Vec<f64>,
    /// The latest moves.
    moves: Vec<Move>,
    /// Length of the next step while no move is known.
    reach: f64,
}

/// A move, by how much it changed the negative gradient, and the product of both.
struct Move {
    moved: Vec<f64>,
    turned: Vec<f64>,
    bend: f64,
}

impl Ascent for QuasiNewton {
    fn from(start: Point) -> Self {
        QuasiNewton {
            best: (f64::NEG_INFINITY, start.clone()),
            at: Some(start),
            gradient: Vec::new(),
            moves: Vec::new(),
            reach: FIRST,
        }
    }

    fn next(&self) -> Option<&[f64]> {
        self.at.as_deref()
    }

    fn step(&mut self, value: f64, gradient: &[f64], fixed: &[f64]) {
        let Some(at) = self.at.take() else { return };
        let is_free = |(at, fixed): (&f64, &f64)| !at.is_nan() && fixed.is_nan();
        let gradient: Vec<f64> = at
            .iter()
            .zip(fixed)
            .map(is_free)
            .zip(gradient)
            .map(|(is_free, part)| if is_free && part.is_finite() { *part } else { 0.0 })
            .collect();
        if self.gradient.is_empty() {
            (self.best, self.gradient) = ((value, at), gradient);
            self.propose();
            return;
        }
        let moved: Vec<f64> = at.iter().zip(&self.best.1).map(|(to, from)| to - from).collect();
        let moved: Vec<f64> =
            moved.into_iter().map(|part| if part.is_nan() { 0.0 } else { part }).collect();
        let promised = dot(&self.gradient, &moved);
        let gained = value - self.best.0;
        if gained.is_nan() || gained < ENOUGH * promised {
            let top = promised / (2.0 * (promised - gained));
            let share = if top.is_finite() { top.clamp(0.1, 0.5) } else { 0.1 };
            self.go(moved.iter().map(|part| share * part).collect());
            return;
        }
        let turned: Vec<f64> =
            self.gradient.iter().zip(&gradient).map(|(old, new)| old - new).collect();
        let made = Move::new(moved, turned);
        if made.bend > 1e-9 * dot(&made.turned, &made.turned) {
            self.moves.drain(..(self.moves.len() + 1).saturating_sub(MEMORY));
            self.moves.push(made);
        } else {
            // Not concave there.
            self.reach = f64::min(2.0 * self.reach, LONGEST);
        }
        (self.best, self.gradient) = ((value, at), gradient);
        self.propose();
    }

    fn best(self) -> Point {
        self.best.1
    }
}

impl QuasiNewton {
    /// The next step from the best point.
    fn propose(&mut self) {
        let is_held =
            |(at, part): (&f64, &f64)| *at >= 1.0 && *part > 0.0 || *at <= 0.0 && *part < 0.0;
        let held: Vec<bool> = self.best.1.iter().zip(&self.gradient).map(is_held).collect();
        let free = |vector: &[f64]| -> Vec<f64> {
            let part = |(part, held): (&f64, &bool)| if *held { 0.0 } else { *part };
            vector.iter().zip(&held).map(part).collect()
        };
        let uphill = free(&self.gradient);
        let moves: Vec<Move> = self
            .moves
            .iter()
            .map(|Move { moved, turned, .. }| Move::new(free(moved), free(turned)))
            .filter(|known| known.bend > 0.0)
            .collect();
        let direction = times_inverse(&moves, &uphill);
        let promised = direction.as_ref().map(|direction| 0.5 * dot(direction, &uphill));
        match (direction, promised) {
            (Some(_), Some(0.0..LEAST_GAIN)) => {}
            (Some(direction), Some(LEAST_GAIN..)) => {
                let scale = f64::min(LONGEST / greatest(&direction), 1.0);
                self.go(scaled(&direction, scale));
            }
            _ => self.go(scaled(&uphill, self.reach / greatest(&uphill))),
        }
    }

    /// Moves from the best point, unless that is nowhere.
    fn go(&mut self, step: Vec<f64>) {
        let to = |(from, step): (&f64, &f64)| {
            if *step == 0.0 { *from } else { (from + step).clamp(0.0, 1.0) }
        };
        let at: Point = self.best.1.iter().zip(&step).map(to).collect();
        let moves = |(to, from): (&f64, &f64)| (to - from).abs() >= LEAST_STEP;
        self.at = at.iter().zip(&self.best.1).any(moves).then_some(at);
    }
}

impl Move {
    fn new(moved: Vec<f64>, turned: Vec<f64>) -> Self {
        Move { bend: dot(&moved, &turned), moved, turned }
    }
}

/// The inverse of the curvature that moves show times a gradient; `None` without any.
fn times_inverse(moves: &[Move], gradient: &[f64]) -> Option<Vec<f64>> {
    let latest = moves.last()?;
    let mut direction = gradient.to_vec();
    let mut shares = Vec::with_capacity(moves.len());
    for Move { moved, turned, bend } in moves.iter().rev() {
        let share = dot(moved, &direction) / bend;
        add(&mut direction, -share, turned);
        shares.push(share);
    }
    let scale = latest.bend / dot(&latest.turned, &latest.turned);
    direction.iter_mut().for_each(|part| *part *= scale);
    for (Move { moved, turned, bend }, share) in moves.iter().zip(shares.into_iter().rev()) {
        let back = dot(turned, &direction) / bend;
        add(&mut direction, share - back, moved);
    }
    Some(direction)
}

fn add(sum: &mut [f64], scale: f64, vector: &[f64]) {
    sum.iter_mut().zip(vector).for_each(|(sum, part)| *sum += scale * part);
}

fn scaled(vector: &[f64], scale: f64) -> Vec<f64> {
    vector.iter().map(|part| if *part == 0.0 { 0.0 } else { scale * part }).collect()
}

fn greatest(vector: &[f64]) -> f64 {
    vector.iter().fold(0.0, |most, part| f64::max(most, part.abs()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn climb<A: Ascent>(
        start: &[f64],
        fixed: &[f64],
        height: impl Fn(&[f64]) -> (f64, Vec<f64>),
    ) -> (Point, u32) {
        let mut ascent = A::from(start.to_vec());
        let mut count = 0;
        while let Some(at) = ascent.next().filter(|_| count < 25) {
            let (value, gradient) = height(at);
            ascent.step(value, &gradient, fixed);
            count += 1;
        }
        (ascent.best(), count)
    }

    /// A narrow ridge at an angle, with its top at `(.62, .41)`.
    fn ridge(at: &[f64]) -> (f64, Vec<f64>) {
        let (x, y) = (at[0] - 0.62, at[1] - 0.41);
        let (along, across) = (x + y, x - y);
        let gradient = vec![-2.0 * along - 80.0 * across, -2.0 * along + 80.0 * across];
        (-along * along - 40.0 * across * across, gradient)
    }

    #[test]
    fn a_ridge_is_climbed_to_its_top_in_fewer_steps() {
        let free = [f64::NAN; 2];
        let (top, count) = climb::<QuasiNewton>(&[0.1, 0.2], &free, ridge);
        let (other, other_count) = climb::<SignSteps>(&[0.1, 0.2], &free, ridge);
        assert!((top[0] - 0.62).abs() < 0.01 && (top[1] - 0.41).abs() < 0.01, "{top:?}");
        assert!(count < 18 && other_count == 25, "{count} {other_count}");
        assert!(ridge(&top).0 > ridge(&other).0);
    }

    #[test]
    fn bounds_fixed_and_inactive_axes_hold() {
        // The top lies beyond the bound of the first axis.
        let height = |at: &[f64]| {
            let (x, y) = (at[0] - 1.4, at[1] - 0.3);
            (-x * x - y * y - x * y, vec![-2.0 * x - y, -2.0 * y - x, 7.0, f64::NAN])
        };
        let fixed = [f64::NAN, f64::NAN, 0.5, f64::NAN];
        let (top, _) = climb::<QuasiNewton>(&[0.2, 0.9, 0.5, f64::NAN], &fixed, height);
        assert_eq!((top[0], top[2]), (1.0, 0.5));
        assert!((top[1] - 0.5).abs() < 0.01 && top[3].is_nan(), "{top:?}");
    }

    #[test]
    fn what_is_flat_or_not_a_number_ends_it() {
        let nowhere = |_: &[f64]| (0.0, vec![0.0]);
        assert_eq!(climb::<QuasiNewton>(&[0.4], &[f64::NAN], nowhere), (vec![0.4], 1));
        let cliff = |at: &[f64]| match at[0] > 0.41 {
            true => (f64::NAN, vec![f64::NAN]),
            false => (at[0], vec![1.0]),
        };
        let (top, _) = climb::<QuasiNewton>(&[0.4], &[f64::NAN], cliff);
        assert!((0.4..=0.41).contains(&top[0]), "{top:?}");
    }
}
