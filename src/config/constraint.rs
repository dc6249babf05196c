//! `[[constraint]]`: conditions over parameters and metrics, with errors located in their text.

use super::diagnostic::{Diagnostic, SourceSpan};
use super::section::Section;
use super::space::Searched;
use super::syntax::{Item, Node, TomlEntry};
use super::tables::fields_of;
use crate::study::condition::{self, Expression, ExpressionError, KnownNames};
use crate::study::constraint::{self, Constraint};
use crate::study::params::Params;

/// Reads all constraints; invalid ones are left out. `metrics`: those that a limit may name.
pub(super) fn read(
    entry: &TomlEntry,
    searched: Option<&Searched>,
    metrics: KnownNames<'_>,
    problems: &mut Vec<Diagnostic>,
) -> Vec<Constraint> {
    let Some(list) = entry.value.list() else {
        let problem = Diagnostic::error(entry.place, "`constraint` must be a list of tables")
            .label(format!("this is {}", entry.value.describe()));
        problems.push(
            problem.help("write [[constraint]] with double brackets, once for each condition"),
        );
        return Vec::new();
    };
    list.iter().filter_map(|node| one(node, searched, metrics, problems)).collect()
}

fn one(
    node: &Node,
    searched: Option<&Searched>,
    metrics: KnownNames<'_>,
    problems: &mut Vec<Diagnostic>,
) -> Option<Constraint> {
    let Item::Table(table) = &node.item else {
        let problem = node.wrong("`constraint` must be a list of tables");
        problems.push(problem.help("write [[constraint]], and `require` or `limit` under it"));
        return None;
    };
    let fields = fields_of("constraint");
    let section = Section::read("constraint", node.place, table, fields, problems);
    match (section.node("require"), section.node("limit")) {
        (Some(require), None) => {
            if let Some(prune) = section.node("prune") {
                let problem = Diagnostic::error(prune.place, "`prune` is for limits");
                problems.push(problem.help("leave it out: no trial violates a requirement"));
            }
            let space = searched.and_then(|searched| searched.space.as_ref());
            let known = space.map(KnownNames::Parameters);
            condition(require, known, problems).map(Constraint::Require)
        }
        (None, Some(limit)) => {
            let kind =
                if section.get("prune") { Constraint::PruningLimit } else { Constraint::Limit };
            condition(limit, Some(metrics), problems).map(kind)
        }
        (Some(require), Some(limit)) => {
            let problem =
                Diagnostic::error(limit.place, "a constraint has `require` or `limit`, not both")
                    .label("second");
            problems.push(
                problem
                    .related(require.place, "first")
                    .help("write each under a separate [[constraint]]"),
            );
            None
        }
        (None, None) => {
            if section.lacks("require") && section.lacks("limit") {
                let problem = Diagnostic::error(node.place, "this constraint has no condition");
                problems.push(problem.help(
                    "write `require = \"width * depth <= 4096\"` over parameters, or \
                        `limit = \"latency_ms <= 20\"` over metrics",
                ));
            }
            None
        }
    }
}

fn condition(
    node: &Node,
    known: Option<KnownNames<'_>>,
    problems: &mut Vec<Diagnostic>,
) -> Option<Expression> {
    let text = node.text()?;
    let parsed = Expression::parse(text).map_err(|error| vec![error]).and_then(|expression| {
        match known.map(|known| condition::check(&expression, known)) {
            Some(found) if !found.is_empty() => Err(found),
            is_checked => Ok(is_checked.map(|_| expression)),
        }
    });
    let located = |error: ExpressionError| {
        let help = error.help.clone();
        let help = help.unwrap_or_else(|| "write for example `width * depth <= 4096`".to_owned());
        Diagnostic::error(place(node, text, &error), error.message).help(help)
    };
    parsed.unwrap_or_else(|found| {
        problems.extend(found.into_iter().map(located));
        None
    })
}

/// The location of an error in its source: exact if the text is there literally, without escapes.
fn place(node: &Node, text: &str, error: &ExpressionError) -> SourceSpan {
    let quotes = (node.place.end - node.place.start).checked_sub(text.len());
    let Some(opening) =
        quotes.filter(|quotes| *quotes == 2 || *quotes == 6).map(|quotes| quotes / 2)
    else {
        return node.place;
    };
    let start = node.place.start + opening;
    // At the end of the text its closing quote is underlined.
    SourceSpan {
        start: start + error.span.start,
        end: (start + error.span.end).max(start + error.span.start + 1),
        ..node.place
    }
}

/// Enqueued configurations that violate a requirement whatever is sampled.
pub(super) fn check_enqueued(
    constraints: &[Constraint],
    enqueued: &[Params],
    entry: Option<&TomlEntry>,
    problems: &mut Vec<Diagnostic>,
) {
    let places: Vec<SourceSpan> = entry
        .and_then(|entry| entry.value.list())
        .into_iter()
        .flatten()
        .map(|node| node.place)
        .collect();
    for (index, params) in enqueued.iter().enumerate() {
        if let Some(broken) = constraint::broken(constraints, params) {
            let place = places.get(index).copied().or(entry.map(|entry| entry.place));
            let problem = Diagnostic::error(
                place,
                format!(
                    "this configuration violates the constraint `{}`",
                    broken.expression().text()
                ),
            );
            problems.push(problem.help("change its values, or remove it"));
        }
    }
}
