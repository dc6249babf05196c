//! Parameter values and the assignment of values to a trial's active parameters.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de, ser::SerializeMap};

/// One parameter's value: a scalar, a list of scalars as one choice, or null.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// `true` or `false`.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// A finite real number.
    Float(f64),
    /// A string.
    Text(String),
    /// Several scalars together, one choice: `[64, 64]`.
    List(Vec<Value>),
    /// No value: `{ none = true }` in a study file.
    Null,
}

impl Value {
    /// The value as a number; `None` for other types.
    pub fn as_number(&self) -> Option<f64> {
        match self {
            #[expect(
                clippy::cast_precision_loss,
                reason = "parameter integers stay far below 2^53"
            )]
            Value::Int(int) => Some(*int as f64),
            Value::Float(float) => Some(*float),
            _ => None,
        }
    }

    /// The value as JSON.
    pub fn to_json(&self) -> serde_json::Value {
        match self {
            Value::Bool(flag) => serde_json::Value::from(*flag),
            Value::Int(int) => serde_json::Value::from(*int),
            Value::Float(float) => serde_json::Value::from(*float),
            Value::Text(text) => serde_json::Value::from(text.as_str()),
            Value::List(list) => list.iter().map(Value::to_json).collect(),
            Value::Null => serde_json::Value::Null,
        }
    }

    /// Converts a JSON value; `None` for objects, for lists of non-scalars, and for numbers outside
    /// the range of `i64` and `f64`.
    pub fn from_json(json: &serde_json::Value) -> Option<Value> {
        match json {
            serde_json::Value::Bool(flag) => Some(Value::Bool(*flag)),
            serde_json::Value::String(text) => Some(Value::Text(text.clone())),
            serde_json::Value::Number(number) => match number.as_i64() {
                Some(int) => Some(Value::Int(int)),
                None => number.as_f64().filter(|float| float.is_finite()).map(Value::Float),
            },
            serde_json::Value::Null => Some(Value::Null),
            serde_json::Value::Array(list) => {
                let is_scalar = |value: &Value| !matches!(value, Value::List(_) | Value::Null);
                let scalar = |json| Value::from_json(json).filter(is_scalar);
                list.iter().map(scalar).collect::<Option<_>>().map(Value::List)
            }
            serde_json::Value::Object(_) => None,
        }
    }

    /// The value for people: a text that no table or screen has room for is cut, with its length.
    pub fn shown(&self) -> String {
        match self {
            Value::Text(text) => cut(text, MOST_SHOWN),
            Value::List(_) => cut(&self.to_string(), MOST_SHOWN),
            _ => self.to_string(),
        }
    }

    /// The text of its environment variable, which is unset for null.
    pub fn in_environment(&self) -> Option<String> {
        (*self != Value::Null).then(|| self.to_string())
    }

    /// Whether two values are equal: numbers by value (`1` and `1.0`), lists by their elements, all
    /// others by type and content.
    pub fn same(&self, other: &Value) -> bool {
        match (self, other) {
            (Value::List(mine), Value::List(theirs)) => {
                mine.len() == theirs.len() && mine.iter().zip(theirs).all(|(a, b)| a.same(b))
            }
            _ => match (self.as_number(), other.as_number()) {
                (Some(mine), Some(theirs)) => mine == theirs,
                _ => self == other,
            },
        }
    }
}

impl fmt::Display for Value {
    /// As users write it and a command's `{name}` receives it: strings without quotes, floats in
    /// their shortest exact form; lists and null as JSON.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Bool(flag) => write!(f, "{flag}"),
            Value::Int(int) => write!(f, "{int}"),
            Value::Float(float) if *float != 0.0 && (float.abs() < 1e-3 || float.abs() >= 1e7) => {
                write!(f, "{float:e}")
            }
            Value::Float(float) => write!(f, "{float}"),
            Value::Text(text) => f.write_str(text),
            Value::List(_) | Value::Null => write!(f, "{}", self.to_json()),
        }
    }
}

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.to_json().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let json = serde_json::Value::deserialize(deserializer)?;
        Value::from_json(&json).ok_or_else(|| {
            de::Error::custom(format!(
                "`{json}` is not a string, number, boolean, null, or a list of scalars"
            ))
        })
    }
}

/// Most characters of a value that are shown.
const MOST_SHOWN: usize = 200;

/// A text of at most about `most` characters: the beginning of a longer one, and its length.
pub fn cut(text: &str, most: usize) -> String {
    let is_longer = text.len() > most && text.char_indices().nth(most).is_some();
    match text.char_indices().nth(most * 3 / 4).filter(|_| is_longer) {
        Some((end, _)) => format!("{}... ({} characters)", &text[..end], text.chars().count()),
        None => text.to_owned(),
    }
}

/// How the environment variables of parameters begin.
pub const VARIABLE: &str = "HPSEARCH_PARAM_";

