//! Question answering: its data, and runs from scratch.

use super::super::prepared::Extra;
use super::data::problem_with;
use super::*;

const KIND: TaskKind = TaskKind::QuestionAnswering;

/// Questions for the word behind one that they name, as SQuAD has them; of some contexts it is not
/// in there.
fn asked(rows: usize) -> String {
    let things = ["dog", "cat", "bird", "horse"];
    let names = ["rex", "tom", "ida", "max", "eva", "leo"];
    let row = |row: usize| {
        let names: Vec<&str> = (0..4).map(|at| names[(row / 4 + at * 5 + at * at) % 6]).collect();
        let context = things.iter().zip(&names).map(|(thing, name)| format!("{thing} {name}"));
        let context = context.collect::<Vec<_>>().join(" ");
        let answers = match row % 5 {
            4 => json!({"text": [], "answer_start": []}),
            _ => {
                let at = context.find(things[row % 4]).unwrap() + things[row % 4].len() + 1;
                json!({"text": [names[row % 4]], "answer_start": [at]})
            }
        };
        let thing = if row % 5 == 4 { "fish" } else { things[row % 4] };
        let question = format!("name of the {thing}");
        json!({"question": question, "context": context, "answers": answers}).to_string() + "\n"
    };
    (0..rows).map(row).collect()
}

fn prepare_in(directory: &Path, values: Value, source: &TokenizerSource) -> PreparedData {
    let values = merged(json!({"train": "train.jsonl"}), values);
    prepare_logged(directory, KIND, values, source).0.unwrap()
}

#[test]
fn answers_are_learnt_resumed_and_found_in_windows() {
    let directory = TempDir::new().unwrap();
    fs::write(directory.path().join("train.jsonl"), asked(200)).unwrap();
    // Windows of six to eight tokens beside a question of four, of contexts of eight.
    let values = json!({"max_length": 13, "doc_stride": 2, "max_answer_length": 3});
    let data = prepare_in(directory.path(), values, &words());
    assert!(data.rows(Split::Train) > 180, "{}", data.rows(Split::Train));
    let arguments = arguments(json!({
        "task": "question-answering", "num_train_epochs": 14, "learning_rate": 3e-3,
        "label_smoothing_factor": 0.0, "model.hidden_size": 32, "model.num_layers": 2,
        "model.num_heads": 2, "model.dropout": 0.0,
    }));
    let path = directory.path().join("run");
    let runner = trained(&job(&arguments, &data, &path));
    let last = runner.last_report();
    assert!(last["eval_exact_match"] > 0.9 && last["eval_f1"] > 0.9, "{last:?}");
    let evaluated = evaluated(runner.last_checkpoint(), &data);
    assert!((evaluated["eval_f1"] - last["eval_f1"]).abs() < 1e-9);

    let stopped = interrupted(&job(&arguments, &data, &directory.path().join("stopped")), 20);
    let (_, checkpoint) = stopped.checkpoints.last().unwrap();
    let rest = directory.path().join("rest");
    let resumed = TrainingJob { start: Start::Resume(checkpoint), ..job(&arguments, &data, &rest) };
    assert_eq!(trained(&resumed).weights(), runner.weights(), "bit for bit");

    let config = json_of(&runner.last_checkpoint().join("config.json"));
    assert_eq!(config["architectures"], json!(["HpsearchEncoderForQuestionAnswering"]));
    assert!(config["id2label"].is_null());
    let own = &config["task_specific_params"]["question-answering"];
    assert_eq!(*own, json!({"max_answer_len": 3, "handle_impossible_answer": true}));

    let texts = ["name of the horse", "name of the dog", "name of the fish", "name of the cat"];
    let context = "dog rex cat tom bird ida horse max";
    let contexts = [context, context, context, ""].map(str::to_owned);
    let found = predicted_pairs(runner.last_checkpoint(), &texts, &contexts).unwrap();
    let answers: Vec<&ExtractedAnswer> = found
        .iter()
        .map(|one| if let Prediction::Answer(answer) = one { answer } else { panic!("{one:?}") })
        .collect();
    let shown: Vec<_> = answers.iter().map(|one| (&*one.answer, one.start, one.end)).collect();
    assert_eq!(shown, [("max", 31, 34), ("rex", 4, 7), ("", 0, 0), ("", 0, 0)]);
    assert!(answers.iter().all(|one| one.score > 0.3 && one.score <= 1.0), "{answers:?}");
    let without = predicted(runner.last_checkpoint(), &["name of the dog"]).unwrap_err();
    assert!(without.to_string().contains("give each question its context"), "{without}");
    let long = "name of the dog ".repeat(8);
    let texts = [long, "name of the dog".to_owned()];
    let inputs = PredictionInputs {
        texts: &texts,
        pairs: Some(&contexts[..2]),
        writing: WritingOptions::default(),
    };
    let said = predict(runner.last_checkpoint(), inputs, 2, "cpu", &|_, _, _| {}).unwrap();
    // The first half of the long question is read, and the other question as it is.
    assert_eq!((said.predictions.len(), said.truncated), (2, 1));
    let Prediction::Answer(answer) = &said.predictions[1] else { panic!("{said:?}") };
    assert_eq!(answer.answer, "rex");
}

