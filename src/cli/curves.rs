//! `hpsearch curves`: the reported and logged values of trials, as a chart, a table or JSON.

mod grouped;
mod several;

use std::borrow::Cow;

use clap::Args;
use serde::Serialize;

use super::drawing::{self, Size};
use super::selection::SeveralArguments;
use super::series_choice::SeriesArguments;
use super::{Console, Exit, Failure};
use crate::app::curves::{Detail, points, seconds_since, shown_axis};
use crate::app::exact_points::{ExactStep, exact_points};
use crate::app::figures::FigureError;
use crate::app::find;
use crate::report::figure::{Axis, Figure, Mark, Series, SeriesRole};
use crate::report::table::{Column, Columns};
use crate::report::wording::{number, one_line};
use crate::storage::{StorageError, StorageReader, StudySummary};
use crate::study::metric::Number;
use crate::study::query::{Filter, SortKey, TrialQuery};
use crate::study::series::{Point, SeriesAxis, SeriesSummary};
use crate::study::suggestion::quoted;
use crate::study::trial::{Trial, TrialNumber, TrialState};

const EXAMPLES: &str = "\
Examples:
  hpsearch curves                        the best trials of the only study
  hpsearch curves digits 3 7             two trials, overlaid
  hpsearch curves digits 0-9 --metric eval_accuracy
  hpsearch curves digits 7 --metric train/loss --clock step
  hpsearch curves digits 7 --metric system/memory
  hpsearch curves runs --by group        the mean of each group of runs
  hpsearch curves runs --by lr           the same of each value of a parameter
  hpsearch curves runs --over seed       of each configuration, over its seeds
  hpsearch curves digits 0-5 --wall      by seconds since each trial began
  hpsearch curves digits 7 --table       the numbers
  hpsearch curves sms/3 digits/7         trials of two studies
  hpsearch curves --study 'sms*'         the best of several studies
  hpsearch curves digits --json | jq '.series[0].points'

`hpsearch show digits 7` names the metrics of a trial and their axes.";

/// Number of trials shown by default: one per colour.
const SHOWN: u64 = 6;

/// Arguments of `hpsearch curves`.
#[derive(Clone, Debug, Args)]
#[command(after_help = EXAMPLES, override_usage = "hpsearch curves [OPTIONS] [STUDY] [TRIAL]...")]
pub struct CurvesArguments {
    /// The study's name or file, then numbers of trials (7 or 3,5 or 0-4) [default: the best six]
    #[arg(value_name = "STUDY, TRIAL")]
    pub words: Vec<String>,
    /// Several studies instead.
    #[command(flatten)]
    pub several: SeveralArguments,
    /// Which series.
    #[command(flatten)]
    pub choice: SeriesArguments,
    /// Print the numbers as a table
    #[arg(long, conflicts_with_all = ["json", "wall"])]
    pub table: bool,
    /// Columns of the chart [default: those of the terminal, 80 in a pipe]
    #[arg(long, value_name = "COLUMNS", value_parser = clap::value_parser!(u16).range(20..=500))]
    pub width: Option<u16>,
    /// Rows of the chart
    #[arg(
        long,
        value_name = "ROWS",
        default_value_t = 20,
        value_parser = clap::value_parser!(u16).range(5..=200)
    )]
    pub height: u16,
    /// Print JSON
    #[arg(long, conflicts_with = "wall")]
    pub json: bool,
}

#[derive(Serialize)]
struct CurvesJson<'a> {
    series: Vec<SeriesJson<'a>>,
}

/// A point is its step, its value, and seconds since the trial's first attempt started.
#[derive(Serialize)]
struct SeriesJson<'a> {
    /// Present if several studies are read.
    #[serde(skip_serializing_if = "Option::is_none")]
    study: Option<&'a str>,
    trial: u64,
    metric: &'a str,
    #[serde(rename = "clock")]
    axis: SeriesAxis,
    points: Vec<(serde_json::Value, Number, f64)>,
}

