//! The built-in trainer through the command line: search, resumption, export, retraining.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

pub fn hpsearch(directory: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hpsearch"));
    command
        .args(arguments)
        .current_dir(directory)
        .env_remove("HPSEARCH_STORE")
        .stdin(Stdio::null());
    command.output().unwrap()
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

pub fn assert_done(output: &Output) {
    assert!(
        output.status.success(),
        "{}\n{}\n{}",
        output.status,
        text(&output.stdout),
        text(&output.stderr)
    );
}

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

/// The trials of a study, without times and attempts.
pub fn trials(directory: &Path) -> Vec<Value> {
    let output = hpsearch(directory, &["trials", "--sort", "number", "--json"]);
    assert_done(&output);
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    let mut trials = json["trials"].as_array().unwrap().clone();
    for trial in &mut trials {
        for key in ["seconds", "attempts", "reason"] {
            trial.as_object_mut().unwrap().remove(key);
        }
    }
    trials
}

#[test]
fn the_best_trial_is_exported_predicts_and_can_be_trained_again_to_the_same_value() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    small_study(directory, "");
    assert_done(&hpsearch(directory, &["run", "small.toml", "--plain"]));
    let exported = hpsearch(directory, &["export", "small", "-o", "model"]);
    assert_done(&exported);
    assert!(text(&exported.stderr).contains("test_accuracy"), "{}", text(&exported.stderr));
    for file in [
        "model.safetensors",
        "config.json",
        "tokenizer.json",
        "best.toml",
        "metrics.json",
        "README.md",
    ] {
        assert!(directory.join("model").join(file).is_file(), "{file}");
    }
    // What transformers needs to load an architecture that is not one of its own.
    let config: serde_json::Value =
        serde_json::from_slice(&fs::read(directory.join("model/config.json")).unwrap()).unwrap();
    let class = config["auto_map"]["AutoModelForSequenceClassification"].as_str().unwrap();
    let (module, class) = class.split_once('.').unwrap();
    let code = fs::read_to_string(directory.join("model").join(format!("{module}.py"))).unwrap();
    assert!(code.contains(&format!("class {class}(")), "{class}");
    let predicted =
        hpsearch(directory, &["predict", "model", "the bus never came and the tram was full"]);
    assert_done(&predicted);
    assert!(text(&predicted.stdout).contains("transit") || !predicted.stdout.is_empty());
    let again = hpsearch(directory, &["train", "model/best.toml", "-o", "again"]);
    assert_done(&again);
    assert!(text(&again.stderr).contains("as before"), "{}", text(&again.stderr));
    let weights = |model: &str| fs::read(directory.join(model).join("model.safetensors")).unwrap();
    assert_eq!(weights("model"), weights("again"), "the same weights, bit for bit");
}

#[test]
fn a_language_model_is_searched_exported_and_generates_text() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    fs::write(
        directory.join("song.txt"),
        "row, row, row your boat gently down the stream\n".repeat(60),
    )
    .unwrap();
    let study = r#"
        [study]
        name = "song"
        metric = "eval_bits_per_byte"
        direction = "minimize"
        step = "step"
        [budget]
        trials = 2
        [data]
        train = "song.txt"
        test_split = 0.1
        max_length = 16
        [trainer]
        task = "language-modeling"
        max_steps = 40
        eval_strategy = "steps"
        eval_steps = 20
        model.tokenizer = "bytes"
        model.hidden_size = 16
        model.num_heads = 2
        [space]
        learning_rate = { float = [3e-3, 3e-2], log = true }
        [devices]
        use = ["cpu"]
        trials_per_device = 1
    "#;
    fs::write(directory.join("song.toml"), study).unwrap();
    assert_done(&hpsearch(directory, &["run", "song.toml", "--plain"]));
    let exported = hpsearch(directory, &["export", "song", "-o", "model"]);
    assert_done(&exported);
    let said = text(&exported.stderr);
    assert!(
        said.contains("test_bits_per_byte") && said.contains("`hpsearch generate model"),
        "{said}"
    );
    let generate = |options: &[&str]| {
        hpsearch(
            directory,
            &[&["generate", "model", "row, row", "--max-new-tokens", "20"], options].concat(),
        )
    };
    let (one, again) = (generate(&["--seed", "3"]), generate(&["--seed", "3"]));
    assert_done(&one);
    assert_eq!(text(&one.stdout), text(&again.stdout));
    assert!(
        text(&one.stdout).starts_with("row, row")
            && one.stdout.ends_with(b"\n")
            && one.stdout.len() > "row, row\n".len()
    );
    let wrong = generate(&["--temperature", "-1"]);
    assert_eq!(wrong.status.code(), Some(2));
    let again = hpsearch(directory, &["train", "model/best.toml", "-o", "again"]);
    assert_done(&again);
    assert!(text(&again.stderr).contains("as before"), "{}", text(&again.stderr));
    let refused = hpsearch(directory, &["predict", "model", "row"]);
    assert!(text(&refused.stderr).contains("hpsearch generate"), "{}", text(&refused.stderr));
}

