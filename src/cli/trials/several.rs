//! The trials of several studies in one table: in one order if their values are comparable, else
//! study by study.

use std::collections::BTreeMap;
use std::time::Duration;

use super::columns::{Named, Row, Sought, take_shown};
use super::{TrialsArguments, alignment, metric_cell, time};
use crate::app::last_values::take_logged;
use crate::app::several::{self, RankedTrial};
use crate::app::study_state::{times_spent, with_open_attempts};
use crate::cli::selection;
use crate::cli::trial_json::TrialJson;
use crate::cli::{Console, Exit, Failure};
use crate::report::table::{Align, Column, Columns};
use crate::report::wording::{
    metric_names, objective_cell, objective_digits, one_line, param, run_name, state_cell,
    value_cell, value_digits,
};
use crate::storage::{StorageReader as _, StudySummary, Summaries};
use crate::study::counted::count;
use crate::study::query::{Filter, TrialQuery};
use crate::study::state::shown_params;
use crate::study::trial::{Trial, TrialNumber};

/// The time spent on each trial, by the index of its study.
type Times = BTreeMap<(usize, TrialNumber), Duration>;

/// Lists them.
pub fn trials(arguments: &TrialsArguments, console: &mut Console) -> Result<Exit, Failure> {
    let reader = console.reader()?;
    let studies = arguments.several.studies(&reader, arguments.study.as_deref(), console)?;
    let all: u64 = studies.iter().map(|study| study.counts.total()).sum();
    let queries = selection::of_each(studies, console, |study| {
        let filter = match &arguments.filter {
            Some(text) => selection::filter_of(&reader, study, text)?,
            None => Filter::all(),
        };
        let filter = if arguments.hidden { filter } else { study.visible(filter) };
        let (sort, turned) = selection::sort_key(&reader, study, &arguments.sort)?;
        let reverse = turned != arguments.reverse;
        let limit = arguments.limit.unwrap_or(u64::MAX);
        let query = TrialQuery { filter, sort, reverse, offset: 0, limit };
        Ok(with_open_attempts(&reader, study, query)?)
    })?;
    let filters = queries.iter().map(|(study, query)| (study, &query.filter));
    selection::warn_of_absent(&reader, filters, console)?;
    let specs = || queries.iter().map(|(study, _)| &study.spec);
    let is_ranked =
        queries.first().is_some_and(|(_, query)| several::ranks_together(specs(), &query.sort));
    let limit = arguments.limit.filter(|_| is_ranked).unwrap_or(u64::MAX);
    let mut rows = several::page(&reader, &queries, 0, limit)?.rows;
    let mut sought = Sought::default();
    queries.iter().for_each(|(study, query)| sought.add(&study.spec, query));
    let mut summaries: Vec<Summaries> = Vec::new();
    let mut names = Vec::new();
    for (study, _) in &queries {
        names.push((&study.spec, reader.trial_names(study.id)?));
        summaries.push(match arguments.needs_summaries() {
            true => reader.trial_summaries(study.id)?,
            false => Summaries::new(),
        });
    }
    let in_summaries = summaries.iter().flat_map(Summaries::values);
    let in_summaries = in_summaries.flat_map(|summary| summary.keys().cloned()).collect();
    let named = Named::all(&arguments.columns, &names, &in_summaries)?;
    for (index, (study, _)) in queries.iter().enumerate() {
        let is_own = |row: &&mut RankedTrial| row.study == index;
        let mut own: Vec<Trial> =
            rows.iter().filter(|row| row.study == index).map(|row| row.trial.clone()).collect();
        match arguments.json {
            true => take_logged(&reader, study, &mut own)?,
            false => take_shown(&reader, study, (&sought, &named), &mut own)?,
        }
        rows.iter_mut().filter(is_own).zip(own).for_each(|(row, own)| row.trial = own);
    }
    let spec = |row: &RankedTrial| &queries[row.study].0.spec;
    let mut times = Times::new();
    for row in &rows {
        let study = &queries[row.study].0;
        let spent = times_spent(&reader, study, std::slice::from_ref(&row.trial))?;
        times.extend(spent.into_iter().map(|(trial, spent)| ((row.study, trial), spent)));
    }
    if arguments.json {
        let json = |row: &RankedTrial| {
            let spent = times.get(&(row.study, row.trial.number)).copied();
            let summary = summaries[row.study].get(&row.trial.number).cloned();
            TrialJson::of_study(spec(row), &row.trial).after(spent).measured(&row.trial, summary)
        };
        let trials: Vec<TrialJson> = rows.iter().map(json).collect();
        return console.json(None, &BTreeMap::from([("trials", trials)]));
    }
    match all {
        0 => console.say("there are no trials yet"),
        all if rows.is_empty() => console.say(&format!("none of {} passes", count(all, "trial"))),
        _ if named.is_empty() => console.table(&columns(&queries, &rows, &times, &sought))?,
        _ => {
            let rows = rows.iter().map(|row| Row {
                spec: spec(row),
                trial: &row.trial,
                state: state_cell(&row.trial),
                spent: times.get(&(row.study, row.trial.number)).copied(),
                summary: summaries[row.study].get(&row.trial.number),
            });
            let rows: Vec<Row<'_>> = rows.collect();
            console.table(&Named::add_to(&named, &rows).end())?;
        }
    }
    Ok(Exit::Done)
}

