//! The command of a sweep as that of a study: its macros, and how it passes parameters.

use super::Findings;
use super::parameter::{Parameter, Searched, Values};
use super::python;
use super::yaml::{Entry, Item, Node};
use crate::config::placeholder::escaped;
use crate::config::{Diagnostic, shell};
use crate::study::params::Value;
use crate::study::space::Distribution;
use crate::study::suggestion::quoted;

/// A study's command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Command {
    /// Program and arguments.
    pub run: Vec<String>,
    /// How the program takes parameters.
    pub args_style: Option<&'static str>,
    /// Whether the program reads all parameters from a file, the fixed ones, too.
    pub reads_file: bool,
    /// Whether the command passes parameters at all.
    pub passes: bool,
}

/// The macros for parameters, and how each writes them.
const MACROS: &[(&str, Passing)] = &[
    ("${args}", Passing::Equals),
    ("${args_no_equals}", Passing::Dashes),
    ("${args_no_hyphens}", Passing::NoHyphens),
    ("${args_no_boolean_flags}", Passing::Flags),
    ("${args_append_hydra}", Passing::Prefixed("+")),
    ("${args_override_hydra}", Passing::Prefixed("++")),
    ("${args_json}", Passing::Json),
    ("${args_json_file}", Passing::JsonFile),
];

/// How parameters are passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Passing {
    /// `--lr=0.1`
    Equals,
    /// `--lr 0.1`
    Dashes,
    /// `lr=0.1`
    NoHyphens,
    /// `--lr=0.1`, with booleans as flags.
    Flags,
    /// `+lr=0.1`
    Prefixed(&'static str),
    /// All as one argument of JSON.
    Json,
    /// The path of a file of JSON.
    JsonFile,
}

/// A word of the command.
enum Word {
    /// As it is.
    Literal(String),
    /// All parameters.
    Parameters(Passing),
    /// Text of a shell.
    Shell(String),
}

/// Translates `command`, by default that of W&B.
pub fn read(
    command: Option<&Entry>,
    program: Option<&Entry>,
    parameters: &[Parameter],
    found: &mut Findings,
) -> Command {
    let words: Vec<String> = match command.map(|entry| (&entry.value.item, entry)) {
        None => ["${env}", "${interpreter}", "${program}", "${args}"].map(str::to_owned).into(),
        Some((Item::List(list), _)) if !list.is_empty() => list.iter().map(python::text).collect(),
        Some((_, entry)) => {
            let message = format!("`command` must be a list, not {}", entry.value.kind());
            let help = "write `command: [\"${env}\", python3, \"${program}\", \"${args}\"]`";
            found.problem(Diagnostic::error(entry.place, message).help(help));
            return Command::default();
        }
    };
    let mut translated = Vec::new();
    for (at, word) in words.iter().enumerate() {
        match word.as_str() {
            "${env}" => {
                // `env` alone finds the program on PATH, as hpsearch does.
                let is_needed = words
                    .get(at + 1)
                    .is_some_and(|next| next.starts_with('-') || next.contains('='));
                translated.extend(is_needed.then(|| Word::Literal("/usr/bin/env".to_owned())));
            }
            "${interpreter}" => translated.push(Word::Literal("python".to_owned())),
            "${program}" => translated.push(Word::Literal(script(program, found))),
            _ => translated.extend(of_word(word, found)),
        }
    }
    let passing: Vec<Passing> = translated
        .iter()
        .filter_map(|word| match word {
            Word::Parameters(passing) => Some(*passing),
            _ => None,
        })
        .collect();
    if passing.len() > 1 {
        let place = command.map(|entry| entry.place);
        let message = "the command passes the parameters twice";
        found.problem(Diagnostic::error(place, message).help("keep one of the macros `${args..}`"));
        return Command::default();
    }
    let passing = passing.first().copied();
    let style = passing.map(|passing| Style::new(passing, parameters, found));
    let mut made = joined(translated, style.as_ref(), parameters);
    made.passes = passing.is_some();
    made.reads_file = matches!(passing, Some(Passing::Json | Passing::JsonFile));
    if made.run.is_empty() && !found.has_problems() {
        let place = command.map(|entry| entry.place);
        let message = "the command is empty once its macros are replaced";
        found.problem(Diagnostic::error(place, message).help("name a program in it"));
    }
    made
}

