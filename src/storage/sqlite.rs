//! The store in one SQLite file: any number of processes read while one writes.

mod append;
mod backup;
mod fault;
mod filesystem;
mod migrate;
mod number;
mod optuna;
mod outcomes;
mod pages;
mod place;
mod read;
mod soundness;
mod trials;
mod used;
mod write;

pub use soundness::sqlite_version;

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags, Transaction, TransactionBehavior};

use self::append::Cache;
use self::fault::Fault;
use self::migrate::MIGRATIONS;
use self::place::Place;
use super::{
    Attempt, BUSY_TIMEOUT, Curve, Holder, Lease, Outcome, OutcomeCursor, Storage, StorageError, StorageReader, StoredRequest, StoredRunner,
    StoredStudy, StudyId, StudySummary, Takeover,
};
use crate::checkpoint::Checkpoint;
use crate::event::{Answer, Event, Request, Seq};
use crate::forecast::Used;
use crate::query::{Filter, TrialQuery};
use crate::study::StudySpec;
use crate::time::Timestamp;
use crate::trial::{Trial, TrialNumber};
use crate::view::StudyView;

/// A store opened for reading only, for those who watch.
#[derive(Debug)]
pub struct SqliteReader {
    connection: Connection,
    path: PathBuf,
    place: Place,
    seen: Option<i64>,
}

/// A store opened for reading and writing.
#[derive(Debug)]
pub struct SqliteStore {
    reader: SqliteReader,
    cache: Cache,
    wrote: bool,
}

impl SqliteStore {
    /// Opens the store at `path`; makes the file and its directories where they are missing, and brings an older schema
    /// up to date. Refuses files of other programs and network file systems.
    pub fn open(path: &Path) -> Result<Self, StorageError> {
        if path.to_str().is_none() {
            return Err(StorageError::NotText { path: path.display().to_string() });
        }
        let directory = directory_of(path);
        refuse_network(path, &directory)?;
        std::fs::create_dir_all(&directory).map_err(|source| io_error(&directory, source))?;
        let open = || {
            let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
            let mut connection = Connection::open_with_flags(path, flags)?;
            connection.busy_timeout(BUSY_TIMEOUT)?;
            // Before anything is changed: the file may belong to someone else.
            migrate::version(&connection, path, MIGRATIONS)?;
            enable_wal(&connection)?;
            configure(&connection)?;
            migrate::migrate(&mut connection, path, MIGRATIONS, |found| backup::keep_copy(path, found))?;
            Ok(connection)
        };
        let connection = open().map_err(|fault: Fault| fault.at(path, "opening it"))?;
        Ok(SqliteStore { reader: SqliteReader::new(connection, path), cache: Cache::default(), wrote: false })
    }

    /// Runs `work` in one transaction; if it fails, nothing of it is written.
    fn write<T>(&mut self, doing: &'static str, work: impl FnOnce(&Transaction<'_>, &mut Cache) -> Result<T, Fault>) -> Result<T, StorageError> {
        let SqliteStore { reader: SqliteReader { connection, path, place, .. }, cache, .. } = self;
        let run = || {
            let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let done = work(&transaction, cache)?;
            transaction.commit()?;
            // What was committed to a file that was taken away meanwhile is not told to anyone.
            place.check(path)?;
            Ok(done)
        };
        match run() {
            Ok(done) => {
                self.wrote = true;
                Ok(done)
            }
            Err(fault) => {
                // It may know ids that were rolled back.
                *cache = Cache::default();
                Err(Fault::at(fault, path, doing))
            }
        }
    }
}

impl SqliteReader {
    /// Opens the store at `path` for reading; an error that says how to make one if there is none.
    pub fn open(path: &Path) -> Result<Self, StorageError> {
        let missing = || StorageError::Missing { path: path.display().to_string() };
        match std::fs::metadata(path) {
            Ok(metadata) if metadata.len() == 0 => return Err(missing()),
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Err(missing()),
            Err(source) => return Err(io_error(path, source)),
        }
        refuse_network(path, &directory_of(path))?;
        let opened = match open_to_read(path) {
            Err(Fault::Sql(error)) if matches!(error.sqlite_error_code(), Some(ErrorCode::CannotOpen | ErrorCode::ReadOnly)) && !has_log(path) => {
                open_archived(path)
            }
            other => other,
        };
        let opened = opened.map_err(|fault| fault.at(path, "opening it"));
        match opened? {
            (_, 0) => Err(missing()),
            (connection, version) if version == migrate::newest(MIGRATIONS) => Ok(SqliteReader::new(connection, path)),
            // An older schema: whoever opens it for writing brings it up to date.
            _ => Ok(SqliteStore::open(path)?.reader),
        }
    }

