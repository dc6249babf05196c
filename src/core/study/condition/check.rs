//! Checks a condition: unknown names, values that no choice has, and type mismatches.

use super::expression::{Comparison, Expression, Node, NodeKind};
use super::names::Names;
use super::property::Property;
use super::syntax::ExpressionError;
use crate::study::params::Value;
use crate::study::space::{Dimension, Distribution, Space};
use crate::study::suggestion::{nearest, quoted};
use crate::study::trial::TrialState;

/// The names that a condition may use.
#[derive(Clone, Copy, Debug)]
pub enum KnownNames<'a> {
    /// Parameters of a space.
    Parameters(&'a Space),
    /// Metrics: any name, all of them numbers.
    Metrics,
    /// These metrics of the built-in trainer, which reports no others.
    Reported(&'a [&'static str]),
}

/// How a date is written.
pub(super) const DATE: &str =
    "write for example `created>=2026-11-01` or `created<2026-11-01T18:30`, in UTC";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Number,
    Flag,
    Text,
    Moment,
    /// A choice of several kinds.
    Mixed,
}

impl Kind {
    fn described(self) -> &'static str {
        match self {
            Kind::Number => "a number",
            Kind::Flag => "true or false",
            Kind::Text => "a text",
            Kind::Moment => "a date",
            Kind::Mixed => "of several kinds",
        }
    }
}

