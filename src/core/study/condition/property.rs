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
    Param(String),
    /// The study's metric as tables show it: [`objective_value`].
    Objective,
    /// Another metric of the last report.
    Metric(String),
    /// The study that the trial belongs to, in lower case: a filter is read for one study.
    Study(String),
    /// The name of a tracked run.
    Name,
    /// The group of a tracked run.
    Group,
    /// A value of one of its series.
    Series(String, Statistic),
    /// The summary value of a tracked run with this name.
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
    /// The summary of a tracked run, as JSON scalars.
    pub summary: BTreeMap<String, serde_json::Value>,
}

/// The fields of a trial that a filter or sort key needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// All parameters.
    pub all_params: bool,
    /// Names of the parameters, if not all are needed.
    pub params: BTreeSet<String>,
    /// The metrics of the last report.
    pub metrics: bool,
    /// Its value.
    pub value: bool,
    /// Its reason and device.
    pub words: bool,
    /// Its notes and tags.
    pub marks: bool,
    /// Its name and group as a tracked run.
    pub origin: bool,
    /// These values of its series.
    pub series: BTreeSet<(String, Statistic)>,
    /// Its summary.
    pub summary: bool,
}

/// The value of a complete trial, else the last report.
pub fn objective_value(trial: &Trial) -> Option<f64> {
    match trial.state {
        TrialState::Complete => trial.value,
        _ => trial.last().map(|(_, value)| value),
    }
}

impl Property {
    pub fn add_needs(&self, needs: &mut Needs) {
        match self {
            Property::Value | Property::Objective => needs.value = true,
            Property::Metric(_) => needs.metrics = true,
            Property::Device | Property::Reason => needs.words = true,
            Property::Note | Property::Tag => needs.marks = true,
            Property::Name | Property::Group => needs.origin = true,
            Property::Summary(_) => needs.summary = true,
            Property::Param(name) => {
                needs.params.insert(name.clone());
            }
            Property::Series(name, statistic) => {
                needs.series.insert((name.clone(), *statistic));
            }
            _ => {}
        }
    }

    /// Its value, texts in lower case; `None` if the trial has none.
    #[expect(
        clippy::cast_precision_loss,
        reason = "numbers, steps and microseconds stay far below 2^53"
    )]
    pub(super) fn of<'a>(&self, trial: &Trial, measured: &Measured) -> Option<Term<'a>> {
        let number = match self {
            Property::State => return Some(Term::Text(Cow::Borrowed(trial.state.as_str()))),
            Property::Device
            | Property::Reason
            | Property::Note
            | Property::Tag
            | Property::Study(_)
            | Property::Name
            | Property::Group => {
                let texts = self.texts(trial);
                return (!texts.is_empty()).then_some(Term::Texts(texts));
            }
            Property::Param(name) => {
                return trial.params.get(name).map(|value| match Term::of(value.clone()) {
                    Term::Text(text) => Term::Text(Cow::Owned(text.to_lowercase())),
                    other => other,
                });
            }
            Property::Number => trial.number.0 as f64,
            Property::Value => trial.value?,
            Property::LastValue => trial.last()?.1,
            Property::Step => trial.last()?.0 as f64,
            // Ended attempts only.
            Property::Seconds => trial.busy_micros as f64 / 1e6,
            Property::Attempts => f64::from(trial.attempts),
            Property::Failures => f64::from(trial.failures),
            Property::Objective => objective_value(trial)?,
            Property::Metric(name) => trial.last_metrics.get(name)?,
            Property::Series(name, statistic) => {
                *measured.series.get(&(name.clone(), *statistic))?
            }
            Property::Summary(name) => return scalar(measured.summary.get(name)?),
        };
        Some(Term::Number(number))
    }

    /// The searchable texts of a trial, in lower case.
    pub(super) fn texts(&self, trial: &Trial) -> Vec<String> {
        match self {
            Property::Device => {
                // A group is found by its name and by those of its devices.
                let devices = trial.devices.as_ref();
                let names = devices.into_iter().flat_map(|devices| {
                    let members = devices.distinct().into_iter().map(ToString::to_string);
                    members.chain((!devices.is_single()).then(|| devices.to_string()))
                });
                names.map(|name| lower(&name)).collect()
            }
            Property::Reason => trial.reason.iter().map(|reason| lower(reason)).collect(),
            Property::Note => trial.notes.iter().map(|note| lower(&note.text)).collect(),
            Property::Tag => trial.tags.iter().map(|tag| lower(tag)).collect(),
            Property::Study(name) => vec![name.clone()],
            Property::Name => {
                run(trial).and_then(|run| run.name.as_deref()).map(lower).into_iter().collect()
            }
            Property::Group => {
                run(trial).and_then(|run| run.group.as_deref()).map(lower).into_iter().collect()
            }
            Property::Param(name) => {
                trial.params.get(name).map(|value| lower(&value.to_string())).into_iter().collect()
            }
            _ => Vec::new(),
        }
    }
}

/// Whether any text of a trial contains this one, in lower case.
pub(super) fn mentions(trial: &Trial, text: &str) -> bool {
    let value_holds = |value: &Value| lower(&value.to_string()).contains(text);
    trial.state.as_str().contains(text)
        || trial.params.iter().any(|(name, value)| lower(name).contains(text) || value_holds(value))
        || [Property::Reason, Property::Device, Property::Tag, Property::Note, Property::Name]
            .iter()
            .any(|property| property.texts(trial).iter().any(|found| found.contains(text)))
}

fn run(trial: &Trial) -> Option<&TrackedRun> {
    trial.origin.tracked()
}

/// A JSON scalar as a value of a condition, texts in lower case; `None` for anything else.
fn scalar<'a>(value: &serde_json::Value) -> Option<Term<'a>> {
    Some(match value {
        serde_json::Value::Number(number) => Term::Number(number.as_f64()?),
        serde_json::Value::Bool(flag) => Term::Flag(*flag),
        serde_json::Value::String(text) => Term::Text(Cow::Owned(lower(text))),
        _ => return None,
    })
}

fn lower(text: &str) -> String {
    text.to_lowercase()
}
