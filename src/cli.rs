//! The command line: what can be typed, and which verb does it; one file a verb.

mod best;
mod check;
mod console;
mod devices;
mod exit;
mod export;
mod kill;
mod list;
mod logs;
mod ls;
mod named_study;
mod not_built;
mod predict;
mod run;
mod schema;
mod show;
mod starter;
mod stop;
mod train;
mod trial_json;
mod trials;
mod watch;

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Args, Parser, Subcommand, ValueEnum};

pub use console::{Console, Talk, life};
pub use exit::{Exit, Failure};

const EXAMPLES: &str = "\
Examples:
  hpsearch check study.toml        is the study file right?
  hpsearch run study.toml          search; run again to go on after an interruption
  hpsearch watch                   the live leaderboard, from another terminal
  hpsearch best > best.toml        the best parameters found so far
  hpsearch export -o model         the best trial's checkpoint, ready for use

A study is named by its name, by its file (study.toml), or not at all if the
store holds only one.

Exit codes:
  0  done                            4    too many trials failed
  1  internal error                  5    store busy or unreachable
  2  wrong command line or file      6    the study file changed
  3  no completed trial              130, 143  interrupted; run again to go on";

/// Hyperparameter search from one binary: describe a study in a TOML file, run it, watch it, take the best checkpoint.
#[derive(Debug, Parser)]
#[command(name = "hpsearch", bin_name = "hpsearch", version, after_help = EXAMPLES, max_term_width = 100, disable_help_subcommand = true)]
pub struct CommandLine {
    /// Options of all verbs.
    #[command(flatten)]
    pub common: Common,
    /// What to do.
    #[command(subcommand)]
    pub verb: Verb,
}

/// Options of all verbs.
#[derive(Clone, Debug, Args)]
pub struct Common {
    /// The store: one file that holds all studies
    #[arg(long, global = true, value_name = "PATH", env = "HPSEARCH_STORE", default_value = "runs/hpsearch.db", help_heading = "Global options")]
    pub store: PathBuf,
    /// Print results and errors only
    #[arg(short, long, global = true, help_heading = "Global options")]
    pub quiet: bool,
    /// Say more
    #[arg(short, long, global = true, action = clap::ArgAction::Count, conflicts_with = "quiet", help_heading = "Global options")]
    pub verbose: u8,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Check a study file without running it
    #[command(after_help = "Examples:\n  hpsearch check study.toml\n  hpsearch check study.toml --set budget.trials=50")]
    Check(CheckArguments),
    /// Run a study, or go on with it
    #[command(after_help = RUN_EXAMPLES)]
    Run(RunArguments),
    /// Watch a study live, from any terminal
    #[command(after_help = "Examples:\n  hpsearch watch\n  hpsearch watch digits --store /data/hpsearch.db")]
    Watch(WatchArguments),
    /// List the studies of the store
    #[command(after_help = "Examples:\n  hpsearch ls\n  hpsearch ls --json | jq '.studies[].best'")]
    Ls(LsArguments),
    /// Show what a study searches, its rules and how far it is
    #[command(after_help = "Examples:\n  hpsearch show digits")]
    Show(ShowArguments),
    /// List the trials of a study
    #[command(after_help = "Examples:\n  hpsearch trials digits --limit 10\n  hpsearch trials digits --sort number --json")]
    Trials(TrialsArguments),
    /// Show the best trial, its parameters as TOML
    #[command(after_help = "Examples:\n  hpsearch best digits\n  hpsearch best digits --json | jq .trial.params")]
    Best(BestArguments),
    /// Print what a trial's program printed
    #[command(
        after_help = "Examples:\n  hpsearch logs digits 7\n  hpsearch logs digits 7 -f\n  hpsearch logs 7 --attempt 0      the only study of the store"
    )]
    Logs(LogsArguments),
    /// Write the best trial's checkpoint into a directory, ready for use
    #[command(after_help = "Examples:\n  hpsearch export digits -o model\n  hpsearch export digits -o model --trial 7")]
    Export(ExportArguments),
    /// Train one model with fixed parameters
    #[command(after_help = "Examples:\n  hpsearch train best.toml -o model")]
    Train(TrainArguments),
    /// Use an exported model on texts
    #[command(after_help = "Examples:\n  hpsearch predict model \"what a film\"\n  cat texts.txt | hpsearch predict model")]
    Predict(PredictArguments),
    /// Ask a running study to stop; it can be resumed
    #[command(after_help = "Examples:\n  hpsearch stop digits")]
    Stop(StopArguments),
    /// Kill one running trial; it counts as failed
    #[command(after_help = "Examples:\n  hpsearch kill digits 7")]
    Kill(KillArguments),
    /// List the devices of this machine and which of them can be used
    #[command(after_help = "Examples:\n  hpsearch devices")]
    Devices(DevicesArguments),
    /// List samplers, pruners or tasks with their options
    #[command(after_help = "Examples:\n  hpsearch list samplers\n  hpsearch list pruners")]
    List(ListArguments),
    /// Print the JSON Schema of the study file, for editors
    #[command(after_help = "Examples:\n  hpsearch schema > study.schema.json")]
    Schema,
    /// Internal: the process that runs trials
    #[command(hide = true)]
    Worker(WorkerArguments),
}

