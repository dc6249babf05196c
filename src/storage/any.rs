//! A store of any kind, opened by its address: the path of an SQLite file, or `postgres://..`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::address::{Address, refuse_other_urls};
#[cfg(feature = "postgres")]
use super::postgres::{PostgresReader, PostgresStore};
use super::sql::append::Cache;
use super::sql::connection::Connection;
use super::sql::fault::Fault;
use super::sql::known::Known;
use super::sql::storage_reader::Reads;
use super::sql::storage_writer::Writes;
use super::sqlite::{Migrated, SqliteReader, SqliteStore};
use super::{StorageError, StudyId};

/// A store opened for reading only.
#[derive(Debug)]
pub enum AnyReader {
    /// In a file.
    Sqlite(Box<SqliteReader>),
    /// On a server.
    #[cfg(feature = "postgres")]
    Postgres(Box<PostgresReader>),
}

/// A store opened for reading and writing.
#[derive(Debug)]
pub enum AnyStore {
    /// In a file.
    Sqlite(Box<SqliteStore>),
    /// On a server.
    #[cfg(feature = "postgres")]
    Postgres(Box<PostgresStore>),
}

impl AnyReader {
    /// Opens the store at an address for reading; if there is none, the error says how to create
    /// one.
    pub fn open(address: &Path) -> Result<Self, StorageError> {
        match Address::of(address) {
            Address::File(path) => {
                refuse_other_urls(path)?;
                SqliteReader::open(path).map(Box::new).map(AnyReader::Sqlite)
            }
            #[cfg(feature = "postgres")]
            Address::Postgres(url) => {
                PostgresReader::open(url).map(Box::new).map(AnyReader::Postgres)
            }
            #[cfg(not(feature = "postgres"))]
            Address::Postgres(_) => Err(without_postgres(address)),
        }
    }

