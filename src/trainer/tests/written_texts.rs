//! Tasks that write a text for each text: their data, runs from scratch, and what is exported.

use super::super::prepared::Extra;
use super::data::problem_with;
use super::*;

const KIND: TaskKind = TaskKind::TextToText;

/// Sentences, and what happens in them in another order.
fn sentences(rows: usize) -> String {
    let (names, verbs) = (["Ada", "Grace", "Alan", "Kurt"], ["reads", "calls", "sees"]);
    let row = |row: usize| {
        let (name, verb) = (names[row % 4], verbs[row / 4 % 3]);
        let other = names[(row / 12 + row + 1) % 4];
        let source = format!("today {name} {verb} {other}");
        json!({"source": source, "told": format!("{verb}({name}, {other})")}).to_string() + "\n"
    };
    (0..rows).map(row).collect()
}

fn prepared(directory: &TempDir, values: Value) -> PreparedData {
    let values = merged(
        json!({"train": "train.jsonl", "text": "source", "target": "told", "max_length": 32}),
        values,
    );
    let source = tokenizer(TokenizerKind::Bpe, 290, false);
    prepare_logged(directory.path(), KIND, values, &source).0.unwrap()
}

fn texts_of(predictions: &[Prediction]) -> Vec<&str> {
    let mut texts = Vec::new();
    for prediction in predictions {
        let Prediction::Text(text) = prediction else { panic!("{prediction:?}") };
        texts.push(text.as_str());
    }
    texts
}

#[test]
fn every_family_learns_to_write_and_resumes_bit_for_bit() {
    let directory = TempDir::new().unwrap();
    fs::write(directory.path().join("train.jsonl"), sentences(96)).unwrap();
    let data = prepared(&directory, json!({}));
    for family in ["t5", "mt5", "bart", "marian"] {
        let arguments = arguments(json!({
            "task": "text-to-text", "model.model_type": family,
            "num_train_epochs": if family == "t5" { 80 } else { 12 },
            "model.hidden_size": 32, "warmup_steps": 8, "lr_scheduler_type": "constant",
            "learning_rate": if family == "t5" || family == "mt5" { 0.005 } else { 0.003 },
            "model.dropout": 0.05, "model.attention_dropout": 0.05,
        }));
        let path = directory.path().join(family);
        let runner = trained(&job(&arguments, &data, &path));
        let losses = runner.losses();
        assert!(losses.last().unwrap() < &(0.5 * losses[0]), "{family}: {losses:?}");
        let last = runner.last_report();
        assert!(last["eval_gen_len"] > 1.0 && last["eval_bleu"] >= 0.0, "{family}: {last:?}");
        if family == "t5" {
            assert!(last["eval_exact_match"] > 0.9, "{last:?}");
            assert!(last["eval_bleu"] > 90.0 && last["eval_chrf"] > 90.0, "{last:?}");
        }
        let evaluated = evaluated(runner.last_checkpoint(), &data);
        for metric in ["eval_loss", "eval_bleu", "eval_rougeL", "eval_exact_match"] {
            assert!((evaluated[metric] - last[metric]).abs() < 1e-6, "{family} {metric}");
        }
        // Beams that do not end stop where the model's positions do.
        let many = WritingOptions {
            max_new_tokens: Some(500),
            num_beams: Some(9),
            ..WritingOptions::default()
        };
        let texts = ["today today today".to_owned()];
        let inputs = PredictionInputs { texts: &texts, pairs: None, writing: many };
        predict(runner.last_checkpoint(), inputs, 1, "cpu", &|_, _, _| {}).unwrap();

        let stopped = directory.path().join(format!("{family}-stopped"));
        let stopped = interrupted(&job(&arguments, &data, &stopped), 20);
        let (_, checkpoint) = stopped.checkpoints.last().unwrap();
        let rest = directory.path().join(format!("{family}-rest"));
        let resumed =
            TrainingJob { start: Start::Resume(checkpoint), ..job(&arguments, &data, &rest) };
        assert_eq!(trained(&resumed).weights(), runner.weights(), "{family}: bit for bit");
    }
}

#[test]
fn what_is_written_is_text_and_beams_and_lengths_may_be_given() {
    let directory = TempDir::new().unwrap();
    fs::write(directory.path().join("train.jsonl"), sentences(96)).unwrap();
    let data = prepared(&directory, json!({"source_prefix": "tell: ", "max_target_length": 20}));
    let arguments = arguments(json!({
        "task": "text-to-text", "num_train_epochs": 50, "model.hidden_size": 32,
        "predict_with_generate": false, "learning_rate": 0.005, "model.dropout": 0.0,
        "model.attention_dropout": 0.0, "label_smoothing_factor": 0.0,
    }));
    let runner = trained(&job(&arguments, &data, &directory.path().join("run")));
    assert!(!runner.last_report().contains_key("eval_bleu"), "{:?}", runner.last_report());
    let checkpoint = runner.last_checkpoint();
    let config = json_of(&checkpoint.join("config.json"));
    assert_eq!(config["architectures"], json!(["T5ForConditionalGeneration"]));
    assert_eq!((&config["max_length"], &config["prefix"]), (&json!(21), &json!("tell: ")));
    // The beginning is put before each text.
    let sources = ["today Grace calls Kurt", "today Ada reads Grace"];
    let written = predicted(checkpoint, &sources).unwrap();
    assert_eq!(texts_of(&written), ["calls(Grace, Kurt)", "reads(Ada, Grace)"]);
    let texts = sources.map(str::to_owned);
    let with = |writing: WritingOptions| {
        let inputs = PredictionInputs { texts: &texts, pairs: None, writing };
        predict(checkpoint, inputs, 1, "cpu", &|_, _, _| {}).unwrap().predictions
    };
    let beams = WritingOptions { num_beams: Some(4), ..WritingOptions::default() };
    assert_eq!(with(beams), written);
    let short = WritingOptions { max_new_tokens: Some(1), ..WritingOptions::default() };
    assert!(texts_of(&with(short))[0].len() < 8, "{:?}", with(short));
}

