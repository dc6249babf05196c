//! The types and ranges of fields: which values they accept, in which words and schemas.

use std::fmt;
use std::ops::{Bound, RangeBounds};
use std::time::Duration;

use serde_json::{Value as Json, json};

use super::{COMMAND_METRICS, MOST_OBJECTIVES, OBJECTIVE, object_schema};
use crate::study::metric::Number;
use crate::study::params::Value;
use crate::study::suggestion::nearest;
use crate::study::{duration, size};

/// The type and range of a field.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FieldKind {
    /// A non-empty string.
    Text,
    /// Any string, such as a separator.
    AnyText,
    /// A file or directory.
    Path,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// `minimize` or `maximize`; `min` and `max` are accepted with a warning.
    Direction,
    /// An integer within inclusive bounds; `3.0` is 3.
    Integer {
        /// Smallest value.
        min: i64,
        /// Largest value.
        max: i64,
    },
    /// A list of integers within inclusive bounds, at least one.
    Integers {
        /// Smallest value.
        min: i64,
        /// Largest value.
        max: i64,
    },
    /// The same, or `"auto"`.
    IntegerOrAuto {
        /// Smallest value.
        min: i64,
        /// Largest value.
        max: i64,
    },
    /// A finite number between two bounds.
    Float {
        /// Smallest value.
        low: Bound<f64>,
        /// Largest value.
        high: Bound<f64>,
    },
    /// A number that may also be NaN or infinite, as words.
    AnyFloat,
    /// A number of steps, or a fraction of all steps in [0, 1).
    StepsOrFraction,
    /// A number of steps from 1, or a fraction of all steps in (0, 1).
    StepInterval,
    /// `true` or `false`.
    Flag,
    /// A duration as a string.
    Duration,
    /// A duration of at least a second as a string, or `"off"`.
    Period,
    /// A size in bytes as a string.
    Size,
    /// A list of strings.
    Texts,
    /// A list of these words.
    Words(&'static [&'static str]),
    /// Names: a list, or one comma-separated string.
    Names,
    /// Names of columns: a list, each once.
    Columns,
    /// Class weights: `"balanced"`, a list of numbers above 0, the same as one comma-separated
    /// string, or `"none"`.
    Weights,
    /// `"auto"`, a device, or a list of devices; their reader checks them.
    Devices,
    /// `"best-3"`, `"all"` or `"none"`.
    Keep,
    /// A table of strings.
    Environment,
    /// Tables, one for each objective; their reader checks them.
    Objectives,
    /// The table of [`COMMAND_METRICS`]; its reader checks it.
    CommandMetrics,
    /// A string or a list of strings.
    TextOrTexts,
    /// A JSON object; its reader checks it.
    Object,
    /// A JSON array; its reader checks it.
    List,
    /// A string, a number, a truth value, a list of these, or `{ none = true }`; its reader checks
    /// it.
    Scalar,
}

/// Any integer from 1.
pub const COUNT: FieldKind = FieldKind::Integer { min: 1, max: i64::MAX };
/// Any integer from 0.
pub const NATURAL: FieldKind = FieldKind::Integer { min: 0, max: i64::MAX };
/// Any finite number.
pub const NUMBER: FieldKind = FieldKind::Float { low: Bound::Unbounded, high: Bound::Unbounded };
/// A number from 0 to 1.
pub const UNIT: FieldKind = between(0.0, 1.0);
/// A number between 0 and 1.
pub const OPEN_UNIT: FieldKind =
    FieldKind::Float { low: Bound::Excluded(0.0), high: Bound::Excluded(1.0) };
/// A number of at least 0 and below 1.
pub const FRACTION: FieldKind =
    FieldKind::Float { low: Bound::Included(0.0), high: Bound::Excluded(1.0) };
/// A number of at least 0.
pub const NOT_NEGATIVE: FieldKind =
    FieldKind::Float { low: Bound::Included(0.0), high: Bound::Unbounded };
/// A number above 0.
pub const POSITIVE: FieldKind =
    FieldKind::Float { low: Bound::Excluded(0.0), high: Bound::Unbounded };

/// A number within inclusive bounds.
pub const fn between(low: f64, high: f64) -> FieldKind {
    FieldKind::Float { low: Bound::Included(low), high: Bound::Included(high) }
}

