//! Programs that ask and tell in one stored study at the same time. One holds the study and serves
//! the others over a socket beside the store. Each has a file there that shows whether it is alive
//! and which trials it runs.

mod client_file;
mod socket;

pub use client_file::{ClientFile, LiveClient, is_alive, live_clients};
pub use socket::{Listening, close, connect};

use std::path::{Path, PathBuf};

/// The path of a study's file beside its lock.
fn beside(lock: &Path, what: &str) -> PathBuf {
    let mut name = lock.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{what}"));
    lock.with_file_name(name)
}
