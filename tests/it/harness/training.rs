//! The quickstart's data with a small study over it, for the tests of the built-in trainer.

use std::fs;
use std::path::{Path, PathBuf};

use hpsearch::runner::processes;
use serde_json::Value;

use super::process::{Running, assert_done, command, run, wait_until};

/// The quickstart's data with a small study over it, in `directory`.
pub fn small_study(directory: &Path, extra: &str) -> PathBuf {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("studies/data");
    let study = format!(
        r#"
        [study]
        name = "small"
        metric = "eval_accuracy"
        direction = "maximize"
        seed = 3
        [budget]
        trials = 4
        [data]
        train = "{data}/train.csv"
        validation = "{data}/validation.csv"
        test = "{data}/test.csv"
        [trainer]
        task = "text-classification"
        num_train_epochs = 3
        per_device_train_batch_size = 32
        "model.hidden_size" = 32
        "model.num_layers" = 1
        "model.num_heads" = 2
        [space]
        learning_rate = {{ float = [1e-3, 2e-2], log = true }}
        "model.dropout" = {{ float = [0.0, 0.3] }}
        [devices]
        use = ["cpu"]
        trials_per_device = 1
        {extra}
        "#,
        data = data.display()
    );
    let path = directory.join("small.toml");
    fs::write(&path, study).unwrap();
    path
}

/// Runs the study of `small.toml` to its end.
pub fn run_small(directory: &Path) {
    assert_done(&run(directory, &["run", "small.toml", "--plain"]));
}

pub fn start_small(directory: &Path) -> Running {
    Running::start(command(directory, &["run", "small.toml", "--plain", "-q"]))
}

/// Kills a run, and waits until its workers are gone, too.
pub fn kill_small(mut running: Running, directory: &Path) {
    running.kill();
    wait_until("its workers are gone", || workers(directory) == 0);
}

/// The trials of a study, without times and attempts.
pub fn trials(directory: &Path) -> Vec<Value> {
    let listed = run(directory, &["trials", "--sort", "number", "--json"]);
    assert_done(&listed);
    let json: Value = listed.json();
    let mut trials = json["trials"].as_array().unwrap().clone();
    for trial in &mut trials {
        for key in ["seconds", "attempts", "reason"] {
            trial.as_object_mut().unwrap().remove(key);
        }
        for key in ["peak_memory", "predict_ms", "steps_per_second"] {
            trial["metrics"].as_object_mut().unwrap().remove(key);
        }
    }
    trials
}

/// Waits until so many reports are stored.
pub fn wait_for_reports(directory: &Path, wanted: i64) {
    let count = || -> Option<i64> {
        let path = directory.join("runs/hpsearch.db");
        let store =
            rusqlite::Connection::open_with_flags(path, rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY)
                .ok()?;
        store.query_row("SELECT count(*) FROM trial_intermediate_values", [], |row| row.get(0)).ok()
    };
    wait_until(&format!("{wanted} reports are stored"), || count().unwrap_or(0) >= wanted);
}

/// Processes that belong to trials of the small study.
pub fn workers(directory: &Path) -> usize {
    let store = directory.canonicalize().unwrap().join("runs/hpsearch.db");
    processes::with_environment(&[
        format!("HPSEARCH_STORE={}", store.display()),
        "HPSEARCH_STUDY=small".to_owned(),
    ])
    .len()
}
