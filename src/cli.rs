//! The command line: what can be typed, and which verb does it; one file a verb.

#![expect(
    clippy::disallowed_methods,
    reason = "a front: it reads the clock and the environment for the layers below"
)]

mod ask_tell;
mod best;
mod check;
mod completions;
mod console;
mod continue_trial;
mod curves;
mod devices;
mod diff;
mod doctor;
mod du;
mod enqueue;
mod events;
mod exit;
mod explain;
mod export;
mod export_data;
mod exported;
mod extend;
mod failures;
mod foreground;
mod gc;
mod generate;
mod importance;
mod init;
mod kill;
mod lineage;
mod list;
mod logs;
mod ls;
mod man;
mod moments;
mod not_built;
mod note;
mod output;
mod output_file;
mod overrides;
mod pause;
mod picture;
mod plot;
mod predict;
mod request;
mod resume;
mod retry;
mod run;
mod schema;
mod selection;
mod show;
mod starter;
mod stop;
mod study_columns;
mod tag;
mod train;
mod trial_json;
mod trial_words;
mod trials;
mod verify;
mod waiting;
mod warm_start;
mod watch;
mod winner;

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::builder::{OsStringValueParser, TypedValueParser as _};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Args, CommandFactory, Parser, Subcommand};

use crate::config::shown::{drives_a_terminal, lines};
use crate::config::{TABLES, TableSchema};

pub use console::{Console, Talk};
pub use exit::{Exit, Failure};
use foreground::Foreground;
use importance::{ImportanceArguments, Measure};
use plot::{Kind, PlotArguments};

/// Where the store is unless the command line or the environment says otherwise.
const DEFAULT_STORE: &str = "runs/hpsearch.db";

const EXAMPLES: &str = "\
Examples:
  hpsearch init data.csv           write a first study.toml
  hpsearch check study.toml        is the study file right?
  hpsearch run study.toml          search; run again after an interruption
  hpsearch watch                   the live leaderboard, from another terminal
  hpsearch best > best.toml        the best parameters found so far
  hpsearch export -o model         the best trial's checkpoint, ready for use

A study is named by its name, by its file (study.toml), or not at all if the
store holds only one.

Exit codes:
  0  done                            4    too many trials failed
  1  internal error                  5    store busy or unreachable
  2  wrong command line or file      6    the study file changed
  3  no completed trial              7    verify found a difference
                                     130, 143  interrupted; run it again";

/// What is shown to whoever types the program's name alone; it fits a terminal of 24 rows.
const START: &str = "\
hpsearch: hyperparameter search and experiment tracking in one binary

A first study, from data or from a training script of your own:
  hpsearch init reviews.csv                    write study.toml for your data
  hpsearch init --command \"python train.py\"    write study.toml for a program
  hpsearch check                               is study.toml right?
  hpsearch run                                 search, with a live leaderboard
  hpsearch best                                the best parameters so far

All commands:
  start  init check run watch
  look   ls show trials best curves plot importance explain diff logs events
  steer  stop pause resume kill enqueue retry extend continue note tag
  models export train predict generate
  store  export-data du gc verify doctor
  more   ask-tell devices list schema completions man

`hpsearch --help` describes them, `hpsearch run --help` one of them.
";

