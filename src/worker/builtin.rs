//! Jobs of the built-in trainer: training a trial, preparing data, evaluating, predicting and
//! generating.

use std::cell::Cell;
use std::collections::{BTreeMap, HashSet};
use std::io::ErrorKind;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, Once, PoisonError};
use std::thread::ThreadId;
use std::time::{Duration, Instant};

use crossbeam_channel::Receiver;
use serde::Serialize;

use super::{Incoming, say};
use crate::arguments::{ArgumentProblem, DataArguments, TokenizerSource, TrainerArguments};
use crate::runner::checkpoint_digest::check_copied;
use crate::runner::disk;
use crate::runner::failure_cause::cause_of;
use crate::runner::protocol::{MessageToRunner, MessageToTrial, TrainJob, USED_BY, WorkerJob};
use crate::storage::paths;
use crate::study::decision::Action;
use crate::study::event::AttemptEnd;
use crate::study::metric::{Direction, Metrics};
use crate::study::series::SeriesAxis;
use crate::study::spec::FailureCause;
use crate::study::step::StepUnit as StudyStepUnit;
use crate::trainer::{
    self, GenerationConfig, Host, HostError, HostVerdict, Milestones, PredictionInputs,
    PreparedData, Split, Start, StepUnit, TrainerError, TrainingEnd, TrainingObjective,
};

type Values = BTreeMap<String, serde_json::Value>;

/// Shortest time between two progress messages.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(100);

static BUILTIN: AtomicBool = AtomicBool::new(false);
static SET_UP: Once = Once::new();

/// The first panic of a thread other than the job's: a device's, whose driver reports the cause
/// that way. A lock rather than a channel, since any thread may panic at any time.
static DEVICE_PANIC: Mutex<Option<String>> = Mutex::new(None);

/// Whether this process is a worker of the built-in trainer, which ends at once if its runner is
/// gone.
pub(super) fn is_training() -> bool {
    BUILTIN.load(Ordering::Relaxed)
}

/// Runs one job and reports how it ended.
pub(super) fn run(job: &WorkerJob, incoming: &Receiver<Incoming>) {
    BUILTIN.store(true, Ordering::Relaxed);
    SET_UP.call_once(|| {
        trainer::tune_allocator();
        record_panics(std::thread::current().id());
        let given = |name: &str| std::env::var(name).ok();
        if let Some(directory) =
            paths::kernel_cache(given("XDG_CACHE_HOME").as_deref(), given("HOME").as_deref())
        {
            trainer::set_kernel_cache(&directory);
        }
        // A stopped process does not notice that its stdin was closed; the kernel does. Where that
        // is unsupported, only the pipe is used.
        let _pipe_remains =
            rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL));
    });
    reset_peak();
    let _of_an_earlier_job = take_device_panic();
    let (end, message) = match catch_unwind(AssertUnwindSafe(|| carry_out(job, incoming))) {
        Ok(Ok(end)) => end,
        Ok(Err(failed)) => (failed.end, Some(failed.message)),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or_default();
            let failed = panicked(text, take_device_panic().as_deref());
            (failed.end, Some(failed.message))
        }
    };
    if let (WorkerJob::Train(_), Some(bytes)) = (job, peak()) {
        say(&MessageToRunner::Peak { bytes });
    }
    trainer::release_free_memory();
    say(&MessageToRunner::End { end, message });
}

/// Records panics of threads other than `own`, besides printing them as usual.
fn record_panics(own: ThreadId) {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        if trainer::panics_are_caught() {
            return;
        }
        if std::thread::current().id() != own {
            let text = info.payload_as_str().unwrap_or("it does not say why").to_owned();
            DEVICE_PANIC.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(text);
        }
        usual(info);
    }));
}

fn take_device_panic() -> Option<String> {
    DEVICE_PANIC.lock().unwrap_or_else(PoisonError::into_inner).take()
}

