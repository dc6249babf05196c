//! Expands the short forms of filters, such as `-state:failed` and `layers=2,4`.

use super::check::DATE;
use super::dates;
use super::expression::{Comparison, Node, NodeKind};
use super::moment::Moment;
use super::names::Names;
use super::property::Property;
use super::syntax::{ExpressionError, Span, Word};
use crate::study::space::Distribution;
use crate::study::suggestion::nearest;
use crate::study::trial::TrialState;

/// The syntax tree of a filter's word.
pub(super) fn short_form(word: &Word, names: &Names<'_>) -> Result<Node, ExpressionError> {
    let (span, body) = (word.span.clone(), word.unsigned());
    let kind = match body.split() {
        None => NodeKind::Mentions(body.text().to_lowercase()),
        Some((name, operator, values)) => {
            let (term, name_text) = (body.text(), name.text());
            if name_text.is_empty() {
                return Err(ExpressionError::new(
                    body.span,
                    format!("`{term}` lacks the name of a parameter or metric: write `NAME{term}`"),
                ));
            }
            let property = names.property(&name_text, name.span)?;
            if values.list().is_empty() {
                let message = format!("`{term}` lacks its value: write `{term}VALUE`");
                return Err(ExpressionError::new(body.span, message));
            }
            one_of(&name_text, property, operator, &values, names)?
        }
    };
    let node = Node { kind, span: span.clone() };
    Ok(if word.is_negated() { Node { kind: NodeKind::Not(Box::new(node)), span } } else { node })
}

/// A property that equals, contains or compares with one of some values; with `!=`, with none.
fn one_of(
    name: &str,
    property: Property,
    operator: &str,
    values: &Word,
    names: &Names<'_>,
) -> Result<NodeKind, ExpressionError> {
    let list = values.list();
    let comparison = Comparison::of(operator);
    let is_equality = matches!(comparison, Comparison::Equal | Comparison::Unequal);
    let node = |kind| Node { kind, span: values.span.clone() };
    let is_text = matches!(
        property,
        Property::Device
            | Property::Reason
            | Property::Note
            | Property::Study(_)
            | Property::Name
            | Property::Group
    );
    if operator == ":" && (is_text || matches!(property, Property::Param(_))) {
        let holds = |text: &String| node(NodeKind::Contains(property.clone(), text.to_lowercase()));
        return Ok(joined(NodeKind::Or, list.iter().map(holds).collect()));
    }
    let no_order = || {
        let value = list.join(",");
        ExpressionError::new(
            values.span.clone(),
            format!("`{name}` has no order: write `{name}={value}` or `{name}!={value}`"),
        )
    };
    if property == Property::Created {
        let part = node(NodeKind::Property(Property::Created));
        let compared = |text: &String| match Moment::parse(text) {
            Some(moment) => Ok(node(dates::compared(&part, comparison, moment))),
            None => {
                let message = format!("`{name}` is compared with a date, not with `{text}`");
                Err(ExpressionError::new(values.span.clone(), message).help(DATE))
            }
        };
        let parts = list.iter().map(compared).collect::<Result<_, _>>()?;
        return Ok(joined(whole(comparison), parts));
    }
    let lower = |text: &String| NodeKind::Text(text.to_lowercase());
    let parts: Vec<NodeKind> = match &property {
        Property::State if is_equality => states(&list, &values.span)?,
        Property::Tag if is_equality => list.iter().map(lower).collect(),
        _ if is_text && is_equality => list.iter().map(lower).collect(),
        // As a text and as a typed value: a parameter may have choices of several kinds.
        Property::Param(_) | Property::Summary(_) if is_equality => list
            .iter()
            .flat_map(|text| {
                let number = text.parse().ok().map(NodeKind::Number);
                let flag = text.to_lowercase().parse().ok().map(NodeKind::Flag);
                [Some(lower(text)), number, flag].into_iter().flatten()
            })
            .collect(),
        Property::State | Property::Tag => return Err(no_order()),
        _ if is_text => return Err(no_order()),
        Property::Param(param) if !names.distribution(param).is_none_or(has_order) => {
            return Err(no_order());
        }
        _ => {
            let not_a_number = |text: &str| {
                ExpressionError::new(
                    values.span.clone(),
                    format!(
                        "`{name}` is compared with a number, not with `{text}`: write for example \
                         `{name}>0.5`"
                    ),
                )
            };
            if list.len() > 1 && !is_equality {
                return Err(not_a_number(&list.join(",")));
            }
            let number = |text: &String| text.parse().map_err(|_| not_a_number(text));
            list.iter().map(|text| number(text).map(NodeKind::Number)).collect::<Result<_, _>>()?
        }
    };
    let compared = |part| {
        let property = node(NodeKind::Property(property.clone()));
        node(NodeKind::Comparison(comparison, Box::new(property), Box::new(node(part))))
    };
    Ok(joined(whole(comparison), parts.into_iter().map(compared).collect()))
}

/// How comparisons with several values are joined.
fn whole(comparison: Comparison) -> fn(Vec<Node>) -> NodeKind {
    if comparison == Comparison::Unequal { NodeKind::And } else { NodeKind::Or }
}

fn joined(whole: fn(Vec<Node>) -> NodeKind, mut parts: Vec<Node>) -> NodeKind {
    if parts.len() == 1 { parts.swap_remove(0).kind } else { whole(parts) }
}

fn has_order(distribution: &Distribution) -> bool {
    match distribution {
        Distribution::Float { .. } | Distribution::Int { .. } => true,
        Distribution::Choice { choices } => {
            choices.iter().any(|choice| choice.as_number().is_some())
        }
    }
}

fn states(words: &[String], span: &Span) -> Result<Vec<NodeKind>, ExpressionError> {
    let mut states = Vec::new();
    for word in words {
        match word.to_lowercase().as_str() {
            "finished" => {
                states.extend(TrialState::ALL.into_iter().filter(|state| state.is_finished()))
            }
            "interrupted" => {
                let message = "`interrupted` is not a state: trials of a runner that died are \
                               `running`, tracked runs that did not end `paused`";
                return Err(ExpressionError::new(span.clone(), message));
            }
            plain => states.push(TrialState::from_word(plain).ok_or_else(|| {
                let near = nearest(word, TrialState::ALL.iter().map(|state| state.as_str()))
                    .map_or_else(String::new, |near| format!("did you mean `{near}`? "));
                ExpressionError::new(
                    span.clone(),
                    format!(
                        "`{word}` is not a state; {near}there are \
                    queued, running, paused, complete, pruned, failed and finished"
                    ),
                )
            })?),
        }
    }
    Ok(states.into_iter().map(|state| NodeKind::Text(state.as_str().to_owned())).collect())
}
