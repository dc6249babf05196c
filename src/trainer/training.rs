//! The training loop on one page: evaluate, checkpoint, stop?, step, log.

use std::collections::BTreeMap;
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};

use burn::tensor::{Device, FloatDType, Tensor};
use serde_json::{Value, json};

use super::checkpoint::{self, Contents, ModelFiles, Report, RunFiles, State, Told, VERSION};
use super::course::{Course, Due, Order};
use super::descent::Descent;
use super::evaluation::named;
use super::features::{Features, Maker};
use super::gradients::{Gradients, loss_and_norm_of};
use super::layers::{DropoutKey, Ranges};
use super::optimiser::{Clip, Optimiser, Pace, Place, clip_factor};
use super::parameters::{Values, host};
use super::precision::{self, Scaling};
use super::profile;
use super::schedule::RateCourse;
use super::task::{Extent, Model, Part, same_shape, task};
use super::tuning::{Tuning, summary};
use super::{Host, HostVerdict, Job, RunEnd, Split, Start, TrainerError, device, pretrained};
use crate::arguments::{LoggingStrategy, SamplingStrategy, TrainerArguments};

/// Trains until the end, a verdict, `until`, or the runner's wish to stop.
///
/// # Errors
/// A checkpoint that does not fit the job, an unusable device, files that cannot be written, a runner that is gone.
pub fn train(job: &Job<'_>, host: &mut dyn Host) -> Result<RunEnd, TrainerError> {
    let mut run = Run::begin(job, host)?;
    run.keep_features(host)?;
    if job.arguments.eval_on_start && run.state.global_step == 0 {
        run.evaluate(Due { clock: 0, reported: false, asked: false }, host)?;
    }
    if let Some(report) = run.undelivered()
        && let Some(end) = run.deliver(&report, host)?
    {
        return Ok(end);
    }
    loop {
        if let Some(due) = run.due() {
            let report = run.evaluate(due, host)?;
            if due.reported {
                run.checkpoint(host)?;
                if let Some(end) = run.deliver(&report, host)? {
                    return Ok(end);
                }
            }
        }
        if run.state.global_step >= run.course.total || run.out_of_patience(host) {
            return Ok(RunEnd::Finished);
        }
        let leaves = host.stop_requested();
        if let Some((step, what)) = if leaves { run.settle()? } else { run.step()? } {
            return Ok(RunEnd::Diverged { step, what });
        }
        if leaves {
            run.checkpoint(host)?;
            return Ok(RunEnd::Interrupted);
        }
        run.log(host)?;
        host.at(run.state.global_step, run.course.total);
    }
}

/// A training run in progress.
pub(super) struct Run<'a> {
    job: &'a Job<'a>,
    course: Course,
    rates: RateCourse,
    device: Device,
    /// The same device with autodiff.
    tracked: Device,
    model: Box<dyn Model>,
    tuning: Tuning,
    /// What products are made of, where that is no single floats.
    precision: Option<FloatDType>,
    features: Option<Features>,
    ranges: Rc<Ranges>,
    values: Values,
    optimiser: Optimiser,
    state: State,
    tokenizer: Vec<u8>,
    extras: Vec<(&'static str, Vec<u8>)>,
    /// The epoch whose order of rows is at hand.
    order: (u64, Order),
    /// The optimiser step the last checkpoint was written at.
    saved_step: Option<u64>,
    learning_rate: f64,
    gradient_norm: f64,
    /// What the last steps came to, the loss and the gradients' sum of squares, where the device has not been asked yet: asking waits for it.
    unread: Vec<Tensor<1>>,
    /// Time spent in steps since the last report, and how many.
    busy: (Duration, u32),
}

/// What an optimiser step came to.
pub(super) enum Stepped {
    /// It was made; the loss before it.
    Loss(f64),
    /// With a scaled loss that does not fit into half floats: the step was not made, and the scale is less now.
    Overflow,
    /// What is not finite. The step was not made, or, where the device was asked later, in vain.
    NotFinite(String),
}

/// Steps that a device makes before it is asked what they came to, where nothing asks earlier: a trial that diverged goes on in vain for so many.
const MOST_UNREAD: usize = 32;

