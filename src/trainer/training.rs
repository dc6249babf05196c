//! The training loop on one page: evaluate, checkpoint, stop?, step, log.

mod start;
mod step;

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use burn::tensor::{Device, FloatDType, Tensor};
use serde_json::{Value, json};

use super::averaging::ExponentialAverage;
use super::checkpoint::{self, CheckpointContents};
use super::evaluation::named;
use super::fine_tuning::FineTuning;
use super::floats::real;
use super::frozen_features::FrozenFeatures;
use super::gradients::Gradients;
use super::latency::predict_ms;
use super::layers::IndexRanges;
use super::learning_rate_schedule::{LearningRateSchedule, Watched};
use super::optimiser::Optimiser;
use super::parameters::Values;
use super::task::{EvaluationSet, Model};
use super::trainer_state::{EvaluationReport, RunArguments, TrainerState, VERSION};
use super::training_plan::{DueEvaluation, EpochOrder, TrainingPlan};
use super::writing::TextGeneration;
use super::{Host, HostVerdict, Split, TrainerError, TrainingEnd, TrainingJob, TrainingObjective};
use hpsearch_core::arguments::LoggingStrategy;
use hpsearch_core::study::counted::count;

pub(super) use step::StepOutcome;

/// Checkpoints and exports hold weights in f32.
const BYTES_OF_A_WEIGHT: f64 = 4.0;

/// Trains until the end, a decision to stop, `until`, or the runner's request to stop.
///
/// # Errors
/// A checkpoint that does not fit the job, an unusable device, files that cannot be written, a
/// runner that is gone.
pub fn train(job: &TrainingJob<'_>, host: &mut dyn Host) -> Result<TrainingEnd, TrainerError> {
    let mut run = TrainingRun::begin(job, host)?;
    run.cache_features(host)?;
    if job.arguments.eval_on_start && run.state.global_step == 0 {
        run.evaluate(DueEvaluation { study_step: 0, reported: false, scheduled: false }, host)?;
    }
    if let Some(report) = run.unreported()
        && let Some(end) = run.report(&report, host)?
    {
        return Ok(end);
    }
    loop {
        if let Some(due) = run.due() {
            let report = run.evaluate(due, host)?;
            if due.reported {
                run.checkpoint(host)?;
                if let Some(end) = run.report(&report, host)? {
                    return Ok(end);
                }
            }
        }
        if run.state.global_step >= run.plan.total_steps || run.stops_early(host) {
            return Ok(TrainingEnd::Finished);
        }
        let interrupted = host.stop_requested();
        if let Some((step, what)) = if interrupted { run.settle()? } else { run.step()? } {
            return Ok(TrainingEnd::Diverged { step, what });
        }
        if interrupted {
            run.checkpoint(host)?;
            return Ok(TrainingEnd::Interrupted);
        }
        run.log(host)?;
        host.at(run.state.global_step, run.plan.total_steps);
    }
}

/// A training run in progress.
pub(super) struct TrainingRun<'a> {
    job: &'a TrainingJob<'a>,
    plan: TrainingPlan,
    schedule: LearningRateSchedule,
    device: Device,
    /// The same device with autodiff.
    autodiff_device: Device,
    model: Box<dyn Model>,
    tuning: FineTuning,
    /// The compute dtype of matrix products, if it is not f32.
    precision: Option<FloatDType>,
    features: Option<FrozenFeatures>,
    ranges: Rc<IndexRanges>,
    values: Values,
    optimiser: Optimiser,
    /// The moving average of the weights, with `ema_decay`.
    average: Option<ExponentialAverage>,
    state: TrainerState,
    tokenizer: Vec<u8>,
    tokenizer_extras: Vec<(&'static str, Vec<u8>)>,
    /// An epoch and its order of rows.
    order: (u64, EpochOrder),
    /// The optimiser step of the last checkpoint.
    saved_step: Option<u64>,
    learning_rate: f64,
    gradient_norm: f64,
    /// Loss and sum of squared gradients of steps that have not been read from the device yet:
    /// reading waits for it.
    pending: Vec<Tensor<1>>,
    /// Time spent in optimiser steps since the last report, and their number.
    step_time: (Duration, u32),
}

