//! `hpsearch predict`: labels and scores of texts from an exported model.

use std::io::{self, BufRead, Write};
use std::path::PathBuf;

use clap::Args;

use super::console::Console;
use super::exit::{Exit, Failure};
use super::waiting::Waiting;
use crate::device::Device;
use crate::runner::errand;
use crate::runner::process::own_program;
use crate::wire::Job;

/// What `hpsearch predict` is told.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Examples:\n  hpsearch predict model \"what a film\"\n  cat texts.txt | hpsearch predict model")]
pub struct PredictArguments {
    /// The directory that `export` wrote
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
    /// The texts; from standard input, one a line, if there are none here
    #[arg(value_name = "TEXT")]
    pub texts: Vec<String>,
    /// The device to use
    #[arg(long, default_value = "cpu")]
    pub device: String,
}

/// Labels are shown down to this probability, besides the first.
const SHOWN: f64 = 0.05;

/// Predicts them.
pub fn predict(arguments: &PredictArguments, console: &mut Console) -> Result<Exit, Failure> {
    let device: Device = arguments.device.parse().map_err(|error| Failure::new(Exit::Usage, error).help("`hpsearch devices` lists what is here"))?;
    let texts = if arguments.texts.is_empty() { io::stdin().lock().lines().collect::<Result<Vec<_>, _>>()? } else { arguments.texts.clone() };
    let directory = std::path::absolute(&arguments.directory)?;
    if !directory.join("model.safetensors").is_file() {
        return Err(Failure::usage(format!("`{}` holds no model", arguments.directory.display())).help("`hpsearch export STUDY -o DIR` writes one"));
    }
    let waiting = Waiting::start("loading the model", console);
    let job = Job::Predict { directory, texts: texts.clone(), device };
    let answer = errand::run(&own_program(), job, &mut |progress| waiting.hear(&progress));
    drop(waiting);
    let answer = answer?.unwrap_or_default();
    let predictions = answer.as_array().cloned().unwrap_or_default();
    for (text, prediction) in texts.iter().zip(&predictions) {
        let labels = prediction.get("labels").and_then(serde_json::Value::as_array).cloned().unwrap_or_default();
        if texts.len() > 1 {
            writeln!(console.out, "{text}")?;
        }
        for (index, label) in labels.iter().enumerate() {
            let (name, score) = (label.get("label").and_then(serde_json::Value::as_str), label.get("score").and_then(serde_json::Value::as_f64));
            if let (Some(name), Some(score)) = (name, score)
                && (index == 0 || score >= SHOWN)
            {
                writeln!(console.out, "{score:.3}  {name}")?;
            }
        }
    }
    Ok(Exit::Done)
}
