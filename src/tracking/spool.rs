//! The spool of a logging program: a file of JSON lines that is read while the program appends.

use std::ffi::OsStr;
use std::fs::{DirEntry, File};
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, fcntl_lock, flock};
use rustix::io::Errno;
use rustix::process::{Flock, FlockType, fcntl_getlk};
use serde::Deserialize;
use serde_json::{Map, Value as Json};

use crate::runner::artifacts::clear_files_of_lines;
use crate::runner::protocol::quote_non_finite;
use crate::study::metric::Direction;
use crate::study::tracked::TrackedRun;

/// Prefix of the job of a run logged by a program; its id and its first spool follow.
pub(super) const JOB: &str = "python:";

/// The same for a program whose run another process has taken over.
pub(super) const REST_JOB: &str = "python-rest:";

/// Whether a run was logged to a spool.
pub(super) fn is_of_spool(run: &TrackedRun) -> bool {
    let job = run.job.as_deref().unwrap_or_default();
    job.starts_with(JOB) || job.starts_with(REST_JOB)
}

/// The extension of a spool.
pub(super) const SPOOL: &str = "jsonl";

/// The extension of the directory beside a spool with the files that its program made for lines.
pub(super) const FILES: &str = "files";

/// Removes such a directory, unless a spool of its run is there, whose lines may name what is in
/// it: a program whose descriptors were closed continues in another spool.
pub(super) fn remove_unneeded_files(directory: &Path) {
    let beside = directory.parent().map(std::fs::read_dir);
    let Some(Ok(Ok(beside))) =
        beside.map(|found| found.map(Iterator::collect::<io::Result<Vec<_>>>))
    else {
        // What cannot be listed may have one.
        return;
    };
    let mut spools = beside.iter().map(DirEntry::path).filter(|path| has_extension(path, SPOOL));
    if !spools.any(|spool| run_of(&spool) == run_of(directory)) {
        clear_files_of_lines(directory);
        // One with anything else in it stays.
        let _stays = std::fs::remove_dir(directory);
    }
}

/// Whether a path has this extension.
pub(super) fn has_extension(path: &Path, expected: &str) -> bool {
    path.extension().is_some_and(|extension| extension == expected)
}

/// The run of a spool or of the directory beside it, by its name: `RUN.PART.EXTENSION`.
fn run_of(path: &Path) -> Option<&OsStr> {
    Path::new(path.file_stem()?).file_stem()
}

/// The version of the format.
const VERSION: u64 = 1;

/// Bytes read at a time.
const PIECE: usize = 1 << 20;

/// The longest line.
const LONGEST_LINE: usize = 64 << 20;

/// The first line, which identifies the run. Keys of later versions are ignored.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Header {
    /// The version of the format.
    pub spool: u64,
    /// When the spool was begun, in microseconds.
    pub time: i64,
    /// The study; `None`: that of the directory.
    pub study: Option<String>,
    /// The requested name of the run.
    pub name: Option<String>,
    /// The run's id in its program.
    pub id: String,
    /// The id, name or number of the run to resume.
    pub resume: Option<String>,
    /// Whether that run must exist.
    #[serde(default)]
    pub known: Known,
    /// Its parameters.
    #[serde(default)]
    pub params: Map<String, Json>,
    /// Its tags.
    #[serde(default)]
    pub tags: Vec<String>,
    /// The working directory of the program.
    pub cwd: Option<PathBuf>,
    /// The name of the store's file, in the directory above the spool's; `None` from older clients,
    /// and of a store on a server.
    #[serde(default)]
    pub store: Option<String>,
    /// The group of the run.
    #[serde(default)]
    pub group: Option<String>,
    /// The parent run, by name or number.
    #[serde(default)]
    pub parent: Option<String>,
    /// The metric that a new study compares its runs by.
    #[serde(default)]
    pub metric: Option<String>,
    /// Whether smaller or larger values of it are better.
    #[serde(default)]
    pub direction: Option<Direction>,
    /// The words of the program.
    #[serde(default)]
    pub argv: Vec<String>,
    /// Its interpreter.
    #[serde(default)]
    pub python: Option<PathBuf>,
    /// The interpreter's package path.
    #[serde(default)]
    pub path: Vec<PathBuf>,
    /// The program's process id.
    pub pid: Option<u32>,
    /// Interval between measurements of its processes, `10s` or `off`.
    pub system: Option<String>,
}

