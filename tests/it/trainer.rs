//! The built-in trainer through the command line: search, resumption, export, retraining.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::process::Signal;
use serde_json::Value;

use crate::harness::training::{run_small, small_study, start_small, trials, wait_for_reports};
use crate::harness::{
    Ended, PROGRAM, Running, assert_code, assert_done, assert_names, command, run, wait_until,
};

#[test]
fn the_best_trial_is_exported_predicts_and_can_be_trained_again_to_the_same_value() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    small_study(directory, "");
    run_small(directory);
    let exported = run(directory, &["export", "small", "-o", "model"]);
    assert_done(&exported);
    assert_names(&exported.err, &["test_accuracy"]);
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
        run(directory, &["predict", "model", "the bus never came and the tram was full"]);
    assert_done(&predicted);
    assert!(predicted.out.contains("transit") || !predicted.out.is_empty());
    fs::write(directory.join("texts.txt"), "the bus never came\n\n").unwrap();
    let predicted = run(directory, &["predict", "model", "--file", "texts.txt", "--json"]);
    assert_done(&predicted);
    assert_names(&predicted.err, &["warning: 1 of 2 texts (number 2) is empty"]);
    let answered: Value = predicted.json();
    assert_eq!(answered["predictions"].as_array().map(Vec::len), Some(2), "{answered}");
    evaluates_as_the_export_says(directory);
    let again = run(directory, &["train", "model/best.toml", "-o", "again"]);
    assert_done(&again);
    assert_names(&again.err, &["as before"]);
    let weights = |model: &str| fs::read(directory.join(model).join("model.safetensors")).unwrap();
    assert_eq!(weights("model"), weights("again"), "the same weights, bit for bit");
}

/// The results by class of `evaluate`, as JSON and as text.
fn agrees_with_the_metrics(json: &Value, text: &str) {
    let (metrics, by_class) = (&json["metrics"], &json["by_class"]);
    let numbers = |row: &Value| -> Vec<u64> {
        row.as_array().unwrap().iter().map(|cell| cell.as_u64().unwrap()).collect()
    };
    let rows = by_class["confusion_matrix"].as_array().unwrap();
    let matrix: Vec<Vec<u64>> = rows.iter().map(numbers).collect();
    let classes = by_class["classes"].as_array().unwrap();
    assert_eq!(matrix.len(), classes.len());
    for (row, class) in matrix.iter().zip(classes) {
        assert_eq!(Some(row.iter().sum()), class["support"].as_u64(), "{class}");
        assert!(text.contains(class["label"].as_str().unwrap()), "{text}");
    }
    let all: u64 = matrix.iter().flatten().sum();
    let right: u64 = (0..matrix.len()).map(|class| matrix[class][class]).sum();
    let real = |count: u64| f64::from(u32::try_from(count).unwrap());
    assert_eq!(metrics["test_accuracy"].as_f64().unwrap(), real(right) / real(all));
    let average = &by_class["averages"][0];
    assert_eq!(average["label"], "macro avg");
    let difference = average["f1"].as_f64().unwrap() - metrics["test_macro_f1"].as_f64().unwrap();
    assert!(difference.abs() < 1e-12, "{json}");
    assert_names(text, &["precision", "weighted avg", "counts by true and predicted class:"]);
}