impl TrainingRun<'_> {
    /// Whether early stopping ends the run here; then it is logged.
    fn stops_early(&self, host: &mut dyn Host) -> bool {
        let evaluations = self.state.early_stopping.evaluations_since_best;
        let stops = self
            .job
            .arguments
            .early_stopping_patience
            .is_some_and(|patience| evaluations >= patience);
        if stops {
            let (metric, step) = (self.watched().metric, self.state.global_step);
            host.log(&format!(
                "step {step} early stopping: no better {metric} in {}",
                count(evaluations, "evaluation")
            ));
        }
        stops
    }

    /// What early stopping watches, and `reduce_lr_on_plateau` where the arguments name it.
    fn watched(&self) -> TrainingObjective {
        let own = self.job.arguments.watched_metric();
        own.map_or_else(
            || self.job.objective.clone(),
            |(metric, maximize)| TrainingObjective { metric, maximize },
        )
    }

    /// The evaluation due now, unless it is part of the checkpoint that this run resumed from.
    fn due(&self) -> Option<DueEvaluation> {
        self.plan
            .evaluation_due(self.state.global_step)
            .filter(|_| self.state.evaluated_step < self.state.global_step)
    }

    /// Evaluates on the validation split; without validation rows only what training measures is
    /// reported.
    pub(super) fn evaluate(
        &mut self,
        due: DueEvaluation,
        host: &mut dyn Host,
    ) -> Result<EvaluationReport, TrainerError> {
        let measured = match self.job.data.has_validation() {
            true => self.measure()?,
            false => BTreeMap::new(),
        };
        let loss = measured.get("eval_loss").copied();
        let summary: Vec<String> =
            measured.iter().map(|(name, value)| format!("{name} {value:.4}")).collect();
        let mut metrics = measured;
        metrics.insert("epoch".to_owned(), self.state.epoch);
        metrics.insert("learning_rate".to_owned(), self.learning_rate);
        if due.reported {
            metrics.insert("train_loss".to_owned(), self.state.since_report.take());
            let (time, steps) = std::mem::take(&mut self.step_time);
            metrics.insert("steps_per_second".to_owned(), f64::from(steps) / time.as_secs_f64());
            metrics.insert("grad_norm".to_owned(), self.gradient_norm);
            metrics.insert("weight_norm".to_owned(), self.weight_norm()?);
            metrics.extend(self.costs(host)?);
        }
        let step = self.state.global_step;
        if let Some(loss) = loss
            && self.state.best_metric.is_none_or(|best| loss < best)
            && loss.is_finite()
        {
            self.state.best_metric = Some(loss);
            self.state.best_global_step = Some(step);
        }
        if let Some(loss) = loss.filter(|_| due.scheduled) {
            let (arguments, TrainingObjective { metric, maximize }) =
                (self.job.arguments, self.watched());
            let own = arguments.metric_for_best_model.is_some();
            let value = metrics.get(&metric).copied();
            if own && value.is_none() {
                return Err(TrainerError::arguments(format!(
                    "`metric_for_best_model` is `{metric}`, which evaluations of this data do not \
                     have"
                )));
            }
            if self.schedule.is_on_plateau() {
                let watched = match value.filter(|_| own) {
                    Some(value) => Watched { value, maximize, is_of_metric: true },
                    None => Watched { value: loss, maximize: false, is_of_metric: false },
                };
                self.schedule.observe(watched, &mut self.state.plateau);
            }
            if let Some(value) = value {
                let threshold = arguments.early_stopping_threshold;
                self.state.early_stopping.observe(value, maximize, threshold);
            }
        }
        self.state.evaluated_step = step;
        self.append_history(&metrics);
        if !summary.is_empty() {
            host.log(&format!("step {step} epoch {:.2} {}", self.state.epoch, summary.join(" ")));
        }
        let report = EvaluationReport {
            study_step: due.study_step,
            metrics: metrics
                .into_iter()
                .map(|(name, value)| (name, value.is_finite().then_some(value)))
                .collect(),
        };
        self.state.last_report = due.reported.then(|| report.clone());
        Ok(report)
    }

    /// The metrics of the validation split.
    fn measure(&self) -> Result<BTreeMap<String, f64>, TrainerError> {
        let (arguments, data) = (self.job.arguments, self.job.data);
        let rows = arguments.per_device_eval_batch_size;
        let batch = self.job.rows_at_once.map_or(rows, |at_once| at_once.eval.clamp(1, rows));
        let set = EvaluationSet {
            split: Split::Validation,
            batch,
            limit: arguments.max_eval_samples,
            writing: self.writing(),
        };
        let values = self.tuning.merged(&self.model_values());
        let measured = self.model.measure(&values, &self.device, data, &set, &|_, _| {})?;
        Ok(named("eval", measured))
    }

    /// How evaluations write texts, if they do.
    fn writing(&self) -> Option<TextGeneration> {
        let arguments = self.job.arguments;
        let of_model =
            self.model.writing().filter(|_| arguments.predict_with_generate == Some(true));
        of_model.map(|of_model| TextGeneration {
            max_new_tokens: arguments.generation_max_length.unwrap_or(of_model.max_new_tokens),
            num_beams: arguments.generation_num_beams.unwrap_or(of_model.num_beams),
            ..of_model
        })
    }

    /// The averages that are evaluated and exported, if weights are averaged.
    fn averaged(&self) -> Option<Values> {
        let parameters = self.model.parameters();
        match &self.average {
            Some(average) => Some(average.averaged(parameters, &self.values)),
            None => self.optimiser.averaged(parameters, &self.values),
        }
    }

    /// The values that are evaluated and exported.
    fn model_values(&self) -> Values {
        self.averaged().unwrap_or_else(|| self.values.clone())
    }

    /// What it costs to keep the model and to use it, with adapters merged, and to train it.
    fn costs(&self, host: &dyn Host) -> Result<BTreeMap<String, f64>, TrainerError> {
        let values = self.tuning.merged(&self.model_values());
        let count = |value: &Tensor<2>| value.dims().iter().product::<usize>();
        let n_params = real(values.0.iter().map(count).sum::<usize>());
        let latency = predict_ms(&*self.model, &values, &self.device, self.job.data)?;
        let costs = [
            ("n_params", Some(n_params)),
            ("model_bytes", Some(n_params * BYTES_OF_A_WEIGHT)),
            ("peak_memory", host.peak_memory().map(real)),
            ("predict_ms", Some(latency)),
        ];
        let known = |(name, value): (&str, Option<f64>)| Some((name.to_owned(), value?));
        Ok(costs.into_iter().filter_map(known).collect())
    }

    /// Writes a checkpoint, unless this step has one.
    pub(super) fn checkpoint(&mut self, host: &mut dyn Host) -> Result<(), TrainerError> {
        let step = self.state.global_step;
        let directory = self.job.directory.join(format!("checkpoint-{step}"));
        if self.saved_step == Some(step) && directory.exists() {
            return Ok(());
        }
        let run_arguments = RunArguments {
            version: VERSION,
            arguments: self.job.arguments.clone(),
            seed: self.job.seed,
            data: self.job.data.digest().to_owned(),
        };
        let averaged = self.averaged();
        self.state.schedule_free = self.optimiser.schedule_free;
        let contents = CheckpointContents {
            model: &*self.model,
            values: &self.values,
            averaged: averaged.as_ref(),
            adapters: self.tuning.adapters.as_ref(),
            tokenizer: &self.tokenizer,
            tokenizer_extras: &self.tokenizer_extras,
            optimiser: &self.optimiser,
            state: &self.state,
            run_arguments: &run_arguments,
        };
        checkpoint::write(&directory, &contents)?;
        self.saved_step = Some(step);
        // Of the last report: in samples it may be slightly behind the exact step; and a state
        // between two reports lacks none that the runner has to wait for.
        let reported = self.state.last_report.as_ref().map(|report| report.study_step);
        let reported = reported.or(self.job.reported).unwrap_or(0);
        Ok(host.checkpoint(reported.min(self.plan.study_step(step)), &directory)?)
    }

    /// The report in the checkpoint that this run resumed from, if the runner does not have it.
    fn unreported(&self) -> Option<EvaluationReport> {
        // Past its step the report was answered, or training would not have continued.
        let unknown = |report: &&EvaluationReport| {
            self.state.evaluated_step == self.state.global_step
                && self.job.reported.is_none_or(|reported| reported < report.study_step)
        };
        self.state.last_report.as_ref().filter(unknown).cloned()
    }

    /// Reports; returns how the run ends, if it ends here.
    fn report(
        &self,
        report: &EvaluationReport,
        host: &mut dyn Host,
    ) -> Result<Option<TrainingEnd>, TrainerError> {
        let metrics = report
            .metrics
            .iter()
            .map(|(name, value)| (name.clone(), value.unwrap_or(f64::NAN)))
            .collect();
        let finished = self.state.global_step >= self.plan.total_steps;
        Ok(match host.report(report.study_step, &metrics)? {
            HostVerdict::Stop => Some(TrainingEnd::Stopped),
            HostVerdict::Pause => Some(TrainingEnd::Paused),
            HostVerdict::Continue => {
                (self.plan.pauses_at(report.study_step) && !finished).then_some(TrainingEnd::Paused)
            }
        })
    }

    /// Whether the last step is logged.
    fn logs_now(&self) -> bool {
        let (step, arguments) = (self.state.global_step, self.job.arguments);
        let due = match arguments.logging_strategy {
            LoggingStrategy::No => false,
            LoggingStrategy::Epoch => step.is_multiple_of(self.plan.steps_per_epoch),
            LoggingStrategy::Steps => {
                step.is_multiple_of(arguments.logging_steps.of(self.plan.total_steps))
            }
        };
        due || (arguments.logging_first_step && step == 1)
    }

    fn log(&mut self, host: &mut dyn Host) -> Result<(), TrainerError> {
        if !self.logs_now() {
            return Ok(());
        }
        let step = self.state.global_step;
        let (loss, weight_norm) = (self.state.since_log.take(), self.weight_norm()?);
        host.log(&format!(
            "step {step}/{} epoch {:.2} loss {loss:.4} learning_rate {:.3e} grad_norm {:.3} \
             weight_norm {weight_norm:.3}",
            self.plan.total_steps, self.state.epoch, self.learning_rate, self.gradient_norm
        ));
        let entries = [
            ("loss", loss),
            ("learning_rate", self.learning_rate),
            ("grad_norm", self.gradient_norm),
            ("weight_norm", weight_norm),
            ("epoch", self.state.epoch),
        ];
        let scale = self.state.scaling.map(|scaling| ("loss_scale", scaling.scale));
        let metrics = entries
            .into_iter()
            .chain(scale)
            .map(|(name, value)| (name.to_owned(), value))
            .collect();
        host.points(step, &metrics);
        self.append_history(&metrics);
        Ok(())
    }

    /// The Euclidean norm of all parameters.
    fn weight_norm(&self) -> Result<f64, TrainerError> {
        let (_, norm) =
            Gradients::from(self.values.clone()).loss_and_norm(Tensor::zeros([1], &self.device))?;
        Ok(norm)
    }

    fn append_history(&mut self, metrics: &BTreeMap<String, f64>) {
        let mut entry: BTreeMap<String, Value> =
            metrics.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
        entry.insert("step".to_owned(), json!(self.state.global_step));
        self.state.log_history.push(entry);
    }
}