/// The meaning of a panic. If a device's thread panicked first, the device failed, and another
/// process may succeed.
fn panicked(text: &str, device_panic: Option<&str>) -> Failed {
    match device_panic {
        Some(first) => {
            let message = format!("a thread of it panicked: {first}");
            TrainerError::DeviceLost { message }.into()
        }
        None => Failed {
            end: AttemptEnd::Failed(cause_of(text).unwrap_or(FailureCause::Program)),
            message: format!("the trainer panicked (please report it): {text}"),
        },
    }
}

/// Why a job failed.
#[derive(Debug, PartialEq)]
struct Failed {
    end: AttemptEnd,
    message: String,
}

impl From<String> for Failed {
    fn from(message: String) -> Self {
        Failed { end: AttemptEnd::Failed(FailureCause::Program), message }
    }
}

impl From<TrainerError> for Failed {
    fn from(error: TrainerError) -> Self {
        let cause = match &error {
            _ if error.is_refused_by_the_machine() => None,
            // The message of a driver, a library or the system.
            TrainerError::DeviceLost { message } => {
                Some(cause_of(message).unwrap_or(FailureCause::DeviceLost))
            }
            TrainerError::Checkpoint { message, .. } | TrainerError::Model { message, .. } => {
                Some(cause_of(message).unwrap_or(FailureCause::Program))
            }
            TrainerError::Io { source, .. } if source.kind() == ErrorKind::OutOfMemory => {
                Some(FailureCause::Oom)
            }
            _ => Some(FailureCause::Program),
        };
        let end = cause.map_or(AttemptEnd::Refused, AttemptEnd::Failed);
        Failed { end, message: chain(&error) }
    }
}

/// Resets the peak resident memory of this process, so that it is reported for one job.
fn reset_peak() {
    // Since Linux 4.0; without it, the peak is that of all jobs.
    let _unsupported = std::fs::write("/proc/self/clear_refs", "5");
}

/// The peak resident memory of this process in bytes.
fn peak() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

type End = (AttemptEnd, Option<String>);

