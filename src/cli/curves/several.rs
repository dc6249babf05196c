//! The curves of trials of several studies: in one chart if metric and unit agree.

use std::borrow::Cow;
use std::io::Write as _;

use super::{CurvesArguments, CurvesJson, SHOWN, SeriesJson, series_json};
use crate::app::curves::{By, Detail, points, shown_axis};
use crate::app::exact_points::{ExactStep, exact_points};
use crate::app::find::{self, TrialsOf};
use crate::cli::drawing::{self, Size};
use crate::cli::{Console, Exit, Failure};
use crate::report::figure::{Axis, Figure, Mark, Series, SeriesRole};
use crate::report::table::Columns;
use crate::report::wording::one_line;
use crate::storage::{StorageError, StorageReader, StudySummary};
use crate::study::metric::Score;
use crate::study::query::{Filter, SortKey, TrialQuery};
use crate::study::series::{SeriesAxis, SeriesSummary};
use crate::study::trial::{Trial, TrialState};

/// One curve.
struct Shown {
    study: StudySummary,
    trial: Trial,
    metric: String,
    axis: SeriesAxis,
    /// The trial's series of the metric, on all axes.
    series: Vec<SeriesSummary>,
}

impl Shown {
    /// `digits/7`
    fn title(&self) -> String {
        let name = format!("{}/{}", one_line(&self.study.spec.name), self.trial.number);
        match self.trial.state {
            TrialState::Complete => name,
            state => format!("{name} ({})", state.as_str()),
        }
    }

    /// The metric and unit, which curves of one chart share.
    fn axes(&self) -> (&str, &'static str) {
        (&self.metric, self.axis.as_str())
    }
}

/// Prints the curves of the named trials, or else of the best ones of the studies.
pub fn curves(
    arguments: &CurvesArguments,
    named: Vec<TrialsOf>,
    console: &mut Console,
) -> Result<Exit, Failure> {
    let reader = console.reader()?;
    let trials = if arguments.several.is_given() {
        let word = arguments.words.first().map(String::as_str);
        best(&reader, arguments.several.studies(&reader, word, console)?)?
    } else {
        let mut trials = Vec::new();
        for (study, numbers) in named {
            for number in numbers {
                trials.push((find::trial(&reader, &study, number)?, study.clone()));
            }
        }
        trials
    };
    let (mut shown, mut all) = (Vec::new(), Vec::new());
    for (trial, study) in trials {
        let metric = &arguments.choice.metric;
        let metric = metric.as_ref().unwrap_or(&study.spec.objective().metric).clone();
        let mut series = reader.series(study.id, &[trial.number])?;
        all.extend(series.iter().cloned());
        series.retain(|series| {
            series.metric == metric && arguments.choice.axis.is_none_or(|axis| axis == series.axis)
        });
        let axis = arguments.choice.axis.unwrap_or_else(|| shown_axis(&study, &series));
        shown.push(Shown { study, trial, metric, axis, series });
    }
    if let Some(metric) = &arguments.choice.metric {
        arguments.choice.of(&all, metric)?;
    }
    if arguments.json {
        let series = shown.iter().flat_map(|curve| {
            curve.series.iter().map(|series| {
                let name = Some(curve.study.spec.name.as_str());
                series_json(&reader, &curve.study, series)
                    .map(|json| SeriesJson { study: name, ..json })
            })
        });
        let series = series.collect::<Result<_, StorageError>>()?;
        return console.json_of_version(2, None, &CurvesJson { series });
    }
    if shown.is_empty() {
        console.say("there are no trials yet");
    }
    if arguments.table {
        return table(&reader, &shown, console);
    }
    // One chart for each pair of axes.
    let mut first = true;
    while let Some(axes) = shown.first().map(Shown::axes) {
        let axes = (axes.0.to_owned(), axes.1);
        let (together, others): (Vec<_>, Vec<_>) =
            shown.into_iter().partition(|curve| curve.axes() == (axes.0.as_str(), axes.1));
        if !std::mem::take(&mut first) {
            writeln!(console.out)?;
        }
        let width = arguments.width.unwrap_or_else(|| console.columns());
        let size = Size { width, height: arguments.height };
        let chart = chart(&reader, &together, arguments.choice.by(), width)?;
        drawing::print(&mut console.out, &chart, size, console.look)?;
        shown = others;
    }
    Ok(Exit::Done)
}

