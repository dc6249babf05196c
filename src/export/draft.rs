//! Temporary directories beside an export: marked as ours from the start, and removed when their
//! writer dies.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::earlier::{self, Depth, Stamps, TargetContent};
use super::marker::{self, ExportState, ExportedFile, MARKER, Marker};
use super::{ExportError, holds_weights};
use crate::runner::file_lock::FileLock;

/// The purpose of a temporary directory, as in its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// The export, until it is complete.
    Draft,
    /// The previous export, while the new one takes its place.
    Old,
    /// A quantized model, until it is exported.
    Small,
    /// A training whose result is exported.
    Training,
}

impl Purpose {
    const ALL: [Purpose; 4] = [Purpose::Draft, Purpose::Old, Purpose::Small, Purpose::Training];

    fn word(self) -> &'static str {
        match self {
            Purpose::Draft => "draft",
            Purpose::Old => "old",
            Purpose::Small => "small",
            Purpose::Training => "training",
        }
    }
}

/// A temporary directory beside an export; removed on drop.
#[derive(Debug)]
pub struct Draft {
    path: PathBuf,
    /// The lock that shows that this process is alive.
    held: FileLock,
    is_placed: bool,
}

impl Draft {
    /// Creates a directory beside `target`, whose parent must exist.
    ///
    /// # Errors
    /// Why it cannot be created.
    pub fn beside(target: &Path, purpose: Purpose) -> Result<Draft, ExportError> {
        let _alone = alone(target);
        let path = make(target, purpose)?;
        match Marker::draft().write(&path) {
            Ok(held) => Ok(Draft { path, held, is_placed: false }),
            Err(error) => {
                let _nothing_in_it = fs::remove_dir(&path);
                Err(ExportError::io("write", &path)(error))
            }
        }
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Records its contents: from now on it is an export.
    pub(super) fn complete(&mut self, marker: &Marker) -> Result<(), ExportError> {
        self.held = marker.write(&self.path).map_err(ExportError::io("write", &self.path))?;
        Ok(())
    }

    /// Keeps the newest checkpoint of a training that ended early, as `model.checkpoint` beside the
    /// directory `target`, or where it is if it cannot be moved; returns where, if there is one.
    pub fn keep_checkpoint(&mut self, target: &Path) -> Option<PathBuf> {
        let newest = newest_checkpoint(&self.path)?;
        Some(keep(&newest, target).unwrap_or_else(|_| {
            self.is_placed = true;
            newest
        }))
    }

    /// It has been moved into place.
    pub(super) fn placed(mut self) {
        self.is_placed = true;
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if !self.is_placed {
            clear(&self.path);
        }
    }
}

/// What a checkpoint has that an export has not.
const OPTIMIZER: &str = "optimizer.safetensors";

/// The word in the names of kept checkpoints.
const CHECKPOINT: &str = "checkpoint";

/// Moves a checkpoint to `model.checkpoint` beside `target`; one that is there gets a number.
fn keep(newest: &Path, target: &Path) -> io::Result<PathBuf> {
    let mut name = target.file_name().unwrap_or(OsStr::new("export")).to_owned();
    name.push(format!(".{CHECKPOINT}"));
    let place = target.with_file_name(name);
    let is_checkpoint = holds_weights(&place) && place.join(OPTIMIZER).is_file();
    if is_checkpoint && fs::symlink_metadata(&place).is_ok_and(|found| found.is_dir()) {
        aside(&place, target, Some(CHECKPOINT))?;
    }
    aside(newest, target, Some(CHECKPOINT))
}

/// Keeps the newest checkpoint of each training that was killed beside `target`, and removes the
/// rest of them; returns where the newest of all is.
pub fn keep_checkpoints_of_killed(target: &Path) -> Option<PathBuf> {
    let _alone = alone(target);
    let entries = target.parent().and_then(|parent| fs::read_dir(parent).ok());
    let names = entries.into_iter().flatten().flatten().map(|entry| entry.file_name());
    let trainings = names.filter(|name| is_of(name, &prefix(target, Purpose::Training)));
    let mut left: Vec<PathBuf> = trainings.map(|name| target.with_file_name(name)).collect();
    // The last one that is kept has the name without a number.
    left.sort_by_key(|left| newest_checkpoint(left).and_then(|newest| modified(&newest)));
    let kept = |left: &PathBuf| {
        let Ok(marker::DirectoryMarker::Marker(_)) = Marker::read(left) else { return None };
        let _dead = marker::lock(left)?;
        keep_newest(left, target)
    };
    let mut newest = None;
    for left in &left {
        newest = kept(left).or(newest);
    }
    newest
}

/// Keeps the newest checkpoint in the directory of a training that was killed, and removes the
/// rest; where it cannot be moved, all stays.
fn keep_newest(left: &Path, target: &Path) -> Option<PathBuf> {
    let kept = newest_checkpoint(left).map(|newest| keep(&newest, target));
    if kept.as_ref().is_none_or(Result::is_ok) {
        clear(left);
    }
    kept?.ok()
}

/// The newest complete checkpoint in a directory: those that are being written have hidden names.
fn newest_checkpoint(directory: &Path) -> Option<PathBuf> {
    let entries = fs::read_dir(directory).ok()?.flatten();
    let is_hidden = |entry: &fs::DirEntry| entry.file_name().as_bytes().starts_with(b".");
    let saved = entries.filter(|entry| !is_hidden(entry)).map(|entry| entry.path());
    saved.filter(|path| holds_weights(path)).max_by_key(|path| modified(path))
}

fn modified(path: &Path) -> Option<SystemTime> {
    fs::metadata(path).and_then(|file| file.modified()).ok()
}

/// Removes a directory whose marker says that it is entirely ours. The marker goes last, so that it
/// is still recognised after a kill.
fn clear(path: &Path) {
    if !matches!(Marker::read(path), Ok(marker::DirectoryMarker::Marker(_))) {
        return;
    }
    for entry in fs::read_dir(path)
        .into_iter()
        .flatten()
        .flatten()
        .filter(|entry| entry.file_name() != MARKER)
    {
        let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
        let _found_by_the_next_export = if is_directory {
            fs::remove_dir_all(entry.path())
        } else {
            fs::remove_file(entry.path())
        };
    }
    if fs::read_dir(path).is_ok_and(|mut entries| {
        entries.all(|entry| entry.is_ok_and(|entry| entry.file_name() == MARKER))
    }) {
        let _marker_and_all =
            fs::remove_file(path.join(MARKER)).and_then(|()| fs::remove_dir(path));
    }
}

/// Creates a directory with a free name beside `target`.
fn make(target: &Path, purpose: Purpose) -> Result<PathBuf, ExportError> {
    let mut number = 0;
    loop {
        let path = free(target, purpose, number);
        match fs::create_dir(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
            made => return made.map(|()| path.clone()).map_err(ExportError::io("make", &path)),
        }
    }
}

/// `.model.draft-4711`, `.model.draft-4711-1`
pub(super) fn free(target: &Path, purpose: Purpose, number: u32) -> PathBuf {
    let mut name = prefix(target, purpose);
    name.push(std::process::id().to_string());
    if number > 0 {
        name.push(format!("-{number}"));
    }
    target.with_file_name(name)
}

fn prefix(target: &Path, purpose: Purpose) -> OsString {
    let mut name = OsString::from(".");
    name.push(target.file_name().unwrap_or(OsStr::new("export")));
    name.push(format!(".{}-", purpose.word()));
    name
}

/// A lock that keeps other exports from settling or replacing beside `target`. `None` if the file
/// system has no locks.
pub(super) fn alone(target: &Path) -> Option<FileLock> {
    let directory = File::open(target.parent()?).ok()?;
    directory.lock().is_ok().then(|| FileLock::held_on(directory))
}

/// Cleans up after killed exports beside `target`: restores an export that was being replaced if
/// nothing took its place, and removes our temporary directories. Returns old exports to which
/// files were added.
pub(super) fn settle(target: &Path) -> Vec<PathBuf> {
    let Some(entries) = target.parent().and_then(|parent| fs::read_dir(parent).ok()) else {
        return Vec::new();
    };
    let mut kept = Vec::new();
    for name in entries.flatten().map(|entry| entry.file_name()) {
        let Some(purpose) =
            Purpose::ALL.into_iter().find(|purpose| is_of(&name, &prefix(target, *purpose)))
        else {
            continue;
        };
        let left = target.with_file_name(&name);
        let is_vacant = fs::symlink_metadata(target)
            .is_err_and(|error| error.kind() == io::ErrorKind::NotFound);
        match Marker::read(&left) {
            Ok(marker::DirectoryMarker::Marker(marker)) => {
                let Some(_dead) = marker::lock(&left) else { continue };
                match marker.state {
                    ExportState::Draft if purpose == Purpose::Training => {
                        let _told_by_none = keep_newest(&left, target);
                    }
                    ExportState::Draft => clear(&left),
                    ExportState::Complete if purpose == Purpose::Old && is_vacant => {
                        drop(fs::rename(&left, target))
                    }
                    ExportState::Complete => {
                        kept.extend(remove(&left, target, Depth::Contents, &Stamps::new()))
                    }
                }
            }
            Ok(marker::DirectoryMarker::None) => {
                let is_export = purpose == Purpose::Old
                    && is_vacant
                    && matches!(
                        earlier::look(&left, Depth::Sizes, &Stamps::new()),
                        Ok(TargetContent::WithoutMarker)
                    );
                if !is_export {
                    marker::remove_half_written(&left);
                }
                // A process killed before it wrote its marker leaves only this.
                let _not_empty =
                    if is_export { fs::rename(&left, target) } else { fs::remove_dir(&left) };
            }
            Ok(marker::DirectoryMarker::Unreadable) | Err(_) => {}
        }
    }
    kept
}

/// Whether a name is the prefix and a process, `4711` or `4711-2`.
fn is_of(name: &OsStr, prefix: &OsStr) -> bool {
    let Some(process) = name.as_bytes().strip_prefix(prefix.as_bytes()) else { return false };
    let is_number = |digits: &[u8]| !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    process.splitn(2, |byte| *byte == b'-').all(is_number)
}

/// Removes a replaced export as far as it is unmodified; the rest gets a visible name.
pub(super) fn remove(old: &Path, target: &Path, depth: Depth, known: &Stamps) -> Option<PathBuf> {
    let is_gone = match earlier::look(old, depth, known) {
        Ok(TargetContent::Export(earlier)) => earlier::remove(old, &earlier),
        Ok(TargetContent::Nothing) => true,
        Ok(TargetContent::Empty) => fs::remove_dir(old).is_ok(),
        Ok(TargetContent::WithoutMarker) | Err(_) => false,
    };
    if is_gone {
        None
    } else {
        Some(aside(old, target, Some("old")).unwrap_or_else(|_| old.to_owned()))
    }
}

/// Renames a directory to the first free name beside `target`: `model.old`, `model.old-2`, .. with
/// a word, `model.1`, `model.2`, .. without.
pub(super) fn aside(directory: &Path, target: &Path, word: Option<&str>) -> io::Result<PathBuf> {
    let mut number = 1;
    loop {
        let mut name = target.file_name().unwrap_or(OsStr::new("export")).to_owned();
        name.push(match (word, number) {
            (None, number) => format!(".{number}"),
            (Some(word), 1) => format!(".{word}"),
            (Some(word), number) => format!(".{word}-{number}"),
        });
        let path = target.with_file_name(name);
        if fs::symlink_metadata(&path).is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
            // A non-empty directory that appears there meanwhile cannot be replaced.
            return fs::rename(directory, &path).map(|()| path);
        }
        number += 1;
    }
}

/// Writes or rewrites a file of our own; returns its entry for the marker.
pub(super) fn save(
    directory: &Path,
    name: &str,
    bytes: &[u8],
) -> Result<(PathBuf, ExportedFile), ExportError> {
    let path = directory.join(name);
    let mut file = File::create(&path).map_err(ExportError::io("write", &path))?;
    file.write_all(bytes)
        .and_then(|()| file.sync_all())
        .map_err(ExportError::io("write", &path))?;
    Ok((
        PathBuf::from(name),
        ExportedFile { bytes: bytes.len() as u64, digest: blake3::hash(bytes) },
    ))
}

#[cfg(test)]
mod tests;
