//! What a training run reports, and that interruptions leave no trace in it.

use super::super::weights::Weights;
use super::*;

/// The reports without times.
fn timeless(reports: &Reports) -> Reports {
    let mut reports = reports.clone();
    for (_, metrics) in &mut reports {
        for name in ["steps_per_second", "predict_ms"] {
            metrics.remove(name);
        }
    }
    reports
}

fn weights(directory: &Path) -> [Vec<u8>; 2] {
    ["model.safetensors", "optimizer.safetensors"]
        .map(|file| fs::read(directory.join(file)).unwrap())
}

#[test]
fn a_run_reports_checkpoints_evaluates_and_predicts() {
    let fixture = Fixture::new();
    let (arguments, directory) =
        (arguments(json!({"num_train_epochs": 3})), fixture.path().join("trial"));
    let runner = trained(&fixture.job(&arguments, &directory));
    assert_eq!(runner.reported_steps(), [1, 2, 3]);
    let last = runner.last_report();
    let names: Vec<&str> = last.keys().map(String::as_str).collect();
    let expected = "epoch eval_accuracy eval_f1 eval_loss eval_macro_f1 eval_matthews_correlation \
                    grad_norm learning_rate model_bytes n_params predict_ms steps_per_second \
                    train_loss weight_norm";
    assert_eq!(names.join(" "), expected);
    assert_eq!(last["epoch"], 3.0);

    let checkpoint = runner.last_checkpoint();
    let weights = Weights::open(checkpoint).unwrap();
    let squares = |name: &str| {
        weights.values(name).unwrap().iter().map(|number| f64::from(*number).powi(2)).sum::<f64>()
    };
    let norm = weights.names().map(squares).sum::<f64>().sqrt();
    assert!((last["weight_norm"] / norm - 1.0).abs() < 1e-5, "{last:?} {norm}");
    let stored = |name: &str| weights.values(name).unwrap().len();
    let n_params: usize = weights.names().map(stored).sum();
    assert_eq!(last["n_params"], n_params as f64);
    assert_eq!(last["model_bytes"], 4.0 * n_params as f64);
    assert!(last["predict_ms"] > 0.0, "{last:?}");
    assert!(last["grad_norm"] > 0.0, "{last:?}");
    assert_eq!(checkpoint, &directory.join("checkpoint-36"));
    let measured = evaluated(checkpoint, &fixture.data);
    for name in ["eval_accuracy", "eval_loss", "eval_macro_f1"] {
        assert!((measured[name] - last[name]).abs() < 1e-6, "{name}");
    }
    let predictions = predicted(checkpoint, &["a very good film", ""]).unwrap();
    let labels = predictions[0].labels();
    assert_eq!(labels.len(), 3);
    assert!((labels.iter().map(|label| label.score).sum::<f64>() - 1.0).abs() < 1e-9);
    assert!(labels[0].score >= labels[1].score);
}

#[test]
fn a_keyword_is_learnt_in_seconds() {
    let fixture = Fixture::with_rows(300);
    let arguments = arguments(json!({
        "num_train_epochs": 4, "per_device_train_batch_size": 8, "gradient_accumulation_steps": 1,
        "label_smoothing_factor": 0, "model.hidden_size": 32
    }));
    let runner = trained(&fixture.job(&arguments, &fixture.path().join("trial")));
    assert_eq!(runner.reports.len(), 4);
    assert!(runner.last_report()["eval_accuracy"] > 0.95, "{:?}", runner.reports);
    let best = best_labels(runner.last_checkpoint(), &["the book was bad", "so good"]);
    assert_eq!(best, ["negative", "positive"]);
}

