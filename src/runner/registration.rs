//! Checkpoints as trials announce them: which are taken, where they lie, and what they take on the disk.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;
use std::time::Duration;

use super::disk;
use super::removal::inside;
use crate::paths::StudyFiles;
use crate::trial::TrialNumber;
use crate::wire::CHECKPOINTS;

/// A checkpoint that cannot be looked at within this time (a dead network mount) is not taken; one that cannot be measured
/// within it does not count.
const PATIENCE: Duration = Duration::from_secs(5);

/// Takes in the checkpoints of one study's trials.
#[derive(Debug)]
pub(super) struct Registrar {
    files: StudyFiles,
    /// Besides the directory of files: what no checkpoint may hold.
    protected: Vec<PathBuf>,
    patience: Duration,
    measure: fn(&Path) -> u64,
}

/// A checkpoint that is taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Registered {
    /// Where it is.
    pub path: PathBuf,
    /// What it takes on the disk. `None`: it was not measured in time, or it lies outside its trial's directory, and is never
    /// removed; it does not count towards `max_disk`.
    pub bytes: Option<u64>,
}

impl Registrar {
    pub(super) fn new(files: StudyFiles, protected: Vec<PathBuf>) -> Self {
        Registrar { files, protected, patience: PATIENCE, measure: disk::size }
    }

    /// Takes a checkpoint, or says why not: a whole path, or one relative to the trial's directory of checkpoints, where it is
    /// looked for first, or to `cwd`. The caller waits for the disk.
    pub(super) fn register(&self, trial: TrialNumber, cwd: &Path, path: &Path) -> Result<Registered, String> {
        if path.as_os_str().is_empty() {
            return Err("its path is empty".to_owned());
        }
        let whole = cwd.join(path);
        // Of a whole path both are that path.
        let places = [self.files.trial(trial).join(CHECKPOINTS).join(path), whole.clone()];
        let (files, protected, measure) = (self.files.clone(), self.protected.clone(), self.measure);
        let (found_tx, found_rx) = channel();
        let (bytes_tx, bytes_rx) = channel();
        // On a thread of its own: what hangs there hangs for ever.
        let spawned = std::thread::Builder::new().name("checkpoint".to_owned()).spawn(move || {
            let found = look(&files, &protected, trial, &places);
            let inside = found.as_ref().ok().filter(|found| found.is_inside).map(|found| found.path.clone());
            let _nobody_waits_any_more = found_tx.send(found);
            let _nobody_waits_any_more = bytes_tx.send(inside.map(|path| measure(&path)));
        });
        if let Err(error) = spawned {
            return Err(format!("`{}` could not be looked at: {error}", whole.display()));
        }
        let late = |_| format!("`{}` could not be looked at within {} s", whole.display(), self.patience.as_secs());
        let Found { path, .. } = found_rx.recv_timeout(self.patience).map_err(late)??;
        let bytes = bytes_rx.recv_timeout(self.patience).ok().flatten().filter(|bytes| *bytes > 0);
        Ok(Registered { path, bytes })
    }
}

/// A checkpoint that may be taken.
struct Found {
    path: PathBuf,
    /// Whether it lies in its trial's directory.
    is_inside: bool,
}

fn look(files: &StudyFiles, protected: &[PathBuf], trial: TrialNumber, places: &[PathBuf; 2]) -> Result<Found, String> {
    let is_there = |path: &&PathBuf| fs::symlink_metadata(path).is_ok();
    let Some(path) = places.iter().find(is_there) else {
        let [own, whole] = places.each_ref().map(|place| place.display());
        let or = if places[0] == places[1] { String::new() } else { format!(", nor `{own}`") };
        return Err(format!("there is no `{whole}`{or}"));
    };
    let own = files.trial(trial);
    if let Some(real) = inside(files, trial, path) {
        let canonical = fs::canonicalize(&own).ok();
        // Said by another way than ours (a link, `..`), it is kept by ours.
        let path = canonical.and_then(|own_real| Some(own.join(real.strip_prefix(own_real).ok()?))).unwrap_or_else(|| path.to_owned());
        return Ok(Found { path, is_inside: true });
    }
    if let Ok(real) = fs::canonicalize(path) {
        let refused = |why: &str| Err(format!("`{}` {why}, and a checkpoint is a file or a directory of its own", path.display()));
        if real.parent().is_none() {
            return refused("is the root of the file system");
        }
        if is_mount_point(&real) {
            return refused("is where a file system is mounted");
        }
        let directory = files.directory();
        let mut protected = protected.iter().map(PathBuf::as_path).chain([files.root(), &directory]);
        if let Some(held) = protected.find(|held| fs::canonicalize(held).is_ok_and(|held| held.starts_with(&real))) {
            return refused(&format!("holds `{}`", held.display()));
        }
    }
    Ok(Found { path: path.to_owned(), is_inside: false })
}

