//! `hpsearch plot`: figures of studies, in the terminal and as files.

mod file;

use std::borrow::Cow;
use std::io::Write;
use std::path::PathBuf;

use clap::{Args, ValueEnum, builder::PossibleValue};
use serde::Serialize;

use super::drawing::{self, Size};
use super::groups::say_left_out;
use super::selection::{self, SeveralArguments, of_each};
use super::series_choice::SeriesArguments;
use super::{Console, Exit, Failure};
use crate::app::compared;
use crate::app::curves::Detail;
use crate::app::figures::{FigureKind, FigureOptions, StudyFigure, check, figures};
use crate::app::find;
use crate::app::groups;
use crate::report::figure::parallel::parallel_axes;
use crate::report::figure::{Axis, Figure, HeatMap, Series};
use crate::report::table::Columns;
use crate::report::wording::one_line;
use crate::storage::StudySummary;
use crate::storage::paths::store_files;
use crate::study::counted::count;
use crate::study::suggestion::nearest;
use crate::study::trial::TrialNumber;

const EXAMPLES: &str = "\
Examples:
  hpsearch plot history               values by trial, the best so far
  hpsearch plot digits slice          value by each parameter
  hpsearch plot digits slice --param learning_rate
  hpsearch plot digits parallel --width 120 --height 30
  hpsearch plot contour --param learning_rate --param dropout -o contour.png
  hpsearch plot curves --metric train/loss --clock step --smooth 0.6
  hpsearch plot curves runs --by group -o groups.png   mean and deviation
  hpsearch plot curves runs --over seed                the same over seeds
  hpsearch plot curves sms digits     the curves of two studies, overlaid
  hpsearch plot history --study 'sms*' -o history.svg

`hpsearch plot` lists the kinds. In the terminal: braille if it is
supported, else ASCII; no colours in a pipe.";

/// Largest drawing in the terminal.
const MOST_COLUMNS: u16 = 500;
const MOST_ROWS: u16 = 200;

impl ValueEnum for FigureKind {
    fn value_variants<'a>() -> &'a [Self] {
        &FigureKind::ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(self.as_str()).help(self.summary()))
    }
}

/// Arguments of `hpsearch plot`.
#[derive(Clone, Debug, Args)]
#[command(override_usage = "hpsearch plot [OPTIONS] [KIND [STUDY]...]", after_help = EXAMPLES)]
pub struct PlotArguments {
    /// The kind of figure, then the study's name or file, or those of several (the study may come
    /// first); without any, the kinds are listed
    #[arg(value_name = "KIND, STUDY")]
    pub words: Vec<String>,
    /// Several studies instead.
    #[command(flatten)]
    pub several: SeveralArguments,
    /// Of `curves`: which series.
    #[command(flatten)]
    pub choice: SeriesArguments,
    /// For `slice` and `contour`: this parameter, as often as needed
    #[arg(long, value_name = "NAME")]
    pub param: Vec<String>,
    /// For `system`: this trial [default: the best]
    #[arg(long, value_name = "NUMBER")]
    pub trial: Option<u64>,
    /// For `curves`: the weight of the past in an exponential moving average
    #[arg(
        long,
        value_name = "WEIGHT",
        value_parser = weight,
        conflicts_with_all = ["by", "over"],
        default_value_t = 0.0,
        hide_default_value = true
    )]
    pub smooth: f64,
    /// A logarithmic horizontal axis
    #[arg(long)]
    pub log_x: bool,
    /// A logarithmic vertical axis
    #[arg(long)]
    pub log_y: bool,
    /// Write a file: .svg, .png, .html or .json
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Replace the file even if it is not a figure of hpsearch
    #[arg(long, requires = "output")]
    pub overwrite: bool,
    /// Light lines on a dark background, in files
    #[arg(long, requires = "output")]
    pub dark: bool,
    /// Columns [default: those of the terminal, 80 in a pipe]; of a file, pixels of each figure
    #[arg(long, value_name = "COLUMNS", value_parser = clap::value_parser!(u16).range(10..=8000))]
    pub width: Option<u16>,
    /// Rows of each plot [default: 20, of `slice` 12]; of a file, pixels
    #[arg(long, value_name = "ROWS", value_parser = clap::value_parser!(u16).range(4..=8000))]
    pub height: Option<u16>,
    /// Print the points as JSON
    #[arg(long, conflicts_with = "output")]
    pub json: bool,
}