#[test]
fn interrupted_and_resumed_equals_uninterrupted_bit_for_bit() {
    let fixture = Fixture::new();
    let averaged = json!({"ema_decay": 0.7});
    let averaged_adapters =
        json!({"ema_decay": 0.7, "lora_r": 2, "lora_target_modules": "all-linear"});
    let named = ["adamw", "sgd", "adafactor", "lion_32bit", "rmsprop", "schedule_free_adamw"]
        .map(|optim| (optim, json!({"optim": optim})));
    let quantised =
        json!({"optim": "adamw_8bit", "model.hidden_size": 64, "model.intermediate_size": 64});
    let others = [("ema", averaged), ("ema-lora", averaged_adapters), ("8-bit", quantised)];
    for (optimiser, chosen) in named.into_iter().chain(others) {
        let arguments =
            arguments(merged(chosen, json!({"eval_strategy": "steps", "eval_steps": 5})));
        let whole = fixture.path().join(format!("{optimiser}-whole"));
        let runner = trained(&fixture.job(&arguments, &whole));
        // 12 steps an epoch: at the very start, within the first epoch, at its end, within the
        // second, before the last step.
        for step in [0, 1, 5, 12, 17, 23] {
            let parts = fixture.path().join(format!("{optimiser}-{step}"));
            let first = interrupted(&fixture.job(&arguments, &parts), step);
            let checkpoint = first.last_checkpoint();
            assert!(checkpoint.ends_with(format!("checkpoint-{step}")));
            let (start, reported) =
                (Start::Resume(checkpoint), first.reported_steps().last().copied());
            let second =
                trained(&TrainingJob { start, reported, ..fixture.job(&arguments, &parts) });
            let reports = [first.reports.clone(), second.reports].concat();
            assert_eq!(timeless(&reports), timeless(&runner.reports), "interrupted at {step}");
            let [whole, parts] = [&whole, &parts].map(|path| weights(&path.join("checkpoint-24")));
            assert!(whole == parts, "{optimiser} interrupted at {step}");
        }
    }
}

#[test]
fn what_an_interruption_saves_has_the_step_of_the_last_report() {
    let fixture = Fixture::new();
    // 12 steps an epoch.
    let saved = |evaluations: Value, step: usize| {
        let arguments = arguments(merged(json!({"num_train_epochs": 4}), evaluations));
        let directory = TempDir::new().unwrap();
        let (step_unit, milestones) = (StepUnit::Epoch, Milestones::default());
        let job =
            TrainingJob { step_unit, milestones, ..fixture.job(&arguments, directory.path()) };
        interrupted(&job, step).checkpoints.last().unwrap().0
    };
    let at_the_end = json!({"eval_strategy": "no"});
    assert_eq!([5, 17, 30].map(|step| saved(at_the_end.clone(), step)), [0, 0, 0]);
    let each_epoch = json!({"eval_strategy": "epoch"});
    assert_eq!([5, 17, 30].map(|step| saved(each_epoch.clone(), step)), [0, 1, 2]);
}

#[test]
fn a_report_the_runner_did_not_receive_is_given_again_and_no_other() {
    let fixture = Fixture::new();
    let arguments = arguments(json!({}));
    let whole = timeless(&trained(&fixture.job(&arguments, &fixture.path().join("whole"))).reports);
    let directory = fixture.path().join("parts");
    let mut first = Runner { gone_at: Some(1), ..Runner::default() };
    let end = train(&fixture.job(&arguments, &directory), &mut first);
    assert!(matches!(end, Err(TrainerError::Host(_))));
    let resume = |reported: Option<u64>| {
        let runner = Runner { checkpoints: first.checkpoints.clone(), ..Runner::default() };
        let start = Start::Resume(first.last_checkpoint());
        let job = TrainingJob { start, reported, ..fixture.job(&arguments, &directory) };
        timeless(&trained_until(TrainingEnd::Finished, &job, runner).reports)
    };
    assert_eq!(resume(None), whole);
    assert_eq!(resume(Some(1)), whole[1..]);
}

