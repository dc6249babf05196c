//! Jobs of the built-in trainer: training a trial, preparing data, evaluating, predicting and generating.

use std::cell::Cell;
use std::collections::{BTreeMap, HashSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, Once, PoisonError};
use std::thread::ThreadId;
use std::time::{Duration, Instant};

use crossbeam_channel::Receiver;

use super::{Incoming, say};
use crate::arguments::{ArgumentProblem, DataArguments, Probe, TokenizerSource, TrainerArguments};
use crate::metric::{Direction, Metrics};
use crate::paths;
use crate::study::StepClock;
use crate::trainer::{self, Clock, Host, HostError, HostVerdict, Milestones, Objective, PreparedData, RunEnd, Sampling, Split, Start, TrainerError};
use crate::wire::{Down, EndWord, Job, TrainJob, USED_BY, Up};

type Values = BTreeMap<String, serde_json::Value>;

/// How often it is said how far training is, at most.
const TURN: Duration = Duration::from_millis(100);

static BUILTIN: AtomicBool = AtomicBool::new(false);
static SET_UP: Once = Once::new();

/// The first panic of another thread than the one that carries out the job: a device's own, whose driver says there what went wrong.
/// A lock, for any thread may panic, at any time.
static ELSEWHERE: Mutex<Option<String>> = Mutex::new(None);

/// Whether this process is a worker of the built-in trainer: then it ends the moment its runner is gone.
pub(super) fn is_training() -> bool {
    BUILTIN.load(Ordering::Relaxed)
}

/// Carries out one job and says how it ended.
pub(super) fn run(job: &Job, incoming: &Receiver<Incoming>) {
    BUILTIN.store(true, Ordering::Relaxed);
    SET_UP.call_once(|| {
        trainer::tune_allocator();
        note_panics(std::thread::current().id());
        let given = |name: &str| std::env::var(name).ok();
        if let Some(directory) = paths::kernel_cache(given("XDG_CACHE_HOME").as_deref(), given("HOME").as_deref()) {
            trainer::keep_kernels(&directory);
        }
        // A stopped process cannot notice that its stdin was closed; the kernel can. Where it is not told, the pipe still tells.
        let _pipe_tells = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL));
    });
    forget_peak();
    let _of_an_earlier_job = elsewhere();
    let (end, message) = match catch_unwind(AssertUnwindSafe(|| carry_out(job, incoming))) {
        Ok(Ok(end)) => (end.0, end.1),
        Ok(Err(message)) => (EndWord::Failed, Some(message)),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned().or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
            (EndWord::Failed, Some(panicked(&text.unwrap_or_default(), elsewhere().as_deref())))
        }
    };
    if let (Job::Train(_), Some(bytes)) = (job, peak()) {
        say(&Up::Peak { bytes });
    }
    trainer::give_memory_back();
    say(&Up::End { end, message });
}

/// Remembers what other threads than this one panic with, besides saying it as usual.
fn note_panics(own: ThreadId) {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        if trainer::panics_are_errors() {
            return;
        }
        if std::thread::current().id() != own {
            let text = info.payload_as_str().unwrap_or("it does not say why").to_owned();
            ELSEWHERE.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(text);
        }
        usual(info);
    }));
}

fn elsewhere() -> Option<String> {
    ELSEWHERE.lock().unwrap_or_else(PoisonError::into_inner).take()
}

/// What a panic means. Where a device's thread panicked first, the device failed: another process may have more luck.
fn panicked(text: &str, elsewhere: Option<&str>) -> String {
    match elsewhere {
        Some(first) => TrainerError::DeviceLost { message: format!("a thread of it panicked: {first}") }.to_string(),
        None => format!("the trainer panicked (please report it): {text}"),
    }
}

/// Lets the system forget the most memory that this process had resident: what is told is that of one job.
fn forget_peak() {
    // Linux 4.0, where that is built in; elsewhere it stays the most of all jobs.
    let _kept = std::fs::write("/proc/self/clear_refs", "5");
}

/// The most bytes that this process had resident.
fn peak() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

type End = (EndWord, Option<String>);

