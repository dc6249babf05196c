//! The store behind the server: opened for reading when it is needed, and again when its file was
//! exchanged.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::storage::any::AnyReader;
use crate::storage::sqlite::Migrated;
use crate::storage::{StorageError, StorageReader as _};

/// Hears what happened to the store that its user should know.
pub type Notices = Arc<dyn Fn(&Migrated) + Send + Sync>;

/// What a look at the store found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StoreChange {
    /// Nothing was committed since the last look.
    Same,
    /// Something was.
    Changed,
    /// It was opened just now, and may be another one than before.
    Opened,
}

/// A store that may appear, vanish and come back while the server runs.
pub struct Store {
    path: PathBuf,
    notices: Notices,
    reader: Option<AnyReader>,
}

impl Store {
    /// The store at `path`; it is not opened yet.
    pub fn new(path: &Path, notices: &Notices) -> Self {
        Store { path: path.to_owned(), notices: Arc::clone(notices), reader: None }
    }

    /// Its file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The store, opened if it is not, or not what is at its path any more, and what
    /// is new.
    ///
    /// # Errors
    /// It cannot be opened now; the next call tries again.
    pub fn look(&mut self) -> Result<(&AnyReader, StoreChange), StorageError> {
        let found = match self.reader.as_mut().map(|reader| reader.changed()) {
            Some(Ok(false)) => StoreChange::Same,
            Some(Ok(true)) => StoreChange::Changed,
            Some(Err(_)) | None => {
                // Before another one is opened: SQLite's locks belong to the process.
                self.reader = None;
                let mut reader = AnyReader::open(&self.path)?;
                if let Some(migrated) = reader.migrated() {
                    (self.notices)(migrated);
                }
                reader.changed()?;
                self.reader = Some(reader);
                StoreChange::Opened
            }
        };
        match &self.reader {
            Some(reader) => Ok((reader, found)),
            None => Err(StorageError::Missing { path: self.path.display().to_string() }),
        }
    }

    /// Closes it; the next look opens it again.
    pub fn close(&mut self) {
        self.reader = None;
    }
}