/// Hyperparameter search from one binary: describe a study in a TOML file, run it, watch it, take
/// the best checkpoint.
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
    #[arg(long, global = true, value_name = "PATH", env = "HPSEARCH_STORE", hide_env_values = true, default_value = DEFAULT_STORE, value_parser = OsStringValueParser::new().map(PathBuf::from), value_hint = clap::ValueHint::FilePath, help_heading = "Global options")]
    pub store: PathBuf,
    /// Print results and errors only
    #[arg(short, long, global = true, help_heading = "Global options")]
    pub quiet: bool,
    /// Print more about what is done
    #[arg(short, long, global = true, action = clap::ArgAction::Count, conflicts_with = "quiet", help_heading = "Global options")]
    pub verbose: u8,
    /// Show tables whole, wider than the terminal
    #[arg(long, global = true, help_heading = "Global options")]
    pub wide: bool,
    /// Do not show long output in $PAGER
    #[arg(long, global = true, help_heading = "Global options")]
    pub no_pager: bool,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Write a first study file, from a look at the data or the command
    Init(init::InitArguments),
    /// Check a study file without running it
    Check(check::CheckArguments),
    /// Run a study, or continue with it
    Run(run::RunArguments),
    /// Watch a study live, from any terminal
    Watch(watch::WatchArguments),
    /// List the studies of the store
    Ls(ls::LsArguments),
    /// Show what a study searches, its rules and how far it is
    Show(show::ShowArguments),
    /// List the trials of a study
    Trials(trials::TrialsArguments),
    /// Show the best trial, its parameters as TOML
    Best(best::BestArguments),
    /// Draw the learning curves of trials
    Curves(curves::CurvesArguments),
    /// Draw a study: its history, curves, parameters
    Plot(plot::PlotArguments),
    /// Show which parameters matter
    Importance(importance::ImportanceArguments),
    /// Explain a trial: who proposed it, who stopped it, how it compares
    Explain(explain::ExplainArguments),
    /// Compare two trials, or a changed study file with its study
    Diff(diff::DiffArguments),
    /// Replay the decisions of a study, and show the first that comes out differently
    Verify(verify::VerifyArguments),
    /// Print what happened to a study, from its journal (event log)
    Events(events::EventsArguments),
    /// Print what a trial's program printed
    Logs(logs::LogsArguments),
    /// Write the best trial's checkpoint into a directory, ready for use
    Export(export::ExportArguments),
    /// Write the trials or their reports as CSV or JSON lines
    ExportData(export_data::ExportDataArguments),
    /// Show the disk usage of the store and the trials' files
    Du(du::DuArguments),
    /// Remove files that no study needs
    Gc(gc::GcArguments),
    /// Train one model with fixed parameters
    Train(train::TrainArguments),
    /// Use an exported model on texts
    Predict(predict::PredictArguments),
    /// Generate text with an exported language model
    Generate(generate::GenerateArguments),
    /// Ask a running study to stop; it can be resumed
    Stop(stop::StopArguments),
    /// Kill one running trial; it counts as failed
    Kill(kill::KillArguments),
    /// Pause a study or trials: they save a checkpoint and free their slots
    Pause(pause::PauseArguments),
    /// Resume a paused study or paused trials
    Resume(resume::ResumeArguments),
    /// Run a configuration of your own next
    Enqueue(enqueue::EnqueueArguments),
    /// Start failed trials again
    Retry(retry::RetryArguments),
    /// Raise a study's budget
    Extend(extend::ExtendArguments),
    /// Train a finished trial further, from its checkpoint
    #[command(name = "continue")]
    ContinueTrial(continue_trial::ContinueArguments),
    /// Write a note on a study or a trial, or show its notes
    Note(note::NoteArguments),
    /// Add or remove tags of trials and studies, or show them
    Tag(tag::TagArguments),
    /// Ask-and-tell interface for a program that runs the trials itself, in JSON lines
    AskTell(ask_tell::AskTellArguments),
    /// List the devices of this machine and which of them can be used
    Devices(devices::DevicesArguments),
    /// Check the store, its studies and this machine
    Doctor(doctor::DoctorArguments),
    /// List samplers, pruners or tasks with their options
    List(list::ListArguments),
    /// Print the JSON Schema of the study file, for editors
    #[command(after_help = "Examples:\n  hpsearch schema > study.schema.json")]
    Schema,
    /// Print a script that completes command lines in a shell
    Completions(completions::CompletionsArguments),
    /// Show the manual, or install its pages
    Man(man::ManArguments),
    /// Internal: the process that runs trials
    #[command(hide = true)]
    Worker(WorkerArguments),
}

