//! Control of built-in trials from another terminal: paused, resumed, moved, extended or killed,
//! they end with the same result.

use std::fs;
use std::path::{Path, PathBuf};

use hpsearch::storage::StorageReader as _;
use hpsearch::storage::any::AnyReader;
use hpsearch::study::event::{AttemptEvent, Event, Seq, TrialEvent};
use serde_json::Value;

use crate::harness::training::{
    kill_small, run_small, small_study, start_small, trials, wait_for_reports, workers,
};
use crate::harness::{assert_done, assert_names, run, wait_until};

/// One trial after the other, each of six epochs, whatever the others do.
const STEADY: &str = "[sampler]\ntype = \"random\"\n[checkpoints]\nkeep = \"all\"\n";

/// The small study, each epoch of which is reported.
fn steady(directory: &Path, epochs: u32) {
    let path = small_study(directory, STEADY);
    let file = fs::read_to_string(&path).unwrap();
    let file = file.replace(
        "num_train_epochs = 3",
        &format!(
            "num_train_epochs = {epochs}\nlr_scheduler_type = \"constant\"\n\
             eval_strategy = \"epoch\""
        ),
    );
    fs::write(path, file.replace("trials = 4", "trials = 2")).unwrap();
}

/// The latest weights of each of two trials.
fn weights(directory: &Path) -> Vec<(String, Vec<u8>)> {
    let of = |trial: u32| {
        let files = directory.join(format!("runs/files/small/trial-{trial}"));
        let step = |path: &PathBuf| {
            path.file_name()?.to_str()?.strip_prefix("checkpoint-")?.parse::<u64>().ok()
        };
        let newest = fs::read_dir(files)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .max_by_key(step)
            .unwrap();
        (
            newest.file_name().unwrap().to_str().unwrap().to_owned(),
            fs::read(newest.join("model.safetensors")).unwrap(),
        )
    };
    vec![of(0), of(1)]
}

fn states(directory: &Path) -> Vec<String> {
    let output = run(directory, &["trials", "--sort", "number", "--json"]);
    let json: Value = serde_json::from_str(&output.out).unwrap_or_default();
    let listed = json["trials"].as_array().cloned().unwrap_or_default();
    listed.iter().map(|trial| trial["state"].as_str().unwrap().to_owned()).collect()
}

fn ask(directory: &Path, words: &[&str]) {
    assert_done(&run(directory, words));
}

/// Two uninterrupted trials of six epochs.
fn uninterrupted() -> (Vec<Value>, Vec<(String, Vec<u8>)>) {
    let calm = tempfile::tempdir().unwrap();
    steady(calm.path(), 6);
    run_small(calm.path());
    (trials(calm.path()), weights(calm.path()))
}

#[test]
fn a_paused_trial_a_paused_study_and_a_paused_device_cost_nothing() {
    let (calm_trials, calm_weights) = uninterrupted();
    // One trial: the other takes its slot meanwhile.
    let stormy = tempfile::tempdir().unwrap();
    let directory = stormy.path();
    steady(directory, 6);
    let running = start_small(directory);
    wait_for_reports(directory, 2);
    ask(directory, &["pause", "small", "0"]);
    wait_until("the other has its slot", || states(directory) == ["paused", "running"]);
    ask(directory, &["resume", "small", "0"]);
    assert_done(&running.end());
    assert_eq!(
        (trials(directory), weights(directory)),
        (calm_trials.clone(), calm_weights.clone()),
        "a paused trial"
    );

    // The study, then its only device: while they are paused no worker holds memory.
    let stormy = tempfile::tempdir().unwrap();
    let directory = stormy.path();
    steady(directory, 6);
    let running = start_small(directory);
    wait_for_reports(directory, 2);
    ask(directory, &["pause", "small"]);
    wait_until("it has left, and its worker with it", || {
        states(directory) == ["paused"] && workers(directory) == 0
    });
    ask(directory, &["resume", "small"]);
    wait_for_reports(directory, 4);
    ask(directory, &["pause", "small", "--device", "cpu"]);
    wait_until("it waits, and its worker is gone", || {
        states(directory).contains(&"queued".to_owned()) && workers(directory) == 0
    });
    ask(directory, &["resume", "small", "--device", "cpu"]);
    assert_done(&running.end());
    assert_eq!(
        (trials(directory), weights(directory)),
        (calm_trials, calm_weights),
        "a paused study and a paused device"
    );
}

