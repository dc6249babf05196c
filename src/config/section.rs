//! A table of the study file checked against its keys: what is wrong is reported, what is right can be read.

use std::collections::BTreeMap;
use std::time::Duration;

use super::diagnostic::{Complaint, Diagnostic, Place};
use super::duration;
use super::keys::{self, Key, KeyKind};
use super::size;
use super::suggestion::{nearest, quoted};
use super::syntax::{Entry, Item, Node, Table};

/// The entries of a table whose keys are known and whose values have the right kind.
#[derive(Debug, Default)]
pub(super) struct Section<'a> {
    /// Where the table is, if it is there.
    pub place: Option<Place>,
    sound: BTreeMap<&'static str, &'a Entry>,
    refused: Vec<&'static str>,
}

impl<'a> Section<'a> {
    /// Checks `table` against `keys`. `path` is its name in messages; entries of other keys are returned when `open`.
    pub fn read(
        path: &str,
        place: Place,
        table: &'a Table,
        keys: &'static [Key],
        problems: &mut Vec<Diagnostic>,
    ) -> Self {
        let (mut section, unknown) = Section::read_open(path, place, table, keys, problems);
        for entry in unknown {
            // What a slip was meant to be is not missing as well.
            let names = keys.iter().map(|key| key.name);
            section.refused.extend(
                nearest(&entry.key, names.clone())
                    .and_then(|near| names.clone().find(|name| *name == near)),
            );
            problems.push(unknown_key(path, entry, keys));
        }
        section
    }

    /// The same, with the entries of unknown keys for the caller to read.
    pub fn read_open(
        path: &str,
        place: Place,
        table: &'a Table,
        keys: &'static [Key],
        problems: &mut Vec<Diagnostic>,
    ) -> (Self, Vec<&'a Entry>) {
        let mut section = Section { place: Some(place), ..Section::default() };
        let mut unknown = Vec::new();
        for entry in &table.entries {
            let Some(key) = keys.iter().find(|key| key.name == entry.key) else {
                unknown.push(entry);
                continue;
            };
            match check(path, key, entry) {
                Ok(()) => {
                    section.sound.insert(key.name, entry);
                }
                Err(problem) => {
                    section.refused.push(key.name);
                    problems.push(*problem);
                }
            }
        }
        (section, unknown)
    }

    /// The entry of `key`, if it is sound.
    pub fn entry(&self, key: &str) -> Option<&'a Entry> {
        self.sound.get(key).copied()
    }

    /// Whether `key` is not written at all, not even wrongly.
    pub fn lacks(&self, key: &str) -> bool {
        !self.sound.contains_key(key) && !self.refused.contains(&key)
    }

    /// The value of `key`.
    pub fn node(&self, key: &str) -> Option<&'a Node> {
        self.entry(key).map(|entry| &entry.value)
    }

    /// The string of `key`.
    pub fn text(&self, key: &str) -> Option<&'a str> {
        self.node(key).and_then(Node::text)
    }

    /// The whole number of `key`, in the type the study keeps it in.
    pub fn whole<Number: TryFrom<i64>>(&self, key: &str) -> Option<Number> {
        self.node(key).and_then(Node::whole).and_then(|int| Number::try_from(int).ok())
    }

    /// The number of `key`.
    pub fn number(&self, key: &str) -> Option<f64> {
        self.node(key).and_then(Node::number)
    }

    /// Whether `key` is `true`.
    pub fn is_set(&self, key: &str) -> bool {
        matches!(self.node(key), Some(Node { item: Item::Flag(true), .. }))
    }

    /// The duration of `key`.
    pub fn duration(&self, key: &str) -> Option<Duration> {
        self.text(key).and_then(|text| duration::parse(text).ok())
    }

    /// The number of bytes of `key`.
    pub fn size(&self, key: &str) -> Option<u64> {
        self.text(key).and_then(|text| size::parse(text).ok())
    }

    /// The strings of `key`.
    pub fn texts(&self, key: &str) -> Option<Vec<String>> {
        let list = self.node(key)?.list()?;
        Some(list.iter().filter_map(Node::text).map(str::to_owned).collect())
    }
}

/// An error for a key that no line of the table has.
fn unknown_key(path: &str, entry: &Entry, keys: &'static [Key]) -> Diagnostic {
    let problem = Diagnostic::error(entry.place, format!("[{path}] has no key `{}`", entry.key))
        .label("unknown key");
    if let Some(near) = nearest(&entry.key, keys.iter().map(|key| key.name)) {
        return problem.help(format!("did you mean `{near}`?"));
    }
    if let Some(owner) = keys::owners(&entry.key).next() {
        return problem.help(format!("`{}` is a key of [{}]", entry.key, owner.name));
    }
    problem.help(format!("its keys are {}", quoted(keys.iter().map(|key| key.name))))
}

