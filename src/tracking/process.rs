//! A tracked run that is a command: its program runs in the foreground, and its messages are
//! written as they arrive.

#![expect(clippy::disallowed_methods, reason = "the clock of a program that is waited for")]

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, select, unbounded};
use serde_json::Value as Json;

use super::requests::{self, Asked};
use super::{Run, RunEnd, TrackingError};
use crate::engine::{Assignment, Input};
use crate::runner::launcher::{Job, LaunchError, Launcher};
use crate::runner::point_queue::PointQueue;
use crate::runner::process::ProcessLauncher;
use crate::runner::processes::own_program;
use crate::runner::signals::PassedOn;
use crate::runner::system_metrics::SystemMetrics;
use crate::storage::{Storage, StorageError};
use crate::study::decision::Decision;
use crate::study::device::{Device, Slot};
use crate::study::event::{AttemptEnd, AttemptEvent, CheckpointEvent, TrialEvent};
use crate::study::metric::Number;
use crate::study::params::Params;
use crate::study::program::{MetricSources, Program};
use crate::study::remark::RemarkKind;
use crate::study::series::{LoggedSeries, SeriesAxis};
use crate::study::spec::{FailureCause, Milestones, StudySpec};
use crate::study::trial::TrialNumber;

/// How long a failing store is retried at the end.
const PATIENCE: Duration = Duration::from_secs(10);

/// Interval of these retries.
const AGAIN: Duration = Duration::from_secs(1);

/// Poll interval for processes left behind by a killed supervisor.
const TURN: Duration = Duration::from_millis(100);

/// Maximum number of events per transaction.
const EVENTS_A_TURN: usize = 1024;

/// Number of signals after which the program is killed.
const PATIENT_WITH: u32 = 3;

/// A program and its environment.
#[derive(Clone, Debug)]
pub struct ForegroundCommand {
    /// Program and arguments.
    pub words: Vec<String>,
    /// Its working directory; absolute.
    pub directory: PathBuf,
    /// Its parameters, passed as to a trial.
    pub params: Params,
    /// Interval between measurements of its processes; `None`: off.
    pub system: Option<Duration>,
    /// Where its metrics are found besides its `@hpsearch` lines.
    pub metrics: MetricSources,
}

/// How a tracked program ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// How its run ended.
    pub end: RunEnd,
    /// Its exit status, as a shell reports it.
    pub status: i32,
    /// Whether another process resumed the run meanwhile: nothing was written from then on.
    pub is_fenced: bool,
    /// The part of the run that is not in the store, if any.
    pub unwritten: Option<Unwritten>,
}

/// The part of a run that the store did not accept: its end, and perhaps values before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unwritten {
    /// The error of the store.
    pub why: String,
    /// Number of lines that have the values and other entries before its end.
    pub count: u64,
    /// The log that has them as lines; `None`: it could not be written either.
    pub log: Option<PathBuf>,
}

/// Runs the program of `run` to its end, with the store at `path`; `tell` is called with messages
/// for the user.
///
/// # Errors
/// The program is not started if the store fails before.
pub fn carry_out(
    storage: &mut dyn Storage,
    path: &Path,
    run: Run,
    command: &ForegroundCommand,
    signals: &Receiver<i32>,
    tell: &mut dyn FnMut(&str),
) -> Result<Ended, TrackingError> {
    let files = run.study().files(path);
    let log = files.log(run.number(), run.attempt());
    let spec = Arc::new(StudySpec {
        program: Program::Command {
            run: command.words.clone(),
            cwd: command.directory.clone(),
            env: BTreeMap::new(),
            args: Default::default(),
            metrics: command.metrics.clone(),
        },
        ..run.study().spec.clone()
    });
    let protected = vec![path.to_owned()];
    let mut launcher =
        ProcessLauncher::new(own_program(), Arc::clone(&spec), path.to_owned(), files, Vec::new())
            .in_foreground(protected);
    let points = Arc::<PointQueue>::default();
    launcher.log_to(Arc::clone(&points));
    let mut foreground = Foreground {
        storage,
        run,
        log,
        metric: spec.objective().metric.clone(),
        launcher,
        job: None,
        points,
        unwritten: Vec::new(),
        unwritten_points: Vec::new(),
        trouble: None,
        tried: Instant::now(),
        is_fenced: false,
        remarks: BTreeMap::new(),
        asked: None,
        asked_often: 0,
        requested: None,
        looked: Instant::now(),
        system: None,
        tell,
    };
    if let Some(period) = command.system {
        // Without a thread there are no such series.
        foreground.system = SystemMetrics::start(period, Arc::clone(&foreground.points)).ok();
    }
    Ok(foreground.carry_out(&command.params, signals))
}

