//! `hpsearch plot`: plots of whole studies in the terminal.

use std::io::Write;

use clap::{Args, ValueEnum};
use serde::Serialize;

use super::drawing::{self, Size};
use super::selection::{self, SeveralArguments, of_each};
use super::series_choice::SeriesArguments;
use super::{Console, Exit, Failure};
use crate::app::curves::{Detail, points, shown_clock};
use crate::app::find;
use crate::app::several::StudySelection;
use crate::report::figure::Figure;
use crate::report::figure::of_study::{self as figures, StudyCurve};
use crate::report::wording::one_line;
use crate::storage::{OutcomeCursor, StorageError, StorageReader, StudySummary};
use crate::study::metric::Number;
use crate::study::outcome::Outcome;
use crate::study::query::{Filter, SortKey, TrialQuery};
use crate::study::series::SeriesClock;
use crate::study::suggestion::nearest;
use crate::study::trial::TrialNumber;

const EXAMPLES: &str = "\
Examples:
  hpsearch plot history               values by trial, the best so far
  hpsearch plot digits slice          value by each parameter
  hpsearch plot digits slice --param learning_rate
  hpsearch plot digits parallel --width 120 --height 30
  hpsearch plot curves --metric train/loss --clock step
  hpsearch plot curves sms digits     the curves of two studies, over each other
  hpsearch plot history --study 'sms*'

history     values by trial, and the best so far
curves      the curves of all trials, the best in front, of any metric
parallel    every trial as a line over all parameters
slice       values by each parameter
importance  which parameters matter, as bars

Braille where the terminal knows it, else ASCII; no colours in a pipe.";

/// A kind of plot.
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
#[command(override_usage = "hpsearch plot [OPTIONS] KIND [STUDY]...", after_help = EXAMPLES)]
pub struct PlotArguments {
    /// What to draw: history, curves, parallel, slice or importance; then the study's name or file,
    /// or those of several (the study may come first)
    #[arg(value_name = "KIND, STUDY", required = true)]
    pub words: Vec<String>,
    /// Several studies instead.
    #[command(flatten)]
    pub several: SeveralArguments,
    /// Of `curves`: which series.
    #[command(flatten)]
    pub choice: SeriesArguments,
    /// Of `slice`: this parameter only, as often as needed
    #[arg(long, value_name = "NAME")]
    pub param: Vec<String>,
    /// Columns [default: those of the terminal, 80 in a pipe]
    #[arg(long, value_name = "COLUMNS", value_parser = clap::value_parser!(u16).range(10..=500))]
    pub width: Option<u16>,
    /// Rows of each plot [default: 20, of `slice` 12]
    #[arg(long, value_name = "ROWS", value_parser = clap::value_parser!(u16).range(4..=200))]
    pub height: Option<u16>,
    /// Print the points as JSON
    #[arg(long)]
    pub json: bool,
}

