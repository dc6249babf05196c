//! The part of a series that a chart shows: its axis and points.

use std::ops::RangeInclusive;

use crate::storage::{StorageError, StorageReader, StudySummary};
use crate::study::series::{Point, SeriesAxis, SeriesSummary};
use crate::study::time::Timestamp;
use crate::study::trial::TrialNumber;

/// All steps.
pub const ALL: RangeInclusive<f64> = f64::NEG_INFINITY..=f64::INFINITY;

/// The horizontal axis of a curve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// Steps of its axis.
    Step,
    /// Seconds since the trial began.
    Wall,
}

impl By {
    /// The unit of a chart's horizontal axis, for series on this axis.
    pub fn unit(self, axis: SeriesAxis) -> &'static str {
        match self {
            By::Wall => "seconds",
            By::Step => axis.as_str(),
        }
    }
}

/// Which points of a curve are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// All points.
    Every,
    /// The smallest, the largest and the last in each of this number of columns.
    Columns(u16),
}

/// The study's axis if the metric is on it, else the first that it is on.
pub fn shown_axis<'a>(
    study: &StudySummary,
    series: impl IntoIterator<Item = &'a SeriesSummary>,
) -> SeriesAxis {
    let own = SeriesAxis::from(study.spec.step);
    let axes: Vec<SeriesAxis> = series.into_iter().map(|series| series.axis).collect();
    [own].into_iter().chain(SeriesAxis::ALL).find(|axis| axes.contains(axis)).unwrap_or(own)
}

/// Seconds since a trial began.
pub fn seconds_since(began: Option<Timestamp>, at: Timestamp) -> f64 {
    at.since(began.unwrap_or(at)).as_secs_f64()
}

/// The points of a trial's curve.
///
/// # Errors
/// The store failed.
pub fn points(
    reader: &dyn StorageReader,
    study: &StudySummary,
    trial: TrialNumber,
    (metric, axis): (&str, SeriesAxis),
    by: By,
    detail: Detail,
) -> Result<Vec<(f64, f64)>, StorageError> {
    let began = reader.began(study.id, trial)?;
    let place = |step: f64, at: Timestamp| match by {
        By::Step => step,
        By::Wall => seconds_since(began, at),
    };
    Ok(match detail {
        Detail::Every => {
            let points = reader.series_points(study.id, trial, metric, axis, ALL)?;
            points.iter().map(|Point { step, value, at }| (place(*step, *at), *value)).collect()
        }
        Detail::Columns(columns) => {
            // A character has two dots side by side.
            let pixels = usize::from(columns) * 2;
            let pixels = reader.series_pixels(study.id, trial, metric, axis, ALL, pixels)?;
            let points = pixels.into_iter().flat_map(|pixel| {
                pixel.drawn().map(move |(step, value)| (place(step, pixel.at), value))
            });
            points.collect()
        }
    })
}