#[test]
fn an_interrupted_study_ends_like_an_uninterrupted_one() {
    let (calm, stormy) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let asha = "[pruner]\ntype = \"asha\"\n";
    small_study(calm.path(), asha);
    small_study(stormy.path(), asha);
    assert_done(&hpsearch(calm.path(), &["run", "small.toml", "--plain"]));
    for wanted in [2, 5] {
        let mut child = Command::new(env!("CARGO_BIN_EXE_hpsearch"))
            .args(["run", "small.toml", "--plain", "-q"])
            .current_dir(stormy.path())
            .env_remove("HPSEARCH_STORE")
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        wait_for_reports(stormy.path(), wanted);
        rustix::process::kill_process(
            rustix::process::Pid::from_child(&child),
            rustix::process::Signal::INT,
        )
        .unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(130));
    }
    assert_done(&hpsearch(stormy.path(), &["run", "small.toml", "--plain"]));
    assert_eq!(trials(stormy.path()), trials(calm.path()));
}

pub fn wait_for_reports(directory: &Path, wanted: i64) {
    let until = Instant::now() + Duration::from_secs(120);
    let count = || -> Option<i64> {
        let path = directory.join("runs/hpsearch.db");
        let store =
            rusqlite::Connection::open_with_flags(path, rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY)
                .ok()?;
        store.query_row("SELECT count(*) FROM trial_intermediate_values", [], |row| row.get(0)).ok()
    };
    while count().unwrap_or(0) < wanted {
        assert!(Instant::now() < until, "no {wanted} reports in two minutes");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn bad_data_is_refused_before_any_trial() {
    let cases = [
        ("text,intent\nhello,greet\n", "label"),
        ("text,label\n", "no rows"),
        ("text,label\nhello there,greet\ngood day,greet\n", "at least two"),
        ("text,label\n\"hello,greet\n", "quot"),
    ];
    for (content, expected) in cases {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("train.csv"), content).unwrap();
        let study = "[study]\nmetric = \"eval_accuracy\"\ndirection = \"maximize\"\n[budget]\ntrials = 1\n[data]\ntrain = \"train.csv\"\nvalidation_split = 0.2\n\
                     [trainer]\ntask = \"text-classification\"\n[space]\nlearning_rate = { float = [1e-3, 1e-2] }\n";
        fs::write(directory.path().join("study.toml"), study).unwrap();
        let output = hpsearch(directory.path(), &["run", "--plain"]);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(
            said.contains("train.csv") && said.to_lowercase().contains(expected),
            "{content:?}: {said}"
        );
        let stored = hpsearch(directory.path(), &["ls", "--json"]);
        assert!(
            !text(&stored.stdout).contains("\"name\""),
            "no study is stored for data that cannot be used"
        );
    }
}

#[test]
fn training_can_be_diagnosed_before_it_runs() {
    let directory = tempfile::tempdir().unwrap();
    small_study(directory.path(), "");
    let batch = hpsearch(
        directory.path(),
        &["train", "small.toml", "--overfit-one-batch", "--steps", "60"],
    );
    assert_done(&batch);
    assert!(
        text(&batch.stderr).contains("learnt by heart: the loss went from"),
        "{}",
        text(&batch.stderr)
    );
    assert!(text(&batch.stdout).contains("loss of one batch by step"), "{}", text(&batch.stdout));
    let stuck = hpsearch(
        directory.path(),
        &[
            "train",
            "small.toml",
            "--set",
            "space.learning_rate=[1e-9, 2e-9]",
            "--overfit-one-batch",
            "--steps",
            "10",
        ],
    );
    assert_done(&stuck);
    assert!(text(&stuck.stderr).contains("not learnt by heart"), "{}", text(&stuck.stderr));

    let rates = hpsearch(directory.path(), &["train", "small.toml", "--find-lr", "--steps", "80"]);
    assert_done(&rates);
    assert!(
        text(&rates.stderr).contains("the loss falls fastest at a learning rate of"),
        "{}",
        text(&rates.stderr)
    );

    let profile = hpsearch(
        directory.path(),
        &["train", "small.toml", "--profile", "3", "--trace", "spans.json"],
    );
    assert_done(&profile);
    let shown = text(&profile.stdout);
    for name in [
        "data",
        "forward",
        "backward",
        "gradient norm",
        "optimiser",
        "a step",
        "one evaluation",
        "one checkpoint",
        "layer 0",
        "head and loss",
    ] {
        assert!(shown.lines().any(|line| line.starts_with(name)), "{name}: {shown}");
    }
    let trace: Value =
        serde_json::from_slice(&fs::read(directory.path().join("spans.json")).unwrap()).unwrap();
    let events: Vec<&Value> = trace["traceEvents"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|event| event["ph"] == "X")
        .collect();
    let ends = |event: &Value| event["ts"].as_f64().unwrap() + event["dur"].as_f64().unwrap();
    let steps: Vec<_> = events.iter().filter(|event| event["cat"] == "step").collect();
    assert_eq!(steps.len(), 3);
    for step in &steps {
        let within = |event: &&&Value| {
            event["ts"].as_f64() >= step["ts"].as_f64() && ends(event) <= ends(step) + 1e-3
        };
        let backward = events
            .iter()
            .filter(within)
            .filter(|event| event["name"] == "layer 0" && event["cat"] == "backward");
        assert!(backward.count() > 0, "a layer's way back lies within its step");
    }
    fs::remove_file(directory.path().join("spans.json")).unwrap();
    let both =
        hpsearch(directory.path(), &["train", "small.toml", "--find-lr", "--overfit-one-batch"]);
    assert_eq!(both.status.code(), Some(2));
    let left: Vec<_> =
        fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["small.toml"], "a trial training leaves nothing behind");
}

