//! The write-ahead log: checkpointed every minute, and rescued if it was moved away.

use std::fmt;
use std::time::{Duration, Instant};

use rusqlite::Connection;
use rusqlite::ErrorCode;
use rusqlite::config::DbConfig;

use super::files::{Exchanged, Files};
use super::log::Log;

/// A copy of the store's file without its log lacks at most the writes of this interval.
const CHECKPOINT_EVERY: Duration = Duration::from_secs(60);

/// Four times SQLite's default: a log of 16 MB, and 1.4 times the small transactions a second
/// (measured with 10 events each).
const CHECKPOINT_FRAMES: u32 = 4000;

/// Timeout of waiting for other readers before a log can be rescued.
const PATIENCE: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(5);

/// What happened to the content of a log that is no longer at its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rescue {
    /// It is in the store.
    Saved,
    /// This process has other connections: retried when they are closed.
    Later,
    /// It cannot be checkpointed while another process may read the store.
    InUse,
    /// Another process has written to a new log.
    Mixed,
    /// The log was changed in place: it is renamed, and not checkpointed.
    Damaged,
    /// SQLite or the disk failed.
    Refused,
    /// This process only reads.
    Reader,
}

impl fmt::Display for Rescue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Rescue::Saved => "everything that was answered is stored",
            Rescue::Later => {
                "everything that was answered is stored when this program has ended, \
                unless another process has the store open then"
            }
            Rescue::InUse => {
                "what was written in the last minute is lost, for another process \
                has the store open; trials continue from what was stored before"
            }
            Rescue::Mixed => {
                "what was written in the last minute is lost, for another process has written to \
                 the new one; trials continue from what was stored before"
            }
            Rescue::Damaged => {
                "what was written in the last minute is lost (what is left of the log is beside \
                 it, with `.damaged` after its name); \
                 trials continue from what was stored before"
            }
            Rescue::Refused => {
                "what was written in the last minute could not be saved; trials \
                continue from what was stored before"
            }
            Rescue::Reader => "what is shown here may be out of date",
        })
    }
}

/// Schedules WAL checkpoints.
#[derive(Debug)]
pub(super) struct Checkpoints {
    every: Duration,
    last: Instant,
    is_due: bool,
    /// Length of the log at the last checkpoint since it was restarted.
    frames: u32,
}

impl Default for Checkpoints {
    fn default() -> Self {
        Checkpoints { every: CHECKPOINT_EVERY, last: Instant::now(), is_due: false, frames: 0 }
    }
}

impl Checkpoints {
    /// Records a write.
    pub(super) fn note(&mut self) {
        self.is_due = true;
    }

    /// Runs a passive checkpoint of a log of `frames` frames if one is due and the store and its
    /// log are intact.
    /// SQLite's automatic checkpoints are off in a store opened for writing.
    pub(super) fn tend(
        &mut self,
        connection: &Connection,
        files: &Files,
        log: &mut Log,
        frames: Option<u32>,
    ) -> Result<(), Exchanged> {
        let Some(frames) = frames else { return Ok(()) };
        self.frames = if frames < self.frames { 0 } else { self.frames };
        let is_time = self.last.elapsed() >= self.every
            || frames >= self.frames.saturating_add(CHECKPOINT_FRAMES);
        if !self.is_due || !is_time || files.are_damaged() {
            return Ok(());
        }
        if log.check(connection, files, true)?.is_none() {
            return Ok(());
        }
        let counts = |row: &rusqlite::Row<'_>| Ok((row.get::<_, i64>(1)?, row.get::<_, i64>(2)?));
        // Frames that cannot be checkpointed now are next time; writers report disk errors.
        let done = connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], counts);
        if let Err(error) = &done
            && error.sqlite_error_code() == Some(ErrorCode::DatabaseCorrupt)
        {
            files.note_damage();
        }
        let whole = done.is_ok_and(|(all, done)| all == done);
        self.is_due = !whole;
        self.last = Instant::now();
        self.frames = frames;
        Ok(())
    }

    #[cfg(test)]
    pub(super) fn at_once(&mut self) {
        self.every = Duration::ZERO;
    }
}

/// Waits for other connections of this process to be closed, such as that of a screen's thread.
pub(super) fn wait_until_alone(connections: impl Fn() -> usize) {
    let until = Instant::now() + PATIENCE;
    while connections() > 1 && Instant::now() < until {
        std::thread::sleep(PAUSE);
    }
}

/// Closing the connection will neither checkpoint nor delete the log.
pub(super) fn leave_log_alone(connection: &Connection) {
    // It can fail only for an unknown setting.
    let _always_known = connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true);
}

/// Saves the log of `connection` when one of the files beside the store was replaced.
///
/// Leaving WAL mode takes SQLite's exclusive lock on the store's file, which is available only if
/// no other process has it open, checkpoints the log, and releases the lock. A new log at the path
/// belongs to later processes: an empty one does not matter, any other has a different history, and
/// the two are not mixed.
pub(super) fn rescue(
    connection: &Connection,
    files: &Files,
    connections: impl Fn() -> usize,
) -> Rescue {
    leave_log_alone(connection);
    if files.has_own_log() {
        // Only the index is missing; the next process to open the store rebuilds it.
        return Rescue::Saved;
    }
    if connections() > 1 {
        return Rescue::Later;
    }
    let until = Instant::now() + PATIENCE;
    loop {
        if files.other_log().is_some_and(|length| length > 0) {
            return Rescue::Mixed;
        }
        match connection
            .query_row("PRAGMA journal_mode = DELETE", [], |row| row.get::<_, String>(0))
        {
            Ok(mode) if mode == "delete" => return Rescue::Saved,
            Err(error) if error.sqlite_error_code() != Some(ErrorCode::DatabaseBusy) => {
                return Rescue::Refused;
            }
            _ if Instant::now() >= until => return Rescue::InUse,
            _ => std::thread::sleep(PAUSE),
        }
    }
}