impl Header {
    /// The same for a program that has ended, and would not be told that its run is refused: what
    /// it logged becomes a run of its own.
    pub fn without_demands(self) -> Self {
        let resume = self.resume.filter(|_| self.known != Known::Never);
        Header { resume, known: Known::Allow, ..self }
    }
}

/// Whether the run that a program names must exist.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Known {
    /// It begins if it does not exist.
    #[default]
    Allow,
    /// It must exist.
    Must,
    /// It must not exist.
    Never,
}

/// A later line.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum SpoolLine {
    /// A logged object, as a trial prints it after `@hpsearch`.
    Record {
        /// The object.
        record: Map<String, Json>,
        /// Its time in microseconds by the program's clock.
        time: Option<i64>,
    },
    /// The end of the run.
    Finish {
        /// `complete`, `failed` or `interrupted`.
        status: String,
        /// The reason of the end, in the program's words.
        message: Option<String>,
        /// Its time in microseconds by the program's clock.
        time: Option<i64>,
    },
    /// An unintelligible line.
    Unknown,
}

impl SpoolLine {
    /// Its time in microseconds by the program's clock.
    pub fn time(&self) -> Option<i64> {
        match self {
            SpoolLine::Record { time, .. } | SpoolLine::Finish { time, .. } => *time,
            SpoolLine::Unknown => None,
        }
    }
}