#[test]
fn one_configuration_of_a_study_file_can_be_trained_alone() {
    let directory = tempfile::tempdir().unwrap();
    small_study(directory.path(), "");
    // Burn's variable for a default device is ignored: every tensor has an explicit device.
    let mut told_otherwise = Command::new(env!("CARGO_BIN_EXE_hpsearch"));
    told_otherwise
        .args(["train", "small.toml", "-o", "other"])
        .current_dir(directory.path())
        .env("BURN_DEVICE", "cuda");
    assert_done(&told_otherwise.output().unwrap());
    // The device is that of the study, too.
    if !cfg!(feature = "wgpu") {
        let elsewhere = hpsearch(
            directory.path(),
            &["train", "small.toml", "-o", "model", "--set", "devices.use=[\"wgpu:0\"]"],
        );
        assert!(
            !elsewhere.status.success()
                && String::from_utf8_lossy(&elsewhere.stderr).contains("`--features wgpu`"),
            "{elsewhere:?}"
        );
    }
    let trained = hpsearch(
        directory.path(),
        &["train", "small.toml", "-o", "model", "--set", "trainer.num_train_epochs=1"],
    );
    assert_done(&trained);
    let recipe = fs::read_to_string(directory.path().join("model/best.toml")).unwrap();
    // The middle of a logarithmic range is its geometric mean.
    assert!(recipe.contains("learning_rate = 0.00447213595"), "{recipe}");
    assert!(recipe.contains("num_train_epochs = 1.0"), "{recipe}");
}
