//! Checks a table of the study file against its fields: reports problems, and gives access to valid
//! entries.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::DeserializeOwned;
use serde_json::Value as Json;

use super::diagnostic::{Diagnostic, SourceSpan};
use super::syntax::{Item, Node, TomlEntry, TomlTable};
use super::tables;
use crate::study::field::{self, Field, FieldKind, in_quotes, one_of, unknown_help};
use crate::study::suggestion::nearest;
use crate::study::{duration, size};

/// The entries of a table with known keys and valid values.
#[derive(Debug, Default)]
pub(super) struct Section<'a> {
    /// The span of the table, if present.
    pub place: Option<SourceSpan>,
    fields: Vec<Field>,
    /// Entries with their values in the canonical form of [`FieldKind::check`].
    sound: BTreeMap<&'static str, (&'a TomlEntry, Json)>,
    refused: Vec<&'static str>,
}

impl<'a> Section<'a> {
    /// An absent table: all fields have their defaults.
    pub fn absent(fields: &[Field]) -> Self {
        Section { fields: fields.to_vec(), ..Self::default() }
    }

    /// Checks `table` against `fields`; `path` is its name in messages.
    pub fn read(
        path: &str,
        place: SourceSpan,
        table: &'a TomlTable,
        fields: &[Field],
        problems: &mut Vec<Diagnostic>,
    ) -> Self {
        let mut section = Section { place: Some(place), ..Self::absent(fields) };
        for entry in &table.entries {
            let Some(field) = field::find(fields, &entry.key) else {
                // The probable meaning of a misspelt key is not reported as missing.
                section.refused.extend(nearest(&entry.key, fields.iter().map(|field| field.name)));
                problems.push(unknown_key(path, entry, fields));
                continue;
            };
            match check(path, &field, &entry.value) {
                Ok(value) => drop(section.sound.insert(field.name, (entry, value))),
                Err(problem) => {
                    section.refused.push(field.name);
                    problems.push(*problem);
                }
            }
        }
        section
    }

    /// The entry of `key`, if valid.
    pub fn entry(&self, key: &str) -> Option<&'a TomlEntry> {
        self.sound.get(key).map(|(entry, _)| *entry)
    }

    /// Whether `key` is absent, and not merely invalid.
    pub fn lacks(&self, key: &str) -> bool {
        !self.sound.contains_key(key) && !self.refused.contains(&key)
    }

    /// The value of `key` as written.
    pub fn node(&self, key: &str) -> Option<&'a Node> {
        self.entry(key).map(|entry| &entry.value)
    }

    /// The span of the value of `key`.
    pub fn place_of(&self, key: &str) -> Option<SourceSpan> {
        self.node(key).map(|node| node.place)
    }

    /// The string of `key`.
    pub fn text(&self, key: &str) -> Option<&'a str> {
        self.node(key).and_then(Node::text)
    }

    /// The value of `key`, or its default, in the specification's type.
    pub fn get<T: DeserializeOwned>(&self, key: &str) -> T {
        let written = self.sound.get(key).and_then(|(_, value)| T::deserialize(value).ok());
        written.unwrap_or_else(|| {
            let schema = field::find(&self.fields, key).expect("a field of this table");
            schema.default.read()
        })
    }

    /// The values of those of `fields` that are present.
    pub fn values_of(&self, fields: &[Field]) -> BTreeMap<String, Json> {
        let written = fields.iter().filter_map(|field| self.sound.get_key_value(field.name));
        written.map(|(name, (_, value))| ((*name).to_owned(), value.clone())).collect()
    }

    /// The whole table as a part of the specification with equal field names.
    pub fn read_as<T: DeserializeOwned + Default>(&self) -> T {
        let values = self.fields.iter().map(|field| match self.sound.get(field.name) {
            Some((_, value)) => (field.name.to_owned(), value.clone()),
            None => (field.name.to_owned(), field.default.json()),
        });
        serde_json::from_value(values.collect()).expect("checked fields are those of their part")
    }
}

/// An error for a key that no field has.
fn unknown_key(path: &str, entry: &TomlEntry, fields: &[Field]) -> Diagnostic {
    let help = match tables::owners(&entry.key).next() {
        Some(owner) if nearest(&entry.key, fields.iter().map(|field| field.name)).is_none() => {
            format!("`{}` is a key of [{}]", entry.key, owner.name)
        }
        _ => unknown_help(&entry.key, fields),
    };
    Diagnostic::error(entry.place, format!("[{path}] has no key `{}`", entry.key))
        .label("unknown key")
        .help(help)
}

/// An error for text with a NUL, which ends C strings: paths, arguments and variables of programs.
pub(super) fn nul(what: impl fmt::Display, node: &Node) -> Diagnostic {
    Diagnostic::error(node.place, format!("{what} has a NUL character (\\u0000)"))
        .help("remove it: no path, argument or variable can hold one")
}

