//! What a training run reports, and that interruptions leave no trace in it.

use super::super::weights::Weights;
use super::*;

/// The reports without what a clock measured.
fn timeless(reports: &[(u64, BTreeMap<String, f64>)]) -> Vec<(u64, BTreeMap<String, f64>)> {
    reports
        .iter()
        .map(|(step, metrics)| {
            (
                *step,
                metrics
                    .iter()
                    .filter(|(name, _)| *name != "steps_per_second")
                    .map(|(k, v)| (k.clone(), *v))
                    .collect(),
            )
        })
        .collect()
}

fn weights(directory: &Path) -> Vec<Vec<u8>> {
    ["model.safetensors", "optimizer.safetensors"]
        .map(|file| fs::read(directory.join(file)).unwrap())
        .to_vec()
}

#[test]
fn a_run_reports_checkpoints_evaluates_and_predicts() {
    let fixture = Fixture::new();
    let (arguments, directory) =
        (arguments(json!({"num_train_epochs": 3})), fixture.path().join("trial"));
    let mut runner = Runner::default();
    assert_eq!(train(&fixture.job(&arguments, &directory), &mut runner).unwrap(), RunEnd::Finished);
    assert_eq!(runner.reports.iter().map(|(step, _)| *step).collect::<Vec<_>>(), [1, 2, 3]);
    let (_, last) = runner.reports.last().unwrap();
    let names: Vec<&str> = last.keys().map(String::as_str).collect();
    assert_eq!(
        names,
        [
            "epoch",
            "eval_accuracy",
            "eval_loss",
            "eval_macro_f1",
            "grad_norm",
            "learning_rate",
            "steps_per_second",
            "train_loss",
            "weight_norm"
        ]
    );
    assert_eq!(last["epoch"], 3.0);

    let (_, checkpoint) = runner.checkpoints.last().unwrap();
    let weights = Weights::open(checkpoint).unwrap();
    let squares = |name: &str| {
        weights.values(name).unwrap().iter().map(|number| f64::from(*number).powi(2)).sum::<f64>()
    };
    let norm = weights.names().map(squares).sum::<f64>().sqrt();
    assert!(
        (last["weight_norm"] / norm - 1.0).abs() < 1e-5 && last["grad_norm"] > 0.0,
        "{last:?} {norm}"
    );
    assert_eq!(checkpoint, &directory.join("checkpoint-36"));
    let measured =
        evaluate(checkpoint, &fixture.data, Split::Validation, 64, "cpu", &|_, _, _| {}).unwrap();
    for name in ["eval_accuracy", "eval_loss", "eval_macro_f1"] {
        assert!((measured[name] - last[name]).abs() < 1e-6, "{name}");
    }
    let predictions = predict(
        checkpoint,
        &["a very good film".to_owned(), String::new()],
        8,
        "cpu",
        &|_, _, _| {},
    )
    .unwrap();
    assert_eq!(predictions[0].labels.len(), 3);
    assert!(
        (predictions[0].labels.iter().map(|label| label.score).sum::<f64>() - 1.0).abs() < 1e-9
    );
    assert!(predictions[0].labels[0].score >= predictions[0].labels[1].score);
}

#[test]
fn a_keyword_is_learnt_in_seconds() {
    let fixture = Fixture::with_rows(300);
    let arguments = arguments(json!({
        "num_train_epochs": 4, "per_device_train_batch_size": 8, "gradient_accumulation_steps": 1, "label_smoothing_factor": 0, "model.hidden_size": 32
    }));
    let mut runner = Runner::default();
    train(&fixture.job(&arguments, &fixture.path().join("trial")), &mut runner).unwrap();
    let accuracies: Vec<f64> =
        runner.reports.iter().map(|(_, metrics)| metrics["eval_accuracy"]).collect();
    assert!(accuracies[3] > 0.95, "{accuracies:?}");
    let (_, checkpoint) = runner.checkpoints.last().unwrap();
    let predictions = predict(
        checkpoint,
        &["the book was bad".to_owned(), "so good".to_owned()],
        8,
        "cpu",
        &|_, _, _| {},
    )
    .unwrap();
    let best: Vec<&str> =
        predictions.iter().map(|prediction| prediction.labels[0].label.as_str()).collect();
    assert_eq!(best, ["negative", "positive"]);
}

