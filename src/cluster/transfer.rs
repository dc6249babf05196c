//! Files that travel over a link, where agent and runner share no directory: in pieces, and
//! complete only if their digests agree.

use std::collections::{BTreeSet, VecDeque};
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde::{Deserialize, Serialize};

use crate::runner::disk;
use crate::storage::sqlite::open_file;

/// Bytes of a piece.
const PIECE: usize = 512 << 10;

/// Unacknowledged bytes beyond which no more pieces are read from the disk: with another piece they
/// fit in memory.
pub const ENOUGH: usize = 2 << 20;

/// Most files of one thing: their list is one message.
const MOST_FILES: usize = 100_000;

/// Prefix of the name under which something arrives, until it is complete.
const ARRIVING: &str = ".arriving-";

/// What travels: a file or a directory, by the place that it has on both machines.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Location {
    /// Below the study's directory of files.
    Study(PathBuf),
    /// Prepared data: a directory in the cache of data.
    Prepared(PathBuf),
    /// A file or directory that the built-in trainer reads, by its path on the runner's machine.
    Input(PathBuf),
}

/// A message about something that travels.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Carried {
    /// A part of a file.
    Piece {
        /// What it belongs to.
        of: Location,
        /// Path of the file below that; empty if it is that.
        file: PathBuf,
        /// Position in the file.
        offset: u64,
        /// The bytes.
        bytes: Blob,
    },
    /// All pieces were sent.
    Complete {
        /// What is complete.
        of: Location,
        /// Its files.
        files: Vec<CarriedFile>,
    },
    /// It cannot be read.
    Missing {
        /// What is missing.
        of: Location,
        /// The reason, for users.
        why: String,
    },
}

/// A file that was sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CarriedFile {
    /// Path below what it belongs to; empty if it is that.
    file: PathBuf,
    length: u64,
    /// BLAKE3 of its content, hexadecimal.
    digest: String,
    /// Time of its last change, in microseconds since 1970.
    modified: u64,
    /// Its permissions.
    mode: u32,
}

/// Bytes, in JSON as base64.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blob(pub Vec<u8>);

impl Serialize for Blob {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&BASE64_STANDARD.encode(&self.0))
    }
}

impl<'de> Deserialize<'de> for Blob {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<str>::deserialize(deserializer)?;
        BASE64_STANDARD.decode(&*text).map(Blob).map_err(serde::de::Error::custom)
    }
}

/// Something that is being read and sent, piece by piece.
#[derive(Debug)]
pub struct Sending {
    of: Location,
    path: PathBuf,
    files: VecDeque<PathBuf>,
    open: Option<Reading>,
    sent: Vec<CarriedFile>,
    is_complete: bool,
}

/// A file that is being read.
#[derive(Debug)]
struct Reading {
    name: PathBuf,
    file: File,
    offset: u64,
    digest: blake3::Hasher,
    /// Its size and the time of its last change when it was opened.
    before: (u64, SystemTime),
}

impl Sending {
    /// The file or directory at `path`.
    ///
    /// # Errors
    /// It cannot be read, or contains names that are not UTF-8.
    pub fn new(of: Location, path: &Path) -> io::Result<Self> {
        let mut files = Vec::new();
        if fs::metadata(path)?.is_dir() {
            files_below(path, Path::new(""), &mut files)?;
        } else {
            files.push(PathBuf::new());
        }
        if files.len() > MOST_FILES {
            let why = format!("{} files are more than {MOST_FILES}", files.len());
            return Err(io::Error::new(io::ErrorKind::InvalidData, why));
        }
        files.sort();
        let files = files.into();
        Ok(Sending {
            of,
            path: path.to_owned(),
            files,
            open: None,
            sent: Vec::new(),
            is_complete: false,
        })
    }

    /// The file or directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What travels.
    pub fn location(&self) -> &Location {
        &self.of
    }

    /// The next message, up to [`Carried::Complete`].
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn next_message(&mut self) -> io::Result<Option<Carried>> {
        loop {
            if let Some(reading) = &mut self.open {
                let mut bytes = Vec::with_capacity(PIECE);
                (&reading.file).take(PIECE as u64).read_to_end(&mut bytes)?;
                if !bytes.is_empty() {
                    reading.digest.update(&bytes);
                    let offset = reading.offset;
                    reading.offset += bytes.len() as u64;
                    let (of, file) = (self.of.clone(), reading.name.clone());
                    return Ok(Some(Carried::Piece { of, file, offset, bytes: Blob(bytes) }));
                }
                if let Some(reading) = self.open.take() {
                    self.sent.push(reading.finish()?);
                }
            } else if let Some(name) = self.files.pop_front() {
                let file = open_file(&below(&self.path, &name))?;
                let before = state_of(&file)?;
                let digest = blake3::Hasher::new();
                self.open = Some(Reading { name, file, offset: 0, digest, before });
            } else if std::mem::replace(&mut self.is_complete, true) {
                return Ok(None);
            } else {
                let (of, files) = (self.of.clone(), std::mem::take(&mut self.sent));
                return Ok(Some(Carried::Complete { of, files }));
            }
        }
    }
}

