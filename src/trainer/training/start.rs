//! Starts a training run: from scratch, from a pretrained model, or from a checkpoint.

use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use serde_json::Value;

use super::super::averaging::{ExponentialAverage, with_trainable};
use super::super::checkpoint::{self, SavedModel, SavedRun};
use super::super::fine_tuning::{FineTuning, summary};
use super::super::frozen_features::FeatureExtractor;
use super::super::learning_rate_schedule::LearningRateSchedule;
use super::super::optimiser::Optimiser;
use super::super::precision::{self, GradScaler};
use super::super::prepared::Extra;
use super::super::pretrained_weights::load_pretrained;
use super::super::task::same_shape;
use super::super::tasks::new_model;
use super::super::trainer_state::{RunArguments, TrainerState};
use super::super::training_plan::TrainingPlan;
use super::super::{
    Host, Split, Start, TrainerError, TrainingJob, device, model_directory, vocabulary,
};
use super::TrainingRun;
use hpsearch_core::arguments::TrainerArguments;

impl<'a> TrainingRun<'a> {
    /// A run from fresh parameters, a pretrained model, or a checkpoint.
    pub(in super::super) fn begin(
        job: &'a TrainingJob<'a>,
        host: &mut dyn Host,
    ) -> Result<Self, TrainerError> {
        let (arguments, data) = (job.arguments, job.data);
        let device = device::open(job.device)?;
        checkpoint::remove_incomplete(job.directory);
        let mut model = new_model(arguments.task, &arguments.model, data)?;
        let initial = match (job.start, &arguments.model.pretrained) {
            (Start::Fresh, Some(source)) => {
                let directory = model_directory::locate(Path::new(source), &|_, _, _| {})?;
                load_pretrained(&directory, &*model, job.seed, &device, &mut |line| host.log(line))?
            }
            (Start::Fresh, None) => model.parameters().initial_values(job.seed, &device),
            (Start::Resume(directory) | Start::Clone(directory), _) => {
                let saved = SavedModel::load(directory, &device)?;
                if !same_shape(&*saved.model, &*model) {
                    return Err(TrainerError::checkpoint(
                        directory,
                        "it holds a model of another shape than the arguments ask for",
                    ));
                }
                saved.values
            }
        };
        let tuning = FineTuning::new(model.parameters_mut(), arguments, data)?;
        let (parameters, examples) = (model.parameters(), model.examples(data, Split::Train));
        let rows_at_once = job.rows_at_once.map(|rows| rows.train);
        let plan = TrainingPlan::new(
            arguments,
            examples,
            job.step_unit,
            job.milestones.clone(),
            job.until,
            job.seed,
            rows_at_once,
        )?;
        let plan = plan.with_lengths(arguments, rows_at_once, || {
            (0..examples).map(|example| model.length(data, example)).collect()
        });
        let mut optimiser =
            Optimiser::new(arguments, parameters, &device, device::optimiser_placement(job.device));
        let (values, in_training, state) = match job.start {
            Start::Fresh => {
                (tuning.begin(parameters, initial, job.seed, &device), None, TrainerState::new())
            }
            Start::Resume(directory) | Start::Clone(directory) => {
                let mut files = SavedRun::load(
                    directory,
                    arguments,
                    parameters,
                    tuning.adapters.as_ref(),
                    &mut optimiser,
                    &device,
                )?;
                match job.start {
                    Start::Clone(_) => files.state.last_report = None,
                    _ => check_same_run(job, &files.run_arguments)
                        .map_err(|message| TrainerError::checkpoint(directory, message))?,
                }
                if files.run_arguments.data != data.digest() {
                    return Err(TrainerError::checkpoint(
                        directory,
                        "it was trained on other data",
                    ));
                }
                if files.state.global_step > plan.total_steps {
                    let message = format!(
                        "it is at step {}, beyond the {} steps the arguments ask for",
                        files.state.global_step, plan.total_steps
                    );
                    return Err(TrainerError::checkpoint(directory, message));
                }
                let values = match (&tuning.adapters, files.adapters) {
                    (Some(adapters), Some(saved)) => adapters.joined(initial, saved),
                    _ => tuning.begin(parameters, initial, job.seed, &device),
                };
                (values, files.in_training, files.state)
            }
        };
        let average =
            arguments.ema_decay.map(|decay| ExponentialAverage::new(decay, parameters, &values));
        let values = match in_training {
            Some(in_training) => with_trainable(parameters, &values, &in_training),
            None => values,
        };
        let has_pairs = data.extras(Extra::TokenTypes, Split::Train).is_some();
        let precision = precision::compute_dtype(arguments, job.device, &device)?;
        let state = TrainerState {
            scaling: GradScaler::new(precision).map(|fresh| state.scaling.unwrap_or(fresh)),
            ..state
        };
        host.log(&format!(
            "{}, {examples} training examples, {} steps per epoch, {} in all; at step {}",
            summary(parameters),
            plan.steps_per_epoch,
            plan.total_steps,
            state.global_step
        ));
        let saved_step = (!matches!(job.start, Start::Fresh)).then_some(state.global_step);
        Ok(Self {
            schedule: LearningRateSchedule::new(arguments, plan.total_steps),
            order: (0, plan.order(0)),
            autodiff_device: device.clone().autodiff(),
            tokenizer: data.tokenizer_file()?,
            tokenizer_extras: if has_pairs && model.reads_token_types() {
                vocabulary::with_token_types(data.tokenizer_extras()?)
            } else {
                data.tokenizer_extras()?
            },
            job,
            plan,
            device,
            model,
            tuning,
            precision,
            features: None,
            ranges: Rc::default(),
            values,
            optimiser,
            average,
            state,
            saved_step,
            learning_rate: 0.0,
            gradient_norm: 0.0,
            pending: Vec::new(),
            step_time: (Duration::ZERO, 0),
        })
    }