fn not_finite(loss: f64, norm: f64) -> Option<String> {
    let found = [("loss", loss), ("gradient norm", norm)].into_iter().find(|(_, value)| !value.is_finite());
    found.map(|(what, value)| format!("the {what} is {value}"))
}

impl<'a> Run<'a> {
    pub(super) fn begin(job: &'a Job<'a>, host: &mut dyn Host) -> Result<Self, TrainerError> {
        let (arguments, data) = (job.arguments, job.data);
        let device = device::open(job.device)?;
        checkpoint::sweep(job.directory);
        let mut model = task(arguments.task).model(&arguments.model, data)?;
        let own = match (job.start, &arguments.model.pretrained) {
            (Start::Fresh, Some(source)) => {
                let directory = pretrained::locate(Path::new(source), &|_, _, _| {})?;
                pretrained::values(&directory, &*model, job.seed, &device, &mut |line| host.log(line))?
            }
            (Start::Fresh, None) => model.parameters().fresh(job.seed, &device),
            (Start::Resume(directory) | Start::Clone(directory), _) => {
                let saved = ModelFiles::load(directory, &device)?;
                if !same_shape(&*saved.model, &*model) {
                    return Err(TrainerError::checkpoint(directory, "it holds a model of another shape than the arguments ask for"));
                }
                saved.values
            }
        };
        let tuning = Tuning::new(model.parameters_mut(), arguments, data)?;
        let (parameters, examples) = (model.parameters(), model.examples(data, Split::Train));
        let lengths = || (0..examples).map(|example| model.length(data, example)).collect();
        let rows_at_once = job.rows_at_once.map(|rows| rows.train);
        let course = Course::new(arguments, examples, job.clock, job.milestones.clone(), job.until, job.seed, rows_at_once)?;
        let course = match (arguments.max_tokens_per_batch, arguments.train_sampling_strategy) {
            (Some(tokens), _) => course.by_tokens(arguments, tokens, lengths(), rows_at_once),
            (None, SamplingStrategy::Random | SamplingStrategy::Sequential) => course,
            (None, SamplingStrategy::GroupByLength) => course.by_length(lengths()),
        };
        let mut optimiser = Optimiser::new(arguments, parameters, &device, device::optimiser_place(job.device));
        let (values, state) = match job.start {
            Start::Fresh => (tuning.begin(parameters, own, job.seed, &device), State::default()),
            Start::Resume(directory) | Start::Clone(directory) => {
                let mut files = RunFiles::load(directory, arguments, parameters, tuning.adapters.as_ref(), &mut optimiser, &device)?;
                match job.start {
                    Start::Clone(_) => files.state.last_report = None,
                    _ => check_same_run(job, &files.told).map_err(|message| TrainerError::checkpoint(directory, message))?,
                }
                if files.told.data != data.digest() {
                    return Err(TrainerError::checkpoint(directory, "it was trained on other data"));
                }
                if files.state.global_step > course.total {
                    let message = format!("it is at step {}, beyond the {} steps the arguments ask for", files.state.global_step, course.total);
                    return Err(TrainerError::checkpoint(directory, message));
                }
                let values = match (&tuning.adapters, files.apart) {
                    (Some(adapters), Some(apart)) => adapters.joined(own, apart),
                    _ => tuning.begin(parameters, own, job.seed, &device),
                };
                (values, files.state)
            }
        };
        let precision = precision::of(arguments, job.device, &device)?;
        let state = State { scaling: Scaling::begin(precision).map(|fresh| state.scaling.unwrap_or(fresh)), ..state };
        host.log(&format!(
            "{}, {examples} training examples, {} steps per epoch, {} in all; at step {}",
            summary(parameters),
            course.steps_per_epoch,
            course.total,
            state.global_step
        ));
        let saved_step = (!matches!(job.start, Start::Fresh)).then_some(state.global_step);
        Ok(Self {
            rates: RateCourse::new(arguments, course.total),
            order: (0, course.order(0)),
            tracked: device.clone().autodiff(),
            tokenizer: data.tokenizer_file()?,
            extras: data.tokenizer_extras()?,
            job,
            course,
            device,
            model,
            tuning,
            precision,
            features: None,
            ranges: Rc::default(),
            values,
            optimiser,
            state,
            saved_step,
            learning_rate: 0.0,
            gradient_norm: 0.0,
            unread: Vec::new(),
            busy: (Duration::ZERO, 0),
        })
    }

