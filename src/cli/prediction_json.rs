//! What a sampler's model predicted of a trial, as JSON.

use serde::Serialize;

use crate::study::metric::Number;
use crate::study::prediction::Prediction;
use crate::study::spec::{Objective, StudySpec};
use crate::study::trial::Trial;

/// A predicted value, and what became of it.
#[derive(Serialize)]
pub(super) struct PredictionJson<'a> {
    metric: &'a str,
    median: f64,
    low: f64,
    high: f64,
    /// The trial's value, once it is complete.
    value: Option<Number>,
}

/// The predictions of a trial, by objective.
pub(super) fn predictions_json<'a>(
    spec: &'a StudySpec,
    trial: &Trial,
    predicted: &[Prediction],
) -> Vec<PredictionJson<'a>> {
    let named = spec.objectives.iter().zip(predicted).enumerate();
    let of = |(index, (objective, predicted)): (usize, (&'a Objective, &Prediction))| {
        let Prediction { median, low, high } = *predicted;
        let value = value_of(trial, index).map(Number);
        PredictionJson { metric: &objective.metric, median, low, high, value }
    };
    named.map(of).collect()
}

/// The value of a trial, by objective.
pub(super) fn value_of(trial: &Trial, objective: usize) -> Option<f64> {
    trial.value.filter(|_| objective == 0).or_else(|| trial.values.get(objective).copied())
}
