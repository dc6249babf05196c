//! Moves tracked runs to another study.

use std::io::Write as _;

use super::MvArguments;
use crate::app::find::{self, Meant};
use crate::app::remove_runs::{Moved, Planned, check_target, has_copy, move_runs, plan};
use crate::cli::console::{can_ask, says_yes};
use crate::cli::{Console, Exit, Failure};
use crate::report::wording::{bytes, one_line, run_name};
use crate::storage::StudySummary;
use crate::study::counted::count;
use crate::study::trial::{Trial, TrialNumber};

/// Moves them, once the user confirms.
pub fn move_to(to: &str, arguments: &MvArguments, console: &mut Console) -> Result<Exit, Failure> {
    let mut groups: Vec<(StudySummary, Vec<Planned>)> = Vec::new();
    {
        let reader = console.reader()?;
        let Meant::Trials(trials) = find::studies_or_trials(&reader, &arguments.words)? else {
            return Err(Failure::usage("runs are moved to another study, but none is named")
                .help("write `hpsearch mv STUDY RUN --to OTHER`"));
        };
        for (study, mut numbers) in trials {
            check_target(&reader, &study, to)?;
            numbers.sort_unstable();
            let runs: Vec<Trial> = numbers
                .into_iter()
                .map(|number| find::trial(&reader, &study, number))
                .collect::<Result<_, _>>()?;
            let planned = plan(&reader, &console.store, &study, &runs)?;
            groups.push((study, planned));
        }
        if has_copy(&reader, &console.store)? {
            console.say(
                "a copy of this store lies beside it, and will not find the files of moved runs",
            );
        }
    }
    list(&groups, console)?;
    let all = groups.iter().map(|(_, planned)| planned.len() as u64).sum();
    let what = format!("{} to study {}", count(all, "run"), one_line(to));
    if arguments.dry_run || !(arguments.yes || agrees(&what)?) {
        return Ok(Exit::Done);
    }
    let (mut store, path) = (console.writer()?, console.store.clone());
    for (study, planned) in &groups {
        let runs: Vec<TrialNumber> = planned.iter().map(|planned| planned.run.number).collect();
        for Moved { from, to: number, name } in move_runs(&mut store, &path, study, &runs, to)? {
            let name = name.map(|name| format!(" (`{}`)", one_line(&name))).unwrap_or_default();
            let (study, to) = (one_line(&study.spec.name), one_line(to));
            writeln!(console.out, "run {from} of {study} is run {number}{name} of {to} now")?;
        }
    }
    Ok(Exit::Done)
}

fn list(groups: &[(StudySummary, Vec<Planned>)], console: &mut Console) -> Result<(), Failure> {
    for (study, planned) in groups {
        for Planned { run, bytes: size, parts } in planned {
            let name = run_name(run).map(|name| format!(" (`{}`)", one_line(name)));
            writeln!(
                console.out,
                "run {}{} of {}: {}, {}, {}",
                run.number,
                name.unwrap_or_default(),
                one_line(&study.spec.name),
                run.state.as_str(),
                count(run.checkpoints.len() as u64, "checkpoint"),
                bytes(*size)
            )?;
            for part in parts {
                writeln!(console.out, "  run {part} is part of it, and stays")?;
            }
        }
    }
    Ok(console.out.flush()?)
}

/// Whether the user confirms.
fn agrees(what: &str) -> Result<bool, Failure> {
    if !can_ask() {
        let refusal = Failure::usage("moving cannot be confirmed without a terminal");
        return Err(refusal.help(
            "`hpsearch mv` with `--yes` moves it without asking, with `--dry-run` it only lists",
        ));
    }
    Ok(says_yes(&format!("Move {what}? [y/N] "))?)
}
