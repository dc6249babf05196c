//! Values of parameters in a study file.

use std::fmt;

use super::diagnostic::Diagnostic;
use super::section::nul;
use super::syntax::{Item, Node};
use crate::study::field::FieldKind;
use crate::study::params::Value;

/// A value of a parameter: a scalar, a list of scalars, or null (`{ none = true }`).
pub(super) fn scalar(
    node: &Node,
    of: ScalarOf<'_>,
    problems: &mut Vec<Diagnostic>,
) -> Option<Value> {
    let elements = node.list().unwrap_or(std::slice::from_ref(node));
    if let Some(node) = elements.iter().find(|node| node.text().is_some_and(|t| t.contains('\0'))) {
        problems.push(nul(of, node));
        return None;
    }
    let value = of_node(node);
    if value.is_none() {
        let problem = node.wrong(format!("{of} must be {}", FieldKind::Scalar));
        problems.push(match (&node.item, of) {
            (Item::Date(date), _) => problem.help(format!("write it in quotes: \"{date}\"")),
            (_, ScalarOf::Enqueued(_)) => problem
                .help("give one value, and other configurations in separate [[enqueue]] tables"),
            (Item::List(_), _) => problem.help(
                "a choice that is a list has numbers, strings and booleans in it: `[64, 32]`",
            ),
            (Item::Table(_), _) => problem.help("for no value write `{ none = true }`"),
            _ => problem.help("write for example 0.1, \"adamw\" or true"),
        });
    }
    value
}

fn of_node(node: &Node) -> Option<Value> {
    let scalar = |node: &Node| match node.item {
        Item::Date(_) | Item::List(_) | Item::Table(_) => None,
        Item::Number(number) if !number.is_finite() => None,
        _ => Value::from_json(&node.to_json()),
    };
    match &node.item {
        Item::Table(table) => table.is_null().then_some(Value::Null),
        Item::List(list) => list.iter().map(scalar).collect::<Option<_>>().map(Value::List),
        _ => scalar(node),
    }
}

/// The purpose of a scalar, with the parameter's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ScalarOf<'a> {
    /// One of its choices.
    Choice(&'a str),
    /// Its prior.
    Prior(&'a str),
    /// A value of the parent in its condition.
    When(&'a str),
    /// Its value in an enqueued configuration.
    Enqueued(&'a str),
}

impl fmt::Display for ScalarOf<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ScalarOf::Choice(name) => write!(f, "a choice of `space.{name}`"),
            ScalarOf::Prior(name) => write!(f, "`space.{name}.prior`"),
            ScalarOf::When(name) => write!(f, "`space.{name}.when`"),
            ScalarOf::Enqueued(name) => write!(f, "`enqueue.{name}`"),
        }
    }
}
