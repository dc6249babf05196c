//! Verifies the write-ahead log: detects one that another program changed in place.
//!
//! SQLite trusts the index for the length of the log, and rereads a log only after a crash. A log
//! that was truncated or overwritten by an older copy gets a hole at the next commit, and the next
//! checkpoint writes the hole over the store. So the log is looked at before and after each
//! transaction: its header, the last frame that was seen, and the headers of new frames must be of
//! one generation. The chain of checksums (<https://www.sqlite.org/walformat.html>) is followed at
//! the first look, when the log was restarted, and before each checkpoint over everything. The log
//! is opened once and stays open while the store is: SQLite takes no locks on it. The index, which
//! has the locks, is never opened directly.
//!
//! A page that is changed behind its frame's header is found by the check before the checkpoint.
//!
//! Not detected: changes in the milliseconds between the check and the checkpoint; those that
//! another program checkpoints; those made while no process has the store open, or whose writer is
//! killed before its check.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};

use rusqlite::Connection;

use super::files::{Exchanged, Files};

const HEADER: usize = 32;
const FRAME_HEADER: usize = 24;
/// The lowest bit is the byte order of the checksums.
const MAGIC: u32 = 0x377f_0682;

/// Number of frames that are read at once.
const FRAMES_AT_ONCE: u32 = 16;

/// Number of retries: another process may restart the log during the check.
const LOOKS: u32 = 50;
/// A log whose first salt is lower by at most this is an earlier one: the salt grows by 1 each time
/// the log is restarted.
const EARLIER: u32 = 1 << 20;

/// The error for a damaged log.
pub(super) const DAMAGED: Exchanged =
    Exchanged { ending: "-wal", what: "was truncated or overwritten" };
const OLD_INDEX: Exchanged = Exchanged { ending: "-shm", what: "was overwritten" };

type Salts = [u8; 8];
type Sum = (u32, u32);

/// The log of a store that this process writes to.
#[derive(Debug, Default)]
pub(super) struct Log {
    file: Option<File>,
    known: Option<Chain>,
    /// The salts of earlier generations of the log; none is reused.
    past: Vec<Salts>,
}

/// The frames of the log that were seen, by the last of them: its checksum depends on all before.
#[derive(Clone, Debug)]
struct Chain {
    salts: Salts,
    page: usize,
    is_big_endian: bool,
    frames: u32,
    sum: Sum,
}

impl Log {
    /// An error if the log contradicts its index. Reads only headers of new frames, or all frames
    /// with `whole`. Returns the number of frames, if known.
    pub(super) fn check(
        &mut self,
        connection: &Connection,
        files: &Files,
        whole: bool,
    ) -> Result<Option<u32>, Exchanged> {
        if self.file.is_none() {
            self.file = files.own_log();
        }
        let Some(file) = &self.file else { return Ok(None) };
        let mut looks = LOOKS;
        loop {
            let frames = frames(connection);
            let Some(count) = frames else { return Ok(None) };
            let header = header(file);
            let found = if count == 0 {
                Ok(None)
            } else {
                self.follow(file, header, count, whole).map(Some)
            };
            match found {
                Ok(None) => return Ok(frames),
                Ok(Some(chain)) => {
                    if let Some(before) = self.known.replace(chain.clone())
                        && before.salts != chain.salts
                    {
                        self.past.push(before.salts);
                    }
                    return Ok(frames);
                }
                Err(exchanged)
                    if looks == 0
                        || (self::header(file) == header && self::frames(connection) == frames) =>
                {
                    return Err(exchanged);
                }
                Err(_) => looks -= 1,
            }
        }
    }

    /// Whether it still contains the frames that were seen, or was restarted since; does not use
    /// its index.
    pub(super) fn is_as_known(&self) -> bool {
        let (Some(file), Some(known)) = (&self.file, &self.known) else { return true };
        let header = header(file);
        let is_same =
            header.as_ref().and_then(Chain::begun).is_some_and(|begun| begun.salts == known.salts);
        self.follow(file, header, if is_same { known.frames } else { 0 }, true).is_ok()
    }

    fn follow(
        &self,
        file: &File,
        header: Option<[u8; HEADER]>,
        frames: u32,
        whole: bool,
    ) -> Result<Chain, Exchanged> {
        let begun = header.as_ref().and_then(Chain::begun).ok_or(DAMAGED)?;
        match &self.known {
            Some(known) if known.salts == begun.salts && frames < known.frames => Err(OLD_INDEX),
            Some(known) if known.salts == begun.salts && !known.is_in(file) => Err(DAMAGED),
            Some(known) if known.salts == begun.salts && !whole => {
                known.clone().by_headers(file, frames).ok_or(DAMAGED)
            }
            Some(known)
                if known.salts != begun.salts
                    && (self.past.contains(&begun.salts) || begun.is_before(known)) =>
            {
                Err(DAMAGED)
            }
            _ => begun.followed(file, frames).ok_or(DAMAGED),
        }
    }
}

