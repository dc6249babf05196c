//! Trials as child processes: long-lived workers for the built-in trainer, one supervisor per
//! attempt for commands.

mod job;
mod message;
mod stdin;
mod worker;

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::Sender;

use super::artifacts::clear_files_of_lines;
use super::copies::Copies;
use super::launcher::{Job, LaunchError, Launcher};
use super::listener::Expected;
use super::metric_files::{MetricFiles, Owner};
use super::point_queue::PointQueue;
use super::processes;
use super::registration::Registrar;
use super::slot_environment::{Ports, is_free, single_node};
use super::watchdog::Watchdog;
use crate::config::trial_values::TrialValues;
use crate::engine::{Assignment, GroupNode, Input};
use crate::pruners;
use crate::runner::inputs::KnownInputs;
use crate::runner::protocol::{CHECKPOINTS, StepCounter};
use crate::storage::paths::{self, StudyFiles};
use crate::study::printed_metrics::{Patterns, PrintedMetrics};
use crate::study::program::Program;
use crate::study::provenance::SourceFile;
use crate::study::remark::{Remark, RemarkKind};
use crate::study::spec::StudySpec;
use job::ProcessJob;
use worker::Worker;

/// Time for a child to exit after its stdin is closed, before it is killed.
const SHUT_DOWN_PATIENCE: Duration = Duration::from_secs(5);

/// Starts a study's trials as processes.
pub struct ProcessLauncher {
    /// The hpsearch executable.
    program: PathBuf,
    spec: Arc<StudySpec>,
    store: PathBuf,
    files: StudyFiles,
    registrar: Arc<Registrar>,
    /// The metrics whose lines are reports.
    reported: Arc<[String]>,
    /// The queue for logged points.
    points: Arc<PointQueue>,
    patterns: Option<Arc<Patterns>>,
    cache: PathBuf,
    workers: HashMap<usize, Worker>,
    ports: Ports,
    /// The name of this run, by which its watchdog recognises processes.
    run: String,
    watchdog: Option<Watchdog>,
    pids: BTreeSet<u32>,
    launch_mode: LaunchMode,
    patience_with_agent: Option<Duration>,
    known: KnownInputs,
}

/// How a study's programs are started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LaunchMode {
    /// On the slots of a search.
    Slots,
    /// In the foreground: one program with the unchanged environment, echoed.
    Foreground,
}

impl ProcessLauncher {
    /// A launcher for `spec`, with its trials' `files` and the store at `store`. `program` is the
    /// hpsearch executable; `protected`: the store and the study file, which no checkpoint may
    /// contain.
    pub fn new(
        program: PathBuf,
        spec: Arc<StudySpec>,
        store: PathBuf,
        files: StudyFiles,
        protected: Vec<PathBuf>,
    ) -> Self {
        let cache = paths::data_cache(&spec, &store);
        let copies = matches!(spec.program, Program::Command { .. })
            .then(|| Copies::new(spec.checkpoints.max_disk));
        let patterns = match &spec.program {
            // The patterns were checked when the study file was read.
            Program::Command { metrics, .. } if !metrics.pattern.is_empty() => {
                Patterns::new(&metrics.pattern, spec.step.as_str()).ok().map(Arc::new)
            }
            _ => None,
        };
        let digests = pruners::is_population(&spec.pruner);
        let registrar = Registrar::new(files.clone(), protected, copies).with_digests(digests);
        let registrar = Arc::new(registrar);
        let pid = std::process::id();
        let run = format!("{pid}.{}", processes::start_time(pid).unwrap_or(0));
        ProcessLauncher {
            program,
            reported: spec.reported_metrics().into(),
            points: Arc::default(),
            spec,
            store,
            files,
            registrar,
            patterns,
            cache,
            workers: HashMap::new(),
            ports: Ports::of_run(pid),
            run,
            watchdog: None,
            pids: BTreeSet::new(),
            launch_mode: LaunchMode::Slots,
            patience_with_agent: None,
            known: KnownInputs::default(),
        }
    }

    /// The same with what its trials read: while data or a model is not what it was, none is
    /// started, and after a change of the command's own files a remark says so of each attempt.
    #[must_use]
    pub fn with_inputs(self, known: KnownInputs) -> Self {
        ProcessLauncher { known, ..self }
    }