/// What `hpsearch worker` is told.
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
    crate::runner::signals::outlive_file_size_limits();
    if let Some(code) = worker() {
        return code;
    }
    completions::answer(CommandLine::command);
    let of_a_child = foreground::command_line(std::env::args_os());
    let mut command_line = match of_a_child
        .as_ref()
        .map_or_else(CommandLine::try_parse, CommandLine::try_parse_from)
    {
        Ok(command_line) => command_line,
        Err(error) => return refuse(&error),
    };
    if command_line.common.store.as_os_str().is_empty() {
        // An empty variable is none; an empty option is a mistake, as of a script whose own
        // variable is empty.
        if std::env::args_os().any(|word| word == "--store" || word == "--store=") {
            let failure = Failure::usage("`--store` names no file")
                .help("write `--store PATH`, or leave it out");
            let _ = write!(io::stderr(), "{failure}");
            return ExitCode::from(failure.exit().code());
        }
        command_line.common.store = DEFAULT_STORE.into();
    }
    let foreground = match of_a_child.map(|_| Foreground::take()).transpose() {
        Ok(foreground) => foreground,
        Err(error) => {
            let _ = writeln!(
                io::stderr(),
                "error: the terminal cannot be opened: {error}\nhelp: `hpsearch run --plain` \
                 needs none"
            );
            return ExitCode::from(Exit::Internal.code());
        }
    };
    let mut console = Console::new(&command_line.common);
    if let Verb::Run(arguments) = &command_line.verb
        && foreground.is_none()
        && arguments.is_on_screen(&console)
        && let Some(code) = foreground::wait_for_run()
    {
        return code;
    }
    console.foreground = foreground;
    if prints_long(&command_line.verb) {
        console.page();
    }
    let done = dispatch(&command_line.verb, &mut console);
    // What was printed before an error stays printed.
    let exit = match (done, console.finish()) {
        // Of a run whose terminal was closed nobody reads the end.
        (Ok(exit), Ok(())) | (Ok(exit @ Exit::HungUp), Err(_)) => exit,
        (Err(failure), _) | (_, Err(failure)) => {
            // Whoever closed standard error does not want to hear it. Errors from below know the
            // commands to type next, and not which store the command line meant.
            let store = console.store_option();
            let failure = failure.in_store(&store);
            let said = failure.to_string();
            let note = if said.contains("`hpsearch ") && !said.contains(&store) {
                format!("note: these commands take{store} here\n")
            } else {
                String::new()
            };
            let _ = write!(io::stderr(), "{said}{note}");
            failure.exit()
        }
    };
    ExitCode::from(exit.code())
}

/// Workers are started by the hundred and hand on other programs' arguments as they are: clap has
/// no part in them.
fn worker() -> Option<ExitCode> {
    let mut words = std::env::args_os().skip(1);
    if words.next()? != "worker" {
        return None;
    }
    let words: Vec<OsString> = words.collect();
    let code = match words.split_first() {
        None => crate::worker::serve(),
        Some((first, command)) if first == "--exec" => crate::worker::exec(command),
        Some((first, [run, group @ ..])) if first == "--watch" => {
            crate::worker::watchdog::watch(run, group.first().map(AsRef::as_ref))
        }
        Some(_) => return None,
    };
    Some(ExitCode::from(u8::try_from(code).unwrap_or(1)))
}

