//! Removes dropped checkpoints: only what lies, links resolved, in its own trial's directory.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::disk::{self, real_place};
use super::own_files::removable;
use super::ownership::Copies;
use crate::engine::retention::IsGone;
use crate::storage::paths::{StudyFiles, is_copy};
use crate::study::spec::StudySpec;
use crate::study::trial::TrialNumber;

/// Removes dropped checkpoints of one study.
#[derive(Debug)]
pub struct Remover {
    /// Where they may be.
    homes: Vec<StudyFiles>,
    /// What copies of the study in other stores need there.
    copies: Vec<Copies>,
    /// Listed checkpoints, with links resolved.
    resolved: HashMap<PathBuf, PathBuf>,
}

impl Remover {
    /// For a study whose files are in these directories, all owned by this store, see
    /// [`super::ownership::own_homes`].
    pub fn new(homes: Vec<StudyFiles>) -> Self {
        let copies = homes.iter().map(|home| Copies::of(&home.directory())).collect();
        Remover { homes, copies, resolved: HashMap::new() }
    }

    /// Removes a dropped checkpoint, if it is strictly inside its trial's directory and contains
    /// none of `listed`, the checkpoints that trials still have, none that a copy of the study in
    /// another store has, and no store. What stays is the
    /// user's own, or found by `gc`. Returns whether it was its to remove.
    pub fn remove<'a>(
        &mut self,
        trial: TrialNumber,
        path: &Path,
        listed: impl IntoIterator<Item = &'a Path>,
    ) -> bool {
        let home = self.homes.iter().find_map(|files| Some((files, inside(files, trial, path)?)));
        let Some((files, real)) = home else { return false };
        let (resolved, root) = (&mut self.resolved, files.root());
        let is_needed = |kept: &Path| {
            // A path elsewhere may be on a disk that does not answer.
            if !kept.starts_with(root) {
                return kept.starts_with(&real);
            }
            let kept_real = resolved
                .entry(kept.to_owned())
                .or_insert_with(|| real_place(kept).unwrap_or_else(|| kept.to_owned()));
            kept_real.starts_with(&real)
        };
        let is_shared = self.copies.iter().any(|copies| copies.list(&real).is_some());
        if listed.into_iter().any(is_needed) || is_shared || removable(&real).is_err() {
            return false;
        }
        // `gc` finds it if removal fails: nothing depends on it.
        let _found_later = disk::remove(&real);
        self.resolved.remove(path);
        if is_copy(path) {
            remove_empty(path.parent(), &files.copies(trial));
        }
        true
    }
}

/// Removes the emptied directories of a copy, up to that of all copies.
fn remove_empty(directory: Option<&Path>, copies: &Path) {
    let mut directory = directory;
    while let Some(path) = directory.filter(|path| path.starts_with(copies)) {
        if fs::remove_dir(path).is_err() {
            return;
        }
        directory = path.parent();
    }
}

/// Whether a checkpoint is not there. One that cannot be examined may exist.
pub fn is_missing(path: &Path) -> bool {
    matches!(path.try_exists(), Ok(false))
}

/// Tells whether a checkpoint of a trial was removed: it is not there, though the disk is that it
/// was on. With agents only those in the trial's directory are looked for: others may be on their
/// machines.
pub fn look_for_removed(spec: &StudySpec, files: StudyFiles) -> IsGone {
    let has_agents = spec.cluster.is_some();
    Box::new(move |trial, path| {
        let own = files.trial(trial);
        let is_reached = match path.starts_with(&own) {
            true => own.exists(),
            false => !has_agents && path.parent().is_some_and(Path::exists),
        };
        is_reached && is_missing(path)
    })
}

