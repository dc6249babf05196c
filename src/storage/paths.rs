//! Locations of trials' files on disk: pure functions of a study, its store's path and numbers.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use super::address::directory_beside;
use crate::study::spec::StudySpec;
use crate::study::trial::{AttemptNumber, TrialNumber};

/// The directory, within a trial's, of copies of checkpoints that their command may overwrite:
/// `copies/step-3/checkpoints/last.pt`, or `copies/step-3-outside/last.pt` if the original is
/// outside the trial's directory.
pub const COPIES: &str = "copies";

/// The directory, within a trial's, of copies of artifacts: a file for each digest.
pub const ARTIFACTS: &str = "artifacts";

/// The directory of prepared data, in that of all files.
pub const DATA_CACHE: &str = "data";

/// Prefix of the directory of a copy, before its step.
const OF_STEP: &str = "step-";

/// Suffix of that name if the original is outside the trial's directory.
const OUTSIDE: &str = "-outside";

/// The directory that holds the files of all studies of a store: `[checkpoints] dir`, else `files`
/// beside the store.
pub fn files_directory(spec: &StudySpec, store: &Path) -> PathBuf {
    match &spec.checkpoints.dir {
        Some(directory) => directory.clone(),
        None => directory_beside(store).join("files"),
    }
}

/// The cache of tokenised data, shared by all studies of a store.
pub fn data_cache(spec: &StudySpec, store: &Path) -> PathBuf {
    files_directory(spec, store).join(DATA_CACHE)
}

/// The cache of compiled GPU kernels, shared by all studies of a user: `hpsearch/kernels` in the
/// user's directory of caches, by the values of XDG_CACHE_HOME and HOME. `None` where neither is
/// set.
pub fn kernel_cache(cache_home: Option<&str>, home: Option<&str>) -> Option<PathBuf> {
    let given = |value: Option<&str>| {
        value.filter(|value| Path::new(value).is_absolute()).map(PathBuf::from)
    };
    let caches = given(cache_home).or_else(|| given(home).map(|home| home.join(".cache")));
    caches.map(|caches| caches.join("hpsearch").join("kernels"))
}

/// The locations of a study's files: `<files>/<name>/trial-<number>`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StudyFiles {
    root: PathBuf,
    name: String,
}

impl StudyFiles {
    /// The files of a study with the store at `store`; `name` is that of its claimed directory, by
    /// default its own name as a path component.
    pub fn of(spec: &StudySpec, name: Option<&str>, store: &Path) -> Self {
        StudyFiles {
            root: files_directory(spec, store),
            name: name.map_or_else(|| component(&spec.name), str::to_owned),
        }
    }

    /// Files in the directory `name` below `root`.
    pub fn below(root: &Path, name: &str) -> Self {
        StudyFiles { root: root.to_owned(), name: name.to_owned() }
    }

    /// The directory of files, which studies share.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The name of the study's own directory.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The study's own directory.
    pub fn directory(&self) -> PathBuf {
        self.root.join(&self.name)
    }

    /// The directory of one trial.
    pub fn trial(&self, trial: TrialNumber) -> PathBuf {
        self.directory().join(format!("trial-{trial}"))
    }

    /// The directory of a trial's copies of checkpoints.
    pub fn copies(&self, trial: TrialNumber) -> PathBuf {
        self.trial(trial).join(COPIES)
    }

    /// The directory of the copies of a trial's artifacts, by their digests.
    pub fn artifacts(&self, trial: TrialNumber) -> PathBuf {
        self.trial(trial).join(ARTIFACTS)
    }

    /// The log of one attempt: everything its program printed, `<trial directory>/attempt-<n>.log`.
    pub fn log(&self, trial: TrialNumber, attempt: AttemptNumber) -> PathBuf {
        self.trial(trial).join(format!("attempt-{attempt}.log"))
    }

    /// What another node of the attempt's group prints, until it is in that log.
    pub fn log_of_node(&self, trial: TrialNumber, attempt: AttemptNumber, rank: usize) -> PathBuf {
        self.trial(trial).join(format!("attempt-{attempt}.node-{rank}.log"))
    }
}

/// The name of a copy's directory among a trial's copies; `place` distinguishes several of one
/// step.
pub fn copy_name(step: u64, is_inside: bool, place: u32) -> String {
    let again = if place == 0 { String::new() } else { format!("-copy{}", u64::from(place) + 1) };
    format!("{OF_STEP}{step}{again}{}", if is_inside { "" } else { OUTSIDE })
}

/// Whether a checkpoint is a copy made by hpsearch.
pub fn is_copy(path: &Path) -> bool {
    copy_of(path).is_some()
}

/// The original of a copy, if it is in the trial's directory.
pub fn original_of(path: &Path) -> Option<PathBuf> {
    let (trial, name, below) = copy_of(path)?;
    (!name.ends_with(OUTSIDE)).then(|| trial.join(below))
}