    /// Whether early stopping ends the run here.
    fn out_of_patience(&self, host: &mut dyn Host) -> bool {
        let worse = self.state.patience.worse;
        let out = self.job.arguments.early_stopping_patience.is_some_and(|patience| worse >= patience);
        if out {
            let (metric, step) = (&self.job.objective.metric, self.state.global_step);
            host.log(&format!("step {step} early stopping: no better {metric} in {worse} evaluations"));
        }
        out
    }

    /// The evaluation due now, unless it was made before the checkpoint that this run resumed from.
    fn due(&self) -> Option<Due> {
        self.course.due(self.state.global_step).filter(|_| self.state.evaluated_step < self.state.global_step)
    }

    /// Measures the validation split and notes it in the history.
    pub(super) fn evaluate(&mut self, due: Due, host: &mut dyn Host) -> Result<Report, TrainerError> {
        let (arguments, data) = (self.job.arguments, self.job.data);
        let rows = arguments.per_device_eval_batch_size;
        let batch = self.job.rows_at_once.map_or(rows, |at_once| at_once.eval.clamp(1, rows));
        let extent = Extent { split: Split::Validation, batch, limit: arguments.max_eval_samples };
        let measured = named("eval", self.model.measure(&self.tuning.merged(&self.values), &self.device, data, &extent, &|_, _| {})?);
        let loss = measured["eval_loss"];
        let words: Vec<String> = measured.iter().map(|(name, value)| format!("{name} {value:.4}")).collect();
        let mut metrics = measured;
        metrics.insert("epoch".to_owned(), self.state.epoch);
        metrics.insert("learning_rate".to_owned(), self.learning_rate);
        if due.reported {
            metrics.insert("train_loss".to_owned(), self.state.since_report.take());
            let (busy, steps) = std::mem::take(&mut self.busy);
            metrics.insert("steps_per_second".to_owned(), f64::from(steps) / busy.as_secs_f64());
            metrics.insert("grad_norm".to_owned(), self.gradient_norm);
            metrics.insert("weight_norm".to_owned(), self.weight_norm()?);
        }
        let step = self.state.global_step;
        if self.state.best_metric.is_none_or(|best| loss < best) && loss.is_finite() {
            self.state.best_metric = Some(loss);
            self.state.best_global_step = Some(step);
        }
        if due.asked {
            self.rates.evaluated(loss, &mut self.state.plateau);
            if let Some(value) = metrics.get(&self.job.objective.metric) {
                self.state.patience.evaluated(*value, self.job.objective.maximize, arguments.early_stopping_threshold);
            }
        }
        self.state.evaluated_step = step;
        self.remember(&metrics);
        host.log(&format!("step {step} epoch {:.2} {}", self.state.epoch, words.join(" ")));
        let report =
            Report { clock: due.clock, metrics: metrics.into_iter().map(|(name, value)| (name, value.is_finite().then_some(value))).collect() };
        self.state.last_report = due.reported.then(|| report.clone());
        Ok(report)
    }

    /// Writes a checkpoint of this moment, unless this moment has one.
    pub(super) fn checkpoint(&mut self, host: &mut dyn Host) -> Result<(), TrainerError> {
        let step = self.state.global_step;
        let directory = self.job.directory.join(format!("checkpoint-{step}"));
        if self.saved_step == Some(step) && directory.exists() {
            return Ok(());
        }
        let told = Told { version: VERSION, arguments: self.job.arguments.clone(), seed: self.job.seed, data: self.job.data.digest().to_owned() };
        let contents = Contents {
            model: &*self.model,
            values: &self.values,
            adapters: self.tuning.adapters.as_ref(),
            tokenizer: &self.tokenizer,
            extras: &self.extras,
            optimiser: &self.optimiser,
            state: &self.state,
            told: &told,
        };
        checkpoint::write(&directory, &contents)?;
        self.saved_step = Some(step);
        // A report's own clock value, which with samples may lie a little behind the clock.
        let reported = self.state.last_report.as_ref().filter(|_| self.state.evaluated_step == step).map(|report| report.clock);
        let clock = self.course.clock(step);
        host.checkpoint(reported.map_or(clock, |reported| reported.min(clock)), &directory)?;
        Ok(())
    }

