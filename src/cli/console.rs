//! What every verb works with: where the store is, and what it may print where.

use std::env;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::exit::Failure;
use super::output::{Output, Paging};
use super::{Common, OutputForm};
use crate::config::shown::{self, lines, one_line};
use crate::config::{self, Diagnostics};
use crate::processes;
use crate::reporters::table::{Column, Room, write_table};
use crate::reporters::wording::{HolderLife, count, width};
use crate::storage::Holder;
use crate::storage::sqlite::{SqliteReader, SqliteStore};
use crate::tui::{Look, Palette};

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
    /// Results go here; finished by [`Console::finish`].
    pub out: Output,
    /// The width of tables.
    pub room: Room,
    /// The characters and colours of what is printed.
    pub look: Look,
    paging: Option<Paging>,
}

/// Columns of the titles of facts.
const FACT: usize = 12;

/// The width of what is drawn where no terminal says one.
const PIPE_COLUMNS: usize = 80;

impl Console {
    /// The console of this process.
    pub fn new(common: &Common) -> Self {
        let is_terminal = io::stdout().is_terminal();
        let variable = |name: &str| env::var(name).ok();
        let (columns, rows) = if is_terminal { terminal_size() } else { (PIPE_COLUMNS, 0) };
        let talk = match (common.quiet, common.verbose) {
            (true, _) => Talk::Quiet,
            (false, 0) => Talk::Normal,
            (false, _) => Talk::Verbose,
        };
        let look = Look { palette: palette(variable, is_terminal), ..Look::from_environment(variable) };
        let is_paged = is_terminal && !common.no_pager && io::stdin().is_terminal();
        Console {
            store: common.store.clone(),
            talk,
            out: Output::new(),
            room: if is_terminal && !common.wide { Room::Columns(columns) } else { Room::Unlimited },
            look,
            paging: if is_paged { Paging::from_environment(variable, (columns, rows)) } else { None },
        }
    }

    /// From now on, what is longer than the terminal goes through the person's pager.
    pub fn page(&mut self) {
        if let Some(paging) = self.paging.take() {
            self.out.page(paging);
        }
    }

