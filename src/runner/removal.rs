//! What may be removed of a dropped checkpoint: only what lies, links resolved, in its own trial's
//! directory.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::storage::paths::{StudyFiles, is_copy};
use crate::study::trial::TrialNumber;

/// Removes dropped checkpoints of one study.
#[derive(Debug)]
pub struct Remover {
    /// Where they may lie.
    homes: Vec<StudyFiles>,
    /// Checkpoints that are listed, with links resolved.
    resolved: HashMap<PathBuf, PathBuf>,
}

impl Remover {
    /// For a study whose files lie in these directories, all of them this store's, see
    /// [`super::ownership::own_homes`].
    pub fn new(homes: Vec<StudyFiles>) -> Self {
        Remover { homes, resolved: HashMap::new() }
    }

    /// Removes a dropped checkpoint, if it lies strictly inside its trial's directory and holds
    /// none of those in `listed`, which any trial still has. What stays is the user's own, or found
    /// by `gc`.
    pub fn remove<'a>(
        &mut self,
        trial: TrialNumber,
        path: &Path,
        listed: impl IntoIterator<Item = &'a Path>,
    ) {
        let home = self.homes.iter().find_map(|files| Some((files, inside(files, trial, path)?)));
        let Some((files, real)) = home else { return };
        let (resolved, root) = (&mut self.resolved, files.root());
        let is_needed = |kept: &Path| {
            // What was registered elsewhere may lie on a disk that does not answer.
            if !kept.starts_with(root) {
                return kept.starts_with(&real);
            }
            let kept_real = resolved
                .entry(kept.to_owned())
                .or_insert_with(|| real_place(kept).unwrap_or_else(|| kept.to_owned()));
            kept_real.starts_with(&real)
        };
        if listed.into_iter().any(is_needed) {
            return;
        }
        // Not removed now, it is found as unreferenced later: nothing depends on it.
        let _found_later =
            if is_directory(&real) { fs::remove_dir_all(&real) } else { fs::remove_file(&real) };
        self.resolved.remove(path);
        if is_copy(path) {
            remove_empty(path.parent(), &files.copies(trial));
        }
    }
}

/// Removes the directories that held a copy, up to that of all copies, as far as nothing else lies
/// in them.
fn remove_empty(directory: Option<&Path>, copies: &Path) {
    let mut directory = directory;
    while let Some(path) = directory.filter(|path| path.starts_with(copies)) {
        if fs::remove_dir(path).is_err() {
            return;
        }
        directory = path.parent();
    }
}

/// Where a path is, if it lies strictly inside the trial's directory: all links on the way
/// resolved, a last one not followed.
pub fn inside(files: &StudyFiles, trial: TrialNumber, path: &Path) -> Option<PathBuf> {
    let root = fs::canonicalize(files.root()).ok()?;
    let own = fs::canonicalize(files.trial(trial)).ok()?;
    // The trial's directory itself is no link to somewhere else.
    if own != root.join(files.name()).join(format!("trial-{trial}")) {
        return None;
    }
    let real = real_place(path)?;
    (real.starts_with(&own) && real != own).then_some(real)
}

/// A path whose directory is resolved; a link at its end is itself.
fn real_place(path: &Path) -> Option<PathBuf> {
    // `a/..` and `/` have no last name of their own.
    let name = path.file_name()?;
    let parent =
        path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    Some(fs::canonicalize(parent).ok()?.join(name))
}

