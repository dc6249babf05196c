//! Profiles a few training steps.

use std::fs;
use std::path::Path;
use std::time::Instant;

use super::profile::{self, Profile};
use super::training::{StepOutcome, TrainingRun};
use super::training_plan::DueEvaluation;
use super::{Host, TrainerError, TrainingJob};

/// Steps before profiling starts: they allocate memory and touch its pages for the first time.
const WARM_UP: u64 = 2;

/// Profiles `steps` optimiser steps, an evaluation and a checkpoint; all spans are written to
/// `trace` for chrome://tracing and Perfetto.
///
/// # Errors
/// As [`train`](super::train); a trace that cannot be written.
pub fn profile(
    job: &TrainingJob<'_>,
    steps: u32,
    trace: &Path,
    host: &mut dyn Host,
) -> Result<Profile, TrainerError> {
    let mut run = TrainingRun::begin(job, host)?;
    run.cache_features(host)?;
    let learning_rate = job.arguments.learning_rate;
    let step =
        |run: &mut TrainingRun<'_>, number: u64| match run.step_with(number, learning_rate)? {
            StepOutcome::Loss(_) | StepOutcome::Overflow => Ok(()),
            StepOutcome::NotFinite(what) => {
                Err(TrainerError::arguments(format!("{what}: lower `learning_rate` for a profile")))
            }
        };
    host.at(0, u64::from(steps));
    for number in 0..WARM_UP {
        step(&mut run, number)?;
    }
    profile::start();
    let began = Instant::now();
    for number in 0..steps {
        let _span = profile::step(number + 1);
        step(&mut run, WARM_UP + u64::from(number))?;
        host.at(u64::from(number) + 1, u64::from(steps));
    }
    let seconds = began.elapsed().as_secs_f64();
    {
        let _span = profile::phase(profile::EVALUATION);
        run.evaluate(DueEvaluation { study_step: 0, reported: false, scheduled: false }, host)?;
    }
    {
        let _span = profile::phase(profile::CHECKPOINT);
        run.checkpoint(host)?;
    }
    let (profile, events) = profile::finish(steps, seconds);
    fs::write(trace, events.to_string()).map_err(TrainerError::io("write", trace))?;
    Ok(profile)
}
