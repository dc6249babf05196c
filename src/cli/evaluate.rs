//! `hpsearch evaluate`: measures an exported model on a file of labelled rows.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Value as Json, json};

use super::exported;
use super::waiting::listener;
use super::{Console, Exit, Failure};
use crate::app::evaluate::{WHERE_FROM, evaluate as measure};
use crate::arguments::DATA_ARGUMENTS;
use crate::config;
use crate::export::Recipe;
use crate::report::wording::number;
use crate::study::field;
use crate::study::suggestion::nearest;

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
    let data = arguments.set.iter().map(|set| data_argument(set)).collect::<Result<_, _>>()?;
    let file = std::path::absolute(&arguments.file)?;
    if !file.exists() {
        let failure = Failure::usage(format!("there is no `{}`", arguments.file.display()));
        return Err(match config::file::similar(&arguments.file) {
            Some(near) => failure.help(format!("did you mean `{}`?", near.display())),
            None => failure,
        });
    }
    let (directory, file) = (in_unicode(&directory)?, in_unicode(&file)?);
    let mut hear = listener(console);
    let metrics = measure(directory, &recipe, file, data, &device, &mut hear);
    drop(hear);
    let metrics = metrics?;
    if arguments.json {
        console.json(None, &json!({ "metrics": metrics }))?;
    } else {
        for (name, value) in metrics.iter() {
            writeln!(console.out, "{name} {}", number(value))?;
        }
    }
    Ok(Exit::Done)
}

/// An argument of `[data]` from the command line, its value as TOML or as a word.
fn data_argument(set: &str) -> Result<(String, Json), Failure> {
    let Some((key, value)) = set.split_once('=') else {
        return Err(Failure::usage(format!("`--set {set}` has no `=`"))
            .help("write for example `--set label=intent`"));
    };
    let key = key.trim().trim_start_matches("data.");
    if WHERE_FROM.contains(&key) {
        return Err(Failure::usage(format!("`{key}` is not read: the rows are those of the file")));
    }
    let Some(field) = field::find(DATA_ARGUMENTS, key) else {
        let failure = Failure::usage(format!("[data] has no argument `{key}`"));
        let near = nearest(key, DATA_ARGUMENTS.iter().map(|field| field.name));
        return Err(match near {
            Some(near) => failure.help(format!("did you mean `{near}`?")),
            None => failure.help("docs/study-file.md lists them, under `[data]`"),
        });
    };
    let parsed: Option<BTreeMap<String, toml::Value>> =
        toml::from_str(&format!("value = {value}")).ok();
    let parsed = parsed.and_then(|mut table| table.remove("value"));
    let value = match parsed {
        Some(value) => serde_json::to_value(value)
            .map_err(|error| Failure::usage(format!("`--set {set}`: {error}")))?,
        None => Json::from(value),
    };
    Ok((field.name.to_owned(), value))
}

/// A path as arguments can name it.
fn in_unicode(path: &Path) -> Result<&str, Failure> {
    path.to_str().ok_or_else(|| {
        Failure::usage(format!("`{}` is not UTF-8", path.display())).help("rename it")
    })
}
