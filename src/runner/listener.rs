//! Listens to a child process: its messages become inputs, everything else its attempt's log.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, ChildStdout, ExitStatus};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use crossbeam_channel::Sender;

use super::clock::system_time;
use super::failure_cause::{StderrTail, advice};
use super::lines::{LineEnd, Lines, Piece, for_each_line};
use super::registration::{Announced, Registered, Registrar};
use crate::engine::Input;
use crate::runner::processes;
use crate::runner::protocol::{Clock, JobEnd, MessageToRunner, PREFIX, Spoken};
use crate::storage::sqlite;
use crate::study::event::AttemptEnd;
use crate::study::metric::Metrics;
use crate::study::printed_metrics::{LineReports, PrintedMetrics};
use crate::study::remark::{Remark, RemarkKind, Reports};
use crate::study::spec::FailureCause;
use crate::study::trial::{AttemptNumber, TrialNumber};

/// A log grows to this size; what comes after is dropped, and said to be.
const LOG_LIMIT: u64 = 64 << 20;

/// So many inputs may wait for the runner; while there are more, children are not listened to, and
/// wait in their pipes. A trial that reports without end costs no memory then, and holds up the
/// others by one turn.
const WAITING: usize = 1024;

/// So many bytes of a line are looked at for what a program dies of.
const LONGEST_WORDS: usize = 4096;

/// How long such a child is not listened to before the queue is looked at again.
const MOMENT: Duration = Duration::from_millis(1);

/// How to listen to a child.
pub(super) struct Listener {
    /// Whether the child carries out one attempt only: then its end counts once it is gone.
    pub single: bool,
    /// Where its words go.
    pub inputs: Sender<Input>,
    /// Who takes its checkpoints.
    pub registrar: Arc<Registrar>,
}

/// A child that is being listened to.
pub(super) struct Listening {
    shared: Arc<Mutex<Shared>>,
    thread: JoinHandle<()>,
}

/// What the two reading threads and the launcher share. A lock, since a job is announced before its
/// child is told of it and both streams of the child end in one log.
#[derive(Default)]
struct Shared {
    current: Option<Current>,
    exited: bool,
    was_killed: bool,
    failed: bool,
    /// Nothing more is heard of it.
    is_gone: bool,
}

/// Where a line was printed.
#[derive(Clone, Copy)]
enum Stream {
    Output,
    Errors,
}

struct Current {
    expected: Expected,
    log: AttemptLog,
    stderr_tail: StderrTail,
    remarks: Remarks,
    end: Option<(JobEnd, Option<String>)>,
    /// Why there was nothing to start, where its command's place says so.
    not_started: Option<(JobEnd, Option<String>)>,
    /// How many processes the kernel had killed for want of memory when it began.
    memory_kills: Option<u64>,
}

/// Whose words a child's are.
#[derive(Clone, Debug)]
pub(super) struct Expected {
    /// Whose.
    pub trial: TrialNumber,
    /// Of which attempt.
    pub attempt: AttemptNumber,
    /// Where its relative paths begin.
    pub cwd: PathBuf,
    /// The study's clock, at the checkpoint that the attempt continues from.
    pub clock: Clock,
    /// Reads the metrics in its log: on standard output, and on standard error. Each has steps of
    /// its own, since nobody knows which line of the two came first.
    pub printed: Option<[PrintedMetrics; 2]>,
}

impl Current {
    /// Notes in the log what is odd about what stands there.
    fn note(&mut self, remark: &Remark) {
        let why = &remark.why;
        let line = match remark.kind {
            RemarkKind::Repeated
            | RemarkKind::WentBack
            | RemarkKind::Uncopied
            | RemarkKind::Superseded => {
                format!("[hpsearch] {why}\n")
            }
            RemarkKind::Pattern => format!("[hpsearch] {}\n", remark.text()),
            RemarkKind::Misplaced | RemarkKind::StandardError | RemarkKind::TooLong => {
                format!("[hpsearch] the line above was not taken: {why}\n")
            }
            _ => format!("[hpsearch] the line above was not understood: {why}\n"),
        };
        self.log.write(line.as_bytes());
    }

