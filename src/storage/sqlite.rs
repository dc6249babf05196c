//! The store in one SQLite file: any number of processes read while one writes.

#![expect(
    clippy::disallowed_methods,
    reason = "a store is a file that other processes use at the same time"
)]

mod at;
mod backup;
mod connection;
mod files;
mod filesystem;
mod log;
mod migrate;
mod opening;
mod place;
mod secrets;
mod soundness;
mod wal;
mod without_index;

pub use at::{StoreAt, store_at, studies_at};
pub use files::{is_database, is_open_here, open_file, read_file};
pub use place::{OtherName, orphaned_log, other_name};
pub use soundness::sqlite_version;
pub use wal::Rescue;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, TransactionBehavior};

use self::files::{Contents, Exchanged, Extent, Files};
use self::log::Log;
use self::migrate::{MIGRATIONS, SCHEMA};
use self::opening::{configure, open_anywhere, prepare};
use self::place::{
    as_file, directory_of, io_error, lock_file, missing, refuse_missing, refuse_network,
    refuse_orphaned_log, refuse_what_is_no_file,
};
use self::wal::{Checkpoints, leave_log_alone, rescue};
use self::without_index::ReadAlone;
use super::sql::append::Cache;
use super::sql::connection::Connection as Queried;
use super::sql::fault::Fault;
use super::sql::known::Known;
use super::sql::storage_reader::Reads;
use super::sql::storage_writer::Writes;
use super::{BUSY_TIMEOUT, StorageError, StudyId};

/// A store opened for reading only.
#[derive(Debug)]
pub struct SqliteReader {
    connection: Connection,
    path: PathBuf,
    // Dropped after the connection: the files of a store that is being closed must stay registered.
    files: Arc<Files>,
    seen: Option<i64>,
    migrated: Option<Migrated>,
    /// Set if it was opened without its index, which cannot be created.
    alone: Option<ReadAlone>,
    known: Known,
}

/// A migration of an older store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Migrated {
    /// Its version before.
    pub from: i64,
    /// The backup.
    pub copy: PathBuf,
    /// Whether it held values of `[command] env`, which the backup still contains.
    pub held_values: bool,
}

/// What becomes of a store that is to be opened and is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Missing {
    Created,
    Refused,
}

/// A store opened for reading and writing.
#[derive(Debug)]
pub struct SqliteStore {
    reader: SqliteReader,
    cache: Cache,
    wrote: bool,
    checkpoints: Checkpoints,
    log: Log,
    /// Set if a file of the store was moved or replaced: nothing is written any more.
    lost: Option<(Exchanged, Rescue)>,
    /// The store's file when it was found to be moved.
    left: Option<Contents>,
}

impl SqliteStore {
    /// Opens the store at `path`; creates the file and its directories if missing, and migrates an
    /// older schema. Rejects files of other programs and network file systems, and creates nothing
    /// beside the log of a store whose file is not there.
    pub fn open(path: &Path) -> Result<Self, StorageError> {
        SqliteStore::open_or(path, Missing::Created)
    }

    /// The same for a store that is there: a missing one is an error.
    pub fn open_existing(path: &Path) -> Result<Self, StorageError> {
        SqliteStore::open_or(path, Missing::Refused)
    }

    fn open_or(path: &Path, missing: Missing) -> Result<Self, StorageError> {
        if path.to_str().is_none() {
            return Err(StorageError::NotText { path: path.display().to_string() });
        }
        let file = as_file(path)?;
        refuse_what_is_no_file(path, &file)?;
        let directory = directory_of(&file);
        refuse_network(path, &directory)?;
        let mut flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        match missing {
            Missing::Created => {
                refuse_orphaned_log(path, &file)?;
                std::fs::create_dir_all(&directory)
                    .map_err(|source| io_error(&directory, source))?;
                flags |= OpenFlags::SQLITE_OPEN_CREATE;
            }
            Missing::Refused => refuse_missing(path, &file)?,
        }
        files::put_log_back(&file);
        let open = || {
            let mut connection = Connection::open_with_flags(&file, flags)?;
            let migrated = prepare(&mut connection, path, &file).inspect_err(|fault| {
                if fault.is_damage() {
                    // The log stays as it is for whoever repairs the store.
                    leave_log_alone(&connection);
                }
            })?;
            Ok((connection, migrated))
        };
        let (connection, migrated) = open().map_err(|fault: Fault| fault.at(path, "opening it"))?;
        let reader = SqliteReader { migrated, ..SqliteReader::new(connection, path)? };
        Ok(SqliteStore::of(reader))
    }

