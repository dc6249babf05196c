//! Listens to a child process: its messages become inputs, everything else its attempt's log.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, ChildStdout, ExitStatus};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use crossbeam_channel::Sender;

use super::causes::{LastWords, advice, cause_of};
use super::registration::{Registered, Registrar};
use crate::engine::Input;
use crate::event::AttemptEnd;
use crate::processes;
use crate::storage::sqlite;
use crate::study::FailureCause;
use crate::trial::{AttemptNumber, TrialNumber};
use crate::wire::{EndWord, LONGEST_LINE, PREFIX, Up};

/// A log grows to this size; what comes after is dropped, and said to be.
const LOG_LIMIT: u64 = 64 << 20;

/// So many inputs may wait for the runner; while there are more, children are not listened to, and wait in their pipes. A
/// trial that reports without end costs no memory then, and holds up the others by one turn.
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

/// What the two reading threads and the launcher share. A lock, since a job is announced before its child is told of
/// it and both streams of the child end in one log.
#[derive(Default)]
struct Shared {
    current: Option<Current>,
    exited: bool,
    was_killed: bool,
    failed: bool,
}

struct Current {
    trial: TrialNumber,
    attempt: AttemptNumber,
    log: AttemptLog,
    cwd: PathBuf,
    last_words: LastWords,
    remarks: Remarks,
    end: Option<(EndWord, Option<String>)>,
    /// Why there was nothing to start, where its command's place says so.
    not_started: Option<(EndWord, Option<String>)>,
    /// How many processes the kernel had killed for want of memory when it began.
    memory_kills: Option<u64>,
}

impl Current {
    /// Notes a line that was meant for the runner, and is none of its words.
    fn misread(&mut self, line: &[u8], why: &str) {
        self.log.write(line);
        self.log.write(format!("[hpsearch] the line above was not understood: {why}\n").as_bytes());
        self.remarks.misread += 1;
        why.clone_into(&mut self.remarks.why);
    }
}

/// What is odd about an attempt's reports; told once each, in its log.
#[derive(Default)]
struct Remarks {
    last_step: Option<u64>,
    repeated: bool,
    went_back: bool,
    /// Lines that were not understood, and why the last of them was not.
    misread: u64,
    why: String,
}

impl Remarks {
    /// What there is to say about a report at `step`, the first time it is so.
    fn at(&mut self, step: u64) -> Option<String> {
        let last = self.last_step.replace(step)?;
        if step == last && !std::mem::replace(&mut self.repeated, true) {
            return Some(format!("step {step} was reported twice: the later values count, the verdict stays"));
        }
        if step < last && !std::mem::replace(&mut self.went_back, true) {
            return Some(format!("step {step} came after step {last}: reports are kept by their steps, whatever their order"));
        }
        None
    }

    /// What an attempt's end should say of them.
    fn at_end(&self) -> Option<String> {
        let lines = if self.misread == 1 { "a line".to_owned() } else { format!("{} lines", self.misread) };
        (self.misread > 0).then(|| format!("{lines} after `{}` could not be understood, the last because {}", PREFIX.trim_end(), self.why))
    }
}

