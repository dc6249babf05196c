//! Reads a child process's streams: messages become inputs, everything else goes to its attempt's
//! log.

mod attempt;
mod following;

use std::io;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, ChildStderr, ChildStdout, ExitStatus};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use crossbeam_channel::Sender;

pub(super) use attempt::Expected;
use attempt::{Current, End, Stream};
use following::Following;

use super::artifacts::{self, Kept};
use super::clock::system_time;
use super::echo::Echo;
use super::failure_cause::advice;
use super::lines::{LineEnd, LinePiece, Lines, for_each_line};
use super::metric_files::MetricFiles;
use super::peak_memory;
use super::point_queue::PointQueue;
use super::registration::{Announced, Registered, Registrar};
use super::threads;
use crate::engine::Input;
use crate::runner::processes;
use crate::runner::protocol::{
    COMMAND_NOT_FOUND, MessageToRunner, PREFIX, Reported, Spoken, StepCounter,
};
use crate::study::artifact::NewArtifact;
use crate::study::event::{AttemptEnd, EntryEvent, RecordEvent, TrialEvent};
use crate::study::remark::{Remark, RemarkKind};
use crate::study::spec::FailureCause;

/// Queue limit of the runner; above it, children are not read and block on their pipes. A trial
/// that reports endlessly then costs no memory, and delays the others by one turn.
const WAITING: usize = 1024;

/// Bytes of a line that are searched for a failure cause.
const LONGEST_WORDS: usize = 4096;

/// Interval between checks of the queue while a child is not read.
const MOMENT: Duration = Duration::from_millis(1);

/// The signal that a process cannot handle.
const KILL: i32 = 9;

/// The end of a command that was not found.
const NOT_FOUND: AttemptEnd = AttemptEnd::Failed(FailureCause::Exit(COMMAND_NOT_FOUND));

/// How to read a child.
pub(super) struct Listener {
    /// Whether the child runs a single attempt: then its end counts once the process has exited.
    pub single: bool,
    /// Whether its streams are echoed: it is a tracked run.
    pub is_shown: bool,
    /// Receives its messages.
    pub inputs: Sender<Input>,
    /// Registers its checkpoints.
    pub registrar: Arc<Registrar>,
    /// Receives its logged points.
    pub points: Arc<PointQueue>,
}

/// A child that is being read.
pub(super) struct Listening {
    shared: Arc<Mutex<Shared>>,
    inputs: Sender<Input>,
    points: Arc<PointQueue>,
    thread: JoinHandle<()>,
}

/// State shared by the two reading threads and the launcher. A lock, since a job is announced
/// before its child receives it, and both streams end in one log.
#[derive(Default)]
struct Shared {
    current: Option<Current>,
    /// Follows the files of the present attempt.
    following: Option<Following>,
    exited: bool,
    was_killed: bool,
    failed: bool,
    /// The child has exited and its streams have ended.
    is_gone: bool,
    /// Exit status of a tracked program.
    exit_status: Option<i32>,
}

