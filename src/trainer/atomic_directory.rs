//! Directories that appear atomically: written to a temporary directory, fsynced, renamed.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use super::TrainerError;

/// A directory being written to a temporary sibling of its target.
pub(super) struct AtomicDirectory {
    temporary: PathBuf,
    target: PathBuf,
}

/// What to do if the target exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum IfExists {
    /// Keep it, and discard the new one: both have the same content.
    Keep,
    /// Replace it.
    Replace,
}

/// Distinguishes the temporary directories of one process.
static NEXT_ID: AtomicU64 = AtomicU64::new(0);

impl AtomicDirectory {
    /// Creates an empty temporary directory for `target`, and missing parents.
    pub(super) fn new(target: &Path) -> Result<Self, TrainerError> {
        let parent = target.parent().unwrap_or(Path::new("."));
        let name = target.file_name().unwrap_or_default().to_string_lossy();
        let number = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        let temporary = parent.join(format!(".{name}.{}-{number}.tmp", std::process::id()));
        // Left by a killed process with the same id.
        if temporary.exists() {
            fs::remove_dir_all(&temporary).map_err(TrainerError::io("remove", &temporary))?;
        }
        fs::create_dir_all(&temporary).map_err(TrainerError::io("create", &temporary))?;
        Ok(Self { temporary, target: target.to_owned() })
    }

    /// Writes and fsyncs one file; returns its digest.
    pub(super) fn write(&self, name: &str, bytes: &[u8]) -> Result<blake3::Hash, TrainerError> {
        self.write_chunks(name, std::iter::once(Ok(bytes)))
    }

    /// The same for a file that is not held in memory as a whole.
    pub(super) fn write_chunks(
        &self,
        name: &str,
        chunks: impl Iterator<Item = Result<impl AsRef<[u8]>, TrainerError>>,
    ) -> Result<blake3::Hash, TrainerError> {
        let path = self.temporary.join(name);
        let mut file = File::create(&path).map_err(TrainerError::io("write", &path))?;
        let mut digest = blake3::Hasher::new();
        for chunk in chunks {
            let chunk = chunk?;
            digest.update(chunk.as_ref());
            file.write_all(chunk.as_ref()).map_err(TrainerError::io("write", &path))?;
        }
        file.sync_all().map_err(TrainerError::io("write", &path))?;
        Ok(digest.finalize())
    }

    /// Renames the directory to its target.
    pub(super) fn publish(self, if_exists: IfExists) -> Result<(), TrainerError> {
        sync_directory(&self.temporary)?;
        let aside = self.temporary.with_extension("old");
        if if_exists == IfExists::Replace && self.target.exists() {
            fs::rename(&self.target, &aside).map_err(TrainerError::io("replace", &self.target))?;
        }
        if let Err(error) = fs::rename(&self.temporary, &self.target) {
            // Linux does not rename over a non-empty directory: another process was first.
            if if_exists == IfExists::Replace || !self.target.exists() {
                return Err(TrainerError::io("create", &self.target)(error));
            }
        }
        if aside.exists() {
            fs::remove_dir_all(&aside).map_err(TrainerError::io("remove", &aside))?;
        }
        sync_directory(self.target.parent().unwrap_or(Path::new(".")))
    }
}

impl Drop for AtomicDirectory {
    fn drop(&mut self) {
        let _fails_if_published = fs::remove_dir_all(&self.temporary);
    }
}

fn sync_directory(directory: &Path) -> Result<(), TrainerError> {
    File::open(directory)
        .and_then(|file| file.sync_all())
        .map_err(TrainerError::io("sync", directory))
}
