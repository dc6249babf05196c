//! Sampler and pruner together at a fixed number of reports, on curves that cross: what stopping
//! early is worth.

use std::fmt::Write as _;

use hpsearch::ask_tell::Session;
use serde_json::{Value, json};

use crate::harness::cases;

/// Reports of a full trial, and of a study: those of twenty full trials.
const END: u64 = 27;
const REPORTS: u64 = 20 * END;

/// A curve made of its parameters: the smaller the rate, the slower it falls and the lower it ends,
/// so that trials that end best are behind at first. The waves are measurement noise.
fn loss(params: &Value, step: u64) -> f64 {
    let (rate, x, y) = (
        params["rate"].as_f64().unwrap(),
        params["x"].as_f64().unwrap(),
        params["y"].as_f64().unwrap(),
    );
    let (speed, bowl) = (0.3 + 0.6 * rate, (x - 0.3).powi(2) + (y - 0.6).powi(2));
    let noise = 0.004 * ((x * 911.0 + y * 577.0 + step as f64 * 1.7).sin());
    bowl + 0.15 * rate + 0.4 * (-(step as f64) * speed).exp() + noise
}

fn say(session: &mut Session, line: &Value) -> Value {
    let answer: Value = serde_json::from_str(&session.answer(&line.to_string())).unwrap();
    assert!(answer["error"].is_null(), "{line}: {answer}");
    answer
}

/// The best end among the trials that came there.
fn best_end(sampler: &str, pruner: &Value, seed: u64) -> f64 {
    let mut session = Session::new();
    let space: Vec<Value> = ["rate", "x", "y"]
        .iter()
        .map(|name| json!({"name": name, "type": "float", "low": 0.0, "high": 1.0}))
        .collect();
    say(
        &mut session,
        &json!({
            "cmd": "init", "space": space, "seed": seed, "sampler": {"type": sampler},
            "pruner": pruner,
        }),
    );
    let (mut spent, mut best) = (0, f64::INFINITY);
    while spent < REPORTS {
        let asked = say(&mut session, &json!({"cmd": "ask"}));
        let id = &asked["id"];
        let mut step = 0;
        let told = loop {
            (step, spent) = (step + 1, spent + 1);
            let value = loss(&asked["params"], step);
            let answer = say(
                &mut session,
                &json!({"cmd": "report", "id": id, "step": step, "value": value}),
            );
            if step == END {
                best = best.min(value);
                break json!({"cmd": "tell", "id": id, "value": value});
            }
            if answer["verdict"] == "stop" {
                break json!({"cmd": "tell", "id": id, "state": "pruned"});
            }
            if spent == REPORTS {
                return best;
            }
        };
        say(&mut session, &told);
    }
    best
}

fn mean_best_end(sampler: &str, pruner: &Value, seeds: u64) -> f64 {
    (0..seeds).map(|seed| best_end(sampler, pruner, seed)).sum::<f64>() / seeds as f64
}

#[test]
fn stopping_early_finds_better_ends_with_the_same_reports_even_where_curves_cross() {
    let seeds = cases(3, 6);
    let everything = mean_best_end("random", &json!({"type": "none"}), seeds);
    let mut said = format!("none {everything:.4}");
    let mut ends = Vec::new();
    for name in ["asha", "hyperband", "curve"] {
        let end = mean_best_end("random", &json!({"type": name, "max_resource": END}), seeds);
        write!(said, ", {name} {end:.4}").unwrap();
        ends.push(end);
    }
    assert!(ends.iter().all(|end| *end < 0.7 * everything), "{said}");
}

#[test]
fn a_sampler_learns_from_trials_that_were_stopped() {
    let pruner = json!({"type": "asha", "max_resource": END});
    let end = |sampler: &str| mean_best_end(sampler, &pruner, cases(2, 6));
    let (random, auto) = (end("random"), end("auto"));
    assert!(auto < 0.6 * random, "auto {auto:.4}, random {random:.4}");
}