/// The metric that a misspelt name may mean: `accuracy` is `eval_accuracy`.
pub fn nearest_metric(name: &str, metrics: &[&'static str]) -> Option<&'static str> {
    let is_of_evaluation =
        |known: &&&str| known.strip_prefix("eval_").is_some_and(|rest| rest == name);
    let of_evaluation = metrics.iter().find(is_of_evaluation).copied();
    of_evaluation.or_else(|| nearest(name, metrics.iter().copied()))
}

/// All problems of a condition, given the names it may use.
pub fn check(expression: &Expression, known: KnownNames<'_>) -> Vec<ExpressionError> {
    let mut checker = Checker { known, filter: None, problems: Vec::new(), names: 0 };
    match checker.kind(&expression.root) {
        Some(Kind::Flag | Kind::Mixed) | None => {}
        Some(kind) => checker
            .refuse(&expression.root, format!("this is {}, not a condition", kind.described())),
    }
    if checker.names == 0 && checker.problems.is_empty() {
        let what = if matches!(known, KnownNames::Parameters(_)) { "parameter" } else { "metric" };
        checker.refuse(
            &expression.root,
            format!("the condition names no {what}: it is always the same"),
        );
    }
    checker.problems
}

/// The first problem of a comparison in a filter.
pub(super) fn check_comparison(node: &Node, names: &Names<'_>) -> Result<(), ExpressionError> {
    let (known, filter) = (KnownNames::Metrics, Some(names));
    let mut checker = Checker { known, filter, problems: Vec::new(), names: 0 };
    checker.condition(node);
    if checker.names == 0 && checker.problems.is_empty() {
        checker.refuse(node, "the condition names nothing: it is always the same".to_owned());
    }
    checker.problems.into_iter().next().map_or(Ok(()), Err)
}

struct Checker<'a> {
    known: KnownNames<'a>,
    filter: Option<&'a Names<'a>>,
    problems: Vec<ExpressionError>,
    names: usize,
}

impl Checker<'_> {
    fn refuse(&mut self, node: &Node, message: String) {
        self.problems.push(ExpressionError::new(node.span.clone(), message));
    }

    fn distribution(&self, name: &str) -> Option<&Distribution> {
        match self.known {
            KnownNames::Parameters(space) => {
                space.dimension(name).map(|dimension| &dimension.distribution)
            }
            KnownNames::Metrics | KnownNames::Reported(_) => None,
        }
    }

    /// The kind of a part; `None` after a problem.
    fn kind(&mut self, node: &Node) -> Option<Kind> {
        match &node.kind {
            NodeKind::Number(_) => Some(Kind::Number),
            NodeKind::Flag(_) => Some(Kind::Flag),
            NodeKind::Name(name) => self.named(node, name),
            NodeKind::Property(property) => {
                self.names += 1;
                self.property(property)
            }
            NodeKind::Contains(..) | NodeKind::Mentions(_) => Some(Kind::Flag),
            NodeKind::Text(_) => Some(Kind::Text),
            NodeKind::Moment(_) => Some(Kind::Moment),
            NodeKind::Negative(inner) => self.number(inner),
            NodeKind::Operation(_, left, right) => {
                let (left, right) = (self.number(left), self.number(right));
                left.and(right)
            }
            // All are checked, even after a problem in the first.
            NodeKind::Call(_, arguments) => arguments
                .iter()
                .map(|argument| self.number(argument))
                .fold(Some(Kind::Number), Option::and),
            NodeKind::Comparison(comparison, left, right) => {
                self.comparison(*comparison, left, right)
            }
            NodeKind::And(parts) | NodeKind::Or(parts) => {
                parts.iter().for_each(|part| self.condition(part));
                Some(Kind::Flag)
            }
            NodeKind::Not(inner) => {
                self.condition(inner);
                Some(Kind::Flag)
            }
        }
    }

    fn condition(&mut self, node: &Node) {
        if let Some(kind @ (Kind::Number | Kind::Text | Kind::Moment)) = self.kind(node) {
            self.refuse(node, format!("a condition is expected, and this is {}", kind.described()));
        }
    }

    fn number(&mut self, node: &Node) -> Option<Kind> {
        match self.kind(node)? {
            Kind::Number => Some(Kind::Number),
            kind => {
                let what = kind.described();
                self.refuse(node, format!("a number is expected, and this is {what}"));
                None
            }
        }
    }

    fn named(&mut self, node: &Node, name: &str) -> Option<Kind> {
        self.names += 1;
        let space = match self.known {
            KnownNames::Parameters(space) => space,
            KnownNames::Metrics => return Some(Kind::Number),
            KnownNames::Reported(metrics) => return self.reported(node, name, metrics),
        };
        match self.distribution(name) {
            None => {
                let names = || space.dimensions().iter().map(|dimension| dimension.name.as_str());
                let is_choice =
                    |dimension: &Dimension| dimension.distribution.contains(&Value::from(name));
                let help = match nearest(name, names()) {
                    _ if space.dimensions().iter().any(is_choice) => {
                        format!("texts are in single quotes: '{name}'")
                    }
                    Some(near) if near.contains('-') => {
                        format!("did you mean `{near}`? In a condition it is written \"{near}\"")
                    }
                    Some(near) => format!("did you mean `{near}`?"),
                    None => format!("the parameters are {}", quoted(names())),
                };
                let message = format!("there is no parameter `{name}`");
                self.problems.push(ExpressionError::new(node.span.clone(), message).help(help));
                None
            }
            Some(distribution) => kind_of_all(distribution),
        }
    }

    fn reported(&mut self, node: &Node, name: &str, metrics: &[&'static str]) -> Option<Kind> {
        if metrics.contains(&name) {
            return Some(Kind::Number);
        }
        let message = format!("the trainer reports no metric `{name}`");
        let help = match nearest_metric(name, metrics) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("it reports {}", quoted(metrics.iter().copied())),
        };
        self.problems.push(ExpressionError::new(node.span.clone(), message).help(help));
        None
    }

    fn property(&self, property: &Property) -> Option<Kind> {
        match property {
            Property::State
            | Property::Device
            | Property::Reason
            | Property::Note
            | Property::Tag
            | Property::Study(_)
            | Property::Name
            | Property::Group => Some(Kind::Text),
            Property::Created => Some(Kind::Moment),
            // Summary values are arbitrary.
            Property::Summary(_) => None,
            Property::Param(param) => kind_of_all(self.filter?.distribution(param)?),
            _ => Some(Kind::Number),
        }
    }

    fn comparison(&mut self, comparison: Comparison, left: &Node, right: &Node) -> Option<Kind> {
        let kinds = (self.kind(left), self.kind(right));
        let (Some(left_kind), Some(right_kind)) = kinds else { return None };
        match (left_kind, right_kind) {
            (Kind::Moment, Kind::Moment) => return Some(Kind::Flag),
            (Kind::Moment, _) | (_, Kind::Moment) => {
                let span = left.span.start..right.span.end;
                let message = "`created` is compared with a date, and a date with it alone";
                self.problems.push(ExpressionError::new(span, message).help(DATE));
                return None;
            }
            _ => {}
        }
        let is_about_equality = matches!(comparison, Comparison::Equal | Comparison::Unequal);
        if !is_about_equality {
            for (node, kind) in [(left, left_kind), (right, right_kind)] {
                if kind != Kind::Number {
                    self.refuse(
                        node,
                        format!("only numbers have an order, and this is {}", kind.described()),
                    );
                    return None;
                }
            }
        } else if left_kind != right_kind && left_kind != Kind::Mixed && right_kind != Kind::Mixed {
            let message = format!(
                "{} is compared with {}: they are never equal",
                left_kind.described(),
                right_kind.described()
            );
            let span = left.span.start..right.span.end;
            self.problems.push(ExpressionError::new(span, message));
            return None;
        }
        self.choice(left, right);
        self.choice(right, left);
        Some(Kind::Flag)
    }

    /// A text or flag that is compared with a parameter must be one of its choices.
    fn choice(&mut self, name: &Node, literal: &Node) {
        if let (NodeKind::Property(Property::State), NodeKind::Text(text)) =
            (&name.kind, &literal.kind)
            && TrialState::from_word(text).is_none()
        {
            self.refuse(literal, format!("`{text}` is not a state"));
        }
        let (NodeKind::Name(name), NodeKind::Text(text)) = (&name.kind, &literal.kind) else {
            return;
        };
        let Some(Distribution::Choice { choices }) = self.distribution(name) else { return };
        let text_of = |choice: &Value| match choice {
            Value::Text(_) | Value::List(_) | Value::Null => Some(choice.to_string()),
            _ => None,
        };
        if choices.iter().all(|choice| text_of(choice).as_ref() != Some(text)) {
            let choices: Vec<String> = choices.iter().take(10).map(Value::to_string).collect();
            let help = format!("its choices are {}", quoted(choices.iter().map(String::as_str)));
            let message = format!("`{text}` is not a choice of `{name}`");
            self.problems.push(ExpressionError::new(literal.span.clone(), message).help(help));
        }
    }
}

fn kind_of_all(distribution: &Distribution) -> Option<Kind> {
    let Distribution::Choice { choices } = distribution else { return Some(Kind::Number) };
    let mut kinds = choices.iter().map(kind_of);
    let first = kinds.next()?;
    Some(if kinds.all(|kind| kind == first) { first } else { Kind::Mixed })
}

fn kind_of(value: &Value) -> Kind {
    match value {
        Value::Bool(_) => Kind::Flag,
        Value::Int(_) | Value::Float(_) => Kind::Number,
        // Compared as they are written: `sizes == "[64,32]"`, `scheduler == "null"`.
        Value::Text(_) | Value::List(_) | Value::Null => Kind::Text,
    }
}
