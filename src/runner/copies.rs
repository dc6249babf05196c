//! Copies of checkpoints that a command may overwrite: made at announcement, completely or not at
//! all.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs::{self, File, FileTimes, Metadata, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use crate::report::wording;
use crate::storage::paths::copy_name;
use crate::storage::sqlite::is_open_here;

/// Checkpoints that take longer to copy are not copied.
const PATIENCE: Duration = Duration::from_secs(60);

/// Two writes within this time may leave the same modification time: file systems use the kernel's
/// ticks.
const TICK: Duration = Duration::from_millis(20);

/// Size of a read.
const PIECE: usize = 1 << 20;

/// Maximum depth of directories.
const DEEPEST: usize = 64;

/// Maximum number of files and directories in a checkpoint.
const MOST: usize = 100_000;

/// Copies the checkpoints of one study.
#[derive(Debug)]
pub(super) struct Copies {
    max_disk: Option<u64>,
    patience: Duration,
    /// Paths announced with a step that is not in their name: their content changes.
    copied: Mutex<HashSet<PathBuf>>,
    /// The smallest size that took too long; `u64::MAX` if none did.
    too_large: AtomicU64,
}

/// A copy to make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PlannedCopy {
    source: PathBuf,
    /// The trial's directory of copies.
    copies: PathBuf,
    step: u64,
    /// Whether the original lies in its trial's directory.
    is_inside: bool,
    /// The copy's path below its own directory.
    below: PathBuf,
}

/// Why there is no copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Trouble {
    /// The checkpoint was written to meanwhile, so that its step is unknown.
    Changed,
    /// For this reason; the checkpoint itself is registered.
    Refused(String),
}

impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            // Replaced or removed a moment ago.
            io::ErrorKind::NotFound => Trouble::Changed,
            _ => Trouble::Refused(error.to_string()),
        }
    }
}

impl Copies {
    /// For a study with this `max_disk`.
    pub(super) fn new(max_disk: Option<u64>) -> Self {
        Copies {
            max_disk,
            patience: PATIENCE,
            copied: Mutex::default(),
            too_large: AtomicU64::new(u64::MAX),
        }
    }

    /// Time limit of a copy.
    pub(super) fn patience(&self) -> Duration {
        self.patience
    }

    /// Whether a checkpoint needs a copy. One in its trial's directory `own` whose name contains
    /// its step (`checkpoint-500/`, `12.pt`) is written once; `last.pt` is overwritten, and files
    /// outside may be written by other trials, too.
    pub(super) fn wanted(
        &self,
        own: &Path,
        copies: PathBuf,
        source: &Path,
        is_inside: bool,
        step: u64,
    ) -> Option<PlannedCopy> {
        let below = match source.strip_prefix(own) {
            Ok(below) if is_inside => {
                let mut copied = self.copied.lock().unwrap_or_else(PoisonError::into_inner);
                if !copied.contains(source) && below.iter().any(|part| names_step(part, step)) {
                    return None;
                }
                copied.insert(source.to_owned());
                below.to_owned()
            }
            _ => PathBuf::from(source.file_name().unwrap_or(OsStr::new("checkpoint"))),
        };
        Some(PlannedCopy { source: source.to_owned(), copies, step, is_inside, below })
    }

    /// Makes a copy: of each file a clone if the file system supports it (btrfs, XFS), else its
    /// bytes; never a hard link, which would be overwritten, too.
    pub(super) fn take(&self, wanted: &PlannedCopy) -> Result<PathBuf, Trouble> {
        let until = Instant::now() + self.patience;
        let tree = settled(&wanted.source)?;
        fs::create_dir_all(&wanted.copies)?;
        if fs::canonicalize(&wanted.copies)?.starts_with(fs::canonicalize(&wanted.source)?) {
            return Err(Trouble::Refused(format!(
                "it holds `{}`, where copies go",
                wanted.copies.display()
            )));
        }
        let draft = Draft::new(&wanted.copies, wanted.step)?;
        let root = draft.0.join(&wanted.below);
        fs::create_dir_all(root.parent().unwrap_or(&draft.0))?;
        let mut has_room = false;
        for entry in &tree.entries {
            let to =
                if entry.below == Path::new("") { root.clone() } else { root.join(&entry.below) };
            if entry.is_directory {
                fs::create_dir(&to)?;
                continue;
            }
            let from = wanted.source.join(&entry.below);
            let from = if entry.below == Path::new("") { &wanted.source } else { &from };
            let (mut from, mut to) = (open(from)?, File::create_new(&to)?);
            if rustix::fs::ioctl_ficlone(&to, &from).is_err() {
                if !std::mem::replace(&mut has_room, true) {
                    self.check_room(&wanted.copies, tree.bytes)?;
                }
                self.copy_bytes(&mut from, &mut to, until, tree.bytes)?;
            }
            seal(&from, &to)?;
        }
        if Tree::of(&wanted.source)? != tree {
            return Err(Trouble::Changed);
        }
        draft.place(wanted)
    }

