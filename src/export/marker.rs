//! `.hpsearch-export.json`: what an export wrote, so that nothing else is ever replaced or removed.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Serialize};

/// The marker's name.
pub(super) const MARKER: &str = ".hpsearch-export.json";

/// What the marker is called while it is being written.
const NEXT: &str = ".hpsearch-export.json.next";

/// Names that a checkpoint's own files cannot have in an export.
pub(super) const NAMES: [&str; 2] = [MARKER, NEXT];

/// The version of the marker's form.
const VERSION: u32 = 1;

/// How far the directory is that a marker lies in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum State {
    /// It is being written: all that it holds is hpsearch's, and of no use to anybody else.
    Draft,
    /// It holds the files listed.
    Complete,
}

/// A file that an export wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Written {
    /// Its size.
    pub(super) bytes: u64,
    /// Its content.
    pub(super) digest: blake3::Hash,
}

/// What a marker says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Marker {
    /// How far the directory is.
    pub(super) state: State,
    /// Its files by their paths below it, the marker itself left out.
    pub(super) files: BTreeMap<PathBuf, Written>,
    /// The directories below it.
    pub(super) directories: BTreeSet<PathBuf>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Text {
    version: u32,
    state: State,
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

/// What a directory's marker is.
#[derive(Debug)]
pub(super) enum Found {
    /// There is none.
    None,
    /// There is one that this version cannot read: of another version, damaged, or no file.
    Unreadable,
    /// There is one.
    Marker(Marker),
}

impl Marker {
    /// The marker of a directory that is being written.
    pub(super) fn draft() -> Marker {
        Marker { state: State::Draft, files: BTreeMap::new(), directories: BTreeSet::new() }
    }

    /// The marker in `directory`.
    ///
    /// # Errors
    /// What prevents reading it; that there is none is no error.
    pub(super) fn read(directory: &Path) -> io::Result<Found> {
        let path = directory.join(MARKER);
        match fs::symlink_metadata(&path) {
            Ok(metadata) if metadata.is_file() => {}
            Ok(_) => return Ok(Found::Unreadable),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Found::None),
            Err(error) => return Err(error),
        }
        Ok(Marker::parse(&fs::read(path)?).map_or(Found::Unreadable, Found::Marker))
    }

    fn parse(text: &[u8]) -> Option<Marker> {
        let text: Text =
            serde_json::from_slice(text).ok().filter(|text: &Text| text.version == VERSION)?;
        let file = |file: FileText| {
            let digest = blake3::Hash::from_hex(&file.blake3).ok()?;
            Some((below(&file.path)?, Written { bytes: file.bytes, digest }))
        };
        let files = text.files.into_iter().map(file).collect::<Option<_>>()?;
        let directories = text.directories.iter().map(|path| below(path)).collect::<Option<_>>()?;
        Some(Marker { state: text.state, files, directories })
    }

    fn text(&self) -> io::Result<Vec<u8>> {
        let file = |(path, written): (&PathBuf, &Written)| FileText {
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

    /// Puts the marker into `directory`, in place of another, and on the disk. While the file that
    /// is handed back is open, [`lock`] says that the directory's writer lives.
    ///
    /// # Errors
    /// What prevents writing it.
    pub(super) fn write(&self, directory: &Path) -> io::Result<File> {
        let next = directory.join(NEXT);
        let mut file = OpenOptions::new().write(true).create_new(true).open(&next)?;
        // Where a file system has no locks, a writer is never taken to be gone.
        let _unsupported = file.try_lock();
        let written =
            self.text().and_then(|text| file.write_all(&text)).and_then(|()| file.sync_all());
        if let Err(error) = written.and_then(|()| fs::rename(&next, directory.join(MARKER))) {
            let _half_written = fs::remove_file(&next);
            return Err(error);
        }
        Ok(file)
    }
}

/// The marker's file, locked, if its writer is gone; `None` while it lives. The kernel releases the
/// lock at a writer's death, whatever it dies of and wherever its process id counts.
pub(super) fn lock(directory: &Path) -> Option<File> {
    lock_file(&directory.join(MARKER))
}

/// Removes a directory's first marker where its writer was killed before it had its name.
pub(super) fn remove_half_written(directory: &Path) {
    let next = directory.join(NEXT);
    if let Some(_dead) = lock_file(&next) {
        let _gone_already = fs::remove_file(&next);
    }
}

fn lock_file(path: &Path) -> Option<File> {
    let flags = rustix::fs::OFlags::NOFOLLOW.union(rustix::fs::OFlags::NONBLOCK).bits();
    // For writing too, which a lock on a network file system asks for.
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(flags.cast_signed())
        .open(path)
        .ok()?;
    // Where there are no locks, nobody knows, and it stays.
    file.try_lock().is_ok().then_some(file)
}

/// A path as text: bytes that are no UTF-8, control characters and `%` as `%XX`.
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

/// The path that [`encoded`] made the text of; `None` for what does not lie strictly below the
/// marker's directory.
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
        // The lock stays with the marker that takes the place of another.
        let first = Marker::draft().write(directory.path()).unwrap();
        let second =
            Marker { state: State::Complete, ..Marker::draft() }.write(directory.path()).unwrap();
        drop(first);
        assert!(lock(directory.path()).is_none());
        drop(second);
        assert!(matches!(
            Marker::read(directory.path()).unwrap(),
            Found::Marker(Marker { state: State::Complete, .. })
        ));
    }
}
