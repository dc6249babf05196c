//! A line for each group of trials: how many there are, and the statistics of their values.

use std::collections::BTreeSet;

use serde::Serialize;

use super::TrialsArguments;
use crate::app::find;
use crate::app::groups::{self, GroupBy, GroupValues, Groups, TrialGroup, spread};
use crate::app::several::common_objective;
use crate::cli::groups::{GroupByJson, GroupKeyJson, say_left_out};
use crate::cli::selection::{self, of_each};
use crate::cli::{Console, Exit, Failure};
use crate::report::table::{Column, Columns};
use crate::report::wording::one_line;
use crate::storage::{StorageReader, StudySummary};
use crate::study::metric::{Number, Score};
use crate::study::params::Value;
use crate::study::query::{Filter, SortKey, TrialQuery};
use crate::study::trial::TrialNumber;

#[derive(Serialize)]
struct GroupedJson<'a> {
    #[serde(flatten)]
    by: GroupByJson<'a>,
    groups: Vec<GroupJson<'a>>,
}

#[derive(Serialize)]
struct GroupJson<'a> {
    /// Present if several studies are read.
    #[serde(skip_serializing_if = "Option::is_none")]
    study: Option<&'a str>,
    #[serde(flatten)]
    key: GroupKeyJson<'a>,
    trials: Vec<TrialNumber>,
    complete: usize,
    values: Vec<ValuesJson>,
}

#[derive(Serialize)]
struct ValuesJson {
    metric: String,
    runs: u64,
    mean: Option<Number>,
    /// None of a single run.
    deviation: Option<Number>,
    best: Option<BestJson>,
}

#[derive(Serialize)]
struct BestJson {
    trial: TrialNumber,
    value: Number,
}

impl From<GroupValues> for ValuesJson {
    fn from(values: GroupValues) -> Self {
        let GroupValues { metric, statistics, best } = values;
        ValuesJson {
            metric,
            runs: statistics.map_or(0, |one| one.runs),
            mean: statistics.map(|one| Number(one.mean)),
            deviation: statistics.as_ref().and_then(spread).map(Number),
            best: best.map(|(trial, value)| BestJson { trial, value: Number(value) }),
        }
    }
}

/// A group, and the values of its trials for each objective.
struct Row<'a> {
    study: &'a StudySummary,
    groups: &'a Groups,
    group: &'a TrialGroup,
    values: Vec<GroupValues>,
}

/// Lists the groups; where there is one objective, by their means, the best first.
pub fn trials(
    arguments: &TrialsArguments,
    by: &GroupBy,
    console: &mut Console,
) -> Result<Exit, Failure> {
    let is_several = arguments.several.is_given();
    let reader = console.reader()?;
    let studies = match is_several {
        true => arguments.several.studies(&reader, arguments.study.as_deref(), console)?,
        false => vec![find::study(&reader, arguments.study.as_deref())?],
    };
    let grouped = of_each(studies, console, |study| {
        let filter = match &arguments.filter {
            Some(text) => selection::filter_of(&reader, study, text)?,
            None => Filter::all(),
        };
        let shown = if arguments.hidden { filter.clone() } else { study.visible(filter.clone()) };
        let trials = reader.trials(study.id, &TrialQuery::all(SortKey::Number).filtered(shown))?;
        Ok((groups::groups(&reader, study, by, trials)?, filter))
    })?;
    let filters = grouped.iter().map(|(study, (_, filter))| (study, filter));
    selection::warn_of_absent(&reader, filters, console)?;
    let mut rows = Vec::new();
    for (study, (groups, _)) in &grouped {
        say_left_out(study, groups, is_several, console);
        let row =
            |group| Row { study, groups, group, values: TrialGroup::values(group, &study.spec) };
        rows.extend(groups.groups.iter().map(row));
    }
    let is_ranked = common_objective(grouped.iter().map(|(study, _)| &study.spec)).is_some();
    rows.sort_by_key(|row| {
        let mean = row.values.first().and_then(|one| one.statistics).map(|one| one.mean);
        let score = Score::new(row.study.spec.direction(), mean.unwrap_or(f64::NAN));
        let place = grouped.iter().position(|(study, _)| study.id == row.study.id);
        let is_of_one = !row.study.spec.has_several_objectives();
        (place.filter(|_| !is_ranked), is_of_one.then_some(score))
    });
    if arguments.json {
        let json = rows.into_iter().map(|row| GroupJson {
            study: is_several.then_some(row.study.spec.name.as_str()),
            key: GroupKeyJson::new(row.groups, row.group),
            trials: row.group.trials.iter().map(|trial| trial.number).collect(),
            complete: row.group.complete(),
            values: row.values.into_iter().map(ValuesJson::from).collect(),
        });
        let json = GroupedJson { by: by.into(), groups: json.collect() };
        let study = grouped.first().map(|(study, _)| study.spec.name.as_str());
        return console.json(study.filter(|_| !is_several), &json);
    }
    if rows.is_empty() {
        console.say("there are no groups yet");
        return Ok(Exit::Done);
    }
    console.table(&columns(&rows, by, (is_several, is_ranked)))?;
    Ok(Exit::Done)
}