#[test]
fn interrupted_and_resumed_equals_uninterrupted_bit_for_bit() {
    let fixture = Fixture::new();
    for optimiser in ["adamw", "sgd"] {
        let arguments =
            arguments(json!({"optim": optimiser, "eval_strategy": "steps", "eval_steps": 5}));
        let whole = fixture.path().join(format!("{optimiser}-whole"));
        let mut runner = Runner::default();
        assert_eq!(train(&fixture.job(&arguments, &whole), &mut runner).unwrap(), RunEnd::Finished);
        // 12 steps an epoch: at the very start, within the first epoch, at its end, within the second, before the last step.
        for step in [0, 1, 5, 12, 17, 23] {
            let parts = fixture.path().join(format!("{optimiser}-{step}"));
            let mut first = Runner { stop_after: Some(step), ..Runner::default() };
            assert_eq!(
                train(&fixture.job(&arguments, &parts), &mut first).unwrap(),
                RunEnd::Interrupted
            );
            let (_, checkpoint) = first.checkpoints.last().unwrap();
            assert!(checkpoint.ends_with(format!("checkpoint-{step}")));
            let mut second = Runner::default();
            let reported = first.reports.last().map(|(clock, _)| *clock);
            let job = Job {
                start: Start::Resume(checkpoint),
                reported,
                ..fixture.job(&arguments, &parts)
            };
            assert_eq!(train(&job, &mut second).unwrap(), RunEnd::Finished);
            let reports = [first.reports, second.reports].concat();
            assert_eq!(timeless(&reports), timeless(&runner.reports), "interrupted at {step}");
            assert!(
                weights(&whole.join("checkpoint-24")) == weights(&parts.join("checkpoint-24")),
                "interrupted at {step}"
            );
        }
    }
}

#[test]
fn a_report_the_runner_did_not_receive_is_given_again_and_no_other() {
    let fixture = Fixture::new();
    let arguments = arguments(json!({}));
    let mut whole = Runner::default();
    train(&fixture.job(&arguments, &fixture.path().join("whole")), &mut whole).unwrap();
    let directory = fixture.path().join("parts");
    let mut first = Runner { gone_at: Some(1), ..Runner::default() };
    assert!(matches!(
        train(&fixture.job(&arguments, &directory), &mut first),
        Err(TrainerError::Host(_))
    ));
    let (_, checkpoint) = first.checkpoints.last().unwrap();
    let resume = |reported: Option<u64>| {
        let mut runner = Runner { checkpoints: first.checkpoints.clone(), ..Runner::default() };
        train(
            &Job {
                start: Start::Resume(checkpoint),
                reported,
                ..fixture.job(&arguments, &directory)
            },
            &mut runner,
        )
        .unwrap();
        timeless(&runner.reports)
    };
    assert_eq!(resume(None), timeless(&whole.reports));
    assert_eq!(resume(Some(1)), timeless(&whole.reports)[1..]);
}

#[test]
fn verdicts_and_until_end_a_run_after_their_report() {
    let fixture = Fixture::new();
    let arguments = arguments(json!({"num_train_epochs": 3}));
    let directory = fixture.path().join("trial");
    let run = |verdict, until, start| {
        let mut runner = Runner { verdicts: BTreeMap::from([(2, verdict)]), ..Runner::default() };
        let end = train(
            &Job { until, start, reported: Some(1), ..fixture.job(&arguments, &directory) },
            &mut runner,
        )
        .unwrap();
        (end, runner.reports.iter().map(|(step, _)| *step).collect::<Vec<_>>())
    };
    assert_eq!(run(HostVerdict::Stop, None, Start::Fresh), (RunEnd::Stopped, vec![1, 2]));
    assert_eq!(run(HostVerdict::Pause, None, Start::Fresh), (RunEnd::Paused, vec![1, 2]));
    assert_eq!(run(HostVerdict::Continue, Some(1), Start::Fresh), (RunEnd::Paused, vec![1]));
    let checkpoint = directory.join("checkpoint-12");
    assert_eq!(
        run(HostVerdict::Continue, Some(2), Start::Resume(&checkpoint)),
        (RunEnd::Paused, vec![2])
    );
    assert_eq!(
        run(HostVerdict::Continue, Some(3), Start::Resume(&checkpoint)),
        (RunEnd::Finished, vec![2, 3])
    );
}

