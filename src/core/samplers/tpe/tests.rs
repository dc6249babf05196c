//! The joint estimator against Optuna's figures, and its own guarantees.

use super::*;
use crate::samplers::conformance::{
    choice, every, float, int, log_float, log_int, space, stepped, trial_of, under,
};
use crate::samplers::fixtures::{ask, best, number, pending, search, suggest};
use crate::samplers::random::Random;
use crate::samplers::tpe_independent::TpeIndependent;
use crate::study::space::Space;
use crate::study::trial::{Trial, TrialState};

fn defaults() -> Tpe {
    Tpe::new(&ENTRY.defaults())
}

/// The space of `tests/peers/tpe_golden.py`.
fn golden_space() -> Space {
    space([
        log_float("rate", 1e-6, 1.0),
        float("x", -5.0, 5.0),
        stepped("drop", 0.0, 0.5, 0.05),
        int("layers", 1, 12),
        every("even", 2, 64, 2),
        log_int("width", 4, 2048),
        choice("optim", ["sgd", "adamw", "lion", "adagrad"]),
    ])
}

fn plane() -> Space {
    space([float("x", -1.0, 1.0), float("y", -1.0, 1.0)])
}

/// Distance of `x` from its optimum.
fn off(params: &Params) -> f64 {
    (number(params, "x") - 1.7).powi(2)
}

fn params_of(json: &serde_json::Value) -> Params {
    serde_json::from_value(json.clone()).unwrap()
}

fn golden_trials(case: &serde_json::Value) -> Vec<Trial> {
    let trial = |(number, told): (u64, &serde_json::Value)| {
        let state = TrialState::from_word(told["state"].as_str().unwrap()).unwrap();
        let value = told["value"].as_f64().unwrap();
        let curve = told["step"].as_u64().map(|step| (step, value)).into_iter().collect();
        let value = (state == TrialState::Complete).then_some(value);
        Trial { curve, ..trial_of(number, params_of(&told["params"]), state, value) }
    };
    (0..).zip(case["trials"].as_array().unwrap()).map(trial).collect()
}

#[test]
fn with_optunas_rules_the_split_and_the_ratio_of_densities_are_optunas() {
    let golden: serde_json::Value = serde_json::from_str(include_str!("optuna.json")).unwrap();
    let sampler = Tpe { rules: &[Rules::OPTUNA], ..defaults() };
    let space = golden_space();
    for case in golden["cases"].as_array().unwrap() {
        let trials = golden_trials(case);
        let ask = ask(&space, &trials, 0);
        let mut past = Past::after(None, &space, ask.history);
        let split = sampler.split(&past, &ask);
        assert_eq!(serde_json::json!(split.good), case["good"]);
        let slots = split.slots(&mut past, &ask);
        let densities = Densities::new(
            &past,
            &slots,
            Tpe::good_weights(&Rules::OPTUNA, &split, &ask),
            &Rules::OPTUNA,
            &Extras::default(),
        );
        for point in case["points"].as_array().unwrap() {
            let ratio = densities
                .log_ratio(&past.cube.encode(&params_of(&point["params"])), &mut Vec::new());
            let expected = point["good"].as_f64().unwrap() - point["bad"].as_f64().unwrap();
            assert!(
                (ratio - expected).abs() < 1e-9 * expected.abs().max(1.0),
                "{} trials: {ratio} instead of {expected}",
                trials.len()
            );
        }
    }
}

fn branches() -> Space {
    space([
        choice("family", ["tree", "net"]),
        under("family", "tree", int("depth", 1, 16)),
        under("family", "net", log_float("rate", 1e-6, 1.0)),
        under("family", "net", log_int("width", 8, 1024)),
    ])
}

