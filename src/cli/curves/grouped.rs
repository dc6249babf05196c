//! The mean curves of groups of trials, with their standard deviations.

use std::io::Write as _;

use serde::Serialize;
use serde_json::Value as Json;

use super::CurvesArguments;
use crate::app::curves::Detail;
use crate::app::exact_points::ExactStep;
use crate::app::figures::{FigureOptions, GroupedSeries, group_figures, grouped_series};
use crate::app::find::{self, TrialsOf};
use crate::app::groups::{self, GroupBy, GroupCurve, spread};
use crate::cli::drawing::{self, Size};
use crate::cli::groups::{GroupByJson, GroupKeyJson, say_left_out};
use crate::cli::selection::of_each;
use crate::cli::{Console, Exit, Failure};
use crate::report::table::{Column, Columns};
use crate::report::wording::{number, one_line};
use crate::storage::StorageError;
use crate::study::metric::Number;
use crate::study::series::SeriesAxis;
use crate::study::statistics::Statistics;
use crate::study::trial::TrialNumber;

#[derive(Serialize)]
struct GroupedJson<'a> {
    #[serde(flatten)]
    by: GroupByJson<'a>,
    #[serde(flatten)]
    series: Option<SeriesJson<'a>>,
    groups: Vec<GroupJson<'a>>,
}

/// Of one study said once, of several in each group.
#[derive(Serialize)]
struct SeriesJson<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    study: Option<&'a str>,
    metric: &'a str,
    #[serde(rename = "clock")]
    axis: SeriesAxis,
}

#[derive(Serialize)]
struct GroupJson<'a> {
    #[serde(flatten)]
    series: Option<SeriesJson<'a>>,
    #[serde(flatten)]
    key: GroupKeyJson<'a>,
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

/// Prints the curves of all trials, or of the named ones; `of_studies`: named ones of several
/// studies.
pub fn curves(
    arguments: &CurvesArguments,
    by: &GroupBy,
    of_studies: Option<Vec<TrialsOf>>,
    console: &mut Console,
) -> Result<Exit, Failure> {
    let reader = console.reader()?;
    let is_several = arguments.several.is_given() || of_studies.is_some();
    let named = match of_studies {
        Some(named) => named,
        None if is_several => {
            let word = arguments.words.first().map(String::as_str);
            let studies = arguments.several.studies(&reader, word, console)?;
            studies.into_iter().map(|study| (study, Vec::new())).collect()
        }
        None => vec![find::study_and_trials(&reader, &arguments.words)?],
    };
    let width = arguments.width.unwrap_or_else(|| console.columns());
    let options = FigureOptions {
        metric: arguments.choice.metric.clone(),
        axis: arguments.choice.axis,
        detail: Detail::Columns(width),
        ..FigureOptions::default()
    };
    let studies = named.iter().map(|(study, _)| study.clone()).collect();
    let grouped = of_each(studies, console, |study| {
        let numbers = named.iter().find(|(other, _)| other.id == study.id);
        let trials = match numbers.map_or(&[][..], |(_, numbers)| numbers) {
            [] => groups::visible_trials(&reader, study)?,
            numbers => numbers
                .iter()
                .map(|number| find::trial(&reader, study, *number))
                .collect::<Result<_, _>>()?,
        };
        let groups = groups::groups(&reader, study, by, trials)?;
        Ok(grouped_series(&reader, study, groups, &options)?)
    })?;
    let grouped: Vec<GroupedSeries> = grouped.into_iter().map(|(_, series)| series).collect();
    for GroupedSeries { study, groups, .. } in &grouped {
        say_left_out(study, groups, is_several, console);
    }
    if !arguments.json && !arguments.table {
        let size = Size { width, height: arguments.height };
        for (index, figure) in group_figures(&reader, &grouped, &options)?.iter().enumerate() {
            if index > 0 {
                writeln!(console.out)?;
            }
            drawing::print(&mut console.out, &figure.figure, size, console.look)?;
        }
        return Ok(Exit::Done);
    }
    let of_one = |one: &GroupedSeries| -> Result<Vec<GroupCurve>, StorageError> {
        let groups = one.groups.groups.iter();
        groups.map(|group| group.curve(&reader, &one.study, &one.metric, one.axis)).collect()
    };
    let curves = grouped.iter().map(of_one).collect::<Result<Vec<_>, _>>()?;
    let all: Vec<(&GroupedSeries, Vec<GroupCurve>)> = grouped.iter().zip(curves).collect();
    match (all.as_slice(), arguments.table) {
        ([(only, curves)], true) if !is_several => console.table(&columns(only, curves))?,
        (several, true) => console.table(&columns_of_several(several))?,
        _ => {
            let study = grouped.first().map(|one| one.study.spec.name.as_str());
            let json = GroupedJson {
                by: by.into(),
                series: grouped.first().filter(|_| !is_several).map(|one| series(one, false)),
                groups: all.iter().flat_map(|one| groups_json(one, is_several)).collect(),
            };
            return console.json_of_version(2, study.filter(|_| !is_several), &json);
        }
    }
    Ok(Exit::Done)
}

