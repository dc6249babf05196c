//! Delivers notices on a thread, to a program or a webhook, at most one message a minute, so that a
//! study never waits.

#[cfg(feature = "webhook")]
mod webhook;

use std::ffi::OsString;
use std::io::{self, Write};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, unbounded};

use super::processes;
use super::threads;
use crate::study::notify::Notice;

/// Minimum interval between messages.
const PERIOD: Duration = Duration::from_secs(60);

/// Time limit of a program or a server.
const PATIENCE: Duration = Duration::from_secs(20);

/// Polling interval for the program's end.
const LOOK: Duration = Duration::from_millis(20);

/// Attempts per message; then the next one replaces it.
const TRIES: u32 = 3;

/// The recipients of messages. Secrets are kept only here.
#[derive(Clone, Default)]
pub struct Recipients {
    /// A program with its arguments, and its working directory.
    pub command: Option<(Vec<String>, PathBuf)>,
    /// The URL of a webhook.
    pub webhook: Option<String>,
}

/// Delivers messages until it is finished.
pub struct Notifier {
    thread: Option<JoinHandle<()>>,
    trouble: Arc<Mutex<Option<String>>>,
}

/// Accepts notices, one JSON object per line.
pub struct Mailbox {
    notices: Sender<Notice>,
    rest: Vec<u8>,
}

impl Write for Mailbox {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.rest.extend(bytes);
        while let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.rest.drain(..=end).collect();
            if let Ok(notice) = serde_json::from_slice(&line) {
                // The thread outlives this sender.
                let _sent = self.notices.send(notice);
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Notifier {
    /// Starts the thread, which delivers what is written to the mailbox.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub fn start(recipients: Recipients) -> io::Result<(Notifier, Mailbox)> {
        let (tx, rx) = unbounded();
        let trouble: Arc<Mutex<Option<String>>> = Arc::default();
        let reported = Arc::clone(&trouble);
        let thread = threads::spawn("notifier", move || deliver(&rx, &recipients, &reported))?;
        Ok((Notifier { thread: Some(thread), trouble }, Mailbox { notices: tx, rest: Vec::new() }))
    }

    /// Waits briefly for the last message; returns why one was not delivered, if so.
    pub fn finish(mut self) -> Option<String> {
        let until = Instant::now() + PATIENCE + Duration::from_secs(1);
        if let Some(thread) = self.thread.take() {
            while !thread.is_finished() && Instant::now() < until {
                thread::sleep(LOOK);
            }
        }
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Delivers messages: the first at once, later ones merged per minute, and the rest at the end.
fn deliver(notices: &Receiver<Notice>, to: &Recipients, trouble: &Mutex<Option<String>>) {
    let mut waiting: Vec<Notice> = Vec::new();
    let mut sent: Option<Instant> = None;
    let mut tries = 0;
    loop {
        let due = sent.map(|sent| sent + PERIOD);
        let next = match due {
            Some(due) if !waiting.is_empty() => notices.recv_deadline(due),
            _ => notices.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        let is_over = next == Err(RecvTimeoutError::Disconnected);
        waiting.extend(next);
        // Simultaneous notices are one message.
        while let Ok(notice) = notices.try_recv() {
            waiting.push(notice);
        }
        let is_due = is_over || due.is_none_or(|due| Instant::now() >= due);
        if is_due && let Some(message) = Notice::together(&waiting) {
            let result = hand_over(&message, to);
            sent = Some(Instant::now());
            tries += 1;
            let failed = result.is_err();
            *trouble.lock().unwrap_or_else(PoisonError::into_inner) = result.err();
            if !failed || tries == TRIES {
                waiting.clear();
                tries = 0;
            }
        }
        if is_over {
            return;
        }
    }
}

/// Delivers a message to all recipients; returns the first error.
fn hand_over(message: &Notice, to: &Recipients) -> Result<(), String> {
    let by_command = match &to.command {
        Some((words, directory)) => run(message, words, directory),
        None => Ok(()),
    };
    let by_webhook = match &to.webhook {
        #[cfg(feature = "webhook")]
        Some(address) => webhook::post(address, message, PATIENCE),
        #[cfg(not(feature = "webhook"))]
        Some(_) => Err(NO_WEBHOOKS.to_owned()),
        None => Ok(()),
    };
    by_command.and(by_webhook)
}

/// The error of a build without webhooks.
#[cfg(not(feature = "webhook"))]
pub const NO_WEBHOOKS: &str = "this build posts to no webhooks: build it with `--features \
    webhook`, or have `[notify] command` run curl";

/// Runs a program with the message on its standard input, in its environment and, for `{text}` and
/// `{study}`, in its arguments.
fn run(message: &Notice, words: &[String], directory: &PathBuf) -> Result<(), String> {
    let Some((program, arguments)) = words.split_first() else { return Ok(()) };
    let word = |word: &String| -> OsString {
        word.replace("{study}", &message.study).replace("{text}", &message.text).into()
    };
    let failed = |error: io::Error| format!("`{program}` cannot be run: {error}");
    let mut child = Command::new(program)
        .args(arguments.iter().map(word))
        .current_dir(directory)
        .env("HPSEARCH_NOTICE", &message.text)
        .env("HPSEARCH_OCCASION", message.occasion.as_str())
        .env("HPSEARCH_STUDY", &message.study)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
        .map_err(failed)?;
    if let Some(mut stdin) = child.stdin.take()
        && let Ok(json) = serde_json::to_string(message)
    {
        // A message fits into a pipe; the program need not read it.
        let _read_or_not = writeln!(stdin, "{json}");
    }
    let until = Instant::now() + PATIENCE;
    loop {
        // The reaper of trials' processes may have waited for it.
        let Ok(ended) = child.try_wait() else { return Ok(()) };
        match ended {
            Some(status) if status.success() => return Ok(()),
            Some(status) => {
                let how = match (status.code(), status.signal()) {
                    (Some(code), _) => format!("exit status {code}"),
                    (_, signal) => format!("signal {}", signal.unwrap_or_default()),
                };
                return Err(format!("`{program}` ended with {how}"));
            }
            None if Instant::now() >= until => {
                kill(&mut child);
                return Err(format!("`{program}` took more than {} s", PATIENCE.as_secs()));
            }
            None => thread::sleep(LOOK),
        }
    }
}

/// Kills a program and its descendants.
fn kill(child: &mut Child) {
    processes::kill_group(child.id());
    let _gone = child.wait();
}
