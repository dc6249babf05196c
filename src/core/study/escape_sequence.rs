//! Escape sequences of terminals (ECMA-48), which colour a program's lines.

use std::borrow::Cow;

/// The byte that begins an escape sequence.
const ESCAPE: u8 = 0x1b;
const BELL: u8 = 0x07;

/// The state within an escape sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EscapeSequence {
    /// After the escape byte.
    Begun,
    /// After intermediate bytes, as in `ESC ( B`.
    Intermediate,
    /// In a control sequence, as `ESC [ 32 m`.
    Control,
    /// In a command of the operating system, such as a title or a link, or another string.
    Text,
    /// After an escape byte in one, which may end it.
    TextEscape,
}

impl EscapeSequence {
    /// Whether a byte begins a sequence.
    pub fn begin(byte: u8) -> Option<EscapeSequence> {
        (byte == ESCAPE).then_some(EscapeSequence::Begun)
    }

    /// The state after another byte of the sequence; `None` if the byte is its last.
    pub fn after(self, byte: u8) -> Option<EscapeSequence> {
        use EscapeSequence::{Begun, Control, Intermediate, Text, TextEscape};
        match (self, byte) {
            (Begun, ESCAPE) => Some(Begun),
            (Begun | TextEscape, b'[') => Some(Control),
            (Begun | TextEscape, b']' | b'P' | b'X' | b'^' | b'_') => Some(Text),
            (Begun | TextEscape | Intermediate, 0x20..=0x2f) => Some(Intermediate),
            (Begun | TextEscape | Intermediate, _) | (Text, BELL) | (Control, 0x40..=0x7e) => None,
            (Control, _) => Some(Control),
            (Text, ESCAPE) => Some(TextEscape),
            (Text, _) => Some(Text),
        }
    }
}

/// A line without its escape sequences. One without an end ends with the line.
pub fn without_escape_sequences(line: &[u8]) -> Cow<'_, [u8]> {
    if !line.contains(&ESCAPE) {
        return Cow::Borrowed(line);
    }
    let mut plain = Vec::with_capacity(line.len());
    let mut within: Option<EscapeSequence> = None;
    for byte in line.iter().copied() {
        within = match within {
            _ if matches!(byte, b'\n' | b'\r') => None,
            Some(sequence) => {
                within = sequence.after(byte);
                continue;
            }
            None => EscapeSequence::begin(byte),
        };
        if within.is_none() {
            plain.push(byte);
        }
    }
    Cow::Owned(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_loses_its_escape_sequences_and_nothing_else() {
        for (line, plain) in [
            ("plain\n", "plain\n"),
            ("\x1b[1;32mgreen\x1b[0m\n", "green\n"),
            // `tput sgr0`
            ("\x1b[32mx\x1b(B\x1b[m\r\n", "x\r\n"),
            ("\x1b]0;title\x07a\x1b]8;;http://a/[m\x1b\\b\x1b7c", "abc"),
            ("\x1b\x1b[3mé", "é"),
            ("a\x1b[3\nb\x1b", "a\nb"),
        ] {
            let found = without_escape_sequences(line.as_bytes());
            assert_eq!(String::from_utf8_lossy(&found), plain, "{line:?}");
        }
    }
}