/// The program's path.
fn script(program: Option<&Entry>, found: &mut Findings) -> String {
    let Some(entry) = program else {
        found.note(
            "the sweep names no `program` (its runs call a function): write the script that runs \
             one trial in place of `train.py`"
                .to_owned(),
        );
        return "train.py".to_owned();
    };
    match entry.value.text() {
        Some(text) if !text.is_empty() => text.to_owned(),
        _ => {
            let message = format!("`program` must be a path, not {}", entry.value.kind());
            found.problem(Diagnostic::error(entry.place, message).help("such as `train.py`"));
            String::new()
        }
    }
}

/// A word that is none of the macros for the program.
fn of_word(word: &str, found: &mut Findings) -> Option<Word> {
    if let Some((_, passing)) = MACROS.iter().find(|(name, _)| *name == word) {
        return Some(Word::Parameters(*passing));
    }
    if let Some(text) = with_variables(word) {
        return Some(Word::Shell(text));
    }
    if word.starts_with("${") && word.ends_with('}') {
        found.note(format!("`{word}` of the command is not a macro of W&B, which leaves it out"));
        return None;
    }
    Some(Word::Literal(word.to_owned()))
}

/// A word with `${envvar:NAME}` as text of a shell; a variable that is not set is its own name.
fn with_variables(word: &str) -> Option<String> {
    const START: &str = "${envvar:";
    let is_name =
        |name: &str| name.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_');
    let mut text = String::new();
    let mut rest = word;
    let mut has_one = false;
    while let Some(at) = rest.find(START) {
        let behind = &rest[at + START.len()..];
        let Some(end) = behind.find('}').filter(|end| is_name(&behind[..*end])) else { break };
        let name = &behind[..end];
        if at > 0 {
            text += &shell::in_quotes(&rest[..at]);
        }
        if name.starts_with(|char: char| char.is_ascii_uppercase() || char == '_') {
            text += &format!("\"${{{name}-{name}}}\"");
        } else {
            text += &shell::in_quotes(name);
        }
        has_one = true;
        rest = &behind[end + 1..];
    }
    if !rest.is_empty() {
        text += &shell::in_quotes(rest);
    }
    has_one.then_some(text)
}

/// The words of a command: by themselves, or as a script of `sh` if it must look at variables.
fn joined(words: Vec<Word>, style: Option<&Style>, parameters: &[Parameter]) -> Command {
    let knows = |name: &str| parameters.iter().any(|parameter| parameter.name == name);
    let literal = |word: &str| escaped(word, knows, |_| false);
    let passed = style.map(|style| style.words(parameters)).unwrap_or_default();
    let args_style = style.and_then(|style| style.args_style);
    let by_shell = |word: &Word| {
        matches!(word, Word::Shell(_) | Word::Parameters(Passing::Json | Passing::JsonFile))
    };
    let mut run = Vec::new();
    if !words.iter().any(by_shell) {
        for word in words {
            match word {
                Word::Parameters(_) => run.extend(passed.clone()),
                Word::Literal(word) | Word::Shell(word) => run.push(literal(&word)),
            }
        }
        return Command { run, args_style, ..Command::default() };
    }
    let mut script = String::from("exec");
    for word in words {
        script.push(' ');
        script += &match word {
            Word::Literal(word) => shell::quoted(&[word]),
            Word::Shell(text) => text,
            Word::Parameters(Passing::JsonFile) => "\"$HPSEARCH_PARAMS\"".to_owned(),
            Word::Parameters(Passing::Json) => "\"$(cat \"$HPSEARCH_PARAMS\")\"".to_owned(),
            Word::Parameters(_) => "\"$@\"".to_owned(),
        };
    }
    run.extend(["sh".to_owned(), "-c".to_owned(), literal(&script)]);
    if !passed.is_empty() {
        run.push("sh".to_owned());
        run.extend(passed);
    }
    Command { run, args_style, ..Command::default() }
}

