//! What would spoil every trial and is known before the first: batches, learning rates, metrics
//! that are undefined.

use super::*;

fn messages(findings: &[Finding]) -> Vec<&str> {
    findings.iter().map(|finding| finding.message.as_str()).collect()
}

#[test]
fn batches_and_learning_rates_that_make_no_training_are_found() {
    let fixture = Fixture::new();
    let check = |values: Value| check_training(&arguments(values), &fixture.data);
    let found = |values: Value| messages(&check(values).unwrap()).join("\n");
    assert_eq!(found(json!({})), "");
    let none = json!({"dataloader_drop_last": true, "per_device_train_batch_size": 1000});
    assert_contains(&check(none).unwrap_err().to_string(), "leaves nothing of");
    let steps = json!({"max_steps": 30, "warmup_steps": 120});
    assert_contains(&found(steps.clone()), "has 30: the learning rate reaches 25 % of");
    let constant = json!({"lr_scheduler_type": "constant"});
    assert_eq!(found(merged(steps, constant)), "", "without a warm-up");
    let with_least = |kind: &str, rate: f64| {
        found(json!({
            "lr_scheduler_type": kind, "learning_rate": 1e-3, "eval_strategy": "epoch",
            "lr_scheduler_kwargs": {"min_lr": rate},
        }))
    };
    assert_contains(&with_least("cosine_with_min_lr", 0.01), "the learning rate rises to it");
    assert_eq!(with_least("cosine_with_min_lr", 1e-4), "");
    assert_eq!(with_least("reduce_lr_on_plateau", 0.01), "", "it stays");
}

#[test]
fn trainings_of_a_few_steps_are_found() {
    let fixture = Fixture::new();
    let found = |values: Value| {
        messages(&check_training(&arguments(values), &fixture.data).unwrap()).join("\n")
    };
    let large = found(json!({"per_device_train_batch_size": 4096}));
    assert_contains(&large, "the training is 2 optimiser steps in all");
    assert_contains(&large, "96 training rows, `per_device_train_batch_size` = 4096");
    let accumulated = found(json!({"gradient_accumulation_steps": 10000}));
    assert_contains(&accumulated, "times `gradient_accumulation_steps` = 10000");
    assert_contains(&found(json!({"num_train_epochs": 0.001})), "is 1 optimiser step in all");
    assert_eq!(found(json!({"max_steps": 2, "warmup_steps": 0})), "", "as it was asked for");
    assert_contains(
        &found(json!({"max_tokens_per_batch": 2})),
        "each of them forms a separate batch",
    );
}

#[test]
fn frozen_weights_of_a_model_from_scratch_are_found() {
    let fixture = Fixture::new();
    let found = |values: Value| {
        messages(&check_training(&arguments(values), &fixture.data).unwrap()).join("\n")
    };
    let adapters = found(json!({"lora_r": 2}));
    assert_contains(&adapters, "`lora_r` without `model`: all but the adapters and the head of a");
    assert_contains(&adapters, "or leave `lora_r` out");
    let layers = found(json!({"freeze_layers": 1}));
    assert_contains(&layers, "`freeze_layers` without `model`");
    assert_contains(&found(json!({"freeze": "embeddings"})), "`freeze` without `model`");
}

#[test]
fn metrics_that_say_nothing_on_the_validation_rows_are_named() {
    let undefined = |kind: TaskKind, values: Value, train: &str, validation: &str| {
        let directory = TempDir::new().unwrap();
        fs::write(directory.path().join("train.csv"), train).unwrap();
        fs::write(directory.path().join("validation.csv"), validation).unwrap();
        let base = json!({"train": "train.csv", "validation": "validation.csv", "max_length": 8});
        let data = prepare_logged(directory.path(), kind, merged(base, values), &words()).0;
        let data = data.unwrap();
        let arguments = resolve(json!({"task": kind.line().name}));
        let found = undefined_metrics(&arguments, &data);
        let found = found.map(|found| (found.names.to_vec(), found.why));
        let findings = messages(data.findings()).join("\n");
        (found, findings)
    };
    let regression = |numbers: [u32; 2]| {
        let [one, other] = numbers;
        undefined(
            TaskKind::TextRegression,
            json!({}),
            "text,label\na film,1\na book,2\nthe film,5000\n",
            &format!("text,label\none film,{one}\none book,{other}\n"),
        )
    };
    let (found, findings) = regression([3, 3]);
    let (names, why) = found.unwrap();
    assert!(names.contains(&"eval_pearson") && !names.contains(&"eval_loss"));
    assert_eq!(why, "all 2 validation rows have the number 3");
    assert_contains(&findings, "numbers up to 5000 are far from what a new model predicts");
    assert_eq!(regression([3, 4]).0, None);
    let labelled = |labels: [&str; 2]| {
        let [one, other] = labels;
        let train = "text,label\na film,no\na book,yes\nthe film,no\n";
        let validation = format!("text,label\none film,{one}\none book,{other}\n");
        undefined(TaskKind::TextClassification, json!({}), train, &validation).0
    };
    let (names, why) = labelled(["no", "no"]).unwrap();
    assert_eq!(names, ["eval_matthews_correlation", "eval_f1"]);
    assert_eq!(why, "all validation rows have the label `no`");
    assert_eq!(labelled(["yes", "yes"]).unwrap().0, ["eval_matthews_correlation"]);
    assert_eq!(labelled(["yes", "no"]), None);
    let pairs = "text,other\na film,the film\na book,the book\n";
    let similarity = |rows: &str| {
        let columns = json!({"text_pair": "other"});
        undefined(TaskKind::SentenceSimilarity, columns, pairs, &format!("text,other\n{rows}")).0
    };
    assert!(similarity("one film,this film\n").unwrap().0.contains(&"eval_accuracy"));
    assert_eq!(similarity("one film,this film\none book,this book\n"), None);
}

#[test]
fn a_batch_of_one_pair_has_nothing_to_be_told_from() {
    let directory = TempDir::new().unwrap();
    let rows: String = (0..8).map(|row| format!("a{row},b{row}\n")).collect();
    fs::write(directory.path().join("train.csv"), format!("text,other\n{rows}")).unwrap();
    let values = json!({"train": "train.csv", "text_pair": "other", "max_length": 8});
    let kind = TaskKind::SentenceSimilarity;
    let data = prepare_logged(directory.path(), kind, values, &words()).0.unwrap();
    let check = |rows: usize, tokens: Value| {
        let values = json!({"task": "sentence-similarity", "per_device_train_batch_size": rows});
        check_training(&arguments(merged(values, tokens)), &data)
    };
    let none = |problem: TrainerError| {
        assert_contains(&problem.to_string(), "compared with those of the other rows");
    };
    none(check(1, json!({})).unwrap_err());
    none(check(8, json!({"max_tokens_per_batch": 3})).unwrap_err());
    assert!(check(2, json!({})).is_ok());
}