    /// The store in memory with this name, shared by all its handles and freed with the last.
    pub(super) fn in_memory(name: &str) -> Result<Self, StorageError> {
        let path = Path::new("");
        let open = || {
            let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
                | OpenFlags::SQLITE_OPEN_CREATE
                | OpenFlags::SQLITE_OPEN_NO_MUTEX
                | OpenFlags::SQLITE_OPEN_URI;
            let uri = format!("file:/{name}?vfs=memdb");
            let mut connection = Connection::open_with_flags(uri, flags)?;
            connection.busy_timeout(BUSY_TIMEOUT)?;
            configure(&connection)?;
            migrate::migrate(&mut connection, path, MIGRATIONS, SCHEMA, |_| Ok(()), |_| Ok(()))?;
            Ok(connection)
        };
        let connection = open().map_err(|fault: Fault| fault.at(path, "opening it"))?;
        Ok(SqliteStore::of(SqliteReader::with(connection, path, Arc::default())))
    }

    fn of(reader: SqliteReader) -> Self {
        SqliteStore {
            reader,
            cache: Cache::default(),
            wrote: false,
            checkpoints: Checkpoints::default(),
            log: Log::default(),
            lost: None,
            left: None,
        }
    }

    /// Vacuums the file, whose free pages may contain removed data. Returns whether it is done: if
    /// other processes use the file, the next one to open the store does it.
    pub fn erase_removed(&mut self) -> Result<bool, StorageError> {
        // It writes the log back.
        self.check_files_and(true)?;
        let SqliteReader { connection, path, .. } = &self.reader;
        secrets::finish(connection)
            .inspect_err(|fault| self.reader.note(fault))
            .map_err(|fault| fault.at(path, "writing it anew"))?;
        Ok(!secrets::are_left(connection))
    }

    /// The store for reading.
    pub fn reader(&self) -> &SqliteReader {
        &self.reader
    }

    /// An error if a file of the store was replaced or its log damaged, after saving what can be
    /// saved.
    fn check_files(&mut self) -> Result<Option<u32>, StorageError> {
        self.check_files_and(false)
    }

    /// The same; with `whole_log`, the whole log is verified.
    fn check_files_and(&mut self, whole_log: bool) -> Result<Option<u32>, StorageError> {
        let looked = if self.lost.is_some() { Ok(None) } else { self.look(whole_log) };
        self.or_lost(looked)
    }

    /// The same, followed by a WAL checkpoint if one is due.
    fn tend(&mut self) -> Result<(), StorageError> {
        let frames = self.check_files()?;
        let tended = self.checkpoints.tend(
            &self.reader.connection,
            &self.reader.files,
            &mut self.log,
            frames,
        );
        self.or_lost(tended)
    }

    fn look(&mut self, whole: bool) -> Result<Option<u32>, Exchanged> {
        self.reader.check_files()?;
        self.log.check(&self.reader.connection, &self.reader.files, whole)
    }

