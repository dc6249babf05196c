//! The mean curves of groups of trials, with their standard deviations.

use serde::Serialize;
use serde_json::Value as Json;

use super::CurvesArguments;
use crate::app::curves::Detail;
use crate::app::exact_points::ExactStep;
use crate::app::figures::{FigureOptions, group_figure, grouped_series};
use crate::app::find;
use crate::app::groups::{self, GroupCurve, Groups, spread};
use crate::cli::drawing::{self, Size};
use crate::cli::{Console, Exit, Failure};
use crate::report::table::{Column, Columns};
use crate::report::wording::number;
use crate::storage::StorageError;
use crate::study::metric::Number;
use crate::study::series::SeriesAxis;
use crate::study::statistics::Statistics;
use crate::study::trial::TrialNumber;

#[derive(Serialize)]
struct GroupedJson<'a> {
    by: &'a str,
    metric: &'a str,
    #[serde(rename = "clock")]
    axis: SeriesAxis,
    groups: Vec<GroupJson>,
}

#[derive(Serialize)]
struct GroupJson {
    value: Json,
    trials: Vec<TrialNumber>,
    points: Vec<PointJson>,
}

#[derive(Serialize)]
struct PointJson {
    step: Json,
    runs: u64,
    mean: Number,
    /// None of a single run.
    deviation: Option<Number>,
}

/// Prints the curves of all trials, or of the named ones.
pub fn curves(
    arguments: &CurvesArguments,
    by: &str,
    console: &mut Console,
) -> Result<Exit, Failure> {
    let reader = console.reader()?;
    let (study, named) = find::study_and_trials(&reader, &arguments.words)?;
    let trials = match named.as_slice() {
        [] => groups::visible_trials(&reader, &study)?,
        named => named
            .iter()
            .map(|number| find::trial(&reader, &study, *number))
            .collect::<Result<_, _>>()?,
    };
    let groups = groups::groups(&reader, &study, by, trials)?;
    if let Some(lack) = groups.lack() {
        console.say(&lack);
    }
    let width = arguments.width.unwrap_or_else(|| console.columns());
    let options = FigureOptions {
        metric: arguments.choice.metric.clone(),
        axis: arguments.choice.axis,
        detail: Detail::Columns(width),
        ..FigureOptions::default()
    };
    if !arguments.json && !arguments.table {
        let figure = group_figure(&reader, &study, &groups, &options)?;
        let size = Size { width, height: arguments.height };
        drawing::print(&mut console.out, &figure, size, console.look)?;
        return Ok(Exit::Done);
    }
    let (metric, axis) = grouped_series(&reader, &study, &groups, &options)?;
    let curves = groups.groups.iter().map(|group| group.curve(&reader, &study, &metric, axis));
    let curves = curves.collect::<Result<Vec<GroupCurve>, StorageError>>()?;
    if arguments.table {
        console.table(&columns(axis.as_str(), &groups, &curves))?;
        return Ok(Exit::Done);
    }
    let json = GroupedJson { by, metric: &metric, axis, groups: groups_json(&groups, curves) };
    console.json_of_version(2, Some(&study.spec.name), &json)
}

fn groups_json(groups: &Groups, curves: Vec<GroupCurve>) -> Vec<GroupJson> {
    let point = |(step, statistics): &(ExactStep, Statistics)| PointJson {
        step: step.to_json(),
        runs: statistics.runs,
        mean: Number(statistics.mean),
        deviation: spread(statistics).map(Number),
    };
    let all = groups.groups.iter().zip(curves);
    let json = all.map(|(group, curve)| GroupJson {
        value: group.value.to_json(),
        points: curve.points.iter().map(point).collect(),
        trials: curve.trials,
    });
    json.collect()
}

fn columns(unit: &str, groups: &Groups, curves: &[GroupCurve]) -> Vec<Column> {
    let mut steps: Vec<ExactStep> =
        curves.iter().flat_map(|curve| curve.points.iter().map(|(step, _)| *step)).collect();
    steps.sort_by(ExactStep::order);
    steps.dedup();
    let mut columns = Columns::of(&steps).right(unit, ExactStep::to_string);
    for (group, curve) in groups.groups.iter().zip(curves) {
        let at = |step: &ExactStep| {
            let at = curve.points.binary_search_by(|(other, _)| other.order(step));
            at.ok().map(|index| curve.points[index].1)
        };
        let cell = |tell: fn(&Statistics) -> Option<String>| {
            move |step: &ExactStep| at(step).as_ref().and_then(tell).unwrap_or_default()
        };
        columns = columns
            .point(groups.label(group), cell(|one| Some(number(one.mean))))
            .point("deviation", cell(|one| spread(one).map(number)))
            .right("runs", cell(|one| Some(one.runs.to_string())));
    }
    columns.end()
}