#[test]
fn accumulated_small_batches_equal_one_large_batch() {
    let fixture = Fixture::new();
    let losses = |batch: usize, accumulation: usize| {
        let arguments = arguments(json!({
            "per_device_train_batch_size": batch, "gradient_accumulation_steps": accumulation, "model.dropout": 0, "model.attention_dropout": 0
        }));
        let mut runner = Runner::default();
        train(&fixture.job(&arguments, &fixture.path().join(format!("{batch}"))), &mut runner)
            .unwrap();
        runner
            .reports
            .iter()
            .map(|(_, metrics)| [metrics["train_loss"], metrics["eval_loss"]])
            .collect::<Vec<_>>()
    };
    // 96 rows: the last group of 5 x 4 rows is incomplete, and its micro-batches are uneven for 7 x 3.
    for ((large, batch), accumulation) in [(20, 4), (21, 7)].into_iter().zip([5, 3]) {
        for (one, other) in
            losses(large, 1).iter().flatten().zip(losses(batch, accumulation).iter().flatten())
        {
            assert!((one - other).abs() < 2e-5, "{one} {other}");
        }
    }
}

#[test]
fn fewer_rows_at_once_make_the_same_steps_and_a_run_can_change_over_in_the_middle() {
    let fixture = Fixture::new();
    // No dropout: its masks are drawn for each micro-batch.
    let arguments = arguments(
        json!({"per_device_train_batch_size": 10, "model.dropout": 0, "model.attention_dropout": 0}),
    );
    let losses = |runner: &Runner| {
        runner
            .reports
            .iter()
            .flat_map(|(_, metrics)| [metrics["train_loss"], metrics["eval_loss"]])
            .collect::<Vec<_>>()
    };
    let mut whole = Runner::default();
    train(&fixture.job(&arguments, &fixture.path().join("whole")), &mut whole).unwrap();
    let directory = fixture.path().join("parts");
    let mut first = Runner { stop_after: Some(3), ..Runner::default() };
    assert_eq!(
        train(&fixture.job(&arguments, &directory), &mut first).unwrap(),
        RunEnd::Interrupted
    );
    let (_, checkpoint) = first.checkpoints.last().unwrap();
    let mut second = Runner::default();
    let job = Job {
        start: Start::Resume(checkpoint),
        rows_at_once: Some(RowsAtOnce { train: 3, eval: 5 }),
        ..fixture.job(&arguments, &directory)
    };
    assert_eq!(train(&job, &mut second).unwrap(), RunEnd::Finished);
    let (expected, actual) = (losses(&whole), losses(&second));
    assert!(
        expected.len() == actual.len()
            && expected.iter().zip(&actual).all(|(one, other)| (one - other).abs() < 2e-5),
        "{expected:?} {actual:?}"
    );
}

#[test]
fn a_run_that_diverges_says_where() {
    let fixture = Fixture::new();
    let arguments = arguments(
        json!({"optim": "sgd", "learning_rate": 1e30, "max_grad_norm": 0, "warmup_steps": 0}),
    );
    let end =
        train(&fixture.job(&arguments, &fixture.path().join("trial")), &mut Runner::default())
            .unwrap();
    let RunEnd::Diverged { step, what } = end else { panic!("{end:?}") };
    assert!(step > 1 && what.starts_with("the "), "{step} {what}");
    assert!(
        what.contains("is not finite any more")
            || what.contains("the first gradient that is not finite"),
        "{what}"
    );
}

#[test]
fn a_damaged_checkpoint_is_refused_by_the_name_of_its_file() {
    let fixture = Fixture::new();
    let arguments = arguments(json!({"num_train_epochs": 1}));
    let directory = fixture.path().join("trial");
    train(&fixture.job(&arguments, &directory), &mut Runner::default()).unwrap();
    let checkpoint = directory.join("checkpoint-12");
    for file in [
        "model.safetensors",
        "optimizer.safetensors",
        "trainer_state.json",
        "training_args.json",
        "config.json",
        "tokenizer.json",
    ] {
        let path = checkpoint.join(file);
        let sound = fs::read(&path).unwrap();
        let mut damaged = sound.clone();
        *damaged.last_mut().unwrap() ^= 1;
        fs::write(&path, damaged).unwrap();
        let job = Job { start: Start::Resume(&checkpoint), ..fixture.job(&arguments, &directory) };
        let error = train(&job, &mut Runner::default()).unwrap_err().to_string();
        assert!(error.contains(&format!("`{file}` is damaged")), "{error}");
        fs::remove_file(&path).unwrap();
        assert!(
            train(&job, &mut Runner::default())
                .unwrap_err()
                .to_string()
                .contains(&format!("`{file}` cannot be read"))
        );
        fs::write(&path, sound).unwrap();
    }
    fs::remove_file(checkpoint.join("digests.json")).unwrap();
    let job = Job { start: Start::Resume(&checkpoint), ..fixture.job(&arguments, &directory) };
    assert!(
        train(&job, &mut Runner::default())
            .unwrap_err()
            .to_string()
            .contains("`digests.json` is missing")
    );
    predict(&checkpoint, &["good".to_owned()], 8, "cpu", &|_, _, _| {}).unwrap();
}