fn carry_out(job: &WorkerJob, incoming: &Receiver<Incoming>) -> Result<End, Failed> {
    match job {
        WorkerJob::Train(job) => train(job, incoming),
        WorkerJob::Probe { train, probe } => diagnose(train, incoming, |run, host| {
            trainer::probe(run, *probe, host).map(|points| serde_json::json!({ "points": points }))
        }),
        WorkerJob::Profile { train, steps, trace } => {
            diagnose(train, incoming, |run, host| trainer::profile(run, *steps, trace, host))
        }
        WorkerJob::Prepare { arguments, data, cache, others } => {
            let prepared = prepare(arguments, data, cache)?;
            let first = resolve(arguments)?;
            let mut findings = prepared.findings().to_vec();
            findings.extend(trainer::check_training(&first, &prepared)?);
            for other in others {
                let other_arguments = resolve(other)?;
                let found = if other_arguments.tokenizer() == first.tokenizer() {
                    trainer::check_training(&other_arguments, &prepared)?
                } else {
                    let prepared = prepare(other, data, cache)?;
                    let trained = trainer::check_training(&other_arguments, &prepared)?;
                    prepared.findings().iter().cloned().chain(trained).collect()
                };
                // Findings about the data are the same, those about the training may be of a few
                // configurations only.
                let of_model = ["new_head", "unused_tensors"];
                let is_new = |finding: &trainer::Finding| of_model.contains(&&*finding.code);
                findings.extend(found.into_iter().filter(is_new));
            }
            let undefined = trainer::undefined_metrics(&first, &prepared)
                .map(|found| serde_json::json!({ "metrics": found.names, "why": found.why }));
            let mut said = HashSet::new();
            findings.retain(|finding| said.insert(finding.message.clone()));
            let rows: BTreeMap<&str, usize> =
                Split::ALL.into_iter().map(|split| (split.name(), prepared.rows(split))).collect();
            answer(serde_json::json!({
                "digest": prepared.digest(), "directory": prepared.directory(),
                "labels": prepared.labels(), "rows": rows,
                "max_length": prepared.max_length(), "vocab_size": prepared.vocab_size(),
                "findings": findings,
                "undefined": undefined,
            }))
        }
        WorkerJob::Evaluate { checkpoint, arguments, data, cache, device, or_validation, rows } => {
            let prepared = prepare_for(Some(checkpoint), arguments, data, cache)?;
            let splits = [Some(Split::Test), or_validation.then_some(Split::Validation)];
            let mut splits = splits.into_iter().flatten();
            let Some(split) = splits.find(|split| prepared.rows(*split) > 0) else {
                return answer(serde_json::json!({ "metrics": {} }));
            };
            let rows = rows.unwrap_or(resolve(arguments)?.per_device_eval_batch_size);
            let device = device.to_string();
            let found =
                trainer::evaluate(checkpoint, &prepared, split, rows, &device, &report_progress)?;
            let metrics: Metrics = found.metrics.into_iter().collect();
            let findings =
                prepared.findings().iter().filter(|one| one.split.as_deref() == Some(split.name()));
            answer(serde_json::json!({
                "metrics": metrics, "by_class": found.by_class, "rows": prepared.rows(split),
                "findings": findings.map(|one| &one.message).collect::<Vec<_>>(),
            }))
        }
        WorkerJob::Quantize { checkpoint, target } => {
            let [before, after] = trainer::quantize(checkpoint, target)?;
            answer(serde_json::json!({ "before": before, "after": after }))
        }
        WorkerJob::Predict { directory, texts, pairs, normalize, writing, device, rows } => {
            let device = device.to_string();
            let read = |texts: &[String]| -> Vec<String> {
                let text = |text: &String| match normalize {
                    true => trainer::normalized(text),
                    false => text.clone(),
                };
                texts.iter().map(text).collect()
            };
            let (texts, pairs) = (read(texts), pairs.as_deref().map(read));
            let inputs =
                PredictionInputs { texts: &texts, pairs: pairs.as_deref(), writing: *writing };
            answer(trainer::predict(directory, inputs, *rows, &device, &report_progress)?)
        }
        &WorkerJob::Generate {
            ref directory,
            ref prompt,
            max_new_tokens,
            temperature,
            top_k,
            top_p,
            seed,
            ref device,
        } => {
            let config = GenerationConfig { max_new_tokens, temperature, top_k, top_p, seed };
            let mut on_text = |text: &str| say(&MessageToRunner::Text { text: text.to_owned() });
            let device = device.to_string();
            let done = trainer::generate(directory, prompt, &config, &device, &mut on_text)?;
            answer(serde_json::json!({ "tokens": done.tokens, "unknown": done.unknown }))
        }
        WorkerJob::Devices => answer(trainer::gpu_devices()),
        WorkerJob::TryDevice { device, arguments } => {
            trainer::try_device(&device.to_string(), &resolve(arguments)?)?;
            answer(serde_json::json!({}))
        }
        WorkerJob::Command(_) => Err("a command is not the trainer's job".to_owned().into()),
    }
}

fn answer(body: impl Serialize) -> Result<End, Failed> {
    let body = serde_json::to_value(body).map_err(|error| error.to_string())?;
    say(&MessageToRunner::Answer { body });
    Ok((AttemptEnd::Completed, None))
}

