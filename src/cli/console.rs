//! What every verb works with: where the store is, and what it may print where.

use std::env;
use std::io::{self, BufWriter, IsTerminal, StdoutLock, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::exit::Failure;
use super::{Common, OutputForm};
use crate::processes;
use crate::reporters::table::{Column, Room, write_table};
use crate::reporters::wording::HolderLife;
use crate::storage::Holder;
use crate::storage::sqlite::{SqliteReader, SqliteStore};
use crate::tui::Look;

/// How much is said on standard error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Talk {
    /// Errors only (`-q`).
    Quiet,
    /// What a person wants to know.
    Normal,
    /// More (`-v`).
    Verbose,
}

/// The store's path, the streams and the room on them.
pub struct Console {
    /// Where the store is.
    pub store: PathBuf,
    /// How much is said.
    pub talk: Talk,
    /// Results go here; flushed by [`Console::finish`].
    pub out: BufWriter<StdoutLock<'static>>,
    /// The width of tables.
    pub room: Room,
    /// The characters and colours of the terminal.
    pub look: Look,
}

impl Console {
    /// The console of this process.
    pub fn new(common: &Common) -> Self {
        let stdout = io::stdout();
        let room = if stdout.is_terminal() { Room::Columns(terminal_width()) } else { Room::Unlimited };
        let talk = match (common.quiet, common.verbose) {
            (true, _) => Talk::Quiet,
            (false, 0) => Talk::Normal,
            (false, _) => Talk::Verbose,
        };
        Console {
            store: common.store.clone(),
            talk,
            out: BufWriter::new(stdout.lock()),
            room,
            look: Look::from_environment(|name| env::var(name).ok()),
        }
    }

    /// The store for reading.
    pub fn reader(&self) -> Result<SqliteReader, Failure> {
        Ok(SqliteReader::open(&self.store)?)
    }

    /// The store for writing. It must exist: only `run` makes one.
    pub fn writer(&self) -> Result<SqliteStore, Failure> {
        self.reader()?;
        Ok(SqliteStore::open(&self.store)?)
    }

    /// Says something to the person, on standard error; nothing with `-q`.
    pub fn say(&mut self, text: &str) {
        if self.talk != Talk::Quiet {
            // Whoever closed standard error does not want to hear it.
            let _ = writeln!(io::stderr(), "{text}");
        }
    }

    /// Prints `json` as the one line of the result.
    pub fn json(&mut self, json: &impl Serialize) -> Result<(), Failure> {
        let text = serde_json::to_string(json)?;
        Ok(writeln!(self.out, "{text}")?)
    }

    /// Prints a table.
    pub fn table(&mut self, columns: &[Column]) -> Result<(), Failure> {
        Ok(write_table(&mut self.out, columns, self.room, self.look.charset.cut())?)
    }

    /// Prints the last bytes.
    pub fn finish(&mut self) -> Result<(), Failure> {
        Ok(self.out.flush()?)
    }
}

impl From<bool> for OutputForm {
    fn from(json: bool) -> Self {
        if json { OutputForm::Json } else { OutputForm::Text }
    }
}

fn terminal_width() -> usize {
    let asked = env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok()).filter(|columns| *columns > 0);
    asked.or_else(|| crossterm::terminal::size().ok().map(|(columns, _)| usize::from(columns))).filter(|columns| *columns > 0).unwrap_or(80)
}

/// Whether a study's runner lives; on another host nobody can tell, and it is taken to.
pub fn life(holder: &Holder) -> HolderLife {
    if holder.host != processes::host() || processes::is_alive(holder.pid, holder.pid_started) { HolderLife::Alive } else { HolderLife::Dead }
}

/// The path as it is shown: relative to the current directory where it lies below it.
pub fn shown(path: &Path) -> String {
    let below = env::current_dir().ok().and_then(|current| path.strip_prefix(current).ok().map(Path::to_owned));
    below.unwrap_or_else(|| path.to_owned()).display().to_string()
}
