//! Reasons: stored, in words, repeated.

use super::*;
use crate::study::step::StepUnit;
use serde_json::json;

#[test]
fn a_reason_is_stored_as_numbers_said_in_words_and_knows_its_cut_off() {
    let at = json!({ "clock": "step", "step": 300 });
    let rank = |first, of| Some(CutOff::Rank { first, of });
    let value = |value| Some(CutOff::Value(value));
    let cases = [
        (
            json!({ "rank": { "rank": 9, "of": 12, "first": 4, "at": at } }),
            "rank 9 of 12 at step 300; 4 continue",
            rank(4, 12),
        ),
        (
            json!({ "rank": { "rank": 9, "of": 12, "first": 4, "at": at, "forecast_from": 6,
                "forecast": { "mean": 0.31, "deviation": 0.021, "cut_off": 0.2 } } }),
            "rank 9 of 12 at step 300, by final values forecast from 6 that continued: 0.310 \
             +- 0.021 against 0.200; 4 continue",
            None,
        ),
        (
            json!({ "rank": { "rank": 2, "of": 3, "first": 1, "at": at } }),
            "rank 2 of 3 at step 300; 1 continues",
            rank(1, 3),
        ),
        (
            json!({
                "rank": { "rank": 1, "of": 1, "first": 2, "at": at, "forecast_from": 20 },
            }),
            "rank 1 of 1 at step 300, by final values forecast from 20 that continued; the \
             first 2 continue",
            None,
        ),
        (
            json!({ "rung": { "rung": 3, "rank": 2, "of": 5, "first": 1 } }),
            "rung 3 reached with rank 2 of 5; the best one continues",
            rank(1, 5),
        ),
        (
            json!({
                "not_paused": {
                    "rung": 3, "rank": 1, "of": 5, "first": 1, "until": at,
                    "cost": { "restart": { "restart": 31_417_000, "training": 4_250_400 } },
                },
            }),
            "rank 1 of 5 at rung 3; 1 continues; not paused: it would take 31.4s to start again, \
             and 4.25s to train to step 300",
            rank(1, 5),
        ),
        (
            json!({
                "not_paused": {
                    "rung": 3, "rank": 1, "of": 2, "first": 0, "until": null,
                    "cost": { "restart": { "restart": 600_000, "training": 100_000 } },
                },
            }),
            "rank 1 of 2 at rung 3; too few to promote one; not paused: it would take 0.6s to \
             start again, and 0.1s to train to the end",
            rank(0, 2),
        ),
        (
            json!({
                "not_paused": {
                    "rung": 3, "rank": 1, "of": 2, "first": 2, "until": null,
                    "cost": "starts_over",
                },
            }),
            "rank 1 of 2 at rung 3; the first 2 continue; not paused: its program saves no \
             checkpoints, and it would start over",
            rank(2, 2),
        ),
        (
            json!({ "promoted": { "rung": 3, "rank": 1, "of": 5, "first": 1, "until": at } }),
            "rank 1 of 5 at rung 3; 1 continues to step 300",
            rank(1, 5),
        ),
        (
            json!({ "promoted": { "rung": 3, "rank": 2, "of": 9, "first": 3, "until": null } }),
            "rank 2 of 9 at rung 3; 3 continue to the end",
            rank(3, 9),
        ),
        (
            json!({ "concluded": { "rung": 3 } }),
            "the best trial at rung 3, the highest that was reached, runs to its end: no \
             other did",
            None,
        ),
        (json!({ "ready": { "rung": 3 } }), "ready at rung 3: waits for its population", None),
        (
            json!({ "ready": { "rung": 3, "at_once": true } }),
            "ready at rung 3: continues as the latest results of its population decide",
            None,
        ),
        (
            json!({ "survived": { "rung": 3, "rank": 2, "of": 8 } }),
            "rank 2 of 8 of its population at rung 3: continues",
            None,
        ),
        (
            json!({ "survived": { "rung": 3, "rank": 8, "of": 8, "no_donor": true } }),
            "rank 8 of 8 of its population at rung 3: continues, since no better one has a \
             checkpoint there",
            None,
        ),
        (
            json!({ "survived": { "rung": 3, "rank": 2, "of": 5, "at_once": true } }),
            "rank 2 of 5 at rung 3, among the latest results of its population: continues",
            None,
        ),
        (
            json!({
                "survived": {
                    "rung": 3, "rank": 5, "of": 5, "no_donor": true, "at_once": true,
                },
            }),
            "rank 5 of 5 at rung 3, among the latest results of its population: continues, \
             since no better one has a checkpoint as far on",
            None,
        ),
        (
            json!({
                "exploited": {
                    "rung": 3, "rank": 5, "of": 5, "from": 2, "from_rank": 1, "from_step": 9,
                },
            }),
            "rank 5 of 5 at rung 3, among the latest results of its population: continues \
             from trial 2 at step 9, which has rank 1",
            None,
        ),
        (
            json!({
                "exploited": { "rung": 3, "rank": 8, "of": 8, "from": 5, "from_rank": 1 },
            }),
            "rank 8 of 8 of its population at rung 3: continues from trial 5, which has rank 1",
            None,
        ),
        (
            json!({ "migrated": { "rung": 3, "rank": 3, "of": 4, "from": 5, "params_of": 2 } }),
            "rank 3 of 4 of its sub-population at rung 3: continues from trial 5 of another \
             one, with the parameters of trial 2",
            None,
        ),
        (
            json!({
                "percentile": {
                    "best": 0.45, "border": 0.4, "percentile": 50.0, "of": 3, "at": at,
                    "comparison": "worse",
                },
            }),
            "best value 0.45 is worse than the median 0.4 of 3 completed trials at step 300",
            value(0.4),
        ),
        (
            json!({
                "percentile": {
                    "best": -1e-9, "border": 1.75, "percentile": 25.0, "of": 3, "at": at,
                    "comparison": "not_worse",
                },
            }),
            "best value -1e-9 is not worse than 1.75, percentile 25 of 3 completed trials at \
             step 300",
            value(1.75),
        ),
        (
            json!({
                "patience": {
                    "best": 0.5, "reports": 2, "before": "-Infinity", "min_delta": 1.0,
                    "at": at, "comparison": "worse",
                },
            }),
            "the best value 0.5 of the last 2 reports up to step 300 is worse than -inf \
             before them by more than 1",
            value(f64::NEG_INFINITY),
        ),
        (
            json!({
                "patience": {
                    "best": "NaN", "reports": 2, "before": 0.5, "min_delta": 1.0, "at": at,
                    "comparison": "worse", "wrapped": { "only_nan": { "at": at } },
                },
            }),
            "the last 2 reports up to step 300 are NaN, and every value up to step 300 is NaN",
            value(0.5),
        ),
        (
            json!({
                "threshold": { "value": 2.5, "bound": "upper", "threshold": 2.0, "at": at },
            }),
            "value 2.5 at step 300 is above the threshold 2",
            value(2.0),
        ),
        (
            json!({
                "wilcoxon": { "p": 0.2, "threshold": 0.1, "steps": 4, "at": at, "best": 3 },
            }),
            "p = 0.2000 at 4 steps in common with the best trial 3 is not below 0.1",
            None,
        ),
        (
            json!({ "wilcoxon": { "p": 0.01, "threshold": 0.1, "steps": 4, "at": at, "best": 3,
                "means": { "own": 4.0, "best": 3.0, "comparison": "worse" } } }),
            "p = 0.0100 at 4 steps in common with the best trial 3 is below 0.1, and the mean \
             4 is worse than its 3",
            None,
        ),
        (
            json!({
                "forecast": {
                    "mean": 0.456, "deviation": 0.02, "best": 0.4, "probability": 0.01,
                    "threshold": 0.02, "at": at,
                },
            }),
            "at step 300 expected to end at 0.456 +- 0.020: better than the best, 0.400, with \
             probability 0.010, less than 0.02",
            None,
        ),
        (
            json!({
                "forecast": {
                    "mean": 0.456, "deviation": 0.2, "best": 0.4, "probability": 0.01, "at": at,
                    "rank": { "rank": { "rank": 1, "of": 3, "first": 1, "at": at } },
                },
            }),
            "rank 1 of 3 at step 300; 1 continues; at step 300 expected to end at 0.46 +- \
             0.20: \
             better than the best, 0.40, with probability 0.010",
            rank(1, 3),
        ),
        (json!({ "nan": { "at": at } }), "the value at step 300 is NaN", None),
        (json!({ "reached": { "clock": "epoch", "step": 9 } }), "epoch 9 is reached", None),
        (json!("rank 9 of 12; 4 continue"), "rank 9 of 12; 4 continue", None),
    ];
    for (stored, words, cut_off) in cases {
        let reason: Reason = serde_json::from_value(stored.clone()).unwrap();
        assert_eq!((reason.to_string().as_str(), reason.cut_off()), (words, cut_off));
        assert_eq!(serde_json::to_value(&reason).unwrap(), stored);
    }
}

#[test]
fn a_decision_repeats_with_the_same_numbers_or_beside_a_sentence() {
    let nan = |step| Decision::Stop(Reason::Nan { at: StepUnit::Epoch.at(step) });
    let recorded = |text: &str| Reason::Recorded(text.to_owned());
    assert!(nan(3).repeats(&nan(3)) && nan(3).repeats(&Decision::Stop(recorded("NaN"))));
    assert!(!nan(3).repeats(&nan(4)) && !nan(3).repeats(&Decision::Pause(recorded("NaN"))));
    assert!(!Decision::CONTINUE.repeats(&Decision::continues(recorded("rank 1 of 3"))));
}
