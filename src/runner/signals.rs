//! SIGINT and SIGTERM as inputs: the first asks to exit, the second kills, the third aborts. SIGHUP
//! asks to exit, and SIGURG an agent.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use crossbeam_channel::{Receiver, Sender, never, select, unbounded};
use nix::sys::signal::SigSet;
use signal_hook::consts::{
    SIGALRM, SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGURG, SIGUSR1, SIGUSR2, SIGXFSZ,
};
use signal_hook::iterator::{Handle, Signals};

use crate::engine::Input;
use crate::runner::{processes, threads};

/// Who handles a closed terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HangUp {
    /// The runner: it exits in order, unless it ignores SIGHUP (`nohup`).
    Leaves,
    /// The screen, which stops the runner.
    IsTheScreens,
}

/// Handles signals until dropped.
pub struct SignalWatch {
    handle: Handle,
    received: Arc<AtomicI32>,
}

/// Receives the signals sent to a foreground program, to forward them.
pub struct PassedOn {
    handle: Handle,
    signals: Receiver<i32>,
}

impl PassedOn {
    /// Starts listening. Signals that were ignored when this process began stay ignored.
    ///
    /// # Errors
    /// The system refuses it.
    pub fn start() -> std::io::Result<Self> {
        let mut signals = Signals::new([SIGINT, SIGTERM, SIGUSR1, SIGUSR2])?;
        if !processes::is_ignored(SIGHUP) {
            signals.add_signal(SIGHUP)?;
        }
        let handle = signals.handle();
        let (tx, received) = unbounded();
        threads::spawn("signals", move || {
            for signal in signals.forever() {
                let _nobody_listens_any_more = tx.send(signal);
            }
        })?;
        Ok(PassedOn { handle, signals: received })
    }

    /// The signals in the order of arrival.
    pub fn signals(&self) -> &Receiver<i32> {
        &self.signals
    }

    /// The usual name of a signal that asks a program to exit; `None` for others.
    pub fn asks_to_leave(signal: i32) -> Option<&'static str> {
        match signal {
            SIGINT => Some("SIGINT"),
            SIGTERM => Some("SIGTERM"),
            SIGHUP => Some("SIGHUP"),
            _ => None,
        }
    }
}

impl Drop for PassedOn {
    fn drop(&mut self) {
        self.handle.close();
    }
}

/// Signals that a trial does not ignore because a parent of hpsearch does. `nohup` ignores SIGHUP
/// on purpose, a shell those of the terminal, and the standard library resets SIGPIPE.
const NOT_INHERITED: [i32; 7] = [SIGCHLD, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGALRM];

/// Undoes what a parent may have left to this process and, through it, to trials: no signal is
/// blocked, and those that were ignored have the default action in programs that it starts. It
/// still ignores them itself, except SIGCHLD: without it the system forgets how children ended.
///
/// To be called before there are threads.
pub fn undo_inherited() {
    let _unless_the_system_refuses = SigSet::all().thread_unblock();
    for signal in NOT_INHERITED.into_iter().filter(|signal| processes::is_ignored(*signal)) {
        // `exec` resets a handler, and leaves what is ignored.
        let _stays_ignored = signal_hook::flag::register(signal, Arc::default());
    }
}

/// Makes a limit on file sizes (`ulimit -f`) an error of the write instead of a fatal signal. Child
/// processes have the default action: a handler is reset by `exec`.
pub fn outlive_file_size_limits() {
    let _dies_of_it_without = signal_hook::flag::register(SIGXFSZ, Arc::default());
}

/// Keeps SIGTERM from ending this process: a scheduler sends it to all processes of a job, and the
/// agent among them asks the others to leave. Programs that it starts have the default action.
/// Returns whether it has come.
pub fn outlive_termination() -> Arc<AtomicBool> {
    let received = Arc::default();
    let _dies_of_it_without = signal_hook::flag::register(SIGTERM, Arc::clone(&received));
    received
}

