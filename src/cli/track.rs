//! `hpsearch track`: runs a program and records it, without a search.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;

use super::console::Console;
use super::direction::DirectionArgument;
use super::exit::{Exit, Failure};
use crate::app::last_values::take_logged;
use crate::app::spools::TakeOver;
use crate::app::track::{BatchJob, Begun, TrackOptions, begin};
use crate::report::wording::{number, one_line};
use crate::runner::signals::PassedOn;
use crate::storage::any::AnyStore;
use crate::storage::{StorageReader as _, StoredStudy};
use crate::study::counted::count;
use crate::study::field;
use crate::study::metric::Direction;
use crate::study::params::Value;
use crate::study::printed_metrics::{PatternError, Patterns};
use crate::study::program::MetricSources;
use crate::study::spec::TrackSpec;
use crate::study::step::StepUnit;
use crate::study::suggestion::quoted;
use crate::study::trial::TrialNumber;
use crate::tracking::process::{Ended, ForegroundCommand, Unwritten, carry_out};
use crate::tracking::{Goal, RunEnd, arguments};

const EXAMPLES: &str = "\
Examples:
  hpsearch track -- python train.py --lr 0.1
  hpsearch track --name baseline --tag v2 -- python train.py --lr 0.1
  hpsearch track --study speech --metric wer -- ./train.sh
  hpsearch track --resume baseline -- python train.py --lr 0.1
  hpsearch trials runs             the runs, the best first
  hpsearch stop runs 3             run 3 saves and exits, wherever it runs

Without --study, the study has the name of the git repository's directory, or
`runs`. Without --metric, its metric is `loss`, to be minimised; the first run
sets it. Parameters are the program's options: --lr 0.1, --lr=0.1, lr=0.1; those
with the name of a password or token are not stored.

The program reports like a trial, with lines on standard output such as
  @hpsearch {\"step\":1,\"loss\":0.5}
or in its own words, which --pattern finds: --pattern 'loss: (?<loss>\\S+)'.
--json and --tensorboard read files that it writes.
All other output is shown here and kept as its log. Its exit code is that of
this command. Ctrl-C is passed on; --resume continues the run, with
HPSEARCH_RESUME set to its last checkpoint.";

/// Arguments of `hpsearch track`.
#[derive(Clone, Debug, Args)]
#[command(after_help = EXAMPLES, override_usage = "hpsearch track [OPTIONS] -- COMMAND [ARGS]...")]
pub struct TrackArguments {
    /// The study of the run; created if it does not exist
    #[arg(long, value_name = "NAME")]
    pub study: Option<String>,
    /// The run's name; NAME-2 if another run has it
    #[arg(long, value_name = "NAME", conflicts_with = "resume")]
    pub name: Option<String>,
    /// A parameter, as often as needed
    #[arg(long, value_name = "KEY=VALUE")]
    pub param: Vec<String>,
    /// A tag, as often as needed
    #[arg(long, value_name = "TAG", conflicts_with = "resume")]
    pub tag: Vec<String>,
    /// A note on the run
    #[arg(long, value_name = "TEXT", conflicts_with = "resume")]
    pub note: Option<String>,
    /// The group of runs that it belongs to
    #[arg(long, value_name = "GROUP", conflicts_with = "resume")]
    pub group: Option<String>,
    /// The run of the study that this one is part of, by its name or number
    #[arg(long, value_name = "RUN", conflicts_with = "resume")]
    pub parent: Option<String>,
    /// Resume this run, by its name or number
    #[arg(long, value_name = "RUN")]
    pub resume: Option<String>,
    /// The metric that runs are compared by
    #[arg(long, value_name = "METRIC")]
    pub metric: Option<String>,
    /// Whether smaller or larger values of it are better
    #[arg(long, value_name = "WAY", value_enum)]
    pub direction: Option<DirectionArgument>,
    /// A regular expression whose named groups are metrics that the program
    /// prints in its own words, as often as needed; one named `step` is the step
    #[arg(long, value_name = "REGEX")]
    pub pattern: Vec<String>,
    /// A file of JSON lines with metrics that the program writes
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// A directory in which the program writes TensorBoard's event files
    #[arg(long, value_name = "DIR")]
    pub tensorboard: Option<PathBuf>,
    /// How often CPU, memory and GPUs are measured: 10s (the default) or off
    #[arg(long, value_name = "INTERVAL", value_parser = period)]
    pub system: Option<Period>,
    /// The program and its arguments
    #[arg(value_name = "COMMAND", required = true, last = true)]
    pub command: Vec<String>,
}

/// The interval of measurements; `None`: never.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Period(pub Option<Duration>);

fn period(text: &str) -> Result<Period, &'static str> {
    field::period(text).map(Period)
}