const RUN_EXAMPLES: &str = "\
Examples:
  hpsearch run study.toml
  hpsearch run study.toml --set budget.trials=50 --plain
  hpsearch run study.toml --accept            the space, sampler or pruner changed: go on with the new one
  hpsearch run study.toml --fork digits-2     the metric, data or trainer changed: start a new study

On a terminal the live leaderboard is shown; into a pipe or a file, plain lines.
Ctrl-C stops and saves; run again to go on.";

/// `check`.
#[derive(Clone, Debug, Args)]
pub struct CheckArguments {
    /// The study file
    #[arg(value_name = "STUDY.toml")]
    pub study: PathBuf,
    /// Override a key of the study file, as often as needed
    #[arg(long, value_name = "TABLE.KEY=VALUE")]
    pub set: Vec<String>,
}

/// `run`.
#[derive(Clone, Debug, Args)]
pub struct RunArguments {
    /// The study file
    #[arg(value_name = "STUDY.toml")]
    pub study: Option<PathBuf>,
    /// Override a key of the study file, as often as needed
    #[arg(long, value_name = "TABLE.KEY=VALUE")]
    pub set: Vec<String>,
    /// Go on although the space, the sampler, the pruner or what is enqueued changed
    #[arg(long)]
    pub accept: bool,
    /// Start a new study of this name from the file
    #[arg(long, value_name = "NAME", conflicts_with = "accept")]
    pub fork: Option<String>,
    /// Print one line for each thing that matters
    #[arg(long, group = "form")]
    pub plain: bool,
    /// Print the journal as JSON lines
    #[arg(long, group = "form")]
    pub events: bool,
    /// No live leaderboard, even on a terminal (the same as --plain)
    #[arg(long, group = "form")]
    pub no_tui: bool,
}

/// `watch`.
#[derive(Clone, Debug, Args)]
pub struct WatchArguments {
    /// The study's name or file
    pub study: Option<String>,
}

