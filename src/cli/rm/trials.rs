//! Hides trials of searches and removes tracked runs, both with their files.

use std::io::Write as _;
use std::path::PathBuf;

use serde::Serialize;

use super::{RmArguments, agrees, erase};
use crate::app::find::{self, TrialsOf};
use crate::app::left_files::{LeftFile, bytes_left, left_of_trials};
use crate::app::remove_runs::{plan, remove_runs};
use crate::app::remove_study::{remove_files, size_of_trial};
use crate::app::study_state::interrupted;
use crate::cli::left_files::print_left;
use crate::cli::request::{MOST_LINES, ask_all};
use crate::cli::{Console, Exit, Failure};
use crate::report::wording::{bytes, one_line, run_name, state_word};
use crate::storage::{StorageReader, StudySummary};
use crate::study::counted::count;
use crate::study::request::Request;
use crate::study::trial::{Trial, TrialNumber, TrialState};

#[derive(Serialize)]
struct RmTrialsJson<'a> {
    /// Whether they were removed.
    removed: bool,
    trials: Vec<&'a RemovedTrialJson>,
    /// Files and directories of removed trials and runs that are still there.
    left: Vec<PathBuf>,
}

#[derive(Serialize)]
struct RemovedTrialJson {
    study: String,
    number: TrialNumber,
    /// The name of a tracked run.
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    state: TrialState,
    /// The state in a word, which knows of a process that died.
    #[serde(skip)]
    word: &'static str,
    checkpoints: u64,
    /// Disk usage of its files.
    bytes: u64,
}

/// The removed trials of one study.
struct Group {
    study: StudySummary,
    trials: Vec<RemovedTrialJson>,
    /// Further messages about them.
    asides: Vec<String>,
    /// Their files that stay.
    left: Vec<LeftFile>,
}

impl Group {
    fn read(
        (study, numbers): TrialsOf,
        console: &Console,
        reader: &dyn StorageReader,
    ) -> Result<Group, Failure> {
        let trials = find::trials(reader, &study, &numbers)?;
        let numbers: Vec<TrialNumber> = trials.iter().map(|trial| trial.number).collect();
        let left = left_of_trials(reader, &console.store, &study, &numbers)?;
        let dead = interrupted(reader, &study, &trials)?;
        let word = |trial: &Trial| match dead.contains(&trial.number) {
            true => "interrupted",
            false => state_word(trial),
        };
        let name = study.spec.name.clone();
        let line = |trial: &Trial, bytes: u64| RemovedTrialJson {
            study: name.clone(),
            number: trial.number,
            name: run_name(trial).map(str::to_owned),
            state: trial.state,
            word: word(trial),
            checkpoints: trial.checkpoints.len() as u64,
            bytes: bytes.saturating_sub(bytes_left(&left, trial.number)),
        };
        if study.spec.is_tracked() {
            let planned = plan(reader, &console.store, &study, &trials)?;
            let asides = planned.iter().flat_map(|planned| {
                planned.parts.iter().map(|part| {
                    let whole = planned.run.number;
                    format!("run {part} was part of run {whole}, and keeps its number")
                })
            });
            let asides = asides.collect();
            let trials = planned.iter().map(|planned| line(&planned.run, planned.bytes)).collect();
            return Ok(Group { study, trials, asides, left });
        }
        if let Some(trial) = trials.iter().find(|trial| !trial.state.is_finished()) {
            let (number, state) = (trial.number, trial.state.as_str());
            let kill = console.next(&format!("kill {} {number}", one_line(&name)));
            return Err(Failure::usage(format!("trial {number} is {state}, and needs its files"))
                .help(format!(
                    "{kill} ends it first; in a filter, `state:finished` leaves it out"
                )));
        }
        let visible = trials.iter().filter(|trial| !trial.hidden);
        let trials = visible
            .map(|trial| {
                let bytes = size_of_trial(reader, &console.store, &study, trial.number)?;
                Ok(line(trial, bytes))
            })
            .collect::<Result<_, Failure>>()?;
        Ok(Group { study, trials, asides: Vec::new(), left })
    }

    fn numbers(&self) -> Vec<TrialNumber> {
        self.trials.iter().map(|trial| trial.number).collect()
    }

    /// Their files that are still there.
    fn left_there(&self) -> impl Iterator<Item = PathBuf> {
        let paths = self.left.iter().map(|left| &left.path);
        paths.filter(|path| path.symlink_metadata().is_ok()).cloned()
    }