impl Chain {
    /// The chain of a log without frames.
    fn begun(header: &[u8; HEADER]) -> Option<Chain> {
        let (magic, page) = (number(header, 0), number(header, 8) as usize);
        if magic & !1 != MAGIC || !page.is_power_of_two() || !(512..=65536).contains(&page) {
            return None;
        }
        let is_big_endian = magic & 1 == 1;
        let sum = summed((0, 0), header.get(..24)?, is_big_endian);
        let salts = header.get(16..24)?.try_into().ok()?;
        (sum == (number(header, 24), number(header, 28))).then_some(Chain {
            salts,
            page,
            is_big_endian,
            frames: 0,
            sum,
        })
    }

    /// Where the next frame begins.
    fn end(&self) -> u64 {
        HEADER as u64 + u64::from(self.frames) * (FRAME_HEADER + self.page) as u64
    }

    /// Extended to this number of frames, if their checksums continue the chain.
    fn followed(mut self, file: &File, frames: u32) -> Option<Chain> {
        let length = FRAME_HEADER + self.page;
        let most = |chain: &Chain| frames.saturating_sub(chain.frames).min(FRAMES_AT_ONCE) as usize;
        let mut bytes = vec![0; length * most(&self)];
        while self.frames < frames {
            let part = bytes.get_mut(..length * most(&self))?;
            file.read_exact_at(part, self.end()).ok()?;
            for frame in part.chunks_exact(length) {
                self = self.with(frame)?;
            }
        }
        Some(self)
    }

    /// Extended to this number of frames, if their headers are of this generation.
    fn by_headers(mut self, file: &File, frames: u32) -> Option<Chain> {
        let mut head = [0; FRAME_HEADER];
        while self.frames < frames {
            file.read_exact_at(&mut head, self.end()).ok()?;
            self.sum = (number(&head, 16), number(&head, 20));
            self.frames += 1;
            if !self.is_last(&head) {
                return None;
            }
        }
        // The page of the last one may be cut off.
        (file.metadata().ok()?.len() >= self.end()).then_some(self)
    }

    /// Extended by a frame, if its checksum continues the chain.
    fn with(mut self, frame: &[u8]) -> Option<Chain> {
        let (head, page) = frame.split_at_checked(FRAME_HEADER)?;
        self.sum =
            summed(summed(self.sum, head.get(..8)?, self.is_big_endian), page, self.is_big_endian);
        self.frames += 1;
        self.is_last(head).then_some(self)
    }

    fn is_last(&self, head: &[u8]) -> bool {
        head.get(8..16) == Some(self.salts.as_slice())
            && (number(head, 16), number(head, 20)) == self.sum
    }

    /// Whether its last frame is where it was.
    fn is_in(&self, file: &File) -> bool {
        let mut head = [0; FRAME_HEADER];
        let Some(frames) = self.frames.checked_sub(1) else { return true };
        let last = Chain { frames, ..self.clone() }.end();
        file.read_exact_at(&mut head, last).is_ok() && self.is_last(&head)
    }

    fn is_before(&self, other: &Chain) -> bool {
        (1..EARLIER).contains(&number(&other.salts, 0).wrapping_sub(number(&self.salts, 0)))
    }
}

fn number(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|word| word.try_into().ok()).map_or(0, u32::from_be_bytes)
}

fn summed(sum: Sum, bytes: &[u8], is_big_endian: bool) -> Sum {
    let (words, _) = bytes.as_chunks::<4>();
    let word =
        |bytes| if is_big_endian { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) };
    let (pairs, _) = words.as_chunks::<2>();
    pairs.iter().fold(sum, |(first, second), &[one, two]| {
        let first = first.wrapping_add(word(one)).wrapping_add(second);
        (first, second.wrapping_add(word(two)).wrapping_add(first))
    })
}

fn header(file: &File) -> Option<[u8; HEADER]> {
    let mut bytes = [0; HEADER];
    file.read_exact_at(&mut bytes, 0).ok().map(|()| bytes)
}

/// The number of frames according to the index.
fn frames(connection: &Connection) -> Option<u32> {
    let mut statement = connection.prepare_cached("PRAGMA wal_checkpoint(NOOP)").ok()?;
    u32::try_from(statement.query_row([], |row| row.get::<_, i64>(1)).ok()?).ok()
}

impl Files {
    /// The log that was opened, if it is at its path.
    fn own_log(&self) -> Option<File> {
        let file = self.has_own_log().then(|| File::open(self.beside("-wal")).ok())??;
        let metadata = file.metadata().ok()?;
        // A newer file is closed again: no store of this process uses it.
        self.is_log((metadata.dev(), metadata.ino())).then_some(file)
    }

    /// Renames a damaged log, so that the next process to open the store does not apply parts of
    /// it.
    pub(super) fn put_log_aside(&self) {
        if !self.has_own_log() {
            return;
        }
        // A process that opens the store between the two finds an index and an empty log, and gets
        // an error. Failures change nothing.
        let _as_it_was = fs::rename(self.beside("-wal"), self.beside("-wal.damaged"));
        if self.has_own_index() {
            let _as_it_was = fs::remove_file(self.beside("-shm"));
        }
    }
}