fn train(job: &TrainJob, incoming: &Receiver<Incoming>) -> Result<End, Failed> {
    let (arguments, prepared) = resolve_job(job)?;
    if let Some(study) =
        job.trial.directory.parent().and_then(Path::file_name).and_then(|name| name.to_str())
    {
        // Without the mark the data counts as any study's, and stays.
        let _only_a_mark =
            std::fs::write(prepared.directory().join(format!("{USED_BY}{study}")), "");
    }
    check_copied(&job.trial)?;
    let resumed = |directory| match job.trial.cloned {
        Some(_) => Start::Clone(directory),
        None => Start::Resume(directory),
    };
    let (device, start) =
        (job.trial.device.to_string(), job.trial.resume.as_deref().map_or(Start::Fresh, resumed));
    let mut run = training(job, &arguments, &prepared, &device, start);
    let mut host = RunnerConnection::new(job, incoming);
    if let (Some(cloned), Some(directory)) = (&job.trial.cloned, &job.trial.resume) {
        host.log(&format!(
            "[hpsearch] continues from `{}` of trial {} with {}",
            directory.display(),
            cloned.from,
            job.trial.params
        ));
    }
    let mut ended = trainer::train(&run, &mut host);
    // From the checkpoint before a damaged one, if one is kept, else from the start.
    let earlier = match start {
        Start::Resume(directory) if !job.in_population => saved_before(directory),
        Start::Resume(_) | Start::Fresh | Start::Clone(_) => Vec::new(),
    };
    let starts = earlier.iter().map(|directory| Start::Resume(directory)).chain([Start::Fresh]);
    for other in starts.filter(|_| matches!(start, Start::Resume(_))) {
        let Err(error @ TrainerError::Checkpoint { .. }) = &ended else { break };
        let from = match other {
            Start::Resume(directory) => Some(directory.display().to_string()),
            Start::Fresh | Start::Clone(_) => None,
        };
        say(&MessageToRunner::StartsOver { why: chain(error), from });
        run.start = other;
        ended = trainer::train(&run, &mut host);
    }
    Ok(match ended? {
        TrainingEnd::Finished => (AttemptEnd::Completed, None),
        TrainingEnd::Paused => (AttemptEnd::Paused, None),
        TrainingEnd::Stopped => (AttemptEnd::Stopped, None),
        TrainingEnd::Interrupted => (AttemptEnd::Interrupted, None),
        TrainingEnd::Diverged { step, what } => {
            (AttemptEnd::Diverged, Some(format!("{what} at optimiser step {step}")))
        }
    })
}

/// The checkpoints that a trial saved before this one and still has, the newest first.
fn saved_before(checkpoint: &Path) -> Vec<PathBuf> {
    let step = |path: &Path| disk::numbered(path, "checkpoint-");
    let Some((own, parent)) = step(checkpoint).zip(checkpoint.parent()) else { return Vec::new() };
    let mut earlier: Vec<(u64, PathBuf)> = disk::entries(parent)
        .filter_map(|path| Some((step(&path)?, path)))
        .filter(|(step, _)| *step < own)
        .collect();
    earlier.sort();
    earlier.into_iter().rev().map(|(_, path)| path).collect()
}

/// A trial's arguments and its data.
fn resolve_job(job: &TrainJob) -> Result<(TrainerArguments, PreparedData), Failed> {
    let mut values = job.arguments.clone();
    values.extend(job.trial.params.iter().map(|(name, value)| (name.to_owned(), value.to_json())));
    let prepared = prepare(&values, &job.data, &job.cache)?;
    Ok((resolve(&values)?, prepared))
}

/// The trainer's job for a trial.
fn training<'a>(
    job: &'a TrainJob,
    arguments: &'a TrainerArguments,
    data: &'a PreparedData,
    device: &'a str,
    start: Start<'a>,
) -> trainer::TrainingJob<'a> {
    trainer::TrainingJob {
        arguments,
        data,
        device,
        seed: job.trial.seed,
        objective: TrainingObjective {
            metric: job.monitored.metric.clone(),
            maximize: job.monitored.direction == Direction::Maximize,
        },
        step_unit: step_unit(job.step_unit),
        milestones: Milestones { every: job.milestones.every, at: job.milestones.at.clone() },
        directory: &job.trial.directory,
        rows_at_once: job.rows_at_once,
        start,
        until: job.until,
        reported: job.reported,
    }
}