fn weight(text: &str) -> Result<f64, String> {
    let weight = text.parse().ok().filter(|weight| (0.0..1.0).contains(weight));
    weight.ok_or_else(|| "it is a number from 0 (no smoothing) below 1".to_owned())
}

impl PlotArguments {
    /// The study whose importances alone are asked for, which another verb shows; within, whether
    /// it is named.
    pub fn importance(&self) -> Option<Option<&str>> {
        if self.several.is_given() || self.output.is_some() || self.words.is_empty() {
            return None;
        }
        match kind_of(&self.words) {
            Ok((FigureKind::Importance, [])) => Some(None),
            Ok((FigureKind::Importance, [study])) => Some(Some(study)),
            _ => None,
        }
    }

    fn options(&self, columns: u16) -> FigureOptions {
        let is_drawn_small = self.output.is_none() && !self.json;
        FigureOptions {
            params: self.param.clone(),
            metric: self.choice.metric.clone(),
            group_by: self.choice.groups.group_by(),
            axis: self.choice.axis,
            by: self.choice.by(),
            detail: match is_drawn_small {
                true => Detail::Columns(self.width.unwrap_or(columns)),
                false if self.json => Detail::Every,
                // More points than a figure has pixels are not seen.
                false => Detail::Columns(self.width.unwrap_or(1000)),
            },
            smooth: self.smooth,
            log_x: self.log_x,
            log_y: self.log_y,
            trial: self.trial.map(TrialNumber),
            overlay: !self.json,
            ..FigureOptions::default()
        }
    }
}

#[derive(Serialize)]
struct PlotJson<'a> {
    plot: &'a str,
    charts: Vec<ChartJson<'a>>,
}

#[derive(Serialize)]
struct ChartJson<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    study: Option<&'a str>,
    title: &'a str,
    x: &'a Axis,
    y: &'a Axis,
    empty: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    cells: Option<&'a HeatMap>,
    series: &'a [Series<'static>],
}

/// The kind of figure, which is the first or the last word, and the studies.
fn kind_of(words: &[String]) -> Result<(FigureKind, &[String]), Failure> {
    let kind = |word: &String| FigureKind::from_str(word, false).ok();
    let is_behind = words.len() == 2 && kind(&words[1]).is_some();
    let found = match words {
        [study @ .., last] if is_behind => kind(last).map(|kind| (kind, study)),
        [first, studies @ ..] => kind(first).map(|kind| (kind, studies)),
        [] => None,
    };
    found.ok_or_else(|| {
        let kinds = FigureKind::ALL.map(FigureKind::as_str);
        // A word like a kind is a misspelt one; without any, the words are studies.
        match words.iter().find(|word| nearest(word, kinds).is_some()) {
            Some(word) => Failure::usage(format!("`{}` is not a kind of plot", one_line(word)))
                .known(word, "the kinds are", kinds),
            None => {
                let first = words.first().map_or("", String::as_str);
                Failure::usage(format!("`{}` is not a kind of plot", one_line(first))).help(
                    format!(
                        "the kinds are {}; for a study, run `hpsearch plot {} {}`",
                        kinds.join(", "),
                        kinds[0],
                        one_line(&words.join(" ")),
                    ),
                )
            }
        }
    })
}

