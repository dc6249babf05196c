//! The thread that follows an attempt's metric files.

use std::io;
use std::thread::JoinHandle;
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};

use crate::runner::metric_files::{MetricFileItem, MetricFiles, Rest};
use crate::runner::threads;

/// Polling interval.
const INTERVAL: Duration = Duration::from_millis(250);

/// Most consecutive reads without a pause: another program may write endlessly.
const MOST_AT_ONCE: usize = 10_000;

/// The thread's handle.
pub(super) struct Following {
    /// Never sent to; dropping it ends the thread.
    running: Sender<()>,
    thread: JoinHandle<Vec<String>>,
}

impl Following {
    /// Starts it; `take` receives what is found.
    pub fn start(
        files: MetricFiles,
        take: impl FnMut(MetricFileItem) + Send + 'static,
    ) -> io::Result<Self> {
        let (running, ends) = bounded(0);
        let thread = threads::spawn("metric files", move || follow(files, take, &ends))?;
        Ok(Following { running, thread })
    }

    /// Reads the rest after the program has ended. Returns remarks on files without metrics.
    pub fn end(self) -> Vec<String> {
        drop(self.running);
        self.thread.join().unwrap_or_default()
    }
}

fn follow(
    mut files: MetricFiles,
    mut take: impl FnMut(MetricFileItem),
    ends: &Receiver<()>,
) -> Vec<String> {
    loop {
        let is_at_end = !matches!(ends.recv_timeout(INTERVAL), Err(RecvTimeoutError::Timeout));
        for _ in 0..MOST_AT_ONCE {
            let (found, rest) = files.poll();
            found.into_iter().for_each(&mut take);
            if rest == Rest::Nothing {
                break;
            }
        }
        if is_at_end {
            let (found, empty) = files.end();
            found.into_iter().for_each(take);
            return empty;
        }
    }
}
