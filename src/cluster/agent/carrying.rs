//! The files of an agent that shares no directory with its runner: what its trials write travels
//! there, and what they need comes from there.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, unbounded};
use rustix::fs::FlockOperation;
use serde_json::Value as Json;

use crate::cluster::cache_directory;
use crate::cluster::message::{AttemptOf, ToRunner, TrainerInput, bytes};
use crate::cluster::outbox::Outbox;
use crate::cluster::transfer::{
    Blob, Carried, ENOUGH, Location, Sending, checked, complete, digest, take_piece,
};
use crate::engine::{Assignment, GroupNode, Input};
use crate::runner::removal::inside;
use crate::runner::{disk, threads};
use crate::storage::paths::{self, StudyFiles};
use crate::study::event::{RecordEvent, TrialEvent};
use crate::study::params::{Params, Value};
use crate::study::program::Program;
use crate::study::remark::{Remark, RemarkKind};
use crate::study::spec::StudySpec;
use crate::study::trial::{AttemptNumber, TrialNumber};

/// Interval between looks at logs.
const LOG_INTERVAL: Duration = Duration::from_millis(500);

/// Interval at which attempts whose inputs wait are said to live.
const HEARD_INTERVAL: Duration = Duration::from_secs(5);

/// Bytes of a log that are sent at a time.
const LOG_PIECE: usize = 256 << 10;

/// Age at which what was read last so long ago is removed.
const OLD: Duration = Duration::from_secs(14 * 86_400);

/// Suffix of the file that is locked while an agent's directory is in use.
const LOCK: &str = "lock";

/// What travels between an agent and its runner.
#[derive(Debug)]
pub(super) struct Carrying {
    files: StudyFiles,
    lock: PathBuf,
    _locked: File,
    /// Inputs that wait for files, and those of their trials that came later.
    queue: VecDeque<Outgoing>,
    /// Bytes of the logs of running attempts that were sent.
    logs: BTreeMap<AttemptOf, u64>,
    looked: Instant,
    artifacts: BTreeSet<PathBuf>,
    /// The last attempt of each trial here: what it left is as the runner knows it.
    last: BTreeMap<TrialNumber, AttemptNumber>,
    /// Attempts that wait for their checkpoint.
    waiting: Vec<(Location, Assignment)>,
    /// What was asked for, and has not arrived.
    fetching: BTreeSet<Location>,
    /// What pieces of it could not be written.
    unwritten: BTreeMap<Location, String>,
    /// What threads have done.
    done: (Sender<Done>, Receiver<Done>),
    /// When waiting attempts were last said to live.
    heard: Instant,
    /// Where inputs of the trainer are here, by their paths on the runner's machine.
    inputs: BTreeMap<PathBuf, PathBuf>,
    /// Inputs that are not here yet.
    missing: BTreeMap<Location, PathBuf>,
    /// The trainer's inputs are asked for, and not all here.
    is_waiting_for_inputs: bool,
    /// Whether the missing ones are known.
    is_listed: bool,
}

/// What a thread has done: large files take longer than a runner waits for an answer.
#[derive(Debug)]
enum Done {
    /// Inputs with their places, and whether they are here.
    Listed(Vec<(Location, PathBuf, bool)>),
    /// Something is in its place, or cannot be.
    Settled(Location, io::Result<()>),
}

/// An input, and what has to be sent before.
#[derive(Debug)]
struct Outgoing {
    attempt: AttemptOf,
    files: VecDeque<Sending>,
    /// Whether the log is sent to its end.
    with_log: bool,
    input: Input,
}

impl Outgoing {
    /// Its files do not arrive: that is said in place of its input.
    fn lose(&mut self, why: &str) {
        let (kind, what) = match &self.input {
            Input::Checkpoint { path, .. } => (RemarkKind::Checkpoint, path.display().to_string()),
            Input::Recorded {
                event: TrialEvent::Record(RecordEvent::ArtifactSaved { artifact, .. }),
                ..
            } => (RemarkKind::Artifact, artifact.name.clone()),
            _ => return,
        };
        let remark = Remark::new(kind, format!("`{what}` was not sent to the runner: {why}"));
        let (trial, attempt) = self.attempt;
        self.input = Input::Remark { trial, attempt, remark };
    }
}

