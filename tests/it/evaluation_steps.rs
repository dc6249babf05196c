//! Studies of the built-in trainer that evaluate by optimiser steps, and the unit of their steps.

use std::path::Path;

use crate::harness::training::{small_study, trials};
use crate::harness::{assert_done, assert_names, assert_says, run};

/// Sets that make `small.toml` evaluate by steps, ahead of `more`.
fn by_steps<'a>(verb: &[&'a str], more: &[&'a str]) -> Vec<&'a str> {
    let sets = ["trainer.eval_strategy=steps", "trainer.eval_steps=5", "budget.trials=2"];
    let all = sets.iter().chain(more).flat_map(|set| ["--set", *set]);
    verb.iter().copied().chain(all).collect()
}

fn step_of_first_trial(directory: &Path) -> u64 {
    trials(directory)[0]["last_step"].as_u64().unwrap()
}

#[test]
fn a_new_study_that_evaluates_by_steps_counts_steps() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    small_study(directory, "");
    let checked = run(directory, &by_steps(&["check", "small.toml"], &[]));
    assert_done(&checked);
    assert_names(&checked.out, &["note      steps are optimiser steps, since `eval_strategy = "]);
    let first = run(directory, &by_steps(&["run", "small.toml", "--plain"], &[]));
    assert_done(&first);
    assert_names(&first.err, &["note: steps are optimiser steps"]);
    let curve = run(directory, &["curves", "small", "0", "--table"]);
    let mut steps = curve.out.lines().filter_map(|line| line.split_whitespace().next());
    assert!(steps.any(|step| step == "5"), "every evaluation is reported: {}", curve.out);
    // The unit of the store is that of the file, which does not name it.
    let again = run(directory, &by_steps(&["run", "small.toml", "--plain"], &[]));
    assert_done(&again);
    assert!(!again.err.contains("note: "), "{}", again.err);
    let epochs = run(directory, &by_steps(&["run", "small.toml"], &["study.step=epoch"]));
    assert_eq!(epochs.code, 6, "{}", epochs.err);
}

#[test]
fn a_study_that_began_with_epochs_keeps_them() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    small_study(directory, "[pruner]\ntype = \"asha\"\n");
    let epochs = ["study.step=epoch"];
    let begun = run(directory, &by_steps(&["run", "small.toml", "--plain"], &epochs));
    assert_done(&begun);
    assert_says(&begun, &["evaluations between whole epochs are only logged, since steps are ep"]);
    assert_eq!(step_of_first_trial(directory), 3);
    let more = ["budget.trials=3"];
    let continued = run(directory, &by_steps(&["run", "small.toml", "--plain"], &more));
    assert_done(&continued);
    assert_says(&continued, &["note: the study started with epochs as its steps, and keeps them"]);
    assert!(trials(directory).len() > 2);
    assert_done(&run(directory, &by_steps(&["check", "small.toml"], &more)));
    assert_done(&run(directory, &["verify", "small"]));
    let diff = run(directory, &by_steps(&["diff", "small.toml"], &more));
    assert_names(&diff.out, &["is the study `small` as it is stored"]);
    // A new study has to say what the pruner counts.
    let fork = ["run", "small.toml", "--fork", "other"];
    let refused = run(directory, &by_steps(&fork, &[]));
    assert_eq!(refused.code, 2);
    assert_says(&refused, &["`asha` counts epochs or optimiser steps", "write `step = \"step\"`"]);
}

#[test]
fn a_training_without_a_report_says_what_reports_its_evaluations() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    small_study(directory, "");
    let stops = ["trainer.early_stopping_patience=1", "trainer.early_stopping_threshold=2"];
    let in_epochs = [&stops[..], &["study.step=epoch"]].concat();
    let searched = run(directory, &by_steps(&["run", "small.toml", "--plain"], &in_epochs));
    let why = "the training ended before a whole epoch was evaluated";
    assert_says(&searched, &[why, "`step = \"step\"` under [study]"]);
    assert!(!searched.err.contains("[command.metrics]"), "{}", searched.err);
    let train = ["train", "small.toml", "-o", "model"];
    let failed = run(directory, &by_steps(&train, &in_epochs));
    assert_says(&failed, &["error: the training reported no value: it ended before a whole epoch"]);
    assert_says(&failed, &["`step = \"step\"` under [study]"]);
    let trained = run(directory, &by_steps(&train, &stops));
    assert_done(&trained);
    assert!(directory.join("model/model.safetensors").is_file());
}