/// Prints the curves.
pub fn curves(arguments: &CurvesArguments, console: &mut Console) -> Result<Exit, Failure> {
    let reader = console.reader()?;
    let of_studies = find::trials_of_studies(&reader, &arguments.words).transpose()?;
    if let Some(by) = &arguments.choice.groups.group_by() {
        return grouped::curves(arguments, by, of_studies, console);
    }
    if arguments.several.is_given() || of_studies.is_some() {
        return several::curves(arguments, of_studies.unwrap_or_default(), console);
    }
    let (study, trials) = find::study_and_trials(&reader, &arguments.words)?;
    let trials = match trials.as_slice() {
        [] => {
            let query = TrialQuery::all(SortKey::Value).filtered(study.visible(Filter::all()));
            reader.trials(study.id, &query.page(0, SHOWN))?
        }
        numbers => numbers
            .iter()
            .map(|number| find::trial(&reader, &study, *number))
            .collect::<Result<_, _>>()?,
    };
    let choice = &arguments.choice;
    let metric = choice.metric.as_deref().unwrap_or(&study.spec.objective().metric);
    let numbers: Vec<TrialNumber> = trials.iter().map(|trial| trial.number).collect();
    let all = reader.series(study.id, &numbers)?;
    let own = match (choice.of(&all, metric), &choice.metric) {
        // Trials that have not reported the study's metric yet are no error, as in `plot`.
        (Err(FigureError::UnknownMetric { known, .. }), None) => {
            console.say(&one_line(&format!(
                "these trials have not reported `{metric}` yet: `--metric` shows one of {}",
                quoted(known.iter().map(String::as_str))
            )));
            Vec::new()
        }
        (own, _) => own?,
    };
    if arguments.json {
        let wanted = |series: &SeriesSummary| choice.axis.is_none_or(|axis| axis == series.axis);
        let series = own
            .into_iter()
            .filter(|series| wanted(series))
            .map(|series| series_json(&reader, &study, series))
            .collect::<Result<_, StorageError>>()?;
        return console.json_of_version(2, Some(&study.spec.name), &CurvesJson { series });
    }
    let axis = choice.axis.unwrap_or_else(|| shown_axis(&study, own));
    if arguments.table {
        let points = |trial| exact_points(&reader, &study, trial, metric, axis);
        let curves: Vec<(TrialNumber, Vec<(ExactStep, Point)>)> = numbers
            .into_iter()
            .map(|trial| Ok((trial, points(trial)?)))
            .collect::<Result<_, StorageError>>()?;
        console.table(&columns(axis.as_str(), &curves))?;
    } else {
        let width = arguments.width.unwrap_or_else(|| console.columns());
        let (by, detail) = (choice.by(), Detail::Columns(width));
        let curves = numbers
            .iter()
            .map(|trial| points(&reader, &study, *trial, (metric, axis), by, detail))
            .collect::<Result<_, StorageError>>()?;
        let title = one_line(&format!("{}: {metric} by {}", study.spec.name, by.unit(axis)));
        let size = Size { width, height: arguments.height };
        drawing::print(&mut console.out, &chart(title, &trials, curves), size, console.look)?;
    }
    Ok(Exit::Done)
}

fn series_json<'a>(
    reader: &dyn StorageReader,
    study: &StudySummary,
    series: &'a SeriesSummary,
) -> Result<SeriesJson<'a>, StorageError> {
    let SeriesSummary { trial, metric, axis, .. } = series;
    let began = reader.began(study.id, *trial)?;
    let points = exact_points(reader, study, *trial, metric, *axis)?;
    let point = |(step, point): &(ExactStep, Point)| {
        (step.to_json(), Number(point.value), seconds_since(began, point.at))
    };
    let points = points.iter().map(point).collect();
    Ok(SeriesJson { study: None, trial: trial.0, metric, axis: *axis, points })
}

fn chart(title: String, trials: &[Trial], curves: Vec<Vec<(f64, f64)>>) -> Figure<'static> {
    let is_whole = curves.iter().flatten().all(|(step, _)| step.fract() == 0.0);
    let series = trials.iter().zip(curves).enumerate().map(|(index, (trial, points))| Series {
        name: match trial.state {
            TrialState::Complete => format!("trial {}", trial.number),
            state => format!("trial {} ({})", trial.number, state.as_str()),
        },
        points: Cow::Owned(points),
        mark: Mark::Line,
        tone: SeriesRole::Compared(index),
        trial: Some(trial.number),
    });
    Figure {
        title,
        x: if is_whole { Axis::whole() } else { Axis::default() },
        y: Axis::without_outliers(Vec::new()),
        series: series.collect(),
        cells: None,
        empty: "no reports yet",
    }
}

fn columns(unit: &str, curves: &[(TrialNumber, Vec<(ExactStep, Point)>)]) -> Vec<Column> {
    let mut steps: Vec<ExactStep> =
        curves.iter().flat_map(|(_, points)| points.iter().map(|(step, _)| *step)).collect();
    steps.sort_by(ExactStep::order);
    steps.dedup();
    let mut columns = Columns::of(&steps).right(unit, ExactStep::to_string);
    for (trial, points) in curves {
        let cell = |step: &ExactStep| {
            let at = points.binary_search_by(|(other, _)| other.order(step));
            at.map_or_else(|_| String::new(), |index| number(points[index].1.value))
        };
        columns = columns.point(format!("trial {trial}"), cell).optional();
    }
    columns.end()
}
