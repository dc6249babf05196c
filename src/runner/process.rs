//! Trials as child processes: long-lived workers for the built-in trainer, one supervisor per
//! attempt for commands.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::{self, Write};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crossbeam_channel::{Sender, unbounded};

use super::copies::Copies;
use super::launcher::{Job, LaunchError, Launcher};
use super::listener::{Expected, Listener, Listening};
use super::metric_files::{MetricFiles, Owner};
use super::point_queue::PointQueue;
use super::registration::Registrar;
use super::slot_environment::{
    Ports, RANKS, driver_cache, group_environment, inside, is_free, single_node, slot_environment,
};
use super::threads;
use super::watchdog::Watchdog;
use crate::arguments::monitored;
use crate::config::command_line;
use crate::config::trial_values::{GroupValues, TrialValues};
use crate::engine::{Assignment, GroupNode, Input};
use crate::pruners;
use crate::runner::inputs::KnownInputs;
use crate::runner::processes;
use crate::runner::protocol::{
    self, Cloned, CommandJob, LONGEST_LINE, MessageToTrial, StepCounter, TrainJob, TrialJob,
};
use crate::storage::paths::{self, StudyFiles};
use crate::study::decision::Decision;
use crate::study::device::{DeviceGroup, Slot};
use crate::study::params::Params;
use crate::study::printed_metrics::{Patterns, PrintedMetrics};
use crate::study::program::Program;
use crate::study::spec::StudySpec;
use crate::study::step::StepUnit;

/// A worker of the built-in trainer is replaced after this many trials.
const TRIALS_PER_WORKER: u32 = 200;

/// A child that leaves this many lines unread is stopped, and is killed: a running one always
/// reads.
const UNREAD: usize = 1 << 18;

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
    is_of_agent: bool,
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

/// A child process.
struct Worker {
    pid: u32,
    stdin: Arc<Pipe>,
    listening: Listening,
    trials: u32,
    /// The devices that it sees: an agent's next runner may number slots in another way.
    devices: DeviceGroup,
}

/// Writes to a child's stdin, shared with its job. A separate thread writes, since a stopped child
/// does not read and must not block the runner. A lock, since closing removes the sender from both.
struct Pipe {
    lines: Mutex<Option<Sender<String>>>,
    pid: u32,
}

impl Pipe {
    fn start(mut stream: UnixStream, pid: u32) -> io::Result<Self> {
        let (lines, heard) = unbounded::<String>();
        threads::spawn("worker stdin", move || {
            for line in heard {
                // A dead child does not matter here: its end arrives as an input.
                if stream.write_all(format!("{line}\n").as_bytes()).is_err() {
                    return;
                }
            }
            let _gone_already = stream.shutdown(Shutdown::Write);
        })?;
        Ok(Pipe { lines: Mutex::new(Some(lines)), pid })
    }

    fn line(&self, text: &str) {
        let Ok(guard) = self.lines.lock() else { return };
        let Some(lines) = guard.as_ref() else { return };
        let _child_gone = lines.send(text.to_owned());
        if lines.len() > UNREAD {
            processes::kill(self.pid);
        }
    }

    fn down(&self, message: &MessageToTrial) {
        self.line(&text(message));
    }

