//! `hpsearch curves`: what trials reported over their course, as a chart, a table or JSON.

mod several;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use clap::Args;
use serde::Serialize;

use super::drawing::{self, Size};
use super::selection::SeveralArguments;
use super::trial_words;
use super::{Console, Exit, Failure};
use crate::app::find;
use crate::report::table::{Column, Columns};
use crate::report::wording::{number, one_line};
use crate::storage::{Curve, StorageReader, StudySummary};
use crate::study::metric::Number;
use crate::study::query::{Filter, SortKey, TrialQuery};
use crate::study::trial::{Trial, TrialNumber, TrialState};
use crate::tui::chart::{Axis, Chart, Mark, Series, SeriesRole};

const EXAMPLES: &str = "\
Examples:
  hpsearch curves                        the best trials of the only study
  hpsearch curves digits 3 7             two trials, over each other
  hpsearch curves digits 0-9 --metric eval_accuracy
  hpsearch curves digits 7 --table       the numbers
  hpsearch curves sms/3 digits/7         trials of two studies
  hpsearch curves --study 'sms*'         the best of several studies
  hpsearch curves digits --json | jq '.trials[0].points'";

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

#[derive(Serialize)]
struct Answer<'a> {
    metric: &'a str,
    step: &'static str,
    trials: Vec<CurveJson>,
}

#[derive(Serialize)]
struct CurveJson {
    number: u64,
    state: TrialState,
    points: Vec<(u64, Number)>,
}

/// Prints the curves.
pub fn curves(arguments: &CurvesArguments, console: &mut Console) -> Result<Exit, Failure> {
    let of_studies = trial_words::of_studies(&arguments.words);
    if arguments.several.is_given() || of_studies.is_some() {
        return several::curves(arguments, &of_studies.unwrap_or_default(), console);
    }
    let reader = console.reader()?;
    let named = trial_words::read(&arguments.words)?;
    let study = find::study(&reader, named.study.as_deref())?;
    let trials = match named.trials.as_slice() {
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
    let mut reported: BTreeMap<_, _> =
        reader.curves(study.id, metric, &numbers)?.into_iter().collect();
    // One curve a trial, empty where it reported nothing.
    let curves: Vec<Curve> = numbers
        .iter()
        .map(|number| (*number, reported.remove(number).unwrap_or_default()))
        .collect();
    if curves.iter().all(|(_, points)| points.is_empty())
        && let Some(failure) = unknown_metric(&reader, &study, metric, &trials)?
    {
        return Err(failure);
    }
    let step = study.spec.step.as_str();
    if arguments.json {
        let trials = trials.iter().zip(&curves).map(|(trial, (_, points))| CurveJson {
            number: trial.number.0,
            state: trial.state,
            points: points.iter().map(|(step, value)| (*step, Number(*value))).collect(),
        });
        let answer = Answer { metric, step, trials: trials.collect() };
        return console.json(Some(&study.spec.name), &answer);
    }
    if arguments.table {
        console.table(&columns(step, &curves))?;
    } else {
        let width = arguments.width.unwrap_or_else(|| console.columns());
        let chart = chart(&study, metric, &trials, &curves);
        let size = Size { width, height: arguments.height };
        drawing::print(&mut console.out, &chart, size, console.look)?;
    }
    Ok(Exit::Done)
}

/// The error about a metric that these trials do not report; `None` if they have reported nothing
/// at all.
fn unknown_metric(
    reader: &dyn StorageReader,
    study: &StudySummary,
    metric: &str,
    trials: &[Trial],
) -> Result<Option<Failure>, Failure> {
    let mut known = BTreeSet::new();
    for trial in trials {
        known.extend(reader.reports(study.id, trial.number)?.into_iter().map(|(name, _, _)| name));
    }
    if known.is_empty() {
        return Ok(None);
    }
    let failure = Failure::usage(format!("these trials report no `{}`", one_line(metric)));
    Ok(Some(failure.known(metric, "they report", known.iter().map(String::as_str))))
}

fn chart<'a>(
    study: &StudySummary,
    metric: &str,
    trials: &[Trial],
    curves: &'a [Curve],
) -> Chart<'a> {
    let series =
        trials.iter().zip(curves).enumerate().map(|(index, (trial, (_, points)))| Series {
            name: match trial.state {
                TrialState::Complete => format!("trial {}", trial.number),
                state => format!("trial {} ({})", trial.number, state.as_str()),
            },
            points: Cow::Owned(
                points.iter().map(|(step, value)| (step_on_axis(*step), *value)).collect(),
            ),
            mark: Mark::Line,
            tone: SeriesRole::Compared(index),
        });
    Chart {
        title: one_line(&format!("{}: {metric} by {}", study.spec.name, study.spec.step.as_str())),
        x: Axis::whole(),
        y: Axis::without_outliers(Vec::new()),
        series: series.collect(),
        empty: "no reports yet",
    }
}

/// A step on an axis.
#[expect(clippy::cast_precision_loss, reason = "exact up to 2^53 steps")]
pub fn step_on_axis(step: u64) -> f64 {
    step as f64
}

fn columns(unit: &str, curves: &[Curve]) -> Vec<Column> {
    let steps: BTreeSet<u64> =
        curves.iter().flat_map(|(_, points)| points.iter().map(|(step, _)| *step)).collect();
    let steps: Vec<u64> = steps.into_iter().collect();
    let mut columns = Columns::of(&steps).right(unit, u64::to_string);
    for (trial, points) in curves {
        let cell = |step: &u64| {
            let at = points.binary_search_by_key(step, |(at, _)| *at);
            at.map_or_else(|_| String::new(), |index| number(points[index].1))
        };
        columns = columns.point(format!("trial {trial}"), cell).optional();
    }
    columns.end()
}
