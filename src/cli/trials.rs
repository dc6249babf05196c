//! `hpsearch trials`: the trials of a study, or of several, filtered and in any order.

mod columns;
mod grouped;
mod several;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use clap::Args;

use columns::{Named, Row, Sought, take_shown};

use super::groups::GroupArguments;
use super::selection::{self, SeveralArguments};
use super::trial_json::TrialJson;
use super::{Console, Exit, Failure};
use crate::app::last_values::take_logged;
use crate::app::study_state::{interrupted, times_spent, with_open_attempts};
use crate::report::table::{Align, Column, Columns};
use crate::report::wording::{
    duration, number, objective_cell, objective_digits, one_line, param, run_name, state_cell,
    value_cell, value_digits,
};
use crate::storage::{StorageReader, StudySummary, Summaries};
use crate::study::counted::count;
use crate::study::query::{SortKey, TrialQuery};
use crate::study::space::Distribution;
use crate::study::state::shown_params;
use crate::study::trial::{Trial, TrialNumber};

/// Arguments of `hpsearch trials`.
#[derive(Clone, Debug, Args)]
#[command(after_help = selection::with_filters("\
Examples:
  hpsearch trials digits --limit 10
  hpsearch trials digits --where 'optim=sgd -state:failed' --sort optim
  hpsearch trials digits --sort number --json
  hpsearch trials digits --columns trial,eval_loss,eval_accuracy,optim,time
  hpsearch trials runs --by group            mean and spread of each
  hpsearch trials runs --over seed           of each configuration
  hpsearch trials --study 'sms*' --by optim
  hpsearch trials --all --limit 20           the best of all studies
  hpsearch trials --study 'sms*' --where 'epochs>3'"))]
pub struct TrialsArguments {
    /// The study's name or file
    pub study: Option<String>,
    /// Several studies instead.
    #[command(flatten)]
    pub several: SeveralArguments,
    /// Only trials that match the filter (see below)
    #[arg(long = "where", value_name = "FILTER", allow_hyphen_values = true)]
    pub filter: Option<String>,
    /// The order: value, number, step, seconds, state, created, started, a parameter or a metric
    #[arg(
        long,
        value_name = "KEY",
        default_value = "value",
        allow_hyphen_values = true,
        conflicts_with_all = ["by", "over"]
    )]
    pub sort: String,
    /// Reverse the order
    #[arg(short, long, conflicts_with_all = ["by", "over"])]
    pub reverse: bool,
    /// Only the first N trials; N of each study if their values cannot be compared
    #[arg(long, value_name = "N", conflicts_with_all = ["by", "over"])]
    pub limit: Option<u64>,
    /// Only these columns, in this order: trial, name, state, value, time, .., parameters, metrics,
    /// summary.NAME
    #[arg(
        long,
        value_name = "NAMES",
        value_delimiter = ',',
        conflicts_with_all = ["by", "over", "json"]
    )]
    pub columns: Vec<String>,
    /// A line for each group of trials.
    #[command(flatten)]
    pub groups: GroupArguments,
    /// List hidden trials, too
    #[arg(long)]
    pub hidden: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

fn time(spent: Option<&Duration>) -> String {
    spent.filter(|spent| !spent.is_zero()).map_or_else(String::new, |spent| duration(*spent))
}

/// Lists the trials.
pub fn trials(arguments: &TrialsArguments, console: &mut Console) -> Result<Exit, Failure> {
    if let Some(by) = &arguments.groups.group_by() {
        return grouped::trials(arguments, by, console);
    }
    if arguments.several.is_given() {
        return several::trials(arguments, console);
    }
    let (reader, study) = console.study(arguments.study.as_deref())?;
    let filter = selection::filter(&reader, &study, arguments.filter.as_deref(), console)?;
    let filter = if arguments.hidden { filter } else { study.visible(filter) };
    let (sort, turned) = selection::sort_key(&reader, &study, &arguments.sort)?;
    let query = TrialQuery {
        filter,
        sort,
        reverse: turned != arguments.reverse,
        offset: 0,
        limit: arguments.limit.unwrap_or(u64::MAX),
    };
    let query = with_open_attempts(&reader, &study, query)?;
    let mut trials = reader.trials(study.id, &query)?;
    let times = times_spent(&reader, &study, &trials)?;
    let mut summaries = match arguments.needs_summaries() {
        true => reader.trial_summaries(study.id)?,
        false => Summaries::new(),
    };
    if arguments.json {
        take_logged(&reader, &study, &mut trials)?;
        let mut json = |trial: &Trial| {
            TrialJson::new(&study.spec, trial)
                .after(times.get(&trial.number).copied())
                .measured(trial, summaries.remove(&trial.number))
        };
        let trials: Vec<TrialJson> = trials.iter().map(&mut json).collect();
        return console.json(Some(&study.spec.name), &BTreeMap::from([("trials", trials)]));
    }
    let names = summaries.values().flat_map(|summary| summary.keys().cloned()).collect();
    let names = (reader.trial_names(study.id)?, names);
    let named = Named::all(&arguments.columns, &[(&study.spec, names.0)], &names.1)?;
    let mut sought = Sought::default();
    sought.add(&study.spec, &query);
    take_shown(&reader, &study, (&sought, &named), &mut trials)?;
    match study.counts.total() {
        0 if study.spec.is_tracked() => console.say("the study has no runs"),
        0 => console.say("the study has no trials yet"),
        all if trials.is_empty() => console.say(&format!("none of {} passes", count(all, "trial"))),
        _ => {
            let dead = interrupted(&reader, &study, &trials)?;
            let row = |trial| Row {
                spec: &study.spec,
                trial,
                state: state(trial, &dead),
                spent: times.get(&trial.number).copied(),
                summary: summaries.get(&trial.number),
            };
            match named.as_slice() {
                [] => console.table(&columns(&study, &trials, (&dead, &times), &sought))?,
                named => {
                    let rows: Vec<Row<'_>> = trials.iter().map(row).collect();
                    console.table(&Named::add_to(named, &rows).end())?;
                    return Ok(Exit::Done);
                }
            }
            if let Some(front) = &study.front
                && let Some(knee) = front.knee
            {
                let order = match query.sort == SortKey::Value && !query.reverse {
                    true => ", first those that add most to its hypervolume",
                    false => "",
                };
                console.say(&format!("* on the front{order}; trial {knee} is its compromise"));
            }
        }
    }
    Ok(Exit::Done)
}

