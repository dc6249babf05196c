//! One table line per argument, and the checks, suggestions and schema that follow from it.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::{Bound, RangeBounds};

use serde_json::{Map, Value, json};

use super::lines::ARGUMENTS;
use super::tasks::TaskKind;
use super::{refused, tuning};

/// One argument a user may set: its name, what values it takes, and what it means.
#[derive(Debug, Clone, PartialEq)]
pub struct Argument {
    /// The name as it is written in `[trainer]` or `[data]`; nested names are dotted (`model.hidden_size`).
    pub name: &'static str,
    /// Other spellings that mean the same, for people who know another library's name.
    pub aliases: &'static [&'static str],
    /// The type and the allowed values.
    pub kind: ArgumentKind,
    /// The value when none is given.
    pub default: ArgumentDefault,
    /// What it does, in one sentence.
    pub doc: &'static str,
    /// The one task that it means something to; `None`: all of them.
    pub only: Option<TaskKind>,
}

/// The type of an argument with the values it allows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ArgumentKind {
    /// A number between two bounds.
    Float {
        /// Least allowed value.
        low: Bound<f64>,
        /// Greatest allowed value.
        high: Bound<f64>,
    },
    /// A whole number, both ends included; `3.0` is taken as 3.
    Int {
        /// Least allowed value.
        low: i64,
        /// Greatest allowed value.
        high: i64,
    },
    /// A number of steps (whole, at least 1), or a share of all steps in [0, 1).
    StepsOrShare,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// `true` or `false`.
    Flag,
    /// Any text.
    Text,
    /// Names: a list, or one text with commas between them.
    Names,
    /// What each label's rows weigh: `"balanced"`, a list of numbers above 0, the same in one text with commas, or `"none"`.
    Weights,
}

/// What an argument is when it is not given.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ArgumentDefault {
    /// It must be given.
    Required,
    /// Nothing; what that means is in the argument's sentence.
    Absent,
    /// A truth value.
    Flag(bool),
    /// A whole number.
    Int(i64),
    /// A number.
    Float(f64),
    /// A word.
    Text(&'static str),
}

/// Something wrong with one argument: which, what, and where there is one the way out.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}{}", help.as_deref().map(|help| format!(" ({help})")).unwrap_or_default())]
pub struct ArgumentProblem {
    /// The key as the user wrote it.
    pub key: String,
    /// What is wrong, in lower case, with values in backticks.
    pub message: String,
    /// What to do instead.
    pub help: Option<String>,
}

impl ArgumentProblem {
    /// A problem of `key`, with no advice yet.
    pub fn new(key: &str, message: impl Into<String>) -> Self {
        Self { key: key.to_owned(), message: message.into(), help: None }
    }

    /// The same problem with advice.
    #[must_use]
    pub fn with_help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }
}

impl ArgumentDefault {
    /// The default as JSON; null where there is none.
    #[must_use]
    pub fn value(&self) -> Value {
        match *self {
            Self::Required | Self::Absent => Value::Null,
            Self::Flag(flag) => json!(flag),
            Self::Int(number) => json!(number),
            Self::Float(number) => json!(number),
            Self::Text(text) => json!(text),
        }
    }
}

impl fmt::Display for ArgumentKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Float { low, high } => {
                let ends: Vec<String> = [
                    match low {
                        Bound::Included(low) => Some(format!("at least {low}")),
                        Bound::Excluded(low) => Some(format!("above {low}")),
                        Bound::Unbounded => None,
                    },
                    match high {
                        Bound::Included(high) => Some(format!("at most {high}")),
                        Bound::Excluded(high) => Some(format!("below {high}")),
                        Bound::Unbounded => None,
                    },
                ]
                .into_iter()
                .flatten()
                .collect();
                if ends.is_empty() { write!(f, "a number") } else { write!(f, "a number {}", ends.join(" and ")) }
            }
            Self::Int { low, high: i64::MAX } => write!(f, "a whole number from {low}"),
            Self::Int { low, high } => write!(f, "a whole number from {low} to {high}"),
            Self::StepsOrShare => write!(f, "a number of steps, or a share in [0, 1)"),
            Self::Choice(choices) => write!(f, "one of {}", quoted(choices)),
            Self::Flag => write!(f, "true or false"),
            Self::Text => write!(f, "text"),
            Self::Names => write!(f, "a name or a list of names"),
            Self::Weights => write!(f, "\"balanced\", or a list of numbers above 0"),
        }
    }
}

