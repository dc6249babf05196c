//! Echoes the output of a foreground program as it arrives, except the lines for hpsearch.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};

use crate::study::escape_sequence::EscapeSequence;

/// Prefix of a line for hpsearch.
const TAG: &[u8] = b"@hpsearch";

/// The state within a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    /// This many bytes of the tag have matched, after blanks and escape sequences.
    Tag(usize),
    /// In an escape sequence before the tag.
    Colors(EscapeSequence),
    /// In one between the tag and the message.
    ColorsBehind(EscapeSequence),
    /// After the tag: the next byte decides whether the line is for hpsearch.
    Behind,
    /// In a line that is echoed.
    Shown,
    /// In a line for hpsearch.
    Hidden,
    /// After a hidden line that ended with `\r`: a following newline belongs to it.
    Return,
}

/// Drops the lines for hpsearch. Everything else passes immediately, including incomplete lines.
#[derive(Debug)]
struct Filter {
    at: At,
    held: Vec<u8>,
}

impl Filter {
    fn new() -> Self {
        Filter { at: At::Tag(0), held: Vec::new() }
    }

    /// The part of `bytes`, and of bytes held back before, to echo.
    fn pass(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut shown = Vec::with_capacity(bytes.len());
        for byte in bytes.iter().copied() {
            let ends = matches!(byte, b'\n' | b'\r');
            let begun = EscapeSequence::begin(byte);
            match self.at {
                At::Return if byte == b'\n' => {
                    self.at = At::Tag(0);
                    continue;
                }
                At::Hidden => {
                    if ends {
                        self.at = if byte == b'\r' { At::Return } else { At::Tag(0) };
                    }
                    continue;
                }
                At::Behind if matches!(byte, b' ' | b'\t' | b'{') => {
                    self.held.clear();
                    self.at = At::Hidden;
                    continue;
                }
                At::Tag(0) | At::Return if matches!(byte, b' ' | b'\t') => {
                    self.at = At::Tag(0);
                    self.held.push(byte);
                    continue;
                }
                At::Tag(0) | At::Return | At::Behind if let Some(begun) = begun => {
                    self.held.push(byte);
                    self.at = match self.at {
                        At::Behind => At::ColorsBehind(begun),
                        _ => At::Colors(begun),
                    };
                    continue;
                }
                At::Colors(sequence) if !ends => {
                    self.held.push(byte);
                    self.at = sequence.after(byte).map_or(At::Tag(0), At::Colors);
                    continue;
                }
                At::ColorsBehind(sequence) if !ends => {
                    self.held.push(byte);
                    self.at = sequence.after(byte).map_or(At::Behind, At::ColorsBehind);
                    continue;
                }
                At::Tag(known) if byte == TAG[known] => {
                    self.held.push(byte);
                    let next = known + 1;
                    self.at = if next == TAG.len() { At::Behind } else { At::Tag(next) };
                    continue;
                }
                At::Return if byte == TAG[0] => {
                    self.held.push(byte);
                    self.at = At::Tag(1);
                    continue;
                }
                _ => {}
            }
            shown.append(&mut self.held);
            shown.push(byte);
            self.at = if ends { At::Tag(0) } else { At::Shown };
        }
        shown
    }
}

/// Where a stream is echoed.
enum Shown {
    /// Nowhere.
    Nowhere,
    /// To standard output, without the lines for hpsearch.
    Output(Filter),
    /// To standard error, complete.
    Errors,
}

/// A stream that echoes what is read from it.
pub(super) struct Echo<S> {
    stream: S,
    shown: Shown,
}

impl<S> Echo<S> {
    /// Without echo.
    pub fn silent(stream: S) -> Self {
        Echo { stream, shown: Shown::Nowhere }
    }

    /// Echoed to standard output.
    pub fn output(stream: S) -> Self {
        Echo { stream, shown: Shown::Output(Filter::new()) }
    }

    /// Echoed to standard error.
    pub fn errors(stream: S) -> Self {
        Echo { stream, shown: Shown::Errors }
    }
}

impl<S: Read> Read for Echo<S> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = self.stream.read(into)?;
        let bytes = &into[..count];
        // A closed stream (`| head`, a closed terminal) does not end the program.
        let written = match &mut self.shown {
            Shown::Nowhere => Ok(()),
            Shown::Output(filter) => {
                let bytes =
                    if count == 0 { std::mem::take(&mut filter.held) } else { filter.pass(bytes) };
                show(&mut io::stdout().lock(), &bytes)
            }
            Shown::Errors => show(&mut io::stderr().lock(), bytes),
        };
        if written.is_err() {
            self.shown = Shown::Nowhere;
        }
        Ok(count)
    }
}

fn show(out: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    out.write_all(bytes)?;
    out.flush()
}

impl<S: AsFd> AsFd for Echo<S> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The echo of a text that arrives in pieces of every length.
    fn shown(text: &str) -> String {
        let whole = Filter::new().pass(text.as_bytes());
        for length in 1..6 {
            let (mut filter, mut pieces) = (Filter::new(), Vec::new());
            text.as_bytes().chunks(length).for_each(|piece| pieces.extend(filter.pass(piece)));
            assert_eq!(pieces, whole, "{text:?} in pieces of {length}");
        }
        String::from_utf8(whole).unwrap()
    }

    #[test]
    fn all_is_shown_but_the_lines_for_hpsearch() {
        for (text, expected) in [
            ("one\ntwo\n", "one\ntwo\n"),
            ("a\n@hpsearch {\"step\":1}\nb\n", "a\nb\n"),
            ("@hpsearch{\"loss\":1}\r\nb", "b"),
            ("  @hpsearch {}\n  @home\n", "  @home\n"),
            ("@hpsearch\n@hpsearch-like\n", "@hpsearch\n@hpsearch-like\n"),
            ("see @hpsearch {}\n", "see @hpsearch {}\n"),
            (" 10%\r 20%\r@hpsearch {}\r@hpsearch {}\rdone\n", " 10%\r 20%\rdone\n"),
            ("@@hpsearch {}\n", "@@hpsearch {}\n"),
            ("\x1b[3ma\x1b[0m\n \x1b[3m@hpsearch\x1b[m {}\x1b[0m\nb\n", "\x1b[3ma\x1b[0m\nb\n"),
            ("\x1b[3m@hpsearch\x1b[0m\n\x1b]0;t\nb", "\x1b[3m@hpsearch\x1b[0m\n\x1b]0;t\nb"),
            ("\r\x1b[K@hpsearch {}\n", "\r"),
        ] {
            assert_eq!(shown(text), expected, "{text:?}");
        }
    }

    #[test]
    fn what_may_become_a_line_for_hpsearch_is_held_back_and_a_prompt_is_not() {
        let mut filter = Filter::new();
        assert_eq!(filter.pass(b"name? "), b"name? ");
        assert_eq!(filter.pass(b"\n@hp"), b"\n");
        assert_eq!(filter.pass(b"one\n"), b"@hpone\n");
    }

    #[test]
    fn the_rest_is_shown_when_the_stream_ends() {
        let mut echo = Echo::output(&b"@hp"[..]);
        let mut read = Vec::new();
        echo.read_to_end(&mut read).unwrap();
        let Shown::Output(filter) = &echo.shown else { panic!() };
        assert!(filter.held.is_empty() && read == b"@hp");
    }
}