impl Reading {
    fn finish(self) -> io::Result<CarriedFile> {
        let metadata = self.file.metadata()?;
        if state_of(&self.file)? != self.before || metadata.len() != self.offset {
            let why = format!("`{}` was written to while it was sent", self.name.display());
            return Err(io::Error::new(io::ErrorKind::InvalidData, why));
        }
        let since = metadata.modified()?.duration_since(UNIX_EPOCH).unwrap_or_default();
        Ok(CarriedFile {
            file: self.name,
            length: self.offset,
            digest: self.digest.finalize().to_hex().to_string(),
            modified: u64::try_from(since.as_micros()).unwrap_or(u64::MAX),
            mode: metadata.permissions().mode() & 0o777,
        })
    }
}

fn state_of(file: &File) -> io::Result<(u64, SystemTime)> {
    let metadata = file.metadata()?;
    Ok((metadata.len(), metadata.modified()?))
}

/// Files below a directory; links to files count as files, others not at all.
fn files_below(root: &Path, at: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(below(root, at))? {
        let entry = entry?;
        let name = at.join(entry.file_name());
        if name.to_str().is_none() {
            let why = format!("the name `{}` is not UTF-8", name.display());
            return Err(io::Error::new(io::ErrorKind::InvalidData, why));
        }
        if entry.file_type()?.is_dir() {
            files_below(root, &name, files)?;
        } else if fs::metadata(entry.path()).is_ok_and(|file| file.is_file()) {
            files.push(name);
        }
    }
    Ok(())
}

/// The digest of everything in a file or directory: of the names and contents of its files.
///
/// # Errors
/// It cannot be read.
pub fn digest(path: &Path) -> io::Result<String> {
    let mut files = Vec::new();
    match fs::metadata(path)?.is_dir() {
        true => files_below(path, Path::new(""), &mut files)?,
        false => files.push(PathBuf::new()),
    }
    files.sort();
    let mut all = blake3::Hasher::new();
    for file in files {
        all.update(file.as_os_str().as_encoded_bytes()).update(b"\0");
        all.update(digest_of_file(&below(path, &file))?.as_bytes());
    }
    Ok(all.finalize().to_hex().to_string())
}

fn digest_of_file(path: &Path) -> io::Result<blake3::Hash> {
    Ok(blake3::Hasher::new().update_reader(open_file(path)?)?.finalize())
}

/// Takes in a piece of what will be at `target`. `by`: who receives it, where several may at a
/// time.
///
/// # Errors
/// It cannot be written, or its name leads elsewhere.
pub fn take_piece(
    (target, by): (&Path, &str),
    file: &Path,
    offset: u64,
    bytes: &[u8],
) -> io::Result<()> {
    let path = below(&arriving(target, by)?, &checked(file)?);
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory)?;
    }
    let mut options = File::options();
    let file = options.write(true).create(true).truncate(false).mode(0o600).open(path)?;
    file.write_all_at(bytes, offset)
}

/// Puts what has arrived in its place, if it is as it was sent; durable when this returns. Nothing
/// of it is left elsewhere, whatever the result.
///
/// # Errors
/// It differs from what was sent, or cannot be written.
pub fn complete((target, by): (&Path, &str), files: &[CarriedFile]) -> io::Result<()> {
    let staged = arriving(target, by)?;
    if !by.is_empty() && has_as_sent(target, files)? {
        // Somebody else was faster, and may use it.
        let _none_there = disk::remove(&staged);
        return Ok(());
    }
    let result = settle(&staged, files).and_then(|is_whole| {
        if is_whole {
            if target.is_dir() {
                disk::remove(target)?;
            }
            fs::rename(&staged, target)?;
            if let Some(directory) = target.parent() {
                File::open(directory)?.sync_all()?;
            }
            return Ok(());
        }
        // It may have been put in its place by somebody else, or by a runner that could not
        // acknowledge it any more.
        match is_as_sent(target, files)? {
            true => Ok(()),
            false => {
                let why = "its content differs from what was sent";
                Err(io::Error::new(io::ErrorKind::InvalidData, why))
            }
        }
    });
    let _none_there = disk::remove(&staged);
    result
}

