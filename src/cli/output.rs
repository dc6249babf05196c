//! Output of results: directly to standard output, or through a pager if they are longer than the
//! screen.

use std::error::Error;
use std::fmt;
use std::fs::File;
use std::io::{self, BufWriter, Stdout, Write};
use std::os::fd::AsFd as _;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::SIGINT;

use crate::report::wording::width;

/// A pager, and the size of the screen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Paging {
    /// A shell command, as `PAGER` holds it.
    pub pager: String,
    /// Lines of the screen.
    pub rows: usize,
    /// Columns of the screen.
    pub columns: usize,
}

impl Paging {
    /// The pager of the environment, `less -FRX` by default; `None` for an empty `PAGER` and for
    /// `cat`.
    pub fn from_environment(
        variable: impl Fn(&str) -> Option<String>,
        (columns, rows): (usize, usize),
    ) -> Option<Paging> {
        let pager = variable("PAGER").unwrap_or_else(|| "less -FRX".to_owned());
        let pager = pager.trim();
        (!pager.is_empty() && pager != "cat" && rows > 1).then(|| Paging {
            pager: pager.to_owned(),
            rows,
            columns: columns.max(1),
        })
    }
}

/// Why standard output cannot be written. It is the content of an [`io::Error`] of the same kind.
#[derive(Debug)]
pub struct StdoutError(io::Error);

impl fmt::Display for StdoutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "standard output cannot be written: {}", self.0)
    }
}

impl Error for StdoutError {}

/// An error of standard output that says so.
pub fn of_stdout(error: io::Error) -> io::Error {
    io::Error::new(error.kind(), StdoutError(error))
}

/// The lines of a run on standard output, without which it continues.
pub struct RunLines(File);

impl RunLines {
    /// A file handle of its own: the lock of `stdout` would be held while a reader stalls.
    pub fn new() -> io::Result<Self> {
        Ok(RunLines(File::from(io::stdout().as_fd().try_clone_to_owned()?)))
    }
}

