//! PB2 (Parker-Holder et al., *Provably Efficient Online Hyperparameter Optimization with
//! Population-Based Bandits*, 2020): a time-varying Gaussian process of improvements chooses the
//! numbers with which members explore.
//!
//! - An observation is an interval of a member: its round `t`, its loss before and its parameters
//!   on the unit cube `x`, and how much the loss improved for each step. Improvements are
//!   standardised and clipped at 2, losses scaled to [0, 1].
//! - The kernel is `k((x, t), (x', t')) = s^2 exp(-|x - x'|^2 / (2 l^2)) (1 - e)^(|t - t'| / 2)`
//!   (equation 4 of the paper), with noise. The four numbers maximise the marginal likelihood.
//! - The next point maximises `mean + sqrt(beta) deviation` with `beta = 0.2 + log(0.4 n)` for `n`
//!   observations (appendix), given its donor's loss, in the next round. The mean is that of the
//!   observations; the deviation that with the points of all members which were decided about
//!   before, as if their improvements were known (Desautels et al., 2014).
//!
//! Choices are perturbed as without a model, and so is everything before two rounds are known.

use rand::RngExt as _;

use super::meeting::Member;
use crate::analysis::linalg::{Matrix, dot};
use crate::pruners::Generation;
use crate::study::constraint;
use crate::study::params::{Params, Value};
use crate::study::seed::StreamRng;
use crate::study::space::{Dimension, Distribution};
use crate::study::trial::Trial;

/// Fewest observations for a model.
const FEWEST: usize = 4;

/// Most observations, the latest.
const MOST: usize = 200;

/// Random points of which the best are refined.
const DRAWS: usize = 256;

/// How many are refined.
const REFINED: usize = 3;

/// A point: the round, and the loss before with the parameters.
#[derive(Clone, Debug, PartialEq)]
struct Point {
    round: f64,
    place: Vec<f64>,
}

/// The kernel's hyperparameters.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Kernel {
    /// `s^2`.
    variance: f64,
    /// `l`.
    length: f64,
    /// `e`: how much is forgotten from round to round.
    forgetting: f64,
    /// Variance of the noise.
    noise: f64,
}

impl Kernel {
    /// The covariance of two points, without noise.
    fn of(&self, a: &Point, b: &Point) -> f64 {
        let square: f64 = a.place.iter().zip(&b.place).map(|(a, b)| (a - b).powi(2)).sum();
        let time = (1.0 - self.forgetting).powf((a.round - b.round).abs() / 2.0);
        self.variance * (-square / (2.0 * self.length.powi(2))).exp() * time
    }

    /// The Cholesky factor of the covariances of points, with noise.
    fn factor(&self, points: &[Point]) -> Option<Matrix> {
        let mut matrix = Matrix::new(points.len());
        for (index, point) in points.iter().enumerate() {
            for (other, cell) in points[..=index].iter().zip(matrix.row_mut(index)) {
                *cell = self.of(point, other);
            }
            matrix.row_mut(index)[index] += self.noise;
        }
        matrix.factor()
    }

    /// The log marginal likelihood, without its constant.
    fn likelihood(&self, points: &[Point], gains: &[f64]) -> Option<f64> {
        let factor = self.factor(points)?;
        let solved = factor.solve(gains);
        let diagonal = (0..points.len()).map(|index| factor.row(index)[index].ln());
        Some(-0.5 * dot(&solved, &solved) - diagonal.sum::<f64>()).filter(|found| found.is_finite())
    }

    /// By pattern search over the logarithms, from the published start.
    fn fitted(points: &[Point], gains: &[f64]) -> Kernel {
        const BOUNDS: [(f64, f64); 4] = [(1e-2, 1e2), (5e-2, 1e1), (1e-5, 0.5), (1e-4, 1.0)];
        let kernel = |logs: [f64; 4]| {
            let [variance, length, forgetting, noise] = logs.map(f64::exp);
            Kernel { variance, length, forgetting, noise }
        };
        let value = |logs| kernel(logs).likelihood(points, gains).unwrap_or(f64::NEG_INFINITY);
        let mut best = [1.0_f64, 1.0, 0.1, 0.1].map(f64::ln);
        let (mut reached, mut step) = (value(best), 1.0);
        while step > 0.1 {
            let before = reached;
            for (index, (low, high)) in BOUNDS.into_iter().enumerate() {
                for by in [step, -step] {
                    let mut next = best;
                    next[index] = (next[index] + by).clamp(low.ln(), high.ln());
                    let found = value(next);
                    if found > reached {
                        (best, reached) = (next, found);
                        break;
                    }
                }
            }
            if reached <= before {
                step /= 2.0;
            }
        }
        kernel(best)
    }
}

/// A Gaussian process on observations.
struct Model {
    kernel: Kernel,
    /// The observations.
    points: Vec<Point>,
    /// Their improvements, solved.
    weights: Vec<f64>,
}