fn dispatch(verb: &Verb, console: &mut Console) -> Result<Exit, Failure> {
    match verb {
        Verb::Init(arguments) => init::init(arguments, console),
        Verb::Check(arguments) => check::check(arguments, console),
        Verb::Run(arguments) => run::run(arguments, console),
        Verb::Watch(arguments) => watch::watch(arguments, console),
        Verb::Ls(arguments) => ls::ls(arguments, console),
        Verb::Show(arguments) => show::show(arguments, console),
        Verb::Trials(arguments) => trials::trials(arguments, console),
        Verb::Best(arguments) => best::best(arguments, console),
        Verb::Curves(arguments) => curves::curves(arguments, console),
        Verb::Plot(PlotArguments { kind: Kind::Importance, study, json, .. }) => {
            let (study, evaluator, json) = (study.clone(), Measure::PedAnova, *json);
            importance::importance(&ImportanceArguments { study, evaluator, json }, console)
        }
        Verb::Plot(arguments) => plot::plot(arguments, console),
        Verb::Explain(arguments) => explain::explain(arguments, console),
        Verb::Diff(arguments) => diff::diff(arguments, console),
        Verb::Verify(arguments) => verify::verify(arguments, console),
        Verb::Events(arguments) => events::events(arguments, console),
        Verb::Logs(arguments) => logs::logs(arguments, console),
        Verb::Export(arguments) => export::export(arguments, console),
        Verb::ExportData(arguments) => export_data::export_data(arguments, console),
        Verb::Du(arguments) => du::du(arguments, console),
        Verb::Gc(arguments) => gc::gc(arguments, console),
        Verb::Train(arguments) => train::train(arguments, console),
        Verb::Predict(arguments) => predict::predict(arguments, console),
        Verb::Generate(arguments) => generate::generate(arguments, console),
        Verb::Stop(arguments) => stop::stop(arguments, console),
        Verb::Pause(arguments) => pause::pause(arguments, console),
        Verb::Resume(arguments) => resume::resume(arguments, console),
        Verb::Enqueue(arguments) => enqueue::enqueue(arguments, console),
        Verb::Retry(arguments) => retry::retry(arguments, console),
        Verb::Extend(arguments) => extend::extend(arguments, console),
        Verb::ContinueTrial(arguments) => continue_trial::continue_trial(arguments, console),
        Verb::Note(arguments) => note::note(arguments, console),
        Verb::Tag(arguments) => tag::tag(arguments, console),
        Verb::Kill(arguments) => kill::kill(arguments, console),
        Verb::Importance(arguments) => importance::importance(arguments, console),
        Verb::AskTell(arguments) => ask_tell::ask_tell(arguments, console),
        Verb::Devices(arguments) => devices::devices(arguments, console),
        Verb::Doctor(arguments) => doctor::doctor(arguments, console),
        Verb::List(arguments) => list::list(arguments, console),
        Verb::Schema => schema::schema(console),
        Verb::Completions(arguments) => completions::completions(arguments, console),
        Verb::Man(arguments) => man::man(arguments, console),
        Verb::Worker(_) => Ok(Exit::Done),
    }
}

/// Whether a verb's result is text to read, perhaps longer than the screen.
fn prints_long(verb: &Verb) -> bool {
    match verb {
        Verb::Logs(arguments) => !arguments.follow,
        Verb::Events(arguments) => !arguments.follow,
        Verb::Ls(_)
        | Verb::Show(_)
        | Verb::Trials(_)
        | Verb::Best(_)
        | Verb::Curves(_)
        | Verb::Importance(_)
        | Verb::Explain(_)
        | Verb::Diff(_)
        | Verb::Verify(_)
        | Verb::Du(_)
        | Verb::Devices(_)
        | Verb::List(_)
        | Verb::Schema => true,
        _ => false,
    }
}

/// Help, the version, or what is wrong with the command line.
fn refuse(error: &clap::Error) -> ExitCode {
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
        && std::env::args_os().len() == 1
    {
        let _ = io::stderr().write_all(START.as_bytes());
        return ExitCode::from(Exit::Usage.code());
    }
    if let (ErrorKind::InvalidSubcommand, Some(ContextValue::String(verb))) =
        (error.kind(), error.get(ContextKind::InvalidSubcommand))
        && not_built::LATER.contains(&verb.as_str())
    {
        let _ = write!(io::stderr(), "{}", not_built::refusal(verb));
        return ExitCode::from(Exit::Usage.code());
    }
    let words = std::env::args_os().filter_map(|word| word.into_string().ok());
    if let Some(said) =
        dashed(error, words).or_else(|| negative(error)).or_else(|| of_the_study_file(error))
    {
        let _ = write!(io::stderr(), "{said}");
        return ExitCode::from(Exit::Usage.code());
    }
    if error.kind() == ErrorKind::InvalidUtf8 {
        let words: Vec<String> = std::env::args_os()
            .skip(1)
            .filter(|word| word.to_str().is_none())
            .map(|word| format!("{word:?}"))
            .collect();
        let help = "names of files may hold any bytes; texts, names and numbers are UTF-8";
        let _ = write!(io::stderr(), "error: not UTF-8: {}\nhelp: {help}\n", words.join(", "));
        return ExitCode::from(Exit::Usage.code());
    }
    // A reader that has gone is no reason to fail. The words it quotes may drive a terminal, and
    // its colours do.
    let quotes_control =
        std::env::args_os().any(|word| word.to_string_lossy().chars().any(drives_a_terminal));
    let _ = if quotes_control {
        write!(io::stderr(), "{}", lines(&error.render().to_string()))
    } else {
        error.print()
    };
    ExitCode::from(if error.use_stderr() { Exit::Usage.code() } else { Exit::Done.code() })
}

