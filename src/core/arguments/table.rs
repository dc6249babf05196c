//! Looks up arguments in a table by name, and merges given values with defaults.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::problem::ArgumentProblem;
use super::tasks::TaskKind;
use super::trainer_table::ARGUMENTS;
use super::unsupported;
use crate::study::field::{self, Field, FieldDefault, FieldKind};
use crate::study::suggestion::nearest;

/// An argument of some tasks, whether a task has it, and the task that a message names.
type OfTasks = (&'static str, fn(TaskKind) -> bool, TaskKind);

/// The arguments that not all tasks have.
const OF_TASKS: [OfTasks; 10] = [
    ("class_weights", TaskKind::is_of_encoders, TaskKind::TextClassification),
    ("model.classifier_dropout", has_classifier, TaskKind::TextClassification),
    ("model.pooling", TaskKind::is_of_texts, TaskKind::TextClassification),
    ("model.num_kv_heads", is_language_modeling, TaskKind::LanguageModeling),
    ("model.tie_word_embeddings", has_output_embedding, TaskKind::LanguageModeling),
    ("mlm_probability", has_masks, TaskKind::MaskedLanguageModeling),
    ("whole_word_mask", has_masks, TaskKind::MaskedLanguageModeling),
    ("predict_with_generate", TaskKind::is_sequence_to_sequence, TaskKind::TextToText),
    ("generation_max_length", TaskKind::is_sequence_to_sequence, TaskKind::TextToText),
    ("generation_num_beams", TaskKind::is_sequence_to_sequence, TaskKind::TextToText),
];

fn has_classifier(task: TaskKind) -> bool {
    task.is_of_texts() || task == TaskKind::TokenClassification
}

fn has_masks(task: TaskKind) -> bool {
    task == TaskKind::MaskedLanguageModeling
}

fn is_language_modeling(task: TaskKind) -> bool {
    task == TaskKind::LanguageModeling
}

fn has_output_embedding(task: TaskKind) -> bool {
    !task.is_of_encoders()
}

/// The kind of the trainer argument `key` (an alias counts), for checking a search dimension before
/// any value is drawn.
///
/// # Errors
/// An unknown key with a suggestion, or an argument of another library that is not supported, with
/// the reason.
pub fn check_key(key: &str) -> Result<FieldKind, ArgumentProblem> {
    find(ARGUMENTS, key).map(|argument| argument.kind)
}

/// Every problem with giving the trainer argument `key` each of `values`, each on its own (the ends
/// of a range, or all choices).
#[must_use]
pub fn check_values(key: &str, values: &[Value]) -> Vec<ArgumentProblem> {
    match find(ARGUMENTS, key) {
        Err(problem) => vec![problem],
        Ok(argument) => values
            .iter()
            .filter_map(|value| {
                Some(problem_of(&argument, key, value, &argument.kind.check(value).err()?))
            })
            .collect(),
    }
}

/// The default of the trainer argument `name`.
pub fn default_of<T: DeserializeOwned>(name: &str) -> T {
    field::find(ARGUMENTS, name).expect("the name of an argument").default.read()
}

/// The argument of `table` called `key`, by its name or an alias.
pub(super) fn find(table: &[Field], key: &str) -> Result<Field, ArgumentProblem> {
    if let Some(argument) = field::find(table, key) {
        return Ok(argument);
    }
    if std::ptr::eq(table, ARGUMENTS)
        && let Some(problem) = unsupported::problem(key)
    {
        return Err(problem);
    }
    let problem = ArgumentProblem::new(key, format!("unknown argument `{key}`"));
    let near = nearest(key, table.iter().flat_map(Field::names));
    Err(match near.and_then(|near| field::find(table, near)) {
        Some(near) => problem.with_help(format!("did you mean `{}`?", near.name)),
        None => problem,
    })
}

/// Given values and defaults merged into one object shaped like the argument structs, with all
/// problems.
pub(super) fn merge(
    table: &[Field],
    values: &BTreeMap<String, Value>,
) -> (Map<String, Value>, Vec<ArgumentProblem>) {
    let mut problems = Vec::new();
    let mut given: BTreeMap<&str, (String, Value)> = BTreeMap::new();
    for (key, value) in flatten(values) {
        let argument = match find(table, &key) {
            Ok(argument) => argument,
            Err(problem) => {
                problems.push(problem);
                continue;
            }
        };
        match argument.kind.check(&value) {
            Err(message) => problems.push(problem_of(&argument, &key, &value, &message)),
            Ok(value) => match given.get(argument.name) {
                Some((other, _)) => problems.push(ArgumentProblem::new(
                    &key,
                    format!("`{key}` and `{other}` are the same argument: give one of them"),
                )),
                None => {
                    given.insert(argument.name, (key, value));
                }
            },
        }
    }
    let mut merged = Map::new();
    for argument in table {
        let value = match given.remove(argument.name) {
            Some((_, value)) => value,
            None => {
                let is_rejected =
                    problems.iter().any(|problem| argument.names().any(|name| name == problem.key));
                if matches!(argument.default, FieldDefault::Required) && !is_rejected {
                    let message = format!("`{}` is missing", argument.name);
                    problems
                        .push(ArgumentProblem::new(argument.name, message).with_help(argument.doc));
                }
                argument.default.json()
            }
        };
        insert_dotted(&mut merged, argument.name, value);
    }
    problems.sort_by(|a, b| a.key.cmp(&b.key));
    (merged, problems)
}

/// The given arguments: their names in the table, and the keys used for them.
pub(super) fn given(
    table: &[Field],
    values: &BTreeMap<String, Value>,
) -> Vec<(&'static str, String)> {
    let named = |(key, value): (String, Value)| {
        if value.is_null() { None } else { Some((find(table, &key).ok()?.name, key)) }
    };
    flatten(values).into_iter().filter_map(named).collect()
}

/// Given arguments of other tasks than `task`: rejected rather than ignored.
pub(super) fn of_other_tasks(given: &[(&str, String)], task: TaskKind) -> Vec<ArgumentProblem> {
    let misplaced = given.iter().filter_map(|(name, key)| {
        let (_, has, owner) = OF_TASKS.iter().find(|(argument, ..)| argument == name)?;
        let (owner, name) = (owner.line().name, task.line().name);
        let message = format!("`{key}` belongs to the task `{owner}`, and this is `{name}`");
        (!has(task)).then(|| ArgumentProblem::new(key, message).with_help("leave it out"))
    });
    misplaced.collect()
}

fn problem_of(argument: &Field, key: &str, value: &Value, message: &str) -> ArgumentProblem {
    if let Some(instead) =
        value.as_str().and_then(|text| unsupported::instead_of(argument.name, text))
    {
        return ArgumentProblem::new(key, format!("`{key}` = {value} is not supported"))
            .with_help(instead);
    }
    ArgumentProblem::new(key, format!("`{key}` {message}")).with_help(argument.remedy(value))
}

/// `{"model": {"hidden_size": 64}}` and `{"model.hidden_size": 64}` as one list of dotted keys.
fn flatten(values: &BTreeMap<String, Value>) -> Vec<(String, Value)> {
    let mut flat = Vec::new();
    for (key, value) in values {
        match value {
            Value::Object(nested) => {
                for (name, value) in nested {
                    flat.push((format!("{key}.{name}"), value.clone()));
                }
            }
            _ => flat.push((key.clone(), value.clone())),
        }
    }
    flat
}

fn insert_dotted(object: &mut Map<String, Value>, name: &str, value: Value) {
    match name.split_once('.') {
        None => {
            object.insert(name.to_owned(), value);
        }
        Some((group, name)) => {
            let group = object.entry(group.to_owned()).or_insert_with(|| Value::Object(Map::new()));
            if let Some(group) = group.as_object_mut() {
                group.insert(name.to_owned(), value);
            }
        }
    }
}

/// A JSON Schema of the whole `table`; dotted names become nested objects, and are also accepted as
/// quoted keys.
#[must_use]
pub fn table_schema(table: &[Field]) -> Value {
    let mut schema = field::object_schema(table);
    for argument in table {
        let own = argument.schema();
        if let Some((group, name)) = argument.name.split_once('.') {
            let nested = &mut schema["properties"][group];
            if nested.is_null() {
                *nested =
                    json!({"type": "object", "properties": {}, "additionalProperties": false});
            }
            nested["properties"][name] = own.clone();
        }
        for alias in argument.aliases {
            schema["properties"][alias] = own.clone();
        }
    }
    schema
}
