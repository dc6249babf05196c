//! `[command]`: a command line with `{name}` for the values of parameters.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use super::command_line;
use super::command_metrics;
use super::diagnostic::{Diagnostic, Severity, SourceSpan};
use super::placeholder::{ArgumentPiece, pieces};
use super::section::{Section, nul};
use super::space::Searched;
use super::syntax::{Node, TomlTable};
use super::tables::fields_of;
use super::trial_values::{GroupValues, TrialValues};
use crate::study::params::variable;
use crate::study::program::{ArgsRules, EnvironmentValue, Inactive, Program};
use crate::study::suggestion::{nearest, quoted};

/// Names commonly mistaken for placeholders that are environment variables instead.
const VARIABLES: &[(&str, &str)] = &[
    ("study", "HPSEARCH_STUDY"),
    ("attempt", "HPSEARCH_ATTEMPT"),
    ("device", "HPSEARCH_DEVICE"),
    ("devices", "HPSEARCH_DEVICE"),
    ("rank", "RANK"),
    ("local_rank", "LOCAL_RANK"),
    ("params", "HPSEARCH_PARAMS"),
    ("resume", "HPSEARCH_RESUME"),
];

/// Reads `[command]`.
pub(super) fn read(
    table: &TomlTable,
    place: SourceSpan,
    searched: Option<&Searched>,
    base: &Path,
    problems: &mut Vec<Diagnostic>,
) -> Option<Program> {
    let section = Section::read("command", place, table, fields_of("command"), problems);
    if section.lacks("run") {
        problems.push(
            Diagnostic::error(place, "[command] has no `run`")
                .help("write `run = [\"python3\", \"train.py\", \"--lr\", \"{learning_rate}\"]`"),
        );
    }
    let cwd = match section.node("cwd") {
        Some(node) => directory(node, base, problems),
        None => base.to_owned(),
    };
    let env = environment(&section, problems);
    let run: Vec<String> = section.get::<Option<_>>("run")?;
    if run.is_empty() || run[0].trim().is_empty() {
        let place = section.place_of("run");
        problems.push(
            Diagnostic::error(place, "`command.run` names no program")
                .help("write `run = [\"python3\", \"train.py\"]`"),
        );
        return None;
    }
    let words = section.node("run").and_then(Node::list).unwrap_or_default();
    let with_nul = words.iter().filter(|word| word.text().is_some_and(|text| text.contains('\0')));
    problems.extend(with_nul.map(|word| nul("`command.run`", word)));
    if let Some(searched) = searched {
        words.iter().for_each(|argument| check_placeholders(argument, searched, problems));
        check_positional(&run, words, searched, problems);
        check_args(words, searched, problems);
        check_variables(searched, problems);
    }
    let is_inactive = |searched: &Searched| {
        let may_be_absent = |name: &str| searched.may_be_absent(name);
        command_line::names_inactive(&run, may_be_absent, |name| searched.mentions(name))
    };
    let inactive =
        if searched.is_some_and(is_inactive) { Inactive::Dropped } else { Inactive::Empty };
    let args = ArgsRules { style: section.get("args_style"), inactive };
    let metrics = command_metrics::read(&section, problems);
    Some(Program::Command { run, cwd, env, args, metrics })
}

/// Arguments that would be left out with an inactive parameter, so that the next ones would take
/// their position.
fn check_positional(
    run: &[String],
    list: &[Node],
    searched: &Searched,
    problems: &mut Vec<Diagnostic>,
) {
    let may_be_absent = |name: &str| searched.may_be_absent(name);
    let mentions = |name: &str| searched.mentions(name);
    for (index, name) in command_line::positional(run, may_be_absent, mentions) {
        let Some(word) = list.get(index) else { continue };
        let is_nullable =
            searched.get(name).is_some_and(|parameter| parameter.dimension.is_nullable());
        let absent = if is_nullable { "null" } else { "inactive" };
        let message = format!(
            "`{{{name}}}` is {absent} in some configurations, and the arguments after it would \
             take its place"
        );
        let problem = Diagnostic::error(word.place, message).label("positional");
        let why =
            if is_nullable { "null is one of its values" } else { "active under a condition" };
        let problem = problem
            .related(searched.get(name).map(|parameter| parameter.place), why)
            .help(format!(
                "give it an option: \"--{name}\", \"{{{name}}}\", or \"--{name}={{{name}}}\"; both \
                 are left out where it is {absent}"
            ))
            .help(format!(
                "or remove it: where it has a value, the program finds it in the environment \
                 variable {}",
                variable(name)
            ));
        problems.push(Diagnostic { severity: Severity::ErrorIfNew, ..problem });
    }
}

