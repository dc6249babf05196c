//! `hpsearch check`: validates a study file and its data without running a trial.

mod json;
mod tried;

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;

use super::changed_study::ChangedStudy;
use super::console::{Console, typed};
use super::exit::{Exit, Failure};
use super::overrides::sets;
use super::starter;
use super::study_notices::Notices;
use super::waiting::listener;
use crate::app::check_study::{
    self, CheckNotice, CheckedStudy, FileOptions, Problems, StudyForecast,
};
use crate::app::missing_files::MissingFile;
use crate::app::reconcile::Consent;
use crate::app::study_state::unmeasured;
use crate::config::shown::one_line;
use crate::config::{command_line, shell};
use crate::report::ahead::parts;
use crate::report::wording::goal;
use crate::storage::memory::MemoryStore;
use crate::storage::{StorageReader, StudySummary};
use crate::study::cluster::{AgentStart, SshHost};
use crate::study::constraint::broken;
use crate::study::counted::count;
use crate::study::params::{Params, Value, cut};
use crate::study::program::Program;
use crate::study::space::Space;
use crate::study::spec::StudySpec;
use crate::study::unmeasured::Unmeasured;

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

/// What `check` found.
struct Findings {
    study: CheckedStudy,
    /// The problems besides changes that are refused.
    problems: Vec<Failure>,
    /// Why the stored study does not take the file's changes, in the words of `run`.
    refusal: Vec<String>,
    notes: Notes,
    /// Why the trials of the store do not measure a goal of the file.
    unmeasured: Option<Unmeasured>,
    forecast: StudyForecast,
}

/// What the check reported, for the summary.
#[derive(Default)]
struct Notes {
    devices: Vec<String>,
    missing: Vec<MissingFile>,
    /// On the unit of steps, if the file does not set it.
    steps: Option<String>,
}

/// Checks it.
pub fn check(arguments: &CheckArguments, console: &mut Console) -> Result<Exit, Failure> {
    if !arguments.tried.is_empty() {
        return tried::try_lines(arguments, console);
    }
    let found = find(arguments, console);
    if !arguments.json {
        return print(found?, arguments, console);
    }
    let (exit, output) = match found {
        Ok(found) => (found.exit(), CheckJson::of(found)?),
        Err(failure) => (Exit::Usage, CheckJson::of_failure(failure)?),
    };
    console.json(None, &output)?;
    Ok(exit)
}

impl Findings {
    /// The exit code.
    fn exit(&self) -> Exit {
        match (self.problems.first(), self.refusal.is_empty()) {
            (Some(problem), _) => problem.exit(),
            (None, false) => Exit::StudyChanged,
            (None, true) => Exit::Done,
        }
    }
}

fn find(arguments: &CheckArguments, console: &Console) -> Result<Findings, Failure> {
    starter::another_file(&arguments.study).map_or(Ok(()), Err)?;
    starter::no_file(&arguments.study).map_or(Ok(()), Err)?;
    let (file, set) = (arguments.study.as_path(), arguments.set.as_slice());
    let options = FileOptions { file, set, fork: None, consent: Consent::Missing };
    let path = console.absolute_store()?;
    let (mut notes, mut refusal) = (Notes::default(), Vec::new());
    let printed = Notices::new(file, set, console);
    let mut progress = None;
    let mut notice = |notice: CheckNotice<'_>| match notice {
        CheckNotice::Progress(step) => progress.get_or_insert_with(|| listener(console))(step),
        CheckNotice::Device(note) => notes.devices.push(note.to_owned()),
        CheckNotice::Steps(note) => notes.steps = Some(note.to_owned()),
        CheckNotice::MissingFile(missing) => notes.missing.push(missing.clone()),
        CheckNotice::Changed { changes, refused: refused @ Some(_), spec } => {
            let study = &spec.name;
            refusal = ChangedStudy { study, file, set, changes, refused }.lines(console);
        }
        // They are part of the summary.
        CheckNotice::UnnamedParameters(_) | CheckNotice::Data { .. } => {}
        _ if arguments.json => {}
        other => printed.tell_of_file(other),
    };
    let mut problems = Problems::All(Vec::new());
    let read = check_study::read(options, &path, &mut problems, &mut notice)?;
    let stored = console.reader_if_there()?;
    // `run` creates a store, and looks for earlier studies in it.
    let created = MemoryStore::new();
    let store: &dyn StorageReader = stored.as_ref().map_or(&created, |stored| stored);
    let study = check_study::check(read, options, (store, &path), &mut problems, &mut notice)?;
    drop(progress);
    let unmeasured = match &study.known {
        Some(known) => {
            let spec = study.spec.clone();
            unmeasured(store, &StudySummary { spec, ..store.summary(known.id)? })?
        }
        None => None,
    };
    let forecast = check_study::forecast(&study, store)?;
    let problems = match problems {
        Problems::First => Vec::new(),
        Problems::All(problems) => problems.into_iter().map(Failure::from).collect(),
    };
    Ok(Findings { study, problems, refusal, notes, unmeasured, forecast })
}

fn print(
    found: Findings,
    arguments: &CheckArguments,
    console: &mut Console,
) -> Result<Exit, Failure> {
    let exit = found.exit();
    if exit != Exit::Done {
        found.refusal.iter().for_each(|line| console.complain(line));
        print_data(&found.study.data.findings, console)?;
        return match Failure::several(found.problems) {
            Some(problems) => Err(problems),
            None => Ok(exit),
        };
    }
    let spec = &found.study.spec;
    writeln!(console.out, "study     {}", spec.name)?;
    writeln!(
        console.out,
        "searches  {} to {}",
        count(spec.space.dimensions().len() as u64, "parameter"),
        goal(spec)
    )?;
    writeln!(console.out, "with      sampler {}, pruner {}", spec.sampler.name, spec.pruner.name)?;
    writeln!(console.out, "on        {}", one_line(&slots_in_words(&found.study)))?;
    for note in &found.notes.devices {
        writeln!(console.out, "note      {}", one_line(note))?;
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
    let unnamed = command_line::unnamed_parameters(spec);
    for note in unnamed.iter().chain(&found.notes.steps) {
        writeln!(console.out, "note      {}", one_line(note))?;
    }
    found.notes.missing.iter().for_each(|missing| console.say(&missing.to_string()));
    print_data(&found.study.data.findings, console)?;
    if let Some(why) = &found.unmeasured {
        writeln!(console.out, "goal      {}", one_line(&why.to_string()))?;
    }
    writeln!(console.out, "forecast  {}", in_words(&found.forecast))?;
    let run = console.next(&format!("run {}{}", typed(&arguments.study), sets(&arguments.set)));
    writeln!(console.out, "{run} runs it")?;
    Ok(Exit::Done)
}

fn in_words(forecast: &StudyForecast) -> String {
    match forecast {
        StudyForecast::OfTrials(forecast, trials) => {
            let (parts, trials) = (parts(forecast).join("; "), count(*trials, "trial"));
            format!("{parts} (from the {trials} of the store)")
        }
        StudyForecast::OfFile(text) => text.clone(),
        StudyForecast::OnlyFailures(trials) => {
            format!("none: none of the {} of the store produced a result", count(*trials, "trial"))
        }
    }
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
    use crate::config;

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
