//! Diagnostics before training: overfitting one batch, and the learning-rate range test.

use super::training::{StepOutcome, TrainingRun};
use super::{Host, TrainerError, TrainingJob};
use hpsearch_core::arguments::Probe;

/// A loss this many times the best one ends the range test.
const DIVERGENCE_FACTOR: f64 = 4.0;

/// Makes the steps of a probe; returns the learning rate of each and the loss before it. Nothing is
/// written, evaluated or reported.
///
/// # Errors
/// As [`train`](super::train).
pub fn probe(
    job: &TrainingJob<'_>,
    probe: Probe,
    host: &mut dyn Host,
) -> Result<Vec<(f64, f64)>, TrainerError> {
    let mut run = TrainingRun::begin(job, host)?;
    let steps = match probe {
        Probe::OneBatch { steps } | Probe::LearningRates { steps, .. } => steps,
    };
    let mut points = Vec::new();
    let mut best = f64::INFINITY;
    for step in 0..steps {
        let (rows_of, learning_rate) = match probe {
            Probe::OneBatch { .. } => (0, job.arguments.learning_rate),
            Probe::LearningRates { from, to, .. } => (
                u64::from(step),
                from * (to / from).powf(f64::from(step) / f64::from(steps.max(2) - 1)),
            ),
        };
        let loss = match run.step_with(rows_of, learning_rate)? {
            StepOutcome::Loss(loss) => loss,
            StepOutcome::Overflow => continue,
            StepOutcome::NotFinite(_) => break,
        };
        points.push((learning_rate, loss));
        best = best.min(loss);
        host.at(u64::from(step) + 1, u64::from(steps));
        if matches!(probe, Probe::LearningRates { .. }) && loss > DIVERGENCE_FACTOR * best {
            break;
        }
        if host.stop_requested() {
            break;
        }
    }
    Ok(points)
}