impl TrialsArguments {
    /// Whether the summaries of trials are shown.
    fn needs_summaries(&self) -> bool {
        self.json || self.columns.iter().any(|name| name.starts_with("summary."))
    }
}

fn state(trial: &Trial, interrupted: &BTreeSet<TrialNumber>) -> &'static str {
    match interrupted.contains(&trial.number) {
        true => "interrupted",
        false => state_cell(trial),
    }
}

fn alignment(distribution: &Distribution) -> Align {
    match distribution {
        Distribution::Float { .. } => Align::Point,
        Distribution::Int { .. } => Align::Right,
        Distribution::Choice { .. } => Align::Left,
    }
}

fn metric_cell(trial: &Trial, name: &str) -> String {
    trial.last_metrics.get(name).map_or_else(String::new, number)
}

fn columns(
    study: &StudySummary,
    trials: &[Trial],
    (interrupted, times): (&BTreeSet<TrialNumber>, &BTreeMap<TrialNumber, Duration>),
    sought: &Sought,
) -> Vec<Column> {
    let time = |trial: &Trial| time(times.get(&trial.number));
    let mut columns = Columns::of(trials).right("trial", |trial| trial.number.to_string());
    if study.spec.is_tracked() {
        let name = |trial: &Trial| run_name(trial).map_or_else(String::new, one_line);
        columns = columns.left("name", name).optional();
    }
    columns = columns.left("state", |trial: &Trial| state(trial, interrupted));
    if let Some(front) = &study.front {
        let mark = |trial: &Trial| if front.contains(trial.number) { "*" } else { "" };
        columns = columns.left("front", mark).optional();
        for (index, objective) in study.spec.objectives.iter().enumerate() {
            let digits = objective_digits(trials, index);
            columns = columns.point(one_line(&objective.metric), move |trial: &Trial| {
                objective_cell(trial, index, digits)
            });
        }
    } else {
        let digits = value_digits(trials);
        columns = columns.point(one_line(&study.spec.objective().metric), |trial: &Trial| {
            value_cell(trial, digits)
        });
    }
    for name in &sought.metrics {
        columns = columns.point(one_line(name), |trial: &Trial| metric_cell(trial, name));
    }
    columns = columns
        .right(study.spec.step.as_str(), |trial| {
            trial.last_step().map_or_else(String::new, |step| step.to_string())
        })
        .right("time", time);
    for dimension in study.spec.space.dimensions() {
        let align = alignment(&dimension.distribution);
        let value = |trial: &Trial| {
            let params = shown_params(&study.spec, trial);
            params.get(&dimension.name).map_or_else(String::new, param)
        };
        columns = columns.aligned(align, one_line(&dimension.name), value);
        if !sought.params.contains(&dimension.name) {
            columns = columns.optional();
        }
    }
    if study.spec.is_tracked() {
        let names: BTreeSet<&str> =
            trials.iter().flat_map(|trial| trial.params.iter()).map(|(name, _)| name).collect();
        for name in names {
            let value = |trial: &Trial| trial.params.get(name).map_or_else(String::new, param);
            columns = columns.left(one_line(name), value);
            if !sought.params.contains(name) {
                columns = columns.optional();
            }
        }
    }
    let reason = |trial: &Trial| trial.reason.as_deref().map_or_else(String::new, one_line);
    columns.left("reason", reason).end()
}
