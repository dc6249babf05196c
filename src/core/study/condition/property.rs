//! The properties of a trial that filters can test.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use crate::study::params::Value;
use crate::study::tracked::TrackedRun;
use crate::study::trial::{Trial, TrialState};

/// A value inside a condition.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Term<'a> {
    Number(f64),
    Flag(bool),
    Text(Cow<'a, str>),
    /// Several, such as tags: equal to each of them.
    Texts(Vec<String>),
}

impl Term<'_> {
    pub fn of(value: Value) -> Self {
        match value.as_number() {
            Some(number) => Term::Number(number),
            None => match value {
                Value::Bool(flag) => Term::Flag(flag),
                other => Term::Text(Cow::Owned(other.to_string())),
            },
        }
    }

    pub fn equals(&self, other: &Term<'_>) -> bool {
        match (self, other) {
            (Term::Texts(texts), Term::Text(text)) | (Term::Text(text), Term::Texts(texts)) => {
                texts.iter().any(|one| one == text)
            }
            _ => self == other,
        }
    }
}

/// A property of a trial with a name in filters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Property {
    State,
    Device,
    Reason,
    /// Its notes.
    Note,
    /// Its tags.
    Tag,
    Number,
    Value,
    LastValue,
    Step,
    Seconds,
    Attempts,
    Failures,
    /// When it was created.
    Created,
    Param(String),
    /// The study's metric as tables show it: [`objective_value`].
    Objective,
    /// Another metric, its last value.
    Metric(String),
    /// The study that the trial belongs to, in lower case: a filter is read for one study.
    Study(String),
    /// The name of a tracked run.
    Name,
    /// The group of a tracked run.
    Group,
    /// A value of one of its series.
    Series(String, Statistic),
    /// The summary value with this name.
    Summary(String),
}

/// Which value of a series is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Statistic {
    /// The one at its last step.
    Last,
    /// The smallest.
    Min,
    /// The largest.
    Max,
}

/// Values that filters use and a [`Trial`] does not contain.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Measured {
    /// Values of its series.
    pub series: BTreeMap<(String, Statistic), f64>,
    /// The summary, as JSON scalars.
    pub summary: BTreeMap<String, serde_json::Value>,
}

/// A field of a trial that filters and sort keys use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TrialField {
    /// Its state.
    State,
    /// Its value.
    Value,
    /// By how much it violates the study's limits.
    Violation,
    /// Whether its user hid it.
    Hidden,
    /// The last report of the study's metric.
    LastReport,
    /// When it was created.
    Created,
    /// When its last attempt began.
    Started,
    /// The time spent: in ended attempts, unless a [`Filter`](crate::study::query::Filter) says
    /// more.
    Seconds,
    /// Number of attempts.
    Attempts,
    /// Number of failed attempts.
    Failures,
    /// Devices of the last attempt.
    Device,
    /// The reason for its state.
    Reason,
    /// Its origin as a tracked run: its name and group.
    Tracked,
}

/// What a filter or sort key needs of a trial besides its number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// These fields.
    pub fields: BTreeSet<TrialField>,
    /// All parameters.
    pub all_params: bool,
    /// Names of the parameters, if not all are needed.
    pub params: BTreeSet<String>,
    /// The last values of these metrics.
    pub metrics: BTreeSet<String>,
    /// Its notes and tags.
    pub marks: bool,
    /// These values of its series.
    pub series: BTreeSet<(String, Statistic)>,
    /// Its summary.
    pub summary: bool,
}

impl Needs {
    /// Adds what `objective_value` uses.
    pub fn add_objective(&mut self) {
        self.fields.extend([TrialField::State, TrialField::Value, TrialField::LastReport]);
    }

    /// Adds what `mentions` searches.
    pub fn add_texts(&mut self) {
        (self.all_params, self.marks) = (true, true);
        self.fields.extend([
            TrialField::State,
            TrialField::Device,
            TrialField::Reason,
            TrialField::Tracked,
        ]);
    }
}

/// The value of a complete trial, else the last report.
pub fn objective_value(trial: &Trial) -> Option<f64> {
    match trial.state {
        TrialState::Complete => trial.value,
        TrialState::Queued
        | TrialState::Running
        | TrialState::Paused
        | TrialState::Pruned
        | TrialState::Failed => trial.last().map(|(_, value)| value),
    }
}

impl Property {
    pub fn add_needs(&self, needs: &mut Needs) {
        let field = match self {
            Property::State => TrialField::State,
            Property::Value => TrialField::Value,
            Property::LastValue | Property::Step => TrialField::LastReport,
            Property::Seconds => TrialField::Seconds,
            Property::Attempts => TrialField::Attempts,
            Property::Failures => TrialField::Failures,
            Property::Created => TrialField::Created,
            Property::Device => TrialField::Device,
            Property::Reason => TrialField::Reason,
            Property::Name | Property::Group => TrialField::Tracked,
            Property::Objective => return needs.add_objective(),
            Property::Note | Property::Tag => return needs.marks = true,
            Property::Summary(_) => return needs.summary = true,
            Property::Metric(name) => return needs.metrics.extend([name.clone()]),
            Property::Param(name) => return needs.params.extend([name.clone()]),
            Property::Series(name, statistic) => {
                return needs.series.extend([(name.clone(), *statistic)]);
            }
            Property::Number | Property::Study(_) => return,
        };
        needs.fields.insert(field);
    }