/// What an arrival allows.
pub(super) enum Arrived {
    /// Nothing yet.
    Nothing,
    /// Attempts whose checkpoint is here, or is nowhere.
    Checkpoint(Vec<Assignment>),
    /// The trainer's inputs.
    Inputs,
    /// It cannot be stored here, so that these attempts cannot start.
    Failed {
        why: String,
        attempts: Vec<AttemptOf>,
        /// Whether no trial can run without it.
        is_input: bool,
    },
}

impl Carrying {
    /// A directory of its own for the agent of this session; those that killed agents left are
    /// removed.
    pub fn begin(session: &str) -> io::Result<(Self, PathBuf)> {
        let root = cache_directory()?.join("files");
        fs::create_dir_all(&root)?;
        clean(&root);
        let name = paths::component(session);
        let lock = root.join(format!("{name}.{LOCK}"));
        let locked = locked_file(&lock)?;
        let files = StudyFiles::below(&root, &name);
        fs::create_dir_all(files.directory())?;
        let carrying = Carrying {
            files,
            lock,
            _locked: locked,
            queue: VecDeque::new(),
            logs: BTreeMap::new(),
            looked: Instant::now(),
            artifacts: BTreeSet::new(),
            last: BTreeMap::new(),
            waiting: Vec::new(),
            fetching: BTreeSet::new(),
            unwritten: BTreeMap::new(),
            done: unbounded(),
            heard: Instant::now(),
            inputs: BTreeMap::new(),
            missing: BTreeMap::new(),
            is_waiting_for_inputs: false,
            is_listed: false,
        };
        Ok((carrying, root))
    }

    pub fn files(&self) -> &StudyFiles {
        &self.files
    }

    /// Whether nothing waits to be sent.
    pub fn is_done(&self) -> bool {
        self.queue.is_empty()
    }

    /// Removes the agent's directory.
    pub fn end(self) {
        let _removed_by_the_next_agent = disk::remove(&self.files.directory());
        let _removed_by_the_next_agent = fs::remove_file(&self.lock);
    }

    /// An input of the engine, which is returned if it may be sent at once.
    pub fn hear(&mut self, input: Input) -> Option<Input> {
        let Some(attempt) = input.attempt() else { return Some(input) };
        let (files, input) = self.needed(attempt.0, input);
        let with_log = matches!(input, Input::Ended { .. }) && self.logs.contains_key(&attempt);
        let waits = self.queue.iter().any(|other| other.attempt == attempt);
        if files.is_empty() && !with_log && !waits {
            return Some(input);
        }
        self.queue.push_back(Outgoing { attempt, files, with_log, input });
        None
    }

    /// What has to be sent before an input, or what is said instead of it.
    fn needed(&mut self, trial: TrialNumber, input: Input) -> (VecDeque<Sending>, Input) {
        match &input {
            Input::Checkpoint { attempt, path, .. } => {
                let is_inside = inside(&self.files, trial, path).is_some();
                let below = path.strip_prefix(self.files.directory()).ok();
                let Some(below) = below.filter(|_| is_inside) else {
                    // Outside: the user's own.
                    return (VecDeque::new(), input);
                };
                match Sending::new(Location::Study(below.to_owned()), path) {
                    Ok(sending) => (VecDeque::from([sending]), input),
                    Err(error) => {
                        let remark = unread(path, &error);
                        let attempt = *attempt;
                        (VecDeque::new(), Input::Remark { trial, attempt, remark })
                    }
                }
            }
            Input::Recorded {
                event: TrialEvent::Record(RecordEvent::ArtifactSaved { .. }),
                ..
            } => {
                let directory = self.files.artifacts(trial);
                let new = disk::entries(&directory).filter(|path| {
                    disk::name_of(path).is_some_and(|name| !name.starts_with('.'))
                        && self.artifacts.insert(path.clone())
                });
                let below = |path: PathBuf| {
                    let below = path.strip_prefix(self.files.directory()).ok()?.to_owned();
                    Sending::new(Location::Study(below), &path).ok()
                };
                (new.collect::<Vec<_>>().into_iter().filter_map(below).collect(), input)
            }
            Input::Begin { .. }
            | Input::Launched { .. }
            | Input::Report { .. }
            | Input::Heard { .. }
            | Input::Remark { .. }
            | Input::Recorded { .. }
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
            | Input::Tick => (VecDeque::new(), input),
        }
    }

