//! Optimiser steps: forward and backward passes of the micro-batches, clipping, the update, and the
//! outcome.

use std::time::Instant;

use burn::tensor::Tensor;

use super::super::backward_pass::BackwardPass;
use super::super::gradients::{Gradients, loss_and_norm_of};
use super::super::layers::DropoutKey;
use super::super::optimiser::{GradientClip, Placement, StepScalars, clip_coefficient};
use super::super::parameters::host;
use super::super::precision::GradScaler;
use super::super::task::{Draw, Masking, MicroBatch, step_targets};
use super::super::{TrainerError, profile};
use super::TrainingRun;

/// The outcome of an optimiser step.
pub(in super::super) enum StepOutcome {
    /// The loss before the step.
    Loss(f64),
    /// The scaled loss overflowed fp16: the step was skipped, and the scale reduced.
    Overflow,
    /// The non-finite quantity. The step was not made, or, if it was pending, wasted.
    NotFinite(String),
}

/// Most pending steps: a diverged trial wastes at most this many.
const MAX_PENDING: usize = 32;

fn not_finite(loss: f64, norm: f64) -> Option<String> {
    let found =
        [("loss", loss), ("gradient norm", norm)].into_iter().find(|(_, value)| !value.is_finite());
    found.map(|(what, value)| format!("the {what} is {value}"))
}

