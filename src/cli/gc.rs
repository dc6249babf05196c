//! `hpsearch gc`: removes files below the runs directory that no study needs.

use std::io::Write as _;

use clap::Args;
use serde::Serialize;

use super::console::{can_ask, says_yes, shown};
use super::{Console, Exit, Failure};
use crate::app::remove_runs::move_files;
use crate::app::study_state::life;
use crate::report::table::Columns;
use crate::report::wording::{HolderLife, bytes, one_line};
use crate::runner::garbage_collection::{
    Kind, OrphanedFile, Others, Stores, UnclaimedDirectory, orphaned_files, remove, settle_removed,
    unclaimed,
};
use crate::storage::StorageReader as _;
use crate::study::counted::count;

const EXAMPLES: &str = "\
Examples:
  hpsearch gc --dry-run            what would be removed, and how much it takes
  hpsearch gc                      the same, then asks
  hpsearch gc --yes                without asking

It removes files that a crash left half-written, checkpoints of finished trials
that the store does not list, files of trials and studies that it does not have,
and tokenised data that no study has used. Files of running, queued and paused
trials are kept, and so are logs and a command's own files. Studies may run
meanwhile.";

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
    let waiting = reader.removed_runs()?.iter().filter(|removed| removed.moved.is_some()).count();
    if !changes && waiting > 0 {
        console.say(&format!(
            "the files of {} wait to be moved to another study, which `gc --yes` does",
            count(waiting as u64, "run")
        ));
    }
    if changes && waiting > 0 {
        // A failed move does not prevent other removals.
        if let Err(error) = move_files(&mut console.writer()?, &store) {
            console.complain(&one_line(&error.with_remedy()));
        }
    }
    let stores = Stores {
        path: &store,
        reader: &reader,
        others: Others::beside(&store),
        is_alive: |held| life(held) == HolderLife::Alive,
    };
    if let Some(file) = &stores.others.unreadable {
        let file = one_line(&shown(file));
        console.say(&format!(
            "`{file}` may be a store and cannot be read: what may belong to its \
            studies is left alone"
        ));
    }
    if reader.identity()?.is_some_and(|id| stores.others.ids.contains(&id)) {
        console.say(
            "there is a copy of this store beside it: files that only one of the two knows are \
            left alone",
        );
    }
    for UnclaimedDirectory { directory, store } in unclaimed(&stores) {
        let (directory, store) = (one_line(&shown(&directory)), one_line(&shown(&store)));
        console.say(&format!(
            "`{directory}` belongs to a store that was at `{store}` and is not \
            there: if it is gone for good, remove it yourself"
        ));
    }
    let found = orphaned_files(&stores)?;
    let wants = if arguments.json {
        arguments.yes
    } else {
        list(&found, console)?;
        !found.is_empty() && !arguments.dry_run && (arguments.yes || agrees(&found)?)
    };
    let mut removed = Vec::new();
    if wants {
        remove(&stores, &found, |orphaned_file| removed.push(orphaned_file.clone()))?;
    }
    // Also where nothing was found: a removal may have been killed after its last file.
    if changes && !reader.removed_studies()?.is_empty() {
        settle_removed(&mut console.writer()?)?;
    }
    if arguments.json {
        let files = if wants { &removed } else { &found };
        return console.json(None, &GcJson { removed: wants, files, bytes: total(files) });
    }
    if wants {
        writeln!(console.out, "removed {}", in_words(&removed))?;
        if removed.len() < found.len() {
            console.say(&format!(
                "{} left: in use by now, or not owned by this store",
                count((found.len() - removed.len()) as u64, "orphaned file")
            ));
        }
    }
    Ok(Exit::Done)
}

/// `3 orphaned files, 2 MiB`
fn in_words(orphaned_files: &[OrphanedFile]) -> String {
    let size = bytes(total(orphaned_files));
    format!("{}, {size}", count(orphaned_files.len() as u64, "orphaned file"))
}

fn total(orphaned_files: &[OrphanedFile]) -> u64 {
    orphaned_files.iter().map(|orphaned_file| orphaned_file.bytes).sum()
}

fn list(found: &[OrphanedFile], console: &mut Console) -> Result<(), Failure> {
    if found.is_empty() {
        writeln!(console.out, "nothing to remove: everything there belongs to a study")?;
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