    /// The same; `None` if there is no store yet.
    pub fn open_if_there(address: &Path) -> Result<Option<Self>, StorageError> {
        match AnyReader::open(address) {
            Ok(reader) => Ok(Some(reader)),
            Err(StorageError::Missing { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The migration that opening it caused, if any.
    pub fn migrated(&self) -> Option<&Migrated> {
        match self {
            AnyReader::Sqlite(reader) => reader.migrated(),
            #[cfg(feature = "postgres")]
            AnyReader::Postgres(_) => None,
        }
    }

    /// The version of the store's schema.
    pub fn schema_version(&self) -> Result<i64, StorageError> {
        match self {
            AnyReader::Sqlite(reader) => reader.schema_version(),
            #[cfg(feature = "postgres")]
            AnyReader::Postgres(reader) => reader.schema_version(),
        }
    }

    /// All problems of the store's file, one sentence each; `progress` is called with the number of
    /// checked tables and of all tables. `None`: it is on a server, which checks its own.
    pub fn soundness(
        &self,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Option<Vec<String>>, StorageError> {
        match self {
            AnyReader::Sqlite(reader) => reader.soundness(progress).map(Some),
            #[cfg(feature = "postgres")]
            AnyReader::Postgres(_) => Ok(None),
        }
    }
}

impl AnyStore {
    /// Opens the store at an address; creates it if missing, and migrates an older schema.
    pub fn open(address: &Path) -> Result<Self, StorageError> {
        match Address::of(address) {
            Address::File(path) => {
                refuse_other_urls(path)?;
                SqliteStore::open(path).map(Box::new).map(AnyStore::Sqlite)
            }
            #[cfg(feature = "postgres")]
            Address::Postgres(url) => {
                PostgresStore::open(url).map(Box::new).map(AnyStore::Postgres)
            }
            #[cfg(not(feature = "postgres"))]
            Address::Postgres(_) => Err(without_postgres(address)),
        }
    }

    /// The same for a store that is there: a missing one is an error.
    pub fn open_existing(address: &Path) -> Result<Self, StorageError> {
        match Address::of(address) {
            Address::File(path) => {
                refuse_other_urls(path)?;
                SqliteStore::open_existing(path).map(Box::new).map(AnyStore::Sqlite)
            }
            Address::Postgres(_) => {
                AnyReader::open(address)?;
                AnyStore::open(address)
            }
        }
    }

    /// The migration that opening it caused, if any.
    pub fn migrated(&self) -> Option<&Migrated> {
        match self {
            AnyStore::Sqlite(store) => store.reader().migrated(),
            #[cfg(feature = "postgres")]
            AnyStore::Postgres(_) => None,
        }
    }

    /// Erases what removed rows left in the store's file. Returns whether it is done: if other
    /// processes use the file, the next one to open the store does it. A server does it by itself.
    pub fn erase_removed(&mut self) -> Result<bool, StorageError> {
        match self {
            AnyStore::Sqlite(store) => store.erase_removed(),
            #[cfg(feature = "postgres")]
            AnyStore::Postgres(_) => Ok(true),
        }
    }
}

#[cfg(not(feature = "postgres"))]
fn without_postgres(address: &Path) -> StorageError {
    StorageError::WithoutPostgres { address: address.display().to_string() }
}

impl Reads for AnyReader {
    fn read<T>(
        &self,
        doing: &'static str,
        work: impl FnMut(&dyn Connection) -> Result<T, Fault>,
    ) -> Result<T, StorageError> {
        match self {
            AnyReader::Sqlite(reader) => reader.read(doing, work),
            #[cfg(feature = "postgres")]
            AnyReader::Postgres(reader) => reader.read(doing, work),
        }
    }

    fn address(&self) -> &Path {
        match self {
            AnyReader::Sqlite(reader) => reader.address(),
            #[cfg(feature = "postgres")]
            AnyReader::Postgres(reader) => reader.address(),
        }
    }

    fn known(&self) -> &Known {
        match self {
            AnyReader::Sqlite(reader) => reader.known(),
            #[cfg(feature = "postgres")]
            AnyReader::Postgres(reader) => reader.known(),
        }
    }

    fn lock_file_of(&self, study: StudyId) -> Option<PathBuf> {
        match self {
            AnyReader::Sqlite(reader) => reader.lock_file_of(study),
            #[cfg(feature = "postgres")]
            AnyReader::Postgres(_) => None,
        }
    }

    fn look_for_changes(&mut self) -> Result<bool, StorageError> {
        match self {
            AnyReader::Sqlite(reader) => reader.look_for_changes(),
            #[cfg(feature = "postgres")]
            AnyReader::Postgres(reader) => reader.look_for_changes(),
        }
    }

    fn time_of_leases(&self) -> Option<Duration> {
        match self {
            AnyReader::Sqlite(_) => None,
            #[cfg(feature = "postgres")]
            AnyReader::Postgres(reader) => reader.time_of_leases(),
        }
    }
}

impl Reads for AnyStore {
    fn read<T>(
        &self,
        doing: &'static str,
        work: impl FnMut(&dyn Connection) -> Result<T, Fault>,
    ) -> Result<T, StorageError> {
        match self {
            AnyStore::Sqlite(store) => store.read(doing, work),
            #[cfg(feature = "postgres")]
            AnyStore::Postgres(store) => store.read(doing, work),
        }
    }

    fn address(&self) -> &Path {
        match self {
            AnyStore::Sqlite(store) => store.address(),
            #[cfg(feature = "postgres")]
            AnyStore::Postgres(store) => store.address(),
        }
    }

    fn known(&self) -> &Known {
        match self {
            AnyStore::Sqlite(store) => store.known(),
            #[cfg(feature = "postgres")]
            AnyStore::Postgres(store) => store.known(),
        }
    }

    fn lock_file_of(&self, study: StudyId) -> Option<PathBuf> {
        match self {
            AnyStore::Sqlite(store) => store.lock_file_of(study),
            #[cfg(feature = "postgres")]
            AnyStore::Postgres(_) => None,
        }
    }

    fn look_for_changes(&mut self) -> Result<bool, StorageError> {
        match self {
            AnyStore::Sqlite(store) => store.look_for_changes(),
            #[cfg(feature = "postgres")]
            AnyStore::Postgres(store) => store.look_for_changes(),
        }
    }

    fn time_of_leases(&self) -> Option<Duration> {
        match self {
            AnyStore::Sqlite(_) => None,
            #[cfg(feature = "postgres")]
            AnyStore::Postgres(store) => store.time_of_leases(),
        }
    }
}

impl Writes for AnyStore {
    fn write<T>(
        &mut self,
        doing: &'static str,
        work: impl FnMut(&dyn Connection, &mut Cache) -> Result<T, Fault>,
    ) -> Result<T, StorageError> {
        match self {
            AnyStore::Sqlite(store) => store.write(doing, work),
            #[cfg(feature = "postgres")]
            AnyStore::Postgres(store) => store.write(doing, work),
        }
    }

    fn look_for_return(&mut self) -> Result<(), StorageError> {
        match self {
            AnyStore::Sqlite(store) => Writes::look_for_return(store.as_mut()),
            #[cfg(feature = "postgres")]
            AnyStore::Postgres(store) => Writes::look_for_return(store.as_mut()),
        }
    }
}