/// `evaluate` of the exported classifier on its test file and on others.
fn evaluates_as_the_export_says(directory: &Path) {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("studies/data/test.csv");
    let evaluate = |file: &Path, more: &[&str]| {
        let file = file.display().to_string();
        run(directory, &[&["evaluate", "model", &file], more].concat())
    };
    let metrics: Value =
        serde_json::from_slice(&fs::read(directory.join("model/metrics.json")).unwrap()).unwrap();
    let mut expected = metrics["metrics"].as_object().unwrap().clone();
    expected.retain(|name, _| name.starts_with("test_"));
    let measured = evaluate(&data, &["--json"]);
    assert_done(&measured);
    let json: Value = measured.json();
    assert_eq!(json["metrics"], Value::Object(expected.clone()));
    let measured = evaluate(&data, &[]);
    assert_done(&measured);
    let (plain, by_class) = measured.out.split_once("\n\n").unwrap();
    assert_eq!(plain.lines().count(), expected.len(), "{}", measured.out);
    agrees_with_the_metrics(&json, by_class);
    // Of one label of the model's, in columns of other names.
    let text = fs::read_to_string(&data).unwrap();
    let row = text.lines().nth(1).unwrap();
    fs::write(directory.join("one.csv"), format!("words,topic\n{row}\n")).unwrap();
    let one = evaluate(Path::new("one.csv"), &["--set", "text=words", "--set", "label=topic"]);
    assert_done(&one);
    assert_names(&one.out, &["test_accuracy "]);
    // Rows that are left out are said.
    let label = row.rsplit(',').next().unwrap();
    fs::write(directory.join("empty.csv"), format!("{text},{label}\n")).unwrap();
    let empty = evaluate(Path::new("empty.csv"), &["--json"]);
    assert_done(&empty);
    let (rows, left_out) = (&json["rows"], &empty.json::<Value>()["rows"]);
    assert!(rows.is_u64() && rows == left_out, "{rows} {left_out}");
    assert_names(&empty.err, &["warning: 1 of ", " test rows have an empty text and are left out"]);
    fs::write(directory.join("other.csv"), format!("{text}some words,nonsense\n")).unwrap();
    let other = evaluate(Path::new("other.csv"), &[]);
    assert_code(&other, 2);
    assert_names(&other.err, &["other.csv:", "`nonsense`"]);
    for (arguments, said) in [
        (&["--set", "labl=topic"], "did you mean `label`?"),
        (&["--set", "train=a.csv"], "`train` is not read"),
        (&["--set", "label"], "write `--set key=value`, for example `--set label=intent`"),
        (&["--set", "max_length=long"], "max_length"),
    ] {
        let refused = evaluate(&data, arguments);
        assert_code(&refused, 2);
        assert_names(&refused.err, &[said]);
    }
    let missing = evaluate(Path::new("ones.csv"), &[]);
    assert_code(&missing, 2);
    assert_names(&missing.err, &["there is no `ones.csv`", "did you mean `one.csv`?"]);
    // A pipe that nobody writes to is not waited for.
    let (place, kind) = (rustix::fs::CWD, rustix::fs::FileType::Fifo);
    rustix::fs::mknodat(place, directory.join("pipe.csv"), kind, 0o600.into(), 0).unwrap();
    let pipe = evaluate(Path::new("pipe.csv"), &[]);
    assert_code(&pipe, 2);
    assert_names(&pipe.err, &["pipe.csv", "it is a pipe or a device, not a file"]);
    // Rows that it was trained on are named, wherever they are; others are not.
    let train = Path::new(env!("CARGO_MANIFEST_DIR")).join("studies/data/train.csv");
    fs::copy(&train, directory.join("copy.csv")).unwrap();
    for file in [&*train, Path::new("copy.csv")] {
        let seen = evaluate(file, &["--json"]);
        assert_done(&seen);
        assert_names(&seen.err, &["warning: these rows are `data.train` of study", "trained on"]);
        let json: Value = seen.json();
        assert_eq!(json["seen"], "train");
    }
    let new = evaluate(Path::new("one.csv"), &["--set", "data.text=words", "--set", "label=topic"]);
    assert_done(&new);
    assert!(!new.err.contains("warning"), "{}", new.err);
    assert!(json.get("seen").is_none() && !measured.err.contains("warning"), "{json}");
    let config = directory.join("model/config.json");
    let bytes = fs::read(&config).unwrap();
    fs::remove_file(&config).unwrap();
    let incomplete = evaluate(&data, &[]);
    assert_code(&incomplete, 2);
    assert_names(&incomplete.err, &["has no `config.json`"]);
    fs::write(&config, bytes).unwrap();
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
    assert_done(&run(directory, &["run", "song.toml", "--plain"]));
    let exported = run(directory, &["export", "song", "-o", "model"]);
    assert_done(&exported);
    let said = exported.err;
    assert_names(&said, &["test_bits_per_byte", "`hpsearch generate model"]);
    let generate = |options: &[&str]| {
        run(
            directory,
            &[&["generate", "model", "row, row", "--max-new-tokens", "20"], options].concat(),
        )
    };
    let (one, again) = (generate(&["--seed", "3"]), generate(&["--seed", "3"]));
    assert_done(&one);
    assert_eq!(one.out, again.out);
    assert!(
        one.out.starts_with("row, row")
            && one.out.ends_with("\n")
            && one.out.len() > "row, row\n".len()
    );
    let wrong = generate(&["--temperature", "-1"]);
    assert_eq!(wrong.code, 2);
    let again = run(directory, &["train", "model/best.toml", "-o", "again"]);
    assert_done(&again);
    assert_names(&again.err, &["as before"]);
    let refused = run(directory, &["predict", "model", "row"]);
    assert_names(&refused.err, &["hpsearch generate"]);
}

