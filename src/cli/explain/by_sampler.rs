//! The value that the sampler's model predicted when it proposed a trial, and how far off it was.

use serde::Serialize;

use super::story::Story;
use crate::report::wording::{number, one_line, predictions};
use crate::study::metric::{Number, significant};
use crate::study::prediction::Prediction;
use crate::study::spec::StudySpec;
use crate::study::trial::Trial;

/// A predicted value, and what became of it.
#[derive(Serialize)]
pub(super) struct PredictionJson<'a> {
    metric: &'a str,
    mean: f64,
    std: f64,
    low: f64,
    high: f64,
    /// The trial's value, once it is complete.
    value: Option<Number>,
    /// Its difference from the mean, in standard deviations.
    standardized_error: Option<f64>,
}

/// The predictions, by objective.
pub(super) fn json<'a>(
    spec: &'a StudySpec,
    trial: &Trial,
    story: &Story,
) -> Vec<PredictionJson<'a>> {
    let predicted = story.proposal.iter().flat_map(|proposal| &proposal.by_sampler);
    let of = |(index, predicted): (usize, &Prediction)| {
        let value = value(trial, index);
        let standardized_error = value.and_then(|value| predicted.standardized(value));
        let Prediction { mean, std, low, high } = *predicted;
        let metric = spec.objectives.get(index)?.metric.as_str();
        let value = value.map(Number);
        Some(PredictionJson { metric, mean, std, low, high, value, standardized_error })
    };
    predicted.enumerate().filter_map(of).collect()
}

/// `eval_loss 0.41 (0.35 to 0.47) by its sampler; it ended at 0.43, 0.55 standard deviations
/// above`.
pub(super) fn in_words(
    spec: &StudySpec,
    trial: &Trial,
    predicted: &[Prediction],
) -> Option<(&'static str, String)> {
    let words = predictions(spec, predicted)?;
    let off = predicted.iter().enumerate().filter_map(|(index, predicted)| {
        let value = value(trial, index)?;
        let side = if value < predicted.mean { "below" } else { "above" };
        let off = predicted
            .standardized(value)
            .map(|off| format!(", {} standard deviations {side}", significant(off.abs(), 2)));
        Some(format!("{}{}", number(value), off.unwrap_or_default()))
    });
    let off: Vec<String> = off.collect();
    let end = match off.is_empty() {
        true => String::new(),
        false => format!("; it ended at {}", off.join(" and ")),
    };
    Some(("predicted", one_line(&format!("{words} by its sampler{end}"))))
}

/// The value of a complete trial, by objective.
fn value(trial: &Trial, objective: usize) -> Option<f64> {
    trial.value.filter(|_| objective == 0).or_else(|| trial.values.get(objective).copied())
}
