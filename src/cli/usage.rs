//! Help, and errors of the command line: clap's, or better ones.

use std::ffi::OsString;
use std::io::{self, Write};
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, CommandFactory};

use super::output::of_stdout;
use super::{CommandLine, Exit, Failure, failed};
use crate::config::shown::{drives_a_terminal, lines};
use crate::config::{TABLES, TableSchema};
use crate::study::suggestion::nearest;

/// Printed for the program's name alone; fits a terminal of 24 rows.
const START: &str = "hpsearch: hyperparameter search and experiment tracking in one binary

A first study, from data or from a training script of your own:
  hpsearch init reviews.csv                    write study.toml for your data
  hpsearch init --command \"python train.py\"    write study.toml for a program
  hpsearch check                               validate it
  hpsearch run                                 search, with a live leaderboard
  hpsearch best                                the best parameters so far

All commands:
  start  init check run watch serve track
  look   ls show trials best curves plot importance explain diff logs events
  steer  stop pause resume kill enqueue retry extend continue note tag
  models export train predict generate evaluate
  store  artifacts export-data report import sync du gc rm mv copy verify doctor
  more   ask-tell devices list schema completions man

`hpsearch --help` describes them, `hpsearch run --help` one of them.
";

/// Prints help, the version, or the error of the command line.
pub fn refuse(error: &clap::Error) -> ExitCode {
    let words: Vec<OsString> = std::env::args_os().collect();
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand && words.len() == 1 {
        let _ = io::stderr().write_all(START.as_bytes());
        return ExitCode::from(Exit::Usage.code());
    }
    if let Some(failure) = answer(error, &CommandLine::command(), &words) {
        let usage = error.get(ContextKind::Usage).map(ToString::to_string);
        let usage = usage
            .filter(|_| error.kind() == ErrorKind::UnknownArgument)
            .map_or_else(String::new, |usage| {
                format!("\n{usage}\n\nFor more information, try '--help'.\n")
            });
        let _ = write!(io::stderr(), "{failure}{usage}");
        return ExitCode::from(Exit::Usage.code());
    }
    // Quoted arguments may contain control sequences, and clap's
    // colours do.
    let quotes_control =
        words.iter().any(|word| word.to_string_lossy().chars().any(drives_a_terminal));
    let printed = if quotes_control {
        write!(io::stderr(), "{}", lines(&error.render().to_string()))
    } else {
        error.print()
    };
    if error.use_stderr() {
        // A closed standard error is ignored.
        return ExitCode::from(Exit::Usage.code());
    }
    match printed.and_then(|()| io::stdout().flush()) {
        Ok(()) => ExitCode::from(Exit::Done.code()),
        Err(error) => failed(&of_stdout(error).into()),
    }
}

/// A better error than clap's, where clap's advice would mislead.
fn answer(error: &clap::Error, command: &Command, words: &[OsString]) -> Option<Failure> {
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.as_str()),
        _ => None,
    };
    match error.kind() {
        ErrorKind::InvalidSubcommand => {
            Some(unknown_verb(command, text(ContextKind::InvalidSubcommand)?))
        }
        ErrorKind::InvalidUtf8 => {
            let words: Vec<String> = words
                .iter()
                .filter(|word| word.to_str().is_none())
                .map(|word| format!("{word:?}"))
                .collect();
            let failure = Failure::usage(format!("not UTF-8: {}", words.join(", ")));
            Some(
                failure
                    .help("names of files may hold any bytes; texts, names and numbers are UTF-8"),
            )
        }
        ErrorKind::UnknownArgument => {
            let word = text(ContextKind::InvalidArg)?;
            let typed: Vec<&str> = words.iter().skip(1).filter_map(|word| word.to_str()).collect();
            let verb = typed.iter().find_map(|word| command.find_subcommand(word))?;
            dashed(verb, &typed)
                .or_else(|| negative(verb, word))
                .or_else(|| of_the_study_file(verb, word))
                .or_else(|| amount(verb, word))
                .or_else(|| without_dashes(verb, word))
        }
        _ => None,
    }
}