#[test]
fn an_extended_trial_equals_one_that_was_longer_from_the_start() {
    let (long, short) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    steady(long.path(), 6);
    run_small(long.path());
    steady(short.path(), 4);
    run_small(short.path());
    for trial in ["0", "1"] {
        ask(short.path(), &["continue", "small", trial, "--until", "6"]);
    }
    run_small(short.path());
    assert_eq!(
        (trials(short.path()), weights(short.path())),
        (trials(long.path()), weights(long.path()))
    );
}

#[test]
fn a_trial_continues_from_the_checkpoint_before_a_damaged_one() {
    let (calm_trials, calm_weights) = uninterrupted();
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    steady(directory, 4);
    run_small(directory);
    let (newest, _) = weights(directory).swap_remove(0);
    let damaged = directory.join("runs/files/small/trial-0").join(newest);
    fs::write(damaged.join("optimizer.safetensors"), "torn").unwrap();
    for trial in ["0", "1"] {
        ask(directory, &["continue", "small", trial, "--until", "6"]);
    }
    let ended = run(directory, &["run", "small.toml", "--plain"]);
    assert_done(&ended);
    assert_names(
        &ended.out,
        &["optimizer.safetensors", "the checkpoint before it is", "continues from that one"],
    );
    assert!(!ended.out.contains("starts over"), "{}", ended.out);
    assert_eq!((trials(directory), weights(directory)), (calm_trials, calm_weights));
}

#[test]
fn a_complete_checkpoint_that_a_killed_runner_did_not_store_is_recovered() {
    let (calm_trials, calm_weights) = uninterrupted();
    let stormy = tempfile::tempdir().unwrap();
    let directory = stormy.path();
    steady(directory, 6);
    let running = start_small(directory);
    wait_for_reports(directory, 3);
    kill_small(running, directory);
    // As if the runner was killed before it stored any of them: complete files without rows.
    let store = rusqlite::Connection::open(directory.join("runs/hpsearch.db")).unwrap();
    assert!(store.execute("DELETE FROM checkpoint", []).unwrap() > 0);
    drop(store);
    run_small(directory);
    assert_eq!((trials(directory), weights(directory)), (calm_trials, calm_weights));
    let reader = AnyReader::open(&directory.join("runs/hpsearch.db")).unwrap();
    let study = reader.study("small").unwrap().unwrap().id;
    let resumed = reader.events_after(study, Seq(0), u64::MAX).unwrap().into_iter().find_map(
        |(_, _, event)| match event {
            Event::Trial(
                _,
                TrialEvent::Attempt(AttemptEvent::Started { resume: Some((step, _)), .. }),
            ) => Some(step),
            _ => None,
        },
    );
    assert!(
        resumed.is_some_and(|step| step >= 1),
        "it continued from a checkpoint that was adopted: {resumed:?}"
    );
    // And gc knows what is whose: of the tokenised data, too.
    let listed = run(directory, &["gc", "--dry-run"]);
    assert_names(&listed.out, &["nothing to remove"]);
    assert!(
        fs::read_dir(directory.join("runs/files/data")).unwrap().any(|entry| entry
            .unwrap()
            .path()
            .join("used-by-small")
            .exists())
    );
}

#[test]
fn a_killed_run_with_adapters_frozen_layers_and_cached_features_ends_with_the_same_weights() {
    let tuned = |directory: &Path| {
        steady(directory, 3);
        let path = directory.join("small.toml");
        let file = fs::read_to_string(&path).unwrap();
        let how = "\"model.num_layers\" = 2\nfreeze_layers = 1\nlora_r = 2\nlora_dropout = \
            0.1\nclass_weights = \"balanced\"\nmax_tokens_per_batch = 1600\n\
                   layerwise_lr_decay = 0.9\ngradient_checkpointing = true";
        let file = file
            .replace("\"model.num_layers\" = 1", how)
            .replace("per_device_train_batch_size = 32\n", "");
        fs::write(path, file).unwrap();
    };
    let (calm, stormy) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    tuned(calm.path());
    run_small(calm.path());
    let directory = stormy.path();
    tuned(directory);
    for reports in [1, 4] {
        let running = start_small(directory);
        wait_for_reports(directory, reports);
        kill_small(running, directory);
    }
    run_small(directory);
    assert_eq!(
        (trials(directory), weights(directory)),
        (trials(calm.path()), weights(calm.path()))
    );
    // The exported model has its adapters merged.
    ask(directory, &["export", "small", "-o", "model"]);
    assert!(!directory.join("model/adapters.safetensors").exists());
    ask(directory, &["predict", "model", "the bus never came"]);
}
