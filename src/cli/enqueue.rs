//! `hpsearch enqueue`: runs a user's configuration next.

use std::path::{Path, PathBuf};

use clap::Args;

use super::console::{Console, shown};
use super::exit::{Exit, Failure};
use super::request::ask_with;
use crate::app::enqueue::{Repeat, drop_inactive};
use crate::app::find;
use crate::config;
use crate::report::wording::one_line;
use crate::study::params::{Params, Value};
use crate::study::request::Request;
use crate::study::space::Space;
use crate::study::state::shown_params;
use crate::study::trial::TrialNumber;

const EXAMPLES: &str = "\
Examples:
  hpsearch enqueue digits learning_rate=3e-4 optim=adamw   the rest is sampled
  hpsearch enqueue digits --from 7 learning_rate=1e-3   as trial 7, except this
  hpsearch enqueue digits --file params.toml               what `best` printed

It runs as soon as a slot is free, and counts towards the budget unless that is
exhausted. A configuration that was tried before is refused without --again.";

/// Arguments of `hpsearch enqueue`.
#[derive(Clone, Debug, Args)]
#[command(after_help = EXAMPLES, override_usage = "hpsearch enqueue [OPTIONS] [STUDY] \
    [KEY=VALUE]..")]
pub struct EnqueueArguments {
    /// The study's name or file, and values of parameters
    #[arg(value_name = "STUDY, KEY=VALUE")]
    pub words: Vec<String>,
    /// Take values that are not given from this trial
    #[arg(long, value_name = "TRIAL", conflicts_with = "file")]
    pub from: Option<u64>,
    /// Take values that are not given from this TOML file
    #[arg(long, value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// Run the configuration even if it was tried before
    #[arg(long)]
    pub again: bool,
}

/// Checks it, and asks for it.
pub fn enqueue(arguments: &EnqueueArguments, console: &mut Console) -> Result<Exit, Failure> {
    let (values, words): (Vec<&String>, Vec<&String>) =
        arguments.words.iter().partition(|word| word.contains('='));
    if let [_, second, ..] = &words[..] {
        return Err(Failure::usage(format!("`{}` is not a value", one_line(second)))
            .help("values are written KEY=VALUE, after the study"));
    }
    let (reader, study) = console.study(words.first().map(|word| word.as_str()))?;
    let mut params = Params::new();
    if let Some(number) = arguments.from.map(TrialNumber) {
        let trial = find::trial(&reader, &study, number)?;
        params = shown_params(&study.spec, &trial).clone();
    }
    if let Some(file) = &arguments.file {
        params = in_file(file)?;
    }
    let given: Params = values
        .iter()
        .filter_map(|word| word.split_once('='))
        .map(|(name, text)| value(&study.spec.space, name, text))
        .collect();
    for (name, value) in given.iter() {
        params.insert(name, value.clone());
    }
    if arguments.from.is_some() || arguments.file.is_some() {
        drop_inactive(&study.spec.space, &mut params, &given);
    }
    let repeat = if arguments.again { Repeat::Wanted } else { Repeat::Refused };
    ask_with(&study, vec![Request::Enqueue { params }], repeat, console)
}

/// Parses `KEY=VALUE`: TOML, or a bare word.
fn value(space: &Space, name: &str, text: &str) -> (String, Value) {
    let (name, text) = (name.trim(), text.trim());
    let as_text = Value::Text(text.to_owned());
    let parsed = format!("value = {text}").parse::<toml::Table>().ok();
    let parsed = parsed.and_then(|table| of_toml(&table["value"]));
    let fits = |value: &Value| {
        let dimension = space.dimension(name);
        dimension.is_some_and(|dimension| dimension.distribution.normalize(value).is_some())
    };
    let is_null = text == "null" && !fits(&as_text) && fits(&Value::Null);
    let value = match parsed {
        _ if is_null => Value::Null,
        // A string choice may look like a number.
        Some(parsed) if !fits(&parsed) && fits(&as_text) => as_text,
        Some(parsed) => parsed,
        // `.1` and `1.` are numbers, though not TOML's.
        None => text.parse().ok().map(Value::Float).filter(fits).unwrap_or(as_text),
    };
    (name.to_owned(), value)
}

/// The parameters of a TOML file: its table `params`, as in exports, or all of it, as printed by
/// `hpsearch best`.
fn in_file(file: &Path) -> Result<Params, Failure> {
    let unusable = |why: String| {
        Failure::usage(format!("`{}` cannot be used: {why}", shown(file)))
            .help("it is a TOML file of parameters, like `hpsearch best > params.toml`")
    };
    let text = config::file::read_to_string(file).map_err(|error| unusable(error.to_string()))?;
    let mut table: toml::Table =
        text.parse().map_err(|error: toml::de::Error| unusable(error.message().to_owned()))?;
    if let Some(toml::Value::Table(params)) = table.remove("params") {
        table = params;
    }
    let mut params = Params::new();
    flatten(&table, "", &mut params).map_err(|name| {
        unusable(format!(
            "`{name}` is not a number, a string, a boolean, a list of these or `{{ none = true }}`"
        ))
    })?;
    Ok(params)
}

fn flatten(table: &toml::Table, prefix: &str, params: &mut Params) -> Result<(), String> {
    for (key, value) in table {
        let name = format!("{prefix}{key}");
        match value {
            toml::Value::Table(nested) if !is_none(nested) => {
                flatten(nested, &format!("{name}."), params)?
            }
            scalar => match of_toml(scalar) {
                Some(value) => params.insert(name, value),
                None => return Err(name),
            },
        }
    }
    Ok(())
}

/// Whether a table represents null: `{ none = true }`.
fn is_none(table: &toml::Table) -> bool {
    table.len() == 1 && table.get("none").and_then(toml::Value::as_bool) == Some(true)
}

/// The value of a parameter, if TOML's is a number, a string, a boolean, a list of these, or `{
/// none = true }`.
fn of_toml(value: &toml::Value) -> Option<Value> {
    if value.as_table().is_some_and(is_none) {
        return Some(Value::Null);
    }
    Value::from_json(&serde_json::to_value(value).ok()?)
}
