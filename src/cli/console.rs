//! The console of a verb: the store, the output streams, and their formatting.

use std::cell::Cell;
use std::env;
use std::ffi::OsString;
use std::io::{self, BufRead, IsTerminal, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};
use serde::Serialize;

use super::exit::{Exit, Failure};
use super::foreground::Foreground;
use super::output::{Output, Paging};
use super::{Common, DEFAULT_STORE};
use crate::app::find;
use crate::config::shown::{self, lines, one_line};
use crate::config::{self, Diagnostics, shell};
use crate::report::table::{AvailableWidth, Column, write_table};
use crate::report::wording::width;
use crate::storage::StudySummary;
use crate::storage::address::absolute;
use crate::storage::any::{AnyReader, AnyStore};
use crate::storage::sqlite::{Migrated, OtherName, other_name};
use crate::study::counted::count;
use crate::tracking::Credentials;
use crate::tui::{Palette, Theme};

/// Credentials of tracking servers from the environment.
pub fn credentials() -> Credentials {
    Credentials::from_environment(|name| env::var(name).ok())
}

/// Verbosity on standard error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Talk {
    /// Errors only (`-q`).
    Quiet,
    /// Normal messages.
    Normal,
    /// More (`-v`).
    Verbose,
}

/// The store's path, the output streams, and the terminal's properties.
pub struct Console {
    /// The store's path.
    pub store: PathBuf,
    /// Whether the command line or the environment names it.
    pub is_store_named: bool,
    /// Verbosity.
    pub talk: Talk,
    /// Results go here; finished by [`Console::finish`].
    pub out: Output,
    /// The width of tables.
    pub room: AvailableWidth,
    /// Characters and colours of the output.
    pub look: Theme,
    /// The process that waits at the terminal, if this one is its run.
    pub foreground: Option<Foreground>,
    paging: Option<Paging>,
    /// Whether standard error is skipped while its reader stalls.
    drops_when_stalled: bool,
    /// Whether the reader of standard error has stalled.
    is_stalled: Cell<bool>,
}

/// The output of `--json`.
#[derive(Serialize)]
struct Versioned<'a, T> {
    version: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    study: Option<&'a str>,
    #[serde(flatten)]
    answer: &'a T,
}

/// Time to wait for a stalled reader of standard output or standard error, for output that a run
/// does not depend on.
const STALL_TIMEOUT: Duration = Duration::from_millis(500);

/// Width of the titles of facts.
const FACT: usize = 12;

