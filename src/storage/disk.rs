//! Why the system refuses a write: a full disk, or the permissions of a file of the store.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use rustix::fs::{Access, AtFlags, CWD, accessat, statvfs};

/// SQLite's index grows by this many bytes at a time: with less space no store can be opened.
const LEAST: u64 = 32 << 10;

/// Whether nothing more fits the disk that holds the file at `path`.
pub(in crate::storage) fn is_full(path: &Path) -> bool {
    let Some(disk) = existing_directory(path).and_then(|directory| statvfs(&directory).ok()) else {
        return false;
    };
    // Some file systems have no limit on the number of files, and give 0 for it.
    let has_no_inode = disk.f_files > 0 && disk.f_favail == 0;
    disk.f_bavail.saturating_mul(disk.f_frsize) < LEAST || has_no_inode
}

/// Whether an error of writing is about space: the disk is full, or a quota or limit is reached.
pub fn is_of_space(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge
    )
}

/// The first of a store's files that this user may not read and write: its log, its index, itself,
/// or the directory.
pub fn forbidden(store: &Path) -> Option<PathBuf> {
    let real = std::fs::canonicalize(store).unwrap_or_else(|_| store.to_owned());
    let beside = |ending: &str| {
        let mut name = real.as_os_str().to_owned();
        name.push(ending);
        PathBuf::from(name)
    };
    let files = ["", "-wal", "-shm"].map(beside).into_iter().filter(|file| file.exists());
    let read_write = Access::READ_OK | Access::WRITE_OK;
    let directory = existing_directory(&real).filter(|_| !store.as_os_str().is_empty());
    files.into_iter().find(|file| is_forbidden(file, read_write)).or_else(|| {
        directory.filter(|directory| is_forbidden(directory, Access::WRITE_OK | Access::EXEC_OK))
    })
}

/// Whether this user may write a file.
pub(super) fn may_write(path: &Path) -> bool {
    !is_forbidden(path, Access::WRITE_OK)
}

/// By the permissions that opening uses, which are not those of the real user.
fn is_forbidden(path: &Path, access: Access) -> bool {
    accessat(CWD, path, access, AtFlags::EACCESS).is_err()
}

fn existing_directory(path: &Path) -> Option<PathBuf> {
    let absolute = std::path::absolute(path).ok()?;
    let real = std::fs::canonicalize(&absolute).unwrap_or(absolute);
    real.parent()?.ancestors().find(|place| place.exists()).map(Path::to_owned)
}
