//! The content of an export's target: only an earlier export may be replaced.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::marker::{self, ExportState, ExportedFile, MARKER, Marker};
use super::{ExportError, Obstacle};
use crate::storage::sqlite::is_open_here;

/// Files that every export without a marker contains.
const ALWAYS: [&str; 3] = ["best.toml", "metrics.json", "README.md"];

/// Files of the built-in trainer's checkpoints that such versions copied or added.
const OF_THE_TRAINER: [&str; 8] = [
    "model.safetensors",
    "config.json",
    "tokenizer.json",
    "training_args.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "modeling_hpsearch.py",
];

/// How closely files are compared with what was exported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Depth {
    /// By name and size, which is fast.
    Sizes,
    /// By the digests of their contents.
    Contents,
}

/// Detects changes of a file since it was examined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    file: (u64, u64),
    bytes: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    fn of(metadata: &Metadata) -> Stamp {
        Stamp {
            file: (metadata.dev(), metadata.ino()),
            bytes: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }
}

/// The files of an export when their contents were compared.
pub(super) type Stamps = BTreeMap<PathBuf, Stamp>;

/// An earlier export with unmodified files.
#[derive(Clone, Debug)]
pub(super) struct Earlier {
    pub(super) stamps: Stamps,
    directories: BTreeSet<PathBuf>,
}

/// The content of a target.
#[derive(Clone, Debug)]
pub(super) enum TargetContent {
    /// Nothing.
    Nothing,
    /// An empty directory.
    Empty,
    /// An export without additional files.
    Export(Earlier),
    /// Apparently an export of a version without markers, whose files are unknown.
    WithoutMarker,
}

/// Examines `directory`; `known` are files whose contents were compared before.
pub(super) fn look(
    directory: &Path,
    depth: Depth,
    known: &Stamps,
) -> Result<TargetContent, ExportError> {
    let occupied = |why: Obstacle| ExportError::Occupied { path: directory.to_owned(), why };
    match fs::symlink_metadata(directory) {
        Ok(metadata) if metadata.is_dir() => {}
        Ok(_) => return Err(occupied(Obstacle::NoDirectory)),
        Err(error)
            if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) =>
        {
            return Ok(TargetContent::Nothing);
        }
        Err(error) => return Err(ExportError::io("read", directory)(error)),
    }
    let names = names(directory)?;
    if names.is_empty() {
        return Ok(TargetContent::Empty);
    }
    match Marker::read(directory).map_err(ExportError::io("read", &directory.join(MARKER)))? {
        marker::DirectoryMarker::Marker(marker) if marker.state == ExportState::Complete => {
            let mut comparison = Comparison {
                directory,
                marker: &marker,
                depth,
                known,
                stamps: Stamps::new(),
                unknown: Vec::new(),
                changed: Vec::new(),
            };
            comparison.compare(Path::new(""))?;
            let Comparison { stamps, unknown, changed, .. } = comparison;
            if !unknown.is_empty() {
                return Err(occupied(Obstacle::Unknown(unknown)));
            }
            if !changed.is_empty() {
                return Err(occupied(Obstacle::Changed(changed)));
            }
            Ok(TargetContent::Export(Earlier { stamps, directories: marker.directories }))
        }
        marker::DirectoryMarker::Marker(_) | marker::DirectoryMarker::Unreadable => {
            Err(occupied(Obstacle::Marker))
        }
        marker::DirectoryMarker::None => {
            let is_export = ALWAYS.iter().all(|always| names.iter().any(|name| name == always));
            let strange: Vec<PathBuf> = names
                .into_iter()
                .filter(|name| !is_export || !is_known(directory, name))
                .map(PathBuf::from)
                .collect();
            match (is_export, strange.is_empty()) {
                (true, true) => Ok(TargetContent::WithoutMarker),
                (true, false) => Err(occupied(Obstacle::NoList(strange))),
                (false, _) => Err(occupied(Obstacle::NoExport(strange))),
            }
        }
    }
}