/// Width of drawings without a terminal.
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
        let look =
            Theme { palette: palette(variable, is_terminal), ..Theme::from_environment(variable) };
        let is_paged = is_terminal && !common.no_pager && io::stdin().is_terminal();
        Console {
            store: common.store.clone(),
            is_store_named: names_store(),
            talk,
            out: Output::new(),
            room: if is_terminal && !common.wide {
                AvailableWidth::Columns(columns)
            } else {
                AvailableWidth::Unlimited
            },
            look,
            foreground: None,
            paging: if is_paged {
                Paging::from_environment(variable, (columns, rows))
            } else {
                None
            },
            drops_when_stalled: false,
            is_stalled: Cell::new(false),
        }
    }

    /// Stops waiting for readers: output to stalled ones is dropped.
    pub fn drop_output_of_stalled_readers(&mut self) {
        self.drops_when_stalled = true;
        if !has_room(io::stdout()) {
            self.out.give_up();
        }
    }

    /// Sends output that is longer than the terminal through the pager.
    pub fn page(&mut self) {
        if let Some(paging) = self.paging.take() {
            self.out.page(paging);
        }
    }

    /// Width for drawings: the terminal's, 80 columns in a pipe.
    pub fn columns(&self) -> u16 {
        let columns = if io::stdout().is_terminal() { terminal_size().0 } else { PIPE_COLUMNS };
        u16::try_from(columns).unwrap_or(u16::MAX)
    }

    /// A suggested command in backticks, with the store if it is not the default: `hpsearch best
    /// digits`.
    pub fn next(&self, words: &str) -> String {
        format!("`hpsearch {words}{}`", self.store_option())
    }

    /// ` --store PATH`, if the store is not the default.
    pub fn store_option(&self) -> String {
        if self.store == Path::new(DEFAULT_STORE) {
            String::new()
        } else {
            format!(" --store {}", typed(&self.store))
        }
    }

    /// The store for reading.
    pub fn reader(&self) -> Result<AnyReader, Failure> {
        let reader = AnyReader::open(&self.store)?;
        self.print_migration(reader.migrated());
        Ok(reader)
    }

    /// The store for reading, if there is one.
    pub fn reader_if_there(&self) -> Result<Option<AnyReader>, Failure> {
        let reader = AnyReader::open_if_there(&self.store)?;
        self.print_migration(reader.as_ref().and_then(AnyReader::migrated));
        Ok(reader)
    }

    /// Its address, of a file absolute.
    pub fn absolute_store(&self) -> io::Result<PathBuf> {
        absolute(&self.store)
    }

    /// Opens the store for reading, and finds the study of a command line; see [`find::study`].
    pub fn study(&self, named: Option<&str>) -> Result<(AnyReader, StudySummary), Failure> {
        let reader = self.reader()?;
        let study = find::study(&reader, named)?;
        Ok((reader, study))
    }

    /// Opens the store for writing. It must exist: only `run` creates one.
    pub fn writer(&self) -> Result<AnyStore, Failure> {
        self.reader()?;
        self.warn_of_other_name(other_name(&self.store));
        Ok(AnyStore::open_existing(&self.store)?)
    }

    /// Warns of another name of the store.
    pub fn warn_of_other_name(&self, name: Option<OtherName>) {
        if let Some(name) = name {
            self.say(&format!("warning: {}", of_other_name(&self.store, name)));
        }
    }

    /// Reports a migration of the store, the path of its copy, and what that still contains.
    pub fn print_migration(&self, migrated: Option<&Migrated>) {
        let Some(Migrated { from, copy, held_values }) = migrated else { return };
        let copy = copy.display();
        self.say(&format!(
            "the store was migrated from schema version {from}; \
            `{copy}` is a copy of it as it was"
        ));
        if *held_values {
            self.say(&format!(
                "the values of `[command] env`, which that version stored, were erased from the \
                 store; `{copy}` still holds them: remove it once \
                 the store is in order"
            ));
        }
    }

    /// Reports why something is not done, also with `-q`.
    pub fn complain(&self, text: &str) {
        self.print_lines(&lines(text));
    }

    /// Prints a message on standard error, wrapped at words on a terminal; nothing with `-q`.
    pub fn say(&self, text: &str) {
        self.print_message(&lines(text));
    }

    /// Prints a message also with `-q`: an error, or what a run waits for.
    pub fn say_anyway(&self, text: &str) {
        self.print_lines(&lines(text));
    }

    /// Prints a message that must not block a run on a stalled reader.
    pub fn mention(&self, text: &str) {
        if has_room(io::stderr()) {
            self.say(text);
        }
    }

    /// Prints the warnings of a study file; nothing with `-q`.
    pub fn warn(&self, warnings: &Diagnostics) {
        if !warnings.is_empty() {
            self.print_message(warnings.render(config::Look::of_stderr()).trim_end());
        }
    }

    fn print_message(&self, text: &str) {
        if self.talk != Talk::Quiet {
            self.print_lines(text);
        }
    }

    fn print_lines(&self, text: &str) {
        if self.is_stalled.get() {
            return;
        }
        if self.drops_when_stalled && !has_room(io::stderr()) {
            // Further output is dropped as well.
            self.is_stalled.set(true);
            return;
        }
        let columns = if io::stderr().is_terminal() { terminal_size().0 } else { usize::MAX };
        for line in text.lines() {
            // Text with its own layout is not wrapped.
            let lines =
                if line.starts_with(' ') { vec![line.to_owned()] } else { wrapped(line, columns) };
            for line in lines {
                // A closed standard error is ignored.
                let _ = writeln!(io::stderr(), "{line}");
            }
        }
    }

    /// Prints the JSON result: one object on one line, with its version and, if it is about a
    /// study, the study's name first.
    pub fn json(&mut self, study: Option<&str>, answer: &impl Serialize) -> Result<Exit, Failure> {
        self.json_of_version(1, study, answer)
    }

    /// The same as text, for a file.
    pub fn json_text(&self, answer: &impl Serialize) -> Result<String, Failure> {
        Ok(format!("{}\n", serde_json::to_string(&Versioned { version: 1, study: None, answer })?))
    }

    /// The same with a later version of the format.
    pub fn json_of_version(
        &mut self,
        version: u32,
        study: Option<&str>,
        answer: &impl Serialize,
    ) -> Result<Exit, Failure> {
        let text = serde_json::to_string(&Versioned { version, study, answer })?;
        writeln!(self.out, "{}", shown::json(&text))?;
        Ok(Exit::Done)
    }

    /// Prints a line `title  text`; on a terminal long texts are wrapped and indented.
    pub fn fact(&mut self, title: &str, text: &str) -> Result<(), Failure> {
        const TITLE: usize = FACT - 1;
        self.hanging(&format!("{title:<TITLE$} "), FACT, text)
    }

    /// Prints `begin` and the text; on a terminal long texts are wrapped and indented.
    pub fn hanging(&mut self, begin: &str, indent: usize, text: &str) -> Result<(), Failure> {
        let text = one_line(text);
        let lines = match self.room {
            AvailableWidth::Columns(columns) => {
                wrapped(&text, columns.saturating_sub(indent.max(width(begin))).max(20))
            }
            AvailableWidth::Unlimited => vec![text],
        };
        for (index, line) in lines.iter().enumerate() {
            let before = if index == 0 { begin.to_owned() } else { " ".repeat(indent) };
            writeln!(self.out, "{before}{line}")?;
        }
        Ok(())
    }

    /// Prints a table; reports columns dropped for lack of space.
    pub fn table(&mut self, columns: &[Column]) -> Result<(), Failure> {
        let left_out = write_table(&mut self.out, columns, self.room, self.look.charset.cut())?;
        if left_out > 0 {
            writeln!(self.out, "{} left out: --wide shows all", count(left_out as u64, "column"))?;
        }
        Ok(())
    }

    /// Flushes the output, and waits for the pager.
    pub fn finish(&mut self) -> Result<(), Failure> {
        Ok(self.out.finish()?)
    }
}