    /// The report in the checkpoint this run resumed from, if the runner does not have it.
    fn undelivered(&self) -> Option<Report> {
        // Past its step the report was answered, or training would not have gone on.
        let unknown = |report: &&Report| {
            self.state.evaluated_step == self.state.global_step && self.job.reported.is_none_or(|reported| reported < report.clock)
        };
        self.state.last_report.as_ref().filter(unknown).cloned()
    }

    /// Reports, and says how the run ends if it ends here.
    fn deliver(&self, report: &Report, host: &mut dyn Host) -> Result<Option<RunEnd>, TrainerError> {
        let metrics = report.metrics.iter().map(|(name, value)| (name.clone(), value.unwrap_or(f64::NAN))).collect();
        let finished = self.state.global_step >= self.course.total;
        Ok(match host.report(report.clock, &metrics)? {
            HostVerdict::Stop => Some(RunEnd::Stopped),
            HostVerdict::Pause => Some(RunEnd::Paused),
            HostVerdict::Continue => (self.course.pauses_at(report.clock) && !finished).then_some(RunEnd::Paused),
        })
    }

    /// The next optimiser step; the step and what was not finite, if something is known not to be.
    fn step(&mut self) -> Result<Option<(u64, String)>, TrainerError> {
        let step = self.state.global_step;
        // The learning rate waits for steps that are made, as transformers' does.
        let made = step - self.state.scaling.map_or(0, |scaling| scaling.skipped);
        if let Some(stepped) = self.advance(step, self.rates.rate(made, &self.state.plateau))? {
            return Ok(self.note(step, stepped));
        }
        let asked = self.unread.len() >= MOST_UNREAD || self.logs_now() || self.due().is_some() || self.state.global_step >= self.course.total;
        if asked { self.settle() } else { Ok(None) }
    }

    /// An optimiser step with the rows of step `rows_of` and this learning rate.
    pub(super) fn step_on(&mut self, rows_of: u64, learning_rate: f64) -> Result<Stepped, TrainerError> {
        match self.advance(rows_of, learning_rate)? {
            Some(stepped) => Ok(stepped),
            None => Ok(self.read()?.pop().expect("a step that was made and not read").1),
        }
    }

    /// The same; `None` where the device computes on its own and is not asked what came of it.
    fn advance(&mut self, rows_of: u64, learning_rate: f64) -> Result<Option<Stepped>, TrainerError> {
        let began = Instant::now();
        let (step, arguments) = (self.state.global_step, self.job.arguments);
        let epoch = self.course.epoch(rows_of);
        let data = profile::phase("data");
        if self.order.0 != epoch {
            self.order = (epoch, self.course.order(epoch));
        }
        let micro_batches = self.course.micro_batches(rows_of, &self.order.1);
        let step_examples = micro_batches.iter().map(Vec::len).sum();
        drop(data);
        let weights = self.tuning.step_weight(self.job.data, micro_batches.iter().flatten().copied());
        let mut sum: Option<(Tensor<1>, Gradients)> = None;
        for (number, chosen) in (0..).zip(&micro_batches) {
            let (seed, smoothing) = (self.job.seed, arguments.label_smoothing_factor);
            let part = Part { data: self.job.data, chosen, step_examples, weights, seed, epoch, smoothing };
            let (loss, gradients) = self.descent().gradients(&self.values, &part, DropoutKey { seed, step, micro_batch: number })?;
            sum = Some(match sum {
                None => (loss, gradients),
                Some((losses, sums)) => (losses + loss, sums.plus(gradients, &self.device)?),
            });
        }
        let (loss, gradients) = sum.expect("a step has at least one row");
        // Whether a step with a scaled loss is made at all depends on its gradients.
        let (stepped, clip) = if self.optimiser.place == Place::Device && self.state.scaling.is_none() {
            let _span = profile::phase("gradient norm");
            let numbers = gradients.loss_and_squares(loss);
            self.unread.push(numbers.clone());
            (None, Clip::on_device(numbers.narrow(0, 1, 1), arguments.max_grad_norm))
        } else {
            let _span = profile::phase("gradient norm");
            let scale = self.state.scaling.map_or(1.0, |scaling| scaling.scale);
            let (loss, norm) = gradients.loss_and_norm(loss)?;
            let (loss, norm) = (loss / scale, norm / scale);
            if let Some(what) = not_finite(loss, norm) {
                if self.state.scaling.as_mut().is_some_and(Scaling::overflowed) {
                    self.made(learning_rate, began);
                    return Ok(Some(if loss.is_finite() { Stepped::Loss(loss) } else { Stepped::Overflow }));
                }
                let place = match self.first_not_finite(&self.values)? {
                    Some(name) => format!("; the parameter `{name}` is not finite any more"),
                    None => gradients
                        .first_not_finite(self.model.parameters())?
                        .map_or(String::new(), |name| format!("; the first gradient that is not finite is `{name}`'s")),
                };
                return Ok(Some(Stepped::NotFinite(format!("{what}{place}"))));
            }
            self.gradient_norm = norm;
            if let Some(scaling) = &mut self.state.scaling {
                scaling.was_sound();
            }
            (Some(Stepped::Loss(loss)), Clip::By(clip_factor(norm, arguments.max_grad_norm) / scale))
        };
        {
            let _span = profile::phase("optimiser");
            let skipped = self.state.scaling.map_or(0, |scaling| scaling.skipped);
            let pace = Pace { rate: learning_rate, step: step + 1 - skipped };
            self.optimiser.step(self.model.parameters(), &mut self.values, gradients, pace, &clip)?;
        }
        self.made(learning_rate, began);
        Ok(stepped)
    }

