//! Training end to end under a mock runner, with the fixtures of the trainer's tests.

mod all_rows;
mod answers;
mod checks;
mod data;
mod devices;
mod fine_tuning;
mod golden;
mod golden_decoders;
mod golden_heads;
mod golden_seq2seq;
mod gradients;
mod language;
mod optimizers;
mod pretrained;
mod runs;
mod stopping;
mod token_tasks;
mod vocabularies;
mod written_texts;

pub(super) use optimizers::golden_optimizers;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tempfile::TempDir;

use super::*;
use hpsearch_core::arguments::{
    DataArguments, TaskKind, TokenizerArguments, TokenizerKind, TokenizerSource, WritingOptions,
};

/// The reports of a run by their study steps.
type Reports = Vec<(u64, BTreeMap<String, f64>)>;

/// A mock runner: records everything, and answers from a list.
#[derive(Default)]
struct Runner {
    reports: Reports,
    checkpoints: Vec<(u64, PathBuf)>,
    logs: Vec<String>,
    /// Decisions by study step; elsewhere training continues.
    verdicts: BTreeMap<u64, HostVerdict>,
    /// Asks the trial to stop after this many calls of `stop_requested`.
    stop_after: Option<usize>,
    asked: std::cell::Cell<usize>,
    /// The connection is lost at this report.
    gone_at: Option<u64>,
}

impl Runner {
    fn last_report(&self) -> &BTreeMap<String, f64> {
        &self.reports.last().unwrap().1
    }

    fn reported_steps(&self) -> Vec<u64> {
        self.reports.iter().map(|(step, _)| *step).collect()
    }

    /// The directory of the last checkpoint.
    fn last_checkpoint(&self) -> &Path {
        &self.checkpoints.last().unwrap().1
    }

    /// The weights of the last checkpoint, as bytes.
    fn weights(&self) -> Vec<u8> {
        fs::read(self.last_checkpoint().join("model.safetensors")).unwrap()
    }

    /// Training and evaluation loss of each report.
    fn losses(&self) -> Vec<f64> {
        let losses = |(_, metrics): &(u64, BTreeMap<String, f64>)| {
            [metrics["train_loss"], metrics["eval_loss"]]
        };
        self.reports.iter().flat_map(losses).collect()
    }

    fn has_logged(&self, text: &str) -> bool {
        self.logs.iter().any(|line| line.contains(text))
    }
}

impl Host for Runner {
    fn report(
        &mut self,
        step: u64,
        metrics: &BTreeMap<String, f64>,
    ) -> Result<HostVerdict, HostError> {
        let saved = self.checkpoints.last().map(|(step, _)| *step);
        assert_eq!(saved, Some(step), "a checkpoint precedes its report");
        if self.gone_at == Some(step) {
            return Err(HostError { message: "the pipe is closed".to_owned() });
        }
        self.reports.push((step, metrics.clone()));
        Ok(self.verdicts.get(&step).copied().unwrap_or(HostVerdict::Continue))
    }

    fn checkpoint(&mut self, step: u64, directory: &Path) -> Result<(), HostError> {
        assert!(directory.join("model.safetensors").exists());
        self.checkpoints.push((step, directory.to_owned()));
        Ok(())
    }

    fn log(&mut self, line: &str) {
        self.logs.push(line.to_owned());
    }

    fn stop_requested(&self) -> bool {
        self.asked.set(self.asked.get() + 1);
        self.stop_after.is_some_and(|after| self.asked.get() > after)
    }
}

/// Trains until the run ends as expected.
fn trained_until(end: TrainingEnd, job: &TrainingJob<'_>, mut runner: Runner) -> Runner {
    assert_eq!(train(job, &mut runner).unwrap(), end);
    runner
}

/// Trains to the end.
fn trained(job: &TrainingJob<'_>) -> Runner {
    trained_until(TrainingEnd::Finished, job, Runner::default())
}

/// Trains until the runner asks the trial to stop, after this many calls of `stop_requested`.
fn interrupted(job: &TrainingJob<'_>, after: usize) -> Runner {
    let runner = Runner { stop_after: Some(after), ..Runner::default() };
    trained_until(TrainingEnd::Interrupted, job, runner)
}

fn problem_of(job: &TrainingJob<'_>) -> String {
    train(job, &mut Runner::default()).unwrap_err().to_string()
}

#[track_caller]
pub(super) fn assert_contains(text: &str, part: &str) {
    assert!(text.contains(part), "`{part}` is not in `{text}`");
}

#[track_caller]
fn assert_all_close(one: &[f64], other: &[f64], tolerance: f64) {
    let close = |(one, other): (&f64, &f64)| (one - other).abs() < tolerance;
    assert!(one.len() == other.len() && one.iter().zip(other).all(close), "{one:?} {other:?}");
}

/// A directory with data whose label follows from one word of the text.
struct Fixture {
    directory: TempDir,
    data: PreparedData,
}

impl Fixture {
    fn new() -> Self {
        Self::with_rows(120)
    }

    fn with_rows(rows: usize) -> Self {
        let directory = TempDir::new().unwrap();
        fs::write(directory.path().join("train.csv"), keyword_csv(rows)).unwrap();
        let values = json!({"train": "train.csv", "validation_split": 0.2, "max_length": 16});
        let data = prepare_rows(directory.path(), values).unwrap();
        Self { directory, data }
    }

    fn path(&self) -> &Path {
        self.directory.path()
    }

    fn job<'a>(&'a self, arguments: &'a TrainerArguments, directory: &'a Path) -> TrainingJob<'a> {
        job(arguments, &self.data, directory)
    }
}