    fn close(&self) {
        if let Ok(mut guard) = self.lines.lock() {
            *guard = None;
        }
    }
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
            is_of_agent: false,
            known: KnownInputs::default(),
        }
    }

    /// The same with what its trials read: while that is not what it was, none is started.
    #[must_use]
    pub fn with_inputs(self, known: KnownInputs) -> Self {
        ProcessLauncher { known, ..self }
    }

    /// The same for an agent, whose scheduler may send signals to all its processes.
    #[must_use]
    pub fn of_agent(self) -> Self {
        ProcessLauncher { is_of_agent: true, ..self }
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

    fn start_worker(
        &mut self,
        slot: &Slot,
        node: Option<&GroupNode>,
        inputs: &Sender<Input>,
    ) -> Result<Worker, LaunchError> {
        let mut command = Command::new(&self.program);
        if self.watchdog.is_none() {
            self.watchdog = Watchdog::start(&self.program, &self.run);
            self.pids.extend(self.watchdog.as_ref().map(Watchdog::pid));
        }
        // A socket instead of a pipe: a supervisor reports its command's end on it, out of the
        // command's reach.
        let (stream, its_stdin) =
            UnixStream::pair().map_err(LaunchError::refused("make a socket"))?;
        let aside = stream.try_clone().map_err(LaunchError::refused("make a socket"))?;
        command
            .arg0("hpsearch")
            .arg("worker")
            .stdin(Stdio::from(OwnedFd::from(its_stdin)))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .env("HPSEARCH_STORE", &self.store)
            .env("HPSEARCH_STUDY", &self.spec.name)
            .env(protocol::RUN, &self.run);
        match self.launch_mode {
            LaunchMode::Slots => {
                command.envs(slot_environment(slot, self.spec.devices.cpu_threads))
            }
            LaunchMode::Foreground => command.env("PYTHONUNBUFFERED", "1"),
        };
        if let Program::Trainer { .. } = self.spec.program {
            command.envs(driver_cache());
        }
        if let Some(node) = node {
            command.envs(group_environment(&slot.devices, node));
            for rank in RANKS {
                command.env_remove(rank);
            }
        }
        match self.is_of_agent {
            true => command.env(protocol::OF_AGENT, "1"),
            false => command.env_remove(protocol::OF_AGENT),
        };
        match self.watchdog.as_ref().and_then(Watchdog::group) {
            Some(group) => command.env(protocol::RUN_GROUP, group),
            None => command.env_remove(protocol::RUN_GROUP),
        };
        let program = self.program.display();
        let child = command
            .spawn()
            .map_err(LaunchError::refused(&format!("start the worker `{program}`")))?;
        let pid = child.id();
        drop(command);
        let single = !matches!(self.spec.program, Program::Trainer { .. });
        let listener = Listener {
            single,
            is_shown: self.launch_mode == LaunchMode::Foreground,
            inputs: inputs.clone(),
            registrar: Arc::clone(&self.registrar),
            points: Arc::clone(&self.points),
        };
        let listening =
            listener.listen(child, aside).map_err(LaunchError::refused("listen to a worker"))?;
        self.pids.insert(pid);
        let stdin = Pipe::start(stream, pid)
            .inspect_err(|_| processes::kill(pid))
            .map_err(LaunchError::refused("start a thread for a worker"))?;
        let devices = slot.devices.clone();
        Ok(Worker { pid, stdin: Arc::new(stdin), listening, trials: 0, devices })
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

    fn message(
        &self,
        assignment: &Assignment,
        directory: PathBuf,
        node: Option<&GroupNode>,
    ) -> Result<MessageToTrial, LaunchError> {
        let mut trial = TrialJob {
            study: self.spec.name.clone(),
            trial: assignment.trial,
            attempt: assignment.attempt,
            params: assignment.params.clone(),
            device: inside(assignment.slot.devices.first()),
            seed: assignment.seed,
            cpu_threads: self.spec.devices.cpu_threads,
            directory,
            resume: assignment.resume.as_ref().map(|checkpoint| checkpoint.path.clone()),
            cloned: assignment.cloned_from.map(|from| Cloned {
                from,
                digest: assignment.resume.as_ref().and_then(|saved| saved.digest.clone()),
            }),
            objectives: self.spec.objective_names(),
            store: self.store.clone(),
        };
        let job = match &self.spec.program {
            Program::Trainer { arguments, data } => {
                let mut arguments = arguments.clone();
                if let (true, Some(until)) = (assignment.past_its_end, assignment.until) {
                    lengthen(&mut arguments, &mut trial.params, self.spec.step, until);
                }
                protocol::Job::Train(TrainJob {
                    is_watched: false,
                    trial,
                    arguments,
                    data: data.clone(),
                    cache: self.cache.clone(),
                    monitored: monitored(&self.spec.objectives)
                        .unwrap_or(self.spec.objective())
                        .clone(),
                    step_unit: self.spec.step,
                    milestones: assignment.milestones.clone(),
                    rows_at_once: assignment.rows_at_once,
                    until: assignment.until,
                    reported: assignment.reported,
                })
            }
            Program::Command { run, cwd, env, args, .. } => {
                let values = TrialValues {
                    number: trial.trial,
                    directory: &trial.directory,
                    seed: trial.seed,
                    group: node.map(|node| GroupValues {
                        world_size: node.world_size,
                        master_addr: &node.address,
                        master_port: node.port,
                        nodes: node.nodes,
                        node_rank: node.rank,
                    }),
                };
                let is_tracked = self.launch_mode == LaunchMode::Foreground;
                let run = if is_tracked {
                    run.clone()
                } else {
                    let (space, params) = (&self.spec.space, &assignment.params);
                    command_line::words(run, *args, space, params, Some(values))
                };
                let (cwd, devices) = (cwd.clone(), assignment.slot.devices.clone());
                let env = env.iter().map(|(name, value)| {
                    Ok((name.clone(), value.get().ok_or_else(|| unknown_value(name))?.to_owned()))
                });
                let (env, until) = (env.collect::<Result<_, LaunchError>>()?, assignment.until);
                protocol::Job::Command(CommandJob {
                    trial,
                    run,
                    cwd,
                    env,
                    devices,
                    per_device: self.spec.devices.per_device,
                    node: assignment.node.clone(),
                    until,
                    is_tracked,
                })
            }
            Program::Inline => {
                return Err(LaunchError::Impossible(
                    "this study's objective is a Rust closure: run it from its own program"
                        .to_owned(),
                ));
            }
        };
        Ok(MessageToTrial::Job(Box::new(job)))
    }
}

impl ProcessLauncher {
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

fn text(message: &MessageToTrial) -> String {
    serde_json::to_string(message).expect("a message to a worker has only string keys")
}

/// Values are only in the study file.
fn unknown_value(name: &str) -> LaunchError {
    LaunchError::Impossible(format!(
        "the value of the variable `{name}` is not stored: run the study from its file"
    ))
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
        if let Some(path) = self.known.changed() {
            return Err(LaunchError::Refused(format!(
                "`{path}` is not what it was when this run began, and trials of both could not be \
                 compared: restore it, or stop and run with `--fork NAME`"
            )));
        }
        if let Some(why) = self.registrar.gone() {
            return Err(LaunchError::Refused(why));
        }
        let directory = self.files.trial(assignment.trial);
        std::fs::create_dir_all(&directory)
            .map_err(LaunchError::refused(&format!("make `{}`", directory.display())))?;
        let node = self.node_of(assignment)?;
        let follows = assignment.node.as_ref().filter(|node| !node.leads());
        let log = match follows {
            Some(node) => self.files.log_of_node(assignment.trial, assignment.attempt, node.rank),
            None => self.files.log(assignment.trial, assignment.attempt),
        };
        let message = text(&self.message(assignment, directory, node.as_ref())?);
        if message.len() >= LONGEST_LINE {
            return Err(LaunchError::Impossible(format!(
                "its command and configuration take {} bytes, and {LONGEST_LINE} are too many",
                message.len()
            )));
        }
        let index = assignment.slot.index;
        let single = !matches!(self.spec.program, Program::Trainer { .. });
        let reusable = self.workers.get(&index).is_some_and(|worker| {
            !single
                && worker.trials < TRIALS_PER_WORKER
                && worker.devices == assignment.slot.devices
                && worker.listening.is_reusable()
        });
        if !reusable {
            if let Some(old) = self.workers.remove(&index) {
                old.stdin.close();
            }
            let worker = self.start_worker(&assignment.slot, node.as_ref(), inputs)?;
            self.workers.insert(index, worker);
        }
        let cwd = match &self.spec.program {
            Program::Command { cwd, .. } => cwd.clone(),
            _ => PathBuf::new(),
        };
        let step_counter = StepCounter {
            unit: self.spec.step,
            last: assignment.resume.as_ref().map_or(0, |checkpoint| checkpoint.step),
        };
        let (trial, attempt) = (assignment.trial, assignment.attempt);
        let metric = self.spec.objective().metric.clone();
        let reported = Arc::clone(&self.reported);
        let patterns = self.patterns.clone().filter(|_| follows.is_none());
        let printed = patterns.map(|patterns| PrintedMetrics::new(patterns, step_counter.last));
        let printed = printed.map(|printed| [printed.clone(), printed]);
        let per_device = self.spec.devices.per_device && single || follows.is_some();
        let files = self.metric_files(assignment, &cwd, step_counter).filter(|_| follows.is_none());
        let worker = self.workers.get_mut(&index).expect("put there a few lines above");
        worker.trials += 1;
        worker
            .listening
            .expect_trial(
                Expected {
                    trial,
                    attempt,
                    cwd,
                    step_counter,
                    metric,
                    reported,
                    printed,
                    per_device,
                },
                files,
                &log,
            )
            .map_err(LaunchError::refused(&format!("begin `{}`", log.display())))?;
        let pid_started = processes::start_time(worker.pid).unwrap_or(0);
        let pid = worker.pid;
        let _runner_gone = inputs.send(Input::Launched { trial, attempt, pid, pid_started });
        worker.stdin.line(&message);
        let stdin = Arc::clone(&worker.stdin);
        Ok(Box::new(ProcessJob { pid, pid_started, stdin, supervised: single }))
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

/// A running attempt in a process.
struct ProcessJob {
    pid: u32,
    pid_started: u64,
    stdin: Arc<Pipe>,
    supervised: bool,
}

impl Job for ProcessJob {
    fn answer(&mut self, verdict: &Decision) {
        self.stdin.line(&protocol::verdict_line(verdict));
    }

    fn leave(&mut self) {
        self.stdin.down(&MessageToTrial::Leave);
    }

    fn signal(&mut self, number: i32) {
        self.stdin.down(&MessageToTrial::Signal { number });
    }

    /// A stopped child would not read this, nor a request to exit.
    fn examine(&mut self) {
        if processes::is_stopped(self.pid) {
            processes::resume(self.pid);
        }
        self.stdin.down(&MessageToTrial::Examine);
    }

    fn kill(&mut self) {
        if !self.supervised {
            processes::kill(self.pid);
            return;
        }
        self.stdin.down(&MessageToTrial::Kill);
        // A supervisor that does not answer (stopped, swapped out) is killed itself; its orphans
        // are swept.
        let (pid, started) = (self.pid, self.pid_started);
        let waiting = threads::spawn("kill", move || {
            std::thread::sleep(Duration::from_secs(2));
            if processes::is_alive(pid, started) {
                processes::kill(pid);
            }
        });
        if waiting.is_err() {
            processes::kill(pid);
        }
    }

    /// The trainer waits for the answer, and its last checkpoint is older than the report; a
    /// command need not wait.
    fn give_up(&mut self) {
        if !self.supervised {
            processes::kill(self.pid);
        }
    }
}

/// Extends a built-in trial to `until`, whatever its arguments or parameters say. Its learning rate
/// then follows the schedule of the longer trial.
fn lengthen(
    arguments: &mut BTreeMap<String, serde_json::Value>,
    params: &mut Params,
    step_unit: StepUnit,
    until: u64,
) {
    const EPOCHS: &str = "num_train_epochs";
    const STEPS: &str = "max_steps";
    for key in [EPOCHS, STEPS] {
        arguments.remove(key);
        let _not_searched = params.remove(key);
    }
    let key = if step_unit == StepUnit::Step { STEPS } else { EPOCHS };
    arguments.insert(key.to_owned(), until.into());
}

/// The executable of this process itself, even if it was replaced or removed since (a study runs
/// for days, and users upgrade meanwhile).
pub fn own_program() -> PathBuf {
    PathBuf::from("/proc/self/exe")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runner::fixtures;

    #[test]
    fn a_worker_that_is_gone_before_its_trial_is_expected_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let (inputs, _heard) = unbounded();
        let files = StudyFiles::of(&fixtures::spec(Program::Inline), None, directory.path());
        let registrar = Arc::new(Registrar::new(files, Vec::new(), None));
        let mut command = Command::new("true");
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (_stream, aside) = UnixStream::pair().unwrap();
        let points = Arc::default();
        let listener = Listener { single: false, is_shown: false, inputs, registrar, points };
        let listening = listener.listen(child, aside).unwrap();
        while !listening.is_over() {
            std::thread::yield_now();
        }
        let expected = Expected {
            trial: fixtures::TRIAL,
            attempt: fixtures::ATTEMPT,
            cwd: PathBuf::new(),
            step_counter: StepCounter { unit: StepUnit::Step, last: 0 },
            metric: "loss".to_owned(),
            reported: Arc::new(["loss".to_owned()]),
            printed: None,
            per_device: false,
        };
        assert!(listening.expect_trial(expected, None, &directory.path().join("log")).is_err());
    }

    #[test]
    fn a_longer_trial_has_one_length_whatever_said_it_before() {
        let said = [("max_steps", 40), ("seed", 1)].map(|(key, value)| (key.into(), value.into()));
        let (mut arguments, mut params) = (BTreeMap::from(said), Params::new());
        params.insert("num_train_epochs", 3i64);
        lengthen(&mut arguments, &mut params, StepUnit::Epoch, 9);
        assert_eq!(
            serde_json::json!(arguments),
            serde_json::json!({"num_train_epochs":9,"seed":1})
        );
        assert!(params.is_empty());
        lengthen(&mut arguments, &mut params, StepUnit::Step, 70);
        assert_eq!(serde_json::json!(arguments), serde_json::json!({"max_steps":70,"seed":1}));
    }
}
