//! Studies of the trainer's tasks over tokens, pairs and written texts: run, exported, used, and
//! trained again.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::harness::training::run_small;
use crate::harness::{assert_code, assert_done, assert_names, run};

/// Rows with words, labels of words, and a second text.
fn rows() -> String {
    let row = |row: usize| {
        let (name, place) = (["Ada", "Grace", "Alan"][row % 3], ["Rome", "Oslo"][row / 3 % 2]);
        let words = ["yesterday", "Dr", name, "went", "to", place];
        let tags = ["O", "O", "B-PER", "O", "O", "B-LOC"];
        let question = ["who went", "where to"][row % 2];
        let (answer, start) = [(name, 13), (place, 22 + name.len())][row % 2];
        json!({
            "tokens": words, "tags": tags, "text": words.join(" "),
            "other": format!("{name} in {place}"),
            "hot": [f64::from(u8::from(name == "Ada")), 0.0, f64::from(u8::from(place == "Rome"))],
            "question": question, "context": words.join(" "),
            "answers": {"text": [answer], "answer_start": [start]},
        })
    };
    (0..60).map(|number| format!("{}\n", row(number))).collect()
}

/// A study of a task in `directory`, run to its end and exported to `model`; what the export said.
fn exported(directory: &Path, task: &str, metric: [&str; 2], columns: &str) -> String {
    fs::write(directory.join("train.jsonl"), rows()).unwrap();
    let [metric, direction] = metric;
    let study = format!(
        r#"
        [study]
        name = "small"
        metric = "{metric}"
        direction = "{direction}"
        [budget]
        trials = 2
        [data]
        train = "train.jsonl"
        max_length = 16
        {columns}
        [trainer]
        task = "{task}"
        num_train_epochs = 6
        per_device_train_batch_size = 8
        "model.hidden_size" = 16
        "model.num_layers" = 1
        "model.num_heads" = 2
        "model.dropout" = 0.0
        [space]
        learning_rate = {{ float = [1e-2, 2e-2], log = true }}
        [devices]
        use = ["cpu"]
        trials_per_device = 1
        "#
    );
    fs::write(directory.join("small.toml"), study).unwrap();
    run_small(directory);
    let exported = run(directory, &["export", "small", "-o", "model"]);
    assert_done(&exported);
    // All of its arguments are ones that its task has.
    assert_done(&run(directory, &["train", "model/best.toml", "-o", "again"]));
    let weights = |model: &str| fs::read(directory.join(model).join("model.safetensors")).unwrap();
    assert!(weights("model") == weights("again"), "the same weights");
    exported.err
}

fn predicted(directory: &Path, arguments: &[&str]) -> Value {
    let output = run(directory, &[&["predict", "model", "--json"], arguments].concat());
    assert_done(&output);
    let json: Value = output.json();
    json["predictions"].clone()
}

#[test]
fn words_are_labelled_and_their_entities_found() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    let columns = "text = \"tokens\"\nlabel = \"tags\"";
    exported(directory, "token-classification", ["eval_f1", "maximize"], columns);
    let text = "yesterday Dr Ada went to Oslo";
    let found = predicted(directory, &[text]);
    let entities = found[0]["entities"].as_array().unwrap();
    let shown: Vec<(&str, &str)> = entities
        .iter()
        .map(|one| (one["entity_group"].as_str().unwrap(), one["word"].as_str().unwrap()))
        .collect();
    assert_eq!(shown, [("PER", "Ada"), ("LOC", "Oslo")], "{found}");
    let measured = run(directory, &["evaluate", "model", "train.jsonl", "--json"]);
    assert_done(&measured);
    let measured: Value = measured.json();
    let by_class = &measured["by_class"];
    let label = |row: &Value| row["label"].as_str().unwrap().to_owned();
    let types: Vec<String> = by_class["classes"].as_array().unwrap().iter().map(label).collect();
    assert_eq!(types, ["LOC", "PER"]);
    assert_eq!(by_class["averages"][0]["f1"], measured["metrics"]["test_f1"]);
    let output = run(directory, &["predict", "model", text, "list", "-o", "found.csv"]);
    assert_done(&output);
    let written = fs::read_to_string(directory.join("found.csv")).unwrap();
    let expected = format!("text,entity_group,word,start,end,score\n{text},PER,Ada,13,16,");
    assert!(written.starts_with(&expected), "{written}");
    let pair = run(directory, &["predict", "model", "a", "--text-pair", "b"]);
    assert_code(&pair, 2);
    assert!(pair.err.contains("reads single texts, not pairs"), "{}", pair.err);
}

