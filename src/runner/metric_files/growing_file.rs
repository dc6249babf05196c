//! Follows a file that another program writes.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::storage::sqlite::is_open_here;

/// Size of a read.
const PIECE: usize = 256 << 10;

/// Number of last bytes by which a file is recognised.
const TAIL: usize = 64;

/// The file at the first of several paths that exists; it may be replaced, truncated and removed at
/// any time.
#[derive(Debug)]
pub(super) struct GrowingFile {
    paths: Vec<PathBuf>,
    open: Option<Open>,
}

/// New content of a file.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct FileChunk {
    /// Whether it begins a new file, unrelated to earlier pieces.
    pub is_beginning: bool,
    /// The bytes; empty if nothing was written.
    pub bytes: Vec<u8>,
}

#[derive(Debug)]
struct Open {
    file: File,
    identity: (u64, u64),
    offset: u64,
    /// The bytes before `offset`.
    tail: Vec<u8>,
    /// Modification time, if everything up to `offset`, from an earlier attempt, was skipped.
    skipped_at: Option<SystemTime>,
}

impl GrowingFile {
    /// Reads from the beginning.
    pub fn from_start(path: PathBuf) -> Self {
        GrowingFile { paths: vec![path], open: None }
    }

    /// Reads only what is written from now on.
    pub fn from_end(paths: Vec<PathBuf>) -> Self {
        let mut growing = GrowingFile { paths, open: None };
        if let Ok(Some((path, metadata))) = growing.find()
            && let Ok(mut open) = Open::new(&path, &metadata)
        {
            // What cannot be skipped is read.
            growing.open = open.skip_to_end().is_ok().then_some(open);
        }
        growing
    }

    /// Reads more.
    ///
    /// # Errors
    /// Why the file cannot be read.
    pub fn read(&mut self) -> Result<FileChunk, String> {
        let found = self.find()?;
        let mut is_beginning = false;
        let identity = |open: &Open| open.identity;
        if let Some((path, metadata)) = found
            && self.open.as_ref().map(identity) != Some(identity_of(&metadata))
        {
            // First the rest of the file that was there before.
            if let Some(before) = &mut self.open {
                let bytes = before.read(&path)?;
                if !bytes.is_empty() {
                    return Ok(FileChunk { is_beginning: false, bytes });
                }
            }
            let mut open = Open::new(&path, &metadata)?;
            // A file that is rewritten with more content each time continues where it was.
            match self.open.take().filter(|before| open.begins_like(before)) {
                Some(before) => (open.offset, open.tail) = (before.offset, before.tail),
                None => is_beginning = true,
            }
            self.open = Some(open);
        }
        let Some(open) = &mut self.open else { return Ok(FileChunk::default()) };
        if open.is_rewritten() {
            (open.offset, open.tail, open.skipped_at) = (0, Vec::new(), None);
            is_beginning = true;
        }
        let bytes = open.read(&self.paths[0])?;
        Ok(FileChunk { is_beginning, bytes })
    }

    /// Whether there is, or was, a file.
    pub fn exists(&self) -> bool {
        self.open.is_some()
    }

    /// The paths, for a message.
    pub fn looked_for(&self) -> String {
        let paths: Vec<_> = self.paths.iter().map(|path| path.display().to_string()).collect();
        paths.join(" and ")
    }

    fn find(&self) -> Result<Option<(PathBuf, Metadata)>, String> {
        for path in &self.paths {
            match fs::metadata(path) {
                Ok(metadata) => return Ok(Some((path.clone(), metadata))),
                Err(error)
                    if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {}
                Err(error) => return Err(unreadable(path, &error)),
            }
        }
        Ok(None)
    }
}

impl Open {
    /// Does not block, as a pipe without a writer would.
    fn new(path: &Path, metadata: &Metadata) -> Result<Self, String> {
        is_file(path, metadata)?;
        if is_open_here(path) {
            return Err(format!("`{}` belongs to the store that is in use", path.display()));
        }
        let opened = OpenOptions::new()
            .read(true)
            .custom_flags(rustix::fs::OFlags::NONBLOCK.bits().cast_signed())
            .open(path);
        let file = opened.map_err(|error| unreadable(path, &error))?;
        let metadata = file.metadata().map_err(|error| unreadable(path, &error))?;
        is_file(path, &metadata)?;
        let identity = identity_of(&metadata);
        Ok(Open { file, identity, offset: 0, tail: Vec::new(), skipped_at: None })
    }

    fn skip_to_end(&mut self) -> std::io::Result<()> {
        let metadata = self.file.metadata()?;
        let mut tail = vec![0; TAIL.min(usize::try_from(metadata.len()).unwrap_or(TAIL))];
        let begin = metadata.len() - tail.len() as u64;
        self.file.read_exact_at(&mut tail, begin)?;
        (self.offset, self.tail) = (metadata.len(), tail);
        self.skipped_at = Some(metadata.modified()?);
        Ok(())
    }

    /// Whether this file has the same last bytes at the same position as another one.
    fn begins_like(&self, before: &Open) -> bool {
        before.offset > 0 && self.holds(&before.tail, before.offset)
    }

