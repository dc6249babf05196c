//! The foreground process of a run: it waits at the terminal while its child runs the study, so
//! that the run can be detached.
//!
//! A shell prompts again when the process that it started stops or ends, and a process cannot leave
//! its shell and continue. So `hpsearch run` on a terminal starts itself once more, and only waits;
//! the child, in the same process group, runs the study and has the screen. To detach, the child
//! starts its own session, and the waiting process ends. The run's process, its lease and its
//! trials are not affected.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, unbounded};
use rustix::process::{Pid, Signal, getpgid, getpgrp, setsid};
use rustix::stdio::{dup2_stderr, dup2_stdin, dup2_stdout};
use rustix::termios::tcgetpgrp;
use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGTERM, SIGTSTP};
use signal_hook::iterator::Signals;

use crate::config::shell;
use crate::runner::processes;
use crate::runner::processes::own_program;
use crate::study::provenance::masked_override;
use crate::tui::Before;

/// The argument after `worker` that starts the child; the command line of the run follows.
pub const WORD: &str = "--in-foreground";

/// The controlling terminal.
const TERMINAL: &str = "/dev/tty";

/// Time for a run to release the terminal when it is suspended.
const SUSPENDING: Duration = Duration::from_secs(5);

/// Time for a worker from its fork to its own process group.
const STARTING: Duration = Duration::from_secs(2);

/// From the child: it receives signals over the connection from now on.
const LISTENS: u8 = b'l';
/// From the child: it continues without the terminal.
const DETACHED: u8 = b'd';

/// Runs this command line in a child, and waits for it; returns the exit code. `None` if that is
/// impossible: the run then has the terminal itself, and cannot be detached.
pub fn wait_for_run() -> Option<ExitCode> {
    // The child's stdin is its connection to this process: it reopens the terminal, which must be
    // the one with the keyboard.
    tcgetpgrp(io::stdin()).ok()?;
    terminal().ok()?;
    let (line, far) = UnixStream::pair().ok()?;
    let mut caught = vec![SIGINT, SIGTERM, SIGTSTP, SIGCONT];
    if !processes::is_ignored(SIGHUP) {
        caught.push(SIGHUP);
    }
    let signals = Signals::new(caught).ok()?;
    let before = Before::remember().ok()?;
    let mut command = Command::new(own_program());
    command
        .arg0("hpsearch")
        .args(["worker", WORD])
        .args(std::env::args_os().skip(1))
        .stdin(Stdio::from(OwnedFd::from(far)));
    let run = command.spawn().ok()?;
    // Closes this process's copy of the child's end.
    drop(command);
    Some(wait(run, line, signals, &before))
}

fn wait(mut run: Child, mut line: UnixStream, signals: Signals, before: &Before) -> ExitCode {
    let listens = Arc::new(AtomicBool::new(false));
    if let Ok(line) = line.try_clone() {
        let (listens, run) = (Arc::clone(&listens), run.id());
        let passing = std::thread::Builder::new().name("signals".to_owned());
        // Without the thread, signals to this process have no effect, but those to the group still
        // reach the run.
        let _without = passing.spawn(move || pass_on(signals, &line, &listens, run));
    }
    let mut word = [0];
    while line.read_exact(&mut word).is_ok() {
        match word[0] {
            DETACHED => return ExitCode::SUCCESS,
            _ => listens.store(true, Ordering::Relaxed),
        }
    }
    let Ok(status) = run.wait() else { return ExitCode::FAILURE };
    if let Some(signal) = status.signal() {
        // A run that ends in order restores the terminal itself.
        if before.put_back() || ![SIGINT, SIGTERM, SIGHUP].contains(&signal) {
            let words: Vec<String> =
                std::env::args().skip(1).map(|word| masked_override(&word).to_string()).collect();
            let _closed = writeln!(
                io::stderr(),
                "the run was killed (signal {signal}); `hpsearch {}` continues",
                shell::quoted(&words)
            );
        }
        // Dies by the same signal, which shells report.
        let _ends_here = signal_hook::low_level::emulate_default_handler(signal);
    }
    ExitCode::from(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1))
}

/// Forwards signals to the run. A terminal's signal reaches both processes, and counts once there.
fn pass_on(mut signals: Signals, mut line: &UnixStream, listens: &AtomicBool, run: u32) {
    for signal in signals.forever() {
        match (
            listens.load(Ordering::Relaxed),
            u8::try_from(signal),
            Signal::from_named_raw(signal),
        ) {
            _ if signal == SIGTSTP => stop_behind(run),
            // When this process continues, so does the run; and also a worker that was stopped
            // between its fork and its own process group, which `fg` does not reach and the run
            // waits for.
            _ if signal == SIGCONT => processes::children(run)
                .into_iter()
                .chain([run])
                .for_each(|pid| processes::signal(pid, Signal::CONT)),
            (true, Ok(signal), _) => {
                let _run_has_ended = line.write_all(&[signal]);
            }
            (false, _, Some(signal)) => processes::signal(run, signal),
            _ => {}
        }
    }
}