/// Prepares what has arrived for its place; whether it is as it was sent.
fn settle(staged: &Path, files: &[CarriedFile]) -> io::Result<bool> {
    if files.is_empty() {
        fs::create_dir_all(staged)?;
    }
    let mut expected = BTreeSet::new();
    for file in files {
        let path = below(staged, &checked(&file.file)?);
        if file.length == 0 {
            // No piece made it.
            path.parent().map_or(Ok(()), fs::create_dir_all)?;
            File::create(&path)?;
        } else if let Ok(there) = File::options().write(true).open(&path) {
            // An earlier one with this name may have been longer.
            there.set_len(file.length)?;
        }
        expected.insert(path);
    }
    if staged.is_dir() {
        let mut found = Vec::new();
        files_below(staged, Path::new(""), &mut found)?;
        for other in found.iter().map(|file| below(staged, file)) {
            if !expected.contains(&other) {
                // What another agent sent before it was lost.
                fs::remove_file(other)?;
            }
        }
    }
    if !is_as_sent(staged, files)? {
        return Ok(false);
    }
    for file in files {
        let written = File::options().write(true).open(below(staged, &file.file))?;
        written.set_modified(UNIX_EPOCH + Duration::from_micros(file.modified))?;
        written.set_permissions(fs::Permissions::from_mode(file.mode))?;
        written.sync_all()?;
    }
    Ok(true)
}

/// Whether exactly these files are there.
fn is_as_sent(path: &Path, files: &[CarriedFile]) -> io::Result<bool> {
    let mut found = Vec::new();
    match fs::metadata(path) {
        Ok(metadata) if metadata.is_dir() => files_below(path, Path::new(""), &mut found)?,
        Ok(_) => found.push(PathBuf::new()),
        Err(_) => return Ok(false),
    }
    Ok(found.len() == files.len() && has_as_sent(path, files)?)
}

