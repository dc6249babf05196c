//! Maximises the acquisition function: many random draws, then local ascents from the best of them.

use std::collections::HashSet;
use std::mem::take;

use rand::RngExt as _;

use super::ascent::{Ascent, QuasiNewton, SignSteps};
use super::curves::CurveProcess;
use super::front::HypervolumeImprovement;
use super::process::{Acquisition, GaussianProcess};
use super::rules::Rules;
use super::value::ValuePredictor;
use crate::samplers::Ask;
use crate::samplers::cube::{AxisKind, Cube, Point, key, random_position};
use crate::samplers::normal::draw;
use crate::samplers::prior::Prior;
use crate::study::prediction::Prediction;
use crate::study::seed::StreamRng;

/// Uniform draws if none of those satisfies the constraints.
const MORE: usize = 5_000;
/// Number of best points to draw around, with one objective and with several.
pub(super) const BEST: usize = 5;
pub(super) const BEST_OF_SEVERAL: usize = 20;
/// Local ascents, and steps of each.
const CLIMBS: usize = 5;
const STEPS: usize = 25;
/// Rounds of gradient steps and discrete axes.
const ROUNDS: usize = 2;
/// How many draws are judged together.
const TOGETHER: usize = 8;
/// Alternatives of one choice that an ascent tries.
const ALTERNATIVES: usize = 10;

/// A term of the acquisition function.
pub(super) enum Model<'a> {
    /// An acquisition function of one process.
    One(&'a GaussianProcess<'a>, Acquisition),
    /// The expected improvement, on this value, of a process over curves at the end.
    Curves(&'a CurveProcess<'a>, f64),
    /// The expected hypervolume improvement of one process per objective.
    Front(&'a HypervolumeImprovement<'a>),
}

impl Model<'_> {
    fn values(&self, points: &[&[f64]]) -> Vec<f64> {
        match self {
            Model::One(process, acquisition) => process.values(points, *acquisition),
            Model::Curves(process, incumbent) => process.values(points, *incumbent),
            Model::Front(improvement) => {
                points.iter().map(|point| improvement.value(point)).collect()
            }
        }
    }

    fn values_and_gradients(&self, points: &[&[f64]]) -> Vec<(f64, Vec<f64>)> {
        match self {
            Model::One(process, acquisition) => process.values_and_gradients(points, *acquisition),
            Model::Curves(process, incumbent) => process.values_and_gradients(points, *incumbent),
            Model::Front(improvement) => {
                points.iter().map(|point| improvement.value_and_gradient(point)).collect()
            }
        }
    }

    /// The same with an upper bound, if it has one.
    fn bounded(&self) -> Option<Bounded<'_>> {
        match self {
            Model::One(process, Acquisition::Improvement(incumbent)) => {
                Some(Bounded::One(process, *incumbent))
            }
            Model::Curves(process, incumbent) => Some(Bounded::Curves(process, *incumbent)),
            Model::One(_, Acquisition::AtMost(_)) | Model::Front(_) => None,
        }
    }
}

/// An expected improvement on a value, which has an upper bound at a fraction of its cost.
#[derive(Clone, Copy)]
enum Bounded<'a> {
    One(&'a GaussianProcess<'a>, f64),
    Curves(&'a CurveProcess<'a>, f64),
}

impl Bounded<'_> {
    /// The bound at a point, and the covariances that it was computed from.
    fn bound(self, point: &[f64]) -> (f64, Vec<f64>) {
        match self {
            Bounded::One(process, incumbent) => {
                let covariances = process.covariances(point);
                (process.most_improvement(&covariances, incumbent), covariances)
            }
            Bounded::Curves(process, incumbent) => {
                let covariances = process.covariances_of(point);
                (process.most_improvement(&covariances, incumbent), covariances)
            }
        }
    }

    /// The values at points with these covariances.
    fn values(self, covariances: &[Vec<f64>]) -> Vec<f64> {
        match self {
            Bounded::One(process, incumbent) => {
                process.values_with(covariances, Acquisition::Improvement(incumbent))
            }
            Bounded::Curves(process, incumbent) => process.values_with(covariances, incumbent),
        }
    }
}

/// The inputs of the search.
pub(super) struct Search<'a> {
    pub cube: &'a Cube,
    pub ask: &'a Ask<'a>,
    /// The models whose acquisition values add up: that of the losses with pending trials (absent
    /// until a feasible point is known), and those of the limits.
    pub models: Vec<Model<'a>>,
    /// The user's prior.
    pub prior: Option<Prior>,
    /// Number of finished trials.
    pub finished: usize,
    /// Fixed positions.
    pub fixed: &'a [f64],
    /// Data points, best first.
    pub best: Vec<&'a [f64]>,
    /// How many of them to draw around.
    pub centres: usize,
    /// Points of finished and pending trials.
    pub taken: HashSet<Vec<u64>>,
    /// By objective; none if values are not predicted.
    pub predictors: Vec<ValuePredictor<'a>>,
    pub rules: Rules,
}