    fn holds(&self, tail: &[u8], end: u64) -> bool {
        let mut there = vec![0; tail.len()];
        self.file.read_exact_at(&mut there, end - tail.len() as u64).is_ok() && there == tail
    }

    /// Whether the content read so far is gone.
    fn is_rewritten(&self) -> bool {
        let Ok(metadata) = self.file.metadata() else { return false };
        if !self.holds(&self.tail, self.offset) {
            return true;
        }
        // Rewritten by an earlier attempt's program: appending would make it longer.
        self.skipped_at.is_some_and(|then| {
            metadata.len() == self.offset
                && metadata.modified().is_ok_and(|modified| modified != then)
        })
    }

    fn read(&mut self, path: &Path) -> Result<Vec<u8>, String> {
        let mut bytes = vec![0; PIECE];
        let count =
            self.file.read_at(&mut bytes, self.offset).map_err(|error| unreadable(path, &error))?;
        bytes.truncate(count);
        if count > 0 {
            self.skipped_at = None;
            self.offset += count as u64;
            self.tail.extend(&bytes[count.saturating_sub(TAIL)..]);
            self.tail.drain(..self.tail.len().saturating_sub(TAIL));
        }
        Ok(bytes)
    }
}

fn identity_of(metadata: &Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}

fn is_file(path: &Path, metadata: &Metadata) -> Result<(), String> {
    let kind = metadata.file_type();
    let what = match kind {
        _ if kind.is_file() => return Ok(()),
        _ if kind.is_dir() => "a directory",
        _ if kind.is_fifo() => "a pipe",
        _ => "not a regular file",
    };
    Err(format!("`{}` is {what}, where a file of metrics is expected", path.display()))
}

fn unreadable(path: &Path, error: &std::io::Error) -> String {
    format!("`{}` cannot be read: {error}", path.display())
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn text(file: &mut GrowingFile) -> (bool, String) {
        let piece = file.read().unwrap();
        (piece.is_beginning, String::from_utf8(piece.bytes).unwrap())
    }

    fn append(path: &Path, text: &str) {
        let mut file = OpenOptions::new().append(true).create(true).open(path).unwrap();
        file.write_all(text.as_bytes()).unwrap();
    }

    #[test]
    fn a_file_is_read_as_it_grows_and_from_the_start_when_it_is_another() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("late");
        let mut file = GrowingFile::from_start(path.clone());
        assert_eq!(text(&mut file), (false, String::new()));
        append(&path, "one\ntw");
        assert_eq!(text(&mut file), (true, "one\ntw".to_owned()));
        assert_eq!(text(&mut file), (false, String::new()));
        append(&path, "o\n");
        assert_eq!(text(&mut file), (false, "o\n".to_owned()));
        // Truncated; then rewritten with the same length.
        fs::write(&path, "1\n").unwrap();
        assert_eq!(text(&mut file), (true, "1\n".to_owned()));
        fs::write(&path, "2\n").unwrap();
        assert_eq!(text(&mut file), (true, "2\n".to_owned()));
        // Replaced by a file with more of the same content, and by a different one.
        let other = directory.path().join("other");
        fs::write(&other, "2\n3\n").unwrap();
        fs::rename(&other, &path).unwrap();
        assert_eq!(text(&mut file), (false, "3\n".to_owned()));
        append(&path, "4\n");
        fs::write(&other, "new\nfile\n").unwrap();
        fs::rename(&other, &path).unwrap();
        assert_eq!(text(&mut file), (false, "4\n".to_owned()));
        assert_eq!(text(&mut file), (true, "new\nfile\n".to_owned()));
        fs::remove_file(&path).unwrap();
        assert_eq!(text(&mut file), (false, String::new()));
    }

    #[test]
    fn what_an_earlier_attempt_wrote_is_skipped_unless_it_is_written_again() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("metrics");
        append(&path, "old\n");
        let begin = || GrowingFile::from_end(vec![directory.path().join("none"), path.clone()]);
        let mut file = begin();
        assert_eq!(text(&mut file), (false, String::new()));
        append(&path, "new\n");
        assert_eq!(text(&mut file), (false, "new\n".to_owned()));
        let mut file = begin();
        let later = SystemTime::now() + std::time::Duration::from_secs(5);
        fs::write(&path, "old\nnew\n").unwrap();
        File::options().write(true).open(&path).unwrap().set_modified(later).unwrap();
        assert_eq!(text(&mut file), (true, "old\nnew\n".to_owned()));
    }

    #[test]
    fn a_directory_and_a_pipe_are_refused_without_waiting() {
        let directory = tempfile::tempdir().unwrap();
        let mut file = GrowingFile::from_start(directory.path().to_owned());
        assert!(file.read().unwrap_err().contains("is a directory"));
        let pipe = directory.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
        assert!(made.success());
        let mut file = GrowingFile::from_end(vec![pipe]);
        assert!(file.read().unwrap_err().contains("is a pipe"));
    }
}