/// Draws the figures.
pub fn plot(arguments: &PlotArguments, console: &mut Console) -> Result<Exit, Failure> {
    if arguments.words.is_empty() {
        return list(arguments, console);
    }
    let (kind, named) = kind_of(&arguments.words)?;
    refuse_options_of_others(arguments, kind)?;
    let inputs = || store_files(&console.store).into_iter().chain(named.iter().map(PathBuf::from));
    let target = arguments.output.as_deref().map(|path| file::Target::of(path, inputs()));
    let target = target.transpose()?;
    if let Some(target) = target.as_ref().filter(|_| !arguments.overwrite) {
        target.refuse_others()?;
    }
    let reader = console.reader()?;
    let several = selection::watched(&reader, named, &arguments.several, console)?;
    let is_several = several.is_some();
    let studies = match several {
        Some(selection) => selection.find(&reader)?.studies,
        None => vec![find::study(&reader, named.first().map(String::as_str))?],
    };
    if is_several && kind == FigureKind::Importance && target.is_none() {
        let message = "importance is shown of one study at a time";
        return Err(Failure::usage(message).help("write `hpsearch importance STUDY`"));
    }
    let options = arguments.options(console.columns());
    if let (Some(trial), [study]) = (options.trial, &studies[..]) {
        find::trial(&reader, study, trial)?;
    }
    let studies: Vec<StudySummary> = match is_several {
        true => of_each(studies, console, |study| Ok(check(&reader, study, kind, &options)?))?
            .into_iter()
            .map(|(study, ())| study)
            .collect(),
        false => studies,
    };
    if let Some(by) = &options.group_by {
        for study in &studies {
            let groups = groups::of_study(&reader, study, by)?;
            say_left_out(study, &groups, is_several, console);
        }
    }
    let figures = figures(&reader, &studies, kind, &options)?;
    if let Some(target) = target {
        return write(&figures, kind, &target, (arguments, is_several), console);
    }
    if arguments.json {
        let output = plot_json(&figures, kind, is_several);
        let study = studies.first().map(|study| study.spec.name.as_str()).filter(|_| !is_several);
        return console.json(study, &output);
    }
    let axes: Vec<StudySummary> = match kind {
        FigureKind::Parallel => {
            let axes = studies.iter().map(|study| compared::read(&reader, study));
            axes.map(|study| study.map(Cow::into_owned)).collect::<Result<_, _>>()?
        }
        _ => Vec::new(),
    };
    print(&figures, &axes, kind, (arguments, is_several), console)?;
    Ok(Exit::Done)
}

fn refuse_options_of_others(arguments: &PlotArguments, kind: FigureKind) -> Result<(), Failure> {
    let choice = &arguments.choice;
    let of_curves = [
        (choice.axis.is_some() || choice.wall, "`--clock` and `--wall` are"),
        (choice.metric.is_some() && !kind.is_of_an_objective(), "`--metric` is"),
        (arguments.smooth > 0.0, "`--smooth` is"),
        (choice.groups.by.is_some(), "`--by` is"),
        (!choice.groups.over.is_empty(), "`--over` is"),
    ];
    if let Some((_, what)) =
        of_curves.iter().find(|(given, _)| *given && kind != FigureKind::Curves)
    {
        let message = format!("{what} not for `plot {}`", kind.as_str());
        return Err(Failure::usage(message).help("`plot curves` takes it"));
    }
    let takes_params = matches!(kind, FigureKind::Slice | FigureKind::Contour);
    if !arguments.param.is_empty() && !takes_params {
        let message = "`--param` is for `plot slice` and `plot contour`";
        return Err(Failure::usage(message).help("the other kinds show all parameters, or none"));
    }
    if (arguments.log_x && !kind.has_log_x()) || (arguments.log_y && !kind.has_log_y()) {
        let axis = if arguments.log_x && !kind.has_log_x() { "--log-x" } else { "--log-y" };
        let names = |has: fn(FigureKind) -> bool| {
            let kinds = FigureKind::ALL.into_iter().filter(|kind| has(*kind));
            kinds.map(FigureKind::as_str).collect::<Vec<_>>().join(", ")
        };
        let kinds = match axis {
            "--log-x" => names(FigureKind::has_log_x),
            _ => names(FigureKind::has_log_y),
        };
        let message = format!("`{axis}` is not for `plot {}`", kind.as_str());
        return Err(Failure::usage(message).help(format!("it is for {kinds}")));
    }
    let is_drawn = arguments.output.is_none() && !arguments.json;
    if is_drawn
        && (arguments.width.is_some_and(|width| width > MOST_COLUMNS)
            || arguments.height.is_some_and(|height| height > MOST_ROWS))
    {
        let message = format!("a drawing has at most {MOST_COLUMNS} columns and {MOST_ROWS} rows");
        return Err(Failure::usage(message).help("`-o FILE` allows more: there they are pixels"));
    }
    if arguments.trial.is_some() && kind != FigureKind::System {
        let message = "`--trial` is for `plot system`";
        return Err(Failure::usage(message).help("the other kinds show all trials of a study"));
    }
    Ok(())
}