#[test]
fn an_interrupted_study_ends_like_an_uninterrupted_one() {
    let (calm, stormy) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let asha = "[pruner]\ntype = \"asha\"\n";
    small_study(calm.path(), asha);
    small_study(stormy.path(), asha);
    run_small(calm.path());
    for wanted in [2, 5] {
        let running = start_small(stormy.path());
        wait_for_reports(stormy.path(), wanted);
        running.signal(Signal::INT);
        assert_eq!(running.end().code, 130);
    }
    run_small(stormy.path());
    assert_eq!(trials(stormy.path()), trials(calm.path()));
}

#[test]
fn a_trial_whose_checkpoint_is_damaged_starts_over_and_says_so() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    small_study(directory, "[pruner]\ntype = \"asha\"\n");
    let running = start_small(directory);
    wait_for_reports(directory, 1);
    running.signal(Signal::INT);
    assert_eq!(running.end().code, 130);
    let inside = |path: PathBuf| fs::read_dir(path).unwrap().flatten().map(|entry| entry.path());
    let trials_of = inside(directory.join("runs/files/small")).filter(|path| path.is_dir());
    let saved = trials_of.flat_map(inside).filter(|path| path.join("model.safetensors").is_file());
    let saved: Vec<_> = saved.collect();
    assert!(!saved.is_empty());
    for checkpoint in saved {
        fs::write(checkpoint.join("optimizer.safetensors"), "torn").unwrap();
    }
    let ended = run(directory, &["run", "small.toml", "--plain"]);
    assert_done(&ended);
    assert_names(&ended.out, &["optimizer.safetensors", "the trial starts over"]);
    assert!(trials(directory).iter().all(|trial| trial["state"] != "failed"));
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
        let study = "[study]\nmetric = \"eval_accuracy\"\ndirection = \"maximize\"\n[budget]\n\
                     trials = 1\n[data]\ntrain = \"train.csv\"\nvalidation_split = 0.2\n\
                     [trainer]\ntask = \"text-classification\"\n[space]\n\
                     learning_rate = { float = [1e-3, 1e-2] }\n";
        fs::write(directory.path().join("study.toml"), study).unwrap();
        let output = run(directory.path(), &["run", "--plain"]);
        let said = output.err;
        assert_eq!(output.code, 2, "{said}");
        assert!(
            said.contains("train.csv") && said.to_lowercase().contains(expected),
            "{content:?}: {said}"
        );
        let stored = run(directory.path(), &["ls", "--json"]);
        assert!(
            !stored.out.contains("\"name\""),
            "no study is stored for data that cannot be used"
        );
    }
}

#[test]
fn training_can_be_diagnosed_before_it_runs() {
    let directory = tempfile::tempdir().unwrap();
    small_study(directory.path(), "");
    let batch =
        run(directory.path(), &["train", "small.toml", "--overfit-one-batch", "--steps", "60"]);
    assert_done(&batch);
    assert_names(&batch.err, &["the model overfits the batch: the loss went from"]);
    assert_names(&batch.out, &["loss of one batch by step"]);
    let stuck = run(
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
    assert_names(&stuck.err, &["the model does not overfit the batch"]);

    let rates = run(directory.path(), &["train", "small.toml", "--find-lr", "--steps", "80"]);
    assert_done(&rates);
    assert_names(&rates.err, &["the loss falls fastest at a learning rate of"]);

    let profile =
        run(directory.path(), &["train", "small.toml", "--profile", "3", "--trace", "spans.json"]);
    assert_done(&profile);
    let shown = profile.out;
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
    let both = run(directory.path(), &["train", "small.toml", "--find-lr", "--overfit-one-batch"]);
    assert_eq!(both.code, 2);
    let left: Vec<_> =
        fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["small.toml"], "a trial training leaves nothing behind");
}

#[test]
fn one_configuration_of_a_study_file_can_be_trained_alone() {
    let directory = tempfile::tempdir().unwrap();
    small_study(directory.path(), "");
    // Burn's variable for a default device is ignored: every tensor has an explicit device.
    let mut told_otherwise = command(directory.path(), &["train", "small.toml", "-o", "other"]);
    told_otherwise.env("BURN_DEVICE", "cuda");
    assert_done(&Ended::of(told_otherwise.output().unwrap()));
    // The device is that of the study, too.
    if !cfg!(feature = "wgpu") {
        let elsewhere = run(
            directory.path(),
            &["train", "small.toml", "-o", "model", "--set", "devices.use=[\"wgpu:0\"]"],
        );
        assert!(
            elsewhere.code != 0 && elsewhere.err.contains("`--features wgpu`"),
            "{elsewhere:?}"
        );
    }
    let trained = run(
        directory.path(),
        &["train", "small.toml", "-o", "model", "--set", "trainer.num_train_epochs=1"],
    );
    assert_done(&trained);
    let recipe = fs::read_to_string(directory.path().join("model/best.toml")).unwrap();
    // The middle of a logarithmic range is its geometric mean.
    assert!(recipe.contains("learning_rate = 0.00447213595"), "{recipe}");
    assert!(recipe.contains("num_train_epochs = 1.0"), "{recipe}");
}

