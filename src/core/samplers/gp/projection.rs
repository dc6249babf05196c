//! Studies of several objectives as studies of one.

use crate::study::history::History;
use crate::study::trial::{Trial, TrialState};

/// The trials of a study of one loss, which is a function of the losses.
pub(super) fn projected(history: &History<'_>, loss: impl Fn(&[f64]) -> f64) -> Vec<Trial> {
    let of = |values: &[f64]| loss(&history.losses(values));
    let project = |trial: &Trial| {
        let is_complete =
            trial.state == TrialState::Complete && trial.values.len() == history.directions().len();
        let at = |(step, _): &(u64, Vec<Option<f64>>)| {
            let known = trial.values_at(*step).into_iter();
            let values: Vec<f64> = known.map(|value| value.unwrap_or(f64::NAN)).collect();
            let loss = of(&values);
            loss.is_finite().then_some((*step, loss))
        };
        let Trial { number, state, violation, until, hold, attempts, created, .. } = *trial;
        Trial {
            state,
            violation,
            until,
            hold,
            attempts,
            value: is_complete.then(|| of(&trial.values)),
            curve: trial.vectors.iter().filter_map(at).collect(),
            last_metrics: trial.last_metrics.clone(),
            ..Trial::new(number, trial.params.clone(), trial.origin.clone(), created)
        }
    };
    history.trials().iter().map(project).collect()
}