/// The better family is worse unless it is tuned, and its two parameters interact.
fn tuned_or_not(params: &Params) -> f64 {
    if params.get("family") == Some(&"tree".into()) {
        return 0.3 + 0.01 * (number(params, "depth") - 6.0).abs();
    }
    let (rate, width) = (number(params, "rate").log10(), number(params, "width").log2());
    0.1 + 0.1 * (rate + 1.0 + 0.3 * width).powi(2) + 0.02 * (width - 7.0).powi(2)
}

#[test]
fn conditional_parameters_are_learned_in_their_branch() {
    let found =
        |sampler: &dyn Sampler, seed| best(&search(sampler, &branches(), 60, seed, tuned_or_not));
    let wins = (0..8).filter(|seed| found(&defaults(), *seed) < found(&Random, *seed)).count();
    assert!(wins >= 7, "{wins} of 8");
}

#[test]
fn interactions_that_no_parameter_shows_alone_are_learned() {
    let valley = |params: &Params| {
        (number(params, "x") - number(params, "y")).abs() + 0.1 * number(params, "x").abs()
    };
    let mean = |sampler: &dyn Sampler| {
        (0..12).map(|seed| best(&search(sampler, &plane(), 60, seed, valley))).sum::<f64>() / 12.0
    };
    let (joint, alone) = (mean(&defaults()), mean(&TpeIndependent::new(&ENTRY.defaults())));
    assert!(joint < 0.8 * alone, "{joint} against {alone}");
}

#[test]
fn every_fourth_trial_is_drawn_by_optunas_rules_unless_ours_are_asked_for() {
    let space = golden_space();
    let trials = search(&defaults(), &space, 40, 3, off);
    for count in 33..40 {
        let drawn = |rules: &str| {
            suggest(&Tpe::new(&ENTRY.defaults().with("rules", rules)), &space, &trials[..count], 3)
        };
        let (own, optuna) = (drawn("own"), drawn("optuna"));
        assert_ne!(own, optuna);
        let expected = if count % 4 == 3 { optuna } else { own };
        assert_eq!(drawn("mixed"), expected, "trial {count}");
    }
}

#[test]
fn regions_where_trials_fail_are_left() {
    let loss = |params: &Params| {
        if number(params, "x") > 0.0 {
            f64::NAN
        } else {
            number(params, "y").powi(2) + (number(params, "x") + 0.2).abs()
        }
    };
    let trials = search(&defaults(), &plane(), 80, 1, loss);
    let failed = trials[50..].iter().filter(|trial| trial.state == TrialState::Failed).count();
    // Uniform draws would fail every second time.
    assert!(failed <= 9, "{failed} of the last 30 failed");
}

#[test]
fn eight_pending_trials_spread_out() {
    let trials = search(&defaults(), &golden_space(), 30, 3, off);
    let mut pending = pending(&defaults(), &golden_space(), trials, 8, 3, "x");
    pending.sort_by(f64::total_cmp);
    pending.dedup_by(|a, b| (*a - *b).abs() < 1e-3);
    assert!(pending.len() >= 7, "{pending:?}");
}

#[test]
fn good_trials_weigh_by_how_much_better_they_are() {
    assert_eq!(improvements(&[1.0, 3.0], Some(5.0)), Some(vec![4.0 / 3.0, 2.0 / 3.0]));
    assert_eq!(improvements(&[2.0, f64::NAN], None), None);
    assert_eq!(improvements(&[1.0, 1.0], Some(1.0)), None);
    assert_eq!(improvements(&[f64::NEG_INFINITY, 1.0], Some(2.0)), Some(vec![0.0, 2.0]));
}

#[test]
fn the_newest_bad_trials_stay_and_of_the_others_an_even_selection() {
    let kept = thinned((0..10_000u32).collect());
    assert_eq!(kept.len(), MOST_BAD);
    assert_eq!(kept[MOST_BAD - NEWEST..], (9_800..10_000).collect::<Vec<_>>());
    assert!(
        kept[..MOST_BAD - NEWEST].windows(2).all(|pair| (16..=17).contains(&(pair[1] - pair[0])))
    );
}
