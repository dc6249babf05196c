//! `hpsearch train --overfit-one-batch` and `--find-lr`: diagnostics before training.

use std::borrow::Cow;
use std::path::Path;

use serde_json::Value as Json;

use crate::app::train_once::look;
use crate::arguments::Probe;
use crate::cli::drawing::{self, Size};
use crate::cli::waiting::listener;
use crate::cli::{Console, Exit, Failure};
use crate::export::Recipe;
use crate::report::figure::{Axis, Figure, Mark, Series, SeriesRole};
use crate::report::wording::number;
use crate::runner::protocol::{TrainJob, WorkerJob};
use crate::runner::worker_job::JobError;
use crate::study::space::Scale;

/// Range of learning rates: from almost no progress to certain divergence.
const RATES: (f64, f64) = (1e-6, 1.0);

/// Reduction of the loss that counts as overfitting.
const OVERFITTED: f64 = 0.9;

/// A learning rate, and the loss before its step.
type Point = (f64, f64);

/// Overfits the first batch, without regularisation, and reports whether that works.
pub fn one_batch(
    recipe: &Recipe,
    scratch: &Path,
    steps: u32,
    console: &mut Console,
) -> Result<Exit, Failure> {
    let (what, probe) = ("overfitting one batch", Probe::OneBatch { steps });
    let of = |train| WorkerJob::Probe { train: without_regularisation(train), probe };
    let points = points(look(what, recipe, scratch, of, &mut listener(console))?)?;
    let (Some((_, first)), Some((rate, last))) = (points.first(), points.last()) else {
        console.say(
            "the loss is not finite from the first step on: check the data, and lower \
            `learning_rate`",
        );
        return Ok(Exit::Done);
    };
    let losses: Vec<(f64, f64)> =
        (1u32..).zip(&points).map(|(step, (_, loss))| (f64::from(step), *loss)).collect();
    draw(
        "loss of one batch by \
        step",
        Axis::whole(),
        vec![("loss", losses, SeriesRole::Best)],
        console,
    )?;
    let broke = points.len() < steps as usize;
    let (from, to, count) = (number(*first), number(*last), points.len());
    console.say(&match last / first {
        _ if broke => format!(
            "the loss went from {from} to {to} and was not finite after {count} \
            steps: lower `learning_rate`, which is {rate:e}"
        ),
        left if left <= 1.0 - OVERFITTED => format!(
            "the model overfits the batch: the loss went from {from} to {to} in {count} steps"
        ),
        _ => format!(
            "the model does not overfit the batch: the loss went from {from} to {to} in {count} \
             steps with `learning_rate` = {rate:e}; try `--find-lr`, more `--steps`, a larger \
             model, and check whether texts and labels match"
        ),
    });
    Ok(Exit::Done)
}

/// Runs a learning-rate range test and reports the useful range.
pub fn learning_rates(
    recipe: &Recipe,
    scratch: &Path,
    steps: u32,
    console: &mut Console,
) -> Result<Exit, Failure> {
    let (from, to) = RATES;
    let (what, probe) = ("trying learning rates", Probe::LearningRates { from, to, steps });
    let of = |train| WorkerJob::Probe { train, probe };
    let points = points(look(what, recipe, scratch, of, &mut listener(console))?)?;
    let smooth: Vec<Point> = points.iter().map(|(rate, _)| *rate).zip(smoothed(&points)).collect();
    let axis = Axis { scale: Scale::Log, ..Axis::linear() };
    draw(
        "loss by learning rate",
        axis,
        vec![("loss", points.clone(), SeriesRole::Behind), ("smoothed", smooth, SeriesRole::Best)],
        console,
    )?;
    console.say(&match useful_rates(&points) {
        Some((steepest, lowest)) => format!(
            "the loss falls fastest at a learning rate of {steepest:.1e} and is lowest at \
             {lowest:.1e}: search for example between {:.1e} and {:.1e}",
            steepest / 10.0,
            lowest
        ),
        None => "the loss never falls: check whether texts and labels match, and try more \
            `--steps`"
            .to_owned(),
    });
    Ok(Exit::Done)
}