/// Whether an option or the environment names a store.
fn names_store() -> bool {
    let is_option = |word: OsString| {
        word.to_str().is_some_and(|word| word == "--store" || word.starts_with("--store="))
    };
    env::args_os().any(is_option)
        || env::var_os("HPSEARCH_STORE").is_some_and(|store| !store.is_empty())
}

/// A path quoted for a shell.
pub fn typed(path: &Path) -> String {
    one_line(&shell::quoted(&[path.display().to_string()]))
}

/// Whether a stream accepts output within a short time.
fn has_room(stream: impl AsFd) -> bool {
    let mut ready = [PollFd::new(&stream, PollFlags::OUT)];
    let timeout = Timespec::try_from(STALL_TIMEOUT).ok();
    // If polling fails, it is assumed to.
    rustix::event::poll(&mut ready, timeout.as_ref()).map_or(true, |ready| ready > 0)
}

/// Columns and rows of the terminal; 80 by 24 if unknown.
pub(super) fn terminal_size() -> (usize, usize) {
    let asked = env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    let (columns, rows) = crossterm::terminal::size()
        .map_or((0, 0), |(columns, rows)| (usize::from(columns), usize::from(rows)));
    let known = |size: usize, otherwise| if size > 0 { size } else { otherwise };
    (known(asked.unwrap_or(columns), PIPE_COLUMNS), known(rows, 24))
}