fn carry_out(job: &Job, incoming: &Receiver<Incoming>) -> Result<End, String> {
    match job {
        Job::Train(job) => train(job, incoming),
        Job::Probe { train, probe: what } => probe(train, *what, incoming),
        Job::Profile { train, steps, trace } => profile(train, *steps, trace, incoming),
        Job::Prepare { arguments, data, cache, others } => {
            let (prepared, mut findings) = fitting(arguments, data, cache)?;
            for other in others {
                let (_, found) = fitting(other, data, cache)?;
                // Of the same data enough is said.
                let of_model = |finding: &trainer::Finding| ["new_head", "unused_tensors"].contains(&&*finding.code);
                findings.extend(found.into_iter().filter(of_model));
            }
            let mut said = HashSet::new();
            findings.retain(|finding| said.insert(finding.message.clone()));
            let splits = [Split::Train, Split::Validation, Split::Test];
            let rows: BTreeMap<&str, usize> = splits.into_iter().map(|split| (split.name(), prepared.rows(split))).collect();
            answer(serde_json::json!({
                "digest": prepared.digest(), "directory": prepared.directory(), "labels": prepared.labels(), "rows": rows,
                "max_length": prepared.max_length(), "vocab_size": prepared.vocab_size(), "findings": findings,
            }))
        }
        Job::Evaluate { checkpoint, arguments, data, cache, device, or_validation, rows } => {
            let prepared = prepare_for(Some(checkpoint), arguments, data, cache)?;
            let split = match prepared.rows(Split::Test) {
                0 if *or_validation => Split::Validation,
                0 => return answer(serde_json::json!({})),
                _ => Split::Test,
            };
            let rows = rows.unwrap_or(resolve(arguments)?.per_device_eval_batch_size);
            let metrics = trainer::evaluate(checkpoint, &prepared, split, rows, &device.to_string(), &tell).map_err(|error| chain(&error))?;
            let metrics: Metrics = metrics.into_iter().collect();
            answer(serde_json::to_value(metrics).map_err(|error| error.to_string())?)
        }
        Job::Quantize { checkpoint, target } => {
            let [before, after] = trainer::quantize(checkpoint, target).map_err(|error| chain(&error))?;
            answer(serde_json::json!({ "before": before, "after": after }))
        }
        Job::Predict { directory, texts, device, rows } => {
            let predictions = trainer::predict(directory, texts, *rows, &device.to_string(), &tell).map_err(|error| chain(&error))?;
            answer(serde_json::to_value(predictions).map_err(|error| error.to_string())?)
        }
        Job::Generate { directory, prompt, max_new_tokens, temperature, top_k, top_p, seed, device } => {
            let (max_new_tokens, top_k) = (*max_new_tokens, *top_k);
            let sampling = Sampling { max_new_tokens, temperature: *temperature, top_k, top_p: *top_p, seed: *seed };
            let mut hear = |text: &str| say(&Up::Text { text: text.to_owned() });
            let done = trainer::generate(directory, prompt, &sampling, &device.to_string(), &mut hear).map_err(|error| chain(&error))?;
            answer(serde_json::json!({ "tokens": done.tokens, "unknown": done.unknown }))
        }
        Job::Devices => answer(serde_json::json!(trainer::further_devices())),
        Job::TryDevice { device, arguments } => {
            trainer::try_device(&device.to_string(), &resolve(arguments)?).map_err(|error| chain(&error))?;
            answer(serde_json::json!({}))
        }
        Job::Command(_) => Err("a command is not the trainer's job".to_owned()),
    }
}

fn answer(body: serde_json::Value) -> Result<End, String> {
    say(&Up::Answer { body });
    Ok((EndWord::Finished, None))
}

fn train(job: &TrainJob, incoming: &Receiver<Incoming>) -> Result<End, String> {
    let (arguments, prepared) = told(job)?;
    if let Some(study) = job.trial.directory.parent().and_then(Path::file_name).and_then(|name| name.to_str()) {
        // Without the mark it is taken for anyone's, and stays.
        let _only_a_mark = std::fs::write(prepared.directory().join(format!("{USED_BY}{study}")), "");
    }
    let (device, start) = (job.trial.device.to_string(), job.trial.resume.as_deref().map_or(Start::Fresh, Start::Resume));
    let mut run = training(job, &arguments, &prepared, &device, start);
    let watched = job.is_watched.then_some(None);
    let mut host = Uplink { incoming, metric: &job.trial.metric, leave: Cell::new(false), watched };
    let mut ended = trainer::train(&run, &mut host);
    if let (Err(error @ TrainerError::Checkpoint { .. }), Start::Resume(_)) = (&ended, start) {
        host.log(&format!("[hpsearch] cannot go on from the checkpoint, so this starts from the beginning: {error}"));
        run.start = Start::Fresh;
        ended = trainer::train(&run, &mut host);
    }
    match ended {
        Ok(RunEnd::Finished) => Ok((EndWord::Finished, None)),
        Ok(RunEnd::Paused) => Ok((EndWord::Paused, None)),
        Ok(RunEnd::Stopped) => Ok((EndWord::Stopped, None)),
        Ok(RunEnd::Interrupted) => Ok((EndWord::Interrupted, None)),
        Ok(RunEnd::Diverged { step, what }) => Ok((EndWord::Diverged, Some(format!("{what} at optimiser step {step}")))),
        Err(error) if error.is_refused_by_the_machine() => Ok((EndWord::Refused, Some(chain(&error)))),
        Err(error) => Err(chain(&error)),
    }
}

