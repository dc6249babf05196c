//! A store in memory, for tests and temporary studies.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use super::sql::append::Cache;
use super::sql::connection::Connection;
use super::sql::fault::Fault;
use super::sql::known::Known;
use super::sql::storage_reader::Reads;
use super::sql::storage_writer::Writes;
use super::sqlite::SqliteStore;
use super::{StorageError, StudyId};

/// A handle on a store in memory. Clones share the data, which is freed with the last of them.
#[derive(Debug)]
pub struct MemoryStore {
    name: String,
    store: SqliteStore,
}

impl MemoryStore {
    /// An empty store.
    pub fn new() -> Self {
        static STORES: AtomicU64 = AtomicU64::new(0);
        MemoryStore::named(format!("memory-{}", STORES.fetch_add(1, Ordering::Relaxed)))
    }

    fn named(name: String) -> Self {
        let store = SqliteStore::in_memory(&name).expect("memory can be opened and written");
        MemoryStore { name, store }
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        MemoryStore::new()
    }
}

impl Clone for MemoryStore {
    fn clone(&self) -> Self {
        MemoryStore::named(self.name.clone())
    }
}

impl Reads for MemoryStore {
    fn read<T>(
        &self,
        doing: &'static str,
        work: impl FnMut(&dyn Connection) -> Result<T, Fault>,
    ) -> Result<T, StorageError> {
        self.store.read(doing, work)
    }

    fn address(&self) -> &Path {
        self.store.address()
    }

    fn known(&self) -> &Known {
        self.store.known()
    }

    fn lock_file_of(&self, study: StudyId) -> Option<PathBuf> {
        self.store.lock_file_of(study)
    }

    fn look_for_changes(&mut self) -> Result<bool, StorageError> {
        self.store.look_for_changes()
    }
}

impl Writes for MemoryStore {
    fn write<T>(
        &mut self,
        doing: &'static str,
        work: impl FnMut(&dyn Connection, &mut Cache) -> Result<T, Fault>,
    ) -> Result<T, StorageError> {
        self.store.write(doing, work)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::conformance;

    #[test]
    fn the_memory_store_passes_the_suite() {
        conformance::run(&mut || {
            let store = MemoryStore::new();
            Box::new(move || Box::new(store.clone()))
        });
    }
}
