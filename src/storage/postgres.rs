//! The store in a database of a PostgreSQL server: any number of processes of any number of
//! machines read and write.
//!
//! Writers of one study wait for each other (they lock its row of table `lease`), those of others
//! do not. A lease has a time by the server's clock: a holder that does not renew it is fenced, and
//! another process takes over. A transaction that loses its connection is repeated; if it was lost
//! while committing, the server is asked what became of it.

#![expect(
    clippy::disallowed_methods,
    reason = "a connection may be lost, and is waited for; its settings are in the environment"
)]

mod login;
mod schema;
mod session;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use self::login::Login;
use self::session::Session;
use super::sql::append::Cache;
use super::sql::column::value;
use super::sql::connection::Connection;
use super::sql::fault::Fault;
use super::sql::known::Known;
use super::sql::storage_reader::Reads;
use super::sql::storage_writer::Writes;
use super::{BUSY_TIMEOUT, StorageError, StudyId};

/// Longest interval between questions to the server whether something has changed, which is asked
/// at once when it says so.
const ASK_INTERVAL: Duration = Duration::from_secs(1);

/// A store opened for reading only.
#[derive(Debug)]
pub struct PostgresReader {
    session: Session,
    address: PathBuf,
    seen: Option<String>,
    /// When the server was last asked for changes.
    asked: Option<Instant>,
    /// How often it is asked without a notification.
    ask_interval: Duration,
    known: Known,
}

/// A store opened for reading and writing.
#[derive(Debug)]
pub struct PostgresStore {
    reader: PostgresReader,
    cache: Cache,
}

impl PostgresReader {
    /// Opens the store at a URL for reading. An older schema is migrated.
    pub fn open(url: &str) -> Result<Self, StorageError> {
        let login = Login::of(url)?;
        let open = || {
            // Screens say that the server is gone, and look again.
            let session = Session::connect(login.clone(), Duration::ZERO)?;
            let found = schema::version(&session, login.path())?;
            Ok((session, found))
        };
        let (session, found) = open().map_err(|fault: Fault| login.at(fault, "opening it"))?;
        match found {
            0 => Err(StorageError::Missing { path: login.address().to_owned() }),
            found if found < schema::newest() => Ok(PostgresStore::open(url)?.reader),
            _ => Ok(PostgresReader::new(session, &login)),
        }
    }

    fn new(session: Session, login: &Login) -> Self {
        PostgresReader {
            session,
            address: PathBuf::from(login.address()),
            seen: None,
            asked: None,
            ask_interval: ASK_INTERVAL,
            known: Known::default(),
        }
    }

    /// The version of the store's schema.
    pub fn schema_version(&self) -> Result<i64, StorageError> {
        self.read("reading its version", |connection| schema::version(connection, &self.address))
    }

    fn fault(&self, fault: Fault, doing: &'static str) -> StorageError {
        fault.at(&self.address, doing)
    }
}

impl PostgresStore {
    /// Opens the store at a URL; creates its tables if missing, and migrates an older schema.
    /// Rejects databases of other programs.
    pub fn open(url: &str) -> Result<Self, StorageError> {
        let login = Login::of(url)?;
        let open = || {
            let session = Session::connect(login.clone(), BUSY_TIMEOUT)?;
            schema::migrate(&session, login.path())?;
            Ok(session)
        };
        let session = open().map_err(|fault: Fault| login.at(fault, "opening it"))?;
        let reader = PostgresReader::new(session, &login);
        Ok(PostgresStore { reader, cache: Cache::default() })
    }
}

impl Reads for PostgresReader {
    fn read<T>(
        &self,
        doing: &'static str,
        mut work: impl FnMut(&dyn Connection) -> Result<T, Fault>,
    ) -> Result<T, StorageError> {
        self.session.read(|session| work(session)).map_err(|fault| self.fault(fault, doing))
    }

    fn address(&self) -> &Path {
        &self.address
    }

    fn known(&self) -> &Known {
        &self.known
    }

    fn lock_file_of(&self, _study: StudyId) -> Option<PathBuf> {
        None
    }

    fn time_of_leases(&self) -> Option<Duration> {
        self.session.dialect().lease
    }

    fn look_for_changes(&mut self) -> Result<bool, StorageError> {
        // Notifications are a hint: they may be lost.
        let is_due = self.asked.is_none_or(|at| at.elapsed() >= self.ask_interval);
        if !self.session.is_notified() && !is_due {
            return Ok(false);
        }
        self.asked = Some(Instant::now());
        // Every transaction that writes to a study counts it in the row that it locks.
        let sql = "SELECT concat_ws(' ', count(*), sum(study_id), sum(writes)) FROM lease";
        let look = || value::<String>(&self.session, sql, ());
        let now = self.session.patiently(look);
        let now = Some(now.map_err(|fault| self.fault(fault, "looking for changes"))?);
        let is_new = self.seen != now;
        self.seen = now;
        Ok(is_new)
    }
}

impl Reads for PostgresStore {
    fn read<T>(
        &self,
        doing: &'static str,
        work: impl FnMut(&dyn Connection) -> Result<T, Fault>,
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

    fn time_of_leases(&self) -> Option<Duration> {
        self.reader.time_of_leases()
    }

    fn look_for_changes(&mut self) -> Result<bool, StorageError> {
        self.reader.look_for_changes()
    }
}

impl Writes for PostgresStore {
    fn write<T>(
        &mut self,
        doing: &'static str,
        mut work: impl FnMut(&dyn Connection, &mut Cache) -> Result<T, Fault>,
    ) -> Result<T, StorageError> {
        let PostgresStore { reader: PostgresReader { session, .. }, cache } = self;
        let written = session.write(|session| {
            let done = work(session, cache);
            if done.is_err() {
                // It may contain ids that were rolled back.
                *cache = Cache::default();
            }
            done
        });
        written.map_err(|fault| {
            self.cache = Cache::default();
            self.reader.known.named(self.reader.fault(fault, doing))
        })
    }
}

#[cfg(test)]
mod tests;