impl Write for RunLines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes).map_err(of_stdout).inspect_err(|error| {
            let passes = [io::ErrorKind::BrokenPipe, io::ErrorKind::Interrupted];
            if !passes.contains(&error.kind()) {
                // A closed standard error is ignored.
                let _ = writeln!(
                    io::stderr(),
                    "{error}: nothing more is printed, and the run continues (`hpsearch trials` \
                     lists its trials)"
                );
            }
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// The stream of results.
pub struct Output {
    // Not locked: a thread that panics must be able to restore the terminal without waiting for
    // this one.
    stdout: BufWriter<Stdout>,
    paged: Paged,
    /// Whether a closed reader is no error.
    outlives_reader: bool,
}

/// The state of paging.
enum Paged {
    /// Not requested, or no longer needed.
    No,
    /// The output fits the screen so far.
    Fits { paging: Paging, held: Vec<u8>, rows: usize },
    /// The pager is running.
    Runs(Child),
    /// The reader is gone.
    Gone,
}

impl Output {
    /// Standard output.
    pub fn new() -> Self {
        Output { stdout: BufWriter::new(io::stdout()), paged: Paged::No, outlives_reader: false }
    }

    /// Ignores that the reader is gone, for a verb with other work to do.
    pub fn outlive_reader(&mut self) {
        self.outlives_reader = true;
    }

    /// `done`, or `unread` if the reader is gone and need not be there.
    fn or_unread<T>(&self, done: io::Result<T>, unread: T) -> io::Result<T> {
        match done {
            Err(error) if self.outlives_reader && error.kind() == io::ErrorKind::BrokenPipe => {
                Ok(unread)
            }
            done => done,
        }
    }

    /// Sends output longer than the screen through a pager.
    pub fn page(&mut self, paging: Paging) {
        self.paged = Paged::Fits { paging, held: Vec::new(), rows: 0 };
    }

    /// Drops pending and further output: the reader is gone.
    pub fn give_up(&mut self) {
        self.paged = Paged::Gone;
    }

    /// Flushes the output and waits for the pager.
    pub fn finish(&mut self) -> io::Result<()> {
        if let Paged::Fits { held, .. } = &self.paged {
            let written = self.stdout.write_all(held).map_err(of_stdout);
            self.or_unread(written, ())?;
            self.paged = Paged::No;
        }
        let written = self.flush();
        if let Paged::Runs(mut pager) = std::mem::replace(&mut self.paged, Paged::No) {
            drop(pager.stdin.take());
            // Its exit status does not matter.
            let _exit_status_ignored = pager.wait();
        }
        written
    }

    /// Starts the pager on the pending output; without one, everything goes to standard output.
    fn overflow(&mut self) -> io::Result<()> {
        let Paged::Fits { paging, held, .. } = std::mem::replace(&mut self.paged, Paged::No) else {
            return Ok(());
        };
        match start(&paging) {
            Some(mut pager) => {
                let written = pager.stdin.as_mut().map_or(Ok(()), |stdin| stdin.write_all(&held));
                self.paged = Paged::Runs(pager);
                written
            }
            None => self.stdout.write_all(&held).map_err(of_stdout),
        }
    }

    fn pass(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let overflows = match &mut self.paged {
            Paged::No => return self.stdout.write(bytes).map_err(of_stdout),
            Paged::Gone => return Ok(bytes.len()),
            Paged::Runs(pager) => {
                return pager.stdin.as_mut().map_or(Ok(bytes.len()), |stdin| stdin.write(bytes));
            }
            Paged::Fits { paging, held, rows } => {
                *rows += rows_of(bytes, paging.columns);
                held.extend_from_slice(bytes);
                // One row is for the prompt.
                *rows >= paging.rows
            }
        };
        if overflows {
            self.overflow()?;
        }
        Ok(bytes.len())
    }

    fn pass_all(&mut self) -> io::Result<()> {
        match &mut self.paged {
            Paged::No => self.stdout.flush().map_err(of_stdout),
            Paged::Runs(pager) => pager.stdin.as_mut().map_or(Ok(()), Write::flush),
            // Whether it fits is known at the end.
            Paged::Fits { .. } | Paged::Gone => Ok(()),
        }
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.pass(bytes);
        self.or_unread(written, bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let flushed = self.pass_all();
        self.or_unread(flushed, ())
    }
}

/// Rows of the complete lines in `bytes` on a screen; colour codes count as text, which at worst
/// pages a little early.
fn rows_of(bytes: &[u8], columns: usize) -> usize {
    let text = String::from_utf8_lossy(bytes);
    text.split_inclusive('\n')
        .filter(|line| line.ends_with('\n'))
        .map(|line| width(line.trim_end()).div_ceil(columns).max(1))
        .sum()
}

fn start(paging: &Paging) -> Option<Child> {
    let shell = |script: &str| {
        let mut command = Command::new("/bin/sh");
        command.arg("-c").arg(script);
        command
    };
    // A shell that does not find the program would discard the text.
    let program = paging.pager.split_whitespace().next()?;
    let known = shell("command -v \"$0\"")
        .arg(program)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    if !known.is_ok_and(|status| status.success()) {
        return None;
    }
    let mut command = shell(&paging.pager);
    if std::env::var_os("LESS").is_none() {
        command.env("LESS", "FRX");
    }
    let pager = command.stdin(Stdio::piped()).spawn().ok()?;
    // Ctrl-C belongs to the pager: exiting first would leave two readers on the terminal.
    let _refused_only_without_memory =
        signal_hook::flag::register(SIGINT, Arc::new(AtomicBool::new(false)));
    Some(pager)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paging(variable: Option<&str>) -> Option<Paging> {
        Paging::from_environment(
            |name| variable.filter(|_| name == "PAGER").map(str::to_owned),
            (80, 24),
        )
    }

    #[test]
    fn the_environment_names_the_pager_or_refuses_one() {
        assert_eq!(paging(None).unwrap().pager, "less -FRX");
        assert_eq!(paging(Some(" most ")).unwrap().pager, "most");
        assert_eq!((paging(Some("")), paging(Some("cat"))), (None, None));
        assert_eq!(Paging::from_environment(|_| None, (80, 0)), None);
    }

    #[test]
    fn long_lines_take_several_rows() {
        assert_eq!(rows_of("short\n\n".as_bytes(), 10), 2);
        assert_eq!(rows_of("twenty-one characters\nunfinished".as_bytes(), 10), 3);
        assert_eq!(rows_of("学習率の探索\n".as_bytes(), 10), 2);
    }
}
