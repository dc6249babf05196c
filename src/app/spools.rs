//! Spools of programs that log themselves (`hpsearch.init`) and have ended, like their writers:
//! found, and written to the store.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

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

/// Takes over all spools of a store on a thread. What is not written by the end of the process is
/// left to the next one.
pub struct TakeOver(Receiver<()>);

impl TakeOver {
    /// Begins, for the store at an absolute path; `None` if it has no spools.
    pub fn begin(store: &Path) -> Option<Self> {
        if waiting(store).is_empty() {
            return None;
        }
        let (done, ended) = channel();
        let (directory, store) = (directory(store), store.to_owned());
        let take_over = move || {
            let _left_to_the_next = take_over(&directory, Path::new(""), &store);
            drop(done);
        };
        threads::spawn("adopt", take_over).ok()?;
        Some(Self(ended))
    }

    /// Waits for its end, but not long.
    pub fn wait(self) {
        let _ended = self.0.recv_timeout(Duration::from_secs(5));
    }
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