/// The kinds, a line each.
fn list(arguments: &PlotArguments, console: &mut Console) -> Result<Exit, Failure> {
    if arguments.output.is_some() || arguments.json || arguments.several.is_given() {
        let kinds = FigureKind::ALL.map(FigureKind::as_str).join(", ");
        return Err(
            Failure::usage("the kind of plot is missing").help(format!("write one first: {kinds}"))
        );
    }
    let table = Columns::of(&FigureKind::ALL)
        .left("kind", |kind| kind.as_str().to_owned())
        .left("what it shows", |kind| kind.summary().to_owned())
        .end();
    console.table(&table)?;
    Ok(Exit::Done)
}

fn plot_json<'a>(figures: &'a [StudyFigure], kind: FigureKind, is_several: bool) -> PlotJson<'a> {
    let charts = figures.iter().map(|StudyFigure { study, figure }| ChartJson {
        study: study.as_deref().filter(|_| is_several),
        title: &figure.title,
        x: &figure.x,
        y: &figure.y,
        empty: figure.empty,
        cells: figure.cells.as_ref(),
        series: &figure.series,
    });
    PlotJson { plot: kind.as_str(), charts: charts.collect() }
}

fn write(
    figures: &[StudyFigure],
    kind: FigureKind,
    target: &file::Target<'_>,
    (arguments, is_several): (&PlotArguments, bool),
    console: &mut Console,
) -> Result<Exit, Failure> {
    let titled = |StudyFigure { study, figure }: &StudyFigure| {
        let mut figure = figure.clone();
        // Titles of a study's several figures do not name it.
        if let Some(study) = study.as_deref().filter(|_| is_several) {
            let study = one_line(study);
            if !figure.title.starts_with(&study) {
                figure.title = format!("{study}: {}", figure.title);
            }
        }
        figure
    };
    let drawn: Vec<Figure<'_>> = figures.iter().map(titled).collect();
    if drawn.is_empty() {
        return Err(Failure::usage("there is nothing to draw"));
    }
    let size = file::size(arguments.width, arguments.height, drawn.len());
    let json = || console.json_text(&plot_json(figures, kind, is_several));
    target.write(&drawn, file::palette(arguments.dark), size, &json)?;
    let what = count(drawn.len() as u64, "figure");
    console.say(&format!("{what} written to {}", one_line(&target.path.display().to_string())));
    for figure in drawn.iter().filter(|figure| is_empty(figure)) {
        console.say(&format!("nothing is drawn of `{}`: {}", figure.title, figure.empty));
    }
    Ok(Exit::Done)
}

/// Whether a figure has nothing but its reason for that.
fn is_empty(figure: &Figure<'_>) -> bool {
    let mut points = figure.series.iter().flat_map(|series| series.points.iter());
    figure.cells.is_none() && !points.any(|(x, y)| x.is_finite() && y.is_finite())
}

fn print(
    figures: &[StudyFigure],
    axes: &[StudySummary],
    kind: FigureKind,
    (arguments, is_several): (&PlotArguments, bool),
    console: &mut Console,
) -> Result<(), Failure> {
    let height = arguments.height.unwrap_or(if kind == FigureKind::Slice { 12 } else { 20 });
    let size = Size {
        width: arguments.width.unwrap_or_else(|| console.columns()).min(MOST_COLUMNS),
        height,
    };
    let mut before: Option<&str> = None;
    for (index, StudyFigure { study, figure }) in figures.iter().enumerate() {
        if index > 0 {
            writeln!(console.out)?;
        }
        if is_several
            && let Some(study) = study.as_deref()
            && before != Some(study)
        {
            writeln!(console.out, "{}", one_line(study))?;
            before = Some(study);
        }
        if is_empty(figure) {
            for line in [figure.title.as_str(), figure.empty] {
                let fitted = console.look.shorten(line, usize::from(size.width));
                writeln!(console.out, "{fitted}")?;
            }
        } else {
            drawing::print(&mut console.out, figure, size, console.look)?;
        }
        let is_of = |other: &&StudySummary| study.as_deref() == Some(other.spec.name.as_str());
        if let Some(study) = axes.iter().find(is_of) {
            console.table(&parallel_axes(&study.spec))?;
        }
    }
    Ok(())
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
            (&["acc"], "for a study, run `hpsearch plot history acc`"),
            (&["all", "acc"], "`all` is not a kind of plot"),
            (&["acc", "histroy"], "`histroy` is not a kind of plot"),
            (&["curvs"], "did you mean `curves`?"),
        ] {
            assert!(said(words).contains(expected), "{words:?}: {}", said(words));
        }
    }
}
