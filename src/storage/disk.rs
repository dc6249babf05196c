//! Why the system refuses a write: a full disk.

use std::path::{Path, PathBuf};

use rustix::fs::statvfs;

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

fn existing_directory(path: &Path) -> Option<PathBuf> {
    let absolute = std::path::absolute(path).ok()?;
    let real = std::fs::canonicalize(&absolute).unwrap_or(absolute);
    real.parent()?.ancestors().find(|place| place.exists()).map(Path::to_owned)
}