fn series(one: &GroupedSeries, is_several: bool) -> SeriesJson<'_> {
    let study = is_several.then_some(one.study.spec.name.as_str());
    SeriesJson { study, metric: &one.metric, axis: one.axis }
}

fn groups_json<'a>(
    (one, curves): &'a (&GroupedSeries, Vec<GroupCurve>),
    is_several: bool,
) -> impl Iterator<Item = GroupJson<'a>> {
    let point = |(step, statistics): &(ExactStep, Statistics)| PointJson {
        step: step.to_json(),
        runs: statistics.runs,
        mean: Number(statistics.mean),
        deviation: spread(statistics).map(Number),
    };
    one.groups.groups.iter().zip(curves).map(move |(group, curve)| GroupJson {
        series: is_several.then(|| series(one, true)),
        key: GroupKeyJson::new(&one.groups, group),
        trials: curve.trials.clone(),
        points: curve.points.iter().map(point).collect(),
    })
}

fn columns(one: &GroupedSeries, curves: &[GroupCurve]) -> Vec<Column> {
    let mut steps: Vec<ExactStep> =
        curves.iter().flat_map(|curve| curve.points.iter().map(|(step, _)| *step)).collect();
    steps.sort_by(ExactStep::order);
    steps.dedup();
    let mut columns = Columns::of(&steps).right(one.axis.as_str(), ExactStep::to_string);
    for (label, curve) in one.groups.labels().into_iter().zip(curves) {
        let at = |step: &ExactStep| {
            let at = curve.points.binary_search_by(|(other, _)| other.order(step));
            at.ok().map(|index| curve.points[index].1)
        };
        let cell = |tell: fn(&Statistics) -> Option<String>| {
            move |step: &ExactStep| at(step).as_ref().and_then(tell).unwrap_or_default()
        };
        columns = columns
            .point(label, cell(|one| Some(number(one.mean))))
            .point("deviation", cell(|one| spread(one).map(number)))
            .right("runs", cell(|one| Some(one.runs.to_string())));
    }
    columns.end()
}

/// One row for each point: groups of several studies have few steps in common.
fn columns_of_several(all: &[(&GroupedSeries, Vec<GroupCurve>)]) -> Vec<Column> {
    let mut rows: Vec<(&GroupedSeries, String, ExactStep, Statistics)> = Vec::new();
    for (one, curves) in all {
        for (label, curve) in one.groups.labels().into_iter().zip(curves) {
            let points = curve.points.iter();
            rows.extend(points.map(|(step, value)| (*one, label.clone(), *step, *value)));
        }
    }
    Columns::of(&rows)
        .left("study", |(one, ..)| one_line(&one.study.spec.name))
        .left("group", |(_, label, ..)| label.clone())
        .left("metric", |(one, ..)| one_line(&one.metric))
        .left("unit", |(one, ..)| one.axis.as_str())
        .right("step", |(.., step, _)| step.to_string())
        .point("mean", |(.., value)| number(value.mean))
        .point("deviation", |(.., value)| spread(value).map(number).unwrap_or_default())
        .right("runs", |(.., value)| value.runs.to_string())
        .end()
}