impl fmt::Display for FieldKind {
    /// The accepted values, to follow "must be".
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text | Self::AnyText => f.write_str("a string"),
            Self::Path => f.write_str("a path"),
            Self::Choice(_) | Self::Direction => f.write_str(&one_of(self.words())),
            Self::Integer { min, max: i64::MAX } => write!(f, "an integer of at least {min}"),
            Self::Integer { min, max } => write!(f, "an integer from {min} to {max}"),
            Self::Integers { min, max } => {
                write!(f, "a list of integers from {min} to {max}")
            }
            Self::IntegerOrAuto { min, max } => {
                write!(f, "{} or \"auto\"", Self::Integer { min: *min, max: *max })
            }
            Self::Float { low: Bound::Included(low), high: Bound::Included(high) } => {
                write!(f, "a number from {low} to {high}")
            }
            Self::Float { low, high } => {
                let words = [["of at least", "above"], ["at most", "below"]];
                let ends: Vec<String> =
                    ends(*low, *high, words).map(|(word, end)| format!(" {word} {end}")).collect();
                write!(f, "a number{}", ends.join(" and"))
            }
            Self::AnyFloat => f.write_str("a number (NaN and Infinity are)"),
            Self::StepsOrFraction => f.write_str("a number of steps, or a fraction in [0, 1)"),
            Self::StepInterval => {
                f.write_str("a number of steps, or a fraction of all steps between 0 and 1")
            }
            Self::Flag => f.write_str("true or false"),
            Self::Duration => f.write_str("a duration such as \"90m\", \"2h30m\" or \"1d\""),
            Self::Period => {
                f.write_str("a duration of at least a second, such as \"10s\", or \"off\"")
            }
            Self::Size => f.write_str("a size such as \"50GiB\" or \"800MiB\""),
            Self::Texts => f.write_str("a list of strings"),
            Self::Words(words) => write!(f, "a list of {}", in_quotes(words)),
            Self::Names => f.write_str("a name or a list of names"),
            Self::Columns => f.write_str("a list of names, each once"),
            Self::Weights => f.write_str("\"balanced\", \"none\", or a list of numbers above 0"),
            Self::Devices => f.write_str(
                "\"auto\", a device (\"cpu\", \"cuda:0\", \"cuda:*\", \"wgpu:0\"), or \
                    a list of devices",
            ),
            Self::Keep => f.write_str("\"best-3\" (any number), \"all\" or \"none\""),
            Self::Environment => f.write_str("a table of strings"),
            Self::Objectives => f.write_str("tables of `metric`, `direction` and `threshold`"),
            Self::CommandMetrics => f.write_str("a table"),
            Self::TextOrTexts => f.write_str("a string or a list of strings"),
            Self::Object => f.write_str("an object"),
            Self::List => f.write_str("a list"),
            Self::Scalar => {
                f.write_str("a string, a finite number, true or false, or a list of these")
            }
        }
    }
}

impl FieldKind {
    /// The value in its canonical form (`3.0` as the integer 3, a duration in seconds, names as a
    /// list).
    ///
    /// # Errors
    /// The end of a sentence that begins with the field's name: "must be ..., not `...`", or
    /// "cannot be `...`".
    pub fn check(&self, value: &Json) -> Result<Json, String> {
        let text = value.as_str();
        let is_one_of = |words: &[&str]| text.is_some_and(|text| words.contains(&text));
        let same = |is_accepted: bool| is_accepted.then(|| value.clone());
        let taken = match *self {
            Self::Text | Self::Path => same(text.is_some_and(|text| !text.trim().is_empty())),
            Self::AnyText => same(text.is_some()),
            Self::Choice(words) => same(is_one_of(words)),
            Self::Direction => same(is_one_of(&["minimize", "maximize", "min", "max"])),
            Self::IntegerOrAuto { .. } if text == Some("auto") => same(true),
            Self::Integer { min, max } | Self::IntegerOrAuto { min, max } => {
                integer(value).filter(|int| (min..=max).contains(int)).map(Json::from)
            }
            Self::Integers { min, max } => value
                .as_array()
                .filter(|list| !list.is_empty())
                .and_then(|list| list.iter().map(integer).collect::<Option<Vec<i64>>>())
                .filter(|list| list.iter().all(|int| (min..=max).contains(int)))
                .map(Json::from),
            Self::Float { low, high } => {
                same(value.as_f64().is_some_and(|number| (low, high).contains(&number)))
            }
            Self::AnyFloat => Number::from_json(value).map(|number| number.to_json()),
            Self::StepsOrFraction => match integer(value) {
                Some(steps) => (steps >= 0).then(|| steps.into()),
                None => same(value.as_f64().is_some_and(|share| (0.0..1.0).contains(&share))),
            },
            Self::StepInterval => match integer(value) {
                Some(steps) => (steps > 0).then(|| steps.into()),
                None => same(value.as_f64().is_some_and(|share| share > 0.0 && share < 1.0)),
            },
            Self::Flag => same(value.is_boolean()),
            Self::Duration => {
                text.and_then(|text| duration::parse(text).ok().map(|time| json!(time)))
            }
            Self::Period => same(text.is_some_and(|text| period(text).is_ok())),
            Self::Size => text.and_then(|text| size::parse(text).ok().map(Json::from)),
            Self::Texts => same(strings(value).is_some()),
            Self::Words(words) => same(
                strings(value).is_some_and(|list| list.iter().all(|word| words.contains(word))),
            ),
            Self::Names => names(value),
            Self::Columns => columns(value),
            Self::Weights => weights(value),
            Self::Environment => {
                same(value.as_object().is_some_and(|table| table.values().all(Json::is_string)))
            }
            Self::Object | Self::CommandMetrics => same(value.is_object()),
            Self::TextOrTexts => same(value.is_string() || strings(value).is_some()),
            Self::List => same(value.is_array()),
            Self::Scalar => same(Value::from_json(value).is_some()),
            Self::Keep => same(text.is_some_and(|text| keep_best(text).is_some())),
            Self::Devices | Self::Objectives => same(true),
        };
        taken.ok_or_else(|| match text {
            Some(text) if !self.words().is_empty() => format!("cannot be `{text}`"),
            _ => format!("must be {self}, not `{value}`"),
        })
    }

