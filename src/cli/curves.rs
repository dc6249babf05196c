//! `hpsearch curves`: what trials reported and logged over their course, as a chart, a table or
//! JSON.

mod several;

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use clap::Args;
use serde::Serialize;

use super::drawing::{self, Size};
use super::selection::SeveralArguments;
use super::{Console, Exit, Failure};
use crate::app::find;
use crate::report::table::{Column, Columns};
use crate::report::wording::{number, one_line};
use crate::storage::{StorageError, StorageReader, StudySummary};
use crate::study::metric::Number;
use crate::study::query::{Filter, SortKey, TrialQuery};
use crate::study::series::{Point, SeriesClock, SeriesSummary, step_json};
use crate::study::time::Timestamp;
use crate::study::trial::{Trial, TrialNumber, TrialState};
use crate::tui::chart::{Axis, Chart, Mark, Series, SeriesRole};

const EXAMPLES: &str = "\
Examples:
  hpsearch curves                        the best trials of the only study
  hpsearch curves digits 3 7             two trials, over each other
  hpsearch curves digits 0-9 --metric eval_accuracy
  hpsearch curves digits 7 --metric train/loss --clock step
  hpsearch curves digits 7 --metric system/memory
  hpsearch curves digits 0-5 --wall      by seconds since each trial began
  hpsearch curves digits 7 --table       the numbers
  hpsearch curves sms/3 digits/7         trials of two studies
  hpsearch curves --study 'sms*'         the best of several studies
  hpsearch curves digits --json | jq '.series[0].points'

`hpsearch show digits 7` names the metrics of a trial and their clocks.";

/// How many trials are shown when none is named: as many as there are colours.
const SHOWN: u64 = 6;

/// Arguments of `hpsearch curves`.
#[derive(Clone, Debug, Args)]
#[command(after_help = EXAMPLES, override_usage = "hpsearch curves [OPTIONS] [STUDY] [TRIAL]...")]
pub struct CurvesArguments {
    /// The study's name or file, then numbers of trials (7 or 3,5 or 0-4); the best six without any
    #[arg(value_name = "STUDY, TRIAL")]
    pub words: Vec<String>,
    /// Several studies instead.
    #[command(flatten)]
    pub several: SeveralArguments,
    /// Another metric than the study's
    #[arg(long, value_name = "NAME")]
    pub metric: Option<String>,
    /// The clock of the steps, where the metric has several [default: the study's]
    #[arg(long, value_name = "CLOCK", value_parser = clock_of)]
    pub clock: Option<SeriesClock>,
    /// Draw by seconds since each trial began instead of steps
    #[arg(long, conflicts_with_all = ["table", "json"])]
    pub wall: bool,
    /// Print the numbers as a table
    #[arg(long, conflicts_with = "json")]
    pub table: bool,
    /// Columns of the chart [default: those of the terminal, 80 in a pipe]
    #[arg(long, value_name = "COLUMNS", value_parser = clap::value_parser!(u16).range(20..=500))]
    pub width: Option<u16>,
    /// Rows of the chart
    #[arg(long, value_name = "ROWS", default_value_t = 20, value_parser = clap::value_parser!(u16).range(5..=200))]
    pub height: u16,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// All steps.
const ALL: RangeInclusive<f64> = f64::NEG_INFINITY..=f64::INFINITY;

fn clock_of(word: &str) -> Result<SeriesClock, String> {
    SeriesClock::from_word(word).ok_or_else(|| "it is step, epoch, samples or seconds".to_owned())
}

#[derive(Serialize)]
struct Answer<'a> {
    series: Vec<SeriesJson<'a>>,
}

/// A point is its step, its value, and seconds since the trial's first attempt started.
#[derive(Serialize)]
struct SeriesJson<'a> {
    /// Where several studies are read.
    #[serde(skip_serializing_if = "Option::is_none")]
    study: Option<&'a str>,
    trial: u64,
    metric: &'a str,
    clock: SeriesClock,
    points: Vec<(serde_json::Value, Number, f64)>,
}

/// Prints the curves.
pub fn curves(arguments: &CurvesArguments, console: &mut Console) -> Result<Exit, Failure> {
    let reader = console.reader()?;
    let of_studies = find::trials_of_studies(&reader, &arguments.words).transpose()?;
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
    let metric = arguments.metric.as_deref().unwrap_or(&study.spec.objective().metric);
    let numbers: Vec<TrialNumber> = trials.iter().map(|trial| trial.number).collect();
    let all = reader.series(study.id, &numbers)?;
    let own: Vec<&SeriesSummary> = all.iter().filter(|series| series.metric == metric).collect();
    if own.is_empty()
        && let Some(failure) = unknown_metric(&all, metric)
    {
        return Err(failure);
    }
    if let Some(clock) = arguments.clock {
        check_clock(&own, metric, clock)?;
    }
    if arguments.json {
        let wanted =
            |series: &SeriesSummary| arguments.clock.is_none_or(|clock| clock == series.clock);
        let series = own
            .into_iter()
            .filter(|series| wanted(series))
            .map(|series| series_json(&reader, &study, series))
            .collect::<Result<_, StorageError>>()?;
        return console.json_of_version(2, Some(&study.spec.name), &Answer { series });
    }
    let clock = arguments.clock.unwrap_or_else(|| shown_clock(&study, &own));
    if arguments.table {
        let points = |trial| reader.series_points(study.id, trial, metric, clock, ALL);
        let curves: Vec<(TrialNumber, Vec<Point>)> = numbers
            .into_iter()
            .map(|trial| Ok((trial, points(trial)?)))
            .collect::<Result<_, StorageError>>()?;
        console.table(&columns(clock.as_str(), &curves))?;
    } else {
        let width = arguments.width.unwrap_or_else(|| console.columns());
        let by = if arguments.wall { By::Wall } else { By::Step };
        let curves = numbers
            .iter()
            .map(|trial| drawn(&reader, &study, *trial, metric, clock, by, width))
            .collect::<Result<_, StorageError>>()?;
        let what = match by {
            By::Wall => "seconds",
            By::Step => clock.as_str(),
        };
        let title = one_line(&format!("{}: {metric} by {what}", study.spec.name));
        let size = Size { width, height: arguments.height };
        drawing::print(&mut console.out, &chart(title, &trials, curves), size, console.look)?;
    }
    Ok(Exit::Done)
}

