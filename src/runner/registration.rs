//! Registers the checkpoints that trials announce: validation, paths, sizes and copies.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use super::artifacts::Places;
use super::checkpoint_digest::checkpoint_digest;
use super::copies::{Copies, PlannedCopy, Trouble};
use super::ownership::MARK;
use super::removal::inside;
use super::{disk, threads};
use crate::config::file;
use crate::runner::protocol::CHECKPOINTS;
use crate::storage::paths::StudyFiles;
use crate::study::trial::TrialNumber;

/// A checkpoint that cannot be examined within this time (a dead network mount) is rejected; one
/// that cannot be measured within it does not count.
const PATIENCE: Duration = Duration::from_secs(5);

/// Time to wait for another announcement where a concurrent write spoilt a copy.
const MOMENTS: Duration = Duration::from_millis(500);

/// Registers the checkpoints of one study's trials.
#[derive(Debug)]
pub(super) struct Registrar {
    files: StudyFiles,
    /// Paths that no checkpoint may contain, besides the directory of files.
    protected: Vec<PathBuf>,
    /// For commands; the built-in trainer never overwrites a checkpoint.
    copies: Option<Arc<Copies>>,
    patience: Duration,
    measure: fn(&Path) -> u64,
    /// Whether to compute digests: for pruners that copy checkpoints.
    digests: bool,
    /// Whether the directory of files had its store's mark when it was first looked at.
    was_marked: OnceLock<bool>,
}

/// A checkpoint as announced by its trial.
#[derive(Clone, Copy, Debug)]
pub(super) struct Announced<'a> {
    pub trial: TrialNumber,
    pub step: u64,
    /// The working directory of its process.
    pub cwd: &'a Path,
    /// An absolute path, or one relative to the trial's directory of checkpoints, which has
    /// precedence, or to `cwd`.
    pub path: &'a Path,
}

/// A registered checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Registered {
    /// Its path: as announced, or that of a copy.
    pub path: PathBuf,
    /// Its size on disk. `None`: not measured in time, or outside its trial's directory; then it is
    /// never removed and does not count towards `max_disk`.
    pub bytes: Option<u64>,
    /// Why a required copy is missing.
    pub uncopied: Option<String>,
    /// The digest of its content, if the registrar computes digests, or it is a small file.
    pub digest: Option<String>,
}

/// The result of the thread that examines a checkpoint.
type Look = Result<(ValidCheckpoint, Option<PlannedCopy>), String>;

impl Registrar {
    pub(super) fn new(files: StudyFiles, protected: Vec<PathBuf>, copies: Option<Copies>) -> Self {
        Registrar {
            files,
            protected,
            copies: copies.map(Arc::new),
            patience: PATIENCE,
            measure: disk::size,
            digests: false,
            was_marked: OnceLock::new(),
        }
    }

    /// The same with digests of checkpoints, if `digests`.
    pub(super) fn with_digests(self, digests: bool) -> Self {
        Registrar { digests, ..self }
    }

    /// Why nothing may be written to the directory of files: it had the mark of its store, and has
    /// it no more, since it was moved or deleted, or its disk is away. In another one of its name
    /// files would have no owner.
    pub(super) fn gone(&self) -> Option<String> {
        let directory = self.files.directory();
        // Only what is certainly not there is gone.
        let is_marked = directory.join(MARK).try_exists().unwrap_or(true);
        if !*self.was_marked.get_or_init(|| is_marked) || is_marked {
            return None;
        }
        Some(format!(
            "`{}`, where the files of the study's trials are, was moved or deleted while it ran: \
             put it back",
            directory.display()
        ))
    }

    /// The directories for artifacts of a trial; `cwd` is its working directory.
    pub(super) fn artifact_places(&self, trial: TrialNumber, cwd: &Path) -> Places {
        let own = self.files.trial(trial).join(CHECKPOINTS);
        let looked_for = vec![own, cwd.to_owned()];
        Places { looked_for, copies: self.files.artifacts(trial) }
    }

