//! What files take on the disk, as `du` counts it.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Bytes of the disk's blocks that a file or a directory takes; links are not followed, and what is
/// not there takes nothing.
pub fn size(path: &Path) -> u64 {
    let Ok(metadata) = fs::symlink_metadata(path) else { return 0 };
    let own = metadata.blocks() * 512;
    if !metadata.is_dir() {
        return own;
    }
    own + entries(path).map(|entry| size(&entry)).sum::<u64>()
}

/// When a file, or one in a directory that was there before `since`, was last written to. Files
/// that were added to a directory later are left out, where the file system knows when they were
/// made; links are followed to files only.
pub fn last_written(path: &Path, since: SystemTime) -> Option<SystemTime> {
    let metadata = fs::symlink_metadata(path).ok()?;
    if !metadata.is_dir() {
        return fs::metadata(path).ok().filter(|metadata| metadata.is_file())?.modified().ok();
    }
    let was_added = |path: &PathBuf| {
        fs::symlink_metadata(path)
            .and_then(|metadata| metadata.created())
            .is_ok_and(|made| made > since)
    };
    entries(path)
        .filter(|path| !was_added(path))
        .filter_map(|entry| last_written(&entry, since))
        .max()
}

/// What a directory holds; what vanishes or may not be read is left out.
pub fn entries(directory: &Path) -> impl Iterator<Item = PathBuf> {
    fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path())
}