fn check(path: &str, key: &Key, entry: &Entry) -> Result<(), Box<Diagnostic>> {
    let name = format!("{path}.{}", key.name);
    check_kind(&name, key, &entry.value)
}

/// An error for something the contract promises.
pub(super) fn not_yet(place: Place, what: &str, instead: &str) -> Diagnostic {
    Diagnostic::error(place, format!("{what} is not supported yet"))
        .label("not supported yet")
        .help(instead)
}

fn check_kind(name: &str, key: &Key, node: &Node) -> Result<(), Box<Diagnostic>> {
    let wrong = |node: &Node, expected: &str| -> Complaint {
        let problem = Diagnostic::error(node.place, format!("`{name}` must be {expected}"));
        problem.label(format!("this is {}", node.describe()))
    };
    match key.kind {
        KeyKind::Path if node.text().is_some_and(|text| text.contains('\0')) => {
            Err(nul(name, node))
        }
        KeyKind::Text | KeyKind::Path => match node.text() {
            Some(text) if !text.trim().is_empty() => Ok(()),
            _ => Err(quote_hint(wrong(node, "a string"), key, node)),
        },
        KeyKind::Word { accepted, later } => check_word(name, node, accepted, later),
        KeyKind::Direction
            if node.text().is_some_and(|word| keys::SHORT_DIRECTIONS.contains(&word)) =>
        {
            Ok(())
        }
        KeyKind::Direction => check_word(name, node, keys::DIRECTIONS, &[]),
        KeyKind::Whole { min, max } => match node.whole() {
            Some(int) if (min..=max).contains(&int) => Ok(()),
            _ => Err(number_hint(wrong(node, &whole_between(min, max)), key, node)),
        },
        KeyKind::WholeOrAuto { min, max } => match (&node.item, node.whole()) {
            (_, Some(int)) if (min..=max).contains(&int) => Ok(()),
            (Item::Text(text), _) if text == "auto" => Ok(()),
            _ => Err(number_hint(
                wrong(node, &format!("{} or \"auto\"", whole_between(min, max))),
                key,
                node,
            )),
        },
        KeyKind::Number => {
            node.number().map(drop).ok_or_else(|| number_hint(wrong(node, "a number"), key, node))
        }
        KeyKind::Amount => match node.number() {
            Some(number) if number > 0.0 => Ok(()),
            _ => Err(number_hint(wrong(node, "a number above zero"), key, node)),
        },
        KeyKind::Flag => {
            if matches!(node.item, Item::Flag(_)) {
                Ok(())
            } else {
                Err(example(wrong(node, "true or false"), key))
            }
        }
        KeyKind::Duration => match node.text().map(duration::parse) {
            Some(Ok(_)) => Ok(()),
            Some(Err(why)) => {
                let problem =
                    Diagnostic::error(node.place, format!("`{name}` is not a duration: {why}"));
                Err(Box::new(
                    problem.help("write for example \"90m\", \"2h30m\", \"1d\" or \"45s\""),
                ))
            }
            None => Err(Box::new(
                wrong(node, "a duration in quotes")
                    .help("write for example \"90m\", \"2h30m\", \"1d\" or \"45s\""),
            )),
        },
        KeyKind::Size => match node.text().map(size::parse) {
            Some(Ok(_)) => Ok(()),
            Some(Err(why)) => {
                let problem =
                    Diagnostic::error(node.place, format!("`{name}` is not a size: {why}"));
                Err(Box::new(problem.help("write for example \"50GiB\", \"800MiB\" or \"1.5TB\"")))
            }
            None => Err(Box::new(
                wrong(node, "a size in quotes")
                    .help("write for example \"50GiB\", \"800MiB\" or \"1.5TB\""),
            )),
        },
        KeyKind::Texts => match node.list() {
            Some(list) => match list.iter().find(|element| element.text().is_none()) {
                Some(element) => Err(quote_hint(wrong(element, "a list of strings"), key, element)),
                None => Ok(()),
            },
            None => Err(bracket_hint(key, wrong(node, "a list of strings, in brackets"), node)),
        },
        KeyKind::Words(accepted) => match node.list() {
            Some(list) => {
                list.iter().try_for_each(|element| check_word(name, element, accepted, &[]))
            }
            None => Err(bracket_hint(key, wrong(node, "a list of words, in brackets"), node)),
        },
        KeyKind::Environment => match node.table() {
            Some(table) => match table.entries.iter().find(|entry| entry.value.text().is_none()) {
                Some(entry) => {
                    Err(quote_hint(wrong(&entry.value, "a table of strings"), key, &entry.value))
                }
                None => Ok(()),
            },
            None => Err(Box::new(
                wrong(node, "a table of strings").help("write `env = { NAME = \"value\" }`"),
            )),
        },
        // Their readers know more about them than a kind can say.
        KeyKind::Devices | KeyKind::Keep | KeyKind::Objectives | KeyKind::TextOrTexts => Ok(()),
        KeyKind::CommandMetrics if node.table().is_some() => Ok(()),
        KeyKind::CommandMetrics => Err(Box::new(
            wrong(node, "a table").help("write `[command.metrics]` on a line of its own"),
        )),
    }
}

