//! Where the files of trials lie on disk: pure functions of a study, its store's path and numbers.

use std::path::{Path, PathBuf};

use crate::study::StudySpec;
use crate::trial::{AttemptNumber, TrialNumber};

/// The directory that holds the files of all studies of a store: `[checkpoints] dir`, else `files` beside the store.
pub fn files_directory(spec: &StudySpec, store: &Path) -> PathBuf {
    match &spec.checkpoints.dir {
        Some(directory) => directory.clone(),
        None => store.parent().unwrap_or(Path::new("")).join("files"),
    }
}

/// Where tokenised data is kept, shared by all studies of a store.
pub fn data_cache(spec: &StudySpec, store: &Path) -> PathBuf {
    files_directory(spec, store).join("data")
}

/// Where compiled kernels of GPUs are kept, shared by all studies of a user: `hpsearch/kernels` in the user's directory of caches, by the
/// values of XDG_CACHE_HOME and HOME. `None` where neither is set.
pub fn kernel_cache(cache_home: Option<&str>, home: Option<&str>) -> Option<PathBuf> {
    let given = |value: Option<&str>| value.filter(|value| Path::new(value).is_absolute()).map(PathBuf::from);
    let caches = given(cache_home).or_else(|| given(home).map(|home| home.join(".cache")));
    caches.map(|caches| caches.join("hpsearch").join("kernels"))
}

/// Where the files of a study's trials lie: `<files>/<name>/trial-<number>`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StudyFiles {
    root: PathBuf,
    name: String,
}

impl StudyFiles {
    /// Those of a study whose store lies at `store`; `name` is that of the directory that was taken for it, by default its own
    /// name as a path component.
    pub fn of(spec: &StudySpec, name: Option<&str>, store: &Path) -> Self {
        StudyFiles { root: files_directory(spec, store), name: name.map_or_else(|| component(&spec.name), str::to_owned) }
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

    /// The log of one attempt: everything its program printed, `<trial directory>/attempt-<n>.log`.
    pub fn log(&self, trial: TrialNumber, attempt: AttemptNumber) -> PathBuf {
        self.trial(trial).join(format!("attempt-{attempt}.log"))
    }
}

/// A study's name as one path component; different names give different components, and ordinary ones stay as they are.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metric::Direction;
    use crate::space::Space;
    use crate::study::Program;

    fn spec(name: &str) -> StudySpec {
        StudySpec::new(name, "loss", Direction::Minimize, Space::default(), Program::Inline)
    }

    #[test]
    fn kernels_are_kept_with_the_users_caches() {
        let of = |cache_home, home| kernel_cache(cache_home, home).map(|path| path.display().to_string());
        assert_eq!(of(Some("/scratch"), Some("/home/me")).as_deref(), Some("/scratch/hpsearch/kernels"));
        assert_eq!(of(None, Some("/home/me")).as_deref(), Some("/home/me/.cache/hpsearch/kernels"));
        // As the XDG specification has it: a relative path is no path.
        assert_eq!(of(Some("caches"), Some("/home/me")).as_deref(), Some("/home/me/.cache/hpsearch/kernels"));
        assert_eq!(of(Some(""), None), None);
    }

    #[test]
    fn files_lie_beside_the_store_unless_the_study_says_where() {
        let store = Path::new("runs/hpsearch.db");
        let log = StudyFiles::of(&spec("digits"), None, store).log(TrialNumber(7), AttemptNumber(1));
        assert_eq!(log, Path::new("runs/files/digits/trial-7/attempt-1.log"));
        let mut elsewhere = spec("digits");
        elsewhere.checkpoints.dir = Some("/big/disk".into());
        assert_eq!(StudyFiles::of(&elsewhere, None, store).trial(TrialNumber(7)), Path::new("/big/disk/digits/trial-7"));
        assert_eq!(StudyFiles::of(&elsewhere, Some("digits~1"), store).trial(TrialNumber(7)), Path::new("/big/disk/digits~1/trial-7"));
    }

    #[test]
    fn a_name_never_leaves_the_directory() {
        let store = Path::new("hpsearch.db");
        let trial = |name| StudyFiles::of(&spec(name), None, store).trial(TrialNumber(0));
        assert_eq!(trial("../up"), Path::new("files/%2e.%2fup/trial-0"));
        assert_eq!(trial("学习 1"), Path::new("files/学习 1/trial-0"));
    }
}
