//! `--set table.key=value` for the training of a `best.toml`.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value as Json;

use super::diagnostic::{Diagnostic, Diagnostics, Source};
use super::overrides::{self, Spelling};
use super::syntax::{Form, Item, TomlEntry, TomlTable};
use super::trainer::{self, canonical};
use crate::arguments::{ARGUMENTS, DATA_ARGUMENTS, DataArguments, TaskKind, TrainerArguments};
use crate::study::field;
use crate::study::suggestion::{nearest, quoted};

const SPELLING: Spelling =
    Spelling { form: "table.key=value", example: "trainer.num_train_epochs=5" };

/// The tables of a `best.toml` that may be overridden.
const TABLES: [&str; 3] = ["params", "trainer", "data"];

/// What one training is trained with instead, by the names of the tables of arguments.
#[derive(Debug, Clone, PartialEq)]
pub struct TrainingOverrides {
    /// Arguments of the trainer, searched ones included.
    pub trainer: BTreeMap<String, Json>,
    /// Arguments of the data.
    pub data: BTreeMap<String, Json>,
    /// Arguments of the data in the file that these replace: other rows for the same split.
    pub dropped: Vec<&'static str>,
}

/// Overrides of a `best.toml` with these parameters, arguments of the trainer and of the data; the
/// last of several of a key stands. The directory of a pretrained model is relative to `base`.
///
/// # Errors
/// An override names no key of these tables, or its value cannot be taken, alone or beside the
/// others.
pub fn training_overrides(
    overrides: &[String],
    base: &Path,
    params: &[&str],
    (of_trainer_in_file, of_data_in_file): (&BTreeMap<String, Json>, &BTreeMap<String, Json>),
) -> Result<TrainingOverrides, Diagnostics> {
    let (mut sources, mut problems) = (Vec::new(), Vec::new());
    let empty = || TomlTable { form: Form::Header, entries: Vec::new() };
    let (mut of_trainer, mut of_data) = (empty(), empty());
    for set in overrides {
        let (text, overlay) = overrides::read(set, sources.len(), SPELLING, &mut problems);
        sources.push(Source { name: "--set".to_owned(), text });
        for entry in overlay.into_iter().flat_map(|overlay| overlay.entries) {
            if let Some(problem) = misplaced(&entry, params) {
                problems.push(problem);
                continue;
            }
            let into = if entry.key == "data" { &mut of_data } else { &mut of_trainer };
            let Item::Table(inner) = entry.value.item else { continue };
            for entry in inner.entries {
                let path = entry.key.clone();
                overrides::put(into, entry, &path, &mut problems);
            }
        }
    }
    let given: Vec<&str> = of_data.entries.iter().map(|entry| entry.key.as_str()).collect();
    let dropped: Vec<&str> = given
        .iter()
        .filter_map(|key| overrides::other_source(key))
        .filter(|other| !given.contains(other) && of_data_in_file.contains_key(*other))
        .collect();
    let mut others = of_data_in_file.clone();
    others.retain(|key, _| !dropped.contains(&key.as_str()));
    let set = TrainingOverrides {
        trainer: trainer::read_trainer(&of_trainer, base, &mut problems).values,
        data: trainer::read_some_data(&of_data, &others, &mut problems),
        dropped,
    };
    if problems.is_empty() {
        problems.extend(contradictions(&set, of_trainer_in_file, &others));
    }
    if problems.is_empty() { Ok(set) } else { Err(Diagnostics::new(sources, problems)) }
}

/// An override of no key of a table, or of a parameter that the trial does not have.
fn misplaced(entry: &TomlEntry, params: &[&str]) -> Option<Diagnostic> {
    let key = entry.key.as_str();
    let names = params.iter().copied();
    match &entry.value.item {
        Item::Table(inner) if key == "params" => {
            let is_param = |name: &str| {
                names.clone().any(|own| canonical(ARGUMENTS, own) == canonical(ARGUMENTS, name))
            };
            let leaf = inner.leaves().into_iter().find(|leaf| !is_param(&leaf.name))?;
            let message = format!("`[params]` has no `{}`", leaf.name);
            let problem = Diagnostic::error(leaf.place, message);
            let help = match nearest(&leaf.name, names.clone()) {
                Some(near) => format!("did you mean `{near}`?"),
                None if field::find(ARGUMENTS, &leaf.name).is_some() => {
                    format!("it was not searched: write `--set trainer.{}=...`", leaf.name)
                }
                None => format!("it has {}", quoted(names)),
            };
            Some(problem.help(help))
        }
        Item::Table(_) if TABLES.contains(&key) => None,
        _ => {
            let message = format!("`{key}` is no table of a best.toml that can be overridden");
            let problem =
                Diagnostic::error(entry.place, message).label("an override begins with a table");
            let owner = [("trainer", ARGUMENTS), ("data", DATA_ARGUMENTS)]
                .into_iter()
                .find(|(_, fields)| field::find(fields, key).is_some());
            Some(match (owner, nearest(key, TABLES)) {
                (Some((table, _)), _) => {
                    problem.help(format!("did you mean `--set {table}.{key}=...`?"))
                }
                (None, Some(near)) => problem.help(format!("did you mean `{near}`?")),
                (None, None) => {
                    problem.help("write `--set trainer.KEY=...`, params.KEY or data.KEY")
                }
            })
        }
    }
}