/// The names in a directory, sorted.
pub(super) fn names(directory: &Path) -> Result<Vec<OsString>, ExportError> {
    let entries = fs::read_dir(directory).and_then(|entries| {
        entries.map(|entry| Ok(entry?.file_name())).collect::<io::Result<Vec<_>>>()
    });
    let mut names = entries.map_err(ExportError::io("read", directory))?;
    names.sort();
    Ok(names)
}

/// Whether versions without markers wrote files with this name.
fn is_known(directory: &Path, name: &OsStr) -> bool {
    ALWAYS.iter().chain(&OF_THE_TRAINER).any(|known| name == *known)
        && fs::symlink_metadata(directory.join(name)).is_ok_and(|metadata| metadata.is_file())
}

/// A comparison of a directory with its marker.
struct Comparison<'a> {
    directory: &'a Path,
    marker: &'a Marker,
    depth: Depth,
    known: &'a Stamps,
    stamps: Stamps,
    unknown: Vec<PathBuf>,
    changed: Vec<PathBuf>,
}

impl Comparison<'_> {
    /// Compares one of its directories.
    fn compare(&mut self, inner: &Path) -> Result<(), ExportError> {
        for name in names(&self.directory.join(inner))? {
            let below = inner.join(name);
            let path = self.directory.join(&below);
            let metadata = fs::symlink_metadata(&path).map_err(ExportError::io("read", &path))?;
            if metadata.is_dir() && self.marker.directories.contains(&below) {
                self.compare(&below)?;
            } else if let Some(written) = self.marker.files.get(&below) {
                if metadata.is_file()
                    && self
                        .is_as_written(&below, written, Stamp::of(&metadata))
                        .map_err(ExportError::io("read", &path))?
                {
                    self.stamps.insert(below, Stamp::of(&metadata));
                } else {
                    self.changed.push(below);
                }
            } else if below != Path::new(MARKER) {
                self.unknown.push(below);
            }
        }
        Ok(())
    }

    fn is_as_written(
        &self,
        below: &Path,
        written: &ExportedFile,
        stamp: Stamp,
    ) -> io::Result<bool> {
        if stamp.bytes != written.bytes {
            return Ok(false);
        }
        if self.depth == Depth::Sizes || self.known.get(below) == Some(&stamp) {
            return Ok(true);
        }
        let mut digest = blake3::Hasher::new();
        // A growing file differs from what was written.
        digest.update_reader(open_file(&self.directory.join(below))?.take(written.bytes + 1))?;
        Ok(digest.finalize() == written.digest)
    }
}

/// Opens a regular file: follows no link, and does not block.
fn open_file(path: &Path) -> io::Result<File> {
    if is_open_here(path) {
        return Err(io::ErrorKind::ResourceBusy.into());
    }
    let flags = rustix::fs::OFlags::NOFOLLOW.union(rustix::fs::OFlags::NONBLOCK).bits();
    OpenOptions::new().read(true).custom_flags(flags.cast_signed()).open(path)
}

/// Removes the unmodified files of an export, and the directories that become empty. Returns
/// whether it is gone: files added or changed meanwhile stay.
pub(super) fn remove(directory: &Path, earlier: &Earlier) -> bool {
    for (below, stamp) in &earlier.stamps {
        let path = directory.join(below);
        if fs::symlink_metadata(&path)
            .is_ok_and(|metadata| metadata.is_file() && Stamp::of(&metadata) == *stamp)
        {
            let _kept_with_its_directory = fs::remove_file(&path);
        }
    }
    for below in earlier.directories.iter().rev() {
        let _not_empty = fs::remove_dir(directory.join(below));
    }
    let is_alone = names(directory).is_ok_and(|names| names.iter().all(|name| name == MARKER));
    if is_alone {
        // The marker goes last, so that the rest is still recognised after a kill.
        let _gone_already = fs::remove_file(directory.join(MARKER));
    }
    fs::remove_dir(directory).is_ok()
}

#[cfg(test)]
mod tests;