#[test]
fn verdicts_and_until_end_a_run_after_their_report() {
    let fixture = Fixture::new();
    let arguments = arguments(json!({"num_train_epochs": 3}));
    let directory = fixture.path().join("trial");
    let run = |verdict, until, start, end| {
        let runner = Runner { verdicts: BTreeMap::from([(2, verdict)]), ..Runner::default() };
        let job =
            TrainingJob { until, start, reported: Some(1), ..fixture.job(&arguments, &directory) };
        trained_until(end, &job, runner).reported_steps()
    };
    assert_eq!(run(HostVerdict::Stop, None, Start::Fresh, TrainingEnd::Stopped), [1, 2]);
    assert_eq!(run(HostVerdict::Pause, None, Start::Fresh, TrainingEnd::Paused), [1, 2]);
    let run = |until, start, end| run(HostVerdict::Continue, Some(until), start, end);
    assert_eq!(run(1, Start::Fresh, TrainingEnd::Paused), [1]);
    let checkpoint = directory.join("checkpoint-12");
    assert_eq!(run(2, Start::Resume(&checkpoint), TrainingEnd::Paused), [2]);
    assert_eq!(run(3, Start::Resume(&checkpoint), TrainingEnd::Finished), [2, 3]);
}

#[test]
fn accumulated_small_batches_equal_one_large_batch() {
    let fixture = Fixture::new();
    let losses = |batch: usize, accumulation: usize| {
        let arguments = arguments(json!({
            "per_device_train_batch_size": batch, "gradient_accumulation_steps": accumulation,
            "model.dropout": 0, "model.attention_dropout": 0
        }));
        trained(&fixture.job(&arguments, &fixture.path().join(format!("{batch}")))).losses()
    };
    // 96 rows: the last group of 5 x 4 rows is incomplete, and its micro-batches are uneven for 7 x
    // 3.
    assert_all_close(&losses(20, 1), &losses(4, 5), 2e-5);
    assert_all_close(&losses(21, 1), &losses(7, 3), 2e-5);
}

#[test]
fn fewer_rows_at_once_make_the_same_steps_and_a_run_can_change_over_in_the_middle() {
    let fixture = Fixture::new();
    // No dropout: its masks are drawn for each micro-batch.
    let arguments = arguments(json!({
        "per_device_train_batch_size": 10, "model.dropout": 0, "model.attention_dropout": 0,
    }));
    let whole = trained(&fixture.job(&arguments, &fixture.path().join("whole")));
    let directory = fixture.path().join("parts");
    let first = interrupted(&fixture.job(&arguments, &directory), 3);
    let second = trained(&TrainingJob {
        start: Start::Resume(first.last_checkpoint()),
        rows_at_once: Some(RowsAtOnce { train: 3, eval: 5 }),
        ..fixture.job(&arguments, &directory)
    });
    assert_all_close(&whole.losses(), &second.losses(), 2e-5);
}

#[test]
fn a_run_that_diverges_says_where() {
    let fixture = Fixture::new();
    let arguments = arguments(
        json!({"optim": "sgd", "learning_rate": 1e30, "max_grad_norm": 0, "warmup_steps": 0}),
    );
    let directory = fixture.path().join("trial");
    let end = train(&fixture.job(&arguments, &directory), &mut Runner::default()).unwrap();
    let TrainingEnd::Diverged { step, what } = end else { panic!("{end:?}") };
    assert!(step > 1 && what.starts_with("the "), "{step} {what}");
    let culprits = ["is no longer finite", "the first gradient that is not finite"];
    assert!(culprits.iter().any(|culprit| what.contains(culprit)), "{what}");
}

#[test]
fn a_damaged_checkpoint_is_refused_by_the_name_of_its_file() {
    let fixture = Fixture::new();
    let arguments = arguments(json!({"num_train_epochs": 1}));
    let directory = fixture.path().join("trial");
    trained(&fixture.job(&arguments, &directory));
    let checkpoint = directory.join("checkpoint-12");
    let job =
        TrainingJob { start: Start::Resume(&checkpoint), ..fixture.job(&arguments, &directory) };
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
        assert_contains(&problem_of(&job), &format!("`{file}` is damaged"));
        fs::remove_file(&path).unwrap();
        assert_contains(&problem_of(&job), &format!("`{file}` cannot be read"));
        fs::write(&path, sound).unwrap();
    }
    fs::remove_file(checkpoint.join("digests.json")).unwrap();
    assert_contains(&problem_of(&job), "`digests.json` is missing");
    predicted(&checkpoint, &["good"]).unwrap();
}