#[test]
fn multi_hot_labels_are_learned_predicted_and_evaluated() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    let metric = ["eval_micro_f1", "maximize"];
    exported(directory, "multi-label-classification", metric, "label = \"hot\"");
    let found = predicted(directory, &["yesterday Dr Ada went to Oslo", "--top-k", "3"]);
    let labels = found[0]["labels"].as_array().unwrap();
    assert_eq!(labels.len(), 3, "{found}");
    assert_eq!(labels[0]["label"], "LABEL_0", "{found}");
    let measured = run(directory, &["evaluate", "model", "train.jsonl", "--json"]);
    assert_done(&measured);
    let measured: Value = measured.json();
    assert!(measured["metrics"]["test_micro_f1"].as_f64().unwrap() > 0.9, "{measured}");
    let by_class = &measured["by_class"];
    assert_eq!(by_class["averages"][0]["label"], "micro avg");
    assert_eq!(by_class["averages"][0]["f1"], measured["metrics"]["test_micro_f1"]);
    assert_eq!(by_class["classes"][2]["label"], "LABEL_2");
    assert_eq!(by_class["confusion_matrices"].as_array().unwrap().len(), 3, "{by_class}");
    assert!(by_class.get("confusion_matrix").is_none());
    let shown = run(directory, &["evaluate", "model", "train.jsonl"]);
    assert_done(&shown);
    assert_names(&shown.out, &["class", "LABEL_1", "  TP", "micro avg"]);
    let longer = json!({"text": "Dr Ada", "hot": [1, 0, 0, 1]});
    fs::write(directory.join("longer.jsonl"), longer.to_string()).unwrap();
    let refused = run(directory, &["evaluate", "model", "longer.jsonl"]);
    assert_code(&refused, 2);
    let said = "longer.jsonl:1: the list of labels has 4 numbers, and there are 3 labels";
    assert!(refused.err.contains(said), "{}", refused.err);
}

#[test]
fn questions_are_answered_from_their_contexts() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    let metric = ["eval_exact_match", "maximize"];
    let said = exported(directory, "question-answering", metric, "doc_stride = 4");
    let example = "hpsearch predict model \"a question\" --text-pair \"its context\"";
    assert!(said.contains(example), "{said}");
    let context = "today Dr Alan went to Rome";
    let found = predicted(directory, &["who went", "--text-pair", context]);
    let place = |key: &str| usize::try_from(found[0][key].as_u64().unwrap()).unwrap();
    assert_eq!(found[0]["answer"], context[place("start")..place("end")], "{found}");
    // Columns are those of the training.
    let rows = format!("{}\n", json!({"question": "where to", "context": context}));
    fs::write(directory.join("new.jsonl"), rows).unwrap();
    let output = run(directory, &["predict", "model", "--file", "new.jsonl", "-o", "found.csv"]);
    assert_done(&output);
    let written = fs::read_to_string(directory.join("found.csv")).unwrap();
    let expected = format!("text,text_pair,answer,start,end,score\nwhere to,{context},");
    assert!(written.starts_with(&expected), "{written}");
    let row: Vec<&str> = written.lines().nth(1).unwrap().split(',').collect();
    let place = |cell: &str| cell.parse::<usize>().unwrap();
    assert_eq!(row[2], &context[place(row[3])..place(row[4])], "{written}");
    let alone = run(directory, &["predict", "model", "who went"]);
    assert_code(&alone, 2);
    assert!(alone.err.contains("answers questions, and there is no context"), "{}", alone.err);
    for (option, models) in [("--num-beams", "write texts"), ("--top-k", "label texts")] {
        let refused =
            run(directory, &["predict", "model", "who", "--text-pair", context, option, "3"]);
        assert_code(&refused, 2);
        let said = format!("`{option}` is for models that {models}");
        assert!(refused.err.contains(&said), "{}", refused.err);
        assert!(refused.err.contains("trained for `question-answering`"), "{}", refused.err);
    }
    let both = predicted(directory, &["who went", "where to", "--text-pair", context]);
    assert_eq!(both[1]["text_pair"], context, "{both}");
    let config: Value =
        serde_json::from_str(&fs::read_to_string(directory.join("model/config.json")).unwrap())
            .unwrap();
    assert_eq!(
        config["auto_map"]["AutoModelForQuestionAnswering"],
        "modeling_hpsearch.HpsearchEncoderForQuestionAnswering"
    );
    let card = fs::read_to_string(directory.join("model").join("README.md")).unwrap();
    assert!(card.contains("pipeline_tag: question-answering"), "{card}");
    let study = fs::read_to_string(directory.join("small.toml")).unwrap();
    let wrong = study.replace("doc_stride = 4", "doc_stride = 16\nlabel = \"answers\"");
    fs::write(directory.join("wrong.toml"), wrong).unwrap();
    let refused = run(directory, &["check", "wrong.toml"]);
    assert_code(&refused, 2);
    for said in ["`answers` names the column of answers", "leaves nothing new in a window"] {
        assert!(refused.err.contains(said), "{}", refused.err);
    }
}