impl Model {
    fn new(points: Vec<Point>, gains: &[f64]) -> Option<Self> {
        let kernel = Kernel::fitted(&points, gains);
        let factor = kernel.factor(&points)?;
        let weights = factor.transposed_solve(&factor.solve(gains));
        Some(Model { kernel, points, weights })
    }

    /// The mean improvement at a point.
    fn mean(&self, point: &Point) -> f64 {
        let covariances: Vec<f64> =
            self.points.iter().map(|other| self.kernel.of(point, other)).collect();
        dot(&covariances, &self.weights)
    }

    /// The variance at a point, given the places of `points`, of which `factor` is the factor.
    fn variance(&self, point: &Point, points: &[Point], factor: &Matrix) -> f64 {
        let covariances: Vec<f64> =
            points.iter().map(|other| self.kernel.of(point, other)).collect();
        let solved = factor.solve(&covariances);
        (self.kernel.variance - dot(&solved, &solved)).max(0.0)
    }
}

/// The model of a population at a rung.
pub(super) struct Bandit<'a> {
    generation: &'a Generation<'a>,
    round: f64,
    /// Lowest and highest loss before an interval.
    losses: (f64, f64),
    model: Option<Model>,
    /// Where members are in the next round.
    expected: Vec<Point>,
}

impl<'a> Bandit<'a> {
    /// The model of what `all` trials of a population did up to `rung`.
    pub fn new(generation: &'a Generation<'a>, all: &[Trial], interval: u64, rung: u64) -> Self {
        let known = all.iter().filter(|trial| generation.history.learns_from(trial));
        let mut seen: Vec<Interval> =
            known.flat_map(|trial| intervals(generation, trial, interval, rung)).collect();
        // Stable: those of a round in the order of their trials.
        seen.sort_by_key(|seen| seen.round);
        let seen = &seen[seen.len().saturating_sub(MOST)..];
        let before = || seen.iter().map(|seen| seen.before);
        let losses =
            (before().fold(f64::INFINITY, f64::min), before().fold(f64::NEG_INFINITY, f64::max));
        let round = number(rung / interval);
        let mut bandit = Bandit { generation, round, losses, model: None, expected: Vec::new() };
        let points =
            seen.iter().map(|seen| bandit.point(number(seen.round), seen.before, &seen.params));
        let points: Vec<Point> = points.collect();
        if points.len() >= FEWEST {
            bandit.model = Model::new(points, &standardised(seen));
        }
        bandit
    }

    /// Notes that a member that continues from this one's state has these parameters in the next
    /// round.
    pub fn expect(&mut self, state: &Member<'_>, params: &Params) {
        let point = self.point(self.round, loss_of(state), params);
        self.expected.push(point);
    }

    /// The parameters for a member that continues from a donor's state: numbers by the model, all
    /// others as in `perturbed`. `None`: there is no model, or nothing that keeps the constraints.
    pub fn choose(
        &self,
        donor: &Member<'_>,
        perturbed: &Params,
        rng: &mut StreamRng,
    ) -> Option<Params> {
        let model = self.model.as_ref()?;
        let points: Vec<Point> = model.points.iter().chain(&self.expected).cloned().collect();
        let factor = model.kernel.factor(&points)?;
        let beta = 0.2 + (0.4 * number(model.points.len() as u64)).ln().max(0.0);
        let before = self.scaled(loss_of(donor));
        let upper = |numbers: &[f64]| {
            let place = std::iter::once(before).chain(numbers.iter().copied()).collect();
            let point = Point { round: self.round, place };
            let variance = model.variance(&point, &points, &factor);
            model.mean(&point) + (beta * variance).sqrt()
        };
        let count = self.axes().count();
        let mut candidates: Vec<(f64, Vec<f64>)> = Vec::new();
        for _ in 0..DRAWS {
            let numbers: Vec<f64> = (0..count).map(|_| rng.random()).collect();
            if self.keeps(&self.params(&numbers, perturbed)) {
                candidates.push((upper(&numbers), numbers));
            }
        }
        candidates.sort_by(|a, b| b.0.total_cmp(&a.0));
        candidates.truncate(REFINED);
        let is_kept = |numbers: &[f64]| self.keeps(&self.params(numbers, perturbed));
        let refined = candidates.into_iter().map(|start| refined(start, &upper, is_kept));
        let (_, numbers) = refined.max_by(|a, b| a.0.total_cmp(&b.0))?;
        Some(self.params(&numbers, perturbed))
    }

    /// The dimensions that the model chooses.
    fn axes(&self) -> impl Iterator<Item = &'a Dimension> + use<'a> {
        let dimensions = self.generation.space.dimensions();
        dimensions.iter().filter(|dimension| is_number(&dimension.distribution))
    }

