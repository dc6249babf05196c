//! The command line: options, and the dispatch to verbs; one file per verb.

#![expect(
    clippy::disallowed_methods,
    reason = "a front: it reads the clock and the environment for the layers below"
)]

mod agent;
mod artifact_json;
mod artifacts;
mod ask_tell;
mod best;
mod changed_study;
mod check;
mod completions;
mod console;
mod continue_trial;
mod copy;
mod curves;
mod devices;
mod diff;
mod direction;
mod doctor;
mod drawing;
mod du;
mod enqueue;
mod evaluate;
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
mod groups;
mod import;
mod importance;
mod init;
mod kill;
mod left_files;
mod list;
mod logs;
mod ls;
mod man;
mod moments;
mod mv;
mod note;
mod output;
mod output_file;
mod overrides;
mod pause;
mod plot;
mod predict;
mod prediction_json;
mod provenance;
mod report;
mod request;
mod resume;
mod retry;
mod rm;
mod run;
mod schema;
mod selection;
mod series_choice;
mod serve;
mod show;
mod starter;
mod stop;
mod study_columns;
mod study_notices;
mod sync;
mod tag;
mod track;
mod train;
mod trial_json;
mod trials;
mod usage;
mod verify;
mod waiting;
mod warm_start;
mod watch;
mod writer;

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::builder::{OsStringValueParser, TypedValueParser as _};
use clap::{Args, CommandFactory as _, Parser, Subcommand};
use serde_json::json;

pub use console::{Console, Talk};
pub use exit::{Exit, Failure};
use foreground::Foreground;
use importance::{ImportanceArguments, Measure};

use crate::storage::StorageError;
use crate::storage::address::{as_given, refuse_other_urls};
use crate::worker::{self, ExecOf};

/// The default store.
const DEFAULT_STORE: &str = "runs/hpsearch.db";

const EXAMPLES: &str = "Examples:
  hpsearch init data.csv           write a first study.toml
  hpsearch check study.toml        validate the study file
  hpsearch run study.toml          search; run again after an interruption
  hpsearch watch                   the live leaderboard, from another terminal
  hpsearch best                    the best parameters found so far
  hpsearch export -o model         the best trial's checkpoint, ready for use
  hpsearch track -- python train.py  a run without a search

A study is identified by its name or its file (study.toml), and needs neither
if it is the only one of the store.

Exit codes:
  0  done                            4    too many trials failed
  1  internal error                  5    store busy or unreachable
  2  wrong command line or file      6    the study file changed
  3  no completed trial              7    verify found a difference
                                     130, 143  interrupted; run it again";

