//! The joint estimator against Optuna's own figures, and what it must do on its own.

use super::*;
use crate::samplers::conformance::{dimension, trial_of};
use crate::samplers::random::Random;
use crate::study::history::History;
use crate::study::metric::Direction;
use crate::study::params::Value;
use crate::study::seed::SeedTree;
use crate::study::space::{Distribution, Scale, Space};
use crate::study::trial::{Trial, TrialNumber, TrialState};

fn defaults() -> Tpe {
    Tpe::new(&ENTRY.defaults())
}

fn words(words: &[&str]) -> Distribution {
    Distribution::choice(words.iter().map(|word| Value::from(*word)).collect()).unwrap()
}

/// The space of `tests/peers/tpe_golden.py`.
fn golden_space() -> Space {
    let float = |low, high, scale, step| Distribution::float(low, high, scale, step).unwrap();
    let int = |low, high, scale, step| Distribution::int(low, high, scale, step).unwrap();
    Space::new(vec![
        dimension("rate", float(1e-6, 1.0, Scale::Log, None), &[]),
        dimension("x", float(-5.0, 5.0, Scale::Linear, None), &[]),
        dimension("drop", float(0.0, 0.5, Scale::Linear, Some(0.05)), &[]),
        dimension("layers", int(1, 12, Scale::Linear, 1), &[]),
        dimension("even", int(2, 64, Scale::Linear, 2), &[]),
        dimension("width", int(4, 2048, Scale::Log, 1), &[]),
        dimension("optim", words(&["sgd", "adamw", "lion", "adagrad"]), &[]),
    ])
    .unwrap()
}

fn params_of(json: &serde_json::Value) -> Params {
    serde_json::from_value(json.clone()).unwrap()
}

fn golden_trials(case: &serde_json::Value) -> Vec<Trial> {
    let trial = |(number, told): (u64, &serde_json::Value)| {
        let state = TrialState::from_word(told["state"].as_str().unwrap()).unwrap();
        let value = told["value"].as_f64().unwrap();
        let mut trial = trial_of(
            number,
            params_of(&told["params"]),
            state,
            (state == TrialState::Complete).then_some(value),
        );
        if let Some(step) = told["step"].as_u64() {
            trial.curve = vec![(step, value)];
        }
        trial
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
        let nothing = Params::new();
        let history = History::of(&trials, Direction::Minimize);
        let ask = Ask {
            room: None,
            constraints: &[],
            earlier: &[],
            space: &space,
            history,
            number: TrialNumber(trials.len() as u64),
            fixed: &nothing,
            budget: None,
            seeds: SeedTree::new(0),
        };
        let mut past = Past::after(None, &space, history);
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
            let ratio =
                densities.promise(&past.cube.encode(&params_of(&point["params"])), &mut Vec::new());
            let expected = point["good"].as_f64().unwrap() - point["bad"].as_f64().unwrap();
            assert!(
                (ratio - expected).abs() < 1e-9 * expected.abs().max(1.0),
                "{} trials: {ratio} instead of {expected}",
                trials.len()
            );
        }
    }
}

fn suggest(sampler: &dyn Sampler, space: &Space, trials: &[Trial], seed: u64) -> Params {
    let number = TrialNumber(trials.len() as u64);
    let ask = Ask {
        room: None,
        constraints: &[],
        earlier: &[],
        space,
        history: History::of(trials, Direction::Minimize),
        number,
        fixed: &Params::new(),
        budget: None,
        seeds: SeedTree::new(seed),
    };
    sampler
        .suggest(&ask, &mut SeedTree::new(seed).stream(&format!("sampler/{number}")))
        .unwrap()
        .unwrap()
}

fn search(
    sampler: &dyn Sampler,
    space: &Space,
    loss: impl Fn(&Params) -> f64,
    budget: u64,
    seed: u64,
) -> Vec<Trial> {
    let mut trials = Vec::new();
    for number in 0..budget {
        let point = suggest(sampler, space, &trials, seed);
        let value = loss(&point);
        let (state, value) = if value.is_nan() {
            (TrialState::Failed, None)
        } else {
            (TrialState::Complete, Some(value))
        };
        trials.push(trial_of(number, point, state, value));
    }
    trials
}

fn best(trials: &[Trial]) -> f64 {
    trials.iter().filter_map(|trial| trial.value).fold(f64::INFINITY, f64::min)
}

fn number(params: &Params, name: &str) -> f64 {
    params.get(name).unwrap().as_number().unwrap()
}