    /// The parameters with these numbers, and the choices of others.
    fn params(&self, numbers: &[f64], others: &Params) -> Params {
        let space = self.generation.space;
        let place = |dimension: &Dimension| {
            let index = self.axes().position(|axis| axis.name == dimension.name);
            index.and_then(|index| numbers.get(index)).copied()
        };
        let assembled = space.assemble(&Params::new(), |dimension, _| {
            let unit = place(dimension);
            let other = || others.get(&dimension.name).cloned();
            let value = unit.map(|unit| dimension.distribution.from_unit(unit)).or_else(other);
            // A choice that became active.
            let first = || dimension.distribution.from_unit(0.0);
            Ok::<Value, std::convert::Infallible>(value.unwrap_or_else(first))
        });
        let Ok(params) = assembled;
        params
    }

    fn keeps(&self, params: &Params) -> bool {
        constraint::broken(self.generation.constraints, params).is_none()
    }

    fn point(&self, round: f64, before: f64, params: &Params) -> Point {
        let position = |axis: &Dimension| {
            let value = params.get(&axis.name);
            value.and_then(|value| axis.distribution.to_unit(value)).unwrap_or(0.5)
        };
        let place = std::iter::once(self.scaled(before)).chain(self.axes().map(position)).collect();
        Point { round, place }
    }

    /// A loss on the scale of the observations.
    fn scaled(&self, loss: f64) -> f64 {
        let (low, high) = self.losses;
        let scaled = (loss - low) / (high - low);
        if scaled.is_finite() { scaled.clamp(-1.0, 2.0) } else { 0.5 }
    }
}

/// A point moved along axes while that increases its value.
fn refined(
    (mut value, mut point): (f64, Vec<f64>),
    of: &impl Fn(&[f64]) -> f64,
    is_allowed: impl Fn(&[f64]) -> bool,
) -> (f64, Vec<f64>) {
    let mut step = 0.1;
    while step > 0.005 {
        let before = value;
        for index in 0..point.len() {
            for by in [step, -step] {
                let mut next = point.clone();
                next[index] = (next[index] + by).clamp(0.0, 1.0);
                let found = of(&next);
                if found > value && is_allowed(&next) {
                    (value, point) = (found, next);
                }
            }
        }
        if value <= before {
            step /= 2.0;
        }
    }
    (value, point)
}

/// What a member did from one rung to the next.
struct Interval {
    round: u64,
    before: f64,
    params: Params,
    /// The improvement for each step.
    gain: f64,
}

/// A trial's intervals up to a rung.
fn intervals(
    generation: &Generation<'_>,
    trial: &Trial,
    interval: u64,
    upto: u64,
) -> Vec<Interval> {
    let loss = |value: f64| generation.history.score(value).loss();
    let at = |rung: u64| {
        let index = trial.curve.partition_point(|(step, _)| *step < rung);
        trial.curve.get(index).copied()
    };
    let mut found = Vec::new();
    for round in 1..upto / interval {
        let (Some(start), Some(end)) = (at(round * interval), at((round + 1) * interval)) else {
            break;
        };
        // The parameters of these steps, and the state that they began with.
        let count = trial.segments.partition_point(|segment| segment.start < end.0);
        let params = trial.segments.get(count).map_or(&trial.params, |next| &next.replaced);
        let segment = count.checked_sub(1).and_then(|index| trial.segments.get(index));
        let taken = segment.filter(|segment| segment.start >= start.0).and_then(|segment| {
            let curve = &generation.history.trials().get(segment.from.index())?.curve;
            let index = curve.binary_search_by_key(&segment.start, |(step, _)| *step).ok()?;
            curve.get(index).copied()
        });
        let start = taken.unwrap_or(start);
        if end.0 <= start.0 {
            continue;
        }
        let before = loss(start.1);
        let gain = (before - loss(end.1)) / number(end.0 - start.0);
        if gain.is_finite() && before.is_finite() {
            found.push(Interval { round, before, params: params.clone(), gain });
        }
    }
    found
}

/// Improvements with mean 0 and variance 1, at most 2 from 0.
fn standardised(seen: &[Interval]) -> Vec<f64> {
    let count = number(seen.len() as u64).max(1.0);
    let mean = seen.iter().map(|seen| seen.gain).sum::<f64>() / count;
    let square = seen.iter().map(|seen| (seen.gain - mean).powi(2)).sum::<f64>() / count;
    let deviation = square.sqrt() + 1e-8;
    seen.iter().map(|seen| ((seen.gain - mean) / deviation).clamp(-2.0, 2.0)).collect()
}

fn loss_of(member: &Member<'_>) -> f64 {
    member.sound().map_or(f64::NAN, |(_, score)| score.loss())
}

fn is_number(distribution: &Distribution) -> bool {
    matches!(distribution, Distribution::Float { .. } | Distribution::Int { .. })
}

#[expect(clippy::cast_precision_loss, reason = "rounds, steps and counts")]
fn number(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests;