impl ArgumentKind {
    /// `value` in the one form the resolved arguments use (whole numbers as integers), or what is wrong with it.
    ///
    /// # Errors
    /// The end of a sentence that begins with the argument's name: "must be ..., not `...`".
    pub fn check(&self, value: &Value) -> Result<Value, String> {
        let wrong = || format!("must be {self}, not `{value}`");
        match self {
            Self::Float { low, high } => {
                let number = value.as_f64().ok_or_else(wrong)?;
                if (*low, *high).contains(&number) { Ok(json!(number)) } else { Err(wrong()) }
            }
            Self::Int { low, high } => {
                let number = whole(value).ok_or_else(wrong)?;
                if (*low..=*high).contains(&number) { Ok(json!(number)) } else { Err(wrong()) }
            }
            Self::StepsOrShare => {
                let number = value.as_f64().ok_or_else(wrong)?;
                match whole(value) {
                    Some(steps) if steps >= 0 => Ok(json!(steps)),
                    _ if (0.0..1.0).contains(&number) => Ok(json!(number)),
                    _ => Err(wrong()),
                }
            }
            Self::Choice(choices) => match value.as_str() {
                Some(text) if choices.contains(&text) => Ok(value.clone()),
                Some(text) => Err(match nearest(text, choices.iter().copied()) {
                    Some(near) => format!("{}; did you mean `{near}`?", wrong()),
                    None => wrong(),
                }),
                None => Err(wrong()),
            },
            Self::Flag => value.is_boolean().then(|| value.clone()).ok_or_else(wrong),
            Self::Text => value.is_string().then(|| value.clone()).ok_or_else(wrong),
            Self::Names => tuning::names(value).ok_or_else(wrong),
            Self::Weights => tuning::weights(value).ok_or_else(wrong),
        }
    }

    /// The kind as a JSON Schema fragment.
    #[must_use]
    pub fn schema(&self) -> Value {
        let mut schema = Map::new();
        let mut put = |key: &str, value: Value| {
            schema.insert(key.to_owned(), value);
        };
        match *self {
            Self::Float { low, high } => {
                put("type", json!("number"));
                match low {
                    Bound::Included(low) => put("minimum", json!(low)),
                    Bound::Excluded(low) => put("exclusiveMinimum", json!(low)),
                    Bound::Unbounded => {}
                }
                match high {
                    Bound::Included(high) => put("maximum", json!(high)),
                    Bound::Excluded(high) => put("exclusiveMaximum", json!(high)),
                    Bound::Unbounded => {}
                }
            }
            Self::Int { low, high } => {
                put("type", json!("integer"));
                put("minimum", json!(low));
                if high != i64::MAX {
                    put("maximum", json!(high));
                }
            }
            Self::StepsOrShare => {
                put("type", json!("number"));
                put("minimum", json!(0));
            }
            Self::Choice(choices) => put("enum", json!(choices)),
            Self::Flag => put("type", json!("boolean")),
            Self::Text => put("type", json!("string")),
            Self::Names => {
                put("type", json!(["string", "array"]));
                put("items", json!({"type": "string"}));
            }
            Self::Weights => {
                put("type", json!(["string", "array"]));
                put("items", json!({"type": "number", "exclusiveMinimum": 0}));
            }
        }
        Value::Object(schema)
    }
}

/// A JSON Schema object of the whole `table`; dotted names become nested objects.
#[must_use]
pub fn table_schema(table: &[Argument]) -> Value {
    let mut properties = Map::new();
    for argument in table {
        let mut schema = argument.kind.schema();
        schema["description"] = json!(argument.doc);
        if argument.default.value() != Value::Null {
            schema["default"] = argument.default.value();
        }
        let (group, name) = match argument.name.split_once('.') {
            Some((group, name)) => {
                let nested =
                    properties.entry(group.to_owned()).or_insert_with(|| json!({"type": "object", "properties": {}, "additionalProperties": false}));
                (nested["properties"].as_object_mut(), name)
            }
            None => (Some(&mut properties), argument.name),
        };
        if let Some(group) = group {
            group.insert(name.to_owned(), schema);
        }
    }
    json!({"type": "object", "properties": properties, "additionalProperties": false})
}

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
        Ok(argument) => values.iter().filter_map(|value| Some(problem_of(argument, key, value, &argument.kind.check(value).err()?))).collect(),
    }
}

