//! `hpsearch rm`: removes studies and tracked runs with their files, and hides trials.

mod trials;

use std::io::Write as _;
use std::path::PathBuf;

use clap::Args;
use serde::Serialize;

use super::console::{can_ask, says_yes, shown};
use super::left_files::print_left;
use super::selection::{changed_trials, with_filters};
use super::{Console, Exit, Failure};
use crate::app::find::{self, Meant};
use crate::app::left_files::LeftFile;
use crate::app::remove_study::{Removal, plan, remove_files, remove_study};
use crate::app::study_state::has_runner;
use crate::report::wording::{bytes, one_line};
use crate::storage::any::AnyStore;
use crate::study::counted::count;

const EXAMPLES: &str = "\
Examples:
  hpsearch rm digits --dry-run     what would be removed, and its size
  hpsearch rm digits               the same, then asks
  hpsearch rm digits sms --yes     two studies, without asking
  hpsearch rm digits 3 7-9         trials: hidden, and their files removed
  hpsearch rm runs baseline 4      runs of `hpsearch track`, by name and number
  hpsearch rm runs/baseline        the same, as other verbs address a run
  hpsearch rm runs --where 'state:failed number<500'

Removing a study also removes its trials, metrics, decisions, logs and
checkpoints. This cannot be undone. Checkpoints that its command saved elsewhere
are kept, and so is the study file: `hpsearch run` starts a new study from it.
The store's file keeps its size; the freed space is reused first.

A trial of a search stays in the journal, since later proposals depend on it:
tables leave it out (`trials --hidden` lists it), and it is never the best.

A tracked run, or a study of tracked runs, is removed with everything it
recorded, and the store's file is rewritten without it. Run numbers are not
reused; the journal records only the removal. A run that is still being tracked
must end first.";

/// Arguments of `hpsearch rm`.
#[derive(Clone, Debug, Args)]
#[command(
    after_help = with_filters(EXAMPLES),
    override_usage = "hpsearch rm [OPTIONS] <STUDY>...\n       \
                      hpsearch rm [OPTIONS] <STUDY> <TRIAL>...\n       \
                      hpsearch rm [OPTIONS] <STUDY> --where <FILTER>"
)]
pub struct RmArguments {
    /// Studies, by name or file, or one study and trials of it (7 or 3,5 or 0-4 or a run's name)
    #[arg(value_name = "STUDY, TRIAL", required = true)]
    pub words: Vec<String>,
    /// The trials or runs of one study that match the filter (see below)
    #[arg(long = "where", value_name = "FILTER", allow_hyphen_values = true)]
    pub filter: Option<String>,
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
struct RmJson<'a> {
    /// Whether they were removed.
    removed: bool,
    studies: Vec<RemovedStudyJson<'a>>,
    /// Files and directories of removed studies that are still there.
    left: &'a [PathBuf],
}

#[derive(Serialize)]
struct RemovedStudyJson<'a> {
    study: &'a str,
    trials: u64,
    checkpoints: u64,
    /// Disk usage of its files.
    bytes: u64,
    directories: &'a [PathBuf],
}

impl<'a> From<&'a Removal> for RemovedStudyJson<'a> {
    fn from(removal: &'a Removal) -> Self {
        RemovedStudyJson {
            study: &removal.study.spec.name,
            trials: removal.study.counts.total(),
            checkpoints: removal.checkpoints,
            bytes: removal.bytes,
            directories: &removal.directories,
        }
    }
}

