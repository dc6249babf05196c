//! The models of studies: fine-tuned ones without their pretrained directory, quantised ones, and
//! those of killed runs.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::harness::training::{kill_small, run_small, start_small, wait_for_reports};
use crate::harness::{assert_done, assert_names, run};

/// A tiny BERT with a word-level tokenizer, in `directory/bert`.
fn tiny_bert(directory: &Path) {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/trainer/tests/golden/bert");
    let model = directory.join("bert");
    fs::create_dir(&model).unwrap();
    for file in ["config.json", "model.safetensors"] {
        fs::copy(golden.join(file), model.join(file)).unwrap();
    }
    let special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"];
    let words = special.into_iter().chain(SUBJECTS).chain(GOOD).chain(BAD).chain(["is", "the"]);
    let vocabulary: serde_json::Map<String, Value> =
        words.zip(0..).map(|(word, id)| (word.to_owned(), id.into())).collect();
    let added = special.iter().zip(0..).map(|(token, id)| {
        json!({
            "id": id, "content": token, "single_word": false, "lstrip": false, "rstrip": false,
            "normalized": false, "special": true,
        })
    });
    let tokenizer = json!({
        "version": "1.0", "truncation": null, "padding": null,
        "added_tokens": added.collect::<Vec<_>>(), "normalizer": {"type": "Lowercase"},
        "pre_tokenizer": {"type": "Whitespace"},
        "post_processor": {"type": "BertProcessing", "sep": ["[SEP]", 3], "cls": ["[CLS]", 2]},
        "decoder": null, "model": {"type": "WordLevel", "vocab": vocabulary, "unk_token": "[UNK]"},
    });
    fs::write(model.join("tokenizer.json"), tokenizer.to_string()).unwrap();
}

const SUBJECTS: [&str; 4] = ["film", "book", "song", "play"];
const GOOD: [&str; 3] = ["good", "great", "lovely"];
const BAD: [&str; 3] = ["bad", "dull", "awful"];

/// Rows whose label one word decides.
fn rows(count: usize, first: usize) -> String {
    let row = |place: usize| {
        let (words, label) =
            if place.is_multiple_of(2) { (GOOD, "positive") } else { (BAD, "negative") };
        format!("the {} is {},{label}\n", SUBJECTS[place % 4], words[place / 2 % 3])
    };
    std::iter::once("text,label\n".to_owned()).chain((first..first + count).map(row)).collect()
}

/// Two trials that fine-tune `bert`, each epoch reported.
fn fine_tuning(directory: &Path, epochs: u32, extra: &str) {
    tiny_bert(directory);
    for (name, count, first) in [("train", 160, 0), ("validation", 24, 160), ("test", 24, 184)] {
        fs::write(directory.join(format!("{name}.csv")), rows(count, first)).unwrap();
    }
    let study = format!(
        r#"
        [study]
        name = "small"
        metric = "eval_loss"
        direction = "minimize"
        [budget]
        trials = 2
        [data]
        train = "train.csv"
        validation = "validation.csv"
        test = "test.csv"
        max_length = 12
        [trainer]
        model = "bert"
        num_train_epochs = {epochs}
        eval_strategy = "epoch"
        lr_scheduler_type = "constant"
        [space]
        learning_rate = {{ float = [2e-3, 1e-2], log = true }}
        [sampler]
        type = "random"
        [checkpoints]
        keep = "all"
        [devices]
        use = ["cpu"]
        trials_per_device = 1
        {extra}
        "#
    );
    fs::write(directory.join("small.toml"), study).unwrap();
}

/// The scores of all labels for some texts, by an exported model.
fn scores(directory: &Path, model: &str) -> Vec<f64> {
    let output = run(
        directory,
        &[
            "predict",
            model,
            "--json",
            "--top-k",
            "9",
            "the film is great",
            "the book is awful",
            "the song is the play",
        ],
    );
    assert_done(&output);
    let json: Value = output.json();
    let by_label = |text: &Value| {
        let mut labels: Vec<(String, f64)> = text["labels"]
            .as_array()
            .unwrap()
            .iter()
            .map(|label| {
                (label["label"].as_str().unwrap().to_owned(), label["score"].as_f64().unwrap())
            })
            .collect();
        labels.sort_by(|a, b| a.0.cmp(&b.0));
        labels.into_iter().map(|(_, score)| score)
    };
    json["predictions"].as_array().unwrap().iter().flat_map(by_label).collect()
}