/// The line of `table` that `key` names, directly or as an alias.
pub(super) fn find<'a>(table: &'a [Argument], key: &str) -> Result<&'a Argument, ArgumentProblem> {
    let named = table.iter().find(|argument| argument.name == key || argument.aliases.contains(&key));
    if let Some(argument) = named {
        return Ok(argument);
    }
    if std::ptr::eq(table, ARGUMENTS)
        && let Some(problem) = refused::problem(key)
    {
        return Err(problem);
    }
    let problem = ArgumentProblem::new(key, format!("unknown argument `{key}`"));
    let names = table.iter().map(|argument| argument.name);
    // `hidden_size` alone is most likely `model.hidden_size`, which edit distances over the whole name do not see.
    let by_last = names.clone().find(|name| name.rsplit_once('.').is_some_and(|(_, last)| last == key));
    let aliases = table.iter().flat_map(|argument| argument.aliases.iter().copied());
    let near = by_last.or_else(|| nearest(key, names.chain(aliases)));
    // Its own name, whichever of its names was near.
    let near = near.map(|near| table.iter().find(|argument| argument.aliases.contains(&near)).map_or(near, |argument| argument.name));
    Err(match near {
        Some(near) => problem.with_help(format!("did you mean `{near}`?")),
        None => problem,
    })
}

/// Given values and defaults merged into one object shaped like the argument structs, with every problem there is.
pub(super) fn merge(table: &[Argument], values: &BTreeMap<String, Value>) -> (Map<String, Value>, Vec<ArgumentProblem>) {
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
                Some((other, _)) => {
                    problems.push(ArgumentProblem::new(&key, format!("`{key}` and `{other}` are the same argument: give one of them")))
                }
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
                let refused = problems.iter().any(|problem| argument.name == problem.key || argument.aliases.contains(&&*problem.key));
                if argument.default == ArgumentDefault::Required && !refused {
                    problems.push(ArgumentProblem::new(argument.name, format!("`{}` is missing", argument.name)).with_help(argument.doc));
                }
                argument.default.value()
            }
        };
        insert_dotted(&mut merged, argument.name, value);
    }
    problems.sort_by(|a, b| a.key.cmp(&b.key));
    (merged, problems)
}

/// Arguments that have a value: their names in the table and as they were written.
pub(super) fn given(table: &'static [Argument], values: &BTreeMap<String, Value>) -> Vec<(&'static str, String)> {
    let named = |(key, value): (String, Value)| if value.is_null() { None } else { Some((find(table, &key).ok()?.name, key)) };
    flatten(values).into_iter().filter_map(named).collect()
}

/// Given values that mean nothing to `task`: refused rather than ignored.
pub(super) fn of_other_tasks(table: &[Argument], values: &BTreeMap<String, Value>, task: TaskKind) -> Vec<ArgumentProblem> {
    let misplaced = |key: &str| {
        let fits = |only: TaskKind| only == task || only.is_of_encoders() && task.is_of_encoders();
        let only = find(table, key).ok()?.only.filter(|only| !fits(*only))?;
        let message = format!("`{key}` belongs to the task `{}`, and this is `{}`", only.line().name, task.line().name);
        Some(ArgumentProblem::new(key, message).with_help("leave it out"))
    };
    flatten(values).iter().filter(|(_, value)| !value.is_null()).filter_map(|(key, _)| misplaced(key)).collect()
}

/// The candidate that `text` most likely meant, if any is near.
pub(crate) fn nearest<'a>(text: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    candidates
        .map(|candidate| (strsim::jaro_winkler(text, candidate), candidate))
        .filter(|(score, _)| *score > 0.8)
        .max_by(|(a, _), (b, _)| a.total_cmp(b))
        .map(|(_, candidate)| candidate)
}

fn problem_of(argument: &Argument, key: &str, value: &Value, message: &str) -> ArgumentProblem {
    if let Some(instead) = value.as_str().and_then(|text| refused::instead_of(argument.name, text)) {
        return ArgumentProblem::new(key, format!("`{key}` = {value} is not supported")).with_help(instead);
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

/// A JSON number as a whole number, `3.0` included; `None` where it is not one or does not fit.
fn whole(value: &Value) -> Option<i64> {
    if let Some(number) = value.as_i64() {
        return Some(number);
    }
    let number = value.as_f64()?;
    // 2^53: up to there every whole f64 is exact, and beyond it no argument reaches.
    let fits = number.fract() == 0.0 && number.abs() <= 9_007_199_254_740_992.0;
    #[expect(clippy::cast_possible_truncation, reason = "whole and below 2^53")]
    fits.then_some(number as i64)
}

fn quoted(choices: &[&str]) -> String {
    choices.iter().map(|choice| format!("\"{choice}\"")).collect::<Vec<_>>().join(", ")
}