/// What is wrong with the overrides beside what they leave.
fn contradictions(
    set: &TrainingOverrides,
    trainer: &BTreeMap<String, Json>,
    data: &BTreeMap<String, Json>,
) -> Vec<Diagnostic> {
    let together = |file: &BTreeMap<String, Json>, set: &BTreeMap<String, Json>| {
        let mut all = file.clone();
        all.extend(set.clone());
        all
    };
    let trainer = together(trainer, &set.trainer);
    let data = together(data, &set.data);
    let mut found = TrainerArguments::resolve(&trainer).err().unwrap_or_default();
    found.extend(DataArguments::resolve(&data).err().unwrap_or_default());
    found.extend(DataArguments::misfits(&data, TaskKind::of(&trainer)));
    let complaint = |problem: crate::arguments::ArgumentProblem| {
        let help = problem.help.unwrap_or_else(|| "override the other one, too".to_owned());
        Diagnostic::error(None, problem.message).help(help)
    };
    found.into_iter().map(complaint).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Look;
    use serde_json::json;

    fn read(sets: &[&str]) -> Result<TrainingOverrides, String> {
        let sets: Vec<String> = sets.iter().map(|set| (*set).to_owned()).collect();
        let values =
            |json: Json| -> BTreeMap<String, Json> { serde_json::from_value(json).unwrap() };
        let trainer =
            values(json!({"learning_rate": 0.001, "model.dropout": 0.1, "max_steps": -1}));
        let data = values(json!({"train": "/a.csv", "validation": "/b.csv"}));
        let params = ["lr", "model.dropout"];
        training_overrides(&sets, Path::new("/"), &params, (&trainer, &data))
            .map_err(|problems| problems.render(Look::Plain))
    }

    #[test]
    fn parameters_arguments_and_data_are_overridden_by_their_names() {
        let set = read(&[
            "params.lr=1e-4",
            "trainer.epochs=2",
            "trainer.model.dropout=0.2",
            "trainer.model.dropout=0.3",
            "data.train=all.csv",
        ]);
        let set = set.unwrap();
        let trainer = json!({"learning_rate": 1e-4, "num_train_epochs": 2, "model.dropout": 0.3});
        assert_eq!(json!(set.trainer), trainer);
        assert_eq!(json!(set.data), json!({"train": "all.csv"}));
        assert!(set.dropped.is_empty());
        let split = read(&["data.validation_split=0"]).unwrap();
        assert_eq!(split.dropped, ["validation"]);
    }

    #[test]
    fn what_is_wrong_is_said_with_what_to_write() {
        for (set, said) in [
            ("trainer.learning_rat=1", "did you mean `learning_rate`?"),
            ("data.vaildation=a.csv", "did you mean `validation`?"),
            ("params.learning_rte=1", "`[params]` has no `learning_rte`"),
            ("params.model.dropuot=0", "did you mean `model.dropout`?"),
            ("params.max_steps=5", "it was not searched: write `--set trainer.max_steps=...`"),
            ("learning_rate=1", "did you mean `--set trainer.learning_rate=...`?"),
            ("trian.max_steps=1", "did you mean `trainer`?"),
            ("trainer=1", "`trainer` is no table"),
            ("trainer.max_steps", "write `--set table.key=value`"),
            ("trainer.max_steps=0", "`max_steps` = 0 trains nothing"),
            ("trainer.max_steps=long", "must be an integer"),
            ("data.validation_split=1.5", "of at least 0 and below 1"),
            ("data.label_all_tokens=true", "`text-classification` has no labels of words"),
        ] {
            let refused = read(&[set]).unwrap_err();
            assert!(refused.contains(said), "{set}: {refused}");
        }
    }
}