#[test]
fn what_is_trained_says_what_it_is_and_destroys_no_other_model() {
    let directory = tempfile::tempdir().unwrap();
    let directory = &*directory.path().canonicalize().unwrap();
    let file = small_study(directory, "");
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("studies/data/train.csv");
    let rows = fs::read_to_string(&data).unwrap();
    let study = fs::read_to_string(&file).unwrap();
    fs::write(&file, study.replace(&data.display().to_string(), "a.csv")).unwrap();
    let [own, other] = ["a.csv", "b.csv"].map(|name| directory.join(name));
    fs::write(&own, &rows).unwrap();
    assert_done(&run(directory, &["run", "small.toml", "-q", "--set", "budget.trials=1"]));
    assert_done(&run(directory, &["export", "-o", "model"]));
    let read = |name: &str| fs::read_to_string(directory.join(name)).unwrap();
    let weights = |of: &str| fs::read(directory.join(of).join("model.safetensors")).unwrap();
    let best = weights("model");

    // A configuration that is of no trial.
    let once = ["--set", "trainer.num_train_epochs=1"];
    let trained = run(directory, &[&["train", "small.toml", "-o", "model"], &once[..]].concat());
    assert_done(&trained);
    assert_names(
        &trained.err,
        &[
            "the export of trial 0 of `small` (eval_accuracy ",
            ") that was there is kept as model.1\n",
        ],
    );
    assert!(weights("model.1") == best && weights("model") != best);
    let known = format!(
        "Trained by `hpsearch train` from `{}` with `--set trainer.num_train_epochs=1`: it is of \
         no trial of the study `small`.",
        file.display()
    );
    let card = read("model/README.md");
    assert!(card.contains(&known) && !card.contains("sampler"), "{card}");
    let metrics: Value = serde_json::from_str(&read("model/metrics.json")).unwrap();
    assert!(metrics["trial"].is_null() && metrics["value"].is_number(), "{metrics}");
    // It is in no store.
    let short = weights("model");
    let exported = run(directory, &["export", "-o", "model"]);
    assert_done(&exported);
    assert_names(
        &exported.err,
        &["the model of `hpsearch train` (eval_accuracy ", ") that was there is kept as model.2\n"],
    );
    assert!(weights("model.2") == short && weights("model") == best);

    // The digests are those of the files that were read.
    fs::write(&other, format!("{rows}more rows,transit\n")).unwrap();
    let recipe = read("model/best.toml");
    let edited = recipe.replace(&format!("train = \"{}\"", own.display()), "train = \"b.csv\"");
    assert_ne!(recipe, edited);
    fs::write(directory.join("edited.toml"), edited).unwrap();
    fs::write(&own, "gone").unwrap();
    let trained = run(directory, &["train", "edited.toml", "-o", "c"]);
    assert_done(&trained);
    assert!(!trained.err.contains("warning"), "{}", trained.err);
    let digest = blake3::hash(&fs::read(&other).unwrap()).to_hex();
    let line = format!("`{}`: BLAKE3 `{digest}`\n", other.display());
    let card = read("c/README.md");
    assert!(card.contains(&line) && !card.contains("a.csv"), "{card}");
    let origin = format!(
        "Trained by `hpsearch train` from `{}`, the file of trial 0 of the study `small`, found \
         with the sampler `",
        directory.join("edited.toml").display()
    );
    assert!(card.contains(&origin), "{card}");
    let seen = run(directory, &["evaluate", "c", "b.csv", "--json"]).json::<Value>();
    assert_eq!(seen["seen"], "train");
    fs::write(&own, &rows).unwrap();
    let seen = run(directory, &["evaluate", "c", "a.csv", "--json"]).json::<Value>();
    assert!(seen["metrics"].is_object() && seen.get("seen").is_none(), "{seen}");
    let find = |of: &str| run(directory, &["train", of, "--find-lr", "--steps", "10"]).err;
    let changed = "b.csv` has changed since this was written";
    assert!(!find("c/best.toml").contains("warning: `"));
    fs::write(&other, &rows).unwrap();
    assert_names(&find("c/best.toml"), &[changed]);

    // A value that would not be trained.
    let found = recipe.lines().find(|line| line.starts_with("learning_rate = ")).unwrap();
    fs::write(directory.join("edited.toml"), recipe.replacen(found, "learning_rate = 0.5", 1))
        .unwrap();
    let refused = run(directory, &["train", "edited.toml"]);
    assert_code(&refused, 2);
    assert_names(
        &refused.err,
        &[
            "`edited.toml`: `learning_rate` is 0.5 in `[params]` and 0.0",
            " in `[trainer]`",
            "write the one that you want in `[trainer]`",
        ],
    );
}

