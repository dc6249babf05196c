//! Own files: what hpsearch wrote in a study's directory, and may remove with the study.

use std::fs::{self, FileType};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use super::disk::{disk_usage, name_of, numbered};
use super::drafts::{half_written_by, moved_from, take_away};
use super::ownership::{AGENTS_MARKER, MARK, OWN_FILES};
use super::protocol::CHECKPOINTS;
use crate::storage::paths::{ARTIFACTS, COPIES, DATA_CACHE};
use crate::storage::sqlite::{StoreAt, is_database, store_at};

/// The size of the smallest pages of SQLite.
const PAGE: u64 = 512;

/// Why something in a study's directory stays when the study's files are removed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kept {
    /// It is nothing that hpsearch writes there.
    NotWritten,
    /// This store is in it, or a file that may be one.
    HoldsStore(PathBuf),
    /// This directory in it has the mark of a store.
    HoldsMark(PathBuf),
    /// It is a symbolic link: nothing behind one is removed.
    Link,
    /// It cannot be read, for this reason.
    Unreadable(String),
}

/// The entries of a study's directory.
#[derive(Debug, Default)]
pub struct StudyDirectory {
    /// Those to remove with the study.
    pub own: Vec<PathBuf>,
    /// Disk usage of those.
    pub bytes: u64,
    /// Those that stay, by path. Tokenised data is in neither list.
    pub kept: Vec<(PathBuf, Kept)>,
    /// Whether there is anything else.
    has_more: bool,
}

impl StudyDirectory {
    /// Examines a study's directory, also one that was moved aside to be removed. Each directory in
    /// it is read once.
    pub fn read(directory: &Path) -> Self {
        let mut found = StudyDirectory::default();
        let is_data = name_of(directory) == Some(DATA_CACHE);
        // Its trials may have lost what tells them apart.
        let is_aside = moved_from(directory).is_some();
        let entries = listing(directory).unwrap_or_else(|why| {
            found.kept.push((directory.to_owned(), why));
            Vec::new()
        });
        for (entry, kind) in entries {
            if is_data && name_of(&entry).is_some_and(is_prepared_data) {
                found.has_more = true;
                continue;
            }
            match own_bytes(&entry, kind, is_aside) {
                Ok(bytes) => {
                    found.bytes += bytes;
                    found.own.push(entry);
                }
                Err(why) => found.kept.push((entry, why)),
            }
        }
        found
    }

    /// Removes a study's directory as a whole, or only what is hpsearch's there, its mark last, so
    /// that a kill leaves the directory to the store.
    ///
    /// # Errors
    /// The first of the system's; what can be removed is.
    pub fn remove(self, directory: &Path) -> io::Result<()> {
        // Something may have come since.
        let is_all = listing(directory).is_ok_and(|entries| entries.len() == self.own.len());
        if self.kept.is_empty() && !self.has_more && is_all {
            return take_away(directory);
        }
        let (marks, others): (Vec<_>, Vec<_>) =
            self.own.into_iter().partition(|path| name_of(path) == Some(MARK));
        let failed = others.iter().filter_map(|path| take_away(path).err());
        failed.reduce(|first, _| first).map_or(Ok(()), Err)?;
        marks.iter().try_for_each(fs::remove_file)
    }
}

/// Disk usage of an entry of a study's directory if it is hpsearch's, or why it stays.
fn own_bytes(entry: &Path, kind: FileType, is_aside: bool) -> Result<u64, Kept> {
    if kind.is_symlink() {
        return Err(Kept::Link);
    }
    let Some(name) = name_of(entry) else { return Err(Kept::NotWritten) };
    if kind.is_dir() && numbered(entry, "trial-").is_some() {
        return if is_aside { removable(entry) } else { removable_trial(entry) };
    }
    let is_own = match kind.is_dir() {
        true => is_draft(name),
        false => is_file_of_a_study(name) || is_draft(name),
    };
    if is_own { removable(entry) } else { Err(Kept::NotWritten) }
}

fn is_file_of_a_study(name: &str) -> bool {
    OWN_FILES.contains(&name) || name.starts_with(AGENTS_MARKER) || is_log_of_agent(name)
}

