//! Importances against Optuna's, on studies that `tests/peers/importance_golden.py` made.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use hpsearch::analysis::importance::{EvaluatedParams, Evaluator, importances};
use hpsearch::study::metric::{Direction, Number};
use hpsearch::study::params::{Params, Value};
use hpsearch::study::space::{Dimension, Distribution, Scale, Space};
use serde_json::Value as Json;

use crate::harness::PROGRAM;

struct Case {
    name: String,
    direction: Direction,
    space: Space,
    rows: Vec<(Params, f64)>,
    ped_anova: BTreeMap<String, f64>,
    /// Mean and standard deviation over Optuna's seeds.
    fanova: BTreeMap<String, (f64, f64)>,
}

fn cases() -> Vec<Case> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/importance/optuna.json");
    let json: Json = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    json["cases"].as_array().unwrap().iter().map(case).collect()
}

fn case(json: &Json) -> Case {
    let row = |row: &Json| {
        (
            serde_json::from_value::<Params>(row["params"].clone()).unwrap(),
            Number::from_json(&row["value"]).unwrap().0,
        )
    };
    let pair = |pair: &Json| (pair[0].as_f64().unwrap(), pair[1].as_f64().unwrap());
    Case {
        name: json["name"].as_str().unwrap().to_owned(),
        direction: if json["direction"] == "maximize" {
            Direction::Maximize
        } else {
            Direction::Minimize
        },
        // Optuna records conditions nowhere: a parameter is active where it has a value.
        space: Space::new(json["space"].as_array().unwrap().iter().map(dimension).collect())
            .unwrap(),
        rows: json["rows"].as_array().unwrap().iter().map(row).collect(),
        ped_anova: json["ped_anova"]
            .as_object()
            .unwrap()
            .iter()
            .map(|(name, value)| (name.clone(), value.as_f64().unwrap()))
            .collect(),
        fanova: json["fanova"]
            .as_object()
            .unwrap()
            .iter()
            .map(|(name, value)| (name.clone(), pair(value)))
            .collect(),
    }
}

fn dimension(json: &Json) -> Dimension {
    let scale = if json["log"] == true { Scale::Log } else { Scale::Linear };
    let distribution = match json["type"].as_str().unwrap() {
        "float" => Distribution::float(
            json["low"].as_f64().unwrap(),
            json["high"].as_f64().unwrap(),
            scale,
            json["step"].as_f64(),
        ),
        "int" => Distribution::int(
            json["low"].as_i64().unwrap(),
            json["high"].as_i64().unwrap(),
            scale,
            json["step"].as_i64().unwrap(),
        ),
        _ => Distribution::choice(
            json["choices"]
                .as_array()
                .unwrap()
                .iter()
                .map(|choice| Value::from_json(choice).unwrap())
                .collect(),
        ),
    };
    Dimension {
        name: json["name"].as_str().unwrap().to_owned(),
        distribution: distribution.unwrap(),
        prior: None,
        when: None,
    }
}

fn measured(case: &Case, evaluator: Evaluator, seed: u64) -> BTreeMap<String, f64> {
    let rows: Vec<EvaluatedParams<'_>> =
        case.rows.iter().map(|(params, value)| EvaluatedParams { params, value: *value }).collect();
    importances(evaluator, &case.space, &rows, case.direction, seed).unwrap().into_iter().collect()
}

#[test]
fn ped_anova_gives_optunas_figures() {
    for case in cases() {
        let ours = measured(&case, Evaluator::PedAnova, 0);
        assert_eq!(
            ours.keys().collect::<Vec<_>>(),
            case.ped_anova.keys().collect::<Vec<_>>(),
            "{}",
            case.name
        );
        for (name, theirs) in &case.ped_anova {
            assert!(
                (ours[name] - theirs).abs() < 1e-9,
                "{} of {}: {} against {theirs}",
                name,
                case.name,
                ours[name]
            );
        }
    }
}

#[test]
fn fanova_gives_optunas_figures_within_the_spread_of_its_own_seeds() {
    for case in cases() {
        let forests: Vec<_> = (0..4).map(|seed| measured(&case, Evaluator::Fanova, seed)).collect();
        // Optuna leaves conditional parameters out: the others are compared among each other.
        let mean = |name: &str| {
            forests.iter().map(|forest| forest[name]).sum::<f64>() / forests.len() as f64
        };
        let compared: f64 = case.fanova.keys().map(|name| mean(name)).sum();
        for (name, (theirs, spread)) in &case.fanova {
            let ours = mean(name) / compared;
            assert!(
                (ours - theirs).abs() < 4.0 * spread + 0.01,
                "{name} of {}: {ours} against {theirs} +- {spread}",
                case.name
            );
        }
    }
}

#[test]
fn the_program_prints_shares_with_bars_and_as_json() {
    let directory = tempfile::tempdir().unwrap();
    let store = directory.path().join("studies.db");
    // Points of a sampler that has learned lie where `deep` is right already, and nothing would
    // separate them there.
    let random = hpsearch::study::spec::AlgorithmSpec::named("random");
    let study = hpsearch::Study::minimize("bowl", "loss")
        .float("deep", -1.0, 1.0)
        .float("flat", -1.0, 1.0)
        .sampler(random);
    let study = study.trials(60).store(&store).open().unwrap();
    let run = |arguments: &[&str]| {
        let mut command = std::process::Command::new(PROGRAM);
        command
            .args(["importance", "bowl", "--store"])
            .arg(&store)
            .args(arguments)
            .output()
            .unwrap()
    };
    let output = run(&[]);
    assert_eq!(output.status.code(), Some(3));
    assert!(String::from_utf8(output.stderr).unwrap().contains("10 trials, and "));
    while let Some(trial) = study.ask().unwrap() {
        let loss =
            trial.number_of("deep").unwrap().powi(2) + 0.01 * trial.number_of("flat").unwrap();
        study.tell(trial, loss).unwrap();
    }
    study.finish().unwrap();
    for evaluator in ["ped-anova", "fanova"] {
        let text = String::from_utf8(run(&["--evaluator", evaluator]).stdout).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[1].starts_with("deep ") && lines[2].starts_with("flat "), "{text}");
        assert!(text.contains(&format!("{evaluator} of 60 completed trials")), "{text}");
        let json: Json =
            serde_json::from_slice(&run(&["--evaluator", evaluator, "--json"]).stdout).unwrap();
        assert_eq!(
            (&json["version"], &json["study"], &json["evaluator"], &json["trials"]),
            (&1.into(), &"bowl".into(), &evaluator.into(), &60.into())
        );
        assert_eq!(json["importances"][0]["name"], "deep");
        let sum: f64 = json["importances"]
            .as_array()
            .unwrap()
            .iter()
            .map(|share| share["importance"].as_f64().unwrap())
            .sum();
        assert!((sum - 1.0).abs() < 1e-9);
    }
}
