//! The queue of decisions that a command has not read yet: in memory while short, then in an
//! unlinked file.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::ChildStdin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use crate::runner::threads;

/// Most bytes queued in memory.
const MEMORY: usize = 64 << 10;

/// Most bytes queued.
const LIMIT: u64 = 64 << 20;

/// Bytes per read of the file.
const CHUNK: u64 = 64 << 10;

/// Why a decision cannot be queued.
#[derive(Debug, thiserror::Error)]
pub(super) enum QueueError {
    /// The queue is full.
    #[error("more than {} MiB of verdicts are waiting to be read", LIMIT >> 20)]
    Full,
    /// The file cannot be written.
    #[error("verdicts that are waiting to be read cannot be stored: {0}")]
    NotStored(#[from] io::Error),
}

/// A queue in front of a command's stdin, so that sending does not block.
pub(super) struct VerdictQueue {
    shared: Arc<Shared>,
    /// The command's stdin, to see how much of it is unread.
    pipe: OwnedFd,
}

/// A lock rather than a channel, since the sender moves a long queue to a file.
struct Shared {
    spool: Mutex<Spool>,
    more: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Spool> {
        self.spool.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl VerdictQueue {
    /// Starts the thread that writes to `stdin`; a long queue is stored in a file in `directory`.
    pub fn start(stdin: ChildStdin, directory: PathBuf) -> io::Result<Self> {
        let shared =
            Arc::new(Shared { spool: Mutex::new(Spool::new(directory)), more: Condvar::new() });
        let writer = Arc::clone(&shared);
        let pipe = stdin.as_fd().try_clone_to_owned()?;
        threads::spawn("verdicts", move || write_verdicts(stdin, &writer))?;
        Ok(VerdictQueue { shared, pipe })
    }

    /// Number of bytes queued so far.
    pub fn queued(&self) -> u64 {
        self.shared.lock().queued
    }

    /// How many of them the command may have read.
    pub fn read(&self) -> u64 {
        let sent = self.shared.lock().sent;
        sent.saturating_sub(rustix::io::ioctl_fionread(&self.pipe).unwrap_or(0))
    }

    /// Queues a decision; it is dropped if the command has closed its stdin.
    pub fn send(&self, line: &str) -> Result<(), QueueError> {
        self.shared.lock().push(line)?;
        self.shared.more.notify_one();
        Ok(())
    }
}

fn write_verdicts(mut stdin: ChildStdin, shared: &Shared) {
    loop {
        let mut spool = shared.lock();
        let chunk = loop {
            match spool.take() {
                Ok(Some(chunk)) => break Some(chunk),
                Ok(None) => spool = shared.more.wait(spool).unwrap_or_else(PoisonError::into_inner),
                Err(_) => break None,
            }
        };
        let length = chunk.as_ref().map_or(0, |chunk| chunk.len() as u64);
        // Counted first: what is on its way may have been read.
        spool.sent += length;
        drop(spool);
        let written = chunk.is_some_and(|chunk| stdin.write_all(&chunk).is_ok());
        if !written {
            let mut spool = shared.lock();
            spool.sent -= length;
            spool.is_closed = true;
            return;
        }
    }
}

/// The queue: first the part in memory, then that in the file.
struct Spool {
    directory: PathBuf,
    memory: Vec<u8>,
    file: Option<File>,
    /// Offsets of reading and writing.
    read: u64,
    written: u64,
    /// Bytes that were queued, and those of them that are in the command's pipe.
    queued: u64,
    sent: u64,
    is_closed: bool,
}

impl Spool {
    fn new(directory: PathBuf) -> Self {
        Spool {
            directory,
            memory: Vec::new(),
            file: None,
            read: 0,
            written: 0,
            queued: 0,
            sent: 0,
            is_closed: false,
        }
    }

    fn push(&mut self, line: &str) -> Result<(), QueueError> {
        self.queued += line.len() as u64 + 1;
        if self.is_closed {
            return Ok(());
        }
        let line = format!("{line}\n");
        let in_file = self.written - self.read;
        if self.memory.len() as u64 + in_file + line.len() as u64 > LIMIT {
            return Err(QueueError::Full);
        }
        if in_file == 0 && self.memory.len() + line.len() <= MEMORY {
            self.memory.extend_from_slice(line.as_bytes());
            return Ok(());
        }
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(unlinked_file(&self.directory)?),
        };
        file.write_all_at(line.as_bytes(), self.written)?;
        self.written += line.len() as u64;
        Ok(())
    }

    fn take(&mut self) -> io::Result<Option<Vec<u8>>> {
        if !self.memory.is_empty() {
            return Ok(Some(std::mem::take(&mut self.memory)));
        }
        let Some(file) = self.file.as_ref().filter(|_| self.read < self.written) else {
            return Ok(None);
        };
        let length = (self.written - self.read).min(CHUNK);
        let mut chunk = vec![0; usize::try_from(length).unwrap_or(0)];
        file.read_exact_at(&mut chunk, self.read)?;
        self.read += length;
        if self.read == self.written {
            file.set_len(0)?;
            (self.read, self.written) = (0, 0);
        }
        Ok(Some(chunk))
    }
}

/// An unlinked file, gone when it is closed. If this process dies before unlinking it, its name
/// marks it as temporary.
fn unlinked_file(directory: &Path) -> io::Result<File> {
    let path = directory.join(format!(".answers.{}-0.tmp", std::process::id()));
    let file = File::options().read(true).write(true).create(true).truncate(true).open(&path)?;
    fs::remove_file(&path)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drained(spool: &mut Spool) -> String {
        let mut all = Vec::new();
        while let Some(piece) = spool.take().unwrap() {
            all.extend(piece);
        }
        String::from_utf8(all).unwrap()
    }

    #[test]
    fn verdicts_keep_their_order_in_memory_and_in_a_file() {
        let directory = tempfile::tempdir().unwrap();
        let mut spool = Spool::new(directory.path().to_owned());
        let mut expected = String::new();
        let mut found = String::new();
        for number in 0..30_000 {
            let line = format!("answer {number}");
            expected += &format!("{line}\n");
            spool.push(&line).unwrap();
            // Read occasionally, like a command that works between its answers.
            if number % 9_999 == 0 {
                found += &String::from_utf8(spool.take().unwrap().unwrap()).unwrap();
            }
        }
        assert!(
            spool.file.is_some() && fs::read_dir(directory.path()).unwrap().count() == 0,
            "the file has no name"
        );
        found += &drained(&mut spool);
        assert_eq!(found, expected);
        spool.push("last").unwrap();
        assert_eq!((drained(&mut spool).as_str(), spool.written), ("last\n", 0));
    }

    #[test]
    fn a_full_queue_rejects_verdicts_and_keeps_those_it_has() {
        let directory = tempfile::tempdir().unwrap();
        let mut spool = Spool::new(directory.path().to_owned());
        let line = "x".repeat((8 << 20) - 1);
        (0..8).for_each(|_| spool.push(&line).unwrap());
        assert!(matches!(spool.push("one more"), Err(QueueError::Full)));
        assert_eq!(drained(&mut spool).len(), 64 << 20);
        spool.push("one more").unwrap();
    }

    #[test]
    fn a_directory_that_cannot_hold_a_file_is_an_error() {
        let mut spool = Spool::new(PathBuf::from("/proc/self/nowhere"));
        spool.push(&"x".repeat(MEMORY - 1)).unwrap();
        assert!(matches!(spool.push("y"), Err(QueueError::NotStored(_))));
    }
}
