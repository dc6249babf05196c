//! The value that the sampler's model predicted when it proposed a trial, beside what became of it.

use crate::cli::prediction_json::value_of;
use crate::report::wording::{number, one_line, prediction};
use crate::study::prediction::Prediction;
use crate::study::spec::{Objective, StudySpec};
use crate::study::trial::Trial;

/// `by its sampler: eval_loss 0.41 (0.35 to 0.47), which became 0.43`.
pub(super) fn in_words(
    spec: &StudySpec,
    trial: &Trial,
    predicted: &[Prediction],
) -> Option<(&'static str, String)> {
    let of = |(index, (objective, predicted)): (usize, (&Objective, &Prediction))| {
        let words = prediction(objective, predicted);
        let Some(value) = value_of(trial, index) else { return words };
        let is_inside = (predicted.low..=predicted.high).contains(&value);
        let place = if is_inside { "" } else { ", outside" };
        format!("{words}, which became {}{place}", number(value))
    };
    let words: Vec<String> = spec.objectives.iter().zip(predicted).enumerate().map(of).collect();
    let words = words.join("; ");
    (!words.is_empty()).then(|| ("predicted", one_line(&format!("by its sampler: {words}"))))
}
