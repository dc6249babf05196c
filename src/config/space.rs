//! `[space]`: the searched parameters, checked individually and against each other.

mod parameter;
mod range;

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use super::diagnostic::{Diagnostic, SourceSpan, has_errors};
use super::space_file::{self, Rows};
use super::syntax::{Form, Item, TomlEntry, TomlTable, dotted};
use crate::study::params::Params;
use crate::study::space::{Dimension, Space, SpaceError};
use crate::study::suggestion::nearest;
use parameter::parameter;

/// The three kinds of ranges.
pub(super) const KINDS: [&str; 3] = ["float", "int", "choice"];

/// Every key of a parameter.
pub(super) const KEYS: [&str; 7] = ["float", "int", "choice", "log", "step", "prior", "when"];

const EXAMPLE: &str = "write `learning_rate = { float = [1e-5, 1e-1], log = true }`, `{ int = [1, \
    8] }` or a list of choices";

/// A parameter with spans for messages.
#[derive(Clone, Debug)]
pub(super) struct Parameter {
    /// The parameter and its distribution.
    pub dimension: Dimension,
    /// The span of its name.
    pub place: SourceSpan,
    /// The span of its range.
    pub range: SourceSpan,
    prior: Option<SourceSpan>,
    /// For each condition, the span of the parent and those of its values.
    when: Vec<(SourceSpan, Vec<SourceSpan>)>,
}

/// The searched parameters, as far as they are valid.
#[derive(Clone, Debug, Default)]
pub(super) struct Searched {
    /// In the order of the file.
    pub parameters: Vec<Parameter>,
    /// The places of the parameters by their names.
    pub places: HashMap<String, usize>,
    /// The space; `None` if it is invalid.
    pub space: Option<Space>,
    /// Names of invalid parameters.
    pub refused: Vec<String>,
    /// The only configurations to search, from a file.
    pub candidates: Vec<Params>,
    /// Whether that file cannot be used: any name may be one of its columns.
    pub lacks_columns: bool,
}

impl Searched {
    /// The parameter called `name`.
    pub fn get(&self, name: &str) -> Option<&Parameter> {
        self.places.get(name).map(|place| &self.parameters[*place])
    }

    fn add(&mut self, parameter: Parameter) {
        self.places.insert(parameter.dimension.name.clone(), self.parameters.len());
        self.parameters.push(parameter);
    }

    /// Names of all parameters present, valid or not.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.parameters
            .iter()
            .map(|parameter| parameter.dimension.name.as_str())
            .chain(self.refused.iter().map(String::as_str))
    }

    /// Whether the parameter `name` has no value in some configurations: it is conditional, or may
    /// be null.
    pub fn may_be_absent(&self, name: &str) -> bool {
        self.get(name).is_some_and(|parameter| {
            parameter.dimension.when.is_some() || parameter.dimension.is_nullable()
        })
    }

    /// Whether `name` is present, valid or not, as far as is known.
    pub fn mentions(&self, name: &str) -> bool {
        self.lacks_columns
            || self.get(name).is_some()
            || self.refused.iter().any(|refused| refused == name)
    }
}

/// The rule for names of parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Names {
    /// As commands and the environment can name them.
    Plain,
    /// Any name, as JSON can quote it.
    Any,
}

/// Reads `[space]`; `base`: the directory to which its file is relative, if it may have one.
pub(super) fn read(
    table: &TomlTable,
    place: SourceSpan,
    names: Names,
    base: Option<&Path>,
    problems: &mut Vec<Diagnostic>,
) -> Searched {
    let before = problems.len();
    let mut searched = Searched::default();
    let mut written: BTreeMap<String, SourceSpan> = BTreeMap::new();
    let names_file =
        |entry: &&TomlEntry| entry.key == space_file::KEY && entry.value.text().is_some();
    let file = base.and_then(|base| Some((base, table.entries.iter().find(names_file)?)));
    for (name, entry) in definitions("", table) {
        if file.is_some_and(|(_, file)| file.place == entry.place) {
            continue;
        }
        if let Some(first) = written.get(&name) {
            let problem =
                Diagnostic::error(entry.place, format!("the parameter `{name}` is defined twice"))
                    .label("second time");
            problems.push(problem.related(*first, "first time").help("keep one of them"));
            continue;
        }
        written.insert(name.clone(), entry.place);
        match parameter(&name, entry, names, problems) {
            Some(parameter) => searched.add(parameter),
            None => searched.refused.push(name),
        }
    }
    let rows = file.and_then(|(base, entry)| Rows::read(entry, base, problems));
    searched.lacks_columns = file.is_some() && rows.is_none();
    if let (Some(rows), Some((_, entry))) = (&rows, file) {
        for dimension in rows.inferred(|name| written.contains_key(name)) {
            let (place, range) = (entry.place, entry.value.place);
            let when = Vec::new();
            searched.add(Parameter { dimension, place, range, prior: None, when });
        }
    }
    if written.is_empty() && file.is_none() && problems.len() == before {
        problems.push(
            Diagnostic::error(place, "[space] has no parameters")
                .label("nothing to search")
                .help(EXAMPLE),
        );
    }
    for parameter in &searched.parameters {
        check_references(parameter, &searched, problems);
    }
    if !has_errors(&problems[before..]) {
        searched.space = build(&searched, problems);
        if let (Some(rows), Some(space)) = (&rows, &searched.space) {
            searched.candidates = rows.candidates(space, problems);
        }
    }
    searched
}