#[test]
fn activation_checkpointing_and_small_micro_batches_change_nothing() {
    let directory = TempDir::new().unwrap();
    fs::write(directory.path().join("train.jsonl"), sentences(60)).unwrap();
    let data = prepared(&directory, json!({}));
    for family in ["t5", "bart"] {
        let losses = |values: Value, name: &str| {
            let base = json!({
                "task": "text-to-text", "num_train_epochs": 2, "model.num_layers": 2,
                "predict_with_generate": false, "model.model_type": family,
            });
            let arguments = arguments(merged(base, values));
            let path = directory.path().join(format!("{family}-{name}"));
            trained(&job(&arguments, &data, &path)).losses()
        };
        let plain = losses(json!({}), "plain");
        let again = losses(json!({"gradient_checkpointing": true}), "again");
        assert_all_close(&plain, &again, 1e-4);
        // The outputs of frozen layers are not cached: they are not those of one row after the
        // other.
        let frozen = |cached: bool, name: &str| {
            losses(json!({"freeze_layers": 1, "cache_frozen_features": cached}), name)
        };
        assert_eq!(frozen(true, "cached"), frozen(false, "computed"));
        // Adapters of all queries and values.
        let adapted = losses(json!({"lora_r": 2}), "adapted");
        assert!(adapted.iter().all(|loss| loss.is_finite()), "{family}: {adapted:?}");
        assert_ne!(adapted, plain, "{family}");
        let rows = |rows: usize, accumulated: usize, name: &str| {
            let values = json!({
                "model.dropout": 0.0, "model.attention_dropout": 0.0,
                "per_device_train_batch_size": rows, "gradient_accumulation_steps": accumulated,
            });
            losses(values, name)
        };
        assert_all_close(&rows(8, 1, "whole"), &rows(2, 4, "parts"), 1e-3);
    }
}

#[test]
fn targets_end_and_are_cut_at_their_own_length() {
    let directory = TempDir::new().unwrap();
    fs::write(directory.path().join("train.jsonl"), sentences(30)).unwrap();
    let data = prepared(&directory, json!({"max_target_length": 4}));
    let targets = data.extras(Extra::SecondTexts, Split::Train).unwrap();
    let ends = data.text_ends().unwrap();
    for row in 0..data.rows(Split::Train) {
        let target: Vec<u32> = targets.ids(row).collect();
        assert_eq!((target.len(), target[3]), (4, ends.end), "{target:?}");
        assert!(data.split(Split::Train).length(row) > 4);
    }
    assert_eq!(ends.pad as usize, data.vocab_size() - 1);
    assert_ne!(prepared(&directory, json!({})).digest(), data.digest());
}

#[test]
fn texts_to_write_that_are_missing_are_problems_of_their_rows() {
    let problem = |rows: &str| {
        let values = json!({
            "train": "train.csv", "target": "told", "validation_split": 0.5,
            "clean.drop_empty": false,
        });
        let source = tokenizer(TokenizerKind::Bpe, 290, false);
        problem_with(&[("train.csv", rows.as_bytes())], KIND, values, &source)
    };
    let said = problem("text,told\na,b\nc,\n");
    assert!(said.starts_with("train.csv:3: the text in column `told` is empty"), "{said}");
    let said = problem("text,label\na,b\nc,d\n");
    assert_contains(&said, "told");
    let said = problem("text,told\na,b\n");
    assert!(said.starts_with("train.csv: too few rows to split: 1"), "{said}");
}

#[test]
fn a_pretrained_t5_has_one_dropout() {
    let config = super::golden::config_of(&super::golden::golden_directory("t5"));
    let problem = |values: Value| {
        let values = merged(json!({"task": "text-to-text"}), values);
        let model = resolve(values).model;
        let mut config =
            super::super::encoder_decoder::Seq2SeqConfig::read(config.clone()).unwrap();
        config.adapt(&model)
    };
    assert!(problem(json!({})).is_ok());
    let both =
        json!({"model.pretrained": "x", "model.dropout": 0.2, "model.attention_dropout": 0.2});
    assert!(problem(both).is_ok());
    let said =
        problem(json!({"model.pretrained": "x", "model.attention_dropout": 0.3})).unwrap_err();
    assert!(
        said.starts_with("is of `t5`, which has one rate of dropout for all its parts"),
        "{said}"
    );
}