/// A trial's arguments and its data.
fn told(job: &TrainJob) -> Result<(TrainerArguments, PreparedData), String> {
    let mut values = job.arguments.clone();
    values.extend(job.trial.params.iter().map(|(name, value)| (name.to_owned(), value.to_json())));
    let prepared = prepare(&values, &job.data, &job.cache)?;
    Ok((resolve(&values)?, prepared))
}

/// The trainer's job for a trial.
fn training<'a>(job: &'a TrainJob, arguments: &'a TrainerArguments, data: &'a PreparedData, device: &'a str, start: Start<'a>) -> trainer::Job<'a> {
    trainer::Job {
        arguments,
        data,
        device,
        seed: job.trial.seed,
        objective: Objective { metric: job.trial.metric.clone(), maximize: job.direction == Direction::Maximize },
        clock: clock(job.clock),
        milestones: Milestones { every: job.milestones.every, at: job.milestones.at.clone() },
        directory: &job.trial.directory,
        rows_at_once: job.rows_at_once,
        start,
        until: job.until,
        reported: job.reported,
    }
}

fn profile(job: &TrainJob, steps: u32, trace: &Path, incoming: &Receiver<Incoming>) -> Result<End, String> {
    let (arguments, prepared) = told(job)?;
    let device = job.trial.device.to_string();
    let run = training(job, &arguments, &prepared, &device, Start::Fresh);
    let mut host = Uplink { incoming, metric: &job.trial.metric, leave: Cell::new(false), watched: job.is_watched.then_some(None) };
    let profile = trainer::profile(&run, steps, trace, &mut host).map_err(|error| chain(&error))?;
    answer(serde_json::to_value(profile).map_err(|error| error.to_string())?)
}

fn probe(job: &TrainJob, probe: Probe, incoming: &Receiver<Incoming>) -> Result<End, String> {
    let (arguments, prepared) = told(job)?;
    let device = job.trial.device.to_string();
    let run = training(job, &arguments, &prepared, &device, Start::Fresh);
    let watched = job.is_watched.then_some(None);
    let mut host = Uplink { incoming, metric: &job.trial.metric, leave: Cell::new(false), watched };
    let points = trainer::probe(&run, probe, &mut host).map_err(|error| chain(&error))?;
    answer(serde_json::json!({ "points": points }))
}

fn prepare(arguments: &Values, data: &Values, cache: &Path) -> Result<PreparedData, String> {
    prepare_for(None, arguments, data, cache)
}

/// Data that is prepared for these arguments, and what was found in it and in the model that they ask for.
fn fitting(arguments: &Values, data: &Values, cache: &Path) -> Result<(PreparedData, Vec<trainer::Finding>), String> {
    let prepared = prepare(arguments, data, cache)?;
    let trained = trainer::fits(&resolve(arguments)?, &prepared).map_err(|error| chain(&error))?;
    let findings = prepared.findings().iter().cloned().chain(trained).collect();
    Ok((prepared, findings))
}

/// The data as a `checkpoint` reads it: it has what the directory of the model that it began with had, should that be gone.
fn prepare_for(checkpoint: Option<&Path>, arguments: &Values, data: &Values, cache: &Path) -> Result<PreparedData, String> {
    let data = DataArguments::resolve(data).map_err(|problems| all("data", &problems))?;
    let arguments = resolve(arguments)?;
    let tokenizer = match (arguments.tokenizer(), checkpoint) {
        (TokenizerSource::Pretrained(model), Some(checkpoint)) => {
            TokenizerSource::Pretrained(trainer::at_hand(&model).unwrap_or_else(|| checkpoint.to_owned()))
        }
        (TokenizerSource::Pretrained(model), None) => TokenizerSource::Pretrained(trainer::locate(&model, &tell).map_err(|error| chain(&error))?),
        (tokenizer @ TokenizerSource::Trained(_), _) => tokenizer,
    };
    trainer::prepare(arguments.task, &data, &tokenizer, cache, &mut |line| println!("{line}"), &tell).map_err(|error| chain(&error))
}

