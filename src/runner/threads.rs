//! Threads with a name, by which debuggers and lists of processes show them.

use std::io;
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

/// Starts a thread.
///
/// # Errors
/// The system refuses it.
pub fn spawn<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    Builder::new().name(name.to_owned()).spawn(work)
}

/// Waits where there is nothing to wait for but time: a store says nothing when it changes.
pub fn sleep(time: Duration) {
    std::thread::sleep(time);
}