/// Hyperparameter search and experiment tracking in one binary: describe a study in a TOML file,
/// run it, watch it, export the best checkpoint.
#[derive(Debug, Parser)]
#[command(
    name = "hpsearch",
    bin_name = "hpsearch",
    version,
    after_help = EXAMPLES,
    max_term_width = 100,
    disable_help_subcommand = true
)]
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
    /// The store: one file that holds all studies, or postgres://USER@HOST/DATABASE
    #[arg(
        long,
        global = true,
        value_name = "PATH",
        env = "HPSEARCH_STORE",
        hide_env_values = true,
        default_value = DEFAULT_STORE,
        value_parser = OsStringValueParser::new().map(|store| as_given(store.into())),
        value_hint = clap::ValueHint::FilePath,
        help_heading = "Global options"
    )]
    pub store: PathBuf,
    /// Print results and errors only
    #[arg(short, long, global = true, help_heading = "Global options")]
    pub quiet: bool,
    /// Print more about what is done
    #[arg(
        short,
        long,
        global = true,
        action = clap::ArgAction::Count,
        conflicts_with = "quiet",
        help_heading = "Global options"
    )]
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
    /// Write a first study file, from the data, a command or a sweep
    Init(init::InitArguments),
    /// Check a study file without running it
    Check(check::CheckArguments),
    /// Run or resume a study
    Run(run::RunArguments),
    /// Watch a study live, from any terminal
    Watch(watch::WatchArguments),
    /// Show the studies of the store in a browser, live
    Serve(serve::ServeArguments),
    /// List the studies of the store
    Ls(ls::LsArguments),
    /// Show a study: search space, rules, progress
    Show(show::ShowArguments),
    /// List the trials of a study, or of several
    Trials(trials::TrialsArguments),
    /// Show the best trial, its parameters as TOML
    Best(best::BestArguments),
    /// Draw the learning curves of trials
    Curves(curves::CurvesArguments),
    /// Draw a study: its history, curves, parameters
    Plot(plot::PlotArguments),
    /// Write a report on studies as one HTML file, or as Markdown
    Report(report::ReportArguments),
    /// Show which parameters matter
    Importance(importance::ImportanceArguments),
    /// Explain a trial: who proposed it, who stopped it, how it compares
    Explain(explain::ExplainArguments),
    /// Compare two trials, or a changed study file with its study
    Diff(diff::DiffArguments),
    /// Replay the decisions of a study, and show the first difference
    Verify(verify::VerifyArguments),
    /// Print the journal (event log) of a study
    Events(events::EventsArguments),
    /// Print the output of a trial's program
    Logs(logs::LogsArguments),
    /// Write the best trial's checkpoint into a directory, ready for use
    Export(export::ExportArguments),
    /// Write the trials or their reports as CSV, JSON or Parquet
    ExportData(export_data::ExportDataArguments),
    /// Show the disk usage of the store and the trials' files
    Du(du::DuArguments),
    /// Remove files that no study needs
    Gc(gc::GcArguments),
    /// Remove studies or tracked runs with their files, or hide trials
    Rm(rm::RmArguments),
    /// Rename a study, move tracked runs to another, or archive studies
    Mv(mv::MvArguments),
    /// Copy studies to another store
    Copy(copy::CopyArguments),
    /// Train one model with fixed parameters
    Train(train::TrainArguments),
    /// Use an exported model on texts
    #[command(visible_alias = "translate")]
    Predict(predict::PredictArguments),
    /// Measure an exported model on a file of labelled rows
    Evaluate(evaluate::EvaluateArguments),
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
    /// Enqueue a configuration of your own
    Enqueue(enqueue::EnqueueArguments),
    /// Start failed trials again
    Retry(retry::RetryArguments),
    /// Raise a study's budget
    Extend(extend::ExtendArguments),
    /// Continue a finished trial past its end, from its checkpoint
    #[command(name = "continue")]
    ContinueTrial(continue_trial::ContinueArguments),
    /// Write a note on a study or a trial, or show its notes
    Note(note::NoteArguments),
    /// Add or remove tags of trials and studies, or show them
    Tag(tag::TagArguments),
    /// Run a program and record it, without a search
    Track(track::TrackArguments),
    /// Export studies as runs of TensorBoard, Weights & Biases or MLflow
    Sync(sync::SyncArguments),
    /// Import runs of W&B and TensorBoard, CSV tables and studies of Optuna
    Import(import::ImportArguments),
    /// List the files, images, texts and tables of trials, or get them
    Artifacts(artifacts::ArtifactsArguments),
    /// Ask-and-tell interface for a program that runs the trials itself, in JSON lines
    AskTell(ask_tell::AskTellArguments),
    /// Write what a program logs into the store; the Python client starts it
    #[command(hide = true)]
    Writer(writer::WriterArguments),
    /// Run trials for a runner on another machine; `[cluster]` starts it
    #[command(hide = true)]
    Agent(agent::AgentArguments),
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
}