#[test]
fn a_checkpoint_of_another_run_is_refused_unless_it_is_cloned() {
    let fixture = Fixture::new();
    let (before, directory) =
        (arguments(json!({"num_train_epochs": 1})), fixture.path().join("trial"));
    trained(&fixture.job(&before, &directory));
    let checkpoint = directory.join("checkpoint-12");
    let run = |values: Value, start: Start<'_>, seed: u64| {
        let arguments = arguments(merged(json!({"num_train_epochs": 2}), values));
        let mut runner = Runner::default();
        let job =
            TrainingJob { start, seed, reported: Some(1), ..fixture.job(&arguments, &directory) };
        train(&job, &mut runner).map(|_| runner.reports.len()).map_err(|error| error.to_string())
    };
    let missing = fixture.path().join("nowhere");
    let (resume, clone) = (Start::Resume(&checkpoint), Start::Clone(&checkpoint));
    let others = "other arguments: `learning_rate` was 0.01 and is 0.5";
    for (values, start, seed, expected) in [
        (json!({"learning_rate": 0.5}), resume, 7, others),
        (json!({}), resume, 8, "seed 7, not 8"),
        (json!({"model.hidden_size": 32}), resume, 7, "another shape"),
        (json!({"num_train_epochs": 0.5}), resume, 7, "at step 12, beyond the 6 steps"),
        (json!({}), Start::Resume(&missing), 7, "no such directory"),
    ] {
        assert_contains(&run(values, start, seed).unwrap_err(), expected);
    }
    assert_eq!(run(json!({}), resume, 7), Ok(1));
    assert_eq!(run(json!({"learning_rate": 0.5}), clone, 9), Ok(1));
    assert_eq!(run(json!({"optim": "sgd"}), clone, 9), Ok(1));
}

#[test]
fn every_shape_of_model_trains() {
    let fixture = Fixture::with_rows(60);
    for values in [
        json!({"model.pooling": "cls", "model.activation": "relu"}),
        json!({"model.max_length": 5, "lr_scheduler_type": "cosine"}),
        json!({"model.num_layers": 3, "model.num_heads": 1, "dataloader_drop_last": true}),
        json!({"model.model_type": "electra"}),
        json!({"model.model_type": "albert", "model.num_layers": 3}),
        json!({"model.model_type": "deberta-v2", "model.max_length": 6}),
    ] {
        let runner = trained(&fixture.job(&arguments(values), &fixture.path().join("trial")));
        assert!(runner.reports.iter().all(|(_, metrics)| metrics["eval_loss"].is_finite()));
    }
}

#[test]
fn incomplete_checkpoints_of_a_killed_run_are_removed() {
    let fixture = Fixture::new();
    let directory = fixture.path().join("trial");
    fs::create_dir_all(directory.join(".checkpoint-12.1-0.tmp")).unwrap();
    trained(&fixture.job(&arguments(json!({"num_train_epochs": 1})), &directory));
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

#[test]
fn a_run_that_evaluates_at_shares_of_its_steps_resumes_exactly() {
    let fixture = Fixture::new();
    let arguments = arguments(json!({
        "eval_strategy": "steps", "eval_steps": 0.15, "logging_steps": 0.07,
        "lr_scheduler_type": "cosine",
    }));
    let job = |directory: &'static str| TrainingJob {
        step_unit: StepUnit::Step,
        milestones: Milestones::default(),
        ..fixture.job(&arguments, Path::new(directory))
    };
    let (whole, parts) = (fixture.path().join("whole"), fixture.path().join("parts"));
    let runner = trained(&TrainingJob { directory: &whole, ..job("") });
    // 3.6 of 24 steps, rounded up.
    assert_eq!(runner.reported_steps(), [4, 8, 12, 16, 20, 24]);
    let first = interrupted(&TrainingJob { directory: &parts, ..job("") }, 10);
    let start = Start::Resume(first.last_checkpoint());
    let reported = first.reported_steps().last().copied();
    let second = trained(&TrainingJob { start, reported, directory: &parts, ..job("") });
    let reports = [first.reports.clone(), second.reports.clone()].concat();
    assert_eq!(timeless(&reports), timeless(&runner.reports));
    assert!(second.weights() == runner.weights());
}
