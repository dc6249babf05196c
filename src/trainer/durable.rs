//! Directories that appear complete or not at all: written aside, fsynced, renamed.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use super::TrainerError;

/// A directory being written next to where it will appear.
pub(super) struct Draft {
    temporary: PathBuf,
    target: PathBuf,
}

/// What happens when the target is there already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Existing {
    /// It stays and the draft is dropped: whoever was first wrote the same.
    Keep,
    /// The draft takes its place.
    Replace,
}

/// Tells drafts of one process apart.
static DRAFTS: AtomicU64 = AtomicU64::new(0);

impl Draft {
    /// A new, empty draft of the directory `target`; missing parents are made.
    pub(super) fn new(target: &Path) -> Result<Self, TrainerError> {
        let parent = target.parent().unwrap_or(Path::new("."));
        let name = target.file_name().unwrap_or_default().to_string_lossy();
        let number = DRAFTS.fetch_add(1, Ordering::Relaxed);
        let temporary = parent.join(format!(".{name}.{}-{number}.tmp", std::process::id()));
        // A leftover of a killed process that had the same id.
        if temporary.exists() {
            fs::remove_dir_all(&temporary).map_err(TrainerError::io("remove", &temporary))?;
        }
        fs::create_dir_all(&temporary).map_err(TrainerError::io("create", &temporary))?;
        Ok(Self { temporary, target: target.to_owned() })
    }

    /// Writes one file of the directory and waits until it is on the disk; its digest.
    pub(super) fn write(&self, name: &str, bytes: &[u8]) -> Result<blake3::Hash, TrainerError> {
        self.write_pieces(name, std::iter::once(Ok(bytes)))
    }

    /// The same for a file that never lies in memory as a whole.
    pub(super) fn write_pieces(
        &self,
        name: &str,
        pieces: impl Iterator<Item = Result<impl AsRef<[u8]>, TrainerError>>,
    ) -> Result<blake3::Hash, TrainerError> {
        let path = self.temporary.join(name);
        let mut file = File::create(&path).map_err(TrainerError::io("write", &path))?;
        let mut digest = blake3::Hasher::new();
        for piece in pieces {
            let piece = piece?;
            digest.update(piece.as_ref());
            file.write_all(piece.as_ref()).map_err(TrainerError::io("write", &path))?;
        }
        file.sync_all().map_err(TrainerError::io("write", &path))?;
        Ok(digest.finalize())
    }

    /// Makes the directory appear under its name.
    pub(super) fn publish(self, existing: Existing) -> Result<(), TrainerError> {
        sync_directory(&self.temporary)?;
        let aside = self.temporary.with_extension("old");
        if existing == Existing::Replace && self.target.exists() {
            fs::rename(&self.target, &aside).map_err(TrainerError::io("replace", &self.target))?;
        }
        if let Err(error) = fs::rename(&self.temporary, &self.target) {
            // Linux refuses to rename over a directory that is not empty: another process was first.
            if existing == Existing::Replace || !self.target.exists() {
                return Err(TrainerError::io("create", &self.target)(error));
            }
        }
        if aside.exists() {
            fs::remove_dir_all(&aside).map_err(TrainerError::io("remove", &aside))?;
        }
        sync_directory(self.target.parent().unwrap_or(Path::new(".")))
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        // Gone when it was published; otherwise there is nothing to be done about a directory that cannot be removed.
        let _ = fs::remove_dir_all(&self.temporary);
    }
}

fn sync_directory(directory: &Path) -> Result<(), TrainerError> {
    File::open(directory).and_then(|file| file.sync_all()).map_err(TrainerError::io("sync", directory))
}