/// A run that reports after each epoch.
fn job<'a>(
    arguments: &'a TrainerArguments,
    data: &'a PreparedData,
    directory: &'a Path,
) -> TrainingJob<'a> {
    TrainingJob {
        arguments,
        data,
        device: "cpu",
        seed: 7,
        objective: TrainingObjective { metric: "eval_loss".to_owned(), maximize: false },
        step_unit: StepUnit::Epoch,
        milestones: Milestones { every: Some(1), at: vec![] },
        directory,
        rows_at_once: None,
        start: Start::Fresh,
        until: None,
        reported: None,
    }
}

fn tokenizer(kind: TokenizerKind, vocab_size: usize, lowercase: bool) -> TokenizerSource {
    TokenizerSource::Trained(TokenizerArguments { kind, vocab_size, lowercase })
}

fn words() -> TokenizerSource {
    tokenizer(TokenizerKind::Word, 100, true)
}

/// Prepares the data that `values` describe, relative to `directory`; the result, and the lines of
/// the log.
fn prepare_logged(
    directory: &Path,
    kind: TaskKind,
    values: Value,
    tokenizer: &TokenizerSource,
) -> (Result<PreparedData, TrainerError>, Vec<String>) {
    let data = DataArguments::resolve(&serde_json::from_value(values).unwrap()).unwrap();
    let (data, cache) = (data.relative_to(directory), directory.join("cache"));
    let mut lines = Vec::new();
    let mut log = |line: &str| lines.push(line.to_owned());
    let prepared = prepare(kind, &data, tokenizer, &cache, &mut log, &|_, _, _| {});
    (prepared, lines)
}

/// The same for classification with a tokenizer of words, without the log.
fn prepare_rows(directory: &Path, values: Value) -> Result<PreparedData, TrainerError> {
    prepare_logged(directory, TaskKind::TextClassification, values, &words()).0
}

fn predicted(directory: &Path, texts: &[&str]) -> Result<Vec<Prediction>, TrainerError> {
    predicted_of(directory, texts, None)
}

fn predicted_pairs(
    directory: &Path,
    texts: &[&str],
    pairs: &[String],
) -> Result<Vec<Prediction>, TrainerError> {
    predicted_of(directory, texts, Some(pairs))
}

fn predicted_of(
    directory: &Path,
    texts: &[&str],
    pairs: Option<&[String]>,
) -> Result<Vec<Prediction>, TrainerError> {
    let texts: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
    let inputs = PredictionInputs { texts: &texts, pairs, writing: WritingOptions::default() };
    predict(directory, inputs, 8, "cpu", &|_, _, _| {}).map(|done| done.predictions)
}

/// The likeliest label of each text.
fn best_labels(directory: &Path, texts: &[&str]) -> Vec<String> {
    let predictions = predicted(directory, texts).unwrap();
    predictions.iter().map(|text| text.labels()[0].label.clone()).collect()
}

fn evaluated(checkpoint: &Path, data: &PreparedData) -> BTreeMap<String, f64> {
    evaluate(checkpoint, data, Split::Validation, 64, "cpu", &|_, _, _| {}).unwrap().metrics
}

/// Runs `test` with fused operations, with tensor operations alone, and on every GPU that this
/// binary can use.
fn each_device(test: impl Fn(&str)) {
    test("cpu");
    fused::without_fusion(|| test("cpu"));
    available_devices().iter().filter(|name| name.as_str() != "cpu").for_each(|name| test(name));
}

/// A tolerance of the CPU on a device: others add in another order, and may multiply with 10 bits
/// (TF32).
fn on(device: &str, tolerance: f64) -> f64 {
    match device.split(':').next() {
        Some("cpu") => tolerance,
        // Products of f32 in TF32: on an H100, logits of gated decoders are off by up to 8e-3.
        Some("cuda") => 100.0 * tolerance,
        _ => 10.0 * tolerance,
    }
}

fn json_of(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

/// `base` with other keys of `values`; null removes one.
pub(super) fn merged(mut base: Value, values: Value) -> Value {
    let all = base.as_object_mut().unwrap();
    all.extend(values.as_object().unwrap().clone());
    all.retain(|_, value| !value.is_null());
    base
}

pub(super) fn resolve(values: Value) -> TrainerArguments {
    TrainerArguments::resolve(&serde_json::from_value(values).unwrap()).unwrap()
}

/// Small, with all randomness and accumulation enabled.
fn arguments(values: Value) -> TrainerArguments {
    let base = json!({
        "learning_rate": 0.01, "num_train_epochs": 2, "per_device_train_batch_size": 4,
        "gradient_accumulation_steps": 2,
        "weight_decay": 0.01, "label_smoothing_factor": 0.1, "warmup_steps": 3, "logging_steps": 3,
        "model.hidden_size": 16, "model.num_layers": 1, "model.num_heads": 2,
        "model.intermediate_size": 32,
        "model.dropout": 0.1, "model.attention_dropout": 0.1,
    });
    resolve(merged(base, values))
}

/// Texts of three to nine words, one of which determines the label.
fn keyword_csv(rows: usize) -> String {
    let (keywords, fillers) =
        (["good", "bad", "odd"], ["the", "a", "film", "book", "was", "is", "very", "quite", "so"]);
    let mut csv = "text,label\n".to_owned();
    for row in 0..rows {
        let mut text: Vec<&str> = (0..2 + row % 7)
            .map(|word| fillers[(row * 5 + word * word * 3 + row / 7) % 9])
            .collect();
        text.insert((row * 3) % (text.len() + 1), keywords[row % 3]);
        writeln!(csv, "{},{}", text.join(" "), ["positive", "negative", "neutral"][row % 3])
            .unwrap();
    }
    csv
}
