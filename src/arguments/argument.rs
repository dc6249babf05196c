//! One argument: its name, the values that it takes, its default, and its JSON Schema.

use std::fmt;
use std::ops::{Bound, RangeBounds};

use serde_json::{Map, Value, json};

use super::tasks::TaskKind;

/// An argument that users may set.
#[derive(Debug, Clone, PartialEq)]
pub struct Argument {
    /// The name as it is written in `[trainer]` or `[data]`; nested names are dotted (`model.hidden_size`).
    pub name: &'static str,
    /// Other accepted spellings, such as the names that other libraries use.
    pub aliases: &'static [&'static str],
    /// The type and the allowed values.
    pub kind: ArgumentKind,
    /// The value when none is given.
    pub default: ArgumentDefault,
    /// What it does, in one sentence.
    pub doc: &'static str,
    /// The only task that it applies to; `None`: all tasks.
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
    /// An integer, both bounds included; `3.0` is accepted as 3.
    Int {
        /// Least allowed value.
        low: i64,
        /// Greatest allowed value.
        high: i64,
    },
    /// A number of steps (an integer, at least 1), or a fraction of all steps in [0, 1).
    StepsOrShare,
    /// One of these strings.
    Choice(&'static [&'static str]),
    /// `true` or `false`.
    Flag,
    /// Any text.
    Text,
    /// Names: a list, or one comma-separated string.
    Names,
    /// Names of columns: a list.
    Columns,
    /// Class weights: `"balanced"`, a list of numbers above 0, the same as one comma-separated string, or `"none"`.
    Weights,
}

/// The value of an argument that is not given.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ArgumentDefault {
    /// None: the argument must be given.
    Required,
    /// None; the argument's documentation says what that means.
    Absent,
    /// A boolean.
    Flag(bool),
    /// An integer.
    Int(i64),
    /// A number.
    Float(f64),
    /// A string.
    Text(&'static str),
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
                let ends: Vec<String> =
                    ends(*low, *high, [["at least", "above"], ["at most", "below"]])
                        .map(|(word, end)| format!("{word} {end}"))
                        .collect();
                if ends.is_empty() {
                    write!(f, "a number")
                } else {
                    write!(f, "a number {}", ends.join(" and "))
                }
            }
            Self::Int { low, high: i64::MAX } => write!(f, "an integer from {low}"),
            Self::Int { low, high } => write!(f, "an integer from {low} to {high}"),
            Self::StepsOrShare => write!(f, "a number of steps, or a fraction in [0, 1)"),
            Self::Choice(choices) => write!(f, "one of {}", quoted(choices)),
            Self::Flag => write!(f, "true or false"),
            Self::Text => write!(f, "text"),
            Self::Names => write!(f, "a name or a list of names"),
            Self::Columns => write!(f, "a list of names, each once"),
            Self::Weights => write!(f, "\"balanced\", or a list of numbers above 0"),
        }
    }
}

impl ArgumentKind {
    /// `value` in the form that resolved arguments use (`3.0` as the integer 3), or what is wrong with it.
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
                let number = integer(value).ok_or_else(wrong)?;
                if (*low..=*high).contains(&number) { Ok(json!(number)) } else { Err(wrong()) }
            }
            Self::StepsOrShare => {
                let number = value.as_f64().ok_or_else(wrong)?;
                match integer(value) {
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
            Self::Names => names(value).ok_or_else(wrong),
            Self::Columns => columns(value).ok_or_else(wrong),
            Self::Weights => weights(value).ok_or_else(wrong),
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
                for (key, end) in ends(
                    low,
                    high,
                    [["minimum", "exclusiveMinimum"], ["maximum", "exclusiveMaximum"]],
                ) {
                    put(key, json!(end));
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
            Self::Columns => {
                put("type", json!("array"));
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

/// The finite ends of a range, each with its word from `words`: (included, excluded) of the lower end, then of the upper one.
fn ends(
    low: Bound<f64>,
    high: Bound<f64>,
    words: [[&'static str; 2]; 2],
) -> impl Iterator<Item = (&'static str, f64)> {
    [low, high].into_iter().zip(words).filter_map(|(bound, [included, excluded])| match bound {
        Bound::Included(end) => Some((included, end)),
        Bound::Excluded(end) => Some((excluded, end)),
        Bound::Unbounded => None,
    })
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
                let nested = properties.entry(group.to_owned()).or_insert_with(
                    || json!({"type": "object", "properties": {}, "additionalProperties": false}),
                );
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

/// Names as a list, from a list or a comma-separated string; `None` where it is neither.
fn names(value: &Value) -> Option<Value> {
    let listed = |text: &str| -> Vec<Value> {
        text.split(',').map(str::trim).filter(|name| !name.is_empty()).map(Value::from).collect()
    };
    match value {
        Value::String(text) => Some(listed(text).into()),
        Value::Array(list) => Some(
            list.iter()
                .map(|name| name.as_str().map(listed))
                .collect::<Option<Vec<_>>>()?
                .concat()
                .into(),
        ),
        _ => None,
    }
}

/// A list of names, none of them empty or repeated; surrounding white space does not count.
fn columns(value: &Value) -> Option<Value> {
    let names: Vec<&str> =
        value.as_array()?.iter().map(|name| name.as_str().map(str::trim)).collect::<Option<_>>()?;
    let are_sound = !names.is_empty()
        && names
            .iter()
            .enumerate()
            .all(|(index, name)| !name.is_empty() && !names[..index].contains(name));
    are_sound.then(|| json!(names))
}

/// Weights as [`ClassWeights`](super::ClassWeights) stores them, from a list or a comma-separated string; null for `none`.
fn weights(value: &Value) -> Option<Value> {
    let sound = |weights: Vec<f64>| {
        let sound =
            !weights.is_empty() && weights.iter().all(|weight| weight.is_finite() && *weight > 0.0);
        sound.then(|| Value::from(weights))
    };
    match value {
        Value::String(text) if text == "none" => Some(Value::Null),
        Value::String(text) if text == "balanced" => Some(value.clone()),
        Value::String(text) => {
            sound(text.split(',').map(|weight| weight.trim().parse().ok()).collect::<Option<_>>()?)
        }
        Value::Array(list) => sound(list.iter().map(Value::as_f64).collect::<Option<_>>()?),
        _ => None,
    }
}

/// The candidate most similar to `text`, if one is similar enough.
pub(crate) fn nearest<'a>(
    text: &str,
    candidates: impl Iterator<Item = &'a str>,
) -> Option<&'a str> {
    candidates
        .map(|candidate| (strsim::jaro_winkler(text, candidate), candidate))
        .filter(|(score, _)| *score > 0.8)
        .max_by(|(a, _), (b, _)| a.total_cmp(b))
        .map(|(_, candidate)| candidate)
}

/// A JSON number as an integer, `3.0` included; `None` where it has a fraction or does not fit.
fn integer(value: &Value) -> Option<i64> {
    if let Some(number) = value.as_i64() {
        return Some(number);
    }
    let number = value.as_f64()?;
    // 2^53: up to there f64 holds every integer, and no argument goes beyond.
    let fits = number.fract() == 0.0 && number.abs() <= 9_007_199_254_740_992.0;
    #[expect(clippy::cast_possible_truncation, reason = "an integer below 2^53")]
    fits.then_some(number as i64)
}

fn quoted(choices: &[&str]) -> String {
    choices.iter().map(|choice| format!("\"{choice}\"")).collect::<Vec<_>>().join(", ")
}