/// Parameters by their dotted names, including nested tables.
fn definitions<'a>(prefix: &str, table: &'a TomlTable) -> Vec<(String, &'a TomlEntry)> {
    let mut definitions = Vec::new();
    for entry in &table.entries {
        let name = dotted(prefix, &entry.key);
        match &entry.value.item {
            Item::Table(nested) if is_group(nested) => {
                definitions.extend(self::definitions(&name, nested))
            }
            _ => definitions.push((name, entry)),
        }
    }
    definitions.sort_by_key(|(_, entry)| entry.place);
    definitions
}

/// Whether a table is a group of parameters. Invalid parameters must not count as groups.
fn is_group(table: &TomlTable) -> bool {
    let defines = |entry: &TomlEntry| {
        let nested = matches!(entry.value.item, Item::Table(_));
        (KEYS.contains(&entry.key.as_str()) && (!nested || entry.key == "when"))
            || (!nested && nearest(&entry.key, KINDS).is_some())
    };
    let all_tables = table.entries.iter().all(|entry| matches!(entry.value.item, Item::Table(_)));
    let all_ranges = table
        .entries
        .iter()
        .all(|entry| matches!(entry.value.item, Item::Table(_) | Item::List(_)));
    !table.entries.is_empty()
        && !table.entries.iter().any(defines)
        && if table.form == Form::Inline { all_tables } else { all_ranges }
}

fn check_references(parameter: &Parameter, searched: &Searched, problems: &mut Vec<Diagnostic>) {
    let Dimension { name, distribution, prior, when } = &parameter.dimension;
    if let (Some(prior), Some(place)) = (prior, parameter.prior)
        && !distribution.contains(prior)
    {
        let problem = Diagnostic::error(
            place,
            SpaceError::Prior { name: name.clone(), prior: prior.clone() }.to_string(),
        );
        let problem =
            problem.label(format!("not {distribution}")).related(parameter.range, "the range");
        problems.push(problem.help("give a value of the range, or leave `prior` out"));
    }
    for ((parent, values), (place, value_places)) in
        when.iter().flat_map(|when| &when.0).zip(&parameter.when)
    {
        let Some(found) = searched.get(parent) else {
            if !searched.mentions(parent) {
                let error =
                    SpaceError::UnknownParent { name: name.clone(), parent: parent.clone() };
                let problem = Diagnostic::error(*place, error.to_string()).label("not a parameter");
                let near = nearest(parent, searched.names().filter(|other| other != name));
                problems.push(match near {
                    Some(near) => problem.help(format!("did you mean `{near}`?")),
                    None => problem.help("a condition names another parameter of [space]"),
                });
            }
            continue;
        };
        for (value, place) in values.iter().zip(value_places) {
            if !found.dimension.distribution.contains(value) {
                let error = SpaceError::ImpossibleParentValue {
                    name: name.clone(),
                    parent: parent.clone(),
                    value: value.clone(),
                };
                let problem = Diagnostic::error(*place, error.to_string())
                    .label(format!("not {}", found.dimension.distribution))
                    .related(found.range, format!("the values of `{parent}`"));
                problems.push(problem.help("name one of its values, or add this one to them"));
            }
        }
    }
}

fn build(searched: &Searched, problems: &mut Vec<Diagnostic>) -> Option<Space> {
    let dimensions =
        searched.parameters.iter().map(|parameter| parameter.dimension.clone()).collect();
    let error = match Space::new(dimensions) {
        Ok(space) => return Some(space),
        Err(error) => error,
    };
    let concerned = match &error {
        SpaceError::Circle { names } => names.as_slice(),
        SpaceError::Nested { name, .. } => std::slice::from_ref(name),
        _ => &[],
    };
    let mut places = concerned.iter().filter_map(|name| {
        let Parameter { place, when, .. } = searched.get(name)?;
        Some(when.first().map_or(*place, |(place, _)| *place))
    });
    let problem = Diagnostic::error(places.next(), error.to_string());
    let problem = places.fold(problem, |problem, place| problem.related(place, "and this"));
    problems.push(problem.help("remove one of the conditions"));
    None
}
