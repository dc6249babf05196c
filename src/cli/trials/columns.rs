//! The columns of a table of trials that the user names: with `--columns`, or by the metrics and
//! parameters of the order and the filter.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::time;
use crate::app::last_values::take_named;
use crate::cli::Failure;
use crate::cli::moments::moment;
use crate::report::table::{Align, Columns};
use crate::report::wording::{
    objective_cell, objective_digits, one_line, param, run_name, value_cell, value_digits,
};
use crate::storage::{StorageError, StorageReader, StudySummary};
use crate::study::condition::{Needs, TrialNames};
use crate::study::metric::ColumnDigits;
use crate::study::params::Value;
use crate::study::query::TrialQuery;
use crate::study::spec::StudySpec;
use crate::study::state::shown_params;
use crate::study::suggestion::{nearest, quoted};
use crate::study::trial::Trial;

/// A trial in a table.
pub(super) struct Row<'a> {
    pub spec: &'a StudySpec,
    pub trial: &'a Trial,
    pub state: &'static str,
    pub spent: Option<Duration>,
    pub summary: Option<&'a BTreeMap<String, serde_json::Value>>,
}

/// A property of a trial: its name, alignment and text.
type Field = (&'static str, Align, fn(&Row<'_>) -> String);

const FIELDS: &[Field] = &[
    ("study", Align::Left, |row| one_line(&row.spec.name)),
    ("trial", Align::Right, |row| row.trial.number.to_string()),
    ("name", Align::Left, |row| run_name(row.trial).map_or_else(String::new, one_line)),
    ("group", Align::Left, group),
    ("state", Align::Left, |row| row.state.to_owned()),
    ("value", Align::Point, |row| value_cell(row.trial, ColumnDigits::default())),
    ("step", Align::Right, |row| {
        row.trial.last_step().map_or_else(String::new, |step| step.to_string())
    }),
    ("time", Align::Right, |row| time(row.spent.as_ref())),
    ("attempts", Align::Right, |row| row.trial.attempts.to_string()),
    ("failures", Align::Right, |row| row.trial.failures.to_string()),
    ("device", Align::Left, |row| {
        row.trial.devices.as_ref().map_or_else(String::new, ToString::to_string)
    }),
    ("created", Align::Left, |row| moment(row.trial.created)),
    ("started", Align::Left, |row| row.trial.started.map_or_else(String::new, moment)),
    ("finished", Align::Left, |row| row.trial.finished.map_or_else(String::new, moment)),
    ("tags", Align::Left, |row| one_line(&row.trial.tags.join(" "))),
    ("notes", Align::Left, notes),
    ("reason", Align::Left, |row| row.trial.reason.as_deref().map_or_else(String::new, one_line)),
];

/// The names that filters and sort keys have for some of them.
const ALIASES: &[(&str, &str)] = &[
    ("number", "trial"),
    ("last_step", "step"),
    ("seconds", "time"),
    ("tag", "tags"),
    ("note", "notes"),
];

fn group(row: &Row<'_>) -> String {
    let run = row.trial.origin.tracked();
    run.and_then(|run| run.group.as_deref()).map_or_else(String::new, one_line)
}

fn notes(row: &Row<'_>) -> String {
    let texts: Vec<&str> = row.trial.notes.iter().map(|note| note.text.as_str()).collect();
    one_line(&texts.join("; "))
}

/// A column that is named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Named {
    Field(&'static str),
    Param(String),
    /// An objective as tables show it, and of any other metric the last value.
    Metric(String),
    LastValue(String),
    Summary(String),
}

impl Named {
    /// The columns of these names, with the titles as written.
    pub fn all(
        words: &[String],
        studies: &[(&StudySpec, TrialNames)],
        summaries: &BTreeSet<String>,
    ) -> Result<Vec<(String, Named)>, Failure> {
        let names = ColumnNames::of(studies, summaries);
        words.iter().map(|word| Ok((one_line(word), names.find(word)?))).collect()
    }

    fn cell(&self, row: &Row<'_>, digits: ColumnDigits) -> String {
        let Row { spec, trial, .. } = row;
        let last =
            |name| trial.last_metrics.get(name).map_or_else(String::new, |last| digits.text(last));
        match self {
            Named::Field("value") => value_cell(trial, digits),
            Named::Field(name) => {
                let field = FIELDS.iter().find(|(field, ..)| field == name);
                field.map_or_else(String::new, |(.., cell)| cell(row))
            }
            Named::Param(name) => {
                shown_params(spec, trial).get(name).map_or_else(String::new, param)
            }
            Named::LastValue(name) => last(name),
            Named::Metric(name) => {
                match spec.objectives.iter().position(|objective| objective.metric == *name) {
                    Some(index) if spec.has_several_objectives() => {
                        objective_cell(trial, index, digits)
                    }
                    Some(_) => value_cell(trial, digits),
                    None => last(name),
                }
            }
            Named::Summary(name) => {
                let value = row.summary.and_then(|summary| summary.get(name));
                let value = value.and_then(Value::from_json);
                value.map_or_else(String::new, |value| param(&value))
            }
        }
    }

