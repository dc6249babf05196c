//! Serves lines between two streams: each is read completely or rejected, answered once, and the
//! answer is flushed.

use std::io::{self, BufRead, Read as _, Write};

use super::{Refusal, Session, refused};

/// Longest accepted line, in bytes: longer ones are skipped without being buffered.
pub const LONGEST_LINE: u64 = 8 << 20;

/// Buffer capacity kept between lines.
const KEPT: usize = 64 << 10;

/// Answers the lines of `input` on `output` until it ends or `quit` is received. An unterminated
/// last line counts.
///
/// # Errors
/// A stream cannot be read or written.
pub fn serve(input: impl BufRead, output: impl Write) -> io::Result<()> {
    converse(Session::new(), input, output)
}

/// The same with a given session.
///
/// # Errors
/// A stream cannot be read or written.
pub fn converse(
    mut session: Session,
    mut input: impl BufRead,
    mut output: impl Write,
) -> io::Result<()> {
    let mut line = Vec::new();
    while !session.has_quit() {
        let answer = match next(&mut input, &mut line)? {
            None => break,
            Some(Ok(text)) => session.answer(text),
            Some(Err(refusal)) => refused(&refusal).to_string(),
        };
        output.write_all(answer.as_bytes())?;
        output.write_all(b"\n")?;
        output.flush()?;
        line.shrink_to(KEPT);
    }
    Ok(())
}

/// The next line without its terminator, or why it is rejected; `None` at the end of the input.
pub(super) fn next<'line>(
    input: &mut impl BufRead,
    line: &'line mut Vec<u8>,
) -> io::Result<Option<Result<&'line str, Refusal>>> {
    Ok(match read_line(input, line)? {
        Read::End => None,
        Read::TooLong => {
            Some(Err(Refusal::new(format!("the line is longer than {LONGEST_LINE} bytes"))))
        }
        Read::Line => Some(std::str::from_utf8(line).map_err(|error| {
            Refusal::new(format!(
                "the line is not UTF-8 text: byte {} is not a character",
                error.valid_up_to() + 1
            ))
        })),
    })
}

enum Read {
    Line,
    TooLong,
    End,
}

fn read_line(input: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<Read> {
    line.clear();
    let taken = input.by_ref().take(LONGEST_LINE + 1).read_until(b'\n', line)?;
    if taken == 0 {
        return Ok(Read::End);
    }
    if line.last() == Some(&b'\n') {
        line.pop();
    } else if line.len() as u64 > LONGEST_LINE {
        input.skip_until(b'\n')?;
        return Ok(Read::TooLong);
    }
    if line.last() == Some(&b'\r') {
        line.pop();
    }
    Ok(Read::Line)
}
