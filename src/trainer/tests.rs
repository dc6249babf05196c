//! Training end to end through a runner made up for tests.

mod data;
mod devices;
mod fine_tuning;
mod golden;
mod golden_decoders;
mod gradients;
mod language;
mod pretrained;
mod runs;
mod stopping;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tempfile::TempDir;

use super::*;
use crate::arguments::{
    DataArguments, TaskKind, TokenizerArguments, TokenizerKind, TokenizerSource,
};

/// A runner that remembers everything and answers from a list.
#[derive(Default)]
struct Runner {
    reports: Vec<(u64, BTreeMap<String, f64>)>,
    checkpoints: Vec<(u64, PathBuf)>,
    logs: Vec<String>,
    /// Verdicts at clock values; elsewhere it says to go on.
    verdicts: BTreeMap<u64, HostVerdict>,
    /// Asks the trial to leave once it was asked this many times.
    stop_after: Option<usize>,
    asked: std::cell::Cell<usize>,
    /// The runner dies at this report.
    gone_at: Option<u64>,
}

impl Host for Runner {
    fn report(
        &mut self,
        step: u64,
        metrics: &BTreeMap<String, f64>,
    ) -> Result<HostVerdict, HostError> {
        assert_eq!(
            self.checkpoints.last().map(|(clock, _)| *clock),
            Some(step),
            "a checkpoint precedes its report"
        );
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

/// A directory with data whose label is told by one word of the text.
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
        let data = arguments_of_data(
            directory.path(),
            json!({"train": "train.csv", "validation_split": 0.2, "max_length": 16}),
        );
        let data = prepare(
            TaskKind::TextClassification,
            &data,
            &words(),
            &directory.path().join("cache"),
            &mut |_| {},
            &|_, _, _| {},
        )
        .unwrap();
        Self { directory, data }
    }

    fn path(&self) -> &Path {
        self.directory.path()
    }

    fn job<'a>(&'a self, arguments: &'a TrainerArguments, directory: &'a Path) -> Job<'a> {
        Job {
            arguments,
            data: &self.data,
            device: "cpu",
            seed: 7,
            objective: Objective { metric: "eval_loss".to_owned(), maximize: false },
            step_unit: StepUnit::Epoch,
            milestones: Milestones { every: Some(1), at: vec![] },
            directory,
            rows_at_once: None,
            start: Start::Fresh,
            until: None,
            reported: None,
        }
    }
}

fn words() -> TokenizerSource {
    TokenizerSource::Trained(TokenizerArguments {
        kind: TokenizerKind::Word,
        vocab_size: 100,
        lowercase: true,
    })
}

fn arguments_of_data(directory: &Path, values: Value) -> DataArguments {
    DataArguments::resolve(&serde_json::from_value(values).unwrap()).unwrap().relative_to(directory)
}

/// Each way there is to compute here: with fused operations, with tensor operations alone, and on every GPU that this binary can use.
fn each_device(test: impl Fn(&str)) {
    test("cpu");
    fused::without_fusion(|| test("cpu"));
    available_devices().iter().filter(|name| name.as_str() != "cpu").for_each(|name| test(name));
}

/// What a tolerance for the processor is on a device: others add in another order, and may multiply with 10 bits (TF32).
fn on(device: &str, tolerance: f64) -> f64 {
    if device == "cpu" { tolerance } else { 10.0 * tolerance }
}

/// Small, with everything that is random or accumulated switched on.
fn arguments(values: Value) -> TrainerArguments {
    let mut all = json!({
        "learning_rate": 0.01, "num_train_epochs": 2, "per_device_train_batch_size": 4, "gradient_accumulation_steps": 2,
        "weight_decay": 0.01, "label_smoothing_factor": 0.1, "warmup_steps": 3, "logging_steps": 3,
        "model.hidden_size": 16, "model.num_layers": 1, "model.num_heads": 2, "model.intermediate_size": 32,
        "model.dropout": 0.1, "model.attention_dropout": 0.1,
    });
    for (key, value) in values.as_object().unwrap() {
        all[key] = value.clone();
    }
    all.as_object_mut().unwrap().retain(|_, value| !value.is_null());
    TrainerArguments::resolve(&serde_json::from_value(all).unwrap()).unwrap()
}

/// Texts of three to nine words, one of which says the label.
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
