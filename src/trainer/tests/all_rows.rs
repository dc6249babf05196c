//! Training on all rows of the data, with none to evaluate on.

use super::*;
use hpsearch_core::arguments::TaskKind as Kind;

#[test]
fn without_validation_rows_training_is_the_same_and_reports_only_its_own_metrics() {
    let directory = TempDir::new().unwrap();
    fs::write(directory.path().join("train.csv"), keyword_csv(60)).unwrap();
    fs::write(directory.path().join("other.csv"), keyword_csv(12)).unwrap();
    let [alone, beside] =
        [json!({"validation_split": 0}), json!({"validation": "other.csv"})].map(|values| {
            let base = json!({"train": "train.csv", "max_length": 16});
            prepare_rows(directory.path(), merged(base, values)).unwrap()
        });
    assert_eq!(Split::ALL.map(|split| alone.rows(split)), [60, 0, 0]);
    let arguments = arguments(json!({"eval_on_start": true, "eval_strategy": "epoch"}));
    assert_eq!(undefined_metrics(&arguments, &alone), None);
    let paths = ["alone", "beside", "parts"].map(|name| directory.path().join(name));
    let one = trained(&job(&arguments, &alone, &paths[0]));
    let other = trained(&job(&arguments, &beside, &paths[1]));
    assert!(one.weights() == other.weights());
    assert_eq!(one.reported_steps(), [1, 2]);
    for ((_, one), (_, other)) in one.reports.iter().zip(&other.reports) {
        assert!(one.keys().all(|name| !name.starts_with("eval_")), "{one:?}");
        assert!(other.contains_key("eval_loss"));
        assert_eq!(one["train_loss"], other["train_loss"]);
        assert!(one["predict_ms"] > 0.0);
    }
    let first = interrupted(&job(&arguments, &alone, &paths[2]), 11);
    let start = Start::Resume(first.last_checkpoint());
    let reported = first.reported_steps().last().copied();
    let second = trained(&TrainingJob { start, reported, ..job(&arguments, &alone, &paths[2]) });
    assert!(second.weights() == one.weights());
}

#[test]
fn every_kind_of_data_can_be_trained_on_as_a_whole() {
    let words = "{\"text\": [\"a\", \"b\"], \"label\": [\"X\", \"O\"]}\n".repeat(4);
    let question = "{\"question\": \"who\", \"context\": \"Ada wrote\", \"answers\": \"Ada\"}\n";
    let pairs = "text,other\na b,b a\nc d,d c\ne f,f e\n";
    let bytes = || tokenizer(TokenizerKind::Bytes, 256, false);
    let cases = [
        (Kind::MultiLabelClassification, "a.csv", keyword_csv(9), json!({}), self::words()),
        (
            Kind::TextRegression,
            "a.csv",
            "text,label\na,1\nb,2\nc,3\n".into(),
            json!({}),
            self::words(),
        ),
        (Kind::TokenClassification, "a.jsonl", words, json!({}), self::words()),
        (Kind::QuestionAnswering, "a.jsonl", question.repeat(2), json!({}), self::words()),
        (
            Kind::SentenceSimilarity,
            "a.csv",
            pairs.into(),
            json!({"text_pair": "other"}),
            self::words(),
        ),
        (Kind::MaskedLanguageModeling, "a.csv", pairs.into(), json!({}), self::words()),
        (Kind::LanguageModeling, "a.csv", pairs.into(), json!({}), bytes()),
        (Kind::LanguageModeling, "a.txt", "some text\n".repeat(20), json!({}), bytes()),
        (Kind::Translation, "a.csv", pairs.into(), json!({"target": "other"}), bytes()),
    ];
    for (kind, name, contents, values, tokenizer) in cases {
        let directory = TempDir::new().unwrap();
        fs::write(directory.path().join(name), contents).unwrap();
        let base = json!({"train": name, "validation_split": 0, "max_length": 16});
        let values = merged(base, values);
        let (prepared, _) = prepare_logged(directory.path(), kind, values, &tokenizer);
        let prepared = prepared.unwrap_or_else(|error| panic!("{kind:?} {name}: {error}"));
        let [train, validation, test] = Split::ALL.map(|split| prepared.tokens(split));
        assert!(train > 0 && validation == 0 && test == 0, "{kind:?} {name}");
        let mut arguments = resolve(json!({}));
        arguments.task = kind;
        assert_eq!(undefined_metrics(&arguments, &prepared), None, "{kind:?}");
    }
}