/// Whether these files are there.
fn has_as_sent(path: &Path, files: &[CarriedFile]) -> io::Result<bool> {
    for file in files {
        let path = below(path, &checked(&file.file)?);
        let is_same = fs::metadata(&path).is_ok_and(|there| there.len() == file.length)
            && digest_of_file(&path)?.to_hex().as_str() == file.digest;
        if !is_same {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether a name in a trial's directory is that of something that did not arrive completely.
pub fn is_arriving(name: &str) -> bool {
    name.starts_with(ARRIVING)
}

/// Where something arrives, until it is complete.
fn arriving(target: &Path, by: &str) -> io::Result<PathBuf> {
    let (Some(directory), Some(name)) = (target.parent(), target.file_name()) else {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "a path without a name"));
    };
    let mut arriving = std::ffi::OsString::from(ARRIVING);
    arriving.push(by);
    arriving.push(name);
    Ok(directory.join(arriving))
}

/// Adds lines to the end of a log. One that cannot be written stops no trial.
pub fn append(log: &Path, lines: &[u8]) {
    // A log that has been empty so far has not been sent.
    let _refused_below = log.parent().map(fs::create_dir_all);
    let log = File::options().create(true).append(true).open(log);
    let _disk_full = log.and_then(|mut log| log.write_all(lines));
}

/// A relative path without steps that lead out of its directory.
///
/// # Errors
/// It is another one.
pub fn checked(path: &Path) -> io::Result<PathBuf> {
    match path.components().all(|part| matches!(part, Component::Normal(_))) {
        true => Ok(path.to_owned()),
        false => {
            let why = format!("`{}` leads elsewhere", path.display());
            Err(io::Error::new(io::ErrorKind::InvalidData, why))
        }
    }
}

/// `path` below `root`; an empty one is `root` itself, without a slash at the end.
fn below(root: &Path, path: &Path) -> PathBuf {
    if path.as_os_str().is_empty() { root.to_owned() } else { root.join(path) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(sending: &mut Sending) -> Vec<Carried> {
        std::iter::from_fn(|| sending.next_message().unwrap()).collect()
    }

    fn take(target: &Path, message: &Carried) -> io::Result<()> {
        match message {
            Carried::Piece { file, offset, bytes, .. } => {
                take_piece((target, ""), file, *offset, &bytes.0)
            }
            Carried::Complete { files, .. } => complete((target, ""), files),
            Carried::Missing { why, .. } => panic!("{why}"),
        }
    }

    /// A directory with a file of several pieces, an empty one, and one that can be executed.
    fn checkpoint(at: &Path) -> PathBuf {
        let path = at.join("step-3");
        fs::create_dir_all(path.join("inner")).unwrap();
        let long: Vec<u8> = (0..300_000_u32).flat_map(u32::to_le_bytes).collect();
        fs::write(path.join("inner/weights"), long).unwrap();
        fs::write(path.join("empty"), "").unwrap();
        fs::write(path.join("script"), "#!/bin/sh").unwrap();
        fs::set_permissions(path.join("script"), fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    fn of() -> Location {
        Location::Study("trial-0/step-3".into())
    }

    #[test]
    fn a_directory_arrives_as_it_was_whatever_comes_twice() {
        let directory = tempfile::tempdir().unwrap();
        let path = checkpoint(directory.path());
        let messages = all(&mut Sending::new(of(), &path).unwrap());
        // As JSON.
        let text = serde_json::to_string(&messages).unwrap();
        assert_eq!(serde_json::from_str::<Vec<Carried>>(&text).unwrap(), messages);
        let target = directory.path().join("there/step-3");
        // The last messages come again after any of them, as from an agent that was not
        // acknowledged.
        for from in (0..messages.len()).rev() {
            messages[from..].iter().for_each(|message| {
                // Before the first is here, what comes is incomplete.
                let _incomplete = take(&target, message);
            });
        }
        for message in &messages {
            take(&target, message).unwrap();
        }
        messages[2..].iter().for_each(|message| take(&target, message).unwrap());
        assert_eq!(digest(&target).unwrap(), digest(&path).unwrap());
        let modified = |path: &Path| {
            let since = path.metadata().unwrap().modified().unwrap().duration_since(UNIX_EPOCH);
            since.unwrap().as_micros()
        };
        assert_eq!(modified(&target.join("script")), modified(&path.join("script")));
        let mode = |name: &str| target.join(name).metadata().unwrap().permissions().mode();
        assert!(mode("script") & 0o100 != 0 && mode("empty") & 0o100 == 0);
    }

    #[test]
    fn what_is_written_to_while_it_is_sent_is_not_complete() {
        let directory = tempfile::tempdir().unwrap();
        let path = checkpoint(directory.path());
        let mut sending = Sending::new(of(), &path).unwrap();
        while !matches!(sending.next_message(), Ok(Some(Carried::Piece { offset: 1.., .. }))) {}
        let mut weights = File::options().append(true).open(path.join("inner/weights")).unwrap();
        std::io::Write::write_all(&mut weights, b"more").unwrap();
        let mut rest = std::iter::from_fn(|| sending.next_message().transpose());
        let refused = rest.find_map(Result::err).unwrap().to_string();
        assert!(refused.contains("was written to while it was sent"), "{refused}");
    }

    #[test]
    fn a_file_arrives_and_replaces_an_older_one() {
        let directory = tempfile::tempdir().unwrap();
        let (path, target) = (directory.path().join("last.pt"), directory.path().join("there.pt"));
        for content in ["first", "second, which is longer", "3"] {
            fs::write(&path, content).unwrap();
            for message in all(&mut Sending::new(of(), &path).unwrap()) {
                take(&target, &message).unwrap();
            }
            assert_eq!(fs::read_to_string(&target).unwrap(), content);
        }
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 2, "nothing is left");
    }

    #[test]
    fn what_was_damaged_on_its_way_is_not_put_in_its_place() {
        let directory = tempfile::tempdir().unwrap();
        let path = checkpoint(directory.path());
        for damage in 0..3 {
            // What is left of one would complete another.
            let target = directory.path().join(format!("there-{damage}"));
            let mut messages = all(&mut Sending::new(of(), &path).unwrap());
            match &mut messages[..] {
                [Carried::Piece { bytes, .. }, ..] if damage == 0 => bytes.0[7] ^= 1,
                [_, rest @ ..] if damage == 1 => rest.rotate_left(1),
                _ => drop(messages.remove(1)),
            }
            let results = messages.iter().map(|message| take(&target, message));
            assert!(results.filter(Result::is_err).count() >= 1, "{damage}");
            assert!(!target.exists(), "{damage}");
        }
    }

    #[test]
    fn names_that_lead_elsewhere_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        let target = directory.path().join("a/b");
        for name in ["../x", "/etc/x", "a/../../x", "./x"] {
            assert!(take_piece((&target, ""), Path::new(name), 0, b"x").is_err(), "{name}");
        }
        assert!(take_piece((Path::new("/"), ""), Path::new("x"), 0, b"x").is_err());
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
    }

    #[test]
    fn digests_are_those_of_names_and_contents() {
        let directory = tempfile::tempdir().unwrap();
        let path = checkpoint(directory.path());
        let before = digest(&path).unwrap();
        fs::rename(path.join("empty"), path.join("other")).unwrap();
        assert_ne!(digest(&path).unwrap(), before);
        fs::rename(path.join("other"), path.join("empty")).unwrap();
        assert_eq!(digest(&path).unwrap(), before);
    }
}