    /// Registers a checkpoint, copied if it may be overwritten, or says why not. `None`: by the
    /// time of the copy the path was announced for a later step (`is_announced_again`), which
    /// counts instead. Blocks on disk I/O.
    pub(super) fn register(
        &self,
        announced: Announced<'_>,
        mut is_announced_again: impl FnMut() -> bool,
    ) -> Result<Option<Registered>, String> {
        let Announced { trial, step, cwd, path } = announced;
        if path.as_os_str().is_empty() {
            return Err("its path is empty".to_owned());
        }
        let whole = cwd.join(path);
        // For an absolute path both are that path.
        let places = [self.files.trial(trial).join(CHECKPOINTS).join(path), whole.clone()]
            // A `/` or `/.` at the end of a link's path would be what it leads to.
            .map(|place| place.components().collect::<PathBuf>());
        let (files, protected, copies, measure) =
            (self.files.clone(), self.protected.clone(), self.copies.clone(), self.measure);
        let (found_tx, found_rx) = channel::<Look>();
        let (copied_tx, copied_rx) = channel();
        let (bytes_tx, bytes_rx) = channel();
        // On a separate thread, which may hang for ever.
        let spawned = threads::spawn("checkpoint", move || {
            let found = look(&files, &protected, trial, &places);
            let wanted = found.as_ref().ok().zip(copies.as_ref());
            let wanted = wanted.and_then(|(found, copies)| {
                copies.wanted(
                    &files.trial(trial),
                    files.copies(trial),
                    &found.path,
                    found.is_inside,
                    step,
                )
            });
            let mut counted =
                found.as_ref().ok().filter(|found| found.is_inside).map(|found| found.path.clone());
            let _receiver_timed_out = found_tx.send(found.map(|found| (found, wanted.clone())));
            if let Some((wanted, copies)) = wanted.zip(copies) {
                let taken = copies.take(&wanted);
                counted = taken.as_ref().ok().cloned().or(counted);
                // The next run cleans up a copy that arrives too late.
                let _receiver_timed_out = copied_tx.send(taken);
            }
            let measured = counted.map(|path| (measure(&path), small_digest(&path)));
            let _receiver_timed_out = bytes_tx.send(measured);
        });
        spawned.map_err(|error| format!("`{}` could not be examined: {error}", whole.display()))?;
        let (place, seconds) = (whole.display(), self.patience.as_secs());
        let late = |_| format!("`{place}` could not be examined within {seconds} s");
        let (ValidCheckpoint { path, .. }, wanted) =
            found_rx.recv_timeout(self.patience).map_err(late)??;
        let (path, uncopied) = match (wanted, &self.copies) {
            (Some(_), Some(copies)) => match copied_rx
                .recv_timeout(copies.patience() + self.patience)
            {
                Ok(Ok(copy)) if is_announced_again() => {
                    // If removal fails, the next run removes it.
                    let _removed_later = copy
                        .ancestors()
                        .find(|path| path.parent() == Some(&self.files.copies(trial)))
                        .map(fs::remove_dir_all);
                    return Ok(None);
                }
                Ok(Ok(copy)) => (copy, None),
                Ok(Err(Trouble::Refused(why))) => (path, Some(why)),
                Ok(Err(Trouble::Changed)) if is_soon(is_announced_again) => return Ok(None),
                Ok(Err(Trouble::Changed)) => {
                    return Err(CHANGED.replace("{}", &path.display().to_string()));
                }
                Err(_) => (
                    path,
                    Some(format!("it could not be read within {} s", copies.patience().as_secs())),
                ),
            },
            _ => (path, None),
        };
        let (bytes, digest) = bytes_rx.recv_timeout(self.patience).ok().flatten().unzip();
        let bytes = bytes.filter(|bytes| *bytes > 0);
        // Read completely, however long that takes: a decision depends on it.
        let digest = if self.digests { checkpoint_digest(&path) } else { digest.flatten() };
        Ok(Some(Registered { path, bytes, uncopied, digest }))
    }
}

/// The digest of a checkpoint that is a small file, by which an export knows that it is unchanged.
fn small_digest(path: &Path) -> Option<String> {
    let metadata = fs::symlink_metadata(path).ok()?;
    (metadata.is_file() && metadata.len() <= SMALL).then(|| checkpoint_digest(path)).flatten()
}

/// Whether an announcement follows within the next moments.
fn is_soon(mut is_announced: impl FnMut() -> bool) -> bool {
    let until = Instant::now() + MOMENTS;
    loop {
        if is_announced() {
            return true;
        }
        if Instant::now() >= until {
            return false;
        }
        std::thread::sleep(MOMENTS / 20);
    }
}

/// About a checkpoint that was written to while it was copied.
const CHANGED: &str = "`{}` was written to while it was copied, by its trial or by another that \
    shares the path (a trial that \
                       writes it again reads the answer to the report of its step first, or puts \
                       the step into its name)";

/// Files up to this size have digests in every study.
const SMALL: u64 = 16 << 20;

/// A valid checkpoint.
struct ValidCheckpoint {
    path: PathBuf,
    /// Whether it lies in its trial's directory.
    is_inside: bool,
}

