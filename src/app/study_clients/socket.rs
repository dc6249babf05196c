//! The socket on which the holder of a study serves other clients. Its path may exceed the system's
//! limit of 108 bytes, so it is reached through its directory.

use std::fs::{self, File};
use std::io;
use std::net::Shutdown;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use super::beside;

const KIND: &str = "socket";

/// Listens beside the `lock` of a study, replacing an earlier holder's socket. Requires the lease.
///
/// # Errors
/// The socket cannot be created.
pub fn listen(lock: &Path) -> io::Result<UnixListener> {
    unlink(lock);
    through_directory(&beside(lock, KIND), |path| {
        let listener = UnixListener::bind(path)?;
        // Independent of the umask: only users that can write the store may ask and tell.
        fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
        Ok(listener)
    })
}

/// Connects to the holder of a study.
///
/// # Errors
/// There is no holder.
pub fn connect(lock: &Path) -> io::Result<UnixStream> {
    through_directory(&beside(lock, KIND), |path| UnixStream::connect(path))
}

/// Shuts a connection down: readers on both sides get its end.
pub fn close(stream: &UnixStream) {
    let _was_closed = stream.shutdown(Shutdown::Both);
}

/// Removes the socket.
pub fn unlink(lock: &Path) {
    let _was_not_there = fs::remove_file(beside(lock, KIND));
}

fn through_directory<T>(path: &Path, open: impl FnOnce(&Path) -> io::Result<T>) -> io::Result<T> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let directory = File::open(parent.unwrap_or(Path::new(".")))?;
    let short = PathBuf::from(format!("/proc/self/fd/{}", directory.as_raw_fd()));
    open(&short.join(path.file_name().unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_is_reached_however_long_its_path_is_and_replaces_a_dead_one() {
        let directory = tempfile::tempdir().unwrap();
        let deep = directory.path().join("d".repeat(200));
        fs::create_dir(&deep).unwrap();
        let lock = deep.join("store.db.run-1");
        assert!(connect(&lock).is_err());
        drop(listen(&lock).unwrap());
        assert!(connect(&lock).is_err(), "nobody listens at what a dead holder left");
        let _listener = listen(&lock).unwrap();
        assert!(connect(&lock).is_ok());
        let mode = fs::metadata(beside(&lock, KIND)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        unlink(&lock);
        assert!(connect(&lock).is_err());
    }
}
