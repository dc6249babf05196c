//! `hpsearch train`: one model on all rows, and with other arguments than its file has.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::harness::training::small_study;
use crate::harness::{assert_done, assert_names, assert_says, run};

/// A study like that of `small.toml` that holds its validation rows out, exported to `model`.
fn exported(directory: &Path) {
    let path = small_study(directory, "");
    let text = fs::read_to_string(&path).unwrap();
    let (before, rest) = text.split_once("validation = ").unwrap();
    let (_, after) = rest.split_once('\n').unwrap();
    fs::write(&path, format!("{before}{after}")).unwrap();
    let few = ["--set", "budget.trials=1", "--set", "trainer.num_train_epochs=1"];
    assert_done(&run(directory, &[&["run", "small.toml", "--plain"], &few[..]].concat()));
    assert_done(&run(directory, &["export", "small", "-o", "model"]));
}

fn metrics(directory: &Path, model: &str) -> Value {
    let path = directory.join(model).join("metrics.json");
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

#[test]
fn a_model_is_trained_on_all_rows_without_evaluations() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    exported(directory);
    let recipe = fs::read_to_string(directory.join("model/best.toml")).unwrap();
    let edited = recipe.replace("[data]\n", "[data]\nvalidation_split = 0\n");
    assert_ne!(recipe, edited);
    fs::write(directory.join("all.toml"), &edited).unwrap();
    let logged = "trainer.logging_steps=2";
    let trained = run(directory, &["train", "all.toml", "-o", "all", "--set", logged]);
    assert_done(&trained);
    assert_says(&trained, &["data: ", "step 2: loss ", "train_loss ", "; written to all"]);
    assert!(!trained.err.contains("before"), "{}", trained.err);
    let measured = metrics(directory, "all");
    let names: Vec<&String> = measured["metrics"].as_object().unwrap().keys().collect();
    assert!(names.iter().all(|name| !name.starts_with("eval_")), "{names:?}");
    assert!(names.iter().any(|name| *name == "train_loss"), "{names:?}");
    let again = run(directory, &["train", "all/best.toml", "-o", "again"]);
    assert_done(&again);
    assert_says(&again, &[", as before; written to again"]);
    let weights = |model: &str| fs::read(directory.join(model).join("model.safetensors")).unwrap();
    assert!(weights("all") == weights("again"));
    assert!(weights("all") != weights("model"));
    // The last checkpoint, not the best; early stopping has nothing to watch.
    let patience = edited.replace("[trainer]\n", "[trainer]\nearly_stopping_patience = 2\n");
    fs::write(directory.join("stops.toml"), patience).unwrap();
    let refused = run(directory, &["train", "stops.toml", "-o", "stops"]);
    assert_eq!(refused.code, 2, "{}", refused.err);
    assert_says(&refused, &["`early_stopping_patience` depends on evaluations", "leave it out"]);
}

#[test]
fn a_best_toml_is_trained_with_other_values_by_set() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    exported(directory);
    let sets =
        ["params.learning_rate=0.004", "trainer.weight_decay=0.5", "data.validation_split=0"];
    let sets: Vec<&str> = sets.iter().flat_map(|set| ["--set", *set]).collect();
    let train = |more: &[&str]| run(directory, &[&["train", "model/best.toml"], more].concat());
    assert_done(&train(&[&["-o", "set"], &sets[..]].concat()));
    // The same as the edited file.
    let recipe = fs::read_to_string(directory.join("model/best.toml")).unwrap();
    let trained = fs::read_to_string(directory.join("set/best.toml")).unwrap();
    let [before, after] = [&recipe, &trained].map(|text| text.parse::<toml::Table>().unwrap());
    assert_eq!(after["params"]["learning_rate"].as_float(), Some(0.004));
    assert_eq!(after["params"]["model.dropout"], before["params"]["model.dropout"]);
    assert_eq!(after["trainer"]["learning_rate"].as_float(), Some(0.004));
    assert_eq!(after["trainer"]["weight_decay"].as_float(), Some(0.5));
    assert_eq!(after["metric"].as_str(), Some("train_loss"));
    assert_eq!(after["data"]["train"], before["data"]["train"]);
    assert_names(&trained, &["\"data.validation_split=0\""]);
    let again = run(directory, &["train", "set/best.toml", "-o", "again"]);
    assert_done(&again);
    assert_says(&again, &[", as before; written to again"]);
    let file = directory.join("rows.csv");
    fs::copy(Path::new(env!("CARGO_MANIFEST_DIR")).join("studies/data/validation.csv"), &file)
        .unwrap();
    let beside = format!("data.validation={}", file.display());
    assert_done(&train(&["-o", "beside", "--set", &beside]));
    let split = ["train", "beside/best.toml", "-o", "split", "--set", "data.validation_split=0"];
    let split = run(directory, &split);
    assert_done(&split);
    assert_says(&split, &["note: `data.validation` of the file is replaced", "train_loss "]);
    for (set, said) in [
        ("trainer.learnin_rate=1", "did you mean `learning_rate`?"),
        ("params.weight_decay=1", "it was not searched: write `--set trainer.weight_decay=...`"),
        ("study.seed=1", "`study` is no table of a best.toml that can be overridden"),
    ] {
        let refused = train(&["--set", set]);
        assert_eq!(refused.code, 2, "{}", refused.err);
        assert_says(&refused, &[said]);
    }
}

#[test]
fn a_study_that_would_never_report_its_metric_is_refused_and_one_training_of_it_is_not() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    let path = small_study(directory, "");
    // It replaces the file of validation rows.
    let held_out = run(directory, &["check", "small.toml", "--set", "data.validation_split=0.2"]);
    assert_done(&held_out);
    assert_names(&held_out.out, &[" validation and 169 test rows"]);
    assert!(!held_out.out.contains("1026 training"), "{}", held_out.out);
    let text = fs::read_to_string(&path).unwrap();
    let (before, rest) = text.split_once("validation = ").unwrap();
    let (_, after) = rest.split_once('\n').unwrap();
    fs::write(&path, format!("{before}validation_split = 0\n{after}")).unwrap();
    for verb in ["check", "run"] {
        let refused = run(directory, &[verb, "small.toml"]);
        assert_eq!(refused.code, 2, "{verb}: {}", refused.err);
        assert_says(
            &refused,
            &["`eval_accuracy` would never be reported", "leave `validation_split` out of [data]"],
        );
    }
    let one = ["--set", "trainer.num_train_epochs=1"];
    let trained = run(directory, &[&["train", "small.toml", "-o", "one"], &one[..]].concat());
    assert_done(&trained);
    // The test file is still measured at the export of a study that searches for the training loss.
    let searched = ["study.metric=train_loss", "study.direction=minimize", "budget.trials=1"];
    let sets: Vec<&str> = searched.iter().flat_map(|set| ["--set", *set]).collect();
    assert_done(&run(directory, &[&["run", "small.toml", "--plain"], &one[..], &sets].concat()));
    assert_done(&run(directory, &["export", "small", "-o", "searched"]));
    let measured = metrics(directory, "searched");
    assert!(measured["metrics"]["test_accuracy"].is_f64(), "{measured}");
    assert_names(&fs::read_to_string(directory.join("one/README.md")).unwrap(), &["`train_loss`"]);
}