/// Runs the program.
pub fn track(arguments: &TrackArguments, console: &mut Console) -> Result<Exit, Failure> {
    check_patterns(&arguments.pattern)?;
    let directory = std::env::current_dir()?;
    let metrics = MetricSources {
        pattern: arguments.pattern.clone(),
        json: metric_file("json", arguments.json.as_deref(), &directory)?,
        tensorboard: metric_file("tensorboard", arguments.tensorboard.as_deref(), &directory)?,
    };
    let wanted = TrackOptions {
        study: arguments.study.clone(),
        goal: Goal {
            metric: arguments.metric.clone(),
            direction: arguments.direction.map(Direction::from),
        },
        name: arguments.name.clone(),
        params: arguments.param.iter().map(|word| param(word)).collect::<Result<_, _>>()?,
        tags: arguments.tag.clone(),
        note: arguments.note.clone(),
        group: arguments.group.clone(),
        parent: arguments.parent.clone(),
        resume: arguments.resume.clone(),
        command: arguments.command.clone(),
        directory: directory.clone(),
        job: BatchJob::of_slurm(|name| std::env::var(name).ok()),
    };
    // From here on signals belong to the program: writes before its start are brief.
    let signals = PassedOn::start()?;
    let path = console.absolute_store()?;
    let mut store = AnyStore::open(&path)?;
    console.print_migration(store.migrated());
    let words: Vec<_> = std::env::args_os().collect();
    let Begun { run, params, is_resumed, changed, settled, assumed } =
        begin(&mut store, &path, wanted, &words)?;
    let (study, trial) = (run.study().clone(), run.number());
    for dead in settled.into_iter().filter(|dead| *dead != trial) {
        console.say(&format!("run {dead} is interrupted: its process was killed"));
    }
    if let Some(assumed) = assumed {
        console.say(&assumed.in_words("--direction maximize"));
    }
    let taking_over = TakeOver::begin(&path);
    let label = label(trial, run.name());
    let attempt = run.attempt();
    let how = if is_resumed { format!(", attempt {attempt}") } else { String::new() };
    console.say(&format!("tracking run {label} of `{}`{how}", study.spec.name));
    if let Some(changed) = changed {
        console.say(&one_line(&changed));
    }
    if let Some(checkpoint) = run.checkpoint() {
        let at = study.spec.step.at(checkpoint.step);
        console.say(&format!("it continues from the checkpoint of {at}"));
    }
    // Adopts orphans of killed supervisors, so that they can be killed.
    let _refused_by_old_kernels =
        rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
    let command = ForegroundCommand {
        words: arguments.command.clone(),
        directory,
        params,
        system: arguments.system.map_or(TrackSpec::default().system, |Period(period)| period),
        metrics,
    };
    let mut tell = |text: &str| console.complain(&one_line(text));
    let ended = carry_out(&mut store, &path, run, &command, signals.signals(), &mut tell)?;
    let value = store.trial(study.id, trial)?.and_then(|trial| trial.value);
    let value = value
        .map(|value| format!(": {} {}", one_line(&study.spec.objective().metric), number(value)))
        .unwrap_or_default();
    if let Some(taking_over) = taking_over {
        taking_over.wait();
    }
    print_end(&ended, &label, &value, (&study.spec.name, &trial.to_string()), &path, console);
    if ended.end == RunEnd::Completed && ended.unwritten.is_none() && !ended.is_fenced {
        print_what_is_missing(&store, &study, trial, console)?;
    }
    Ok(match ended.status {
        0 if ended.unwritten.is_some() => Exit::Store,
        status => Exit::Program(u8::try_from(status).unwrap_or(1)),
    })
}