/// Removes them, once the user confirms.
pub fn rm(arguments: &RmArguments, console: &mut Console) -> Result<Exit, Failure> {
    let mut removals: Vec<Removal> = Vec::new();
    {
        let reader = console.reader()?;
        let meant = match &arguments.filter {
            None => find::studies_or_trials(&reader, &arguments.words)?,
            Some(filter) => {
                Meant::Trials(vec![changed_trials(&reader, &arguments.words, filter, console)?])
            }
        };
        let studies = match meant {
            Meant::Studies(studies) => studies,
            Meant::Trials(trials) => {
                drop(reader);
                return trials::remove(trials, arguments, console);
            }
        };
        for study in studies {
            if has_runner(&study) {
                return Err(running(&study.spec.name, console));
            }
            removals.push(plan(&reader, &console.store, study)?);
        }
    }
    let wants = if arguments.json {
        arguments.yes
    } else {
        list(&removals, console)?;
        print_left(removals.iter().flat_map(|removal| &removal.left), console);
        let what = match removals.as_slice() {
            [only] => in_words(only),
            several => format!("these {} studies", several.len()),
        };
        !arguments.dry_run && (arguments.yes || agrees(&what)?)
    };
    let mut remaining: Vec<LeftFile> = Vec::new();
    if wants {
        let mut store = console.writer()?;
        let path = console.store.clone();
        for removal in &removals {
            remove_study(&mut store, &path, &removal.study)?;
            if !arguments.json {
                writeln!(console.out, "removed {}", in_words(removal))?;
            }
        }
        remaining = remove_files(&mut store, &path, &[]).map_err(|error| {
            Failure::from(error).help("the studies are removed; `hpsearch gc` removes their files")
        })?;
        // What was said to be left already.
        let left = removals.iter().flat_map(|removal| &removal.left);
        let left: Vec<&PathBuf> = left.map(|file| &file.path).collect();
        remaining.retain(|file| !left.contains(&&file.path));
        if removals.iter().any(|removal| removal.study.spec.is_tracked()) {
            erase(&mut store, console)?;
        }
    }
    if arguments.json {
        let studies = removals.iter().map(RemovedStudyJson::from).collect();
        let stays = removals.iter().flat_map(|removal| &removal.left);
        let there = stays.map(|left| &left.path).filter(|path| path.symlink_metadata().is_ok());
        let remaining = remaining.iter().map(|file| &file.path);
        let left: Vec<PathBuf> = there.chain(remaining).map(PathBuf::clone).collect();
        let output = RmJson { removed: wants, studies, left: &left };
        return console.json(None, &output);
    }
    print_left(&remaining, console);
    Ok(Exit::Done)
}

/// Vacuums removed tracked runs out of the store's file, or reports that this cannot be done now.
fn erase(store: &mut AnyStore, console: &Console) -> Result<(), Failure> {
    if !store.erase_removed()? {
        console.say(
            "the store's file cannot be rewritten now (something runs, or the disk is full): \
             traces of what was removed stay in it until a later command does it",
        );
    }
    Ok(())
}

fn running(study: &str, console: &Console) -> Failure {
    let study = one_line(study);
    Failure::new(Exit::Store, format!("`{study}` is running, and cannot be removed now"))
        .help(format!("{} ends that run", console.next(&format!("stop {study}"))))
}

/// `study digits: 120 trials, 3 checkpoints, 1.2 GiB`
fn in_words(removal: &Removal) -> String {
    format!(
        "study {}: {}, {}, {}",
        one_line(&removal.study.spec.name),
        count(removal.study.counts.total(), "trial"),
        count(removal.checkpoints, "checkpoint"),
        bytes(removal.bytes)
    )
}

fn list(removals: &[Removal], console: &mut Console) -> Result<(), Failure> {
    for removal in removals {
        writeln!(console.out, "{}", in_words(removal))?;
        for directory in &removal.directories {
            writeln!(console.out, "  {}", shown(directory))?;
        }
        for heir in &removal.heirs {
            writeln!(
                console.out,
                "  `{}` was warm-started from it, and keeps what it took",
                one_line(heir)
            )?;
        }
    }
    Ok(console.out.flush()?)
}

/// Whether the user confirms.
fn agrees(what: &str) -> Result<bool, Failure> {
    if !can_ask() {
        let refusal = Failure::usage("removal cannot be confirmed without a terminal");
        return Err(refusal.help(
            "`hpsearch rm` with `--yes` removes it without asking, with `--dry-run` it only lists",
        ));
    }
    Ok(says_yes(&format!("Remove {what}? [y/N] "))?)
}
