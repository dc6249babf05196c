//! The thread that follows the files of an attempt in which its program writes metrics.

use std::io;
use std::thread::JoinHandle;
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};

use crate::runner::metric_files::{Found, MetricFiles, Rest};
use crate::runner::threads;

/// How often files are looked at.
const INTERVAL: Duration = Duration::from_millis(250);

/// So often files are read on without a pause: another program may write them without end.
const MOST_AT_ONCE: usize = 10_000;

/// The thread.
pub(super) struct Following {
    /// Nothing is sent: it is at the end when this is dropped.
    running: Sender<()>,
    thread: JoinHandle<Vec<String>>,
}

impl Following {
    /// Starts it; `take` gets what is found.
    pub fn start(files: MetricFiles, take: impl FnMut(Found) + Send + 'static) -> io::Result<Self> {
        let (running, ends) = bounded(0);
        let thread = threads::spawn("metric files", move || follow(files, take, &ends))?;
        Ok(Following { running, thread })
    }

    /// Reads everything that is written by now: the program has ended. Gives what there is to say
    /// of files in which nothing was found.
    pub fn end(self) -> Vec<String> {
        drop(self.running);
        self.thread.join().unwrap_or_default()
    }
}

fn follow(mut files: MetricFiles, mut take: impl FnMut(Found), ends: &Receiver<()>) -> Vec<String> {
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