/// Runs some steps of a new training, and answers with the result of `work`.
fn diagnose<T: Serialize>(
    job: &TrainJob,
    incoming: &Receiver<Incoming>,
    work: impl FnOnce(&trainer::TrainingJob<'_>, &mut dyn Host) -> Result<T, TrainerError>,
) -> Result<End, Failed> {
    let (arguments, prepared) = resolve_job(job)?;
    let device = job.trial.device.to_string();
    let run = training(job, &arguments, &prepared, &device, Start::Fresh);
    answer(work(&run, &mut RunnerConnection::new(job, incoming))?)
}

fn prepare(arguments: &Values, data: &Values, cache: &Path) -> Result<PreparedData, Failed> {
    prepare_for(None, arguments, data, cache)
}

/// The data for a `checkpoint`, which has its own copy of the tokenizer in case the pretrained
/// model is gone.
fn prepare_for(
    checkpoint: Option<&Path>,
    arguments: &Values,
    data: &Values,
    cache: &Path,
) -> Result<PreparedData, Failed> {
    let data = DataArguments::resolve(data).map_err(|problems| all("data", &problems))?;
    let arguments = resolve(arguments)?;
    let tokenizer = match (arguments.tokenizer(), checkpoint) {
        (TokenizerSource::Pretrained(model), Some(checkpoint)) => TokenizerSource::Pretrained(
            trainer::find_local(&model).unwrap_or_else(|| checkpoint.to_owned()),
        ),
        (TokenizerSource::Pretrained(model), None) => {
            TokenizerSource::Pretrained(trainer::locate(&model, &report_progress)?)
        }
        (tokenizer @ TokenizerSource::Trained(_), _) => tokenizer,
    };
    let mut log = |line: &str| println!("{line}");
    Ok(trainer::prepare(arguments.task, &data, &tokenizer, cache, &mut log, &report_progress)?)
}

/// Reports progress.
fn report_progress(what: &str, done: u64, of: u64) {
    say(&MessageToRunner::At { what: what.to_owned(), done, of });
}

fn resolve(values: &Values) -> Result<TrainerArguments, String> {
    TrainerArguments::resolve(values).map_err(|problems| all("trainer", &problems))
}

fn all(table: &str, problems: &[ArgumentProblem]) -> String {
    let line =
        |problem: &ArgumentProblem| format!("[{table}] {}: {}", problem.key, problem.message);
    problems.iter().map(line).collect::<Vec<_>>().join("; ")
}

/// An error and its causes, in one line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(&format!(": {error}"));
        cause = error.source();
    }
    text
}

fn step_unit(unit: StudyStepUnit) -> StepUnit {
    match unit {
        StudyStepUnit::Epoch => StepUnit::Epoch,
        StudyStepUnit::Step => StepUnit::Step,
        StudyStepUnit::Samples => StepUnit::Samples,
    }
}

/// The connection of the trainer to the runner.
struct RunnerConnection<'a> {
    incoming: &'a Receiver<Incoming>,
    objectives: &'a [String],
    stop_requested: Cell<bool>,
    /// The time of the last progress message, if progress is wanted.
    last_progress: Option<Option<Instant>>,
}

impl<'a> RunnerConnection<'a> {
    fn new(job: &'a TrainJob, incoming: &'a Receiver<Incoming>) -> Self {
        let (objectives, last_progress) = (&job.trial.objectives, job.is_watched.then_some(None));
        Self { incoming, objectives, stop_requested: Cell::new(false), last_progress }
    }

    fn verdict(&self) -> Result<HostVerdict, HostError> {
        loop {
            match self.incoming.recv() {
                Ok(Incoming::Decision { action, .. }) => {
                    return Ok(match action {
                        Action::Continue => HostVerdict::Continue,
                        Action::Pause => HostVerdict::Pause,
                        Action::Stop => HostVerdict::Stop,
                    });
                }
                Ok(Incoming::Message(MessageToTrial::Leave | MessageToTrial::Kill)) => {
                    self.stop_requested.set(true)
                }
                Ok(Incoming::Message(
                    MessageToTrial::Job(_)
                    | MessageToTrial::Signal { .. }
                    | MessageToTrial::Examine,
                )) => {}
                Ok(Incoming::RunnerGone) | Err(_) => {
                    return Err(HostError { message: "its pipe is closed".to_owned() });
                }
            }
        }
    }
}