/// The environment variable of the parameter `name`: letters in upper case, everything but ASCII
/// letters and digits as `_`. Several parameters may map to the same one.
pub fn variable(name: &str) -> String {
    let plain = name
        .chars()
        .map(|char| if char.is_ascii_alphanumeric() { char.to_ascii_uppercase() } else { '_' });
    VARIABLE.chars().chain(plain).collect()
}

impl From<f64> for Value {
    fn from(float: f64) -> Self {
        Value::Float(float)
    }
}

impl From<i64> for Value {
    fn from(int: i64) -> Self {
        Value::Int(int)
    }
}

impl From<bool> for Value {
    fn from(flag: bool) -> Self {
        Value::Bool(flag)
    }
}

impl<V: Into<Value>> From<Vec<V>> for Value {
    fn from(list: Vec<V>) -> Self {
        Value::List(list.into_iter().map(Into::into).collect())
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Value::Text(text.to_owned())
    }
}

/// The values of a trial's active parameters, in the order of their names. Trials of a study that
/// was read from a store share the names.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Params(Vec<(Arc<str>, Value)>);

impl Params {
    /// No parameters.
    pub const fn new() -> Self {
        Params(Vec::new())
    }

    fn place(&self, name: &str) -> Result<usize, usize> {
        self.0.binary_search_by(|(known, _)| (**known).cmp(name))
    }

    /// The value of `name`, if the parameter is active.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.place(name).ok().map(|place| &self.0[place].1)
    }

    /// Sets `name`, replacing any previous value.
    pub fn insert(&mut self, name: impl Into<Arc<str>> + AsRef<str>, value: impl Into<Value>) {
        match self.place(name.as_ref()) {
            Ok(place) => self.0[place].1 = value.into(),
            Err(place) => self.0.insert(place, (name.into(), value.into())),
        }
    }

    /// Removes `name`.
    pub fn remove(&mut self, name: &str) -> Option<Value> {
        self.place(name).ok().map(|place| self.0.remove(place).1)
    }

    /// Removes all.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Names and values in the order of names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.0.iter().map(|(name, value)| (&**name, value))
    }

    /// Number of active parameters.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether no parameter is active.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether it has all values of `other`.
    pub fn contains(&self, other: &Params) -> bool {
        other.iter().all(|(name, value)| self.get(name).is_some_and(|own| own.same(value)))
    }

    /// A text that is equal for equal configurations: the key for finding duplicates.
    pub fn fingerprint(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

impl FromIterator<(String, Value)> for Params {
    fn from_iter<I: IntoIterator<Item = (String, Value)>>(pairs: I) -> Self {
        let sorted: BTreeMap<String, Value> = pairs.into_iter().collect();
        Params(sorted.into_iter().map(|(name, value)| (name.into(), value)).collect())
    }
}

impl Serialize for Params {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, value) in self.iter() {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for Params {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let params = BTreeMap::<String, Value>::deserialize(deserializer)?;
        Ok(params.into_iter().collect())
    }
}

impl fmt::Display for Params {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (name, value)) in self.iter().enumerate() {
            let separator = if index == 0 { "" } else { " " };
            write!(f, "{separator}{name}={value}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_round_trip_through_json_with_their_kinds() {
        let mut params = Params::new();
        params.insert("rate", 1e-30);
        params.insert("whole", 2.0);
        params.insert("count", 3i64);
        params.insert("flag", true);
        params.insert("name", "adamw");
        params.insert("sizes", vec![64i64, 32]);
        params.insert("empty", Value::List(Vec::new()));
        params.insert("nothing", Value::Null);
        let text = serde_json::to_string(&params).unwrap();
        assert_eq!(serde_json::from_str::<Params>(&text).unwrap(), params);
    }

    #[test]
    fn names_become_variables_and_not_always_different_ones() {
        assert_eq!(variable("model.num-layers"), "HPSEARCH_PARAM_MODEL_NUM_LAYERS");
        assert_eq!(variable("größe"), variable("grüße"));
    }

    #[test]
    fn a_value_without_end_is_shown_by_its_beginning_and_length() {
        assert_eq!(Value::from("adamw").shown(), "adamw");
        let fits = "é".repeat(MOST_SHOWN);
        assert_eq!(Value::from(fits.as_str()).shown(), fits);
        let long = Value::Text("é".repeat(1_000_000));
        assert_eq!(long.shown(), format!("{}... (1000000 characters)", "é".repeat(150)));
        assert_eq!(long.to_string().chars().count(), 1_000_000);
    }

    #[test]
    fn one_and_one_point_zero_mean_the_same() {
        assert!(Value::Int(1).same(&Value::Float(1.0)));
        assert!(!Value::Text("1".into()).same(&Value::Int(1)));
        assert!(Value::from(vec![1i64]).same(&vec![1.0].into()));
        assert!(!Value::from(vec![1i64]).same(&1i64.into()));
    }

    #[test]
    fn null_is_neither_a_string_nor_part_of_a_list() {
        assert!(!Value::Null.same(&"null".into()));
        for json in ["[[1]]", "[null]", "{}", "[1, {}]"] {
            assert_eq!(Value::from_json(&serde_json::from_str(json).unwrap()), None, "{json}");
        }
    }
}
