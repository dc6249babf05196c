//! Looks up arguments in a table by name, and merges given values with defaults.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::argument::{Argument, ArgumentDefault, ArgumentKind, nearest};
use super::problem::ArgumentProblem;
use super::tasks::TaskKind;
use super::trainer_table::ARGUMENTS;
use super::unsupported;

/// The kind of the trainer argument `key` (an alias counts), for checking a search dimension before any value is drawn.
///
/// # Errors
/// An unknown key with a suggestion, or an argument of another library that is not taken here with the reason.
pub fn check_key(key: &str) -> Result<ArgumentKind, ArgumentProblem> {
    find(ARGUMENTS, key).map(|argument| argument.kind)
}

/// Every problem with giving the trainer argument `key` each of `values`, each on its own (the ends of a range, or all choices).
#[must_use]
pub fn check_values(key: &str, values: &[Value]) -> Vec<ArgumentProblem> {
    match find(ARGUMENTS, key) {
        Err(problem) => vec![problem],
        Ok(argument) => values
            .iter()
            .filter_map(|value| {
                Some(problem_of(argument, key, value, &argument.kind.check(value).err()?))
            })
            .collect(),
    }
}

/// The argument of `table` called `key`, by its name or an alias.
pub(super) fn find<'a>(table: &'a [Argument], key: &str) -> Result<&'a Argument, ArgumentProblem> {
    let named =
        table.iter().find(|argument| argument.name == key || argument.aliases.contains(&key));
    if let Some(argument) = named {
        return Ok(argument);
    }
    if std::ptr::eq(table, ARGUMENTS)
        && let Some(problem) = unsupported::problem(key)
    {
        return Err(problem);
    }
    let problem = ArgumentProblem::new(key, format!("unknown argument `{key}`"));
    let names = table.iter().map(|argument| argument.name);
    // `hidden_size` alone is most likely `model.hidden_size`, which edit distances over the whole name do not see.
    let by_last =
        names.clone().find(|name| name.rsplit_once('.').is_some_and(|(_, last)| last == key));
    let aliases = table.iter().flat_map(|argument| argument.aliases.iter().copied());
    let near = by_last.or_else(|| nearest(key, names.chain(aliases)));
    let near = near.map(|near| {
        table
            .iter()
            .find(|argument| argument.aliases.contains(&near))
            .map_or(near, |argument| argument.name)
    });
    Err(match near {
        Some(near) => problem.with_help(format!("did you mean `{near}`?")),
        None => problem,
    })
}

/// Given values and defaults merged into one object shaped like the argument structs, with every problem there is.
pub(super) fn merge(
    table: &[Argument],
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
            Err(message) => problems.push(problem_of(argument, &key, &value, &message)),
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
                let rejected = problems.iter().any(|problem| {
                    argument.name == problem.key || argument.aliases.contains(&&*problem.key)
                });
                if argument.default == ArgumentDefault::Required && !rejected {
                    problems.push(
                        ArgumentProblem::new(
                            argument.name,
                            format!("`{}` is missing", argument.name),
                        )
                        .with_help(argument.doc),
                    );
                }
                argument.default.value()
            }
        };
        insert_dotted(&mut merged, argument.name, value);
    }
    problems.sort_by(|a, b| a.key.cmp(&b.key));
    (merged, problems)
}

/// The arguments that have a value: their names in the table, and the keys used for them.
pub(super) fn given(
    table: &'static [Argument],
    values: &BTreeMap<String, Value>,
) -> Vec<(&'static str, String)> {
    let named = |(key, value): (String, Value)| {
        if value.is_null() { None } else { Some((find(table, &key).ok()?.name, key)) }
    };
    flatten(values).into_iter().filter_map(named).collect()
}

/// Given arguments of other tasks than `task`: rejected rather than ignored.
pub(super) fn of_other_tasks(
    table: &[Argument],
    given: &[(&str, String)],
    task: TaskKind,
) -> Vec<ArgumentProblem> {
    let fits = |only: TaskKind| only == task || only.is_of_encoders() && task.is_of_encoders();
    let misplaced = |(name, key): &(&str, String)| {
        let only = table
            .iter()
            .find(|argument| argument.name == *name)?
            .only
            .filter(|only| !fits(*only))?;
        let message = format!(
            "`{key}` belongs to the task `{}`, and this is `{}`",
            only.line().name,
            task.line().name
        );
        Some(ArgumentProblem::new(key, message).with_help("leave it out"))
    };
    given.iter().filter_map(misplaced).collect()
}

fn problem_of(argument: &Argument, key: &str, value: &Value, message: &str) -> ArgumentProblem {
    if let Some(instead) =
        value.as_str().and_then(|text| unsupported::instead_of(argument.name, text))
    {
        return ArgumentProblem::new(key, format!("`{key}` = {value} is not supported"))
            .with_help(instead);
    }
    ArgumentProblem::new(key, format!("`{key}` {message}")).with_help(argument.doc)
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
