//! SIGINT and SIGTERM as inputs: the first asks to leave, the second kills, the third aborts. SIGHUP asks to leave.

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

use crossbeam_channel::Sender;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::iterator::{Handle, Signals};

use crate::engine::Input;
use crate::processes;

/// Who hears that the terminal was closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HangUp {
    /// The runner: it leaves in order, unless it was started to stay (`nohup`).
    Leaves,
    /// The screen, which has the runner leave.
    IsTheScreens,
}

/// Listens until dropped.
pub struct SignalWatch {
    handle: Handle,
    received: Arc<AtomicI32>,
}

/// A limit on file sizes (`ulimit -f`) is an error of a write, with words, and not the end of this process. Programs that it
/// starts have the signal as usual: what catches it ends with this one.
pub fn outlive_file_size_limits() {
    let _dies_of_it_without = signal_hook::flag::register(SIGXFSZ, Arc::default());
}

impl SignalWatch {
    /// Starts listening; each signal becomes an input.
    pub fn start(inputs: Sender<Input>, hang_up: HangUp) -> std::io::Result<Self> {
        let mut signals = Signals::new([SIGINT, SIGTERM])?;
        if hang_up == HangUp::Leaves && !processes::is_ignored(SIGHUP) {
            signals.add_signal(SIGHUP)?;
        }
        let handle = signals.handle();
        let received = Arc::new(AtomicI32::new(0));
        let last = Arc::clone(&received);
        std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
            let mut count = 0;
            for signal in signals.forever() {
                last.store(signal, Ordering::Relaxed);
                // It comes twice when a terminal is closed, and both times means the same.
                if signal == SIGHUP {
                    let _runner_ends = inputs.send(Input::Interrupt);
                    continue;
                }
                // A runner that listens no more is ending by itself; that may still be cut short.
                let _runner_ends = match count {
                    0 => inputs.send(Input::Interrupt),
                    1 => inputs.send(Input::KillAll),
                    _ => std::process::abort(),
                };
                count += 1;
            }
        })?;
        Ok(SignalWatch { handle, received })
    }

    /// The last signal received.
    pub fn received(&self) -> Option<i32> {
        Some(self.received.load(Ordering::Relaxed)).filter(|signal| *signal != 0)
    }
}

impl Drop for SignalWatch {
    fn drop(&mut self) {
        self.handle.close();
    }
}
