//! Importances with known values, and properties of both evaluators.

use super::*;
use crate::samplers::conformance::{choice, dimension, float, log_int, space, under};
use crate::study::params::Value;
use crate::study::seed::SeedTree;
use crate::study::time::Timestamp;
use crate::study::trial::TrialNumber;
use proptest::prelude::*;

fn unit(name: &str) -> Dimension {
    float(name, 0.0, 1.0)
}

/// Uniform points, with the values that `value` gives them.
fn study(
    space: &Space,
    count: u64,
    seed: u64,
    value: impl Fn(&Params) -> f64,
) -> Vec<(Params, f64)> {
    let mut rng = SeedTree::new(seed).stream("points");
    let mut point = |_| {
        let point = space.assemble::<()>(&Params::new(), |dimension, _| {
            Ok(dimension.distribution.from_unit(rand::RngExt::random(&mut rng)))
        });
        point.map(|params| (params.clone(), value(&params))).unwrap()
    };
    (0..count).map(&mut point).collect()
}

fn measured(
    evaluator: Evaluator,
    space: &Space,
    study: &[(Params, f64)],
    direction: Direction,
) -> Vec<(String, f64)> {
    importances(evaluator, space, &rows_of(study), direction, 1).unwrap()
}

fn rows_of(study: &[(Params, f64)]) -> Vec<EvaluatedParams<'_>> {
    study.iter().map(|(params, value)| EvaluatedParams { params, value: *value }).collect()
}

fn of(named: &[(String, f64)], name: &str) -> f64 {
    named.iter().find(|(found, _)| found == name).unwrap().1
}

fn number(params: &Params, name: &str) -> f64 {
    params.get(name).and_then(Value::as_number).unwrap()
}

#[test]
fn fanova_of_a_sum_gives_each_parameter_its_share_of_the_variance() {
    // The variance of 2x + y over the unit square is 4/12 + 1/12.
    let space = space(["x", "y", "idle"].map(unit));
    let study = study(&space, 400, 3, |params| 2.0 * number(params, "x") + number(params, "y"));
    let named = measured(Evaluator::Fanova, &space, &study, Direction::Minimize);
    for (name, share, error) in [("x", 0.8, 0.04), ("y", 0.2, 0.04), ("idle", 0.0, 0.01)] {
        assert!((of(&named, name) - share).abs() < error, "{named:?}");
    }
}

#[test]
fn ped_anova_asks_what_separates_the_best_whatever_the_direction() {
    let space = space([unit("x"), unit("y"), choice("kind", ["a", "b"])]);
    let measured = |sign: f64, direction| {
        let rising = |params: &Params| 10.0 * number(params, "x") + number(params, "y");
        let study = study(&space, 300, 5, |params| sign * rising(params));
        measured(Evaluator::PedAnova, &space, &study, direction)
    };
    let best_is_large = measured(-1.0, Direction::Minimize);
    let turned = measured(1.0, Direction::Maximize);
    assert_eq!(best_is_large, turned);
    assert_eq!(best_is_large[0].0, "x");
    assert!(best_is_large[0].1 > 0.9, "{best_is_large:?}");
}

#[test]
fn a_conditional_parameter_counts_as_much_as_its_trials_do() {
    let optim = choice("optim", ["sgd", "adam"]);
    let space = space([optim, under("optim", "sgd", unit("momentum")), unit("lr")]);
    let value = |params: &Params| {
        number(params, "lr") * 0.2
            + params.get("momentum").map_or(0.5, |_| number(params, "momentum"))
    };
    let study = study(&space, 400, 9, value);
    for evaluator in Evaluator::ALL {
        let named = measured(evaluator, &space, &study, Direction::Minimize);
        assert_eq!(named[0].0, "momentum", "{evaluator:?}: {named:?}");
        assert!(of(&named, "momentum") > 0.5, "{evaluator:?}: {named:?}");
    }
}

#[test]
fn parameters_that_were_never_active_or_cannot_vary_have_no_share() {
    let (optim, never) = (choice("optim", ["sgd", "adam"]), under("optim", "adam", unit("never")));
    let space = space([optim, never, float("constant", 0.5, 0.5), unit("x")]);
    let mut study = study(&space, 60, 2, |params| number(params, "x"));
    for (params, _) in &mut study {
        params.insert("optim", "sgd");
        params.remove("never");
    }
    for evaluator in Evaluator::ALL {
        let named = measured(evaluator, &space, &study, Direction::Minimize);
        assert_eq!(named.len(), 3, "{named:?}");
        assert_eq!((named[0].0.as_str(), of(&named, "constant")), ("x", 0.0));
    }
}

