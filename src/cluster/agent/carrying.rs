//! The files of an agent that shares no directory with its runner: what its trials write travels
//! there, and what they need comes from there.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::FlockOperation;
use serde_json::Value as Json;

use crate::cluster::cache_directory;
use crate::cluster::message::{AttemptOf, ToRunner, TrainerInput, bytes};
use crate::cluster::outbox::Outbox;
use crate::cluster::transfer::{
    Blob, Carried, ENOUGH, Location, Sending, checked, complete, digest, take_piece,
};
use crate::engine::{Assignment, Input};
use crate::runner::disk;
use crate::storage::paths::{self, StudyFiles};
use crate::study::event::TrialEvent;
use crate::study::params::{Params, Value};
use crate::study::program::Program;
use crate::study::remark::{Remark, RemarkKind};
use crate::study::spec::StudySpec;
use crate::study::trial::{AttemptNumber, TrialNumber};

/// Interval between looks at logs.
const LOG_INTERVAL: Duration = Duration::from_millis(500);

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
    /// Where inputs of the trainer are here, by their paths on the runner's machine.
    inputs: BTreeMap<PathBuf, PathBuf>,
    /// Inputs that are not here yet.
    missing: BTreeMap<Location, PathBuf>,
    /// The trainer's inputs are asked for, and not all here.
    is_waiting_for_inputs: bool,
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
            inputs: BTreeMap::new(),
            missing: BTreeMap::new(),
            is_waiting_for_inputs: false,
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
        let Some(attempt) = attempt_of(&input) else { return Some(input) };
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
                let Ok(below) = path.strip_prefix(self.files.directory()) else {
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
            Input::Recorded { event: TrialEvent::ArtifactSaved { .. }, .. } => {
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
            _ => (VecDeque::new(), input),
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
                        if let Input::Checkpoint { trial, attempt, path, .. } = &outgoing.input {
                            let remark = unread(path, &error);
                            let (trial, attempt) = (*trial, *attempt);
                            outgoing.input = Input::Remark { trial, attempt, remark };
                        }
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

    /// Prepares an attempt: it is returned if it can start now, else what it waits for.
    pub fn launch(&mut self, assignment: Assignment) -> Result<Assignment, Location> {
        let (trial, attempt) = (assignment.trial, assignment.attempt);
        let before = self.last.insert(trial, attempt);
        let ran_here = before.is_some_and(|before| before.0 + 1 == attempt.0);
        let mut assignment = assignment;
        rewrite_params(&self.inputs, &mut assignment.params);
        let below = assignment.resume.as_ref().map(|checkpoint| checkpoint.path.clone());
        let Some(below) = below.filter(|path| path.is_relative()) else { return Ok(assignment) };
        let path = self.files.directory().join(&below);
        if ran_here && path.exists() {
            return Ok(assignment);
        }
        let _none_there = disk::remove(&path);
        let location = Location::Study(below);
        self.waiting.push((location.clone(), assignment));
        Err(location)
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
    pub fn requests(&self) -> Vec<ToRunner> {
        let fetched = self.waiting.iter().map(|(location, _)| ToRunner::Fetch(location.clone()));
        let inputs = self.is_waiting_for_inputs.then_some(ToRunner::ListInputs);
        inputs.into_iter().chain(fetched).collect()
    }

    /// The study's trainer reads files.
    pub fn ask_for_inputs(&mut self) {
        self.is_waiting_for_inputs = true;
    }

    /// The list of the trainer's inputs; returns requests for those that are not here.
    pub fn list(&mut self, inputs: Vec<TrainerInput>) -> Vec<ToRunner> {
        self.missing.clear();
        for TrainerInput { of, digest: wanted } in inputs {
            let target = match &of {
                Location::Input(path) => {
                    let name = path.file_name().unwrap_or(path.as_os_str());
                    let target = self.files.root().join("inputs").join(&wanted).join(name);
                    self.inputs.insert(path.clone(), target.clone());
                    target
                }
                Location::Prepared(_) | Location::Study(_) => match self.target(&of) {
                    Ok(target) => target,
                    Err(_) => continue,
                },
            };
            let is_here = match &of {
                // It is put there once it is complete, and trials mark that they use it.
                Location::Prepared(_) => target.is_dir(),
                _ => digest(&target).is_ok_and(|found| found == wanted),
            };
            match is_here {
                true => touch(&target),
                false => drop(self.missing.insert(of, target)),
            }
        }
        self.missing.keys().cloned().map(ToRunner::Fetch).collect()
    }

    /// Whether the trainer's inputs are all here.
    pub fn has_inputs(&mut self) -> bool {
        let has = self.is_waiting_for_inputs && self.missing.is_empty();
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

    /// Takes in what the runner sends.
    pub fn arrive(&mut self, message: Carried) -> Arrived {
        let (of, result) = match message {
            Carried::Piece { of, file, offset, bytes } => {
                let target = self.target(&of);
                // What is not written is missing when all should be here.
                let _noticed_then =
                    target.and_then(|target| take_piece(&target, &file, offset, &bytes.0));
                return Arrived::Nothing;
            }
            Carried::Complete { of, files } => {
                let result = self.target(&of).and_then(|target| complete(&target, &files));
                (of, result)
            }
            // A trial whose checkpoint is lost says so itself, as on the runner's machine.
            Carried::Missing { of, why } => match self.missing.contains_key(&of) {
                true => (of, Err(io::Error::other(why))),
                false => (of, Ok(())),
            },
        };
        let waiting = self.waiting.extract_if(.., |(location, _)| *location == of);
        let waiting: Vec<Assignment> = waiting.map(|(_, assignment)| assignment).collect();
        let is_input = self.missing.contains_key(&of);
        if let Err(error) = result {
            let what = match &of {
                Location::Study(path) | Location::Prepared(path) | Location::Input(path) => path,
            };
            let why = format!("`{}` cannot be copied to this machine: {error}", what.display());
            let attempts = waiting.iter().map(|one| (one.trial, one.attempt)).collect();
            return Arrived::Failed { why, attempts, is_input };
        }
        if !is_input {
            return Arrived::Checkpoint(waiting);
        }
        self.missing.remove(&of);
        if self.has_inputs() { Arrived::Inputs } else { Arrived::Nothing }
    }

    /// A checkpoint is needed no more.
    pub fn remove(&self, of: &Location) {
        if let Ok(path) = self.target(of) {
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

/// The attempt that an input is about.
fn attempt_of(input: &Input) -> Option<AttemptOf> {
    match input {
        Input::Launched { trial, attempt, .. }
        | Input::Report { trial, attempt, .. }
        | Input::Heard { trial, attempt }
        | Input::Remark { trial, attempt, .. }
        | Input::Checkpoint { trial, attempt, .. }
        | Input::Recorded { trial, attempt, .. }
        | Input::Ended { trial, attempt, .. }
        | Input::Peak { trial, attempt, .. } => Some((*trial, *attempt)),
        _ => None,
    }
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

/// Marks an input as used.
fn touch(path: &Path) {
    let directory = path.parent().unwrap_or(path);
    let touched = File::open(directory)
        .and_then(|directory| directory.set_modified(std::time::SystemTime::now()));
    let _removed_when_it_is_old = touched;
}