    /// Notes a line that was meant for the runner, and what of it is none of its words.
    fn misread(&mut self, line: &[u8], remarks: &[Remark]) {
        let Some(last) = remarks.last() else { return };
        self.log.write(line);
        if !line.ends_with(b"\n") {
            self.log.write(b"\n");
        }
        remarks.iter().for_each(|remark| self.note(remark));
        self.remarks.misread += 1;
        last.why.clone_into(&mut self.remarks.why);
    }

    /// The reports that the patterns of the study find in a line of the log, and what they make of
    /// them.
    fn print(&mut self, stream: Stream, line: &[u8]) -> Vec<Input> {
        let Some(printed) = &mut self.expected.printed else { return Vec::new() };
        let LineReports { reports, not_numbers } = printed[stream as usize].read(line);
        let mut inputs: Vec<_> =
            reports.into_iter().map(|(step, metrics)| self.report(step, metrics)).collect();
        if let Some((name, text)) = not_numbers.first() {
            let why = format!("a pattern finds `{text}` for `{name}`, which is not a number");
            inputs.extend(self.remark_once(Remark::new(RemarkKind::Pattern, why)));
        }
        inputs
    }

    /// The same at its end, and which patterns never found anything.
    fn print_end(&mut self) -> Vec<Input> {
        let Some(printed) = &mut self.expected.printed else { return Vec::new() };
        let ended_itself = matches!(self.end, Some((JobEnd::Finished, _)));
        let [output, errors] = printed;
        let unmatched = output.unmatched().find(|index| errors.unmatched().any(|of| of == *index));
        let unmatched = unmatched.filter(|_| ended_itself);
        let last: Vec<_> = [output.end(), errors.end()].into_iter().flatten().collect();
        let mut inputs: Vec<_> =
            last.into_iter().map(|(step, metrics)| self.report(step, metrics)).collect();
        if let Some(index) = unmatched {
            let why = format!("pattern {} matches no line of this trial", index + 1);
            inputs.extend(self.remark_once(Remark::new(RemarkKind::Pattern, why)));
        }
        inputs
    }

    /// A report; what is odd about it stands in the log, and the engine makes the same remark.
    fn report(&mut self, step: u64, metrics: Metrics) -> Input {
        let Expected { trial, attempt, clock, .. } = self.expected;
        if let (_, Some(remark)) = self.remarks.reports.take(clock.unit, step, metrics.clone())
            && self.remarks.noted.insert(remark.kind)
        {
            self.note(&remark);
        }
        Input::Report { trial, attempt, step, metrics }
    }

    fn remark_once(&mut self, remark: Remark) -> Option<Input> {
        self.remarks.noted.insert(remark.kind).then(|| {
            self.note(&remark);
            self.remark(remark)
        })
    }

    fn remark(&self, remark: Remark) -> Input {
        Input::Remark { trial: self.expected.trial, attempt: self.expected.attempt, remark }
    }
}

/// What is odd about an attempt's lines.
#[derive(Default)]
struct Remarks {
    reports: Reports,
    /// Of these the log has one each.
    noted: BTreeSet<RemarkKind>,
    /// Lines that were not understood, and why the last of them was not.
    misread: u64,
    why: String,
}

impl Remarks {
    /// What an attempt's end should say of them.
    fn at_end(&self) -> Option<String> {
        let lines =
            if self.misread == 1 { "a line".to_owned() } else { format!("{} lines", self.misread) };
        (self.misread > 0).then(|| {
            format!(
                "{lines} after `{}` could not be understood, the last because {}",
                PREFIX.trim_end(),
                self.why
            )
        })
    }
}

