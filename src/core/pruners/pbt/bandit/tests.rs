//! The model of PB2 against a direct computation of the published kernel, and against perturbation
//! on a task whose best parameters move.

use super::*;
use crate::pruners::conformance;
use crate::pruners::{Gathered, Generation};
use crate::study::decision::Reason;
use crate::study::history::History;
use crate::study::metric::Direction;
use crate::study::seed::SeedTree;
use crate::study::segment::Segment;
use crate::study::space::{Scale, Space};
use crate::study::trial::{TrialNumber, TrialState};

const KERNEL: Kernel = Kernel { variance: 1.7, length: 0.6, forgetting: 0.15, noise: 0.05 };

fn point(round: f64, place: [f64; 2]) -> Point {
    Point { round, place: place.to_vec() }
}

fn points() -> Vec<Point> {
    vec![
        point(1.0, [0.1, 0.2]),
        point(1.0, [0.7, 0.9]),
        point(2.0, [0.4, 0.3]),
        point(4.0, [0.1, 0.8]),
    ]
}

fn model() -> Model {
    let (kernel, points) = (KERNEL, points());
    let factor = kernel.factor(&points).unwrap();
    let weights = factor.transposed_solve(&factor.solve(&[0.5, -1.0, 1.2, -0.3]));
    Model { kernel, points, weights }
}

fn assert_near(found: f64, expected: f64) {
    assert!((found - expected).abs() < 1e-12, "{found} is not {expected}");
}

/// Computed in NumPy from `v exp(-|x - x'|^2 / (2 l^2)) (1 - e)^(|t - t'| / 2)` with the inverse
/// and the determinant of the covariances.
#[test]
fn moments_and_likelihood_are_those_of_the_published_kernel() {
    let points = points();
    let covariances = [0.5220837285226785, 1.7, 0.838927311205838, 0.796889677426734];
    for (other, expected) in points.iter().zip(covariances) {
        assert_near(KERNEL.of(&points[1], other), expected);
    }
    assert_near(KERNEL.of(&points[3], &points[0]), 0.808034807189146);
    let (model, at) = (model(), point(5.0, [0.3, 0.5]));
    assert_near(model.mean(&at), 0.37138061090476887);
    let factor = KERNEL.factor(&points).unwrap();
    assert_near(model.variance(&at, &points, &factor), 0.4698812443477325);
    let likelihood = KERNEL.likelihood(&points, &[0.5, -1.0, 1.2, -0.3]).unwrap();
    assert_near(likelihood, -1.9530490982855861);
}

#[test]
fn points_that_are_expected_lower_the_variance_and_not_the_mean() {
    let (model, at) = (model(), point(5.0, [0.3, 0.5]));
    let pending = [point(5.0, [0.2, 0.5]), point(5.0, [0.9, 0.1])];
    let all: Vec<Point> = points().into_iter().chain(pending).collect();
    let factor = KERNEL.factor(&all).unwrap();
    assert_near(model.variance(&at, &all, &factor), 0.06459307856377272);
}

#[test]
fn the_fitted_kernel_is_no_less_likely_than_its_start_or_its_neighbours() {
    let points: Vec<Point> = (0..24)
        .map(|index| point(f64::from(index / 6), [f64::from(index % 6) / 5.0, 0.5]))
        .collect();
    let gains: Vec<f64> =
        points.iter().map(|point| (6.0 * point.place[0] + 0.8 * point.round).sin()).collect();
    let fitted = Kernel::fitted(&points, &gains);
    let reached = fitted.likelihood(&points, &gains).unwrap();
    let start = Kernel { variance: 1.0, length: 1.0, forgetting: 0.1, noise: 0.1 };
    assert!(reached > start.likelihood(&points, &gains).unwrap() + 1.0, "{fitted:?}");
    for factor in [0.8, 1.25] {
        for other in [
            Kernel { variance: fitted.variance * factor, ..fitted },
            Kernel { length: fitted.length * factor, ..fitted },
        ] {
            assert!(other.likelihood(&points, &gains).unwrap() < reached, "{other:?}");
        }
    }
}

fn space() -> Space {
    let axis = |low, high| Distribution::float(low, high, Scale::Linear, None).unwrap();
    let choice = Distribution::choice(vec![Value::Bool(false), Value::Bool(true)]).unwrap();
    Space::new(vec![
        Dimension::new("a", axis(0.0, 1.0)),
        Dimension::new("b", axis(0.0, 10.0)),
        Dimension::new("c", choice),
    ])
    .unwrap()
}

