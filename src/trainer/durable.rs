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

    /// Writes one file of the directory and waits until it is on the disk.
    pub(super) fn write(&self, name: &str, bytes: &[u8]) -> Result<(), TrainerError> {
        self.write_parts(name, std::iter::once(bytes))
    }

    /// The same for a file that never lies in memory as a whole.
    pub(super) fn write_parts(&self, name: &str, parts: impl Iterator<Item = impl AsRef<[u8]>>) -> Result<(), TrainerError> {
        let path = self.temporary.join(name);
        let written = File::create(&path).and_then(|mut file| {
            for part in parts {
                file.write_all(part.as_ref())?;
            }
            file.sync_all()
        });
        written.map_err(TrainerError::io("write", &path))
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
        // Whoever was just being killed when this draft began is gone by now.
        remove_abandoned(&self.target);
        sync_directory(self.target.parent().unwrap_or(Path::new(".")))
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        // Gone when it was published; otherwise there is nothing to be done about a directory that cannot be removed.
        let _ = fs::remove_dir_all(&self.temporary);
    }
}

/// Removes drafts of the directory `target` whose processes are gone: they were killed. Where a process lives, it may still write.
pub(super) fn remove_abandoned(target: &Path) {
    let (parent, name) = (target.parent().unwrap_or(Path::new(".")), target.file_name().unwrap_or_default().to_string_lossy());
    let is_abandoned = |entry: &fs::DirEntry| {
        let found = entry.file_name().to_string_lossy().into_owned();
        let process = found.strip_prefix('.').and_then(|rest| rest.strip_prefix(&*name)?.strip_prefix('.')?.split_once('-'));
        process.is_some_and(|(process, rest)| {
            let is_draft = rest.ends_with(".tmp") || rest.ends_with(".old");
            is_draft && process.parse().is_ok_and(is_gone)
        })
    };
    for entry in fs::read_dir(parent).into_iter().flatten().flatten().filter(is_abandoned) {
        // What cannot be removed is only space; `hpsearch gc` tells it.
        let _ = fs::remove_dir_all(entry.path());
    }
}

/// Whether there is no such process, or only its entry, for which nobody has waited: that one runs no program.
fn is_gone(process: u32) -> bool {
    fs::read_link(format!("/proc/{process}/exe")).is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound)
}

fn sync_directory(directory: &Path) -> Result<(), TrainerError> {
    File::open(directory).and_then(|file| file.sync_all()).map_err(TrainerError::io("sync", directory))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_killed_process_left_half_written_is_removed_and_what_a_living_one_writes_is_not() {
        let parent = tempfile::tempdir().unwrap();
        let left = |name: String| fs::create_dir(parent.path().join(name)).unwrap();
        // No process has an id so great.
        left(".data.4294967294-0.tmp".to_owned());
        left(".data.4294967294-1.old".to_owned());
        left(".other.4294967294-0.tmp".to_owned());
        left(format!(".data.{}-99.tmp", std::process::id()));
        left(".data.notes".to_owned());
        let target = parent.path().join("data");
        remove_abandoned(&target);
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 3);
        let draft = Draft::new(&target).unwrap();
        left(".data.4294967293-0.tmp".to_owned());
        draft.publish(Existing::Keep).unwrap();
        let mut names: Vec<String> = fs::read_dir(parent.path()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        assert_eq!(names, [&format!(".data.{}-99.tmp", std::process::id()), ".data.notes", ".other.4294967294-0.tmp", "data"]);
    }
}