#[test]
fn a_checkpoint_of_another_run_is_refused_unless_it_is_cloned() {
    let fixture = Fixture::new();
    let (before, directory) =
        (arguments(json!({"num_train_epochs": 1})), fixture.path().join("trial"));
    train(&fixture.job(&before, &directory), &mut Runner::default()).unwrap();
    let checkpoint = directory.join("checkpoint-12");
    let run = |values: Value, start: Start<'_>, seed: u64| {
        let arguments = arguments(values);
        let mut runner = Runner::default();
        let job = Job { start, seed, reported: Some(1), ..fixture.job(&arguments, &directory) };
        train(&job, &mut runner).map(|_| runner.reports.len()).map_err(|error| error.to_string())
    };
    let resume = Start::Resume(&checkpoint);
    let error = run(json!({"num_train_epochs": 2, "learning_rate": 0.5}), resume, 7).unwrap_err();
    assert!(error.contains("other arguments: `learning_rate` was 0.01 and is 0.5"), "{error}");
    assert!(run(json!({"num_train_epochs": 2}), resume, 8).unwrap_err().contains("seed 7, not 8"));
    assert!(
        run(json!({"num_train_epochs": 2, "model.hidden_size": 32}), resume, 7)
            .unwrap_err()
            .contains("another shape")
    );
    assert_eq!(run(json!({"num_train_epochs": 2}), resume, 7), Ok(1));
    assert_eq!(
        run(json!({"num_train_epochs": 2, "learning_rate": 0.5}), Start::Clone(&checkpoint), 9),
        Ok(1)
    );
    assert_eq!(
        run(json!({"num_train_epochs": 2, "optim": "sgd"}), Start::Clone(&checkpoint), 9),
        Ok(1)
    );
    assert!(
        run(json!({"num_train_epochs": 0.5}), resume, 7)
            .unwrap_err()
            .contains("at step 12, beyond the 6 steps")
    );
    let missing = fixture.path().join("nowhere");
    assert!(run(json!({}), Start::Resume(&missing), 7).unwrap_err().contains("no such directory"));
}

#[test]
fn every_shape_of_model_trains() {
    let fixture = Fixture::with_rows(60);
    for values in [
        json!({"model.pooling": "cls", "model.activation": "relu"}),
        json!({"model.max_length": 5, "lr_scheduler_type": "cosine"}),
        json!({"model.num_layers": 3, "model.num_heads": 1, "dataloader_drop_last": true}),
    ] {
        let arguments = arguments(values);
        let mut runner = Runner::default();
        assert_eq!(
            train(&fixture.job(&arguments, &fixture.path().join("trial")), &mut runner).unwrap(),
            RunEnd::Finished
        );
        assert!(runner.reports.iter().all(|(_, metrics)| metrics["eval_loss"].is_finite()));
    }
}

#[test]
fn what_a_killed_run_left_half_written_is_removed() {
    let fixture = Fixture::new();
    let (arguments, directory) =
        (arguments(json!({"num_train_epochs": 1})), fixture.path().join("trial"));
    fs::create_dir_all(directory.join(".checkpoint-12.1-0.tmp")).unwrap();
    train(&fixture.job(&arguments, &directory), &mut Runner::default()).unwrap();
    let left: Vec<_> =
        fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["checkpoint-12"]);
}

#[test]
fn a_disk_that_cannot_be_written_is_an_error() {
    let fixture = Fixture::new();
    let arguments = arguments(json!({"num_train_epochs": 1}));
    let blocked = fixture.path().join("file");
    fs::write(&blocked, "").unwrap();
    let error = train(&fixture.job(&arguments, &blocked), &mut Runner::default()).unwrap_err();
    assert!(matches!(error, TrainerError::Io { .. }), "{error}");
}