    fn or_lost<T>(&mut self, looked: Result<T, Exchanged>) -> Result<T, StorageError> {
        let error = |store: &Self, (exchanged, rescued)| {
            Err(exchanged_error(&store.reader.files, &store.reader.path, exchanged, rescued))
        };
        match (self.lost, looked) {
            (Some(lost), _) => error(self, lost),
            (None, Ok(found)) => Ok(found),
            (None, Err(exchanged)) => {
                let rescued = if exchanged.ending.is_empty() {
                    self.give_up(exchanged);
                    Rescue::Refused
                } else {
                    self.save(exchanged)
                };
                // All files of it may go, one after the other.
                let (exchanged, rescued) = match self.reader.files.check() {
                    Err(now) if now.ending.is_empty() => (now, Rescue::Refused),
                    _ => (exchanged, rescued),
                };
                self.lost = Some((exchanged, rescued));
                self.left = self.reader.files.contents();
                error(self, (exchanged, rescued))
            }
        }
    }

    /// Keeps the log from a file that lies at the path of the store and is another one.
    fn give_up(&self, exchanged: Exchanged) {
        let SqliteReader { connection, files, .. } = &self.reader;
        if exchanged.is_in_place() {
            // SQLite itself looks only whether the file was moved.
            leave_log_alone(connection);
            files.note_damage();
        }
        files.set_log_aside(exchanged);
    }

    /// Whether the file is back, with its log.
    fn is_back(&mut self) -> bool {
        self.reader.files.put_log_back();
        self.look(true).is_ok()
    }

    /// Saves what can be saved after a file beside the store was replaced, or the log was changed
    /// in place.
    fn save(&self, exchanged: Exchanged) -> Rescue {
        let SqliteReader { connection, files, .. } = &self.reader;
        // Without its index, which may be the truncated file.
        let is_damaged = exchanged == log::DAMAGED || !self.log.is_as_known();
        if is_damaged {
            leave_log_alone(connection);
            files.put_log_aside();
            return Rescue::Damaged;
        }
        self.rescue()
    }

    fn rescue(&self) -> Rescue {
        let files = &self.reader.files;
        rescue(&self.reader.connection, files, || Arc::strong_count(files))
    }
}

impl Drop for SqliteStore {
    /// Retries a rescue that other connections of this process prevented. SQLite checkpoints when
    /// the last connection is closed, which must not happen with a damaged store or log, or a
    /// truncated index.
    fn drop(&mut self) {
        if self.reader.files.are_damaged() {
            leave_log_alone(&self.reader.connection);
        }
        if self.lost.is_none()
            && let Err(exchanged) = self.look(true)
        {
            let is_main = exchanged.ending.is_empty();
            let rescued = if is_main { Rescue::Refused } else { self.save(exchanged) };
            self.lost = Some((exchanged, rescued));
        }
        // Another file may have come since.
        if let Some((exchanged, _)) = self.lost.filter(|(lost, _)| lost.ending.is_empty()) {
            self.give_up(exchanged);
        }
        if let Some((_, Rescue::Later)) = self.lost {
            let files = &self.reader.files;
            wal::wait_until_alone(|| Arc::strong_count(files));
            let _said_to_be_tried = self.rescue();
        }
    }
}

impl SqliteReader {
    /// Opens the store at `path` for reading; if there is none, the error says how to create one.
    pub fn open(path: &Path) -> Result<Self, StorageError> {
        let file = as_file(path)?;
        refuse_what_is_no_file(path, &file)?;
        refuse_missing(path, &file)?;
        refuse_network(path, &directory_of(&file))?;
        files::put_log_back(&file);
        let (connection, version, alone) = open_anywhere(path, &file)?;
        if version == 0 {
            return Err(missing(path));
        }
        if version == migrate::newest(MIGRATIONS) && !secrets::are_left(&connection) {
            return SqliteReader::opened(connection, path, alone);
        }
        drop(connection);
        // Opening an older schema, or an interrupted migration, for writing migrates it.
        let migrated = match SqliteStore::open_existing(path) {
            Ok(store) => store.reader.migrated.clone(),
            // An unfinished erasure does not prevent reading.
            Err(_) if version == migrate::newest(MIGRATIONS) => None,
            Err(error) => return Err(error),
        };
        let (connection, _, alone) = open_anywhere(path, &file)?;
        Ok(SqliteReader { migrated, ..SqliteReader::opened(connection, path, alone)? })
    }

