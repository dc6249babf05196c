//! The trials of several studies in one table: in one order if their values are comparable, else
//! study by study.

use std::collections::BTreeMap;

use super::{TrialsArguments, alignment, time};
use crate::cli::selection;
use crate::cli::trial_json::TrialJson;
use crate::cli::{Console, Exit, Failure};
use crate::report::table::{Align, Column, Columns};
use crate::report::wording::{count, one_line, param, value_cell};
use crate::storage::{StorageReader, StudySummary};
use crate::study::query::{Filter, Place, SortKey, TrialQuery};
use crate::study::trial::Trial;

/// A trial of one of the studies.
struct Row<'a> {
    study: &'a StudySummary,
    trial: Trial,
    place: Place,
}

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
        Ok(TrialQuery { filter, sort, reverse, offset: 0, limit })
    })?;
    let is_ranked = compare(&queries);
    let mut rows: Vec<Row<'_>> = Vec::new();
    for (study, query) in &queries {
        let direction = study.spec.direction();
        let trials = reader.trials(study.id, query)?.into_iter();
        rows.extend(trials.map(|trial| Row {
            study,
            place: query.sort.place(direction, &trial),
            trial,
        }));
    }
    if is_ranked && let Some((_, query)) = queries.first() {
        // Stable: ties keep the order of the studies' names.
        rows.sort_by(|one, other| one.place.compare(&other.place, query.reverse));
        rows.truncate(usize::try_from(query.limit).unwrap_or(usize::MAX));
    }
    if arguments.json {
        let trials: Vec<TrialJson> =
            rows.iter().map(|row| TrialJson::of(&row.study.spec.name, &row.trial)).collect();
        return console.json(None, &BTreeMap::from([("trials", trials)]));
    }
    match all {
        0 => console.say("there are no trials yet"),
        all if rows.is_empty() => console.say(&format!("none of {} passes", count(all, "trial"))),
        _ => console.table(&columns(&queries, &rows))?,
    }
    Ok(Exit::Done)
}

/// Whether the trials of all studies are comparable.
fn compare(queries: &[(StudySummary, TrialQuery)]) -> bool {
    queries.iter().any(|(_, query)| query.sort != SortKey::Value) || one_metric(queries).is_some()
}

/// The common metric, if all studies optimise it in the same direction.
fn one_metric(queries: &[(StudySummary, TrialQuery)]) -> Option<&str> {
    let (first, _) = queries.first()?;
    let is_same = |(study, _): &(StudySummary, TrialQuery)| {
        study.spec.objective().metric == first.spec.objective().metric
            && study.spec.direction() == first.spec.direction()
    };
    queries.iter().all(is_same).then(|| first.spec.objective().metric.as_str())
}

fn columns(queries: &[(StudySummary, TrialQuery)], rows: &[Row<'_>]) -> Vec<Column> {
    let metric = one_metric(queries);
    let mut units: Vec<&str> = queries.iter().map(|(study, _)| study.spec.step.as_str()).collect();
    units.dedup();
    let unit = if let [unit] = units.as_slice() { unit } else { "step" };
    let mut columns = Columns::of(rows)
        .left("study", |row| one_line(&row.study.spec.name))
        .right("trial", |row| row.trial.number.to_string())
        .left("state", |row| row.trial.state.as_str())
        .point(metric.map_or_else(|| "value".to_owned(), one_line), |row| value_cell(&row.trial));
    if metric.is_none() {
        columns = columns.left("metric", |row| one_line(&row.study.spec.objective().metric));
    }
    columns = columns
        .right(unit, |row| row.trial.last().map_or_else(String::new, |(step, _)| step.to_string()))
        .right("time", |row| time(&row.trial));
    for (name, align) in params(queries) {
        let value = |row: &Row<'_>| row.trial.params.get(name).map_or_else(String::new, param);
        columns = columns.aligned(align, one_line(name), value).optional();
    }
    columns
        .left("reason", |row| row.trial.reason.as_deref().map_or_else(String::new, one_line))
        .end()
}

/// The parameters of all studies, in the order of the first that has each.
fn params(queries: &[(StudySummary, TrialQuery)]) -> Vec<(&str, Align)> {
    let mut params: Vec<(&str, Align)> = Vec::new();
    for dimension in queries.iter().flat_map(|(study, _)| study.spec.space.dimensions()) {
        if params.iter().all(|(known, _)| *known != dimension.name) {
            params.push((&dimension.name, alignment(&dimension.distribution)));
        }
    }
    params
}
