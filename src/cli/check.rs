//! `hpsearch check`: validates a study file and its data without running a trial.

mod json;
mod tried;

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;

use super::changed_study::ChangedStudy;
use super::console::{Console, typed};
use super::exit::{Exit, Failure};
use super::exported;
use super::overrides::sets;
use super::starter;
use super::waiting::listener;
use crate::analysis::forecast::Forecast;
use crate::app::export::check_target;
use crate::app::missing_files::{MissingFile, missing_files};
use crate::app::prepare_data::prepare_data;
use crate::app::reconcile::{
    Consent, changes_by_file, check_new, continue_file, note_on_steps, place_files, refusal,
};
use crate::app::study_state::{elapsed, state, unmeasured};
use crate::app::warm_start;
use crate::config::shown::one_line;
use crate::config::{self, Diagnostics, command_line, shell};
use crate::report::ahead::{Running, before_the_first, look_ahead, parts};
use crate::report::wording::{StudyStatus, goal};
use crate::runner;
use crate::runner::inputs;
use crate::runner::slots::{MachineDevices, left_over, slots};
use crate::storage::address::absolute;
use crate::storage::memory::MemoryStore;
use crate::storage::{StorageError, StorageReader, StudySummary};
use crate::study::cluster::{AgentStart, SshHost};
use crate::study::constraint::broken;
use crate::study::counted::count;
use crate::study::device::Slot;
use crate::study::params::{Params, Value, cut};
use crate::study::program::Program;
use crate::study::space::Space;
use crate::study::spec::StudySpec;
use crate::study::unmeasured::Unmeasured;
use crate::study::usage::{Used, devices_of};

use json::CheckJson;

/// Arguments of `hpsearch check`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Examples:\n  hpsearch check study.toml\n  \
                        hpsearch check study.toml --set budget.trials=50\n  \
                        hpsearch check --json | jq -r '.problems[] | \"\\(.line): \\(.message)\"'")]
pub struct CheckArguments {
    /// The study file
    #[arg(value_name = "STUDY.toml", default_value = "study.toml")]
    pub study: PathBuf,
    /// Override a key of the study file, as often as needed
    #[arg(long, value_name = "TABLE.KEY=VALUE")]
    pub set: Vec<String>,
    /// Show what the patterns of `[command.metrics]` find in a line, as often as needed
    #[arg(long = "try", value_name = "LINE", conflicts_with = "json")]
    pub tried: Vec<String>,
    /// Print JSON: all problems with their lines, or what the study searches
    #[arg(long)]
    pub json: bool,
}

/// The result of a check.
struct CheckedStudy {
    spec: StudySpec,
    warnings: Diagnostics,
    /// Those of this machine; none of a study whose trials run on agents.
    slots: Vec<Slot>,
    /// A sentence on devices that no slot uses.
    idle: Option<String>,
    missing: Vec<MissingFile>,
    /// A note on the unit of steps, if the file does not set it.
    steps: Option<&'static str>,
    /// Lines about the data.
    data: Vec<String>,
    /// Why the trials of the store do not measure a goal of the file.
    unmeasured: Option<Unmeasured>,
    ahead: Ahead,
}

/// The forecast of the study.
enum Ahead {
    /// From this number of its own trials in the store.
    OfTrials(Forecast, u64),
    /// From its file.
    OfFile(String),
}

/// Checks it.
pub fn check(arguments: &CheckArguments, console: &mut Console) -> Result<Exit, Failure> {
    if !arguments.tried.is_empty() {
        return tried::try_lines(arguments, console);
    }
    let found = find(arguments, console);
    if !arguments.json {
        return match found? {
            Found::Fit(found) => print(&found, arguments, console),
            Found::Refused { lines, data } => {
                lines.iter().for_each(|line| console.complain(line));
                print_data(&data?, console)?;
                Ok(Exit::StudyChanged)
            }
        };
    }
    let (exit, output) = match found {
        Ok(Found::Fit(found)) => (Exit::Done, CheckJson::of(&found)),
        Ok(Found::Refused { lines, data: Ok(data) }) => {
            (Exit::StudyChanged, CheckJson::of_refusal(&lines, data))
        }
        Ok(Found::Refused { lines, data: Err(failure) }) => {
            (Exit::Usage, CheckJson::of_failure(failure)?.and_refusal(&lines))
        }
        Err(failure) => (Exit::Usage, CheckJson::of_failure(failure)?),
    };
    console.json(None, &output)?;
    Ok(exit)
}

