//! Takes over the spools of programs that have exited and whose writers were killed or never ran.

use std::path::{Path, PathBuf};

use super::{Notice, Program, Refusal, SpoolWriter, write};
use crate::runner::disk;
use crate::storage::{Storage, StorageError};
use crate::tracking::TrackingError;
use crate::tracking::spool::{FILES, Header, SPOOL, Spool, has_extension, remove_unneeded_files};

/// Writes spools other than `own` whose programs have exited and whose writers were killed or never
/// ran. Those of another store in the same directory are left to it. What programs copied for
/// spools that are gone is removed.
///
/// # Errors
/// The store failed.
pub fn adopt_spools(
    directory: &Path,
    own: &Path,
    storage: &mut dyn Storage,
    store: &Path,
    say: &mut dyn FnMut(Notice),
) -> Result<(), TrackingError> {
    for path in disk::entries(directory) {
        if has_extension(&path, FILES) {
            remove_unneeded_files(&path);
        }
        if path.file_name() == own.file_name() {
            continue;
        }
        let Some(spool) = orphaned(&path, directory, store) else { continue };
        let wait = &mut || Program::Gone;
        let writer = SpoolWriter { storage, store, wait, say };
        match write(&path, spool, writer, Refusal::Begins) {
            Ok(()) => {}
            Err(TrackingError::Storage(error)) if !is_refusal(&error) => return Err(error.into()),
            Err(error) => say(Notice::Note(format!("{}: {error}", path.display()))),
        }
    }
    Ok(())
}

/// The spools that [`adopt_spools`] would write: those without a damaged header.
pub fn orphaned_spools(directory: &Path, store: &Path) -> Vec<PathBuf> {
    let is_readable =
        |mut spool: Spool| !spool.has_writer() && matches!(spool.header(), Ok(Some(_)));
    let is_orphaned = |path: &PathBuf| orphaned(path, directory, store).is_some_and(is_readable);
    let mut spools: Vec<PathBuf> = disk::entries(directory).filter(is_orphaned).collect();
    spools.sort();
    spools
}

/// A spool for this store whose program has ended, with the lock that programs hold while they are
/// alive: here it excludes other adopters.
fn orphaned(path: &Path, directory: &Path, store: &Path) -> Option<Spool> {
    let mut spool = has_extension(path, SPOOL).then(|| Spool::open(path).ok()).flatten()?;
    let is_orphaned =
        spool.try_lock() && !spool.is_removed() && !is_of_another(&mut spool, directory, store);
    is_orphaned.then_some(spool)
}

/// Whether a spool in this directory is of another store that is there, whatever links are called.
fn is_of_another(spool: &mut Spool, directory: &Path, store: &Path) -> bool {
    let Ok(Some(Header { store: Some(name), .. })) = spool.header() else { return false };
    let file = |path: &Path| path.canonicalize().ok();
    file(&directory.with_file_name(name)).is_some_and(|its| Some(its) != file(store))
}

/// Whether the store works and rejects this run.
fn is_refusal(error: &StorageError) -> bool {
    matches!(error, StorageError::RunFenced { .. } | StorageError::Searched { .. })
}
