//! What files take on the disk, as `du` counts it.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// Bytes of the disk's blocks that a file or a directory takes; links are not followed, and what is not there takes nothing.
pub fn size(path: &Path) -> u64 {
    let Ok(metadata) = fs::symlink_metadata(path) else { return 0 };
    let own = metadata.blocks() * 512;
    if !metadata.is_dir() {
        return own;
    }
    own + entries(path).map(|entry| size(&entry)).sum::<u64>()
}

/// What a directory holds; what vanishes or may not be read is left out.
pub fn entries(directory: &Path) -> impl Iterator<Item = PathBuf> {
    fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path())
}
