//! Choosing among given configurations instead of all of a space.

use rand::RngExt as _;

use super::cube::{AxisKind, Cube, Point, evenly};
use crate::study::params::Params;
use crate::study::seed::StreamRng;
use crate::study::space::Space;

/// Maximum number of candidates that an acquisition function is evaluated at: a random selection of
/// longer lists.
const MOST: usize = 512;

/// Squared distance between an active and an inactive axis.
const INACTIVE: f64 = 0.25;

/// The index of the candidate nearest to `point` in the unit cube; of several, the first.
pub(super) fn nearest(space: &Space, candidates: &[&Params], point: &Params) -> usize {
    let cube = Cube::new(space);
    let centre = cube.encode(point);
    let distance = |params: &&Params| -> f64 {
        let own = cube.encode(params);
        let along = |((axis, a), b): ((&super::cube::Axis, &f64), &f64)| match axis.kind {
            _ if a.is_nan() && b.is_nan() => 0.0,
            _ if a.is_nan() || b.is_nan() => INACTIVE,
            AxisKind::Choice(_) => f64::from(a != b),
            _ => (a - b) * (a - b),
        };
        cube.axes.iter().zip(&own).zip(&centre).map(along).sum()
    };
    best(candidates.iter().map(|params| -distance(params)))
}

/// The index of the largest score; of several, the first. NaN is smaller than all others.
pub(super) fn best(scores: impl Iterator<Item = f64>) -> usize {
    let mut found = (0, f64::NEG_INFINITY);
    for (index, score) in scores.enumerate() {
        if score > found.1 {
            found = (index, score);
        }
    }
    found.0
}

/// The candidates at which an acquisition function is evaluated, as indices and points.
pub(super) fn points(
    cube: &Cube,
    candidates: &[&Params],
    rng: &mut StreamRng,
) -> Vec<(usize, Point)> {
    let mut indices: Vec<usize> = (0..candidates.len()).collect();
    if indices.len() > MOST {
        // A random rotation, so that successive trials see different ones.
        indices.rotate_left(rng.random_range(0..candidates.len()));
        indices = evenly(&indices, MOST).collect();
    }
    indices.into_iter().map(|index| (index, cube.encode(candidates[index]))).collect()
}

/// A uniformly random index.
pub(super) fn uniform(candidates: &[&Params], rng: &mut StreamRng) -> usize {
    rng.random_range(0..candidates.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samplers::conformance::{choice, float, space, trial_of};
    use crate::samplers::fixtures::{ask, params};
    use crate::samplers::{SAMPLERS, choose};
    use crate::study::condition::Expression;
    use crate::study::constraint::Constraint;
    use crate::study::seed::SeedTree;
    use crate::study::trial::{Trial, TrialNumber, TrialState};

    fn plane() -> Space {
        space([float("x", 0.0, 1.0), float("y", 0.0, 1.0), choice("c", ["a", "b"])])
    }

    fn at(x: f64, y: f64) -> Params {
        params([("x", x.into()), ("y", y.into()), ("c", "a".into())])
    }

    /// Twenty candidates along the diagonal.
    fn diagonal() -> Vec<Params> {
        (0..20).map(|index| at(f64::from(index) / 20.0, f64::from(index) / 20.0)).collect()
    }

    #[test]
    fn the_nearest_counts_choices_and_numbers() {
        let own = diagonal();
        let candidates: Vec<&Params> = own.iter().collect();
        assert_eq!(nearest(&plane(), &candidates, &at(0.51, 0.49)), 10);
        assert_eq!(best([f64::NAN, 1.0, 2.0, 2.0].into_iter()), 2);
        assert_eq!(best([f64::NAN].into_iter()), 0);
    }

    #[test]
    fn every_sampler_chooses_a_candidate_and_repeats_its_choice() {
        let (space, own) = (plane(), diagonal());
        let candidates: Vec<&Params> = own.iter().collect();
        for entry in SAMPLERS {
            let sampler = (entry.build)(&entry.defaults(), &space).unwrap();
            let mut trials: Vec<Trial> = Vec::new();
            for number in 0..30u64 {
                let ask = conformance_ask(&space, &trials, number);
                let draw = || {
                    let mut rng = SeedTree::new(number).stream("draw");
                    choose(sampler.as_ref(), &ask, &candidates, &mut rng).unwrap().unwrap().index
                };
                let chosen = draw();
                assert_eq!(chosen, draw(), "{} at trial {number}", entry.name);
                let loss = (chosen as f64 / 20.0 - 0.6).powi(2);
                let point = own[chosen].clone();
                trials.push(trial_of(number, point, TrialState::Complete, Some(loss)));
            }
        }
    }

    fn conformance_ask<'a>(
        space: &'a Space,
        trials: &'a [Trial],
        number: u64,
    ) -> crate::samplers::Ask<'a> {
        crate::samplers::Ask { number: TrialNumber(number), ..ask(space, trials, 1) }
    }

    #[test]
    fn samplers_that_learn_choose_better_ones_than_random() {
        let (space, own) = (plane(), diagonal());
        // Losses fall towards (0.6, 0.6).
        let loss = |params: &Params| {
            let x = params.get("x").and_then(crate::study::params::Value::as_number).unwrap();
            (x - 0.6f64).abs()
        };
        let trials: Vec<Trial> = (0..16)
            .map(|number| {
                let unit = |by: f64| (number as f64 * by).fract();
                let point = at(unit(0.618), unit(0.618));
                let value = Some(loss(&point));
                trial_of(number, point, TrialState::Complete, value)
            })
            .collect();
        let candidates: Vec<&Params> = own.iter().collect();
        let mean = |name: &str| {
            let entry = crate::samplers::find(name).unwrap();
            let sampler = (entry.build)(&entry.defaults(), &space).unwrap();
            let drawn = |turn: u64| {
                let ask = conformance_ask(&space, &trials, 16 + turn);
                let mut rng = SeedTree::new(turn).stream("draw");
                let chosen = choose(sampler.as_ref(), &ask, &candidates, &mut rng);
                loss(&own[chosen.unwrap().unwrap().index])
            };
            (0..12).map(drawn).sum::<f64>() / 12.0
        };
        let random = mean("random");
        assert!(random > 0.15, "{random}");
        for name in ["gp", "tpe", "auto"] {
            assert!(mean(name) < 0.6 * random, "{name}: {} against {random}", mean(name));
        }
    }

    #[test]
    fn constraints_and_fixed_values_leave_candidates_out() {
        let (space, own) = (plane(), diagonal());
        let candidates: Vec<&Params> = own.iter().collect();
        let rule = Expression::parse("x > 0.9").unwrap();
        let constraints = [Constraint::Require(rule)];
        let entry = crate::samplers::find("random").unwrap();
        let sampler = (entry.build)(&entry.defaults(), &space).unwrap();
        let draw = |ask: &crate::samplers::Ask<'_>| {
            let mut rng = SeedTree::new(3).stream("draw");
            let chosen = choose(sampler.as_ref(), ask, &candidates, &mut rng).unwrap();
            chosen.map(|chosen| chosen.index)
        };
        let plain = ask(&space, &[], 0);
        let restricted = crate::samplers::Ask { constraints: &constraints, ..plain };
        assert_eq!(draw(&restricted), Some(19));
        let fixed = params([("x", 0.25.into())]);
        assert_eq!(draw(&crate::samplers::Ask { fixed: &fixed, ..plain }), Some(5));
        let absent = params([("x", 0.26.into())]);
        assert_eq!(draw(&crate::samplers::Ask { fixed: &absent, ..plain }), None);
    }
}
