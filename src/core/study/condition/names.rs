//! The names available in filters and sort keys.

use super::property::Property;
use super::syntax::{ExpressionError, Span};
use crate::study::space::Distribution;
use crate::study::spec::StudySpec;
use crate::study::suggestion::nearest;

/// Names with the same meaning in every study.
const FIELDS: &[(&str, Property)] = &[
    ("state", Property::State),
    ("device", Property::Device),
    ("reason", Property::Reason),
    ("note", Property::Note),
    ("tag", Property::Tag),
    ("number", Property::Number),
    ("value", Property::Value),
    ("last_value", Property::LastValue),
    ("step", Property::Step),
    ("seconds", Property::Seconds),
    ("attempts", Property::Attempts),
    ("failures", Property::Failures),
];

/// Aliases of fields.
const ALIASES: &[(&str, Property)] = &[("trial", Property::Number), ("last_step", Property::Step)];

/// The names of a study, with its reported metrics.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Names<'a> {
    pub(crate) spec: &'a StudySpec,
    pub(crate) metrics: &'a [String],
}

impl<'a> Names<'a> {
    /// The meaning of a name in a filter.
    pub fn property(&self, name: &str, span: Span) -> Result<Property, ExpressionError> {
        match FIELDS.iter().chain(ALIASES).find(|(field, _)| *field == name) {
            Some((_, property)) => Ok(property.clone()),
            None => self.variable(name, span),
        }
    }

    /// The parameter, metric or step unit with this name.
    pub fn variable(&self, name: &str, span: Span) -> Result<Property, ExpressionError> {
        if let Some(param) = name.strip_prefix("params.").and_then(|name| self.param(name)) {
            return Ok(Property::Param(param));
        }
        if let Some(metric) = name.strip_prefix("metrics.") {
            return Ok(self.metric(metric));
        }
        if let Some(param) = self.param(name) {
            return Ok(Property::Param(param));
        }
        if self.known_metrics().any(|metric| metric == name) {
            return Ok(self.metric(name));
        }
        if name == self.spec.step.as_str() {
            return Ok(Property::Step);
        }
        // This study's names first: ties go to the first.
        let known = self
            .params()
            .chain(self.known_metrics())
            .chain(FIELDS.iter().map(|(field, _)| *field))
            .chain(["started"]);
        let message = format!("`{name}` is no parameter or metric");
        Err(match nearest(name, known) {
            Some(near) => ExpressionError::new(span, format!("{message}; did you mean `{near}`?")),
            None => {
                let params: Vec<String> = self.params().map(|name| format!("`{name}`")).collect();
                ExpressionError::new(span, message).help(format!(
                    "the study's parameters are {}; its metric is `{}`",
                    params.join(", "),
                    self.spec.objective().metric
                ))
            }
        })
    }

    /// The values that a parameter may have.
    pub(super) fn distribution(&self, param: &str) -> Option<&'a Distribution> {
        self.spec.space.dimension(param).map(|dimension| &dimension.distribution)
    }

    fn metric(&self, name: &str) -> Property {
        if name == self.spec.objective().metric {
            Property::Objective
        } else {
            Property::Metric(name.to_owned())
        }
    }

    fn params(&self) -> impl Iterator<Item = &'a str> {
        self.spec.space.dimensions().iter().map(|dimension| dimension.name.as_str())
    }

    fn known_metrics(&self) -> impl Iterator<Item = &'a str> {
        self.spec
            .objectives
            .iter()
            .map(|objective| objective.metric.as_str())
            .chain(self.metrics.iter().map(String::as_str))
    }

    /// A parameter by its full name, or by an unambiguous last component.
    fn param(&self, name: &str) -> Option<String> {
        if let Some(same) = self.params().find(|param| *param == name) {
            return Some(same.to_owned());
        }
        let mut ending = self.params().filter(|param| param.rsplit('.').next() == Some(name));
        match (ending.next(), ending.next()) {
            (Some(only), None) => Some(only.to_owned()),
            _ => None,
        }
    }
}
