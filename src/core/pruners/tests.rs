//! Pruners that Optuna has too, against its own decisions.

use super::conformance::{judge, trial};
use super::*;
use crate::study::metric::Direction;
use crate::study::trial::TrialState;

fn curve_of(json: &serde_json::Value) -> Vec<(u64, f64)> {
    json.as_array()
        .unwrap()
        .iter()
        .map(|report| (report[0].as_u64().unwrap(), report[1].as_f64().unwrap()))
        .collect()
}

/// `optuna.json` is made by `tests/peers/pruners_golden.py`.
#[test]
fn decisions_about_fixed_curves_are_those_of_optuna() {
    let golden: serde_json::Value = serde_json::from_str(include_str!("optuna.json")).unwrap();
    let mut compared = 0;
    for (index, case) in golden["cases"].as_array().unwrap().iter().enumerate() {
        let direction =
            if case["direction"] == "maximize" { Direction::Maximize } else { Direction::Minimize };
        let completed = |(number, json)| trial(number, TrialState::Complete, &curve_of(json));
        let others: Vec<Trial> =
            (0..).zip(case["others"].as_array().unwrap()).map(completed).collect();
        let running = curve_of(&case["running"]);
        for (pruner, decisions) in
            golden["pruners"].as_array().unwrap().iter().zip(case["decisions"].as_array().unwrap())
        {
            let options = serde_json::from_value(pruner["options"].clone()).unwrap();
            let name = pruner["name"].as_str().unwrap();
            let built =
                (find(name).unwrap().build)(&resolve(name, options).unwrap(), None).unwrap();
            for (upto, expected) in decisions.as_array().unwrap().iter().enumerate() {
                let (own, step) = (&running[..=upto], running[upto].0);
                let verdict = judge(built.as_ref(), &others, own, step, direction);
                let stops = matches!(verdict, Decision::Stop(_));
                assert_eq!(
                    stops,
                    expected == 1,
                    "case {index}, {pruner}, step {step}: {verdict:?}"
                );
                compared += 1;
            }
        }
    }
    assert!(compared > 5000, "{compared} decisions");
}