    /// The width of what is drawn to fit: the terminal's, 80 columns in a pipe.
    pub fn columns(&self) -> usize {
        if io::stdout().is_terminal() { terminal_size().0 } else { PIPE_COLUMNS }
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

    /// Says something to the person, on standard error, where a terminal's lines are not broken in words; nothing with `-q`.
    pub fn say(&mut self, text: &str) {
        self.say_styled(&lines(text));
    }

    /// Says what a study file's user should know about it; nothing with `-q`.
    pub fn warn(&mut self, warnings: &Diagnostics) {
        if !warnings.is_empty() {
            self.say_styled(warnings.render(config::Look::of_stderr()).trim_end());
        }
    }

    fn say_styled(&mut self, text: &str) {
        if self.talk == Talk::Quiet {
            return;
        }
        let columns = if io::stderr().is_terminal() { terminal_size().0 } else { usize::MAX };
        for line in text.lines() {
            // What is laid out already stays as it is.
            let lines = if line.starts_with(' ') { vec![line.to_owned()] } else { wrapped(line, columns) };
            for line in lines {
                // Whoever closed standard error does not want to hear it.
                let _ = writeln!(io::stderr(), "{line}");
            }
        }
    }

    /// Prints `json` as the one line of the result.
    pub fn json(&mut self, json: &impl Serialize) -> Result<(), Failure> {
        let text = shown::json(&serde_json::to_string(json)?);
        Ok(writeln!(self.out, "{text}")?)
    }

    /// Prints a line of the form `title  text`; on a terminal a long text goes on below itself.
    pub fn fact(&mut self, title: &str, text: &str) -> Result<(), Failure> {
        self.hanging(&format!("{title:<FACT$}"), FACT, text)
    }

    /// Prints `begin` and the text; on a terminal a long text goes on below, indented.
    pub fn hanging(&mut self, begin: &str, indent: usize, text: &str) -> Result<(), Failure> {
        let text = one_line(text);
        let lines = match self.room {
            Room::Columns(columns) => wrapped(&text, columns.saturating_sub(indent.max(width(begin))).max(20)),
            Room::Unlimited => vec![text],
        };
        for (index, line) in lines.iter().enumerate() {
            let before = if index == 0 { begin.to_owned() } else { " ".repeat(indent) };
            writeln!(self.out, "{before}{line}")?;
        }
        Ok(())
    }

    /// Prints a table; columns that do not fit the terminal are said to be left out.
    pub fn table(&mut self, columns: &[Column]) -> Result<(), Failure> {
        let left_out = write_table(&mut self.out, columns, self.room, self.look.charset.cut())?;
        if left_out > 0 {
            writeln!(self.out, "{} left out: --wide shows all", count(left_out as u64, "column"))?;
        }
        Ok(())
    }

    /// Prints the last bytes, and waits for the pager.
    pub fn finish(&mut self) -> Result<(), Failure> {
        Ok(self.out.finish()?)
    }
}

impl From<bool> for OutputForm {
    fn from(json: bool) -> Self {
        if json { OutputForm::Json } else { OutputForm::Text }
    }
}

/// Columns and rows; what the system does not say is 80 by 24.
pub(super) fn terminal_size() -> (usize, usize) {
    let asked = env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    let (columns, rows) = crossterm::terminal::size().map_or((0, 0), |(columns, rows)| (usize::from(columns), usize::from(rows)));
    let known = |size: usize, otherwise| if size > 0 { size } else { otherwise };
    (known(asked.unwrap_or(columns), PIPE_COLUMNS), known(rows, 24))
}

/// Whether what is printed has colours: never with `NO_COLOR`, always with `CLICOLOR_FORCE`, else on terminals that have any.
fn palette(variable: impl Fn(&str) -> Option<String>, is_terminal: bool) -> Palette {
    let is_set = |name: &str| variable(name).is_some_and(|value| !value.is_empty());
    let is_forced = variable("CLICOLOR_FORCE").is_some_and(|value| !value.is_empty() && value != "0");
    let is_dumb = variable("TERM").is_some_and(|term| term == "dumb");
    let is_refused = variable("CLICOLOR").is_some_and(|value| value == "0");
    if !is_set("NO_COLOR") && (is_forced || (is_terminal && !is_dumb && !is_refused)) { Palette::Colours } else { Palette::Monochrome }
}

/// The text in lines of at most so many columns, broken at spaces where there are any.
fn wrapped(text: &str, columns: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) if width(line) + 1 + width(word) <= columns => *line += &format!(" {word}"),
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// Whether a study's runner lives; on another host nobody can tell, and it is taken to.
pub fn life(holder: &Holder) -> HolderLife {
    if holder.host != processes::host() || processes::is_alive(holder.pid, holder.pid_started) { HolderLife::Alive } else { HolderLife::Dead }
}

/// The path as it is shown: relative to the current directory where it lies below it.
pub fn shown(path: &Path) -> String {
    let below = env::current_dir().ok().and_then(|current| path.strip_prefix(current).ok().map(Path::to_owned));
    one_line(&below.unwrap_or_else(|| path.to_owned()).display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_broken_at_spaces() {
        assert_eq!(wrapped("one two three", 8), ["one two", "three"]);
        assert_eq!(wrapped("a-very-long-word x", 8), ["a-very-long-word", "x"]);
        assert_eq!(wrapped("", 8), [""]);
    }

    #[test]
    fn colours_are_for_terminals_unless_the_environment_says_otherwise() {
        let palette = |set: &[(&str, &str)], is_terminal| {
            let variable = |name: &str| set.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
            palette(variable, is_terminal) == Palette::Colours
        };
        assert!(palette(&[], true) && !palette(&[], false));
        assert!(palette(&[("CLICOLOR_FORCE", "1")], false) && !palette(&[("CLICOLOR_FORCE", "0")], false));
        assert!(!palette(&[("NO_COLOR", "1"), ("CLICOLOR_FORCE", "1")], true));
        assert!(palette(&[("NO_COLOR", "")], true));
        assert!(!palette(&[("TERM", "dumb")], true) && !palette(&[("CLICOLOR", "0")], true));
    }
}