impl Search<'_> {
    /// The best point that is not taken; a random one if all found are taken.
    pub fn run(&self, rng: &mut StreamRng) -> Point {
        let (anywhere, around) = self.rules.draws();
        let mut drawn: Vec<Point> = Vec::with_capacity(anywhere + around);
        for index in 0..anywhere + around {
            let point = if index < anywhere || self.best.is_empty() {
                self.anywhere(rng)
            } else {
                self.around(self.best[index % self.centres.min(self.best.len())], rng)
            };
            if self.allows(&point) {
                drawn.push(point);
            }
        }
        let mut found = self.judged(drawn);
        // Restrictive constraints need more draws.
        for _ in 0..if found.is_empty() { MORE } else { 0 } {
            let point = self.anywhere(rng);
            if self.allows(&point) {
                found.push((self.acquisition(&point), point));
                if found.len() == BEST {
                    break;
                }
            }
        }
        sort(&mut found);
        found.dedup_by(|a, b| key(&a.1) == key(&b.1));
        let climbed = self.climb(found.iter().take(CLIMBS).cloned().collect(), rng);
        found.extend(climbed);
        sort(&mut found);
        let free = found.into_iter().find(|(_, point)| !self.taken.contains(&key(point)));
        free.map_or_else(|| self.anywhere(rng), |(_, point)| point)
    }

    /// The predicted value at `point` by objective; nothing if one of them cannot be predicted.
    pub fn predict(&self, point: &[f64]) -> Vec<Prediction> {
        let predicted: Option<Vec<_>> =
            self.predictors.iter().map(|predictor| predictor.predict(point)).collect();
        predicted.unwrap_or_default()
    }

    /// The index of the candidate with the highest acquisition value; of several, the first.
    pub fn choose(&self, candidates: Vec<(usize, Point)>) -> usize {
        let value = |point: &[f64]| self.acquisition(point);
        let mut bounded: Vec<(f64, usize, Point)> = candidates
            .into_iter()
            .map(|(index, point)| {
                let bound = self.bounded().map(|model| model.bound(&point).0);
                (bound.unwrap_or(f64::INFINITY), index, point)
            })
            .collect();
        bounded.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        let mut best = (f64::NEG_INFINITY, bounded.first().map_or(0, |first| first.1));
        for (bound, index, point) in bounded {
            // Tolerance for rounding, which affects the bound more than the value.
            if bound + 1e-6 < best.0 {
                break;
            }
            let value = value(&point);
            if value > best.0 {
                best = (value, index);
            }
        }
        best.1
    }

    /// The points with their acquisition values, except those that their upper bound (a tenth of
    /// the cost) excludes from the best `CLIMBS`.
    fn judged(&self, drawn: Vec<Point>) -> Vec<(f64, Point)> {
        let Some(model) = self.bounded() else {
            let points: Vec<&[f64]> = drawn.iter().map(|point| &point[..]).collect();
            let values = self.acquisitions(&points);
            return values.into_iter().zip(drawn).collect();
        };
        let mut bounded: Vec<_> =
            drawn.into_iter().map(|point| (model.bound(&point), point)).collect();
        // Stable: equal bounds keep the order of their draws.
        bounded.sort_by(|a, b| b.0.0.total_cmp(&a.0.0));
        let mut judged: Vec<(f64, Point)> = Vec::new();
        let mut best: Vec<(f64, Vec<u64>)> = Vec::new();
        // Tolerance for rounding, which affects the bound more than the value.
        let is_excluded = |bound: f64, best: &[(f64, Vec<u64>)]| {
            best.len() == CLIMBS && best.last().is_some_and(|(least, _)| bound + 1e-6 < *least)
        };
        for together in bounded.chunks_mut(TOGETHER) {
            if is_excluded(together[0].0.0, &best) {
                break;
            }
            let covariances = together.iter_mut().map(|((_, covariances), _)| take(covariances));
            let values = model.values(&covariances.collect::<Vec<_>>());
            for (((bound, _), point), value) in together.iter().zip(values) {
                if is_excluded(*bound, &best) {
                    return judged;
                }
                let key = key(point);
                if !self.taken.contains(&key) && best.iter().all(|(_, known)| *known != key) {
                    let place = best.partition_point(|(other, _)| *other >= value);
                    best.insert(place, (value, key));
                    best.truncate(CLIMBS);
                }
                judged.push((value, point.clone()));
            }
        }
        judged
    }

    /// The acquisition value with an upper bound, if it is that of one model alone.
    fn bounded(&self) -> Option<Bounded<'_>> {
        match (&self.models[..], &self.prior) {
            ([model], None) => model.bounded(),
            _ => None,
        }
    }

    fn acquisition(&self, point: &[f64]) -> f64 {
        self.acquisitions(&[point])[0]
    }

    fn acquisitions(&self, points: &[&[f64]]) -> Vec<f64> {
        let mut totals = vec![0.0; points.len()];
        for model in &self.models {
            totals.iter_mut().zip(model.values(points)).for_each(|(total, value)| *total += value);
        }
        if let Some(prior) = &self.prior {
            for (total, point) in totals.iter_mut().zip(points) {
                *total += prior.log_weight(self.cube, point, self.finished).0;
            }
        }
        totals
    }

    fn acquisitions_and_gradients(&self, points: &[&[f64]]) -> Vec<(f64, Vec<f64>)> {
        let mut totals: Vec<_> = points.iter().map(|point| (0.0, vec![0.0; point.len()])).collect();
        let add = |total: &mut (f64, Vec<f64>), (value, gradient): (f64, Vec<f64>)| {
            total.0 += value;
            total.1.iter_mut().zip(gradient).for_each(|(all, derivative)| *all += derivative);
        };
        for model in &self.models {
            let parts = model.values_and_gradients(points);
            totals.iter_mut().zip(parts).for_each(|(total, part)| add(total, part));
        }
        if let Some(prior) = &self.prior {
            for (total, point) in totals.iter_mut().zip(points) {
                add(total, prior.log_weight(self.cube, point, self.finished));
            }
        }
        totals
    }

    fn allows(&self, point: &[f64]) -> bool {
        !self.ask.is_restricted() || self.ask.allows(&self.cube.decode(point, self.ask))
    }

    fn anywhere(&self, rng: &mut StreamRng) -> Point {
        self.cube.walk(self.fixed, |index| random_position(self.cube.axes[index].kind, rng))
    }

    /// A point near `base`: some axes moved by a random step.
    #[expect(clippy::cast_precision_loss, reason = "a number of axes")]
    fn around(&self, base: &[f64], rng: &mut StreamRng) -> Point {
        let share = (2.0 / base.len().max(1) as f64).max(0.25);
        let reach = [0.25, 0.1, 0.03, 0.01][rng.random_range(0..4)];
        self.cube.walk(self.fixed, |index| {
            let kind = self.cube.axes[index].kind;
            if base[index].is_nan()
                || matches!(kind, AxisKind::Choice(_)) && rng.random::<f64>() < 0.5 * share
            {
                return random_position(kind, rng);
            }
            let moves = !matches!(kind, AxisKind::Choice(_)) && rng.random::<f64>() < share;
            if moves { (base[index] + reach * draw(rng)).clamp(0.0, 1.0) } else { base[index] }
        })
    }

    /// Local ascents: each alternates gradient steps on numbers with a search over choices and
    /// neighbouring cells, and has a second round if the first one gained enough.
    fn climb(&self, mut climbs: Vec<(f64, Point)>, rng: &mut StreamRng) -> Vec<(f64, Point)> {
        if self.rules >= Rules::Since11 {
            let mut rising: Vec<&mut (f64, Point)> = climbs.iter_mut().collect();
            for _ in 0..ROUNDS {
                let slid = self.slide::<QuasiNewton>(&rising);
                let has_gained = self.refine_each(&mut rising, slid, rng);
                let mut has_gained = has_gained.into_iter();
                rising.retain(|_| has_gained.next() == Some(true));
            }
            return climbs;
        }
        let slid = self.slide::<SignSteps>(&climbs.iter_mut().collect::<Vec<_>>());
        let mut rising: Vec<&mut (f64, Point)> = Vec::new();
        for (climb, slid) in climbs.iter_mut().zip(slid) {
            if !self.refine(climb, slid, rng) {
                continue;
            }
            if self.rules >= Rules::Since10 {
                rising.push(climb);
                continue;
            }
            // The order of draws is that of one ascent after the other.
            let slid = self.slide::<SignSteps>(&[&mut *climb]).swap_remove(0);
            self.refine(climb, slid, rng);
        }
        let slid = self.slide::<SignSteps>(&rising);
        for (climb, slid) in rising.into_iter().zip(slid) {
            self.refine(climb, slid, rng);
        }
        climbs
    }

    /// Moves each ascent to where its gradient steps led, if that is better, and then to the best
    /// position of each discrete axis. Which of them may gain more.
    fn refine_each(
        &self,
        climbs: &mut [&mut (f64, Point)],
        slid: Vec<Point>,
        rng: &mut StreamRng,
    ) -> Vec<bool> {
        let before: Vec<f64> = climbs.iter().map(|climb| climb.0).collect();
        let slid = slid.into_iter().map(|slid| self.cube.walk(self.fixed, |index| slid[index]));
        self.improve(climbs, slid.enumerate().collect());
        for index in 0..self.cube.axes.len() {
            let mut changed = Vec::new();
            for (of, (_, point)) in climbs.iter().map(|climb| &**climb).enumerate() {
                for position in self.alternatives(index, point[index], rng) {
                    changed.push((of, self.with(point, index, position, rng)));
                }
            }
            self.improve(climbs, changed);
        }
        climbs.iter().zip(before).map(|(climb, before)| has_gained(before, climb.0)).collect()
    }

    /// Moves ascents, by their index, to points that are better and allowed.
    fn improve(&self, climbs: &mut [&mut (f64, Point)], changed: Vec<(usize, Point)>) {
        let points: Vec<&[f64]> = changed.iter().map(|(_, point)| &point[..]).collect();
        let values = self.acquisitions(&points);
        for ((of, point), value) in changed.into_iter().zip(values) {
            if value > climbs[of].0 && self.allows(&point) {
                *climbs[of] = (value, point);
            }
        }
    }

    /// Moves an ascent to where its gradient steps led, if that is better, and then to the best
    /// position of each discrete axis. Whether it may gain more.
    fn refine(&self, climb: &mut (f64, Point), slid: Point, rng: &mut StreamRng) -> bool {
        let (value, point) = climb;
        let before = *value;
        let slid = self.cube.walk(self.fixed, |index| slid[index]);
        let slid_value = self.acquisition(&slid);
        if slid_value > *value && self.allows(&slid) {
            (*value, *point) = (slid_value, slid);
        }
        for index in 0..point.len() {
            for position in self.alternatives(index, point[index], rng) {
                let changed = self.with(point, index, position, rng);
                let changed_value = self.acquisition(&changed);
                if changed_value > *value && self.allows(&changed) {
                    (*value, *point) = (changed_value, changed);
                }
            }
        }
        has_gained(before, *value)
    }

    /// Where ascents along the free numeric axes lead from each of several points.
    fn slide<A: Ascent>(&self, from: &[&mut (f64, Point)]) -> Vec<Point> {
        let mut ascents: Vec<A> = from.iter().map(|(_, point)| A::from(point.clone())).collect();
        for _ in 0..STEPS {
            let points: Vec<&[f64]> = ascents.iter().filter_map(A::next).collect();
            if points.is_empty() {
                break;
            }
            let found = self.acquisitions_and_gradients(&points);
            let moving = ascents.iter_mut().filter(|ascent| ascent.next().is_some());
            for (ascent, (value, gradient)) in moving.zip(found) {
                ascent.step(value, &gradient, self.fixed);
            }
        }
        ascents.into_iter().map(A::best).collect()
    }

    /// Other positions of a discrete axis.
    #[expect(clippy::cast_precision_loss, reason = "an index of a list")]
    fn alternatives(&self, index: usize, position: f64, rng: &mut StreamRng) -> Vec<f64> {
        if position.is_nan() || !self.fixed[index].is_nan() {
            return Vec::new();
        }
        let axis = &self.cube.axes[index];
        match axis.kind {
            AxisKind::Choice(count) if count <= ALTERNATIVES => (0..count)
                .map(|choice| choice as f64)
                .filter(|choice| *choice != position)
                .collect(),
            AxisKind::Choice(count) => {
                (0..ALTERNATIVES).map(|_| rng.random_range(0..count) as f64).collect()
            }
            _ => {
                let Some((low, high)) = axis.cell(position) else { return Vec::new() };
                [low - 1e-9, high + 1e-9]
                    .into_iter()
                    .filter(|beyond| (0.0..=1.0).contains(beyond))
                    .map(|beyond| axis.snap(beyond))
                    .collect()
            }
        }
    }

    /// `point` with another position on one axis; newly active axes are drawn.
    fn with(&self, point: &[f64], changed: usize, position: f64, rng: &mut StreamRng) -> Point {
        self.cube.walk(self.fixed, |index| match point[index] {
            _ if index == changed => position,
            old if old.is_nan() => random_position(self.cube.axes[index].kind, rng),
            old => old,
        })
    }
}

/// Whether an ascent's last round was worth another one.
fn has_gained(before: f64, value: f64) -> bool {
    let is_still = value - before < 1e-3;
    !is_still
}

fn sort(found: &mut [(f64, Point)]) {
    // Stable: equal values keep the order of their draws.
    found.sort_by(|a, b| b.0.total_cmp(&a.0));
}