#[test]
fn a_limited_evaluation_has_all_windows_of_its_questions() {
    let directory = TempDir::new().unwrap();
    fs::write(directory.path().join("train.jsonl"), asked(60)).unwrap();
    let values = json!({"max_length": 10, "doc_stride": 1, "validation_split": 0.5});
    let data = prepare_in(directory.path(), values, &words());
    let of_row = |row: usize| {
        data.extras(Extra::Answers, Split::Validation).unwrap().ids(row).next().unwrap()
    };
    let rows = data.rows(Split::Validation);
    assert!(rows >= 3 * 30 && of_row(rows - 1) == 29, "{rows} windows");
    let arguments = arguments(json!({
        "task": "question-answering", "max_steps": 2, "max_eval_samples": 1, "eval_steps": 2,
        "label_smoothing_factor": 0.0,
        "eval_strategy": "steps",
    }));
    let runner = trained(&job(&arguments, &data, &directory.path().join("run")));
    let exact = runner.last_report()["eval_exact_match"];
    assert!(exact == 0.0 || exact == 1.0, "of one question: {exact}");
}

#[test]
fn columns_have_their_names_and_answers_are_texts_or_json() {
    let directory = TempDir::new().unwrap();
    let rows = "q,passage,a\nwho,ada met bob,bob\nwhen,\"in 1815, in may\",1815\nwhere,here,\n";
    fs::write(directory.path().join("train.csv"), rows.to_owned() + &rows[12..].repeat(9)).unwrap();
    let values = json!({
        "train": "train.csv", "question": "q", "context": "passage", "answers": "a",
    });
    let (data, log) = prepare_logged(directory.path(), KIND, values, &words());
    let data = data.unwrap();
    assert!(log.iter().any(|line| line.contains("training questions have no answer")), "{log:?}");
    let answer = |row: usize| -> Vec<u32> {
        data.extras(Extra::Answers, Split::Train).unwrap().ids(row).skip(1).collect()
    };
    let answers: std::collections::BTreeSet<Vec<u32>> =
        (0..data.rows(Split::Train)).map(answer).collect();
    // [CLS] who [SEP] ada met bob: the sixth token; in 1815: the fifth.
    assert_eq!(answers, [vec![0, 0], vec![4, 4], vec![5, 5]].into());
}

#[test]
fn answers_that_cannot_be_found_are_counted() {
    let directory = TempDir::new().unwrap();
    let row = |start: i64, answer: &str| {
        let answers = json!({"text": [answer], "answer_start": [start]});
        json!({"question": "who", "context": "ada met bob and eva in may", "answers": answers})
            .to_string()
            + "\n"
    };
    let rows = row(8, "bob").repeat(10)
        + &row(-1, "bob")
        + &row(9, "bob")
        + &row(0, "ada met bob and eva in may");
    fs::write(directory.path().join("train.jsonl"), rows).unwrap();
    let values = json!({
        "train": "train.jsonl", "validation": "train.jsonl", "max_length": 10,
        "max_answer_length": 4,
    });
    let (data, log) = prepare_logged(directory.path(), KIND, values, &words());
    data.unwrap();
    for expected in [
        "warning: 2 of 13 train answers are not at their `answer_start`",
        "warning: 1 of 13 train answers is in no window as a whole",
    ] {
        assert!(log.iter().any(|line| line.starts_with(expected)), "{expected}: {log:?}");
    }
    let long = json!({"train": "train.jsonl", "max_answer_length": 4});
    let (_, log) = prepare_logged(directory.path(), KIND, long, &words());
    let expected = "warning: 1 of 12 train answers is longer than `[data] max_answer_length` = 4";
    assert!(log.iter().any(|line| line.starts_with(expected)), "{log:?}");
}

#[test]
fn what_cannot_be_asked_is_a_problem_of_its_row() {
    let problem = |rows: &[Value], values: Value| {
        let rows: String = rows.iter().map(|row| format!("{row}\n")).collect();
        let values = merged(
            json!({
                "train": "train.jsonl", "validation": "train.jsonl", "max_length": 12,
                "doc_stride": 3,
            }),
            values,
        );
        problem_with(&[("train.jsonl", rows.as_bytes())], KIND, values, &words())
    };
    let fine = json!({"question": "who", "context": "ada met bob", "answers": "bob"});
    let other = |answers: Value| merged(fine.clone(), json!({"answers": answers}));
    let said = problem(&[fine.clone(), other(json!("eva"))], json!({}));
    assert!(said.starts_with("train.jsonl:2: the answer `eva` is not in its context"), "{said}");
    let said = problem(&[fine.clone(), other(json!([1]))], json!({}));
    assert!(said.starts_with("train.jsonl:2: the answers `[1]` have no texts"), "{said}");
    let long = merged(
        fine.clone(),
        json!({
            "question": "who met whom and when and where and why",
            "context": "a b c d e f g h i j bob",
        }),
    );
    let said = problem(&[fine.clone(), long], json!({}));
    assert!(
        said.starts_with("train.jsonl:2: the question leaves no room for its context"),
        "{said}"
    );
    let bracket = merged(other(json!("[1]")), json!({"context": "see [1] there"}));
    let said = problem(
        &[fine.clone(), bracket, other(json!({"text": ["bob"], "answer_start": []}))],
        json!({}),
    );
    assert!(said.starts_with("train.jsonl:3: 1 answers and 0 places in"), "{said}");
    let empty = merged(fine.clone(), json!({"context": ""}));
    let said = problem(&[empty], json!({"clean": {"drop_empty": true}}));
    assert!(said.contains("`[data] context` names it"), "{said}");
    let said = problem(&[fine], json!({"context": "passage"}));
    assert!(said.starts_with("train.jsonl:1: there is no column `passage`"), "{said}");
}
