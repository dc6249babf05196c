//! The schema of user input: keys of the study file, options of samplers and pruners, arguments of
//! the trainer, and lines of `ask-tell`. One table of fields drives parsing, checks, suggestions,
//! help and reference pages.

mod kind;

use std::fmt;

use serde::de::DeserializeOwned;
use serde_json::{Map, Value as Json, json};

use super::spec::AlgorithmSpec;
use super::suggestion::{nearest, quoted};
pub use kind::{
    COUNT, FRACTION, FieldKind, NATURAL, NOT_NEGATIVE, NUMBER, OPEN_UNIT, POSITIVE, UNIT, between,
    in_quotes, integer, keep_best, one_of, period,
};

/// One field of a table.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// Its name; nested names are dotted (`model.hidden_size`).
    pub name: &'static str,
    /// Other accepted spellings.
    pub aliases: &'static [&'static str],
    /// Its type and range.
    pub kind: FieldKind,
    /// Its default.
    pub default: FieldDefault,
    /// What it does, in one sentence.
    pub doc: &'static str,
}

/// The default of a field.
#[derive(Clone, Copy, Debug)]
pub enum FieldDefault {
    /// None: it is required.
    Required,
    /// None: the field may be left out.
    Absent,
    /// None; describes what happens instead.
    Derived(&'static str),
    /// A boolean.
    Flag(bool),
    /// An integer.
    Int(i64),
    /// A number.
    Float(f64),
    /// A string.
    Text(&'static str),
    /// The specification's default.
    Of(fn() -> Json),
}

/// Most objectives of a study: beyond a few, nearly every trial is on the front.
pub const MOST_OBJECTIVES: usize = 16;

/// The fields of one objective.
pub const OBJECTIVE: &[Field] = &[
    key("metric", FieldKind::Text, FieldDefault::Absent)
        .doc("the reported metric that is optimised"),
    key("direction", FieldKind::Direction, FieldDefault::Absent)
        .doc("whether smaller or larger values are better"),
    key("threshold", NUMBER, FieldDefault::Absent)
        .doc("with several objectives, the worst value of interest"),
];

/// The fields of `[command.metrics]`.
pub const COMMAND_METRICS: &[Field] = &[
    key("pattern", FieldKind::TextOrTexts, FieldDefault::Absent)
        .doc("regular expressions over its lines; each named group is a metric, or the step"),
    key("json", FieldKind::Text, FieldDefault::Absent)
        .doc("a file of JSON lines that it writes; each line is a report"),
    key("tensorboard", FieldKind::Text, FieldDefault::Absent)
        .doc("a directory of TensorBoard's event files that it writes; tags are metrics"),
];

/// A field without aliases; [`Field::doc`] describes it.
pub const fn key(name: &'static str, kind: FieldKind, default: FieldDefault) -> Field {
    Field { name, aliases: &[], kind, default, doc: "" }
}

/// A field with its description.
pub const fn field(
    name: &'static str,
    kind: FieldKind,
    default: FieldDefault,
    doc: &'static str,
) -> Field {
    key(name, kind, default).doc(doc)
}

impl Field {
    /// Adds aliases.
    #[must_use]
    pub const fn or(mut self, aliases: &'static [&'static str]) -> Self {
        self.aliases = aliases;
        self
    }

    /// Adds the description, one sentence.
    #[must_use]
    pub const fn doc(mut self, doc: &'static str) -> Self {
        self.doc = doc;
        self
    }

    /// Every accepted spelling, the name first.
    pub fn names(&self) -> impl Iterator<Item = &'static str> + use<> {
        std::iter::once(self.name).chain(self.aliases.iter().copied())
    }

    /// The value of this option in `spec`; the default if it is absent or of another type.
    pub fn of<T: DeserializeOwned>(&self, spec: &AlgorithmSpec) -> T {
        let written = spec.options.get(self.name).and_then(|value| T::deserialize(value).ok());
        written.unwrap_or_else(|| self.default.read())
    }

    /// What to do about a wrong value.
    pub fn remedy(&self, value: &Json) -> String {
        value.as_str().and_then(|text| self.kind.other_word(text)).unwrap_or_else(|| self.help())
    }

    /// The description with the default.
    pub fn help(&self) -> String {
        match self.default {
            FieldDefault::Absent | FieldDefault::Required => self.doc.to_owned(),
            default => format!("{} (default: {default})", self.doc),
        }
    }

    /// The field as a JSON Schema.
    pub fn schema(&self) -> Json {
        let mut schema = self.kind.schema();
        schema["description"] = match self.default {
            FieldDefault::Derived(_) => self.help().into(),
            _ => self.doc.into(),
        };
        let default = self.default.json();
        if !default.is_null() {
            schema["default"] = default;
        }
        schema
    }
}

/// The field of `fields` with this name or alias.
pub fn find(fields: &[Field], name: &str) -> Option<Field> {
    fields.iter().copied().find(|field| field.names().any(|known| known == name))
}

/// The remedy for a name that none of `fields` has.
pub fn unknown_help(name: &str, fields: &[Field]) -> String {
    match nearest(name, fields.iter().map(|field| field.name)) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("its keys are {}", quoted(fields.iter().map(|field| field.name))),
    }
}

/// A JSON Schema object of fields.
pub fn object_schema<'a>(fields: impl IntoIterator<Item = &'a Field>) -> Json {
    let properties: Map<String, Json> =
        fields.into_iter().map(|field| (field.name.to_owned(), field.schema())).collect();
    json!({ "type": "object", "properties": properties, "additionalProperties": false })
}

impl FieldDefault {
    /// The default as JSON; null if there is none.
    pub fn json(&self) -> Json {
        match *self {
            Self::Required | Self::Absent | Self::Derived(_) => Json::Null,
            Self::Flag(flag) => flag.into(),
            Self::Int(number) => number.into(),
            Self::Float(number) => number.into(),
            Self::Text(text) => text.into(),
            Self::Of(default) => default(),
        }
    }

    /// The default as its reader's type.
    pub fn read<T: DeserializeOwned>(&self) -> T {
        serde_json::from_value(self.json()).expect("a field's default is of its reader's type")
    }
}

impl fmt::Display for FieldDefault {
    /// As it would be written; a description if it is derived, empty if there is none.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Required => f.write_str("required"),
            Self::Absent => Ok(()),
            Self::Derived(words) => f.write_str(words),
            _ => write!(f, "{}", self.json()),
        }
    }
}
