//! What the processes of an attempt print here that another agent leads: it becomes part of the log
//! there.

use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Interval between looks at logs.
const INTERVAL: Duration = Duration::from_millis(500);

/// Bytes that are sent at a time.
const PIECE: usize = 256 << 10;

/// The log of a node, and how much of it was sent.
#[derive(Debug)]
pub(super) struct NodeLog {
    path: PathBuf,
    sent: u64,
    looked: Instant,
}

impl NodeLog {
    /// Of an attempt that begins.
    pub fn at(path: PathBuf) -> Self {
        NodeLog { path, sent: 0, looked: Instant::now() }
    }

    /// Whether it is time to look at it again.
    pub fn is_due(&mut self) -> bool {
        let is_due = self.looked.elapsed() >= INTERVAL;
        if is_due {
            self.looked = Instant::now();
        }
        is_due
    }

    /// Removes it.
    pub fn remove(self) {
        let _removed_with_the_trial = fs::remove_file(self.path);
    }

    /// The next whole lines; what is left of them at the `end`.
    pub fn next_lines(&mut self, end: bool) -> Option<Vec<u8>> {
        let mut bytes = vec![0; PIECE];
        let length = File::open(&self.path).ok()?.read_at(&mut bytes, self.sent).ok()?;
        bytes.truncate(length);
        if let Some(last) = bytes.iter().rposition(|byte| *byte == b'\n') {
            bytes.truncate(last + 1);
        } else if length < PIECE && !end {
            return None;
        }
        self.sent += bytes.len() as u64;
        (!bytes.is_empty()).then_some(bytes)
    }
}