fn columns(rows: &[Row<'_>], by: &GroupBy, (is_several, is_ranked): (bool, bool)) -> Vec<Column> {
    // Groups of other objectives have a line for each of them.
    let has_lines = is_several && !is_ranked;
    let lines = |row: &Row<'_>| if has_lines { row.values.len() } else { 1 };
    let lines: Vec<Line<'_>> =
        rows.iter().flat_map(|row| (0..lines(row)).map(move |line| (row, line))).collect();
    let mut columns = Columns::of(&lines);
    if is_several {
        columns = columns.left("study", |(row, _)| one_line(&row.study.spec.name));
    }
    for name in names(rows, by) {
        columns = columns.left(one_line(name), |(row, _)| value(row, name));
    }
    columns = columns
        .right("trials", |(row, _)| row.group.trials.len().to_string())
        .right("complete", |(row, _)| row.group.complete().to_string());
    if has_lines {
        columns = columns.left("metric", |(row, line)| one_line(&row.values[*line].metric));
    }
    let of_first = rows.first().map_or(&[][..], |row| &row.values);
    let many = if has_lines { 1 } else { of_first.len() };
    for (index, objective) in of_first.iter().enumerate().take(many) {
        let trial = of(index, |one| one.best.map(|(trial, _)| trial.to_string()));
        let mean = match has_lines {
            true => "mean".to_owned(),
            false => format!("mean {}", one_line(&objective.metric)),
        };
        columns = columns
            .metric(mean, of(index, |one| one.statistics.map(|one| one.mean)))
            .metric("deviation", of(index, |one| one.statistics.as_ref().and_then(spread)))
            .metric("best", of(index, |one| one.best.map(|(_, value)| value)))
            .right("of trial", move |line| trial(line).unwrap_or_default());
    }
    columns.end()
}

/// A group, and which of its objectives a line is about.
type Line<'a> = (&'a Row<'a>, usize);

/// Something about an objective of a line.
fn of<T>(index: usize, tell: fn(&GroupValues) -> Option<T>) -> impl Fn(&Line<'_>) -> Option<T> {
    move |(row, line)| row.values.get(index + line).and_then(tell)
}

/// The columns that tell groups apart: with `--over`, the parameters that are not everywhere the
/// same.
fn names<'a>(rows: &[Row<'a>], by: &'a GroupBy) -> Vec<&'a str> {
    if let GroupBy::Name(name) = by {
        return vec![name];
    }
    let mut names: Vec<&str> = Vec::new();
    for name in rows.iter().flat_map(|row| &row.groups.names) {
        let values: BTreeSet<String> = rows.iter().map(|row| value(row, name)).collect();
        if values.len() > 1 && !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
    names
}

/// The value of a parameter that a group has, or its name.
fn value(row: &Row<'_>, name: &str) -> String {
    let place = row.groups.names.iter().position(|own| own == name);
    let value = place.and_then(|place| row.group.values[place].as_ref());
    value.map_or_else(String::new, |value| one_line(&Value::shown(value)))
}