/// What is found about a file without mistakes.
enum Found {
    /// The study can be run.
    Fit(Box<CheckedStudy>),
    /// The stored study does not take the file's changes.
    Refused {
        /// Why, in the words of `run`.
        lines: Vec<String>,
        /// Lines about the data, which a new study would read.
        data: Result<Vec<String>, Failure>,
    },
}

fn find(arguments: &CheckArguments, console: &mut Console) -> Result<Found, Failure> {
    starter::another_file(&arguments.study).map_or(Ok(()), Err)?;
    starter::no_file(&arguments.study).map_or(Ok(()), Err)?;
    let checked = config::load_with_warnings(&arguments.study, &arguments.set)?;
    if !arguments.json {
        console.warn(&checked.warnings);
    }
    let mut spec = checked.spec.clone();
    let machine = MachineDevices::detect(&spec.devices.select);
    let (slots, idle) = match &spec.cluster {
        // Agents know their own.
        Some(_) => (Vec::new(), None),
        None => (
            slots(&spec.devices, &spec.program, &machine)?,
            left_over(&spec.devices, &spec.program, &machine),
        ),
    };
    let reader = console.reader_if_there()?;
    let known = reader.as_ref().map(|reader| reader.study(&spec.name)).transpose()?.flatten();
    check_new(known.as_ref(), &checked, &spec)?;
    let steps = note_on_steps(known.as_ref(), &checked);
    let store = absolute(&console.store)?;
    place_files(&mut spec, &arguments.study, &store)?;
    if let (Some(known), Some(reader)) = (&known, &reader) {
        if known.spec.is_tracked() {
            return Err(StorageError::Tracked { study: known.spec.name.clone() }.into());
        }
        continue_file(known, &checked, &mut spec);
        let inputs = inputs::of_study(&spec);
        let (_, changes) = changes_by_file(reader, known, &spec, &store, &inputs)?;
        let refused = refusal(&changes, Consent::Missing);
        let (file, set, changes) = (&arguments.study, &arguments.set, &changes);
        let changed = ChangedStudy { study: &spec.name, file, set, changes, refused };
        if refused.is_some() {
            let data = prepare_data(&spec, &store, &mut listener(console));
            let data = data.map(|data| data.findings).map_err(Failure::from);
            return Ok(Found::Refused { lines: changed.lines(console), data });
        }
        if !arguments.json {
            changed.print(console);
        }
    }
    if !spec.warm_start.is_empty() {
        // Whether the earlier studies are there. `run` creates a store, and looks in it.
        let created = MemoryStore::new();
        let store: &dyn StorageReader = reader.as_ref().map_or(&created, |reader| reader);
        warm_start::take(&mut spec.clone(), known.as_ref().map(|known| &known.spec), store)?;
    }
    let unmeasured = match (&reader, &known) {
        (Some(reader), Some(known)) => {
            let summary = StudySummary { spec: spec.clone(), ..reader.summary(known.id)? };
            unmeasured(reader, &summary)?
        }
        _ => None,
    };
    let known =
        reader.as_ref().zip(known).map(|(reader, known)| (reader as &dyn StorageReader, known.id));
    if let Some(edited) = check_target(&spec, &arguments.study, known, &store)? {
        exported::warn_edited_export(&edited, console);
    }
    let missing = missing_files(&spec);
    let data = prepare_data(&spec, &store, &mut listener(console))?.findings;
    let ahead = ahead(&spec, &slots, console)?;
    let warnings = checked.warnings;
    Ok(Found::Fit(Box::new(CheckedStudy {
        spec,
        warnings,
        slots,
        idle,
        missing,
        steps,
        data,
        unmeasured,
        ahead,
    })))
}