    /// The same for an agent, whose scheduler may send signals to all its processes, and whose
    /// trials end if it is stopped for longer than `patience`: the runner runs them elsewhere.
    #[must_use]
    pub fn of_agent(self, patience: Duration) -> Self {
        ProcessLauncher { patience_with_agent: Some(patience), ..self }
    }

    /// The same for one foreground program, a tracked run: its arguments are literal, it inherits
    /// this process's environment, and its output is echoed. Its checkpoints are not copied.
    #[must_use]
    pub fn in_foreground(self, protected: Vec<PathBuf>) -> Self {
        let registrar = Arc::new(Registrar::new(self.files.clone(), protected, None));
        ProcessLauncher { registrar, launch_mode: LaunchMode::Foreground, ..self }
    }

    /// The study whose trials it starts.
    pub fn spec(&self) -> &StudySpec {
        &self.spec
    }

    /// The exit status of the foreground program, once it has ended.
    pub fn exit_status(&self) -> Option<i32> {
        self.workers.values().find_map(|worker| worker.listening.exit_status())
    }

    /// Writes a line into the log of the foreground program.
    pub fn note(&self, text: &str) {
        self.workers.values().for_each(|worker| worker.listening.note(text));
    }

    /// Where the processes of a group meet: at a free port that no other group of this run has. On
    /// several nodes, the runner has chosen it.
    fn node_of(&mut self, assignment: &Assignment) -> Result<Option<GroupNode>, LaunchError> {
        let slot = &assignment.slot;
        if let Some(node) = &assignment.node {
            return match node.leads() && !is_free(node.port) {
                true => Err(LaunchError::Refused(format!(
                    "the port {} for a trial's processes is in use",
                    node.port
                ))),
                false => Ok(Some(node.clone())),
            };
        }
        let is_command = matches!(self.spec.program, Program::Command { .. });
        if !is_command || !self.spec.devices.is_grouped() {
            return Ok(None);
        }
        let port = self.ports.take(slot.index);
        let port =
            port.map_err(LaunchError::refused("find a free port for a trial's processes"))?;
        Ok(Some(single_node(&slot.devices, port)))
    }

    /// Whether a child is the supervisor of one attempt, not a worker for many.
    fn is_supervised(&self) -> bool {
        !matches!(self.spec.program, Program::Trainer { .. })
    }

    /// What an attempt may print, and the metric files of its command. The first process of a group
    /// over several nodes reports for all.
    fn expected(&self, assignment: &Assignment) -> (Expected, Option<MetricFiles>) {
        let cwd = match &self.spec.program {
            Program::Command { cwd, .. } => cwd.clone(),
            _ => PathBuf::new(),
        };
        let resumed = assignment.resume.as_ref().map_or(0, |checkpoint| checkpoint.step);
        let step_counter = StepCounter::after(self.spec.step, resumed);
        let follows = assignment.node.as_ref().is_some_and(|node| !node.leads());
        let patterns = self.patterns.clone().filter(|_| !follows);
        let printed = patterns.map(|patterns| PrintedMetrics::new(patterns, step_counter.last));
        let files = self.metric_files(assignment, &cwd, step_counter).filter(|_| !follows);
        let expected = Expected {
            trial: assignment.trial,
            attempt: assignment.attempt,
            cwd,
            step_counter,
            is_resumed: assignment.resume.is_some(),
            metric: self.spec.objective().metric.clone(),
            reported: Arc::clone(&self.reported),
            printed: printed.map(|printed| [printed.clone(), printed]),
            per_device: self.spec.devices.per_device && self.is_supervised() || follows,
        };
        (expected, files)
    }

    /// The metric files of the attempt's command.
    fn metric_files(
        &self,
        of: &Assignment,
        cwd: &Path,
        step_counter: StepCounter,
    ) -> Option<MetricFiles> {
        let directory = self.files.trial(of.trial);
        let (number, seed) = (of.trial, of.seed);
        let trial = TrialValues { number, directory: &directory, seed, group: None };
        let (space, params) = (&self.spec.space, &of.params);
        MetricFiles::new(
            self.spec.program.metric_sources()?,
            Owner { space, params, trial, cwd, step_counter },
        )
    }
}