fn branches() -> Space {
    Space::new(vec![
        dimension("family", words(&["tree", "net"]), &[]),
        dimension(
            "depth",
            Distribution::int(1, 16, Scale::Linear, 1).unwrap(),
            &[("family", vec!["tree".into()])],
        ),
        dimension(
            "rate",
            Distribution::float(1e-6, 1.0, Scale::Log, None).unwrap(),
            &[("family", vec!["net".into()])],
        ),
        dimension(
            "width",
            Distribution::int(8, 1024, Scale::Log, 1).unwrap(),
            &[("family", vec!["net".into()])],
        ),
    ])
    .unwrap()
}

/// The better family is the worse one unless it is tuned, and its two parameters depend on each
/// other.
fn tuned_or_not(params: &Params) -> f64 {
    if params.get("family") == Some(&"tree".into()) {
        return 0.3 + 0.01 * (number(params, "depth") - 6.0).abs();
    }
    let (rate, width) = (number(params, "rate").log10(), number(params, "width").log2());
    0.1 + 0.1 * (rate + 1.0 + 0.3 * width).powi(2) + 0.02 * (width - 7.0).powi(2)
}

#[test]
fn conditional_parameters_are_learned_in_their_branch() {
    let wins = (0..8)
        .filter(|seed| {
            best(&search(&defaults(), &branches(), tuned_or_not, 60, *seed))
                < best(&search(&Random, &branches(), tuned_or_not, 60, *seed))
        })
        .count();
    assert!(wins >= 7, "{wins} of 8");
}

#[test]
fn interactions_that_no_parameter_shows_alone_are_learned() {
    let axis = || Distribution::float(-1.0, 1.0, Scale::Linear, None).unwrap();
    let space = Space::new(vec![dimension("x", axis(), &[]), dimension("y", axis(), &[])]).unwrap();
    let valley = |params: &Params| {
        (number(params, "x") - number(params, "y")).abs() + 0.1 * number(params, "x").abs()
    };
    let independent = crate::samplers::tpe_independent::TpeIndependent::new(&ENTRY.defaults());
    let mean = |sampler: &dyn Sampler| {
        (0..12).map(|seed| best(&search(sampler, &space, valley, 60, seed))).sum::<f64>() / 12.0
    };
    let (joint, alone) = (mean(&defaults()), mean(&independent));
    assert!(joint < 0.8 * alone, "{joint} against {alone}");
}

#[test]
fn every_fourth_trial_is_drawn_by_optunas_rules_unless_ours_are_asked_for() {
    let space = golden_space();
    let trials = search(&defaults(), &space, |params| (number(params, "x") - 1.7).powi(2), 40, 3);
    let drawn = |rules: &str, count: usize| {
        suggest(&Tpe::new(&ENTRY.defaults().with("rules", rules)), &space, &trials[..count], 3)
    };
    for count in 33..40 {
        let (own, optuna) = (drawn("own", count), drawn("optuna", count));
        assert_ne!(own, optuna);
        assert_eq!(
            drawn("mixed", count),
            if count % 4 == 3 { optuna } else { own },
            "trial {count}"
        );
    }
}

#[test]
fn regions_where_trials_fail_are_left() {
    let axis = || Distribution::float(-1.0, 1.0, Scale::Linear, None).unwrap();
    let space = Space::new(vec![dimension("x", axis(), &[]), dimension("y", axis(), &[])]).unwrap();
    let loss = |params: &Params| {
        if number(params, "x") > 0.0 {
            f64::NAN
        } else {
            number(params, "y").powi(2) + (number(params, "x") + 0.2).abs()
        }
    };
    let trials = search(&defaults(), &space, loss, 80, 1);
    let failed =
        |trials: &[Trial]| trials.iter().filter(|trial| trial.state == TrialState::Failed).count();
    // Of points drawn evenly every second one would.
    assert!(failed(&trials[50..]) <= 9, "{} of the last 30 failed", failed(&trials[50..]));
}

#[test]
fn eight_pending_trials_spread_out() {
    let space = golden_space();
    let mut trials =
        search(&defaults(), &space, |params| (number(params, "x") - 1.7).powi(2), 30, 3);
    for next in 30..38 {
        let point = suggest(&defaults(), &space, &trials, 3);
        trials.push(trial_of(next, point, TrialState::Running, None));
    }
    let mut pending: Vec<f64> =
        trials[30..].iter().map(|trial| number(&trial.params, "x")).collect();
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
