//! Splits a child's stream into lines of bounded length, with a look at what has arrived after
//! them.

use std::io::{self, BufRead as _, BufReader, Read};
use std::os::fd::AsFd;

use crate::runner::protocol::LONGEST_LINE;

/// Limit of this look-ahead: far more than a pipe holds.
const AHEAD: usize = 1 << 20;

/// Line terminators.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum LineEnd {
    /// A newline.
    Newline,
    /// A newline or a carriage return, as in progress bars.
    NewlineOrReturn,
}

/// A piece of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinePiece {
    /// The whole line.
    Whole,
    /// The beginning of a line that is longer than a message may be.
    First,
    /// The rest of such a line.
    Rest,
}

/// Reads a stream line by line.
pub(super) struct Lines<S> {
    reader: BufReader<Fetched<S>>,
    end: LineEnd,
    at_start: bool,
}

/// A stream with read-ahead.
struct Fetched<S> {
    stream: S,
    bytes: Vec<u8>,
}

impl<S: Read> Read for Fetched<S> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.bytes.is_empty() {
            return self.stream.read(into);
        }
        let count = self.bytes.as_slice().read(into)?;
        self.bytes.drain(..count);
        Ok(count)
    }
}

impl<S: Read> Lines<S> {
    pub(super) fn of(stream: S, end: LineEnd) -> Self {
        Lines {
            reader: BufReader::with_capacity(64 << 10, Fetched { stream, bytes: Vec::new() }),
            end,
            at_start: true,
        }
    }

    /// The next line, terminator included; overlong lines come in pieces. `None` at the end.
    pub(super) fn next(&mut self, line: &mut Vec<u8>) -> Option<LinePiece> {
        line.clear();
        let complete = self.read_line(line);
        if line.is_empty() {
            return None;
        }
        let piece = match (self.at_start, complete) {
            (false, _) => LinePiece::Rest,
            (true, true) => LinePiece::Whole,
            (true, false) => LinePiece::First,
        };
        self.at_start = complete;
        Some(piece)
    }

    /// Reads up to the end of a line, of the stream, or of the length limit; returns whether a line
    /// is complete.
    fn read_line(&mut self, line: &mut Vec<u8>) -> bool {
        let wanted = self.end;
        let is_end =
            |byte: &u8| *byte == b'\n' || (*byte == b'\r' && wanted == LineEnd::NewlineOrReturn);
        loop {
            let room = LONGEST_LINE - line.len();
            let available = match self.reader.fill_buf() {
                Ok(available) => &available[..available.len().min(room)],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(_) => return true,
            };
            let end = available.iter().position(is_end);
            let taken = end.map_or(available.len(), |at| at + 1);
            line.extend_from_slice(&available[..taken]);
            self.reader.consume(taken);
            if end.is_some() || (taken == 0 && room > 0) {
                return true;
            }
            if line.len() >= LONGEST_LINE {
                return false;
            }
        }
    }
}

impl<S: Read + AsFd> Lines<S> {
    /// What has arrived after the last line, without waiting.
    pub(super) fn ahead(&mut self) -> Vec<u8> {
        let fetched = self.reader.get_mut();
        let room = AHEAD.saturating_sub(fetched.bytes.len()) as u64;
        let count = rustix::io::ioctl_fionread(&fetched.stream).unwrap_or(0).min(room);
        // Already available: reading does not block.
        let _read_with_the_next_line =
            (&mut fetched.stream).take(count).read_to_end(&mut fetched.bytes);
        [self.reader.buffer(), &self.reader.get_ref().bytes].concat()
    }
}

/// Calls `take` with each line, terminator included; overlong lines come in pieces.
pub fn for_each_line(stream: impl Read, end: LineEnd, mut take: impl FnMut(&[u8], LinePiece)) {
    let (mut lines, mut line) = (Lines::of(stream, end), Vec::new());
    while let Some(piece) = lines.next(&mut line) {
        take(&line, piece);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;
    use std::os::unix::net::UnixStream;

    fn lines(text: &[u8], end: LineEnd) -> Vec<(usize, LinePiece)> {
        let mut seen = Vec::new();
        for_each_line(text, end, |line, piece| seen.push((line.len(), piece)));
        seen
    }

    #[test]
    fn a_line_longer_than_a_message_comes_in_pieces_that_are_never_messages() {
        let mut text = vec![b'x'; LONGEST_LINE + 10];
        text.extend_from_slice(b"\n@hpsearch {}\nlast");
        let expected = [
            (LONGEST_LINE, LinePiece::First),
            (11, LinePiece::Rest),
            (13, LinePiece::Whole),
            (4, LinePiece::Whole),
        ];
        assert_eq!(lines(&text, LineEnd::Newline), expected);
    }

    #[test]
    fn a_return_ends_a_line_where_bars_of_progress_are_drawn() {
        let text = b" 10%\r 20%\r@hpsearch {}\r\nend";
        let whole = |lengths: &[usize]| {
            lengths.iter().map(|length| (*length, LinePiece::Whole)).collect::<Vec<_>>()
        };
        assert_eq!(lines(text, LineEnd::NewlineOrReturn), whole(&[5, 5, 13, 1, 3]));
        assert_eq!(lines(text, LineEnd::Newline), whole(&[24, 3]));
    }

    #[test]
    fn what_has_come_is_seen_and_read_again_in_its_turn() {
        let (mut writer, reader) = UnixStream::pair().unwrap();
        let (mut lines, mut line) = (Lines::of(reader, LineEnd::Newline), Vec::new());
        writer.write_all(b"one\ntwo\n").unwrap();
        assert_eq!(
            (lines.next(&mut line), line.as_slice()),
            (Some(LinePiece::Whole), &b"one\n"[..])
        );
        assert_eq!(lines.ahead(), b"two\n");
        writer.write_all(b"three\nfo").unwrap();
        assert_eq!(lines.ahead(), b"two\nthree\nfo");
        writer.write_all(b"ur").unwrap();
        drop(writer);
        let mut seen = Vec::new();
        while lines.next(&mut line).is_some() {
            seen.push(String::from_utf8_lossy(&line).into_owned());
        }
        assert_eq!(seen, ["two\n", "three\n", "four"]);
    }
}