    /// The words of a choice.
    pub fn words(&self) -> &'static [&'static str] {
        match *self {
            Self::Choice(words) | Self::Words(words) => words,
            Self::Direction => &["minimize", "maximize"],
            _ => &[],
        }
    }

    /// A suggestion for a word that is not among them.
    pub fn other_word(&self, text: &str) -> Option<String> {
        match (self.words(), nearest(text, self.words().iter().copied())) {
            ([], _) => None,
            (_, Some(near)) => Some(format!("did you mean \"{near}\"?")),
            (words, None) => Some(format!("write {}", one_of(words))),
        }
    }

    /// The kind as a JSON Schema.
    pub fn schema(&self) -> Json {
        let integer = |min: i64, max: i64| {
            let mut schema = json!({ "type": "integer", "minimum": min });
            if max != i64::MAX {
                schema["maximum"] = max.into();
            }
            schema
        };
        match *self {
            Self::Text | Self::Path => json!({ "type": "string", "minLength": 1 }),
            Self::AnyText => json!({ "type": "string" }),
            Self::Choice(_) | Self::Direction => json!({ "enum": self.words() }),
            Self::Integer { min, max } => integer(min, max),
            Self::Integers { min, max } => {
                json!({ "type": "array", "items": integer(min, max), "minItems": 1 })
            }
            Self::IntegerOrAuto { min, max } => {
                json!({ "anyOf": [integer(min, max), { "const": "auto" }] })
            }
            Self::Float { low, high } => {
                let words = [["minimum", "exclusiveMinimum"], ["maximum", "exclusiveMaximum"]];
                let mut schema = json!({ "type": "number" });
                ends(low, high, words).for_each(|(key, end)| schema[key] = end.into());
                schema
            }
            Self::AnyFloat => json!({ "type": ["number", "string"] }),
            Self::StepsOrFraction => json!({ "type": "number", "minimum": 0 }),
            Self::StepInterval => json!({ "type": "number", "exclusiveMinimum": 0 }),
            Self::Flag => json!({ "type": "boolean" }),
            Self::Duration => {
                json!({
                    "type": "string",
                    "pattern": r"^\s*([0-9.]+d)?\s*([0-9.]+h)?\s*([0-9.]+m)?\s*([0-9.]+s)?\s*$",
                    "examples": ["90m", "2h30m", "1d"],
                })
            }
            Self::Period => json!({ "type": "string", "examples": ["10s", "1m", "off"] }),
            Self::Size => {
                json!({
                    "type": "string", "pattern": r"^\s*[0-9.]+\s*([KMGT]i|[kMGT])?B\s*$",
                    "examples": ["50GiB", "800MiB"],
                })
            }
            Self::Texts | Self::Columns => {
                json!({ "type": "array", "items": { "type": "string" } })
            }
            Self::Words(words) => json!({ "type": "array", "items": { "enum": words } }),
            Self::Names => json!({ "type": ["string", "array"], "items": { "type": "string" } }),
            Self::Weights => {
                json!({
                    "type": ["string", "array"],
                    "items": { "type": "number", "exclusiveMinimum": 0 },
                })
            }
            Self::Devices => {
                let device = json!({
                    "type": "string",
                    "pattern": r"^(cpu|ndarray|cuda:(\*|\d+)|wgpu:\d+|sim:\d+(\.\.\d+)?)$",
                });
                json!({
                    "anyOf": [
                        { "const": "auto" }, device,
                        { "type": "array", "items": device, "minItems": 1, "uniqueItems": true },
                    ],
                })
            }
            Self::Keep => json!({ "type": "string", "pattern": "^(best-[1-9][0-9]*|all|none)$" }),
            Self::Environment => {
                json!({ "type": "object", "additionalProperties": { "type": "string" } })
            }
            Self::Objectives => {
                json!({
                    "type": "array", "items": object_schema(OBJECTIVE), "minItems": 1,
                    "maxItems": MOST_OBJECTIVES,
                })
            }
            Self::CommandMetrics => object_schema(COMMAND_METRICS),
            Self::TextOrTexts => {
                json!({ "type": ["string", "array"], "items": { "type": "string" } })
            }
            Self::Object => json!({ "type": "object" }),
            Self::List => json!({ "type": "array" }),
            Self::Scalar => {
                let scalar = json!({ "type": ["string", "number", "boolean"] });
                let none = json!({
                    "type": "object", "properties": { "none": { "const": true } },
                    "required": ["none"], "additionalProperties": false,
                });
                json!({ "anyOf": [scalar, { "type": "array", "items": scalar }, none] })
            }
        }
    }
}