#[test]
fn hidden_tokens_are_told_and_texts_without_one_do_not_stop_the_others() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    let said = exported(directory, "masked-language-modeling", ["eval_loss", "minimize"], "");
    assert!(said.contains("hpsearch predict model \"some [MASK] text\""), "{said}");
    let told =
        predicted(directory, &["yesterday Dr Ada [MASK] to Oslo", "no mask", "--top-k", "3"]);
    assert_eq!(told[0]["masks"][0].as_array().unwrap().len(), 3, "{told}");
    assert_eq!(told[1]["masks"], json!([]));
    let none = run(directory, &["predict", "model", "no mask"]);
    assert_code(&none, 2);
    assert!(none.err.starts_with("error: no text has a mask token"), "{}", none.err);
}

#[test]
fn texts_become_vectors_and_pairs_are_compared() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    let columns = "text_pair = \"other\"";
    exported(directory, "sentence-similarity", ["eval_accuracy", "maximize"], columns);
    let vectors = predicted(directory, &["Dr Ada went to Oslo", "Ada in Oslo"]);
    let [one, other] = [0, 1].map(|text| {
        let numbers = vectors[text]["vector"].as_array().unwrap().iter();
        numbers.map(|number| number.as_f64().unwrap()).collect::<Vec<f64>>()
    });
    assert_eq!(one.len(), 16);
    let cosine: f64 = one.iter().zip(&other).map(|(a, b)| a * b).sum();
    let scored = predicted(directory, &["Dr Ada went to Oslo", "--text-pair", "Ada in Oslo"]);
    assert_eq!(scored[0]["text_pair"], "Ada in Oslo");
    let score = scored[0]["labels"][0]["score"].as_f64().unwrap();
    assert!((score - cosine).abs() < 1e-5, "{score} {cosine}");
}

#[test]
fn a_text_is_written_for_each_text() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    let columns = "target = \"other\"\nmax_target_length = 12";
    let said = exported(directory, "translation", ["eval_chrf", "maximize"], columns);
    assert!(said.contains("hpsearch translate model \"some text\""), "{said}");
    let written = predicted(directory, &["yesterday Dr Ada went to Oslo", "--num-beams", "3"]);
    assert!(written[0]["generated_text"].is_string(), "{written}");
    let texts = ["translate", "model", "yesterday Dr Ada went to Oslo", "yesterday", "-o", "t.csv"];
    assert_done(&run(directory, &texts));
    let table = fs::read_to_string(directory.join("t.csv")).unwrap();
    assert!(table.starts_with("text,generated_text\nyesterday Dr Ada went to Oslo,"), "{table}");
    let card = fs::read_to_string(directory.join("model").join("README.md")).unwrap();
    assert!(card.contains("pipeline_tag: translation"), "{card}");
    let other = run(directory, &["generate", "model", "yesterday"]);
    assert_ne!(other.code, 0);
    assert!(other.err.contains("cannot continue a text: use `hpsearch predict`"), "{}", other.err);
    // The column of texts to write is named, and labels are not.
    let study = fs::read_to_string(directory.join("small.toml")).unwrap();
    let wrong = study.replace("target = \"other\"", "label = \"other\"");
    fs::write(directory.join("wrong.toml"), wrong).unwrap();
    let refused = run(directory, &["check", "wrong.toml"]);
    assert_code(&refused, 2);
    for said in ["`translation` needs texts to write", "`translation` has no labels"] {
        assert!(refused.err.contains(said), "{}", refused.err);
    }
    let wrong = study.replace("[space]", "predict_with_generate = false\n[space]");
    fs::write(directory.join("wrong.toml"), wrong).unwrap();
    let refused = run(directory, &["check", "wrong.toml"]);
    assert_code(&refused, 2);
    assert!(refused.err.contains("`eval_chrf` measures generated texts"), "{}", refused.err);
}
