//! The step of a line: by which key it is given, on which axis, and as which numbers.

use serde_json::{Map, Value};

use super::super::kept::cut;
use crate::study::remark::{Remark, RemarkKind};
use crate::study::series::SeriesAxis;
use crate::study::step::StepUnit;
use crate::study::trial::LARGEST_STEP;

/// Counts the steps of an attempt's reports, in the study's unit.
#[derive(Clone, Copy, Debug)]
pub struct StepCounter {
    /// The unit, by which lines may name it instead of `step`.
    pub unit: StepUnit,
    /// The last step: of a report, or of the checkpoint from which it continued.
    pub last: u64,
    /// The number of lines without a step that were no reports.
    pub points: u64,
}

impl StepCounter {
    /// Continues after a step.
    pub fn after(unit: StepUnit, last: u64) -> Self {
        StepCounter { unit, last, points: 0 }
    }

    /// The step of a checkpoint or an artifact that has none: of the last report, or else as many
    /// as were logged.
    pub(super) fn reached(self) -> Option<u64> {
        [self.last, self.points].into_iter().find(|step| *step > 0)
    }
}

/// The key of a line's step, and its axis.
#[derive(Clone, Copy, Debug)]
pub(super) struct StepKey {
    pub name: &'static str,
    pub axis: SeriesAxis,
    /// Whether it is the study's step in this line.
    pub is_study: bool,
}

impl StepKey {
    /// The step key of an object. `step` is the study's step in a report, whatever its unit, and an
    /// axis of its own otherwise; beside it a key with the name of an axis is a metric.
    pub fn of(object: &Map<String, Value>, unit: StepUnit, is_report: bool) -> Option<StepKey> {
        let own = SeriesAxis::from(unit);
        let given = |axis: SeriesAxis| object.get(axis.as_str()).is_some_and(|v| !v.is_null());
        // After `step`, a report prefers the study's unit.
        let preferred = [SeriesAxis::Step, own, SeriesAxis::Epoch, SeriesAxis::Samples];
        let axis = preferred.into_iter().find(|axis| given(*axis))?;
        let is_study = axis == own || (is_report && axis == SeriesAxis::Step);
        Some(StepKey { name: axis.as_str(), axis, is_study })
    }
}

/// Removes the step from a report, if it has one.
///
/// # Errors
/// The value is not a step.
pub fn step_of(object: &mut Map<String, Value>, unit: StepUnit) -> Result<Option<u64>, Remark> {
    let said = match step_name(object, unit).and_then(|name| Some((name, object.remove(name)?))) {
        None => None,
        Some((name, value)) => Some(whole(&value).ok_or_else(|| {
            let range = range_beside(&value);
            let value = cut(&value.to_string());
            let why = format!("`{name}` must be an integer {range}, not `{value}`");
            Remark::new(RemarkKind::Step, why)
        })?),
    };
    object.retain(|name, value| {
        !(value.is_null() && ["step", unit.as_str()].contains(&name.as_str()))
    });
    Ok(said)
}

/// The key of the step. `step` is the study's step whatever its unit: beside it a key with the
/// unit's name is a metric.
fn step_name(object: &Map<String, Value>, unit: StepUnit) -> Option<&'static str> {
    let names = ["step", unit.as_str()];
    names.into_iter().find(|name| object.get(*name).is_some_and(|value| !value.is_null()))
}

/// The largest integer up to which every one has a float of its own, 2^53. A larger step that is
/// written as a float may be another than the program meant.
const LARGEST_FLOAT: f64 = 9_007_199_254_740_992.0;

/// The range of steps, as far as it matters for a value that is none.
pub(super) fn range_beside(value: &Value) -> String {
    let text = value.as_str().map_or_else(|| value.to_string(), |text| text.trim().to_owned());
    match text.parse::<f64>() {
        Ok(float) if float > LARGEST_FLOAT && text.contains(['.', 'e', 'E']) => {
            format!(
                "from 0 to {LARGEST_STEP}, beyond {LARGEST_FLOAT} without a point or an exponent"
            )
        }
        Ok(float) if float > LARGEST_FLOAT => format!("from 0 to {LARGEST_STEP}"),
        _ => "of at least 0".to_owned(),
    }
}

/// A step as programs print it: an integer, `2.0`, or either as a string.
pub(super) fn whole(step: &Value) -> Option<u64> {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "whole, not negative and at most 2^53"
    )]
    let of_float = |float: f64| {
        (float.fract() == 0.0 && (0.0..=LARGEST_FLOAT).contains(&float)).then_some(float as u64)
    };
    match step {
        Value::Number(number) => number.as_u64().or_else(|| number.as_f64().and_then(of_float)),
        Value::String(text) => {
            text.trim().parse().ok().or_else(|| text.trim().parse().ok().and_then(of_float))
        }
        _ => None,
    }
    .filter(|step| *step <= LARGEST_STEP)
}

/// A non-negative step: a number, or one as a string.
pub(super) fn any(step: &Value) -> Option<f64> {
    match step {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    }
    .filter(|step| step.is_finite() && *step >= 0.0)
}
