//! `hpsearch copy`: copies studies to another store.

use std::path::{Path, PathBuf};

use clap::Args;
use clap::builder::{OsStringValueParser, TypedValueParser as _};

use super::console::shown;
use super::{Console, Exit, Failure};
use crate::app::AppError;
use crate::app::copy_study::{Change, Copied, copy_study};
use crate::app::find;
use crate::report::wording::one_line;
use crate::storage::StorageError;
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
`.copy-of-STUDY`; the next one replaces it.

An earlier copy is brought up to date, or left as it is if nothing is new. A
copy that has continued by itself, or another study of that name, is not
changed: that study is refused with exit code 2, and the others are copied.";

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

/// Copies them. Where one cannot be copied, the others are, and the exit code is that of the first
/// error.
pub fn copy(arguments: &CopyArguments, console: &mut Console) -> Result<Exit, Failure> {
    let mut from = console.writer()?;
    let studies: Vec<_> = arguments
        .studies
        .iter()
        .map(|named| find::study(&from, Some(named)))
        .collect::<Result<_, _>>()?;
    let (mut to, mut failed) = (None, Vec::new());
    for study in &studies {
        match copy_study((&mut from, &console.store), study, (&mut to, &arguments.to)) {
            Ok(copied) => say_copied(&study.spec.name, &copied, &arguments.to, console),
            Err(error) if studies.len() > 1 && is_of_one_study(&error) => {
                let failure = Failure::from(error).in_store(&console.store_option());
                console.complain(&failure.to_string());
                failed.push(failure.exit());
            }
            Err(error) => return Err(error.into()),
        }
    }
    let Some(exit) = failed.first() else { return Ok(Exit::Done) };
    let (refused, all) = (failed.len(), studies.len());
    console.complain(&format!("{refused} of {all} studies could not be copied"));
    Ok(*exit)
}

/// Whether an error says nothing of other studies.
fn is_of_one_study(error: &AppError) -> bool {
    matches!(
        error,
        AppError::CopyExists { .. }
            | AppError::CopyOfRemoved { .. }
            | AppError::CopyDiffers { .. }
            | AppError::Storage(StorageError::Busy { .. } | StorageError::HeldElsewhere { .. })
    )
}

fn say_copied(study: &str, copied: &Copied, to: &Path, console: &Console) {
    for (directory, error) in &copied.unmarked {
        console.complain(&one_line(&format!(
            "`{}` cannot be marked as shared with the copy ({error}): do not remove the original \
             while you need the copy's checkpoints",
            shown(directory)
        )));
    }
    let (name, to) = (one_line(study), one_line(&shown(to)));
    let trials = count(copied.trials, "trial");
    let events = count(copied.events, "event");
    let series = copied.series;
    console.say(&match copied.change {
        Change::Added => format!(
            "`{name}` is now in `{to}`, too: {trials}, {events} and {series} series, compared with \
             the original"
        ),
        Change::Updated => format!(
            "`{name}` is brought up to date in `{to}`: {trials}, {events} and {series} series, \
             compared with the original"
        ),
        Change::None => format!(
            "`{name}` is in `{to}` already, as it is here: {trials} and {events}, nothing is copied"
        ),
    });
}