    /// Sends the next pieces of files and logs, as long as few are on their way; returns inputs
    /// whose files are sent.
    pub fn send(&mut self, outbox: &mut Outbox) -> Vec<Input> {
        let mut ready = Vec::new();
        while outbox.bytes() < ENOUGH
            && let Some(mut outgoing) = self.queue.pop_front()
        {
            if let Some(sending) = outgoing.files.front_mut() {
                match sending.next_message() {
                    Ok(Some(message)) => put(outbox, &ToRunner::Carried(message)),
                    Ok(None) => drop(outgoing.files.pop_front()),
                    Err(error) => {
                        self.artifacts.remove(sending.path());
                        outgoing.lose(&error.to_string());
                        outgoing.files.pop_front();
                    }
                }
                self.queue.push_front(outgoing);
            } else if outgoing.with_log && self.send_log(outgoing.attempt, outbox) {
                self.queue.push_front(outgoing);
            } else {
                if outgoing.with_log {
                    self.logs.remove(&outgoing.attempt);
                }
                ready.push(outgoing.input);
            }
        }
        if self.looked.elapsed() >= LOG_INTERVAL {
            self.looked = Instant::now();
            for attempt in self.logs.keys().copied().collect::<Vec<_>>() {
                while outbox.bytes() < ENOUGH && self.send_log(attempt, outbox) {}
            }
        }
        ready
    }

    /// Attempts whose inputs wait: they are alive, and cannot say it.
    pub fn waiting_to_be_heard(&mut self) -> Vec<AttemptOf> {
        if self.heard.elapsed() < HEARD_INTERVAL {
            return Vec::new();
        }
        self.heard = Instant::now();
        let mut attempts: Vec<AttemptOf> =
            self.queue.iter().map(|outgoing| outgoing.attempt).collect();
        attempts.sort();
        attempts.dedup();
        attempts
    }

    /// An attempt is killed: its files are not sent.
    pub fn kill(&mut self, attempt: AttemptOf) {
        let own = self.queue.iter_mut().filter(|outgoing| outgoing.attempt == attempt);
        for outgoing in own.filter(|outgoing| !outgoing.files.is_empty()) {
            for sending in outgoing.files.drain(..) {
                self.artifacts.remove(sending.path());
            }
            outgoing.lose("its trial was killed");
        }
    }

    /// Sends what was added to a log; whether there was anything.
    fn send_log(&mut self, (trial, attempt): AttemptOf, outbox: &mut Outbox) -> bool {
        let Some(offset) = self.logs.get_mut(&(trial, attempt)) else { return false };
        let mut bytes = vec![0; LOG_PIECE];
        let read = File::open(self.files.log(trial, attempt))
            .and_then(|log| log.read_at(&mut bytes, *offset));
        let Ok(length @ 1..) = read else { return false };
        bytes.truncate(length);
        let at = *offset;
        *offset += length as u64;
        put(outbox, &ToRunner::Log { trial, attempt, offset: at, bytes: Blob(bytes) });
        true
    }

