//! Checks the store and its studies: integrity, runners, and what dead runners left.

use std::collections::BTreeSet;
use std::fs;

use super::Finding;
use super::machine::room;
use crate::app::copy_study::UNFINISHED;
use crate::app::spools;
use crate::app::study_state::{has_runner, state_in};
use crate::cli::console::{Console, of_other_name, shown, typed};
use crate::cli::exit::Failure;
use crate::cli::provenance;
use crate::cli::waiting::Waiting;
use crate::report::wording::{StudyStatus, bytes as size, named_trials, one_line};
use crate::runner::processes;
use crate::runner::removal::is_missing;
use crate::runner::{Liveness, liveness};
use crate::storage::address::is_on_server;
use crate::storage::any::AnyReader;
use crate::storage::disk::forbidden;
use crate::storage::paths::files_directory;
use crate::storage::sqlite::{OtherName, orphaned_log, other_name};
use crate::storage::{StorageError, StorageReader, StudySummary};
use crate::study::checkpoint::Checkpoint;
use crate::study::counted::count;
use crate::study::event::Seq;
use crate::study::trial::TrialNumber;
use crate::tracking::{Behind, behind};

pub(super) fn findings(console: &Console) -> Result<Vec<Finding>, Failure> {
    let mut findings = of_store(console)?;
    findings.extend(waiting_spools(console));
    Ok(findings)
}

/// Runs of Python programs that are not completely in the store, and have no writer.
fn waiting_spools(console: &Console) -> Option<Finding> {
    let waiting = spools::waiting(&console.store);
    let spool = typed(waiting.first()?);
    let (number, is, them) = match waiting.len() {
        1 => ("1 run of a Python program".to_owned(), "is", "it"),
        many => (format!("{many} runs of Python programs"), "are", "them"),
    };
    let what = format!(
        "{number} {is} not in the store, or not completely: its writer could not write it, or was \
         killed"
    );
    let command = console.next(&format!("writer --spool {spool}"));
    let next = format!(
        "nothing is lost: {command} stores {them}, as does the next `hpsearch track` or \
         `hpsearch.init`"
    );
    Some(Finding::warning("spool", what, next))
}

fn of_store(console: &Console) -> Result<Vec<Finding>, Failure> {
    let path = shown(&console.store);
    let reader = match AnyReader::open(&console.store) {
        Ok(reader) => reader,
        Err(StorageError::Missing { .. }) => {
            if let Some(orphaned) = orphaned(console) {
                return Ok(vec![orphaned]);
            }
            return Ok(vec![Finding::ok(
                "store",
                format!("there is none at `{path}` yet: `hpsearch run` creates one"),
            )]);
        }
        Err(error) => return Ok(vec![unusable(&error)]),
    };
    let mut found = Vec::new();
    let bytes = |suffix: &str| {
        fs::metadata(format!("{}{suffix}", console.store.display())).map_or(0, |file| file.len())
    };
    let log = bytes("-wal");
    let log = if log > 0 { format!(" and {} in its log", size(log)) } else { String::new() };
    match (reader.schema_version(), reader.studies()) {
        (Ok(version), Ok(studies)) => {
            let held = match studies.len() {
                1 => "1 study".to_owned(),
                many => format!("{many} studies"),
            };
            let size = match is_on_server(&console.store) {
                true => String::new(),
                false => format!(", {}{log}", size(bytes(""))),
            };
            found.push(Finding::ok("store", format!("`{path}`: {held}{size}, schema {version}")));
            found.extend(forbidden_file(console));
            found.extend(name_beside(console));
            found.push(soundness(&reader, console));
            found.extend(unfinished_moves(&reader, console)?);
            for study in &studies {
                found.extend(journal(&reader, study));
                found.extend(of_study(&reader, study, console)?);
            }
        }
        (Err(error), _) | (_, Err(error)) => {
            found.push(unusable(&error));
            found.push(soundness(&reader, console));
        }
    }
    Ok(found)
}

/// The log of a store whose file is not there.
fn orphaned(console: &Console) -> Option<Finding> {
    if is_on_server(&console.store) {
        return None;
    }
    let log = orphaned_log(&console.store)?.display().to_string();
    let error = StorageError::OrphanedLog { path: console.store.display().to_string(), log };
    Some(Finding::warning("store", error.to_string(), error.remedy()))
}