fn lock(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Listening {
    /// Assigns the child's output to this attempt. An error if the child is gone already: the end
    /// of the attempt would never arrive.
    pub fn expect_trial(
        &self,
        expected: Expected,
        files: Option<MetricFiles>,
        log: &Path,
    ) -> io::Result<()> {
        let current = Current::new(expected, log)?;
        let mut shared = lock(&self.shared);
        if shared.is_gone {
            return Err(io::Error::other("the worker was killed as it started"));
        }
        shared.current = Some(current);
        if let Some(files) = files {
            let (of, inputs) = (Arc::clone(&self.shared), self.inputs.clone());
            let points = Arc::clone(&self.points);
            let take = move |found| {
                wait_for_room(&inputs);
                if let Some(current) = lock(&of).current.as_mut() {
                    send(&inputs, current.take_found(found, &points));
                }
            };
            shared.following = Some(Following::start(files, take)?);
        }
        Ok(())
    }

    /// The exit status of a tracked program, once it has ended.
    pub fn exit_status(&self) -> Option<i32> {
        lock(&self.shared).exit_status
    }

    /// Writes a line into the log of the present attempt.
    pub fn note(&self, text: &str) {
        if let Some(current) = lock(&self.shared).current.as_mut() {
            current.log.write(format!("[hpsearch] {text}\n").as_bytes());
        }
    }

    /// Whether the child is alive, idle and has never failed.
    pub fn is_reusable(&self) -> bool {
        let shared = lock(&self.shared);
        !shared.exited && !shared.failed && shared.current.is_none()
    }

    /// Whether the child was killed, and a descendant may hold its streams.
    pub fn is_outlived(&self) -> bool {
        lock(&self.shared).was_killed && !self.is_over()
    }

    /// Whether the child is dead and all its output was read.
    pub fn is_over(&self) -> bool {
        self.thread.is_finished()
    }
}

impl Listener {
    /// Starts reading; the child is waited for. `aside` reports how a command ended, out of the
    /// command's reach.
    pub fn listen(self, mut child: Child, aside: UnixStream) -> io::Result<Listening> {
        let shared = Arc::new(Mutex::new(Shared::default()));
        let to_runner = self.inputs.clone();
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let stdout = stdout.map(if self.is_shown { Echo::output } else { Echo::silent });
        let stderr = stderr.map(if self.is_shown { Echo::errors } else { Echo::silent });
        let (for_stderr, of_stderr) = (Arc::clone(&shared), self.inputs.clone());
        let (points, logged) = (Arc::clone(&self.points), Arc::clone(&self.points));
        let errors = threads::spawn("worker stderr", move || {
            read_errors(stderr, &for_stderr, &of_stderr, &points);
        })?;
        let (for_exit, inputs) = (Arc::clone(&shared), self.inputs.clone());
        let exit = threads::spawn("worker exit", move || {
            let status = child.wait().ok();
            let mut shared = lock(&for_exit);
            shared.exited = true;
            if !status.is_some_and(|status| status.success()) {
                shared.was_killed = true;
                // Wakes the runner to clean up what a killed supervisor left.
                let _runner_gone = inputs.send(Input::Tick);
            }
            status
        })?;
        let for_aside = Arc::clone(&shared);
        let measured = Arc::clone(&self.points);
        let read_aside = move || read_aside(aside, &for_aside, &measured);
        let aside = self.single.then(|| threads::spawn("supervisor", read_aside)).transpose()?;
        let for_stdout = Arc::clone(&shared);
        let thread = threads::spawn("worker stdout", move || {
            self.read_messages(stdout, &for_stdout);
            let status = exit.join().ok().flatten();
            let _panicked = (errors.join(), aside.map(JoinHandle::join));
            self.gone(&for_stdout, status);
        })?;
        Ok(Listening { shared, inputs: to_runner, points: logged, thread })
    }

    fn read_messages(&self, stdout: Option<Echo<ChildStdout>>, shared: &Mutex<Shared>) {
        let Some(stdout) = stdout else { return };
        // After a message that ended with `\r`: its newline belongs to it.
        let mut swallows_newline = false;
        let (mut lines, mut line) = (Lines::of(stdout, LineEnd::NewlineOrReturn), Vec::new());
        while let Some(piece) = lines.next(&mut line) {
            if std::mem::take(&mut swallows_newline) && line == b"\n" {
                continue;
            }
            let line = line.as_slice();
            // Before taking the lock, which the runner needs to drain the queue.
            wait_for_room(&self.inputs);
            self.wait_for_points(shared);
            let spoken = match piece {
                LinePiece::Whole => Listener::read(shared, line),
                LinePiece::First => Spoken::of_long(line),
                LinePiece::Rest => Spoken::Log,
            };
            let mut locked = lock(shared);
            let Some(current) = locked.current.as_mut() else { continue };
            match spoken {
                Spoken::Log => {
                    current.log.write(line);
                    self.send(current.print(Stream::Output, line, &self.points));
                }
                Spoken::Missed(remark) => {
                    current.log.write(line);
                    // The first piece of a line is followed by another.
                    if matches!(piece, LinePiece::Whole) {
                        current.note_once(&remark);
                    }
                    self.send([current.remark(remark)]);
                }
                Spoken::Message(taken, remarks) => {
                    swallows_newline = line.ends_with(b"\r");
                    self.send(current.misread(line, remarks));
                    drop(locked);
                    taken.into_iter().for_each(|up| self.forward(shared, line, up, &mut lines));
                }
            }
        }
    }

    /// Parses a line without holding the lock; only this thread advances the step counter.
    fn read(shared: &Mutex<Shared>, line: &[u8]) -> Spoken {
        let expected = lock(shared)
            .current
            .as_ref()
            .map(|current| (current.expected.step_counter, Arc::clone(&current.expected.reported)));
        let Some((mut step_counter, reported)) = expected else { return Spoken::Log };
        let spoken = Spoken::read(line, &mut step_counter, Reported::With(&reported));
        if let (Spoken::Message(..), Some(current)) = (&spoken, lock(shared).current.as_mut()) {
            current.expected.step_counter = step_counter;
        }
        spoken
    }

    /// Waits until the runner has written the present attempt's points.
    fn wait_for_points(&self, shared: &Mutex<Shared>) {
        let whose = |shared: &Shared| {
            shared
                .current
                .as_ref()
                .map(|current| (current.expected.trial, current.expected.attempt))
        };
        let Some((trial, attempt)) = whose(&lock(shared)) else { return };
        while self.points.is_full_of(trial, attempt) {
            std::thread::sleep(MOMENT);
        }
    }

    /// Forwards the content of a line.
    fn forward(
        &self,
        shared: &Mutex<Shared>,
        line: &[u8],
        up: MessageToRunner,
        lines: &mut Lines<Echo<ChildStdout>>,
    ) {
        // Before taking the lock: a disk may be slow.
        let registered = match &up {
            MessageToRunner::Checkpoint { path, step } => self.register(shared, path, *step, lines),
            _ => None,
        };
        let kept = match &up {
            MessageToRunner::Artifact { artifact } => self.keep(shared, artifact),
            _ => None,
        };
        let mut shared = lock(shared);
        let Some(current) = shared.current.as_mut() else { return };
        let (trial, attempt) = (current.expected.trial, current.expected.attempt);
        match up {
            MessageToRunner::Report { step, metrics } => {
                self.send([current.report(step, metrics, &self.points)]);
            }
            MessageToRunner::Points { axis, step, metrics } => {
                self.send(current.log_points(axis, step, metrics, &self.points));
            }
            MessageToRunner::Checkpoint { step, .. } => match registered {
                Some(Ok(Some(Registered { path, bytes, uncopied, digest }))) => {
                    if let Some(why) = uncopied {
                        let why = format!("`{}` is not copied: {why}", path.display());
                        let remark = Remark::new(RemarkKind::Uncopied, why);
                        current.note_once(&remark);
                        self.send([current.remark(remark)]);
                    }
                    let system = self.single.then(system_time);
                    self.send([Input::Checkpoint {
                        trial,
                        attempt,
                        step,
                        path,
                        bytes,
                        system,
                        digest,
                    }]);
                }
                Some(Err(why)) => {
                    let why = format!("this checkpoint is rejected: {why}");
                    let remark = Remark::new(RemarkKind::Checkpoint, why);
                    self.send(current.misread(line, vec![remark]));
                }
                Some(Ok(None)) => {
                    let at = current.expected.step_counter.unit.at(step);
                    let why = format!(
                        "the checkpoint of {at} was written again before it could be copied"
                    );
                    current.note_once(&Remark::new(RemarkKind::Superseded, why));
                }
                None => {}
            },
            MessageToRunner::Artifact { .. } => match kept {
                Some(Ok(Kept { artifact, content, spent })) => {
                    // If the runner is killed now, so is what would read the line again.
                    artifacts::clear(spent);
                    let event =
                        TrialEvent::Record(RecordEvent::ArtifactSaved { artifact, content });
                    self.send([Input::Recorded { trial, attempt, event }]);
                }
                Some(Err(why)) => {
                    let remark = Remark::new(RemarkKind::Artifact, why);
                    self.send(current.misread(line, vec![remark]));
                }
                None => {}
            },
            MessageToRunner::Params { params } if self.is_shown => {
                let event = TrialEvent::Record(RecordEvent::ParamsRecorded { params });
                self.send([Input::Recorded { trial, attempt, event }]);
            }
            MessageToRunner::Summary { summary } => {
                let event = TrialEvent::Record(RecordEvent::SummaryRecorded { summary });
                self.send([Input::Recorded { trial, attempt, event }]);
            }
            MessageToRunner::Tags { tags } => self.send(tags.into_iter().map(|tag| {
                let event = TrialEvent::Entry(EntryEvent::Tagged { tag, present: true });
                Input::Recorded { trial, attempt, event }
            })),
            MessageToRunner::Params { .. } => {
                let why =
                    "parameters are recorded of tracked runs only; a trial's are its search's";
                let remark = Remark::new(RemarkKind::Reserved, why);
                self.send(current.misread(line, vec![remark]));
            }
            // Sent in place of the command, before it could start; valid if its supervisor confirms
            // it.
            MessageToRunner::End {
                end: end @ (AttemptEnd::Failed(FailureCause::Program) | AttemptEnd::Refused),
                message,
            } if self.single => {
                current.not_started.get_or_insert((end, message));
            }
            _ if self.single => {
                let why = "these keys are reserved by hpsearch";
                let remark = Remark::new(RemarkKind::Reserved, why);
                self.send(current.misread(line, vec![remark]));
            }
            MessageToRunner::End { end, message } => {
                shared.failed |= matches!(end, AttemptEnd::Failed(_) | AttemptEnd::Refused);
                if let Some(mut current) = shared.current.take() {
                    self.send_end(&mut current, end, message);
                }
            }
            MessageToRunner::StartsOver { why, from } => {
                let remark = match from {
                    None => Remark::new(RemarkKind::StartedOver, why),
                    Some(from) => Remark::new(
                        RemarkKind::WentBackTo,
                        format!("{why}; the checkpoint before it is `{from}`"),
                    ),
                };
                current.note_once(&remark);
                self.send([current.remark(remark)]);
            }
            MessageToRunner::Peak { bytes } => {
                self.points.measure(trial, attempt, peak_memory::measured(bytes));
                self.send([Input::Peak { trial, attempt, bytes }]);
            }
            MessageToRunner::Exit { .. }
            | MessageToRunner::Unheard {}
            | MessageToRunner::Answer { .. }
            | MessageToRunner::Text { .. }
            | MessageToRunner::At { .. } => {}
        }
    }

    /// Registers a checkpoint of the present attempt.
    fn register(
        &self,
        shared: &Mutex<Shared>,
        path: &Path,
        step: u64,
        lines: &mut Lines<Echo<ChildStdout>>,
    ) -> Option<Result<Option<Registered>, String>> {
        let expected = lock(shared).current.as_ref().map(|current| current.expected.clone())?;
        let Expected { trial, cwd, step_counter, reported, .. } = &expected;
        let is_announced_again =
            || is_announced_again(path, step, *step_counter, reported, &lines.ahead());
        Some(
            self.registrar
                .register(Announced { trial: *trial, step, cwd, path }, is_announced_again),
        )
    }

    /// Registers an artifact of the present attempt.
    fn keep(&self, shared: &Mutex<Shared>, new: &NewArtifact) -> Option<Result<Kept, String>> {
        let (trial, cwd) = lock(shared)
            .current
            .as_ref()
            .map(|current| (current.expected.trial, current.expected.cwd.clone()))?;
        Some(artifacts::take(&self.registrar.artifact_places(trial, &cwd), new.clone()))
    }

    fn gone(&self, shared: &Mutex<Shared>, status: Option<ExitStatus>) {
        let following = lock(shared).following.take();
        let empty = following.map(Following::end).unwrap_or_default();
        let mut shared = lock(shared);
        shared.is_gone = true;
        let Some(mut current) = shared.current.take() else { return };
        self.send(current.print_end(&self.points));
        self.send(current.remark_empty(empty, &self.points));
        let (end, message) = match (current.end.take(), current.not_started.take()) {
            (Some((NOT_FOUND, _)), Some(why)) => why,
            (Some(end), _) => end,
            (None, _) => self.end_without_message(&current, status),
        };
        self.send_end(&mut current, end, message);
    }

    /// The end of a process that did not report one.
    fn end_without_message(&self, current: &Current, status: Option<ExitStatus>) -> End {
        let (cause, how) = match status.and_then(|status| status.signal()) {
            None => {
                let status =
                    status.map_or("unknown status".to_owned(), |status| status.to_string());
                let how = format!("its process ended without a message ({status})");
                (FailureCause::WorkerLost, how)
            }
            Some(signal) if processes::was_killed_for_memory(signal, current.memory_kills) => {
                let how = "its process was killed by signal 9, by the kernel: memory ran out";
                (FailureCause::Oom, how.to_owned())
            }
            // A failed allocation aborts a Rust program, with a message on its standard error.
            Some(signal) => match current.stderr_tail.telling() {
                Some((FailureCause::Oom, line)) if !self.single => {
                    (FailureCause::Oom, line.to_owned())
                }
                _ => {
                    (FailureCause::WorkerLost, format!("its process was killed by signal {signal}"))
                }
            },
        };
        (AttemptEnd::Failed(cause), Some(how))
    }

    fn send_end(&self, current: &mut Current, end: AttemptEnd, message: Option<String>) {
        use FailureCause::{DeviceLost, Exit, Program};
        current.log.write_end();
        // A trial without its files has not failed by itself.
        let (end, message) = match self.registrar.gone() {
            Some(why) if matches!(end, AttemptEnd::Failed(_)) && !self.is_shown => {
                (AttemptEnd::Refused, Some(why))
            }
            _ => (end, message),
        };
        let stderr_tail = current.stderr_tail.last();
        let is_single = self.single && !current.expected.per_device;
        let is_own = matches!(end, AttemptEnd::Failed(Program | Exit(_)));
        let message = match message {
            Some(message) if is_own && is_single && !stderr_tail.is_empty() => {
                Some(format!("{message}: {stderr_tail}"))
            }
            None if end == AttemptEnd::Completed => current.remark_at_end(),
            message => message,
        };
        let may_advise = is_own || end == AttemptEnd::Failed(DeviceLost);
        let message = message.map(|said| match advice(&said).filter(|_| may_advise) {
            Some(advice) => format!("{said}; {advice}"),
            None => said,
        });
        // A worker of the built-in trainer reports its own failure cause.
        let cause = current.stderr_tail.cause().filter(|_| is_single && is_own);
        let end = cause.map_or(end, |cause| {
            let for_memory = || processes::was_killed_for_memory(KILL, current.memory_kills);
            let is_oom = cause == FailureCause::WorkerLost && for_memory();
            AttemptEnd::Failed(if is_oom { FailureCause::Oom } else { cause })
        });
        let (trial, attempt) = (current.expected.trial, current.expected.attempt);
        if current.is_unheard {
            self.send([Input::Unheard { trial, attempt }]);
        }
        self.send([Input::Ended { trial, attempt, end, message }]);
    }

    fn send(&self, inputs: impl IntoIterator<Item = Input>) {
        send(&self.inputs, inputs);
    }
}

fn send(runner: &Sender<Input>, inputs: impl IntoIterator<Item = Input>) {
    for input in inputs {
        // The runner is gone only when this process ends.
        let _runner_gone = runner.send(input);
    }
}

/// A supervisor's report on its command's end.
fn read_aside(aside: UnixStream, shared: &Mutex<Shared>, points: &PointQueue) {
    for_each_line(aside, LineEnd::Newline, |line, _| {
        let text = line
            .strip_prefix(PREFIX.as_bytes())
            .map(|text| String::from_utf8_lossy(text).trim_end().to_owned());
        let said = text.and_then(|text| MessageToRunner::parse(&text).ok());
        let mut shared = lock(shared);
        match (said, shared.current.as_mut()) {
            (Some(MessageToRunner::Exit { status }), _) => shared.exit_status = Some(status),
            (Some(MessageToRunner::Peak { bytes }), Some(current)) => {
                let (trial, attempt) = (current.expected.trial, current.expected.attempt);
                points.measure(trial, attempt, peak_memory::measured(bytes));
            }
            (Some(MessageToRunner::Unheard {}), Some(current)) => current.is_unheard = true,
            (Some(MessageToRunner::End { end, message }), Some(current)) => {
                current.end.get_or_insert((end, message));
            }
            _ => {}
        }
    });
}

/// Whether the unread output announces a checkpoint at `path` for another step.
fn is_announced_again(
    path: &Path,
    step: u64,
    mut step_counter: StepCounter,
    reported: &[String],
    said: &[u8],
) -> bool {
    let reported = Reported::With(reported);
    let is_it = |up: &MessageToRunner| {
        matches!(
            up,
            MessageToRunner::Checkpoint { path: said, step: of } if said == path && *of != step
        )
    };
    said.split(|byte| matches!(byte, b'\n' | b'\r')).any(|line| {
        matches!(
            Spoken::read(line, &mut step_counter, reported),
            Spoken::Message(taken, _) if taken.iter().any(is_it)
        )
    })
}

/// Waits until the runner has drained the queue.
fn wait_for_room(inputs: &Sender<Input>) {
    while inputs.len() > WAITING {
        std::thread::sleep(MOMENT);
    }
}

fn read_errors(
    stderr: Option<Echo<ChildStderr>>,
    shared: &Mutex<Shared>,
    inputs: &Sender<Input>,
    points: &PointQueue,
) {
    let Some(stderr) = stderr else { return };
    for_each_line(stderr, LineEnd::Newline, |line, piece| {
        wait_for_room(inputs);
        if let Some(current) = lock(shared).current.as_mut() {
            current.log.write(line);
            send(inputs, current.print(Stream::Errors, line, points));
            let words = String::from_utf8_lossy(&line[..line.len().min(LONGEST_WORDS)]);
            current.stderr_tail.push(&words);
            let missed = matches!(piece, LinePiece::Whole)
                .then(|| Spoken::on_standard_error(line, current.expected.step_counter))
                .flatten();
            // Sent once, without waiting for room.
            send(inputs, missed.and_then(|remark| current.remark_once(remark)));
        }
    });
}

#[cfg(test)]
mod tests;
