//! `[sampler]` and `[pruner]`: a name with its options, checked by the tables of samplers and pruners.

use std::collections::BTreeMap;

use super::diagnostic::{Diagnostic, Place};
use super::keys::{self, Key};
use super::section::Section;
use super::syntax::{Entry, Table};
use crate::pruners;
use crate::samplers;
use crate::study::registry::{Consequence, PolicyError, PolicyProblem};
use crate::study::spec::PolicySpec;

/// The sampler of a study that names none.
pub(super) const DEFAULT_SAMPLER: &str = "auto";
/// The pruner of a study that names none.
pub(super) const DEFAULT_PRUNER: &str = "none";

/// The sampler of a study that names none, as it is stored.
pub fn default_sampler() -> PolicySpec {
    samplers::resolve(DEFAULT_SAMPLER, BTreeMap::new())
        .expect("the default is in the table, and has no options to be wrong")
}

/// A policy as the study stores it, with the places its messages point at.
pub(super) struct Chosen {
    /// Name and options.
    pub spec: PolicySpec,
    /// Where its type is written, or its table, if it is there at all.
    pub place: Option<Place>,
    /// Of a sampler: earlier studies to learn from.
    pub warm_start: Vec<String>,
    options: BTreeMap<String, Place>,
}

impl Chosen {
    /// Where the policy's own constructor found something wrong.
    ///
    /// `length`: where a full trial's length is written, which an option may not fit.
    pub fn problem(&self, error: &PolicyError, length: Option<Place>) -> Diagnostic {
        match error {
            PolicyError::Option { option, why, policy, consequence } => {
                let place = self.options.get(option).copied().or(self.place);
                let mut problem = Diagnostic::error(place, format!("`{option}`: {why}"));
                // The consequence goes under the value: together they are longer than a line.
                if let Some(consequence) = consequence {
                    problem = problem.label(consequence.to_string());
                }
                if *consequence == Some(Consequence::NothingStops) {
                    return problem
                        .related(length, "a full trial's length")
                        .help(format!("make `{option}` smaller, or trials longer"));
                }
                problem.help(format!("change `{option}`, or leave it out: `hpsearch list` tells what `{policy}` takes"))
            }
            PolicyError::Unsuitable { policy, why, advice } => {
                Diagnostic::error(self.place, format!("`{policy}` cannot serve this study: {why}"))
                    .help(*advice)
            }
        }
    }
}

/// Which of the two tables.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    /// `[sampler]`.
    Sampler,
    /// `[pruner]`.
    Pruner,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Sampler => "sampler",
            Kind::Pruner => "pruner",
        }
    }

    fn default(self) -> &'static str {
        match self {
            Kind::Sampler => DEFAULT_SAMPLER,
            Kind::Pruner => DEFAULT_PRUNER,
        }
    }

    fn resolve(
        self,
        name: &str,
        options: BTreeMap<String, serde_json::Value>,
    ) -> Result<PolicySpec, Vec<PolicyProblem>> {
        match self {
            Kind::Sampler => samplers::resolve(name, options),
            Kind::Pruner => pruners::resolve(name, options),
        }
    }
}

/// Reads the table, or takes the default when it is absent.
pub(super) fn read(
    kind: Kind,
    written: Option<(&Table, Place)>,
    problems: &mut Vec<Diagnostic>,
) -> Option<Chosen> {
    let keys: &'static [Key] = keys::find(kind.name()).map_or(&[], |table| table.keys);
    let Some((table, place)) = written else {
        let spec = kind.resolve(kind.default(), BTreeMap::new()).ok()?;
        return Some(Chosen {
            spec,
            place: None,
            warm_start: Vec::new(),
            options: BTreeMap::new(),
        });
    };
    let before = problems.len();
    let (section, options) = Section::read_open(kind.name(), place, table, keys, problems);
    if !section.lacks("type") && section.text("type").is_none() {
        return None;
    }
    let name = section.text("type").unwrap_or(kind.default());
    let place = section.node("type").map_or(place, |node| node.place);
    let values = options.iter().map(|entry| (entry.key.clone(), entry.value.to_json())).collect();
    match kind.resolve(name, values) {
        Ok(spec) if problems.len() == before => {
            let options =
                options.iter().map(|entry| (entry.key.clone(), entry.value.place)).collect();
            Some(Chosen {
                spec,
                place: Some(place),
                warm_start: section.texts("warm_start").unwrap_or_default(),
                options,
            })
        }
        Ok(_) => None,
        Err(found) => {
            problems.extend(found.into_iter().map(|problem| located(problem, place, &options)));
            None
        }
    }
}

fn located(problem: PolicyProblem, place: Place, options: &[&Entry]) -> Diagnostic {
    let entry = problem.key.as_ref().and_then(|key| options.iter().find(|entry| entry.key == *key));
    let place = entry.map_or(place, |entry| match problem.is_about_value {
        true => entry.value.place,
        false => entry.place,
    });
    Diagnostic::error(place, problem.message)
        .help(problem.help.unwrap_or_else(|| "`hpsearch list` tells its options".to_owned()))
}
