//! Which memory models are learned, and which are not.

use super::*;
use crate::samplers::conformance::{int, log_float, space};
use crate::study::metric::Direction;
use serde_json::json;

fn params(values: &[(&str, i64)]) -> Params {
    values.iter().map(|(name, value)| ((*name).to_owned(), (*value).into())).collect()
}

/// A command that needs rows times width plus 300 MiB, whatever the learning rate.
fn command() -> StudySpec {
    let space = space([int("rows", 1, 64), int("width", 16, 512), log_float("rate", 1e-4, 1.0)]);
    let program = Program::Command {
        run: vec!["true".to_owned()],
        cwd: "/".into(),
        env: BTreeMap::new(),
        args: Default::default(),
        metrics: Default::default(),
    };
    StudySpec::new("c", "loss", Direction::Minimize, space, program)
}

fn trainer(arguments: serde_json::Value, max_length: u64) -> StudySpec {
    let space = space([int("per_device_train_batch_size", 1, 64), int("model.num_layers", 1, 12)]);
    let program = Program::Trainer {
        arguments: serde_json::from_value(arguments).unwrap(),
        data: [("max_length".to_owned(), max_length.into())].into(),
    };
    StudySpec::new("t", "eval_loss", Direction::Minimize, space, program)
}

/// A configuration of the trainer.
fn of(batch: i64, layers: i64) -> Params {
    params(&[("per_device_train_batch_size", batch), ("model.num_layers", layers)])
}