    /// Computes the outputs of frozen first layers once for all steps.
    pub(in super::super) fn cache_features(
        &mut self,
        host: &mut dyn Host,
    ) -> Result<(), TrainerError> {
        if self.job.arguments.cache_frozen_features {
            let (layers, shared) =
                (self.tuning.frozen_layers, self.job.arguments.model.pretrained.is_some());
            let extractor = FeatureExtractor {
                model: &*self.model,
                values: &self.values,
                data: self.job.data,
                device: &self.device,
                layers,
                shared,
            };
            self.features = extractor.extract(host)?;
        }
        Ok(())
    }
}

/// Checks that a checkpoint belongs to the run that `job` describes; the length of the run may
/// differ.
fn check_same_run(job: &TrainingJob<'_>, saved: &RunArguments) -> Result<(), String> {
    if saved.seed != job.seed {
        return Err(format!("it was made with seed {}, not {}", saved.seed, job.seed));
    }
    let comparable = |arguments: &TrainerArguments| {
        let mut arguments = arguments.clone();
        (arguments.num_train_epochs, arguments.max_steps) = (1.0, -1);
        serde_json::to_value(arguments).expect("arguments are plain data")
    };
    let (then, now) = (comparable(&saved.arguments), comparable(job.arguments));
    let mut found = Vec::new();
    differences("", &then, &now, &mut found);
    if found.is_empty() {
        Ok(())
    } else {
        Err(format!("it was made with other arguments: {}", found.join(", ")))
    }
}

fn differences(key: &str, then: &Value, now: &Value, found: &mut Vec<String>) {
    match (then, now) {
        (Value::Object(then), Value::Object(now)) => {
            for (name, value) in then {
                let key = if key.is_empty() { name.clone() } else { format!("{key}.{name}") };
                differences(&key, value, &now[name], found);
            }
        }
        _ if then == now => {}
        _ => found.push(format!("`{key}` was {then} and is {now}")),
    }
}