/// `ls`.
#[derive(Clone, Debug, Args)]
pub struct LsArguments {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `show`.
#[derive(Clone, Debug, Args)]
pub struct ShowArguments {
    /// The study's name or file
    pub study: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// The order of `trials`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Sort {
    /// Best first
    Value,
    /// As they were created
    Number,
}

/// `trials`.
#[derive(Clone, Debug, Args)]
pub struct TrialsArguments {
    /// The study's name or file
    pub study: Option<String>,
    /// The order
    #[arg(long, default_value = "value")]
    pub sort: Sort,
    /// At most so many
    #[arg(long, value_name = "N")]
    pub limit: Option<u64>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `best`.
#[derive(Clone, Debug, Args)]
pub struct BestArguments {
    /// The study's name or file
    pub study: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `logs`.
#[derive(Clone, Debug, Args)]
#[command(allow_missing_positional = true)]
pub struct LogsArguments {
    /// The study's name or file
    pub study: Option<String>,
    /// The trial's number
    pub trial: u64,
    /// Which attempt, from 0; the last one by default
    #[arg(long, value_name = "N")]
    pub attempt: Option<u32>,
    /// Go on printing while the attempt runs
    #[arg(short, long)]
    pub follow: bool,
}

/// `export`.
#[derive(Clone, Debug, Args)]
pub struct ExportArguments {
    /// The study's name or file
    pub study: Option<String>,
    /// The directory to write
    #[arg(short, long, value_name = "DIR")]
    pub output: PathBuf,
    /// Another trial than the best one
    #[arg(long, value_name = "N")]
    pub trial: Option<u64>,
}

/// `train`.
#[derive(Clone, Debug, Args)]
pub struct TrainArguments {
    /// The file with all arguments, as `export` writes it
    #[arg(value_name = "BEST.toml")]
    pub file: PathBuf,
    /// The directory to write
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,
}

/// `predict`.
#[derive(Clone, Debug, Args)]
pub struct PredictArguments {
    /// The directory that `export` wrote
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
    /// The texts; from standard input, one a line, if there are none here
    #[arg(value_name = "TEXT")]
    pub texts: Vec<String>,
    /// The device to use
    #[arg(long, default_value = "cpu")]
    pub device: String,
}

/// `stop`.
#[derive(Clone, Debug, Args)]
pub struct StopArguments {
    /// The study's name or file
    pub study: Option<String>,
}

/// `kill`.
#[derive(Clone, Debug, Args)]
#[command(allow_missing_positional = true)]
pub struct KillArguments {
    /// The study's name or file
    pub study: Option<String>,
    /// The trial's number
    pub trial: u64,
}

/// `devices`.
#[derive(Clone, Debug, Args)]
pub struct DevicesArguments {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// What `list` lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Listed {
    /// Who proposes the next trial
    Samplers,
    /// Who stops hopeless trials
    Pruners,
    /// What the built-in trainer can train
    Tasks,
}

/// `list`.
#[derive(Clone, Debug, Args)]
pub struct ListArguments {
    /// What to list
    pub what: Listed,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `worker`.
#[derive(Clone, Debug, Args)]
pub struct WorkerArguments {
    /// What the runner says
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub arguments: Vec<OsString>,
}

/// How a result is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputForm {
    /// For people.
    Text,
    /// One JSON object (`--json`).
    Json,
}

/// Runs what this process's arguments say.
pub fn main() -> ExitCode {
    if let Some(code) = worker() {
        return code;
    }
    let command_line = match CommandLine::try_parse() {
        Ok(command_line) => command_line,
        Err(error) => return refuse(&error),
    };
    let mut console = Console::new(&command_line.common);
    let done = dispatch(&command_line.verb, &mut console);
    // What was printed before an error stays printed.
    let exit = match (done, console.finish()) {
        (Ok(exit), Ok(())) => exit,
        (Err(failure), _) | (_, Err(failure)) => {
            // Whoever closed standard error does not want to hear it.
            let _ = write!(io::stderr(), "{failure}");
            failure.exit()
        }
    };
    ExitCode::from(exit.code())
}

/// Workers are started by the hundred and hand on other programs' arguments as they are: clap has no part in them.
fn worker() -> Option<ExitCode> {
    let mut words = std::env::args_os().skip(1);
    if words.next()? != "worker" {
        return None;
    }
    let words: Vec<OsString> = words.collect();
    let code = match words.split_first() {
        None => crate::worker::serve(),
        Some((first, command)) if first == "--exec" => crate::worker::exec(command),
        Some(_) => return None,
    };
    Some(ExitCode::from(u8::try_from(code).unwrap_or(1)))
}

fn dispatch(verb: &Verb, console: &mut Console) -> Result<Exit, Failure> {
    match verb {
        Verb::Check(arguments) => check::check(arguments, console),
        Verb::Run(arguments) => run::run(arguments, console),
        Verb::Watch(arguments) => watch::watch(arguments, console),
        Verb::Ls(arguments) => ls::ls(arguments, console),
        Verb::Show(arguments) => show::show(arguments, console),
        Verb::Trials(arguments) => trials::trials(arguments, console),
        Verb::Best(arguments) => best::best(arguments, console),
        Verb::Logs(arguments) => logs::logs(arguments, console),
        Verb::Export(arguments) => export::export(arguments, console),
        Verb::Train(arguments) => train::train(arguments, console),
        Verb::Predict(arguments) => predict::predict(arguments, console),
        Verb::Stop(arguments) => stop::stop(arguments, console),
        Verb::Kill(arguments) => kill::kill(arguments, console),
        Verb::Devices(arguments) => devices::devices(arguments, console),
        Verb::List(arguments) => list::list(arguments, console),
        Verb::Schema => schema::schema(console),
        Verb::Worker(_) => Ok(Exit::Done),
    }
}

/// Help, the version, or what is wrong with the command line.
fn refuse(error: &clap::Error) -> ExitCode {
    if let (ErrorKind::InvalidSubcommand, Some(ContextValue::String(verb))) = (error.kind(), error.get(ContextKind::InvalidSubcommand))
        && not_built::LATER.contains(&verb.as_str())
    {
        let _ = write!(io::stderr(), "{}", not_built::refusal(verb));
        return ExitCode::from(Exit::Usage.code());
    }
    // A reader that has gone is no reason to fail.
    let _ = error.print();
    ExitCode::from(if error.use_stderr() { Exit::Usage.code() } else { Exit::Done.code() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        CommandLine::command().debug_assert();
    }

    #[test]
    fn every_verb_has_examples() {
        for verb in CommandLine::command().get_subcommands().filter(|verb| !verb.is_hide_set()) {
            assert!(verb.get_after_help().is_some_and(|text| text.to_string().starts_with("Examples:")), "{}", verb.get_name());
        }
    }

    #[test]
    fn the_study_may_be_left_out_before_a_trials_number() {
        let trial = |arguments: &[&str]| match CommandLine::try_parse_from(arguments).unwrap().verb {
            Verb::Kill(arguments) => (arguments.study, arguments.trial),
            other => panic!("{other:?}"),
        };
        assert_eq!(trial(&["hpsearch", "kill", "7"]), (None, 7));
        assert_eq!(trial(&["hpsearch", "kill", "digits", "7"]), (Some("digits".into()), 7));
    }

    #[test]
    fn no_verb_is_both_built_and_refused() {
        let command = CommandLine::command();
        assert!(command.get_subcommands().all(|verb| !not_built::LATER.contains(&verb.get_name())));
    }
}