#[test]
fn without_two_different_finite_values_there_is_nothing_to_say() {
    let space = space([unit("x")]);
    let study = study(&space, 12, 1, |_| 1.0);
    let ask = |values: &[f64]| {
        let rows = rows_of(&study).into_iter().zip(values);
        let rows: Vec<EvaluatedParams<'_>> =
            rows.map(|(row, value)| EvaluatedParams { value: *value, ..row }).collect();
        importances(Evaluator::Fanova, &space, &rows, Direction::Minimize, 0)
    };
    assert_eq!(ask(&[]), Err(ImportanceError::TooFew { found: 0 }));
    assert_eq!(ask(&[1.0, f64::NAN, f64::INFINITY]), Err(ImportanceError::TooFew { found: 1 }));
    let values = |different: usize| {
        (0..12).map(|place| if place < different { 2.0 } else { 1.0 }).collect::<Vec<f64>>()
    };
    assert_eq!(ask(&values(1)[..9]), Err(ImportanceError::TooFew { found: 9 }));
    assert_eq!(
        ask(&[&values(0)[..10], &[f64::NAN]].concat()),
        Err(ImportanceError::AllEqual { found: 10 })
    );
    assert_eq!(ask(&values(1)[..10]), Ok(vec![("x".to_owned(), 1.0)]));
}

#[test]
fn stopped_trials_come_behind_complete_ones_and_who_came_further_before_the_others() {
    let study = study(&space([unit("x")]), 6, 1, |_| 0.0);
    for direction in [Direction::Minimize, Direction::Maximize] {
        let sign = if direction == Direction::Minimize { 1.0 } else { -1.0 };
        let row =
            |at: usize, value: f64| EvaluatedParams { params: &study[at].0, value: sign * value };
        let rows = vec![row(0, 5.0), row(1, 3.0), row(2, f64::NAN)];
        let stopped = [(1, row(3, 0.1)), (4, row(4, 9.0)), (4, row(5, 8.0))];
        let (counted, pruned) =
            with_stopped(Evaluator::PedAnova, rows.clone(), &stopped, direction);
        let index = |row: &EvaluatedParams<'_>| {
            study.iter().position(|(point, _)| point == row.params).unwrap()
        };
        let order: Vec<(f64, usize)> =
            counted.iter().map(|row| (sign * row.value, index(row))).collect();
        assert_eq!((order, pruned), (vec![(0.0, 1), (1.0, 0), (2.0, 5), (3.0, 4), (4.0, 3)], 3));
        // A variance needs values.
        let (counted, pruned) = with_stopped(Evaluator::Fanova, rows, &stopped, direction);
        assert_eq!((counted.len(), pruned), (3, 0));
    }
}

#[test]
fn ranks_say_of_complete_trials_what_their_values_do() {
    let space = space(["x", "y"].map(unit));
    let study = study(&space, 80, 4, |params| (4.0 * number(params, "x")).round());
    let rows = rows_of(&study);
    let one = (1, EvaluatedParams { value: 0.0, ..rows[0] });
    let (ranked, _) = with_stopped(Evaluator::PedAnova, rows.clone(), &[one], Direction::Minimize);
    let of = |rows: &[EvaluatedParams<'_>]| {
        importances(Evaluator::PedAnova, &space, rows, Direction::Minimize, 1).unwrap()
    };
    for (one, other) in of(&rows).iter().zip(of(&ranked[..80])) {
        assert!(one.0 == other.0 && (one.1 - other.1).abs() < 1e-9, "{one:?} {other:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn importances_are_shares_and_the_same_for_the_same_seed(
        seed in any::<u64>(),
        count in 10u64..40,
        spread in -300i32..300,
    ) {
        let child = dimension(
            "child",
            unit("child").distribution,
            &[("kind", vec!["a".into(), "c".into()])],
        );
        let space = space([
            choice("kind", ["a", "b", "c", "d"]),
            child,
            log_int("log", 1, 1 << 40),
            unit("x"),
        ]);
        let scale = 10f64.powi(spread / 2);
        let study = study(&space, count, seed, |params| {
            scale * (number(params, "x") + number(params, "log").ln())
        });
        for evaluator in Evaluator::ALL {
            let named = measured(evaluator, &space, &study, Direction::Minimize);
            prop_assert!(
                (named.iter().map(|(_, share)| share).sum::<f64>() - 1.0).abs() < 1e-9,
                "{:?}",
                named
            );
            prop_assert!(
                named.iter().all(|(_, share)| (0.0..=1.0 + 1e-9).contains(share)),
                "{:?}",
                named
            );
            prop_assert_eq!(&named, &measured(evaluator, &space, &study, Direction::Minimize));
        }
    }
}

/// A pruned trial was stopped for all objectives: it has no place by one of them.
#[test]
fn pruned_trials_of_several_objectives_count_for_none_of_them() {
    let outcome = |number: u64, state| TrialSummary {
        number: TrialNumber(number),
        state,
        value: None,
        values: if state == TrialState::Complete { vec![1.0, 2.0] } else { Vec::new() },
        violation: None,
        last_step: Some(1),
        last_value: Some(0.5),
        params: Params::new(),
        seconds: 1.0,
        created: Timestamp(0),
        finished: None,
        hidden: false,
    };
    let outcomes = [outcome(0, TrialState::Complete), outcome(1, TrialState::Pruned)];
    for index in [0, 1] {
        let own = of_objective(&outcomes, 2, index);
        let (rows, pruned) = rows(&own, Evaluator::PedAnova, Direction::Minimize);
        assert_eq!((rows.len(), pruned), (1, 0), "objective {index}");
    }
    assert_eq!(of_objective(&outcomes, 1, 0)[1].last_value, Some(0.5));
}
