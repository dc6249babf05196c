//! Moves files and directories, also to another file system, so that a crash loses nothing.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use super::disk::{entries, is_directory, remove};
use crate::storage::sqlite::is_open_here;

/// Moves a file or directory to `to`. An existing directory is merged: files that are already there
/// stay, and their sources too. If `from` does not exist, nothing happens: another process may have
/// moved it.
///
/// # Errors
/// The system's. Then every file is at its old place, its new one, or both.
pub fn move_path(from: &Path, to: &Path) -> io::Result<()> {
    if fs::symlink_metadata(from).is_err_and(|error| error.kind() == ErrorKind::NotFound) {
        return Ok(());
    }
    if let Some(parent) = to.parent() {
        fs::create_dir_all(parent)?;
    }
    if is_directory(from) && to.is_dir() {
        for entry in entries(from) {
            let target = to.join(entry.file_name().unwrap_or_default());
            if is_directory(&target) || fs::symlink_metadata(&target).is_err() {
                move_path(&entry, &target)?;
            }
        }
        // What is left has the name of an existing file: it was the run's before, too.
        let _is_left_to_gc = fs::remove_dir(from);
        return Ok(());
    }
    match fs::rename(from, to) {
        Err(error) if error.kind() == ErrorKind::NotFound && !from.exists() => Ok(()),
        Err(error) if error.kind() == ErrorKind::CrossesDevices => {
            let draft = draft_of(to);
            remove_if_there(&draft)?;
            copy(from, &draft)?;
            fs::rename(&draft, to)?;
            if let Some(parent) = to.parent() {
                File::open(parent)?.sync_all()?;
            }
            remove_if_there(from)
        }
        other => other,
    }
}

/// Where a copy is made before it is renamed.
fn draft_of(to: &Path) -> PathBuf {
    let mut name = OsString::from(".");
    name.push(to.file_name().unwrap_or_default());
    name.push(".moving");
    to.with_file_name(name)
}

fn remove_if_there(path: &Path) -> io::Result<()> {
    match remove(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// Copies files, directories and links, and syncs them.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    let metadata = fs::symlink_metadata(from)?;
    let kind = metadata.file_type();
    if kind.is_symlink() {
        return symlink(fs::read_link(from)?, to);
    }
    if kind.is_dir() {
        fs::create_dir(to)?;
        for entry in fs::read_dir(from)? {
            let entry = entry?;
            copy(&entry.path(), &to.join(entry.file_name()))?;
        }
        fs::set_permissions(to, metadata.permissions())?;
        return File::open(to)?.sync_all();
    }
    if !kind.is_file() {
        // Reading a FIFO or a device would not end.
        return Err(io::Error::new(
            ErrorKind::Unsupported,
            format!("`{}` is neither a file nor a directory", from.display()),
        ));
    }
    if is_open_here(from) {
        let why = format!("`{}` belongs to the store that is in use", from.display());
        return Err(io::Error::new(ErrorKind::ResourceBusy, why));
    }
    fs::copy(from, to)?;
    File::options().write(true).open(to).or_else(|_| File::open(to))?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt as _;

    fn tree(root: &Path) {
        fs::create_dir_all(root.join("checkpoints/step-1")).unwrap();
        fs::write(root.join("checkpoints/step-1/weights"), "w").unwrap();
        symlink("step-1", root.join("checkpoints/last")).unwrap();
        fs::write(root.join("log"), "a log").unwrap();
    }

    fn check(root: &Path) {
        assert_eq!(fs::read(root.join("checkpoints/step-1/weights")).unwrap(), b"w");
        assert_eq!(fs::read_link(root.join("checkpoints/last")).unwrap(), Path::new("step-1"));
        assert_eq!(fs::read(root.join("log")).unwrap(), b"a log");
    }

    #[test]
    fn a_directory_is_moved_and_merged_into_an_existing_one() {
        let site = tempfile::tempdir().unwrap();
        let (from, to) = (site.path().join("from"), site.path().join("new/to"));
        tree(&from);
        move_path(&from, &to).unwrap();
        check(&to);
        assert!(!from.exists());
        fs::create_dir_all(from.join("checkpoints/step-2")).unwrap();
        fs::write(from.join("log"), "another log").unwrap();
        move_path(&from, &to).unwrap();
        check(&to);
        assert!(to.join("checkpoints/step-2").is_dir());
        assert_eq!(fs::read(from.join("log")).unwrap(), b"another log", "nothing is overwritten");
    }

    #[test]
    fn a_source_that_is_gone_is_no_error() {
        let site = tempfile::tempdir().unwrap();
        move_path(&site.path().join("from"), &site.path().join("to")).unwrap();
        assert!(!site.path().join("to").exists());
    }

    #[test]
    fn a_directory_is_moved_to_another_file_system_also_after_a_broken_attempt() {
        let site = tempfile::tempdir().unwrap();
        let Ok(other) = tempfile::tempdir_in("/dev/shm") else { return };
        let device = |path: &Path| fs::metadata(path).unwrap().dev();
        if device(site.path()) == device(other.path()) {
            return;
        }
        let (from, to) = (site.path().join("from"), other.path().join("to"));
        tree(&from);
        fs::create_dir(draft_of(&to)).unwrap();
        fs::write(draft_of(&to).join("half"), "h").unwrap();
        move_path(&from, &to).unwrap();
        check(&to);
        assert!(!from.exists() && !draft_of(&to).exists() && !to.join("half").exists());
        // Back, into a directory that exists.
        fs::create_dir(&from).unwrap();
        move_path(&to, &from).unwrap();
        check(&from);
        assert!(!to.exists());
    }
}