#[test]
fn a_fine_tuned_model_is_evaluated_exported_and_used_after_the_pretrained_one_is_gone() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    fine_tuning(directory, 3, "");
    run_small(directory);
    assert_done(&run(directory, &["export", "small", "-o", "before"]));
    fs::rename(directory.join("bert"), directory.join("elsewhere")).unwrap();
    let exported = run(directory, &["export", "small", "-o", "after"]);
    assert_done(&exported);
    assert_names(&exported.err, &["test_accuracy"]);
    assert_done(&run(directory, &["export", "small", "-o", "other", "--trial", "0"]));
    let metrics =
        |model: &str| fs::read_to_string(directory.join(model).join("metrics.json")).unwrap();
    assert_eq!(metrics("before"), metrics("after"));
    fs::remove_dir_all(directory.join("before")).unwrap();
    let scores = scores(directory, "after");
    assert_eq!(scores.len(), 6);
    // Labels by their names: negative, positive.
    assert!(scores[0] < 0.5 && scores[1] > 0.5 && scores[2] > 0.5 && scores[3] < 0.5, "{scores:?}");
}

#[test]
fn int8_weights_predict_the_same_and_the_card_has_their_accuracy() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    fine_tuning(
        directory,
        4,
        "[export]\ndir = \"finished\"\non_finish = true\nquantize = \"int8\"\n",
    );
    run_small(directory);
    let file = |model: &str, name: &str| fs::read(directory.join(model).join(name)).unwrap();
    let finished = file("finished", "model.safetensors").len();
    let refused = run(directory, &["export", "small", "-o", "tiny", "--quantize", "int4"]);
    assert_eq!(refused.code, 2, "{}", refused.err);
    let study = fs::read_to_string(directory.join("small.toml"))
        .unwrap()
        .replace("quantize = \"int8\"", "");
    fs::write(directory.join("small.toml"), study).unwrap();
    run_small(directory);
    assert_done(&run(directory, &["export", "small", "-o", "large"]));
    let exported = run(directory, &["export", "small", "-o", "small", "--quantize", "int8"]);
    assert_done(&exported);
    let said = exported.err;
    assert_names(&said, &["weights", "instead of", "test_accuracy"]);
    assert_eq!(finished, file("small", "model.safetensors").len());
    // Names and shapes of the tensors are half of so small a file.
    assert!(
        file("small", "model.safetensors").len() < file("large", "model.safetensors").len() * 2 / 3
    );
    let card = String::from_utf8(file("small", "README.md")).unwrap();
    assert_names(&card, &["## Weights", "| test_loss |", "library_name: hpsearch"]);
    assert!(!String::from_utf8(file("large", "README.md")).unwrap().contains("## Weights"));
    let metrics: Value = serde_json::from_slice(&file("small", "metrics.json")).unwrap();
    let (before, after) =
        (&metrics["metrics_before_quantizing"]["test_loss"], &metrics["metrics"]["test_loss"]);
    assert!(
        before != after && (before.as_f64().unwrap() - after.as_f64().unwrap()).abs() < 0.05,
        "{metrics}"
    );
    let config: Value = serde_json::from_slice(&file("small", "config.json")).unwrap();
    // Other tools would load it as a BERT with integer weights.
    assert_eq!(
        (&config["model_type"], &config["quantization_config"]["model_type"]),
        (&json!("hpsearch-int8"), &json!("bert"))
    );
    assert_eq!(config["quantization_config"]["quant_method"], "hpsearch-int8");
    for (large, small) in scores(directory, "large").into_iter().zip(scores(directory, "small")) {
        assert!((large - small).abs() < 0.05, "{large} {small}");
    }
    let left: Vec<_> = fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert!(left.iter().all(|name| !name.starts_with('.')), "nothing is left aside: {left:?}");
}

#[test]
fn fine_tuning_studies_killed_at_any_moment_end_with_the_same_weights() {
    let (calm, stormy) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fine_tuning(calm.path(), 8, "");
    fine_tuning(stormy.path(), 8, "");
    run_small(calm.path());
    for wanted in [2, 6, 11] {
        let running = start_small(stormy.path());
        wait_for_reports(stormy.path(), wanted);
        kill_small(running, stormy.path());
    }
    run_small(stormy.path());
    for trial in ["trial-0", "trial-1"] {
        let last = |directory: &Path| {
            let files = directory.join("runs/files/small").join(trial);
            let step = |path: &std::path::PathBuf| {
                path.file_name()?.to_str()?.strip_prefix("checkpoint-")?.parse::<u64>().ok()
            };
            let newest = fs::read_dir(files)
                .unwrap()
                .map(|entry| entry.unwrap().path())
                .max_by_key(step)
                .unwrap();
            (step(&newest), fs::read(newest.join("model.safetensors")).unwrap())
        };
        let (calm, stormy) = (last(calm.path()), last(stormy.path()));
        assert_eq!(calm.0, Some(160));
        assert!(calm == stormy, "{trial}: the same step and the same weights");
    }
}