    fn check_room(&self, directory: &Path, bytes: u64) -> Result<(), Trouble> {
        let takes = wording::bytes(bytes);
        if let Some(limit) = self.max_disk.filter(|limit| bytes > *limit) {
            let limit = wording::bytes(limit);
            return Err(Trouble::Refused(format!("it takes {takes}, and `max_disk` is {limit}")));
        }
        if bytes >= self.too_large.load(Ordering::Relaxed) {
            return Err(Trouble::Refused(format!(
                "copying one of its size ({takes}) takes longer than {} s",
                self.patience.as_secs()
            )));
        }
        let disk = rustix::fs::statvfs(directory).map_err(io::Error::from)?;
        let free = disk.f_bavail.saturating_mul(disk.f_frsize);
        // Requires twice the space, since the store needs room too.
        if free / 2 < bytes {
            let free = wording::bytes(free);
            return Err(Trouble::Refused(format!("it takes {takes}, and only {free} are free")));
        }
        Ok(())
    }

    fn copy_bytes(
        &self,
        from: &mut File,
        to: &mut File,
        until: Instant,
        all: u64,
    ) -> Result<(), Trouble> {
        let mut piece = vec![0; PIECE];
        loop {
            if Instant::now() >= until {
                self.too_large.fetch_min(all, Ordering::Relaxed);
                let seconds = self.patience.as_secs();
                let why = format!("copying it takes longer than {seconds} s");
                return Err(Trouble::Refused(why));
            }
            match from.read(&mut piece) {
                Ok(0) => return Ok(()),
                Ok(count) => to.write_all(&piece[..count])?,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// Opens a file for reading only. It may have become a FIFO, and the store's files must not be
/// opened directly.
fn open(path: &Path) -> Result<File, Trouble> {
    if is_open_here(path) {
        return Err(Trouble::Refused(format!(
            "`{}` belongs to the store that is in use",
            path.display()
        )));
    }
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(rustix::fs::OFlags::NONBLOCK.bits().cast_signed())
        .open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(Trouble::Changed) }
}

/// Copies mode and time of the original, and syncs to disk.
fn seal(from: &File, to: &File) -> io::Result<()> {
    let metadata = from.metadata()?;
    to.set_permissions(fs::Permissions::from_mode(metadata.mode() & 0o777))?;
    to.set_times(FileTimes::new().set_modified(metadata.modified()?))?;
    to.sync_all()
}

/// Whether a name contains the step as a separate number: `checkpoint-500`, `epoch_0003.pt`, `12`,
/// but neither `resnet50.pt` nor `loss-0.5.pt`.
fn names_step(name: &OsStr, step: u64) -> bool {
    let name = name.to_string_lossy();
    let is_number = |char: char| char.is_ascii_digit() || char == '.';
    let mut rest = &*name;
    let mut before = None;
    while let Some(start) = rest.find(is_number) {
        before = rest[..start].chars().last().or(before);
        let length = rest[start..].find(|char| !is_number(char)).unwrap_or(rest.len() - start);
        let (number, after) = rest[start..].split_at(length);
        let before_it = before.filter(|_| !number.starts_with('.'));
        let after_it = after.chars().next().filter(|_| !number.ends_with('.'));
        let is_own = !before_it.into_iter().chain(after_it).any(char::is_alphabetic);
        if is_own && number.trim_matches('.').parse() == Ok(step) {
            return true;
        }
        (before, rest) = (number.chars().last(), after);
    }
    false
}

/// The files of a checkpoint, with what detects writes to them.
#[derive(Debug, PartialEq, Eq)]
struct Tree {
    entries: Vec<TreeEntry>,
    /// Total of all files.
    bytes: u64,
}

#[derive(Debug, PartialEq, Eq)]
struct TreeEntry {
    /// Path relative to the checkpoint; empty for the checkpoint itself.
    below: PathBuf,
    is_directory: bool,
    /// Device and inode.
    identity: (u64, u64),
    /// For a file: what writing changes.
    written: Option<FileStamp>,
}

/// A file's size, mtime and ctime, in seconds and nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FileStamp {
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl TreeEntry {
    fn new(below: &Path, metadata: &Metadata) -> Self {
        let written = || FileStamp {
            size: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        };
        let is_directory = metadata.is_dir();
        TreeEntry {
            below: below.to_owned(),
            is_directory,
            identity: (metadata.dev(), metadata.ino()),
            written: (!is_directory).then(written),
        }
    }
}

impl Tree {
    /// Follows links, since their targets may be overwritten as well. Skips what is neither a file
    /// nor a directory.
    fn of(source: &Path) -> Result<Tree, Trouble> {
        let mut tree = Tree { entries: Vec::new(), bytes: 0 };
        tree.add(source, Path::new(""), &mut vec![], &fs::canonicalize(source)?)?;
        if tree.entries.is_empty() {
            return Err(Trouble::Refused("it is neither a file nor a directory".to_owned()));
        }
        Ok(tree)
    }

    /// Adds `path`, which lies in directories with the identities `above`; `root` is the checkpoint
    /// with links resolved.
    fn add(
        &mut self,
        path: &Path,
        below: &Path,
        above: &mut Vec<(u64, u64)>,
        root: &Path,
    ) -> Result<(), Trouble> {
        let is_link = below != Path::new("") && fs::symlink_metadata(path)?.is_symlink();
        let metadata = match fs::metadata(path) {
            Err(_) if is_link => return Ok(()),
            metadata => metadata?,
        };
        if is_link
            && metadata.is_dir()
            && fs::canonicalize(path).is_ok_and(|target| root.starts_with(target))
        {
            return Ok(());
        }
        let entry = TreeEntry::new(below, &metadata);
        if metadata.is_dir() {
            let identity = entry.identity;
            if above.contains(&identity) {
                return Ok(());
            }
            if above.len() >= DEEPEST || self.entries.len() >= MOST {
                return Err(Trouble::Refused(format!(
                    "it holds more than {MOST} files, or directories {DEEPEST} deep in each other"
                )));
            }
            self.entries.push(entry);
            above.push(identity);
            let mut names = fs::read_dir(path)?
                .map(|entry| Ok(entry?.file_name()))
                .collect::<io::Result<Vec<_>>>()?;
            names.sort();
            for name in names {
                self.add(&path.join(&name), &below.join(&name), above, root)?;
            }
            above.pop();
        } else if metadata.is_file() {
            self.bytes += metadata.len();
            self.entries.push(entry);
        }
        Ok(())
    }

    /// The last modification by the file system's clock.
    fn newest(&self) -> Option<SystemTime> {
        let (seconds, nanoseconds) = self
            .entries
            .iter()
            .filter_map(|entry| entry.written)
            .map(|written| written.changed)
            .max()?;
        let since = Duration::new(u64::try_from(seconds).ok()?, u32::try_from(nanoseconds).ok()?);
        SystemTime::UNIX_EPOCH.checked_add(since)
    }
}

/// A snapshot taken once further writes are distinguishable from the last.
fn settled(source: &Path) -> Result<Tree, Trouble> {
    let tree = Tree::of(source)?;
    let age = tree.newest().and_then(|newest| newest.elapsed().ok()).unwrap_or(TICK);
    if age >= TICK {
        return Ok(tree);
    }
    std::thread::sleep(TICK - age);
    Tree::of(source)
}

/// A copy in progress, removed unless completed. Its name contains the writer's process id, as
/// those of all drafts.
struct Draft(PathBuf);

impl Draft {
    fn new(copies: &Path, step: u64) -> io::Result<Draft> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let (name, pid) = (copy_name(step, true, 0), std::process::id());
        let path = copies.join(format!(".{name}.{pid}-{count}.tmp"));
        fs::create_dir(&path)?;
        Ok(Draft(path))
    }

    /// Renames it to a unique name.
    fn place(self, wanted: &PlannedCopy) -> Result<PathBuf, Trouble> {
        for place in 0..=u32::MAX {
            let to = wanted.copies.join(copy_name(wanted.step, wanted.is_inside, place));
            match fs::rename(&self.0, &to) {
                Ok(()) => return Ok(to.join(&wanted.below)),
                Err(error) => match error.kind() {
                    io::ErrorKind::DirectoryNotEmpty | io::ErrorKind::AlreadyExists => {}
                    _ => return Err(error.into()),
                },
            }
        }
        Err(Trouble::Refused("there is no name left for it".to_owned()))
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        // It no longer exists under this name once renamed; what cannot be removed is found by the
        // next run.
        let _in_its_place = fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn wanted(directory: &Path, source: &str, step: u64) -> Option<PlannedCopy> {
        let copies = Copies::new(None);
        copies.wanted(directory, directory.join("copies"), &directory.join(source), true, step)
    }

    fn taken(directory: &Path, source: &str, step: u64) -> PathBuf {
        Copies::new(None).take(&wanted(directory, source, step).unwrap()).unwrap()
    }

    #[test]
    fn a_name_with_its_step_is_written_once() {
        let names = |name: &str, step| names_step(OsStr::new(name), step);
        for name in
            "checkpoint-12 12 12.pt epoch_012.ckpt a.12.pt step=12-loss=0.5 0.5-12".split(' ')
        {
            assert!(names(name, 12), "{name}");
        }
        for name in
            "last.pt model12.pt 12b loss-0.12.pt 12.5 112 121 1.2.pt checkpoint-13".split(' ')
        {
            assert!(!names(name, 12), "{name}");
        }
    }

    #[test]
    fn a_path_that_was_announced_for_other_steps_is_copied_whatever_its_name() {
        let copies = Copies::new(None);
        let own = Path::new("/trial-1");
        let of = |step| {
            copies.wanted(own, own.join("copies"), &own.join("llama-3.pt"), true, step).is_some()
        };
        assert_eq!([of(1), of(2), of(3)], [true; 3]);
        let outside = copies
            .wanted(own, own.join("copies"), Path::new("/out/checkpoint-3"), false, 3)
            .unwrap();
        assert_eq!((outside.below, outside.is_inside), (PathBuf::from("checkpoint-3"), false));
    }

    #[test]
    fn a_copy_is_whole_and_its_own() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        fs::create_dir_all(root.join("last/inner")).unwrap();
        fs::write(root.join("last/inner/weights"), "one").unwrap();
        fs::write(root.join("beside"), "linked").unwrap();
        symlink("../beside", root.join("last/link")).unwrap();
        symlink(".", root.join("last/circle")).unwrap();
        symlink("..", root.join("last/inner/up")).unwrap();
        symlink("../..", root.join("last/inner/above")).unwrap();
        symlink("nowhere", root.join("last/dangling")).unwrap();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            root.join("last/fifo"),
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RWXU,
            0,
        )
        .unwrap();
        fs::set_permissions(root.join("last/inner/weights"), fs::Permissions::from_mode(0o640))
            .unwrap();
        let copy = taken(root, "last", 3);
        assert_eq!(copy, root.join("copies/step-3/last"));
        fs::write(root.join("last/inner/weights"), "two").unwrap();
        fs::write(root.join("beside"), "changed").unwrap();
        assert_eq!(fs::read_to_string(copy.join("inner/weights")).unwrap(), "one");
        assert_eq!(fs::read_to_string(copy.join("link")).unwrap(), "linked");
        assert_eq!(fs::metadata(copy.join("inner/weights")).unwrap().mode() & 0o777, 0o640);
        let mut names: Vec<_> =
            fs::read_dir(&copy).unwrap().flatten().map(|entry| entry.file_name()).collect();
        names.sort();
        assert_eq!(names, ["inner", "link"]);
        // Another copy of the same step is kept beside it, and no draft remains.
        assert_eq!(taken(root, "last", 3), root.join("copies/step-3-copy2/last"));
        assert_eq!(fs::read_dir(root.join("copies")).unwrap().count(), 2);
    }

    #[test]
    fn what_changes_while_it_is_copied_is_no_copy() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        fs::write(root.join("last.pt"), "one").unwrap();
        let before = settled(&root.join("last.pt")).ok().unwrap();
        assert!(Tree::of(&root.join("last.pt")).ok().unwrap() == before);
        // Same size, immediately: only waiting for the tick detects it.
        fs::write(root.join("last.pt"), "two").unwrap();
        assert!(Tree::of(&root.join("last.pt")).ok().unwrap() != before);
        let wanted = wanted(root, "last.pt", 1).unwrap();
        fs::remove_file(root.join("last.pt")).unwrap();
        assert_eq!(Copies::new(None).take(&wanted), Err(Trouble::Changed));
    }

