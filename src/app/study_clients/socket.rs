//! The socket on which the holder of a study serves other clients. Its path may exceed the system's
//! limit of 108 bytes, so it is reached through its directory.

use std::fs::{self, File};
use std::io;
use std::net::Shutdown;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::beside;
use crate::runner::threads;

const KIND: &str = "socket";

/// Pause after a connection that cannot be accepted, as without descriptors.
const PAUSE: Duration = Duration::from_millis(100);

/// The socket of a holder. Once it is dropped no process can connect, this one included.
#[derive(Debug)]
pub struct Listening {
    listener: UnixListener,
    path: PathBuf,
    /// Device and inode: a later holder has another socket at this path.
    identity: Option<(u64, u64)>,
}

impl Listening {
    /// Listens beside the `lock` of a study, replacing an earlier holder's socket. Requires the
    /// lease.
    ///
    /// # Errors
    /// The socket cannot be created.
    pub fn start(lock: &Path) -> io::Result<Self> {
        let path = beside(lock, KIND);
        let _was_not_there = fs::remove_file(&path);
        through_directory(&path, |short| {
            let listener = UnixListener::bind(short)?;
            // Independent of the umask: only users that can write the store may ask and tell.
            fs::set_permissions(short, fs::Permissions::from_mode(0o600))?;
            Ok(Listening { listener, identity: identity(short), path: path.clone() })
        })
    }

    /// The connections of others until it is dropped, for another thread.
    ///
    /// # Errors
    /// There is no descriptor left.
    pub fn connections(&self) -> io::Result<impl Iterator<Item = UnixStream> + Send + use<>> {
        let listener = self.listener.try_clone()?;
        Ok(std::iter::from_fn(move || {
            loop {
                match listener.accept() {
                    Ok((stream, _)) => return Some(stream),
                    // It was shut down.
                    Err(error) if error.kind() == io::ErrorKind::InvalidInput => return None,
                    Err(_) => threads::sleep(PAUSE),
                }
            }
        }))
    }

    /// Whether its path was removed, where its directory is still there.
    pub fn is_removed(&self) -> bool {
        let directory = self.path.parent().unwrap_or(Path::new("."));
        directory.exists() && !self.path.exists()
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        if self.identity.is_some() && identity(&self.path) == self.identity {
            let _was_not_there = fs::remove_file(&self.path);
        }
        // The thread that accepts has a copy of the descriptor, so that closing this one would not
        // end it. The standard library shuts down streams only.
        if let Ok(descriptor) = self.listener.try_clone() {
            close(&UnixStream::from(OwnedFd::from(descriptor)));
        }
    }
}

fn identity(path: &Path) -> Option<(u64, u64)> {
    fs::metadata(path).ok().map(|found| (found.dev(), found.ino()))
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
        let path = beside(&lock, KIND);
        drop(through_directory(&path, |path| UnixListener::bind(path)).unwrap());
        assert!(path.exists() && connect(&lock).is_err(), "a dead holder left it");
        let listening = Listening::start(&lock).unwrap();
        assert!(connect(&lock).is_ok());
        let mode = fs::metadata(beside(&lock, KIND)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        drop(listening);
        assert!(!path.exists() && connect(&lock).is_err());
    }

    #[test]
    fn who_has_stopped_listening_accepts_nothing_and_leaves_the_next_ones_socket() {
        let directory = tempfile::tempdir().unwrap();
        let lock = directory.path().join("store.db.run-1");
        let first = Listening::start(&lock).unwrap();
        let connections = first.connections().unwrap();
        let accepting = std::thread::spawn(move || connections.count());
        let _stream = connect(&lock).unwrap();
        let aside = directory.path().join("aside");
        fs::rename(beside(&lock, KIND), &aside).unwrap();
        assert!(first.is_removed());
        let second = Listening::start(&lock).unwrap();
        drop(first);
        assert_eq!(accepting.join().unwrap(), 1, "its thread ends");
        assert!(UnixStream::connect(&aside).is_err());
        assert!(connect(&lock).is_ok() && !second.is_removed());
    }
}
