//! `.hpsearch-export.json`: the list of files that an export wrote, so that nothing else is ever
//! replaced or removed.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::runner::file_lock::FileLock;

/// The marker's name.
pub(super) const MARKER: &str = ".hpsearch-export.json";

/// The temporary name of the marker.
const NEXT: &str = ".hpsearch-export.json.next";

/// Names reserved in an export.
pub(super) const NAMES: [&str; 2] = [MARKER, NEXT];

/// The version of the marker's format.
const VERSION: u32 = 1;

/// The state of an export's directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ExportState {
    /// Being written: all contents are hpsearch's, and temporary.
    Draft,
    /// It contains the files listed.
    Complete,
}

/// A file that an export wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ExportedFile {
    /// Its size.
    pub(super) bytes: u64,
    /// Its content.
    pub(super) digest: blake3::Hash,
}

/// The contents of a marker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Marker {
    /// The state of the directory.
    pub(super) state: ExportState,
    /// Its files by relative path, except the marker itself.
    pub(super) files: BTreeMap<PathBuf, ExportedFile>,
    /// Its subdirectories.
    pub(super) directories: BTreeSet<PathBuf>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Text {
    version: u32,
    state: ExportState,
    files: Vec<FileText>,
    directories: Vec<String>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileText {
    path: String,
    bytes: u64,
    blake3: String,
}

/// The marker of a directory.
#[derive(Debug)]
pub(super) enum DirectoryMarker {
    /// There is none.
    None,
    /// Unreadable: of another version, damaged, or not a file.
    Unreadable,
    /// There is one.
    Marker(Marker),
}

impl Marker {
    /// The marker of a directory that is being written.
    pub(super) fn draft() -> Marker {
        Marker { state: ExportState::Draft, files: BTreeMap::new(), directories: BTreeSet::new() }
    }

    /// The marker in `directory`.
    ///
    /// # Errors
    /// Why it cannot be read; its absence is not an error.
    pub(super) fn read(directory: &Path) -> io::Result<DirectoryMarker> {
        let path = directory.join(MARKER);
        match fs::symlink_metadata(&path) {
            Ok(metadata) if metadata.is_file() => {}
            Ok(_) => return Ok(DirectoryMarker::Unreadable),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(DirectoryMarker::None);
            }
            Err(error) => return Err(error),
        }
        Ok(Marker::parse(&fs::read(path)?)
            .map_or(DirectoryMarker::Unreadable, DirectoryMarker::Marker))
    }

    fn parse(text: &[u8]) -> Option<Marker> {
        let text: Text =
            serde_json::from_slice(text).ok().filter(|text: &Text| text.version == VERSION)?;
        let file = |file: FileText| {
            let digest = blake3::Hash::from_hex(&file.blake3).ok()?;
            Some((below(&file.path)?, ExportedFile { bytes: file.bytes, digest }))
        };
        let files = text.files.into_iter().map(file).collect::<Option<_>>()?;
        let directories = text.directories.iter().map(|path| below(path)).collect::<Option<_>>()?;
        Some(Marker { state: text.state, files, directories })
    }

    fn text(&self) -> io::Result<Vec<u8>> {
        let file = |(path, written): (&PathBuf, &ExportedFile)| FileText {
            path: encoded(path),
            bytes: written.bytes,
            blake3: written.digest.to_hex().to_string(),
        };
        let text = Text {
            version: VERSION,
            state: self.state,
            files: self.files.iter().map(file).collect(),
            directories: self.directories.iter().map(|path| encoded(path)).collect(),
        };
        let mut bytes = serde_json::to_vec_pretty(&text)?;
        bytes.push(b'\n');
        Ok(bytes)
    }

    /// Writes the marker into `directory`, replacing another, and syncs it. While the returned lock
    /// is held, [`lock`] shows that the directory's writer is alive.
    ///
    /// # Errors
    /// Why it cannot be written.
    pub(super) fn write(&self, directory: &Path) -> io::Result<FileLock> {
        let next = directory.join(NEXT);
        let mut file = OpenOptions::new().write(true).create_new(true).open(&next)?;
        // Without locks, a writer always counts as alive.
        let _unsupported = file.try_lock();
        let written =
            self.text().and_then(|text| file.write_all(&text)).and_then(|()| file.sync_all());
        if let Err(error) = written.and_then(|()| fs::rename(&next, directory.join(MARKER))) {
            let _half_written = fs::remove_file(&next);
            return Err(error);
        }
        Ok(FileLock::held_on(file))
    }
}