fn lock(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Listening {
    /// Announces that the child's words now belong to this attempt. An error if it is gone already:
    /// nobody would hear of the attempt's end.
    pub fn expect_trial(&self, expected: Expected, log: &Path) -> io::Result<()> {
        let log = AttemptLog::open(log)?;
        let (stderr_tail, remarks, memory_kills) =
            (StderrTail::default(), Remarks::default(), processes::memory_kills());
        let mut shared = lock(&self.shared);
        if shared.is_gone {
            return Err(io::Error::other("the worker was killed as it started"));
        }
        shared.current = Some(Current {
            expected,
            log,
            stderr_tail,
            remarks,
            end: None,
            not_started: None,
            memory_kills,
        });
        Ok(())
    }

    /// Whether the child lives, is idle and never failed.
    pub fn is_reusable(&self) -> bool {
        let shared = lock(&self.shared);
        !shared.exited && !shared.failed && shared.current.is_none()
    }

    /// Whether the child was killed, and someone it left behind may hold its streams.
    pub fn is_outlived(&self) -> bool {
        lock(&self.shared).was_killed && !self.is_over()
    }

    /// Whether the child is dead and everything it said was heard.
    pub fn is_over(&self) -> bool {
        self.thread.is_finished()
    }
}

impl Listener {
    /// Starts listening; the child is waited for. What it says `aside` nobody else can say: how a
    /// command ended.
    pub fn listen(self, mut child: Child, aside: UnixStream) -> io::Result<Listening> {
        let shared = Arc::new(Mutex::new(Shared::default()));
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let (for_stderr, to_runner) = (Arc::clone(&shared), self.inputs.clone());
        let errors = std::thread::Builder::new()
            .name("worker stderr".to_owned())
            .spawn(move || read_errors(stderr, &for_stderr, &to_runner))?;
        let (for_exit, inputs) = (Arc::clone(&shared), self.inputs.clone());
        let exit = std::thread::Builder::new().name("worker exit".to_owned()).spawn(move || {
            let status = child.wait().ok();
            let mut shared = lock(&for_exit);
            shared.exited = true;
            if !status.is_some_and(|status| status.success()) {
                shared.was_killed = true;
                // Wakes the runner: what a killed supervisor left is to be cleared away at once.
                let _runner_gone = inputs.send(Input::Tick);
            }
            status
        })?;
        let for_aside = Arc::clone(&shared);
        let aside = match self.single {
            true => Some(
                std::thread::Builder::new()
                    .name("supervisor".to_owned())
                    .spawn(move || read_aside(aside, &for_aside))?,
            ),
            false => None,
        };
        let for_stdout = Arc::clone(&shared);
        let thread =
            std::thread::Builder::new().name("worker stdout".to_owned()).spawn(move || {
                self.read_messages(stdout, &for_stdout);
                let status = exit.join().ok().flatten();
                let _panicked = (errors.join(), aside.map(JoinHandle::join));
                self.gone(&for_stdout, status);
            })?;
        Ok(Listening { shared, thread })
    }

    fn read_messages(&self, stdout: Option<ChildStdout>, shared: &Mutex<Shared>) {
        let Some(stdout) = stdout else { return };
        // After a message that ended with `\r`: its newline belongs to it.
        let mut swallows_newline = false;
        let (mut lines, mut line) = (Lines::of(stdout, LineEnd::NewlineOrReturn), Vec::new());
        while let Some(piece) = lines.next(&mut line) {
            if std::mem::take(&mut swallows_newline) && line == b"\n" {
                continue;
            }
            let line = line.as_slice();
            // Before the lock is taken, which the runner needs: it is the one who makes room.
            wait_for_room(&self.inputs);
            let spoken = match piece {
                Piece::Whole => Listener::read(shared, line),
                Piece::First => Spoken::of_long(line),
                Piece::Rest => Spoken::Log,
            };
            match spoken {
                Spoken::Log => {
                    if let Some(current) = lock(shared).current.as_mut() {
                        current.log.write(line);
                        current
                            .print(Stream::Output, line)
                            .into_iter()
                            .for_each(|input| self.send(input));
                    }
                }
                Spoken::Missed(remark) => {
                    if let Some(current) = lock(shared).current.as_mut() {
                        current.log.write(line);
                        // Behind the first piece of a line comes the next.
                        if matches!(piece, Piece::Whole)
                            && current.remarks.noted.insert(remark.kind)
                        {
                            current.note(&remark);
                        }
                        self.send(current.remark(remark));
                    }
                }
                Spoken::Message(taken, remarks) => {
                    swallows_newline = line.ends_with(b"\r");
                    self.misread(shared, line, remarks);
                    taken.into_iter().for_each(|up| self.take(shared, line, up, &mut lines));
                }
            }
        }
    }

    /// Reads a line without holding the lock; nobody else moves the clock of what is expected.
    fn read(shared: &Mutex<Shared>, line: &[u8]) -> Spoken {
        let clock = lock(shared).current.as_ref().map(|current| current.expected.clock);
        let Some(mut clock) = clock else { return Spoken::Log };
        let spoken = Spoken::read(line, &mut clock);
        if let (Spoken::Message(..), Some(current)) = (&spoken, lock(shared).current.as_mut()) {
            current.expected.clock = clock;
        }
        spoken
    }

    fn misread(&self, shared: &Mutex<Shared>, line: &[u8], remarks: Vec<Remark>) {
        if let Some(current) = lock(shared).current.as_mut() {
            current.misread(line, &remarks);
            remarks.into_iter().for_each(|remark| self.send(current.remark(remark)));
        }
    }

    /// Passes on what a line says.
    fn take(
        &self,
        shared: &Mutex<Shared>,
        line: &[u8],
        up: MessageToRunner,
        lines: &mut Lines<ChildStdout>,
    ) {
        // Before the lock: a disk may be slow.
        let registered = if let MessageToRunner::Checkpoint { path, step } = &up {
            self.register(shared, path, *step, lines)
        } else {
            None
        };
        let mut shared = lock(shared);
        let Some(current) = shared.current.as_mut() else { return };
        let Expected { trial, attempt, .. } = current.expected;
        match up {
            // Said in the command's place, before it could start; it counts if its supervisor says
            // that, too.
            MessageToRunner::End { end: end @ (JobEnd::Failed | JobEnd::Refused), message }
                if self.single =>
            {
                current.not_started.get_or_insert((end, message));
            }
            MessageToRunner::End { .. }
            | MessageToRunner::Answer { .. }
            | MessageToRunner::Text { .. }
            | MessageToRunner::At { .. }
            | MessageToRunner::Peak { .. }
                if self.single =>
            {
                let remark = Remark::new(
                    RemarkKind::Reserved,
                    "these are words of hpsearch's own, and no report",
                );
                current.misread(line, std::slice::from_ref(&remark));
                self.send(current.remark(remark));
            }
            MessageToRunner::End { end, message } => {
                shared.failed |= matches!(
                    end,
                    JobEnd::Failed
                        | JobEnd::Oom
                        | JobEnd::DeviceLost
                        | JobEnd::Killed
                        | JobEnd::Refused
                );
                if let Some(current) = shared.current.take() {
                    self.send_end(&current, end, message);
                }
            }
            MessageToRunner::Report { step, metrics } => {
                self.send(current.report(step, metrics));
            }
            MessageToRunner::Checkpoint { step, .. } => match registered {
                Some(Ok(Some(Registered { path, bytes, uncopied }))) => {
                    let remark = uncopied.map(|why| {
                        Remark::new(
                            RemarkKind::Uncopied,
                            format!("`{}` is not copied: {why}", path.display()),
                        )
                    });
                    if let Some(remark) = remark {
                        if current.remarks.noted.insert(remark.kind) {
                            current.note(&remark);
                        }
                        self.send(current.remark(remark));
                    }
                    let system = self.single.then(system_time);
                    self.send(Input::Checkpoint { trial, attempt, step, path, bytes, system });
                }
                Some(Err(why)) => {
                    let remark = Remark::new(
                        RemarkKind::Checkpoint,
                        format!("this checkpoint is not taken: {why}"),
                    );
                    current.misread(line, std::slice::from_ref(&remark));
                    self.send(current.remark(remark));
                }
                Some(Ok(None)) => {
                    let why = format!(
                        "the checkpoint of step {step} was written again before it could be copied"
                    );
                    let remark = Remark::new(RemarkKind::Superseded, why);
                    if current.remarks.noted.insert(remark.kind) {
                        current.note(&remark);
                    }
                }
                None => {}
            },
            MessageToRunner::Peak { bytes } => self.send(Input::Peak { trial, attempt, bytes }),
            MessageToRunner::Answer { .. }
            | MessageToRunner::Text { .. }
            | MessageToRunner::At { .. } => {}
        }
    }

    /// Looks at a checkpoint that the present attempt announces.
    fn register(
        &self,
        shared: &Mutex<Shared>,
        path: &Path,
        step: u64,
        lines: &mut Lines<ChildStdout>,
    ) -> Option<Result<Option<Registered>, String>> {
        let expected = lock(shared).current.as_ref().map(|current| current.expected.clone())?;
        let Expected { trial, cwd, clock, .. } = &expected;
        let is_announced_again = || is_announced_again(path, step, *clock, &lines.ahead());
        Some(
            self.registrar
                .register(Announced { trial: *trial, step, cwd, path }, is_announced_again),
        )
    }

    fn gone(&self, shared: &Mutex<Shared>, status: Option<ExitStatus>) {
        let mut shared = lock(shared);
        shared.is_gone = true;
        let Some(mut current) = shared.current.take() else { return };
        current.print_end().into_iter().for_each(|input| self.send(input));
        let end = match (current.end.take(), current.not_started.take()) {
            (Some((JobEnd::NotStarted, _)), Some(why)) => Some(why),
            (Some((JobEnd::NotStarted, message)), None) => Some((JobEnd::Failed, message)),
            (end, _) => end,
        };
        match end {
            Some((end, message)) => self.send_end(&current, end, message),
            None => {
                let (end, how) = self.end_without_a_word(&current, status);
                self.send_end(&current, end, Some(how));
            }
        }
    }

    /// What a process died of that did not say so.
    fn end_without_a_word(
        &self,
        current: &Current,
        status: Option<ExitStatus>,
    ) -> (JobEnd, String) {
        let Some(signal) = status.and_then(|status| status.signal()) else {
            let status = status.map_or("unknown status".to_owned(), |status| status.to_string());
            return (JobEnd::Killed, format!("its process ended without a word ({status})"));
        };
        if processes::was_killed_for_memory(signal, current.memory_kills) {
            return (
                JobEnd::Oom,
                "its process was killed by signal 9, by the kernel: memory ran out".to_owned(),
            );
        }
        // An allocation that fails ends a Rust program at once, and it says so on its standard
        // error.
        match current.stderr_tail.telling() {
            Some((FailureCause::Oom, line)) if !self.single => (JobEnd::Oom, line.to_owned()),
            _ => (JobEnd::Killed, format!("its process was killed by signal {signal}")),
        }
    }

    fn send_end(&self, current: &Current, end: JobEnd, message: Option<String>) {
        let stderr_tail = current.stderr_tail.last();
        // A worker of the built-in trainer says itself what it died of.
        let cause = current.stderr_tail.cause().filter(|_| self.single);
        let message = match message {
            Some(message) if end == JobEnd::Failed && self.single && !stderr_tail.is_empty() => {
                Some(format!("{message}: {stderr_tail}"))
            }
            None if end == JobEnd::Finished => current.remarks.at_end(),
            message => message,
        };
        let message = match message
            .as_deref()
            .filter(|_| matches!(end, JobEnd::Failed | JobEnd::DeviceLost))
            .and_then(|message| Some((message, advice(message)?)))
        {
            Some((said, advice)) => Some(format!("{said}; {advice}")),
            None => message,
        };
        let end = match end {
            JobEnd::Finished => AttemptEnd::Completed,
            JobEnd::Paused => AttemptEnd::Paused,
            JobEnd::Stopped => AttemptEnd::Stopped,
            JobEnd::Interrupted => AttemptEnd::Interrupted,
            JobEnd::Diverged => AttemptEnd::Diverged,
            JobEnd::Failed | JobEnd::NotStarted => {
                AttemptEnd::Failed(cause.unwrap_or(FailureCause::Program))
            }
            JobEnd::Oom => AttemptEnd::Failed(FailureCause::Oom),
            JobEnd::DeviceLost => AttemptEnd::Failed(FailureCause::DeviceLost),
            JobEnd::Killed => AttemptEnd::Failed(FailureCause::WorkerLost),
            JobEnd::Refused => AttemptEnd::Refused,
        };
        self.send(Input::Ended {
            trial: current.expected.trial,
            attempt: current.expected.attempt,
            end,
            message,
        });
    }

    fn send(&self, input: Input) {
        // The runner is gone only when this process ends: then nobody is left to hear.
        let _runner_gone = self.inputs.send(input);
    }
}

/// What a supervisor says of its command's end.
fn read_aside(aside: UnixStream, shared: &Mutex<Shared>) {
    for_each_line(aside, LineEnd::Newline, |line, _| {
        let text = line
            .strip_prefix(PREFIX.as_bytes())
            .map(|text| String::from_utf8_lossy(text).trim_end().to_owned());
        if let (Some(Ok(MessageToRunner::End { end, message })), Some(current)) =
            (text.map(|text| MessageToRunner::parse(&text)), lock(shared).current.as_mut())
        {
            current.end.get_or_insert((end, message));
        }
    });
}

/// Whether a checkpoint at `path` is announced for another step in what a child said.
fn is_announced_again(path: &Path, step: u64, mut clock: Clock, said: &[u8]) -> bool {
    let is_it = |up: &MessageToRunner| matches!(up, MessageToRunner::Checkpoint { path: said, step: of } if said == path && *of != step);
    said.split(|byte| matches!(byte, b'\n' | b'\r'))
        .any(|line| matches!(Spoken::read(line, &mut clock), Spoken::Message(taken, _) if taken.iter().any(is_it)))
}

/// Waits until the runner has caught up with what was said.
fn wait_for_room(inputs: &Sender<Input>) {
    while inputs.len() > WAITING {
        std::thread::sleep(MOMENT);
    }
}

fn read_errors(stderr: Option<ChildStderr>, shared: &Mutex<Shared>, inputs: &Sender<Input>) {
    let Some(stderr) = stderr else { return };
    for_each_line(stderr, LineEnd::Newline, |line, piece| {
        wait_for_room(inputs);
        if let Some(current) = lock(shared).current.as_mut() {
            current.log.write(line);
            for input in current.print(Stream::Errors, line) {
                let _runner_gone = inputs.send(input);
            }
            current
                .stderr_tail
                .hear(&String::from_utf8_lossy(&line[..line.len().min(LONGEST_WORDS)]));
            let missed = matches!(piece, Piece::Whole)
                .then(|| Spoken::on_standard_error(line, current.expected.clock))
                .flatten();
            // Said once: nobody makes room for what is not waited for.
            if let Some(remark) = missed.filter(|remark| current.remarks.noted.insert(remark.kind))
            {
                current.note(&remark);
                let _runner_gone = inputs.send(current.remark(remark));
            }
        }
    });
}

/// What an attempt printed.
struct AttemptLog {
    file: File,
    written: u64,
}

impl AttemptLog {
    /// An attempt has one log, and begins it: what is there already was printed by one that the
    /// store forgot (its last moments went with the machine's power, or it was deleted).
    fn open(path: &Path) -> io::Result<Self> {
        if sqlite::is_open_here(path) {
            return Err(io::Error::new(
                io::ErrorKind::ResourceBusy,
                "it belongs to the store that is in use",
            ));
        }
        // Not written to: a link leads elsewhere, a pipe waits for a reader.
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        Ok(AttemptLog { file: File::create_new(path)?, written: 0 })
    }

    /// Appends; a log that cannot be written (a full disk) does not stop a trial.
    fn write(&mut self, bytes: &[u8]) {
        if self.written >= LOG_LIMIT {
            return;
        }
        self.written += bytes.len() as u64;
        let _disk_full = self.file.write_all(bytes);
        if self.written >= LOG_LIMIT {
            let _disk_full = self
                .file
                .write_all(b"\n[hpsearch] this log reached 64 MiB; the rest is not kept\n");
        }
    }
}
