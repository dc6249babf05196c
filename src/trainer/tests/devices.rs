//! The same training on every device: masks, losses and weights, with all that is random switched on.

use burn::tensor::Tensor;

use super::super::fused::Mask;
use super::*;

#[test]
fn a_device_drops_what_the_processor_drops() {
    let mask = Mask::new(0x8000_0001_FFFF_FFFF, 0.3);
    each_device(|name| {
        let device = device::open(name).unwrap();
        for (rows, columns) in [(1, 1), (5, 13), (300, 64), (2, 1000)] {
            let x = Tensor::<2>::ones([rows, columns], &device);
            let made: Vec<f32> = mask.applied(x, &device).try_into_vec_as().unwrap();
            assert_eq!(made, mask.numbers(rows, columns), "{name}, {rows} rows of {columns}");
        }
    });
}

/// What a training of the fixture's classifier reports on each device, and how its log ends.
fn reports(values: Value) -> Vec<(String, Vec<(u64, BTreeMap<String, f64>)>, RunEnd)> {
    let (fixture, arguments) = (Fixture::new(), arguments(values));
    let all = std::cell::RefCell::new(Vec::new());
    each_device(|name| {
        let directory = fixture.path().join(format!("trial-{}", all.borrow().len()));
        let mut runner = Runner::default();
        let end = train(&Job { device: name, ..fixture.job(&arguments, &directory) }, &mut runner).unwrap();
        all.borrow_mut().push((name.to_owned(), runner.reports, end));
    });
    all.into_inner()
}

fn are_alike(all: &[(String, Vec<(u64, BTreeMap<String, f64>)>, RunEnd)]) {
    let (_, first, end) = &all[0];
    assert!(all.len() > 1 && first.len() > 1);
    for (name, reports, its_end) in &all[1..] {
        assert_eq!((reports.len(), its_end), (first.len(), end), "{name}");
        for ((step, metrics), (_, expected)) in reports.iter().zip(first) {
            for metric in ["train_loss", "eval_loss", "grad_norm", "weight_norm", "learning_rate", "epoch"] {
                let (own, theirs) = (metrics[metric], expected[metric]);
                assert!((own - theirs).abs() <= on(name, 1e-3) * theirs.abs(), "{name}, {metric} at {step}: {own} and {theirs}");
            }
        }
    }
}

#[test]
fn a_training_has_the_same_losses_everywhere() {
    are_alike(&reports(json!({"num_train_epochs": 3, "max_grad_norm": 0.5})));
    are_alike(&reports(json!({"optim": "sgd", "learning_rate": 0.1, "max_grad_norm": 0, "gradient_checkpointing": true})));
    are_alike(&reports(json!({"lora_r": 4, "logging_steps": 1})));
}

#[test]
fn a_training_that_diverges_ends_at_the_same_step_everywhere() {
    let all = reports(json!({"learning_rate": 1e30, "max_grad_norm": 0, "logging_steps": 1000, "eval_strategy": "no", "num_train_epochs": 20}));
    for (name, _, end) in &all {
        let (RunEnd::Diverged { step, what }, RunEnd::Diverged { step: first, .. }) = (end, &all[0].2) else { panic!("{name}: {end:?}") };
        assert!(step == first && what.contains("is"), "{name}: {step} and {first}, {what}");
    }
}