fn print(
    found: &CheckedStudy,
    arguments: &CheckArguments,
    console: &mut Console,
) -> Result<Exit, Failure> {
    let spec = &found.spec;
    writeln!(console.out, "study     {}", spec.name)?;
    writeln!(
        console.out,
        "searches  {} to {}",
        count(spec.space.dimensions().len() as u64, "parameter"),
        goal(spec)
    )?;
    writeln!(console.out, "with      sampler {}, pruner {}", spec.sampler.name, spec.pruner.name)?;
    writeln!(console.out, "on        {}", one_line(&slots_in_words(found)))?;
    if let Some(idle) = &found.idle {
        writeln!(console.out, "note      {idle}")?;
    }
    for (index, line) in examples(spec).iter().enumerate() {
        writeln!(console.out, "{:<10}{line}", if index == 0 { "runs" } else { "" })?;
    }
    if let Some(cwd) = elsewhere(spec) {
        writeln!(console.out, "in        {}", one_line(&cwd.display().to_string()))?;
    }
    for flag in command_line::unstyled_flags(spec) {
        writeln!(
            console.out,
            "flags     `{flag}` is written as true and false; with `args_style = \"dashes\"` under \
             [command] it is a flag that is given or left out"
        )?;
    }
    if let Some(note) = command_line::unnamed_parameters(spec) {
        writeln!(console.out, "note      {}", one_line(&note))?;
    }
    if let Some(note) = found.steps {
        writeln!(console.out, "note      {note}")?;
    }
    found.missing.iter().for_each(|missing| console.say(&missing.to_string()));
    print_data(&found.data, console)?;
    if let Some(why) = &found.unmeasured {
        writeln!(console.out, "goal      {}", one_line(&why.to_string()))?;
    }
    match &found.ahead {
        Ahead::OfTrials(forecast, trials) => {
            let (parts, trials) = (parts(forecast).join("; "), count(*trials, "trial"));
            writeln!(console.out, "forecast  {parts} (from the {trials} of the store)")?;
        }
        Ahead::OfFile(text) => writeln!(console.out, "forecast  {text}")?,
    }
    let run = console.next(&format!("run {}{}", typed(&arguments.study), sets(&arguments.set)));
    writeln!(console.out, "{run} runs it")?;
    Ok(Exit::Done)
}

fn print_data(lines: &[String], console: &mut Console) -> Result<(), Failure> {
    for line in lines {
        writeln!(console.out, "data      {}", one_line(line))?;
    }
    Ok(())
}

/// The working directory of a command, if it is not this process's.
fn elsewhere(spec: &StudySpec) -> Option<&Path> {
    let Program::Command { cwd, .. } = &spec.program else { return None };
    let here = std::env::current_dir().ok();
    (here.as_deref() != Some(cwd)).then_some(cwd)
}

/// Where trials would run.
fn slots_in_words(CheckedStudy { spec, slots, .. }: &CheckedStudy) -> String {
    let Some(cluster) = &spec.cluster else {
        let devices: Vec<String> = slots.iter().map(|slot| slot.devices.to_string()).collect();
        return format!("{} ({})", count(slots.len() as u64, "slot"), devices.join(", "));
    };
    let agents = match &cluster.start {
        AgentStart::Manual => {
            "agents that are started by hand; the run prints their command".to_owned()
        }
        AgentStart::Command { run, max_jobs } => {
            let program = run.first().map_or("", String::as_str);
            format!("agents of `{program}`, {max_jobs} at a time")
        }
        AgentStart::Ssh { hosts } => {
            let names: Vec<String> = hosts.iter().map(host).collect();
            format!("agents of {} by ssh: {}", count(names.len() as u64, "host"), names.join(", "))
        }
        AgentStart::Slurm(slurm) => {
            let partition = slurm.partition.as_ref().map(|name| format!(", partition {name}"));
            let partition = partition.unwrap_or_default();
            format!("agents of Slurm, at most {} at a time{partition}", slurm.max_jobs)
        }
    };
    format!("{agents}; each uses {} of its machine", spec.devices.select.join(", "))
}

fn host(SshHost { name, devices }: &SshHost) -> String {
    match devices.is_empty() {
        true => name.clone(),
        false => format!("{name} ({})", devices.join(", ")),
    }
}

/// The forecast: from the study's own trials, if the store has some, else from its file.
fn ahead(spec: &StudySpec, slots: &[Slot], console: &Console) -> Result<Ahead, Failure> {
    let reader = console.reader_if_there()?;
    let known = reader.as_ref().map(|reader| reader.study(&spec.name)).transpose()?.flatten();
    let Some((reader, known)) = reader.zip(known) else {
        return Ok(Ahead::OfFile(before_the_first(spec)));
    };
    let summary = reader.summary(known.id)?;
    // It may run on other slots than before.
    let used = match spec.cluster {
        Some(_) => reader.used(known.id)?,
        None => Used { slots: slots.len(), devices: devices_of(slots), ..reader.used(known.id)? },
    };
    let running = if state(&summary) == StudyStatus::Running { Running::Yes } else { Running::No };
    let forecast = look_ahead(
        spec,
        summary.search_counts(),
        elapsed(&reader, &summary)?,
        used,
        runner::now(),
        running,
    );
    if summary.counts.only_fail() {
        let trials = count(summary.counts.total(), "trial");
        return Ok(Ahead::OfFile(format!(
            "none: none of the {trials} of the store produced a result"
        )));
    }
    Ok(match parts(&forecast).is_empty() {
        true => Ahead::OfFile(before_the_first(spec)),
        false => Ahead::OfTrials(forecast, summary.counts.total()),
    })
}

