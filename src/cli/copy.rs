//! `hpsearch copy`: copies studies to another store.

use std::path::PathBuf;

use clap::Args;
use clap::builder::{OsStringValueParser, TypedValueParser as _};

use super::console::shown;
use super::{Console, Exit, Failure};
use crate::app::copy_study::copy_study;
use crate::app::find;
use crate::report::wording::one_line;
use crate::storage::address::as_given;
use crate::study::counted::count;

const EXAMPLES: &str = "\
Examples:
  hpsearch copy digits --to other.db                       to another file
  hpsearch copy digits sms --to postgres://me@db/lab       to a server
  hpsearch copy digits --store postgres://me@db/lab --to runs/hpsearch.db

The journal, with its times, and all series are written to the other store and
compared with the original. A study can be copied only while it is not running.
Files of trials stay where they are: the copy refers to its checkpoints by path,
and has no logs or artifact files unless both stores are in one directory. The
original is kept. An interrupted copy stays in the other store as
`.copy-of-STUDY`; the next one replaces it.";

/// Arguments of `hpsearch copy`.
#[derive(Clone, Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct CopyArguments {
    /// The studies, by name or file
    #[arg(value_name = "STUDY", required = true)]
    pub studies: Vec<String>,
    /// The other store, a path or postgres://..; a file is created if missing
    #[arg(
        long,
        value_name = "STORE",
        value_parser = OsStringValueParser::new().map(|store| as_given(store.into())),
        value_hint = clap::ValueHint::FilePath
    )]
    pub to: PathBuf,
}

/// Copies them.
pub fn copy(arguments: &CopyArguments, console: &mut Console) -> Result<Exit, Failure> {
    let mut from = console.writer()?;
    let studies: Vec<_> = arguments
        .studies
        .iter()
        .map(|named| find::study(&from, Some(named)))
        .collect::<Result<_, _>>()?;
    let mut to = None;
    for study in studies {
        let copied = copy_study((&mut from, &console.store), &study, (&mut to, &arguments.to))?;
        for (directory, error) in &copied.unmarked {
            console.complain(&one_line(&format!(
                "`{}` cannot be marked as shared with the copy ({error}): do not remove the \
                 original while you need the copy's checkpoints",
                shown(directory)
            )));
        }
        console.say(&format!(
            "`{}` is now in `{}`, too: {}, {} and {} series, compared with the original",
            one_line(&study.spec.name),
            one_line(&shown(&arguments.to)),
            count(copied.trials, "trial"),
            count(copied.events, "event"),
            copied.series,
        ));
    }
    Ok(Exit::Done)
}
