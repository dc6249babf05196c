//! What a filter names and perhaps no trial has: values of parameters, tags, and names of metrics
//! and summary values.

use super::expression::{Comparison, Expression, Node, NodeKind};
use super::names::TrialNames;
use super::property::Property;
use crate::study::params::Value;
use crate::study::space::Distribution;
use crate::study::spec::StudySpec;
use crate::study::suggestion::nearest;

/// Something that a filter looks for in trials.
#[derive(Clone, Debug, PartialEq)]
pub struct Sought {
    /// The condition of having it.
    pub having: Expression,
    /// As a term of a filter, or a name: `optim=sgdd`, `metrics.accuracy`.
    pub term: String,
    /// What it may mean.
    pub near: Option<String>,
}

impl Expression {
    /// What the filter looks for, each once, except in numbers that are reported.
    pub fn sought(&self, spec: &StudySpec, names: &TrialNames) -> Vec<Sought> {
        let mut found: Vec<Sought> = Vec::new();
        self.root.visit(&mut |node| {
            let new = match &node.kind {
                NodeKind::Contains(property, text) => text_of(spec, property, ":", text),
                NodeKind::Comparison(Comparison::Equal | Comparison::Unequal, left, right) => {
                    match (&left.kind, &right.kind) {
                        (NodeKind::Property(property), NodeKind::Text(text))
                        | (NodeKind::Text(text), NodeKind::Property(property)) => {
                            text_of(spec, property, "=", text)
                        }
                        _ => None,
                    }
                }
                NodeKind::Property(property) => name_of(spec, names, property),
                _ => None,
            };
            let is_new = |new: &Sought| found.iter().all(|known| known.term != new.term);
            found.extend(new.filter(is_new));
        });
        found
    }
}

/// A text that is looked for in a property, in lower case.
fn text_of(spec: &StudySpec, property: &Property, operator: &str, text: &str) -> Option<Sought> {
    let name = match property {
        Property::Param(param) => param.as_str(),
        Property::Device => "device",
        Property::Reason => "reason",
        Property::Note => "note",
        Property::Tag => "tag",
        Property::Study(_) => "study",
        Property::Name => "name",
        Property::Group => "group",
        // Of summary values their names are looked for; the others have no texts, or known ones.
        _ => return None,
    };
    let node = |kind| Node { kind, span: 0..0 };
    let equals = |literal| {
        let property = Box::new(node(NodeKind::Property(property.clone())));
        node(NodeKind::Comparison(Comparison::Equal, property, Box::new(node(literal))))
    };
    let kind = if operator == ":" {
        NodeKind::Contains(property.clone(), text.to_owned())
    } else {
        // As short forms do: a number or a flag may be meant.
        let number = text.parse().ok().map(NodeKind::Number);
        let flag = text.parse().ok().map(NodeKind::Flag);
        let text = NodeKind::Text(text.to_owned());
        NodeKind::Or([Some(text), number, flag].into_iter().flatten().map(equals).collect())
    };
    let near = match property {
        Property::Param(param) if operator == "=" => nearest_choice(spec, param, text),
        _ => None,
    };
    let term = format!("{name}{operator}{text}");
    Some(Sought { having: Expression::new(&term, node(kind)), term, near })
}

fn nearest_choice(spec: &StudySpec, param: &str, text: &str) -> Option<String> {
    let Distribution::Choice { choices } = &spec.space.dimension(param)?.distribution else {
        return None;
    };
    let choices = choices.iter().map(Value::to_string);
    // That no trial has drawn it is no slip.
    let choices: Vec<String> =
        choices.filter(|choice| !choice.eq_ignore_ascii_case(text)).collect();
    nearest(text, choices.iter().map(String::as_str)).map(str::to_owned)
}

/// The name of a metric that was not reported, or of a summary value.
fn name_of(spec: &StudySpec, names: &TrialNames, property: &Property) -> Option<Sought> {
    let (term, near) = match property {
        Property::Metric(name) | Property::Series(name, _) => {
            let measured = || names.metrics.iter().chain(&names.series).map(String::as_str);
            if spec.is_objective(name) || measured().any(|known| known == name) {
                return None;
            }
            let objectives = spec.objectives.iter().map(|one| one.metric.as_str());
            let near = nearest(name, objectives.chain(measured())).map(str::to_owned);
            (format!("metrics.{name}"), near)
        }
        Property::Summary(name) => (format!("summary.{name}"), None),
        _ => return None,
    };
    let node = |kind| Node { kind, span: 0..0 };
    // Comparisons with what a trial does not have never hold.
    let own = || Box::new(node(NodeKind::Property(property.clone())));
    let root = node(NodeKind::Comparison(Comparison::Equal, own(), own()));
    Some(Sought { having: Expression::new(&term, root), term, near })
}
