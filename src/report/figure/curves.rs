//! The curves of trials, of one study or of several.

use super::of_study::{present, series, values};
use super::{Axis, Figure, Mark, SeriesRole};
use crate::report::wording::one_line;
use crate::study::trial::TrialNumber;

/// A trial's curve: steps, or seconds, and values.
pub type StudyCurve = (TrialNumber, Vec<(f64, f64)>);

/// The curves of trials, the best in front.
pub fn curves(
    title: &str,
    curves: Vec<StudyCurve>,
    best: Option<TrialNumber>,
    value: Option<f64>,
) -> Figure<'static> {
    let x = axis_of(curves.iter().flat_map(|(_, points)| points));
    let (front, behind): (Vec<StudyCurve>, Vec<StudyCurve>) =
        curves.into_iter().partition(|(number, _)| best == Some(*number));
    let behind = behind.into_iter().map(|(number, points)| {
        series("", points, Mark::Line, SeriesRole::Behind).of_trial(number)
    });
    let front = front.into_iter().map(|(number, points)| {
        let name = format!("trial {number}, the best");
        series(&name, points, Mark::Line, SeriesRole::Best).of_trial(number)
    });
    Figure {
        title: one_line(title),
        x,
        y: values(value),
        series: present(behind.chain(front).collect()),
        cells: None,
        empty: "no reports yet",
    }
}

/// The curves of trials of several studies, of each in one colour: the best of each is in front.
pub fn curves_of_several<'a>(
    title: &str,
    studies: impl Iterator<Item = (&'a str, Option<f64>, &'a [StudyCurve])>,
) -> Figure<'static> {
    let studies: Vec<_> = studies.collect();
    let points = studies.iter().flat_map(|(.., curves)| curves.iter());
    let x = axis_of(points.flat_map(|(_, points)| points));
    let (mut behind, mut front) = (Vec::new(), Vec::new());
    for (index, (name, _, curves)) in studies.iter().enumerate() {
        // The best comes first.
        for (nth, (_, points)) in curves.iter().enumerate() {
            let name = if nth == 0 { one_line(name) } else { String::new() };
            let line = series(&name, points.clone(), Mark::Line, SeriesRole::Compared(index));
            if nth == 0 { &mut front } else { &mut behind }.push(line);
        }
    }
    Figure {
        title: one_line(title),
        x,
        y: Axis::without_outliers(studies.iter().filter_map(|(_, best, _)| *best).collect()),
        series: present(behind.into_iter().chain(front).collect()),
        cells: None,
        empty: "no reports yet",
    }
}

/// The mean curve of several runs.
#[derive(Clone, Debug)]
pub struct MeanCurve {
    /// What the legend calls it.
    pub name: String,
    /// Steps, means and standard deviations.
    pub points: Vec<(f64, f64, f64)>,
}

/// Mean curves over bands of a standard deviation to both sides.
pub fn means(title: &str, means: Vec<MeanCurve>) -> Figure<'static> {
    let line = |one: &MeanCurve| -> Vec<(f64, f64)> {
        one.points.iter().map(|(step, mean, _)| (*step, *mean)).collect()
    };
    let band = |one: &MeanCurve| -> Vec<(f64, f64)> {
        let ends = |(step, mean, deviation): &(f64, f64, f64)| {
            [(*step, mean - deviation), (*step, mean + deviation)]
        };
        one.points.iter().flat_map(ends).collect()
    };
    let lines: Vec<Vec<(f64, f64)>> = means.iter().map(line).collect();
    let x = axis_of(lines.iter().flatten());
    let bands = means
        .iter()
        .enumerate()
        .map(|(index, one)| series("", band(one), Mark::Band, SeriesRole::Compared(index)));
    let bands: Vec<_> = bands.collect();
    let lines = means.iter().zip(lines).enumerate().map(|(index, (one, points))| {
        series(&one.name, points, Mark::Line, SeriesRole::Compared(index))
    });
    Figure {
        title: one_line(title),
        x,
        y: Axis::without_outliers(Vec::new()),
        series: present(bands.into_iter().chain(lines).collect()),
        cells: None,
        empty: "no reports yet",
    }
}

/// An axis of steps, or of seconds.
fn axis_of<'a>(points: impl IntoIterator<Item = &'a (f64, f64)>) -> Axis {
    let is_whole = points.into_iter().all(|(step, _)| step.fract() == 0.0);
    if is_whole { Axis::whole() } else { Axis::default() }
}
