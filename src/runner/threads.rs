//! Named threads, for debuggers and process lists.

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

/// Starts a thread that needs little stack, of which there may be thousands.
///
/// # Errors
/// The system refuses it.
pub fn spawn_small(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    Builder::new().name(name.to_owned()).stack_size(256 << 10).spawn(work)
}

/// Sleeps where only polling is possible: a store does not notify of changes.
pub fn sleep(time: Duration) {
    std::thread::sleep(time);
}