/// Disables dropout and label smoothing, which prevent overfitting.
fn without_regularisation(mut train: TrainJob) -> TrainJob {
    for key in ["label_smoothing_factor", "weight_decay"] {
        train.arguments.insert(key.to_owned(), 0.0.into());
    }
    if let Some(model) = train.arguments.get_mut("model") {
        for key in ["dropout", "attention_dropout"] {
            model[key] = 0.0.into();
        }
    }
    train
}

fn points(mut answer: Json) -> Result<Vec<Point>, JobError> {
    serde_json::from_value(answer["points"].take()).map_err(|error| {
        JobError::Failed(format!(
            "the worker's answer is not understood \
            ({error}): do the worker and this program differ?"
        ))
    })
}

fn draw(
    title: &str,
    x: Axis,
    lines: Vec<(&str, Vec<Point>, SeriesRole)>,
    console: &mut Console,
) -> Result<(), Failure> {
    let series = |(name, points, tone): (&str, Vec<Point>, SeriesRole)| Series {
        name: name.to_owned(),
        points: Cow::Owned(points),
        mark: Mark::Line,
        tone,
        trial: None,
    };
    let chart = Figure {
        title: title.to_owned(),
        x,
        y: Axis::without_outliers(Vec::new()),
        series: lines.into_iter().map(series).collect(),
        cells: None,
        empty: "no step was made",
    };
    let size = Size { width: console.columns(), height: 16 };
    drawing::print(&mut console.out, &chart, size, console.look)?;
    Ok(())
}

/// The learning rate at which the smoothed loss falls most steeply, and the one at which it is
/// lowest; `None` if it never falls.
fn useful_rates(points: &[Point]) -> Option<(f64, f64)> {
    let smooth = smoothed(points);
    // The mean is unreliable in the first steps.
    let first = points.len() / 10;
    let slope = |index: usize| {
        (smooth[index + 1] - smooth[index - 1]) / (points[index + 1].0 / points[index - 1].0).ln()
    };
    let lowest = (first..points.len()).min_by(|a, b| smooth[*a].total_cmp(&smooth[*b]))?;
    let steepest = (first.max(1)..lowest)
        .filter(|index| index + 1 < points.len())
        .min_by(|a, b| slope(*a).total_cmp(&slope(*b)))?;
    (slope(steepest) < 0.0).then(|| (points[steepest].0, points[lowest].0))
}

/// Exponential moving averages of the losses, bias-corrected.
fn smoothed(points: &[Point]) -> Vec<f64> {
    const KEEP: f64 = 0.9;
    let (mut mean, mut weight) = (0.0, 0.0);
    let mut next = |loss: f64| {
        mean = KEEP * mean + (1.0 - KEEP) * loss;
        weight = KEEP * weight + (1.0 - KEEP);
        mean / weight
    };
    points.iter().map(|(_, loss)| next(*loss)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_steepest_rate_lies_between_where_nothing_happens_and_the_lowest() {
        // Flat below 1e-4, down to a valley at 1e-2, up beyond.
        let loss = |place: f64| match place {
            place if place < -4.0 => 2.0,
            place if place < -2.0 => 2.0 - (place + 4.0) * 0.6,
            place => 0.8 + (place + 2.0) * 3.0,
        };
        let rate = |step: u32| 1e-6 * 1e6f64.powf(f64::from(step) / 99.0);
        let points: Vec<Point> =
            (0..100).map(|step| (rate(step), loss(rate(step).log10()))).collect();
        let (steepest, lowest) = useful_rates(&points).unwrap();
        assert!(
            (1e-4..2e-2).contains(&steepest) && (1e-2..6e-2).contains(&lowest) && steepest < lowest,
            "{steepest} {lowest}"
        );
    }

    #[test]
    fn a_loss_that_only_rises_has_no_useful_rate() {
        let rising = |step: u32| (1e-6 * f64::from(step + 1), 1.0 + f64::from(step));
        assert_eq!(useful_rates(&(0..50).map(rising).collect::<Vec<_>>()), None);
        assert_eq!(useful_rates(&[]), None);
        assert_eq!(useful_rates(&[rising(0)]), None);
    }
}