    /// Prepares an attempt: it is returned if it can start now; else what has to be asked for, if
    /// that is not under way.
    pub fn launch(&mut self, assignment: Assignment) -> Result<Assignment, Option<Location>> {
        let (trial, attempt) = (assignment.trial, assignment.attempt);
        // What a node that is led by another one leaves is not what the runner knows.
        let leads = assignment.node.as_ref().is_none_or(GroupNode::leads);
        let before = self.last.remove(&trial).filter(|_| leads);
        if leads {
            self.last.insert(trial, attempt);
        }
        let ran_here = before.is_some_and(|before| before.0 + 1 == attempt.0);
        let mut assignment = assignment;
        rewrite_params(&self.inputs, &mut assignment.params);
        let below = assignment.resume.as_ref().map(|checkpoint| checkpoint.path.clone());
        let Some(below) = below.filter(|path| path.is_relative()) else { return Ok(assignment) };
        let path = self.files.directory().join(&below);
        if ran_here && path.exists() {
            return Ok(assignment);
        }
        if inside(&self.files, trial, &path).is_some() {
            let _none_there = disk::remove(&path);
        }
        let location = Location::Study(below);
        self.waiting.push((location.clone(), assignment));
        Err(self.fetching.insert(location.clone()).then_some(location))
    }

    /// An attempt starts: its log will be sent.
    pub fn started(&mut self, attempt: AttemptOf) {
        self.logs.insert(attempt, 0);
    }

    /// Removes an attempt that waits for its checkpoint, unless it is one to `keep`.
    pub fn drop_waiting(&mut self, keep: impl Fn(AttemptOf) -> bool) -> Vec<AttemptOf> {
        let of = |assignment: &Assignment| (assignment.trial, assignment.attempt);
        let dropped = self.waiting.extract_if(.., |(_, assignment)| !keep(of(assignment)));
        dropped.map(|(_, assignment)| of(&assignment)).collect()
    }

    /// What a new runner has to be asked for.
    pub fn requests(&mut self) -> Vec<ToRunner> {
        self.fetching = self.waiting.iter().map(|(location, _)| location.clone()).collect();
        let fetched = self.fetching.iter().cloned().map(ToRunner::Fetch);
        let inputs = self.is_waiting_for_inputs.then_some(ToRunner::ListInputs);
        inputs.into_iter().chain(fetched).collect()
    }

    /// The study's trainer reads files, which may be others than those of an earlier runner.
    pub fn ask_for_inputs(&mut self) {
        (self.is_waiting_for_inputs, self.is_listed) = (true, false);
    }

    /// The list of the trainer's inputs: which of them are here is found out on a thread.
    ///
    /// # Errors
    /// There is no thread for it.
    pub fn list(&mut self, inputs: Vec<TrainerInput>) -> io::Result<()> {
        self.inputs.clear();
        let mut places = Vec::new();
        for TrainerInput { of, digest: wanted } in inputs {
            let target = match &of {
                Location::Input(path) => {
                    let name = path.file_name().unwrap_or(path.as_os_str());
                    let target = self.files.root().join("inputs").join(&wanted).join(name);
                    self.inputs.insert(path.clone(), target.clone());
                    target
                }
                Location::Prepared(_) | Location::Study(_) => self.target(&of)?,
            };
            places.push((of, target, wanted));
        }
        let done = self.done.0.clone();
        let look = move || {
            let is_here = |(of, target, wanted): (Location, PathBuf, String)| {
                let is_here = match &of {
                    // It is put there once it is complete, and trials mark that they use it.
                    Location::Prepared(_) => target.is_dir(),
                    _ => digest(&target).is_ok_and(|found| found == wanted),
                };
                if is_here {
                    touch(&target);
                    target.parent().into_iter().for_each(touch);
                }
                (of, target, is_here)
            };
            let _agent_ended = done.send(Done::Listed(places.into_iter().map(is_here).collect()));
        };
        threads::spawn("inputs", look).map(drop)
    }