/// `{args}` is a separate argument after the program, at most once; unless a parameter has that
/// name.
fn check_args(words: &[Node], searched: &Searched, problems: &mut Vec<Diagnostic>) {
    let mut first = None;
    for (index, word) in words.iter().enumerate() {
        let text = word.text().unwrap_or_default();
        if !pieces(text, |name| searched.mentions(name))
            .iter()
            .any(|piece| matches!(piece, ArgumentPiece::Placeholder(command_line::ARGS, _)))
        {
            continue;
        }
        if let Some(parameter) = searched.get(command_line::ARGS) {
            let message = "`{args}` is the parameter `args` here, not all parameters";
            let problem = Diagnostic::warning(word.place, message);
            problems.push(
                problem
                    .related(parameter.place, "the parameter")
                    .help("rename the parameter to have `{args}` stand for all of them"),
            );
            return;
        }
        if searched.mentions(command_line::ARGS) {
            return;
        }
        let problem = if text != "{args}" {
            Diagnostic::error(word.place, "`{args}` must be a separate argument")
                .label("part of a longer one")
                .help("write `run = [\"python3\", \"train.py\", \"{args}\"]`")
                .help(
                    "a script of `sh -c` takes it as \"$@\": `run = [\"sh\", \"-c\", \"python3 \
                    train.py \\\"$@\\\"\", \"sh\", \"{args}\"]`",
                )
        } else if index == 0 {
            Diagnostic::error(word.place, "`{args}` is in the place of the program's name")
                .help("write `run = [\"python3\", \"train.py\", \"{args}\"]`")
        } else if let Some(first) = first {
            Diagnostic::error(word.place, "`{args}` appears twice")
                .label("second time")
                .related(Some(first), "first time")
                .help("keep one of them")
        } else {
            first = Some(word.place);
            continue;
        };
        problems.push(problem);
    }
}

fn directory(node: &Node, base: &Path, problems: &mut Vec<Diagnostic>) -> std::path::PathBuf {
    let path = super::absolute(base, node.text().unwrap_or_default());
    if !path.is_dir() {
        let problem = Diagnostic::error(node.place, "`command.cwd`: no such directory")
            .label("no such directory")
            .help(format!("looked for {}", path.display()));
        problems.push(problem.help("paths are relative to the study file"));
    }
    path
}

fn environment(
    section: &Section<'_>,
    problems: &mut Vec<Diagnostic>,
) -> BTreeMap<String, EnvironmentValue> {
    let mut env = BTreeMap::new();
    for entry in
        section.node("env").and_then(Node::table).into_iter().flat_map(|table| &table.entries)
    {
        let name = entry.key.escape_debug();
        if entry.key.is_empty() || entry.key.contains(['=', '\0']) {
            let message = format!("`{name}` cannot be the name of a variable");
            let problem = Diagnostic::error(entry.place, message);
            problems.push(problem.help("a name is not empty, and has no `=` and no NUL"));
        } else if entry.key.starts_with("HPSEARCH_") {
            let message = format!("`{name}` is set by hpsearch for each trial");
            let problem = Diagnostic::error(entry.place, message);
            problems.push(problem.help("choose another name"));
        }
        if entry.value.text().is_some_and(|value| value.contains('\0')) {
            problems.push(nul(format!("`command.env.{name}`"), &entry.value));
        }
        env.insert(
            entry.key.clone(),
            EnvironmentValue::new(entry.value.text().unwrap_or_default()),
        );
    }
    env
}

fn check_placeholders(argument: &Node, searched: &Searched, problems: &mut Vec<Diagnostic>) {
    for piece in pieces(argument.text().unwrap_or_default(), |name| searched.mentions(name)) {
        let ArgumentPiece::Placeholder(name, _) = piece else { continue };
        if searched.mentions(name)
            || TrialValues::NAMES.contains(&name)
            || GroupValues::NAMES.contains(&name)
            || name == command_line::ARGS
        {
            continue;
        }
        let message = format!("`{{{name}}}` is not a parameter of [space]");
        let problem = Diagnostic::error(argument.place, message);
        let known = || {
            searched.names().chain(TrialValues::NAMES).chain(std::iter::once(command_line::ARGS))
        };
        if let Some(near) = nearest(name, known()) {
            problems.push(problem.help(format!("did you mean `{{{near}}}`?")));
            continue;
        }
        let help = match VARIABLES.iter().find(|(word, _)| *word == name) {
            Some((_, variable)) => {
                format!("the program finds it in the environment variable {variable}")
            }
            None => format!("the names are {}", quoted(known())),
        };
        let braces = format!("to pass `{{{name}}}` on as it is, write `{{{{{name}}}}}`");
        problems.push(problem.help(help).help(braces));
    }
}

/// Two names that map to the same environment variable: the program would see only one of them.
fn check_variables(searched: &Searched, problems: &mut Vec<Diagnostic>) {
    let mut seen = HashMap::new();
    for parameter in &searched.parameters {
        let name = &parameter.dimension.name;
        let own = variable(name);
        let Some(earlier) = seen.insert(own.clone(), parameter) else { continue };
        let earlier_name = &earlier.dimension.name;
        let message = format!(
            "`{earlier_name}` and `{name}` both become {own}: the program finds only one of them \
             there"
        );
        let way_out = format!(
            "read them from the file HPSEARCH_PARAMS, or as `{{{earlier_name}}}` and `{{{name}}}` \
             in `run`; or rename one"
        );
        problems.push(
            Diagnostic::warning(parameter.place, message)
                .related(earlier.place, "the other one")
                .help(way_out),
        );
    }
}