    #[test]
    fn what_has_no_room_or_takes_too_long_is_not_copied_and_nothing_is_left() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        fs::write(root.join("last.pt"), "0123456789").unwrap();
        let wanted = wanted(root, "last.pt", 1).unwrap();
        let why = |copies: &Copies| match copies.take(&wanted) {
            Err(Trouble::Refused(why)) => why,
            other => panic!("{other:?}"),
        };
        // A clone takes neither space nor time.
        let hurried = || Copies { patience: Duration::ZERO, ..Copies::new(None) };
        if hurried().take(&wanted).is_ok() {
            return;
        }
        assert!(why(&Copies::new(Some(9))).contains("`max_disk`"));
        let hurried = hurried();
        assert!(why(&hurried).contains("takes longer"));
        assert!(why(&hurried).contains("one of its size"), "it is not tried again");
        assert!(fs::read_dir(root.join("copies")).unwrap().next().is_none());
        fs::create_dir_all(root.join("trial/copies")).unwrap();
        let of_all = PlannedCopy {
            source: root.join("trial"),
            copies: root.join("trial/copies"),
            step: 1,
            is_inside: false,
            below: "trial".into(),
        };
        let refused = Copies::new(None).take(&of_all);
        assert!(
            matches!(&refused, Err(Trouble::Refused(why)) if why.contains("where copies go")),
            "{refused:?}"
        );
    }
}