struct Foreground<'a> {
    storage: &'a mut dyn Storage,
    run: Run,
    /// The log of its attempt.
    log: PathBuf,
    metric: String,
    launcher: ProcessLauncher,
    job: Option<Box<dyn Job>>,
    /// Logged points that are not written yet.
    points: Arc<PointQueue>,
    /// Events that the store did not accept yet.
    unwritten: Vec<TrialEvent>,
    unwritten_points: Vec<LoggedSeries>,
    trouble: Option<Trouble>,
    tried: Instant,
    is_fenced: bool,
    /// Remarks on its lines: the text, and the count.
    remarks: BTreeMap<RemarkKind, (String, u64)>,
    /// The signal that asked it to exit.
    asked: Option<&'static str>,
    asked_often: u32,
    /// The user's request by another command.
    requested: Option<Asked>,
    /// When requests were last read.
    looked: Instant,
    system: Option<SystemMetrics>,
    tell: &'a mut dyn FnMut(&str),
}

/// Why the store could not be written when it was last tried.
struct Trouble {
    text: String,
    is_of_lost_file: bool,
}

impl Foreground<'_> {
    fn carry_out(&mut self, params: &Params, signals: &Receiver<i32>) -> Ended {
        let (tx, rx) = unbounded();
        if let Err(error) = requests::refuse_old(self.storage, &self.run) {
            self.hear(error);
        }
        let (end, message) = match self.launcher.launch(&self.assignment(params), &tx) {
            Ok(job) => {
                self.job = Some(job);
                self.listen(&rx, signals)
            }
            Err(LaunchError::Refused(why) | LaunchError::Impossible(why)) => {
                (AttemptEnd::Failed(FailureCause::Program), Some(why))
            }
        };
        let status = self.launcher.exit_status();
        drop(self.job.take());
        self.launcher.shut_down();
        self.launcher.sweep();
        let end = self.run_end(end, message);
        self.finish(end, status.unwrap_or(1))
    }

    fn assignment(&self, params: &Params) -> Assignment {
        Assignment {
            trial: self.run.number(),
            attempt: self.run.attempt(),
            slot: Slot::on(0, Device::Cpu),
            params: params.clone(),
            cloned_from: None,
            seed: 0,
            resume: self.run.checkpoint().cloned(),
            until: None,
            past_its_end: false,
            milestones: Milestones::default(),
            reported: None,
            rows_at_once: None,
            node: None,
        }
    }

    /// Writes the program's messages until it has ended.
    fn listen(
        &mut self,
        inputs: &Receiver<Input>,
        signals: &Receiver<i32>,
    ) -> (AttemptEnd, Option<String>) {
        loop {
            let mut heard = Vec::new();
            select! {
                recv(signals) -> signal => if let Ok(signal) = signal {
                    self.pass_on(signal);
                },
                recv(inputs) -> input => {
                    heard.extend(input.ok());
                    heard.extend(inputs.try_iter().take(EVENTS_A_TURN));
                }
                default(TURN) => {}
            }
            self.launcher.look_after();
            let mut ended = None;
            let (mut events, mut answers) = (Vec::new(), 0);
            for input in heard {
                match input {
                    Input::Ended { end, message, .. } => ended = Some((end, message)),
                    input => {
                        let (event, is_answered) = self.event_of(input);
                        events.extend(event);
                        answers += usize::from(is_answered);
                    }
                }
            }
            // In the first turn after they came: a program that continues from a checkpoint does
            // not log again what it logged before.
            self.take_points();
            self.write(events);
            self.look_for_requests();
            if let Some(job) = &mut self.job {
                (0..answers).for_each(|_| job.answer(&Decision::CONTINUE));
            }
            if let Some(ended) = ended {
                return ended;
            }
        }
    }

    /// On the first two signals the program may save and exit.
    fn pass_on(&mut self, signal: i32) {
        let Some(job) = &mut self.job else { return };
        if let Some(name) = PassedOn::asks_to_leave(signal) {
            self.asked.get_or_insert(name);
            self.asked_often += 1;
        }
        if self.asked_often < PATIENT_WITH {
            job.signal(signal);
        } else {
            job.kill();
        }
    }

    /// Serves requests of `hpsearch stop`, `pause` and `kill`.
    fn look_for_requests(&mut self) {
        let is_time = self.looked.elapsed() >= AGAIN && !self.is_fenced && self.trouble.is_none();
        if !is_time {
            return;
        }
        self.looked = Instant::now();
        let trial = self.run.number();
        let answer = |asked| match asked {
            Asked::Leave => format!("run {trial} is asked to save and exit, as with Ctrl-C"),
            Asked::Kill => format!("run {trial} is killed: it will count as failed"),
        };
        match (requests::take(self.storage, &self.run, &answer), &mut self.job) {
            (Ok(Some(asked)), Some(job)) => {
                (self.tell)(&format!("run {trial} is {}", asked.reason()));
                match asked {
                    Asked::Leave => job.leave(),
                    Asked::Kill => job.kill(),
                }
                self.requested = Some(asked);
            }
            (Ok(_), _) => {}
            (Err(error), _) => self.hear(error),
        }
    }

    fn take_points(&mut self) {
        // Seconds count from its start; no program logs by them.
        let began = |trial| self.storage.began(self.run.study().id, trial);
        match self.points.take(self.run.clock(), began) {
            Ok(points) => self.unwritten_points.extend(points),
            Err(error) => self.hear(error.into()),
        }
    }

    /// The event of an input, and whether the program gets an answer.
    fn event_of(&mut self, input: Input) -> (Option<TrialEvent>, bool) {
        let attempt = self.run.attempt();
        match input {
            Input::Launched { pid, pid_started, .. } => {
                if let Some(system) = &self.system {
                    system.follow_run(self.run.number(), attempt, pid);
                }
                (
                    Some(TrialEvent::Attempt(AttemptEvent::Launched { attempt, pid, pid_started })),
                    false,
                )
            }
            Input::Report { step, metrics, .. } => {
                let is_answered = metrics.get(&self.metric).is_some();
                (
                    Some(TrialEvent::Attempt(AttemptEvent::reported(attempt, step, metrics))),
                    is_answered,
                )
            }
            Input::Checkpoint { step, path, bytes, system, digest, .. } => (
                Some(TrialEvent::Checkpoint(CheckpointEvent::Saved {
                    step,
                    path,
                    bytes,
                    system,
                    digest,
                })),
                false,
            ),
            Input::Recorded { event, .. } => (Some(event), false),
            Input::Remark { remark, .. } => {
                let text = remark.text();
                let known = self.remarks.entry(remark.kind).or_insert_with(|| (text.clone(), 0));
                known.1 += 1;
                let kind = remark.kind;
                if known.1 == 1 {
                    (self.tell)(&format!("run {}: {text}", self.run.number()));
                }
                let first = (known.1 == 1).then_some(TrialEvent::Attempt(AttemptEvent::Remarked {
                    attempt,
                    kind,
                    text,
                    count: 1,
                }));
                (first, false)
            }
            Input::Begin { .. }
            | Input::Heard { .. }
            | Input::Ended { .. }
            | Input::Request { .. }
            | Input::Unheard { .. }
            | Input::Peak { .. }
            | Input::AgentJoined { .. }
            | Input::AgentLeft { .. }
            | Input::AgentSilent { .. }
            | Input::AgentAbsent { .. }
            | Input::Mark { .. }
            | Input::Load(_)
            | Input::Interrupt
            | Input::KillAll
            | Input::Tick => (None, false),
        }
    }

    /// Writes events. Events that the store does not accept are retried while the program
    /// continues.
    fn write(&mut self, events: Vec<TrialEvent>) {
        if self.is_fenced {
            return;
        }
        self.unwritten.extend(events);
        let waits = self.trouble.is_some() && self.tried.elapsed() < AGAIN;
        let is_all_written = self.unwritten.is_empty() && self.unwritten_points.is_empty();
        let is_lost = self.trouble.as_ref().is_some_and(|trouble| trouble.is_of_lost_file);
        if waits || is_all_written && !is_lost || !self.is_back() {
            return;
        }
        match self.run.write_logged(self.storage, &self.unwritten, &self.unwritten_points) {
            Ok(()) => {
                self.unwritten.clear();
                self.unwritten_points.clear();
                if self.trouble.take().is_some() {
                    (self.tell)("the store can be written again: nothing of the run is lost");
                }
            }
            Err(error) => self.hear(error),
        }
    }

    /// Whether the store is where it was, if it was moved away.
    fn is_back(&mut self) -> bool {
        if self.trouble.is_none() {
            return true;
        }
        match self.storage.look_for_return() {
            Ok(()) => true,
            Err(error) => {
                self.hear(error.into());
                false
            }
        }
    }

    fn hear(&mut self, error: TrackingError) {
        self.tried = Instant::now();
        if let TrackingError::Storage(StorageError::RunFenced { trial }) = error {
            self.fence(trial);
        } else if self.trouble.is_none() {
            let text = error.to_string();
            let is_of_lost_file =
                matches!(&error, TrackingError::Storage(error) if error.is_of_lost_file());
            (self.tell)(&format!("{text}; the program continues, and writing is retried"));
            self.trouble = Some(Trouble { text, is_of_lost_file });
        }
    }

    fn fence(&mut self, trial: TrialNumber) {
        self.is_fenced = true;
        self.points.close();
        self.unwritten.clear();
        self.unwritten_points.clear();
        let text = format!(
            "run {trial} was resumed by another process: this program continues, and nothing more \
             of it is recorded"
        );
        self.launcher.note(&text);
        (self.tell)(&text);
    }

    fn run_end(&self, end: AttemptEnd, message: Option<String>) -> RunEnd {
        if let Some(asked) = self.requested {
            return asked.end();
        }
        match (self.asked, end) {
            (Some(signal), _) => RunEnd::Interrupted { by: format!("by {signal}") },
            (None, AttemptEnd::Completed) => RunEnd::Completed,
            (None, AttemptEnd::Interrupted) => RunEnd::Interrupted { by: "by a signal".to_owned() },
            (None, end) => {
                let cause = match end {
                    AttemptEnd::Failed(cause) => cause,
                    AttemptEnd::Completed
                    | AttemptEnd::Paused
                    | AttemptEnd::Stopped
                    | AttemptEnd::Interrupted
                    | AttemptEnd::Lost
                    | AttemptEnd::Refused
                    | AttemptEnd::Diverged => FailureCause::Program,
                };
                let reason = message.unwrap_or_else(|| "failed without a message".to_owned());
                RunEnd::Failed { cause, reason }
            }
        }
    }

    /// Writes the remaining events, and the end.
    fn finish(&mut self, end: RunEnd, status: i32) -> Ended {
        let attempt = self.run.attempt();
        let several = std::mem::take(&mut self.remarks).into_iter();
        let several = several.filter(|(_, (_, count))| *count > 1);
        let remarked = |(kind, (text, count))| {
            TrialEvent::Attempt(AttemptEvent::Remarked { attempt, kind, text, count })
        };
        self.write(several.map(remarked).collect());
        let until = Instant::now() + PATIENCE;
        while !self.is_fenced {
            self.write(Vec::new());
            if !self.unwritten.is_empty() || !self.unwritten_points.is_empty() {
                if Instant::now() >= until {
                    break;
                }
                std::thread::sleep(TURN);
                continue;
            }
            if self.is_back() {
                match self.run.finish(self.storage, end.clone()) {
                    Ok(()) => {
                        self.trouble = None;
                        break;
                    }
                    Err(error) => self.hear(error),
                }
            }
            if Instant::now() >= until {
                break;
            }
            std::thread::sleep(TURN);
        }
        let trouble = self.trouble.take().filter(|_| !self.is_fenced);
        let unwritten = trouble.map(|Trouble { text: why, .. }| {
            let lines = self.unwritten_lines();
            let count = lines.len() as u64;
            let log = keep(&self.log, &lines).ok().map(|()| self.log.clone());
            Unwritten { why, count, log }
        });
        Ended { end, status, is_fenced: self.is_fenced, unwritten }
    }

    /// What the store did not accept, as lines of a log: reports and points as a program prints
    /// them. Measurements of the program's processes are not among them.
    fn unwritten_lines(&self) -> Vec<String> {
        let event = |event: &TrialEvent| match event {
            TrialEvent::Attempt(AttemptEvent::Reported { step, metrics, .. }) => {
                reported("step", Some((*step).into()), metrics.iter())
            }
            other => {
                let json = serde_json::to_string(other).unwrap_or_default();
                format!("[hpsearch] not in the store: {json}")
            }
        };
        let points = |series: &LoggedSeries| {
            let (axis, metric) = (series.axis.as_str(), series.metric.clone());
            let points = series.points.clone().into_iter();
            points.map(move |point| {
                let step = point.step.map(|step| Number(step).to_json());
                reported(axis, step, [(metric.as_str(), point.value)])
            })
        };
        let logged =
            self.unwritten_points.iter().filter(|series| series.axis != SeriesAxis::Seconds);
        self.unwritten.iter().map(event).chain(logged.flat_map(points)).collect()
    }
}

/// A message as a program prints it.
fn reported<'a>(
    axis: &str,
    step: Option<Json>,
    values: impl IntoIterator<Item = (&'a str, f64)>,
) -> String {
    let mut message = serde_json::Map::new();
    if let Some(step) = step {
        message.insert(axis.to_owned(), step);
    }
    let values = values.into_iter();
    message.extend(values.map(|(name, value)| (name.to_owned(), Number(value).to_json())));
    format!("@hpsearch {}", Json::Object(message))
}

/// Appends lines to a log.
fn keep(log: &Path, lines: &[String]) -> io::Result<()> {
    if lines.is_empty() {
        return Ok(());
    }
    let mut file = File::options().append(true).open(log)?;
    writeln!(file, "[hpsearch] the next lines are not in the store")?;
    file.write_all((lines.join("\n") + "\n").as_bytes())?;
    file.sync_all()
}
