//! Where results go: straight to standard output, or through a pager once they are longer than the
//! screen.

use std::io::{self, BufWriter, Stdout, Write};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::SIGINT;

use crate::report::wording::width;

/// A pager and the screen that decides whether it is needed.
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
    /// The pager that the environment asks for, `less -FRX` by default; `None` for an empty `PAGER`
    /// and for `cat`.
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

/// The stream of results.
pub struct Output {
    // Not locked: whichever thread panics must be able to give the terminal back, and would wait
    // for this one for ever.
    stdout: BufWriter<Stdout>,
    paged: Paged,
}

/// How far paging is.
enum Paged {
    /// Not asked for, or not needed any more.
    No,
    /// What was written fits the screen so far.
    Fits { paging: Paging, held: Vec<u8>, rows: usize },
    /// The pager runs.
    Runs(Child),
    /// Nobody reads.
    Nobody,
}

impl Output {
    /// Standard output.
    pub fn new() -> Self {
        Output { stdout: BufWriter::new(io::stdout()), paged: Paged::No }
    }

    /// From now on, what is longer than the screen goes through a pager.
    pub fn page(&mut self, paging: Paging) {
        self.paged = Paged::Fits { paging, held: Vec::new(), rows: 0 };
    }

    /// Forgets what is not written, and what comes: nobody reads it.
    pub fn give_up(&mut self) {
        self.paged = Paged::Nobody;
    }

    /// Writes the last bytes and waits until the pager is left.
    pub fn finish(&mut self) -> io::Result<()> {
        if let Paged::Fits { held, .. } = &self.paged {
            self.stdout.write_all(held)?;
            self.paged = Paged::No;
        }
        let written = self.flush();
        if let Paged::Runs(mut pager) = std::mem::replace(&mut self.paged, Paged::No) {
            drop(pager.stdin.take());
            // Whatever it says of itself, it has shown what it could.
            let _its_own_business = pager.wait();
        }
        written
    }

    /// Starts the pager on what is held; without one, everything goes to standard output.
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
            None => self.stdout.write_all(&held),
        }
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let overflows = match &mut self.paged {
            Paged::No => return self.stdout.write(bytes),
            Paged::Nobody => return Ok(bytes.len()),
            Paged::Runs(pager) => {
                return pager.stdin.as_mut().map_or(Ok(bytes.len()), |stdin| stdin.write(bytes));
            }
            Paged::Fits { paging, held, rows } => {
                *rows += rows_of(bytes, paging.columns);
                held.extend_from_slice(bytes);
                // One row is the prompt's.
                *rows >= paging.rows
            }
        };
        if overflows {
            self.overflow()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.paged {
            Paged::No => self.stdout.flush(),
            Paged::Runs(pager) => pager.stdin.as_mut().map_or(Ok(()), Write::flush),
            // Whether it fits is known at the end.
            Paged::Fits { .. } | Paged::Nobody => Ok(()),
        }
    }
}

/// Rows that the finished lines in `bytes` take on a screen; colours count as text, which at worst
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
    // A shell that finds no such program would take the text with it.
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
    // Ctrl-C is the pager's: leaving before it would leave the terminal to two readers.
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