/// What is said of a text that begins with a dash: clap takes its first letters for options, and
/// its advice is about those.
fn dashed(error: &clap::Error, words: impl Iterator<Item = String>) -> Option<String> {
    let usage = error.get(ContextKind::Usage)?.to_string();
    let positional = ["[TEXT]", "[PROMPT]"].into_iter().find(|name| usage.contains(name))?;
    let mut words = words
        .take_while(|word| word != "--")
        .filter(|word| word.starts_with('-') && word.contains(char::is_whitespace));
    let text = words.next().filter(|_| error.kind() == ErrorKind::UnknownArgument)?;
    let help = format!(
        "write `--` before the texts, behind all options: {} -- {positional}",
        usage.split_whitespace().skip(1).take(2).collect::<Vec<_>>().join(" ")
    );
    Some(format!(
        "error: `{}` begins with `-`, as options do\nhelp: {help}\n\n{usage}\n\nFor more \
         information, try '--help'.\n",
        lines(&text)
    ))
}

/// What is said of an option whose name is a key of the study file.
fn of_the_study_file(error: &clap::Error) -> Option<String> {
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidArg) else { return None };
    let usage = error.get(ContextKind::Usage)?.to_string();
    let takes_set = usage.contains(" run ") || usage.contains(" check ");
    if error.kind() != ErrorKind::UnknownArgument || !takes_set {
        return None;
    }
    let name = word.strip_prefix("--")?.replace('-', "_");
    let name = name.strip_prefix("n_").unwrap_or(&name);
    let holds =
        |table: &&TableSchema, key: &str| table.fields.iter().any(|field| field.name == key);
    let table = |key: &str| TABLES.iter().find(|table| holds(table, key));
    let path = match TABLES.iter().find(|table| table.name == name && holds(table, "type")) {
        Some(table) => format!("{}.type", table.name),
        None => format!("{}.{name}", table(name)?.name),
    };
    Some(format!(
        "error: there is no option `{word}`\nhelp: `--set {path}=VALUE` overrides the key of the \
         study file\n\n{usage}\n\nFor more information, try '--help'.\n"
    ))
}

