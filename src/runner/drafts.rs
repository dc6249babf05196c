//! Names of drafts: what was being written or removed when its process died, and by which.

use std::path::{Path, PathBuf};
use std::{fs, io};

use super::disk::{self, name_of};
use super::processes;

/// The name of the file of which this is a draft, `.checkpoint-3.4711-0.tmp`, and the process that
/// was writing it; `None` for other names.
fn parts(name: &str) -> Option<(&str, u32)> {
    let inner = name.strip_prefix('.')?;
    let inner = inner.strip_suffix(".tmp").or_else(|| inner.strip_suffix(".old"))?;
    let (own, process) = inner.rsplit_once('.')?;
    let (pid, count) = process.split_once('-')?;
    let is_count =
        count == GC || !count.is_empty() && count.bytes().all(|byte| byte.is_ascii_digit());
    let pid = pid.parse().ok().filter(|_| is_count)?;
    Some((own, pid))
}

/// The process that was writing a draft with this name; `None` for other names.
pub fn half_written_by(name: &str) -> Option<u32> {
    parts(name).map(|(_, pid)| pid)
}

/// The name of the file of which this is a draft.
pub fn draft_of(path: &Path) -> Option<&str> {
    name_of(path).and_then(parts).map(|(own, _)| own)
}

/// Whether it is the draft of a process that is dead.
pub fn is_of_dead_process(path: &Path) -> bool {
    let writer = name_of(path).and_then(half_written_by);
    writer.is_some_and(|pid| processes::start_time(pid).is_none())
}

/// Replaces the counter in the names of what `gc` has moved aside.
const GC: &str = "gc";

/// Whether `gc` has moved it aside.
pub fn was_moved_aside(name: &str) -> bool {
    half_written_by(name).is_some() && name.ends_with(&format!("-{GC}.tmp"))
}

/// The original path of something that `gc` has moved aside.
pub fn moved_from(path: &Path) -> Option<PathBuf> {
    name_of(path).filter(|name| was_moved_aside(name))?;
    Some(path.with_file_name(draft_of(path)?))
}

/// The place of something that `gc` has moved aside and not removed, by its original path; else
/// that path.
pub fn moved_to(path: &Path) -> PathBuf {
    let is_there = path.symlink_metadata().is_ok();
    let beside = path.parent().filter(|_| !is_there).into_iter().flat_map(disk::entries);
    let mut asides = beside.filter(|aside| moved_from(aside).as_deref() == Some(path));
    asides.next().unwrap_or_else(|| path.to_owned())
}

/// Moves it aside before removal, so that a kill leaves something half-written rather than
/// something that seems complete.
///
/// # Errors
/// The system's.
pub fn take_away(path: &Path) -> io::Result<()> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let aside = if half_written_by(&name).is_some() {
        path.to_owned()
    } else {
        path.with_file_name(format!(".{name}.{}-{GC}.tmp", std::process::id()))
    };
    if aside != path {
        fs::rename(path, &aside)?;
    }
    disk::remove(&aside)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runner::disk::numbered;

    #[test]
    fn names_tell_what_was_being_written_and_by_whom() {
        assert_eq!(half_written_by(".checkpoint-3.4711-0.tmp"), Some(4711));
        assert_eq!(half_written_by(".0123456789abcdef.99-12.old"), Some(99));
        assert_eq!(half_written_by(".checkpoint-3.77-gc.tmp"), Some(77));
        for own in [
            "checkpoint-3",
            ".hidden",
            "a.tmp",
            ".x.tmp",
            ".x.old",
            ".model.best.tmp",
            ".model.7.tmp",
            ".a.7-b.tmp",
        ] {
            assert_eq!(half_written_by(own), None, "{own}");
        }
        let trials = ["trial-12", "trial-012", "trial-x"];
        assert_eq!(trials.map(|name| numbered(Path::new(name), "trial-")), [Some(12), None, None]);
    }
}