/// The best trials of the studies: of those with one metric and direction together, as many as
/// there are colours.
fn best(
    reader: &dyn StorageReader,
    studies: Vec<StudySummary>,
) -> Result<Vec<(Trial, StudySummary)>, Failure> {
    let mut found: Vec<(Trial, StudySummary)> = Vec::new();
    for study in studies {
        let query = TrialQuery::all(SortKey::Value).filtered(study.visible(Filter::all()));
        let trials = reader.trials(study.id, &query.page(0, SHOWN))?;
        found.extend(trials.into_iter().map(|trial| (trial, study.clone())));
    }
    found.sort_by(|(one, of_one), (other, of_other)| {
        let key = |trial: &Trial, study: &StudySummary| {
            let value = trial.value.or_else(|| trial.last().map(|(_, value)| value));
            let score = Score::new(study.spec.direction(), value.unwrap_or(f64::NAN));
            let objective = study.spec.objective();
            let is_open = trial.state != TrialState::Complete;
            (objective.metric.clone(), objective.direction.as_str(), is_open, score)
        };
        key(one, of_one).cmp(&key(other, of_other))
    });
    let mut taken: Vec<(Trial, StudySummary)> = Vec::new();
    for (trial, study) in found {
        let of_its_kind = taken.iter().filter(|(_, other)| {
            other.spec.objective().metric == study.spec.objective().metric
                && other.spec.direction() == study.spec.direction()
        });
        if (of_its_kind.count() as u64) < SHOWN {
            taken.push((trial, study));
        }
    }
    Ok(taken)
}

fn chart(
    reader: &dyn StorageReader,
    curves: &[Shown],
    by: By,
    width: u16,
) -> Result<Figure<'static>, StorageError> {
    let (metric, unit) = curves.first().map_or(("", ""), Shown::axes);
    let unit = if by == By::Wall { "seconds" } else { unit };
    let series = curves.iter().enumerate().map(|(index, curve)| {
        let Shown { study, trial, metric, axis, .. } = curve;
        let (series, detail) = ((metric.as_str(), *axis), Detail::Columns(width));
        Ok(Series {
            name: curve.title(),
            points: Cow::Owned(points(reader, study, trial.number, series, by, detail)?),
            mark: Mark::Line,
            tone: SeriesRole::Compared(index),
            trial: Some(trial.number),
        })
    });
    Ok(Figure {
        title: one_line(&format!("{metric} by {unit}")),
        series: series.collect::<Result<_, StorageError>>()?,
        x: if by == By::Wall { Axis::default() } else { Axis::whole() },
        y: Axis::without_outliers(Vec::new()),
        cells: None,
        empty: "no reports yet",
    })
}

/// One row for each point: curves of several studies have few steps in common.
fn table(
    reader: &dyn StorageReader,
    curves: &[Shown],
    console: &mut Console,
) -> Result<Exit, Failure> {
    let mut rows: Vec<(&Shown, ExactStep, f64)> = Vec::new();
    for curve in curves {
        let Shown { study, trial, metric, axis, .. } = curve;
        let points = exact_points(reader, study, trial.number, metric, *axis)?;
        rows.extend(points.iter().map(|(step, point)| (curve, *step, point.value)));
    }
    let columns = Columns::of(&rows)
        .left("study", |(curve, ..)| one_line(&curve.study.spec.name))
        .right("trial", |(curve, ..)| curve.trial.number.to_string())
        .left("metric", |(curve, ..)| one_line(&curve.metric))
        .left("unit", |(curve, ..)| curve.axis.as_str())
        .right("step", |(_, step, _)| step.to_string())
        .metric("value", |(.., value)| Some(*value));
    console.table(&columns.end())?;
    Ok(Exit::Done)
}