/// Verbs of other programs, and ours.
const SYNONYMS: &[(&str, &str)] = &[
    ("compare", "diff"),
    ("delete", "rm"),
    ("remove", "rm"),
    ("rename", "mv"),
    ("move", "mv"),
    ("status", "ls"),
    ("studies", "ls"),
    ("start", "run"),
    ("optimize", "run"),
    ("search", "run"),
    ("cancel", "stop"),
    ("abort", "stop"),
    ("ui", "serve"),
    ("dashboard", "serve"),
    ("server", "serve"),
    ("describe", "show"),
    ("info", "show"),
    ("annotate", "note"),
];

/// What tools that keep runs on a server have a verb for.
const ACCOUNTS: [&str; 3] = ["login", "logout", "signup"];

/// The error about an unknown verb, with a similar one.
pub fn unknown_verb(command: &Command, verb: &str) -> Failure {
    let synonym = SYNONYMS.iter().find(|(foreign, _)| *foreign == verb).map(|(_, own)| *own);
    let near = synonym.or_else(|| nearest(verb, command.get_subcommands().map(Command::get_name)));
    Failure::usage(format!("there is no verb `{}`", lines(verb))).help(match near {
        _ if ACCOUNTS.contains(&verb) => {
            "there is no account: studies and runs are in a file on this machine, `--store PATH`"
                .to_owned()
        }
        Some(near) => format!("did you mean `{near}`?"),
        None => "`hpsearch --help` lists the verbs".to_owned(),
    })
}

/// The positional argument of a verb that takes texts.
fn of_texts(verb: &Command) -> Option<String> {
    let texts =
        verb.get_positionals().find(|one| ["texts", "prompt"].contains(&one.get_id().as_str()));
    texts.and_then(|texts| Some(texts.get_value_names()?.first()?.to_string()))
}

/// The error about a text that begins with a dash, which clap parses as options.
fn dashed(verb: &Command, words: &[&str]) -> Option<Failure> {
    let positional = of_texts(verb)?;
    let text = words
        .iter()
        .take_while(|word| **word != "--")
        .find(|word| word.starts_with('-') && word.contains(char::is_whitespace))?;
    let failure = Failure::usage(format!("`{}` begins with `-`, as options do", lines(text)));
    Some(failure.help(format!(
        "write `--` before the texts, after all options: hpsearch {} -- [{positional}]",
        verb.get_name()
    )))
}

/// The error about a negative number, which clap parses as an option.
fn negative(verb: &Command, word: &str) -> Option<Failure> {
    word.strip_prefix('-')?.parse::<f64>().ok()?;
    let text = of_texts(verb).map_or("", |_| "; a text that begins with `-` comes after `--`");
    Some(
        Failure::usage(format!("`{word}` is negative, and numbers here cannot be"))
            .help(format!("give a number of at least 0{text}")),
    )
}

/// The error about a command that is not behind `--`.
fn without_dashes(verb: &Command, word: &str) -> Option<Failure> {
    let takes_command = verb.get_positionals().any(clap::Arg::is_last_set);
    (takes_command && !word.starts_with('-')).then(|| {
        let (verb, word) = (verb.get_name(), lines(word));
        Failure::usage(format!("`{word}` is not an option of `hpsearch {verb}`"))
            .help(format!("put `--` before the command: hpsearch {verb} [OPTIONS] -- {word} .."))
    })
}

/// The error about an option whose name is a key of the study file.
fn of_the_study_file(verb: &Command, word: &str) -> Option<Failure> {
    let takes_set = verb.get_arguments().any(|argument| argument.get_id() == "set");
    let name = word.strip_prefix("--").filter(|_| takes_set)?.replace('-', "_");
    let name = name.strip_prefix("n_").unwrap_or(&name);
    let holds =
        |table: &&TableSchema, key: &str| table.fields.iter().any(|field| field.name == key);
    let path = match TABLES.iter().find(|table| table.name == name && holds(table, "type")) {
        Some(table) => format!("{}.type", table.name),
        None => format!("{}.{name}", TABLES.iter().find(|table| holds(table, name))?.name),
    };
    Some(
        Failure::usage(format!("there is no option `{word}`"))
            .help(format!("`--set {path}=VALUE` overrides the key of the study file")),
    )
}