    /// What threads have done since the last call.
    pub fn arrived(&mut self) -> (Vec<ToRunner>, Vec<Arrived>) {
        let (mut requests, mut arrived) = (Vec::new(), Vec::new());
        while let Ok(done) = self.done.1.try_recv() {
            match done {
                Done::Listed(inputs) => {
                    self.missing = inputs
                        .into_iter()
                        .filter(|(.., is_here)| !is_here)
                        .map(|(of, target, _)| (of, target))
                        .collect();
                    self.is_listed = true;
                    requests.extend(self.missing.keys().cloned().map(ToRunner::Fetch));
                    if self.has_inputs() {
                        arrived.push(Arrived::Inputs);
                    }
                }
                Done::Settled(of, result) => arrived.push(self.settled(&of, result)),
            }
        }
        (requests, arrived)
    }

    /// Whether the trainer's inputs are all here, which is said once.
    fn has_inputs(&mut self) -> bool {
        let has = self.is_waiting_for_inputs && self.is_listed && self.missing.is_empty();
        self.is_waiting_for_inputs &= !has;
        has
    }

    /// Where something is here.
    fn target(&self, of: &Location) -> io::Result<PathBuf> {
        match of {
            Location::Study(below) => Ok(self.files.directory().join(checked(below)?)),
            Location::Prepared(name) => {
                Ok(self.files.root().join(paths::DATA_CACHE).join(checked(name)?))
            }
            Location::Input(path) => match self.missing.get(of).or(self.inputs.get(path)) {
                Some(target) => Ok(target.clone()),
                None => Err(io::Error::new(io::ErrorKind::InvalidData, "nobody asked for it")),
            },
        }
    }

    /// Takes in what the runner sends; what is complete is put in its place on a thread.
    pub fn arrive(&mut self, message: Carried) -> Arrived {
        match message {
            Carried::Piece { of, file, offset, bytes } => {
                let by = self.receiver(&of);
                let target = self.target(&of);
                let written =
                    target.and_then(|target| take_piece((&target, &by), &file, offset, &bytes.0));
                if let Err(error) = written {
                    self.unwritten.entry(of).or_insert(error.to_string());
                }
                Arrived::Nothing
            }
            Carried::Complete { of, files } => {
                if let Some(why) = self.unwritten.remove(&of) {
                    return self.settled(&of, Err(io::Error::other(why)));
                }
                let by = self.receiver(&of);
                let target = match self.target(&of) {
                    Ok(target) => target,
                    Err(error) => return self.settled(&of, Err(error)),
                };
                let (done, location) = (self.done.0.clone(), of.clone());
                let settle = move || {
                    let result = complete((&target, &by), &files);
                    let _agent_ended = done.send(Done::Settled(location, result));
                };
                match threads::spawn("arrival", settle) {
                    Ok(_) => Arrived::Nothing,
                    Err(error) => self.settled(&of, Err(error)),
                }
            }
            // A trial whose checkpoint is lost says so itself, as on the runner's machine.
            Carried::Missing { of, why } => match self.missing.contains_key(&of) {
                true => self.settled(&of, Err(io::Error::other(why))),
                false => self.settled(&of, Ok(())),
            },
        }
    }

    /// Whose pieces they are, where several agents of a user receive the same.
    fn receiver(&self, of: &Location) -> String {
        match of {
            Location::Study(_) => String::new(),
            Location::Prepared(_) | Location::Input(_) => format!("{}-", self.files.name()),
        }
    }

    /// Something is in its place, or cannot be.
    fn settled(&mut self, of: &Location, result: io::Result<()>) -> Arrived {
        self.fetching.remove(of);
        let waiting = self.waiting.extract_if(.., |(location, _)| location == of);
        let waiting: Vec<Assignment> = waiting.map(|(_, assignment)| assignment).collect();
        let is_input = self.missing.contains_key(of);
        if let Err(error) = result {
            let what = match of {
                Location::Study(path) | Location::Prepared(path) | Location::Input(path) => path,
            };
            let why = format!("`{}` cannot be copied to this machine: {error}", what.display());
            let attempts = waiting.iter().map(|one| (one.trial, one.attempt)).collect();
            return Arrived::Failed { why, attempts, is_input };
        }
        if !is_input {
            return Arrived::Checkpoint(waiting);
        }
        self.missing.remove(of);
        if self.has_inputs() { Arrived::Inputs } else { Arrived::Nothing }
    }