    /// Its value, texts in lower case; `None` if the trial has none.
    #[expect(
        clippy::cast_precision_loss,
        reason = "numbers, steps and microseconds stay far below 2^53"
    )]
    pub(super) fn of<'a>(&self, trial: &'a Trial, measured: &'a Measured) -> Option<Term<'a>> {
        let number = match self {
            Property::State => return Some(Term::Text(Cow::Borrowed(trial.state.as_str()))),
            Property::Device
            | Property::Reason
            | Property::Note
            | Property::Tag
            | Property::Study(_)
            | Property::Name
            | Property::Group => {
                let mut texts = Vec::new();
                self.has_text(trial, &mut |text| {
                    texts.push(text.to_owned());
                    false
                });
                return (!texts.is_empty()).then_some(Term::Texts(texts));
            }
            Property::Param(name) => {
                return trial.params.get(name).map(|value| match value {
                    Value::Text(text) => Term::Text(lower(text)),
                    other => match Term::of(other.clone()) {
                        Term::Text(text) => Term::Text(Cow::Owned(text.to_lowercase())),
                        term => term,
                    },
                });
            }
            Property::Number => trial.number.0 as f64,
            Property::Value => trial.value?,
            Property::LastValue => trial.last()?.1,
            Property::Step => trial.last()?.0 as f64,
            Property::Seconds => trial.busy_micros as f64 / 1e6,
            Property::Attempts => f64::from(trial.attempts),
            Property::Failures => f64::from(trial.failures),
            Property::Created => trial.created.0 as f64,
            Property::Objective => objective_value(trial)?,
            Property::Metric(name) => trial.last_metrics.get(name)?,
            Property::Series(name, statistic) => {
                *measured.series.get(&(name.clone(), *statistic))?
            }
            Property::Summary(name) => return scalar(measured.summary.get(name)?),
        };
        Some(Term::Number(number))
    }

    /// Whether one of the searchable texts of a trial, in lower case, is what is looked for.
    pub(super) fn has_text(&self, trial: &Trial, is_it: &mut dyn FnMut(&str) -> bool) -> bool {
        let mut is = |text: &str| is_it(&lower(text));
        match self {
            Property::Device => trial.devices.as_ref().is_some_and(|devices| {
                // A group is found by its name and by those of its devices.
                devices.distinct().into_iter().any(|device| is(&device.to_string()))
                    || (!devices.is_single() && is(&devices.to_string()))
            }),
            Property::Reason => trial.reason.as_deref().is_some_and(is),
            Property::Note => trial.notes.iter().any(|note| is(&note.text)),
            Property::Tag => trial.tags.iter().any(|tag| is(tag)),
            Property::Study(name) => is_it(name),
            Property::Name => run(trial).and_then(|run| run.name.as_deref()).is_some_and(is),
            Property::Group => run(trial).and_then(|run| run.group.as_deref()).is_some_and(is),
            Property::Param(name) => match trial.params.get(name) {
                Some(Value::Text(text)) => is(text),
                other => other.is_some_and(|value| is(&value.to_string())),
            },
            _ => false,
        }
    }
}

/// Whether any text of a trial contains this one, in lower case.
pub(super) fn mentions(trial: &Trial, text: &str) -> bool {
    // Most parameters are numbers, and most texts no part of one: those are not written out.
    let is_in_numbers = text.bytes().all(|byte| b"0123456789.-e".contains(&byte));
    let value_holds = |value: &Value| match value {
        Value::Text(own) => lower(own).contains(text),
        Value::Int(_) => is_in_numbers && value.to_string().contains(text),
        Value::Float(float) if float.is_finite() => {
            is_in_numbers && value.to_string().contains(text)
        }
        _ => lower(&value.to_string()).contains(text),
    };
    trial.state.as_str().contains(text)
        || trial.params.iter().any(|(name, value)| lower(name).contains(text) || value_holds(value))
        || [Property::Reason, Property::Device, Property::Tag, Property::Note, Property::Name]
            .iter()
            .any(|property| property.has_text(trial, &mut |found| found.contains(text)))
}

fn run(trial: &Trial) -> Option<&TrackedRun> {
    trial.origin.tracked()
}

/// A JSON scalar as a value of a condition, texts in lower case; `None` for anything else.
fn scalar(value: &serde_json::Value) -> Option<Term<'_>> {
    Some(match value {
        serde_json::Value::Number(number) => Term::Number(number.as_f64()?),
        serde_json::Value::Bool(flag) => Term::Flag(*flag),
        serde_json::Value::String(text) => Term::Text(lower(text)),
        _ => return None,
    })
}

/// A text in lower case, copied only if that differs.
fn lower(text: &str) -> Cow<'_, str> {
    let is_lower = text.bytes().all(|byte| byte.is_ascii() && !byte.is_ascii_uppercase());
    if is_lower { Cow::Borrowed(text) } else { Cow::Owned(text.to_lowercase()) }
}