#[test]
fn what_the_trainer_table_fixes_is_not_searched_in_one_training() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    let path = small_study(directory, "[[enqueue]]\nlearning_rate = 0.007\n");
    let train = |words: &[&str]| {
        let all = [&["train", "small.toml"], words, &["--set", "trainer.num_train_epochs=1"]];
        assert_done(&run(directory, &all.concat()));
    };
    train(&["-o", "one", "--set", "trainer.learning_rate=3e-3"]);
    let recipe = fs::read_to_string(directory.join("one/best.toml")).unwrap();
    assert!(recipe.contains("learning_rate = 0.003\n") && !recipe.contains("0.007"), "{recipe}");
    // Nothing is left to search.
    train(&[
        "-o",
        "two",
        "--set",
        "trainer.learning_rate=3e-3",
        "--set",
        "trainer.model.dropout=0.0",
    ]);
    let text = fs::read_to_string(&path).unwrap();
    let (begin, rest) = text.split_once("[space]").unwrap();
    let (_, end) = rest.split_once("[devices]").unwrap();
    let (end, _) = end.split_once("[[enqueue]]").unwrap();
    fs::write(
        &path,
        format!("{begin}learning_rate = 3e-3\n\"model.dropout\" = 0.0\n[devices]{end}"),
    )
    .unwrap();
    train(&["-o", "three"]);
    let weights = |model: &str| fs::read(directory.join(model).join("model.safetensors")).unwrap();
    assert_eq!(weights("two"), weights("three"));
    assert_done(&run(directory, &["train", "three/best.toml", "-o", "four"]));
    assert_eq!(weights("three"), weights("four"));
    let searched = run(directory, &["check", "small.toml"]);
    assert_eq!(searched.code, 2, "a study has something to search");
}

#[test]
fn texts_are_read_as_they_were_in_training_and_the_model_they_begin_with_is_kept() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    // Full-width letters, which are normalised to others.
    let wide = ["\u{ff21}\u{ff22}\u{ff23}", "\u{ff24}\u{ff25}\u{ff26}"];
    let row = |row: usize| format!("{},{}\n", wide[row % 2], ["a", "b"][row % 2]);
    let rows: String = (0..80).map(row).collect();
    fs::write(directory.join("wide.csv"), format!("text,label\n{rows}")).unwrap();
    let study = |trainer: &str| {
        format!(
            r#"
            [study]
            metric = "eval_accuracy"
            direction = "maximize"
            [data]
            train = "wide.csv"
            clean.normalize = true
            [budget]
            trials = 1
            [export]
            dir = "model"
            on_finish = true
            [trainer]
            task = "text-classification"
            num_train_epochs = 8
            {trainer}
            "#
        )
    };
    let rate = "learning_rate = 1e-2";
    let small = "model = { hidden_size = 16, num_layers = 1, num_heads = 2 }";
    fs::write(directory.join("wide.toml"), study(&format!("{rate}\n{small}"))).unwrap();
    assert_done(&run(directory, &["train", "wide.toml", "-o", "model"]));
    let shown = run(directory, &["predict", "model", "--json", wide[0], wide[1], "ABC", "DEF"]);
    assert_done(&shown);
    let json: Value = serde_json::from_str(&shown.out).unwrap();
    let best = json["predictions"].as_array().unwrap().iter().map(|one| &one["labels"][0]["label"]);
    assert_eq!(best.collect::<Vec<_>>(), ["a", "b", "a", "b"], "{json}");

    // Standard input is a file that would be overwritten.
    fs::write(directory.join("texts.csv"), "ABC\n").unwrap();
    let over = "\"$0\" predict model -o texts.csv --overwrite < texts.csv";
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", over, PROGRAM]).current_dir(directory);
    let refused = Ended::of(shell.output().unwrap());
    assert_eq!(refused.code, 2, "{}", refused.err);
    assert_eq!(fs::read_to_string(directory.join("texts.csv")).unwrap(), "ABC\n");

    let weights = || fs::read(directory.join("model/model.safetensors")).unwrap();
    let before = weights();
    let tuned = "model = \"model\"";
    fs::write(directory.join("tuned.toml"), study(&format!("{rate}\n{tuned}"))).unwrap();
    let searched = format!("{tuned}\n[space]\nlearning_rate = [1e-3]");
    fs::write(directory.join("searched.toml"), study(&searched)).unwrap();
    for words in [["train", "tuned.toml", "-o", "model"], ["run", "searched.toml", "--plain", "-q"]]
    {
        let refused = run(directory, &words);
        assert_eq!(refused.code, 2, "{}", refused.err);
        assert_names(&refused.err, &["the pretrained model"]);
        assert!(weights() == before, "{words:?}");
    }
}