/// An error for a text that goes where C's strings end at a NUL: paths, arguments and variables of programs.
pub(super) fn nul(name: &str, node: &Node) -> Box<Diagnostic> {
    Box::new(
        Diagnostic::error(node.place, format!("`{name}` has a NUL character (\\u0000)"))
            .help("take it out: no path, argument or variable holds one"),
    )
}

/// Checks one word; several may be promised but not built.
pub(super) fn check_word(
    name: &str,
    node: &Node,
    accepted: &[&str],
    later: &[&str],
) -> Result<(), Box<Diagnostic>> {
    let help = format!("write {}", one_of(accepted));
    let Some(word) = node.text() else {
        let problem = Diagnostic::error(node.place, format!("`{name}` must be a word in quotes"));
        return Err(Box::new(problem.label(format!("this is {}", node.describe())).help(help)));
    };
    if accepted.contains(&word) {
        return Ok(());
    }
    if later.contains(&word) {
        return Err(Box::new(not_yet(node.place, &format!("`{name} = \"{word}\"`"), &help)));
    }
    let problem = Diagnostic::error(node.place, format!("`{name}` cannot be `{word}`"))
        .label(format!("expected {}", one_of(accepted)));
    Err(Box::new(match nearest(word, accepted.iter().copied()) {
        Some(near) => problem.help(format!("did you mean \"{near}\"?")),
        None => problem.help(help),
    }))
}

fn one_of(words: &[&str]) -> String {
    let quoted: Vec<String> = words.iter().map(|word| format!("\"{word}\"")).collect();
    match quoted.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        _ => quoted.concat(),
    }
}

pub(super) fn whole_between(min: i64, max: i64) -> String {
    if max == i64::MAX {
        format!("a whole number of at least {min}")
    } else {
        format!("a whole number from {min} to {max}")
    }
}

/// With the key as it may be written.
fn example(problem: Complaint, key: &Key) -> Box<Diagnostic> {
    let value = match key.kind {
        _ if !key.default.is_empty() && !key.default.contains(' ') => key.default.to_owned(),
        KeyKind::Whole { min, max } | KeyKind::WholeOrAuto { min, max } => {
            10.clamp(min, max).to_string()
        }
        KeyKind::Number | KeyKind::Amount => "0.5".to_owned(),
        KeyKind::Flag => "true".to_owned(),
        KeyKind::Size => "\"50GiB\"".to_owned(),
        KeyKind::Texts => "[\"...\"]".to_owned(),
        KeyKind::Words(words) => format!("[\"{}\"]", words.join("\", \"")),
        KeyKind::Environment => "{ NAME = \"value\" }".to_owned(),
        _ => "\"...\"".to_owned(),
    };
    Box::new(problem.help(format!("write for example `{} = {value}`", key.name)))
}

/// Numbers, flags and dates where a string is expected want quotes.
fn quote_hint(problem: Complaint, key: &Key, node: &Node) -> Box<Diagnostic> {
    match &node.item {
        Item::Whole(_) | Item::Number(_) | Item::Flag(_) => {
            let value = node.to_json();
            Box::new(problem.help(format!("write it in quotes: \"{value}\"")))
        }
        Item::Date(date) => Box::new(problem.help(format!("write it in quotes: \"{date}\""))),
        _ => example(problem, key),
    }
}

/// One string where a list is expected wants brackets; a command line, one string for each word.
fn bracket_hint(key: &Key, problem: Complaint, node: &Node) -> Box<Diagnostic> {
    let Some(text) = node.text().filter(|text| !text.contains(['"', '\'', '\\'])) else {
        return example(problem, key);
    };
    let words: Vec<&str> =
        if key.name == "run" { text.split_whitespace().collect() } else { vec![text] };
    let words: Vec<String> = words.into_iter().map(|word| format!("\"{word}\"")).collect();
    Box::new(problem.help(format!("write {} = [{}]", key.name, words.join(", "))))
}

/// Numbers in quotes want none.
fn number_hint(problem: Complaint, key: &Key, node: &Node) -> Box<Diagnostic> {
    match node.text().map(str::trim).filter(|text| text.parse::<f64>().is_ok_and(f64::is_finite)) {
        Some(text) => Box::new(problem.help(format!("write it without quotes: {text}"))),
        None => example(problem, key),
    }
}
