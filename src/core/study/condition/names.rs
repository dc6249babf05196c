//! The names available in filters and sort keys.

use super::property::{Property, Statistic};
use super::syntax::{ExpressionError, Span, is_name_char};
use crate::study::space::Distribution;
use crate::study::spec::StudySpec;
use crate::study::suggestion::{nearest, quoted};

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

/// When a trial was created.
const CREATED: &str = "created";

/// Aliases of fields.
const ALIASES: &[(&str, Property)] = &[("trial", Property::Number), ("last_step", Property::Step)];

/// Names that the trials of a study introduced, in addition to those of its specification.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrialNames {
    /// Parameters of tracked runs.
    pub params: Vec<String>,
    /// Metrics that were reported.
    pub metrics: Vec<String>,
    /// Metrics that were logged: their values are series.
    pub series: Vec<String>,
}

/// The names of a study, with those of its trials.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Names<'a> {
    pub(crate) spec: &'a StudySpec,
    pub(crate) trials: &'a TrialNames,
}

impl<'a> Names<'a> {
    /// The meaning of a name in a filter.
    pub fn property(&self, name: &str, span: Span) -> Result<Property, ExpressionError> {
        if let Some((_, property)) = FIELDS.iter().chain(ALIASES).find(|(field, _)| *field == name)
        {
            let is_of_one = matches!(property, Property::Value | Property::LastValue);
            return match is_of_one && self.spec.has_several_objectives() {
                true => self.of_several(name, span),
                false => Ok(property.clone()),
            };
        }
        if let Some(name) = name.strip_prefix("summary.").filter(|name| !name.is_empty()) {
            return Ok(Property::Summary(name.to_owned()));
        }
        // Parameters and metrics may have these names, but `name` is not `model.name`.
        let of_run = match name {
            _ if self.is_whole(name) => None,
            "study" => Some(Property::Study(self.spec.name.to_lowercase())),
            "name" => Some(Property::Name),
            "group" => Some(Property::Group),
            CREATED => Some(Property::Created),
            _ => None,
        };
        of_run.or_else(|| self.known(name)).ok_or_else(|| self.unknown(name, span))
    }

    /// Whether a parameter, metric or series has this very name.
    fn is_whole(&self, name: &str) -> bool {
        let mut series = self.trials.series.iter();
        self.params().any(|param| param == name)
            || self.is_reported(name)
            || series.any(|series| series == name)
    }

    /// The value of a trial of several objectives, which is none unless an objective has that name.
    fn of_several(&self, name: &str, span: Span) -> Result<Property, ExpressionError> {
        if self.spec.is_objective(name) {
            return Ok(self.metric(name));
        }
        let objectives = quoted(self.spec.objectives.iter().map(|one| one.metric.as_str()));
        let message = format!("`{name}` is of one objective, and this study has several");
        Err(ExpressionError::new(span, message).help(format!("name one of them: {objectives}")))
    }

    /// The sort key with this name: a parameter, a reported metric or the step unit.
    pub fn sorted(&self, name: &str, span: Span) -> Result<Property, ExpressionError> {
        let is_of_run = ["study", "name", "group", CREATED].contains(&name);
        match self.known(name).filter(|_| !is_of_run || self.is_whole(name)) {
            // Its order is that of the last reports.
            Some(Property::Series(metric, _)) if self.is_reported(&metric) => {
                Ok(Property::Metric(metric))
            }
            Some(Property::Series(..)) => {
                let message = format!("`{name}` was logged and not reported: it is not a sort key");
                Err(ExpressionError::new(span, message)
                    .help("sort by a parameter or a reported metric; a filter may name series"))
            }
            Some(property) => Ok(property),
            None if name == CREATED => Ok(Property::Created),
            None => Err(self.unknown(name, span)),
        }
    }

    /// A statistic of the series with this name: `min(NAME)`, `max(NAME)`.
    pub fn series(
        &self,
        name: &str,
        statistic: Statistic,
        span: Span,
    ) -> Result<Property, ExpressionError> {
        match self.known(name) {
            Some(Property::Objective | Property::LastValue) => {
                let metric = &self.spec.objective().metric;
                Ok(Property::Series(metric.clone(), statistic))
            }
            Some(Property::Metric(name) | Property::Series(name, _)) => {
                Ok(Property::Series(name, statistic))
            }
            Some(_) => {
                let message =
                    format!("`{name}` is not a metric: it has no smallest or largest value");
                Err(ExpressionError::new(span, message)
                    .help("`min` and `max` take one metric, or several numbers"))
            }
            None => Err(self.unknown(name, span)),
        }
    }

