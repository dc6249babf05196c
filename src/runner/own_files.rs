//! Own files: what hpsearch wrote in a study's directory, and may remove with the study.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::disk::{entries, is_directory, name_of, numbered, size};
use super::drafts::{half_written_by, moved_from, take_away};
use super::ownership::{AGENTS_MARKER, MARK, OWN_FILES};
use super::protocol::CHECKPOINTS;
use crate::storage::paths::{ARTIFACTS, COPIES, DATA_CACHE};
use crate::storage::sqlite::{StoreAt, is_database, store_at};

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
}

/// The entries of a study's directory.
#[derive(Debug, Default)]
pub struct StudyDirectory {
    /// Those to remove with the study.
    pub own: Vec<PathBuf>,
    /// Those that stay, by path. Tokenised data is in neither list.
    pub kept: Vec<(PathBuf, Kept)>,
}

impl StudyDirectory {
    /// Examines a study's directory, also one that was moved aside to be removed.
    pub fn read(directory: &Path) -> Self {
        let mut found = StudyDirectory::default();
        let is_data = name_of(directory) == Some(DATA_CACHE);
        // Its trials may have lost what tells them apart.
        let is_aside = moved_from(directory).is_some();
        for entry in entries(directory) {
            if is_data && name_of(&entry).is_some_and(is_prepared_data) {
                continue;
            }
            match why_kept(&entry, is_aside) {
                None => found.own.push(entry),
                Some(why) => found.kept.push((entry, why)),
            }
        }
        found.kept.sort();
        found
    }

    /// Disk usage of what is removed.
    pub fn bytes(&self) -> u64 {
        self.own.iter().map(|path| size(path)).sum()
    }
}

/// Why an entry of a study's directory stays; `None` if it is hpsearch's.
fn why_kept(entry: &Path, is_aside: bool) -> Option<Kept> {
    if entry.is_symlink() {
        return Some(Kept::Link);
    }
    let Some(name) = name_of(entry) else { return Some(Kept::NotWritten) };
    let is_own = match is_directory(entry) {
        true if numbered(entry, "trial-").is_some() => is_aside || is_of_a_trial(entry),
        true => is_draft(name),
        false => OWN_FILES.contains(&name) || name.starts_with(AGENTS_MARKER) || is_draft(name),
    };
    if is_own { kept_in(entry) } else { Some(Kept::NotWritten) }
}

/// Whether it is the name of a draft of a trial's directory or of one of the study's own files.
pub fn is_draft(name: &str) -> bool {
    let is_of_trial = |name: &str| numbered(Path::new(name), "trial-").is_some();
    if let Some(moving) = name.strip_prefix('.').and_then(|name| name.strip_suffix(".moving")) {
        return is_of_trial(moving);
    }
    if half_written_by(name).is_some() {
        let of = name[1..].rsplitn(3, '.').last().unwrap_or_default();
        return is_of_trial(of) || OWN_FILES.contains(&of);
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

/// Whether a directory has anything that hpsearch writes for a trial, or nothing at all.
pub fn is_of_a_trial(directory: &Path) -> bool {
    let of_trial = |entry: &PathBuf| {
        let Some(name) = name_of(entry) else { return false };
        ["params.json", CHECKPOINTS, COPIES, ARTIFACTS].contains(&name)
            || name.starts_with("attempt-") && name.ends_with(".log")
            || numbered(entry, "checkpoint-").is_some()
            || half_written_by(name).is_some()
    };
    let mut all = entries(directory).peekable();
    all.peek().is_none() || all.any(|entry| of_trial(&entry))
}

/// A store or a mark at a path or below it, for which all of it stays. Links are not followed.
pub fn kept_in(path: &Path) -> Option<Kept> {
    if !is_directory(path) {
        return holds_store(path).then(|| Kept::HoldsStore(path.to_owned()));
    }
    if path.join(MARK).symlink_metadata().is_ok() {
        return Some(Kept::HoldsMark(path.to_owned()));
    }
    let (mut directories, mut files): (Vec<_>, Vec<_>) =
        entries(path).partition(|entry| is_directory(entry));
    directories.sort();
    files.sort();
    files.iter().chain(&directories).find_map(|entry| kept_in(entry))
}

/// Whether a file is a store, or may be one.
fn holds_store(path: &Path) -> bool {
    let file = fs::symlink_metadata(path).ok().filter(fs::Metadata::is_file);
    let Some(length) = file.map(|file| file.len()).filter(|length| *length > 0) else {
        return false;
    };
    match is_database(path) {
        Ok(is_database) => is_database && store_at(path) != StoreAt::Nothing,
        // One that cannot be read may be one if its length is that of pages.
        Err(error) => error.kind() != ErrorKind::NotFound && length.is_multiple_of(512),
    }
}

/// Removes a study's directory as a whole, or only what is hpsearch's there, its mark last, so that
/// a kill leaves the directory to the store. Returns whether all of that went.
pub fn remove_study_directory(directory: &Path) -> bool {
    let StudyDirectory { own, .. } = StudyDirectory::read(directory);
    if entries(directory).count() == own.len() {
        return take_away(directory);
    }
    let (marks, others): (Vec<_>, Vec<_>) =
        own.into_iter().partition(|path| name_of(path) == Some(MARK));
    let failed = others.iter().filter(|path| !take_away(path)).count();
    failed == 0 && marks.iter().all(|mark| fs::remove_file(mark).is_ok())
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
            "trial-0/attempt-0.log",
            "trial-1/checkpoint-3/weights",
            ".trial-2.99-gc.tmp/weights",
            ".trial-3.moving/weights",
        ];
        let others = [
            "notes.txt",
            "mine/attempt-0.log",
            "trial-4/notes.txt",
            "trial-05/attempt-0.log",
            "agents.x.draft",
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
        assert!(remove_study_directory(&study));
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