/// The real path, if it is strictly inside the trial's directory: links resolved, except a last
/// one.
pub fn inside(files: &StudyFiles, trial: TrialNumber, path: &Path) -> Option<PathBuf> {
    let root = fs::canonicalize(files.root()).ok()?;
    let own = fs::canonicalize(files.trial(trial)).ok()?;
    // The trial's directory itself must not be a link.
    if own != root.join(files.name()).join(format!("trial-{trial}")) {
        return None;
    }
    let real = real_place(path)?;
    (real.starts_with(&own) && real != own).then_some(real)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runner::fixtures;
    use crate::study::program::Program;
    use std::os::unix::fs::symlink;

    const TRIAL: TrialNumber = TrialNumber(1);

    struct Site(tempfile::TempDir, StudyFiles);

    impl Site {
        fn new() -> Self {
            let directory = tempfile::tempdir().unwrap();
            let store = directory.path().join("hpsearch.db");
            let files = StudyFiles::of(&fixtures::spec(Program::Inline), None, &store);
            fs::create_dir_all(files.trial(TRIAL).join("checkpoints")).unwrap();
            Site(directory, files)
        }

        /// A path in the directory of the trial.
        fn own(&self, path: &str) -> PathBuf {
            self.1.trial(TRIAL).join(path)
        }

        fn remove(&self, path: &Path, listed: &[&Path]) {
            Remover::new(vec![self.1.clone()]).remove(TRIAL, path, listed.iter().copied());
        }
    }

    fn plant(path: PathBuf) -> PathBuf {
        fs::create_dir_all(&path).unwrap();
        fs::write(path.join("weights"), "7").unwrap();
        path
    }

    #[test]
    fn only_what_lies_inside_the_trials_own_directory_is_removed() {
        let site = Site::new();
        let Site(directory, files) = &site;
        let own = plant(site.own("checkpoints/a"));
        let of_another = plant(files.trial(TrialNumber(0)).join("checkpoints/a"));
        let elsewhere = plant(directory.path().join("mine"));
        for path in [
            &of_another,
            &elsewhere,
            &site.own("../trial-0/checkpoints/a"),
            &site.own(""),
            &site.own(".."),
            &files.directory(),
            files.root(),
            directory.path(),
            Path::new("/"),
            Path::new(""),
        ] {
            site.remove(path, &[]);
        }
        assert!([&own, &of_another, &elsewhere].iter().all(|path| path.join("weights").exists()));
        site.remove(&own, &[]);
        assert!(!own.exists());
    }

    #[test]
    fn a_copy_goes_with_the_directories_that_held_it_alone() {
        let site = Site::new();
        let copies = site.1.copies(TRIAL);
        let [first, second] =
            ["step-1", "step-2"].map(|step| plant(copies.join(step).join("checkpoints/last")));
        site.remove(&first, &[&second]);
        assert!(!copies.join("step-1").exists() && second.exists());
        site.remove(&second, &[]);
        assert!(!copies.exists() && site.own("checkpoints").exists());
    }

    #[test]
    fn what_holds_a_checkpoint_that_is_listed_stays() {
        let site = Site::new();
        let all = plant(site.own("checkpoints/a"));
        let file = all.join("weights");
        site.remove(&all, &[&file]);
        assert!(file.exists());
        site.remove(&file, &[]);
        assert!(!file.exists() && all.exists());
    }

    #[test]
    fn links_are_not_followed() {
        let site = Site::new();
        let directory = site.0.path();
        let (elsewhere, link) = (plant(directory.join("mine")), site.own("checkpoints/link"));
        symlink(&elsewhere, &link).unwrap();
        site.remove(&link.join("weights"), &[]);
        assert!(elsewhere.join("weights").exists(), "what lies behind a link is elsewhere");
        let holder = plant(site.own("checkpoints/b"));
        symlink(&elsewhere, holder.join("link")).unwrap();
        site.remove(&holder, &[]);
        site.remove(&link, &[]);
        assert!(!holder.exists() && !link.is_symlink() && elsewhere.join("weights").exists());
        // A trial's directory that is a link leads to other files.
        fs::remove_dir_all(site.own("")).unwrap();
        symlink(directory, site.1.trial(TRIAL)).unwrap();
        site.remove(&site.own("mine"), &[]);
        assert!(elsewhere.exists());
    }

    #[test]
    fn what_is_missing_was_removed_only_where_its_disk_is_there() {
        let site = Site::new();
        let Site(directory, files) = &site;
        let look = look_for_removed(&fixtures::spec(Program::Inline), files.clone());
        let (own, elsewhere) = (plant(site.own("out/a")), plant(directory.path().join("mine")));
        let on_another_disk = directory.path().join("disk/mine");
        let looked = || [&own, &elsewhere, &on_another_disk].map(|path| look(TRIAL, path));
        assert_eq!(looked(), [false; 3]);
        fs::remove_dir_all(site.own("out")).unwrap();
        fs::remove_dir_all(&elsewhere).unwrap();
        assert_eq!(looked(), [true, true, false]);
        fs::remove_dir_all(files.directory()).unwrap();
        assert_eq!(looked(), [false, true, false], "the trial's directory is gone as well");
    }

    #[test]
    fn nothing_is_removed_of_files_that_are_not_this_stores() {
        let site = Site::new();
        let own = plant(site.own("checkpoints/a"));
        Remover::new(Vec::new()).remove(TRIAL, &own, []);
        assert!(own.exists());
    }
}
