//! SIGINT and SIGTERM as inputs: the first asks to leave, the second kills, the third aborts.

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

use crossbeam_channel::Sender;
use signal_hook::consts::{SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::iterator::{Handle, Signals};

use crate::engine::Input;

/// Listens until dropped.
pub struct SignalWatch {
    handle: Handle,
    received: Arc<AtomicI32>,
}

impl SignalWatch {
    /// Starts listening; each signal becomes an input.
    pub fn start(inputs: Sender<Input>) -> std::io::Result<Self> {
        // A limit on file sizes is an error of a write, with words, and not the end of this process.
        signal_hook::flag::register(SIGXFSZ, Arc::default())?;
        let mut signals = Signals::new([SIGINT, SIGTERM])?;
        let handle = signals.handle();
        let received = Arc::new(AtomicI32::new(0));
        let last = Arc::clone(&received);
        std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
            for (count, signal) in signals.forever().enumerate() {
                last.store(signal, Ordering::Relaxed);
                // A runner that listens no more is ending by itself; that may still be cut short.
                let _runner_ends = match count {
                    0 => inputs.send(Input::Interrupt),
                    1 => inputs.send(Input::KillAll),
                    _ => std::process::abort(),
                };
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
