//! `hpsearch man`: the manual pages, generated from the definitions of the help.

use std::fs;
use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::process::{Command as Process, Stdio};

use clap::{Args, Command, CommandFactory};
use clap_mangen::Man;

use super::CommandLine;
use super::console::{Console, shown};
use super::exit::{Exit, Failure};
use super::usage::unknown_verb;
use crate::study::counted::count;

const EXAMPLES: &str = "\
Examples:
  hpsearch man                                 read the manual
  hpsearch man run                             the page of one verb
  hpsearch man --dir ~/.local/share/man/man1   install all pages, for man(1)";

/// Arguments of `hpsearch man`.
#[derive(Clone, Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct ManArguments {
    /// The verb; the page of hpsearch itself without one
    pub verb: Option<String>,
    /// Write all pages into this directory
    #[arg(long, value_name = "DIR", conflicts_with = "verb")]
    pub dir: Option<PathBuf>,
}

/// Shows a page, or writes all.
pub fn man(arguments: &ManArguments, console: &mut Console) -> Result<Exit, Failure> {
    let mut command = CommandLine::command();
    command.build();
    if let Some(directory) = &arguments.dir {
        fs::create_dir_all(directory).map_err(|error| {
            Failure::new(Exit::Usage, error)
                .help(format!("`{}` cannot be made: choose another directory", directory.display()))
        })?;
        let pages = pages(&command);
        for (name, page) in &pages {
            fs::write(directory.join(name), page)?;
        }
        console.say(&format!(
            "{} written to {}",
            count(pages.len() as u64, "page"),
            shown(directory)
        ));
        return Ok(Exit::Done);
    }
    let page = match &arguments.verb {
        None => rendered(command)?,
        Some(verb) => {
            let known = command.find_subcommand(verb);
            rendered(known.ok_or_else(|| unknown_verb(&command, verb))?.clone())?
        }
    };
    if !io::stdout().is_terminal() || !formatted(&page) {
        console.out.write_all(&page)?;
    }
    Ok(Exit::Done)
}

/// All pages: file names and texts.
fn pages(command: &Command) -> Vec<(String, Vec<u8>)> {
    std::iter::once(command)
        .chain(command.get_subcommands())
        .filter_map(|command| {
            Some((Man::new(command.clone()).get_filename(), rendered(command.clone()).ok()?))
        })
        .collect()
}

fn rendered(command: Command) -> io::Result<Vec<u8>> {
    let mut page = Vec::new();
    let title = command.get_display_name().unwrap_or_else(|| command.get_name()).to_uppercase();
    Man::new(command)
        .title(title)
        .manual("hpsearch")
        .source(concat!("hpsearch ", env!("CARGO_PKG_VERSION")))
        .render(&mut page)?;
    // The text after the options begins with the examples.
    let text =
        String::from_utf8_lossy(&page).replacen(".SH EXTRA\nExamples:\n", ".SH EXAMPLES\n", 1);
    Ok(text.into_bytes())
}

/// Shows the page with man(1); returns whether that worked.
fn formatted(page: &[u8]) -> bool {
    let Ok(mut reader) = Process::new("man").args(["-l", "-"]).stdin(Stdio::piped()).spawn() else {
        return false;
    };
    // The reader may quit early.
    let _left_early = reader.stdin.take().map(|mut stdin| stdin.write_all(page));
    reader.wait().is_ok_and(|status| status.success())
}