/// The parts of a copy's path: the trial's directory, the name of the copy's directory, and the
/// path below it.
fn copy_of(path: &Path) -> Option<(PathBuf, &str, PathBuf)> {
    let parts: Vec<&OsStr> = path.iter().collect();
    let is_trial = |part: &OsStr| {
        part.to_str()
            .and_then(|name| name.strip_prefix("trial-"))
            .is_some_and(|number| number.parse::<u64>().is_ok())
    };
    let at = parts.windows(2).rposition(|pair| is_trial(pair[0]) && pair[1] == COPIES)?;
    let name = parts.get(at + 2)?.to_str().filter(|name| name.starts_with(OF_STEP))?;
    let below: PathBuf = parts[at + 3..].iter().collect();
    (below != Path::new("")).then(|| (parts[..=at].iter().collect(), name, below))
}

/// A study's name as one path component; different names give different components, and ordinary
/// ones stay as they are.
pub fn component(name: &str) -> String {
    let mut text = String::with_capacity(name.len());
    for (index, char) in name.chars().enumerate() {
        match char {
            '.' if index == 0 => text.push_str("%2e"),
            '/' => text.push_str("%2f"),
            '\\' => text.push_str("%5c"),
            '%' => text.push_str("%25"),
            '\0' => text.push_str("%00"),
            _ => text.push(char),
        }
    }
    text
}

/// The file of a store, and SQLite's `-wal` and `-shm` files.
pub fn store_files(store: &Path) -> [PathBuf; 3] {
    ["", "-wal", "-shm"].map(|end| {
        let mut path = store.to_owned().into_os_string();
        path.push(end);
        PathBuf::from(path)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::metric::Direction;
    use crate::study::program::Program;
    use crate::study::space::Space;

    fn spec(name: &str) -> StudySpec {
        StudySpec::new(name, "loss", Direction::Minimize, Space::default(), Program::Inline)
    }

    #[test]
    fn kernels_are_kept_with_the_users_caches() {
        let of = |cache_home, home| {
            kernel_cache(cache_home, home).map(|path| path.display().to_string())
        };
        assert_eq!(
            of(Some("/scratch"), Some("/home/me")).as_deref(),
            Some("/scratch/hpsearch/kernels")
        );
        assert_eq!(of(None, Some("/home/me")).as_deref(), Some("/home/me/.cache/hpsearch/kernels"));
        // By the XDG specification, relative paths are invalid.
        assert_eq!(
            of(Some("caches"), Some("/home/me")).as_deref(),
            Some("/home/me/.cache/hpsearch/kernels")
        );
        assert_eq!(of(Some(""), None), None);
    }

    #[test]
    fn files_lie_beside_the_store_unless_the_study_says_where() {
        let store = Path::new("runs/hpsearch.db");
        let log =
            StudyFiles::of(&spec("digits"), None, store).log(TrialNumber(7), AttemptNumber(1));
        assert_eq!(log, Path::new("runs/files/digits/trial-7/attempt-1.log"));
        let mut elsewhere = spec("digits");
        elsewhere.checkpoints.dir = Some("/big/disk".into());
        assert_eq!(
            StudyFiles::of(&elsewhere, None, store).trial(TrialNumber(7)),
            Path::new("/big/disk/digits/trial-7")
        );
        assert_eq!(
            StudyFiles::of(&elsewhere, Some("digits~1"), store).trial(TrialNumber(7)),
            Path::new("/big/disk/digits~1/trial-7")
        );
    }

    #[test]
    fn a_copy_tells_what_it_is_a_copy_of() {
        let original =
            |path: &str| original_of(Path::new(path)).map(|path| path.display().to_string());
        let trial = "/runs/files/s/trial-4";
        assert_eq!(
            original(&format!("{trial}/copies/{}/checkpoints/last.pt", copy_name(3, true, 0))),
            Some(format!("{trial}/checkpoints/last.pt"))
        );
        assert_eq!(
            original(&format!("{trial}/copies/{}/a/b", copy_name(3, true, 2))),
            Some(format!("{trial}/a/b"))
        );
        // A command that writes into the copy it continued from.
        let nested = format!("{trial}/copies/step-4/copies/step-3/checkpoints/last.pt");
        assert_eq!(original(&nested), Some(format!("{trial}/copies/step-3/checkpoints/last.pt")));
        let elsewhere = format!("{trial}/copies/{}/last.pt", copy_name(3, false, 0));
        assert_eq!((original(&elsewhere), is_copy(Path::new(&elsewhere))), (None, true));
        for own in ["checkpoints/last.pt", "copies", "copies/step-3", "copies/mine/last.pt"] {
            assert!(!is_copy(&Path::new(trial).join(own)), "{own}");
        }
        assert!(!is_copy(Path::new("/runs/copies/step-3/last.pt")));
    }

    #[test]
    fn a_name_never_leaves_the_directory() {
        let store = Path::new("hpsearch.db");
        let trial = |name| StudyFiles::of(&spec(name), None, store).trial(TrialNumber(0));
        assert_eq!(trial("../up"), Path::new("files/%2e.%2fup/trial-0"));
        assert_eq!(trial("学习 1"), Path::new("files/学习 1/trial-0"));
    }
}