/// Another name of the store, by which it must not be opened.
fn name_beside(console: &Console) -> Option<Finding> {
    let name = other_name(&console.store)?;
    let next = match name {
        OtherName::HardLink => "remove its other names: `find -samefile` lists them",
        OtherName::Mount => "mount the directory of the store",
    };
    Some(Finding::warning("store", of_other_name(&console.store, name), next))
}

/// A file of the store, or its directory, that this user may not write. SQLite
/// gives the mode of a store that is not writable to the log and the index when it reads it.
fn forbidden_file(console: &Console) -> Option<Finding> {
    if is_on_server(&console.store) {
        return None;
    }
    let file = forbidden(&console.store)?;
    let is_beside =
        file.to_string_lossy().ends_with("-wal") || file.to_string_lossy().ends_with("-shm");
    let file = shown(&file);
    let said = format!("`{file}` cannot be written by this user: the store can only be read");
    let next = format!("for studies that are to run: chmod u+rw '{file}'");
    Some(match is_beside {
        // The store itself can be written.
        true => Finding::broken("files", said, next),
        false => Finding::warning("files", said, next),
    })
}

/// Runs that were moved to another study, and whose files were not.
fn unfinished_moves(reader: &AnyReader, console: &Console) -> Result<Option<Finding>, Failure> {
    let removed = reader.removed_runs()?;
    let waiting = removed.iter().filter(|removed| removed.moved.is_some()).count() as u64;
    let next = format!("{} moves them", console.next("gc --yes"));
    let what =
        || format!("the files of {} wait to be moved to another study", count(waiting, "run"));
    Ok((waiting > 0).then(|| Finding::warning("files", what(), next)))
}

/// An error of the store as a finding: its message includes the remedy.
fn unusable(error: &StorageError) -> Finding {
    Finding::broken("store", error.with_remedy(), "run `hpsearch doctor` again afterwards")
}

/// Entries of a journal that are read at once.
const PAGE: u64 = 10_000;

/// An entry of a study's journal that cannot be read.
fn journal(reader: &AnyReader, study: &StudySummary) -> Option<Finding> {
    let mut last = Seq::default();
    loop {
        match reader.events_after(study.id, last, PAGE) {
            Ok(entries) => last = entries.last()?.0,
            Err(error) => {
                let name = one_line(&study.spec.name);
                let next = "restore the store from an earlier copy; until then trials, best and \
                            export read the tables, which still have what the journal recorded";
                return Some(Finding::broken("journal", format!("study `{name}`: {error}"), next));
            }
        }
    }
}

/// Shown while the store is read completely.
const CHECKING: &str = "checking the store";

fn soundness(reader: &AnyReader, console: &Console) -> Finding {
    let waiting = Waiting::start(CHECKING, console);
    let checked = reader.soundness(&mut |done, of| waiting.at(CHECKING, done, of));
    drop(waiting);
    let next = || {
        format!(
            "keep a copy, then save what can be read with `sqlite3 '{}' .recover`",
            console.store.display()
        )
    };
    match checked {
        Ok(None) => Finding::ok("soundness", "not checked: the server checks its own files"),
        Ok(Some(problems)) if problems.is_empty() => {
            Finding::ok("soundness", "every table, index and reference is in order")
        }
        Ok(Some(problems)) => {
            let more = if problems.len() > 3 {
                format!("; and {} more", problems.len() - 3)
            } else {
                String::new()
            };
            Finding::broken(
                "soundness",
                format!("{}{more}", problems[..problems.len().min(3)].join("; ")),
                next(),
            )
        }
        Err(error) => unusable(&error),
    }
}

