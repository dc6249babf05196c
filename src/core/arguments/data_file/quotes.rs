//! Finds quotes of a csv file that the csv crate silently takes for text.

use std::io::{self, Read};

/// A quote that is opened in a line and never closed.
pub const NEVER_CLOSED: &str = "a quote is opened here and never closed";

/// What to do about [`NEVER_CLOSED`].
pub const CLOSE_IT: &str = "close it; a quote inside a quoted field is written twice";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum QuoteState {
    FieldStart,
    Plain,
    Quoted,
    AfterQuote,
}

/// Follows the quotes of a csv file.
#[derive(Clone, Debug)]
struct Quotes {
    separator: u8,
    state: QuoteState,
    line: u64,
    /// The line of the last quote that began a field.
    opened: u64,
    /// The line of the first text after a closing quote.
    text_after: Option<u64>,
    bytes: u64,
}

impl Quotes {
    fn new(separator: u8) -> Self {
        let state = QuoteState::FieldStart;
        Quotes { separator, state, line: 1, opened: 1, text_after: None, bytes: 0 }
    }

    fn take(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.state = match (self.state, *byte) {
                (QuoteState::Quoted, b'"') => QuoteState::AfterQuote,
                (QuoteState::Quoted, _) => QuoteState::Quoted,
                (QuoteState::AfterQuote, b'"') => QuoteState::Quoted,
                (_, byte) if byte == self.separator || byte == b'\n' || byte == b'\r' => {
                    QuoteState::FieldStart
                }
                (QuoteState::FieldStart, b'"') => {
                    self.opened = self.line;
                    QuoteState::Quoted
                }
                (QuoteState::AfterQuote, _) => {
                    self.text_after.get_or_insert(self.line);
                    QuoteState::Plain
                }
                // A byte order mark.
                (QuoteState::FieldStart, 0xef | 0xbb | 0xbf) if self.bytes < 3 => {
                    QuoteState::FieldStart
                }
                (QuoteState::FieldStart | QuoteState::Plain, _) => QuoteState::Plain,
            };
            self.bytes += 1;
            self.line += u64::from(*byte == b'\n');
        }
    }

    fn open(&self) -> Option<u64> {
        (self.state == QuoteState::Quoted).then_some(self.opened)
    }
}

/// The line of the first text after a closing quote, or else of a quote that is never closed.
pub(super) fn wrong_quote(content: &str, separator: u8) -> Option<(u64, &'static str)> {
    let mut quotes = Quotes::new(separator);
    quotes.take(content.as_bytes());
    let text_after = quotes.text_after.map(|line| (line, "text after a closing quote"));
    text_after.or_else(|| quotes.open().map(|line| (line, NEVER_CLOSED)))
}

/// The input of a csv reader, which takes all that follows an open quote for one cell.
#[derive(Debug)]
pub struct QuotedInput<R> {
    input: R,
    quotes: Quotes,
}

impl<R: Read> QuotedInput<R> {
    /// An input whose cells are separated by `separator`.
    pub fn new(input: R, separator: u8) -> Self {
        QuotedInput { input, quotes: Quotes::new(separator) }
    }

    /// After the last row: the line of a quote that is never closed.
    pub fn open_quote(&self) -> Option<u64> {
        self.quotes.open()
    }

    /// The number of bytes read.
    pub fn bytes_read(&self) -> u64 {
        self.quotes.bytes
    }
}

impl<R: Read> Read for QuotedInput<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.input.read(buffer)?;
        self.quotes.take(&buffer[..count]);
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quote_that_is_open_at_the_end_is_found_with_its_line() {
        for (content, open) in [
            ("a,b\n1,\"x\ny\"\n2,\"z\n3,w\n", Some(4)),
            ("a,\"b", Some(1)),
            ("a,b\n1,\"x \"\"y\"\"\"\n2,z\"w\n", None),
            ("a;b\n1;x,\"y\n", None),
            ("\u{feff}\"a,\",b\n1,2\n", None),
        ] {
            let separator = if content.starts_with("a;") { b';' } else { b',' };
            let mut input = QuotedInput::new(content.as_bytes(), separator);
            let mut small = [0; 3];
            while input.read(&mut small).unwrap() > 0 {}
            let expected = (open, content.len() as u64);
            assert_eq!((input.open_quote(), input.bytes_read()), expected, "{content}");
        }
    }
}