/// Whether output is coloured: never with `NO_COLOR`, always with `CLICOLOR_FORCE`, else on
/// terminals that support it.
fn palette(variable: impl Fn(&str) -> Option<String>, is_terminal: bool) -> Palette {
    let is_set = |name: &str| variable(name).is_some_and(|value| !value.is_empty());
    let is_forced =
        variable("CLICOLOR_FORCE").is_some_and(|value| !value.is_empty() && value != "0");
    let is_dumb = variable("TERM").is_some_and(|term| is_dumb(&term));
    let is_refused = variable("CLICOLOR").is_some_and(|value| value == "0");
    if !is_set("NO_COLOR") && (is_forced || (is_terminal && !is_dumb && !is_refused)) {
        Palette::Colours
    } else {
        Palette::Monochrome
    }
}

/// The text wrapped to this many columns, at spaces if possible.
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

/// Whether the user can be asked: terminals for both question and answer.
pub fn can_ask() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// Asks a question; returns the trimmed answer, `None` at the end of the input.
pub fn ask(question: &str) -> io::Result<Option<String>> {
    io::stderr().write_all(question.as_bytes())?;
    let mut answer = String::new();
    let is_answered = io::stdin().lock().read_line(&mut answer)? > 0;
    Ok(is_answered.then(|| answer.trim().to_owned()))
}

/// Whether the answer to a question is yes.
pub fn says_yes(question: &str) -> io::Result<bool> {
    let answer = ask(question)?.unwrap_or_default();
    Ok(["y", "yes"].iter().any(|yes| answer.eq_ignore_ascii_case(yes)))
}

/// Whether there is a terminal for screens, with cursor control and keys.
pub(super) fn can_draw() -> bool {
    io::stdout().is_terminal()
        && io::stdin().is_terminal()
        && !is_dumb(&env::var("TERM").unwrap_or_default())
}

/// Whether this type of terminal supports lines only.
pub(super) fn is_dumb(term: &str) -> bool {
    term == "dumb"
}

/// What another name of the store means, and what to do instead.
pub fn of_other_name(store: &Path, name: OtherName) -> String {
    let path = shown(store);
    match name {
        OtherName::HardLink => format!(
            "the store `{path}` has other names (hard links), as after `cp -l`: opened by one of \
             them while it is in use, it is damaged; make copies with `sqlite3 '{path}' \
             \".backup COPY\"`"
        ),
        OtherName::Mount => format!(
            "the store `{path}` is mounted without its directory: opened by its other name while \
             it is in use, it is damaged; mount the directory"
        ),
    }
}

/// A path for display: relative if it is below the current directory.
pub fn shown(path: &Path) -> String {
    let below = env::current_dir()
        .ok()
        .and_then(|current| path.strip_prefix(current).ok().map(Path::to_owned))
        .map(|below| if below.as_os_str().is_empty() { ".".into() } else { below });
    one_line(&below.unwrap_or_else(|| path.to_owned()).display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_below_the_current_directory_are_relative_to_it() {
        let current = env::current_dir().unwrap();
        assert_eq!(shown(&current), ".");
        assert_eq!(shown(&current.join("runs/files")), "runs/files");
        assert_eq!(shown(Path::new("/somewhere/else")), "/somewhere/else");
    }

    #[test]
    fn long_texts_are_broken_at_spaces() {
        assert_eq!(wrapped("one two three", 8), ["one two", "three"]);
        assert_eq!(wrapped("a-very-long-word x", 8), ["a-very-long-word", "x"]);
        assert_eq!(wrapped("", 8), [""]);
    }

    #[test]
    fn colours_are_for_terminals_unless_the_environment_says_otherwise() {
        let palette = |set: &[(&str, &str)], is_terminal| {
            let variable = |name: &str| {
                set.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
            };
            palette(variable, is_terminal) == Palette::Colours
        };
        for (set, is_terminal, colours) in [
            (&[][..], true, true),
            (&[], false, false),
            (&[("CLICOLOR_FORCE", "1")], false, true),
            (&[("CLICOLOR_FORCE", "0")], false, false),
            (&[("NO_COLOR", "1"), ("CLICOLOR_FORCE", "1")], true, false),
            (&[("NO_COLOR", "")], true, true),
            (&[("TERM", "dumb")], true, false),
            (&[("CLICOLOR", "0")], true, false),
        ] {
            assert_eq!(palette(set, is_terminal), colours, "{set:?} {is_terminal}");
        }
    }
}