/// The marker's file, locked, if its writer is dead; `None` while it is alive. The kernel releases
/// the lock when a writer dies, in whatever way and process namespace.
pub(super) fn lock(directory: &Path) -> Option<FileLock> {
    lock_file(&directory.join(MARKER))
}

/// Removes a directory's first marker if its writer was killed before renaming it.
pub(super) fn remove_half_written(directory: &Path) {
    let next = directory.join(NEXT);
    if let Some(_dead) = lock_file(&next) {
        let _gone_already = fs::remove_file(&next);
    }
}

fn lock_file(path: &Path) -> Option<FileLock> {
    let flags = rustix::fs::OFlags::NOFOLLOW.union(rustix::fs::OFlags::NONBLOCK).bits();
    // Locks on network file systems require write access.
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(flags.cast_signed())
        .open(path)
        .ok()?;
    // Without locks its writer's state is unknown, and it stays.
    file.try_lock().ok()?;
    let file = FileLock::held_on(file);
    // A living writer may have put another marker, which it holds, in the place of the opened one.
    let (opened, there) = (file.metadata().ok()?, fs::symlink_metadata(path).ok()?);
    ((opened.dev(), opened.ino()) == (there.dev(), there.ino())).then_some(file)
}

/// A path as text: invalid UTF-8, control characters and `%` as `%XX`.
fn encoded(path: &Path) -> String {
    let mut text = String::new();
    for piece in path.as_os_str().as_bytes().utf8_chunks() {
        for char in piece.valid().chars() {
            if char == '%' || char.is_control() {
                let mut bytes = [0; 4];
                char.encode_utf8(&mut bytes)
                    .bytes()
                    .for_each(|byte| text.push_str(&format!("%{byte:02X}")));
            } else {
                text.push(char);
            }
        }
        piece.invalid().iter().for_each(|byte| text.push_str(&format!("%{byte:02X}")));
    }
    text
}

/// Decodes [`encoded`]; `None` for paths that are not strictly below the marker's directory.
fn below(text: &str) -> Option<PathBuf> {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        if *first == b'%' {
            let (hex, after) = rest.split_at_checked(2)?;
            bytes.push(u8::from_str_radix(str::from_utf8(hex).ok()?, 16).ok()?);
            rest = after;
        } else {
            bytes.push(*first);
        }
    }
    let path = PathBuf::from(OsString::from_vec(bytes));
    let is_below = path.components().next().is_some()
        && path.components().all(|part| matches!(part, Component::Normal(_)));
    is_below.then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsStr;

    #[test]
    fn every_name_of_a_file_comes_back_from_a_marker() {
        for name in [
            &b"plain"[..],
            b"a/b c/d",
            b"100%",
            b"%41",
            b"\xff\xfe",
            b"a\xffb",
            "学習\n".as_bytes(),
            b".hidden",
        ] {
            let path = Path::new(OsStr::from_bytes(name));
            assert_eq!(below(&encoded(path)).as_deref(), Some(path), "{path:?}");
        }
    }

    #[test]
    fn a_marker_never_names_a_file_outside_its_directory() {
        for path in [
            "..",
            "../study.toml",
            "a/../../b",
            "/etc/passwd",
            "",
            "%2e%2e/x",
            "%2Fetc",
            "a/%2e%2e/%2e%2e/b",
            "%4",
            "%zz",
        ] {
            assert_eq!(below(path), None, "{path}");
            let text = format!(
                r#"{{"version":1,"state":"complete","files":[],"directories":["{path}"]}}"#
            );
            assert_eq!(Marker::parse(text.as_bytes()), None);
        }
    }

    #[test]
    fn a_marker_of_another_version_is_not_understood() {
        let text = |version: u32| {
            format!(r#"{{"version":{version},"state":"complete","files":[],"directories":[]}}"#)
        };
        assert!(
            Marker::parse(text(VERSION).as_bytes()).is_some()
                && Marker::parse(text(VERSION + 1).as_bytes()).is_none()
        );
    }

    #[test]
    fn a_living_writer_is_told_from_a_dead_one() {
        let directory = tempfile::tempdir().unwrap();
        let held = Marker::draft().write(directory.path()).unwrap();
        assert!(lock(directory.path()).is_none());
        drop(held);
        assert!(lock(directory.path()).is_some());
        // The lock stays with the marker that replaces another.
        let first = Marker::draft().write(directory.path()).unwrap();
        let second = Marker { state: ExportState::Complete, ..Marker::draft() }
            .write(directory.path())
            .unwrap();
        drop(first);
        assert!(lock(directory.path()).is_none());
        drop(second);
        assert!(matches!(
            Marker::read(directory.path()).unwrap(),
            DirectoryMarker::Marker(Marker { state: ExportState::Complete, .. })
        ));
    }
}
