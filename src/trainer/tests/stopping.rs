//! Early stopping and learning-rate cuts on a plateau, also across interruptions; log lines.

use super::*;

/// Reports of a run, and how it ended, interrupted and resumed at each of `stops`.
fn run(fixture: &Fixture, values: Value, name: &str, stops: &[usize]) -> (TrainingEnd, Runner) {
    let (arguments, directory) = (arguments(values), fixture.path().join(name));
    let mut all = Runner::default();
    let mut from: Option<PathBuf> = None;
    for stop in stops.iter().copied().map(Some).chain([None]) {
        let mut runner = Runner { stop_after: stop, ..Runner::default() };
        let job = TrainingJob {
            start: from.as_deref().map_or(Start::Fresh, Start::Resume),
            reported: all.reported_steps().last().copied(),
            objective: TrainingObjective { metric: "eval_accuracy".to_owned(), maximize: true },
            ..fixture.job(&arguments, &directory)
        };
        let end = train(&job, &mut runner).unwrap();
        from = runner.checkpoints.last().map(|(_, checkpoint)| checkpoint.clone()).or(from);
        all.reports.append(&mut runner.reports);
        all.logs.append(&mut runner.logs);
        if end != TrainingEnd::Interrupted {
            return (end, all);
        }
    }
    unreachable!("the last part is not interrupted")
}

fn rates(runner: &Runner) -> Vec<f64> {
    runner.reports.iter().map(|(_, metrics)| metrics["learning_rate"]).collect()
}

#[test]
fn early_stopping_ends_a_run_that_gets_no_better_also_when_it_is_resumed() {
    let fixture = Fixture::new();
    // A step so small that accuracy stays where it is: the first evaluation is the best.
    let values = json!({
        "learning_rate": 1e-12, "num_train_epochs": 9, "eval_strategy": "epoch",
        "early_stopping_patience": 2,
    });
    let (end, whole) = run(&fixture, values.clone(), "whole", &[]);
    assert_eq!((end, whole.reports.len()), (TrainingEnd::Finished, 3));
    let line = "early stopping: no better eval_accuracy in 2 evaluations";
    assert!(whole.has_logged(line), "{:?}", whole.logs);
    let (end, parts) = run(&fixture, values.clone(), "parts", &[14, 13]);
    assert_eq!((end, parts.reports.len()), (TrainingEnd::Finished, 3));

    // Such a run ends at once when it is started again from its last checkpoint.
    let (arguments, directory) = (arguments(values), fixture.path().join("whole"));
    let checkpoint = directory.join("checkpoint-36");
    let (start, reported) = (Start::Resume(&checkpoint), Some(3));
    let again = trained(&TrainingJob { start, reported, ..fixture.job(&arguments, &directory) });
    assert!(again.reports.is_empty());
}

#[test]
fn early_stopping_watches_the_metric_for_the_best_model() {
    let fixture = Fixture::new();
    // The loss falls a little in every epoch, while accuracy, the objective, may stay.
    let values = |metric: &str, greater: Value| {
        json!({
            "learning_rate": 1e-3, "num_train_epochs": 6, "eval_strategy": "epoch",
            "lr_scheduler_type": "constant", "early_stopping_patience": 1,
            "metric_for_best_model": metric, "greater_is_better": greater,
        })
    };
    let (_, falling) = run(&fixture, values("loss", Value::Null), "falling", &[]);
    let losses: Vec<f64> =
        falling.reports.iter().map(|(_, metrics)| metrics["eval_loss"]).collect();
    assert!(losses.len() == 6 && losses.is_sorted_by(|one, next| one > next), "{losses:?}");
    // With the other direction the second evaluation is no better than the first.
    let (_, rising) = run(&fixture, values("eval_loss", json!(true)), "rising", &[]);
    assert_eq!(rising.reported_steps(), [1, 2]);
    let line = "early stopping: no better eval_loss in 1 evaluation";
    assert!(rising.has_logged(line), "{:?}", rising.logs);
}