/// A pseudo-random number from -1 to 1.
fn noise(number: u64) -> f64 {
    let mixed = (number + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    ((mixed ^ (mixed >> 29)).wrapping_mul(0xBF58_476D_1CE4_E5B9) >> 11) as f64
        / (1_u64 << 52) as f64
        - 1.0
}

fn of_rows_and_width(rows: i64, width: i64) -> f64 {
    300.0 * MIB + 40_000.0 * (rows * width) as f64
}

/// Trials of a command, each off by at most this share.
fn seen(spec: &StudySpec, trials: u64, off: f64) -> Vec<Seen> {
    let trial = |number: u64| {
        let (rows, width) = (1 + (number * 23 % 64) as i64, 16 + (number * 157 % 496) as i64);
        let mut point = params(&[("rows", rows), ("width", width)]);
        point.insert("rate", 1e-3 + noise(number + 1000).abs() / 2.0);
        let bytes = of_rows_and_width(rows, width) * (1.0 + off * noise(number));
        Seen { sizes: sizes(spec, &point, None), bytes: bytes as u64 }
    };
    (0..trials).map(trial).collect()
}

fn expect(memory_model: &MemoryModel, spec: &StudySpec, rows: i64, width: i64) -> Expected {
    let mut point = params(&[("rows", rows), ("width", width)]);
    point.insert("rate", 0.01);
    memory_model.expect(&sizes(spec, &point, None))
}

#[test]
fn what_a_command_takes_is_told_of_configurations_that_were_not_tried() {
    let spec = command();
    for (trials, off) in [(8, 0.0), (12, 0.03), (40, 0.05)] {
        let memory_model = MemoryModel::learn(&seen(&spec, trials, off)).unwrap();
        for (rows, width) in [(3, 100), (64, 16), (64, 512), (200, 512)] {
            let (truth, expected) =
                (of_rows_and_width(rows, width), expect(&memory_model, &spec, rows, width));
            let (least, most) = (expected.least as f64, expected.most as f64);
            assert!(
                least <= truth * 1.03 && truth <= most * 1.03 && most <= 1.35 * truth,
                "{trials} {off} {rows} {width}: {expected:?} {truth}"
            );
        }
    }
    let memory_model = MemoryModel::learn(&seen(&spec, 12, 0.0)).unwrap();
    assert_eq!(memory_model.in_words(), "as 12 that ended, by their rows x width, 5 % off at most");
}

#[test]
fn more_of_a_size_never_needs_less() {
    let spec = command();
    // Decreasing in width: no non-negative factor fits.
    let odd: Vec<Seen> = (1..20)
        .map(|width| Seen {
            sizes: sizes(&spec, &params(&[("rows", 8), ("width", width)]), None),
            bytes: ((40 - width) as f64 * 100.0 * MIB) as u64,
        })
        .collect();
    assert_eq!(MemoryModel::learn(&odd), None);
    let memory_model = MemoryModel::learn(&seen(&spec, 30, 0.05)).unwrap();
    assert!((1..100).map(|rows| expect(&memory_model, &spec, rows, 100).most).is_sorted());
}

#[test]
fn nothing_is_learned_of_too_few_nor_of_what_does_not_follow_from_sizes() {
    let spec = command();
    assert_eq!(MemoryModel::learn(&[]), None);
    assert_eq!(MemoryModel::learn(&seen(&spec, 2, 0.0)), None);
    let by_chance: Vec<Seen> = seen(&spec, 30, 0.0)
        .into_iter()
        .zip(0..)
        .map(|(seen, number)| Seen { bytes: ((1.5 + noise(number)) * 1e9) as u64, ..seen })
        .collect();
    assert_eq!(MemoryModel::learn(&by_chance), None);
    // All alike: predicts the same for all.
    let alike: Vec<Seen> =
        seen(&spec, 6, 0.0).into_iter().map(|seen| Seen { bytes: 1 << 30, ..seen }).collect();
    let memory_model = MemoryModel::learn(&alike).unwrap();
    assert_eq!(expect(&memory_model, &spec, 64, 512).most >> 20, 1075);
    assert_eq!(memory_model.in_words(), "as 6 that ended, 5 % off at most");
    // Non-finite and extreme values do no harm.
    let odd: Vec<Seen> = [f64::NAN, f64::INFINITY, 0.0, 1.0, 2.0, 3.0]
        .into_iter()
        .map(|size| Seen { sizes: [("a".to_owned(), size)].into(), bytes: 5 })
        .collect();
    assert!(MemoryModel::learn(&odd).is_some_and(|memory_model| memory_model.factors.is_empty()));
}

#[test]
fn what_is_learned_does_not_depend_on_the_order_of_trials() {
    let spec = command();
    let mut seen = seen(&spec, 25, 0.04);
    let one = MemoryModel::learn(&seen).unwrap();
    seen.reverse();
    let other = MemoryModel::learn(&seen).unwrap();
    let (one, other) = (expect(&one, &spec, 20, 300), expect(&other, &spec, 20, 300));
    assert!(one.most.abs_diff(other.most) < 1 << 10, "{one:?} {other:?}");
}

#[test]
fn the_trainers_sizes_follow_its_arguments_and_rows_at_once() {
    let spec = trainer(json!({"model.hidden_size": 64, "per_device_eval_batch_size": 8}), 100);
    let (small, large) = (sizes(&spec, &of(4, 2), None), sizes(&spec, &of(16, 2), None));
    assert!((large["activations"] / small["activations"] - 4.0).abs() < 1e-9);
    assert!((small["weights"] - 2.0 * 64.0 * (4.0 * 64.0 + 2.0 * 256.0)).abs() < 1e-9, "{small:?}");
    assert!((small["tokens at once"] - 400.0).abs() < 1e-9);
    assert_eq!(sizes(&spec, &of(16, 2), Some(RowsAtOnce { train: 4, eval: 8 })), small);
    assert!((smallest_sizes(&spec, &of(16, 2))["tokens at once"] - 100.0).abs() < 1e-9);
    // Without halving, all rows have to fit.
    let whole = trainer(json!({"auto_find_batch_size": false}), 100);
    assert!((smallest_sizes(&whole, &of(16, 2))["tokens at once"] - 1600.0).abs() < 1e-9);
    // The shape of a pretrained model is unknown.
    let tuned = trainer(json!({"model": "/models/mini"}), 100);
    let sizes = sizes(&tuned, &params(&[("per_device_train_batch_size", 8)]), None);
    let own = ["model ", "tokens at once, ", "tokens evaluated at once, "]
        .map(|what| format!("{what}/models/mini"));
    assert!(sizes.into_keys().eq(own));
}

#[test]
fn a_trainers_memory_is_learned_from_weights_and_activations_together() {
    let spec = trainer(json!({"model.hidden_size": 64}), 64);
    let truth = |batch: i64, layers: i64| {
        let sizes = sizes(&spec, &of(batch, layers), None);
        80.0 * MIB + 64.0 * sizes["weights"] + 40.0 * sizes["activations"]
    };
    let trials: Vec<Seen> = (0..16_i64)
        .map(|number| {
            let (batch, layers) = (1 + number * 37 % 64, 1 + number * 5 % 12);
            let bytes = truth(batch, layers) * (1.0 + 0.02 * noise(number as u64));
            Seen { sizes: sizes(&spec, &of(batch, layers), None), bytes: bytes as u64 }
        })
        .collect();
    let memory_model = MemoryModel::learn(&trials).unwrap();
    for (batch, layers) in [(1, 1), (64, 12), (128, 12), (30, 6)] {
        let (expected, truth) =
            (memory_model.expect(&sizes(&spec, &of(batch, layers), None)), truth(batch, layers));
        assert!(
            expected.least as f64 <= 1.05 * truth && truth <= 1.05 * expected.most as f64,
            "{batch} {layers}: {expected:?} {truth}"
        );
    }
}
