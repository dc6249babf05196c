//! The curves of trials of several studies: over each other where metric and unit agree.

use std::borrow::Cow;
use std::io::Write as _;

use serde::Serialize;

use super::{CurvesArguments, SHOWN, step_on_axis};
use crate::app::find;
use crate::cli::drawing::{self, Size};
use crate::cli::{Console, Exit, Failure};
use crate::report::table::Columns;
use crate::report::wording::{number, one_line};
use crate::storage::{StorageReader, StudySummary};
use crate::study::metric::{Number, Score};
use crate::study::query::{Filter, SortKey, TrialQuery};
use crate::study::trial::{Trial, TrialNumber, TrialState};
use crate::tui::chart::{Axis, Chart, Mark, Series, SeriesRole};

/// One curve.
struct Shown {
    study: StudySummary,
    trial: Trial,
    metric: String,
    points: Vec<(u64, f64)>,
}

#[derive(Serialize)]
struct Answer<'a> {
    trials: Vec<CurveJson<'a>>,
}

#[derive(Serialize)]
struct CurveJson<'a> {
    study: &'a str,
    number: u64,
    state: TrialState,
    metric: &'a str,
    step: &'static str,
    points: Vec<(u64, Number)>,
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

    /// What has to agree for curves to be drawn over each other.
    fn axes(&self) -> (&str, &'static str) {
        (&self.metric, self.study.spec.step.as_str())
    }
}

/// Prints the curves of the trials that are named, or else the best of the studies.
pub fn curves(
    arguments: &CurvesArguments,
    named: &[(String, TrialNumber)],
    console: &mut Console,
) -> Result<Exit, Failure> {
    let reader = console.reader()?;
    let trials = if arguments.several.is_given() {
        let word = arguments.words.first().map(String::as_str);
        best(&reader, arguments.several.studies(&reader, word, console)?)?
    } else {
        let mut trials = Vec::new();
        for (study, number) in named {
            let study = find::study(&reader, Some(study))?;
            trials.push((find::trial(&reader, &study, *number)?, study));
        }
        trials
    };
    let mut shown = Vec::new();
    for (trial, study) in trials {
        let metric =
            arguments.metric.clone().unwrap_or_else(|| study.spec.objective().metric.clone());
        let curve = reader.curves(study.id, &metric, &[trial.number])?.pop();
        let points = curve.map(|(_, points)| points).unwrap_or_default();
        shown.push(Shown { study, trial, metric, points });
    }
    if let Some(metric) = &arguments.metric
        && !shown.is_empty()
        && shown.iter().all(|curve| curve.points.is_empty())
    {
        let message = format!("these trials report no `{}`", one_line(metric));
        return Err(Failure::usage(message).help("`hpsearch show STUDY` lists what was reported"));
    }
    if arguments.json {
        let trials = shown.iter().map(|curve| CurveJson {
            study: &curve.study.spec.name,
            number: curve.trial.number.0,
            state: curve.trial.state,
            metric: &curve.metric,
            step: curve.study.spec.step.as_str(),
            points: curve.points.iter().map(|(step, value)| (*step, Number(*value))).collect(),
        });
        return console.json(None, &Answer { trials: trials.collect() });
    }
    if shown.is_empty() {
        console.say("there are no trials yet");
    }
    if arguments.table {
        return table(&shown, console);
    }
    // A picture for each pair of axes.
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
        drawing::print(&mut console.out, &chart(&together), size, console.look)?;
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

fn chart(curves: &[Shown]) -> Chart<'_> {
    let (metric, unit) = curves.first().map_or(("", ""), Shown::axes);
    let series = curves.iter().enumerate().map(|(index, curve)| {
        let points = curve.points.iter().map(|(step, value)| (step_on_axis(*step), *value));
        Series {
            name: curve.title(),
            points: Cow::Owned(points.collect()),
            mark: Mark::Line,
            tone: SeriesRole::Compared(index),
        }
    });
    Chart {
        title: one_line(&format!("{metric} by {unit}")),
        x: Axis::whole(),
        y: Axis::without_outliers(Vec::new()),
        series: series.collect(),
        empty: "no reports yet",
    }
}

/// One row for each point: curves of several studies have few steps in common.
fn table(curves: &[Shown], console: &mut Console) -> Result<Exit, Failure> {
    let rows: Vec<(&Shown, u64, f64)> = curves
        .iter()
        .flat_map(|curve| curve.points.iter().map(move |(step, value)| (curve, *step, *value)))
        .collect();
    let columns = Columns::of(&rows)
        .left("study", |(curve, ..)| one_line(&curve.study.spec.name))
        .right("trial", |(curve, ..)| curve.trial.number.to_string())
        .left("metric", |(curve, ..)| one_line(&curve.metric))
        .left("unit", |(curve, ..)| curve.study.spec.step.as_str())
        .right("step", |(_, step, _)| step.to_string())
        .point("value", |(.., value)| number(*value));
    console.table(&columns.end())?;
    Ok(Exit::Done)
}