    fn opened(
        connection: Connection,
        path: &Path,
        alone: Option<ReadAlone>,
    ) -> Result<Self, StorageError> {
        if alone.is_none() {
            return SqliteReader::new(connection, path);
        }
        let files = Files::without_log(&as_file(path)?);
        Ok(SqliteReader { alone, ..SqliteReader::with(connection, path, files) })
    }

    /// Opens a store that was read without its index again, now that others write to it.
    fn reopen(&mut self) -> Result<(), StorageError> {
        let path = self.path.clone();
        // Both are closed first: a new connection of this process may share neither.
        self.connection = Connection::open_in_memory()
            .map_err(|error| Fault::from(error).at(&path, "opening it"))?;
        self.files = Arc::default();
        // If this fails, `alone` stays, and reading with it.
        *self = SqliteReader { migrated: self.migrated.take(), ..SqliteReader::open(&path)? };
        Ok(())
    }

    fn is_outdated(&self) -> bool {
        self.alone.as_ref().is_some_and(|alone| !alone.is_unchanged())
    }

    fn new(connection: Connection, path: &Path) -> Result<Self, StorageError> {
        match Files::of(&as_file(path)?) {
            Ok(files) => Ok(SqliteReader::with(connection, path, files)),
            Err(Exchanged { ending, what }) => {
                let path = format!("{}{ending}", path.display());
                Err(StorageError::Exchanged { path, what, rescue: Rescue::Reader })
            }
        }
    }

    fn with(connection: Connection, path: &Path, files: Arc<Files>) -> Self {
        connection.set_prepared_statement_cache_capacity(64);
        // With it, plans depend on bound values and are rebuilt for every range of trials.
        let _slower_without = connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true);
        let path = path.to_owned();
        SqliteReader {
            connection,
            path,
            files,
            seen: None,
            migrated: None,
            alone: None,
            known: Known::default(),
        }
    }

    /// The migration that opening it caused, if any.
    pub fn migrated(&self) -> Option<&Migrated> {
        self.migrated.as_ref()
    }

    /// The log of a damaged store stays as it is for whoever repairs it.
    fn note(&self, fault: &Fault) {
        if fault.is_damage() {
            self.files.note_damage();
        }
    }

    /// An error if a file of the store was replaced.
    fn check_files(&self) -> Result<(), Exchanged> {
        self.files.check()?;
        self.files.check_length(|| self.extent().ok())
    }

    /// By one snapshot, outside of a transaction.
    fn extent(&self) -> rusqlite::Result<Extent> {
        let transaction = self.connection.unchecked_transaction()?;
        let number = |pragma| transaction.query_row(pragma, [], |row| row.get::<_, i64>(0));
        let schema = number("PRAGMA schema_version")?;
        let pages = number("PRAGMA page_count")?;
        let length = pages.saturating_mul(number("PRAGMA page_size")?).unsigned_abs();
        Ok(Extent { schema, length })
    }

    fn is_in_memory(&self) -> bool {
        self.path.as_os_str().is_empty()
    }
}

impl Reads for SqliteReader {
    fn read<T>(
        &self,
        doing: &'static str,
        mut work: impl FnMut(&dyn Queried) -> Result<T, Fault>,
    ) -> Result<T, StorageError> {
        let mut run = || {
            let transaction = self.connection.unchecked_transaction()?;
            work(&*transaction)
        };
        let done = run().inspect_err(|fault| self.note(fault));
        if self.is_outdated() {
            return Err(StorageError::ReadAlone { path: self.path.display().to_string() });
        }
        done.map_err(|fault| fault.at(&self.path, doing))
    }

    fn address(&self) -> &Path {
        &self.path
    }

    fn known(&self) -> &Known {
        &self.known
    }