    /// Counts a step.
    fn made(&mut self, learning_rate: f64, began: Instant) {
        self.learning_rate = learning_rate;
        self.state.global_step += 1;
        self.state.epoch = self.course.epochs_done(self.state.global_step);
        self.busy.0 += began.elapsed();
        self.busy.1 += 1;
    }

    /// Takes note of what a step came to; the step counted from 1 and what was not finite, if something was not.
    fn note(&mut self, step: u64, stepped: Stepped) -> Option<(u64, String)> {
        match stepped {
            Stepped::Loss(loss) => {
                self.state.since_report.add(loss);
                self.state.since_log.add(loss);
                None
            }
            Stepped::Overflow => None,
            Stepped::NotFinite(what) => Some((step + 1, what)),
        }
    }

    /// Asks the device what the last steps came to, and takes note of it. Steps after one that was not finite were made in vain.
    fn settle(&mut self) -> Result<Option<(u64, String)>, TrainerError> {
        Ok(self.read()?.into_iter().find_map(|(step, stepped)| self.note(step, stepped)))
    }

    /// What the steps came to that have not been read yet, by their numbers: one read from the device for all.
    fn read(&mut self) -> Result<Vec<(u64, Stepped)>, TrainerError> {
        if self.unread.is_empty() {
            return Ok(Vec::new());
        }
        let (began, _span) = (Instant::now(), profile::phase("waiting for the device"));
        let before = self.state.global_step - self.unread.len() as u64;
        let numbers = host(Tensor::cat(std::mem::take(&mut self.unread), 0))?;
        self.busy.0 += began.elapsed();
        let steps = (before..).zip(numbers.chunks(2)).map(|(step, numbers)| {
            let (loss, norm) = loss_and_norm_of(numbers);
            let stepped = match not_finite(loss, norm) {
                // Whose fault it was, the device has overwritten since.
                Some(what) => Stepped::NotFinite(what),
                None => {
                    self.gradient_norm = norm;
                    Stepped::Loss(loss)
                }
            };
            (step, stepped)
        });
        Ok(steps.collect())
    }

    /// As if losses were scaled so by now.
    #[cfg(test)]
    pub(super) fn scale_losses_by(&mut self, scale: f64) {
        self.state.scaling.as_mut().expect("with `fp16` losses are scaled").scale = scale;
    }

    /// All parameters' numbers.
    #[cfg(test)]
    pub(super) fn numbers(&self) -> Vec<Vec<f32>> {
        self.values.0.iter().map(|value| host(value.clone()).unwrap()).collect()
    }

