//! `hpsearch gc`: removes files below the runs directory that no study needs.

use std::io::Write as _;
use std::path::Path;

use clap::Args;
use serde::Serialize;

use super::console::{can_ask, says_yes, shown};
use super::left_files::{print_left, why_kept};
use super::{Console, Exit, Failure};
use crate::app::collect_garbage::{self, Garbage};
use crate::report::table::Columns;
use crate::report::wording::{bytes, one_line};
use crate::runner::garbage_collection::{Foreign, ForeignDirectory, Kind, OrphanedFile};
use crate::study::counted::count;

const EXAMPLES: &str = "\
Examples:
  hpsearch gc --dry-run            what would be removed, and its size
  hpsearch gc                      the same, then asks
  hpsearch gc --yes                without asking

It removes files that a crash left half-written, checkpoints of finished trials
that the store does not list, files of trials and studies that it does not have,
and tokenised data that no study has used. Files of running, queued and paused
trials are kept, and so are logs and a command's own files. Studies may be
running.";

/// Arguments of `hpsearch gc`.
#[derive(Clone, Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct GcArguments {
    /// Only list what would be removed
    #[arg(long)]
    pub dry_run: bool,
    /// Remove without asking
    #[arg(long, conflicts_with = "dry_run")]
    pub yes: bool,
    /// Print JSON; removes only with --yes
    #[arg(long)]
    pub json: bool,
}

#[derive(Serialize)]
struct GcJson<'a> {
    /// Whether they were removed.
    removed: bool,
    files: &'a [OrphanedFile],
    bytes: u64,
}

/// Removes them, once the user confirms.
pub fn gc(arguments: &GcArguments, console: &mut Console) -> Result<Exit, Failure> {
    let store = console.absolute_store()?;
    let reader = console.reader()?;
    let changes = if arguments.json { arguments.yes } else { !arguments.dry_run };
    let waiting = collect_garbage::unfinished_moves(&reader)?;
    if !changes && waiting > 0 {
        console.say(&format!(
            "the files of {} wait to be moved to another study, which `gc --yes` does",
            count(waiting as u64, "run")
        ));
    }
    if changes && waiting > 0 {
        // A failed move does not prevent other removals.
        if let Err(error) = collect_garbage::finish_moves(&mut console.writer()?, &store) {
            console.complain(&one_line(&error.with_remedy()));
        }
    }
    let garbage = collect_garbage::find(&reader, &store)?;
    tell_what_is_left_alone(&garbage, console);
    let found = &garbage.files;
    let wants = if arguments.json {
        arguments.yes
    } else {
        let is_all_needed =
            !garbage.has_copy && garbage.unreadable.is_none() && garbage.foreign.is_empty();
        list(found, is_all_needed, console)?;
        !found.is_empty() && !arguments.dry_run && (arguments.yes || agrees(found)?)
    };
    let (removed, refused) = match wants {
        true => collect_garbage::remove(&reader, &store, found)?,
        false => (Vec::new(), Vec::new()),
    };
    print_left(&refused, console);
    if changes && collect_garbage::has_unfinished_removals(&reader)? {
        collect_garbage::finish_removals(&mut console.writer()?)?;
    }
    if arguments.json {
        let files = if wants { &removed } else { found };
        return console.json(None, &GcJson { removed: wants, files, bytes: total(files) });
    }
    if wants {
        writeln!(console.out, "removed {}", in_words(&removed))?;
        let others = found.len() - removed.len() - refused.len();
        if others > 0 {
            console.say(&format!(
                "{} left: in use by now, or not owned by this store",
                count(others as u64, "orphaned file")
            ));
        }
    }
    Ok(Exit::Done)
}

fn tell_what_is_left_alone(garbage: &Garbage, console: &Console) {
    if let Some(file) = &garbage.unreadable {
        let file = one_line(&shown(file));
        console.say(&format!(
            "`{file}` may be a store but cannot be read: what may belong to its studies is left \
             alone"
        ));
    }
    if garbage.has_copy {
        console.say(
            "there is a copy of this store beside it: files that only one of the two lists are \
             left alone",
        );
    }
    for ForeignDirectory { directory, why } in &garbage.foreign {
        let directory = one_line(&shown(directory));
        let path = |path: &Path| one_line(&shown(path));
        console.say(&match why {
            Foreign::StoreGone(store) => format!(
                "`{directory}` belongs to the store `{}`, which no longer exists: if that store is \
                 gone for good, remove the directory yourself",
                path(store)
            ),
            Foreign::OtherStore(store) => {
                format!("`{directory}` belongs to the store `{}`, and is left alone", path(store))
            }
            Foreign::Unmarked => format!(
                "`{directory}` has files of trials but no marker of a store, and is left alone: if \
                 you know that no study needs it, remove it yourself"
            ),
            Foreign::CopyOf(name) => format!(
                "`{directory}` is a copy of this store's directory `{}`, or was renamed, and is \
                 left alone: if you do not need it, remove it yourself",
                one_line(name)
            ),
            Foreign::Kept(why) => format!("`{directory}` is left alone: {}", why_kept(why)),
            Foreign::Refused(error) => format!(
                "`{directory}` is left alone: its marker cannot be read now ({error}); run the \
                 command again once that is settled"
            ),
            Foreign::Unreadable => format!(
                "`{directory}` has a marker that cannot be read, and is left alone: if you know \
                 that no study needs it, remove it yourself"
            ),
        });
    }
}

/// `3 orphaned files, 2 MiB`
fn in_words(orphaned_files: &[OrphanedFile]) -> String {
    let size = bytes(total(orphaned_files));
    format!("{}, {size}", count(orphaned_files.len() as u64, "orphaned file"))
}

fn total(orphaned_files: &[OrphanedFile]) -> u64 {
    orphaned_files.iter().map(|orphaned_file| orphaned_file.bytes).sum()
}

/// Lists them. `is_all_needed`: whether nothing else lies there that no study has.
fn list(found: &[OrphanedFile], is_all_needed: bool, console: &mut Console) -> Result<(), Failure> {
    if found.is_empty() {
        let rest = match is_all_needed {
            true => "everything there belongs to a study",
            false => "what is not this store's is left alone",
        };
        writeln!(console.out, "nothing to remove: {rest}")?;
        return Ok(());
    }
    let columns = Columns::of(found)
        .right("size", |orphaned_file| bytes(orphaned_file.bytes))
        .left("what", |orphaned_file| what(orphaned_file.kind))
        .left("where", |orphaned_file| one_line(&shown(&orphaned_file.path)));
    console.table(&columns.end())?;
    Ok(writeln!(console.out, "{}", in_words(found))?)
}

fn what(kind: Kind) -> &'static str {
    match kind {
        Kind::HalfWritten => "half-written",
        Kind::Checkpoint => "old checkpoint",
        Kind::Trial => "unknown trial",
        Kind::HiddenTrial => "hidden trial",
        Kind::RemovedRun => "removed run",
        Kind::Study => "unknown study",
        Kind::RemovedStudy => "removed study",
        Kind::Data => "unused data",
    }
}

fn agrees(found: &[OrphanedFile]) -> Result<bool, Failure> {
    if !can_ask() {
        let refusal = Failure::usage("removal cannot be confirmed without a terminal");
        return Err(refusal.help(
            "`hpsearch gc --yes` removes it without asking, `hpsearch gc --dry-run` lists it",
        ));
    }
    Ok(says_yes(&format!("Remove {}? [y/N] ", in_words(found)))?)
}