impl SignalWatch {
    /// Starts listening; each signal becomes an input. `passed_on` receives those sent to another
    /// process of this terminal: a signal that reached both, as Ctrl-C does, counts once.
    pub fn start(
        inputs: Sender<Input>,
        hang_up: HangUp,
        passed_on: Option<Receiver<i32>>,
    ) -> std::io::Result<Self> {
        let mut signals = Signals::new([SIGINT, SIGTERM])?;
        if hang_up == HangUp::Leaves && !processes::is_ignored(SIGHUP) {
            signals.add_signal(SIGHUP)?;
        }
        let handle = signals.handle();
        let received = Arc::new(AtomicI32::new(0));
        let last = Arc::clone(&received);
        let (tx, own) = unbounded();
        threads::spawn("signals", move || {
            for signal in signals.forever() {
                let _nobody_counts_any_more = tx.send(signal);
            }
        })?;
        let passed_on = passed_on.unwrap_or_else(never);
        threads::spawn("interrupts", move || count(&own, passed_on, &inputs, &last))?;
        Ok(SignalWatch { handle, received })
    }

    /// Also takes SIGURG as a request to exit, which programs without a handler do not notice: a
    /// scheduler sends its notice to trials, too.
    ///
    /// # Errors
    /// The system refuses it.
    pub fn take_notice(&self) -> std::io::Result<()> {
        self.handle.add_signal(SIGURG)
    }

    /// The last signal received.
    pub fn received(&self) -> Option<i32> {
        Some(self.received.load(Ordering::Relaxed)).filter(|signal| *signal != 0)
    }
}

/// Turns signals into inputs, until `own` is closed.
fn count(
    own: &Receiver<i32>,
    mut passed_on: Receiver<i32>,
    inputs: &Sender<Input>,
    last: &AtomicI32,
) {
    let (mut sent_here, mut sent_there) = (0, 0);
    loop {
        let before = sent_here.max(sent_there);
        let signal = select! {
            recv(own) -> signal => match signal {
                // It arrives twice when a terminal is closed, with the same meaning.
                Ok(signal @ (SIGHUP | SIGURG)) => {
                    last.store(signal, Ordering::Relaxed);
                    let _runner_ends = inputs.send(Input::Interrupt);
                    continue;
                }
                Ok(signal) => {
                    sent_here += 1;
                    signal
                }
                Err(_) => return,
            },
            recv(passed_on) -> signal => match signal {
                Ok(signal) => {
                    sent_there += 1;
                    signal
                }
                Err(_) => {
                    passed_on = never();
                    continue;
                }
            },
        };
        last.store(signal, Ordering::Relaxed);
        // A signal to a process group arrives on both channels.
        if sent_here.max(sent_there) == before {
            continue;
        }
        // A runner that has stopped listening is ending; that can still be aborted.
        let _runner_ends = match before {
            0 => inputs.send(Input::Interrupt),
            1 => inputs.send(Input::KillAll),
            _ => std::process::abort(),
        };
    }
}

impl Drop for SignalWatch {
    fn drop(&mut self) {
        self.handle.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The inputs for these signals: own ones, and forwarded ones.
    fn inputs(signals: &[(&str, i32)]) -> Vec<Input> {
        let (own, own_rx) = unbounded();
        let (passed_on, passed_on_rx) = unbounded();
        let (tx, rx) = unbounded();
        let last = Arc::new(AtomicI32::new(0));
        let counting = std::thread::spawn(move || count(&own_rx, passed_on_rx, &tx, &last));
        for (whose, signal) in signals {
            if *whose == "own" { own.send(*signal) } else { passed_on.send(*signal) }.unwrap();
            while !own.is_empty() || !passed_on.is_empty() {
                std::thread::yield_now();
            }
        }
        drop((own, passed_on));
        counting.join().unwrap();
        rx.try_iter().collect()
    }

    #[test]
    fn a_signal_that_reaches_the_waiting_process_too_counts_once() {
        let (own, other) = (("own", SIGINT), ("other", SIGINT));
        let both = [Input::Interrupt, Input::KillAll];
        for (signals, expected) in [
            (&[own, other][..], &both[..1]),
            (&[other, own], &both[..1]),
            (&[own, own, other, other], &both),
            (&[own, other, other, own], &both),
            // Sent to one of them only.
            (&[("other", SIGTERM), ("other", SIGTERM)], &both),
            (&[own, own], &both),
            // Repeated hang-ups of a closed terminal still only ask to exit.
            (&[("own", SIGHUP), ("own", SIGHUP)], &[Input::Interrupt, Input::Interrupt]),
        ] {
            assert_eq!(inputs(signals), expected, "{signals:?}");
        }
    }
}
