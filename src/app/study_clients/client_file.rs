//! The file of an ask-tell client: its lock shows that the client is alive, its content which
//! trials it runs. A new holder of the study leaves them to it.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use super::beside;
use crate::runner;
use crate::study::trial::TrialNumber;

/// The infix of these files' names, after the name of the study's lock.
const KIND: &str = "client-";

/// The file of this program; removed when it is dropped, and by others once its program is dead.
#[derive(Debug)]
pub struct ClientFile {
    file: File,
    path: PathBuf,
    name: String,
}

impl ClientFile {
    /// Creates and locks a file beside the `lock` of a study, for a client without trials.
    ///
    /// # Errors
    /// It cannot be created or locked.
    pub fn create(lock: &Path) -> io::Result<Self> {
        let pid = runner::this_process().pid;
        for index in 0u32.. {
            let name = format!("{pid}-{index}");
            let path = beside(lock, &format!("{KIND}{name}"));
            let file = match File::options().write(true).create_new(true).open(&path) {
                Ok(file) => file,
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                Err(error) => return Err(error),
            };
            // Another process may have removed it before it was locked, as that of a dead client.
            match file.try_lock() {
                Ok(()) if is_at(&file, &path) => return Ok(ClientFile { file, path, name }),
                Ok(()) | Err(fs::TryLockError::WouldBlock) => {}
                Err(fs::TryLockError::Error(error)) => return Err(error),
            }
        }
        unreachable!("there are more names than processes can take")
    }

    /// The client's name within the study.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Records the outstanding trials, before the client is told of them.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn set(&self, trials: impl IntoIterator<Item = TrialNumber>) -> io::Result<()> {
        let words: Vec<String> = trials.into_iter().map(|trial| trial.to_string()).collect();
        // Only the first line counts: the remains of a longer one are ignored.
        self.file.write_all_at(format!("{}\n", words.join(" ")).as_bytes(), 0)
    }
}

impl Drop for ClientFile {
    fn drop(&mut self) {
        let _removed_by_others_later = fs::remove_file(&self.path);
    }
}

/// A live client and its outstanding trials.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveClient {
    /// Its name.
    pub name: String,
    /// Numbers of the trials that it was given and has not told.
    pub trials: Vec<TrialNumber>,
}

/// The live clients of a study; removes the files of dead ones.
///
/// # Errors
/// The directory cannot be read.
pub fn live_clients(lock: &Path) -> io::Result<Vec<LiveClient>> {
    let prefix = beside(lock, KIND);
    let prefix = prefix.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let directory = lock.parent().filter(|parent| !parent.as_os_str().is_empty());
    let mut live = Vec::new();
    for entry in fs::read_dir(directory.unwrap_or(Path::new(".")))? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let Some(name) = name.strip_prefix(&prefix) else { continue };
        let Ok(file) = File::open(&path) else { continue };
        if is_locked(&file) {
            let text = fs::read_to_string(&path).unwrap_or_default();
            let words = text.lines().next().unwrap_or_default().split(' ');
            let trials = words.flat_map(str::parse).map(TrialNumber).collect();
            live.push(LiveClient { name: name.to_owned(), trials });
        } else {
            let _removed_by_another = fs::remove_file(&path);
        }
    }
    live.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(live)
}

/// Whether the client of this name is alive.
pub fn is_alive(lock: &Path, name: &str) -> bool {
    File::open(beside(lock, &format!("{KIND}{name}"))).is_ok_and(|file| is_locked(&file))
}

fn is_locked(file: &File) -> bool {
    matches!(file.try_lock_shared(), Err(fs::TryLockError::WouldBlock))
}

fn is_at(file: &File, path: &Path) -> bool {
    let same = || -> io::Result<bool> {
        let (opened, there) = (file.metadata()?, fs::metadata(path)?);
        Ok((opened.dev(), opened.ino()) == (there.dev(), there.ino()))
    };
    same().unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_seen_with_its_trials_as_long_as_it_lives() {
        let directory = tempfile::tempdir().unwrap();
        let lock = directory.path().join("store.db.run-1");
        let (first, second) =
            (ClientFile::create(&lock).unwrap(), ClientFile::create(&lock).unwrap());
        second.set([10, 11, 12].map(TrialNumber)).unwrap();
        second.set([7].map(TrialNumber)).unwrap();
        let names = |live: &[LiveClient]| -> Vec<String> {
            live.iter().map(|client| client.name.clone()).collect()
        };
        let live = live_clients(&lock).unwrap();
        assert_eq!(names(&live), [first.name(), second.name()]);
        assert_eq!((&live[0].trials[..], &live[1].trials[..]), (&[][..], &[TrialNumber(7)][..]));
        let name = second.name().to_owned();
        assert!(is_alive(&lock, &name));
        drop(second);
        assert!(!is_alive(&lock, &name));
        // A killed client leaves its file, unlocked.
        fs::write(beside(&lock, "client-1-0"), "3\n").unwrap();
        assert_eq!(names(&live_clients(&lock).unwrap()), [first.name()]);
        assert!(!beside(&lock, "client-1-0").exists());
    }
}
