//! Files at a destination: only those that this program wrote are read and changed.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use super::SyncError;
use crate::config::file::what;

/// Opens a file for writing, and creates it if missing. Refuses links, pipes and devices, and files
/// that do not begin as this program begins them: with `prefix`, or with the part of it that a
/// killed process wrote.
///
/// # Errors
/// Another file is there, or it cannot be opened.
pub(super) fn open(path: &Path, prefix: &[u8]) -> Result<File, SyncError> {
    refuse_other_kinds(path)?;
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    options.custom_flags(flags.bits().cast_signed());
    let mut file = options.open(path).map_err(SyncError::io(path))?;
    let is_file = file.metadata().map_err(SyncError::io(path))?.is_file();
    let mut begin = Vec::new();
    if is_file {
        let read = (&mut file).take(prefix.len() as u64).read_to_end(&mut begin);
        read.map_err(SyncError::io(path))?;
    }
    if !is_file || !prefix.starts_with(&begin) {
        return Err(not_ours(path, "hpsearch did not write it"));
    }
    Ok(file)
}

/// An error if a file is there that this program did not write.
pub(super) fn check(path: &Path, prefix: &[u8]) -> Result<(), SyncError> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        _ => open(path, prefix).map(drop),
    }
}

/// Removes a file, if it is one that this program wrote; with an empty prefix by its name.
pub(super) fn remove(path: &Path, prefix: &[u8]) -> Result<(), SyncError> {
    match check(path, prefix) {
        Ok(()) => {}
        // What somebody put there since is theirs.
        Err(SyncError::NotOurs { .. }) => return Ok(()),
        Err(error) => return Err(error),
    }
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(SyncError::io(path)(error)),
        _ => Ok(()),
    }
}

/// Replaces a file atomically. Its draft beside it may be left of a killed process.
pub(super) fn replace(path: &Path, bytes: &[u8]) -> Result<(), SyncError> {
    refuse_other_kinds(path)?;
    let mut beside = path.as_os_str().to_owned();
    beside.push(".new");
    let beside = PathBuf::from(beside);
    refuse_other_kinds(&beside)?;
    let written = (|| {
        match fs::remove_file(&beside) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        io::Write::write_all(&mut File::create_new(&beside)?, bytes)
    })();
    written.map_err(SyncError::io(&beside))?;
    fs::rename(&beside, path).map_err(SyncError::io(path))
}

/// Reads a file; `None` if there is none.
pub(super) fn read(path: &Path) -> Result<Option<Vec<u8>>, SyncError> {
    refuse_other_kinds(path)?;
    match fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(SyncError::io(path)(error)),
    }
}

/// An error if something is there that is not a file: this program makes no others, and follows no
/// links.
fn refuse_other_kinds(path: &Path) -> Result<(), SyncError> {
    match fs::symlink_metadata(path).map(|metadata| metadata.file_type()) {
        Ok(kind) if kind.is_symlink() => Err(not_ours(path, "it is a symbolic link")),
        Ok(kind) if !kind.is_file() => Err(not_ours(path, &format!("it is {}", what(kind)))),
        _ => Ok(()),
    }
}

fn not_ours(path: &Path, why: &str) -> SyncError {
    SyncError::NotOurs { path: path.to_owned(), why: why.to_owned() }
}
