//! `hpsearch evaluate`: measures an exported model on a file of labelled rows.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;

use super::exported;
use super::waiting::listener;
use super::{Console, Exit, Failure};
use crate::app::evaluate::{Seen, WHERE_FROM, evaluate as measure, seen};
use crate::config::{self, ConfigError};
use crate::export::Recipe;
use crate::report::wording::{number, one_line};
use crate::study::metric::Metrics;

/// Arguments of `hpsearch evaluate`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Examples:\n  hpsearch evaluate model test.csv\n  hpsearch evaluate model \
        new.jsonl --set text=review --set label=stars")]
pub struct EvaluateArguments {
    /// The directory that `export` wrote
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
    /// A file of rows with their labels, in a format of training data
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// An argument of [data] for this file, such as label=intent; by default those that the model
    /// was trained with
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// The device to use
    #[arg(long, default_value = "cpu")]
    pub device: String,
}

/// The metrics of a file.
#[derive(Serialize)]
struct EvaluationJson {
    metrics: Metrics,
    /// The split of its training that the file is.
    #[serde(skip_serializing_if = "Option::is_none")]
    seen: Option<&'static str>,
}

/// Measures it.
pub fn evaluate(arguments: &EvaluateArguments, console: &mut Console) -> Result<Exit, Failure> {
    let device = exported::device(&arguments.device)?;
    let directory = exported::model(&arguments.directory)?;
    let Some(recipe) = Recipe::of_export(&directory) else {
        return Err(Failure::usage(format!(
            "`{}` does not say how its model was trained: it has no best.toml",
            arguments.directory.display()
        ))
        .help("`hpsearch export STUDY -o DIR` writes one beside the model"));
    };
    let data = config::data_overrides(&arguments.set, &recipe.data_arguments())
        .map_err(ConfigError::Invalid)?;
    if let Some(key) = WHERE_FROM.into_iter().find(|key| data.contains_key(*key)) {
        return Err(Failure::usage(format!("`{key}` is not read: the rows are those of the file")));
    }
    let file = std::path::absolute(&arguments.file)?;
    if !file.exists() {
        let failure = Failure::usage(format!("there is no `{}`", arguments.file.display()));
        return Err(match config::file::similar(&arguments.file) {
            Some(near) => failure.help(format!("did you mean `{}`?", near.display())),
            None => failure,
        });
    }
    let seen = seen(&recipe, &file);
    let (directory, file) = (in_unicode(&directory)?, in_unicode(&file)?);
    if let Some(seen) = &seen {
        console.say(&format!("warning: {}", in_words(seen, &recipe)));
    }
    let mut hear = listener(console);
    let metrics = measure(directory, &recipe, file, data, &device, &mut hear);
    drop(hear);
    let metrics = metrics?;
    if arguments.json {
        console.json(None, &EvaluationJson { metrics, seen: seen.map(|seen| seen.split) })?;
    } else {
        for (name, value) in metrics.iter() {
            writeln!(console.out, "{name} {}", number(value))?;
        }
    }
    Ok(Exit::Done)
}

/// Why the metrics are not those of new rows.
fn in_words(Seen { split, is_changed }: &Seen, recipe: &Recipe) -> String {
    let study = one_line(&recipe.study);
    let these = match is_changed {
        true => {
            format!("this file, which has changed since, was `data.{split}` of study `{study}`")
        }
        false => format!("these rows are `data.{split}` of study `{study}`"),
    };
    let used = match *split {
        "train" => "the model was trained on",
        _ => "the trial was chosen by",
    };
    format!("{these}, which {used}: new rows may give worse metrics")
}

/// A path as arguments can name it.
fn in_unicode(path: &Path) -> Result<&str, Failure> {
    path.to_str().ok_or_else(|| {
        Failure::usage(format!("`{}` is not UTF-8", path.display())).help("rename it")
    })
}