    fn new(connection: Connection, path: &Path) -> Self {
        connection.set_prepared_statement_cache_capacity(64);
        // A plan that depends on what is bound is made anew for every range of trials.
        let _slower_without = connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true);
        SqliteReader { connection, path: path.to_owned(), place: Place::of(path), seen: None }
    }

    /// Runs `work` on one committed state.
    fn read<T>(&self, doing: &'static str, work: impl FnOnce(&Connection) -> Result<T, Fault>) -> Result<T, StorageError> {
        let run = || {
            let transaction = self.connection.unchecked_transaction()?;
            work(&transaction)
        };
        run().map_err(|fault| fault.at(&self.path, doing))
    }
}

/// A connection and the schema's version.
fn open_to_read(path: &Path) -> Result<(Connection, i64), Fault> {
    let connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    let version = migrate::version(&connection, path, MIGRATIONS)?;
    Ok((connection, version))
}

/// The same where SQLite cannot put its shared memory beside the file: in a directory that is read-only. Nobody can be
/// writing there, or the file would have a log.
fn open_archived(path: &Path) -> Result<(Connection, i64), Fault> {
    let text = path.to_str().ok_or_else(|| Fault::unstorable(format!("the path `{}` is not UTF-8", path.display())))?;
    let uri = format!("file:{}?immutable=1", text.replace('%', "%25").replace('?', "%3f").replace('#', "%23"));
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_URI;
    let connection = Connection::open_with_flags(uri, flags)?;
    let version = migrate::version(&connection, path, MIGRATIONS)?;
    Ok((connection, version))
}

fn has_log(path: &Path) -> bool {
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    Path::new(&log).exists()
}

/// The directory that holds the file, links followed if it exists.
fn directory_of(path: &Path) -> PathBuf {
    let real = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    match real.parent() {
        Some(parent) if parent != Path::new("") => parent.to_owned(),
        _ => PathBuf::from("."),
    }
}

fn refuse_network(path: &Path, directory: &Path) -> Result<(), StorageError> {
    let existing = directory.ancestors().find(|ancestor| ancestor.exists()).unwrap_or(Path::new("."));
    match filesystem::network_file_system(existing) {
        Some(kind) => Err(StorageError::NetworkFileSystem { path: path.display().to_string(), kind: kind.to_owned() }),
        None => Ok(()),
    }
}

fn io_error(path: &Path, source: std::io::Error) -> StorageError {
    StorageError::Io { path: path.display().to_string(), source }
}

/// Readers do not wait for the writer in this mode, nor it for them. SQLite does not call its busy handler here, so that
/// processes that make a store at the same moment are waited for by hand.
fn enable_wal(connection: &Connection) -> Result<(), Fault> {
    const PAUSE: Duration = Duration::from_millis(5);
    let mut patience = BUSY_TIMEOUT.as_millis() / PAUSE.as_millis();
    loop {
        match connection.query_row("PRAGMA journal_mode = WAL", [], |row| row.get::<_, String>(0)) {
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) && patience > 0 => {
                patience -= 1;
                std::thread::sleep(PAUSE);
            }
            other => return Ok(other.map(drop)?),
        }
    }
}

fn configure(connection: &Connection) -> Result<(), Fault> {
    // NORMAL syncs at checkpoints only: after a power loss the file is sound and the last moments are gone; the death of
    // processes loses nothing.
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    connection.pragma_update(None, "foreign_keys", true)?;
    // Four times SQLite's default: a log of 16 MB, and 1.4 times the small transactions a second (measured with 10 events each).
    connection.pragma_update(None, "wal_autocheckpoint", 4000)?;
    // The columns' CHECKs hold back whoever else writes here. What this program writes they check in its tests, with debug
    // assertions: a list of states is a table built at every update, and JSON is parsed, a quarter of a small trial's time.
    connection.pragma_update(None, "ignore_check_constraints", !cfg!(debug_assertions))?;
    Ok(())
}

impl StorageReader for SqliteReader {
    fn studies(&self) -> Result<Vec<StudySummary>, StorageError> {
        self.read("listing the studies", read::studies)
    }

    fn study(&self, name: &str) -> Result<Option<StoredStudy>, StorageError> {
        self.read("reading a study", |connection| read::study(connection, name))
    }

    fn summary(&self, study: StudyId) -> Result<StudySummary, StorageError> {
        self.read("reading a study", |connection| read::summary(connection, study))
    }

    fn view(&self, study: StudyId) -> Result<StudyView, StorageError> {
        self.read("reading a study", |connection| read::view(connection, study))
    }

    fn trials(&self, study: StudyId, query: &TrialQuery) -> Result<Vec<Trial>, StorageError> {
        self.read("reading trials", |connection| {
            read::require(connection, study)?;
            pages::page(connection, study, query)
        })
    }