/// The study's clock where the metric is on it, else the first that it is on.
fn shown_clock(study: &StudySummary, series: &[&SeriesSummary]) -> SeriesClock {
    let own = SeriesClock::from(study.spec.step);
    let is_on = |clock: &SeriesClock| series.iter().any(|series| series.clock == *clock);
    [own].into_iter().chain(SeriesClock::ALL).find(is_on).unwrap_or(own)
}

/// The error about a clock that no series of the metric is on.
fn check_clock(series: &[&SeriesSummary], metric: &str, clock: SeriesClock) -> Result<(), Failure> {
    if series.is_empty() || series.iter().any(|series| series.clock == clock) {
        return Ok(());
    }
    let known: BTreeSet<SeriesClock> = series.iter().map(|series| series.clock).collect();
    let known: Vec<&str> = known.into_iter().map(SeriesClock::as_str).collect();
    let failure = Failure::usage(format!("these trials have no `{}` by {clock}", one_line(metric)));
    Err(failure.help(format!("they have it by {}", known.join(" and "))))
}

fn series_json<'a>(
    reader: &dyn StorageReader,
    study: &StudySummary,
    series: &'a SeriesSummary,
) -> Result<SeriesJson<'a>, StorageError> {
    let SeriesSummary { trial, metric, clock, .. } = series;
    let began = reader.began(study.id, *trial)?;
    let points = reader.series_points(study.id, *trial, metric, *clock, ALL)?;
    let point = |point: &Point| {
        (step_json(point.step), Number(point.value), seconds_since(began, point.at))
    };
    let points = points.iter().map(point).collect();
    Ok(SeriesJson { study: None, trial: trial.0, metric, clock: *clock, points })
}

/// Seconds since a trial began.
pub fn seconds_since(began: Option<Timestamp>, at: Timestamp) -> f64 {
    at.since(began.unwrap_or(at)).as_secs_f64()
}

/// What a curve is drawn by.
#[derive(Clone, Copy)]
enum By {
    /// Steps of its clock.
    Step,
    /// Seconds since the trial began.
    Wall,
}

/// The points that draw a curve in a chart of some width: of many only what can be seen.
fn drawn(
    reader: &dyn StorageReader,
    study: &StudySummary,
    trial: TrialNumber,
    metric: &str,
    clock: SeriesClock,
    by: By,
    width: u16,
) -> Result<Vec<(f64, f64)>, StorageError> {
    // A character has two dots beside each other.
    let pixels = usize::from(width) * 2;
    let pixels = reader.series_pixels(study.id, trial, metric, clock, ALL, pixels)?;
    let began = reader.began(study.id, trial)?;
    let points = pixels.into_iter().flat_map(|pixel| {
        pixel.drawn().map(move |(step, value)| match by {
            By::Step => (step, value),
            By::Wall => (seconds_since(began, pixel.at), value),
        })
    });
    Ok(points.collect())
}

/// The error about a metric that these trials do not have; `None` if they have none at all.
fn unknown_metric(all: &[SeriesSummary], metric: &str) -> Option<Failure> {
    let known: BTreeSet<&str> = all.iter().map(|series| series.metric.as_str()).collect();
    let failure = Failure::usage(format!("these trials report no `{}`", one_line(metric)));
    (!known.is_empty()).then(|| failure.known(metric, "they report", known))
}

fn chart(title: String, trials: &[Trial], curves: Vec<Vec<(f64, f64)>>) -> Chart<'static> {
    let is_whole = curves.iter().flatten().all(|(step, _)| step.fract() == 0.0);
    let series = trials.iter().zip(curves).enumerate().map(|(index, (trial, points))| Series {
        name: match trial.state {
            TrialState::Complete => format!("trial {}", trial.number),
            state => format!("trial {} ({})", trial.number, state.as_str()),
        },
        points: Cow::Owned(points),
        mark: Mark::Line,
        tone: SeriesRole::Compared(index),
    });
    Chart {
        title,
        x: if is_whole { Axis::whole() } else { Axis::default() },
        y: Axis::without_outliers(Vec::new()),
        series: series.collect(),
        empty: "no reports yet",
    }
}

fn columns(unit: &str, curves: &[(TrialNumber, Vec<Point>)]) -> Vec<Column> {
    let mut steps: Vec<f64> =
        curves.iter().flat_map(|(_, points)| points.iter().map(|point| point.step)).collect();
    steps.sort_by(f64::total_cmp);
    steps.dedup();
    let mut columns = Columns::of(&steps).right(unit, f64::to_string);
    for (trial, points) in curves {
        let cell = |step: &f64| {
            let at = points.binary_search_by(|point| point.step.total_cmp(step));
            at.map_or_else(|_| String::new(), |index| number(points[index].value))
        };
        columns = columns.point(format!("trial {trial}"), cell).optional();
    }
    columns.end()
}