#[test]
fn data_and_models_that_changed_need_another_study_and_are_not_measured_on() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    let row = |row: usize| format!("{} {row},{}\n", ["cat", "tram"][row % 2], ["a", "b"][row % 2]);
    let rows: String = (0..120).map(row).collect();
    let rows = format!("text,label\n{rows}");
    let data = directory.join("rows.csv");
    fs::write(&data, &rows).unwrap();
    let study = |trainer: &str| {
        format!(
            r#"
            [study]
            name = "tuned"
            metric = "eval_accuracy"
            direction = "maximize"
            [data]
            train = "rows.csv"
            test_split = 0.2
            [budget]
            trials = 2
            [trainer]
            task = "text-classification"
            num_train_epochs = 1
            {trainer}
            "#
        )
    };
    let small = "learning_rate = 1e-2\nmodel = { hidden_size = 16, num_layers = 1, num_heads = 2 }";
    fs::write(directory.join("base.toml"), study(small)).unwrap();
    assert_done(&run(directory, &["train", "base.toml", "-o", "base"]));
    let tuned = "model = \"base\"\n[space]\nlearning_rate = [1e-3, 2e-3]";
    fs::write(directory.join("tuned.toml"), study(tuned)).unwrap();
    let again = |options: &[&str]| {
        run(directory, &[&["run", "tuned.toml", "--plain", "-q"], options].concat())
    };
    let export = |to: &str| {
        let exported = run(directory, &["export", "tuned", "-o", to]);
        assert_done(&exported);
        exported.err
    };
    let digests = |of: &str| -> toml::Value {
        let recipe = fs::read_to_string(directory.join(of).join("best.toml")).unwrap();
        toml::from_str::<toml::Value>(&recipe).unwrap()["digests"].clone()
    };
    assert_done(&again(&[]));
    let said = export("first");
    assert!(said.contains("test_accuracy") && !said.contains("warning"), "{said}");

    fs::write(&data, format!("{rows}dog,a\n")).unwrap();
    let refused = again(&["--accept"]);
    assert_eq!(refused.code, 6, "{}", refused.err);
    assert_names(&refused.err, &["data.train: contents ", "--fork NAME"]);
    let differs = run(directory, &["diff", "tuned.toml"]);
    assert_names(&differs.out, &["data.train"]);
    let said = export("second");
    assert_names(&said, &["was not measured on data: `", "is not what it was in training"]);
    assert!(!said.contains("test_accuracy"), "{said}");
    assert_eq!(digests("first"), digests("second"), "of what it was trained on");
    assert_done(&again(&["--fork", "other"]));

    fs::remove_file(&data).unwrap();
    let said = export("third");
    assert_names(&said, &["the exported model was not measured on data: `rows.csv` is gone"]);
    assert_eq!(digests("first"), digests("third"));

    // Trials do not read the test split.
    let tested =
        study(tuned).replace("test_split = 0.2", "validation_split = 0.2\ntest = \"t.csv\"");
    fs::write(directory.join("tested.toml"), tested.replace("\"tuned\"", "\"tested\"")).unwrap();
    fs::write(&data, &rows).unwrap();
    for more in ["", "a dog,a\n"] {
        fs::write(directory.join("t.csv"), format!("{rows}{more}")).unwrap();
        assert_done(&run(directory, &["run", "tested.toml", "--plain"]));
        let to = format!("tested{}", more.len());
        let exported = run(directory, &["export", "tested", "-o", &to]);
        assert_names(&exported.err, &["test_accuracy"]);
    }

    // As it was: nothing changed. What is no part of the model is not compared.
    fs::write(&data, &rows).unwrap();
    fs::write(directory.join("base/README.md"), "A model.\n").unwrap();
    assert_done(&again(&[]));
    let config = directory.join("base/config.json");
    let text = fs::read_to_string(&config).unwrap();
    fs::write(&config, format!("{text}\n")).unwrap();
    let refused = again(&[]);
    assert_eq!(refused.code, 6, "{}", refused.err);
    assert_names(&refused.err, &["trainer.model (", "base): contents "]);
}

