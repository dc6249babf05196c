//! Directories beside an export that are in the making: known as ours from the first moment, and
//! gone when their writer is.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::ExportError;
use super::earlier::{self, Depth, Found, Stamps};
use super::marker::{self, MARKER, Marker, State, Written};

/// What directories beside an export are for, as their names have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// The export, until it is complete.
    Draft,
    /// The export before, while the new one takes its place.
    Old,
    /// A model with smaller weights, until it is exported.
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

/// A directory beside an export for what is of no use to anybody else; it is removed with this.
#[derive(Debug)]
pub struct Draft {
    path: PathBuf,
    /// Says that this process lives.
    held: File,
    is_placed: bool,
}

impl Draft {
    /// A new directory beside `target`, whose parent must be there.
    ///
    /// # Errors
    /// What prevents making it.
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

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Says what it holds: from now on it is an export.
    pub(super) fn complete(&mut self, marker: &Marker) -> Result<(), ExportError> {
        self.held = marker.write(&self.path).map_err(ExportError::io("write", &self.path))?;
        Ok(())
    }

    /// It lies elsewhere now.
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

/// Removes a directory whose marker says that all of it is ours. The marker goes last: what is
/// killed before is still known.
fn clear(path: &Path) {
    if !matches!(Marker::read(path), Ok(marker::Found::Marker(_))) {
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

/// A name beside `target` that nothing has; the directory is made.
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

/// While it is held, no other export settles or replaces beside `target`. `None` where the file
/// system has no locks.
pub(super) fn alone(target: &Path) -> Option<File> {
    let directory = File::open(target.parent()?).ok()?;
    directory.lock().is_ok().then_some(directory)
}

/// Settles what killed exports left beside `target`: an export that was being replaced is put back
/// if nothing took its place, and what is ours and of no use is removed. Directories with what
/// somebody put into an old export are handed back.
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
            Ok(marker::Found::Marker(marker)) => {
                let Some(_dead) = marker::lock(&left) else { continue };
                match marker.state {
                    State::Draft => clear(&left),
                    State::Complete if purpose == Purpose::Old && is_vacant => {
                        drop(fs::rename(&left, target))
                    }
                    State::Complete => {
                        kept.extend(remove(&left, target, Depth::Contents, &Stamps::new()))
                    }
                }
            }
            Ok(marker::Found::None) => {
                let is_export = purpose == Purpose::Old
                    && is_vacant
                    && matches!(
                        earlier::look(&left, Depth::Sizes, &Stamps::new()),
                        Ok(Found::WithoutMarker)
                    );
                if !is_export {
                    marker::remove_half_written(&left);
                }
                // Of a process that was killed before it wrote its marker nothing is left but this.
                let _not_empty =
                    if is_export { fs::rename(&left, target) } else { fs::remove_dir(&left) };
            }
            Ok(marker::Found::Unreadable) | Err(_) => {}
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

/// Removes an export that was replaced, as far as it is what was exported; what is left of it gets
/// a name that people see.
pub(super) fn remove(old: &Path, target: &Path, depth: Depth, known: &Stamps) -> Option<PathBuf> {
    let is_gone = match earlier::look(old, depth, known) {
        Ok(Found::Export(earlier)) => earlier::remove(old, &earlier),
        Ok(Found::Nothing) => true,
        Ok(Found::Empty) => fs::remove_dir(old).is_ok(),
        Ok(Found::WithoutMarker) | Err(_) => false,
    };
    if is_gone { None } else { Some(aside(old, target).unwrap_or_else(|_| old.to_owned())) }
}

/// Renames a directory to `model.old` or the next such name that is free.
pub(super) fn aside(directory: &Path, target: &Path) -> io::Result<PathBuf> {
    let mut number = 1;
    loop {
        let mut name = target.file_name().unwrap_or(OsStr::new("export")).to_owned();
        name.push(if number == 1 { ".old".to_owned() } else { format!(".old-{number}") });
        let path = target.with_file_name(name);
        if fs::symlink_metadata(&path).is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
            // Whatever appears there meanwhile is not replaced: a directory with something in it
            // cannot be.
            return fs::rename(directory, &path).map(|()| path);
        }
        number += 1;
    }
}

/// Writes a file of our own, or writes one again; its line of the marker.
pub(super) fn save(
    directory: &Path,
    name: &str,
    bytes: &[u8],
) -> Result<(PathBuf, Written), ExportError> {
    let path = directory.join(name);
    let mut file = File::create(&path).map_err(ExportError::io("write", &path))?;
    file.write_all(bytes)
        .and_then(|()| file.sync_all())
        .map_err(ExportError::io("write", &path))?;
    Ok((PathBuf::from(name), Written { bytes: bytes.len() as u64, digest: blake3::hash(bytes) }))
}