fn look(
    files: &StudyFiles,
    protected: &[PathBuf],
    trial: TrialNumber,
    places: &[PathBuf; 2],
) -> Result<ValidCheckpoint, String> {
    let is_there = |path: &&PathBuf| fs::symlink_metadata(path).is_ok();
    let Some(path) = places.iter().find(is_there) else {
        let [own, whole] = places.each_ref().map(|place| place.display());
        let or = if places[0] == places[1] { String::new() } else { format!(", nor `{own}`") };
        return Err(format!("there is no `{whole}`{or}"));
    };
    let kind = match fs::metadata(path) {
        Ok(metadata) => metadata.file_type(),
        Err(error) => return Err(format!("`{}` leads nowhere: {error}", path.display())),
    };
    if !kind.is_file() && !kind.is_dir() {
        return Err(format!(
            "`{}` is {}, and a checkpoint is a file or a directory",
            path.display(),
            file::what(kind)
        ));
    }
    let own = files.trial(trial);
    let inside = inside(files, trial, path);
    // A link in the trial's directory may lead anywhere.
    let is_elsewhere = inside.is_none() || path.is_symlink();
    if is_elsewhere && let Ok(real) = fs::canonicalize(path) {
        check_place(path, &real, files, protected)?;
    }
    if let Some(real) = inside {
        let canonical = fs::canonicalize(&own).ok();
        // Paths through links or `..` are stored in canonical form.
        let path = canonical
            .and_then(|own_real| Some(own.join(real.strip_prefix(own_real).ok()?)))
            .unwrap_or_else(|| path.to_owned());
        return Ok(ValidCheckpoint { path, is_inside: true });
    }
    Ok(ValidCheckpoint { path: path.to_owned(), is_inside: false })
}

/// Refuses a checkpoint, `real` with links resolved, that holds more than a checkpoint.
fn check_place(
    path: &Path,
    real: &Path,
    files: &StudyFiles,
    protected: &[PathBuf],
) -> Result<(), String> {
    let refused = |why: &str| {
        let path = path.display();
        Err(format!("`{path}` {why}, and a checkpoint is a file or a directory of its own"))
    };
    // What the path is, or leads to.
    let is = if path.is_symlink() { "is a link to" } else { "is" };
    if real.parent().is_none() {
        return refused(&format!("{is} the root of the file system"));
    }
    if is_mount_point(real) {
        return refused(&format!("{is} where a file system is mounted"));
    }
    let directory = files.directory();
    let mut protected = protected.iter().map(PathBuf::as_path).chain([files.root(), &directory]);
    let held =
        protected.find(|held| fs::canonicalize(held).is_ok_and(|held| held.starts_with(real)));
    match held {
        Some(held) if path.is_symlink() => {
            refused(&format!("is a link to a directory that holds `{}`", held.display()))
        }
        Some(held) => refused(&format!("holds `{}`", held.display())),
        None => Ok(()),
    }
}