/// Stops this process after the run has stopped, which releases the terminal first: the shell takes
/// it as soon as this process stops.
fn stop_behind(run: u32) {
    let until = Instant::now() + SUSPENDING;
    while !processes::is_stopped(run) {
        if Instant::now() >= until {
            return;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    processes::signal(std::process::id(), Signal::STOP);
}

fn terminal() -> io::Result<File> {
    OpenOptions::new().read(true).write(true).open(TERMINAL)
}

/// The run's connection to the process that waits at its terminal.
pub struct Foreground {
    line: UnixStream,
    is_detached: Arc<AtomicBool>,
    signals: Receiver<i32>,
}

impl Foreground {
    /// The connection of this process, if it is such a child; its stdin becomes the terminal.
    ///
    /// # Errors
    /// The terminal is gone.
    pub fn take() -> io::Result<Foreground> {
        let line = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
        dup2_stdin(terminal()?)?;
        let (tx, signals) = unbounded();
        let is_detached = Arc::new(AtomicBool::new(false));
        let (heard, detached) = (line.try_clone()?, Arc::clone(&is_detached));
        std::thread::Builder::new()
            .name("foreground".to_owned())
            .spawn(move || hear(heard, &tx, &detached))?;
        Ok(Foreground { line, is_detached, signals })
    }

    /// Signals to the waiting process, which arrive this way from now on.
    pub fn signals(&self) -> Receiver<i32> {
        let _gone_is_heard = (&self.line).write_all(&[LISTENS]);
        self.signals.clone()
    }

    /// Releases the terminal, and lets the waiting process end: from now on the terminal, its shell
    /// and its session do not affect this process. `say` prints the last message there; later
    /// output goes to `log`.
    ///
    /// # Errors
    /// The log cannot be written, or the system refuses a session; then nothing has changed.
    pub fn detach(&self, log: &Path, say: impl FnOnce()) -> io::Result<()> {
        let log = OpenOptions::new().append(true).create(true).open(log)?;
        let nothing = File::open("/dev/null")?;
        let group = getpgrp();
        setsid()?;
        wait_for_starts(group);
        self.is_detached.store(true, Ordering::Relaxed);
        say();
        dup2_stdin(nothing)?;
        dup2_stdout(&log)?;
        dup2_stderr(&log)?;
        // It may have ended already.
        let _gone_already = (&self.line).write_all(&[DETACHED]);
        Ok(())
    }
}

/// Waits for children that are being started: until they have their own process groups they are in
/// the terminal's `group`, which the end of the waiting process may hang up.
fn wait_for_starts(group: Pid) {
    let is_in_group = |pid: u32| {
        i32::try_from(pid)
            .ok()
            .and_then(Pid::from_raw)
            .is_some_and(|pid| getpgid(Some(pid)) == Ok(group))
    };
    let until = Instant::now() + STARTING;
    while Instant::now() < until
        && processes::children(std::process::id()).into_iter().any(is_in_group)
    {
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Reads messages of the waiting process. Its end means that the terminal is gone, unless it was
/// released: the run could not be seen or stopped any more.
fn hear(mut line: UnixStream, signals: &Sender<i32>, is_detached: &AtomicBool) {
    let hang_up = || processes::signal(std::process::id(), Signal::HUP);
    let mut signal = [0];
    while line.read_exact(&mut signal).is_ok() {
        match i32::from(signal[0]) {
            // The screen handles that one itself.
            SIGHUP => hang_up(),
            signal => {
                let _process_ends = signals.send(signal);
            }
        }
    }
    if !is_detached.load(Ordering::Relaxed) {
        hang_up();
    }
}

/// The command line of the run, if this process is such a child.
pub fn command_line(mut words: impl Iterator<Item = OsString>) -> Option<Vec<OsString>> {
    let program = words.next()?;
    let is_child = words.next()? == "worker" && words.next()? == WORD;
    is_child.then(|| std::iter::once(program).chain(words).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Option<Vec<OsString>> {
        command_line(line.split(' ').map(OsString::from))
    }

    #[test]
    fn the_childs_command_line_is_that_of_the_run() {
        assert_eq!(
            words("hpsearch worker --in-foreground run study.toml").unwrap(),
            ["hpsearch", "run", "study.toml"]
        );
        assert_eq!(
            (
                words("hpsearch run study.toml"),
                words("hpsearch worker --watch 7"),
                words("hpsearch")
            ),
            (None, None, None)
        );
    }
}
