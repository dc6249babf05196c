//! Maximises the acquisition function: many random draws, then local ascents from the best of them.

use std::collections::HashSet;

use rand::RngExt as _;

use super::curves::CurveProcess;
use super::front::HypervolumeImprovement;
use super::process::{Acquisition, GaussianProcess};
use super::value::ValuePredictor;
use crate::samplers::Ask;
use crate::samplers::cube::{AxisKind, Cube, Point, key, random_position};
use crate::samplers::normal::draw;
use crate::samplers::prior::Prior;
use crate::study::prediction::Prediction;
use crate::study::seed::StreamRng;

/// Uniform draws, and draws around the best data points.
const ANYWHERE: usize = 400;
const AROUND: usize = 300;
/// Uniform draws if none of those satisfies the constraints.
const MORE: usize = 5_000;
/// Number of best points to draw around, with one objective and with several.
pub(super) const BEST: usize = 5;
pub(super) const BEST_OF_SEVERAL: usize = 20;
/// Local ascents, and steps of each.
const CLIMBS: usize = 5;
const STEPS: usize = 25;
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
    fn value(&self, point: &[f64]) -> f64 {
        match self {
            Model::One(process, acquisition) => process.value(point, *acquisition),
            Model::Curves(process, incumbent) => process.value(point, *incumbent),
            Model::Front(improvement) => improvement.value(point),
        }
    }

    fn value_and_gradient(&self, point: &[f64]) -> (f64, Vec<f64>) {
        match self {
            Model::One(process, acquisition) => process.value_and_gradient(point, *acquisition),
            Model::Curves(process, incumbent) => process.value_and_gradient(point, *incumbent),
            Model::Front(improvement) => improvement.value_and_gradient(point),
        }
    }

    /// An upper bound of the value at a fraction of its cost, if there is one.
    fn bound(&self, point: &[f64]) -> Option<f64> {
        match self {
            Model::One(process, Acquisition::Improvement(incumbent)) => {
                Some(process.most_improvement(point, *incumbent))
            }
            Model::Curves(process, incumbent) => Some(process.most_improvement(point, *incumbent)),
            Model::One(_, Acquisition::AtMost(_)) | Model::Front(_) => None,
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
}

impl Search<'_> {
    /// The best point that is not taken; a random one if all found are taken.
    pub fn run(&self, rng: &mut StreamRng) -> Point {
        let mut drawn: Vec<Point> = Vec::with_capacity(ANYWHERE + AROUND);
        for index in 0..ANYWHERE + AROUND {
            let point = if index < ANYWHERE || self.best.is_empty() {
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
        let climbed: Vec<(f64, Point)> = found
            .iter()
            .take(CLIMBS)
            .map(|(value, point)| self.climb(*value, point.clone(), rng))
            .collect();
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
            .map(|(index, point)| (self.bound(&point).unwrap_or(f64::INFINITY), index, point))
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
        if drawn.first().is_none_or(|point| self.bound(point).is_none()) {
            return drawn.into_iter().map(|point| (self.acquisition(&point), point)).collect();
        }
        let mut bounded: Vec<(f64, Point)> = drawn
            .into_iter()
            .map(|point| (self.bound(&point).unwrap_or(f64::INFINITY), point))
            .collect();
        sort(&mut bounded);
        let mut judged: Vec<(f64, Point)> = Vec::new();
        let mut best: Vec<(f64, Vec<u64>)> = Vec::new();
        for (bound, point) in bounded {
            // Tolerance for rounding, which affects the bound more than the value.
            if best.len() == CLIMBS && best.last().is_some_and(|(least, _)| bound + 1e-6 < *least) {
                break;
            }
            let (value, key) = (self.acquisition(&point), key(&point));
            if !self.taken.contains(&key) && best.iter().all(|(_, known)| *known != key) {
                let place = best.partition_point(|(other, _)| *other >= value);
                best.insert(place, (value, key));
                best.truncate(CLIMBS);
            }
            judged.push((value, point));
        }
        judged
    }

    /// An upper bound of the acquisition value, if it is that of one model alone.
    fn bound(&self, point: &[f64]) -> Option<f64> {
        match (&self.models[..], &self.prior) {
            ([model], None) => model.bound(point),
            _ => None,
        }
    }

    fn acquisition(&self, point: &[f64]) -> f64 {
        let values = self.models.iter().map(|model| model.value(point));
        let prior = self.prior.as_ref();
        let weight = prior.map(|prior| prior.log_weight(self.cube, point, self.finished).0);
        values.chain(weight).fold(0.0, |total, part| total + part)
    }

    fn acquisition_and_gradient(&self, point: &[f64]) -> (f64, Vec<f64>) {
        let values = self.models.iter().map(|model| model.value_and_gradient(point));
        let prior = self.prior.as_ref();
        let weight = prior.map(|prior| prior.log_weight(self.cube, point, self.finished));
        let mut total = (0.0, vec![0.0; point.len()]);
        for (value, gradient) in values.chain(weight) {
            total.0 += value;
            total.1.iter_mut().zip(gradient).for_each(|(all, derivative)| *all += derivative);
        }
        total
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

    /// Local ascent from `point`: alternates gradient steps on numbers with a search over choices
    /// and neighbouring cells.
    fn climb(&self, mut value: f64, mut point: Point, rng: &mut StreamRng) -> (f64, Point) {
        for _ in 0..2 {
            let before = value;
            let slid = self.slide(point.clone());
            let slid = self.cube.walk(self.fixed, |index| slid[index]);
            let slid_value = self.acquisition(&slid);
            if slid_value > value && self.allows(&slid) {
                (value, point) = (slid_value, slid);
            }
            for index in 0..point.len() {
                for position in self.alternatives(index, point[index], rng) {
                    let changed = self.with(&point, index, position, rng);
                    let changed_value = self.acquisition(&changed);
                    if changed_value > value && self.allows(&changed) {
                        (value, point) = (changed_value, changed);
                    }
                }
            }
            if value - before < 1e-3 {
                break;
            }
        }
        (value, point)
    }

    /// Rprop along the free numeric axes.
    fn slide(&self, mut at: Point) -> Point {
        let mut steps = vec![0.05; at.len()];
        let mut last = vec![0.0; at.len()];
        let mut best = (f64::NEG_INFINITY, at.clone());
        for _ in 0..STEPS {
            let (value, gradient) = self.acquisition_and_gradient(&at);
            if value > best.0 {
                best = (value, at.clone());
            }
            for (index, derivative) in gradient.iter().enumerate() {
                if *derivative == 0.0
                    || !derivative.is_finite()
                    || at[index].is_nan()
                    || !self.fixed[index].is_nan()
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
            if steps.iter().all(|step| *step < 1e-4) {
                break;
            }
        }
        best.1
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

fn sort(found: &mut [(f64, Point)]) {
    // Stable: equal values keep the order of their draws.
    found.sort_by(|a, b| b.0.total_cmp(&a.0));
}