/// The canonical value of a field, or what is wrong with it.
fn check(path: &str, field: &Field, node: &Node) -> Result<Json, Box<Diagnostic>> {
    let (name, kind) = (format!("{path}.{}", field.name), field.kind);
    if kind == FieldKind::Path && node.text().is_some_and(|text| text.contains('\0')) {
        return Err(Box::new(nul(format!("`{name}`"), node)));
    }
    // In a list or table of strings, the invalid element.
    let is_wrong = |element: &&Node| match kind {
        FieldKind::Words(words) => element.text().is_none_or(|word| !words.contains(&word)),
        _ => element.text().is_none(),
    };
    let element = match (kind, &node.item) {
        (FieldKind::Texts | FieldKind::Words(_), Item::List(list)) => list.iter().find(is_wrong),
        (FieldKind::Environment, Item::Table(table)) => {
            table.entries.iter().map(|entry| &entry.value).find(is_wrong)
        }
        _ => None,
    };
    let is_date = matches!(node.item, Item::Date(_));
    if let (None, false, Ok(value)) = (element, is_date, kind.check(&node.to_json())) {
        return Ok(value);
    }
    let is_word = element.is_some() || !matches!(kind, FieldKind::Words(_));
    let wrong = element.unwrap_or(node);
    let because = |what: &str, why: Option<&str>| {
        let why = why.unwrap_or_default();
        Diagnostic::error(wrong.place, format!("`{name}` is not a {what}: {why}"))
    };
    if let Some(word) = wrong.text().filter(|_| is_word)
        && let Some(help) = kind.other_word(word)
    {
        let problem = Diagnostic::error(wrong.place, format!("`{name}` cannot be `{word}`"))
            .label(format!("expected {}", one_of(kind.words())));
        return Err(Box::new(problem.help(help)));
    }
    let problem = match (kind, wrong.text()) {
        (FieldKind::Duration, Some(text)) => because("duration", duration::parse(text).err()),
        (FieldKind::Period, Some(text)) if field::period(text).is_err() => {
            because("duration", field::period(text).err())
        }
        (FieldKind::Size, Some(text)) => because("size", size::parse(text).err()),
        _ => wrong.wrong(format!("`{name}` must be {kind}")),
    };
    Err(Box::new(problem.help(remedy(field, wrong))))
}

/// The remedy for an invalid value.
fn remedy(field: &Field, node: &Node) -> String {
    match (field.kind, &node.item) {
        // A string where a list is expected; of a command line, one string per argument.
        (FieldKind::Texts | FieldKind::Words(_), Item::Text(text))
            if !text.contains(['"', '\'', '\\']) =>
        {
            let words: Vec<&str> =
                if field.name == "run" { text.split_whitespace().collect() } else { vec![text] };
            format!("write {} = [{}]", field.name, in_quotes(&words))
        }
        (
            FieldKind::Integer { .. } | FieldKind::IntegerOrAuto { .. } | FieldKind::Float { .. },
            Item::Text(text),
        ) if text.trim().parse::<f64>().is_ok_and(f64::is_finite) => {
            format!("write it without quotes: {}", text.trim())
        }
        (
            FieldKind::Text | FieldKind::Path | FieldKind::Texts | FieldKind::Environment,
            Item::Whole(_) | Item::Number(_) | Item::Flag(_),
        ) => {
            format!("write it in quotes: \"{}\"", node.to_json())
        }
        (FieldKind::Keep, Item::Whole(count)) if *count > 0 => {
            format!("write {} = \"best-{count}\"", field.name)
        }
        (FieldKind::Text | FieldKind::Direction, Item::List(_))
            if field.name == "metric" || field.name == "direction" =>
        {
            "of several objectives, write a table [[study.objective]] with `metric` and \
             `direction` for each"
                .to_owned()
        }
        (FieldKind::Integer { .. } | FieldKind::IntegerOrAuto { .. }, Item::Number(share))
            if (field.name == "per_trial" || field.name == "trials_per_device")
                && (0.0..1.0).contains(share)
                && *share > 0.0 =>
        {
            let trials = (1.0 / share).round();
            format!("trials that share a device: `trials_per_device = {trials}`")
        }
        (_, Item::Date(date)) => format!("write it in quotes: \"{date}\""),
        _ => format!("write for example `{} = {}`", field.name, example(field)),
    }
}

/// An example value of a field.
fn example(field: &Field) -> String {
    let default = field.default.json();
    match field.kind {
        _ if !default.is_null() && default != serde_json::json!([]) => default.to_string(),
        FieldKind::Integer { min, max } | FieldKind::IntegerOrAuto { min, max } => {
            10.clamp(min, max).to_string()
        }
        FieldKind::Integers { .. } => "[1, 2]".to_owned(),
        FieldKind::Float { .. } => "0.5".to_owned(),
        FieldKind::Flag => "true".to_owned(),
        FieldKind::Duration => "\"2h30m\"".to_owned(),
        FieldKind::Size => "\"50GiB\"".to_owned(),
        FieldKind::Texts => "[\"...\"]".to_owned(),
        FieldKind::Choice(words) => in_quotes(&words[..1]),
        FieldKind::Words(words) => format!("[{}]", in_quotes(words)),
        FieldKind::Environment => "{ NAME = \"value\" }".to_owned(),
        _ => "\"...\"".to_owned(),
    }
}
