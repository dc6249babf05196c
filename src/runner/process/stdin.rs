//! The stdin of a child: lines for a thread to write, since a stopped child does not read and must
//! not block the runner.

use std::io::{self, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::Mutex;

use crossbeam_channel::{Sender, unbounded};

use crate::runner::protocol::MessageToTrial;
use crate::runner::{processes, threads};

/// A child that leaves this many lines unread is stopped, and is killed: a running one always
/// reads.
const UNREAD: usize = 1 << 18;

/// Writes to a child's stdin, shared with its job. A separate thread writes, since a stopped child
/// does not read and must not block the runner. A lock, since closing removes the sender from both.
pub(super) struct ChildStdin {
    lines: Mutex<Option<Sender<String>>>,
    pid: u32,
}

impl ChildStdin {
    /// Writes to `stream`, which is the stdin of the process `pid`.
    pub fn start(mut stream: UnixStream, pid: u32) -> io::Result<Self> {
        let (lines, heard) = unbounded::<String>();
        threads::spawn("worker stdin", move || {
            for line in heard {
                // A dead child does not matter here: its end arrives as an input.
                if stream.write_all(format!("{line}\n").as_bytes()).is_err() {
                    return;
                }
            }
            let _gone_already = stream.shutdown(Shutdown::Write);
        })?;
        Ok(ChildStdin { lines: Mutex::new(Some(lines)), pid })
    }

    /// Sends a line.
    pub fn line(&self, text: &str) {
        let Ok(guard) = self.lines.lock() else { return };
        let Some(lines) = guard.as_ref() else { return };
        let _child_gone = lines.send(text.to_owned());
        if lines.len() > UNREAD {
            processes::kill(self.pid);
        }
    }

    /// Sends a message.
    pub fn send(&self, message: &MessageToTrial) {
        self.line(&message.line());
    }

    /// Closes it, once what was sent is written.
    pub fn close(&self) {
        if let Ok(mut guard) = self.lines.lock() {
            *guard = None;
        }
    }
}
