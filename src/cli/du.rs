//! `hpsearch du`: disk usage of the store and of trials' files, and what could be freed.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;

use super::console::{Console, shown};
use super::exit::{Exit, Failure};
use crate::app::find;
use crate::engine::retention::Rule;
use crate::report::table::Columns;
use crate::report::wording::{bytes, one_line};
use crate::runner::disk::{entries, size};
use crate::runner::ownership;
use crate::storage::address::is_on_server;
use crate::storage::paths::data_cache;
use crate::storage::{OutcomeCursor, StorageReader, StudySummary};
use crate::study::checkpoint::Checkpoint;
use crate::study::trial::{TrialNumber, TrialState};

/// Arguments of `hpsearch du`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  hpsearch du
  hpsearch du digits               by state of the trials
  hpsearch du --json | jq '.studies[] | [.name, .total]'

Sizes are disk usage in blocks, as `du` counts it.")]
pub struct DuArguments {
    /// The study's name or file; all studies by default
    pub study: Option<String>,
    /// Print JSON, sizes in bytes
    #[arg(long)]
    pub json: bool,
}

#[derive(Serialize)]
struct Usage {
    store: StoreUsage,
    studies: Vec<StudyUsage>,
    /// Tokenised data, shared by the studies of a directory.
    data: u64,
    total: u64,
}

#[derive(Serialize)]
struct StoreUsage {
    path: PathBuf,
    /// The database file.
    file: u64,
    /// SQLite's log and its index, beside the file.
    log: u64,
    /// Copies from before migrations.
    copies: u64,
}

#[derive(Serialize)]
struct StudyUsage {
    name: String,
    directory: PathBuf,
    states: Vec<StateUsage>,
    /// The study's own files: the mark of its store, and the log of a detached run.
    own: u64,
    /// Trials unknown to the store: `hpsearch gc` removes them.
    unknown: u64,
    /// Checkpoints that `[checkpoints]` does not keep.
    freeable: u64,
    /// Limit of its checkpoints.
    #[serde(skip_serializing_if = "Option::is_none")]
    max_disk: Option<u64>,
    total: u64,
}

/// Usage of the trials in one state.
#[derive(Serialize)]
struct StateUsage {
    state: TrialState,
    trials: u64,
    checkpoints: u64,
    logs: u64,
    other: u64,
}

impl StateUsage {
    fn total(&self) -> u64 {
        self.checkpoints + self.logs + self.other
    }
}

/// Prints the usage.
pub fn du(arguments: &DuArguments, console: &mut Console) -> Result<Exit, Failure> {
    let reader = console.reader()?;
    let studies = match &arguments.study {
        None => reader.studies()?,
        named => vec![find::study(&reader, named.as_deref())?],
    };
    let mut usage =
        Usage { store: store_usage(&console.store), studies: Vec::new(), data: 0, total: 0 };
    let mut caches = BTreeSet::new();
    for study in &studies {
        usage.studies.push(study_usage(study, &reader, &console.store)?);
        caches.insert(data_cache(&study.spec, &console.store));
    }
    usage.data = caches.iter().map(|cache| size(cache)).sum();
    usage.total = usage.store.file
        + usage.store.log
        + usage.store.copies
        + usage.data
        + usage.studies.iter().map(|study| study.total).sum::<u64>();
    if arguments.json {
        return console.json(None, &usage);
    }
    print(&usage, arguments.study.is_some(), console)?;
    Ok(Exit::Done)
}

fn store_usage(store: &Path) -> StoreUsage {
    let beside = |ending: &str| {
        let mut name = store.as_os_str().to_owned();
        name.push(ending);
        size(Path::new(&name))
    };
    // Versions are numbered from 1 without gaps.
    let copies = (1..=64).map(|version| beside(&format!(".v{version}"))).sum();
    StoreUsage {
        path: store.to_owned(),
        file: size(store),
        log: beside("-wal") + beside("-shm"),
        copies,
    }
}

fn study_usage(
    study: &StudySummary,
    reader: &dyn StorageReader,
    store: &Path,
) -> Result<StudyUsage, Failure> {
    let files = study.files(store);
    let directory = files.directory();
    let mut states: Vec<StateUsage> = TrialState::ALL
        .into_iter()
        .map(|state| StateUsage { state, trials: 0, checkpoints: 0, logs: 0, other: 0 })
        .collect();
    let mut known = 0;
    let mut checkpoints: BTreeMap<TrialNumber, Vec<Checkpoint>> = BTreeMap::new();
    for (trial, checkpoint) in reader.checkpoints(study.id)? {
        checkpoints.entry(trial).or_default().push(checkpoint);
    }
    for trial in reader.outcomes(study.id, OutcomeCursor::default())?.0 {
        let usage = &mut states
            [TrialState::ALL.iter().position(|state| *state == trial.state).unwrap_or_default()];
        usage.trials += 1;
        let own = files.trial(trial.number);
        let real_own = real(&own);
        let (mut inside, mut outside) = (0, 0);
        for checkpoint in checkpoints.get(&trial.number).into_iter().flatten() {
            let taken = size(&checkpoint.path);
            let is_inside = real(&checkpoint.path).starts_with(&real_own);
            *(if is_inside { &mut inside } else { &mut outside }) += taken;
        }
        let logs = logs(&own);
        let all = size(&own);
        known += all;
        usage.checkpoints += inside + outside;
        usage.logs += logs;
        usage.other += all.saturating_sub(inside + logs);
    }
    let own = ownership::OWN_FILES.iter().map(|name| size(&directory.join(name))).sum::<u64>();
    let unknown =
        entries(&directory).map(|entry| size(&entry)).sum::<u64>().saturating_sub(known + own);
    let mut holding = Vec::new();
    for number in checkpoints.keys() {
        holding.extend(reader.trial(study.id, *number)?);
    }
    let compromise = study.front.as_ref().and_then(|front| front.knee);
    let plan = Rule::of(&study.spec).plan(&holding.iter().collect::<Vec<_>>(), compromise);
    let freeable = plan.dropped.iter().map(|(_, path)| size(path)).sum();
    let total = own + unknown + states.iter().map(StateUsage::total).sum::<u64>();
    states.retain(|usage| usage.trials > 0);
    Ok(StudyUsage {
        name: study.spec.name.clone(),
        directory,
        states,
        own,
        unknown,
        freeable,
        max_disk: study.spec.checkpoints.max_disk,
        total,
    })
}