    /// Computes what frozen first layers make of the rows, once for all steps.
    pub(super) fn keep_features(&mut self, host: &mut dyn Host) -> Result<(), TrainerError> {
        if self.job.arguments.cache_frozen_features {
            let (layers, shared) = (self.tuning.frozen_layers, self.job.arguments.model.pretrained.is_some());
            let maker = Maker { model: &*self.model, values: &self.values, data: self.job.data, device: &self.device, layers, shared };
            self.features = maker.features(host)?;
        }
        Ok(())
    }

    /// How a step goes down from its loss.
    fn descent(&self) -> Descent<'_> {
        let recompute = self.job.arguments.gradient_checkpointing;
        Descent {
            model: &*self.model,
            tuning: &self.tuning,
            tracked: &self.tracked,
            device: &self.device,
            features: self.features.as_ref(),
            recompute,
            precision: self.precision,
            ranges: &self.ranges,
            scale: self.state.scaling.map_or(1.0, |scaling| scaling.scale),
        }
    }

    /// The first parameter whose numbers in `values` are not all finite, in the model's order from input to output.
    fn first_not_finite(&self, values: &Values) -> Result<Option<String>, TrainerError> {
        for (parameter, value) in self.model.parameters().iter().zip(&values.0) {
            if !host(value.clone())?.iter().all(|number| number.is_finite()) {
                return Ok(Some(parameter.name.clone()));
            }
        }
        Ok(None)
    }

    /// Whether the step just made is logged.
    fn logs_now(&self) -> bool {
        let (step, arguments) = (self.state.global_step, self.job.arguments);
        let due = match arguments.logging_strategy {
            LoggingStrategy::No => false,
            LoggingStrategy::Epoch => step.is_multiple_of(self.course.steps_per_epoch),
            LoggingStrategy::Steps => step.is_multiple_of(arguments.logging_steps),
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
            "step {step}/{} epoch {:.2} loss {loss:.4} learning_rate {:.3e} grad_norm {:.3} weight_norm {weight_norm:.3}",
            self.course.total, self.state.epoch, self.learning_rate, self.gradient_norm
        ));
        let entries = [
            ("loss", loss),
            ("learning_rate", self.learning_rate),
            ("grad_norm", self.gradient_norm),
            ("weight_norm", weight_norm),
            ("epoch", self.state.epoch),
        ];
        let scale = self.state.scaling.map(|scaling| ("loss_scale", scaling.scale));
        self.remember(&entries.into_iter().chain(scale).map(|(name, value)| (name.to_owned(), value)).collect());
        Ok(())
    }

    /// The Euclidean norm of all parameters together.
    fn weight_norm(&self) -> Result<f64, TrainerError> {
        let (_, norm) = Gradients::from(self.values.clone()).loss_and_norm(Tensor::zeros([1], &self.device))?;
        Ok(norm)
    }

    fn remember(&mut self, metrics: &BTreeMap<String, f64>) {
        let mut entry: BTreeMap<String, Value> = metrics.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
        entry.insert("step".to_owned(), json!(self.state.global_step));
        self.state.log_history.push(entry);
    }
}

/// Whether a checkpoint is of the run that `job` describes; how long the run is may differ.
fn check_same_run(job: &Job<'_>, told: &Told) -> Result<(), String> {
    if told.seed != job.seed {
        return Err(format!("it was made with seed {}, not {}", told.seed, job.seed));
    }
    let plain = |arguments: &TrainerArguments| {
        let mut arguments = arguments.clone();
        (arguments.num_train_epochs, arguments.max_steps) = (1.0, -1);
        serde_json::to_value(arguments).expect("arguments are plain data")
    };
    let (then, now) = (plain(&told.arguments), plain(job.arguments));
    let mut differences = Vec::new();
    compare("", &then, &now, &mut differences);
    if differences.is_empty() { Ok(()) } else { Err(format!("it was made with other arguments: {}", differences.join(", "))) }
}

fn compare(key: &str, then: &Value, now: &Value, differences: &mut Vec<String>) {
    match (then, now) {
        (Value::Object(then), Value::Object(now)) => {
            for (name, value) in then {
                let key = if key.is_empty() { name.clone() } else { format!("{key}.{name}") };
                compare(&key, value, &now[name], differences);
            }
        }
        _ if then == now => {}
        _ => differences.push(format!("`{key}` was {then} and is {now}")),
    }
}