fn is_directory(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_dir())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::metric::Direction;
    use crate::study::space::Space;
    use crate::study::spec::{Program, StudySpec};

    const TRIAL: TrialNumber = TrialNumber(1);

    fn files(directory: &Path) -> StudyFiles {
        let spec =
            StudySpec::new("s", "loss", Direction::Minimize, Space::default(), Program::Inline);
        let files = StudyFiles::of(&spec, None, &directory.join("hpsearch.db"));
        fs::create_dir_all(files.trial(TRIAL).join("checkpoints")).unwrap();
        files
    }

    fn plant(path: &Path) -> PathBuf {
        fs::create_dir_all(path).unwrap();
        fs::write(path.join("weights"), "7").unwrap();
        path.to_owned()
    }

    fn remove(files: &StudyFiles, path: &Path, listed: &[&Path]) {
        Remover::new(vec![files.clone()]).remove(TRIAL, path, listed.iter().copied());
    }

    #[test]
    fn only_what_lies_inside_the_trials_own_directory_is_removed() {
        let directory = tempfile::tempdir().unwrap();
        let files = files(directory.path());
        let own = plant(&files.trial(TRIAL).join("checkpoints/a"));
        let of_another = plant(&files.trial(TrialNumber(0)).join("checkpoints/a"));
        let elsewhere = plant(&directory.path().join("mine"));
        let up = files.trial(TRIAL).join("../trial-0/checkpoints/a");
        for path in [
            &of_another,
            &elsewhere,
            &up,
            &files.trial(TRIAL),
            &files.directory(),
            files.root(),
            directory.path(),
            Path::new("/"),
            Path::new(""),
        ] {
            remove(&files, path, &[]);
        }
        remove(&files, &files.trial(TRIAL).join(".."), &[]);
        assert!([&own, &of_another, &elsewhere].iter().all(|path| path.join("weights").exists()));
        remove(&files, &own, &[]);
        assert!(!own.exists());
    }

    #[test]
    fn a_copy_goes_with_the_directories_that_held_it_alone() {
        let directory = tempfile::tempdir().unwrap();
        let files = files(directory.path());
        let [first, second] = ["step-1", "step-2"]
            .map(|step| plant(&files.copies(TRIAL).join(step).join("checkpoints/last")));
        remove(&files, &first, &[&second]);
        assert!(!files.copies(TRIAL).join("step-1").exists() && second.exists());
        remove(&files, &second, &[]);
        assert!(!files.copies(TRIAL).exists() && files.trial(TRIAL).join("checkpoints").exists());
    }

    #[test]
    fn what_holds_a_checkpoint_that_is_listed_stays() {
        let directory = tempfile::tempdir().unwrap();
        let files = files(directory.path());
        let all = plant(&files.trial(TRIAL).join("checkpoints/a"));
        let file = all.join("weights");
        remove(&files, &all, &[&file]);
        assert!(file.exists());
        remove(&files, &file, &[]);
        assert!(!file.exists() && all.exists());
    }

    #[test]
    fn links_are_not_followed() {
        let directory = tempfile::tempdir().unwrap();
        let files = files(directory.path());
        let elsewhere = plant(&directory.path().join("mine"));
        let own = files.trial(TRIAL).join("checkpoints");
        std::os::unix::fs::symlink(&elsewhere, own.join("link")).unwrap();
        remove(&files, &own.join("link/weights"), &[]);
        assert!(elsewhere.join("weights").exists(), "what lies behind a link is elsewhere");
        let holder = plant(&own.join("b"));
        std::os::unix::fs::symlink(&elsewhere, holder.join("link")).unwrap();
        remove(&files, &holder, &[]);
        remove(&files, &own.join("link"), &[]);
        assert!(
            !holder.exists()
                && !own.join("link").is_symlink()
                && elsewhere.join("weights").exists()
        );
        // A trial's directory that is a link leads to somebody else's.
        fs::remove_dir_all(files.trial(TRIAL)).unwrap();
        std::os::unix::fs::symlink(directory.path(), files.trial(TRIAL)).unwrap();
        remove(&files, &files.trial(TRIAL).join("mine"), &[]);
        assert!(elsewhere.exists());
    }

    #[test]
    fn nothing_is_removed_of_files_that_are_not_this_stores() {
        let directory = tempfile::tempdir().unwrap();
        let files = files(directory.path());
        let own = plant(&files.trial(TRIAL).join("checkpoints/a"));
        Remover::new(Vec::new()).remove(TRIAL, &own, []);
        assert!(own.exists());
    }
}
