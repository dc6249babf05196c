//! `hpsearch plot`: pictures of whole studies in the terminal.

mod figures;

use std::io::Write;

use clap::{Args, ValueEnum};
use serde::Serialize;

use super::drawing::{self, Size};
use super::selection::{SeveralArguments, of_each};
use super::{Console, Exit, Failure};
use crate::report::wording::one_line;
use crate::storage::{OutcomeCursor, StorageReader, StudySummary};
use crate::study::metric::Number;
use crate::study::query::{Filter, SortKey, TrialQuery};
use crate::study::trial::TrialNumber;
use crate::tui::chart::Chart;

const EXAMPLES: &str = "\
Examples:
  hpsearch plot history               values by trial, the best so far
  hpsearch plot digits slice          value by each parameter
  hpsearch plot digits slice --param learning_rate
  hpsearch plot digits parallel --width 120 --height 30
  hpsearch plot --study 'sms*' history

history     values by trial, and the best so far
curves      the curves of all trials, the best in front
parallel    every trial as a line over all parameters
slice       values by each parameter
importance  which parameters matter, as bars

Braille where the terminal knows it, else ASCII; no colours in a pipe.";

/// A kind of picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Values by trial, and the best so far
    History,
    /// The curves of all trials, the best in front
    Curves,
    /// Every trial as a line over all parameters
    Parallel,
    /// Values by each parameter
    Slice,
    /// Which parameters matter, as `hpsearch importance` says it
    Importance,
}

/// Arguments of `hpsearch plot`.
#[derive(Clone, Debug, Args)]
#[command(allow_missing_positional = true, after_help = EXAMPLES)]
pub struct PlotArguments {
    /// The study's name or file
    pub study: Option<String>,
    /// Several studies instead.
    #[command(flatten)]
    pub several: SeveralArguments,
    /// What to draw: history, curves, parallel, slice or importance
    #[arg(hide_possible_values = true)]
    pub kind: Kind,
    /// Of `slice`: this parameter only, as often as needed
    #[arg(long, value_name = "NAME")]
    pub param: Vec<String>,
    /// Columns [default: those of the terminal, 80 in a pipe]
    #[arg(long, value_name = "COLUMNS", value_parser = clap::value_parser!(u16).range(10..=500))]
    pub width: Option<u16>,
    /// Rows of each picture [default: 20, of `slice` 12]
    #[arg(long, value_name = "ROWS", value_parser = clap::value_parser!(u16).range(4..=200))]
    pub height: Option<u16>,
    /// Print the points as JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Serialize)]
struct Answer<'a> {
    plot: Kind,
    charts: Vec<ChartJson<'a>>,
}

#[derive(Serialize)]
struct ChartJson<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    study: Option<&'a str>,
    title: &'a str,
    series: Vec<SeriesJson<'a>>,
}

#[derive(Serialize)]
struct SeriesJson<'a> {
    name: &'a str,
    points: Vec<(Number, Number)>,
}

impl<'a> From<&'a Chart<'_>> for ChartJson<'a> {
    fn from(chart: &'a Chart<'_>) -> Self {
        let series = chart.series.iter().map(|series| SeriesJson {
            name: &series.name,
            points: series.points.iter().map(|(x, y)| (Number(*x), Number(*y))).collect(),
        });
        ChartJson { study: None, title: &chart.title, series: series.collect() }
    }
}

/// Of trials drawn as a line each, at most so many, the best first.
const LINES: u64 = 200;

/// Prints the pictures.
pub fn plot(arguments: &PlotArguments, console: &mut Console) -> Result<Exit, Failure> {
    if arguments.several.is_given() {
        return several(arguments, console);
    }
    let (reader, study) = console.study(arguments.study.as_deref())?;
    let charts = charts(&reader, &study, arguments)?;
    if arguments.json {
        let charts = charts.iter().map(ChartJson::from).collect();
        let answer = Answer { plot: arguments.kind, charts };
        return console.json(Some(&study.spec.name), &answer);
    }
    print(&study, &charts, arguments, console)?;
    Ok(Exit::Done)
}