impl Launcher for ProcessLauncher {
    fn log_to(&mut self, points: Arc<PointQueue>) {
        self.points = points;
    }

    fn launch(
        &mut self,
        assignment: &Assignment,
        inputs: &Sender<Input>,
    ) -> Result<Box<dyn Job>, LaunchError> {
        if let Some(SourceFile { path, .. }) = self.known.changed() {
            return Err(LaunchError::Refused(format!(
                "`{path}` has changed since this run began, and trials of both versions could not \
                 be compared: restore it, or stop and run with `--fork NAME`"
            )));
        }
        if let Some(why) = self.registrar.gone() {
            return Err(LaunchError::Refused(why));
        }
        let directory = self.files.trial(assignment.trial);
        std::fs::create_dir_all(&directory)
            .map_err(LaunchError::refused(&format!("make `{}`", directory.display())))?;
        let node = self.node_of(assignment)?;
        if assignment.node.as_ref().is_none_or(GroupNode::leads) {
            // The lines of the attempts before have been read.
            clear_files_of_lines(&directory.join(CHECKPOINTS));
        }
        let log = match assignment.node.as_ref().filter(|node| !node.leads()) {
            Some(node) => self.files.log_of_node(assignment.trial, assignment.attempt, node.rank),
            None => self.files.log(assignment.trial, assignment.attempt),
        };
        let message = self.message(assignment, directory, node.as_ref())?;
        self.ready_worker(&assignment.slot, node.as_ref(), inputs)?;
        let (expected, files) = self.expected(assignment);
        let supervised = self.is_supervised();
        let index = assignment.slot.index;
        let worker = self.workers.get_mut(&index).expect("each slot of an attempt has a worker");
        worker.trials += 1;
        worker
            .listening
            .expect_trial(expected, files, &log)
            .map_err(LaunchError::refused(&format!("begin `{}`", log.display())))?;
        let (trial, attempt) = (assignment.trial, assignment.attempt);
        let pid = worker.pid;
        let pid_started = processes::start_time(pid).unwrap_or(0);
        let _runner_gone = inputs.send(Input::Launched { trial, attempt, pid, pid_started });
        if let Some(SourceFile { path, digest, .. }) = self.known.changed_program() {
            let now = match &digest {
                Some(digest) => format!(" (now {})", &digest[..digest.len().min(12)]),
                None => String::new(),
            };
            let why = format!("`{path}` has changed since this run began{now}");
            let remark = Remark::new(RemarkKind::ChangedProgram, why);
            let _runner_gone = inputs.send(Input::Remark { trial, attempt, remark });
        }
        worker.stdin.line(&message);
        let stdin = Arc::clone(&worker.stdin);
        Ok(Box::new(ProcessJob { pid, pid_started, stdin, supervised }))
    }

    /// Kills the orphans of a killed supervisor, which belong to this process (a subreaper).
    fn sweep(&mut self) {
        // A dead child stays listed until its listener has waited for it: nothing else may take its
        // exit status.
        self.pids.retain(|pid| processes::exists(*pid));
        processes::kill_descendants(std::process::id(), &self.pids, Duration::from_secs(2));
    }

    /// Processes left by a killed supervisor hold its streams open, which would hide its end.
    fn look_after(&mut self) {
        if self.workers.values().any(|worker| worker.listening.is_outlived()) {
            self.sweep();
        }
    }

    /// A worker exits when its stdin is closed.
    fn vacate(&mut self, slot: usize) {
        if let Some(worker) = self.workers.remove(&slot) {
            worker.stdin.close();
        }
    }

    fn rest(&mut self) {
        if !self.workers.is_empty() {
            self.shut_down();
        }
    }

    fn shut_down(&mut self) {
        self.workers.values().for_each(|worker| worker.stdin.close());
        let until = Instant::now() + SHUT_DOWN_PATIENCE;
        while self.workers.values().any(|worker| !worker.listening.is_over()) {
            if Instant::now() >= until {
                self.workers.values().for_each(|worker| processes::kill(worker.pid));
            }
            self.look_after();
            std::thread::sleep(Duration::from_millis(2));
        }
        self.workers.clear();
        if let Some(watchdog) = self.watchdog.take() {
            watchdog.end();
        }
        self.pids.clear();
    }
}
