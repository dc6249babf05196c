//! Backs up a store before its schema is migrated.

use std::fs;
use std::path::{Path, PathBuf};

use super::connect_to_read;
use crate::storage::StorageError;
use crate::storage::sql::fault::Fault;

/// The path of the backup of a store of schema `version`, beside it: `hpsearch.db.v1`.
pub(super) fn place(path: &Path, version: i64) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".v{version}"));
    PathBuf::from(name)
}

/// Copies the store atomically. The caller holds the write lock, so that no other process can
/// change or copy it.
pub(super) fn keep_copy(path: &Path, version: i64) -> Result<(), Fault> {
    let copy = place(path, version);
    let refused = |source: Box<dyn std::error::Error + Send + Sync>| {
        Fault::from(StorageError::NoBackup {
            path: path.display().to_string(),
            found: version,
            copy: copy.display().to_string(),
            source,
        })
    };
    let part = place(&copy, 0);
    // Left behind by a process that was killed while copying.
    let _usually_absent = fs::remove_file(&part);
    let vacuum = || {
        let reader = connect_to_read(path)?;
        reader.execute("VACUUM INTO ?1", [part.display().to_string()])
    };
    vacuum().map_err(|error| refused(error.into()))?;
    let durable = || {
        fs::File::open(&part)
            .and_then(|file| file.sync_all())
            .and_then(|()| fs::rename(&part, &copy))
    };
    durable().map_err(|error| refused(error.into()))
}
