//! Files on disk: names, paths, ages, and sizes as `du` counts them.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Disk usage of a file or a directory in bytes; links are not followed, and missing files count 0.
pub fn size(path: &Path) -> u64 {
    let Ok(metadata) = fs::symlink_metadata(path) else { return 0 };
    let own = disk_usage(&metadata);
    if !metadata.is_dir() {
        return own;
    }
    own + entries(path).map(|entry| size(&entry)).sum::<u64>()
}

/// Disk usage of a file, or of a directory without its entries.
pub fn disk_usage(metadata: &fs::Metadata) -> u64 {
    metadata.blocks() * 512
}

/// The last modification of a file, or of files in a directory that existed before `since`. Files
/// added to a directory later are ignored if the file system records creation times; links are
/// followed to files only.
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

/// The entries of a directory; skips what vanishes or is unreadable.
pub fn entries(directory: &Path) -> impl Iterator<Item = PathBuf> {
    fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path())
}

/// Whether it is a directory; a link to one is not.
pub fn is_directory(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_dir())
}

/// Removes a file, or a directory with its content.
///
/// # Errors
/// The system's.
pub fn remove(path: &Path) -> io::Result<()> {
    if is_directory(path) { fs::remove_dir_all(path) } else { fs::remove_file(path) }
}

/// The last component of a path, if it is UTF-8.
pub fn name_of(path: &Path) -> Option<&str> {
    path.file_name()?.to_str()
}

/// The number in a name of the form `prefix` and number: 12 for `trial-12`; `None` for `trial-012`.
pub fn numbered(path: &Path, prefix: &str) -> Option<u64> {
    let digits = name_of(path)?.strip_prefix(prefix)?;
    digits.parse().ok().filter(|number: &u64| number.to_string() == digits)
}

/// A path with its directory resolved, but not a link at its end. `None`: `a/..` and `/` have no
/// last component.
pub fn real_place(path: &Path) -> Option<PathBuf> {
    let name = path.file_name()?;
    let parent =
        path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    Some(fs::canonicalize(parent).ok()?.join(name))
}
