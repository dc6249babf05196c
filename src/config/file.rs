//! Opens files named by users, rejecting pipes, sockets and devices, which could block or never
//! end.

use std::fs::{self, File, FileType};
use std::io::{self, Read};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use crate::storage::sqlite::open_file;
use crate::study::suggestion::nearest;

/// Where a process finds its inherited streams: `check /dev/stdin`, `check <(make-study)`.
const STREAMS: [&str; 3] = ["/dev/stdin", "/dev/fd", "/proc/self/fd"];

/// Opens a file for reading. Rejects everything but regular files and the streams of this process,
/// and also the stores that this process has open.
///
/// # Errors
/// The system's, and `InvalidInput` for other kinds of files.
pub fn open(path: &Path) -> io::Result<File> {
    let kind = fs::metadata(path)?.file_type();
    let is_stream = STREAMS.iter().any(|stream| path.starts_with(stream));
    // For a directory, reading returns the system's error.
    if kind.is_file() || kind.is_dir() || is_stream && (kind.is_fifo() || kind.is_char_device()) {
        return open_file(path);
    }
    Err(io::Error::new(io::ErrorKind::InvalidInput, format!("it is {}, not a file", what(kind))))
}

/// A description of a file type.
pub fn what(kind: FileType) -> &'static str {
    match kind {
        _ if kind.is_dir() => "a directory",
        _ if kind.is_fifo() => "a named pipe",
        _ if kind.is_socket() => "a socket",
        _ => "a device",
    }
}

/// All of a file.
///
/// # Errors
/// As [`open`], and those of reading.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// All of a text file.
///
/// # Errors
/// As [`open`], and those of reading; `InvalidData` for what is not UTF-8.
pub fn read_to_string(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    open(path)?.read_to_string(&mut text)?;
    Ok(text)
}

/// What there is beside a path that leads nowhere, and has the name most similar to its name.
pub fn similar(path: &Path) -> Option<PathBuf> {
    const MOST: usize = 10_000;
    let entries = fs::read_dir(path.parent()?.join(".")).ok()?.flatten().take(MOST);
    // A link that leads nowhere, as the path may be, is not there.
    let there = entries.filter(|entry| entry.path().exists());
    let mut names: Vec<String> =
        there.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    let name = path.file_name()?.to_str()?;
    Some(path.with_file_name(nearest(name, names.iter().map(String::as_str))?))
}

/// The nearest existing ancestor of a path, if it is not a directory, which blocks creating
/// anything below it.
pub(super) fn in_the_way(path: &Path) -> Option<&Path> {
    let there = |part: &&Path| fs::symlink_metadata(part).is_ok();
    path.ancestors()
        .find(there)
        .filter(|part| fs::metadata(part).is_ok_and(|found| !found.is_dir()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_link_that_leads_nowhere_is_not_similar_to_itself() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        for name in ["train.csv", "trains.csv"] {
            symlink("nowhere", at(name)).unwrap();
        }
        assert_eq!(similar(&at("train.csv")), None);
        fs::write(at("trained.csv"), "").unwrap();
        assert_eq!(similar(&at("train.csv")), Some(at("trained.csv")));
    }
}
