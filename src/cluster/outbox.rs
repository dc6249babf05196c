//! Numbered messages that are kept until the other side has acknowledged them, and are sent again
//! on each new connection.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::PathBuf;

/// Bytes kept in memory; more goes to the disk.
const IN_MEMORY: usize = 4 << 20;

/// Bytes that are on their way at a time, unless one message alone has more: a slow connection
/// leaves the rest on the disk.
const WINDOW: usize = 2 << 20;

/// Unacknowledged messages, in order. Numbers begin at 1.
#[derive(Debug, Default)]
pub struct Outbox {
    kept: VecDeque<Kept>,
    /// The number of the last message put in.
    last: u64,
    /// The number of the last message sent on this connection.
    sent: u64,
    /// Bytes of sent messages.
    on_the_way: usize,
    /// Bytes of all messages.
    bytes: usize,
    /// Bytes in memory.
    held: usize,
    spool: Option<Spool>,
    /// Messages in the spool.
    spooled: usize,
}

#[derive(Debug)]
enum Kept {
    Held(Vec<u8>),
    Spooled { offset: u64, length: usize },
}

impl Kept {
    fn length(&self) -> usize {
        match self {
            Kept::Held(message) => message.len(),
            Kept::Spooled { length, .. } => *length,
        }
    }
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
        self.bytes += message.len();
        let fits = self.held + message.len() <= IN_MEMORY;
        let spooled = if fits { None } else { self.spool(message).ok() };
        self.spooled += usize::from(spooled.is_some());
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

    /// Bytes of the messages kept.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// A connection begins whose other side has received messages up to and including a number.
    /// They are kept: it may be killed before it stores them.
    pub fn resume(&mut self, number: u64) {
        self.sent = number.clamp(self.first() - 1, self.last);
        let sent = usize::try_from(self.sent + 1 - self.first()).unwrap_or(usize::MAX);
        self.on_the_way = self.kept.iter().take(sent).map(Kept::length).sum();
    }

    /// The next message to be sent, unless enough are on their way.
    ///
    /// # Errors
    /// The spool cannot be read.
    pub fn next_to_send(&mut self) -> io::Result<Option<(u64, Vec<u8>)>> {
        let number = self.sent + 1;
        let Some(message) = self.length(number) else { return Ok(None) };
        if self.on_the_way > 0 && self.on_the_way + message > WINDOW {
            return Ok(None);
        }
        self.on_the_way += message;
        self.sent = number;
        Ok(self.get(number)?.map(|message| (number, message)))
    }

    fn length(&self, number: u64) -> Option<usize> {
        let index = usize::try_from(number.checked_sub(self.first())?).ok()?;
        self.kept.get(index).map(Kept::length)
    }

    /// Forgets messages up to and including a number.
    pub fn acknowledge(&mut self, number: u64) {
        while self.first() <= number.min(self.last) {
            let was_sent = self.first() <= self.sent;
            let Some(message) = self.kept.pop_front() else { break };
            let length = message.length();
            self.bytes -= length;
            match message {
                Kept::Held(_) => self.held -= length,
                Kept::Spooled { .. } => self.spooled -= 1,
            }
            if was_sent {
                self.on_the_way -= length;
            }
        }
        self.sent = self.sent.max(self.first() - 1);
        if self.spooled == 0
            && let Some(spool) = &mut self.spool
        {
            // The space is free again; a failure only keeps it taken.
            let _taken = spool.file.set_len(0);
            spool.end = 0;
        }
    }

    fn get(&self, number: u64) -> io::Result<Option<Vec<u8>>> {
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
        assert_eq!(outbox.bytes(), 5);
        assert_eq!(outbox.get(13).unwrap().as_deref(), Some(&b"small"[..]));
    }

    #[test]
    fn a_connection_carries_a_window_and_the_next_one_begins_with_what_is_not_acknowledged() {
        let mut outbox = Outbox::default();
        let numbers: Vec<u64> = (0..6).map(|_| outbox.put(&[7; WINDOW / 2])).collect();
        assert_eq!(numbers, [1, 2, 3, 4, 5, 6]);
        let sent = |outbox: &mut Outbox| {
            let next = std::iter::from_fn(|| outbox.next_to_send().unwrap());
            next.map(|(number, _)| number).collect::<Vec<_>>()
        };
        outbox.resume(0);
        assert_eq!(sent(&mut outbox), [1, 2]);
        outbox.acknowledge(1);
        assert_eq!(sent(&mut outbox), [3]);
        // It breaks: the other side has the second, too, and has not stored it.
        outbox.resume(2);
        assert_eq!(sent(&mut outbox), [3]);
        assert_eq!((outbox.first(), outbox.bytes()), (2, 5 * WINDOW / 2), "it is kept");
        outbox.acknowledge(2);
        assert_eq!(sent(&mut outbox), [4]);
        outbox.acknowledge(6);
        assert_eq!(sent(&mut outbox), [0; 0]);
        // More than a window by itself.
        outbox.put(&[7; WINDOW * 2]);
        outbox.put(b"small");
        assert_eq!(sent(&mut outbox), [7]);
        outbox.acknowledge(7);
        assert_eq!(sent(&mut outbox), [8]);
        assert_eq!(outbox.bytes(), 5);
    }
}