/// Whether it is the name of the log of an agent that Slurm started: `agent-JOB_TASK.log`.
fn is_log_of_agent(name: &str) -> bool {
    let ids = name.strip_prefix("agent-").and_then(|name| name.strip_suffix(".log"));
    let is_number = |text: &str| text.parse::<u64>().is_ok();
    ids.and_then(|ids| ids.split_once('_'))
        .is_some_and(|(job, task)| is_number(job) && is_number(task))
}

/// Whether it is the name of a draft of a trial's directory or of one of the study's own files.
pub fn is_draft(name: &str) -> bool {
    let is_of_trial = |name: &str| numbered(Path::new(name), "trial-").is_some();
    if let Some(moving) = name.strip_prefix('.').and_then(|name| name.strip_suffix(".moving")) {
        return is_of_trial(moving);
    }
    if half_written_by(name).is_some() {
        // What is removed may itself be a draft.
        let of = name[1..].rsplitn(3, '.').last().unwrap_or_default();
        return is_of_trial(of) || is_file_of_a_study(of) || is_draft(of);
    }
    let is_pid_between = |start: &str, end: &str| {
        let pid = name.strip_prefix(start).and_then(|rest| rest.strip_suffix(end));
        pid.is_some_and(|pid| pid.parse::<u32>().is_ok())
    };
    is_pid_between(&format!("{MARK}."), ".tmp") || is_pid_between("agents.", ".draft")
}

/// Whether it is the name of tokenised data or of a draft of it.
pub fn is_prepared_data(name: &str) -> bool {
    let draft = name.strip_prefix('.').filter(|_| half_written_by(name).is_some());
    is_digest(draft.and_then(|name| name.split('.').next()).unwrap_or(name))
}

/// Whether it is a digest in hexadecimal digits, as directories of tokenised data are named.
pub fn is_digest(name: &str) -> bool {
    name.len() == 32 && name.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Whether it is the name of something that hpsearch writes in a trial's directory.
fn is_of_a_trial(entry: &Path) -> bool {
    let Some(name) = name_of(entry) else { return false };
    ["params.json", CHECKPOINTS, COPIES, ARTIFACTS].contains(&name)
        || name.starts_with("attempt-") && name.ends_with(".log")
        || numbered(entry, "checkpoint-").is_some()
        || half_written_by(name).is_some()
}

/// Disk usage of a trial's directory, or why it stays: it is of no trial if it has something, but
/// nothing that hpsearch writes for one.
pub fn removable_trial(directory: &Path) -> Result<u64, Kept> {
    let entries = listing(directory)?;
    if !entries.is_empty() && !entries.iter().any(|(entry, _)| is_of_a_trial(entry)) {
        return Err(Kept::NotWritten);
    }
    directory_bytes(directory, entries)
}

/// Disk usage of a file or a directory, or the store or mark in it for which all of it stays. Links
/// are not followed, and each directory is read once.
pub fn removable(path: &Path) -> Result<u64, Kept> {
    match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_dir() => directory_bytes(path, listing(path)?),
        Ok(metadata) if metadata.is_file() && holds_store(path, metadata.len()) => {
            Err(Kept::HoldsStore(path.to_owned()))
        }
        Ok(metadata) => Ok(disk_usage(&metadata)),
        // It is not there.
        Err(_) => Ok(0),
    }
}

fn directory_bytes(directory: &Path, mut entries: Vec<(PathBuf, FileType)>) -> Result<u64, Kept> {
    if entries.iter().any(|(entry, _)| name_of(entry) == Some(MARK)) {
        return Err(Kept::HoldsMark(directory.to_owned()));
    }
    // Files first: a store is found before directories are read.
    entries.sort_by_key(|(_, kind)| kind.is_dir());
    let own = fs::symlink_metadata(directory).map_or(0, |metadata| disk_usage(&metadata));
    entries.iter().try_fold(own, |bytes, (entry, _)| Ok(bytes + removable(entry)?))
}