    /// The digits of its numbers.
    fn digits(&self, rows: &[Row<'_>]) -> ColumnDigits {
        let trials = || rows.iter().map(|row| row.trial);
        match self {
            Named::Field("value") => value_digits(trials()),
            Named::Metric(name) | Named::LastValue(name) => {
                let objective = rows.iter().find_map(|row| {
                    let mut objectives = row.spec.objectives.iter();
                    objectives.position(|objective| objective.metric == *name)
                });
                let is_several = rows.iter().any(|row| row.spec.has_several_objectives());
                match (self, objective) {
                    (Named::Metric(_), Some(index)) if is_several => {
                        objective_digits(trials(), index)
                    }
                    (Named::Metric(_), Some(_)) => value_digits(trials()),
                    _ => {
                        ColumnDigits::of(trials().filter_map(|trial| trial.last_metrics.get(name)))
                    }
                }
            }
            Named::Field(_) | Named::Param(_) | Named::Summary(_) => ColumnDigits::default(),
        }
    }

    fn align(&self, rows: &[Row<'_>]) -> Align {
        let is_number = |value: Option<&Value>| value.is_none_or(|it| it.as_number().is_some());
        match self {
            Named::Field(name) => {
                let field = FIELDS.iter().find(|(field, ..)| field == name);
                field.map_or(Align::Left, |(_, align, _)| *align)
            }
            Named::Param(name) => {
                let value = |row: &Row<'_>| is_number(shown_params(row.spec, row.trial).get(name));
                if rows.iter().all(value) { Align::Point } else { Align::Left }
            }
            Named::Summary(_) => Align::Left,
            Named::Metric(_) | Named::LastValue(_) => Align::Point,
        }
    }

    /// Adds a column for each.
    pub fn add_to<'a>(named: &[(String, Named)], rows: &'a [Row<'a>]) -> Columns<'a, Row<'a>> {
        let mut columns = Columns::of(rows);
        for (title, column) in named {
            let digits = column.digits(rows);
            let cell = move |row: &Row<'_>| column.cell(row, digits);
            columns = columns.aligned(column.align(rows), title, cell);
        }
        columns
    }
}

/// The names that columns may have.
struct ColumnNames<'a> {
    params: BTreeSet<&'a str>,
    metrics: BTreeSet<&'a str>,
    summaries: &'a BTreeSet<String>,
}

impl<'a> ColumnNames<'a> {
    fn of(studies: &'a [(&StudySpec, TrialNames)], summaries: &'a BTreeSet<String>) -> Self {
        let (mut params, mut metrics) = (BTreeSet::new(), BTreeSet::new());
        for (spec, names) in studies {
            params.extend(spec.space.dimensions().iter().map(|dimension| dimension.name.as_str()));
            params.extend(names.params.iter().map(String::as_str));
            metrics.extend(spec.objectives.iter().map(|objective| objective.metric.as_str()));
            metrics.extend(names.metrics.iter().chain(&names.series).map(String::as_str));
        }
        ColumnNames { params, metrics, summaries }
    }

    fn find(&self, word: &str) -> Result<Named, Failure> {
        let param = |name: &str| self.params.contains(name).then(|| Named::Param(name.to_owned()));
        let is_metric = |name: &&str| self.metrics.contains(name);
        let alias = ALIASES.iter().find(|(alias, _)| *alias == word);
        let field = alias.map_or(word, |(_, field)| *field);
        let field = FIELDS.iter().find(|(name, ..)| *name == field);
        let last = word.strip_prefix("metrics.").filter(is_metric);
        let summary = word.strip_prefix("summary.").filter(|name| self.summaries.contains(*name));
        field
            .map(|(name, ..)| Named::Field(name))
            .or_else(|| param(word))
            .or_else(|| is_metric(&word).then(|| Named::Metric(word.to_owned())))
            .or_else(|| word.strip_prefix("params.").and_then(param))
            .or_else(|| last.map(|name| Named::LastValue(name.to_owned())))
            .or_else(|| summary.map(|name| Named::Summary(name.to_owned())))
            .ok_or_else(|| self.unknown(word))
    }

    fn unknown(&self, word: &str) -> Failure {
        let fields = || FIELDS.iter().map(|(name, ..)| *name);
        let summaries: Vec<String> =
            self.summaries.iter().map(|name| format!("summary.{name}")).collect();
        let own = self.params.iter().chain(&self.metrics).copied();
        let own: Vec<&str> = own.chain(summaries.iter().map(String::as_str)).collect();
        let near = nearest(word, fields().chain(own.iter().copied()));
        let near = near.map_or_else(String::new, |near| format!("did you mean `{near}`? "));
        let own = match own.as_slice() {
            [] => String::new(),
            own => format!("; here also {}", quoted(own.iter().copied())),
        };
        Failure::usage(format!("`{}` is not a column", one_line(word)))
            .help(one_line(&format!("{near}the columns are {}{own}", quoted(fields()))))
    }
}

/// The metrics and the parameters that an order and a filter are about.
#[derive(Debug, Default)]
pub(super) struct Sought {
    pub metrics: BTreeSet<String>,
    pub params: BTreeSet<String>,
}

impl Sought {
    /// Adds those of a query of a study.
    pub fn add(&mut self, spec: &StudySpec, query: &TrialQuery) {
        let mut needs = Needs::default();
        query.filter.add_needs(&mut needs);
        query.sort.add_needs(&mut needs);
        let series = needs.series.into_iter().map(|(name, _)| name);
        let metrics = needs.metrics.into_iter().chain(series);
        self.metrics.extend(metrics.filter(|name| !spec.is_objective(name)));
        self.params.extend(needs.params);
    }
}

/// Gives trials the last values of the metrics that their table shows.
///
/// # Errors
/// The store failed.
pub(super) fn take_shown(
    reader: &dyn StorageReader,
    study: &StudySummary,
    (sought, named): (&Sought, &[(String, Named)]),
    trials: &mut [Trial],
) -> Result<(), StorageError> {
    let mut metrics = sought.metrics.clone();
    metrics.extend(named.iter().filter_map(|(_, column)| match column {
        Named::Metric(name) | Named::LastValue(name) => Some(name.clone()),
        _ => None,
    }));
    take_named(reader, study, &metrics, trials)
}