impl PlotArguments {
    /// The study whose importances alone are asked for, which another verb shows; within, whether
    /// it is named.
    pub fn importance(&self) -> Option<Option<&str>> {
        match kind_of(&self.words) {
            Ok((Kind::Importance, [])) if !self.several.is_given() => Some(None),
            Ok((Kind::Importance, [study])) if !self.several.is_given() => Some(Some(study)),
            _ => None,
        }
    }
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

impl<'a> From<&'a Figure<'_>> for ChartJson<'a> {
    fn from(chart: &'a Figure<'_>) -> Self {
        let series = chart.series.iter().map(|series| SeriesJson {
            name: &series.name,
            points: series.points.iter().map(|(x, y)| (Number(*x), Number(*y))).collect(),
        });
        ChartJson { study: None, title: &chart.title, series: series.collect() }
    }
}

/// Most trials drawn as lines: the best ones.
const LINES: u64 = 200;

/// The kind of plot, which is the first or the last word, and the studies.
fn kind_of(words: &[String]) -> Result<(Kind, &[String]), Failure> {
    let kind = |word: &String| Kind::from_str(word, false).ok();
    let is_behind = words.len() == 2 && kind(&words[1]).is_some();
    let found = match words {
        [study @ .., last] if is_behind => kind(last).map(|kind| (kind, study)),
        [first, studies @ ..] => kind(first).map(|kind| (kind, studies)),
        [] => None,
    };
    found.ok_or_else(|| {
        let kinds = Kind::value_variants().iter().filter_map(ValueEnum::to_possible_value);
        let kinds: Vec<String> = kinds.map(|kind| kind.get_name().to_owned()).collect();
        let names = || kinds.iter().map(String::as_str);
        // A word like a kind is a misspelt one; without any, the words are studies.
        match words.iter().find(|word| nearest(word, names()).is_some()) {
            Some(word) => Failure::usage(format!("`{}` is not a kind of plot", one_line(word)))
                .known(word, "the kinds are", names()),
            None => Failure::usage("the kind of plot is missing").help(format!(
                "did you mean `hpsearch plot {} {}`? The kinds are {}",
                kinds.first().map_or("", String::as_str),
                one_line(&words.join(" ")),
                kinds.join(", ")
            )),
        }
    })
}

/// Prints the plots.
pub fn plot(arguments: &PlotArguments, console: &mut Console) -> Result<Exit, Failure> {
    let (kind, studies) = kind_of(&arguments.words)?;
    if arguments.choice.is_given() && kind != Kind::Curves {
        let message = "`--metric`, `--clock` and `--wall` are for `plot curves`";
        return Err(Failure::usage(message).help("the other kinds show the values of trials"));
    }
    let reader = console.reader()?;
    if let Some(selection) = selection::watched(&reader, studies, &arguments.several, console)? {
        return several(kind, &selection, arguments, console);
    }
    let study = find::study(&reader, studies.first().map(String::as_str))?;
    let charts = charts(&reader, &study, kind, arguments, console)?;
    if arguments.json {
        let charts = charts.iter().map(ChartJson::from).collect();
        let answer = Answer { plot: kind, charts };
        return console.json(Some(&study.spec.name), &answer);
    }
    print(&study, &charts, kind, arguments, console)?;
    Ok(Exit::Done)
}

/// The plots of several studies: over each other where they have one pair of axes, else one
/// below the other.
fn several(
    kind: Kind,
    selection: &StudySelection,
    arguments: &PlotArguments,
    console: &mut Console,
) -> Result<Exit, Failure> {
    if kind == Kind::Importance {
        let message = "importance is shown of one study at a time";
        return Err(Failure::usage(message).help("write `hpsearch importance STUDY`"));
    }
    let reader = console.reader()?;
    let studies = selection.find(&reader)?.studies;
    if !arguments.json && matches!(kind, Kind::Curves | Kind::History) {
        return overlaid(&reader, kind, studies, arguments, console);
    }
    let drawn =
        of_each(studies, console, |study| charts(&reader, study, kind, arguments, console))?;
    if arguments.json {
        let charts = drawn.iter().flat_map(|(study, charts)| {
            charts
                .iter()
                .map(|chart| ChartJson { study: Some(&study.spec.name), ..ChartJson::from(chart) })
        });
        return console.json(None, &Answer { plot: kind, charts: charts.collect() });
    }
    for (index, (study, charts)) in drawn.iter().enumerate() {
        if index > 0 {
            writeln!(console.out)?;
        }
        writeln!(console.out, "{}", one_line(&study.spec.name))?;
        print(study, charts, kind, arguments, console)?;
    }
    Ok(Exit::Done)
}

/// The part of one study in a plot of several.
enum Layer {
    Curves { best: Option<f64>, curves: Vec<StudyCurve>, unit: &'static str, metric: String },
    History(Vec<Outcome>),
}

/// One plot per pair of axes, with one colour per study.
fn overlaid(
    reader: &dyn StorageReader,
    kind: Kind,
    studies: Vec<StudySummary>,
    arguments: &PlotArguments,
    console: &mut Console,
) -> Result<Exit, Failure> {
    let lines = LINES.div_ceil((studies.len() as u64).max(1));
    let mut layers = of_each(studies, console, |study| {
        if kind == Kind::History {
            return Ok(Layer::History(outcomes(reader, study)?));
        }
        let (metric, clock, curves) = curves_of(reader, study, lines, arguments, console)?;
        let is_own = metric == study.spec.objective().metric;
        let best = study.best.map(|(_, value)| value).filter(|_| is_own);
        let unit = arguments.choice.by().unit(clock);
        Ok(Layer::Curves { best, curves, unit, metric })
    })?;
    let axes = |(study, layer): &(StudySummary, Layer)| match layer {
        Layer::Curves { metric, unit, .. } => (metric.clone(), *unit),
        Layer::History(_) => {
            (study.spec.objective().metric.clone(), study.spec.direction().as_str())
        }
    };
    let mut is_first = true;
    while let Some(first) = layers.first().map(axes) {
        let (together, others): (Vec<_>, Vec<_>) =
            layers.into_iter().partition(|layer| axes(layer) == first);
        layers = others;
        let (metric, unit) = first;
        let chart = match kind {
            Kind::History => {
                let histories = together.iter().filter_map(|(study, layer)| match layer {
                    Layer::History(outcomes) => Some((&study.spec, outcomes.as_slice())),
                    Layer::Curves { .. } => None,
                });
                figures::histories(&format!("{metric} by trial, {unit}d"), histories)
            }
            _ => {
                let curves = together.iter().filter_map(|(study, layer)| match layer {
                    Layer::Curves { best, curves, .. } => {
                        Some((study.spec.name.as_str(), *best, curves.as_slice()))
                    }
                    Layer::History(_) => None,
                });
                figures::curves_of_several(&format!("{metric} by {unit}"), curves)
            }
        };
        if !std::mem::take(&mut is_first) {
            writeln!(console.out)?;
        }
        let size = size(kind, arguments, console);
        drawing::print(&mut console.out, &chart, size, console.look)?;
    }
    Ok(Exit::Done)
}

fn size(kind: Kind, arguments: &PlotArguments, console: &Console) -> Size {
    let height = arguments.height.unwrap_or(if kind == Kind::Slice { 12 } else { 20 });
    Size { width: arguments.width.unwrap_or_else(|| console.columns()), height }
}

fn print(
    study: &StudySummary,
    charts: &[Figure<'_>],
    kind: Kind,
    arguments: &PlotArguments,
    console: &mut Console,
) -> Result<(), Failure> {
    let size = size(kind, arguments, console);
    for (index, chart) in charts.iter().enumerate() {
        if index > 0 {
            writeln!(console.out)?;
        }
        drawing::print(&mut console.out, chart, size, console.look)?;
    }
    if kind == Kind::Parallel {
        console.table(&figures::parallel_axes(&study.spec))?;
    }
    Ok(())
}

/// The curves of the best trials of a study, which metric they are of, and on which clock.
fn curves_of(
    reader: &dyn StorageReader,
    study: &StudySummary,
    most: u64,
    arguments: &PlotArguments,
    console: &Console,
) -> Result<(String, SeriesClock, Vec<StudyCurve>), Failure> {
    let choice = &arguments.choice;
    let query = TrialQuery::all(SortKey::Value).filtered(study.visible(Filter::all()));
    let trials = reader.trials(study.id, &query.page(0, most))?;
    let numbers: Vec<TrialNumber> = trials.iter().map(|trial| trial.number).collect();
    let metric = choice.metric.as_ref().unwrap_or(&study.spec.objective().metric).clone();
    let all = reader.series(study.id, &numbers)?;
    let own = match choice.is_given() {
        true => choice.of(&all, &metric)?,
        // Trials that have not reported the study's metric yet are no error.
        false => all.iter().filter(|series| series.metric == metric).collect(),
    };
    let clock = choice.clock.unwrap_or_else(|| shown_clock(study, own));
    let detail = match arguments.json {
        true => Detail::Every,
        false => Detail::Columns(arguments.width.unwrap_or_else(|| console.columns())),
    };
    let mut curves = Vec::new();
    for number in numbers {
        let points = points(reader, study, number, (&metric, clock), choice.by(), detail)?;
        curves.push((number, points));
    }
    Ok((metric, clock, curves))
}

/// What became of the trials that are not hidden.
fn outcomes(
    reader: &dyn StorageReader,
    study: &StudySummary,
) -> Result<Vec<Outcome>, StorageError> {
    let (mut outcomes, _) = reader.outcomes(study.id, OutcomeCursor::default())?;
    outcomes.retain(|outcome| !outcome.hidden);
    Ok(outcomes)
}

fn charts(
    reader: &dyn StorageReader,
    study: &StudySummary,
    kind: Kind,
    arguments: &PlotArguments,
    console: &Console,
) -> Result<Vec<Figure<'static>>, Failure> {
    let spec = &study.spec;
    if kind == Kind::Curves {
        let (metric, clock, curves) = curves_of(reader, study, LINES, arguments, console)?;
        let unit = arguments.choice.by().unit(clock);
        let title = format!("{}: {metric} by {unit}", spec.name);
        // The values of trials are those of the study's metric.
        let is_own = metric == spec.objective().metric;
        let value = study.best.map(|(_, value)| value).filter(|_| is_own);
        let best = study.best.map(|(number, _)| number);
        return Ok(vec![figures::curves(&title, curves, best, value)]);
    }
    let outcomes = outcomes(reader, study)?;
    Ok(match kind {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_the_first_word_or_the_last_and_a_missing_or_misspelt_one_is_answered() {
        let said = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            match kind_of(&words) {
                Ok((kind, studies)) => format!("{kind:?} of {}", studies.join(", ")),
                Err(failure) => failure.to_string(),
            }
        };
        for (words, expected) in [
            (&["history"][..], "History of "),
            (&["acc", "slice"], "Slice of acc"),
            (&["curves", "acc", "sms"], "Curves of acc, sms"),
            (&["acc"], "did you mean `hpsearch plot history acc`? The kinds are history, "),
            (&["acc", "histroy"], "`histroy` is not a kind of plot"),
            (&["curvs"], "did you mean `curves`?"),
        ] {
            assert!(said(words).contains(expected), "{words:?}: {}", said(words));
        }
    }
}
