//! A line for each group of trials: how many there are, and the statistics of their values.

use serde::Serialize;
use serde_json::Value as Json;

use super::TrialsArguments;
use crate::app::groups::{self, GroupValues, TrialGroup, spread};
use crate::cli::{Console, Exit, Failure};
use crate::report::table::Columns;
use crate::report::wording::{number, one_line};
use crate::storage::{StorageReader, StudySummary};
use crate::study::metric::{Number, Score};
use crate::study::query::{Filter, SortKey, TrialQuery};
use crate::study::trial::TrialNumber;

#[derive(Serialize)]
struct GroupedJson<'a> {
    by: &'a str,
    groups: Vec<GroupJson>,
}

#[derive(Serialize)]
struct GroupJson {
    value: Json,
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

/// Lists the groups; those of one objective by their means, the best first.
pub fn trials(
    arguments: &TrialsArguments,
    by: &str,
    (reader, study, filter): (&dyn StorageReader, &StudySummary, Filter),
    console: &mut Console,
) -> Result<Exit, Failure> {
    let query = TrialQuery::all(SortKey::Number).filtered(filter);
    let groups = groups::groups(reader, study, by, reader.trials(study.id, &query)?)?;
    if let Some(lack) = groups.lack() {
        console.say(&lack);
    }
    let labels = groups.groups.iter().map(|group| one_line(&group.value.shown()));
    let mut rows: Vec<(String, &TrialGroup, Vec<GroupValues>)> = labels
        .zip(&groups.groups)
        .map(|(label, group)| (label, group, group.values(&study.spec)))
        .collect();
    if !study.spec.has_several_objectives() {
        let direction = study.spec.direction();
        rows.sort_by_key(|(.., values)| {
            let mean = values.first().and_then(|one| one.statistics).map(|one| one.mean);
            Score::new(direction, mean.unwrap_or(f64::NAN))
        });
    }
    if arguments.json {
        let json = rows.into_iter().map(|(_, group, values)| GroupJson {
            value: group.value.to_json(),
            trials: group.trials.iter().map(|trial| trial.number).collect(),
            complete: group.complete(),
            values: values.into_iter().map(ValuesJson::from).collect(),
        });
        let json = GroupedJson { by, groups: json.collect() };
        return console.json(Some(&study.spec.name), &json);
    }
    if rows.is_empty() {
        console.say("there are no groups yet");
        return Ok(Exit::Done);
    }
    let mut columns = Columns::of(&rows)
        .left(one_line(by), |(label, ..)| label.clone())
        .right("trials", |(_, group, _)| group.trials.len().to_string())
        .right("complete", |(_, group, _)| group.complete().to_string());
    for (index, objective) in study.spec.objectives.iter().enumerate() {
        type Row<'a> = (String, &'a TrialGroup, Vec<GroupValues>);
        let cell = |tell: fn(&GroupValues) -> Option<String>| {
            move |(.., values): &Row<'_>| values.get(index).and_then(tell).unwrap_or_default()
        };
        columns = columns
            .point(
                format!("mean {}", one_line(&objective.metric)),
                cell(|one| one.statistics.map(|one| number(one.mean))),
            )
            .point("deviation", cell(|one| one.statistics.as_ref().and_then(spread).map(number)))
            .point("best", cell(|one| one.best.map(|(_, value)| number(value))))
            .right("of trial", cell(|one| one.best.map(|(trial, _)| trial.to_string())));
    }
    console.table(&columns.end())?;
    Ok(Exit::Done)
}