/// What is said of a negative number: clap takes it for an option, and its advice would lead
/// nowhere.
fn negative(error: &clap::Error) -> Option<String> {
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidArg) else { return None };
    if error.kind() != ErrorKind::UnknownArgument
        || !word.starts_with('-')
        || word.parse::<f64>().is_err()
    {
        return None;
    }
    let usage = error.get(ContextKind::Usage).map(ToString::to_string).unwrap_or_default();
    let is_text = ["TEXT", "PROMPT"].iter().any(|text| usage.contains(text));
    let help = if is_text {
        "give a number of at least 0; a text that begins with `-` comes after `--`"
    } else {
        "give a number of at least 0"
    };
    Some(format!(
        "error: `{word}` is negative, and no number here may be\nhelp: {help}\n\n{usage}\n\nFor \
         more information, try '--help'.\n"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        CommandLine::command().debug_assert();
    }

    #[test]
    fn an_option_that_is_a_key_of_the_study_file_is_answered_with_set() {
        let said = |words: &[&str]| {
            let words = ["hpsearch"].iter().chain(words);
            of_the_study_file(&CommandLine::try_parse_from(words).unwrap_err())
        };
        for (option, path) in [
            ("--trials", "budget.trials"),
            ("--n-trials", "budget.trials"),
            ("--sampler", "sampler.type"),
        ] {
            let said = said(&["run", "s.toml", option, "3"]).unwrap();
            assert!(said.contains(&format!("`--set {path}=VALUE`")), "{said}");
        }
        assert_eq!(said(&["run", "s.toml", "--nonsense"]), None);
        assert_eq!(said(&["best", "s", "--trials", "3"]), None);
    }

    #[test]
    fn the_start_screen_names_every_verb_and_fits_a_small_terminal() {
        let listed: Vec<&str> =
            START.split_once("All commands:").unwrap().1.split_whitespace().collect();
        for verb in CommandLine::command().get_subcommands().filter(|verb| !verb.is_hide_set()) {
            assert!(listed.contains(&verb.get_name()), "{}", verb.get_name());
        }
        // One row is the prompt's.
        assert!(
            START.lines().count() <= 23 && START.lines().all(|line| line.chars().count() <= 80)
        );
    }

    #[test]
    fn every_verb_has_examples() {
        for verb in CommandLine::command().get_subcommands().filter(|verb| !verb.is_hide_set()) {
            assert!(
                verb.get_after_help().is_some_and(|text| text.to_string().starts_with("Examples:")),
                "{}",
                verb.get_name()
            );
        }
    }

    #[test]
    fn the_study_may_be_left_out_before_a_trials_number() {
        let trial = |arguments: &[&str]| match CommandLine::try_parse_from(arguments).unwrap().verb
        {
            Verb::Kill(arguments) => (arguments.study, arguments.trial),
            other => panic!("{other:?}"),
        };
        assert_eq!(trial(&["hpsearch", "kill", "7"]), (None, 7));
        assert_eq!(trial(&["hpsearch", "kill", "digits", "7"]), (Some("digits".into()), 7));
    }

    #[test]
    fn a_negative_number_is_said_to_be_one() {
        let said =
            |arguments: &[&str]| negative(&CommandLine::try_parse_from(arguments).unwrap_err());
        for arguments in [
            &["hpsearch", "explain", "-1"][..],
            &["hpsearch", "extend", "--trials", "-3"],
            &["hpsearch", "continue", "1", "--until", "-3"],
            &["hpsearch", "generate", "m", "--temperature", "-0.5"],
        ] {
            let said = said(arguments).unwrap();
            assert!(
                said.contains("is negative")
                    && said.contains("\nUsage: hpsearch ")
                    && !said.contains("as a value"),
                "{said}"
            );
        }
        assert!(
            said(&["hpsearch", "predict", "m", "-1", "star"]).unwrap().contains("comes after `--`")
        );
        assert_eq!(said(&["hpsearch", "explain", "--no-such"]), None);
    }

    #[test]
    fn a_text_that_begins_with_a_dash_is_said_to_come_after_two() {
        let said = |arguments: &[&str]| {
            dashed(
                &CommandLine::try_parse_from(arguments).unwrap_err(),
                arguments.iter().map(|word| (*word).to_owned()),
            )
        };
        for text in ["- so so", "-5 stars", "-very bad", "--great, really"] {
            for verb in ["predict", "generate"] {
                let said = said(&["hpsearch", verb, "m", text]).unwrap();
                assert!(
                    said.starts_with(&format!("error: `{text}` begins with `-`"))
                        && said.contains(&format!("hpsearch {verb} -- [")),
                    "{said}"
                );
            }
        }
        assert_eq!(said(&["hpsearch", "predict", "m", "--jsn"]), None);
        assert_eq!(said(&["hpsearch", "explain", "-x y"]), None);
    }

    #[test]
    fn no_verb_is_both_built_and_refused() {
        let command = CommandLine::command();
        assert!(command.get_subcommands().all(|verb| !not_built::LATER.contains(&verb.get_name())));
    }
}