/// `3 (baseline)`
fn label(trial: TrialNumber, name: Option<&str>) -> String {
    name.map_or_else(|| trial.to_string(), |name| format!("{trial} (`{}`)", one_line(name)))
}

fn print_end(
    ended: &Ended,
    label: &str,
    value: &str,
    (study, run): (&str, &str),
    store: &Path,
    console: &Console,
) {
    if let Some(Unwritten { why, count: lines, log }) = &ended.unwritten {
        let entries = match lines {
            0 => String::new(),
            lines => format!(" and {} before it", count(*lines, "line")),
        };
        let kept = match log {
            _ if *lines == 0 => String::new(),
            Some(log) => format!("; the log has what is missing: `{}`", log.display()),
            None => "; what is missing is lost, for the log cannot be written either".to_owned(),
        };
        return console.complain(&one_line(&format!(
            "the end of run {label}{entries} is not in the store `{}`: {why}{kept}",
            store.display()
        )));
    }
    if ended.is_fenced {
        return;
    }
    match &ended.end {
        RunEnd::Completed => console.say(&format!("run {label} is complete{value}")),
        RunEnd::Failed { reason, .. } => {
            console.say(&one_line(&format!("run {label} failed: {reason}")));
        }
        RunEnd::Interrupted { by } => {
            let resume = console.next(&format!("track --study {study} --resume {run} -- COMMAND"));
            console.say(&format!("run {label} was interrupted {by}; {resume} continues it"));
        }
    }
}

/// What to do about a complete run without the study's metric.
fn print_what_is_missing(
    store: &AnyStore,
    study: &StoredStudy,
    trial: TrialNumber,
    console: &Console,
) -> Result<(), Failure> {
    let Some(trial) = store.trial(study.id, trial)? else { return Ok(()) };
    let metric = one_line(&study.spec.objective().metric);
    if trial.value.is_some() {
        return Ok(());
    }
    let mut trials = [trial];
    take_logged(store, &store.summary(study.id)?, &mut trials)?;
    let others = trials[0].last_metrics.iter().map(|(name, _)| one_line(name));
    let others: Vec<String> = others.filter(|name| *name != metric).collect();
    console.say(&match others.as_slice() {
        [] => "it reported no metric: `--pattern`, `--json` and `--tensorboard` read what a \
               program prints or writes; it may also print lines such as `@hpsearch \
               {\"loss\":0.5}`, or log with `hpsearch.init` in Python"
            .to_owned(),
        others => format!(
            "it reported no `{metric}`, by which the runs of `{}` are compared, but {}: `--study \
             NAME --metric NAME` compares runs by another metric",
            one_line(&study.spec.name),
            quoted(others.iter().map(String::as_str)),
        ),
    });
    Ok(())
}

/// A file of the program's metrics, as the program's directory has it.
fn metric_file(
    option: &str,
    path: Option<&Path>,
    directory: &Path,
) -> Result<Option<String>, Failure> {
    let Some(path) = path else { return Ok(None) };
    let whole = directory.join(path);
    match whole.to_str() {
        Some(text) if !text.contains(['{', '}']) => Ok(Some(text.to_owned())),
        _ => {
            let path = one_line(&path.display().to_string());
            let message = format!("`--{option} {path}`: the path has braces, or is not UTF-8");
            Err(Failure::usage(message).help("write to a file of another name"))
        }
    }
}

/// Refuses patterns that cannot be used before the run is created.
fn check_patterns(patterns: &[String]) -> Result<(), Failure> {
    let refused = |(index, error): (usize, PatternError)| {
        let pattern = patterns.get(index).map_or("", String::as_str);
        let message = format!("`--pattern {}` {error}: {}", one_line(pattern), error.cause());
        Failure::usage(message).help(error.help_for_shell())
    };
    Patterns::new(patterns, StepUnit::Step.as_str()).map(drop).map_err(refused)
}

fn param(word: &str) -> Result<(String, Value), Failure> {
    arguments::given(word).ok_or_else(|| {
        Failure::usage(format!("`--param {}` gives no parameter", one_line(word)))
            .help("write its name and value: `--param lr=0.1`")
    })
}