/// How the parameters are written into the command.
struct Style {
    passing: Passing,
    /// Whether `{args}` writes them as W&B does; otherwise each is named.
    all: bool,
    args_style: Option<&'static str>,
}

impl Style {
    fn new(passing: Passing, parameters: &[Parameter], found: &mut Findings) -> Self {
        let searched = || {
            parameters.iter().filter_map(|parameter| match &parameter.values {
                Values::Searched(searched) => Some((parameter, searched)),
                Values::Fixed(_) => None,
            })
        };
        let with = |is: fn(&Value) -> bool| -> Vec<&str> {
            let has = |searched: &Searched| match &searched.distribution {
                Distribution::Choice { choices } => choices.iter().any(is),
                _ => false,
            };
            searched()
                .filter(|(_, searched)| has(searched))
                .map(|(parameter, _)| parameter.name.as_str())
                .collect()
        };
        let flags = with(|value| matches!(value, Value::Bool(_)));
        let lists = with(|value| matches!(value, Value::List(_)));
        let nulls = with(|value| matches!(value, Value::Null));
        let nested = searched().any(|(parameter, _)| parameter.path.len() > 1);
        let is_called_args = searched().any(|(parameter, _)| parameter.name == "args");
        let is_json = matches!(passing, Passing::Json | Passing::JsonFile);
        let is_hydra = matches!(passing, Passing::NoHyphens | Passing::Prefixed(_));
        if !nulls.is_empty() && !is_json && !is_hydra {
            let names = quoted(nulls.iter().copied());
            found.note(format!("{names}: W&B passes `None`; here a null is not passed at all"));
        }
        let plain = !nested && !is_called_args && nulls.is_empty();
        let written = match passing {
            Passing::Equals | Passing::Dashes => {
                if !flags.is_empty() {
                    let names = quoted(flags.iter().copied());
                    found.note(format!(
                        "{names}: W&B passes `True` and `False`, hpsearch `true` and `false`"
                    ));
                }
                let all = plain && flags.is_empty() && lists.is_empty();
                let style = if passing == Passing::Equals { "equals" } else { "dashes" };
                (all, all.then_some(style))
            }
            Passing::Flags => {
                if !lists.is_empty() {
                    let names = quoted(lists.iter().copied());
                    found.note(format!("{names}: W&B passes `[1, 2]`, hpsearch `1,2`"));
                }
                (plain, Some("equals"))
            }
            Passing::NoHyphens => (!is_called_args, Some("hydra")),
            Passing::Prefixed(_) => (false, Some("hydra")),
            Passing::Json | Passing::JsonFile => (false, None),
        };
        let (all, args_style) = written;
        Style { passing, all, args_style }
    }

    /// The arguments.
    fn words(&self, parameters: &[Parameter]) -> Vec<String> {
        if matches!(self.passing, Passing::Json | Passing::JsonFile) {
            return Vec::new();
        }
        let knows = |name: &str| parameters.iter().any(|parameter| parameter.name == name);
        let mut words = Vec::new();
        let mut has_searched = false;
        let members = || parameters.iter().map(|parameter| (&parameter.path[..], parameter));
        let of_parameter = |name: &str, parameter: &Parameter| match &parameter.values {
            Values::Fixed(value) => match (self.passing, &value.item) {
                (Passing::Flags, Item::Bool(true)) => vec![format!("--{name}")],
                (Passing::Flags, Item::Bool(false)) => Vec::new(),
                _ => self.argument(name, &escaped(&python::text(value), knows, |_| false)),
            },
            Values::Searched(_) => self.argument(name, &format!("{{{}}}", parameter.name)),
        };
        // Hydra reads dotted names; other programs get a dictionary, as from W&B.
        let groups = match self.passing {
            Passing::NoHyphens | Passing::Prefixed(_) => members()
                .map(|(path, parameter)| (parameter.name.as_str(), vec![(path, parameter)]))
                .collect(),
            _ => groups(members()),
        };
        for (name, members) in &groups {
            match &members[..] {
                members if self.all && !is_fixed(members) => has_searched = true,
                [(_, parameter)] if parameter.name == *name => {
                    words.extend(of_parameter(name, parameter));
                }
                members => words.extend(self.argument(name, &mapping(members, &knows))),
            }
        }
        words.extend(has_searched.then(|| "{args}".to_owned()));
        words
    }