fn params(a: f64, b: f64) -> Params {
    let pairs = [("a", Value::Float(a)), ("b", Value::Float(b)), ("c", Value::Bool(true))];
    pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

fn in_generation<T>(trials: &[Trial], then: impl FnOnce(&Generation<'_>) -> T) -> T {
    let (space, history) = (space(), History::of(trials, Direction::Minimize));
    let (seeds, gathered) = (SeedTree::new(3), Gathered::All);
    then(&Generation { space: &space, constraints: &[], history, seeds, gathered })
}

/// The first interval of a copy begins with the donor's value, and has the parameters of its time.
#[test]
fn an_observation_is_the_improvement_from_the_state_that_was_taken_over() {
    let curve = |values: [f64; 3]| (1..).map(|index| index * 2).zip(values).collect::<Vec<_>>();
    let trial = |number, values| {
        let curve = curve(values);
        conformance::trial(number, TrialState::Paused, &curve)
    };
    let mut copy = Trial { params: params(0.9, 9.0), ..trial(0, [8.0, 5.0, 4.0]) };
    let segment = |start, replaced| Segment {
        start,
        from: TrialNumber(1),
        digest: None,
        replaced,
        reason: Reason::Recorded(String::new()),
    };
    copy.segments = vec![segment(2, params(0.1, 1.0)), segment(6, params(0.2, 2.0))];
    let donor = Trial { params: params(0.5, 5.0), ..trial(1, [7.0, 6.0, 1.0]) };
    let trials = [copy, donor];
    in_generation(&trials, |generation| {
        let found = |trial: &Trial| {
            let seen = intervals(generation, trial, 2, 6).into_iter();
            seen.map(|seen| (seen.round, seen.before, seen.gain, seen.params)).collect::<Vec<_>>()
        };
        let (first, second) = (params(0.2, 2.0), params(0.2, 2.0));
        assert_eq!(found(&trials[0]), [(1, 7.0, 1.0, first), (2, 5.0, 0.5, second)]);
        let own = params(0.5, 5.0);
        assert_eq!(found(&trials[1]), [(1, 7.0, 0.5, own.clone()), (2, 6.0, 2.5, own)]);
    });
}

/// Members that improve most near `(0.8, 8)`.
fn improving(count: u64, rounds: u64) -> Vec<Trial> {
    let member = |number: u64| {
        let mut rng = SeedTree::new(9).stream(&format!("{number}"));
        let (a, b): (f64, f64) = (rng.random(), rng.random());
        let gain = (-8.0 * ((a - 0.8).powi(2) + (b - 0.8).powi(2))).exp();
        let curve: Vec<(u64, f64)> =
            (1..=rounds).map(|round| (round, 10.0 - gain * round as f64)).collect();
        let trial = conformance::trial(number, TrialState::Paused, &curve);
        Trial { params: params(a, b * 10.0), ..trial }
    };
    (0..count).map(member).collect()
}

#[test]
fn the_model_finds_where_members_improve_most_and_spreads_a_batch() {
    let trials = improving(40, 4);
    in_generation(&trials, |generation| {
        let mut bandit = Bandit::new(generation, &trials, 1, 4);
        let donor = Member::at(generation, &trials[0], 4);
        let mut chosen: Vec<Params> = Vec::new();
        for number in 0..3 {
            let mut rng = generation.seeds.stream(&format!("{number}"));
            let params = bandit.choose(&donor, &params(0.1, 1.0), &mut rng).unwrap();
            bandit.expect(&donor, &params);
            chosen.push(params);
        }
        let number = |params: &Params, name| params.get(name).unwrap().as_number().unwrap();
        let first = &chosen[0];
        assert!((number(first, "a") - 0.8).abs() < 0.25, "{first}");
        assert!((number(first, "b") - 8.0).abs() < 2.5, "{first}");
        assert!(chosen.iter().all(|one| one.get("c") == Some(&Value::Bool(true))), "perturbed");
        assert!(chosen[0] != chosen[1] && chosen[1] != chosen[2], "{chosen:?}");
    });
}

#[test]
fn the_model_does_not_learn_from_hidden_trials() {
    let mut trials = improving(12, 4);
    let choice = |trials: &[Trial]| {
        in_generation(trials, |generation| {
            let bandit = Bandit::new(generation, trials, 1, 4);
            let donor = Member::at(generation, &trials[0], 4);
            bandit.choose(&donor, &params(0.1, 1.0), &mut generation.seeds.stream("0"))
        })
    };
    let expected = choice(&trials);
    let bogus = Trial {
        curve: (1..=4).map(|step| (step, -9.0 * step as f64)).collect(),
        ..trials[1].clone()
    };
    trials.push(Trial { number: TrialNumber(12), state: TrialState::Pruned, ..bogus });
    assert_ne!(choice(&trials), expected);
    trials[12].hidden = true;
    assert_eq!(choice(&trials), expected);
}

#[test]
fn without_two_rounds_there_is_no_model() {
    let trials = improving(12, 1);
    in_generation(&trials, |generation| {
        let bandit = Bandit::new(generation, &trials, 1, 1);
        let donor = Member::at(generation, &trials[0], 1);
        let mut rng = generation.seeds.stream("0");
        assert_eq!(bandit.choose(&donor, &params(0.1, 1.0), &mut rng), None);
    });
}