    fn lock_file_of(&self, study: StudyId) -> Option<PathBuf> {
        (!self.is_in_memory()).then(|| lock_file(&self.path, study))
    }

    fn look_for_changes(&mut self) -> Result<bool, StorageError> {
        if self.is_outdated() {
            return self.reopen().map(|()| true);
        }
        if self.alone.is_some() {
            return Ok(self.seen.replace(0).is_none());
        }
        self.check_files().map_err(|exchanged| {
            exchanged_error(&self.files, &self.path, exchanged, Rescue::Reader)
        })?;
        let version = self.connection.query_row("PRAGMA data_version", [], |row| row.get(0));
        let version = version
            .map_err(Fault::from)
            .inspect_err(|fault| self.note(fault))
            .map_err(|fault| fault.at(&self.path, "looking for changes"))?;
        self.files.learn();
        Ok(self.seen.replace(version) != Some(version))
    }
}

impl Reads for SqliteStore {
    fn read<T>(
        &self,
        doing: &'static str,
        work: impl FnMut(&dyn Queried) -> Result<T, Fault>,
    ) -> Result<T, StorageError> {
        self.reader.read(doing, work)
    }

    fn address(&self) -> &Path {
        self.reader.address()
    }

    fn known(&self) -> &Known {
        self.reader.known()
    }

    fn lock_file_of(&self, study: StudyId) -> Option<PathBuf> {
        self.reader.lock_file_of(study)
    }

    fn look_for_changes(&mut self) -> Result<bool, StorageError> {
        // SQLite's `data_version` changes with the commits of others only.
        let own = std::mem::take(&mut self.wrote);
        self.tend()?;
        Ok(self.reader.look_for_changes()? || own)
    }
}

impl Writes for SqliteStore {
    fn write<T>(
        &mut self,
        doing: &'static str,
        mut work: impl FnMut(&dyn Queried, &mut Cache) -> Result<T, Fault>,
    ) -> Result<T, StorageError> {
        self.check_files()?;
        let SqliteStore { reader: SqliteReader { connection, path, .. }, cache, .. } = self;
        let mut run = || -> Result<T, Fault> {
            let transaction =
                connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let done = work(&*transaction, cache)?;
            transaction.commit()?;
            Ok(done)
        };
        match run() {
            Ok(done) => {
                // A commit to a file that was moved away meanwhile is not acknowledged.
                self.reader.files.learn();
                self.wrote = true;
                self.checkpoints.note();
                self.tend()?;
                Ok(done)
            }
            Err(fault) => {
                // It may contain ids that were rolled back.
                *cache = Cache::default();
                let path = path.clone();
                self.reader.note(&fault);
                // Files that were replaced meanwhile may be the cause.
                self.check_files()?;
                Err(self.reader.known.named(Fault::at(fault, &path, doing)))
            }
        }
    }

    fn look_for_return(&mut self) -> Result<(), StorageError> {
        // Another process may have opened it under another name, with another log.
        let is_as_left = || self.left.is_some() && self.left == self.reader.files.contents();
        if self.lost.is_some_and(|(exchanged, _)| exchanged.ending.is_empty())
            && is_as_left()
            && self.is_back()
        {
            (self.lost, self.left) = (None, None);
            self.cache = Cache::default();
        }
        self.check_files().map(drop)
    }
}

/// The error about a replaced file.
fn exchanged_error(
    files: &Files,
    path: &Path,
    exchanged: Exchanged,
    rescue: Rescue,
) -> StorageError {
    let Exchanged { ending, what } = exchanged;
    match ending {
        "" => StorageError::Moved {
            path: path.display().to_string(),
            what,
            log: files.log_set_aside().map(|log| log.display().to_string()),
        },
        _ => StorageError::Exchanged {
            path: files.beside(ending).display().to_string(),
            what,
            rescue,
        },
    }
}

/// A connection that only reads.
fn connect_to_read(file: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(file, flags)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    Ok(connection)
}

#[cfg(test)]
mod tests;