#[test]
fn a_training_that_is_interrupted_keeps_its_newest_checkpoint_and_nothing_else() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    let further = "[[enqueue]]\nlearning_rate = 1e-2";
    let file = small_study(directory, further);
    let study = fs::read_to_string(&file).unwrap();
    let study = study.replace("num_train_epochs = 3", "num_train_epochs = 3000");
    let study = study.replace("seed = 3", "seed = 3\n        value = \"last\"");
    fs::write(&file, &study).unwrap();
    let start = || Running::start(command(directory, &["train", "small.toml", "-o", "model"]));
    let left = || -> Vec<String> {
        let entries = fs::read_dir(directory).unwrap().flatten();
        let mut names: Vec<_> =
            entries.map(|entry| entry.file_name().into_string().unwrap()).collect();
        names.sort();
        names
    };
    let running = start();
    wait_until("it has begun", || left().len() > 1);
    running.signal(Signal::TERM);
    let ended = running.end();
    assert_code(&ended, 143);
    assert_names(
        &ended.err,
        &["interrupted before the first evaluation, at which a checkpoint is saved: nothing"],
    );
    assert_eq!(left(), ["small.toml"]);

    // A checkpoint is saved at each evaluation.
    let constant = "[trainer]\neval_strategy = \"epoch\"\nlr_scheduler_type = \"constant\"";
    fs::write(&file, study.replace("[trainer]", constant)).unwrap();
    for _ in 0..2 {
        let kept = "model.checkpoint";
        let running = start();
        wait_until("it is evaluated", || running.complained_so_far().contains("epoch 2: "));
        running.signal(Signal::INT);
        let ended = running.end();
        assert_code(&ended, 130);
        assert_names(
            &ended.err,
            &[
                "interrupted: the newest checkpoint (epoch ",
                &format!(") is kept in {kept}: `--resume"),
            ],
        );
        assert_done(&run(directory, &["predict", kept, "the bus never came"]));
    }
    assert_eq!(left(), ["model.checkpoint", "model.checkpoint-2", "small.toml"]);

    // Continued, the training ends with the same weights as one that was not interrupted. Its rate
    // is constant, so that the steps until then do not depend on its length.
    let state = fs::read_to_string(directory.join("model.checkpoint/trainer_state.json")).unwrap();
    let state: Value = serde_json::from_str(&state).unwrap();
    let epochs = state["epoch"].as_f64().unwrap().ceil() + 2.0;
    let study = fs::read_to_string(&file).unwrap();
    let study = study.replace("num_train_epochs = 3000", &format!("num_train_epochs = {epochs}"));
    fs::write(&file, &study).unwrap();
    let resume = ["--resume-from-checkpoint", "model.checkpoint"];
    let train = |output: &str, further: &[&str]| {
        let arguments = [&["train", "small.toml", "-o", output], further].concat();
        run(directory, &arguments)
    };
    let continued = train("continued", &resume);
    assert_done(&continued);
    assert!(!continued.err.contains("epoch 1: "), "{}", continued.err);
    assert_done(&train("whole", &[]));
    let weights = |of: &str| fs::read(directory.join(of).join("model.safetensors")).unwrap();
    assert!(weights("continued") == weights("whole"));
    // At its end there is nothing left to train.
    let ends = format!("trainer.num_train_epochs={}", epochs - 2.0);
    let ended = train("ended", &[&resume[..], &["--set", &ends]].concat());
    assert_done(&ended);
    let kept = fs::read(directory.join("model.checkpoint/model.safetensors")).unwrap();
    assert!(weights("ended") == kept, "the evaluation is that of the checkpoint");
    assert_names(&ended.err, &["is from a training with num_train_epochs = 3000"]);

    // What a killed training saved is found by the next one.
    fs::write(
        &file,
        study.replace(&format!("num_train_epochs = {epochs}"), "num_train_epochs = 3000"),
    )
    .unwrap();
    let running = start();
    wait_until("it is evaluated", || running.complained_so_far().contains("epoch 2: "));
    running.signal(Signal::KILL);
    running.end();
    // Until then it saves, and takes the optimizer from what it saved before.
    let here = fs::canonicalize(directory).unwrap();
    wait_until("no process is in its directory", || {
        let processes = fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().path());
        let mut places = processes.filter_map(|process| fs::read_link(process.join("cwd")).ok());
        !places.any(|place| place == here)
    });
    fs::rename(directory.join("model.checkpoint"), directory.join("earlier")).unwrap();
    fs::write(&file, &study).unwrap();
    let found = train("model", &["--resume-from-checkpoint", "none"]);
    assert_names(&found.err, &["training that was killed is kept in model.checkpoint: `--resume"]);
    assert!(directory.join("model.checkpoint/optimizer.safetensors").is_file());
    wait_until("its worker has ended", || {
        let _refused = train("model", &["--resume-from-checkpoint", "none"]);
        left().iter().all(|name| !name.starts_with('.'))
    });
    fs::rename(directory.join("earlier"), directory.join("model.checkpoint-3")).unwrap();
    let resume = ["--resume-from-checkpoint", "model.checkpoint-3"];
    let other = train("other", &[&resume[..], &["--set", "trainer.weight_decay=0.3"]].concat());
    assert_eq!(other.code, 2, "{}", other.err);
    let cannot = "error: the training cannot resume: checkpoint `model.checkpoint-3`: ";
    assert_names(&other.err, &[cannot, "weight_decay"]);
    assert!(!other.err.contains("panicked"), "{}", other.err);
    let none = train("none", &["--resume-from-checkpoint", "."]);
    assert_eq!(none.code, 2);
    assert_names(&none.err, &["`.` is not a training checkpoint"]);
}

