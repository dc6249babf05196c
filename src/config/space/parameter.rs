//! The definition of one parameter: its range, its prior, its condition.

use super::range::{choices, distribution};
use super::{EXAMPLE, KEYS, KINDS, Names, Parameter};
use crate::config::diagnostic::{Diagnostic, SourceSpan, has_errors};
use crate::config::scalar::{ScalarOf, scalar};
use crate::config::syntax::{Item, Node, TomlEntry, TomlTable};
use crate::study::params::Value;
use crate::study::space::{Condition, Dimension, Distribution, NAME_RULE, is_plain_name};
use crate::study::suggestion::{nearest, quoted};

pub(super) fn parameter(
    name: &str,
    entry: &TomlEntry,
    names: Names,
    problems: &mut Vec<Diagnostic>,
) -> Option<Parameter> {
    if names == Names::Plain && !is_plain_name(name) || name.is_empty() {
        let problem = Diagnostic::error(
            entry.place,
            format!("`{}` cannot be the name of a parameter", name.escape_debug()),
        );
        problems.push(problem.help(NAME_RULE));
        return None;
    }
    let mut parameter = Parameter {
        dimension: Dimension::new(name, Distribution::Choice { choices: Vec::new() }),
        place: entry.place,
        range: entry.value.place,
        prior: None,
        when: Vec::new(),
    };
    match &entry.value.item {
        Item::List(list) => {
            parameter.dimension.distribution = choices(name, entry.value.place, list, problems)?
        }
        Item::Table(table) => defined(&mut parameter, table, entry.place, problems)?,
        _ => {
            let what = format!("`space.{name}` must be a range or a list of choices");
            problems.push(
                entry
                    .value
                    .wrong(what)
                    .help(EXAMPLE)
                    .help("a fixed value belongs in [trainer], or into the command itself"),
            );
            return None;
        }
    }
    Some(parameter)
}

/// `{ float = [low, high], log = true, prior = x, when = {..} }`.
fn defined(
    parameter: &mut Parameter,
    table: &TomlTable,
    place: SourceSpan,
    problems: &mut Vec<Diagnostic>,
) -> Option<()> {
    let before = problems.len();
    let name = parameter.dimension.name.clone();
    let unknown: Vec<&TomlEntry> =
        table.entries.iter().filter(|entry| !KEYS.contains(&entry.key.as_str())).collect();
    let mut bounds = 0;
    for entry in &unknown {
        let problem =
            Diagnostic::error(entry.place, format!("a parameter has no key `{}`", entry.key))
                .label("unknown key");
        if ["low", "high", "min", "max", "lower", "upper"].contains(&entry.key.as_str()) {
            bounds += 1;
            if bounds == 1 {
                problems.push(
                    problem
                        .help("write both bounds as `float = [low, high]` or `int = [low, high]`"),
                );
            }
            continue;
        }
        problems.push(match nearest(&entry.key, KEYS) {
            Some(near) => problem.help(format!("did you mean `{near}`?")),
            None => problem.help(format!("its keys are {}", quoted(KEYS))),
        });
    }
    let kinds: Vec<&TomlEntry> =
        table.entries.iter().filter(|entry| KINDS.contains(&entry.key.as_str())).collect();
    match kinds[..] {
        [] if unknown.is_empty() => problems
            .push(Diagnostic::error(place, format!("`space.{name}` has no range")).help(EXAMPLE)),
        [] => {}
        [kind] => {
            parameter.range = kind.value.place;
            parameter.dimension.distribution = distribution(&name, kind, table, problems)?;
        }
        [first, second, ..] => {
            let problem = Diagnostic::error(second.place, format!("`space.{name}` has two ranges"))
                .label("second");
            problems.push(problem.related(first.place, "first").help("keep one of them"));
        }
    }
    if let Some(entry) = table.get("prior") {
        parameter.prior = Some(entry.value.place);
        parameter.dimension.prior = scalar(&entry.value, ScalarOf::Prior(&name), problems);
    }
    if let Some(entry) = table.get("when") {
        let (condition, places) = condition(&name, &entry.value, problems);
        parameter.dimension.when = Some(condition);
        parameter.when = places;
    }
    (!has_errors(&problems[before..])).then_some(())
}

/// `when = { other = value }` or `{ other = [values] }`; the parent's name may be dotted or quoted.
fn condition(
    name: &str,
    node: &Node,
    problems: &mut Vec<Diagnostic>,
) -> (Condition, Vec<(SourceSpan, Vec<SourceSpan>)>) {
    let what = format!("space.{name}.when");
    let Some(table) = node.table() else {
        let problem = node.wrong(format!("`{what}` must be a table"));
        problems.push(problem.help(
            "write `when = { optimizer = \"sgd\" }` or `when = { optimizer \
            = [\"sgd\", \"adam\"] }`",
        ));
        return Default::default();
    };
    let mut condition = Condition::default();
    let mut places = Vec::new();
    for leaf in table.leaves() {
        let nodes: &[Node] = leaf.value.list().unwrap_or(std::slice::from_ref(leaf.value));
        if nodes.is_empty() {
            problems.push(
                Diagnostic::error(leaf.value.place, format!("`{what}` can never hold"))
                    .label("no values")
                    .help("give at least one value"),
            );
        }
        let values: Vec<Value> =
            nodes.iter().filter_map(|node| scalar(node, ScalarOf::When(name), problems)).collect();
        if values.len() == nodes.len() {
            condition.0.push((leaf.name, values));
            places.push((leaf.place, nodes.iter().map(|node| node.place).collect()));
        }
    }
    if table.leaves().is_empty() {
        problems.push(
            Diagnostic::error(node.place, format!("`{what}` names no parameter"))
                .help("leave it out, or write `when = { optimizer = \"sgd\" }`"),
        );
    }
    (condition, places)
}