    fn numbers(&self, study: StudyId, query: &TrialQuery) -> Result<Vec<TrialNumber>, StorageError> {
        self.read("reading trials", |connection| {
            read::require(connection, study)?;
            pages::numbers(connection, study, query)
        })
    }

    fn count(&self, study: StudyId, filter: &Filter) -> Result<u64, StorageError> {
        self.read("counting trials", |connection| {
            read::require(connection, study)?;
            pages::count(connection, study, filter)
        })
    }

    fn outcomes(&self, study: StudyId, after: OutcomeCursor) -> Result<(Vec<Outcome>, OutcomeCursor), StorageError> {
        self.read("reading outcomes", |connection| outcomes::outcomes(connection, study, after))
    }

    fn curves(&self, study: StudyId, metric: &str, trials: &[TrialNumber]) -> Result<Vec<Curve>, StorageError> {
        self.read("reading reports", |connection| read::curves(connection, study, metric, trials))
    }

    fn params(&self, study: StudyId) -> Result<Vec<String>, StorageError> {
        self.read("reading the names of parameters", |connection| read::params(connection, study))
    }

    fn metrics(&self, study: StudyId) -> Result<Vec<String>, StorageError> {
        self.read("reading the names of metrics", |connection| read::metrics(connection, study))
    }

    fn trial(&self, study: StudyId, number: TrialNumber) -> Result<Option<Trial>, StorageError> {
        self.read("reading a trial", |connection| {
            read::require(connection, study)?;
            trials::one(connection, study, number)
        })
    }

    fn attempts(&self, study: StudyId, trial: Option<TrialNumber>) -> Result<Vec<Attempt>, StorageError> {
        self.read("reading attempts", |connection| read::attempts(connection, study, trial))
    }

    fn reports(&self, study: StudyId, trial: TrialNumber) -> Result<Vec<(String, u64, f64)>, StorageError> {
        self.read("reading reports", |connection| read::reports(connection, study, trial))
    }

    fn events_after(&self, study: StudyId, seq: Seq, limit: u64) -> Result<Vec<(Seq, Timestamp, Event)>, StorageError> {
        self.read("reading the journal", |connection| read::events_after(connection, study, seq, limit))
    }

    fn events_before(&self, study: StudyId, seq: Seq, limit: u64) -> Result<Vec<(Seq, Timestamp, Event)>, StorageError> {
        self.read("reading the journal", |connection| read::events_before(connection, study, seq, limit))
    }

    fn used(&self, study: StudyId) -> Result<Used, StorageError> {
        self.read("reading what a study used", |connection| used::used(connection, study))
    }

    fn checkpoints(&self, study: StudyId) -> Result<Vec<(TrialNumber, Checkpoint)>, StorageError> {
        self.read("reading checkpoints", |connection| used::checkpoints(connection, study))
    }

    fn running_since(&self, study: StudyId) -> Result<(i64, Option<Timestamp>), StorageError> {
        self.read("reading a study", |connection| read::running_since(connection, study))
    }

    fn runners(&self, study: StudyId) -> Result<Vec<StoredRunner>, StorageError> {
        self.read("reading runners", |connection| read::runners(connection, study))
    }

    fn revisions(&self, study: StudyId) -> Result<Vec<(Seq, StudySpec)>, StorageError> {
        self.read("reading a study", |connection| read::revisions(connection, study))
    }

    fn document(&self, digest: &str) -> Result<Option<String>, StorageError> {
        self.read("reading a document", |connection| read::document(connection, digest))
    }

    fn changed(&mut self) -> Result<bool, StorageError> {
        self.place.check(&self.path)?;
        let version = self.connection.query_row("PRAGMA data_version", [], |row| row.get(0));
        let version = version.map_err(|error| Fault::from(error).at(&self.path, "looking for changes"))?;
        Ok(self.seen.replace(version) != Some(version))
    }
}

impl StorageReader for SqliteStore {
    fn studies(&self) -> Result<Vec<StudySummary>, StorageError> {
        self.reader.studies()
    }

    fn study(&self, name: &str) -> Result<Option<StoredStudy>, StorageError> {
        self.reader.study(name)
    }

    fn summary(&self, study: StudyId) -> Result<StudySummary, StorageError> {
        self.reader.summary(study)
    }

    fn view(&self, study: StudyId) -> Result<StudyView, StorageError> {
        self.reader.view(study)
    }

    fn trials(&self, study: StudyId, query: &TrialQuery) -> Result<Vec<Trial>, StorageError> {
        self.reader.trials(study, query)
    }

    fn numbers(&self, study: StudyId, query: &TrialQuery) -> Result<Vec<TrialNumber>, StorageError> {
        self.reader.numbers(study, query)
    }