#[test]
fn no_trial_starts_on_data_that_changed_since_its_run_began() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    let file = small_study(directory, "");
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("studies/data/train.csv");
    let rows = fs::read_to_string(&data).unwrap();
    let own = directory.join("train.csv");
    fs::write(&own, &rows).unwrap();
    let study = fs::read_to_string(&file).unwrap();
    fs::write(&file, study.replace(&data.display().to_string(), "train.csv")).unwrap();
    let mut run_it = command(directory, &["run", "small.toml", "--plain"]);
    run_it.env("HPSEARCH_FIRST_WAIT", "0.01");
    let running = Running::start(run_it);
    wait_for_reports(directory, 1);
    fs::write(&own, format!("{rows}more rows,transit\n")).unwrap();
    let ended = running.end();
    assert_ne!(ended.code, 0);
    assert_names(&ended.err, &["train.csv` has changed since this run began", "--fork NAME"]);
    fs::write(&own, &rows).unwrap();
    run_small(directory);
    assert!(trials(directory).iter().all(|trial| trial["state"] == "complete"));
}

/// `hpsearch train best.toml` repeats a member of a population stage by stage: every trial that
/// copied another, bit for bit.
fn assert_every_schedule_repeats(further: &str) {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    let path = small_study(
        directory,
        &format!(
            "[pruner]\ntype = \"pbt\"\npopulation = 4\ninterval = 1\n{further}\
             [checkpoints]\nkeep = \"all\"\n"
        ),
    );
    let study =
        fs::read_to_string(&path).unwrap().replace("num_train_epochs = 3", "num_train_epochs = 4");
    fs::write(&path, study).unwrap();
    run_small(directory);
    assert_done(&run(directory, &["verify", "small"]));
    let copied: Vec<u64> = trials(directory)
        .iter()
        .filter(|trial| trial["segments"].is_array())
        .map(|trial| trial["number"].as_u64().unwrap())
        .collect();
    assert!(!copied.is_empty(), "somebody was replaced");
    for number in copied {
        let (model, again) = (format!("model-{number}"), format!("again-{number}"));
        let trial = number.to_string();
        assert_done(&run(directory, &["export", "small", "--trial", &trial, "-o", &model]));
        let best = fs::read_to_string(directory.join(&model).join("best.toml")).unwrap();
        assert!(best.contains("[[schedule]]"), "{best}");
        let trained = run(directory, &["train", &format!("{model}/best.toml"), "-o", &again]);
        assert_done(&trained);
        assert_names(&trained.err, &["as before"]);
        let weights =
            |model: &str| fs::read(directory.join(model).join("model.safetensors")).unwrap();
        assert_eq!(weights(&model), weights(&again), "trial {number}, bit for bit");
    }
    // The log tells with what it continues.
    let logs: Vec<String> =
        (0..4).map(|number| run(directory, &["logs", "small", &number.to_string()]).out).collect();
    assert!(logs.iter().any(|log| log.contains("[hpsearch] continues from")), "{logs:?}");
}

#[test]
fn the_schedule_of_every_member_of_a_population_repeats_its_model() {
    assert_every_schedule_repeats("");
}

#[test]
fn the_schedule_of_every_member_of_an_asynchronous_population_repeats_its_model() {
    assert_every_schedule_repeats("asynchronous = true\n");
}