/// Most characters of a command line that are shown.
const MOST_SHOWN: usize = 4_000;

/// Configurations tried to find two whose command lines differ.
const CONFIGURATIONS: u32 = 256;

/// Values tried for them at most: of a large space fewer configurations are.
const VALUES: u32 = 100_000;

/// The command lines of two configurations, with different active parameters if possible; one if
/// all are the same.
fn examples(spec: &StudySpec) -> Vec<String> {
    let Program::Command { run, args, .. } = &spec.program else { return Vec::new() };
    let sampled = |index| short(spec.space.spread(&Params::new(), index), &spec.space);
    let points: Box<dyn Iterator<Item = Params>> = match spec.candidates.as_slice() {
        [] => {
            let dimensions = u32::try_from(spec.space.dimensions().len()).unwrap_or(u32::MAX);
            let tried = (VALUES / dimensions.max(1)).clamp(8, CONFIGURATIONS);
            Box::new((0..tried).map(sampled))
        }
        candidates => Box::new(candidates.iter().cloned()),
    };
    let mut lines: Vec<(Vec<String>, String)> = Vec::new();
    let is_conditional = spec.space.is_conditional();
    for point in points.filter(|point| broken(&spec.constraints, point).is_none()) {
        let active: Vec<String> = point.iter().map(|(name, _)| name.to_owned()).collect();
        let is_wanted = match lines.as_slice() {
            [first, second] => first.0 == second.0 && first.0 != active,
            _ => true,
        };
        if is_wanted {
            let words = command_line::words(run, *args, &spec.space, &point, |_| None);
            let line = shell::quoted(&words);
            lines.truncate(1);
            if lines.first().is_none_or(|first| first.1 != line) {
                lines.push((active, line));
            }
        }
        // All have the same parameters.
        if lines.len() == 2 && !is_conditional {
            break;
        }
    }
    lines.into_iter().map(|(_, line)| one_line(&cut(&line, MOST_SHOWN))).collect()
}

/// The configuration with numbers rounded to four digits where the space allows it: `0.01` for
/// `0.010000000000000004`.
fn short(params: Params, space: &Space) -> Params {
    let shortened = params.iter().map(|(name, value)| {
        let rounded = match value {
            Value::Float(number) => format!("{number:.3e}").parse().ok().map(Value::Float),
            _ => None,
        };
        let near = rounded
            .zip(space.dimension(name))
            .and_then(|(rounded, dimension)| dimension.distribution.normalize(&rounded));
        (name.to_owned(), near.unwrap_or_else(|| value.clone()))
    });
    shortened.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn study(directory: &Path, run: &str, space: &str) -> StudySpec {
        let text = format!(
            "[study]\nmetric = \"loss\"\ndirection = \"minimize\"\n[budget]\ntrials = \
             3\n[command]\nrun = [{run}]\n[space]\n{space}\n"
        );
        config::parse(&text, Path::new("s.toml"), directory, &[])
            .unwrap_or_else(|problems| panic!("{problems}"))
    }

    #[test]
    fn two_examples_differ_in_what_is_active() {
        let directory = tempfile::tempdir().unwrap();
        let space = "optimizer = [\"sgd\", \"adam\"]\nlr = { float = [0.1, 0.9] }\nmomentum = { \
            float = [0.1, 0.9], when = { optimizer = \"sgd\" } }";
        let run = concat!(
            r#""sh", "my train.sh", "--optimizer={optimizer}", "--lr", "{lr}", "#,
            r#""--momentum", "{momentum}""#
        );
        let lines = examples(&study(directory.path(), run, space));
        assert_eq!(lines.len(), 2);
        assert!(
            lines.iter().all(|line| line.starts_with("sh 'my train.sh' --optimizer=")
                && line.contains(" --lr 0.")),
            "{lines:?}"
        );
        assert_eq!(
            lines.iter().filter(|line| line.contains("--momentum 0.")).count(),
            1,
            "{lines:?}"
        );
        assert_eq!(lines.iter().filter(|line| line.contains("--momentum")).count(), 1, "{lines:?}");
        let middle = r#""sh", "x.sh", "{lr}", "{rate}""#;
        let space = "lr = { float = [1e-4, 1.0], log = true }\nrate = { float = [0.0, 0.99] }";
        let lines = examples(&study(directory.path(), middle, space));
        assert_eq!(lines[0], "sh x.sh 0.01 0.495");
        let one = examples(&study(directory.path(), r#""sh", "x.sh""#, "x = [1]"));
        assert_eq!(one, ["sh x.sh"]);
    }
}