fn columns(
    queries: &[(StudySummary, TrialQuery)],
    rows: &[RankedTrial],
    times: &Times,
    sought: &Sought,
) -> Vec<Column> {
    let spec = |row: &RankedTrial| &queries[row.study].0.spec;
    let mut units: Vec<&str> = queries.iter().map(|(study, _)| study.spec.step.as_str()).collect();
    units.dedup();
    let unit = if let [unit] = units.as_slice() { unit } else { "step" };
    let mut columns = Columns::of(rows)
        .left("study", |row| one_line(&spec(row).name))
        .right("trial", |row| row.trial.number.to_string());
    if queries.iter().any(|(study, _)| study.spec.is_tracked()) {
        let name = |row: &RankedTrial| run_name(&row.trial).map_or_else(String::new, one_line);
        columns = columns.left("name", name).optional();
    }
    columns = columns.left("state", |row| state_cell(&row.trial));
    let trials = || rows.iter().map(|row| &row.trial);
    let objectives = several::common_objectives(queries.iter().map(|(study, _)| &study.spec));
    if let Some(objectives @ [_, _, ..]) = objectives {
        columns = columns.left("front", |row| {
            let front = queries[row.study].0.front.as_ref();
            if front.is_some_and(|front| front.contains(row.trial.number)) { "*" } else { "" }
        });
        columns = columns.optional();
        for (index, objective) in objectives.iter().enumerate() {
            let digits = objective_digits(trials(), index);
            columns = columns.point(one_line(&objective.metric), move |row: &RankedTrial| {
                objective_cell(&row.trial, index, digits)
            });
        }
    } else {
        let title = match objectives {
            Some([objective]) => one_line(&objective.metric),
            _ if queries.iter().any(|(study, _)| study.spec.has_several_objectives()) => {
                "values".to_owned()
            }
            _ => "value".to_owned(),
        };
        let digits = value_digits(trials());
        columns = columns.point(title, |row| value_cell(&row.trial, digits));
    }
    if objectives.is_none() {
        columns = columns.left("metric", |row| metric_names(spec(row)));
    }
    let is_shown = |name: &str| {
        objectives.is_some_and(|all| all.iter().any(|objective| objective.metric == name))
    };
    for name in sought.metrics.iter().filter(|name| !is_shown(name)) {
        columns = columns.point(one_line(name), |row| metric_cell(&row.trial, name));
    }
    columns = columns
        .right(unit, |row| row.trial.last_step().map_or_else(String::new, |step| step.to_string()))
        .right("time", |row| time(times.get(&(row.study, row.trial.number))));
    for (name, align) in params(queries, rows) {
        let value = |row: &RankedTrial| {
            let params = shown_params(spec(row), &row.trial);
            params.get(name).map_or_else(String::new, param)
        };
        columns = columns.aligned(align, one_line(name), value);
        if !sought.params.contains(name) {
            columns = columns.optional();
        }
    }
    columns
        .left("reason", |row| row.trial.reason.as_deref().map_or_else(String::new, one_line))
        .end()
}

/// The parameters of all studies, in the order of the first that has each, and those of tracked
/// runs.
fn params<'a>(
    queries: &'a [(StudySummary, TrialQuery)],
    rows: &'a [RankedTrial],
) -> Vec<(&'a str, Align)> {
    let mut params: Vec<(&str, Align)> = Vec::new();
    for dimension in queries.iter().flat_map(|(study, _)| study.spec.space.dimensions()) {
        if params.iter().all(|(known, _)| *known != dimension.name) {
            params.push((&dimension.name, alignment(&dimension.distribution)));
        }
    }
    let of_runs = rows.iter().filter(|row| queries[row.study].0.spec.is_tracked());
    for (name, _) in of_runs.flat_map(|row| row.trial.params.iter()) {
        if params.iter().all(|(known, _)| *known != name) {
            params.push((name, Align::Left));
        }
    }
    params
}
