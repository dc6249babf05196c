//! A training that is interrupted: its worker is ended, so that what it saved can be kept.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::{Duration, Instant};

use crate::cli::exit::Exit;
use crate::runner::signals::PassedOn;
use crate::runner::{processes, threads};

/// Interval at which workers that were just being started are ended.
const AGAIN: Duration = Duration::from_millis(50);

/// Signals within this time are one.
const TOGETHER: Duration = Duration::from_secs(1);

/// Ends the workers of this process at the first signal, and the process at the second.
pub struct Interruption {
    received: Arc<AtomicI32>,
    _listening: PassedOn,
}

impl Interruption {
    /// Starts listening.
    ///
    /// # Errors
    /// The system refuses it.
    pub fn watch() -> io::Result<Self> {
        let listening = PassedOn::start()?;
        let received = Arc::<AtomicI32>::default();
        let (signals, first) = (listening.signals().clone(), received.clone());
        threads::spawn("interruption", move || {
            // The channel closes without a signal when nothing is trained any more.
            let Ok(signal) = signals.recv() else { return };
            first.store(signal, Ordering::Relaxed);
            let at = Instant::now();
            loop {
                processes::children(std::process::id()).into_iter().for_each(processes::kill);
                // One that was sent to the process and to its group is one.
                if signals.recv_timeout(AGAIN).is_ok() && at.elapsed() > TOGETHER {
                    std::process::exit(exit_of(signal).code().into());
                }
            }
        })?;
        Ok(Interruption { received, _listening: listening })
    }

    /// The exit code of the first signal, if there was one.
    pub fn exit(&self) -> Option<Exit> {
        match self.received.load(Ordering::Relaxed) {
            0 => None,
            signal => Some(exit_of(signal)),
        }
    }
}

fn exit_of(signal: i32) -> Exit {
    match PassedOn::asks_to_leave(signal) {
        Some("SIGTERM") => Exit::Terminated,
        Some("SIGHUP") => Exit::HungUp,
        _ => Exit::Interrupted,
    }
}
