//! Reads a search that another program describes in JSON, with the tables and checks of a study
//! file.

use serde_json::{Map, Value as Json};

use super::constraint;
use super::diagnostic::{Diagnostic, Severity, SourceSpan};
use super::enqueue;
use super::sampler_pruner;
use super::space;
use super::syntax::{Form, Item, Node, TomlEntry, TomlTable};
use crate::study::condition::KnownNames;
use crate::study::constraint::Constraint;
use crate::study::params::Params;
use crate::study::space::Space;
use crate::study::spec::AlgorithmSpec;

/// The tables as written; lists in their order.
#[derive(Debug, Default)]
pub struct JsonSearch {
    /// `[space]`: each parameter's name and table.
    pub space: Vec<(String, Json)>,
    /// `[sampler]`.
    pub sampler: Option<Json>,
    /// `[pruner]`.
    pub pruner: Option<Json>,
    /// `[[constraint]]`.
    pub constraints: Vec<Json>,
    /// `[[enqueue]]`.
    pub enqueue: Vec<Json>,
    /// Whether the space may be empty because parameters are added later.
    pub grows: bool,
    /// Whether the strings `NaN`, `Infinity` and `-Infinity` were bare words, which are not valid
    /// values.
    pub has_bare_words: bool,
}

/// The resolved search.
#[derive(Debug)]
pub struct Search {
    /// The parameters.
    pub space: Space,
    /// The sampler.
    pub sampler: AlgorithmSpec,
    /// The pruner.
    pub pruner: AlgorithmSpec,
    /// Constraints.
    pub constraints: Vec<Constraint>,
    /// Configurations to run first.
    pub enqueue: Vec<Params>,
}

impl JsonSearch {
    /// Resolves the search; each error comes with advice.
    ///
    /// # Errors
    /// All problems of the first table that has any.
    pub fn read(&self) -> Result<Search, String> {
        let mut problems = Vec::new();
        let entries = self.space.iter().enumerate().map(|(index, (name, json))| {
            let value = self.node(json, index);
            TomlEntry { key: name.clone(), place: value.place, value }
        });
        let table = TomlTable { form: Form::Header, entries: entries.collect() };
        let searched = if self.grows && self.space.is_empty() {
            space::Searched { space: Some(Space::default()), ..space::Searched::default() }
        } else {
            space::read(&table, at(0), space::Names::Any, None, &mut problems)
        };
        sound("space", &problems)?;
        let chosen = |path: &str, json: &Option<Json>| {
            let node = json.as_ref().map(|json| self.node(json, 0));
            let table = node.as_ref().and_then(Node::table).map(|table| (table, at(0)));
            let mut problems = Vec::new();
            let spec = sampler_pruner::read(path, table, &mut problems).map(|chosen| chosen.spec);
            sound(path, &problems).map(|()| spec.expect("what has no problem is read"))
        };
        let (sampler, pruner) =
            (chosen("sampler", &self.sampler)?, chosen("pruner", &self.pruner)?);
        let (entry, any) = (self.entry(&self.constraints), KnownNames::Metrics);
        let constraints = constraint::read(&entry, Some(&searched), any, &mut problems);
        sound("constraints", &problems)?;
        let entry = self.entry(&self.enqueue);
        let enqueue = enqueue::read(&entry, &searched, &mut problems);
        constraint::check_enqueued(&constraints, &enqueue, Some(&entry), &mut problems);
        sound("enqueue", &problems)?;
        let space = searched.space.expect("what has no problem is a space");
        Ok(Search { space, sampler, pruner, constraints, enqueue })
    }

    fn entry(&self, list: &[Json]) -> TomlEntry {
        let nodes = list.iter().enumerate().map(|(index, json)| self.node(json, index)).collect();
        TomlEntry {
            key: String::new(),
            place: at(0),
            value: Node { place: at(0), item: Item::List(nodes) },
        }
    }

    /// A value of the list element at `index`. Null fields of an object count as absent.
    fn node(&self, json: &Json, index: usize) -> Node {
        let item = match json {
            Json::Null => Item::Table(TomlTable::null(at(index))),
            Json::Bool(flag) => Item::Flag(*flag),
            Json::Number(number) => number
                .as_i64()
                .map_or_else(|| Item::Number(number.as_f64().unwrap_or(f64::NAN)), Item::Whole),
            Json::String(text) => match text.as_str() {
                "NaN" if self.has_bare_words => Item::Number(f64::NAN),
                "Infinity" if self.has_bare_words => Item::Number(f64::INFINITY),
                "-Infinity" if self.has_bare_words => Item::Number(f64::NEG_INFINITY),
                _ => Item::Text(text.clone()),
            },
            Json::Array(list) => {
                Item::List(list.iter().map(|json| self.node(json, index)).collect())
            }
            Json::Object(object) => Item::Table(self.table(object, index)),
        };
        Node { place: at(index), item }
    }

    fn table(&self, object: &Map<String, Json>, index: usize) -> TomlTable {
        let written = object.iter().filter(|(_, value)| !value.is_null());
        let entries = written.map(|(key, value)| TomlEntry {
            key: key.clone(),
            place: at(index),
            value: self.node(value, index),
        });
        TomlTable { form: Form::Inline, entries: entries.collect() }
    }
}

/// The location of a list element: its index.
fn at(index: usize) -> SourceSpan {
    SourceSpan { source: 0, start: index, end: index }
}

fn sound(path: &str, problems: &[Diagnostic]) -> Result<(), String> {
    let errors = problems.iter().filter(|problem| problem.severity != Severity::Warning);
    let said: Vec<String> = errors
        .map(|Diagnostic { message, help, place, .. }| {
            let subject = match (path, place) {
                ("constraints" | "enqueue", Some(place)) => format!("`{path}[{}]`: ", place.start),
                _ => String::new(),
            };
            format!("{subject}{message} ({})", help.join("; "))
        })
        .collect();
    if said.is_empty() { Ok(()) } else { Err(said.join("; ")) }
}
