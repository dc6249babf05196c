//! The write-ahead log: written back to the store's file every minute, and saved where somebody
//! took it away.

use std::fmt;
use std::time::{Duration, Instant};

use rusqlite::Connection;
use rusqlite::ErrorCode;
use rusqlite::config::DbConfig;

use super::files::{Exchanged, Files};
use super::log::Log;

/// A copy of the store's file without its log lacks no more than what was written in this time.
const CHECKPOINT_EVERY: Duration = Duration::from_secs(60);

/// Four times SQLite's default: a log of 16 MB, and 1.4 times the small transactions a second
/// (measured with 10 events each).
const CHECKPOINT_FRAMES: u32 = 4000;

/// How long others may keep a log from being saved: a reader of a moment is waited for.
const PATIENCE: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(5);

/// What became of what was written to a log that is not at its path any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rescue {
    /// It is in the store.
    Saved,
    /// This process has further connections: it is tried again when they are closed.
    Later,
    /// It cannot be written back while another process may read the store.
    InUse,
    /// Somebody else has written to a log of another history.
    Mixed,
    /// The log was changed in place: it is put aside, and not written back.
    Damaged,
    /// SQLite or the disk refused.
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

/// When the log is written back.
#[derive(Debug)]
pub(super) struct Checkpoints {
    every: Duration,
    last: Instant,
    is_due: bool,
    /// How long the log was when it was last written back, since it was begun anew.
    frames: u32,
}

impl Default for Checkpoints {
    fn default() -> Self {
        Checkpoints { every: CHECKPOINT_EVERY, last: Instant::now(), is_due: false, frames: 0 }
    }
}

impl Checkpoints {
    /// Something was written.
    pub(super) fn note(&mut self) {
        self.is_due = true;
    }

    /// Writes the log of so many frames back if it is time to and it is whole: what readers leave
    /// alone, without waiting for any of them. SQLite itself never does in a store that is written
    /// to.
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
        if !self.is_due || !is_time || log.check(connection, files, true)?.is_none() {
            return Ok(());
        }
        let counts = |row: &rusqlite::Row<'_>| Ok((row.get::<_, i64>(1)?, row.get::<_, i64>(2)?));
        // What cannot be written back now is the next time; whoever writes is told of a disk that
        // refuses.
        let whole = connection
            .query_row("PRAGMA wal_checkpoint(PASSIVE)", [], counts)
            .is_ok_and(|(all, done)| all == done);
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

/// Waits for other connections of this process to be closed: a screen's thread takes a moment to
/// end.
pub(super) fn wait_until_alone(connections: impl Fn() -> usize) {
    let until = Instant::now() + PATIENCE;
    while connections() > 1 && Instant::now() < until {
        std::thread::sleep(PAUSE);
    }
}

/// From here on closing the connection neither writes the log back nor removes the one at its path.
pub(super) fn leave_log_alone(connection: &Connection) {
    // It can fail for a wrong setting only.
    let _always_known = connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true);
}

/// Saves what is in the log of `connection` when one of the files beside the store was exchanged.
///
/// Safe is only what nobody else can come between. Leaving WAL mode takes SQLite's exclusive lock
/// of the store's file, which no process gets while another one has it open, writes the log back,
/// and lets go of it. A new log at the path belongs to those who came later: an empty one holds
/// nothing, any other has another history, and the two are not mixed.
pub(super) fn rescue(
    connection: &Connection,
    files: &Files,
    connections: impl Fn() -> usize,
) -> Rescue {
    leave_log_alone(connection);
    if files.has_own_log() {
        // Only its index went, which whoever opens the store next makes anew.
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