/// Says how far it is.
fn tell(what: &str, done: u64, of: u64) {
    say(&Up::At { what: what.to_owned(), done, of });
}

fn resolve(values: &Values) -> Result<TrainerArguments, String> {
    TrainerArguments::resolve(values).map_err(|problems| all("trainer", &problems))
}

fn all(table: &str, problems: &[ArgumentProblem]) -> String {
    let each: Vec<String> = problems.iter().map(|problem| format!("[{table}] {}: {}", problem.key, problem.message)).collect();
    each.join("; ")
}

/// An error with its causes, in one line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(&format!(": {error}"));
        cause = error.source();
    }
    text
}

fn clock(clock: StepClock) -> Clock {
    match clock {
        StepClock::Epoch => Clock::Epoch,
        StepClock::Step => Clock::Step,
        StepClock::Samples => Clock::Samples,
    }
}

/// The trainer's way to the runner.
struct Uplink<'a> {
    incoming: &'a Receiver<Incoming>,
    metric: &'a str,
    leave: Cell<bool>,
    /// Where somebody wants to hear of every step: when they last did.
    watched: Option<Option<Instant>>,
}

impl Uplink<'_> {
    fn verdict(&self) -> Result<HostVerdict, HostError> {
        loop {
            match self.incoming.recv() {
                Ok(Incoming::Verdict(line)) => {
                    let json: serde_json::Value = serde_json::from_str(&line).unwrap_or_default();
                    return Ok(match json.get("verdict").and_then(serde_json::Value::as_str) {
                        Some("pause") => HostVerdict::Pause,
                        Some("stop") => HostVerdict::Stop,
                        _ => HostVerdict::Continue,
                    });
                }
                Ok(Incoming::Down(Down::Leave | Down::Kill)) => self.leave.set(true),
                Ok(Incoming::Down(Down::Job(_))) => {}
                Ok(Incoming::RunnerGone) | Err(_) => return Err(HostError { message: "its pipe is closed".to_owned() }),
            }
        }
    }
}

impl Host for Uplink<'_> {
    fn report(&mut self, step: u64, metrics: &BTreeMap<String, f64>) -> Result<HostVerdict, HostError> {
        say(&Up::Report { step, metrics: Metrics(metrics.clone()) });
        if metrics.contains_key(self.metric) { self.verdict() } else { Ok(HostVerdict::Continue) }
    }

    fn checkpoint(&mut self, step: u64, directory: &Path) -> Result<(), HostError> {
        say(&Up::Checkpoint { path: directory.to_owned(), step });
        Ok(())
    }

    fn log(&mut self, line: &str) {
        println!("{line}");
    }

    fn at(&mut self, done: u64, of: u64) {
        let Some(told) = &mut self.watched else { return };
        if told.is_none_or(|told| told.elapsed() >= TURN) {
            *told = Some(Instant::now());
            tell("training", done, of);
        }
    }

    fn stop_requested(&self) -> bool {
        while let Ok(message) = self.incoming.try_recv() {
            if matches!(message, Incoming::Down(Down::Leave | Down::Kill) | Incoming::RunnerGone) {
                self.leave.set(true);
            }
        }
        self.leave.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_of_a_devices_thread_is_told_as_the_devices_failure_and_not_as_a_mistake_of_the_trainers() {
        note_panics(std::thread::current().id());
        assert_eq!(elsewhere(), None);
        let device = std::thread::spawn(|| panic!("CUDA_ERROR_ILLEGAL_ADDRESS, an illegal memory access was encountered"));
        assert!(device.join().is_err());
        let own = catch_unwind(|| panic!("receiving on a closed channel"));
        assert!(own.is_err());
        let first = elsewhere();
        assert_eq!(
            panicked("receiving on a closed channel", first.as_deref()),
            "the device failed: a thread of it panicked: CUDA_ERROR_ILLEGAL_ADDRESS, an illegal memory access was encountered"
        );
        assert_eq!(elsewhere(), None, "told once");
        assert_eq!(panicked("index out of bounds", None), "the trainer panicked (please report it): index out of bounds");
    }

    #[test]
    fn the_peak_of_a_job_is_told_without_that_of_the_one_before() {
        let take = |bytes: usize| std::hint::black_box(vec![1_u8; bytes]).len();
        forget_peak();
        take(300 << 20);
        let large = peak().unwrap();
        trainer::give_memory_back();
        forget_peak();
        take(1 << 20);
        let small = peak().unwrap();
        assert!(large >= small + (200 << 20), "{large} {small}");
    }
}
