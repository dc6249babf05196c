//! Spools of programs that log themselves (`hpsearch.init`) and have ended, like their writers:
//! found, and written to the store.

use std::path::{Path, PathBuf};
use std::thread::JoinHandle;

use crate::runner::artifacts::digest_of;
use crate::runner::threads;
use crate::storage::address::{Address, RUNS, absolute};
use crate::storage::any::AnyStore;
use crate::tracking::{TrackingError, adopt_spools, orphaned_spools};

/// Writes the spools in a directory, other than `own`, whose programs and writers have ended.
///
/// # Errors
/// The store failed.
pub fn take_over(directory: &Path, own: &Path, store: &Path) -> Result<(), TrackingError> {
    let mut storage = AnyStore::open(store)?;
    adopt_spools(directory, own, &mut storage, store, &mut |_| {})
}

/// The same on a thread for all spools of the store at an absolute path; `None` if there is none.
/// What cannot be written now is left to the next one.
pub fn take_over_all(store: &Path) -> Option<JoinHandle<()>> {
    if waiting(store).is_empty() {
        return None;
    }
    let (directory, store) = (directory(store), store.to_owned());
    let take_over = move || {
        let _left_to_the_next = take_over(&directory, Path::new(""), &store);
    };
    threads::spawn("adopt", take_over).ok()
}

/// The spools for a store whose programs and writers have ended.
pub fn waiting(store: &Path) -> Vec<PathBuf> {
    orphaned_spools(&directory(store), store)
}

/// Where the Python client spools for a store.
fn directory(store: &Path) -> PathBuf {
    match Address::of(store) {
        Address::File(path) => {
            let path = absolute(path).unwrap_or_else(|_| path.to_owned());
            path.with_file_name(SPOOLS)
        }
        Address::Postgres(address) => {
            Path::new(RUNS).join(SPOOLS).join(&digest_of(address.as_bytes())[..16])
        }
    }
}

/// The directory of spools beside a store.
const SPOOLS: &str = "spool";