#[test]
fn evaluations_that_only_the_pruner_asked_for_do_not_count() {
    let fixture = Fixture::new();
    let values = json!({
        "learning_rate": 1e-12, "num_train_epochs": 4, "eval_strategy": "steps", "eval_steps": 24,
        "early_stopping_patience": 1,
    });
    // Reports at every epoch (12 steps); evaluations that count at steps 24 and 48.
    let (end, runner) = run(&fixture, values, "trial", &[]);
    assert_eq!((end, runner.reports.len()), (TrainingEnd::Finished, 4));
}

#[test]
fn a_plateau_cuts_the_learning_rate_also_when_the_run_is_resumed() {
    let fixture = Fixture::new();
    let settings = json!({"factor": 0.5, "patience": 0, "threshold": 0.5});
    let values = json!({
        "learning_rate": 1e-3, "num_train_epochs": 5, "eval_strategy": "epoch", "warmup_steps": 0,
        "lr_scheduler_type": "reduce_lr_on_plateau", "lr_scheduler_kwargs": settings
    });
    let (_, whole) = run(&fixture, values.clone(), "whole", &[]);
    // The loss never halves: every evaluation but the first halves the rate of the steps after it.
    assert_eq!(rates(&whole), [1e-3, 1e-3, 5e-4, 2.5e-4, 1.25e-4]);
    let (_, parts) = run(&fixture, values, "parts", &[12, 1, 13, 20]);
    assert_eq!(rates(&parts), rates(&whole));
    assert!(whole.last_report()["eval_loss"] == parts.last_report()["eval_loss"]);
}

#[test]
fn a_plateau_follows_the_metric_for_the_best_model() {
    let fixture = Fixture::new();
    let values = |metric: Value, greater: Value| {
        json!({
            "learning_rate": 1e-3, "num_train_epochs": 3, "eval_strategy": "epoch",
            "warmup_steps": 0, "lr_scheduler_type": "reduce_lr_on_plateau",
            "lr_scheduler_kwargs": {"factor": 0.5, "patience": 0, "threshold": 0},
            "metric_for_best_model": metric, "greater_is_better": greater,
        })
    };
    // The loss falls in every epoch.
    let (_, loss) = run(&fixture, values(Value::Null, Value::Null), "loss", &[]);
    assert_eq!(rates(&loss), [1e-3, 1e-3, 1e-3]);
    let (_, other) = run(&fixture, values("loss".into(), json!(true)), "other", &[]);
    assert_eq!(rates(&other), [1e-3, 1e-3, 5e-4]);
}

#[test]
fn log_lines_come_when_they_are_asked_for() {
    let fixture = Fixture::new();
    let steps = |values: Value| -> Vec<String> {
        let (_, runner) = run(&fixture, values, "trial", &[]);
        runner
            .logs
            .iter()
            .filter(|line| line.contains(" loss ") && line.contains("grad_norm"))
            .map(|line| line.split(' ').nth(1).unwrap().to_owned())
            .collect()
    };
    assert_eq!(steps(json!({"logging_steps": 10})), ["10/24", "20/24"]);
    let first = json!({"logging_steps": 10, "logging_first_step": true});
    assert_eq!(steps(first), ["1/24", "10/24", "20/24"]);
    assert_eq!(steps(json!({"logging_steps": 0.4})), ["10/24", "20/24"]);
    assert_eq!(steps(json!({"logging_strategy": "epoch"})), ["12/24", "24/24"]);
    assert!(steps(json!({"logging_strategy": "no"})).is_empty());
    let values = json!({"eval_on_start": true, "num_train_epochs": 1});
    let (_, runner) = run(&fixture, values, "start", &[]);
    assert!(runner.has_logged("step 0 epoch 0.00 eval_accuracy"), "{:?}", runner.logs);
    assert_eq!(runner.reports.len(), 1);
}