/// The pictures of each of several studies, one below the other.
fn several(arguments: &PlotArguments, console: &mut Console) -> Result<Exit, Failure> {
    if arguments.kind == Kind::Importance {
        let message = "importance is shown of one study at a time";
        return Err(Failure::usage(message).help("write `hpsearch importance STUDY`"));
    }
    let reader = console.reader()?;
    let studies = arguments.several.studies(&reader, arguments.study.as_deref(), console)?;
    let drawn = of_each(studies, console, |study| charts(&reader, study, arguments))?;
    if arguments.json {
        let charts = drawn.iter().flat_map(|(study, charts)| {
            charts
                .iter()
                .map(|chart| ChartJson { study: Some(&study.spec.name), ..ChartJson::from(chart) })
        });
        return console.json(None, &Answer { plot: arguments.kind, charts: charts.collect() });
    }
    for (index, (study, charts)) in drawn.iter().enumerate() {
        if index > 0 {
            writeln!(console.out)?;
        }
        writeln!(console.out, "{}", one_line(&study.spec.name))?;
        print(study, charts, arguments, console)?;
    }
    Ok(Exit::Done)
}

fn print(
    study: &StudySummary,
    charts: &[Chart<'_>],
    arguments: &PlotArguments,
    console: &mut Console,
) -> Result<(), Failure> {
    let height = arguments.height.unwrap_or(if arguments.kind == Kind::Slice { 12 } else { 20 });
    let size = Size { width: arguments.width.unwrap_or_else(|| console.columns()), height };
    for (index, chart) in charts.iter().enumerate() {
        if index > 0 {
            writeln!(console.out)?;
        }
        drawing::print(&mut console.out, chart, size, console.look)?;
    }
    if arguments.kind == Kind::Parallel {
        console.table(&figures::parallel_axes(&study.spec))?;
    }
    Ok(())
}

fn charts(
    reader: &dyn StorageReader,
    study: &StudySummary,
    arguments: &PlotArguments,
) -> Result<Vec<Chart<'static>>, Failure> {
    let spec = &study.spec;
    if arguments.kind == Kind::Curves {
        let query = TrialQuery::all(SortKey::Value).filtered(study.visible(Filter::all()));
        let trials = reader.trials(study.id, &query.page(0, LINES))?;
        let numbers: Vec<TrialNumber> = trials.iter().map(|trial| trial.number).collect();
        let curves = reader.curves(study.id, &spec.objective().metric, &numbers)?;
        return Ok(vec![figures::curves(spec, curves, study.best)]);
    }
    let (mut outcomes, _) = reader.outcomes(study.id, OutcomeCursor::default())?;
    outcomes.retain(|outcome| !outcome.hidden);
    Ok(match arguments.kind {
        Kind::History | Kind::Curves | Kind::Importance => vec![figures::history(spec, &outcomes)],
        Kind::Parallel => {
            vec![figures::parallel(spec, &outcomes, usize::try_from(LINES).unwrap_or(usize::MAX))]
        }
        Kind::Slice => {
            let mut dimensions: Vec<_> = spec.space.dimensions().iter().collect();
            if let Some(unknown) =
                arguments.param.iter().find(|name| spec.space.dimension(name).is_none())
            {
                return Err(unknown_parameter(study, unknown));
            }
            if !arguments.param.is_empty() {
                dimensions.retain(|dimension| arguments.param.contains(&dimension.name));
            }
            dimensions
                .into_iter()
                .map(|dimension| figures::slice(spec, dimension, &outcomes, study.best))
                .collect()
        }
    })
}

fn unknown_parameter(study: &StudySummary, name: &str) -> Failure {
    let known = study.spec.space.dimensions().iter().map(|dimension| dimension.name.as_str());
    let study = one_line(&study.spec.name);
    Failure::usage(format!("`{study}` searches no parameter `{}`", one_line(name))).known(
        name,
        "it searches",
        known,
    )
}
