//! Programs that ask and tell in one stored study at the same time. One holds it; the others talk
//! to that one over a socket beside the store, and each has a file there, by which it is seen to
//! live, and which trials it has out.

mod client_file;
mod socket;

pub use client_file::{ClientFile, LiveClient, is_alive, live_clients};
pub use socket::{close, connect, listen, unlink};

use std::path::{Path, PathBuf};

/// A file of a study, beside its lock.
fn beside(lock: &Path, what: &str) -> PathBuf {
    let mut name = lock.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{what}"));
    lock.with_file_name(name)
}