/// The error about `extend +20`.
fn amount(verb: &Command, word: &str) -> Option<Failure> {
    let amount = word.strip_prefix('+').filter(|_| verb.get_name() == "extend")?;
    let option = if amount.parse::<u64>().is_ok() { "--trials" } else { "--time" };
    Some(
        Failure::usage(format!("`{word}` does not say what is extended"))
            .help(format!("did you mean `{option} {word}`?")),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser as _;

    #[test]
    fn the_start_screen_names_every_verb_and_fits_a_small_terminal() {
        let listed: Vec<&str> =
            START.split_once("All commands:").unwrap().1.split_whitespace().collect();
        for verb in CommandLine::command().get_subcommands().filter(|verb| !verb.is_hide_set()) {
            assert!(listed.contains(&verb.get_name()), "{}", verb.get_name());
        }
        // One row is for the prompt.
        assert!(
            START.lines().count() <= 23 && START.lines().all(|line| line.chars().count() <= 80)
        );
    }

    #[test]
    fn verbs_of_other_programs_stand_for_verbs_that_are_there() {
        let command = CommandLine::command();
        for (foreign, own) in SYNONYMS {
            assert!(command.find_subcommand(foreign).is_none(), "{foreign} is a verb");
            assert!(command.find_subcommand(own).is_some(), "{own} is not a verb");
        }
    }

    #[test]
    fn what_clap_cannot_help_with_is_answered() {
        let said = |words: &[&str]| {
            let words: Vec<OsString> =
                ["hpsearch"].iter().chain(words).map(OsString::from).collect();
            let error = CommandLine::try_parse_from(&words).unwrap_err();
            answer(&error, &CommandLine::command(), &words).map(|failure| failure.to_string())
        };
        for (words, expected) in [
            (&["run", "s.toml", "--trials", "3"][..], "`--set budget.trials=VALUE`"),
            (&["run", "s.toml", "--n-trials", "3"], "`--set budget.trials=VALUE`"),
            (&["run", "s.toml", "--sampler", "3"], "`--set sampler.type=VALUE`"),
            (&["explain", "-1"], "`-1` is negative"),
            (&["extend", "--trials", "-3"], "`-3` is negative"),
            (&["continue", "1", "--until", "-3"], "`-3` is negative"),
            (&["generate", "m", "--temperature", "-0.5"], "is negative"),
            (&["predict", "m", "-1", "star"], "comes after `--`"),
            (&["predict", "m", "- so so"], "error: `- so so` begins with `-`"),
            (&["generate", "m", "-5 stars"], "hpsearch generate -- [PROMPT]"),
            (&["predict", "m", "-very bad"], "hpsearch predict -- [TEXT]"),
            (&["predict", "m", "--great, really"], "`--great, really` begins with `-`"),
            (&["extend", "acc", "+20"], "did you mean `--trials +20`?"),
            (&["extend", "acc", "+2h"], "did you mean `--time +2h`?"),
            (&["rnu"], "error: there is no verb `rnu`\nhelp: did you mean `run`?"),
            (&["compare", "grid", "0", "1"], "did you mean `diff`?"),
            (&["delete", "grid"], "did you mean `rm`?"),
            (&["ui"], "did you mean `serve`?"),
            (&["login"], "there is no account"),
            (&["xyzzy"], "`hpsearch --help` lists the verbs"),
        ] {
            let said = said(words).unwrap_or_default();
            assert!(said.contains(expected), "{words:?}: {said}");
        }
        for words in [
            &["run", "s.toml", "--nonsense"][..],
            &["best", "s", "--trials", "3"],
            &["explain", "--no-such"],
            &["predict", "m", "--jsn"],
            &["explain", "-x y"],
        ] {
            assert_eq!(said(words), None, "{words:?}");
        }
    }
}