fn is_mount_point(path: &Path) -> bool {
    let (Ok(own), Some(Ok(above))) = (fs::metadata(path), path.parent().map(fs::metadata)) else { return false };
    own.is_dir() && (own.dev() != above.dev() || own.ino() == above.ino())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metric::Direction;
    use crate::space::Space;
    use crate::study::{Program, StudySpec};

    const TRIAL: TrialNumber = TrialNumber(2);

    fn site() -> (tempfile::TempDir, StudyFiles, Registrar) {
        let directory = tempfile::tempdir().unwrap();
        let store = directory.path().join("runs/hpsearch.db");
        let spec = StudySpec::new("s", "loss", Direction::Minimize, Space::default(), Program::Inline);
        let files = StudyFiles::of(&spec, None, &store);
        fs::create_dir_all(files.trial(TRIAL).join("checkpoints")).unwrap();
        fs::write(&store, "store").unwrap();
        let registrar = Registrar::new(files.clone(), vec![store]);
        (directory, files, registrar)
    }

    #[test]
    fn what_lies_in_the_trials_directory_counts_and_what_lies_elsewhere_does_not() {
        let (directory, files, registrar) = site();
        let own = files.trial(TRIAL).join("checkpoints/a");
        fs::write(&own, "weights").unwrap();
        let taken = registrar.register(TRIAL, directory.path(), &own).unwrap();
        assert_eq!(taken.path, own);
        assert!(taken.bytes.is_some_and(|bytes| bytes > 0));
        let roundabout = files.trial(TRIAL).join("../trial-2/checkpoints/a");
        assert_eq!(registrar.register(TRIAL, directory.path(), &roundabout), Ok(taken));
        fs::write(directory.path().join("mine"), "weights").unwrap();
        let mine = Registered { path: directory.path().join("mine"), bytes: None };
        assert_eq!(registrar.register(TRIAL, directory.path(), Path::new("mine")), Ok(mine));
        // A relative path is looked for in the trial's own directory first, and what is not there is not taken.
        assert_eq!(registrar.register(TRIAL, directory.path(), Path::new("a")).unwrap().path, own);
        assert!(registrar.register(TRIAL, directory.path(), Path::new("b")).unwrap_err().contains("there is no `"));
        // The trial that it began from keeps its own.
        let of_another = files.trial(TrialNumber(0)).join("checkpoints");
        fs::create_dir_all(&of_another).unwrap();
        assert_eq!(registrar.register(TRIAL, directory.path(), &of_another).unwrap().bytes, None);
    }

    #[test]
    fn what_takes_too_long_to_measure_is_taken_and_does_not_count() {
        let (directory, files, registrar) = site();
        fn slow(_: &Path) -> u64 {
            std::thread::sleep(Duration::from_secs(60));
            7
        }
        let registrar = Registrar { patience: Duration::from_millis(50), measure: slow, ..registrar };
        let own = files.trial(TRIAL).join("checkpoints/a");
        fs::write(&own, "weights").unwrap();
        assert_eq!(registrar.register(TRIAL, directory.path(), &own), Ok(Registered { path: own, bytes: None }));
    }

    #[test]
    fn what_holds_more_than_a_checkpoint_is_refused() {
        let (directory, files, registrar) = site();
        let why = |path: &Path| registrar.register(TRIAL, directory.path(), path).unwrap_err();
        assert!(why(Path::new("/")).contains("root"), "{}", why(Path::new("/")));
        assert!(why(Path::new("/proc")).contains("mounted"));
        assert!(why(Path::new("")).contains("empty"));
        for path in [directory.path(), Path::new("runs"), files.root(), Path::new("runs/hpsearch.db")] {
            assert!(why(path).contains("holds"), "{}", why(path));
        }
    }
}