impl Host for RunnerConnection<'_> {
    fn report(
        &mut self,
        step: u64,
        metrics: &BTreeMap<String, f64>,
    ) -> Result<HostVerdict, HostError> {
        say(&MessageToRunner::Report { step, metrics: Metrics(metrics.clone()) });
        let is_answered = self.objectives.iter().any(|metric| metrics.contains_key(metric));
        if is_answered { self.verdict() } else { Ok(HostVerdict::Continue) }
    }

    fn checkpoint(&mut self, step: u64, directory: &Path) -> Result<(), HostError> {
        say(&MessageToRunner::Checkpoint { path: directory.to_owned(), step });
        Ok(())
    }

    fn log(&mut self, line: &str) {
        println!("{line}");
    }

    fn points(&mut self, step: u64, metrics: &BTreeMap<String, f64>) {
        #[expect(clippy::cast_precision_loss, reason = "exact up to 2^53")]
        let step = Some(step as f64);
        let metrics = Metrics(metrics.clone());
        say(&MessageToRunner::Points { axis: SeriesAxis::Step, step, metrics });
    }

    fn at(&mut self, done: u64, of: u64) {
        let Some(last) = &mut self.last_progress else { return };
        if last.is_none_or(|last| last.elapsed() >= PROGRESS_INTERVAL) {
            *last = Some(Instant::now());
            report_progress("training", done, of);
        }
    }

    fn peak_memory(&self) -> Option<u64> {
        peak()
    }

    fn stop_requested(&self) -> bool {
        while let Ok(message) = self.incoming.try_recv() {
            if matches!(
                message,
                Incoming::Message(MessageToTrial::Leave | MessageToTrial::Kill)
                    | Incoming::RunnerGone
            ) {
                self.stop_requested.set(true);
            }
        }
        self.stop_requested.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_of_a_devices_thread_is_reported_as_a_failure_of_the_device() {
        record_panics(std::thread::current().id());
        assert_eq!(take_device_panic(), None);
        let device = std::thread::spawn(|| {
            panic!("CUDA_ERROR_ILLEGAL_ADDRESS, an illegal memory access was encountered")
        });
        assert!(device.join().is_err());
        let own = catch_unwind(|| panic!("receiving on a closed channel"));
        assert!(own.is_err());
        let first = take_device_panic();
        let failed = panicked("receiving on a closed channel", first.as_deref());
        assert_eq!(failed.end, AttemptEnd::Failed(FailureCause::DeviceLost));
        assert_eq!(
            failed.message,
            "the device failed: a thread of it panicked: CUDA_ERROR_ILLEGAL_ADDRESS, an illegal \
             memory access was encountered"
        );
        assert_eq!(take_device_panic(), None, "reported once");
        let own = "the trainer panicked (please report it): index out of bounds".to_owned();
        assert_eq!(panicked("index out of bounds", None), own.into());
        let starved = "DriverError(CUDA_ERROR_OUT_OF_MEMORY, \"out of memory\")";
        let oom = AttemptEnd::Failed(FailureCause::Oom);
        assert_eq!(panicked("closed", Some(starved)).end, oom);
        assert_eq!(panicked(starved, None).end, oom);
    }

    #[test]
    fn the_peak_of_a_job_is_without_that_of_the_job_before() {
        let take = |bytes: usize| std::hint::black_box(vec![1_u8; bytes]).len();
        reset_peak();
        take(300 << 20);
        let large = peak().unwrap();
        trainer::release_free_memory();
        reset_peak();
        take(1 << 20);
        let small = peak().unwrap();
        assert!(large >= small + (200 << 20), "{large} {small}");
    }
}
