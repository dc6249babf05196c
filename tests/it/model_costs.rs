//! What a model costs, as objectives and limits of studies of the built-in trainer.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::harness::training::{
    kill_small, run_small, small_study, start_small, trials, wait_for_reports,
};
use crate::harness::{assert_done, assert_names, run};

/// The small study, for accuracy and size, of models of two widths.
fn accuracy_and_size(directory: &Path, rest: &str) {
    let path = small_study(directory, &format!("[sampler]\ntype = \"random\"\n{rest}"));
    let text = fs::read_to_string(&path).unwrap();
    let one = "metric = \"eval_accuracy\"\n        direction = \"maximize\"\n        seed = 3\n";
    let size = "\"model.hidden_size\" = 32\n";
    assert!(text.contains(one) && text.contains(size), "{text}");
    let several = "seed = 3\n[[study.objective]]\nmetric = \"n_params\"\ndirection = \"minimize\"\n\
                   [[study.objective]]\nmetric = \"eval_accuracy\"\ndirection = \"maximize\"\n";
    let text = text.replace(one, several).replace(size, "").replace(
        "[space]\n",
        "early_stopping_patience = 2\neval_strategy = \"epoch\"\n\
         [[enqueue]]\n\"model.hidden_size\" = 16\n[[enqueue]]\n\"model.hidden_size\" = 32\n\
         [space]\n\"model.hidden_size\" = [16, 32]\n",
    );
    fs::write(path, text).unwrap();
}

fn values(trial: &Value) -> [f64; 2] {
    [0, 1].map(|index| trial["values"][index].as_f64().unwrap())
}

#[test]
fn accuracy_and_size_of_trained_models_are_a_front_through_a_kill_and_an_export() {
    let whole = tempfile::tempdir().unwrap();
    accuracy_and_size(whole.path(), "");
    run_small(whole.path());
    let expected = trials(whole.path());
    let [small, large] = [16, 32].map(|width| {
        let is_of = |trial: &&Value| trial["params"]["model.hidden_size"] == width;
        values(expected.iter().find(is_of).expect("both widths"))[0]
    });
    assert!(small < large && small > 16.0 * 16.0, "{small} {large}");

    let site = tempfile::tempdir().unwrap();
    let directory = site.path();
    accuracy_and_size(directory, "");
    let running = start_small(directory);
    wait_for_reports(directory, 4);
    kill_small(running, directory);
    run_small(directory);
    assert_eq!(trials(directory), expected);
    let verified = run(directory, &["verify", "small"]);
    assert_names(&verified.out, &["repeat exactly"]);

    let best: Value = run(directory, &["best", "small", "--json"]).json();
    let metrics = &best["trial"]["metrics"];
    let [size, _] = values(&best["trial"]);
    assert_eq!(metrics["n_params"].as_f64(), Some(size));
    assert_eq!(metrics["model_bytes"].as_f64(), Some(4.0 * size));
    assert!(metrics["peak_memory"].as_f64().unwrap() > 4.0 * size);
    assert!(metrics["predict_ms"].as_f64().unwrap() > 0.0);
    assert_done(&run(directory, &["export", "small", "-o", "out"]));
    let bytes = fs::metadata(directory.join("out/model.safetensors")).unwrap().len();
    let header = bytes as f64 - 4.0 * size;
    assert!((0.0..20_000.0).contains(&header), "{bytes} bytes for {size} weights");
}

#[test]
fn a_limit_over_the_size_keeps_larger_models_from_the_front() {
    let site = tempfile::tempdir().unwrap();
    let limits = "[[constraint]]\nlimit = \"n_params <= 60000 and predict_ms < 1e6\"\n";
    accuracy_and_size(site.path(), limits);
    let text = fs::read_to_string(site.path().join("small.toml")).unwrap();
    let text = text.replace("num_train_epochs = 3", "num_train_epochs = 1");
    fs::write(site.path().join("small.toml"), text).unwrap();
    run_small(site.path());
    let best: Value = run(site.path(), &["best", "small", "--json"]).json();
    let front = best["front"].as_array().unwrap();
    let all = trials(site.path());
    assert!(!front.is_empty() && all.iter().any(|trial| values(trial)[0] > 6e4), "{all:?}");
    assert!(front.iter().all(|trial| values(trial)[0] <= 6e4), "{front:?}");
}