    /// The parameter, metric, series or step unit with this name.
    fn known(&self, name: &str) -> Option<Property> {
        if let Some(param) = name.strip_prefix("params.").and_then(|name| self.param(name)) {
            return Some(Property::Param(param));
        }
        if let Some(metric) = name.strip_prefix("metrics.") {
            let reported = || match self.metric(metric) {
                // By its own name, the objective is the value of a complete trial.
                Property::Objective if !self.spec.has_several_objectives() => Property::LastValue,
                property => property,
            };
            return Some(self.logged(metric).unwrap_or_else(reported));
        }
        if let Some(param) = self.param(name) {
            return Some(Property::Param(param));
        }
        if let Some(logged) = self.logged(name) {
            return Some(logged);
        }
        if self.is_reported(name) {
            return Some(self.metric(name));
        }
        (name == self.spec.step.as_str()).then_some(Property::Step)
    }

    /// A series of a metric that was never reported, or of a tracked run: there the last value
    /// stands, reported or logged.
    fn logged(&self, name: &str) -> Option<Property> {
        let is_meant = self.trials.series.iter().any(|series| series == name)
            && !self.spec.is_objective(name)
            && (self.spec.is_tracked() || !self.is_reported(name));
        is_meant.then(|| Property::Series(name.to_owned(), Statistic::Last))
    }

    fn is_reported(&self, name: &str) -> bool {
        self.known_metrics().any(|metric| metric == name)
    }

    fn unknown(&self, name: &str, span: Span) -> ExpressionError {
        // The names of this study come first: the first of equal ones is used.
        let known = self
            .params()
            .chain(self.known_metrics())
            .chain(self.trials.series.iter().map(String::as_str))
            .chain(FIELDS.iter().map(|(field, _)| *field))
            .chain(["started", CREATED]);
        let message = format!("`{name}` is not a parameter or metric");
        match nearest(name, known) {
            Some(near) if near.contains('-') => ExpressionError::new(
                span,
                format!(
                    "{message}; did you mean `{near}`? In a condition it is written \"{near}\""
                ),
            ),
            Some(near) => ExpressionError::new(span, format!("{message}; did you mean `{near}`?")),
            None => {
                let params: Vec<String> = self.params().map(|name| format!("`{name}`")).collect();
                let params = match params.as_slice() {
                    [] => "the study has no parameters".to_owned(),
                    params => format!("the study's parameters are {}", params.join(", ")),
                };
                let objectives = self.spec.objectives.iter().map(|one| one.metric.as_str());
                let metrics = match self.spec.has_several_objectives() {
                    true => format!("its objectives are {}", quoted(objectives)),
                    false => format!("its metric is {}", quoted(objectives)),
                };
                ExpressionError::new(span, message).help(format!("{params}; {metrics}"))
            }
        }
    }

    /// The metric that is written at the beginning of a text, where its name would be read as a
    /// division: `train/loss`.
    pub fn written_at(&self, text: &str) -> Option<&'a str> {
        let ends = |name: &&str| {
            let next = text.strip_prefix(name).map(|rest| rest.chars().next());
            next.is_some_and(|next| next.is_none_or(|next| !is_name_char(next) && next != '/'))
        };
        let measured = self.known_metrics().chain(self.trials.series.iter().map(String::as_str));
        measured.filter(|name| name.contains('/')).filter(ends).max_by_key(|name| name.len())
    }

    /// Whether the values of a property are texts, as far as is known.
    pub fn is_text(&self, property: &Property) -> bool {
        match property {
            Property::State
            | Property::Device
            | Property::Reason
            | Property::Note
            | Property::Tag
            | Property::Study(_)
            | Property::Name
            | Property::Group
            | Property::Summary(_) => true,
            Property::Param(param) => {
                matches!(self.distribution(param), Some(Distribution::Choice { .. }) | None)
            }
            _ => false,
        }
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
        let space = &self.spec.space;
        let searched = space.dimensions().iter().map(|dimension| dimension.name.as_str());
        let others = self.trials.params.iter().map(String::as_str);
        searched.chain(others.filter(|name| space.dimension(name).is_none()))
    }

    fn known_metrics(&self) -> impl Iterator<Item = &'a str> {
        self.spec
            .objectives
            .iter()
            .map(|objective| objective.metric.as_str())
            .chain(self.trials.metrics.iter().map(String::as_str))
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
