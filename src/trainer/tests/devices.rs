//! The same training on every device: masks, losses and weights, with dropout, accumulation and
//! clipping.

use super::super::fused::DropoutMask;
use super::super::parameters::READS;
use super::*;

#[test]
fn every_device_drops_the_same_elements() {
    let mask = DropoutMask::new(0x8000_0001_FFFF_FFFF, 0.3);
    each_device(|name| {
        let device = device::open(name).unwrap();
        for (rows, columns) in [(1, 1), (5, 13), (300, 64), (2, 1000)] {
            let [row_range, column_range] =
                [rows, columns].map(|count| fused::index_range(count, &device));
            let dropped = mask.dropped(row_range, column_range).into_data();
            let dropped: Vec<bool> = dropped.iter::<bool>().collect();
            let expected: Vec<bool> =
                mask.factors(rows, columns).iter().map(|factor| *factor == 0.0).collect();
            assert_eq!(dropped, expected, "{name}, {rows} rows of {columns}");
        }
    });
}

/// A device, the reports of a training there, and how it ended.
type Reported = (String, Reports, TrainingEnd);

/// A training of the fixture's classifier on each device.
fn reports(values: Value) -> Vec<Reported> {
    let (fixture, arguments) = (Fixture::new(), arguments(values));
    let all = std::cell::RefCell::new(Vec::new());
    each_device(|name| {
        let directory = fixture.path().join(format!("trial-{}", all.borrow().len()));
        let mut runner = Runner::default();
        let end = train(
            &TrainingJob { device: name, ..fixture.job(&arguments, &directory) },
            &mut runner,
        )
        .unwrap();
        if let TrainingEnd::Diverged { step, .. } = &end {
            let saved = runner.checkpoints.iter().map(|(_, path)| {
                path.to_str().unwrap().rsplit_once('-').unwrap().1.parse::<u64>().unwrap()
            });
            assert!(
                saved.max().is_none_or(|saved| saved < *step),
                "{name}: a checkpoint of a model that diverged"
            );
        }
        all.borrow_mut().push((name.to_owned(), runner.reports, end));
    });
    all.into_inner()
}

fn are_alike(all: &[Reported]) {
    let (_, first, end) = &all[0];
    assert!(all.len() > 1 && first.len() > 1);
    for (name, reports, its_end) in &all[1..] {
        assert_eq!((reports.len(), its_end), (first.len(), end), "{name}");
        for ((step, metrics), (_, expected)) in reports.iter().zip(first) {
            for metric in
                ["train_loss", "eval_loss", "grad_norm", "weight_norm", "learning_rate", "epoch"]
            {
                let (own, theirs) = (metrics[metric], expected[metric]);
                assert!(
                    (own - theirs).abs() <= on(name, 1e-3) * theirs.abs(),
                    "{name}, {metric} at {step}: {own} and {theirs}"
                );
            }
        }
    }
}

#[test]
fn a_training_has_the_same_losses_everywhere() {
    are_alike(&reports(json!({"num_train_epochs": 3, "max_grad_norm": 0.5})));
    are_alike(&reports(json!({
        "optim": "sgd", "learning_rate": 0.1, "max_grad_norm": 0,
        "gradient_checkpointing": true,
    })));
    are_alike(&reports(json!({"lora_r": 4, "logging_steps": 1})));
}

#[test]
fn steps_do_not_wait_for_the_device() {
    let reads = |steps: u32| {
        let values = json!({"max_steps": steps, "logging_steps": 1000, "eval_strategy": "no"});
        let (fixture, arguments, milestones) =
            (Fixture::new(), arguments(values), Milestones::default());
        fused::without_fusion(|| {
            READS.set(0);
            trained(&TrainingJob { milestones, ..fixture.job(&arguments, fixture.path()) });
            READS.get()
        })
    };
    // Besides the end of the run, outcomes are read for 32 steps at once.
    let [few, more, many] = [8, 30, 8 + 32 * 3].map(reads);
    assert_eq!((more - few, many - few), (0, 3));
}

#[test]
fn a_training_that_diverges_ends_at_the_same_step_everywhere() {
    let all = reports(json!({
        "learning_rate": 1e30, "max_grad_norm": 0, "logging_steps": 1000, "eval_strategy": "no",
        "num_train_epochs": 20,
    }));
    for (name, _, end) in &all {
        let (TrainingEnd::Diverged { step, what }, TrainingEnd::Diverged { step: first, .. }) =
            (end, &all[0].2)
        else {
            panic!("{name}: {end:?}")
        };
        assert!(
            step == first && *step > 0 && what.contains(" is "),
            "{name}: {step} and {first}, {what}"
        );
    }
}

/// bf16 and fp16 round: losses are close to those in f32, and not the same. With fp16 the first
/// step is skipped.
#[test]
fn mixed_precision_learns_what_f32_learns_and_resumes_bit_for_bit() {
    for (argument, tolerance) in [("bf16", 0.05), ("fp16", 0.4)] {
        let base = json!({"num_train_epochs": 3, "model.dropout": 0, "model.attention_dropout": 0});
        let mixed = arguments(merged(base.clone(), json!({argument: true})));
        let (fixture, single) = (Fixture::new(), arguments(base));
        each_device(|device| {
            if precision::compute_dtype(&mixed, device, &device::open(device).unwrap()).is_err() {
                return println!("{device} does not support {argument}");
            }
            let directories = ["f32", "mixed", "interrupted"].map(|_| TempDir::new().unwrap());
            let [one, other, parts] = directories.each_ref().map(TempDir::path);
            let job =
                |arguments, directory| TrainingJob { device, ..fixture.job(arguments, directory) };
            let (one, other) = (trained(&job(&single, one)), trained(&job(&mixed, other)));
            assert_eq!(one.reports.len(), other.reports.len());
            for ((step, metrics), (_, expected)) in other.reports.iter().zip(&one.reports) {
                for metric in ["train_loss", "eval_loss", "weight_norm"] {
                    let (own, theirs) = (metrics[metric], expected[metric]);
                    let off = (own - theirs).abs() / theirs.abs();
                    assert!(
                        off <= tolerance && off > 0.0,
                        "{device}, {argument}, {metric} at {step}: {own} and {theirs}"
                    );
                }
            }
            let first = interrupted(&job(&mixed, parts), 13);
            let checkpoint = first.last_checkpoint();
            let state = fs::read_to_string(checkpoint.join("trainer_state.json")).unwrap();
            assert_eq!(state.contains("\"scale\""), argument == "fp16");
            let rest =
                trained(&TrainingJob { start: Start::Resume(checkpoint), ..job(&mixed, parts) });
            // CUDA adds long rows in an order of its own.
            let is_same = device.starts_with("cuda") || rest.weights() == other.weights();
            assert!(is_same, "{device}, {argument}");
        });
    }
}

#[test]
fn a_step_that_overflows_is_skipped() {
    let fixture = Fixture::new();
    let arguments = arguments(json!({
        "fp16": true, "max_steps": 6, "logging_steps": 1, "gradient_accumulation_steps": 1,
        "model.hidden_size": 64,
    }));
    let directory = TempDir::new().unwrap();
    let job = fixture.job(&arguments, directory.path());
    let mut run = training::TrainingRun::begin(&job, &mut Runner::default()).unwrap();
    run.scale_losses_by(1e12);
    let before = run.numbers();
    run.step_with(0, 0.01).unwrap();
    assert!(run.numbers() == before, "a step that overflows is not made");
    run.scale_losses_by(1024.0);
    run.step_with(1, 0.01).unwrap();
    assert!(run.numbers() != before);
}
