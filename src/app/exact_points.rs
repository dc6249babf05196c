//! The points of a series with the steps as they were reported, which floats hold up to 2^53 only.

use std::cmp::Ordering;
use std::fmt;

use super::curves::ALL;
use crate::storage::{StorageError, StorageReader, StudySummary};
use crate::study::series::{Point, SeriesAxis, step_json};
use crate::study::trial::TrialNumber;

/// From here on several integers have the same float: 2^53.
const ROUNDED: f64 = 9_007_199_254_740_992.0;

/// A step of a series.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ExactStep {
    real: f64,
    /// The integer that was reported, if the float may differ from it.
    reported: Option<u64>,
}

impl ExactStep {
    /// The step as the float that charts place it by.
    pub fn real(self) -> f64 {
        self.real
    }

    /// As JSON: an integer if it is integral.
    pub fn to_json(self) -> serde_json::Value {
        self.reported.map_or_else(|| step_json(self.real), serde_json::Value::from)
    }

    /// The order on the axis.
    pub fn order(&self, other: &Self) -> Ordering {
        self.real.total_cmp(&other.real).then(self.reported.cmp(&other.reported))
    }
}

impl fmt::Display for ExactStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.reported {
            Some(step) => step.fmt(f),
            None => self.real.fmt(f),
        }
    }
}

/// All points of a series. What was logged without a report has the steps that floats hold.
///
/// # Errors
/// The store failed.
pub fn exact_points(
    reader: &dyn StorageReader,
    study: &StudySummary,
    trial: TrialNumber,
    metric: &str,
    axis: SeriesAxis,
) -> Result<Vec<(ExactStep, Point)>, StorageError> {
    let points = reader.series_points(study.id, trial, metric, axis, ALL)?;
    let has_rounded = points.iter().any(|point| point.step >= ROUNDED);
    let mut reports = Vec::new();
    if has_rounded && axis == SeriesAxis::from(study.spec.step) {
        let curves = reader.curves(study.id, metric, &[trial])?;
        reports.extend(curves.into_iter().flat_map(|(_, reports)| reports));
    }
    #[expect(clippy::cast_precision_loss, reason = "rounded as the steps of points are")]
    let rounded = reports.into_iter().map(|(step, value)| (step, step as f64, value));
    let mut reports = rounded.filter(|(_, real, _)| *real >= ROUNDED).peekable();
    let exact = |point: Point| {
        let mut reported = None;
        while reported.is_none()
            && let Some((step, real, value)) = reports.next_if(|(_, real, _)| *real <= point.step)
        {
            let is_same = real == point.step && value.to_bits() == point.value.to_bits();
            reported = is_same.then_some(step);
        }
        (ExactStep { real: point.step, reported }, point)
    };
    Ok(points.into_iter().map(exact).collect())
}