/// An interval: a duration, or `None` for `off` and `0s`.
///
/// # Errors
/// Why the text is invalid.
pub fn period(text: &str) -> Result<Option<Duration>, &'static str> {
    match text.trim() {
        "off" | "0s" => Ok(None),
        text => match duration::parse(text)? {
            period if period < Duration::from_secs(1) => Err("it is shorter than a second"),
            period => Ok(Some(period)),
        },
    }
}

/// The finite bounds of a range, each with its wording: (inclusive, exclusive) of the lower bound,
/// then of the upper one.
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

/// A JSON number as an integer, `3.0` included; `None` if it has a fraction or does not fit.
pub fn integer(value: &Json) -> Option<i64> {
    if let Some(number) = value.as_i64() {
        return Some(number);
    }
    // 2^53: up to here f64 represents every integer, and no field exceeds it.
    let number = value.as_f64().filter(|number| number.abs() <= 9_007_199_254_740_992.0)?;
    #[expect(clippy::cast_possible_truncation, reason = "an integer below 2^53")]
    (number.fract() == 0.0).then_some(number as i64)
}

/// How many of the best checkpoints the word keeps; `Some(None)`: all.
pub fn keep_best(word: &str) -> Option<Option<u32>> {
    match word {
        "all" => Some(None),
        "none" => Some(Some(0)),
        _ => word.strip_prefix("best-")?.parse().ok().filter(|count| *count > 0).map(Some),
    }
}

fn strings(value: &Json) -> Option<Vec<&str>> {
    value.as_array()?.iter().map(Json::as_str).collect()
}

/// Names as a list, from a list or a comma-separated string.
fn names(value: &Json) -> Option<Json> {
    let texts = if let Some(text) = value.as_str() { vec![text] } else { strings(value)? };
    let names = texts.into_iter().flat_map(|text| text.split(',')).map(str::trim);
    Some(names.filter(|name| !name.is_empty()).collect())
}

/// A list of names, none of them empty or repeated; surrounding white space does not count.
fn columns(value: &Json) -> Option<Json> {
    let names: Vec<&str> = strings(value)?.into_iter().map(str::trim).collect();
    let is_sound =
        |index: usize| !names[index].is_empty() && !names[..index].contains(&names[index]);
    (!names.is_empty() && (0..names.len()).all(is_sound)).then(|| json!(names))
}

/// Weights as a list, from a list or a comma-separated string; null for `none`.
fn weights(value: &Json) -> Option<Json> {
    let weights: Option<Vec<f64>> = match value.as_str() {
        Some("none") => return Some(Json::Null),
        Some("balanced") => return Some(value.clone()),
        Some(text) => text.split(',').map(|weight| weight.trim().parse().ok()).collect(),
        None => value.as_array()?.iter().map(Json::as_f64).collect(),
    };
    let is_sound = |weights: &Vec<f64>| {
        !weights.is_empty() && weights.iter().all(|weight| weight.is_finite() && *weight > 0.0)
    };
    weights.filter(is_sound).map(Json::from)
}

/// Words in double quotes, joined with "or".
pub fn one_of(words: &[&str]) -> String {
    match words.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} or \"{last}\"", in_quotes(rest)),
        _ => in_quotes(words),
    }
}

/// Words in double quotes, with commas between them.
pub fn in_quotes(words: &[&str]) -> String {
    words.iter().map(|word| format!("\"{word}\"")).collect::<Vec<_>>().join(", ")
}
