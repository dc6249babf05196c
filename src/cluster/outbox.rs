//! Numbered messages that are kept until the other side has acknowledged them.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::PathBuf;

/// Bytes kept in memory; more goes to the disk.
const IN_MEMORY: usize = 4 << 20;

/// Unacknowledged messages, in order. Numbers begin at 1.
#[derive(Debug, Default)]
pub struct Outbox {
    kept: VecDeque<Kept>,
    /// The number of the last message put in.
    last: u64,
    /// Bytes in memory.
    held: usize,
    spool: Option<Spool>,
}

#[derive(Debug)]
enum Kept {
    Held(Vec<u8>),
    Spooled { offset: u64, length: usize },
}

/// A file without a name: it is gone with its process.
#[derive(Debug)]
struct Spool {
    file: File,
    end: u64,
}

impl Outbox {
    /// Keeps a message; returns its number.
    pub fn put(&mut self, message: &[u8]) -> u64 {
        self.last += 1;
        let fits = self.held + message.len() <= IN_MEMORY;
        let spooled = if fits { None } else { self.spool(message).ok() };
        // Without a disk, memory has to do.
        self.kept.push_back(spooled.unwrap_or_else(|| {
            self.held += message.len();
            Kept::Held(message.to_vec())
        }));
        self.last
    }

    fn spool(&mut self, message: &[u8]) -> io::Result<Kept> {
        let spool = match &mut self.spool {
            Some(spool) => spool,
            None => self.spool.insert(Spool { file: nameless_file()?, end: 0 }),
        };
        spool.file.write_all_at(message, spool.end)?;
        let kept = Kept::Spooled { offset: spool.end, length: message.len() };
        spool.end += message.len() as u64;
        Ok(kept)
    }

    /// The number of the oldest message kept, or of the next one.
    pub fn first(&self) -> u64 {
        self.last + 1 - self.kept.len() as u64
    }

    /// The number of the last message put in.
    pub fn last(&self) -> u64 {
        self.last
    }

    /// Forgets messages up to and including a number.
    pub fn acknowledge(&mut self, number: u64) {
        while self.first() <= number.min(self.last) && !self.kept.is_empty() {
            if let Some(Kept::Held(message)) = self.kept.pop_front() {
                self.held -= message.len();
            }
        }
        if self.kept.is_empty()
            && let Some(spool) = &mut self.spool
        {
            // The space is free again; a failure only keeps it taken.
            let _taken = spool.file.set_len(0);
            spool.end = 0;
        }
    }

    /// A kept message.
    ///
    /// # Errors
    /// The spool cannot be read.
    pub fn get(&self, number: u64) -> io::Result<Option<Vec<u8>>> {
        let index = number.checked_sub(self.first()).and_then(|index| usize::try_from(index).ok());
        match index.and_then(|index| self.kept.get(index)) {
            None => Ok(None),
            Some(Kept::Held(message)) => Ok(Some(message.clone())),
            Some(Kept::Spooled { offset, length }) => {
                let mut message = vec![0; *length];
                if let Some(spool) = &self.spool {
                    spool.file.read_exact_at(&mut message, *offset)?;
                }
                Ok(Some(message))
            }
        }
    }
}

fn nameless_file() -> io::Result<File> {
    let directory = std::env::temp_dir();
    let name = |place: u32| -> PathBuf {
        directory.join(format!(".hpsearch-agent-{}-{place}", std::process::id()))
    };
    for place in 0.. {
        let path = name(place);
        match File::options().read(true).write(true).create_new(true).mode(0o600).open(&path) {
            Ok(file) => {
                std::fs::remove_file(&path)?;
                return Ok(file);
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && place < 1_000 => {}
            Err(error) => return Err(error),
        }
    }
    unreachable!("the loop returns")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_kept_in_order_until_they_are_acknowledged() {
        let mut outbox = Outbox::default();
        assert_eq!((outbox.first(), outbox.last()), (1, 0));
        for text in ["a", "b", "c"] {
            outbox.put(text.as_bytes());
        }
        outbox.acknowledge(1);
        assert_eq!((outbox.first(), outbox.last()), (2, 3));
        let read = |outbox: &Outbox, number| outbox.get(number).unwrap();
        assert_eq!(read(&outbox, 1), None);
        assert_eq!(read(&outbox, 2).as_deref(), Some(&b"b"[..]));
        // An old acknowledgement, and one of what was never sent.
        outbox.acknowledge(0);
        assert_eq!(outbox.first(), 2);
        outbox.acknowledge(99);
        assert_eq!((outbox.first(), outbox.put(b"d")), (4, 4));
    }

    #[test]
    fn what_does_not_fit_in_memory_goes_to_the_disk_and_comes_back() {
        let mut outbox = Outbox::default();
        let message = |number: u64| vec![u8::try_from(number % 251).unwrap(); 1 << 20];
        for number in 1..=12 {
            assert_eq!(outbox.put(&message(number)), number);
        }
        assert!(outbox.held <= IN_MEMORY && outbox.spool.is_some());
        for number in 1..=12 {
            assert!(outbox.get(number).unwrap() == Some(message(number)), "{number}");
        }
        outbox.acknowledge(12);
        assert_eq!((outbox.held, outbox.spool.as_ref().unwrap().end), (0, 0));
        outbox.put(b"small");
        assert_eq!(outbox.get(13).unwrap().as_deref(), Some(&b"small"[..]));
    }
}