fn is_mount_point(path: &Path) -> bool {
    let (Ok(own), Some(Ok(above))) = (fs::metadata(path), path.parent().map(fs::metadata)) else {
        return false;
    };
    own.is_dir() && (own.dev() != above.dev() || own.ino() == above.ino())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::runner::fixtures;
    use crate::study::program::Program;

    const TRIAL: TrialNumber = TrialNumber(2);

    struct Site {
        directory: tempfile::TempDir,
        files: StudyFiles,
        registrar: Registrar,
    }

    impl Site {
        fn new() -> Self {
            let directory = tempfile::tempdir().unwrap();
            let store = directory.path().join("runs/hpsearch.db");
            let files = StudyFiles::of(&fixtures::spec(Program::Inline), None, &store);
            fs::create_dir_all(files.trial(TRIAL).join("checkpoints")).unwrap();
            fs::write(&store, "store").unwrap();
            let registrar = Registrar::new(files.clone(), vec![store], None);
            Site { directory, files, registrar }
        }

        fn register(&self, path: impl AsRef<Path>) -> Result<Registered, String> {
            let (cwd, path) = (self.directory.path(), path.as_ref());
            let announced = Announced { trial: TRIAL, step: 1, cwd, path };
            self.registrar.register(announced, || false).map(Option::unwrap)
        }

        /// A file in the working directory.
        fn write(&self, name: &str) -> PathBuf {
            let path = self.directory.path().join(name);
            fs::write(&path, "weights").unwrap();
            path
        }

        /// One in the trial's directory of checkpoints.
        fn write_own(&self, name: &str) -> PathBuf {
            let path = self.files.trial(TRIAL).join("checkpoints").join(name);
            fs::write(&path, "weights").unwrap();
            path
        }
    }

    #[test]
    fn what_lies_in_the_trials_directory_counts_and_what_lies_elsewhere_does_not() {
        let site = Site::new();
        let own = site.write_own("a");
        let taken = site.register(&own).unwrap();
        assert_eq!(taken.path, own);
        assert!(taken.bytes.is_some_and(|bytes| bytes > 0) && taken.digest.is_some());
        let roundabout = site.files.trial(TRIAL).join("../trial-2/checkpoints/a");
        assert_eq!(site.register(roundabout), Ok(taken));
        let mine =
            Registered { path: site.write("mine"), bytes: None, uncopied: None, digest: None };
        assert_eq!(site.register("mine"), Ok(mine));
        // A relative path is resolved in the trial's own directory first, and a missing file is
        // rejected.
        assert_eq!(site.register("a").unwrap().path, own);
        assert!(site.register("b").unwrap_err().contains("there is no `"));
        // The trial from which it started keeps its own.
        let of_another = site.files.trial(TrialNumber(0)).join("checkpoints");
        fs::create_dir_all(&of_another).unwrap();
        assert_eq!(site.register(&of_another).unwrap().bytes, None);
    }

    #[test]
    fn what_a_command_may_write_over_is_copied_and_the_copy_counts() {
        let mut site = Site::new();
        site.registrar.copies = Some(Arc::new(Copies::new(None)));
        let last = site.write_own("last.pt");
        let first = site.register("last.pt").unwrap();
        let copies = site.files.copies(TRIAL);
        assert_eq!(first.path, copies.join("step-1/checkpoints/last.pt"));
        assert!(first.bytes.is_some_and(|bytes| bytes > 0));
        fs::write(&last, "other").unwrap();
        assert_eq!(fs::read_to_string(&first.path).unwrap(), "weights");
        // Announced again by then: the copy's step is unknown.
        let (cwd, path) = (site.directory.path(), Path::new("last.pt"));
        let announced = Announced { trial: TRIAL, step: 2, cwd, path };
        assert_eq!(site.registrar.register(announced, || true), Ok(None));
        assert_eq!(fs::read_dir(&copies).unwrap().count(), 1);
        // A directory or file per step is not copied.
        let own = site.write_own("1.pt");
        assert_eq!(site.register("1.pt").unwrap().path, own);
        // A file outside may become another trial's.
        let outside = site.register(site.write("1.pt")).unwrap();
        assert_eq!(outside.path, copies.join("step-1-outside/1.pt"));
        // What cannot be copied is registered as it is, with a remark.
        site.registrar.copies = Some(Arc::new(Copies::new(Some(2))));
        let large = site.register("last.pt").unwrap();
        let is_said = large.uncopied.is_some_and(|why| why.contains("`max_disk`"));
        assert!(is_said && large.path == last || large.path.starts_with(copies));
    }

    #[test]
    fn what_takes_too_long_to_measure_is_taken_and_does_not_count() {
        fn slow(_: &Path) -> u64 {
            std::thread::sleep(Duration::from_secs(60));
            7
        }
        let mut site = Site::new();
        (site.registrar.patience, site.registrar.measure) = (Duration::from_millis(50), slow);
        let path = site.write_own("a");
        assert_eq!(
            site.register(&path),
            Ok(Registered { path, bytes: None, uncopied: None, digest: None })
        );
    }

    #[test]
    fn what_holds_more_than_a_checkpoint_is_refused() {
        let site = Site::new();
        for (path, why) in [
            (Path::new("/"), "root"),
            (Path::new("/proc"), "mounted"),
            (Path::new(""), "empty"),
            (site.directory.path(), "holds"),
            (Path::new("runs"), "holds"),
            (site.files.root(), "holds"),
            (Path::new("runs/hpsearch.db"), "holds"),
        ] {
            let refused = site.register(path).unwrap_err();
            assert!(refused.contains(why), "{path:?}: {refused}");
        }
    }

    #[test]
    fn a_link_in_the_trials_directory_is_no_way_around_it_and_counts_as_a_link() {
        let site = Site::new();
        let own = site.files.trial(TRIAL).join("checkpoints");
        let link = |name: &str, to: &Path| {
            let link = own.join(name);
            symlink(to, &link).unwrap();
            link
        };
        for (name, to, why) in [
            ("root", Path::new("/"), "is a link to the root"),
            ("proc", Path::new("/proc"), "is a link to where a file system is mounted"),
            ("all", site.directory.path(), "is a link to a directory that holds"),
            ("runs", site.files.root(), "is a link to a directory that holds"),
        ] {
            let link = link(name, to);
            for end in ["", "/", "/."] {
                let refused = site.register(format!("{}{end}", link.display())).unwrap_err();
                assert!(refused.contains(why), "{name}{end}: {refused}");
            }
        }
        let elsewhere = site.directory.path().join("disk/a");
        fs::create_dir_all(&elsewhere).unwrap();
        fs::write(elsewhere.join("weights"), vec![7; 1 << 20]).unwrap();
        let path = link("step-1", &elsewhere);
        let taken = site.register(&path).unwrap();
        assert_eq!(taken.path, path);
        assert!(taken.bytes.is_none_or(|bytes| bytes < 1 << 20), "what it leads to is not its own");
    }
}
