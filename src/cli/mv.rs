//! `hpsearch mv`: renames a study, moves tracked runs to another one, or archives studies.

mod runs;

use std::path::Path;

use clap::Args;

use super::{Console, Exit, Failure};
use crate::app::find;
use crate::app::find::is_archived;
use crate::app::rename_study::{archive, rename_study};
use crate::report::wording::one_line;

const EXAMPLES: &str = "\
Examples:
  hpsearch mv digits digits-2024       another name; then change the study file
  hpsearch mv runs baseline 4 --to old tracked runs, to another study
  hpsearch mv runs/baseline --to old   the same, as other verbs address a run
  hpsearch mv --archive digits         `hpsearch ls` leaves it out from now on
  hpsearch mv --unarchive digits       and lists it again

The files of a renamed study stay where they are. A study can be renamed only
while it is not running; it can be archived at any time, and then has the tag
`archived`.

A tracked run that has ended moves with all its data. It gets the next number in
the other study, which is created if needed and must have the same metric and
direction; a name that is taken gets a number.";

/// Arguments of `hpsearch mv`.
#[derive(Clone, Debug, Args)]
#[command(
    after_help = EXAMPLES,
    override_usage = "hpsearch mv [OPTIONS] <STUDY> <NEW>\n       \
        hpsearch mv [OPTIONS] <STUDY> <RUN>... --to <OTHER>\n       \
        hpsearch mv --archive <STUDY>...\n       hpsearch mv --unarchive <STUDY>..."
)]
pub struct MvArguments {
    /// The study, by name or file, and its new name; with --to, tracked runs of it; with --archive,
    /// the studies
    #[arg(value_name = "STUDY, RUN", required = true, num_args = 1..)]
    pub words: Vec<String>,
    /// Move these tracked runs to this study
    #[arg(long, value_name = "OTHER")]
    pub to: Option<String>,
    /// With --to: only list what would be moved
    #[arg(long, requires = "to")]
    pub dry_run: bool,
    /// With --to: move them without asking
    #[arg(long, requires = "to", conflicts_with = "dry_run")]
    pub yes: bool,
    /// Archive studies: `hpsearch ls` and `--all` leave them out
    #[arg(long, conflicts_with = "to")]
    pub archive: bool,
    /// List archived studies again
    #[arg(long, conflicts_with_all = ["archive", "to"])]
    pub unarchive: bool,
}

/// Renames or archives.
pub fn mv(arguments: &MvArguments, console: &mut Console) -> Result<Exit, Failure> {
    if arguments.archive || arguments.unarchive {
        return put_away(&arguments.words, arguments.archive, console);
    }
    if let Some(to) = &arguments.to {
        return runs::move_to(to, arguments, console);
    }
    let [named, new] = arguments.words.as_slice() else {
        return Err(Failure::usage("a study and its new name are needed").help(
            "write `hpsearch mv STUDY NEW`; `hpsearch mv STUDY RUN --to OTHER` moves a run",
        ));
    };
    let mut store = console.writer()?;
    let study = find::study(&store, Some(named))?;
    let path = console.store.clone();
    rename_study(&mut store, &path, &study, new)?;
    let (old, new) = (one_line(&study.spec.name), one_line(new));
    if study.spec.is_tracked() {
        console.say(&format!("`{old}` is `{new}` now: `hpsearch track --study {new}` adds a run"));
        return Ok(Exit::Done);
    }
    console.say(&format!(
        "`{old}` is `{new}` now. Write `name = \"{new}\"` under [study] in its study file, or \
         `hpsearch run` starts a new study `{old}` from it"
    ));
    Ok(Exit::Done)
}

fn put_away(named: &[String], present: bool, console: &mut Console) -> Result<Exit, Failure> {
    let mut store = console.writer()?;
    let path: &Path = &console.store.clone();
    let studies: Vec<_> =
        named.iter().map(|named| find::study(&store, Some(named))).collect::<Result<_, _>>()?;
    for study in studies {
        let name = one_line(&study.spec.name);
        if is_archived(&study) == present {
            let is = if present { "archived already" } else { "not archived" };
            console.say(&format!("`{name}` is {is}"));
            continue;
        }
        archive(&mut store, path, &study, present)?;
        let done = if present { "archived: `hpsearch ls --all` lists it" } else { "listed again" };
        console.say(&format!("`{name}` is {done}"));
    }
    Ok(Exit::Done)
}