fn of_study(
    reader: &AnyReader,
    study: &StudySummary,
    console: &Console,
) -> Result<Vec<Finding>, Failure> {
    let mut found = Vec::new();
    let name = one_line(&study.spec.name);
    let is_run = if study.spec.is_tracked() {
        // A dead run may have left processes beside a live one: they are searched for once no run
        // is alive.
        state_in(reader, study)? == StudyStatus::Running
    } else {
        has_runner(study)
    };
    let run = provenance::run(&reader.runners(study.id)?);
    if let Some(original) = study.spec.name.strip_prefix(UNFINISHED).filter(|_| !is_run) {
        let next = format!(
            "the next `hpsearch copy {}` to this store replaces it; {} removes it",
            one_line(original),
            console.next(&format!("rm {name} --yes"))
        );
        found.push(Finding::warning(
            "copy",
            format!("`{name}` is a copy that was not finished"),
            next,
        ));
        return Ok(found);
    }
    found.extend(left_by_runner(study, is_run, &run, console));
    if !is_run {
        let left = surviving_processes(reader, study, console)?;
        if !left.is_empty() {
            let pids: Vec<String> = left.iter().map(u32::to_string).collect();
            let what = format!(
                "{} of `{name}` still there although it is not running: {}",
                if left.len() == 1 { "a process" } else { "processes" },
                pids.join(", ")
            );
            found.push(Finding::warning(
                "processes",
                what,
                format!("`kill {}` ends them; so does running the study again", pids.join(" ")),
            ));
        }
    }
    for Behind { destination, why } in behind(reader, study.id) {
        let sync = console.next(&format!("sync {} --to {destination}", study.spec.name));
        found.push(Finding::warning(
            "sync",
            format!("{destination} lacks runs of `{name}`: {why}"),
            format!("{sync} adds them"),
        ));
    }
    found.extend(gone_checkpoints(reader, study)?);
    let files = files_directory(&study.spec, &console.store);
    if study.spec.checkpoints.dir.is_some() && files.exists() {
        found.push(room(&files));
    }
    Ok(found)
}

/// What the mark of a runner that is gone, or cannot be seen from here, says.
fn left_by_runner(
    study: &StudySummary,
    is_run: bool,
    run: &str,
    console: &Console,
) -> Vec<Finding> {
    let mut found = Vec::new();
    let name = one_line(&study.spec.name);
    if let (Some(held), false) = (&study.held, is_run) {
        let pid = held.holder.pid;
        let (what, next) = match study.spec.is_tracked() {
            true => (
                format!("process {pid} was killed while it renamed, copied or removed `{name}`"),
                "nothing is lost: run its command again, if it is still to be done; the next \
                 `hpsearch track` or `hpsearch import` into this study removes this mark, too"
                    .to_owned(),
            ),
            false => (
                format!("`{name}` was left by process {pid}, which has exited"),
                format!("nothing is lost: {} continues", console.next(run)),
            ),
        };
        found.push(Finding::warning("runner", what, next));
    }
    if let Some(held) = study.held.as_ref().filter(|held| liveness(held) == Liveness::Unknown) {
        let what = format!(
            "`{name}` is run on `{}`, whose state is unknown from here",
            one_line(&held.holder.host)
        );
        let run = console.next(&format!("{run} --take-over"));
        found.push(Finding::warning(
            "runner",
            what,
            format!("if that machine or container is gone, {run} continues"),
        ));
    }
    found
}

/// Checkpoints that the store lists and that are not there.
fn gone_checkpoints(reader: &AnyReader, study: &StudySummary) -> Result<Option<Finding>, Failure> {
    let gone: Vec<(TrialNumber, Checkpoint)> = reader
        .checkpoints(study.id)?
        .into_iter()
        .filter(|(_, checkpoint)| is_missing(&checkpoint.path))
        .collect();
    let Some((_, first)) = gone.first() else { return Ok(None) };
    let of: BTreeSet<TrialNumber> = gone.iter().map(|(trial, _)| *trial).collect();
    let (is, more) = if gone.len() == 1 { ("is", "") } else { ("are", ", ..") };
    let what = format!(
        "{} of {} of `{}` {is} gone: `{}`{more}",
        count(gone.len() as u64, "checkpoint"),
        named_trials(&of),
        one_line(&study.spec.name),
        shown(&first.path),
    );
    let next = "mount its disk or move it back; if it was removed, the next `hpsearch run` \
                forgets it, and `hpsearch export --trial N` exports another trial";
    Ok(Some(Finding::warning("files", what, next)))
}

/// Surviving processes of the study's attempts: by ids and start times, and by the study's name in
/// their environment.
fn surviving_processes(
    reader: &AnyReader,
    study: &StudySummary,
    console: &Console,
) -> Result<BTreeSet<u32>, Failure> {
    let attempts = reader.attempts(study.id, None)?;
    let known = attempts
        .iter()
        .filter_map(|attempt| attempt.process)
        .filter(|(pid, started)| processes::is_alive(*pid, *started))
        .map(|(pid, _)| pid);
    let store = console.absolute_store()?;
    let marks = [
        format!("HPSEARCH_STORE={}", store.display()),
        format!("HPSEARCH_STUDY={}", study.spec.name),
    ];
    Ok(known.chain(processes::with_environment(&marks)).collect())
}