impl TrainingRun<'_> {
    /// Makes the next optimiser step; the number of the step that diverged, and what was not
    /// finite, if it is known.
    pub(super) fn step(&mut self) -> Result<Option<(u64, String)>, TrainerError> {
        let step = self.state.global_step;
        // The learning-rate schedule does not count skipped steps, as in transformers.
        let made = step - self.state.scaling.map_or(0, |scaling| scaling.skipped);
        if let Some(outcome) =
            self.advance(step, self.schedule.learning_rate(made, &self.state.plateau))?
        {
            return Ok(self.record(step, outcome));
        }
        let is_due = self.pending.len() >= MAX_PENDING
            || self.logs_now()
            || self.due().is_some()
            || self.state.global_step >= self.plan.total_steps;
        if is_due { self.settle() } else { Ok(None) }
    }

    /// Makes an optimiser step with the rows of step `rows_of` and this learning rate.
    pub(in super::super) fn step_with(
        &mut self,
        rows_of: u64,
        learning_rate: f64,
    ) -> Result<StepOutcome, TrainerError> {
        match self.advance(rows_of, learning_rate)? {
            Some(outcome) => Ok(outcome),
            None => Ok(self.read_pending()?.pop().expect("the step is pending").1),
        }
    }

    /// The same; `None` where the device computes asynchronously and the outcome is pending.
    fn advance(
        &mut self,
        rows_of: u64,
        learning_rate: f64,
    ) -> Result<Option<StepOutcome>, TrainerError> {
        let began = Instant::now();
        let (step, arguments) = (self.state.global_step, self.job.arguments);
        let epoch = self.plan.epoch(rows_of);
        let data = profile::phase("data");
        if self.order.0 != epoch {
            self.order = (epoch, self.plan.order(epoch));
        }
        let micro_batches = self.plan.micro_batches(rows_of, &self.order.1);
        let usual = Masking::default();
        let masking = Masking {
            probability: arguments.mlm_probability.unwrap_or(usual.probability),
            whole_words: arguments.whole_word_mask.unwrap_or(usual.whole_words),
        };
        let draw = Draw { seed: self.job.seed, epoch, masking };
        let examples = || micro_batches.iter().flatten().copied();
        let step_targets = step_targets(&*self.model, self.job.data, examples(), draw);
        drop(data);
        let weights = self.tuning.step_weight(self.job.data, examples());
        let mut sum: Option<(Tensor<1>, Gradients)> = None;
        for (number, chosen) in (0..).zip(&micro_batches) {
            let (data, smoothing) = (self.job.data, arguments.label_smoothing_factor);
            let micro_batch = MicroBatch { data, chosen, step_targets, weights, draw, smoothing };
            let key = DropoutKey { seed: draw.seed, step, micro_batch: number };
            let (loss, gradients) =
                self.backward_pass().gradients(&self.values, &micro_batch, key)?;
            sum = Some(match sum {
                None => (loss, gradients),
                Some((losses, sums)) => (losses + loss, sums.plus(gradients, &self.device)?),
            });
        }
        let (loss, gradients) = sum.expect("a step has at least one row");
        // With loss scaling, the gradients decide whether the step is made.
        let (outcome, clip) = if self.optimiser.placement == Placement::Device
            && self.state.scaling.is_none()
        {
            let _span = profile::phase("gradient norm");
            let loss_and_squares = gradients.loss_and_squares(loss);
            self.pending.push(loss_and_squares.clone());
            (
                None,
                GradientClip::on_device(loss_and_squares.narrow(0, 1, 1), arguments.max_grad_norm),
            )
        } else {
            let _span = profile::phase("gradient norm");
            let scale = self.state.scaling.map_or(1.0, |scaling| scaling.scale);
            let (loss, norm) = gradients.loss_and_norm(loss)?;
            let (loss, norm) = (loss / scale, norm / scale);
            if let Some(what) = not_finite(loss, norm) {
                if self.state.scaling.as_mut().is_some_and(GradScaler::overflowed) {
                    self.count_step(learning_rate, began);
                    return Ok(Some(if loss.is_finite() {
                        StepOutcome::Loss(loss)
                    } else {
                        StepOutcome::Overflow
                    }));
                }
                let (parameters, values) =
                    (self.model.parameters(), Gradients::from(self.values.clone()));
                let culprit = match values.first_non_finite(parameters)? {
                    Some(name) => format!("; the parameter `{name}` is no longer finite"),
                    None => gradients.first_non_finite(parameters)?.map_or(String::new(), |name| {
                        format!("; the first gradient that is not finite is `{name}`'s")
                    }),
                };
                return Ok(Some(StepOutcome::NotFinite(format!("{what}{culprit}"))));
            }
            self.gradient_norm = norm;
            if let Some(scaling) = &mut self.state.scaling {
                scaling.step_succeeded();
            }
            (
                Some(StepOutcome::Loss(loss)),
                GradientClip::By(clip_coefficient(norm, arguments.max_grad_norm) / scale),
            )
        };
        {
            let _span = profile::phase("optimiser");
            let skipped = self.state.scaling.map_or(0, |scaling| scaling.skipped);
            let scalars = StepScalars::new(learning_rate, step + 1 - skipped);
            let (parameters, values) = (self.model.parameters(), &mut self.values);
            self.optimiser.step(parameters, values, gradients, scalars, &clip)?;
            if let Some(average) = &mut self.average {
                average.update(parameters, &self.values);
            }
        }
        self.count_step(learning_rate, began);
        Ok(outcome)
    }

    /// Counts a step.
    fn count_step(&mut self, learning_rate: f64, began: Instant) {
        self.learning_rate = learning_rate;
        self.state.global_step += 1;
        self.state.epoch = self.plan.epochs_done(self.state.global_step);
        self.step_time.0 += began.elapsed();
        self.step_time.1 += 1;
    }

    /// Records the outcome of a step; the number of the step, from 1, and what was not finite, if
    /// it diverged.
    fn record(&mut self, step: u64, outcome: StepOutcome) -> Option<(u64, String)> {
        match outcome {
            StepOutcome::Loss(loss) => {
                self.state.since_report.add(loss);
                self.state.since_log.add(loss);
                None
            }
            StepOutcome::Overflow => None,
            StepOutcome::NotFinite(what) => Some((step + 1, what)),
        }
    }

    /// Reads pending outcomes from the device and records them. Steps after a non-finite one were
    /// wasted.
    pub(super) fn settle(&mut self) -> Result<Option<(u64, String)>, TrainerError> {
        Ok(self.read_pending()?.into_iter().find_map(|(step, outcome)| self.record(step, outcome)))
    }

    /// The outcomes of pending steps, with one read from the device for all.
    fn read_pending(&mut self) -> Result<Vec<(u64, StepOutcome)>, TrainerError> {
        if self.pending.is_empty() {
            return Ok(Vec::new());
        }
        let (began, _span) = (Instant::now(), profile::phase("waiting for the device"));
        let before = self.state.global_step - self.pending.len() as u64;
        let results = host(Tensor::cat(std::mem::take(&mut self.pending), 0))?;
        self.step_time.0 += began.elapsed();
        let steps = (before..).zip(results.chunks(2)).map(|(step, result)| {
            let (loss, norm) = loss_and_norm_of(result);
            let outcome = match not_finite(loss, norm) {
                // The gradients have been overwritten since, so the parameter cannot be named.
                Some(what) => StepOutcome::NotFinite(what),
                None => {
                    self.gradient_norm = norm;
                    StepOutcome::Loss(loss)
                }
            };
            (step, outcome)
        });
        Ok(steps.collect())
    }

    /// Sets the loss scale.
    #[cfg(test)]
    pub(in super::super) fn scale_losses_by(&mut self, scale: f64) {
        self.state.scaling.as_mut().expect("`fp16` scales losses").scale = scale;
    }

    /// The values of all parameters.
    #[cfg(test)]
    pub(in super::super) fn numbers(&self) -> Vec<Vec<f32>> {
        self.values.0.iter().map(|value| host(value.clone()).unwrap()).collect()
    }

    /// The forward and backward pass of a micro-batch.
    fn backward_pass(&self) -> BackwardPass<'_> {
        BackwardPass {
            model: &*self.model,
            tuning: &self.tuning,
            autodiff_device: &self.autodiff_device,
            device: &self.device,
            features: self.features.as_ref(),
            recompute: self.job.arguments.gradient_checkpointing,
            precision: self.precision,
            ranges: &self.ranges,
            scale: self.state.scaling.map_or(1.0, |scaling| scaling.scale),
        }
    }
}