fn lock(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Listening {
    /// Announces that the child's words now belong to this attempt.
    pub fn expect_trial(&self, trial: TrialNumber, attempt: AttemptNumber, log: &Path, cwd: PathBuf) -> io::Result<()> {
        let log = AttemptLog::open(log)?;
        let (last_words, remarks, memory_kills) = (LastWords::default(), Remarks::default(), processes::memory_kills());
        lock(&self.shared).current = Some(Current { trial, attempt, log, cwd, last_words, remarks, end: None, not_started: None, memory_kills });
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
    /// Starts listening; the child is waited for. What it says `aside` nobody else can say: how a command ended.
    pub fn listen(self, mut child: Child, aside: UnixStream) -> io::Result<Listening> {
        let shared = Arc::new(Mutex::new(Shared::default()));
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let for_stderr = Arc::clone(&shared);
        let errors = std::thread::Builder::new().name("worker stderr".to_owned()).spawn(move || read_errors(stderr, &for_stderr))?;
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
            true => Some(std::thread::Builder::new().name("supervisor".to_owned()).spawn(move || read_aside(aside, &for_aside))?),
            false => None,
        };
        let for_stdout = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("worker stdout".to_owned()).spawn(move || {
            self.read_messages(stdout, &for_stdout);
            let status = exit.join().ok().flatten();
            let _panicked = (errors.join(), aside.map(JoinHandle::join));
            self.gone(&for_stdout, status);
        })?;
        Ok(Listening { shared, thread })
    }

    fn read_messages(&self, stdout: Option<ChildStdout>, shared: &Mutex<Shared>) {
        let Some(stdout) = stdout else { return };
        for_each_line(stdout, |line, is_whole| {
            // Before the lock is taken, which the runner needs: it is the one who makes room.
            while self.inputs.len() > WAITING {
                std::thread::sleep(MOMENT);
            }
            let message = if is_whole { message_of(line).map(|text| Up::parse(&text)) } else { None };
            // Before the lock, too: a disk may be slow.
            let registered = match &message {
                Some(Ok(Up::Checkpoint { path, .. })) => self.register(shared, path),
                _ => None,
            };
            let mut shared = lock(shared);
            let Some(current) = shared.current.as_mut() else { return };
            let Some(message) = message else {
                current.log.write(line);
                return;
            };
            match message {
                // Said in the command's place, before it could start; it counts if its supervisor says that, too.
                Ok(Up::End { end: end @ (EndWord::Failed | EndWord::Refused), message }) if self.single => {
                    current.not_started.get_or_insert((end, message));
                }
                Ok(Up::End { .. } | Up::Answer { .. } | Up::Text { .. } | Up::At { .. } | Up::Peak { .. }) if self.single => {
                    current.misread(line, "these are words of hpsearch's own, and no report");
                }
                Ok(Up::End { end, message }) => {
                    shared.failed |= matches!(end, EndWord::Failed | EndWord::Oom | EndWord::Killed | EndWord::Refused);
                    if let Some(current) = shared.current.take() {
                        self.send_end(&current, end, message);
                    }
                }
                Ok(Up::Report { step, metrics }) => {
                    if let Some(remark) = current.remarks.at(step) {
                        current.log.write(format!("[hpsearch] {remark}\n").as_bytes());
                    }
                    self.send(Input::Report { trial: current.trial, attempt: current.attempt, step, metrics });
                }
                Ok(Up::Checkpoint { step, .. }) => match registered {
                    Some(Ok(Registered { path, bytes })) => {
                        self.send(Input::Checkpoint { trial: current.trial, attempt: current.attempt, step, path, bytes });
                    }
                    Some(Err(why)) => current.misread(line, &format!("this checkpoint is not taken: {why}")),
                    None => {}
                },
                Ok(Up::Peak { bytes }) => self.send(Input::Peak { trial: current.trial, attempt: current.attempt, bytes }),
                Ok(Up::Answer { .. } | Up::Text { .. } | Up::At { .. }) => {}
                Err(error) => current.misread(line, &error.to_string()),
            }
        });
    }

    /// Looks at a checkpoint that the present attempt announces.
    fn register(&self, shared: &Mutex<Shared>, path: &Path) -> Option<Result<Registered, String>> {
        let (trial, cwd) = lock(shared).current.as_ref().map(|current| (current.trial, current.cwd.clone()))?;
        Some(self.registrar.register(trial, &cwd, path))
    }

    fn gone(&self, shared: &Mutex<Shared>, status: Option<ExitStatus>) {
        let mut shared = lock(shared);
        let Some(mut current) = shared.current.take() else { return };
        let end = match (current.end.take(), current.not_started.take()) {
            (Some((EndWord::NotStarted, _)), Some(why)) => Some(why),
            (Some((EndWord::NotStarted, message)), None) => Some((EndWord::Failed, message)),
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
    fn end_without_a_word(&self, current: &Current, status: Option<ExitStatus>) -> (EndWord, String) {
        let Some(signal) = status.and_then(|status| status.signal()) else {
            let status = status.map_or("unknown status".to_owned(), |status| status.to_string());
            return (EndWord::Killed, format!("its process ended without a word ({status})"));
        };
        if processes::was_killed_for_memory(signal, current.memory_kills) {
            return (EndWord::Oom, "its process was killed by signal 9, by the kernel: memory ran out".to_owned());
        }
        // An allocation that fails ends a Rust program at once, and it says so on its standard error.
        match current.last_words.telling() {
            Some((FailureCause::Oom, line)) if !self.single => (EndWord::Oom, line.to_owned()),
            _ => (EndWord::Killed, format!("its process was killed by signal {signal}")),
        }
    }

    fn send_end(&self, current: &Current, end: EndWord, message: Option<String>) {
        let last_words = current.last_words.last();
        // A worker of the built-in trainer says itself what it died of.
        let cause = match end {
            EndWord::Failed if self.single => current.last_words.cause(),
            EndWord::Failed => message.as_deref().and_then(cause_of),
            _ => None,
        };
        let message = match message {
            Some(message) if end == EndWord::Failed && self.single && !last_words.is_empty() => Some(format!("{message}: {last_words}")),
            None if end == EndWord::Finished => current.remarks.at_end(),
            message => message,
        };
        let message = match message.as_deref().filter(|_| end == EndWord::Failed).and_then(|message| Some((message, advice(message)?))) {
            Some((said, advice)) => Some(format!("{said}; {advice}")),
            None => message,
        };
        let end = match end {
            EndWord::Finished => AttemptEnd::Completed,
            EndWord::Paused => AttemptEnd::Paused,
            EndWord::Stopped => AttemptEnd::Stopped,
            EndWord::Interrupted => AttemptEnd::Interrupted,
            EndWord::Diverged => AttemptEnd::Diverged,
            EndWord::Failed | EndWord::NotStarted => AttemptEnd::Failed(cause.unwrap_or(FailureCause::Program)),
            EndWord::Oom => AttemptEnd::Failed(FailureCause::Oom),
            EndWord::Killed => AttemptEnd::Failed(FailureCause::WorkerLost),
            EndWord::Refused => AttemptEnd::Refused,
        };
        self.send(Input::Ended { trial: current.trial, attempt: current.attempt, end, message });
    }

    fn send(&self, input: Input) {
        // The runner is gone only when this process ends: then nobody is left to hear.
        let _runner_gone = self.inputs.send(input);
    }
}

/// What a supervisor says of its command's end.
fn read_aside(aside: UnixStream, shared: &Mutex<Shared>) {
    for_each_line(aside, |line, _| {
        if let (Some(Ok(Up::End { end, message })), Some(current)) = (message_of(line).map(|text| Up::parse(&text)), lock(shared).current.as_mut()) {
            current.end.get_or_insert((end, message));
        }
    });
}

/// The text after the prefix, if the line is a message.
fn message_of(line: &[u8]) -> Option<String> {
    let text = line.strip_prefix(PREFIX.as_bytes())?;
    Some(String::from_utf8_lossy(text).trim_end().to_owned())
}

fn read_errors(stderr: Option<ChildStderr>, shared: &Mutex<Shared>) {
    let Some(stderr) = stderr else { return };
    for_each_line(stderr, |line, _| {
        if let Some(current) = lock(shared).current.as_mut() {
            current.log.write(line);
            current.last_words.hear(&String::from_utf8_lossy(&line[..line.len().min(LONGEST_WORDS)]));
        }
    });
}

/// Calls `take` with each line, its newline included; a line longer than a message may be comes in pieces, none of them whole.
fn for_each_line(stream: impl Read, mut take: impl FnMut(&[u8], bool)) {
    let mut reader = BufReader::with_capacity(64 << 10, stream);
    let mut line = Vec::new();
    let mut at_start = true;
    loop {
        line.clear();
        let read = reader.by_ref().take(LONGEST_LINE as u64).read_until(b'\n', &mut line);
        if !matches!(read, Ok(count) if count > 0) {
            return;
        }
        let complete = line.last() == Some(&b'\n') || line.len() < LONGEST_LINE;
        take(&line, complete && at_start);
        at_start = complete;
    }
}

/// What an attempt printed.
struct AttemptLog {
    file: File,
    written: u64,
}

impl AttemptLog {
    /// An attempt has one log, and begins it: what is there already was printed by one that the store forgot (its last
    /// moments went with the machine's power, or it was deleted).
    fn open(path: &Path) -> io::Result<Self> {
        if sqlite::is_open_here(path) {
            return Err(io::Error::new(io::ErrorKind::ResourceBusy, "it belongs to the store that is in use"));
        }
        let file = File::create(path)?;
        Ok(AttemptLog { file, written: 0 })
    }

    /// Appends; a log that cannot be written (a full disk) does not stop a trial.
    fn write(&mut self, bytes: &[u8]) {
        if self.written >= LOG_LIMIT {
            return;
        }
        self.written += bytes.len() as u64;
        let _disk_full = self.file.write_all(bytes);
        if self.written >= LOG_LIMIT {
            let _disk_full = self.file.write_all(b"\n[hpsearch] this log reached 64 MiB; the rest is not kept\n");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_longer_than_a_message_comes_in_pieces_that_are_never_messages() {
        let mut text = vec![b'x'; LONGEST_LINE + 10];
        text.extend_from_slice(b"\n@hpsearch {}\nlast");
        let mut seen = Vec::new();
        for_each_line(text.as_slice(), |line, whole| seen.push((line.len(), whole)));
        assert_eq!(seen, [(LONGEST_LINE, false), (11, false), (13, true), (4, true)]);
    }
}