    /// Files of a trial were removed from the runner's machine.
    pub fn remove(&self, trial: TrialNumber, below: &Path) {
        let path = self.files.directory().join(below);
        // Through a link it may lead elsewhere.
        if inside(&self.files, trial, &path).is_some() {
            let _removed_at_the_end = disk::remove(&path);
        }
    }

    /// The study as its programs see it here.
    pub fn rewrite(&self, spec: &mut StudySpec) {
        spec.checkpoints.dir = Some(self.files.root().to_owned());
        if let Program::Trainer { arguments, data } = &mut spec.program {
            let values = arguments.values_mut().chain(data.values_mut());
            values.for_each(|value| rewrite_json(&self.inputs, value));
        }
    }
}

fn put(outbox: &mut Outbox, message: &ToRunner) {
    outbox.put(&bytes(message));
}

fn unread(path: &Path, error: &io::Error) -> Remark {
    let why = format!("`{}` cannot be sent to the runner: {error}", path.display());
    Remark::new(RemarkKind::Checkpoint, why)
}

fn rewrite_json(inputs: &BTreeMap<PathBuf, PathBuf>, value: &mut Json) {
    match value {
        Json::String(text) => {
            if let Some(here) = inputs.get(Path::new(text.as_str())) {
                *text = here.display().to_string();
            }
        }
        Json::Array(values) => values.iter_mut().for_each(|value| rewrite_json(inputs, value)),
        Json::Object(values) => values.values_mut().for_each(|value| rewrite_json(inputs, value)),
        Json::Null | Json::Bool(_) | Json::Number(_) => {}
    }
}

fn rewrite_params(inputs: &BTreeMap<PathBuf, PathBuf>, params: &mut Params) {
    let rewritten: Vec<(String, Value)> = params
        .iter()
        .filter_map(|(name, value)| {
            let Value::Text(text) = value else { return None };
            let here = inputs.get(Path::new(text.as_str()))?;
            Some((name.to_owned(), Value::Text(here.display().to_string())))
        })
        .collect();
    rewritten.into_iter().for_each(|(name, value)| params.insert(name, value));
}

/// Makes and locks a file.
fn locked_file(path: &Path) -> io::Result<File> {
    loop {
        let file = File::create(path)?;
        rustix::fs::flock(&file, FlockOperation::LockExclusive)?;
        // An agent that begins at the same time may have taken it for one of a dead agent.
        if path.exists() {
            return Ok(file);
        }
    }
}

/// Removes the directories of agents that are gone, and inputs that nobody has used for long.
fn clean(root: &Path) {
    for lock in disk::entries(root).filter(|path| path.extension().is_some_and(|end| end == LOCK)) {
        let Ok(file) = File::open(&lock) else { continue };
        if rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok() {
            let _tried_by_the_next_one = disk::remove(&lock.with_extension(""));
            let _tried_by_the_next_one = fs::remove_file(&lock);
        }
    }
    for kept in ["inputs", paths::DATA_CACHE] {
        let is_old = |path: &PathBuf| {
            let modified = fs::metadata(path).and_then(|metadata| metadata.modified());
            modified.is_ok_and(|at| at.elapsed().is_ok_and(|age| age > OLD))
        };
        for path in disk::entries(&root.join(kept)).filter(is_old) {
            let _tried_by_the_next_one = disk::remove(&path);
        }
    }
}

/// Marks an input, or its directory, as used.
fn touch(path: &Path) {
    let touched = File::open(path).and_then(|file| file.set_modified(std::time::SystemTime::now()));
    let _removed_when_it_is_old = touched;
}
