//! `hpsearch completions`: shell completion, including the studies of the store.

use std::env;
use std::ffi::OsStr;
use std::path::PathBuf;

use clap::{Args, Command};
use clap_complete::CompleteEnv;
use clap_complete::engine::{
    ArgValueCompleter, CompletionCandidate, PathCompleter, ValueCompleter,
};
use clap_complete::env::Shells;

use super::{Console, Exit, Failure};
use crate::app::find::{self, Archived};
use crate::report::wording::one_line;
use crate::storage::address::as_given;
use crate::storage::any::AnyReader;

const EXAMPLES: &str = "\
Examples:
  hpsearch completions bash > ~/.hpsearch.bash    # `source` it in ~/.bashrc
  hpsearch completions zsh > ~/.zfunc/_hpsearch      # with ~/.zfunc in $fpath
  hpsearch completions fish > ~/.config/fish/completions/hpsearch.fish

The script calls `hpsearch` at every TAB, so it knows the studies of the store.
Generate it again after an update.";

/// Arguments of `hpsearch completions`.
#[derive(Clone, Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct CompletionsArguments {
    /// The shell
    #[arg(
        hide_possible_values = true,
        value_name = "bash|zsh|fish|elvish|powershell",
        value_parser = ["bash", "zsh", "fish", "elvish", "powershell"]
    )]
    pub shell: String,
}

/// The variable by which the shell's script calls this program.
const VARIABLE: &str = "HPSEARCH_COMPLETE";

/// Prints the shell's script.
pub fn completions(
    arguments: &CompletionsArguments,
    console: &mut Console,
) -> Result<Exit, Failure> {
    let shells = Shells::builtins();
    let shell = shells.completer(&arguments.shell).expect("the command line knows these only");
    shell.write_registration(VARIABLE, "hpsearch", "hpsearch", "hpsearch", &mut console.out)?;
    Ok(Exit::Done)
}

/// Answers the shell's script, if it is the caller.
pub fn answer(command: fn() -> Command) {
    if env::var_os(VARIABLE).is_some() {
        CompleteEnv::with_factory(move || with_studies(command())).var(VARIABLE).complete();
    }
}

/// The command line with completion of studies.
fn with_studies(command: Command) -> Command {
    command.mut_subcommands(|verb| {
        let is_study = |id: &str| id == "study" || id == "words";
        let named: Vec<String> = verb
            .get_arguments()
            .map(|argument| argument.get_id().to_string())
            .filter(|id| is_study(id))
            .collect();
        named.into_iter().fold(verb, |verb, id| {
            verb.mut_arg(id, |argument| {
                let is_file = argument
                    .get_value_names()
                    .is_some_and(|names| names.iter().any(|name| name.ends_with(".toml")));
                let completer = if is_file {
                    ArgValueCompleter::new(study_files)
                } else {
                    ArgValueCompleter::new(studies)
                };
                argument.add(completer)
            })
        })
    })
}

fn studies(current: &OsStr) -> Vec<CompletionCandidate> {
    let start = current.to_string_lossy();
    let names = AnyReader::open(&store()).and_then(|reader| find::all(&reader, Archived::Listed));
    let named = names
        .unwrap_or_default()
        .studies
        .into_iter()
        .filter(|study| study.spec.name.starts_with(&*start))
        .map(|study| {
            let objective = study.spec.objective();
            let help = format!("{} {}", objective.direction.as_str(), one_line(&objective.metric));
            CompletionCandidate::new(study.spec.name).help(Some(help.into()))
        });
    named.chain(study_files(current)).collect()
}

fn study_files(current: &OsStr) -> Vec<CompletionCandidate> {
    PathCompleter::any()
        .filter(|path| {
            path.is_dir() || path.extension().is_some_and(|extension| extension == "toml")
        })
        .complete(current)
}

/// The store of the unfinished command line.
fn store() -> PathBuf {
    let words: Vec<_> = env::args_os().collect();
    let given =
        words.iter().position(|word| word == "--store").and_then(|at| words.get(at + 1)).cloned();
    let joined =
        words.iter().find_map(|word| word.to_str()?.strip_prefix("--store=").map(Into::into));
    let path =
        given.or(joined).or_else(|| env::var_os("HPSEARCH_STORE")).filter(|path| !path.is_empty());
    path.map_or_else(|| super::DEFAULT_STORE.into(), |path| as_given(path.into()))
}
