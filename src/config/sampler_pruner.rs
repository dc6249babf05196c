//! `[sampler]` and `[pruner]`: a name in a registry with its options.

use std::collections::BTreeMap;

use serde_json::Value as Json;

use super::diagnostic::{Diagnostic, SourceSpan, has_errors};
use super::section::Section;
use super::syntax::TomlTable;
use super::tables::{DEFAULT_PRUNER, DEFAULT_SAMPLER, fields_of};
use crate::pruners;
use crate::samplers;
use crate::study::field::Field;
use crate::study::registry::{Consequence, OptionProblem, RegistryError, UnknownName};
use crate::study::spec::AlgorithmSpec;

/// The default sampler, as stored.
pub fn default_sampler() -> AlgorithmSpec {
    samplers::resolve(DEFAULT_SAMPLER, BTreeMap::new())
        .expect("the default is in the table, and has no options to be wrong")
}

/// A stored sampler or pruner, with spans for messages.
pub(super) struct Chosen<'a> {
    /// Name and options.
    pub spec: AlgorithmSpec,
    /// The span of its type, or of its table, if present.
    pub place: Option<SourceSpan>,
    /// The table.
    pub section: Section<'a>,
    /// What `hpsearch list` calls its kind.
    listed: &'static str,
}

impl Chosen<'_> {
    /// The sampler or pruner, built to validate it.
    pub fn built<T>(
        &self,
        built: Result<Result<T, RegistryError>, UnknownName>,
        length: Option<SourceSpan>,
        problems: &mut Vec<Diagnostic>,
    ) -> Option<T> {
        let problem = match built {
            Ok(Ok(built)) => return Some(built),
            Ok(Err(error)) => self.problem(&error, length),
            Err(unknown) => Diagnostic::error(self.place, unknown.message()).help(unknown.help()),
        };
        problems.push(problem);
        None
    }

    /// The error of its constructor.
    ///
    /// `length`: the span of the length of a full trial, which an option may contradict.
    fn problem(&self, error: &RegistryError, length: Option<SourceSpan>) -> Diagnostic {
        match error {
            RegistryError::Option { option, why, algorithm, consequence } => {
                let place = self.section.place_of(option).or(self.place);
                let mut problem = Diagnostic::error(place, format!("`{option}`: {why}"));
                // The consequence becomes a label: message and consequence are longer than a line.
                if let Some(consequence) = consequence {
                    problem = problem.label(consequence.to_string());
                }
                if *consequence == Some(Consequence::NothingStops) {
                    return problem.related(length, "a full trial's length").help(format!(
                        "make `{option}` smaller or trials longer; `--set pruner.type=none` turns \
                         pruning off"
                    ));
                }
                problem.help(format!(
                    "change or remove `{option}`: `hpsearch list {}` shows the options of \
                     `{algorithm}`",
                    self.listed
                ))
            }
            RegistryError::Unsuitable { algorithm, why, advice } => Diagnostic::error(
                self.place,
                format!("`{algorithm}` cannot serve this study: {why}"),
            )
            .help(*advice),
        }
    }
}

/// The default type of a table.
pub(super) fn default_type(table: &str) -> &'static str {
    if table == "sampler" { DEFAULT_SAMPLER } else { DEFAULT_PRUNER }
}

/// The options of the sampler or pruner called `name`.
pub(super) fn options_of(table: &str, name: &str) -> Result<&'static [Field], UnknownName> {
    match table {
        "sampler" => samplers::find(name).map(|entry| entry.options),
        _ => pruners::find(name).map(|entry| entry.options),
    }
}

fn resolve(
    table: &str,
    name: &str,
    options: BTreeMap<String, Json>,
) -> Result<AlgorithmSpec, Vec<OptionProblem>> {
    match table {
        "sampler" => samplers::resolve(name, options),
        _ => pruners::resolve(name, options),
    }
}

/// Reads the table `path`, or takes the default if it is absent.
pub(super) fn read<'a>(
    path: &str,
    written: Option<(&'a TomlTable, SourceSpan)>,
    problems: &mut Vec<Diagnostic>,
) -> Option<Chosen<'a>> {
    let default = default_type(path);
    let listed = if path == "sampler" { "samplers" } else { "pruners" };
    let Some((table, header)) = written else {
        let spec = resolve(path, default, BTreeMap::new()).ok()?;
        let section = Section::absent(fields_of(path));
        return Some(Chosen { spec, place: None, section, listed });
    };
    let before = problems.len();
    let entry = table.get("type");
    let place = entry.map_or(header, |entry| entry.value.place);
    let Some(name) = entry.map_or(Some(default), |entry| entry.value.text()) else {
        // The type to which the options belong is unknown.
        let own = TomlTable { form: table.form, entries: entry.into_iter().cloned().collect() };
        Section::read(path, header, &own, fields_of(path), problems);
        return None;
    };
    let options = match options_of(path, name) {
        Ok(options) => options,
        Err(unknown) => {
            problems.push(Diagnostic::error(place, unknown.message()).help(unknown.help()));
            return None;
        }
    };
    let section =
        Section::read(path, header, table, &[fields_of(path), options].concat(), problems);
    let spec = resolve(path, name, section.values_of(options)).ok()?;
    let place = Some(place);
    (!has_errors(&problems[before..])).then_some(Chosen { spec, place, section, listed })
}