/// Why a spool cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum SpoolError {
    /// The file cannot be read.
    #[error("the spool `{}` cannot be read", .0.display())]
    Read(PathBuf, #[source] io::Error),
    /// The first line is not a header.
    #[error("the spool `{}` does not begin as a spool does: {why}", .path.display())]
    Header {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// A line is too long.
    #[error("a line of the spool `{}` is longer than {} MiB", .0.display(), LONGEST_LINE >> 20)]
    LongLine(PathBuf),
}

/// The lines of a spool from an offset on.
#[derive(Debug)]
pub(super) struct Spool {
    path: PathBuf,
    file: File,
    /// Where the next line begins.
    offset: u64,
}

impl Spool {
    /// Opens the file, at its beginning.
    pub fn open(path: &Path) -> Result<Self, SpoolError> {
        // An exclusive lock requires write access.
        let file = File::options().read(true).write(true).open(path);
        let file = file.or_else(|_| File::open(path));
        let file = file.map_err(|error| SpoolError::Read(path.to_owned(), error))?;
        Ok(Spool { path: path.to_owned(), file, offset: 0 })
    }

    /// Takes its lock, which the program holds until it exits, so that no other process adopts it
    /// meanwhile.
    pub fn lock(&self) {
        // On a file system without locks no process can adopt it either.
        let _without_locks = flock(&self.file, FlockOperation::LockExclusive);
    }

    /// Takes its lock if its program and other writers have ended.
    pub fn try_lock(&self) -> bool {
        flock(&self.file, FlockOperation::NonBlockingLockExclusive).is_ok()
    }

    /// Takes the writer's lock, which the system releases when this process exits; `false` if
    /// another process has it. It is independent of the program's lock, and is lost when this
    /// process closes any descriptor of the file, so no process opens it twice.
    pub fn lock_as_writer(&self) -> bool {
        let locked = fcntl_lock(&self.file, FlockOperation::NonBlockingLockExclusive);
        !matches!(locked, Err(Errno::AGAIN | Errno::ACCESS))
    }

    /// Whether another process has the writer's lock.
    pub fn has_writer(&self) -> bool {
        matches!(fcntl_getlk(&self.file, &Flock::from(FlockType::WriteLock)), Ok(Some(_)))
    }

    /// Where the next line begins.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Whether the file was removed after it was opened.
    pub fn is_removed(&self) -> bool {
        self.file.metadata().is_ok_and(|metadata| metadata.nlink() == 0)
    }

    /// The directory that it is in.
    pub fn directory(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new(""))
    }

    /// Its name without the suffix, which identifies it in the store.
    pub fn name(&self) -> String {
        self.path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default()
    }

    /// Continues at a line that begins there.
    pub fn seek(&mut self, offset: u64) {
        self.offset = offset;
    }

    /// The first line; `None` while it is incomplete.
    pub fn header(&mut self) -> Result<Option<Header>, SpoolError> {
        self.seek(0);
        let Some((line, end)) = self.lines()?.into_iter().next() else { return Ok(None) };
        let refused = |why: String| SpoolError::Header { path: self.path.clone(), why };
        let text = String::from_utf8_lossy(&line);
        let header: Header = serde_json::from_str(&quote_non_finite(&text))
            .map_err(|error| refused(error.to_string()))?;
        if header.spool != VERSION {
            return Err(refused(format!("version {}, not {VERSION}", header.spool)));
        }
        self.seek(end);
        Ok(Some(header))
    }

    /// Complete lines from here on, as many as one read returns, each with the offset of the next.
    /// An incomplete line is left.
    fn lines(&self) -> Result<Vec<(Vec<u8>, u64)>, SpoolError> {
        let mut size = PIECE;
        loop {
            let mut piece = Vec::new();
            self.read_piece(&mut piece, size)
                .map_err(|error| SpoolError::Read(self.path.clone(), error))?;
            let mut lines = Vec::new();
            let mut at = self.offset;
            for line in piece.split_inclusive(|byte| *byte == b'\n') {
                if let Some(line) = line.strip_suffix(b"\n") {
                    at += line.len() as u64 + 1;
                    lines.push((line.to_vec(), at));
                }
            }
            if !lines.is_empty() || piece.len() < size {
                return Ok(lines);
            }
            if size >= LONGEST_LINE {
                return Err(SpoolError::LongLine(self.path.clone()));
            }
            size *= 2;
        }
    }

    fn read_piece(&self, piece: &mut Vec<u8>, size: usize) -> io::Result<()> {
        piece.resize(size, 0);
        let mut filled = 0;
        while filled < size {
            match self.file.read_at(&mut piece[filled..], self.offset + filled as u64) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        piece.truncate(filled);
        Ok(())
    }

    /// The next lines, each with the offset of the following one. Does not advance; see
    /// [`Spool::seek`].
    pub fn next(&self) -> Result<Vec<(SpoolLine, u64)>, SpoolError> {
        Ok(self.lines()?.into_iter().map(|(line, end)| (read(&line), end)).collect())
    }
}

fn read(line: &[u8]) -> SpoolLine {
    #[derive(Deserialize)]
    struct RawLine {
        line: Option<Map<String, Json>>,
        time: Option<i64>,
        finish: Option<String>,
        message: Option<String>,
    }
    let text = String::from_utf8_lossy(line);
    match serde_json::from_str::<RawLine>(&quote_non_finite(&text)) {
        Ok(RawLine { line: Some(record), finish: None, time, .. }) => {
            SpoolLine::Record { record, time }
        }
        Ok(RawLine { line: None, finish: Some(status), message, time }) => {
            SpoolLine::Finish { status, message, time }
        }
        _ => SpoolLine::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runner::disk;

    const HEADER: &str = "{\"spool\":1,\"time\":5,\"study\":null,\"name\":\"a\",\"id\":\"x\",\
        \"resume\":null,\"params\":{\"lr\":NaN},\"tags\":[],\"cwd\":\"/\",\"later\":1}\n";

    fn spool(text: &str) -> (tempfile::NamedTempFile, Spool) {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        let spool = Spool::open(file.path()).unwrap();
        (file, spool)
    }

    #[test]
    fn a_line_without_its_end_is_read_when_it_has_one() {
        let (file, mut spool) = spool(&HEADER[..30]);
        assert!(spool.header().unwrap().is_none());
        let begun = "{\"time\":6,\"line\":{\"loss\":-Infinity}}\n{\"time\":7,\"fin";
        std::fs::write(file.path(), format!("{HEADER}{begun}")).unwrap();
        assert_eq!(spool.header().unwrap().unwrap().params["lr"], "NaN");
        let lines = spool.next().unwrap();
        assert_eq!(lines.len(), 1);
        let SpoolLine::Record { record, .. } = &lines[0].0 else { panic!("{lines:?}") };
        assert_eq!(record["loss"], "-Infinity");
        spool.seek(lines[0].1);
        assert_eq!(spool.next().unwrap(), []);
        std::fs::write(file.path(), format!("{HEADER}{begun}ish\":\"complete\"}}\n")).unwrap();
        let status = "complete".to_owned();
        let end = SpoolLine::Finish { status, message: None, time: Some(7) };
        assert_eq!(spool.next().unwrap()[0].0, end);
    }

    #[test]
    fn a_long_line_is_read_whole_and_garbage_is_passed_by() {
        let long = format!("{{\"line\":{{\"{}\":1}}}}", "x".repeat(3 * PIECE));
        let (_file, mut spool) = spool(&format!("{HEADER}{long}\n\u{0}\n[]\n{{}}\n"));
        spool.header().unwrap().unwrap();
        let mut lines = Vec::new();
        loop {
            let next = spool.next().unwrap();
            let Some((_, end)) = next.last() else { break };
            spool.seek(*end);
            lines.extend(next.into_iter().map(|(line, _)| line));
        }
        assert!(matches!(&lines[0], SpoolLine::Record { record, .. } if record.len() == 1));
        assert_eq!(lines[1..], [SpoolLine::Unknown, SpoolLine::Unknown, SpoolLine::Unknown]);
    }

    #[test]
    fn files_of_lines_are_removed_with_the_last_spool_of_their_run() {
        let site = tempfile::tempdir().unwrap();
        let path = |name: &str| site.path().join(name);
        for directory in ["x.1.files", "x.2.files", "y.1.files", "page.files"] {
            std::fs::create_dir(path(directory)).unwrap();
            std::fs::write(path(directory).join(".artifact-000000000001"), "").unwrap();
        }
        std::fs::write(path("page.files/page.css"), "").unwrap();
        for spool in ["x.2.jsonl", "xy.1.jsonl"] {
            std::fs::write(path(spool), "").unwrap();
        }
        let left = || {
            disk::entries(site.path()).filter(|path| has_extension(path, FILES)).for_each(|path| {
                remove_unneeded_files(&path);
            });
            let all = disk::entries(site.path()).filter(|path| has_extension(path, FILES));
            let mut names: Vec<_> =
                all.map(|path| disk::name_of(&path).unwrap().to_owned()).collect();
            names.sort();
            names
        };
        assert_eq!(left(), ["page.files", "x.1.files", "x.2.files"]);
        std::fs::remove_file(path("x.2.jsonl")).unwrap();
        assert_eq!(left(), ["page.files"]);
        assert!(path("page.files/page.css").exists());
    }

    #[test]
    fn what_is_no_spool_is_refused() {
        for text in ["x\n", "{}\n", &HEADER.replace("\"spool\":1", "\"spool\":2")] {
            let (_file, mut spool) = spool(text);
            assert!(matches!(spool.header(), Err(SpoolError::Header { .. })), "{text}");
        }
    }
}