/// Runs the command line of this process.
pub fn main() -> ExitCode {
    crate::runner::signals::undo_inherited();
    crate::runner::signals::outlive_file_size_limits();
    if let Some(code) = as_worker() {
        return code;
    }
    completions::answer(CommandLine::command);
    let of_a_child = foreground::command_line(std::env::args_os());
    let words = of_a_child.clone().unwrap_or_else(|| std::env::args_os().collect());
    let mut command_line = match CommandLine::try_parse_from(tag::without_hyphens(words)) {
        Ok(command_line) => command_line,
        Err(error) => return usage::refuse(&error),
    };
    if command_line.common.store.as_os_str().is_empty() {
        // An empty variable counts as unset; an empty option is an error, such as an unset variable
        // in a script.
        if std::env::args_os().any(|word| word == "--store" || word == "--store=") {
            return failed(
                &Failure::usage("`--store` names no file")
                    .help("write `--store PATH`, or leave it out"),
            );
        }
        command_line.common.store = DEFAULT_STORE.into();
    }
    if let Err(error) = refuse_other_urls(&command_line.common.store) {
        return failed(&StorageError::from(error).into());
    }
    let foreground = match of_a_child.map(|_| Foreground::take()).transpose() {
        Ok(foreground) => foreground,
        Err(error) => {
            let message = format!("the terminal cannot be opened: {error}");
            let failure = Failure::new(Exit::Internal, message);
            return failed(&failure.help("`hpsearch run --plain` needs none"));
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
    let needs_reader = needs_reader(&command_line.verb);
    if !needs_reader {
        console.out.outlive_reader();
    }
    let done = match dispatch(&command_line.verb, &mut console) {
        // Not that of the output, which is ignored.
        Err(Failure::ReaderGone) if !needs_reader => Err(exit::pipe_closed()),
        done => done,
    };
    // Output before an error stays printed.
    let exit = match (done, console.finish()) {
        // After a closed terminal, errors of the last output are ignored.
        (Ok(exit), Ok(())) | (Ok(exit @ Exit::HungUp), Err(_)) => exit,
        (Err(failure), _) | (_, Err(failure)) => {
            // Lower layers suggest commands without knowing the store that the command line named.
            let store = console.store_option();
            let failure = failure.in_store(&store);
            let said = failure.to_string();
            let mut notes = String::new();
            // A command for another store names it.
            if said.contains("`hpsearch ") && !said.contains(&store) && !said.contains(" --store ")
            {
                notes += &format!("note: these commands take{store} here\n");
            }
            if exit::is_directory_removed() && !matches!(failure, Failure::DirectoryRemoved) {
                notes += &format!("note: {}\n", exit::DIRECTORY_REMOVED);
            }
            return failed_with(&failure, &notes);
        }
    };
    ExitCode::from(exit.code())
}

/// Prints an error; a closed standard error is ignored.
fn failed(failure: &Failure) -> ExitCode {
    failed_with(failure, "")
}

/// The same, with lines of notes. A program that starts this one asks for a line of JSON.
fn failed_with(failure: &Failure, notes: &str) -> ExitCode {
    let _ = match std::env::var_os("HPSEARCH_ERRORS").is_some_and(|format| format == "json") {
        true => {
            let text = failure.text() + notes;
            let (error, kind) = (failure.what(), failure.kind());
            let error = json!({ "error": error, "kind": kind, "text": text.trim_end() });
            writeln!(io::stderr(), "{error}")
        }
        false => write!(io::stderr(), "{failure}{notes}"),
    };
    ExitCode::from(failure.exit().code())
}

/// Workers are started by the hundred and pass on other programs' arguments unchanged: they bypass
/// clap.
fn as_worker() -> Option<ExitCode> {
    let mut words = std::env::args_os().skip(1);
    if words.next()? != "worker" {
        return None;
    }
    let words: Vec<OsString> = words.collect();
    let code = match words.split_first() {
        None => worker::serve(),
        Some((first, command)) if first == "--exec" => worker::exec(command, ExecOf::Trial),
        Some((first, command)) if first == "--track" => worker::exec(command, ExecOf::Tracked),
        Some((first, [run, patience, group @ ..])) if first == "--watch" => {
            let patience = patience.to_str().and_then(|seconds| seconds.parse().ok());
            let patience = patience.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
            let patience = patience.filter(|patience| !patience.is_zero());
            worker::watchdog::watch(run, patience, group.first().map(AsRef::as_ref))
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
        Verb::Serve(arguments) => serve::serve(arguments, console),
        Verb::Ls(arguments) => ls::ls(arguments, console),
        Verb::Show(arguments) => show::show(arguments, console),
        Verb::Trials(arguments) => trials::trials(arguments, console),
        Verb::Best(arguments) => best::best(arguments, console),
        Verb::Curves(arguments) => curves::curves(arguments, console),
        Verb::Plot(arguments) => match arguments.importance() {
            Some(study) => {
                let (study, json) = (study.map(str::to_owned), arguments.json);
                let metric = arguments.choice.metric.clone();
                let evaluator = Measure::PedAnova;
                importance::importance(
                    &ImportanceArguments { study, metric, evaluator, json },
                    console,
                )
            }
            None => plot::plot(arguments, console),
        },
        Verb::Explain(arguments) => explain::explain(arguments, console),
        Verb::Diff(arguments) => diff::diff(arguments, console),
        Verb::Verify(arguments) => verify::verify(arguments, console),
        Verb::Events(arguments) => events::events(arguments, console),
        Verb::Logs(arguments) => logs::logs(arguments, console),
        Verb::Export(arguments) => export::export(arguments, console),
        Verb::ExportData(arguments) => export_data::export_data(arguments, console),
        Verb::Du(arguments) => du::du(arguments, console),
        Verb::Gc(arguments) => gc::gc(arguments, console),
        Verb::Rm(arguments) => rm::rm(arguments, console),
        Verb::Mv(arguments) => mv::mv(arguments, console),
        Verb::Copy(arguments) => copy::copy(arguments, console),
        Verb::Train(arguments) => train::train(arguments, console),
        Verb::Predict(arguments) => predict::predict(arguments, console),
        Verb::Evaluate(arguments) => evaluate::evaluate(arguments, console),
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
        Verb::Track(arguments) => track::track(arguments, console),
        Verb::Import(arguments) => import::import_runs(arguments, console),
        Verb::Sync(arguments) => sync::sync_studies(arguments, console),
        Verb::Artifacts(arguments) => artifacts::artifacts(arguments, console),
        Verb::Kill(arguments) => kill::kill(arguments, console),
        Verb::Importance(arguments) => importance::importance(arguments, console),
        Verb::AskTell(arguments) => ask_tell::ask_tell(arguments, console),
        Verb::Report(arguments) => report::report(arguments, console),
        Verb::Writer(arguments) => writer::writer(arguments, console),
        Verb::Agent(arguments) => agent::agent(arguments, console),
        Verb::Devices(arguments) => devices::devices(arguments, console),
        Verb::Doctor(arguments) => doctor::doctor(arguments, console),
        Verb::List(arguments) => list::list(arguments, console),
        Verb::Schema => schema::schema(console),
        Verb::Completions(arguments) => completions::completions(arguments, console),
        Verb::Man(arguments) => man::man(arguments, console),
    }
}

/// Whether a verb's output may be longer than the screen.
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
        | Verb::Artifacts(_)
        | Verb::Du(_)
        | Verb::Devices(_)
        | Verb::List(_)
        | Verb::Schema => true,
        _ => false,
    }
}

/// Whether a verb only shows something, so that it ends when its output is closed; others do their
/// work.
fn needs_reader(verb: &Verb) -> bool {
    prints_long(verb) && !matches!(verb, Verb::Artifacts(_))
        || matches!(
            verb,
            Verb::Init(_)
                | Verb::Check(_)
                | Verb::Watch(_)
                | Verb::Plot(_)
                | Verb::Logs(_)
                | Verb::Events(_)
                | Verb::Report(_)
                | Verb::ExportData(_)
                | Verb::Predict(_)
                | Verb::Evaluate(_)
                | Verb::Generate(_)
                | Verb::AskTell(_)
                | Verb::Writer(_)
                | Verb::Agent(_)
                | Verb::Doctor(_)
                | Verb::Completions(_)
                | Verb::Man(_)
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_verb_has_examples() {
        let command = CommandLine::command();
        command.clone().debug_assert();
        for verb in command.get_subcommands() {
            let help = verb.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(help.starts_with("Examples:"), "{}", verb.get_name());
        }
    }

    #[test]
    fn the_study_may_be_left_out_before_a_trials_number() {
        for (words, study) in [("kill 7", None), ("kill digits 7", Some("digits"))] {
            let words = ["hpsearch"].into_iter().chain(words.split(' '));
            let Verb::Kill(arguments) = CommandLine::parse_from(words).verb else { panic!() };
            assert_eq!((arguments.study.as_deref(), arguments.trial.as_str()), (study, "7"));
        }
    }
}
