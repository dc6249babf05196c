//! Replaces a command's options by `{args}`, if its script parses them by name.

use super::declared::{Declared, Searched, as_it_is};
use super::ranges;
use crate::config::placeholder;

/// A command with `{args}`.
pub struct WithArgs {
    /// Program and arguments.
    pub run: Vec<String>,
    /// The searched parameters, by option name.
    pub space: Vec<Searched>,
    /// `args_style`.
    pub style: &'static str,
}

/// The command with `{args}` in place of its first searched option, or at its end; `None` if that
/// would change its meaning: an option precedes the script, occurs twice or has only one letter, or
/// positional arguments stand between options.
///
/// `words` is the command, `script` the place of its script, `run` the command with placeholders
/// for `given`, and `others` are options that it does not give.
pub fn of_options(
    words: &[String],
    script: usize,
    run: &[String],
    given: &[Searched],
    others: &[(String, Searched)],
    declared: &[Declared],
) -> Option<WithArgs> {
    let long = |option: &str| -> Option<String> {
        let of_script = declared.iter().find(|declared| declared.is_called(option));
        let long = of_script.and_then(Declared::long).unwrap_or(option);
        long.strip_prefix("--").map(str::to_owned)
    };
    // Whether each word belongs to a searched option: the option itself, or its value.
    let mut taken = vec![false; words.len()];
    let (mut space, mut joined) = (Vec::new(), 0);
    for searched in given {
        let placeholder = format!("{{{}}}", searched.name);
        let at = run.iter().position(|word| word.ends_with(&placeholder))?;
        let (option, first) = match run[at].strip_suffix(&placeholder) {
            Some("") => (words[at.checked_sub(1)?].as_str(), at - 1),
            Some(begin) => (begin.strip_suffix('=')?, at),
            None => return None,
        };
        joined += usize::from(first == at);
        taken[first..=at].fill(true);
        space.push(Searched { name: long(option)?, ..searched.clone() });
    }
    for (option, searched) in others {
        space.push(Searched { name: long(option)?, ..searched.clone() });
    }
    let is_clear = space.iter().enumerate().all(|(index, searched)| {
        let is_first = space[..index].iter().all(|earlier| earlier.name != searched.name);
        is_first && searched.name.len() > 1 && placeholder::is_name(&searched.name)
    });
    let first = taken.iter().position(|taken| *taken);
    let last = taken.iter().rposition(|taken| *taken);
    if space.is_empty() || !is_clear || first.is_some_and(|first| first <= script) {
        return None;
    }
    if let (Some(first), Some(last)) = (first, last) {
        let is_positional = |at: usize| {
            !taken[at] && !words[at].starts_with('-') && !words[at - 1].starts_with('-')
        };
        // Words after `--` are not options.
        if (first..last).any(|at| is_positional(at) || words[at] == "--") {
            return None;
        }
    }
    let end = words.iter().skip(script).position(|word| word == "--").map(|at| script + at);
    let place = first.or(end).unwrap_or(words.len());
    let mut run = Vec::new();
    for (at, word) in words.iter().enumerate() {
        if at == place {
            run.push("{args}".to_owned());
        }
        if !taken[at] {
            run.push(as_it_is(word));
        }
    }
    if place == words.len() {
        run.push("{args}".to_owned());
    }
    let style = if joined > 0 && joined == given.len() { "equals" } else { "dashes" };
    Some(WithArgs { run, space, style })
}

/// The same for a script of Hydra, whose overrides are `name=value`; `None` if none is searched.
pub fn of_hydra(words: &[String], script: usize) -> Option<WithArgs> {
    let searched = |word: &String| {
        let (name, value) = word.split_once('=')?;
        let is_searched = placeholder::is_name(name) && ranges::is_hyperparameter(name);
        let range = ranges::around(name, value, None).filter(|_| is_searched)?;
        let default = Some(value.to_owned());
        Some(Searched { name: name.to_owned(), range, default })
    };
    let (mut run, mut space): (Vec<String>, Vec<Searched>) = (Vec::new(), Vec::new());
    for (at, word) in words.iter().enumerate() {
        match searched(word).filter(|_| at > script) {
            Some(searched) if space.iter().any(|known| known.name == searched.name) => return None,
            Some(searched) => {
                if space.is_empty() {
                    run.push("{args}".to_owned());
                }
                space.push(searched);
            }
            None => run.push(as_it_is(word)),
        }
    }
    (!space.is_empty()).then_some(WithArgs { run, space, style: "hydra" })
}
