//! `[[enqueue]]`: configurations to run first, checked against the space.

use super::diagnostic::Diagnostic;
use super::scalar::{ScalarOf, scalar};
use super::space::Searched;
use super::syntax::{Leaf, TomlEntry, TomlTable};
use crate::study::params::{Params, Value};
use crate::study::space::Dimension;
use crate::study::suggestion::{nearest, quoted};

/// Reads all configurations; values are converted to their parameter's type (`1` becomes `1.0` in a
/// float range).
pub(super) fn read(
    entry: &TomlEntry,
    searched: &Searched,
    problems: &mut Vec<Diagnostic>,
) -> Vec<Params> {
    let Some(list) = entry.value.list() else {
        let problem = Diagnostic::error(entry.place, "`enqueue` must be a list of tables")
            .label(format!("this is {}", entry.value.describe()));
        problems.push(
            problem.help("write [[enqueue]] with double brackets, once for each configuration"),
        );
        return Vec::new();
    };
    let mut configurations = Vec::new();
    for node in list {
        match node.table() {
            Some(table) if table.entries.is_empty() => {
                problems.push(
                    Diagnostic::warning(node.place, "this configuration is empty")
                        .help("all its parameters are sampled: leave it out"),
                );
            }
            Some(table) => configurations.push(configuration(table, searched, problems)),
            None => {
                let problem = node.wrong("`enqueue` must be a list of tables");
                problems.push(problem.help("write [[enqueue]], and the parameters under it"));
            }
        }
    }
    configurations
}

/// Reports configurations that are no rows of `[space] file`.
pub(super) fn check_candidates(
    entry: Option<&TomlEntry>,
    enqueue: &[Params],
    searched: &Searched,
    problems: &mut Vec<Diagnostic>,
) {
    let is_row = |params: &Params| {
        searched.candidates.is_empty()
            || searched.candidates.iter().any(|candidate| candidate.contains(params))
    };
    for params in enqueue.iter().filter(|params| !is_row(params)) {
        let message = format!("no row of `[space] file` has {params}");
        let problem = Diagnostic::error(entry.map(|entry| entry.place), message);
        problems.push(problem.help("only its rows are run: add one, or remove this configuration"));
    }
}

fn configuration(table: &TomlTable, searched: &Searched, problems: &mut Vec<Diagnostic>) -> Params {
    let leaves = table.leaves();
    let mut params = Params::new();
    for leaf in &leaves {
        let Some(parameter) = searched.get(&leaf.name) else {
            if !searched.mentions(&leaf.name) {
                problems.push(unknown(leaf, searched));
            }
            continue;
        };
        if params.get(&leaf.name).is_some() {
            problems.push(
                Diagnostic::error(leaf.place, format!("`{}` appears twice", leaf.name))
                    .label("second time")
                    .help("keep one of them"),
            );
            continue;
        }
        let Some(value) = scalar(leaf.value, ScalarOf::Enqueued(&leaf.name), problems) else {
            continue;
        };
        match parameter.dimension.distribution.normalize(&value) {
            Some(value) => params.insert(leaf.name.clone(), value),
            None => {
                let problem = Diagnostic::error(
                    leaf.value.place,
                    format!("`{value}` is not a value of `{}`", leaf.name),
                );
                let problem = problem
                    .label(format!("not {}", parameter.dimension.distribution))
                    .related(parameter.range, "the range");
                problems.push(match value {
                    Value::List(_) => problem.help(
                        "give one value, and other configurations in separate [[enqueue]] tables",
                    ),
                    _ => problem.help("give a value of the range, or widen it under [space]"),
                });
            }
        }
    }
    for leaf in &leaves {
        if let Some(parameter) = searched.get(&leaf.name) {
            problems.extend(inactive(leaf, &parameter.dimension, &params));
        }
    }
    params
}

fn unknown(leaf: &Leaf<'_>, searched: &Searched) -> Diagnostic {
    let problem =
        Diagnostic::error(leaf.place, format!("`{}` is not a parameter of [space]", leaf.name))
            .label("not searched");
    match nearest(&leaf.name, searched.names()) {
        Some(near) => problem.help(format!("did you mean `{near}`?")),
        None => problem.help(format!("the parameters are {}", quoted(searched.names()))),
    }
}

/// A value that the configuration's other values make inactive is an error; one that depends on
/// sampled values, a warning.
fn inactive(leaf: &Leaf<'_>, dimension: &Dimension, params: &Params) -> Option<Diagnostic> {
    let conditions = dimension.when.iter().flat_map(|when| &when.0);
    for (parent, accepted) in conditions {
        let values: Vec<String> = accepted.iter().map(|value| format!("`{value}`")).collect();
        let values = values.join(" or ");
        match params.get(parent) {
            Some(value) if accepted.iter().any(|accept| accept.same(value)) => {}
            Some(value) => {
                let problem = Diagnostic::error(
                    leaf.place,
                    format!("`{}` is not active when `{parent}` is `{value}`", leaf.name),
                );
                return Some(
                    problem
                        .label(format!("needs `{parent}` to be {values}"))
                        .help("remove it from this configuration"),
                );
            }
            None => {
                let problem = Diagnostic::warning(
                    leaf.place,
                    format!("`{}` is used only if `{parent}` is sampled as {values}", leaf.name),
                );
                return Some(problem.help(format!("give `{parent}` in this configuration too")));
            }
        }
    }
    None
}
