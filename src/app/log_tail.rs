//! The end of a trial's log: found, read from its file, made safe for terminals and pages, and
//! searched.

use std::fs;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use crate::config::file;
use crate::report::wording::drives_a_terminal;
use crate::runner::ownership;
use crate::storage::{StorageError, StorageReader, StudySummary};
use crate::study::trial::{AttemptNumber, TrialNumber};

/// Where the log of an attempt is, among the directories that the study has had; where it would be,
/// if there is none.
///
/// # Errors
/// The store failed.
pub fn place(
    reader: &dyn StorageReader,
    study: &StudySummary,
    store: &Path,
    (trial, attempt): (TrialNumber, AttemptNumber),
) -> Result<PathBuf, StorageError> {
    let homes = ownership::homes(reader, &study.clone().stored(), store)?;
    let mut places = homes.iter().map(|home| home.log(trial, attempt));
    let found = places.find(|path| path.exists());
    Ok(found.unwrap_or_else(|| study.files(store).log(trial, attempt)))
}

/// The last lines of a log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogTail {
    /// The file.
    pub path: PathBuf,
    /// Whose log it is.
    pub attempt: AttemptNumber,
    /// How long the file was when it was read.
    pub bytes: u64,
    /// Whether there are lines before these.
    pub cut: bool,
    /// The lines, safe to be shown.
    pub lines: Vec<String>,
}

impl LogTail {
    /// Reads the end of the file, `most` bytes of it; a file that is not there (yet) has no lines.
    ///
    /// # Errors
    /// The system's, and `InvalidInput` for what is no file: a link may lead anywhere, and hpsearch
    /// makes none.
    pub fn read(path: &Path, attempt: AttemptNumber, most: u64) -> io::Result<LogTail> {
        if fs::symlink_metadata(path).is_ok_and(|found| found.is_symlink()) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is a link, not a file"));
        }
        let mut file = match file::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(LogTail { path: path.to_owned(), attempt, ..LogTail::default() });
            }
            Err(error) => return Err(error),
        };
        let bytes = file.metadata()?.len();
        let from = bytes.saturating_sub(most);
        file.seek(SeekFrom::Start(from))?;
        let mut end = Vec::new();
        file.take(most).read_to_end(&mut end)?;
        let text = String::from_utf8_lossy(&end);
        // The first line of a part is a part of a line.
        let whole =
            if from > 0 { text.split_once('\n').map_or("", |(_, rest)| rest) } else { &text };
        Ok(LogTail {
            path: path.to_owned(),
            attempt,
            bytes,
            cut: from > 0,
            lines: whole.lines().map(plain).collect(),
        })
    }

    /// The length of the file now, if it can be told.
    pub fn length(path: &Path) -> u64 {
        fs::metadata(path).map_or(0, |metadata| metadata.len())
    }

    /// The lines that hold `text`, whatever its case; none for an empty text.
    pub fn matches(&self, text: &str) -> Vec<usize> {
        let text = text.to_lowercase();
        let holds = |line: &String| !text.is_empty() && line.to_lowercase().contains(&text);
        self.lines.iter().enumerate().filter(|(_, line)| holds(line)).map(|(row, _)| row).collect()
    }
}

/// A line as a terminal that knows no commands would show it: without colours and other escape
/// sequences, of a progress bar only what was written last, tabs as spaces.
fn plain(line: &str) -> String {
    let last = line.trim_end_matches('\r').rsplit('\r').next().unwrap_or_default();
    let mut plain = String::with_capacity(last.len());
    let mut chars = last.chars().peekable();
    while let Some(char) = chars.next() {
        match char {
            '\t' => plain.push_str("    "),
            '\u{1b}' => match chars.next() {
                // A control sequence ends with a letter or the like, a command to the system with
                // BEL or ESC \.
                Some('[') => {
                    while chars.next().is_some_and(|char| !('\u{40}'..='\u{7e}').contains(&char)) {}
                }
                Some(']' | 'P' | '_' | '^' | 'X') => {
                    while let Some(char) = chars.next() {
                        if char == '\u{7}'
                            || (char == '\u{1b}' && chars.next_if_eq(&'\\').is_some())
                        {
                            break;
                        }
                    }
                }
                _ => {}
            },
            char if drives_a_terminal(char) => {}
            char => plain.push(char),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_drives_a_terminal_is_left_of_a_line() {
        let cases = [
            ("\u{1b}[1;31mred\u{1b}[0m plain", "red plain"),
            ("\u{1b}]0;title\u{7}text", "text"),
            ("\u{1b}]52;c;aGk=\u{1b}\\text", "text"),
            ("10%\r50%\r100%\r", "100%"),
            ("a\tb\u{8}c\u{0}", "a    bc"),
            ("\u{9b}31mtext", "31mtext"),
            ("\u{202e}evil", "evil"),
            ("\u{1b}[", ""),
            ("学習 🚀", "学習 🚀"),
        ];
        for (line, shown) in cases {
            assert_eq!(plain(line), shown, "{line:?}");
        }
    }

    #[test]
    fn only_the_end_of_a_long_log_is_read_and_begins_with_a_whole_line() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("attempt-0.log");
        let text: String = (0..60_000).map(|line| format!("line {line}\n")).collect();
        std::fs::write(&path, &text).unwrap();
        let tail = LogTail::read(&path, AttemptNumber(0), 256 << 10).unwrap();
        assert!(tail.cut);
        assert_eq!(tail.bytes, LogTail::length(&path));
        assert_eq!(tail.lines.last().map(String::as_str), Some("line 59999"));
        let first: usize = tail.lines[0].strip_prefix("line ").unwrap().parse().unwrap();
        assert_eq!(first + tail.lines.len(), 60_000);
        assert_eq!(tail.matches("LINE 5999").len(), 10);
    }

    #[test]
    fn a_log_that_leads_elsewhere_is_not_followed() {
        let directory = tempfile::tempdir().unwrap();
        let (secret, path) = (directory.path().join("secret"), directory.path().join("log"));
        fs::write(&secret, "a secret").unwrap();
        std::os::unix::fs::symlink(&secret, &path).unwrap();
        let refused = LogTail::read(&path, AttemptNumber(0), 100).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::InvalidInput);
    }

    #[test]
    fn a_log_that_is_not_there_is_empty() {
        let tail =
            LogTail::read(Path::new("/nowhere/attempt-0.log"), AttemptNumber(0), 100).unwrap();
        assert_eq!((tail.bytes, tail.lines.len(), tail.matches("").len()), (0, 0, 0));
    }
}