/// The entries of a directory by name, with what they are; none if it is not there. One that is not
/// read to its end may have anything in it.
fn listing(directory: &Path) -> Result<Vec<(PathBuf, FileType)>, Kept> {
    let is_gone = |error: &io::Error| error.kind() == ErrorKind::NotFound;
    let unreadable = |error: io::Error| Kept::Unreadable(error.to_string());
    let entries = match fs::read_dir(directory) {
        Err(error) if is_gone(&error) => return Ok(Vec::new()),
        entries => entries.map_err(unreadable)?,
    };
    let mut listed = Vec::new();
    for entry in entries {
        let entry = entry.map_err(unreadable)?;
        match entry.file_type() {
            Err(error) if is_gone(&error) => {}
            kind => listed.push((entry.path(), kind.map_err(unreadable)?)),
        }
    }
    listed.sort_by(|(one, _), (other, _)| one.cmp(other));
    Ok(listed)
}

/// Whether a file of this length is a store, or may be one.
fn holds_store(path: &Path, length: u64) -> bool {
    // The smallest page of a database.
    if length < PAGE {
        return false;
    }
    match is_database(path) {
        Ok(is_database) => is_database && store_at(path) != StoreAt::Nothing,
        // One that cannot be read may be one if its length is that of pages.
        Err(error) => error.kind() != ErrorKind::NotFound && length.is_multiple_of(PAGE),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::sqlite::SqliteStore;

    #[test]
    fn a_study_takes_along_what_hpsearch_wrote_and_nothing_else() {
        let site = tempfile::tempdir().unwrap();
        let study = site.path().join("s");
        let file = |below: &str| {
            let path = study.join(below);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "x").unwrap();
        };
        let own = [
            ".hpsearch-store",
            ".hpsearch-store.12.tmp",
            "run.log",
            "agents.json",
            "agents.12.draft",
            ".agents-0123456789abcdef",
            "agent-12_3.log",
            "trial-0/attempt-0.log",
            "trial-1/checkpoint-3/weights",
            ".trial-2.99-gc.tmp/weights",
            ".trial-3.moving/weights",
            "..agents-0123456789abcdef.99-gc.tmp",
            ".agents.12.draft.99-gc.tmp",
            "..trial-3.moving.99-gc.tmp/weights",
        ];
        let others = [
            "notes.txt",
            "mine/attempt-0.log",
            "trial-4/notes.txt",
            "trial-05/attempt-0.log",
            "agents.x.draft",
            "agent-mine.log",
            ".notes.99-gc.tmp",
            "trial-6",
            "trial-7/attempt-0.log",
            "trial-7/nest/t/.hpsearch-store",
            "trial-8/attempt-0.log",
        ];
        own.into_iter().chain(others).for_each(file);
        let store = study.join("trial-8/checkpoints/mine.db");
        drop(SqliteStore::open(&store).unwrap());
        std::os::unix::fs::symlink(site.path(), study.join("trial-9")).unwrap();
        let found = StudyDirectory::read(&study);
        assert_eq!(found.own.len(), own.len(), "{found:?}");
        let kept = |name: &str| {
            let path = study.join(name);
            found.kept.iter().find(|(kept, _)| *kept == path).map(|(_, why)| why.clone())
        };
        assert_eq!(kept("trial-4"), Some(Kept::NotWritten));
        assert_eq!(kept("trial-7"), Some(Kept::HoldsMark(study.join("trial-7/nest/t"))));
        assert_eq!(kept("trial-8"), Some(Kept::HoldsStore(store)));
        assert_eq!(kept("trial-9"), Some(Kept::Link));
        assert!(matches!(removable_trial(&study.join("notes.txt")), Err(Kept::Unreadable(_))));
        StudyDirectory::read(&study).remove(&study).unwrap();
        let left = StudyDirectory::read(&study);
        assert_eq!((left.own.len(), left.kept), (0, found.kept));
    }

    #[test]
    fn tokenised_data_is_no_studys() {
        let site = tempfile::tempdir().unwrap();
        let data = site.path().join("data");
        for below in ["0123456789abcdef0123456789abcdef", "trial-0/checkpoints"] {
            fs::create_dir_all(data.join(below)).unwrap();
        }
        let found = StudyDirectory::read(&data);
        assert_eq!((found.own, found.kept), (vec![data.join("trial-0")], Vec::new()));
    }
}