    /// `2 runs of study speech, with 3 MiB of files`
    fn in_words(&self) -> String {
        let name = one_line(&self.study.spec.name);
        let size = bytes(self.trials.iter().map(|trial| trial.bytes).sum());
        let all = self.trials.len() as u64;
        match self.study.spec.is_tracked() {
            true => format!("{} of study {name}, with {size} of files", count(all, "run")),
            false => {
                let trials = count(all, "trial");
                format!("{trials} of study {name} from its tables, with {size} of files")
            }
        }
    }

    /// Lists them: all, or few enough that the question below stays in view.
    fn list(&self, all: bool, console: &mut Console) -> Result<(), Failure> {
        let what = if self.study.spec.is_tracked() { "run" } else { "trial" };
        let listed = if all { self.trials.len() } else { MOST_LINES };
        for trial in self.trials.iter().take(listed) {
            let name = trial.name.as_ref().map(|name| format!(" (`{}`)", one_line(name)));
            writeln!(
                console.out,
                "{what} {}{}: {}, {}, {}",
                trial.number,
                name.unwrap_or_default(),
                trial.word,
                count(trial.checkpoints, "checkpoint"),
                bytes(trial.bytes)
            )?;
        }
        if let Some(more @ 1..) = self.trials.len().checked_sub(listed) {
            writeln!(console.out, "and {more} more (`--dry-run` lists all)")?;
        }
        for aside in self.asides.iter().take(listed) {
            writeln!(console.out, "  {aside}")?;
        }
        Ok(())
    }
}

/// Removes them, once the user confirms.
pub fn remove(
    trials: Vec<TrialsOf>,
    arguments: &RmArguments,
    console: &mut Console,
) -> Result<Exit, Failure> {
    let mut groups = Vec::new();
    {
        let reader = console.reader()?;
        for of_study in trials {
            groups.push(Group::read(of_study, console, &reader)?);
        }
    }
    let study = match groups.as_slice() {
        [only] => Some(only.study.spec.name.clone()),
        _ => None,
    };
    groups.retain(|group| !group.trials.is_empty());
    if groups.is_empty() && !arguments.json {
        if arguments.filter.is_none() {
            console.say("these trials are hidden already");
        }
        return Ok(Exit::Done);
    }
    let wants = if arguments.json {
        arguments.yes
    } else {
        for group in &groups {
            group.list(arguments.dry_run, console)?;
            print_left(&group.left, console);
        }
        console.out.flush()?;
        let what: Vec<String> = groups.iter().map(Group::in_words).collect();
        !arguments.dry_run && (arguments.yes || agrees(&what.join(", and "))?)
    };
    let mut left = Vec::new();
    if wants {
        let path = console.store.clone();
        for group in &groups {
            if group.study.spec.is_tracked() {
                remove_runs(&mut console.writer()?, &path, &group.study, &group.numbers())?;
                if !arguments.json {
                    writeln!(console.out, "removed {}", group.in_words())?;
                }
            } else {
                let hide = |trial| Request::Hide { trial };
                let requests: Vec<Request> = group.numbers().into_iter().map(hide).collect();
                ask_all(&group.study, requests, console)?;
            }
        }
        let mut store = console.writer()?;
        let removed: Vec<_> =
            groups.iter().map(|group| (group.study.clone(), group.numbers())).collect();
        let mut remaining = remove_files(&mut store, &path, &removed).map_err(|error| {
            Failure::from(error).help("they are removed; `hpsearch gc` removes their files")
        })?;
        if groups.iter().any(|group| group.study.spec.is_tracked()) {
            erase(&mut store, console)?;
        }
        let named: Vec<PathBuf> = groups.iter().flat_map(Group::left_there).collect();
        remaining.retain(|file| !named.contains(&file.path));
        print_left(&remaining, console);
        left = named;
        left.extend(remaining.into_iter().map(|file| file.path));
    }
    if arguments.json {
        let trials = groups.iter().flat_map(|group| &group.trials).collect();
        return console.json(study.as_deref(), &RmTrialsJson { removed: wants, trials, left });
    }
    let of_runs = groups.iter().find(|group| group.study.spec.is_tracked());
    if let Some(group) = of_runs.filter(|_| wants) {
        let mv = console.next(&format!("mv {} RUN.. --to NEW", one_line(&group.study.spec.name)));
        console.say(&format!(
            "note: `hpsearch copy` refuses a study from which runs were removed: {mv} takes the \
             others to a new study, which can be copied"
        ));
    }
    Ok(Exit::Done)
}