    fn count(&self, study: StudyId, filter: &Filter) -> Result<u64, StorageError> {
        self.reader.count(study, filter)
    }

    fn outcomes(&self, study: StudyId, after: OutcomeCursor) -> Result<(Vec<Outcome>, OutcomeCursor), StorageError> {
        self.reader.outcomes(study, after)
    }

    fn curves(&self, study: StudyId, metric: &str, trials: &[TrialNumber]) -> Result<Vec<Curve>, StorageError> {
        self.reader.curves(study, metric, trials)
    }

    fn params(&self, study: StudyId) -> Result<Vec<String>, StorageError> {
        self.reader.params(study)
    }

    fn metrics(&self, study: StudyId) -> Result<Vec<String>, StorageError> {
        self.reader.metrics(study)
    }

    fn trial(&self, study: StudyId, number: TrialNumber) -> Result<Option<Trial>, StorageError> {
        self.reader.trial(study, number)
    }

    fn attempts(&self, study: StudyId, trial: Option<TrialNumber>) -> Result<Vec<Attempt>, StorageError> {
        self.reader.attempts(study, trial)
    }

    fn reports(&self, study: StudyId, trial: TrialNumber) -> Result<Vec<(String, u64, f64)>, StorageError> {
        self.reader.reports(study, trial)
    }

    fn events_after(&self, study: StudyId, seq: Seq, limit: u64) -> Result<Vec<(Seq, Timestamp, Event)>, StorageError> {
        self.reader.events_after(study, seq, limit)
    }

    fn events_before(&self, study: StudyId, seq: Seq, limit: u64) -> Result<Vec<(Seq, Timestamp, Event)>, StorageError> {
        self.reader.events_before(study, seq, limit)
    }

    fn used(&self, study: StudyId) -> Result<Used, StorageError> {
        self.reader.used(study)
    }

    fn checkpoints(&self, study: StudyId) -> Result<Vec<(TrialNumber, Checkpoint)>, StorageError> {
        self.reader.checkpoints(study)
    }

    fn running_since(&self, study: StudyId) -> Result<(i64, Option<Timestamp>), StorageError> {
        self.reader.running_since(study)
    }

    fn runners(&self, study: StudyId) -> Result<Vec<StoredRunner>, StorageError> {
        self.reader.runners(study)
    }

    fn revisions(&self, study: StudyId) -> Result<Vec<(Seq, StudySpec)>, StorageError> {
        self.reader.revisions(study)
    }

    fn document(&self, digest: &str) -> Result<Option<String>, StorageError> {
        self.reader.document(digest)
    }

    fn changed(&mut self) -> Result<bool, StorageError> {
        // SQLite's counter moves with the commits of others only.
        let own = std::mem::take(&mut self.wrote);
        Ok(self.reader.changed()? || own)
    }
}

impl Storage for SqliteStore {
    fn create_study(&mut self, now: Timestamp, spec: &StudySpec) -> Result<StudyId, StorageError> {
        self.write("creating a study", |transaction, _| write::create_study(transaction, now, spec))
    }

    fn update_spec(&mut self, lease: &Lease, now: Timestamp, spec: &StudySpec) -> Result<(), StorageError> {
        self.write("changing a study", |transaction, _| write::update_spec(transaction, lease, now, spec))
    }

    fn acquire(&mut self, study: StudyId, holder: &Holder, now: Timestamp, takeover: Takeover) -> Result<Lease, StorageError> {
        self.write("taking a study", |transaction, _| write::acquire(transaction, study, holder, now, takeover))
    }

    fn release(&mut self, lease: &Lease) -> Result<(), StorageError> {
        self.write("giving a study back", |transaction, _| write::release(transaction, lease))
    }

    fn append(&mut self, lease: &Lease, now: Timestamp, events: &[Event]) -> Result<Seq, StorageError> {
        self.write("writing events", |transaction, cache| write::append(transaction, cache, lease, now, events))
    }

    fn keep_document(&mut self, digest: &str, body: &str) -> Result<(), StorageError> {
        self.write("keeping a document", |transaction, _| write::keep_document(transaction, digest, body))
    }

    fn request(&mut self, study: StudyId, now: Timestamp, request: &Request) -> Result<i64, StorageError> {
        self.write("writing a request", |transaction, cache| write::request(transaction, cache, study, now, request))
    }

    fn pending_requests(&self, study: StudyId) -> Result<Vec<StoredRequest>, StorageError> {
        self.reader.read("reading requests", |connection| read::pending_requests(connection, study))
    }

    fn answer(&self, study: StudyId, id: i64) -> Result<Option<Answer>, StorageError> {
        self.reader.read("reading a request", |connection| read::answer(connection, study, id))
    }
}

#[cfg(test)]
mod tests;
