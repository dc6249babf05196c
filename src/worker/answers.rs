//! The answers that a command has not read yet: in memory while they are few, then in a file without a name.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::ChildStdin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// So many bytes wait in memory before a file is made.
const MEMORY: usize = 64 << 10;

/// So many bytes wait at most.
const LIMIT: u64 = 64 << 20;

/// So much of the file is written on at once.
const PIECE: u64 = 64 << 10;

/// Why an answer cannot be kept.
#[derive(Debug, thiserror::Error)]
pub(super) enum Lost {
    /// So many wait that there is no room for more.
    #[error("more than {} MiB of answers wait to be read", LIMIT >> 20)]
    TooMany,
    /// The file cannot be written.
    #[error("answers that wait to be read cannot be kept: {0}")]
    NotKept(#[from] io::Error),
}

/// The way to a command's stdin: whoever hands on an answer does not wait for the command to read.
pub(super) struct Answers {
    shared: Arc<Shared>,
}

/// A lock and no channel, since what waits goes to a file when it is much, and whoever hands on decides that.
struct Shared {
    spool: Mutex<Spool>,
    more: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Spool> {
        self.spool.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Answers {
    /// Starts the thread that writes to `stdin`; what does not fit into memory waits in a file in `directory`.
    pub fn start(stdin: ChildStdin, directory: PathBuf) -> io::Result<Self> {
        let shared = Arc::new(Shared { spool: Mutex::new(Spool::new(directory)), more: Condvar::new() });
        let there = Arc::clone(&shared);
        std::thread::Builder::new().name("answers".to_owned()).spawn(move || write_on(stdin, &there))?;
        Ok(Answers { shared })
    }

    /// Hands an answer on; a command that has closed its stdin does not miss it.
    pub fn hand_on(&self, line: &str) -> Result<(), Lost> {
        self.shared.lock().push(line)?;
        self.shared.more.notify_one();
        Ok(())
    }
}

fn write_on(mut stdin: ChildStdin, shared: &Shared) {
    loop {
        let mut spool = shared.lock();
        let piece = loop {
            match spool.take() {
                Ok(Some(piece)) => break Some(piece),
                Ok(None) => spool = shared.more.wait(spool).unwrap_or_else(PoisonError::into_inner),
                Err(_) => break None,
            }
        };
        let written = piece.is_some_and(|piece| {
            drop(spool);
            stdin.write_all(&piece).is_ok()
        });
        if !written {
            shared.lock().is_closed = true;
            return;
        }
    }
}

/// What waits: first what is in memory, then what is in the file.
struct Spool {
    directory: PathBuf,
    memory: Vec<u8>,
    file: Option<File>,
    /// Up to where the file was read, and written.
    read: u64,
    written: u64,
    is_closed: bool,
}

impl Spool {
    fn new(directory: PathBuf) -> Self {
        Spool { directory, memory: Vec::new(), file: None, read: 0, written: 0, is_closed: false }
    }

    fn push(&mut self, line: &str) -> Result<(), Lost> {
        if self.is_closed {
            return Ok(());
        }
        let line = format!("{line}\n");
        let in_file = self.written - self.read;
        if self.memory.len() as u64 + in_file + line.len() as u64 > LIMIT {
            return Err(Lost::TooMany);
        }
        if in_file == 0 && self.memory.len() + line.len() <= MEMORY {
            self.memory.extend_from_slice(line.as_bytes());
            return Ok(());
        }
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(nameless(&self.directory)?),
        };
        file.write_all_at(line.as_bytes(), self.written)?;
        self.written += line.len() as u64;
        Ok(())
    }

    fn take(&mut self) -> io::Result<Option<Vec<u8>>> {
        if !self.memory.is_empty() {
            return Ok(Some(std::mem::take(&mut self.memory)));
        }
        let Some(file) = self.file.as_ref().filter(|_| self.read < self.written) else { return Ok(None) };
        let length = (self.written - self.read).min(PIECE);
        let mut piece = vec![0; usize::try_from(length).unwrap_or(0)];
        file.read_exact_at(&mut piece, self.read)?;
        self.read += length;
        if self.read == self.written {
            file.set_len(0)?;
            (self.read, self.written) = (0, 0);
        }
        Ok(Some(piece))
    }
}

/// A file that is gone when it is closed. Should this process die before it is nameless, its name says that it was being written.
fn nameless(directory: &Path) -> io::Result<File> {
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
    fn answers_keep_their_order_whether_they_wait_in_memory_or_in_a_file() {
        let directory = tempfile::tempdir().unwrap();
        let mut spool = Spool::new(directory.path().to_owned());
        let mut expected = String::new();
        let mut found = String::new();
        for number in 0..30_000 {
            let line = format!("answer {number}");
            expected += &format!("{line}\n");
            spool.push(&line).unwrap();
            // Read now and then, as a command does that works between its answers.
            if number % 9_999 == 0 {
                found += &String::from_utf8(spool.take().unwrap().unwrap()).unwrap();
            }
        }
        assert!(spool.file.is_some() && fs::read_dir(directory.path()).unwrap().count() == 0, "the file has no name");
        found += &drained(&mut spool);
        assert_eq!(found, expected);
        spool.push("last").unwrap();
        assert_eq!((drained(&mut spool).as_str(), spool.written), ("last\n", 0));
    }

    #[test]
    fn what_is_beyond_the_limit_is_refused_and_what_waits_is_kept() {
        let directory = tempfile::tempdir().unwrap();
        let mut spool = Spool::new(directory.path().to_owned());
        let line = "x".repeat((8 << 20) - 1);
        (0..8).for_each(|_| spool.push(&line).unwrap());
        assert!(matches!(spool.push("one more"), Err(Lost::TooMany)));
        assert_eq!(drained(&mut spool).len(), 64 << 20);
        spool.push("one more").unwrap();
    }

    #[test]
    fn a_directory_that_takes_no_file_is_told() {
        let mut spool = Spool::new(PathBuf::from("/proc/self/nowhere"));
        spool.push(&"x".repeat(MEMORY - 1)).unwrap();
        assert!(matches!(spool.push("y"), Err(Lost::NotKept(_))));
    }
}