/// A canonical path: the store may be given as a relative one, checkpoints are stored as absolute
/// ones. A link at the end is not resolved.
fn real(path: &Path) -> PathBuf {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return path.to_owned();
    };
    let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
    fs::canonicalize(parent).map_or_else(|_| path.to_owned(), |parent| parent.join(name))
}

/// The logs of a trial's attempts.
fn logs(directory: &Path) -> u64 {
    let is_log = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| name.starts_with("attempt-") && name.ends_with(".log"))
    };
    entries(directory).filter(is_log).map(|path| size(&path)).sum()
}

fn print(usage: &Usage, by_state: bool, console: &mut Console) -> Result<(), Failure> {
    let mut rows: Vec<(String, [u64; 5])> = Vec::new();
    for study in &usage.studies {
        if by_state {
            let of = |state: &StateUsage| {
                [state.trials, state.checkpoints, state.logs, state.other, state.total()]
            };
            rows.extend(
                study.states.iter().map(|state| (state.state.as_str().to_owned(), of(state))),
            );
            rows.extend(
                (study.own > 0)
                    .then(|| ("(not of a trial)".to_owned(), [0, 0, 0, study.own, study.own])),
            );
        } else {
            let sum = |part: fn(&StateUsage) -> u64| study.states.iter().map(part).sum::<u64>();
            let (trials, checkpoints) = (sum(|state| state.trials), sum(|state| state.checkpoints));
            let (logs, other) = (sum(|state| state.logs), sum(|state| state.other) + study.own);
            let total = study.total - study.unknown;
            rows.push((one_line(&study.name), [trials, checkpoints, logs, other, total]));
        }
        if study.unknown > 0 {
            let unknown = [0, 0, 0, study.unknown, study.unknown];
            rows.push(("files of unknown trials".to_owned(), unknown));
        }
    }
    if usage.studies.len() != 1 || by_state {
        let total = |part: usize| rows.iter().map(|(_, parts)| parts[part]).sum::<u64>();
        rows.push(("all".to_owned(), [total(0), total(1), total(2), total(3), total(4)]));
    }
    let cell = |taken: u64| if taken == 0 { "-".to_owned() } else { bytes(taken) };
    let trials = |trials: u64| if trials == 0 { String::new() } else { trials.to_string() };
    let columns = Columns::of(&rows)
        .left(if by_state { "state" } else { "study" }, |(name, _)| name.clone())
        .right("trials", |(_, parts)| trials(parts[0]))
        .right("checkpoints", |(_, parts)| cell(parts[1]))
        .right("logs", |(_, parts)| cell(parts[2]))
        .right("other", |(_, parts)| cell(parts[3]))
        .right("total", |(_, parts)| cell(parts[4]));
    console.table(&columns.end())?;
    summary(usage, console)
}

fn summary(usage: &Usage, console: &mut Console) -> Result<(), Failure> {
    let StoreUsage { path, file, log, copies } = &usage.store;
    writeln!(console.out)?;
    let mut parts = vec![bytes(*file)];
    parts.extend((*log > 0).then(|| format!("its write-ahead log {}", bytes(*log))));
    parts.extend(
        (*copies > 0).then(|| format!("copies from before schema migrations {}", bytes(*copies))),
    );
    let parts = if is_on_server(path) { "on a server".to_owned() } else { parts.join(", ") };
    writeln!(console.out, "store {}: {parts}", shown(path))?;
    if usage.data > 0 {
        writeln!(console.out, "tokenised data: {}", bytes(usage.data))?;
    }
    writeln!(console.out, "total: {}", bytes(usage.total))?;
    for study in &usage.studies {
        if let Some(most) = study.max_disk {
            let taken = study.states.iter().map(|state| state.checkpoints).sum();
            writeln!(
                console.out,
                "checkpoints of {}: {} of the {} that `max_disk` allows",
                one_line(&study.name),
                bytes(taken),
                bytes(most)
            )?;
        }
    }
    let freeable: u64 = usage.studies.iter().map(|study| study.freeable).sum();
    if freeable > 0 {
        writeln!(
            console.out,
            "checkpoints that `[checkpoints] keep` does not keep: {}; the next run removes them",
            bytes(freeable)
        )?;
    }
    Ok(())
}