    fn argument(&self, name: &str, value: &str) -> Vec<String> {
        match self.passing {
            Passing::Dashes => vec![format!("--{name}"), value.to_owned()],
            Passing::NoHyphens => vec![format!("{name}={value}")],
            Passing::Prefixed(prefix) => vec![format!("{prefix}{name}={value}")],
            _ => vec![format!("--{name}={value}")],
        }
    }
}

type Member<'a> = (&'a [String], &'a Parameter);

fn is_fixed(members: &[Member<'_>]) -> bool {
    members.iter().all(|(_, parameter)| matches!(parameter.values, Values::Fixed(_)))
}

/// Parameters by the first part of their names, in their order.
fn groups<'a>(members: impl IntoIterator<Item = Member<'a>>) -> Vec<(&'a str, Vec<Member<'a>>)> {
    let mut groups: Vec<(&str, Vec<Member<'_>>)> = Vec::new();
    for (path, parameter) in members {
        match groups.iter_mut().find(|(name, _)| *name == path[0]) {
            Some((_, members)) => members.push((path, parameter)),
            None => groups.push((&path[0], vec![(path, parameter)])),
        }
    }
    groups
}

/// Nested parameters as Python prints their dictionary, with a placeholder for each that is
/// searched.
fn mapping(members: &[Member<'_>], knows: &dyn Fn(&str) -> bool) -> String {
    let inner = members.iter().map(|(path, parameter)| (&path[1..], *parameter));
    let entries: Vec<String> = groups(inner)
        .into_iter()
        .map(|(name, members)| {
            let value = match &members[..] {
                [(path, parameter)] if path.len() == 1 => value(parameter, knows),
                _ => mapping(&members, knows),
            };
            format!("{}: {value}", python::string(name))
        })
        .collect();
    format!("{{{}}}", entries.join(", "))
}

/// A nested value within an argument.
fn value(parameter: &Parameter, knows: &dyn Fn(&str) -> bool) -> String {
    match &parameter.values {
        Values::Fixed(value) => escaped(&python::literal(value), knows, |_| false),
        Values::Searched(searched) => {
            let is_plain_text = |value: &Value| match value {
                Value::Text(text) => python::string(text) == format!("'{text}'"),
                _ => false,
            };
            match &searched.distribution {
                Distribution::Choice { choices } if choices.iter().all(is_plain_text) => {
                    format!("'{{{}}}'", parameter.name)
                }
                _ => format!("{{{}}}", parameter.name),
            }
        }
    }
}

/// The fixed values as a dictionary of Python, for `hpsearch.init(config=..)`.
pub fn fixed_values(parameters: &[Parameter]) -> Option<String> {
    let fixed: Vec<String> = parameters
        .iter()
        .filter_map(|parameter| match &parameter.values {
            Values::Fixed(value) => {
                Some(format!("{}: {}", python::string(&parameter.name), literal(value)))
            }
            Values::Searched(_) => None,
        })
        .collect();
    (!fixed.is_empty()).then(|| format!("{{{}}}", fixed.join(", ")))
}

/// A literal of Python; `inf` and `nan` are none.
fn literal(value: &Node) -> String {
    match &value.item {
        Item::Float(float) if !float.is_finite() => {
            format!("float({})", python::string(&python::literal(value)))
        }
        _ => python::literal(value),
    }
}
