//! The options that a Python script declares, and how they may be searched.

use super::ranges;
use crate::config::placeholder;
use crate::config::trial_values::TrialValues;

/// A searchable option.
#[derive(Clone, Debug, PartialEq)]
pub struct Searched {
    /// The parameter's name.
    pub name: String,
    /// Its form in the study file: `{ float = [1e-4, 1e-2], log = true }`.
    pub range: String,
    /// The program's default, for a comment.
    pub default: Option<String>,
}

/// The choices of a Python list, if TOML can represent them: as a list, and individually as typed.
fn choices(list: &str) -> Option<(String, Vec<String>)> {
    let list = list.replace('\'', "\"");
    let values: Vec<serde_json::Value> = serde_json::from_str(&list).ok()?;
    let typed = |value: &serde_json::Value| match value {
        serde_json::Value::String(text) => Some(text.clone()),
        serde_json::Value::Number(number) => Some(number.to_string()),
        _ => None,
    };
    let typed: Option<Vec<String>> = values.iter().map(typed).collect();
    Some((list, typed?))
}

/// An option that a Python script declares, with `add_argument` or `click.option`.
pub struct Declared {
    /// Its names: `--learning-rate`, `-r`.
    pub flags: Vec<String>,
    /// Its choices: a list for the study file, and each as typed.
    pub choices: Option<(String, Vec<String>)>,
    /// `int`, `float` and the like.
    pub kind: Option<String>,
    /// Its search range; `None`: it is not a hyperparameter, or has no known range.
    pub searched: Option<Searched>,
    /// Whether it takes no value.
    pub is_flag: bool,
    /// Its default, if that is a text.
    pub text: Option<String>,
}

impl Declared {
    /// Its long name.
    pub fn long(&self) -> Option<&str> {
        self.flags.iter().find(|flag| flag.starts_with("--")).map(String::as_str)
    }

    /// Whether it has this name.
    pub fn is_called(&self, option: &str) -> bool {
        self.flags.iter().any(|flag| flag == option)
    }
}

/// The options that a Python script declares.
pub fn declared(source: &str) -> Vec<Declared> {
    let begins = [Parser::Argparse, Parser::Click].into_iter().flat_map(|parser| {
        source.match_indices(parser.call()).map(move |(at, call)| (at + call.len(), parser))
    });
    let mut begins: Vec<(usize, Parser)> = begins.collect();
    begins.sort_unstable_by_key(|(at, _)| *at);
    begins
        .into_iter()
        .map(|(at, parser)| declaration(arguments_of(&source[at..]), parser))
        .filter(|declared| !declared.flags.is_empty())
        .collect()
}

/// The library that parses a script's options.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Parser {
    Argparse,
    Click,
}

impl Parser {
    /// How an option is declared.
    fn call(self) -> &'static str {
        match self {
            Parser::Argparse => "add_argument(",
            Parser::Click => "click.option(",
        }
    }

    /// Whether the program gets a number: without a type, argparse passes on text, whatever the
    /// default is, and click takes the default's type.
    fn passes_numbers(self, kind: Option<&str>) -> bool {
        match kind {
            Some(kind) => !["str", "click.STRING"].contains(&kind),
            None => self == Parser::Click,
        }
    }
}

fn declaration(call: &str, parser: Parser) -> Declared {
    let flags: Vec<String> =
        strings(call).into_iter().take_while(|word| word.starts_with('-')).collect();
    let (default, kind) = (keyword(call, "default"), keyword(call, "type"));
    let of_click = kind.and_then(|kind| kind.strip_prefix("click.Choice("));
    let listed =
        keyword(call, "choices").or_else(|| of_click.map(|list| list.trim_end_matches(')')));
    let is_flag = keyword(call, "is_flag") == Some("True")
        || keyword(call, "action").is_some_and(|action| action.contains("store_true"));
    let choices = listed.and_then(choices);
    let action = keyword(call, "action").map(|action| action.trim_matches(['"', '\'']));
    let is_single = action.is_none_or(|action| action == "store")
        && ["nargs", "multiple", "count"].iter().all(|key| keyword(call, key).is_none());
    let long = flags.iter().find(|flag| flag.starts_with("--")).filter(|_| !is_flag && is_single);
    let passes_numbers = parser.passes_numbers(kind);
    let searched = long.and_then(|flag| {
        let range = match (listed, default) {
            (Some(list), _) if !passes_numbers && !list.contains(['"', '\'']) => return None,
            (Some(_), _) => choices.as_ref().map(|(list, _)| list.clone())?,
            _ if !passes_numbers => return None,
            (None, Some(default)) => ranges::around(flag, default, kind)?,
            (None, None) => ranges::of_kind(flag, kind?)?,
        };
        let name = name_of(flag);
        let is_searched = ranges::is_hyperparameter(flag) && placeholder::is_name(&name);
        is_searched.then(|| Searched { name, range, default: default.map(str::to_owned) })
    });
    let text = default.filter(|_| is_single).and_then(|default| {
        let text = strings(default).into_iter().next()?;
        (default.len() == text.len() + 2).then_some(text)
    });
    Declared { flags, choices, kind: kind.map(str::to_owned), searched, is_flag, text }
}

/// The text between the parentheses of a call.
fn arguments_of(rest: &str) -> &str {
    let mut depth = 1;
    let mut quote = None;
    for (at, char) in rest.char_indices() {
        match (quote, char) {
            (Some(open), _) if char == open => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => quote = Some(char),
            (None, '(') => depth += 1,
            (None, ')') => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return &rest[..at];
        }
    }
    ""
}

/// The quoted words of a call.
fn strings(call: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = call;
    while let Some(at) = rest.find(['"', '\'']) {
        let open = &rest[at..=at];
        let Some(end) = rest[at + 1..].find(open) else { break };
        found.push(rest[at + 1..at + 1 + end].to_owned());
        rest = &rest[at + 2 + end..];
    }
    found
}

/// The value of `name=` in a call: up to the comma outside of brackets.
fn keyword<'a>(call: &'a str, name: &str) -> Option<&'a str> {
    let at = call.match_indices(name).map(|(at, _)| at).find(|at| {
        let before = call[..*at].chars().next_back();
        !before.is_some_and(|char| char.is_alphanumeric() || char == '_')
            && call[at + name.len()..].trim_start().starts_with('=')
    })?;
    let value = call[at + name.len()..].trim_start().strip_prefix('=')?.trim_start();
    let mut depth = 0;
    let end = value.char_indices().find(|(_, char)| {
        depth += match char {
            '[' | '(' => 1,
            ']' | ')' => -1,
            _ => 0,
        };
        *char == ',' && depth == 0
    });
    Some(value[..end.map_or(value.len(), |(at, _)| at)].trim())
}

/// The name of an option's parameter.
pub fn name_of(option: &str) -> String {
    option.trim_start_matches('-').replace('-', "_")
}

/// Escapes braces, so that the program gets the word unchanged, but for what stands for the trial
/// itself, such as `{trial_dir}`.
pub fn as_it_is(word: &str) -> String {
    placeholder::escaped(word, |_| false, |name| TrialValues::NAMES.contains(&name))
}
